//! The structures that Rust and C share, field by field.
//!
//! Problem: user space writes rules that the kernel's program reads, and the simulator calls C: both sides
//! must agree on every offset. Approach: `#[repr(C)]` mirrors of the structures in `datapath/*.h`, whose
//! sizes and offsets a test compares with what the C compiler says (`weir_layout` in `datapath/native.c`).
//! The meaning of each field is documented in the headers.

/// `struct weir_packet`: the fields of a packet that a policy can name (`datapath/packet.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packet {
    /// The source address as on the wire; IPv4 is `::ffff:a.b.c.d`.
    pub source: [u64; 2],
    /// The destination address, likewise.
    pub destination: [u64; 2],
    /// All headers up to the payload.
    pub header_bytes: u32,
    /// The VXLAN network.
    pub vni: u32,
    /// The source port in host order.
    pub source_port: u16,
    /// The destination port in host order.
    pub destination_port: u16,
    /// 4, 6, or 0 for what is not IP.
    pub family: u8,
    /// The IP protocol.
    pub protocol: u8,
    /// The differentiated-services code point.
    pub dscp: u8,
    /// Which of the fields the packet has: `HAS_*`.
    pub has: u8,
}

/// `struct weir_rule`: one line of a classifier (`datapath/classify.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rule {
    /// The prefix, masked; IPv4 is `::ffff:a.b.c.d`.
    pub address: [u64; 2],
    /// Which bits of an address count.
    pub mask: [u64; 2],
    /// The service of packets that match.
    pub service: u32,
    /// The VXLAN network asked for.
    pub vni: u32,
    /// The first port.
    pub port_first: u16,
    /// The last port, inclusive.
    pub port_last: u16,
    /// Which fields are asked for: `RULE_*`.
    pub fields: u8,
    /// What a packet must have for them to mean anything: `HAS_*`.
    pub needs: u8,
    /// The IP protocol asked for.
    pub protocol: u8,
    /// The code point asked for.
    pub dscp: u8,
    /// The family of `address`: 4 or 6.
    pub family: u8,
    /// Always zero; keeps the size a multiple of eight.
    pub reserved: [u8; 7],
}

/// `struct weir_meter`: a count of traffic (`datapath/meter.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawMeter {
    /// Bytes on the wire, from the Ethernet header to the end of the payload.
    pub bytes: u64,
    /// Packets on the wire.
    pub packets: u64,
}

/// `struct weir_limiter`: the state of a rate limiter (`datapath/limiter.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawLimiter {
    /// Bit/s; 0 is unlimited.
    pub rate: u64,
    /// Nanobits that may leave ahead of the rate.
    pub burst: u64,
    /// Nanobits not yet paid at `paid_at`.
    pub owed: u64,
    /// Nanoseconds since the driver's origin.
    pub paid_at: u64,
    /// The time that pays the largest debt at `rate`.
    pub drain_ns: u64,
}

/// The most rules that one interface may have.
pub const RULES_MAX: usize = 256;
/// The verdict on packets that no rule matches.
pub const UNCLASSIFIED: u32 = u32::MAX;
/// What the parser returns for frames that are cut short or wrong.
pub(crate) const MALFORMED: i32 = 1;
/// The packet is IP: addresses, protocol and code point mean something.
pub const HAS_IP: u8 = 0x01;
/// The packet has ports.
pub const HAS_PORTS: u8 = 0x02;
/// The packet is VXLAN with a network identifier.
pub const HAS_VNI: u8 = 0x04;
/// The rule asks for a protocol.
pub const RULE_PROTOCOL: u8 = 0x01;
/// The rule asks for ports.
pub const RULE_PORTS: u8 = 0x02;
/// The rule asks for an address.
pub const RULE_ADDRESS: u8 = 0x04;
/// The rule asks for a code point.
pub const RULE_DSCP: u8 = 0x08;
/// The rule asks for a VXLAN network.
pub const RULE_VNI: u8 = 0x10;

/// The functions of `datapath/native.c`.
///
/// All are plain computations on what they are handed: no globals, no allocation, no callbacks.
pub(crate) mod native {
    use super::{Packet, RawLimiter, RawMeter, Rule};

    unsafe extern "C" {
        pub(crate) fn weir_native_parse(data: *const u8, size: u32, packet: *mut Packet) -> i32;
        pub(crate) fn weir_native_classify(rules: *const Rule, count: u32, packet: *const Packet) -> u32;
        pub(crate) safe fn weir_native_segments(bytes: u32, header_bytes: u32, gso_size: u32, gso_segs: u32) -> u32;
        pub(crate) safe fn weir_native_wire_bytes(bytes: u32, header_bytes: u32, segments: u32) -> u64;
        pub(crate) safe fn weir_native_meter_add(meter: &mut RawMeter, bytes: u64, packets: u32);
        pub(crate) safe fn weir_native_limiter_set_rate(limiter: &mut RawLimiter, now: u64, rate: u64);
        pub(crate) safe fn weir_native_limiter_set_burst(limiter: &mut RawLimiter, bytes: u32);
        pub(crate) safe fn weir_native_limiter_earliest(limiter: &mut RawLimiter, now: u64) -> u64;
        pub(crate) safe fn weir_native_limiter_departure(limiter: &mut RawLimiter, now: u64, bytes: u32) -> u64;
    }

    #[cfg(test)]
    unsafe extern "C" {
        pub(crate) static weir_layout_size: u32;
        pub(crate) static weir_layout: [u32; 43];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn rust_and_c_agree_on_every_field() {
        let rust = [
            size_of::<Packet>(),
            offset_of!(Packet, source),
            offset_of!(Packet, destination),
            offset_of!(Packet, header_bytes),
            offset_of!(Packet, vni),
            offset_of!(Packet, source_port),
            offset_of!(Packet, destination_port),
            offset_of!(Packet, family),
            offset_of!(Packet, protocol),
            offset_of!(Packet, dscp),
            offset_of!(Packet, has),
            size_of::<Rule>(),
            offset_of!(Rule, address),
            offset_of!(Rule, mask),
            offset_of!(Rule, service),
            offset_of!(Rule, vni),
            offset_of!(Rule, port_first),
            offset_of!(Rule, port_last),
            offset_of!(Rule, fields),
            offset_of!(Rule, needs),
            offset_of!(Rule, protocol),
            offset_of!(Rule, dscp),
            offset_of!(Rule, family),
            size_of::<RawMeter>(),
            offset_of!(RawMeter, bytes),
            offset_of!(RawMeter, packets),
            size_of::<RawLimiter>(),
            offset_of!(RawLimiter, rate),
            offset_of!(RawLimiter, burst),
            offset_of!(RawLimiter, owed),
            offset_of!(RawLimiter, paid_at),
            offset_of!(RawLimiter, drain_ns),
            RULES_MAX,
            UNCLASSIFIED as usize,
            MALFORMED as usize,
            HAS_IP as usize,
            HAS_PORTS as usize,
            HAS_VNI as usize,
            RULE_PROTOCOL as usize,
            RULE_PORTS as usize,
            RULE_ADDRESS as usize,
            RULE_DSCP as usize,
            RULE_VNI as usize,
        ]
        .map(|value| value as u32);
        // SAFETY: both are constants of native.c; the length is compared before the table is read.
        unsafe {
            assert_eq!(native::weir_layout_size as usize, rust.len(), "the two tables list the same things");
            assert_eq!(native::weir_layout, rust);
        }
    }
}
