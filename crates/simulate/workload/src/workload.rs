//! [`Workload`]: one interface to all kinds.

use crate::bursts::BurstsState;
use crate::incasts::IncastsState;
use crate::list::ListState;
use crate::random::RandomState;
use crate::requests::RequestsState;
use crate::rounds::RoundsState;
use crate::shuffle::ShuffleState;
use crate::transfers::TransfersState;
use crate::{Bursts, FlowList, FlowStart, Hosts, Incasts, Random, Requests, Rounds, Shuffle, Transfers, UNTIL_STOPPED};
use weir_units::{MachineId, SimTime};

/// A description of a workload, valid by construction.
#[derive(Debug, Clone, PartialEq)]
pub enum Spec {
    /// Flows between given pairs.
    Transfers(Transfers),
    /// Open arrivals between random pairs.
    Random(Random),
    /// From each sender to one random receiver after the other.
    Bursts(Bursts),
    /// Explicit flows.
    List(FlowList),
    /// Every host sends to every other, once.
    Shuffle(Shuffle),
    /// Incasts to random receivers, by open arrivals.
    Incasts(Incasts),
    /// Flows in rounds: incast and barriers.
    Rounds(Rounds),
    /// Requests of clients and responses of servers.
    Requests(Requests),
}

impl Spec {
    /// The machines that send and those that receive, ascending.
    pub fn ends(&self) -> (Vec<MachineId>, Vec<MachineId>) {
        let sorted = |mut hosts: Vec<MachineId>| {
            hosts.sort_unstable();
            hosts.dedup();
            hosts
        };
        let all = |hosts: &Hosts| sorted(hosts.iter().collect());
        match self {
            Self::Transfers(spec) => {
                let (from, to) = spec.pairs_of().iter().copied().unzip();
                (sorted(from), sorted(to))
            }
            Self::Random(spec) => (all(spec.senders()), all(spec.receivers())),
            Self::Bursts(spec) => (all(spec.senders()), all(spec.receivers())),
            Self::List(list) => {
                let (from, to) = list.pairs().unzip();
                (sorted(from), sorted(to))
            }
            Self::Shuffle(spec) => (all(spec.hosts()), all(spec.hosts())),
            Self::Incasts(spec) => (all(spec.senders()), all(spec.receivers())),
            Self::Rounds(spec) => (sorted(spec.senders()), sorted(spec.receivers())),
            // Requests go one way and responses the other.
            Self::Requests(spec) => {
                let both = sorted(spec.clients().iter().chain(spec.servers().iter()).collect());
                (both.clone(), both)
            }
        }
    }
}

impl Spec {
    /// The bytes of the largest flow; [`UNTIL_STOPPED`] for flows without an end of their own.
    pub fn largest(&self) -> u64 {
        match self {
            Self::Transfers(spec) => spec.size(),
            Self::Random(spec) => spec.sizes().largest(),
            Self::Bursts(_) => UNTIL_STOPPED,
            Self::List(list) => list.largest(),
            Self::Shuffle(spec) => spec.size(),
            Self::Incasts(spec) => spec.bytes(),
            Self::Rounds(spec) => spec.size(),
            Self::Requests(spec) => spec.largest(),
        }
    }

    /// The number of flows that begin together at a host, or follow each other so that as many are under way, as
    /// senders or receivers; 1 where flows are independent.
    pub fn together(&self) -> u64 {
        match self {
            Self::Transfers(spec) => spec.together(),
            Self::Random(_) | Self::Bursts(_) | Self::List(_) => 1,
            Self::Shuffle(spec) => spec.together(),
            Self::Incasts(spec) => spec.fan_in().into(),
            Self::Rounds(spec) => spec.together(),
            Self::Requests(spec) => spec.together(),
        }
    }
}

/// Flows that an application awaits together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coflow {
    /// Its number in the workload.
    pub id: u64,
    /// The number of its flows, at least 1.
    pub flows: u64,
}

/// A workload under way. See the [crate](crate) for how to drive it.
#[derive(Debug)]
pub struct Workload(State);

/// The state machine of each kind.
#[derive(Debug)]
enum State {
    Transfers(TransfersState),
    Random(Box<RandomState>),
    Bursts(BurstsState),
    List(ListState),
    Shuffle(ShuffleState),
    Incasts(Box<IncastsState>),
    Rounds(RoundsState),
    Requests(Box<RequestsState>),
}

impl Workload {
    /// A workload before its first flow. The same description and seed give the same flows.
    pub fn new(spec: &Spec, seed: u64) -> Self {
        Self(match spec {
            Spec::Transfers(spec) => State::Transfers(TransfersState::new(spec.clone(), seed)),
            Spec::Random(spec) => State::Random(Box::new(RandomState::new(spec.clone(), seed))),
            Spec::Bursts(spec) => State::Bursts(BurstsState::new(spec.clone(), seed)),
            Spec::List(list) => State::List(ListState::new(list.clone())),
            Spec::Shuffle(spec) => State::Shuffle(ShuffleState::new(spec.clone(), seed)),
            Spec::Incasts(spec) => State::Incasts(Box::new(IncastsState::new(spec.clone(), seed))),
            Spec::Rounds(spec) => State::Rounds(RoundsState::new(spec.clone(), seed)),
            Spec::Requests(spec) => State::Requests(Box::new(RequestsState::new(spec.clone(), seed))),
        })
    }

    /// The time of the next flow of [`Workload::poll`]; `None`: not unless
    /// [`Workload::on_finished`] changes it.
    pub fn next(&self) -> Option<SimTime> {
        match &self.0 {
            State::Transfers(state) => state.next(),
            State::Random(state) => state.next(),
            State::Bursts(state) => state.next(),
            State::List(state) => state.next(),
            State::Shuffle(state) => state.next(),
            State::Incasts(state) => state.next(),
            State::Rounds(state) => state.next(),
            State::Requests(state) => state.next(),
        }
    }

    /// A flow that starts at `now` or should have before. Call until it returns none.
    pub fn poll(&mut self, now: SimTime) -> Option<FlowStart> {
        match &mut self.0 {
            State::Transfers(state) => state.poll(now),
            State::Random(state) => state.poll(now),
            State::Bursts(state) => state.poll(now),
            State::List(state) => state.poll(now),
            State::Shuffle(state) => state.poll(now),
            State::Incasts(state) => state.poll(now),
            State::Rounds(state) => state.poll(now),
            State::Requests(state) => state.poll(now),
        }
    }

    /// The last byte of the flow with this tag has reached its receiver. Once for every flow that
    /// has an end.
    pub fn on_finished(&mut self, now: SimTime, tag: u64) {
        match &mut self.0 {
            // Open loops ignore it.
            State::Transfers(_) | State::Random(_) | State::Bursts(_) | State::List(_) | State::Incasts(_) => {}
            State::Shuffle(state) => state.on_finished(now, tag),
            State::Rounds(state) => state.on_finished(now, tag),
            State::Requests(state) => state.on_finished(now, tag),
        }
    }

    /// Whether the workload ends by itself, when all its flows end: a run may continue until then.
    pub fn is_finite(&self) -> bool {
        match &self.0 {
            State::Transfers(state) => state.is_finite(),
            State::Random(state) => state.is_finite(),
            State::Bursts(state) => state.is_finite(),
            State::List(_) | State::Shuffle(_) => true,
            State::Incasts(state) => state.is_finite(),
            State::Rounds(state) => state.is_finite(),
            State::Requests(state) => state.is_finite(),
        }
    }

    /// The number of all its flows, if it is known beforehand.
    pub fn expected(&self) -> Option<u64> {
        match &self.0 {
            State::Transfers(state) => Some(state.expected()),
            State::Random(state) => state.expected(),
            State::Bursts(_) => None,
            State::List(state) => Some(state.expected()),
            State::Shuffle(state) => Some(state.expected()),
            State::Incasts(state) => state.expected(),
            State::Rounds(state) => state.expected(),
            State::Requests(state) => state.expected(),
        }
    }

    /// The coflow of a flow: its incast or its round, or the request whose other half is the response, numbered from 0;
    /// a shuffle is one as a whole, and lists number their own. Its time is from its first start to its last end.
    /// `None` if the flow is not awaited together with others.
    pub fn coflow(&self, tag: u64) -> Option<Coflow> {
        let (id, flows) = match &self.0 {
            State::Transfers(_) | State::Random(_) | State::Bursts(_) => return None,
            State::List(state) => return state.coflow(tag),
            State::Shuffle(state) => (0, state.expected()),
            State::Incasts(state) => (state.coflow_of(tag), state.flows_per_coflow()),
            State::Rounds(state) => (state.round_of(tag), state.flows_per_round()),
            State::Requests(_) => (tag / 2, 2),
        };
        Some(Coflow { id, flows })
    }
}
