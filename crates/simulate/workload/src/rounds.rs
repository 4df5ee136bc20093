//! [`Rounds`]: incast and barriers.
//!
//! Problem: partition–aggregate services and iterative computations send in rounds, and the arrival
//! of a round's last flow counts. Approach: one state machine for both. A round is a fixed set of
//! pairs; the next one begins a period after the last one began (open), or some time after its last
//! flow ended (closed). In a closed loop rounds never overlap.
//!
//! | kind | pairs of a round | begins |
//! |---|---|---|
//! | [`Rounds::incast`] | every sender to one receiver | either way |
//! | [`Rounds::barrier`] | all to all, round a ring, or all to one | a think time after all are done |
//!
//! A flow's tag is its round times the flows per round plus its index, so that results can time
//! rounds ([`crate::Workload::coflow`]).
//!
//! Worked example: a barrier of 4 hosts, all to all, is 12 flows a round. In each, host 0 sends to
//! 1, host 1 to 2, and so on, then each to the host after that: no host is the first receiver of
//! all others.
//!
//! Sources: incast, Phanishayee et al. (FAST 2008) and DCTCP (SIGCOMM 2010) §4.2.1; barriers, QJump
//! (NSDI 2015) §6.1 (Naiad); the name coflow, Chowdhury and Stoica (HotNets 2012).

use crate::arrivals::later;
use crate::error::{SpecError, SpecResult, at_least_one, finite_size};
use crate::{FlowStart, Hosts, Rng};
use weir_units::{MachineId, SimTime};

/// The pairs of every round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Every host to every other.
    AllToAll,
    /// Every host to the next one of the list, the last to the first.
    Ring,
    /// Every host but this one to this one, which is one of them.
    ToOne(MachineId),
}

/// The start of the next round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextRound {
    /// So long after the last one began, whether its flows are done or not.
    Every(SimTime),
    /// So long after the last flow of the last one was done.
    WhenDone(SimTime),
}

/// Flows in rounds: [`Rounds::incast`], [`Rounds::barrier`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rounds {
    hosts: Hosts,
    pattern: Pattern,
    bytes: u64,
    next: NextRound,
    jitter: SimTime,
    start: SimTime,
    /// `None`: without end.
    rounds: Option<u64>,
}

impl Rounds {
    /// Each of `senders` sends `bytes` to `receiver`, the first time at 0; without end.
    ///
    /// # Errors
    /// The receiver among the senders, 0 bytes, a period of zero.
    pub fn incast(senders: Hosts, receiver: MachineId, bytes: u64, next: NextRound) -> SpecResult<Self> {
        if senders.index_of(receiver).is_some() {
            return Err(SpecError::new("the receiver is also a sender", "name another receiver"));
        }
        if next == NextRound::Every(SimTime::ZERO) {
            return Err(SpecError::new("the period of the rounds is zero", "give rounds some time"));
        }
        Self::new(senders, Pattern::ToOne(receiver), bytes, next)
    }

    /// Every flow of the pattern among `hosts` has `bytes`; the next round begins `think` after the
    /// last flow of the one before was done. The first begins at 0; without end.
    ///
    /// # Errors
    /// Fewer than two hosts, 0 bytes, a pattern to one that is not among the hosts.
    pub fn barrier(hosts: Hosts, pattern: Pattern, bytes: u64, think: SimTime) -> SpecResult<Self> {
        let hosts = hosts.at_least(2, "a barrier")?;
        if let Pattern::ToOne(root) = pattern
            && hosts.index_of(root).is_none()
        {
            return Err(SpecError::new(
                "the host that all send to is not one of them",
                "name it among the hosts, or write an incast",
            ));
        }
        Self::new(hosts, pattern, bytes, NextRound::WhenDone(think))
    }

    /// Starts every flow uniformly within `jitter` after its round began.
    ///
    /// # Errors
    /// A jitter above the period: rounds would overtake each other.
    pub fn jitter(mut self, jitter: SimTime) -> SpecResult<Self> {
        if let NextRound::Every(period) = self.next
            && jitter > period
        {
            let cause = format!("a jitter of {jitter} is longer than the period of {period}");
            return Err(SpecError::new(cause, "write a jitter of at most the period"));
        }
        self.jitter = jitter;
        Ok(self)
    }

    /// Begins the first round at `start`.
    pub fn start(mut self, start: SimTime) -> Self {
        self.start = start;
        self
    }

    /// Ends after so many rounds.
    ///
    /// # Errors
    /// 0 rounds.
    pub fn at_most(mut self, rounds: u64) -> SpecResult<Self> {
        self.rounds = Some(at_least_one(rounds, "rounds")?);
        Ok(self)
    }

    fn new(hosts: Hosts, pattern: Pattern, bytes: u64, next: NextRound) -> SpecResult<Self> {
        let bytes = finite_size(bytes, "a flow of a round")?;
        Ok(Self { hosts, pattern, bytes, next, jitter: SimTime::ZERO, start: SimTime::ZERO, rounds: None })
    }

    /// The host of a pattern to one, if it is in the list.
    fn root(&self) -> Option<usize> {
        match self.pattern {
            Pattern::ToOne(root) => self.hosts.index_of(root),
            Pattern::AllToAll | Pattern::Ring => None,
        }
    }

    /// The senders of every round, in order of the list.
    pub fn senders(&self) -> Vec<MachineId> {
        let root = match self.pattern {
            Pattern::ToOne(root) => Some(root),
            Pattern::AllToAll | Pattern::Ring => None,
        };
        self.hosts.iter().filter(|host| Some(*host) != root).collect()
    }

    /// The receivers of every round, in order of the list.
    pub fn receivers(&self) -> Vec<MachineId> {
        match self.pattern {
            Pattern::ToOne(root) => vec![root],
            Pattern::AllToAll | Pattern::Ring => self.hosts.iter().collect(),
        }
    }

    pub(crate) const fn size(&self) -> u64 {
        self.bytes
    }

    /// The most flows of a round at one host.
    pub(crate) fn together(&self) -> u64 {
        match self.pattern {
            Pattern::AllToAll => self.hosts.len() as u64 - 1,
            Pattern::Ring => 1,
            Pattern::ToOne(_) => self.per_round(),
        }
    }

    /// The number of flows of a round; at least one.
    fn per_round(&self) -> u64 {
        let hosts = self.hosts.len() as u64;
        match self.pattern {
            Pattern::AllToAll => hosts * (hosts - 1),
            Pattern::Ring => hosts,
            Pattern::ToOne(_) => hosts - u64::from(self.root().is_some()),
        }
    }
}

/// Rounds under way.
#[derive(Debug)]
pub(crate) struct RoundsState {
    spec: Rounds,
    rng: Rng,
    per_round: u64,
    /// The index of the root, which does not send.
    root: Option<usize>,
    /// The round that is being started, and its start.
    round: u64,
    began: SimTime,
    /// The number of its started flows, and their starts in order of time if there is jitter.
    started: u64,
    starts: Vec<(SimTime, u32)>,
    /// The flows of the round that are not done. Kept in closed loops only.
    left: u64,
}

impl RoundsState {
    pub(crate) fn new(spec: Rounds, seed: u64) -> Self {
        let (per_round, root, began) = (spec.per_round(), spec.root(), spec.start);
        let mut state = Self {
            spec,
            rng: Rng::stream(seed, 0),
            per_round,
            root,
            round: 0,
            began,
            started: 0,
            starts: Vec::new(),
            left: per_round,
        };
        state.draw_starts();
        state
    }

    fn draw_starts(&mut self) {
        if self.spec.jitter > SimTime::ZERO {
            self.starts.clear();
            for index in 0..self.per_round as u32 {
                let jitter = SimTime::from_picos(self.rng.below(self.spec.jitter.picos()));
                self.starts.push((later(self.began, jitter), index));
            }
            self.starts.sort_unstable();
        }
    }

    fn begin_next(&mut self, at: SimTime) {
        self.round += 1;
        (self.began, self.started, self.left) = (at, 0, self.per_round);
        self.draw_starts();
    }

    pub(crate) fn next(&self) -> Option<SimTime> {
        if self.spec.rounds.is_some_and(|rounds| self.round >= rounds) || self.started == self.per_round {
            return None;
        }
        let at = self.starts.get(self.started as usize).map_or(self.began, |&(at, _)| at);
        (at != SimTime::NEVER).then_some(at)
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<FlowStart> {
        let at = self.next().filter(|&at| at <= now)?;
        let index = self.starts.get(self.started as usize).map_or(self.started, |&(_, index)| index.into());
        let (from, to) = self.pair(index);
        let flow = FlowStart::new(at, from, to, self.spec.bytes, self.round * self.per_round + index);
        self.started += 1;
        if let NextRound::Every(period) = self.spec.next
            && self.started == self.per_round
        {
            self.begin_next(later(self.began, period));
        }
        Some(flow)
    }

    pub(crate) fn on_finished(&mut self, now: SimTime, tag: u64) {
        let NextRound::WhenDone(pause) = self.spec.next else { return };
        debug_assert_eq!(tag / self.per_round, self.round, "a flow of another round ended");
        debug_assert!(self.left > 0, "a flow of the round ended twice");
        self.left -= 1;
        if self.left == 0 {
            self.begin_next(later(now, pause));
        }
    }

    /// The pair at an index of every round.
    fn pair(&self, index: u64) -> (MachineId, MachineId) {
        let hosts = &self.spec.hosts;
        let n = hosts.len();
        match self.spec.pattern {
            Pattern::AllToAll => {
                let (shift, from) = (index as usize / n, index as usize % n);
                (hosts.at(from), hosts.at((from + 1 + shift) % n))
            }
            Pattern::Ring => (hosts.at(index as usize), hosts.at((index as usize + 1) % n)),
            Pattern::ToOne(root) => {
                let before = self.root.is_none_or(|root| (index as usize) < root);
                (hosts.at(index as usize + usize::from(!before)), root)
            }
        }
    }

    pub(crate) const fn flows_per_round(&self) -> u64 {
        self.per_round
    }

    pub(crate) const fn round_of(&self, tag: u64) -> u64 {
        tag / self.per_round
    }

    pub(crate) fn expected(&self) -> Option<u64> {
        self.spec.rounds.and_then(|rounds| rounds.checked_mul(self.per_round))
    }

    pub(crate) const fn is_finite(&self) -> bool {
        self.spec.rounds.is_some()
    }
}

#[cfg(test)]
mod tests;
