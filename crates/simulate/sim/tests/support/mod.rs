//! Small networks and a loop that runs them, shared by the tests. Every checker is on.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod scenarios;
pub(crate) mod shaped;

use weir_network::graph::{Discipline, LinkSpec, Packets, QueueSpec};
use weir_results::FlowRecord;
use weir_sim::checkers::{self, Checkers};
use weir_sim::{FlowId, FlowSpec, HostId, PortId, ServiceIndex, SimTime, Source, Sources, Stop, World};
use weir_transport::Parameters;
use weir_units::{Bandwidth, Bytes, Duration};
use weir_workload::Spec;

/// Ethernet, IPv4 and TCP with time stamps in 1500 B packets.
pub(crate) const SIZES: Packets = Packets { payload: 1448, headers: 66 };

/// A first-in first-out link.
pub(crate) fn link(rate: Bandwidth, delay: Duration, buffer: u64) -> LinkSpec {
    queued(rate, delay, QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(buffer), mark: None })
}

pub(crate) fn queued(rate: Bandwidth, delay: Duration, queue: QueueSpec) -> LinkSpec {
    LinkSpec { rate, delay, queue }
}

/// Senders and receivers on two switches with one link between them, as (world, pairs, the
/// bottleneck's port).
pub(crate) fn dumbbell(
    pairs: u32,
    sizes: Packets,
    edge: LinkSpec,
    bottleneck: LinkSpec,
) -> (World<Checkers>, Vec<(HostId, HostId)>, PortId) {
    let mut world = World::new(0, sizes, Checkers::default());
    let (left, right) = (world.add_switch(), world.add_switch());
    let from: Vec<HostId> = (0..pairs).map(|_| world.add_host(left, edge, edge)).collect();
    let to: Vec<HostId> = (0..pairs).map(|_| world.add_host(right, edge, edge)).collect();
    let (port, _) = world.connect(left, right, bottleneck, bottleneck);
    world.compute_routes();
    (world, from.into_iter().zip(to).collect(), port)
}

/// A flow from `from` to `to` that starts at 0.
pub(crate) fn flow(from: HostId, to: HostId, size: Option<u64>) -> FlowSpec {
    FlowSpec {
        from,
        to,
        service: ServiceIndex(0),
        priority: 0,
        start: SimTime::ZERO,
        stop: SimTime::NEVER,
        size,
        deadline: None,
        hash: from.0 * 1000 + to.0,
    }
}

/// Runs to `until` and checks.
pub(crate) fn run(world: &mut World<Checkers>, until: SimTime) {
    while world.run_until(until) == Stop::Over {
        while world.next_over().is_some() {}
    }
    checkers::check(world);
}

pub(crate) fn delivered(world: &World<Checkers>, flow: FlowId) -> u64 {
    world.flow(flow).delivered().get()
}

/// Runs one workload until all of its flows are over, and returns their records by id.
pub(crate) fn complete(
    world: &mut World<Checkers>,
    workload: Spec,
    transport: Parameters,
    seed: u64,
) -> Vec<FlowRecord> {
    let source = Source {
        workload,
        transport,
        index: ServiceIndex(0),
        priority: 0,
        spread: SimTime::ZERO,
        service: None,
        connections: None,
        by_size: Vec::new(),
        quotas: None,
    };
    world.set_short_host_queues();
    let mut sources = Sources::new(vec![source], seed, None);
    let mut records = Vec::new();
    while !sources.is_done() {
        match world.run_until(sources.next().unwrap_or(SimTime::NEVER)) {
            Stop::Over => {
                while let Some(id) = world.next_over() {
                    records.extend(sources.on_over(id, world));
                }
            }
            _ => sources.start_due(world).expect("there is no policy"),
        }
    }
    checkers::check(world);
    records.sort_by_key(|record| record.id);
    records
}
