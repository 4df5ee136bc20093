//! `weir forwarder` on a Linux bridge: real messages and data of three hosts through ports that grant credits.

mod common;
mod program;

use common::{WEIR, one_at_a_time, skipped};
use program::{directory, file, signal, text};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration as StdDuration;
use weir_credits::wire::{self, CreditKey, Datagram};
use weir_credits::{Allocation, Message, Period, Request, Return};
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::service_number;
use weir_units::{Bytes, Duration, Weight};

/// 2 · 100 Mb/s · 100 ms are 2.5 MB. Grants live for hundreds of milliseconds, for which a thread is hardly late.
const POLICY: &str = "weir: 1
network:
  nic: 100Mb/s
  switches: { forwarders: true, buffer: 3MB }
  racks: { r1: { uplink: 100Mb/s, machines: [m1, m2, m3] } }
credits: { period-max: 100ms }
services:
  store: { match: [ { protocol: udp, port: 7000 } ], credits: {} }
";
/// Another service with credits.
const SPARE: &str = "  spare: { match: [ { protocol: udp, port: 7001 } ], credits: {} }\n";
const DATA: u16 = 7_000;
const PERIOD: Period = Period::from_micros(100_000);
/// C(p) of a port.
const CAPACITY: u64 = 1_250_000;
/// A frame of data, and its payload over IPv4.
const FRAME: u64 = 1_042;
const PAYLOAD: usize = 1_000;

/// Hosts 1 to 3 at the ports p1 to p3 of a bridge.
struct Network {
    hosts: Vec<Netns>,
    switch: Netns,
    policy: String,
    key_file: String,
    key: CreditKey,
    directory: tempfile::TempDir,
}

impl Network {
    fn new() -> Self {
        let directory = directory();
        let policy = file(directory.path(), "policy.yaml", POLICY);
        let key_file = directory.path().join("key").display().to_string();
        let made = Command::new(WEIR).args(["key", &key_file]).output().expect("runs");
        assert!(made.status.success(), "{}", text(&made.stderr));
        let keys = weir_agent::key_file::read(key_file.as_ref()).expect("a key");
        let prefix = Prefix::new("wlfw").expect("a prefix");
        prefix.cleanup().expect("clean up after an earlier run");
        let switch = prefix.create("switch").expect("a namespace");
        switch.ip(["link", "add", "br0", "type", "bridge", "mcast_snooping", "0"]).expect("a bridge");
        switch.ip(["link", "set", "br0", "up"]).expect("up");
        let hosts: Vec<Netns> = (1..=3).map(|host| prefix.create(&format!("h{host}")).expect("a namespace")).collect();
        for (host, netns) in (1u8..).zip(&hosts) {
            let port = format!("p{host}");
            connect((netns, "eth", Some(&format!("10.77.0.{host}/24"))), (&switch, &port, None)).expect("a cable");
            let v6 = format!("fd77::{host}/64");
            netns.ip(["address", "add", &v6, "dev", "eth", "nodad"]).expect("an address");
            switch.ip(["link", "set", &port, "master", "br0"]).expect("in the bridge");
        }
        Self { hosts, switch, policy, key_file, key: keys.signing().credits(), directory }
    }

    fn at(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// `weir forwarder` at the ports p1 and p2.
    fn start(&self, more: &[&str]) -> Daemon {
        self.start_to(Stdio::null(), more)
    }

    fn start_to(&self, output: Stdio, more: &[&str]) -> Daemon {
        let mut command = self.switch.command(WEIR).expect("weir");
        command.args(["forwarder", &self.policy, "--interface", "p1=100Mb/s", "--interface", "p2=100Mb/s"]);
        command.args(["--key", &self.key_file, "--status", &self.at("status.json"), "--period", "100ms"]).args(more);
        let log = std::fs::File::create(self.at("log")).expect("a log");
        command.env("RUST_LOG", "weir=debug");
        Daemon(command.env("NO_COLOR", "1").stderr(log).stdout(output).spawn().expect("runs"))
    }

    /// Waits until the log has a text.
    fn wait_for_log(&self, text: &str) {
        assert!((0..1_200).any(|_| self.log().contains(text) || pause(50)), "{text}: {}", self.log());
    }

    /// The ports of the switch that have pins.
    fn pinned_ports(&self) -> usize {
        let inode = || std::fs::metadata("/proc/thread-self/ns/net").expect("a namespace").ino();
        let start = format!("credits-forwarder-{}-", self.switch.run(inode).expect("enter"));
        let entries = std::fs::read_dir("/sys/fs/bpf/weir").into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&start)).count()
    }

    /// How many of five packets of the spare service arrive at host 2.
    fn send_spare(&self) -> usize {
        let bound = |host: u8, port| {
            let at = SocketAddr::new(address(host, false), port);
            self.hosts[usize::from(host) - 1].run(|| UdpSocket::bind(at)).expect("enter").expect("bound")
        };
        let (from, to) = (bound(1, 0), bound(2, 7_001));
        to.set_read_timeout(Some(StdDuration::from_secs(1))).expect("a timeout");
        for _ in 0..5 {
            from.send_to(&[0; PAYLOAD], SocketAddr::new(address(2, false), 7_001)).expect("sent");
        }
        std::iter::repeat_with(|| to.recv(&mut [0; 2_000])).take_while(Result::is_ok).count()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.at("log")).unwrap_or_default()
    }

    /// A counter or value of the credits of a port, 0 for p1.
    fn status(&self, port: usize, field: &str) -> Option<Value> {
        let text = std::fs::read(self.at("status.json")).ok()?;
        let status: Value = serde_json::from_slice(&text).ok()?;
        status["ports"][port]["credits"].get(field).cloned()
    }

    /// Waits until a value of a port's status is this.
    fn wait_for(&self, port: usize, field: &str, value: impl Into<Value>) {
        let value = value.into();
        let is = || self.status(port, field).as_ref() == Some(&value);
        // On a busy machine the verification of a port takes seconds.
        let found = (0..1_200).any(|_| is() || pause(50));
        assert!(found || is(), "{field} is {:?}, not {value}\n{}", self.status(port, field), self.log());
    }

    /// Writes the policy's file, and has the daemon read its files again.
    fn reload(&self, daemon: &Daemon, policy: &str) {
        std::fs::write(&self.policy, policy).expect("written");
        signal(&daemon.0, libc::SIGHUP);
    }

    /// Waits until the reason of a refusal in the status has a text; without one, until there is none.
    fn wait_for_refusal(&self, reason: Option<&str>) {
        let is = || {
            let text = std::fs::read(self.at("status.json")).unwrap_or_default();
            let status: Value = serde_json::from_slice(&text).unwrap_or_default();
            let refused = status.get("policy_refused").and_then(Value::as_str);
            status.get("name").is_some()
                && refused.is_some() == reason.is_some()
                && refused.unwrap_or_default().contains(reason.unwrap_or_default())
        };
        assert!((0..200).any(|_| is() || pause(50)), "{reason:?}\n{}", self.log());
    }

    fn remove(&self) -> String {
        self.remove_from(&["--interface", "p1", "--interface", "p2"])
    }

    fn remove_from(&self, interfaces: &[&str]) -> String {
        let mut command = self.switch.command(WEIR).expect("weir");
        let output = command.args(["forwarder", "--remove"]).args(interfaces).output();
        let output = output.expect("runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    }
}

struct Daemon(Child);

impl Daemon {
    /// Ends it by a signal, and returns its exit code.
    fn end(mut self, number: i32) -> Option<i32> {
        signal(&self.0, number);
        self.ended()
    }

    /// Waits until it ends by itself, and returns its exit code.
    fn ended(&mut self) -> Option<i32> {
        self.0.wait().expect("ended").code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `work`, and the programs that it starts, on one processor.
fn on_one_processor<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let bound = || {
        // SAFETY: all zeros is an empty set; the calls read and write this set alone.
        let done = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(libc::sched_getcpu() as usize, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
        };
        assert_eq!(done, 0);
        work()
    };
    std::thread::scope(|scope| scope.spawn(bound).join().expect("no panic"))
}

/// Returns false after some milliseconds.
#[expect(clippy::disallowed_methods, reason = "waits for packets and for another program")]
fn pause(millis: u64) -> bool {
    std::thread::sleep(StdDuration::from_millis(millis));
    false
}

fn address(host: u8, ipv6: bool) -> IpAddr {
    match ipv6 {
        true => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host.into()).into(),
        false => Ipv4Addr::new(10, 77, 0, host).into(),
    }
}

/// The sockets of a host for messages and for data.
struct Host<'a> {
    network: &'a Network,
    address: IpAddr,
    messages: UdpSocket,
    data: UdpSocket,
    sequence: u64,
}

impl<'a> Host<'a> {
    fn new(network: &'a Network, host: u8, ipv6: bool) -> Self {
        let address = address(host, ipv6);
        let bound = |port: u16| {
            let socket = network.hosts[usize::from(host) - 1].run(|| UdpSocket::bind(SocketAddr::new(address, port)));
            let socket = socket.expect("enter").expect("bound");
            socket.set_read_timeout(Some(StdDuration::from_secs(1))).expect("a timeout");
            socket
        };
        Self { network, address, messages: bound(wire::PORT), data: bound(DATA), sequence: 0 }
    }

    fn encoded(&mut self, to: IpAddr, message: Message) -> [u8; wire::BYTES] {
        self.sequence += 1;
        let service = service_number("store");
        let datagram = Datagram { service, epoch: 1, sequence: self.sequence, message };
        wire::encode(&datagram, self.address, to, &self.network.key)
    }

    fn send(&mut self, to: &Self, message: Message) {
        let body = self.encoded(to.address, message);
        self.send_body(to, &body);
    }

    fn send_body(&self, to: &Self, body: &[u8]) {
        self.messages.send_to(body, SocketAddr::new(to.address, wire::PORT)).expect("sent");
    }

    /// The next message, if one arrives in time.
    fn received(&self) -> Option<Message> {
        let mut body = [0; 128];
        let (length, from) = self.messages.recv_from(&mut body).ok()?;
        let datagram = wire::decode(&body[..length], from.ip(), self.address, &[self.network.key]);
        Some(datagram.expect("authentic").message)
    }

    fn granted(&self) -> Option<u64> {
        Some(self.allocation()?.allocation.get())
    }

    fn allocation(&self) -> Option<Allocation> {
        match self.received()? {
            Message::Allocation(allocation) => Some(allocation),
            other => panic!("{other:?}"),
        }
    }

    /// Sends packets of data, and returns how many arrive.
    fn send_data(&self, to: &Self, packets: usize) -> usize {
        for _ in 0..packets {
            self.data.send_to(&[0; PAYLOAD], SocketAddr::new(to.address, DATA)).expect("sent");
        }
        let mut buffer = [0; 2_000];
        std::iter::repeat_with(|| to.data.recv(&mut buffer)).take_while(Result::is_ok).count()
    }
}

fn request() -> Message {
    Message::Request(Request { weight: Weight::ONE, clock: 0 })
}

/// What a sender returns of an allocation that no later port cut.
fn returned(clock: u32, bytes: u64) -> Message {
    Message::Return(Return {
        clock,
        period: PERIOD,
        longest: PERIOD,
        potential: Bytes::new(CAPACITY),
        allocation: Bytes::new(bytes),
        queueing: Duration::ZERO,
    })
}

fn allocation(clock: u32) -> Message {
    let bytes = Bytes::new(CAPACITY);
    Message::Allocation(Allocation {
        clock,
        period: PERIOD,
        longest: PERIOD,
        potential: bytes,
        demand: bytes,
        allocation: bytes,
        weight: Weight::ONE,
        queueing: Duration::ZERO,
    })
}

#[test]
fn shares_of_a_bridge_port_over_both_families() {
    if skipped("shares_of_a_bridge_port_over_both_families") {
        return;
    }
    let _alone = one_at_a_time();
    for ipv6 in [false, true] {
        let network = Network::new();
        let daemon = network.start(&[]);
        network.wait_for(1, "closed", false);
        let (mut one, mut two) = (Host::new(&network, 1, ipv6), Host::new(&network, 2, ipv6));
        let mut three = Host::new(&network, 3, ipv6);
        for sender in [&mut one, &mut three] {
            sender.send(&two, request());
            assert_eq!(two.received(), Some(request()));
        }
        // Hosts 1 and 3 send to host 2: port p2 has a half for each once both demands are known.
        let (mut last, mut clock) = (Vec::new(), 0);
        let shares = || {
            let value = |field| network.status(1, field).and_then(|value| value.as_u64()).unwrap_or(0);
            // A share is rounded up in 2^-48 of the port for a millionth of weight.
            (value("flows"), value("level_billionths") / 10)
        };
        // The status is written once a second.
        while clock < 12 || (shares() != (2, 100_000_000) && clock < 200) {
            clock += 1;
            last.clear();
            for sender in [&mut one, &mut three] {
                two.send(sender, allocation(clock));
                let reduced = sender.allocation().expect("it arrives");
                // Later ports have cut nearly all of it: so much less is in this port's budget.
                let back = returned(clock, FRAME);
                sender.send(&two, back);
                assert_eq!(two.received(), Some(back));
                last.push(reduced);
            }
            pause(25);
        }
        for reduced in &last {
            let demand = reduced.demand.get();
            assert!((CAPACITY / 2..=CAPACITY / 2 + 100).contains(&demand), "{last:?}\n{}", network.log());
            assert_eq!(reduced.allocation, reduced.demand);
        }
        assert_eq!(shares(), (2, 100_000_000), "both flows are one service's");
        // Without a request an allocation is of no flow whose data leaves by p1.
        one.send(&two, allocation(1));
        assert_eq!(two.granted(), Some(0));
        network.wait_for(0, "allocations_astray", 1);
        // Forged, of another version, and sent again.
        one.send(&two, returned(clock, FRAME));
        assert_eq!(two.received(), Some(returned(clock, FRAME)));
        let body = two.encoded(one.address, allocation(clock + 1));
        let altered = |byte: usize| {
            let mut altered = body;
            altered[byte] ^= 1;
            altered
        };
        two.send_body(&one, &altered(60));
        two.send_body(&one, &altered(4));
        two.send_body(&one, &body);
        two.send_body(&one, &body);
        assert!(one.granted().is_some_and(|bytes| bytes > 0));
        assert_eq!(one.received(), None);
        for field in ["messages_forged", "messages_other_version", "messages_replayed"] {
            network.wait_for(1, field, 1);
        }
        assert_eq!(daemon.end(libc::SIGTERM), Some(0), "{}", network.log());
        assert!(network.remove().contains("there is no state"), "SIGTERM removes everything");
    }
}

#[test]
fn credits_hold_beyond_the_end_of_the_daemon() {
    if skipped("credits_hold_beyond_the_end_of_the_daemon") {
        return;
    }
    let _alone = one_at_a_time();
    let network = Network::new();
    let daemon = network.start(&["--keep"]);
    network.wait_for(1, "closed", false);
    let (mut one, mut two) = (Host::new(&network, 1, false), Host::new(&network, 2, false));
    assert_eq!(one.send_data(&two, 5), 0, "no data without credits");
    one.send(&two, request());
    assert_eq!(two.received(), Some(request()));
    two.send(&one, allocation(1));
    let granted = one.granted().expect("it arrives");
    assert!(granted > 100 * FRAME, "{granted}");
    assert_eq!(one.send_data(&two, 50), 50);
    network.wait_for(1, "arrived_bytes", 50 * FRAME);
    network.wait_for(1, "dropped_packets", 5);
    // Killed: the programs stay, and the grants.
    daemon.end(libc::SIGKILL);
    one.send(&two, returned(1, granted));
    assert_eq!(two.received(), Some(returned(1, granted)));
    two.send(&one, allocation(2));
    assert!(one.granted().is_some_and(|bytes| bytes > 20 * FRAME));
    assert_eq!(one.send_data(&two, 20), 20);
    let daemon = network.start(&["--keep"]);
    network.wait_for(1, "arrived_bytes", 70 * FRAME);
    assert!(network.log().contains("p2: 100 Mb/s of 100 Mb/s, continues with its grants"), "{}", network.log());
    assert_eq!(daemon.end(libc::SIGTERM), Some(0), "{}", network.log());
    // Kept, and then removed without a trace.
    let removed = network.remove_from(&["--all"]);
    assert_eq!(removed, "removed the state of a forwarder at p1\nremoved the state of a forwarder at p2\n");
    assert_eq!(network.remove_from(&["--all"]), "there is no state of a forwarder\n");
    assert!(network.remove().contains("there is no state of a forwarder at p2"));
    assert_eq!(one.send_data(&two, 5), 5, "no port counts data");
}

#[test]
fn a_signal_replaces_policy_and_keys_without_a_gap() {
    if skipped("a_signal_replaces_policy_and_keys_without_a_gap") {
        return;
    }
    let _alone = one_at_a_time();
    let mut network = Network::new();
    let daemon = network.start(&[]);
    network.wait_for(1, "closed", false);
    let (mut clock, mut sequence) = (0, 0);
    // A return of the last grant, a new one, and data that it covers.
    let mut data_passes = |network: &Network| {
        let (mut one, mut two) = (Host::new(network, 1, false), Host::new(network, 2, false));
        (one.sequence, two.sequence) = (sequence, sequence);
        sequence += 10;
        one.send(&two, if clock == 0 { request() } else { returned(clock, CAPACITY) });
        assert!(two.received().is_some(), "{}", network.log());
        clock += 1;
        two.send(&one, allocation(clock));
        assert!(one.granted().is_some_and(|bytes| bytes > 20 * FRAME), "{}", network.log());
        assert_eq!(one.send_data(&two, 20), 20);
    };
    data_passes(&network);
    network.wait_for(1, "arrived_bytes", 20 * FRAME);

    // Refused as a whole: a mistake, and a policy that takes a restart.
    let mistake = POLICY.replace("credits: {} }", "credits: { weight: 0 } }");
    let longer = POLICY.replace("100ms", "1s");
    for (policy, reason) in [(mistake, "policy.yaml:8:"), (longer, "takes a restart")] {
        network.reload(&daemon, &policy);
        network.wait_for_refusal(Some(reason));
        data_passes(&network);
    }
    assert_eq!(network.status(1, "late_packets"), Some(0.into()));
    assert_eq!(network.status(1, "lossless"), Some(true.into()));

    // Another service has credits, and another key signs; the flow continues.
    let made = Command::new(WEIR).args(["key", &network.key_file, "--add"]).output().expect("runs");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let turned = Command::new(WEIR).args(["key", &network.key_file, "--turn"]).output().expect("runs");
    assert!(turned.status.success(), "{}", text(&turned.stderr));
    network.reload(&daemon, &format!("{POLICY}{SPARE}"));
    network.wait_for_refusal(None);
    network.key = weir_agent::key_file::read(network.key_file.as_ref()).expect("keys").signing().credits();
    data_passes(&network);
    network.wait_for(1, "arrived_bytes", 80 * FRAME);
    assert_eq!(network.status(1, "messages_forged"), Some(0.into()));
    assert_eq!(network.status(1, "closed"), Some(false.into()));
    // From a port of no service.
    let sent = || {
        let bound = network.hosts[0].run(|| UdpSocket::bind(SocketAddr::new(address(1, false), 0)));
        let (socket, to) = (bound.expect("enter").expect("bound"), SocketAddr::new(address(2, false), 7_001));
        (0..5).for_each(|_| assert_eq!(socket.send_to(&[0; PAYLOAD], to).expect("sent"), PAYLOAD));
    };
    sent();
    network.wait_for(1, "dropped_packets", 5);

    // Services without credits have a half of the port, so that it does not drop.
    let other = "  other: { match: [ { protocol: udp, port: 7002 } ] }\n";
    network.reload(&daemon, &format!("{POLICY}{other}"));
    network.wait_for(1, "rate_bps", 50_000_000);
    network.wait_for(1, "lossless", false);
    sent();
    data_passes(&network);
    network.wait_for(1, "arrived_bytes", 100 * FRAME);
    assert_eq!(network.status(1, "late_packets"), Some(5.into()), "5 of a service that has no credits now");
    assert_eq!(daemon.end(libc::SIGTERM), Some(0), "{}", network.log());
}

/// In the second policy data of another service needs credits, without which a port in force drops it.
#[test]
fn starts_that_do_not_succeed_change_no_port() {
    if skipped("starts_that_do_not_succeed_change_no_port") {
        return;
    }
    let _alone = one_at_a_time();
    let network = Network::new();
    let daemon = network.start(&["--keep"]);
    network.wait_for(1, "closed", false);
    assert_eq!(daemon.end(libc::SIGTERM), Some(0), "{}", network.log());
    assert_eq!(network.send_spare(), 5);
    std::fs::write(&network.policy, format!("{POLICY}{SPARE}")).expect("written");
    // The last port does not exist.
    let mut failing = network.start(&["--interface", "absent=100Mb/s"]);
    assert_eq!(failing.ended(), Some(1), "{}", network.log());
    assert!(network.log().contains("absent"), "{}", network.log());
    assert_eq!(network.send_spare(), 5, "{}", network.log());
    // A signal while programs are loaded, with --keep and without.
    for (options, left) in [(&["--keep"][..], 2), (&[], 0)] {
        let interrupted = network.start(options);
        network.wait_for_log("p from");
        assert_eq!(interrupted.end(libc::SIGTERM), Some(0), "{}", network.log());
        assert!(!network.log().contains("continues"), "{}", network.log());
        assert_eq!((network.send_spare(), network.pinned_ports()), (5, left));
    }
    // No other load begins after it.
    let interrupted = on_one_processor(|| network.start(&["--keep"]));
    assert!((0..1_200).any(|_| network.pinned_ports() > 0 || pause(50)), "{}", network.log());
    assert_eq!(interrupted.end(libc::SIGTERM), Some(0), "{}", network.log());
    let log = network.log();
    assert!(log.contains("p1: its programs are verified") && !log.contains("p2: its programs"), "{log}");
    assert_eq!(network.pinned_ports(), 0);
}

#[test]
fn programs_are_removed_after_an_error() {
    if skipped("programs_are_removed_after_an_error") {
        return;
    }
    let _alone = one_at_a_time();
    let network = Network::new();
    let mut daemon = network.start_to(Stdio::piped(), &["--json"]);
    network.wait_for(1, "closed", false);
    // The reader of its standard output ends.
    drop(daemon.0.stdout.take());
    let ended = (0..200).any(|_| daemon.0.try_wait().expect("waited").is_some() || pause(50));
    assert!(ended, "{}", network.log());
    assert!(network.remove().contains("there is no state of a forwarder at p1"), "{}", network.log());
}
