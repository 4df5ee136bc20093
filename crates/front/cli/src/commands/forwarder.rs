//! `weir forwarder`: the daemon of a switch whose ports grant credits.

use super::agent::log_to_stderr;
use super::switch::publish::Publication;
use crate::error::{CommandError, Exit};
use crate::input;
use crate::interrupt::Interrupt;
use crate::output::Ui;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use tracing::{info, warn};
use weir_agent::key_file;
use weir_control::wire::Keys;
use weir_forwarder::port::PortError;
use weir_forwarder::{Plan, Port};
use weir_linux::forwarder::ForwarderPort;
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

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir forwarder policy.yaml --interface swp1=10Gb/s --interface swp2=10Gb/s --key /etc/weir/key
  weir forwarder policy.yaml --interface swp1 --interface swp2 --key key --metrics 10.0.0.30:30566
  weir forwarder --remove --interface swp1 --interface swp2

Run it on a Linux switch, as root, for all ports of the paths of services with credits. A packet
of such a service leaves by a port only with credits that the port has granted. BPF programs reduce
receivers' allocations as they pass, and count the data; the daemon computes each port's shares
once a period. The rate of a port is that which `weir switch apply` has set, unless it is given.

A filter that a switch cannot decide (control group, socket priority, interface) is refused.
SIGTERM or Ctrl-C removes everything, with --keep nothing: ports then grant by their last shares,
and the next daemon continues with their grants. Without such a state a port grants nothing for the
longest lifetime of a grant.

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
    #[arg(long = "interface", value_name = "NAME[=RATE]", required = true)]
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
    let period: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let range = Duration::from_micros(20)..=Duration::from_secs(1);
    match range.contains(&period) {
        true => Ok(period),
        false => Err("a period is 20us to 1s".to_owned()),
    }
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
    let (Some(policy), Some(key)) = (&args.policy, &args.key) else {
        return Err(CommandError::refused("a policy and --key are needed"));
    };
    let (policy, notes) = input::policy(policy)??;
    input::print_notes(&notes, ui)?;
    let keys = key_file::read(key).map_err(|error| CommandError::refused(error.to_string()))?;
    let plan = Plan::of(policy, args.period).map_err(|error| {
        let refused = CommandError::refused(error.to_string());
        error.hint().into_iter().fold(refused, |refused, hint| refused.hint(hint))
    })?;
    let links = links(args)?;
    let interrupt = Interrupt::listen()?;
    log_to_stderr();
    info!("{plan}");
    for obstacle in plan.obstacles() {
        warn!("data without credits is not dropped: {obstacle}");
    }
    let mut forwarder = Forwarder::start(args, &plan, &keys, &links)?;
    forwarder.run(args, &interrupt, ui)?;
    forwarder.end(args.keep)?;
    Ok(Exit::Done)
}

fn remove(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    for Link { name, .. } in &args.interfaces {
        let found = Port::remove_leftover(name).map_err(|error| failed(name, &error))?;
        let what = if found { "removed the state of a forwarder at" } else { "there is no state of a forwarder at" };
        ui.notice(&format!("{what} {name}\n"))?;
    }
    Ok(Exit::Done)
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

/// The running daemon.
struct Forwarder {
    /// With the time of the next round, and the last error, which is reported once.
    ports: Vec<(Port, Instant, Option<String>)>,
    publication: Publication,
    status: SwitchStatus,
}

impl Forwarder {
    fn start(args: &Args, plan: &Plan, keys: &Keys, links: &[(String, Bandwidth)]) -> Result<Self, CommandError> {
        let name = args.switch.clone().map_or_else(host_name, Ok)?;
        let status =
            SwitchStatus { levels: Some(Vec::new()), ..SwitchStatus::outline(name, fingerprint(plan.policy()), 1_000) };
        let publication = Publication::new(args.status.clone(), args.metrics)?;
        let mut ports: Vec<(Port, Instant, Option<String>)> = Vec::new();
        for (name, rate) in links {
            match Port::start(plan, keys, name, *rate) {
                Ok(port) => {
                    let how = if port.is_adopted() { "continues with its grants" } else { "starts without a state" };
                    info!("{name}: {} of {rate}, {how}", plan.rate(*rate));
                    ports.push((port, ForwarderPort::now(), None));
                }
                Err(error) => {
                    let error = failed(name, &error);
                    // Ports that an earlier daemon left stay, as it left them.
                    for (port, ..) in ports.into_iter().filter(|(port, ..)| !port.is_adopted()) {
                        if let Err(error) = port.remove() {
                            warn!("{error}");
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(Self { ports, publication, status })
    }

    fn run(&mut self, args: &Args, interrupt: &Interrupt, ui: &mut Ui) -> Result<(), CommandError> {
        let mut publish = ForwarderPort::now();
        while !interrupt.is_requested() {
            let mut next = ForwarderPort::now() + SLEEP;
            for (port, due, trouble) in &mut self.ports {
                if *due <= ForwarderPort::now() {
                    let round = port.round();
                    *due = *round.as_ref().unwrap_or(&(ForwarderPort::now() + STATUS));
                    if let Err(error) = round {
                        report(port.name(), Some(error.to_string()), trouble);
                    }
                }
                next = next.min(*due);
            }
            if publish <= ForwarderPort::now() {
                publish = ForwarderPort::now() + STATUS;
                self.publish(args, ui)?;
            }
            wait(next.saturating_since(ForwarderPort::now()));
        }
        Ok(())
    }

    fn publish(&mut self, args: &Args, ui: &mut Ui) -> Result<(), CommandError> {
        for (port, _, trouble) in &mut self.ports {
            report(port.name(), port.trouble(), trouble);
        }
        let of = |(port, _, trouble): &(Port, Instant, Option<String>)| {
            let credits = port.status();
            let flows = port.flows();
            let unread = credits.as_ref().err().or(flows.as_ref().err()).map(ToString::to_string);
            SwitchPortStatus {
                port: port.name().to_owned(),
                interface: port.name().to_owned(),
                differs: trouble.iter().cloned().chain(unread).collect(),
                credits: credits.ok(),
                credit_flows: flows.unwrap_or_default(),
                ..SwitchPortStatus::default()
            }
        };
        self.status.ports = self.ports.iter().map(of).collect();
        if let Err(error) = self.publication.publish(&mut self.status) {
            warn!("{error}");
        }
        if args.json {
            let line = serde_json::to_string(&self.status).expect("a status is JSON");
            ui.print(&format!("{line}\n"))?;
        }
        Ok(())
    }

    fn end(self, keep: bool) -> Result<(), CommandError> {
        let mut first = None;
        for (port, ..) in self.ports.into_iter().filter(|_| !keep) {
            let name = port.name().to_owned();
            if let Err(error) = port.remove() {
                first.get_or_insert(failed(&name, &error));
            }
        }
        first.map_or(Ok(()), Err)
    }
}

/// Logs what has changed.
fn report(name: &str, trouble: Option<String>, last: &mut Option<String>) {
    match &trouble {
        Some(text) if trouble != *last => warn!("{name}: {text}"),
        None if last.is_some() => info!("{name}: in force again"),
        _ => {}
    }
    *last = trouble;
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
    fn periods_are_20_us_to_a_second() {
        assert_eq!(period("20us"), Ok(Duration::from_micros(20)));
        assert!(["19us", "2s", "x"].iter().all(|text| period(text).is_err()));
    }
}
