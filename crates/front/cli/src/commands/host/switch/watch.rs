//! `weir switch watch`: reports ports that lose the policy's configuration, and restores them if wanted.

use super::plan::{Plan, PolicyFile, bridge_now};
use super::publish::{Publication, Trouble};
use super::select::bridge_ports;
use super::{DriverKind, Mapping, locked};
use crate::commands::host::times;
use crate::error::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::output::Ui;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_linux::interface::Interface;
use weir_linux::port::{SwitchLock, TcSwitch};
use weir_status::{SwitchPortStatus, SwitchStatus};
use weir_switch::{ApplyError, PortConfig, port_changes};

const WATCH: &str = "\
Examples:
  weir switch watch policy.yaml --switch r1 --bridge br0 --metrics 10.0.0.30:30566
  weir switch watch policy.yaml --switch r1 --bridge br0 --repair --status /run/weir/switch.json

Reads the policy's file, the bridge and the ports every period, and prints each change. `weir top
--switch` and the dashboard read its status: while a port does not have its configuration, or a port
of the policy has no interface, they show latency bounds as not in force. To change the policy
beside --repair, replace the file: all ports get the new configuration, or none. Ctrl-C ends the
watch; the configuration stays.

Exit code 0: ended by Ctrl-C. 2: refused.";

#[derive(Debug, clap::Args)]
#[command(after_help = format!("{}\n\n{WATCH}", super::MAPPING))]
pub(super) struct Watch {
    /// The policy file
    policy: PathBuf,
    #[command(flatten)]
    mapping: Mapping,
    /// The time between two readings
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = period)]
    every: weir_units::Duration,
    /// Bring ports that differ to their configuration again
    #[arg(long)]
    repair: bool,
    /// Write the status to this file
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Serve status and metrics here: `/status`, `/metrics`
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
}

/// Parses a period of 100 ms to an hour.
fn period(text: &str) -> Result<weir_units::Duration, String> {
    times::time_in(text, weir_units::Duration::from_millis(100)..=weir_units::Duration::from_secs(3_600))
}

/// A change that was reverted. It is not tried again, since each attempt disturbs the ports.
struct NotApplied {
    file: PolicyFile,
    desired: BTreeMap<String, PortConfig>,
    why: String,
}

/// A watched switch.
struct Watched<'a> {
    args: &'a Watch,
    file: PolicyFile,
    plan: Plan,
    not_applied: Option<NotApplied>,
    driver: TcSwitch,
    status: SwitchStatus,
    /// Why the policy's file cannot be taken, ports cannot be restored, and the status cannot be written.
    refused: Trouble,
    unrestored: Trouble,
    unwritten: Trouble,
}

pub(super) fn run(args: &Watch, ui: &mut Ui) -> Result<Exit, CommandError> {
    let mut watched = Watched::new(args, ui)?;
    let interrupt = Interrupt::listen()?;
    let published = Publication::new(args.status.clone(), args.metrics)?;
    while !interrupt.is_requested() {
        let begun = now();
        watched.look(ui)?;
        let trouble = published.publish(&mut watched.status).err();
        watched.unwritten.report(trouble, ui)?;
        while !interrupt.is_requested() && begun.elapsed() < Duration::from_nanos(args.every.nanos()) {
            wait(Duration::from_millis(50));
        }
    }
    Ok(Exit::Done)
}

impl<'a> Watched<'a> {
    fn new(args: &'a Watch, ui: &mut Ui) -> Result<Self, CommandError> {
        if args.mapping.chosen.driver != DriverKind::Tc {
            return Err(CommandError::refused("only ports of Linux can be watched")
                .hint("compare a switch of another kind with `weir switch diff`"));
        }
        let file = PolicyFile::read(&args.policy, &args.mapping.without_agent, ui)?;
        let plan = Plan::new(&file, &args.mapping, bridge_ports)?;
        let driver = TcSwitch::new(plan.selected.switch.clone());
        let millis = args.every.nanos() / 1_000_000;
        let status = SwitchStatus {
            without_agent: args.mapping.without_agent.clone(),
            ..SwitchStatus::outline(plan.selected.switch.clone(), file.fingerprint.clone(), millis)
        };
        let (refused, unrestored, unwritten) = (Trouble::default(), Trouble::default(), Trouble::default());
        let mut watched = Self { args, file, plan, not_applied: None, driver, status, refused, unrestored, unwritten };
        watched.status.levels = Some(watched.file.needed.levels());
        Ok(watched)
    }

    /// Takes the policy's file and the interfaces again, which may have changed. What is refused changes nothing.
    /// Returns whether a change of the policy waits until the ports may be changed: beside `--repair` all ports get it,
    /// or none.
    fn renew(&mut self, lock: Option<&SwitchLock>, ui: &mut Ui) -> Result<bool, CommandError> {
        let refusal = |error: &CommandError| format!("the policy's file is refused: {}", error.text());
        let (file, refused) = match self.file.renewed(&self.args.policy, &self.args.mapping.without_agent, ui) {
            Ok(file) => (file, None),
            // The interfaces may have changed nevertheless.
            Err(error) => (self.file.clone(), Some(refusal(&error))),
        };
        let plan = match Plan::new(&file, &self.args.mapping, bridge_now) {
            Ok(plan) => plan,
            Err(error) => {
                self.refuse(refused.unwrap_or_else(|| refusal(&error)), ui)?;
                return Ok(false);
            }
        };
        if self.args.repair && plan.changes(&self.plan) {
            let known = self.not_applied.as_ref();
            if let Some(known) = known.filter(|known| known.desired == plan.desired && known.file.is_same(&file)) {
                self.refuse(known.why.clone(), ui)?;
                return Ok(false);
            }
            if lock.is_none() {
                return Ok(true);
            }
            if let Err(error) = weir_switch::apply(&mut self.driver, &present(&plan.desired)) {
                let again = match &error {
                    ApplyError::Failed { .. } => "; it is not tried again until the file or the ports change",
                    ApplyError::Refused(_) | ApplyError::Unreadable { .. } => "",
                };
                let why = format!("the change of the policy is not applied: {error}{again}");
                // The others have changed nothing.
                let desired = plan.desired;
                self.not_applied = (!again.is_empty()).then(|| NotApplied { file, desired, why: why.clone() });
                self.refuse(why, ui)?;
                return Ok(false);
            }
        }
        if plan.changes(&self.plan) || file.fingerprint != self.file.fingerprint {
            ui.notice("the policy has changed\n")?;
        }
        self.status.policy.clone_from(&file.fingerprint);
        self.status.levels = Some(file.needed.levels());
        (self.plan, self.file, self.not_applied) = (plan, file, None);
        match refused {
            Some(why) => self.refuse(why, ui)?,
            None => {
                self.status.policy_refused = None;
                self.refused.report(None, ui)?;
            }
        }
        Ok(false)
    }

    fn refuse(&mut self, why: String, ui: &mut Ui) -> Result<(), CommandError> {
        self.status.policy_refused = Some(why.clone());
        self.refused.report(Some(format!("{why}\nthe last policy stays")), ui)
    }

    /// Reads the ports, reports changes, and restores them if wanted.
    fn look(&mut self, ui: &mut Ui) -> Result<(), CommandError> {
        let waits = self.renew(None, ui)?;
        let ports = self.read();
        self.report(&ports, ui)?;
        if !self.args.repair || (!waits && self.differing(&ports).is_empty()) {
            return self.unrestored.report(None, ui);
        }
        let trouble = match locked() {
            Ok(lock) => {
                // Another command may have changed the ports before the lock was taken, and the file before that.
                self.renew(Some(&lock), ui)?;
                self.repair()
            }
            Err(error) => vec![format!("not restored: {}", error.text())],
        };
        let ports = self.read();
        self.unrestored.report((!trouble.is_empty()).then(|| trouble.join("\n")), ui)?;
        self.report(&ports, ui)
    }

    /// Brings ports that differ to their configuration again, each by itself: one that is gone keeps no other from
    /// being restored. Returns what failed.
    fn repair(&mut self) -> Vec<String> {
        let ports = self.read();
        let mut trouble = Vec::new();
        for own in self.differing(&ports) {
            match weir_switch::apply(&mut self.driver, &BTreeMap::from([own])) {
                Ok(_) => self.status.repaired += 1,
                Err(error) => trouble.push(format!("not restored: {error}")),
            }
        }
        trouble
    }

    /// The configurations of interfaces that differ from them.
    fn differing(&self, ports: &[SwitchPortStatus]) -> Vec<(String, PortConfig)> {
        let differing = ports.iter().filter(|port| !port.differs.is_empty());
        let own = differing.filter_map(|port| self.plan.desired.get_key_value(&port.interface));
        own.map(|(interface, config)| (interface.clone(), config.clone())).collect()
    }

    /// The ports as they are. Each is read by itself: one that is gone hides no other.
    fn read(&mut self) -> Vec<SwitchPortStatus> {
        let mut ports = Vec::new();
        for (interface, config) in &self.plan.desired {
            let differs = match weir_switch::apply::read(&mut self.driver, std::iter::once(interface)) {
                Ok(states) => states.get(interface).map_or_else(
                    || vec!["the interface is gone".to_owned()],
                    |state| port_changes(config.state(), state).iter().map(ToString::to_string).collect(),
                ),
                Err(error) => vec![error.to_string()],
            };
            let (port, interface) = (self.plan.name(interface), interface.clone());
            ports.push(SwitchPortStatus { port, interface, differs, ..SwitchPortStatus::default() });
        }
        ports.extend(self.plan.without_interface());
        ports
    }

    /// Prints what has changed since the last reading, and keeps the reading.
    fn report(&mut self, ports: &[SwitchPortStatus], ui: &mut Ui) -> Result<(), CommandError> {
        for port in ports {
            let same = |of: &&SwitchPortStatus| (&of.port, &of.interface) == (&port.port, &port.interface);
            // A port that has lost its interface, or has one again.
            let moved =
                |of: &&SwitchPortStatus| of.port == port.port && (of.interface.is_empty() || port.interface.is_empty());
            let known = &self.status.ports;
            let before = known.iter().find(same).or_else(|| known.iter().find(moved));
            let (was, is) = (before.is_none_or(|of| of.differs.is_empty()), port.differs.is_empty());
            let other = before.is_none_or(|of| of.differs != port.differs);
            let interface = if port.interface.is_empty() { String::new() } else { format!(" ({})", port.interface) };
            let place = format!("{}, port {}{interface}", self.plan.selected.switch, port.port);
            if !is && other {
                self.status.changes_found += u64::from(was);
                let differs = port.differs.join("; ");
                ui.notice(&format!("{place}: not as the policy needs it: {differs}\n"))?;
            } else if !was && is {
                ui.notice(&format!("{place}: in force again\n"))?;
            }
        }
        self.status.ports = ports.to_vec();
        Ok(())
    }
}

/// The configurations of interfaces that are there. One that is gone keeps no policy from the others.
fn present(desired: &BTreeMap<String, PortConfig>) -> BTreeMap<String, PortConfig> {
    let is_there = |interface: &str| !Interface::named(interface).is_err_and(|error| error.is_absent());
    let own = desired.iter().filter(|(interface, _)| is_there(interface));
    own.map(|(interface, config)| (interface.clone(), config.clone())).collect()
}

#[expect(clippy::disallowed_methods, reason = "the period of a watch; no run depends on it")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the period of a watch; no run depends on it")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}
