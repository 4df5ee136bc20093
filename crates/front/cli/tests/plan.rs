//! `weir plan` from outside: published values, traces, the file that is written back.

mod program;

use program::{directory, file, json, run, shown, signal, text, weir};
use serde_json::Value;
use std::path::Path;

const POLICY: &str = "scenarios/plan.policy.yaml";
const TRACE: &str = "scenarios/plan.trace.csv";

fn policy() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(POLICY)).expect("the example")
}

fn planned(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = run(&[&["plan"], arguments, &["--json"]].concat());
    (output.status.code(), json(&output))
}

fn estimate<'a>(plan: &'a Value, service: usize, by: &str) -> &'a Value {
    let estimates = plan["services"][service]["estimates"].as_array().expect("estimates");
    estimates.iter().find(|estimate| estimate["by"] == by).expect("the method's estimate")
}

#[test]
fn the_example() {
    insta::assert_snapshot!("plan", shown(&["plan", POLICY]));
    insta::assert_snapshot!("plan_json", shown(&["plan", POLICY, "--at", "rack", "--json"]));
    let trace = ["plan", POLICY, "--trace", TRACE, "--trace-at", "8Gb/s,20Gb/s", "--by", "trace"];
    insta::assert_snapshot!("plan_trace", shown(&trace));
}

/// Table 3's bounds in nanoseconds, rounded up: (7.5 + 0.16) ms / (1 − ρ) for A and (7.5 + 0.8) ms / (1 − ρ) for B. The
/// paper prints 9.01, 15.32, 25.53, 38.30 and 9.77, 16.60, 27.67 ms; its last column is at 80 %.
#[test]
fn the_bounds_of_table_3() {
    for (load, a, b) in [
        ("15%", 9_011_765, 9_764_706),
        ("50%", 15_320_000, 16_600_000),
        ("70%", 25_533_334, 27_666_667),
        ("80%", 38_300_000, 41_500_000),
    ] {
        let (_, plan) = planned(&[POLICY, "--load", load]);
        assert_eq!(
            [estimate(&plan, 0, "bound"), estimate(&plan, 1, "bound")].map(|a| a["time_ns"].as_u64()),
            [Some(a), Some(b)]
        );
        assert_eq!(plan["services"][0]["sigma_bytes"], 9_375_000);
        assert_eq!(plan["services"][0]["capacity_bps"], 10_000_000_000u64);
    }
    // What the policy's own cap allows is 60 of 80 Gb/s; with the paper's worst case of 30
    // iterations σ is twice as large.
    let (code, plan) = planned(&[POLICY]);
    assert_eq!((code, estimate(&plan, 0, "bound")["time_ns"].as_u64()), (Some(1), Some(30_640_000)));
    let (_, plan) = planned(&[POLICY, "--load", "15%", "--iterations", "30"]);
    assert_eq!(estimate(&plan, 0, "bound")["time_ns"], 17_835_295);
    let (_, plan) = planned(&[POLICY, "--load", "15%", "--convergence", "15ms"]);
    assert_eq!(estimate(&plan, 0, "bound")["time_ns"], 17_835_295);
    // At the uplink itself the message is faster.
    let (_, plan) = planned(&[POLICY, "--load", "15%", "--at", "rack"]);
    assert_eq!(estimate(&plan, 0, "bound")["time_ns"], 8_847_059);
    // 200 senders' bursts of 64 kB are more than what converges: (12.8 + 0.2) MB at 10 Gb/s, 85 % of it free.
    let (_, plan) = planned(&[POLICY, "--load", "15%", "--senders", "200"]);
    assert_eq!(estimate(&plan, 0, "bound")["time_ns"], 12_235_295);
}

/// §2.1: 99 of 100 messages of 1 MB within 18.42 ms at 10 Gb/s and 80 %; and what keeps 20 ms.
#[test]
fn the_m_m_1_queue() {
    let directory = directory();
    let policy = file(directory.path(), "p.yaml", &policy().replace("p99: 30ms", "p99: 20ms"));
    let (code, plan) = planned(&[&policy, "--load", "80%", "--by", "mm1"]);
    let b = estimate(&plan, 1, "mm1");
    assert_eq!(b["time_ns"], 18_420_681);
    assert_eq!(b["largest_load"], 0.815_793_192);
    assert_eq!(b["smallest_capacity_bps"], 9_210_340_372u64);
    assert_eq!(b["smallest_capacity_for_traffic_bps"], 9_842_068_075u64);
    assert_eq!(code, Some(0));
}

/// A row holds one thing for all methods: at 75 % the trace needs 6.181 ms / 25 ms of 10 Gb/s, as M/M/1 and the bound
/// divide too; for the 7.5 Gb/s of these 75 % M/M/1 needs 7.5 Gb/s + ln 100 · 1.6 Mb / 25 ms, and the bound
/// (1.6 Mb + 7.5 Gb/s · 25 ms) / 17.5 ms. The trace as it is offers 6.097 Gb/s, and needs 6.678 Gb/s.
#[test]
fn smallest_capacities_hold_the_load_or_the_traffic() {
    let (_, plan) = planned(&[POLICY, "--trace", TRACE]);
    let a = &plan["services"][0];
    assert_eq!((a["peak_load"].as_f64(), a["traffic_bps"].as_u64()), (Some(0.75), Some(7_500_000_000)));
    let capacities = |by: &str| {
        let estimate = estimate(&plan, 0, by);
        ["smallest_capacity_bps", "smallest_capacity_for_traffic_bps"].map(|key| estimate[key].as_u64())
    };
    assert_eq!(capacities("mm1"), [Some(1_178_923_568), Some(7_794_730_892)]);
    assert_eq!(capacities("bound"), [None, Some(10_805_714_286)]);
    let time = estimate(&plan, 0, "trace")["time_ns"].as_f64().expect("a time");
    let [at, for_traffic] = capacities("trace").map(|bps| bps.expect("a capacity") as f64);
    assert!((at - time / 25e6 * 1e10).abs() < 1e3, "{at} for {time} ns");
    // The same load and the same traffic at each of these capacities.
    for (capacity, load) in [(at, 0.75), (for_traffic, 7.5e9 / for_traffic)] {
        let (capacity, load) = (format!("{capacity}b/s"), format!("{:.4}%", load * 100.0));
        let (_, again) = planned(&[POLICY, "--trace", TRACE, "--capacity", &capacity, "--load", &load]);
        let time = estimate(&again, 0, "trace")["time_ns"].as_f64().expect("a time");
        assert!((time / 25e6 - 1.0).abs() < 1e-4, "{time} ns at {capacity} and {load}");
    }
    assert_eq!(a["trace_as_it_is_smallest"]["time_ns"].as_u64().map(|nanos| nanos.div_ceil(1_000)), Some(25_000));
    assert_eq!(a["trace_as_it_is_smallest"]["capacity_bps"].as_u64().map(|bps| bps / 1_000_000), Some(6_677));
}

/// A message each million seconds is 1 b/s of 10 Gb/s, and not 100 %; the plan shows the trace's span and rate. A trace
/// faster than its queue has a load above 100 %.
#[test]
fn a_trace_has_its_span_and_its_load() {
    let directory = directory();
    let file = |name: &str, content: &str| file(directory.path(), name, content);
    let rare = file("rare.csv", "time,size\n0,125000\n1000000,125000\n");
    let (_, plan) = planned(&[POLICY, "--trace", &rare]);
    assert_eq!(plan["services"][0]["trace_as_it_is"][0]["load"], 1e-10);
    let trace =
        ["messages", "bytes", "span_ns", "longest_gap_ns", "offered_bps"].map(|key| plan["trace"][key].as_u64());
    assert_eq!(trace, [2, 250_000, 1_000_000_000_000_000, 1_000_000_000_000_000, 1].map(Some));
    let shown = text(&run(&["plan", POLICY, "--trace", &rare]).stdout);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let summary = "rare.csv: 2 messages, 250 kB in 12 days; 1 b/s on average, the longest gap 12 days times are read";
    assert!(shown.contains(summary), "{shown}");
    assert!(shown.contains("10 Gb/s < 0.01 % 100 µs") && !shown.contains("100 %"), "{shown}");

    // The same trace with its times in nanoseconds, and quotes around everything: 1 Gb/s, of 800 Mb/s.
    let fast = file("fast.csv", "\"size\",\"start_ns\"\n\"125000\",\"0\"\n\"125000\",\"1000000\"\n");
    let (_, plan) = planned(&[POLICY, "--trace", &fast, "--trace-at", "800Mb/s"]);
    let loads = [0, 1].map(|index: usize| plan["services"][0]["trace_as_it_is"][index]["load"].as_f64());
    assert_eq!(loads, [Some(0.1), Some(1.25)]);
    let shown = text(&run(&["plan", POLICY, "--trace", &fast, "--trace-at", "800Mb/s"]).stdout);
    assert!(shown.contains("250 kB in 1 ms; 1 Gb/s on average") && shown.contains("  125 %  "), "{shown}");
    assert!(!shown.contains("times are read"), "{shown}");
}

/// What `--write` finds, written, makes the policy keep its targets; everything else in the file stays.
#[test]
fn written_back() {
    let directory = directory();
    let path = file(directory.path(), "policy.yaml", &policy());
    let link = directory.path().join("link.yaml");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    let mode =
        |path: &str| std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).expect("it").permissions());
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).expect("its mode");

    assert_eq!(run(&["plan", &path]).status.code(), Some(1));
    let output = run(&["plan", &link.display().to_string(), "--write"]);
    insta::assert_snapshot!(
        "plan_write",
        text(&output.stdout)
            .lines()
            .rev()
            .take(5)
            .collect::<Vec<_>>()
            .join("\n")
            .replace(&directory.path().display().to_string(), "DIR")
    );
    assert_eq!((output.status.code(), mode(&path)), (Some(0), 0o100_640));
    assert!(std::fs::symlink_metadata(&link).expect("it").is_symlink());
    let written = std::fs::read_to_string(&path).expect("the file");
    assert_eq!(written, policy().replace("rack: 60Gb/s", "rack: 55.48Gb/s"));
    assert_eq!(run(&["plan", &path]).status.code(), Some(0));
    // A second time there is nothing to change, and the file is left alone.
    let again = run(&["plan", &path, "--write"]);
    assert!(again.status.success() && text(&again.stdout).contains("the cap is there already"));
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), written);
    // At another level another key is added. Messages may then wait at hosts, so the targets are not
    // proven.
    let machine = run(&["plan", &path, "--at", "machine", "--write=machine"]);
    assert_eq!(machine.status.code(), Some(1));
    assert!(text(&machine.stdout).contains("with it no load is above 69.36 %, but not every target is proven"));
    let expected = written.replace("  rack: 55.48Gb/s", "  machine: 6.936Gb/s\n  rack: 55.48Gb/s");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), expected);
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 2, "nothing is left beside it");
}

#[test]
fn refusals() {
    let directory = directory();
    let file = |name: &str, content: &str| file(directory.path(), name, content);
    let none = file("none.yaml", &policy().replace("    latency:", "    # latency:"));
    let tight = file("tight.yaml", &policy().replace("p99: 25ms", "p99: 5ms"));
    let guaranteed = file("guaranteed.yaml", &policy().replace("rack: { min: 30Gb/s }", "rack: { min: 58Gb/s }"));
    let one = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] } } }\nservices: \
               { a: { match: [ { port: 1 } ], latency: { message: 1MB, p99: 50ms } } }\n";
    let one = file("one.yaml", one);
    let unit = file("unit.csv", "time,size\n0,1000\n1ms,1000\n");
    let service = file("service.csv", "time,size,service\n0,1000,a\n1,1000,aa\n");
    let missing = file("missing.csv", "time,size,service\n0,1000,a\n1,1000,a\n");
    let cases: &[&[&str]] = &[
        &["plan", &none],
        &["plan", &tight, "--write"],
        &["plan", &guaranteed, "--write"],
        &["plan", &one, "--write=fabric"],
        &["plan", "-", "--write"],
        &["plan", "-", "--trace", "-"],
        &["plan", POLICY, "--by", "trace"],
        &["plan", POLICY, "--trace", "no-such-file.csv"],
        &["plan", POLICY, "--trace", &unit],
        &["plan", POLICY, "--trace", &service],
        &["plan", POLICY, "--trace", &missing],
        &["plan", POLICY, "--load", "100%"],
        &["plan", POLICY, "--at", "racks"],
        &["plan", POLICY, "--capacity", "10"],
        &["plan", POLICY, "--iterations", "0"],
    ];
    let mut all = String::new();
    for arguments in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        all.push_str(&format!("$ weir {}\n{}\n", arguments.join(" "), text(&output.stderr)));
    }
    insta::assert_snapshot!(all.replace(&directory.path().display().to_string(), "DIR"));
    // A refused cap leaves the file as it was.
    let kept = std::fs::read_to_string(&guaranteed).expect("the file");
    assert_eq!(kept, policy().replace("rack: { min: 30Gb/s }", "rack: { min: 58Gb/s }"));
}

/// Without any cap nothing limits the load, and the plan names the missing cap.
#[test]
fn a_policy_without_caps() {
    let directory = directory();
    let path = file(directory.path(), "policy.yaml", policy().split("caps:").next().expect("a head"));
    let output = run(&["plan", &path]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stdout);
    assert!(printed.contains("nothing limits it: there is no caps.rack"), "{printed}");
    assert!(printed.contains("A load of at most 69.36 % keeps every target: caps: { rack: 55.48Gb/s }"), "{printed}");
    assert!(run(&["plan", &path, "--write"]).status.success());
    let written = std::fs::read_to_string(&path).expect("the file");
    assert_eq!(written, policy().split("caps:").next().expect("a head").to_owned() + "caps: { rack: 55.48Gb/s }\n");
}

#[test]
fn reports() {
    let directory = directory();
    let out = directory.path().join("out").display().to_string();
    let output = run(&["plan", POLICY, "--trace", TRACE, "--report", &out]);
    assert!(text(&output.stderr).ends_with(&format!("report: {out}/report.html\n")), "{}", text(&output.stderr));
    let files = program::files(Path::new(&out));
    assert_eq!(files.keys().collect::<Vec<_>>(), ["a.svg", "b.svg", "plan.json", "report.html"]);
    let page = text(&files["report.html"]);
    for part in ["burst bound", "M/M/1, 99th percentile", "trace, 99th percentile", "planned: 75 %", "largest: 69.36 %"]
    {
        assert!(page.contains(part) && text(&files["a.svg"]).contains(part), "{part}");
    }
    assert!(page.contains(&format!("weir plan {POLICY} --trace {TRACE}")));
    let plan: Value = serde_json::from_slice(&files["plan.json"]).expect("JSON");
    assert_eq!(plan["services"][0]["trace_curve"].as_array().expect("a curve").len(), 20);
    assert_eq!(run(&["plan", POLICY, "--report", &out]).status.code(), Some(2), "it has files");
    assert_eq!(run(&["plan", POLICY, "--report", &out, "--force"]).status.code(), Some(1));
}

/// A service that a machine holds below its interface is planned for there, unless whole messages pass its limiter at
/// once. Of services that are nested in one with a target, all messages count.
#[test]
fn limits_and_nesting() {
    let directory = directory();
    let policy = |shaper: &str| {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [m1, m2] }} }}, switches: \
             {{ buffer: 5MB }} }}\nservices:\n  \
             p:\n    latency: {{ message: 100kB, p99: 50ms }}\n    services:\n      \
             a: {{ match: [ {{ protocol: tcp, port: 1 }} ], machine: {{ max: 1Gb/s }}, latency: {{ message: 100kB, \
             p99: 50ms }}{shaper} }}\n      \
             b: {{ match: [ {{ protocol: tcp, port: 2 }} ] }}\ncaps: {{ machine: 5Gb/s, rack: 5Gb/s }}\n"
        );
        file(directory.path(), "policy.yaml", &text)
    };
    let (code, plan) = planned(&[&policy("")]);
    assert_eq!(code, Some(1));
    for service in plan["services"].as_array().expect("services") {
        let reasons = service["unproven"].as_array().expect("reasons");
        let shown: Vec<_> =
            reasons.iter().map(|reason| reason.as_str().unwrap_or_default().split(':').next()).collect();
        let expected =
            ["the machine cap of 5 Gb/s limits each host", "its maxima (1 Gb/s at the machine) limit it at each host"];
        assert_eq!(shown, expected.map(Some), "{service}");
    }
    let capacity = |plan: &Value| [0, 1].map(|index: usize| plan["services"][index]["capacity_bps"].as_u64());
    assert_eq!(capacity(&plan), [Some(10_000_000_000), Some(1_000_000_000)]);
    assert_eq!(plan["services"][1]["capacity_from"], "its own maximum at a machine");
    let (_, plan) = planned(&[&policy(", shaper: { burst: 100kB }")]);
    assert_eq!(capacity(&plan), [Some(10_000_000_000); 2]);

    // 10 kB, 100 kB and 1 MB, far apart: 8 µs, 80 µs and 800 µs.
    let trace = file(directory.path(), "trace.csv", "time,size,service\n0,10000,p/a\n1,100000,p/b\n2,1000000,\n");
    let (_, plan) = planned(&[&policy(", shaper: { burst: 100kB }"), "--trace", &trace]);
    let time = |index: usize| plan["services"][index]["trace_as_it_is"][0]["time_ns"].as_u64();
    assert_eq!([time(0), time(1)], [Some(80_000), Some(8_000)]);
}

/// Where the slowest interface has 100 Mb/s, meters run every 20 ms unless a service has its own interval. 15 × 20 ms =
/// 300 ms and 160 kB at 100 Mb/s make 312.8 ms / (1 − 0.5); with 500 µs written it is (7.5 + 12.8) ms / (1 − 0.5). A
/// service with others nested in it is as slow as the slowest of those.
#[test]
fn slow_interfaces_have_long_intervals() {
    let directory = directory();
    let policy = |shaper: &str| {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 100Mb/s, racks: {{ r1: {{ uplink: 1Gb/s, machines: [m1, m2] }} }}, switches: \
             {{ buffer: 2MB }} }}\nservices:\n  \
             p:\n    latency: {{ message: 160kB, p99: 100ms }}\n    services:\n      \
             a: {{ match: [ {{ protocol: tcp, port: 1 }} ], shaper: {{ interval: 500us }} }}\n      \
             b: {{ match: [ {{ protocol: tcp, port: 2 }} ]{shaper} }}\ncaps: {{ rack: 100Mb/s }}\n"
        );
        file(directory.path(), "policy.yaml", &text)
    };
    let (code, plan) = planned(&[&policy("")]);
    assert_eq!((code, estimate(&plan, 0, "bound")["time_ns"].as_u64()), (Some(1), Some(625_600_000)));
    assert_eq!(plan["services"][0]["sigma_bytes"], 3_750_000);
    let (code, plan) = planned(&[&policy(", shaper: { interval: 500us }")]);
    assert_eq!((code, estimate(&plan, 0, "bound")["time_ns"].as_u64()), (Some(0), Some(40_600_000)));
}

/// docs/how-to/planning.md names what the program prints.
#[test]
fn the_guide() {
    const GUIDE: &str = include_str!("../../../../docs/how-to/planning.md");
    let trace: String = include_str!("../../../../scenarios/plan.trace.csv")
        .lines()
        .skip(1)
        .take(3)
        .map(|l| l.to_owned() + "\n")
        .collect();
    assert!(GUIDE.contains(&trace), "{trace}");
    let at_80 = text(&run(&["plan", POLICY, "--load", "80%"]).stdout);
    let at_80 = at_80.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(at_80.contains("as given, instead of the policy's 75 %"), "{at_80}");
    assert!(at_80.contains("38.3 ms") && GUIDE.contains("burst bound of a: 38.3 ms"), "{at_80}");
    let plain = text(&run(&["plan", POLICY]).stdout);
    assert!(plain.contains("A load of at most 69.36 %") && GUIDE.contains("largest load of 69.36 %"), "{plain}");
}

/// Ctrl-C while the trace is read: 130, and nothing is printed or written.
#[test]
fn interrupted() {
    let directory = directory();
    let path = file(directory.path(), "policy.yaml", &policy());
    let fifo = directory.path().join("trace");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    let mut child = weir(&["plan", &path, "--write", "--trace", &fifo.display().to_string()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    // Opening waits for the reader, which listens to signals by then; the first rows wait for the signal.
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&fifo).expect("the reader");
    signal(&child, libc::SIGINT);
    let rows: String = (0..100_000).map(|i| format!("{i},100\n")).collect();
    // The program stops reading somewhere in these.
    let _ = std::io::Write::write_all(&mut pipe, rows.as_bytes());
    drop(pipe);
    let mut errors = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut errors).expect("text");
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(130), String::new()), "{errors}");
    assert!(errors.contains("interrupted: the plan was not finished; nothing was written"), "{errors}");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), policy());
}
