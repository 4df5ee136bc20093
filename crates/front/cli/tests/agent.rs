//! `weir agent` as an operator would run it, on a veth pair between two namespaces.

mod agent_pair;
mod common;

use agent_pair::{Flow, POLICY, Pair, backend, end};
use common::{WEIR, hold, one_at_a_time, signal, skipped, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use weir_control::wire::Key;
use weir_control::{Demand, UsageReport, UsageRow};
use weir_linux::netns::Netns;
use weir_linux::shaper::{self, Possible};
use weir_policy::Policy;
use weir_status::Status;
use weir_units::{Bandwidth, MachineId, ServiceId};

#[test]
fn sigterm_restores_the_host() {
    if skipped("an agent and SIGTERM") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wta");
    let before = pair.picture();
    let agent = pair.running(&pair.m1, "m1");
    let during = pair.picture();
    assert!(during.contains(backend().1) && during.contains(":30565"), "{during}");
    // A second agent on the same interface is refused and harms nothing.
    let mut second = pair.agent(&pair.m1, "m1");
    second.args(["--listen", "10.78.0.1:30999"]);
    let (code, errors) = end(second.spawn().expect("starts"));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("another agent runs"), "{errors}");
    assert_eq!(pair.picture(), during);
    signal(&agent, libc::SIGTERM);
    let (code, errors) = end(agent);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(pair.picture(), before);
}

#[test]
fn a_killed_agent_is_taken_over_or_removed() {
    if skipped("a killed agent") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wtb");
    let before = pair.picture();
    for take_over in [true, false] {
        let agent = pair.running(&pair.m1, "m1");
        signal(&agent, libc::SIGKILL);
        end(agent);
        fs::remove_file(pair.status_path("m1")).expect("a killed agent leaves its last status");
        assert!(pair.picture().contains(backend().1));
        if take_over {
            let agent = pair.running(&pair.m1, "m1");
            signal(&agent, libc::SIGTERM);
            assert_eq!(end(agent).0, Some(0));
        } else {
            let mut remove = pair.m1.command(WEIR).expect("a command");
            assert!(remove.args(["agent", "--remove", "--interface", "eth0"]).status().expect("runs").success());
        }
        assert_eq!(pair.picture(), before);
    }
    // With its interface gone it left pins and two locks, and its last status.
    let agent = pair.running(&pair.m1, "m1");
    signal(&agent, libc::SIGKILL);
    end(agent);
    assert_eq!(pair.files().len(), 3, "{:?}", pair.files());
    let remove = |netns: &Netns| {
        let mut remove = netns.command(WEIR).expect("a command");
        remove.args(["agent", "--remove", "--interface", "eth0", "--status"]).arg(pair.status_path("m1"));
        end(remove.stderr(Stdio::piped()).spawn().expect("starts"))
    };
    let delete = ["link", "delete", "eth0"];
    assert!(pair.m1.command("ip").expect("a command").args(delete).status().expect("runs").success());
    let (code, output) = remove(&pair.m1);
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(pair.files(), Vec::<String>::new());
    assert!(!pair.status_path("m1").exists());
    let (code, output) = remove(&pair.m1);
    assert!(code == Some(1) && output.contains("eth0: look up"), "nothing is left to remove: {code:?} {output}");
}

#[test]
fn the_state_of_all_interfaces_is_removed_at_once() {
    if skipped("removal of all state") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wtb");
    let before = pair.picture();
    let remove_all = |netns: &Netns| {
        let mut remove = netns.command(WEIR).expect("a command");
        remove.args(["agent", "--remove", "--all", "--status"]).arg(pair.status_path("m1"));
        end(remove.stderr(Stdio::piped()).spawn().expect("starts"))
    };
    let (code, output) = remove_all(&pair.m1);
    assert!(code == Some(0) && output.contains("there is no state of an agent\n"), "{code:?} {output}");
    let agent = pair.running(&pair.m1, "m1");
    let during = pair.picture();
    let (code, output) = remove_all(&pair.m1);
    assert!(code == Some(1) && output.contains("eth0"), "a running agent keeps its state: {code:?} {output}");
    assert_eq!(pair.picture(), during);
    // An agent in another namespace is none of this host's.
    let (code, output) = remove_all(&pair.m2);
    assert!(code == Some(0) && output.contains("there is no state of an agent\n"), "{code:?} {output}");
    signal(&agent, libc::SIGKILL);
    end(agent);
    let (code, output) = remove_all(&pair.m1);
    assert!(code == Some(0) && output.contains("removed the state of an agent on eth0\n"), "{code:?} {output}");
    assert_eq!(pair.picture(), before);
    // With its interface gone it left pins and locks.
    let agent = pair.running(&pair.m1, "m1");
    signal(&agent, libc::SIGKILL);
    end(agent);
    let delete = ["link", "delete", "eth0"];
    assert!(pair.m1.command("ip").expect("a command").args(delete).status().expect("runs").success());
    let (code, output) = remove_all(&pair.m1);
    assert!(code == Some(0) && output.contains("interfaces that are gone"), "{code:?} {output}");
    assert!(!pair.files().iter().any(|file| file.contains("lock")), "{:?}", pair.files());
}

#[test]
fn process_that_is_not_the_agent_gets_no_signal() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::write(at("policy.yaml"), POLICY).expect("written");
    assert!(weir(&["key"]).arg(at("key")).status().expect("runs").success());
    let mut other = Command::new("sleep").arg("600").spawn().expect("starts");
    let number = other.id().to_string();
    for reload in [&["--reload", &number][..], &["--reload"]] {
        let mut command = weir(&["agent", "--machine", "m1", "--interface", "lo"]);
        command.arg(at("policy.yaml")).arg("--key").arg(at("key")).arg("--status").arg(at("status.json"));
        let output = command.args(reload).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{reload:?}: {errors}");
        assert!(errors.contains("error: no agent runs on lo\n"), "{reload:?}: {errors}");
    }
    // Of two signals that are pending the kernel delivers SIGHUP first.
    signal(&other, libc::SIGTERM);
    assert_eq!(other.wait().expect("ends").signal(), Some(libc::SIGTERM));
}

#[test]
fn invalid_options_are_refused_before_the_host_changes() {
    if skipped("an agent's refusals") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wtc");
    let before = pair.picture();
    let refused = |mut command: Command, code: i32, words: &str| {
        let (found, errors) = end(command.spawn().expect("starts"));
        assert!(found == Some(code) && errors.contains(words), "{words}: {found:?} {errors}");
        assert_eq!(pair.picture(), before, "{words}");
    };
    let with = |arguments: &[&str]| {
        let mut command = pair.agent(&pair.m1, "m1");
        command.args(arguments);
        command
    };
    let typo = pair.directory.path().join("typo.yaml");
    fs::write(&typo, POLICY.replace("rack: {", "rak: {")).expect("written");
    refused(pair.agent_with(&typo, &pair.m1, "m1"), 2, "did you mean `rack`?");
    refused(pair.agent(&pair.m1, "m3"), 2, "the policy has no machine `m3`");
    refused(with(&["--peer", "m9=1.2.3.4:5"]), 2, "the policy has no machine `m9`");
    refused(with(&["--listen", "10.99.0.1:1"]), 1, "listen on 10.99.0.1:1");
    let mode = |mode: u32| fs::set_permissions(&pair.key, std::os::unix::fs::PermissionsExt::from_mode(mode));
    mode(0o644).expect("changed");
    refused(pair.agent(&pair.m1, "m1"), 2, "can be read by others");
    mode(0o600).expect("changed");
    let add = ["qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "1gbit", "burst", "64k", "limit", "64k"];
    assert!(pair.m1.command("tc").expect("a command").args(add).status().expect("runs").success());
    let before = pair.picture();
    let (code, errors) = end(pair.agent(&pair.m1, "m1").spawn().expect("starts"));
    assert!(code == Some(2) && errors.contains("qdisc tbf") && errors.contains("--force"), "{errors}");
    assert_eq!(pair.picture(), before);
}

#[test]
fn a_requested_backend_runs_or_the_agent_ends() {
    if skipped("an agent's backends") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wth");
    let before = pair.picture();
    let possible = shaper::probe();
    for Possible { backend, obstacle } in &possible {
        let mut agent = pair.agent(&pair.m1, "m1");
        let agent = agent.args(["--backend", &backend.to_string()]).spawn().expect("starts");
        if let Some(obstacle) = obstacle {
            let (code, errors) = end(agent);
            assert_eq!(code, Some(1), "{errors}");
            let refusal = format!("nothing can enforce rates on this host: {backend}: {obstacle}");
            assert!(errors.contains(&refusal), "{errors}");
        } else {
            wait_for("the agent's first status", 20, || pair.status("m1").is_some());
            assert_eq!(pair.status("m1").expect("a status")["backend"], backend.to_string());
            signal(&agent, libc::SIGTERM);
            let (code, errors) = end(agent);
            assert_eq!(code, Some(0), "{errors}");
            assert!(errors.contains(&format!("m1 on eth0 by {backend}, ")), "{errors}");
        }
        assert_eq!(pair.picture(), before, "{backend}");
    }
    // Without an option it reports why it does not take the first.
    let agent = pair.running(&pair.m1, "m1");
    let status = pair.status("m1").expect("a status");
    signal(&agent, libc::SIGTERM);
    let (_, errors) = end(agent);
    let first = &possible[0];
    let reasons: Vec<String> = first.obstacle.iter().map(|reason| format!("{}: {reason}", first.backend)).collect();
    assert_eq!(status["backend_obstacles"].as_array().map_or(0, Vec::len), reasons.len(), "{status:#}");
    for reason in reasons {
        assert_eq!(status["backend_obstacles"][0], reason);
        assert!(errors.contains(&format!("not by {reason}")), "{errors}");
    }
}

#[test]
fn datagrams_that_are_not_genuine_are_counted_and_ignored() {
    if skipped("an agent and forged datagrams") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wtd");
    let agent = pair.running(&pair.m1, "m1");
    let key = Key::from_hex(&fs::read_to_string(&pair.key).expect("readable")).expect("a key");
    let digest = Policy::read(&pair.policy).expect("valid").0.digest();
    let demand = Demand { usage: Bandwidth::from_mbps(15), backlogged: true };
    let report = |machine: u32, policy: u64, round: u64| UsageReport {
        machine: MachineId(machine),
        policy,
        epoch: 1,
        round,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![UsageRow { service: ServiceId(0), tx: demand, rx: Demand::default() }],
    };
    let genuine = weir_control::wire::encode(&report(1, digest, 5).into(), &key);
    let other_key = Key::new([7; 32]).expect("a key");
    let mut version = genuine.clone();
    version[4] = 9;
    let datagrams = [
        genuine.clone(),
        genuine.clone(),
        weir_control::wire::encode(&report(1, digest, 4).into(), &key),
        weir_control::wire::encode(&report(1, digest, 6).into(), &other_key),
        genuine[..30].to_vec(),
        version,
        b"GET / HTTP/1.1\r\n".to_vec(),
        weir_control::wire::encode(&report(7, digest, 6).into(), &key),
        weir_control::wire::encode(&report(1, digest ^ 1, 6).into(), &key),
    ];
    pair.m2
        .run(|| {
            let socket = UdpSocket::bind("10.78.0.2:0").expect("bound");
            for datagram in &datagrams {
                socket.send_to(datagram, "10.78.0.1:30565").expect("sent");
            }
        })
        .expect("inside");
    let counters = |status: &Value| status["counters"].clone();
    wait_for("the genuine report", 5, || pair.status("m1").is_some_and(|s| counters(&s)["reports_other_policy"] == 1));
    let status = pair.status("m1").expect("a status");
    let expected = [
        ("reports_accepted", 1),
        ("reports_replayed", 2),
        ("reports_unknown_machine", 1),
        ("reports_other_policy", 1),
        ("datagrams_forged", 1),
        ("datagrams_truncated", 1),
        ("datagrams_other_version", 1),
        ("datagrams_foreign", 1),
    ];
    for (name, count) in expected {
        assert_eq!(counters(&status)[name], count, "{name} in {status:#}");
    }
    assert_eq!(status["mode"], "runtime");
    signal(&agent, libc::SIGTERM);
    assert_eq!(end(agent).0, Some(0));
}

#[test]
fn two_agents_share_a_rack_and_fall_back_when_one_ends() {
    if skipped("two agents") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wte");
    let (one, two) = (pair.running(&pair.m1, "m1"), pair.running(&pair.m2, "m2"));
    let mode = |machine: &str| pair.status(machine).map(|status| status["mode"].clone()).unwrap_or_default();
    wait_for("both in the runtime policy", 10, || mode("m1") == "runtime" && mode("m2") == "runtime");
    signal(&two, libc::SIGKILL);
    end(two);
    wait_for("m1 on its own", 12, || mode("m1") == "static");
    fs::remove_file(pair.status_path("m2")).expect("a killed agent leaves its last status");
    let two = pair.running(&pair.m2, "m2");
    wait_for("m2 back", 10, || mode("m1") == "runtime" && mode("m2") == "runtime");
    for agent in [one, two] {
        signal(&agent, libc::SIGTERM);
        assert_eq!(end(agent).0, Some(0));
    }
}

#[test]
fn two_agents_accept_reports_of_each_other_alone_over_ipv6() {
    if skipped("two agents over IPv6") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wti");
    for (netns, address) in [(&pair.m1, "fd78::1/64"), (&pair.m2, "fd78::2/64")] {
        let add = ["addr", "add", address, "dev", "eth0", "nodad"];
        assert!(netns.command("ip").expect("a command").args(add).status().expect("runs").success());
    }
    let start = |netns: &Netns, own: (&str, u8), other: (&str, u8)| {
        let mut agent = pair.agent(netns, own.0);
        agent.args(["--listen", &format!("[fd78::{}]:30565", own.1)]);
        agent.args(["--peer", &format!("{}=[fd78::{}]:30565", other.0, other.1)]);
        agent.spawn().expect("starts")
    };
    let (one, two) = (start(&pair.m1, ("m1", 1), ("m2", 2)), start(&pair.m2, ("m2", 2), ("m1", 1)));
    let in_rack = |machine: &str| pair.status(machine).is_some_and(|s| s["mode"] == "runtime" && s["peers_alive"] == 1);
    wait_for("both in the runtime policy", 20, || in_rack("m1") && in_rack("m2"));
    // A tenant of m2 sends a datagram to the agent of m1: the kernel of m2 drops it, whatever its content.
    let accepted = |status: &Value| status["counters"]["reports_accepted"].as_u64().unwrap_or(0);
    let before = pair.status("m1").expect("a status");
    let dropped = || pair.status("m2").map(|status| status["kernel"]["spoofed"].as_u64());
    let at_start = dropped().flatten().expect("a status");
    let tenant = || {
        let socket = UdpSocket::bind("[fd78::2]:0").expect("bound");
        for _ in 0..20 {
            // Dropped at the interface: the send succeeds, or fails with EPERM.
            let _ = socket.send_to(b"WEIR and so on", "[fd78::1]:30565");
        }
    };
    pair.m2.run(tenant).expect("inside");
    wait_for("m2's kernel to count them", 5, || dropped().flatten() == Some(at_start + 20));
    wait_for("m1 to receive reports of m2 all the time", 5, || {
        pair.status("m1").is_some_and(|status| accepted(&status) >= accepted(&before) + 2)
    });
    assert!(in_rack("m1") && in_rack("m2"));
    for agent in [one, two] {
        signal(&agent, libc::SIGTERM);
        assert_eq!(end(agent).0, Some(0));
    }
}

/// Mb/s of payload that arrived in two seconds of TCP from m1 to m2 on `port`.
fn goodput(pair: &Pair, port: u16) -> f64 {
    let port = port.to_string();
    // For one client, so that it ends by itself.
    let mut server = pair.m2.command("iperf3").expect("a command");
    let mut server = server.args(["-s", "-1", "-p", &port]).stdout(Stdio::null()).spawn().expect("starts");
    wait_for("the iperf3 server", 10, || {
        let mut listening = pair.m2.command("ss").expect("a command");
        !listening.args(["-Hltn", "sport", "=", &port]).output().expect("runs").stdout.is_empty()
    });
    let mut client = pair.m1.command("iperf3").expect("a command");
    let output = client.args(["-c", "10.78.0.2", "-p", &port, "-t", "2", "-O", "1", "-J"]).output().expect("runs");
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON from iperf3");
    let rate = result["end"]["sum_received"]["bits_per_second"].as_f64();
    assert!(server.wait().expect("ends").success());
    rate.unwrap_or_else(|| panic!("no result from iperf3: {result:#}")) / 1e6
}

#[test]
fn real_tcp_is_limited_to_the_machines_maximum_by_this_agent_and_the_next() {
    if skipped("an agent and TCP") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wtf");
    let policy = pair.directory.path().join("machine.yaml");
    fs::write(&policy, POLICY.replace("rack: {", "machine: {").replace("20Mb/s", "8Mb/s")).expect("written");
    let before = pair.picture();
    let start = || {
        let agent = pair.agent_with(&policy, &pair.m1, "m1").spawn().expect("starts");
        wait_for("the agent's first status", 20, || pair.status("m1").is_some());
        agent
    };
    let held = || {
        // Service `a` is TCP on port 5001; 1448 of 1514 B of a full frame are payload.
        let (held, expected) = (goodput(&pair, 5001), 8.0 * 1448.0 / 1514.0);
        println!("{held:.2} Mb/s of {expected:.2}");
        assert!(hold(&[held], expected, 0.06), "{held} Mb/s is not {expected} ± 6 %");
        let free = goodput(&pair, 5002);
        assert!(free > 3.0 * expected, "what belongs to no service is not held to it: {free} Mb/s");
    };
    for _ in 0..2 {
        let agent = start();
        held();
        // The next agent adopts what this one leaves.
        signal(&agent, libc::SIGKILL);
        end(agent);
        fs::remove_file(pair.status_path("m1")).expect("a killed agent leaves its last status");
    }
    let mut remove = pair.m1.command(WEIR).expect("a command");
    assert!(remove.args(["agent", "--remove", "--interface", "eth0"]).status().expect("runs").success());
    assert_eq!(pair.picture(), before);
    let free = goodput(&pair, 5001);
    assert!(free > 24.0, "nothing holds it any more: {free} Mb/s");
}

/// The response of m1's metrics address to a client in `netns`.
fn response(netns: &Netns, path: &str) -> Option<String> {
    response_of(netns, 30_566, path)
}

/// The same at another port.
fn response_of(netns: &Netns, port: u16, path: &str) -> Option<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: 10.78.0.1:{port}\r\nconnection: close\r\n\r\n");
    let ask = || {
        let mut stream = TcpStream::connect(("10.78.0.1", port)).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text.split_once("\r\n\r\n")?.1.to_owned())
    };
    netns.run(ask).expect("inside")
}

#[test]
fn an_agent_serves_metrics_only_where_configured() {
    if skipped("an agent's metrics") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wtg");
    let listeners = |netns: &Netns| {
        let output = netns.command("ss").expect("a command").args(["-Hltn"]).output().expect("runs");
        String::from_utf8(output.stdout).expect("text").lines().count()
    };
    let mut watched = pair.agent(&pair.m1, "m1");
    watched.args(["--metrics", "10.78.0.1:30566", "--dashboard", "10.78.0.1:30568"]);
    let (one, two) = (watched.spawn().expect("starts"), pair.running(&pair.m2, "m2"));
    let read = || match Status::read(response(&pair.m2, "/status")?.as_bytes()) {
        Ok(Status::Agent(status)) => Some(status),
        Ok(_) => panic!("an agent reports the status of another program"),
        Err(_) => None,
    };
    wait_for("m1 to receive reports of m2", 20, || read().is_some_and(|status| status.peers_alive == 1));
    let status = read().expect("a status");
    assert_eq!((status.machine.as_str(), status.rack.as_str(), status.interface.as_str()), ("m1", "r", "eth0"));
    assert_eq!((status.backend.as_str(), status.peers, status.fabric), (backend().0.as_str(), 1, None));
    assert!(status.attachment.is_some_and(|how| ["tcx", "clsact"].contains(&how.as_str())));
    assert!(status.written_ms > 1_600_000_000_000 && status.period_ms == 1_000);
    wait_for("a second reading", 5, || read().is_some_and(|status| status.services[0].tx.usage.is_some()));
    let metrics = response(&pair.m2, "/metrics").expect("metrics");
    assert!(
        metrics.contains(&format!(
            "weir_agent_info{{machine=\"m1\",rack=\"r\",interface=\"eth0\",backend=\"{}\"",
            backend().0
        )),
        "{metrics}"
    );
    assert!(metrics.contains("weir_peers_alive 1.0\n"), "{metrics}");
    // The dashboard of one agent shows all machines of the policy: itself at the address where it is watched.
    let page = response_of(&pair.m2, 30_568, "/").expect("a page");
    assert!(page.contains("<html") && page.contains("<script"), "{page}");
    wait_for("the dashboard to show m1", 10, || {
        let now = response_of(&pair.m2, 30_568, "/api/now").unwrap_or_default();
        let now: Value = serde_json::from_str(&now).unwrap_or_default();
        now["machines"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["mode"] == "runtime" && one["lost"].is_null()))
    });
    // The file has the same content, and another agent cannot be reached.
    let file = pair.status("m2").expect("a file");
    assert!(matches!(Status::read(file.to_string().as_bytes()), Ok(Status::Agent(status)) if status.machine == "m2"));
    assert_eq!((listeners(&pair.m1), listeners(&pair.m2)), (2, 0));
    for agent in [one, two] {
        signal(&agent, libc::SIGTERM);
        assert_eq!(end(agent).0, Some(0));
    }
    assert_eq!(response(&pair.m2, "/status"), None);
    // An address that is not there is refused before the host is touched.
    let before = pair.picture();
    let mut elsewhere = pair.agent(&pair.m1, "m1");
    elsewhere.args(["--metrics", "10.99.0.1:30566"]);
    let (code, errors) = end(elsewhere.spawn().expect("starts"));
    assert!(code == Some(1) && errors.contains("listen on 10.99.0.1:30566"), "{errors}");
    assert_eq!(pair.picture(), before);
}

/// The value of a series of m1's metrics.
fn series(metrics: &str, name: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn limited_service_appears_in_the_metrics() {
    if skipped("the metrics of a limited service") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wth");
    let machine = "machine: { tx: { min: 2Mb/s, max: 4Mb/s }, rx: { max: 8Mb/s } }";
    let text = POLICY
        .replace("protocol: tcp", "protocol: udp")
        .replace("rack: { max: 20Mb/s }", &format!("{machine}\n    latency: {{ message: 10kB, p99: 5s }}"))
        + "caps: { rack: 50Mb/s }\n";
    fs::write(&pair.policy, &text).expect("written");
    let mut watched = pair.agent(&pair.m1, "m1");
    watched.args(["--metrics", "10.78.0.1:30566"]);
    let (one, two) = (watched.spawn().expect("starts"), pair.running(&pair.m2, "m2"));
    // One status each time: another one may be of another period.
    let values = |labels: &str, names: &[&str]| -> Option<Vec<f64>> {
        let metrics = response(&pair.m2, "/metrics")?;
        names.iter().map(|name| series(&metrics, &format!("weir_service_{name}{{service=\"a\"{labels}}}"))).collect()
    };
    let sent = |names: &[&str]| values(",direction=\"tx\"", names);
    wait_for("both agents to receive each other's reports", 30, || {
        let has_peer = |metrics: String| series(&metrics, "weir_peers_alive") == Some(1.0);
        response(&pair.m2, "/metrics").is_some_and(has_peer)
            && pair.status("m2").is_some_and(|status| status["peers_alive"] == 1)
    });
    wait_for("nothing to be used", 10, || sent(&["usage_bytes_per_second", "backlog_bytes"]) == Some(vec![0.0, 0.0]));
    let flow = Flow::start(&pair, 5001);
    // Bytes in a second of 4 Mb/s.
    let limited = 500_000.0;
    wait_for("what is sent to be the maximum, and more to wait", 30, || {
        let names = ["usage_bytes_per_second", "backlog_bytes", "demand_bytes_per_second"];
        let names = [names.as_slice(), &["share_bytes_per_second", "limit_bytes_per_second"]].concat();
        let metrics = sent(&names);
        let by = values(",direction=\"tx\",decided_by=\"max of a at machine\"", &["decided_by"]);
        by == Some(vec![1.0])
            && metrics.is_some_and(|values| {
                (values[0] / limited - 1.0).abs() < 0.1
                    && values[1] > 0.0
                    && values[2..] == [f64::INFINITY, limited, limited]
            })
    });
    let rate = flow.rates(1, 3_000)[0];
    println!("{rate:.2} Mb/s of 4");
    assert!(hold(&[rate], 4.0, 0.1), "what arrives is the maximum, too: {rate} Mb/s");
    let names = ["guarantee_bytes_per_second", "maximum_bytes_per_second"];
    assert_eq!(sent(&names), Some(vec![250_000.0, limited]));
    let plan = weir(&["plan", "--json"]).arg(&pair.policy).output().expect("runs");
    let plan: Value = serde_json::from_slice(&plan.stdout).expect("JSON");
    let estimates = plan["services"][0]["estimates"].as_array().expect("estimates");
    let bound = estimates.iter().find(|one| one["by"] == "bound").and_then(|bound| bound["time_ns"].as_f64());
    let latency = values("", &["latency_target_seconds", "latency_bound_seconds"]).expect("a target and a bound");
    assert!(latency[0] == 5.0 && (latency[1] - bound.expect("a time") * 1e-9).abs() < 1e-9, "{latency:?}, {plan}");
    // The receiver has sent feedback, and the sender has received it.
    wait_for("feedback", 10, || sent(&["feedback_received_total"]).is_some_and(|received| received[0] > 0.0));
    drop(flow);
    wait_for("the rest to have left", 20, || {
        sent(&["usage_bytes_per_second", "backlog_bytes"]) == Some(vec![0.0, 0.0])
    });
    for agent in [one, two] {
        signal(&agent, libc::SIGTERM);
        assert_eq!(end(agent).0, Some(0));
    }
}
