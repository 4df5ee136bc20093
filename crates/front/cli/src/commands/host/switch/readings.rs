//! Readings of queues that a tenant's packets are leaving, as the controller needs them.
//!
//! Where a switch shows a queue's backlog of the moment, a reading has it, and the bytes sent. Where it does not
//! (SONiC), a reading has an upper bound of what was in the queue at the first reading of the round and still is, by
//! time ([`weir_switch::drain`]). It becomes 0 only if the port has its configuration then.

use std::collections::BTreeMap;
use std::time::Instant;
use weir_fabric::binding_proto::{Queue, Reading};
use weir_switch::{DrainLimits, Drains, PortConfig, ReadQueues};
use weir_units::Bytes;

/// The readings of a switch.
pub(super) struct Readings {
    /// By interface; for a switch without live counters.
    limits: BTreeMap<String, DrainLimits>,
    drains: Drains,
    start: Instant,
}

impl Readings {
    /// Without readings yet; `limits` by interface.
    pub(super) fn new(limits: BTreeMap<String, DrainLimits>) -> Self {
        Self { limits, drains: Drains::default(), start: now() }
    }

    /// Takes other limits, by interface.
    pub(super) fn set_limits(&mut self, limits: BTreeMap<String, DrainLimits>) {
        self.limits = limits;
    }

    /// Forgets how long queues have been sending: their weights were lost meanwhile, or rounds are numbered anew.
    pub(super) fn reset(&mut self) {
        self.drains.clear();
    }

    /// Reads a queue of an interface with this configuration; none where it does not exist.
    pub(super) fn read<D: ReadQueues>(
        &mut self,
        driver: &mut D,
        queue: Queue,
        (interface, config): (&str, &PortConfig),
    ) -> Result<Option<Reading>, String> {
        let failed = |port: &str, error: &D::Error| format!("port {port}: {error}");
        let Ok(number) = u8::try_from(queue.queue) else { return Ok(None) };
        if driver.are_live() {
            let queues = driver.queues(interface).map_err(|error| failed(&queue.port, &error))?;
            let known = queues.get(&number).and_then(|reading| Some((reading.sent?, reading.backlog?)));
            let missing =
                || format!("port {}: queue {number} has no counters, so when it has emptied is unknown", queue.port);
            let (sent, backlog) = known.ok_or_else(missing)?;
            return Ok(Some(reading(queue, sent, backlog)));
        }
        let Some(limits) = self.limits.get(interface) else { return Ok(None) };
        let now = weir_units::Instant::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let Some(left) = self.drains.remaining(now, (interface, number, queue.round), config, limits) else {
            return Ok(None);
        };
        if left == Bytes::ZERO {
            let state = driver.read(interface).map_err(|error| failed(&queue.port, &error))?;
            if state != *config.state() {
                self.reset();
                return Err(format!("port {}: its configuration is lost, so queue {number} is read anew", queue.port));
            }
        }
        // Bytes sent are of the last reading of the hardware's counters, and would count too early.
        Ok(Some(reading(queue, Bytes::ZERO, left)))
    }
}

fn reading(queue: Queue, sent: Bytes, backlog: Bytes) -> Reading {
    Reading { queue: Some(queue), sent: sent.get(), backlog: backlog.get() }
}

#[expect(clippy::disallowed_methods, reason = "queues send in real time")]
fn now() -> Instant {
    Instant::now()
}
