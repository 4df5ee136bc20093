//! `weir switch watch`: reports ports that lose the policy's configuration, and restores them if wanted.

use super::select::Selected;
use super::{Mapping, desired, driver, needed, refusal};
use crate::error::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::output::Ui;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_fabric::state::replace;
use weir_linux::port::TcSwitch;
use weir_observe::{Publisher, Server, server};
use weir_status::{Status, SwitchPortStatus, SwitchStatus, fill};
use weir_switch::{PortConfig, port_changes};

const WATCH: &str = "\
Examples:
  weir switch watch policy.yaml --switch r1 --bridge br0 --metrics 10.0.0.30:30566
  weir switch watch policy.yaml --switch r1 --bridge br0 --repair --status /run/weir/switch.json

Reads the policy's file and the ports every period, and prints each change. `weir top --switch` and
the dashboard read its status: while a port does not have its configuration, they show latency
bounds as not in force. To change the policy beside --repair, replace the file. Ctrl-C ends the
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
    let period: weir_units::Duration = text.parse().map_err(|error| format!("{error}"))?;
    let range = weir_units::Duration::from_millis(100)..=weir_units::Duration::from_secs(3_600);
    match range.contains(&period) {
        true => Ok(period),
        false => Err("a period is 100ms to 1h".to_owned()),
    }
}

/// A watched switch.
struct Watched<'a> {
    args: &'a Watch,
    selected: Selected,
    desired: BTreeMap<String, PortConfig>,
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
    let publisher = args.metrics.is_some().then(Publisher::new);
    let _server = args.metrics.zip(publisher.as_ref()).map(|(at, publisher)| serve(at, publisher)).transpose()?;
    let file = args.status.as_deref().map(StatusFile);
    let start = now();
    while !interrupt.is_requested() {
        let begun = now();
        watched.renew(ui)?;
        watched.look(ui)?;
        watched.status.uptime_ms = millis_of(start.elapsed());
        watched.status.written_ms = since_1970();
        let status = Status::Switch(watched.status.clone());
        let written = file.as_ref().map_or(Ok(()), |file| replace::write(file.0, status.to_json().as_bytes()));
        let trouble = written.err().map(|error| format!("the status is not written: {error}"));
        watched.unwritten.report(trouble, ui)?;
        if let Some(publisher) = &publisher {
            publisher.publish(status);
        }
        while !interrupt.is_requested() && begun.elapsed() < Duration::from_nanos(args.every.nanos()) {
            wait(Duration::from_millis(50));
        }
    }
    Ok(Exit::Done)
}

/// The status file, which goes with the watch: a status that outlives its writer would be wrong.
struct StatusFile<'a>(&'a Path);

impl Drop for StatusFile<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

/// A lasting trouble, which is printed once.
#[derive(Default)]
struct Trouble(Option<String>);

impl Trouble {
    fn report(&mut self, now: Option<String>, ui: &mut Ui) -> Result<(), CommandError> {
        if let Some(text) = now.as_ref().filter(|_| now != self.0) {
            ui.notice(&format!("{text}\n"))?;
        }
        self.0 = now;
        Ok(())
    }
}

impl<'a> Watched<'a> {
    fn new(args: &'a Watch, ui: &mut Ui) -> Result<Self, CommandError> {
        let policy = super::input::policy(&args.policy)??.0;
        let selected = needed(&args.policy, &args.mapping, ui)?;
        let (desired, driver) = (desired(&selected), driver(&args.mapping.driver, &selected));
        weir_switch::apply::check(&driver, &desired).map_err(refusal)?;
        let millis = args.every.nanos() / 1_000_000;
        let status = SwitchStatus::outline(selected.switch.clone(), fill::fingerprint(&policy), millis);
        let (refused, unrestored, unwritten) = (Trouble::default(), Trouble::default(), Trouble::default());
        Ok(Self { args, selected, desired, driver, status, refused, unrestored, unwritten })
    }

    /// Takes the policy's file again, which may have changed. A file that is refused changes nothing.
    fn renew(&mut self, ui: &mut Ui) -> Result<(), CommandError> {
        let read = match super::input::policy(&self.args.policy) {
            Ok(Ok((policy, _))) => Some(fill::fingerprint(&policy)),
            _ => None,
        };
        if read.as_ref() == Some(&self.status.policy) {
            return self.refused.report(None, ui);
        }
        match Self::new(self.args, ui) {
            Ok(new) => {
                ui.notice("the policy has changed\n")?;
                (self.selected, self.desired, self.status.policy) = (new.selected, new.desired, new.status.policy);
                self.refused.report(None, ui)
            }
            Err(_) => self.refused.report(Some("the policy's file is refused; the last one stays".to_owned()), ui),
        }
    }

    /// Reads the ports, reports changes, and restores them if wanted.
    fn look(&mut self, ui: &mut Ui) -> Result<(), CommandError> {
        let mut ports = self.read();
        if self.args.repair && ports.iter().any(|port| !port.differs.is_empty()) {
            self.report(&ports, ui)?;
            let mut trouble = Vec::new();
            for port in ports.iter().filter(|port| !port.differs.is_empty()) {
                // Each by itself: one that is gone keeps no other from being restored.
                let own = self.desired.get(&port.interface).map(|config| (port.interface.clone(), config.clone()));
                match weir_switch::apply(&mut self.driver, &own.into_iter().collect()) {
                    Ok(_) => self.status.repaired += 1,
                    Err(error) => trouble.push(format!("not restored: {error}")),
                }
            }
            ports = self.read();
            self.unrestored.report((!trouble.is_empty()).then(|| trouble.join("\n")), ui)?;
        }
        self.report(&ports, ui)
    }

    /// The ports as they are. Each is read by itself: one that is gone hides no other.
    fn read(&mut self) -> Vec<SwitchPortStatus> {
        let mut ports = Vec::new();
        for (interface, config) in &self.desired {
            let differs = match weir_switch::apply::read(&mut self.driver, std::iter::once(interface)) {
                Ok(states) => states.get(interface).map_or_else(
                    || vec!["the interface is gone".to_owned()],
                    |state| port_changes(config.state(), state).iter().map(ToString::to_string).collect(),
                ),
                Err(error) => vec![error.to_string()],
            };
            let own = self.selected.ports.iter().find(|port| port.interface.as_ref() == Some(interface));
            let port = own.map_or_else(String::new, |port| port.name.clone());
            ports.push(SwitchPortStatus { port, interface: interface.clone(), differs });
        }
        ports
    }

    /// Prints what has changed since the last reading, and keeps the reading.
    fn report(&mut self, ports: &[SwitchPortStatus], ui: &mut Ui) -> Result<(), CommandError> {
        for port in ports {
            let before = self.status.ports.iter().find(|of| of.interface == port.interface);
            let (was, is) = (before.is_none_or(|of| of.differs.is_empty()), port.differs.is_empty());
            let other = before.is_none_or(|of| of.differs != port.differs);
            let place = format!("{}, port {} ({})", self.selected.switch, port.port, port.interface);
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

fn serve(at: SocketAddr, publisher: &Publisher) -> Result<Server, CommandError> {
    let failed = |error: std::io::Error| CommandError::failed(format!("listen on {at}: {error}"));
    let (listener, reader) = (server::listen(at).map_err(failed)?, publisher.reader());
    server::start("status", listener, server::Limits::default(), move || reader.router()).map_err(failed)
}

/// In milliseconds.
#[expect(clippy::disallowed_methods, reason = "the date of a status; no decision depends on it")]
fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis_of)
}

fn millis_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "the period of a watch; no run depends on it")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the period of a watch; no run depends on it")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}
