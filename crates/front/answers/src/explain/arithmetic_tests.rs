//! The sentences of each kind of split, from the splits themselves.

use super::*;
use weir_alloc::fill::Filling;
use weir_policy::Share;
use weir_units::{ContentionPoint, Weight};

const UNLIMITED: u64 = u64::MAX;

/// A split of `available` Gb/s among (name, min, max, weight, demand), all in Gb/s.
fn split(sharing: Sharing, available: u64, rows: &[(&str, u64, u64, u32, u64)]) -> String {
    let gbps = |value| if value == UNLIMITED { Bandwidth::UNLIMITED } else { Bandwidth::from_gbps(value) };
    let children: Vec<Child> = rows
        .iter()
        .map(|(_, min, max, weight, demand)| {
            let weight = Weight::from_thousandths(weight * 1000).expect("a weight");
            Child::new(Share { min: gbps(*min), max: gbps(*max), weight }, gbps(*demand))
        })
        .collect();
    let mut filling = Filling::default();
    filling.fill(sharing, gbps(available), &children);
    let rows = rows.iter().zip(&children).enumerate().map(|(i, ((name, ..), child))| StepRow {
        name: (*name).to_owned(),
        chosen: i == 0,
        share: Share { min: child.min, max: child.max, weight: child.weight },
        demand: child.demand,
        got: filling.shares[i],
        decision: filling.decisions[i],
    });
    let place = "rack r1".to_owned();
    let (point, service) = (ContentionPoint::Rack, None);
    sentence(&Step { point, place, service, available: gbps(available), sharing, rows: rows.collect() })
}

#[test]
fn guarantees_then_weights() {
    assert_eq!(
        split(Sharing::Add, 9, &[("dfs", 6, UNLIMITED, 2, UNLIMITED), ("vm", 0, 1, 1, UNLIMITED)]),
        "Guarantees first: dfs 6 Gb/s. 3 Gb/s are left. Of that, 1 Gb/s goes to vm: its max. The other 2 Gb/s go to \
         dfs."
    );
    assert_eq!(
        split(Sharing::Add, 9, &[("a", 6, UNLIMITED, 2, UNLIMITED), ("b", 0, UNLIMITED, 1, UNLIMITED)]),
        "Guarantees first: a 6 Gb/s. 3 Gb/s are left. These 3 Gb/s go by weight 2 : 1: a 2 Gb/s and b 1 Gb/s."
    );
    assert_eq!(
        split(Sharing::Add, 8, &[("m1", 0, UNLIMITED, 1, UNLIMITED), ("m2", 0, UNLIMITED, 1, 5)]),
        "All 8 Gb/s go by weight, all alike: m1 4 Gb/s and m2 4 Gb/s."
    );
    assert_eq!(
        split(Sharing::Add, 10, &[("a", 0, UNLIMITED, 1, 9), ("b", 0, UNLIMITED, 1, 1), ("c", 0, 2, 1, 9)]),
        "Of 10 Gb/s, b 1 Gb/s and c 2 Gb/s: their demand or max. The other 7 Gb/s go to a."
    );
}

#[test]
fn one_level() {
    assert_eq!(
        split(Sharing::Fill, 60, &[("a", 0, 30, 1, UNLIMITED), ("b", 30, UNLIMITED, 1, UNLIMITED)]),
        "One fair share by weight, clipped between min and max, of 60 Gb/s. At or below the fair share, 30 Gb/s goes \
         to a: its max. The other 30 Gb/s go to b."
    );
    assert_eq!(
        split(
            Sharing::Fill,
            10,
            &[("a", 6, UNLIMITED, 1, UNLIMITED), ("b", 0, UNLIMITED, 1, UNLIMITED), ("c", 0, 1, 1, 9)]
        ),
        "One fair share by weight, clipped between min and max, of 10 Gb/s. At or below the fair share, 1 Gb/s goes \
         to c: its max. Above it, a 6 Gb/s: the guarantee. The other 3 Gb/s go to b."
    );
}

#[test]
fn no_contention_and_too_many_guarantees() {
    assert_eq!(
        split(Sharing::Add, 50, &[("dfs", 30, UNLIMITED, 1, 5), ("rest", 0, 10, 1, 11)]),
        "Together they can use 15 Gb/s of 50 Gb/s, so none waits for another; rest stops at its max."
    );
    assert_eq!(
        split(Sharing::Add, 50, &[("a", 0, UNLIMITED, 1, 5), ("b", 0, 1, 1, 0)]),
        "Only a has a demand: it can use 5 Gb/s of 50 Gb/s."
    );
    assert_eq!(split(Sharing::Add, 50, &[("a", 0, UNLIMITED, 1, 0)]), "There is no demand.");
    assert!(
        split(Sharing::Add, 4, &[("a", 6, UNLIMITED, 1, 9), ("b", 2, UNLIMITED, 1, 9)]).starts_with("The guarantees")
    );
}
