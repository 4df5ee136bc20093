//! The rate law against a plain model, and in a closed loop with senders and a queue.
//!
//! The model is the printed formula in floating point; it shares no code with `datapath/rate_law.h`. The loop is a
//! fluid: senders send their demand, at most R, through a link of 10/9 of the capacity with a FIFO queue
//! that marks above 80 kB and drops above its buffer; feedback takes no time.

use proptest::prelude::*;
use weir_datapath::RateLaw;
use weir_shaping::{Alpha, Marks};
use weir_units::{Bandwidth, Bytes, Duration};

const RATE_MAX: u64 = 8_000_000_000_000;
/// 80 kB in bits (Parley Table 1).
const THRESHOLD: f64 = 640_000.0;
const T: Duration = Duration::from_micros(200);
/// "Within 0.01 % of C".
const PRECISION: f64 = 1e-4;

/// R(t+T) = R (1 − α (y − C)/C − b/2), clamped to [10 Mb/s or C/1000, at least 100 kb/s or C/50; C].
fn model(rate: f64, capacity: f64, usage: f64, alpha: f64, marked: f64) -> f64 {
    let next = rate * (1.0 - alpha * (usage - capacity) / capacity - marked / 2.0);
    next.max((capacity / 1000.0).min(1e7).max((capacity / 50.0).min(1e5))).min(capacity)
}

fn law(capacity: u64, marks: Marks) -> RateLaw {
    RateLaw { capacity: Bandwidth::from_bps(capacity), alpha: Alpha::HALF, marks }
}

/// Rates from 10 kb/s to 8 Tb/s, every decade as likely.
fn any_capacity() -> impl Strategy<Value = u64> {
    (4.0..12.903f64).prop_map(|decades| (10f64.powf(decades) as u64).clamp(10_000, RATE_MAX))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn code_agrees_with_the_formula(
        capacity in any_capacity(),
        rate in 0.0..1.0f64,
        usage in prop_oneof![0.0..1.2f64, 0.0..4.0f64, 0.0..1e9f64],
        alpha in 1..=1000u32,
        packets in 1..1_000_000u32,
        marked in 0.0..=1.0f64,
    ) {
        let (rate, usage) = ((rate * capacity as f64) as u64, (usage * capacity as f64) as u64);
        let marked = (marked * f64::from(packets)) as u32;
        let parsed = Alpha::from_thousandths(alpha).expect("in range");
        let law = RateLaw { alpha: parsed, ..law(capacity, Marks::Fraction) };
        let next = law.step(Bandwidth::from_bps(rate), Bandwidth::from_bps(usage), T, marked, packets).bps();
        let fraction = f64::from(marked) / f64::from(packets);
        // The header counts usage up to 16 C; with a smaller α the formula goes on to fall.
        let counted = (usage as f64).min(16.0 * capacity as f64);
        let expected = model(rate as f64, capacity as f64, counted, f64::from(alpha) / 1000.0, fraction);
        // 2^-19 of R by the arithmetic, 1 by rounding; α itself is rounded to 2^-20, times |1 - y/C| <= 15.
        let tolerance = rate as f64 * (f64::exp2(-19.0) + 15.0 * f64::exp2(-20.0)) + 1.0;
        prop_assert!((next as f64 - expected).abs() <= tolerance, "{next}, model {expected}, tolerance {tolerance}");
        prop_assert!(law.floor().bps() <= next && next <= capacity, "outside its clamps");
    }

    /// With α = 1/2, exact in 2^-20, the tolerance is the one that the header states.
    #[test]
    fn error_is_within_the_bound_of_the_header(
        capacity in any_capacity(), rate in 0.0..1.0f64, usage in 0.0..3.0f64, marked in 0..=1000u32,
    ) {
        let (rate, usage) = ((rate * capacity as f64) as u64, (usage * capacity as f64) as u64);
        let law = law(capacity, Marks::Fraction);
        let next = law.step(Bandwidth::from_bps(rate), Bandwidth::from_bps(usage), T, marked, 1000).bps();
        let expected = model(rate as f64, capacity as f64, usage as f64, 0.5, f64::from(marked) / 1000.0);
        let tolerance = rate as f64 * f64::exp2(-19.0) + 1.0;
        prop_assert!((next as f64 - expected).abs() <= tolerance, "{next}, model {expected}");
    }

    /// What is below its capacity and not marked is never slowed, not even by rounding.
    #[test]
    fn rate_never_falls_below_capacity(capacity in any_capacity(), rate in 0.0..=1.0f64, usage in 0.0..=1.0f64) {
        let law = law(capacity, Marks::Fraction);
        let rate = Bandwidth::from_bps((rate * capacity as f64) as u64).max(law.floor());
        let usage = Bandwidth::from_bps((usage * capacity as f64) as u64);
        prop_assert!(law.step(rate, usage, T, 0, 1) >= rate);
        prop_assert_eq!(law.step(law.capacity, usage, T, 0, 1), law.capacity);
    }

    /// EyeQ's form of marks against its own integers' formula in Mb/s, which fb · (3 · rate − rx) / (2 · rate) is.
    #[test]
    fn eyeq_marks_agree_with_its_source(
        capacity in 1_000_000_000..=100_000_000_000u64, rate in 0.0..1.0f64, usage in 0.0..1.2f64,
        elapsed in 200_000..2_000_000u64, marked in 0..=1000u32,
    ) {
        let (rate, usage) = (rate * capacity as f64, usage * capacity as f64);
        let law = law(capacity, Marks::Usage(Bytes::new(45_000)));
        let next = law.step(
            Bandwidth::from_bps(rate as u64), Bandwidth::from_bps(usage as u64),
            Duration::from_nanos(elapsed), marked, 1000,
        );
        let fraction = f64::from(marked) / 1000.0;
        let marks = if marked > 0 { 45_000.0 * 8.0 * (1.0 + fraction) / (elapsed as f64 * 1e-9) } else { 0.0 };
        let rx = (usage + marks).min(3.0 * capacity as f64);
        let expected = rate * (3.0 * capacity as f64 - rx) / (2.0 * capacity as f64);
        let expected = expected.max((capacity as f64 / 1000.0).min(1e7)).min(capacity as f64);
        prop_assert!((next.bps() as f64 - expected).abs() <= rate * f64::exp2(-18.0) + 2.0, "{next}, {expected}");
    }
}

/// Senders, a link with a queue, and the law: what happens interval by interval.
struct Plant {
    law: RateLaw,
    interval: Duration,
    /// Bit/s.
    link: f64,
    /// Bits that the queue holds at most.
    buffer: f64,
    /// What each sender would send, bit/s.
    demands: Vec<f64>,
    rate: u64,
    queue: f64,
}

impl Plant {
    fn new(capacity: u64, demands: Vec<f64>) -> Self {
        Self {
            law: law(capacity, Marks::Fraction),
            interval: T,
            link: capacity as f64 * 10.0 / 9.0,
            // Four thresholds: a shallow switch.
            buffer: 4.0 * THRESHOLD,
            demands,
            rate: (capacity / 512).max(law(capacity, Marks::Fraction).floor().bps()),
            queue: 0.0,
        }
    }

    /// `senders` that send all that they may.
    fn greedy(capacity: u64, senders: usize) -> Self {
        Self::new(capacity, vec![f64::INFINITY; senders])
    }

    fn busy(mut self) -> Self {
        self.rate = self.law.capacity.bps();
        self
    }

    fn level(&self) -> f64 {
        let mut demands = self.demands.clone();
        demands.sort_by(f64::total_cmp);
        let mut left = self.law.capacity.bps() as f64;
        for (i, demand) in demands.iter().enumerate() {
            let share = left / (demands.len() - i) as f64;
            if *demand > share {
                return share;
            }
            left -= demand;
        }
        self.law.capacity.bps() as f64
    }

    /// One interval; returns the usage in bit/s.
    fn step(&mut self) -> f64 {
        let seconds = self.interval.as_secs_f64();
        // A sender's own link is as fast as the receiver's.
        let sent: f64 = self.demands.iter().map(|d| d.min(self.rate as f64).min(self.link)).sum();
        let growth = sent - self.link;
        let over = if growth == 0.0 {
            if self.queue > THRESHOLD { 1.0 } else { 0.0 }
        } else {
            let crossing = ((THRESHOLD - self.queue) / growth).clamp(0.0, seconds) / seconds;
            if growth > 0.0 { 1.0 - crossing } else { crossing }
        };
        let before = self.queue;
        self.queue = (before + growth * seconds).clamp(0.0, self.buffer);
        let usage = ((before - self.queue) / seconds + sent).min(self.link);
        let marked = (over * 1e6) as u32;
        let usage_bps = Bandwidth::from_bps(usage as u64);
        self.rate = self.law.step(Bandwidth::from_bps(self.rate), usage_bps, self.interval, marked, 1_000_000).bps();
        usage
    }

    /// How many intervals until R stays within the precision of the level, and until usage stays within C.
    fn settle(&mut self) -> (usize, usize) {
        let (level, capacity) = (self.level(), self.law.capacity.bps() as f64);
        let (mut settled, mut above) = (0, 0);
        for i in 1..=600 {
            let usage = self.step();
            assert!(self.rate >= self.law.floor().bps() && self.rate <= self.law.capacity.bps());
            if (self.rate as f64 - level).abs() > PRECISION * level {
                settled = i;
            }
            if usage > capacity * (1.0 + PRECISION) {
                above = i;
            }
        }
        (settled + 1, above)
    }

    /// What the buffer takes to drain, in intervals.
    fn drain(&self) -> f64 {
        self.buffer / (self.link * self.interval.as_secs_f64())
    }
}

const CAPACITIES: [u64; 8] = [
    100_000_000,
    1_000_000_000,
    2_500_000_000,
    9_000_000_000,
    22_500_000_000,
    36_000_000_000,
    90_000_000_000,
    400_000_000_000,
];

/// The worst over 1 to 100 senders: (intervals to settle, intervals above C).
fn worst(make: impl Fn(usize) -> Plant) -> (usize, usize) {
    (1..=100).map(|n| make(n).settle()).fold((0, 0), |worst, one| (worst.0.max(one.0), worst.1.max(one.1)))
}

#[test]
fn idle_start_converges_within_30_intervals_without_overshoot() {
    for capacity in CAPACITIES {
        let (settled, above) = worst(|n| Plant::greedy(capacity, n));
        assert_eq!((settled, above), (29, 0), "at {capacity} bit/s");
    }
    // From 10 Mb/s at 9 Gb/s a lone sender takes 31: why R starts at C/512.
    let mut slow = Plant::greedy(9_000_000_000, 1);
    slow.rate = 10_000_000;
    assert_eq!(slow.settle().0, 31);
}

#[test]
fn busy_start_with_a_short_queue_converges_within_30_intervals() {
    // Four thresholds of buffer drain in 1.3 intervals at 9 Gb/s and 200 us, faster above.
    for capacity in CAPACITIES.into_iter().filter(|c| *c >= 9_000_000_000) {
        let (settled, above) = worst(|n| Plant::greedy(capacity, n).busy());
        assert!(settled <= 27 && above <= 8, "{settled}, {above} above C at {capacity} bit/s");
    }
    // At lower rates T is longer by as much: the same loop in slow motion.
    for capacity in CAPACITIES.into_iter().filter(|c| *c < 9_000_000_000) {
        let interval = Duration::from_nanos(200_000 * 9_000_000_000 / capacity);
        let (settled, above) = worst(|n| Plant { interval, ..Plant::greedy(capacity, n).busy() });
        assert!(settled <= 27 && above <= 8, "{settled}, {above} above C at {capacity} bit/s");
    }
}

#[test]
fn deep_queue_adds_its_drain_time() {
    // 200 us whatever the rate, and buffers up to 5 MB.
    for (capacity, buffer) in [
        (100_000_000, 320e3),
        (1_000_000_000, 320e3),
        (1_000_000_000, 1e6),
        (2_500_000_000, 320e3),
        (9_000_000_000, 1e6),
        (9_000_000_000, 2e6),
        (9_000_000_000, 5e6),
        (90_000_000_000, 5e6),
    ] {
        let make = |n| Plant { buffer: buffer * 8.0, ..Plant::greedy(capacity, n).busy() };
        let drain = make(1).drain();
        let (settled, above) = worst(make);
        println!("{capacity} bit/s, {buffer} B (drains in {drain:.1} T): settled {settled}, above {above}");
        assert!((settled as f64) <= 30.0 + 1.5 * drain, "{settled}, drain {drain}, at {capacity} bit/s");
        assert!((above as f64) <= 15.0 + 1.5 * drain, "{above} above C, drain {drain}, at {capacity} bit/s");
    }
}

#[test]
fn busy_start_of_a_hundred_takes_89_intervals_without_marks() {
    // Usage cannot exceed the link, 10/9 of C: while the sum is above that, each step takes R down by 5.6 % only.
    let mut plant = Plant::greedy(9_000_000_000, 100).busy();
    plant.law.marks = Marks::Ignored;
    plant.buffer = 0.0;
    let (settled, above) = plant.settle();
    assert_eq!((settled, above), (89, 89));
}

#[test]
fn the_example_of_figure_4() {
    // Demands 1, 3 and unlimited under C = 9: R = 5 Gb/s, usage 1, 3, 5.
    // Only 5/9 of C follows R, so an error shrinks by 1 - 0.5 * 5/9 = 0.72 a step, instead of 0.5.
    for (busy, intervals) in [(false, 44), (true, 35)] {
        let mut plant = Plant::new(9_000_000_000, vec![1e9, 3e9, f64::INFINITY]);
        if busy {
            plant = plant.busy();
        }
        assert_eq!(plant.level(), 5e9);
        let (settled, _) = plant.settle();
        assert_eq!(settled, intervals);
        assert!((plant.rate as f64 - 5e9).abs() < 5e9 * PRECISION);
        assert!((plant.step() - 9e9).abs() < 9e9 * PRECISION);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any demands: R converges to the water-filling level, or usage to the sum of all demands.
    #[test]
    fn mixed_demands_converge_to_the_water_filling_level(
        capacity in 9_000_000_000..=400_000_000_000u64,
        demands in prop::collection::vec(prop_oneof![3 => 0.0..0.4f64, 1 => Just(f64::INFINITY)], 1..100),
        busy in any::<bool>(),
    ) {
        let mut plant = Plant::new(capacity, demands.into_iter().map(|d| d * capacity as f64).collect());
        if busy {
            plant = plant.busy();
        }
        let level = plant.level();
        let wanted = plant.demands.iter().sum::<f64>().min(capacity as f64);
        let near = |is: f64, to: f64| (is - to).abs() <= PRECISION * to + 1.0;
        // Where demands exceed C by a thousandth, R falls from C by half of that a step: thousands of steps.
        let settled = (0..50_000).any(|_| {
            near(plant.step(), wanted) && plant.queue == 0.0 && near(plant.rate as f64, level)
        });
        prop_assert!(settled || near(plant.step(), wanted), "{} instead of {level}", plant.rate);
        for _ in 0..100 {
            let usage = plant.step();
            prop_assert!(near(usage, wanted), "{usage} instead of {wanted}");
        }
    }

    /// The overshoot that `receive_meter.h` allows, for senders that change their demand in every interval.
    #[test]
    fn overshoot_is_bounded(
        capacity in 100_000_000..=400_000_000_000u64,
        senders in 1..100usize,
        buffer in 0.0..1e8f64,
        demands in prop::collection::vec((0.0..3.0f64, 1..40usize), 1..40),
    ) {
        let mut plant = Plant { buffer, ..Plant::greedy(capacity, senders) }.busy();
        let floor = plant.law.floor().bps();
        let bound = 2.0 * (capacity as f64 / floor as f64).ln();
        let (mut overshoot, mut most, mut steps) = (0f64, 0f64, 0);
        for (demand, intervals) in demands {
            plant.demands.fill(demand * demand * capacity as f64 / senders as f64);
            for _ in 0..intervals {
                let usage = plant.step();
                overshoot = (overshoot + usage / capacity as f64 - 1.0).max(0.0);
                if plant.rate == floor {
                    overshoot = 0.0; // the bound is for R above its floor
                }
                most = most.max(overshoot);
                steps += 1;
            }
        }
        // Each step rounds R by 2^-19 at most.
        let rounding = f64::from(steps) * f64::exp2(-18.0);
        prop_assert!(most <= bound + rounding, "{most} intervals of C above C, bound {bound}");
        prop_assert!(bound < 30.0);
    }
}
