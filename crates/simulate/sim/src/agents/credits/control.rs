//! [`Control`]: the control messages of a port: requests, allocations, returns without data and terminations.
//!
//! A scenario may let links lose a part of them ([`weir_transport::pace::Parameters::control_loss`]). Each port draws
//! for the messages that arrive over the opposite direction of its link, with a seed of its own that comes from the
//! run's.
//!
//! Example: at 1 % each link of a path of four loses one message of a hundred; 96 % of allocations reach the sender.

use crate::host::Jitter;
use weir_units::SimTime;

/// The end of the range of draws.
const WHOLE: SimTime = SimTime::from_secs(1);

/// The control messages of one port.
#[derive(Debug)]
pub(super) struct Control {
    /// Draws below this lose a message.
    loss: SimTime,
    draws: Jitter,
    counts: ControlCounts,
}

/// Counts of control messages at a port since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ControlCounts {
    /// Messages that the port took, and their bytes on the wire.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Messages that were lost before the port.
    pub(crate) lost: u64,
}

impl Control {
    /// `loss` is the part that is lost, 0 to 1.
    pub(super) fn new(loss: f64, seed: u64) -> Self {
        let loss = SimTime::from_picos((loss * WHOLE.picos() as f64) as u64);
        Self { loss, draws: Jitter::new(WHOLE, seed), counts: ControlCounts::default() }
    }

    /// A message enters the port.
    pub(super) fn on_enter(&mut self, size: u32) {
        self.counts.messages += 1;
        self.counts.bytes += u64::from(size);
    }

    /// A message arrives over the link. Returns whether the link has lost it.
    pub(super) fn is_lost(&mut self) -> bool {
        let is_lost = self.loss > SimTime::ZERO && self.draws.next() < self.loss;
        self.counts.lost += u64::from(is_lost);
        is_lost
    }

    /// The counts so far.
    pub(super) fn counts(&self) -> ControlCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_is_lost() {
        let mut control = Control::new(0.01, 1);
        let lost = (0..100_000).filter(|_| control.is_lost()).count();
        // Four standard deviations of a binomial distribution are 126.
        assert!((874..=1_126).contains(&lost), "{lost}");
        assert_eq!(control.counts().lost, lost as u64);
        let mut sound = Control::new(0.0, 1);
        assert!((0..1_000).all(|_| !sound.is_lost()));
        let mut broken = Control::new(1.0, 1);
        assert!((0..1_000).all(|_| broken.is_lost()));
    }
}
