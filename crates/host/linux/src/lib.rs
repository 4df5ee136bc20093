//! The Linux backend: enforcement and measurement on a real host.
//!
//! BPF programs classify and count every packet of an interface and set its departure time or its
//! HTB class; netlink sets the parameters of the classes. A regular end restores the host's
//! configuration; after a kill the next agent adopts the programs and maps.
//!
//! | module | does |
//! |---|---|
//! | [`loader`] | BPF programs of an interface: loaded, attached, adopted |
//! | [`attachment`] | attaching a program to an interface and replacing another |
//! | [`settings`] | their configuration: rules, shares, limits, keys |
//! | [`readings`] | their counters and meters |
//! | [`pins`] | pinned maps and links, which outlive a process |
//! | [`locks`] | locks of agents, and whether a process has one |
//! | [`shaper`] | choice of the enforcement mechanism; rates by service |
//! | [`htb_shaper`], [`htb`], [`class`] | services and destinations as HTB classes; the tree; one class's numbers |
//! | [`edt_shaper`], [`fq`] | services and destinations by departure times; the qdisc that applies them |
//! | [`dropped`] | drops of classes that are created and deleted |
//! | [`sent`] | what has left the interface of what services offered to it |
//! | [`destinations`] | rates in feedback, and the classes that enforce them |
//! | [`credits`] | pairs of hosts of services with credits, and their gates in the tree |
//! | [`port`] | ports of a Linux switch: queues, schedulers, DSCP maps, ECN thresholds |
//! | [`forwarder`] | ports of a Linux switch that are forwarders (PACE) |
//! | [`tags`] | DSCP values of tenants |
//! | [`tc`], [`netlink`] | existing qdiscs; messages to the kernel |
//! | [`cgroups`] | control groups of filters, followed while they come and go |
//! | [`guests`] | interfaces of virtual machines and containers, by which filters select |
//! | [`fabric_sockets`] | sockets that may connect to fabric brokers; tenants' may not |
//! | [`interface`] | index, MTU, offloads |
//! | [`netns`] | namespaces for the lab |
//! | [`requirements`] | missing requirements of the host and their remedies |
//!
//! Worked example: `InterfaceDatapath::attach(&eth0, None)?` then `set_rules(&classifier, Classes::Htb)?`, beside
//! `HtbShaper::install(&eth0, nic, &rates, Sending::over(&eth0)?, false)?`: every service is limited to its rate, and
//! `totals(Some(service))?` returns its bytes.
//!
//! Everything here acts in the network namespace of the calling thread.

pub mod attachment;
#[cfg(test)]
mod backlogged;
pub mod cgroups;
pub mod class;
pub mod credits;
pub mod destinations;
pub mod dropped;
mod edt_probe;
pub mod edt_shaper;
pub mod fabric_sockets;
pub mod forwarder;
pub mod fq;
pub mod guests;
pub mod htb;
pub mod htb_shaper;
pub mod interface;
mod keys;
pub mod levels;
pub mod loader;
pub mod locks;
#[doc(hidden)]
pub mod maps;
pub mod netlink;
pub mod netns;
pub mod pins;
pub mod port;
mod priority_bands;
pub mod readings;
pub mod requirements;
pub mod sent;
pub mod settings;
pub mod shaper;
mod slots;
pub mod tags;
pub mod tc;
mod wait;

pub use slots::service_number;
pub use weir_datapath::abi::{DESTINATIONS_MAX, SERVICES_MAX};

/// Keys of an interface at a time.
pub const KEYS_MAX: usize = weir_datapath::abi::KEYS as usize;
