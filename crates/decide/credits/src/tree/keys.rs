//! Demand and weight of each flow by its number.
//!
//! At many flows a change of the tree takes as long as its cache misses, of which this map has two: entries are 16
//! bytes without padding, and the hash of a number, which the driver assigns, is one product.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A weight, and the halves of a demand: an entry with its number has no padding.
type Key = [u32; 3];

/// Demands and weights by flow. Lookups only: the order of a hash map is not used.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys(HashMap<u32, Key, BuildHasherDefault<Product>>);

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The demand and the weight of a flow.
    pub(super) fn get(&self, flow: u32) -> Option<(u64, u32)> {
        self.0.get(&flow).map(unpacked)
    }

    /// Sets them, and returns those of before.
    pub(super) fn insert(&mut self, flow: u32, demand: u64, weight: u32) -> Option<(u64, u32)> {
        self.0.insert(flow, [weight, demand as u32, (demand >> 32) as u32]).as_ref().map(unpacked)
    }

    /// Removes those of a flow, and returns them.
    pub(super) fn remove(&mut self, flow: u32) -> Option<(u64, u32)> {
        self.0.remove(&flow).as_ref().map(unpacked)
    }

    /// Bytes of the map: it fills seven eighths of its slots, with a byte beside each.
    pub(super) fn memory(&self) -> usize {
        self.0.capacity() * 8 / 7 * (size_of::<(u32, Key)>() + 1)
    }
}

fn unpacked(&[weight, low, high]: &Key) -> (u64, u32) {
    (u64::from(high) << 32 | u64::from(low), weight)
}

/// Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
#[derive(Debug, Clone, Copy, Default)]
struct Product(u64);

impl Hasher for Product {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        // 2^64 by the golden ratio, odd: different numbers have different products.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
