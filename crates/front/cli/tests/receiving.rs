//! The receiving side in the lab: real agents, real TCP, UDP and redis, as `weir reproduce --backend
//! lab` and `weir lab` run them. The expected values and their reasons are in `papers/`. On shared
//! processors a shorter run of the same scenario shows that shares follow the policy, and not what
//! the processors reach.

mod common;

use common::{SHARED_LEAST, SHARED_MOST, at_least, lab_namespaces, one_at_a_time, quick, skipped, weir};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)
}

/// The results of an experiment in the lab.
struct ExperimentResults {
    /// The measured values, by metric, in the unit that the experiment names.
    values: BTreeMap<String, f64>,
    /// The content of `result.json`, by run.
    runs: BTreeMap<String, Value>,
}

/// Runs an experiment on Linux and asserts that all its values are as expected, and every transfer has a report.
fn reproduced(id: &str, runs: &[&str]) -> ExperimentResults {
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("out");
    let output =
        weir(&["reproduce", id, "--backend", "lab", "--json", "--report"]).arg(&report).output().expect("runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(lab_namespaces(), Vec::<String>::new());
    let object: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let rows = object["rows"].as_array().expect("rows");
    let mut values = BTreeMap::new();
    for row in rows {
        let (metric, verdict) = (row["metric"].as_str().expect("a name"), row["verdict"].as_str().expect("a word"));
        println!("{id}: {metric}: {} {} {verdict}", row["measured"], row["unit"]);
        values.insert(metric.to_owned(), row["measured"].as_f64().unwrap_or_else(|| panic!("not measured: {row}")));
    }
    assert_eq!(output.status.code(), Some(0), "{rows:#?}\n{stderr}");
    let read = |name: &&str| {
        let path = report.join(format!("runs/{name}-lab/result.json"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let result: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(result["counters"]["transfers_without_report"], 0, "{id} {name}: {stderr}");
        ((*name).to_owned(), result)
    };
    ExperimentResults { values, runs: runs.iter().map(read).collect() }
}

/// The results of a scenario in the lab with these settings.
fn lab(scenario: &Path, settings: &[&str]) -> Value {
    let mut lab = weir(&["lab", "--json"]);
    lab.arg(scenario);
    for setting in settings {
        lab.args(["--set", setting]);
    }
    let output = lab.output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lab_namespaces(), Vec::<String>::new());
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["counters"]["transfers_without_report"], 0, "{}", result["counters"]);
    result
}

fn sum(result: &Value, list: &str, key: &str) -> u64 {
    result["policy"][list].as_array().map_or(0, |all| all.iter().filter_map(|one| one[key].as_u64()).sum())
}

#[test]
fn receiving_shares_depend_on_neither_flow_counts_nor_a_flood() {
    if skipped("shares at a receiver") {
        return;
    }
    let _turn = one_at_a_time();
    if quick() {
        let equal = lab(&tree("scenarios/receive-flows.scenario.yaml"), &["duration=8s"]);
        let (few, many) = (mean(&equal, "few", 3.0, 8.0), mean(&equal, "many", 3.0, 8.0));
        println!("{few:.1} and {many:.1} Mb/s");
        // Without Weir 5 of 51 flows have a tenth; with half each, at worst these parts of it.
        assert!(few > SHARED_LEAST / SHARED_MOST * many, "{few} and {many} Mb/s");
        assert!(sum(&equal, "agents", "packets_marked") > 0, "marks reach the law: {}", equal["policy"]["agents"]);
        return;
    }
    let ExperimentResults { values, runs } = reproduced("receive-flows", &["none", "equal", "weights", "flood"]);
    // Without Weir the port follows the flow counts, 5 of 51, as far as TCP is fair: the experiment
    // expects a sixteenth to a sixth of it.
    assert_eq!(sum(&runs["none"], "ports", "marked"), 0, "no port was to mark");
    // The experiment itself checks the share of the 46 flows.
    let (few, flooded) = (values["5 flows, equal shares"], values["TCP beside a flood"]);
    assert!(few >= 45.0, "both are guaranteed 45: {few} Mb/s");
    assert!(flooded < 50.0, "and the flood has a share, too: {flooded} Mb/s");
    let equal = &runs["equal"];
    assert!(sum(equal, "ports", "marked") > 0, "{}", equal["policy"]["ports"]);
    assert!(sum(equal, "agents", "packets_marked") > 0, "marks reach the law: {}", equal["policy"]["agents"]);
}

#[test]
fn shapers_alone_share_a_congested_link() {
    if skipped("shapers without brokers") {
        return;
    }
    let _turn = one_at_a_time();
    if quick() {
        let settings = ["duration=13s", "traffic[1].start=2s"];
        let small = lab(&tree("scenarios/parley-fig12-small.scenario.yaml"), &settings);
        let (many, one) = (mean(&small, "many", 8.0, 13.0), mean(&small, "one", 8.0, 13.0));
        println!("{many:.1} and {one:.1} Mb/s");
        // By itself 1 of 31 flows has a thirtieth of the others, with shapers as much as they; on shared processors the
        // boundary is the geometric mean.
        assert!(one > many / 30_f64.sqrt(), "{many} and {one} Mb/s");
        return;
    }
    let ExperimentResults { values, .. } = reproduced("parley-fig12", &["small", "small-none"]);
    let both = values["30 flows, at 1/100 of the speeds"] + values["1 flow, at 1/100 of the speeds"];
    assert!(both > 8.0, "they use the link: {both} Gb/s of the paper's 10");
    // Two services of which one has a fifth of the other's have an index of 36/52.
    let free = values["Jain's index without shapers, at 1/100 of the speeds"];
    assert!(free < 36.0 / 52.0, "1 of 31 flows has little by itself: {free}");
}

#[test]
fn a_limit_makes_messages_wait_that_start_together() {
    if skipped("messages under a limit") {
        return;
    }
    let _turn = one_at_a_time();
    if quick() {
        let slowest = |settings: &[&str]| {
            let result = lab(&tree("scenarios/parley-fig15-small.scenario.yaml"), settings);
            let own = &result["policy"]["messages"][0];
            assert!(own["messages"].as_u64() >= Some(3) && own["unfinished"] == 0, "{own}");
            own["p50_ps"].as_f64().expect("all came") / 1e12
        };
        let (free, limited) = (slowest(&["duration=7s", "enforcement=none"]), slowest(&["duration=7s"]));
        // Half of the rate takes twice as long, 1.5 times at least in full. A busy processor adds to both, but
        // not alike: half of the difference is asserted here.
        assert!(limited > 1.25 * free, "{limited} s under the limit, {free} without");
        return;
    }
    let ExperimentResults { runs, .. } = reproduced("parley-fig15", &["small", "small-unlimited"]);
    let times = |name: &str| {
        let own = &runs[name]["policy"]["messages"][0];
        assert!(own["messages"].as_u64() >= Some(6) && own["unfinished"] == 0, "{name}: {own}");
        ["p50_ps", "max_ps"].map(|key| own[key].as_f64().expect("all came") / 1e12)
    };
    // All rounds, the first too, in which the law may take a second to find the rate: what hosts
    // have queued before they are limited is still sent.
    let ([free, slowest], [limited, slowest_limited]) = (times("small-unlimited"), times("small"));
    assert!(free > 0.95 && slowest < 1.2, "{free} to {slowest} s");
    assert!((1.5..2.3).contains(&(limited / free)), "{limited} s under the limit, {free} without");
    assert!(slowest_limited < 4.0 * free, "{slowest_limited} s");
}

#[test]
fn a_real_services_tail_is_ten_times_shorter_beside_bulk() {
    if skipped("a redis server beside bulk") {
        return;
    }
    let _turn = one_at_a_time();
    if quick() {
        let result = lab(&tree("scenarios/redis.scenario.yaml"), &["duration=8s"]);
        assert!(result["policy"]["requests"][0]["requests"].as_u64() > Some(500), "{}", result["policy"]["requests"]);
        let bulk = mean(&result, "bulk", 3.0, 8.0);
        assert!((at_least(70.0)..=81.0).contains(&bulk), "bulk has the remainder of 80 Mb/s: {bulk}");
        return;
    }
    let ExperimentResults { values, runs } = reproduced("redis-tail", &["idle", "none", "parley"]);
    for (name, result) in runs {
        assert!(
            result["policy"]["requests"][0]["requests"].as_u64() > Some(1_000),
            "{name}: {}",
            result["policy"]["requests"]
        );
    }
    let bulk = values["bulk with Weir"];
    assert!((70.0..=81.0).contains(&bulk), "bulk has the remainder of 80 Mb/s: {bulk}");
    // The bound of the experiment is the planner's for this policy.
    let plan = weir(&["plan", "--json"]).arg(tree("scenarios/redis.policy.yaml")).output().expect("runs");
    let plan: Value = serde_json::from_slice(&plan.stdout).expect("JSON");
    let cache = plan["services"].as_array().expect("services").iter().find(|own| own["service"] == "cache");
    let estimates = cache.expect("the service")["estimates"].as_array().expect("estimates");
    let bound = estimates.iter().find(|estimate| estimate["by"] == "bound").expect("the bound")["time_ns"].as_f64();
    let planned = bound.expect("a time") / 1e6;
    let expected = values["the planner's bound"];
    assert!((expected / planned - 1.0).abs() < 1e-3, "{expected} and {planned} ms");
}

/// The mean of a service at the measured uplink over the samples that end after `from` and not
/// after `to` seconds, in Mb/s.
fn mean(result: &Value, service: &str, from: f64, to: f64) -> f64 {
    let samples = result["policy"]["samples"].as_array().expect("samples").iter();
    let inside =
        samples.filter(|sample| sample["at_ps"].as_f64().is_some_and(|at| from < at / 1e12 && at / 1e12 <= to));
    let rates: Vec<f64> = inside.filter_map(|sample| sample["bandwidth_bps"][service].as_f64()).collect();
    assert!(rates.len() >= 3, "{} samples", rates.len());
    rates.iter().sum::<f64>() / rates.len() as f64 / 1e6
}

/// Figure 14 where the paper has it, at the receiving rack: its three phases, shorter than `weir
/// reproduce parley-fig14 --backend lab` has them.
#[test]
fn receivers_of_a_rack_share_its_uplink() {
    if skipped("figure 14 at the receivers") {
        return;
    }
    let _turn = one_at_a_time();
    if quick() {
        // At a fifth of the speeds, between three machines on each side: both have half, however a began alone.
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["parley-fig14-receive.policy.yaml", "parley-fig14-receive.scenario.yaml"] {
            let text = fs::read_to_string(tree(&format!("scenarios/{name}"))).expect("a scenario");
            let text = text.replace("150Mb/s", "30Mb/s").replace("300Mb/s", "60Mb/s").replace("[1-10]", "[1-3]");
            fs::write(directory.path().join(name), text).expect("written");
        }
        let scenario = directory.path().join("parley-fig14-receive.scenario.yaml");
        let result = lab(&scenario, &["duration=22s", "traffic[0].stop=22s", "traffic[1].start=6s"]);
        for service in ["a", "b"] {
            let mean = mean(&result, service, 15.0, 22.0);
            // Without Weir they fill interfaces of 150 Mb/s together. What one lacks the other may have.
            assert!((at_least(30.0)..SHARED_MOST * 30.0).contains(&mean), "{service}: {mean} of 30 Mb/s");
        }
        return;
    }
    let scenario = tree("scenarios/parley-fig14-receive.scenario.yaml");
    let result = lab(&scenario, &["duration=37s", "traffic[0].stop=26s", "traffic[1].start=11s"]);
    let phases =
        [("a", 6.0, 11.0, 150.0), ("a", 19.0, 26.0, 150.0), ("b", 19.0, 26.0, 150.0), ("b", 32.0, 37.0, 300.0)];
    let means = phases.map(|(service, from, to, _)| mean(&result, service, from, to));
    println!("a alone, both, b alone: {means:.1?} Mb/s");
    for (mean, (service, from, to, due)) in means.into_iter().zip(phases) {
        assert!((mean / due - 1.0).abs() < 0.05, "{service} from {from} to {to} s: {mean} of {due} Mb/s");
    }
}
