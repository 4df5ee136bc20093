//! Systems that limit pairs of machines: guarantees beside a greedy neighbour, and use of a link that others leave.

use crate::tenants::run;
use weir_sim::RunOutcome;

const POLICY: &str = r#"
weir: 1
network:
  nic: 1Gb/s
  racks:
    r1: { uplink: 200Mb/s, machines: ["a[1-4]"] }
    r2: { uplink: 200Mb/s, machines: ["b[1-4]"] }
  slots: 1
  switches: { queues: 3, scheduler: weighted }
tenants:
  honest: { vms: 2, bandwidth: 90Mb/s, match: [ { port: 1 } ] }
  greedy: { vms: 6, bandwidth: 30Mb/s, match: [ { port: 2 } ] }
"#;

/// The greedy tenant sends over many connections of three machines each to each from the beginning, the honest one over
/// one connection from 2 s to 4 s.
fn scenario(enforcement: &str) -> String {
    format!(
        r#"
scenario: 1
name: pairs
policy: p.yaml
duration: 6s
enforcement: {enforcement}
links: {{ delay: 20us, queue: {{ buffer: 300kB }} }}
transport: newreno
tenants: {{ places: {{ honest: [a1, b1], greedy: [a2, a3, a4, b2, b3, b4] }} }}
traffic:
  - {{ service: greedy, from: "a[2-4]", to: "b[2-4]", flows: 4 }}
  - {{ service: honest, from: a1, to: b1, flows: 4, start: 2s, stop: 4s }}
measure: {{ rack: r1, direction: tx, every: 500ms }}
"#
    )
}

/// The mean of a tenant (0 the greedy one, 1 the honest one, by name) from one sample to another, in Mb/s.
fn mean(outcome: &RunOutcome, tenant: usize, samples: std::ops::Range<usize>) -> u64 {
    let count = samples.len() as u64;
    let rates = outcome.uplink.samples[samples].iter().map(|sample| sample.bandwidth[tenant].1.bps());
    rates.sum::<u64>() / count / 1_000_000
}

/// The greedy tenant alone, both together: the bandwidth of the greedy and of the honest one.
fn measured(enforcement: &str) -> [u64; 3] {
    let outcome = run(POLICY, &scenario(enforcement));
    let measured = [mean(&outcome, 0, 2..4), mean(&outcome, 0, 5..8), mean(&outcome, 1, 5..8)];
    println!("{enforcement}: {measured:?}");
    measured
}

#[test]
fn without_enforcement_connections_decide() {
    measured("cautious-elasticswitch");
    let [alone, _, honest] = measured("none");
    assert!(alone >= 190 && honest <= 30, "{alone} {honest}");
}

#[test]
fn static_reservation_keeps_guarantees_and_nothing_else() {
    let [alone, greedy, honest] = measured("static");
    assert!((80..=91).contains(&alone) && (80..=91).contains(&greedy), "{alone} {greedy}");
    assert!((80..=91).contains(&honest), "{honest}");
}

#[test]
fn elastic_switch_keeps_most_of_a_guarantee_and_uses_the_link() {
    let [alone, greedy, honest] = measured("elasticswitch");
    assert!(alone >= 170 && honest >= 60, "{alone} {greedy} {honest}");
    let [alone, greedy, honest] = measured("cautious-elasticswitch");
    assert!(alone >= 120 && honest >= 60, "{alone} {greedy} {honest}");
}

#[test]
fn trinity_keeps_guarantees_and_uses_the_link() {
    let [alone, greedy, honest] = measured("trinity");
    assert!(alone >= 170 && honest >= 80, "{alone} {greedy} {honest}");
}

#[test]
fn seawall_shares_by_weight() {
    // Weights of 90 and of 3 · 30: halves.
    let [alone, greedy, honest] = measured("seawall");
    assert!(alone >= 150, "{alone}");
    assert!(honest * 100 >= 35 * (greedy + honest), "{greedy} {honest}");
}

#[test]
fn shared_queue_of_qshare_is_shared_by_guarantees() {
    let [alone, _, honest] = measured("qshare");
    assert!(alone >= 190 && honest >= 80, "{alone} {honest}");
}

#[test]
fn eyeq_divides_interfaces_alone() {
    let [alone, _, honest] = measured("eyeq");
    assert!(alone >= 150 && honest <= 95, "{alone} {honest}");
}
