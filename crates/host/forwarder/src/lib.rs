//! The daemon of a Linux switch whose ports grant credits (PACE).
//!
//! Problem: each port reduces allocations per packet, in the kernel, by shares that depend on all of its flows.
//! Approach: once in each period of a port the daemon reads the flows' last allocations, computes the shares
//! ([`weir_credits::port_shares`]), and publishes them. The programs and maps of a port outlive the daemon
//! ([`weir_linux::forwarder`]); while none runs, ports grant by the last shares.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | what a policy needs of a forwarder's ports, or why it cannot have them |
//! | [`port`] | one port: its start, its rounds, new rules, its status |
//!
//! Order of calls: [`Plan::of`], [`Plan::port`] and [`Port::open`] for each interface, [`Opened::start`] once all are
//! open, [`Port::round`] when it is due, [`Port::renew`] for another policy, and [`Port::remove`] at the end, unless
//! the next daemon is to adopt the port.
//! Act from a thread in the switch's network namespace.
//!
//! Worked example: 1 Gb/s, p-min 1 ms: a port with 64 flows selects p = 1.56 ms, so its shares are computed 640 times a
//! second.
//!
//! Source: PACE (Carvalho et al. 2013) §III.E; docs/design/credits.md.

pub mod plan;
pub mod port;

pub use plan::{Plan, PlanError, PortRules};
pub use port::{Opened, Port};
