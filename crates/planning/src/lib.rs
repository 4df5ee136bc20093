//! The queue that a service's messages are planned for, and the bound on their completion time.
//!
//! Problem: `weir plan` and whoever shows a running network must mean the same queue when they speak of a service's
//! `latency:`. Approach: what a policy alone says about that queue is here; `weir plan` adds what its command line says.
//!
//! | module | says |
//! |---|---|
//! | [`points`](mod@points) | where messages contend, and how full the caps let each place become |
//! | [`queue`] | one queue for each service: the slowest capacity, the fullest load, the burst |
//! | [`bound`] | the burst bound of every service with a latency target |
//!
//! Worked example: 10 Gb/s of an interface at a load of at most a half, 200 µs × 15 until senders have converged: a
//! message of 200 kB is there within (3 + 0.16) / 0.5 = 6.32 ms.
//!
//! Source: Parley §4.

pub mod bound;
pub mod points;
pub mod queue;

pub use bound::{LatencyBound, latency_bounds};
pub use points::{Held, Point, in_rows, points};
