//! The Linux body: what Weir does to a real host.
//!
//! Problem: enforce and measure services on a production interface, with whatever the kernel offers, and
//! leave the host as it was found. Approach: BPF programs classify and count every packet and choose its HTB
//! class; netlink sets the classes' numbers; everything is removed on the way out, and what a killed agent left
//! is taken over.
//!
//! | module | does |
//! |---|---|
//! | [`loader`] | BPF programs and maps of an interface: rules in, meters out |
//! | [`shaper`] | which backend works here; rates by service |
//! | [`htb`], [`class`] | the HTB tree, and one class's numbers |
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

pub mod class;
pub mod htb;
pub mod interface;
pub mod loader;
pub mod netlink;
pub mod netns;
pub mod requirements;
pub mod shaper;
mod tables;
pub mod tc;

pub use tables::SERVICES_MAX;
