//! [`Controller`]: the binder with its subscribers.

use super::history::{History, Past};
use super::placement::Places;
use super::store::{Adopted, Store};
use super::timing::Timing;
use crate::binding_proto::{self as proto, from_controller, from_subscriber};
use crate::clock::now_ms;
use crate::cluster::TenantBatch;
use crate::service::StreamId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;
use tracing::{debug, info, warn};
use weir_binding::binder::{
    Binder, BinderConfig, BinderCounters, BinderInput, BinderOutput, Place, PortSettings, QueueId, TenantSettings,
    TenantState, Version,
};
use weir_binding::{PortId, SwitchId};
use weir_policy::Policy;
use weir_units::{Bandwidth, Duration, Instant, MachineId, PerDirection, TenantId};

/// The channel to a subscriber.
pub(crate) type Messages = mpsc::Sender<Result<proto::FromController, Status>>;

/// Why tenants have no queues.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unbound {
    /// The switches have one queue or strict ones.
    #[error("the policy's switches have no weighted queues: write `switches: {{ queues: 8, scheduler: weighted }}`")]
    Unweighted,
    /// The file of places.
    #[error("{0}")]
    Placement(String),
    /// A machine and a switch have one name, and so one certificate.
    #[error("a machine and a switch are both called `{0}`, and a certificate could not distinguish them: rename one")]
    OneName(String),
    /// The state of an earlier controller.
    #[error("read the state of tenants' queues: {0}")]
    State(#[source] io::Error),
}

/// A machine or a switch that subscribes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SubscriberId {
    /// A machine.
    Machine(MachineId),
    /// A switch.
    Switch(SwitchId),
}

struct Stream {
    id: StreamId,
    messages: Messages,
    /// Whether the subscriber has the same policy; another one numbers tenants otherwise.
    same_policy: bool,
    /// Dropping it ends the task that receives.
    _over: oneshot::Sender<()>,
}

/// The versions of one controller after those of an earlier one of the same epoch: more than it can have used.
const GENERATION: u64 = 1 << 40;

/// The state, version and history with which a controller of this leadership continues.
pub(crate) struct Continuation {
    store: Store,
    /// The first version, higher than all versions of earlier controllers.
    first: Version,
    /// `None` for the first controller of a leadership.
    history: Option<History>,
}

impl Continuation {
    /// Of the first controller of a leadership with this epoch.
    pub(crate) fn first(store: Store, epoch: u64) -> Self {
        Self { store, first: Version { epoch, number: 0 }, history: None }
    }
}

/// The binder, its network and its subscribers.
pub(crate) struct Controller {
    pub(super) policy: Arc<Policy>,
    pub(super) places: Places,
    pub(super) binder: Binder,
    store: Store,
    /// The first version: those of the binder are counted from it.
    first: Version,
    /// Outputs that wait until the changes up to this one are stored.
    held: VecDeque<(u64, BinderOutput)>,
    /// By tenant, whether it has queues of its own.
    has_queues: Vec<bool>,
    /// By tenant, when it left or entered the shared queue, in milliseconds since 1970; `None` before this leadership.
    pub(super) since: Vec<Option<u64>>,
    pub(super) timing: Timing,
    /// The counters of earlier binders of this leadership.
    earlier: BinderCounters,
    streams: BTreeMap<SubscriberId, Stream>,
    subscribers: BTreeMap<StreamId, SubscriberId>,
    /// The machines and switches of tenants.
    expected: BTreeSet<SubscriberId>,
    /// Those of them without a stream of the same policy.
    missing: BTreeSet<SubscriberId>,
    /// Streams that have begun, and losses of queues that switches have reported.
    pub(super) begun: u64,
    pub(super) resets: u64,
    /// The DSCP values that tenants can have.
    values: u64,
    interval: Duration,
    /// Whether the warning about a state that cannot be stored was logged.
    warned: bool,
}

impl Controller {
    /// A controller that continues from the stored state of an earlier one, and with the history of this leadership.
    pub(crate) fn new(policy: &Arc<Policy>, places: Places, continuation: Continuation, now: Instant) -> Self {
        let Continuation { mut store, first, history } = continuation;
        let Adopted { state: earlier, others, without_value } = store.state(policy, &places);
        if others > 0 {
            warn!("{others} tenants begin in the shared queue: they have other ports or queues than they had before");
        }
        if without_value > 0 {
            warn!(
                "{without_value} of them had DSCP values that others have at their ports: a machine of theirs that is \
                 off would return with such a value"
            );
        }
        let config = BinderConfig::of_policy(policy, places.hops);
        let (interval, values) = (config.interval, config.pool.iter().fold(0, |bits, dscp| bits | 1 << dscp));
        let has_queues = earlier.iter().map(|state| state.place != Place::Shared).collect();
        let since = match &history {
            Some(history) => history.since(policy, &earlier, now_ms()),
            None => vec![None; earlier.len()],
        };
        let mut history = history.unwrap_or_default();
        let timing = history.renumbered(policy, &earlier);
        let binder = Binder::new(&places.sites, config, first.epoch, earlier, now);
        let machines: BTreeSet<MachineId> =
            places.sites.tenants.iter().flat_map(|site| site.machines.iter().map(|(machine, _)| *machine)).collect();
        let ports = places.sites.tenants.iter().flat_map(|site| &site.ports);
        let switches: BTreeSet<SwitchId> = ports.map(|(port, _)| places.sites.ports[port.index()].switch).collect();
        let expected: BTreeSet<SubscriberId> = machines
            .iter()
            .map(|machine| SubscriberId::Machine(*machine))
            .chain(switches.into_iter().map(SubscriberId::Switch))
            .collect();
        let mut controller = Self {
            since,
            timing,
            earlier: history.counters,
            policy: Arc::clone(policy),
            places,
            binder,
            has_queues,
            store,
            first,
            held: VecDeque::new(),
            streams: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            missing: expected.clone(),
            expected,
            begun: history.begun,
            resets: history.resets,
            values,
            interval,
            warned: false,
        };
        for machine in machines {
            controller.handle(now, BinderInput::MachineDisconnected { machine });
        }
        controller
    }

    /// Ends this controller: its subscribers connect again. Returns what a following one of this broker continues with.
    pub(crate) fn end_for(mut self, leader: Option<&str>) -> Continuation {
        self.redirect(leader);
        let (counters, names) = (self.counters(), self.policy.tenants().iter().map(|tenant| tenant.name.clone()));
        let names: Vec<String> = names.collect();
        let past = |(has_queues, since): (&bool, &Option<u64>)| Past { has_queues: *has_queues, since: *since };
        let tenants = names.iter().cloned().zip(self.has_queues.iter().zip(&self.since).map(past)).collect();
        let (timing, begun, resets) = (self.timing, self.begun, self.resets);
        let history = Some(History { tenants, names, timing, counters, begun, resets });
        let first = Version { number: self.first.number + GENERATION, ..self.first };
        Continuation { store: self.store, first, history }
    }

    /// The counters of all binders of this leadership.
    pub(super) fn counters(&self) -> BinderCounters {
        self.earlier + *self.binder.counters()
    }

    /// The subscriber with this name.
    pub(crate) fn subscriber(&self, hello: &proto::Hello) -> Option<SubscriberId> {
        match hello.kind() {
            proto::Kind::Machine => self.policy.network().machine_named(&hello.name).map(SubscriberId::Machine),
            proto::Kind::Switch => self.places.switch(&hello.name).map(SubscriberId::Switch),
            proto::Kind::Unspecified => None,
        }
    }

    /// Registers a stream; an earlier one of the subscriber ends. Returns the receiver that completes when it must end.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        (subscriber, hello): (SubscriberId, &proto::Hello),
        id: StreamId,
        messages: Messages,
    ) -> oneshot::Receiver<()> {
        let welcome = proto::Welcome { policy: self.policy.digest(), interval_ns: self.interval.nanos() };
        // The channel is new, so there is room.
        let _ = messages.try_send(Ok(message(from_controller::Message::Welcome(welcome))));
        let (over, ended) = oneshot::channel();
        self.subscribers.insert(id, subscriber);
        self.begun += 1;
        let same_policy = hello.policy == self.policy.digest();
        if !same_policy {
            warn!("`{}` has another policy: it gets no settings of tenants' queues", hello.name);
        }
        match same_policy {
            true => self.missing.remove(&subscriber),
            false => self.expected.contains(&subscriber) && self.missing.insert(subscriber),
        };
        if let Some(old) = self.streams.insert(subscriber, Stream { id, messages, same_policy, _over: over }) {
            self.subscribers.remove(&old.id);
        }
        if let (SubscriberId::Switch(switch), true) = (subscriber, hello.fresh) {
            self.resets += 1;
            self.handle(now, BinderInput::SwitchReset { switch });
        }
        // The subscriber may have lost the settings that it confirmed on an earlier stream.
        self.handle(
            now,
            match subscriber {
                // One with another policy applies nothing, as one that is off.
                SubscriberId::Machine(machine) if !same_policy => BinderInput::MachineDisconnected { machine },
                SubscriberId::Machine(machine) => BinderInput::MachineConnected { machine },
                SubscriberId::Switch(switch) => BinderInput::SwitchConnected { switch },
            },
        );
        ended
    }

    /// A stream has ended.
    pub(crate) fn end(&mut self, now: Instant, id: StreamId) {
        if let Some(subscriber) = self.subscribers.remove(&id) {
            self.streams.remove(&subscriber);
            if self.expected.contains(&subscriber) {
                self.missing.insert(subscriber);
            }
            if let SubscriberId::Machine(machine) = subscriber {
                self.handle(now, BinderInput::MachineDisconnected { machine });
            }
        }
    }

    /// Takes a message of a subscriber; `false` for one that no subscriber of its kind sends.
    pub(crate) fn take(&mut self, now: Instant, id: StreamId, message: from_subscriber::Message) -> bool {
        // A message that arrives after the end of its stream is obsolete.
        let Some(subscriber) = self.subscribers.get(&id).copied() else { return true };
        // Another policy numbers tenants otherwise, so its numbers would count for others. The loss of a switch's
        // configuration names none.
        let same_policy = self.streams.get(&subscriber).is_some_and(|stream| stream.same_policy);
        if !same_policy && !matches!(message, from_subscriber::Message::Reset(_)) {
            return true;
        }
        match (message, subscriber) {
            (from_subscriber::Message::Usage(usage), SubscriberId::Machine(machine)) => {
                for used in usage.tenants {
                    let tenant = TenantId(used.tenant);
                    if tenant.index() >= self.places.sites.tenants.len() {
                        return false;
                    }
                    let rate = |bps| Bandwidth::from_bps(bps).min(Bandwidth::MAX);
                    let used = PerDirection { tx: rate(used.tx_bps), rx: rate(used.rx_bps) };
                    self.handle(now, BinderInput::Usage { machine, tenant, used });
                }
                true
            }
            (from_subscriber::Message::Applied(version), subscriber) => {
                // A confirmation for an earlier controller does not count.
                let Some(number) = version.number.checked_sub(self.first.number) else { return true };
                let version = Version { epoch: version.epoch, number };
                self.handle(
                    now,
                    match subscriber {
                        SubscriberId::Machine(machine) => BinderInput::MachineApplied { machine, version },
                        SubscriberId::Switch(switch) => BinderInput::SwitchApplied { switch, version },
                    },
                );
                true
            }
            (from_subscriber::Message::Reading(reading), SubscriberId::Switch(switch)) => {
                let Some(queue) = reading.queue else { return false };
                let Some(port) = self.places.port(switch, &queue.port) else { return false };
                let Ok(index) = u8::try_from(queue.queue) else { return false };
                let (queue_round, queue) = (queue.round, QueueId { port, queue: index.checked_sub(1) });
                let (round, sent, backlog) = (queue_round, reading.sent, reading.backlog);
                self.handle(now, BinderInput::QueueRead { queue, round, sent, backlog });
                true
            }
            (from_subscriber::Message::Reset(_), SubscriberId::Switch(switch)) => {
                info!("`{}` had lost its configuration", self.places.switches[switch.index()]);
                self.resets += 1;
                self.handle(now, BinderInput::SwitchReset { switch });
                true
            }
            _ => false,
        }
    }

    /// The number of machines and switches with a stream.
    pub(super) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Whether all machines and switches of tenants have a stream of the same policy: a move waits for none without
    /// settings.
    fn all_subscribed(&self) -> bool {
        self.missing.is_empty()
    }

    /// The time of the next timeout.
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.store.poll_timeout().map_or(self.binder.poll_timeout(), |store| store.min(self.binder.poll_timeout()))
    }

    /// The next states for etcd, if the state is kept there.
    pub(crate) fn poll_batch(&mut self, now: Instant) -> Option<TenantBatch> {
        self.store.poll_batch(now)
    }

    /// etcd has taken states that this controller handed over in this epoch, or not.
    pub(crate) fn kept(&mut self, now: Instant, epoch: u64, result: Result<(), String>) {
        if epoch != self.first.epoch {
            return;
        }
        self.store.replied(now, result.is_ok());
        match result {
            Ok(()) => self.warned = false,
            Err(error) => self.warn(&error),
        }
        self.carry_out_stored();
        if self.warned {
            // They are due again after the retry; etcd may refuse for long.
            self.held.clear();
        }
    }

    fn warn(&mut self, error: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            warn!("keep the state of tenants' queues: {error}; no settings are sent until it is kept");
        }
    }

    /// Passes the timeout to the binder if it is due; returns whether a control interval ended.
    pub(crate) fn on_time(&mut self, now: Instant) -> bool {
        let intervals = self.binder.counters().intervals;
        if self.binder.poll_timeout() <= now {
            self.handle(now, BinderInput::Timeout);
        }
        self.binder.counters().intervals > intervals
    }

    /// Redirects all subscribers to the leading broker.
    fn redirect(&mut self, leader: Option<&str>) {
        self.subscribers.clear();
        self.missing.clone_from(&self.expected);
        for stream in std::mem::take(&mut self.streams).into_values() {
            let _ = stream.messages.try_send(Ok(elsewhere(leader)));
        }
    }

    fn handle(&mut self, now: Instant, input: BinderInput) {
        self.binder.handle_input(now, input);
        while let Some(output) = self.binder.poll_output() {
            match output {
                BinderOutput::Keep { tenant, state } => self.keep(now, tenant, state),
                other => self.held.push_back((self.store.last(), other)),
            }
        }
        match self.store.write() {
            Ok(()) => {
                self.warned &= !self.store.is_file();
                self.carry_out_stored();
            }
            Err(error) => {
                self.warn(&error.to_string());
                self.carry_out_stored();
                // Settings that follow from a step that no successor would continue are not sent; they are due again
                // after the retry.
                self.held.clear();
            }
        }
    }

    /// Takes the new state of a tenant, which is to be stored.
    pub(super) fn keep(&mut self, now: Instant, tenant: TenantId, state: TenantState) {
        let at = tenant.index();
        let all_subscribed = self.all_subscribed();
        self.timing.take(now, at, &state, all_subscribed);
        let has_queues = state.place != Place::Shared;
        if std::mem::replace(&mut self.has_queues[at], has_queues) != has_queues {
            self.since[at] = Some(now_ms());
        }
        self.store.put(&self.policy, &self.places, at, state);
    }

    /// Carries out the outputs for which all changes before them are stored.
    fn carry_out_stored(&mut self) {
        while let Some((_, output)) = self.held.pop_front_if(|(change, _)| *change <= self.store.stored()) {
            self.carry_out(output);
        }
    }

    /// Sends an output to its subscriber.
    fn carry_out(&self, output: BinderOutput) {
        let (subscriber, message) = match output {
            BinderOutput::Machine { machine, version, tenants } => {
                let tenants = tenants.iter().map(|(tenant, settings)| self.tenant(machine, *tenant, *settings));
                let (version, tenants) = (Some(self.version(version)), tenants.collect());
                let settings = proto::MachineSettings { version, values: self.values, tenants };
                (SubscriberId::Machine(machine), from_controller::Message::Machine(settings))
            }
            BinderOutput::Switch { switch, version, ports } => {
                let ports = ports.iter().map(|(port, settings)| self.port(*port, settings)).collect();
                let settings = proto::SwitchSettings { version: Some(self.version(version)), ports };
                (SubscriberId::Switch(switch), from_controller::Message::Switch(settings))
            }
            BinderOutput::Read { queue: QueueId { port, queue }, round } => {
                let switch = self.places.sites.ports[port.index()].switch;
                let queue = queue.map_or(0, |queue| u32::from(queue) + 1);
                let queue = proto::Queue { port: self.places.ports[port.index()].clone(), queue, round };
                (SubscriberId::Switch(switch), from_controller::Message::Read(queue))
            }
            BinderOutput::Keep { .. } => return,
        };
        let stream = self.streams.get(&subscriber).filter(|stream| stream.same_policy);
        match stream.map(|stream| stream.messages.try_send(Ok(self::message(message)))) {
            Some(Ok(())) | None | Some(Err(TrySendError::Closed(_))) => {}
            Some(Err(TrySendError::Full(_))) => debug!("{subscriber:?} does not take its messages"),
        }
    }

    fn version(&self, version: Version) -> proto::Version {
        proto::Version { epoch: version.epoch, number: self.first.number + version.number }
    }

    fn tenant(&self, machine: MachineId, tenant: TenantId, settings: TenantSettings) -> proto::TenantSettings {
        proto::TenantSettings {
            tenant: tenant.0,
            dscp: settings.dscp.into(),
            limited: settings.limited,
            reserved_bps: self.places.sites.reserved(tenant, machine).bps(),
        }
    }

    fn port(&self, port: PortId, settings: &PortSettings) -> proto::PortSettings {
        proto::PortSettings {
            port: self.places.ports[port.index()].clone(),
            weights: settings.weights.clone(),
            map: settings.map.iter().map(|(dscp, queue)| (u32::from(*dscp), u32::from(*queue))).collect(),
        }
    }
}

fn message(message: from_controller::Message) -> proto::FromController {
    proto::FromController { message: Some(message) }
}

/// The address of the leading broker.
pub(crate) fn elsewhere(leader: Option<&str>) -> proto::FromController {
    let url = leader.unwrap_or_default().to_owned();
    message(from_controller::Message::Elsewhere(proto::Elsewhere { url }))
}

#[cfg(test)]
mod tests {
    use super::super::two_tenants::{SUBSCRIBERS, placement, policy};
    use super::*;
    use std::path::Path;
    use weir_binding::binder::{Motion, Step};

    /// A third machine, without tenants.
    fn controller(directory: &Path, epoch: u64) -> Controller {
        let text = policy(3, "").replace("machines: [m2]", "machines: [m2, m3]");
        let policy = Arc::new(Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0);
        let file = directory.join("placement.json");
        std::fs::write(&file, placement("spine0")).expect("written");
        let places = Places::read(&file, &policy).unwrap_or_else(|error| panic!("{error}"));
        let store = Store::in_file(directory).expect("opened");
        Controller::new(&policy, places, Continuation::first(store, epoch), Instant::ZERO)
    }

    /// A stream of a subscriber with this policy; dropping the receivers does not end it.
    fn subscribe(controller: &mut Controller, (name, is_switch): (&str, bool), policy: u64, id: StreamId) {
        let kind = if is_switch { proto::Kind::Switch } else { proto::Kind::Machine };
        let hello = proto::Hello { name: name.to_owned(), kind: kind.into(), policy, fresh: false };
        let subscriber = controller.subscriber(&hello).expect("of the policy");
        drop(controller.begin(Instant::ZERO, (subscriber, &hello), id, mpsc::channel(8).0));
    }

    #[test]
    fn usage_and_confirmations_under_another_policy_do_not_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut controller = controller(directory.path(), 1);
        let digest = controller.policy.digest();
        let used = |controller: &mut Controller, policy: u64, id: StreamId, now: Instant| {
            subscribe(controller, ("m1", false), policy, id);
            let used = proto::TenantUsage { tenant: 1, tx_bps: 300_000_000, rx_bps: 0 };
            let usage = from_subscriber::Message::Usage(proto::Usage { tenants: vec![used] });
            assert!(controller.take(now, id, usage));
            // The version of its settings, as far as versions go.
            let applied = from_subscriber::Message::Applied(proto::Version { epoch: 1, number: 1_000 });
            assert!(controller.take(now, id, applied));
            assert!(controller.on_time(now), "an interval ends");
            (controller.binder.used()[1].tx, controller.binder.counters().outdated)
        };
        let now = |ms| Instant::ZERO + Duration::from_millis(ms);
        assert_eq!(used(&mut controller, digest + 1, 0, now(200)), (Bandwidth::ZERO, 0));
        assert_eq!(used(&mut controller, digest, 1, now(400)), (Bandwidth::from_mbps(300), 1));
    }

    #[test]
    fn all_have_subscribed_when_each_machine_and_switch_of_tenants_has_the_policy() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut controller = controller(directory.path(), 1);
        let digest = controller.policy.digest();
        let [first, others @ ..] = SUBSCRIBERS;
        for (id, of) in (0..).zip(others) {
            subscribe(&mut controller, of, digest, id);
        }
        subscribe(&mut controller, ("m3", false), digest, 10);
        assert_eq!((controller.stream_count(), controller.all_subscribed()), (SUBSCRIBERS.len(), false));
        subscribe(&mut controller, first, digest + 1, 11);
        assert!(!controller.all_subscribed(), "it has another policy");
        let moves = |controller: &mut Controller| {
            for step in [Some(Step::Cap), Some(Step::Lower), None] {
                let motion = step.map(|step| Motion { to: Place::Shared, step });
                controller.keep(Instant::ZERO, TenantId(0), TenantState { motion, ..TenantState::default() });
            }
            controller.timing.moves.count
        };
        assert_eq!(moves(&mut controller), 0, "it waited for a machine without settings");
        subscribe(&mut controller, first, digest, 12);
        assert!(controller.all_subscribed());
        assert_eq!(moves(&mut controller), 1);
        controller.end(Instant::ZERO, 10);
        assert!(controller.all_subscribed(), "a machine without tenants");
        controller.end(Instant::ZERO, 11);
        assert!(controller.all_subscribed(), "an earlier stream");
        controller.end(Instant::ZERO, 12);
        assert!(!controller.all_subscribed());
    }

    /// The file of epochs is restored between two controllers.
    #[test]
    fn a_controller_of_a_lower_epoch_counts_the_confirmations_of_its_own_settings() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = |controller: &mut Controller| {
            let digest = controller.policy.digest();
            let hello =
                proto::Hello { name: "m1".to_owned(), kind: proto::Kind::Machine.into(), policy: digest, fresh: false };
            let subscriber = controller.subscriber(&hello).expect("of the policy");
            let (messages, mut to_machine) = mpsc::channel(8);
            drop(controller.begin(Instant::ZERO, (subscriber, &hello), 0, messages));
            let received =
                std::iter::from_fn(|| to_machine.try_recv().ok()).filter_map(|message| message.expect("one").message);
            let version = |message| match message {
                from_controller::Message::Machine(settings) => settings.version,
                _ => None,
            };
            received.filter_map(version).last().expect("settings")
        };
        let earlier = settings(&mut controller(directory.path(), 900));
        let mut controller = controller(directory.path(), 5);
        let version = settings(&mut controller);
        assert_eq!((earlier.epoch, version.epoch), (900, 5));
        let mut outdated = |version| {
            assert!(controller.take(Instant::ZERO, 0, from_subscriber::Message::Applied(version)));
            controller.binder.counters().outdated
        };
        assert_eq!(outdated(earlier), 1);
        assert_eq!(outdated(version), 1, "the settings of the controller that the machine has are applied");
    }
}
