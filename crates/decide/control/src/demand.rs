//! Demand estimation: turns a meter's counters into the demand of a service.
//!
//! A service under a limit cannot use more than the limit, so its usage hides its demand. Usage is
//! the meter's increase over the time since the last reading. The rules:
//!
//! - **Backlogged**: usage of at least nine tenths of the limit gives an unlimited demand. Below
//!   that the service has room to grow under its limit, so its usage is its demand.
//! - **Just lowered**: in the period after a limit was set or lowered sharply, half of the limit is
//!   enough. Senders approach a lowered limit from below (losses, timeouts, overshoot of the rate
//!   law); lifting the limit for that period would make it oscillate.
//! - **Bursts**: a meter counts a sender's burst at once, so a period may show up to [`BURST`] too
//!   little. Usage that would fill the limit with one more burst counts as backlogged from half of
//!   the limit on, where the limit admits at least one burst in a period.
//! - **A few packets**: where the limits on sending admit less than ten packets in a period, one packet
//!   is more than the tenth that decides. Packets that wait in the host then show the backlog.
//! - **Throttled by the rate law**: a receiving service under a limit, whose fair rate R is below its
//!   capacity by a tenth, is backlogged, however little it received: R rises to the capacity while
//!   less than that arrives, so some sender would send more.
//! - **Throttled by the network**: a service with a quarter of its packets marked and a fair rate R
//!   below its usage has a demand of one and a half times its usage, until fewer than a sixteenth
//!   are marked. It counts as backlogged from half of its limit on.
//!
//! The cost: up to a tenth of a limit and one burst in a period (half a megabit per second) can
//! stay unused, where a service demands between nine tenths of its limit and all of it.
//!
//! Worked example: limit 100 Mb/s. A usage of 93 Mb/s is backlogged. A usage of 80 Mb/s is a demand
//! of 80 Mb/s; it is below the share, so the limit is lifted. Limit 8 Mb/s, a period of 250 ms, 202
//! kB used: 6.5 Mb/s, but 8.6 Mb/s with another 65 kB, so backlogged.
//!
//! Source: fill for a point that Parley §3.2.2 leaves open. Reasons, alternatives and measurements:
//! `docs/design/demand.md`.

use crate::rack_broker::NetworkReading;
use crate::rate::rounded;
use crate::report::Demand;
use weir_alloc::tree::VARIATION_PART;
use weir_units::{Bandwidth, Bytes};

/// Tenths of a limit from which a service counts as backlogged. The last tenth leaves room for a
/// transport's own variation below a limit and for headers.
pub const BACKLOGGED_TENTHS: u64 = 9;

/// The same in the period after the limit was lowered, and in every period with a [`BURST`] added.
/// Machines behind an uplink at 110 % load receive 70 to 80 % of a new limit in its first second
/// and all of it from the next on (`docs/design/demand.md`); half leaves room below that.
pub const BACKLOGGED_TENTHS_AT_FIRST: u64 = 5;

/// The same while the network throttles the service. R settles where the unused part of the
/// capacity matches the marked part, α(C - y)/C = β/2 with α = 1/2. An uplink at 110 % load marks
/// 47 % of the packets, so a service with unlimited demand still uses 53 % of its limit (measured:
/// 54 to 58 %, `docs/design/demand.md`).
pub const BACKLOGGED_TENTHS_THROTTLED: u64 = 5;

/// The most that a meter counts at once: the largest packet before segmentation or after
/// reassembly. A UDP socket with Linux's default buffer (212,992 bytes) sends about as much at
/// once: it continues when half of the buffer is free. A meter read every 250 ms under a limit of 8
/// Mb/s showed 6.5 and 8.65 Mb/s: readings 67 kB apart.
pub const BURST: Bytes = Bytes::new(65_536);

/// Whether a limit fell from `before` to `now` so sharply that the next period shows the change
/// instead of the demand: by more than a tenth, the variation of a steady share.
pub fn is_lowered(before: Bandwidth, now: Bandwidth) -> bool {
    u128::from(now.bps()) * 10 < u128::from(before.bps()) * 9
}

/// One packet in this many marked means that the network throttles the service: the marking rate of
/// an uplink at nearly 90 % load.
const THROTTLED_PART: u64 = 4;
/// A throttled service stays so while one packet in this many is marked, the rate above 75 % load.
/// Demands that are too large by half leave at most half of the throttled usage unused. Where that
/// is a quarter of the uplink or less, the limits stay. With a threshold of a quarter, limits that
/// leave an eighth of the uplink unused would toggle every other period.
const RELIEVED_PART: u64 = 16;
/// Demand of a throttled service in percent of its usage. Where usage is a part u of a cap and a
/// part f of the machines is silent, the others report (1 - f)·u of the cap, and limits appear from
/// a factor of 1 / ((1 - f)·u) on. With u = 0.97 (measured), 1.5 covers f up to 0.31: three of ten
/// machines, not four. A larger factor would cover more silent machines, and would cost other
/// services more where the queue is elsewhere.
const THROTTLED_PERCENT: u128 = 150;

/// The packets of a service between two readings of its meter that switches could mark, and those that they marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    packets: u64,
    marked: u64,
}

impl Marks {
    /// The marks between two readings.
    pub fn between(before: &NetworkReading, after: &NetworkReading) -> Self {
        // A restarted meter counts from zero.
        let since = |before: u64, after: u64| if after >= before { after - before } else { after };
        let packets = since(before.packets, after.packets);
        Self { packets, marked: since(before.marked, after.marked).min(packets) }
    }

    /// Whether the network throttled a service that received `usage` while R was `rate`; `already` if it was
    /// throttled in the period before.
    pub fn throttle(self, rate: Option<Bandwidth>, usage: Bandwidth, already: bool) -> bool {
        let part = if already { RELIEVED_PART } else { THROTTLED_PART };
        self.packets > 0 && self.marked.saturating_mul(part) >= self.packets && rate.is_some_and(|rate| rate < usage)
    }

    /// The lowest capacity C under which the rate law does not throttle a service that uses this much: the law keeps it
    /// to the unmarked part of C, and a steady usage varies by an eighth. Zero where no packet was marked.
    ///
    /// The unmarked part is estimated by Laplace's rule of succession, since a few packets show little: a third of one
    /// packet, which was marked. At most [twice](MOST_FOR_MARKS) the capacity without marks.
    ///
    /// Worked example: 800 Mb/s, of which half of the packets are marked: 1.8 Gb/s.
    pub fn capacity_for(self, usage: Bandwidth) -> Bandwidth {
        if self.marked == 0 {
            return Bandwidth::ZERO;
        }
        let varied = u128::from(usage.bps()) * u128::from(VARIATION_PART + 1) / u128::from(VARIATION_PART);
        let (all, unmarked) = (u128::from(self.packets) + 2, u128::from(self.packets - self.marked) + 1);
        let capacity = (varied * all / unmarked).min(varied * MOST_FOR_MARKS);
        Bandwidth::from_bps(u64::try_from(capacity).unwrap_or(u64::MAX))
    }
}

/// The most by which marks raise a ceiling. An uplink at 110 % load marks 47 % of the packets, so a lasting queue
/// leaves half of a ceiling ([`BACKLOGGED_TENTHS_THROTTLED`]). When marks end, services may use all of their ceilings
/// until the next reading.
const MOST_FOR_MARKS: u128 = 2;

/// Whether the rate law throttles the senders of a service under a `limit` of the brokers. R is computed
/// while packets arrive: without traffic it is that of an earlier load.
pub fn is_rate_lowered(reading: &NetworkReading, limit: Bandwidth) -> bool {
    !limit.is_unlimited() && reading.rate.is_some_and(|rate| is_lowered(reading.capacity, rate))
}

/// The demand of a throttled service under a runtime `limit`: [`Demand::usage`] exceeds the
/// measured usage.
pub fn throttled_demand(demand: Demand, limit: Bandwidth) -> Demand {
    let more = u128::from(demand.usage.bps()) * THROTTLED_PERCENT / 100;
    // The usage is rounded already, so the limit is rounded too: otherwise half would compare as
    // less.
    let backlogged = demand.backlogged || reaches(demand.usage, rounded(limit), BACKLOGGED_TENTHS_THROTTLED);
    Demand { usage: rounded(Bandwidth::from_bps(u64::try_from(more).unwrap_or(u64::MAX))), backlogged }
}

/// Whether usage reached this many tenths of a limit. An unlimited rate is never reached.
fn reaches(usage: Bandwidth, limit: Bandwidth, tenths: u64) -> bool {
    !limit.is_unlimited() && u128::from(usage.bps()) * 10 >= u128::from(limit.bps()) * u128::from(tenths)
}

/// Whether transferred bytes are [`BACKLOGGED_TENTHS`] of those that the limits admitted.
pub fn fills(bytes: Bytes, admitted: Bytes) -> bool {
    u128::from(bytes.get()) * 10 >= u128::from(admitted.get()) * u128::from(BACKLOGGED_TENTHS)
}

/// The same with one more [`BURST`], which the meter may have counted before or count later; at
/// least [`BACKLOGGED_TENTHS_AT_FIRST`] without it. Where the limits admit less than a burst, it is
/// left out.
pub fn fills_with_burst(bytes: Bytes, admitted: Bytes) -> bool {
    let burst = if admitted < BURST { Bytes::ZERO } else { BURST };
    let least = u128::from(admitted.get()) * u128::from(BACKLOGGED_TENTHS_AT_FIRST);
    fills(bytes + burst, admitted) && u128::from(bytes.get()) * 10 >= least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_on_a_quarter_of_packets_mean_throttled() {
        let reading = |packets, marked, mbps| {
            let rate = Some(Bandwidth::from_mbps(mbps));
            NetworkReading { packets, marked, rate, ..NetworkReading::default() }
        };
        let usage = Bandwidth::from_mbps(1000);
        let throttled = |before: &NetworkReading, after: &NetworkReading, already| {
            Marks::between(before, after).throttle(after.rate, usage, already)
        };
        let before = reading(1000, 900, 10);
        assert!(throttled(&before, &reading(2000, 1150, 10), false));
        assert!(!throttled(&before, &reading(2000, 1149, 10), false));
        // A single sender is not throttled by an R of the whole usage.
        assert!(!throttled(&before, &reading(2000, 1150, 1000), false));
        assert!(!throttled(&before, &NetworkReading { rate: None, ..reading(2000, 1900, 10) }, false));
        assert!(!throttled(&before, &before, false));
        // A throttled service stays throttled down to a sixteenth of marked packets.
        assert!(throttled(&before, &reading(2600, 1000, 10), true));
        assert!(!throttled(&before, &reading(2600, 999, 10), true));
        assert!(!throttled(&before, &reading(2600, 1000, 10), false));
        // Restarted: 100 of 200.
        assert!(throttled(&before, &reading(200, 100, 10), false));
        let demand = throttled_demand(Demand { usage, backlogged: false }, Bandwidth::UNLIMITED);
        assert_eq!(demand, Demand { usage: rounded(Bandwidth::from_mbps(1500)), backlogged: false });
    }

    #[test]
    fn capacity_passes_a_usage_beside_its_marks() {
        let capacity = |packets, marked, mbps| {
            Marks { packets, marked }.capacity_for(Bandwidth::from_mbps(mbps)).bps() / 1_000_000
        };
        // A thousand and two of 751, so 0.07 % more than four thirds of 900.
        assert_eq!(capacity(1_000, 250, 800), 1_200);
        assert_eq!(capacity(1_000, 0, 800), 0, "the law throttles nothing");
        assert_eq!(capacity(0, 0, 0), 0);
        for (packets, marked) in [(1_000, 500), (1_000, 1_000), (1, 1)] {
            assert!((1_798..=1_800).contains(&capacity(packets, marked, 800)), "{marked} of {packets}");
        }
    }

    #[test]
    fn half_of_a_limit_counts_as_backlogged_while_throttled() {
        let usage = Bandwidth::from_mbps(1000);
        let under = |mbps| throttled_demand(Demand { usage, backlogged: false }, Bandwidth::from_mbps(mbps));
        assert!(under(2000).backlogged && !under(2001).backlogged);
        assert!(throttled_demand(Demand { usage, backlogged: true }, Bandwidth::from_mbps(2001)).backlogged);
    }
}
