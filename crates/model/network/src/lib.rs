//! The network: machines behind racks' uplinks, and the hosts, switches and links that these are made of.
//!
//! Problem: a policy divides bandwidth at contention points, a simulator moves packets over links, and both must mean
//! one network. Approach: one model with two views. [`Network`] has the contention points; [`Graph`] has every link
//! with its queue. Topologies with a few parameters become graphs ([`topology`]).
//!
//! | module | contents |
//! |---|---|
//! | [`network`](Network) | racks and machines: the contention points |
//! | [`graph`] | hosts, switches and cables |
//! | `contention` | racks and machines of a graph |
//! | `mapping` | a graph as the network of a policy that lists racks |
//! | [`topology`] | graphs from a few parameters |
//! | [`language`], [`read`] | the keys of a topology, and their values |
//! | [`layers`] | whether all shortest paths go up and then down |
//! | [`switches`] | the queues of switches, as far as a file states them |
//! | [`names`] | syntax, order and ranges of names |

mod contention;
pub mod graph;
pub mod language;
pub mod layers;
mod mapping;
pub mod names;
mod network;
pub mod read;
pub mod switches;
pub mod topology;

pub use graph::Graph;
pub use mapping::Mismatch;
pub use network::{Machine, Network, PortBuffers, Rack, Wiring};
