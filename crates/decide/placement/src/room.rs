//! The bandwidth and the slots that a policy leaves to tenants.
//!
//! Problem: tenants reserve bandwidth of cables, and services have guarantees at machines and racks. Approach:
//! services come first. A machine's minima are of its own cable; a rack's minima are spread over its uplinks by their
//! rates, and above them over all cables that lead upward from the switches with the same machines below; bounded
//! latency levels and services with credits have their part of every port. Tenants can reserve the rest, of each cable
//! as much as its narrower direction has.
//!
//! Example: a rack `min` of 10 Gb/s over four uplinks of 40 Gb/s leaves 37.5 Gb/s of each to tenants.
//!
//! Source: QShare §II-A; Parley §3.1 (minima at machines and racks).

use crate::fabric::{CableId, Fabric, Node, Root, SwitchId};
use crate::ledger::Ledger;
use weir_network::graph::Graph;
use weir_policy::{Place, Policy, beside_levels};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, RackId};

impl Ledger {
    /// The bandwidth and slots that a policy leaves to tenants; `graph` is that of the policy.
    pub fn of_policy(policy: &Policy, graph: &Graph, fabric: &Fabric) -> Self {
        let capacity: Vec<Bandwidth> = rooms(policy, graph, fabric).iter().map(|room| room.tenants).collect();
        let slots = policy.network().machines().iter().map(|machine| machine.slots()).collect();
        Self::new(fabric, &capacity, slots)
    }
}

/// The division of a cable among levels, credits, services and tenants, in the direction that leaves tenants less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CableRoom {
    /// The smaller rate of its directions.
    pub rate: Bandwidth,
    /// The part that bounded latency levels may fill.
    pub levels: Bandwidth,
    /// The part of services with credits.
    pub credits: Bandwidth,
    /// The guarantees of services.
    pub services: Bandwidth,
    /// The part that nothing may use: caps, and interfaces and uplinks that the policy states as slower than the cable.
    pub capped: Bandwidth,
    /// The part that tenants can reserve.
    pub tenants: Bandwidth,
}

/// By cable: its division. `graph` is that of the policy.
pub fn rooms(policy: &Policy, graph: &Graph, fabric: &Fabric) -> Vec<CableRoom> {
    let mut room = Room::new(policy, graph, fabric);
    room.machines();
    let guarantees = room.racks();
    room.above_racks(&guarantees);
    let of_cable = |((rate, tenants), services): ((Bandwidth, u64), u64)| {
        let beside = beside_levels(rate, policy.levels().and_then(|levels| levels.reserved()));
        let rest = policy.beside_levels_and_credits(rate);
        let (levels, credits) = (rate.saturating_sub(beside), beside.saturating_sub(rest));
        let tenants = Bandwidth::from_bps(tenants);
        let services = Bandwidth::from_bps(services).min(rest.saturating_sub(tenants));
        let capped = rest.saturating_sub(services).saturating_sub(tenants);
        CableRoom { rate, levels, credits, services, capped, tenants }
    };
    fabric
        .rates(graph)
        .into_iter()
        .zip(room.free.iter().copied())
        .zip(room.services.iter().copied())
        .map(of_cable)
        .collect()
}

/// By cable: the bandwidth that services' guarantees and caps take from tenants. Its part of each port is in the queue
/// that tenants share.
pub fn of_services(policy: &Policy, graph: &Graph, fabric: &Fabric) -> Vec<Bandwidth> {
    let taken = |room: CableRoom| Bandwidth::from_bps(room.services.bps() + room.capped.bps());
    rooms(policy, graph, fabric).into_iter().map(taken).collect()
}

struct Room<'a> {
    policy: &'a Policy,
    graph: &'a Graph,
    fabric: &'a Fabric,
    /// By cable, bit/s: the bandwidth that tenants can reserve, and the guarantees of services in the direction where
    /// that is least.
    free: Vec<u64>,
    services: Vec<u64>,
}

impl<'a> Room<'a> {
    fn new(policy: &'a Policy, graph: &'a Graph, fabric: &'a Fabric) -> Self {
        let rates = fabric.rates(graph);
        let free: Vec<u64> = rates.into_iter().map(|rate| policy.beside_levels_and_credits(rate).bps()).collect();
        Self { policy, graph, fabric, services: vec![0; free.len()], free }
    }

    /// The sum of the services' minima at a place; tenants have none.
    fn minima(&self, place: Place, direction: Direction) -> u64 {
        let roots = self.policy.services().roots().iter();
        roots.map(|id| self.policy.share_at(*id, place, direction).min.bps()).sum()
    }

    /// Leaves at most `bps` of a cable to tenants, in a direction in which services are guaranteed `services`.
    fn at_most(&mut self, cable: CableId, bps: u64, services: u64) {
        let (free, guaranteed) = (&mut self.free[cable.index()], &mut self.services[cable.index()]);
        if (bps, std::cmp::Reverse(services)) < (*free, std::cmp::Reverse(*guaranteed)) {
            (*free, *guaranteed) = (bps, services);
        }
    }

    fn machines(&mut self) {
        let caps = self.policy.caps()[ContentionPoint::Machine];
        for machine in (0..self.fabric.machines() as u32).map(MachineId) {
            for direction in Direction::ALL {
                let speed = self.policy.network().machine(machine).nic()[direction].min(caps[direction]);
                let rest = self.policy.beside_levels_and_credits(speed).bps();
                let minima = self.minima(Place::Machine(machine), direction);
                self.at_most(CableId(machine.0), rest.saturating_sub(minima), minima);
            }
        }
    }

    /// Returns the larger direction of the minima of each rack.
    fn racks(&mut self) -> Vec<u64> {
        let racks = (0..self.policy.network().racks().len() as u32).map(RackId);
        racks
            .map(|rack| Direction::ALL.map(|direction| self.rack(rack, direction)).into_iter().max().unwrap_or(0))
            .collect()
    }

    fn rack(&mut self, rack: RackId, direction: Direction) -> u64 {
        let minima = self.minima(Place::Rack(rack), direction);
        let capacity = self.policy.beside_levels_and_credits(self.policy.rack_capacity(rack, direction)).bps();
        let links = self.graph.rack_uplinks(rack, direction);
        let all: u128 = links.iter().map(|link| u128::from(self.graph.link(*link).rate.bps())).sum();
        for link in links {
            let rate = u128::from(self.graph.link(link).rate.bps());
            let part = u128::from(capacity.saturating_sub(minima)) * rate / all;
            let guaranteed = (u128::from(minima) * rate).div_ceil(all);
            let bps = |part: u128| u64::try_from(part).unwrap_or(u64::MAX);
            self.at_most(self.fabric.cable(link), bps(part), bps(guaranteed));
        }
        minima
    }

    /// Cables from switches that have no machines of their own.
    fn above_racks(&mut self, guarantees: &[u64]) {
        let switches = (0..self.fabric.switches() as u32).map(SwitchId);
        let mut upward = vec![0u64; self.fabric.sets()];
        let mut cables = Vec::new();
        for parent in switches {
            for down in self.fabric.below(Root::Switch(parent), parent) {
                let Node::Switch(child) = down.to else { continue };
                if self.fabric.has_machines(child) {
                    continue;
                }
                let set = self.fabric.set_of(child);
                upward[set] += 1;
                cables.push((down.cable, set));
            }
        }
        let mut below = vec![0u64; self.fabric.sets()];
        for (rack, guarantee) in self.policy.network().racks().iter().zip(guarantees) {
            // The machines of a rack are in the same sets, but for that of the rack itself.
            let Some(machine) = rack.machines().first() else { continue };
            self.fabric.sets_of(*machine).iter().for_each(|set| below[*set as usize] += guarantee);
        }
        for (cable, set) in cables {
            let (rate, guaranteed) = (self.free[cable.index()], below[set].div_ceil(upward[set]));
            self.at_most(cable, rate.saturating_sub(guaranteed), guaranteed);
        }
    }
}
