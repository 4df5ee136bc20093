//! [`Meter`]: bytes and packets of a service as counted on the wire.
//!
//! With segmentation offload, one kernel buffer is many packets on the wire. Rule and worked example:
//! `datapath/meter.h`. Frames count from the Ethernet header to the end of the payload.

use crate::abi;
use weir_policy::Tunnels;
use weir_units::Bytes;

/// A count of traffic in one direction. It only grows; rates are differences over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meter {
    raw: abi::Meter,
}

impl Meter {
    /// Counts `packets` of `bytes` in total.
    pub fn add(&mut self, bytes: Bytes, packets: u32) {
        abi::meter_add(&mut self.raw, bytes.get(), packets);
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

impl From<abi::Meter> for Meter {
    fn from(raw: abi::Meter) -> Self {
        Self { raw }
    }
}

/// Bytes of headers of each packet that the kernel merged into `frame`, including those inside a
/// tunnel (`datapath/tunnel.h`) to one of these ports; `None` for a malformed frame.
pub fn header_bytes(frame: &[u8], tunnels: &Tunnels) -> Option<u32> {
    let packet = crate::parse(frame)?;
    let bytes = abi::Bytes { data: frame.as_ptr(), size: u32::try_from(frame.len()).ok()? };
    // SAFETY: `bytes` names the frame, which is only read, as the other objects are.
    Some(unsafe { abi::header_bytes(&bytes, &tunnels.into(), &packet) })
}

/// Packets on the wire of a buffer of `bytes` with `header_bytes` of headers. `gso_size` is the payload
/// of each, 0 without offload; `gso_segs` their number, 0 if the sender left it out.
pub fn segments(bytes: u32, header_bytes: u32, gso_size: u32, gso_segs: u32) -> u32 {
    abi::segments(bytes, header_bytes, gso_size, gso_segs)
}

/// The bytes of `segments` packets that share a buffer of `bytes` with `header_bytes` of headers.
pub fn wire_bytes(bytes: u32, header_bytes: u32, segments: u32) -> Bytes {
    Bytes::new(abi::wire_bytes(bytes, header_bytes, segments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_count_once_per_segment() {
        assert_eq!(segments(1514, 54, 0, 0), 1);
        assert_eq!(segments(54 + 2920, 54, 1460, 2), 2);
        assert_eq!(wire_bytes(54 + 2920, 54, 2), Bytes::new(2 * 1514));
        assert_eq!(wire_bytes(1514, 54, 1), Bytes::new(1514));
    }

    #[test]
    fn segments_left_out_by_a_guest_are_computed() {
        for (payload, expected) in [(0, 1), (1, 1), (1460, 1), (1461, 2), (65_482, 45)] {
            assert_eq!(segments(54 + payload, 54, 1460, 0), expected, "{payload} B");
        }
        assert_eq!(segments(u32::MAX, 0, u32::MAX, 0), 1);
    }

    #[test]
    fn counts_are_summed() {
        let mut meter = Meter::default();
        meter.add(Bytes::new(3028), 2);
        meter.add(Bytes::new(64), 1);
        assert_eq!((meter.bytes(), meter.packets()), (Bytes::new(3092), 3));
    }
}
