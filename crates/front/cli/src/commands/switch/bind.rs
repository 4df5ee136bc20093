//! `weir switch bind`: weights and DSCP values of tenants' queues, as the controller of the fabric broker sets them.
//!
//! The switch connects to the controller, so nothing listens on it. Ports get the policy's configuration first, with
//! all tenants in the shared queue; a switch whose ports have their queues already keeps them as they are until the
//! controller's settings arrive.

use super::driver::AnySwitch;
use super::{Mapping, desired, driver, locked, needed, refusal};
use crate::error::{CommandError, Exit};
use crate::output::Ui;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use weir_fabric::binding::{FromController, Subscriber, SubscriberConfig, SubscriberState, ToController};
use weir_fabric::binding_proto::{Queue, Reading, SwitchSettings};
use weir_fabric::{BrokerUrl, IdentityFiles};
use weir_policy::Policy;
use weir_switch::tenants::bound;
use weir_switch::{PortConfig, PortState, ReadQueues};

/// The time between two checks that the ports have what was applied.
const CHECK: Duration = Duration::from_secs(5);

const BIND: &str = "\
Examples:
  weir switch bind policy.yaml --switch r1 --bridge br0 --fabric https://fabric.example.org:30567 \\
    --certificate machine-r1.pem --private-key machine-r1.key --ca ca.pem

The certificate names the switch (`weir certificate`). Ports that lose their configuration get it
again within 5 s. Ctrl-C ends it; the configuration stays.

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
}

pub(super) fn run(args: &Bind, ui: &mut Ui) -> Result<Exit, CommandError> {
    let (policy, _) = crate::input::policy(&args.policy)??;
    let mut selected = needed(&args.policy, &args.mapping, ui)?;
    if policy.tenants().is_empty() {
        return Err(
            CommandError::refused("the policy has no tenants").hint("`weir switch apply` sets all that it needs")
        );
    }
    let driver = match driver::of(&args.mapping, &mut selected, ui)? {
        AnySwitch::Tc(driver) => driver,
        AnySwitch::Sonic(_) => {
            let hint = "a Linux switch can, with --driver tc";
            return Err(CommandError::refused("SONiC shows no backlog of queues, so no tenant can move").hint(hint));
        }
    };
    let interfaces = selected.ports.iter().filter_map(|port| Some((port.name.clone(), port.interface.clone()?)));
    let base = desired(&selected);
    let mut ports = Ports { interfaces: interfaces.collect(), in_force: base.clone(), base, driver };
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
    let subscriber = Subscriber::start(config, state).map_err(|error| CommandError::refused(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::failed(format!("start the event loop: {error}")))?;
    runtime.block_on(serve(subscriber, ports, &policy, ui))
}

/// Serves the controller until SIGINT or SIGTERM.
async fn serve<D: ReadQueues>(
    mut subscriber: Subscriber,
    mut ports: Ports<D>,
    policy: &Policy,
    ui: &mut Ui,
) -> Result<Exit, CommandError> {
    let listen =
        |kind| signal(kind).map_err(|error| CommandError::failed(format!("cannot listen for Ctrl-C: {error}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
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
                    ui.notice(&format!("{text}\n"))?;
                    Ok(())
                }
                FromController::Switch(settings) => ports.apply(&settings).map(|()| {
                    subscriber.set_state(SubscriberState { policy: policy.digest(), fresh: false });
                    settings.version.into_iter().for_each(|version| subscriber.send(ToController::Applied(version)));
                }),
                FromController::Read(queue) => ports.read(queue).map(|reading| {
                    reading.into_iter().for_each(|reading| subscriber.send(ToController::Reading(reading)));
                }),
                FromController::Machine(_) => Ok(()),
            },
            _ = check.tick() => ports.restore().map(|restored| {
                if restored {
                    // The controller limits tenants until it has an answer; without a stream the next one begins so.
                    subscriber.set_state(SubscriberState { policy: policy.digest(), fresh: true });
                    subscriber.send(ToController::Reset);
                }
            }),
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
        let lacking: BTreeMap<String, PortConfig> =
            self.base.iter().filter(lacks).map(|(interface, config)| (interface.clone(), config.clone())).collect();
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
        let _lock = locked().map_err(|error| error.text())?;
        weir_switch::apply(&mut self.driver, &wanted).map_err(|error| error.to_string())?;
        self.in_force.extend(wanted);
        Ok(())
    }

    /// Restores ports that have lost their configuration; returns whether there were any.
    fn restore(&mut self) -> Result<bool, String> {
        let states =
            weir_switch::apply::read(&mut self.driver, self.in_force.keys()).map_err(|error| error.to_string())?;
        if self.in_force.iter().all(|(interface, config)| states.get(interface) == Some(config.state())) {
            return Ok(false);
        }
        let _lock = locked().map_err(|error| error.text())?;
        weir_switch::apply(&mut self.driver, &self.in_force).map(|_| true).map_err(|error| error.to_string())
    }

    /// Reads a queue; none where it does not exist.
    fn read(&mut self, queue: Queue) -> Result<Option<Reading>, String> {
        let Some(interface) = self.interfaces.get(&queue.port) else { return Ok(None) };
        let queues = self.driver.queues(interface).map_err(|error| format!("port {}: {error}", queue.port))?;
        let reading = u8::try_from(queue.queue).ok().and_then(|number| queues.get(&number));
        Ok(reading.map(|reading| Reading {
            queue: Some(queue),
            sent: reading.sent.get(),
            backlog: reading.backlog.get(),
        }))
    }
}

/// Whether a port has the queues of a configuration, whatever their weights and DSCP values are.
fn has_queues(state: &PortState, config: &PortConfig) -> bool {
    let wanted = config.state();
    let kinds = |state: &PortState| state.queues.values().map(|queue| queue.schedule.is_strict()).collect::<Vec<_>>();
    state.rate == wanted.rate && state.map.is_some() && kinds(state) == kinds(wanted) && state.remark == wanted.remark
}
