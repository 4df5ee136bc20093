//! The loop of `weir fabric`.
//!
//! Problem: the fabric broker decides and performs no I/O. Approach: one task owns the broker and
//! hands it time and reports; the tasks of the streams send those through one queue. The task hands
//! each input to the broker and then all outputs to the streams, without waiting for any of them.
//! All decisions are in `weir-control`.
//!
//! Life: the daemon checks policy, certificates and state before it listens. SIGHUP reads the
//! policy and the certificates again, each whole or not at all; a refused file is logged and the
//! old one stays in force. SIGTERM and SIGINT end the daemon.

mod epochs;
mod reload;
mod tenants;
mod work;

use crate::accept::{self, InUse};
use crate::binding::BindingService;
use crate::binding_proto::binding_server::BindingServer;
use crate::clock::now_s;
use crate::cluster::{ClusterConfig, TooLarge};
use crate::counters::Counters;
use crate::identity::{Identity, IdentityError, IdentityFiles};
use crate::proto::fabric_server::FabricServer;
use crate::service::Service;
use crate::state::epoch;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tonic::transport::Server;
use tracing::info;
use weir_control::FabricBrokerConfig;
use weir_observe::Publisher;
use weir_policy::Policy;
use weir_units::Duration;
use work::Daemon;

/// The file of the last epoch, under the state directory.
const EPOCH_FILE: &str = "epoch-of-fabric-broker";
/// Events that wait for the broker: while it computes, 10,000 racks that report every 7 s send
/// 1,500 reports a second.
const EVENTS: usize = 4_096;
/// The largest message in bytes: a part is below 1,300 in a datagram and below 6,000 here.
pub(crate) const LARGEST: usize = 16 * 1024;
/// The largest message about tenants in bytes: of a switch with 128 ports of 63 tenants each.
pub(crate) const LARGEST_OF_TENANTS: usize = 256 * 1024;
/// How often a connection is probed, and how long the client may take to reply.
const KEEP_ALIVE: std::time::Duration = std::time::Duration::from_secs(10);
/// Streams on one connection: a rack leader has one, and another while the old one ends.
const STREAMS: u32 = 8;
/// The shortest time between two writes of the status.
const STATUS_PAUSE: Duration = Duration::from_secs(1);

/// Configuration of a fabric broker.
#[derive(Debug)]
pub struct FabricConfig {
    /// The policy, as it is in `policy_file`.
    pub policy: Arc<Policy>,
    /// The file that SIGHUP reads.
    pub policy_file: PathBuf,
    /// The only address to listen on.
    pub listen: SocketAddr,
    /// The broker's certificate and key.
    pub identity: IdentityFiles,
    /// The directory of state that must survive a restart.
    pub state: PathBuf,
    /// The broker's times.
    pub broker: FabricBrokerConfig,
    /// The file of the status, if any.
    pub status: Option<PathBuf>,
    /// Serves the status to watchers, if any.
    pub publisher: Option<Publisher>,
    /// The cluster and the policy's text, if this is one of several brokers.
    pub cluster: Option<(ClusterConfig, String)>,
    /// The file of tenants' places, if this broker binds queues to tenants; all brokers of a cluster need the same.
    pub placement: Option<PathBuf>,
}

/// Why the broker ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// Its certificate, key or CA.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The socket, the signals or the state.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The tenants' places, or the state of their queues.
    #[error("{0}")]
    Tenants(String),
    /// The policy is too large for etcd.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The task of the cluster panicked, so the leadership of this broker is undetermined.
    #[error("the cluster task panicked (see above): the leadership of this fabric broker is undetermined")]
    MemberEnded,
    /// The server ended without an order.
    #[error("serve {listen}: {error}")]
    Serve {
        /// Its address.
        listen: SocketAddr,
        /// Why.
        #[source]
        error: tonic::transport::Error,
    },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> FabricError {
    let what = what.into();
    move |error| FabricError::Io { what, error }
}

/// Runs until SIGTERM or SIGINT.
pub fn run(config: FabricConfig) -> Result<(), FabricError> {
    // Handshakes and leases go on while the broker computes.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(io_error("start the event loop"))?;
    let result = runtime.block_on(serve(config));
    // Streams that do not end in time are cut.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    result
}

async fn serve(config: FabricConfig) -> Result<(), FabricError> {
    let listen_for = |kind, name: &str| signal(kind).map_err(io_error(format!("listen for {name}")));
    let mut terminate = listen_for(SignalKind::terminate(), "SIGTERM")?;
    let mut interrupt = listen_for(SignalKind::interrupt(), "SIGINT")?;
    let reload = listen_for(SignalKind::hangup(), "SIGHUP")?;
    // Agents reach this broker by name, so the certificate must contain it.
    let host = config.cluster.as_ref().map(|(cluster, _)| cluster.url.host());
    let identity = Identity::of_broker(&config.identity, host, now_s())?;
    if let Some((_, text)) = &config.cluster {
        TooLarge::check(text)?;
    }
    let epoch = epoch::next(&config.state, EPOCH_FILE, 0)
        .map_err(io_error(format!("keep the epoch in {}", config.state.display())))?;
    let listener = accept::listen(config.listen).map_err(io_error(format!("listen on {}", config.listen)))?;
    let listen = listener.local_addr().map_err(io_error("read the address"))?;

    let counters = Arc::new(Counters::default());
    let (events, from_streams) = mpsc::channel(EVENTS);
    let in_use = InUse::new(identity.server());
    let service = FabricServer::new(Service { events: events.clone(), counters: counters.clone() })
        .max_decoding_message_size(LARGEST)
        .max_encoding_message_size(LARGEST);
    let binding = BindingServer::new(BindingService { events, counters: counters.clone() })
        .max_decoding_message_size(LARGEST_OF_TENANTS)
        .max_encoding_message_size(LARGEST_OF_TENANTS);
    let server = Server::builder()
        .max_concurrent_streams(STREAMS)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .add_service(service)
        .add_service(binding)
        .serve_with_incoming(accept::incoming(listener, in_use.clone(), counters.clone()));

    let mut daemon = Daemon::new(config, listen, counters, in_use, &identity, epoch);
    daemon.begin_tenants().map_err(|unbound| FabricError::Tenants(unbound.to_string()))?;
    // Effective if systemd started the broker (Type=notify); elsewhere it does nothing.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let result = tokio::select! {
        ended = daemon.run(from_streams, reload) => ended,
        ended = server => ended.map_err(|error| FabricError::Serve { listen, error }),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    info!("the fabric broker ends");
    if let Some(cluster) = &daemon.cluster {
        cluster.resign().await;
    }
    if let Some(status) = &daemon.config.status {
        // A status that outlives its broker would be wrong.
        let _ = std::fs::remove_file(status);
    }
    result
}

/// A policy file and its text, or the reason for a refusal.
pub fn read_policy(path: &Path) -> Result<(Policy, String), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (policy, _) = Policy::parse(&path.display().to_string(), &text).map_err(|refused| refused.render(false))?;
    Ok((policy, text))
}
