//! [`Workload`]: one interface to all kinds.

use crate::list::ListState;
use crate::random::RandomState;
use crate::transfers::TransfersState;
use crate::{FlowList, FlowStart, Random, Transfers};
use weir_units::SimTime;

/// A description of a workload, valid by construction.
#[derive(Debug, Clone, PartialEq)]
pub enum Spec {
    /// Flows between given pairs.
    Transfers(Transfers),
    /// Open arrivals between random pairs.
    Random(Random),
    /// Explicit flows.
    List(FlowList),
}

/// A workload under way. See the [crate](crate) for how to drive it.
#[derive(Debug)]
pub enum Workload {
    /// Flows between given pairs.
    Transfers(TransfersState),
    /// Open arrivals between random pairs.
    Random(Box<RandomState>),
    /// Explicit flows.
    List(ListState),
}

impl Workload {
    /// A workload before its first flow. The same description and seed give the same flows.
    pub fn new(spec: &Spec, seed: u64) -> Self {
        match spec {
            Spec::Transfers(spec) => Self::Transfers(TransfersState::new(spec.clone(), seed)),
            Spec::Random(spec) => Self::Random(Box::new(RandomState::new(spec.clone(), seed))),
            Spec::List(list) => Self::List(ListState::new(list.clone())),
        }
    }

    /// When [`Workload::poll`] will give a flow; `None`: not unless [`Workload::on_finished`] changes it.
    pub fn next(&self) -> Option<SimTime> {
        match self {
            Self::Transfers(state) => state.next(),
            Self::Random(state) => state.next(),
            Self::List(state) => state.next(),
        }
    }

    /// A flow that starts at `now` or should have before. Call until it gives nothing.
    pub fn poll(&mut self, now: SimTime) -> Option<FlowStart> {
        match self {
            Self::Transfers(state) => state.poll(now),
            Self::Random(state) => state.poll(now),
            Self::List(state) => state.poll(now),
        }
    }

    /// The last byte of the flow with this tag has reached its receiver. Once for every flow that has an end.
    pub fn on_finished(&mut self, _now: SimTime, _tag: u64) {
        match self {
            Self::Transfers(_) | Self::Random(_) | Self::List(_) => {}
        }
    }

    /// Whether the workload ends by itself, when all its flows end: a run may go on until then.
    pub fn is_finite(&self) -> bool {
        match self {
            Self::Transfers(state) => state.is_finite(),
            Self::Random(state) => state.is_finite(),
            Self::List(_) => true,
        }
    }

    /// How many flows it starts in all, where that is known beforehand.
    pub fn expected(&self) -> Option<u64> {
        match self {
            Self::Transfers(state) => Some(state.expected()),
            Self::Random(state) => state.expected(),
            Self::List(state) => Some(state.expected()),
        }
    }
}
