//! `weir doctor` in a namespace of its own.

mod common;
mod program;

use common::{WEIR, one_at_a_time, skipped};
use program::{directory, file, run, text};
use serde_json::Value;
use weir_linux::netns::{Netns, Prefix};
use weir_observe::{Publisher, server};
use weir_policy::Policy;
use weir_status::{AgentStatus, Status};

const POLICY: &str = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } } }\nservices: \
                      { a: { match: [ { port: 1 } ] } }\n";

/// The exit code and the findings of `weir doctor` in a namespace.
fn doctor(host: &Netns, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut command = host.command(WEIR).expect("the program is there");
    let output = command.arg("doctor").args(arguments).arg("--json").output().expect("runs");
    let findings = serde_json::from_slice(&output.stdout);
    (output.status.code(), findings.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr))))
}

fn finding<'a>(findings: &'a [Value], id: &str) -> &'a Value {
    findings.iter().find(|finding| finding["id"] == id).unwrap_or_else(|| panic!("no {id} in {findings:?}"))
}

#[test]
fn foreign_qdisc_is_found_and_its_mend_corrects_it() {
    if skipped("weir doctor") {
        return;
    }
    let _one = one_at_a_time();
    let host = Prefix::new("wdoc").expect("a prefix").create("h").expect("a namespace");
    host.ip(["link", "add", "v0", "type", "veth", "peer", "name", "v1"]).expect("a cable");
    let shell = |line: &str| {
        let status = host.command("sh").expect("sh").args(["-c", line]).status().expect("runs");
        assert!(status.success(), "{line}");
    };
    let (code, findings) = doctor(&host, &["--interface", "v0"]);
    assert_eq!((code, &finding(&findings, "interface.qdisc")["state"]), (Some(0), &Value::from("fine")));
    assert_eq!(finding(&findings, "kernel.requirements")["state"], "fine");

    shell("tc qdisc add dev v0 root handle 8001: pfifo");
    let (code, findings) = doctor(&host, &["--interface", "v0"]);
    let found = finding(&findings, "interface.qdisc");
    assert_eq!((code, &found["state"]), (Some(1), &Value::from("wrong")), "{found}");
    shell(found["mend"].as_str().expect("a command"));
    let (code, findings) = doctor(&host, &["--interface", "v0"]);
    assert_eq!((code, &finding(&findings, "interface.qdisc")["state"]), (Some(0), &Value::from("fine")));

    let (code, findings) = doctor(&host, &["--interface", "v9"]);
    assert_eq!((code, &finding(&findings, "interface.there")["state"]), (Some(1), &Value::from("wrong")));
}

#[test]
fn old_status_and_another_policy_are_reported() {
    let directory = directory();
    let path = file(directory.path(), "policy.yaml", POLICY);
    let (policy, _) = Policy::parse("policy.yaml", POLICY).expect("sound");
    let machine = policy.network().machine_named("m1").expect("there");
    let mut agent = AgentStatus::outline(&policy, machine);
    agent.policy = "0000000000000000".into();
    let status = file(directory.path(), "agent.json", &Status::Agent(agent).to_json());
    let output = run(&["doctor", &path, "--status", &status]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("agent.policy: machines with different policies"), "{out}");
    assert!(out.contains("agent.status: the agent has ended or does not progress\n  systemctl status"), "{out}");
    assert_eq!(run(&["doctor", "no-such-policy.yaml"]).status.code(), Some(2));
}

#[test]
fn status_of_a_url_is_judged() {
    let (policy, _) = Policy::parse("policy.yaml", POLICY).expect("sound");
    let machine = policy.network().machine_named("m1").expect("there");
    let publisher = Publisher::new();
    let listener = server::listen("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let reader = publisher.reader();
    let server = server::start("doctor", listener, server::Limits::default(), move || reader.router()).expect("starts");
    let mut agent = AgentStatus::outline(&policy, machine);
    // Dated in the future, as by a clock that was set back.
    agent.written_ms = u64::MAX / 2;
    publisher.publish(Status::Agent(agent));
    let url = format!("http://{}", server.address());
    let out = text(&run(&["doctor", "--status", &url]).stdout);
    assert!(out.contains(&format!("{url}/status: dated ")), "{out}");
    assert!(out.contains("weir top --once http://"), "{out}");
}
