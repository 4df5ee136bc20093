//! The queue against a stable sort.

use super::*;
use crate::ids::PacketId;
use proptest::prelude::*;

fn drain(queue: &mut EventQueue) -> Vec<(u64, u32)> {
    std::iter::from_fn(|| queue.pop_until(SimTime::NEVER))
        .map(|(time, event)| match event {
            Event::Arrive(packet) => (time.picos(), packet.0),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn push(queue: &mut EventQueue, time: u64, id: u32) {
    queue.push(SimTime::from_picos(time), Event::Arrive(PacketId(id)));
}

#[test]
fn ties_keep_the_order_of_scheduling() {
    let mut queue = EventQueue::new();
    for (id, time) in [5, 3, 5, 3, 5].into_iter().enumerate() {
        push(&mut queue, time, id as u32);
    }
    assert_eq!(drain(&mut queue), [(3, 1), (3, 3), (5, 0), (5, 2), (5, 4)]);
}

#[test]
fn no_event_leaves_before_its_time() {
    let mut queue = EventQueue::new();
    push(&mut queue, 7, 0);
    assert_eq!(queue.pop_until(SimTime::from_picos(6)), None);
    assert_eq!(queue.len(), 1);
    assert!(queue.pop_until(SimTime::from_picos(7)).is_some());
    assert!(queue.is_empty());
    assert_eq!(queue.pop_until(SimTime::NEVER), None);
}

#[test]
fn a_limit_does_not_disturb_insertions_before_the_next_event() {
    let mut queue = EventQueue::new();
    push(&mut queue, 5_000_000_000, 0);
    assert_eq!(queue.pop_until(SimTime::from_millis(1)), None);
    push(&mut queue, 2_000_000_000, 1);
    assert_eq!(drain(&mut queue), [(2_000_000_000, 1), (5_000_000_000, 0)]);
}

#[test]
fn a_bucket_can_be_seen() {
    let mut queue = EventQueue::new();
    for id in 0..20 {
        push(&mut queue, 1 << 17 | u64::from(19 - id), id);
    }
    assert_eq!(queue.bucket().count(), 0, "the bucket's turn has not come");
    queue.pop_until(SimTime::NEVER);
    let seen: Vec<Event> = queue.bucket().collect();
    let rest: Vec<Event> = (0..19).rev().map(|id| Event::Arrive(PacketId(id))).collect();
    assert_eq!(seen, rest);
    assert!(!queue.is_bucket_empty());
}

#[test]
fn buckets_have_the_configured_width_and_the_wheel_reaches_far_enough() {
    let (ns, ms) = (SimTime::from_nanos, SimTime::from_millis);
    let shift = |width, reach| EventQueue::with_width(width, reach).shift;
    assert_eq!(shift(ns(100), ns(1000)), 16);
    assert_eq!(shift(SimTime::ZERO, ns(1000)), MIN_SHIFT);
    assert_eq!(shift(ns(100), ms(1)), 16);
    assert_eq!(shift(ns(100), ms(4)), 18);
    assert_eq!(shift(ms(1), ms(1)), MAX_SHIFT);
}

/// Distances on all scales: the same bucket, another bucket, beyond the wheel.
fn time() -> impl Strategy<Value = u64> {
    let span = (SLOTS as u64) << DEFAULT_SHIFT;
    prop_oneof![0..50u64, 0..span * 3, Just(1 << DEFAULT_SHIFT), Just(span), 0..1u64 << 50]
}

proptest! {
    /// Insertions, never before a taken event, and removals in any order give the order of a stable
    /// sort by time.
    #[test]
    fn agrees_with_a_stable_sort(
        shift in MIN_SHIFT..=MAX_SHIFT,
        steps in proptest::collection::vec(proptest::option::of(time()), 0..300),
    ) {
        let mut queue = EventQueue::with_shift(shift);
        let mut model: Vec<(u64, u32)> = Vec::new();
        let mut now = 0;
        for (id, step) in steps.into_iter().enumerate() {
            if let Some(distance) = step {
                let time = now + distance;
                push(&mut queue, time, id as u32);
                model.push((time, id as u32));
            } else {
                model.sort_by_key(|&(time, _)| time);
                let expected = (!model.is_empty()).then(|| model.remove(0));
                let got = queue.pop_until(SimTime::NEVER).map(|(time, event)| match event {
                    Event::Arrive(packet) => (time.picos(), packet.0),
                    other => panic!("{other:?}"),
                });
                prop_assert_eq!(got, expected);
                now = got.map_or(now, |(time, _)| time);
            }
        }
        model.sort_by_key(|&(time, _)| time);
        prop_assert_eq!(queue.len(), model.len());
        prop_assert_eq!(drain(&mut queue), model);
    }

    /// A removed event does not occur, and all others do.
    #[test]
    fn arrivals_can_be_taken_back(
        shift in MIN_SHIFT..=MAX_SHIFT,
        times in proptest::collection::vec(time(), 1..300),
        begun in 0..100_usize,
        of in 1..5_u32,
    ) {
        let mut queue = EventQueue::with_shift(shift);
        for (id, time) in (0..).zip(&times) {
            push(&mut queue, *time, id);
        }
        let mut before = Vec::new();
        for _ in 0..begun.min(times.len() - 1) {
            if let Some((time, Event::Arrive(packet))) = queue.pop_until(SimTime::NEVER) {
                before.push((time.picos(), packet.0));
            }
        }
        let taken = queue.take_arrivals(|packet| packet.0 % of == 0);
        let mut taken: Vec<u32> = taken.iter().map(|packet| packet.0).collect();
        let rest = drain(&mut queue);
        prop_assert!(queue.is_empty());
        prop_assert!(rest.iter().all(|(_, id)| id % of != 0) && taken.iter().all(|id| id % of == 0));
        prop_assert!(before.iter().chain(&rest).map(|(time, _)| time).is_sorted());
        taken.extend(before.iter().chain(&rest).map(|(_, id)| *id));
        taken.sort_unstable();
        prop_assert_eq!(taken, (0..times.len() as u32).collect::<Vec<_>>());
    }
}
