//! `weir doctor` in namespaces of its own: faults are made, found, and mended by the commands that it prints.

mod agent_pair;
mod common;
mod program;
mod unit_manager;

use agent_pair::Pair;
use common::{WEIR, one_at_a_time, signal, skipped, wait_for};
use program::{directory, file, run, text};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use unit_manager::Manager;
use weir_linux::interface::Interface;
use weir_linux::netns::{Netns, Prefix, connect};
use weir_observe::{Publisher, server};
use weir_policy::Policy;
use weir_status::{AgentStatus, Status};

const POLICY: &str = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } } }\nservices: \
                      { a: { match: [ { port: 1 } ] } }\n";

/// A policy whose network has switches with buffers.
const SWITCHES: &str = "weir: 1\nnetwork:\n  nic: 20Mb/s\n  switches: { buffer: 200kB }\n  racks: { r: { uplink: \
                        100Mb/s, machines: [m1, m2] } }\nservices: { a: { match: [ { port: 1 } ] } }\n";

/// The exit code and the findings of `weir doctor` in a namespace.
fn doctor(host: &Netns, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut command = host.command(WEIR).expect("the program is there");
    let output = command.arg("doctor").args(arguments).arg("--json").output().expect("runs");
    if output.status.code() == Some(2) {
        return (Some(2), Vec::new());
    }
    let findings = serde_json::from_slice(&output.stdout);
    (output.status.code(), findings.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr))))
}

fn finding<'a>(findings: &'a [Value], id: &str) -> &'a Value {
    findings.iter().find(|finding| finding["id"] == id).unwrap_or_else(|| panic!("no {id} in {findings:?}"))
}

/// The state of a check and its mend.
fn state(host: &Netns, arguments: &[&str], id: &str) -> (String, Option<String>) {
    let (_, findings) = doctor(host, arguments);
    let finding = finding(&findings, id);
    let text = |key: &str| finding[key].as_str().map(str::to_owned);
    (text("state").expect("a state"), text("mend"))
}

/// Runs a mend as a person does.
fn mend(host: &Netns, line: &str) -> bool {
    let programs = Path::new(WEIR).parent().expect("a directory").display();
    let path = format!("{programs}:{}", std::env::var("PATH").expect("set"));
    let mut shell = host.command("sh").expect("sh");
    shell.args(["-c", line]).env("PATH", path).status().expect("runs").success()
}

/// The fault is found with this state, and its mend mends it.
fn is_mended(host: &Netns, arguments: &[&str], id: &str, fault: &str) {
    let (found, command) = state(host, arguments, id);
    let command = command.unwrap_or_else(|| panic!("{id} has no mend"));
    assert_eq!(found, fault, "{id}: {command}");
    assert!(mend(host, &command), "{command}");
    let (found, _) = state(host, arguments, id);
    assert_eq!(found, "fine", "{id} after {command}");
}

/// Turns GRO on.
fn merge(host: &Netns, interface: &str) {
    let set = host.run(|| Interface::named(interface)?.set_receive_merging(true));
    set.expect("inside").expect("set");
}

#[test]
fn faults_of_an_interface_are_mended() {
    if skipped("weir doctor") {
        return;
    }
    let _one = one_at_a_time();
    let host = Prefix::new("wdoc").expect("a prefix").create("h").expect("a namespace");
    host.ip(["link", "add", "v0", "type", "veth", "peer", "name", "v1"]).expect("a cable");
    let options = ["--interface", "v0"];
    // A veth interface has it off at first. The mend's program, ethtool, is not on all hosts of tests.
    assert_eq!(state(&host, &options, "interface.offloads").1.as_deref(), Some("ethtool -K v0 gro on"));
    merge(&host, "v0");
    let (code, findings) = doctor(&host, &options);
    assert_eq!(code, Some(0), "{findings:?}");
    for id in ["interface.there", "interface.qdisc", "interface.segments", "interface.offloads", "kernel.requirements"]
    {
        assert_eq!(finding(&findings, id)["state"], "fine", "{id}");
    }
    assert_eq!(finding(&findings, "interface.agent")["state"], "doubtful");

    assert!(mend(&host, "tc qdisc add dev v0 root handle 8001: pfifo"));
    assert_eq!(doctor(&host, &options).0, Some(1));
    is_mended(&host, &options, "interface.qdisc", "wrong");

    assert!(mend(&host, "ip link set dev v0 gso_max_segs 1"));
    is_mended(&host, &options, "interface.segments", "doubtful");

    assert_eq!(state(&host, &["--interface", "v9"], "interface.there").0, "wrong");
    assert_eq!(state(&host, &["--interface", "lo"], "interface.there").0, "wrong");
}

#[test]
fn faults_of_key_and_certificate_are_mended() {
    if skipped("weir doctor") {
        return;
    }
    let _one = one_at_a_time();
    let host = Prefix::new("wdok").expect("a prefix").create("h").expect("a namespace");
    let directory = directory();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (key, own, other) = (path("key"), path("ca"), path("other"));
    assert!(run(&["key", &key]).status.success());
    for (ca, days) in [(&own, "90"), (&other, "20")] {
        assert!(run(&["certificate", ca, "--machine", "m1", "--days", days]).status.success());
    }
    let open = |file: &str| std::fs::set_permissions(file, PermissionsExt::from_mode(0o644)).expect("changed");
    let file = |directory: &str, name: &str| format!("{directory}/{name}");
    let (certificate, private) = (file(&own, "machine-m1.pem"), file(&own, "machine-m1.key"));
    let of = |certificate: &str, private: &str, ca: &str| {
        let options = ["--key", &key, "--certificate", certificate, "--private-key", private, "--ca", ca];
        options.map(str::to_owned)
    };
    let ca = file(&own, "ca.pem");
    let options = of(&certificate, &private, &ca);
    let options = options.each_ref().map(String::as_str);
    assert_eq!(state(&host, &options, "fabric.certificate").0, "fine");

    open(&key);
    is_mended(&host, &options, "key.file", "wrong");
    open(&private);
    is_mended(&host, &options, "fabric.certificate", "wrong");

    let (certificate, private) = (file(&other, "machine-m1.pem"), file(&other, "machine-m1.key"));
    for (ca, expected) in [(ca, "wrong"), (file(&other, "ca.pem"), "doubtful")] {
        let options = of(&certificate, &private, &ca);
        assert_eq!(state(&host, &options.each_ref().map(String::as_str), "fabric.certificate").0, expected, "{ca}");
    }
}

#[test]
fn faults_of_an_agent_are_mended() {
    if skipped("weir doctor") {
        return;
    }
    let _one = one_at_a_time();
    let pair = Pair::new("wdoa");
    let (policy, key) = (pair.policy.display().to_string(), pair.key.display().to_string());
    let status = pair.status_path("m1").display().to_string();
    let options = [&policy, "--interface", "eth0", "--status", &status, "--key", &key];
    merge(&pair.m1, "eth0");
    let (first, mut second) = (pair.running(&pair.m1, "m1"), pair.running(&pair.m2, "m2"));
    wait_for("the peer's report", 60, || state(&pair.m1, &options, "agent.peers").0 == "fine");
    let (code, findings) = doctor(&pair.m1, &options);
    assert_eq!(code, Some(0), "{findings:?}");
    for prefix in ["interface.", "agent.", "peers.", "key.", "host."] {
        for one in findings.iter().filter(|one| one["id"].as_str().expect("a name").starts_with(prefix)) {
            assert!(["fine", "skipped"].map(Value::from).contains(&one["state"]), "{one}");
        }
    }

    // A peer that ends.
    signal(&second, libc::SIGTERM);
    second.wait().expect("ends");
    wait_for("the peer to be silent", 60, || state(&pair.m1, &options, "agent.peers").0 == "wrong");
    assert_eq!(state(&pair.m1, &options, "peers.reply").0, "fine", "the host replies");
    pair.m2.ip(["link", "set", "eth0", "down"]).expect("down");
    wait_for("the host to be silent", 60, || state(&pair.m1, &options, "peers.reply").0 == "doubtful");
    pair.m2.ip(["link", "set", "eth0", "up"]).expect("up");

    // A killed agent, whose programs are then detached.
    signal(&first, libc::SIGKILL);
    first.wait_with_output().expect("ends");
    wait_for("the status to be old", 60, || state(&pair.m1, &options, "agent.status").0 == "wrong");
    assert_eq!(state(&pair.m1, &options, "interface.agent").0, "doubtful");
    let pins = pair.files().into_iter().find(|path| path.starts_with("/sys/fs/bpf")).expect("pins");
    if std::fs::remove_file(Path::new(&pins).join("weir_egress")).is_ok() {
        is_mended(&pair.m1, &options, "interface.programs", "wrong");
    } else {
        assert!(mend(&pair.m1, "weir agent --remove --interface eth0"), "attached without links");
    }
    assert_eq!(state(&pair.m1, &options, "interface.qdisc").0, "fine", "the kernel's");

    // Pins of an interface that is gone.
    std::fs::remove_file(&status).expect("removed");
    let third = pair.running(&pair.m1, "m1");
    signal(&third, libc::SIGKILL);
    third.wait_with_output().expect("ends");
    pair.m1.ip(["link", "del", "eth0"]).expect("deleted");
    is_mended(&pair.m1, &[], "host.leftovers", "doubtful");
    let (found, _) = state(&pair.m1, &[&policy, "--status", &status], "peers.route");
    assert_eq!(found, "wrong");
}

/// A program beside the manager; `systemctl` is that of its user, who is root.
fn beside(manager: &Manager, program: &str) -> Command {
    let mut command = manager.inside(program);
    command.env("PATH", "/etc/weir/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// The state of a check of the agent's host, and its mend.
fn state_beside(manager: &Manager, id: &str) -> (Value, Value) {
    let mut command = beside(manager, "weir");
    command.args(["doctor", "/etc/weir/policy.yaml", "--status", "/run/weir/agent.json", "--json"]);
    let output = command.output().expect("runs");
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).expect("findings");
    let finding = finding(&findings, id);
    (finding["state"].clone(), finding["mend"].clone())
}

/// The same as [`is_mended`] where the unit runs.
fn is_mended_beside(manager: &Manager, id: &str, fault: &str) {
    let (found, command) = state_beside(manager, id);
    let command = command.as_str().expect("a mend");
    assert_eq!(found, fault, "{id}: {command}");
    let output = beside(manager, "sh").args(["-c", command]).output().expect("runs");
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    wait_for(&format!("{id} to be fine"), 20, || state_beside(manager, id).0 == "fine");
}

#[test]
fn faults_of_a_unit_are_mended() {
    const UNIT: (&str, &str) = ("weir-agent.service", include_str!("../../../../packaging/weir-agent.service"));
    if skipped("weir doctor of a unit") {
        return;
    }
    let _one = one_at_a_time();
    let pair = Pair::new("wdou");
    let Some(manager) = Manager::start(&pair.m1, &pair.directory.path().join("manager"), &[UNIT]) else { return };
    std::fs::create_dir(manager.etc().join("bin")).expect("made");
    manager.write("bin/systemctl", "#!/bin/sh\nexec /usr/bin/systemctl --user \"$@\"\n", 0o755, 0);
    let options = "WEIR_AGENT=\"--interface eth0 --machine m1\"\n";
    manager.write("policy.yaml", agent_pair::POLICY, 0o644, 0);
    manager.write("key", std::fs::read(&pair.key).expect("made"), 0o600, 0);
    manager.write("agent.conf", options, 0o644, 0);
    manager.must("start", UNIT.0);
    is_mended_beside(&manager, "service.units", "doubtful");
    assert_eq!(state_beside(&manager, "service.program").0, "fine");

    manager.must("stop", UNIT.0);
    is_mended_beside(&manager, "service.units", "wrong");

    wait_for("the agent's status", 20, || state_beside(&manager, "agent.policy").0 == "fine");
    manager.write("policy.yaml", agent_pair::POLICY.replace("20Mb/s", "30Mb/s"), 0o644, 0);
    is_mended_beside(&manager, "agent.policy", "wrong");

    manager.write("agent.conf", "WEIR_AGENT=\"--interface eth0 --machine m9\"\n", 0o644, 0);
    assert!(!manager.systemctl(&["restart", UNIT.0]).0, "the options are refused");
    assert_eq!(state_beside(&manager, "service.units").0, "wrong");
    manager.write("agent.conf", options, 0o644, 0);
    is_mended_beside(&manager, "service.units", "wrong");

    // Programs that fail are started again each second. The second one fails once, and then does not get ready.
    manager.must("stop", UNIT.0);
    crash_loop_is_found(&manager, "false");
    manager.must("stop", UNIT.0);
    let once = "sh -c \"test -e /run/weir/failed && exec sleep infinity; touch /run/weir/failed; exit 1\"";
    crash_loop_is_found(&manager, once);
}

/// Starts the agent's unit with a program that fails. The check finds it without a mend of the cause.
fn crash_loop_is_found(manager: &Manager, program: &str) {
    let replaced = format!("[Service]\nExecStart=\nExecStart={program}\n");
    manager.write("../systemd/user/weir-agent.service.d/loop.conf", replaced, 0o644, 0);
    assert!(manager.systemctl(&["daemon-reload"]).0);
    assert!(!manager.systemctl(&["start", "weir-agent"]).0, "{program} fails");
    let expected = (Value::from("wrong"), Value::from("journalctl -u weir-agent -n 20 --no-pager"));
    // The second start of a unit, after which the check depends on the number of restarts.
    let restarts = || manager.property("weir-agent", "NRestarts").parse::<u32>().expect("a number");
    wait_for("a restart", 60, || restarts() > 0);
    wait_for("the crash loop to be found", 60, || state_beside(manager, "service.units") == expected);
}

#[test]
fn port_of_a_switch_is_mended() {
    if skipped("weir doctor") {
        return;
    }
    let _one = one_at_a_time();
    let prefix = Prefix::new("wdos").expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let [machine, switch] = ["m", "s"].map(|name| prefix.create(name).expect("a namespace"));
    connect((&machine, "eth0", None), (&switch, "m1", None)).expect("a cable");
    let directory = directory();
    let policy = file(directory.path(), "policy.yaml", SWITCHES);
    let options = [policy.as_str(), "--switch", "r", "--port", "m1"];
    assert_eq!(doctor(&switch, &options).0, Some(1));
    is_mended(&switch, &options, "switch.ports", "wrong");
    assert_eq!(doctor(&switch, &["--port", "m1"]).0, Some(2));
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
