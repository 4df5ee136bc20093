//! The output of a run: one record for each flow and link, samples over time, counters.
//!
//! Times are [`SimTime`], picoseconds since the start of the simulation. Ids are indices into the
//! vectors of [`Results`]: a flow's `group` in `groups`, its `from` and `to` in `hosts`, a sample's
//! `link` in `links`.

use crate::policy::{Backend, PolicyResults};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, MachineId, SimTime};

/// Picoseconds in a second, for rates.
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// Flows that an application awaits together: a round, a shuffle, or a request and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coflow {
    /// Its number in its group.
    pub id: u64,
    /// The number of its flows, at least 1. A coflow with fewer records has not started all of them.
    pub flows: u64,
}

/// One flow, from its first byte to its last, or to the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRecord {
    /// Unique in the run.
    pub id: u64,
    /// The flow group of the scenario that it belongs to: an index into [`Results::groups`].
    pub group: u32,
    /// The coflow of its group that it belongs to. `None` if it is not awaited together with others.
    pub coflow: Option<Coflow>,
    /// The host that sends: an index into [`Results::hosts`].
    pub from: MachineId,
    /// The host that receives.
    pub to: MachineId,
    /// Application bytes to send.
    pub bytes: u64,
    /// The time at which the application passed it to the transport.
    pub start: SimTime,
    /// The time of the last delivered byte; `None` when the run ended before.
    pub finished: Option<SimTime>,
    /// Its completion time on an idle network (a length); zero when that is not known.
    pub ideal: SimTime,
    /// Application bytes delivered in order.
    pub delivered: u64,
    /// Packets sent again.
    pub retransmissions: u32,
    /// Retransmission timers that expired.
    pub timeouts: u32,
    /// The deadline (not a length).
    pub deadline: Option<SimTime>,
}

impl FlowRecord {
    /// A flow of no bytes in the first group, that starts with the simulation.
    pub const fn new(id: u64, from: MachineId, to: MachineId) -> Self {
        Self {
            id,
            group: 0,
            coflow: None,
            from,
            to,
            bytes: 0,
            start: SimTime::ZERO,
            finished: None,
            ideal: SimTime::ZERO,
            delivered: 0,
            retransmissions: 0,
            timeouts: 0,
            deadline: None,
        }
    }

    /// The flow completion time: from start to finish.
    pub fn completion_time(&self) -> Option<SimTime> {
        self.finished.map(|finished| finished.saturating_sub(self.start))
    }

    /// Its completion time over that on an idle network; `None` when it did not finish or the ideal
    /// is not known.
    pub fn slowdown(&self) -> Option<f64> {
        let took = self.completion_time()?;
        (self.ideal > SimTime::ZERO).then(|| took.picos() as f64 / self.ideal.picos() as f64)
    }

    /// Delivered application bits per second of its life, which ends with the flow, or with the run
    /// at `end`. Zero for a life of no time.
    pub fn goodput(&self, end: SimTime) -> Bandwidth {
        rate(self.delivered, self.finished.unwrap_or(end).saturating_sub(self.start))
    }

    /// Whether it kept its deadline; `None` without one, or when it could still keep it at `end`.
    pub fn met_deadline(&self, end: SimTime) -> Option<bool> {
        let deadline = self.deadline?;
        match self.finished {
            Some(finished) => Some(finished <= deadline),
            None => (end > deadline).then_some(false),
        }
    }
}

/// `bytes` in `time` as a rate, rounded down; zero in no time.
pub fn rate(bytes: u64, time: SimTime) -> Bandwidth {
    let bits = u128::from(bytes) * 8 * PS_PER_SECOND;
    let bps = bits.checked_div(u128::from(time.picos())).unwrap_or(0);
    Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

/// A flow group of the scenario.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    /// Its name; unique in the run.
    pub name: String,
    /// The name of its transport, for example `dctcp`.
    pub transport: String,
}

/// The counts of one class of a port over the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassCount {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
}

/// One direction of a link, with the port that feeds it, over the whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRecord {
    /// `from->to`; unique in the run.
    pub name: String,
    /// Its speed; the mean over the run if it changed, where a link that is down counts as zero.
    pub rate: Bandwidth,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// The same by class.
    pub classes: [ClassCount; 8],
    /// The largest backlog in bytes.
    pub queue_peak: u64,
}

/// The counts of one link in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkSample {
    /// The end of the interval.
    pub at: SimTime,
    /// An index into [`Results::links`].
    pub link: u32,
    /// Bytes sent in the interval.
    pub bytes: u64,
    /// Bytes that it could have sent.
    pub capacity: u64,
    /// Bytes waiting at its end.
    pub queue: u64,
    /// The largest backlog in it.
    pub queue_peak: u64,
    /// Packets dropped in it.
    pub dropped: u64,
    /// Packets marked in it.
    pub marked: u64,
}

/// The counts of one group in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupSample {
    /// The end of the interval.
    pub at: SimTime,
    /// An index into [`Results::groups`].
    pub group: u32,
    /// Application bytes delivered in the interval.
    pub delivered: u64,
    /// Flows under way at its end.
    pub active: u32,
    /// Flows under way at any time in it: the n of Jain's index.
    pub flows: u32,
    /// The sum over these flows of the square of the bytes that each delivered in the interval;
    /// zero if not counted.
    pub squares: u128,
}

impl GroupSample {
    /// Jain's index over the flows' goodputs in the interval; `None` when nothing was delivered or
    /// counted.
    pub fn jain(&self) -> Option<f64> {
        (self.squares > 0 && self.flows > 0)
            .then(|| (self.delivered as f64).powi(2) / (f64::from(self.flows) * self.squares as f64))
    }
}

/// The counts of a machine shaper for one service in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterSample {
    /// The end of the interval.
    pub at: SimTime,
    /// The machine.
    pub host: MachineId,
    /// An index into [`Results::services`].
    pub service: u32,
    /// Bytes of frames sent in the interval.
    pub sent: u64,
    /// The rate of the root limiter at its end; `None` without one.
    pub limit: Option<Bandwidth>,
    /// Bytes of frames received in the interval.
    pub received: u64,
    /// C, the service's receive capacity, at its end; `None` without a limit.
    pub capacity: Option<Bandwidth>,
    /// R, the rate that the receive meter advertises to each sender of weight 1, at its end.
    pub rate: Option<Bandwidth>,
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Results {
    /// The scenario's name.
    pub scenario: String,
    /// The backend of the run. Results of the lab have no hosts, groups, flows, links and samples of these.
    pub backend: Backend,
    /// The seed of all draws.
    pub seed: u64,
    /// Whether the run reached its end; `false` when it was interrupted.
    pub complete: bool,
    /// The time that the results cover: simulated, or in the lab until the last sample.
    pub simulated: SimTime,
    /// The changes of the scenario for this run: path to value, as they were written.
    pub parameters: BTreeMap<String, String>,
    /// Totals by name: events, packet-hops, drops by reason, and all other counters of the
    /// simulator.
    pub counters: BTreeMap<String, u64>,
    /// The hosts' names, unique, in the order of [`MachineId`].
    pub hosts: Vec<String>,
    /// The flow groups.
    pub groups: Vec<Group>,
    /// The flows, in the order of their ids.
    pub flows: Vec<FlowRecord>,
    /// The links.
    pub links: Vec<LinkRecord>,
    /// How long an interval of the samples is; `None` when none were taken. The last may be
    /// shorter.
    pub sample_interval: Option<SimTime>,
    /// Samples of links, ascending by time. Links that are not watched have none.
    pub link_samples: Vec<LinkSample>,
    /// Samples of groups, ascending by time.
    pub group_samples: Vec<GroupSample>,
    /// The paths of the services with machine shapers, unique; none without shapers.
    pub services: Vec<String>,
    /// Samples of machine shapers, ascending by time. A machine's service has none for an interval
    /// without traffic and without a changed rate.
    pub meter_samples: Vec<MeterSample>,
    /// The bandwidths of services, under a policy.
    pub policy: Option<PolicyResults>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_met_missed_or_open() {
        let flow =
            FlowRecord { deadline: Some(SimTime::from_millis(5)), ..FlowRecord::new(0, MachineId(0), MachineId(1)) };
        let done = |at| FlowRecord { finished: Some(SimTime::from_millis(at)), ..flow };
        let end = SimTime::from_millis(9);
        assert_eq!((done(5).met_deadline(end), done(6).met_deadline(end)), (Some(true), Some(false)));
        assert_eq!((flow.met_deadline(end), flow.met_deadline(SimTime::from_millis(5))), (Some(false), None));
        assert_eq!(FlowRecord { deadline: None, ..flow }.met_deadline(end), None);
    }

    #[test]
    fn rates_are_exact_and_never_divide_by_zero() {
        // 1,514 bytes in 1,211,200 ps are 10 Gb/s.
        assert_eq!(rate(1_514, SimTime::from_picos(1_211_200)), Bandwidth::from_gbps(10));
        assert_eq!(rate(1, SimTime::ZERO), Bandwidth::ZERO);
        assert_eq!(rate(u64::MAX, SimTime::from_picos(1)), Bandwidth::UNLIMITED);
    }

    #[test]
    fn without_an_ideal_there_is_no_slowdown() {
        let flow =
            FlowRecord { finished: Some(SimTime::from_millis(1)), ..FlowRecord::new(0, MachineId(0), MachineId(1)) };
        assert_eq!(flow.slowdown(), None);
    }

    #[test]
    fn a_sample_gives_jains_index() {
        // Three flows delivered 10, 20 and 30 bytes: 60² / (3 × 1400).
        let sample = GroupSample { delivered: 60, flows: 3, squares: 1_400, ..GroupSample::default() };
        assert_eq!(sample.jain(), Some(3_600.0 / 4_200.0));
        assert_eq!(GroupSample { squares: 0, ..sample }.jain(), None);
    }
}
