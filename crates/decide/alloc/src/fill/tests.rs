use super::*;
use proptest::prelude::*;

const UNLIMITED: u64 = u64::MAX;

/// (min, max, weight, demand) as algorithms are written on paper.
fn child((min, max, weight, demand): (u64, u64, u32, u64)) -> Child {
    Child {
        min: Bandwidth::from_bps(min),
        max: Bandwidth::from_bps(max),
        demand: Bandwidth::from_bps(demand),
        weight: Weight::from_thousandths(weight * 1000).expect("a weight in range"),
    }
}

fn fill(sharing: Sharing, capacity: u64, children: &[(u64, u64, u32, u64)]) -> (Vec<u64>, Vec<Decision>) {
    let children: Vec<Child> = children.iter().copied().map(child).collect();
    let mut filling = Filling::default();
    filling.fill(sharing, Bandwidth::from_bps(capacity), &children);
    (filling.shares.iter().map(|share| share.bps()).collect(), filling.decisions)
}

fn shares(sharing: Sharing, capacity: u64, children: &[(u64, u64, u32, u64)]) -> Vec<u64> {
    fill(sharing, capacity, children).0
}

const U: u64 = UNLIMITED;

#[test]
fn oracle_weights_alone() {
    // 7 over weights 1 + 2 + 4: level 1.
    assert_eq!(shares(Sharing::Add, 7, &[(0, U, 1, U), (0, U, 2, U), (0, U, 4, U)]), [1, 2, 4]);
}

#[test]
fn oracle_demands() {
    // 9: 1 and 3 are satisfied, the rest takes 5.
    let (shares, decisions) = fill(Sharing::Add, 9, &[(0, U, 1, 1), (0, U, 1, 3), (0, U, 1, U)]);
    assert_eq!(shares, [1, 3, 5]);
    assert_eq!(decisions, [Decision::Demand, Decision::Demand, Decision::Level]);
}

#[test]
fn oracle_guarantee_maximum_and_demand() {
    let (shares, decisions) = fill(Sharing::Add, 10, &[(2, U, 1, U), (0, 4, 3, U), (1, U, 1, 1)]);
    assert_eq!(shares, [5, 4, 1]);
    assert_eq!(decisions, [Decision::Level, Decision::Max, Decision::Demand]);
}

#[test]
fn oracle_the_two_rules_differ() {
    // Mins 6 and 0: the excess 4 is halved (8, 2), or 5 each is clipped up to 6 and leaves 4.
    let children = [(6, U, 1, U), (0, U, 1, U)];
    assert_eq!(shares(Sharing::Add, 10, &children), [8, 2]);
    assert_eq!(shares(Sharing::Fill, 10, &children), [6, 4]);
}

#[test]
fn oracle_the_two_rules_differ_with_weights() {
    // In tenths, so that 3.2 and 4.8 are whole. Add: 6 left over 6 → 2+1, 2+2, 0+3.
    let children = [(20, U, 1, U), (20, U, 2, U), (0, U, 3, U)];
    assert_eq!(shares(Sharing::Add, 100, &children), [30, 40, 30]);
    // Fill: the level 10/6 lifts the first to its floor 2; 8 over weights 2 and 3 → 3.2, 4.8.
    assert_eq!(shares(Sharing::Fill, 100, &children), [20, 32, 48]);
}

#[test]
fn oracle_parley_fig_14() {
    // A at most 30, B at least 30, capped at 60, both backlogged: see the module on the two rules.
    let children = [(0, 30, 1, U), (30, U, 1, U)];
    assert_eq!(shares(Sharing::Add, 60, &children), [15, 45]);
    assert_eq!(shares(Sharing::Fill, 60, &children), [30, 30]);
    for sharing in [Sharing::Add, Sharing::Fill] {
        assert_eq!(shares(sharing, 60, &[(0, 30, 1, U), (30, U, 1, 0)]), [30, 0], "A only");
        assert_eq!(shares(sharing, 60, &[(0, 30, 1, 0), (30, U, 1, U)]), [0, 60], "B only");
        // In tenths: A at 11.2 leaves 48.8.
        assert_eq!(shares(sharing, 600, &[(0, 300, 1, 112), (300, U, 1, U)]), [112, 488], "A at 11.2");
    }
}

#[test]
fn usage_as_demand_can_stand_still_away_from_the_rule() {
    // Usage (30, 35) gives (25, 35): B is below its share, so A takes the remaining capacity. B is
    // not limited.
    let (shares, decisions) = fill(Sharing::Add, 60, &[(0, 30, 1, U), (30, U, 1, 35)]);
    assert_eq!(shares, [25, 35]);
    assert_eq!(decisions, [Decision::Level, Decision::Demand]);
}

#[test]
fn a_demand_at_the_level_is_limited_and_one_below_is_not() {
    let (shares, decisions) = fill(Sharing::Add, 8, &[(0, U, 1, 4), (0, U, 1, 5)]);
    assert_eq!(shares, [4, 4]);
    assert_eq!(decisions, [Decision::Level, Decision::Level]);
    let (_, decisions) = fill(Sharing::Add, 8, &[(0, U, 1, 3), (0, U, 1, 6)]);
    assert_eq!(decisions, [Decision::Demand, Decision::Level]);
}

#[test]
fn one_backlogged_child_takes_all_and_is_limited_by_the_capacity() {
    let (shares, decisions) = fill(Sharing::Add, 9, &[(0, U, 1, U)]);
    assert_eq!(shares, [9]);
    assert_eq!(decisions, [Decision::Level]);
}

#[test]
fn children_do_not_compete_under_an_unlimited_capacity() {
    let (shares, decisions) = fill(Sharing::Fill, U, &[(0, U, 1, U), (0, 4, 1, U), (5, U, 1, 2)]);
    assert_eq!(shares, [U, 4, 2]);
    assert_eq!(decisions, [Decision::Demand, Decision::Max, Decision::Demand]);
}

#[test]
fn guarantees_beyond_the_capacity_shrink_to_one_level() {
    for sharing in [Sharing::Add, Sharing::Fill] {
        // A demand below its part of the level is met, and what it leaves raises the level.
        assert_eq!(shares(sharing, 10, &[(12, U, 1, 2), (6, U, 5, U), (6, U, 1, U)]), [2, 4, 4]);
        // A demand lowered to its share changes nothing: 20 and 20 of 50 and 50 under 40.
        assert_eq!(shares(sharing, 40, &[(50, U, 1, 20), (50, U, 1, U)]), [20, 20]);
        assert_eq!(shares(sharing, 40, &[(50, U, 1, U), (50, U, 1, U)]), [20, 20]);
        assert_eq!(shares(sharing, 9, &[(12, U, 1, U), (6, U, 5, U), (0, U, 1, U)]), [6, 3, 0]);
        // 10 over guarantees 3:3:3 → 3.33 each, never above the guarantee, one bit to the first.
        assert_eq!(shares(sharing, 8, &[(3, U, 1, U), (3, U, 1, U), (3, U, 1, U)]), [3, 3, 2]);
        assert_eq!(shares(sharing, 0, &[(3, U, 1, U), (0, U, 1, U)]), [0, 0]);
    }
}

#[test]
fn largest_remainder_takes_the_surplus_bits() {
    // 10 over weights 1:1:1 → 3.33 each; one bit is left, to the first of equals.
    assert_eq!(shares(Sharing::Add, 10, &[(0, U, 1, U); 3]), [4, 3, 3]);
    // 10 over 5:2:2 (9) → 5.56, 2.22, 2.22: the largest remainder is the first's.
    assert_eq!(shares(Sharing::Add, 10, &[(0, U, 5, U), (0, U, 2, U), (0, U, 2, U)]), [6, 2, 2]);
    // 5 over 1:1:8 → 0.5, 0.5, 4.0.
    assert_eq!(shares(Sharing::Add, 5, &[(0, U, 1, U), (0, U, 1, U), (0, U, 8, U)]), [1, 0, 4]);
}

#[test]
fn the_largest_quantities_do_not_overflow() {
    let max = Bandwidth::MAX.bps();
    assert_eq!(shares(Sharing::Add, max, &[(max / 2, U, 1_000_000, U), (0, max, 1, max)]).iter().sum::<u64>(), max);
    assert_eq!(shares(Sharing::Fill, max, &[(max, U, 1_000_000, U), (max, max, 1, max)]).iter().sum::<u64>(), max);
}

/// An independent, slow and plain reference: raise the level from bound to bound in exact
/// fractions.
mod reference {
    use super::*;

    /// Each child's exact share as (numerator, denominator).
    pub(super) fn shares(sharing: Sharing, capacity: u64, children: &[Child]) -> Vec<(i128, i128)> {
        let wants: i128 = children.iter().map(|c| i128::from(c.usable().bps())).sum();
        let promised: i128 = children.iter().map(|c| i128::from(c.guaranteed().bps())).sum();
        let capacity = i128::from(capacity);
        if wants <= capacity {
            return children.iter().map(|c| (i128::from(c.usable().bps()), 1)).collect();
        }
        if promised >= capacity {
            return shrunken(capacity, children);
        }
        // (floor, rim, weight, already given below the floor)
        let takers: Vec<(i128, i128, i128, i128)> = children
            .iter()
            .map(|c| {
                let (g, u) = (i128::from(c.guaranteed().bps()), i128::from(c.usable().bps()).min(capacity));
                let w = i128::from(c.weight.thousandths());
                if sharing == Sharing::Add { (0, u - g, w, g) } else { (g, u, w, 0) }
            })
            .collect();
        let amount = if sharing == Sharing::Add { capacity - promised } else { capacity };
        // The level sits in the one interval between bounds where holding `amount` is possible; try
        // them all.
        let mut bounds: Vec<(i128, i128)> = takers.iter().flat_map(|t| [(t.0, t.2), (t.1, t.2)]).collect();
        bounds.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
        for pair in bounds.windows(2) {
            let (low, high) = (pair[0], pair[1]);
            let rises = |t: &&(i128, i128, i128, i128)| t.0 * low.1 <= low.0 * t.2 && t.1 * high.1 >= high.0 * t.2;
            let width: i128 = takers.iter().filter(rises).map(|t| t.2).sum();
            let fixed: i128 =
                takers.iter().filter(|t| !rises(t)).map(|t| if t.0 * high.1 >= high.0 * t.2 { t.0 } else { t.1 }).sum();
            if width == 0 {
                continue;
            }
            let rest = amount - fixed;
            // low ≤ rest / width ≤ high
            if rest * low.1 >= low.0 * width && rest * high.1 <= high.0 * width {
                return takers
                    .iter()
                    .map(|t| {
                        if rises(&t) {
                            (t.3 * width + rest * t.2, width)
                        } else if t.0 * high.1 >= high.0 * t.2 {
                            (t.3 + t.0, 1)
                        } else {
                            (t.3 + t.1, 1)
                        }
                    })
                    .collect();
            }
        }
        panic!("no level holds {amount}");
    }

    /// Guarantees beyond the capacity: settle every child that its part of the rest satisfies, and
    /// divide again.
    fn shrunken(capacity: i128, children: &[Child]) -> Vec<(i128, i128)> {
        let guarantee = |c: &Child| i128::from(c.guaranteed().bps());
        let min = |c: &Child| i128::from(c.min.bps());
        let mut open: Vec<&Child> = children.iter().filter(|c| c.min > Bandwidth::ZERO).collect();
        let mut rest = capacity;
        loop {
            let width: i128 = open.iter().map(|c| min(c)).sum();
            let (full, others): (Vec<&Child>, Vec<&Child>) =
                open.into_iter().partition(|c| guarantee(c) * width <= rest * min(c));
            if full.is_empty() {
                let share = |c: &Child| {
                    let is_open = others.iter().any(|other| std::ptr::eq(*other, c));
                    if is_open { (rest * min(c), width) } else { (guarantee(c), 1) }
                };
                return children.iter().map(share).collect();
            }
            rest -= full.into_iter().map(guarantee).sum::<i128>();
            open = others;
        }
    }
}

fn children() -> impl Strategy<Value = Vec<Child>> {
    let rate = prop_oneof![4 => 0u64..50, 2 => 0u64..2_000_000_000, 1 => Just(UNLIMITED)];
    let one = (0u64..40, rate.clone(), 1u32..6, rate)
        .prop_map(|(min, max, weight, demand)| child((min.min(max.max(1)), max.max(1), weight, demand)));
    proptest::collection::vec(one, 0..14)
}

fn sharing() -> impl Strategy<Value = Sharing> {
    prop_oneof![Just(Sharing::Add), Just(Sharing::Fill)]
}

fn filled(sharing: Sharing, capacity: u64, children: &[Child]) -> Filling {
    let mut filling = Filling::default();
    filling.fill(sharing, Bandwidth::from_bps(capacity), children);
    filling
}

proptest! {
    #[test]
    fn shares_conserve(sharing in sharing(), capacity in 0u64..400, children in children()) {
        let filling = filled(sharing, capacity, &children);
        let wants: u128 = children.iter().map(|c| u128::from(c.usable().bps())).sum();
        let given: u128 = filling.shares.iter().map(|s| u128::from(s.bps())).sum();
        prop_assert_eq!(given, wants.min(u128::from(capacity)));
    }

    #[test]
    fn shares_are_within_the_demand_and_above_the_guarantee(
        sharing in sharing(), capacity in 0u64..400, children in children()
    ) {
        let filling = filled(sharing, capacity, &children);
        let promised: u64 = children.iter().map(|c| c.guaranteed().bps()).sum();
        for (share, child) in filling.shares.iter().zip(&children) {
            prop_assert!(*share <= child.usable());
            prop_assert!(promised > capacity || *share >= child.guaranteed());
        }
    }

    /// Max-min optimality: every share is the exact one, rounded down or up.
    #[test]
    fn shares_are_the_reference_rounded(sharing in sharing(), capacity in 0u64..400, children in children()) {
        let filling = filled(sharing, capacity, &children);
        let exact = reference::shares(sharing, capacity, &children);
        for (share, (numerator, denominator)) in filling.shares.iter().zip(exact) {
            let share = i128::from(share.bps());
            let (down, up) = (numerator.div_euclid(denominator), -(-numerator).div_euclid(denominator));
            prop_assert!(share == down || share == up, "{share} is not {numerator}/{denominator}");
        }
    }

    /// Demands lowered to their shares, any of them, change no share by more than rounding: each
    /// lowered demand by less than one bit.
    #[test]
    fn shares_are_consistent(
        sharing in sharing(), capacity in 0u64..400, children in children(), lowered: [bool; 14],
    ) {
        let before = filled(sharing, capacity, &children);
        let mut satisfied = children.clone();
        let lowered = satisfied.iter_mut().zip(&before.shares).zip(lowered).filter(|(_, lowered)| *lowered);
        for ((child, share), _) in lowered {
            child.demand = *share;
        }
        let after = filled(sharing, capacity, &satisfied);
        for (a, b) in before.shares.iter().zip(&after.shares) {
            prop_assert!(a.bps().abs_diff(b.bps()) <= children.len() as u64, "{a} became {b}");
        }
    }

    /// A larger demand gives its child no less and no other child more.
    #[test]
    fn shares_are_monotone(
        sharing in sharing(), capacity in 0u64..400, children in children(), chosen in 0usize..14, more in 1u64..100,
    ) {
        prop_assume!(!children.is_empty());
        let chosen = chosen % children.len();
        let before = filled(sharing, capacity, &children);
        let mut greedier = children.clone();
        greedier[chosen].demand += Bandwidth::from_bps(more);
        let after = filled(sharing, capacity, &greedier);
        for (i, (a, b)) in before.shares.iter().zip(&after.shares).enumerate() {
            let (less, more) = if i == chosen { (a, b) } else { (b, a) };
            prop_assert!(less.bps() <= more.bps() + 1, "{i}: {a} became {b}");
        }
    }

    /// A ceiling is the share of a child whose own demand is unlimited.
    #[test]
    fn ceilings_are_shares_of_unlimited_demands(
        sharing in sharing(), capacity in 0u64..400, children in children(),
    ) {
        let mut ceilings = Vec::new();
        Filling::default().ceilings(sharing, Bandwidth::from_bps(capacity), &children, &mut ceilings);
        for (i, ceiling) in ceilings.iter().enumerate() {
            let mut unlimited = children.clone();
            unlimited[i].demand = Bandwidth::UNLIMITED;
            let share = filled(sharing, capacity, &unlimited).shares[i];
            prop_assert!(ceiling.bps().abs_diff(share.bps()) <= 1, "{i}: ceiling {ceiling}, share {share}");
        }
    }

    /// More capacity costs each child at most the one bit that largest remainder can move.
    #[test]
    fn shares_rise_with_capacity(
        sharing in sharing(), capacity in 0u64..400, more in 1u64..50, children in children(),
    ) {
        let (less, more) = (filled(sharing, capacity, &children), filled(sharing, capacity + more, &children));
        for (a, b) in less.shares.iter().zip(&more.shares) {
            prop_assert!(a.bps() <= b.bps() + 1, "{a} fell to {b}");
        }
    }

    /// The order of children moves at most the surplus bits among equal remainders. (A policy's
    /// order moves nothing at all: its services are in canonical order, see `tree`.)
    #[test]
    fn order_does_not_matter(sharing in sharing(), capacity in 0u64..400, children in children(), turn in 0usize..14) {
        let straight = filled(sharing, capacity, &children);
        let mut turned = children.clone();
        let by = if turned.is_empty() { 0 } else { turn % turned.len() };
        turned.rotate_left(by);
        let mut shares = filled(sharing, capacity, &turned).shares;
        shares.rotate_right(by);
        for (a, b) in straight.shares.iter().zip(&shares) {
            prop_assert!(a.bps().abs_diff(b.bps()) <= 1, "{a} became {b}");
        }
    }

    /// A child that is not limited has its whole demand; one that is limited cannot have more.
    #[test]
    fn limits_only_where_a_demand_reaches_its_share(
        sharing in sharing(), capacity in 0u64..400, children in children(),
    ) {
        let filling = filled(sharing, capacity, &children);
        let contended = children.iter().map(|c| u128::from(c.usable().bps())).sum::<u128>() > u128::from(capacity);
        for ((share, decision), child) in filling.shares.iter().zip(&filling.decisions).zip(&children) {
            match decision {
                Decision::Demand => prop_assert_eq!(*share, child.demand),
                Decision::Max => prop_assert_eq!(*share, child.max),
                Decision::Level => prop_assert!(contended),
            }
        }
    }
}
