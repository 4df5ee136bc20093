//! The receive meter in ticks against a plain model, and its guarantees to services and senders.
//!
//! The model keeps the window as a list of packets and the rate in floating point; it shares no code with
//! `datapath/receive_meter.h`.

use crate::common::Receiver;
use proptest::prelude::*;
use weir_datapath::{FeedbackSampler, InterfaceMeter, ReceiveMeter};
use weir_policy::Sharing;
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

const PARLEY: ShaperParameters = ShaperParameters::PARLEY;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// The rate, and how far integers may be off it.
struct Model {
    capacity: f64,
    /// The capacity when the window opened.
    former: f64,
    rate: f64,
    error: f64,
    interval: u64,
    opened: u64,
    ticked: u64,
    /// (bytes, packets, marked)
    window: Vec<(u64, u32, u32)>,
}

/// A thousandth, at most 10 Mb/s; of small capacities 100 kb/s, at most a fiftieth.
fn floor(capacity: f64) -> f64 {
    (capacity / 1000.0).min(1e7).max((capacity / 50.0).min(1e5))
}

impl Model {
    fn new(now: u64, capacity: u64, interval: u64) -> Self {
        let capacity = capacity as f64;
        let rate = (capacity / 512.0).max(floor(capacity));
        Self { capacity, former: capacity, rate, error: 1.0, interval, opened: now, ticked: now, window: Vec::new() }
    }

    fn floor(&self) -> f64 {
        floor(self.capacity)
    }

    fn set_capacity(&mut self, capacity: u64) {
        let capacity = capacity as f64;
        self.error = (self.error / self.capacity + f64::exp2(-20.0)) * capacity + 1.0;
        self.rate = self.rate / self.capacity * capacity;
        self.capacity = capacity;
        self.rate = self.rate.clamp(self.floor(), capacity);
    }

    fn packet(&mut self, now: u64, bytes: u64, packets: u32, marked: u32) {
        // A tick before the first packet of an instant. What is longer counts as 17 s.
        let elapsed = (now - self.opened).min(1 << 34);
        if now > self.ticked && elapsed >= self.interval && !self.window.is_empty() {
            let bits: u64 = self.window.iter().map(|p| p.0 * 8).sum();
            let sent: u32 = self.window.iter().map(|p| p.1).sum();
            let hit: u32 = self.window.iter().map(|p| p.2).sum();
            let fraction = if sent == 0 { 0.0 } else { f64::from(hit) / f64::from(sent) };
            self.run(bits as f64 / (elapsed as f64 * 1e-9), fraction, elapsed / self.interval);
            self.window.clear();
            self.opened = now;
            self.former = self.capacity;
        }
        self.ticked = now;
        self.window.push((bytes, packets, marked));
    }

    fn run(&mut self, usage: f64, fraction: f64, intervals: u64) {
        let usage = usage * (self.capacity / self.former).min(1.0);
        let (before, room) = (self.rate, self.capacity / usage.max(1.0));
        let factor = (1.0 - 0.5 * (usage - self.capacity) / self.capacity - fraction / 2.0).max(0.0);
        self.rate = (before * factor).clamp(self.floor(), self.capacity);
        self.error = self.error * factor + before * f64::exp2(-18.0) + 1.0;
        let more = (intervals - 1).min(512) as f64;
        let paused = fraction == 0.0 || more >= 32.0;
        if paused && usage < self.capacity {
            let raise = (1.0 - usage / self.capacity) / 2.0;
            let growth = 1.0 + more * raise + more * (more - 1.0) / 2.0 * raise * raise;
            let fill = (before * room).min(self.capacity);
            let grown = (self.rate * growth).min(fill).max(self.rate);
            // The growth (in each of its terms) and what would fill C are rounded as well.
            let rounding = f64::exp2(-18.0) + f64::exp2(-19.0) * (more + more * more / 2.0) / growth;
            self.error = (self.error + self.rate * rounding) * grown / self.rate + 1.0;
            self.rate = grown;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn code_agrees_with_the_model(
        capacity in (6.0..12.6f64).prop_map(|decades| 10f64.powf(decades) as u64),
        interval in prop_oneof![Just(10_000u64), Just(200_000), Just(1_000_000_000), 10_000..1_000_000_000u64],
        load in 0.1..4.0f64,
        packets in prop::collection::vec(
            (0.0..2.0f64, 0..4u32, 0..3u32, prop::bool::weighted(0.01), 0.1..10.0f64), 1..400,
        ),
        pauses in prop::collection::vec((0..400usize, prop_oneof![1.0..40.0f64, 1.0..2000.0f64]), 0..40),
    ) {
        let parameters = ShaperParameters { interval: Duration::from_nanos(interval), ..PARLEY };
        let meter = ReceiveMeter::new(at(5), &parameters, Bandwidth::from_bps(capacity));
        let mut receiver = Receiver::alone(meter);
        let mut model = Model::new(5, capacity, interval);
        let (mut now, mut capacity) = (5, capacity);
        // About ten buffers an interval, of sizes that come to `load` of the capacity.
        let bytes = capacity as f64 * load * interval as f64 * 1e-9 / 8.0 / 10.0;
        for (i, (gap, count, marked, change, by)) in packets.into_iter().enumerate() {
            now += (gap.powi(3) * interval as f64 / 10.0) as u64;
            for (_, intervals) in pauses.iter().filter(|(at, _)| *at == i) {
                now += (intervals * interval as f64) as u64;
            }
            if change {
                capacity = ((capacity as f64 * by) as u64).clamp(1_000_000, 8_000_000_000_000);
                receiver.services[0].meter.set_capacity(Bandwidth::from_bps(capacity));
                model.set_capacity(capacity);
            }
            let marked = marked.min(count);
            receiver.packets(0, at(now), Bytes::new(bytes as u64), count, marked);
            model.packet(now, bytes as u64, count, marked);
            let rate = receiver.rate().bps() as f64;
            prop_assert!((rate - model.rate).abs() <= model.error, "{rate}, model {} ± {}", model.rate, model.error);
            prop_assert!(model.floor().floor() <= rate && rate <= capacity as f64, "outside its clamps");
        }
    }

    /// The overshoot that the header allows, over windows of any length and load, with R above its floor.
    #[test]
    fn overshoot_is_bounded(
        capacity in 100_000_000..=400_000_000_000u64,
        windows in prop::collection::vec(
            (prop_oneof![1.0..1.5f64, 1.0..6.0f64, 1.0..100.0f64], prop_oneof![0.0..1.0f64, 0.9..1.2f64, 1.0..2.5f64]),
            1..300,
        ),
    ) {
        let mut receiver = at_capacity(capacity);
        let floor = (capacity / 1000).min(10_000_000);
        let bound = 2.0 * (capacity as f64 / floor as f64).ln();
        let (mut now, mut overshoot, mut rounding) = (0, 0f64, 0f64);
        for (intervals, load) in windows {
            // All bytes of a window come with the packet that opens it.
            let length = (intervals * 200_000.0) as u64;
            let bytes = (capacity as f64 * load * length as f64 / 8e9) as u64;
            receiver.packets(0, at(now), Bytes::new(bytes), 1, 0);
            let usage = bytes as f64 * 8e9 / length as f64 / capacity as f64;
            // A window above C is counted as one interval: the law runs once for it.
            let counted = if usage > 1.0 { 1.0 } else { length as f64 / 200_000.0 };
            now += length;
            overshoot = (overshoot + (usage - 1.0) * counted).max(0.0);
            rounding += f64::exp2(-17.0);
            let mut after = receiver.clone();
            after.tick(at(now));
            if after.rate().bps() <= floor {
                overshoot = 0.0;
            }
            prop_assert!(overshoot <= bound + rounding, "{overshoot} intervals of C above C, bound {bound}");
        }
    }

    /// A service whose packets are spaced at its capacity or wider is never slowed, whatever their sizes.
    #[test]
    fn rate_stays_at_capacity_while_paced_below_it(
        capacity in 1_000_000..=400_000_000_000u64,
        packets in prop::collection::vec((64..=65_536u64, 0.0..1e6f64), 1..300),
    ) {
        let mut receiver = at_capacity(capacity);
        let mut now = 0;
        for (bytes, pause) in packets {
            receiver.packets(0, at(now), Bytes::new(bytes), 1, 0);
            prop_assert_eq!(receiver.rate(), Bandwidth::from_bps(capacity));
            now += (bytes * 8_000_000_000).div_ceil(capacity) + if pause < 5e5 { 0 } else { pause as u64 };
        }
    }

    /// Nor one that sends bursts at any speed, as long as no T contains more than C.
    #[test]
    fn rate_stays_at_capacity_under_bursts_below_it(
        capacity in 1_000_000_000..=400_000_000_000u64,
        bursts in prop::collection::vec((0.0..=1.0f64, 0.0..1.0f64, 0..3u32), 1..300),
    ) {
        let mut receiver = at_capacity(capacity);
        // One burst in each half of T, of at most what C carries in a quarter.
        let most = capacity as f64 * 50e-6 / 8.0;
        let mut slot = 0;
        for (size, place, skip) in bursts {
            let now = slot * 100_000 + (place * 99_000.0) as u64;
            for i in 0..3 {
                receiver.packets(0, at(now + i * 300), Bytes::new((most * size / 3.0) as u64), 1, 0);
                prop_assert_eq!(receiver.rate(), Bandwidth::from_bps(capacity));
            }
            slot += 1 + u64::from(skip);
        }
    }

    /// On average one feedback packet per 10 kB, whatever the packets' sizes.
    #[test]
    fn feedback_is_proportional_to_bytes(bytes in 64..4_000u64, seed in any::<u32>()) {
        let parameters = ShaperParameters { feedback_interval: Duration::ZERO, ..PARLEY };
        let mut sampler = FeedbackSampler::new(at(0), &parameters, seed);
        let packets = 20_000_000 / bytes;
        let sent = (0..packets).filter(|i| sampler.is_due(at(i * 1000), Bytes::new(bytes))).count();
        prop_assert!((1900..=2100).contains(&sent), "{sent} feedback packets for 20 MB");
    }
}

impl Receiver {
    /// R of the first service.
    fn rate(&self) -> Bandwidth {
        self.services[0].meter.rate()
    }

    /// The same after one more packet, before which a tick counts those until then.
    fn rate_after(&mut self, now: u64, bytes: u64, marked: u32) -> Bandwidth {
        self.packets(0, at(now), Bytes::new(bytes), 1, marked);
        self.rate()
    }
}

/// A meter whose rate is its capacity.
fn at_capacity(capacity: u64) -> Receiver {
    let mut meter = ReceiveMeter::new(at(0), &PARLEY, Bandwidth::UNLIMITED);
    meter.set_capacity(Bandwidth::from_bps(capacity));
    Receiver::alone(meter)
}

#[test]
fn synchronised_senders_get_equal_feedback() {
    // 2 to 40 senders, one packet of 1,500 B each in turn: with a fixed 10 kB, one of seven would receive all feedback.
    for senders in 2..=40usize {
        let mut sampler = FeedbackSampler::new(at(0), &PARLEY, 0);
        let mut received = vec![0u32; senders];
        let rounds = 2000;
        for i in 0..senders * rounds {
            received[i % senders] += u32::from(sampler.is_due(at(i as u64 * 1300), Bytes::new(1500)));
        }
        let mean = rounds as f64 * 0.15;
        let (least, most) = (received.iter().min().copied(), received.iter().max().copied());
        assert!(
            received.iter().all(|n| (f64::from(*n) - mean).abs() < 0.25 * mean),
            "{senders} senders: {least:?} to {most:?}, mean {mean}"
        );
    }
}

#[test]
fn lone_sender_has_the_capacity_after_a_pause() {
    // A hundred senders have brought R down to C/100.
    let mut receiver = at_capacity(9_000_000_000);
    let mut now = 0;
    while receiver.rate() > Bandwidth::from_mbps(90) {
        receiver.packets(0, at(now), Bytes::new(1500), 1, 1);
        now += 1200;
    }
    // The window of before the pause was marked: one step down, and then the pause counts.
    for (pause, fast) in [(1_000_000_000, true), (8_000_000, true), (6_000_000, false)] {
        let mut receiver = receiver.clone();
        receiver.tick(at(now + pause));
        assert_eq!(receiver.rate() == Bandwidth::from_gbps(9), fast, "after {pause} ns: {}", receiver.rate());
    }
    let mut eyeq = Receiver::alone(ReceiveMeter::new(at(0), &ShaperParameters::EYEQ, Bandwidth::from_gbps(9)));
    eyeq.packets(0, at(0), Bytes::new(1500), 1, 0);
    eyeq.tick(at(1_000_000_000));
    assert!(eyeq.rate() > Bandwidth::from_mbps(26) && eyeq.rate() < Bandwidth::from_mbps(27), "EyeQ takes one step");
}

#[test]
fn any_configuration_is_accepted() {
    for parameters in [
        ShaperParameters { interval: Duration::ZERO, catch_up: false, ..PARLEY },
        ShaperParameters { interval: Duration::from_secs(1 << 30), catch_up: true, ..PARLEY },
        ShaperParameters { feedback_bytes: Bytes::ZERO, ..PARLEY },
        ShaperParameters { feedback_bytes: Bytes::new(u64::MAX), ..ShaperParameters::EYEQ },
    ] {
        for capacity in [Bandwidth::ZERO, Bandwidth::from_bps(1), Bandwidth::MAX, Bandwidth::UNLIMITED] {
            for interface in [Bandwidth::UNLIMITED, capacity] {
                let mut interface = InterfaceMeter::new(at(0), &parameters, interface, Sharing::Fill, &[]);
                let mut meter = ReceiveMeter::new(at(0), &parameters, capacity);
                let mut sampler = FeedbackSampler::new(at(0), &parameters, u32::MAX);
                for (now, bytes) in [(0, 0), (u64::MAX, u64::MAX), (7, u64::MAX), (u64::MAX, 1)] {
                    let (now, bytes) = (at(now), Bytes::new(bytes));
                    sampler.is_due(now, bytes);
                    interface.tick_marks(&meter, u32::MAX, u32::MAX, Bandwidth::MAX);
                    interface.tick(now, bytes, Duration::ZERO);
                    interface.tick_meter(&mut meter, now, bytes, u32::MAX, u32::MAX, Duration::ZERO);
                    let (least, most) = (Bandwidth::from_bps(10), meter.capacity());
                    assert!(least <= meter.rate() && meter.rate() <= most, "{} of {most}", meter.rate());
                }
            }
        }
    }
}

/// A meter of 9 Gb/s whose rate has reached it.
fn of_9_gbps(parameters: &ShaperParameters) -> Receiver {
    let mut meter = ReceiveMeter::new(at(0), parameters, Bandwidth::UNLIMITED);
    meter.set_capacity(Bandwidth::from_gbps(9));
    Receiver::alone(meter)
}

#[test]
fn closing_a_window_runs_one_step() {
    // From C = 10 to 9 Gb/s: 9 * (1 - 0.5 * (12 - 9)/9) = 7.5 with 300 kB in 200 µs.
    let mut receiver = of_9_gbps(&PARLEY);
    for i in 0..200 {
        receiver.packets(0, at(i * 1000), Bytes::new(1500), 1, 0);
    }
    assert_eq!(receiver.rate(), Bandwidth::from_gbps(9));
    let rate = receiver.rate_after(200_000, 1500, 0);
    assert_eq!(receiver.services[0].meter.usage(), Bandwidth::from_gbps(12));
    assert!(rate.bps().abs_diff(7_500_000_000) < 20_000, "{rate}");
}

#[test]
fn marks_count_among_ecn_capable_packets() {
    // y = 9 Gb/s (225 kB in 200 µs), 30 of 75 ECN-capable packets marked: 9 * (1 - 0.4/2) = 7.2
    let mut receiver = of_9_gbps(&PARLEY);
    for i in 0..150 {
        let (capable, marked) = (i % 2 == 0, i % 2 == 0 && i < 60);
        receiver.packets(0, at(i * 1000), Bytes::new(1500), u32::from(capable), u32::from(marked));
    }
    let rate = receiver.rate_after(200_000, 1500, 0);
    assert!(rate.bps().abs_diff(7_200_000_000) < 20_000, "{rate}");
}

#[test]
fn rate_starts_low_and_reaches_capacity_after_a_pause() {
    let after_a_pause = |parameters: &ShaperParameters| {
        let meter = ReceiveMeter::new(at(0), parameters, Bandwidth::from_gbps(9));
        assert_eq!(meter.rate(), Bandwidth::from_bps(9_000_000_000 / 512));
        let mut receiver = Receiver::alone(meter);
        receiver.packets(0, at(13_000_000), Bytes::new(64), 1, 0);
        receiver.tick(at(13_000_000));
        receiver.rate()
    };
    assert_eq!(after_a_pause(&PARLEY), Bandwidth::from_gbps(9));
    // EyeQ takes one step, however long the pause was.
    assert!(after_a_pause(&ShaperParameters::EYEQ) < Bandwidth::from_mbps(27));
}

#[test]
fn capacity_below_one_packet_per_interval_is_met() {
    // 1,500 B each 1.2 ms is 10 Mb/s, at T = 200 µs: six intervals a packet.
    let capacity = Bandwidth::from_mbps(10);
    let mut receiver = Receiver::alone(ReceiveMeter::new(at(0), &PARLEY, capacity));
    // R starts low, and the first pause takes it to C.
    receiver.packets(0, at(98_800_000), Bytes::new(1), 1, 0);
    receiver.packets(0, at(100_000_000), Bytes::new(1500), 1, 0);
    for i in 1..100 {
        assert_eq!(receiver.rate_after(100_000_000 + i * 1_200_000, 1500, 0), capacity);
        assert_eq!(receiver.services[0].meter.usage(), capacity);
    }
}

#[test]
fn feedback_is_sent_per_ten_kilobytes_and_per_interval() {
    let by_bytes = ShaperParameters { feedback_interval: Duration::ZERO, ..PARLEY };
    let mut sampler = FeedbackSampler::new(at(0), &by_bytes, 7);
    let sent = (0..20_000).filter(|i| sampler.is_due(at(i * 1000), Bytes::new(1000))).count();
    assert!((1950..=2050).contains(&sent), "{sent} feedback packets for 20 MB");
    // One packet each ms triggers feedback each time, as the mean interval is 100 to 300 µs.
    let mut sampler = FeedbackSampler::new(at(0), &PARLEY, 7);
    assert!((1..100).all(|i| sampler.is_due(at(i * 1_000_000), Bytes::new(64))));
}

#[test]
fn unlimited_meter_has_no_rate() {
    let mut receiver = Receiver::alone(ReceiveMeter::new(at(0), &PARLEY, Bandwidth::UNLIMITED));
    for i in 0..=1000 {
        receiver.packets(0, at(i * 1000), Bytes::new(1500), 1, 1);
        assert_eq!(receiver.rate(), Bandwidth::UNLIMITED);
    }
    assert_eq!(receiver.services[0].meter.usage(), Bandwidth::from_gbps(12));
}

#[test]
fn rate_changes_in_proportion_to_the_capacity() {
    let mut receiver = of_9_gbps(&PARLEY);
    receiver.services[0].meter.set_capacity(Bandwidth::from_gbps(3));
    assert_eq!(receiver.rate(), Bandwidth::from_gbps(3), "from R = C to the new C");
    for i in 0..=200 {
        receiver.packets(0, at(i * 1000), Bytes::new(750), 1, 0); // 6 Gb/s: 3 * (1 - 0.5) = 1.5
    }
    assert!(receiver.rate().bps().abs_diff(1_500_000_000) < 10_000);
    receiver.services[0].meter.set_capacity(Bandwidth::from_gbps(6));
    assert!(receiver.rate().bps().abs_diff(3_000_000_000) < 20_000);
    receiver.services[0].meter.set_capacity(Bandwidth::UNLIMITED);
    assert_eq!(receiver.rate(), Bandwidth::UNLIMITED);
}

/// A share that falls from 4.7 to 0.6 Gb/s within a window: three senders that together fill the former one do not
/// fall to the floor, at which each sends a packet of 1,500 B every 20 ms.
#[test]
fn a_window_counts_against_the_capacity_under_which_it_began() {
    let (before, after) = (Bandwidth::from_mbps(4_700), Bandwidth::from_mbps(600));
    let mut receiver = Receiver::alone(ReceiveMeter::new(at(0), &PARLEY, Bandwidth::UNLIMITED));
    receiver.services[0].meter.set_capacity(before);
    // The window of the first capacity began without one.
    for i in 0..=200 {
        receiver.packets(0, at(i * 1000), Bytes::new(587), 1, 0);
    }
    let full = receiver.rate();
    assert!(full.bps().abs_diff(before.bps()) < 10_000_000, "{full}");
    for i in 201..=300 {
        receiver.packets(0, at(i * 1000), Bytes::new(587), 1, 0);
    }
    receiver.services[0].meter.set_capacity(after);
    let moved = receiver.rate();
    for i in 301..=400 {
        receiver.packets(0, at(i * 1000), Bytes::new(587), 1, 0);
    }
    assert_eq!(receiver.services[0].meter.usage().bps() / 10_000_000, before.bps() / 10_000_000 - 1, "usage is real");
    assert!(receiver.rate().bps().abs_diff(moved.bps()) < 2_000_000, "from {moved} to {}", receiver.rate());
    // The next window is one of the new capacity: 7.8 times that, and the floor.
    for i in 401..=600 {
        receiver.packets(0, at(i * 1000), Bytes::new(587), 1, 0);
    }
    assert_eq!(receiver.rate(), Bandwidth::from_bps(after.bps() / 1000));
}
