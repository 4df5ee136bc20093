//! `weir plan` beside the simulator: a target is kept only where the premises of its bound hold.

mod program;

use program::{directory, file, json, run, text};
use serde_json::Value;
use std::path::Path;

const POLICY: &str = include_str!("../../../../scenarios/latency-udp.policy.yaml");
const SCENARIO: &str = include_str!("../../../../scenarios/latency-udp.scenario.yaml");
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
    edited(
        &[("buffer: 256kB", &format!("buffer: {buffer}")), ("[ { port: 81 } ]", &format!("[ {{ port: 81 }} ]{bulk}"))],
        &[("buffer: 256kB", &format!("buffer: {buffer}")), ("200ms", min_rto)],
    )
}

/// The example with each first text replaced by the second one.
fn edited(policy: &[(&str, &str)], scenario: &[(&str, &str)]) -> Case {
    let edit = |text: &str, edits: &[(&str, &str)]| {
        edits.iter().fold(text.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        })
    };
    written(&edit(POLICY, policy), &edit(SCENARIO, scenario))
}

fn written(policy: &str, scenario: &str) -> Case {
    let directory = directory();
    let policy = file(directory.path(), "latency-udp.policy.yaml", policy);
    let scenario = file(directory.path(), "latency-udp.scenario.yaml", scenario);
    Case { directory, policy, scenario }
}

/// 367.5 Mb/s with the ceilings' excess: less than half of the planned load of a port, which both
/// racks can reach.
const MAXIMUM: &str = "\n    rack: { max: 300Mb/s }";
/// Buffers that hold σ and the message.
const ENOUGH: (&str, &str) = ("buffer: 256kB", "buffer: 395kB");
/// The end of the line of the example's bulk traffic. Without it that is TCP.
const UDP_ON_OFF: &str = ", transport: { protocol: udp, on: 1s, off: 1s } }";

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
        let result = std::fs::read_to_string(Path::new(&out).join("result.json")).expect("a result");
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

/// 256 kB do not hold σ, and UDP overloads uplinks and ports: the plan keeps nothing, and retransmission
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
        assert_eq!(reasons.len(), shortfalls + 2, "{reasons:?}");
        for (reason, port) in reasons[shortfalls..].iter().zip(["a rack's uplink", "a machine's interface"]) {
            let offered = format!("services with UDP or without a target (bulk) can offer 8 Gb/s to {port} of 1 Gb/s");
            assert!(reason.starts_with(&offered), "{reason}");
        }
        let shortest = if min_rto == "10ms" { 10_000_000 } else { 200_000_000 };
        let timers = &service["retransmission"];
        assert_eq!((&timers["from"], &timers["shortest_ns"]), (&"the scenario's".into(), &shortest.into()));
        assert_eq!(timers["one_timeout_ns"], BOUND + shortest);
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

/// TCP without a target fills what it finds. Flows that stay fill 4 MB, whose 32 ms at 1 Gb/s are longer than timers
/// of 10 ms. Flows that begin again and again lose packets, and make messages lose packets, at a buffer of what the
/// bound needs. With a maximum there are no losses and no such queue, and no timer expires.
#[test]
fn tcp_without_a_target_breaks_the_bound_and_the_plan_refuses_it() {
    let again: String = (0..8)
        .map(|second| {
            format!(
                "  - {{ service: bulk, name: bulk{second}, from: left, to: right, start: {second}s, stop: \
                 {second}.5s }}\n"
            )
        })
        .collect();
    let line = SCENARIO.lines().find(|line| line.contains("service: bulk")).expect("the bulk traffic");
    let deep = ("buffer: 256kB", "buffer: 4MB");
    let (stay, repeat) = ((UDP_ON_OFF, " }"), (line, again.as_str()));
    for (buffer, scenario, timer) in [(deep, stay, "10ms"), (deep, stay, "200ms"), (ENOUGH, repeat, "200ms")] {
        for (bulk, expected) in [("", "unproven"), (MAXIMUM, "kept")] {
            let tcp = format!("[ {{ protocol: tcp, port: 81 }} ]{bulk}");
            let case = edited(&[buffer, ("[ { port: 81 } ]", &tcp)], &[buffer, scenario, ("200ms", timer)]);
            let (_, service) = case.planned(&[]);
            assert_eq!(service["verdict"], expected, "{service}");
            let (p99, timeouts) = case.simulated();
            assert_eq!(p99 > BOUND, bulk.is_empty(), "{p99} ns, {timeouts} timeouts");
            // The queue of 4 MB alone delays no message by 200 ms.
            if buffer != deep || timer == "10ms" || !bulk.is_empty() {
                assert_eq!(timeouts > 0, bulk.is_empty(), "{timer}: {timeouts} timeouts");
            }
        }
    }
}

/// Hosts that are limited to 90 Mb/s cannot overload an uplink, but messages at their guaranteed rate
/// wait at these limits; and so they do under a maximum of their own service of twice their rate.
#[test]
fn messages_wait_at_limiters_of_hosts_and_the_plan_refuses_it() {
    let cap = ("rack: 750Mb/s", "rack: 750Mb/s\n  machine: 90Mb/s");
    let bulk = format!("[ {{ port: 81 }} ]{MAXIMUM}");
    let bounded = ("[ { port: 81 } ]", bulk.as_str());
    let own = ("rack: { min: 200Mb/s }", "rack: { min: 200Mb/s, max: 500Mb/s }");
    for (policy, all, reason) in [
        (&[ENOUGH, cap][..], 2, "the machine cap of 90 Mb/s limits each host: messages may wait at these limiters"),
        (&[ENOUGH, bounded, own], 1, "its maxima (500 Mb/s at the rack) limit it at each host: messages may wait"),
    ] {
        let case = edited(policy, &[ENOUGH, ("rate: 100Mb/s", "rate: 200Mb/s")]);
        let (code, service) = case.planned(&[]);
        assert_eq!((code, service["verdict"].as_str()), (Some(1), Some("unproven")));
        let reasons = reasons(&service);
        assert!(reasons.len() == all && reasons[all - 1].starts_with(reason), "{reasons:?}");
        let (p99, _) = case.simulated();
        assert!(p99 > BOUND, "{reason}: {p99} ns");
        // Waiting alone needs no timer.
        let shown = text(&run(&["plan", &case.policy]).stdout);
        assert_eq!(shown.contains("retransmission timer"), all > 1, "{shown}");
    }
}

/// Eight neighbours that begin to send UDP to one machine stay below the uplinks' peak load, and
/// overload the machine's port until its receive meters limit them.
#[test]
fn neighbours_overload_a_port_and_the_plan_refuses_it() {
    let policy = |bulk: &str| {
        format!(
            "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks: {{ left: {{ uplink: 10Gb/s, machines: [\"l[1-9]\"] }}, right: \
             {{ uplink: 10Gb/s, machines: [\"r[1-9]\"] }} }}\n  switches: {{ buffer: 3770kB }}\nservices:\n  web: {{ \
             match: [ {{ protocol: tcp, port: 80 }} ], latency: {{ message: 20kB, p99: 20ms }}, shaper: {{ interval: \
             200us }} }}\n  bulk: {{ match: [ {{ port: 81 }} ], rack: {{ max: {bulk} }} }}\ncaps: {{ rack: 6.2Gb/s }}\n"
        )
    };
    let scenario = "scenario: 1\nname: port\npolicy: latency-udp.policy.yaml\nduration: 4s\nenforcement: \
                    parley\nlinks: { delay: 10us, buffer: 3770kB }\ntransport: { protocol: cubic, min-rto: \
                    200ms }\ntraffic:\n  - { service: web, kind: random, name: web, from: right, to: l1, \
                    sizes: 20kB, rate: 100Mb/s }\n  - { service: bulk, name: bulk, from: \"l[2-9]\", to: l1, \
                    start: 1s, transport: { protocol: udp, on: 100ms, off: 100ms } }\nmeasure: { rack: left, \
                    direction: tx, every: 100ms }\n";
    for (bulk, expected) in [("5Gb/s", "unproven"), ("280Mb/s", "kept")] {
        let case = written(&policy(bulk), scenario);
        let (_, service) = case.planned(&[]);
        assert_eq!(service["verdict"], expected, "{service}");
        let bound = service["estimates"][1]["time_ns"].as_u64().expect("a bound");
        let overloads = service["overloads"].as_array().expect("overloads");
        let at: Vec<_> = overloads.iter().map(|of| (of["point"].as_str(), of["until_ns"].as_u64())).collect();
        let port = [(Some("machine"), None)];
        assert_eq!(at, if expected == "kept" { &[][..] } else { &port[..] });
        let (p99, _) = case.simulated();
        assert_eq!(p99 > bound, expected == "unproven", "{p99} ns, {bound} ns");
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
    // Without a scenario the timer is Linux's: one timeout of it, and two.
    let timers = &service["retransmission"];
    assert_eq!(timers["from"], "Linux's default");
    assert_eq!(
        (timers["one_timeout_ns"].as_u64(), timers["two_timeouts_ns"].as_u64()),
        (Some(212_640_000), Some(612_640_000))
    );
    let (_, service) = small.planned(&["--min-rto", "10ms"]);
    assert_eq!(service["retransmission"]["two_timeouts_ns"], 42_640_000);

    let unknown = POLICY
        .replace("  switches:", "  # switches:")
        .replace("match: [ { port: 81 } ]", &format!("match: [ {{ protocol: tcp, port: 81 }} ]{MAXIMUM}"));
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
