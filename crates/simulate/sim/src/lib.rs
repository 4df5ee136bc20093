//! The packet-level simulator: one of the two backends that run Weir's code.
//!
//! It carries every packet over every link of a network in virtual time, with the limiters, brokers
//! and datagrams that run on Linux. It reads no clock, starts no thread and draws no unseeded
//! random number, so a run can be repeated to the byte.
//!
//! | file | contents |
//! |---|---|
//! | [`events`], [`timer`] | the event queue in picoseconds, timers that move |
//! | [`packet`], [`port`], [`serial_clock`], `queue` | the parts of the network |
//! | [`host`], [`flow`] | the ends of the network; the transports are [`weir_transport`]'s |
//! | [`world`], `build` | a network, and building one |
//! | [`engine`], `sending`, `ends`, `changes`, `fetch`, `pages` | packets, ends of flows, changes, prefetching |
//! | `agents` | port agents; their decisions are [`weir_transport::agents`]'s |
//! | [`shaper`] | receive meters, feedback and destination limiters at the hosts |
//! | [`sources`], `connections`, [`ideal`] | workloads, messages on connections, completion time of a flow alone |
//! | `pairs` | limits of pairs of machines: the backend of [`weir_pair_rates`] |
//! | `credit_queues` | queues of ports for credits beside other traffic, as switches have |
//! | `levels` | latency levels at the hosts: regulators, worst delays and queues |
//! | `quotas` | quotas of flows, as in QJump's published simulation |
//! | [`observer`], [`checkers`] | observation of a run |
//! | `enforcement`, [`brokers`], [`headers`] | enforcement of a policy, its control plane, its packet headers |
//! | [`mod@run`], `samples` | a scenario from start to result |

mod agents;
mod aggregates;
pub mod brokers;
mod build;
mod changes;
pub mod checkers;
mod connections;
mod credit_queues;
mod ends;
mod enforcement;
pub mod engine;
pub mod events;
mod fetch;
pub mod flow;
pub mod headers;
pub mod host;
pub mod ideal;
pub mod ids;
mod levels;
pub mod observer;
pub mod packet;
mod pages;
mod pairs;
pub mod port;
mod queue;
mod quotas;
mod routes;
pub mod run;
mod samples;
mod sending;
pub mod serial_clock;
pub mod shaper;
mod slot_table;
pub mod sources;
mod tenants;
pub mod timer;
pub mod world;

pub use checkers::Checkers;
pub use engine::Stop;
pub use flow::{Flow, FlowSpec};
pub use ids::{FlowId, HostId, MeterId, PacketId, PortId, ServiceIndex, SlotId, SwitchId};
pub use levels::{LevelBounds, LevelParts, LevelQueueReading, LevelReading};
pub use observer::{Observer, Silent};
pub use quotas::FlowQuota;
pub use run::{Options, Progress, RunError, RunOutcome, simulate};
pub use shaper::{Policed, ShaperReading};
pub use sources::{SizeClass, Source, Sources};
pub use weir_shaping::{ServiceShaper, ShaperConfig};
pub use weir_units::SimTime;
pub use world::{Counters, Delivery, World};
