//! Quotas of flows: the limiter of QJump's published simulation.
//!
//! Problem: QJump limits what a host sends on a level; its published simulation limits each flow instead, and drops
//! what exceeds the limit. Approach: a flow has a quota of bytes for each epoch, counted from the flow's start. Its
//! host drops a segment that the rest of the quota does not hold, before the interface; the transport detects the loss.
//! Acknowledgements are not limited, and have the most urgent class.
//!
//! Worked example: a flow of six frames of 1500 B has a quota of 9 kB: all leave at once. If one is lost and repeated
//! in the same epoch, the repetition exceeds the quota and is dropped; in the next epoch it leaves.
//!
//! Source: github.com/camsas/qjump-ns2 (`qjump.tcl`; `adc/qjump.cc` in its patch of ns-2).

use crate::ids::{FlowId, HostId, PacketId};
use crate::observer::Observer;
use crate::packet::Kind;
use crate::world::World;
use weir_units::SimTime;

/// The class of acknowledgements.
const ACKNOWLEDGEMENTS: u8 = 0;

/// The quota of a flow, and the rest of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowQuota {
    /// Bytes of frames in an epoch.
    quota: u64,
    /// The length of an epoch; more than zero.
    epoch: SimTime,
    /// The start of the epoch.
    since: SimTime,
    /// Bytes left in it.
    left: u64,
}

impl FlowQuota {
    /// `quota` bytes of frames in each `epoch`, the first from `start` on.
    ///
    /// # Panics
    /// If the epoch is zero.
    pub fn new(quota: u64, epoch: SimTime, start: SimTime) -> Self {
        assert!(epoch > SimTime::ZERO, "epochs have a length");
        Self { quota, epoch, since: start, left: quota }
    }

    /// Whether the quota holds a frame of `size` bytes, which is then charged. Time does not go back.
    fn admits(&mut self, now: SimTime, size: u32) -> bool {
        let epochs = now.saturating_sub(self.since).picos() / self.epoch.picos();
        if epochs > 0 {
            self.since += SimTime::from_picos(epochs * self.epoch.picos());
            self.left = self.quota;
        }
        let admitted = u64::from(size) <= self.left;
        self.left -= if admitted { u64::from(size) } else { 0 };
        admitted
    }
}

/// The quotas of a world's flows.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    /// By the flow's slot; empty without quotas.
    of_flow: Vec<Option<FlowQuota>>,
}

impl Quotas {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.of_flow.is_empty()
    }

    /// A flow has this slot from now on, without a quota.
    #[inline]
    pub(crate) fn forget(&mut self, flow: FlowId) {
        if let Some(quota) = self.of_flow.get_mut(flow.index()) {
            *quota = None;
        }
    }
}

impl<O: Observer> World<O> {
    /// Gives a flow a quota. Call it before the flow's start.
    pub fn set_quota(&mut self, flow: FlowId, quota: FlowQuota) {
        let quotas = &mut self.quotas.of_flow;
        if quotas.is_empty() {
            // Packets no longer go straight to the interfaces.
            self.hosts.iter_mut().for_each(|host| host.limited += 1);
        }
        if quotas.len() <= flow.index() {
            quotas.resize(flow.index() + 1, None);
        }
        quotas[flow.index()] = Some(quota);
    }

    /// Charges a new packet of a host to its flow's quota. Returns whether the packet exceeded it: it is dropped then.
    pub(crate) fn exceeds_quota(&mut self, host: HostId, id: PacketId) -> bool {
        let packet = self.packets.get_mut(id);
        if !matches!(packet.kind(), Kind::Segment | Kind::Ack) {
            return false;
        }
        let Some(Some(quota)) = self.quotas.of_flow.get_mut(packet.flow.index()) else { return false };
        if packet.kind() == Kind::Ack {
            packet.priority = ACKNOWLEDGEMENTS;
            return false;
        }
        let admitted = quota.admits(self.now, packet.size);
        if !admitted {
            let port = self.hosts[host.index()].interface;
            self.leave_host(id);
            self.drop(port, id, false);
        }
        !admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: SimTime = SimTime::from_micros(1050);

    #[test]
    fn the_worked_example() {
        let start = SimTime::from_micros(100);
        let mut quota = FlowQuota::new(9_000, EPOCH, start);
        assert!((0..6).all(|_| quota.admits(start, 1_500)));
        assert!(!quota.admits(start + EPOCH - SimTime::from_picos(1), 1_500));
        assert!(quota.admits(start + EPOCH, 1_500));
    }

    #[test]
    fn a_quota_does_not_add_up_over_epochs() {
        let mut quota = FlowQuota::new(3_000, EPOCH, SimTime::ZERO);
        let late = SimTime::from_micros(10_600);
        assert_eq!((0..3).filter(|_| quota.admits(late, 1_500)).count(), 2);
        // The tenth epoch ends at 11.55 ms.
        assert!(!quota.admits(SimTime::from_micros(11_549), 1));
        assert!(quota.admits(SimTime::from_micros(11_550), 1));
    }
}
