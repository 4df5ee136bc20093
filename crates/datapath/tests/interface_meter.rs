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

fn meter(services: &[Service]) -> InterfaceMeter {
    let weights: Vec<Weight> = services.iter().map(|s| s.share.weight).collect();
    InterfaceMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, Bandwidth::from_bps(CAPACITY as u64), weights)
}

/// Runs `intervals` from `now` on; the usages of the last.
fn run(meter: &mut InterfaceMeter, services: &[Service], sharing: Sharing, now: &mut u64, intervals: u32) -> Vec<f64> {
    run_marked(meter, services, sharing, now, intervals, 0.0)
}

/// The same where what the link cannot carry is marked, in this part.
fn run_marked(
    meter: &mut InterfaceMeter,
    services: &[Service],
    sharing: Sharing,
    now: &mut u64,
    intervals: u32,
    marked: f64,
) -> Vec<f64> {
    let mut usage = Vec::new();
    for _ in 0..intervals {
        usage = services.iter().map(|s| (meter.share(&s.share, sharing).bps() as f64).min(s.demand)).collect();
        let wanted = usage.iter().sum::<f64>();
        let marked = if wanted > LINK { (marked * 1000.0) as u32 } else { 0 };
        let sum = wanted.min(LINK);
        meter.packet(Instant::from_nanos(*now), Bytes::new((sum * T as f64 * 1e-9 / 8.0) as u64), 1000, marked);
        *now += T;
    }
    usage
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
        assert_near(&run(&mut meter(&services), &services, sharing, &mut 0, 100), &expected);
    }
}

#[test]
fn who_comes_back_has_its_guarantee_within_milliseconds() {
    // Usage is held to the link, 20/19 of C: without marks R falls by 2.6 % an interval while both fill it; all
    // marked it halves at once, to 4.5 Gb/s. Eight windows of patience later both fit into the link, and nothing is marked any more.
    for (marked, intervals) in [(0.0, 48), (1.0, 21)] {
        let mut services = [service(0.0, f64::INFINITY, 1000, f64::INFINITY), service(6e9, f64::INFINITY, 1000, 0.0)];
        let (mut meter, mut now) = (meter(&services), 0);
        assert_near(&run(&mut meter, &services, Sharing::Fill, &mut now, 50), &[9.5e9, 0.0]);
        services[1].demand = f64::INFINITY;
        let given =
            (1..200).find(|_| run_marked(&mut meter, &services, Sharing::Fill, &mut now, 1, marked)[0] < 3.51e9);
        assert_eq!(given, Some(intervals));
        assert_near(&run(&mut meter, &services, Sharing::Fill, &mut now, 50), &[3.5e9, 6e9]);
    }
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
        let (mut meter, mut now) = (meter(&services), 0);
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
        let weights = others.iter().map(of).chain([of(&weight)]);
        let limit = Bandwidth::from_bps(capacity);
        let mut meter = InterfaceMeter::new(Instant::ZERO, &ShaperParameters::EYEQ, limit, weights);
        let min = (capacity as f64 * min) as u64;
        let max = min + 1 + (capacity as f64 * over) as u64;
        let share = Share { min: Bandwidth::from_bps(min), max: Bandwidth::from_bps(max), weight: of(&weight) };
        for (i, load) in loads.into_iter().enumerate() {
            let bytes = capacity as f64 * load * T as f64 * 1e-9 / 8.0;
            meter.packet(Instant::from_nanos(i as u64 * T), Bytes::new(bytes as u64), 1, 0);
            for sharing in [Sharing::Add, Sharing::Fill] {
                let is = meter.share(&share, sharing);
                prop_assert!(share.min <= is && is <= share.max.min(limit), "{is} of {share:?}");
            }
            prop_assert!(meter.rate() <= limit && meter.rate() > Bandwidth::ZERO);
        }
    }
}

/// R after one interval in which all was marked, from `before` on, as parts of `before`: at the receive meter and at the interface.
fn after_marks(parameters: ShaperParameters, own: f64, all: f64, entitled: f64) -> (f64, f64) {
    let rate = |bps: f64| Bandwidth::from_bps(bps as u64);
    let parameters = ShaperParameters { interval: parameters.interface.interval, ..parameters };
    let mut interface = InterfaceMeter::new(Instant::ZERO, &parameters, rate(CAPACITY), [Weight::ONE, Weight::ONE]);
    let mut meter = ReceiveMeter::new(Instant::ZERO, &parameters, rate(CAPACITY), 1);
    let bytes = |bps: f64| Bytes::new((bps * T as f64 * 1e-9 / 8.0) as u64);
    // Eight windows take the receive meter from its start to where it can go both ways, and leave the interface where it is; a
    // window is judged by what came in the one before.
    let mut rates = Vec::new();
    let mut others = ReceiveMeter::new(Instant::ZERO, &parameters, rate(CAPACITY), 2);
    for window in 0..12 {
        let now = Instant::from_nanos(window * T);
        let (own, all) = if window < 8 { (CAPACITY / 10.0, CAPACITY) } else { (own, all) };
        let marked = if window == 10 { 100 } else { 0 };
        interface.receive(&mut others, now, bytes(all - own), 100, marked, Bandwidth::ZERO);
        interface.receive(&mut meter, now, bytes(own), 100, marked, rate(entitled));
        rates.push((meter.rate().bps() as f64, interface.rate().bps() as f64));
    }
    (rates[11].0 / rates[10].0, rates[11].1 / rates[10].1)
}

#[test]
fn marks_count_by_who_caused_them() {
    let case = |own, all, entitled| after_marks(ShaperParameters::PARLEY, own, all, entitled);
    let near = |(meter, interface): (f64, f64), expected: (f64, f64)| {
        let far = (meter - expected.0).abs().max((interface - expected.1).abs());
        assert!(far < 0.01, "{meter}, {interface}, not {expected:?}");
    };
    // Not full: half of R goes for marks, besides what usage says: half of the capacity raises it by a quarter.
    near(case(4.75e9, 8.55e9, 0.0), (1.25 - 0.5, 1.0 + 0.5 * 0.1));
    // Full: 2.6 % for the 10 Gb/s that came. Marks of a crowd count nowhere, of others at the receive meter.
    let full = 1.0 - 0.5 * 0.5 / 9.5;
    near(case(6.65e9, 10e9, 0.0), (1.0 + 0.5 * 0.3, full));
    near(case(4.75e9, 10e9, 4e9), (1.25 - 0.5, full));
    // With less than it is entitled to: its marks count at the interface, not at its meter. The others', half of the packets, came
    // before the first of them.
    near(case(4.75e9, 10e9, 5e9), (1.25, full - 0.25));
    // EyeQ takes all marks, as 45,000 B (1 + fraction) in 1 ms here, and none at the interface.
    near(after_marks(ShaperParameters::EYEQ, 6.65e9, 10e9, 0.0), (1.0 - 0.5 * (6.65 + 0.72 - 9.5) / 9.5, full));
}

/// Every window at half of the capacity, all marked in the windows `marked`: R after each, in parts of the one before, or `None` where
/// it stood still.
fn steps(parameters: ShaperParameters, marked: &[u64], windows: u64) -> Vec<Option<f64>> {
    let capacity = Bandwidth::from_bps(CAPACITY as u64);
    let mut meter = InterfaceMeter::new(Instant::ZERO, &parameters, capacity, [Weight::ONE; 8]);
    let mut before = meter.rate().bps() as f64;
    let mut steps = Vec::new();
    for window in 0..=windows {
        let now = Instant::from_nanos(window * T);
        meter.packet(
            now,
            Bytes::new((CAPACITY / 2.0 * T as f64 * 1e-9 / 8.0) as u64),
            100,
            if marked.contains(&window) { 100 } else { 0 },
        );
        let rate = meter.rate().bps() as f64;
        if window > 0 {
            steps.push((rate != before).then_some(rate / before));
        }
        before = rate;
    }
    steps
}

#[test]
fn after_marks_eight_windows_are_waited_for() {
    let steps = steps(ShaperParameters::PARLEY, &[1, 2, 9, 10], 12);
    // Windows 0 to 11: half of the capacity raises R by a quarter, marks take half of R; those of windows 2 and 9 fall into the
    // eight windows after the first ones, and in four of these R stands still.
    let (up, down) = (Some(1.25), Some(0.75));
    let expected = [up, down, None, None, None, None, up, up, up, up, down, None];
    assert_eq!(steps.len(), expected.len());
    for (step, expected) in steps.iter().zip(expected) {
        match (step, expected) {
            (Some(step), Some(expected)) => assert!((step - expected).abs() < 1e-3, "{step}, not {expected}"),
            (step, expected) => assert_eq!(step.is_some(), expected.is_some(), "{steps:?}"),
        }
    }
}

#[test]
fn patience_ends_with_a_pause() {
    let capacity = Bandwidth::from_bps(CAPACITY as u64);
    let mut meter = InterfaceMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, capacity, [Weight::ONE; 8]);
    let mut at = |window: u64, marked| {
        meter.packet(Instant::from_nanos(window * T), Bytes::new(1000), 100, marked);
        meter.rate()
    };
    at(0, 100);
    let lowered = at(1, 0);
    assert_eq!(at(2, 0), lowered);
    // Three windows in one: with the one before the four in which R stands still.
    assert_eq!(at(5, 0), lowered);
    assert!(at(6, 0) > lowered);
    // Marked after patience, and then a pause that is longer than it.
    at(10, 100);
    let lowered = at(11, 0);
    assert!(at(20, 0) > lowered);
}

/// Who was marked with less than it is entitled to, by window: what lets the marks of others count at the interface.
#[derive(Default)]
struct Squeezed([bool; 2]);

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// A packet does what the table of `datapath/interface_meter.h` says, put down as four rules.
    #[test]
    fn marks_count_as_the_table_says(
        packets in prop::collection::vec((0..3usize, 1..4_000_000u64, 0..400_000u64, any::<bool>()), 1..200),
        entitlements in prop::array::uniform3(0..10_000_000_000u64),
    ) {
        let capacity = Bandwidth::from_bps(CAPACITY as u64);
        let weights = [Weight::ONE; 3];
        let mut interface = InterfaceMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, capacity, weights);
        let meter = |seed| ReceiveMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, capacity, seed);
        let mut meters = [meter(0), meter(1), meter(2)];
        let (mut squeezed, mut now) = (Squeezed::default(), Instant::ZERO);
        for (service, bytes, pause, marked) in packets {
            now = now + Duration::from_nanos(pause);
            let (mut plain, mut plain_meter) = (interface.clone(), meters[service].clone());
            let entitled = Bandwidth::from_bps(entitlements[service]);
            let received =
                interface.receive(&mut meters[service], now, Bytes::new(bytes), 1, u32::from(marked), entitled);
            let usage = plain_meter.usage(now).bps();
            let full = plain.usage().bps() > capacity.bps();
            let crowd = usage >= plain.usage().bps() / 8 * 5;
            let below = usage < entitled.bps();
            squeezed.0[1] |= full && !crowd && below && marked;
            let own = marked && (!full || !crowd && !below);
            let shared = marked && full && !crowd && squeezed.0.contains(&true);
            prop_assert_eq!(received.shares, plain.packet(now, Bytes::new(bytes), 1, u32::from(shared)));
            let feedback = plain_meter.packet(now, Bytes::new(bytes), 1, u32::from(own));
            prop_assert_eq!(received.feedback, feedback.is_some());
            prop_assert_eq!(interface.rate(), plain.rate());
            prop_assert_eq!(&meters[service], &plain_meter);
            if received.shares {
                squeezed.0 = [squeezed.0[1], false];
            }
        }
    }
}

#[test]
fn the_interval_is_the_machines() {
    let services = [service(0.0, f64::INFINITY, 1000, f64::INFINITY)];
    let mut meter = meter(&services);
    let at = |time: Duration| Instant::ZERO + time;
    assert!(!meter.packet(at(Duration::from_micros(999)), Bytes::new(1), 1, 0));
    assert!(meter.packet(at(Duration::from_micros(1000)), Bytes::new(1), 1, 0));
    assert!(!meter.packet(at(Duration::from_micros(1999)), Bytes::new(1), 1, 0));
}
