//! [`Sender`]: the credits of one flow, its pace, and what it returns.
//!
//! The sender may send `a` bytes in the period p that follows an allocation, evenly: after b bytes the next packet
//! leaves at b · p / a after the allocation. Unused credits end with the period or with the next allocation, so at
//! most one period's are held, and ports need not expect data later. Where packets cannot be cut to the credit, a
//! remainder below one frame is carried over if the next allocation arrives within 2p and is not 0; without, six flows
//! that share a link by whole frames use 72 % of it.
//!
//! The first data after an allocation returns its values, or an empty message if nothing can be sent. The returned d_p
//! is for the next allocation. It is at most what the sender will have to send then, and at least one frame; otherwise
//! a flow that its application limits would leave its share unused. That is what this allocation leaves of the backlog
//! and of what is added in its period, and what is added in the next period; the backlog as it is now would count the
//! bytes that this allocation sends again. Of what is added, a frame may be left over, since applications add whole
//! frames: with it, demands would be above the rate of a limited flow in each second period. A backlog to which nothing
//! is added counts in full, since its last frame would wait for a period of its own.
//!
//! A flow that has data and no credits requests an allocation: at its start, and again after a timeout, which doubles.
//! Allocations of 0 do not end the requests: a port that has seen a delayed termination grants nothing before the next.
//!
//! A termination releases grants at ports, also those of allocations that are still on their way. The sender therefore
//! takes only allocations of a later request then: its clock advances beyond all that its receiver may issue before the
//! termination arrives, or if it is lost, and the request has that clock.
//!
//! Order of calls: [`Sender::request`] whenever [`Sender::timer`] is due; [`Sender::on_allocation`], then
//! [`Sender::take_return`] with the first packet or alone; [`Sender::spend`] for each packet, not before
//! [`Sender::departure`] and within [`Sender::credit`] at that time; [`Sender::terminate`] when all is sent, after
//! which [`Sender::on_write`] starts the flow again.
//!
//! Worked example: a = 5,000 B in 200 µs and frames of 1,514 B leave after 0, 60.56, 121.12 and 181.68 µs, the last one
//! cut to 458 B.
//!
//! Source: PACE §III.D, and the corrections of `docs/design/credits.md`.

use crate::message::{Allocation, Request, Return, is_later};
use crate::period::Period;
use weir_units::{Bytes, Duration, Instant, Weight};

/// The weight of a period in the expected bytes is one of these. Beside a flow of 100 Mb/s of 1 Gb/s, another one has
/// 895 Mb/s with 4, and 898 with 8, which follows an application slower (`a_limited_flow_leaves_its_share`).
const AVERAGED: u64 = 4;

/// Clocks that a termination skips: more than the allocations of a receiver in its timeout, which is of some dozens of
/// periods, and few of the 2³¹ that compare as later.
const TERMINATION: u32 = 1 << 16;

/// The constants of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderSettings {
    /// The sender's weight.
    pub weight: Weight,
    /// The largest frame on the wire.
    pub frame: Bytes,
    /// Whether packets keep their sizes, so that a remainder below one frame carries over.
    pub whole_frames: bool,
    /// The time after which a request without credits is repeated, and the longest such time. The receiver issues at
    /// once and then in each period, so two of the shortest periods are enough; repetitions change nothing.
    pub timeout: [Duration; 2],
}

/// The sending end of a flow.
#[derive(Debug, Clone)]
pub struct Sender {
    settings: SenderSettings,
    clock: u32,
    /// The allocation in use: its credits with what was carried over, its period, its start, and the bytes spent.
    allotted: u64,
    period: Period,
    began: Instant,
    spent: u64,
    /// Bytes that the application has added since the allocation, and what it is expected to add in a period.
    added: u64,
    expected: u64,
    returns: Option<Return>,
    /// The time of the next request, and the timeout after it.
    request_at: Option<Instant>,
    timeout: Duration,
    overspent: u64,
}

impl Sender {
    /// A flow that begins at `now` with data to send.
    pub fn new(now: Instant, settings: SenderSettings) -> Self {
        Self {
            settings,
            clock: 0,
            allotted: 0,
            period: Period::default(),
            began: now,
            spent: 0,
            added: 0,
            expected: 0,
            returns: None,
            request_at: Some(now),
            timeout: settings.timeout[0],
            overspent: 0,
        }
    }

    /// The time of the next request; `None` while allocations arrive, or without data.
    pub fn timer(&self) -> Option<Instant> {
        self.request_at
    }

    /// The request that is due at `now`, if one is.
    pub fn request(&mut self, now: Instant) -> Option<Request> {
        if self.request_at.is_none_or(|at| now < at) {
            return None;
        }
        self.request_at = Some(now + self.timeout);
        self.timeout = (self.timeout * 2).min(self.settings.timeout[1]);
        Some(Request { weight: self.settings.weight, clock: self.clock })
    }

    /// An allocation has arrived; `backlog` bytes wait to be sent, headers included. One that is not later than the
    /// last one changes nothing: returns whether it counts.
    pub fn on_allocation(&mut self, now: Instant, allocation: &Allocation, backlog: Bytes) -> bool {
        if self.clock != 0 && !is_later(allocation.clock, self.clock) {
            return false;
        }
        self.expect(now, allocation.period);
        // Later, the grants of what was not sent have expired at ports.
        let in_time = now <= self.began + self.period.duration() * 2;
        // A port that grants nothing may have lost its state, and with it the grant of the remainder.
        let carries = self.settings.whole_frames && in_time && allocation.allocation > Bytes::ZERO;
        let carried = if carries { self.left().min(self.settings.frame.get().saturating_sub(1)) } else { 0 };
        self.clock = allocation.clock;
        self.allotted = allocation.allocation.get() + carried;
        (self.period, self.began, self.spent) = (allocation.period, now, 0);
        let sent = self.allotted.saturating_add(self.settings.frame.get().min(self.expected));
        let left = backlog.get().saturating_add(self.expected).saturating_sub(sent);
        let useful = left.saturating_add(self.expected).max(self.settings.frame.get());
        self.returns = Some(Return {
            clock: allocation.clock,
            period: allocation.period,
            longest: allocation.longest,
            potential: allocation.potential.min(Bytes::new(useful)),
            allocation: allocation.allocation,
            queueing: allocation.queueing,
        });
        // Without credits for so long, the receiver or a port has given the flow up.
        let after = self.settings.timeout[0].max(self.period.duration() * 2);
        if backlog == Bytes::ZERO {
            self.request_at = None;
        } else if allocation.allocation > Bytes::ZERO || self.request_at.is_none() {
            (self.timeout, self.request_at) = (after, Some(now + after));
        }
        true
    }

    /// Updates the bytes that the application adds in a period: an average over some, since a period has one frame of
    /// a slow flow more than the next one, and the shares of others would move with each.
    fn expect(&mut self, now: Instant, period: Period) {
        let elapsed = u128::from(now.saturating_since(self.began).nanos()).max(1);
        let new = u128::from(self.added) * u128::from(period.duration().nanos()) / elapsed;
        let new = u64::try_from(new).unwrap_or(u64::MAX).min(u32::MAX.into());
        let is_first = self.clock == 0;
        self.expected = if is_first { new } else { (self.expected * (AVERAGED - 1) + new) / AVERAGED };
        self.added = 0;
    }

    /// The application has added bytes, headers included. A flow without allocations requests them.
    pub fn on_write(&mut self, now: Instant, bytes: Bytes) {
        self.added = self.added.saturating_add(bytes.get());
        self.request_at = self.request_at.or(Some(now.max(self.began + self.period.duration() * 2)));
    }

    /// All data is sent: no requests until more is written.
    pub fn on_empty(&mut self) {
        self.request_at = None;
    }

    /// The flow is over, as a termination reports. Credits that are left are void.
    pub fn terminate(&mut self) {
        self.clock = self.clock.wrapping_add(TERMINATION).max(1);
        (self.allotted, self.spent, self.period) = (0, 0, Period::default());
        (self.returns, self.request_at) = (None, None);
        self.timeout = self.settings.timeout[0];
    }

    /// The values to return, once for each allocation.
    pub fn take_return(&mut self) -> Option<Return> {
        self.returns.take()
    }

    /// Whether values are to be returned.
    pub fn owes_return(&self) -> bool {
        self.returns.is_some()
    }

    /// The credits that are left at `now`: none after the end of the period, until the next allocation.
    pub fn credit(&self, now: Instant) -> Bytes {
        if now > self.began + self.period.duration() { Bytes::ZERO } else { Bytes::new(self.left()) }
    }

    fn left(&self) -> u64 {
        self.allotted.saturating_sub(self.spent)
    }

    /// The earliest departure of the next packet: in proportion to the bytes spent.
    pub fn departure(&self) -> Instant {
        let period = u128::from(self.period.duration().nanos());
        let nanos = period * u128::from(self.spent) / u128::from(self.allotted.max(1));
        self.began + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// A packet of `bytes` leaves. Returns whether the credits cover it; a driver that sends more is counted.
    pub fn spend(&mut self, bytes: Bytes) -> bool {
        let covered = bytes.get() <= self.left();
        self.overspent += u64::from(!covered);
        self.spent += bytes.get();
        covered
    }

    /// Packets beyond the credits.
    pub fn overspent(&self) -> u64 {
        self.overspent
    }

    /// p of the allocation in use; zero before the first.
    pub fn period(&self) -> Period {
        self.period
    }

    /// Credits of the allocation in use, spent ones included.
    pub fn allotted(&self) -> Bytes {
        Bytes::new(self.allotted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: SenderSettings = SenderSettings {
        weight: Weight::ONE,
        frame: Bytes::new(1_514),
        whole_frames: false,
        timeout: [Duration::from_millis(10), Duration::from_secs(1)],
    };
    const LONG: Bytes = Bytes::new(1_000_000);

    fn micros(at: u64) -> Instant {
        Instant::from_nanos(at * 1_000)
    }

    fn allocation(clock: u32, bytes: u64) -> Allocation {
        let (period, bytes) = (Period::from_micros(200), Bytes::new(bytes));
        let potential = Bytes::new(25_000);
        Allocation {
            clock,
            period,
            longest: period,
            potential,
            demand: bytes,
            allocation: bytes,
            weight: Weight::ONE,
            queueing: Duration::ZERO,
        }
    }

    #[test]
    fn frames_leave_at_the_pace_of_the_allocation() {
        let mut sender = Sender::new(micros(0), SETTINGS);
        assert!(sender.on_allocation(micros(100), &allocation(1, 5_000), LONG));
        let mut departures = Vec::new();
        loop {
            let departure = sender.departure();
            let credit = sender.credit(departure);
            if credit == Bytes::ZERO {
                break;
            }
            departures.push(departure.nanos() - 100_000);
            assert!(sender.spend(credit.min(SETTINGS.frame)));
        }
        assert_eq!((departures, sender.spend(Bytes::new(1))), (vec![0, 60_560, 121_120, 181_680], false));
    }

    #[test]
    fn unused_credits_end_with_the_next_allocation() {
        for (whole_frames, credit) in [(false, 3_000), (true, 4_513)] {
            let mut sender = Sender::new(micros(0), SenderSettings { whole_frames, ..SETTINGS });
            sender.on_allocation(micros(0), &allocation(1, 9_000), LONG);
            sender.spend(Bytes::new(1_514));
            assert!(sender.on_allocation(micros(200), &allocation(2, 3_000), LONG));
            assert_eq!(sender.credit(micros(200)), Bytes::new(credit));
            assert!(!sender.on_allocation(micros(210), &allocation(2, 9_000), LONG));
            assert_eq!(sender.credit(micros(210)), Bytes::new(credit));
        }
    }

    #[test]
    fn unused_credits_end_with_the_period() {
        let mut sender = Sender::new(micros(0), SenderSettings { whole_frames: true, ..SETTINGS });
        sender.on_allocation(micros(0), &allocation(1, 1_000), LONG);
        assert_eq!([200, 201].map(|at| sender.credit(micros(at)).get()), [1_000, 0]);
        // One allocation is lost: the remainder is carried over. Two are lost: it is not.
        sender.on_allocation(micros(400), &allocation(3, 1_000), LONG);
        assert_eq!(sender.credit(micros(400)).get(), 2_000);
        sender.on_allocation(micros(1_000), &allocation(6, 1_000), LONG);
        assert_eq!(sender.credit(micros(1_000)).get(), 1_000);
    }

    #[test]
    fn the_returned_potential_is_the_use_of_the_next_period() {
        let potential = |backlog, added: u64| {
            let mut sender = Sender::new(micros(0), SETTINGS);
            sender.on_allocation(micros(0), &allocation(1, 9_000), Bytes::ZERO);
            sender.on_write(micros(50), Bytes::new(added));
            sender.on_allocation(micros(400), &allocation(2, 9_000), Bytes::new(backlog));
            sender.take_return().map(|returned| returned.potential.get())
        };
        // 16,000 B in two periods are 8,000 B in one, of which a quarter is expected after a period without any. Of
        // 9,500 B and these 2,000 B, 9,000 B leave in the period of this allocation, and a frame may wait.
        assert_eq!(
            [potential(0, 0), potential(3_000, 16_000), potential(9_500, 16_000), potential(90_000, 0)],
            [1_514, 2_000, 2_986, 25_000].map(Some)
        );
        // Without additions the rest of 12,000 B is needed in full: 1,486 B of it would wait for another period.
        assert_eq!(potential(12_000, 0), Some(3_000));
    }

    #[test]
    fn requests_are_repeated_until_an_allocation_arrives() {
        let mut sender = Sender::new(micros(0), SETTINGS);
        assert!(sender.request(micros(0)).is_some() && sender.request(micros(9_999)).is_none());
        assert!(sender.request(micros(10_000)).is_some());
        assert_eq!(sender.timer(), Some(micros(30_000)));
        sender.on_allocation(micros(12_000), &allocation(1, 1_000), LONG);
        assert_eq!(sender.timer(), Some(micros(22_000)));
        // Without credits, the time of the next request stays.
        sender.on_allocation(micros(12_200), &allocation(2, 0), LONG);
        assert_eq!(sender.timer(), Some(micros(22_000)));
        sender.on_empty();
        assert_eq!(sender.timer(), None);
        sender.on_write(micros(50_000), Bytes::new(10));
        assert!(sender.request(micros(50_000)).is_some());
    }

    #[test]
    fn allocations_of_before_a_termination_are_void() {
        let mut sender = Sender::new(micros(0), SETTINGS);
        sender.on_allocation(micros(0), &allocation(1, 9_000), LONG);
        sender.terminate();
        assert!(!sender.owes_return() && sender.timer().is_none());
        sender.on_write(micros(50), LONG);
        assert!(!sender.on_allocation(micros(60), &allocation(2, 9_000), LONG));
        assert_eq!(sender.credit(micros(60)), Bytes::ZERO);
        let request = sender.request(micros(60)).expect("at once");
        assert_eq!(request.clock, 1 + TERMINATION);
        assert!(sender.on_allocation(micros(200), &allocation(request.clock + 1, 9_000), LONG));
    }

    #[test]
    fn each_allocation_is_returned_once() {
        let mut sender = Sender::new(micros(0), SETTINGS);
        sender.on_allocation(micros(0), &allocation(1, 9_000), LONG);
        assert!(sender.owes_return() && sender.take_return().is_some() && sender.take_return().is_none());
    }
}
