//! [`Hose`]: the bandwidth that a tenant's virtual machines may use of every link between them.
//!
//! Problem: a tenant requests bandwidth at each of its virtual machines, whatever they send to each other, and a
//! placement must know the part of a link that this needs. Approach: the hose model. A link divides the virtual
//! machines into two sides; what crosses it is at most the sum of the bandwidths on either side, so the smaller sum is
//! reserved. With N virtual machines of bandwidth B each, m of them on one side, it is B · min(m, N − m).
//!
//! Example: five virtual machines of 100 Mb/s. A link with one of them on one side needs 100 Mb/s, a link with two of
//! them 200 Mb/s, a link with four of them 100 Mb/s again.
//!
//! Source: Duffield et al., "A flexible model for resource management in virtual private networks" (SIGCOMM 1999);
//! QShare §II-A, Fig 1 and 2.

use std::cmp::Reverse;
use weir_units::Bandwidth;

/// Virtual machines of one bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// How many.
    pub vms: u32,
    /// The bandwidth of each one's hose.
    pub bandwidth: Bandwidth,
}

/// A tenant's virtual machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hose {
    groups: Vec<Group>,
    /// Indices of the groups, the largest bandwidth first: the order in which virtual machines are placed.
    order: Vec<usize>,
    vms: u32,
    bandwidth: Bandwidth,
}

impl Hose {
    /// A tenant of these groups.
    ///
    /// # Panics
    /// If the virtual machines are more than `u32::MAX` or their bandwidths together more than [`Bandwidth::MAX`].
    pub fn new(groups: Vec<Group>) -> Self {
        let vms = groups.iter().map(|group| u64::from(group.vms)).sum::<u64>();
        let bps = groups.iter().map(|group| u128::from(group.vms) * u128::from(group.bandwidth.bps())).sum::<u128>();
        assert!(bps <= u128::from(Bandwidth::MAX.bps()), "a tenant's bandwidth exceeds {}", Bandwidth::MAX);
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|at| Reverse(groups[*at].bandwidth));
        let vms = u32::try_from(vms).expect("a tenant of fewer than 2^32 virtual machines");
        Self { groups, order, vms, bandwidth: Bandwidth::from_bps(bps as u64) }
    }

    /// A tenant of `vms` virtual machines of the same bandwidth.
    pub fn uniform(vms: u32, bandwidth: Bandwidth) -> Self {
        Self::new(vec![Group { vms, bandwidth }])
    }

    /// The groups, as given.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
    /// All virtual machines.
    pub fn vms(&self) -> u32 {
        self.vms
    }
    /// The sum of all bandwidths: what the tenant pays for (QShare §V-B).
    pub fn bandwidth(&self) -> Bandwidth {
        self.bandwidth
    }
    /// The part of a link that is reserved when virtual machines with this sum of bandwidths are on one of its sides.
    pub fn reservation(&self, side: Bandwidth) -> Bandwidth {
        side.min(self.bandwidth.saturating_sub(side))
    }
}

/// The virtual machines of a tenant that are still to be placed, the largest bandwidth first.
#[derive(Debug, Clone)]
pub(crate) struct Remaining<'a> {
    hose: &'a Hose,
    /// How many of each group are left, in placing order.
    left: Vec<u32>,
    vms: u32,
}

impl<'a> Remaining<'a> {
    pub(crate) fn new(hose: &'a Hose) -> Self {
        let left = hose.order.iter().map(|at| hose.groups[*at].vms).collect();
        Self { hose, left, vms: hose.vms }
    }
    /// Leaves out virtual machines that have a place: how many of each group, in the order of [`Hose::groups`].
    pub(crate) fn leave_out(&mut self, vms: &[u32]) {
        for (left, at) in self.left.iter_mut().zip(&self.hose.order) {
            *left -= vms[*at];
        }
        self.vms -= vms.iter().sum::<u32>();
    }
    /// How many are left.
    pub(crate) fn vms(&self) -> u32 {
        self.vms
    }
    fn runs(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let bandwidths = self.hose.order.iter().map(|at| self.hose.groups[*at].bandwidth.bps());
        self.left.iter().copied().zip(bandwidths)
    }
    /// The sum of the bandwidths of the next `vms`, bit/s.
    pub(crate) fn sum(&self, vms: u32) -> u64 {
        let (mut sum, mut wanted) = (0, vms);
        for (left, bps) in self.runs() {
            let taken = left.min(wanted);
            sum += u64::from(taken) * bps;
            wanted -= taken;
            if wanted == 0 {
                break;
            }
        }
        sum
    }
    /// How many of the next ones have bandwidths whose sum is at most `bps`.
    pub(crate) fn within(&self, bps: u64) -> u32 {
        let (mut rest, mut fit) = (bps, 0);
        for (left, each) in self.runs() {
            let taken = rest.checked_div(each).map_or(left, |count| left.min(u32::try_from(count).unwrap_or(u32::MAX)));
            fit += taken;
            rest -= u64::from(taken) * each;
            if taken < left {
                break;
            }
        }
        fit
    }
    /// Takes the next `vms`; returns how many of each group, in the order of [`Hose::groups`].
    pub(crate) fn take(&mut self, vms: u32) -> Vec<u32> {
        let mut taken = vec![0; self.left.len()];
        let mut wanted = vms;
        for (place, left) in self.left.iter_mut().enumerate() {
            let count = wanted.min(*left);
            *left -= count;
            wanted -= count;
            taken[self.hose.order[place]] += count;
        }
        debug_assert_eq!(wanted, 0, "more virtual machines than are left");
        self.vms -= vms;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBPS: fn(u64) -> Bandwidth = Bandwidth::from_mbps;

    #[test]
    fn the_worked_example() {
        let hose = Hose::uniform(5, MBPS(100));
        let reserved = [0, 1, 2, 3, 4, 5].map(|side| hose.reservation(MBPS(100 * side)));
        assert_eq!(reserved, [0, 100, 200, 200, 100, 0].map(MBPS));
    }

    /// QShare Fig 1: R1 = min(B1 + B2, B3 + B4), R2 = min(B3, B1 + B2 + B4), R3 = min(B4, B1 + B2 + B3).
    #[test]
    fn figure_1() {
        let bandwidths = [40, 30, 50, 300].map(MBPS);
        let hose = Hose::new(bandwidths.iter().map(|&bandwidth| Group { vms: 1, bandwidth }).collect());
        let below = |vms: &[usize]| hose.reservation(vms.iter().map(|vm| bandwidths[vm - 1]).sum());
        assert_eq!([below(&[1, 2]), below(&[3]), below(&[4])], [70, 50, 120].map(MBPS));
    }

    #[test]
    fn the_largest_bandwidths_come_first_and_sums_follow_them() {
        let groups = [(4, 200), (2, 1000)].map(|(vms, mbps)| Group { vms, bandwidth: MBPS(mbps) });
        let hose = Hose::new(groups.to_vec());
        let mut remaining = Remaining::new(&hose);
        assert_eq!([1, 2, 3, 6].map(|vms| remaining.sum(vms) / 1_000_000), [1000, 2000, 2200, 2800]);
        assert_eq!([999, 1000, 2199, 2200, 9999].map(|mbps| remaining.within(mbps * 1_000_000)), [0, 1, 2, 3, 6]);
        assert_eq!((remaining.take(3), remaining.vms()), (vec![1, 2], 3));
        assert_eq!(remaining.within(399_999_999), 1);
        let free = Hose::uniform(3, Bandwidth::ZERO);
        assert_eq!(Remaining::new(&free).within(0), 3);
    }
}
