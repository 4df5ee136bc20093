//! Whole scenarios with brokers, from their files.

use crate::support::scenarios::{read, run_with};
use std::ops::ControlFlow;
use weir_results::{SizeBins, Statistics};
use weir_scenario::Scenario;
use weir_sim::{Options, RunError, RunOutcome, SimTime, simulate};
use weir_units::{Bandwidth, Duration, ServiceId};

const CHECKED: fn() -> Options = || Options { check: true };

fn scenario(name: &str) -> Scenario {
    let path = format!("{}/../../../scenarios/{name}.scenario.yaml", env!("CARGO_MANIFEST_DIR"));
    Scenario::read(path).expect("the scenario is valid").0
}

/// Two racks of two machines at 200 Mb/s behind 100 Mb/s, with these services, links and traffic.
fn small(services: &str, links: &str, enforcement: &str, traffic: &str) -> Scenario {
    let policy = format!(
        "weir: 1\nnetwork:\n  nic: 200Mb/s\n  racks:\n    left: {{ uplink: 100Mb/s, machines: [l1, l2] }}\n    \
         right: {{ uplink: 100Mb/s, machines: [r1, r2] }}\nservices:\n{services}"
    );
    let scenario = format!(
        "scenario: 1\nname: small\npolicy: p.yaml\nseed: 1\nduration: 4500ms\nenforcement: {enforcement}\n\
         links: {links}\ntraffic:\n{traffic}measure: {{ rack: left, direction: tx, every: 1s }}\n"
    );
    read(&policy, scenario)
}

const LINKS: &str = "{ delay: 10us, buffer: 100kB, mtu: 1500B, spines: 1 }";

fn mean(outcome: &RunOutcome, service: ServiceId, from: u64, to: u64) -> Bandwidth {
    let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
    outcome.uplink.mean(service, from, to).expect("there are samples")
}

/// Parley Fig 14: A has its maximum alone, both share the cap evenly, B has the cap alone.
#[test]
fn parley_fig_14() {
    let scenario = scenario("parley-fig14");
    let policy = &scenario.governed().expect("a policy").policy;
    let service = |name| policy.services().named(name).expect("a service");
    let (a, b) = (service("a"), service("b"));
    for seed in [1, 2] {
        let outcome = run_with(&scenario, seed, true);
        assert_eq!(outcome.uplink.samples.len(), 60);
        // The first seconds of a phase are the brokers' reaction: usage is reported, then limits
        // are set.
        for (what, service, from, to, expected) in [
            ("a alone", a, 4, 20, 300),
            ("a with b", a, 26, 40, 300),
            ("b with a", b, 26, 40, 300),
            ("b alone", b, 46, 60, 600),
        ] {
            let got = mean(&outcome, service, from, to).bps() as f64 / 1e6;
            let error = (got / f64::from(expected) - 1.0).abs();
            assert!(error < 0.05, "seed {seed}, {what}: {got:.1} Mb/s instead of {expected}");
        }
        let exchange = outcome.brokers;
        assert!(exchange.received > 60 * 20 * 9 * 9 / 10 && exchange.refused == 0, "{exchange:?}");
    }
}

#[test]
fn the_seed_decides_everything() {
    let scenario = scenario("parley-fig14");
    let ten_seconds = |seed| {
        let stop = Duration::from_secs(3);
        let progress = &mut |progress: weir_sim::Progress| {
            if progress.at >= stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        format!("{:?}", simulate(&scenario, seed, &CHECKED(), progress).expect("the scenario runs"))
    };
    let first = ten_seconds(7);
    assert!(first.contains("interrupted: true"));
    assert_eq!(first, ten_seconds(7));
    assert_ne!(first, ten_seconds(8));
}

#[test]
fn without_enforcement_the_transport_decides() {
    let services =
        "  a: { match: [ { port: 80 } ], rack: { tx: { max: 10Mb/s } } }\n  b: { match: [ { port: 81 } ] }\n";
    let traffic = "  - { service: a, from: [l1], to: [r1], flows: 3, start: 0s, stop: 4s }\n  \
                   - { service: b, from: [l2], to: [r2], flows: 1, start: 0s, stop: 4s }\n";
    for (enforcement, least, most) in [("none", 50, 95), ("parley", 9, 11)] {
        let scenario = small(services, LINKS, enforcement, traffic);
        let outcome = run_with(&scenario, 1, true);
        // The duration is four samples and a half; the half is simulated and not measured.
        assert_eq!(outcome.uplink.samples.len(), 4);
        let a = mean(&outcome, ServiceId(0), 3, 4).bps() / 1_000_000;
        assert!((least..=most).contains(&a), "{enforcement}: {a} Mb/s");
        assert_eq!(outcome.brokers.sent > 0, enforcement == "parley");
        assert_eq!(outcome.results.flows.len(), 4);
        assert!(outcome.results.flows.iter().all(|flow| flow.delivered > 100_000));
    }
}

#[test]
fn the_static_limit_of_an_interface_holds_without_any_broker_report() {
    let services = "  a: { match: [ { port: 80 } ], machine: { tx: { max: 20Mb/s } } }\n";
    let traffic = "  - { service: a, from: [l1], to: [r1], flows: 2, start: 0s, stop: 4s }\n";
    let outcome = run_with(&small(services, LINKS, "parley", traffic), 1, true);
    for sample in &outcome.uplink.samples[1..] {
        let a = sample.bandwidth[0].1.bps();
        assert!(a.abs_diff(20_000_000) < 50_000, "{a} b/s");
    }
}

#[test]
fn flows_have_the_headers_of_their_service_and_use_all_spines() {
    let services = "  addressed: { match: [ { address: 192.168.7.0/24 } ] }\n  \
                    endpoint: { match: [ { interface: \"tap*\" } ] }\n  \
                    marked: { match: [ { dscp: 46, protocol: udp }, { dscp: 46, protocol: tcp } ], order: 1 }\n  \
                    overlay: { match: [ { vni: 4711 } ], order: 3 }\n  \
                    web: { match: [ { protocol: tcp, port: 8000-8099 } ], order: 2 }\n";
    let traffic: String = ["addressed", "endpoint", "marked", "overlay", "web"]
        .map(|service| {
            format!("  - {{ service: {service}, from: [l1, l2], to: [r1, r2], flows: 6, start: 0s, stop: 4s }}\n")
        })
        .concat();
    let links = "{ delay: 10us, buffer: 100kB, mtu: 1500B, spines: 4 }";
    let outcome = run_with(&small(services, links, "none", &traffic), 3, true);
    let total: u64 = outcome.uplink.samples[3].bandwidth.iter().map(|(_, rate)| rate.bps()).sum();
    assert!(total > 97_000_000, "{total} b/s over four links of 25 Mb/s");
    assert!(outcome.uplink.samples[3].bandwidth.iter().all(|(_, rate)| rate.bps() > 0));
}

#[test]
fn a_service_that_no_tcp_packet_belongs_to_is_refused() {
    let services = "  clock: { match: [ { protocol: udp, port: 123 } ] }\n";
    let traffic = "  - { service: clock, from: [l1], to: [r2], flows: 1, start: 0s, stop: 4s }\n";
    let scenario = small(services, LINKS, "none", traffic);
    let error = simulate(&scenario, 1, &CHECKED(), &mut |_| ControlFlow::Continue(())).expect_err("UDP");
    assert!(matches!(error, RunError::Unclassified(_)));
    assert_eq!(error.to_string(), "no TCP packet from `l1` to `r2` belongs to service `clock`");
}

#[test]
fn more_services_than_a_host_has_are_refused() {
    let services: String = (0..1_025).map(|i| format!("  s{i}: {{ match: [ {{ vni: {i} }} ] }}\n")).collect();
    let traffic = "  - { service: s7, from: [l1], to: [r2], flows: 1, start: 0s, stop: 4s }\n";
    let scenario = small(&services, LINKS, "none", traffic);
    let error = simulate(&scenario, 1, &CHECKED(), &mut |_| ControlFlow::Continue(())).expect_err("too many");
    assert_eq!(error.to_string(), "the policy has 1025 services, tenants included, and a host enforces at most 1024");
}

/// Flows have the headers of their transport.
#[test]
fn a_service_of_udp_packets_is_sent_by_udp() {
    let services = "  clock: { match: [ { protocol: udp, port: 123 } ] }\n";
    let traffic = "  - { service: clock, from: [l1], to: [r2], flows: 1, start: 0s, stop: 4s, transport: { protocol: \
                   udp, rate: 10Mb/s } }\n";
    let outcome = run_with(&small(services, LINKS, "none", traffic), 3, true);
    assert!(outcome.results.flows[0].delivered > 4_000_000, "{:?}", outcome.results.flows);
}

/// A star of five hosts at 10 Gb/s with this traffic; the run ends with the last flow.
fn star(duration: &str, traffic: &str) -> RunOutcome {
    let text = format!(
        "scenario: 1\nname: star\nduration: {duration}\nnetwork: {{ topology: star, hosts: 5, host-link: {{ rate: \
         10Gb/s, delay: 5us }} }}\n\
         transport: {{ protocol: dctcp, min-rto: 10ms, delayed-ack: 1 }}\ntraffic: [{traffic}]\n"
    );
    // There is no policy.
    run_with(&read("", text), 1, true)
}

#[test]
fn a_request_and_its_response_are_timed_as_one() {
    let traffic = "{ kind: requests, name: ask, from: h0, to: h1, request: 200B, response: 10kB, outstanding: 1, \
                   think: 1ms, requests: 50 }";
    let results = star("1s", traffic).results;
    assert_eq!(results.flows.len(), 100);
    let statistics = Statistics::new(&results, &SizeBins::default());
    let whole = statistics.groups[0].coflows.expect("there are coflows");
    assert_eq!((whole.coflows, whole.unfinished, whole.flows_per_coflow), (50, 0, Some(2)));
    // Nothing else is on the network: the ideal times of both, and between them the 66 B of the
    // request's acknowledgement, which leaves before the response. Of the flows alone, the median
    // is a request.
    let [request, response] = [0, 1].map(|flow| results.flows[flow].ideal);
    let together = request + response + SimTime::from_picos(66 * 800);
    assert_eq!((whole.cct.p50, whole.cct.max), (Some(together), Some(together)));
    assert_eq!(statistics.groups[0].all.fct.p50, Some(request));

    // A response that is cut off by the end of the run leaves its request incomplete.
    let cut = star("15ms", &traffic.replace("10kB", "64MB")).results;
    let whole = Statistics::new(&cut, &SizeBins::default()).groups[0].coflows.expect("there are coflows");
    assert_eq!((whole.coflows, whole.unfinished, whole.cct.p50), (1, 1, None), "its response takes 51 ms");
}

/// Incasts of three flows to random hosts of five: each is a coflow, and none has its receiver among its senders.
#[test]
fn incasts_to_random_receivers_are_timed_as_a_whole() {
    let traffic = "{ kind: incast, name: query, from: all, to: all, fan-in: 3, size: 20kB, load: 10%, rounds: 40 }";
    let results = star("1s", traffic).results;
    let statistics = Statistics::new(&results, &SizeBins::default());
    let queries = statistics.groups[0].coflows.expect("there are coflows");
    assert_eq!((queries.coflows, queries.unfinished, queries.flows_per_coflow), (40, 0, Some(3)));
    let mut receivers = std::collections::BTreeSet::new();
    for query in 0..40 {
        let flows = || results.flows.iter().filter(move |flow| flow.coflow.is_some_and(|coflow| coflow.id == query));
        let to = flows().next().expect("a flow").to;
        assert!(flows().count() == 3 && flows().all(|flow| flow.to == to && flow.from != to && flow.bytes == 20_000));
        receivers.insert(to);
    }
    assert_eq!(receivers.len(), 5);
    // Three flows of 14 frames share the receiver's link of 10 Gb/s: 51.7 µs at least.
    assert!(queries.cct.p50.is_some_and(|time| time > SimTime::from_micros(51)), "{:?}", queries.cct);
}

#[test]
fn a_round_is_timed_to_its_last_byte() {
    let traffic = "{ kind: incast, name: round, from: \"h[1-4]\", to: h0, size: 20kB, every: 10ms, rounds: 7, \
                   jitter: 50us }, \
                   { kind: transfers, name: one, from: h1, to: h2, size: 1MB }";
    let results = star("1s", traffic).results;
    let statistics = Statistics::new(&results, &SizeBins::default());
    let rounds = statistics.groups[0].coflows.expect("there are coflows");
    assert_eq!((rounds.coflows, rounds.unfinished, rounds.flows_per_coflow), (7, 0, Some(4)));
    assert_eq!((statistics.groups[1].coflows, statistics.all.coflows), (None, None));
    let mut times: Vec<SimTime> = (0..7)
        .map(|round| {
            let flows = || {
                results
                    .flows
                    .iter()
                    .filter(move |flow| flow.group == 0 && flow.coflow.is_some_and(|coflow| coflow.id == round))
            };
            assert_eq!(flows().count(), 4);
            let last = flows().filter_map(|flow| flow.finished).max().expect("they finished");
            last - flows().map(|flow| flow.start).min().expect("four flows")
        })
        .collect();
    times.sort_unstable();
    assert_eq!((rounds.cct.p50, rounds.cct.max), (Some(times[3]), Some(times[6])));
    assert!(rounds.cct.p50 > statistics.groups[0].all.fct.p50);
}
