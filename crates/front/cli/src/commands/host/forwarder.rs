//! `weir forwarder`: the daemon of a switch whose ports grant credits.

mod reload;
mod start;

use super::agent::log_to_stderr;
use super::hangup::Hangup;
use super::switch::publish::Publication;
use super::times;
use crate::error::{CommandError, Exit};
use crate::input;
use crate::interrupt::Interrupt;
use crate::output::Ui;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tracing::{info, warn};
use weir_agent::key_file;
use weir_control::wire::Keys;
use weir_document::Diagnostic;
use weir_forwarder::port::PortError;
use weir_forwarder::{Plan, Port};
use weir_linux::forwarder::ForwarderPort;
use weir_linux::pins;
use weir_linux::port::TcSwitch;
use weir_linux::requirements::{self, Purpose};
use weir_status::fill::fingerprint;
use weir_status::{SwitchPortStatus, SwitchStatus};
use weir_switch::Driver;
use weir_units::{Bandwidth, Duration, Instant};

/// The time between two statuses.
const STATUS: Duration = Duration::from_secs(1);
/// The longest sleep, so that a signal ends the daemon soon.
const SLEEP: Duration = Duration::from_millis(50);
/// The shortest sleep of a port's thread, in which its status can be read, if its rounds are longer than its period.
const PAUSE: Duration = Duration::from_micros(20);
const NO_PANIC: &str = "no thread of a port has panicked";

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir forwarder policy.yaml --interface swp1=10Gb/s --interface swp2=10Gb/s --key /etc/weir/key
  weir forwarder policy.yaml --interface swp1 --interface swp2 --key key --metrics 10.0.0.30:30566
  weir forwarder --remove --interface swp1 --interface swp2
  weir forwarder --remove --all

Run it on a Linux switch, as root, for all ports of the paths of services with credits. A packet
of such a service leaves by a port only with credits that the port has granted. BPF programs reduce
receivers' allocations as they pass, and count the data; the daemon computes each port's shares
once a period. The rate of a port is that which `weir switch apply` has set, unless it is given.

A filter that a switch cannot decide (control group, socket priority, interface) is refused.
SIGTERM or Ctrl-C removes everything, with --keep nothing: ports then grant by their last shares,
and the next daemon continues with their grants. Without such a state a port grants nothing for the
longest lifetime of a grant.

SIGHUP reads the policy, the keys and the rates again, whole or not at all: a refusal is logged and
in the status, and the old ones stay. Another longest period takes a restart.

With --json, a status in each line, once a second: {\"name\", \"policy\", \"ports\":
[{\"interface\", \"credits\": {\"rate_bps\", \"flows\", \"period_us\", \"level_billionths\",
\"granted_bytes\", \"outstanding_bytes\", \"expired_bytes\", \"queued_bytes\", ...},
\"credit_flows\": [{\"service\", \"source\", \"destination\", \"share_bps\", \"demand_bps\", \"held_by\"}]}]}.

The environment sets the level of the log: RUST_LOG=debug.")]
pub(crate) struct Args {
    /// The policy file
    #[arg(required_unless_present = "remove")]
    policy: Option<PathBuf>,
    /// A port, with the rate of its link
    #[arg(long = "interface", value_name = "NAME[=RATE]", required_unless_present = "all")]
    interfaces: Vec<Link>,
    /// The key file that agents and forwarders share (see `weir key`)
    #[arg(long, value_name = "FILE", required_unless_present = "remove")]
    key: Option<PathBuf>,
    /// The shortest period: at least a round trip, with the time that data waits in ports
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = period)]
    period: Duration,
    /// The name of the switch in its status; by default this host's
    #[arg(long, value_name = "NAME")]
    switch: Option<String>,
    /// Write the status to this file once a second
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Serve status and metrics here: `/status`, `/metrics`
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// At the end leave the programs and their state for the next daemon
    #[arg(long)]
    keep: bool,
    /// Remove what a daemon left at the interfaces, and do nothing else
    #[arg(long, conflicts_with_all = ["key", "period", "switch", "status", "metrics", "keep", "json"])]
    remove: bool,
    /// With --remove: at all interfaces of this host, also at those that are gone
    #[arg(long, requires = "remove", conflicts_with = "interfaces")]
    all: bool,
    /// Print the status once a second, as a line of JSON
    #[arg(long)]
    json: bool,
}

/// `--interface`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Link {
    name: String,
    rate: Option<Bandwidth>,
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rate) = text.split_once('=').map_or((text, None), |(name, rate)| (name, Some(rate)));
        if name.is_empty() {
            return Err("a name, or a name and a rate: swp1=10Gb/s".to_owned());
        }
        let rate: Option<Bandwidth> = rate.map(str::parse).transpose().map_err(|error| format!("{error}"))?;
        match rate {
            Some(rate) if rate.bps() == 0 || rate.is_unlimited() => Err("a link has a rate above 0".to_owned()),
            rate => Ok(Self { name: name.to_owned(), rate }),
        }
    }
}

/// Parses p-min: 20 us to a second.
pub(super) fn period(text: &str) -> Result<Duration, String> {
    times::time_in(text, Duration::from_micros(20)..=Duration::from_secs(1))
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let missing = requirements::check(Purpose::Agent);
    if !missing.is_empty() {
        let error = CommandError::failed("the forwarder cannot run on this host");
        return Err(missing.iter().fold(error, |error, missing| error.hint(missing.to_string())));
    }
    if args.remove {
        return remove(args, ui);
    }
    let (setup, notes) = Setup::read(args)?;
    input::print_notes(&notes, ui)?;
    let (interrupt, hangup) = (Interrupt::listen()?, Hangup::listen()?);
    log_to_stderr();
    setup.log();
    let Some(mut forwarder) = Forwarder::start(args, setup, &interrupt)? else {
        return if args.keep { Ok(Exit::Done) } else { remove(args, ui) };
    };
    // Programs without a daemon would grant by its last shares, so they are removed after an error too.
    let ran = forwarder.run(args, (&interrupt, &hangup), ui);
    let ended = forwarder.end(args.keep);
    ran.and(ended)?;
    Ok(Exit::Done)
}

/// The statements of the files.
struct Setup {
    plan: Plan,
    keys: Keys,
    /// The ports with the rates of their links.
    links: Vec<(String, Bandwidth)>,
}

impl Setup {
    /// Reads and checks the files, with the policy's notes.
    fn read(args: &Args) -> Result<(Self, Vec<Diagnostic>), CommandError> {
        let (Some(policy), Some(key)) = (&args.policy, &args.key) else {
            return Err(CommandError::refused("a policy and --key are needed"));
        };
        if policy == Path::new("-") {
            return Err(CommandError::refused("the policy must be a file: SIGHUP reads it again"));
        }
        let (policy, notes) = input::policy(policy)??;
        let keys = key_file::read(key).map_err(|error| CommandError::refused(error.to_string()))?;
        let plan = Plan::of(policy, args.period).map_err(|error| {
            let refused = CommandError::refused(error.to_string());
            error.hint().into_iter().fold(refused, |refused, hint| refused.hint(hint))
        })?;
        Ok((Self { plan, keys, links: links(args)? }, notes))
    }

    fn log(&self) {
        info!("{}", self.plan);
        for obstacle in self.plan.obstacles() {
            warn!("data without credits is not dropped: {obstacle}");
        }
    }
}

fn remove(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    if args.all {
        return remove_all(ui);
    }
    for Link { name, .. } in &args.interfaces {
        let found = Port::remove_leftover(name).map_err(|error| failed(name, &error))?;
        let what = if found { "removed the state of a forwarder at" } else { "there is no state of a forwarder at" };
        ui.notice(&format!("{what} {name}\n"))?;
    }
    Ok(Exit::Done)
}

/// Removes what daemons left at every interface of this network namespace, and at interfaces that are gone. A port
/// whose daemon runs is an error, after all others are done.
fn remove_all(ui: &mut Ui) -> Result<Exit, CommandError> {
    let mut first = None;
    let gone = pins::sweep();
    if gone > 0 {
        ui.notice(&format!("removed the state of {gone} interfaces that are gone\n"))?;
    }
    let names = pins::interfaces(pins::Daemon::Forwarder).map_err(|error| CommandError::failed(error.to_string()))?;
    if names.is_empty() && gone == 0 {
        ui.notice("there is no state of a forwarder\n")?;
    }
    for name in names {
        match Port::remove_leftover(&name) {
            Ok(_) => ui.notice(&format!("removed the state of a forwarder at {name}\n"))?,
            Err(error) => {
                first.get_or_insert(failed(&name, &error));
            }
        }
    }
    first.map_or(Ok(Exit::Done), Err)
}

fn failed(name: &str, error: &PortError) -> CommandError {
    let failed = CommandError::failed(format!("{name}: {error}"));
    match error {
        PortError::Interface(error) if error.is_absent() => failed.hint("`ip link` lists this host's interfaces"),
        PortError::Plan(error) => error.hint().into_iter().fold(failed, |failed, hint| failed.hint(hint)),
        _ => failed,
    }
}

/// The ports with the rates of their links.
fn links(args: &Args) -> Result<Vec<(String, Bandwidth)>, CommandError> {
    let mut links: Vec<(String, Bandwidth)> = Vec::new();
    for Link { name, rate } in &args.interfaces {
        if links.iter().any(|(there, _)| there == name) {
            return Err(CommandError::refused(format!("--interface {name} is given twice")));
        }
        let configured = || {
            let state = TcSwitch::new("").read(name);
            state.map_err(|error| CommandError::failed(format!("{name}: {error}"))).map(|state| state.rate)
        };
        let rate = rate.map_or_else(configured, |rate| Ok(Some(rate)))?;
        let rate = rate.ok_or_else(|| {
            CommandError::refused(format!("the rate of {name} is not known"))
                .hint(format!("write it: --interface {name}=10Gb/s; or configure the port with `weir switch apply`"))
        })?;
        links.push((name.clone(), rate));
    }
    Ok(links)
}

/// Why a port does not work. A change is logged once.
#[derive(Debug, Default)]
struct Health {
    /// The error of the last round.
    round: Option<String>,
    trouble: Option<String>,
}

impl Health {
    /// Takes what keeps the programs from running, if anything does. The error of a round stays until a round succeeds.
    /// Returns whether the trouble has changed.
    fn update(&mut self, outside: Option<String>) -> bool {
        let last = std::mem::replace(&mut self.trouble, self.round.clone().or(outside));
        self.trouble != last
    }

    fn log(&self, name: &str) {
        match &self.trouble {
            Some(text) => warn!("{name}: {text}"),
            None => info!("{name}: in force again"),
        }
    }
}

/// A port that is served, with the time of its next round.
struct Served {
    port: Port,
    due: Instant,
    health: Health,
}

impl Served {
    fn new(port: Port) -> Self {
        Self { port, due: ForwarderPort::now(), health: Health::default() }
    }

    /// The round of the port, if it is due. Returns when the next one is.
    fn serve(&mut self) -> Instant {
        if self.due <= ForwarderPort::now() {
            self.round();
        }
        self.due
    }

    fn round(&mut self) {
        let round = self.port.round();
        self.due = *round.as_ref().unwrap_or(&(ForwarderPort::now() + STATUS));
        self.health.round = round.err().map(|error| error.to_string());
        if self.health.round.is_some() {
            self.examine(None);
        }
    }

    fn examine(&mut self, outside: Option<String>) {
        if self.health.update(outside) {
            self.health.log(self.port.name());
        }
    }

    fn status(&mut self) -> SwitchPortStatus {
        self.examine(self.port.trouble());
        let credits = self.port.status();
        let flows = self.port.flows();
        let unread = credits.as_ref().err().or(flows.as_ref().err()).map(ToString::to_string);
        SwitchPortStatus {
            port: self.port.name().to_owned(),
            interface: self.port.name().to_owned(),
            differs: self.health.trouble.iter().cloned().chain(unread).collect(),
            credits: credits.ok(),
            credit_flows: flows.unwrap_or_default(),
            ..SwitchPortStatus::default()
        }
    }
}

/// The running daemon.
struct Forwarder {
    ports: Vec<Mutex<Served>>,
    context: Context,
}

/// The setup in force, and the status.
struct Context {
    setup: Setup,
    publication: Publication,
    status: SwitchStatus,
}

impl Context {
    fn publish(&mut self, ports: &[Mutex<Served>], args: &Args, ui: &mut Ui) -> Result<(), CommandError> {
        self.status.ports = ports.iter().map(|served| served.lock().expect(NO_PANIC).status()).collect();
        if let Err(error) = self.publication.publish(&mut self.status) {
            warn!("{error}");
        }
        if args.json {
            let line = serde_json::to_string(&self.status).expect("a status is JSON");
            ui.print(&format!("{line}\n"))?;
            ui.flush()?;
        }
        Ok(())
    }
}

impl Forwarder {
    /// `None` after a signal while programs are loaded: no port has changed.
    fn start(args: &Args, setup: Setup, interrupt: &Interrupt) -> Result<Option<Self>, CommandError> {
        let name = args.switch.clone().map_or_else(host_name, Ok)?;
        let outline = SwitchStatus::outline(name, fingerprint(setup.plan.policy()), 1_000);
        let status = SwitchStatus { levels: Some(Vec::new()), ..outline };
        let publication = Publication::new(args.status.clone(), args.metrics)?;
        let Some(opened) = start::open(&setup, interrupt)? else { return Ok(None) };
        let ports = start::start(&setup, opened)?.into_iter().map(Mutex::new).collect();
        Ok(Some(Self { ports, context: Context { setup, publication, status } }))
    }

    /// Serves each port by a thread of its own, so that the flows of one do not delay the shares of another.
    fn run(
        &mut self,
        args: &Args,
        (interrupt, hangup): (&Interrupt, &Hangup),
        ui: &mut Ui,
    ) -> Result<(), CommandError> {
        let ended = AtomicBool::new(false);
        let (ports, context) = (&self.ports, &mut self.context);
        std::thread::scope(|scope| {
            for served in ports {
                scope.spawn(|| serve(served, &ended));
            }
            // Of a panic too: the scope waits for all threads.
            let _end = End(&ended);
            let mut due = ForwarderPort::now();
            while !interrupt.is_requested() {
                if hangup.take() {
                    context.reload(ports, args);
                    due = ForwarderPort::now();
                }
                if due <= ForwarderPort::now() {
                    due = ForwarderPort::now() + STATUS;
                    context.publish(ports, args, ui)?;
                }
                wait(due.saturating_since(ForwarderPort::now()).min(SLEEP));
            }
            Ok(())
        })
    }

    fn end(self, keep: bool) -> Result<(), CommandError> {
        let mut first = None;
        for served in self.ports.into_iter().filter(|_| !keep) {
            let Served { port, .. } = served.into_inner().unwrap_or_else(PoisonError::into_inner);
            let name = port.name().to_owned();
            if let Err(error) = port.remove() {
                first.get_or_insert(failed(&name, &error));
            }
        }
        first.map_or(Ok(()), Err)
    }
}

/// Ends the threads of the ports when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The rounds of a port, until the daemon ends.
fn serve(served: &Mutex<Served>, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        let due = served.lock().expect(NO_PANIC).serve();
        wait(due.saturating_since(ForwarderPort::now()).clamp(PAUSE, SLEEP));
    }
}

fn host_name() -> Result<String, CommandError> {
    let path = "/proc/sys/kernel/hostname";
    let name = std::fs::read_to_string(path).map_err(|error| CommandError::failed(format!("{path}: {error}")))?;
    Ok(name.trim().to_owned())
}

#[expect(clippy::disallowed_methods, reason = "waits for a port's period")]
fn wait(time: Duration) {
    std::thread::sleep(std::time::Duration::from_nanos(time.nanos()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_a_name_and_perhaps_a_rate() {
        let link = |text: &str| text.parse::<Link>();
        assert_eq!(link("swp1"), Ok(Link { name: "swp1".into(), rate: None }));
        assert_eq!(link("swp1=1Gb/s"), Ok(Link { name: "swp1".into(), rate: Some(Bandwidth::from_gbps(1)) }));
        assert!(["", "=1Gb/s", "swp1=", "swp1=0", "swp1=x"].iter().all(|text| link(text).is_err()));
    }

    #[test]
    fn an_error_of_a_round_stays_until_a_round_succeeds() {
        let mut health = Health { round: Some("no memory".into()), ..Health::default() };
        // The programs are attached.
        assert!(health.update(None) && !health.update(None));
        assert_eq!(health.trouble.as_deref(), Some("no memory"));
        health.round = None;
        assert!(health.update(Some("detached".into())) && health.update(None) && !health.update(None));
        assert_eq!(health.trouble, None);
    }

    #[test]
    fn periods_are_20_us_to_a_second() {
        assert_eq!(period("20us"), Ok(Duration::from_micros(20)));
        assert!(["19us", "2s", "x"].iter().all(|text| period(text).is_err()));
    }
}
