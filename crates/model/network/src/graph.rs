//! [`Graph`]: a network as data, independent of its topology or policy.
//!
//! Problem: names in a scenario (hosts, groups, links) must be resolved and checked before a run,
//! and the simulator must not depend on the kinds of topologies. Approach: every topology, and a
//! policy's network, becomes one graph of hosts, switches and cables; ids are indices into its
//! lists.

use std::collections::{BTreeMap, HashSet};
use weir_units::{Bandwidth, Bytes, Duration, MachineId};

/// Priority classes that a port can distinguish.
pub const PRIORITIES: usize = 8;

/// Hosts, switches and the cables between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// The hosts; [`MachineId`] is the index into this list.
    pub hosts: Vec<Host>,
    /// The names of the switches.
    pub switches: Vec<String>,
    /// Cables between switches.
    pub cables: Vec<Cable>,
    /// Names for several hosts, ascending each.
    pub groups: BTreeMap<String, Vec<MachineId>>,
    /// The choice of switches among shortest paths.
    pub routing: Routing,
    /// Sizes of packets.
    pub packets: Packets,
    /// Switches whose ports share one buffer; by switch, in bytes. `None`: each port has its own.
    pub shared_buffer: Option<SharedBuffer>,
    /// Hosts take up to this much longer, at random, to pass a packet to an idle interface.
    pub jitter: Duration,
}

/// A host on its cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The switch at the other end, an index into [`Graph::switches`].
    pub switch: usize,
    /// From the host.
    pub up: LinkSpec,
    /// To the host.
    pub down: LinkSpec,
    /// Whether a switch has the same name.
    pub is_namesake: bool,
}

/// A cable between two switches: a link each way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cable {
    /// One end, an index into [`Graph::switches`].
    pub a: usize,
    /// The other end.
    pub b: usize,
    /// The link from `a` to `b`.
    pub a_to_b: LinkSpec,
    /// The link from `b` to `a`.
    pub b_to_a: LinkSpec,
    /// Its number from 1 among several cables between these two switches, in their order; 0 if it is the only one.
    pub number: u32,
}

/// A one-way link and the queue in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSpec {
    /// The rate; more than zero.
    pub rate: Bandwidth,
    /// The propagation delay.
    pub delay: Duration,
    /// The queue. A host's own interface orders by it but drops nothing: hosts apply backpressure.
    pub queue: QueueSpec,
}

/// A queue in front of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSpec {
    /// The discipline.
    pub discipline: Discipline,
    /// The most bytes in the port, if the switch does not share its buffer.
    pub buffer: Bytes,
    /// A packet that may be marked is, when the queue that it joins holds more than this (ECN,
    /// instantaneous).
    pub mark: Option<Bytes>,
}

/// The next frame of a queue, and the frames that a full queue drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out; a frame that does not fit is dropped (drop-tail).
    Fifo,
    /// The first of the most urgent of 8 classes; class 0 is the most urgent.
    StrictPriority,
    /// Classes in turn, by weight, in bytes (deficit round robin).
    DeficitRoundRobin {
        /// The weight of each class, at least 1.
        weights: [u32; PRIORITIES],
        /// Bytes per weight and round, at least 1.
        quantum: u32,
    },
    /// The earliest packet of the most urgent flow; a full queue drops the least urgent packet
    /// (pFabric).
    PFabric,
}

/// A buffer shared by the ports of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedBuffer {
    /// Bytes of each switch, for all its ports.
    pub bytes: Bytes,
    /// A port may hold up to this many thousandths of the free space (dynamic thresholds, Choudhury
    /// and Hahne 1998).
    pub alpha_thousandths: u32,
}

impl SharedBuffer {
    /// The bytes that one port can hold while all others are empty: with a factor α, α of what is free, so α / (1 + α)
    /// of the buffer.
    pub fn of_one_port(&self) -> Bytes {
        let (all, alpha) = (u128::from(self.bytes.get()), u128::from(self.alpha_thousandths));
        Bytes::new((all * alpha / (1_000 + alpha)) as u64)
    }
}

/// The choice of a switch among shortest paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Routing {
    /// By a hash of the flow: its packets stay in order.
    #[default]
    Ecmp,
    /// For every packet anew.
    Spray,
    /// By a hash of the flow, so that both of its directions take the same links.
    Symmetric,
}

/// Sizes of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packets {
    /// The most payload bytes of a packet.
    pub payload: u32,
    /// Header bytes of every packet; an acknowledgement has only headers.
    pub headers: u32,
}

/// A one-way link by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkRef {
    /// From a host to its switch.
    Up(MachineId),
    /// From its switch to a host.
    Down(MachineId),
    /// Over the cable with this index in [`Graph::cables`], from `a` to `b`.
    Forward(usize),
    /// Over that cable, from `b` to `a`.
    Backward(usize),
}

impl Graph {
    /// The link's properties.
    ///
    /// # Panics
    /// If the reference is to another graph.
    pub fn link(&self, link: LinkRef) -> &LinkSpec {
        match link {
            LinkRef::Up(host) => &self.hosts[host.index()].up,
            LinkRef::Down(host) => &self.hosts[host.index()].down,
            LinkRef::Forward(cable) => &self.cables[cable].a_to_b,
            LinkRef::Backward(cable) => &self.cables[cable].b_to_a,
        }
    }

    /// The host with this name.
    pub fn host_named(&self, name: &str) -> Option<MachineId> {
        self.hosts.iter().position(|host| host.name == name).map(|at| MachineId(at as u32))
    }

    /// Sets [`Host::is_namesake`] of all hosts, for [`Graph::link_name`].
    pub(crate) fn mark_namesakes(&mut self) {
        let switches: HashSet<&str> = self.switches.iter().map(|name| &**name).collect();
        for host in &mut self.hosts {
            host.is_namesake = switches.contains(&*host.name);
        }
    }

    /// The link's name, which no other link of the graph has: `from->to`, or `from->to#2` for the second of several
    /// cables between two switches. A host with the name of a switch is `name#host` in it.
    pub fn link_name(&self, link: LinkRef) -> String {
        let end = |host: &Host| {
            // Names of hosts and switches have no `#`.
            if host.is_namesake { format!("{}#host", host.name) } else { host.name.clone() }
        };
        let (from, to, number) = match link {
            LinkRef::Up(host) => {
                let host = &self.hosts[host.index()];
                (&end(host), &self.switches[host.switch], 0)
            }
            LinkRef::Down(host) => {
                let host = &self.hosts[host.index()];
                (&self.switches[host.switch], &end(host), 0)
            }
            LinkRef::Forward(cable) => {
                let cable = &self.cables[cable];
                (&self.switches[cable.a], &self.switches[cable.b], cable.number)
            }
            LinkRef::Backward(cable) => {
                let cable = &self.cables[cable];
                (&self.switches[cable.b], &self.switches[cable.a], cable.number)
            }
        };
        match number {
            0 => format!("{from}->{to}"),
            _ => format!("{from}->{to}#{number}"),
        }
    }

    /// All links, hosts' first.
    pub fn links(&self) -> impl Iterator<Item = LinkRef> + '_ {
        let hosts = (0..self.hosts.len() as u32).map(MachineId);
        let cables = 0..self.cables.len();
        hosts
            .flat_map(|host| [LinkRef::Up(host), LinkRef::Down(host)])
            .chain(cables.flat_map(|cable| [LinkRef::Forward(cable), LinkRef::Backward(cable)]))
    }
}
