//! The published runs without loss (papers/pace-lossless.yaml) under every checker, and one network with guarantees, a
//! latency level, tenants and credits at once.

use crate::pace::{assert_lossless, counter};
use crate::support::scenarios;
use std::collections::BTreeMap;
use weir_sim::RunOutcome;

const INCAST: &str = include_str!("../../../../scenarios/pace-incast.scenario.yaml");
const SEARCH: &str = include_str!("../../../../scenarios/pace-websearch.scenario.yaml");
const FAILURE: &str = include_str!("../../../../scenarios/pace-link-failure.scenario.yaml");
const FOUR: &str = include_str!("../../../../scenarios/four-systems.scenario.yaml");
const FOUR_POLICY: &str = include_str!("../../../../scenarios/four-systems.policy.yaml");

/// Runs a scenario with other values in its text.
fn run(policy: &str, text: &str, changes: &[(&str, &str)]) -> RunOutcome {
    let changed = changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    scenarios::run(policy, changed)
}

/// 250 senders in place of 64.
const MANY: [(&str, &str); 3] =
    [("hosts: 65", "hosts: 251"), ("h[1-64]", "h[1-250]"), ("buffer: 550kB", "buffer: 1600kB")];

#[test]
fn incasts_at_ten_gigabits_lose_nothing() {
    for changes in [&[][..], &MANY] {
        let outcome = run("", INCAST, changes);
        assert_lossless(&outcome);
        assert!(outcome.results.flows.iter().all(|flow| flow.finished.is_some()));
    }
}

/// The rivals' losses in the same buffers: the runs above could lose.
#[test]
fn windows_of_ten_segments_overflow_the_buffers_of_an_incast() {
    for changes in [&[][..], &MANY] {
        let changes = [changes, &[("transport: pace", "transport: newreno")]].concat();
        assert!(counter(&run("", INCAST, &changes), "packets_dropped") > 1_000);
    }
}

#[test]
fn web_search_at_four_fifths_loses_nothing() {
    let outcome = run("", SEARCH, &[("flows: 2000", "flows: 300")]);
    assert_lossless(&outcome);
    assert!(outcome.results.flows.iter().all(|flow| flow.finished.is_some()));
}

#[test]
fn lost_control_messages_cost_no_data() {
    let incast = [("transport: pace", "transport: { protocol: pace, control-loss: 0.01 }")];
    let search = [("flows: 2000", "flows: 300"), ("max-period: 400us", "max-period: 400us, control-loss: 0.01")];
    let many = [&MANY[..], &incast].concat();
    for (text, changes) in [(INCAST, &incast[..]), (INCAST, &many), (SEARCH, &search)] {
        let outcome = run("", text, changes);
        assert!(counter(&outcome, "credits_control_lost") > 10);
        for name in ["credits_dropped_packets", "credits_overfull"] {
            assert_eq!(counter(&outcome, name), 0, "{name}");
        }
        assert!(outcome.results.flows.iter().all(|flow| flow.finished.is_some()));
    }
}

/// Only packets on the failed link, and those of flows at new ports for one lifetime, are lost.
#[test]
fn losses_of_a_failing_link() {
    let outcome = run("", FAILURE, &[]);
    let [dropped, excluded] =
        ["credits_dropped_packets", "credits_excluded_packets"].map(|name| counter(&outcome, name));
    assert!(dropped > 0, "packets were on the link");
    assert_eq!((dropped, counter(&outcome, "credits_overfull")), (excluded, 0));
}

/// The policy of docs/how-to/credits.md.
fn documented_policy() -> String {
    let text = include_str!("../../../../docs/how-to/credits.md");
    let (_, block) = text.split_once("```yaml\n").expect("a policy");
    let (policy, _) = block.split_once("```").expect("its end");
    policy.lines().map(|line| line.strip_prefix("   ").unwrap_or(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Storage and batch beside web traffic of NewReno that overloads their port.
fn beside_web(policy: &str, enforcement: &str) -> RunOutcome {
    let text = format!(
        "scenario: 1\nname: beside-web\npolicy: test.policy.yaml\nduration: 500ms\nenforcement: {enforcement}\n\
         traffic:\n  - {{ name: storage, service: storage, from: \"m[1-3]\", to: m8 }}\n  \
         - {{ name: batch, service: batch, from: \"m[1-3]\", to: m8 }}\n  \
         - {{ name: web, service: web, from: \"m[3-6]\", to: m8, flows: 2 }}\n\
         measure: {{ rack: r1, direction: rx, every: 100ms }}\n"
    );
    scenarios::run(policy, text)
}

/// Data with credits has a queue of its own: other traffic fills its buffer and loses packets, credits lose none.
#[test]
fn other_traffic_takes_no_room_of_credits() {
    let policy = documented_policy();
    for enforcement in ["shaper", "parley", "levels"] {
        let outcome = beside_web(&policy, enforcement);
        for name in ["credits_dropped_packets", "credits_late_packets", "credits_overfull"] {
            assert_eq!(counter(&outcome, name), 0, "{enforcement}: {name}");
        }
        assert!(counter(&outcome, "packets_dropped") > 0, "{enforcement}: web overloads the port");
        // 600 Mb/s by 2 to 1.
        let rates = rates(&outcome, 200_000_000_000, 0.3);
        for (service, share) in [("storage", 400.0), ("batch", 200.0)] {
            let part = rates[service] / (share * 1448.0 / 1514.0);
            assert!((part - 1.0).abs() < 0.07, "{enforcement}: {rates:?} Mb/s");
        }
    }
}

/// The same traffic in one queue for all: the test above could fail.
#[test]
fn other_traffic_in_the_same_queue_takes_room_of_credits() {
    let policy = ["queues: 8", "{ strict: 1, weighted: 7 }"].into_iter().zip(["queues: 1", "plain"]).fold(
        documented_policy(),
        |policy, (queues, plain)| {
            let changed = policy.replace(queues, plain);
            assert_ne!(changed, policy, "{queues}");
            changed
        },
    );
    let outcome = beside_web(&policy, "levels");
    assert!(counter(&outcome, "credits_dropped_packets") > 0);
}

/// Mb/s of each flow group after `from` (ps), for so many seconds.
fn rates(outcome: &RunOutcome, from: u64, seconds: f64) -> BTreeMap<&str, f64> {
    let groups = outcome.results.groups.iter().enumerate();
    let rate = |group: usize| {
        let samples = outcome.results.group_samples.iter();
        let late = samples.filter(|sample| sample.group as usize == group && sample.at.picos() > from);
        late.map(|sample| sample.delivered).sum::<u64>() as f64 * 8.0 / seconds / 1e6
    };
    groups.map(|(group, own)| (own.name.as_str(), rate(group))).collect()
}

/// The credits of flows instead of aggregates.
const OF_FLOWS: [(&str, &str); 2] = [
    (
        "service: storage, from: \"h[0-3]\", to: h4",
        "service: storage, from: \"h[0-3]\", to: h4, transport: { protocol: pace, weight: 2, share: 0.36 }",
    ),
    (
        "service: batch, from: \"h[0-3]\", to: h4",
        "service: batch, from: \"h[0-3]\", to: h4, transport: { protocol: pace, share: 0.36 }",
    ),
];

/// Guarantees, a level, tenants and credits in one network: each has what its system guarantees.
#[test]
fn four_systems_at_once() {
    let outcome = assert_four_systems(&[]);
    for name in ["credits_host_astray", "credits_host_overspent", "credits_astray"] {
        assert_eq!(counter(&outcome, name), 0, "{name}");
    }
    assert!(counter(&outcome, "credits_host_allocations") > 1_000);
}

#[test]
fn four_systems_with_credits_of_flows() {
    assert_four_systems(&OF_FLOWS);
}

fn assert_four_systems(changes: &[(&str, &str)]) -> RunOutcome {
    let outcome = run(FOUR_POLICY, FOUR, changes);
    // Credits: nothing is lost, and the two services share R towards h4, 360 Mb/s, by weight.
    for name in ["credits_dropped_packets", "credits_late_packets", "credits_overfull"] {
        assert_eq!(counter(&outcome, name), 0, "{name}");
    }
    let rates = rates(&outcome, 100_000_000_000, 0.2);
    let rate = |of: &str| rates[of];
    let payload = 1448.0 / 1514.0;
    for (service, share) in [("storage", 240.0 * payload), ("batch", 120.0 * payload)] {
        let rate = rate(service);
        assert!((rate / share - 1.0).abs() < 0.05, "{service}: {rate:.1} of {share:.1} Mb/s");
    }
    // The guarantee of each machine, four of them.
    assert!(rate("web") > 4.0 * 200.0 * payload, "{:.1} Mb/s", rate("web"));
    // The level: every frame within its bound.
    assert!(counter(&outcome, "level_1_frames") > 50);
    for name in ["level_1_late", "level_1_overfull", "level_1_dropped"] {
        assert_eq!(counter(&outcome, name), 0, "{name}");
    }
    // Tenants: queues are bound anew, and no packet overtakes another for it.
    assert!(counter(&outcome, "tenant_queue_moves_ended") > 0);
    assert_eq!(counter(&outcome, "packets_overtaken"), 0);
    outcome
}
