//! Gates of credits on a real interface: bytes, pace, closing.
#![expect(clippy::disallowed_methods, reason = "tests of a real interface wait in real time")]

mod common;

use common::{Cable, interface, skipped};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use weir_credits::Period;
use weir_credits::host::Gate;
use weir_linux::class::Sending;
use weir_linux::credits::{CreditGates, GateReading, PAIRS_MAX};
use weir_linux::htb::HtbTree;
use weir_units::{Bandwidth, Bytes};

const NIC: Bandwidth = Bandwidth::from_mbps(1_000);
/// Payload of the datagrams, and their bytes on the wire.
const PAYLOAD: usize = 1_458;
const FRAME: u64 = 1_500;
/// The class of gate 0 (`datapath/host/tables.h`, `credits/gates.rs`).
const CLASS: u32 = 0x7765_7000;

/// Sends datagrams into a gate from `a`.
struct Source(UdpSocket);

impl Source {
    fn new(gate: u32) -> Self {
        let socket = UdpSocket::bind("10.77.0.1:0").expect("a socket");
        let class = CLASS + gate;
        // SAFETY: the option is an int, and its size is given.
        let set = unsafe {
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PRIORITY, (&raw const class).cast(), 4)
        };
        assert_eq!(set, 0, "the priority of a class");
        Self(socket)
    }

    fn send(&self, frames: usize) {
        for _ in 0..frames {
            self.0.send_to(&[0; PAYLOAD], "10.77.0.2:9").expect("sent");
        }
    }
}

fn gate(bytes: u64, millis: u32) -> Gate {
    Gate { bytes: Bytes::new(bytes), period: Period::from_micros(millis * 1_000) }
}

/// A small frame by the default class: the kernel serves the whole tree.
fn kick() {
    UdpSocket::bind("10.77.0.1:0").expect("a socket").send_to(&[0; 8], "10.77.0.2:9").expect("sent");
}

fn frames(gates: &mut CreditGates, gate: u32) -> (u64, u64) {
    let readings = gates.read().expect("classes");
    let of = |reading: &&GateReading| reading.gate == gate;
    let reading = readings.iter().find(of).expect("the gate is there");
    (reading.sent / FRAME, reading.waiting.get() / FRAME)
}

/// The frames of a gate once so many have left, and after some more time in which no other may leave.
fn frames_after(gates: &mut CreditGates, gate: u32, sent: u64) -> (u64, u64) {
    for _ in 0..500 {
        if frames(gates, gate).0 >= sent {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(20));
    frames(gates, gate)
}

/// Runs `work` in `a` with two closed gates.
fn with_gates(test: &str, work: impl FnOnce(&mut CreditGates) + Send) {
    let cable = Cable::new(test);
    cable
        .a
        .run(|| {
            let interface = interface();
            let sending = Sending::over(&interface).expect("frames");
            let tree = HtbTree::install(&interface, NIC, &[], &[], sending, false).expect("a tree");
            let mut gates = CreditGates::new(&interface, NIC, sending, 0).expect("a socket");
            gates.add(&[0, 1]).expect("gates");
            work(&mut gates);
            gates.remove(&[0, 1]).expect("removed");
            assert_eq!(gates.read().expect("classes"), []);
            tree.remove().expect("removed");
        })
        .expect("enter");
}

#[test]
fn gates_let_through_their_bytes_and_no_frame_more() {
    if skipped() {
        return;
    }
    with_gates("gby", |gates| {
        let source = Source::new(0);
        source.send(20);
        kick();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(frames(gates, 0), (0, 20), "a closed gate");
        let mut sent = 0;
        // Frames of 1,500 B; below the largest frame on the wire nothing leaves.
        for (bytes, whole) in [(1_514 + 8, 1), (4_499, 2), (4_500, 3), (1_499, 0), (9_000, 6)] {
            gates.set(&[(0, gate(bytes, 1))]).expect("set");
            kick();
            sent += whole;
            assert_eq!(frames_after(gates, 0, sent), (sent, 20 - sent), "after {bytes} B");
        }
        gates.set(&[(0, Gate::CLOSED)]).expect("set");
        source.send(5);
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(frames(gates, 0), (sent, 25 - sent), "closed again");
    });
}

#[test]
fn frames_leave_at_the_pace_of_their_period() {
    if skipped() {
        return;
    }
    with_gates("gpa", |gates| {
        let source = Source::new(0);
        source.send(20);
        // Ten frames in 100 ms: the i-th one leaves 10 · i ms after the first.
        let began = Instant::now();
        gates.set(&[(0, gate(10 * FRAME, 100))]).expect("set");
        kick();
        let mut left = Vec::new();
        while began.elapsed() < Duration::from_secs(10) && left.last().is_none_or(|(_, sent)| *sent < 10) {
            let (sent, _) = frames(gates, 0);
            left.push((began.elapsed().as_millis() as u64, sent));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(left.last().map(|(_, sent)| *sent), Some(10));
        for (after, sent) in &left {
            // The bucket of the peak rate has room for VLAN tags: 22 B here, 0.15 ms.
            assert!(*sent <= (after + 1) / 10 + 1, "{sent} frames after {after} ms: early");
        }
    });
}

#[test]
fn unused_bytes_end_when_the_gate_closes() {
    if skipped() {
        return;
    }
    with_gates("gun", |gates| {
        gates.set(&[(0, gate(90_000, 1)), (1, gate(90_000, 1))]).expect("set");
        gates.set(&[(0, Gate::CLOSED)]).expect("set");
        let sources = [Source::new(0), Source::new(1)];
        sources.iter().for_each(|source| source.send(3));
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!([frames(gates, 0), frames(gates, 1)], [(0, 3), (3, 0)]);
    });
}

/// The thread of a host's credits reads gates in each turn with an allocation: a period is a millisecond.
#[test]
fn gates_are_read_one_by_one() {
    if skipped() {
        return;
    }
    with_gates("grd", |gates| {
        let source = Source::new(1);
        source.send(3);
        let expected = |gates: &mut CreditGates, of: &[u32]| -> Vec<GateReading> {
            let all = gates.read().expect("classes");
            all.into_iter().filter(|reading| of.contains(&reading.gate)).collect()
        };
        let mut made = 2;
        for count in [2, 16, 256, PAIRS_MAX] {
            let more: Vec<u32> = (made..count).collect();
            gates.add(&more).expect("gates");
            made = count;
            assert_eq!(gates.read_some(&[1, 0]).expect("read").len(), 2);
            for of in [vec![], vec![0, 1], (0..count.min(200)).collect()] {
                assert_eq!(gates.read_some(&of).expect("read"), expected(gates, &of));
            }
            let began = Instant::now();
            (0..20).for_each(|_| assert_eq!(gates.read().expect("classes").len(), count as usize));
            let all = began.elapsed() / 20;
            let time = |gates: &mut CreditGates, some: &[u32]| {
                let began = Instant::now();
                (0..20).for_each(|_| assert_eq!(gates.read_some(some).expect("read").len(), some.len()));
                began.elapsed() / 20
            };
            let some: Vec<u32> = (0..count.min(16)).collect();
            let (one, some) = (time(gates, &[0]), time(gates, &some));
            let began = Instant::now();
            let closed: Vec<(u32, Gate)> = (0..count.min(16)).map(|number| (number, Gate::CLOSED)).collect();
            (0..20).for_each(|_| gates.set(&closed).expect("set"));
            let set = began.elapsed() / 20;
            println!("{count} gates: all in {all:.1?}, one in {one:.1?}, 16 in {some:.1?}, set in {set:.1?}");
        }
        // One that does not exist has no reading.
        gates.remove(&(2..PAIRS_MAX).collect::<Vec<_>>()).expect("removed");
        assert_eq!(gates.read_some(&[7, 1, 9]).expect("read"), expected(gates, &[1]));
    });
}

#[test]
fn gates_and_waiting_data_outlive_a_tree() {
    if skipped() {
        return;
    }
    with_gates("gke", |gates| {
        Source::new(0).send(3);
        let interface = interface();
        let sending = Sending::over(&interface).expect("frames");
        // As after the end of an agent that has left its tree.
        HtbTree::install(&interface, NIC, &[], &[], sending, false).expect("a tree").leave();
        assert_eq!([frames(gates, 0), frames(gates, 1)], [(0, 3), (0, 0)]);
        // They are closed again, and keep it.
        gates.set(&[(1, gate(90_000, 1))]).expect("set");
        gates.add(&[0, 1]).expect("closed");
        Source::new(1).send(2);
        kick();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!([frames(gates, 0), frames(gates, 1)], [(0, 3), (0, 2)]);
        gates.set(&[(0, gate(90_000, 1))]).expect("set");
        kick();
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(frames(gates, 0), (3, 0));
    });
}
