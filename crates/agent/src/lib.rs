//! The daemon of a host.
//!
//! Problem: the rack broker decides but never acts. Approach: a loop on one thread gives it time, meter
//! readings and verified datagrams, and carries out what it says: datagrams to the peers, rates to the
//! shaper. All decisions are in `weir-control`; all kernel work is in `weir-linux`.
//!
//! | module | does |
//! |---|---|
//! | [`host`] | the interface under policy: classifier, meters, rates |
//! | `destination_limits` | the thread that holds destinations to what their receivers say |
//! | `fabric_session` | what goes to the fabric broker and comes back, if there is one |
//! | [`daemon`] | the loop: socket, timer, signals; reloads; interfaces that come and go |
//! | [`terms`] | what a reload reads again |
//! | [`key_file`] | the shared keys on disk |
//! | `notify` | what systemd is told |
//! | `status` | what the agent is doing, for whoever watches: a file, and an address to ask |
//!
//! Life: the host is changed only after policy, key, socket and state are in order. SIGHUP puts another policy and other keys in
//! force, whole or not at all. An interface that goes is waited for. SIGTERM and SIGINT end
//! the loop and leave the interface as it was found, or with `keep` as it is. A killed agent leaves programs, classes and rates
//! in force, and after the timeout the kernel takes the static policy; the next agent adopts them and [`host::remove`]
//! deletes them.

pub mod daemon;
mod destination_limits;
mod fabric_session;
pub mod host;
pub mod key_file;
mod notify;
pub mod runtime_config;
mod status;

pub use daemon::{AgentConfig, AgentError, run};
pub use runtime_config::{RuntimeConfig, Source};

/// The port on which agents listen for rack datagrams unless told otherwise: 0x7765, `we` in ASCII, which is
/// the number of Weir's HTB handle too.
pub const DEFAULT_PORT: u16 = 0x7765;
