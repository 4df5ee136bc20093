//! A rack of three hosts in namespaces, each with an agent's host, and the traffic between them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_agent::host::{Host, HostContext};
use weir_control::LimitRule;
use weir_control::wire::{Key, Keys};
use weir_forwarder::{Plan, Port};
use weir_linux::interface::Interface;
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::settings::{self, ControlSettings};
use weir_policy::Policy;
use weir_status::PortCredits;
use weir_units::{Bandwidth, MachineId};

const SERVICES: &str = "services:\n  a: { match: [ { port: 5001 }, { port: 5003 } ], credits: {} }\n  \
                        b: { match: [ { port: 5002 } ], credits: { weight: 2 } }\n";
pub(crate) const PLAIN: &str = "";
/// 2 · 50 Mb/s · 40 ms are 500 kB.
pub(crate) const FORWARDERS: &str = ", switches: { forwarders: true, buffer: 600kB }";
/// Mb/s of the interfaces.
pub(crate) const NIC: f64 = 50.0;
/// The period of hosts that share two processors with their traffic.
const PERIOD: weir_units::Duration = weir_units::Duration::from_millis(10);
/// Payload of a datagram; 42 B of headers come on top.
pub(crate) const PAYLOAD: usize = 1_400;
pub(crate) const FRAME: u64 = PAYLOAD as u64 + 42;

/// Hosts m1, m2, m3 at `10.80.0.1` and on, and in `fd00::/64`, on a switch.
pub(crate) struct Rack {
    pub(crate) hosts: Vec<Netns>,
    switch: Netns,
    prefix: Prefix,
    /// The policy's text up to its services.
    network: String,
    pub(crate) policy: Policy,
    /// The same services without credits.
    pub(crate) without: Policy,
    /// p-min of the agents.
    pub(crate) period: weir_units::Duration,
}

impl Rack {
    /// `switches` is that part of the policy's network.
    pub(crate) fn new(prefix: &str, switches: &str) -> Self {
        let racks = "racks: { r: { uplink: 50Mb/s, machines: [m1, m2, m3] } }";
        let text = format!("weir: 1\nnetwork: {{ nic: 50Mb/s, {racks}{switches} }}\n");
        let policy = |rest: &str| {
            let text = format!("{text}{rest}");
            Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0
        };
        let without = SERVICES.replace(", credits: {}", "").replace(", credits: { weight: 2 }", "");
        let (policy, without) = (policy(&format!("credits: {{ period-max: 40ms }}\n{SERVICES}")), policy(&without));
        let prefix = Prefix::new(prefix).expect("a prefix");
        prefix.cleanup().expect("leftovers of an earlier run go");
        let switch = prefix.create("sw").expect("made");
        switch.ip_batch("link add br0 type bridge forward_delay 0\nlink set br0 up").expect("a bridge");
        let host = |number: u8| {
            let host = prefix.create(&format!("m{number}")).expect("made");
            let (port, address) = (format!("p{number}"), format!("10.80.0.{number}/24"));
            connect((&switch, &port, None), (&host, "eth0", Some(&address))).expect("connected");
            switch.ip(["link", "set", &port, "master", "br0"]).expect("a port");
            host.ip(["addr", "add", &format!("fd00::{number}/64"), "dev", "eth0", "nodad"]).expect("an address");
            host.run(|| Interface::named("eth0").expect("there").set_offloads(false)).expect("inside").expect("off");
            host
        };
        let hosts: Vec<Netns> = (1..=3).map(host).collect();
        Self { hosts, switch, prefix, network: text, policy, without, period: PERIOD }
    }

    /// The policy with another service.
    pub(crate) fn policy_with(&self, service: &str) -> Policy {
        let services = SERVICES.replacen("services:\n", &format!("services:\n  {service}\n"), 1);
        let text = format!("{}credits: {{ period-max: 40ms }}\n{services}", self.network);
        Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0
    }

    /// An agent's host on a machine, without the daemon's loop.
    pub(crate) fn install(&self, machine: usize, key: u8) -> Host {
        self.with_context(machine, key, |context| Host::install("eth0", context, false).expect("installed"))
    }

    /// The same policy again, as a reload or a change of tenants' shares does: the epoch stays.
    pub(crate) fn renew(&self, host: &mut Host, machine: usize, key: u8) {
        self.with_context(machine, key, |context| host.renew(context, false).expect("renewed"));
    }

    /// Runs `work` inside a machine's namespace with the context of its agent.
    pub(crate) fn with_context<T: Send>(
        &self,
        machine: usize,
        key: u8,
        work: impl FnOnce(&HostContext<'_>) -> T + Send,
    ) -> T {
        let (policy, keys) = (Arc::new(self.policy.clone()), keys(key));
        let inside = || {
            let socket = UdpSocket::bind(format!("10.80.0.{}:0", machine + 1)).expect("bound");
            let control = ControlSettings {
                listen: socket.local_addr().expect("bound"),
                cookie: settings::cookie(&socket).expect("a cookie"),
                epoch: 1,
                peers: Vec::new(),
                // Without a heartbeat during the test.
                timeout: weir_units::Duration::from_secs(60),
            };
            let context = HostContext {
                policy: &policy,
                machine: MachineId(machine as u32),
                keys: &keys,
                rule: LimitRule::Ceilings,
                control,
                pods: weir_linux::guests::PODS.as_ref(),
                fabric: &Arc::default(),
                backend: None,
                credit_period: self.period,
                tags: None,
                reserved: &[],
            };
            work(&context)
        };
        self.hosts[machine].run(inside).expect("inside")
    }

    /// Runs forwarders at the ports p1 to p3 during `work`; returns its result and the ports' states at the end.
    pub(crate) fn forward<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<PortCredits>) {
        let (ends, open) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let run = || {
            let plan = Plan::of(self.policy.clone(), PERIOD).expect("a plan");
            let link = Bandwidth::from_mbps(NIC as u64);
            let start = |number: u8| {
                let name = format!("p{number}");
                Port::start(&name, plan.port(&name, link).expect("rules"), &keys(7)).expect("a port")
            };
            let mut ports: Vec<Port> = (1..=3).map(start).collect();
            while !ends.load(Ordering::Relaxed) {
                for port in &mut ports {
                    port.round().expect("a round");
                }
                if !open.load(Ordering::Relaxed) {
                    let closed = ports.iter().any(|port| port.status().expect("a status").closed);
                    open.store(!closed, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let states = ports.iter().map(|port| port.status().expect("a status")).collect();
            ports.into_iter().for_each(|port| port.remove().expect("removed"));
            states
        };
        std::thread::scope(|scope| {
            let forwarders = scope.spawn(|| self.switch.run(run).expect("inside"));
            let end = EndOnDrop(ends);
            // Ports grant nothing for the longest lifetime after their start, which takes 5 s a port on a busy machine.
            let is_open = || open.load(Ordering::Relaxed);
            assert!((0..12_000).any(|_| is_open() || forwarders.is_finished() || pause()), "the ports open");
            assert!(is_open(), "the forwarders run");
            let result = work();
            drop(end);
            (result, forwarders.join().expect("no panic"))
        })
    }

    /// Bytes that arrive of each flow (source, destination, family, port) in the time after a warm-up, in Mb/s with
    /// the headers of frames.
    pub(crate) fn rates(&self, flows: &[Traffic], warm: Duration, time: Duration) -> Vec<f64> {
        let (ends, counts) = (AtomicBool::new(false), flows.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
        let (ends, counts) = (&ends, &counts);
        std::thread::scope(|scope| {
            for (flow, count) in flows.iter().zip(counts) {
                let [source, sink] = [&self.hosts[flow.from], &self.hosts[flow.to]];
                let at = flow.address();
                if flow.is_tcp {
                    let listener = sink.run(|| TcpListener::bind(at).expect("bound")).expect("inside");
                    scope.spawn(move || receive(&listener, count, ends));
                    scope.spawn(move || source.run(|| send(at, ends)).expect("inside"));
                } else {
                    let socket = sink.run(|| UdpSocket::bind(at).expect("bound")).expect("inside");
                    scope.spawn(move || receive_datagrams(&socket, count, ends));
                    scope.spawn(move || source.run(|| send_datagrams(at, ends)).expect("inside"));
                }
            }
            std::thread::sleep(warm);
            let read = || counts.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
            let (before, began) = (read(), Instant::now());
            std::thread::sleep(time);
            let (after, elapsed) = (read(), began.elapsed().as_secs_f64());
            ends.store(true, Ordering::Relaxed);
            let rate = |(after, before): (&u64, &u64)| (after - before) as f64 * 8.0 / 1e6 / elapsed;
            after.iter().zip(&before).map(rate).collect()
        })
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        let _ = self.prefix.cleanup();
    }
}

/// Returns false after 10 ms.
pub(crate) fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(10));
    false
}

/// Ends threads, also after a panic.
pub(crate) struct EndOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn keys(key: u8) -> Keys {
    Keys::new(vec![Key::new([key; 32]).expect("a key")]).expect("keys")
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) port: u16,
    pub(crate) is_tcp: bool,
    pub(crate) is_v6: bool,
}

impl Traffic {
    pub(crate) fn address(&self) -> SocketAddr {
        let text = match self.is_v6 {
            true => format!("[fd00::{}]:{}", self.to + 1, self.port),
            false => format!("10.80.0.{}:{}", self.to + 1, self.port),
        };
        text.parse().expect("an address")
    }
}

pub(crate) fn udp(from: usize, to: usize, port: u16) -> Traffic {
    Traffic { from, to, port, is_tcp: false, is_v6: false }
}

pub(crate) fn tcp(from: usize, to: usize, port: u16) -> Traffic {
    Traffic { is_tcp: true, ..udp(from, to, port) }
}

fn send_datagrams(at: SocketAddr, ends: &AtomicBool) {
    let any = if at.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).expect("bound");
    // Packets that wait for credits fill the socket.
    socket.set_write_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    // Less than half of the interfaces' rate is too little to fill a gate: 5 frames each 0.5 ms are 112 Mb/s.
    while !ends.load(Ordering::Relaxed) {
        (0..5).for_each(|_| drop(socket.send_to(&[0; PAYLOAD], at)));
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn receive_datagrams(socket: &UdpSocket, count: &AtomicU64, ends: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let mut buffer = [0; 2 * PAYLOAD];
    while !ends.load(Ordering::Relaxed) {
        if let Ok(length) = socket.recv(&mut buffer) {
            count.fetch_add(length as u64 + FRAME - PAYLOAD as u64, Ordering::Relaxed);
        }
    }
}

fn send(at: SocketAddr, ends: &AtomicBool) {
    let mut stream = TcpStream::connect(at).expect("connected");
    stream.set_write_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    while !ends.load(Ordering::Relaxed) {
        let _ = stream.write(&[0; 16_384]);
    }
}

fn receive(listener: &TcpListener, count: &AtomicU64, ends: &AtomicBool) {
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let mut buffer = [0; 65_536];
    while !ends.load(Ordering::Relaxed) {
        if let Ok(length) = stream.read(&mut buffer) {
            // Segments of 1,448 B with 66 B of headers.
            count.fetch_add(length as u64 * 1_514 / 1_448, Ordering::Relaxed);
        }
    }
}
