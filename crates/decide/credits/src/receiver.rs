//! [`Receiver`]: the allocations of one flow.
//!
//! Each period p the receiver issues an allocation with d_p = p · R and d = a = the d_p that returned last; the first
//! one, and one after two periods without a return, has d = a = p · R. The flow is idle when nothing has returned for
//! [`ReceiverSettings::timeout`]: it gets no allocations until another request.
//!
//! p is the longest period that a port of the path selects ([`Return::longest`]), and at least p-min. An allocation
//! follows the one before after that one's period, as the sender got it ([`Return::period`]): a sooner one would end
//! credits that ports count until they expire. d_p is a number of bytes per period, so it is converted when p changes.
//!
//! A sender takes only allocations that are later than its newest one, and it may live longer than the state of its
//! receiver: a stream that is empty for a while, a link that fails, a host that starts again. So requests have the
//! sender's newest clock, and a new receiver continues far enough after it that ports, too, have seen no later clock.
//!
//! Order of calls: [`Receiver::new`] with the request; [`Receiver::poll`] when [`Receiver::timer`] is due, until it
//! gives nothing; [`Receiver::on_return`] with each return; [`Receiver::on_request`] with each later request.
//!
//! Worked example, 1 Gb/s, p = 200 µs: the first allocation has d_p = d = a = 25,000 B. d_p returns as 8,334 B; the
//! second one has d_p = 25,000 and d = a = 8,334.
//!
//! Source: PACE §III.C; algorithms' corrected forms in `docs/design/credits.md`.

use crate::message::{Allocation, Coding, Request, Return, is_later, next_clock};
use crate::period::Period;
use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};

/// The fewest periods without a return after which a flow is idle: two restart it, and two more lose the new beginning.
const TIMEOUT_PERIODS: u64 = 4;

/// The constants of a receiving host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverSettings {
    /// R: what the host's link carries of flows with credits.
    pub rate: Bandwidth,
    /// p-min, which is also the first period.
    pub least: Period,
    /// The time without a return after which a flow is idle, if it is longer than four periods.
    pub timeout: Duration,
    /// The receiver's weight.
    pub weight: Weight,
    /// The widths of fields.
    pub coding: Coding,
}

impl ReceiverSettings {
    /// A clock that is not earlier than the last one of a receiver before, whose sender has had `clock`; 0 for 0.
    ///
    /// That receiver has issued allocations for at most a timeout after the last return that it had. The return was of
    /// `clock` or an earlier allocation, and was itself on its way for less than a timeout.
    fn after(&self, clock: u32) -> u32 {
        if clock == 0 {
            return 0;
        }
        let least = self.least.duration().nanos().max(1);
        let periods = self.timeout.nanos().div_ceil(least).max(TIMEOUT_PERIODS);
        clock.wrapping_add(u32::try_from(2 * periods).unwrap_or(u32::MAX / 4).min(u32::MAX / 4))
    }
}

/// The receiving end of a flow.
#[derive(Debug, Clone)]
pub struct Receiver {
    settings: ReceiverSettings,
    sender_weight: Weight,
    /// The clock of the last allocation, and the last one of which the return has arrived; 0 before.
    clock: u32,
    returned: u32,
    /// p of the next allocation.
    period: Period,
    /// p of the last allocation, as the sender got it if that has returned: the next one follows when it is over.
    spent_in: Period,
    /// d_p that returned last, for a period.
    potential: Option<(Bytes, Period)>,
    /// When the last allocation was issued, and when something last arrived from the sender.
    issued: Option<Instant>,
    seen: Instant,
    idle: bool,
    restarts: u64,
}

impl Receiver {
    /// The receiver of a flow whose request arrives at `now`.
    pub fn new(now: Instant, settings: ReceiverSettings, request: &Request) -> Self {
        let clock = settings.after(request.clock);
        Self {
            settings,
            sender_weight: request.weight,
            clock,
            returned: clock,
            period: settings.least.min(settings.coding.longest()),
            spent_in: settings.least,
            potential: None,
            issued: None,
            seen: now,
            idle: false,
            restarts: 0,
        }
    }

    /// The time of the next allocation; `None` for an idle flow.
    pub fn timer(&self) -> Option<Instant> {
        if self.idle {
            return None;
        }
        Some(self.issued.map_or(self.seen, |issued| issued + self.spent_in.duration()))
    }

    /// The allocation that is due at `now`, if one is.
    pub fn poll(&mut self, now: Instant) -> Option<Allocation> {
        if self.timer().is_none_or(|due| now < due) {
            return None;
        }
        let silence = now.saturating_since(self.seen);
        // A port may select a period that is longer than the timeout.
        let timeout = self.settings.timeout.max(self.period.duration() * TIMEOUT_PERIODS);
        if self.issued.is_some() && silence >= timeout {
            self.idle = true;
            return None;
        }
        if silence >= self.period.duration() * 2 && self.potential.take().is_some() {
            self.restarts += 1;
        }
        let whole = self.settings.coding.bytes(self.period.capacity(self.settings.rate));
        let demand = self.potential.map_or(whole, |(bytes, period)| scaled(bytes, period, self.period).min(whole));
        self.clock = next_clock(self.clock);
        // Periods follow each other without drift, unless the driver was late.
        let due = self.issued.map_or(now, |issued| issued + self.spent_in.duration());
        self.spent_in = self.period;
        self.issued = Some(if now.saturating_since(due) < self.period.duration() { due } else { now });
        Some(self.settings.coding.allocation(&Allocation {
            clock: self.clock,
            period: self.period,
            longest: self.settings.least,
            potential: whole,
            demand,
            allocation: demand,
            weight: product(self.settings.weight, self.sender_weight),
            queueing: Duration::ZERO,
        }))
    }

    /// A return has arrived. One for a clock that was not issued, or that is not later than the last one, changes
    /// nothing.
    pub fn on_return(&mut self, now: Instant, returned: &Return) {
        if !is_later(returned.clock, self.returned) || is_later(returned.clock, self.clock) || self.idle {
            return;
        }
        self.returned = returned.clock;
        self.seen = now;
        self.potential = Some((returned.potential, returned.period));
        if returned.clock == self.clock {
            self.spent_in = returned.period.max(self.settings.least);
        }
        self.period = returned.longest.max(self.settings.least).min(self.settings.coding.longest());
    }

    /// Whether a return that arrives now is of an earlier allocation than the newest: its round trip was longer than p.
    pub fn is_slow(&self, returned: &Return) -> bool {
        returned.clock != self.clock && is_later(returned.clock, self.returned)
    }

    /// Another request of the flow has arrived: an idle flow starts again; for one that is not, it is a repetition. If
    /// the sender has had a later allocation than all of this receiver, which an old request has made, the next one
    /// follows it.
    pub fn on_request(&mut self, now: Instant, request: &Request) {
        self.sender_weight = request.weight;
        if is_later(request.clock, self.clock) {
            self.clock = self.settings.after(request.clock);
            self.returned = self.clock;
        }
        if self.idle {
            (self.idle, self.potential) = (false, None);
            (self.issued, self.seen) = (None, now);
            self.returned = self.clock;
        }
    }

    /// R has changed: the next allocation has the new one.
    pub fn set_rate(&mut self, rate: Bandwidth) {
        self.settings.rate = rate;
    }

    /// Whether the flow gets no allocations until another request.
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// How often it began anew with the first period's values.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }
}

/// Bytes per period `from` as bytes per period `to`, rounded down.
fn scaled(bytes: Bytes, from: Period, to: Period) -> Bytes {
    let scaled = u128::from(bytes.get()) * u128::from(to.micros()) / u128::from(from.micros().max(1));
    Bytes::new(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// The weight of a flow: the product of its ends' weights (PACE §III.C leaves the combination open), within the range
/// of weights.
fn product(receiver: Weight, sender: Weight) -> Weight {
    let product = u64::from(receiver.thousandths()) * u64::from(sender.thousandths()) / 1_000;
    let most = u64::from(Weight::MAX.thousandths());
    Weight::from_thousandths(product.clamp(1, most) as u32).unwrap_or(Weight::ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: ReceiverSettings = ReceiverSettings {
        rate: Bandwidth::from_gbps(1),
        least: Period::from_micros(200),
        timeout: Duration::from_millis(4),
        weight: Weight::ONE,
        coding: Coding::Wide,
    };

    const FIRST: Request = Request { weight: Weight::ONE, clock: 0 };

    fn micros(at: u64) -> Instant {
        Instant::from_nanos(at * 1_000)
    }

    fn returned(clock: u32, potential: u64, period: u32) -> Return {
        let period = Period::from_micros(period);
        let (potential, allocation) = (Bytes::new(potential), Bytes::ZERO);
        Return { clock, period, longest: period, potential, allocation, queueing: Duration::from_millis(1) }
    }

    #[test]
    fn the_second_allocation_has_the_returned_potential() {
        let mut receiver = Receiver::new(micros(10), SETTINGS, &FIRST);
        let first = receiver.poll(micros(10)).expect("the first");
        assert_eq!(
            (first.clock, first.potential.get(), first.demand.get(), first.allocation.get()),
            (1, 25_000, 25_000, 25_000)
        );
        assert!(receiver.poll(micros(209)).is_none());
        receiver.on_return(micros(160), &returned(1, 8_334, 200));
        let second = receiver.poll(micros(210)).expect("the second");
        assert_eq!(
            (second.clock, second.potential.get(), second.demand.get(), second.allocation.get()),
            (2, 25_000, 8_334, 8_334)
        );
    }

    #[test]
    fn a_longer_period_delays_the_next_allocation_and_scales_the_demand() {
        let mut receiver = Receiver::new(micros(0), SETTINGS, &FIRST);
        receiver.poll(micros(0)).expect("the first");
        receiver.on_return(micros(150), &returned(1, 3_000, 400));
        assert_eq!(receiver.timer(), Some(micros(400)));
        receiver.poll(micros(400)).expect("the second");
        receiver.on_return(micros(550), &Return { longest: Period::from_micros(200), ..returned(2, 3_000, 400) });
        // The credits of the second one are spent in 400 µs; the third is for 200 µs.
        assert!(receiver.poll(micros(799)).is_none());
        let third = receiver.poll(micros(800)).expect("the third");
        assert_eq!((third.period.micros(), third.demand.get(), receiver.timer()), (200, 1_500, Some(micros(1_000))));
    }

    #[test]
    fn silence_restarts_a_flow_and_ends_in_idleness() {
        let mut receiver = Receiver::new(micros(0), SETTINGS, &FIRST);
        receiver.poll(micros(0)).expect("the first");
        receiver.on_return(micros(150), &returned(1, 2_000, 200));
        let demands: Vec<u64> =
            (1..25).filter_map(|at| receiver.poll(micros(at * 200))).map(|a| a.demand.get()).collect();
        // 200 and 400 µs lie within two periods of the return.
        assert_eq!((demands[..4].to_vec(), receiver.restarts()), (vec![2_000, 2_000, 25_000, 25_000], 1));
        assert!(demands.len() == 20 && receiver.is_idle() && receiver.timer().is_none());
        receiver.on_return(micros(5_000), &returned(20, 2_000, 200));
        assert!(receiver.is_idle());
        receiver.on_request(micros(6_000), &FIRST);
        let again = receiver.poll(micros(6_000)).expect("the first after the request");
        assert_eq!((again.clock, again.demand.get()), (22, 25_000));
    }

    #[test]
    fn a_period_beyond_the_timeout_leaves_time_for_returns() {
        let mut receiver = Receiver::new(micros(0), SETTINGS, &FIRST);
        receiver.poll(micros(0)).expect("the first");
        receiver.on_return(micros(150), &returned(1, 2_000, 5_000));
        assert!([5_000, 10_000, 15_000, 20_000].map(|at| receiver.poll(micros(at)).is_some()) == [true; 4]);
        assert!(receiver.poll(micros(25_000)).is_none() && receiver.is_idle());
    }

    /// The sender is at the end of clocks. A timeout has 20 periods, so up to 40 allocations may be later.
    #[test]
    fn clocks_of_a_successor_are_later() {
        let request = Request { clock: u32::MAX - 41, ..FIRST };
        let mut receiver = Receiver::new(micros(0), SETTINGS, &request);
        assert_eq!(
            [0, 200].map(|at| receiver.poll(micros(at)).map(|allocation| allocation.clock)),
            [Some(u32::MAX), Some(1)]
        );
        receiver.on_return(micros(250), &returned(u32::MAX - 1, 7, 200));
        receiver.on_return(micros(260), &returned(1, 9_000, 200));
        assert_eq!(receiver.poll(micros(400)).map(|allocation| allocation.demand.get()), Some(9_000));
    }

    /// A repetition of the first request has made a receiver, before the sender's own request.
    #[test]
    fn the_latest_request_has_the_clock() {
        let mut receiver = Receiver::new(micros(0), SETTINGS, &FIRST);
        assert_eq!(receiver.poll(micros(0)).map(|allocation| allocation.clock), Some(1));
        receiver.on_request(micros(50), &Request { clock: 700, ..FIRST });
        assert_eq!(receiver.poll(micros(200)).map(|allocation| allocation.clock), Some(741));
        receiver.on_request(micros(250), &FIRST);
        assert_eq!(receiver.poll(micros(400)).map(|allocation| allocation.clock), Some(742));
    }

    #[test]
    fn a_new_rate_holds_for_the_next_allocation() {
        let mut receiver = Receiver::new(micros(0), SETTINGS, &FIRST);
        receiver.poll(micros(0)).expect("the first");
        receiver.on_return(micros(150), &returned(1, 25_000, 200));
        receiver.set_rate(Bandwidth::from_mbps(100));
        let second = receiver.poll(micros(200)).expect("the second");
        assert_eq!((second.potential.get(), second.demand.get()), (2_500, 2_500));
    }

    #[test]
    fn returns_of_other_clocks_change_nothing() {
        let mut receiver = Receiver::new(micros(0), SETTINGS, &FIRST);
        receiver.poll(micros(0)).expect("the first");
        receiver.on_return(micros(100), &returned(2, 7, 200));
        receiver.on_return(micros(150), &returned(1, 9_000, 200));
        receiver.on_return(micros(160), &returned(1, 5, 200));
        receiver.on_return(micros(170), &returned(0, 5, 200));
        assert_eq!(receiver.poll(micros(200)).expect("the second").demand.get(), 9_000);
    }

    #[test]
    fn weights_of_both_ends_are_multiplied() {
        let weight = |thousandths| Weight::from_thousandths(thousandths).expect("in range");
        assert_eq!(product(weight(2_000), weight(1_500)), weight(3_000));
        assert_eq!(product(weight(1), weight(1)), weight(1));
        assert_eq!(product(Weight::MAX, weight(2_000)), Weight::MAX);
    }
}
