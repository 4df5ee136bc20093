//! Tenants' queues in the lab: the real controller, agents and switches (`papers/qshare-fig4a.yaml`).

mod common;

use common::{lab_namespaces, one_at_a_time, skipped, weir};
use serde_json::Value;
use std::path::Path;

/// Five tenants of ten that send divide the link, whose guarantees are a tenth of it each, and later the tenants of the
/// shared queue have theirs beside six with queues of their own.
#[test]
fn spare_bandwidth_is_divided_among_tenants_with_queues() {
    if skipped("tenants' queues in the lab") {
        return;
    }
    let _turn = one_at_a_time();
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/qshare-fig4a-small.scenario.yaml");
    let mut lab = weir(&["lab", "--json"]);
    let output = lab.arg(scenario).output().expect("runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(lab_namespaces(), Vec::<String>::new());
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let phases = result["policy"]["phases"].as_array().expect("phases");
    // By phase and service: the bandwidth in the second half, in Mb/s.
    let settled =
        |phase: usize, service: &str| phases[phase]["settled_bps"][service].as_f64().expect("a bandwidth") / 1e6;
    println!("{}", serde_json::to_string(&phases).expect("a text"));
    // A busy host sends less than the link carries, so shares are compared.
    let five: Vec<f64> = (1..=5).map(|tenant| settled(2, &format!("T{tenant}"))).collect();
    let mean = five.iter().sum::<f64>() / 5.0;
    assert!(five.iter().all(|share| (share - mean).abs() < mean * 0.3), "{five:?}");
    let (first, eighth) = (settled(3, "T1"), settled(3, "T8"));
    assert!(eighth < first * 1.05, "T8 of the shared queue has {eighth}, T1 with its own {first}");
}
