//! [`Host`]: the datapath of one host as a state machine, `datapath/host/host.h`.
//!
//! The tables are plain structures, which the kernel has in BPF maps. Callers write the configuration into
//! [`Host::tables`] and read counters and rates from it, as an agent does; the functions below decide about packets.
//!
//! Worked example: a host without limits lets each packet leave at once.

use crate::abi;
use weir_units::{Bandwidth, Duration, Instant};

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident $count:ident: $of:ty,)*) => {
        /// The tables of a host. A table without entries is one that the host does not need.
        #[derive(Debug, Clone, Default)]
        pub struct HostTables {
            $($(#[$doc])* pub $name: Vec<$of>,)*
        }

        impl HostTables {
            /// The host that the C functions take, at `now`. It points into the tables.
            ///
            /// # Panics
            /// If a weight is 0 by which C would divide.
            fn raw(&mut self, now: Instant) -> abi::Host {
                self.assert_weights();
                abi::Host {
                    now: now.nanos(),
                    words: abi::ACTIVE_WORDS,
                    $($name: self.$name.as_mut_ptr(), $count: self.$name.len() as u32,)*
                    ..abi::Host::default()
                }
            }
        }
    };
}

tables! {
    /// One.
    config config_count: abi::Config,
    /// By slot of a service.
    services services_count: abi::Service,
    /// By side, [`abi::SIDE_RECEIVING`] and [`abi::SIDE_SENDING`].
    interfaces interfaces_count: abi::Interface,
    /// By slot of a service.
    sendings sendings_count: abi::Sending,
    /// One.
    pacings pacings_count: abi::Pacing,
    /// One: ns of the agent's last heartbeat.
    heartbeat heartbeat_count: u64,
    /// By level, from the first on.
    level_rules level_rules_count: abi::LevelRules,
    /// By slot of a service: dropped by pacing and levels.
    drops drops_count: abi::Meter,
    /// By slot of a service.
    counting counting_count: abi::Counting,
    /// One.
    active active_count: abi::Active,
    /// [`abi::ADVERTISED_SLOTS`], or none: feedback that repeats a rate is then sent again.
    advertised advertised_count: abi::Advertised,
    /// One.
    counts counts_count: abi::Counts,
    /// By slot of a service.
    cpu_batches cpu_batches_count: abi::CpuBatch,
    /// By slot of a service.
    receivers receivers_count: abi::Receiver,
    /// One.
    states states_count: abi::State,
    /// By slot of a service.
    service_egresses service_egresses_count: abi::ServiceEgress,
    /// One.
    interface_egresses interface_egresses_count: abi::InterfaceEgress,
    /// By level, from the first on.
    level_states level_states_count: abi::LevelState,
    /// By slot of a destination.
    destinations destinations_count: abi::DestinationEntry,
    /// By slot of a destination.
    rate_mailboxes rate_mailboxes_count: abi::RateMailbox,
}

impl HostTables {
    /// Weights of services that share an interface are divisors. The kernel's result of a division by 0 is 0; here it
    /// would end the process.
    fn assert_weights(&self) {
        let meters = self.states.iter().flat_map(|state| [&state.receiving, &state.sending]);
        let meters = meters.map(|meter| (meter.capacity, meter.lightest));
        let sides = meters.chain(self.interfaces.iter().map(|side| (side.capacity, side.lightest)));
        for (capacity, lightest) in sides {
            assert!(capacity == 0 || lightest > 0, "the lightest weight of an interface is 0");
        }
        let unweighted = self.services.iter().position(|service| service.known != 0 && service.rx_weight == 0);
        assert!(unweighted.is_none(), "the service in slot {unweighted:?} has no weight for receiving");
    }

    /// The same for the sending side of a service, or of unclassified traffic.
    fn assert_sender(&self, service: u32) {
        let slot = if service < abi::SERVICES_MAX { service } else { abi::REST };
        let is_weighted = self.sendings.get(slot as usize).is_none_or(|rules| rules.weight > 0);
        assert!(is_weighted, "the service in slot {slot} has no weight for sending");
    }
}

/// The departure of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departs {
    /// At once.
    Now,
    /// At this time.
    At(Instant),
    /// It is dropped: it would wait beyond the horizon, or too much of its level waits.
    Never,
}

/// The decision about a packet that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When it leaves.
    pub departs: Departs,
    /// `abi::TOWARDS_*`: what applies to it because of its destination.
    pub towards: u32,
}

/// One host.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// Its configuration and its state.
    pub tables: HostTables,
}

impl Host {
    /// Decides about a packet that leaves at `now`.
    ///
    /// # Panics
    /// If a weight is 0.
    pub fn send(&mut self, now: Instant, offered: &abi::Offered) -> Sent {
        self.tables.assert_sender(offered.service);
        let mut sent = abi::Sent::default();
        // SAFETY: all three objects exist and are distinct, and the host points into tables of the stated lengths.
        unsafe { abi::host_send(&mut self.tables.raw(now), offered, &mut sent) };
        let departs = match sent.departs {
            abi::DEPARTS_NOW => Departs::Now,
            abi::DEPARTS_LATER => Departs::At(Instant::from_nanos(sent.departure)),
            _ => Departs::Never,
        };
        Sent { departs, towards: sent.towards }
    }

    /// Decides about a packet that arrives at `now`: the policer's verdict, and the rate that its sender is to receive.
    ///
    /// # Panics
    /// If a weight is 0.
    pub fn receive(&mut self, now: Instant, arrived: &abi::Arrived) -> (crate::PoliceVerdict, Option<Bandwidth>) {
        let mut received = abi::Received::default();
        // SAFETY: as in `send`.
        unsafe { abi::host_receive(&mut self.tables.raw(now), arrived, &mut received) };
        let feedback = (received.feedback.rate != 0).then(|| Bandwidth::from_bps(received.feedback.rate));
        (crate::PoliceVerdict::of(received.verdict as i32), feedback)
    }

    /// Applies authentic feedback of a destination of a service; returns `abi::APPLIED*`.
    pub fn feedback(&mut self, now: Instant, feedback: &abi::Feedback, service: u32, destination: u32) -> u32 {
        // SAFETY: as in `send`.
        unsafe { abi::host_feedback(&mut self.tables.raw(now), feedback, service, destination) }
    }

    /// Runs a tick if one is due at `now`, as each control message that arrives does.
    pub fn tick(&mut self, now: Instant) {
        // SAFETY: as in `send`.
        unsafe { abi::host_tick(&mut self.tables.raw(now), now.nanos()) }
    }

    /// Runs an expiry of the timer at `now`; returns the time until the next.
    pub fn timer(&mut self, now: Instant) -> Duration {
        // SAFETY: as in `send`.
        Duration::from_nanos(unsafe { abi::host_timer(&mut self.tables.raw(now), now.nanos()) })
    }
}
