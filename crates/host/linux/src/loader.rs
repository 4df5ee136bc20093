//! [`InterfaceDatapath`]: the BPF programs of one interface, loaded, attached, and handed from agent to agent.
//!
//! Programs process every packet of an interface in both directions, outlive the agent that loaded
//! them, and are replaced without a gap. Each interface has its own copy of the maps, pinned
//! ([`crate::pins`]), and attached programs ([`crate::attachment`]). An agent that finds pins
//! adopts the maps, loads its own programs with them, and replaces the earlier programs atomically.
//!
//! Order of calls: [`InterfaceDatapath::attach`], then those of [`crate::settings`] and
//! [`crate::readings`], then [`InterfaceDatapath::remove`] (or drop), or
//! [`InterfaceDatapath::leave`], after which the programs run without a process. Attach from a
//! thread in the interface's namespace; all other calls work on any thread, since the namespace is
//! kept open and entered to detach: a clsact filter is deleted by interface index, which is another
//! interface in another namespace.
//!
//! Source: aya's documentation; kernel Documentation/bpf/ (tcx, BPF_PROG_TYPE_SCHED_CLS).

use crate::attachment::{Attachment, add_clsact, attach_all, has_filters, lacks_tcx, remove_filters};
use crate::cgroups::{CgroupError, CgroupFilters, sockets_are_readable};
use crate::fabric_sockets::FabricSockets;
use crate::guests::{GuestError, GuestFilters, marks};
use crate::interface::{Interface, InterfaceError};
use crate::maps::{CgroupMaps, DestinationMaps, GuestMaps, Maps, are_whole, clsact_is_ours, is_paced, segments_before};
use crate::netlink::{NetlinkError, Socket};
use crate::netns;
use crate::pins::{PinError, Pins, sweep};
use crate::slots::Slots;
use crate::tags::Marks;
use crate::tc;
use aya::maps::MapError;
use aya::programs::links::LinkError;
use aya::programs::{ProgramError, SchedClassifier, TcAttachType, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfError, EbpfLoader};
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use weir_datapath::abi::{Config, DESTINATIONS_MAX, MAPS, SERVICES_MAX, TICK_MIN, VERSION};
use weir_units::{Direction, ServiceId};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/weir.bpf.o"));
/// Programs that tests compare with the native code.
#[doc(hidden)]
pub static VERDICT_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/verdict.bpf.o"));
/// The program of a lab's switch port to a machine, which releases packets from their sockets.
#[doc(hidden)]
pub static RELEASE_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/release.bpf.o"));

const PROGRAMS: [(&str, TcAttachType); 2] =
    [("weir_egress", TcAttachType::Egress), ("weir_ingress", TcAttachType::Ingress)];
/// The program that starts the timer.
const START: &str = "weir_start";
/// Offsets in the kernel's `struct __sk_buff`, bytes.
const IFINDEX: usize = 40;
const WIRE_LEN: usize = 160;
/// Tries to start the timer and the pause between them: its memory is allocated without waiting,
/// which fails while another CPU has the allocator's lock or memory is short.
const START_TRIES: u32 = 200;
const START_PAUSE: Duration = Duration::from_millis(10);
/// Programs cannot be loaded, attached or configured.
#[derive(Debug, thiserror::Error)]
pub enum LoaderError {
    /// The interface has frames without Ethernet headers.
    #[error("{0} is not an Ethernet interface; the datapath reads Ethernet headers")]
    NotEthernet(String),
    /// Another agent has the interface, or one of our programs is attached without a pin.
    #[error("{0} already has Weir's programs attached: another agent runs")]
    AlreadyAttached(String),
    /// A kernel without tcx needs clsact, and another qdisc has its place.
    #[error(
        "{0} has the qdisc ingress, in whose place this kernel needs clsact for programs on departing packets; \
         replace it (tc qdisc del dev {0} ingress; tc qdisc add dev {0} clsact) and attach its filters there"
    )]
    Ingress(String),
    /// More services than slots.
    #[error("the policy has more than {SERVICES_MAX} services at this host")]
    TooManyServices,
    /// Departure times were requested of programs that were loaded without them.
    #[error("the BPF programs were loaded without departure times")]
    WithoutEdt,
    /// A service without a slot.
    #[error("service {} is not on this interface", .0.0)]
    Service(ServiceId),
    /// The kernel refused the object.
    #[error("load the BPF programs: {0}")]
    Load(#[from] EbpfError),
    /// The kernel refused a program or its link.
    #[error("BPF program: {0}")]
    Program(#[from] ProgramError),
    /// A link cannot be taken over.
    #[error("BPF link: {0}")]
    Link(#[from] LinkError),
    /// A link cannot be pinned.
    #[error("pin a BPF link: {0}")]
    PinLink(#[from] aya::pin::PinError),
    /// A map cannot be read or written.
    #[error("BPF map: {0}")]
    Map(#[from] MapError),
    /// The clsact qdisc, or a filter there.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The limit of segments.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The control groups of filters.
    #[error(transparent)]
    Cgroups(#[from] CgroupError),
    /// The guests of filters.
    #[error(transparent)]
    Guests(#[from] GuestError),
    /// The BPF file system.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// A map cannot be mapped into memory, or the number of processors read.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The timer's program failed.
    #[error("the timer does not start (step {0} of its program)")]
    Timer(u32),
    /// The interface's namespace cannot be opened, or not entered again to detach; then filters stay.
    #[error("the interface's network namespace: {0}")]
    Namespace(#[source] io::Error),
    /// The object lacks a program or map: a build mixed from two.
    #[error("the BPF object has no `{0}`")]
    Missing(&'static str),
}

/// The programs and maps of one interface, detached and unpinned on drop unless they are kept.
pub struct InterfaceDatapath {
    object: Ebpf,
    /// Whether the programs can set departure times.
    pub(crate) paces: bool,
    pub(crate) pins: Pins,
    pub(crate) maps: Maps,
    pub(crate) config: Config,
    pub(crate) slots: Slots,
    pub(crate) marks: Marks,
    pub(crate) cgroups: CgroupFilters,
    pub(crate) guests: GuestFilters,
    /// The sockets that may connect to fabric brokers, once they are set.
    pub(crate) fabric: Option<Arc<FabricSockets>>,
    /// The namespace of the interface.
    pub(crate) namespace: File,
    pub(crate) interface: Interface,
    pub(crate) attachment: Attachment,
    adopted: bool,
    succeeds: bool,
    attached: bool,
    /// Whether programs and maps stay on drop.
    kept: bool,
    /// The directory of pins, locked.
    _held: File,
}

/// The programs on an interface.
#[derive(Debug)]
pub struct AttachedPrograms {
    pins: Pins,
    namespace: File,
    interface: u32,
    attachment: Attachment,
}

impl AttachedPrograms {
    /// Whether both programs are still attached: not detached, and neither their pins nor clsact
    /// deleted. Queries two links, or the filters of two directions, under the kernel's RTNL lock.
    pub fn are_there(&self) -> Result<bool, LoaderError> {
        if self.attachment == Attachment::Tcx {
            return Ok(PROGRAMS.iter().all(|(name, _)| self.pins.leads_to(name, self.interface)));
        }
        let there = || has_filters(self.interface, &PROGRAMS);
        Ok(netns::inside(&self.namespace, there).map_err(LoaderError::Namespace)??)
    }
}

impl InterfaceDatapath {
    /// Loads the programs and attaches them in both directions. Adopts the maps of an earlier agent
    /// unchanged; otherwise all traffic is unclassified until rules are set. Tries tcx, and clsact
    /// if the kernel has no tcx, unless `attachment` selects one.
    pub fn attach(interface: &Interface, attachment: Option<Attachment>) -> Result<Self, LoaderError> {
        Self::attach_with(interface, attachment, true)
    }

    /// Like [`InterfaceDatapath::attach`], without departure times: the kernel verifies less than
    /// half of the code. [`InterfaceDatapath::set_rules`] then refuses
    /// [`Classes::Edt`](crate::settings::Classes::Edt), unless the adopted programs set them.
    pub fn attach_without_edt(interface: &Interface, attachment: Option<Attachment>) -> Result<Self, LoaderError> {
        Self::attach_with(interface, attachment, false)
    }

    fn attach_with(interface: &Interface, attachment: Option<Attachment>, paces: bool) -> Result<Self, LoaderError> {
        if !interface.is_ethernet() {
            return Err(LoaderError::NotEthernet(interface.name().into()));
        }
        let pins = Pins::of(interface)?;
        sweep();
        let already = || LoaderError::AlreadyAttached(interface.name().into());
        let held = pins.hold()?.ok_or_else(already)?;
        if !are_whole(&pins) {
            // From another build, or from an agent that was killed during its start.
            pins.clear()?;
        }
        let adopted = pins.exist();
        // Adopted programs set departure times until the rules are replaced.
        let paces = paces || (adopted && is_paced(&pins));
        let succeeds = adopted || !pins.of_other_versions().is_empty();
        // On failure only new pins are removed, not those of an earlier agent.
        let opened = load(&pins, paces).and_then(|object| Ok((object, Maps::open(&pins)?)));
        let (object, maps) = opened.inspect_err(|_| {
            if !adopted {
                let _ = pins.remove();
            }
        })?;
        let mut config = maps.config.get(0)?;
        if !adopted {
            config = Config { tick: TICK_MIN.into(), ..Config::default() };
            let mut free = DestinationMaps::open(&pins)?.free;
            (0..DESTINATIONS_MAX).try_for_each(|slot| free.push(slot, 0))?;
        }
        let slots = known_slots(&maps)?;
        // An earlier agent's tags and services with credits stay until others are set.
        let marks = Marks::of_kernel(&maps)?;
        let cgroups = CgroupFilters::new(CgroupMaps::open(&pins)?)?;
        let guests = GuestFilters::new(GuestMaps::open(&pins)?)?;
        let mut datapath = Self {
            cgroups,
            guests,
            fabric: None,
            object,
            paces,
            pins,
            maps,
            config,
            slots,
            marks,
            namespace: netns::current().map_err(LoaderError::Namespace)?,
            interface: interface.clone(),
            attachment: attachment.unwrap_or(Attachment::Tcx),
            adopted,
            succeeds,
            _held: held,
            // From here on a failure detaches the programs, unless an earlier agent attached them.
            attached: true,
            kept: succeeds,
        };
        match datapath.attach_as(datapath.attachment) {
            Err(LoaderError::Program(error)) if attachment.is_none() && lacks_tcx(&error) => {
                datapath.attachment = Attachment::Clsact;
                datapath.attach_as(Attachment::Clsact)?;
            }
            // Foreign programs stay attached.
            Err(error @ LoaderError::AlreadyAttached(_)) => {
                datapath.attached = false;
                datapath.pins.remove()?;
                return Err(error);
            }
            result => result?,
        }
        datapath.take_over()?;
        let [a, b, c, d, e, f] = interface.hardware();
        datapath.config.hardware = u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]);
        datapath.config.version = VERSION;
        datapath.write_config()?;
        datapath.kept = false;
        Ok(datapath)
    }

    /// Takes over the settings to be restored from agents of other versions, and discards their maps.
    fn take_over(&mut self) -> Result<(), LoaderError> {
        for other in self.pins.of_other_versions() {
            self.config.clsact |= u32::from(clsact_is_ours(&other));
            self.config.gso_segments = self.config.gso_segments.max(segments_before(&other));
            marks::take_over(&other, &self.pins)?;
            other.remove()?;
        }
        Ok(())
    }

    fn attach_as(&mut self, attachment: Attachment) -> Result<(), LoaderError> {
        self.config.clsact |= u32::from(add_clsact(attachment, &self.interface)?);
        attach_all(&mut self.object, &PROGRAMS, attachment, (&self.pins, &self.interface))
    }

    /// The kind of attachment.
    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// The check that the programs are attached, which any thread can make.
    pub fn attached_programs(&self) -> Result<AttachedPrograms, LoaderError> {
        let namespace = self.namespace.try_clone().map_err(LoaderError::Namespace)?;
        let (pins, attachment) = (self.pins.clone(), self.attachment);
        Ok(AttachedPrograms { pins, namespace, interface: self.interface.index(), attachment })
    }

    /// Whether an earlier agent's maps were adopted.
    pub fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Whether maps were adopted, or programs of another version were replaced whose maps are discarded.
    pub fn is_successor(&self) -> bool {
        self.succeeds
    }

    /// Starts the timer, or takes it over from the earlier agent's programs. Call after
    /// configuration. Waits up to two seconds for its memory.
    #[expect(clippy::disallowed_methods, reason = "waits for the kernel")]
    pub fn start_timer(&mut self) -> Result<(), LoaderError> {
        let frame = [0u8; 64];
        let mut step = 0;
        for _ in 0..START_TRIES {
            let options = TestRunOptions { data_in: Some(&frame), ..TestRunOptions::new() };
            step = program(&mut self.object, START)?.test_run(options)?.return_value;
            if step == 0 {
                return Ok(());
            }
            std::thread::sleep(START_PAUSE);
        }
        Err(LoaderError::Timer(step))
    }

    /// The mean run time of the program of a direction, measured by the kernel on `repeat` runs
    /// with `frame`, as if received on the namespace's loopback. The runs count in the meters.
    pub fn cost(&mut self, direction: Direction, frame: &[u8], repeat: u32) -> Result<Duration, LoaderError> {
        match direction {
            Direction::Tx => self.cost_of_buffer(u32::try_from(frame.len()).unwrap_or(u32::MAX), frame, repeat),
            Direction::Rx => self.cost_of(direction, frame, repeat, None),
        }
    }

    /// Like [`InterfaceDatapath::cost`], for a packet received on an interface.
    pub fn cost_from(&mut self, interface: u32, frame: &[u8], repeat: u32) -> Result<Duration, LoaderError> {
        self.cost_of(Direction::Rx, frame, repeat, Some((IFINDEX, interface)))
    }

    /// Like [`InterfaceDatapath::cost`], for a departing buffer of `wire_bytes`, at least the
    /// frame's length. The kernel would otherwise run it with length 0.
    pub fn cost_of_buffer(&mut self, wire_bytes: u32, frame: &[u8], repeat: u32) -> Result<Duration, LoaderError> {
        self.cost_of(Direction::Tx, frame, repeat, Some((WIRE_LEN, wire_bytes)))
    }

    /// With a field of the buffer's context set, by its offset.
    fn cost_of(
        &mut self,
        direction: Direction,
        frame: &[u8],
        repeat: u32,
        field: Option<(usize, u32)>,
    ) -> Result<Duration, LoaderError> {
        let mut context = [0u8; 192];
        if let Some((at, value)) = field {
            context[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let context = field.map(|_| context.as_slice());
        let options = TestRunOptions { data_in: Some(frame), ctx_in: context, repeat, ..TestRunOptions::new() };
        let name = PROGRAMS[usize::from(direction == Direction::Rx)].0;
        Ok(program(&mut self.object, name)?.test_run(options)?.duration)
    }

    /// The frame after the program of a direction; `None` if it is dropped. For tests; counts in the meters.
    #[doc(hidden)]
    pub fn passed(&mut self, direction: Direction, frame: &[u8]) -> Result<Option<Vec<u8>>, LoaderError> {
        /// TC_ACT_SHOT
        const DROP: u32 = 2;
        let mut out = vec![0; frame.len()];
        let options = TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ..TestRunOptions::new() };
        let name = PROGRAMS[usize::from(direction == Direction::Rx)].0;
        let ended = program(&mut self.object, name)?.test_run(options)?;
        Ok((ended.return_value != DROP).then_some(out))
    }

    /// Limits the buffers of local sockets to so many segments (`gso_max_segs`), at most as many as found; `None`
    /// restores that. Also restored by [`InterfaceDatapath::remove`].
    pub fn limit_segments(&mut self, most: Option<u32>) -> Result<(), LoaderError> {
        let now = self.interface.gso_segments()?;
        let found = if self.config.gso_segments == 0 { now } else { self.config.gso_segments };
        match most.filter(|most| *most < found) {
            Some(most) => {
                // Recorded first, so that it can be restored after a crash between the two.
                self.config.gso_segments = found;
                self.write_config()?;
                Ok(self.interface.set_gso_segments(most)?)
            }
            None if self.config.gso_segments == 0 => Ok(()),
            None => {
                self.interface.restore_gso_segments(found)?;
                self.config.gso_segments = 0;
                self.write_config()
            }
        }
    }

    /// Sets whether a drop, also by a panic, leaves programs, timer and rates in force for the next agent.
    pub fn set_kept(&mut self, kept: bool) {
        self.kept = kept;
    }

    /// Drops this and [keeps](Self::set_kept) the programs.
    pub fn leave(mut self) {
        self.kept = true;
    }

    /// Detaches both programs, deletes clsact if an agent added it and it has no other filters, and
    /// unpins everything. Pins stay if a program cannot be detached.
    pub fn remove(mut self) -> Result<(), LoaderError> {
        self.detach()
    }

    fn detach(&mut self) -> Result<(), LoaderError> {
        if !std::mem::take(&mut self.attached) {
            return Ok(());
        }
        let guests = self.leave_guests();
        let (index, clsact_is_ours) = (self.interface.index(), self.config.clsact != 0);
        if self.attachment == Attachment::Clsact {
            let filters = || -> Result<(), LoaderError> {
                remove_filters(index, &PROGRAMS)?;
                if clsact_is_ours {
                    tc::delete_clsact(&mut Socket::open()?, index)?;
                }
                Ok(())
            };
            // Without pins a filter that stays could not be found again, and its limits would stay in force.
            netns::inside(&self.namespace, filters).map_err(LoaderError::Namespace)??;
        }
        if self.config.gso_segments != 0 {
            let restore = || self.interface.restore_gso_segments(self.config.gso_segments);
            match netns::inside(&self.namespace, restore).map_err(LoaderError::Namespace)? {
                Err(error) if !error.is_absent() => return Err(error.into()),
                _ => {}
            }
        }
        // Without pins a filter on a guest's interface could not be found again.
        guests?;
        self.pins.remove()?;
        Ok(())
    }

    /// Removes programs and maps of agents of any version. Returns whether there were any.
    pub fn remove_leftover(interface: &Interface) -> Result<bool, LoaderError> {
        let pins = Pins::of(interface)?;
        let _held = match pins.exist() {
            true => Some(pins.hold()?.ok_or_else(|| LoaderError::AlreadyAttached(interface.name().into()))?),
            false => None,
        };
        let mut found = false;
        for pins in pins.of_other_versions().into_iter().chain([pins]) {
            found |= remove_filters(interface.index(), &PROGRAMS)?;
            marks::remove_all(&pins)?;
            if clsact_is_ours(&pins) {
                tc::delete_clsact(&mut Socket::open()?, interface.index())?;
            }
            match segments_before(&pins) {
                0 => {}
                segments => interface.restore_gso_segments(segments)?,
            }
            found |= pins.remove()?;
        }
        Ok(found)
    }
}

impl fmt::Debug for InterfaceDatapath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, attachment) = (self.interface.name(), self.attachment);
        write!(f, "InterfaceDatapath {{ {name}, {attachment:?}, adopted: {} }}", self.adopted)
    }
}

impl Drop for InterfaceDatapath {
    fn drop(&mut self) {
        if !self.kept {
            // Leftovers after an error are adopted or removed by the next agent.
            let _ = self.detach();
        }
    }
}

/// The services that have slots in the kernel.
fn known_slots(maps: &Maps) -> Result<Slots, MapError> {
    let services = (0..SERVICES_MAX).map(|slot| Ok((slot, maps.services.get(slot)?)));
    let services: Vec<_> = services.collect::<Result<_, MapError>>()?;
    let known = services.iter().filter(|(_, entry)| entry.known != 0);
    Ok(Slots::known(known.map(|(slot, entry)| (*slot, entry.name))))
}

/// Loads the object with the pinned maps, and creates and pins those that are missing.
fn load(pins: &Pins, paces: bool) -> Result<Ebpf, LoaderError> {
    let mut loader = EbpfLoader::new();
    let (paces, reads_sockets) = (u32::from(paces), u32::from(sockets_are_readable().is_ok()));
    loader.override_global("weir_paces", &paces, true);
    loader.override_global("weir_reads_sockets", &reads_sockets, true);
    for name in MAPS {
        loader.map_pin_path(name, pins.path(name));
    }
    let mut object = loader.load(OBJECT)?;
    for name in PROGRAMS.map(|(name, _)| name).into_iter().chain([START]) {
        program(&mut object, name)?.load()?;
    }
    Ok(object)
}

/// A program of an object.
pub(crate) fn program<'a>(object: &'a mut Ebpf, name: &'static str) -> Result<&'a mut SchedClassifier, LoaderError> {
    Ok(object.program_mut(name).ok_or(LoaderError::Missing(name))?.try_into()?)
}
