//! The daemon of a host.
//!
//! Problem: the rack broker decides and performs no I/O. Approach: a loop on one thread hands it
//! time, meter readings and verified datagrams, and carries out its outputs: datagrams to the
//! peers, rates to the shaper. All decisions are in `weir-control`; all kernel work is in
//! `weir-linux`.
//!
//! | module | does |
//! |---|---|
//! | [`host`] | the interface under policy: classifier, meters, rates |
//! | `destination_limits` | the thread that sets destinations to the rates of their receivers |
//! | `credits` | the thread of services with credits: allocations, gates, datagrams |
//! | `shaper_thread` | the thread that sets rates, reads the qdisc and checks that it is there |
//! | `fabric_session` | the session with the fabric broker, if there is one |
//! | `fabric_sockets` | the sockets of sessions, which the host lets through |
//! | [`daemon`] | the loop: socket, timer, signals; reloads; interfaces that come and go |
//! | [`runtime_config`] | the part of the configuration that a reload reads again |
//! | [`key_file`] | the shared keys on disk |
//! | `notify` | notifications for systemd |
//! | `unmatched` | filters that match nothing on this host |
//! | `status` | the agent's status for watchers: a file, and an HTTP address |
//!
//! Life: the host is changed only after policy, key, socket and state are in order. SIGHUP puts
//! another policy and other keys in force, whole or not at all. The agent waits for an interface
//! that disappears. SIGTERM and SIGINT end the loop and restore the interface to its original
//! state, or with `keep` leave it as it is. A killed agent leaves programs, classes and rates in
//! force, and after the timeout the kernel puts the static policy in force; the next agent adopts
//! them and [`host::remove`] deletes them.

mod credits;
pub mod daemon;
mod destination_limits;
mod fabric_session;
mod fabric_sockets;
pub mod host;
pub mod key_file;
mod notify;
pub mod runtime_config;
mod shaper_thread;
mod status;
mod unmatched;

pub use credits::{CreditReading, FirstPortReading, MessageCounters, PERIOD as CREDIT_PERIOD, SendingFlow};
pub use daemon::{AgentConfig, AgentError, run};
pub use runtime_config::{RuntimeConfig, Source};

/// The agents' default port for rack datagrams: 0x7765, `we` in ASCII, which is the number of
/// Weir's HTB handle too.
pub const DEFAULT_PORT: u16 = 0x7765;
