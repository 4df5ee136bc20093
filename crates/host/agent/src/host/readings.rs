//! Readings of an interface: for the broker, and for watchers.

use super::{Host, HostError};
use crate::credits::CreditThread;
use crate::shaper_thread::Reading;
use std::collections::HashMap;
use weir_control::{MeterReading, NetworkReading};
use weir_linux::cgroups::CgroupReading;
use weir_linux::guests::GuestReading;
use weir_linux::levels::LevelReading;
use weir_linux::loader::{InterfaceDatapath, LoaderError};
use weir_linux::readings::{Counts, ReceiveReading, TimerReading};
use weir_linux::sent::Offered;
use weir_linux::shaper::{Backend, ServiceQueue, ServiceRate};
use weir_shaping::Received;
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
    /// The counters after these, from a newer reading. A late reading estimates `sent`, and may be
    /// above the kernel's next count: it stays until it is exceeded, and `dropped` is lower by the
    /// same bytes, so that no byte counts twice and no counter falls.
    fn until(self, offered: Bytes, sent: Bytes, dropped: Bytes, received: Bytes) -> Self {
        let sent = sent.max(self.sent);
        let dropped = dropped.min(offered.saturating_sub(sent)).max(self.dropped);
        Self { offered, sent, dropped, received }
    }

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

/// The programs' counters of services' traffic, by leaf.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) offered: Vec<Offered>,
    received: Vec<Bytes>,
}

impl Counted {
    /// The counters of the programs.
    pub(super) fn read(datapath: &InterfaceDatapath, leaves: &[ServiceId]) -> Result<Self, HostError> {
        let mut counted = Self::default();
        for leaf in leaves {
            let totals = datapath.totals(Some(*leaf))?;
            let (slot, dropped) = (datapath.slot(*leaf)?, datapath.drops(*leaf)?.bytes());
            // What a gate has let through is in no class of the service.
            let on_level = datapath.is_on_level(slot)? || datapath.has_credits(slot);
            counted.offered.push(Offered { slot, bytes: totals.tx.bytes(), dropped, on_level });
            counted.received.push(totals.rx.bytes());
        }
        Ok(counted)
    }

    /// With what has left: the traffic since the programs were attached, by slot. If the reading is
    /// late, services go on at their rates, within their limits; it is never less than in `last`.
    pub(super) fn traffic(
        &self,
        reading: &Reading,
        rates: &[ServiceRate],
        last: &HashMap<u32, Traffic>,
    ) -> HashMap<u32, Traffic> {
        let age = reading.age();
        let one = |((offered, received), rate): ((&Offered, &Bytes), &ServiceRate)| {
            let last = last.get(&offered.slot).copied().unwrap_or_default();
            let (sent, dropped) = match reading.left.get(&offered.slot) {
                Some(left) => {
                    let rate = reading.rate(offered.slot).min(rate.max);
                    (left.go_on(offered.bytes, rate, age), left.dropped)
                }
                // The reading is of a policy without this service.
                None => (last.sent, last.dropped),
            };
            (offered.slot, last.until(offered.bytes, sent, dropped, *received))
        };
        self.offered.iter().zip(&self.received).zip(rates).map(one).collect()
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
    /// By latency level, the most urgent first: its counters.
    pub levels: Vec<LevelReading>,
    /// The premises of latency bounds that did not hold at the last check of the interface.
    pub level_obstacles: Vec<String>,
    /// The control groups of filters, if there are any.
    pub cgroups: Option<CgroupReading>,
    /// The guests of filters by interface, if there are any.
    pub guests: Option<GuestReading>,
    /// Events on the interface.
    pub counts: Counts,
    /// The timer.
    pub timer: TimerReading,
    /// Meters read without the qdisc's counters, since the kernel did not return them in time.
    pub late_readings: u64,
}

impl Host {
    /// The kernel's counters and rates, for watchers.
    pub fn kernel_readings(&mut self) -> Result<KernelReadings, HostError> {
        let meter = |leaf: &ServiceId| Ok(self.datapath.receive_reading(*leaf)?);
        let meters = self.leaves.iter().map(meter).collect::<Result<_, HostError>>()?;
        let leaf_of: HashMap<u32, usize> =
            self.rates.iter().enumerate().map(|(leaf, rate)| (rate.slot, leaf)).collect();
        let traffic = self.since_start();
        let (mut queues, drops_unattributed) = self.queues();
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
        let (levels, late_readings) = (self.datapath.level_readings()?, self.thread.late());
        let cgroups = self.datapath.cgroup_reading().map_err(LoaderError::from)?;
        let guests = self.datapath.guest_reading().map_err(LoaderError::from)?;
        Ok(KernelReadings {
            meters,
            traffic,
            queues,
            drops_unattributed,
            reported,
            levels,
            level_obstacles: self.thread.last().level_obstacles,
            cgroups,
            guests,
            counts,
            timer,
            late_readings,
        })
    }

    /// By leaf: backlog and drops; and the drops of no service.
    fn queues(&self) -> (Vec<Option<ServiceQueue>>, Option<u64>) {
        let queues = self.thread.last().queues.into_iter();
        let queues: HashMap<Option<u32>, ServiceQueue> = queues.map(|queue| (queue.slot, queue)).collect();
        let by_leaf = self.rates.iter().map(|rate| queues.get(&Some(rate.slot)).copied()).collect();
        (by_leaf, queues.get(&None).map(|queue| queue.drops))
    }

    /// All meters now, counted from the start of this agent; with `queues` also what
    /// [`Host::kernel_readings`] shows of backlog and drops. Sends a heartbeat to the kernel.
    pub async fn read_meters(&mut self, queues: bool) -> Result<Vec<MeterReading>, HostError> {
        self.destinations.check()?;
        self.credits.as_mut().map_or(Ok(()), CreditThread::check)?;
        self.thread.check()?;
        self.datapath.check_cgroups().map_err(LoaderError::from)?;
        self.datapath.check_guests().map_err(LoaderError::from)?;
        self.datapath.heartbeat()?;
        let counted = Counted::read(&self.datapath, &self.leaves)?;
        let check = std::mem::take(&mut self.is_to_check);
        self.thread.request(counted.offered.clone(), queues, check).await;
        self.traffic = counted.traffic(&self.thread.last(), &self.rates, &self.traffic);
        let reading = |(service, traffic): (&ServiceId, Traffic)| {
            let meter = self.datapath.receive_reading(*service)?;
            let network = NetworkReading {
                packets: meter.packets,
                marked: meter.marked,
                rate: (!meter.rate.is_unlimited()).then_some(meter.rate),
                capacity: meter.capacity,
            };
            let Traffic { offered, sent, dropped, received } = traffic;
            // In a class packets wait that have neither left nor been dropped. Packets with departures count as sent.
            let waits = offered > sent + dropped || self.datapath.has_departures(*service)?;
            Ok(MeterReading { service: *service, bytes: PerDirection { tx: sent, rx: received }, waits, network })
        };
        self.leaves.iter().zip(self.since_start()).map(reading).collect()
    }

    /// Counters of what a service has received since the programs were attached; marks of closed windows of its meter.
    pub fn received(&self, service: ServiceId) -> Result<Received, HostError> {
        let (bytes, packets, marked) = self.datapath.received(service)?;
        Ok(Received { bytes, packets, marked })
    }

    /// By leaf: its traffic at the last reading, since the start of this agent.
    fn since_start(&self) -> Vec<Traffic> {
        let one = |rate: &ServiceRate| {
            let of = |traffic: &HashMap<u32, Traffic>| traffic.get(&rate.slot).copied().unwrap_or_default();
            of(&self.traffic).since(of(&self.before))
        };
        self.rates.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 50 kB that were offered since a reading, a late one counts 20 kB as sent; the kernel's
    /// counters have 12 kB sent and 38 kB dropped.
    #[test]
    fn an_estimate_above_the_count_is_not_counted_twice() {
        let kilobytes = |n: u64| Bytes::new(n * 1_000);
        let until = |last: Traffic, [offered, sent, dropped]: [u64; 3]| {
            last.until(kilobytes(offered), kilobytes(sent), kilobytes(dropped), Bytes::ZERO)
        };
        let late = until(until(Traffic::default(), [100, 30, 60]), [150, 50, 60]);
        let read = until(late, [150, 42, 108]);
        assert_eq!((read.sent, read.dropped), (kilobytes(50), kilobytes(100)));
        // The estimate is exceeded, and the drops are complete.
        let later = until(read, [200, 62, 138]);
        assert_eq!((later.sent, later.dropped), (kilobytes(62), kilobytes(138)));
    }
}
