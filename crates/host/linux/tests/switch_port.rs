//! Ports of a Linux switch: configured, read back, changed under load, rolled back, removed; and real packets in
//! queues.

mod common;
#[path = "../../../host/lab/tests/datagrams/mod.rs"]
mod datagrams;

use common::{Cable, skipped};
use datagrams::{bound, receive, set, set_tos};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_linux::netns::Netns;
use weir_linux::port::{PortError, PortEvents, TcSwitch, bridge_ports};
use weir_switch::{
    ApplyError, Capabilities, Driver, DscpMap, DscpSet, PortConfig, PortState, QueueConfig, Rollback, Schedule, Step,
    WriteError, apply, diff, remove,
};
use weir_units::{Bandwidth, Bytes};

const PORT: u16 = 9_000;
/// Low enough for a machine that also compiles: 2,400 packets a second.
const RATE: Bandwidth = Bandwidth::from_mbps(20);

/// Measurements share the CPUs.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queue q has DSCP 8 q.
fn config(schedules: &[Schedule], mark: Option<u64>) -> PortConfig {
    let queue = |&schedule| QueueConfig { schedule, mark: mark.map(Bytes::new), buffer: Some(Bytes::new(200_000)) };
    let mut map = DscpMap::all(0);
    (0..schedules.len() as u8).for_each(|queue| map.assign(8 * queue, queue));
    PortConfig::new(Some(RATE), schedules.iter().map(queue).collect(), map).expect("valid")
}

fn desired(config: PortConfig) -> BTreeMap<String, PortConfig> {
    BTreeMap::from([("eth".to_owned(), config)])
}

fn applied(netns: &Netns, config: PortConfig) -> Vec<Step> {
    netns.run(|| apply(&mut TcSwitch::new("a"), &desired(config)).expect("applied")).expect("enter")
}

fn read(netns: &Netns) -> PortState {
    netns.run(|| TcSwitch::new("a").read("eth").expect("read")).expect("enter")
}

fn tc(netns: &Netns, arguments: &str) -> String {
    let output = netns.command("tc").expect("tc").args(arguments.split(' ')).output().expect("tc");
    assert!(output.status.success(), "tc {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Everything that tc shows of the port; ids of programs and handles of filters aside.
fn shown(netns: &Netns) -> String {
    let filters = ["egress", "ingress"].map(|side| tc(netns, &format!("filter show dev eth {side}"))).concat();
    let filters: Vec<&str> = filters.split_whitespace().filter(|word| word.starts_with("weir")).collect();
    let mut classes: Vec<String> = tc(netns, "class show dev eth").lines().map(str::to_owned).collect();
    classes.sort();
    let mut qdiscs: Vec<String> = tc(netns, "qdisc show dev eth").lines().map(str::to_owned).collect();
    qdiscs.sort();
    [classes, qdiscs, filters.iter().map(|word| (*word).to_owned()).collect()].concat().join("\n")
}

const WEIGHTED: [Schedule; 3] = [Schedule::Weighted(1), Schedule::Weighted(2), Schedule::Weighted(5)];
const MIXED: [Schedule; 4] = [Schedule::Weighted(1), Schedule::Weighted(2), Schedule::Strict, Schedule::Strict];

#[test]
fn configurations_are_read_back_changed_and_removed() {
    if skipped() {
        return;
    }
    let cable = Cable::new("p1");
    let before = shown(&cable.a);
    let strict = [Schedule::Strict; 8];
    let mut last = None;
    for (schedules, mark) in
        [(&WEIGHTED[..], Some(30_000)), (&MIXED, None), (&strict, Some(80_000)), (&WEIGHTED[..1], None)]
    {
        let wanted = config(schedules, mark);
        let steps = applied(&cable.a, wanted.clone());
        assert!(!steps.is_empty());
        assert_eq!(read(&cable.a), *wanted.state());
        assert_eq!(applied(&cable.a, wanted.clone()), [], "nothing is left to do");
        last = Some(wanted);
    }
    // In whole bytes per second the kernel has another rate; it counts as the wanted one.
    let queues = last.expect("one").queues().copied().collect();
    let odd = PortConfig::new(Some(Bandwidth::from_bps(33_333_333)), queues, DscpMap::all(0)).expect("valid");
    applied(&cable.a, odd.clone());
    assert_eq!(read(&cable.a), *odd.state());
    assert!(tc(&cable.a, "class show dev eth").contains("7773:10"));
    cable.a.run(|| remove(&mut TcSwitch::new("a"), &["eth".to_owned()]).expect("removed")).expect("enter");
    assert_eq!(shown(&cable.a), before);
    assert!(read(&cable.a).is_default());
}

#[test]
fn changes_of_a_port_are_events() {
    if skipped() {
        return;
    }
    let cable = Cable::new("pd");
    let mut events = cable.a.run(|| PortEvents::subscribe().expect("subscribed")).expect("enter");
    let mut taken = |port: &str| cable.a.run(|| events.take(std::iter::once(port)).expect("readable")).expect("enter");
    assert!(!taken("eth"), "nothing has changed");
    applied(&cable.a, config(&MIXED, Some(30_000)));
    assert!(taken("eth"), "queues and a program");
    assert!(!taken("eth"), "taken");
    for arguments in [
        "class change dev eth parent 7773:1 classid 7773:10 htb rate 1mbit",
        "filter del dev eth egress",
        "qdisc del dev eth root",
    ] {
        tc(&cable.a, arguments);
        assert!(taken("eth"), "{arguments}");
    }
    tc(&cable.a, "qdisc add dev eth root pfifo");
    assert!(!taken("lo"), "another interface's");
    tc(&cable.a, "qdisc del dev eth root");
    assert!(!taken("absent"), "an interface that is gone");
}

#[test]
fn changes_by_others_are_differences_and_are_healed() {
    if skipped() {
        return;
    }
    let cable = Cable::new("p2");
    let wanted = config(&MIXED, Some(30_000));
    applied(&cable.a, wanted.clone());
    let installed = shown(&cable.a);
    for damage in [
        "class change dev eth parent 7773:1 classid 7773:11 htb rate 2500 ceil 20mbit prio 7 quantum 9999",
        "class change dev eth parent 7773:1 classid 7773:13 htb rate 2500 ceil 1mbit prio 4 quantum 1514",
        "qdisc replace dev eth parent 7773:10 handle 10: bfifo limit 50000",
        "class del dev eth classid 7773:12",
        // A guaranteed rate precedes all turns, and so does a priority before that of more urgent queues.
        "class change dev eth parent 7773:1 classid 7773:11 htb rate 10mbit ceil 20mbit prio 7 quantum 3028",
        "class change dev eth parent 7773:1 classid 7773:12 htb rate 2500 ceil 20mbit prio 3 quantum 1514",
        "class change dev eth parent 7773: classid 7773:1 htb rate 10mbit ceil 20mbit",
        "filter del dev eth egress",
        "filter del dev eth ingress",
        "qdisc del dev eth clsact",
        "qdisc del dev eth root",
    ] {
        tc(&cable.a, damage);
        assert_ne!(read(&cable.a), *wanted.state(), "after tc {damage}");
        assert!(!applied(&cable.a, wanted.clone()).is_empty());
        assert_eq!(read(&cable.a), *wanted.state(), "after tc {damage}");
        assert_eq!(shown(&cable.a), installed, "after tc {damage}");
    }
}

/// What another program leaves of a configuration: by its `tc` commands, and whether a rate remains.
const REMAINS: [(&[&str], bool); 4] = [
    (&["filter del dev eth egress"], true),
    (&["filter del dev eth ingress"], true),
    (&["qdisc del dev eth root", "filter del dev eth egress"], false),
    (&["qdisc del dev eth root", "filter del dev eth ingress"], false),
];

#[test]
fn removal_leaves_nothing_of_a_configuration_that_others_damaged() {
    if skipped() {
        return;
    }
    let cable = Cable::new("pa");
    let before = shown(&cable.a);
    let port = ["eth".to_owned()];
    for (damage, has_rate) in REMAINS {
        for is_applied_again in [false, true] {
            applied(&cable.a, config(&MIXED, Some(30_000)));
            damage.iter().for_each(|command| drop(tc(&cable.a, command)));
            if is_applied_again {
                applied(&cable.a, config(&MIXED, Some(30_000)));
            }
            let swept = || {
                let mut switch = TcSwitch::new("a");
                let steps = remove(&mut switch, &port).expect("removed");
                (steps.len(), switch.sweep("eth").expect("swept"))
            };
            let (steps, swept) = cable.a.run(swept).expect("enter");
            assert_eq!(
                (steps > 0, swept),
                (has_rate || is_applied_again, !has_rate && !is_applied_again),
                "{damage:?}"
            );
            assert_eq!(shown(&cable.a), before, "{damage:?}");
        }
    }
    // An apply that was killed behind its first request.
    tc(&cable.a, "qdisc add dev eth root handle 7773: htb");
    let sweep = || TcSwitch::new("a").sweep("eth").expect("swept");
    assert!(cable.a.run(sweep).expect("enter"));
    assert_eq!(shown(&cable.a), before);
    assert!(!cable.a.run(sweep).expect("enter"), "nothing is left");
    // A clsact of others stays.
    tc(&cable.a, "qdisc add dev eth clsact");
    let before = shown(&cable.a);
    applied(&cable.a, config(&MIXED, None));
    tc(&cable.a, "filter del dev eth egress");
    cable.a.run(|| remove(&mut TcSwitch::new("a"), &port).expect("removed")).expect("enter");
    assert_eq!(shown(&cable.a), before);
}

/// The second of both filters is refused: every priority for it has filters of another protocol.
#[test]
fn program_that_cannot_be_attached_leaves_neither_filter_nor_classes() {
    if skipped() {
        return;
    }
    let cable = Cable::new("pb");
    tc(&cable.a, "qdisc add dev eth clsact");
    for priority in 10..18 {
        let add = format!("filter add dev eth egress prio {priority} protocol ip bpf bytecode");
        let mut command = cable.a.command("tc").expect("tc");
        assert!(command.args(add.split(' ')).arg("1,6 0 0 0").status().expect("tc").success());
    }
    let before = shown(&cable.a);
    let remark = DscpSet::from_bits(1 << 46);
    for config in [config(&MIXED, None).remarking(remark), PortConfig::remark_only(remark)] {
        let error = cable.a.run(|| apply(&mut TcSwitch::new("a"), &desired(config)).expect_err("refused"));
        let error = error.expect("enter");
        assert!(matches!(&error, ApplyError::Failed { rollback: Rollback::Complete, .. }), "{error}");
        assert_eq!(shown(&cable.a), before);
    }
}

/// A watch opens each program that it attaches.
#[test]
fn programs_of_a_port_that_are_replaced_are_closed() {
    if skipped() {
        return;
    }
    let cable = Cable::new("pc");
    // The thread has descriptors of its own: other tests open and close theirs meanwhile.
    let work = || {
        // SAFETY: plain system call without pointers.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
        let open = || std::fs::read_dir("/proc/thread-self/fd").expect("listed").count();
        let mut switch = TcSwitch::new("a");
        let wanted = desired(config(&MIXED, Some(30_000)));
        apply(&mut switch, &wanted).expect("applied");
        let first = open();
        for side in ["egress", "ingress", "egress"] {
            let tc = std::process::Command::new("tc").args(["filter", "del", "dev", "eth", side]).status();
            assert!(tc.expect("tc").success());
            assert!(!apply(&mut switch, &wanted).expect("applied").is_empty());
            assert_eq!(open(), first);
        }
        remove(&mut switch, &["eth".to_owned()]).expect("removed");
        assert!(open() < first);
    };
    cable.a.run(work).expect("enter");
}

#[test]
fn qdiscs_of_others_and_missing_interfaces_are_refused() {
    if skipped() {
        return;
    }
    let cable = Cable::new("p3");
    tc(&cable.a, "qdisc add dev eth root handle 1: tbf rate 100mbit burst 32kb latency 50ms");
    let before = shown(&cable.a);
    let wanted = |port: &str| BTreeMap::from([(port.to_owned(), config(&MIXED, None))]);
    let refused = |port: &str| {
        let apply = || apply(&mut TcSwitch::new("a"), &wanted(port)).expect_err("refused");
        let error = cable.a.run(apply).expect("enter");
        assert!(matches!(error, ApplyError::Unreadable { .. }), "{error}");
        format!("{error}; hint: {}", error.hints().join("; "))
    };
    let foreign = refused("eth");
    assert!(foreign.starts_with("switch a, port eth: the qdisc tbf 1: is at its root"), "{foreign}");
    assert!(foreign.contains("tc qdisc del dev eth root"), "{foreign}");
    assert!(refused("swp9").contains("`ip link` lists"));
    assert_eq!(shown(&cable.a), before);
    tc(&cable.a, "qdisc del dev eth root");
    tc(&cable.a, "qdisc add dev eth ingress");
    assert!(refused("eth").contains("has the qdisc ingress"));
}

/// A driver whose write fails before a step, with all earlier ones done.
struct Failing {
    driver: TcSwitch,
    left: usize,
}

impl Driver for Failing {
    type Error = PortError;

    fn switch(&self) -> &str {
        self.driver.switch()
    }
    fn capabilities(&self) -> Capabilities {
        self.driver.capabilities()
    }
    fn read(&mut self, port: &str) -> Result<PortState, PortError> {
        self.driver.read(port)
    }
    fn write(&mut self, steps: &[Step]) -> Result<(), WriteError<PortError>> {
        for (step, wanted) in steps.iter().enumerate() {
            if self.left == 0 {
                // The rollback is not disturbed.
                self.left = usize::MAX;
                return Err(WriteError { step, error: PortError::NoRate });
            }
            self.left -= 1;
            self.driver.write(std::slice::from_ref(wanted)).map_err(|error| WriteError { step, ..error })?;
        }
        Ok(())
    }
}

#[test]
fn failure_at_any_step_leaves_the_port_as_it_was() {
    if skipped() {
        return;
    }
    let cable = Cable::new("p4");
    let schedules = [&MIXED[..], &WEIGHTED];
    let fresh = shown(&cable.a);
    for (from, to) in [(None, schedules[0]), (Some(schedules[0]), schedules[1])] {
        let remark = DscpSet::from_bits(if from.is_none() { 1 << 46 } else { 1 << 34 });
        let (from, to) = (from.map(|from| config(from, Some(30_000))), config(to, Some(80_000)).remarking(remark));
        if let Some(from) = &from {
            applied(&cable.a, from.clone());
        }
        let (state, before) = (read(&cable.a), shown(&cable.a));
        let one = |state: &PortState| BTreeMap::from([("eth".to_owned(), state.clone())]);
        let steps = diff(&one(&state), &one(to.state()));
        assert!(steps.len() > 4);
        for (fails, step) in steps.iter().enumerate() {
            let fail = || apply(&mut Failing { driver: TcSwitch::new("a"), left: fails }, &desired(to.clone()));
            let error = cable.a.run(fail).expect("enter").expect_err("fails");
            let ApplyError::Failed { rollback, position, .. } = &error else { panic!("{error}") };
            assert_eq!((rollback, position.field), (&Rollback::Complete, Some(step.change.field())));
            assert_eq!(shown(&cable.a), before, "step {fails}: {}", step.change);
            assert_eq!(read(&cable.a), state);
        }
    }
    assert_ne!(shown(&cable.a), fresh);
}

#[test]
fn ports_of_a_bridge_are_listed_with_their_aliases() {
    if skipped() {
        return;
    }
    let cable = Cable::new("p5");
    cable.a.ip(["link", "add", "br0", "type", "bridge"]).expect("a bridge");
    let ports = || cable.a.run(|| bridge_ports("br0").expect("listed")).expect("enter");
    assert_eq!(ports(), []);
    cable.a.ip(["link", "set", "eth", "master", "br0", "alias", "m1"]).expect("in the bridge");
    let shown: Vec<_> = ports().into_iter().map(|port| (port.interface, port.alias)).collect();
    assert_eq!(shown, [("eth".to_owned(), Some("m1".to_owned()))]);
}

/// The packets of each of the first queues that leave while all of them hold packets.
fn departures(cable: &Cable, config: &PortConfig, queues: u8) -> Vec<usize> {
    let to = SocketAddr::from(([10, 77, 0, 2], PORT));
    let receiver = bound(&cable.b, to);
    let socket = || UdpSocket::bind(("10.77.0.1", 0)).expect("a socket");
    let senders: Vec<UdpSocket> = (0..queues).map(|_| cable.a.run(socket).expect("enter")).collect();
    let close = || drop(tc(&cable.a, &format!("class change dev eth {}", datagrams::CLOSED)));
    let open = || assert_ne!(applied(&cable.a, config.clone()), [], "the port was closed");
    datagrams::Port { to, receiver: &receiver, room: 185, close: &close, open: &open }.departures(&senders)
}

#[test]
fn weighted_queues_share_the_port_by_weight_and_change_in_place() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("p6");
    for weights in [[1u16, 2, 5], [3, 1, 4]] {
        let config = config(&weights.map(Schedule::Weighted), None);
        applied(&cable.a, config.clone());
        let packets = departures(&cable, &config, 3);
        let all: usize = packets.iter().sum();
        println!("weights {weights:?}: {packets:?} packets");
        for (weight, packets) in weights.into_iter().zip(packets) {
            let expected = all as f64 * f64::from(weight) / 8.0;
            assert!((packets as f64 / expected - 1.0).abs() < 0.1, "weight {weight}: {packets} of {expected}");
        }
    }
}

#[test]
fn strict_queues_precede_weighted_ones() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("p7");
    let config = config(&MIXED, None);
    applied(&cable.a, config.clone());
    // All four are backlogged: the most urgent one has the port.
    let packets = departures(&cable, &config, 4);
    assert!(packets[3] * 100 > packets.iter().sum::<usize>() * 98, "{packets:?}");
    // Without the strict ones the weights decide.
    let packets = departures(&cable, &config, 2);
    let ratio = packets[1] as f64 / packets[0] as f64;
    assert!((ratio / 2.0 - 1.0).abs() < 0.1, "{packets:?}");
}

/// Each queue marks by its own length: a short one beside a long one does not.
#[test]
fn a_queue_marks_above_its_own_threshold() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("p8");
    applied(&cable.a, config(&[Schedule::Weighted(1), Schedule::Weighted(1)], Some(20_000)));
    let receiver = bound(&cable.b, SocketAddr::from(([10, 77, 0, 2], PORT)));
    let sender = cable.a.run(|| UdpSocket::bind(("10.77.0.1", 0)).expect("a socket")).expect("enter");
    set(&sender, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4_000_000);
    let send = |queue: u8, packets: usize| {
        set_tos(&sender, (8 * queue) << 2 | 2);
        for _ in 0..packets {
            sender.send_to(&[queue; 1_000], ("10.77.0.2", PORT)).expect("sent");
        }
    };
    send(1, 100);
    send(0, 5);
    send(1, 10);
    let arrived: Vec<(u8, u8)> = std::iter::from_fn(|| receive(&receiver)).take(115).collect();
    assert_eq!(arrived.len(), 115);
    let marked = |queue: u8| arrived.iter().filter(|(of, tos)| *of == queue && tos & 3 == 3).count();
    println!("{} and {} marked", marked(0), marked(1));
    assert_eq!(marked(0), 0, "20 kB are 19 packets, and 5 waited");
    assert!((70..=100).contains(&marked(1)), "{} of 110", marked(1));
    let program = cable.a.run(|| TcSwitch::new("a").program("eth").expect("read")).expect("enter").expect("attached");
    let counts = program.counts().expect("counts");
    // Address resolution is in queue 0, too.
    assert!((5..10).contains(&counts[0].packets) && counts[1].packets == 110, "{counts:?}");
    assert_eq!(counts[1].marked, marked(1) as u64);
}

/// A machine that may not claim a DSCP value, behind a port with queues or with the switch's own.
#[test]
fn arriving_packets_lose_values_that_their_sender_may_not_claim() {
    if skipped() {
        return;
    }
    let cable = Cable::new("p9");
    let before = shown(&cable.b);
    let remark = DscpSet::from_bits(1 << 46 | 1 << 34);
    let receiver = bound(&cable.b, SocketAddr::from(([10, 77, 0, 2], PORT)));
    let sender = cable.a.run(|| UdpSocket::bind(("10.77.0.1", 0)).expect("a socket")).expect("enter");
    let arrive = |dscp: u8, ecn: u8| {
        set_tos(&sender, dscp << 2 | ecn);
        sender.send_to(&[dscp; 100], ("10.77.0.2", PORT)).expect("sent");
        let (of, tos) = receive(&receiver).expect("a datagram");
        assert_eq!((of, tos & 3), (dscp, ecn));
        tos >> 2
    };
    for config in [PortConfig::remark_only(remark), config(&MIXED, None).remarking(remark)] {
        applied(&cable.b, config.clone());
        assert_eq!(read(&cable.b), *config.state());
        for ecn in [0, 2] {
            assert_eq!([46, 34, 10, 48].map(|dscp| arrive(dscp, ecn)), [0, 0, 10, 48]);
        }
        let program = cable.b.run(|| TcSwitch::new("a").program("eth").expect("read")).expect("enter");
        assert_eq!(program.expect("attached").remarked().expect("read") % 4, 0);
    }
    cable.b.run(|| remove(&mut TcSwitch::new("a"), &["eth".to_owned()]).expect("removed")).expect("enter");
    assert_eq!((arrive(46, 0), shown(&cable.b)), (46, before));
}
