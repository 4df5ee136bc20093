//! Machine shapers in networks, against Parley's figures, with every checker on.

use crate::support::shaped::{MARK, flow, list, parley, rates};
use crate::support::{SIZES, delivered, queued, run};
use weir_network::graph::{Discipline, LinkSpec, QueueSpec};
use weir_policy::Share;
use weir_shaping::ShaperParameters;
use weir_sim::checkers::Checkers;
use weir_sim::{FlowId, FlowSpec, HostId, ServiceIndex, SimTime, World};
use weir_transport::{Parameters, udp};
use weir_units::{Bandwidth, Bytes, Duration, MachineId, PerDirection};

const SERVICE: ServiceIndex = ServiceIndex(0);
/// A link that marks at 80 kB.
fn link(rate: Bandwidth) -> LinkSpec {
    let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(256_000), mark: Some(MARK) };
    queued(rate, Duration::from_micros(2), queue)
}

/// `hosts` at 10 Gb/s on one switch.
fn star(hosts: u32, services: usize) -> (World<Checkers>, Vec<HostId>) {
    let mut world = World::new(services, SIZES, Checkers::default());
    let switch = world.add_switch();
    let edge = link(Bandwidth::from_gbps(10));
    let hosts = (0..hosts).map(|_| world.add_host(switch, edge, edge)).collect();
    world.compute_routes();
    world.set_jitter(SimTime::from_nanos(1212), 1);
    (world, hosts)
}

fn at_most(gbps: u64) -> Share {
    Share { max: Bandwidth::from_gbps(gbps), ..Share::default() }
}

fn udp(mbps: Option<u64>) -> Parameters {
    Parameters::Udp(udp::Parameters { rate: mbps.map(Bandwidth::from_mbps), ..udp::Parameters::default() })
}

fn near(what: &str, found: f64, expected: f64, percent: f64) {
    assert!((found - expected).abs() <= expected * percent / 100.0, "{what}: {found:.1}, not {expected:.1}");
}

/// Parley Fig 4: 1, 3 and more Gb/s to a service of 9 Gb/s: the meter advertises 5, and 1, 3 and 5
/// arrive.
#[test]
fn parley_fig_4() {
    let (mut world, hosts) = star(4, 1);
    world.set_shapers(parley(4, &[at_most(9)]));
    let offered = [Some(1000), Some(3000), None];
    let flows: Vec<FlowId> =
        (0..3).map(|i| world.add_flow(flow(hosts[i], hosts[3], i as u32), &udp(offered[i]))).collect();
    let rates = rates(&mut world, &flows, SimTime::from_millis(50), SimTime::from_millis(150));
    for (rate, expected) in rates.iter().zip([1000.0, 3000.0, 5000.0]) {
        near("usage", *rate, expected, 3.0);
    }
    let meter = world.shaper(hosts[3], SERVICE).expect("there are shapers");
    assert_eq!(meter.capacity, Bandwidth::from_gbps(9));
    near("R", meter.rate.bps() as f64 / 1e6, 5000.0, 3.0);
    let limiter = |host: HostId| world.destination_rate(host, SERVICE, hosts[3]);
    assert!(hosts[..3].iter().all(|&host| limiter(host).is_some()) && limiter(hosts[3]).is_none());
    // The losses of 14 Gb/s at 10 before the first feedback.
    assert!(world.counters().dropped < 2000, "{:?}", world.counters());
}

/// Weights of senders 1 and 2: 3 and 6 Gb/s of 9.
#[test]
fn senders_are_weighted() {
    let (mut world, hosts) = star(3, 1);
    let mut config = parley(3, &[at_most(9)]);
    config.services[0].senders = vec![(MachineId(hosts[1].0), "2".parse().expect("a weight"))];
    world.set_shapers(config);
    let flows: Vec<FlowId> = (0..2).map(|i| world.add_flow(flow(hosts[i], hosts[2], i as u32), &udp(None))).collect();
    let rates = rates(&mut world, &flows, SimTime::from_millis(50), SimTime::from_millis(150));
    for (rate, expected) in rates.iter().zip([3000.0, 6000.0]) {
        near("usage", *rate, expected, 3.0);
    }
}

/// A receiver's cap of 5 Gb/s is kept and used, for any set of senders.
#[test]
fn a_cap_holds_with_any_number_of_senders() {
    for senders in [1, 2, 10, 50] {
        let (mut world, hosts) = star(senders + 1, 1);
        let to = hosts[senders as usize];
        world.set_shapers(parley(hosts.len(), &[at_most(5)]));
        let flows: Vec<FlowId> =
            (0..senders).map(|i| world.add_flow(flow(hosts[i as usize], to, i), &Parameters::default())).collect();
        let rates = rates(&mut world, &flows, SimTime::from_millis(600), SimTime::from_millis(900));
        near(&format!("{senders} senders"), rates.iter().sum(), 5000.0, 3.0);
        for rate in &rates {
            near(&format!("one of {senders}"), *rate, 5000.0 / f64::from(senders), 5.0);
        }
    }
}

/// Two senders, and two receivers behind one link of 10 Gb/s.
fn congested() -> (World<Checkers>, Vec<HostId>) {
    let mut world = World::new(1, SIZES, Checkers::default());
    let (left, right) = (world.add_switch(), world.add_switch());
    let edge = link(Bandwidth::from_gbps(10));
    let hosts = [left, left, right, right].map(|switch| world.add_host(switch, edge, edge));
    world.connect(left, right, edge, edge);
    world.compute_routes();
    world.set_jitter(SimTime::from_nanos(1212), 1);
    (world, hosts.to_vec())
}

/// Parley Fig 12 in small: 30 connections to one receiver and 1 to another. With shapers the
/// receivers share the link evenly; at 1 ms they are too slow for that; without them the one
/// connection starves.
#[test]
fn receivers_share_a_congested_link() {
    let jain = |interval: Option<Duration>| {
        let (mut world, hosts) = congested();
        if let Some(interval) = interval {
            world.set_shapers(parley(4, &[Share::default()]));
            world.set_meter_interval(interval);
        }
        let mut add = |from: usize, to: usize, number: u32| {
            world.add_flow(flow(hosts[from], hosts[to], number), &Parameters::default())
        };
        let mut flows = vec![add(1, 3, 0)];
        flows.extend((1..=30).map(|number| add(0, 2, number)));
        let rates = rates(&mut world, &flows, SimTime::from_millis(500), SimTime::from_millis(1500));
        let (one, thirty) = (rates[0], rates[1..].iter().sum::<f64>());
        assert!(one + thirty > 8000.0, "the link carries {one} and {thirty}");
        (one + thirty).powi(2) / (2.0 * (one * one + thirty * thirty))
    };
    let (fast, slow) = (jain(Some(Duration::from_micros(200))), jain(Some(Duration::from_millis(1))));
    assert!(fast > 0.99, "200 us: {fast}");
    assert!(slow < 0.9, "1 ms: {slow}");
    assert!(jain(None) < 0.51, "without shapers");
}

/// EyeQ: an interface carries 9 Gb/s of its 10; services share it by weight, and have it to
/// themselves when they are alone.
#[test]
fn eyeq_levels() {
    let weight = |weight: &str| Share { weight: weight.parse().expect("a weight"), ..Share::default() };
    let (mut world, hosts) = star(4, 2);
    let capacities = PerDirection { tx: Bandwidth::from_mbps(9800), rx: Bandwidth::from_gbps(9) };
    let of = |rx: Share| PerDirection { tx: Share::default(), rx };
    let mut config = list(4, capacities, &[of(weight("1")), of(weight("2"))]);
    config.parameters = ShaperParameters::EYEQ;
    config.transmit = Some(weir_shaping::InterfaceParameters::EYEQ_TRANSMIT);
    world.set_shapers(config);
    let mut flows = vec![world.add_flow(flow(hosts[0], hosts[3], 0), &udp(None))];
    let second = FlowSpec { service: ServiceIndex(1), start: SimTime::from_millis(150), ..flow(hosts[1], hosts[3], 1) };
    flows.push(world.add_flow(second, &udp(None)));
    let alone = rates(&mut world, &flows, SimTime::from_millis(50), SimTime::from_millis(150));
    let both = rates(&mut world, &flows, SimTime::from_millis(600), SimTime::from_millis(700));
    near("alone", alone[0], 9000.0, 3.0);
    near("of weight 1", both[0], 3000.0, 5.0);
    near("of weight 2", both[1], 6000.0, 5.0);
}

/// A receiver that cannot send feedback any more: after a second its sender's limiter is removed,
/// and the packets of its queue continue.
#[test]
fn a_limiter_without_feedback_is_removed() {
    let (mut world, hosts) = star(2, 1);
    world.set_shapers(parley(2, &[at_most(1)]));
    let flow = world.add_flow(flow(hosts[0], hosts[1], 0), &udp(None));
    run(&mut world, SimTime::from_millis(500));
    assert!(world.destination_rate(hosts[0], SERVICE, hosts[1]).is_some_and(|rate| rate.bps() < 1_100_000_000));
    assert!(world.waiting_for_destinations() > 0);
    // Its cable is cut in the direction in which it sends.
    world.take_down(world.interface(hosts[1]));
    let still = rates(&mut world, &[flow], SimTime::from_millis(600), SimTime::from_millis(1400));
    near("for a second", still[0], 1000.0, 3.0);
    let free = rates(&mut world, &[flow], SimTime::from_millis(1600), SimTime::from_millis(1700));
    near("then", free[0], 10_000.0, 1.0);
    assert_eq!(world.destination_rate(hosts[0], SERVICE, hosts[1]), None);
    assert_eq!(world.waiting_for_destinations(), 0);
}

/// Shapers' use of packets' ECN bits is invisible: transports without ECN behave equally to the
/// packet, and DCTCP receives marks.
#[test]
fn marks_reach_transports_with_ecn() {
    let both = |transport: &Parameters| {
        [false, true].map(|shaped| {
            let (mut world, hosts) = star(3, 1);
            if shaped {
                // No capacity, no feedback: only the bits.
                world.set_shapers(list(3, PerDirection::both(Bandwidth::UNLIMITED), &[PerDirection::default()]));
            }
            let flows: Vec<FlowId> =
                (0..2).map(|i| world.add_flow(flow(hosts[i], hosts[2], i as u32), transport)).collect();
            run(&mut world, SimTime::from_millis(200));
            let sums: Vec<u64> = flows.iter().map(|&flow| delivered(&world, flow)).collect();
            (sums, world.counters())
        })
    };
    for transport in [Parameters::default(), Parameters::Cubic(Default::default())] {
        let [without, with] = both(&transport);
        assert_eq!((without.0, without.1.dropped), (with.0, with.1.dropped), "{}", transport.protocol());
        assert!(without.1.marked == 0 && with.1.marked > 0 && with.1.dropped > 0);
    }
    let [without, with] = both(&Parameters::Dctcp(Default::default()));
    // Acknowledgements are ECN-capable only under shapers, and none of them finds a queue.
    assert_eq!((without.0, without.1), (with.0, with.1));
    assert!(with.1.marked > 0 && with.1.dropped == 0);
}

/// EyeQ's sending side: services share 9.8 Gb/s of a host's 10 by weight, for any destinations; one
/// that is alone has it all.
#[test]
fn eyeq_shares_sending() {
    let (mut world, hosts) = star(4, 2);
    let weight = |weight: &str| Share { weight: weight.parse().expect("a weight"), ..Share::default() };
    let capacities = PerDirection { tx: Bandwidth::from_mbps(9800), rx: Bandwidth::from_gbps(9) };
    let of = |tx: Share| PerDirection { tx, rx: Share::default() };
    let mut config = list(4, capacities, &[of(weight("1")), of(weight("2"))]);
    config.parameters = ShaperParameters::EYEQ;
    config.transmit = Some(weir_shaping::InterfaceParameters::EYEQ_TRANSMIT);
    world.set_shapers(config);
    // Two receivers for the second service, so that no receiver throttles it.
    let second = |to: usize| FlowSpec {
        service: ServiceIndex(1),
        start: SimTime::from_millis(300),
        ..flow(hosts[0], hosts[to], 1)
    };
    let flows = [
        world.add_flow(flow(hosts[0], hosts[1], 0), &udp(None)),
        world.add_flow(second(2), &udp(None)),
        world.add_flow(second(3), &udp(None)),
    ];
    let alone = rates(&mut world, &flows, SimTime::from_millis(200), SimTime::from_millis(300));
    let both = rates(&mut world, &flows, SimTime::from_millis(600), SimTime::from_millis(800));
    // Its receiver has 9 Gb/s.
    near("alone", alone[0], 9000.0, 3.0);
    near("of weight 1", both[0], 9800.0 / 3.0, 3.0);
    near("of weight 2", both[1] + both[2], 9800.0 * 2.0 / 3.0, 3.0);
}
