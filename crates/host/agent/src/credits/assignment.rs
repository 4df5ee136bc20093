//! [`Assignment`]: the gate of each flow, the gates that are ready for new flows, and those that do not exist.
//!
//! The programs assign ready gates to new pairs and post events, which the driver takes later. When gates run short,
//! flows that have been idle for longest give theirs up, some dozens at a time. An event of such a flow that was posted
//! before may arrive after its gate has another flow: it is void, since the pair has been removed and its next packet
//! gets another gate. Numbers are reused in the order in which they became free.
//!
//! Worked example: gates 0 and 1 are ready; an event reports flow a at gate 0. Flow a is idle and gives it up; gate 0
//! is made again and ready. An event of flow b at gate 0 assigns it, and one of flow a at gate 0 is void then.

use super::messages::Flow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_units::Instant;

/// Gates by flow. At most as many flows as gates.
#[derive(Debug)]
pub(super) struct Assignment {
    /// Gates that are to be ready.
    spare: usize,
    gate_of: BTreeMap<Flow, u32>,
    flow_of: BTreeMap<u32, Flow>,
    /// Flows that have ended and keep their gate, since when.
    idle: BTreeSet<(Instant, Flow)>,
    idle_since: BTreeMap<Flow, Instant>,
    ready: BTreeSet<u32>,
    unmade: VecDeque<u32>,
}

impl Assignment {
    /// `gates` numbers from 0 on, of which none exists; `spare` of them are to be ready.
    pub(super) fn new(gates: u32, spare: usize) -> Self {
        Self {
            spare,
            gate_of: BTreeMap::new(),
            flow_of: BTreeMap::new(),
            idle: BTreeSet::new(),
            idle_since: BTreeMap::new(),
            ready: BTreeSet::new(),
            unmade: (0..gates).collect(),
        }
    }

    /// Gates that exist already, and are not to be made.
    pub(super) fn note_existing(&mut self, gates: &BTreeSet<u32>) {
        self.unmade.retain(|gate| !gates.contains(gate));
    }

    /// A gate that exists is ready for a new flow.
    pub(super) fn add_ready(&mut self, gate: u32) {
        self.ready.insert(gate);
    }

    /// A flow of before has a gate that exists; it is idle.
    pub(super) fn resume(&mut self, now: Instant, flow: Flow, gate: u32) {
        self.keep(flow, gate);
        self.set_idle(now, flow);
    }

    /// An event reports the flow at a gate. Returns whether it is in force.
    pub(super) fn on_event(&mut self, flow: Flow, gate: u32) -> bool {
        if self.gate_of.get(&flow) != Some(&gate) {
            if !self.ready.remove(&gate) {
                return false;
            }
            if let Some(before) = self.gate_of.insert(flow, gate) {
                self.flow_of.remove(&before);
                self.unmade.push_back(before);
            }
            self.flow_of.insert(gate, flow);
        }
        self.renew(flow);
        true
    }

    /// A ready gate was taken by a pair that is no flow, and is to be deleted. Returns whether it was ready.
    pub(super) fn discard(&mut self, gate: u32) -> bool {
        self.ready.remove(&gate)
    }

    /// A gate that no flow had is gone.
    pub(super) fn add_unmade(&mut self, gate: u32) {
        self.unmade.push_back(gate);
    }

    pub(super) fn gate(&self, flow: Flow) -> Option<u32> {
        self.gate_of.get(&flow).copied()
    }

    pub(super) fn flow(&self, gate: u32) -> Option<Flow> {
        self.flow_of.get(&gate).copied()
    }

    /// The gates of flows.
    pub(super) fn gates(&self) -> impl Iterator<Item = u32> + '_ {
        self.flow_of.keys().copied()
    }

    pub(super) fn set_idle(&mut self, now: Instant, flow: Flow) {
        self.renew(flow);
        self.idle_since.insert(flow, now);
        self.idle.insert((now, flow));
    }

    /// The flow is not idle.
    pub(super) fn renew(&mut self, flow: Flow) {
        if let Some(since) = self.idle_since.remove(&flow) {
            self.idle.remove(&(since, flow));
        }
    }

    /// The flows that give up their gates, if gates are short: those that have been idle for longest, enough for twice
    /// as many gates as are to be ready. Each is to be kept, or its gate unmade.
    pub(super) fn retire(&mut self) -> Vec<(Flow, u32)> {
        let free = self.ready.len() + self.unmade.len();
        if free >= self.spare {
            return Vec::new();
        }
        let flows: Vec<Flow> = self.idle.iter().take(2 * self.spare - free).map(|(_, flow)| *flow).collect();
        let gates = flows.into_iter().filter_map(|flow| Some((flow, self.remove(flow)?)));
        gates.collect()
    }

    /// Whether fewer gates are ready than are to be, and more can be: numbers are unmade, or flows idle.
    pub(super) fn is_short(&self) -> bool {
        self.ready.len() < self.spare && !(self.unmade.is_empty() && self.idle.is_empty())
    }

    /// Gates that active flows are to give up: fewer are free than are to be ready, and no flow is idle.
    pub(super) fn lacking(&self) -> usize {
        match self.idle.is_empty() {
            true => self.spare.saturating_sub(self.ready.len() + self.unmade.len()),
            false => 0,
        }
    }

    /// The flow has no gate any more; returns the one that it had.
    pub(super) fn remove(&mut self, flow: Flow) -> Option<u32> {
        self.renew(flow);
        let gate = self.gate_of.remove(&flow)?;
        self.flow_of.remove(&gate);
        Some(gate)
    }

    /// A retired flow keeps its gate, and is not idle.
    pub(super) fn keep(&mut self, flow: Flow, gate: u32) {
        self.gate_of.insert(flow, gate);
        self.flow_of.insert(gate, flow);
    }

    /// The gates to be made now, which are ready then.
    pub(super) fn make(&mut self) -> Vec<u32> {
        let wanted = self.spare.saturating_sub(self.ready.len()).min(self.unmade.len());
        let new: Vec<u32> = self.unmade.drain(..wanted).collect();
        self.ready.extend(&new);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use weir_units::ServiceId;

    fn flow(last: u8) -> Flow {
        let address = |last| IpAddr::from([10, 0, 0, last]);
        Flow { service: ServiceId(3), source: address(200), destination: address(last) }
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn idle_flows_give_up_their_gates_in_order() {
        let mut gates = Assignment::new(6, 2);
        assert_eq!((gates.make(), gates.make()), (vec![0, 1], vec![]));
        assert!(gates.on_event(flow(1), 1) && gates.on_event(flow(2), 0));
        assert_eq!((gates.make(), gates.retire()), (vec![2, 3], vec![]));
        for last in [2, 1, 3] {
            gates.set_idle(at(10 - u64::from(last)), flow(last));
        }
        assert!(gates.on_event(flow(3), 3) && gates.on_event(flow(4), 2));
        assert_eq!((gates.make(), gates.retire()), (vec![4, 5], vec![]), "two are ready");
        assert!(gates.on_event(flow(5), 5));
        // One is ready; flow 2 has been idle for longest, and flow 3 is not idle any more.
        assert_eq!(gates.retire(), [(flow(2), 0), (flow(1), 1)]);
        // A packet of flow 1 came meanwhile.
        gates.keep(flow(1), 1);
        gates.add_unmade(0);
        assert_eq!((gates.retire(), gates.make()), (vec![], vec![0]));
        assert_eq!((gates.gate(flow(2)), gates.gate(flow(1))), (None, Some(1)));
        assert_eq!(gates.gates().collect::<Vec<_>>(), [1, 2, 3, 5]);
    }

    /// No event comes while the last flows end.
    #[test]
    fn gates_are_short_as_soon_as_one_can_be_ready() {
        let mut gates = Assignment::new(2, 1);
        assert!(gates.is_short());
        assert_eq!((gates.make(), gates.is_short()), (vec![0], false));
        assert!(gates.on_event(flow(1), 0) && gates.is_short());
        assert_eq!((gates.make(), gates.is_short()), (vec![1], false));
        assert_eq!(gates.lacking(), 0);
        // All flows are active.
        assert!(gates.on_event(flow(2), 1) && !gates.is_short());
        assert_eq!(gates.lacking(), 1);
        gates.set_idle(at(5), flow(1));
        assert!(gates.is_short());
        assert_eq!(gates.lacking(), 0, "an idle one is given up first");
        assert_eq!(gates.retire(), [(flow(1), 0)]);
        gates.add_unmade(0);
        assert_eq!((gates.make(), gates.is_short()), (vec![0], false));
        // A flow that no allocation reaches.
        assert!(gates.on_event(flow(3), 0) && !gates.is_short());
        assert_eq!((gates.remove(flow(2)), gates.remove(flow(2)), gates.flow(1)), (Some(1), None, None));
        gates.add_unmade(1);
        assert!(gates.is_short());
        assert_eq!(gates.make(), [1]);
    }

    /// The event was posted before the pair was removed, and its gate belongs to another flow.
    #[test]
    fn a_late_event_opens_no_gate_of_another_flow() {
        let mut gates = Assignment::new(2, 1);
        gates.make();
        assert!(gates.on_event(flow(1), 0));
        gates.make();
        assert!(gates.on_event(flow(2), 1));
        gates.set_idle(at(1), flow(1));
        assert_eq!(gates.retire(), [(flow(1), 0)]);
        gates.add_unmade(0);
        assert_eq!(gates.make(), [0]);
        assert!(gates.on_event(flow(3), 0));
        assert!(!gates.on_event(flow(1), 0));
        assert_eq!((gates.gate(flow(1)), gates.flow(0)), (None, Some(flow(3))));
    }

    #[test]
    fn numbers_are_reused_in_the_order_in_which_they_became_free() {
        let mut gates = Assignment::new(4, 1);
        for last in 1..=4 {
            let gate = gates.make()[0];
            assert!(gates.on_event(flow(last), gate));
        }
        gates.set_idle(at(1), flow(3));
        gates.set_idle(at(2), flow(1));
        for (_, gate) in gates.retire() {
            gates.add_unmade(gate);
        }
        let order: Vec<u32> = (11..=12)
            .map(|last| {
                let gate = gates.make()[0];
                assert!(gates.on_event(flow(last), gate));
                gate
            })
            .collect();
        assert_eq!(order, [2, 0]);
    }

    #[test]
    fn gates_of_an_earlier_thread_stay_with_their_flows() {
        let mut gates = Assignment::new(4, 2);
        gates.note_existing(&BTreeSet::from([0, 2, 3]));
        gates.resume(at(0), flow(1), 2);
        gates.add_ready(0);
        assert_eq!(gates.make(), [1]);
        assert_eq!((gates.gate(flow(1)), gates.retire()), (Some(2), vec![]));
        assert!(gates.on_event(flow(2), 0) && gates.on_event(flow(1), 2));
        assert!(gates.discard(1) && !gates.discard(1));
        // Gate 3 had a pair of another service, and both are deleted.
        gates.add_unmade(1);
        gates.add_unmade(3);
        assert_eq!(gates.make(), [1, 3]);
    }
}
