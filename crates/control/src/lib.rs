//! The brokers: state machines that decide and never act.
//!
//! Nothing here reads a clock, opens a socket, starts a thread or takes a lock. A driver (the simulator, the
//! agent, a test) hands in time and inputs and carries out the outputs. Every machine has the same three
//! kinds of methods, called in this order:
//!
//! 1. `handle_input(now, input)`: something happened. Never blocks, never fails; what it cannot use it counts.
//! 2. `poll_output() -> Option<Output>`: what to do about it, until `None`.
//! 3. `poll_timeout() -> Option<Instant>`: when to call `handle_input(now, Input::Timeout)` next. Pure; calling
//!    too early is a no-op.

pub mod demand;
pub mod rack_broker;
pub mod report;

pub use rack_broker::{
    Input, MeterReading, Mode, Output, RackBroker, RackBrokerConfig, RackBrokerCounters, RuntimeLimit, Stale,
};
pub use report::{Demand, UsageReport, UsageRow};
