//! Senders without Weir at a receive limit: TCP settles near it, UDP is cut to it, and senders with Weir are neither
//! policed nor squeezed out.

use crate::support::shaped::{flow, parley, rates};
use crate::support::{SIZES, link};
use weir_policy::Share;
use weir_sim::checkers::Checkers;
use weir_sim::{FlowId, HostId, Policed, ServiceIndex, SimTime, World};
use weir_transport::{Parameters, cubic, dctcp, newreno, udp};
use weir_units::{Bandwidth, Duration};

const SERVICE: ServiceIndex = ServiceIndex(0);

/// Senders and one receiver on a switch, with a round trip of four times the links' delay. The service may receive
/// `limit`; the first `strangers` senders have no agent.
fn star(senders: u32, strangers: u32, limit: Bandwidth, round_trip: Duration) -> (World<Checkers>, Vec<HostId>) {
    let mut world = World::new(1, SIZES, Checkers::default());
    let switch = world.add_switch();
    let delay = Duration::from_nanos(round_trip.nanos() / 4);
    let edge = link(Bandwidth::from_gbps(10), delay, 4_000_000);
    let hosts: Vec<HostId> = (0..=senders).map(|_| world.add_host(switch, edge, edge)).collect();
    world.compute_routes();
    world.set_jitter(SimTime::from_nanos(1212), 1);
    world.set_shapers(parley(hosts.len(), &[Share { max: limit, ..Share::default() }]));
    for host in &hosts[..strangers as usize] {
        world.set_stranger(*host);
    }
    (world, hosts)
}

fn udp(rate: Bandwidth) -> Parameters {
    Parameters::Udp(udp::Parameters { rate: Some(rate), ..udp::Parameters::default() })
}

/// The rate of each flow as a part of the limit, between two times.
fn parts(world: &mut World<Checkers>, flows: &[FlowId], limit: Bandwidth, from: u64, to: u64) -> Vec<f64> {
    let rates = rates(world, flows, SimTime::from_secs(from), SimTime::from_secs(to));
    rates.iter().map(|rate| rate * 1e6 / limit.bps() as f64).collect()
}

/// What TCP of strangers has of a limit, all flows together.
fn settled(tcp: &Parameters, mbps: u64, round_trip: Duration, flows: u32, (from, to): (u64, u64)) -> f64 {
    let limit = Bandwidth::from_mbps(mbps);
    let (mut world, hosts) = star(1, 1, limit, round_trip);
    let flows: Vec<FlowId> = (0..flows).map(|i| world.add_flow(flow(hosts[0], hosts[1], i), tcp)).collect();
    parts(&mut world, &flows, limit, from, to).iter().sum()
}

#[test]
fn tcp_of_strangers_settles_at_the_limit() {
    let controls = [
        ("newreno", Parameters::NewReno(newreno::Parameters::default())),
        ("cubic", Parameters::Cubic(cubic::Parameters::default())),
    ];
    for (name, tcp) in &controls {
        for (mbps, time) in [(1, (10, 50)), (20, (10, 30)), (200, (10, 30)), (1000, (4, 8))] {
            for (micros, flows) in [(100, 1), (100, 8), (10_000, 1), (10_000, 8)] {
                // A window of 833 packets grows by 1 in 10 ms: one period of NewReno is 5.6 s, of CUBIC 8.5 s.
                let slow = mbps == 1000 && micros == 10_000 && flows == 1;
                let time = if slow { (20, 37) } else { time };
                let part = settled(tcp, mbps, Duration::from_micros(micros), flows, time);
                println!("{name}, {mbps} Mb/s, {micros} us, {flows} flows: {part:.3}");
                assert!((0.9..=1.1).contains(&part), "{name}, {mbps} Mb/s, {micros} us, {flows} flows: {part}");
            }
        }
    }
}

/// A flood of ten times the limit passes for 5/4 of F and is cut to the limit from then on.
#[test]
fn a_flood_of_strangers_is_cut_to_the_limit() {
    for mbps in [1, 20, 500] {
        let limit = Bandwidth::from_mbps(mbps);
        let (mut world, hosts) = star(1, 1, limit, Duration::from_micros(100));
        let flood = world.add_flow(flow(hosts[0], hosts[1], 0), &udp(Bandwidth::from_mbps(10 * mbps)));
        let first = parts(&mut world, &[flood], limit, 0, 1)[0];
        assert!(first <= 1.0 + 0.3125 + 0.02, "{mbps} Mb/s: {first} in the first second");
        for second in 1..6 {
            let part = parts(&mut world, &[flood], limit, second, second + 1)[0];
            assert!((0.95..=1.05).contains(&part), "{mbps} Mb/s: {part} in second {second}");
        }
        assert_eq!(world.policed(hosts[1], SERVICE).marked, 0, "UDP without ECN is not marked");
    }
}

/// Where the limit changes, the virtual queue's length in time stays: no pause, and no burst of the old rate.
#[test]
fn a_flood_follows_a_changed_limit_at_once() {
    let limit = Bandwidth::from_mbps(200);
    let (mut world, hosts) = star(1, 1, limit, Duration::from_micros(100));
    let flood = world.add_flow(flow(hosts[0], hosts[1], 0), &udp(Bandwidth::from_gbps(2)));
    parts(&mut world, &[flood], limit, 0, 2);
    for (second, mbps) in [(2, 20), (3, 150), (4, 5)] {
        let limit = Bandwidth::from_mbps(mbps);
        world.set_receive_limit(hosts[1], SERVICE, limit);
        let part = parts(&mut world, &[flood], limit, second, second + 1)[0];
        assert!((0.9..=1.1).contains(&part), "{mbps} Mb/s: {part}");
    }
}

#[test]
fn ecn_of_strangers_is_marked_and_not_dropped() {
    let limit = Bandwidth::from_mbps(500);
    let (mut world, hosts) = star(1, 1, limit, Duration::from_millis(1));
    let dctcp = Parameters::Dctcp(dctcp::Parameters::default());
    let flows: Vec<FlowId> = (0..4).map(|i| world.add_flow(flow(hosts[0], hosts[1], i), &dctcp)).collect();
    parts(&mut world, &flows, limit, 0, 5);
    let before = world.policed(hosts[1], SERVICE);
    let part: f64 = parts(&mut world, &flows, limit, 5, 10).iter().sum();
    let after = world.policed(hosts[1], SERVICE);
    println!("{part:.3} of the limit, {after:?}");
    assert!((0.9..=1.1).contains(&part), "{part}");
    assert!(after.marked > before.marked && after.dropped == before.dropped, "{before:?}, {after:?}");
}

/// A flood beside a sender with Weir: that has half of the limit, or its demand if it is less.
#[test]
fn strangers_leave_half_of_the_limit_to_senders_with_weir() {
    let limit = Bandwidth::from_mbps(200);
    for (demand, expected) in [(None, 0.5), (Some(60), 0.3)] {
        let (mut world, hosts) = star(2, 1, limit, Duration::from_micros(100));
        let flood = world.add_flow(flow(hosts[0], hosts[2], 0), &udp(Bandwidth::from_gbps(2)));
        let demand = demand.map_or(Bandwidth::from_gbps(2), Bandwidth::from_mbps);
        let own = world.add_flow(flow(hosts[1], hosts[2], 1), &udp(demand));
        let parts = parts(&mut world, &[flood, own], limit, 2, 6);
        println!("{parts:?}");
        assert!(parts[1] >= expected * 0.95, "the sender with Weir has {} of the limit, due {expected}", parts[1]);
        assert!((0.45..=0.65).contains(&parts[0]), "the stranger has {} of the limit", parts[0]);
        let sum = parts[0] + parts[1];
        assert!((0.9..=1.05).contains(&sum), "{sum}");
    }
}

/// The same beside TCP, which comes in bursts with timeouts in between: R follows what the virtual queue releases.
#[test]
fn bursts_of_strangers_do_not_squeeze_out_senders_with_weir() {
    for (mbps, micros, count) in [(200, 100, 1), (200, 100, 8), (1000, 1000, 4)] {
        let limit = Bandwidth::from_mbps(mbps);
        let (mut world, hosts) = star(2, 1, limit, Duration::from_micros(micros));
        let tcp = Parameters::default();
        let mut flows: Vec<FlowId> = (0..count).map(|i| world.add_flow(flow(hosts[0], hosts[2], i), &tcp)).collect();
        flows.push(world.add_flow(flow(hosts[1], hosts[2], count), &tcp));
        let parts = parts(&mut world, &flows, limit, 3, 9);
        let (own, strangers) = (parts[count as usize], parts[..count as usize].iter().sum::<f64>());
        println!("{mbps} Mb/s, {micros} us, {count} flows of strangers: {strangers:.3} and {own:.3}");
        assert!(own >= 0.45, "the sender with Weir has {own} of {mbps} Mb/s");
        assert!(strangers >= 0.45 && strangers + own <= 1.05, "strangers have {strangers}");
    }
}

/// What the policer drops has crossed the link: the interface's shares follow from all that arrives.
#[test]
fn dropped_packets_count_at_the_interface() {
    let capacity = |flood: u64| {
        let mut world = World::new(2, SIZES, Checkers::default());
        let switch = world.add_switch();
        let edge = link(Bandwidth::from_gbps(10), Duration::from_micros(10), 4_000_000);
        let hosts = [(); 2].map(|()| world.add_host(switch, edge, edge));
        world.compute_routes();
        let limited = Share { max: Bandwidth::from_mbps(500), ..Share::default() };
        world.set_shapers(parley(hosts.len(), &[limited, Share::default()]));
        world.set_stranger(hosts[0]);
        let flood = world.add_flow(flow(hosts[0], hosts[1], 0), &udp(Bandwidth::from_gbps(flood)));
        let part = parts(&mut world, &[flood], limited.max, 1, 2)[0];
        assert!((0.95..=1.05).contains(&part), "{part} of the limit");
        world.shaper(hosts[1], ServiceIndex(1)).expect("shapers").capacity
    };
    assert_eq!(capacity(4), Bandwidth::from_mbps(9500));
    // 20 Gb/s are offered to a link of 10 and do not respond: the other service has less than its committed half.
    assert!(capacity(20) < Bandwidth::from_mbps(4750), "{}", capacity(20));
}

/// Senders with Weir count as strangers until their first feedback, and those bytes are fewer than F: none is marked or
/// dropped. 41 first windows of TCP at 20 Mb/s are as much as F; a sender has feedback before the end of its own.
#[test]
fn senders_with_weir_are_not_marked_or_dropped() {
    // 41 senders have 0.5 Mb/s each: less than a packet in a window of 24 ms.
    for (senders, mbps, least) in [(5, 2000, 0.9), (41, 20, 0.6)] {
        let limit = Bandwidth::from_mbps(mbps);
        let (mut world, hosts) = star(senders + 1, 0, limit, Duration::from_micros(100));
        // A stranger without traffic: the receivers police.
        world.set_stranger(hosts[0]);
        let (tcp, to) = (Parameters::default(), hosts[senders as usize + 1]);
        let flows: Vec<FlowId> = (1..=senders).map(|i| world.add_flow(flow(hosts[i as usize], to, i), &tcp)).collect();
        let part: f64 = parts(&mut world, &flows, limit, 2, 6).iter().sum();
        let policed = world.policed(to, SERVICE);
        println!("{senders} senders: {part:.3} of {mbps} Mb/s, {policed:?}");
        assert!((least..=1.05).contains(&part), "{part}");
        assert!(
            policed.passed > 0 && policed == Policed { passed: policed.passed, ..Policed::default() },
            "{policed:?}"
        );
    }
}
