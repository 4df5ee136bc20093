//! Epochs: the numbers of a broker's starts, and notices about them.
//!
//! Problem: `(epoch, round)` orders a broker's messages, so that a replay is recognised. An epoch is the time of day,
//! or the last one and one more (`weir_fabric::state::epoch`). It goes down where the clock was ahead once and the
//! stored number is lost or restored from a backup. All messages of the broker are then older than the known ones.
//!
//! Rule: **a broker that receives notice of a higher `(epoch, round)` of its own continues with the epoch after it**,
//! stores that epoch, and sends its last message again. A receiver of an older message sends the notice, to its sender
//! alone and [`NOTICE_EVERY`] of a period after the last one at the earliest.
//!
//! This is a join: the larger number holds, and no receiver ever accepts an older message. So notices may be lost,
//! repeated, reordered or replayed. A recorded notice has a number that the broker once had, which is below its
//! present one, and has no effect. A notice whose epoch is above [`LARGEST_CLAIM`] is malformed: notices can raise an
//! epoch, and leave it half of all numbers.
//!
//! Worked example: machine 2 reported in epoch 900, round 40. It restarts in epoch 5. Machine 1 receives its report
//! (5, 1) and sends the notice (900, 40). Machine 2 continues in epoch 901 and reports (901, 1), which is newer.
//!
//! Equal epochs: of two starts that were lost, the first may have had the epoch that the notice leads to. The round
//! shows this: a notice of (901, 8) to a machine at (901, 1) leads to epoch 902.
//!
//! Bound: a machine with a certificate, or a holder of the rack's key, may send notices of ever higher stamps, and each
//! costs the broker a write and its round. [`Raises`] lets a broker continue in a new epoch [`RAISES_AT_ONCE`] times,
//! and then once a period. The sender of a notice that is ignored sends it again.
//!
//! Source: a fill; Parley has no restarts. The rule is that of a node that refreshes a sequence number that others have
//! higher (OSPF, RFC 2328 §13.4).

use weir_units::{Duration, Instant, MachineId};

/// The largest epoch that a notice may have. A clock in nanoseconds reaches it in 2262.
pub const LARGEST_CLAIM: u64 = 1 << 63;

/// At most one notice in this part of a period to a machine: the period of the sender, whose clock may run a little
/// faster.
pub(crate) const NOTICE_EVERY: (u64, u64) = (3, 4);

/// A genuine broker rises once for each higher epoch that its receivers have, however many have the same one. Receivers
/// in contact have those of one period, since the notices of a period exceed all of them: ten starts where systemd
/// restarts a fabric broker that loses its number each time, and the rest for parts of a partition.
const RAISES_AT_ONCE: u32 = 16;

/// The epochs in which a broker has continued lately.
#[derive(Debug, Default)]
pub(crate) struct Raises {
    /// Those that count, and the time from which whole periods are subtracted.
    spent: u32,
    since: Instant,
}

impl Raises {
    /// Whether the broker may continue in a new epoch now. Counts it if so.
    pub(crate) fn allow(&mut self, now: Instant, period: Duration) -> bool {
        let periods = now.saturating_since(self.since).nanos() / period.nanos().max(1);
        self.spent = self.spent.saturating_sub(u32::try_from(periods).unwrap_or(u32::MAX));
        self.since = if self.spent == 0 { now } else { self.since + period * periods };
        let allowed = self.spent < RAISES_AT_ONCE;
        self.spent += u32::from(allowed);
        allowed
    }
}

/// The newest stamp that a broker has received of another one, for the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochNotice {
    /// The sending machine; `None` for the fabric broker.
    pub from: Option<MachineId>,
    /// The fingerprint of the sender's policy.
    pub policy: u64,
    /// The machine whose stamp it is; `None` for the fabric broker.
    pub to: Option<MachineId>,
    /// The newest epoch, at most [`LARGEST_CLAIM`].
    pub epoch: u64,
    /// The newest round in it.
    pub round: u64,
}

impl EpochNotice {
    /// The epoch after this stamp for a broker at `own` `(epoch, round)`; `None` if its own is as new.
    pub(crate) fn raises(&self, own: (u64, u64)) -> Option<u64> {
        ((self.epoch, self.round) > own && self.epoch <= LARGEST_CLAIM).then(|| self.epoch + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FabricBrokerConfig;

    #[test]
    fn a_broker_that_restarts_all_the_time_rises_above_each_start_of_a_period() {
        let unit = include_str!("../../../../packaging/weir-fabric.service");
        let pause = unit.lines().find_map(|line| line.strip_prefix("RestartSec=")).expect("a pause between starts");
        let starts =
            FabricBrokerConfig::default().period.nanos() / (pause.parse::<u64>().expect("seconds") * 1_000_000_000);
        assert_eq!(starts, 10);
        assert!(u64::from(RAISES_AT_ONCE) > starts);
    }

    #[test]
    fn raises_are_bounded() {
        let (period, mut raises) = (Duration::from_secs(10), Raises::default());
        let at = |tenths: u64| Instant::ZERO + Duration::from_millis(tenths * 100);
        let allowed =
            |raises: &mut Raises, from: u64, to: u64| (from..to).filter(|t| raises.allow(at(*t), period)).count();
        assert_eq!(allowed(&mut raises, 1_000, 1_050), 16);
        // One in each of the next ten periods, and all again after long.
        assert_eq!(allowed(&mut raises, 1_050, 2_000), 9);
        assert_eq!(allowed(&mut raises, 20_000, 20_050), 16);
    }
}
