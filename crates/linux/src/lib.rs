//! The Linux body: what Weir does to a real host.
//!
//! Problem: enforce and measure services on a production interface, with whatever the kernel offers, and
//! leave the host as it was found. Approach: BPF programs classify and count every packet and choose when it
//! leaves, or its HTB class; netlink sets the classes' numbers; everything is removed on the way out, and what a killed agent left
//! is taken over.
//!
//! | module | does |
//! |---|---|
//! | [`loader`] | BPF programs of an interface: loaded, attached, adopted |
//! | [`attachment`] | how a program hangs on an interface, and takes another's place |
//! | [`settings`] | what they are told: rules, shares, limits, keys |
//! | [`readings`] | what they counted and computed |
//! | [`pins`] | where all this lives without a process |
//! | [`shaper`] | which backend works here; rates by service |
//! | [`htb_shaper`], [`htb`], [`class`] | services and destinations as HTB classes; the tree; one class's numbers |
//! | [`edt_shaper`], [`fq`] | services and destinations by departure times; the qdisc that obeys them |
//! | [`dropped`] | drops of classes that come and go |
//! | [`destinations`] | what receivers said, and the classes that hold to it |
//! | [`tc`], [`netlink`] | qdiscs as found; messages to the kernel |
//! | [`interface`] | index, MTU, offloads |
//! | [`netns`] | namespaces for the lab |
//! | [`requirements`] | what the host lacks and how to get it |
//!
//! Worked example: `InterfaceDatapath::attach(&eth0, None)?` then `set_rules(&classifier, Classes::Htb)?`, beside
//! `HtbShaper::install(&eth0, nic, &rates, Sending::over(&eth0)?, false)?`: every service is held to its rate, and
//! `totals(Some(service))?` tells what it sent.
//!
//! Everything here acts in the network namespace of the calling thread.

pub mod attachment;
pub mod class;
pub mod destinations;
pub mod dropped;
mod edt_probe;
pub mod edt_shaper;
pub mod fq;
pub mod htb;
pub mod htb_shaper;
pub mod interface;
pub mod loader;
mod maps;
pub mod netlink;
pub mod netns;
pub mod pins;
pub mod readings;
pub mod requirements;
pub mod settings;
pub mod shaper;
mod slots;
mod tables;
pub mod tc;

pub use tables::{DESTINATIONS_MAX, KEYS_MAX, SERVICES_MAX};
