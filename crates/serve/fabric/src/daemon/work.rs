//! The task that owns the broker: its events and their handling.

use super::reload::Refusals;
use super::{EPOCH_FILE, FabricConfig, FabricError, STATUS_PAUSE};
use crate::accept::InUse;
use crate::binding::{Continuation, Controller};
use crate::cluster::{Cluster, ClusterEvent};
use crate::convert;
use crate::counters::Counters;
use crate::identity::Identity;
use crate::proto::{self, from_broker::Message};
use crate::service::{Event, Refusal, StreamId};
use crate::state::replace;
use crate::status::{self, Around};
use crate::streams::Streams;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tracing::{debug, info, warn};
use weir_control::{FabricBroker, FabricInput, FabricOutput};
use weir_policy::Policy;
use weir_units::{Duration, Instant, MachineId};

pub(super) struct Daemon {
    pub(super) config: FabricConfig,
    /// The address at which agents reach this broker.
    url: String,
    /// The host of the address if agents use its name: certificates must contain it.
    pub(super) host: Option<String>,
    pub(super) counters: Arc<Counters>,
    pub(super) in_use: InUse,
    pub(super) certificate_ends: i64,
    pub(super) policy: Arc<Policy>,
    pub(super) epoch: u64,
    /// The broker, if this daemon leads.
    pub(super) broker: Option<FabricBroker>,
    /// The address of the leading broker, as far as it is known.
    pub(super) leader: Option<String>,
    pub(super) cluster: Option<Cluster>,
    pub(super) streams: Streams,
    /// The controller of tenants' queues, if this daemon leads and has their places.
    pub(super) controller: Option<Controller>,
    /// The state of tenants' queues while no controller has it.
    pub(super) continuation: Option<Continuation>,
    /// The number of the next stream of a subscriber.
    pub(super) subscribers: StreamId,
    started: tokio::time::Instant,
    /// Why policies are not in force.
    pub(super) refusals: Refusals,
    /// Why the last certificates were refused, if they were.
    pub(super) certificate_refused: Option<String>,
    /// When the status was written, and when it is due next.
    written: Instant,
    pub(super) status_due: Option<Instant>,
    /// Whether the warning about a failed write was logged.
    warned: bool,
}

impl Daemon {
    pub(super) fn new(
        mut config: FabricConfig,
        listen: SocketAddr,
        counters: Arc<Counters>,
        in_use: InUse,
        identity: &Identity,
        epoch: u64,
    ) -> Self {
        let policy = config.policy.clone();
        let (mut url, mut host) = (format!("https://{listen}"), None);
        let cluster = config.cluster.take().map(|(cluster, text)| {
            (url, host) = (cluster.url.to_string(), Some(cluster.url.host().to_owned()));
            Cluster::start(cluster, &policy, text, config.state.clone(), EPOCH_FILE)
        });
        let alone = cluster.is_none();
        let broker = alone.then(|| FabricBroker::new(&policy, epoch, config.broker, Instant::ZERO));
        info!("fabric broker ready: {} racks, listening on {listen}", policy.network().racks().len());
        // A controller of tenants' queues needs none.
        if !weir_alloc::has_fabric_limits(&policy) && config.placement.is_none() {
            warn!("the policy has no fabric limits: no rack leader will report");
        }
        Self {
            url,
            host,
            counters,
            in_use,
            certificate_ends: identity.expires(),
            policy,
            epoch,
            broker,
            leader: None,
            cluster,
            streams: Streams::default(),
            controller: None,
            continuation: None,
            subscribers: 0,
            started: tokio::time::Instant::now(),
            refusals: Refusals::default(),
            certificate_refused: None,
            written: Instant::ZERO,
            status_due: Some(Instant::ZERO),
            warned: false,
            config,
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Runs until a fatal error.
    pub(super) async fn run(
        &mut self,
        mut events: mpsc::Receiver<Event>,
        mut reload: Signal,
    ) -> Result<(), FabricError> {
        loop {
            self.keep_tenants();
            self.write_status_if_due();
            let next_period = self.broker.as_ref().and_then(FabricBroker::poll_timeout);
            let due = next_period.into_iter().chain(self.status_due).chain(self.next_binding()).min();
            let wait = due.map(|due| due.saturating_since(self.now()));
            // In this order: a leadership that was lost ends before other events, and events of many streams delay no
            // period.
            tokio::select! {
                biased;
                event = next_event(&mut self.cluster) => match event {
                    Some(event) => self.receive(event),
                    None => {
                        // No task watches the lease any more: another broker may lead at any time.
                        self.stop_leading(None);
                        return Err(FabricError::MemberEnded);
                    }
                },
                _ = reload.recv() => self.reload(),
                () = sleep(wait) => {
                    self.handle(FabricInput::Timeout);
                    let now = self.now();
                    if self.controller.as_mut().is_some_and(|controller| controller.on_time(now)) {
                        self.status_due = Some(now);
                    }
                }
                // The server holds the sender for as long as this loop runs.
                Some(event) = events.recv() => self.take(event),
            }
        }
    }

    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Stream { machine, responses, verdict } => {
                let Some(id) = self.policy.network().machine_named(&machine) else {
                    let _ = verdict.send(Err(Refusal::Unknown));
                    return;
                };
                debug!("`{machine}` opens a stream");
                if self.broker.is_none() {
                    let _ = responses.try_send(Ok(elsewhere(self.leader.as_deref())));
                    let _ = verdict.send(Err(Refusal::Elsewhere));
                    return;
                }
                let welcome = proto::Welcome {
                    policy: self.policy.digest(),
                    epoch: self.epoch,
                    period_ns: self.config.broker.period.nanos(),
                };
                // The channel is new, so there is room.
                let _ = responses.try_send(Ok(proto::FromBroker { message: Some(Message::Welcome(welcome)) }));
                let (stream, over) = self.streams.begin(id, machine, responses);
                // Without a request no task would report the end of the stream.
                if verdict.send(Ok((stream, over))).is_err() {
                    self.streams.end(stream);
                }
                self.changed();
            }
            Event::Report(stream, report) => self.take_report(stream, &report, |report| FabricInput::Report(report)),
            Event::Reply(stream, reply) => self.take_report(stream, &reply, |reply| FabricInput::Reply(reply)),
            Event::Notice(stream, notice) => self.take_notice(stream, &notice),
            Event::End(stream) => {
                self.streams.end(stream);
                self.changed();
            }
            Event::Subscriber(event) => self.take_subscriber(event),
        }
    }

    /// Passes a report or a reply to the broker as `input`.
    fn take_report(
        &mut self,
        stream: StreamId,
        report: &proto::Report,
        input: impl Fn(&weir_control::RackReport) -> FabricInput<'_>,
    ) {
        // A report that arrives after the end of its stream is obsolete.
        let Some(machine) = self.streams.machine(stream) else { return };
        match convert::report(machine, report) {
            Ok(report) => self.handle(input(&report)),
            Err(malformed) => {
                self.counters.malformed.add();
                debug!("from `{}`: {malformed}", self.policy.network().machine(machine).name());
            }
        }
    }

    /// Passes an input to the broker, and sends what it outputs.
    pub(super) fn handle(&mut self, input: FabricInput<'_>) {
        let now = self.now();
        let Some(broker) = &mut self.broker else { return };
        let before = broker.round();
        broker.handle_input(now, input);
        if broker.round() != before {
            self.status_due = Some(now);
        }
        while let Some(output) = self.broker.as_mut().and_then(FabricBroker::poll_output) {
            match output {
                FabricOutput::SendLimits { to, limits } => self.reply(to, convert::from_limits(&limits)),
                FabricOutput::Propose { to, limits } => self.reply(to, convert::from_proposal(&limits)),
                FabricOutput::NotifyEpoch(notice) => self.notify(&notice),
                FabricOutput::StoreEpoch(epoch) => self.continue_in(epoch),
            }
        }
    }

    /// Handles an event about the leadership or the policy for all.
    fn receive(&mut self, event: ClusterEvent) {
        match event {
            ClusterEvent::Leads(epoch, kept) => {
                info!("this fabric broker leads; the first limits come in {}", self.config.broker.period);
                self.epoch = epoch;
                self.leader = None;
                self.broker = Some(FabricBroker::new(&self.policy, epoch, self.config.broker, self.now()));
                self.lead_tenants(epoch, kept);
            }
            ClusterEvent::Kept(epoch, result) => return self.tenants_kept(epoch, result),
            ClusterEvent::Follows(leader) => {
                match &leader {
                    Some(leader) => info!("the fabric broker at {leader} leads"),
                    None => info!("no fabric broker leads"),
                }
                self.stop_leading(leader);
            }
            of_policy => self.receive_policy(of_policy),
        }
        self.status_due = Some(self.now());
    }

    /// Another broker leads, or none: every connected rack leader is redirected there.
    fn stop_leading(&mut self, leader: Option<String>) {
        self.leader = leader;
        self.broker = None;
        self.stop_tenants();
        for stream in self.streams.take() {
            let _ = stream.responses.try_send(Ok(elsewhere(self.leader.as_deref())));
        }
    }

    pub(super) fn reply(&mut self, to: MachineId, message: proto::FromBroker) {
        let name = || self.policy.network().machine(to).name();
        match self.streams.of(to).map(|stream| stream.responses.try_send(Ok(message))) {
            Some(Ok(())) => {}
            None | Some(Err(TrySendError::Closed(_))) => {
                self.counters.unsent.add();
                debug!("`{}` has no stream for its limits", name());
            }
            Some(Err(TrySendError::Full(_))) => {
                self.counters.not_taken.add();
                debug!("`{}` does not take its limits", name());
            }
        }
    }

    /// A stream began or ended: the status is written soon, but once for many changes.
    pub(super) fn changed(&mut self) {
        self.status_due = self.status_due.or(Some(self.now().max(self.written + STATUS_PAUSE)));
    }

    /// Writes the status when it is due. A failed write is logged once until a write succeeds.
    fn write_status_if_due(&mut self) {
        let now = self.now();
        if self.status_due.is_none_or(|due| now < due) {
            return;
        }
        // Written once a period at least, since watchers take a status that does not change for
        // lost.
        (self.status_due, self.written) = (Some(now + self.config.broker.period), now);
        if self.config.status.is_none() && self.config.publisher.is_none() {
            return;
        }
        let around = Around {
            url: &self.url,
            leader: if self.broker.is_some() { Some(&self.url) } else { self.leader.as_deref() },
            epoch: self.epoch,
            uptime: now.saturating_since(Instant::ZERO),
            period: self.config.broker.period,
            certificate_ends: self.certificate_ends,
            refused: self.refusals.reason(),
            certificate_refused: self.certificate_refused.as_deref(),
            streams: self.streams.len(),
            tenants: self.controller.as_ref().map(Controller::status),
            counters: &self.counters,
        };
        let status = status::of(&self.policy, self.broker.as_ref(), &around);
        if let Some(publisher) = &self.config.publisher {
            publisher.publish(status.clone());
        }
        let Some(path) = &self.config.status else { return };
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

fn elsewhere(leader: Option<&str>) -> proto::FromBroker {
    let url = leader.unwrap_or_default().to_owned();
    proto::FromBroker { message: Some(Message::Elsewhere(proto::Elsewhere { url })) }
}

/// The next event of the cluster; pending for ever without one.
async fn next_event(cluster: &mut Option<Cluster>) -> Option<ClusterEvent> {
    match cluster {
        Some(cluster) => cluster.next_event().await,
        None => std::future::pending().await,
    }
}

/// Sleeps for `wait`; pending for ever without one.
async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(std::time::Duration::from_nanos(wait.nanos())).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ca::{Ca, Holder};
    use std::path::{Path, PathBuf};
    use tokio::signal::unix::{SignalKind, signal};
    use weir_control::FabricBrokerConfig;

    const POLICY: &str = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1] } } }\n\
                          services: { a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 1Gb/s } } }\n";

    /// A daemon that is the only broker, with the files of a directory.
    pub(in crate::daemon) fn daemon(directory: &Path, policy: &str, placement: Option<PathBuf>) -> Daemon {
        let (ca, _) = Ca::open(directory).expect("made");
        let holder = Holder::Fabric(vec!["127.0.0.1".to_owned()]);
        ca.issue(&holder, 2).expect("made");
        let identity = Identity::read(&ca.files(&holder)).expect("sound");
        let config = FabricConfig {
            policy: Arc::new(Policy::parse("policy.yaml", policy).unwrap_or_else(|errors| panic!("{errors}")).0),
            policy_file: directory.join("policy.yaml"),
            listen: "127.0.0.1:0".parse().expect("an address"),
            identity: ca.files(&holder),
            state: directory.join("state"),
            broker: FabricBrokerConfig::default(),
            status: None,
            publisher: None,
            cluster: None,
            placement,
        };
        let (listen, in_use) = (config.listen, InUse::new(identity.server()));
        Daemon::new(config, listen, Arc::default(), in_use, &identity, 1)
    }

    #[tokio::test]
    async fn stream_of_a_dropped_request_ends() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut daemon = daemon(directory.path(), POLICY, None);
        let stream = || {
            let (verdict, decided) = tokio::sync::oneshot::channel();
            (Event::Stream { machine: "m1".to_owned(), responses: mpsc::channel(4).0, verdict }, decided)
        };
        let (kept, _decided) = stream();
        daemon.take(kept);
        assert_eq!(daemon.streams.len(), 1);
        let (stream, decided) = stream();
        drop(decided);
        daemon.take(stream);
        assert_eq!(daemon.streams.len(), 0);
    }

    #[tokio::test]
    async fn broker_without_its_cluster_task_stops_leading_and_ends() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut daemon = daemon(directory.path(), POLICY, None);
        let (responses, mut to_leader) = mpsc::channel(4);
        let (verdict, _verdict) = tokio::sync::oneshot::channel();
        daemon.take(Event::Stream { machine: "m1".to_owned(), responses, verdict });
        assert!(daemon.broker.is_some());
        daemon.cluster = Some(Cluster::lost());
        let (_events, from_streams) = mpsc::channel(1);
        let reload = signal(SignalKind::hangup()).expect("a signal");
        let ended = daemon.run(from_streams, reload).await;
        assert!(matches!(ended, Err(FabricError::MemberEnded)), "{ended:?}");
        assert!(daemon.broker.is_none());
        let mut messages =
            std::iter::from_fn(|| to_leader.try_recv().ok()).map(|message| message.expect("a message").message);
        assert!(matches!(messages.next(), Some(Some(Message::Welcome(_)))));
        assert!(matches!(messages.next(), Some(Some(Message::Elsewhere(elsewhere))) if elsewhere.url.is_empty()));
        assert!(messages.next().is_none() && to_leader.is_closed());
    }
}
