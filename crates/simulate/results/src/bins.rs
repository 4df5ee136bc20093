//! Bins of flow sizes.
//!
//! Problem: a mean over all flows hides small ones, which most applications wait for. Approach:
//! flows are distinguished by their size, each bin up to and including its bound, the last without
//! one.
//!
//! Worked example: with bounds 10 kB and 10 MB there are three bins; a flow of exactly 10,000 bytes
//! is in the first.
//!
//! Source: the bins ≤ 10 kB, ≤ 10 MB and above are those of QJump (§6.4, Fig 9); the default adds
//! 100 kB and 1 MB between them, the bounds of small and medium flows in DCTCP (§2.2) and pFabric
//! (§5.2).

use serde::{Deserialize, Serialize};

/// One bin: sizes above `over`, up to and including `up_to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bin {
    /// Bytes; the first bin, which has flows of zero bytes too, has zero here.
    #[serde(rename = "over_bytes")]
    pub over: u64,
    /// Bytes; `None` in the last bin.
    #[serde(rename = "up_to_bytes")]
    pub up_to: Option<u64>,
}

/// Bounds of bins, in bytes, strictly ascending.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SizeBins(Vec<u64>);

impl SizeBins {
    /// Bins with these bounds; sorted here, and a bound given twice counts once. Without bounds
    /// there is one bin with all flows.
    pub fn new(bounds: impl IntoIterator<Item = u64>) -> Self {
        let mut bounds: Vec<u64> = bounds.into_iter().collect();
        bounds.sort_unstable();
        bounds.dedup();
        Self(bounds)
    }

    /// QJump's bins: up to 10 kB, up to 10 MB, above.
    pub fn qjump() -> Self {
        Self(vec![10_000, 10_000_000])
    }

    /// The number of bins: one more than bounds.
    pub fn count(&self) -> usize {
        self.0.len() + 1
    }

    /// The index of the bin of a flow of `bytes`.
    pub fn index(&self, bytes: u64) -> usize {
        self.0.partition_point(|bound| *bound < bytes)
    }

    /// The bins in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Bin> {
        let over = std::iter::once(0).chain(self.0.iter().copied());
        over.zip(self.0.iter().copied().map(Some).chain([None])).map(|(over, up_to)| Bin { over, up_to })
    }
}

impl Default for SizeBins {
    /// Up to 10 kB, 100 kB, 1 MB, 10 MB, and above.
    fn default() -> Self {
        Self(vec![10_000, 100_000, 1_000_000, 10_000_000])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bound_belongs_to_the_bin_below() {
        let bins = SizeBins::default();
        let indices = [0, 1, 10_000, 10_001, 100_000, 10_000_000, 10_000_001, u64::MAX].map(|bytes| bins.index(bytes));
        assert_eq!(indices, [0, 0, 0, 1, 1, 3, 4, 4]);
        assert_eq!(SizeBins::new([]).iter().collect::<Vec<_>>(), [Bin { over: 0, up_to: None }]);
        assert_eq!(SizeBins::new([10_000_000, 10_000, 10_000]), SizeBins::qjump());
    }

    proptest! {
        #[test]
        fn every_size_is_in_exactly_the_bin_it_is_placed_in(
            bounds in prop::collection::vec(0u64..1000, 0..6), bytes in 0u64..1100
        ) {
            let bins = SizeBins::new(bounds);
            let holds = |bin: Bin| (bytes > bin.over || bin.over == 0) && bin.up_to.is_none_or(|up_to| bytes <= up_to);
            let all: Vec<Bin> = bins.iter().collect();
            prop_assert_eq!(all.len(), bins.count());
            prop_assert!(holds(all[bins.index(bytes)]));
        }
    }
}
