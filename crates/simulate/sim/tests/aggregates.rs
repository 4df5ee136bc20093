//! Aggregates with credits: flows of TCP whose data waits in hosts.

use crate::pace::counter;
use crate::support::{SIZES, delivered, flow, link, scenarios};
use weir_sim::checkers::{self, Checkers};
use weir_sim::{FlowId, HostId, RunOutcome, SimTime, Stop, World};
use weir_transport::{Parameters, newreno, pace, tcp};
use weir_units::{Bandwidth, Duration};

/// A star of hosts, 1 Gb/s and 10 µs, with buffers of so many bytes.
fn star(hosts: u32, buffer: u64) -> World<Checkers> {
    let link = link(Bandwidth::from_gbps(1), Duration::from_micros(10), buffer);
    let mut world = World::new(0, SIZES, Checkers::default());
    let switch = world.add_switch();
    for _ in 0..hosts {
        world.add_host(switch, link, link);
    }
    world.compute_routes();
    world
}

fn newreno() -> Parameters {
    let tcp = tcp::Parameters { min_rto: SimTime::from_millis(10), ..Default::default() };
    Parameters::NewReno(newreno::Parameters { tcp })
}

fn run(world: &mut World<Checkers>, until: SimTime) {
    while world.run_until(until) == Stop::Over {
        while world.next_over().is_some() {}
    }
    checkers::check(world);
}

/// Ten flows of one host and one of each of three others to a fifth one.
fn senders(world: &mut World<Checkers>) -> Vec<Vec<FlowId>> {
    let flows = |from: u32| if from == 0 { 10 } else { 1 };
    let mut add = |from: u32, number: u32| {
        let spec = flow(HostId(from), HostId(4), None);
        world.add_flow(weir_sim::FlowSpec { hash: 100 * from + number, ..spec }, &newreno())
    };
    (0..4).map(|from| (0..flows(from)).map(|number| add(from, number)).collect()).collect()
}

/// Hosts have equal shares, however many flows they have, and no frame is dropped; without credits the same buffer
/// loses frames.
#[test]
fn hosts_share_a_port_without_loss() {
    // 2 · R · p and a frame of each aggregate, with p = 200 µs; and acknowledgements.
    let buffer = 50_000 + 4 * 1_514 + 5_000;
    let mut world = star(5, buffer);
    world.set_aggregates(&pace::Parameters::default());
    let flows = senders(&mut world);
    let at = |world: &World<Checkers>| -> Vec<u64> {
        flows.iter().map(|own| own.iter().map(|&flow| delivered(world, flow)).sum()).collect()
    };
    run(&mut world, SimTime::from_millis(100));
    let before = at(&world);
    run(&mut world, SimTime::from_millis(200));
    let bytes: Vec<u64> = at(&world).iter().zip(before).map(|(after, before)| after - before).collect();
    let counters = world.credit_counters();
    assert_eq!(world.counters().dropped, 0);
    for name in ["credits_late_packets", "credits_overfull", "credits_dropped_packets"] {
        assert_eq!(counters[name], 0, "{name}");
    }
    // 12.5 MB in 100 ms, of which 1448 of 1514 B are data.
    let sum: u64 = bytes.iter().sum();
    assert!(sum * 100 > 11_955_000 * 93, "{bytes:?}");
    assert!(bytes.iter().all(|own| (own * 4).abs_diff(sum) * 100 <= sum * 5), "{bytes:?}");
    assert_eq!((world.aggregate_counters().overspent, world.aggregate_counters().astray), (0, 0));

    let mut world = star(5, buffer);
    senders(&mut world);
    run(&mut world, SimTime::from_millis(200));
    assert!(world.counters().dropped > 0);
}

/// Flows that end one after the other with pauses: the aggregate ends and begins again.
#[test]
fn an_aggregate_begins_again_after_a_pause() {
    let mut world = star(2, 100_000);
    world.set_aggregates(&pace::Parameters::default());
    for start in [0, 30, 300] {
        let spec = flow(HostId(0), HostId(1), Some(250_000));
        let spec = weir_sim::FlowSpec { start: SimTime::from_millis(start), hash: start as u32, ..spec };
        world.add_flow(spec, &newreno());
    }
    let mut ends = Vec::new();
    while world.run_until(SimTime::from_millis(400)) == Stop::Over {
        while world.next_over().is_some() {
            ends.push(world.now().picos() / 1_000_000_000);
        }
    }
    checkers::check(&world);
    // 250 kB take 2.1 ms, and a window that begins with 10 segments some round trips and periods more.
    assert!(ends.iter().zip([0, 30, 300]).all(|(end, start)| (start + 2..start + 6).contains(end)), "{ends:?}");
    assert_eq!((ends.len(), world.counters().dropped), (3, 0));
}

const POLICY: &str = "
weir: 1
network:
  nic: 1Gb/s
  racks: { r1: { uplink: 1Gb/s, machines: [a, b, c, d, e] } }
  switches: { forwarders: true, buffer: 256kB }
services:
  double: { match: [ { protocol: tcp, port: 1 } ], credits: { weight: 2 } }
  single: { match: [ { protocol: tcp, port: 2 } ], credits: {} }
";

/// Mb/s of payload of each flow group, in their order, over the second half of a run of 400 ms.
fn rates(policy: &str, enforcement: &str, traffic: &[&str]) -> (Vec<f64>, RunOutcome) {
    let groups: String = traffic.iter().map(|group| format!("  - {{ {group} }}\n")).collect();
    let text = format!(
        "scenario: 1\nname: shares\npolicy: test.policy.yaml\nseed: 3\nduration: 400ms\nenforcement: {enforcement}\n\
         links: {{ buffer: 256kB }}\ntraffic:\n{groups}measure: {{ rack: r1, direction: rx, every: 100ms }}\n"
    );
    let outcome = scenarios::run(policy, text);
    let rate = |group: usize| {
        let samples = outcome.results.group_samples.iter();
        let late = samples.filter(|sample| sample.group as usize == group && sample.at.picos() > 200_000_000_000);
        late.map(|sample| sample.delivered).sum::<u64>() as f64 * 8.0 / 0.2 / 1e6
    };
    ((0..traffic.len()).map(rate).collect(), outcome)
}

fn assert_no_loss(outcome: &RunOutcome) {
    let dropped = ["packets_dropped", "credits_dropped_packets", "credits_late_packets", "credits_overfull"];
    for name in dropped.iter().chain(&["credits_host_astray", "credits_host_overspent"]) {
        assert_eq!(counter(outcome, name), 0, "{name}");
    }
    assert!(counter(outcome, "credits_host_allocations") > 100);
}

/// The payload of 1 Gb/s in frames of 1,514 B.
const PAYLOAD: f64 = 1_000.0 * 1_448.0 / 1_514.0;

/// Services of a policy have their weights over any transport, whatever the number of their pairs and flows, as on
/// Linux; nothing is lost, with every checker.
#[test]
fn services_of_a_policy_share_a_port_by_weight() {
    let pairs = ["service: double, from: [a, b], to: e, flows: 2", "service: single, from: [b, c, d], to: e, flows: 5"];
    let dctcp = pairs.map(|group| format!("{group}, transport: dctcp"));
    for enforcement in ["shaper", "parley"] {
        for traffic in [&pairs, &dctcp.each_ref().map(String::as_str)] {
            let (rates, outcome) = rates(POLICY, enforcement, traffic);
            assert_no_loss(&outcome);
            for (rate, share) in rates.iter().zip([2.0 / 3.0, 1.0 / 3.0]) {
                assert!((rate / (PAYLOAD * share) - 1.0).abs() < 0.05, "{enforcement}: {rates:?} Mb/s");
            }
        }
    }
}

/// Credits have `share` of a port; traffic without credits passes beside, and is limited by its shaper as before.
#[test]
fn traffic_without_credits_passes_beside_aggregates() {
    let policy = format!(
        "{POLICY}  web: {{ match: [ {{ protocol: tcp, port: 3 }} ], machine: {{ rx: {{ max: 300Mb/s }} }} }}\n\
         credits: {{ share: 60% }}\n"
    );
    let traffic =
        ["service: double, from: a, to: e", "service: single, from: b, to: e", "service: web, from: c, to: e"];
    let (rates, outcome) = rates(&policy, "shaper", &traffic);
    for name in ["credits_dropped_packets", "credits_late_packets", "credits_overfull"] {
        assert_eq!(counter(&outcome, name), 0, "{name}");
    }
    for (rate, share) in rates.iter().zip([0.4, 0.2, 0.3]) {
        assert!((rate / (PAYLOAD * share) - 1.0).abs() < 0.07, "{rates:?} Mb/s");
    }
}

/// Without forwarders the hosts' interfaces and the receivers grant: a sending host divides its own link by weight.
#[test]
fn hosts_alone_grant_without_forwarders() {
    let policy = POLICY.replace("forwarders: true, ", "");
    let alone = ["service: double, from: a, to: [d, e]", "service: single, from: a, to: e"];
    let (shared, outcome) = rates(&policy, "shaper", &alone);
    assert_eq!((counter(&outcome, "credits_ports"), counter(&outcome, "credits_ports_without_forwarder")), (5, 7));
    // 2 for `double` in two pairs, 1 for `single`.
    for (rate, share) in shared.iter().zip([2.0 / 3.0, 1.0 / 3.0]) {
        assert!((rate / (PAYLOAD * share) - 1.0).abs() < 0.05, "{shared:?} Mb/s");
    }
}
