//! Meters in the ticks of a timer, with counts of several CPUs, and in a closed loop.

use proptest::prelude::*;
use weir_datapath::{InterfaceMeter, ReceiveMeter, abi};
use weir_policy::{Share, Sharing};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

const TICK: Duration = Duration::from_micros(200);
const SLACK: Duration = Duration::from_micros(100);
const PARLEY: ShaperParameters = ShaperParameters::PARLEY;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// A host with services of these shares.
struct Host {
    interface: InterfaceMeter,
    shares: Vec<Share>,
    meters: Vec<ReceiveMeter>,
}

impl Host {
    fn new(capacity: Bandwidth, shares: Vec<Share>) -> Self {
        let interface = InterfaceMeter::new(Instant::ZERO, &PARLEY, capacity, Sharing::Fill, &shares);
        let meter = |share: &Share| {
            let capacity = interface.share(share, Sharing::Fill);
            ReceiveMeter::new(Instant::ZERO, &PARLEY, capacity)
        };
        let meters = shares.iter().map(meter).collect();
        Self { interface, shares, meters }
    }

    /// As the kernel's timer does it. By service: bytes, packets, marked.
    fn tick(&mut self, now: u64, counted: &[(u64, u32, u32)]) {
        let arrived = |i: &usize| counted[*i].0 > 0;
        let active: Vec<usize> = (0..counted.len()).filter(arrived).collect();
        let committed = Bandwidth::ZERO;
        for &i in &active {
            self.interface.tick_marks(&self.meters[i], counted[i].1, counted[i].2, committed);
        }
        let bytes: u64 = counted.iter().map(|counted| counted.0).sum();
        if bytes > 0 {
            self.interface.tick(at(now), Bytes::new(bytes), SLACK);
        }
        for &i in &active {
            self.meters[i].set_share(self.interface.share(&self.shares[i], Sharing::Fill));
            let (bytes, packets, marks) = counted[i];
            self.interface.tick_meter(&mut self.meters[i], at(now), Bytes::new(bytes), packets, marks, SLACK);
        }
    }
}

fn mbps(rate: Bandwidth) -> u64 {
    (rate.bps() + 500_000) / 1_000_000
}

#[test]
fn the_worked_example() {
    // C = 9 Gb/s, R = 5 by an earlier step; 300 kB in 200 µs: 4.1667.
    let mut host = Host::new(Bandwidth::from_gbps(9), vec![Share::default()]);
    let mut now = 100_000_000;
    host.tick(now, &[(64, 1, 0)]);
    assert_eq!(mbps(host.meters[0].rate()), 9000, "after a pause it is C");
    let mut step = |host: &mut Host, bytes: u64| {
        now += TICK.nanos();
        host.tick(now, &[(bytes, 200, 0)]);
        mbps(host.meters[0].rate())
    };
    // y = 17 Gb/s: 9 * (1 - 0.5 * 8/9) = 5
    assert_eq!(step(&mut host, 425_000), 5000);
    assert_eq!(step(&mut host, 300_000), 4167);
    assert_eq!(step(&mut host, 225_000), 4167);
}

#[test]
fn capacity_below_one_packet_per_tick_is_met() {
    // 1,500 B each 1.2 ms is 10 Mb/s: six ticks a packet, wherever in a tick they fall.
    let capacity = Bandwidth::from_mbps(10);
    let share = Share { max: capacity, ..Share::default() };
    let mut host = Host::new(Bandwidth::from_gbps(9), vec![share]);
    let (mut came, mut lowest) = (83, u64::MAX);
    // R starts low, and the first pause takes it to C. The 83rd packet comes at 99.6 ms.
    host.tick(99_600_000, &[(1, 1, 0)]);
    for tick in 499..20_000u64 {
        let now = tick * TICK.nanos();
        let due = now / 1_200_000;
        host.tick(now, &[(1500 * (due - came), (due - came) as u32, 0)]);
        came = due;
        if tick > 510 {
            lowest = lowest.min(host.meters[0].rate().bps());
        }
    }
    assert_eq!(lowest, capacity.bps());
}

#[test]
fn early_and_late_ticks_lose_no_counts() {
    // 9 Gb/s evenly, ticks up to 30 µs off: R stays at C/2, where y = C of two services of half the interface each.
    let mut host = Host::new(Bandwidth::from_gbps(9), vec![Share::default(), Share::default()]);
    host.tick(100_000_000, &[(64, 1, 0), (64, 1, 0)]);
    let mut last = 100_000_000;
    let offsets = [0, 30_000, -30_000i64, 10_000, -20_000, 25_000, 0, -10_000];
    for tick in 501..5000u64 {
        let now = (tick * TICK.nanos()).saturating_add_signed(offsets[tick as usize % offsets.len()]);
        // 4.5 Gb/s each: 0.5625 B a nanosecond
        let bytes = now * 5625 / 10_000 - last * 5625 / 10_000;
        last = now;
        host.tick(now, &[(bytes, 100, 0), (bytes, 100, 0)]);
        if tick > 510 {
            for meter in &host.meters {
                assert!(mbps(meter.usage()).abs_diff(4500) <= 10, "{} at tick {tick}", meter.usage());
                assert!(meter.rate() >= Bandwidth::from_mbps(4490), "{} at tick {tick}", meter.rate());
            }
        }
    }
}

#[test]
fn own_queue_lowers_r_by_half_at_most() {
    let mut host = Host::new(Bandwidth::from_mbps(9500), vec![Share::default(); 3]);
    let mut now = 100_000_000;
    // In each tick as much of the first two services, in Mb/s, and nothing of the third.
    let mut tick = |host: &mut Host, mbps: u64, marked: u32| {
        now += TICK.nanos();
        let counted = (mbps * 25, 100, marked);
        host.tick(now, &[counted, counted, (0, 0, 0)]);
        host.meters[0].rate().bps() as f64
    };
    for _ in 0..50 {
        tick(&mut host, 4750, 0);
    }
    let before = tick(&mut host, 4750, 0);
    // Two milliseconds of queue: ten windows of the services, two of the interface.
    let queued = (0..10).map(|_| tick(&mut host, 5000, 100)).last().expect("ten");
    // Each may have all of the interface and uses 5 of 9.5 Gb/s: 1 + 0.24 - 0.5 for marks.
    assert!((queued / before / 0.737f64.powi(10) - 1.0).abs() < 0.2, "{queued} after {before}");
    // Little arrives, since senders have no feedback yet. Half is back, less what the
    // interface's two windows took, and 1.45 times that, since 1 of 9 Gb/s is used.
    let drained = tick(&mut host, 1000, 0);
    let back = drained / before / (0.5 * 0.974f64.powi(2) * 1.45);
    assert!((back - 1.0).abs() < 0.05, "{drained} after {before}");
    assert_eq!(host.meters[0].rate(), host.meters[1].rate());
}

#[test]
fn pause_on_a_full_interface_is_no_queue() {
    // What marks of a service that was idle for so many windows, all but the last four full, do to
    // R in three with little of C unused.
    let after = |pause: u64| {
        let mut host = Host::new(Bandwidth::from_mbps(9500), vec![Share::default(); 3]);
        let mut now = 100_000_000;
        let mut tick = |host: &mut Host, mbps: u64, third: (u64, u32, u32)| {
            now += TICK.nanos();
            host.tick(now, &[(mbps * 25, 100, 0), (mbps * 25, 100, 0), third]);
        };
        for i in 0..150 {
            let third = if i < 150 - pause { (150, 1, 0) } else { (0, 0, 0) };
            tick(&mut host, if i < 146 { 4930 } else { 4000 }, third);
        }
        let before = host.interface.rate().bps() as f64;
        for _ in 0..15 {
            tick(&mut host, 4000, (150, 1, 1));
        }
        host.interface.rate().bps() as f64 / before
    };
    assert!(after(30) < 1.0, "{}", after(30));
    assert!(after(40) > 1.15, "{}", after(40));
}

#[test]
fn bursts_do_not_lower_shares() {
    // Of two services at once, 512 kB at the link's rate, all but the first packets marked; then nothing.
    let bursts = |every: u64| {
        let mut host = Host::new(Bandwidth::from_mbps(9500), vec![Share::default(); 2]);
        let mut now = 100_060_000;
        for _ in 0..400 {
            for (tick, counted) in (0..).zip([(52_500, 35, 10), (125_000, 83, 83), (78_500, 52, 52)]) {
                host.tick(now + tick * TICK.nanos(), &[counted, counted]);
            }
            now += every;
        }
        mbps(host.interface.rate())
    };
    for every in [1_200_000, 2_000_000, 10_000_000, 30_000_000, 40_000_000] {
        assert_eq!(bursts(every), 9500, "every {every} ns");
    }
    // Most of C comes: 7 of 10.
    assert!(bursts(600_000) < 9500);
}

/// Senders that follow the feedback a tick later.
fn loop_of(senders: usize, busy: bool) -> (usize, f64) {
    let capacity = Bandwidth::from_gbps(9);
    let share = Share { max: capacity, ..Share::default() };
    // The interface has room: the law at hand is the meter's.
    let mut host = Host::new(Bandwidth::from_gbps(100), vec![share]);
    let mut now = if busy { 1_000_000_000 } else { TICK.nanos() };
    host.tick(now, &[(64, 1, 0)]);
    let (goal, mut settled, mut overshoot) = (9e9 / senders as f64, 0, 0.0);
    for i in 1..=300 {
        now += TICK.nanos();
        // What the link of 10 Gb/s carries.
        let sent = (host.meters[0].rate().bps() as f64 * senders as f64).min(10e9);
        overshoot += (sent / 9e9 - 1.0).max(0.0);
        host.tick(now, &[((sent * TICK.as_secs_f64() / 8.0) as u64, 200, 0)]);
        if (host.meters[0].rate().bps() as f64 - goal).abs() > 1e-4 * goal {
            settled = i;
        }
    }
    (settled + 1, overshoot)
}

#[test]
fn ticks_converge_as_in_the_header_of_receive_meters() {
    for senders in [1, 2, 10, 30, 100] {
        let (intervals, overshoot) = loop_of(senders, false);
        println!("{senders} senders from idle: {intervals} intervals, {overshoot:.2} intervals' worth above C");
        assert!(intervals <= 29 && overshoot < 0.01, "{senders}: {intervals}, {overshoot}");
        let (intervals, overshoot) = loop_of(senders, true);
        println!("{senders} senders from busy: {intervals} intervals, {overshoot:.2} intervals' worth above C");
        // No marks: the link of 10 Gb/s lowers R by 5.6 % an interval (receive_meter.h: 89 for a hundred).
        assert!(intervals <= 90 && overshoot <= 13.8, "{senders}: {intervals}, {overshoot}");
    }
}

#[test]
fn counts_of_all_cpus_are_taken_once() {
    let mut cpus = [abi::Arrivals::default(); 2];
    let mut sum = (0, 0, 0);
    for round in 0..100u64 {
        let mut taken = abi::Taken::default();
        for (cpu, arrivals) in (0u64..).zip(&mut cpus) {
            arrivals.bytes += round * 1500 * cpu;
            arrivals.packets += round * cpu;
            arrivals.marked += round * cpu / 2;
            arrivals.take(&mut taken);
        }
        assert_eq!((taken.bytes, taken.packets, taken.marked), (round * 1500, round as u32, round as u32 / 2));
        sum = (sum.0 + taken.bytes, sum.1 + taken.packets, sum.2 + taken.marked);
    }
    assert_eq!(sum.0, cpus[0].bytes + cpus[1].bytes);
    // A CPU that is between its two additions: the mark is there before its packet.
    let (mut arrivals, mut taken) = (abi::Arrivals { marked: 1, ..abi::Arrivals::default() }, abi::Taken::default());
    arrivals.take(&mut taken);
    assert_eq!((taken.packets, taken.marked), (0, 0));
}

#[test]
fn marks_lower_the_rate() {
    let mut host = Host::new(Bandwidth::from_gbps(9), vec![Share::default()]);
    host.tick(100_000_000, &[(64, 1, 0)]);
    host.tick(100_200_000, &[(225_000, 150, 60)]);
    // 9 * (1 - 0.4 / 2)
    assert_eq!(mbps(host.meters[0].rate()), 7200);
    assert_eq!((host.meters[0].packets(), host.meters[0].marked()), (151, 60));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Evenly spaced packets, however they fall on ticks: windows hold all of them and all of the time.
    #[test]
    fn windows_sum_to_the_rate(gap in 1_000..2_000_000u64, size in 64..1500u64, phase in 0..200_000u64) {
        let share = Share { max: Bandwidth::from_gbps(8), ..Share::default() };
        let mut host = Host::new(Bandwidth::from_gbps(100), vec![share]);
        let (mut next, mut closed, mut bits, mut time) = (phase, 0, 0.0, 0.0);
        for now in (1..=20_000u64).map(|tick| tick * TICK.nanos()) {
            let mut packets = 0;
            while next <= now {
                packets += 1;
                next += gap;
            }
            host.tick(now, &[(packets * size, packets as u32, 0)]);
            if packets > 0 {
                // The first window began before the first packet.
                if closed > 0 {
                    let elapsed = (now - closed) as f64 / 1e9;
                    bits += host.meters[0].usage().bps() as f64 * elapsed;
                    time += elapsed;
                }
                closed = now;
            }
        }
        let rate = size as f64 * 8.0 / (gap as f64 / 1e9);
        prop_assert!((bits / time / rate - 1.0).abs() < 1e-3, "{} for {rate}", bits / time);
    }
}
