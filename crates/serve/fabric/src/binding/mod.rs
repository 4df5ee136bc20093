//! Tenants' queues over the network: the controller beside the fabric broker, and its subscribers.
//!
//! Problem: the binder ([`weir_binding::binder`]) decides and performs no I/O; machines and switches are far away, may
//! be slow, and may restart. Approach: the leading fabric broker has the binder. Every machine with tenants and every
//! switch holds a stream to it, over the mutual TLS of rack leaders, so nothing listens at machines and switches. Each
//! message with settings has all settings of its receiver and a version, so repeated messages change nothing.
//!
//! | module | does |
//! |---|---|
//! | `controller` | the binder with its subscribers, by name |
//! | `placement` | the tenants' places, from the file of `weir place` |
//! | `store` | the binder's state, stored before settings are sent: in etcd, or |
//! | `journal` | in a file of a single fabric broker |
//! | `history` | the counters and times of a leadership, over reloads of the policy |
//! | `report` | the tenants and their queues, for watchers |
//! | `timing` | how long moves take |
//! | `service` | the controller's side of a stream |
//! | [`subscriber`] | the side of a machine or a switch |
//!
//! Source: QShare §VI (a controller that collects usage and configures switches and hypervisors).

mod controller;
mod history;
mod journal;
mod placement;
mod report;
mod service;
mod store;
pub mod subscriber;
mod timing;

#[cfg(test)]
#[path = "../../tests/support/two_tenants.rs"]
pub(crate) mod two_tenants;

pub(crate) use controller::{Continuation, Controller, Unbound};
pub(crate) use placement::Places;
pub(crate) use service::{BindingService, Refusal, SubscriberEvent};
pub(crate) use store::Store;
pub use subscriber::{FromController, Subscriber, SubscriberConfig, SubscriberState, ToController};
