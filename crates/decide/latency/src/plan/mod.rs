//! The queue model of a service's messages, and the bound on their completion time.
//!
//! Problem: `weir plan` and the displays of a running network must use the same queue model for a
//! service's `latency:`. Approach: this module derives the model from the policy. `weir plan` adds
//! the options of its command line.
//!
//! | module | computes |
//! |---|---|
//! | [`points`](mod@points) | contention points, capacities, peak loads under the caps |
//! | [`queue`] | one queue per service: the lowest capacity, the highest load, the burst |
//! | [`buffers`] | the buffers that the bound needs at the ports of switches |
//! | [`overload`] | traffic at uplinks and machines' ports that no σ covers |
//! | [`limiter`] | limiters at hosts at which messages may wait |
//! | [`classified`] | whether every packet belongs to a service |
//! | [`bound`] | the burst bound of every service with a latency target, and its verdict |
//!
//! Worked example: an interface of 10 Gb/s at a load of at most 50 %, and 15 intervals of 200 µs
//! until senders have converged. A message of 200 kB completes within (3 + 0.16) / 0.5 = 6.32 ms, if
//! each port of 10 Gb/s can queue 3.95 MB, no other service can overload it, and no limiter delays
//! the message.
//!
//! Source: Parley §4.

pub mod bound;
pub mod buffers;
pub mod classified;
pub mod limiter;
pub mod overload;
pub mod points;
pub mod queue;

pub use bound::{Gap, LatencyBound, Verdict, gaps, latency_bounds};
pub use buffers::{PortNeed, port_needs};
pub use classified::every_packet_has_a_service;
pub use limiter::{Limiter, limiters, maxima};
pub use overload::{Excess, Overload, overloads};
pub use points::{Bound, Point, in_rows, points, points_of};
