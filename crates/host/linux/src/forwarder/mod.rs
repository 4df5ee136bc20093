//! [`ForwarderPort`]: the programs of a switch port that grants credits (PACE), and their maps.
//!
//! The programs (`bpf/forwarder.bpf.c`) reduce allocations and count data per packet; a daemon computes the shares and
//! publishes them each period ([`ForwarderPort::publish`]). Maps and links are pinned, so all stays in force while no
//! daemon runs, and the next one adopts the maps with the flows' grants. Maps of another layout, or of other slots of
//! the wheel, cannot be adopted: the port loses its state when the programs are attached, and grants nothing for a
//! lifetime.
//!
//! Order of calls: [`ForwarderPort::open`], then [`ForwarderPort::set_keys`], [`ForwarderPort::set_rules`] and
//! [`ForwarderPort::publish`], [`ForwarderPort::attach`], then [`ForwarderPort::flows`] and
//! [`ForwarderPort::publish`] each period, and [`ForwarderPort::remove`]. A drop leaves everything in force; before
//! `attach` that is the state of an earlier daemon, if there is one. A drop after an `attach` that failed leaves the
//! maps that were adopted, and otherwise nothing. All but `publish`, `flows` and readings act in the network namespace
//! of the calling thread.
//!
//! Worked example: `/sys/fs/bpf/weir/credits-forwarder-4026532281-7` has the pins of the interface with index 7.
//!
//! Source: PACE (Carvalho et al. 2013) §III.E; kernel Documentation/bpf/ (tcx).

mod flows;
mod start;

pub use flows::{FlowKey, FlowReading};

use crate::attachment::{Attachment, add_clsact, attach_all, has_filters, lacks_tcx, remove_filters};
use crate::interface::Interface;
use crate::keys;
use crate::loader::{LoaderError, program};
use crate::maps::{CpuValues, Entries, Values};
use crate::netlink::Socket;
use crate::pins::{Pins, sweep};
use crate::settings::{FeedbackKey, kernel_time};
use crate::tc;
use aya::maps::{MapData, MapError, MapInfo, MapType};
use aya::programs::TcAttachType;
use aya::{Ebpf, EbpfLoader};
use start::Start;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use weir_datapath::Classifier;
use weir_datapath::abi::{
    self, CreditCounters, CreditRules, FORWARDER_LAYOUT, FORWARDER_PACE_SHIFT, ForwarderConfig, ForwarderCounts,
    ForwarderFlow, ForwarderHost, ForwarderKey, ForwarderOrder, ForwarderPort as State, ForwarderRules,
    ForwarderServices, Key, RuleIndex, SERVICES_MAX,
};
use weir_units::{Bytes, Duration, Instant};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/forwarder.bpf.o"));
const PROGRAMS: [(&str, TcAttachType); 2] =
    [("weir_forward_tx", TcAttachType::Egress), ("weir_forward_rx", TcAttachType::Ingress)];
const CONFIG: &str = "weir_fwd_config";
const RULES: &str = "weir_fwd_rules";
const PORT: &str = "weir_fwd_port";
const FLOWS: &str = "weir_fwd_flows";
const COUNTS: &str = "weir_fwd_counts";
const HOSTS: &str = "weir_fwd_hosts";
/// The pinned maps, with the sizes of their values.
const MAPS: [(&str, usize); 10] = [
    (CONFIG, size_of::<ForwarderConfig>()),
    ("weir_fwd_tables", size_of::<RuleIndex>()),
    ("weir_fwd_services", size_of::<ForwarderServices>()),
    ("weir_fwd_keys", size_of::<Key>()),
    (RULES, size_of::<ForwarderRules>()),
    ("weir_fwd_numbers", size_of::<u32>()),
    (PORT, size_of::<State>()),
    (FLOWS, size_of::<ForwarderFlow>()),
    (HOSTS, size_of::<ForwarderOrder>()),
    (COUNTS, size_of::<ForwarderCounts>()),
];

/// A port of a forwarder. See the module's documentation.
pub struct ForwarderPort {
    object: Ebpf,
    start: Start,
    interface: Interface,
    config: ForwarderConfig,
    configs: Values<ForwarderConfig>,
    tables: Values<RuleIndex>,
    services: Values<ForwarderServices>,
    keys: Values<Key>,
    rules: Values<ForwarderRules>,
    numbers: Entries<u32, u32>,
    port: Values<State>,
    flows: Entries<ForwarderKey, ForwarderFlow>,
    hosts: Entries<ForwarderHost, ForwarderOrder>,
    /// The same map, read in batches.
    flow_map: MapData,
    counts: CpuValues<ForwarderCounts>,
    adopted: bool,
    attachment: Attachment,
}

/// The state of a port at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortReading {
    /// A: bytes granted that have neither arrived, been released nor expired. Grants that have expired since the last
    /// packet are included.
    pub outstanding: Bytes,
    /// Q by the model: bytes of credited data in the queue.
    pub queued: Bytes,
    /// The counters of grants.
    pub credits: CreditCounters,
    /// The counters of messages.
    pub counts: ForwarderCounts,
}

impl ForwarderPort {
    /// Opens the pinned maps of an interface, or makes them. `slot_bits`: of the wheel
    /// ([`weir_datapath::CreditPort::rules`]).
    pub fn open(interface: &Interface, slot_bits: u32) -> Result<Self, LoaderError> {
        if !interface.is_ethernet() {
            return Err(LoaderError::NotEthernet(interface.name().into()));
        }
        let pins = Pins::of_forwarder(interface)?;
        sweep();
        let held = pins.hold()?.ok_or_else(|| LoaderError::AlreadyAttached(interface.name().into()))?;
        let config = config_of(&pins);
        let adopted = is_whole(&pins, config.as_ref(), slot_bits);
        let clsact = config.map_or(0, |config| config.clsact);
        let start = Start::new(pins, interface.clone(), held, (adopted, clsact != 0))?;
        let pins = start.maps();
        let mut loader = EbpfLoader::new();
        for (name, _) in MAPS {
            loader.map_pin_path(name, pins.path(name));
        }
        let mut object = loader.load(OBJECT)?;
        for (name, _) in PROGRAMS {
            program(&mut object, name)?.load()?;
        }
        let mut port = Self {
            configs: Values::of(pins, CONFIG)?,
            tables: Values::of(pins, "weir_fwd_tables")?,
            services: Values::of(pins, "weir_fwd_services")?,
            keys: Values::of(pins, "weir_fwd_keys")?,
            rules: Values::of(pins, RULES)?,
            numbers: Entries::of(pins, "weir_fwd_numbers")?,
            port: Values::of(pins, PORT)?,
            flows: Entries::of(pins, FLOWS)?,
            hosts: Entries::of(pins, HOSTS)?,
            flow_map: MapData::from_pin(pins.path(FLOWS))?,
            counts: CpuValues::of(pins, COUNTS)?,
            config: ForwarderConfig { clsact, ..ForwarderConfig::default() },
            object,
            interface: interface.clone(),
            adopted,
            attachment: Attachment::Tcx,
            start,
        };
        if adopted {
            port.config = port.configs.get(0)?;
        }
        Ok(port)
    }

    /// Whether the maps of an earlier daemon were adopted, with the flows' grants.
    pub fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Until when the port is closed, by the rules of an earlier daemon.
    pub fn closed_until(&self) -> Result<Instant, LoaderError> {
        Ok(Instant::from_nanos(self.rules.get(self.config.rules & 1)?.credit.closed_until))
    }

    /// Sets the keys of messages; the first signs. Keys that stay verify meanwhile.
    ///
    /// # Panics
    /// With more than [`KEYS_MAX`] keys, or none.
    pub fn set_keys(&mut self, keys: &[FeedbackKey]) -> Result<(), LoaderError> {
        let placed = keys::place(&mut self.keys, keys)?;
        self.config.signing_key = placed.signing();
        self.write_config()?;
        placed.clear_others(&mut self.keys)
    }

    /// Replaces the classifier, whose rules have services' indexes, and the numbers of services with credits by their
    /// index; 0: none.
    pub fn set_rules(&mut self, classifier: &Classifier, numbers: &[u32]) -> Result<(), LoaderError> {
        if numbers.len() > SERVICES_MAX as usize {
            return Err(LoaderError::TooManyServices);
        }
        let next = 1 - (self.config.table & 1);
        let mut services = bytemuck::zeroed_box::<ForwarderServices>();
        services.numbers[..numbers.len()].copy_from_slice(numbers);
        self.tables.set_large(next, classifier.index())?;
        self.services.set_large(next, &services)?;
        let wanted: BTreeSet<u32> = numbers.iter().copied().filter(|number| *number != 0).collect();
        let there: BTreeSet<u32> = self.numbers.keys()?.into_iter().collect();
        wanted.difference(&there).try_for_each(|number| self.numbers.insert(*number, 1))?;
        self.config.table = next;
        self.write_config()?;
        Ok(there.difference(&wanted).try_for_each(|number| self.numbers.remove(*number))?)
    }

    /// Whether R is the rate of the link: then all packets that leave wait in the queue of the data, not only those of
    /// services with credits.
    pub fn set_whole(&mut self, is_whole: bool) -> Result<(), LoaderError> {
        self.config.whole = u32::from(is_whole);
        self.write_config()
    }

    /// Sets how many pairs of hosts have flows at the port, by the numbers of services. Those without any have 1.
    pub fn set_pairs(&mut self, pairs: &BTreeMap<u32, u32>) -> Result<(), LoaderError> {
        for number in self.numbers.keys()? {
            let wanted = pairs.get(&number).copied().unwrap_or(1).max(1);
            if self.numbers.get(number)? != wanted {
                self.numbers.insert(number, wanted)?;
            }
        }
        Ok(())
    }

    /// Publishes the values of the port. `memory`: how long after its last packet a flow counts as leaving by it.
    pub fn publish(&mut self, credit: &CreditRules, memory: Duration) -> Result<(), LoaderError> {
        let rate = u128::from(credit.rate.max(1));
        let pace = ((8_000_000_000u128 << FORWARDER_PACE_SHIFT) / rate) as u64;
        let rules = ForwarderRules { credit: *credit, pace, memory: memory.nanos() };
        if self.rules.get(self.config.rules & 1)? == rules {
            return Ok(());
        }
        let next = 1 - (self.config.rules & 1);
        self.rules.set(next, rules)?;
        self.config.rules = next;
        self.write_config()
    }

    /// Attaches the programs in both directions, in place of those of an earlier daemon; from then on the port grants.
    /// Tries tcx, and clsact if the kernel has no tcx.
    pub fn attach(&mut self) -> Result<(), LoaderError> {
        // The links stay: the new programs replace the old ones without a gap. The first map is the configuration,
        // which has no layout yet: maps of both daemons are never adopted together.
        self.start.replace(MAPS.iter().map(|(name, _)| *name))?;
        self.config.layout = FORWARDER_LAYOUT;
        self.write_config()?;
        match self.attach_as(Attachment::Tcx) {
            Err(LoaderError::Program(error)) if lacks_tcx(&error) => self.attach_as(Attachment::Clsact)?,
            result => result?,
        }
        self.start.complete();
        Ok(())
    }

    fn attach_as(&mut self, attachment: Attachment) -> Result<(), LoaderError> {
        self.attachment = attachment;
        if add_clsact(attachment, &self.interface)? {
            self.config.clsact = 1;
            self.start.adds_clsact();
            self.write_config()?;
        }
        attach_all(&mut self.object, &PROGRAMS, attachment, (self.start.pins(), &self.interface))
    }

    /// Whether both programs are attached.
    pub fn is_attached(&self) -> Result<bool, LoaderError> {
        match self.attachment {
            Attachment::Tcx => {
                Ok(PROGRAMS.iter().all(|(name, _)| self.start.pins().leads_to(name, self.interface.index())))
            }
            Attachment::Clsact => Ok(has_filters(self.interface.index(), &PROGRAMS)?),
        }
    }

    /// The flows with their last allocations, in no order.
    pub fn flows(&self) -> Result<Vec<FlowReading>, LoaderError> {
        flows::read(&self.flow_map, abi::FORWARDER_FLOWS)
    }

    /// Forgets a flow; its grants expire. Of its hosts the number of the last message is kept, so that messages of the
    /// flow cannot be replayed.
    pub fn forget(&mut self, key: &FlowKey) -> Result<(), LoaderError> {
        let flow = self.flows.get(key.0)?;
        self.note(key.0.source, flow.to_destination)?;
        self.note(key.0.destination, flow.to_source)?;
        Ok(self.flows.remove(key.0)?)
    }

    /// Notes the last message of a host, unless it has sent none or a later one is noted.
    fn note(&mut self, address: [u64; 2], order: ForwarderOrder) -> Result<(), LoaderError> {
        if order == ForwarderOrder::default() {
            return Ok(());
        }
        let (host, number) = (ForwarderHost { address }, |of: ForwarderOrder| (of.epoch, of.sequence));
        match self.hosts.get(host) {
            Ok(last) if number(last) >= number(order) => Ok(()),
            Ok(_) | Err(MapError::KeyNotFound) => Ok(self.hosts.insert(host, order)?),
            Err(error) => Err(error.into()),
        }
    }

    /// The state of the port now.
    pub fn read(&self) -> Result<PortReading, LoaderError> {
        let (state, now) = (self.port.get(0)?, kernel_time());
        let rate = u128::from(self.rules.get(self.config.rules & 1)?.credit.rate);
        let queued = u128::from(state.idle_at.saturating_sub(now)) * rate / 8_000_000_000;
        Ok(PortReading {
            outstanding: Bytes::new(state.port.outstanding),
            queued: Bytes::new(u64::try_from(queued).unwrap_or(u64::MAX)),
            credits: state.port.counters,
            counts: self.counts.sum(0)?,
        })
    }

    /// The time of the kernel's programs.
    pub fn now() -> Instant {
        Instant::from_nanos(kernel_time())
    }

    /// Detaches the programs and removes all pins; packets pass without credits.
    pub fn remove(self) -> Result<(), LoaderError> {
        detach(self.start.pins(), &self.interface, self.config.clsact != 0)?;
        Ok(())
    }

    /// Removes what a daemon left on an interface; whether there was anything.
    pub fn remove_leftover(interface: &Interface) -> Result<bool, LoaderError> {
        let pins = Pins::of_forwarder(interface)?;
        let _held = match pins.exist() {
            true => Some(pins.hold()?.ok_or_else(|| LoaderError::AlreadyAttached(interface.name().into()))?),
            false => None,
        };
        let clsact = config_of(&pins).is_some_and(|config| config.clsact != 0);
        detach(&pins, interface, clsact)
    }

    fn write_config(&mut self) -> Result<(), LoaderError> {
        Ok(self.configs.set(0, self.config)?)
    }

    /// The frame after a program; `None` if it is dropped. `wire_bytes`: of a leaving packet. For tests and benches.
    #[doc(hidden)]
    pub fn passed(&mut self, leaving: bool, frame: &[u8]) -> Result<Option<Vec<u8>>, LoaderError> {
        /// TC_ACT_SHOT
        const DROP: u32 = 2;
        let mut out = vec![0; frame.len()];
        let (result, _) = self.run(leaving, frame, Some(&mut out), 1)?;
        Ok((result != DROP).then_some(out))
    }

    /// The instructions that the verifier followed for the programs of leaving and of arriving packets. For benches.
    #[doc(hidden)]
    pub fn verified(&mut self) -> Result<[Option<u32>; 2], LoaderError> {
        let mut counts = [None; 2];
        for (count, (name, _)) in counts.iter_mut().zip(PROGRAMS) {
            *count = program(&mut self.object, name)?.info()?.verified_instruction_count();
        }
        Ok(counts)
    }

    /// The mean time of a program on `repeat` runs with a frame. For benches.
    #[doc(hidden)]
    pub fn cost(&mut self, leaving: bool, frame: &[u8], repeat: u32) -> Result<std::time::Duration, LoaderError> {
        Ok(self.run(leaving, frame, None, repeat)?.1)
    }

    fn run(
        &mut self,
        leaving: bool,
        frame: &[u8],
        out: Option<&mut [u8]>,
        repeat: u32,
    ) -> Result<(u32, std::time::Duration), LoaderError> {
        use aya::programs::{TestRun, TestRunOptions};
        /// The offset in the kernel's `struct __sk_buff`, bytes.
        const WIRE_LEN: usize = 160;
        let mut context = [0u8; 192];
        if leaving {
            context[WIRE_LEN..WIRE_LEN + 4].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        }
        let context = leaving.then_some(context.as_slice());
        let options =
            TestRunOptions { data_in: Some(frame), data_out: out, ctx_in: context, repeat, ..TestRunOptions::new() };
        let (name, _) = PROGRAMS[usize::from(!leaving)];
        let ended = program(&mut self.object, name)?.test_run(options)?;
        Ok((ended.return_value, ended.duration))
    }
}

impl fmt::Debug for ForwarderPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForwarderPort {{ {}, adopted: {} }}", self.interface.name(), self.adopted)
    }
}

/// Whether all maps are pinned, of this layout and with a wheel of these slots.
fn is_whole(pins: &Pins, config: Option<&ForwarderConfig>, slot_bits: u32) -> bool {
    let Some(config) = config.filter(|config| config.layout == FORWARDER_LAYOUT) else { return false };
    let is_pinned = |(name, size): &(&str, usize)| {
        MapInfo::from_pin(pins.path(name)).is_ok_and(|info| info.value_size() as usize == *size)
    };
    if !MAPS.iter().all(is_pinned) {
        return false;
    }
    let rules = Values::<ForwarderRules>::of(pins, RULES).and_then(|rules| rules.get(config.rules & 1));
    rules.is_ok_and(|rules| rules.credit.slot_bits == slot_bits)
}

/// The configuration of an earlier daemon, if it has this size.
fn config_of(pins: &Pins) -> Option<ForwarderConfig> {
    let info = MapInfo::from_pin(pins.path(CONFIG)).ok()?;
    let same = info.map_type().ok()? == MapType::Array && info.value_size() as usize == size_of::<ForwarderConfig>();
    Values::<ForwarderConfig>::of(pins, CONFIG).ok().filter(|_| same)?.get(0).ok()
}

/// Detaches the programs of an interface, and clsact if a daemon added it; whether there was anything.
fn detach(pins: &Pins, interface: &Interface, clsact: bool) -> Result<bool, LoaderError> {
    let mut found = remove_filters(interface.index(), &PROGRAMS)?;
    if clsact {
        tc::delete_clsact(&mut Socket::open()?, interface.index())?;
    }
    found |= pins.remove()?;
    Ok(found)
}
