//! [`InterfaceDatapath`]: the BPF programs of one interface, loaded, attached, fed with rules and read.
//!
//! Problem: programs must see every packet of an interface in both directions, change their rules without a
//! packet seeing half of them, and disappear when the agent does. Approach: each interface has its own copy of
//! the programs and maps (its rules are its own); they hang on tcx links, which the kernel removes when the
//! process ends, or on clsact filters where the kernel has no tcx (before 6.6). Rules go into the table that
//! is not in use, then one word switches.
//!
//! Life: [`InterfaceDatapath::attach`], [`InterfaceDatapath::set_rules`] and [`InterfaceDatapath::totals`] as
//! often as wanted, [`InterfaceDatapath::remove`] or drop. Attach must happen on a thread in the interface's
//! namespace; the rest may happen on any thread, since the namespace is kept open and entered to detach: a clsact
//! filter is deleted by interface index, which in another namespace is another interface.
//!
//! Source: aya's documentation; kernel Documentation/bpf/ (tcx, BPF_PROG_TYPE_SCHED_CLS).

use crate::interface::Interface;
use crate::netlink::{NetlinkError, Socket};
use crate::netns;
use crate::tables::{Config, MeterValue, SERVICES_MAX, Table};
use crate::{htb, tc};
use aya::maps::{Array, MapData, MapError, PerCpuArray};
use aya::programs::tc::{NlOptions, SchedClassifierLinkId, TcAttachOptions, TcError, qdisc_detach_program};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfError};
use std::fs::File;
use std::io;
use weir_datapath::{Classifier, Meter, RawMeter};
use weir_units::{Direction, PerDirection, ServiceId};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/weir.bpf.o"));
/// The compiled programs that tests compare with the native code.
#[doc(hidden)]
pub static VERDICT_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/verdict.bpf.o"));

const PROGRAMS: [(&str, TcAttachType); 2] =
    [("weir_egress", TcAttachType::Egress), ("weir_ingress", TcAttachType::Ingress)];

/// Why programs cannot be loaded, attached or fed.
#[derive(Debug, thiserror::Error)]
pub enum LoaderError {
    /// Frames have no Ethernet header there.
    #[error("{0} is not an Ethernet interface; the datapath reads Ethernet headers")]
    NotEthernet(String),
    /// A program of ours is attached already.
    #[error("{0} already has Weir's programs attached: another agent runs")]
    AlreadyAttached(String),
    /// A service id that has no meter.
    #[error("service {} is beyond the {SERVICES_MAX} that one host can tell apart", .0.0)]
    Service(ServiceId),
    /// The kernel refused the object.
    #[error("load the BPF programs: {0}")]
    Load(#[from] EbpfError),
    /// The kernel refused a program or its link.
    #[error("BPF program: {0}")]
    Program(#[from] ProgramError),
    /// A map cannot be read or written.
    #[error("BPF map: {0}")]
    Map(#[from] MapError),
    /// A clsact filter.
    #[error("clsact filter: {0}")]
    Tc(#[from] TcError),
    /// The clsact qdisc.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The interface's namespace cannot be opened, or not entered again to detach; then filters stay.
    #[error("the interface's network namespace: {0}")]
    Namespace(#[source] io::Error),
    /// The object lacks what this version needs; a build that was mixed from two.
    #[error("the BPF object has no `{0}`")]
    Missing(&'static str),
}

/// How programs are held on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// Links that end with the process (kernel 6.6 and later).
    Tcx,
    /// Filters of the clsact qdisc, which stay when the process is killed; the next agent replaces them.
    Clsact,
}

/// How packets find their HTB class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classes {
    /// `skb->priority` is set to the class of [`htb::HtbTree`].
    Htb,
    /// Priorities stay as they are: measuring only.
    None,
}

/// What one service has sent and received.
pub type Totals = PerDirection<Meter>;

/// The programs and maps of one interface; detached when dropped.
#[derive(Debug)]
pub struct InterfaceDatapath {
    object: Ebpf,
    /// Where the interface is.
    namespace: File,
    interface: Interface,
    /// What holds the programs, by program.
    links: Vec<(&'static str, SchedClassifierLinkId)>,
    attachment: Attachment,
    /// Whether clsact was added here and goes with us.
    clsact_is_ours: bool,
    config: Config,
    attached: bool,
}

impl InterfaceDatapath {
    /// Loads the programs and attaches them in both directions, without rules: all traffic is unclassified
    /// until [`InterfaceDatapath::set_rules`]. Tries tcx, and clsact where the kernel has no tcx;
    /// `attachment` forces one.
    pub fn attach(interface: &Interface, attachment: Option<Attachment>) -> Result<Self, LoaderError> {
        if !interface.is_ethernet() {
            return Err(LoaderError::NotEthernet(interface.name().into()));
        }
        let mut object = Ebpf::load(OBJECT)?;
        for (name, _) in PROGRAMS {
            program(&mut object, name)?.load()?;
        }
        let mut datapath = Self {
            object,
            namespace: netns::current().map_err(LoaderError::Namespace)?,
            interface: interface.clone(),
            links: Vec::new(),
            attachment: attachment.unwrap_or(Attachment::Tcx),
            clsact_is_ours: false,
            config: Config::default(),
            attached: true,
        };
        match datapath.attach_as(datapath.attachment) {
            Err(LoaderError::Program(error)) if attachment.is_none() && lacks_tcx(&error) => {
                datapath.attachment = Attachment::Clsact;
                datapath.attach_as(Attachment::Clsact)?;
            }
            result => result?,
        }
        Ok(datapath)
    }

    fn attach_as(&mut self, attachment: Attachment) -> Result<(), LoaderError> {
        let name = self.interface.name().to_owned();
        if attachment == Attachment::Clsact {
            self.clsact_is_ours = tc::add_clsact(&mut Socket::open()?, self.interface.index())?;
        }
        for (program_name, direction) in PROGRAMS {
            let options = match attachment {
                Attachment::Tcx => {
                    let (_, running) = SchedClassifier::query_tcx(&name, direction)?;
                    if running.iter().any(|info| info.name_as_str() == Some(program_name)) {
                        return Err(LoaderError::AlreadyAttached(name));
                    }
                    TcAttachOptions::TcxOrder(LinkOrder::default())
                }
                Attachment::Clsact => {
                    remove_filter(&name, direction, program_name)?;
                    TcAttachOptions::Netlink(NlOptions::default())
                }
            };
            let link = program(&mut self.object, program_name)?.attach_with_options(&name, direction, options)?;
            self.links.push((program_name, link));
        }
        Ok(())
    }

    /// How the programs are held.
    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// From the next packet on, packets are classified by `classifier` (made for this interface's name) and
    /// find their class as `classes` says. Meters go on counting.
    pub fn set_rules(&mut self, classifier: &Classifier, classes: Classes) -> Result<(), LoaderError> {
        if let Some(rule) = classifier.rules().iter().find(|rule| rule.service >= SERVICES_MAX) {
            return Err(LoaderError::Service(ServiceId(rule.service)));
        }
        let next = Config {
            table: 1 - self.config.table,
            class_major: match classes {
                Classes::Htb => u32::from(htb::MAJOR) << 16,
                Classes::None => 0,
            },
            class_first: u32::from(htb::FIRST_MINOR),
            class_default: u32::from(htb::DEFAULT_MINOR),
        };
        let tables = self.object.map_mut("weir_tables").ok_or(LoaderError::Missing("weir_tables"))?;
        Array::<_, Table>::try_from(tables)?.set(next.table, Table::new(classifier.rules()), 0)?;
        let config = self.object.map_mut("weir_config").ok_or(LoaderError::Missing("weir_config"))?;
        Array::<_, Config>::try_from(config)?.set(0, next, 0)?;
        self.config = next;
        Ok(())
    }

    /// What a service, or with `None` the unclassified traffic, has sent and received since attach.
    pub fn totals(&self, service: Option<ServiceId>) -> Result<Totals, LoaderError> {
        let slot = match service {
            None => SERVICES_MAX,
            Some(ServiceId(id)) if id < SERVICES_MAX => id,
            Some(service) => return Err(LoaderError::Service(service)),
        };
        let map = self.object.map("weir_meters").ok_or(LoaderError::Missing("weir_meters"))?;
        let meters = PerCpuArray::<&MapData, MeterValue>::try_from(map)?;
        let sum = |index: u32| -> Result<Meter, LoaderError> {
            let mut total = RawMeter::default();
            for MeterValue(cpu) in meters.get(&index, 0)?.iter() {
                total.bytes += cpu.bytes;
                total.packets += cpu.packets;
            }
            Ok(total.into())
        };
        let mut totals = Totals::default();
        for direction in Direction::ALL {
            totals[direction] = sum(slot * 2 + direction as u32)?;
        }
        Ok(totals)
    }

    /// The average cost of a packet in each program, measured by the kernel on `frame`, `repeat` times. Counts
    /// in the meters.
    pub fn cost(&mut self, frame: &[u8], repeat: u32) -> Result<PerDirection<std::time::Duration>, LoaderError> {
        use aya::programs::{TestRun, TestRunOptions};
        let mut run = |name| -> Result<_, LoaderError> {
            let options = TestRunOptions { data_in: Some(frame), repeat, ..TestRunOptions::new() };
            Ok(program(&mut self.object, name)?.test_run(options)?.duration)
        };
        Ok(PerDirection { tx: run(PROGRAMS[0].0)?, rx: run(PROGRAMS[1].0)? })
    }

    /// Detaches both programs, and deletes clsact where it was added here.
    pub fn remove(mut self) -> Result<(), LoaderError> {
        self.detach()
    }

    fn detach(&mut self) -> Result<(), LoaderError> {
        if !std::mem::take(&mut self.attached) {
            return Ok(());
        }
        let links = std::mem::take(&mut self.links);
        let (object, index, clsact_is_ours) = (&mut self.object, self.interface.index(), self.clsact_is_ours);
        let detach = || -> Result<(), LoaderError> {
            // Whatever becomes of one program, the other is tried.
            let unload = |(name, _)| Ok(program(object, name)?.unload()?);
            let unloaded: Vec<Result<(), LoaderError>> = PROGRAMS.map(unload).into();
            if clsact_is_ours {
                tc::delete_clsact(&mut Socket::open()?, index)?;
            }
            unloaded.into_iter().collect()
        };
        netns::inside(&self.namespace, detach).unwrap_or_else(|error| {
            if self.attachment == Attachment::Clsact {
                // Dropping the object on this thread would delete filters of another namespace's interface.
                for (name, link) in links {
                    program(&mut self.object, name)?.take_link(link).map(std::mem::forget)?;
                }
            }
            Err(LoaderError::Namespace(error))
        })
    }
}

impl Drop for InterfaceDatapath {
    fn drop(&mut self) {
        // Nobody is left to tell; tcx links end with the object, filters are replaced by the next agent.
        let _ = self.detach();
    }
}

fn program<'a>(object: &'a mut Ebpf, name: &'static str) -> Result<&'a mut SchedClassifier, LoaderError> {
    Ok(object.program_mut(name).ok_or(LoaderError::Missing(name))?.try_into()?)
}

/// Removes a filter that a killed agent left.
fn remove_filter(interface: &str, direction: TcAttachType, name: &str) -> Result<(), TcError> {
    match qdisc_detach_program(interface, direction, name) {
        Err(TcError::IoError(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Whether the error is how kernels before 6.6 answer to a tcx link.
fn lacks_tcx(error: &ProgramError) -> bool {
    match error {
        ProgramError::SyscallError(error) => error.io_error.raw_os_error() == Some(libc::EINVAL),
        _ => false,
    }
}
