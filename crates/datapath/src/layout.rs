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
    /// Where the IP header begins.
    pub network: u32,
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
    /// The two ECN bits.
    pub ecn: u8,
    /// Always zero; keeps the size a multiple of eight.
    pub reserved: [u8; 7],
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
    /// When it was last found to owe nothing, in nanoseconds.
    pub rest_at: u64,
    /// Bytes of grants that were charged since.
    pub kept: u32,
    /// Always zero.
    pub reserved: u32,
}

/// `struct weir_lease`: departures that are kept for the next packets of those that wait (`datapath/lease.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawGrant {
    /// Bytes that are left, 2^32 times; below, how often another one began.
    pub left: u64,
    /// When the tick is due until which it holds, in nanoseconds, as the next three.
    pub due: u64,
    /// When what comes after it may leave.
    pub end: u64,
    /// The last departure that a look at the clocks gave.
    pub last: u64,
    /// When it was charged.
    pub charged_at: u64,
    /// Bytes.
    pub charged: u32,
    /// 2^-16 ns that a byte takes.
    pub step: u32,
}

impl RawGrant {
    /// Bytes that were used and that nobody has counted yet; of one that is changing perhaps none.
    pub fn uncounted(&self) -> u64 {
        u64::from(self.charged).saturating_sub(self.left >> 32)
    }
}

/// `struct weir_law`: how the control law is run (`datapath/receive_meter.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawLaw {
    /// Nanoseconds between two steps.
    pub interval: u64,
    /// The aggressiveness in 2^-20.
    pub alpha: u32,
    /// 1: windows of many intervals raise the rate as often; 0: once.
    pub catch_up: u32,
    /// 0: marks lower the rate by b/2; else the bytes that a marked interval counts more.
    pub mark_bytes: u32,
    /// 0: marks are not looked at.
    pub marks: u32,
}

/// `struct weir_window`: what came since a time (`datapath/usage_window.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawWindow {
    /// Nanoseconds since the driver's origin.
    pub opened_at: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Packets that switches could mark.
    pub packets: u64,
    /// Packets that they marked.
    pub marked: u64,
}

/// `struct weir_feedback_sampler`: which packets are answered (`datapath/feedback_sampler.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawAnswers {
    /// Nanoseconds between two answers, on average; 0: only bytes count.
    pub interval: u64,
    /// When the last answer was due, in nanoseconds.
    pub sent_at: u64,
    /// Bytes since.
    pub unsent_bytes: u64,
    /// Bytes between two answers, on average.
    pub bytes: u32,
    /// The state of the generator that spreads the answers.
    pub draw: u32,
}

/// `struct weir_advertised`: what one sender was told last (`datapath/feedback_sampler.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawTold {
    /// The sender's address.
    pub source: [u64; 2],
    /// The receiver's.
    pub destination: [u64; 2],
    /// Bits per second.
    pub rate: u64,
    /// When, in nanoseconds.
    pub at: u64,
    /// Of the packets.
    pub service: u32,
    /// How often it was told this rate again, 3 at most.
    pub again: u32,
}

/// `struct weir_receive_meter`: a service's meter at its receiver (`datapath/receive_meter.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawReceiveMeter {
    /// How the law is run.
    pub law: RawLaw,
    /// The open window.
    pub window: RawWindow,
    /// Bit/s; 0 is unlimited.
    pub capacity: u64,
    /// Bit/s that every sender is told; 0 when unlimited.
    pub rate: u64,
    /// Bit/s of the last window that closed.
    pub usage: u64,
    /// Packets that switches could mark, in all windows that closed.
    pub packets: u64,
    /// Of them, those that were marked and count.
    pub marked: u64,
    /// Bit/s: R once the own queue has drained.
    pub drained: u64,
    /// Bit/s: the most that `drained` was since the own queue began.
    pub unqueued: u64,
    /// Bytes: what the interface had received of all services when the window opened.
    pub beside: u64,
    /// 1: usage is what the own queue lets through.
    pub queued: u32,
    /// 1: the capacity is the interface's share.
    pub shared: u32,
    /// Which packets are answered.
    pub answers: RawAnswers,
}

/// `struct weir_interface_meter`: all services at an interface (`datapath/interface_meter.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawInterfaceMeter {
    /// How the law is run.
    pub law: RawLaw,
    /// The open window.
    pub window: RawWindow,
    /// Bit/s; 0 is unlimited.
    pub capacity: u64,
    /// Bit/s for the lightest weight; 0 when unlimited.
    pub rate: u64,
    /// Bit/s of the last window that closed.
    pub usage: u64,
    /// Bytes since the start, of all services.
    pub received: u64,
    /// Bit/s: the most that came in a service's window that met the own queue and marks, in this window.
    pub peak: u64,
    /// The sum of the services' weights in thousandths.
    pub total: u64,
    /// Bit/s: the sum of the services' guarantees.
    pub minima: u64,
    /// Bit/s: R while all services want everything.
    pub level: u64,
    /// In this window, while it is full: the packets of services with less than they are entitled to.
    pub short_packets: u64,
    /// Of them, those that were marked.
    pub short_marked: u64,
    /// Bit/s: in this window, the highest R that mattered to a service.
    pub reach: u64,
    /// The least of the weights.
    pub lightest: u32,
    /// 1: while the interface is full marks count by who was marked.
    pub weighs: u32,
    /// 1: more than the capacity came in the last window, and no more than the link can carry.
    pub full: u32,
    /// 1: some met the own queue and marks in the last window.
    pub settling: u32,
}

/// `struct weir_arrivals`: what one CPU has counted of a service (`datapath/receive_tick.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawArrivals {
    /// Bytes on the wire.
    pub bytes: u64,
    /// Packets that switches could mark.
    pub packets: u64,
    /// Packets that they marked.
    pub marked: u64,
    /// Of `bytes`, those that the timer has taken.
    pub taken_bytes: u64,
    /// Of `packets`, those that the timer has taken.
    pub taken_packets: u64,
    /// Of `marked`, those that the timer has taken.
    pub taken_marked: u64,
}

/// `struct weir_taken`: what all CPUs have counted of a service since the last tick (`datapath/receive_tick.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawTaken {
    /// Bytes on the wire.
    pub bytes: u64,
    /// Packets that switches could mark.
    pub packets: u32,
    /// Packets that they marked.
    pub marked: u32,
}

/// `struct weir_sip_key`: a key of SipHash (`datapath/siphash.h`).
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RawSipKey {
    /// The first eight bytes, the first one lowest.
    pub first: u64,
    /// The last eight bytes.
    pub second: u64,
}

/// `struct weir_feedback`: the content of a feedback packet (`datapath/feedback.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawFeedback {
    /// What a sender of weight 1 may send, bit/s.
    pub rate: u64,
    /// Which start of the receiver's agent.
    pub epoch: u64,
    /// Nanoseconds since the receiver's kernel started.
    pub sequence: u64,
    /// The first bytes of SHA-256 over the service's path.
    pub service: u32,
    /// The VXLAN network of the answered packet.
    pub vni: u32,
    /// Which key signs.
    pub key: u16,
    /// The source port of the answered packet.
    pub source_port: u16,
    /// Its destination port.
    pub destination_port: u16,
    /// Its IP protocol.
    pub protocol: u8,
    /// Its code point.
    pub dscp: u8,
    /// Which of ports and network it has: `HAS_*`.
    pub has: u8,
    /// Always zero.
    pub reserved: [u8; 5],
}

/// `struct weir_destination_rules`: how a sender keeps to feedback (`datapath/destination.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawDestinationRules {
    /// Nanoseconds for which a new rate stays.
    pub hold: u64,
    /// Nanoseconds without feedback until the limiter is dropped or its rate halved.
    pub silence: u64,
    /// Nanoseconds of the rate that may leave at once.
    pub burst_time: u64,
    /// Bit/s; 0: silence drops the limiter.
    pub halved_floor: u64,
    /// Nanoseconds without feedback after which packets ask for it; 0: never.
    pub request_after: u64,
    /// Bytes that may leave at once.
    pub burst: u32,
    /// Always zero.
    pub reserved: u32,
}

/// `struct weir_destination`: a sender's limiter towards one destination (`datapath/destination.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawDestination {
    /// Paces.
    pub limiter: RawLimiter,
    /// What feedback and silence do.
    pub rules: RawDestinationRules,
    /// When feedback last came, in nanoseconds.
    pub feedback_at: u64,
    /// Since when silence is counted, in nanoseconds.
    pub halved_at: u64,
    /// When feedback last set the rate, in nanoseconds.
    pub changed_at: u64,
    /// When a packet last asked for feedback, in nanoseconds.
    pub requested_at: u64,
    /// 1: feedback has set the rate.
    pub changed: u32,
    /// Always zero.
    pub reserved: u32,
}

/// `struct weir_pacing`: how an interface is paced (`datapath/departure.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawPacing {
    /// Bit/s of the interface; 0 is unlimited.
    pub rate: u64,
    /// Nanoseconds that a packet may wait.
    pub horizon: u64,
    /// Bytes that may wait for longer.
    pub queue: u32,
    /// Bytes that may leave at once after a pause, at least.
    pub burst: u32,
    /// How services share the interface.
    pub sharing: u32,
    /// Bits: 2^-spread of a burst is one CPU's batch.
    pub spread: u32,
}

/// `struct weir_sending`: what a service may send (`datapath/departure.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawSending {
    /// Bit/s that are guaranteed.
    pub min: u64,
    /// Bit/s of the interface, at most; 0 is unlimited, as the next ones.
    pub max: u64,
    /// The brokers' limit, bit/s.
    pub limit: u64,
    /// The limit without them, bit/s.
    pub ceiling: u64,
    /// Thousandths.
    pub weight: u32,
    /// Another one: `min`, `max` or `weight` are new.
    pub generation: u32,
}

/// `struct weir_sender`: a service's sending side (`datapath/departure.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawSender {
    /// The service's limit.
    pub root: RawLimiter,
    /// What it is entitled to.
    pub committed: RawLimiter,
    /// Of what no destination's limiter holds.
    pub grant: RawGrant,
    /// The R that `entitled` follows from.
    pub level: u64,
    /// The last departure, in nanoseconds.
    pub latest: u64,
    /// When it last wanted more than it is entitled to, in nanoseconds.
    pub waited_at: u64,
    /// Bytes that were given a departure.
    pub sent: u64,
    /// Of them, those that left as spare.
    pub excess: u64,
    /// Buffers beyond the horizon.
    pub dropped: u64,
    /// Of the rules that `entitled` follows from.
    pub generation: u32,
    /// Always zero.
    pub reserved: u32,
}

/// `struct weir_machine_egress`: the sending side of an interface (`datapath/departure.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawMachine {
    /// The interface's rate.
    pub limiter: RawLimiter,
    /// Bytes that left as entitled.
    pub committed: u64,
    /// All bytes.
    pub sent: u64,
    /// Times that a service began to want more than it is entitled to.
    pub newcomers: u64,
}

/// `struct weir_cpu_batch`: what one CPU has let leave of a service, and not yet charged (`datapath/departure.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawBatch {
    /// When the tick is due before which it may let more leave, in nanoseconds.
    pub due: u64,
    /// Bytes of these; 0: none.
    pub room: u32,
    /// Bytes to be charged.
    pub unpaid: u32,
    /// The destination's slot, or `WEIR_NO_DESTINATION`.
    pub place: u32,
    /// Always zero.
    pub reserved: u32,
}

/// `WEIR_CPU_BATCH_SPREAD`: an eighth of a burst is for the batches of all CPUs.
pub(crate) const BATCH_SPREAD: u32 = 3;
/// `WEIR_NO_DESTINATION`: no destination.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The words of a feedback packet's body.
pub(crate) const FEEDBACK_WORDS: usize = 7;
/// The port of control traffic: 0x7765, `we` in ASCII.
pub const CONTROL_PORT: u16 = 30_565;
/// `weir_control_kind`: feedback.
pub(crate) const FEEDBACK_GOOD: i32 = 0;
/// `weir_control_kind`: not of this protocol.
#[cfg(test)]
pub(crate) const FEEDBACK_FOREIGN: i32 = 1;
/// `weir_control_kind`: another version.
#[cfg(test)]
pub(crate) const FEEDBACK_VERSION: i32 = 2;
/// `weir_control_kind`: a broker's datagram.
#[cfg(test)]
pub(crate) const FEEDBACK_OTHER: i32 = 3;
#[cfg(test)]
pub(crate) const FEEDBACK_WORD: i32 = 4;
/// In feedback's `has`: its receiver has the sender's word that it codes.
pub const FEEDBACK_HEARD: u8 = 0x80;
/// The most rules that one interface may have.
pub const RULES_MAX: usize = 256;
/// Values of a port's last byte, for each of which a classifier has the first rule that may match.
pub const STARTS: usize = 256;
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

/// 1 as a fraction of the control law.
pub(crate) const LAW_ONE: u32 = 1 << 20;
/// The shortest interval of a meter in nanoseconds.
#[cfg(test)]
pub(crate) const INTERVAL_MIN: u64 = 10_000;
/// One fair share by weight, clipped between min and max.
pub(crate) const SHARE_FILL: u32 = 0;
/// The guarantee, and a share of the rest by weight.
pub(crate) const SHARE_ADD: u32 = 1;
/// `weir_receive_packet`: the packet's source is to be told.
pub(crate) const RECEIVED_FEEDBACK: u32 = 1;
/// `weir_receive_packet`: the shares are new.
pub(crate) const RECEIVED_SHARES: u32 = 2;
/// The law of what is entitled aims at the interface's rate less this part of it.
pub(crate) const ENTITLED_PART: u64 = 64;
/// The packet leaves as entitled.
pub(crate) const LEAVES_ENTITLED: u32 = 0;
/// The packet takes of what is spare.
#[cfg(test)]
pub(crate) const LEAVES_SPARE: u32 = 1;
/// The packet is beyond the horizon.
pub(crate) const LEAVES_NEVER: u32 = 2;
/// Beside these: its service wants more than it is entitled to, and did not lately.
pub(crate) const LEAVES_NEWCOMER: u32 = 4;
/// The limiter is of no use any more.
pub(crate) const DESTINATION_DROP: i32 = 1;

/// The functions of `datapath/native.c`.
///
/// All are plain computations on what they are handed: no globals, no allocation, no callbacks.
pub(crate) mod native {
    use super::{
        FEEDBACK_WORDS, Packet, RawAnswers, RawArrivals, RawBatch, RawDestination, RawDestinationRules, RawFeedback,
        RawGrant, RawInterfaceMeter, RawLaw, RawLimiter, RawMachine, RawMeter, RawPacing, RawReceiveMeter, RawSender,
        RawSending, RawSipKey, RawTaken, RawTold, Rule, STARTS,
    };

    unsafe extern "C" {
        pub(crate) fn weir_native_parse(data: *const u8, size: u32, packet: *mut Packet) -> i32;
        pub(crate) fn weir_native_classify(
            rules: *const Rule,
            count: u32,
            starts: &[u16; STARTS],
            packet: *const Packet,
        ) -> u32;
        /// Reads `size` bytes.
        pub(crate) fn weir_native_header_bytes(data: *const u8, size: u32) -> u32;
        pub(crate) safe fn weir_native_segments(bytes: u32, header_bytes: u32, gso_size: u32, gso_segs: u32) -> u32;
        pub(crate) safe fn weir_native_wire_bytes(bytes: u32, header_bytes: u32, segments: u32) -> u64;
        pub(crate) safe fn weir_native_meter_add(meter: &mut RawMeter, bytes: u64, packets: u32);
        pub(crate) safe fn weir_native_limiter_set_rate(limiter: &mut RawLimiter, now: u64, rate: u64);
        pub(crate) safe fn weir_native_limiter_set_burst(limiter: &mut RawLimiter, bytes: u32);
        pub(crate) safe fn weir_native_limiter_earliest(limiter: &mut RawLimiter, now: u64) -> u64;
        pub(crate) safe fn weir_native_limiter_departure(limiter: &mut RawLimiter, now: u64, bytes: u32) -> u64;
        pub(crate) safe fn weir_native_law_floor(capacity: u64) -> u64;
        pub(crate) safe fn weir_native_rate_law(
            rate: u64,
            capacity: u64,
            usage: u64,
            alpha: u32,
            marked: u32,
            floor: u64,
        ) -> u64;
        pub(crate) safe fn weir_native_law_marked_usage(
            usage: u64,
            capacity: u64,
            elapsed: u64,
            mark_bytes: u32,
            marked: u32,
        ) -> u64;
        pub(crate) safe fn weir_native_receive_meter_init(
            meter: &mut RawReceiveMeter,
            now: u64,
            law: &RawLaw,
            capacity: u64,
            feedback_bytes: u32,
            feedback_interval: u64,
            seed: u32,
        );
        pub(crate) safe fn weir_native_receive_meter_set_capacity(
            meter: &mut RawReceiveMeter,
            capacity: u64,
            shared: u32,
        );
        pub(crate) safe fn weir_native_receive_meter_set_interval(meter: &mut RawReceiveMeter, interval: u64);
        pub(crate) safe fn weir_native_receive_meter_packet(
            meter: &mut RawReceiveMeter,
            now: u64,
            bytes: u64,
            packets: u32,
            marked: u32,
        ) -> i32;
        pub(crate) safe fn weir_native_receive_meter_usage(meter: &RawReceiveMeter, now: u64) -> u64;
        pub(crate) safe fn weir_native_interface_meter_init(
            meter: &mut RawInterfaceMeter,
            now: u64,
            law: &RawLaw,
            capacity: u64,
            lightest: u32,
            total: u64,
            minima: u64,
            level: u64,
            weighs: u32,
        );
        pub(crate) safe fn weir_native_interface_meter_set_capacity(
            meter: &mut RawInterfaceMeter,
            capacity: u64,
            level: u64,
        );
        pub(crate) safe fn weir_native_interface_meter_packet(
            meter: &mut RawInterfaceMeter,
            now: u64,
            bytes: u64,
        ) -> i32;
        pub(crate) safe fn weir_native_interface_meter_reach(
            meter: &mut RawInterfaceMeter,
            service: &RawReceiveMeter,
            now: u64,
            bytes: u64,
            sharing: u32,
            min: u64,
            max: u64,
            weight: u32,
        );
        pub(crate) safe fn weir_native_receive_packet(
            interface: &mut RawInterfaceMeter,
            meter: &mut RawReceiveMeter,
            now: u64,
            bytes: u64,
            packets: u32,
            marked: u32,
            committed: u64,
        ) -> u32;
        pub(crate) safe fn weir_native_interface_meter_share(
            meter: &RawInterfaceMeter,
            sharing: u32,
            min: u64,
            max: u64,
            weight: u32,
        ) -> u64;
        pub(crate) safe fn weir_native_feedback_waits(answers: &mut RawAnswers, last: u64, bytes: u64) -> i32;
        pub(crate) safe fn weir_native_advertised_slot(
            source: &[u64; 2],
            destination: &[u64; 2],
            service: u32,
            places: u32,
        ) -> u32;
        pub(crate) safe fn weir_native_feedback_repeats(
            told: &mut RawTold,
            source: &[u64; 2],
            destination: &[u64; 2],
            service: u32,
            rate: u64,
            now: u64,
            keep: u64,
        ) -> i32;
        pub(crate) safe fn weir_native_feedback_due(answers: &mut RawAnswers, now: u64, bytes: u64) -> i32;
        pub(crate) safe fn weir_native_destination_init(
            destination: &mut RawDestination,
            now: u64,
            rules: &RawDestinationRules,
            rate: u64,
        );
        pub(crate) safe fn weir_native_destination_feedback(
            destination: &mut RawDestination,
            now: u64,
            rate: u64,
            weight: u32,
        ) -> i32;
        pub(crate) safe fn weir_native_destination_asks(destination: &mut RawDestination, now: u64) -> i32;
        pub(crate) safe fn weir_native_destination_silent(destination: &mut RawDestination, now: u64) -> i32;
        pub(crate) safe fn weir_native_pacing_pass(
            pacing: &RawPacing,
            limiter: &mut RawLimiter,
            now: u64,
            bytes: u32,
            departure: &mut u64,
        ) -> i32;
        pub(crate) safe fn weir_native_departure(
            sender: &mut RawSender,
            rules: &RawSending,
            pacing: &RawPacing,
            level: &RawInterfaceMeter,
            machine: &mut RawMachine,
            now: u64,
            bytes: u32,
            alone: u32,
            departure: &mut u64,
        ) -> u32;
        pub(crate) safe fn weir_native_cpu_batch_pass(batch: &mut RawBatch, due: u64, place: u32, bytes: u32) -> i32;
        pub(crate) safe fn weir_native_cpu_batch_end(batch: &mut RawBatch, due: u64, place: u32) -> i32;
        pub(crate) safe fn weir_native_lease_take(
            grant: &mut RawGrant,
            due: u64,
            bytes: u32,
            departure: &mut u64,
        ) -> i32;
        pub(crate) safe fn weir_native_departure_tick_time(
            sender: &RawSender,
            destination: Option<&RawLimiter>,
            unpaid: u32,
            grant: Option<&RawGrant>,
            pacing: &RawPacing,
            tick: u64,
            due: u64,
        ) -> u64;
        pub(crate) safe fn weir_native_depart(
            batch: &mut RawBatch,
            paid: Option<&mut RawLimiter>,
            destination: Option<&mut RawLimiter>,
            place: u32,
            grant: Option<&mut RawGrant>,
            sender: &mut RawSender,
            rules: &RawSending,
            pacing: &RawPacing,
            level: &RawInterfaceMeter,
            machine: &mut RawMachine,
            now: u64,
            due: u64,
            bytes: u32,
            departure: &mut u64,
        ) -> u32;
        pub(crate) safe fn weir_native_sending_tick(
            level: &mut RawInterfaceMeter,
            now: u64,
            bytes: u64,
            newcomer: u32,
            slack: u64,
        );
        pub(crate) safe fn weir_native_tick_take(arrivals: &mut RawArrivals, taken: &mut RawTaken);
        pub(crate) safe fn weir_native_tick_marks(
            interface: &mut RawInterfaceMeter,
            meter: &RawReceiveMeter,
            packets: u32,
            marked: u32,
            committed: u64,
        );
        pub(crate) safe fn weir_native_tick_interface(
            interface: &mut RawInterfaceMeter,
            now: u64,
            bytes: u64,
            slack: u64,
        ) -> i32;
        pub(crate) safe fn weir_native_tick_meter(
            interface: &mut RawInterfaceMeter,
            meter: &mut RawReceiveMeter,
            now: u64,
            bytes: u64,
            packets: u32,
            marked: u32,
            slack: u64,
        ) -> i32;
        pub(crate) safe fn weir_native_ecn_leave_ipv4(header: &mut [u8; 12], segments: u32, asks: i32) -> i32;
        pub(crate) safe fn weir_native_ecn_leave_ipv6(header: &mut [u8; 4], asks: i32) -> i32;
        pub(crate) safe fn weir_native_ecn_arrive_ipv4(header: &mut [u8; 12]) -> u32;
        pub(crate) safe fn weir_native_ecn_arrive_ipv6(header: &mut [u8; 4]) -> u32;
        /// `words` has `count` of them.
        pub(crate) fn weir_native_siphash(key: &RawSipKey, words: *const u64, count: u32) -> u64;
        pub(crate) safe fn weir_native_ecn_capability_write(
            body: &mut [u64; FEEDBACK_WORDS],
            feedback: &RawFeedback,
            source: &[u64; 2],
            destination: &[u64; 2],
            key: &RawSipKey,
        );
        pub(crate) safe fn weir_native_feedback_write(
            body: &mut [u64; FEEDBACK_WORDS],
            feedback: &RawFeedback,
            source: &[u64; 2],
            destination: &[u64; 2],
            key: &RawSipKey,
        );
        pub(crate) safe fn weir_native_control_kind(first: u64) -> i32;
        pub(crate) safe fn weir_native_feedback_read(
            body: &[u64; FEEDBACK_WORDS],
            source: &[u64; 2],
            destination: &[u64; 2],
            key: &RawSipKey,
            feedback: &mut RawFeedback,
        ) -> i32;
        pub(crate) safe fn weir_native_feedback_answered(
            feedback: &RawFeedback,
            answer: &Packet,
            answered: &mut Packet,
        );
        pub(crate) safe fn weir_native_feedback_newer(
            epoch: u64,
            sequence: u64,
            last_epoch: u64,
            last_sequence: u64,
        ) -> i32;
        pub(crate) safe fn weir_native_feedback_ipv4(headers: &mut [u8; 28], source: &[u64; 2], destination: &[u64; 2]);
        pub(crate) safe fn weir_native_feedback_ipv6(
            headers: &mut [u8; 48],
            source: &[u64; 2],
            destination: &[u64; 2],
            body: &[u64; FEEDBACK_WORDS],
        );
    }

    #[cfg(test)]
    unsafe extern "C" {
        pub(crate) static weir_layout_size: u32;
        pub(crate) static weir_layout: [u32; 203];
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
            offset_of!(Packet, network),
            offset_of!(Packet, source_port),
            offset_of!(Packet, destination_port),
            offset_of!(Packet, family),
            offset_of!(Packet, protocol),
            offset_of!(Packet, dscp),
            offset_of!(Packet, has),
            offset_of!(Packet, ecn),
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
            offset_of!(RawLimiter, rest_at),
            offset_of!(RawLimiter, kept),
            size_of::<RawGrant>(),
            offset_of!(RawGrant, left),
            offset_of!(RawGrant, due),
            offset_of!(RawGrant, end),
            offset_of!(RawGrant, last),
            offset_of!(RawGrant, charged_at),
            offset_of!(RawGrant, charged),
            offset_of!(RawGrant, step),
            size_of::<RawLaw>(),
            offset_of!(RawLaw, interval),
            offset_of!(RawLaw, alpha),
            offset_of!(RawLaw, catch_up),
            offset_of!(RawLaw, mark_bytes),
            offset_of!(RawLaw, marks),
            size_of::<RawWindow>(),
            offset_of!(RawWindow, opened_at),
            offset_of!(RawWindow, bytes),
            offset_of!(RawWindow, packets),
            offset_of!(RawWindow, marked),
            size_of::<RawAnswers>(),
            offset_of!(RawAnswers, interval),
            offset_of!(RawAnswers, sent_at),
            offset_of!(RawAnswers, unsent_bytes),
            offset_of!(RawAnswers, bytes),
            offset_of!(RawAnswers, draw),
            size_of::<RawReceiveMeter>(),
            offset_of!(RawReceiveMeter, law),
            offset_of!(RawReceiveMeter, window),
            offset_of!(RawReceiveMeter, capacity),
            offset_of!(RawReceiveMeter, rate),
            offset_of!(RawReceiveMeter, usage),
            offset_of!(RawReceiveMeter, packets),
            offset_of!(RawReceiveMeter, marked),
            offset_of!(RawReceiveMeter, drained),
            offset_of!(RawReceiveMeter, unqueued),
            offset_of!(RawReceiveMeter, beside),
            offset_of!(RawReceiveMeter, queued),
            offset_of!(RawReceiveMeter, shared),
            offset_of!(RawReceiveMeter, answers),
            size_of::<RawInterfaceMeter>(),
            offset_of!(RawInterfaceMeter, law),
            offset_of!(RawInterfaceMeter, window),
            offset_of!(RawInterfaceMeter, capacity),
            offset_of!(RawInterfaceMeter, rate),
            offset_of!(RawInterfaceMeter, usage),
            offset_of!(RawInterfaceMeter, received),
            offset_of!(RawInterfaceMeter, peak),
            offset_of!(RawInterfaceMeter, total),
            offset_of!(RawInterfaceMeter, minima),
            offset_of!(RawInterfaceMeter, level),
            offset_of!(RawInterfaceMeter, short_packets),
            offset_of!(RawInterfaceMeter, short_marked),
            offset_of!(RawInterfaceMeter, reach),
            offset_of!(RawInterfaceMeter, lightest),
            offset_of!(RawInterfaceMeter, weighs),
            offset_of!(RawInterfaceMeter, full),
            offset_of!(RawInterfaceMeter, settling),
            size_of::<RawArrivals>(),
            offset_of!(RawArrivals, bytes),
            offset_of!(RawArrivals, packets),
            offset_of!(RawArrivals, marked),
            offset_of!(RawArrivals, taken_bytes),
            offset_of!(RawArrivals, taken_packets),
            offset_of!(RawArrivals, taken_marked),
            size_of::<RawTaken>(),
            offset_of!(RawTaken, bytes),
            offset_of!(RawTaken, packets),
            offset_of!(RawTaken, marked),
            size_of::<RawSipKey>(),
            offset_of!(RawSipKey, first),
            offset_of!(RawSipKey, second),
            size_of::<RawFeedback>(),
            offset_of!(RawFeedback, rate),
            offset_of!(RawFeedback, epoch),
            offset_of!(RawFeedback, sequence),
            offset_of!(RawFeedback, service),
            offset_of!(RawFeedback, vni),
            offset_of!(RawFeedback, key),
            offset_of!(RawFeedback, source_port),
            offset_of!(RawFeedback, destination_port),
            offset_of!(RawFeedback, protocol),
            offset_of!(RawFeedback, dscp),
            offset_of!(RawFeedback, has),
            size_of::<RawDestinationRules>(),
            offset_of!(RawDestinationRules, hold),
            offset_of!(RawDestinationRules, silence),
            offset_of!(RawDestinationRules, burst_time),
            offset_of!(RawDestinationRules, halved_floor),
            offset_of!(RawDestinationRules, request_after),
            offset_of!(RawDestinationRules, burst),
            size_of::<RawDestination>(),
            offset_of!(RawDestination, limiter),
            offset_of!(RawDestination, rules),
            offset_of!(RawDestination, feedback_at),
            offset_of!(RawDestination, halved_at),
            offset_of!(RawDestination, changed_at),
            offset_of!(RawDestination, requested_at),
            offset_of!(RawDestination, changed),
            size_of::<RawPacing>(),
            offset_of!(RawPacing, rate),
            offset_of!(RawPacing, horizon),
            offset_of!(RawPacing, queue),
            offset_of!(RawPacing, burst),
            offset_of!(RawPacing, sharing),
            offset_of!(RawPacing, spread),
            size_of::<RawSending>(),
            offset_of!(RawSending, min),
            offset_of!(RawSending, max),
            offset_of!(RawSending, limit),
            offset_of!(RawSending, ceiling),
            offset_of!(RawSending, weight),
            offset_of!(RawSending, generation),
            size_of::<RawSender>(),
            offset_of!(RawSender, root),
            offset_of!(RawSender, committed),
            offset_of!(RawSender, grant),
            offset_of!(RawSender, level),
            offset_of!(RawSender, latest),
            offset_of!(RawSender, waited_at),
            offset_of!(RawSender, sent),
            offset_of!(RawSender, excess),
            offset_of!(RawSender, dropped),
            offset_of!(RawSender, generation),
            size_of::<RawMachine>(),
            offset_of!(RawMachine, limiter),
            offset_of!(RawMachine, committed),
            offset_of!(RawMachine, sent),
            offset_of!(RawMachine, newcomers),
            size_of::<RawBatch>(),
            offset_of!(RawBatch, due),
            offset_of!(RawBatch, room),
            offset_of!(RawBatch, unpaid),
            offset_of!(RawBatch, place),
            ENTITLED_PART as usize,
            BATCH_SPREAD as usize,
            NOWHERE as usize,
            LEAVES_ENTITLED as usize,
            LEAVES_SPARE as usize,
            LEAVES_NEVER as usize,
            LEAVES_NEWCOMER as usize,
            FEEDBACK_WORDS,
            usize::from(CONTROL_PORT),
            FEEDBACK_GOOD as usize,
            FEEDBACK_FOREIGN as usize,
            FEEDBACK_VERSION as usize,
            FEEDBACK_OTHER as usize,
            FEEDBACK_WORD as usize,
            FEEDBACK_HEARD as usize,
            RULES_MAX,
            STARTS,
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
            LAW_ONE as usize,
            INTERVAL_MIN as usize,
            SHARE_FILL as usize,
            SHARE_ADD as usize,
            RECEIVED_FEEDBACK as usize,
            RECEIVED_SHARES as usize,
            DESTINATION_DROP as usize,
        ]
        .map(|value| value as u32);
        // SAFETY: both are constants of native.c; the length is compared before the table is read.
        unsafe {
            assert_eq!(native::weir_layout_size as usize, rust.len(), "the two tables list the same things");
            assert_eq!(native::weir_layout, rust);
        }
    }
}
