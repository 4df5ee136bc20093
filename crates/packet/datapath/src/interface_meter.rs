//! [`InterfaceMeter`]: shares an interface's capacity among its services, from round trip to round trip.
//!
//! The algorithm and its source are in `datapath/interface_meter.h`. A tick counts what all services received
//! ([`InterfaceMeter::tick`]), and then sets the capacity of each receive meter to the smaller of
//! [`InterfaceMeter::share`] and the brokers' limit. A sending interface has no receive meters; call
//! [`InterfaceMeter::packet`] there.
//!
//! Worked example: 9 Gb/s, weights 1 and 2, both backlogged: 3 and 6 Gb/s.

use crate::abi;
use crate::parameters::{from_limit, interface_law, limit};
use crate::receive_meter::ReceiveMeter;
use weir_alloc::fill::{Child, Filling};
use weir_policy::{Share, Sharing};
use weir_shaping::{LeafShare, ShaperConfig, ShaperParameters};
use weir_units::{Bandwidth, Bytes, Direction, Duration, Instant, MachineId, Weight};

/// As [`InterfaceMeter::configuration`].
pub(crate) fn configuration(meter: &abi::InterfaceMeter, generation: u32) -> abi::Interface {
    abi::Interface {
        law: meter.law,
        capacity: meter.capacity,
        total: meter.total,
        minima: meter.minima,
        saturated_rate: meter.saturated_rate,
        lightest: meter.lightest,
        weighs: meter.weighs,
        generation,
        reserved: 0,
    }
}

/// Meters all services at one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceMeter {
    raw: abi::InterfaceMeter,
}

impl InterfaceMeter {
    /// A meter of services with these shares at the interface, before any traffic; no share counts
    /// as one of weight 1. The capacity is unlimited, or from 10 kb/s to 8 Tb/s.
    pub fn new(
        now: Instant,
        parameters: &ShaperParameters,
        capacity: Bandwidth,
        sharing: Sharing,
        shares: &[Share],
    ) -> Self {
        let weights = shares.iter().map(|share| u64::from(share.weight.thousandths()));
        let minima = shares.iter().fold(0u64, |sum, share| sum.saturating_add(share.min.bps()));
        let mut raw = abi::InterfaceMeter::default();
        abi::interface_meter_init(
            &mut raw,
            now.nanos(),
            &interface_law(parameters),
            limit(capacity),
            lightest(shares).thousandths(),
            weights.sum(),
            minima,
            saturated_rate(capacity, sharing, shares).bps(),
            u32::from(parameters.interface.weighs_marks),
        );
        Self { raw }
    }

    /// The meter of a machine's interface; `None` if the shapers have none, as Parley's on the sending side.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn of_machine(config: &ShaperConfig, machine: MachineId, direction: Direction, now: Instant) -> Option<Self> {
        let parameters = config.interface_parameters(direction)?;
        let shares: Vec<Share> = config.shares(machine, direction).map(LeafShare::enforced).collect();
        Some(Self::new(now, &parameters, config.capacity(machine, direction), config.sharing, &shares))
    }

    /// The current share of the `service`-th service in the capacity of a machine's interface, which this meter meters
    /// in this direction.
    pub fn share_of(
        &self,
        config: &ShaperConfig,
        service: usize,
        machine: MachineId,
        direction: Direction,
    ) -> Bandwidth {
        self.share(&config.share_of(service, machine, direction, self.capacity()), config.sharing)
    }

    /// Counts `bytes` at `now` on an interface without receive meters. Returns whether the shares have changed.
    #[inline]
    pub fn packet(&mut self, now: Instant, bytes: Bytes) -> bool {
        abi::interface_meter_packet(&mut self.raw, now.nanos(), bytes.get()) != 0
    }

    /// Records, before `bytes` received by `now` are counted, the highest R that affects their
    /// service, which has this share and the brokers' `limit`. Has an effect only after a window
    /// above the capacity.
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
        if raw.usage <= raw.capacity || raw.rate <= raw.saturated_rate {
            return;
        }
        let (min, max, weight) =
            (share.min.bps(), crate::parameters::limit(share.max.min(limit)), share.weight.thousandths());
        let (meter, now, bytes) = (meter.raw(), now.nanos(), bytes.get());
        abi::interface_meter_reach(raw, meter, now, bytes, rule(sharing), min, max, weight);
    }

    /// First step of a timer's tick (`datapath/receive_tick.h`), for each service that received
    /// packets: counts the marks that concern the interface.
    pub fn tick_marks(&mut self, meter: &ReceiveMeter, packets: u32, marked: u32, committed: Bandwidth) {
        abi::tick_marks(&mut self.raw, meter.raw(), packets, marked, committed.bps());
    }

    /// Second step, once, with the bytes of all services (at least one). A window may close `slack`
    /// early. Returns whether the shares have changed.
    pub fn tick(&mut self, now: Instant, bytes: Bytes, slack: Duration) -> bool {
        abi::tick_interface(&mut self.raw, now.nanos(), bytes.get(), slack.nanos()) != 0
    }

    /// Last step, for each service, with its current share: counts at its own meter, and records
    /// here whether its packets queued at this interface. Returns whether R was recomputed.
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
        abi::tick_meter(&mut self.raw, meter.raw_mut(), now, bytes.get(), packets, marked, slack) != 0
    }

    /// The configuration from which a host makes this meter, before any traffic; another `generation` makes it anew.
    pub fn configuration(&self, generation: u32) -> abi::Interface {
        configuration(&self.raw, generation)
    }

    /// The structure that the kernel's programs read.
    pub fn raw(&self) -> &abi::InterfaceMeter {
        &self.raw
    }

    /// Sets the capacity; the rates of the services change in proportion.
    pub fn set_capacity(&mut self, capacity: Bandwidth, sharing: Sharing, shares: &[Share]) {
        let saturated = saturated_rate(capacity, sharing, shares).bps();
        abi::interface_meter_set_capacity(&mut self.raw, limit(capacity), saturated);
    }

    /// The capacity in force.
    pub fn capacity(&self) -> Bandwidth {
        from_limit(self.raw.capacity)
    }

    /// R: the rate of a service of the lightest weight in addition to its guarantee; unlimited without a capacity.
    pub fn rate(&self) -> Bandwidth {
        from_limit(self.raw.rate)
    }

    /// The usage of the last window.
    pub fn usage(&self) -> Bandwidth {
        Bandwidth::from_bps(self.raw.usage)
    }

    /// The capacity of a service with this share, at most the interface's own.
    pub fn share(&self, share: &Share, sharing: Sharing) -> Bandwidth {
        let (min, max, weight) = (share.min.bps(), limit(share.max), share.weight.thousandths());
        from_limit(abi::interface_meter_share(&self.raw, rule(sharing), min, max, weight))
    }

    /// The same at the lowest R: while all services are backlogged.
    pub fn saturated_share(&self, share: &Share, sharing: Sharing) -> Bandwidth {
        let raw = abi::InterfaceMeter { rate: self.raw.saturated_rate, ..self.raw };
        Self { raw }.share(share, sharing)
    }
}

impl abi::Arrivals {
    /// Adds the counts since the last call to `taken`.
    pub fn take(&mut self, taken: &mut abi::Taken) {
        abi::tick_take(self, taken);
    }
}

impl abi::Policed {
    /// Adds the counts since the last call to `taken`.
    pub fn take(&mut self, taken: &mut abi::Taken) {
        abi::tick_take_policed(self, taken);
    }
}

fn rule(sharing: Sharing) -> u32 {
    match sharing {
        Sharing::Fill => abi::SHARE_FILL,
        Sharing::Add => abi::SHARE_ADD,
    }
}

/// The least weight; 1 without shares.
fn lightest(shares: &[Share]) -> Weight {
    shares.iter().map(|share| share.weight).min().unwrap_or(Weight::ONE)
}

/// R while all services are backlogged.
///
/// Worked example: 9.5 Gb/s, guarantees of 8 and 1 Gb/s, weights of 1: `fill` shares 8 and 1.5, so
/// R is 1.5; `add` shares 8.25 and 1.25, so R is 0.25.
pub(crate) fn saturated_rate(capacity: Bandwidth, sharing: Sharing, shares: &[Share]) -> Bandwidth {
    let children: Vec<Child> = shares.iter().map(|&share| Child::new(share, Bandwidth::UNLIMITED)).collect();
    let mut filling = Filling::default();
    filling.fill(sharing, capacity, &children);
    let lightest = u128::from(lightest(shares).thousandths());
    let of = |(share, &filled): (&Share, &Bandwidth)| {
        let by_weight = match sharing {
            Sharing::Fill => filled.bps(),
            Sharing::Add => filled.bps().saturating_sub(share.min.bps()),
        };
        let rate = u128::from(by_weight) * lightest / u128::from(share.weight.thousandths());
        Bandwidth::from_bps(u64::try_from(rate).unwrap_or(u64::MAX))
    };
    // The rate of a service at its maximum does not depend on R.
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
    fn unused_capacity_goes_to_the_backlogged_service() {
        // The second service is idle; the first sends at its capacity, from 3 up to 9 Gb/s.
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
    fn saturated_rate_follows_the_sharing_rule() {
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
            // Guarantees above the capacity count in proportion, and nothing remains to share.
            (vec![share(5, 0, 1), share(5, 0, 1)], 4.75, 0.0),
            (vec![], 9.5, 9.5),
        ] {
            assert_eq!(gbps(saturated_rate(capacity, Sharing::Fill, &shares)), fill, "fill {shares:?}");
            assert_eq!(gbps(saturated_rate(capacity, Sharing::Add, &shares)), add, "add {shares:?}");
        }
        assert_eq!(saturated_rate(Bandwidth::UNLIMITED, Sharing::Fill, &[share(1, 0, 1)]), Bandwidth::UNLIMITED);
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
    fn without_capacity_each_service_has_its_own_limit() {
        let none =
            InterfaceMeter::new(Instant::ZERO, &ShaperParameters::EYEQ, Bandwidth::UNLIMITED, Sharing::Fill, &[]);
        let share = Share { max: Bandwidth::from_gbps(2), ..Share::default() };
        assert_eq!(none.share(&share, Sharing::Fill), Bandwidth::from_gbps(2));
        assert_eq!(none.share(&Share::default(), Sharing::Add), Bandwidth::UNLIMITED);
    }
}
