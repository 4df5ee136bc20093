//! The daemon of a host.
//!
//! Problem: the rack broker decides but never acts. Approach: a loop on one thread gives it time, meter
//! readings and verified datagrams, and carries out what it says: datagrams to the peers, rates to the
//! shaper. All decisions are in `weir-control`; all kernel work is in `weir-linux`.
//!
//! | module | does |
//! |---|---|
//! | [`host`] | the interface under policy: classifier, meters, rates |
//! | `fabric_line` | what goes to the fabric broker and comes back, if there is one |
//! | [`daemon`] | the loop: socket, timer, signals |
//! | [`key_file`] | the shared key on disk |
//! | `status` | what the agent is doing, for whoever watches: a file, and an address to ask |
//!
//! Life: the host is changed only after policy, key, socket and state are in order. SIGTERM and SIGINT end
//! the loop and leave the interface as it was found. A killed agent leaves its HTB tree, which holds nobody
//! since nothing chooses its classes any more; the next agent adopts it and [`host::remove`] deletes it.

pub mod daemon;
mod fabric_line;
pub mod host;
pub mod key_file;
mod status;

pub use daemon::{AgentConfig, AgentError, run};

/// The port on which agents listen for rack datagrams unless told otherwise: 0x7765, `we` in ASCII, which is
/// the number of Weir's HTB handle too.
pub const DEFAULT_PORT: u16 = 0x7765;
