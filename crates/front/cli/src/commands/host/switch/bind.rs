//! `weir switch bind`: weights and DSCP values of tenants' queues, as the controller of the fabric broker sets them.
//!
//! The switch connects to the controller, so nothing listens on it. Ports get the policy's configuration first, with
//! all tenants in the shared queue; a switch whose ports have their queues already keeps them as they are until the
//! controller's settings arrive.

use super::bound_ports::{PortNeeds, Ports};
use super::changes::Changes;
use super::driver::AnySwitch;
use super::publish::{Publication, Trouble};
use super::{Mapping, desired, driver, select};
use crate::error::{CommandError, Exit};
use crate::output::Ui;
use crate::text;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use weir_fabric::binding::{FromController, Subscriber, SubscriberConfig, SubscriberState, ToController};
use weir_fabric::{BrokerUrl, IdentityFiles, SessionError};
use weir_policy::Policy;
use weir_status::{SwitchStatus, fill};
use weir_switch::{DrainLimits, Driver, ReadQueues};
use weir_units::Bytes;

/// The time between two checks that the ports have what was applied, without a notification of the switch.
const CHECK: Duration = Duration::from_secs(5);

const BIND: &str = "\
Examples:
  weir switch bind policy.yaml --switch r1 --bridge br0 --fabric https://fabric.example.org:30567 \\
    --certificate machine-r1.pem --private-key machine-r1.key --ca ca.pem

The certificate names the switch (`weir certificate`). Ports that lose their configuration get it
again, on Linux at once, otherwise within 5 s. `weir top --switch` and the dashboard read its status,
which has the counters of all queues. Ctrl-C ends it; the configuration stays. SIGHUP reads the
policy again, as a whole or not at all.

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
    /// With --driver sonic: the most that one of its queues holds [default: what CONFIG_DB has, or else
    /// the policy]
    #[arg(long, value_name = "SIZE")]
    queue_buffer: Option<Bytes>,
}

pub(super) fn run(args: &Bind, ui: &mut Ui) -> Result<Exit, CommandError> {
    if args.policy == Path::new("-") {
        return Err(CommandError::refused("the policy must be a file: SIGHUP reads it again"));
    }
    let (policy, needed, mut selected) = select(args, ui)?;
    // With rates and buffers, which some drivers cannot set.
    let stated = selected.ports.clone();
    let mut driver = driver::noted(ui, |notes| driver::of(&args.mapping, &mut selected, notes))?;
    let needs = port_needs(args, &mut driver, (&policy, &needed), (&selected, &stated), ui)?;
    // Before the ports are read, so that no change is missed.
    let events = driver.events().map_err(|error| CommandError::failed(format!("{}: {error}", selected.switch)))?;
    let mut ports = Ports::new(driver, &needs);
    let fresh = ports.begin()?;
    let publication = Publication::new(args.status.clone(), args.metrics)?;
    let status = SwitchStatus {
        levels: Some(needed.levels()),
        without_agent: args.mapping.without_agent.clone(),
        ..SwitchStatus::outline(selected.switch.clone(), fill::fingerprint(&policy), millis(CHECK))
    };
    let state = SubscriberState { policy: policy.digest(), fresh };
    let subscriber = Subscriber::start(subscription(args, &selected.switch), state).map_err(not_subscribed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::failed(format!("start the event loop: {error}")))?;
    let changes = {
        let _entered = runtime.enter();
        Changes::new(events)?
    };
    let (digest, trouble) = (policy.digest(), Trouble::default());
    let binding = Binding { args, subscriber, ports, changes, is_fresh: fresh, digest, publication, status, trouble };
    runtime.block_on(binding.serve(ui))
}

/// The policy's file, with the ports that are interfaces of this switch.
fn select(args: &Bind, ui: &mut Ui) -> Result<(Policy, select::Needed, select::Selected), CommandError> {
    let (policy, notes) = crate::input::policy(&args.policy)??;
    crate::input::print_notes(&notes, ui)?;
    let needed = select::Needed::of(&policy, &args.mapping.without_agent)?;
    let selected = driver::noted(ui, |notes| needed.select(&args.mapping, notes))?;
    if policy.tenants().is_empty() {
        return Err(
            CommandError::refused("the policy has no tenants").hint("`weir switch apply` sets all that it needs")
        );
    }
    Ok((policy, needed, selected))
}

/// The needs of a policy at the selected ports; `stated` are these with all that it states.
fn port_needs(
    args: &Bind,
    driver: &mut AnySwitch,
    (policy, needed): (&Policy, &select::Needed),
    (selected, stated): (&select::Selected, &[select::Port]),
    ui: &mut Ui,
) -> Result<PortNeeds, CommandError> {
    check_map(driver, policy)?;
    let limits = drain_limits(args, driver, (needed, stated), ui)?;
    let interfaces = selected.ports.iter().filter_map(|port| Some((port.name.clone(), port.interface.clone()?)));
    Ok(PortNeeds { interfaces: interfaces.collect(), base: desired(selected), limits })
}

/// The streams to the controller, by any of the fabric brokers.
fn subscription(args: &Bind, switch: &str) -> SubscriberConfig {
    let identity = IdentityFiles {
        certificate: args.certificate.clone(),
        private_key: args.private_key.clone(),
        ca: args.ca.clone(),
    };
    let (name, brokers) = (switch.to_owned(), args.fabric.clone());
    SubscriberConfig { name, is_switch: true, brokers, identity, sockets: None }
}

fn not_subscribed(error: SessionError) -> CommandError {
    CommandError::refused(error.to_string())
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
fn drain_limits(
    args: &Bind,
    driver: &mut AnySwitch,
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
    let (mut limits, mut largest) = (BTreeMap::new(), None);
    for port in ports {
        let weighted = port.config.queues().filter(|queue| !queue.schedule.is_strict()).count();
        let (Some(interface), Ok(queues @ 1..)) = (&port.interface, u8::try_from(weighted)) else { continue };
        let (buffer, source) = match args.queue_buffer {
            Some(buffer) => (Some(buffer), "--queue-buffer"),
            None => match queue_buffer(driver, port, (interface, queues))? {
                Some(buffer) => (Some(buffer), "CONFIG_DB"),
                None => (None, "the policy"),
            },
        };
        let own = needed.drain_limits(port, buffer)?;
        largest = largest.max(Some((own.buffer, source)));
        limits.insert(interface.clone(), own);
    }
    if let Some((most, source)) = largest {
        let size = text::size(most.get());
        let note = format!("queues of this switch hold at most {size} by {source}, by which their drains are timed");
        driver::note(&note, ui)?;
    }
    Ok(limits)
}

/// The most that a queue of a port can hold, by the switch's own configuration.
fn queue_buffer(
    driver: &mut AnySwitch,
    port: &select::Port,
    (interface, queues): (&str, u8),
) -> Result<Option<Bytes>, CommandError> {
    driver.queue_buffer(interface, queues).map_err(|error| {
        let failed = CommandError::failed(format!("switch {}, port {interface}: {error}", port.switch));
        driver.hint(&error).into_iter().fold(failed, |failed, hint| failed.hint(hint))
    })
}

/// The binding of this switch's queues.
struct Binding<'a> {
    args: &'a Bind,
    subscriber: Subscriber,
    ports: Ports<AnySwitch>,
    changes: Changes,
    /// Whether ports have had all tenants in the shared queue since the last settings, for the begin of a stream.
    is_fresh: bool,
    /// The fingerprint of the policy in force.
    digest: u64,
    publication: Publication,
    status: SwitchStatus,
    /// A failure that lasts; its work is tried again.
    trouble: Trouble,
}

impl Binding<'_> {
    /// Serves the controller until SIGINT or SIGTERM.
    async fn serve(mut self, ui: &mut Ui) -> Result<Exit, CommandError> {
        let listen = |kind, name: &str| {
            signal(kind).map_err(|error| CommandError::failed(format!("cannot listen for {name}: {error}")))
        };
        let mut interrupt = listen(SignalKind::interrupt(), "Ctrl-C")?;
        let mut terminate = listen(SignalKind::terminate(), "SIGTERM")?;
        let mut hangup = listen(SignalKind::hangup(), "SIGHUP")?;
        let mut check = tokio::time::interval(CHECK);
        loop {
            let outcome = tokio::select! {
                message = self.subscriber.message() => self.receive(message, ui)?,
                due = self.changes.next(&self.ports.interfaces) => match due {
                    Ok(after) => {
                        check.reset_after(after);
                        continue;
                    }
                    Err(text) => Err(text),
                },
                _ = check.tick() => self.check(ui)?,
                _ = hangup.recv() => {
                    self.reload(ui)?;
                    continue;
                }
                _ = interrupt.recv() => return Ok(Exit::Done),
                _ = terminate.recv() => return Ok(Exit::Done),
            };
            // What is not confirmed is sent again.
            self.trouble.report(outcome.err(), ui)?;
        }
    }

    /// Takes a message of the controller. The inner error is a trouble.
    fn receive(&mut self, message: FromController, ui: &mut Ui) -> Result<Result<(), String>, CommandError> {
        Ok(match message {
            FromController::Up { policy, .. } => {
                let text = match policy == self.digest {
                    true => "subscribed to the controller",
                    false => "the controller has another policy",
                };
                // Another controller numbers its rounds anew.
                self.ports.readings.reset();
                ui.notice(&format!("{text}\n"))?;
                Ok(())
            }
            FromController::Switch(settings) => {
                let applied = self.ports.apply(&settings);
                self.changes.discard();
                applied.map(|()| {
                    self.is_fresh = false;
                    self.subscriber.set_state(SubscriberState { policy: self.digest, fresh: false });
                    let versions = settings.version.into_iter();
                    versions.for_each(|version| self.subscriber.send(ToController::Applied(version)));
                })
            }
            FromController::Read(queue) => self.ports.read(queue).map(|reading| {
                reading.into_iter().for_each(|reading| self.subscriber.send(ToController::Reading(reading)));
            }),
            FromController::Machine(_) => Ok(()),
        })
    }

    /// Publishes the status, and restores ports that have lost their configuration.
    fn check(&mut self, ui: &mut Ui) -> Result<Result<(), String>, CommandError> {
        self.changes.check();
        if !self.publication.is_empty() {
            self.ports.look(&mut self.status);
            if let Err(text) = self.publication.publish(&mut self.status) {
                ui.notice(&format!("{text}\n"))?;
            }
        }
        Ok(self.ports.has_lost().and_then(|lost| {
            self.changes.adapt(lost, CHECK);
            if !lost {
                return Ok(());
            }
            self.is_fresh = true;
            // Before the restoration, which may fail: the controller limits tenants until it has a reply. Without a
            // stream the next one begins so.
            self.subscriber.set_state(SubscriberState { policy: self.digest, fresh: true });
            self.subscriber.send(ToController::Reset);
            let restored = self.ports.restore();
            self.changes.discard();
            restored
        }))
    }

    /// Reads the policy's file again. One that is refused changes nothing, and neither do ports that cannot be brought
    /// to it: the last policy stays in force.
    fn reload(&mut self, ui: &mut Ui) -> Result<(), CommandError> {
        let taken = self.read_policy(ui).and_then(|read| Ok((self.ports.renew(&read.needs)?, read)));
        let (renewed, read) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                let why = format!("the policy's file is refused: {}", error.text());
                ui.notice(&format!("{why}\nthe last policy stays\n"))?;
                self.status.policy_refused = Some(why);
                return Ok(());
            }
        };
        self.changes.discard();
        (self.status.policy_refused, self.status.levels) = (None, Some(read.levels));
        self.status.policy = fill::fingerprint(&read.policy);
        if renewed.is_some() || read.policy.digest() != self.digest {
            self.digest = read.policy.digest();
            // A stream has the policy of its begin, and messages of the last one are of another policy. The controller
            // sends its settings anew.
            self.is_fresh |= renewed.unwrap_or(false);
            let state = SubscriberState { policy: self.digest, fresh: self.is_fresh };
            self.subscriber = Subscriber::start(read.subscription, state).map_err(not_subscribed)?;
        }
        Ok(ui.notice("the policy is read again\n")?)
    }

    /// Reads the policy's file, and checks all that can be checked before ports are changed.
    fn read_policy(&mut self, ui: &mut Ui) -> Result<ReadPolicy, CommandError> {
        let (policy, needed, mut selected) = select(self.args, ui)?;
        let (stated, driver) = (selected.ports.clone(), &mut self.ports.driver);
        driver::noted(ui, |notes| driver::fit(driver, &self.args.mapping, &mut selected, notes))?;
        let needs = port_needs(self.args, driver, (&policy, &needed), (&selected, &stated), ui)?;
        let subscription = subscription(self.args, &selected.switch);
        subscription.check().map_err(not_subscribed)?;
        Ok(ReadPolicy { levels: needed.levels(), policy, needs, subscription })
    }
}

/// A policy that was read while another one is in force.
struct ReadPolicy {
    policy: Policy,
    levels: Vec<u8>,
    needs: PortNeeds,
    subscription: SubscriberConfig,
}
