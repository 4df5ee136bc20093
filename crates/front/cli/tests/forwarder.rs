//! `weir forwarder` on a Linux bridge: real messages and data of three hosts through ports that grant credits.

mod common;
mod program;

use common::{WEIR, one_at_a_time, skipped};
use program::{directory, file, signal, text};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
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
        let mut command = self.switch.command(WEIR).expect("weir");
        command.args(["forwarder", &self.policy, "--interface", "p1=100Mb/s", "--interface", "p2=100Mb/s"]);
        command.args(["--key", &self.key_file, "--status", &self.at("status.json"), "--period", "100ms"]).args(more);
        let log = std::fs::File::create(self.at("log")).expect("a log");
        Daemon(command.env("NO_COLOR", "1").stderr(log).stdout(Stdio::null()).spawn().expect("runs"))
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
        let found = (0..200).any(|_| is() || pause(50));
        assert!(found || is(), "{field} is {:?}, not {value}\n{}", self.status(port, field), self.log());
    }

    fn remove(&self) -> String {
        let mut command = self.switch.command(WEIR).expect("weir");
        let output = command.args(["forwarder", "--remove", "--interface", "p1", "--interface", "p2"]).output();
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
        self.0.wait().expect("ended").code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    assert!(network.remove().contains("removed the state of a forwarder at p2"));
    assert!(network.remove().contains("there is no state of a forwarder at p2"));
    assert_eq!(one.send_data(&two, 5), 5, "no port counts data");
}
