//! A scenario in the lab, from start to result.

use crate::PREFIX;
use crate::agents::{Agents, AgentsError};
use crate::applications::{self, ApplicationError, Applications};
use crate::faults::{self, Fault, FaultError, FaultTarget, RESTART, Recovery};
use crate::forwarders::Forwarders;
use crate::janitor::{self, Janitor};
use crate::measure::{MeasureError, UplinkMeter};
use crate::messages::{Messages, MessagesError};
use crate::network::{Network, NetworkError};
use crate::ports::PortsError;
use crate::tenants::{Events, TenantControl};
use crate::traffic::{Goodput, TrafficError, Transfers};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;
use weir_linux::netns::{NetnsError, Prefix};
use weir_linux::port::QueueCounts;
use weir_linux::requirements::{self, Missing, Purpose};
use weir_results::Results;
use weir_scenario::{Enforcement, LabScenario, Program, RunResult, Sample};
use weir_units::Duration;

/// How long agents may take to receive each other's reports, and servers to listen.
const PATIENCE: Duration = Duration::from_secs(30);
/// The additional time of each port that grants credits: its programs have the policy's filters, and the kernel takes
/// 3 s of a processor to verify them, on a busy host more.
const PATIENCE_PORT: Duration = Duration::from_secs(10);
/// The additional time of each agent: the kernel verifies its programs, which takes a second of a
/// processor, on a busy host more.
const PATIENCE_AGENT: Duration = Duration::from_secs(2);
/// How long clients may take to hand in their reports after the end of the traffic.
const AFTERWARDS: Duration = Duration::from_secs(10);
const LOCK: &str = "/run/weirlab.lock";

/// Why a scenario did not run.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The scenario needs the simulator.
    #[error("only the simulator can run this scenario: {0}")]
    SimulatorOnly(String),
    /// The host lacks something.
    #[error("the lab cannot run on this host: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Missing(Vec<Missing>),
    /// Another lab.
    #[error("another lab runs on this host ({LOCK} is held)")]
    Busy,
    /// A file or a process.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Leftovers of an earlier lab, or names.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// Building the network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Starting agents.
    #[error(transparent)]
    Agents(#[from] AgentsError),
    /// Sending traffic.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// Measuring.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// Real servers.
    #[error(transparent)]
    Applications(#[from] ApplicationError),
    /// Messages.
    #[error(transparent)]
    Messages(#[from] MessagesError),
    /// The counters of ports.
    #[error(transparent)]
    Ports(#[from] PortsError),
    /// iperf3 servers that never listened.
    #[error("the iperf3 servers did not listen within {PATIENCE}")]
    NoServers,
    /// Ports that grant nothing.
    #[error("not all of {0} ports of switches began to grant credits in time")]
    NoCredits(usize),
    /// Machines or switches that have not subscribed to the controller of tenants' queues.
    #[error("machines or switches did not subscribe to the controller of tenants' queues within {PATIENCE}")]
    NoSubscribers,
    /// A fault that the scenario cannot have.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// A fault of a process that does not run.
    #[error("a fault could not be carried out: {0}, but it did not run at that time")]
    NoFault(FaultTarget),
    /// A controller of tenants' queues that does not choose.
    #[error("no control interval of tenants' queues ended in time")]
    NoInterval,
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
    let what = what.into();
    move |error| LabError::Io { what, error }
}

/// The progress of a run, for watchers.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A step before or after the traffic, as a text.
    Step(&'a str),
    /// A sample was taken; the traffic lasts `of`.
    Sample {
        /// The sample.
        sample: &'a Sample,
        /// The scenario's duration.
        of: Duration,
    },
}

/// The result of a run.
#[derive(Debug)]
pub struct LabOutcome {
    /// The time series at the measuring point.
    pub result: RunResult,
    /// The reports of iperf3 by service: a second measurement. Empty when interrupted.
    pub goodputs: Vec<Goodput>,
    /// Every request to a real server, and every message; the groups are the scenario's applications
    /// and then its groups of messages.
    pub requests: Results,
    /// The counters of each switch port that marks.
    pub ports: Vec<(String, QueueCounts)>,
    /// The agents' last statuses by machine; none without enforcement.
    pub agents: Vec<(String, serde_json::Value)>,
    /// The faults of the run, and the times to recover.
    pub recoveries: Vec<Recovery>,
    /// Faults that were not carried out, since the one before had not been recovered from.
    pub omitted_faults: Vec<Fault>,
    /// The last status of tenants' queues; null without tenants.
    pub tenants: serde_json::Value,
    /// How often TCP found packets overtaken, on all machines.
    pub reorderings: u64,
    /// Packets that ports of switches dropped, and the sums of the counters of ports that grant credits, by name.
    pub counters: BTreeMap<String, u64>,
    /// Whether it was ended early; the result has the samples until then.
    pub interrupted: bool,
}

impl LabOutcome {
    pub(crate) fn nothing() -> Self {
        Self {
            result: RunResult::default(),
            goodputs: Vec::new(),
            requests: Results::default(),
            ports: Vec::new(),
            agents: Vec::new(),
            recoveries: Vec::new(),
            omitted_faults: Vec::new(),
            tenants: serde_json::Value::Null,
            reorderings: 0,
            counters: BTreeMap::new(),
            interrupted: true,
        }
    }
}

/// The traffic as a text: `51 TCP flows, 1 UDP flow, redis-server cache with 8 connections`.
fn describe(scenario: LabScenario<'_>, transfers: &Transfers) -> String {
    let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut parts = Vec::new();
    let (tcp, udp) = transfers.flow_counts();
    parts.extend((tcp > 0).then(|| plural(tcp, "TCP flow")));
    parts.extend((udp > 0).then(|| plural(udp, "UDP flow")));
    for own in scenario.applications() {
        let clients = own.from.len() as u64;
        let clients = match own.program {
            Program::Values(values) => plural(u64::from(values.connections) * clients, "connection"),
            Program::Ptp => plural(clients, "slave"),
        };
        parts.push(format!("{} {} with {clients}", applications::program(own), own.name));
    }
    parts.extend(scenario.messages().map(|group| format!("messages of {}", group.name)));
    parts.join(", ")
}

/// Faults that are to come, and those that were.
#[derive(Debug, Default)]
struct Faults {
    waiting: VecDeque<Fault>,
    /// The one that is not recovered from, its time, and the controller's events before it.
    under_way: Option<(FaultTarget, Duration, Events)>,
    recoveries: Vec<Recovery>,
}

/// A lab that is set up. The fields are dropped, and so taken down, in this order.
struct Lab {
    meter: UplinkMeter,
    messages: Messages,
    applications: Applications,
    transfers: Transfers,
    agents: Option<Agents>,
    forwarders: Option<Forwarders>,
    tenants: Option<TenantControl>,
    network: Network,
}

impl Lab {
    /// Builds the network, starts agents and prepares the traffic; `None` if interrupted.
    fn set_up(
        scenario: LabScenario<'_>,
        weir: &Path,
        (prefix, directory): (&Prefix, &Path),
        interrupted: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Option<Self>, LabError> {
        progress(Progress::Step("building racks, machines and switches"));
        let mut network = Network::build(prefix, scenario)?;
        if interrupted() {
            return Ok(None);
        }
        match scenario.marks_above() {
            Some(mark) => progress(Progress::Step(&format!("switches' ports mark above {mark}"))),
            None => progress(Progress::Step("switches' ports do not mark")),
        }
        let mut tenants = TenantControl::start(weir, &network, scenario, directory)?;
        let agents = start_agents(scenario, weir, (&network, directory), tenants.as_ref(), interrupted, progress)?;
        if interrupted() {
            return Ok(None);
        }
        let names = (&network, directory);
        let forwarders = start_forwarders(scenario, weir, names, agents.as_ref(), interrupted, progress)?;
        if interrupted() {
            return Ok(None);
        }
        if forwarders.is_some() {
            network.release_first()?;
        }
        if let Some(control) = &mut tenants {
            progress(Progress::Step(
                "waiting until machines and switches subscribe to the controller of tenants' queues",
            ));
            if !Clock::start().until(PATIENCE, interrupted, || control.is_ready())? {
                return if interrupted() { Ok(None) } else { Err(LabError::NoSubscribers) };
            }
        }
        progress(Progress::Step("getting iperf3 servers and clients ready"));
        let transfers = Transfers::prepare(&network, scenario, directory)?;
        if !Clock::start().until(PATIENCE, interrupted, || transfers.servers_listen(&network))? {
            return if interrupted() { Ok(None) } else { Err(LabError::NoServers) };
        }
        let meter = UplinkMeter::attach(&network, scenario, scenario.measure())?;
        let taken = |machine| transfers.taken(machine).to_vec();
        let applications = Applications::prepare(&network, scenario, &taken, directory)?;
        let taken = |machine| transfers.taken(machine).iter().copied().chain(applications.taken(machine)).collect();
        let messages = Messages::prepare(&network, scenario, &taken)?;
        if let Some(control) = &mut tenants {
            progress(Progress::Step("waiting for the end of a control interval"));
            let (before, patience) = (control.intervals()?, PATIENCE + scenario.policy().tenant_queues().interval);
            let ended = || Ok::<_, LabError>(control.intervals()? > before);
            if !Clock::start().until(patience, interrupted, ended)? && !interrupted() {
                return Err(LabError::NoInterval);
            }
        }
        progress(Progress::Step(&describe(scenario, &transfers)));
        Ok(Some(Self { meter, messages, applications, transfers, agents, forwarders, tenants, network }))
    }

    /// Sends the traffic and takes samples until its end or an interruption; returns whether it was
    /// interrupted.
    fn send(
        &mut self,
        scenario: LabScenario<'_>,
        clock: &Clock,
        faults: &mut Faults,
        samples: &mut Vec<Sample>,
        interrupted: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<bool, LabError> {
        self.applications.begin(clock.started)?;
        self.messages.begin(clock.started)?;
        let (every, duration) = (scenario.measure().every, scenario.duration());
        let mut next_sample = every;
        loop {
            let now = clock.now();
            self.transfers.start_clients(now)?;
            self.fail(scenario, faults, now, progress)?;
            if now >= next_sample {
                if let Some(agents) = &mut self.agents {
                    agents.check()?;
                }
                if let Some(forwarders) = &mut self.forwarders {
                    forwarders.check()?;
                }
                if let Some(tenants) = &mut self.tenants {
                    tenants.check()?;
                }
                self.messages.check()?;
                let sample = self.meter.sample(clock.now())?;
                progress(Progress::Sample { sample: &sample, of: duration });
                samples.push(sample);
                // A late sample covers the missed ones; the next one is due at the next full interval.
                while next_sample <= clock.now() {
                    next_sample += every;
                }
            }
            if interrupted() {
                progress(Progress::Step("interrupted: taking the lab down"));
                return Ok(true);
            }
            if now >= duration && next_sample > duration {
                return Ok(false);
            }
            let due = self.transfers.next_start().map_or(next_sample, |start| start.min(next_sample));
            clock.sleep_until(due);
        }
    }

    /// Carries out the faults that are due, starts what they ended again, and notes the ends of recoveries.
    fn fail(
        &mut self,
        scenario: LabScenario<'_>,
        faults: &mut Faults,
        now: Duration,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), LabError> {
        if faults.under_way.is_none()
            && let Some(fault) = faults.waiting.pop_front_if(|fault| fault.at <= now)
        {
            progress(Progress::Step(&fault.target.to_string()));
            let (Some(control), Some(agents)) = (&mut self.tenants, &mut self.agents) else {
                return Err(LabError::NoFault(fault.target));
            };
            // Another controller counts anew.
            let before = if fault.target == FaultTarget::Controller { Events::default() } else { control.events()? };
            let done = match &fault.target {
                FaultTarget::Agent(machine) => agents.kill(machine),
                FaultTarget::Controller => control.kill(None),
                FaultTarget::Switch(switch) => control.kill(Some(switch)),
                FaultTarget::Ports(switch) => control.reset(&self.network, scenario.policy(), switch)?,
            };
            if !done {
                return Err(LabError::NoFault(fault.target));
            }
            faults.under_way = Some((fault.target.clone(), now, before));
            faults.recoveries.push(Recovery { fault: Fault { at: now, ..fault }, took: None });
        }
        let (Some(control), Some(agents)) = (&mut self.tenants, &mut self.agents) else { return Ok(()) };
        let Some((target, began, before)) = &faults.under_way else { return Ok(()) };
        if now < *began + RESTART {
            return Ok(());
        }
        match target {
            FaultTarget::Agent(machine) => agents.restart(machine)?,
            FaultTarget::Controller => control.restart(None)?,
            FaultTarget::Switch(switch) => control.restart(Some(switch))?,
            FaultTarget::Ports(_) => {}
        }
        if control.is_settled(*before)? {
            let took = Some(now.saturating_sub(*began));
            faults.recoveries.last_mut().into_iter().for_each(|recovery| recovery.took = took);
            faults.under_way = None;
        }
        Ok(())
    }

    /// Ends requests and messages, and adds them, the counters and the statuses to the outcome.
    fn collect(&mut self, scenario: LabScenario<'_>, now: Duration, outcome: &mut LabOutcome) -> Result<(), LabError> {
        outcome.requests = self.applications.end(scenario, now)?;
        self.messages.end(&mut outcome.requests)?;
        outcome.ports = self.network.port_counts()?;
        outcome.reorderings = self.network.reorderings()?;
        outcome.counters = self.forwarders.as_ref().map(Forwarders::counters).unwrap_or_default();
        outcome.counters.insert("packets_dropped".to_owned(), self.network.dropped()?);
        outcome.requests.counters.extend(outcome.counters.clone());
        outcome.tenants = self.tenants.as_mut().map_or(serde_json::Value::Null, TenantControl::report);
        outcome.agents = self.agents.as_ref().map(Agents::statuses).unwrap_or_default();
        Ok(())
    }
}

/// Starts the agents and waits until each has reports of the others, or until an interruption; `None`
/// without enforcement.
fn start_agents(
    scenario: LabScenario<'_>,
    weir: &Path,
    (network, directory): (&Network, &Path),
    tenants: Option<&TenantControl>,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Option<Agents>, LabError> {
    if scenario.enforcement() == Enforcement::None {
        progress(Progress::Step("no agents: nothing enforces the policy"));
        return Ok(None);
    }
    progress(Progress::Step(match scenario.enforcement() {
        Enforcement::QShare => "starting an agent on every machine, and the controller of tenants' queues",
        Enforcement::Shaper => "starting an agent on every machine: shapers in both directions, brokers silent",
        _ => "starting an agent on every machine: shapers in both directions and rack brokers",
    }));
    let mut agents = Agents::start(weir, network, scenario, directory, tenants)?;
    let patience = PATIENCE + PATIENCE_AGENT * agents.count() as u64;
    let all_ready = || Ok::<_, AgentsError>(agents.ready()? == agents.count());
    let ready = Clock::start().until(patience, interrupted, all_ready)?;
    if interrupted() {
        return Ok(Some(agents));
    }
    if let (false, Some(error)) = (ready, agents.not_ready()) {
        return Err(error.into());
    }
    progress(Progress::Step(&format!("{} agents: {}", agents.count(), agents.backends())));
    Ok(Some(agents))
}

/// Starts the switches' forwarders, if the scenario has credits, and waits until every port grants.
fn start_forwarders(
    scenario: LabScenario<'_>,
    weir: &Path,
    (network, directory): (&Network, &Path),
    agents: Option<&Agents>,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Option<Forwarders>, LabError> {
    let Some(agents) = agents else { return Ok(None) };
    let Some(mut forwarders) = Forwarders::start(weir, network, scenario, directory, agents.key())? else {
        return Ok(None);
    };
    let ports = forwarders.ports();
    progress(Progress::Step(&format!("waiting until {ports} ports of switches grant credits")));
    let patience = PATIENCE + PATIENCE_PORT * ports as u64;
    let all_ready = || Ok::<_, AgentsError>(forwarders.ready()? == ports);
    if !Clock::start().until(patience, interrupted, all_ready)? && !interrupted() {
        return Err(LabError::NoCredits(ports));
    }
    Ok(Some(forwarders))
}

/// Refuses hosts without the requirements.
fn check(scenario: LabScenario<'_>) -> Result<(), LabError> {
    let mut missing = requirements::check(Purpose::Lab);
    missing.extend(applications::missing(scenario));
    if missing.is_empty() { Ok(()) } else { Err(LabError::Missing(missing)) }
}

/// Runs `scenario` with agents started from the program `weir`. `interrupted` is called several times
/// a second; once it returns `true`, the lab is taken down and the measurements until then are
/// returned. Must be called from a thread that outlives the lab: the lab's processes die with it.
pub fn run(
    scenario: LabScenario<'_>,
    weir: &Path,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<LabOutcome, LabError> {
    run_with(scenario, weir, &[], interrupted, progress)
}

/// The same with faults of tenants' control, one after the other: each recovers before the next one.
pub fn run_with(
    scenario: LabScenario<'_>,
    weir: &Path,
    faults: &[Fault],
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<LabOutcome, LabError> {
    faults::check(faults, scenario)?;
    check(scenario)?;
    let lock = lock()?;
    let prefix = Prefix::new(PREFIX)?;
    if !janitor::clean()?.is_empty() {
        progress(Progress::Step("removed what an earlier lab left behind"));
    }
    let directory = tempfile::Builder::new().prefix("weirlab-").tempdir().map_err(io_error("make a directory"))?;
    // Dropped after the lab, also on failure.
    let janitor = Janitor::start(weir, directory.path(), &lock).map_err(io_error("start the janitor"))?;
    be_prompt();
    let mut outcome = LabOutcome::nothing();
    let names = (&prefix, directory.path());
    let Some(mut lab) = Lab::set_up(scenario, weir, names, interrupted, progress)? else { return Ok(outcome) };

    let clock = Clock::start();
    let mut waiting: Vec<Fault> = faults.to_vec();
    waiting.sort_by_key(|fault| fault.at);
    let mut faults = Faults { waiting: waiting.into(), ..Faults::default() };
    let samples = &mut outcome.result.samples;
    let is_interrupted = lab.send(scenario, &clock, &mut faults, samples, interrupted, progress)?;
    outcome.recoveries = faults.recoveries;
    outcome.omitted_faults = faults.waiting.into();
    lab.collect(scenario, clock.now(), &mut outcome)?;
    if is_interrupted {
        return Ok(outcome);
    }
    clock.until(AFTERWARDS, interrupted, || Ok::<_, LabError>(lab.transfers.ended()))?;
    outcome.goodputs = lab.transfers.goodputs();
    outcome.interrupted = false;
    progress(Progress::Step("taking the lab down"));
    drop((lab, janitor));
    Ok(outcome)
}

/// Deletes the namespaces of an earlier lab; refused while a lab runs. Returns their names.
pub fn clean() -> Result<Vec<String>, LabError> {
    let _lock = lock()?;
    Ok(janitor::clean()?)
}

/// Takes the lock for the one lab of this host; released with the file, however the process ends.
fn lock() -> Result<File, LabError> {
    let file = File::create(LOCK).map_err(io_error(format!("open {LOCK}")))?;
    // SAFETY: plain system call on an open file.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(file);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Err(LabError::Busy) } else { Err(io_error("lock the lab")(error)) }
}

/// Raises the priority: the lab starts clients and takes samples while all processors carry packets.
fn be_prompt() {
    // SAFETY: plain system call. Without the permission the lab runs less evenly.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

/// Real time; the lab is a driver.
struct Clock {
    started: Instant,
}

/// How often the lab checks whether it was interrupted.
const STEP: Duration = Duration::from_millis(50);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the lab runs in real time")]
    fn start() -> Self {
        Self { started: Instant::now() }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// At most one [`STEP`].
    #[expect(clippy::disallowed_methods, reason = "the lab runs in real time")]
    fn sleep_until(&self, due: Duration) {
        let wait = due.saturating_sub(self.now()).min(STEP);
        std::thread::sleep(std::time::Duration::from_nanos(wait.nanos()));
    }

    /// Polls a condition until it holds, an interruption or the end of patience; returns whether it
    /// holds.
    fn until<E>(
        &self,
        patience: Duration,
        interrupted: &dyn Fn() -> bool,
        mut condition: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let end = self.now() + patience;
        loop {
            if condition()? {
                return Ok(true);
            }
            if self.now() >= end || interrupted() {
                return Ok(false);
            }
            self.sleep_until(end);
        }
    }
}
