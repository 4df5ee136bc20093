//! The loop of the agent.
//!
//! One thread has four sources: the socket, the fabric session, the broker's timer, and signals. It
//! hands each input to the broker and then carries out all outputs. A failure at run time (a
//! datagram that cannot be sent, a status that cannot be written) is logged and counted. A failure
//! that makes enforcement impossible ends the agent and restores the interface to its original state,
//! or with `keep` leaves it as it is: an error and a panic then leave it as a kill does.
//!
//! SIGHUP puts the configuration in the files in force ([`reload`]). While the interface is absent,
//! no limit is enforced and no report is sent; the agent looks for it once a period and brings it
//! under the policy when it is back. The agent also restores its qdisc and programs after another
//! program has removed them ([`presence`]).

mod config;
mod counters;
mod epochs;
mod presence;
mod reload;
mod saved;
mod shared_queue;
mod tenants;

use config::Means;
pub use config::{AgentConfig, AgentError};
pub use counters::DatagramCounters;

use crate::credits::report;
use crate::fabric_session::FabricSession;
use crate::fabric_sockets::SessionSockets;
use crate::host::{self, AgentLock, Host, HostContext};
use crate::notify;
use crate::runtime_config::RuntimeConfig;
use crate::status::{self, Period, StatusReporter};
use crate::unmatched::unmatched;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tenants::Tenants;
use tokio::net::UdpSocket;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{debug, info, warn};
use weir_control::wire::Message;
use weir_control::{EpochNotice, Input, MeterReading, Mode, Output, RackBroker, RackBrokerConfig, RuntimeLimit};
use weir_fabric::{FromFabric, Session};
use weir_linux::settings::{self, ControlSettings};
use weir_linux::shaper::Backend;
use weir_observe::{Publisher, server};
use weir_units::{Bandwidth, Bytes, Duration, Instant, MachineId, PerDirection};

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> AgentError {
    let what = what.into();
    move |error| AgentError::Io { what, error }
}

/// Runs until SIGTERM or SIGINT, and then restores the interface to its original state, or with
/// [`AgentConfig::keep`] leaves it as it is.
pub fn run(mut config: AgentConfig) -> Result<(), AgentError> {
    if let Some(session) = &mut config.fabric {
        let (sockets, configured) = (Arc::clone(&config.fabric_sockets), session.brokers.clone());
        session.sockets = Some(Arc::new(SessionSockets { sockets, configured }));
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io_error("start the event loop"))?;
    runtime.block_on(async {
        // Everything that may be refused is tried before the host is changed.
        let mut terminate = signal(SignalKind::terminate()).map_err(io_error("listen for SIGTERM"))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(io_error("listen for SIGINT"))?;
        let hangup = signal(SignalKind::hangup()).map_err(io_error("listen for SIGHUP"))?;
        let listening = config.runtime_config.listen;
        let socket =
            UdpSocket::bind(listening).await.map_err(|error| AgentError::Listen { address: listening, error })?;
        let watched = config.metrics.map(listen).transpose()?;
        let session = config.fabric.clone().map(Session::start).transpose()?;
        let cookie = settings::cookie(&socket).map_err(io_error("read the socket's cookie"))?;
        let tenants = Tenants::start(&config)?;
        // Not before SIGHUP is handled, and released after all else.
        let _lock = AgentLock::take(&config.interface)?;
        let host_context =
            host_context(&config.runtime_config, config.means(), cookie, config.epoch, &config.broker, &tenants);
        let mut host = Host::install(&config.interface, &host_context, config.force)?;
        if config.keep {
            host.keep();
        }
        let publisher = watched.is_some().then(Publisher::new);
        // On a thread of its own, which ends when the returned value is dropped.
        let _server = match (watched, &publisher) {
            (Some(listener), Some(publisher)) => {
                let reader = publisher.reader();
                let served = server::start("status", listener, server::Limits::default(), move || reader.router());
                Some(served.map_err(io_error("serve the status"))?)
            }
            _ => None,
        };
        let mut daemon = Daemon::new(config, host, socket, cookie, (session, tenants), publisher);
        notify::ready();
        let result = tokio::select! {
            result = daemon.serve(hangup) => result,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        };
        notify::stopping();
        daemon.reporter.end();
        let removed = match daemon.host.take() {
            Some(host) if daemon.config.keep => {
                info!("leaving qdisc and programs on {} in force", daemon.config.interface);
                drop(host);
                Ok(())
            }
            Some(host) => {
                info!("removing qdisc and programs from {}", daemon.config.interface);
                host.remove()
            }
            // Leftovers of an interface on which the agent was not complete.
            None if daemon.not_enforced.is_some() && !daemon.config.keep => {
                host::remove(&daemon.config.interface).map(drop)
            }
            None => Ok(()),
        };
        result.and(removed.map_err(AgentError::from))
    })
}

/// Listens for watchers. A refusal comes before the host is changed.
fn listen(address: SocketAddr) -> Result<TcpListener, AgentError> {
    server::listen(address).map_err(|error| AgentError::Listen { address, error })
}

/// The host context of a runtime configuration.
fn host_context<'a>(
    runtime_config: &'a RuntimeConfig,
    means: Means<'a>,
    cookie: u64,
    epoch: u64,
    broker: &RackBrokerConfig,
    tenants: &'a Tenants,
) -> HostContext<'a> {
    let peers = runtime_config.peers.iter().map(|(_, address)| address.ip()).collect();
    let control = ControlSettings { listen: runtime_config.listen, cookie, epoch, peers, timeout: broker.timeout };
    HostContext {
        policy: tenants.policy().unwrap_or(&runtime_config.policy),
        machine: runtime_config.machine,
        tags: tenants.tags(),
        reserved: tenants.reserved(),
        keys: &runtime_config.keys,
        rule: broker.rule,
        control,
        fabric: means.fabric,
        pods: means.pods,
        backend: means.backend,
        credit_period: means.credit_period,
    }
}

struct Daemon {
    config: AgentConfig,
    /// Absent while the interface is.
    host: Option<Host>,
    socket: UdpSocket,
    /// The kernel's number of the socket.
    cookie: u64,
    epoch: u64,
    broker: RackBroker,
    session: FabricSession,
    tenants: Tenants,
    started: tokio::time::Instant,
    /// When the interface, with its qdisc and programs, is checked again.
    look: Instant,
    /// Why limits are not enforced although the interface is there.
    not_enforced: Option<String>,
    /// Why some control groups are not matched, as it was logged.
    cgroups_missed: Option<String>,
    /// The same of guests.
    guests_missed: Option<String>,
    /// The filters that match nothing on this host, as they were logged.
    filters_unmatched: Vec<String>,
    /// Whether this agent has just dropped programs of its own.
    releases: bool,
    /// Whether the warning about a destination thread without real-time priority was logged.
    warned_of_delay: bool,
    mode: Mode,
    /// Whether limits of an earlier broker were in force, and the mode after them is not logged
    /// yet.
    resumed: bool,
    datagrams: DatagramCounters,
    /// The last readings with their time, for the usage.
    meters: (Instant, Vec<MeterReading>),
    /// The time of the last status of a period.
    status_at: Option<Instant>,
    usage: Vec<PerDirection<Bandwidth>>,
    reporter: StatusReporter,
}

impl Daemon {
    fn new(
        config: AgentConfig,
        host: Host,
        socket: UdpSocket,
        cookie: u64,
        (session, tenants): (Option<Session>, Tenants),
        publisher: Option<Publisher>,
    ) -> Self {
        let RuntimeConfig { policy, machine, listen, .. } = &config.runtime_config;
        let epoch = config.epoch;
        let mut broker = RackBroker::new(policy, *machine, epoch, config.broker, Instant::ZERO);
        let name = policy.network().machine(*machine).name();
        info!("agent ready: {name} on {} by {}, listening on {listen}", config.interface, host.backend());
        notify::status(&format!("{name} on {} by {}", config.interface, host.backend()));
        for obstacle in host.obstacles() {
            let reason = obstacle.obstacle.as_deref().unwrap_or_default();
            info!("not by {}: {reason}", obstacle.backend);
        }
        if host.is_adopted() {
            info!("adopted the state of an earlier agent");
            match host.resumes() {
                true => broker.resume(&host.limits()),
                false => {
                    info!("it ended longer ago than the timeout of brokers' limits: the static policy is in force")
                }
            }
        }
        if host.is_of_another_version() {
            info!("replaced an agent of another version: brokers' limits ended with it");
        }
        let mut session = FabricSession::new(session);
        session.concern(policy);
        broker.handle_input(Instant::ZERO, Input::Reach(session.reach()));
        let outline = status::outline(&config, Some(&host), epoch);
        let reporter = StatusReporter::new(outline, config.status.clone(), publisher);
        Self {
            mode: broker.mode(),
            resumed: broker.is_resuming(),
            host: Some(host),
            socket,
            cookie,
            epoch,
            broker,
            session,
            tenants,
            started: tokio::time::Instant::now(),
            look: Instant::ZERO,
            not_enforced: None,
            cgroups_missed: None,
            guests_missed: None,
            filters_unmatched: Vec::new(),
            releases: false,
            warned_of_delay: false,
            datagrams: DatagramCounters::default(),
            meters: (Instant::ZERO, Vec::new()),
            status_at: None,
            usage: Vec::new(),
            reporter,
            config,
        }
    }

    /// Starts a new broker with an epoch of its own, which begins with the limits in force, if any.
    fn begin_anew(&mut self, epoch: u64, in_force: Option<&[PerDirection<Bandwidth>]>) {
        let RuntimeConfig { policy, machine, .. } = &self.config.runtime_config;
        self.epoch = epoch;
        self.broker = RackBroker::new(policy, *machine, epoch, self.config.broker, self.now());
        self.broker.handle_input(self.now(), Input::Reach(self.session.reach()));
        if let Some(limits) = in_force {
            self.broker.resume(limits);
        }
        self.resumed = self.broker.is_resuming();
        (self.meters, self.usage) = ((self.now(), Vec::new()), Vec::new());
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    async fn serve(&mut self, mut hangup: Signal) -> Result<(), AgentError> {
        // One byte more than the largest datagram; UDP truncates longer ones.
        let mut buffer = vec![0; 65_536];
        loop {
            let due = match self.host {
                Some(_) => self.broker.poll_timeout().unwrap_or(Instant::from_nanos(u64::MAX)),
                None => self.look,
            };
            let wait = due.min(self.tenants.poll_timeout()).saturating_since(self.now());
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok((length, from)) => self.receive(&buffer[..length], from),
                    // An ICMP error of an earlier datagram: that peer does not listen yet.
                    Err(error) => debug!("receive: {error}"),
                },
                message = self.session.message() => {
                    let now = self.now();
                    match &message {
                        FromFabric::Limits(limits) => self.broker.handle_input(now, Input::Fabric(limits)),
                        FromFabric::Proposal(limits) => self.broker.handle_input(now, Input::Proposal(limits)),
                        FromFabric::Reach(reach) => self.broker.handle_input(now, Input::Reach(*reach)),
                        FromFabric::Notice(notice) => self.take_notice(*notice),
                    }
                }
                message = self.tenants.message() => {
                    if let Err(error) = self.take_tenants(message) {
                        self.outlive(error)?;
                    }
                }
                _ = hangup.recv() => {
                    if let Err(error) = self.reload() {
                        self.outlive(error)?;
                    }
                }
                () = tokio::time::sleep(std(wait)) => {
                    let now = self.now();
                    if due <= now && self.is_present() {
                        self.broker.handle_input(now, Input::Timeout);
                    }
                    self.confirm_tenants();
                    if let Err(error) = self.check_lease() {
                        self.outlive(error)?;
                    }
                }
            }
            if let Err(error) = self.perform_outputs().await {
                self.outlive(error)?;
            }
            if let Err(error) = self.limit_shared_queue() {
                self.outlive(error)?;
            }
            self.take_check();
        }
    }

    fn receive(&mut self, datagram: &[u8], from: SocketAddr) {
        match weir_control::wire::decode(datagram, &self.config.runtime_config.keys) {
            Ok(message) => match message.rack_input() {
                // Limits of the fabric broker arrive by the session, which verifies its
                // certificate: every machine has the key here.
                None
                | Some(Input::Fabric(_) | Input::Proposal(_) | Input::EpochNotice(EpochNotice { from: None, .. })) => {
                    self.datagrams.misdirected += 1;
                    debug!("datagram from {from} ignored: it is from a fabric broker, or for one");
                }
                Some(input) => {
                    let now = self.now();
                    self.broker.handle_input(now, input);
                }
            },
            Err(error) => {
                self.datagrams.count(error);
                debug!("datagram from {from} ignored: {error}");
            }
        }
    }

    async fn perform_outputs(&mut self) -> Result<(), AgentError> {
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::ReadMeters => {
                    let queues = self.is_status_due();
                    let Some(host) = &mut self.host else { continue };
                    let readings = host.read_meters(queues).await?;
                    let now = self.now();
                    self.measure(now, &readings);
                    self.tenants.report(now, &readings);
                    self.report_delay();
                    self.broker.handle_input(now, Input::Meters(&readings));
                }
                Output::Broadcast(report) => self.broadcast(&report.into()).await,
                Output::Relay(relay) => self.broadcast(&relay.into()).await,
                Output::ShutOut(notice) => self.broadcast(&notice.into()).await,
                Output::ReportRack(report) => self.session.report(report, self.broker.leads_after()),
                Output::ReplyRack(reply) => self.session.reply(reply),
                Output::NotifyEpoch(notice) => self.notify(&notice).await,
                Output::FabricEpoch(notice) => self.broadcast(&Message::FabricEpoch(notice)).await,
                Output::StoreEpoch(epoch) => self.continue_in(epoch)?,
                Output::SetLimits(mut limits) => {
                    let Some(host) = &mut self.host else { continue };
                    // Queues of the switches divide uplinks among tenants, and the controller limits those without one.
                    let RuntimeConfig { policy, machine, .. } = &self.config.runtime_config;
                    for limit in &mut limits {
                        let capacity = policy.machine_capacity(*machine, limit.direction);
                        let of_tenant = self.tenants.limit(limit.service, limit.direction, capacity);
                        limit.limit = of_tenant.unwrap_or(limit.limit);
                    }
                    let changed = host.set_limits(&limits)?;
                    self.report(&changed);
                    if self.is_status_due() {
                        self.status_at = Some(self.now());
                        self.report_status();
                    }
                }
            }
        }
        Ok(())
    }

    /// Limits may change in each interval; a status, which takes a reading of all counters, is due
    /// once a period.
    fn is_status_due(&self) -> bool {
        let least = Duration::from_nanos(self.config.broker.period.nanos() / 10 * 9);
        self.status_at.is_none_or(|at| self.now().saturating_since(at) >= least)
    }

    fn measure(&mut self, now: Instant, readings: &[MeterReading]) {
        let (before, old) = &self.meters;
        let time = now.saturating_since(*before);
        // The usage of a whole period: an interval of the broker shows single bursts.
        let least = Duration::from_nanos(self.config.broker.period.nanos() / 10 * 9);
        if old.len() == readings.len() && time < least {
            return;
        }
        let rate = |now: Bytes, before: Bytes| Bandwidth::from_transfer(now.saturating_sub(before), time);
        if old.len() == readings.len() {
            let pairs = readings.iter().zip(old);
            let usage = |(n, o): (&MeterReading, &MeterReading)| PerDirection {
                tx: rate(n.bytes.tx, o.bytes.tx),
                rx: rate(n.bytes.rx, o.bytes.rx),
            };
            self.usage = pairs.map(usage).collect();
        }
        self.meters = (now, readings.to_vec());
    }

    async fn broadcast(&mut self, message: &Message) {
        self.send(message, None).await;
    }

    /// Sends a message to one machine of the rack, or to all others.
    async fn send(&mut self, message: &Message, to: Option<MachineId>) {
        let RuntimeConfig { policy, peers, keys, .. } = &self.config.runtime_config;
        let datagram = weir_control::wire::encode(message, keys.signing());
        for (machine, address) in peers.iter().filter(|(machine, _)| to.is_none_or(|to| to == *machine)) {
            if let Err(error) = self.socket.send_to(&datagram, address).await {
                self.datagrams.unsent += 1;
                let name = policy.network().machine(*machine).name();
                debug!("datagram to {name} at {address}: {error}");
            }
        }
    }

    /// Warns once if a thread without real-time priority sets the classes of destinations.
    fn report_delay(&mut self) {
        let late = |host: &Host| host.backend() == Backend::Htb && !host.is_prompt();
        if !self.warned_of_delay && self.host.as_ref().is_some_and(late) {
            self.warned_of_delay = true;
            warn!(
                "the thread that limits destinations is no real-time thread (CAP_SYS_NICE): on a busy host limits take \
                 effect later"
            );
        }
    }

    /// Logs changed limits by the services' names.
    fn report(&mut self, changed: &[RuntimeLimit]) {
        if !self.broker.is_resuming() && (self.resumed || self.mode != self.broker.mode()) {
            self.resumed = false;
            self.mode = self.broker.mode();
            match self.mode {
                Mode::Static => warn!(
                    "no report from any machine of the rack for {}: back to the static policy",
                    self.config.broker.timeout
                ),
                Mode::Runtime => info!("the rack's policy is in force"),
            }
        }
        for limit in changed {
            let service = self.config.runtime_config.policy.services().get(limit.service).path();
            debug!("{service} {}: limit {}", limit.direction, limit.limit);
        }
    }

    fn report_status(&mut self) {
        let uptime = self.now().saturating_since(Instant::ZERO);
        let kernel = self.host.as_mut().map(Host::kernel_readings);
        match &kernel {
            Some(Err(error)) => debug!("read the kernel's counters: {error}"),
            Some(Ok(kernel)) => {
                let missed = kernel.cgroups.as_ref().and_then(|cgroups| cgroups.missed.clone());
                if let (Some(reason), true) = (&missed, missed != self.cgroups_missed) {
                    warn!("packets of some control groups do not belong to their service: {reason}");
                }
                self.cgroups_missed = missed;
                let missed = kernel.guests.as_ref().and_then(|guests| guests.missed.clone());
                if let (Some(reason), true) = (&missed, missed != self.guests_missed) {
                    warn!("packets of some interfaces do not belong to their service: {reason}");
                }
                self.guests_missed = missed;
                let policy = &self.config.runtime_config.policy;
                let unmatched = unmatched(policy, kernel.guests.as_ref(), kernel.cgroups.as_ref());
                for new in unmatched.iter().filter(|line| !self.filters_unmatched.contains(line)) {
                    info!("filters that match nothing: {new}");
                }
                self.filters_unmatched = unmatched;
            }
            None => self.filters_unmatched.clear(),
        }
        let left = self.host.as_ref().filter(|_| self.broker.is_resuming()).map(Host::limits);
        let credits = self.host.as_ref().and_then(Host::credits);
        self.reporter.report(&Period {
            left,
            credits: credits.map(|reading| report::status(&reading, &self.config.runtime_config.policy)),
            kernel: kernel.and_then(Result::ok).as_ref(),
            filters_unmatched: &self.filters_unmatched,
            idle: self.host.is_none(),
            interface_absent: self.host.is_none() && self.not_enforced.is_none(),
            not_enforced: self.not_enforced.as_deref(),
            uptime,
            broker: &self.broker,
            readings: &self.meters.1,
            usage: &self.usage,
            datagrams: &self.datagrams,
            session: &self.session,
        });
    }
}

fn std(duration: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(duration.nanos())
}
