//! `weir switch` on a Linux bridge: applied, shown, compared, reverted, removed; and packets through its ports.

mod common;
#[path = "../../../host/lab/tests/datagrams/mod.rs"]
mod datagrams;
mod program;

use common::{WEIR, one_at_a_time, skipped};
use datagrams::{bound, receive, set, set_tos};
use program::{directory, file, run, shown, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::process::Output;
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::port::{SwitchLock, TcSwitch};
use weir_network::switches::{CREDIT_DATA, CREDIT_MESSAGES};
use weir_policy::Policy;
use weir_switch::{Driver, Group, Needs, Offer, Scheduler, apply};
use weir_units::{Bandwidth, Bytes};

const POLICY: &str = "weir: 1
network:
  nic: 20Mb/s
  switches: { buffer: 200kB }
  racks: { r1: { uplink: 100Mb/s, machines: [m1, m2, m3] } }
services:
  web: { match: [ { protocol: tcp, port: 80 } ] }
";
const TOPOLOGY: &str = "weir: 1
network:
  topology: leaf-spine
  racks: 2
  hosts: 2
  spines: 2
  host-link: { rate: 10Gb/s, queue: { discipline: ecn, buffer: 500kB, mark: 97500B } }
  fabric-link: { rate: 40Gb/s, queue: { buffer: 1MB } }
services:
  web: { match: [ { protocol: tcp, port: 80 } ] }
";
const PORT: u16 = 9_000;

/// A bridge with the ports `swp1` to `m1` and `m2` to `m2`, the first by its alias; `m3` has none.
struct Network {
    a: Netns,
    b: Netns,
    switch: Netns,
    policy: String,
    _directory: tempfile::TempDir,
}

impl Network {
    fn new() -> Self {
        let directory = directory();
        let policy = file(directory.path(), "policy.yaml", POLICY);
        let prefix = Prefix::new("wlsw").expect("a prefix");
        prefix.cleanup().expect("clean up after an earlier run");
        let [a, b, switch] = ["a", "b", "switch"].map(|name| prefix.create(name).expect("a namespace"));
        switch.ip(["link", "add", "br0", "type", "bridge", "mcast_snooping", "0"]).expect("a bridge");
        switch.ip(["link", "set", "br0", "up"]).expect("up");
        for (netns, port, address) in [(&a, "swp1", "10.77.0.1/24"), (&b, "m2", "10.77.0.2/24")] {
            connect((netns, "eth", Some(address)), (&switch, port, None)).expect("a cable");
            switch.ip(["link", "set", port, "master", "br0"]).expect("in the bridge");
        }
        switch.ip(["link", "set", "swp1", "alias", "m1"]).expect("an alias");
        Self { a, b, switch, policy, _directory: directory }
    }

    /// `weir switch ACTION` on the switch.
    fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = self.switch.command(WEIR).expect("weir");
        command.arg("switch").args(arguments).env("NO_COLOR", "1").output().expect("runs")
    }

    /// The same for the ports of the bridge, which must succeed.
    fn on_bridge(&self, action: &str, more: &[&str]) -> String {
        let options = ["--driver", "tc", "--switch", "r1", "--bridge", "br0"];
        let arguments = [&[action, self.policy.as_str()], &options[..], more].concat();
        let output = self.weir(&arguments);
        assert!(output.status.success(), "{action}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn json(&self, action: &str) -> Value {
        serde_json::from_str(&self.on_bridge(action, &["--json"])).expect("JSON")
    }

    fn tc(&self, arguments: &str) {
        let status = self.switch.command("tc").expect("tc").args(arguments.split(' ')).status();
        assert!(status.expect("tc").success(), "tc {arguments}");
    }

    /// Replaces the policy's file: a watch reads either of both.
    fn take_policy(&self, text: &str) {
        let new = format!("{}.new", self.policy);
        std::fs::write(&new, text).expect("written");
        std::fs::rename(new, &self.policy).expect("renamed");
    }

    /// `weir switch watch` of the ports of the bridge, ten times a second.
    fn watch(&self, status: &str, more: &[&str]) -> Watch {
        let mut command = self.switch.command(WEIR).expect("weir");
        command.args(["switch", "watch", &self.policy, "--switch", "r1", "--bridge", "br0", "--every", "100ms"]);
        command.args(["--status", status]).args(more).env("NO_COLOR", "1");
        Watch(command.spawn().expect("runs"))
    }

    /// All that tc shows of both ports.
    fn configuration(&self) -> String {
        ["swp1", "m2"].map(|port| self.configuration_of(port)).concat()
    }

    fn configuration_of(&self, port: &str) -> String {
        let mut all = String::new();
        for what in ["qdisc", "class"] {
            let mut command = self.switch.command("tc").expect("tc");
            let output = command.args([what, "show", "dev", port]).output().expect("tc");
            let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
            lines.sort();
            all.push_str(&lines.join("\n"));
        }
        all
    }
}

#[test]
fn ports_of_a_bridge_are_configured_as_the_policy_needs_them() {
    if skipped("ports of a bridge") {
        return;
    }
    let _turn = one_at_a_time();
    let network = Network::new();
    let original = network.configuration();
    let in_force = |network: &Network| -> Vec<bool> {
        let shown = network.json("show");
        let ports = shown["ports"].as_array().expect("a list");
        ports.iter().map(|port| port["in_force"].as_bool().expect("known")).collect()
    };
    assert_eq!(in_force(&network), [false, false]);
    let planned = network.json("diff")["steps"].clone();
    assert_eq!(planned.as_array().map(Vec::len), Some(6), "rate, queue and map of two ports: {planned}");
    assert_eq!(network.configuration(), original, "nothing has changed");

    assert_eq!(network.json("apply")["steps"], planned);
    assert_eq!(in_force(&network), [true, true]);
    assert_eq!(network.json("diff")["steps"].as_array().map(Vec::len), Some(0));
    assert_eq!(network.on_bridge("apply", &[]), "nothing to change on 2 ports\n");
    assert_marks(&network);
    assert_shares(&network);

    assert!(network.weir(&["remove", "--bridge", "br0"]).status.success());
    assert_eq!(network.configuration(), original);
}

/// A burst of 150 kB into a port of 20 Mb/s: what finds more than 80 kB is marked.
fn assert_marks(network: &Network) {
    let to = SocketAddr::from(([10, 77, 0, 2], PORT));
    let receiver = bound(&network.b, to);
    let sender = network.a.run(|| UdpSocket::bind(("10.77.0.1", 0)).expect("a socket")).expect("enter");
    set(&sender, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4_000_000);
    sender.send_to(&[9], to).expect("sent");
    receive(&receiver).expect("neighbours are resolved");
    for _ in 0..75 {
        // ECT(0), and Not-ECT.
        for tos in [2, 0] {
            set_tos(&sender, tos);
            sender.send_to(&[tos; 1_000], to).expect("sent");
        }
    }
    let arrived: Vec<(u8, u8)> = std::iter::from_fn(|| receive(&receiver)).take(150).collect();
    let marked = arrived.iter().filter(|(_, tos)| *tos == 3).count();
    println!("{} arrived, {marked} of 75 marked", arrived.len());
    assert_eq!(arrived.len(), 150);
    assert!((20..=40).contains(&marked), "about half find more than 77 packets: {marked}");
    assert!(arrived.iter().filter(|(kind, _)| *kind == 0).all(|(_, tos)| *tos == 0), "Not-ECT stays");
}

/// Forwarded packets in strict and weighted queues, which a policy does not request yet: by the driver of the command.
fn assert_shares(network: &Network) {
    let offer = Offer { queues: 8, scheduler: Scheduler::Mixed { strict: 2, weighted: 6 } };
    let groups = vec![Group { dscps: vec![8], weight: 3 }];
    let needs = Needs { groups, levels: vec![vec![16]], ..Needs::marks(Bytes::new(80_000)) };
    let config = needs.of_port(Some(Bandwidth::from_mbps(20)), Some(Bytes::new(200_000))).lower(offer).expect("valid");
    let desired = BTreeMap::from([("m2".to_owned(), config)]);
    // Segments of one frame, so that a round is short.
    for port in ["swp1", "m2"] {
        let offloads = || weir_linux::interface::Interface::named(port).expect("there").set_offloads(false);
        network.switch.run(offloads).expect("enter").expect("offloads");
    }
    let open = || {
        network.switch.run(|| apply(&mut TcSwitch::new("r1"), &desired).expect("applied")).expect("enter");
    };
    open();
    let weighted = departures(network, &[0, 8], 180, &open);
    let ratio = weighted[1] as f64 / weighted[0] as f64;
    assert!((ratio / 3.0 - 1.0).abs() < 0.1, "weights 1 and 3: {weighted:?}");
    let strict = departures(network, &[0, 8, 16], 180, &open);
    assert_precedes(&strict, 2);
}

/// By DSCP value: the packets from `a` that the port to `b` sends while the queues of all hold packets. `open` restores
/// the port's configuration.
fn departures(network: &Network, dscps: &[u8], room: usize, open: &dyn Fn()) -> Vec<usize> {
    let to = SocketAddr::from(([10, 77, 0, 2], PORT));
    // A receiver for each measurement: packets of before do not count.
    let receiver = bound(&network.b, to);
    let socket = || UdpSocket::bind(("10.77.0.1", 0)).expect("a socket");
    let sockets: Vec<UdpSocket> = dscps.iter().map(|_| network.a.run(socket).expect("enter")).collect();
    let senders: Vec<(&UdpSocket, u8)> = sockets.iter().zip(dscps.iter().copied()).collect();
    let close = || network.tc(&format!("class change dev m2 {}", datagrams::CLOSED));
    datagrams::Port { to, receiver: &receiver, room, close: &close, open }.departures_of(&senders)
}

/// A strict queue has 98 % of the port: each other one has a rate of its own of a packet every 3 s.
fn assert_precedes(packets: &[usize], queue: usize) {
    let all: usize = packets.iter().sum();
    assert!(packets[queue] * 100 > all * 98, "queue {queue} has the port: {packets:?}");
}

/// Level 1 is m1's alone; m3 is not in the policy.
const LEVELS: &str = "weir: 1
network:
  nic: 20Mb/s
  switches: { buffer: 200kB, queues: 8, scheduler: strict }
  racks: { r1: { uplink: 100Mb/s, machines: [m1, m2] } }
levels: { factors: [1] }
services:
  urgent: { match: [ { protocol: udp, port: 320 } ], level: 1, machines: [m1] }
  web: { match: [ { protocol: tcp, port: 80 } ] }
";

/// A strict queue for the level, below it one of network control; a machine that may not send on the level loses its
/// DSCP value where its packets arrive, and so does one outside the policy.
#[test]
fn levels_have_strict_queues_and_their_senders_alone_may_claim_them() {
    if skipped("levels at a switch") {
        return;
    }
    let _turn = one_at_a_time();
    let network = Network::new();
    network.take_policy(LEVELS);
    let original = network.configuration();
    let mapping = ["--switch", "r1", "--port", "swp1=m1", "--outside", "m2"];
    let apply = |mapping: &[&str]| network.weir(&[&["apply", &network.policy], mapping].concat());
    let done = apply(&mapping);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let shown = text(&network.weir(&[&["show", network.policy.as_str()], &mapping[..]].concat()).stdout);
    insta::assert_snapshot!(shown);
    let arrive = |from: &Netns, to: &Netns, address: [u8; 4], dscp: u8| {
        let to_address = SocketAddr::from((address, PORT));
        let receiver = bound(to, to_address);
        let sender = from.run(|| UdpSocket::bind("0.0.0.0:0").expect("a socket")).expect("enter");
        set_tos(&sender, dscp << 2 | 2);
        sender.send_to(&[dscp; 100], to_address).expect("sent");
        receive(&receiver).expect("a datagram").1
    };
    let both = |dscp| {
        [arrive(&network.a, &network.b, [10, 77, 0, 2], dscp), arrive(&network.b, &network.a, [10, 77, 0, 1], dscp)]
    };
    assert_eq!(both(46), [46 << 2 | 2, 2], "m1 may claim the level, and a machine outside the policy may not");
    assert_eq!(both(10), [10 << 2 | 2; 2]);
    // m2 is in the policy and sends nothing on the level; m1 has no agent.
    let mapping = ["--switch", "r1", "--bridge", "br0", "--without-agent", "m1"];
    assert!(apply(&mapping).status.success());
    assert_eq!(both(46), [2, 2]);
    assert!(network.weir(&["remove", "--bridge", "br0"]).status.success());
    assert_eq!(network.configuration(), original);
}

/// Two services of which one has credits with three quarters of each port.
const CREDITS: &str = "weir: 1
network:
  nic: 20Mb/s
  switches: { forwarders: true, buffer: 300kB, queues: 4, scheduler: { strict: 1, weighted: 3 } }
  racks: { r1: { uplink: 20Mb/s, machines: [m1, m2] } }
credits: { share: 75%, period-max: 40ms }
services:
  store: { match: [ { protocol: tcp, port: 7000 } ], credits: {} }
  web: { match: [ { protocol: tcp, port: 80 } ] }
";

/// Data with credits has the part of the port of which `weir forwarder` grants, beside other traffic that fills the
/// rest; messages precede both.
#[test]
fn data_with_credits_has_its_part_of_a_port_and_messages_precede_it() {
    if skipped("credits at a switch") {
        return;
    }
    let _turn = one_at_a_time();
    let network = Network::new();
    network.take_policy(CREDITS);
    network.on_bridge("apply", &[]);
    insta::assert_snapshot!(network.on_bridge("show", &[]));
    let (policy, _) = Policy::parse("policy.yaml", CREDITS).expect("sound");
    let port = network.switch.run(|| TcSwitch::new("r1").read("m2").expect("a port")).expect("enter");
    let rate = port.rate.expect("a rate");
    assert_eq!(policy.credit_rate(rate), Some(Bandwidth::from_mbps(15)), "R, as `weir forwarder` computes it");
    let plan = policy.credit_plan().expect("credits");
    assert_eq!(plan.obstacles, []);
    assert!(port.queues[&1].buffer >= Some(plan.ports[1].needed(plan.period_max.expect("stated"))));
    // Segments of one frame, so that a round is short.
    for port in ["swp1", "m2"] {
        let offloads = || weir_linux::interface::Interface::named(port).expect("there").set_offloads(false);
        network.switch.run(offloads).expect("enter").expect("offloads");
    }
    let open = || drop(network.on_bridge("apply", &[]));
    open();
    let both = departures(&network, &[0, CREDIT_DATA], 270, &open);
    let ratio = both[1] as f64 / both[0] as f64;
    assert!((ratio / 3.0 - 1.0).abs() < 0.1, "weights 1 and 3: {both:?}");
    let all = departures(&network, &[0, CREDIT_DATA, CREDIT_MESSAGES], 270, &open);
    assert_precedes(&all, 2);
    assert!(network.weir(&["remove", "--bridge", "br0"]).status.success());
}

/// The queues of policies with credits, and what `weir check` reports of them.
#[test]
fn queues_of_credits_are_those_of_the_check() {
    let directory = directory();
    let switches = "forwarders: true, buffer: 300kB, queues: 4, scheduler: { strict: 1, weighted: 3 }";
    let tenants = "tenants: { t: { vms: 1, bandwidth: 1Mb/s, match: [ { vni: 5 } ] } }\n";
    let with = |offer: &str| CREDITS.replace(switches, offer).replace("racks:", "slots: 2\n  racks:");
    let policies = [
        ("weighted", with("forwarders: true, scheduler: weighted")),
        ("strict", with("forwarders: true, buffer: 300kB, scheduler: strict")),
        ("one-queue", with("forwarders: true, buffer: 300kB")),
        ("tenants", with(switches) + tenants),
        ("alone", with(switches).replace("  web: { match: [ { protocol: tcp, port: 80 } ] }\n", "")),
    ];
    let mut all = String::new();
    for (name, policy) in policies {
        let path = file(directory.path(), &format!("{name}.yaml"), &policy);
        let shown = text(&run(&["switch", "show", &path, "--switch", "r1"]).stdout);
        let checked: Value = serde_json::from_slice(&run(&["check", "--json", &path]).stdout).expect("JSON");
        let credits = &checked["credits"];
        all += &format!("{name}\n{shown}queue: {}\nreasons: {}\n\n", credits["queue"], credits["reasons"]);
    }
    insta::assert_snapshot!(all);
}

/// Without CAP_BPF the classes are made, and the program is not loaded, however often that is tried: neither is it for
/// the steps back.
#[test]
fn an_apply_that_fails_in_the_middle_leaves_the_ports_as_they_were() {
    if skipped("an apply that fails") {
        return;
    }
    let _turn = one_at_a_time();
    let network = Network::new();
    let original = network.configuration();
    for (policy, mapping) in [
        (POLICY, &["--bridge", "br0"][..]),
        (LEVELS, &["--bridge", "br0"]),
        (LEVELS, &["--port", "m2", "--outside", "swp1"]),
    ] {
        network.take_policy(policy);
        let mut command = network.switch.command("setpriv").expect("setpriv");
        command.args(["--bounding-set=-all,+net_admin", "--inh-caps=-all", WEIR, "switch", "apply", &network.policy]);
        let output = command.args(["--switch", "r1"]).args(mapping).env("NO_COLOR", "1").output().expect("runs");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("switch r1, port m2, rate: ") && errors.contains("BPF"), "{errors}");
        assert!(errors.contains("all ports are as they were") && errors.contains("hint: run it as root"), "{errors}");
        assert_eq!(network.configuration(), original);
    }
}

/// A part of a configuration that another program damaged is removed and counted.
#[test]
fn remains_of_a_damaged_configuration_are_removed() {
    if skipped("remains of a configuration") {
        return;
    }
    let _turn = one_at_a_time();
    let network = Network::new();
    let original = network.configuration();
    network.on_bridge("apply", &[]);
    let tc = |arguments: &str| network.tc(arguments);
    tc("qdisc del dev m2 root");
    tc("filter del dev m2 egress");
    let remove = || {
        let output = network.weir(&["remove", "--bridge", "br0"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert_eq!(remove(), "removed from 2 of 2 ports\n");
    assert_eq!(network.configuration(), original);
    tc("qdisc add dev swp1 root handle 7773: htb");
    assert_eq!(remove(), "removed from 1 of 2 ports\n");
    assert_eq!(network.configuration(), original);
    assert_eq!(remove(), "removed from 0 of 2 ports\n");
}

/// Commands that change ports do so one after the other.
#[test]
fn apply_waits_for_the_lock_of_the_switch() {
    if skipped("the lock of a switch") {
        return;
    }
    let _turn = one_at_a_time();
    let network = Network::new();
    let lock = network.switch.run(|| SwitchLock::take().expect("locked")).expect("enter");
    let mut command = network.switch.command(WEIR).expect("weir");
    command.args(["switch", "apply", &network.policy, "--switch", "r1", "--bridge", "br0"]);
    let mut applying = command.stdout(std::process::Stdio::null()).spawn().expect("runs");
    pause(500);
    assert!(applying.try_wait().expect("a child").is_none(), "it waits");
    assert_eq!(network.json("diff")["steps"].as_array().map(Vec::len), Some(6), "nothing has changed");
    drop(lock);
    assert!(applying.wait().expect("a child").success());
    assert_eq!(network.json("diff")["steps"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_port_with_another_qdisc_is_refused_and_none_changes() {
    if skipped("a port with another qdisc") {
        return;
    }
    let _turn = one_at_a_time();
    let network = Network::new();
    let mut tc = network.switch.command("tc").expect("tc");
    tc.args([
        "qdisc", "add", "dev", "swp1", "root", "handle", "1:", "tbf", "rate", "1gbit", "burst", "64k", "limit", "64k",
    ]);
    assert!(tc.status().expect("tc").success());
    let original = network.configuration();
    let output = network.weir(&["apply", &network.policy, "--switch", "r1", "--bridge", "br0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("switch r1, port swp1: the qdisc tbf 1: is at its root"));
    assert_eq!(network.configuration(), original);
}

#[test]
fn ports_are_shown_without_a_switch_and_mistakes_are_explained() {
    let directory = directory();
    let policy = file(directory.path(), "policy.yaml", POLICY);
    let topology = file(directory.path(), "topology.yaml", TOPOLOGY);
    let socket = directory.path().join("redis.sock").display().to_string();
    let cases: &[&[&str]] = &[
        &["switch", "show", &policy],
        &["switch", "show", &topology, "--switch", "leaf0"],
        &["switch", "show", &policy, "--switch", "r1", "--json"],
        &["switch", "show", &policy, "--switch", "r2"],
        &["switch", "diff", &policy, "--switch", "r1"],
        &["switch", "diff", &policy, "--switch", "r1", "--port", "swp1=m9"],
        &["switch", "diff", &policy, "--switch", "r1", "--port", "swp1=m1", "--port", "swp2=m1"],
        &["switch", "diff", &policy, "--switch", "r1", "--port", "swp1="],
        &["switch", "diff", &policy, "--switch", "r1", "--driver", "gnmi"],
        &["switch", "diff", &policy, "--switch", "r1", "--driver", "sonic", "--bridge", "br0"],
        &["switch", "diff", &policy, "--switch", "r1", "--port", "swp1=m1", "--redis", "leaf1"],
        &["switch", "diff", &policy, "--switch", "r1", "--driver", "sonic", "--redis", &socket, "--port", "m1"],
        &["switch", "watch", &policy, "--switch", "r1", "--driver", "sonic", "--port", "m1"],
        &["switch", "remove"],
    ];
    let all: Vec<String> = cases
        .iter()
        .map(|arguments| shown(arguments).replace(&directory.path().display().to_string(), "DIR"))
        .collect();
    insta::assert_snapshot!(all.join("\n"));
    assert_eq!(run(cases[5]).status.code(), Some(2));
}

/// The status that a watch writes, once it is as expected.
fn watched(path: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    common::wait_for(what, 60, || {
        found = std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).filter(&holds);
        found.is_some()
    });
    found.expect("it holds")
}

/// A watch that is ended with this.
struct Watch(std::process::Child);

impl Drop for Watch {
    fn drop(&mut self) {
        common::signal(&self.0, libc::SIGTERM);
        // A test that failed may have stopped it.
        common::signal(&self.0, libc::SIGCONT);
        let _ = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test of real processes waits in real time")]
fn pause(milliseconds: u64) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
}

fn status_path(directory: &tempfile::TempDir) -> String {
    directory.path().join("switch.json").to_str().expect("UTF-8").to_owned()
}

/// By port: whether it is in force.
fn in_force(status: &Value) -> BTreeMap<String, bool> {
    let ports = status["ports"].as_array().expect("a list").iter();
    let one = |port: &Value| {
        (port["port"].as_str().expect("a name").to_owned(), port["differs"].as_array().is_none_or(Vec::is_empty))
    };
    ports.map(one).collect()
}

fn are(status: &Value, expected: &[(&str, bool)]) -> bool {
    in_force(status) == expected.iter().map(|(port, is)| ((*port).to_owned(), *is)).collect()
}

const BOTH: [(&str, bool); 2] = [("m1", true), ("m2", true)];

/// A port that loses its queues is reported within a period, `weir top` then shows no bound as in force, and a watch
/// that repairs restores it.
#[test]
fn a_watch_reports_ports_that_lose_their_configuration() {
    if skipped("a watched switch") {
        return;
    }
    let _turn = one_at_a_time();
    let network = Network::new();
    network.take_policy(LEVELS);
    network.on_bridge("apply", &[]);
    let directory = directory();
    let status = status_path(&directory);
    let watching = network.watch(&status, &[]);
    watched(&status, "both ports are in force", |status| are(status, &BOTH));
    network.tc("qdisc del dev m2 root");
    let seen = watched(&status, "the port is reported", |status| are(status, &[("m1", true), ("m2", false)]));
    assert_eq!((&seen["changes_found"], &seen["levels"]), (&1.into(), &serde_json::json!([46])), "{seen}");
    let top = shown(&["top", "--once", "--switch", &status]);
    assert!(top.contains("switch, 1/2 ports in force"), "{top}");
    assert!(top.contains("bounds not in force: switch r1, port m2: not as the policy needs it"), "{top}");
    drop(watching);
    assert!(!std::path::Path::new(&status).exists(), "a status without its writer");
    let repairing = network.watch(&status, &["--repair"]);
    watched(&status, "the port is restored", |status| status["repaired"] == 1 && are(status, &BOTH));
    // A port that is gone keeps no other from being restored.
    network.switch.ip(["link", "set", "m2", "nomaster"]).expect("out of the bridge");
    network.tc("qdisc del dev swp1 root");
    watched(&status, "the other port is restored", |status| {
        status["repaired"] == 2 && are(status, &[("m1", true), ("m2", false)])
    });
    network.switch.ip(["link", "set", "m2", "master", "br0"]).expect("in the bridge");
    watched(&status, "the port is there again", |status| are(status, &BOTH));
    drop(repairing);
    assert_eq!(network.on_bridge("diff", &[]), "nothing to change on 2 ports\n");
}

/// The policy's file and the interfaces of the bridge are taken each period; the file's levels are no part of the
/// policy's fingerprint.
#[test]
fn a_watch_takes_changes_of_levels_and_of_interfaces() {
    if skipped("a watched policy") {
        return;
    }
    let _turn = one_at_a_time();
    let network = Network::new();
    network.take_policy(LEVELS);
    network.on_bridge("apply", &[]);
    let directory = directory();
    let status = status_path(&directory);
    let _watching = network.watch(&status, &["--without-agent", "m1"]);
    // Its re-marking differs from what was applied.
    let first = watched(&status, "the ports are read", |status| are(status, &[("m1", false), ("m2", true)]));
    assert_eq!(first["without_agent"], serde_json::json!(["m1"]));
    network.take_policy(&LEVELS.replace("[1] }", "[1], dscp: [40] }"));
    let other = watched(&status, "both ports differ", |status| are(status, &[("m1", false), ("m2", false)]));
    assert_eq!((&other["levels"], &other["policy"]), (&serde_json::json!([40]), &first["policy"]));
    network.take_policy(&LEVELS.replace("level: 1", "level: 7"));
    let refused = watched(&status, "the file is refused", |status| status["policy_refused"].is_string());
    let why = refused["policy_refused"].as_str().expect("a text");
    assert!(why.starts_with("the policy's file is refused: ") && why.contains("level"), "{why}");
    assert_eq!(refused["levels"], serde_json::json!([40]), "the last policy stays");
    let top = shown(&["top", "--once", "--switch", &status]);
    assert!(top.contains("switch, 0/2 ports in force, policy refused"), "{top}");
    network.take_policy(LEVELS);
    watched(&status, "the first policy is back", |status| {
        status["policy_refused"].is_null() && are(status, &[("m1", false), ("m2", true)])
    });
    // Another cable: the bridge has a port to a machine that the policy does not have, and none to m1.
    network.switch.ip(["link", "set", "swp1", "alias", "m9"]).expect("an alias");
    let seen =
        watched(&status, "a port is missing", |status| are(status, &[("m1", false), ("m2", true), ("m9", false)]));
    let of = |name: &str| {
        let ports = seen["ports"].as_array().expect("a list");
        ports.iter().find(|port| port["port"] == name).expect("there")["differs"][0].clone()
    };
    assert_eq!(
        (of("m1"), of("m9")),
        ("no interface is this port".into(), "swp1: the switch has no port to `m9`".into())
    );
    // As after a reset of the switch.
    network.switch.ip(["link", "del", "br0"]).expect("deleted");
    watched(&status, "no port is there", |status| {
        are(status, &[("m1", false), ("m2", false)])
            && status["ports"].as_array().is_some_and(|ports| ports.iter().all(|port| port["interface"] == ""))
    });
}

/// A watch that repairs puts a new policy on all ports or on none.
#[test]
fn a_repairing_watch_takes_a_policy_on_all_ports_or_none() {
    if skipped("a changed policy on all ports") {
        return;
    }
    let _turn = one_at_a_time();
    let network = Network::new();
    network.take_policy(LEVELS);
    let directory = directory();
    let status = status_path(&directory);
    let repairing = network.watch(&status, &["--repair"]);
    watched(&status, "both ports are configured", |status| are(status, &BOTH));
    let before = network.configuration_of("swp1");
    // Every priority of the program's filter has a filter of another protocol: it cannot be attached again. The watch
    // finds all at once.
    common::signal(&repairing.0, libc::SIGSTOP);
    let add = |priority| format!("filter add dev m2 egress prio {priority} protocol ip bpf bytecode \"1,6 0 0 0\"\n");
    let commands = (11..18).map(add).chain(["filter del dev m2 egress prio 10\n".to_owned(), add(10)]);
    let batch = file(directory.path(), "batch", &commands.collect::<String>());
    network.tc(&format!("-batch {batch}"));
    let other = LEVELS.replace("[1] }", "[1], dscp: [40] }");
    network.take_policy(&other);
    common::signal(&repairing.0, libc::SIGCONT);
    let refused = watched(&status, "the change is refused", |status| status["policy_refused"].is_string());
    let why = refused["policy_refused"].as_str().expect("a text");
    assert!(why.contains("all ports are as they were; it is not tried again"), "{why}");
    assert_eq!(refused["levels"], serde_json::json!([46]));
    assert_eq!(network.configuration_of("swp1"), before);
    network.tc("filter del dev m2 egress");
    watched(&status, "the last policy is complete", |status| {
        status["policy_refused"].is_string() && are(status, &BOTH)
    });
    network.take_policy(&format!("{other}# again\n"));
    watched(&status, "both ports have the new policy", |status| {
        status["policy_refused"].is_null() && are(status, &BOTH) && status["levels"] == serde_json::json!([40])
    });
    assert_eq!(network.on_bridge("diff", &[]), "nothing to change on 2 ports\n");
}
