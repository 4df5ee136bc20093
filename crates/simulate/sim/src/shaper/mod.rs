//! Machine shapers: the mechanism that limits a service to its share at a machine, both ways.
//!
//! ```text
//! sending host                                                       receiving host
//! flow ─► destination queue ─► departure ─► interface ─► … ─► receive meter ─► flow
//!            (destination        (root, share,                  │ R, every 10 kB
//!              limiter) ◄──────── machine)───── feedback ◄──────┘
//! ```
//!
//! Problem: the meters, the limiters and the order in which they run are the datapath's ([`weir_datapath::Hosts`]); the
//! simulator must pass every packet to them, carry their feedback and queue waiting packets.
//! Approach, for every host and service:
//! - **receiving** (`receive`): each packet that arrives is counted. Ticks run the service's receive meter
//!   and the interface's on the counts, half of the shortest interval apart. When feedback is due, a feedback packet of
//!   64 B goes to the packet's source, at the index of control traffic. The interface meter divides the machine's
//!   capacity among its services; the brokers' limit applies on top.
//! - **sending** (`transmit`): feedback creates or sets a destination limiter. A packet first waits
//!   in its destination's queue, if there is a limiter to that destination, as in an HTB class for each destination:
//!   the limiter decides at the head of the queue, since a departure from an R that is a backlog old makes the law
//!   oscillate. All else is decided when the packet leaves that queue ([`crate::host`]). Destinations without feedback
//!   for a second lose their limiter.
//! - A sender without recent feedback requests it by marking the next packet ECT(1), and the
//!   receiver replies.
//! - Every packet of a service may be marked by switches (ECT). Marks that the meter has counted
//!   are hidden from transports that do not use ECN.
//!
//! A host can be without an agent ([`World::set_stranger`]). The receivers of its packets police them at their receive
//! limits, as the kernel does. A sender with an agent counts as a stranger, too, until it has a limiter to the
//! receiver. The kernel waits half a round trip longer, for the sender's ECN capability message.
//!
//! A world without shapers pays one comparison a packet for them.
//!
//! Worked example (Parley Fig 4): three senders offer 1, 3 and more Gb/s to a service that may
//! receive 9. Its meter advertises 5 Gb/s to each: the first two are below it, the third is limited
//! to it, and 9 Gb/s arrive.
//!
//! Source: Parley §3.2.1, §5.1, Figs 4 and 10; EyeQ for the interface meter.

mod receive;
mod transmit;

use crate::ids::{HostId, ServiceIndex, SlotId};
use crate::observer::Observer;
use crate::packet::List;
use crate::slot_table::SlotTable;
use crate::timer::Timer;
use crate::world::World;
use weir_control::NetworkReading;
use weir_datapath::{Destination, InterfaceMeter};
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, Direction, Duration, MachineId, Weight};

/// The shapers of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Shaping {
    /// Whether hosts have shapers.
    pub(crate) on: bool,
    config: ShaperConfig,
    /// By host and service: the slots of limiters by destination.
    destinations: Vec<SlotTable>,
    /// Limiters and queues by destination, of all hosts; unused slots are in `free`.
    pub(crate) slots: Vec<Slot>,
    free: Vec<SlotId>,
    /// By host and service: counts of the policer. Empty if all hosts have agents.
    policed: Vec<Policed>,
    /// By host: the interface meters above the root limiters, where the parameters have one (EyeQ).
    transmit: Vec<InterfaceMeter>,
    /// By host and service: the host's weight at the service's receivers.
    weights: Vec<Weight>,
    /// By host: whether it has no agent. Empty if all hosts have one.
    strangers: Vec<bool>,
}

/// The packets that wait for one destination of a host's service, and their limiter.
#[derive(Debug)]
pub(crate) struct Slot {
    limiter: Destination,
    /// Packets in order; `release` is set to the first one's departure.
    waiting: List,
    /// The number of those packets.
    count: u32,
    host: HostId,
    service: ServiceIndex,
    to: HostId,
    release: Timer,
}

/// Counts of the policer of a service at a host, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policed {
    /// Packets from strangers that passed.
    pub passed: u64,
    /// Of them, those that were marked.
    pub marked: u64,
    /// Dropped packets.
    pub dropped: u64,
}

/// The state of a service's shaper at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShaperReading {
    /// C: the capacity for the service's receiving.
    pub capacity: Bandwidth,
    /// R: the rate that its receive meter advertises to a sender of weight 1.
    pub rate: Bandwidth,
    /// The rate of its root limiter; [`Bandwidth::UNLIMITED`] where there is none.
    pub limit: Bandwidth,
}

impl Shaping {
    /// Whether interface meters count what hosts send.
    #[inline]
    pub(crate) fn measures_sending(&self) -> bool {
        !self.transmit.is_empty()
    }
}

impl<O: Observer> World<O> {
    /// Gives every host a shaper. Existing shapers continue under this configuration; brokers'
    /// limits and receivers' feedback stay.
    ///
    /// # Panics
    /// If the configuration is for another number of services or hosts.
    pub fn set_shapers(&mut self, config: ShaperConfig) {
        assert_eq!(config.services.len() + 1, self.service_count, "a shaper for each service");
        assert_eq!(config.machines.len(), self.hosts.len(), "a plan for each host");
        let now = self.now.instant();
        let count = self.hosts.len() * self.service_count;
        let shaping = &mut self.shaping;
        if !shaping.on {
            shaping.on = true;
            shaping.destinations.resize_with(count, SlotTable::default);
            for host in &mut self.hosts {
                // From now on its packets do not go straight to the interface.
                host.limited += 1;
            }
        }
        let meter = |machine| InterfaceMeter::of_machine(&config, MachineId(machine), Direction::Tx, now);
        shaping.transmit = (0..config.machines.len() as u32).filter_map(meter).collect();
        shaping.weights = vec![Weight::ONE; count];
        for (index, service) in config.services.iter().enumerate() {
            for &(machine, weight) in &service.senders {
                shaping.weights[machine.index() * self.service_count + index] = weight;
            }
        }
        self.datapath.set_shapers(now, &config);
        shaping.config = config;
        for host in (0..self.hosts.len() as u32).map(HostId) {
            self.share_transmitting(host);
        }
    }

    /// Declares that a host has no agent: its packets pass no shaper, feedback has no effect on them, and receivers
    /// police them as a stranger's. With the first such host receivers begin to police. Call it after
    /// [`World::set_shapers`].
    pub fn set_stranger(&mut self, host: HostId) {
        assert!(self.shaping.on, "without shapers every host is a stranger");
        self.shaping.strangers.resize(self.hosts.len(), false);
        self.shaping.strangers[host.index()] = true;
        self.shaping.policed.resize(self.hosts.len() * self.service_count, Policed::default());
    }

    /// Counts of the policer of a service at a host.
    pub fn policed(&self, host: HostId, service: ServiceIndex) -> Policed {
        self.shaping.policed.get(host.index() * self.service_count + service.index()).copied().unwrap_or_default()
    }

    /// Makes all receive meters measure over intervals of this length, from their next window on.
    pub fn set_meter_interval(&mut self, interval: Duration) {
        for service in &mut self.shaping.config.services {
            service.interval = interval;
        }
        self.datapath.set_interval(&self.shaping.config, interval);
    }

    /// Sets the brokers' receive limit of a service at a host; [`Bandwidth::UNLIMITED`] lifts it.
    /// It has no effect without shapers.
    pub fn set_receive_limit(&mut self, host: HostId, service: ServiceIndex, limit: Bandwidth) {
        if self.shaping.on {
            self.datapath.set_receive_limit(host.index(), service.index(), limit);
        }
    }

    /// The state of a service's shaper at a host; `None` without shapers.
    pub fn shaper(&self, host: HostId, service: ServiceIndex) -> Option<ShaperReading> {
        let capacity = self.datapath.receive_capacity(host.index(), service.index())?;
        let rate = self.datapath.meter(host.index(), service.index())?.rate();
        Some(ShaperReading { capacity, rate, limit: self.limit(host, service) })
    }

    /// The network reading of a service's receive meter at a host; empty without shapers.
    pub(crate) fn network_reading(&self, host: HostId, service: ServiceIndex) -> NetworkReading {
        let Some(meter) = self.datapath.meter(host.index(), service.index()) else { return NetworkReading::default() };
        let rate = (!meter.rate().is_unlimited()).then(|| meter.rate());
        NetworkReading { packets: meter.packets(), marked: meter.marked(), rate, capacity: meter.capacity() }
    }

    /// The rate of a service's limiter from one host to another; `None` without one.
    pub fn destination_rate(&self, from: HostId, service: ServiceIndex, to: HostId) -> Option<Bandwidth> {
        let slots = self.shaping.destinations.get(from.index() * self.service_count + service.index())?;
        Some(self.shaping.slots[slots.get(to.0)? as usize].limiter.rate())
    }

    /// The number of packets that wait for limiters of destinations, of all hosts.
    pub fn waiting_for_destinations(&self) -> usize {
        self.shaping.slots.iter().map(|slot| slot.count as usize).sum()
    }
}
