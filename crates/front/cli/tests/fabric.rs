//! `weir certificate` and `weir fabric` as an operator would run them, on loopback. No root is needed.

mod common;
mod fabric_setup;

use common::{signal, wait_for};
use fabric_setup::{Setup, gbps, next, of_a, policy};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_fabric::SessionState;

/// Where no etcd is: port 1 is reserved and no server listens there.
const ALONE_AMONG_SEVERAL: [&str; 4] = ["--etcd", "http://127.0.0.1:1", "--advertise", "https://127.0.0.1:30567"];

#[test]
fn limits_return_after_a_restart_with_a_higher_epoch() {
    let setup = Setup::new();
    let broker = setup.start("127.0.0.1:0");
    let url = broker.url();
    let (mut one, two) = (setup.session("m1", &[&url]), setup.session("m3", &[&url]));
    one.report(setup.report("m1", 1, 8));
    two.report(setup.report("m3", 1, 8));
    wait_for("the limit", 20, || of_a(&next(&mut one)) == gbps(5));
    let before = next(&mut one);
    // Killed without a message, and started again at the same address.
    let (code, _) = broker.end(libc::SIGKILL);
    assert_eq!(code, None);
    wait_for("the session to notice", 20, || !matches!(one.status().state, SessionState::Up(_)));
    let listen = url.trim_start_matches("https://").to_owned();
    let broker = setup.start(&listen);
    one.report(setup.report("m1", 2, 8));
    two.report(setup.report("m3", 2, 8));
    wait_for("the limit again", 20, || of_a(&next(&mut one)) == gbps(5));
    let after = next(&mut one);
    assert!(after.epoch > before.epoch, "{} after {}", after.epoch, before.epoch);
    let (code, output) = broker.end(libc::SIGTERM);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("fabric broker ready: 2 racks, listening on 127.0.0.1:"), "{output}");
    assert!(!setup.at("fabric.json").exists(), "a status does not outlive its broker");
}

#[test]
fn sighup_takes_a_policy_whole_or_not_at_all() {
    let setup = Setup::new();
    let broker = setup.start("127.0.0.1:0");
    let mut session = setup.session("m1", &[&broker.url()]);
    session.report(setup.report("m1", 1, 8));
    wait_for("the first limits", 20, || next(&mut session).policy == setup.report("m1", 1, 8).policy);
    let epoch = |status: &Value| status["epoch"].as_u64().expect("an epoch");
    let before = broker.status().expect("a status");
    // A policy with a mistake: refused and reported, and nothing changes.
    setup.write_policy(&policy("10Gb/s").replace("fabric", "fabrik"));
    signal(broker.child(), libc::SIGHUP);
    wait_for("the refusal", 20, || broker.status().is_some_and(|status| status["policy_refused"].is_string()));
    let refused = broker.status().expect("a status");
    let reason = refused["policy_refused"].as_str().expect("a reason");
    assert!(reason.contains("fabrik") && reason.contains("policy.yaml:8:47"), "{reason}");
    assert_eq!((&refused["policy"], epoch(&refused)), (&before["policy"], epoch(&before)));
    // Another value: taken, what was reported stays known.
    setup.write_policy(&policy("4Gb/s"));
    signal(broker.child(), libc::SIGHUP);
    wait_for("the policy", 20, || broker.status().is_some_and(|status| status["policy"] != before["policy"]));
    let taken = broker.status().expect("a status");
    assert!(taken["policy_refused"].is_null());
    assert_eq!(epoch(&taken), epoch(&before));
    let digest = setup.report("m1", 2, 8).policy;
    session.report(setup.report("m1", 2, 8));
    wait_for("its limit", 20, || {
        let limits = next(&mut session);
        limits.policy == digest && of_a(&limits) == gbps(4)
    });
    // Another rack: the broker begins anew with a higher epoch, and open sessions stay.
    let third = "    r2: { uplink: 10Gb/s, machines: [m3, m4] }\n    r0: { uplink: 10Gb/s, machines: [m5] }\n";
    let text = policy("4Gb/s").replace("    r2: { uplink: 10Gb/s, machines: [m3, m4] }\n", third);
    setup.write_policy(&text);
    signal(broker.child(), libc::SIGHUP);
    wait_for("the third rack", 20, || broker.status().is_some_and(|status| status["racks"] == 3));
    assert!(epoch(&broker.status().expect("a status")) > epoch(&before));
    let report = setup.report("m1", 3, 8);
    assert_ne!(report.machine.0, 0, "r0's machine is before it now");
    session.report(report);
    wait_for("its limit", 20, || of_a(&next(&mut session)) == gbps(4));
    assert_eq!(session.status().streams, 1, "one stream all the time");
    // Certificates that cannot be read are refused by themselves, and taken when they can.
    let (key, away) = (setup.at("pki/fabric-127.0.0.1.key"), setup.at("pki/away.key"));
    fs::rename(&key, &away).expect("renamed");
    signal(broker.child(), libc::SIGHUP);
    let refused =
        |status: &Value| status["certificate_refused"].as_str().is_some_and(|why| why.contains("127.0.0.1.key"));
    wait_for("the refusal", 20, || broker.status().is_some_and(|status| refused(&status)));
    assert!(broker.status().expect("a status")["policy_refused"].is_null());
    fs::rename(&away, &key).expect("renamed");
    signal(broker.child(), libc::SIGHUP);
    wait_for("the certificates", 20, || broker.status().is_some_and(|status| !refused(&status)));
    let (_, output) = broker.end(libc::SIGINT);
    assert!(output.contains("the policy is not taken, the old one stays"), "{output}");
}

#[test]
fn among_several_sighup_checks_the_name_and_orders_nothing_without_etcd() {
    let setup = Setup::new();
    let mut command = setup.fabric("127.0.0.1:0");
    command.args(ALONE_AMONG_SEVERAL);
    let broker = setup.start_as("fabric", command);
    let status = || broker.status().expect("a status");
    let before = status();
    assert!(before["policy_refused"].is_null() && before["certificate_refused"].is_null());
    // Valid, and of another host; there is no etcd.
    setup.certificate_of("127.0.0.1", &["fabric.example.org"], 2);
    setup.write_policy(&policy("4Gb/s"));
    let digest = format!("{:016x}", setup.report("m1", 1, 8).policy);
    signal(broker.child(), libc::SIGHUP);
    wait_for("the refusal", 20, || status()["certificate_refused"].is_string());
    let refused = status();
    let why = refused["certificate_refused"].as_str().expect("a reason");
    assert!(why.contains("does not name `127.0.0.1`: it is for fabric.example.org; `weir certificate"), "{why}");
    assert_eq!(refused["certificate_ends"], before["certificate_ends"]);
    let why = refused["policy_refused"].as_str().expect("a reason");
    assert_eq!(why, format!("{digest}: etcd is not reached; reload again when it is"));
    assert_eq!(refused["policy"], before["policy"]);
    setup.certificate_of("127.0.0.1", &["127.0.0.1"], 2);
    signal(broker.child(), libc::SIGHUP);
    wait_for("the certificate", 20, || status()["certificate_refused"].is_null());
    assert!(status()["policy_refused"].is_string(), "there is no etcd yet");
    let large = format!("{}# {}\n", policy("4Gb/s"), "x".repeat(1_600_000));
    setup.write_policy(&large);
    signal(broker.child(), libc::SIGHUP);
    let too_large = |why: &str| why.contains("etcd takes 1568768 at most; comments");
    wait_for("the other refusal", 20, || status()["policy_refused"].as_str().is_some_and(too_large));
    let (_, output) = broker.end(libc::SIGTERM);
    assert!(!output.contains("is handed to etcd"), "{output}");
}

#[test]
fn a_fabric_broker_takes_as_many_descriptors_as_it_may() {
    let setup = Setup::new();
    let plain = setup.fabric("127.0.0.1:0");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 64; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let broker = setup.start_as("fabric", command);
    let limits = fs::read_to_string(format!("/proc/{}/limits", broker.child().id())).expect("limits");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a line");
    let [soft, hard] = [0, 1].map(|index| line.split_whitespace().nth(index).expect("two numbers"));
    assert!(soft == hard && soft != "64", "{line}");
}

#[test]
fn another_fabric_broker_receives_the_newest_report_again() {
    let setup = Setup::new();
    // A report older than a period is not sent again, so a period must be longer than a busy host needs to connect.
    let period = "4s";
    let start = |name| setup.start_as(name, setup.fabric_timed(name, "127.0.0.1:0", "policy.yaml", period));
    let (one, two) = (start("one"), start("two"));
    let urls = [one.url(), two.url()];
    let mut session = setup.session_timed("m1", &[&urls[0], &urls[1]], period);
    // The other rack is known to the second one.
    let other = setup.session_timed("m3", &[&urls[1]], period);
    other.report(setup.report("m3", 1, 8));
    wait_for("the other rack", 20, || other.status().reports_sent == 1);
    // One report, and then none.
    session.report(setup.report("m1", 1, 8));
    wait_for("the report", 20, || session.status().reports_sent == 1);
    assert_eq!(session.status().state, SessionState::Up(urls[0].clone()));
    one.end(libc::SIGKILL);
    let first = next(&mut session);
    let epoch = two.status().expect("a status")["epoch"].as_u64();
    assert_eq!(Some(first.epoch), epoch, "of the second one");
    assert_eq!(of_a(&first), gbps(5), "which has the report that the first received");
    let status = session.status();
    assert_eq!((status.reports_sent, status.streams, status.state), (2, 2, SessionState::Up(urls[1].clone())));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of real certificates waits until one ends")]
fn invalid_options_are_refused_before_listening() {
    let setup = Setup::new();
    let refused = |change: &dyn Fn(&mut Command)| {
        let mut command = setup.fabric("127.0.0.1:0");
        change(&mut command);
        let output = command.output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "refused");
        String::from_utf8(output.stderr).expect("text")
    };
    let output = refused(&|command| {
        command.args(["--timeout", "300ms"]);
    });
    assert!(output.contains("--timeout 300 ms is not longer than --period 400 ms"), "{output}");
    fs::rename(setup.at("pki/fabric-127.0.0.1.key"), setup.at("pki/away.key")).expect("renamed");
    let output = refused(&|_| {});
    assert!(
        output.contains("fabric-127.0.0.1.key: No such file") && output.contains("hint: `weir certificate"),
        "{output}"
    );
    fs::copy(setup.at("pki/machine-m1.key"), setup.at("pki/fabric-127.0.0.1.key")).expect("copied");
    let output = refused(&|_| {});
    assert!(output.contains("fabric-127.0.0.1.pem cannot be used"), "{output}");
    // A certificate that is for clients only, and one that has ended.
    fs::copy(setup.at("pki/machine-m1.pem"), setup.at("pki/fabric-127.0.0.1.pem")).expect("copied");
    let output = refused(&|_| {});
    assert!(output.contains("fabric-127.0.0.1.pem is not for server authentication"), "{output}");
    assert!(output.contains("hint: a fabric broker's certificate is for server authentication"), "{output}");
    setup.certificate_of("127.0.0.1", &["127.0.0.1"], 0);
    std::thread::sleep(Duration::from_millis(2100));
    let output = refused(&|_| {});
    assert!(output.contains("fabric-127.0.0.1.pem ended on ") && output.contains("hint: get a new one"), "{output}");
    // A policy that etcd would refuse.
    setup.certificate_of("127.0.0.1", &["127.0.0.1"], 2);
    setup.write_policy(&format!("{}# {}\n", policy("10Gb/s"), "x".repeat(1_600_000)));
    let output = refused(&|command| {
        command.args(ALONE_AMONG_SEVERAL);
    });
    assert!(output.contains("bytes, and etcd takes 1568768 at most") && output.contains("hint: comments"), "{output}");
    setup.write_policy("weir: 1\n");
    refused(&|_| {});
    assert!(!setup.at("fabric-state").exists(), "nothing was kept");
}

#[test]
fn certificates_are_made_once() {
    let setup = Setup::new();
    let listed = |setup: &Setup| {
        let mut names: Vec<String> = fs::read_dir(setup.at("pki"))
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        names.sort();
        names
    };
    let names = listed(&setup);
    assert_eq!(names.len(), 2 + 2 * 5, "{names:?}");
    let key = fs::read(setup.at("pki/machine-m1.key")).expect("there");
    let again = setup.certificates(&["--machine", "m7"]);
    let output = String::from_utf8(again.stderr).expect("text");
    assert!(output.contains("machine-m7.pem") && output.contains("4 certificates there already"), "{output}");
    assert_eq!(fs::read(setup.at("pki/machine-m1.key")).expect("there"), key);
    let refused = setup.certificates(&["--fabric", "a/b"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(listed(&setup).len(), names.len() + 2, "nothing more was made");
}
