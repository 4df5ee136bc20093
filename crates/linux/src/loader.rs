//! [`InterfaceDatapath`]: the BPF programs of one interface, loaded, attached, and handed from agent to agent.
//!
//! Problem: programs must see every packet of an interface in both directions, go on when the agent that loaded them
//! dies, and be replaced by the next one without a gap. Approach: each interface has its own copy of the maps, pinned
//! ([`crate::pins`]), and its programs hang there by themselves ([`crate::attachment`]). Whoever finds pins adopts the maps, loads its
//! own programs over them, and puts them in the earlier ones' place: one word changes, no packet passes unseen.
//!
//! Life: [`InterfaceDatapath::attach`], then what [`crate::settings`] lets one say and [`crate::readings`] lets one read, then
//! [`InterfaceDatapath::remove`] (or drop), or [`InterfaceDatapath::leave`], after which all goes on without a process.
//! Attach must happen on a thread in the interface's namespace; the rest may happen on any thread, since the namespace is
//! kept open and entered to detach: a clsact filter is deleted by interface index, which in another namespace is another
//! interface.
//!
//! Source: aya's documentation; kernel Documentation/bpf/ (tcx, BPF_PROG_TYPE_SCHED_CLS).

use crate::attachment::{Attachment, attach_filter, attach_link, has_filters, lacks_tcx, remove_filters};
use crate::interface::Interface;
use crate::maps::{DestinationMaps, MAPS, Maps, NEWS, are_whole, clsact_is_ours, is_paced};
use crate::netlink::{NetlinkError, Socket};
use crate::netns;
use crate::pins::{PinError, Pins, sweep};
use crate::slots::Slots;
use crate::tables::{Config, DESTINATIONS_MAX, SERVICES_MAX, VERSION};
use crate::tc;
use aya::maps::MapError;
use aya::programs::links::LinkError;
use aya::programs::{ProgramError, SchedClassifier, TcAttachType, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfError, EbpfLoader};
use std::fmt;
use std::fs::File;
use std::io;
use std::time::Duration;
use weir_units::{Direction, ServiceId};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/weir.bpf.o"));
/// The compiled programs that tests compare with the native code.
#[doc(hidden)]
pub static VERDICT_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/verdict.bpf.o"));
/// The compiled program of a switch's port in the lab.
#[doc(hidden)]
pub static PORT_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/port.bpf.o"));

const PROGRAMS: [(&str, TcAttachType); 2] =
    [("weir_egress", TcAttachType::Egress), ("weir_ingress", TcAttachType::Ingress)];
/// What starts the timer.
const START: &str = "weir_start";
/// Where fields are in the kernel's `struct __sk_buff`, bytes.
const IFINDEX: usize = 40;
const WIRE_LEN: usize = 160;
/// How often it is tried, and how long is waited in between: a timer is memory that the kernel gives without waiting, and not while
/// another processor has the allocator's lock or memory is short, which lasts until what fills it has been written or dropped.
const START_TRIES: u32 = 200;
const START_PAUSE: Duration = Duration::from_millis(10);
/// Why programs cannot be loaded, attached or fed.
#[derive(Debug, thiserror::Error)]
pub enum LoaderError {
    /// Frames have no Ethernet header there.
    #[error("{0} is not an Ethernet interface; the datapath reads Ethernet headers")]
    NotEthernet(String),
    /// Another agent holds the interface, or a program of ours is attached and not by what is pinned.
    #[error("{0} already has Weir's programs attached: another agent runs")]
    AlreadyAttached(String),
    /// On kernels without tcx programs hang on clsact, in whose place another qdisc stands.
    #[error(
        "{0} has the qdisc ingress, in whose place this kernel needs clsact for programs on what leaves; \
         replace it (tc qdisc del dev {0} ingress; tc qdisc add dev {0} clsact) and hang its filters there"
    )]
    Ingress(String),
    /// More services than one host can tell apart.
    #[error("the policy has more than {SERVICES_MAX} services at this host, which is what it can tell apart")]
    TooManyServices,
    /// Packets are to be given departure times by programs that were loaded without.
    #[error("the BPF programs were loaded without departure times")]
    WithoutEdt,
    /// A service that no slot was given to.
    #[error("service {} is not on this interface", .0.0)]
    Service(ServiceId),
    /// The kernel refused the object.
    #[error("load the BPF programs: {0}")]
    Load(#[from] EbpfError),
    /// The kernel refused a program or its link.
    #[error("BPF program: {0}")]
    Program(#[from] ProgramError),
    /// A link cannot be taken or pinned.
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
    /// The BPF file system.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// A map cannot be mapped into memory, or the number of processors read.
    #[error("{what}: {error}")]
    Io {
        /// What was attempted.
        what: &'static str,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
    /// The timer's program refused.
    #[error("the timer does not start (step {0} of its program)")]
    Timer(u32),
    /// The interface's namespace cannot be opened, or not entered again to detach; then filters stay.
    #[error("the interface's network namespace: {0}")]
    Namespace(#[source] io::Error),
    /// The object lacks what this version needs; a build that was mixed from two.
    #[error("the BPF object has no `{0}`")]
    Missing(&'static str),
}

/// The programs and maps of one interface; detached and unpinned when dropped, unless they are kept.
pub struct InterfaceDatapath {
    object: Ebpf,
    /// Whether the programs can give packets departure times.
    pub(crate) paces: bool,
    pub(crate) pins: Pins,
    pub(crate) maps: Maps,
    pub(crate) config: Config,
    pub(crate) slots: Slots,
    /// Where the interface is.
    namespace: File,
    interface: Interface,
    attachment: Attachment,
    adopted: bool,
    succeeds: bool,
    attached: bool,
    /// Stays when this is dropped.
    kept: bool,
    /// The directory of pins, locked.
    _held: File,
}

impl InterfaceDatapath {
    /// Loads the programs and attaches them in both directions. What an earlier agent left is adopted as it is; otherwise all
    /// traffic is unclassified until rules are set. Tries tcx, and clsact where the kernel has no tcx; `attachment` forces
    /// one.
    pub fn attach(interface: &Interface, attachment: Option<Attachment>) -> Result<Self, LoaderError> {
        Self::attach_with(interface, attachment, true)
    }

    /// The same for what gives packets no departure times: the kernel then has less than half to verify.
    /// [`InterfaceDatapath::set_rules`] refuses [`Classes::Edt`](crate::settings::Classes::Edt) afterwards, unless what was adopted gave them.
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
            // Another build's, or of an agent that was killed while it began.
            pins.clear()?;
        }
        let adopted = pins.exist();
        // What an earlier agent left gives packets departure times until the rules say otherwise.
        let paces = paces || (adopted && is_paced(&pins));
        let succeeds = adopted || !pins.of_other_versions().is_empty();
        // What was begun here and failed is taken away again; what an earlier agent left is not.
        let opened = load(&pins, paces).and_then(|object| Ok((object, Maps::open(&pins)?)));
        let (object, maps) = opened.inspect_err(|_| {
            if !adopted {
                let _ = pins.remove();
            }
        })?;
        let mut config = maps.config.get(&0, 0)?;
        if !adopted {
            config = Config::default();
            let mut free = DestinationMaps::open(&pins)?.free;
            (0..DESTINATIONS_MAX).try_for_each(|slot| free.push(slot, 0))?;
        }
        let services = (0..SERVICES_MAX).map(|slot| Ok((slot, maps.services.get(&slot, 0)?)));
        let services: Vec<_> = services.collect::<Result<_, MapError>>()?;
        let known = services.iter().filter(|(_, entry)| entry.known != 0);
        let slots = Slots::known(known.map(|(slot, entry)| (*slot, entry.name)));
        let mut datapath = Self {
            object,
            paces,
            pins,
            maps,
            config,
            slots,
            namespace: netns::current().map_err(LoaderError::Namespace)?,
            interface: interface.clone(),
            attachment: attachment.unwrap_or(Attachment::Tcx),
            adopted,
            succeeds,
            _held: held,
            // From here on a failure takes down what is there, unless an earlier agent left it.
            attached: true,
            kept: succeeds,
        };
        match datapath.attach_as(datapath.attachment) {
            Err(LoaderError::Program(error)) if attachment.is_none() && lacks_tcx(&error) => {
                datapath.attachment = Attachment::Clsact;
                datapath.attach_as(Attachment::Clsact)?;
            }
            // Somebody else's programs are not ours to take down.
            Err(error @ LoaderError::AlreadyAttached(_)) => {
                datapath.attached = false;
                datapath.pins.remove()?;
                return Err(error);
            }
            result => result?,
        }
        for other in datapath.pins.of_other_versions() {
            // Whoever added clsact, this version goes on for it.
            datapath.config.clsact |= u32::from(clsact_is_ours(&other));
            other.remove()?;
        }
        let [a, b, c, d, e, f] = interface.hardware();
        datapath.config.hardware = u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]);
        datapath.config.version = VERSION;
        datapath.write_config()?;
        datapath.kept = false;
        Ok(datapath)
    }

    fn attach_as(&mut self, attachment: Attachment) -> Result<(), LoaderError> {
        let name = self.interface.name().to_owned();
        let index = self.interface.index();
        if attachment == Attachment::Clsact {
            let mut socket = Socket::open()?;
            if tc::add_clsact(&mut socket, index)? {
                self.config.clsact = 1;
            } else if tc::has_ingress(&mut socket, index)? {
                return Err(LoaderError::Ingress(name));
            }
        }
        for (program_name, direction) in PROGRAMS {
            let program = program(&mut self.object, program_name)?;
            match attachment {
                Attachment::Tcx => attach_link(program, &self.pins, program_name, &name, direction)?,
                Attachment::Clsact => attach_filter(program, program_name, (&name, index), direction)?,
            }
        }
        Ok(())
    }

    /// How the programs are held.
    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// Whether both programs still hang on the interface: nobody detached them, deleted the pins that hold them, or took clsact away. Asks
    /// the kernel for two links, or for the filters of two directions.
    pub fn is_attached(&self) -> Result<bool, LoaderError> {
        let index = self.interface.index();
        if self.attachment == Attachment::Tcx {
            return Ok(PROGRAMS.iter().all(|(name, _)| self.pins.leads_to(name, index)));
        }
        let there = netns::inside(&self.namespace, || has_filters(index, &PROGRAMS)).map_err(LoaderError::Namespace)?;
        Ok(there?)
    }

    /// Whether this goes on where an earlier agent ended.
    pub fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Whether this goes on there, or took the place of what an agent of another version left, whose maps nobody reads.
    pub fn is_successor(&self) -> bool {
        self.succeeds
    }

    /// Starts the timer, or hands it over from the earlier agent's programs. After the configuration. Waits two seconds at most
    /// for the kernel to have memory for it.
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

    /// The average time of the program of a direction, measured by the kernel on `frame`, `repeat` times, as if it were on the
    /// network namespace's loopback. Counts in the meters.
    pub fn cost(&mut self, direction: Direction, frame: &[u8], repeat: u32) -> Result<Duration, LoaderError> {
        match direction {
            Direction::Tx => self.cost_of_buffer(u32::try_from(frame.len()).unwrap_or(u32::MAX), frame, repeat),
            Direction::Rx => self.cost_of(direction, frame, repeat, None),
        }
    }

    /// The same of a packet that came by an interface.
    pub fn cost_from(&mut self, interface: u32, frame: &[u8], repeat: u32) -> Result<Duration, LoaderError> {
        self.cost_of(Direction::Rx, frame, repeat, Some((IFINDEX, interface)))
    }

    /// The same of a buffer that leaves and is this long on the wire, at least as long as the frame: what the interface makes packets of. The
    /// kernel would run it with a length of nothing.
    pub fn cost_of_buffer(&mut self, wire_bytes: u32, frame: &[u8], repeat: u32) -> Result<Duration, LoaderError> {
        self.cost_of(Direction::Tx, frame, repeat, Some((WIRE_LEN, wire_bytes)))
    }

    /// With a field of the buffer's context at a place.
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

    /// A frame as the program of a direction leaves it; `None` where it does not let it pass. For tests. Counts in the meters.
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

    /// Whether it takes nothing down when it is dropped, in a panic too: programs, timer and rates stay in force, and the next agent
    /// adopts them.
    pub fn set_kept(&mut self, kept: bool) {
        self.kept = kept;
    }

    /// [Kept](Self::set_kept), and gone.
    pub fn leave(mut self) {
        self.kept = true;
    }

    /// Detaches both programs, deletes clsact where it was added by an agent and nobody else hung filters there, and unpins everything. What
    /// is pinned stays where a program cannot be detached.
    pub fn remove(mut self) -> Result<(), LoaderError> {
        self.detach()
    }

    fn detach(&mut self) -> Result<(), LoaderError> {
        if !std::mem::take(&mut self.attached) {
            return Ok(());
        }
        let (index, clsact_is_ours) = (self.interface.index(), self.config.clsact != 0);
        if self.attachment == Attachment::Clsact {
            let filters = || -> Result<(), LoaderError> {
                remove_filters(index, &PROGRAMS)?;
                if clsact_is_ours {
                    tc::delete_clsact(&mut Socket::open()?, index)?;
                }
                Ok(())
            };
            // A filter that stays goes on with what is pinned: without that nobody would take its limits back, or find it.
            netns::inside(&self.namespace, filters).map_err(LoaderError::Namespace)??;
        }
        // Links end with their pins.
        for (name, _) in PROGRAMS {
            self.pins.unpin(name)?;
        }
        self.pins.remove()?;
        Ok(())
    }

    /// Removes what agents left on an interface, whatever their version; whether there was anything.
    pub fn remove_leftover(interface: &Interface) -> Result<bool, LoaderError> {
        let pins = Pins::of(interface)?;
        let _held = match pins.exist() {
            true => Some(pins.hold()?.ok_or_else(|| LoaderError::AlreadyAttached(interface.name().into()))?),
            false => None,
        };
        let mut found = false;
        for pins in pins.of_other_versions().into_iter().chain([pins]) {
            found |= remove_filters(interface.index(), &PROGRAMS)?;
            if clsact_is_ours(&pins) {
                tc::delete_clsact(&mut Socket::open()?, interface.index())?;
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
            // Nobody is left to tell; what stays is adopted or removed by the next agent.
            let _ = self.detach();
        }
    }
}

/// Loads the object over the pinned maps; those that are not there yet are made and pinned.
fn load(pins: &Pins, paces: bool) -> Result<Ebpf, LoaderError> {
    let mut loader = EbpfLoader::new();
    let paces = u32::from(paces);
    loader.override_global("weir_paces", &paces, true);
    for name in MAPS.iter().map(|(name, _)| *name).chain([NEWS]) {
        loader.map_pin_path(name, pins.path(name));
    }
    let mut object = loader.load(OBJECT)?;
    for name in PROGRAMS.map(|(name, _)| name).into_iter().chain([START]) {
        program(&mut object, name)?.load()?;
    }
    Ok(object)
}

fn program<'a>(object: &'a mut Ebpf, name: &'static str) -> Result<&'a mut SchedClassifier, LoaderError> {
    Ok(object.program_mut(name).ok_or(LoaderError::Missing(name))?.try_into()?)
}
