//! The thread of a session: it connects, exchanges messages and waits.

use super::{FromFabric, SessionConfig, SessionState, Shared};
use crate::clock::now_s;
use crate::connector::Connector;
use crate::convert;
use crate::daemon::LARGEST;
use crate::failure;
use crate::identity::{Identity, IdentityError, IdentityFiles, Use};
use crate::proto::fabric_client::FabricClient;
use crate::proto::{self, from_broker, from_leader};
use crate::url::BrokerUrl;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tracing::{debug, info, warn};
use weir_control::{RackLimits, RackReport};

/// The first wait after a failure.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The most redirections in a row: brokers that elect a leader may disagree.
const MOST_REDIRECTIONS: u32 = 3;
/// Reports that wait for the connection.
const OUTGOING: usize = 16;

/// Why a stream ended.
enum End {
    /// Another broker leads; `None` if its address is unknown.
    Redirected(Option<BrokerUrl>),
    /// Nothing to report any more.
    Quiet,
    /// The agent ends.
    Over,
    /// It failed.
    Failed(String),
}

/// The newest report of the rack.
#[derive(Default)]
struct Newest {
    /// The parts of the newest round that have arrived.
    parts: Vec<RackReport>,
    /// When the first of them arrived.
    since: Option<Instant>,
    /// The index of the first part that was not sent.
    unsent: usize,
    /// The epoch of the broker that received the others.
    sent_to: Option<u64>,
}

pub(super) struct Client {
    config: SessionConfig,
    reports: mpsc::Receiver<RackReport>,
    replies: mpsc::Receiver<proto::FromLeader>,
    messages: mpsc::Sender<FromFabric>,
    shared: Shared,
    newest: Newest,
    /// Redirections since the last welcome or failure.
    redirections: u32,
    over: bool,
}

impl Client {
    pub(super) fn new(
        config: SessionConfig,
        (reports, replies): (mpsc::Receiver<RackReport>, mpsc::Receiver<proto::FromLeader>),
        messages: mpsc::Sender<FromFabric>,
        shared: Shared,
    ) -> Self {
        Self { config, reports, replies, messages, shared, newest: Newest::default(), redirections: 0, over: false }
    }

    pub(super) async fn run(mut self) {
        let (mut next, mut wait) = (0, FIRST_WAIT);
        // The seed only has to differ between hosts.
        let mut random = SmallRng::seed_from_u64(RandomState::new().hash_one(&self.config.machine));
        let mut redirected_to: Option<BrokerUrl> = None;
        while !self.over {
            if self.has_nothing_new() {
                self.shared.enter(SessionState::Idle);
                match self.reports.recv().await {
                    Some(report) => self.keep(report),
                    None => return,
                }
            }
            let broker = redirected_to.take().unwrap_or_else(|| self.config.brokers[next].clone());
            let begun = Instant::now();
            match self.stream(&broker).await {
                End::Over => return,
                End::Quiet => {
                    debug!("closed the stream to the fabric broker: nothing to report");
                    wait = FIRST_WAIT;
                    continue;
                }
                End::Redirected(leader) => {
                    self.shared.get().redirected += 1;
                    self.redirections += 1;
                    if let Some(leader) = leader.filter(|_| self.redirections <= MOST_REDIRECTIONS) {
                        debug!("{broker} redirects to {leader}");
                        redirected_to = Some(leader);
                        continue;
                    }
                    self.failed(format!("{broker}: no fabric broker leads yet"));
                }
                End::Failed(reason) => self.failed(format!("{broker}: {reason}")),
            }
            self.redirections = 0;
            next = (next + 1) % self.config.brokers.len();
            let after = u32::try_from(self.shared.after.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
            let longest = (self.period() / 8).max(FIRST_WAIT).saturating_mul(after.saturating_add(1));
            if begun.elapsed() > longest {
                wait = FIRST_WAIT;
            }
            // The other brokers are tried at once; the session waits after each round.
            if next == 0 {
                self.shared.enter(SessionState::Waiting);
                let pause = wait.mul_f64(random.random_range(0.5..=1.0));
                self.meanwhile(tokio::time::sleep(pause)).await;
                wait = (wait * 2).min(longest);
            }
        }
    }

    fn period(&self) -> Duration {
        Duration::from_nanos(self.config.period.nanos())
    }

    /// How long a broker may take to welcome: a quarter of a period, and half a second at least,
    /// since a handshake takes some time on a busy host.
    fn patience(&self) -> Duration {
        (self.period() / 4).clamp(Duration::from_millis(500), Duration::from_secs(10))
    }

    fn failed(&self, reason: String) {
        let mut status = self.shared.get();
        status.failures += 1;
        // A repeated failure is logged once.
        if status.last_failure.as_ref() != Some(&reason) {
            warn!("no stream to a fabric broker: {reason}");
            status.last_failure = Some(reason);
        }
    }

    /// Whether there is no report, or only an obsolete one.
    fn has_nothing_new(&self) -> bool {
        self.newest.since.is_none_or(|since| since.elapsed() >= self.period())
    }

    fn keep(&mut self, report: RackReport) {
        let stamp = |report: &RackReport| (report.epoch, report.round);
        if self.newest.parts.first().is_none_or(|first| stamp(first) != stamp(&report)) {
            let lost = self.newest.parts.len() - self.newest.unsent;
            self.shared.get().reports_lost += lost as u64;
            self.newest.parts.clear();
            self.newest.unsent = 0;
            self.newest.since = Some(Instant::now());
        }
        self.newest.parts.push(report);
    }

    /// Takes reports while `work` runs.
    async fn meanwhile<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                report = self.reports.recv(), if !self.over => match report {
                    Some(report) => self.keep(report),
                    None => self.over = true,
                },
            }
        }
    }

    async fn stream(&mut self, broker: &BrokerUrl) -> End {
        self.shared.enter(SessionState::Connecting(broker.to_string()));
        let (patience, machine) = (self.patience(), self.config.machine.clone());
        let connect = connect(self.config.clone(), broker.clone(), patience, machine, self.shared.clone());
        let (mut messages, to_broker) = match self.meanwhile(timeout(patience, connect)).await {
            Ok(Ok(both)) => both,
            Ok(Err(reason)) => return End::Failed(reason),
            Err(_) => return End::Failed(format!("no reply within {} s", patience.as_secs_f64())),
        };
        match self.meanwhile(timeout(patience, messages.message())).await {
            Ok(Ok(Some(proto::FromBroker { message: Some(from_broker::Message::Welcome(welcome)) }))) => {
                self.welcomed(broker, &welcome);
                self.exchange(messages, to_broker).await
            }
            Ok(Ok(Some(proto::FromBroker { message: Some(from_broker::Message::Elsewhere(elsewhere)) }))) => {
                End::Redirected(elsewhere.url.parse().ok())
            }
            Ok(Ok(_)) => End::Failed("it sent no welcome".to_owned()),
            Ok(Err(status)) => End::Failed(failure::of_status(&status)),
            Err(_) => End::Failed("it sent no welcome in time".to_owned()),
        }
    }

    /// Takes the welcome of a broker.
    fn welcomed(&mut self, broker: &BrokerUrl, welcome: &proto::Welcome) {
        info!("the session with the fabric broker at {broker} is up");
        if welcome.period_ns != self.config.period.nanos() {
            warn!(
                "{broker} has a period of {} s, and this agent is configured for {} s",
                welcome.period_ns as f64 / 1e9,
                self.period().as_secs_f64()
            );
        }
        let mut status = self.shared.get();
        status.streams += 1;
        status.last_failure = None;
        drop(status);
        self.shared.enter(SessionState::Up(broker.to_string()));
        self.redirections = 0;
        if self.newest.sent_to != Some(welcome.epoch) {
            self.newest.unsent = 0;
        }
        self.newest.sent_to = Some(welcome.epoch);
        // Replies to an earlier broker.
        while self.replies.try_recv().is_ok() {}
    }

    /// Exchanges messages with a broker until the stream ends.
    async fn exchange(
        &mut self,
        mut messages: tonic::Streaming<proto::FromBroker>,
        to_broker: mpsc::Sender<proto::FromLeader>,
    ) -> End {
        let timeout_without_reports = Duration::from_nanos(self.config.timeout.nanos());
        let mut quiet_since = Instant::now();
        loop {
            if let Some(report) = self.newest.parts.get(self.newest.unsent) {
                let patience = self.patience();
                match timeout(patience, to_broker.send(convert::from_report(report))).await {
                    Ok(Ok(())) => {
                        self.newest.unsent += 1;
                        self.shared.get().reports_sent += 1;
                        continue;
                    }
                    // The reason for the end of the stream is read below.
                    Ok(Err(_)) => {}
                    Err(_) => return End::Failed("it takes no reports".to_owned()),
                }
            }
            tokio::select! {
                report = self.reports.recv() => match report {
                    Some(report) => {
                        quiet_since = Instant::now();
                        self.keep(report);
                    }
                    None => return End::Over,
                },
                Some(reply) = self.replies.recv() => {
                    // The reason for the end of the stream is read below.
                    if timeout(self.patience(), to_broker.send(reply)).await.is_err() {
                        return End::Failed("it takes no replies".to_owned());
                    }
                }
                message = messages.message() => match message {
                    Ok(Some(proto::FromBroker { message: Some(from_broker::Message::Limits(limits)) })) => {
                        self.take(&limits, FromFabric::Limits);
                    }
                    Ok(Some(proto::FromBroker { message: Some(from_broker::Message::Proposal(limits)) })) => {
                        self.take(&limits, FromFabric::Proposal);
                    }
                    Ok(Some(proto::FromBroker { message: Some(from_broker::Message::Notice(notice)) })) => {
                        self.take_notice(&notice);
                    }
                    Ok(Some(proto::FromBroker { message: Some(from_broker::Message::Elsewhere(elsewhere)) })) => {
                        return End::Redirected(elsewhere.url.parse().ok());
                    }
                    Ok(Some(_)) => self.shared.get().limits_malformed += 1,
                    Ok(None) => return End::Failed("it closed the stream".to_owned()),
                    Err(status) => return End::Failed(failure::of_status(&status)),
                },
                () = tokio::time::sleep_until(quiet_since + timeout_without_reports) => return End::Quiet,
            }
        }
    }

    fn take_notice(&self, notice: &proto::Known) {
        match convert::epoch_notice(None, notice) {
            // One that is lost follows the next report again.
            Ok(notice) => drop(self.messages.try_send(FromFabric::Notice(notice))),
            Err(malformed) => {
                self.shared.get().limits_malformed += 1;
                debug!("a notice ignored: {malformed}");
            }
        }
    }

    fn take(&self, limits: &proto::Limits, message: impl Fn(RackLimits) -> FromFabric) {
        match convert::limits(limits) {
            Ok(limits) => {
                *self.shared.last_limits.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                if self.messages.try_send(message(limits)).is_err() {
                    self.shared.get().limits_lost += 1;
                }
            }
            Err(malformed) => {
                self.shared.get().limits_malformed += 1;
                debug!("limits ignored: {malformed}");
            }
        }
    }
}

/// This machine's certificate as it is now, if it can be used.
fn own_identity(files: &IdentityFiles, now: i64, shared: &Shared) -> Result<Identity, String> {
    let reported = |error: IdentityError| format!("{error}; {}", error.hint());
    let identity = Identity::read(files).map_err(reported)?;
    shared.get().certificate_ends = Some(identity.expires());
    identity.check_use(Use::Connect, files).map_err(reported)?;
    identity.check_dates(now, files).map_err(reported)?;
    Ok(identity)
}

type BothDirections = (tonic::Streaming<proto::FromBroker>, mpsc::Sender<proto::FromLeader>);

async fn connect(
    config: SessionConfig,
    broker: BrokerUrl,
    patience: Duration,
    machine: String,
    shared: Shared,
) -> Result<BothDirections, String> {
    let identity = own_identity(&config.identity, now_s(), &shared)?;
    let (pem, trusted) = (&identity.pem, Certificate::from_pem(&identity.pem.ca));
    let own = tonic::transport::Identity::from_pem(&pem.certificate, &pem.private_key);
    let tls = ClientTlsConfig::new().ca_certificate(trusted).identity(own);
    let endpoint = Endpoint::from_shared(broker.to_string()).and_then(|endpoint| endpoint.tls_config(tls));
    // Keep-alives detect a host that is gone within half a period.
    let endpoint = endpoint
        .map_err(|error| failure::of(&error))?
        .connect_timeout(patience)
        .http2_keep_alive_interval(patience)
        .keep_alive_timeout(patience)
        .keep_alive_while_idle(true);
    let connector = Connector { broker, host: config.sockets, patience };
    let channel: Channel = endpoint.connect_with_connector(connector).await.map_err(|error| failure::of(&error))?;
    let mut client = FabricClient::new(channel).max_decoding_message_size(LARGEST).max_encoding_message_size(LARGEST);
    let (to_broker, outgoing) = mpsc::channel(OUTGOING);
    let hello = from_leader::Message::Hello(proto::Hello { machine });
    let hello = proto::FromLeader { message: Some(hello) };
    to_broker.send(hello).await.map_err(|_| "the stream ended before it began".to_owned())?;
    let reply = client.lead(ReceiverStream::new(outgoing)).await.map_err(|status| failure::of_status(&status))?;
    Ok((reply.into_inner(), to_broker))
}
