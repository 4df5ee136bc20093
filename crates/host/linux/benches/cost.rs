//! The cost of a packet in each program, as the kernel measures it (`BPF_PROG_TEST_RUN`): the whole
//! `weir_egress` and `weir_ingress`, with twenty services, receive meters, feedback and ECN.
//!
//! `cargo bench -p weir-linux --bench cost`, as root. A row is the least of [`RUNS`] averages over
//! [`REPEAT`] packets: other load on the machine only adds. The packets are of 64 to 1,514 bytes;
//! the cost does not depend on the size, except where feedback is made and where packets are given
//! departure times. Those rows have small packets, some of which leave together
//! (`datapath/departure.h`, batches), buffers, and packets that have to wait (`datapath/lease.h`).
//!
//! A tenant's packet is to cost [`LEAVING`] at most where it leaves and [`ARRIVING`] where it
//! arrives; the bench fails and names each row above that. Control traffic is exempt: feedback that
//! arrives, and making feedback, at most once in 10 kB.

#[path = "../tests/common/mod.rs"]
mod common;

use common::frames::{KEY, Message, address, control, control_at, ethernet, tcp, udp, with_marker};
use common::groups::Groups;
use common::{Cable, interface, pause, skipped};
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::time::Duration;
use weir_datapath::{Classifier, SipKey};
use weir_linux::class::Sending;
use weir_linux::edt_shaper::{EdtShaper, Egress};
use weir_linux::levels::{HostLevels, ServiceLevels};
use weir_linux::loader::{InterfaceDatapath, LoaderError};
use weir_linux::settings::{Classes, ControlSettings, FeedbackKey};
use weir_linux::shaper::{Backend, ServiceRate};
use weir_policy::{CgroupGlob, Level, Match, Policy};
use weir_shaping::{LevelLimits, ShaperConfig};
use weir_units::{Bandwidth, Bytes, Direction, MachineId, ServiceId, Weight};

const RUNS: usize = 20;
const REPEAT: u32 = 50_000;
const SERVICES: u16 = 20;
/// The port of the last.
const LAST: u16 = 7000 + SERVICES - 1;
/// The ports of a service with a receive limit that no run reaches, and of one whose limit each run exceeds.
const LIMITED: u16 = 7001;
const FLOODED: u16 = 7002;

/// Services are the TCP ports from 7000.
fn policy() -> Policy {
    let service = |i: u16| {
        let limit = match 7000 + i {
            LIMITED => ", machine: { rx: { max: 9Gb/s } }",
            FLOODED => ", machine: { rx: { max: 10kb/s } }",
            _ => "",
        };
        format!("  s{i}: {{ match: [ {{ protocol: tcp, port: {} }} ]{limit} }}\n", 7000 + i)
    };
    let services: String = (0..SERVICES).map(service).collect();
    let text = format!(
        "weir: 1\nnetwork:\n  nic: 10Gb/s\n  racks: {{ r: {{ uplink: 10Gb/s, machines: [a, b] }} }}\n\
         services:\n{services}"
    );
    Policy::parse("policy.yaml", &text).expect("the policy is valid").0
}

/// A packet of 64 bytes has 67 ns at 10 Gb/s: with 150 ns two processors send what the wire takes of the smallest.
const LEAVING: Duration = Duration::from_nanos(150);
/// Packets of buffers of 18 and 64 kB, of which a processor's batch holds some
/// (`datapath/departure.h`); 64 kB is the largest that a run takes.
const PACKETS: [u32; 2] = [12, 43];
/// The same to the receiver with feedback: a buffer exceeds a CPU's part of the burst of the
/// destination limiter, so each buffer takes the lock. One buffer in 100 ns is below the 1 Tb/s
/// of the feedback.
const PACKETS_ALONE: u32 = 6;
/// At a packet of 64 bytes in each 100 ns all wait but the 8 % of a burst, and a run is over before
/// one would wait for longer than may be.
const WAITING: Bandwidth = Bandwidth::from_gbps(2);
/// So long a service has to rest until nothing of a run waits any more.
const REST: Duration = Duration::from_millis(60);
/// Arriving packets have been through the driver and GRO on the same processor already, where a
/// whole packet costs 700 ns: a ninth of that.
const ARRIVING: Duration = Duration::from_nanos(80);

/// What latency levels may add to a packet of no level, and to one of a level (a clock reading and a lock).
const BESIDE_LEVELS: Duration = Duration::from_nanos(10);
const ON_A_LEVEL: Duration = Duration::from_nanos(80);

/// With what an agent loads: the programs of `classes` alone.
fn attach(policy: &Policy, socket: &UdpSocket, classes: Classes) -> InterfaceDatapath {
    let attached = match classes {
        Classes::Edt => InterfaceDatapath::attach(&interface(), None),
        _ => InterfaceDatapath::attach_without_edt(&interface(), None),
    };
    let mut datapath = attached.expect("attach");
    let services = policy.services();
    datapath.set_slots(services.leaves().map(|(id, service)| (id, service.path()))).expect("slots");
    rules(policy, &mut datapath, classes);
    let sending = Sending::over(&interface()).expect("offloads");
    datapath.set_shaper(policy, MachineId(0), &ShaperConfig::parley(policy, None, None), sending).expect("the shaper");
    datapath.set_keys(&[FeedbackKey { id: 7, key: SipKey::new(KEY) }]).expect("keys");
    let control = ControlSettings {
        listen: socket.local_addr().expect("bound"),
        cookie: weir_linux::settings::cookie(socket).expect("a cookie"),
        epoch: 1,
        peers: Vec::new(),
        timeout: weir_units::Duration::from_secs(3600),
    };
    datapath.set_control(&control).expect("control");
    datapath.heartbeat().expect("alive");
    datapath.start_timer().expect("the timer");
    datapath
}

fn rules(policy: &Policy, datapath: &mut InterfaceDatapath, classes: Classes) {
    let classifier = Classifier::of(policy, Some("eth")).expect("supported");
    datapath.set_rules(&classifier, classes).expect("rules");
}

fn main() -> ExitCode {
    if skipped() {
        return ExitCode::SUCCESS;
    }
    let policy = policy();
    let cable = Cable::new("c1");
    let enter = || {
        let socket = UdpSocket::bind(SocketAddr::new(address(1, false), 30_565)).expect("a socket");
        println!("{:<82} {:>8} {:>10}", "", "least", "median");
        let mut above = Vec::new();
        for classes in [Classes::Htb, Classes::Edt] {
            let datapath = attach(&policy, &socket, classes);
            let mut bench = Bench { datapath, hardware: interface().hardware(), sequence: 0, above };
            match classes {
                Classes::Edt => bench.departures(&policy),
                _ => {
                    bench.classes();
                    bench.levels(&policy);
                    bench.cgroups(&policy);
                }
            }
            above = bench.above;
            bench.datapath.remove().expect("removed");
        }
        above
    };
    let above = cable.a.run(enter).expect("enter");
    for row in &above {
        eprintln!("above what is to be reached: {row}");
    }
    if above.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Bench {
    datapath: InterfaceDatapath,
    hardware: [u8; 6],
    /// Of the feedback that was made.
    sequence: u64,
    /// Rows above their permitted cost.
    above: Vec<String>,
}

impl Bench {
    /// A row; `most`: the highest permitted cost of a packet.
    fn row(&mut self, name: &str, direction: Direction, frame: &[u8], most: Option<Duration>) {
        self.row_of(name, most, |datapath| datapath.cost(direction, frame, REPEAT));
    }

    /// The same for a cost that `cost` measures; returns the least.
    fn row_of(
        &mut self,
        name: &str,
        most: Option<Duration>,
        cost: impl Fn(&mut InterfaceDatapath) -> Result<Duration, LoaderError>,
    ) -> Duration {
        let mut run = || {
            // The feedback stays current for the duration of a run.
            self.receive_feedback();
            cost(&mut self.datapath).expect("a test run")
        };
        let mut costs: Vec<Duration> = (0..RUNS).map(|_| run()).collect();
        costs.sort();
        let (least, median) = (costs[0], costs[RUNS / 2]);
        println!("{name:<82} {:>5} ns {:>7} ns", least.as_nanos(), median.as_nanos());
        if let Some(most) = most.filter(|most| least > *most) {
            self.above.push(format!("{name}: {} ns of {}", least.as_nanos(), most.as_nanos()));
        }
        self.datapath.heartbeat().expect("alive");
        least
    }

    /// Delivers feedback of `b` to `a`, in both families, with a rate that drops nothing.
    fn receive_feedback(&mut self) {
        for (ipv6, port) in [(false, 7000), (false, LAST), (true, 7000), (true, LAST)] {
            self.sequence += 1;
            let feedback = control_at(1_000_000_000_000, Message::FeedbackAck, ipv6, port, self.sequence);
            self.datapath.cost(Direction::Rx, &feedback, 1).expect("a test run");
        }
    }

    /// What this host itself sends.
    fn own(&self, ipv6: bool, last: u8, port: u16) -> Vec<u8> {
        let mut frame = tcp(ethernet(ipv6, true), address(1, ipv6), address(last, ipv6), port, 10, 0);
        frame[6..12].copy_from_slice(&self.hardware);
        frame
    }

    fn classes(&mut self) {
        for (ipv6, family) in [(false, "IPv4"), (true, "IPv6")] {
            let [a, b, c] = [1, 2, 3].map(|last| address(last, ipv6));
            let frames = [
                ("first rule", self.own(ipv6, 3, 7000)),
                ("last of 20 rules", self.own(ipv6, 3, LAST)),
                ("no rule", self.own(ipv6, 3, 80)),
                ("a guest's, first rule", tcp(ethernet(ipv6, true), a, c, 7000, 10, 0)),
                ("towards a receiver with feedback, first rule", self.own(ipv6, 2, 7000)),
                ("towards a receiver with feedback, last rule", self.own(ipv6, 2, LAST)),
            ];
            for (name, frame) in frames {
                self.row(&format!("{family} leaves, {name}"), Direction::Tx, &frame, Some(LEAVING));
            }
            let come = |port, ecn| tcp(ethernet(ipv6, true), b, a, port, 10, ecn);
            let frames = [
                ("first rule", come(7000, 0)),
                ("last of 20 rules", come(LAST, 0)),
                ("no rule", come(80, 0)),
                ("first rule, its tenant's own ECT(0)", come(7000, 2)),
                ("first rule, ECT(0), with a marker by chance", with_marker(come(7000, 2))),
            ];
            for (name, frame) in frames {
                self.row(&format!("{family} arrives, {name}"), Direction::Rx, &frame, Some(ARRIVING));
            }
            self.policed(ipv6, family);
            let replayed = control(Message::FeedbackAck, ipv6, 7000, 1);
            self.row(&format!("{family} feedback arrives, replayed"), Direction::Rx, &replayed, None);
            self.feedback_cost(ipv6, family);
        }
    }

    /// Packets to services with a receive limit. Those of senders without Weir read the clock and take a lock.
    fn policed(&mut self, ipv6: bool, family: &str) {
        let [a, b, c] = [1, 2, 3].map(|last| address(last, ipv6));
        let come = |from, port, ecn| tcp(ethernet(ipv6, true), from, a, port, 10, ecn);
        self.sequence += 1;
        let capability = control(Message::EcnCapability, ipv6, LIMITED, self.sequence);
        self.datapath.cost(Direction::Rx, &capability, 1).expect("a test run");
        // Not encapsulated: the program would restore the frame, and a run repeats it on the result.
        let name = format!("{family} arrives under a limit, with Weir");
        self.row(&name, Direction::Rx, &come(b, LIMITED, 0), None);
        for (name, port) in [("passes", LIMITED), ("is dropped", FLOODED)] {
            let name = format!("{family} arrives under a limit, without Weir, {name}");
            self.row(&name, Direction::Rx, &come(c, port, 0), None);
        }
    }

    /// The additional cost of making and sending feedback: the difference between packets with and
    /// without feedback, in runs of one packet each, of many senders.
    fn feedback_cost(&mut self, ipv6: bool, family: &str) {
        let device = interface().index();
        let mut costs = [Vec::new(), Vec::new()];
        for last in (4..=250).cycle().take(8000) {
            let mut frame = tcp(ethernet(ipv6, false), address(last, ipv6), address(1, ipv6), 7000, 1440, 0);
            frame[..6].copy_from_slice(&self.hardware);
            let sent = |bench: &Self| bench.datapath.receive_reading(ServiceId(0)).expect("a meter").feedback_sent;
            let before = sent(self);
            let cost = self.datapath.cost_from(device, &frame, 1).expect("a test run");
            costs[usize::from(sent(self) > before)].push(cost);
        }
        costs.iter_mut().for_each(|costs| costs.sort());
        let [plain, feedback] = costs;
        assert!(feedback.len() >= 20, "{} packets with feedback", feedback.len());
        // Of single runs the least is luck: the twentieth part.
        let added = |part: usize| feedback[feedback.len() / part].saturating_sub(plain[plain.len() / part]).as_nanos();
        let name = format!("{family} feedback for 1,494 B, beside its packet");
        println!("{name:<82} {:>5} ns {:>7} ns", added(20), added(2));
    }

    /// Latency levels: at most [`BESIDE_LEVELS`] more for packets of no level, and [`ON_A_LEVEL`] for those of one. The
    /// level never makes a packet wait.
    fn levels(&mut self, policy: &Policy) {
        let frames = [("first rule", 7000), ("last of 20 rules", LAST), ("no rule", 80)];
        let frames = frames.map(|(name, port)| (name, self.own(false, 3, port)));
        let cost = |datapath: &mut InterfaceDatapath, frame: &[u8]| datapath.cost(Direction::Tx, frame, REPEAT);
        let least =
            |bench: &mut Self, name: &str, frame: &[u8], most| bench.row_of(name, most, |path| cost(path, frame));
        let plain = frames.each_ref().map(|(name, frame)| least(self, &format!("IPv4 leaves, {name}"), frame, None));
        let limits = LevelLimits {
            rate: Bandwidth::from_gbps(10_000),
            burst: Bytes::new(1_000_000),
            epoch: None,
            packet: Bytes::new(1_538),
            framing: Bytes::new(24),
            dscp: 46,
        };
        let sent = |service: ServiceId| (service.0 == 0).then(|| Level::from_index(0));
        let levels_of = |id| ServiceLevels { sent: sent(id), received: sent(id).is_some() };
        let of_service = policy.services().leaves().map(|(id, _)| (id, levels_of(id))).collect();
        let levels = HostLevels { levels: vec![(46, Some(limits))], of_service, segments: Some(8) };
        self.datapath.set_levels(&levels, Classes::Htb).expect("levels");
        for ((name, frame), plain) in frames.iter().zip(plain) {
            let (what, more) = match *name {
                "first rule" => ("on a level", ON_A_LEVEL),
                _ => ("beside levels", BESIDE_LEVELS),
            };
            least(self, &format!("IPv4 leaves {what}, {name}"), frame, Some(plain + more));
        }
        self.datapath.set_levels(&HostLevels::default(), Classes::Htb).expect("none");
    }

    /// Filters by control group: the socket of each packet, of a group that the last filter includes, or none. A run
    /// that departs has a socket of this process; one that arrives has the sockets that are bound here.
    fn cgroups(&mut self, policy: &Policy) {
        if common::groups::skipped() {
            return;
        }
        let groups = Groups::new("cost");
        for name in ["last/a/b", "other/a/b"] {
            groups.make(name);
        }
        let rules = |datapath: &mut InterfaceDatapath, name: &dyn Fn(u16) -> String| {
            let glob = |i| Some(CgroupGlob::new(&groups.path(&name(i))).expect("a glob"));
            let filters: Vec<Match> = (0..SERVICES).map(|i| Match { cgroup: glob(i), ..Match::default() }).collect();
            let order = policy.services().leaves().map(|(id, _)| id).zip(&filters);
            datapath.set_rules(&Classifier::new(order, Some("eth")).expect("supported"), Classes::Htb).expect("rules");
        };
        let last = |i: u16| if i + 1 < SERVICES { i.to_string() } else { "l*".to_owned() };
        rules(&mut self.datapath, &last);
        let leaves = self.own(false, 3, 7000);
        let mut row = |name: &str, group: &str, direction, frame: &[u8], most| {
            let cost =
                |datapath: &mut InterfaceDatapath| groups.within(group, || datapath.cost(direction, frame, REPEAT));
            self.row_of(&format!("IPv4 {name}"), most, cost);
        };
        row("leaves, last of 20 filters by cgroup", "last", Direction::Tx, &leaves, Some(LEAVING));
        row("leaves, from a group two below", "last/a/b", Direction::Tx, &leaves, Some(LEAVING));
        row("leaves, from a group of no filter", "other/a/b", Direction::Tx, &leaves, Some(LEAVING));
        let bind = |group: &str, at: &str| groups.within(group, || UdpSocket::bind(at)).expect("bound");
        let sockets = [("last", 7001), ("last/a/b", 7003), ("other/a/b", 7004)]
            .map(|(group, port)| bind(group, &format!("10.77.0.1:{port}")));
        sockets.iter().for_each(|socket| socket.connect("10.77.0.2:40000").expect("connected"));
        let _any = bind("last", "0.0.0.0:7000");
        let arrivals = [
            ("of a connected socket", 7001),
            ("of one in a group two below", 7003),
            ("of one in a group of no filter", 7004),
            ("of a server", 7000),
            ("without a socket", 7002),
        ];
        let frame = |port| udp(ethernet(false, true), address(2, false), address(1, false), (40_000, port));
        for (name, port) in arrivals {
            let name = format!("arrives, last of 20 filters by cgroup, {name}");
            row(&name, "last", Direction::Rx, &frame(port), None);
        }
        rules(&mut self.datapath, &|i| format!("{}{}", last(i), "/a".repeat(usize::from(i % 3))));
        let mut row = |name: &str, direction, frame: &[u8]| {
            let cost = |datapath: &mut InterfaceDatapath| {
                groups.within("other/a/b", || datapath.cost(direction, frame, REPEAT))
            };
            self.row_of(&format!("IPv4 {name}, from a group of no filter, filters of three depths"), None, cost);
        };
        row("leaves", Direction::Tx, &leaves);
        row("arrives", Direction::Rx, &frame(7004));
        self::rules(policy, &mut self.datapath, Classes::Htb);
    }

    /// Departure times of three kinds of packets: small ones that leave together, each buffer by
    /// itself, and what has to wait.
    fn departures(&mut self, policy: &Policy) {
        let shaper = self.pace(policy, Bandwidth::UNLIMITED, Bandwidth::UNLIMITED);
        for (ipv6, family) in [(false, "IPv4"), (true, "IPv6")] {
            let frames = [
                ("first rule", self.own(ipv6, 3, 7000)),
                ("no rule", self.own(ipv6, 3, 80)),
                ("towards a receiver with feedback", self.own(ipv6, 2, 7000)),
            ];
            for (name, frame) in frames {
                self.row(&format!("{family} leaves by departure time, {name}"), Direction::Tx, &frame, Some(LEAVING));
            }
        }
        let buffers = PACKETS.map(|packets| (packets, "", 3));
        let limited = [1, PACKETS_ALONE].map(|packets| (packets, ", to a receiver with feedback", 2));
        for (packets, receiver, last) in buffers.into_iter().chain(limited) {
            let frame = self.own(false, last, 7000);
            let name = format!("IPv4 leaves by departure time, {packets} × 1,494 B at once{receiver}");
            self.row_of(&name, Some(LEAVING), |datapath| datapath.cost_of_buffer(packets * 1_494, &frame, REPEAT));
        }
        self.assert_none_dropped();
        drop(shaper);
        let shaper = self.pace(policy, Bandwidth::from_gbps(10), WAITING);
        for (receiver, last) in [("", 3), (", to a receiver with feedback", 2)] {
            let frame = self.own(false, last, 7000);
            let name = format!("IPv4 leaves by departure time, waits{receiver}");
            self.row_of(&name, Some(LEAVING), |datapath| {
                pause(REST);
                datapath.cost(Direction::Tx, &frame, REPEAT)
            });
            self.assert_none_dropped();
        }
        drop(shaper);
    }

    /// Gives the interface this rate, and each service at most `max`.
    fn pace(&self, policy: &Policy, nic: Bandwidth, max: Bandwidth) -> EdtShaper {
        let rate = |(service, _)| ServiceRate {
            service,
            slot: self.datapath.slot(service).expect("a slot"),
            min: Bandwidth::ZERO,
            max,
            machine_max: max,
            static_limit: max,
            weight: Weight::ONE,
        };
        let rates: Vec<ServiceRate> = policy.services().leaves().map(rate).collect();
        let sending = Sending::over(&interface()).expect("offloads");
        let egress =
            Egress { nic, shared: Backend::Edt.shared(nic), sharing: policy.sharing(), levels: &[], levelled: &[] };
        EdtShaper::without_fq(&self.datapath, &egress, &rates, sending).expect("rates")
    }

    fn assert_none_dropped(&self) {
        let dropped = self.datapath.counts().expect("counters").beyond_horizon;
        assert_eq!(dropped, 0, "none costs less by being dropped");
    }
}
