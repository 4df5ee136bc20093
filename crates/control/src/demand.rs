//! From a meter's counters to a demand.
//!
//! Problem: a service that is held by a limit can never use more than the limit, so its usage hides what it
//! wants; the paper does not say how it estimates demands. Approach: usage is the meter's increase over the
//! time since the last reading; a service that used at least nine tenths of its limit counts as backlogged,
//! with a demand without bound. Below that it has room to grow under its own limit, so its usage is its demand.
//!
//! In the period after its limit was set or much lowered, half of the limit is enough: senders have just been
//! slowed from far above, and come back to the limit from below (lost packets, timeouts, a rate law that
//! overshoots). Were the limit lifted because of that period, it would go on and off for good.
//!
//! What the network holds back hides its demand too. Above the capacity of a rack's uplink its queue marks, receive meters
//! lower R for it, and what arrives may stay just below a cap however much is wanted: nobody would be limited, and senders would
//! go on losing packets. So a service of whose packets a quarter was marked, and whose R is below its usage (so that at least two
//! senders can be held by it), has a demand of half more than its usage. Not more: the queue may be far away, at what no
//! broker here can share, and capacity kept for such a demand is lost to the others. It has it until fewer than a sixteenth are marked: the
//! limits lower what the queue is offered, and must not end what set them.
//!
//! Marks slow the senders under a limit too, while other machines of the rack send without one (their brokers crashed). Then half
//! more than the usage may be less than the limit, so that all demands fit below the cap and the limits are lifted in the
//! middle of the overload. So what is still held back counts as backlogged from half of its limit on. Not from
//! nothing on: where the queue is far away, others would lose all of a limit that is not used, for as long as it marks. From half on
//! they lose at most as much as the service uses.
//!
//! A meter counts in lumps: whatever a sender hands to its interface at once. So a period may show [`BURST`] less than was let through,
//! which in a short period or under a low limit is much of it. What would fill the limit with one lump more counts as backlogged, too,
//! from half of the limit on. Not where the limit lets less than a lump through in a period: there it would be half of every
//! limit that stays unused, and senders in lumps are with_burst in one period and not in the next all the same.
//!
//! The price: a service that wants between nine tenths of its limit and the whole keeps a limit that it does not
//! fill, so up to a tenth of a limit and a lump in a period (half a megabit per second) can stay unused.
//!
//! Worked example: limit 100 Mb/s. 93 Mb/s used: backlogged. 80 Mb/s used: a demand of 80 Mb/s, and since that
//! is below its share the limit is lifted. Limit 8 Mb/s, a period of a quarter of a second, 202 kB used: that is 6.5 Mb/s, but with
//! 65 kB more 8.6 Mb/s, so backlogged.
//!
//! Measured, for the constants below. An uplink of 80 Gb/s that is offered 70, 75, 80, 85, 90 and 110 % of its rate marks 2, 5, 10, 20, 43
//! and 47 of a hundred packets:
//!
//! ```text
//! weir sim scenarios/parley-table3.scenario.yaml --set enforcement=shaper --set duration=1s --sweep seed=1..3 \
//!     --sweep 'traffic[1].rate=44.8Gb/s,48.8Gb/s,52.8Gb/s,56.8Gb/s,60.8Gb/s,76.8Gb/s' --report out/marks
//! awk -F, '/^spine.->r9/ { print $6 / $4, FILENAME }' out/marks/points/*/network/links.csv
//! ```
//!
//! Source: fill for a point that Parley §3.2.2 leaves open; nine tenths leaves room for a transport's own
//! variation below a limit and for headers.

use crate::rack_broker::NetworkReading;
use crate::rate::rounded;
use crate::report::Demand;
use weir_units::{Bandwidth, Bytes, Duration};

/// Tenths of a limit from which a service counts as backlogged.
pub const BACKLOGGED_TENTHS: u64 = 9;

/// The same in the period after the limit was lowered, and in every period with a [`BURST`] besides. Where an uplink is offered 110 %, with
/// retransmission timeouts of 200 ms, some machines receive 70 to 80 % of a limit of 4.9 Gb/s in its first second, and all of it from the
/// next on: `rx_bytes` and `rx_capacity_bps` of `b` at `m87` and `m88` in `out/over/network/meters.csv`, after `weir sim
/// scenarios/parley-table3.scenario.yaml --set 'traffic[1].rate=76.8Gb/s' --set duration=4s --report out/over`. Half leaves room below
/// that.
pub const BACKLOGGED_TENTHS_AT_FIRST: u64 = 5;

/// The same while the network holds the service back. R comes to rest where the part of its capacity that is not used is the part of
/// packets that are marked, α(C - y)/C = β/2 with an α of one half. An uplink that is offered 110 % marks 47 of a hundred, as measured
/// above, so a service that wants all of its limit still uses 53 % of it. In the run of table 3 with the brokers of two machines
/// of ten crashed, the other eight use 54 to 58 % of a limit of 6.4 Gb/s: `weir sim scenarios/parley-table3.scenario.yaml --set enforcement=parley
/// --set 'traffic[1].rate=76.8Gb/s' --set 'events=[{ at: 1ms, do: crash, broker: [m81, m82] }]' --set duration=8s --report out/crashed`,
/// `rx_bytes` and `rx_capacity_bps` of `b` in `out/crashed/network/meters.csv`, from 4 s on.
pub const BACKLOGGED_TENTHS_THROTTLED: u64 = 5;

/// What a meter may count at once, in bytes: a packet before its segmentation, or after segments were put together, at its largest. A socket of
/// UDP with Linux's default buffer (212,992 bytes) sends about as much at once: it goes on when half of the buffer is free again. Seen by a
/// meter under a limit of 8 Mb/s, 250 ms after 250 ms: 6.5 or 8.65 Mb/s, one time 67 kB more than the other.
pub const BURST: Bytes = Bytes::new(65_536);

/// Whether `now` holds a service so much lower than `before` that the next period shows the change, not the demand: by more than
/// a tenth, which is what a steady share varies by.
pub fn is_lowered(before: Bandwidth, now: Bandwidth) -> bool {
    u128::from(now.bps()) * 10 < u128::from(before.bps()) * 9
}

/// One of so many packets marked in a period says that the network holds a service back: an uplink that is offered nearly
/// nine tenths of its rate, as measured above.
const THROTTLED_PART: u64 = 4;
/// One of so many marked goes on holding it back: more than three quarters. Limits made of demands that are too large by half leave
/// unused at most half of what those use that they do not hold; where that is a quarter of the uplink or less, they stay.
/// Were a quarter of the packets the end of it, with an eighth of the uplink unused they would come and go every other period.
const RELIEVED_PART: u64 = 16;
/// What is held back has a demand of so many hundredths of its usage. Where usage stays at a part u of a cap and a part f of the
/// machines does not speak, those that do tell (1 - f)·u of the cap, so it is found from a factor of 1 / ((1 - f)·u) on. A cap of 60 Gb/s
/// sees 57 to 60 (`weir sim scenarios/parley-table3.scenario.yaml --set enforcement=shaper --set 'traffic[1].rate=76.8Gb/s'
/// --set duration=2s --json | jq '.samples[10:][].bandwidth_bps | add'`), 0.97 and more in the mean, so 1.5 is enough for f up to 0.31: three of ten
/// machines, not four. More would find the cap with more silent, and cost others more where the queue is elsewhere: of what a
/// service uses, they may lose the half that it does not use.
const THROTTLED_PERCENT: u128 = 150;

/// Whether the network held a service back that received `usage` between two readings of its meter; `already` if it did before.
pub fn is_throttled(before: &NetworkReading, after: &NetworkReading, usage: Bandwidth, already: bool) -> bool {
    // A meter that was started anew counts from zero.
    let since = |before: u64, after: u64| if after >= before { after - before } else { after };
    let (packets, marked) = (since(before.packets, after.packets), since(before.marked, after.marked));
    let part = if already { RELIEVED_PART } else { THROTTLED_PART };
    packets > 0 && marked.saturating_mul(part) >= packets && after.rate.is_some_and(|rate| rate < usage)
}

/// The demand of what the network held back under a runtime `limit`: [`Demand::usage`] is then more than was used.
pub fn throttled_demand(demand: Demand, limit: Bandwidth) -> Demand {
    let more = u128::from(demand.usage.bps()) * THROTTLED_PERCENT / 100;
    // The usage is rounded already: half of a limit is not less than half.
    let backlogged = demand.backlogged || fills(demand.usage, rounded(limit), BACKLOGGED_TENTHS_THROTTLED);
    Demand { usage: rounded(Bandwidth::from_bps(u64::try_from(more).unwrap_or(u64::MAX))), backlogged }
}

/// Whether so many tenths of a limit were used. Nothing fills what is no limit.
fn fills(usage: Bandwidth, limit: Bandwidth, tenths: u64) -> bool {
    !limit.is_unlimited() && u128::from(usage.bps()) * 10 >= u128::from(limit.bps()) * u128::from(tenths)
}

/// What a meter's step from `before` to `after` in `time` says, under a limit that was in force; `lowered` if it [`is_lowered`]
/// since the reading before.
///
/// A counter that went back was started anew: all it shows is new. Without time there is no usage. The usage is
/// rounded to what the wire carries, so that its machine computes with the number that it tells.
pub fn estimate(before: Bytes, after: Bytes, time: Duration, limit: Bandwidth, lowered: bool) -> Demand {
    let bytes = if after >= before { after - before } else { after };
    let usage = Bandwidth::from_transfer(bytes, time);
    let burst = if limit.bytes_in(time) < BURST { Bytes::ZERO } else { BURST };
    let with_burst = Bandwidth::from_transfer(bytes + burst, time);
    let nearly_full = lowered || fills(with_burst, limit, BACKLOGGED_TENTHS);
    let backlogged = !time.is_zero() && fills(usage, limit, BACKLOGGED_TENTHS_AT_FIRST) && nearly_full;
    Demand { usage: rounded(usage), backlogged }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn used(megabits: u64, limit: Bandwidth) -> Demand {
        estimate(Bytes::new(1_000), Bytes::new(1_000 + megabits * 125_000), SECOND, limit, false)
    }

    #[test]
    fn usage_below_nine_tenths_of_the_limit_is_the_demand() {
        let limit = Bandwidth::from_mbps(100);
        let reported = |mbps| rounded(Bandwidth::from_mbps(mbps));
        // With a lump, 89.5 Mb/s.
        assert_eq!(used(89, limit), Demand { usage: reported(89), backlogged: false });
        assert_eq!(used(90, limit), Demand { usage: reported(90), backlogged: true });
        assert_eq!(used(90, limit).bandwidth(), Bandwidth::UNLIMITED);
        assert_eq!(used(5_000, Bandwidth::UNLIMITED).bandwidth(), reported(5_000));
    }

    #[test]
    fn uncounted_burst_does_not_hide_a_backlog() {
        let limit = Bandwidth::from_mbps(8);
        let quarter = |bytes| estimate(Bytes::ZERO, Bytes::new(bytes), Duration::from_millis(250), limit, false);
        // Worked example, as measured; and the bounds: nine tenths of 250,000 bytes less a lump.
        assert!(quarter(202_000).backlogged && !quarter(225_000 - 65_536 - 1).backlogged);
        assert!(quarter(225_000 - 65_536).backlogged);
        // Of 66 kB in a second half has to be with_burst; of less, nine tenths.
        let low = |kbps: u64, bytes| {
            estimate(Bytes::ZERO, Bytes::new(bytes), SECOND, Bandwidth::from_bps(kbps * 1_000), false)
        };
        assert!(low(528, 33_000).backlogged && !low(528, 32_999).backlogged && !low(528, 0).backlogged);
        assert!(low(520, 58_500).backlogged && !low(520, 58_499).backlogged);
    }

    #[test]
    fn half_of_a_just_lowered_limit_counts_as_backlogged() {
        let (gigabit, megabits) = (Bandwidth::from_gbps(1), Bandwidth::from_mbps);
        assert!(is_lowered(Bandwidth::UNLIMITED, gigabit) && is_lowered(gigabit, megabits(899)));
        assert!(!is_lowered(gigabit, megabits(900)) && !is_lowered(megabits(900), gigabit));
        assert!(!is_lowered(Bandwidth::UNLIMITED, Bandwidth::UNLIMITED));
        let used = |megabits: u64| {
            estimate(Bytes::ZERO, Bytes::new(megabits * 125_000), SECOND, Bandwidth::from_mbps(100), true)
        };
        assert!(used(50).backlogged && !used(49).backlogged);
    }

    #[test]
    fn marks_on_a_quarter_of_packets_mean_throttled() {
        let reading =
            |packets, marked, mbps| NetworkReading { packets, marked, rate: Some(Bandwidth::from_mbps(mbps)) };
        let usage = Bandwidth::from_mbps(1000);
        let before = reading(1000, 900, 10);
        assert!(is_throttled(&before, &reading(2000, 1150, 10), usage, false));
        assert!(!is_throttled(&before, &reading(2000, 1149, 10), usage, false));
        // One sender alone is not held by an R of all that came.
        assert!(!is_throttled(&before, &reading(2000, 1150, 1000), usage, false));
        assert!(!is_throttled(&before, &NetworkReading { rate: None, ..reading(2000, 1900, 10) }, usage, false));
        assert!(!is_throttled(&before, &before, usage, false));
        // What was held back before is until fewer than a sixteenth are marked.
        assert!(is_throttled(&before, &reading(2600, 1000, 10), usage, true));
        assert!(!is_throttled(&before, &reading(2600, 999, 10), usage, true));
        assert!(!is_throttled(&before, &reading(2600, 1000, 10), usage, false));
        // Started anew: 100 of 200.
        assert!(is_throttled(&before, &reading(200, 100, 10), usage, false));
        let demand = throttled_demand(Demand { usage, backlogged: false }, Bandwidth::UNLIMITED);
        assert_eq!(demand, Demand { usage: rounded(Bandwidth::from_mbps(1500)), backlogged: false });
    }

    #[test]
    fn half_of_a_limit_counts_as_backlogged_while_throttled() {
        let usage = Bandwidth::from_mbps(1000);
        let under = |mbps| throttled_demand(Demand { usage, backlogged: false }, Bandwidth::from_mbps(mbps));
        assert!(under(2000).backlogged && !under(2001).backlogged);
        assert!(throttled_demand(Demand { usage, backlogged: true }, Bandwidth::from_mbps(2001)).backlogged);
    }

    #[test]
    fn restarted_counter_counts_from_zero() {
        let demand = estimate(Bytes::new(1_000_000_000), Bytes::new(125_000), SECOND, Bandwidth::UNLIMITED, false);
        assert_eq!(demand.usage, rounded(Bandwidth::from_mbps(1)));
    }

    #[test]
    fn zero_time_gives_zero_demand() {
        let demand = estimate(Bytes::ZERO, Bytes::new(125_000), Duration::ZERO, Bandwidth::from_mbps(1), false);
        assert_eq!(demand, Demand::default());
    }
}
