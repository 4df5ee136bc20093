//! Oracles: the offered load, the choice of receivers and senders, common random numbers, jitter.

use super::*;
use crate::test_support::{all, hosts};
use crate::{Coflow, Spec, Workload};
use proptest::prelude::*;

fn gap(picos: f64) -> MeanGap {
    MeanGap::from_picos(picos).expect("a gap")
}

fn some(numbers: &[u32]) -> Hosts {
    Hosts::new(numbers.iter().copied().map(MachineId).collect(), "hosts").expect("hosts")
}

/// All flows, by incast.
fn run(spec: &Incasts, seed: u64) -> Vec<Vec<FlowStart>> {
    let mut workload = Workload::new(&Spec::Incasts(spec.clone()), seed);
    let mut flows = all(&mut workload);
    flows.sort_by_key(|flow| flow.tag);
    let fan_in = spec.fan_in() as usize;
    let coflow = |id| Coflow { id, flows: fan_in as u64 };
    assert!(flows.iter().zip(0..).all(|(flow, tag)| flow.tag == tag), "tags are numbers from 0");
    assert!(flows.iter().all(|flow| workload.coflow(flow.tag) == Some(coflow(flow.tag / fan_in as u64))));
    flows.chunks(fan_in).map(<[FlowStart]>::to_vec).collect()
}

#[test]
fn incasts_arrive_at_the_mean_gap() {
    let n = 40_000;
    for (arrivals, variance) in [(Arrivals::Poisson, 1.0), (Arrivals::Constant, 0.0), (Arrivals::Uniform, 1.0 / 3.0)] {
        let spec = Incasts::new(hosts(0..10), hosts(0..10), 3, 20_000, arrivals, gap(1e6))
            .and_then(|spec| spec.at_most(n))
            .expect("incasts");
        let incasts = run(&spec, 7);
        assert_eq!(incasts.len() as u64, n);
        let last = incasts.last().expect("incasts")[0].at.picos() as f64;
        let error = 4.0 * (variance / n as f64).sqrt() + 1e-9;
        assert!((last / n as f64 / 1e6 - 1.0).abs() <= error, "{arrivals:?}: {last}");
        // All flows of an incast start together and have the size.
        assert!(incasts.iter().flatten().all(|flow| flow.bytes == 20_000));
        assert!(incasts.iter().all(|incast| incast.iter().all(|flow| flow.at == incast[0].at)));
    }
}

/// Hosts 0 to 5 send and 4 to 7 receive. Each receiver has a quarter of the incasts; each sender the same part of the
/// incasts of a receiver, also where the receiver is itself among the senders.
#[test]
fn receivers_and_senders_are_equally_likely() {
    let n = 40_000;
    let spec = Incasts::new(hosts(0..6), some(&[4, 5, 6, 7]), 2, 1, Arrivals::Poisson, gap(1e6))
        .and_then(|spec| spec.at_most(n))
        .expect("incasts");
    let mut seen = [[0_u32; 8]; 8];
    let mut of_receiver = [0_u32; 8];
    for incast in run(&spec, 3) {
        let to = incast[0].to;
        of_receiver[to.index()] += 1;
        assert!(incast[0].from != incast[1].from && incast.iter().all(|flow| flow.to == to && flow.from != to));
        incast.iter().for_each(|flow| seen[to.index()][flow.from.index()] += 1);
    }
    for to in 4..8 {
        // Standard error √(n · 1/4 · 3/4) = 86.6.
        assert!(of_receiver[to].abs_diff(10_000) < 4 * 87, "{of_receiver:?}");
        let others: Vec<usize> = (0..6).filter(|from| *from != to).collect();
        let expected = 2.0 * f64::from(of_receiver[to]) / others.len() as f64;
        for from in others {
            assert!((f64::from(seen[to][from]) - expected).abs() < 4.0 * expected.sqrt(), "{from} -> {to}: {seen:?}");
        }
    }
}

#[test]
fn another_gap_has_the_same_incasts() {
    let spec = |picos| {
        Incasts::new(hosts(0..9), hosts(0..9), 4, 1, Arrivals::Poisson, gap(picos))
            .and_then(|spec| spec.jitter(SimTime::from_picos(500))?.at_most(200))
            .expect("incasts")
    };
    let (dense, sparse) = (run(&spec(1e3), 5), run(&spec(1e9), 5));
    let pairs = |incasts: &[Vec<FlowStart>]| -> Vec<_> {
        incasts.iter().flatten().map(|flow| (flow.tag, flow.from, flow.to)).collect()
    };
    assert_eq!(pairs(&dense), pairs(&sparse));
    assert_ne!(dense, sparse);
    assert_ne!(pairs(&dense), pairs(&run(&spec(1e3), 6)));
}

#[test]
fn flows_start_in_order_within_the_jitter() {
    let jitter = SimTime::from_micros(10);
    let without = Incasts::new(hosts(0..9), hosts(0..9), 8, 1, Arrivals::Poisson, gap(1e6))
        .and_then(|spec| spec.times(SimTime::from_micros(3), SimTime::from_millis(1)))
        .expect("incasts");
    let with = without.clone().jitter(jitter).expect("a jitter");
    // `all` checks that time does not go back and that each flow starts at the time that was named.
    let (without, with) = (run(&without, 1), run(&with, 1));
    assert!(without.len() > 900 && without.len() == with.len(), "{}", without.len());
    let mut overlap = false;
    for (before, incast) in without.iter().zip(&with) {
        let began = before[0].at;
        assert!(began > SimTime::from_micros(3) && began < SimTime::from_millis(1));
        assert!(incast.iter().all(|flow| (began..later(began, jitter)).contains(&flow.at)));
        overlap |= incast.iter().any(|flow| flow.at > later(began, SimTime::from_micros(8)));
    }
    assert!(overlap, "a jitter of many gaps");
}

#[test]
fn a_workload_ends_by_its_number_or_its_time() {
    let spec = || Incasts::new(hosts(0..9), some(&[20]), 9, 1, Arrivals::Constant, gap(1e6)).expect("incasts");
    let of = |spec: Incasts| {
        let workload = Workload::new(&Spec::Incasts(spec), 1);
        (workload.expected(), workload.is_finite(), workload.coflow(8).map(|coflow| coflow.flows))
    };
    assert_eq!(of(spec()), (None, false, Some(9)));
    assert_eq!(of(spec().at_most(7).expect("a number")), (Some(63), true, Some(9)));
    let timed = spec().times(SimTime::ZERO, SimTime::from_micros(10)).expect("times");
    assert_eq!(of(timed.clone()), (None, true, Some(9)));
    // Arrivals at 1 to 9 µs; the tenth would be at the end.
    assert_eq!(run(&timed, 1).len(), 9);
    let (senders, receivers) = Spec::Incasts(spec()).ends();
    assert_eq!((senders.len(), receivers), (9, vec![MachineId(20)]));
}

#[test]
fn invalid_incasts_are_refused() {
    let new = |senders: &[u32], receivers: &[u32], fan_in, bytes| {
        Incasts::new(some(senders), some(receivers), fan_in, bytes, Arrivals::Poisson, gap(1e6))
    };
    let refused = |incasts: SpecResult<Incasts>| {
        let SpecError { cause, hint } = incasts.expect_err("refused");
        format!("{cause} ({hint})\n")
    };
    let good = || new(&[1, 2, 3], &[3, 4], 2, 10).expect("incasts");
    insta::assert_snapshot!(
        [
            refused(new(&[1, 2, 3], &[3, 4], 3, 10)),
            refused(new(&[1, 2, 3], &[4, 5], 4, 10)),
            refused(new(&[2], &[2, 3], 1, 10)),
            refused(new(&[1, 2], &[3], 0, 10)),
            refused(new(&[1, 2], &[3], 1, 0)),
            refused(new(&[1, 2], &[3], 1, u64::MAX)),
            refused(good().jitter(SimTime::from_picos(10_001_000))),
            refused(good().times(SimTime::from_micros(2), SimTime::from_micros(2))),
            refused(good().at_most(0)),
        ]
        .concat()
    );
    assert!(good().jitter(SimTime::from_micros(10)).is_ok() && new(&[1, 2], &[2], 1, 10).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn incasts_have_distinct_senders_other_than_the_receiver(
        (senders, receivers, fan_in) in (1_u32..12, 1_u32..12, 0_u32..12).prop_flat_map(|(senders, receivers, shift)| {
            (Just(hosts(0..senders)), Just(hosts(shift..shift + receivers)), 1_u32..12)
        }),
        jitter in 0_u64..10_000,
        seed in any::<u64>(),
    ) {
        let spec = Incasts::new(senders, receivers.clone(), fan_in, 5, Arrivals::Poisson, gap(1e3))
            .and_then(|spec| spec.jitter(SimTime::from_picos(jitter))?.at_most(30));
        let Ok(spec) = spec else { return Ok(()) };
        for incast in run(&spec, seed) {
            let mut senders: Vec<MachineId> = incast.iter().map(|flow| flow.from).collect();
            senders.sort_unstable();
            senders.dedup();
            prop_assert_eq!(senders.len(), fan_in as usize);
            prop_assert!(!senders.contains(&incast[0].to) && receivers.index_of(incast[0].to).is_some());
        }
    }
}
