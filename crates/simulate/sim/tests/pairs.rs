//! Systems that limit pairs of machines: guarantees beside a greedy neighbour, and use of a link that others leave.

use crate::support::scenarios::run;
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
/// four from 2 s to 4 s.
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
    let outcome = run(POLICY, scenario(enforcement));
    [mean(&outcome, 0, 2..4), mean(&outcome, 0, 5..8), mean(&outcome, 1, 5..8)]
}

#[test]
fn without_enforcement_connections_decide() {
    let [alone, _, honest] = measured("none");
    assert!(alone >= 190 && honest <= 45, "{alone} {honest}");
}

#[test]
fn static_reservation_keeps_guarantees_and_nothing_else() {
    let [alone, greedy, honest] = measured("static");
    assert!((85..=91).contains(&alone) && (85..=91).contains(&greedy), "{alone} {greedy}");
    assert!((85..=91).contains(&honest), "{honest}");
}

#[test]
fn aggressive_elastic_switch_uses_the_link_and_costs_a_part_of_guarantees() {
    let [alone, _, honest] = measured("elasticswitch");
    assert!(alone >= 180 && (60..90).contains(&honest), "{alone} {honest}");
}

/// Queues mark above their buffer less a frame, so no full frame is marked; the greedy tenant floods the link. Losses
/// are a sparser signal than marks: half of the guarantee is left.
#[test]
fn losses_are_a_signal_where_switches_do_not_mark() {
    let (flows, queue) = ("\"b[2-4]\", flows: 4", "queue: { buffer: 300kB }");
    let with_marks = scenario("cautious-elasticswitch");
    assert!(with_marks.contains(flows) && with_marks.contains(queue));
    let flooded = with_marks
        .replace(flows, "\"b[2-4]\", transport: udp")
        .replace(queue, "queue: { discipline: ecn, buffer: 300kB, mark: 299kB }");
    let outcome = run(POLICY, flooded);
    let [greedy, honest] = [0, 1].map(|tenant| mean(&outcome, tenant, 5..8));
    assert!(honest >= 30 && greedy + honest >= 180, "{greedy} {honest}");
}

#[test]
fn cautious_elastic_switch_keeps_guarantees_and_leaves_a_part_of_the_link() {
    let [alone, greedy, honest] = measured("cautious-elasticswitch");
    assert!((100..180).contains(&alone), "{alone}");
    assert!(greedy >= 85 && honest >= 85, "{greedy} {honest}");
}

#[test]
fn trinity_keeps_guarantees_and_uses_the_link() {
    for form in ["trinity", "one-queue-trinity"] {
        let [alone, greedy, honest] = measured(form);
        assert!(alone >= 190 && honest >= 85, "{form}: {alone} {greedy} {honest}");
        assert!(greedy + honest >= 190, "{form}: {greedy} {honest}");
    }
}

#[test]
fn seawall_shares_by_weight() {
    // Weights of 90 and of 3 · 30: halves.
    let [_, greedy, honest] = measured("seawall");
    assert!(honest * 100 >= 40 * (greedy + honest) && honest * 100 <= 60 * (greedy + honest), "{greedy} {honest}");
}

/// Two queues are for single tenants, and both tenants get one when the first interval ends, at 4 s. Until then both
/// are in the shared queue.
#[test]
fn tenants_of_the_shared_queue_keep_their_guarantees() {
    let [_, greedy, honest] = measured("qshare");
    assert!(greedy >= 85 && honest >= 85, "{greedy} {honest}");
}

#[test]
fn eyeq_divides_interfaces_and_not_the_core() {
    let [alone, _, honest] = measured("eyeq");
    assert!(alone >= 190 && honest <= 45, "{alone} {honest}");
}

/// A tenant with a queue of its own has its part of the link although its queue marks all of its packets.
#[test]
fn marks_of_an_own_queue_do_not_throttle_a_tenant() {
    let scenario =
        scenario("qshare").replace("start: 2s, stop: 4s", "start: 2s").replace("duration: 6s", "duration: 8s");
    let outcome = run(POLICY, &scenario);
    // Guarantees of 90 each on 200 Mb/s.
    let [greedy, honest] = [0, 1].map(|tenant| mean(&outcome, tenant, 11..15));
    assert!(honest >= 98 && greedy >= 98, "{honest} {greedy}");
}
