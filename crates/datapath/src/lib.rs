//! What runs per packet: classify, meter, limit.
//!
//! Problem: the simulator must run the very code that runs in production, and production runs it inside the
//! kernel. Approach: the code is C headers (`datapath/*.h`), integer arithmetic and constant work per packet,
//! compiled by clang into the kernel's BPF programs and by `cc` into this crate, which wraps it safely. The
//! tests compare it with plain Rust models that share no code with it, and `weir-linux` compares it with
//! what the kernel computes, packet for packet.
//!
//! | type | does | header |
//! |---|---|---|
//! | [`Classifier`] | frame or fields → service | `packet.h`, `classify.h` |
//! | [`Meter`] | counts bytes and packets as the wire sees them | `meter.h` |
//! | [`Limiter`] | packet → departure time | `limiter.h` |
//!
//! Worked example: a [`Limiter`] at 1 Gb/s lets 1,500 B packets that are offered at once leave at 0, 12 and
//! 24 µs.

mod classifier;
mod layout;
mod limiter;
mod meter;

pub use classifier::{Classifier, ClassifierError, Fields, parse};
pub use layout::{
    HAS_IP, HAS_PORTS, HAS_VNI, Packet, RULE_ADDRESS, RULE_DSCP, RULE_PORTS, RULE_PROTOCOL, RULE_VNI, RULES_MAX,
    RawLimiter, RawMeter, Rule, UNCLASSIFIED,
};
pub use limiter::Limiter;
pub use meter::{Meter, segments, wire_bytes};
