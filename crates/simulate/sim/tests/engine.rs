//! Whole networks against formulas, with every checker on.

use weir_network::graph::{Discipline, LinkSpec, Packets, QueueSpec};
use weir_sim::checkers::{self, Checkers};
use weir_sim::{FlowId, FlowSpec, HostId, ServiceIndex, SimTime, Stop, World};
use weir_transport::Parameters;
use weir_units::{Bandwidth, Bytes, Duration};

const SERVICE: ServiceIndex = ServiceIndex(0);
const OTHER: ServiceIndex = ServiceIndex(1);

fn link(rate: Bandwidth) -> LinkSpec {
    buffered(rate, 256_000)
}

fn buffered(rate: Bandwidth, buffer: u64) -> LinkSpec {
    let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(buffer), mark: None };
    LinkSpec { rate, delay: Duration::from_micros(10), queue }
}

fn add(world: &mut World<Checkers>, spec: FlowSpec) -> FlowId {
    world.add_flow(spec, &Parameters::default())
}

fn flow(from: HostId, to: HostId, service: ServiceIndex, start: SimTime) -> FlowSpec {
    let hash = from.0 * 1000 + to.0;
    FlowSpec { from, to, service, priority: 0, start, stop: SimTime::NEVER, size: None, deadline: None, hash }
}

/// `senders` hosts on one switch, as many receivers on another, one link between them.
fn dumbbell(senders: u32, edge: Bandwidth, bottleneck: LinkSpec) -> (World<Checkers>, Vec<(HostId, HostId)>) {
    let mut world = World::new(2, Packets { payload: 1448, headers: 66 }, Checkers::default());
    let (left, right) = (world.add_switch(), world.add_switch());
    let from: Vec<HostId> = (0..senders).map(|_| world.add_host(left, link(edge), link(edge))).collect();
    let to: Vec<HostId> = (0..senders).map(|_| world.add_host(right, link(edge), link(edge))).collect();
    world.connect(left, right, bottleneck, bottleneck);
    world.compute_routes();
    (world, from.into_iter().zip(to).collect())
}

fn run(world: &mut World<Checkers>, until: SimTime) {
    while world.run_until(until) == Stop::Over {
        world.next_over();
    }
    checkers::check(world);
}

fn delivered(world: &World<Checkers>, flow: FlowId) -> u64 {
    world.flow(flow).delivered().get()
}

#[test]
fn an_idle_network_takes_the_time_of_the_formula() {
    // Three links: 1514 B at 10 Gb/s (1,211,200 ps), at 300 Mb/s (40,373,333 1/3, rounded up), at
    // 10 Gb/s; 10 µs each.
    let (mut world, pairs) = dumbbell(1, Bandwidth::from_gbps(10), link(Bandwidth::from_mbps(300)));
    let (from, to) = pairs[0];
    let one = add(&mut world, FlowSpec { size: Some(1448), ..flow(from, to, SERVICE, SimTime::from_secs(1)) });
    // Two segments: the second leaves the bottleneck one transmission after the first.
    let two = add(&mut world, FlowSpec { size: Some(2896), ..flow(from, to, SERVICE, SimTime::from_secs(2)) });
    run(&mut world, SimTime::from_secs(3));
    let ends = 1_211_200 + 40_373_334 + 1_211_200 + 3 * 10_000_000;
    assert_eq!(world.flow(one).finished(), Some(SimTime::from_secs(1) + SimTime::from_picos(ends)));
    // 2 · 1514 B · 8 / 300 Mb/s = 80,746,666 2/3 ps for both.
    let ends = 1_211_200 + 80_746_667 + 1_211_200 + 3 * 10_000_000;
    assert_eq!(world.flow(two).finished(), Some(SimTime::from_secs(2) + SimTime::from_picos(ends)));
    // One data packet and one (delayed) acknowledgement, two data packets and one: five packets,
    // three links each.
    assert_eq!(world.counters().packet_hops, 15);
}

#[test]
fn two_flows_share_a_bottleneck_and_fill_it() {
    let bottleneck = buffered(Bandwidth::from_mbps(100), 150_000);
    let (mut world, pairs) = dumbbell(2, Bandwidth::from_gbps(1), bottleneck);
    // Without noise one of them would get three times the other's share: a phase effect.
    world.set_jitter(SimTime::from_micros(121), 1);
    let flows: Vec<FlowId> = (0..)
        .zip(&pairs)
        .map(|(i, &(from, to))| add(&mut world, flow(from, to, SERVICE, SimTime::from_micros(i * 370))))
        .collect();
    run(&mut world, SimTime::from_secs(10));
    let before: Vec<u64> = flows.iter().map(|&id| delivered(&world, id)).collect();
    run(&mut world, SimTime::from_secs(70));
    let got: Vec<u64> = flows.iter().zip(before).map(|(&id, before)| delivered(&world, id) - before).collect();
    let sum: u64 = got.iter().sum();
    // The most goodput is 1448/1514 of the rate.
    let most = 60u64 * 100_000_000 / 8 * 1448 / 1514;
    // Segments that waited for a gap to be filled at the start of the minute count when they are
    // delivered.
    let most = most + 2 * 150_000;
    assert!(sum <= most && sum as f64 > 0.98 * most as f64, "{sum} of {most}");
    let part = got[0] as f64 / sum as f64;
    assert!((0.42..0.58).contains(&part), "{got:?}");
    assert!(world.counters().dropped > 0, "the bottleneck must have been full at times");
}

#[test]
fn a_small_buffer_is_never_exceeded() {
    // 32 flows into a buffer of 20 frames. The checker computes the occupancy; this test checks
    // that it was at its limit.
    let bottleneck = buffered(Bandwidth::from_mbps(200), 30_280);
    let (mut world, pairs) = dumbbell(32, Bandwidth::from_gbps(1), bottleneck);
    for (i, &(from, to)) in (0..).zip(&pairs) {
        add(&mut world, flow(from, to, SERVICE, SimTime::from_micros(i * 13)));
    }
    run(&mut world, SimTime::from_secs(5));
    assert!(world.counters().dropped > 100);
    let sum: u64 = world.flows().map(|(_, flow)| flow.delivered().get()).sum();
    let most = 5u64 * 200_000_000 / 8 * 1448 / 1514;
    assert!(sum as f64 > 0.9 * most as f64, "{sum} of {most}");
}

#[test]
fn a_limiter_holds_a_service_at_its_rate() {
    let (mut world, pairs) = dumbbell(1, Bandwidth::from_gbps(1), link(Bandwidth::from_gbps(1)));
    let (from, to) = pairs[0];
    for i in 0..5 {
        add(&mut world, flow(from, to, SERVICE, SimTime::from_micros(i)));
    }
    let unlimited = add(&mut world, flow(from, to, OTHER, SimTime::ZERO));
    // 87,654,321 b/s: no byte, packet or second is a whole number of anything.
    let rate = Bandwidth::from_bps(87_654_321);
    world.set_limit(from, SERVICE, rate);
    run(&mut world, SimTime::from_secs(1));
    let mut before = world.host_bytes(from, SERVICE).tx.get();
    let rest = delivered(&world, unlimited);
    for second in 2..=5 {
        run(&mut world, SimTime::from_secs(second));
        let now = world.host_bytes(from, SERVICE).tx.get();
        let (sent, exact) = (now - before, rate.bps() / 8);
        assert!(sent.abs_diff(exact) <= 2 * 1514, "second {second}: {sent} B at a limit of {exact} B/s");
        before = now;
    }
    // The limiter is lossless: its senders wait, and the other service has the rest of the
    // interface.
    assert_eq!(world.counts(world.interface(from)).dropped[0].packets, 0);
    let rest = delivered(&world, unlimited) - rest;
    assert!(rest as f64 > 4.0 * 0.85 * 125e6 * 1448.0 / 1514.0, "{rest}");
    // Backpressure: each of the five flows keeps about a millisecond or two segments in its host.
    assert!(world.waiting(from, SERVICE) <= 5 * 8, "{}", world.waiting(from, SERVICE));
}

#[test]
fn limits_change_and_are_lifted() {
    let (mut world, pairs) = dumbbell(1, Bandwidth::from_gbps(1), link(Bandwidth::from_gbps(1)));
    let (from, to) = pairs[0];
    let id = add(&mut world, flow(from, to, SERVICE, SimTime::ZERO));
    let mut got = Vec::new();
    for (second, limit) in [(1, Bandwidth::from_bps(200_000)), (2, Bandwidth::from_mbps(50)), (3, Bandwidth::UNLIMITED)]
    {
        world.set_limit(from, SERVICE, limit);
        assert_eq!(world.limit(from, SERVICE), limit);
        let before = world.host_bytes(from, SERVICE).tx.get();
        run(&mut world, SimTime::from_secs(second));
        got.push(world.host_bytes(from, SERVICE).tx.get() - before);
    }
    assert!((23_000..=25_000 + 3 * 1514).contains(&got[0]), "{got:?}");
    assert!((6_000_000..6_260_000).contains(&got[1]), "{got:?}");
    assert!(got[2] > 100_000_000, "{got:?}");
    assert_eq!(world.flow(id).timeouts(), 0, "waiting in the host is not a loss");
}

#[test]
fn services_take_turns_at_the_interface() {
    let (mut world, pairs) = dumbbell(2, Bandwidth::from_mbps(100), link(Bandwidth::from_gbps(1)));
    // Nine flows of one service and one of another leave one host: half each, not a tenth.
    for i in 0..9 {
        add(&mut world, flow(pairs[0].0, pairs[0].1, SERVICE, SimTime::from_micros(i)));
    }
    add(&mut world, flow(pairs[0].0, pairs[1].1, OTHER, SimTime::ZERO));
    run(&mut world, SimTime::from_secs(1));
    let sent = |service| world.host_bytes(pairs[0].0, service).tx.get();
    let (a, b) = (sent(SERVICE), sent(OTHER));
    assert!(a.abs_diff(b) < (a + b) / 50, "{a} and {b}");
}

#[test]
fn flows_stop() {
    let (mut world, pairs) = dumbbell(1, Bandwidth::from_gbps(1), link(Bandwidth::from_mbps(100)));
    let spec = flow(pairs[0].0, pairs[0].1, SERVICE, SimTime::ZERO);
    let id = add(&mut world, FlowSpec { stop: SimTime::from_millis(500), ..spec });
    run(&mut world, SimTime::from_secs(1));
    let got = delivered(&world, id);
    run(&mut world, SimTime::from_secs(2));
    assert_eq!((delivered(&world, id), world.packets()), (got, 0), "nothing moves any more");
    assert_eq!(world.flow(id).sender().acked(), got);
}

#[test]
fn datagrams_travel_and_can_be_lost() {
    let (mut world, pairs) = dumbbell(1, Bandwidth::from_mbps(100), buffered(Bandwidth::from_mbps(8), 150));
    let (from, to) = pairs[0];
    let bytes: std::sync::Arc<[u8]> = vec![7; 58].into();
    // 100 B frames: 8 µs at 100 Mb/s, 100 µs at 8 Mb/s. The buffer holds one.
    for _ in 0..3 {
        world.send_datagram(from, to, bytes.clone());
    }
    run(&mut world, SimTime::from_secs(1));
    let delivery = world.next_delivery().expect("the first arrives");
    assert_eq!((delivery.at, delivery.to), (SimTime::from_micros(8 + 10 + 100 + 10 + 8 + 10), to));
    assert_eq!(delivery.bytes, bytes);
    assert_eq!(world.next_delivery(), None);
    run(&mut world, SimTime::from_secs(1));
    assert_eq!((world.counters().delivered, world.counters().dropped, world.packets()), (1, 2, 0));
}

#[test]
fn the_same_calls_give_the_same_run() {
    let run = |offset: u64| {
        let (mut world, pairs) = dumbbell(8, Bandwidth::from_gbps(1), buffered(Bandwidth::from_gbps(1), 60_000));
        for (i, &(from, to)) in (0..).zip(&pairs) {
            add(&mut world, flow(from, to, SERVICE, SimTime::from_nanos(i * 12_345 + offset)));
        }
        run(&mut world, SimTime::from_millis(500));
        let flows: Vec<u64> = world.flows().map(|(_, flow)| flow.delivered().get()).collect();
        (flows, world.counters())
    };
    assert_eq!(run(0), run(0));
    assert_ne!(run(0), run(3_001));
}
