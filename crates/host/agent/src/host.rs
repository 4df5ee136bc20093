//! The interface under policy.
//!
//! Problem: the broker's concepts are services and limits; the kernel's are programs, classes and
//! rates. Approach: each leaf service has a class, or clocks, whose guarantee gives it its share in the policy's tree
//! while all services are backlogged ([`Backend::guarantee`]), and whose ceiling is the least of the interface, the
//! machine maxima of the service and of its ancestors, and the runtime limit; while no agent runs, that of the static
//! policy. It has a receive meter with its share of the interface, limited by the brokers, which advertises a rate to
//! the senders, and limits towards destinations whose receivers advertise a rate.
//!
//! Worked example: `vm` with a machine maximum of 1 Gb/s on a 10 Gb/s interface starts with a
//! ceiling of 1 Gb/s; a runtime limit of 500 Mb/s lowers it to that, and when the limit is lifted 1
//! Gb/s returns. With a rack maximum of 2 Gb/s over four machines, it has 500 Mb/s while no agent
//! runs.

mod context;
mod error;
pub(crate) mod levels;
mod lock;
mod readings;
mod running;
mod shaping;

pub use context::HostContext;
pub(crate) use context::shaper_config;
pub use error::HostError;
pub use readings::{KernelReadings, Traffic};
pub use running::{AgentLock, RunningAgent};

use levels::LevelCheck;
use lock::{Lock, lock};
use readings::Counted;
use shaping::{limits_in_force, rates, send_limit, shaper_of};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::warn;
use weir_control::RuntimeLimit;
use weir_datapath::{Classifier, SipKey};
use weir_linux::attachment::Attachment;
use weir_linux::cgroups;
use weir_linux::class::{QUEUE_TIME, Sending};
use weir_linux::credits::CreditPairs;
use weir_linux::destinations::Destinations;
use weir_linux::htb::{DEFAULT_SHARE, HtbTree, MAJOR};
use weir_linux::interface::Interface;
use weir_linux::levels::{HostLevels, ServiceLevels};
use weir_linux::loader::{InterfaceDatapath, LoaderError};
use weir_linux::locks;
use weir_linux::netlink::Socket;
use weir_linux::pins::sweep;
use weir_linux::sent::Sent;
use weir_linux::settings::{Classes, FeedbackKey};
use weir_linux::shaper::{self, Backend, Possible, ServiceRate, ShaperError};
use weir_linux::tags::HostTags;
use weir_linux::tc::{self, ForeignQdisc, Found};
use weir_policy::{Levels, Policy, Service, Sharing};
use weir_shaping::{LevelLimits, MachinePlan};
use weir_units::{Bandwidth, Bytes, Direction, Duration, MachineId, PerDirection, ServiceId};

use crate::credits::{CreditOrder, CreditReading, CreditThread};
use crate::destination_limits::{DestinationLimits, SharedShaper};
use crate::shaper_thread::ShaperThread;

/// A part on an interface that is not there: another program removed it, or it could not be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The programs, one or both.
    Programs,
    /// The qdisc at the root, or classes of levels as they were made.
    Qdisc,
    /// The thread of services with credits, whose data waits: it could not start.
    Credits,
}

/// A policy's effect on an interface, computed without a change.
struct Plan {
    classifier: Classifier,
    leaves: Vec<ServiceId>,
    sending: Sending,
    nic: Bandwidth,
    /// The part of the interface that services without a level share while all are backlogged.
    shared: Bandwidth,
    sharing: Sharing,
    backend: Backend,
    /// By leaf: its shares of the interface beside levels.
    machine_plan: MachinePlan,
    levels: HostLevels,
    /// The most segments of a super-packet; `None` for the interface's own limit.
    segments: Option<u32>,
}

impl Plan {
    fn new(host_context: &HostContext<'_>, interface: &Interface, backend: Backend) -> Result<Self, HostError> {
        let (classifier, leaves) = classes_of(host_context.policy, interface.name())?;
        let (policy, machine) = (host_context.policy, host_context.machine);
        let nic = policy.machine_capacity(machine, Direction::Tx);
        let capacities = PerDirection {
            tx: beside_levels(policy, machine, nic, backend.shared(nic)),
            rx: policy.machine_capacity(machine, Direction::Rx),
        };
        let machine_plan = MachinePlan::within(policy, machine, capacities);
        let segments = policy.levels().and_then(|levels| levels.settings().segments);
        let mut sending = Sending::over(interface)?;
        if let Some(segments) = segments {
            let most = Bytes::new(u64::from(segments) * sending.frame.get());
            sending.segment = sending.segment.min(most);
        }
        let levels = host_levels(policy, &machine_plan);
        let sharing = policy.sharing();
        let shared = capacities.tx;
        Ok(Self { classifier, leaves, sending, nic, shared, sharing, backend, machine_plan, levels, segments })
    }
}

/// The bandwidth that services without a level share of an interface of this rate. While all are backlogged HTB sends
/// each at its whole share, whatever its root class allows: levels, unclassified and control traffic would come on top
/// and queue in the interface, before its frames of levels.
fn beside_levels(policy: &Policy, machine: MachineId, nic: Bandwidth, shared: Bandwidth) -> Bandwidth {
    if policy.levels().is_none() {
        return shared;
    }
    let levels: Bandwidth = LevelLimits::of_machine(policy, machine).iter().flatten().map(|limits| limits.rate).sum();
    // Unbounded levels (of windows alone) have no part of the interface; guarantees do not hold beside them.
    let left = weir_policy::beside_levels(nic, policy.levels().and_then(Levels::reserved));
    let levels = levels.min(nic.saturating_sub(left));
    let own = Bandwidth::from_bps(nic.bps().div_ceil(DEFAULT_SHARE) * 2);
    shared.saturating_sub(levels).saturating_sub(own)
}

/// The latency levels of a policy at the machine of this plan.
fn host_levels(policy: &Policy, plan: &MachinePlan) -> HostLevels {
    let dscps = policy.levels().map(Levels::all).unwrap_or_default().iter().map(|level| level.dscp);
    HostLevels {
        levels: dscps.zip(plan.levels.iter().copied()).collect(),
        of_service: plan
            .leaves
            .iter()
            .map(|leaf| (leaf.service, ServiceLevels { sent: leaf.level, received: leaf.receives_on_level }))
            .collect(),
        segments: policy.levels().and_then(|levels| levels.settings().segments),
    }
}

/// The DSCP values that tenants can have, one bit for each.
pub(crate) fn tag_values(policy: &Policy) -> u64 {
    policy.tenant_dscps().into_iter().fold(0, |bits, dscp| bits | 1 << dscp)
}

/// The classifier and leaf services of an interface, or why this host cannot classify or enforce; the
/// interface need not exist.
fn classes_of(policy: &Policy, interface: &str) -> Result<(Classifier, Vec<ServiceId>), HostError> {
    let classifier = weir_datapath::fits(policy, interface)?;
    let leaves: Vec<ServiceId> = policy.services().leaves().map(|(id, _)| id).collect();
    if !classifier.cgroups().is_empty() {
        cgroups::check()?;
    }
    Ok((classifier, leaves))
}

/// The backend for a policy, and the preferred ones that cannot be used.
fn choose(host_context: &HostContext<'_>) -> Result<(Backend, Vec<Possible>), HostError> {
    let mut possible = shaper::probe();
    if host_context.policy.levels().is_some() {
        for possible in possible.iter_mut().filter(|possible| possible.obstacle.is_none()) {
            possible.obstacle = shaper::obstacle_to_levels(possible.backend);
        }
    }
    if host_context.policy.credits().is_some() {
        for possible in possible.iter_mut().filter(|possible| possible.backend == Backend::Edt) {
            possible.obstacle.get_or_insert_with(|| "services with credits wait in classes of htb".to_owned());
        }
    }
    let backend = shaper::choose(&possible, host_context.backend)?;
    let first = possible.iter().take_while(|possible| possible.backend != backend);
    let obstacles = first.filter(|possible| possible.obstacle.is_some()).cloned().collect();
    Ok((backend, obstacles))
}

/// The first service with credits.
fn with_credits(policy: &Policy) -> Option<(ServiceId, &Service)> {
    policy.services().leaves().find(|(_, service)| service.credits().is_some())
}

/// Whether a policy can be put in force on an interface of this name, as far as that is known
/// without the interface: the errors are those of [`HostError::is_refusal`].
pub fn check(policy: &Policy, interface: &str) -> Result<(), HostError> {
    classes_of(policy, interface).map(drop)
}

/// Checks that the interface exists and that an agent can start: no other agent runs, and no qdisc
/// of another program is there unless `force` replaces it.
pub fn check_interface(interface: &str, force: bool) -> Result<(), HostError> {
    let interface = Interface::named(interface)?;
    let _lock = lock(Path::new(locks::DIRECTORY), &interface)?;
    let qdiscs = tc::qdiscs(&mut Socket::open().map_err(ShaperError::from)?, interface.index());
    match tc::found(&qdiscs.map_err(ShaperError::from)?, u32::from(MAJOR) << 16, "htb") {
        Found::Foreign(found) if !force => {
            Err(ShaperError::Foreign(ForeignQdisc { interface: interface.name().into(), found }).into())
        }
        _ => Ok(()),
    }
}

/// An interface that is classified, metered and shaped; dropping restores it to its
/// original state, unless it is [kept](Host::keep).
pub struct Host {
    interface: Interface,
    datapath: InterfaceDatapath,
    /// The credits of services, if any has them. Dropped before the shaper.
    credits: Option<CreditThread>,
    /// Whether a service of the policy has credits.
    has_credits: bool,
    credit_order: CreditOrder,
    /// Dropped before the shaper.
    destinations: DestinationLimits,
    /// Dropped before the shaper.
    thread: ShaperThread,
    shaper: SharedShaper,
    backend: Backend,
    /// The preferred backends that cannot be used, and why.
    obstacles: Vec<Possible>,
    rates: Vec<ServiceRate>,
    leaves: Vec<ServiceId>,
    /// By slot: the traffic at the last reading.
    traffic: HashMap<u32, Traffic>,
    /// By slot: the traffic before the broker began.
    before: HashMap<u32, Traffic>,
    level_check: Arc<LevelCheck>,
    /// Whether qdisc and programs are checked with the next reading.
    is_to_check: bool,
    /// By leaf: the runtime limits in force; the static policy's where they are unlimited.
    limits: Vec<PerDirection<Bandwidth>>,
    /// Bytes that can wait at a limit for longer than [`QUEUE_TIME`].
    longest_queue: Bytes,
    /// Whether limits of an earlier agent's broker are in force.
    resumes: bool,
    /// Whether all stays in force when this is dropped.
    kept: bool,
    /// Held until all else is gone: fields are dropped in this order.
    _lock: Lock,
}

impl Host {
    /// Brings the interface under the policy and adopts the state of an earlier agent. On failure
    /// the interface is left in its original state; the state of an earlier agent stays in force,
    /// with the changes made until then.
    pub fn install(interface: &str, host_context: &HostContext<'_>, force: bool) -> Result<Self, HostError> {
        let interface = Interface::named(interface)?;
        // Declared first and so released last, also on failure.
        let lock = lock(Path::new(locks::DIRECTORY), &interface)?;
        // A policy that the interface cannot carry is refused first.
        classes_of(host_context.policy, interface.name())?;
        let (backend, obstacles) = choose(host_context)?;
        let plan = Plan::new(host_context, &interface, backend)?;
        // The programs come first: they refuse an interface of another agent, even one whose lock
        // is not visible here because its /run is another.
        let mut datapath = match backend {
            Backend::Edt => InterfaceDatapath::attach(&interface, None)?,
            Backend::Htb => InterfaceDatapath::attach_without_edt(&interface, None)?,
        };
        datapath.set_pods(host_context.pods);
        // The state of an earlier agent stays in force if this one cannot start; of another version
        // as much as was taken over.
        let succeeds = datapath.is_successor();
        datapath.set_kept(succeeds);
        // If no agent was alive for the timeout, the kernel has put the static policy in force, and
        // brokers' limits are obsolete.
        let resumes = datapath.is_adopted() && !datapath.timer()?.fallback;
        configure(&mut datapath, host_context, &plan)?;
        if !resumes {
            lift(&mut datapath, &plan.leaves)?;
        }
        let rates = rates(&datapath, host_context, &plan)?;
        let limits = limits_in_force(&datapath, &plan.leaves)?;
        let mut destinations = Destinations::open(&datapath)?;
        let limited = destinations.classed()?;
        CreditPairs::keep_those_with_gates(&datapath, &interface)?;
        let mut shaper = shaper_of(backend, &interface, &datapath, &plan, &rates, &limited, force)?;
        shaper.set_kept(succeeds);
        let shaper = Arc::new(Mutex::new(Some(shaper)));
        trust(&mut datapath, host_context)?;
        // Levels and rules come last, so that no packet is sent to a class that does not exist yet.
        datapath.set_levels(&plan.levels, classes(backend))?;
        datapath.set_tag_values(tag_values(host_context.policy))?;
        host_context.tags.map_or(Ok(()), |tags| datapath.set_tags(tags))?;
        datapath.set_rules(&plan.classifier, classes(backend))?;
        let mut credit_order = CreditOrder::default();
        let credits = CreditThread::start(host_context, &interface, &mut datapath, &mut credit_order)?;
        datapath.start_timer()?;
        let sent = Sent::over(&interface, backend).map_err(ShaperError::from)?;
        let counted = Counted::read(&datapath, &plan.leaves)?;
        let programs = datapath.attached_programs()?;
        let check = Box::new(move || programs.are_there());
        let level_check = Arc::new(LevelCheck::new(interface.name().to_owned(), host_context.policy));
        let offered = counted.offered.clone();
        let thread = ShaperThread::start(Arc::clone(&shaper), check, Arc::clone(&level_check), sent, offered)?;
        let traffic = counted.traffic(&thread.last(), &rates, &HashMap::new());
        let destinations = DestinationLimits::start(destinations, Arc::clone(&shaper)).map_err(HostError::Wait)?;
        let mut host = Self {
            interface,
            datapath,
            has_credits: credits.is_some(),
            credits,
            credit_order,
            destinations,
            thread,
            shaper,
            backend,
            obstacles,
            rates,
            leaves: plan.leaves,
            before: traffic.clone(),
            traffic,
            level_check,
            is_to_check: false,
            limits,
            longest_queue: longest_queue(plan.sending),
            resumes,
            kept: succeeds,
            _lock: lock,
        };
        host.set_kept(false);
        Ok(host)
    }

    /// Replaces policy, keys and peers without an unlimited packet: services of both policies keep their slots, meters
    /// and limits, classes of new services exist before packets are sent to them, and the filters change at once
    /// between two packets. An exception is `edt` that gets its first levels or loses its last ones
    /// ([`weir_linux::fq`]). `anew` means that a new broker reads the meters.
    ///
    /// An error of [`HostError::is_refusal`] means that nothing has changed; one of [`HostError::CreditStart`] that all
    /// but the credits of services is in force. After each, the old policy can be put in force again.
    pub fn renew(&mut self, host_context: &HostContext<'_>, anew: bool) -> Result<(), HostError> {
        if let (Some(_), Some(obstacle)) = (host_context.policy.levels(), shaper::obstacle_to_levels(self.backend)) {
            return Err(HostError::Levels { backend: self.backend, obstacle });
        }
        if let (Backend::Edt, Some((_, own))) = (self.backend, with_credits(host_context.policy)) {
            return Err(HostError::Credits { service: own.path().to_owned() });
        }
        let plan = Plan::new(host_context, &self.interface, self.backend)?;
        // Fails for reasons that no check of the policy finds, such as the number of groups.
        self.datapath.prepare_cgroups(&plan.classifier)?;
        configure(&mut self.datapath, host_context, &plan)?;
        let rates = rates(&self.datapath, host_context, &plan)?;
        let counted = Counted::read(&self.datapath, &plan.leaves)?;
        let traffic = counted.traffic(&self.thread.read(counted.offered.clone())?, &rates, &self.traffic);
        let mut before = traffic.clone();
        if !anew {
            // The broker goes on with its meters as they were.
            for (slot, before) in &mut before {
                *before = self.before.get(slot).copied().unwrap_or(*before);
            }
        }
        // Its pairs and gates stay, closed, until the next thread takes them over.
        self.credits = None;
        let is_shaped = match self.reshape(&plan, &rates, false) {
            // Another program has replaced the root: the policy is taken without it, and the qdisc
            // and the credits are restored by the new one.
            Err(HostError::Shaper(ShaperError::Foreign(_))) => false,
            reshaped => reshaped.map(|()| true)?,
        };
        trust(&mut self.datapath, host_context)?;
        self.datapath.set_levels(&plan.levels, classes(self.backend))?;
        self.datapath.set_tag_values(tag_values(host_context.policy))?;
        host_context.tags.map_or(Ok(()), |tags| self.datapath.set_tags(tags))?;
        self.datapath.set_rules(&plan.classifier, classes(self.backend))?;
        self.has_credits = with_credits(host_context.policy).is_some();
        self.level_check.renew(host_context.policy);
        self.limits = limits_in_force(&self.datapath, &plan.leaves)?;
        self.longest_queue = longest_queue(plan.sending);
        (self.rates, self.leaves) = (rates, plan.leaves);
        (self.traffic, self.before) = (traffic, before);
        // Last: a thread that cannot start leaves a host with all the rest.
        match is_shaped {
            true => self.start_credits(host_context),
            false => CreditThread::suspend(&mut self.datapath),
        }
    }

    /// Replaces the shaper by one of the plan. On failure there is no shaper, and the kernel keeps
    /// the state of the earlier one.
    fn reshape(&mut self, plan: &Plan, rates: &[ServiceRate], force: bool) -> Result<(), HostError> {
        let (shaper, interface, backend, kept) = (&self.shaper, &self.interface, self.backend, self.kept);
        let (datapath, thread) = (&self.datapath, &self.thread);
        self.destinations.pause(|destinations| {
            let limited = destinations.classed()?;
            let mut shaper = shaper.lock().unwrap_or_else(PoisonError::into_inner);
            thread.discard();
            // Drops of classes that another program deleted are unknown.
            let dropped = shaper.as_mut().and_then(|shaper| shaper.dropped().ok()).unwrap_or_default();
            // The kernel keeps its classes, and the new shaper brings them to the new rates.
            if let Some(old) = shaper.take() {
                old.leave();
            }
            let mut new = shaper_of(backend, interface, datapath, plan, rates, &limited, force)?;
            new.go_on_from(dropped);
            if kept {
                new.set_kept(true);
            }
            *shaper = Some(new);
            Ok(())
        })
    }

    /// The part of this interface that is not there, if any, by a check now. It may wait for the kernel for long.
    pub fn missing(&self) -> Result<Option<Missing>, HostError> {
        Ok(self.thread.missing()?.or(self.missing_credits()))
    }

    fn missing_credits(&self) -> Option<Missing> {
        (self.has_credits && self.credits.is_none()).then_some(Missing::Credits)
    }

    /// Checks qdisc and programs with the next reading.
    pub fn check_with_reading(&mut self) {
        self.is_to_check = true;
    }

    /// The result of a check with a reading since the last call.
    pub fn take_check(&mut self) -> Option<Option<Missing>> {
        Some(self.thread.take_check()?.or(self.missing_credits()))
    }

    /// Restores the qdisc; programs and meters have gone on meanwhile. Another program's qdisc in
    /// its place is an error, unless `force` replaces it.
    pub fn restore(&mut self, host_context: &HostContext<'_>, force: bool) -> Result<(), HostError> {
        let plan = Plan::new(host_context, &self.interface, self.backend)?;
        let rates = rates(&self.datapath, host_context, &plan)?;
        self.credits = None;
        // The gates went with the qdisc.
        CreditPairs::keep_those_with_gates(&self.datapath, &self.interface)?;
        let reshaped = self.reshape(&plan, &rates, force);
        if !self.destinations.is_running() {
            // The thread ended when it found its classes gone.
            let destinations = Destinations::open(&self.datapath)?;
            self.destinations =
                DestinationLimits::start(destinations, Arc::clone(&self.shaper)).map_err(HostError::Wait)?;
        }
        if let Err(HostError::Shaper(ShaperError::Foreign(_))) = &reshaped {
            CreditThread::suspend(&mut self.datapath)?;
        }
        reshaped?;
        self.rates = rates;
        self.start_credits(host_context)
    }

    /// Starts the credits of services with the gates that are there. An error is one of [`HostError::CreditStart`].
    pub fn start_credits(&mut self, host_context: &HostContext<'_>) -> Result<(), HostError> {
        let (interface, datapath) = (&self.interface, &mut self.datapath);
        let started = CreditThread::start(host_context, interface, datapath, &mut self.credit_order);
        self.credits = started.map_err(|error| HostError::CreditStart(Box::new(error)))?;
        Ok(())
    }

    /// Whether the interface still has this name. Only a reply of the kernel proves that it is
    /// gone: an agent without free files would otherwise take it down.
    pub fn is_there(&self) -> bool {
        match Interface::named(self.interface.name()) {
            Ok(now) => now.index() == self.interface.index(),
            Err(error) => !error.is_absent(),
        }
    }

    /// Events of services with credits; `None` if no service has them.
    pub fn credits(&self) -> Option<CreditReading> {
        self.credits.as_ref().map(CreditThread::reading)
    }

    /// The backend that enforces rates.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The preferred backends that cannot be used, and their obstacles.
    pub fn obstacles(&self) -> &[Possible] {
        &self.obstacles
    }

    /// Whether this adopted the state of an earlier agent.
    pub fn is_adopted(&self) -> bool {
        self.datapath.is_adopted()
    }

    /// Whether limits that an earlier agent's broker set are in force.
    pub fn resumes(&self) -> bool {
        self.resumes
    }

    /// Whether this replaced an agent of another version, whose state could not be adopted.
    pub fn is_of_another_version(&self) -> bool {
        self.datapath.is_successor() && !self.datapath.is_adopted()
    }

    /// Whether destinations are set by a real-time thread.
    pub fn is_prompt(&self) -> bool {
        self.destinations.is_prompt()
    }

    /// The way in which the programs are attached to the interface.
    pub fn attachment(&self) -> Attachment {
        self.datapath.attachment()
    }

    /// Changes the tags of tenants, between two packets.
    pub fn set_tags(&mut self, tags: &HostTags) -> Result<(), HostError> {
        Ok(self.datapath.set_tags(tags)?)
    }

    /// The queue of a service on this interface: bytes that it has sent, and bytes in it. A reading takes about a
    /// millisecond.
    pub fn queue(&self, service: ServiceId) -> Result<(Bytes, Bytes), HostError> {
        let slot = self.datapath.slot(service)?;
        let queues = match self.shaper.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(shaper) => shaper.queues()?,
            None => Vec::new(),
        };
        let own = queues.iter().find(|queue| queue.slot == Some(slot));
        Ok(own.map_or((Bytes::ZERO, Bytes::ZERO), |queue| (queue.sent, queue.backlog)))
    }

    /// The longest time that packets of a service with this limit wait for their departure with `edt`, but for those to
    /// a destination with a lower limit. A packet waits for more than [`QUEUE_TIME`] only while less than the longest
    /// queue is before it.
    pub fn drain_time(&self, limit: Bandwidth) -> Duration {
        let bits = u128::from(self.longest_queue.get()) * 8;
        let nanos = bits * 1_000_000_000 / u128::from(limit.bps().max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).max(QUEUE_TIME)
    }

    /// Puts runtime limits in force; the static policy applies where they are unlimited. Returns the
    /// changed ones. Send limits are set by another thread, as soon as the kernel takes them.
    pub fn set_limits(&mut self, limits: &[RuntimeLimit]) -> Result<Vec<RuntimeLimit>, HostError> {
        let mut changed = Vec::new();
        for limit in limits {
            let Ok(leaf) = self.leaves.binary_search(&limit.service) else { continue };
            let in_force = &mut self.limits[leaf][limit.direction];
            if *in_force != limit.limit {
                *in_force = limit.limit;
                changed.push(*limit);
            }
            let rate = &mut self.rates[leaf];
            rate.max = send_limit(self.limits[leaf].tx, rate.machine_max, rate.static_limit);
        }
        self.thread.set(self.rates.clone());
        let limits: Vec<_> = self.leaves.iter().copied().zip(self.limits()).collect();
        self.datapath.set_limits(&limits)?;
        Ok(changed)
    }

    /// Puts limits of what services receive in force; unlimited removes one. Send limits stay.
    pub fn set_receive_limits(&mut self, limits: &[(ServiceId, Bandwidth)]) -> Result<(), HostError> {
        let mut changed = Vec::new();
        for (service, limit) in limits {
            let Ok(leaf) = self.leaves.binary_search(service) else { continue };
            let in_force = self.limits[leaf];
            if in_force.rx != *limit {
                changed.push((leaf, *service, PerDirection { rx: *limit, ..in_force }));
            }
        }
        let written: Vec<_> = changed.iter().map(|(_, service, limits)| (*service, *limits)).collect();
        self.datapath.set_limits(&written)?;
        changed.into_iter().for_each(|(leaf, _, limits)| self.limits[leaf] = limits);
        Ok(())
    }

    /// By leaf: the runtime limits in force; the static policy's where they are unlimited.
    pub fn limits(&self) -> Vec<PerDirection<Bandwidth>> {
        self.limits.clone()
    }

    /// By leaf: the send limits in force, with those of the machine and of the static policy.
    pub fn send_limits(&self) -> Vec<Bandwidth> {
        self.rates.iter().map(|rate| rate.max).collect()
    }

    /// Restores the interface to its original state.
    pub fn remove(self) -> Result<(), HostError> {
        let Self { interface, datapath, credits, destinations, thread, shaper, _lock, .. } = self;
        drop((credits, destinations, thread));
        // The programs go first, so that no packet is sent to deleted classes. Both are tried,
        // whatever the first result is.
        let programs = datapath.remove().map_err(HostError::from);
        if let Some(shaper) = shaper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            shaper.leave();
        }
        // Any owner of the qdisc counts: an agent that could neither renew it nor return to the old
        // policy left it without an owner. A qdisc of another program is not Weir's and stays.
        let qdisc = HtbTree::remove_leftover(&interface).map(drop).map_err(|error| ShaperError::from(error).into());
        all([programs, qdisc])
    }

    /// Keeps everything in force for the next agent when this is dropped, after an error and in a
    /// panic too; the kernel puts the static policy in force if no agent follows. [`Host::remove`]
    /// still takes it down.
    pub fn keep(&mut self) {
        self.set_kept(true);
    }

    fn set_kept(&mut self, kept: bool) {
        self.kept = kept;
        self.datapath.set_kept(kept);
        if let Some(shaper) = self.shaper.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            shaper.set_kept(kept);
        }
    }
}

/// Deletes the state of a killed agent on the interface, and of agents on interfaces that are gone,
/// this one included; returns whether there was any. Refused while an agent runs.
pub fn remove(interface: &str) -> Result<bool, HostError> {
    let removed = match Interface::named(interface) {
        Ok(interface) => {
            let _lock = lock(Path::new(locks::DIRECTORY), &interface)?;
            let programs = match InterfaceDatapath::remove_leftover(&interface) {
                // An agent whose lock is not visible here, because its /run is another.
                Err(error @ LoaderError::AlreadyAttached(_)) => return Err(error.into()),
                removed => removed.map_err(HostError::from),
            };
            // Both are tried, whatever the first result is.
            let qdisc = HtbTree::remove_leftover(&interface).map_err(|error| ShaperError::from(error).into());
            let found = [&programs, &qdisc].into_iter().any(|removed| matches!(removed, Ok(true)));
            all([programs.map(drop), qdisc.map(drop)])?;
            found
        }
        // Its qdisc and programs went with it, and its pins are dangling.
        Err(error) if error.is_absent() => match sweep() {
            0 => return Err(error.into()),
            _ => true,
        },
        Err(error) => return Err(error.into()),
    };
    remove_gone();
    Ok(removed)
}

/// Deletes the state of agents on interfaces that are gone; returns on how many.
pub fn remove_gone() -> usize {
    let gone = sweep();
    lock::sweep(Path::new(locks::DIRECTORY));
    gone
}

/// Combines the errors of independent steps.
fn all(results: [Result<(), HostError>; 2]) -> Result<(), HostError> {
    match results {
        [Err(first), Err(second)] => Err(HostError::Both(Box::new([first, second]))),
        [first, second] => first.and(second),
    }
}

/// The bytes that wait at a limit beyond [`QUEUE_TIME`] (the head of [`weir_linux::class`]).
fn longest_queue(sending: Sending) -> Bytes {
    Bytes::new((sending.frame.get() * 128).max(2 * sending.segment.get()))
}

/// Lifts all brokers' limits.
fn lift(datapath: &mut InterfaceDatapath, leaves: &[ServiceId]) -> Result<(), HostError> {
    let unlimited = PerDirection { tx: Bandwidth::UNLIMITED, rx: Bandwidth::UNLIMITED };
    let limits: Vec<_> = leaves.iter().map(|leaf| (*leaf, unlimited)).collect();
    Ok(datapath.set_limits(&limits)?)
}

fn classes(backend: Backend) -> Classes {
    match backend {
        Backend::Htb => Classes::Htb,
        Backend::Edt => Classes::Edt,
    }
}

/// Slots, meters, feedback and the limit of segments by the policy.
fn configure(datapath: &mut InterfaceDatapath, host_context: &HostContext<'_>, plan: &Plan) -> Result<(), HostError> {
    let policy = host_context.policy;
    datapath.set_slots(policy.services().leaves().map(|(id, service)| (id, service.path())))?;
    datapath.set_shaper(policy, host_context.machine, &shaper_config(policy), plan.sending)?;
    datapath.limit_segments(plan.segments)?;
    let limits = host_context.static_limits().map(|(leaf, limits)| (leaf, limits.rx));
    Ok(datapath.set_static_limits(&limits.collect::<Vec<_>>())?)
}

/// Sets the keys and sources of control traffic and the senders to fabric brokers, and sends the first heartbeat.
fn trust(datapath: &mut InterfaceDatapath, host_context: &HostContext<'_>) -> Result<(), HostError> {
    let secrets = host_context.keys.all().iter().map(weir_control::wire::Key::feedback);
    let keys: Vec<FeedbackKey> =
        secrets.map(|secret| FeedbackKey { id: secret.number, key: SipKey::new(secret.bytes) }).collect();
    datapath.set_keys(&keys)?;
    datapath.set_control(&host_context.control)?;
    // Brokers with more addresses than the map takes leave tenants' connections to some, and the host as it is.
    if let Err(error) = datapath.set_fabric(host_context.fabric) {
        warn!("connections of other programs to fabric brokers are not all refused: {error}");
    }
    Ok(datapath.heartbeat()?)
}
