//! Effects of marks of an interface's own queue on receive meters and the interface meter
//! (`datapath/interface_meter.h`): which marks count, how far, and when none do.
//!
//! Windows of a service beside others, one by one, against the header's table; and packets at random
//! against a model of both meters in plain numbers.

use crate::common::{CAPACITY, T, bytes, rate};
use proptest::prelude::*;
use weir_datapath::abi::QUEUE_TIME_PART;
use weir_datapath::{InterfaceMeter, ReceiveMeter};
use weir_policy::{Share, Sharing};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// A service beside others at one interface, in windows of both meters of 1 ms.
struct Beside {
    interface: InterfaceMeter,
    meter: ReceiveMeter,
    others: ReceiveMeter,
    committed: Bandwidth,
    window: u64,
}

impl Beside {
    /// At R = C / 8 of its interface, which 8 services of equal weight share; its receive meter is
    /// somewhere between its bounds.
    fn new(parameters: ShaperParameters, committed: f64) -> Self {
        let parameters = ShaperParameters { interval: parameters.interface.interval, ..parameters };
        let capacity = rate(CAPACITY);
        let meter = |seed| ReceiveMeter::new(Instant::ZERO, &parameters, capacity, seed);
        let shares = [Share::default(); 8];
        let interface = InterfaceMeter::new(Instant::ZERO, &parameters, capacity, Sharing::Fill, &shares);
        let mut beside = Self { interface, meter: meter(1), others: meter(2), committed: rate(committed), window: 0 };
        // Eight windows take the receive meter from its start to where it can go both ways, and
        // leave the interface where it is.
        for _ in 0..8 {
            beside.window(CAPACITY / 10.0, CAPACITY, false);
        }
        beside
    }

    /// One window of the service and of all together, in bit/s; all is marked or nothing. What
    /// closes is the window before.
    fn window(&mut self, own: f64, all: f64, marked: bool) {
        self.window_of(own, all, if marked { 100 } else { 0 });
    }

    /// The same with so many of a hundred packets marked.
    fn window_of(&mut self, own: f64, all: f64, marks: u32) {
        let now = Instant::from_nanos(self.window * T);
        self.interface.receive(&mut self.meter, now, bytes(own), 100, marks, self.committed);
        self.interface.receive(&mut self.others, now, bytes(all - own), 100, marks, Bandwidth::ZERO);
        self.window += 1;
    }

    /// By how much R of the receive meter and of the interface change as one more window like this closes.
    fn steps(&mut self, own: f64, all: f64, marked: bool) -> (f64, f64) {
        self.window(own, all, marked);
        let before = (self.meter.rate().bps() as f64, self.interface.rate().bps() as f64);
        self.window(own, all, false);
        (self.meter.rate().bps() as f64 / before.0, self.interface.rate().bps() as f64 / before.1)
    }
}

fn near((meter, interface): (f64, f64), expected: (f64, f64)) {
    let far = (meter - expected.0).abs().max((interface - expected.1).abs());
    assert!(far < 0.01, "{meter}, {interface}, not {expected:?}");
}

/// The steps in a window in which all was marked, after two in which so much came.
fn after_marks(parameters: ShaperParameters, own: f64, all: f64, committed: f64) -> (f64, f64) {
    let mut beside = Beside::new(parameters, committed);
    beside.window(own, all, false);
    beside.window(own, all, false);
    beside.steps(own, all, true)
}

#[test]
fn marks_count_by_the_marked_service() {
    let case = |own, all, committed| after_marks(ShaperParameters::PARLEY, own, all, committed);
    // Not full: marks take half of R; usage of half of the capacity raises it by a quarter. The
    // interface's R rises by all of the unused capacity.
    near(case(4.75e9, 8.55e9, 0.0), (1.25 - 0.5, 1.0 + 0.1));
    // More than the link carries: the effect of marks is capped, as usage suffices.
    near(case(4.75e9, 11.4e9, 5e9), (1.25 - 0.5, 1.0 - 0.5 * 0.2));
    // Full: 2.6 % for the 10 Gb/s that came. Marks of a crowd count nowhere, of others at the receive meter.
    let full = 1.0 - 0.5 * 0.5 / 9.5;
    near(case(6.65e9, 10e9, 0.0), (1.0 + 0.5 * 0.3, full));
    near(case(4.75e9, 10e9, 4e9), (1.25 - 0.5, full));
    // EyeQ takes all marks, as 45,000 B (1 + fraction) in 1 ms here, and none at the interface.
    near(after_marks(ShaperParameters::EYEQ, 6.65e9, 10e9, 0.0), (1.0 - 0.5 * (6.65 + 0.72 - 9.5) / 9.5, full));
}

#[test]
fn marks_below_the_committed_rate_lower_r_to_the_saturated_rate() {
    let mut beside = Beside::new(ShaperParameters::PARLEY, 5e9);
    // Half of the interface is unused: R rises from an eighth of C by half, five times: to 9 Gb/s.
    for _ in 0..6 {
        beside.window(2e9, 4.75e9, false);
    }
    assert!(beside.interface.rate().bps() > 8_900_000_000, "{}", beside.interface.rate());
    beside.window(4.75e9, 10e9, false);
    beside.window(4.75e9, 10e9, false);
    let (meter, interface) = beside.steps(4.75e9, 10e9, true);
    assert!((meter - 0.75).abs() < 0.01, "{meter}");
    // At once, and no lower than the fair rate, an eighth, however long it lasts.
    let fair_rate = CAPACITY / 8.0;
    assert!((beside.interface.rate().bps() as f64 / fair_rate - 1.0).abs() < 1e-6, "{interface}");
    beside.window(4.75e9, 10e9, true);
    let (_, interface) = beside.steps(4.75e9, 10e9, true);
    assert!((interface - (1.0 - 0.5 * 0.5 / 9.5)).abs() < 0.001, "usage alone: {interface}");
}

#[test]
fn packet_closing_a_full_window_counts_in_the_next() {
    let mut beside = Beside::new(ShaperParameters::PARLEY, 5e9);
    for _ in 0..6 {
        beside.window(2e9, 4.75e9, false);
    }
    beside.window(4.75e9, 10e9, false);
    // The first packet after the full window closes a window that is not full. It is marked, its
    // service is below its committed rate, and no other mark could count.
    beside.window(4e9, 7.6e9, false);
    let before = beside.interface.rate();
    let now = Instant::from_nanos(beside.window * T);
    beside.interface.receive(&mut beside.meter, now, Bytes::new(1500), 1, 1, rate(5e9));
    beside.window += 1;
    beside.window(4e9, 7.6e9, false);
    assert!(beside.interface.rate() >= before, "{} after {before}", beside.interface.rate());
}

#[test]
fn occasional_marks_do_not_lower_r() {
    for (marks, falls) in [(62, false), (63, true)] {
        let mut beside = Beside::new(ShaperParameters::PARLEY, 5e9);
        for _ in 0..6 {
            beside.window(2e9, 4.75e9, false);
        }
        beside.window(4.75e9, 10e9, false);
        beside.window(4.75e9, 10e9, false);
        beside.window_of(4.75e9, 10e9, marks);
        beside.window(4.75e9, 10e9, false);
        let rate = beside.interface.rate().bps();
        assert_eq!(rate < 1_200_000_000, falls, "{marks} of 100 packets marked: {rate}");
    }
}

#[test]
fn capacity_unused_after_marks_does_not_raise_r() {
    let steps = |marked: bool, then: f64| {
        let mut beside = Beside::new(ShaperParameters::PARLEY, 4e9);
        beside.window(4.75e9, 10e9, false);
        beside.window(4.75e9, 10e9, marked);
        [(); 4].map(|()| {
            let before = beside.interface.rate().bps() as f64;
            beside.window(4e9, then, false);
            beside.interface.rate().bps() as f64 / before
        })
    };
    // The full window closes first. A fifth is unused then, and R rises by it. Here windows of both
    // meters end together, the interface's first, so that marks are the next one's: as much came as
    // in the full window, and the one after it does not raise R either.
    let near = |is: [f64; 4], expected: [f64; 4]| is.iter().zip(expected).all(|(is, to)| (is - to).abs() < 0.001);
    let full = 1.0 - 0.5 * 0.5 / 9.5;
    assert!(near(steps(false, 7.6e9), [full, 1.2, 1.2, 1.2]), "{:?}", steps(false, 7.6e9));
    assert!(near(steps(true, 7.6e9), [full, full, 1.0, 1.2]), "{:?}", steps(true, 7.6e9));
    // Of 5/8 of C on; where less came in all, R only does not rise.
    for (part, marked) in [(0.63, full), (0.62, 1.0)] {
        let steps = steps(true, part * CAPACITY);
        assert!(near(steps, [full, marked, 1.0, 2.0 - part]), "{part}: {steps:?}");
    }
}

#[test]
fn marks_from_before_a_pause_are_ignored() {
    for (pause, old) in [(32, false), (33, true)] {
        let mut beside = Beside::new(ShaperParameters::PARLEY, 5e9);
        beside.window(4.75e9, 10e9, false);
        beside.window(4.75e9, 10e9, true);
        // The marked window closes, and its marks are of this one.
        beside.window(1e6, 2e6, false);
        let before = beside.interface.rate().bps() as f64;
        beside.window += pause - 1;
        beside.window(1e6, 2e6, false);
        // R is at C, as if the law had been run in every interval of the pause; or where the marks leave it.
        let rate = beside.interface.rate().bps() as f64;
        let marked = (rate / before - 1.0).abs() < 0.001;
        assert!(if old { rate > 0.99 * CAPACITY } else { marked }, "{pause} intervals: {rate} after {before}");
    }
}

#[test]
fn new_capacity_scales_r_and_resets_marks() {
    let mut beside = Beside::new(ShaperParameters::PARLEY, 5e9);
    for _ in 0..6 {
        beside.window(2e9, 4.75e9, false);
    }
    beside.window(4.75e9, 10e9, false);
    beside.window(4.75e9, 10e9, true);
    beside.window(4.75e9, 10e9, true);
    let before = beside.interface.rate().bps();
    beside.interface.set_capacity(rate(2.0 * CAPACITY), Sharing::Fill, &[Share::default(); 8]);
    let moved = beside.interface.rate().bps();
    assert!(moved.abs_diff(2 * before) < before / 1000, "{moved}, twice {before}");
    // The marked window closes, with 9 of 19 Gb/s unused: no service falls to its saturated fair
    // rate, and R rises by the unused rate.
    beside.window(4.75e9, 9e9, false);
    let grown = beside.interface.rate().bps() as f64 / moved as f64;
    assert!((grown - (1.0 + 9.0 / 19.0)).abs() < 0.001, "{grown}");
}

#[test]
fn half_of_r_is_restored_once_the_queue_has_drained() {
    let mut beside = Beside::new(ShaperParameters::PARLEY, 4e9);
    // Half of the service's C is unused: R rises by a quarter. What closes is the window before.
    beside.window(4.75e9, 9e9, false);
    beside.window(4.75e9, 10e9, true);
    let before = beside.meter.rate().bps() as f64;
    let mut after = |marked: bool, all: f64| {
        beside.window(4.75e9, all, marked);
        beside.meter.rate().bps() as f64 / before
    };
    // By half less for marks, as long as the queue stands.
    for power in 1..=8 {
        let is = after(power < 8, if power < 8 { 10e9 } else { 9e9 });
        assert!((is / 0.75f64.powi(power) - 1.0).abs() < 0.01, "{is} after {power} marked windows");
    }
    // The first window without it.
    let is = after(false, 9e9);
    assert!((is - 0.5 * 1.25).abs() < 0.01, "{is}");
    // And one marked window has the specified effect.
    after(true, 10e9);
    let queued = after(false, 9e9);
    let drained = after(false, 9e9);
    assert!((drained / queued - 1.25).abs() < 0.01, "{drained} after {queued}");
}

#[test]
fn pause_is_no_sign_of_a_queue() {
    // R of the interface before and after a marked service of this interval comes back from a pause
    // of so many windows, in which others brought so much of C.
    let after = |interval: Duration, pause: u64, load: f64| {
        let mut beside = Beside::new(ShaperParameters::PARLEY, 0.0);
        beside.meter.set_interval(interval);
        beside.window(1e9, CAPACITY, true);
        for window in 0..pause {
            // The last window is not full.
            let bytes = bytes(if window < pause - 1 { load * CAPACITY } else { 0.95 * CAPACITY });
            let now = Instant::from_nanos(beside.window * T);
            beside.interface.receive(&mut beside.others, now, bytes, 100, 0, Bandwidth::ZERO);
            beside.window += 1;
        }
        let before = beside.interface.rate().bps() as f64;
        // The service's packet closes its window of the pause, which counts in the interface's that begins then.
        beside.window(1e9, 0.95 * CAPACITY, false);
        beside.window(1e9, 0.95 * CAPACITY, false);
        (before, beside.interface.rate().bps() as f64)
    };
    // A twentieth of C is unused in two windows. The interface was full in 31 intervals, so the
    // second lowers R by the arrivals in them.
    let (before, is) = after(Duration::from_millis(1), 30, 1.02);
    assert!((is / before / (1.05 * 0.991) - 1.0).abs() < 0.002, "{is} after {before}");
    // After more intervals, or more than the 17 s that a window covers, both raise it. Of a minute
    // with 2.77 Gb/s a window counts 1.02 of C.
    for (interval, pause, load) in [(1, 40, 1.02), (1, 1000, 1.02), (1000, 60_000, 1.02 * 17.18 / 60.0)] {
        let (before, is) = after(Duration::from_millis(interval), pause, load);
        let raised = (before * 1.05f64.powi(2)).min(CAPACITY);
        assert!((is / raised - 1.0).abs() < 0.001, "{pause} windows, intervals of {interval} ms: {is} after {before}");
    }
}

#[test]
fn bursts_below_a_cap_do_not_count_as_own_queue() {
    // Of a link that carries far more: full by chance, then a service's window of twice the cap,
    // all marked by others' queues.
    let mut beside = Beside::new(ShaperParameters::PARLEY, 0.0);
    beside.window(4e9, 10e9, false);
    beside.window(4e9, 19e9, true);
    let (meter, _) = beside.steps(4e9, 19e9, true);
    let law = 1.0 - 0.5 * (4.0 / 9.5 - 1.0) - 0.5;
    assert!((meter - law).abs() < 0.01, "marks count: {meter}");
    // And for good.
    let before = beside.meter.rate().bps() as f64;
    beside.window(4e9, 4e9, false);
    let after = beside.meter.rate().bps() as f64 / before;
    assert!((after - (1.0 - 0.5 * (4.0 / 9.5 - 1.0))).abs() < 0.01, "{after}");
}

#[test]
fn own_queue_is_detected_in_the_service_window() {
    // Five windows of the service in one of the interface's.
    let parameters = ShaperParameters { interval: Duration::from_micros(200), ..ShaperParameters::PARLEY };
    let mut interface =
        InterfaceMeter::new(Instant::ZERO, &parameters, rate(CAPACITY), Sharing::Fill, &[Share::default(); 2]);
    let mut meters = [0, 1].map(|seed| ReceiveMeter::new(Instant::ZERO, &parameters, rate(CAPACITY), seed));
    let mut now = 0;
    // R of the first after a window in which both bring the same, which closes with the next.
    let mut window = |all: f64, marked: u32| {
        for meter in &mut meters {
            let came = Bytes::new(bytes(all).get() / 10);
            interface.receive(meter, Instant::from_nanos(now), came, 100, marked, Bandwidth::ZERO);
        }
        now += T / 5;
        meters[0].rate().bps() as f64
    };
    // From the start to where it can go both ways.
    for _ in 0..12 {
        window(5e9, 0);
    }
    let before = window(10e9, 100);
    for _ in 0..3 {
        window(10e9, 100);
    }
    let queued = window(5e9, 0);
    let drained = window(5e9, 0);
    assert!(queued < 0.4 * before, "{queued} after {before}: marks lower it window by window");
    // Neither of the interface's windows around it is full.
    let unused = 1.0 + 0.5 * (1.0 - 2.5 / 9.5);
    assert!((drained / before - 0.5 * unused).abs() < 0.01, "{drained}, half of {before} by {unused}");
}

#[test]
fn usage_above_a_share_is_lowered_by_the_interface_meter() {
    let step = |share: bool| {
        let mut beside = Beside::new(ShaperParameters::PARLEY, 4e9);
        beside.window(5e9, 10e9, false);
        if share {
            beside.meter.set_share(rate(2.5e9))
        } else {
            beside.meter.set_capacity(rate(2.5e9))
        }
        beside.window(5e9, 10e9, false);
        beside.steps(5e9, 10e9, false).0
    };
    // A limit: 5 Gb/s are twice it. A share: no more than 16/15.
    assert!((step(false) - 0.5).abs() < 0.002, "{}", step(false));
    assert!((step(true) - (1.0 - 0.5 / 15.0)).abs() < 0.002, "{}", step(true));
}

/// What the rules did in a run, so that one that never reaches them fails.
#[derive(Debug, Default)]
struct Seen {
    full: u32,
    fell: u32,
    peak: u32,
    held: u32,
    settling: u32,
    crowd: u32,
    queued: u32,
    drained: u32,
    halved: u32,
    bound: u32,
    waited: u32,
    stepped: u32,
}

/// Intervals of a window after which its marks are stale (WEIR_PAUSE).
const PAUSE: u64 = 32;

/// R of a receive meter after a window of so many intervals: below C as if the law had been run in
/// each (`datapath/receive_meter.h`, Pauses).
fn law(rate: f64, usage: f64, marked: f64, intervals: u64) -> f64 {
    let unused = 1.0 - usage / CAPACITY;
    let next = (rate * (1.0 + 0.5 * unused - 0.5 * marked).max(0.0)).clamp(CAPACITY / 1000.0, CAPACITY);
    let more = (intervals - 1) as f64;
    let stale = intervals > PAUSE;
    if unused <= 0.0 || more == 0.0 || (marked > 0.0 && !stale) {
        return next;
    }
    let raise = unused / 2.0;
    let growth = 1.0 + more * raise + more * (more - 1.0) / 2.0 * raise * raise;
    let fill = (rate * CAPACITY / usage.max(rate)).min(CAPACITY);
    (next * growth).min(fill).max(next)
}

/// A receive meter of C beside others, in plain numbers.
struct Metered {
    shared: bool,
    rate: f64,
    drained: f64,
    unqueued: Option<f64>,
    /// The highest R of two periods in which a packet waits in the own queue, and when the second began.
    highest: [f64; 2],
    highest_at: u64,
    opened: u64,
    /// What the interface had received when the window opened, and what of it was the service's since.
    beside: u64,
    bytes: u64,
    packets: u32,
    marked: u32,
}

impl Metered {
    fn new(shared: bool) -> Self {
        let rate = CAPACITY / 512.0;
        Self {
            shared,
            rate,
            drained: rate,
            unqueued: None,
            highest: [0.0; 2],
            highest_at: 0,
            opened: 0,
            beside: 0,
            bytes: 0,
            packets: 0,
            marked: 0,
        }
    }

    /// Whether the window that ends at `now` lies so close to one of the table's bounds that rounding
    /// decides on which side it counts.
    fn is_tie(&self, now: u64, received: u64) -> bool {
        let all = (received - self.beside) as f64;
        let usage = all * 8e9 / (now - self.opened) as f64;
        let near = |value: f64, bound: f64| (value / bound - 1.0).abs() < 1e-5;
        let bounds = [7.0 / 8.0, 1.0, 16.0 / 15.0, 9.0 / 8.0].map(|part| part * CAPACITY);
        bounds.iter().any(|&bound| near(usage, bound)) || near(self.bytes as f64, all * 5.0 / 8.0)
    }

    /// Closes the window at `now`, with the interface's bytes until then. What came in it, where it
    /// met the own queue and marks that count.
    fn close(&mut self, now: u64, received: u64, full: bool, search: &mut Search, seen: &mut Seen) -> f64 {
        let elapsed = now - self.opened;
        let bps = |bytes: u64| bytes as f64 * 8e9 / elapsed as f64;
        let (own, all, intervals) = (bps(self.bytes), bps(received - self.beside), elapsed / 200_000);
        let off = if full { (7.0 / 8.0, 9.0 / 8.0) } else { (1.0, 16.0 / 15.0) };
        let queued = off.0 * CAPACITY < all && all <= off.1 * CAPACITY && intervals <= PAUSE;
        if queued && self.marked > 0 {
            search.mark();
        }
        let censored = search.unmarked;
        let crowd = queued && own >= all * 5.0 / 8.0;
        let marked = if crowd { 0.0 } else { f64::from(self.marked) / f64::from(self.packets.max(1)) };
        seen.crowd += u32::from(crowd && self.marked > 0);
        seen.queued += u32::from(queued && marked > 0.0);
        (self.opened, self.beside, self.bytes, self.packets, self.marked) = (now, received, 0, 0, 0);
        self.highest[1] = self.highest[1].max(self.rate);
        if now - self.highest_at >= T / u64::from(QUEUE_TIME_PART) {
            (self.highest, self.highest_at) = ([self.highest[1], self.rate], now);
        }
        if !queued {
            seen.drained += u32::from(self.drained > self.rate);
            self.rate = law(self.drained, own, marked, intervals);
            (self.drained, self.unqueued) = (self.rate, None);
            return 0.0;
        }
        let used = if self.shared { own.min(CAPACITY * 16.0 / 15.0) } else { own };
        let most = self.unqueued.unwrap_or(0.0).max(self.drained);
        self.unqueued = Some(most);
        let half = most / 2.0;
        self.rate = law(self.rate, used, marked, intervals);
        let lowered = law(self.drained, used, marked, intervals);
        seen.halved += u32::from(lowered < half && half < self.drained);
        self.drained = lowered.max(law(self.drained, used, 0.0, intervals).min(half));
        if used < own && censored {
            let bound = (self.highest[0].max(self.highest[1]) * CAPACITY / own).max(CAPACITY / 1000.0);
            seen.bound += u32::from(bound < self.rate);
            (self.rate, self.drained) = (self.rate.min(bound), self.drained.min(bound));
        }
        if marked > 0.0 { all.min(CAPACITY * 16.0 / 15.0) } else { 0.0 }
    }
}

/// The search for R on a saturated link: it acts in phase 1 and waits in phase 2.
#[derive(Debug, Default)]
struct Search {
    phase: u32,
    steps: i32,
    /// Windows until the port counts as one that does not mark.
    marking: u32,
    /// Whether the link was saturated through a step, and no mark since.
    unmarked: bool,
}

impl Search {
    fn mark(&mut self) {
        (self.marking, self.unmarked) = (100, false);
    }

    /// After a window with this usage, under R `was`.
    fn window(&mut self, usage: f64, was: f64) {
        let marked = self.marking > 0;
        self.marking = self.marking.saturating_sub(1);
        let saturated = (CAPACITY * 1.04..=CAPACITY * 16.0 / 15.0).contains(&usage);
        let ends = if saturated { was <= CAPACITY / 3.0 } else { was >= CAPACITY || usage >= CAPACITY * 0.96 };
        self.unmarked |= self.phase == 2 && saturated && !ends && !marked;
        let (phase, steps) = match self.phase {
            _ if ends || marked => (0, self.steps),
            1 => (2, self.steps),
            2 => (1, (self.steps + 1).min(5)),
            _ if saturated => (1, 0),
            _ => (0, 0),
        };
        (self.phase, self.steps) = (phase, if saturated { steps } else { 0 });
    }

    /// R, where it does not follow from the law alone.
    fn rate(&self, usage: f64, was: f64) -> Option<f64> {
        match (self.phase, self.steps) {
            (2, _) => Some(was),
            (1, 1..) => {
                let factor = 1.0 - 0.5 * 2f64.powi(self.steps) * (usage / CAPACITY - 1.0);
                Some((was * factor.max(0.5)).max(CAPACITY / 3.0))
            }
            _ => None,
        }
    }
}

/// The interface meter, in plain numbers.
#[derive(Debug, Default)]
struct AllMetered {
    full: bool,
    settling: bool,
    peak: f64,
    /// Packets of services below their committed rates, and those marked.
    short: [u32; 2],
    search: Search,
}

impl AllMetered {
    /// Checks R, before and after a window with this usage.
    fn close(&mut self, usage: f64, [was, is]: [f64; 2], seen: &mut Seen) {
        let (peak, short) = (self.peak, self.short);
        let idle = usage < 5.0 / 8.0 * CAPACITY;
        let y = if idle { usage.max(peak.min(CAPACITY)) } else { usage.max(peak) } / CAPACITY;
        self.search.window(usage, was);
        if short[1] > 0 && short[1] * 8 >= short[0] * 5 {
            assert!(is <= CAPACITY / 3.0 + 1.0, "{is}");
            seen.fell += u32::from(is < 0.9 * was);
        } else {
            let law = (was * (1.0 - if y < 1.0 { 1.0 } else { 0.5 } * (y - 1.0))).min(CAPACITY);
            let law = if self.settling || peak > 0.0 { law.min(was) } else { law };
            let law = self.search.rate(usage, was).unwrap_or(law);
            assert!((is / law - 1.0).abs() < 1e-3, "{is}, not {law}, from {was} at {y}");
            seen.waited += u32::from(self.search.phase == 2);
            seen.stepped += u32::from(self.search.phase == 1 && self.search.steps > 0);
            seen.settling += u32::from(self.settling && y < 1.0);
            seen.peak += u32::from(peak > usage && !idle);
            seen.held += u32::from(peak > usage && idle);
        }
        self.full = CAPACITY < usage && usage <= CAPACITY * 16.0 / 15.0;
        seen.full += u32::from(self.full);
        (self.short, self.settling, self.peak) = ([0; 2], peak > 0.0, 0.0);
    }

    /// Counts a packet: of a crowd, of a service below its committed rate.
    fn packet(&mut self, marked: bool, crowd: bool, below: bool) {
        if self.full && marked {
            self.search.mark();
        }
        if self.full && !crowd && marked {
            self.peak = self.peak.max(CAPACITY);
        }
        if self.full && !crowd && below {
            self.short = [self.short[0] + 1, self.short[1] + u32::from(marked)];
        }
    }
}

/// Both meters follow the header's table and text. R of the interface is at most the fair rate after
/// a window in which most packets of services below their committed rates were marked. Otherwise it
/// follows usage: that of a service's window with marks, if it is higher and most of C arrived. With
/// such marks it does not rise, nor in the next window.
fn marks_count(packets: &[(usize, u64, f64, bool)], committed_rates: [u64; 3], seen: &mut Seen) {
    let shares = [Share::default(); 3];
    let mut interface =
        InterfaceMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, rate(CAPACITY), Sharing::Fill, &shares);
    let meter = |seed| ReceiveMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, rate(CAPACITY), seed);
    let mut meters = [meter(0), meter(1), meter(2)];
    meters[2].set_share(rate(CAPACITY));
    let mut models = [false, false, true].map(Metered::new);
    let (mut model_of_all, mut now, mut received) = (AllMetered::default(), 0, 0);
    for &(service, pause, load, marked) in packets {
        now += pause;
        let (at, bytes) = (Instant::from_nanos(now), bytes(CAPACITY * load * pause as f64 / T as f64));
        let before = interface.clone();
        let usage = meters[service].usage(at).bps();
        let mut alone = meters[service].clone();
        let committed = Bandwidth::from_bps(committed_rates[service]);
        let due = interface.receive(&mut meters[service], at, bytes, 1, u32::from(marked), committed);
        if due.shares {
            let rates = [before.rate(), interface.rate()].map(|rate| rate.bps() as f64);
            model_of_all.close(interface.usage().bps() as f64, rates, seen);
        } else {
            assert_eq!(interface.rate(), before.rate());
        }
        let crowd = usage >= interface.usage().bps() / 8 * 5;
        model_of_all.packet(marked, crowd, usage < committed.bps());
        assert_eq!(due.feedback, alone.packet(at, bytes, 1, u32::from(marked)).is_some());
        assert_eq!(meters[service].usage(at), alone.usage(at));
        let model = &mut models[service];
        if now - model.opened >= 200_000 {
            if model.is_tie(now, received) {
                return;
            }
            let AllMetered { full, peak, search, .. } = &mut model_of_all;
            *peak = peak.max(model.close(now, received, *full, search, seen));
        }
        received += bytes.get();
        model.bytes += bytes.get();
        model.packets += 1;
        model.marked += u32::from(marked);
        let is = meters[service].rate().bps() as f64;
        assert!((is / model.rate - 1.0).abs() < 1e-3, "{is}, not {}", model.rate);
    }
}

#[test]
fn marks_count_as_in_the_table() {
    // Windows of a full interface, of a saturated link, of one that is not full, of one with little, and of any.
    let load = || {
        prop_oneof![
            3 => 1.005..1.06f64,
            3 => 1.045..1.06f64,
            3 => 0.5..0.95f64,
            1 => 0.05..0.5f64,
            3 => 0.5..1.2f64
        ]
    };
    let packet = |services: std::ops::Range<usize>, load: f64, marks| {
        (services, 20_000..60_000u64, Just(load), prop::bool::weighted(marks))
    };
    // All services bring a window's packets, or the one with a share alone, whose usage shows how far R is too high.
    let services = || prop_oneof![3 => Just(0..3usize), 1 => Just(2..3)];
    let window = move |marks| {
        (services(), load()).prop_flat_map(move |(services, load)| {
            prop::collection::vec(packet(services.clone(), load, marks), 10..120)
        })
    };
    // The port marks, or it does not.
    let windows =
        prop_oneof![Just(0.7), Just(0.0)].prop_flat_map(move |marks| prop::collection::vec(window(marks), 4..12));
    let packets = windows.prop_map(|windows| windows.concat());
    let strategy = (packets, prop::array::uniform3(0..10_000_000_000u64));
    let config = ProptestConfig { cases: 8000, failure_persistence: None, ..ProptestConfig::default() };
    let seen = std::cell::RefCell::new(Seen::default());
    let run = proptest::test_runner::TestRunner::new(config).run(&strategy, |(packets, committed_rates)| {
        marks_count(&packets, committed_rates, &mut seen.borrow_mut());
        Ok(())
    });
    assert!(run.is_ok(), "{run:?}");
    let seen = seen.into_inner();
    let times = [
        [seen.full, seen.fell, seen.peak, seen.held, seen.settling, seen.crowd],
        [seen.queued, seen.drained, seen.halved, seen.waited, seen.stepped, seen.bound],
    ];
    assert!(times.iter().flatten().all(|&times| times > 20), "{seen:?}");
}
