//! Tenants bound to queues: guarantees in every window while queues change, trees, and levels beside them.

use crate::support::scenarios::{refusable, run};
use std::collections::BTreeMap;

/// Four tenants with one virtual machine in each of two racks, on a link that their guarantees fill. Two queues beside
/// the shared one change hands: a and b have them from 2 s on, c and d take them at 6 s.
#[test]
fn guarantees_hold_in_every_window_while_queues_change_hands() {
    let policy = r#"
weir: 1
network:
  nic: 1Gb/s
  racks:
    r1: { uplink: 400Mb/s, machines: ["a[1-4]"] }
    r2: { uplink: 400Mb/s, machines: ["b[1-4]"] }
  slots: 1
  switches: { queues: 3, scheduler: weighted }
tenants:
  ta: { vms: 2, bandwidth: 100Mb/s, match: [ { port: 1 } ] }
  tb: { vms: 2, bandwidth: 100Mb/s, match: [ { port: 2 } ] }
  tc: { vms: 2, bandwidth: 100Mb/s, match: [ { port: 3 } ] }
  td: { vms: 2, bandwidth: 100Mb/s, match: [ { port: 4 } ] }
tenant-queues: { interval: 2s }
"#;
    let scenario = r#"
scenario: 1
name: tenants
policy: p.yaml
duration: 11s
enforcement: qshare
links: { delay: 20us, queue: { buffer: 300kB } }
transport: newreno
tenants: { places: { ta: [a1, b1], tb: [a2, b2], tc: [a3, b3], td: [a4, b4] } }
traffic:
  - { service: ta, from: a1, to: b1, flows: 4, stop: 4200ms }
  - { service: tb, from: a2, to: b2, flows: 4, stop: 4200ms }
  - { service: tc, from: a3, to: b3, flows: 4, start: 4400ms }
  - { service: td, from: a4, to: b4, flows: 4, start: 4400ms }
  - { service: ta, name: again, from: a1, to: b1, flows: 4, start: 8s }
measure: { rack: r1, direction: tx, every: 1s }
"#;
    let outcome = run(policy, scenario);
    let counters = &outcome.results.counters;
    // Two in, two out for two others, and again two out and in at most.
    let moves = counters["tenant_queue_moves_ended"];
    assert!((6..=12).contains(&moves), "{counters:?}");
    assert_eq!(moves, counters["tenant_queue_moves_begun"]);
    let mut below = BTreeMap::new();
    for (number, sample) in (1u64..).zip(&outcome.uplink.samples) {
        let active: &[usize] = match number {
            2..=4 => &[0, 1],
            6..=8 => &[2, 3],
            10..=11 => &[0, 2, 3],
            _ => continue,
        };
        for tenant in active {
            let mbps = sample.bandwidth[*tenant].1.bps() / 1_000_000;
            if mbps < 95 {
                below.insert((number, *tenant), mbps);
            }
        }
        let all: u64 = sample.bandwidth.iter().map(|(_, rate)| rate.bps() / 1_000_000).sum();
        // Flows that were limited for a move grow again. While those that send are in the shared queue, until 2 s and
        // from 4.4 to 6 s, hosts look for bandwidth beyond guarantees with caution.
        let least = if matches!(number, 1 | 2 | 5 | 6) { 250 } else { 300 };
        assert!(all >= least, "{number}: {all} of 400 Mb/s");
    }
    assert!(below.is_empty(), "below the guarantee: {below:?}");
}

/// Two spines: each tenant's packets pass the spine of its tree alone, whatever their flows' hashes are.
#[test]
fn tenants_stay_in_their_trees() {
    let policy = r#"
weir: 1
network:
  topology: leaf-spine
  racks: 2
  hosts: 2
  spines: 2
  host-link: { rate: 1Gb/s }
  fabric-link: { rate: 1Gb/s }
  slots: 1
  switches: { queues: 8, scheduler: weighted }
tenants:
  red: { vms: 2, bandwidth: 600Mb/s, match: [ { port: 1 } ] }
  blue: { vms: 2, bandwidth: 600Mb/s, match: [ { port: 2 } ] }
"#;
    let scenario = r#"
scenario: 1
name: trees
policy: p.yaml
duration: 300ms
enforcement: qshare
transport: newreno
tenants: { places: { red: [h0, h2], blue: [h1, h3] } }
traffic:
  - { service: red, from: h0, to: h2, flows: 16 }
  - { service: blue, from: h1, to: h3, flows: 16 }
measure: { rack: leaf0, direction: tx, every: 100ms }
"#;
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

/// `paths: spread`: the switches spread a tenant's flows over both spines, each of which has all of its reservation.
#[test]
fn spread_tenants_have_their_guarantees_on_both_spines() {
    let policy = r#"
weir: 1
network:
  topology: leaf-spine
  racks: 2
  hosts: 2
  spines: 2
  host-link: { rate: 1Gb/s }
  fabric-link: { rate: 1Gb/s }
  slots: 1
  switches: { queues: 8, scheduler: weighted }
tenants:
  red: { vms: 2, bandwidth: 500Mb/s, match: [ { port: 1 } ] }
  blue: { vms: 2, bandwidth: 400Mb/s, match: [ { port: 2 } ] }
tenant-queues: { paths: spread }
"#;
    let scenario = r#"
scenario: 1
name: spread
policy: p.yaml
duration: 300ms
enforcement: qshare
transport: newreno
tenants: { places: { red: [h0, h2], blue: [h1, h3] } }
traffic:
  - { service: red, from: h0, to: h2, flows: 16 }
  - { service: blue, from: h1, to: h3, flows: 16 }
measure: { rack: leaf0, direction: tx, every: 100ms }
"#;
    let outcome = run(policy, scenario);
    let links = outcome.results.links.iter().filter(|link| link.name.starts_with("leaf0->spine"));
    let up: Vec<u64> = links.map(|link| link.bytes).collect();
    assert_eq!(up.len(), 2);
    assert!(up.iter().all(|bytes| *bytes > 10_000_000), "{up:?}");
    let all = &outcome.uplink.samples[2].bandwidth;
    let (blue, red) = (all[0].1.bps(), all[1].1.bps());
    assert!(red > 475_000_000 && blue > 380_000_000, "{red} and {blue}");
    // Two tenants of 600 Mb/s have a spine each in trees, and do not fit both spines.
    let more = policy.replace("500Mb/s", "600Mb/s").replace("400Mb/s", "600Mb/s");
    let errors = refusable(&more, scenario).err().unwrap_or_default();
    assert!(errors.contains("has no place") && errors.contains("lacks 200 Mb/s"), "{errors}");
}

const MOVES_POLICY: &str = include_str!("../../../../scenarios/qshare-moves.policy.yaml");
const MOVES: &str = include_str!("../../../../scenarios/qshare-moves.scenario.yaml");

/// Packets under way take the old queue while those behind them take the new one, and weights change meanwhile.
#[test]
fn moves_between_queues_lose_and_overtake_nothing_without_congestion() {
    let results = run(MOVES_POLICY, MOVES).results;
    let counters = &results.counters;
    assert!(counters["tenant_queue_moves_ended"] >= 30, "{counters:?}");
    assert_eq!([counters["packets_dropped"], counters["packets_overtaken"]], [0; 2], "{counters:?}");
    // The last packets are under way.
    let under_way = counters["packets_sent"] - counters["packets_delivered"];
    assert!(counters["packets_sent"] > 800_000 && under_way < 10, "{counters:?}");
}

/// Two priorities: of the tenant that takes what the others leave, packets with tokens of its guarantee overtake those
/// without.
#[test]
fn two_priorities_overtake_packets_and_queues_of_tenants_none() {
    let grey = "transport: { protocol: udp, rate: 50Mb/s }";
    let all = MOVES.replace(grey, "flows: 2, transport: { protocol: cubic, receive-window: 64kB }");
    let all = all.replace("duration: 20s", "duration: 4s");
    assert!(MOVES.contains(grey) && MOVES.contains("duration: 20s"));
    let overtaken = |by: &str| {
        let scenario = all.replace("enforcement: qshare", &format!("enforcement: {by}"));
        run(MOVES_POLICY, scenario).results.counters["packets_overtaken"]
    };
    assert_eq!(["qshare", "elasticswitch"].map(overtaken), [0; 2]);
    assert!(overtaken("trinity") > 10_000);
}
