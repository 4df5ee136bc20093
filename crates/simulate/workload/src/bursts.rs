//! [`Bursts`]: every sender sends to one random receiver for a time, pauses for a time, and
//! continues with another.
//!
//! Problem: traffic that moves faster than the period of a slow controller: each sender is always
//! busy, or busy most of the time, and never with the same receiver for long. Approach: a clock and
//! a random stream for each sender; when its burst is due it starts a flow without a size, which
//! stops after `on`, and the next burst is due `off` later. The transport decides the rate of a
//! burst: a rate of UDP, or the throughput of TCP.
//!
//! Worked example: on for 5 s and off for 2 s, 100 senders: at 0 s, 7 s and 14 s each starts a flow
//! of 5 s. With `off` of zero they send always, each 5 s to another receiver.
//!
//! Source: Parley, Fig 13 (100 racks, bursts of 5 s, with and without a sleep of 2 s).

use crate::arrivals::later;
use crate::error::{SpecError, SpecResult};
use crate::random::{ends_after, other, others_exist};
use crate::{FlowStart, Hosts, Rng, UNTIL_STOPPED};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_units::SimTime;

/// Bursts to random receivers. Without an end of [`Bursts::times`] they never end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bursts {
    senders: Hosts,
    receivers: Hosts,
    on: SimTime,
    off: SimTime,
    start: SimTime,
    spread: SimTime,
    until: SimTime,
}

impl Bursts {
    pub(crate) fn senders(&self) -> &Hosts {
        &self.senders
    }
    pub(crate) fn receivers(&self) -> &Hosts {
        &self.receivers
    }

    /// Each of `senders` sends to one of `receivers` for `on`, pauses for `off`, and sends to
    /// another, from time 0 on.
    ///
    /// # Errors
    /// A sender that is the only receiver; bursts of no time.
    pub fn new(senders: Hosts, receivers: Hosts, on: SimTime, off: SimTime) -> SpecResult<Self> {
        others_exist(&senders, &receivers)?;
        if on == SimTime::ZERO {
            return Err(SpecError::new("a burst takes no time", "write for how long a sender sends"));
        }
        let (start, spread, until) = (SimTime::ZERO, SimTime::ZERO, SimTime::NEVER);
        Ok(Self { senders, receivers, on, off, start, spread, until })
    }

    /// The first bursts begin at `start`, or each sender's uniformly in `start .. start + spread`.
    /// None begins at `until` or later, and one that is under way then stops ([`SimTime::NEVER`]:
    /// no end).
    ///
    /// # Errors
    /// An end that is not after the last start.
    pub fn times(mut self, start: SimTime, spread: SimTime, until: SimTime) -> SpecResult<Self> {
        ends_after(later(start, spread), until)?;
        (self.start, self.spread, self.until) = (start, spread, until);
        Ok(self)
    }
}

/// [`Bursts`] under way.
#[derive(Debug)]
pub(crate) struct BurstsState {
    spec: Bursts,
    /// The start of each sender's next burst, by its index.
    due: BinaryHeap<Reverse<(SimTime, u32)>>,
    /// Each sender's receivers.
    choices: Vec<Rng>,
    started: u64,
}

impl BurstsState {
    pub(crate) fn new(spec: Bursts, seed: u64) -> Self {
        let mut starts = Rng::stream(seed, 0);
        let mut late = || match spec.spread {
            SimTime::ZERO => SimTime::ZERO,
            spread => SimTime::from_picos(starts.below(spread.picos())),
        };
        // A host has a number of 32 bits, and each is there once.
        let indices = 0..spec.senders.len() as u32;
        let due = indices.map(|index| Reverse((later(spec.start, late()), index))).collect();
        let choices = (1..).take(spec.senders.len()).map(|stream| Rng::stream(seed, stream)).collect();
        Self { spec, due, choices, started: 0 }
    }

    pub(crate) fn next(&self) -> Option<SimTime> {
        self.due.peek().map(|&Reverse((at, _))| at)
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<FlowStart> {
        let &Reverse((at, index)) = self.due.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.due.pop();
        let stop = later(at, self.spec.on).min(self.spec.until);
        let next = later(later(at, self.spec.on), self.spec.off);
        if next < self.spec.until {
            self.due.push(Reverse((next, index)));
        }
        let from = self.spec.senders.at(index as usize);
        let to = other(&self.spec.receivers, from, &mut self.choices[index as usize]);
        let tag = self.started;
        self.started += 1;
        Some(FlowStart { stop, ..FlowStart::new(at, from, to, UNTIL_STOPPED, tag) })
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.spec.until != SimTime::NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{all, hosts};
    use crate::{Spec, Workload};
    use std::collections::BTreeSet;
    use weir_units::MachineId;

    const SECOND: SimTime = SimTime::from_secs(1);

    fn flows(on: u64, off: u64, spread: SimTime) -> Vec<FlowStart> {
        let spec = Bursts::new(hosts(0..100), hosts(0..100), SimTime::from_secs(on), SimTime::from_secs(off))
            .and_then(|bursts| bursts.times(SECOND, spread, SimTime::from_secs(301)))
            .expect("bursts");
        let mut workload = Workload::new(&Spec::Bursts(spec), 1);
        assert!(workload.is_finite());
        all(&mut workload)
    }

    #[test]
    fn the_worked_example() {
        // 300 s in rounds of 7 s: 43, the last of which has its 5 s, and 60 rounds of 5 s.
        let flows_off = flows(5, 2, SimTime::ZERO);
        assert_eq!(flows_off.len(), 43 * 100);
        assert_eq!(flows(5, 0, SimTime::ZERO).len(), 60 * 100);
        for (index, flow) in flows_off.iter().enumerate() {
            let round = index as u64 / 100;
            assert_eq!((flow.at, flow.stop), (SimTime::from_secs(1 + 7 * round), SimTime::from_secs(6 + 7 * round)));
            assert_eq!((flow.from, flow.bytes), (MachineId(index as u32 % 100), UNTIL_STOPPED));
            assert_ne!(flow.from, flow.to);
        }
        assert_eq!(flows_off.iter().map(|flow| flow.tag).collect::<BTreeSet<_>>().len(), flows_off.len());
        // A sender's receivers are all the others, about equally often: 43 draws of 99.
        let to: BTreeSet<_> = flows_off.iter().filter(|flow| flow.from.0 == 7).map(|flow| flow.to).collect();
        assert!(to.len() > 25, "{}", to.len());
    }

    #[test]
    fn starts_spread_and_the_end_cuts() {
        let flows = flows(40, 3, SECOND + SECOND);
        let first: BTreeSet<_> = flows.iter().take(100).map(|flow| flow.at).collect();
        assert_eq!(first.len(), 100);
        assert!(first.iter().all(|&at| at >= SECOND && at < SECOND + SECOND + SECOND));
        let last = flows.iter().map(|flow| flow.stop).max().expect("flows");
        assert!(last <= SimTime::from_secs(301) && flows.iter().all(|flow| flow.stop > flow.at));
    }

    #[test]
    fn invalid_workloads_are_refused() {
        assert!(Bursts::new(hosts(0..1), hosts(0..1), SECOND, SECOND).is_err());
        assert!(Bursts::new(hosts(0..2), hosts(0..2), SimTime::ZERO, SECOND).is_err());
        let bursts = Bursts::new(hosts(0..2), hosts(0..2), SECOND, SimTime::ZERO).expect("bursts");
        assert!(bursts.times(SECOND, SECOND, SECOND + SECOND).is_err());
    }
}
