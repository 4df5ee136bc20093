//! How fast the engine is: packet-hops per second of whole networks, and insertions and removals of
//! the event queue.
//!
//! `cargo bench -p weir-sim --bench engine`. An item of a network's row is one packet carried over
//! one link, so its throughput is packet-hops per second; the divan table shows it as items per
//! second.

use divan::Bencher;
use divan::counter::ItemsCount;
use weir_network::graph::{Discipline, LinkSpec, Packets, QueueSpec};
use weir_sim::events::{Event, EventQueue};
use weir_sim::{FlowSpec, HostId, PacketId, ServiceIndex, Silent, SimTime, World};
use weir_transport::Parameters;
use weir_units::{Bandwidth, Bytes, Duration};

fn main() {
    divan::main();
}

fn link(gbps: u64) -> LinkSpec {
    let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(256_000), mark: None };
    LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::from_micros(1), queue }
}

fn add_flow(world: &mut World<Silent>, from: HostId, to: HostId) {
    let hash = from.0 * 7919 + to.0 * 104_729;
    let start = SimTime::from_nanos(u64::from(hash % 1_000_000));
    let stop = SimTime::NEVER;
    let service = ServiceIndex(0);
    let spec = FlowSpec { from, to, service, priority: 0, start, stop, size: None, deadline: None, hash };
    world.add_flow(spec, &Parameters::default());
}

/// `pairs` senders and receivers at 10 Gb/s with one 10 Gb/s link between them, a long flow for
/// each pair.
fn dumbbell(pairs: u32) -> World<Silent> {
    let mut world = World::new(1, Packets { payload: 1448, headers: 66 }, Silent);
    let (left, right) = (world.add_switch(), world.add_switch());
    let from: Vec<HostId> = (0..pairs).map(|_| world.add_host(left, link(10), link(10))).collect();
    let to: Vec<HostId> = (0..pairs).map(|_| world.add_host(right, link(10), link(10))).collect();
    world.connect(left, right, link(10), link(10));
    world.compute_routes();
    for (from, to) in from.into_iter().zip(to) {
        add_flow(&mut world, from, to);
    }
    world
}

/// 9 racks of 16 hosts at 10 Gb/s, 4 spines at 40 Gb/s (QJump's Fig 9 network); every host sends to
/// one in each other rack.
fn leaf_spine() -> World<Silent> {
    let mut world = World::new(1, Packets { payload: 1448, headers: 66 }, Silent);
    let spines: Vec<_> = (0..4).map(|_| world.add_switch()).collect();
    let mut racks = Vec::new();
    for _ in 0..9 {
        let leaf = world.add_switch();
        racks.push((0..16).map(|_| world.add_host(leaf, link(10), link(10))).collect::<Vec<_>>());
        for &spine in &spines {
            world.connect(leaf, spine, link(40), link(40));
        }
    }
    world.compute_routes();
    for (i, from) in racks.iter().enumerate() {
        for (j, to) in racks.iter().enumerate().filter(|&(j, _)| j != i) {
            for host in 0..16 {
                add_flow(&mut world, from[host], to[(host + j) % 16]);
            }
        }
    }
    world
}

fn bench_world(bencher: Bencher<'_, '_>, build: impl Fn() -> World<Silent> + Sync, time: SimTime) {
    let mut probe = build();
    probe.run_until(time);
    bencher.counter(ItemsCount::new(probe.counters().packet_hops)).with_inputs(&build).bench_local_values(
        |mut world| {
            world.run_until(time);
            world.counters()
        },
    );
}

#[divan::bench(args = [2, 32], sample_count = 10)]
fn dumbbell_packet_hops(bencher: Bencher<'_, '_>, pairs: u32) {
    bench_world(bencher, || dumbbell(pairs), SimTime::from_millis(200));
}

#[divan::bench(sample_count = 10)]
fn leaf_spine_packet_hops(bencher: Bencher<'_, '_>) {
    bench_world(bencher, leaf_spine, SimTime::from_millis(5));
}

/// Takes the first event and schedules it again a little later, as a link does: `pending` events in
/// the queue.
#[divan::bench(args = [16, 256, 4096], sample_count = 20)]
fn events_pop_and_push(bencher: Bencher<'_, '_>, pending: u32) {
    const ROUNDS: u64 = 100_000;
    bencher
        .counter(ItemsCount::new(ROUNDS))
        .with_inputs(|| {
            let mut events = EventQueue::new();
            for id in 0..pending {
                events.push(SimTime::from_picos(u64::from(id) * 977 % 1_211_200), Event::Arrive(PacketId(id)));
            }
            events
        })
        .bench_local_values(|mut events| {
            for round in 0..ROUNDS {
                if let Some((time, event)) = events.pop_until(SimTime::NEVER) {
                    // Times of one to two full frames at 10 Gb/s, in no order.
                    events.push(time + SimTime::from_picos(1_211_200 + round * 7919 % 1_211_200), event);
                }
            }
            events
        });
}
