//! Whether a tree can have a tenant at all, whatever the search.
//!
//! Problem: QShare's fill is a heuristic, and so are those that it was compared with. That none of them finds a place
//! does not show that there is none. Approach: with one bandwidth for all, a link's side is a number of virtual
//! machines. The numbers that are possible below a link are the sums of those that are possible below its children, or
//! up to the slots of its machine, without those of which the smaller side exceeds what the link has left. The tree can
//! have the tenant if the sums at the root include all of its virtual machines.
//!
//! Virtual machines of several bandwidths: for each bandwidth t, those of at least t are a tenant of bandwidth t that
//! needs no more of any link. If one of these finds no place, neither does the tenant; the converse does not hold.
//!
//! Example: six virtual machines of 100 Mb/s; a rack of two machines with 3 and 2 slots below an uplink of 100 Mb/s,
//! and another rack like it. Below the uplink 0, 1, 5 and 6 are possible: five and one, which a fill that takes one
//! machine after the other does not find, since three of six are too many for the uplink.
//!
//! Source: none in QShare; sets of counts as in dynamic programming for knapsacks.

use crate::hose::Hose;
use crate::tree::Walk;
use std::mem;

/// The most virtual machines of a tenant for which [`Placer::rules_out`](crate::Placer::rules_out) examines all
/// places: its work grows with their square.
pub const EXAMINED_MAX: u32 = 1_000;

/// Whether the tree may have the tenant; exact for one bandwidth. `true` for tenants beyond [`EXAMINED_MAX`].
pub(crate) fn may_have(walk: &Walk, hose: &Hose) -> bool {
    let mut bandwidths: Vec<u64> = hose.groups().iter().map(|group| group.bandwidth.bps()).collect();
    bandwidths.sort_unstable();
    bandwidths.dedup();
    bandwidths.into_iter().all(|bps| {
        let alike = hose.groups().iter().filter(|group| group.bandwidth.bps() >= bps);
        let vms = alike.map(|group| group.vms).sum();
        vms > EXAMINED_MAX || has_sum(walk, vms, bps)
    })
}

/// Whether the tree can have `vms` virtual machines of `bps` each.
fn has_sum(walk: &Walk, vms: u32, bps: u64) -> bool {
    let mut below: Vec<Counts> = vec![Counts::zero(vms); walk.links.len()];
    let mut root = Counts::zero(vms);
    for leaf in 0..walk.leaves.len() {
        let link = walk.path(leaf).next().expect("a leaf has a link");
        below[link] = Counts::up_to(walk.leaves[leaf].free.min(vms), vms);
    }
    // A link is walked before those below it.
    for link in (0..walk.links.len()).rev() {
        let mut counts = mem::replace(&mut below[link], Counts::zero(0));
        let available = walk.available(link);
        counts.retain(|count| u64::from(count.min(vms - count)) * bps <= available);
        let above = walk.above(link).map_or(&mut root, |above| &mut below[above]);
        above.add(&counts);
    }
    root.has(vms)
}

/// A set of numbers from 0 to a limit, a bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counts {
    words: Vec<u64>,
    limit: u32,
}

impl Counts {
    /// The set of zero alone.
    fn zero(limit: u32) -> Self {
        Self::up_to(0, limit)
    }
    /// All numbers up to one that is at most the limit.
    fn up_to(most: u32, limit: u32) -> Self {
        let mut counts = Self { words: vec![0; limit as usize / 64 + 1], limit };
        (0..=most).for_each(|count| counts.words[count as usize / 64] |= 1 << (count % 64));
        counts
    }
    fn has(&self, count: u32) -> bool {
        self.words[count as usize / 64] >> (count % 64) & 1 == 1
    }
    fn all(&self) -> impl Iterator<Item = u32> + '_ {
        (0..=self.limit).filter(|count| self.has(*count))
    }
    fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let dropped: Vec<u32> = self.all().filter(|count| !keep(*count)).collect();
        dropped.into_iter().for_each(|count| self.words[count as usize / 64] &= !(1 << (count % 64)));
    }
    /// All sums of a number of this set and one of the other, up to the limit.
    fn add(&mut self, other: &Self) {
        let mut sums = vec![0; self.words.len()];
        for shift in other.all() {
            let (words, bits) = (shift as usize / 64, shift % 64);
            for (at, word) in self.words[..self.words.len() - words].iter().enumerate() {
                sums[at + words] |= word << bits;
                // A shift by all 64 bits is not defined.
                if let Some(next) = sums.get_mut(at + words + 1).filter(|_| bits > 0) {
                    *next |= word >> (64 - bits);
                }
            }
        }
        // No sums beyond the limit.
        *sums.last_mut().expect("a set has zero") &= u64::MAX >> (63 - self.limit % 64);
        self.words = sums;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_cross_words_and_end_at_the_limit() {
        let mut counts = Counts::up_to(0, 130);
        for more in [63, 1, 64] {
            let mut other = Counts::up_to(more, 130);
            other.retain(|count| count == more || count == 0);
            counts.add(&other);
        }
        assert_eq!(counts.all().collect::<Vec<_>>(), [0, 1, 63, 64, 65, 127, 128]);
        counts.add(&Counts::up_to(3, 130));
        assert_eq!(counts.all().max(), Some(130));
    }
}
