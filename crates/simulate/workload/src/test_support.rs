//! Shared code of several modules' tests.

use crate::{FlowStart, Hosts, Workload};
use std::collections::BTreeMap;
use weir_units::{MachineId, SimTime};

/// The hosts with these numbers.
pub(crate) fn hosts(numbers: std::ops::Range<u32>) -> Hosts {
    Hosts::new(numbers.map(MachineId).collect(), "hosts").expect("hosts")
}

/// A flow's whole life in [`drive`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Life {
    pub(crate) start: FlowStart,
    pub(crate) end: SimTime,
}

/// All flows of an open workload, without reporting any end to it.
pub(crate) fn all(workload: &mut Workload) -> Vec<FlowStart> {
    let mut flows = Vec::new();
    while let Some(at) = workload.next() {
        let before = flows.len();
        while let Some(flow) = workload.poll(at) {
            assert_eq!(flow.at, at);
            flows.push(flow);
        }
        assert!(flows.len() > before, "nothing at {at}, which was announced");
    }
    flows
}

/// Runs a workload on a network in which a flow takes the time of `takes`. At most `most` flows
/// start.
pub(crate) fn drive(workload: &mut Workload, most: usize, mut takes: impl FnMut(&FlowStart) -> SimTime) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    let mut ends: BTreeMap<(SimTime, usize), u64> = BTreeMap::new();
    let mut now = SimTime::ZERO;
    loop {
        let end = ends.first_key_value().map(|(&key, _)| key);
        let next = workload.next();
        assert!(next.is_none_or(|at| at >= now), "time went back");
        match (next, end) {
            (Some(at), end) if end.is_none_or(|(ends, _)| at <= ends) => {
                now = at;
                let before = lives.len();
                while let Some(start) = workload.poll(now) {
                    assert_eq!(start.at, now);
                    assert_ne!(start.from, start.to);
                    let end = now + takes(&start);
                    ends.insert((end, lives.len()), start.tag);
                    lives.push(Life { start, end });
                    if lives.len() == most {
                        return lives;
                    }
                }
                assert!(lives.len() > before, "nothing at {at}, which was announced");
            }
            (_, Some(key)) => {
                now = key.0;
                let tag = ends.remove(&key).expect("just seen");
                workload.on_finished(now, tag);
            }
            (_, None) => return lives,
        }
    }
}
