//! The rates that a switch port grants to the requests that pass it.
//!
//! A port keeps three sums and no flow: the number of flows, their requests and their grants. It
//! notes in each request its additions to the sums ([`Note`]); the flow's next request returns the
//! note, and the port subtracts it before the next grant:
//!
//! - with more remaining than requested, the flow gets its request and a fair share of the capacity
//!   that no flow requests, (C − demand) / flows;
//! - else it gets the remaining capacity, first come first served. If that is zero, the flow may
//!   only send another request in a round trip.
//!
//! The divided capacity C' follows the link's actual traffic, once per interval T: C' ← C' + α·(C −
//! sent / T) − β·queue / T, kept between a tenth of C and C, or a multiple of C (`capacity-max`). Grants are rounded
//! down to multiples of `granularity`, if there is one.
//!
//! **Recount.** A flow that takes another path, or whose final request is lost, would stay in the
//! sums for ever. So there are two of each sum: the notes of this period, and the notes of the
//! period before that have not returned since. Each request moves its flow from the second to the
//! first. At the end of a period the second is dropped and the first becomes the second. A period
//! is as long as the longest time within which a flow is bound to send another request, so that
//! only flows that are gone are dropped: after two periods at most. A note carries its period; one
//! that was dropped is not subtracted again. The rule is Weir's.
//!
//! Example, 1 Gb/s: four flows without deadlines have 250 Mb/s each; a fifth arrives, finds no
//! remaining capacity and gets 0. Then each of the four returns with 250 and gets 1 Gb/s / 5 = 200;
//! after the first of them some capacity remains. Two of them take another path in period 7: their
//! 400 Mb/s are among the second sums in period 8, and the three that stay get 1 Gb/s / 3 from the
//! beginning of period 9 on.
//!
//! Example of `granularity: 8Mb/s` at 1 Gb/s: 64 flows have 15.625 Mb/s each, rounded down to 8: the link is half
//! empty. 125 flows have exactly 8. With the 126th the share is 7.9, and each flow's next grant is 0.
//!
//! Source: Wilson et al., "Better Never than Late: Meeting Deadlines in Datacenter Networks",
//! SIGCOMM 2011, Snippet 1; github.com/SymbioticLab/Aequitas (`ext/d3_queue.cpp`). The constants α
//! and β are those of that repository's PDQ and of RCP-like controllers; the paper's own were not
//! available.

use super::{Parameters, RateHeader};
use crate::agents::{Agent, PacketKind, Passing, Verdict, Watch};
use weir_units::{Bandwidth, SimTime};

/// The count of one flow, so that parts of flows are whole numbers: small enough that bit/s times
/// flows fit in 128 bits, and many times the number of a network's paths.
const FLOW: u64 = 1 << 20;

/// A port's sums over its flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    /// In parts of [`FLOW`].
    flows: u64,
    /// The flows' last requests and grants, in bit/s.
    demand: u64,
    allocated: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.flows = self.flows.saturating_add(other.flows);
        self.demand = self.demand.saturating_add(other.demand);
        self.allocated = self.allocated.saturating_add(other.allocated);
    }
    fn take_out(&mut self, other: &Self) {
        self.flows = self.flows.saturating_sub(other.flows);
        self.demand = self.demand.saturating_sub(other.demand);
        self.allocated = self.allocated.saturating_sub(other.allocated);
    }
}

/// A port's additions to its sums for a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The port.
    pub(super) port: u32,
    /// The number of ports that the request had passed before.
    hop: usize,
    /// The time, and the port's period.
    pub(super) at: SimTime,
    period: u32,
    added: Sums,
}

/// The sums of one period.
#[derive(Debug, Clone, Copy, Default)]
struct Period {
    sums: Sums,
    /// The longest time within which one of its flows sends another request.
    within: SimTime,
}

/// The state of one port.
#[derive(Debug, Clone)]
pub struct Router {
    /// The port's number.
    port: u32,
    /// The link's rate in bit/s.
    capacity: u64,
    /// The divided part of it.
    target: u64,
    /// This period, and the remainder of the one before.
    current: Period,
    before: Period,
    /// The period's number, its start, and the time of the last request.
    number: u32,
    began: SimTime,
    asked: SimTime,
    alpha: f64,
    beta: f64,
    interval: SimTime,
    /// The unit of grants in bit/s; 0 for none.
    granularity: u64,
    /// The most of the divided capacity, as a factor of the link's rate.
    capacity_max: f64,
    /// The time of the last adaptation of the capacity, and the bytes sent by then.
    since: SimTime,
    sent: u64,
}

impl Router {
    /// A port of this capacity without flows, with the default constants. No other port that a flow
    /// can meet may have the same number.
    pub fn new(port: u32, capacity: Bandwidth) -> Self {
        Self::with_parameters(port, capacity, &Parameters::default())
    }

    /// The same with these constants.
    pub fn with_parameters(port: u32, capacity: Bandwidth, parameters: &Parameters) -> Self {
        Self {
            port,
            capacity: capacity.bps(),
            target: capacity.bps(),
            current: Period::default(),
            before: Period::default(),
            number: 0,
            began: SimTime::ZERO,
            asked: SimTime::ZERO,
            alpha: parameters.alpha,
            beta: parameters.beta,
            interval: parameters.interval,
            granularity: parameters.granularity.bps(),
            capacity_max: parameters.capacity_max,
            since: SimTime::ZERO,
            sent: 0,
        }
    }

    /// Adapts the divided capacity, if an interval has passed: `sent` is the port's total, `queue`
    /// its backlog, both in bytes. Without calls C' is C.
    pub(super) fn observe(&mut self, now: SimTime, sent: u64, queue: u64) {
        let elapsed = now.saturating_sub(self.since);
        if elapsed < self.interval {
            return;
        }
        let seconds = elapsed.picos() as f64 / 1e12;
        let capacity = self.capacity as f64;
        let used = sent.saturating_sub(self.sent) as f64 * 8.0 / seconds;
        let waits = queue as f64 * 8.0 / seconds;
        let target = self.target as f64 + self.alpha * (capacity - used) - self.beta * waits;
        // Never so little that one burst closes the port.
        self.target = target.clamp(capacity / 10.0, capacity * self.capacity_max) as u64;
        (self.since, self.sent) = (now, sent);
    }

    /// A request passes: this port's grant and note are added to its header.
    pub(super) fn on_request(&mut self, now: SimTime, header: &mut RateHeader) {
        self.recount(now);
        if let Some(note) = header.before.iter().find(|note| note.port == self.port) {
            self.take_out(note);
        }
        let mut sums = self.current.sums;
        sums.add(&self.before.sums);
        if header.last {
            if sums.flows == 0 {
                // The remainders of lost requests are removed with the last flow.
                (self.current.sums, self.before.sums) = Default::default();
            }
            return;
        }
        let hop = header.noted.len();
        let beside =
            |note: &&Note| note.hop == hop && note.port != self.port && now.saturating_sub(note.at) <= header.within;
        let ways = if header.sprayed { 1 + header.before.iter().filter(beside).count() as u64 } else { 1 };
        // The flow's part of this path.
        let mut part = Sums { flows: FLOW / ways, demand: header.desired.bps() / ways, allocated: 0 };
        let left = self.target.saturating_sub(sums.allocated);
        sums.add(&part);
        part.allocated = if left > part.demand {
            let rest = u128::from(self.target.saturating_sub(sums.demand));
            let share = rest * u128::from(part.flows) / u128::from(sums.flows);
            part.demand.saturating_add(share as u64)
        } else {
            left
        };
        if self.granularity > 0 {
            // The flow's grant is rounded, and not that of its part of this path.
            let grant = part.allocated.saturating_mul(ways);
            part.allocated = (grant - grant % self.granularity) / ways;
        }
        self.current.sums.add(&part);
        self.current.within = self.current.within.max(header.within);
        header.rate = header.rate.min(Bandwidth::from_bps(part.allocated.saturating_mul(ways)));
        header.noted.push(Note { port: self.port, hop, at: now, period: self.number, added: part });
    }

    /// The number of whole flows that it counts.
    #[cfg(test)]
    pub(super) fn flows(&self) -> u64 {
        (self.current.sums.flows + self.before.sums.flows) / FLOW
    }

    /// Subtracts this port's note, unless the port has dropped it.
    fn take_out(&mut self, note: &Note) {
        match self.number.wrapping_sub(note.period) {
            0 => self.current.sums.take_out(&note.added),
            1 => self.before.sums.take_out(&note.added),
            _ => {}
        }
    }

    /// Drops the flows that have not sent another request in time.
    fn recount(&mut self, now: SimTime) {
        let period = self.current.within.max(self.before.within);
        if now.saturating_sub(self.asked) > period {
            // By now every flow was bound to send another request.
            (self.current, self.before) = Default::default();
            self.number = self.number.wrapping_add(2);
            self.began = now;
        } else if now.saturating_sub(self.began) > period {
            self.before = std::mem::take(&mut self.current);
            self.number = self.number.wrapping_add(1);
            self.began = now;
        }
        self.asked = now;
    }
}

impl Agent for Router {
    fn watch(&self) -> Watch {
        Watch::default()
    }

    fn on_enter(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        let (kind, size, port) = (packet.kind, packet.size, packet.port);
        // An acknowledgement carries a grant of other ports.
        if kind == PacketKind::Data
            && let Some(header) = packet.control::<Box<RateHeader>>()
        {
            let taken = port.taken + u64::from(size);
            self.observe(now, taken.saturating_sub(port.held), port.held);
            self.on_request(now, header);
        }
        Verdict::Pass
    }

    fn set_rate(&mut self, rate: Bandwidth) {
        self.capacity = rate.bps();
        self.target = self.capacity;
    }
}

#[cfg(test)]
mod tests;
