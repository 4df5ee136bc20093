//! What an agent is told at its start, and why it ends.

use crate::host::HostError;
use crate::runtime_config::{RuntimeConfig, Source};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use weir_control::RackBrokerConfig;
use weir_fabric::{SessionConfig, SessionError};
use weir_linux::shaper::Backend;

/// Everything that an agent needs to know.
pub struct AgentConfig {
    /// What the files said at the start.
    pub runtime_config: RuntimeConfig,
    /// Who says what they say now.
    pub source: Box<dyn Source>,
    /// The interface to shape.
    pub interface: String,
    /// Higher than at any earlier start, see [`weir_state::epoch`].
    pub epoch: u64,
    /// How the broker is timed.
    pub broker: RackBrokerConfig,
    /// What is to enforce rates; the first that is possible where nothing is said.
    pub backend: Option<Backend>,
    /// Replace a qdisc that somebody else put on the interface.
    pub force: bool,
    /// Where to write the status once a period, if anywhere.
    pub status: Option<PathBuf>,
    /// Where to serve `/status` and `/metrics`, if anywhere; nothing listens otherwise.
    pub metrics: Option<SocketAddr>,
    /// Leave everything in force at the end, for the next agent.
    pub keep: bool,
    /// How to reach the fabric broker, if there is one.
    pub fabric: Option<SessionConfig>,
}

/// Why the agent ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The interface cannot be brought or kept under the policy.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The line to the fabric broker.
    #[error(transparent)]
    Fabric(#[from] SessionError),
    /// Somebody else has the address, or this host does not.
    #[error("listen on {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
    /// The signals, or the event loop.
    #[error("{what}: {error}")]
    Io {
        /// What was attempted.
        what: String,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
}
