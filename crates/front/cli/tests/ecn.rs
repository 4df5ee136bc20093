//! Tenants' ECN bits and DSCP through the kernels of two hosts with agents, a switch's marks on
//! their way to the law, and a receive limit over IPv6.

mod common;
#[path = "../../../host/lab/tests/datagrams/mod.rs"]
mod datagrams;

use common::{at_least, one_at_a_time, signal, skipped, wait_for, weir};
use datagrams::{bound, receive, set, set_tos};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_lab::ports::{Neighbour, Port, PortPlan, configure};
use weir_linux::netns::{Netns, Prefix, connect};
use weir_units::{Bandwidth, Bytes};

/// Not-ECT, ECT(1), ECT(0) and CE, each with a DSCP of its own.
const KINDS: [u8; 4] = [10 << 2, 46 << 2 | 1, 26 << 2 | 2, 34 << 2 | 3];
const PORT: u16 = 9_000;
const POLICY: &str = "weir: 1
network:
  nic: 50Mb/s
  racks: { r: { uplink: 50Mb/s, machines: [a, b] } }
services:
  probe: { match: [ { protocol: udp, port: 9000-9099 } ] }
  limited: { match: [ { protocol: tcp, port: 9000-9049 } ], machine: { rx: { max: 5Mb/s } } }
  rest: { match: [ { protocol: tcp, port: 9050-9099 } ] }
";

/// Two hosts and a switch whose port to `b` has 10 Mb/s.
struct Hosts {
    a: Netns,
    b: Netns,
    switch: Netns,
    agents: Vec<Child>,
}

impl Hosts {
    fn new(directory: &Path) -> Self {
        let prefix = Prefix::new("wlecn").expect("a prefix");
        prefix.cleanup().expect("clean up after an earlier run");
        let [a, b, switch] = ["a", "b", "switch"].map(|name| prefix.create(name).expect("a namespace"));
        switch.ip(["link", "add", "br0", "type", "bridge", "mcast_snooping", "0"]).expect("a bridge");
        switch.ip(["link", "set", "br0", "up"]).expect("up");
        for (netns, port, v4, v6) in
            [(&a, "pa", "10.77.0.1/24", "fd77::1/64"), (&b, "pb", "10.77.0.2/24", "fd77::2/64")]
        {
            connect((netns, "eth", Some(v4)), (&switch, port, None)).expect("a cable");
            switch.ip(["link", "set", port, "master", "br0"]).expect("in the bridge");
            netns.ip(["addr", "add", v6, "dev", "eth", "nodad"]).expect("an IPv6 address");
        }
        port_to_b(&switch, None);
        let mut hosts = Self { a, b, switch, agents: Vec::new() };
        fs::write(directory.join("policy.yaml"), POLICY).expect("written");
        assert!(weir(&["key"]).arg(directory.join("key")).status().expect("runs").success());
        for (netns, own, other) in [(&hosts.a, ("a", 1), ("b", 2)), (&hosts.b, ("b", 2), ("a", 1))] {
            let mut command: Command = netns.command(common::WEIR).expect("a command");
            command.arg("agent").arg(directory.join("policy.yaml")).args(["--machine", own.0, "--interface", "eth"]);
            command.arg("--key").arg(directory.join("key")).arg("--state").arg(directory.join("state"));
            command.args(["--listen", &format!("10.77.0.{}:30565", own.1)]);
            command.args(["--peer", &format!("{}=10.77.0.{}:30565", other.0, other.1)]);
            command.arg("--status").arg(directory.join(format!("{}.json", own.0)));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            hosts.agents.push(command.spawn().expect("an agent"));
        }
        for name in ["a", "b"] {
            wait_for("agents that receive each other's reports", 30, || status(directory, name)["peers_alive"] == 1);
        }
        hosts
    }
}

/// Configures the switch's port to `b`.
fn port_to_b(switch: &Netns, mark: Option<Bytes>) -> Port {
    let rate = Bandwidth::from_mbps(10);
    let plan = PortPlan::plain(Neighbour::Switch, rate, Bytes::new(100_000), mark).expect("valid");
    configure(switch, &BTreeMap::from([("pb".to_owned(), plan)])).expect("configured").pop().expect("one").1
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            signal(agent, libc::SIGTERM);
            let _ = agent.wait();
        }
    }
}

fn status(directory: &Path, name: &str) -> Value {
    let text = fs::read_to_string(directory.join(format!("{name}.json"))).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn probes_status(status: &Value) -> Value {
    let services = status["services"].as_array().map_or(&[][..], Vec::as_slice);
    services.iter().find(|own| own["service"] == "probe").cloned().unwrap_or_default()
}

fn probe_of(status: &Value, direction: &str, key: &str) -> u64 {
    probes_status(status)[direction][key].as_u64().unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "packets are sent in real time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Sends one of each kind, `times` times, at some 2 Mb/s, and returns those that arrive.
fn probes(sender: &UdpSocket, receiver: &UdpSocket, to: SocketAddr, times: usize) -> Vec<(u8, u8)> {
    let mut data = [0; 1_000];
    for _ in 0..times {
        for (kind, tos) in (0u8..).zip(KINDS) {
            set_tos(sender, tos);
            data[0] = kind;
            sender.send_to(&data, to).expect("sent");
            pause(Duration::from_millis(4));
        }
    }
    std::iter::from_fn(|| receive(receiver)).collect()
}

#[test]
fn ecn_and_dscp_arrive_as_they_were_sent_and_marks_reach_the_law() {
    if skipped("ECN through the kernel") {
        return;
    }
    let _turn = one_at_a_time();
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let hosts = Hosts::new(directory);
    let addresses = [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")];
    let sockets = addresses.map(|(from, to)| {
        let address = |text: &str, port| SocketAddr::new(text.parse::<IpAddr>().expect("an address"), port);
        let receiver = bound(&hosts.b, address(to, PORT));
        set(&receiver, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 16_000_000);
        (bound(&hosts.a, address(from, PORT + 1)), receiver, address(to, PORT))
    });
    for (sender, receiver, to) in &sockets {
        // The receiver sends feedback after 10 kB, and the sender's packets can be marked from then on.
        probes(sender, receiver, *to, 20);
        let arrived = probes(sender, receiver, *to, 40);
        assert!(arrived.len() >= 150, "{} of 160 arrive at {to}", arrived.len());
        let changed: Vec<_> = arrived.iter().filter(|(kind, tos)| *tos != KINDS[usize::from(*kind)]).collect();
        assert!(changed.is_empty(), "kind and TOS of what was changed on the way to {to}: {changed:?}");
    }
    wait_for("feedback", 5, || probe_of(&status(directory, "b"), "rx", "feedback_sent") > 0);
    // Of 480 that arrived three of four kinds could be marked by themselves, 360; the sender made
    // the rest ECN-capable, after it had received feedback.
    wait_for("counters", 5, || probe_of(&status(directory, "b"), "rx", "packets_markable") > 400);
    // The tenants' own CE, which the meter cannot distinguish: one of four kinds, sixty of each of two families.
    let marked = probe_of(&status(directory, "b"), "rx", "packets_marked");
    assert!(marked <= 120, "{marked} marked, and no switch marks yet");

    let port = port_to_b(&hosts.switch, Some(Bytes::new(10_000)));
    for (sender, receiver, to) in &sockets {
        let before = probe_of(&status(directory, "b"), "rx", "packets_marked");
        set_tos(sender, KINDS[0]);
        // Packets dropped by the host are not sent later.
        sender.set_nonblocking(true).expect("set");
        // 30 Mb/s of Not-ECT into 10 Mb/s for three seconds.
        let mut lowest = u64::MAX;
        for _ in 0..300 {
            for _ in 0..37 {
                let _ = sender.send_to(&[0; 1_000], to);
            }
            pause(Duration::from_millis(10));
            lowest = lowest.min(rate_of(&status(directory, "b")));
        }
        let arrived: Vec<(u8, u8)> = std::iter::from_fn(|| receive(receiver)).collect();
        assert!(arrived.len() > 500, "{} arrive", arrived.len());
        assert!(arrived.iter().all(|(_, tos)| *tos == KINDS[0]), "Not-ECT stays Not-ECT though a switch marked it");
        let counts = port.counts().expect("counts");
        assert!(counts.marked > 0, "the switch marked: {counts:?}");
        wait_for("marks at the meter", 5, || probe_of(&status(directory, "b"), "rx", "packets_marked") > before);
        // Alone it may have all of 47.5 Mb/s; only marks show that there is less.
        assert!(lowest < 30_000_000, "the rate falls by marks: {lowest}");
    }
}

/// The rate that the law advertises to the senders of the probes.
fn rate_of(status: &Value) -> u64 {
    probes_status(status)["rx"]["sender_rate_bps"].as_u64().unwrap_or(u64::MAX)
}

/// The goodput of one TCP connection from `a` to `b` over IPv6 to this port, in Mb/s, from the third second on.
fn tcp_over_ipv6(hosts: &Hosts, port: u16) -> f64 {
    let port = port.to_string();
    let mut server = hosts.b.command("iperf3").expect("iperf3");
    server.args(["--server", "--one-off", "--port", &port]).stdout(Stdio::null());
    let mut server = server.spawn().expect("a server");
    wait_for("the server", 10, || {
        let mut probe = hosts.b.command("ss").expect("ss");
        !probe.args(["-Hltn", "sport", "=", &port]).output().expect("ss").stdout.is_empty()
    });
    let mut client = hosts.a.command("iperf3").expect("iperf3");
    client.args(["-6", "--client", "fd77::2", "--port", &port, "--time", "6", "--omit", "2", "--json"]);
    let output = client.args(["--congestion", "cubic"]).output().expect("a client");
    let _ = server.kill();
    let _ = server.wait();
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rate = result["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.unwrap_or_else(|| panic!("no result: {result}")) / 1e6
}

#[test]
fn a_receive_limit_holds_tcp_over_ipv6() {
    if skipped("a receive limit over IPv6") {
        return;
    }
    let _turn = one_at_a_time();
    let directory = tempfile::tempdir().expect("a directory");
    let hosts = Hosts::new(directory.path());
    let limited = tcp_over_ipv6(&hosts, 9_000);
    let free = tcp_over_ipv6(&hosts, 9_050);
    // Frames of 1,514 B carry 1,428 B: 4.7 of 5, and of the port's 10 Mb/s 9.4.
    assert!((at_least(4.2)..=4.9).contains(&limited), "{limited} Mb/s under a limit of 5 Mb/s");
    assert!((at_least(8.0)..=9.6).contains(&free), "{free} Mb/s without a limit");
}
