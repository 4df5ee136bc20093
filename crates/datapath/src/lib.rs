//! What runs per packet: classify, meter, limit, and the machine shaper that feeds rates back.
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
//! | [`Meter`] | counts bytes and packets as the wire sees them | `meter.h`, `tunnel.h` |
//! | [`Limiter`] | packet → departure time | `limiter.h` |
//! | [`ReceiveMeter`] | a service's packets → the rate of its senders | `receive_meter.h`, `usage_window.h`, `rate_law.h` |
//! | [`InterfaceMeter`] | an interface's packets → its services' capacities | `interface_meter.h`, `receive_tick.h` |
//! | [`Answers`] | a service's packets → which are answered | `feedback_sampler.h` |
//! | [`Destination`] | feedback → the pace towards one destination | `destination.h` |
//! | [`Pacer`] | a service's packets → when each leaves a shared interface | `departure.h` |
//! | [`Feedback`] | a rate, told to the source of a packet | `feedback.h`, `siphash.h` |
//! | [`ecn`] | marks for packets that do not speak ECN | `ecn.h` |
//!
//! The shaper's constants, and EyeQ's, are in [`ShaperParameters`]; what a policy makes of them in [`ShaperConfig`].
//!
//! Worked example: a [`Limiter`] at 1 Gb/s lets 1,500 B packets that are offered at once leave at 0, 12 and
//! 24 µs.

mod answers;
mod classifier;
mod config;
mod departure;
mod destination;
pub mod ecn;
pub mod feedback;
mod interface_meter;
mod layout;
mod limiter;
mod meter;
mod parameters;
mod rate_law;
mod receive_meter;

pub use answers::{Answers, Told};
pub use classifier::{Classifier, ClassifierError, Fields, parse, starts};
pub use config::{ServiceShaper, ShaperConfig};
pub use departure::{Batch, Grant, Leaves, Pacer, PacingConfig, Towards};
pub use destination::{Destination, Verdict};
pub use feedback::{Address, FEEDBACK_BYTES, Feedback, SipKey};
pub use interface_meter::{InterfaceMeter, Received};
pub use layout::{
    CONTROL_PORT, FEEDBACK_HEARD, HAS_IP, HAS_PORTS, HAS_VNI, Packet, RULE_ADDRESS, RULE_DSCP, RULE_PORTS,
    RULE_PROTOCOL, RULE_VNI, RULES_MAX, RawAnswers, RawArrivals, RawBatch, RawDestination, RawDestinationRules,
    RawFeedback, RawGrant, RawInterfaceMeter, RawLaw, RawLimiter, RawMachine, RawMeter, RawPacing, RawReceiveMeter,
    RawSender, RawSending, RawSipKey, RawTaken, RawTold, RawWindow, Rule, STARTS, UNCLASSIFIED,
};
pub use limiter::Limiter;
pub use meter::{Meter, header_bytes, segments, wire_bytes};
pub use parameters::{Alpha, DestinationParameters, InterfaceParameters, Marks, ShaperParameters, Silence};
pub use rate_law::RateLaw;
pub use receive_meter::ReceiveMeter;
