//! The cost of a packet in the programs of a forwarder's port, as the kernel measures it (`BPF_PROG_TEST_RUN`).
//!
//! `cargo bench -p weir-linux --bench forwarder`, as root. A row is the least of [`RUNS`] averages over [`REPEAT`]
//! packets: other load on the machine only adds. Such runs repeat one frame, so an allocation is a replay after it was
//! parsed and verified. New allocations have a frame and a run each; the row is the median, with the clock readings of
//! the kernel around a single run.
//!
//! The last rows are of a daemon's round at a port: with one flow, and with a full table of which all flows have
//! shares.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/forwarder/port.rs"]
mod port;

use common::{Cable, skipped};
use port::{CREDIT_KEY, DATA, FRAME, OTHER, PERIOD, Port, RATE, SERVICE, allocation};
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_credits::port_shares::{FlowState, PortShares};
use weir_credits::wire::{self, Datagram};
use weir_credits::{ForwarderSettings, Message, Period, PeriodRule, Request};
use weir_datapath::abi;
use weir_linux::forwarder::{FlowKey, FlowReading, ForwarderPort};
use weir_units::{Bytes, Weight};

const RUNS: usize = 20;
const REPEAT: u32 = 50_000;
/// Fewer, so that a grant covers them.
const FEW: u32 = 200;
/// Allocations, each with a frame of its own.
const ALLOCATIONS: u32 = 2_000;

#[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
fn main() -> ExitCode {
    if skipped() {
        return ExitCode::SUCCESS;
    }
    for ipv6 in [false, true] {
        let cable = Cable::new(&format!("fb{}", u8::from(ipv6)));
        let start = Instant::now();
        let mut port = Port::open(&cable.a, ipv6);
        println!("load and attach: {:?}", start.elapsed());
        println!("instructions verified: {:?}", port.port.verified().expect("known"));
        let family = if ipv6 { "IPv6" } else { "IPv4" };
        let other = port.data_frame(OTHER, FRAME as usize);
        let plain = least(|| port.port.cost(true, &other, REPEAT).expect("a run"));
        println!("{family}, leaving, without credits: {plain:?}");
        let frame = port.data_frame(DATA, FRAME as usize);
        let unknown = least(|| port.port.cost(true, &frame, REPEAT).expect("a run"));
        println!("{family}, leaving, data of a flow without an entry: {unknown:?}");
        port.request();
        let late = least(|| port.port.cost(true, &frame, REPEAT).expect("a run"));
        println!("{family}, leaving, data without a grant: {late:?}");
        // A grant of 6 MB, which a run does not use up; the queues of all runs are below the budget of 25 MB.
        let mut clock = 0;
        let granted = least(|| {
            clock += 1;
            assert!(port.allocate(clock).is_some_and(|bytes| bytes > u64::from(FEW) * FRAME));
            let cost = port.port.cost(true, &frame, FEW).expect("a run");
            port.request_anew();
            cost
        });
        println!("{family}, leaving, data with a grant: {granted:?}, {:?} more", granted.saturating_sub(plain));
        let (plain, repeated, allocated) = allocations(&mut port, &other);
        println!("{family}, arriving, no message: {plain:?}; an allocation again: {repeated:?}; new: {allocated:?}");
        println!("{family}, a round: {}", round(&port));
        fill(&mut port);
        println!("{family}, a round: {}", round(&port));
    }
    ExitCode::SUCCESS
}

/// Makes flows until the table is full, each with an allocation.
fn fill(port: &mut Port) {
    let (_, to) = port.hosts();
    for host in 1..abi::FORWARDER_FLOWS {
        let [.., high, low] = host.to_be_bytes();
        let from = if port.ipv6 {
            IpAddr::from([0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low])
        } else {
            IpAddr::from([10, 78, high, low])
        };
        let request = Message::Request(Request { weight: Weight::ONE, clock: 0 });
        for (message, from, to) in [(request, from, to), (Message::Allocation(allocation(1)), to, from)] {
            port.sequence += 1;
            let datagram = Datagram { service: SERVICE, epoch: 1, sequence: port.sequence, message };
            let frame = port::datagram(from, to, &wire::encode(&datagram, from, to, &CREDIT_KEY));
            let passed = port.port.passed(matches!(message, Message::Request(_)), &frame).expect("a run");
            assert!(passed.is_some());
        }
    }
}

/// The least times of the reading of all flows, and of the computation of their shares after new allocations.
#[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
fn round(port: &Port) -> String {
    let rule = PeriodRule { rate: RATE, least: PERIOD, most: Period::from_micros(2_000_000), frame: Bytes::new(FRAME) };
    let start = ForwarderPort::now();
    let mut shares = PortShares::new(start, ForwarderSettings { rule, memory: 4 }, weir_units::Duration::from_secs(60));
    let (mut count, mut read) = (0, Duration::MAX);
    let computed = least(|| {
        let before = Instant::now();
        let flows = port.port.flows().expect("read");
        read = read.min(before.elapsed());
        count = flows.len();
        let now = ForwarderPort::now();
        let state = |flow: &FlowReading| FlowState {
            key: flow.key,
            service: flow.key.service(),
            left_at: flow.left_at,
            arrived: Some((now, allocation(1))),
            ended: false,
        };
        let states: Vec<FlowState<FlowKey>> = flows.iter().map(state).collect();
        let before = Instant::now();
        shares.round(now, &states);
        before.elapsed()
    });
    format!("{count} flows: {read:?} to read, {computed:?} to compute")
}

fn least(run: impl FnMut() -> Duration) -> Duration {
    std::iter::repeat_with(run).take(RUNS).min().expect("runs")
}

/// A packet without a message that arrives, an allocation that is a repetition, and a new one.
fn allocations(port: &mut Port, other: &[u8]) -> (Duration, Duration, Duration) {
    let plain = least(|| port.port.cost(false, other, REPEAT).expect("a run"));
    let frame = port.allocation_frame(1_000);
    let repeated = least(|| port.port.cost(false, &frame, REPEAT).expect("a run"));
    // In a budget that is full after the first; a grant of 0 takes the same time.
    let mut times: Vec<Duration> = (2_000..2_000 + ALLOCATIONS)
        .map(|clock| {
            let frame = port.allocation_frame(clock);
            port.port.cost(false, &frame, 1).expect("a run")
        })
        .collect();
    times.sort();
    (plain, repeated, times[times.len() / 2])
}
