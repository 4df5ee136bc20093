//! Transports in networks, against formulas and known answers.

use crate::support::{complete, delivered, dumbbell, flow, link, queued, run};
use weir_network::graph::{Discipline, LinkSpec, Packets, QueueSpec};
use weir_sim::checkers::Checkers;
use weir_sim::{FlowId, FlowSpec, HostId, PortId, SimTime, World};
use weir_transport::{Parameters, d3, dctcp, newreno};
use weir_units::{Bandwidth, Bytes, Duration, MachineId};
use weir_workload::{Arrivals, Builtin, Framing, Hosts, Random, Spec, mean_gap};

const SIZES: Packets = Packets { payload: 1460, headers: 40 };

fn marking(gbps: u64, delay: Duration, packets: u64) -> LinkSpec {
    let mark = Some(Bytes::new(packets * 1500));
    let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(3_000_000), mark };
    queued(Bandwidth::from_gbps(gbps), delay, queue)
}

/// DCTCP with an acknowledgement for each packet, and timers of a data center.
fn dctcp() -> Parameters {
    let mut parameters = dctcp::Parameters::default();
    parameters.tcp.delayed_ack = 1;
    parameters.tcp.min_rto = SimTime::from_millis(10);
    Parameters::Dctcp(parameters)
}

/// Every transport on an idle network takes its ideal time to the picosecond, if its window does
/// not limit it.
#[test]
fn alone_a_flow_takes_its_ideal_time() {
    let edge = link(Bandwidth::from_gbps(10), Duration::from_micros(1), 300_000);
    for transport in [
        Parameters::default(),
        Parameters::Cubic(Default::default()),
        Parameters::Dctcp(Default::default()),
        Parameters::PFabric(Default::default()),
        Parameters::Udp(Default::default()),
    ] {
        for middle in [1, 10, 40] {
            for bytes in [1, 1460, 1461, 2920, 14_600] {
                let bottleneck = link(Bandwidth::from_gbps(middle), Duration::from_micros(5), 300_000);
                let (mut world, pairs, _) = dumbbell(1, SIZES, edge, bottleneck);
                let id = world.add_flow(flow(pairs[0].0, pairs[0].1, Some(bytes)), &transport);
                run(&mut world, SimTime::from_secs(1));
                let ideal = world.ideal(pairs[0].0, pairs[0].1, 0, bytes);
                let name = transport.protocol();
                assert_eq!(world.flow(id).finished(), Some(ideal), "{name}, {bytes} B over {middle} Gb/s");
            }
        }
    }
}

/// DCTCP's queue against the model of its paper (SIGCOMM 2010, §3.3): N flows in step reach K + N
/// packets, and swing by A = √(2·N·(C·RTT + K)) / 2.
#[test]
fn dctcp_keeps_the_queue_of_its_paper() {
    // 10 Gb/s, 100 µs, K = 40: figure 12. C·RTT = 83 packets of 1500 B.
    let edge = link(Bandwidth::from_gbps(10), Duration::from_micros(5), 3_000_000);
    let bottleneck = marking(10, Duration::from_micros(40), 40);
    for flows in [2, 10] {
        let (mut world, pairs, port) = dumbbell(flows, SIZES, edge, bottleneck);
        for &(from, to) in &pairs {
            world.add_flow(flow(from, to, None), &dctcp());
        }
        run(&mut world, SimTime::from_millis(100));
        let before: u64 = world.counts(port).taken[0].bytes;
        let mut held = Vec::new();
        for step in 0..20_000 {
            world.run_until(SimTime::from_millis(100) + SimTime::from_micros(5 * step));
            held.push(world.held(port) as f64 / 1500.0);
        }
        let sent = (world.counts(port).taken[0].bytes - before) as f64;
        assert!(sent > 0.999 * 0.1 * 10e9 / 8.0, "the link is full: {sent} B");
        held.sort_by(f64::total_cmp);
        let n = f64::from(flows);
        let (most, swing) = (40.0 + n, (2.0 * n * (83.3 + 40.0)).sqrt() / 2.0);
        let (low, high) = (held[held.len() / 100], held[held.len() * 99 / 100]);
        assert!((high / most - 1.0).abs() < 0.2, "{flows} flows: {high:.1} packets at most, the model gives {most:.1}");
        // The model has all flows in step; otherwise the queue swings less.
        assert!(high - low < 1.5 * swing && high - low > 0.3 * swing, "{flows} flows: {:.1}, {swing:.1}", high - low);
        assert_eq!(world.counts(port).dropped[0].packets, 0);
    }
}

/// Two NewReno flows with different round trips: each has the rate that the square-root law gives
/// for its own losses, MSS / RTT · √(3 / (2·p)) (Mathis et al. 1997). Delayed acknowledgements do
/// not halve the growth, since bytes are counted (RFC 3465).
#[test]
fn newreno_has_the_share_of_the_square_root_law() {
    // Long round trips and a short queue, so that the queue adds little to them; other paths to
    // each host.
    let bottleneck = link(Bandwidth::from_mbps(100), Duration::from_millis(1), 60_000);
    let mut world = World::new(0, SIZES, Checkers::default());
    let (left, right) = (world.add_switch(), world.add_switch());
    let host = |world: &mut World<Checkers>, switch, ms| {
        let edge = link(Bandwidth::from_gbps(1), Duration::from_millis(ms), 10_000_000);
        world.add_host(switch, edge, edge)
    };
    let near = (host(&mut world, left, 2), host(&mut world, right, 2));
    let far = (host(&mut world, left, 7), host(&mut world, right, 7));
    let (port, _) = world.connect(left, right, bottleneck, bottleneck);
    world.compute_routes();
    // Without noise their losses synchronise (Floyd and Jacobson 1992).
    world.set_jitter(SimTime::from_micros(121), 1);
    let ids = [near, far].map(|(from, to)| world.add_flow(flow(from, to, None), &Parameters::default()));
    run(&mut world, SimTime::from_secs(20));
    let before = ids.map(|id| delivered(&world, id));
    // A loss event halves the window once, regardless of the number of packets; the law counts
    // events.
    let (mut windows, mut events, mut queue) = ([0; 2], [0u32; 2], 0.0);
    const STEPS: u64 = 140_000;
    for step in 1..=STEPS {
        world.run_until(SimTime::from_secs(20) + SimTime::from_millis(2 * step));
        queue += world.held(port) as f64 * 8.0 / 100e6 / STEPS as f64;
        for ((id, before), events) in ids.iter().zip(&mut windows).zip(&mut events) {
            let window = world.flow(*id).sender().window();
            *events += u32::from(window * 10 < *before * 7);
            *before = window;
        }
    }
    for (((id, bytes), events), trip) in ids.into_iter().zip(before).zip(events).zip([0.010, 0.030]) {
        let bytes = (delivered(&world, id) - bytes) as f64;
        let share = f64::from(events) / (bytes / 1460.0);
        let law = 1460.0 / (trip + queue) * (3.0 / (2.0 * share)).sqrt();
        let rate = bytes / (STEPS as f64 * 0.002);
        assert!((rate / law - 1.0).abs() < 0.2, "{:.0} ms: {rate:.0} B/s, the law gives {law:.0}", trip * 1e3);
        assert!(events > 100, "{events}");
    }
    assert!(world.counts(port).dropped[0].packets > 500);
}

/// D3 without deadlines at 1 Gb/s (algorithms' known answer): four flows settle at a quarter each;
/// with deadlines, those that need more get it.
#[test]
fn d3_divides_a_link() {
    let edge = link(Bandwidth::from_gbps(10), Duration::from_micros(5), 1_000_000);
    let bottleneck = link(Bandwidth::from_gbps(1), Duration::from_micros(5), 200_000);
    let (mut world, pairs, _) = dumbbell(5, SIZES, edge, bottleneck);
    let transport = Parameters::D3(d3::Parameters::default());
    let ids: Vec<FlowId> =
        pairs[..4].iter().map(|&(from, to)| world.add_flow(flow(from, to, None), &transport)).collect();
    run(&mut world, SimTime::from_millis(50));
    let before: Vec<u64> = ids.iter().map(|&id| delivered(&world, id)).collect();
    run(&mut world, SimTime::from_millis(150));
    let mbps: Vec<f64> = ids
        .iter()
        .zip(&before)
        .map(|(&id, before)| (delivered(&world, id) - before) as f64 * 8.0 * 1500.0 / 1460.0 / 0.1 / 1e6)
        .collect();
    // Each round trip's request is a header of its own or rides on data, and the port adapts to the
    // usage.
    assert!(mbps.iter().all(|rate| (rate / 250.0 - 1.0).abs() < 0.08), "{mbps:?}");
    // A fifth with a deadline: 5 MB within 80 ms need 500 Mb/s.
    let now = world.now();
    let deadline = Some(now + SimTime::from_millis(80));
    let (from, to) = pairs[4];
    let urgent = world.add_flow(FlowSpec { start: now, deadline, ..flow(from, to, Some(5_000_000)) }, &transport);
    run(&mut world, now + SimTime::from_millis(200));
    let finished = world.flow(urgent).finished();
    assert!(finished.is_some() && finished <= deadline, "{finished:?}, due {deadline:?}");
}

/// Two switches with two ways between them, of 1 Gb/s each, and four pairs of hosts. Two D3 flows
/// take either way, or all packets are sprayed. The world, the flows, and both ports of each way's
/// first cable.
fn two_ways(sprays: bool) -> (World<Checkers>, Vec<FlowId>, [[PortId; 2]; 2]) {
    let mut world = World::new(0, SIZES, Checkers::default());
    let edge = link(Bandwidth::from_gbps(10), Duration::from_micros(5), 1_000_000);
    let inner = link(Bandwidth::from_gbps(1), Duration::from_micros(5), 200_000);
    let (left, right) = (world.add_switch(), world.add_switch());
    let middle = [world.add_switch(), world.add_switch()];
    let pairs: Vec<_> = (0..4).map(|_| (world.add_host(left, edge, edge), world.add_host(right, edge, edge))).collect();
    let ways = middle.map(|middle| {
        world.connect(middle, right, inner, inner);
        let (there, back) = world.connect(left, middle, inner, inner);
        [there, back]
    });
    world.compute_routes();
    if sprays {
        world.set_spraying(5);
    }
    let flows = pairs.into_iter().enumerate().map(|(number, (from, to))| {
        let takes = |hash: &u32| world.way(from, to, *hash).is_some_and(|way| way.contains(&ways[number % 2][0]));
        let hash = (0..100).find(takes).expect("a hash for each way");
        FlowSpec { hash, ..flow(from, to, None) }
    });
    let flows: Vec<FlowSpec> = flows.collect();
    // Ports withhold nothing for their queues, so that shares can be distinguished exactly.
    let transport = Parameters::D3(d3::Parameters { beta: 0.0, ..d3::Parameters::default() });
    let ids = flows.into_iter().map(|spec| world.add_flow(spec, &transport)).collect();
    (world, ids, ways)
}

/// Each flow's delivered rate from `from` to `to`, in Mb/s on the wire.
fn rates(world: &mut World<Checkers>, ids: &[FlowId], from: SimTime, to: SimTime) -> Vec<f64> {
    run(world, from);
    let before: Vec<u64> = ids.iter().map(|&id| delivered(world, id)).collect();
    run(world, to);
    let seconds = (to - from).picos() as f64 / 1e12;
    let rate = |(&id, before)| (delivered(world, id) - before) as f64 * 8.0 * 1500.0 / 1460.0 / seconds / 1e6;
    ids.iter().zip(before).map(rate).collect()
}

/// D3 when a path fails, is repaired, and fails again: after the timeout that detects the lost
/// request and the two periods after which ports forget, each flow has its equal share of the
/// remaining capacity.
#[test]
fn d3_divides_the_remaining_capacity_when_paths_change() {
    let (mut world, ids, ways) = two_ways(false);
    let ms = SimTime::from_millis;
    // From a change on: 10 ms for the timeout, 20 ms for the periods, and some round trips.
    let settled = |world: &mut World<Checkers>, share: f64| {
        let now = world.now();
        let rates = rates(world, &ids, now + ms(32), now + ms(100));
        assert!(rates.iter().all(|rate| (rate / share - 1.0).abs() < 0.01), "{rates:?}, not {share}, at {now}");
    };
    settled(&mut world, 500.0);
    for way in [0, 1, 0] {
        for port in ways[way] {
            world.take_down(port);
        }
        world.compute_routes();
        settled(&mut world, 250.0);
        for port in ways[way] {
            world.bring_up(port);
        }
        world.compute_routes();
        settled(&mut world, 500.0);
    }
}

/// Sprayed over both ways, four flows fill both, though each port counts only parts of them.
#[test]
fn d3_fills_all_ways_of_a_network_that_sprays() {
    let (mut world, ids, ways) = two_ways(true);
    let carried = |world: &World<Checkers>| ways.map(|[there, _]| world.counts(there).taken[0].bytes);
    run(&mut world, SimTime::from_millis(30));
    let before = carried(&world);
    let rates = rates(&mut world, &ids, SimTime::from_millis(30), SimTime::from_millis(130));
    for (after, before) in carried(&world).into_iter().zip(before) {
        let share = (after - before) as f64 * 8.0 / 0.1 / 1e9;
        // Packets that wait at the end were taken and not sent.
        assert!((0.93..1.01).contains(&share), "{share} of a way");
    }
    // Packets that overtake others look like losses, and some are sent in vain.
    let mean = rates.iter().sum::<f64>() / 4.0;
    assert!(mean > 300.0 && rates.iter().all(|rate| (rate / mean - 1.0).abs() < 0.02), "{rates:?}");
}

/// Web-search flows on a leaf-spine: mean slowdown of short flows (up to 10 kB, below 100 kB) is
/// best with pFabric, then DCTCP, then TCP, as published (pFabric, figures 9 and 10).
#[test]
fn short_flows_fare_as_published() {
    let pfabric = Discipline::PFabric;
    let small = QueueSpec { discipline: pfabric, buffer: Bytes::new(36_000), mark: None };
    let drop_tail = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(225_000), mark: None };
    let marked = QueueSpec { mark: Some(Bytes::new(22_500)), ..drop_tail };
    let mut tcp = newreno::Parameters::default();
    tcp.tcp.min_rto = SimTime::from_micros(200);
    tcp.tcp.delayed_ack = 1;
    let slowdowns: Vec<f64> =
        [(small, Parameters::PFabric(Default::default())), (marked, dctcp()), (drop_tail, Parameters::NewReno(tcp))]
            .into_iter()
            .map(|(queue, transport)| short_slowdown(queue, transport))
            .collect();
    let [pfabric, dctcp, tcp] = slowdowns[..] else { panic!("three") };
    assert!(pfabric < 1.5, "{slowdowns:?}");
    assert!(pfabric < 0.6 * dctcp && dctcp < 0.6 * tcp, "{slowdowns:?}");
}

/// The mean slowdown of flows below 100 kB at 60 % load.
fn short_slowdown(queue: QueueSpec, transport: Parameters) -> f64 {
    let mut world = World::new(0, SIZES, Checkers::default());
    let delay = Duration::from_nanos(200);
    let spines = [world.add_switch(), world.add_switch()];
    for _ in 0..3 {
        let leaf = world.add_switch();
        for _ in 0..8 {
            let edge = queued(Bandwidth::from_gbps(10), delay, queue);
            world.add_host(leaf, edge, edge);
        }
        for spine in spines {
            let up = queued(Bandwidth::from_gbps(40), delay, queue);
            world.connect(leaf, spine, up, up);
        }
    }
    world.compute_routes();
    let sizes = Builtin::WebSearch.sizes();
    let wire = sizes.mean_wire_bytes(Framing::new(1460, 40).expect("sizes"));
    let load = weir_units::Load::from_fraction(0.6).expect("a load");
    let gap = mean_gap(load, Bandwidth::from_gbps(240), wire).expect("a gap");
    let hosts = Hosts::first(24).expect("hosts");
    let random = Random::new(hosts.clone(), hosts, Arrivals::Poisson, gap, sizes).expect("a workload");
    let random = Spec::Random(random.at_most(600).expect("flows"));
    let records = complete(&mut world, random, transport, 11);
    assert_eq!(records.len(), 600);
    let short: Vec<f64> =
        records.iter().filter(|record| record.bytes < 100_000).filter_map(|record| record.slowdown()).collect();
    assert!(short.len() > 200 && short.iter().all(|slowdown| *slowdown >= 1.0));
    short.iter().sum::<f64>() / short.len() as f64
}

/// The same calls give the same flows, independent of the rest of the process.
#[test]
fn the_same_seed_gives_the_same_records() {
    let run = |seed| {
        let edge = marking(10, Duration::from_micros(1), 65);
        let (mut world, pairs, port): (_, Vec<(HostId, HostId)>, PortId) = dumbbell(8, SIZES, edge, edge);
        let hosts: Vec<MachineId> = pairs.iter().flat_map(|&(a, b)| [a, b]).map(|host| MachineId(host.0)).collect();
        let hosts = Hosts::new(hosts, "hosts").expect("hosts");
        let sizes = Builtin::Enterprise.sizes();
        let gap = weir_workload::MeanGap::from_time(SimTime::from_micros(40)).expect("a gap");
        let random = Random::new(hosts.clone(), hosts, Arrivals::Poisson, gap, sizes).expect("a workload");
        let random = Spec::Random(random.at_most(300).expect("flows"));
        let records = complete(&mut world, random, dctcp(), seed);
        format!("{records:?} {:?} {:?}", world.counters(), world.counts(port))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
