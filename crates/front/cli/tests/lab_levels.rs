//! Latency levels in the lab: real agents, switch ports and programs (`papers/qjump-testbed.yaml`).

mod common;

use common::{lab_namespaces, one_at_a_time, skipped, weir};
use serde_json::Value;
use std::path::Path;

/// The median of each group of requests and messages, in seconds, in a run with this enforcement.
fn medians(enforcement: &str) -> [(String, f64); 3] {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/qjump-testbed.scenario.yaml");
    let enforcement = format!("enforcement={enforcement}");
    let mut lab = weir(&["lab", "--json", "--set", "duration=8s", "--set", &enforcement]);
    let output = lab.arg(scenario).output().expect("runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(lab_namespaces(), Vec::<String>::new());
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let groups = ["requests", "messages"].map(|kind| result["policy"][kind].as_array().expect("groups").clone());
    let median = |group: &Value| {
        let seconds = group["p50_ps"].as_f64().expect("a median") / 1e12;
        (group["name"].as_str().expect("a name").to_owned(), seconds)
    };
    let medians: Vec<_> = groups.iter().flatten().map(median).collect();
    println!("{enforcement}: {medians:?}");
    medians.try_into().expect("clocks, requests and barrier messages")
}

/// Behind full queues of 25 Mb/s a packet waits for tens of milliseconds, and on a level for a few frames of half a
/// millisecond: ten times less, also on shared processors. Most messages of the barrier meet no full queue.
#[test]
fn levels_pass_bulk_that_fills_every_queue() {
    if skipped("latency levels in the lab") {
        return;
    }
    let _turn = one_at_a_time();
    for ((name, without), (_, with)) in medians("none").into_iter().zip(medians("shaper")) {
        let times = if name == "barrier" { 1.0 } else { 10.0 };
        assert!(with * times < without, "{name}: {with} s with levels, {without} s without");
    }
}
