//! The policy file: what an operator writes, read into a [`Policy`] that is valid by type.

mod model;

pub use model::{
    Caps, LatencyTarget, Machine, Match, Network, Policy, Protocol, QosLevel, Rack, Service, Services, Share, Sharing,
    Tenant,
};
