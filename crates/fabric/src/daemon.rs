//! The loop of `weir fabric`.
//!
//! Problem: the fabric broker decides and never acts. Approach: one task owns it and gives it time and reports; tasks of
//! the calls bring those through one queue. Each input goes to the broker, then all its outputs are handed to the calls,
//! without waiting for any of them. All decisions are in `weir-control`.
//!
//! Life: policy, certificates and state are in order before it listens. SIGHUP reads the policy and the certificates
//! again, each whole or not at all; what is refused is said and stays as it was. SIGTERM and SIGINT end it.

mod reload;
mod work;

use crate::accept::{self, InUse};
use crate::clock::now_s;
use crate::cluster::{ClusterConfig, TooLarge};
use crate::counters::Counters;
use crate::identity::{Identity, IdentityError, IdentityFiles};
use crate::proto::fabric_server::FabricServer;
use crate::service::Service;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tonic::transport::Server;
use tracing::info;
use weir_control::FabricBrokerConfig;
use weir_observe::Publisher;
use weir_policy::Policy;
use weir_state::epoch;
use weir_units::Duration;
use work::Daemon;

/// Where the last epoch is kept, under the state directory.
const EPOCH_FILE: &str = "epoch-of-fabric-broker";
/// Events that wait for the broker: while it computes, a second of reports of 10,000 racks, 7 s apart, is 1,500.
const EVENTS: usize = 4_096;
/// The most bytes of a message: a part is below 1,300 in a datagram and below 6,000 here.
pub(crate) const LARGEST: usize = 16 * 1024;
/// How often the line to a caller is tried, and how long it may be silent then.
const KEEP_ALIVE: std::time::Duration = std::time::Duration::from_secs(10);
/// Calls on one connection: a leader has one, and another while the old one ends.
const CALLS: u32 = 8;
/// The status is not written more often than this, whatever comes and goes.
const STATUS_PAUSE: Duration = Duration::from_secs(1);

/// Everything that a fabric broker needs to know.
#[derive(Debug)]
pub struct FabricConfig {
    /// The policy, as it is in `policy_file`.
    pub policy: Arc<Policy>,
    /// Where SIGHUP finds it anew.
    pub policy_file: PathBuf,
    /// Where to listen; nothing else listens.
    pub listen: SocketAddr,
    /// Who this is.
    pub identity: IdentityFiles,
    /// Where what must outlive a restart is kept.
    pub state: PathBuf,
    /// How the broker is timed.
    pub broker: FabricBrokerConfig,
    /// Where to write the status, if anywhere.
    pub status: Option<PathBuf>,
    /// Who hands the status to whoever watches, if anybody does.
    pub publisher: Option<Publisher>,
    /// The others, if there are any: one answers. It has the policy's text besides.
    pub cluster: Option<(ClusterConfig, String)>,
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
        /// What was attempted.
        what: String,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
    /// The policy cannot be kept in etcd.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Who talks to etcd ended by a panic, so that nobody knows who leads.
    #[error(
        "what talks to etcd ended by a fault of its own (see above): without it a fabric broker cannot know whether it leads"
    )]
    MemberEnded,
    /// The server ended by itself.
    #[error("serve {listen}: {error}")]
    Serve {
        /// Where it listened.
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
    // Calls that do not end by themselves are cut.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    result
}

async fn serve(config: FabricConfig) -> Result<(), FabricError> {
    let listen_for = |kind, name: &str| signal(kind).map_err(io_error(format!("listen for {name}")));
    let mut terminate = listen_for(SignalKind::terminate(), "SIGTERM")?;
    let mut interrupt = listen_for(SignalKind::interrupt(), "SIGINT")?;
    let reload = listen_for(SignalKind::hangup(), "SIGHUP")?;
    // Agents are sent here by name, so the certificate must have it.
    let host = config.cluster.as_ref().map(|(cluster, _)| cluster.url.host());
    let identity = Identity::of_broker(&config.identity, host, now_s())?;
    if let Some((_, text)) = &config.cluster {
        TooLarge::check(text)?;
    }
    let epoch = epoch::next(&config.state, EPOCH_FILE, 0)
        .map_err(io_error(format!("keep the epoch in {}", config.state.display())))?;
    let listener = TcpListener::bind(config.listen).await.map_err(io_error(format!("listen on {}", config.listen)))?;
    let listen = listener.local_addr().map_err(io_error("read the address"))?;

    let counters = Arc::new(Counters::default());
    let (events, from_calls) = mpsc::channel(EVENTS);
    let in_use = InUse::new(identity.server());
    let service = FabricServer::new(Service { events, counters: counters.clone() })
        .max_decoding_message_size(LARGEST)
        .max_encoding_message_size(LARGEST);
    let server = Server::builder()
        .max_concurrent_streams(CALLS)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .add_service(service)
        .serve_with_incoming(accept::incoming(listener, in_use.clone(), counters.clone()));

    let mut daemon = Daemon::new(config, listen, counters, in_use, &identity, epoch);
    // Where systemd started it (Type=notify); elsewhere nobody listens.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let result = tokio::select! {
        ended = daemon.run(from_calls, reload) => ended,
        ended = server => ended.map_err(|error| FabricError::Serve { listen, error }),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    info!("the fabric broker ends");
    if let Some(cluster) = &daemon.cluster {
        cluster.resign().await;
    }
    if let Some(status) = &daemon.config.status {
        // A status that outlives its broker would lie.
        let _ = std::fs::remove_file(status);
    }
    result
}

/// A policy file and its text, or what is wrong with it.
pub fn read_policy(path: &Path) -> Result<(Policy, String), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (policy, _) = Policy::parse(&path.display().to_string(), &text).map_err(|refused| refused.render(false))?;
    Ok((policy, text))
}
