//! Disciplines in whole networks: exact shares, classes that wait for nobody, buffers that are shared.

mod support;

use support::{delivered, dumbbell, flow, queued, run};
use weir_scenario::graph::{Discipline, LinkSpec, PRIORITIES, Packets, QueueSpec};
use weir_sim::checkers::Checkers;
use weir_sim::{FlowId, FlowSpec, HostId, PortId, SimTime, World};
use weir_transport::{Parameters, udp};
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
        // What had been in the queue and on the wire left by the old weights.
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
    // 12,500 frames in a second, half each, but for what is on its way.
    for frames in bytes(&world, &flows).iter().map(|bytes| bytes / 960) {
        assert!(frames.abs_diff(6250) <= 55, "{frames}");
    }
}

#[test]
fn the_most_urgent_class_has_what_it_asks_for() {
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
    // Two senders at 1 Gb/s into one port at 100 Mb/s fill it: with alpha 1 it holds half of the buffer.
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
    // Ten packets that pass all others: their own time, and a frame of 1.2 µs that was on the wire at each hop.
    assert!(took <= ideal + SimTime::from_nanos(3 * 1_200), "{took} and {ideal}");
    assert!(world.counts(port).dropped[0].packets > 0, "three windows do not fit into 24 packets");
    // Equal flows: the one that is ahead has least left and stays ahead, so they end one after the other.
    let mut ends: Vec<f64> =
        long.iter().map(|&id| world.flow(id).finished().expect("over").picos() as f64 / 1e9).collect();
    ends.sort_by(f64::total_cmp);
    // 20 MB take 16.44 ms at 10 Gb/s with headers.
    assert!((16.4..18.0).contains(&ends[0]), "{ends:?}");
    assert!(ends[2] > 48.0 && ends[2] < 55.0, "{ends:?}");
}
