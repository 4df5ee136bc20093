//! Scenarios on real Linux hosts.
//!
//! Problem: observe the policy with real TCP, on one machine and without touching its network.
//! Approach: each machine, rack switch and spine of the scenario is a network namespace; cables are
//! veth pairs, switches are bridges, ports have rates and mark; every machine runs the real agent
//! and iperf3; everything is taken down again.
//!
//! | module | does |
//! |---|---|
//! | [`network`] | namespaces, cables, switches, port rates, addresses |
//! | [`ports`] | switch ports: their queues and marks, release of packets |
//! | [`traffic`] | iperf3 servers and clients for the scenario's flows |
//! | [`applications`] | real servers, and clients that measure each request |
//! | [`messages`] | messages that hosts send at once, in rounds |
//! | [`agents`] | one agent per machine; waits until each has reports of the others |
//! | [`forwarders`] | switches whose ports grant credits |
//! | [`tenants`] | the controller of tenants' queues, and its subscribers on switches |
//! | [`faults`] | processes of tenants' control that are killed during the traffic |
//! | [`measure`] | per-service bandwidth at a rack's uplink, by the BPF meter |
//! | [`janitor`] | takes the lab down when the lab itself was killed |
//! | [`run`](mod@run) | a scenario from start to result |
//! | `records` | the records of a result file |
//!
//! Differences from the simulator: cables have the kernel's delay instead of the scenario's
//! `links.delay`, and there is one spine (none between two racks). Segmentation offload is off, so
//! that the links carry frames of the MTU.
//!
//! Only one lab runs at a time on a host. All names start with [`PREFIX`]; nothing else is touched.

pub mod agents;
pub mod applications;
pub mod faults;
pub mod forwarders;
pub mod janitor;
pub mod measure;
pub mod messages;
pub mod network;
pub mod ports;
mod real_time;
mod records;
pub mod run;
pub mod tenants;
pub mod traffic;

pub use faults::{Fault, FaultError, FaultTarget, Recovery};
pub use run::{LabError, Progress, clean, run, run_with};

/// The prefix of the names of the lab's namespaces.
pub const PREFIX: &str = "weirlab";
