//! Limits of pairs of machines: the backend of [`weir_pair_rates`], for any of its systems.
//!
//! ```text
//! sending host                                                       receiving host
//! flow ─► queue of the pair ─► limiters ─► interface ─► … ─► bytes and marks of the pair ─► flow
//!          (token buckets) ◄──────────── report, each interval ────────────┘
//! ```
//!
//! Problem: the laws are of one pair and have no packets. Approach, for every host, tenant and peer:
//! - **sending** (`send`): the first packet makes a slot with the law's state and its token buckets, which are the
//!   datapath's limiters. A packet without tokens waits in the slot. With two buckets a packet has the class of the
//!   bucket that it used, and the first bytes of flows wait in a queue of their own.
//! - **receiving** (`receive`): packets, marks and losses are counted. The first packet of a pair after the interval of
//!   reports makes a report, a frame of 64 B: the percentage of bytes marked or lost, and the receiver's part of the
//!   pair's guarantee.
//! - Every interval of the system, at a time that depends on the host, each host closes its [`Partition`]s.
//!
//! Packets of tenants may be marked by switches (ECT); marks are hidden from transports that do not use ECN. Other
//! services' packets pass.
//!
//! Worked example: two hosts with 94 Mb/s each send to a third with 94 Mb/s. The first reports bring the receiver's
//! part, 47 Mb/s each.

mod receive;
mod send;

use crate::ids::{HostId, ServiceIndex, SlotId};
use crate::observer::Observer;
use crate::packet::{List, OTHERS};
use crate::slot_table::SlotTable;
use crate::timer::Timer;
use crate::world::World;
use std::collections::BTreeMap;
use weir_datapath::Limiter;
use weir_pair_rates::{Division, PairLaw, PairSystem, Partition, Rates};
use weir_units::{Bandwidth, MachineId, SimTime};

/// Groups of hosts that close their partitions at different times: hosts are not synchronised.
const PHASES: u32 = 8;

/// The pairs of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    system: Option<PairSystem>,
    /// By host and service.
    ends: Vec<End>,
    slots: Vec<Slot>,
    free: Vec<SlotId>,
}

/// A tenant at a host.
#[derive(Debug)]
struct End {
    /// Whether pairs that begin here are limited.
    on: bool,
    /// By destination, its slot.
    slots: SlotTable,
    sending: Partition,
    receiving: Partition,
    /// By source, what arrived since the last report.
    sources: BTreeMap<MachineId, Source>,
}

/// Bytes of a pair since the last report.
#[derive(Debug, Clone, Copy)]
struct Source {
    since: SimTime,
    /// Those whose marks count, lost ones included.
    bytes: u64,
    /// Those marked or lost.
    marked: u64,
}

/// The sending side of a pair.
#[derive(Debug)]
struct Slot {
    law: PairLaw,
    committed: Limiter,
    excess: Option<Limiter>,
    /// The first bytes of flows, if there are two buckets, and all others.
    small: List,
    large: List,
    host: HostId,
    service: ServiceIndex,
    to: HostId,
    release: Timer,
}

impl Pairs {
    /// Whether pairs are limited.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.system.is_some()
    }
}

impl<O: Observer> World<O> {
    /// Limits pairs of machines under a system. `hoses` are the tenants' guarantees: host, service, and what the
    /// service may send and receive there. Call it before the first event.
    pub(crate) fn set_pairs(&mut self, system: PairSystem, hoses: &[(HostId, ServiceIndex, Bandwidth)]) {
        assert!(!self.started && !self.pairs.is_on(), "pairs are configured once, before the run");
        self.pairs.system = Some(system);
        let end = |_| {
            let [sending, receiving] = [(); 2].map(|()| Partition::new(Bandwidth::ZERO, system.division()));
            End { on: false, slots: SlotTable::default(), sending, receiving, sources: BTreeMap::new() }
        };
        self.pairs.ends = (0..self.hosts.len() * self.service_count).map(end).collect();
        for host in &mut self.hosts {
            // Packets of the host no longer go straight to the interface.
            host.limited += 1;
            if system.has_priorities() {
                // The interface is the first link of the network.
                self.queues[host.queue as usize].serve_first(OTHERS);
            }
        }
        for (host, service, hose) in hoses {
            let end = &mut self.pairs.ends[host.index() * self.service_count + service.index()];
            end.on = true;
            end.sending = Partition::new(*hose, system.division());
            end.receiving = Partition::new(*hose, Division::Demand);
            if system.limits_hose() {
                self.set_limit(*host, *service, *hose);
            }
        }
    }

    /// Switches the limits of a tenant's pairs at a host on or off, from the next packet on. It has no effect without
    /// pairs.
    pub(crate) fn set_pairs_on(&mut self, host: HostId, service: ServiceIndex, on: bool) {
        let at = host.index() * self.service_count + service.index();
        let Some(end) = self.pairs.ends.get_mut(at).filter(|end| end.on != on) else { return };
        end.on = on;
        if !on {
            // Nothing is counted while they are off. Pairs that ended meanwhile would have parts of those that begin
            // when they are on again.
            end.sources.clear();
            end.receiving.clear();
            end.sending.clear().into_iter().for_each(|peer| self.end_pair(host, service, peer));
        }
    }

    /// The rates of a pair; `None` if it is not active.
    pub fn pair_rates(&self, from: HostId, service: ServiceIndex, to: HostId) -> Option<Rates> {
        let end = self.pairs.ends.get(from.index() * self.service_count + service.index())?;
        Some(self.pairs.slots[end.slots.get(to.0)? as usize].law.rates())
    }
}

/// The times at which hosts close their partitions.
#[derive(Debug)]
pub(crate) struct PairClock {
    step: SimTime,
    next: SimTime,
    phase: u32,
}

impl PairClock {
    pub(crate) fn new(system: PairSystem) -> Self {
        let step = SimTime::from_picos(SimTime::from(system.partition_interval()).picos() / u64::from(PHASES));
        Self { step, next: step, phase: 0 }
    }

    /// The time of the next action.
    pub(crate) fn next(&self) -> SimTime {
        self.next
    }

    /// Performs the due actions.
    pub(crate) fn on_time<O: Observer>(&mut self, world: &mut World<O>) {
        while self.next <= world.now() {
            (self.phase..world.host_count() as u32)
                .step_by(PHASES as usize)
                .for_each(|host| world.partition(HostId(host)));
            self.phase = (self.phase + 1) % PHASES;
            self.next += self.step;
        }
    }
}

/// The guarantees of tenants at their hosts: what a link needs of a hose there.
pub(crate) fn hoses(
    tenancy: &weir_scenario::Tenancy,
    services: &[ServiceIndex],
) -> Vec<(HostId, ServiceIndex, Bandwidth)> {
    let of = |(machines, service): (&Vec<(MachineId, Bandwidth)>, &ServiceIndex)| {
        let hose = |(machine, reserved): &(MachineId, Bandwidth)| (HostId(machine.0), *service, *reserved);
        machines.iter().map(hose).filter(|(.., hose)| *hose > Bandwidth::ZERO).collect::<Vec<_>>()
    };
    tenancy.machines.iter().zip(services).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::FlowSpec;
    use crate::observer::Silent;
    use weir_network::graph::{Discipline, LinkSpec, Packets, QueueSpec};
    use weir_transport::{Parameters, udp};
    use weir_units::{Bytes, Duration};

    const SERVICE: ServiceIndex = ServiceIndex(0);

    /// A host that sends to two others from the beginning, to the second one until 90 ms, under static reservations of
    /// 100 Mb/s; partitions are closed each 50 ms.
    fn world() -> (World<Silent>, PairClock, [HostId; 3]) {
        let mut world = World::new(1, Packets { payload: 1448, headers: 66 }, Silent);
        let switch = world.add_switch();
        let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(500_000), mark: None };
        let link = LinkSpec { rate: Bandwidth::from_gbps(1), delay: Duration::from_micros(10), queue };
        let hosts = [(); 3].map(|()| world.add_host(switch, link, link));
        world.compute_routes();
        world.set_pairs(PairSystem::Static, &hosts.map(|host| (host, SERVICE, Bandwidth::from_mbps(100))));
        let endless = Parameters::Udp(udp::Parameters::default());
        for (to, stop) in [(hosts[1], SimTime::NEVER), (hosts[2], SimTime::from_millis(90))] {
            let (from, service, start, hash) = (hosts[0], SERVICE, SimTime::ZERO, to.0);
            let spec = FlowSpec { from, to, service, priority: 0, start, stop, size: None, deadline: None, hash };
            world.add_flow(spec, &endless);
        }
        (world, PairClock::new(PairSystem::Static), hosts)
    }

    fn run(world: &mut World<Silent>, clock: &mut PairClock, millis: u64) {
        while world.now() < SimTime::from_millis(millis) {
            let next = clock.next().min(SimTime::from_millis(millis));
            while world.run_until(next) != crate::Stop::Limit {
                while world.next_over().is_some() {}
            }
            clock.on_time(world);
        }
    }

    #[test]
    fn pairs_that_ended_while_limits_were_off_have_no_parts() {
        let (mut world, mut clock, [from, first, second]) = world();
        run(&mut world, &mut clock, 80);
        let half = Some(Rates::One(Bandwidth::from_mbps(50)));
        assert_eq!([first, second].map(|to| world.pair_rates(from, SERVICE, to)), [half, half]);
        world.set_pairs_on(from, SERVICE, false);
        run(&mut world, &mut clock, 200);
        assert_eq!([first, second].map(|to| world.pair_rates(from, SERVICE, to)), [None, None]);
        world.set_pairs_on(from, SERVICE, true);
        // Before a partition is closed.
        run(&mut world, &mut clock, 201);
        let all = Some(Rates::One(Bandwidth::from_mbps(100)));
        assert_eq!([first, second].map(|to| world.pair_rates(from, SERVICE, to)), [all, None]);
    }
}
