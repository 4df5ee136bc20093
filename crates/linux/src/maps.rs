//! [`Maps`]: the pinned maps of an interface, opened with their types.
//!
//! Problem: what is pinned outlives the build that made it, and the loader compares nothing. Approach: a list of all maps with the size of
//! their values; [`are_whole`] compares it with what the kernel says of the pins, and [`Maps::open`] opens each as what it is.

use crate::loader::LoaderError;
use crate::pins::Pins;
use crate::tables::{
    ACTIVE, ANSWERING, ARRIVING, BatchValue, Config, Counting, Exit, HEARD, Held, InterfaceEntry, KeyEntry, Mail,
    MeterValue, Outlet, PacingValue, Peer, Place, Receiver, SendingValue, ServiceEntry, State, TOLD, Table, VERSION,
    WORD,
};
use aya::maps::{Array, HashMap, Map, MapData, MapError, MapInfo, PerCpuArray, Queue};

/// All maps, and the bytes of a value; 0 for those that have none.
pub(crate) const MAPS: [(&str, usize); 30] = [
    ("weir_config", size_of::<Config>()),
    ("weir_tables", size_of::<Table>()),
    ("weir_keys", size_of::<KeyEntry>()),
    ("weir_services", size_of::<ServiceEntry>()),
    ("weir_interfaces", size_of::<InterfaceEntry>()),
    ("weir_sendings", size_of::<SendingValue>()),
    ("weir_pacings", size_of::<PacingValue>()),
    ("weir_heartbeat", size_of::<u64>()),
    ("weir_meters", size_of::<MeterValue>()),
    ("weir_counting", size_of::<Counting>()),
    ("weir_active", ACTIVE),
    ("weir_advertised", TOLD),
    ("weir_ecn_cache", HEARD),
    ("weir_reply", ANSWERING),
    ("weir_feedback_arrival", ARRIVING),
    ("weir_counts", size_of::<u64>()),
    ("weir_cpu_batches", size_of::<BatchValue>()),
    ("weir_receivers", size_of::<Receiver>()),
    ("weir_states", size_of::<State>()),
    ("weir_timers", 16),
    ("weir_service_egresses", size_of::<Outlet>()),
    ("weir_interface_egresses", size_of::<Exit>()),
    ("weir_destination_slots", size_of::<u32>()),
    ("weir_destinations", size_of::<Held>()),
    ("weir_rate_mailboxes", size_of::<Mail>()),
    ("weir_ecn_senders", WORD),
    ("weir_ecn_epoch", size_of::<u64>()),
    ("weir_neighbours", size_of::<u64>()),
    ("weir_free_slots", size_of::<u32>()),
    ("weir_peers", size_of::<Peer>()),
];
/// The ring buffer, which has no values.
pub(crate) const NEWS: &str = "weir_events";

/// Whether all maps are pinned with the sizes of this build, and who made them came to the end of it.
pub(crate) fn are_whole(pins: &Pins) -> bool {
    let fits = |(name, size): &(&str, usize)| {
        MapInfo::from_pin(pins.path(name)).is_ok_and(|map| map.value_size() as usize == *size)
    };
    let config = || Array::<_, Config>::try_from(open(pins, "weir_config").ok()?).ok()?.get(&0, 0).ok();
    MAPS.iter().all(fits) && config().is_some_and(|config| config.version == VERSION)
}

fn open(pins: &Pins, name: &str) -> Result<Map, MapError> {
    Map::from_map_data(MapData::from_pin(pins.path(name))?)
}

/// Whether an agent added clsact to the interface of these pins.
pub(crate) fn clsact_is_ours(pins: &Pins) -> bool {
    config_of(pins).is_some_and(|config| config.clsact != 0)
}

/// Whether packets of the interface of these pins are given departure times.
pub(crate) fn is_paced(pins: &Pins) -> bool {
    config_of(pins).is_some_and(|config| config.paces != 0)
}

fn config_of(pins: &Pins) -> Option<Config> {
    Array::<_, Config>::try_from(open(pins, "weir_config").ok()?).ok()?.get(&0, 0).ok()
}

/// The maps of an interface.
pub(crate) struct Maps {
    pub(crate) config: Array<MapData, Config>,
    pub(crate) tables: Array<MapData, Table>,
    pub(crate) keys: Array<MapData, KeyEntry>,
    pub(crate) services: Array<MapData, ServiceEntry>,
    pub(crate) interfaces: Array<MapData, InterfaceEntry>,
    pub(crate) alive: Array<MapData, u64>,
    pub(crate) meters: PerCpuArray<MapData, MeterValue>,
    pub(crate) counting: PerCpuArray<MapData, Counting>,
    pub(crate) counts: PerCpuArray<MapData, u64>,
    pub(crate) receivers: Array<MapData, Receiver>,
    pub(crate) states: Array<MapData, State>,
    pub(crate) peers: HashMap<MapData, [u64; 2], Peer>,
}

impl Maps {
    pub(crate) fn open(pins: &Pins) -> Result<Self, LoaderError> {
        let map = |name| open(pins, name);
        Ok(Self {
            config: map("weir_config")?.try_into()?,
            tables: map("weir_tables")?.try_into()?,
            keys: map("weir_keys")?.try_into()?,
            services: map("weir_services")?.try_into()?,
            interfaces: map("weir_interfaces")?.try_into()?,
            alive: map("weir_heartbeat")?.try_into()?,
            meters: map("weir_meters")?.try_into()?,
            counting: map("weir_counting")?.try_into()?,
            counts: map("weir_counts")?.try_into()?,
            receivers: map("weir_receivers")?.try_into()?,
            states: map("weir_states")?.try_into()?,
            peers: map("weir_peers")?.try_into()?,
        })
    }
}

/// The maps of what is given departure times, which the shaper writes and reads.
pub(crate) struct PacingMaps {
    pub(crate) interfaces: Array<MapData, InterfaceEntry>,
    pub(crate) sendings: Array<MapData, SendingValue>,
    pub(crate) pacings: Array<MapData, PacingValue>,
    pub(crate) outlets: Array<MapData, Outlet>,
    pub(crate) exits: Array<MapData, Exit>,
    pub(crate) batches: PerCpuArray<MapData, BatchValue>,
    pub(crate) states: Array<MapData, State>,
}

impl PacingMaps {
    pub(crate) fn open(pins: &Pins) -> Result<Self, LoaderError> {
        let map = |name| open(pins, name);
        Ok(Self {
            interfaces: map("weir_interfaces")?.try_into()?,
            sendings: map("weir_sendings")?.try_into()?,
            pacings: map("weir_pacings")?.try_into()?,
            outlets: map("weir_service_egresses")?.try_into()?,
            exits: map("weir_interface_egresses")?.try_into()?,
            batches: map("weir_cpu_batches")?.try_into()?,
            states: map("weir_states")?.try_into()?,
        })
    }
}

/// The maps of destinations, which a thread of their own reads and writes.
pub(crate) struct DestinationMaps {
    pub(crate) places: HashMap<MapData, Place, u32>,
    pub(crate) destinations: Array<MapData, Held>,
    pub(crate) mails: MapData,
    pub(crate) free: Queue<MapData, u32>,
    pub(crate) news: Option<MapData>,
}

impl DestinationMaps {
    pub(crate) fn open(pins: &Pins) -> Result<Self, LoaderError> {
        let map = |name| open(pins, name);
        Ok(Self {
            places: map("weir_destination_slots")?.try_into()?,
            destinations: map("weir_destinations")?.try_into()?,
            mails: MapData::from_pin(pins.path("weir_rate_mailboxes"))?,
            free: map("weir_free_slots")?.try_into()?,
            news: Some(MapData::from_pin(pins.path(NEWS))?),
        })
    }
}
