//! Latency levels: worst delays beside their bounds, hosts that do not obey, and the parts alone.

use crate::support::scenarios::run;
use std::collections::BTreeMap;

/// A run of `senders` hosts that send as much as they may on level 1 to one more host, each beside bulk to the same
/// host; frames of 1500 B, 10 Gb/s.
fn star(senders: u32, levels: &str, rest: &str) -> BTreeMap<String, u64> {
    let policy = format!(
        "weir: 1\nnetwork: {{ topology: star, hosts: {}, host-link: {{ rate: 10Gb/s, delay: 1us, queue: {{ buffer: 4MB \
         }} }}, packets: {{ payload: 1434B, headers: 66B }} }}\nlevels: {{ factors: [1], framing: 0B{levels} \
         }}\nservices:\n  urgent: {{ match: [ {{ port: 1 }} ], level: 1, machines: [\"h[0-{}]\"] }}\n  bulk: {{ match: \
         [ {{ port: 2 }} ] }}\n",
        senders + 1,
        senders - 1
    );
    let text = format!(
        "scenario: 1\nname: star\npolicy: p.yaml\nseed: 1\nduration: 10ms\nenforcement: levels\n{rest}traffic:\n  - {{ \
         kind: incast, service: urgent, from: [\"h[0-{last}]\"], to: h{senders}, size: 1434B, every: 97us, rounds: 90 \
         }}\n  - {{ service: bulk, from: [\"h[0-{last}]\"], to: h{senders}, pattern: \
         full-mesh, start: 0s, stop: 10ms }}\nmeasure: {{ rack: switch, direction: tx, every: 5ms }}\n",
        last = senders - 1
    );
    run(&policy, text).results.counters
}

fn of(counters: &BTreeMap<String, u64>, name: &str) -> u64 {
    counters[&format!("level_1_{name}")]
}

/// All senders' frames meet at the receiver's port, behind a frame of bulk at each hop.
#[test]
fn worst_delays_are_near_their_bounds_and_below() {
    for (senders, percent) in [(8, 75), (12, 80), (40, 85)] {
        let counters = star(senders, "", "");
        assert_eq!((of(&counters, "late"), of(&counters, "overfull")), (0, 0), "{counters:?}");
        assert!(of(&counters, "frames") >= u64::from(senders) * 90, "{counters:?}");
        assert!(of(&counters, "worst_ns") * 100 >= of(&counters, "bound_ns") * percent, "{senders}: {counters:?}");
        assert!(of(&counters, "worst_ns") <= of(&counters, "bound_ns"));
    }
}

/// Level 1 has one port whose queue its frames fill: the receiver's, which has a bound and keeps it.
#[test]
fn largest_queues_are_reported_by_port_with_their_bounds() {
    let counters = star(12, "", "");
    let (backlog, bound) =
        (of(&counters, "backlog_bytes_at_switch->h12"), of(&counters, "backlog_bound_bytes_at_switch->h12"));
    assert_eq!(backlog, of(&counters, "backlog_bytes"));
    // Ten or more of the twelve senders' frames of 1500 B meet there.
    assert!((10 * 1_500..=bound).contains(&backlog), "{backlog} of {bound}");
}

/// A host without an agent that sends bulk in the class of level 1.
#[test]
fn bound_breaks_if_a_host_does_not_obey() {
    let counters = star(12, "", "levels: { without-agent: h3 }\n");
    assert!(of(&counters, "late") > 0 && of(&counters, "overfull") > 0, "{counters:?}");
}

/// Without priorities frames wait behind bulk; without regulators they are bounded by the load that they happen to
/// have.
#[test]
fn one_part_alone_bounds_nothing() {
    let both = star(12, "", "");
    let limits = star(12, "", "levels: { priorities: off }\n");
    assert!(of(&limits, "worst_ns") > 10 * of(&both, "worst_ns"), "{limits:?}");
    assert!(of(&limits, "late") > 0);
}
