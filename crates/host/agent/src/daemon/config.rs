//! The configuration of an agent, and its errors.

use crate::host::HostError;
use crate::runtime_config::{RuntimeConfig, Source};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_control::RackBrokerConfig;
use weir_fabric::{SessionConfig, SessionError};
use weir_linux::fabric_sockets::FabricSockets;
use weir_linux::shaper::Backend;
use weir_units::Duration;

/// Configuration of an agent.
pub struct AgentConfig {
    /// The configuration in the files at the start.
    pub runtime_config: RuntimeConfig,
    /// Reads the files again.
    pub source: Box<dyn Source>,
    /// The interface to shape.
    pub interface: String,
    /// Higher than at any earlier start, see [`weir_fabric::state::epoch`].
    pub epoch: u64,
    /// The broker's times.
    pub broker: RackBrokerConfig,
    /// The backend that enforces rates; if absent, the first that is possible.
    pub backend: Option<Backend>,
    /// p-min of credits: at least a round trip, and the lateness of a thread of this host.
    pub credit_period: Duration,
    /// The directory of the records of pods; [`weir_linux::guests::PODS`] by default.
    pub pods: PathBuf,
    /// Whether to replace a qdisc of another program on the interface.
    pub force: bool,
    /// The file of the status, written once a period, if any.
    pub status: Option<PathBuf>,
    /// The address of `/status` and `/metrics`, if any.
    pub metrics: Option<SocketAddr>,
    /// Whether to leave everything in force at the end, for the next agent.
    pub keep: bool,
    /// The session with the fabric broker, if there is one. Tenants' queues follow the same brokers.
    pub fabric: Option<SessionConfig>,
    /// The sockets of these sessions, the only ones of this host that may connect to the brokers; none at the start.
    pub fabric_sockets: Arc<FabricSockets>,
    /// The file of the last settings of tenants, with which the next agent starts, if any.
    pub tenants: Option<PathBuf>,
}

/// The part of the configuration that stays the same while an agent runs, and by which it enforces a policy.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    pub(crate) backend: Option<Backend>,
    pub(crate) credit_period: Duration,
    pub(crate) fabric: &'a Arc<FabricSockets>,
    pub(crate) pods: &'a Path,
}

impl AgentConfig {
    /// How rates and credits are enforced, the sockets of sessions, and the records of pods.
    pub(crate) fn means(&self) -> Means<'_> {
        Means {
            backend: self.backend,
            credit_period: self.credit_period,
            fabric: &self.fabric_sockets,
            pods: &self.pods,
        }
    }
}

/// Why the agent ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The interface cannot be brought or kept under the policy.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The session with the fabric broker cannot start.
    #[error(transparent)]
    Fabric(#[from] SessionError),
    /// Another program uses the address, or this host does not have it.
    #[error("listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The signals, or the event loop.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}
