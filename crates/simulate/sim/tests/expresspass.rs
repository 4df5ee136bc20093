//! ExpressPass in networks: shares, incast, and the use of links.

use crate::support::shaped::{flow, rates};
use crate::support::{SIZES, delivered, dumbbell, link, run};
use weir_sim::checkers::Checkers;
use weir_sim::{FlowId, FlowSpec, HostId, PortId, SimTime, World};
use weir_transport::{Parameters, expresspass, udp};
use weir_units::{Bandwidth, Duration};

const GIGABIT: Bandwidth = Bandwidth::from_gbps(1);
/// The most that 1514 B frames use of 1000 Mb/s, if a credit of 84 B and a frame of 1538 B take turns.
const MOST: f64 = 1000.0 * 1514.0 / 1622.0;

fn expresspass() -> Parameters {
    Parameters::ExpressPass(expresspass::Parameters::default())
}

/// A dumbbell with a bottleneck of 1 Gb/s and a small buffer, behind edges of this rate.
fn gigabit(pairs: u32, edge: Bandwidth) -> (World<Checkers>, Vec<(HostId, HostId)>, PortId) {
    let edge = link(edge, Duration::from_micros(10), 60_000);
    dumbbell(pairs, SIZES, edge, link(GIGABIT, Duration::from_micros(20), 60_000))
}

/// A host that receives from `senders` others over one switch of 1 Gb/s ports with this buffer.
fn star(senders: u32, buffer: u64) -> (World<Checkers>, Vec<HostId>, HostId) {
    let mut world = World::new(0, SIZES, Checkers::default());
    let switch = world.add_switch();
    let edge = link(GIGABIT, Duration::from_micros(10), buffer);
    let from = (0..senders).map(|_| world.add_host(switch, edge, edge)).collect();
    let to = world.add_host(switch, edge, edge);
    world.compute_routes();
    (world, from, to)
}

/// Credits leave room for one frame each: 93.3 % of the link with the paper's sizes, 95.6 % with the simulator's.
#[test]
fn one_flow_uses_the_link_but_for_credits() {
    for (credit, frame) in [(84, 1538), (60, 1523)] {
        let (mut world, pairs, port) = gigabit(1, GIGABIT);
        let transport = Parameters::ExpressPass(expresspass::Parameters { credit, frame, ..Default::default() });
        let id = world.add_flow(flow(pairs[0].0, pairs[0].1, 1), &transport);
        let rate = rates(&mut world, &[id], SimTime::from_millis(10), SimTime::from_millis(60))[0];
        let most = 1000.0 * 1514.0 / f64::from(credit + frame);
        assert!((rate / most - 1.0).abs() < 0.005, "{rate:.1} of {most:.1} Mb/s");
        let peak = world.take_peak(port);
        // Frames come one by one.
        assert!(peak <= 2 * 1514, "{peak}");
        assert_eq!(world.counters().dropped, 0);
    }
}

/// The second flow starts 10 ms later; 20 ms after that, each has half. Where the hosts' links are faster than the
/// bottleneck, its port drops the credits: nothing is lost and the link is full, but shares are not equal for long,
/// since both flows are slow beside their own links (`simulator-law`).
#[test]
fn two_flows_share_a_link() {
    for (edge, tolerance) in [(GIGABIT, 0.05), (Bandwidth::from_gbps(10), 0.45)] {
        let (mut world, pairs, _) = gigabit(2, edge);
        let spec = |pair: usize, millis| FlowSpec {
            start: SimTime::from_millis(millis),
            ..flow(pairs[pair].0, pairs[pair].1, pair as u32)
        };
        let ids = [(0, 0), (1, 10)].map(|(pair, millis)| world.add_flow(spec(pair, millis), &expresspass()));
        let shares = rates(&mut world, &ids, SimTime::from_millis(30), SimTime::from_millis(80));
        let total = shares[0] + shares[1];
        assert!((shares[0] / total - 0.5).abs() < tolerance, "{edge}: {shares:?}");
        assert!((0.97..1.005).contains(&(total / MOST)), "{edge}: {total:.1} of {MOST:.1} Mb/s");
        assert_eq!(world.counters().dropped, 0);
    }
}

/// Two flows in opposite directions: the credits of each leave room for the frames of the other.
#[test]
fn opposite_flows_use_both_directions() {
    let (mut world, pairs, _) = gigabit(1, GIGABIT);
    let (a, b) = pairs[0];
    let ids = [flow(a, b, 1), flow(b, a, 2)].map(|spec| world.add_flow(spec, &expresspass()));
    let shares = rates(&mut world, &ids, SimTime::from_millis(10), SimTime::from_millis(60));
    assert!(shares.iter().all(|share| (0.97..1.005).contains(&(share / MOST))), "{shares:?}");
    assert_eq!(world.counters().dropped, 0);
}

/// 64 senders of 64 kB each to one host whose port holds 20 frames: nothing is dropped, and the last byte arrives soon
/// after the time that the link needs.
#[test]
fn an_incast_of_64_drops_no_data() {
    let (mut world, from, to) = star(64, 20 * 1514);
    let spec = |(number, &host): (usize, &HostId)| FlowSpec { size: Some(64_000), ..flow(host, to, number as u32) };
    let ids: Vec<FlowId> = from.iter().enumerate().map(spec).map(|spec| world.add_flow(spec, &expresspass())).collect();
    run(&mut world, SimTime::from_millis(100));
    let last = ids.iter().map(|&id| world.flow(id).finished().expect("all bytes arrive")).max().expect("flows");
    let retransmissions: u32 = ids.iter().map(|&id| world.flow(id).retransmissions()).sum();
    assert_eq!((world.counters().dropped, retransmissions), (0, 0));
    // 64 · 45 frames, each with its credit, and a round trip before the first.
    let least = 64.0 * 45.0 * 1622.0 * 8.0 / 1e9;
    let taken = last.picos() as f64 / 1e12;
    assert!(taken < 1.1 * least + 2e-4, "{taken:.4} s of {least:.4}");
    // Flows that are over have no credits: agents are silent once the last stop has arrived.
    let messages = world.counters().originated;
    run(&mut world, SimTime::from_millis(200));
    assert_eq!(world.counters().originated, messages);
}

/// 16 endless flows to one host over a small buffer have nearly equal shares.
#[test]
fn sixteen_flows_share_a_receiver() {
    let (mut world, from, to) = star(16, 20 * 1514);
    let ids: Vec<FlowId> =
        (0..).zip(&from).map(|(number, &host)| world.add_flow(flow(host, to, number), &expresspass())).collect();
    let shares = rates(&mut world, &ids, SimTime::from_millis(50), SimTime::from_millis(150));
    let total: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let jain = total * total / (squares * shares.len() as f64);
    assert!(jain > 0.98 && total / MOST > 0.97, "{jain:.3}, {total:.1} Mb/s: {shares:?}");
    assert_eq!(world.counters().dropped, 0);
}

/// Datagrams without credits fill a small buffer and drop data: it is repaired, and the flow ends.
#[test]
fn data_that_others_drop_is_sent_again() {
    let (mut world, from, to) = star(2, 5 * 1514);
    let spec = FlowSpec { size: Some(3_000_000), ..flow(from[0], to, 1) };
    let id = world.add_flow(spec, &expresspass());
    let burst = udp::Parameters { rate: Some(Bandwidth::from_mbps(300)), burst: 8, ..Default::default() };
    let stop = SimTime::from_millis(20);
    world.add_flow(FlowSpec { stop, ..flow(from[1], to, 2) }, &Parameters::Udp(burst));
    run(&mut world, SimTime::from_secs(2));
    assert_eq!(delivered(&world, id), 3_000_000);
    let flow = world.flow(id);
    assert!(flow.retransmissions() > 0 && flow.finished().is_some(), "{}", flow.retransmissions());
}

/// A link that fails and returns, and later has a tenth of its rate in both directions.
#[test]
fn a_flow_survives_changes_of_its_link() {
    let mut world = World::new(0, SIZES, Checkers::default());
    let (left, right) = (world.add_switch(), world.add_switch());
    let edge = link(GIGABIT, Duration::from_micros(10), 60_000);
    let (from, to) = (world.add_host(left, edge, edge), world.add_host(right, edge, edge));
    let (there, back) = world.connect(left, right, edge, edge);
    world.compute_routes();
    let id = world.add_flow(flow(from, to, 1), &expresspass());
    run(&mut world, SimTime::from_millis(10));
    world.take_down(there);
    world.compute_routes();
    run(&mut world, SimTime::from_millis(40));
    world.bring_up(there);
    world.compute_routes();
    let whole = rates(&mut world, &[id], SimTime::from_millis(200), SimTime::from_millis(250))[0];
    assert!((0.97..1.005).contains(&(whole / MOST)), "{whole:.1} Mb/s");
    let dropped = world.counters().dropped;
    for port in [there, back] {
        world.set_rate(port, Bandwidth::from_mbps(100));
    }
    let tenth = rates(&mut world, &[id], SimTime::from_millis(300), SimTime::from_millis(350))[0];
    assert!((0.97..1.005).contains(&(tenth * 10.0 / MOST)), "{tenth:.1} Mb/s");
    assert_eq!(world.counters().dropped, dropped);
}
