//! The kind of switch that the operator states, and what its ports have by themselves.
//!
//! A policy needs a rate and a buffer of each port. Where ports have both by themselves (SONiC), neither is configured,
//! which is noted, and a rate above the port's own is refused.

use super::Mapping;
use super::select::{Port, Selected};
use crate::error::CommandError;
use crate::output::{Style, Ui};
use crate::text;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use weir_fabric::state::secret;
use weir_linux::netlink::NetlinkError;
use weir_linux::port::{PortError, PortEvents, TcSwitch};
use weir_sonic::{Access, Address, SonicError, SonicSwitch};
use weir_switch::{
    Capabilities, Driver, DscpSet, PortState, QueueReading, RateSetting, ReadQueues, Setting, Step, WriteError,
};
use weir_units::{Bandwidth, Bytes};

/// The socket of SONiC's redis server.
const SONIC_SOCKET: &str = "/var/run/redis/redis.sock";
/// Longer than any password.
const PASSWORD_MAX: u64 = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum DriverKind {
    // A Linux switch: HTB and a BPF program on each port, over netlink.
    #[default]
    Tc,
    // A SONiC switch: rows of CONFIG_DB.
    Sonic,
}

/// The options that choose a driver.
#[derive(Debug, clap::Args)]
pub(super) struct Chosen {
    /// How this switch is configured
    #[arg(long, value_enum, default_value_t)]
    pub(super) driver: DriverKind,
    /// With --driver sonic: its redis server, the path of a socket or HOST:PORT [default:
    /// /var/run/redis/redis.sock]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) redis: Option<String>,
    /// With --driver sonic: a file with the server's password
    #[arg(long, value_name = "FILE")]
    pub(super) redis_password_file: Option<PathBuf>,
}

impl Chosen {
    /// Refuses options of another driver.
    pub(super) fn check(&self, bridge: Option<&str>) -> Result<(), CommandError> {
        let refused = |option: &str, hint: &str| Err(CommandError::refused(option.to_owned()).hint(hint));
        match self.driver {
            DriverKind::Tc if self.redis.is_some() || self.redis_password_file.is_some() => {
                refused("a switch with --driver tc has no redis server", "add --driver sonic")
            }
            DriverKind::Sonic if bridge.is_some() => {
                refused("--bridge names a bridge of Linux", "name each port: --port Ethernet0=NEIGHBOUR")
            }
            _ => Ok(()),
        }
    }

    /// The driver, under a name for messages.
    pub(super) fn open(&self, name: &str) -> Result<AnySwitch, CommandError> {
        if self.driver == DriverKind::Tc {
            return Ok(AnySwitch::Tc(TcSwitch::new(name)));
        }
        let address = self.redis.as_deref().unwrap_or(SONIC_SOCKET).parse::<Address>();
        let address = address.map_err(|error| CommandError::refused(format!("--redis: {error}")))?;
        let read = |path: &PathBuf| {
            let password = secret::read(path, PASSWORD_MAX);
            password.map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
        };
        let password = self.redis_password_file.as_ref().map(read).transpose();
        let password = password.map_err(|error| CommandError::failed(error.to_string()))?;
        let switch = SonicSwitch::connect(name, Access { address, password });
        switch.map(AnySwitch::Sonic).map_err(|error| {
            let failed = CommandError::failed(format!("switch {name}: {error}"));
            error.hint().into_iter().fold(failed, |failed, hint| failed.hint(hint))
        })
    }
}

/// The driver of the selected ports. What the ports have by themselves is left out of their configurations.
pub(super) fn of(
    mapping: &Mapping,
    selected: &mut Selected,
    notes: &mut Vec<String>,
) -> Result<AnySwitch, CommandError> {
    let mut driver = mapping.chosen.open(&selected.switch)?;
    fit(&mut driver, mapping, selected, notes)?;
    Ok(driver)
}

/// The same for a driver that is open.
pub(super) fn fit(
    driver: &mut AnySwitch,
    mapping: &Mapping,
    selected: &mut Selected,
    notes: &mut Vec<String>,
) -> Result<(), CommandError> {
    trust(mapping, &mut selected.ports);
    let capabilities = driver.capabilities();
    if capabilities.rate == RateSetting::Fixed {
        check_rates(driver, selected, notes)?;
    }
    let states_buffer = |port: &Port| port.config.queues().any(|queue| queue.buffer.is_some());
    if capabilities.buffers == Setting::Fixed && selected.ports.iter().any(states_buffer) {
        notes.push("the policy's buffers are not configured: this switch's ports have their own".to_owned());
    }
    for port in &mut selected.ports {
        port.config = capabilities.without_fixed(&port.config);
    }
    Ok(())
}

/// Ports that re-mark nothing, if the operator wants that.
pub(super) fn trust(mapping: &Mapping, ports: &mut [Port]) {
    if mapping.trust_dscp {
        for port in ports {
            port.config = port.config.clone().remarking(DscpSet::default());
        }
    }
}

/// Compares the policy's rates with those of ports that cannot be limited.
fn check_rates(driver: &mut AnySwitch, selected: &Selected, notes: &mut Vec<String>) -> Result<(), CommandError> {
    let mut faster = Vec::new();
    for port in &selected.ports {
        let (Some(interface), Some(needed)) = (&port.interface, port.config.rate()) else { continue };
        let place = format!("switch {}, port {interface}", selected.switch);
        let speed = driver.speed(interface).map_err(|error| {
            let failed = CommandError::failed(format!("{place}: {error}"));
            driver.hint(&error).into_iter().fold(failed, |failed, hint| failed.hint(hint))
        })?;
        match speed {
            Some(speed) if speed < needed => {
                let (needed, speed) = (text::rate(needed), text::rate(speed));
                return Err(CommandError::refused(format!("{place}: the policy has {needed}, and the port {speed}"))
                    .hint("state the port's speed as the rate of its link in the policy's network"));
            }
            Some(speed) if speed > needed => faster.push(interface.clone()),
            _ => {}
        }
    }
    if !faster.is_empty() {
        let ports = text::list(&faster, 8);
        notes.push(format!("ports faster than the policy has them, which cannot be limited: {ports}"));
    }
    Ok(())
}

/// Prints the notes of some work, also if it fails.
pub(super) fn noted<T>(
    ui: &mut Ui,
    work: impl FnOnce(&mut Vec<String>) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let mut notes = Vec::new();
    let result = work(&mut notes);
    for text in notes {
        note(&text, ui)?;
    }
    result
}

pub(super) fn note(text: &str, ui: &mut Ui) -> Result<(), CommandError> {
    let title = ui.on_err(Style::Strong, "note:");
    Ok(ui.notice(&format!("{title} {text}\n"))?)
}

/// A switch of any kind.
pub(super) enum AnySwitch {
    Tc(TcSwitch),
    Sonic(SonicSwitch),
}

/// An error of its driver.
#[derive(Debug)]
pub(super) enum AnyError {
    Tc(PortError),
    Sonic(SonicError),
}

impl fmt::Display for AnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tc(error) => error.fmt(f),
            Self::Sonic(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AnyError {}

impl AnySwitch {
    /// Removes what remains of Weir's configuration at a port that has none in force; whether there was any.
    pub(super) fn sweep(&mut self, port: &str) -> Result<bool, AnyError> {
        match self {
            Self::Tc(switch) => switch.sweep(port).map_err(AnyError::Tc),
            Self::Sonic(switch) => switch.sweep(port).map_err(AnyError::Sonic),
        }
    }

    /// Notifications of changes of its ports from now on, where the driver has them.
    pub(super) fn events(&self) -> Result<Option<PortEvents>, NetlinkError> {
        match self {
            Self::Tc(_) => PortEvents::subscribe().map(Some),
            Self::Sonic(_) => Ok(None),
        }
    }

    /// The most that one of a port's first `queues` queues can hold, where the switch's configuration has it.
    pub(super) fn queue_buffer(&mut self, port: &str, queues: u8) -> Result<Option<Bytes>, AnyError> {
        match self {
            Self::Tc(_) => Ok(None),
            Self::Sonic(switch) => switch.queue_buffer(port, queues).map_err(AnyError::Sonic),
        }
    }

    /// The speed of a port's line, where the driver reads it.
    fn speed(&mut self, port: &str) -> Result<Option<Bandwidth>, AnyError> {
        match self {
            Self::Tc(_) => Ok(None),
            Self::Sonic(switch) => switch.speed(port).map_err(AnyError::Sonic),
        }
    }
}

impl Driver for AnySwitch {
    type Error = AnyError;

    fn switch(&self) -> &str {
        match self {
            Self::Tc(switch) => switch.switch(),
            Self::Sonic(switch) => switch.switch(),
        }
    }

    fn capabilities(&self) -> Capabilities {
        match self {
            Self::Tc(switch) => switch.capabilities(),
            Self::Sonic(switch) => switch.capabilities(),
        }
    }

    fn read(&mut self, port: &str) -> Result<PortState, AnyError> {
        match self {
            Self::Tc(switch) => switch.read(port).map_err(AnyError::Tc),
            Self::Sonic(switch) => switch.read(port).map_err(AnyError::Sonic),
        }
    }

    fn write(&mut self, steps: &[Step]) -> Result<(), WriteError<AnyError>> {
        match self {
            Self::Tc(switch) => switch.write(steps).map_err(|error| error.map(AnyError::Tc)),
            Self::Sonic(switch) => switch.write(steps).map_err(|error| error.map(AnyError::Sonic)),
        }
    }

    fn wait(&mut self, reads: u32) -> bool {
        match self {
            Self::Tc(switch) => switch.wait(reads),
            Self::Sonic(switch) => switch.wait(reads),
        }
    }

    fn mapped(&mut self) -> Result<Vec<String>, AnyError> {
        match self {
            Self::Tc(switch) => switch.mapped().map_err(AnyError::Tc),
            Self::Sonic(switch) => switch.mapped().map_err(AnyError::Sonic),
        }
    }

    fn hint(&self, error: &AnyError) -> Option<String> {
        match (self, error) {
            (Self::Tc(switch), AnyError::Tc(error)) => switch.hint(error),
            (_, AnyError::Sonic(error)) => error.hint(),
            _ => None,
        }
    }
}

impl ReadQueues for AnySwitch {
    fn queues(&mut self, port: &str) -> Result<BTreeMap<u8, QueueReading>, AnyError> {
        match self {
            Self::Tc(switch) => switch.queues(port).map_err(AnyError::Tc),
            Self::Sonic(switch) => switch.queues(port).map_err(AnyError::Sonic),
        }
    }

    fn are_live(&self) -> bool {
        match self {
            Self::Tc(switch) => switch.are_live(),
            Self::Sonic(switch) => switch.are_live(),
        }
    }
}
