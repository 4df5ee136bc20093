//! Tenants' queues in the lab: the real controller, agents and switches (`papers/qshare-fig4a.yaml`,
//! `papers/qshare-table2.yaml`).

mod common;

use common::{lab_namespaces, one_at_a_time, skipped, weir};
use serde_json::Value;
use std::path::Path;

/// The phases of a scenario's run in the lab.
fn phases(scenario: &str, options: &[&str]) -> Vec<Value> {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios").join(scenario);
    let mut lab = weir(&["lab", "--json"]);
    let output = lab.arg(scenario).args(options).output().expect("runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(lab_namespaces(), Vec::<String>::new());
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let phases = result["policy"]["phases"].as_array().expect("phases").clone();
    println!("{}", serde_json::to_string(&phases).expect("a text"));
    phases
}

/// The bandwidth of a service in the second half of a phase, in Mb/s.
fn settled(phase: &Value, service: &str) -> f64 {
    phase["settled_bps"][service].as_f64().expect("a bandwidth") / 1e6
}

/// Five tenants of ten that send divide the link, whose guarantees are a tenth of it each, and later the tenants of the
/// shared queue have theirs beside six with queues of their own.
#[test]
fn spare_bandwidth_is_divided_among_tenants_with_queues() {
    if skipped("tenants' queues in the lab") {
        return;
    }
    let _turn = one_at_a_time();
    let phases = phases("qshare-fig4a-small.scenario.yaml", &[]);
    // A busy host sends less than the link carries, so shares are compared.
    let five: Vec<f64> = (1..=5).map(|tenant| settled(&phases[2], &format!("T{tenant}"))).collect();
    let mean = five.iter().sum::<f64>() / 5.0;
    assert!(five.iter().all(|share| (share - mean).abs() < mean * 0.3), "{five:?}");
    let (first, eighth) = (settled(&phases[3], "T1"), settled(&phases[3], "T8"));
    assert!(eighth < first * 1.05, "T8 of the shared queue has {eighth}, T1 with its own {first}");
}

/// `honest` has 20 Mb/s over four connections beside `greedy` in the same queue, which sends over 128 connections and
/// then without congestion control. Without limits of hosts it has 3 Mb/s beside either.
#[test]
fn guarantees_hold_in_the_shared_queue() {
    if skipped("elastic tenants of the shared queue in the lab") {
        return;
    }
    let _turn = one_at_a_time();
    let policy = "policy=qshare-table2-small-shared.policy.yaml";
    let phases = phases("qshare-table2-small.scenario.yaml", &["--set", policy]);
    // `greedy` alone has more than its guarantee, but for what a busy host does not send.
    assert!(settled(&phases[1], "greedy") > 23.0 * 0.5, "{}", settled(&phases[1], "greedy"));
    for phase in [2, 4] {
        let [honest, greedy] = ["honest", "greedy"].map(|service| settled(&phases[phase], service));
        assert!(honest > 20.0 * 0.5 && greedy > 23.0 * 0.5, "phase {phase}: honest {honest}, greedy {greedy}");
    }
}
