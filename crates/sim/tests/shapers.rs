//! Machine shapers in networks, against Parley's figures, with every checker on.

mod support;

use support::{SIZES, delivered, queued, run};
use weir_datapath::ShaperParameters;
use weir_policy::{Share, Sharing};
use weir_scenario::graph::{Discipline, LinkSpec, QueueSpec};
use weir_sim::checkers::Checkers;
use weir_sim::{Class, FlowId, FlowSpec, HostId, ServiceShaper, ShaperConfig, SimTime, World};
use weir_transport::{Parameters, udp};
use weir_units::{Bandwidth, Bytes, Duration, MachineId, PerDirection};

const SERVICE: Class = Class(0);
/// Parley, Table 1.
const MARK: Bytes = Bytes::new(80_000);

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

/// Parley's shapers for services with these receive shares at each machine.
fn parley(hosts: usize, shares: &[Share]) -> ShaperConfig {
    let service = |&share: &Share| ServiceShaper {
        interval: ShaperParameters::PARLEY.interval,
        burst: Bytes::new(64_000),
        shares: PerDirection { tx: Share::default(), rx: share },
        senders: Vec::new(),
    };
    ShaperConfig {
        parameters: ShaperParameters::PARLEY,
        sharing: Sharing::Fill,
        services: shares.iter().map(service).collect(),
        capacities: vec![PerDirection { tx: Bandwidth::from_gbps(10), rx: Bandwidth::from_mbps(9500) }; hosts],
        transmit: None,
    }
}

fn at_most(gbps: u64) -> Share {
    Share { max: Bandwidth::from_gbps(gbps), ..Share::default() }
}

fn flow(from: HostId, to: HostId, number: u32) -> FlowSpec {
    FlowSpec { hash: number.wrapping_mul(0x9E37_79B9) ^ from.0, ..support::flow(from, to, None) }
}

fn udp(mbps: Option<u64>) -> Parameters {
    Parameters::Udp(udp::Parameters { rate: mbps.map(Bandwidth::from_mbps), ..udp::Parameters::default() })
}

/// What each flow delivered between two times, in Mb/s of payload, and headers as the links count them.
fn rates(world: &mut World<Checkers>, flows: &[FlowId], from: SimTime, to: SimTime) -> Vec<f64> {
    run(world, from);
    let before: Vec<u64> = flows.iter().map(|&flow| delivered(world, flow)).collect();
    run(world, to);
    let time = (to - from).picos() as f64 / 1e12;
    let frame = f64::from(SIZES.payload + SIZES.headers) / f64::from(SIZES.payload);
    let rate = |(&flow, before): (&FlowId, u64)| (delivered(world, flow) - before) as f64 * frame * 8.0 / time / 1e6;
    flows.iter().zip(before).map(rate).collect()
}

fn near(what: &str, found: f64, expected: f64, percent: f64) {
    assert!((found - expected).abs() <= expected * percent / 100.0, "{what}: {found:.1}, not {expected:.1}");
}

/// Parley Fig 4: 1, 3 and more Gb/s to a service of 9 Gb/s: the meter says 5, and 1, 3 and 5 arrive.
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
    // What 14 Gb/s lose at 10 before the receiver has been heard.
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

/// A receiver's cap of 5 Gb/s is held and used, whoever sends.
#[test]
fn a_cap_is_held_with_any_number_of_senders() {
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

/// Parley Fig 12 in small: 30 connections to one receiver and 1 to another. With shapers the receivers share the link evenly; at
/// 1 ms they are too slow for that; without them the one connection starves.
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

/// What `a` and `b` deliver at one interface that both fill, `b` for 400 ms already, from 200 ms after `a` came until `end` ms, in Gb/s:
/// each of their senders has a machine of its own, and `b`'s send `flows` flows each. `seed` makes starts differ by less than a packet.
fn beside(crowds: Crowds, end: u64, seed: u64) -> [f64; 2] {
    let Crowds { guarantees, senders, flows, idle, .. } = crowds;
    let mut world = World::new(2 + idle, SIZES, Checkers::default());
    let switch = world.add_switch();
    let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(1_000_000), mark: Some(MARK) };
    let edge = queued(Bandwidth::from_gbps(10), Duration::from_micros(2), queue);
    let hosts: Vec<HostId> = (0..=senders[0] + senders[1]).map(|_| world.add_host(switch, edge, edge)).collect();
    world.compute_routes();
    world.set_jitter(SimTime::from_nanos(1212), seed);
    let shares = guarantees.map(|gbps| Share { min: Bandwidth::from_gbps(gbps), ..Share::default() });
    let shares = [&shares[..], &vec![Share::default(); idle]].concat();
    world.set_shapers(parley(hosts.len(), &shares));
    let cubic = Parameters::Cubic(Default::default());
    let mut of = [Vec::new(), Vec::new()];
    let mut from = hosts[1..].iter();
    for (service, count, start) in [(0, 1, SimTime::from_millis(400)), (1, flows, SimTime::ZERO)] {
        for &sender in from.by_ref().take(senders[service] as usize) {
            for number in 0..count {
                let spec = FlowSpec { class: Class(service as u16), start, ..flow(sender, hosts[0], number) };
                of[service].push(world.add_flow(spec, &cubic));
            }
        }
    }
    let all: Vec<FlowId> = of.iter().flatten().copied().collect();
    let rates = rates(&mut world, &all, SimTime::from_millis(600), SimTime::from_millis(end));
    let (a, b) = rates.split_at(of[0].len());
    [a, b].map(|rates| rates.iter().sum::<f64>() / 1000.0)
}

/// Two crowds of one service each.
#[derive(Clone, Copy)]
struct Crowds {
    guarantees: [u64; 2],
    senders: [u32; 2],
    flows: u32,
    /// What the rule gives them of 9.5 Gb/s.
    due: [f64; 2],
    /// Services that have nothing to send.
    idle: usize,
}

const fn crowds(guarantees: [u64; 2], senders: [u32; 2], flows: u32, due: [f64; 2]) -> Crowds {
    Crowds { guarantees, senders, flows, due, idle: 0 }
}

const fn beside_idle(idle: usize, crowds: Crowds) -> Crowds {
    Crowds { idle, ..crowds }
}

const HALVES: [f64; 2] = [4.75, 4.75];
const WITHOUT_GUARANTEES: [Crowds; 3] =
    [crowds([0, 0], [3, 3], 1, HALVES), crowds([0, 0], [1, 20], 1, HALVES), crowds([0, 0], [10, 20], 1, HALVES)];
const IDLE: [Crowds; 5] = [
    beside_idle(1, crowds([0, 0], [3, 3], 1, HALVES)),
    beside_idle(8, crowds([0, 0], [3, 3], 1, HALVES)),
    beside_idle(8, crowds([0, 0], [1, 20], 1, HALVES)),
    beside_idle(8, crowds([4, 0], [3, 3], 1, HALVES)),
    beside_idle(8, crowds([8, 1], [1, 20], 1, [8.0, 1.5])),
];
const EVEN: [Crowds; 4] = [
    crowds([4, 4], [3, 3], 1, HALVES),
    crowds([5, 5], [1, 20], 1, HALVES),
    crowds([5, 5], [1, 20], 3, HALVES),
    crowds([5, 5], [10, 20], 1, HALVES),
];
const UNEVEN: [Crowds; 5] = [
    crowds([5, 0], [3, 20], 1, [5.0, 4.5]),
    crowds([8, 0], [1, 20], 1, [8.0, 1.5]),
    crowds([8, 1], [1, 20], 1, [8.0, 1.5]),
    crowds([8, 1], [10, 1], 1, [8.0, 1.5]),
    crowds([8, 1], [10, 20], 1, [8.0, 1.5]),
];

fn share_an_interface(senders: [u32; 2], flows: u32) {
    let [a, b] = beside(crowds([5, 5], senders, flows, HALVES), 900, 1);
    assert!(a > 4.0 && b > 3.5 && a + b > 8.0, "{senders:?} senders: {a:.2} and {b:.2}");
}

/// Two crowds at one interface: neither starves, and little is left unused (see `datapath/interface_meter.h`).
#[test]
fn crowds_share_an_interface() {
    share_an_interface([1, 20], 1);
    share_an_interface([1, 20], 3);
}

/// The same with ten senders beside twenty, from 200 ms after they came: too many of them wait for retransmission timers then.
#[test]
#[ignore = "does not hold: 2.25 and 3.34 Gb/s since marks are waited for; over a second and eight seeds 3.85 and 4.57"]
fn ten_senders_beside_twenty_share_an_interface() {
    share_an_interface([10, 20], 1);
}

/// Who has a guarantee of 8 gets it from a crowd that has one of 1.
#[test]
fn a_guarantee_is_kept_beside_a_crowd() {
    for senders in [[10, 20], [1, 20], [10, 1]] {
        let [a, b] = beside(crowds([8, 1], senders, 1, [8.0, 1.5]), 900, 1);
        assert!(a > 6.0 && b > 0.95, "{senders:?} senders: {a:.2} and {b:.2}");
    }
}

/// Prints what eight seeds of each pair of crowds come to in a second, and holds their means to what the rule gives them. One seed
/// alone says little: where senders have less than two packets in flight, some meet retransmission timeouts of 200 ms.
fn table(cases: &[Crowds]) {
    for &crowds in cases {
        let runs: Vec<[f64; 2]> = (1..=8).map(|seed| beside(crowds, 1600, seed)).collect();
        let of = |service: usize| {
            let mean = runs.iter().map(|run| run[service]).sum::<f64>() / runs.len() as f64;
            let each: Vec<String> = runs.iter().map(|run| format!("{:.1}", run[service])).collect();
            (mean, format!("{mean:.2} Gb/s ({})", each.join(", ")))
        };
        let ((a, a_text), (b, b_text)) = (of(0), of(1));
        let Crowds { guarantees, senders, flows, due, idle } = crowds;
        println!("guarantees {guarantees:?}, senders {senders:?}, flows {flows}: {a_text} and {b_text} of {due:?}");
        assert!(a > 0.75 * due[0] && b > 0.75 * due[1], "{a_text} and {b_text} of {due:?}");
        // Beside idle services both have more than they are entitled to, and marks bring both down.
        let least = if idle == 0 { 8.3 } else { 7.6 };
        assert!(a + b > least, "{a:.2} and {b:.2}");
        let starves = |run: &[f64; 2]| run[0] < 0.4 * due[0] || run[1] < 0.4 * due[1];
        assert!(!runs.iter().any(starves), "{a_text} and {b_text}");
    }
}

#[test]
fn crowds_without_guarantees_share_evenly() {
    table(&WITHOUT_GUARANTEES);
}

#[test]
fn crowds_share_beside_idle_services() {
    table(&IDLE);
}

#[test]
fn crowds_with_guarantees_of_half_share_evenly() {
    table(&EVEN);
}

#[test]
fn crowds_get_what_they_are_guaranteed() {
    table(&UNEVEN);
}

/// EyeQ: an interface carries 9 Gb/s of its 10; services share it by weight, and have it to themselves when they are alone.
#[test]
fn eyeq_levels() {
    let weight = |weight: &str| Share { weight: weight.parse().expect("a weight"), ..Share::default() };
    let (mut world, hosts) = star(4, 2);
    let mut config = parley(4, &[weight("1"), weight("2")]);
    config.parameters = ShaperParameters::EYEQ;
    config.capacities = vec![PerDirection { tx: Bandwidth::from_mbps(9800), rx: Bandwidth::from_gbps(9) }; 4];
    config.transmit = Some(weir_datapath::InterfaceParameters::EYEQ_TRANSMIT);
    world.set_shapers(config);
    let mut flows = vec![world.add_flow(flow(hosts[0], hosts[3], 0), &udp(None))];
    let second = FlowSpec { class: Class(1), start: SimTime::from_millis(150), ..flow(hosts[1], hosts[3], 1) };
    flows.push(world.add_flow(second, &udp(None)));
    let alone = rates(&mut world, &flows, SimTime::from_millis(50), SimTime::from_millis(150));
    let both = rates(&mut world, &flows, SimTime::from_millis(600), SimTime::from_millis(700));
    near("alone", alone[0], 9000.0, 3.0);
    near("of weight 1", both[0], 3000.0, 5.0);
    near("of weight 2", both[1], 6000.0, 5.0);
}

/// A receiver that cannot answer any more: after a second its sender's limiter is forgotten, and what waited for it goes on.
#[test]
fn a_limiter_that_hears_nothing_goes() {
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

/// What shapers make of packets' ECN bits is theirs: transports that did not ask do the same to the packet, and DCTCP hears of marks.
#[test]
fn marks_reach_those_who_asked() {
    let both = |transport: &Parameters| {
        [false, true].map(|shaped| {
            let (mut world, hosts) = star(3, 1);
            if shaped {
                // No capacity, no feedback: nothing but the bits.
                let mut config = parley(3, &[Share::default()]);
                config.capacities = vec![PerDirection::both(Bandwidth::UNLIMITED); 3];
                world.set_shapers(config);
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

/// EyeQ's sending side: services share 9.8 Gb/s of a host's 10 by weight, whoever they send to; one that is alone has it all.
#[test]
fn eyeq_shares_what_is_sent() {
    let (mut world, hosts) = star(4, 2);
    let weight = |weight: &str| Share { weight: weight.parse().expect("a weight"), ..Share::default() };
    let mut config = parley(4, &[Share::default(), Share::default()]);
    config.parameters = ShaperParameters::EYEQ;
    config.services[0].shares.tx = weight("1");
    config.services[1].shares.tx = weight("2");
    config.capacities = vec![PerDirection { tx: Bandwidth::from_mbps(9800), rx: Bandwidth::from_gbps(9) }; 4];
    config.transmit = Some(weir_datapath::InterfaceParameters::EYEQ_TRANSMIT);
    world.set_shapers(config);
    // Two receivers for the second service, so that no receiver holds it back.
    let second =
        |to: usize| FlowSpec { class: Class(1), start: SimTime::from_millis(300), ..flow(hosts[0], hosts[to], 1) };
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
