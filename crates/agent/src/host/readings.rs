//! Readings of an interface: for the broker, and for watchers.

use super::{Host, HostError};
use std::sync::PoisonError;
use weir_control::{MeterReading, NetworkReading};
use weir_linux::readings::{Counts, ReceiveReading, TimerReading};
use weir_linux::shaper::{Backend, ServiceQueue};
use weir_units::{Bytes, PerDirection, ServiceId};

/// The kernel's counters and rates of an interface.
pub struct KernelReadings {
    /// By leaf: its receive meter.
    pub meters: Vec<ReceiveReading>,
    /// By leaf: its backlog and drops.
    pub queues: Vec<Option<ServiceQueue>>,
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
        let queues = match self.shaper.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(shaper) => shaper.queues()?,
            None => Vec::new(),
        };
        let queue = |leaf: &ServiceId| queues.iter().find(|queue| queue.service == Some(*leaf)).copied();
        let mut queues: Vec<Option<ServiceQueue>> = self.leaves.iter().map(queue).collect();
        let mut reported = vec![0; self.leaves.len()];
        for (slot, count) in self.destinations.reported()? {
            let service = self.datapath.service(slot);
            if let Some(leaf) = service.and_then(|service| self.leaves.binary_search(&service).ok()) {
                reported[leaf] += count;
            }
        }
        for destination in self.destinations.readings()? {
            let service = self.datapath.service(destination.slot);
            if let Some(leaf) = service.and_then(|service| self.leaves.binary_search(&service).ok()) {
                // With departure times there are no classes to count. Every destination has a
                // limiter, and this one's rate is below the service's.
                if let (Backend::Edt, Some(queue)) = (self.backend, &mut queues[leaf])
                    && destination.rate < self.rates[leaf].max
                {
                    queue.destinations += 1;
                }
            }
        }
        Ok(KernelReadings { meters, queues, reported, counts: self.datapath.counts()?, timer: self.datapath.timer()? })
    }

    /// All meters now, counted from the start of this agent. Sends a heartbeat to the kernel.
    pub fn read_meters(&mut self) -> Result<Vec<MeterReading>, HostError> {
        self.destinations.check()?;
        self.datapath.heartbeat()?;
        let reading = |(service, before): (&ServiceId, &PerDirection<Bytes>)| {
            let totals = self.datapath.totals(Some(*service))?;
            let meter = self.datapath.receive_reading(*service)?;
            let network = NetworkReading {
                packets: meter.packets,
                marked: meter.marked,
                rate: (!meter.rate.is_unlimited()).then_some(meter.rate),
                capacity: meter.capacity,
            };
            let bytes = PerDirection {
                tx: totals.tx.bytes().saturating_sub(before.tx),
                rx: totals.rx.bytes().saturating_sub(before.rx),
            };
            Ok(MeterReading { service: *service, bytes, network })
        };
        self.leaves.iter().zip(&self.before).map(reading).collect()
    }
}
