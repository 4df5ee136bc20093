//! The maps that user space shares with the BPF programs: the Rust mirror of `bpf/tables.h`.
//!
//! Both sides must agree on every offset: a test compares each with what the C compiler says, and the loader
//! compares the sizes of maps that are pinned already.

use weir_datapath::{
    RULES_MAX, RawAnswers, RawArrivals, RawBatch, RawDestination, RawDestinationRules, RawGrant, RawInterfaceMeter,
    RawLaw, RawLimiter, RawMachine, RawMeter, RawPacing, RawReceiveMeter, RawSender, RawSending, RawSipKey, RawTaken,
    Rule, STARTS, starts,
};

/// Changes with any of these structures: what is pinned is adopted by the same version alone.
pub(crate) const VERSION: u32 = 10;
/// Services that can be told apart on one host.
pub const SERVICES_MAX: u32 = 1024;
/// Words of a bit for each service, the unclassified in the last.
const ACTIVE_WORDS: usize = SERVICES_MAX as usize / 64 + 1;
/// Destinations, of all services together, that one host remembers.
pub const DESTINATIONS_MAX: u32 = 16_384;
/// Keys that an interface knows at a time.
pub const KEYS_MAX: usize = 4;
/// Events of control traffic that are counted: [`crate::counters::ControlCounters`].
#[cfg(test)]
pub(crate) const COUNTS: u32 = 14;

/// Bytes of `struct weir_active`, `weir_reply`, `weir_feedback_arrival`, `weir_advertised` and `weir_ecn_capability`, which only the kernel reads.
pub(crate) const ACTIVE: usize = ACTIVE_WORDS * 8 + 32;
pub(crate) const ANSWERING: usize = 280;
pub(crate) const ARRIVING: usize = 168;
pub(crate) const TOLD: usize = 56;
pub(crate) const WORD: usize = 24;
pub(crate) const HEARD: usize = 56;

/// `struct weir_config`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Config {
    pub(crate) table: u32,
    pub(crate) class_major: u32,
    pub(crate) class_first: u32,
    pub(crate) class_static: u32,
    pub(crate) class_default: u32,
    pub(crate) holds: u32,
    pub(crate) sharing: u32,
    pub(crate) cpus: u32,
    pub(crate) listen_port: u32,
    pub(crate) sign: u32,
    pub(crate) paces: u32,
    pub(crate) version: u32,
    pub(crate) clsact: u32,
    pub(crate) grain: u32,
    pub(crate) class_control: u32,
    pub(crate) reserved: u32,
    pub(crate) agent_address: [u64; 2],
    pub(crate) agent_cookie: u64,
    pub(crate) epoch: u64,
    pub(crate) tick: u64,
    pub(crate) timeout: u64,
    pub(crate) hardware: u64,
}

/// `struct weir_table`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub(crate) count: u32,
    pub(crate) reserved: u32,
    pub(crate) starts: [u16; STARTS],
    pub(crate) rules: [Rule; RULES_MAX],
}

impl Table {
    /// The table of these rules, of which there are at most [`RULES_MAX`] in a classifier.
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let (count, starts) = (rules.len() as u32, starts(rules));
        let mut table = Self { count, reserved: 0, starts, rules: [Rule::default(); RULES_MAX] };
        table.rules[..rules.len()].copy_from_slice(rules);
        table
    }
}

/// `struct weir_key`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct KeyEntry {
    pub(crate) sip: RawSipKey,
    pub(crate) id: u16,
    pub(crate) known: u16,
    pub(crate) reserved: u32,
}

/// `struct weir_service`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ServiceEntry {
    pub(crate) law: RawLaw,
    pub(crate) rules: RawDestinationRules,
    pub(crate) rx_min: u64,
    pub(crate) rx_max: u64,
    pub(crate) rx_limit: u64,
    pub(crate) committed: u64,
    pub(crate) feedback_interval: u64,
    pub(crate) tx_static: u64,
    pub(crate) tx_limit: u64,
    pub(crate) feedback_bytes: u32,
    pub(crate) rx_weight: u32,
    pub(crate) sender_weight: u32,
    pub(crate) known: u32,
    pub(crate) generation: u32,
    pub(crate) name: [u32; 4],
    pub(crate) reserved: u32,
}

/// `struct weir_interface`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InterfaceEntry {
    pub(crate) law: RawLaw,
    pub(crate) capacity: u64,
    pub(crate) total: u64,
    pub(crate) minima: u64,
    pub(crate) level: u64,
    pub(crate) lightest: u32,
    pub(crate) weighs: u32,
    pub(crate) generation: u32,
    pub(crate) reserved: u32,
}

/// `struct weir_counting`, of one CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counting {
    pub(crate) arrivals: RawArrivals,
    pub(crate) answers: RawAnswers,
    pub(crate) answered: u64,
}

/// `struct weir_receiver`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Receiver {
    pub(crate) meter: RawReceiveMeter,
    pub(crate) taken: RawTaken,
    pub(crate) generation: u32,
    pub(crate) reserved: u32,
    pub(crate) name: [u32; 4],
}

/// `struct weir_state`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct State {
    pub(crate) interface: RawInterfaceMeter,
    pub(crate) level: RawInterfaceMeter,
    pub(crate) taken: u64,
    pub(crate) newcomers: u64,
    pub(crate) due: u64,
    pub(crate) alarm: u64,
    pub(crate) ticks: u64,
    pub(crate) late: u64,
    pub(crate) fallbacks: u64,
    pub(crate) visited: [u64; ACTIVE_WORDS],
    pub(crate) generation: u32,
    pub(crate) fallback: u32,
    pub(crate) sending_generation: u32,
    pub(crate) ticking: u32,
}

/// `struct weir_destination_key`: the key of a destination.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: [u64; 2],
    pub(crate) service: u32,
    pub(crate) reserved: u32,
}

/// `struct weir_destination_entry`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) destination: RawDestination,
    pub(crate) place: Place,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) told: u64,
    pub(crate) sent: u64,
    pub(crate) capability_sent_at: u64,
    pub(crate) capability_acked_at: u64,
    pub(crate) grant: RawGrant,
}

/// `struct weir_service_egress`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outlet {
    pub(crate) sender: RawSender,
}

/// `struct weir_interface_egress`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exit {
    pub(crate) machine: RawMachine,
    /// The kernel's: what is written here goes nowhere.
    pub(crate) lock: u32,
    pub(crate) reserved: u32,
}

/// `struct weir_sending` as a map's value.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SendingValue(pub(crate) RawSending);

/// `struct weir_pacing` as a map's value.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PacingValue(pub(crate) RawPacing);

/// `struct weir_cpu_batch` as a map's value.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BatchValue(pub(crate) RawBatch);

/// The place of what is sent among the sides of an interface.
pub(crate) const SIDE_SENDING: u32 = 1;

/// `struct weir_rate_mailbox`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mail {
    pub(crate) rate: u64,
    pub(crate) feedback_at: u64,
    pub(crate) unread: u32,
    pub(crate) class: u32,
}

/// `struct weir_peer`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peer {
    pub(crate) limiter: RawLimiter,
    pub(crate) passed: u64,
    pub(crate) refused: u64,
}

/// `struct weir_meter` as a map's value.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeterValue(pub(crate) RawMeter);

/// Declares that a value may be copied to and from a map.
macro_rules! values {
    ($($of:ty),* $(,)?) => {
        $(
            // SAFETY: integers and structures of integers, of which the layout test shows that they lie as in C; where C has
            // padding there is a field here. Every bit pattern is valid.
            unsafe impl aya::Pod for $of {}
        )*
    };
}

values!(
    Config,
    Table,
    KeyEntry,
    ServiceEntry,
    InterfaceEntry,
    Counting,
    Receiver,
    State,
    Place,
    Held,
    Outlet,
    Exit,
    SendingValue,
    PacingValue,
    BatchValue,
    Mail,
    Peer,
    MeterValue
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    unsafe extern "C" {
        static weir_tables_layout_size: u32;
        static weir_tables_layout: [u32; 116];
    }

    #[test]
    fn rust_and_c_agree_on_every_field() {
        let rust = [
            size_of::<Config>(),
            offset_of!(Config, table),
            offset_of!(Config, class_major),
            offset_of!(Config, class_first),
            offset_of!(Config, class_static),
            offset_of!(Config, class_default),
            offset_of!(Config, holds),
            offset_of!(Config, sharing),
            offset_of!(Config, cpus),
            offset_of!(Config, listen_port),
            offset_of!(Config, sign),
            offset_of!(Config, paces),
            offset_of!(Config, version),
            offset_of!(Config, clsact),
            offset_of!(Config, grain),
            offset_of!(Config, class_control),
            offset_of!(Config, agent_address),
            offset_of!(Config, agent_cookie),
            offset_of!(Config, epoch),
            offset_of!(Config, tick),
            offset_of!(Config, timeout),
            offset_of!(Config, hardware),
            size_of::<Table>(),
            offset_of!(Table, starts),
            offset_of!(Table, rules),
            size_of::<KeyEntry>(),
            offset_of!(KeyEntry, sip),
            offset_of!(KeyEntry, id),
            offset_of!(KeyEntry, known),
            size_of::<ServiceEntry>(),
            offset_of!(ServiceEntry, law),
            offset_of!(ServiceEntry, rules),
            offset_of!(ServiceEntry, rx_min),
            offset_of!(ServiceEntry, rx_max),
            offset_of!(ServiceEntry, rx_limit),
            offset_of!(ServiceEntry, committed),
            offset_of!(ServiceEntry, feedback_interval),
            offset_of!(ServiceEntry, tx_static),
            offset_of!(ServiceEntry, tx_limit),
            offset_of!(ServiceEntry, feedback_bytes),
            offset_of!(ServiceEntry, rx_weight),
            offset_of!(ServiceEntry, sender_weight),
            offset_of!(ServiceEntry, known),
            offset_of!(ServiceEntry, generation),
            offset_of!(ServiceEntry, name),
            size_of::<InterfaceEntry>(),
            offset_of!(InterfaceEntry, law),
            offset_of!(InterfaceEntry, capacity),
            offset_of!(InterfaceEntry, total),
            offset_of!(InterfaceEntry, minima),
            offset_of!(InterfaceEntry, level),
            offset_of!(InterfaceEntry, lightest),
            offset_of!(InterfaceEntry, weighs),
            offset_of!(InterfaceEntry, generation),
            size_of::<Counting>(),
            offset_of!(Counting, arrivals),
            offset_of!(Counting, answers),
            offset_of!(Counting, answered),
            size_of::<Receiver>(),
            offset_of!(Receiver, meter),
            offset_of!(Receiver, taken),
            offset_of!(Receiver, generation),
            offset_of!(Receiver, name),
            size_of::<State>(),
            offset_of!(State, interface),
            offset_of!(State, level),
            offset_of!(State, taken),
            offset_of!(State, newcomers),
            offset_of!(State, due),
            offset_of!(State, alarm),
            offset_of!(State, ticks),
            offset_of!(State, late),
            offset_of!(State, fallbacks),
            offset_of!(State, visited),
            offset_of!(State, generation),
            offset_of!(State, fallback),
            offset_of!(State, sending_generation),
            offset_of!(State, ticking),
            size_of::<Place>(),
            offset_of!(Place, address),
            offset_of!(Place, service),
            size_of::<Held>(),
            offset_of!(Held, destination),
            offset_of!(Held, place),
            offset_of!(Held, epoch),
            offset_of!(Held, sequence),
            offset_of!(Held, told),
            offset_of!(Held, sent),
            offset_of!(Held, capability_sent_at),
            offset_of!(Held, capability_acked_at),
            offset_of!(Held, grant),
            size_of::<Outlet>(),
            offset_of!(Outlet, sender),
            size_of::<Exit>(),
            offset_of!(Exit, machine),
            offset_of!(Exit, lock),
            size_of::<Mail>(),
            offset_of!(Mail, rate),
            offset_of!(Mail, feedback_at),
            offset_of!(Mail, unread),
            offset_of!(Mail, class),
            size_of::<Peer>(),
            offset_of!(Peer, limiter),
            offset_of!(Peer, passed),
            offset_of!(Peer, refused),
            ACTIVE,
            ANSWERING,
            ARRIVING,
            TOLD,
            WORD,
            HEARD,
            VERSION as usize,
            SERVICES_MAX as usize,
            DESTINATIONS_MAX as usize,
            KEYS_MAX,
            COUNTS as usize,
        ]
        .map(|value| value as u32);
        // SAFETY: both are constants of layout.c; the length is compared before the table is read.
        unsafe {
            assert_eq!(weir_tables_layout_size as usize, rust.len(), "the two tables list the same things");
            assert_eq!(weir_tables_layout, rust);
        }
    }
}
