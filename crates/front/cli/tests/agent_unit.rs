//! An agent's requirements of its host: its systemd unit with the sandbox and the capabilities of
//! that unit, and no others; an interface that comes and goes; and the agent's report if a
//! requirement is not met.
#![expect(clippy::disallowed_methods, reason = "tests of real processes measure and wait in real time")]

mod agent_pair;
mod common;
mod unit_manager;

use agent_pair::{Flow, POLICY, Pair, end};
use common::{WEIR, hold, one_at_a_time, signal, skipped, wait_for};
use std::fs;
use std::io::Write as _;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use unit_manager::{Manager, USER};
use weir_linux::netns::connect;

const UNIT: &str = include_str!("../../../../packaging/weir-agent.service");
const FABRIC_UNIT: &str = include_str!("../../../../packaging/weir-fabric.service");
const FORWARDER_UNIT: &str = include_str!("../../../../packaging/weir-forwarder.service");
const PODS_UNIT: &str = include_str!("../../../../packaging/weir-pods.service");

/// The capabilities of the unit, such as `net_admin`.
fn capabilities() -> Vec<String> {
    let line = UNIT.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("the unit has a set");
    line.split_whitespace().map(|name| name.trim_start_matches("CAP_").to_lowercase()).collect()
}

/// Service `a` is UDP on port 5001 and may send 20 Mb/s.
fn policy() -> String {
    POLICY.replace("protocol: tcp", "protocol: udp").replace("rack: {", "machine: {")
}

/// An agent of m1 as the unit starts it, with these capabilities; `before` is done first, in a
/// mount namespace of its own.
fn bound_agent(pair: &Pair, capabilities: &[String], before: &str) -> Command {
    let plain = pair.agent(&pair.m1, "m1");
    let set: String = capabilities.iter().map(|name| format!(",+{name}")).collect();
    let mut command = pair.m1.command("unshare").expect("a command");
    command.args(["-m", "sh", "-c", &format!("{before} exec \"$@\""), "sh"]);
    command.args(["setpriv", "--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all"]);
    command.arg(format!("--bounding-set=-all{set}")).arg(WEIR).args(plain.get_args()).env("NO_COLOR", "1");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
fn the_units_capabilities_suffice_and_each_is_needed() {
    if skipped("an agent with the unit's capabilities") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wua");
    fs::write(&pair.policy, policy()).expect("written");
    let before = pair.picture();
    let all = capabilities();
    let agent = bound_agent(&pair, &all, "").spawn().expect("starts");
    wait_for("the agent's first status", 20, || pair.status("m1").is_some());
    let flow = Flow::start(&pair, 5001);
    flow.rate();
    flow.is_at(20.0, 0.06);
    // A reload and the next agent need no more, and the previous policy's limit holds under neither.
    fs::write(&pair.policy, policy().replace("20Mb/s", "30Mb/s")).expect("written");
    signal(&agent, libc::SIGHUP);
    wait_for("the reload", 10, || (flow.rate() / 30.0 - 1.0).abs() < 0.06);
    signal(&agent, libc::SIGKILL);
    end(agent);
    fs::remove_file(pair.status_path("m1")).expect("a killed agent leaves its last status");
    fs::write(&pair.policy, policy().replace("20Mb/s", "40Mb/s")).expect("written");
    let agent = bound_agent(&pair, &all, "").spawn().expect("starts");
    wait_for("the next agent's first status", 20, || pair.status("m1").is_some());
    flow.is_at(40.0, 0.06);
    drop(flow);
    signal(&agent, libc::SIGTERM);
    let (code, output) = end(agent);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("adopted the state of an earlier agent"), "{output}");
    assert_eq!(pair.picture(), before);
    // One less: refused by name, and nothing is touched. Without real-time threads it runs.
    for lacking in all.iter().filter(|name| *name != "sys_nice") {
        let rest: Vec<String> = all.iter().filter(|name| *name != lacking).cloned().collect();
        let (code, output) = end(bound_agent(&pair, &rest, "").spawn().expect("starts"));
        let name = format!("CAP_{}", lacking.to_uppercase());
        assert!(code == Some(1) && output.contains(&format!("hint: {name}: ")), "{name}: {code:?} {output}");
        assert_eq!(pair.picture(), before, "{name}");
    }
    let rest: Vec<String> = all.iter().filter(|name| *name != "sys_nice").cloned().collect();
    let agent = bound_agent(&pair, &rest, "").spawn().expect("starts");
    wait_for("the agent's first status", 20, || pair.status("m1").is_some());
    signal(&agent, libc::SIGTERM);
    let (code, output) = end(agent);
    assert_eq!(code, Some(0), "{output}");
    // Where the kernel itself limits destinations there is no such thread to wait for.
    let is_late = output.contains("limits destinations is no real-time thread (CAP_SYS_NICE)");
    assert_eq!(is_late, output.contains("m1 on eth0 by htb"), "{output}");
}

#[test]
fn systemd_understands_the_units() {
    let directory = tempfile::tempdir().expect("a directory");
    let units = [
        ("weir-agent.service", UNIT),
        ("weir-fabric.service", FABRIC_UNIT),
        ("weir-forwarder.service", FORWARDER_UNIT),
        ("weir-pods.service", PODS_UNIT),
    ];
    for (name, text) in units {
        let path = directory.path().join(name);
        fs::write(&path, text.replace("/usr/local/bin/weir", WEIR)).expect("written");
        let mut verify = Command::new("systemd-analyze");
        let Ok(output) = verify.args(["verify", "--man=no", "--recursive-errors=no"]).arg(&path).output() else {
            assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and there is no systemd-analyze");
            let line = "skipped: the units need systemd-analyze (Debian's package systemd)\n";
            std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
            return;
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        // It reports unknown settings, and succeeds.
        assert!(output.status.success() && !stderr.contains(name), "{name}: {stderr}");
    }
}

/// Whether this is mounted read-only, by `/proc/PID/mounts`; `None` if it is no mount of its own.
fn is_read_only(mounts: &str, path: &str) -> Option<bool> {
    let mut lines = mounts.lines().rev().map(|line| line.split(' ').collect::<Vec<_>>());
    let line = lines.find(|words| words[1] == path)?;
    Some(line[3].split(',').any(|option| option == "ro"))
}

#[test]
fn agent_runs_under_its_unit() {
    const AGENT: &str = "weir-agent.service";
    if skipped("an agent run by its unit") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wud");
    let before = pair.picture();
    let Some(manager) = Manager::start(&pair.m1, &pair.directory.path().join("manager"), &[(AGENT, UNIT)]) else {
        return;
    };
    manager.write("policy.yaml", policy(), 0o644, 0);
    manager.write("key", fs::read(&pair.key).expect("made"), 0o600, 0);
    manager.write("agent.conf", "WEIR_AGENT=\"--interface eth0 --machine m1\"\n", 0o644, 0);
    // Type=notify: this is done when the agent has reported that it is ready.
    manager.must("start", AGENT);
    assert!(manager.property(AGENT, "StatusText").starts_with("m1 on eth0 by "), "{}", manager.log(AGENT));
    let mounts = manager.proc(AGENT, "mounts");
    let read_only = ["/", "/sys", "/sys/fs/bpf", "/proc", "/proc/sys", "/proc/kallsyms", "/run/weir"];
    let expected = [true, true, false, false, true, true, false];
    assert_eq!(read_only.map(|path| is_read_only(&mounts, path)), expected.map(Some), "the sandbox is there: {mounts}");
    let process = manager.proc(AGENT, "status");
    let has_line = |line: &str| process.lines().any(|found| found.split_whitespace().eq(line.split(' ')));
    assert!(has_line("NoNewPrivs: 1") && has_line("Seccomp: 2") && has_line("CapEff: 000000c000801000"), "{process}");
    wait_for("the agent's first status", 20, || manager.run().join("agent.json").exists());
    let flow = Flow::start(&pair, 5001);
    flow.rate();
    flow.is_at(20.0, 0.06);
    // A reload reports whether it was taken.
    manager.write("policy.yaml", policy().replace("20Mb/s", "30Mb/s"), 0o644, 0);
    manager.must("reload", AGENT);
    flow.rates(1, 300);
    flow.is_at(30.0, 0.06);
    manager.write("policy.yaml", policy().replace("20Mb/s", "40 parsecs"), 0o644, 0);
    let (taken, output) = manager.systemctl(&["reload", AGENT]);
    assert!(!taken && manager.log(AGENT).contains("40 parsecs"), "{output}: {}", manager.log(AGENT));
    assert_eq!(manager.property(AGENT, "ActiveState"), "active");
    flow.is_at(30.0, 0.06);
    manager.write("policy.yaml", policy().replace("20Mb/s", "30Mb/s"), 0o644, 0);
    // The next agent continues where this one ends, and limits hold meanwhile.
    let old = manager.property(AGENT, "MainPID");
    let rates = std::thread::scope(|scope| {
        let rates = scope.spawn(|| flow.rates(12, 250));
        manager.must("restart", AGENT);
        rates.join().expect("measured")
    });
    assert!(hold(&rates, 30.0, 0.1), "{rates:.1?}");
    assert_ne!(manager.property(AGENT, "MainPID"), old);
    let log = manager.log(AGENT);
    assert!(log.contains("leaving qdisc and programs on eth0 in force"), "{log}");
    assert!(log.contains("adopted the state of an earlier agent"), "{log}");
    // Stopped, it leaves all in force, until it is removed.
    manager.must("stop", AGENT);
    assert!(pair.picture().contains(" 7765: root"), "{}", pair.picture());
    flow.is_at(30.0, 0.06);
    drop(flow);
    let mut remove = manager.inside("weir");
    remove.args(["agent", "--remove", "--interface", "eth0", "--status", "/run/weir/agent.json"]);
    let removed = remove.output().expect("runs");
    let output = String::from_utf8_lossy(&removed.stdout).into_owned() + &String::from_utf8_lossy(&removed.stderr);
    assert!(removed.status.success() && output.contains("removed the state of an agent on eth0"), "{output}");
    assert_eq!(pair.picture(), before);
}

#[test]
fn fabric_broker_runs_under_its_unit() {
    const FABRIC: &str = "weir-fabric.service";
    if skipped("a fabric broker run by its unit") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wue");
    let Some(manager) = Manager::start(&pair.m1, &pair.directory.path().join("manager"), &[(FABRIC, FABRIC_UNIT)])
    else {
        return;
    };
    let with_fabric = policy() + "    fabric: { max: 1Gb/s }\n";
    fs::write(&pair.policy, &with_fabric).expect("written");
    let pki = pair.directory.path().join("pki");
    let mut certificates = common::weir(&["certificate"]);
    certificates.arg(&pki).arg("--policy").arg(&pair.policy).args(["--fabric", "fabric.example.org"]);
    assert!(certificates.stdout(Stdio::null()).status().expect("runs").success());
    let made = |name: &str| fs::read(pki.join(name)).expect("made");
    manager.write("policy.yaml", with_fabric, 0o644, 0);
    manager.write("ca.pem", made("ca.pem"), 0o644, 0);
    manager.write("fabric.pem", made("fabric-fabric.example.org.pem"), 0o644, 0);
    manager.write("fabric.key", made("fabric-fabric.example.org.key"), 0o600, USER);
    let settings = include_str!("../../../../packaging/fabric.conf").replace("10.0.0.1:", "10.78.0.1:");
    manager.write("fabric.conf", settings, 0o644, 0);
    manager.must("start", FABRIC);
    let process = manager.proc(FABRIC, "status");
    let has_line = |line: String| process.lines().any(|found| found.split_whitespace().eq(line.split(' ')));
    let user = has_line(format!("Uid: {USER} {USER} {USER} {USER}"));
    assert!(user && has_line("CapEff: 0000000000000000".into()), "{process}");
    let mounts = manager.proc(FABRIC, "mounts");
    assert_eq!(["/", "/sys", "/proc/sys"].map(|path| is_read_only(&mounts, path)), [Some(true); 3], "{mounts}");
    manager.must("reload", FABRIC);
    assert_eq!(manager.property(FABRIC, "ActiveState"), "active", "{}", manager.log(FABRIC));
    manager.must("stop", FABRIC);
}

#[test]
fn missing_requirements_are_reported_before_the_host_changes() {
    if skipped("missing requirements of an agent's host") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wub");
    fs::write(&pair.policy, policy()).expect("written");
    let before = pair.picture();
    // No BPF file system, and no capability to mount one.
    let (code, output) =
        end(bound_agent(&pair, &capabilities(), "umount -l /sys/fs/bpf || exit 9;").spawn().expect("starts"));
    assert!(code == Some(1) && output.contains("/sys/fs/bpf is not mounted"), "{code:?} {output}");
    assert!(output.contains("mount -t bpf -o mode=0700 bpf /sys/fs/bpf"), "{output}");
    assert_eq!(pair.picture(), before);
    // An interface that is not there.
    let mut other = pair.agent(&pair.m1, "m1");
    other.args(["--listen", "10.78.0.1:30999"]);
    let arguments: Vec<_> = other.get_args().map(|a| if a == "eth0" { "eth7".into() } else { a.to_owned() }).collect();
    let mut other = pair.m1.command(WEIR).expect("a command");
    other.args(arguments).env("NO_COLOR", "1").stdout(Stdio::null()).stderr(Stdio::piped());
    let (code, output) = end(other.spawn().expect("starts"));
    assert!(code == Some(1) && output.contains("eth7: look up: No such device"), "{code:?} {output}");
    assert!(output.contains("hint: `ip link` lists"), "{output}");
    // Another process has bound the control port.
    let taken = pair.m1.run(|| UdpSocket::bind("10.78.0.1:30565")).expect("inside").expect("bound");
    let during = pair.picture();
    let (code, output) = end(pair.agent(&pair.m1, "m1").spawn().expect("starts"));
    assert!(
        code == Some(1) && output.contains("listen on 10.78.0.1:30565: Address already in use"),
        "{code:?} {output}"
    );
    assert!(output.contains("hint: `ss -nlup 'sport = :30565'`"), "{output}");
    assert_eq!(pair.picture(), during);
    drop(taken);
}

#[test]
fn removed_programs_and_qdiscs_are_reported_and_restored() {
    if skipped("an agent whose qdisc and programs are removed") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wuf");
    fs::write(&pair.policy, policy()).expect("written");
    let before = pair.picture();
    let agent = pair.running(&pair.m1, "m1");
    let tc = |arguments: &str| {
        let mut command = pair.m1.command("tc").expect("a command");
        assert!(command.args(arguments.split(' ')).status().expect("runs").success(), "tc {arguments}");
    };
    let not_enforced = || pair.status("m1").map(|status| status["not_enforced"].clone()).unwrap_or_default();
    let is_enforced = || pair.picture().contains(" 7765: root") && not_enforced().is_null();
    let flow = Flow::start(&pair, 5001);
    flow.rate();
    flow.is_at(20.0, 0.06);
    // A foreign qdisc is reported and kept, and a reload is applied meanwhile.
    tc("qdisc replace dev eth0 root bfifo limit 100000");
    wait_for("the agent to report it", 10, || not_enforced().as_str().is_some_and(|why| why.contains("bfifo")));
    assert!(flow.rate() > 25.0, "as it reports, nothing is limited");
    fs::write(&pair.policy, policy().replace("20Mb/s", "30Mb/s")).expect("written");
    signal(&agent, libc::SIGHUP);
    wait_for("the reload", 10, || pair.status("m1").is_some_and(|status| status["counters"]["reloads"] == 1));
    let status = pair.status("m1").expect("a status");
    assert!(status["policy_refused"].is_null() && status["interface_absent"].is_null(), "{status}");
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(pair.picture().contains("qdisc bfifo"), "it is not ours to replace: {}", pair.picture());
    assert!(not_enforced().is_string());
    // Once it is removed, Weir's qdisc returns, with the current limits.
    tc("qdisc del dev eth0 root");
    wait_for("all to be enforced again", 10, is_enforced);
    flow.rate();
    flow.is_at(30.0, 0.06);
    // Weir's qdisc is deleted.
    tc("qdisc del dev eth0 root");
    wait_for("the qdisc to come back", 10, is_enforced);
    flow.rate();
    flow.is_at(30.0, 0.06);
    // Programs are detached with their pins; the ones that replace them begin anew.
    let epoch = pair.status("m1").expect("a status")["epoch"].clone();
    for path in pair.files().iter().filter(|path| path.starts_with("/sys/fs/bpf/")) {
        for pin in fs::read_dir(path).expect("a directory").flatten() {
            fs::remove_file(pin.path()).expect("removed");
        }
    }
    let has_programs = || pair.status("m1").is_some_and(|status| status["epoch"] != epoch) && is_enforced();
    wait_for("the programs to come back", 10, has_programs);
    flow.rate();
    flow.is_at(30.0, 0.06);
    drop(flow);
    // An agent that ends meanwhile removes its own state.
    tc("qdisc replace dev eth0 root bfifo limit 100000");
    wait_for("the agent to report it", 10, || not_enforced().is_string());
    signal(&agent, libc::SIGTERM);
    let (code, output) = end(agent);
    assert_eq!(code, Some(0), "{output}");
    let expected = [
        "the policy is not enforced on eth0: eth0 has the qdisc bfifo",
        "the policy is enforced on eth0 again",
        "another program removed Weir's qdisc from eth0",
        "another program detached Weir's programs from eth0",
        "eth0 is there and under the policy again",
    ];
    assert!(expected.iter().all(|line| output.contains(line)), "{output}");
    assert_eq!(output.matches("the policy is not enforced").count(), 2, "once for each time: {output}");
    tc("qdisc del dev eth0 root");
    assert_eq!(pair.picture(), before);
}

#[test]
fn an_interface_that_returns_with_a_foreign_qdisc_is_reported() {
    if skipped("an interface that returns with a foreign qdisc") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wug");
    fs::write(&pair.policy, policy()).expect("written");
    let agent = pair.running(&pair.m1, "m1");
    let ip = |arguments: &str| {
        let mut command = pair.m1.command("ip").expect("a command");
        assert!(command.args(arguments.split(' ')).status().expect("runs").success(), "ip {arguments}");
    };
    let tc = |arguments: &str| {
        let mut command = pair.m1.command("tc").expect("a command");
        assert!(command.args(arguments.split(' ')).status().expect("runs").success(), "tc {arguments}");
    };
    let status = |key: &str| pair.status("m1").map(|status| status[key].clone()).unwrap_or_default();
    ip("link set eth0 down");
    ip("link set eth0 name eth9");
    wait_for("the agent to miss it", 10, || status("interface_absent") == true);
    tc("qdisc replace dev eth9 root bfifo limit 100000");
    ip("link set eth9 name eth0");
    ip("link set eth0 up");
    wait_for("the agent to report why", 10, || {
        status("not_enforced").as_str().is_some_and(|why| why.contains("bfifo"))
    });
    assert!(status("interface_absent").is_null(), "it is there");
    // Each try would write one to disk.
    let epoch = || fs::read_to_string(pair.directory.path().join("epoch-m1")).expect("an epoch");
    let first = epoch();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(epoch(), first, "an epoch is taken when it can be used");
    tc("qdisc del dev eth0 root");
    wait_for("it to be under the policy", 10, || status("not_enforced").is_null() && status("mode").is_string());
    let flow = Flow::start(&pair, 5001);
    flow.rate();
    flow.is_at(20.0, 0.06);
    drop(flow);
    signal(&agent, libc::SIGTERM);
    let (code, output) = end(agent);
    assert_eq!(code, Some(0), "{output}");
}

#[test]
fn unauthenticated_limits_and_a_closed_log_change_nothing() {
    if skipped("an agent without a log, and one that receives limits that only a fabric broker may send") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wuh");
    fs::write(&pair.policy, policy()).expect("written");
    let mut agent = pair.running(&pair.m1, "m1");
    let status = || pair.status("m1").unwrap_or_default();
    // The fabric broker's limits arrive by its session, under its certificate; limits signed with
    // the rack's key are rejected.
    let parsed = weir_policy::Policy::parse("policy.yaml", &policy()).expect("valid").0;
    let service = weir_units::ServiceId(0);
    let rates =
        weir_units::PerDirection { tx: weir_units::Bandwidth::from_mbps(1), rx: weir_units::Bandwidth::from_mbps(1) };
    let limits = weir_control::RackLimits {
        rack: weir_units::RackId(0),
        policy: parsed.digest(),
        epoch: u64::MAX,
        round: 1,
        first: service,
        last: service,
        rows: vec![weir_control::RateRow { service, rates }],
    };
    let keys = weir_agent::key_file::read(&pair.key).expect("keys");
    let datagram = weir_control::wire::encode(&limits.into(), keys.signing());
    let socket = pair.m2.run(|| UdpSocket::bind("10.78.0.2:0")).expect("inside").expect("bound");
    socket.send_to(&datagram, "10.78.0.1:30565").expect("sent");
    wait_for("it to be counted", 10, || status()["counters"]["datagrams_misdirected"] == 1);
    // The reader of its log is gone, and it has lines to write.
    drop(agent.stderr.take());
    fs::write(&pair.policy, policy().replace("20Mb/s", "30Mb/s")).expect("written");
    signal(&agent, libc::SIGHUP);
    wait_for("the reload", 10, || status()["counters"]["reloads"] == 1);
    let flow = Flow::start(&pair, 5001);
    flow.rate();
    flow.is_at(30.0, 0.06);
    drop(flow);
    signal(&agent, libc::SIGTERM);
    assert_eq!(end(agent).0, Some(0));
    // Options that no machine can have are refused before anything is changed.
    for (option, value, why) in [
        ("--listen", "0.0.0.0:30565", "--listen 0.0.0.0:30565: is not the address of one machine"),
        ("--listen", "[::]:30565", "--listen [::]:30565: is not the address of one machine"),
        ("--listen", "10.78.0.1:0", "--listen 10.78.0.1:0: has no port"),
        ("--peer", "m2=0.0.0.0:30565", "--peer m2=0.0.0.0:30565: is not the address of one machine"),
        ("--peer", "m2=10.78.0.2:0", "--peer m2=10.78.0.2:0: has no port"),
    ] {
        let (code, output) = end(pair.agent(&pair.m1, "m1").args([option, value]).spawn().expect("starts"));
        assert!(code == Some(2) && output.contains(why) && output.contains("hint: write"), "{code:?} {output}");
    }
}

/// The status of m1, whose interface is absent, has none of the kernel's readings.
fn assert_m1_has_no_readings(pair: &Pair) {
    let read = fs::read(pair.status_path("m1")).expect("a file");
    let weir_status::Status::Agent(status) = weir_status::Status::read(&read).expect("a status") else { panic!() };
    let sends = &status.services[0].tx;
    assert_eq!((status.mode, status.kernel, &status.policy_refused), (None, None, &None), "{status:#?}");
    let known = sends.usage.is_some() || sends.demand.is_some() || sends.share.is_some() || sends.bytes.is_some();
    assert!(!known && sends.limit.is_unlimited() && sends.backlog_bytes.is_none(), "what is not delivered: {sends:?}");
}

#[test]
fn an_interface_comes_and_goes_without_a_restart() {
    if skipped("an interface that comes and goes") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wuc");
    fs::write(&pair.policy, policy()).expect("written");
    let (one, two) = (pair.running(&pair.m1, "m1"), pair.running(&pair.m2, "m2"));
    let is_absent = |machine: &str| pair.status(machine).is_some_and(|status| status["interface_absent"] == true);
    let is_runtime =
        |machine: &str| pair.status(machine).is_some_and(|s| s["interface_absent"].is_null() && s["mode"] == "runtime");
    let both_run = || is_runtime("m1") && is_runtime("m2");
    wait_for("both in the runtime policy", 20, both_run);
    let ip = |arguments: &[&str]| {
        assert!(pair.m1.command("ip").expect("a command").args(arguments).status().expect("runs").success());
    };
    let limited = || {
        let flow = Flow::start(&pair, 5001);
        flow.rate();
        flow.is_at(20.0, 0.06);
    };
    limited();
    // Down and up: the programs and the qdisc are still there.
    ip(&["link", "set", "eth0", "down"]);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    ip(&["link", "set", "eth0", "up"]);
    limited();
    assert!(!is_absent("m1"));
    // Renamed, and renamed back; the other machine continues meanwhile.
    ip(&["link", "set", "eth0", "down"]);
    ip(&["link", "set", "eth0", "name", "eth9"]);
    wait_for("the agent to miss it", 10, || is_absent("m1"));
    let left = pair.m1.command("tc").expect("a command").args(["qdisc", "show", "dev", "eth9"]).output().expect("runs");
    assert!(!String::from_utf8_lossy(&left.stdout).contains("7765:"), "the renamed interface is restored");
    assert!(!is_absent("m2"));
    ip(&["link", "set", "eth9", "name", "eth0"]);
    ip(&["link", "set", "eth0", "up"]);
    wait_for("both in the runtime policy again", 20, both_run);
    limited();
    // Deleted, with the other end of the cable, just before another policy is taken: with a service
    // less, and then one more.
    let other = |services: usize| {
        let more = "  b: { match: [ { protocol: udp, port: 5002 } ] }\n".repeat(services - 1);
        fs::write(&pair.policy, policy() + &more).expect("written");
        signal(&one, libc::SIGHUP);
        signal(&two, libc::SIGHUP);
    };
    let has = |machine: &str, services: usize| {
        pair.status(machine).is_some_and(|s| s["services"].as_array().map(Vec::len) == Some(services))
    };
    let both_have = |services: usize| has("m1", services) && has("m2", services);
    other(2);
    wait_for("two services", 10, || both_have(2));
    ip(&["link", "delete", "eth0"]);
    other(1);
    wait_for("both to miss theirs", 10, || is_absent("m1") && is_absent("m2") && both_have(1));
    assert_m1_has_no_readings(&pair);
    other(2);
    wait_for("two services", 10, || both_have(2) && is_absent("m1"));
    // An agent whose interface is absent is found and reloaded too.
    let (code, output) = end(pair.agent(&pair.m1, "m1").arg("--reload").spawn().expect("starts"));
    assert_eq!(code, Some(0), "{output}");
    connect((&pair.m1, "eth0", Some("10.78.0.1/24")), (&pair.m2, "eth0", Some("10.78.0.2/24"))).expect("connected");
    wait_for("both in the runtime policy once more", 20, both_run);
    limited();
    for agent in [one, two] {
        signal(&agent, libc::SIGTERM);
        let (code, output) = end(agent);
        assert_eq!(code, Some(0), "{output}");
        for message in ["eth0 is gone", "eth0 is there and under the policy again"] {
            assert!(output.contains(message), "{output}");
        }
    }
}
