//! The loop of `weir fabric`.
//!
//! Problem: the fabric broker decides and never acts. Approach: one task owns it and gives it time and reports; tasks of
//! the calls bring those through one queue. Each input goes to the broker, then all its outputs are handed to the calls,
//! without waiting for any of them. All decisions are in `weir-control`.
//!
//! Life: policy, certificates and state are in order before it listens. SIGHUP reads the policy and the certificates
//! again, each whole or not at all; what is refused is said and stays as it was. SIGTERM and SIGINT end it.

use crate::accept::{self, InUse};
use crate::calls::Calls;
use crate::convert;
use crate::counters::Counters;
use crate::identity::{Identity, IdentityError, IdentityFiles};
use crate::proto::fabric_server::FabricServer;
use crate::proto::{self, from_broker::Word};
use crate::service::{Event, Service, Verdict};
use crate::status::{self, Around};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tonic::transport::Server;
use tracing::{debug, info, warn};
use weir_control::{FabricBroker, FabricBrokerConfig, FabricInput, FabricOutput};
use weir_policy::Policy;
use weir_state::{epoch, replace};
use weir_units::{Duration, Instant, MachineId};

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
}

/// Why the broker ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// Its certificate, key or authority.
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
    let identity = Identity::read(&config.identity)?;
    let in_use = identity.server().map_err(|reason| IdentityError::Content {
        path: config.identity.certificate.display().to_string(),
        reason: format!("cannot be used: {reason}"),
    })?;
    let epoch = epoch::next(&config.state, EPOCH_FILE, 0)
        .map_err(io_error(format!("keep the epoch in {}", config.state.display())))?;
    let listener = TcpListener::bind(config.listen).await.map_err(io_error(format!("listen on {}", config.listen)))?;
    let listen = listener.local_addr().map_err(io_error("read the address"))?;

    let counters = Arc::new(Counters::default());
    let (events, from_calls) = mpsc::channel(EVENTS);
    let in_use = InUse::new(in_use);
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
    let result = tokio::select! {
        () = daemon.run(from_calls, reload) => Ok(()),
        ended = server => ended.map_err(|error| FabricError::Serve { listen, error }),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    info!("the fabric broker ends");
    if let Some(status) = &daemon.config.status {
        // A status that outlives its broker would lie.
        let _ = std::fs::remove_file(status);
    }
    result
}

struct Daemon {
    config: FabricConfig,
    /// Where agents reach this broker.
    url: String,
    counters: Arc<Counters>,
    in_use: InUse,
    certificate_ends: i64,
    policy: Arc<Policy>,
    epoch: u64,
    broker: FabricBroker,
    calls: Calls,
    started: tokio::time::Instant,
    /// Why the last reload was refused, if it was.
    refused: Option<String>,
    /// When the status was written, and when it is next.
    written: Instant,
    status_due: Option<Instant>,
    /// Whether a write failed, and a warning was given.
    warned: bool,
}

impl Daemon {
    fn new(
        config: FabricConfig,
        listen: SocketAddr,
        counters: Arc<Counters>,
        in_use: InUse,
        identity: &Identity,
        epoch: u64,
    ) -> Self {
        let policy = config.policy.clone();
        let broker = FabricBroker::new(&policy, epoch, config.broker, Instant::ZERO);
        info!("fabric broker ready: {} racks, listening on {listen}", policy.network().racks().len());
        if !weir_alloc::speaks_of_fabric(&policy) {
            warn!("the policy says nothing of the fabric: no leader will report");
        }
        Self {
            url: format!("https://{listen}"),
            counters,
            in_use,
            certificate_ends: identity.expires(),
            policy,
            epoch,
            broker,
            calls: Calls::default(),
            started: tokio::time::Instant::now(),
            refused: None,
            written: Instant::ZERO,
            status_due: Some(Instant::ZERO),
            warned: false,
            config,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    async fn run(&mut self, mut events: mpsc::Receiver<Event>, mut reload: Signal) {
        loop {
            self.write_status_if_due();
            let next_period = self.broker.poll_timeout();
            let due = next_period.into_iter().chain(self.status_due).min();
            let wait = due.map(|due| due.saturating_since(self.now()));
            tokio::select! {
                // The server, which has the other end, lives as long as this does.
                Some(event) = events.recv() => self.take(event),
                _ = reload.recv() => self.reload(),
                () = sleep(wait) => self.end_period(),
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Call { machine, answers, verdict } => {
                let Some(id) = self.policy.network().machine_named(&machine) else {
                    let _ = verdict.send(Verdict::Unknown);
                    return;
                };
                debug!("`{machine}` calls");
                let welcome = proto::Welcome {
                    policy: self.policy.digest(),
                    epoch: self.epoch,
                    period_ns: self.config.broker.period.nanos(),
                };
                // The way back is new, so there is room.
                let _ = answers.try_send(Ok(proto::FromBroker { word: Some(Word::Welcome(welcome)) }));
                let (call, over) = self.calls.begin(id, machine, answers);
                let _ = verdict.send(Verdict::Stays(call, over));
                self.changed();
            }
            Event::Report(call, report) => {
                // What is said on a call that is over was said too late.
                let Some(machine) = self.calls.machine(call) else { return };
                match convert::report(machine, &report) {
                    Ok(report) => self.broker.handle_input(self.now(), FabricInput::Report(&report)),
                    Err(malformed) => {
                        self.counters.malformed.add();
                        debug!("from `{}`: {malformed}", self.policy.network().machine(machine).name());
                    }
                }
            }
            Event::End(call) => {
                self.calls.end(call);
                self.changed();
            }
        }
    }

    fn end_period(&mut self) {
        let before = self.broker.round();
        self.broker.handle_input(self.now(), FabricInput::Timeout);
        while let Some(FabricOutput::SendLimits { to, limits }) = self.broker.poll_output() {
            self.answer(to, convert::from_limits(&limits));
        }
        if self.broker.round() != before {
            self.status_due = Some(self.now());
        }
    }

    fn answer(&mut self, to: MachineId, message: proto::FromBroker) {
        let name = || self.policy.network().machine(to).name();
        match self.calls.of(to).map(|call| call.answers.try_send(Ok(message))) {
            Some(Ok(())) => {}
            None | Some(Err(TrySendError::Closed(_))) => {
                self.counters.unsent.add();
                debug!("`{}` is not on the line for its limits", name());
            }
            Some(Err(TrySendError::Full(_))) => {
                self.counters.not_taken.add();
                debug!("`{}` does not take its limits", name());
            }
        }
    }

    /// Policy and certificates again, each whole or not at all.
    fn reload(&mut self) {
        match Identity::read(&self.config.identity).and_then(|identity| {
            let usable = identity.server().map_err(|reason| IdentityError::Content {
                path: self.config.identity.certificate.display().to_string(),
                reason: format!("cannot be used: {reason}"),
            })?;
            Ok((identity.expires(), usable))
        }) {
            Ok((ends, usable)) => {
                self.certificate_ends = ends;
                self.in_use.replace(usable);
                info!("certificates are read again; calls go on with the old one");
            }
            Err(error) => warn!("certificates are not taken, the old ones stay: {error}"),
        }
        let read = Policy::read(&self.config.policy_file).map_err(|refused| refused.render(false));
        self.refused = read.and_then(|(policy, _)| self.set_policy(Arc::new(policy))).err();
        if let Some(refused) = &self.refused {
            warn!("the policy is not taken, the old one stays: {refused}");
        }
        self.status_due = Some(self.now());
    }

    /// Puts a policy in place of the present one, or says why not and changes nothing.
    fn set_policy(&mut self, policy: Arc<Policy>) -> Result<(), String> {
        if self.broker.set_policy(&policy).is_err() {
            // Other names, so other ids: nothing that was reported holds for them. The broker begins anew.
            let epoch = epoch::next(&self.config.state, EPOCH_FILE, self.epoch)
                .map_err(|error| format!("keep the epoch in {}: {error}", self.config.state.display()))?;
            self.epoch = epoch;
            self.broker = FabricBroker::new(&policy, epoch, self.config.broker, self.now());
            self.calls.renumber(&policy);
            info!("the policy has other racks, machines or services: the first limits come in a period");
        }
        self.policy = policy;
        info!("the policy in force is {:016x}", self.policy.digest());
        Ok(())
    }

    /// Something came or went: the status tells it soon, though not every time when many do.
    fn changed(&mut self) {
        self.status_due = self.status_due.or(Some(self.now().max(self.written + STATUS_PAUSE)));
    }

    /// A status that cannot be written ends nothing. It is told once until it works again.
    fn write_status_if_due(&mut self) {
        let now = self.now();
        if self.status_due.is_none_or(|due| now < due) {
            return;
        }
        (self.status_due, self.written) = (None, now);
        let Some(path) = &self.config.status else { return };
        let around = Around {
            url: &self.url,
            leader: Some(&self.url),
            epoch: self.epoch,
            uptime: now.saturating_since(Instant::ZERO),
            certificate_ends: self.certificate_ends,
            refused: self.refused.as_deref(),
            calls: self.calls.len(),
            counters: &self.counters,
        };
        let status = status::of(&self.policy, Some(&self.broker), &around);
        match replace::write(path, status.to_json().as_bytes()) {
            Ok(()) if std::mem::take(&mut self.warned) => info!("{} is written again", path.display()),
            Ok(()) => {}
            Err(error) if !std::mem::replace(&mut self.warned, true) => {
                warn!("write {}: {error}; limits go on", path.display());
            }
            Err(_) => {}
        }
    }
}

/// For ever without a time.
async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(std::time::Duration::from_nanos(wait.nanos())).await,
        None => std::future::pending().await,
    }
}
