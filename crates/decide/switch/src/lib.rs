//! The configuration of switch ports: what a policy needs of them, the difference to what is there, and its
//! application.
//!
//! Problem: switches differ in how they are configured (netlink, a database, RPCs), in what they can do, and in
//! whether they acknowledge a change; and a port must forward while it is changed. Approach: one model of a port, pure
//! decisions over it, and one trait ([`Driver`]) that a kind of switch implements with two operations, read and write.
//!
//! | module | contents |
//! |---|---|
//! | [`port`] | a port's queues, scheduler, DSCP map, ECN thresholds, buffers, rate |
//! | [`change`] | the steps from one configuration to another, in a safe order |
//! | [`capabilities`] | what a driver can do, checked before anything changes |
//! | [`driver`] | the trait |
//! | [`drain`] | the time after which a queue has sent what it held |
//! | [`apply`](mod@apply) | steps with read-back and rollback |
//! | [`policy`] | what a policy needs of ports |
//! | [`request`] | the lowering of what a policy needs to a port's configuration |
//! | [`ports`] | the ports of a network's switch, and which interface is which |
//! | [`tenants`] | weights and DSCP values of tenants' queues |
//! | [`simulated`] | the simulator's ports, as a driver |
//!
//! `weir_linux::port` has the driver for Linux switches (`tc`), `weir_sonic` the one for SONiC. The crate reads no
//! clock and compiles no C.
//!
//! Worked example: `apply(&mut driver, &desired)` on a port without configuration writes three stages: the rate and the
//! queues; the DSCP map; nothing to remove. A weight that changes later is one step of the first stage.

pub mod apply;
pub mod capabilities;
pub mod change;
pub mod drain;
pub mod driver;
pub mod policy;
pub mod port;
pub mod ports;
pub mod request;
pub mod simulated;
pub mod tenants;

pub use apply::{ApplyError, Rollback, apply, remove};
pub use capabilities::{Capabilities, Map, RateSetting, Refusal, Setting};
pub use change::{Change, Field, Position, Stage, Step, diff, port_changes};
pub use drain::{DrainLimits, Drains};
pub use driver::{Driver, QueueReading, ReadQueues, WriteError};
pub use policy::PolicyNeeds;
pub use port::{
    DSCPS, DscpMap, DscpSet, FieldError, PortConfig, PortState, QUEUES_MAX, QueueConfig, Schedule, SwitchState,
};
pub use request::{CreditClasses, Group, Needs, Request};
pub use weir_network::switches::{Offer, Scheduler};
