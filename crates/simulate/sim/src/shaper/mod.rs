//! Machine shapers: the mechanism that limits a service to its share at a machine, both ways.
//!
//! ```text
//! sending host                                                       receiving host
//! flow ─► destination queue ─► service queue ─► interface ─► … ─► receive meter ─► flow
//!            (destination        (root                              │ R, every 10 kB
//!              limiter) ◄──────────limiter)──── feedback ◄──────────┘
//! ```
//!
//! Problem: the law of a receive meter and the limiters are the datapath's ([`weir_datapath`]); the
//! simulator must pass every packet to them, carry their feedback and queue waiting packets.
//! Approach, for every host and service:
//! - **receiving** (`receive`): each packet that arrives is counted by the service's receive meter
//!   and by the interface's. When feedback is due, a feedback packet of 64 B goes to the packet's
//!   source, at the index of control traffic. The interface meter divides the machine's capacity
//!   among its services; the brokers' limit applies on top.
//! - **sending** (`transmit`): feedback creates or sets a destination limiter. A packet first waits
//!   in its destination's queue, if there is a limiter to that destination, then in its service's
//!   ([`crate::host`]). Destinations without feedback for a second lose their limiter.
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
use std::sync::Arc;
use weir_alloc::ShareTree;
use weir_control::NetworkReading;
use weir_datapath::{Destination, InterfaceMeter, Policer, ReceiveMeter};
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, Bytes, Direction, Duration, MachineId, Weight};

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
    /// By host and service.
    receivers: Vec<Receiver>,
    /// By host.
    interfaces: Vec<Interface>,
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

/// A service's receiving side at a host.
#[derive(Debug)]
struct Receiver {
    meter: ReceiveMeter,
    /// The brokers' limit on its receiving.
    limit: Bandwidth,
    /// Its committed rate of the interface.
    committed: Bandwidth,
    /// Of packets from strangers.
    policer: Policer,
    policed: Policed,
    /// Bytes from strangers since the last tick of the policer.
    passed: Bytes,
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

/// All services of a host together.
#[derive(Debug)]
struct Interface {
    receive: InterfaceMeter,
    /// The interface meter above the root limiters, where the parameters have one (EyeQ).
    transmit: Option<InterfaceMeter>,
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
        let meter = |machine, direction| InterfaceMeter::of_machine(&config, MachineId(machine), direction, now);
        let interface = |machine| {
            let receive = meter(machine, Direction::Rx).expect("every shaper has an interface meter for receiving");
            Interface { receive, transmit: meter(machine, Direction::Tx) }
        };
        shaping.interfaces = (0..config.machines.len() as u32).map(interface).collect();
        shaping.weights = vec![Weight::ONE; count];
        for (index, service) in config.services.iter().enumerate() {
            for &(machine, weight) in &service.senders {
                shaping.weights[machine.index() * self.service_count + index] = weight;
            }
        }
        for index in shaping.receivers.len()..count {
            let service = config.services.get(index % self.service_count);
            let parameters = service.map_or(config.parameters, |service| config.of(service));
            let meter = ReceiveMeter::new(now, &parameters, Bandwidth::UNLIMITED, index as u32);
            shaping.receivers.push(Receiver {
                meter,
                limit: Bandwidth::UNLIMITED,
                committed: Bandwidth::ZERO,
                policer: Policer::default(),
                policed: Policed::default(),
                passed: Bytes::ZERO,
            });
        }
        for (host, receivers) in shaping.receivers.chunks_mut(self.service_count).enumerate() {
            for (receiver, leaf) in receivers.iter_mut().zip(config.shares(MachineId(host as u32), Direction::Rx)) {
                receiver.committed = leaf.committed;
            }
        }
        let bursts: Vec<_> = config.services.iter().map(|service| service.burst).collect();
        shaping.config = config;
        for host in (0..self.hosts.len() as u32).map(HostId) {
            for (service, &burst) in (0..).map(ServiceIndex).zip(&bursts) {
                self.set_burst(host, service, burst);
            }
            self.share_receiving(host);
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
    }

    /// Counts of the policer of a service at a host.
    pub fn policed(&self, host: HostId, service: ServiceIndex) -> Policed {
        let receiver = self.shaping.receivers.get(host.index() * self.service_count + service.index());
        receiver.map(|receiver| receiver.policed).unwrap_or_default()
    }

    /// Divides the hosts' interfaces among services by the machine's shares for transmitting: the
    /// leaves of its `tree`. `capacity` is by machine.
    pub fn set_interface_shares(
        &mut self,
        tree: &mut impl FnMut(MachineId) -> Arc<ShareTree>,
        capacity: impl Fn(MachineId) -> Bandwidth,
    ) {
        for (machine, host) in (0..).map(MachineId).zip(&self.hosts) {
            self.queues[host.queue as usize].set_shares(capacity(machine), &tree(machine));
        }
    }

    /// Makes all receive meters measure over intervals of this length, from their next window on.
    pub fn set_meter_interval(&mut self, interval: Duration) {
        for service in &mut self.shaping.config.services {
            service.interval = interval;
        }
        for receiver in &mut self.shaping.receivers {
            receiver.meter.set_interval(interval);
        }
    }

    /// Sets the brokers' receive limit of a service at a host; [`Bandwidth::UNLIMITED`] lifts it.
    /// It has no effect without shapers.
    pub fn set_receive_limit(&mut self, host: HostId, service: ServiceIndex, limit: Bandwidth) {
        if self.shaping.on {
            self.shaping.receivers[host.index() * self.service_count + service.index()].limit = limit;
            self.share_receiving(host);
        }
    }

    /// The state of a service's shaper at a host; `None` without shapers.
    pub fn shaper(&self, host: HostId, service: ServiceIndex) -> Option<ShaperReading> {
        let index = host.index() * self.service_count + service.index();
        let meter = &self.shaping.receivers.get(index)?.meter;
        Some(ShaperReading { capacity: meter.capacity(), rate: meter.rate(), limit: self.services[index].limit })
    }

    /// The network reading of a service's receive meter at a host; empty without shapers.
    pub(crate) fn network_reading(&self, host: HostId, service: ServiceIndex) -> NetworkReading {
        let Some(Receiver { meter, .. }) =
            self.shaping.receivers.get(host.index() * self.service_count + service.index())
        else {
            return NetworkReading::default();
        };
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

    /// A service's part of the interface's current capacity; `None` without a meter.
    fn share_of(&self, host: HostId, service: ServiceIndex, direction: Direction) -> Option<Bandwidth> {
        let interface = &self.shaping.interfaces[host.index()];
        let meter = match direction {
            Direction::Rx => Some(&interface.receive),
            Direction::Tx => interface.transmit.as_ref(),
        };
        Some(meter?.share_of(&self.shaping.config, service.index(), MachineId(host.0), direction))
    }
}
