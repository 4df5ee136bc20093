//! Guarantees with which a flat list of services shares a capacity as a tree does.
//!
//! Problem: an interface shares its capacity by one rule among leaf services. The tree's shares while all are
//! backlogged, `T`, differ from that where a parent has a guarantee or a maximum of its own, or another rule.
//! Approach: of the shares that the tree gives, as much as possible is left to the weights, and the remainder is
//! guaranteed. Weights then divide what idle services leave, as under the policy.
//!
//! - Rule `add`, `T = min + weight × level`: the largest level at which no service needs less than its own guarantee,
//!   the least `(T − min) / weight` of all services that are below their maxima. The guarantee is `T − weight × level`.
//! - Rule `fill`, `T = max(min, weight × level)`: the largest level at which no service gets more than `T` by its
//!   weight, the least `T / weight`. Services that get less by their weight are guaranteed `T`.
//!
//! A policy without nesting keeps its guarantees: there the level is that of the rule itself.
//!
//! Worked example, `add`: `T` of 0.5, 5.75 and 5.75 Gb/s, weights 1, 1.5 and 1.5, no guarantees: the level is 0.5 for
//! a weight of 1, and the guarantees are 0, 5 and 5 Gb/s.

use weir_policy::{Share, Sharing};
use weir_units::Bandwidth;

/// A service whose share is its maximum: its weight could give it more.
fn is_clipped(share: &Share, committed: Bandwidth) -> bool {
    committed >= share.max
}

/// The guarantees, by service. `committed` are the tree's shares while all are backlogged.
///
/// # Panics
/// If the lists differ in length.
pub(crate) fn flat_guarantees(sharing: Sharing, shares: &[Share], committed: &[Bandwidth]) -> Vec<Bandwidth> {
    assert_eq!(shares.len(), committed.len(), "a share in the tree for each service");
    let by_weight = |(share, &t): (&Share, &Bandwidth)| match sharing {
        Sharing::Add => (t.saturating_sub(share.min), share.weight),
        Sharing::Fill => (t, share.weight),
    };
    // The level as a fraction, compared exactly: rate / weight.
    let below = shares.iter().zip(committed).filter(|(share, t)| !is_clipped(share, **t));
    let level = below.map(by_weight).min_by(|(a, of_a), (b, of_b)| {
        let left = u128::from(a.bps()) * u128::from(of_b.thousandths());
        left.cmp(&(u128::from(b.bps()) * u128::from(of_a.thousandths())))
    });
    let Some((rate, of)) = level else { return shares.iter().map(|share| share.min).collect() };
    let least = u128::from(of.thousandths()).max(1);
    let guarantee = |(share, &t): (&Share, &Bandwidth)| {
        let weight = u128::from(share.weight.thousandths());
        let part = u128::from(rate.bps()) * weight / least;
        let part = Bandwidth::from_bps(u64::try_from(part).unwrap_or(u64::MAX));
        // Shares in the tree are rounded to 1 bit/s, and so is the level for the weight `of`.
        let rounding = Bandwidth::from_bps(u64::try_from(weight / least + 2).unwrap_or(u64::MAX));
        let rest = match sharing {
            Sharing::Add => t.saturating_sub(part),
            Sharing::Fill if t.saturating_sub(part) <= rounding => Bandwidth::ZERO,
            Sharing::Fill => t,
        };
        if rest.saturating_sub(share.min) <= rounding { share.min } else { rest }
    };
    shares.iter().zip(committed).map(guarantee).collect()
}
