//! [`Trinity`]: guarantees at a high priority, everything beyond at a low one.
//!
//! Problem: a rate that looks for spare bandwidth takes guarantees of others until their marks arrive. Approach: two
//! token buckets and two priorities of the network. Packets with tokens of the guarantee have the high priority, those
//! with tokens beyond it the low one, so the excess rate may be aggressive: with F percent of the low priority marked
//! it becomes (200 − F) / 200 of itself; without marks the total moves half of the way to the line, by 10 Mb/s at
//! least.
//!
//! Flows of which less than 100 kB were sent wait in a queue of their own, go first and use tokens of the guarantee
//! alone; the simulator and any other backend hold that queue. Where a machine has many pairs, a pair's guarantee is
//! small and that rule slows the beginnings of flows, so there is a form without it: `Trinity<0>`.
//!
//! Worked example: guarantee 94 Mb/s, line 1 Gb/s. The first report without marks raises the total from 94 to
//! 94 + (960 − 94) / 2 = 527 Mb/s, 433 of it excess; 40 % marked make the excess 346.4 Mb/s.
//!
//! Source: the authors' kernel module (github.com/baiwei0427/Trinity, built with TRINITY), Trinity (INFOCOM 2016). Its
//! guarantees of pairs are constant; here they are partitioned as ElasticSwitch's, which the paper adopts.

use crate::law::{Law, Pair, Rates, scaled};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// The constants of Trinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrinityParameters {
    /// The part of the interface's rate that growth aims at, in thousandths: `LINK_CAPACITY` 960 Mb/s of 1 Gb/s.
    pub target_thousandths: u64,
    /// The part of the way to the target in a report, in thousandths: `TRINITY_ALPHA`.
    pub gain_thousandths: u64,
    /// The least growth in a report: `MINIMUM_RATE_INCREASE`.
    pub least_growth: Bandwidth,
}

impl TrinityParameters {
    /// Those of `Trinity/params.h`.
    pub const PUBLISHED: Self =
        Self { target_thousandths: 960, gain_thousandths: 500, least_growth: Bandwidth::from_mbps(10) };
}

/// The bytes of a flow that go first: `FLOW_THRESH`, in bytes of payload.
pub(crate) const SMALL_FLOW: u64 = 100 * 1024;

/// A pair under Trinity. The first `SMALL` bytes of a flow go first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trinity<const SMALL: u64> {
    parameters: TrinityParameters,
    target: Bandwidth,
    committed: Bandwidth,
    excess: Bandwidth,
}

impl<const SMALL: u64> Law for Trinity<SMALL> {
    const PRIORITIES: bool = true;
    const SMALL_FLOW: Bytes = Bytes::new(SMALL);

    fn partition_interval() -> Duration {
        // ElasticSwitch's.
        Duration::from_millis(50)
    }
    fn report_interval() -> Duration {
        // CONTROL_INTERVAL_US.
        Duration::from_millis(5)
    }
    fn new(_now: Instant, pair: &Pair) -> Self {
        let parameters = TrinityParameters::PUBLISHED;
        let target = scaled(pair.line, parameters.target_thousandths, 1000);
        Self { parameters, target, committed: pair.guarantee, excess: Bandwidth::ZERO }
    }
    fn set_guarantee(&mut self, _now: Instant, guarantee: Bandwidth) {
        self.committed = guarantee;
    }
    fn report(&mut self, _now: Instant, marked_percent: u8) {
        if marked_percent > 0 {
            self.excess = scaled(self.excess, 200 - u64::from(marked_percent.min(100)), 200);
            return;
        }
        let total = self.committed + self.excess;
        if total < self.target {
            let way = scaled(self.target.saturating_sub(total), self.parameters.gain_thousandths, 1000);
            self.excess += way.max(self.parameters.least_growth);
        }
    }
    fn rates(&self) -> Rates {
        Rates::Two { committed: self.committed, excess: self.excess }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mbps(rate: u64) -> Bandwidth {
        Bandwidth::from_mbps(rate)
    }

    fn new() -> Trinity<SMALL_FLOW> {
        Trinity::new(Instant::ZERO, &Pair { guarantee: mbps(94), line: mbps(1000) })
    }

    #[test]
    fn worked_example() {
        let mut law = new();
        law.report(Instant::ZERO, 0);
        assert_eq!(law.rates(), Rates::Two { committed: mbps(94), excess: mbps(433) });
        law.report(Instant::ZERO, 40);
        assert_eq!(law.excess, Bandwidth::from_bps(346_400_000));
        law.report(Instant::ZERO, 100);
        assert_eq!(law.excess, Bandwidth::from_bps(173_200_000));
    }

    #[test]
    fn growth_is_at_least_ten_until_the_target() {
        let mut law = new();
        law.excess = mbps(860);
        law.report(Instant::ZERO, 0);
        assert_eq!(law.excess, mbps(870));
        law.report(Instant::ZERO, 0);
        assert_eq!(law.excess, mbps(870));
    }

    proptest! {
        #[test]
        fn reports_never_touch_the_guarantee(reports in prop::collection::vec(0u8..=100, 0..50)) {
            let mut law = new();
            for percent in reports {
                law.report(Instant::ZERO, percent);
                let Rates::Two { committed, excess } = law.rates() else { unreachable!("two buckets") };
                prop_assert_eq!(committed, mbps(94));
                prop_assert!(committed + excess <= mbps(970));
            }
        }
    }
}
