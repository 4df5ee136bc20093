//! `weir switch`: what the policy needs of the switches' ports, the difference to what is there, and its application.

mod bind;
mod bound_ports;
mod changes;
mod driver;
mod plan;
mod print;
pub(super) mod publish;
mod readings;
mod select;
mod watch;

use crate::error::{CommandError, Exit};
use crate::input;
use crate::output::Ui;
use driver::{AnySwitch, Chosen, DriverKind};
use select::Selected;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_doctor::{SwitchFacts, quoted};
use weir_linux::port::SwitchLock;
use weir_policy::Policy;
use weir_switch::{ApplyError, Driver, PortConfig, ReadQueues, Step, SwitchState};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir switch show policy.yaml             # the ports of all switches, as the policy needs them
  weir switch diff policy.yaml --driver tc --switch r1 --bridge br0
  weir switch apply policy.yaml --driver tc --switch r1 --port swp1=m1 --port swp49=spine0
  weir switch watch policy.yaml --switch r1 --bridge br0 --metrics 10.0.0.30:30566
  weir switch remove --driver tc --bridge br0
  weir switch apply policy.yaml --driver sonic --switch r1 --port Ethernet0=m1 --port Ethernet4=m2

Run all but show on the switch, as root. docs/reference/switches.md explains the configuration.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print what the policy needs of the switches' ports, and whether named ports have it
    Show(Show),
    /// Print the steps from what this switch's ports have to what the policy needs
    Diff(Ports),
    /// Bring this switch's ports to what the policy needs; after an error they are as before
    Apply(Ports),
    /// Report ports of this switch that lose the policy's configuration, until Ctrl-C
    Watch(watch::Watch),
    /// Bind this switch's queues to tenants as the fabric broker's controller chooses, until Ctrl-C
    Bind(bind::Bind),
    /// Remove Weir's configuration from ports
    Remove(Remove),
}

const MAPPING: &str = "\
The ports of a switch are its links in the policy's network, named by the neighbour: a machine, or
a switch (of racks: `spine0`). --port names the neighbour of an interface. With --bridge, each port
of the bridge that no --port names has the neighbour of its alias (ip link set swp1 alias m1), or
else of its own name. Ports to machines that may not send on a latency level re-mark its DSCP value
where packets arrive: all levels at --outside interfaces and machines --without-agent.";

const SHOW: &str = "\
Examples:
  weir switch show policy.yaml
  weir switch show policy.yaml --switch r1 --bridge br0

  weir switch show policy.yaml --driver sonic --switch r1 --port Ethernet0=m1 --counters

Ports with the same configuration are one row; `in force` is shown for ports with an interface.
With --counters, each port has its rows: bytes sent, packets dropped and marked, and bytes waiting in
each queue. A counter that the switch does not have is empty.

With --json: {\"ports\": [{\"switch\", \"port\", \"interface\", \"rate_bps\", \"remarked_dscp\",
\"in_force\", \"queues\": [{\"queue\", \"scheduler\", \"weight\", \"dscp\": [value], \"mark_bytes\",
\"buffer_bytes\", \"sent_bytes\", \"dropped_packets\", \"marked_packets\", \"backlog_bytes\"}]}]}.
`interface` and `in_force` are null for ports without an interface, `weight` for strict queues, the
last four without --counters and where the switch does not have them.";

const STEPS: &str = "\
Examples:
  weir switch diff policy.yaml --switch r1 --port swp1=m1
  weir switch apply policy.yaml --switch r1 --bridge br0 --json

With --json: {\"steps\": [{\"switch\", \"port\", \"interface\", \"field\", \"change\"}]}, in the order of
writing; none where nothing differs.

Exit code 0: done, or nothing to do. 1: a step failed and was reverted. 2: refused, nothing changed.";

#[derive(Debug, clap::Args)]
#[command(after_help = format!("{MAPPING}\n\n{SHOW}"))]
struct Show {
    /// The policy file; `-` is standard input
    policy: PathBuf,
    #[command(flatten)]
    mapping: Mapping,
    /// Print the counters of the queues of named ports, too
    #[arg(long)]
    counters: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = format!("{MAPPING}\n\n{STEPS}"))]
struct Ports {
    /// The policy file; `-` is standard input
    policy: PathBuf,
    #[command(flatten)]
    mapping: Mapping,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir switch remove --bridge br0
  weir switch remove --port swp1 --port swp2
  weir switch remove --driver sonic --port Ethernet0

The ports are then as the switch makes them by itself, on Linux with the kernel's default qdisc.
Ports without a configuration stay.")]
#[command(group(clap::ArgGroup::new("ports").required(true).multiple(true).args(["bridge", "port"])))]
struct Remove {
    #[command(flatten)]
    chosen: Chosen,
    /// All ports of a Linux bridge
    #[arg(long, value_name = "BRIDGE")]
    bridge: Option<String>,
    /// A port
    #[arg(long, value_name = "INTERFACE")]
    port: Vec<String>,
}

/// Which interfaces are which ports of which switch.
#[derive(Debug, clap::Args)]
pub(super) struct Mapping {
    #[command(flatten)]
    chosen: Chosen,
    /// The switch's name in the policy's network; this host's name if left out
    #[arg(long, value_name = "NAME")]
    switch: Option<String>,
    /// All ports of a Linux bridge
    #[arg(long, value_name = "BRIDGE")]
    bridge: Option<String>,
    /// An interface and its neighbour, which may be left out if they have the same name
    #[arg(long, value_name = "INTERFACE[=NEIGHBOUR]")]
    port: Vec<String>,
    /// An interface to a machine that is not in the policy: no packet from it is on a latency level
    #[arg(long, value_name = "INTERFACE")]
    outside: Vec<String>,
    /// A machine of the policy without an agent: no packet from it is on a latency level
    #[arg(long, value_name = "MACHINE")]
    without_agent: Vec<String>,
    /// Re-mark no packets: other devices keep senders from the DSCP values of levels
    #[arg(long, conflicts_with_all = ["outside", "without_agent"])]
    trust_dscp: bool,
}

impl Mapping {
    /// Whether any interface is named as a port.
    pub(super) fn names_ports(&self) -> bool {
        self.bridge.is_some() || !self.port.is_empty() || !self.outside.is_empty()
    }

    /// The state of the named ports for `weir doctor`; `None` if no port is named.
    pub(super) fn facts(&self, policy: &Policy, file: &str) -> Option<SwitchFacts> {
        if !self.names_ports() {
            return None;
        }
        let steps = differences(policy, self, &mut Vec::new());
        let step = |step: &Step| format!("{}: {}", step.port, step.change);
        Some(SwitchFacts {
            steps: steps.map(|(_, steps)| steps.iter().map(step).collect()).map_err(|error| error.text()),
            apply: self.apply_command(file),
        })
    }

    /// `weir switch apply` with these options.
    fn apply_command(&self, policy: &str) -> String {
        let mut words = vec!["weir switch apply".to_owned(), quoted(policy)];
        let mut option = |name: &str, value: &str| words.push(format!("--{name} {}", quoted(value)));
        if self.chosen.driver == DriverKind::Sonic {
            option("driver", "sonic");
        }
        let password = self.chosen.redis_password_file.as_ref().map(|path| path.display().to_string());
        let single = [
            ("redis", &self.chosen.redis),
            ("redis-password-file", &password),
            ("switch", &self.switch),
            ("bridge", &self.bridge),
        ];
        for (name, value) in single {
            value.iter().for_each(|value| option(name, value));
        }
        let several = [("port", &self.port), ("outside", &self.outside), ("without-agent", &self.without_agent)];
        for (name, values) in several {
            values.iter().for_each(|value| option(name, value));
        }
        words.extend(self.trust_dscp.then(|| "--trust-dscp".to_owned()));
        words.join(" ")
    }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    match &args.action {
        Action::Show(args) => show(args, ui),
        Action::Diff(args) => diff(args, ui),
        Action::Apply(args) => apply(args, ui),
        Action::Watch(args) => watch::run(args, ui),
        Action::Bind(args) => bind::run(args, ui),
        Action::Remove(args) => remove(args, ui),
    }
}

fn show(args: &Show, ui: &mut Ui) -> Result<Exit, CommandError> {
    let (policy, notes) = input::policy(&args.policy)??;
    input::print_notes(&notes, ui)?;
    let network = select::Needed::of(&policy, &args.mapping.without_agent)?;
    if args.mapping.bridge.is_none() && args.mapping.port.is_empty() && args.mapping.outside.is_empty() {
        if args.counters {
            return Err(CommandError::refused("--counters: no interface is named, whose queues could be read")
                .hint("name interfaces with --port INTERFACE=NEIGHBOUR, or their bridge with --bridge"));
        }
        let mut ports = network.all_ports(args.mapping.switch.as_deref())?;
        driver::trust(&args.mapping, &mut ports);
        print::ports(&ports, args.json, ui)?;
        return Ok(Exit::Done);
    }
    let (selected, mut driver) = driver::noted(ui, |notes| {
        let mut selected = network.select(&args.mapping, notes)?;
        let driver = driver::of(&args.mapping, &mut selected, notes)?;
        Ok((selected, driver))
    })?;
    let states = read(&mut driver, &desired(&selected))?;
    let mut ports: Vec<_> = selected.ports.into_iter().map(|port| port.with_state(&states)).collect();
    if args.counters {
        read_counters(&mut driver, &mut ports)?;
    }
    print::ports(&ports, args.json, ui)?;
    Ok(Exit::Done)
}

/// Reads the counters of all ports that are interfaces.
fn read_counters(driver: &mut AnySwitch, ports: &mut [select::Port]) -> Result<(), CommandError> {
    for port in ports {
        let Some(interface) = &port.interface else { continue };
        port.counters = driver.queues(interface).map_err(|error| {
            let failed = CommandError::failed(format!("switch {}, port {interface}: {error}", port.switch));
            driver.hint(&error).into_iter().fold(failed, |failed, hint| failed.hint(hint))
        })?;
    }
    Ok(())
}

fn diff(args: &Ports, ui: &mut Ui) -> Result<Exit, CommandError> {
    let (policy, notes) = input::policy(&args.policy)??;
    input::print_notes(&notes, ui)?;
    let (selected, steps) = driver::noted(ui, |notes| differences(&policy, &args.mapping, notes))?;
    print::steps(&selected, &steps, args.json, ui)?;
    Ok(Exit::Done)
}

/// The steps from what this switch's ports have to what the policy needs. Nothing changes.
fn differences(
    policy: &Policy,
    mapping: &Mapping,
    notes: &mut Vec<String>,
) -> Result<(Selected, Vec<Step>), CommandError> {
    let mut selected = select::Needed::of(policy, &mapping.without_agent)?.select(mapping, notes)?;
    let mut driver = driver::of(mapping, &mut selected, notes)?;
    let desired = desired(&selected);
    weir_switch::apply::check(&driver, &desired).map_err(refusal)?;
    let states = read(&mut driver, &desired)?;
    let wanted = desired.into_iter().map(|(port, config)| (port, config.state().clone())).collect();
    let steps = weir_switch::diff(&states, &wanted);
    Ok((selected, steps))
}

fn apply(args: &Ports, ui: &mut Ui) -> Result<Exit, CommandError> {
    let mut selected = needed(&args.policy, &args.mapping, ui)?;
    let _lock = locked()?;
    let mut driver = driver::noted(ui, |notes| driver::of(&args.mapping, &mut selected, notes))?;
    let steps = weir_switch::apply(&mut driver, &desired(&selected)).map_err(refusal)?;
    print::steps(&selected, &steps, args.json, ui)?;
    Ok(Exit::Done)
}

fn remove(args: &Remove, ui: &mut Ui) -> Result<Exit, CommandError> {
    args.chosen.check(args.bridge.as_deref())?;
    let mut ports = args.port.clone();
    if let Some(bridge) = &args.bridge {
        ports.extend(select::bridge_ports(bridge)?.into_iter().map(|port| port.interface));
    }
    ports.sort_unstable();
    ports.dedup();
    let _lock = locked()?;
    let mut driver = args.chosen.open("this switch")?;
    let steps: Vec<Step> = weir_switch::remove(&mut driver, &ports).map_err(refusal)?;
    let mut changed = 0;
    for port in &ports {
        let swept = driver.sweep(port).map_err(|error| CommandError::failed(format!("port {port}: {error}")))?;
        changed += usize::from(swept || steps.iter().any(|step| step.port == *port));
    }
    ui.notice(&format!("removed from {changed} of {}\n", crate::text::count(ports.len(), "port")))?;
    Ok(Exit::Done)
}

/// No other command, and no watch that repairs, changes this host's ports meanwhile.
fn locked() -> Result<SwitchLock, CommandError> {
    SwitchLock::take().map_err(|error| CommandError::failed(error.to_string()).hint("run it as root"))
}

fn needed(policy: &Path, mapping: &Mapping, ui: &mut Ui) -> Result<Selected, CommandError> {
    let (policy, notes) = input::policy(policy)??;
    input::print_notes(&notes, ui)?;
    driver::noted(ui, |notes| select::Needed::of(&policy, &mapping.without_agent)?.select(mapping, notes))
}

/// By interface.
fn desired(selected: &Selected) -> BTreeMap<String, PortConfig> {
    let of = |port: &select::Port| Some((port.interface.clone()?, port.config.clone()));
    selected.ports.iter().filter_map(of).collect()
}

fn read(driver: &mut AnySwitch, desired: &BTreeMap<String, PortConfig>) -> Result<SwitchState, CommandError> {
    weir_switch::apply::read(driver, desired.keys()).map_err(refusal)
}

fn refusal(error: ApplyError) -> CommandError {
    let refused = match &error {
        ApplyError::Refused(_) => CommandError::refused(error.to_string()),
        ApplyError::Unreadable { .. } | ApplyError::Failed { .. } => CommandError::failed(error.to_string()),
    };
    let mut hints = error.hints();
    hints.dedup();
    hints.into_iter().fold(refused, |error, hint| error.hint(hint))
}
