//! Shares of the tree against progressive filling, and against the level pointers of the paper, in exact fractions.

mod fraction;

use fraction::Fraction;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use weir_credits::MaxMinTree;

/// Demand and weight.
type Flow = (u64, u32);

fn fraction(value: impl Into<i128>) -> Fraction {
    Fraction::new(value.into(), 1)
}

fn per_weight(&(demand, weight): &Flow) -> Fraction {
    Fraction::new(demand.into(), weight.into())
}

/// The level of progressive filling: it rises for all flows alike, until the next flow has its demand or nothing is
/// left. Returns the level and the rest.
fn progressive_filling(capacity: u64, flows: &[Flow]) -> (Fraction, Fraction) {
    let (mut level, mut left) = (fraction(0), fraction(capacity));
    let mut next: Vec<Flow> = flows.to_vec();
    next.sort_by_key(per_weight);
    let mut weight: u64 = flows.iter().map(|&(_, weight)| u64::from(weight)).sum();
    for flow in &next {
        let rise = (per_weight(flow) - level).min(left / fraction(weight));
        (level, left) = (level + rise, left - rise * fraction(weight));
        if left == fraction(0) {
            break;
        }
        weight -= u64::from(flow.1);
    }
    (level, left)
}

/// The last level pointer of PACE §III.E.1, equations 1 to 4, with the maximum where the paper has a minimum: a_w and
/// r.
fn level_pointers(capacity: u64, flows: &[Flow]) -> (Fraction, Fraction) {
    let mut flows = flows.to_vec();
    flows.sort_by_key(per_weight);
    // C_j, a_(w,j-1), and the flows before the last pointer.
    let (mut to_share, mut level, mut before) = (fraction(capacity), fraction(0), 0);
    let total: u64 = flows.iter().map(|&(_, weight)| u64::from(weight)).sum();
    let mut weight_before = 0u64;
    loop {
        let weight = fraction(total - weight_before);
        if weight == fraction(0) {
            return (level, to_share);
        }
        level = to_share / weight + level;
        let satisfied = flows[before..].iter().take_while(|flow| per_weight(flow) <= level).count();
        let of_level = &flows[before..before + satisfied];
        let weight: u64 = of_level.iter().map(|&(_, weight)| u64::from(weight)).sum();
        let demand: u128 = of_level.iter().map(|&(demand, _)| u128::from(demand)).sum();
        to_share = (level * fraction(weight) - fraction(demand as i128)).max(fraction(0));
        if to_share == fraction(0) {
            return (level, to_share);
        }
        (before, weight_before) = (before + satisfied, weight_before + weight);
    }
}

fn share(level: Fraction, &(demand, weight): &Flow) -> Fraction {
    fraction(demand).min(fraction(weight) * level)
}

/// The tree's shares equal those of both algorithms, and they use the capacity as far as demands do.
fn check(capacity: u64, tree: &MaxMinTree, flows: &[(u32, Flow)]) {
    let all: Vec<Flow> = flows.iter().map(|&(_, flow)| flow).collect();
    let (filled, rest) = progressive_filling(capacity, &all);
    let (pointed, rest_of_pointers) = level_pointers(capacity, &all);
    let level = tree.level();
    let mut sum = fraction(level.rest);
    for (number, flow) in flows {
        let (numerator, denominator) = tree.share(*number).expect("the flow is in the tree");
        let of_tree = Fraction::new(numerator as i128, denominator.into());
        assert_eq!(of_tree, share(filled, flow), "progressive filling of {flow:?} in {all:?}");
        assert_eq!(of_tree, share(pointed, flow), "level pointers of {flow:?} in {all:?}");
        sum = sum + of_tree;
    }
    assert_eq!((fraction(level.rest), rest), (rest, rest_of_pointers), "the rest of {all:?}");
    assert_eq!(sum, fraction(capacity), "the sum of {all:?}");
    let satisfied = all.iter().filter(|flow| per_weight(flow) <= filled).count();
    assert_eq!((level.satisfied, level.satisfied_flows as usize), (satisfied == all.len(), satisfied), "{all:?}");
    assert_eq!((tree.len(), tree.is_empty()), (all.len(), all.is_empty()));
    assert_eq!(tree.weight(), all.iter().map(|&(_, weight)| u64::from(weight)).sum::<u64>());
    assert_eq!(tree.demand(), all.iter().map(|&(demand, _)| u128::from(demand)).sum::<u128>());
}

fn tree(capacity: u64, flows: &[Flow]) -> MaxMinTree {
    let mut tree = MaxMinTree::new(capacity);
    for (number, &(demand, weight)) in (0..).zip(flows) {
        tree.set(number, weight, demand);
    }
    tree
}

fn shares(tree: &MaxMinTree) -> Vec<(u128, u128)> {
    let reduced = |flow| {
        let (numerator, denominator) = tree.share(flow).expect("in the tree");
        Fraction::new(numerator as i128, denominator.into()).parts()
    };
    (0..tree.len() as u32).map(reduced).collect()
}

#[test]
fn shares_of_the_example() {
    let tree = tree(8, &[(1, 4), (9, 1), (9, 1), (9, 2)]);
    assert_eq!(shares(&tree), [(1, 1), (7, 4), (7, 4), (7, 2)]);
    let level = tree.level();
    assert_eq!((level.numerator, level.denominator, level.rest), (7, 4, 0));
    assert_eq!((level.satisfied, level.satisfied_flows), (false, 1));
}

#[test]
fn levels_of_figure_4() {
    // C = 1 in thousandths, W = 10. Before the pointer k_0 is f_1 with d_w = 0.08 and w = 2: r_0 = 2 · 0.1 − 0.16 =
    // 0.04, and a_w = 0.1 + 0.04 / 8.
    let flows = [(160, 2), (400, 1), (400, 3), (900, 4)];
    let level = tree(1_000, &flows).level();
    assert_eq!((level.numerator, level.denominator, level.satisfied_flows), (840, 8, 1));
    assert_eq!(level_pointers(1_000, &flows).0, Fraction::new(105, 1));
    // No flow below a_w = 0.1: the first level is the last one.
    let level = tree(1_000, &[(220, 2), (400, 1), (400, 3), (900, 4)]).level();
    assert_eq!((level.numerator, level.denominator, level.satisfied_flows), (1_000, 10, 0));
}

#[test]
fn demands_that_are_satisfied_leave_a_rest() {
    let level = tree(100, &[(10, 1), (40, 2)]).level();
    assert_eq!((level.numerator, level.denominator, level.rest, level.satisfied), (40, 2, 50, true));
    // Demands that use all of the capacity are satisfied, and leave nothing.
    let level = tree(50, &[(10, 1), (40, 2)]).level();
    assert_eq!((level.rest, level.satisfied), (0, true));
}

#[test]
fn an_empty_tree_limits_nothing() {
    let mut tree = MaxMinTree::new(weir_credits::WHOLE);
    let level = tree.level();
    assert_eq!((level.per_weight_48(), level.rest, level.satisfied), (1 << 48, weir_credits::WHOLE, true));
    assert!(!tree.remove(1) && tree.is_empty() && tree.share(1).is_none());
    tree.set(1, 3, weir_credits::WHOLE);
    assert!(tree.remove(1) && !tree.remove(1));
    assert_eq!(tree.level(), level);
}

#[test]
fn levels_in_fixed_point_are_rounded_up() {
    // A third of the whole for a weight of 1,000, in 2⁻⁴⁸ for a weight of one.
    let whole = weir_credits::WHOLE;
    let level = tree(whole, &[(whole, 1_000), (whole, 2_000)]).level();
    assert_eq!(level.per_weight_48(), (1u64 << 48).div_ceil(3_000));
    assert_eq!(tree(whole, &[(whole, 1)]).level().per_weight_48(), 1 << 48);
    assert_eq!(tree(whole, &[(0, 1)]).level().per_weight_48(), 0);
}

#[test]
fn extreme_values_are_exact() {
    let most = (u64::MAX, u32::MAX);
    let level = tree(u64::MAX, &[most, most, (1, u32::MAX)]).level();
    assert_eq!((level.numerator, level.denominator), (u64::MAX - 1, 2 * u64::from(u32::MAX)));
    assert_eq!(tree(u64::MAX, &[(u64::MAX, 1)]).level().rest, 0);
    let level = tree(0, &[(0, 1), (1, 1)]).level();
    assert_eq!((level.numerator, level.denominator, level.satisfied), (0, 1, false));
}

#[test]
#[should_panic(expected = "a weight is above zero")]
fn a_weight_of_zero_is_refused() {
    MaxMinTree::new(1).set(1, 0, 1);
}

#[test]
fn random_sets_have_the_shares_of_progressive_filling() {
    let mut random = StdRng::seed_from_u64(29);
    for _ in 0..10_000 {
        // Small numbers have many ties; large ones have long fractions.
        let (most_demand, most_weight) = if random.random_bool(0.5) { (20, 4) } else { (1 << 32, 1_000_000) };
        let flow = |random: &mut StdRng| (random.random_range(0..=most_demand), random.random_range(1..=most_weight));
        let flows: Vec<Flow> = (0..random.random_range(0..40)).map(|_| flow(&mut random)).collect();
        let capacity = random.random_range(0..=most_demand * 10);
        let numbered: Vec<(u32, Flow)> = (0..).zip(flows.iter().copied()).collect();
        check(capacity, &tree(capacity, &flows), &numbered);
    }
}

#[test]
fn thousands_of_flows_come_and_go() {
    let mut random = StdRng::seed_from_u64(4);
    let mut numbers: Vec<u32> = (0..5_000).collect();
    let mut tree = MaxMinTree::new(1 << 32);
    let mut memory = Vec::new();
    for _ in 0..3 {
        let mut flows = Vec::new();
        numbers.shuffle(&mut random);
        for &number in &numbers {
            let flow = (random.random_range(0..1 << 21), random.random_range(1..9));
            tree.set(number, flow.1, flow.0);
            flows.push((number, flow));
            if flows.len() % 1_250 == 0 {
                check(1 << 32, &tree, &flows);
            }
        }
        flows.shuffle(&mut random);
        while let Some((number, _)) = flows.pop() {
            assert!(tree.remove(number));
            if flows.len() % 1_250 == 0 {
                check(1 << 32, &tree, &flows);
            }
        }
        memory.push(tree.memory().get());
    }
    // Free nodes are used again: more churn takes no more memory, but for a different number of splits.
    assert!(memory[2] < 2 * memory[0], "{memory:?}");
}

proptest! {
    #[test]
    fn sequences_of_changes_have_the_shares_of_progressive_filling(
        capacity in 0u64..40_000,
        changes in prop::collection::vec((0u32..300, 0u32..6, 0u64..300), 0..1_500),
    ) {
        let mut tree = MaxMinTree::new(capacity);
        let mut flows = std::collections::BTreeMap::new();
        for (at, &(number, weight, demand)) in changes.iter().enumerate() {
            // A weight of zero stands for the end of the flow.
            if weight == 0 {
                prop_assert_eq!(tree.remove(number), flows.remove(&number).is_some());
            } else {
                tree.set(number, weight, demand);
                flows.insert(number, (demand, weight));
            }
            if at % 300 == 299 || at + 1 == changes.len() {
                let flows: Vec<(u32, Flow)> = flows.iter().map(|(&number, &flow)| (number, flow)).collect();
                check(capacity, &tree, &flows);
            }
        }
    }
}
