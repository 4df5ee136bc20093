//! Readings of an interface: for the broker, and for watchers.

use super::{Host, HostError};
use std::collections::HashMap;
use std::sync::PoisonError;
use weir_control::{MeterReading, NetworkReading};
use weir_linux::loader::InterfaceDatapath;
use weir_linux::readings::{Counts, ReceiveReading, TimerReading};
use weir_linux::sent::{Offered, Sent};
use weir_linux::shaper::{Backend, ServiceQueue, ShaperError};
use weir_units::{Bytes, PerDirection, ServiceId};

/// The bytes of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Those that it offered to the interface.
    pub offered: Bytes,
    /// Those of them that have left it.
    pub sent: Bytes,
    /// Those of them that its pacing or its queue dropped.
    pub dropped: Bytes,
    /// Those that it received.
    pub received: Bytes,
}

impl Traffic {
    /// The difference to an earlier reading.
    pub fn since(self, before: Self) -> Self {
        Self {
            offered: self.offered.saturating_sub(before.offered),
            sent: self.sent.saturating_sub(before.sent),
            dropped: self.dropped.saturating_sub(before.dropped),
            received: self.received.saturating_sub(before.received),
        }
    }
}

/// The first half of a reading of services' traffic.
#[derive(Debug, Default)]
pub(super) struct Counted {
    offered: Vec<Offered>,
    received: Vec<Bytes>,
}

impl Counted {
    /// The counters of the programs.
    pub(super) fn read(datapath: &InterfaceDatapath, leaves: &[ServiceId]) -> Result<Self, HostError> {
        let mut counted = Self::default();
        for leaf in leaves {
            let totals = datapath.totals(Some(*leaf))?;
            let (slot, dropped) = (datapath.slot(*leaf)?, datapath.drops(*leaf)?.bytes());
            counted.offered.push(Offered { slot, bytes: totals.tx.bytes(), dropped });
            counted.received.push(totals.rx.bytes());
        }
        Ok(counted)
    }

    /// With what has left: the traffic since the programs were attached.
    pub(super) fn traffic(&self, sent: &mut Sent) -> Result<Vec<Traffic>, HostError> {
        let left = sent.read(&self.offered).map_err(ShaperError::from)?;
        let one = |((offered, left), received): ((&Offered, Bytes), &Bytes)| Traffic {
            offered: offered.bytes,
            sent: left,
            dropped: sent.dropped(offered.slot),
            received: *received,
        };
        Ok(self.offered.iter().zip(left).zip(&self.received).map(one).collect())
    }
}

/// The kernel's counters and rates of an interface.
pub struct KernelReadings {
    /// By leaf: its receive meter.
    pub meters: Vec<ReceiveReading>,
    /// By leaf: its traffic since the start of this agent.
    pub traffic: Vec<Traffic>,
    /// By leaf: its backlog and drops; empty while there is no shaper.
    pub queues: Vec<Option<ServiceQueue>>,
    /// Buffers dropped that cannot be attributed to a service; `None` while there is no shaper.
    pub drops_unattributed: Option<u64>,
    /// By leaf: feedback of all destinations.
    pub reported: Vec<u64>,
    /// Events on the interface.
    pub counts: Counts,
    /// The timer.
    pub timer: TimerReading,
}

impl Host {
    /// The kernel's counters and rates, for watchers.
    pub fn kernel_readings(&mut self) -> Result<KernelReadings, HostError> {
        let meter = |leaf: &ServiceId| Ok(self.datapath.receive_reading(*leaf)?);
        let meters = self.leaves.iter().map(meter).collect::<Result<_, HostError>>()?;
        let leaf_of: HashMap<u32, usize> =
            self.rates.iter().enumerate().map(|(leaf, rate)| (rate.slot, leaf)).collect();
        // In this order, so that no packet in transit counts as dropped (`weir_linux::sent`).
        let counted = Counted::read(&self.datapath, &self.leaves)?;
        let (mut queues, drops_unattributed) = self.queues()?;
        let mut traffic = counted.traffic(&mut self.sent)?;
        for (leaf, traffic) in traffic.iter_mut().enumerate() {
            if let Some(queue) = &queues[leaf] {
                let slot = self.rates[leaf].slot;
                self.sent.count_drops(slot, queue.backlog);
                traffic.dropped = self.sent.dropped(slot);
            }
            *traffic = traffic.since(self.before[leaf]);
        }
        let mut reported = vec![0; self.leaves.len()];
        for (slot, count) in self.destinations.reported()? {
            if let Some(leaf) = leaf_of.get(&slot) {
                reported[*leaf] += count;
            }
        }
        for destination in self.destinations.readings()? {
            // With departure times there are no classes to count. Every destination has a limiter,
            // and this one's rate is below the service's.
            if let Some(leaf) = leaf_of.get(&destination.slot)
                && let (Backend::Edt, Some(queue)) = (self.backend, &mut queues[*leaf])
                && destination.rate < self.rates[*leaf].max
            {
                queue.destinations += 1;
            }
        }
        let (counts, timer) = (self.datapath.counts()?, self.datapath.timer()?);
        Ok(KernelReadings { meters, traffic, queues, drops_unattributed, reported, counts, timer })
    }

    /// By leaf: backlog and drops; and the drops of no service.
    fn queues(&self) -> Result<(Vec<Option<ServiceQueue>>, Option<u64>), HostError> {
        let queues = match self.shaper.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(shaper) => shaper.queues()?,
            None => Vec::new(),
        };
        let queues: HashMap<Option<ServiceId>, ServiceQueue> =
            queues.into_iter().map(|queue| (queue.service, queue)).collect();
        let by_leaf = self.leaves.iter().map(|leaf| queues.get(&Some(*leaf)).copied()).collect();
        Ok((by_leaf, queues.get(&None).map(|queue| queue.drops)))
    }

    /// All meters now, counted from the start of this agent. Sends a heartbeat to the kernel.
    pub fn read_meters(&mut self) -> Result<Vec<MeterReading>, HostError> {
        self.destinations.check()?;
        self.datapath.heartbeat()?;
        let traffic = Counted::read(&self.datapath, &self.leaves)?.traffic(&mut self.sent)?;
        let reading = |((service, traffic), before): ((&ServiceId, Traffic), &Traffic)| {
            let meter = self.datapath.receive_reading(*service)?;
            let network = NetworkReading {
                packets: meter.packets,
                marked: meter.marked,
                rate: (!meter.rate.is_unlimited()).then_some(meter.rate),
                capacity: meter.capacity,
            };
            let Traffic { sent, received, .. } = traffic.since(*before);
            Ok(MeterReading { service: *service, bytes: PerDirection { tx: sent, rx: received }, network })
        };
        self.leaves.iter().zip(traffic).zip(&self.before).map(reading).collect()
    }
}
