//! [`Incasts`]: open arrivals of incasts to random receivers.
//!
//! Problem: in a cluster with many aggregators, queries arrive by themselves, each at another host, and their responses
//! meet at that host's link; incasts of two queries may overlap. Rounds to one receiver ([`crate::Rounds::incast`])
//! have neither. Approach: one arrival process for the whole workload; for each arrival a receiver, uniformly, and then
//! as many senders as the fan-in, uniformly among the others and each at most once. All of an incast's flows start with
//! it, or within a jitter. Gaps, receivers, senders and jitter are drawn from separate streams of the seed, so another
//! load has the same incasts at other times.
//!
//! A flow's tag is the number of its incast times the fan-in plus its index in it, so that results can time incasts
//! ([`crate::Workload::coflow`]).
//!
//! Worked example: a flow of 20 kB is 14 packets of at most 1,460 B, with headers of 40 B each 20,560 B. With a fan-in
//! of 30, at 5 % of the links of 144 receivers of 10 Gb/s, an incast begins every
//! 8 · 30 · 20,560 B / (0.05 · 1.44 Tb/s) = 68.5 µs.
//!
//! Sources: HPCC (SIGCOMM 2019) §5, random incasts that make a part of the load beside random flows; the incast itself,
//! DCTCP (SIGCOMM 2010) §4.2.1.

use crate::arrivals::{ArrivalClock, later};
use crate::error::{SpecError, SpecResult, at_least_one, finite_size};
use crate::random::ends_after;
use crate::{Arrivals, FlowStart, Hosts, MeanGap, Rng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_units::{MachineId, SimTime};

/// The longest jitter in mean gaps. Flows of so many incasts wait for their starts at a time, which bounds the memory
/// for them; with a longer jitter they are random flows rather than incasts.
const MOST_GAPS: f64 = 10.0;

/// Incasts that arrive by themselves. Without [`Incasts::at_most`] and [`Incasts::times`] they never end.
#[derive(Debug, Clone, PartialEq)]
pub struct Incasts {
    senders: Hosts,
    receivers: Hosts,
    fan_in: u32,
    bytes: u64,
    arrivals: Arrivals,
    gap: MeanGap,
    jitter: SimTime,
    start: SimTime,
    until: SimTime,
    events: u64,
}

impl Incasts {
    /// `fan_in` of `senders` send `bytes` each to one of `receivers`, once every `gap` on average, from time 0 on: the
    /// first incast begins one gap after it.
    ///
    /// # Errors
    /// A single sender that is also a receiver, a fan-in of 0 or beyond [`Incasts::most`], 0 bytes.
    pub fn new(
        senders: Hosts,
        receivers: Hosts,
        fan_in: u32,
        bytes: u64,
        arrivals: Arrivals,
        gap: MeanGap,
    ) -> SpecResult<Self> {
        at_least_one(fan_in.into(), "senders of an incast")?;
        let most = Self::most(&senders, &receivers);
        if most == 0 {
            return Err(SpecError::new("the only sender is also a receiver", "name more senders"));
        }
        if u64::from(fan_in) > most {
            let cause = format!("an incast has {fan_in} senders, but a receiver has {most} others to receive from");
            return Err(SpecError::new(cause, format!("write a fan-in of at most {most}, or name more senders")));
        }
        let bytes = finite_size(bytes, "a flow of an incast")?;
        let (jitter, start, until, events) = (SimTime::ZERO, SimTime::ZERO, SimTime::NEVER, u64::MAX);
        Ok(Self { senders, receivers, fan_in, bytes, arrivals, gap, jitter, start, until, events })
    }

    /// The largest fan-in: the number of senders beside the receiver, for every receiver.
    pub fn most(senders: &Hosts, receivers: &Hosts) -> u64 {
        let mut all: Vec<MachineId> = senders.iter().collect();
        all.sort_unstable();
        let is_sender = receivers.iter().any(|host| all.binary_search(&host).is_ok());
        senders.len() as u64 - u64::from(is_sender)
    }

    /// Starts every flow uniformly within `jitter` after its incast began.
    ///
    /// # Errors
    /// A jitter of more than ten mean gaps.
    pub fn jitter(mut self, jitter: SimTime) -> SpecResult<Self> {
        if jitter.picos() as f64 > MOST_GAPS * self.gap.picos() {
            let cause = format!("a jitter of {} is longer than {MOST_GAPS} mean gaps", jitter.duration());
            return Err(SpecError::new(cause, "write a shorter jitter"));
        }
        self.jitter = jitter;
        Ok(self)
    }

    /// Counts the first gap from `start`, and lets no incast begin at `until` or later ([`SimTime::NEVER`]: no end).
    ///
    /// # Errors
    /// An end that is not after the start.
    pub fn times(mut self, start: SimTime, until: SimTime) -> SpecResult<Self> {
        ends_after(start, until)?;
        (self.start, self.until) = (start, until);
        Ok(self)
    }

    /// Ends after so many incasts.
    ///
    /// # Errors
    /// 0 incasts.
    pub fn at_most(mut self, events: u64) -> SpecResult<Self> {
        self.events = at_least_one(events, "incasts")?;
        Ok(self)
    }

    /// The senders: each with the same chance.
    pub fn senders(&self) -> &Hosts {
        &self.senders
    }

    /// The receivers: each with the same chance.
    pub fn receivers(&self) -> &Hosts {
        &self.receivers
    }

    /// The number of flows of an incast.
    pub fn fan_in(&self) -> u32 {
        self.fan_in
    }

    /// The bytes of each flow.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The start of the first gap.
    pub fn start(&self) -> SimTime {
        self.start
    }

    /// No incast begins then or later.
    pub fn until(&self) -> SimTime {
        self.until
    }

    /// The mean gap between two incasts.
    pub fn gap(&self) -> MeanGap {
        self.gap
    }
}

/// A flow that is drawn and not started, in the order of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    at: SimTime,
    tag: u64,
    from: MachineId,
    to: MachineId,
}

/// [`Incasts`] under way.
#[derive(Debug)]
pub(crate) struct IncastsState {
    spec: Incasts,
    clock: ArrivalClock,
    receivers: Rng,
    senders: Rng,
    jitter: Rng,
    /// The indices of the senders in some order: any order is as good as another one for the next draw.
    order: Vec<u32>,
    /// Incasts that have begun.
    begun: u64,
    /// Flows of these that have not started; the first of all flows is among them.
    pending: BinaryHeap<Reverse<Pending>>,
}

impl IncastsState {
    pub(crate) fn new(spec: Incasts, seed: u64) -> Self {
        let clock = ArrivalClock::new(spec.arrivals, spec.gap, spec.start, Rng::stream(seed, 0));
        let [receivers, senders, jitter] = [1, 2, 3].map(|stream| Rng::stream(seed, stream));
        let order = (0..spec.senders.len() as u32).collect();
        let (begun, pending) = (0, BinaryHeap::new());
        let mut state = Self { spec, clock, receivers, senders, jitter, order, begun, pending };
        state.begin();
        state
    }

    /// Begins incasts until no later one can have a flow before the first of `pending`.
    fn begin(&mut self) {
        while self.begun < self.spec.events
            && self.clock.at() < self.spec.until
            && self.pending.peek().is_none_or(|Reverse(first)| self.clock.at() < first.at)
        {
            let at = self.clock.at();
            self.clock.advance();
            self.draw(at);
            self.begun += 1;
        }
    }

    /// Draws the flows of an incast at `at`. A partial shuffle draws senders; the receiver is passed over.
    fn draw(&mut self, at: SimTime) {
        let to = self.spec.receivers.at(self.receivers.index(self.spec.receivers.len()));
        let first = self.begun * u64::from(self.spec.fan_in);
        let mut tags = first..first + u64::from(self.spec.fan_in);
        for drawn in 0..self.order.len() {
            let other = drawn + self.senders.index(self.order.len() - drawn);
            self.order.swap(drawn, other);
            let from = self.spec.senders.at(self.order[drawn] as usize);
            if from == to {
                continue;
            }
            let Some(tag) = tags.next() else { break };
            let jitter = SimTime::from_picos(self.jitter.below(self.spec.jitter.picos()));
            self.pending.push(Reverse(Pending { at: later(at, jitter), tag, from, to }));
        }
    }

    pub(crate) fn next(&self) -> Option<SimTime> {
        self.pending.peek().map(|Reverse(first)| first.at).filter(|&at| at != SimTime::NEVER)
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<FlowStart> {
        self.next().filter(|&at| at <= now)?;
        let Reverse(Pending { at, tag, from, to }) = self.pending.pop()?;
        self.begin();
        Some(FlowStart::new(at, from, to, self.spec.bytes, tag))
    }

    pub(crate) fn flows_per_coflow(&self) -> u64 {
        self.spec.fan_in.into()
    }

    pub(crate) fn coflow_of(&self, tag: u64) -> u64 {
        tag / self.flows_per_coflow()
    }

    pub(crate) fn expected(&self) -> Option<u64> {
        let ends_by_number = self.spec.events < u64::MAX && self.spec.until == SimTime::NEVER;
        self.spec.events.checked_mul(self.flows_per_coflow()).filter(|_| ends_by_number)
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.spec.events < u64::MAX || self.spec.until != SimTime::NEVER
    }
}

#[cfg(test)]
mod tests;
