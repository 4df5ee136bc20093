//! [`InterfaceMeter`]: how a machine's capacity is shared among its services from round trip to round trip.
//!
//! The algorithm and its source are in `datapath/interface_meter.h`. Call [`InterfaceMeter::receive`] for each
//! packet that the interface receives, with the receive meter of its service; where the shares are new, give each
//! receive meter the smaller of [`InterfaceMeter::share`] and what the brokers say. An interface that sends has no
//! receive meters: there it is [`InterfaceMeter::packet`].
//!
//! Worked example: 9 Gb/s, weights 1 and 2, both backlogged: 3 and 6 Gb/s.

use crate::layout::{
    RECEIVED_FEEDBACK, RECEIVED_SHARES, RawArrivals, RawInterfaceMeter, RawTaken, SHARE_ADD, SHARE_FILL, native,
};
use crate::parameters::{ShaperParameters, from_limit, limit};
use crate::receive_meter::ReceiveMeter;
use weir_alloc::fill::{Child, Filling};
use weir_policy::{Share, Sharing};
use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};

/// What is due after a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The interface's shares are new.
    pub shares: bool,
    /// The packet's source is to be told the receive meter's rate, once the meter has its new capacity.
    pub feedback: bool,
}

/// Meters all services at one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceMeter {
    raw: RawInterfaceMeter,
}

impl InterfaceMeter {
    /// A meter with nothing counted, for services with these shares at the interface (none is as one of weight 1). The capacity
    /// is unlimited, or from 10 kb/s to 8 Tb/s.
    pub fn new(
        now: Instant,
        parameters: &ShaperParameters,
        capacity: Bandwidth,
        sharing: Sharing,
        shares: &[Share],
    ) -> Self {
        let weights = shares.iter().map(|share| u64::from(share.weight.thousandths()));
        let minima = shares.iter().fold(0u64, |sum, share| sum.saturating_add(share.min.bps()));
        let mut raw = RawInterfaceMeter::default();
        native::weir_native_interface_meter_init(
            &mut raw,
            now.nanos(),
            &parameters.interface_law(),
            limit(capacity),
            lightest(shares).thousandths(),
            weights.sum(),
            minima,
            level(capacity, sharing, shares).bps(),
            u32::from(parameters.interface.weighs_marks),
        );
        Self { raw }
    }

    /// Counts what came at `now` at an interface that has no receive meters. `true`: the shares are new.
    #[inline]
    pub fn packet(&mut self, now: Instant, bytes: Bytes) -> bool {
        native::weir_native_interface_meter_packet(&mut self.raw, now.nanos(), bytes.get()) != 0
    }

    /// Counts, here and at the receive meter of its service, what came at `now`: `bytes` as `packets` packets that
    /// switches could mark, `marked` of them marked. The service is `entitled` to so much of the interface:
    /// [`crate::ShaperConfig::entitlements`].
    #[inline]
    pub fn receive(
        &mut self,
        meter: &mut ReceiveMeter,
        now: Instant,
        bytes: Bytes,
        packets: u32,
        marked: u32,
        committed: Bandwidth,
    ) -> Received {
        let raw = meter.raw_mut();
        let due = native::weir_native_receive_packet(
            &mut self.raw,
            raw,
            now.nanos(),
            bytes.get(),
            packets,
            marked,
            committed.bps(),
        );
        Received { shares: due & RECEIVED_SHARES != 0, feedback: due & RECEIVED_FEEDBACK != 0 }
    }

    /// Before `bytes` that came by `now` are counted: how far R matters to their service, which has this share and may receive `limit`
    /// by the brokers. Only noted after a window above the capacity.
    #[inline]
    pub fn reach(
        &mut self,
        meter: &ReceiveMeter,
        now: Instant,
        bytes: Bytes,
        share: &Share,
        limit: Bandwidth,
        sharing: Sharing,
    ) {
        let raw = &mut self.raw;
        if raw.usage <= raw.capacity || raw.rate <= raw.level {
            return;
        }
        let (min, max, weight) =
            (share.min.bps(), crate::parameters::limit(share.max.min(limit)), share.weight.thousandths());
        let (meter, now, bytes) = (meter.raw(), now.nanos(), bytes.get());
        native::weir_native_interface_meter_reach(raw, meter, now, bytes, rule(sharing), min, max, weight);
    }

    /// Where a timer takes what was counted since its last tick (`datapath/receive_tick.h`), first step, for each service that
    /// received something: notes the marks that count at the interface.
    pub fn tick_marks(&mut self, meter: &ReceiveMeter, packets: u32, marked: u32, committed: Bandwidth) {
        native::weir_native_tick_marks(&mut self.raw, meter.raw(), packets, marked, committed.bps());
    }

    /// Second step, once, with the bytes of all services, more than none. A window may close `slack` early. `true`: the
    /// shares are new.
    pub fn tick(&mut self, now: Instant, bytes: Bytes, slack: Duration) -> bool {
        native::weir_native_tick_interface(&mut self.raw, now.nanos(), bytes.get(), slack.nanos()) != 0
    }

    /// Last step, for each service, with its share of now: counts at its own meter, and notes here whether it met the own queue.
    /// `true`: R was computed anew.
    pub fn tick_meter(
        &mut self,
        meter: &mut ReceiveMeter,
        now: Instant,
        bytes: Bytes,
        packets: u32,
        marked: u32,
        slack: Duration,
    ) -> bool {
        let (now, slack) = (now.nanos(), slack.nanos());
        native::weir_native_tick_meter(&mut self.raw, meter.raw_mut(), now, bytes.get(), packets, marked, slack) != 0
    }

    /// The values of the C structure, as the kernel's programs take them.
    pub fn raw(&self) -> &RawInterfaceMeter {
        &self.raw
    }

    /// From now on the capacity is `capacity`, of the same services; what they get goes along in proportion.
    pub fn set_capacity(&mut self, capacity: Bandwidth, sharing: Sharing, shares: &[Share]) {
        let level = level(capacity, sharing, shares).bps();
        native::weir_native_interface_meter_set_capacity(&mut self.raw, limit(capacity), level);
    }

    /// The capacity in force.
    pub fn capacity(&self) -> Bandwidth {
        from_limit(self.raw.capacity)
    }

    /// What a service of the lightest weight gets beside its guarantee; unlimited without a capacity.
    pub fn rate(&self) -> Bandwidth {
        from_limit(self.raw.rate)
    }

    /// The usage of the last window.
    pub fn usage(&self) -> Bandwidth {
        Bandwidth::from_bps(self.raw.usage)
    }

    /// The capacity of a service with this share at the machine. Never above the interface's own.
    pub fn share(&self, share: &Share, sharing: Sharing) -> Bandwidth {
        let (min, max, weight) = (share.min.bps(), limit(share.max), share.weight.thousandths());
        from_limit(native::weir_native_interface_meter_share(&self.raw, rule(sharing), min, max, weight))
    }
}

impl RawArrivals {
    /// Adds what was counted since it was last taken to `taken`.
    pub fn take(&mut self, taken: &mut RawTaken) {
        native::weir_native_tick_take(self, taken);
    }
}

fn rule(sharing: Sharing) -> u32 {
    match sharing {
        Sharing::Fill => SHARE_FILL,
        Sharing::Add => SHARE_ADD,
    }
}

/// The least weight of all, 1 of none.
fn lightest(shares: &[Share]) -> Weight {
    shares.iter().map(|share| share.weight).min().unwrap_or(Weight::ONE)
}

/// What a service of the lightest weight gets beside its guarantee, or instead of it, while all want everything.
///
/// Worked example: 9.5 Gb/s, guarantees of 8 and 1 Gb/s, weights of 1: `fill` gives 8 and 1.5, the level is 1.5; `add` gives 8.25
/// and 1.25, the level is 0.25.
fn level(capacity: Bandwidth, sharing: Sharing, shares: &[Share]) -> Bandwidth {
    let children: Vec<Child> = shares.iter().map(|&share| Child::new(share, Bandwidth::UNLIMITED)).collect();
    let mut filling = Filling::default();
    filling.fill(sharing, capacity, &children);
    let lightest = u128::from(lightest(shares).thousandths());
    let of = |(share, &filled): (&Share, &Bandwidth)| {
        let beside = match sharing {
            Sharing::Fill => filled.bps(),
            Sharing::Add => filled.bps().saturating_sub(share.min.bps()),
        };
        let level = u128::from(beside) * lightest / u128::from(share.weight.thousandths());
        Bandwidth::from_bps(u64::try_from(level).unwrap_or(u64::MAX))
    };
    // Who has its maximum does not tell the level.
    let below = shares.iter().zip(&filling.shares).filter(|(share, filled)| **filled < share.max);
    below.map(of).min().unwrap_or(capacity).min(capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(whole: u32) -> Weight {
        Weight::from_thousandths(whole * 1000).expect("a weight")
    }

    /// For two services of weights 1 and 2.
    fn meter(capacity: Bandwidth) -> InterfaceMeter {
        let shares = [1, 2].map(|of| Share { weight: weight(of), ..Share::default() });
        InterfaceMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, capacity, Sharing::Fill, &shares)
    }

    fn gbps(rate: Bandwidth) -> f64 {
        (rate.bps() as f64 / 1e6).round() / 1e3
    }

    #[test]
    fn shares_by_both_rules() {
        // 9 Gb/s, weights 1, 2: 3 Gb/s per unit of weight.
        let capacity = Bandwidth::from_gbps(9);
        let meter = meter(capacity);
        assert_eq!(gbps(meter.rate()), 3.0);
        let share = |min, max, of| Share {
            min: Bandwidth::from_gbps(min),
            max: if max == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_gbps(max) },
            weight: weight(of),
        };
        for (min, max, of, fill, add) in [
            (0, 0, 1, 3.0, 3.0),
            (0, 0, 2, 6.0, 6.0),
            (1, 0, 2, 6.0, 7.0),
            (5, 0, 1, 5.0, 8.0),
            (1, 2, 2, 2.0, 2.0),
            (7, 0, 2, 7.0, 9.0),
        ] {
            let share = share(min, max, of);
            assert_eq!(gbps(meter.share(&share, Sharing::Fill)), fill, "fill {share:?}");
            assert_eq!(gbps(meter.share(&share, Sharing::Add)), add, "add {share:?}");
        }
    }

    #[test]
    fn what_others_leave_is_taken() {
        // The second service ends; the first sends what it may, from 3 up to 9 Gb/s.
        let capacity = Bandwidth::from_gbps(9);
        let mut meter = meter(capacity);
        let mut now = 0;
        for steps in 0..40 {
            // R for 1 ms in packets of 1,250 B (10^4 bits)
            let gap = 10_000_000_000_000 / meter.rate().bps();
            let mut stepped = false;
            while !stepped {
                stepped = meter.packet(Instant::from_nanos(now), Bytes::new(1250));
                now += gap;
            }
            // Gaps of whole nanoseconds are up to 0.1 % too short.
            assert!(steps < 30 || gbps(meter.rate()) > 8.99, "{} after {steps} steps", meter.rate());
        }
    }

    #[test]
    fn the_level_is_what_the_rule_gives() {
        let share = |min: u64, max: u64, of: u32| Share {
            min: Bandwidth::from_gbps(min),
            max: if max == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_gbps(max) },
            weight: weight(of),
        };
        let capacity = Bandwidth::from_mbps(9500);
        for (shares, fill, add) in [
            (vec![share(8, 0, 1), share(1, 0, 1)], 1.5, 0.25),
            (vec![share(0, 0, 1), share(0, 0, 4)], 1.9, 1.9),
            (vec![share(0, 1, 2), share(0, 0, 2)], 8.5, 8.5),
            (vec![share(0, 1, 1), share(0, 2, 1)], 9.5, 9.5),
            // Guarantees of more than there is: they count in proportion, and nothing is left.
            (vec![share(5, 0, 1), share(5, 0, 1)], 4.75, 0.0),
            (vec![], 9.5, 9.5),
        ] {
            assert_eq!(gbps(level(capacity, Sharing::Fill, &shares)), fill, "fill {shares:?}");
            assert_eq!(gbps(level(capacity, Sharing::Add, &shares)), add, "add {shares:?}");
        }
        assert_eq!(level(Bandwidth::UNLIMITED, Sharing::Fill, &[share(1, 0, 1)]), Bandwidth::UNLIMITED);
    }

    #[test]
    fn guarantees_above_the_capacity_count_in_proportion() {
        let shares = [5, 5].map(|min| Share { min: Bandwidth::from_gbps(min), ..Share::default() });
        let capacity = Bandwidth::from_mbps(9500);
        for sharing in [Sharing::Fill, Sharing::Add] {
            let meter = InterfaceMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, capacity, sharing, &shares);
            assert!(meter.share(&shares[0], Sharing::Fill).bps().abs_diff(4_750_000_000) < 10_000);
        }
    }

    #[test]
    fn without_capacity_the_services_own_limits_hold() {
        let none =
            InterfaceMeter::new(Instant::ZERO, &ShaperParameters::EYEQ, Bandwidth::UNLIMITED, Sharing::Fill, &[]);
        let share = Share { max: Bandwidth::from_gbps(2), ..Share::default() };
        assert_eq!(none.share(&share, Sharing::Fill), Bandwidth::from_gbps(2));
        assert_eq!(none.share(&Share::default(), Sharing::Add), Bandwidth::UNLIMITED);
    }
}
