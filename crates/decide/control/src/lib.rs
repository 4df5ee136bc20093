//! The brokers: sans-IO state machines that compute limits and leave every action to a driver.
//!
//! The crate reads no clock, opens no socket, starts no thread and takes no lock. A driver (the
//! simulator, the agent, a test) passes in time and inputs and carries out the outputs. Every state
//! machine has the same three kinds of methods, called in this order:
//!
//! 1. `handle_input(now, input)`: an event. Never blocks, never fails; rejected input is counted.
//! 2. `poll_output() -> Option<Output>`: the resulting actions, until `None`.
//! 3. `poll_timeout() -> Option<Instant>`: the time of the next `handle_input(now,
//!    Input::Timeout)`. Pure; an early timeout is a no-op.
//!
//! [`rack_broker`] runs on every machine, [`fabric_broker`] once for all racks.

pub mod demand;
pub mod epoch;
pub mod fabric_broker;
pub mod fabric_message;
pub mod parts;
mod policy_update;
pub mod rack_broker;
pub mod rate;
pub mod report;
pub mod wire;

pub use epoch::{EpochNotice, LARGEST_CLAIM};
pub use fabric_broker::{FabricBroker, FabricBrokerConfig, FabricBrokerCounters, FabricInput, FabricOutput};
pub use fabric_message::{LimitsRelay, RackLimits, RackReport, RateRow, ShutOutNotice};
pub use policy_update::IncompatiblePolicy;
pub use rack_broker::{
    INTERVALS, Input, LimitRule, MeterReading, Mode, NetworkReading, Output, RackBroker, RackBrokerConfig,
    RackBrokerCounters, Reach, RuntimeLimit, Stale, static_limits,
};
pub use report::{Demand, UsageReport, UsageRow};
