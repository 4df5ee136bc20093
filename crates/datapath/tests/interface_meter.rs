//! The machine level in a closed loop: services send what they want and their share allows.
//!
//! A fluid, interval by interval, through a link of 20/19 of the capacity without a queue; what comes of it is
//! compared with the rule solved for its level by bisection, which shares no code with the meter.

use proptest::prelude::*;
use weir_datapath::{InterfaceMeter, ReceiveMeter, ShaperParameters};
use weir_policy::{Share, Sharing};
use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};

const CAPACITY: f64 = 9.5e9;
const LINK: f64 = 10e9;
/// One interval of the machine level, ns.
const T: u64 = 1_000_000;

#[derive(Debug, Clone)]
struct Service {
    share: Share,
    /// bit/s
    demand: f64,
}

fn service(min: f64, max: f64, weight: u32, demand: f64) -> Service {
    let max = if max.is_finite() { Bandwidth::from_bps(max as u64) } else { Bandwidth::UNLIMITED };
    let share =
        Share { min: Bandwidth::from_bps(min as u64), max, weight: Weight::from_thousandths(weight).expect("valid") };
    Service { share, demand }
}

/// What a service may use at `level` bit/s per unit of weight.
fn allowed(service: &Service, sharing: Sharing, level: f64) -> f64 {
    let part = level * f64::from(service.share.weight.thousandths()) / 1000.0;
    let min = service.share.min.bps() as f64;
    let max = if service.share.max.is_unlimited() { CAPACITY } else { service.share.max.bps() as f64 };
    let share = match sharing {
        Sharing::Add => min + part,
        Sharing::Fill => part.max(min),
    };
    share.min(max).min(CAPACITY)
}

fn used(services: &[Service], sharing: Sharing, level: f64) -> Vec<f64> {
    services.iter().map(|s| allowed(s, sharing, level).min(s.demand)).collect()
}

/// The usages at the highest level that fits.
fn solved(services: &[Service], sharing: Sharing) -> Vec<f64> {
    let (mut low, mut high) = (0.0, 1e13);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if used(services, sharing, middle).iter().sum::<f64>() > CAPACITY { high = middle } else { low = middle }
    }
    used(services, sharing, low)
}

fn meter(services: &[Service], sharing: Sharing) -> InterfaceMeter {
    let shares: Vec<Share> = services.iter().map(|s| s.share).collect();
    InterfaceMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, rate(CAPACITY), sharing, &shares)
}

fn rate(bps: f64) -> Bandwidth {
    Bandwidth::from_bps(bps as u64)
}

/// What comes in one interval of the machine level.
fn bytes(bps: f64) -> Bytes {
    Bytes::new((bps * T as f64 * 1e-9 / 8.0) as u64)
}

/// Runs `intervals` from `now` on; the usages of the last.
fn run(meter: &mut InterfaceMeter, services: &[Service], sharing: Sharing, now: &mut u64, intervals: u32) -> Vec<f64> {
    let mut usage = Vec::new();
    for _ in 0..intervals {
        usage = services.iter().map(|s| (meter.share(&s.share, sharing).bps() as f64).min(s.demand)).collect();
        let sum = usage.iter().sum::<f64>().min(LINK);
        meter.packet(Instant::from_nanos(*now), bytes(sum));
        *now += T;
    }
    usage
}

/// The same for two services that want everything, of equal weights, the second with this guarantee: what the link cannot carry is
/// marked. The intervals that pass until the first has given way.
fn given_way(guarantee: f64, marked: bool) -> u32 {
    let services =
        [service(0.0, f64::INFINITY, 1000, f64::INFINITY), service(guarantee, f64::INFINITY, 1000, f64::INFINITY)];
    let alone = [services[0].clone(), service(guarantee, f64::INFINITY, 1000, 0.0)];
    let (mut meter, mut now) = (meter(&services, Sharing::Fill), 0);
    run(&mut meter, &alone, Sharing::Fill, &mut now, 50);
    let receive = |seed| ReceiveMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, rate(CAPACITY), seed);
    let mut meters = [receive(0), receive(1)];
    for interval in 1..200 {
        let wanted: Vec<f64> = services.iter().map(|s| meter.share(&s.share, Sharing::Fill).bps() as f64).collect();
        if wanted[0] < CAPACITY - guarantee + 1e7 {
            return interval;
        }
        let sum = wanted.iter().sum::<f64>();
        let marks = if marked && sum > LINK { 100 } else { 0 };
        for (i, wanted) in wanted.iter().enumerate() {
            let came = bytes(wanted * (LINK / sum).min(1.0));
            let entitled = rate([CAPACITY - guarantee, guarantee][i]);
            meter.receive(&mut meters[i], Instant::from_nanos(now), came, 100, marks, entitled);
        }
        now += T;
    }
    panic!("never")
}

fn assert_near(is: &[f64], expected: &[f64]) {
    for (is, expected) in is.iter().zip(expected) {
        assert!((is - expected).abs() < 0.005 * CAPACITY, "{is:?}, expected {expected:?}");
    }
}

#[test]
fn both_rules_at_one_machine() {
    // The oracle of the two rules, times 0.95: mins 2, 2, 0 and weights 1, 2, 3 of 10 give 3, 4, 3 or 2, 3.2, 4.8.
    let services = [
        service(1.9e9, f64::INFINITY, 1000, f64::INFINITY),
        service(1.9e9, f64::INFINITY, 2000, f64::INFINITY),
        service(0.0, f64::INFINITY, 3000, f64::INFINITY),
    ];
    for (sharing, expected) in [(Sharing::Add, [2.85e9, 3.8e9, 2.85e9]), (Sharing::Fill, [1.9e9, 3.04e9, 4.56e9])] {
        assert_near(&solved(&services, sharing), &expected);
        assert_near(&run(&mut meter(&services, sharing), &services, sharing, &mut 0, 100), &expected);
    }
}

#[test]
fn who_comes_back_has_its_guarantee_within_milliseconds() {
    // Usage is held to the link, 20/19 of C: without marks R falls by 2.6 % an interval while both fill it. The first marks are those
    // of the first full interval, and count in the next: R is at the level then.
    assert_eq!(given_way(6e9, false), 48);
    assert_eq!(given_way(6e9, true), 4);
    // Then the rule holds, and R rises again where the second wants less.
    let services = [service(0.0, f64::INFINITY, 1000, f64::INFINITY), service(6e9, f64::INFINITY, 1000, f64::INFINITY)];
    let (mut meter, mut now) = (meter(&services, Sharing::Fill), 0);
    assert_near(&run(&mut meter, &services, Sharing::Fill, &mut now, 60), &[3.5e9, 6e9]);
    let less = [services[0].clone(), service(6e9, f64::INFINITY, 1000, 1e9)];
    // By the whole of what is unused: 3.5 (1 + 5/9.5) = 5.34, 7.02, 8.12 Gb/s.
    assert_near(&run(&mut meter, &less, Sharing::Fill, &mut now, 4), &[8.12e9, 1e9]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any services with feasible guarantees come to what the rule says.
    #[test]
    fn comes_to_the_rules_allocation(
        parts in prop::collection::vec((0.0..1.0f64, 0.0..3.0f64, 200..5000u32, 0.0..3.0f64), 1..12),
        add in any::<bool>(),
    ) {
        let n = parts.len() as f64;
        let services: Vec<Service> = parts
            .into_iter()
            .map(|(min, max, weight, demand)| {
                let min = if min < 0.5 { 0.0 } else { min * CAPACITY * 0.9 / n };
                let max = if max > 2.0 { f64::INFINITY } else { min + max * CAPACITY / n };
                let demand = if demand > 2.0 { f64::INFINITY } else { demand * CAPACITY / n };
                service(min, max, weight, demand)
            })
            .collect();
        let sharing = if add { Sharing::Add } else { Sharing::Fill };
        let (mut meter, mut now) = (meter(&services, sharing), 0);
        let usage = run(&mut meter, &services, sharing, &mut now, 1500);
        let expected = solved(&services, sharing);
        for (is, expected) in usage.iter().zip(&expected) {
            prop_assert!((is - expected).abs() < 0.01 * CAPACITY, "{usage:?}, expected {expected:?}");
        }
    }

    /// Shares stay between the guarantee (as far as the interface carries it) and the limit.
    #[test]
    fn a_share_is_between_min_and_max(
        capacity in 1_000_000..=400_000_000_000u64, min in 0.0..1.0f64, over in 0.0..2.0f64,
        weight in 1..=1_000_000_000u32, others in prop::collection::vec(1..=1_000_000_000u32, 0..20), loads in prop::collection::vec(0.0..4.0f64, 0..60),
    ) {
        let of = |w: &u32| Weight::from_thousandths(*w).expect("in range");
        let limit = Bandwidth::from_bps(capacity);
        let min = (capacity as f64 * min) as u64;
        let max = min + 1 + (capacity as f64 * over) as u64;
        let share = Share { min: Bandwidth::from_bps(min), max: Bandwidth::from_bps(max), weight: of(&weight) };
        let others = others.iter().map(|weight| Share { weight: of(weight), ..Share::default() });
        let shares: Vec<Share> = others.chain([share]).collect();
        let mut meter = InterfaceMeter::new(Instant::ZERO, &ShaperParameters::EYEQ, limit, Sharing::Fill, &shares);
        for (i, load) in loads.into_iter().enumerate() {
            let bytes = capacity as f64 * load * T as f64 * 1e-9 / 8.0;
            meter.packet(Instant::from_nanos(i as u64 * T), Bytes::new(bytes as u64));
            for sharing in [Sharing::Add, Sharing::Fill] {
                let is = meter.share(&share, sharing);
                prop_assert!(share.min <= is && is <= share.max.min(limit), "{is} of {share:?}");
            }
            prop_assert!(meter.rate() <= limit && meter.rate() > Bandwidth::ZERO);
        }
    }
}

/// A service beside others at one interface, in windows of both meters of 1 ms.
struct Beside {
    interface: InterfaceMeter,
    meter: ReceiveMeter,
    others: ReceiveMeter,
    entitled: Bandwidth,
    window: u64,
}

impl Beside {
    /// At R = C / 8 of its interface, which 8 services of equal weight share; its receive meter is somewhere between its bounds.
    fn new(parameters: ShaperParameters, entitled: f64) -> Self {
        let parameters = ShaperParameters { interval: parameters.interface.interval, ..parameters };
        let capacity = rate(CAPACITY);
        let meter = |seed| ReceiveMeter::new(Instant::ZERO, &parameters, capacity, seed);
        let shares = [Share::default(); 8];
        let interface = InterfaceMeter::new(Instant::ZERO, &parameters, capacity, Sharing::Fill, &shares);
        let mut beside = Self { interface, meter: meter(1), others: meter(2), entitled: rate(entitled), window: 0 };
        // Eight windows take the receive meter from its start to where it can go both ways, and leave the interface where it is.
        for _ in 0..8 {
            beside.window(CAPACITY / 10.0, CAPACITY, false);
        }
        beside
    }

    /// One window of the service and of all together, in bit/s; all is marked or nothing. What closes is the window before.
    fn window(&mut self, own: f64, all: f64, marked: bool) {
        self.window_of(own, all, if marked { 100 } else { 0 });
    }

    /// The same with so many of a hundred packets marked.
    fn window_of(&mut self, own: f64, all: f64, marks: u32) {
        let now = Instant::from_nanos(self.window * T);
        self.interface.receive(&mut self.meter, now, bytes(own), 100, marks, self.entitled);
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
fn after_marks(parameters: ShaperParameters, own: f64, all: f64, entitled: f64) -> (f64, f64) {
    let mut beside = Beside::new(parameters, entitled);
    beside.window(own, all, false);
    beside.window(own, all, false);
    beside.steps(own, all, true)
}

/// Two services that always want more, of weights 3 and 1, under brokers' limits that fill the link together; R is far above where
/// either is held by it. The intervals until C is met within 0.5 %, and what each uses then.
fn under_limits(limits: [f64; 2], sharing: Sharing, noted: bool) -> (u32, [f64; 2]) {
    let services = [service(0.0, f64::INFINITY, 3000, f64::INFINITY), service(0.0, f64::INFINITY, 1000, f64::INFINITY)];
    let (mut meter, mut now) = (meter(&services, sharing), 0);
    // What was unused has raised R to C.
    let idle = services.clone().map(|service| Service { demand: 1e9, ..service });
    run(&mut meter, &idle, sharing, &mut now, 50);
    assert_eq!(meter.rate(), rate(CAPACITY));
    let receive = |seed| ReceiveMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, rate(CAPACITY), seed);
    let mut meters = [receive(0), receive(1)];
    for interval in 0..200 {
        let used = [0, 1].map(|i| (meter.share(&services[i].share, sharing).bps() as f64).min(limits[i]));
        if (used.iter().sum::<f64>() / CAPACITY - 1.0).abs() < 0.005 {
            return (interval, used);
        }
        let at = Instant::from_nanos(now);
        for i in [0, 1] {
            if noted {
                meter.reach(&meters[i], at, bytes(used[i]), &services[i].share, rate(limits[i]), sharing);
            }
            meter.receive(&mut meters[i], at, bytes(used[i]), 100, 0, rate(used[i]));
        }
        now += T;
    }
    panic!("never")
}

#[test]
fn limits_that_fill_the_link_do_not_leave_r_where_it_has_no_effect() {
    let limits = [0.75 * LINK, 0.25 * LINK];
    for sharing in [Sharing::Fill, Sharing::Add] {
        let (took, used) = under_limits(limits, sharing, true);
        assert!(took <= 8, "{took} intervals");
        assert_near(&used, &[0.75 * CAPACITY, 0.25 * CAPACITY]);
        // From C down to a quarter of it by 2.6 % each.
        let (took, _) = under_limits(limits, sharing, false);
        assert!(took > 50, "{took} intervals");
    }
    // Who is held by a limit far below its part leaves the rest to the other: R falls to where that one is held, and no further.
    let (took, used) = under_limits([0.9 * LINK, 0.1 * LINK], Sharing::Fill, true);
    assert!(took <= 8, "{took} intervals");
    assert_near(&used, &[CAPACITY - 0.1 * LINK, 0.1 * LINK]);
}

#[test]
fn r_stays_where_somebody_has_more_by_it() {
    let services = [service(0.0, f64::INFINITY, 1000, f64::INFINITY), service(0.0, f64::INFINITY, 1000, f64::INFINITY)];
    let mut meter = meter(&services, Sharing::Fill);
    let receive = ReceiveMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, rate(CAPACITY), 0);
    let mut meters = [receive.clone(), receive];
    let mut now = 0;
    let mut window = |meter: &mut InterfaceMeter, used: [f64; 2]| {
        for i in [0, 1] {
            let (at, bytes) = (Instant::from_nanos(now), bytes(used[i]));
            meter.reach(&meters[i], at, bytes, &services[0].share, Bandwidth::UNLIMITED, Sharing::Fill);
            meter.receive(&mut meters[i], at, bytes, 100, 0, rate(CAPACITY));
        }
        now += T;
        meter.rate().bps() as f64
    };
    for _ in 0..20 {
        window(&mut meter, [1e9, 1e9]);
    }
    assert_eq!(meter.rate(), rate(CAPACITY));
    // One uses more than half: all of C may be its, and R falls by what usage says. A window closes with the next packet.
    let law = 1.0 - 0.5 * 0.5 / 9.5;
    for window_is in 0..4 {
        let before = meter.rate().bps() as f64;
        let after = window(&mut meter, [6e9, 4e9]);
        assert!(window_is == 0 || (after / before - law).abs() < 1e-3, "{after} after {before}");
    }
}

/// Its meter's windows are twenty of the interface's, and the last that closed is that of its pause.
#[test]
fn r_stays_for_a_service_that_has_just_begun() {
    let services = [service(0.0, f64::INFINITY, 10_000, 4e9), service(0.0, f64::INFINITY, 1000, 8e9)];
    let mut meter = meter(&services, Sharing::Fill);
    let receive = |interval| {
        let parameters = ShaperParameters { interval, ..ShaperParameters::PARLEY };
        ReceiveMeter::new(Instant::ZERO, &parameters, rate(CAPACITY), 0)
    };
    let mut meters = [receive(Duration::from_micros(200)), receive(Duration::from_millis(20))];
    let mut now = 0;
    let mut window = |meter: &mut InterfaceMeter, used: [f64; 2]| {
        // Five ticks.
        for _ in 0..5 {
            let at = Instant::from_nanos(now);
            for (i, used) in used.into_iter().enumerate().filter(|(_, used)| *used > 0.0) {
                let bytes = Bytes::new(bytes(used).get() / 5);
                meter.reach(&meters[i], at, bytes, &services[i].share, Bandwidth::UNLIMITED, Sharing::Fill);
                meter.receive(&mut meters[i], at, bytes, 100, 0, rate(CAPACITY));
            }
            now += T / 5;
        }
        meter.rate().bps() as f64
    };
    for _ in 0..50 {
        window(&mut meter, [4e9, 0.0]);
    }
    assert_eq!(meter.rate(), rate(CAPACITY));
    let mut before = CAPACITY;
    for _ in 0..10 {
        let after = window(&mut meter, [4e9, 6e9]);
        assert!(
            after / before > 0.97,
            "R {after} after {before}: one usage above C takes 2.6 %, and the service wants it"
        );
        before = after;
    }
}

#[test]
fn marks_count_by_who_was_marked() {
    let case = |own, all, entitled| after_marks(ShaperParameters::PARLEY, own, all, entitled);
    // Not full: half of R goes for marks, besides what usage says: half of the capacity raises it by a quarter. The interface's R
    // rises by the whole of what is unused.
    near(case(4.75e9, 8.55e9, 0.0), (1.25 - 0.5, 1.0 + 0.1));
    // More than the link carries: a cap. Usage says enough.
    near(case(4.75e9, 11.4e9, 5e9), (1.25 - 0.5, 1.0 - 0.5 * 0.2));
    // Full: 2.6 % for the 10 Gb/s that came. Marks of a crowd count nowhere, of others at the receive meter.
    let full = 1.0 - 0.5 * 0.5 / 9.5;
    near(case(6.65e9, 10e9, 0.0), (1.0 + 0.5 * 0.3, full));
    near(case(4.75e9, 10e9, 4e9), (1.25 - 0.5, full));
    // EyeQ takes all marks, as 45,000 B (1 + fraction) in 1 ms here, and none at the interface.
    near(after_marks(ShaperParameters::EYEQ, 6.65e9, 10e9, 0.0), (1.0 - 0.5 * (6.65 + 0.72 - 9.5) / 9.5, full));
}

#[test]
fn who_has_less_than_it_is_entitled_to_takes_the_interface_to_the_level() {
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
    // At once, and no deeper than the level, an eighth, however long it lasts.
    let level = CAPACITY / 8.0;
    assert!((beside.interface.rate().bps() as f64 / level - 1.0).abs() < 1e-6, "{interface}");
    beside.window(4.75e9, 10e9, true);
    let (_, interface) = beside.steps(4.75e9, 10e9, true);
    assert!((interface - (1.0 - 0.5 * 0.5 / 9.5)).abs() < 0.001, "usage alone: {interface}");
}

#[test]
fn who_closes_a_full_window_is_of_the_next() {
    let mut beside = Beside::new(ShaperParameters::PARLEY, 5e9);
    for _ in 0..6 {
        beside.window(2e9, 4.75e9, false);
    }
    beside.window(4.75e9, 10e9, false);
    // The first packet after the full window closes one that is not: it is marked, of who has less, and the only one that could count.
    beside.window(4e9, 7.6e9, false);
    let before = beside.interface.rate();
    let now = Instant::from_nanos(beside.window * T);
    beside.interface.receive(&mut beside.meter, now, Bytes::new(1500), 1, 1, rate(5e9));
    beside.window += 1;
    beside.window(4e9, 7.6e9, false);
    assert!(beside.interface.rate() >= before, "{} after {before}", beside.interface.rate());
}

#[test]
fn marks_in_passing_take_nobody_down() {
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
fn what_marks_left_unused_does_not_raise_r() {
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
    // The full window closes first. A fifth is unused then, and R rises by it. Here windows of both meters end together, the interface's
    // first, so that marks are the next one's: as much came as in the full window, and the one after it does not raise R either.
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
fn after_a_pause_marks_are_old() {
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
fn a_new_capacity_takes_r_along_and_forgets_marks() {
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
    // The marked window closes, with 9 of 19 Gb/s unused: nobody falls to the level, and R rises by them.
    beside.window(4.75e9, 9e9, false);
    let grown = beside.interface.rate().bps() as f64 / moved as f64;
    assert!((grown - (1.0 + 9.0 / 19.0)).abs() < 0.001, "{grown}");
}

#[test]
fn half_of_r_is_back_when_the_queue_has_drained() {
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
    // And one marked window costs what it says.
    after(true, 10e9);
    let queued = after(false, 9e9);
    let drained = after(false, 9e9);
    assert!((drained / queued - 1.25).abs() < 0.01, "{drained} after {queued}");
}

#[test]
fn a_pause_tells_nothing_of_a_queue() {
    // R of the interface before and after a marked service of this interval comes back from a pause of so many windows, in
    // which others brought so much of C.
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
    // A twentieth of C is unused in two windows. The interface was full in 31 intervals, so the second lowers R by what came in them.
    let (before, is) = after(Duration::from_millis(1), 30, 1.02);
    assert!((is / before / (1.05 * 0.991) - 1.0).abs() < 0.002, "{is} after {before}");
    // After more intervals, or more than the 17 s of which a window knows, both raise it. Of a minute with 2.77 Gb/s a window knows
    // 1.02 of C.
    for (interval, pause, load) in [(1, 40, 1.02), (1, 1000, 1.02), (1000, 60_000, 1.02 * 17.18 / 60.0)] {
        let (before, is) = after(Duration::from_millis(interval), pause, load);

        let raised = (before * 1.05f64.powi(2)).min(CAPACITY);
        assert!((is / raised - 1.0).abs() < 0.001, "{pause} windows, intervals of {interval} ms: {is} after {before}");
    }
}

#[test]
fn bursts_below_a_cap_are_not_the_own_queue() {
    // Of a link that carries far more: full by chance, then a service's window of twice the cap, all marked by others' queues.
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
fn a_queue_is_known_in_the_services_window() {
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
    // The interface's windows around it tell nothing: neither is full.
    let unused = 1.0 + 0.5 * (1.0 - 2.5 / 9.5);
    assert!((drained / before - 0.5 * unused).abs() < 0.01, "{drained}, half of {before} by {unused}");
}

#[test]
fn usage_above_a_share_is_the_interfaces_to_lower() {
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
}

/// R of a receive meter after a window of so many intervals: below C as if the law had been run in each (`datapath/receive_meter.h`, Pauses).
fn law(rate: f64, usage: f64, marked: f64, intervals: u64) -> f64 {
    let unused = 1.0 - usage / CAPACITY;
    let next = (rate * (1.0 + 0.5 * unused - 0.5 * marked).max(0.0)).clamp(CAPACITY / 1000.0, CAPACITY);
    let more = (intervals - 1) as f64;
    if unused <= 0.0 || more == 0.0 || marked > 0.0 {
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
        Self { shared, rate, drained: rate, unqueued: None, opened: 0, beside: 0, bytes: 0, packets: 0, marked: 0 }
    }

    /// Closes the window at `now`, with the interface's bytes until then. What came in it, where it met the own queue and marks that count.
    fn close(&mut self, now: u64, received: u64, full: bool, seen: &mut Seen) -> f64 {
        let elapsed = now - self.opened;
        let bps = |bytes: u64| bytes as f64 * 8e9 / elapsed as f64;
        let (own, all, intervals) = (bps(self.bytes), bps(received - self.beside), elapsed / 200_000);
        let off = if full { (7.0 / 8.0, 9.0 / 8.0) } else { (1.0, 16.0 / 15.0) };
        let queued = off.0 * CAPACITY < all && all <= off.1 * CAPACITY && intervals <= 32;
        let crowd = queued && own >= all * 5.0 / 8.0;
        let marked = if crowd { 0.0 } else { f64::from(self.marked) / f64::from(self.packets.max(1)) };
        seen.crowd += u32::from(crowd && self.marked > 0);
        seen.queued += u32::from(queued && marked > 0.0);
        (self.opened, self.beside, self.bytes, self.packets, self.marked) = (now, received, 0, 0, 0);
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
        if marked > 0.0 { all.min(CAPACITY * 16.0 / 15.0) } else { 0.0 }
    }
}

/// Both levels are as the table and the text say. R of the interface is at the level at most after a window in which most packets of those
/// with less than they are entitled to were marked, and else where usage takes it, that of a service's window with marks if it is more and
/// most of C came; with such marks it does not rise, nor in the window after.
fn marks_count(packets: &[(usize, u64, f64, bool)], entitlements: [u64; 3], seen: &mut Seen) {
    let shares = [Share::default(); 3];
    let mut interface =
        InterfaceMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, rate(CAPACITY), Sharing::Fill, &shares);
    let meter = |seed| ReceiveMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, rate(CAPACITY), seed);
    let mut meters = [meter(0), meter(1), meter(2)];
    meters[2].set_share(rate(CAPACITY));
    let mut models = [false, false, true].map(Metered::new);
    let (mut short, mut peak, mut settling, mut now) = ([0u32; 2], 0.0f64, false, 0);
    let (mut full, mut received) = (false, 0);
    for &(service, pause, load, marked) in packets {
        now += pause;
        let (at, bytes) = (Instant::from_nanos(now), bytes(CAPACITY * load * pause as f64 / T as f64));
        let before = interface.clone();
        let usage = meters[service].usage(at).bps();
        let mut alone = meters[service].clone();
        let entitled = Bandwidth::from_bps(entitlements[service]);
        let due = interface.receive(&mut meters[service], at, bytes, 1, u32::from(marked), entitled);
        if due.shares {
            let usage = interface.usage().bps() as f64;
            let idle = usage < 5.0 / 8.0 * CAPACITY;
            let y = if idle { usage.max(peak.min(CAPACITY)) } else { usage.max(peak) } / CAPACITY;
            let is = interface.rate().bps() as f64;
            let was = before.rate().bps() as f64;
            if short[1] > 0 && short[1] * 8 >= short[0] * 5 {
                assert!(is <= CAPACITY / 3.0 + 1.0, "{is}");
                seen.fell += u32::from(is < 0.9 * was);
            } else {
                let law = (was * (1.0 - if y < 1.0 { 1.0 } else { 0.5 } * (y - 1.0))).min(CAPACITY);
                let law = if settling || peak > 0.0 { law.min(was) } else { law };
                assert!((is / law - 1.0).abs() < 1e-3, "{is}, not {law}, from {was} at {y}");
                seen.settling += u32::from(settling && y < 1.0);
                seen.peak += u32::from(peak > usage && !idle);
                seen.held += u32::from(peak > usage && idle);
            }
            full = CAPACITY < usage && usage <= CAPACITY * 16.0 / 15.0;
            seen.full += u32::from(full);
            (short, settling, peak) = ([0; 2], peak > 0.0, 0.0);
        } else {
            assert_eq!(interface.rate(), before.rate());
        }
        let crowd = usage >= interface.usage().bps() / 8 * 5;
        if full && !crowd && marked {
            peak = peak.max(CAPACITY);
        }
        if full && !crowd && usage < entitled.bps() {
            short = [short[0] + 1, short[1] + u32::from(marked)];
        }
        assert_eq!(due.feedback, alone.packet(at, bytes, 1, u32::from(marked)).is_some());
        assert_eq!(meters[service].usage(at), alone.usage(at));
        let model = &mut models[service];
        if now - model.opened >= 200_000 {
            peak = peak.max(model.close(now, received, full, seen));
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
fn marks_count_as_the_table_says() {
    // Stretches of a full interface, of one that is not, of one with little, and of any.
    let load = || prop_oneof![3 => 1.005..1.06f64, 3 => 0.5..0.95f64, 1 => 0.05..0.5f64, 3 => 0.5..1.2f64];
    let packet = |load: f64| (0..3usize, 20_000..60_000u64, Just(load), prop::bool::weighted(0.7));
    let stretch = load().prop_flat_map(move |load| prop::collection::vec(packet(load), 10..120));
    let packets = prop::collection::vec(stretch, 4..12).prop_map(|stretches| stretches.concat());
    let strategy = (packets, prop::array::uniform3(0..10_000_000_000u64));
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let seen = std::cell::RefCell::new(Seen::default());
    let run = proptest::test_runner::TestRunner::new(config).run(&strategy, |(packets, entitlements)| {
        marks_count(&packets, entitlements, &mut seen.borrow_mut());
        Ok(())
    });
    assert!(run.is_ok(), "{run:?}");
    let seen = seen.into_inner();
    let times =
        [seen.full, seen.fell, seen.peak, seen.held, seen.settling, seen.crowd, seen.queued, seen.drained, seen.halved];
    assert!(times.iter().all(|&times| times > 50), "{seen:?}");
}

#[test]
fn the_interval_is_the_machines() {
    let services = [service(0.0, f64::INFINITY, 1000, f64::INFINITY)];
    let mut meter = meter(&services, Sharing::Fill);
    let at = |time: Duration| Instant::ZERO + time;
    assert!(!meter.packet(at(Duration::from_micros(999)), Bytes::new(1)));
    assert!(meter.packet(at(Duration::from_micros(1000)), Bytes::new(1)));
    assert!(!meter.packet(at(Duration::from_micros(1999)), Bytes::new(1)));
}
