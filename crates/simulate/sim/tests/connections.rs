//! Messages on connections that stay open: their order, their times, and repeated runs.

use crate::support::scenarios::{read, run_with};
use crate::support::{SIZES, dumbbell, link};
use proptest::prelude::*;
use std::path::Path;
use weir_results::FlowRecord;
use weir_scenario::Scenario;
use weir_sim::checkers::{self, Checkers};
use weir_sim::{RunOutcome, ServiceIndex, SimTime, Source, Sources, Stop, World};
use weir_transport::{Parameters, cubic, dctcp, newreno, tcp};
use weir_units::{Bandwidth, Duration, MachineId};
use weir_workload::{Arrivals, FlowList, Hosts, MeanGap, Random, SizeDistribution, Spec};

/// Ten hosts on the left, ten on the right, 10 Gb/s at the edges, a given rate in the middle.
fn network(pairs: u32, gbps: u64) -> World<Checkers> {
    let edge = link(Bandwidth::from_gbps(10), Duration::from_micros(1), 300_000);
    let middle = link(Bandwidth::from_gbps(gbps), Duration::from_micros(5), 300_000);
    let (mut world, ..) = dumbbell(pairs, SIZES, edge, middle);
    world.set_short_host_queues();
    world
}

fn source(workload: Spec, transport: Parameters, connections: u32) -> Source {
    let (index, spread) = (ServiceIndex(0), SimTime::ZERO);
    Source {
        workload,
        transport,
        index,
        priority: 0,
        spread,
        service: None,
        connections: Some(connections),
        by_size: Vec::new(),
        quotas: None,
    }
}

/// Runs to the end of all messages; gives their records in the order of their ends, and the
/// network.
fn complete(mut world: World<Checkers>, source: Source) -> (Vec<FlowRecord>, World<Checkers>) {
    let mut sources = Sources::new(vec![source], 7, None);
    let mut records = Vec::new();
    while !sources.is_done() {
        match world.run_until(sources.next().unwrap_or(SimTime::NEVER)) {
            Stop::Over => {
                while let Some(id) = world.next_over() {
                    records.extend(sources.on_over(id, &mut world));
                }
            }
            _ => sources.start_due(&mut world).expect("there is no policy"),
        }
    }
    checkers::check(&world);
    (records, world)
}

/// Messages from host 0 to host 1 of a network with one pair, as (microseconds, bytes).
fn list(messages: &[(u64, u64)]) -> Spec {
    let mut text = "start_s,src,dst,bytes\n".to_owned();
    for (micros, bytes) in messages {
        text += &format!("{}.{:06},0,1,{bytes}\n", micros / 1_000_000, micros % 1_000_000);
    }
    Spec::List(FlowList::read(text.as_bytes(), SIZES.payload, FlowList::numbered(2)).expect("a list"))
}

fn time(record: &FlowRecord) -> SimTime {
    record.completion_time().expect("it is over")
}

/// Every message that finds its connection idle takes the ideal time of a flow of its own, to the
/// picosecond.
#[test]
fn alone_a_message_takes_its_ideal_time() {
    for transport in
        [Parameters::default(), Parameters::Cubic(Default::default()), Parameters::Dctcp(Default::default())]
    {
        // Odd sizes, so that no message begins where a full segment does.
        let messages = [(0, 14_480), (1_000, 1), (2_000, 9_999), (500_000, 14_480), (3_000_000, 1449)];
        let (records, world) = complete(network(1, 10), source(list(&messages), transport, 1));
        assert_eq!(world.flows().count(), 1);
        for (record, (micros, bytes)) in records.iter().zip(messages) {
            assert_eq!((record.bytes, record.delivered), (bytes, bytes));
            assert_eq!(record.start, SimTime::from_micros(micros));
            assert_eq!(time(record), record.ideal, "{bytes} B");
            assert!(record.ideal > SimTime::ZERO);
        }
    }
}

/// A stream of two messages at once is as long as one message of both: the second one's time
/// includes the first's.
#[test]
fn a_message_waits_for_the_one_before() {
    // The window holds both: the only wait is for the link.
    let (records, world) = complete(network(1, 1), source(list(&[(10, 8_000), (10, 6_000)]), Parameters::default(), 1));
    let whole = world.ideal(weir_sim::HostId(0), weir_sim::HostId(1), 0, 14_000);
    assert_eq!(time(&records[1]), whole);
    // The first one's last byte shares a segment with the second one's first.
    let first = world.ideal(weir_sim::HostId(0), weir_sim::HostId(1), 0, 6 * u64::from(SIZES.payload));
    assert_eq!(time(&records[0]), first);
    assert!(time(&records[1]) > records[1].ideal && records[1].slowdown().expect("a time") > 1.5);
}

/// Over two connections the same two messages share the link, and neither waits for the other's
/// end.
#[test]
fn more_connections_share() {
    let messages = list(&[(10, 8_000), (10, 6_000)]);
    let (records, world) = complete(network(1, 1), source(messages, Parameters::default(), 2));
    assert_eq!(world.flows().count(), 2);
    let whole = world.ideal(weir_sim::HostId(0), weir_sim::HostId(1), 0, 14_000);
    assert!(
        records.iter().all(|record| time(record) > record.ideal && time(record) <= whole + SimTime::from_micros(1))
    );
}

/// Small messages that one segment delivers together end at that moment.
#[test]
fn a_segment_may_end_several_messages() {
    let tcp = tcp::Parameters { initial_window: 1, ..tcp::Parameters::default() };
    let transport = Parameters::NewReno(newreno::Parameters { tcp });
    let messages = [(10, 1448), (11, 100), (12, 200), (13, 300)];
    let (records, _) = complete(network(1, 10), source(list(&messages), transport, 1));
    assert_eq!(records.iter().map(|record| record.bytes).collect::<Vec<_>>(), [1448, 100, 200, 300]);
    assert!(records[0].finished < records[1].finished);
    assert!(records[1..].iter().all(|record| record.finished == records[1].finished));
    assert_eq!(time(&records[1]), time(&records[3]) + SimTime::from_micros(2));
}

/// The window persists: a message of 400 kB takes one flow four round trips of slow start, and a
/// connection that has carried one none. After an idle period of many timeouts it begins again as a
/// new connection does.
#[test]
fn the_window_stays_until_it_is_idle_for_long() {
    let edge = link(Bandwidth::from_gbps(10), Duration::from_micros(1), 3_000_000);
    let far = link(Bandwidth::from_gbps(10), Duration::from_millis(1), 3_000_000);
    let times = |idle_restart: bool| {
        let tcp = tcp::Parameters { min_rto: SimTime::from_millis(10), idle_restart, ..tcp::Parameters::default() };
        let transport = Parameters::NewReno(newreno::Parameters { tcp });
        let (mut world, ..) = dumbbell(1, SIZES, edge, far);
        world.set_short_host_queues();
        let messages = list(&[(0, 400_000), (13_000, 400_000), (1_000_000, 400_000)]);
        let (records, _) = complete(world, source(messages, transport, 1));
        [0, 1, 2].map(|place| time(&records[place]))
    };
    let round_trip = SimTime::from_micros(2_004);
    let [first, second, third] = times(true);
    // 10, 20, 40, 80, 160 segments: 277 are delivered in the fifth round trip.
    assert!(first > round_trip + round_trip + round_trip + round_trip, "{first}");
    assert!(second < round_trip + round_trip, "{second}");
    assert!(third > round_trip + round_trip + round_trip, "{third}");
    let [_, second, third] = times(false);
    assert!(third <= second, "{third} after {second}");
}

/// Messages of equal size at random times between all pairs.
fn random(hosts: u32, gap: SimTime, bytes: (u64, u64), flows: u64) -> Spec {
    let hosts = Hosts::first(hosts).expect("hosts");
    let sizes = SizeDistribution::uniform(bytes.0, bytes.1).expect("sizes");
    let gap = MeanGap::from_time(gap).expect("a gap");
    let random =
        Random::new(hosts.clone(), hosts, Arrivals::Uniform, gap, sizes).and_then(|random| random.at_most(flows));
    Spec::Random(random.expect("random traffic"))
}

/// Forty thousand connections stand at once, and are opened once each.
#[test]
fn forty_thousand_connections() {
    // 20 hosts are 380 pairs.
    let spec = random(20, SimTime::from_nanos(100), (100, 100), 120_000);
    let (records, world) = complete(network(10, 40), source(spec, Parameters::default(), 106));
    assert_eq!(records.len(), 120_000);
    assert!((40_000..=380 * 106).contains(&world.flows().count()), "{}", world.flows().count());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Under losses, for every transport: every message is delivered whole and once, none faster
    /// than alone; on a single connection in the order of arrival, the retransmissions add up, and
    /// a repeated run is equal.
    #[test]
    fn messages_are_whole_and_in_order(
        seed in 0u64..1000,
        gap in 1u64..40,
        connections in 1u32..4,
        protocol in 0usize..3,
        largest in 100u64..60_000,
    ) {
        let tcp = tcp::Parameters { min_rto: SimTime::from_millis(1), delayed_ack: 1, ..tcp::Parameters::default() };
        let transport = match protocol {
            0 => Parameters::NewReno(newreno::Parameters { tcp }),
            1 => Parameters::Cubic(cubic::Parameters { tcp, ..Default::default() }),
            _ => Parameters::Dctcp(dctcp::Parameters { tcp, ..Default::default() }),
        };
        let run = || {
            let edge = link(Bandwidth::from_gbps(10), Duration::from_micros(1), 30_000);
            let middle = link(Bandwidth::from_gbps(5), Duration::from_micros(5), 15_000);
            let (mut world, ..) = dumbbell(3, SIZES, edge, middle);
            world.set_short_host_queues();
            let spec = random(6, SimTime::from_micros(gap), (1, largest), 300 + seed % 50);
            complete(world, source(spec, transport.clone(), connections))
        };
        let (records, world) = run();
        prop_assert_eq!(records.len() as u64, 300 + seed % 50);
        for record in &records {
            prop_assert_eq!(record.delivered, record.bytes);
            // The last segment may carry less of the message than alone, if the one before carried
            // some of it.
            let rounding = SimTime::from_micros(6);
            prop_assert!(time(record) + rounding >= record.ideal, "{:?}", record);
        }
        let again: u64 = records.iter().map(|record| u64::from(record.retransmissions)).sum();
        prop_assert!(again <= world.counters().retransmissions);
        if connections == 1 {
            for from in 0..6 {
                for to in 0..6 {
                    let pair = |record: &&FlowRecord| (record.from, record.to) == (MachineId(from), MachineId(to));
                    let ids: Vec<u64> = records.iter().filter(pair).map(|record| record.id).collect();
                    prop_assert!(ids.is_sorted(), "{from} to {to}: {ids:?}");
                }
            }
        }
        prop_assert_eq!(records, run().0);
    }
}

const POLICY: &str = "weir: 1
network:
  nic: 1Gb/s
  racks:
    left: { uplink: 2Gb/s, machines: [\"l[1-4]\"] }
    right: { uplink: 1Gb/s, machines: [\"r[1-2]\"] }
services:
  a: { match: [ { port: 80 } ] }
  b: { match: [ { port: 81 } ] }
";

fn simulated(duration: &str, traffic: &str) -> RunOutcome {
    let text = format!(
        "scenario: 1\nname: t\npolicy: p.yaml\nduration: {duration}\nenforcement: none\ntraffic:\n{traffic}measure: \
         {{ rack: right, direction: rx, every: 100ms }}\n"
    );
    run_with(&read(POLICY, text), 3, true)
}

/// Two services as in Parley's Table 3, at half the receiving rack's uplink: every message has a
/// record, sizes and rates are those of the scenario, and waiting counts.
#[test]
fn a_scenario_with_connections() {
    let traffic = "  - { service: a, kind: random, from: left, to: right, sizes: 20kB, rate: 140Mb/s, arrivals: \
                   uniform, connections: 24 }\n  \
                   - { service: b, kind: random, from: left, to: right, sizes: 100kB, rate: 360Mb/s, arrivals: \
                   uniform, connections: 24 }\n";
    let outcome = simulated("2s", traffic);
    let flows = &outcome.results.flows;
    let of = |group: u32| flows.iter().filter(move |flow| flow.group == group);
    // 140 Mb/s of 20 kB and their headers (14 frames of 66 B) are 836 a second.
    let expected = 2.0 * 140e6 / 8.0 / (20_000.0 + 14.0 * 66.0);
    assert!((of(0).count() as f64 / expected - 1.0).abs() < 0.05, "{} messages, not {expected}", of(0).count());
    assert!(of(0).all(|flow| flow.bytes == 20_000) && of(1).all(|flow| flow.bytes == 100_000));
    let finished = flows.iter().filter(|flow| flow.finished.is_some()).count();
    assert!(finished + 20 > flows.len(), "{finished} of {}", flows.len());
    assert!(flows.iter().filter(|flow| flow.finished.is_some()).all(|flow| flow.delivered == flow.bytes));
    // 8 pairs of each service, of which most connections are open by now.
    let peak = outcome.results.counters["peak_flows"];
    assert!((8 * 24..=2 * 8 * 24).contains(&peak), "{peak} connections");
    let mut ids: Vec<u64> = flows.iter().map(|flow| flow.id).collect();
    ids.sort_unstable();
    assert!(ids.iter().zip(0..).all(|(&id, place)| id == place));
}

/// More than the uplink carries: the queue of messages grows, and with it their times.
#[test]
fn overload_is_waiting() {
    let traffic =
        "  - { service: b, kind: random, from: left, to: right, sizes: 100kB, rate: 1.2Gb/s, connections: 2 }\n";
    let outcome = simulated("1s", traffic);
    let late = |from: u64, to: u64| {
        let times: Vec<f64> = (outcome.results.flows.iter())
            .filter(|flow| flow.start >= SimTime::from_millis(from) && flow.start < SimTime::from_millis(to))
            .filter_map(|flow| flow.completion_time().map(|time| time.picos() as f64 / 1e9))
            .collect();
        times.iter().sum::<f64>() / times.len() as f64
    };
    assert!(late(400, 600) > 2.0 * late(50, 150), "{} ms and {} ms", late(50, 150), late(400, 600));
    assert!(outcome.results.flows.iter().filter(|flow| flow.finished.is_none()).count() > 100);
}

/// Bursts of UDP at a rate, one receiver after the other (Parley, Fig 13): arrivals equal
/// departures.
#[test]
fn bursts_of_udp() {
    let traffic = "  - { service: a, kind: bursts, from: left, to: right, on: 200ms, off: 100ms, \
                   transport: { protocol: udp, rate: 100Mb/s } }\n";
    let outcome = simulated("900ms", traffic);
    let flows = &outcome.results.flows;
    assert_eq!(flows.len(), 3 * 4);
    for flow in flows {
        // 100 Mb/s for 200 ms in frames of 1514 B with 1472 B of payload, as near as headers are
        // known.
        let sent = flow.delivered as f64 / (100e6 / 8.0 * 0.2);
        assert!((0.94..=1.0).contains(&sent), "{sent}");
    }
    let rates: Vec<u64> = outcome.uplink.samples.iter().map(|sample| sample.bandwidth[0].1.bps() / 1_000_000).collect();
    assert_eq!(rates.len(), 9);
    for (place, rate) in rates.iter().enumerate() {
        // Four senders, two of three samples on.
        let on = place % 3 < 2;
        assert!(if on { (390..=402).contains(rate) } else { *rate < 5 }, "sample {place}: {rate} Mb/s");
    }
}

/// The example in the tree: every message takes its ideal time at least, nearly all are over, and
/// large ones wait.
#[test]
fn the_example() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/connections.scenario.yaml");
    let (scenario, notes) = Scenario::read(&path).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(notes.is_empty());
    let outcome = run_with(&scenario, 1, true);
    let flows = &outcome.results.flows;
    let over: Vec<&FlowRecord> = flows.iter().filter(|flow| flow.finished.is_some()).collect();
    assert!(flows.len() > 250 && over.len() * 10 > flows.len() * 9, "{} of {}", over.len(), flows.len());
    // A segment may carry the end of one message and the beginning of the next: a frame at 5 Gb/s
    // is 2.4 µs.
    assert!(over.iter().all(|flow| time(flow) + SimTime::from_micros(6) >= flow.ideal));
    assert!(over.iter().any(|flow| time(flow) > flow.ideal + flow.ideal));
}
