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
//!
//! [`rack_broker`] runs on every machine, [`fabric_broker`] once for all racks.

pub mod demand;
pub mod fabric_broker;
pub mod fabric_message;
pub mod parts;
mod policy_update;
pub mod rack_broker;
pub mod rate;
pub mod report;

pub use fabric_broker::{FabricBroker, FabricBrokerConfig, FabricBrokerCounters, FabricInput, FabricOutput};
pub use fabric_message::{LimitsRelay, RackLimits, RackReport, RateRow};
pub use policy_update::IncompatiblePolicy;
pub use rack_broker::{
    Input, MeterReading, Mode, NetworkReading, Output, RackBroker, RackBrokerConfig, RackBrokerCounters, RuntimeLimit,
    Stale,
};
pub use report::{Demand, UsageReport, UsageRow};
