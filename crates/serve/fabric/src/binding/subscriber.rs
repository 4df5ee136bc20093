//! [`Subscriber`]: the side of a machine or a switch.
//!
//! Problem: an agent must never wait for the controller, and subscribes to whichever fabric broker leads. Approach: a
//! thread of its own holds one stream, tries one broker after the other, also where it is redirected, and passes
//! messages both ways through queues of bounded length. After a failure it waits 100 ms, twice as long each time, up to
//! 5 s, each time less a random half.

use crate::binding_proto::binding_client::BindingClient;
use crate::binding_proto::{self as proto, from_controller, from_subscriber};
use crate::clock::now_s;
use crate::connector::{Connector, HostSockets};
use crate::daemon::LARGEST_OF_TENANTS;
use crate::failure;
use crate::identity::{Identity, IdentityError, IdentityFiles, Use};
use crate::session::SessionError;
use crate::url::BrokerUrl;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio::time::{Duration, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tracing::{info, warn};

/// Messages that wait for the stream, or for the subscriber to take them.
const QUEUED: usize = 256;
/// The first wait after a failure, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long a broker may take to reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most redirections in a row: brokers that elect a leader may disagree.
const MOST_REDIRECTIONS: u32 = 3;

/// Configuration of a subscriber.
#[derive(Debug, Clone)]
pub struct SubscriberConfig {
    /// Its name in the policy.
    pub name: String,
    /// Whether it is a switch; a machine otherwise.
    pub is_switch: bool,
    /// Addresses of fabric brokers; at least one.
    pub brokers: Vec<BrokerUrl>,
    /// The files of the identity; the certificate has the name.
    pub identity: IdentityFiles,
    /// The host that lets the subscriber's sockets connect to brokers, if it refuses those of other programs.
    pub sockets: Option<Arc<dyn HostSockets>>,
}

impl SubscriberConfig {
    /// Checks the identity, as [`Subscriber::start`] does.
    ///
    /// # Errors
    /// An identity that cannot be used, or does not name the subscriber.
    pub fn check(&self) -> Result<(), SessionError> {
        let identity = Identity::read(&self.identity)?;
        identity.check_use(Use::Connect, &self.identity)?;
        identity.check_name(&self.name, &self.identity)?;
        Ok(())
    }
}

/// A message of the controller.
#[derive(Debug, Clone, PartialEq)]
pub enum FromController {
    /// A stream begins; the fingerprint of the controller's policy and the control interval.
    Up {
        /// The fingerprint.
        policy: u64,
        /// The control interval.
        interval: weir_units::Duration,
    },
    /// Settings of a machine.
    Machine(proto::MachineSettings),
    /// Settings of a switch.
    Switch(proto::SwitchSettings),
    /// A reading of a queue is needed.
    Read(proto::Queue),
}

/// A message to the controller.
#[derive(Debug, Clone, PartialEq)]
pub enum ToController {
    /// The usage of tenants.
    Usage(proto::Usage),
    /// Settings are applied.
    Applied(proto::Version),
    /// A reading of a queue.
    Reading(proto::Reading),
    /// Ports had lost their configuration, and have it again.
    Reset,
}

/// The subscriber's description of itself, which may change between two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubscriberState {
    /// The fingerprint of its policy.
    pub policy: u64,
    /// Of a switch: its ports have no queues of Weir's.
    pub fresh: bool,
}

/// The handle of a subscriber's thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Subscriber {
    to_controller: mpsc::Sender<ToController>,
    messages: mpsc::Receiver<FromController>,
    state: Arc<Mutex<SubscriberState>>,
    up: Arc<Mutex<Option<String>>>,
}

impl Subscriber {
    /// Starts the thread.
    ///
    /// # Errors
    /// An identity that cannot be used, or does not name the subscriber.
    pub fn start(config: SubscriberConfig, state: SubscriberState) -> Result<Self, SessionError> {
        config.check()?;
        let (to_controller, outgoing) = mpsc::channel(QUEUED);
        let (incoming, messages) = mpsc::channel(QUEUED);
        let (state, up) = (Arc::new(Mutex::new(state)), Arc::new(Mutex::new(None)));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SessionError::Thread)?;
        let thread = Thread { config, outgoing, incoming, state: Arc::clone(&state), up: Arc::clone(&up) };
        std::thread::Builder::new()
            .name("subscriber".to_owned())
            .spawn(move || runtime.block_on(thread.run()))
            .map_err(SessionError::Thread)?;
        Ok(Self { to_controller, messages, state, up })
    }

    /// Passes a message on; it is lost if the queue is full or no stream is up. The controller sends settings again
    /// until they are confirmed.
    pub fn send(&self, message: ToController) {
        let _ = self.to_controller.try_send(message);
    }

    /// The next message. Cancelling the future loses none.
    pub async fn message(&mut self) -> FromController {
        match self.messages.recv().await {
            Some(message) => message,
            // The thread outlives this value; if it has ended by a panic, there are no messages.
            None => std::future::pending().await,
        }
    }

    /// Changes the description for streams from now on.
    pub fn set_state(&self, state: SubscriberState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// The address of the controller whose stream is up.
    pub fn up(&self) -> Option<String> {
        self.up.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Why a stream ended.
enum End {
    /// Another broker leads; `None` if its address is unknown.
    Redirected(Option<BrokerUrl>),
    /// The subscriber ends.
    Over,
    /// It failed.
    Failed(String),
}

/// A stream with its welcome.
type Opened = (proto::Welcome, tonic::Streaming<proto::FromController>, mpsc::Sender<proto::FromSubscriber>);

/// The choice of the broker for the next stream.
struct Attempts {
    /// The index of the next configured broker.
    next: usize,
    redirected_to: Option<BrokerUrl>,
    /// Redirections since the last welcome or failure.
    redirections: u32,
    /// The next wait after a failure of all brokers.
    wait: Duration,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { next: 0, redirected_to: None, redirections: 0, wait: WAITS.0 }
    }
}

impl Attempts {
    /// The broker of the next stream: the one to which the last stream was redirected, or one of these.
    fn broker(&mut self, brokers: &[BrokerUrl]) -> BrokerUrl {
        self.redirected_to.take().unwrap_or_else(|| brokers[self.next].clone())
    }
    /// A broker has welcomed the subscriber.
    fn welcomed(&mut self) {
        (self.redirections, self.wait) = (0, WAITS.0);
    }
    /// A broker has redirected the subscriber to the leader; returns whether the next stream goes there.
    fn redirect(&mut self, leader: Option<BrokerUrl>) -> bool {
        self.redirections += 1;
        self.redirected_to = leader.filter(|_| self.redirections <= MOST_REDIRECTIONS);
        self.redirected_to.is_some()
    }
    /// A stream has failed, with so many configured brokers: the next one is tried at once; returns the longest wait if
    /// all have been tried.
    fn fail(&mut self, brokers: usize) -> Option<Duration> {
        self.redirections = 0;
        self.next = (self.next + 1) % brokers;
        let wait = self.wait;
        (self.next == 0).then(|| {
            self.wait = (wait * 2).min(WAITS.1);
            wait
        })
    }
}

struct Thread {
    config: SubscriberConfig,
    outgoing: mpsc::Receiver<ToController>,
    incoming: mpsc::Sender<FromController>,
    state: Arc<Mutex<SubscriberState>>,
    up: Arc<Mutex<Option<String>>>,
}

impl Thread {
    async fn run(mut self) {
        // The seed only has to differ between subscribers.
        let mut random = SmallRng::seed_from_u64(RandomState::new().hash_one(&self.config.name));
        let mut attempts = Attempts::default();
        let mut last_failure = None;
        loop {
            let broker = attempts.broker(&self.config.brokers);
            let ended = self.stream(&broker, &mut attempts).await;
            *self.up.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let reason = match ended {
                End::Over => return,
                End::Redirected(leader) => {
                    if attempts.redirect(leader) {
                        continue;
                    }
                    format!("{broker}: no fabric broker leads yet")
                }
                End::Failed(reason) => format!("{broker}: {reason}"),
            };
            // A repeated failure is logged once.
            if last_failure.as_ref() != Some(&reason) {
                warn!("no stream to the controller of tenants' queues: {reason}");
                last_failure = Some(reason);
            }
            if let Some(wait) = attempts.fail(self.config.brokers.len()) {
                tokio::select! {
                    () = tokio::time::sleep(wait.mul_f64(random.random_range(0.5..=1.0))) => {}
                    () = self.incoming.closed() => return,
                }
            }
        }
    }

    async fn stream(&mut self, broker: &BrokerUrl, attempts: &mut Attempts) -> End {
        // A subscriber that is dropped must not open a stream afterwards: it would replace that of its successor.
        let opened = tokio::select! {
            opened = self.open(broker) => opened,
            () = self.incoming.closed() => return End::Over,
        };
        let (welcome, messages, to_broker) = match opened {
            Ok(opened) => opened,
            Err(ended) => return ended,
        };
        info!("subscribed to tenants' queues at {broker}");
        attempts.welcomed();
        *self.up.lock().unwrap_or_else(PoisonError::into_inner) = Some(broker.to_string());
        let interval = weir_units::Duration::from_nanos(welcome.interval_ns);
        if self.incoming.send(FromController::Up { policy: welcome.policy, interval }).await.is_err() {
            return End::Over;
        }
        self.exchange(messages, to_broker).await
    }

    /// A stream that the broker has welcomed.
    async fn open(&self, broker: &BrokerUrl) -> Result<Opened, End> {
        let (mut messages, to_broker) = match timeout(PATIENCE, self.connect(broker)).await {
            Ok(Ok(both)) => both,
            Ok(Err(reason)) => return Err(End::Failed(reason)),
            Err(_) => return Err(End::Failed(format!("no reply within {} s", PATIENCE.as_secs()))),
        };
        match timeout(PATIENCE, messages.message()).await {
            Ok(Ok(Some(proto::FromController { message: Some(from_controller::Message::Welcome(welcome)) }))) => {
                Ok((welcome, messages, to_broker))
            }
            Ok(Ok(Some(proto::FromController { message: Some(from_controller::Message::Elsewhere(elsewhere)) }))) => {
                Err(End::Redirected(elsewhere.url.parse().ok()))
            }
            Ok(Ok(_)) => Err(End::Failed("it sent no welcome".to_owned())),
            Ok(Err(status)) => Err(End::Failed(failure::of_status(&status))),
            Err(_) => Err(End::Failed("it sent no welcome in time".to_owned())),
        }
    }

    /// Exchanges messages until the stream ends.
    async fn exchange(
        &mut self,
        mut messages: tonic::Streaming<proto::FromController>,
        to_broker: mpsc::Sender<proto::FromSubscriber>,
    ) -> End {
        // Of an earlier stream.
        while self.outgoing.try_recv().is_ok() {}
        loop {
            let message = tokio::select! {
                message = messages.message() => message,
                own = self.outgoing.recv() => {
                    let Some(own) = own else { return End::Over };
                    let own = match own {
                        ToController::Usage(usage) => from_subscriber::Message::Usage(usage),
                        ToController::Applied(version) => from_subscriber::Message::Applied(version),
                        ToController::Reading(reading) => from_subscriber::Message::Reading(reading),
                        ToController::Reset => from_subscriber::Message::Reset(proto::Reset {}),
                    };
                    // The reason for the end of the stream is read next.
                    tokio::select! {
                        _ = to_broker.send(proto::FromSubscriber { message: Some(own) }) => continue,
                        () = self.incoming.closed() => return End::Over,
                    }
                }
                () = self.incoming.closed() => return End::Over,
            };
            let message = match message {
                Ok(Some(proto::FromController { message: Some(message) })) => message,
                Ok(Some(_)) => continue,
                Ok(None) => return End::Failed("it closed the stream".to_owned()),
                Err(status) => return End::Failed(failure::of_status(&status)),
            };
            let taken = match message {
                from_controller::Message::Machine(settings) => FromController::Machine(settings),
                from_controller::Message::Switch(settings) => FromController::Switch(settings),
                from_controller::Message::Read(queue) => FromController::Read(queue),
                from_controller::Message::Elsewhere(elsewhere) => return End::Redirected(elsewhere.url.parse().ok()),
                from_controller::Message::Welcome(_) => continue,
            };
            if self.incoming.send(taken).await.is_err() {
                return End::Over;
            }
        }
    }

    async fn connect(
        &self,
        broker: &BrokerUrl,
    ) -> Result<(tonic::Streaming<proto::FromController>, mpsc::Sender<proto::FromSubscriber>), String> {
        let reported = |error: IdentityError| format!("{error}; {}", error.hint());
        let files = &self.config.identity;
        let identity = Identity::read(files).map_err(reported)?;
        identity.check_use(Use::Connect, files).map_err(reported)?;
        identity.check_dates(now_s(), files).map_err(reported)?;
        let own = tonic::transport::Identity::from_pem(&identity.pem.certificate, &identity.pem.private_key);
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&identity.pem.ca)).identity(own);
        let endpoint = Endpoint::from_shared(broker.to_string()).and_then(|endpoint| endpoint.tls_config(tls));
        let endpoint = endpoint
            .map_err(|error| failure::of(&error))?
            .connect_timeout(PATIENCE)
            .http2_keep_alive_interval(PATIENCE)
            .keep_alive_timeout(PATIENCE)
            .keep_alive_while_idle(true);
        let (broker, host) = (broker.clone(), self.config.sockets.clone());
        let connector = Connector { broker, host, patience: PATIENCE };
        let channel = endpoint.connect_with_connector(connector).await.map_err(|error| failure::of(&error))?;
        let mut client = BindingClient::new(channel)
            .max_decoding_message_size(LARGEST_OF_TENANTS)
            .max_encoding_message_size(LARGEST_OF_TENANTS);
        let (to_broker, outgoing) = mpsc::channel(QUEUED);
        let SubscriberState { policy, fresh } = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = if self.config.is_switch { proto::Kind::Switch } else { proto::Kind::Machine };
        let hello = proto::Hello { name: self.config.name.clone(), kind: kind.into(), policy, fresh };
        let hello = proto::FromSubscriber { message: Some(from_subscriber::Message::Hello(hello)) };
        to_broker.send(hello).await.map_err(|_| "the stream ended before it began".to_owned())?;
        let reply =
            client.subscribe(ReceiverStream::new(outgoing)).await.map_err(|status| failure::of_status(&status))?;
        Ok((reply.into_inner(), to_broker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::{Ca, Holder};

    fn brokers(count: u32) -> Vec<BrokerUrl> {
        (1..=count).map(|at| format!("https://10.0.0.{at}:1").parse().expect("an address")).collect()
    }

    #[test]
    fn redirections_in_a_row_are_bounded_and_a_welcome_ends_the_row() {
        let (brokers, mut attempts) = (brokers(3), Attempts::default());
        let leader = || Some(brokers[2].clone());
        for _ in 0..10 {
            assert!(attempts.redirect(leader()));
            assert_eq!(attempts.broker(&brokers), brokers[2]);
            attempts.welcomed();
        }
        let redirected: Vec<bool> = (0..5).map(|_| attempts.redirect(leader())).collect();
        assert_eq!(redirected, [true, true, true, false, false]);
        assert!(!attempts.redirect(None));
        assert_eq!(attempts.broker(&brokers), brokers[0]);
    }

    #[test]
    fn all_brokers_are_tried_before_a_wait_which_doubles() {
        let (brokers, mut attempts) = (brokers(2), Attempts::default());
        let mut waits = Vec::new();
        for _ in 0..7 {
            assert_eq!(attempts.broker(&brokers), brokers[0]);
            assert_eq!(attempts.fail(brokers.len()), None);
            assert_eq!(attempts.broker(&brokers), brokers[1]);
            waits.push(attempts.fail(brokers.len()).expect("both were tried").as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 5_000]);
        attempts.welcomed();
        assert_eq!([attempts.fail(1), attempts.fail(1)], [100, 200].map(|ms| Some(Duration::from_millis(ms))));
    }

    /// Starts a subscriber of this broker, drops its handle after a while, and waits for the end of its thread.
    async fn ends_after_drop(broker: std::net::SocketAddr) -> bool {
        let directory = tempfile::tempdir().expect("a directory");
        let (ca, _) = Ca::open(directory.path()).expect("made");
        let holder = Holder::Machine("m1".to_owned());
        ca.issue(&holder, 2).expect("made");
        let brokers = vec![format!("https://{broker}").parse().expect("an address")];
        let (name, identity) = ("m1".to_owned(), ca.files(&holder));
        let config = SubscriberConfig { name, is_switch: false, brokers, identity, sockets: None };
        let ((_to_controller, outgoing), (incoming, messages)) = (mpsc::channel(1), mpsc::channel(1));
        let thread = Thread { config, outgoing, incoming, state: Arc::default(), up: Arc::default() };
        let thread = tokio::spawn(thread.run());
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!thread.is_finished());
        drop(messages);
        timeout(PATIENCE / 2, thread).await.is_ok()
    }

    #[tokio::test]
    async fn dropped_subscriber_ends_whether_its_broker_refuses_or_stays_silent() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        assert!(ends_after_drop(address).await, "the handshake has no reply");
        drop(listener);
        assert!(ends_after_drop(address).await, "connections are refused");
    }
}
