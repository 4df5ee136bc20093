//! Network calculus: the worst delay of traffic with bounded bursts at ports that serve strict priorities.
//!
//! Problem: hosts limit each latency level to `σ + ρt` bytes in any time `t`, and an operator needs the delay that no
//! frame of the level exceeds, and the buffer that its queues need, on the network as it is.
//!
//! | module | computes |
//! |---|---|
//! | [`port`] | delay and backlog at one port, from the bursts and rates of the levels there |
//! | [`routes`] | the ports of a network that differ, and the traffic that reaches each of them |
//! | [`network`] | delay and backlog at each port of a network, and the delay of whole paths |
//!
//! Everything is in integers, rounded to the safe side: times up to a nanosecond, bursts up to a byte.
//!
//! Worked example: `docs/design/levels.md`.
//!
//! Source: Cruz, A calculus for network delay, part I and II, 1991; Le Boudec and Thiran, Network Calculus, 2001,
//! §1.4 (output bounds) and §6.2 (strict priority). QJump's slides have one port and one level.

pub mod network;
pub mod port;
pub mod routes;

pub use network::{LevelTraffic, NetworkBound, NetworkTraffic, bounds};
pub use port::{Aggregate, PortBound, port_bounds};
pub use routes::{Cycle, PortClass, PortKind, Routes, SenderMask};
