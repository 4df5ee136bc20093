//! [`Meter`]: bytes and packets of a service, as the wire counts them.
//!
//! Problem: one kernel buffer stands for many packets when segmentation is offloaded. Approach and worked
//! example: `datapath/meter.h`. Frames count from the Ethernet header to the end of the payload.

use crate::layout::{RawMeter, native};
use weir_units::Bytes;

/// A count of traffic in one direction. It only grows; rates are differences over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meter {
    raw: RawMeter,
}

impl Meter {
    /// Counts `packets` that carry `bytes` together.
    pub fn add(&mut self, bytes: Bytes, packets: u32) {
        native::weir_native_meter_add(&mut self.raw, bytes.get(), packets);
    }

    /// Everything counted so far.
    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.raw.bytes)
    }

    /// All packets counted so far.
    pub fn packets(&self) -> u64 {
        self.raw.packets
    }
}

impl From<RawMeter> for Meter {
    fn from(raw: RawMeter) -> Self {
        Self { raw }
    }
}

/// The headers of each packet that the kernel merged into `frame`, those inside a tunnel among them (`datapath/tunnel.h`); `None` for what is
/// malformed.
pub fn header_bytes(frame: &[u8]) -> Option<u32> {
    // SAFETY: reads as many bytes as it is told that there are.
    let bytes = unsafe { native::weir_native_header_bytes(frame.as_ptr(), u32::try_from(frame.len()).ok()?) };
    (bytes != u32::MAX).then_some(bytes)
}

/// How many packets a buffer of `bytes` with `header_bytes` of headers leaves as. `gso_size` is the payload
/// of each, 0 when nothing is offloaded; `gso_segs` their number, 0 where the sender left it out.
pub fn segments(bytes: u32, header_bytes: u32, gso_size: u32, gso_segs: u32) -> u32 {
    native::weir_native_segments(bytes, header_bytes, gso_size, gso_segs)
}

/// The bytes of `segments` packets that share a buffer of `bytes` with `header_bytes` of headers.
pub fn wire_bytes(bytes: u32, header_bytes: u32, segments: u32) -> Bytes {
    Bytes::new(native::weir_native_wire_bytes(bytes, header_bytes, segments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_headers_once_per_segment() {
        assert_eq!(segments(1514, 54, 0, 0), 1);
        assert_eq!(segments(54 + 2920, 54, 1460, 2), 2);
        assert_eq!(wire_bytes(54 + 2920, 54, 2), Bytes::new(2 * 1514));
        assert_eq!(wire_bytes(1514, 54, 1), Bytes::new(1514));
    }

    #[test]
    fn finds_the_segments_that_a_guest_left_out() {
        for (payload, expected) in [(0, 1), (1, 1), (1460, 1), (1461, 2), (65_482, 45)] {
            assert_eq!(segments(54 + payload, 54, 1460, 0), expected, "{payload} B");
        }
        assert_eq!(segments(u32::MAX, 0, u32::MAX, 0), 1);
    }

    #[test]
    fn adds_up() {
        let mut meter = Meter::default();
        meter.add(Bytes::new(3028), 2);
        meter.add(Bytes::new(64), 1);
        assert_eq!((meter.bytes(), meter.packets()), (Bytes::new(3092), 3));
    }
}
