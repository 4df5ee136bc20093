//! Random flows by their size: quotas of flows, and services of small flows under a policy.

use crate::support::scenarios;
use weir_results::Results;

const POLICY: &str = "weir: 1
network:
  topology: star
  hosts: 4
  host-link: { rate: 10Gb/s, delay: 1us, queue: { buffer: 4MB } }
  packets: { payload: 1460B, headers: 40B }
levels: { factors: [7], framing: 0B }
services:
  short: { match: [ { port: 1 } ], level: 1 }
  long: { match: [ { port: 2 } ] }
";

fn run(head: &str, traffic: &str) -> Results {
    let text = format!("scenario: 1\nname: sizes\nseed: 1\nduration: 200ms\n{head}traffic:\n{traffic}");
    scenarios::run(POLICY, text).results
}

/// Flows of one size to one host, alone, in quotas of six and fourteen frames.
fn with_quotas(size: &str, more: &str) -> Results {
    let head = "network: { topology: star, hosts: 4, host-link: { rate: 10Gb/s, delay: 1us, queue: { discipline: \
                strict-priority } }, packets: { payload: 1460B, headers: 40B } }\n\
                transport: { protocol: newreno, initial-window: 40, min-rto: 200us, initial-rto: 200us, delayed-ack: 1 \
                }\n";
    let traffic = format!(
        "  - {{ kind: random, from: h1, to: h0, sizes: {size}, gap: 10ms, flows: 8, arrivals: constant, quotas: {{ \
         epoch: 1ms, sizes: [9kB, 21kB] }} }}\n{more}"
    );
    run(head, &traffic)
}

#[test]
fn a_flow_that_its_quota_holds_is_not_limited() {
    for size in ["5kB", "8760B", "20440B"] {
        let results = with_quotas(size, "");
        assert_eq!(results.flows.len(), 8);
        for flow in &results.flows {
            assert_eq!((flow.completion_time(), flow.retransmissions), (Some(flow.ideal), 0), "{size}");
        }
    }
}

/// 21 frames in a quota of 14: the rest is dropped, is repeated by the timer and leaves in the second epoch.
#[test]
fn a_larger_flow_needs_a_second_epoch() {
    for flow in &with_quotas("30kB", "").flows {
        let millis = flow.completion_time().expect("a flow that finishes").picos() as f64 / 1e9;
        assert!((1.0..1.6).contains(&millis), "{millis} ms");
        assert!(flow.retransmissions >= 7 && flow.timeouts >= 1);
    }
}

/// Small flows have the most urgent class: bulk of the least urgent one delays each by a frame at most.
#[test]
fn the_quota_gives_a_flow_its_class() {
    let results = with_quotas("5kB", "  - { from: h2, to: h0, priority: 7 }\n");
    for flow in results.flows.iter().filter(|flow| flow.group == 0) {
        let took = flow.completion_time().expect("a flow that finishes");
        assert!(took.saturating_sub(flow.ideal).picos() <= 1_200_000, "{took:?} of {:?}", flow.ideal);
    }
    let classes = &results.links.iter().find(|link| link.name == "switch->h0").expect("the link").classes;
    assert!(classes[0].packets >= 8 * 4 && classes[7].packets > 1_000, "{classes:?}");
}

#[test]
fn small_flows_belong_to_a_service_of_their_own() {
    let head = "policy: p.yaml\nenforcement: levels\ntransport: { protocol: newreno, min-rto: 10ms, delayed-ack: 1 }\n";
    let traffic = "  - { kind: random, service: long, from: [h1, h2], to: h0, sizes: 1kB-20kB, gap: 1ms, flows: 100, \
                   by-size: [ { up-to: 10kB, service: short } ] }\nmeasure: { rack: switch, direction: tx, every: \
                   5ms }\n";
    let results = run(head, traffic);
    let small: u64 =
        results.flows.iter().filter(|flow| flow.bytes <= 10_000).map(|flow| flow.bytes.div_ceil(1460)).sum();
    assert!(results.flows.len() == 100 && small > 0);
    // Each data packet and its acknowledgement.
    assert_eq!(results.counters["level_1_frames"], 2 * small);
    assert_eq!(results.counters["level_1_late"], 0);
}
