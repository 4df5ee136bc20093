//! Disciplines in whole networks: exact shares, classes without a queue ahead, shared buffers.

use crate::support::{delivered, dumbbell, flow, queued, run};
use proptest::prelude::*;
use weir_network::graph::{Discipline, LinkSpec, PRIORITIES, Packets, QueueSpec};
use weir_sim::checkers::Checkers;
use weir_sim::port::Transmission;
use weir_sim::{Counters, FlowId, FlowSpec, HostId, Observer, PacketId, PortId, SimTime, Stop, World};
use weir_transport::{Parameters, dctcp, udp};
use weir_units::{Bandwidth, Bytes, Duration};

/// Frames of 1000 B.
const SIZES: Packets = Packets { payload: 960, headers: 40 };
const DELAY: Duration = Duration::from_micros(1);

fn with(discipline: Discipline, mbps: u64) -> LinkSpec {
    let queue = QueueSpec { discipline, buffer: Bytes::new(100_000), mark: None };
    queued(Bandwidth::from_mbps(mbps), DELAY, queue)
}

fn datagrams(mbps: u64) -> Parameters {
    Parameters::Udp(udp::Parameters { rate: Some(Bandwidth::from_mbps(mbps)), ..Default::default() })
}

/// Constant-rate flows of the given classes, each at `each` Mb/s, through 100 Mb/s.
fn classes(discipline: Discipline, priorities: &[u8], each: u64) -> (World<Checkers>, Vec<FlowId>, PortId) {
    let count = priorities.len() as u32;
    let edge = with(Discipline::Fifo, 1000);
    let (mut world, pairs, port) = dumbbell(count, SIZES, edge, with(discipline, 100));
    let add = |(&priority, &(from, to)): (&u8, &(HostId, HostId))| {
        world.add_flow(FlowSpec { priority, ..flow(from, to, None) }, &datagrams(each))
    };
    let flows = priorities.iter().zip(&pairs).map(add).collect();
    (world, flows, port)
}

fn bytes(world: &World<Checkers>, flows: &[FlowId]) -> Vec<u64> {
    flows.iter().map(|&id| delivered(world, id)).collect()
}

#[test]
fn weighted_classes_have_exact_shares() {
    let mut weights = [1; PRIORITIES];
    (weights[0], weights[1], weights[2]) = (5, 3, 2);
    let discipline = Discipline::DeficitRoundRobin { weights, quantum: 1000 };
    let (mut world, flows, port) = classes(discipline, &[0, 1, 2], 100);
    run(&mut world, SimTime::from_millis(100));
    let before = bytes(&world, &flows);
    run(&mut world, SimTime::from_millis(900));
    // 0.8 s at 100 Mb/s are 10,000 frames, 960 B of payload each; a turn is 10 frames.
    let frames: Vec<u64> = bytes(&world, &flows).iter().zip(&before).map(|(now, then)| (now - then) / 960).collect();
    for (frames, share) in frames.iter().zip([5000, 3000, 2000]) {
        assert!(frames.abs_diff(share) <= 10, "{frames} of {share}");
    }

    // Other weights, from the next turn on.
    (weights[0], weights[1], weights[2]) = (1, 1, 8);
    assert!(world.set_weights(port, weights));
    let before = bytes(&world, &flows);
    run(&mut world, SimTime::from_millis(1700));
    let frames: Vec<u64> = bytes(&world, &flows).iter().zip(&before).map(|(now, then)| (now - then) / 960).collect();
    for (frames, share) in frames.iter().zip([1000, 1000, 8000]) {
        // Frames in the queue and on the wire left by the old weights.
        assert!(frames.abs_diff(share) <= 12, "{frames} of {share}");
    }
    assert!(!world.set_weights(world.interface(HostId(0)), weights), "a FIFO has no weights");
}

#[test]
fn a_class_that_is_idle_leaves_its_share_to_the_others() {
    let mut weights = [1; PRIORITIES];
    weights[0] = 9;
    let discipline = Discipline::DeficitRoundRobin { weights, quantum: 1000 };
    let (mut world, flows, _) = classes(discipline, &[3, 4], 100);
    run(&mut world, SimTime::from_millis(1000));
    // 12,500 frames in a second, half each, except for those in flight.
    for frames in bytes(&world, &flows).iter().map(|bytes| bytes / 960) {
        assert!(frames.abs_diff(6250) <= 55, "{frames}");
    }
}

#[test]
fn the_most_urgent_class_gets_its_full_demand() {
    // 60, 60 and 60 Mb/s through 100: all of the first, 40 of the second, nothing of the third.
    let (mut world, flows, port) = classes(Discipline::StrictPriority, &[0, 3, 7], 60);
    run(&mut world, SimTime::from_millis(100));
    let before = bytes(&world, &flows);
    run(&mut world, SimTime::from_millis(1100));
    let frames: Vec<u64> = bytes(&world, &flows).iter().zip(&before).map(|(now, then)| (now - then) / 960).collect();
    assert!(frames[0].abs_diff(7500) <= 1, "{frames:?}");
    assert!(frames[1].abs_diff(5000) <= 1, "{frames:?}");
    assert_eq!(frames[2], 0);
    let counts = world.counts(port);
    assert_eq!(counts.dropped[0].packets, 0);
    assert!(counts.dropped[3].packets > 2000 && counts.dropped[7].packets > 7000);
    assert_eq!(counts.taken[0].bytes, counts.taken[0].packets * 1000);
}

#[test]
fn an_urgent_packet_waits_for_one_frame_at_most() {
    let edge = with(Discipline::StrictPriority, 1000);
    let (mut world, pairs, _) = dumbbell(2, SIZES, edge, with(Discipline::StrictPriority, 100));
    let bulk = FlowSpec { priority: 7, ..flow(pairs[0].0, pairs[0].1, None) };
    world.add_flow(bulk, &datagrams(100));
    let mut worst = SimTime::ZERO;
    let mut urgent = Vec::new();
    for number in 0..200 {
        // At odd times, so that it meets frames at all stages of their transmission.
        let start = SimTime::from_nanos(1_000_000 + number * 237_411);
        let spec = FlowSpec { start, ..flow(pairs[1].0, pairs[1].1, Some(960)) };
        urgent.push((start, world.add_flow(spec, &datagrams(1000))));
    }
    run(&mut world, SimTime::from_millis(100));
    let ideal = world.ideal(pairs[1].0, pairs[1].1, 0, 960);
    for (start, id) in urgent {
        let took = world.flow(id).finished().expect("it arrived") - start;
        assert!(took >= ideal);
        worst = worst.max(took - ideal);
    }
    // A frame of 1000 B at 100 Mb/s: 80 µs.
    assert!(worst <= SimTime::from_micros(80) && worst > SimTime::from_micros(70), "{worst}");
}

#[test]
fn ports_share_a_buffer_by_dynamic_thresholds() {
    // Two senders at 1 Gb/s into one port at 100 Mb/s fill it: with alpha 1 it holds half of the
    // buffer.
    let mut world = World::new(0, SIZES, Checkers::default());
    let switch = world.add_switch();
    world.share_buffer(switch, Bytes::new(200_000), 1000);
    let (fast, slow) = (with(Discipline::Fifo, 1000), with(Discipline::Fifo, 100));
    let hosts: Vec<HostId> = (0..5).map(|_| world.add_host(switch, fast, slow)).collect();
    world.compute_routes();
    world.add_flow(flow(hosts[0], hosts[1], None), &datagrams(1000));
    run(&mut world, SimTime::from_millis(50));
    let held = world.held(world.down_port(hosts[1]));
    assert!((98_000..=101_000).contains(&held), "{held}");
    // A second busy port takes room from the first: a third each.
    world.add_flow(flow(hosts[2], hosts[3], None), &datagrams(1000));
    run(&mut world, SimTime::from_millis(100));
    for host in [hosts[1], hosts[3]] {
        let held = world.held(world.down_port(host));
        assert!((65_000..=68_500).contains(&held), "{held}");
    }
}

#[test]
fn pfabric_lets_short_flows_pass() {
    let queue = QueueSpec { discipline: Discipline::PFabric, buffer: Bytes::new(36_000), mark: None };
    let spec = queued(Bandwidth::from_gbps(10), DELAY, queue);
    let sizes = Packets { payload: 1460, headers: 40 };
    let (mut world, pairs, port) = dumbbell(4, sizes, spec, spec);
    let transport = Parameters::PFabric(Default::default());
    let long: Vec<FlowId> =
        pairs[..3].iter().map(|&(from, to)| world.add_flow(flow(from, to, Some(20_000_000)), &transport)).collect();
    let start = SimTime::from_millis(2);
    let short = FlowSpec { start, ..flow(pairs[3].0, pairs[3].1, Some(14_600)) };
    let short = world.add_flow(short, &transport);
    run(&mut world, SimTime::from_millis(100));
    let took = world.flow(short).finished().expect("it is over") - start;
    let ideal = world.ideal(pairs[3].0, pairs[3].1, 0, 14_600);
    // Ten packets that pass all others: their own time, and a frame of 1.2 µs that was on the wire
    // at each hop.
    assert!(took <= ideal + SimTime::from_nanos(3 * 1_200), "{took} and {ideal}");
    assert!(world.counts(port).dropped[0].packets > 0, "three windows do not fit into 24 packets");
    // Equal flows: the one that is ahead has the least left and stays ahead, so they end one after
    // the other.
    let mut ends: Vec<f64> =
        long.iter().map(|&id| world.flow(id).finished().expect("over").picos() as f64 / 1e9).collect();
    ends.sort_by(f64::total_cmp);
    // 20 MB take 16.44 ms at 10 Gb/s with headers.
    assert!((16.4..18.0).contains(&ends[0]), "{ends:?}");
    assert!(ends[2] > 48.0 && ends[2] < 55.0, "{ends:?}");
}

/// Also checks that a port drops a waiting frame only for one that it then takes.
#[derive(Default)]
struct Evictions {
    checkers: Checkers,
    /// Sizes of the frames that a port has given up since it last took one.
    given_up: Vec<(PortId, u32)>,
    evicted: u64,
    refused: u64,
}

impl Observer for Evictions {
    fn shares(&mut self, port: PortId, buffer: u32, size: u64, alpha_thousandths: u32) {
        self.checkers.shares(port, buffer, size, alpha_thousandths);
    }
    fn dropped(&mut self, now: SimTime, port: PortId, packet: PacketId, size: u32, held: bool) {
        if held {
            self.given_up.push((port, size));
            self.evicted += 1;
        } else {
            assert_eq!(self.given_up, [], "frames were given up for one that {port:?} drops");
            self.refused += 1;
        }
        self.checkers.dropped(now, port, packet, size, held);
    }
    fn accepted(&mut self, now: SimTime, port: PortId, size: u32) {
        // A class has one size: dropped frames are of another class.
        assert!(self.given_up.iter().all(|&(of, other)| of == port && other != size), "{:?}", self.given_up);
        self.given_up.clear();
        self.checkers.accepted(now, port, size);
    }
    fn sent(&mut self, now: SimTime, packet: PacketId, size: u32) {
        self.checkers.sent(now, packet, size);
    }
    fn delivered(&mut self, now: SimTime, packet: PacketId, size: u32) {
        self.checkers.delivered(now, packet, size);
    }
    fn transmitted(&mut self, port: PortId, size: u32, transmission: Transmission) {
        self.checkers.transmitted(port, size, transmission);
    }
}

/// Bursts of frames of all classes, class c of 140 + 100 · (7 − c) B, through 100 Mb/s: urgent ones
/// are large, and a full buffer must give up several frames for one, or cannot.
fn evictions(discipline: Discipline, shared: bool, buffer: u64, frames: &[(u8, u8, u16)]) -> (u64, u64) {
    let mut world = World::new(0, SIZES, Evictions::default());
    let switch = world.add_switch();
    if shared {
        world.share_buffer(switch, Bytes::new(buffer), 1000);
    }
    let queue = QueueSpec { discipline, buffer: Bytes::new(buffer), mark: None };
    let spec = |mbps| queued(Bandwidth::from_mbps(mbps), DELAY, queue);
    let fast = queued(Bandwidth::from_gbps(10), DELAY, QueueSpec { discipline: Discipline::Fifo, ..queue });
    let senders: Vec<HostId> = (0..8).map(|_| world.add_host(switch, fast, spec(1000))).collect();
    let receivers: Vec<HostId> = (0..2).map(|_| world.add_host(switch, fast, spec(100))).collect();
    world.compute_routes();
    for &(priority, to, at) in frames {
        let size = 100 * u64::from(8 - priority);
        let (from, to) = (senders[usize::from(priority)], receivers[usize::from(to)]);
        let start = SimTime::from_nanos(u64::from(at) * 10);
        world.add_flow(FlowSpec { priority, start, ..flow(from, to, Some(size)) }, &datagrams(10_000));
    }
    while world.run_until(SimTime::from_millis(10)) == Stop::Over {
        while world.next_over().is_some() {}
    }
    (world.observer().evicted, world.observer().refused)
}

proptest! {
    /// An eviction happens only if the arriving frame is then taken, for every buffer and
    /// discipline.
    #[test]
    fn frames_are_dropped_only_for_one_that_then_fits(
        discipline in prop_oneof![
            Just(Discipline::StrictPriority),
            Just(Discipline::DeficitRoundRobin { weights: [3, 1, 1, 2, 1, 5, 1, 1], quantum: 500 }),
            Just(Discipline::PFabric),
        ],
        shared: bool,
        buffer in 1_000u64..6_000,
        frames in prop::collection::vec((0u8..8, 0u8..2, 0u16..10_000), 1..120),
    ) {
        evictions(discipline, shared, buffer, &frames);
    }
}

#[test]
fn a_frame_that_would_not_fit_evicts_none() {
    // 815 of 840 B are still on the wire and 240 B of class 6 wait in 1300 B when another 840 B of
    // class 0 arrive: too many even without the waiting frames.
    let frames = [(0, 0, 0), (6, 0, 100), (0, 0, 200)];
    assert_eq!(evictions(Discipline::StrictPriority, false, 1300, &frames), (0, 1));
    // 815 and 840 B fit into 1700.
    assert_eq!(evictions(Discipline::StrictPriority, false, 1700, &frames), (1, 0));
    // In a shared buffer of 2000 B 340, 240 and 340 B wait, and 1080 are free: for 840 more, (920 +
    // 840 − 1080) / 2 = 340 must go. That takes the frame of class 6 and one of class 5.
    let mut frames = vec![(0, 1, 0), (5, 1, 100), (6, 1, 110), (5, 1, 150), (0, 1, 300)];
    assert_eq!(evictions(Discipline::StrictPriority, true, 2000, &frames), (2, 0));
    // Then 340 and 840 B wait; for 840 more 600 would have to go, and there are 340 of a less
    // urgent class.
    frames.push((0, 1, 400));
    assert_eq!(evictions(Discipline::StrictPriority, true, 2000, &frames), (2, 1));
}

/// The arrival time of each packet, and the world's counters.
#[derive(Default)]
struct Arrivals(Vec<(SimTime, u32)>);

impl Observer for Arrivals {
    fn delivered(&mut self, now: SimTime, _packet: PacketId, size: u32) {
        self.0.push((now, size));
    }
}

/// Three DCTCP flows of class 3 through 1 Gb/s that marks above 30 kB.
fn marked(discipline: Discipline, shared: bool) -> (Vec<(SimTime, u32)>, Counters, u64) {
    let mut world = World::new(0, SIZES, Arrivals::default());
    let (left, right) = (world.add_switch(), world.add_switch());
    if shared {
        world.share_buffer(left, Bytes::new(2_000_000), 1000);
    }
    let edge = with(Discipline::Fifo, 10_000);
    let queue = QueueSpec { discipline, buffer: Bytes::new(1_000_000), mark: Some(Bytes::new(30_000)) };
    let spec = queued(Bandwidth::from_gbps(1), Duration::from_micros(20), queue);
    let hosts: Vec<(HostId, HostId)> =
        (0..3).map(|_| (world.add_host(left, edge, edge), world.add_host(right, edge, edge))).collect();
    let (port, _) = world.connect(left, right, spec, spec);
    world.compute_routes();
    world.set_short_host_queues();
    for (place, &(from, to)) in (0..).zip(&hosts) {
        // At odd times, so that no two packets come at once and the order of equal times decides
        // nothing.
        let start = SimTime::from_picos(place * 13_370_337 + 1);
        world.add_flow(
            FlowSpec { priority: 3, start, ..flow(from, to, Some(3_000_000)) },
            &Parameters::Dctcp(dctcp::Parameters::default()),
        );
    }
    while world.run_until(SimTime::from_millis(100)) == Stop::Over {
        while world.next_over().is_some() {}
    }
    let (counters, peak) = (Counters { events: 0, ..world.counters() }, world.take_peak(port));
    (world.observer().0.clone(), counters, peak)
}

#[test]
fn a_scheduled_port_with_one_class_marks_as_a_fifo_port_does() {
    let (arrivals, counters, peak) = marked(Discipline::Fifo, false);
    assert!(counters.marked > 100 && counters.marked < counters.delivered / 2, "{counters:?}");
    for (discipline, shared) in [
        (Discipline::StrictPriority, false),
        (Discipline::DeficitRoundRobin { weights: [1; PRIORITIES], quantum: 1500 }, false),
        (Discipline::Fifo, true),
    ] {
        let other = marked(discipline, shared);
        assert_eq!((other.1, other.2), (counters, peak), "{discipline:?}");
        assert!(other.0 == arrivals, "{discipline:?}: other arrivals");
    }
}

#[test]
fn a_frame_that_is_sent_at_once_is_the_peak_of_every_port_on_its_way() {
    let (mut world, pairs, port) =
        dumbbell(1, SIZES, with(Discipline::Fifo, 1000), with(Discipline::StrictPriority, 100));
    world.add_flow(flow(pairs[0].0, pairs[0].1, Some(460)), &datagrams(1000));
    run(&mut world, SimTime::from_millis(1));
    for port in [world.interface(pairs[0].0), port, world.down_port(pairs[0].1)] {
        assert_eq!((world.take_peak(port), world.take_peak(port)), (500, 0), "{port:?}");
    }
}
