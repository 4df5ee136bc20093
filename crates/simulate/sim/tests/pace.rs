//! PACE in networks: its published runs, and no loss.

use crate::support::scenarios;
use std::collections::BTreeMap;
use weir_sim::RunOutcome;

const SEQUENTIAL: &str = include_str!("../../../../scenarios/pace-fig5a.scenario.yaml");
const COMPOSITE: &str = include_str!("../../../../scenarios/pace-fig7.scenario.yaml");
const WEIGHTS: &str = include_str!("../../../../scenarios/pace-fig8.scenario.yaml");
/// The transport of the first two.
const DCTCP: &str = "transport: { protocol: dctcp, min-rto: 10ms, delayed-ack: 1 }";

/// Runs a scenario with other values in its text.
fn run(text: &str, changes: &[(&str, &str)]) -> RunOutcome {
    let changed = changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    scenarios::run("", changed)
}

pub(crate) fn counter(outcome: &RunOutcome, name: &str) -> u64 {
    outcome.results.counters.get(name).copied().unwrap_or_else(|| panic!("{name}: {:?}", outcome.results.counters))
}

/// Nothing was lost, and no data was late.
pub(crate) fn assert_lossless(outcome: &RunOutcome) {
    for name in ["packets_dropped", "credits_late_packets", "credits_overfull", "retransmissions", "credits_astray"] {
        assert_eq!(counter(outcome, name), 0, "{name}");
    }
}

/// Bytes that each group delivered in `(from, to]`, in microseconds.
fn delivered(outcome: &RunOutcome, from: u64, to: u64) -> BTreeMap<String, u64> {
    let mut bytes = BTreeMap::new();
    for sample in &outcome.results.group_samples {
        let at = sample.at.picos() / 1_000_000;
        let name = outcome.results.groups[sample.group as usize].name.clone();
        *bytes.entry(name).or_default() += if at > from && at <= to { sample.delivered } else { 0 };
    }
    bytes
}

/// 300 flows of web search on a leaf-spine of 16 hosts, with a transport and more keys of the scenario.
pub(crate) fn search(routing: &str, transport: &str, more: &str) -> String {
    format!(
        "scenario: 1\nname: search\nseed: 1\nduration: 1s\nnetwork: {{ topology: leaf-spine, racks: 4, hosts: 4, \
         spines: 2, routing: {routing}, host-link: {{ rate: 1Gb/s, delay: 2us, queue: {{ discipline: drop-tail, \
         buffer: 2MB }} }}, fabric-link: {{ rate: 2Gb/s, delay: 2us, queue: {{ discipline: drop-tail, buffer: 4MB \
         }} }} }}\ntransport: {transport}\ntraffic:\n  - {{ kind: random, from: all, to: all, sizes: websearch, load: \
         60%, flows: 300 }}\n{more}"
    )
}

/// Figure 6a: ten flows that begin and end one after the other. In every window of five periods that begins three
/// periods and a round trip after a change, each has its equal share but for 5 % and a frame, which falls into the
/// window or not.
#[test]
fn sequential_flows_have_equal_shares_within_three_periods() {
    let outcome = run(SEQUENTIAL, &[(DCTCP, "transport: pace"), ("every: 500us", "every: 20us")]);
    assert_lossless(&outcome);
    let names: Vec<String> = outcome.results.groups.iter().map(|group| group.name.clone()).collect();
    for change in 0..19_usize {
        let active = if change < 10 { &names[..=change] } else { &names[..19 - change] };
        // 2 · 1514 B · flows at 1 Gb/s, in steps of 20 µs; 260 µs stay, since 200 are not below half of them.
        let period = [200, 220, 260][change.saturating_sub(7).min(2)];
        let (begin, end) = (change as u64 * 5_000, (change as u64 + 1) * 5_000);
        let mut from = begin + (3 * period + 184_u64).next_multiple_of(20);
        while from + 5 * period <= end {
            let bytes = delivered(&outcome, from, from + 5 * period);
            let sum: u64 = active.iter().map(|name| bytes[name]).sum();
            let share = sum as f64 / active.len() as f64;
            // At 955 Mb/s all of the link carries data.
            let rate = sum as f64 * 8.0 / (5 * period) as f64;
            assert!(rate > 920.0, "{rate} Mb/s, change {change}");
            for name in active {
                let off = (bytes[name] as f64 - share).abs();
                assert!(off <= 0.05 * share + 1448.0, "{name}: {} of {share}, change {change}, {from} µs", bytes[name]);
            }
            from += period;
        }
    }
}

/// Figure 7: two links that groups of flows share differently; rates are those of max-min within 5 %.
#[test]
fn composite_traffic_has_max_min_shares() {
    let outcome = run(COMPOSITE, &[(DCTCP, "transport: pace"), ("every: 500us", "every: 100us")]);
    assert_lossless(&outcome);
    // Mb/s on the wire of all flows of each group: from and to in µs.
    type Shares = &'static [(&'static str, f64)];
    let phases: [(u64, u64, Shares); 4] = [
        (800, 2_000, &[("s1", 1000.0)]),
        (2_800, 4_000, &[("s1", 800.0), ("s2", 200.0)]),
        (5_000, 20_000, &[("s1", 400.0), ("s2", 600.0), ("s3", 600.0)]),
        (21_500, 40_000, &[("s1", 363.6), ("s2", 90.9), ("s2-more", 545.5), ("s3", 636.4)]),
    ];
    for (from, to, shares) in phases {
        let bytes = delivered(&outcome, from, to);
        for (name, share) in shares {
            let rate = bytes[*name] as f64 * 8.0 / (to - from) as f64 * 1514.0 / 1448.0;
            assert!((rate / share - 1.0).abs() < 0.05, "{name}: {rate:.1} of {share} Mb/s from {from} µs");
        }
    }
}

/// Figure 8: flows of 500 kB and weights 2, 1, 4 end at most three periods and a round trip after their ends as fluids.
#[test]
fn weighted_flows_end_soon_after_fluids() {
    let outcome = run(WEIGHTS, &[]);
    assert_lossless(&outcome);
    for (flow, fluid) in outcome.results.flows.iter().zip([7_500, 8_000, 8_500]) {
        let end = flow.finished.expect("it ends").picos() / 1_000_000;
        assert!((fluid..=fluid + 3 * 200 + 150).contains(&end), "{end} of {fluid} µs");
    }
}

/// Senders that begin at once towards one host: the port holds what it has granted.
#[test]
fn incasts_lose_nothing() {
    for (senders, most) in [(64, 1_560), (250, 6_080)] {
        // 2 · R · p-max, and a control frame of each sender.
        let buffer = 2 * most * 125 + 66 * senders;
        let text = format!(
            "scenario: 1\nname: incast\nseed: 1\nduration: 500ms\nnetwork: {{ topology: star, hosts: {}, host-link: {{ \
             rate: 1Gb/s, delay: 10us, queue: {{ discipline: drop-tail, buffer: {buffer}B }} }} }}\ntransport: {{ \
             protocol: pace, max-period: {most}us }}\ntraffic:\n  - {{ kind: incast, from: \"h[1-{senders}]\", to: h0, \
             size: 64kB, every: 200ms, rounds: 2 }}\n",
            senders + 1
        );
        let outcome = scenarios::run("", text);
        assert_lossless(&outcome);
        assert!(outcome.results.flows.iter().all(|flow| flow.finished.is_some()));
    }
}

/// Web search on a leaf-spine of forwarders, with paths that both directions of a flow share.
#[test]
fn symmetric_paths_lose_nothing_under_load() {
    let outcome = scenarios::run("", search("symmetric", "pace", ""));
    assert_lossless(&outcome);
    assert!(outcome.results.flows.iter().all(|flow| flow.finished.is_some()));
}
