//! [`Transfers`]: flows between given pairs, all with the same start.
//!
//! Problem: most published experiments are long-lived or equal flows between fixed pairs. Approach:
//! a list of pairs (a mesh, or the i-th sender with the i-th receiver), some flows per pair, one
//! size, one start and stop. Flows with the same start stay in step, unlike real ones; `spread`
//! draws each start uniformly from a range.
//!
//! Worked example: a mesh of 2 senders and 3 receivers with 4 flows per pair is 24 flows.
//!
//! Source: Parley, Fig 14 (full mesh to one rack); PACE, Fig 6 (starts within ±5 ms).

use crate::arrivals::later;
use crate::error::{SpecError, SpecResult, at_least_one};
use crate::{FlowStart, Hosts, Rng, UNTIL_STOPPED};
use std::sync::Arc;
use weir_units::{MachineId, SimTime};

/// Flows between pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfers {
    pairs: Arc<[(MachineId, MachineId)]>,
    per_pair: u32,
    bytes: u64,
    start: SimTime,
    stop: SimTime,
    spread: SimTime,
}

impl Transfers {
    /// The pairs of senders and receivers.
    pub(crate) fn pairs_of(&self) -> &[(MachineId, MachineId)] {
        &self.pairs
    }

    /// One endless flow from every sender to every receiver but itself, from time 0 on.
    ///
    /// # Errors
    /// The only host on both sides is the same one.
    pub fn mesh(senders: &Hosts, receivers: &Hosts) -> SpecResult<Self> {
        let pairs = senders.iter().flat_map(|from| receivers.iter().map(move |to| (from, to)));
        let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
        if pairs.is_empty() {
            return Err(SpecError::new("the only sender is the only receiver", "name another host to send to"));
        }
        Ok(Self::between(pairs))
    }

    /// One endless flow for every pair of sender and receiver, in order, from time 0 on. A host may
    /// be in many pairs.
    ///
    /// # Errors
    /// No pair, or a host paired with itself.
    pub fn pairs(pairs: Vec<(MachineId, MachineId)>) -> SpecResult<Self> {
        if pairs.is_empty() {
            return Err(SpecError::new("there is no pair of hosts", "name at least one sender and one receiver"));
        }
        if let Some(index) = pairs.iter().position(|(from, to)| from == to) {
            return Err(SpecError::new(
                format!("pair {} is a host and itself", index + 1),
                "a flow goes from one host to another",
            ));
        }
        Ok(Self::between(pairs))
    }

    fn between(pairs: Vec<(MachineId, MachineId)>) -> Self {
        let (start, stop, spread) = (SimTime::ZERO, SimTime::NEVER, SimTime::ZERO);
        Self { pairs: pairs.into(), per_pair: 1, bytes: UNTIL_STOPPED, start, stop, spread }
    }

    /// So many flows per pair.
    ///
    /// # Errors
    /// None, or 2^32 flows in all and more.
    pub fn per_pair(mut self, flows: u32) -> SpecResult<Self> {
        at_least_one(flows.into(), "flows per pair")?;
        if self.pairs.len() as u64 * u64::from(flows) > u64::from(u32::MAX) {
            let cause = format!("{} pairs with {flows} flows each are more than 4294967295 flows", self.pairs.len());
            return Err(SpecError::new(cause, "write fewer flows per pair"));
        }
        self.per_pair = flows;
        Ok(self)
    }

    /// So many bytes in each flow.
    ///
    /// # Errors
    /// 0 bytes.
    pub fn bytes(mut self, bytes: u64) -> SpecResult<Self> {
        at_least_one(bytes, "bytes of a flow")?;
        self.bytes = bytes;
        Ok(self)
    }

    /// Flows start at `start`, or each uniformly in `start .. start + spread`, and stop at `stop`
    /// ([`SimTime::NEVER`]: not).
    ///
    /// # Errors
    /// A stop that is not after the last start.
    pub fn times(mut self, start: SimTime, spread: SimTime, stop: SimTime) -> SpecResult<Self> {
        let last = later(start, spread);
        if stop <= last {
            return Err(SpecError::new(
                format!("the flows stop at {}, but may start as late as {}", stop.duration(), last.duration()),
                "stop them later",
            ));
        }
        (self.start, self.spread, self.stop) = (start, spread, stop);
        Ok(self)
    }

    pub(crate) const fn size(&self) -> u64 {
        self.bytes
    }

    /// The most flows that a host sends or receives at once.
    pub(crate) fn together(&self) -> u64 {
        let most = |mut hosts: Vec<MachineId>| {
            hosts.sort_unstable();
            hosts.chunk_by(|a, b| a == b).map(<[MachineId]>::len).max().unwrap_or(0) as u64
        };
        let (from, to) = self.pairs.iter().copied().unzip();
        most(from).max(most(to)) * u64::from(self.per_pair)
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.bytes != UNTIL_STOPPED || self.stop != SimTime::NEVER
    }

    pub(crate) fn flows(&self) -> u64 {
        self.pairs.len() as u64 * u64::from(self.per_pair)
    }
}

/// [`Transfers`] under way.
#[derive(Debug)]
pub(crate) struct TransfersState {
    spec: Transfers,
    /// Starts and flow numbers in order of time; empty without a spread.
    starts: Vec<(SimTime, u32)>,
    started: u64,
}

impl TransfersState {
    pub(crate) fn new(spec: Transfers, seed: u64) -> Self {
        let mut rng = Rng::stream(seed, 0);
        let mut starts = Vec::new();
        if spec.spread > SimTime::ZERO {
            let draw = |flow| (later(spec.start, SimTime::from_picos(rng.below(spec.spread.picos()))), flow);
            // `per_pair` keeps the number of flows within 32 bits.
            starts = (0..spec.flows() as u32).map(draw).collect();
            starts.sort_unstable();
        }
        Self { spec, starts, started: 0 }
    }

    pub(crate) fn next(&self) -> Option<SimTime> {
        if self.started == self.spec.flows() {
            return None;
        }
        Some(self.starts.get(self.started as usize).map_or(self.spec.start, |&(at, _)| at))
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<FlowStart> {
        let at = self.next().filter(|&at| at <= now)?;
        let flow = self.starts.get(self.started as usize).map_or(self.started, |&(_, flow)| flow.into());
        self.started += 1;
        let (from, to) = self.spec.pairs[(flow / u64::from(self.spec.per_pair)) as usize];
        Some(FlowStart { stop: self.spec.stop, ..FlowStart::new(at, from, to, self.spec.bytes, flow) })
    }

    pub(crate) fn expected(&self) -> u64 {
        self.spec.flows()
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.spec.is_finite()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{all, hosts};
    use crate::{Spec, Workload};

    #[test]
    fn a_mesh_has_every_pair_but_a_host_with_itself() {
        let spec = Transfers::mesh(&hosts(0..3), &hosts(1..4)).and_then(|mesh| mesh.per_pair(2)).expect("a mesh");
        let mut workload = Workload::new(&Spec::Transfers(spec), 1);
        assert_eq!((workload.expected(), workload.is_finite()), (Some(14), false));
        let flows = all(&mut workload);
        let mut pairs: Vec<_> = flows.iter().map(|flow| (flow.from.0, flow.to.0)).collect();
        pairs.dedup();
        assert_eq!(pairs, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 1), (2, 3)]);
        assert!(flows.iter().all(|flow| flow.bytes == UNTIL_STOPPED && flow.at == SimTime::ZERO));
        assert_eq!(flows.iter().map(|flow| flow.tag).collect::<Vec<_>>(), (0..14).collect::<Vec<_>>());
    }

    #[test]
    fn starts_are_uniform_within_the_spread() {
        let (start, spread, stop) = (SimTime::from_millis(5), SimTime::from_millis(10), SimTime::from_secs(1));
        let spec = Transfers::pairs(vec![(MachineId(0), MachineId(1))])
            .and_then(|pairs| pairs.per_pair(100_000))
            .and_then(|pairs| pairs.times(start, spread, stop))
            .expect("transfers");
        let flows = all(&mut Workload::new(&Spec::Transfers(spec), 1));
        assert!(flows.is_sorted_by_key(|flow| flow.at));
        assert!(flows.iter().all(|flow| flow.at >= start && flow.at < start + spread && flow.stop == stop));
        // The mean of n uniform numbers has the standard error 10 ms/√(12 n).
        let mean = flows.iter().map(|flow| flow.at.picos() as f64).sum::<f64>() / 1e5;
        assert!((mean - 10e9).abs() < 4.0 * 10e9 / (12.0_f64 * 1e5).sqrt(), "{mean}");
        let mut tags: Vec<_> = flows.iter().map(|flow| flow.tag).collect();
        assert!(!tags.is_sorted());
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 100_000);
    }

    #[test]
    fn invalid_workloads_are_refused() {
        let host = hosts(0..1);
        assert!(Transfers::mesh(&host, &host).is_err());
        assert!(Transfers::pairs(vec![]).is_err());
        assert!(Transfers::pairs(vec![(MachineId(1), MachineId(1))]).is_err());
        let pairs = Transfers::mesh(&hosts(0..1000), &hosts(0..1000)).expect("a mesh");
        assert!(pairs.clone().per_pair(0).is_err() && pairs.clone().per_pair(5_000).is_err());
        assert!(pairs.clone().bytes(0).is_err());
        assert!(pairs.times(SimTime::from_secs(1), SimTime::ZERO, SimTime::from_secs(1)).is_err());
    }
}
