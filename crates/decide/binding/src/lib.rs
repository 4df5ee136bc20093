//! Queues of switches bound to tenants, anew in every control interval.
//!
//! Problem: a switch guarantees a tenant its part of a link, and lets it use what others leave, if the tenant has a
//! weighted queue of its own; a port has eight queues and may have more tenants. Approach: tenants that use their
//! guarantees in full have queues of their own, all others share one ([`Queues`], by [`score()`]); each queue's
//! weight is what is reserved in it ([`weights()`]); switches classify packets by their DSCP value ([`Values`]).
//!
//! | module | contents |
//! |---|---|
//! | [`site`](Sites) | the ports and machines of tenants |
//! | [`placed`](Ports) | the same, of a placement |
//! | [`score()`] | the need for a queue, by usage and payment |
//! | [`queues`](Queues) | the tenants of queues |
//! | [`weights()`] | weights as integers of a switch's range |
//! | [`binder`] | tenants brought into their queues, step by step |
//! | [`dscp`](Values) | values that distinguish tenants with queues |
//!
//! Source: QShare §V.

pub mod binder;
mod dscp;
mod placed;
mod queues;
mod score;
mod site;
mod weights;

pub use dscp::Values;
pub use placed::Ports;
pub use queues::{Map, QueueIndex, Queues};
pub use score::{Score, score};
pub use site::{Port, PortId, Site, Sites};
pub use weights::{Weights, weights};
pub use weir_placement::SwitchId;
