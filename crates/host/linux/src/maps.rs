//! [`Maps`]: the pinned maps of an interface that user space reads and writes, by name and type.
//!
//! Keys and values are the structures of `datapath/host/tables.h`, generated into [`weir_datapath::abi`].
//! Pinned maps may come from another build; [`are_whole`] admits them only if all are there and
//! their version, a hash of all definitions, is this build's.

use crate::loader::LoaderError;
use crate::pins::Pins;
use aya::maps::{Array, HashMap, Map, MapData, MapError, MapInfo, MapType, PerCpuArray, PerCpuValues, Queue};
use bytemuck::{Pod, TransparentWrapper};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use weir_datapath::abi::{
    Address, Cgroup, Config, Counting, Counts, CpuBatch, CreditPair, CreditQueue, DestinationEntry, DestinationKey,
    FabricEnd, ForwarderCounts, Guest, GuestAddress, GuestPaths, Interface, InterfaceEgress, Key, LevelRules,
    LevelState, MAPS, Meter, Pacing, Peer, Receiver, Sending, Service, ServiceEgress, State, Table, VERSION,
};

/// The map of the configuration. Agents of other versions find it by this name.
const CONFIG: &str = "weir_config";
/// The map of the sockets that may connect to fabric brokers, the same.
pub(crate) const FABRIC_SOCKETS: &str = "weir_fabric_sockets";

/// A key or value of a map: integers without padding.
#[doc(hidden)]
#[repr(transparent)]
#[derive(Debug, Clone, Copy, TransparentWrapper)]
pub struct Value<T>(pub T);

// SAFETY: transparent over a type without padding in which every bit pattern is valid.
unsafe impl<T: Pod> aya::Pod for Value<T> {}

/// A map of values by index.
pub(crate) struct Values<T: Pod>(Array<MapData, Value<T>>);

impl<T: Pod> Values<T> {
    /// The pinned map of this name.
    pub(crate) fn of(pins: &Pins, name: &str) -> Result<Self, MapError> {
        Self::open(pins, name)
    }

    pub(crate) fn get(&self, index: u32) -> Result<T, MapError> {
        Ok(self.0.get(&index, 0)?.0)
    }

    pub(crate) fn set(&mut self, index: u32, value: T) -> Result<(), MapError> {
        self.set_large(index, &value)
    }

    /// The same for a value that is too large for a stack.
    pub(crate) fn set_large(&mut self, index: u32, value: &T) -> Result<(), MapError> {
        self.0.set(index, Value::wrap_ref(value), 0)
    }
}

/// A map of values by index and CPU.
pub(crate) struct CpuValues<T: Pod>(PerCpuArray<MapData, Value<T>>);

/// A structure of counters of type `u64` and nothing else, which can be added field by field.
pub(crate) trait Counters: Pod {}

impl Counters for Meter {}
impl Counters for Counts {}
impl Counters for ForwarderCounts {}

impl<T: Pod> CpuValues<T> {
    /// The pinned map of this name.
    pub(crate) fn of(pins: &Pins, name: &str) -> Result<Self, MapError> {
        Self::open(pins, name)
    }

    /// The value of each CPU.
    pub(crate) fn get(&self, index: u32) -> Result<Vec<T>, MapError> {
        Ok(self.0.get(&index, 0)?.iter().map(|value| value.0).collect())
    }

    /// The sum over all CPUs.
    pub(crate) fn sum(&self, index: u32) -> Result<T, MapError>
    where
        T: Counters,
    {
        let mut sum = T::zeroed();
        for value in self.get(index)? {
            let counters = bytemuck::cast_slice_mut::<T, u64>(std::slice::from_mut(&mut sum));
            for (counter, more) in counters.iter_mut().zip(bytemuck::cast_slice::<T, u64>(&[value])) {
                *counter = counter.wrapping_add(*more);
            }
        }
        Ok(sum)
    }

    /// Sets all CPUs' values to zero.
    pub(crate) fn clear(&mut self, index: u32, cpus: u32) -> Result<(), MapError> {
        self.0.set(index, PerCpuValues::try_from(vec![Value(T::zeroed()); cpus as usize])?, 0)
    }
}

/// A map of values by key.
pub(crate) struct Entries<K: Pod, T: Pod>(HashMap<MapData, Value<K>, Value<T>>);

impl<K: Pod, T: Pod> Entries<K, T> {
    /// The pinned map of this name.
    pub(crate) fn of(pins: &Pins, name: &str) -> Result<Self, MapError> {
        Self::open(pins, name)
    }

    pub(crate) fn keys(&self) -> Result<Vec<K>, MapError> {
        self.0.keys().map(|key| Ok(key?.0)).collect()
    }

    pub(crate) fn get(&self, key: K) -> Result<T, MapError> {
        Ok(self.0.get(&Value(key), 0)?.0)
    }

    pub(crate) fn insert(&mut self, key: K, value: T) -> Result<(), MapError> {
        self.0.insert(Value(key), Value(value), 0)
    }

    /// Adds an entry; returns whether there was none.
    pub(crate) fn add(&mut self, key: K, value: T) -> Result<bool, MapError> {
        // linux/bpf.h
        const BPF_NOEXIST: u64 = 1;
        match self.0.insert(Value(key), Value(value), BPF_NOEXIST) {
            Ok(()) => Ok(true),
            Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn remove(&mut self, key: K) -> Result<(), MapError> {
        self.0.remove(&Value(key))
    }
}

/// A map of any kind, opened from its pin.
trait Open: Sized {
    fn open(pins: &Pins, name: &str) -> Result<Self, MapError>;
}

fn pinned(pins: &Pins, name: &str) -> Result<Map, MapError> {
    Map::from_map_data(MapData::from_pin(pins.path(name))?)
}

impl<T: Pod> Open for Values<T> {
    fn open(pins: &Pins, name: &str) -> Result<Self, MapError> {
        Ok(Self(pinned(pins, name)?.try_into()?))
    }
}

impl<T: Pod> Open for CpuValues<T> {
    fn open(pins: &Pins, name: &str) -> Result<Self, MapError> {
        Ok(Self(pinned(pins, name)?.try_into()?))
    }
}

impl<K: Pod, T: Pod> Open for Entries<K, T> {
    fn open(pins: &Pins, name: &str) -> Result<Self, MapError> {
        Ok(Self(pinned(pins, name)?.try_into()?))
    }
}

impl Open for Queue<MapData, u32> {
    fn open(pins: &Pins, name: &str) -> Result<Self, MapError> {
        pinned(pins, name)?.try_into()
    }
}

impl Open for MapData {
    fn open(pins: &Pins, name: &str) -> Result<Self, MapError> {
        MapData::from_pin(pins.path(name))
    }
}

/// Declares a group of maps with the names of their pins.
macro_rules! maps {
    ($($(#[$doc:meta])* $group:ident { $($field:ident: $kind:ty = $name:expr,)* })*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $group { $(pub(crate) $field: $kind,)* }

            impl $group {
                pub(crate) fn open(pins: &Pins) -> Result<Self, LoaderError> {
                    Ok(Self { $($field: Open::open(pins, $name)?,)* })
                }
            }
        )*
    };
}

maps! {
    /// Configuration, meters and counters of an interface.
    Maps {
        config: Values<Config> = CONFIG,
        tables: Values<Table> = "weir_tables",
        keys: Values<Key> = "weir_keys",
        services: Values<Service> = "weir_services",
        interfaces: Values<Interface> = "weir_interfaces",
        heartbeat: Values<u64> = "weir_heartbeat",
        service_marks: Values<u32> = "weir_service_marks",
        level_rules: Values<LevelRules> = "weir_level_rules",
        level_states: Values<LevelState> = "weir_level_states",
        meters: CpuValues<Meter> = "weir_meters",
        drops: CpuValues<Meter> = "weir_drops",
        counting: CpuValues<Counting> = "weir_counting",
        counts: CpuValues<Counts> = "weir_counts",
        receivers: Values<Receiver> = "weir_receivers",
        service_egresses: Values<ServiceEgress> = "weir_service_egresses",
        states: Values<State> = "weir_states",
        peers: Entries<Address, Peer> = "weir_peers",
    }
    /// The addresses of fabric brokers, which the threads of sessions write, with the configuration's field for them.
    FabricMaps {
        config: Values<Config> = CONFIG,
        ends: Entries<FabricEnd, u32> = "weir_fabric_ends",
    }
    /// The sockets that may connect to fabric brokers, which are found in any version of the maps.
    FabricSocketMaps {
        sockets: Entries<u64, u32> = FABRIC_SOCKETS,
    }
    /// Control groups, which a thread of their own writes.
    CgroupMaps {
        cgroups: Entries<u64, Cgroup> = "weir_cgroups",
    }
    /// Guests, which a thread of their own writes.
    GuestMaps {
        guests: Entries<u32, Guest> = "weir_guests",
        paths: Values<GuestPaths> = "weir_guest_paths",
        numbers: Entries<u32, u32> = "weir_guest_numbers",
        addresses: Entries<GuestAddress, u32> = "weir_guest_addresses",
    }
    /// Interfaces of guests that have a program, which are found in any version of the maps.
    GuestMarks {
        marks: Entries<u32, u32> = "weir_guest_marks",
    }
    /// Departure times: configuration and state of the senders.
    PacingMaps {
        interfaces: Values<Interface> = "weir_interfaces",
        sendings: Values<Sending> = "weir_sendings",
        pacings: Values<Pacing> = "weir_pacings",
        service_egresses: Values<ServiceEgress> = "weir_service_egresses",
        interface_egresses: Values<InterfaceEgress> = "weir_interface_egresses",
        cpu_batches: CpuValues<CpuBatch> = "weir_cpu_batches",
        drops: CpuValues<Meter> = "weir_drops",
        states: Values<State> = "weir_states",
    }
    /// Destinations, which a thread of their own reads and writes.
    DestinationMaps {
        slots: Entries<DestinationKey, u32> = "weir_destination_slots",
        destinations: Values<DestinationEntry> = "weir_destinations",
        mailboxes: MapData = "weir_rate_mailboxes",
        free: Queue<MapData, u32> = "weir_free_slots",
        events: MapData = "weir_events",
    }
    /// Pairs of hosts of services with credits, which a thread of their own reads and writes.
    CreditMaps {
        pairs: Entries<CreditPair, CreditQueue> = "weir_credit_pairs",
        gates: Queue<MapData, u32> = "weir_credit_gates",
        events: MapData = "weir_credit_events",
    }
}

/// Whether all maps are pinned, in this build's version, by an agent that completed its start.
pub(crate) fn are_whole(pins: &Pins) -> bool {
    let is_pinned = |name: &&str| MapInfo::from_pin(pins.path(name)).is_ok();
    MAPS.iter().all(is_pinned) && config_of(pins).is_some_and(|config| config.version == VERSION)
}

/// Whether an agent, of any version, added clsact to the interface of these pins.
pub(crate) fn clsact_is_ours(pins: &Pins) -> bool {
    word_of_config(pins, offset_of!(Config, clsact)) != 0
}

/// The interface's `gso_max_segs` before an agent of any version lowered it; 0 if none did.
pub(crate) fn segments_before(pins: &Pins) -> u32 {
    word_of_config(pins, offset_of!(Config, gso_segments))
}

/// A word of the configuration, whose offset is the same in all versions; 0 if the configuration ends before it.
fn word_of_config(pins: &Pins, at: usize) -> u32 {
    let config = bytes_of_config(pins).unwrap_or_default();
    let word = config.get(at..at + size_of::<u32>()).and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u32::from_ne_bytes)
}

/// Whether packets of the interface of these pins get departure times.
pub(crate) fn is_paced(pins: &Pins) -> bool {
    config_of(pins).is_some_and(|config| config.paces != 0)
}

fn config_of(pins: &Pins) -> Option<Config> {
    Values::<Config>::open(pins, CONFIG).ok()?.get(0).ok()
}

/// The configuration in the layout of its own version, whose size may differ from that of [`Config`].
fn bytes_of_config(pins: &Pins) -> Option<Vec<u8>> {
    const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
    #[repr(C)]
    struct Attributes {
        map: u32,
        reserved: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let map = MapData::from_pin(pins.path(CONFIG)).ok()?;
    let info = map.info().ok()?;
    if info.map_type().ok()? != MapType::Array {
        return None;
    }
    let (index, mut value) = (0u32, vec![0u8; info.value_size() as usize]);
    let attributes = Attributes {
        map: map.fd().as_fd().as_raw_fd() as u32,
        reserved: 0,
        key: (&raw const index) as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    let (pointer, size) = (&raw const attributes, size_of::<Attributes>());
    // SAFETY: the kernel reads an index and writes one value of an array map, which `value` has room for.
    let found = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_LOOKUP_ELEM, pointer, size) };
    (found == 0).then_some(value)
}
