//! Effects of marks of an interface's own queue on receive meters and the interface meter
//! (`datapath/interface_meter.h`): which marks count, how far, and when none do.
//!
//! Windows of a service beside others, one by one, against the header's table; and packets at random
//! against a model of both meters and of their ticks in plain numbers.

mod model;

use crate::common::{CAPACITY, Receiver, Service, T, bytes, rate};
use model::{INTERVAL, Models, Seen};
use proptest::prelude::*;
use weir_datapath::{InterfaceMeter, ReceiveMeter};
use weir_policy::{Share, Sharing};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// A service beside others at one interface, in windows of both meters of 1 ms.
struct Beside {
    receiver: Receiver,
    window: u64,
}

/// The two services of [`Beside`].
const OWN: usize = 0;
const OTHERS: usize = 1;

impl Beside {
    /// At R = C / 8 of its interface, which 8 services of equal weight share; its receive meter is
    /// somewhere between its bounds.
    fn new(parameters: ShaperParameters, committed: f64) -> Self {
        let parameters = ShaperParameters { interval: parameters.interface.interval, ..parameters };
        let capacity = rate(CAPACITY);
        let meter = || ReceiveMeter::new(Instant::ZERO, &parameters, capacity);
        let services = vec![Service::new(meter(), rate(committed)), Service::new(meter(), Bandwidth::ZERO)];
        let shares = [Share::default(); 8];
        let interface = InterfaceMeter::new(Instant::ZERO, &parameters, capacity, Sharing::Fill, &shares);
        let mut beside = Self { receiver: Receiver::new(interface, services), window: 0 };
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
        self.receiver.packets(OWN, now, bytes(own), 100, marks);
        self.receiver.packets(OTHERS, now, bytes(all - own), 100, marks);
        self.window += 1;
    }

    /// The receive meter of the service.
    fn meter(&mut self) -> &mut ReceiveMeter {
        &mut self.receiver.services[OWN].meter
    }

    /// R of the service's receive meter, bit/s.
    fn own_rate(&self) -> f64 {
        self.receiver.services[OWN].meter.rate().bps() as f64
    }

    /// R of the interface, bit/s.
    fn rate(&self) -> f64 {
        self.receiver.interface.rate().bps() as f64
    }

    /// By how much R of the receive meter and of the interface change as one more window like this closes.
    fn steps(&mut self, own: f64, all: f64, marked: bool) -> (f64, f64) {
        self.window(own, all, marked);
        let before = (self.own_rate(), self.rate());
        self.window(own, all, false);
        (self.own_rate() / before.0, self.rate() / before.1)
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
    assert!(beside.rate() > 8.9e9, "{}", beside.rate());
    beside.window(4.75e9, 10e9, false);
    beside.window(4.75e9, 10e9, false);
    let (meter, interface) = beside.steps(4.75e9, 10e9, true);
    assert!((meter - 0.75).abs() < 0.01, "{meter}");
    // At once, and no lower than the fair rate, an eighth, however long it lasts.
    let fair_rate = CAPACITY / 8.0;
    assert!((beside.rate() / fair_rate - 1.0).abs() < 1e-6, "{interface}");
    beside.window(4.75e9, 10e9, true);
    let (_, interface) = beside.steps(4.75e9, 10e9, true);
    assert!((interface - (1.0 - 0.5 * 0.5 / 9.5)).abs() < 0.001, "usage alone: {interface}");
}

#[test]
fn marks_after_a_full_window_count_in_the_next() {
    let mut beside = Beside::new(ShaperParameters::PARLEY, 5e9);
    for _ in 0..6 {
        beside.window(2e9, 4.75e9, false);
    }
    beside.window(4.75e9, 10e9, false);
    // The packet that runs the tick at the end of the window after the full one counts in the next: that window was
    // not full. The packet is marked, its service is below its committed rate, and no other mark could count.
    beside.window(4e9, 7.6e9, false);
    let before = beside.rate();
    let now = Instant::from_nanos(beside.window * T);
    beside.receiver.packets(OWN, now, Bytes::new(1500), 1, 1);
    beside.window += 1;
    beside.window(4e9, 7.6e9, false);
    assert!(beside.rate() >= before, "{} after {before}", beside.rate());
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
        let rate = beside.rate();
        assert_eq!(rate < 1.2e9, falls, "{marks} of 100 packets marked: {rate}");
    }
}

#[test]
fn capacity_unused_after_marks_does_not_raise_r() {
    let steps = |marked: bool, then: f64| {
        let mut beside = Beside::new(ShaperParameters::PARLEY, 4e9);
        beside.window(4.75e9, 10e9, false);
        beside.window(4.75e9, 10e9, marked);
        [(); 4].map(|()| {
            let before = beside.rate();
            beside.window(4e9, then, false);
            beside.rate() / before
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
        let before = beside.rate();
        beside.window += pause - 1;
        beside.window(1e6, 2e6, false);
        // R is at C, as if the law had been run in every interval of the pause; or where the marks leave it.
        let rate = beside.rate();
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
    let before = beside.rate();
    beside.receiver.interface.set_capacity(rate(2.0 * CAPACITY), Sharing::Fill, &[Share::default(); 8]);
    let moved = beside.rate();
    assert!((moved - 2.0 * before).abs() < before / 1000.0, "{moved}, twice {before}");
    // The marked window closes, with 9 of 19 Gb/s unused: no service falls to its saturated fair
    // rate, and R rises by the unused rate.
    beside.window(4.75e9, 9e9, false);
    let grown = beside.rate() / moved;
    assert!((grown - (1.0 + 9.0 / 19.0)).abs() < 0.001, "{grown}");
}

#[test]
fn half_of_r_is_restored_once_the_queue_has_drained() {
    let mut beside = Beside::new(ShaperParameters::PARLEY, 4e9);
    // Half of the service's C is unused: R rises by a quarter. What closes is the window before.
    beside.window(4.75e9, 9e9, false);
    beside.window(4.75e9, 10e9, true);
    let before = beside.own_rate();
    let mut after = |marked: bool, all: f64| {
        beside.window(4.75e9, all, marked);
        beside.own_rate() / before
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
        beside.meter().set_interval(interval);
        beside.window(1e9, CAPACITY, true);
        for window in 0..pause {
            // The last window is not full.
            let bytes = bytes(if window < pause - 1 { load * CAPACITY } else { 0.95 * CAPACITY });
            let now = Instant::from_nanos(beside.window * T);
            beside.receiver.packets(OTHERS, now, bytes, 100, 0);
            beside.window += 1;
        }
        let before = beside.rate();
        // The tick that counts the service's packets closes its window of the pause, which counts in the interface's
        // that begins then.
        beside.window(1e9, 0.95 * CAPACITY, true);
        beside.window(1e9, 0.95 * CAPACITY, false);
        beside.window(1e9, 0.95 * CAPACITY, false);
        (before, beside.rate())
    };
    // A twentieth of C is unused in three windows. The interface was full in the 31 intervals of the service's, so the
    // third lowers R by the arrivals in them: 29 of 1.02, and two of 0.95.
    let (before, is) = after(Duration::from_millis(1), 30, 1.02);
    let full = 1.0 - 0.5 * ((29.0 * 1.02 + 2.0 * 0.95) / 31.0 - 1.0);
    assert!((is / before / (1.05f64.powi(2) * full) - 1.0).abs() < 0.002, "{is} after {before}");
    // After more intervals, or more than the 17 s that a window covers, all raise it. Of a minute
    // with 2.77 Gb/s a window counts 1.02 of C.
    for (interval, pause, load) in [(1, 40, 1.02), (1, 1000, 1.02), (1000, 60_000, 1.02 * 17.18 / 60.0)] {
        let (before, is) = after(Duration::from_millis(interval), pause, load);
        let raised = (before * 1.05f64.powi(3)).min(CAPACITY);
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
    let before = beside.own_rate();
    beside.window(4e9, 4e9, false);
    let after = beside.own_rate() / before;
    assert!((after - (1.0 - 0.5 * (4.0 / 9.5 - 1.0))).abs() < 0.01, "{after}");
}

#[test]
fn own_queue_is_detected_in_the_service_window() {
    // Five windows of the service in one of the interface's.
    let parameters = ShaperParameters { interval: Duration::from_micros(200), ..ShaperParameters::PARLEY };
    let interface =
        InterfaceMeter::new(Instant::ZERO, &parameters, rate(CAPACITY), Sharing::Fill, &[Share::default(); 2]);
    let meter = ReceiveMeter::new(Instant::ZERO, &parameters, rate(CAPACITY));
    let mut receiver = Receiver::new(interface, vec![Service::new(meter, Bandwidth::ZERO); 2]);
    let mut now = 0;
    // R of the first after a window in which both bring the same, which closes with the next.
    let mut window = |all: f64, marked: u32| {
        for service in [0, 1] {
            let came = Bytes::new(bytes(all).get() / 10);
            receiver.packets(service, Instant::from_nanos(now), came, 100, marked);
        }
        now += T / 5;
        receiver.services[0].meter.rate().bps() as f64
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
            beside.meter().set_share(rate(2.5e9))
        } else {
            beside.meter().set_capacity(rate(2.5e9))
        }
        beside.window(5e9, 10e9, false);
        beside.steps(5e9, 10e9, false).0
    };
    // A limit: 5 Gb/s are twice it. A share: no more than 16/15.
    assert!((step(false) - 0.5).abs() < 0.002, "{}", step(false));
    assert!((step(true) - (1.0 - 0.5 / 15.0)).abs() < 0.002, "{}", step(true));
}

/// Both meters follow the header's table and text. R of the interface is at most the fair rate after
/// a window in which most packets of services below their committed rates were marked. Otherwise it
/// follows usage: that of a service's window with marks, if it is higher and most of C arrived. With
/// such marks it does not rise, nor in the next window.
fn marks_count(packets: &[(usize, u64, f64, bool)], committed: [u64; 3], tick: u64, seen: &mut Seen) {
    let (parameters, capacity) = (ShaperParameters::PARLEY, rate(CAPACITY));
    let interface = InterfaceMeter::new(Instant::ZERO, &parameters, capacity, Sharing::Fill, &[Share::default(); 3]);
    let meter = ReceiveMeter::new(Instant::ZERO, &parameters, capacity);
    let service = |committed| Service::new(meter.clone(), Bandwidth::from_bps(committed));
    let mut receiver = Receiver::new(interface, committed.map(service).to_vec());
    receiver.interval = Duration::from_nanos(tick);
    receiver.services[2].meter.set_share(capacity);
    let mut models = Models::new(committed, tick / 2);
    let mut now = 0;
    for &(service, pause, load, marked) in packets {
        now += pause;
        let at = Instant::from_nanos(now);
        if at >= receiver.ticked + receiver.interval && !models.tick(&mut receiver, now, seen) {
            return;
        }
        let bytes = bytes(CAPACITY * load * pause as f64 / T as f64);
        receiver.packets(service, at, bytes, 1, u32::from(marked));
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
    // A tick before each packet, or as the kernel has them, with windows that close up to a quarter early.
    let tick = prop_oneof![Just(0), Just(INTERVAL / 2)];
    let strategy = (packets, prop::array::uniform3(0..10_000_000_000u64), tick);
    let config = ProptestConfig { cases: 8000, failure_persistence: None, ..ProptestConfig::default() };
    let seen = std::cell::RefCell::new(Seen::default());
    let run = proptest::test_runner::TestRunner::new(config).run(&strategy, |(packets, committed_rates, tick)| {
        marks_count(&packets, committed_rates, tick, &mut seen.borrow_mut());
        Ok(())
    });
    assert!(run.is_ok(), "{run:?}");
    let seen = seen.into_inner();
    let times = [
        [seen.full, seen.fell, seen.peak, seen.held, seen.settling, seen.crowd],
        [seen.queued, seen.drained, seen.halved, seen.waited, seen.stepped, seen.bound],
    ];
    assert!(times.iter().flatten().all(|&times| times > 20), "{seen:?}");
    assert!(seen.early > 20 && seen.several > 20, "{seen:?}");
}
