//! The thread of the line: calls, answers, waits.

use super::{SessionConfig, SessionState, Shared};
use crate::clock::now_s;
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
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tracing::{debug, info, warn};
use weir_control::{RackLimits, RackReport};

/// The first wait after a failure.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The most often in a row that one broker sends to another: while they elect a leader they may not agree.
const MOST_ELSEWHERE: u32 = 3;
/// Reports that wait for the connection.
const OUTGOING: usize = 16;

/// Why a call ended.
enum End {
    /// Another broker answers; `None` while nobody knows which.
    Elsewhere(Option<BrokerUrl>),
    /// Nothing to report any more.
    Quiet,
    /// The agent ends.
    Over,
    /// It failed.
    Failed(String),
}

/// What is known of the rack.
#[derive(Default)]
struct Newest {
    /// All parts of the newest round, as far as they came.
    parts: Vec<RackReport>,
    /// When the first of them came.
    since: Option<Instant>,
    /// Those that no broker was told yet: from here on.
    untold: usize,
    /// The epoch of the broker that was told the others.
    told_to: Option<u64>,
}

pub(super) struct Client {
    config: SessionConfig,
    reports: mpsc::Receiver<RackReport>,
    limits: mpsc::Sender<RackLimits>,
    shared: Shared,
    newest: Newest,
    over: bool,
}

impl Client {
    pub(super) fn new(
        config: SessionConfig,
        reports: mpsc::Receiver<RackReport>,
        limits: mpsc::Sender<RackLimits>,
        shared: Shared,
    ) -> Self {
        Self { config, reports, limits, shared, newest: Newest::default(), over: false }
    }

    pub(super) async fn run(mut self) {
        let (mut next, mut elsewhere, mut wait) = (0, 0, FIRST_WAIT);
        // Any number that differs between hosts will do.
        let mut random = SmallRng::seed_from_u64(RandomState::new().hash_one(&self.config.machine));
        let mut sent_to: Option<BrokerUrl> = None;
        while !self.over {
            if self.has_nothing_new() {
                self.stand(SessionState::Idle);
                match self.reports.recv().await {
                    Some(report) => self.keep(report),
                    None => return,
                }
            }
            let broker = sent_to.take().unwrap_or_else(|| self.config.brokers[next].clone());
            let begun = Instant::now();
            match self.stream(&broker).await {
                End::Over => return,
                End::Quiet => {
                    debug!("hung up on the fabric broker: nothing to report");
                    (elsewhere, wait) = (0, FIRST_WAIT);
                    continue;
                }
                End::Elsewhere(leader) => {
                    self.shared.get().sent_elsewhere += 1;
                    elsewhere += 1;
                    if let Some(leader) = leader.filter(|_| elsewhere <= MOST_ELSEWHERE) {
                        debug!("{broker} sends to {leader}");
                        sent_to = Some(leader);
                        continue;
                    }
                    self.failed(format!("{broker}: no fabric broker answers yet"));
                }
                End::Failed(reason) => self.failed(format!("{broker}: {reason}")),
            }
            elsewhere = 0;
            next = (next + 1) % self.config.brokers.len();
            let longest = (self.period() / 8).max(FIRST_WAIT);
            if begun.elapsed() > longest {
                wait = FIRST_WAIT;
            }
            // The others are tried at once; who has tried all of them waits.
            if next == 0 {
                self.stand(SessionState::Waiting);
                let pause = wait.mul_f64(random.random_range(0.5..=1.0));
                self.meanwhile(tokio::time::sleep(pause)).await;
                wait = (wait * 2).min(longest);
            }
        }
    }

    fn period(&self) -> Duration {
        Duration::from_nanos(self.config.period.nanos())
    }

    /// How long a broker may take to welcome: a quarter of a period, and half a second at least, since a handshake on a
    /// busy host takes some.
    fn patience(&self) -> Duration {
        (self.period() / 4).clamp(Duration::from_millis(500), Duration::from_secs(10))
    }

    fn stand(&self, state: SessionState) {
        self.shared.get().state = state;
    }

    fn failed(&self, reason: String) {
        let mut status = self.shared.get();
        status.failures += 1;
        // The same failure again is told once.
        if status.last_failure.as_ref() != Some(&reason) {
            warn!("no fabric broker on the line: {reason}");
            status.last_failure = Some(reason);
        }
    }

    /// Whether a broker that is called now would hear nothing, or something old.
    fn has_nothing_new(&self) -> bool {
        self.newest.since.is_none_or(|since| since.elapsed() >= self.period())
    }

    fn keep(&mut self, report: RackReport) {
        let stamp = |report: &RackReport| (report.epoch, report.round);
        if self.newest.parts.first().is_none_or(|first| stamp(first) != stamp(&report)) {
            let lost = self.newest.parts.len() - self.newest.untold;
            self.shared.get().reports_lost += lost as u64;
            self.newest.parts.clear();
            self.newest.untold = 0;
            self.newest.since = Some(Instant::now());
        }
        self.newest.parts.push(report);
    }

    /// Takes reports while something else is done.
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
        self.stand(SessionState::Connecting(broker.to_string()));
        let (patience, machine) = (self.patience(), self.config.machine.clone());
        let connect = connect(self.config.clone(), broker.clone(), patience, machine, self.shared.clone());
        let (mut messages, said) = match self.meanwhile(timeout(patience, connect)).await {
            Ok(Ok(both)) => both,
            Ok(Err(reason)) => return End::Failed(reason),
            Err(_) => return End::Failed(format!("no answer within {} s", patience.as_secs_f64())),
        };
        match self.meanwhile(timeout(patience, messages.message())).await {
            Ok(Ok(Some(proto::FromBroker { message: Some(from_broker::Message::Welcome(welcome)) }))) => {
                self.converse(broker, &welcome, messages, said).await
            }
            Ok(Ok(Some(proto::FromBroker { message: Some(from_broker::Message::Elsewhere(elsewhere)) }))) => {
                End::Elsewhere(elsewhere.url.parse().ok())
            }
            Ok(Ok(_)) => End::Failed("it did not welcome".to_owned()),
            Ok(Err(status)) => End::Failed(failure::of_status(&status)),
            Err(_) => End::Failed("it did not welcome in time".to_owned()),
        }
    }

    /// A broker is on the line.
    async fn converse(
        &mut self,
        broker: &BrokerUrl,
        welcome: &proto::Welcome,
        mut messages: tonic::Streaming<proto::FromBroker>,
        said: mpsc::Sender<proto::FromLeader>,
    ) -> End {
        info!("the fabric broker at {broker} is on the line");
        if welcome.period_ns != self.config.period.nanos() {
            warn!(
                "{broker} answers every {} s, and this agent believes every {} s",
                welcome.period_ns as f64 / 1e9,
                self.period().as_secs_f64()
            );
        }
        {
            let mut status = self.shared.get();
            status.streams += 1;
            status.state = SessionState::Up(broker.to_string());
            status.last_failure = None;
        }
        if self.newest.told_to != Some(welcome.epoch) {
            self.newest.untold = 0;
        }
        self.newest.told_to = Some(welcome.epoch);
        let hang_up = Duration::from_nanos(self.config.timeout.nanos());
        let mut quiet_since = Instant::now();
        loop {
            if let Some(report) = self.newest.parts.get(self.newest.untold) {
                let patience = self.patience();
                match timeout(patience, said.send(convert::from_report(report))).await {
                    Ok(Ok(())) => {
                        self.newest.untold += 1;
                        self.shared.get().reports_sent += 1;
                        continue;
                    }
                    // What ended the call is read below.
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
                message = messages.message() => match message {
                    Ok(Some(proto::FromBroker { message: Some(from_broker::Message::Limits(limits)) })) => self.take(&limits),
                    Ok(Some(proto::FromBroker { message: Some(from_broker::Message::Elsewhere(elsewhere)) })) => {
                        return End::Elsewhere(elsewhere.url.parse().ok());
                    }
                    Ok(Some(_)) => self.shared.get().limits_malformed += 1,
                    Ok(None) => return End::Failed("it hung up".to_owned()),
                    Err(status) => return End::Failed(failure::of_status(&status)),
                },
                () = tokio::time::sleep_until(quiet_since + hang_up) => return End::Quiet,
            }
        }
    }

    fn take(&self, limits: &proto::Limits) {
        match convert::limits(limits) {
            Ok(limits) => {
                *self.shared.last_limits.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                if self.limits.try_send(limits).is_err() {
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

/// This machine's certificate as it is now, if it can be shown.
fn own_identity(files: &IdentityFiles, now: i64, shared: &Shared) -> Result<Identity, String> {
    let reported = |error: IdentityError| format!("{error}; {}", error.hint());
    let identity = Identity::read(files).map_err(reported)?;
    shared.get().certificate_ends = Some(identity.expires());
    identity.check_use(Use::Stream, files).map_err(reported)?;
    identity.check_dates(now, files).map_err(reported)?;
    Ok(identity)
}

type Both = (tonic::Streaming<proto::FromBroker>, mpsc::Sender<proto::FromLeader>);

async fn connect(
    config: SessionConfig,
    broker: BrokerUrl,
    patience: Duration,
    machine: String,
    shared: Shared,
) -> Result<Both, String> {
    let identity = own_identity(&config.identity, now_s(), &shared)?;
    let (pem, trusted) = (&identity.pem, Certificate::from_pem(&identity.pem.ca));
    let own = tonic::transport::Identity::from_pem(&pem.certificate, &pem.private_key);
    let tls = ClientTlsConfig::new().ca_certificate(trusted).identity(own);
    let endpoint = Endpoint::from_shared(broker.to_string()).and_then(|endpoint| endpoint.tls_config(tls));
    // A host that is gone without a word is found out within half a period.
    let endpoint = endpoint
        .map_err(|error| failure::of(&error))?
        .connect_timeout(patience)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(patience)
        .keep_alive_timeout(patience)
        .keep_alive_while_idle(true);
    let channel: Channel = endpoint.connect().await.map_err(|error| failure::of(&error))?;
    let mut client = FabricClient::new(channel).max_decoding_message_size(LARGEST).max_encoding_message_size(LARGEST);
    let (said, to_broker) = mpsc::channel(OUTGOING);
    let hello = from_leader::Message::Hello(proto::Hello { machine });
    let hello = proto::FromLeader { message: Some(hello) };
    said.send(hello).await.map_err(|_| "the call ended before it began".to_owned())?;
    let reply = client.lead(ReceiverStream::new(to_broker)).await.map_err(|status| failure::of_status(&status))?;
    Ok((reply.into_inner(), said))
}
