//! The queue of limits for the racks. Messages are built while the driver fetches them.

use super::racks::Rack;
use super::{FabricBroker, FabricOutput};
use crate::fabric_message::{RackLimits, RateRow};
use crate::parts::{Part, split};
use std::collections::VecDeque;
use weir_units::{Bandwidth, Direction, Duration, Instant, MachineId, PerDirection, RackId};

/// The unsent part of the last period's limits.
#[derive(Debug, Default)]
pub(super) struct LimitsQueue {
    /// Racks with the machines that receive their limits.
    racks: VecDeque<(RackId, Vec<MachineId>)>,
    /// Whether the limits are proposed, and not in force.
    proposed: bool,
    /// Messages for the current rack.
    parts: VecDeque<(MachineId, RackLimits)>,
}

impl LimitsQueue {
    /// Drops the queue and returns the number of racks that it held.
    pub(super) fn clear(&mut self) -> u64 {
        let left = self.racks.len() + usize::from(!self.parts.is_empty());
        self.racks.clear();
        self.parts.clear();
        left as u64
    }

    /// Queues a proposal for a rack.
    pub(super) fn propose(&mut self, rack: RackId, machines: Vec<MachineId>) {
        self.proposed = true;
        self.racks.push_back((rack, machines));
    }

    /// Queues every rack that has a recipient, and starts the racks' next period.
    pub(super) fn fill(&mut self, racks: &mut [Rack], now: Instant, timeout: Duration) {
        self.proposed = false;
        for (index, rack) in racks.iter_mut().enumerate() {
            let machines = rack.recipients(now, timeout);
            rack.send_to(&machines);
            if !machines.is_empty() {
                self.racks.push_back((RackId(index as u32), machines));
            }
            rack.next_period();
        }
    }
}

impl FabricBroker {
    /// The next message, rack by rack.
    pub fn poll_output(&mut self) -> Option<FabricOutput> {
        if let Some(notice) = self.notices.pop_front() {
            return Some(notice);
        }
        if self.pending_limits.parts.is_empty() {
            let (rack, machines) = self.pending_limits.racks.pop_front()?;
            let parts = self.limits_of(rack);
            for machine in machines {
                self.pending_limits.parts.extend(parts.iter().map(|limits| (machine, limits.clone())));
            }
        }
        let (to, limits) = self.pending_limits.parts.pop_front()?;
        Some(match self.pending_limits.proposed {
            true => FabricOutput::Propose { to, limits },
            false => FabricOutput::SendLimits { to, limits },
        })
    }

    fn limits_of(&self, rack: RackId) -> Vec<RackLimits> {
        let proposed = self.pending_limits.proposed;
        let rates = if proposed { &self.exchange.limits } else { &self.limits };
        let row = |(leaf, service): (usize, &weir_units::ServiceId)| {
            let limit = |direction: Direction| rates[direction][self.index(leaf, rack)].bandwidth();
            RateRow { service: *service, rates: PerDirection { tx: limit(Direction::Tx), rx: limit(Direction::Rx) } }
        };
        let unlimited = PerDirection::both(Bandwidth::UNLIMITED);
        let rows: Vec<RateRow> =
            self.allocator.leaves().iter().enumerate().map(row).filter(|row| row.rates != unlimited).collect();
        let message = |Part { first, last, rows }: Part<RateRow>| RackLimits {
            rack,
            policy: self.allocator.policy().digest(),
            epoch: self.epoch,
            round: if proposed { self.exchange.number } else { self.round },
            first,
            last,
            rows,
        };
        split(&rows).into_iter().map(message).collect()
    }
}
