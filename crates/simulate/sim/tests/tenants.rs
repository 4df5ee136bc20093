//! Tenants bound to queues: guarantees in every window while queues change, trees, and levels beside them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use weir_document::Source;
use weir_policy::Policy;
use weir_scenario::Scenario;
use weir_sim::{Options, RunOutcome, simulate};

fn run(policy: &str, scenario: &str) -> RunOutcome {
    let source = Source::from_text("tenants", scenario.to_owned());
    let load = |_: &Path| Policy::parse("p.yaml", policy);
    let scenario = match Scenario::from_source(&source, Path::new(""), load) {
        Ok((scenario, _)) => scenario,
        Err(errors) => panic!("{errors}"),
    };
    let outcome = simulate(&scenario, 1, &Options { check: true }, &mut |_| ControlFlow::Continue(()));
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// Four tenants with one virtual machine in each of two racks, on a link that their guarantees fill. Two queues beside
/// the shared one change hands: a and b have them from 0.4 s on, c and d take them at 1.2 s.
#[test]
fn guarantees_hold_in_every_window_while_queues_change_hands() {
    let policy = "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks:\n    r1: { uplink: 400Mb/s, machines: [\"a[1-4]\"] }\n    \
        r2: { uplink: 400Mb/s, machines: [\"b[1-4]\"] }\n  slots: 1\n  switches: { queues: 3, scheduler: weighted }\n\
        tenants:\n  ta: { vms: 2, bandwidth: 100Mb/s, match: [ { port: 1 } ] }\n  tb: { vms: 2, bandwidth: 100Mb/s, \
        match: [ { port: 2 } ] }\n  tc: { vms: 2, bandwidth: 100Mb/s, match: [ { port: 3 } ] }\n  td: { vms: 2, \
        bandwidth: 100Mb/s, match: [ { port: 4 } ] }\ntenant-queues: { interval: 400ms }\n";
    let scenario = "scenario: 1\nname: tenants\npolicy: p.yaml\nduration: 3s\nenforcement: qshare\nlinks: { delay: 20us, \
        queue: { buffer: 300kB } }\ntransport: { protocol: newreno, min-rto: 10ms }\ntenants: { places: { ta: [a1, b1], \
        tb: [a2, b2], tc: [a3, b3], td: [a4, b4] } }\ntraffic:\n  - { service: ta, from: a1, to: b1, flows: 4, stop: \
        800ms }\n  - { service: tb, from: a2, to: b2, flows: 4, stop: 800ms }\n  - { service: tc, from: a3, to: b3, \
        flows: 4, start: 900ms }\n  - { service: td, from: a4, to: b4, flows: 4, start: 900ms }\n  - { service: ta, \
        name: again, from: a1, to: b1, flows: 4, start: 2s }\nmeasure: { rack: r1, direction: tx, every: 100ms }\n";
    let outcome = run(policy, scenario);
    let counters = &outcome.results.counters;
    // Two in, two out for two others, and again two out and in at most.
    let moves = counters["tenant_queue_moves_ended"];
    assert!((6..=12).contains(&moves), "{counters:?}");
    assert_eq!(moves, counters["tenant_queue_moves_begun"]);
    let mut below = BTreeMap::new();
    for (number, sample) in (1u64..).zip(&outcome.uplink.samples) {
        let active: &[usize] = match number * 100 {
            300..=800 => &[0, 1],
            1_200..=2_000 => &[2, 3],
            2_300..=3_000 => &[0, 2, 3],
            _ => continue,
        };
        for tenant in active {
            let mbps = sample.bandwidth[*tenant].1.bps() / 1_000_000;
            if mbps < 90 {
                below.insert((number, *tenant), mbps);
            }
        }
        let all: u64 = sample.bandwidth.iter().map(|(_, rate)| rate.bps() / 1_000_000).sum();
        // In the first windows after a choice of queues, flows that were limited still grow.
        if number % 4 > 2 || number % 4 == 0 {
            assert!(all >= 360, "{number}: {all} of 400 Mb/s");
        }
    }
    assert!(below.is_empty(), "below the guarantee: {below:?}");
}

/// Two spines: each tenant's packets pass the spine of its tree alone, whatever their flows' hashes are.
#[test]
fn tenants_stay_in_their_trees() {
    let policy = "weir: 1\nnetwork:\n  topology: leaf-spine\n  racks: 2\n  hosts: 2\n  spines: 2\n  host-link: { rate: \
        1Gb/s }\n  fabric-link: { rate: 1Gb/s }\n  slots: 1\n  switches: { queues: 8, scheduler: weighted }\ntenants:\n  \
        red: { vms: 2, bandwidth: 600Mb/s, match: [ { port: 1 } ] }\n  blue: { vms: 2, bandwidth: 600Mb/s, match: [ { \
        port: 2 } ] }\n";
    let scenario = "scenario: 1\nname: trees\npolicy: p.yaml\nduration: 300ms\nenforcement: qshare\ntransport: \
        newreno\ntenants: { places: { red: [h0, h2], blue: [h1, h3] } }\ntraffic:\n  - { service: red, from: h0, to: h2, \
        flows: 16 }\n  - { service: blue, from: h1, to: h3, flows: 16 }\nmeasure: { rack: leaf0, direction: tx, every: \
        100ms }\n";
    let outcome = run(policy, scenario);
    let up: Vec<u64> = outcome
        .results
        .links
        .iter()
        .filter(|link| link.name.starts_with("leaf0->spine"))
        .map(|link| link.bytes)
        .collect();
    // Each can reserve 600 Mb/s on a spine of its own only, and each uses one.
    assert_eq!(up.len(), 2);
    assert!(up.iter().all(|bytes| *bytes > 15_000_000), "{up:?}");
    let all = &outcome.uplink.samples[2].bandwidth;
    let (red, blue) = (all[1].1.bps(), all[0].1.bps());
    assert!(red.abs_diff(blue) * 20 < red, "{red} and {blue}");
}
