//! [`Network`]: machines behind the uplinks of racks.
//!
//! Problem: shares, admission control and brokers need the contention points of a network, and not its
//! switches one by one: a machine's interface, the uplinks of a rack as one pipe, the fabric. Approach: tables of racks
//! and machines in canonical order, whether a policy lists racks or describes a topology ([`crate::graph`]).
//!
//! Ids are indices in an order that does not depend on the order of the file: machines by rack and name, racks by
//! name (numbers in names count by value, so `m2` comes before `m10`).
//!
//! Source: Parley §3.1 (contention points).

use crate::graph::{Graph, Routing};
use crate::names::{find, index_by_name};
use crate::switches::{Map, Offer};
use crate::topology::{Links, from_racks};
use std::net::IpAddr;
use std::sync::Arc;
use weir_units::{Bandwidth, Bytes, MachineId, PerDirection, RackId};

/// Racks and machines in canonical order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    racks: Vec<Rack>,
    machines: Vec<Machine>,
    /// Indices into `racks` and `machines`, sorted by name.
    racks_by_name: Vec<u32>,
    machines_by_name: Vec<u32>,
    port_buffers: PortBuffers,
    offer: Option<Offer>,
    map: Map,
    forwarders: bool,
}

/// The bytes that each port of a switch can queue, by contention point; `None` where the file does
/// not state them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortBuffers {
    /// Each port towards a machine.
    pub machine: Option<Bytes>,
    /// Each port of a rack's uplink, at both ends.
    pub rack: Option<Bytes>,
}

impl Network {
    /// A network from tables that are already in canonical order.
    pub fn new(racks: Vec<Rack>, machines: Vec<Machine>, port_buffers: PortBuffers) -> Self {
        let racks_by_name = index_by_name(racks.len(), |i| &racks[i as usize].name);
        let machines_by_name = index_by_name(machines.len(), |i| &machines[i as usize].name);
        let (offer, map, forwarders) = (None, Map::default(), false);
        Self { racks, machines, racks_by_name, machines_by_name, port_buffers, offer, map, forwarders }
    }
    /// The same network with the addresses of its machines, one for each.
    pub(crate) fn with_addresses(mut self, addresses: Vec<Option<IpAddr>>) -> Self {
        self.machines.iter_mut().zip(addresses).for_each(|(machine, address)| machine.address = address);
        self
    }
    /// The same network with the slots of its machines, one number for each.
    pub(crate) fn with_slots(mut self, slots: &[u32]) -> Self {
        self.machines.iter_mut().zip(slots).for_each(|(machine, slots)| machine.slots = *slots);
        self
    }
    /// The same network with the queues that its switches have, and the place of their DSCP maps.
    pub(crate) fn with_offer(mut self, offer: Option<Offer>, map: Map) -> Self {
        (self.offer, self.map) = (offer, map);
        self
    }
    /// The same network, with switches that are forwarders of credits or not.
    pub(crate) fn with_forwarders(self, forwarders: bool) -> Self {
        Self { forwarders, ..self }
    }
    /// Whether every port of the switches grants credits.
    pub fn forwarders(&self) -> bool {
        self.forwarders
    }
    /// The queues of the switches' ports; `None` where the file does not state them.
    pub fn offer(&self) -> Option<Offer> {
        self.offer
    }
    /// The place at which the switches map DSCP values to queues.
    pub fn map(&self) -> Map {
        self.map
    }
    /// The buffers of the switches' ports.
    pub fn port_buffers(&self) -> PortBuffers {
        self.port_buffers
    }
    /// All racks; a [`RackId`] is the index into this table.
    pub fn racks(&self) -> &[Rack] {
        &self.racks
    }
    /// All machines; a [`MachineId`] is the index into this table. Machines of a rack are adjacent.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }
    /// A rack by id.
    pub fn rack(&self, id: RackId) -> &Rack {
        &self.racks[id.index()]
    }
    /// A machine by id.
    pub fn machine(&self, id: MachineId) -> &Machine {
        &self.machines[id.index()]
    }
    /// The id of the rack with this name.
    pub fn rack_named(&self, name: &str) -> Option<RackId> {
        find(&self.racks_by_name, name, |i| &self.racks[i as usize].name).map(RackId)
    }
    /// The id of the machine with this name.
    pub fn machine_named(&self, name: &str) -> Option<MachineId> {
        find(&self.machines_by_name, name, |i| &self.machines[i as usize].name).map(MachineId)
    }
}

/// The links of a network, as far as its file states them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wiring {
    /// Racks on spine switches, with these links.
    Racks(Links),
    /// A topology; its hosts are in the order of the network's machines.
    Stated(Arc<Graph>),
}

impl Wiring {
    /// The graph of a network with these links.
    pub fn graph(&self, network: &Network) -> Arc<Graph> {
        match self {
            Self::Racks(links) => Arc::new(from_racks(network, links, Routing::Ecmp)),
            Self::Stated(graph) => Arc::clone(graph),
        }
    }
}

/// Machines behind one uplink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rack {
    name: String,
    uplink: PerDirection<Bandwidth>,
    machines: Vec<MachineId>,
}

impl Rack {
    /// A rack of these machines, ascending.
    pub fn new(name: String, uplink: PerDirection<Bandwidth>, machines: Vec<MachineId>) -> Self {
        Self { name, uplink, machines }
    }
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The speed to and from the fabric; several uplinks count as one pipe.
    pub fn uplink(&self) -> PerDirection<Bandwidth> {
        self.uplink
    }
    /// The machines, ascending.
    pub fn machines(&self) -> &[MachineId] {
        &self.machines
    }
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    name: String,
    rack: RackId,
    nic: PerDirection<Bandwidth>,
    address: Option<IpAddr>,
    slots: u32,
}

impl Machine {
    /// A machine of a rack. `address` is that of its agent.
    pub fn new(name: String, rack: RackId, nic: PerDirection<Bandwidth>, address: Option<IpAddr>) -> Self {
        Self { name, rack, nic, address, slots: 0 }
    }
    /// The name, unique over all racks.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The rack of the machine.
    pub fn rack(&self) -> RackId {
        self.rack
    }
    /// The speed of its network interface.
    pub fn nic(&self) -> PerDirection<Bandwidth> {
        self.nic
    }
    /// The virtual machines of tenants that it has room for.
    pub fn slots(&self) -> u32 {
        self.slots
    }
    /// The address at which its agent receives rack datagrams, if one is written.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }
}
