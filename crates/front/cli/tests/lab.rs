//! `weir lab` as a person would run it: real namespaces, real agents, real TCP.

mod common;

use common::{at_least, lab_namespaces, one_at_a_time, signal, skipped, wait_for, weir};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use weir_policy::Policy;
use weir_shaping::MachinePlan;
use weir_units::Direction;

/// Two machines on each side; `a` may have 20 Mb/s of the rack's uplink.
fn scenario(directory: &Path, seconds: u64, enforcement: &str) -> PathBuf {
    let policy = "weir: 1\nnetwork:\n  nic: 50Mb/s\n  racks:\n    r1: { uplink: 80Mb/s, machines: [s1, s2] }\n    \
                  r2: { uplink: 80Mb/s, machines: [d1, d2] }\nservices:\n  a:\n    match: [ { protocol: tcp, port: \
                  5001-5010 } ]\n    rack: { tx: { max: 20Mb/s } }\n";
    let scenario = format!(
        "scenario: 1\nname: small\npolicy: policy.yaml\nduration: {seconds}s\nenforcement: {enforcement}\ntraffic: [ \
         {{ service: a, from: r1, to: r2 }} ]\nmeasure: {{ rack: r1, direction: tx, every: 1s }}\n"
    );
    fs::write(directory.join("policy.yaml"), policy).expect("written");
    let path = directory.join("small.scenario.yaml");
    fs::write(&path, scenario).expect("written");
    path
}

fn settled_mbps(stdout: &[u8]) -> f64 {
    let result: serde_json::Value = serde_json::from_slice(stdout).expect("JSON");
    result["policy"]["phases"][0]["settled_bps"]["a"].as_f64().expect("a rate") / 1e6
}

#[test]
fn a_limit_holds_real_tcp_and_without_enforcement_it_does_not() {
    if skipped("a limit on real TCP") {
        return;
    }
    let _turn = one_at_a_time();
    let directory = tempfile::tempdir().expect("a directory");
    let limited = scenario(directory.path(), 10, "parley");
    let output = weir(&["lab", "--json"]).arg(&limited).output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let rate = settled_mbps(&output.stdout);
    assert!((at_least(19.0)..=21.0).contains(&rate), "{rate} Mb/s instead of 20\n{errors}");
    assert_eq!(lab_namespaces(), Vec::<String>::new());

    let free = scenario(directory.path(), 10, "none");
    let output = weir(&["lab", "--json"]).arg(&free).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rate = settled_mbps(&output.stdout);
    assert!((at_least(65.0)..=81.0).contains(&rate), "{rate} Mb/s through an uplink of 80");
    assert_eq!(lab_namespaces(), Vec::<String>::new());
}

/// Two parents of weights 3 and 1, the second with a guarantee of its own, each with two children.
const NESTED: &str = "weir: 1
network:
  nic: 50Mb/s
  racks:
    r1: { uplink: 200Mb/s, machines: [s1, s2] }
    r2: { uplink: 200Mb/s, machines: [d1, d2] }
services:
  a:
    machine: { weight: 3 }
    services:
      x: { match: [ { protocol: tcp, port: 5001-5010 } ] }
      y: { match: [ { protocol: tcp, port: 5011-5020 } ] }
  b:
    machine: { min: 15Mb/s }
    services:
      x: { match: [ { protocol: tcp, port: 5021-5030 } ] }
      y: { match: [ { protocol: tcp, port: 5031-5040 } ], machine: { weight: 2 } }
";

/// Real TCP of all children at one machine gets what its plan commits, in a direction.
fn children_get_their_committed_rates(direction: Direction) {
    let directory = tempfile::tempdir().expect("a directory");
    let (rack, ends, machine) = match direction {
        Direction::Tx => ("r1", "from: s1, to: r2", "s1"),
        Direction::Rx => ("r2", "from: r1, to: d1", "d1"),
    };
    let flows: String =
        ["a/x", "a/y", "b/x", "b/y"].map(|service| format!("  - {{ service: {service}, {ends} }}\n")).concat();
    let text = format!(
        "scenario: 1\nname: nested\npolicy: policy.yaml\nduration: 15s\nenforcement: parley\ntraffic:\n{flows}\
         measure: {{ rack: {rack}, direction: {direction}, every: 1s }}\n"
    );
    fs::write(directory.path().join("policy.yaml"), NESTED).expect("written");
    let path = directory.path().join("nested.scenario.yaml");
    fs::write(&path, text).expect("written");
    let output = weir(&["lab", "--json"]).arg(&path).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (policy, _) = Policy::parse("policy.yaml", NESTED).expect("sound");
    let plan = MachinePlan::new(&policy, policy.network().machine_named(machine).expect("a machine"));
    for leaf in &plan.leaves {
        let service = policy.services().get(leaf.service).path();
        let rate = result["policy"]["phases"][0]["settled_bps"][service].as_f64().expect("a rate");
        let part = rate / leaf.shares[direction].committed.bps() as f64;
        assert!(
            (at_least(0.9)..=1.1).contains(&part),
            "{service}, {direction}: {rate} b/s, {part:.2} of its due\n{result}"
        );
    }
}

#[test]
fn children_of_two_parents_get_their_committed_rates_from_real_tcp() {
    if skipped("children of two parents") {
        return;
    }
    let _turn = one_at_a_time();
    Direction::ALL.into_iter().for_each(children_get_their_committed_rates);
    assert_eq!(lab_namespaces(), Vec::<String>::new());
}

#[test]
fn ctrl_c_keeps_measurements_and_removes_the_lab() {
    if skipped("Ctrl-C in the lab") {
        return;
    }
    let _turn = one_at_a_time();
    let directory = tempfile::tempdir().expect("a directory");
    let path = scenario(directory.path(), 120, "parley");
    let report = directory.path().join("report");
    let mut command = weir(&["lab"]);
    command.arg(&path).arg("--report").arg(&report).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("starts");
    wait_for("the traffic", 60, || lab_namespaces().len() == 6 && iperf_runs(&path));
    wait_for("three seconds of it", 10, {
        let mut looks = 0;
        move || {
            looks += 1;
            looks > 60
        }
    });
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().expect("ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("interrupted: the results cover"), "{errors}");
    assert_eq!(lab_namespaces(), Vec::<String>::new());
    let result = fs::read_to_string(report.join("result.json")).expect("what was measured is kept");
    assert!(result.contains("\"complete\": false"), "{result}");
}

#[test]
fn a_killed_lab_is_taken_down_by_its_janitor() {
    if skipped("a killed lab") {
        return;
    }
    let _turn = one_at_a_time();
    let directory = tempfile::tempdir().expect("a directory");
    let path = scenario(directory.path(), 120, "parley");
    let mut command = weir(&["lab"]);
    let mut child = command.arg(&path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    wait_for("the traffic", 60, || lab_namespaces().len() == 6 && iperf_runs(&path));
    signal(&child, libc::SIGKILL);
    child.wait().expect("ends");
    wait_for("the janitor", 20, || lab_namespaces().is_empty());
    wait_for("the end of iperf3", 10, || !iperf_runs(&path));
}

/// Whether an iperf3 client runs (of these tests: they take turns).
fn iperf_runs(_: &Path) -> bool {
    fs::read_dir("/proc").expect("/proc").flatten().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.starts_with(b"iperf3\0") && line.windows(8).any(|part| part == b"--client")
    })
}

/// Refused before the lab is built, also without root: a time after the traffic, names that the scenario does not have,
/// and faults of a scenario without tenants' control.
#[test]
fn faults_that_never_become_due_are_refused_before_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report");
    let tenants = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/qshare-fig4a-small.scenario.yaml");
    let without = scenario(directory.path(), 10, "parley");
    for (scenario, fault, cause, hint) in [
        (&tenants, "10000s=agent:a1", "comes after the traffic", "name an earlier time"),
        (&tenants, "13s=agent:storage", "no machine with an agent `storage`", "it has a1"),
        (&tenants, "13s=ports:lefft", "no switch `lefft`", "did you mean `left`?"),
        (&without, "1s=controller", "no control of tenants' queues", "enforcement: qshare"),
    ] {
        let mut command = weir(&["lab", "--fault", fault, "--report"]);
        let output = command.arg(&report).arg(scenario).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{fault}: {errors}");
        assert!(errors.contains(cause) && errors.contains(hint), "{fault}: {errors}");
        assert!(!errors.contains("building"), "{fault}: {errors}");
        assert!(!report.exists(), "{fault}");
    }
}
