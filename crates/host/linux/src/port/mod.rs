//! [`TcSwitch`]: the ports of a Linux switch, configured over netlink as `tc` does.
//!
//! Problem: no qdisc with strict and weighted queues that marks is in every kernel: many have neither `ets`, `prio`
//! and `drr` nor `red`. Approach: HTB, which Weir needs anyway, as strict and weighted queues ([`classes`]); a BPF
//! program in front of it that assigns each packet to its queue by DSCP and marks, and one that re-marks arriving
//! packets ([`program`]). Everything is read
//! back from the kernel: rates, schedulers, weights and buffers from HTB and its bfifos, thresholds and the map from
//! the program's settings. No file keeps a state beside it.
//!
//! | module | contents |
//! |---|---|
//! | [`classes`] | HTB's classes of a port |
//! | [`program`] | the BPF program and its settings |
//! | [`bridge`] | the ports of a Linux bridge |
//! | [`PortEvents`] | notifications that ports have changed |
//! | [`SwitchLock`] | one change of a switch's ports at a time |
//!
//! A port without a configuration of Weir's has the kernel's default qdisc. Another qdisc at its root is an error,
//! since it would be lost; so is an agent of Weir on the same interface.
//!
//! HTB runs in software: a switch whose hardware forwards packets past the kernel (switchdev) is not configured by it.
//! The rate of a port is therefore required, and at most that of its line: the queue must be the kernel's.
//!
//! Act from a thread in the switch's network namespace.
//!
//! Worked example: `apply(&mut TcSwitch::new("leaf1"), &desired)` for `swp1` with one queue at 10 Gb/s and a
//! threshold of 80 kB: `tc class show dev swp1` lists 7773:1 and 7773:10, `tc filter show dev swp1 egress` the
//! program.

pub mod bridge;
mod classes;
mod events;
mod lock;
mod program;

pub use bridge::{BridgePort, bridge_ports};
pub use events::PortEvents;
pub use lock::{LockError, SwitchLock};
pub use program::{PortProgram, QueueCounts};

use crate::class::Sending;
use crate::interface::{Interface, InterfaceError};
use crate::loader::LoaderError;
use crate::netlink::{NetlinkError, Socket};
use crate::tc::{self, Qdisc};
use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use classes::PortClasses;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_datapath::abi::{DSCPS, PORT_BUFFER_MAX, PORT_LAYOUT, PORT_QUEUES, Port};
use weir_switch::{
    Capabilities, Change, Driver, DscpMap, DscpSet, Map, PortState, QueueConfig, QueueReading, RateSetting, ReadQueues,
    Schedule, Setting, Step, WriteError,
};
use weir_units::Bytes;

/// Tries to find a queue empty before it is removed, and the pause between them: a full buffer of 256 kB takes 200 ms
/// at 10 Mb/s.
const DRAIN_TRIES: u32 = 100;
const DRAIN_PAUSE: Duration = Duration::from_millis(10);
/// The largest weight: SONiC's, too. A round of HTB serves each queue its weight in largest segments.
const WEIGHT_MAX: u16 = 100;

/// Why a port cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// There is no such interface, or it is no Ethernet interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// It has frames without Ethernet headers.
    #[error("not an Ethernet interface; a port's program reads Ethernet headers")]
    NotEthernet,
    /// A qdisc of others.
    #[error("the qdisc {found} is at its root, which neither the kernel nor `weir switch` put there")]
    Foreign {
        /// The interface.
        interface: String,
        /// The qdisc.
        found: Qdisc,
    },
    /// A configuration that has no queues, but a map or settings.
    #[error("a port has queues only below a rate")]
    NoRate,
    /// The kernel refused a change of the qdisc.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The kernel refused the program's object.
    #[error("load the port's BPF program: {}", with_causes(.0))]
    Load(#[from] EbpfError),
    /// The kernel refused the program.
    #[error("the port's BPF program: {0}")]
    Program(#[from] ProgramError),
    /// The program cannot be attached.
    #[error(transparent)]
    Attach(#[from] LoaderError),
    /// A map.
    #[error("the port's BPF map: {0}")]
    Map(#[from] MapError),
    /// The program and the object are of two builds, or a qdisc has two owners.
    #[error("the port has no `{0}`")]
    Missing(&'static str),
}

/// An error of aya with its causes: the first alone names the map or program, not the kernel's reason.
fn with_causes(error: &EbpfError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        // Some errors repeat their cause.
        let error_text = error.to_string();
        if !text.ends_with(&error_text) {
            text.push_str(&format!(": {error_text}"));
        }
        cause = error.source();
    }
    text
}

/// The interfaces of a Linux switch.
pub struct TcSwitch {
    name: String,
    /// By the port's name: the id of its program, and the program, since a search over all programs of the host for
    /// each reading takes long. A port that is made again, or whose program is, has another id.
    programs: BTreeMap<String, (u32, PortProgram)>,
}

/// A port as the kernel has it.
struct Found {
    classes: Option<PortClasses>,
    /// Whether it has its program, with this layout.
    has_program: bool,
    /// Whether clsact came with its program, or with a filter that remains of it.
    clsact: bool,
    state: PortState,
}

fn interface(port: &str) -> Result<Interface, PortError> {
    let interface = Interface::named(port)?;
    if interface.is_ethernet() { Ok(interface) } else { Err(PortError::NotEthernet) }
}

impl TcSwitch {
    /// The switch of the calling thread's namespace, under a name for messages.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), programs: BTreeMap::new() }
    }

    /// The program of a port, for its counters; `None` where none is attached.
    pub fn program(&mut self, port: &str) -> Result<Option<PortProgram>, PortError> {
        self.open_program(&mut Socket::open()?, &interface(port)?)?;
        Ok(self.programs.remove(port).map(|(_, program)| program))
    }

    /// Opens the program of a port unless it is open; closes one that the port has no longer.
    fn open_program(&mut self, socket: &mut Socket, interface: &Interface) -> Result<Option<&PortProgram>, PortError> {
        let name = interface.name();
        let attached = PortProgram::attached(socket, interface)?;
        if self.programs.get(name).map(|(id, _)| *id) != attached {
            self.programs.remove(name);
            if let Some(id) = attached
                && let Some(program) = PortProgram::open(id)?
            {
                self.programs.insert(name.to_owned(), (id, program));
            }
        }
        Ok(self.programs.get(name).map(|(_, program)| program))
    }

    fn find(&mut self, socket: &mut Socket, interface: &Interface) -> Result<Found, PortError> {
        if tc::has_ingress(socket, interface.index())? {
            return Err(LoaderError::Ingress(interface.name().to_owned()).into());
        }
        let classes = PortClasses::read(socket, interface)?;
        let settings = self.open_program(socket, interface)?.map(PortProgram::settings).transpose()?;
        let clsact = match &settings {
            Some(settings) => settings.clsact != 0,
            None => PortProgram::has_added_clsact(socket, interface)?,
        };
        let state = state_of(interface, classes.as_ref(), settings.as_ref())?;
        Ok(Found { classes, has_program: settings.is_some(), clsact, state })
    }

    /// Brings the kernel to a state of a port. A change that only takes away loads no program.
    fn enforce(
        &mut self,
        socket: &mut Socket,
        interface: &Interface,
        found: &Found,
        (state, change): (&PortState, &Change),
    ) -> Result<(), PortError> {
        if state.is_default() {
            self.clear(socket, interface, found.clsact)?;
            return Ok(());
        }
        match PortClasses::of(state, Sending::over(interface)?) {
            Some(classes) => classes.install(socket, interface, found.classes.as_ref())?,
            None if state.queues.is_empty() => drop(classes::remove(socket, interface)?),
            None => return Err(PortError::NoRate),
        }
        let open = self.programs.get_mut(interface.name()).filter(|_| found.has_program);
        if let Some((_, program)) = open {
            return program.set(settings(state));
        }
        if matches!(change, Change::RemoveQueue { .. }) {
            return Ok(());
        }
        let program = PortProgram::attach(interface, settings(state), found.clsact)?;
        if let Some(id) = PortProgram::attached(socket, interface)? {
            self.programs.insert(interface.name().to_owned(), (id, program));
        }
        Ok(())
    }

    /// Removes the classes and the program of a port; whether there was any part of them.
    fn clear(&mut self, socket: &mut Socket, interface: &Interface, clsact: bool) -> Result<bool, PortError> {
        self.programs.remove(interface.name());
        let classes = classes::remove(socket, interface)?;
        Ok(PortProgram::detach(interface, clsact)? | classes)
    }

    /// Removes what remains of Weir's configuration at a port that has none: a filter beside which another program
    /// deleted the other one, or a root qdisc whose root class an `apply` that was killed did not make. Returns whether
    /// there was any; a port with a configuration stays.
    pub fn sweep(&mut self, port: &str) -> Result<bool, PortError> {
        let (interface, mut socket) = (interface(port)?, Socket::open()?);
        let found = self.find(&mut socket, &interface)?;
        if !found.state.is_default() {
            return Ok(false);
        }
        self.clear(&mut socket, &interface, found.clsact)
    }

    fn write_step(&mut self, socket: &mut Socket, step: &Step) -> Result<(), PortError> {
        let interface = interface(&step.port)?;
        let found = self.find(socket, &interface)?;
        let mut state = found.state.clone();
        step.change.apply(&mut state);
        // The inverse of a step that was not done changes nothing. It must not load the program whose failure is being
        // reverted; only the state without a configuration is enforced again, since parts of one are not in the state.
        if state == found.state && !state.is_default() {
            return Ok(());
        }
        if let Change::RemoveQueue { queue, .. } = step.change {
            wait_until_empty(socket, &interface, queue)?;
        }
        self.enforce(socket, &interface, &found, (&state, &step.change))
    }
}

/// The state of a port from its classes and the settings of its program.
fn state_of(
    interface: &Interface,
    classes: Option<&PortClasses>,
    settings: Option<&Port>,
) -> Result<PortState, PortError> {
    let remark = DscpSet::from_bits(settings.map_or(0, |settings| settings.remark));
    let mut state = PortState { map: settings.and_then(map_of), remark, ..PortState::default() };
    let Some(classes) = classes else { return Ok(state) };
    state.rate = Some(classes::in_force(settings.map_or(0, |settings| settings.rate), classes.rate()));
    let is_strict = |queue: u8| settings.is_some_and(|settings| settings.strict >> queue & 1 == 1);
    for (number, schedule, buffer) in classes.queues(Sending::over(interface)?, is_strict) {
        let mark = settings.and_then(|settings| settings.mark.get(usize::from(number)));
        let mark = mark.filter(|mark| **mark != u64::MAX).map(|mark| Bytes::new(*mark));
        // The driver's own default is no setting.
        let buffer = Some(buffer).filter(|buffer| *buffer != classes::BUFFER || is_stated(settings, number));
        state.queues.insert(number, QueueConfig { schedule, mark, buffer });
    }
    Ok(state)
}

/// Whether a queue's buffer was given, not the driver's default.
fn is_stated(settings: Option<&Port>, queue: u8) -> bool {
    settings.is_some_and(|settings| settings.stated >> queue & 1 == 1)
}

fn map_of(settings: &Port) -> Option<DscpMap> {
    (settings.mapped != 0).then(|| DscpMap::from_queues(settings.queue_of))
}

/// The settings of the program for a port's state.
fn settings(state: &PortState) -> Port {
    let mut settings = Port {
        rate: state.rate.map_or(0, |rate| rate.bps()),
        mark: [u64::MAX; PORT_QUEUES as usize],
        mapped: state.map.is_some().into(),
        queue_of: state.map.map_or([0; DSCPS as usize], |map| *map.queues()),
        class: u32::from(classes::MAJOR) << 16 | u32::from(classes::FIRST_MINOR),
        layout: PORT_LAYOUT,
        remark: state.remark.bits(),
        ..Port::default()
    };
    for (&number, queue) in &state.queues {
        let index = usize::from(number);
        settings.mark[index] = queue.mark.map_or(u64::MAX, Bytes::get);
        settings.buffer[index] = queue.buffer.unwrap_or(classes::BUFFER).get();
        settings.stated |= u32::from(queue.buffer.is_some()) << number;
        match queue.schedule {
            Schedule::Strict => settings.strict |= 1 << number,
            Schedule::Weighted(weight) => settings.weight[index] = weight.into(),
        }
    }
    settings
}

/// Waits until nothing waits in a queue that has no packets assigned any longer. A queue that more urgent ones keep
/// from sending for a second is removed with what it holds.
#[expect(clippy::disallowed_methods, reason = "packets leave in real time")]
fn wait_until_empty(socket: &mut Socket, interface: &Interface, queue: u8) -> Result<(), PortError> {
    for _ in 0..DRAIN_TRIES {
        if classes::backlog(socket, interface, queue)? == 0 {
            break;
        }
        std::thread::sleep(DRAIN_PAUSE);
    }
    Ok(())
}

impl ReadQueues for TcSwitch {
    fn queues(&mut self, port: &str) -> Result<BTreeMap<u8, QueueReading>, PortError> {
        classes::readings(&mut Socket::open()?, &interface(port)?)
    }

    fn are_live(&self) -> bool {
        true
    }
}

impl Driver for TcSwitch {
    type Error = PortError;

    fn switch(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queues: PORT_QUEUES as u8,
            strict: true,
            weighted: true,
            mixed: true,
            weights: 1..=WEIGHT_MAX,
            marks: Setting::PerQueue,
            buffers: Setting::PerQueue,
            buffer_max: Bytes::new(PORT_BUFFER_MAX.into()),
            rate: RateSetting::Required,
            remarks: true,
            maps: Map::PerPort,
        }
    }

    fn read(&mut self, port: &str) -> Result<PortState, PortError> {
        let interface = interface(port)?;
        let mut socket = Socket::open()?;
        Ok(self.find(&mut socket, &interface)?.state)
    }

    fn write(&mut self, steps: &[Step]) -> Result<(), WriteError<PortError>> {
        let failed = |step: usize| move |error: PortError| WriteError { step, error };
        let mut socket = Socket::open().map_err(|error| failed(0)(error.into()))?;
        for (index, step) in steps.iter().enumerate() {
            self.write_step(&mut socket, step).map_err(failed(index))?;
        }
        Ok(())
    }

    fn hint(&self, error: &PortError) -> Option<String> {
        let permission = |error: Option<i32>| matches!(error, Some(libc::EPERM | libc::EACCES));
        match error {
            PortError::Foreign { interface, .. } => Some(format!(
                "`tc qdisc del dev {interface} root` removes it; for the tree of a Weir agent: `weir agent --remove`"
            )),
            PortError::Interface(error) if error.is_absent() => Some("`ip link` lists this host's interfaces".into()),
            PortError::Interface(error) if permission(error.error.raw_os_error()) => Some("run it as root".into()),
            PortError::Netlink(error) if permission(error.errno()) => Some("run it as root".into()),
            PortError::Load(_) | PortError::Program(_) => Some("run it as root, on Linux 5.19 or later".into()),
            _ => None,
        }
    }
}
