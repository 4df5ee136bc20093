//! Tenants on this machine: the controller's settings, their confirmation, and reports of usage.
//!
//! Problem: the controller may count on a setting only when no earlier packet is left in this machine. Approach: shares
//! and limits are part of the machine's policy ([`Policy::at_machine`]), tags change between two packets, and settings
//! are confirmed when the queue of each tenant with another tag has sent as much as it held then.
//!
//! Without settings, a tenant is a service without a guarantee, and the tags of an earlier agent stay. An agent that
//! starts has the settings of an earlier one ([`super::saved`]), and limits its tenants to their reservations; so does
//! one without a controller for a lease, and the kernel without an agent for the timeout of limits
//! ([`HostContext::reserved`](crate::host::HostContext::reserved)): a machine without a connection may be left out of
//! moves.
//!
//! With `htb` a queue is first in, first out, and its counters show when earlier packets have left. With `edt` packets
//! of several destinations overtake each other, and are counted when they get a departure time: settings are confirmed
//! when the longest time that packets wait has passed ([`Host::drain_time`](crate::host::Host::drain_time)).
//!
//! Worked example: red's tag changes from 0 to 12 while 30 kB of it wait in the qdisc: the settings are confirmed when
//! its class has sent 30 kB more, or is empty. If the class of one of its destinations is deleted meanwhile, and red's
//! bytes are fewer than at the change, it is what its queue holds then that has to leave.

use super::shared_queue::SharedQueueLimits;
use super::{AgentError, Daemon, host_context, saved};
use crate::daemon::config::AgentConfig;
use crate::host::{Host, HostError, tag_values};
use crate::runtime_config::RuntimeConfig;
use std::sync::Arc;
use tracing::{debug, info, warn};
use weir_binding::binder::BinderConfig;
use weir_control::{MeterReading, RuntimeLimit};
use weir_fabric::binding::{FromController, Subscriber, SubscriberConfig, SubscriberState, ToController};
use weir_fabric::binding_proto::{MachineSettings, TenantUsage, Usage, Version};
use weir_fabric::{SessionConfig, SessionError};
use weir_linux::shaper::Backend;
use weir_linux::tags::HostTags;
use weir_policy::{Policy, TenantAtMachine};
use weir_units::{Bandwidth, Bytes, Direction, Duration, Instant, MachineId, PerDirection, ServiceId, TenantId};

/// The time between two looks at queues that earlier packets are leaving.
const LOOK: Duration = Duration::from_millis(5);

/// The controller's settings for this machine.
#[derive(Debug, Clone)]
pub(super) struct InForce {
    shares: Vec<TenantAtMachine>,
    tags: HostTags,
    policy: Arc<Policy>,
}

/// Settings that are in force and not confirmed.
#[derive(Debug)]
struct Pending {
    /// `None` after the end of the stream: the settings come again.
    version: Option<Version>,
    /// Queues with earlier packets.
    queues: Vec<(ServiceId, Left)>,
    look: Instant,
}

/// When the earlier packets of a queue have left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// When it has sent `until` bytes, or is empty; it had sent `from` when `until` was determined.
    Sent { from: Bytes, until: Bytes },
    /// No reading has succeeded yet: `until` is unknown.
    Unread,
    /// At this time.
    At(Instant),
}

impl Left {
    /// The rest after a reading of a queue with its bytes sent and waiting, or after one that failed; `None` when
    /// no earlier packet is left.
    fn after(self, reading: Option<(Bytes, Bytes)>) -> Option<Self> {
        let Some((sent, backlog)) = reading else { return Some(self) };
        let mark = Self::Sent { from: sent, until: Bytes::new(sent.get().saturating_add(backlog.get())) };
        match self {
            _ if backlog == Bytes::ZERO => None,
            Self::Sent { until, .. } if sent >= until => None,
            // The bytes of a class that is deleted are missing from the sum: `until` would be reached too late.
            Self::Sent { from, .. } if sent < from => Some(mark),
            Self::Unread => Some(mark),
            left => Some(left),
        }
    }
}

/// The settings and the tenants of a policy, for a return to it.
pub(super) struct Earlier {
    in_force: Option<InForce>,
    names: Vec<String>,
    services: Vec<ServiceId>,
}

/// The tenants on this machine.
pub(super) struct Tenants {
    subscriber: Option<Subscriber>,
    /// By tenant, its name and its service.
    names: Vec<String>,
    services: Vec<ServiceId>,
    /// The policy's fingerprint, and whether the controller's is the same.
    digest: u64,
    has_own_policy: bool,
    in_force: Option<InForce>,
    /// Whether `in_force` has changed since `shared` took the tenants of the shared queue from it.
    pub(super) has_changed: bool,
    pub(super) shared: SharedQueueLimits,
    /// By service of a tenant here, its reservation.
    reserved: Vec<(ServiceId, Bandwidth)>,
    /// The settings as they are on disk.
    on_disk: Option<String>,
    /// When a stream was up last.
    up_at: Instant,
    pending: Option<Pending>,
    /// The control interval, while a stream is up.
    interval: Option<Duration>,
    /// The time and the bytes of the last report.
    reported: Option<(Instant, Vec<PerDirection<Bytes>>)>,
}

impl Tenants {
    /// Without a policy.
    fn new() -> Self {
        Self {
            subscriber: None,
            names: Vec::new(),
            services: Vec::new(),
            digest: 0,
            has_own_policy: false,
            in_force: None,
            has_changed: false,
            shared: SharedQueueLimits::new(),
            reserved: Vec::new(),
            on_disk: None,
            up_at: Instant::ZERO,
            pending: None,
            interval: None,
            reported: None,
        }
    }

    /// Subscribes to the controller, if the policy has tenants.
    pub(super) fn start(config: &AgentConfig) -> Result<Self, AgentError> {
        let mut tenants = Self::new();
        tenants.subscribe(config)?;
        tenants.start_with_saved(config);
        Ok(tenants)
    }

    /// Begins with the settings of an earlier agent, if they are of this policy.
    fn start_with_saved(&mut self, config: &AgentConfig) {
        let RuntimeConfig { policy, machine, .. } = &config.runtime_config;
        let Some(path) = config.tenants.as_ref().filter(|_| self.subscriber.is_some()) else { return };
        match saved::load(path, policy) {
            Ok(Some((shares, tags))) => {
                info!("{} tenants have their last settings, limited until the controller's arrive", shares.len());
                self.on_disk = Some(saved::text(policy, &shares, &tags));
                let at_machine = Arc::new(policy.at_machine(*machine, &shares));
                self.set_in_force(Some(InForce { shares, tags, policy: at_machine }));
            }
            Ok(None) => {}
            Err(error) => warn!("{}: {error}; tenants have no settings until the controller's arrive", path.display()),
        }
    }

    fn set_in_force(&mut self, in_force: Option<InForce>) {
        let service = |own: &TenantAtMachine| self.services.get(own.tenant.index()).map(|at| (*at, own.reserved));
        let with_reservation = |(_, reserved): &(ServiceId, Bandwidth)| *reserved > Bandwidth::ZERO;
        let shares = in_force.as_ref().map_or(&[][..], |own| &own.shares);
        self.reserved = shares.iter().filter_map(service).filter(with_reservation).collect();
        self.in_force = in_force;
        self.has_changed = true;
    }

    /// Whether [`Tenants::subscribe`] can follow a configuration: the reason why not. A refusal comes before anything
    /// has changed.
    pub(super) fn check(&self, config: &RuntimeConfig, fabric: Option<&SessionConfig>) -> Result<(), SessionError> {
        if self.subscriber.is_some() && self.digest == config.policy.digest() {
            return Ok(());
        }
        subscriber_config(config, fabric).map_or(Ok(()), |subscriber| subscriber.check())
    }

    /// Subscribes to the controller for the policy in force.
    pub(super) fn subscribe(&mut self, config: &AgentConfig) -> Result<(), AgentError> {
        let policy = &config.runtime_config.policy;
        if self.subscriber.is_some() && self.digest == policy.digest() {
            return Ok(());
        }
        (self.subscriber, self.interval, self.pending, self.reported) = (None, None, None, None);
        (self.digest, self.has_own_policy) = (policy.digest(), false);
        (self.names, self.services) = (names_of(policy), services_of(policy));
        if !policy.tenants().is_empty() && config.fabric.is_none() {
            warn!("the policy's tenants have no guarantees here: no fabric broker is configured (--fabric)");
        }
        if let Some(subscriber) = subscriber_config(&config.runtime_config, config.fabric.as_ref()) {
            let state = SubscriberState { policy: self.digest, fresh: false };
            self.subscriber = Some(Subscriber::start(subscriber, state)?);
        }
        Ok(())
    }

    /// The policy with the tenants of this machine; `None` without settings.
    pub(super) fn policy(&self) -> Option<&Arc<Policy>> {
        self.in_force.as_ref().map(|own| &own.policy)
    }
    /// The tags in force.
    pub(super) fn tags(&self) -> Option<&HostTags> {
        self.in_force.as_ref().map(|own| &own.tags)
    }
    /// By service of a tenant here, its reservation, if it is not zero.
    pub(super) fn reserved(&self) -> &[(ServiceId, Bandwidth)] {
        &self.reserved
    }

    /// The tenants without queues of their own that are not limited, with their reservations, if they have one here.
    pub(super) fn in_shared_queue(&self) -> Vec<(ServiceId, Bandwidth)> {
        let Some(own) = &self.in_force else { return Vec::new() };
        let is_limited = |service| own.shares.iter().any(|own| own.limited && self.service_of(own) == Some(service));
        let shared =
            |(service, _): &&(ServiceId, Bandwidth)| dscp_of(&own.tags, *service) == 0 && !is_limited(*service);
        self.reserved.iter().filter(shared).copied().collect()
    }

    fn service_of(&self, own: &TenantAtMachine) -> Option<ServiceId> {
        self.services.get(own.tenant.index()).copied()
    }

    /// The limit of a service that is a tenant; `None` for others. Without a limit, one that is not limited has the
    /// reservation that the kernel limits it to without an agent.
    pub(super) fn limit(&self, service: ServiceId, direction: Direction, capacity: Bandwidth) -> Option<Bandwidth> {
        if !self.services.contains(&service) {
            return None;
        }
        let shares = self.in_force.as_ref().map_or(&[][..], |own| &own.shares);
        let lifted = shares.iter().any(|own| !own.limited && self.service_of(own) == Some(service));
        Some(match direction {
            Direction::Tx if lifted => capacity,
            Direction::Tx => Bandwidth::UNLIMITED,
            // Without an agent, what a service receives has its static limit.
            Direction::Rx => self.shared.limit(service).unwrap_or(Bandwidth::UNLIMITED),
        })
    }

    /// Limits all tenants if no stream to a controller of this policy has been up for the lease; returns whether that
    /// is a change.
    fn limit_all(&mut self, now: Instant, base: &Policy, machine: MachineId) -> bool {
        let is_led = |subscriber: &Subscriber| subscriber.up().is_some() && self.has_own_policy;
        if self.subscriber.as_ref().is_none_or(is_led) {
            self.up_at = now;
            return false;
        }
        let Some(own) = self.in_force.as_ref() else { return false };
        if now.saturating_since(self.up_at) < BinderConfig::AGENT_LEASE || own.shares.iter().all(|own| own.limited) {
            return false;
        }
        let shares: Vec<TenantAtMachine> =
            own.shares.iter().map(|own| TenantAtMachine { limited: true, ..*own }).collect();
        let policy = Arc::new(base.at_machine(machine, &shares));
        let in_force = InForce { shares, tags: own.tags.clone(), policy };
        self.set_in_force(Some(in_force));
        true
    }

    /// Saves the settings in force, if those on disk are others.
    fn save(&mut self, config: &AgentConfig) -> std::io::Result<()> {
        let (Some(path), Some(own)) = (&config.tenants, &self.in_force) else { return Ok(()) };
        let text = saved::text(&config.runtime_config.policy, &own.shares, &own.tags);
        if self.on_disk.as_ref() != Some(&text) {
            saved::save(path, &text)?;
            self.on_disk = Some(text);
        }
        Ok(())
    }

    /// Takes another policy: settings stay if it has the same tenants, and no tag of others stays. Returns the earlier
    /// ones.
    pub(super) fn renew(&mut self, config: &RuntimeConfig) -> Earlier {
        let policy = &config.policy;
        let earlier = Earlier {
            in_force: self.in_force.take(),
            names: std::mem::replace(&mut self.names, names_of(policy)),
            services: std::mem::replace(&mut self.services, services_of(policy)),
        };
        // Services have other numbers under another policy.
        self.shared = SharedQueueLimits::new();
        let has_same = self.names == earlier.names;
        let of_before = |service: &ServiceId| earlier.services.iter().position(|known| known == service);
        let of_now = |(service, dscp): &(ServiceId, u8)| Some((self.services[of_before(service)?], *dscp));
        let (shares, tenants) = match earlier.in_force.as_ref().filter(|_| has_same) {
            Some(own) => (own.shares.clone(), own.tags.tenants.iter().filter_map(of_now).collect()),
            None => (Vec::new(), Vec::new()),
        };
        if earlier.in_force.is_some() || !has_same {
            let tags = HostTags { tenants, values: tag_values(policy) };
            let policy = Arc::new(policy.at_machine(config.machine, &shares));
            self.set_in_force(Some(InForce { shares, tags, policy }));
        }
        earlier
    }
    /// Returns to the policy before one that was refused.
    pub(super) fn restore(&mut self, earlier: Earlier) {
        (self.names, self.services) = (earlier.names, earlier.services);
        self.shared = SharedQueueLimits::new();
        self.set_in_force(earlier.in_force);
    }

    /// The controller's next message; pending for ever without tenants. Cancelling the future loses none.
    pub(super) async fn message(&mut self) -> FromController {
        match &mut self.subscriber {
            Some(subscriber) => subscriber.message().await,
            None => std::future::pending().await,
        }
    }

    /// The time of the next look at queues, or of the next report of the shared queue.
    pub(super) fn poll_timeout(&self) -> Instant {
        let look = self.pending.as_ref().map_or(Instant::from_nanos(u64::MAX), |pending| pending.look);
        look.min(self.shared.poll_timeout())
    }

    /// Reports the mean usage of the tenants once in a control interval, by the services' meters.
    pub(super) fn report(&mut self, now: Instant, readings: &[MeterReading]) {
        let usage = self.usage(now, readings);
        if let (Some(subscriber), Some(usage)) = (&self.subscriber, usage) {
            subscriber.send(ToController::Usage(usage));
        }
    }

    /// The report that is due, if one is. A controller of another policy gets none: the numbers of its tenants are
    /// others.
    fn usage(&mut self, now: Instant, readings: &[MeterReading]) -> Option<Usage> {
        let interval = self.interval.filter(|_| self.has_own_policy)?;
        // Meters are read several times in an interval; the reading nearest to its end counts.
        let is_due = |at: Instant| now.saturating_since(at) >= Duration::from_nanos(interval.nanos() / 16 * 15);
        if self.reported.as_ref().is_some_and(|(at, _)| !is_due(*at)) {
            return None;
        }
        let of = |service: &ServiceId| {
            let own = readings.binary_search_by_key(service, |reading| reading.service);
            own.map_or(PerDirection::both(Bytes::ZERO), |at| readings[at].bytes)
        };
        let bytes: Vec<PerDirection<Bytes>> = self.services.iter().map(of).collect();
        let (at, before) = self.reported.replace((now, bytes.clone()))?;
        let time = now.saturating_since(at);
        let rate = |now: Bytes, before: Bytes| Bandwidth::from_transfer(now.saturating_sub(before), time).bps();
        let tenants = (0..).zip(bytes.iter().zip(&before)).map(|(tenant, (now, before))| TenantUsage {
            tenant,
            tx_bps: rate(now.tx, before.tx),
            rx_bps: rate(now.rx, before.rx),
        });
        Some(Usage { tenants: tenants.filter(|used| used.tx_bps > 0 || used.rx_bps > 0).collect() })
    }

    /// The limits of the tenants here, for a shaper that has just been renewed.
    fn limits(&self, config: &RuntimeConfig) -> Vec<RuntimeLimit> {
        let of = |(service, _): &(ServiceId, Bandwidth)| {
            Direction::ALL.map(|direction| {
                let capacity = config.policy.machine_capacity(config.machine, direction);
                let limit = self.limit(*service, direction, capacity).unwrap_or(Bandwidth::UNLIMITED);
                RuntimeLimit { service: *service, direction, limit }
            })
        };
        self.reserved.iter().flat_map(of).collect()
    }

    /// The settings in a message; `None` for tenants that the policy does not have.
    fn read(&self, settings: &MachineSettings) -> Option<(Vec<TenantAtMachine>, HostTags)> {
        let (mut shares, mut tags) = (Vec::new(), HostTags { tenants: Vec::new(), values: settings.values });
        for own in &settings.tenants {
            let tenant = TenantId(own.tenant);
            let service = self.services.get(tenant.index())?;
            let reserved = Bandwidth::from_bps(own.reserved_bps).min(Bandwidth::MAX);
            shares.push(TenantAtMachine { tenant, reserved, limited: own.limited });
            tags.tenants.push((*service, u8::try_from(own.dscp).ok().filter(|dscp| *dscp < 64)?));
        }
        Some((shares, tags))
    }

    /// Takes settings: the change of the machine that they need.
    fn take(&mut self, base: &Policy, machine: MachineId, settings: &MachineSettings) -> Option<Change> {
        let (shares, tags) = self.read(settings)?;
        let before = self.in_force.as_ref();
        let of_before = |service: &ServiceId| before.map(|own| dscp_of(&own.tags, *service));
        let retagged = tags.tenants.iter().filter(|(service, dscp)| of_before(service) != Some(*dscp));
        let retagged: Vec<ServiceId> = retagged.map(|(service, _)| *service).collect();
        let change = match before {
            Some(own) if own.shares == shares && own.tags == tags => Change::None,
            Some(own) if own.shares == shares => Change::Tags(retagged),
            _ => Change::Shares(retagged),
        };
        if change != Change::None {
            let policy = Arc::new(base.at_machine(machine, &shares));
            self.set_in_force(Some(InForce { shares, tags, policy }));
        }
        Some(change)
    }
}

/// The subscriber of a policy's tenants; `None` without tenants or a broker.
fn subscriber_config(config: &RuntimeConfig, fabric: Option<&SessionConfig>) -> Option<SubscriberConfig> {
    let fabric = fabric.filter(|_| !config.policy.tenants().is_empty())?;
    Some(SubscriberConfig {
        name: config.policy.network().machine(config.machine).name().to_owned(),
        is_switch: false,
        brokers: fabric.brokers.clone(),
        identity: fabric.identity.clone(),
        sockets: fabric.sockets.clone(),
    })
}

fn services_of(policy: &Policy) -> Vec<ServiceId> {
    policy.tenants().iter().map(|tenant| tenant.service).collect()
}

/// The lowest reservation of a service in two settings: packets of the earlier one may leave at either rate.
fn lowest(settings: [&[(ServiceId, Bandwidth)]; 2], service: ServiceId) -> Bandwidth {
    let own = settings.into_iter().flatten().filter(|(known, _)| *known == service);
    own.map(|(_, reserved)| *reserved).min().unwrap_or(Bandwidth::UNLIMITED)
}

fn names_of(policy: &Policy) -> Vec<String> {
    policy.tenants().iter().map(|tenant| tenant.name.clone()).collect()
}

/// The value of a service's packets; 0 for a service without a tag.
fn dscp_of(tags: &HostTags, service: ServiceId) -> u8 {
    tags.tenants.iter().find(|(known, _)| *known == service).map_or(0, |(_, dscp)| *dscp)
}

/// The change that settings make, with the services whose tags are others.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    None,
    Tags(Vec<ServiceId>),
    Shares(Vec<ServiceId>),
}

impl Daemon {
    /// Takes a message of the controller.
    pub(super) fn take_tenants(&mut self, message: FromController) -> Result<(), AgentError> {
        match message {
            FromController::Up { policy, interval } => {
                self.tenants.interval = Some(interval);
                self.tenants.has_own_policy = policy == self.tenants.digest;
                if !self.tenants.has_own_policy {
                    warn!(
                        "the controller of tenants' queues has another policy, {policy:016x}: nothing of it is taken"
                    );
                }
                // Of an earlier stream, on which nothing is confirmed any more; packets with earlier tags still wait.
                if let Some(pending) = &mut self.tenants.pending {
                    pending.version = None;
                }
                Ok(())
            }
            FromController::Machine(settings) if self.tenants.has_own_policy => self.put_in_force(&settings),
            FromController::Machine(_) => Ok(()),
            FromController::Switch(_) | FromController::Read(_) => Ok(()),
        }
    }

    fn put_in_force(&mut self, settings: &MachineSettings) -> Result<(), AgentError> {
        let RuntimeConfig { policy, machine, .. } = &self.config.runtime_config;
        let Some(version) = settings.version else { return Ok(()) };
        let (earlier, reserved) = (self.tenants.in_force.clone(), self.tenants.reserved.clone());
        let Some(change) = self.tenants.take(policy, *machine, settings) else {
            warn!("settings of tenants that this policy does not have are not taken");
            return Ok(());
        };
        // Without an interface nothing is in force, and nothing is confirmed.
        let Some(host) = &mut self.host else { return Ok(()) };
        let (config, tenants) = (&self.config, &self.tenants);
        let applied = match (&change, tenants.tags()) {
            (Change::Tags(_), Some(tags)) => host.set_tags(tags),
            (Change::Shares(_), _) => {
                let runtime = &config.runtime_config;
                let context = host_context(runtime, config.means(), self.cookie, self.epoch, &config.broker, tenants);
                HostError::unless_of_credits(host.renew(&context, false))
                    .and_then(|()| host.set_limits(&tenants.limits(runtime)).map(drop))
            }
            _ => Ok(()),
        };
        if let Err(error) = applied {
            // The controller sends the settings again.
            warn!("settings of tenants cannot be put in force: {error}");
            self.tenants.set_in_force(earlier);
            let runtime = &self.config.runtime_config;
            let (backend, broker) = (self.config.means(), &self.config.broker);
            let context = host_context(runtime, backend, self.cookie, self.epoch, broker, &self.tenants);
            return Ok(HostError::unless_of_credits(host.renew(&context, false))?);
        }
        let retagged = match change {
            Change::Tags(retagged) | Change::Shares(retagged) => retagged,
            Change::None => Vec::new(),
        };
        let saved = self.tenants.save(&self.config);
        if let Err(error) = &saved {
            // An agent that starts would have earlier tags: the controller waits, and sends the settings again.
            warn!("save the settings of tenants: {error}; they are not confirmed");
        }
        self.set_pending(saved.is_ok().then_some(version), retagged, &reserved)
    }

    /// Limits all tenants where no controller has been reached for the lease.
    pub(super) fn check_lease(&mut self) -> Result<(), AgentError> {
        let (now, RuntimeConfig { policy, machine, .. }) = (self.now(), &self.config.runtime_config);
        if !self.tenants.limit_all(now, policy, *machine) {
            return Ok(());
        }
        warn!("no controller of tenants' queues for {}: tenants are limited", BinderConfig::AGENT_LEASE);
        let (runtime, backend, broker) = (&self.config.runtime_config, self.config.means(), &self.config.broker);
        let context = host_context(runtime, backend, self.cookie, self.epoch, broker, &self.tenants);
        if let Some(host) = &mut self.host {
            let renewed = HostError::unless_of_credits(host.renew(&context, false));
            // Whatever the first result is: this is not tried again, and the tenants must not send without limits.
            let limited = host.set_limits(&self.tenants.limits(runtime));
            renewed.and(limited.map(drop))?;
        }
        Ok(())
    }

    /// Confirms settings when the queues of these services have sent what they hold; `reserved` are the reservations of
    /// the settings before.
    fn set_pending(
        &mut self,
        version: Option<Version>,
        services: Vec<ServiceId>,
        reserved: &[(ServiceId, Bandwidth)],
    ) -> Result<(), AgentError> {
        let Some(host) = &self.host else { return Ok(()) };
        let now = self.now();
        let mut queues = self.tenants.pending.take().map(|pending| pending.queues).unwrap_or_default();
        for service in services {
            let left = match host.backend() {
                Backend::Edt => {
                    let slowest = lowest([reserved, &self.tenants.reserved], service);
                    Some(Left::At(now + host.drain_time(slowest)))
                }
                Backend::Htb => Left::Unread.after(reading(host, service)),
            };
            queues.extend(left.map(|left| (service, left)));
        }
        self.tenants.pending = Some(Pending { version, queues, look: self.now() });
        self.confirm_tenants();
        Ok(())
    }

    /// Confirms settings if no earlier packet is left.
    pub(super) fn confirm_tenants(&mut self) {
        let (now, Some(pending), Some(host)) = (self.now(), &mut self.tenants.pending, &self.host) else { return };
        if pending.look > now {
            return;
        }
        pending.queues.retain_mut(|(service, left)| match *left {
            Left::At(time) => time > now,
            _ => left.after(reading(host, *service)).is_some_and(|after| {
                *left = after;
                true
            }),
        });
        pending.look = now + LOOK;
        if pending.queues.is_empty()
            && let Some(Pending { version: Some(version), .. }) = self.tenants.pending.take()
            && let Some(subscriber) = self.tenants.subscriber.as_ref().filter(|_| self.tenants.has_own_policy)
        {
            subscriber.send(ToController::Applied(version));
        }
    }
}

/// The queue of a service, unless it cannot be read: it is read again then.
fn reading(host: &Host, service: ServiceId) -> Option<(Bytes, Bytes)> {
    host.queue(service).inspect_err(|error| debug!("read the queue of a tenant: {error}")).ok()
}

#[cfg(test)]
#[path = "tenants_tests.rs"]
mod tests;
