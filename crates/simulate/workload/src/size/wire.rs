//! Bytes on the wire: the cost of a flow with the headers of its packets.
//!
//! Problem: a load is a share of link capacity, and links carry headers too; a flow of one byte
//! costs a whole header. Approach: a flow of `size` bytes is cut into packets of `payload` bytes,
//! the last one shorter, and each carries `headers` bytes. The mean over a distribution is exact:
//! the number of packets of all sizes 1 … n together has a closed form.
//!
//! Worked example: 1461 bytes with 1460 of payload and 40 of headers are two packets, 1541 bytes.

use super::{SizeDistribution, Step};
use crate::error::{SpecError, SpecResult};

/// The division of a flow into packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    payload: u32,
    headers: u32,
}

impl Framing {
    /// Packets of at most `payload` bytes of the application, and `headers` bytes more on the wire.
    ///
    /// # Errors
    /// A payload of 0.
    pub fn new(payload: u32, headers: u32) -> SpecResult<Self> {
        if payload == 0 {
            return Err(SpecError::new("packets have no payload", "write a payload of one byte or more"));
        }
        Ok(Self { payload, headers })
    }
    /// Bytes of the application in a full packet.
    pub const fn payload(self) -> u32 {
        self.payload
    }
    /// Bytes that every packet has besides.
    pub const fn headers(self) -> u32 {
        self.headers
    }
    /// The number of packets of `size` bytes.
    pub const fn packets(self, size: u64) -> u64 {
        size.div_ceil(self.payload as u64)
    }
    /// The wire bytes of `size` bytes (saturating).
    pub const fn wire_bytes(self, size: u64) -> u64 {
        size.saturating_add(self.packets(size).saturating_mul(self.headers as u64))
    }
    /// The number of packets of the sizes 1 … n, all together: full rounds of `payload` sizes need
    /// 1, 2, 3 … packets each.
    fn packets_up_to(self, n: u64) -> u128 {
        let payload = u128::from(self.payload);
        let (rounds, rest) = (u128::from(n) / payload, u128::from(n) % payload);
        // Below 2^64 · 2^64: rounds · payload ≤ n, and rounds + 1 ≤ 2^64.
        (payload * rounds).saturating_mul(rounds + 1) / 2 + rest * (rounds + 1)
    }
}

/// The bytes of a flow on the wire: `size` and `headers` for each of its packets of at most
/// `payload` bytes, which is above zero. See [`Framing::wire_bytes`].
pub const fn wire_bytes(size: u64, payload: u32, headers: u32) -> u64 {
    Framing { payload, headers }.wire_bytes(size)
}

impl SizeDistribution {
    /// The mean number of packets of a flow.
    pub fn mean_packets(&self, framing: Framing) -> f64 {
        let packets = |step: Step| {
            if step.above == step.to {
                return framing.packets(step.to) as f64;
            }
            (framing.packets_up_to(step.to) - framing.packets_up_to(step.above)) as f64 / step.count()
        };
        self.parts().map(|(share, step)| share * packets(step)).sum()
    }

    /// The mean of [`Framing::wire_bytes`] over the sizes that [`SizeDistribution::sample`] draws.
    pub fn mean_wire_bytes(&self, framing: Framing) -> f64 {
        self.mean() + self.mean_packets(framing) * f64::from(framing.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_per_packet() {
        for (size, wire) in [(1, 41), (1460, 1500), (1461, 1541), (14_600, 15_000)] {
            assert_eq!(wire_bytes(size, 1460, 40), wire, "{size}");
        }
        assert!(Framing::new(0, 40).is_err());
    }

    proptest! {
        #[test]
        fn the_closed_form_is_the_sum(n in 0_u64..3_000, payload in 1_u32..100) {
            let framing = Framing { payload, headers: 1 };
            let sum: u64 = (1..=n).map(|size| framing.packets(size)).sum();
            prop_assert_eq!(framing.packets_up_to(n), u128::from(sum));
        }
        #[test]
        fn the_mean_is_the_mean_of_all(
            least in 1_u64..500, more in 0_u64..500, payload in 1_u32..50, headers in 0_u32..50,
        ) {
            let sizes = SizeDistribution::uniform(least, least + more).expect("a range");
            let framing = Framing { payload, headers };
            let sum: u64 = (least..=least + more).map(|size| framing.wire_bytes(size)).sum();
            let mean = sum as f64 / (more + 1) as f64;
            prop_assert!((sizes.mean_wire_bytes(framing) / mean - 1.0).abs() < 1e-12);
        }
    }
}
