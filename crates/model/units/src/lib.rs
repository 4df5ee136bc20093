//! Quantities with units.
//!
//! Every rate, size, time, weight and id in Weir has its own type: an integer, parsed and printed
//! in common notation (`6 Gb/s`, `80 kB`, `200 µs`). A plain number is never a quantity, so a bit
//! cannot be added to a byte, and a second cannot be compared with a millisecond.
//!
//! | type | inside | range |
//! |---|---|---|
//! | [`Bandwidth`] | bit/s, `u64` | 0 to 1 Eb/s, and [`Bandwidth::UNLIMITED`] |
//! | [`Bytes`] | bytes, `u64` | 0 to 2^64 − 1 |
//! | [`Duration`], [`Instant`] | nanoseconds, `u64` | 584 years |
//! | [`SimTime`] | picoseconds, `u64` | 213 days |
//! | [`Weight`] | thousandths, `u32` | 0.001 to 1,000,000 |
//! | [`Load`], [`Quantile`] | billionths, `u32` | above 0, below 1 |
//!
//! Worked example: `"12.5GB/s".parse::<Bandwidth>()` is 100 Gb/s, since `B` stands for bytes.

mod aliases;
mod bandwidth;
mod bytes;
mod decimal;
pub mod digits;
mod fraction;
mod ids;
mod sim_time;
mod time;
mod weight;

pub use bandwidth::Bandwidth;
pub use bytes::Bytes;
pub use decimal::QuantityError;
pub use fraction::{BILLION, FractionError, Load, Quantile};
pub use ids::{ContentionPoint, Direction, MachineId, PerDirection, PerPoint, RackId, ServiceId, TenantId};
pub use sim_time::SimTime;
pub use time::{Duration, Instant};
pub use weight::Weight;
