//! The interface meter in a closed loop: services send their demand, at most their share.
//!
//! A fluid, interval by interval, through a link of 20/19 of the capacity without a queue; the result is
//! compared with the rule solved for its fair rate by bisection, which shares no code with the meter.

use crate::common::{self, CAPACITY, Receiver, T, bytes, rate};
use proptest::prelude::*;
use weir_datapath::{InterfaceMeter, ReceiveMeter};
use weir_policy::{Share, Sharing};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};

const LINK: f64 = 10e9;

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

/// The rate that a service may use at `fair_rate` bit/s per unit of weight.
fn allowed(service: &Service, sharing: Sharing, fair_rate: f64) -> f64 {
    let part = fair_rate * f64::from(service.share.weight.thousandths()) / 1000.0;
    let min = service.share.min.bps() as f64;
    let max = if service.share.max.is_unlimited() { CAPACITY } else { service.share.max.bps() as f64 };
    let share = match sharing {
        Sharing::Add => min + part,
        Sharing::Fill => part.max(min),
    };
    share.min(max).min(CAPACITY)
}

fn used(services: &[Service], sharing: Sharing, fair_rate: f64) -> Vec<f64> {
    services.iter().map(|s| allowed(s, sharing, fair_rate).min(s.demand)).collect()
}

/// The usages at the highest fair rate that fits.
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

/// Runs `intervals` from `now` on; the usages of the last.
fn run(meter: &mut InterfaceMeter, services: &[Service], sharing: Sharing, now: &mut u64, intervals: u32) -> Vec<f64> {
    let mut usage = Vec::new();
    for _ in 0..intervals {
        usage = services.iter().map(|s| (meter.share(&s.share, sharing).bps() as f64).min(s.demand)).collect();
        let sum = usage.iter().sum::<f64>().min(LINK);
        *now += T;
        meter.tick(Instant::from_nanos(*now), bytes(sum), Duration::ZERO);
    }
    usage
}

/// The receiver of two services with these committed rates, whose receive meters have the interface's capacity.
fn receiver(interface: InterfaceMeter, committed: [f64; 2]) -> Receiver {
    let meter = ReceiveMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, rate(CAPACITY));
    let service = |committed| common::Service::new(meter.clone(), rate(committed));
    Receiver::new(interface, committed.map(service).to_vec())
}

/// The same for two services with unlimited demand, of equal weights, the second with this
/// guarantee: packets beyond the link's rate are marked. Returns the intervals that pass until the
/// first has given way.
fn given_way(guarantee: f64, marked: bool) -> f64 {
    let services =
        [service(0.0, f64::INFINITY, 1000, f64::INFINITY), service(guarantee, f64::INFINITY, 1000, f64::INFINITY)];
    let alone = [services[0].clone(), service(guarantee, f64::INFINITY, 1000, 0.0)];
    let (mut meter, mut now) = (meter(&services, Sharing::Fill), 0);
    run(&mut meter, &alone, Sharing::Fill, &mut now, 50);
    let mut receiver = receiver(meter, [CAPACITY - guarantee, guarantee]);
    for fifth in 1..1000 {
        let share = |service: &Service| receiver.interface.share(&service.share, Sharing::Fill).bps() as f64;
        let wanted: Vec<f64> = services.iter().map(share).collect();
        if wanted[0] < CAPACITY - guarantee + 1e7 {
            return f64::from(fifth) / 5.0;
        }
        let sum = wanted.iter().sum::<f64>();
        let marks = if marked && sum > LINK { 100 } else { 0 };
        for (i, wanted) in wanted.iter().enumerate() {
            let came = Bytes::new(bytes(wanted * (LINK / sum).min(1.0)).get() / 5);
            receiver.packets(i, Instant::from_nanos(now), came, 100, marks);
        }
        now += T / 5;
    }
    panic!("never")
}

fn assert_near(is: &[f64], expected: &[f64]) {
    for (is, expected) in is.iter().zip(expected) {
        assert!((is - expected).abs() < 0.005 * CAPACITY, "{is:?}, expected {expected:?}");
    }
}

#[test]
fn both_sharing_rules_at_one_machine() {
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
fn resuming_service_has_its_guarantee_within_milliseconds() {
    // The link limits usage to 20/19 of C: without marks R falls in steps that double while both
    // saturate it, and by the law near C. The first marks are those of the first full interval, and
    // count in the next: R is at the fair rate then.
    assert_eq!(given_way(6e9, false), 12.4);
    assert_eq!(given_way(6e9, true), 2.4);
    // Then the rule holds, and R rises again where the second has less demand.
    let services = [service(0.0, f64::INFINITY, 1000, f64::INFINITY), service(6e9, f64::INFINITY, 1000, f64::INFINITY)];
    let (mut meter, mut now) = (meter(&services, Sharing::Fill), 0);
    assert_near(&run(&mut meter, &services, Sharing::Fill, &mut now, 60), &[3.5e9, 6e9]);
    let less = [services[0].clone(), service(6e9, f64::INFINITY, 1000, 1e9)];
    // By the whole of what is unused: 3.5 (1 + 5/9.5) = 5.34, 7.02, 8.12 Gb/s.
    assert_near(&run(&mut meter, &less, Sharing::Fill, &mut now, 4), &[8.12e9, 1e9]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any services with feasible guarantees converge to the rule's allocation.
    #[test]
    fn rates_converge_to_the_allocation_of_the_rule(
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
    fn share_is_between_min_and_max(
        capacity in 1_000_000..=400_000_000_000u64, min in 0.0..1.0f64, over in 0.0..2.0f64,
        weight in 1..=1_000_000_000u32, others in prop::collection::vec(1..=1_000_000_000u32, 0..20),
        loads in prop::collection::vec(0.0..4.0f64, 0..60),
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

/// Two services with unlimited demand, of weights 3 and 1, under brokers' limits that fill the link
/// together; R is far above the rate that limits either. Returns the intervals until C is met within
/// 0.5 %, and the usage of each then.
fn under_limits(limits: [f64; 2], sharing: Sharing, noted: bool) -> (f64, [f64; 2]) {
    let services = [service(0.0, f64::INFINITY, 3000, f64::INFINITY), service(0.0, f64::INFINITY, 1000, f64::INFINITY)];
    let (mut meter, mut now) = (meter(&services, sharing), 0);
    // What was unused has raised R to C.
    let idle = services.clone().map(|service| Service { demand: 1e9, ..service });
    run(&mut meter, &idle, sharing, &mut now, 50);
    assert_eq!(meter.rate(), rate(CAPACITY));
    let mut receiver = receiver(meter, [0.0; 2]);
    receiver.sharing = sharing;
    for fifth in 0..1000 {
        let share = |i: usize| receiver.interface.share(&services[i].share, sharing).bps() as f64;
        let used = [0, 1].map(|i| share(i).min(limits[i]));
        if (used.iter().sum::<f64>() / CAPACITY - 1.0).abs() < 0.005 {
            return (f64::from(fifth) / 5.0, used);
        }
        let at = Instant::from_nanos(now);
        for i in [0, 1] {
            let bytes = Bytes::new(bytes(used[i]).get() / 5);
            receiver.packets(i, at, bytes, 100, 0);
            let service = &mut receiver.services[i];
            service.committed = rate(used[i]);
            service.reach = noted.then(|| (services[i].share, rate(limits[i])));
        }
        now += T / 5;
    }
    panic!("never")
}

#[test]
fn limits_that_fill_the_link_lower_an_ineffective_r() {
    let limits = [0.75 * LINK, 0.25 * LINK];
    for sharing in [Sharing::Fill, Sharing::Add] {
        let (took, used) = under_limits(limits, sharing, true);
        assert!(took <= 8.0, "{took} intervals");
        assert_near(&used, &[0.75 * CAPACITY, 0.25 * CAPACITY]);
        // By steps that double, from C down to a quarter of it.
        let (took, _) = under_limits(limits, sharing, false);
        assert!(took <= 8.0, "{took} intervals");
    }
    // A service with a limit far below its part leaves the rest to the other: R falls until it
    // limits the other one, and no further.
    let (took, used) = under_limits([0.9 * LINK, 0.1 * LINK], Sharing::Fill, true);
    assert!(took <= 8.0, "{took} intervals");
    assert_near(&used, &[CAPACITY - 0.1 * LINK, 0.1 * LINK]);
}

#[test]
fn r_is_kept_while_a_service_gains_by_it() {
    let services = [service(0.0, f64::INFINITY, 1000, f64::INFINITY), service(0.0, f64::INFINITY, 1000, f64::INFINITY)];
    let mut receiver = receiver(meter(&services, Sharing::Fill), [CAPACITY; 2]);
    for (service, of) in receiver.services.iter_mut().zip(&services) {
        service.reach = Some((of.share, Bandwidth::UNLIMITED));
    }
    let mut now = 0;
    let mut window = |used: [f64; 2]| {
        for i in [0, 1] {
            receiver.packets(i, Instant::from_nanos(now), bytes(used[i]), 100, 0);
        }
        now += T;
        receiver.interface.rate().bps() as f64
    };
    for _ in 0..20 {
        window([1e9, 1e9]);
    }
    assert_eq!(window([1e9, 1e9]), CAPACITY);
    // One uses more than half: it may have all of C, and R falls by its usage. A window closes with
    // the next packet.
    let law = 1.0 - 0.5 * 0.3 / 9.5;
    let mut before = window([5.8e9, 4e9]);
    for _ in 0..3 {
        let after = window([5.8e9, 4e9]);
        assert!((after / before - law).abs() < 1e-3, "{after} after {before}");
        before = after;
    }
}

/// Its meter's windows are twenty of the interface's, and the last that closed is that of its pause.
#[test]
fn r_is_kept_for_a_service_that_has_just_started() {
    let services = [service(0.0, f64::INFINITY, 10_000, 4e9), service(0.0, f64::INFINITY, 1000, 8e9)];
    let mut receiver = receiver(meter(&services, Sharing::Fill), [CAPACITY; 2]);
    for (service, of) in receiver.services.iter_mut().zip(&services) {
        service.reach = Some((of.share, Bandwidth::UNLIMITED));
    }
    receiver.services[1].meter.set_interval(Duration::from_millis(20));
    let mut now = 0;
    let mut window = |used: [f64; 2]| {
        // Five ticks.
        for _ in 0..5 {
            let at = Instant::from_nanos(now);
            for (i, used) in used.into_iter().enumerate().filter(|(_, used)| *used > 0.0) {
                receiver.packets(i, at, Bytes::new(bytes(used).get() / 5), 100, 0);
            }
            now += T / 5;
        }
        receiver.interface.rate().bps() as f64
    };
    for _ in 0..50 {
        window([4e9, 0.0]);
    }
    assert_eq!(window([4e9, 0.0]), CAPACITY);
    let mut before = CAPACITY;
    for _ in 0..10 {
        let after = window([4e9, 5.8e9]);
        assert!(
            after / before > 0.98,
            "R {after} after {before}: one usage above C takes 1.6 %, and the service wants it"
        );
        before = after;
    }
}

#[test]
fn interval_is_that_of_the_interface_meter() {
    let services = [service(0.0, f64::INFINITY, 1000, f64::INFINITY)];
    let mut meter = meter(&services, Sharing::Fill);
    let at = |time: Duration| Instant::ZERO + time;
    assert!(!meter.packet(at(Duration::from_micros(999)), Bytes::new(1)));
    assert!(meter.packet(at(Duration::from_micros(1000)), Bytes::new(1)));
    assert!(!meter.packet(at(Duration::from_micros(1999)), Bytes::new(1)));
}
