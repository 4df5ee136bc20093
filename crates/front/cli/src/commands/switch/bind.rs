//! `weir switch bind`: weights and DSCP values of tenants' queues, as the controller of the fabric broker sets them.
//!
//! The switch connects to the controller, so nothing listens on it. Ports get the policy's configuration first, with
//! all tenants in the shared queue; a switch whose ports have their queues already keeps them as they are until the
//! controller's settings arrive.

use super::changes::Changes;
use super::publish::Published;
use super::readings::Readings;
use super::{Mapping, desired, driver, locked, refusal, select};
use crate::error::{CommandError, Exit};
use crate::output::Ui;
use crate::text;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use weir_fabric::binding::{FromController, Subscriber, SubscriberConfig, SubscriberState, ToController};
use weir_fabric::binding_proto::{Queue, Reading, SwitchSettings};
use weir_fabric::{BrokerUrl, IdentityFiles};
use weir_linux::port::PortEvents;
use weir_policy::Policy;
use weir_status::{SwitchPortStatus, SwitchQueueStatus, SwitchStatus, fill};
use weir_switch::tenants::bound;
use weir_switch::{
    DrainLimits, Driver, FieldError, Map, PortConfig, PortState, QueueConfig, QueueReading, ReadQueues, Schedule,
    port_changes,
};
use weir_units::Bytes;

/// The time between two checks that the ports have what was applied, without a notification of the switch.
const CHECK: Duration = Duration::from_secs(5);

const BIND: &str = "\
Examples:
  weir switch bind policy.yaml --switch r1 --bridge br0 --fabric https://fabric.example.org:30567 \\
    --certificate machine-r1.pem --private-key machine-r1.key --ca ca.pem

The certificate names the switch (`weir certificate`). Ports that lose their configuration get it
again, on Linux at once, otherwise within 5 s. `weir top --switch` and the dashboard read its status,
which has the counters of all queues. Ctrl-C ends it; the configuration stays.

Exit code 0: ended by Ctrl-C. 1: the ports cannot be configured. 2: refused.";

#[derive(Debug, clap::Args)]
#[command(after_help = format!("{}\n\n{BIND}", super::MAPPING))]
pub(super) struct Bind {
    /// The policy file
    policy: PathBuf,
    #[command(flatten)]
    mapping: Mapping,
    /// The addresses of all fabric brokers (see `weir fabric`)
    #[arg(long, value_name = "URL[,URL]", value_delimiter = ',', required = true)]
    fabric: Vec<BrokerUrl>,
    /// This switch's certificate, in PEM (see `weir certificate`)
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,
    /// Its private key, readable by its owner only
    #[arg(long, value_name = "FILE")]
    private_key: PathBuf,
    /// The certificate of the CA that also signed the fabric broker's
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// Write the status to this file
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Serve status and metrics here: `/status`, `/metrics`
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// With --driver sonic: the most that one of its queues holds [default: what the policy states]
    #[arg(long, value_name = "SIZE")]
    queue_buffer: Option<Bytes>,
}

pub(super) fn run(args: &Bind, ui: &mut Ui) -> Result<Exit, CommandError> {
    let (policy, notes) = crate::input::policy(&args.policy)??;
    crate::input::print_notes(&notes, ui)?;
    let needed = select::Needed::of(&policy, &args.mapping.without_agent)?;
    let mut selected = needed.select(&args.mapping, ui)?;
    if policy.tenants().is_empty() {
        return Err(
            CommandError::refused("the policy has no tenants").hint("`weir switch apply` sets all that it needs")
        );
    }
    // With rates and buffers, which some drivers cannot set.
    let stated = selected.ports.clone();
    let driver = driver::of(&args.mapping, &mut selected, ui)?;
    check_map(&driver, &policy)?;
    let limits = drain_limits(args, &driver, (&needed, &stated), ui)?;
    // Before the ports are read, so that no change is missed.
    let events = driver.events().map_err(|error| CommandError::failed(format!("{}: {error}", selected.switch)))?;
    let interfaces = selected.ports.iter().filter_map(|port| Some((port.name.clone(), port.interface.clone()?)));
    let base = desired(&selected);
    let (interfaces, readings) = (interfaces.collect(), Readings::new(limits));
    let mut ports = Ports { interfaces, in_force: base.clone(), base, driver, readings };
    let fresh = ports.begin()?;
    let config = SubscriberConfig {
        name: selected.switch.clone(),
        is_switch: true,
        brokers: args.fabric.clone(),
        identity: IdentityFiles {
            certificate: args.certificate.clone(),
            private_key: args.private_key.clone(),
            ca: args.ca.clone(),
        },
    };
    let state = SubscriberState { policy: policy.digest(), fresh };
    let published = Published::new(args.status.clone(), args.metrics)?;
    let outline = SwitchStatus {
        levels: Some(needed.levels()),
        without_agent: args.mapping.without_agent.clone(),
        ..SwitchStatus::outline(selected.switch.clone(), fill::fingerprint(&policy), millis(CHECK))
    };
    let subscriber = Subscriber::start(config, state).map_err(|error| CommandError::refused(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::failed(format!("start the event loop: {error}")))?;
    runtime.block_on(serve(subscriber, (ports, events), &policy, (published, outline), ui))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Refuses a switch with one map for all ports where the policy's tenants have queues by port.
fn check_map<D: Driver>(driver: &D, policy: &Policy) -> Result<(), CommandError> {
    if driver.capabilities().supports(policy.network().map()) {
        return Ok(());
    }
    let cause = format!(
        "switch {}: it has one map of DSCP values for all ports, and the policy gives tenants queues port by port",
        driver.switch()
    );
    let hint =
        "write `dscp-map: switch` beside `scheduler` under `network.switches`, in the fabric broker's policy too";
    Err(CommandError::refused(cause).hint(hint))
}

/// By interface, what bounds the drain of its queues, where their backlog is not read.
fn drain_limits<D: ReadQueues>(
    args: &Bind,
    driver: &D,
    (needed, ports): (&select::Needed, &[select::Port]),
    ui: &mut Ui,
) -> Result<BTreeMap<String, DrainLimits>, CommandError> {
    if driver.are_live() {
        return match args.queue_buffer {
            None => Ok(BTreeMap::new()),
            Some(_) => Err(CommandError::refused("--queue-buffer: the backlog of this switch's queues is read")
                .hint("leave it out; it is for --driver sonic")),
        };
    }
    let queued = ports.iter().filter(|port| port.config.queues().len() > 0);
    let mut limits = BTreeMap::new();
    for port in queued {
        let Some(interface) = &port.interface else { continue };
        limits.insert(interface.clone(), needed.drain_limits(port, args.queue_buffer)?);
    }
    if let Some(most) = limits.values().map(|limits| limits.buffer).max() {
        let size = text::size(most.get());
        driver::note(&format!("queues of this switch hold at most {size}, by which their drains are timed"), ui)?;
    }
    Ok(limits)
}

/// Serves the controller until SIGINT or SIGTERM.
async fn serve<D: ReadQueues>(
    mut subscriber: Subscriber,
    (mut ports, events): (Ports<D>, Option<PortEvents>),
    policy: &Policy,
    (published, mut status): (Published, SwitchStatus),
    ui: &mut Ui,
) -> Result<Exit, CommandError> {
    let listen =
        |kind| signal(kind).map_err(|error| CommandError::failed(format!("cannot listen for Ctrl-C: {error}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let mut changes = Changes::new(events)?;
    let mut check = tokio::time::interval(CHECK);
    let mut trouble = None;
    loop {
        let outcome = tokio::select! {
            message = subscriber.message() => match message {
                FromController::Up { policy: other, .. } => {
                    let text = match other == policy.digest() {
                        true => "subscribed to the controller",
                        false => "the controller has another policy",
                    };
                    // Another controller numbers its rounds anew.
                    ports.readings.reset();
                    ui.notice(&format!("{text}\n"))?;
                    Ok(())
                }
                FromController::Switch(settings) => ports.apply(&settings).map(|()| {
                    changes.discard();
                    subscriber.set_state(SubscriberState { policy: policy.digest(), fresh: false });
                    settings.version.into_iter().for_each(|version| subscriber.send(ToController::Applied(version)));
                }),
                FromController::Read(queue) => ports.read(queue).map(|reading| {
                    reading.into_iter().for_each(|reading| subscriber.send(ToController::Reading(reading)));
                }),
                FromController::Machine(_) => Ok(()),
            },
            due = changes.next(&ports.interfaces) => due.map(|after| check.reset_after(after)),
            _ = check.tick() => {
                changes.check();
                if !published.is_empty() {
                    ports.look(&mut status);
                    if let Err(text) = published.publish(&mut status) {
                        ui.notice(&format!("{text}\n"))?;
                    }
                }
                ports.has_lost().and_then(|lost| {
                    if !lost {
                        return Ok(());
                    }
                    // Before the restoration, which may fail: the controller limits tenants until it has a reply.
                    // Without a stream the next one begins so.
                    subscriber.set_state(SubscriberState { policy: policy.digest(), fresh: true });
                    subscriber.send(ToController::Reset);
                    ports.restore().map(|()| changes.discard())
                })
            }
            _ = interrupt.recv() => return Ok(Exit::Done),
            _ = terminate.recv() => return Ok(Exit::Done),
        };
        // A lasting trouble is printed once; what is not confirmed is sent again.
        let now = outcome.err();
        if now != trouble
            && let Some(text) = &now
        {
            ui.notice(&format!("{text}\n"))?;
        }
        trouble = now;
    }
}

/// The ports of this switch.
struct Ports<D> {
    /// By the port's name its interface.
    interfaces: BTreeMap<String, String>,
    /// By interface, the policy's configuration with all tenants in the shared queue.
    base: BTreeMap<String, PortConfig>,
    /// By interface, the configuration as it was last applied.
    in_force: BTreeMap<String, PortConfig>,
    driver: D,
    readings: Readings,
}

impl<D: ReadQueues> Ports<D> {
    /// Brings ports without the policy's queues to its configuration; returns whether there were any.
    fn begin(&mut self) -> Result<bool, CommandError> {
        let _lock = locked()?;
        weir_switch::apply::check(&self.driver, &self.base).map_err(refusal)?;
        let states = weir_switch::apply::read(&mut self.driver, self.base.keys()).map_err(refusal)?;
        // Ports outside the policy have no queues of Weir's.
        let lacks = |(interface, config): &(&String, &PortConfig)| {
            config.queues().len() > 0 && states.get(*interface).is_none_or(|state| !has_queues(state, config))
        };
        let mut lacking: BTreeMap<String, PortConfig> =
            self.base.iter().filter(lacks).map(|(interface, config)| (interface.clone(), config.clone())).collect();
        if !lacking.is_empty() && self.driver.capabilities().maps == Map::PerSwitch {
            // All ports have one map.
            lacking.clone_from(&self.base);
        }
        weir_switch::apply(&mut self.driver, &lacking).map_err(refusal)?;
        for (interface, config) in &mut self.in_force {
            if let (false, Some(state)) = (lacking.contains_key(interface), states.get(interface)) {
                *config = PortConfig::of_state(state).unwrap_or_else(|| config.clone());
            }
        }
        Ok(!lacking.is_empty())
    }

    /// Applies the controller's settings.
    fn apply(&mut self, settings: &SwitchSettings) -> Result<(), String> {
        let mut wanted = BTreeMap::new();
        for port in &settings.ports {
            let Some(interface) = self.interfaces.get(&port.port) else {
                return Err(format!("no interface is the port to {}: its tenants stay limited", port.port));
            };
            let small = |(dscp, queue): (&u32, &u32)| Some((u8::try_from(*dscp).ok()?, u8::try_from(*queue).ok()?));
            let map = port.map.iter().map(small).collect::<Option<BTreeMap<u8, u8>>>();
            let map = map.ok_or_else(|| format!("port {}: values that no controller sends", port.port))?;
            let config = bound(&self.base[interface], &port.weights, &map);
            wanted.insert(interface.clone(), config.map_err(|error| format!("port {}: {error}", port.port))?);
        }
        self.map_others(&mut wanted).map_err(|error| error.to_string())?;
        let _lock = locked().map_err(|error| error.text())?;
        weir_switch::apply(&mut self.driver, &wanted).map_err(|error| error.to_string())?;
        self.in_force.extend(wanted);
        Ok(())
    }

    /// Where all ports have one map, gives it to those that no tenant passes.
    fn map_others(&self, wanted: &mut BTreeMap<String, PortConfig>) -> Result<(), FieldError> {
        let map = wanted.values().next().map(PortConfig::map);
        let Some(map) = map.filter(|_| self.driver.capabilities().maps == Map::PerSwitch) else { return Ok(()) };
        for (interface, config) in &self.in_force {
            if !wanted.contains_key(interface) && config.queues().len() > 0 {
                wanted.insert(interface.clone(), config.mapping(map)?);
            }
        }
        Ok(())
    }

    /// Reads what differs at each port, and the counters of its queues. A port that cannot be read differs.
    fn look(&mut self, status: &mut SwitchStatus) {
        let mut ports = Vec::new();
        for (port, interface) in &self.interfaces {
            let config = &self.in_force[interface];
            let found = self.driver.read(interface).map(|state| port_changes(config.state(), &state));
            let differs: Vec<String> = match found {
                Ok(changes) => changes.iter().map(ToString::to_string).collect(),
                Err(error) => vec![error.to_string()],
            };
            let counters = self.driver.queues(interface).unwrap_or_default();
            let queues = (0..).zip(config.queues()).map(|(number, queue)| queue_status(number, queue, &counters));
            ports.push(SwitchPortStatus {
                port: port.clone(),
                interface: interface.clone(),
                differs,
                queues: queues.collect(),
            });
        }
        let differed = |port: &SwitchPortStatus| {
            status.ports.iter().any(|before| before.interface == port.interface && !before.differs.is_empty())
        };
        let count = |of: &dyn Fn(&&SwitchPortStatus) -> bool| ports.iter().filter(|port| of(port)).count() as u64;
        let found = count(&|port| !port.differs.is_empty() && !differed(port));
        let restored = count(&|port| port.differs.is_empty() && differed(port));
        status.changes_found += found;
        status.repaired += restored;
        status.ports = ports;
    }

    /// Whether ports have lost their configuration.
    fn has_lost(&mut self) -> Result<bool, String> {
        let states =
            weir_switch::apply::read(&mut self.driver, self.in_force.keys()).map_err(|error| error.to_string())?;
        Ok(self.in_force.iter().any(|(interface, config)| states.get(interface) != Some(config.state())))
    }

    /// Restores the configuration of all ports.
    fn restore(&mut self) -> Result<(), String> {
        self.readings.reset();
        let _lock = locked().map_err(|error| error.text())?;
        weir_switch::apply(&mut self.driver, &self.in_force).map(drop).map_err(|error| error.to_string())
    }

    /// Reads a queue; none where it does not exist.
    fn read(&mut self, queue: Queue) -> Result<Option<Reading>, String> {
        let Some(interface) = self.interfaces.get(&queue.port) else { return Ok(None) };
        let config = &self.in_force[interface];
        self.readings.read(&mut self.driver, queue, (interface, config))
    }
}

/// A queue with its counters; without them where they are not read.
fn queue_status(number: u8, queue: &QueueConfig, counters: &BTreeMap<u8, QueueReading>) -> SwitchQueueStatus {
    let QueueReading { sent, backlog, dropped, marked } = counters.get(&number).copied().unwrap_or_default();
    SwitchQueueStatus {
        queue: number,
        weight: match queue.schedule {
            Schedule::Weighted(weight) => Some(weight),
            Schedule::Strict => None,
        },
        sent_bytes: sent.map(Bytes::get),
        dropped_packets: dropped,
        marked_packets: marked,
        backlog_bytes: backlog.map(Bytes::get),
    }
}

/// Whether a port has the queues of a configuration, whatever their weights and DSCP values are.
fn has_queues(state: &PortState, config: &PortConfig) -> bool {
    let wanted = config.state();
    let kinds = |state: &PortState| state.queues.values().map(|queue| queue.schedule.is_strict()).collect::<Vec<_>>();
    state.rate == wanted.rate && state.map.is_some() && kinds(state) == kinds(wanted) && state.remark == wanted.remark
}
