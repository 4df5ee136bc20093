//! ElasticSwitch's rate allocation: at least the guarantee, and more where no packet is marked.
//!
//! Problem: a pair has a guarantee and may use what others leave, of which hosts know nothing. Approach: the rate of a
//! pair grows while its receiver reports no marks, and falls back upon marks, never below the guarantee. How fast it
//! grows decides how much of a link is used and how far others' guarantees are harmed meanwhile, so there are two:
//!
//! - [`Aggressive`]: a tenth of the way to the line in each report, by 10 Mb/s at least; back to the guarantee at any
//!   mark. The form that Trinity's authors compare with, and the only one whose code was at hand.
//! - [`Cautious`]: improvements of the paper. Marks lower the rate by three tenths of their fraction, growth is cubic
//!   with the guarantee as the weight; the rate holds after marks for a time that is inversely proportional to the
//!   guarantee (Hold-Increase), and the growth above the guarantee is multiplied by guarantee / rate (Rate-Caution).
//!
//! The headroom of a tenth of each link that the paper leaves unreserved is a matter of the placement, not of this law.
//!
//! Worked example: guarantee 100 Mb/s, line 1 Gb/s. Reports without marks give 186, 263.4 Mb/s; a mark 100 again.
//!
//! Source: ElasticSwitch (SIGCOMM 2013) §3.2; github.com/baiwei0427/Trinity, built without TRINITY.

use crate::cubic::Cubic;
use crate::law::{Law, Pair, Rates, scaled};
use weir_units::{Bandwidth, Duration, Instant};

/// The time between two partitions. ElasticSwitch §4, as remembered: 50 ms.
const PARTITION: Duration = Duration::from_millis(50);

/// The constants of [`Aggressive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AggressiveParameters {
    /// The part of the interface's rate that growth aims at, in thousandths: `LINK_CAPACITY` 960 Mb/s of 1 Gb/s.
    pub target_thousandths: u64,
    /// The part of the way to the target in a report, in thousandths: `ELASTICSWITCH_ALPHA`.
    pub gain_thousandths: u64,
    /// The least growth in a report: `MINIMUM_RATE_INCREASE`.
    pub least_growth: Bandwidth,
}

impl AggressiveParameters {
    /// Those of `Trinity/params.h`.
    pub const PUBLISHED: Self =
        Self { target_thousandths: 960, gain_thousandths: 100, least_growth: Bandwidth::from_mbps(10) };
}

/// A pair under the aggressive rate allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggressive {
    parameters: AggressiveParameters,
    target: Bandwidth,
    guarantee: Bandwidth,
    rate: Bandwidth,
}

impl Law for Aggressive {
    fn partition_interval() -> Duration {
        PARTITION
    }
    fn report_interval() -> Duration {
        // CONTROL_INTERVAL_US.
        Duration::from_millis(5)
    }
    fn new(_now: Instant, pair: &Pair) -> Self {
        let parameters = AggressiveParameters::PUBLISHED;
        let target = scaled(pair.line, parameters.target_thousandths, 1000);
        Self { parameters, target, guarantee: pair.guarantee, rate: pair.guarantee }
    }
    fn set_guarantee(&mut self, _now: Instant, guarantee: Bandwidth) {
        self.guarantee = guarantee;
        self.rate = self.rate.max(guarantee);
    }
    fn report(&mut self, _now: Instant, marked_percent: u8) {
        if marked_percent > 0 {
            self.rate = self.guarantee;
        } else if self.rate < self.target {
            let way = scaled(self.target.saturating_sub(self.rate), self.parameters.gain_thousandths, 1000);
            self.rate += way.max(self.parameters.least_growth);
        }
    }
    fn rates(&self) -> Rates {
        Rates::One(self.rate)
    }
}

/// The constants of [`Cautious`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CautiousParameters {
    /// α, in thousandths: the rate falls by α times the marked fraction. Seawall's form; CUBIC's decrease (RFC 9438
    /// §4.6).
    pub decrease_thousandths: u64,
    /// A pair with the guarantee of the whole line holds its rate for this time after marks; one with a tenth of it for
    /// ten times as long. One report; the paper's value was not at hand.
    pub hold: Duration,
    /// The longest time of holding. Ours: a second is long for a guarantee of a hundredth of the line.
    pub longest_hold: Duration,
}

impl CautiousParameters {
    /// The improvements of ElasticSwitch §3.2 with values of ours.
    pub const CHOSEN: Self =
        Self { decrease_thousandths: 300, hold: Duration::from_millis(15), longest_hold: Duration::from_secs(1) };
}

/// A pair under the cautious rate allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cautious {
    parameters: CautiousParameters,
    line: Bandwidth,
    guarantee: Bandwidth,
    rate: Bandwidth,
    growth: Cubic,
    /// The value of `growth` at the last report.
    grown: Bandwidth,
    /// The end of Hold-Increase.
    held_until: Instant,
}

impl Cautious {
    fn hold(&self) -> Duration {
        let hold = u128::from(self.parameters.hold.nanos()) * u128::from(self.line.bps());
        let hold = hold / u128::from(self.guarantee.bps().max(1));
        Duration::from_nanos(u64::try_from(hold).unwrap_or(u64::MAX)).min(self.parameters.longest_hold)
    }
}

impl Law for Cautious {
    fn partition_interval() -> Duration {
        PARTITION
    }
    fn report_interval() -> Duration {
        // ElasticSwitch §4, as remembered: 15 ms.
        Duration::from_millis(15)
    }
    fn new(now: Instant, pair: &Pair) -> Self {
        let rate = pair.guarantee.min(pair.line);
        Self {
            parameters: CautiousParameters::CHOSEN,
            line: pair.line,
            guarantee: pair.guarantee,
            rate,
            growth: Cubic::new(now, rate, rate, pair.guarantee),
            grown: rate,
            held_until: now,
        }
    }
    fn set_guarantee(&mut self, now: Instant, guarantee: Bandwidth) {
        self.guarantee = guarantee;
        self.rate = self.rate.max(guarantee);
        self.growth.set_weight(now, guarantee);
    }
    fn report(&mut self, now: Instant, marked_percent: u8) {
        if marked_percent > 0 {
            let before = self.rate;
            let lost = u64::from(marked_percent.min(100)) * self.parameters.decrease_thousandths;
            self.rate = scaled(before, 100_000 - lost, 100_000).max(self.guarantee);
            self.held_until = now + self.hold();
            self.growth = self.growth.congested(self.held_until, self.rate, before, self.guarantee);
            self.grown = self.growth.rate(self.held_until);
        } else if now >= self.held_until {
            let grown = self.growth.rate(now);
            let growth = grown.saturating_sub(self.grown);
            self.grown = grown;
            // Rate-Caution.
            let rate = self.rate.max(self.guarantee).bps().max(1);
            self.rate = (self.rate + scaled(growth, self.guarantee.bps(), rate)).min(self.line.max(self.guarantee));
        }
    }
    fn rates(&self) -> Rates {
        Rates::One(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mbps(rate: u64) -> Bandwidth {
        Bandwidth::from_mbps(rate)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    const PAIR: Pair = Pair { guarantee: Bandwidth::from_mbps(100), line: Bandwidth::from_gbps(1) };

    #[test]
    fn aggressive_worked_example() {
        let mut law = Aggressive::new(at(0), &PAIR);
        law.report(at(5), 0);
        assert_eq!(law.rate, mbps(186));
        law.report(at(10), 0);
        assert_eq!(law.rate, Bandwidth::from_bps(263_400_000));
        law.report(at(15), 1);
        assert_eq!(law.rate, mbps(100));
        law.rate = mbps(955);
        [20, 25].into_iter().for_each(|millis| law.report(at(millis), 0));
        assert_eq!(law.rate, mbps(965));
    }

    #[test]
    fn cautious_rate_holds_inversely_to_the_guarantee() {
        let held = |guarantee: u64| {
            let mut law = Cautious::new(at(0), &Pair { guarantee: mbps(guarantee), ..PAIR });
            law.rate = mbps(900);
            law.report(at(0), 100);
            assert_eq!(law.rate, mbps(630));
            let rate = law.rate;
            (1..).map(|tick| tick * 15).find(|millis| {
                law.report(at(*millis), 0);
                law.rate > rate
            })
        };
        // 15 ms · 1000 / guarantee, and the report after that.
        assert_eq!([held(500), held(100), held(50)], [Some(45), Some(165), Some(315)]);
    }

    #[test]
    fn cautious_growth_is_slower_above_the_guarantee() {
        let mut law = Cautious::new(at(0), &PAIR);
        let mut rates = Vec::new();
        for tick in 1..=60 {
            law.report(at(tick * 15), 0);
            rates.push(law.rate);
        }
        // Without Rate-Caution: 100 + 64 · 100 · 0.9³ = 4,765 Mb/s, so the line.
        assert!(rates.is_sorted() && rates[0] > mbps(100));
        let after = rates[59];
        assert!(after > mbps(500) && after < mbps(1000), "{after}");
    }

    /// Partitions follow the usage of pairs, so guarantees change a little in each.
    #[test]
    fn cautious_growth_continues_when_guarantees_change() {
        let grown = |guarantees: [u64; 2]| {
            let mut law = Cautious::new(at(0), &PAIR);
            for tick in 1..=60u64 {
                law.set_guarantee(at(tick * 15), mbps(guarantees[(tick * 15 / 50 % 2) as usize]));
                law.report(at(tick * 15), 0);
            }
            law.rate.bps() / 1_000_000
        };
        let (constant, changing) = (grown([100, 100]), grown([100, 101]));
        assert!(changing >= constant && changing <= constant + constant / 20, "{changing} of {constant}");
    }

    /// Rates under a sequence of partitions and reports; a step is of 5 ms.
    fn rates<L: Law>(steps: &[(u8, Option<u64>)]) -> Vec<(Bandwidth, Bandwidth)> {
        let mut law = L::new(at(0), &PAIR);
        let mut guarantee = PAIR.guarantee;
        let step = |(tick, (percent, partition)): (u64, &(u8, Option<u64>))| {
            if let Some(rate) = partition {
                guarantee = mbps(*rate);
                law.set_guarantee(at(tick * 5), guarantee);
            }
            law.report(at(tick * 5), *percent);
            let Rates::One(rate) = law.rates() else { unreachable!("one bucket") };
            (rate, guarantee)
        };
        (1..).zip(steps).map(step).collect()
    }

    proptest! {
        #[test]
        fn rate_is_never_below_the_guarantee(
            steps in prop::collection::vec(
                (prop_oneof![Just(0u8), 0u8..=100], prop::option::weighted(0.1, 1u64..900)),
                1..200,
            ),
        ) {
            for (rate, guarantee) in rates::<Aggressive>(&steps).into_iter().chain(rates::<Cautious>(&steps)) {
                prop_assert!(rate >= guarantee, "{rate} of {guarantee}");
                prop_assert!(rate <= mbps(1000).max(guarantee), "{rate}");
            }
        }
    }
}
