//! `weir plan` beside the simulator: a target is kept only where the premises of its bound hold.

mod program;

use program::{directory, file, json, run, text};
use serde_json::Value;
use std::path::Path;

const POLICY: &str = include_str!("../../../scenarios/latency-udp.policy.yaml");
const SCENARIO: &str = include_str!("../../../scenarios/latency-udp.scenario.yaml");
/// (3 ms of convergence and 0.16 ms for 20 kB at 1 Gb/s) / 0.25, in nanoseconds.
const BOUND: u64 = 12_640_000;
/// σ of 375 kB, and 20 kB.
const NEEDED: u64 = 395_000;

struct Case {
    directory: tempfile::TempDir,
    policy: String,
    scenario: String,
}

/// The example with other buffers in both files, and another maximum and timer.
fn case(buffer: &str, bulk: &str, min_rto: &str) -> Case {
    let directory = directory();
    let policy = POLICY.replace("buffer: 256kB", &format!("buffer: {buffer}"));
    let policy = policy.replace("match: [ { port: 81 } ]", &format!("match: [ {{ port: 81 }} ]{bulk}"));
    let scenario = SCENARIO.replace("buffer: 256kB", &format!("buffer: {buffer}")).replace("200ms", min_rto);
    let policy = file(directory.path(), "latency-udp.policy.yaml", &policy);
    let scenario = file(directory.path(), "latency-udp.scenario.yaml", &scenario);
    Case { directory, policy, scenario }
}

const MAXIMUM: &str = "\n    rack: { max: 500Mb/s }";

impl Case {
    /// The exit code, and the only service of the plan.
    fn planned(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let output = run(&[&["plan", &self.policy, "--json"], arguments].concat());
        let plan = json(&output);
        assert_eq!(plan["services"][0]["kept"], plan["kept"]);
        (output.status.code(), plan["services"][0].clone())
    }

    /// The 99th percentile of the messages' completion times in the simulator, in nanoseconds, and their timeouts.
    fn simulated(&self) -> (u64, u64) {
        let out = self.directory.path().join("out").display().to_string();
        let output = run(&["sim", &self.scenario, "--report", &out]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let result = std::fs::read_to_string(Path::new(&out).join("network/result.json")).expect("a result");
        let result: Value = serde_json::from_str(&result).expect("JSON");
        let groups = result["statistics"]["groups"].as_array().expect("groups");
        let web = groups.iter().find(|group| group["name"] == "web").expect("the messages");
        let p99 = web["all"]["fct_ps"]["p99"].as_u64().expect("a percentile");
        (p99.div_ceil(1_000), web["timeouts"].as_u64().expect("a count"))
    }
}

fn reasons(service: &Value) -> Vec<&str> {
    service["unproven"].as_array().expect("reasons").iter().map(|reason| reason.as_str().expect("text")).collect()
}

/// 256 kB do not hold σ, and UDP overloads the uplink: the plan keeps nothing, and retransmission
/// timers decide what the simulator measures. A buffer for σ alone does not help, and the plan
/// still refuses.
#[test]
fn udp_breaks_the_bound_and_the_plan_refuses_it() {
    for (buffer, min_rto, shortfalls) in [("256kB", "10ms", 2), ("256kB", "200ms", 2), ("395kB", "200ms", 0)] {
        let case = case(buffer, "", min_rto);
        let (code, service) = case.planned(&["--scenario", &case.scenario]);
        assert_eq!((code, service["verdict"].as_str()), (Some(1), Some("unproven")));
        assert_eq!(service["estimates"][1]["time_ns"], BOUND);
        let reasons = reasons(&service);
        assert_eq!(reasons.len(), shortfalls + 1, "{reasons:?}");
        assert!(
            reasons.last().is_some_and(|last| last.starts_with("services that may send UDP (bulk) can offer 8 Gb/s"))
        );
        let (p99, timeouts) = case.simulated();
        assert!(p99 > BOUND && timeouts > 0, "{buffer}, {min_rto}: {p99} ns, {timeouts} timeouts");
    }
}

/// With a maximum for UDP and the buffers that the plan states, the target is kept, in the
/// simulator as well.
#[test]
fn stated_buffers_and_a_maximum_keep_the_target() {
    for min_rto in ["10ms", "200ms"] {
        let case = case("395kB", MAXIMUM, min_rto);
        let (code, service) = case.planned(&[]);
        assert_eq!((code, service["verdict"].as_str()), (Some(0), Some("kept")), "{service}");
        assert_eq!(case.planned(&["--scenario", &case.scenario]).0, Some(0));
        let (p99, timeouts) = case.simulated();
        assert!(p99 < BOUND && timeouts == 0, "{min_rto}: {p99} ns, {timeouts} timeouts");
    }
}

/// A byte less than needed, no statement, and a scenario with other buffers: each is refused with its reason.
#[test]
fn buffers_are_compared_exactly() {
    let states = |states: &str| {
        ["machine's interface", "rack's uplink"]
            .map(|at| format!("the bound needs 395 kB of buffer at the {at}; the network states {states}"))
    };
    let small = case("394999B", MAXIMUM, "200ms");
    let (code, service) = small.planned(&[]);
    assert_eq!((code, reasons(&service)), (Some(1), states("394.999 kB").iter().map(String::as_str).collect()));
    for need in service["buffers"].as_array().expect("needs") {
        let values = ["sigma_bytes", "needed_bytes", "stated_bytes"].map(|key| need[key].as_u64());
        assert_eq!(values, [Some(NEEDED - 20_000), Some(NEEDED), Some(NEEDED - 1)]);
        assert_eq!(need["enough"], false);
    }
    // One timeout of the scenario's timer, and two.
    let timers = &service["retransmission"];
    assert_eq!(
        (timers["one_timeout_ns"].as_u64(), timers["two_timeouts_ns"].as_u64()),
        (Some(212_640_000), Some(612_640_000))
    );
    let (_, service) = small.planned(&["--min-rto", "10ms"]);
    assert_eq!(service["retransmission"]["two_timeouts_ns"], 42_640_000);

    let unknown = POLICY
        .replace("  switches:", "  # switches:")
        .replace("match: [ { port: 81 } ]", "match: [ { protocol: tcp, port: 81 } ]");
    let unknown = file(small.directory.path(), "unknown.policy.yaml", &unknown);
    let output = run(&["plan", &unknown, "--json"]);
    let plan = json(&output);
    assert_eq!(
        (output.status.code(), reasons(&plan["services"][0])),
        (Some(1), states("none").iter().map(String::as_str).collect())
    );
    // Methods that state no worst case are judged by their times alone.
    assert_eq!(run(&["plan", &unknown, "--by", "mm1"]).status.code(), Some(0));

    let enough = case("395kB", MAXIMUM, "200ms");
    let less = file(enough.directory.path(), "less.scenario.yaml", &SCENARIO.replace("buffer: 256kB", "buffer: 300kB"));
    let (code, service) = enough.planned(&["--scenario", &less]);
    assert_eq!((code, reasons(&service)), (Some(1), states("300 kB").iter().map(String::as_str).collect()));
    let checked = run(&["sim", &less, "--check"]);
    let notes = text(&checked.stderr) + &text(&checked.stdout);
    assert!(notes.contains("ports have buffers of 300 kB, while the policy's `switches` state 395 kB"), "{notes}");
    // A scenario of another policy is none of this plan's.
    let other = run(&["plan", &unknown, "--scenario", &less]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("the scenario's policy is another one"), "{}", text(&other.stderr));
}

/// What people see of the example.
#[test]
fn the_example() {
    let output = run(&["plan", "scenarios/latency-udp.policy.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!("plan_buffers", text(&output.stdout));
}
