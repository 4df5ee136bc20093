//! Messages of the protocol, and the widths of their fields.
//!
//! A request, a return and a termination go with the data; an allocation goes against it, from the receiver to the
//! sender, and the ports of the data's path rewrite it. Bytes are bytes on the wire, headers included. The paper has
//! credits of 8 bytes in fields of 16 bits and periods of 20 µs in 8 bits ([`Coding::Paper`], §III.B), which end at
//! 524,280 B and 5.1 ms: at 10 Gb/s that is the capacity of 419 µs. [`Coding::Wide`] has 32 bits for both.

use crate::Period;
use weir_units::{Bytes, Duration, Weight};

/// A message of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// From the sender: the flow has data.
    Request(Request),
    /// From the receiver: credits for a period.
    Allocation(Allocation),
    /// From the sender, with the first data after an allocation or without data.
    Return(Return),
    /// From the sender: the flow is over, and its grants are free.
    Terminate,
}

/// The start of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The weight that the sender has.
    pub weight: Weight,
    /// The clock of the newest allocation that the sender has had; 0 for none. A receiver that is made anew continues
    /// after it, since the sender takes none that is not later.
    pub clock: u32,
}

/// Credits for one period of a flow. The fields begin as the receiver sets them, and ports reduce them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The number of the allocation, from 1 on: the logical clock. Comparisons are modulo 2³².
    pub clock: u32,
    /// p: the period for which the allocation is; ports with a longer one write theirs.
    pub period: Period,
    /// The longest period that a port of the path selects by itself. The receiver takes it for the next allocation;
    /// `period` alone could never fall.
    pub longest: Period,
    /// d_p: bytes that the flow could use in the next period, as far as the path allows.
    pub potential: Bytes,
    /// d: bytes that the flow can use in this period.
    pub demand: Bytes,
    /// a: bytes that it may send in this period.
    pub allocation: Bytes,
    /// The product of the receiver's and the sender's weights.
    pub weight: Weight,
    /// The sum of 2 · C_0 / R over the ports that the allocation has passed: how long data may wait in them.
    pub queueing: Duration,
}

/// The values of an allocation that the sender returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Return {
    /// That of the allocation.
    pub clock: u32,
    /// p as the sender got it.
    pub period: Period,
    /// The longest period of a port.
    pub longest: Period,
    /// d_p, reduced to what the sender will have to send.
    pub potential: Bytes,
    /// a as the sender got it: less than what ports near the receiver granted, if later ones reduced it.
    pub allocation: Bytes,
    /// The sum of 2 · C_0 / R over all ports of the path.
    pub queueing: Duration,
}

/// Whether one clock is later than another one, modulo 2³².
pub(crate) fn is_later(clock: u32, than: u32) -> bool {
    let ahead = clock.wrapping_sub(than);
    ahead != 0 && ahead <= u32::MAX / 2
}

/// The clock after another one; 0 belongs to no allocation.
pub(crate) fn next_clock(clock: u32) -> u32 {
    clock.wrapping_add(1).max(1)
}

/// Widths of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coding {
    /// Bytes and microseconds in 32 bits.
    #[default]
    Wide,
    /// The paper's: credits of 8 bytes in 16 bits, and periods of 20 µs in 8 bits.
    Paper,
}

impl Coding {
    /// The largest number of bytes that a field has, of at most these: rounded down.
    pub fn bytes(self, bytes: Bytes) -> Bytes {
        match self {
            Self::Wide => bytes.min(Bytes::new(u32::MAX.into())),
            Self::Paper => Bytes::new((bytes.get() / 8).min(u16::MAX.into()) * 8),
        }
    }

    /// The longest period that a field has.
    pub const fn longest(self) -> Period {
        match self {
            Self::Wide => Period::from_micros(u32::MAX),
            Self::Paper => Period::from_micros(20 * u8::MAX as u32),
        }
    }

    /// An allocation as its fields have it.
    pub fn allocation(self, allocation: &Allocation) -> Allocation {
        Allocation {
            period: allocation.period.min(self.longest()),
            longest: allocation.longest.min(self.longest()),
            potential: self.bytes(allocation.potential),
            demand: self.bytes(allocation.demand),
            allocation: self.bytes(allocation.allocation),
            ..*allocation
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_compared_modulo_their_width() {
        assert!(is_later(2, 1) && !is_later(1, 1) && !is_later(1, 2));
        assert!(is_later(1, u32::MAX) && !is_later(u32::MAX, 1));
        assert_eq!((next_clock(1), next_clock(u32::MAX)), (2, 1));
    }

    #[test]
    fn fields_of_the_paper_end_at_half_a_megabyte_and_5_ms() {
        let coded = [25_007, 524_287, 1_000_000].map(|bytes| Coding::Paper.bytes(Bytes::new(bytes)).get());
        assert_eq!(coded, [25_000, 524_280, 524_280]);
        assert_eq!(Coding::Paper.longest().micros(), 5_100);
        assert_eq!(Coding::Wide.bytes(Bytes::new(1_000_001)).get(), 1_000_001);
    }
}
