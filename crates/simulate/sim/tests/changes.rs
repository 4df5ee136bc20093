//! Links that change: other rates, failures and repairs.

use crate::support::{SIZES, delivered, dumbbell, flow, link, queued, run};
use proptest::prelude::*;
use weir_network::graph::{Discipline, QueueSpec};
use weir_sim::checkers::Checkers;
use weir_sim::{FlowSpec, HostId, PortId, SimTime, World};
use weir_transport::{Parameters, udp};
use weir_units::{Bandwidth, Bytes, Duration};

const DELAY: Duration = Duration::from_micros(10);

#[test]
fn a_new_rate_holds_from_the_next_frame_on() {
    let edge = link(Bandwidth::from_gbps(100), DELAY, 1_000_000);
    let (mut world, pairs, port) = dumbbell(1, SIZES, edge, link(Bandwidth::from_mbps(100), DELAY, 1_000_000));
    // Ten frames at once: each takes 121.12 µs at 100 Mb/s.
    let burst = Parameters::Udp(udp::Parameters { burst: 10, ..Default::default() });
    let id = world.add_flow(flow(pairs[0].0, pairs[0].1, Some(14_480)), &burst);
    // At 300 µs two have left and the third is on the wire; the other seven go ten times as fast.
    run(&mut world, SimTime::from_micros(300));
    world.set_rate(port, Bandwidth::from_gbps(1));
    run(&mut world, SimTime::from_secs(1));
    let frame = 121_120_000;
    let edge = 121_120;
    let ends = 2 * edge + 3 * frame + 7 * frame / 10 + 3 * 10_000_000;
    assert_eq!(world.flow(id).finished(), Some(SimTime::from_picos(ends)));
    // Back again, while frames wait at the faster rate: TCP continues, and every checker agrees.
    let tcp = world.add_flow(flow(pairs[0].0, pairs[0].1, None), &Parameters::default());
    let mut before = 0;
    for (second, mbps) in [(2, 1000), (3, 50), (4, 300), (5, 1000)] {
        world.set_rate(port, Bandwidth::from_mbps(mbps));
        run(&mut world, SimTime::from_secs(second));
        let got = delivered(&world, tcp) - before;
        before += got;
        let most = mbps * 1_000_000 / 8 * 1448 / 1514;
        assert!(got <= most + 1_000_000 && got as f64 > 0.8 * most as f64, "{got} B at {mbps} Mb/s");
    }
}

#[test]
fn a_frame_on_the_wire_ends_at_the_rate_that_it_began_with() {
    let edge = link(Bandwidth::from_gbps(100), DELAY, 1_000_000);
    let (mut world, pairs, port) = dumbbell(1, SIZES, edge, link(Bandwidth::from_mbps(10), DELAY, 100_000));
    let once = Parameters::Udp(udp::Parameters::default());
    let id = world.add_flow(flow(pairs[0].0, pairs[0].1, Some(1448)), &once);
    // 1514 B take 1.2112 ms at 10 Mb/s, regardless of changes after they have begun.
    for (micros, mbps) in [(100, 100), (150, 1000), (151, 1), (152, 40_000)] {
        run(&mut world, SimTime::from_micros(micros));
        world.set_rate(port, Bandwidth::from_mbps(mbps));
        let sent = (micros - 10) * 10 / 8;
        assert!(world.held(port).abs_diff(1514 - sent) <= 2, "{} B at {micros} µs", world.held(port));
    }
    run(&mut world, SimTime::from_secs(1));
    let ends = 2 * 121_120 + 1_211_200_000 + 3 * 10_000_000;
    assert_eq!(world.flow(id).finished(), Some(SimTime::from_picos(ends)));
}

/// The changes of the link between two switches.
#[derive(Debug, Clone, Copy)]
enum Change {
    Rate(u64),
    Down,
    Up,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![4 => (1u64..2000).prop_map(Change::Rate), 1 => Just(Change::Down), 2 => Just(Change::Up)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    /// Rates, failures and repairs at any picosecond, on every discipline: every checker agrees,
    /// and no port sends more than it could.
    #[test]
    fn links_may_change_at_any_time(
        discipline in prop::sample::select(vec![
            Discipline::Fifo,
            Discipline::StrictPriority,
            Discipline::DeficitRoundRobin { weights: [1, 2, 3, 4, 5, 6, 7, 8], quantum: 1000 },
            Discipline::PFabric,
        ]),
        changes in proptest::collection::vec((0u64..400_000_000, change()), 1..30),
    ) {
        let edge = link(Bandwidth::from_gbps(1), DELAY, 1_000_000);
        let queue = QueueSpec { discipline, buffer: Bytes::new(20_000), mark: None };
        let (mut world, pairs, port) = dumbbell(4, SIZES, edge, queued(Bandwidth::from_mbps(300), DELAY, queue));
        for (number, &(from, to)) in (0u8..).zip(&pairs) {
            let rate = Some(Bandwidth::from_mbps(150));
            let datagrams = Parameters::Udp(udp::Parameters { rate, ..Default::default() });
            let transport = if number % 2 == 0 { Parameters::default() } else { datagrams };
            world.add_flow(FlowSpec { priority: number, ..flow(from, to, None) }, &transport);
        }
        let (mut now, mut before) = (SimTime::ZERO, (0, 0));
        for (later, change) in changes {
            now += SimTime::from_picos(later);
            run(&mut world, now);
            let sent = world.counts(port).taken.iter().map(|count| count.bytes).sum::<u64>() - world.held(port);
            let could = world.capacity(port);
            // A frame on the wire continues at its rate, and may have begun just before a change.
            prop_assert!(sent.saturating_sub(before.0) <= could - before.1 + 1514, "{sent} of {could} at {now}");
            before = (sent, could);
            match change {
                Change::Rate(mbps) => world.set_rate(port, Bandwidth::from_mbps(mbps)),
                Change::Down => world.take_down(port),
                Change::Up => world.bring_up(port),
            }
            world.compute_routes();
        }
        world.bring_up(port);
        world.compute_routes();
        run(&mut world, now + SimTime::from_millis(5));
    }
}

/// Two leaves, two spines, a host on each leaf.
fn square() -> (World<Checkers>, HostId, HostId, [(PortId, PortId); 4]) {
    let mut world = World::new(0, SIZES, Checkers::default());
    let spec = link(Bandwidth::from_gbps(1), DELAY, 300_000);
    let leaves = [world.add_switch(), world.add_switch()];
    let spines = [world.add_switch(), world.add_switch()];
    let (a, b) = (world.add_host(leaves[0], spec, spec), world.add_host(leaves[1], spec, spec));
    let cables = [(0, 0), (0, 1), (1, 0), (1, 1)];
    let cables = cables.map(|(leaf, spine)| world.connect(leaves[leaf], spines[spine], spec, spec));
    world.compute_routes();
    (world, a, b, cables)
}

#[test]
fn traffic_goes_round_a_link_that_is_down_and_comes_back() {
    let (mut world, a, b, cables) = square();
    let id = world.add_flow(flow(a, b, None), &Parameters::default());
    run(&mut world, SimTime::from_millis(500));
    let way = world.way(a, b, flow(a, b, None).hash).expect("a way");
    let used = cables.iter().position(|&(up, _)| up == way[1]).expect("one of the leaf's two ports");
    let other = 1 - used;
    for port in [cables[used].0, cables[used].1] {
        world.take_down(port);
    }
    world.compute_routes();
    let lost = world.counters().dropped;
    assert!(lost > 0, "what was on the link is lost");
    let before = delivered(&world, id);
    run(&mut world, SimTime::from_millis(1500));
    let got = delivered(&world, id) - before;
    // The sender detects the loss by its timer (200 ms at least), then has the other path to
    // itself.
    assert!(got > 70_000_000, "{got} B in a second");
    let way = world.way(a, b, flow(a, b, None).hash).expect("a way");
    assert_eq!(way[1], cables[other].0);
    // Now there is no route, until the first link is back.
    for port in [cables[other].0, cables[other].1] {
        world.take_down(port);
    }
    world.compute_routes();
    assert_eq!(world.way(a, b, 0), None);
    // Packets beyond the failure still arrive.
    run(&mut world, SimTime::from_millis(1510));
    let before = delivered(&world, id);
    run(&mut world, SimTime::from_millis(2500));
    assert_eq!(delivered(&world, id), before, "nothing gets through");
    assert!(world.counters().unroutable > 0);
    for port in [cables[used].0, cables[used].1] {
        world.bring_up(port);
    }
    world.compute_routes();
    run(&mut world, SimTime::from_millis(10_000));
    assert!(delivered(&world, id) - before > 100_000_000, "TCP has come back");
}

#[test]
fn a_host_whose_cable_is_pulled_keeps_its_packets() {
    let edge = link(Bandwidth::from_gbps(1), DELAY, 300_000);
    let (mut world, pairs, _) = dumbbell(1, SIZES, edge, edge);
    let datagrams = Parameters::Udp(udp::Parameters { rate: Some(Bandwidth::from_mbps(100)), ..Default::default() });
    let id = world.add_flow(flow(pairs[0].0, pairs[0].1, Some(1_448_000)), &datagrams);
    run(&mut world, SimTime::from_millis(10));
    let up = world.interface(pairs[0].0);
    world.take_down(up);
    run(&mut world, SimTime::from_millis(20));
    let before = delivered(&world, id);
    run(&mut world, SimTime::from_millis(30));
    assert_eq!(delivered(&world, id), before);
    world.bring_up(up);
    run(&mut world, SimTime::from_secs(1));
    let lost = world.counters().dropped;
    assert_eq!(delivered(&world, id) + lost * 1448, 1_448_000);
    assert!(lost <= 1, "only what was on the wire");
}

#[test]
fn sprayed_packets_use_all_ways() {
    let (mut world, a, b, cables) = square();
    world.set_spraying(7);
    let datagrams = Parameters::Udp(udp::Parameters { rate: Some(Bandwidth::from_mbps(500)), ..Default::default() });
    let spec = FlowSpec { stop: SimTime::from_millis(100), ..flow(a, b, None) };
    world.add_flow(spec, &datagrams);
    run(&mut world, SimTime::from_millis(200));
    let used = [cables[0].0, cables[1].0].map(|port| world.counts(port).taken[0].packets);
    let all = used[0] + used[1];
    // 4128 frames; four standard deviations of a binomial distribution are 129.
    assert!(all > 4000 && used[0].abs_diff(all / 2) < 129, "{used:?}");
}
