//! Completion times: the time for a capacity and a load, and the capacity or load for a target.
//!
//! Problem: an operator writes `latency: { message: 1MB, p99: 20ms }` and Weir controls two values,
//! the bandwidth of a service and the peak load on it. Approach: formulas that convert one to the
//! other, in both directions.
//!
//! | module | result | assumption |
//! |---|---|---|
//! | [`mm1`] | a quantile of the completion time | Poisson arrivals, exponential sizes, one FIFO queue |
//! | [`burst_bound`] | the worst completion time | arrivals within a burst and a load, a work-conserving queue |
//! | [`trace`](mod@trace) | a quantile of the completion times in a trace | arrivals as measured, one FIFO queue |
//!
//! A worst case of a few packets beside any other traffic is the subject of latency levels: [`calculus`] has the bounds
//! of a network, [`levels`] those of a policy.
//!
//! [`plan`] derives capacity, load and burst of a service's messages from a policy.
//!
//! All three count queues that lose nothing. [`BurstBound::buffer`] is the buffer for which the bound's
//! assumption holds, and [`retransmission`] what a loss adds otherwise.
//!
//! The formulas have the same shape: a time at an idle queue, multiplied by `1/(1 − ρ)` for the
//! load `ρ`. So all have the same four methods, and the results agree exactly. Each varies one of capacity and load and
//! holds the rest that it is given:
//!
//! | method | given | gives |
//! |---|---|---|
//! | `completion_time` | capacity, load | the time, rounded up to a nanosecond |
//! | `largest_load` | capacity, target | the highest load whose time is within the target |
//! | `smallest_capacity_at` | load, a part of it; target | the lowest capacity whose time is within the target |
//! | `smallest_capacity_for` | traffic, in bit/s; target | the same, for a load of traffic / capacity |
//!
//! Everything is computed in integers, so that the results are the same on every host; only the
//! logarithm of a [`Quantile`] goes through a float, and is rounded up.
//!
//! Worked example, the target above at 10 Gb/s:
//!
//! ```
//! use weir_latency::{Burst, BurstBound, Mm1};
//! use weir_units::{Bandwidth, Bytes, Duration, Load, Quantile};
//!
//! let (capacity, target) = (Bandwidth::from_gbps(10), Duration::from_millis(20));
//! let typical = Mm1::new(Bytes::new(1_000_000), Quantile::P99)?;
//! assert_eq!(typical.completion_time(capacity, Load::from_fraction(0.8)?)?.to_string(), "18.420681 ms");
//! assert_eq!(typical.largest_load(capacity, target)?.to_string(), "81.5793192 %");
//!
//! let burst = Burst::from_convergence(Duration::from_micros(15 * 500));
//! let worst = BurstBound { burst, message: Bytes::new(1_000_000) };
//! assert_eq!(worst.largest_load(capacity, target)?.to_string(), "58.5 %");
//! # Ok::<(), weir_latency::LatencyError>(())
//! ```
//!
//! Source: Parley §2.1 (the M/M/1 queue) and §4 (the bound).

pub mod burst_bound;
pub mod calculus;
mod error;
mod idle_time;
pub mod levels;
pub mod mm1;
pub mod plan;
pub mod retransmission;
pub mod trace;

pub use burst_bound::{Burst, BurstBound};
pub use error::LatencyError;
pub use mm1::Mm1;
pub use trace::{Tag, Trace, TraceError, TraceQueue};
