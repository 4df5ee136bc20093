//! Virtual machines of tenants onto machines, with bandwidth reserved on every link between them.
//!
//! Problem: a tenant's guarantee holds only where every link between its virtual machines has room for it, and a switch
//! distinguishes few tenants, so a placement should use little bandwidth and spread tenants over links. Approach: each
//! tenant is confined to one tree of the network ([`Fabric`]), a [`Ledger`] has the free bandwidth and slots, and
//! [`Placer`] places tenants one by one, as they arrive, by QShare's search ([`Weighing`]) or by one that it was
//! compared with ([`Strategy`]).
//!
//! | module | contents |
//! |---|---|
//! | [`hose`](Hose) | what a tenant needs of a link |
//! | [`fabric`](Fabric) | the trees of a network |
//! | [`ledger`](Ledger) | free bandwidth and slots |
//! | `tree` | one tree as one tenant finds it |
//! | `fill` | a tenant's virtual machines onto the machines of a tree |
//! | `room` | what a policy leaves to tenants |
//! | `possible` | whether any place of a tenant exists |
//! | [`arrivals`](fn@arrivals) | the order of tenants that are placed at once |
//! | [`search`](Weighing) | QShare: the cheapest tree of the lowest layer |
//! | [`file`] | places that are kept |
//! | [`routes`](Routes) | the routes that confine a tenant to its tree |
//! | `spread` | tenants without trees, reserved on all equal paths |
//! | `first_fit`, `oktopus` | the baselines |
//!
//! Example: two machines with four slots each on one switch, links of 1 Gb/s. A tenant of five virtual machines of 300
//! Mb/s puts four on the first machine and one on the second, which needs 300 Mb/s of both links; another of five finds
//! no slots.
//!
//! ```
//! use weir_network::Network;
//! # use weir_network::{Graph, graph::*, topology::*};
//! use weir_placement::{Fabric, Hose, Ledger, Placer, Shortage, Strategy};
//! use weir_units::{Bandwidth, Duration};
//! # use std::sync::Arc;
//! # let link = LinkSpec { rate: Bandwidth::from_gbps(1), delay: Duration::ZERO, queue: QueueSpec::default() };
//! # let common =
//! #     Common { routing: Routing::Ecmp, packets: Packets::default(), shared_buffer: None, jitter: Duration::ZERO };
//! let graph = Topology::Star(Star { hosts: 2, host_link: link }).build(common);
//! let fabric = Arc::new(Fabric::new(&graph));
//! let ledger = Ledger::new(&fabric, &fabric.rates(&graph), vec![4, 4]);
//! let mut placer = Placer::new(fabric, ledger, Strategy::default(), 8);
//! let tenant = Hose::uniform(5, Bandwidth::from_mbps(300));
//! let placed = placer.arrive("red", tenant.clone())?;
//! assert_eq!(placed.fit.parts.iter().map(|part| part.vms[0]).collect::<Vec<_>>(), [4, 1]);
//! assert_eq!(placed.fit.reservations.len(), 2);
//! assert_eq!(placer.arrive("blue", tenant).unwrap_err(), Shortage::Slots { missing: 2 });
//! # Ok::<(), Shortage>(())
//! ```
//!
//! Source: QShare §IV.

mod arrivals;
mod fabric;
pub mod file;
mod fill;
mod first_fit;
mod hose;
mod ledger;
mod oktopus;
mod placer;
mod possible;
mod room;
mod routes;
mod search;
mod spread;
mod tree;

pub use arrivals::arrivals;
pub use fabric::{CableId, CableKind, Fabric, Root, SwitchId};
pub use fill::{Fit, Part};
pub use hose::{Group, Hose};
pub use ledger::Ledger;
pub use placer::{Placer, Shortage, Strategy, TenantPlace};
pub use possible::EXAMINED_MAX;
pub use room::{CableRoom, of_services, rooms};
pub use routes::{Route, Routes};
pub use search::{SurveyLayer, Weighing};
