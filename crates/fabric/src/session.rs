//! The line of an agent to the fabric broker.
//!
//! Problem: a machine that leads its rack must reach the fabric broker, whichever of several answers now, and the agent
//! must never wait for it. Approach: a thread of its own. The agent hands it reports and takes limits, both through
//! queues of bounded length; what the line does meanwhile is in [`Line::status`].
//!
//! - It calls when there is a report: machines that do not lead are not on the line. It hangs up when the agent has
//!   reported nothing for the timeout.
//! - One broker after the other is tried. One that does not answer itself says who does, and that one is next. After a
//!   round without success it waits: 100 ms, twice as long each time, up to an eighth of a period; a random half less,
//!   so that the racks do not come all at once.
//! - The newest report is said again to a broker that has not heard it, if it is younger than a period. So a broker that
//!   takes another's place knows in its first period what all racks would take, although their leaders report only two
//!   thirds of a period after an answer that did not come. A report that is said twice to one broker is a replay, which
//!   it counts; so this happens at another epoch only.
//! - Every call reads the certificates anew. One that has ended is no reason not to start: it is one not to call, until there
//!   is another.

mod stream;

use crate::identity::{Identity, IdentityError, IdentityFiles, Use};
use crate::url::BrokerUrl;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_control::{RackLimits, RackReport};
use weir_units::Duration;

/// Reports that wait for the line: 64 parts of 167 services each.
const REPORTS: usize = 64;
/// Limits that wait for the agent, the same.
const LIMITS: usize = 64;

/// What a line needs to know.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// The machine that speaks, as the policy names it.
    pub machine: String,
    /// Where fabric brokers are; one at least.
    pub brokers: Vec<BrokerUrl>,
    /// Who this is; the certificate names the machine.
    pub identity: IdentityFiles,
    /// T_fabric.
    pub period: Duration,
    /// After how long without a report the line hangs up.
    pub timeout: Duration,
}

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Certificate, key or CA.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The thread.
    #[error("start the thread of the fabric broker's line: {0}")]
    Thread(#[source] io::Error),
}

/// Where the line stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SessionState {
    /// Nothing to report, so nobody is called.
    #[default]
    Idle,
    /// A fabric broker is being called.
    Connecting(String),
    /// Waiting before the next call.
    Waiting,
    /// A fabric broker is on the line.
    Up(String),
}

/// What the line did since its start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionStatus {
    /// Where it stands.
    pub state: SessionState,
    /// Why the last call ended or failed.
    pub last_failure: Option<String>,
    /// When the machine's certificate ends, in seconds since 1970, as it was read last: at the start or for a call.
    pub certificate_ends: Option<i64>,
    /// How long ago the last limits came, if any did.
    pub silent: Option<std::time::Duration>,
    /// Calls that were welcomed.
    pub streams: u64,
    /// Calls that failed or broke.
    pub failures: u64,
    /// Calls that were sent elsewhere.
    pub sent_elsewhere: u64,
    /// Reports handed to a fabric broker, in parts; those said again among them.
    pub reports_sent: u64,
    /// Reports that never reached the line or were overtaken by newer ones before there was one, in parts.
    pub reports_lost: u64,
    /// Messages with limits that no broker makes.
    pub limits_malformed: u64,
    /// Limits that the agent did not take in time, in parts.
    pub limits_lost: u64,
}

#[derive(Debug, Clone, Default)]
struct Shared {
    status: Arc<Mutex<SessionStatus>>,
    last_limits: Arc<Mutex<Option<Instant>>>,
}

impl Shared {
    fn get(&self) -> MutexGuard<'_, SessionStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The agent's end of the line.
#[derive(Debug)]
pub struct Session {
    reports: mpsc::Sender<RackReport>,
    limits: mpsc::Receiver<RackLimits>,
    shared: Shared,
}

impl Session {
    /// Starts the thread. It ends with this value.
    pub fn start(config: SessionConfig) -> Result<Self, SessionError> {
        let identity = Identity::read(&config.identity)?;
        identity.check_use(Use::Stream, &config.identity)?;
        identity.check_name(&config.machine, &config.identity)?;
        let (reports, from_agent) = mpsc::channel(REPORTS);
        let (to_agent, limits) = mpsc::channel(LIMITS);
        let shared = Shared::default();
        shared.get().certificate_ends = Some(identity.expires());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SessionError::Thread)?;
        let session = stream::Client::new(config, from_agent, to_agent, shared.clone());
        std::thread::Builder::new()
            .name("fabric-line".to_owned())
            .spawn(move || runtime.block_on(session.run()))
            .map_err(SessionError::Thread)?;
        Ok(Self { reports, limits, shared })
    }

    /// Hands a report over; it is lost if too many wait.
    pub fn report(&self, report: RackReport) {
        if self.reports.try_send(report).is_err() {
            self.shared.get().reports_lost += 1;
        }
    }

    /// The next limits. Nothing is lost when the future is dropped.
    pub async fn limits(&mut self) -> RackLimits {
        match self.limits.recv().await {
            Some(limits) => limits,
            // The thread lives as long as this value; if it does not, there is nothing to wait for.
            None => std::future::pending().await,
        }
    }

    /// What the line is doing.
    pub fn status(&self) -> SessionStatus {
        let received = *self.shared.last_limits.lock().unwrap_or_else(PoisonError::into_inner);
        SessionStatus { silent: received.map(|received| received.elapsed()), ..self.shared.get().clone() }
    }
}
