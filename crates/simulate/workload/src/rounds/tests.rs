//! Counts, pairs, and that closed rounds never overlap.

use super::*;
use crate::Rng;
use crate::test_support::{Life, all, drive, hosts};
use crate::{Spec, Workload};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn incast(senders: u32, next: NextRound) -> Rounds {
    Rounds::incast(hosts(1..senders + 1), MachineId(0), 20_000, next).expect("an incast")
}

/// The lives of each round.
fn by_round(workload: &Workload, lives: &[Life]) -> Vec<Vec<Life>> {
    let mut rounds: BTreeMap<u64, Vec<Life>> = BTreeMap::new();
    for &life in lives {
        rounds.entry(workload.coflow(life.start.tag).expect("a round").id).or_default().push(life);
    }
    assert!(rounds.keys().copied().eq(0..rounds.len() as u64));
    rounds.into_values().collect()
}

#[test]
fn open_incast_starts_every_period() {
    let spec = incast(40, NextRound::Every(SimTime::from_millis(1)))
        .start(SimTime::from_millis(5))
        .at_most(10)
        .expect("ten rounds");
    let mut workload = Workload::new(&Spec::Rounds(spec), 1);
    assert_eq!((workload.expected(), workload.is_finite()), (Some(400), true));
    let flows = all(&mut workload);
    assert_eq!(flows.len(), 400);
    for (i, flow) in flows.iter().enumerate() {
        let (round, index) = (i as u64 / 40, i as u32 % 40);
        assert_eq!((flow.from, flow.to, flow.bytes), (MachineId(index + 1), MachineId(0), 20_000));
        assert_eq!((flow.at, flow.tag), (SimTime::from_millis(5 + round), i as u64));
    }
}

#[test]
fn jitter_spreads_a_round_and_keeps_its_order() {
    let period = SimTime::from_millis(1);
    let spec =
        incast(40, NextRound::Every(period)).jitter(period).and_then(|spec| spec.at_most(100)).expect("an incast");
    let flows = all(&mut Workload::new(&Spec::Rounds(spec.clone()), 1));
    assert!(flows.is_sorted_by_key(|flow| flow.at));
    let mut seen = std::collections::BTreeSet::new();
    let mut sum = 0.0;
    for flow in &flows {
        let began = SimTime::from_millis(flow.tag / 40);
        assert!(flow.at >= began && flow.at < began + period);
        assert!(seen.insert((flow.tag / 40, flow.from)));
        sum += (flow.at - began).picos() as f64;
    }
    assert_eq!(seen.len(), 4000);
    // The mean of 4000 uniform numbers: standard error 1 ms/√48000.
    assert!((sum / 4000.0 - 0.5e9).abs() < 4.0 * 1e9 / 48_000_f64.sqrt());
    assert_ne!(flows, all(&mut Workload::new(&Spec::Rounds(spec), 2)));
}

#[test]
fn closed_incast_waits_for_the_last() {
    let pause = SimTime::from_micros(3);
    let spec = incast(5, NextRound::WhenDone(pause)).at_most(4).expect("an incast");
    let mut workload = Workload::new(&Spec::Rounds(spec), 1);
    let lives = drive(&mut workload, usize::MAX, |flow| SimTime::from_micros(10 + u64::from(flow.from.0)));
    // The slowest takes 15 µs, so rounds are 18 µs apart.
    let starts: Vec<_> = by_round(&workload, &lives).iter().map(|round| round[0].start.at).collect();
    assert_eq!(starts, [0, 18, 36, 54].map(SimTime::from_micros));
    assert_eq!((lives.len(), workload.next()), (20, None));
}

#[test]
fn patterns_have_their_pairs() {
    let pairs = |pattern| -> Vec<_> {
        let spec = Rounds::barrier(hosts(0..4), pattern, 1, SimTime::ZERO)
            .and_then(|spec| spec.at_most(1))
            .expect("a barrier");
        all(&mut Workload::new(&Spec::Rounds(spec), 1)).iter().map(|flow| (flow.from.0, flow.to.0)).collect()
    };
    assert_eq!(pairs(Pattern::Ring), [(0, 1), (1, 2), (2, 3), (3, 0)]);
    assert_eq!(pairs(Pattern::ToOne(MachineId(2))), [(0, 2), (1, 2), (3, 2)]);
    let all = pairs(Pattern::AllToAll);
    assert_eq!(all[..4], [(0, 1), (1, 2), (2, 3), (3, 0)]);
    let mut sorted = all.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!((all.len(), sorted.len()), (12, 12));
    assert!(all.iter().all(|(from, to)| from != to));
}

#[test]
fn invalid_workloads_are_refused() {
    let (zero, one) = (SimTime::ZERO, SimTime::from_millis(1));
    assert!(Rounds::incast(hosts(0..3), MachineId(2), 1, NextRound::Every(one)).is_err());
    assert!(Rounds::incast(hosts(0..3), MachineId(3), 0, NextRound::Every(one)).is_err());
    assert!(Rounds::incast(hosts(0..3), MachineId(3), 1, NextRound::Every(zero)).is_err());
    assert!(incast(3, NextRound::Every(one)).jitter(SimTime::from_millis(2)).is_err());
    assert!(incast(3, NextRound::WhenDone(one)).jitter(SimTime::from_millis(2)).is_ok());
    assert!(incast(3, NextRound::Every(one)).at_most(0).is_err());
    assert!(Rounds::barrier(hosts(0..1), Pattern::Ring, 1, zero).is_err());
    assert!(Rounds::barrier(hosts(0..3), Pattern::ToOne(MachineId(3)), 1, zero).is_err());
}

proptest! {
    #[test]
    fn closed_rounds_never_overlap(
        n in 2_u32..7,
        pattern in prop::sample::select(vec![Pattern::AllToAll, Pattern::Ring, Pattern::ToOne(MachineId(1))]),
        rounds in 1_u64..6,
        think in 0_u64..50,
        seed in 0_u64..,
    ) {
        let think = SimTime::from_nanos(think);
        let spec = Rounds::barrier(hosts(0..n), pattern, 1000, think);
        let spec = spec.and_then(|spec| spec.at_most(rounds)).expect("a barrier");
        let (senders, receivers) = (spec.senders().into_iter().collect(), spec.receivers().into_iter().collect());
        let mut workload = Workload::new(&Spec::Rounds(spec), seed);
        let mut rng = Rng::stream(seed, 99);
        let lives = drive(&mut workload, usize::MAX, |_| SimTime::from_nanos(rng.below(100)));
        prop_assert_eq!(Some(lives.len() as u64), workload.expected());
        let all = |of: fn(&FlowStart) -> MachineId| lives.iter().map(|life| of(&life.start)).collect::<BTreeSet<_>>();
        prop_assert_eq!(all(|flow| flow.from), senders);
        prop_assert_eq!(all(|flow| flow.to), receivers);
        let rounds = by_round(&workload, &lives);
        for pair in rounds.windows(2) {
            let last = pair[0].iter().map(|life| life.end).max().expect("flows");
            prop_assert!(pair[1].iter().all(|life| life.start.at == last + think));
        }
    }
}
