//! [`Random`]: open arrivals between random pairs.
//!
//! Problem: the usual experiment on flow completion times has independent arrivals at a load,
//! between all pairs, with sizes from a published distribution. Approach: one arrival process for
//! the whole workload; for each arrival a sender, uniformly, and then a receiver, uniformly among
//! the others; a size; perhaps a deadline. Gaps, pairs, sizes and deadlines are drawn from separate
//! streams of the seed, so another load has the same flows at other times.
//!
//! With [`Random::per_sender`] every sender has an arrival process of its own, as when each machine
//! runs a generator of load; with gaps that are not exponential that is burstier than one process
//! of all.
//!
//! Worked example: 144 senders and receivers are 20,592 pairs; 20,000 flows use most of them at
//! most once.
//!
//! Sources: pFabric (SIGCOMM 2013) §5; QJump (NSDI 2015) Fig 9; deadlines as D3 (SIGCOMM 2011) §6
//! and pFabric §5.4: exponential, with a floor.

use crate::arrivals::{ArrivalClock, exponential, later};
use crate::error::{SpecError, SpecResult, at_least_one};
use crate::{Arrivals, FlowStart, Hosts, MeanGap, Rng, SizeDistribution};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_units::{MachineId, SimTime};

/// The deadline of a flow's last byte, counted from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadlines {
    /// So long after every start.
    Fixed(SimTime),
    /// Exponential with a mean, but at least `floor`: shorter ones are raised to it.
    Exponential {
        /// The mean before the floor is applied.
        mean: SimTime,
        /// The shortest.
        floor: SimTime,
    },
}

impl Deadlines {
    fn draw(self, rng: &mut Rng) -> SimTime {
        match self {
            Self::Fixed(length) => length,
            Self::Exponential { mean, floor } => exponential(mean, rng).max(floor),
        }
    }
}

/// Open arrivals between random pairs. Without [`Random::at_most`] and [`Random::times`] they never
/// end.
#[derive(Debug, Clone, PartialEq)]
pub struct Random {
    senders: Hosts,
    receivers: Hosts,
    arrivals: Arrivals,
    gap: MeanGap,
    /// Whether each sender has a process of its own.
    per_sender: bool,
    sizes: SizeDistribution,
    start: SimTime,
    until: SimTime,
    flows: u64,
    deadlines: Option<Deadlines>,
}

impl Random {
    /// Flows from `senders` to `receivers`, one every `gap` on average in all, from time 0 on: the
    /// first arrives one gap after it.
    ///
    /// # Errors
    /// A sender that is the only receiver.
    pub fn new(
        senders: Hosts,
        receivers: Hosts,
        arrivals: Arrivals,
        gap: MeanGap,
        sizes: SizeDistribution,
    ) -> SpecResult<Self> {
        others_exist(&senders, &receivers)?;
        let (start, until, flows) = (SimTime::ZERO, SimTime::NEVER, u64::MAX);
        let (per_sender, deadlines) = (false, None);
        Ok(Self { senders, receivers, arrivals, gap, per_sender, sizes, start, until, flows, deadlines })
    }

    /// Counts the first gap from `start`, and lets no flow start at `until` or later
    /// ([`SimTime::NEVER`]: no end).
    ///
    /// # Errors
    /// An end that is not after the start.
    pub fn times(mut self, start: SimTime, until: SimTime) -> SpecResult<Self> {
        ends_after(start, until)?;
        (self.start, self.until) = (start, until);
        Ok(self)
    }

    /// Ends after so many flows.
    ///
    /// # Errors
    /// 0 flows.
    pub fn at_most(mut self, flows: u64) -> SpecResult<Self> {
        self.flows = at_least_one(flows, "flows")?;
        Ok(self)
    }

    /// Gives every sender an arrival process of its own, with a mean gap as many times as long as
    /// there are senders.
    ///
    /// # Errors
    /// A gap of one sender that is out of range.
    pub fn per_sender(mut self) -> SpecResult<Self> {
        self.own_gap()?;
        self.per_sender = true;
        Ok(self)
    }

    /// The mean gap of one sender.
    fn own_gap(&self) -> SpecResult<MeanGap> {
        MeanGap::from_picos(self.gap.picos() * self.senders.len() as f64)
    }

    /// Gives every flow a deadline.
    ///
    /// # Errors
    /// A fixed deadline or a mean of zero: no flow could keep it.
    pub fn deadlines(mut self, deadlines: Deadlines) -> SpecResult<Self> {
        let (Deadlines::Fixed(length) | Deadlines::Exponential { mean: length, .. }) = deadlines;
        if length == SimTime::ZERO {
            return Err(SpecError::new("a deadline is at the start of the flow", "give flows some time"));
        }
        self.deadlines = Some(deadlines);
        Ok(self)
    }

    /// The distribution of sizes.
    pub fn sizes(&self) -> &SizeDistribution {
        &self.sizes
    }

    /// The senders: each with the same chance.
    pub fn senders(&self) -> &Hosts {
        &self.senders
    }

    /// The receivers: each with the same chance, except the sender itself.
    pub fn receivers(&self) -> &Hosts {
        &self.receivers
    }

    /// The start of the first gap.
    pub fn start(&self) -> SimTime {
        self.start
    }

    /// No flow starts then or later.
    pub fn until(&self) -> SimTime {
        self.until
    }

    /// The mean gap.
    pub fn gap(&self) -> MeanGap {
        self.gap
    }
}

/// Refuses a sender that has no other host to send to.
pub(crate) fn others_exist(senders: &Hosts, receivers: &Hosts) -> SpecResult<()> {
    if receivers.len() == 1 && senders.index_of(receivers.at(0)).is_some() {
        return Err(SpecError::new("the only receiver is also a sender", "name another receiver"));
    }
    Ok(())
}

/// Refuses an end that is not after the start.
pub(crate) fn ends_after(start: SimTime, until: SimTime) -> SpecResult<()> {
    if until <= start {
        let cause = format!("arrivals end at {}, not after their start at {}", until.duration(), start.duration());
        return Err(SpecError::new(cause, "let them end later"));
    }
    Ok(())
}

/// A receiver other than `from`, uniformly: drawn again until it is another one, at most half of
/// the time since there are at least two.
pub(crate) fn other(hosts: &Hosts, from: MachineId, rng: &mut Rng) -> MachineId {
    loop {
        let to = hosts.at(rng.index(hosts.len()));
        if to != from {
            return to;
        }
    }
}

/// [`Random`] under way.
#[derive(Debug)]
pub(crate) struct RandomState {
    spec: Random,
    /// One for all senders, or one for each.
    clocks: Vec<ArrivalClock>,
    /// Their next arrivals.
    due: BinaryHeap<Reverse<(SimTime, u32)>>,
    pairs: Rng,
    sizes: Rng,
    deadlines: Rng,
    started: u64,
}

impl RandomState {
    pub(crate) fn new(spec: Random, seed: u64) -> Self {
        let clock = |gap, stream| ArrivalClock::new(spec.arrivals, gap, spec.start, Rng::stream(seed, stream));
        let clocks: Vec<_> = match spec.own_gap() {
            // The streams below are those of pairs, sizes and deadlines.
            Ok(gap) if spec.per_sender => (4..).take(spec.senders.len()).map(|stream| clock(gap, stream)).collect(),
            _ => vec![clock(spec.gap, 0)],
        };
        let due = (0..).zip(&clocks).map(|(index, clock)| Reverse((clock.at(), index))).collect();
        let [pairs, sizes, deadlines] = [1, 2, 3].map(|stream| Rng::stream(seed, stream));
        Self { spec, clocks, due, pairs, sizes, deadlines, started: 0 }
    }

    pub(crate) fn next(&self) -> Option<SimTime> {
        let &Reverse((at, _)) = self.due.peek()?;
        (self.started < self.spec.flows && at < self.spec.until).then_some(at)
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<FlowStart> {
        let at = self.next().filter(|&at| at <= now)?;
        let mut first = self.due.peek_mut()?;
        let index = first.0.1 as usize;
        self.clocks[index].advance();
        first.0.0 = self.clocks[index].at();
        drop(first);
        let index = if self.spec.per_sender { index } else { self.pairs.index(self.spec.senders.len()) };
        let from = self.spec.senders.at(index);
        let to = other(&self.spec.receivers, from, &mut self.pairs);
        let bytes = self.spec.sizes.sample(&mut self.sizes);
        let deadline = self.spec.deadlines.map(|deadlines| later(at, deadlines.draw(&mut self.deadlines)));
        let flow = FlowStart { deadline, ..FlowStart::new(at, from, to, bytes, self.started) };
        self.started += 1;
        Some(flow)
    }

    pub(crate) fn expected(&self) -> Option<u64> {
        (self.spec.flows < u64::MAX && self.spec.until == SimTime::NEVER).then_some(self.spec.flows)
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.spec.flows < u64::MAX || self.spec.until != SimTime::NEVER
    }
}

#[cfg(test)]
mod tests;
