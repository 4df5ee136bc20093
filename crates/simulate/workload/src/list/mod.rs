//! [`FlowList`]: every flow listed explicitly, by hand or by another program.
//!
//! Problem: two simulators can only be compared on the same flows, and traces have flows of their
//! own. Approach: a CSV file with a line per flow (see [`FlowList::read`]), read as a stream into
//! 32 bytes per flow, sorted by start; flows that start together stay in the order of the file. Flows of a coflow take
//! 24 bytes more.
//!
//! Worked example, a million flows are 32 MB:
//!
//! ```
//! use weir_workload::FlowList;
//!
//! let text = "id,start_s,src,dst,packets\n0,0.000008540,76,95,6\n";
//! let list = FlowList::read(text.as_bytes(), 1460, FlowList::numbered(144))?;
//! assert_eq!((list.len(), list.bytes()), (1, 8760));
//! # Ok::<(), weir_workload::TableError>(())
//! ```

mod read;

use crate::{Coflow, FlowStart};
use std::sync::Arc;
use weir_units::{MachineId, SimTime};

/// A flow of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listed {
    at: SimTime,
    bytes: u64,
    id: u64,
    from: MachineId,
    to: MachineId,
}

/// A flow of a list that is in a coflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    /// The flow's id.
    id: u64,
    coflow: Coflow,
}

/// Explicit flows in order of their starts, at least one. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowList {
    flows: Arc<Vec<Listed>>,
    /// The flows that are in a coflow, by their ids.
    members: Arc<Vec<Member>>,
}

impl FlowList {
    /// The sender and the receiver of each flow.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (MachineId, MachineId)> + '_ {
        self.flows.iter().map(|flow| (flow.from, flow.to))
    }

    /// How many flows there are, at least one.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// All flows' bytes together (saturating).
    pub fn bytes(&self) -> u64 {
        self.flows.iter().fold(0, |sum, flow| sum.saturating_add(flow.bytes))
    }

    /// When the last flow starts.
    pub fn last_start(&self) -> SimTime {
        self.flows.last().map_or(SimTime::ZERO, |flow| flow.at)
    }

    /// The coflow of the flow with an id.
    fn coflow(&self, id: u64) -> Option<Coflow> {
        let at = self.members.binary_search_by_key(&id, |member| member.id).ok()?;
        Some(self.members[at].coflow)
    }

    /// The largest flow.
    pub(crate) fn largest(&self) -> u64 {
        self.flows.iter().map(|flow| flow.bytes).max().unwrap_or(0)
    }

    /// The flow at an index, as it will start.
    fn start(&self, index: usize) -> Option<FlowStart> {
        let flow = self.flows.get(index)?;
        Some(FlowStart::new(flow.at, flow.from, flow.to, flow.bytes, flow.id))
    }
}

/// A [`FlowList`] under way.
#[derive(Debug)]
pub(crate) struct ListState {
    list: FlowList,
    started: usize,
}

impl ListState {
    pub(crate) const fn new(list: FlowList) -> Self {
        Self { list, started: 0 }
    }

    pub(crate) fn next(&self) -> Option<SimTime> {
        self.list.flows.get(self.started).map(|flow| flow.at)
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<FlowStart> {
        let flow = self.list.start(self.started).filter(|flow| flow.at <= now)?;
        self.started += 1;
        Some(flow)
    }

    pub(crate) fn coflow(&self, tag: u64) -> Option<Coflow> {
        self.list.coflow(tag)
    }

    pub(crate) fn expected(&self) -> u64 {
        self.list.len() as u64
    }
}

#[cfg(test)]
mod tests;
