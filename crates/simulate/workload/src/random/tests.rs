//! Oracles: the offered load, the choice of pairs, common random numbers, deadlines.

use super::*;
use crate::test_support::{all, hosts};
use crate::{Builtin, Framing, Spec, Workload, mean_gap};
use proptest::prelude::*;
use weir_units::Bandwidth;
use weir_units::Load;

fn gap(picos: f64) -> MeanGap {
    MeanGap::from_picos(picos).expect("a gap")
}

fn fixed(bytes: u64) -> SizeDistribution {
    SizeDistribution::fixed(bytes).expect("a size")
}

fn run(spec: &Random, seed: u64) -> Vec<FlowStart> {
    all(&mut Workload::new(&Spec::Random(spec.clone()), seed))
}

#[test]
fn pairs_are_equally_likely() {
    // 10 hosts: 90 pairs, chi-square with 89 degrees of freedom, above 135.98 in one of a thousand.
    let n = 90_000;
    let spec = Random::new(hosts(0..10), hosts(0..10), Arrivals::Poisson, gap(1e6), fixed(1))
        .and_then(|spec| spec.at_most(n))
        .expect("a workload");
    let mut seen = [[0_u32; 10]; 10];
    for flow in run(&spec, 4) {
        seen[flow.from.index()][flow.to.index()] += 1;
    }
    let mut chi = 0.0;
    for (from, row) in seen.iter().enumerate() {
        for (to, &count) in row.iter().enumerate() {
            if from == to {
                assert_eq!(count, 0, "no host sends to itself");
            } else {
                chi += (f64::from(count) - 1000.0).powi(2) / 1000.0;
            }
        }
    }
    assert!(chi < 135.98, "{chi}");
}

#[test]
fn senders_are_equally_loaded_when_the_sides_overlap() {
    // Host 0 is the only one on both sides. It sends a quarter of the flows all the same.
    let n = 40_000;
    let receivers = Hosts::new([0, 7, 8].map(MachineId).to_vec(), "receivers").expect("hosts");
    let spec = Random::new(hosts(0..4), receivers, Arrivals::Constant, gap(1e6), fixed(1))
        .and_then(|spec| spec.at_most(n))
        .expect("a workload");
    let own = run(&spec, 4).iter().filter(|flow| flow.from == MachineId(0)).count();
    // Standard error √(n/4·3/4) = 86.6.
    assert!(own.abs_diff(10_000) < 4 * 87, "{own}");
}

/// Each sender's own gaps are uniform between 0 and twice its mean, and all of them together keep
/// the rate.
#[test]
fn every_sender_may_have_its_own_arrivals() {
    let n = 80_000;
    let spec = Random::new(hosts(0..8), hosts(0..10), Arrivals::Uniform, gap(1e6), fixed(1))
        .and_then(|spec| spec.at_most(n))
        .expect("a workload");
    let own = run(&spec.clone().per_sender().expect("a gap"), 4);
    assert!(own.is_sorted_by_key(|flow| flow.at));
    let last = own[own.len() - 1].at.picos() as f64;
    assert!((last / (n as f64 * 1e6) - 1.0).abs() < 0.01, "{last}");
    for sender in 0..8 {
        let times: Vec<_> = own.iter().filter(|flow| flow.from.0 == sender).map(|flow| flow.at.picos()).collect();
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|&gap| gap <= 16_000_001), "twice eight times the gap of all");
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        // Uniform: a standard deviation of 8/√3 µs, over 10,000 gaps.
        assert!((mean - 8e6).abs() < 4.0 * 8e6 / (3.0_f64 * 1e4).sqrt(), "{mean}");
    }
    // Gaps of all together are sometimes longer than twice their mean, which one process of all
    // never gives.
    let longest = |flows: &[FlowStart]| flows.windows(2).map(|pair| (pair[1].at - pair[0].at).picos()).max();
    assert!(longest(&own) > Some(4_000_000) && longest(&run(&spec, 4)) <= Some(2_000_001));
}

#[test]
fn ends_by_number_and_by_time() {
    let spec = Random::new(hosts(0..2), hosts(0..2), Arrivals::Constant, gap(1e6), fixed(9)).expect("a workload");
    let state = |spec: &Random| Workload::new(&Spec::Random(spec.clone()), 0);
    assert_eq!((state(&spec).expected(), state(&spec).is_finite()), (None, false));
    let ten = spec.clone().at_most(10).expect("ten");
    assert_eq!((state(&ten).expected(), state(&ten).is_finite()), (Some(10), true));
    let flows = run(&ten, 0);
    assert_eq!(
        flows.iter().map(|flow| flow.at.picos()).collect::<Vec<_>>(),
        (1..=10).map(|i| i * 1_000_000).collect::<Vec<_>>()
    );
    // From 1 µs to 4 µs, the end excluded: at 2 and 3 µs.
    let timed = ten.times(SimTime::from_micros(1), SimTime::from_micros(4)).expect("times");
    assert_eq!((state(&timed).expected(), state(&timed).is_finite()), (None, true));
    assert_eq!(run(&timed, 0).iter().map(|flow| flow.at.picos()).collect::<Vec<_>>(), [2_000_000, 3_000_000]);
}

#[test]
fn another_load_has_the_same_flows() {
    let spec = |picos| {
        Random::new(hosts(0..20), hosts(0..20), Arrivals::Poisson, gap(picos), Builtin::WebSearch.sizes())
            .and_then(|spec| spec.at_most(1000))
            .expect("a workload")
    };
    let (slow, fast) = (run(&spec(2e6), 8), run(&spec(1e6), 8));
    for (slow, fast) in slow.iter().zip(&fast) {
        assert_eq!((slow.from, slow.to, slow.bytes), (fast.from, fast.to, fast.bytes));
        assert!(slow.at.picos().abs_diff(2 * fast.at.picos()) <= 2, "half the gaps");
    }
    assert_eq!(run(&spec(1e6), 8), fast);
    assert_ne!(run(&spec(1e6), 9), fast);
}

#[test]
fn deadlines_are_points_in_time() {
    let spec = Random::new(hosts(0..2), hosts(0..2), Arrivals::Poisson, gap(1e6), fixed(9))
        .and_then(|spec| spec.at_most(100_000))
        .expect("a workload");
    let lengths = |deadlines| -> Vec<f64> {
        let spec = spec.clone().deadlines(deadlines).expect("deadlines");
        run(&spec, 2).iter().map(|flow| (flow.deadline.expect("one") - flow.at).picos() as f64).collect()
    };
    assert!(lengths(Deadlines::Fixed(SimTime::from_millis(20))).iter().all(|&length| length == 20e9));
    // max(X, f) of an exponential X of mean m has the mean f + m·exp(−f/m).
    let (mean, floor) = (SimTime::from_millis(20), SimTime::from_millis(3));
    let lengths = lengths(Deadlines::Exponential { mean, floor });
    assert!(lengths.iter().all(|&length| length >= 3e9));
    let average = lengths.iter().sum::<f64>() / lengths.len() as f64;
    let expected = 3e9 + 20e9 * (-0.15_f64).exp();
    assert!((average - expected).abs() < 4.0 * 20e9 / (lengths.len() as f64).sqrt(), "{average} {expected}");
    assert!(run(&spec, 2).iter().all(|flow| flow.deadline.is_none()));
    assert!(spec.deadlines(Deadlines::Fixed(SimTime::ZERO)).is_err());
}

#[test]
fn invalid_workloads_are_refused() {
    let new = |senders, receivers| Random::new(senders, receivers, Arrivals::Poisson, gap(1e6), fixed(9));
    assert!(new(hosts(0..3), hosts(2..3)).is_err());
    assert!(new(hosts(0..3), hosts(3..4)).is_ok());
    let spec = new(hosts(0..3), hosts(0..3)).expect("a workload");
    assert!(spec.clone().at_most(0).is_err());
    assert!(spec.times(SimTime::from_secs(1), SimTime::from_secs(1)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_offered_load_is_the_given_one(
        load in 0.05..0.999_f64,
        builtin in prop::sample::select(Builtin::ALL.to_vec()),
        arrivals in prop::sample::select(Arrivals::ALL.to_vec()),
        framing in prop::sample::select(vec![(1460, 40), (1460, 78), (100, 60), (8960, 40)]),
        gigabits in 1_u64..400,
        seed in 0_u64..,
    ) {
        let n = 30_000;
        let framing = Framing::new(framing.0, framing.1).expect("a payload");
        let (sizes, capacity) = (builtin.sizes(), Bandwidth::from_gbps(8 * gigabits));
        let gap = mean_gap(Load::from_fraction(load).expect("a load"), capacity, sizes.mean_wire_bytes(framing));
        let spec = Random::new(hosts(0..8), hosts(0..8), arrivals, gap.expect("a gap"), sizes.clone())
            .and_then(|spec| spec.at_most(n))
            .expect("a workload");
        let flows = run(&spec, seed);
        let bits: f64 = flows.iter().map(|flow| 8.0 * framing.wire_bytes(flow.bytes) as f64).sum();
        let seconds = flows.last().expect("flows").at.picos() as f64 / 1e12;
        let offered = bits / seconds / capacity.bps() as f64;
        // Relative variance of a sum of n sizes over a sum of n gaps: (v_size + v_gap)/n, v_gap at
        // most 1. Six standard errors and a fifth more, since the heavy tails make sums lean to the
        // right. Packets' headers are in proportion to sizes but for the last packet of each, which
        // only evens them out.
        let relative = sizes.mean_square() / sizes.mean().powi(2);
        let error = 1.2 * 6.0 * (relative / n as f64).sqrt();
        prop_assert!((offered / load - 1.0).abs() < error, "{offered} instead of {load} ± {error}");
    }
}
