//! The per-packet code: classification, metering, rate limiting, and the machine shaper that feeds rates back.
//!
//! The code is C headers (`datapath/*.h`), integer arithmetic and constant work per packet,
//! compiled by clang into the kernel's BPF programs and by `cc` into this crate, so the simulator
//! runs what production runs. [`abi`] is generated from the headers; the modules wrap it. The tests
//! compare the code with plain Rust models that share nothing with it, and `weir-linux` compares it
//! with the kernel's results, packet for packet.
//!
//! | type | computes | header |
//! |---|---|---|
//! | [`Classifier`] | frame or fields → service | `packet.h`, `rule.h`, `rule_index.h`, `classify.h` |
//! | [`Meter`] | bytes and packets on the wire | `meter.h`, `tunnel.h` |
//! | [`Limiter`] | packet → departure time | `limiter.h` |
//! | [`LevelRegulator`] | packet of a latency level → departure time | `level.h` |
//! | [`ReceiveMeter`] | a service's packets → the rate of its senders | `receive_meter.h`, `rate_law.h` |
//! | [`InterfaceMeter`] | an interface's packets → its services' capacities | `interface_meter.h`, `receive_tick.h` |
//! | [`Policer`] | packets of senders that ignore feedback → pass, mark or drop | `policer.h`, `receive_tick.h` |
//! | [`FeedbackSampler`] | a service's packets → those that trigger feedback | `feedback_sampler.h` |
//! | [`Destination`] | feedback → the pace to one destination | `destination.h` |
//! | [`Pacer`] | a service's packets → their departures from a shared interface | `departure.h`, `lease.h` |
//! | [`Host`] | packets, feedback, ticks → departures, verdicts, rates of one host | `host/host.h` |
//! | [`Hosts`] | packets of many hosts → departures, verdicts, feedback | all of the above, in the programs' order |
//! | [`PortQueues`] | a switch port's packets → lengths of its queues | `port_queues.h` |
//! | [`CreditPort`] | PACE: allocations → credits for which a port has room; data → late or not | `credit.h` |
//! | [`CreditGate`] | PACE: frames → departures within the sender's credits | `credit_gate.h` |
//! | [`credit_message`] | PACE: datagrams of hosts, which forwarders rewrite | `credit_message.h`, `siphash.h` |
//! | [`Feedback`] | a rate, advertised to the source of a packet | `feedback.h`, `siphash.h` |
//! | [`ecn`] | ECN encapsulation of packets that are Not-ECT | `ecn.h` |
//!
//! The shaper's constants, and EyeQ's, are in [`weir_shaping::ShaperParameters`];
//! [`weir_shaping::ShaperConfig`] derives a policy's shapers from them.
//!
//! Worked example: a [`Limiter`] at 1 Gb/s lets 1,500 B packets that are offered at once leave at 0, 12 and
//! 24 µs.

pub mod abi;
mod classifier;
mod credit;
mod credit_gate;
pub mod credit_message;
mod credit_online;
mod departure;
mod destination;
pub mod ecn;
mod enforceable;
pub mod feedback;
mod feedback_sampler;
mod host;
mod hosts;
mod interface_meter;
mod level;
mod limiter;
mod meter;
mod parameters;
mod policer;
mod port_queues;
mod rate_law;
mod receive_meter;
mod rule_index;

pub use abi::{CONTROL_PORT, CreditCounters};
pub use classifier::{
    CGROUP_GLOBS_MAX, COMPARISONS_MAX, Classifier, ClassifierError, Fields, GUEST_GLOBS, GuestGlob, RULES_MAX, parse,
};
pub use credit::{CreditFlow, CreditPort, CreditPortSettings};
pub use credit_gate::CreditGate;
pub use departure::{CpuBatch, Lease, Leaves, Pacer, PacingConfig, Towards};
pub use destination::{Destination, Verdict};
pub use enforceable::{Unenforceable, fits, fits_forwarders, refusal_anywhere};
pub use feedback::{Address, FEEDBACK_BYTES, Feedback, SipKey};
pub use feedback_sampler::{Advertised, FeedbackSampler};
pub use host::{Departs, Host, HostTables, Sent};
pub use hosts::{Arrival, Hosts, Peer, Reception};
pub use interface_meter::InterfaceMeter;
pub use level::{LEVEL_QUEUE, LevelRegulator, level_rules};
pub use limiter::Limiter;
pub use meter::{Meter, header_bytes, segments, wire_bytes};
pub use parameters::{destination_rules, receive_law};
pub use policer::{PoliceVerdict, Policer};
pub use port_queues::PortQueues;
pub use rate_law::RateLaw;
pub use receive_meter::ReceiveMeter;
