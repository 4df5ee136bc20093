//! The session of an agent with the fabric broker.
//!
//! Problem: a machine that leads its rack must reach the leading one of several fabric brokers, and
//! the agent must never wait for it. Approach: a thread of its own. The agent hands it reports and
//! takes limits, both through queues of bounded length; [`Session::status`] shows the state.
//!
//! - The session opens a stream when there is a report: machines that do not lead their rack have
//!   none. It closes the stream when the agent has reported nothing for the timeout.
//! - The session tries one broker after the other. A broker that does not lead names the leading
//!   one, which is tried next. After a round without success the session waits: 100 ms, twice as
//!   long each time, up to an eighth of a period, each time less a random half, so that the racks
//!   do not connect all at once. If the machines of a rack that precede this one try as well, the
//!   longest wait is as many eighths longer, so that a rack of n whose machines all try makes
//!   1 + 1/2 + … + 1/n times the attempts of one machine.
//! - The session repeats the newest report to a broker that has not received it, if the report is
//!   younger than a period. A succeeding broker therefore has the demand of all racks in its first
//!   period, although their leaders report only two thirds of a period after limits that did not
//!   arrive. A report that is sent twice to one broker is a replay, which the broker counts; the
//!   session therefore repeats reports at another epoch only.
//! - Every connection reads the certificates anew. An ended certificate does not prevent the start:
//!   it prevents connections until the operator replaces it.

mod stream;

use crate::connector::{self, HostSockets};
use crate::convert;
use crate::identity::{Identity, IdentityError, IdentityFiles, Use};
use crate::proto;
use crate::url::BrokerUrl;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use weir_control::{EpochNotice, RackLimits, RackReport, Reach};
use weir_units::Duration;

/// Reports that wait for the session: 64 parts of 167 services each.
const REPORTS: usize = 64;
/// Limits that wait for the agent, the same.
const LIMITS: usize = 64;

/// Configuration of a session.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// This machine's name in the policy.
    pub machine: String,
    /// Addresses of fabric brokers; at least one.
    pub brokers: Vec<BrokerUrl>,
    /// The files of the identity; the certificate names the machine.
    pub identity: IdentityFiles,
    /// T_fabric.
    pub period: Duration,
    /// The time without a report after which the session closes the stream.
    pub timeout: Duration,
    /// The host that lets the session's sockets connect to brokers, if it refuses those of other programs.
    pub sockets: Option<Arc<dyn HostSockets>>,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Certificate, key or CA.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The thread.
    #[error("start the thread of the fabric session: {0}")]
    Thread(#[source] io::Error),
}

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SessionState {
    /// No stream, since there is nothing to report.
    #[default]
    Idle,
    /// A stream to a fabric broker is being opened.
    Connecting(String),
    /// Waiting before the next attempt.
    Waiting,
    /// A stream to a fabric broker is open.
    Up(String),
}

/// The state and counters of a session since its start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionStatus {
    /// The state.
    pub state: SessionState,
    /// Why the last stream ended or failed.
    pub last_failure: Option<String>,
    /// The end of the machine's certificate, in seconds since 1970, as it was read last: at the
    /// start or for a connection.
    pub certificate_ends: Option<i64>,
    /// The time since the last limits, if any arrived.
    pub silent: Option<std::time::Duration>,
    /// Streams that a broker accepted.
    pub streams: u64,
    /// Streams that failed or broke.
    pub failures: u64,
    /// Streams that were redirected to another broker.
    pub redirected: u64,
    /// Report parts sent to a fabric broker, repetitions included.
    pub reports_sent: u64,
    /// Report parts that never reached the session, or that newer ones replaced before they were
    /// sent.
    pub reports_lost: u64,
    /// Messages with limits that no broker makes.
    pub limits_malformed: u64,
    /// Limits parts that the agent did not take in time.
    pub limits_lost: u64,
}

#[derive(Debug, Clone, Default)]
struct Shared {
    status: Arc<Mutex<SessionStatus>>,
    last_limits: Arc<Mutex<Option<Instant>>>,
    reach: Arc<watch::Sender<Reach>>,
    /// The machines of the rack that precede this one and try to reach the same brokers.
    after: Arc<AtomicUsize>,
}

impl Shared {
    fn get(&self) -> MutexGuard<'_, SessionStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a state. A failed session that has nothing to report at present has still failed: only a stream proves
    /// the opposite.
    fn enter(&self, state: SessionState) {
        let reach = match state {
            SessionState::Up(_) => Some(Reach::Able),
            SessionState::Connecting(_) | SessionState::Waiting => Some(Reach::Trying),
            SessionState::Idle => None,
        };
        self.get().state = state;
        let Some(reach) = reach else { return };
        self.reach.send_if_modified(|before| std::mem::replace(before, reach) != reach);
    }
}

/// A message of the fabric broker.
#[derive(Debug)]
pub enum FromFabric {
    /// Limits to put in force.
    Limits(RackLimits),
    /// Proposed limits, to be replied to.
    Proposal(RackLimits),
    /// The newest epoch that the broker has of this machine, which the notice does not name.
    Notice(EpochNotice),
    /// A change of whether the session reaches a broker; the session itself reports it.
    Reach(Reach),
}

/// The agent's handle of a session.
#[derive(Debug)]
pub struct Session {
    reports: mpsc::Sender<RackReport>,
    replies: mpsc::Sender<proto::FromLeader>,
    messages: mpsc::Receiver<FromFabric>,
    reach: watch::Receiver<Reach>,
    shared: Shared,
}

impl Session {
    /// Starts the thread. It ends when this value is dropped.
    pub fn start(config: SessionConfig) -> Result<Self, SessionError> {
        let identity = Identity::read(&config.identity)?;
        identity.check_use(Use::Connect, &config.identity)?;
        identity.check_name(&config.machine, &config.identity)?;
        let (reports, from_agent) = mpsc::channel(REPORTS);
        let (replies, replies_of_agent) = mpsc::channel(REPORTS);
        let (to_agent, messages) = mpsc::channel(LIMITS);
        let shared = Shared::default();
        shared.get().certificate_ends = Some(identity.expires());
        let reach = shared.reach.subscribe();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SessionError::Thread)?;
        if let Some(host) = &config.sockets {
            runtime.spawn(connector::follow(config.brokers.clone(), Arc::clone(host)));
        }
        let session = stream::Client::new(config, (from_agent, replies_of_agent), to_agent, shared.clone());
        std::thread::Builder::new()
            .name("fabric-session".to_owned())
            .spawn(move || runtime.block_on(session.run()))
            .map_err(SessionError::Thread)?;
        Ok(Self { reports, replies, messages, reach, shared })
    }

    /// Hands a report over; it is lost if the queue is full.
    pub fn report(&self, report: RackReport) {
        if self.reports.try_send(report).is_err() {
            self.shared.get().reports_lost += 1;
        }
    }

    /// Sets the number of machines of the rack that precede this one and try to reach the same brokers.
    pub fn set_after(&self, machines: usize) {
        self.shared.after.store(machines, Ordering::Relaxed);
    }

    /// Whether the session reaches a broker, as its last attempt showed.
    pub fn reach(&self) -> Reach {
        *self.reach.borrow()
    }

    /// Hands a reply over; it is lost if the queue is full or no stream is up.
    pub fn reply(&self, reply: RackReport) {
        self.reply_by(convert::from_reply(&reply));
    }

    /// Hands over a notice of the broker's epoch; it is lost if the queue is full or no stream is up, and follows the
    /// next limits again.
    pub fn notify(&self, notice: &EpochNotice) {
        self.reply_by(convert::from_notice_to_broker(notice));
    }

    fn reply_by(&self, message: proto::FromLeader) {
        if self.replies.try_send(message).is_err() {
            self.shared.get().reports_lost += 1;
        }
    }

    /// The next message. Cancelling the future loses none.
    pub async fn message(&mut self) -> FromFabric {
        tokio::select! {
            Some(message) = self.messages.recv() => message,
            Ok(()) = self.reach.changed() => FromFabric::Reach(*self.reach.borrow_and_update()),
            // The thread outlives this value; if it has ended by a panic, there are no messages.
            else => std::future::pending().await,
        }
    }

    /// The state and counters now.
    pub fn status(&self) -> SessionStatus {
        let received = *self.shared.last_limits.lock().unwrap_or_else(PoisonError::into_inner);
        SessionStatus { silent: received.map(|received| received.elapsed()), ..self.shared.get().clone() }
    }
}
