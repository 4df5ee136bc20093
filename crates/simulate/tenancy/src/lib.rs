//! Datacenters filled with tenants, and what their queues give them, by flows and without packets.
//!
//! Problem: whether ports have queues for the tenants of a datacenter, and how much bandwidth a tenant gains from a
//! queue of its own, depends on thousands of tenants on thousands of links, which no packet simulation reaches.
//! Approach: tenants are drawn at random and placed by the product's own placement until the datacenter is full
//! ([`Datacenter::fill`]); its own binding gives them queues; from there on a tenant is a flow, and weighted queues
//! divide links exactly ([`share`]).
//!
//! | module | contents |
//! |---|---|
//! | [`requests`] | tenants at random |
//! | [`fill`] | a datacenter, filled |
//! | [`contention`] | tenants per port, tenants with queues, DSCP values |
//! | [`share`] | a link divided among queues by weight |
//! | [`gain`] | bandwidth of tenants over their guarantees; the use of links |
//! | [`max_min`] | the same where no tenant can gain without one with less losing |
//! | [`quantity`] | the numbers of a filled datacenter, by name |
//!
//! Example: two tenants with queues of their own reserve 1 and 4 Gb/s of a link of 10 Gb/s. With both active, both have
//! twice what they reserved; with the second idle, the first has ten times as much.
//!
//! Source: QShare §VII-C.

pub mod contention;
pub mod fill;
pub mod gain;
pub mod max_min;
pub mod quantity;
pub mod requests;
pub mod share;

pub use fill::{Datacenter, Filled, Filling};
pub use gain::{Activity, Condition, Dividing};
pub use quantity::Quantity;
pub use requests::{DrawnPer, Requests};
