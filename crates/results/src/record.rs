//! What the simulator hands over: one record for each flow and link, samples over time, counters.
//!
//! Times are [`SimTime`], picoseconds since the start of the simulation. Ids are places in the vectors of
//! [`Results`]: a flow's `group` in `groups`, its `from` and `to` in `hosts`, a sample's `link` in `links`.

use std::collections::BTreeMap;
use weir_units::{Bandwidth, MachineId, SimTime};

/// Picoseconds in a second, for rates.
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// One flow, from its first byte to its last, or to the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRecord {
    /// Unique in the run.
    pub id: u64,
    /// The traffic entry of the scenario that it belongs to: a place in [`Results::groups`].
    pub group: u32,
    /// The coflow of its group that it belongs to: the flows that an application waits for together, as a round, a shuffle, or a
    /// request and its response. `None` where each flow stands for itself.
    pub coflow: Option<u64>,
    /// The host that sends: a place in [`Results::hosts`].
    pub from: MachineId,
    /// The host that receives.
    pub to: MachineId,
    /// Application bytes to send.
    pub bytes: u64,
    /// When the application handed it to the transport.
    pub start: SimTime,
    /// When the last byte was delivered; `None` when the run ended before.
    pub finished: Option<SimTime>,
    /// How long it would take on an idle network (a length); zero when that is not known.
    pub ideal: SimTime,
    /// Application bytes delivered in order.
    pub delivered: u64,
    /// Packets sent again.
    pub retransmissions: u32,
    /// Retransmission timers that expired.
    pub timeouts: u32,
    /// The point of time by which it should be finished (not a length).
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

    /// How many times longer it took than on an idle network; `None` when it did not finish or the ideal is
    /// not known.
    pub fn slowdown(&self) -> Option<f64> {
        let took = self.completion_time()?;
        (self.ideal > SimTime::ZERO).then(|| took.picos() as f64 / self.ideal.picos() as f64)
    }

    /// Delivered application bits per second of its life, which ends with the flow, or with the run at `end`.
    /// Zero for a life of no time.
    pub fn goodput(&self, end: SimTime) -> Bandwidth {
        rate(self.delivered, self.finished.unwrap_or(end).saturating_sub(self.start))
    }

    /// Whether it kept its deadline; `None` when it has none, or when it could still keep it at `end`.
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

/// A traffic entry of the scenario.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    /// Its name; unique in the run.
    pub name: String,
    /// The name of its transport, for example `dctcp`.
    pub transport: String,
    /// How many flows a coflow has, at least 1; `None` where each flow stands for itself. One with fewer flows has not started
    /// all of them.
    pub flows_per_coflow: Option<u64>,
}

/// What one class of a port counted over the whole run.
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
    /// Its speed; the mean over the run where it changed, a link that is down counting as nothing.
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
    /// The most bytes that ever waited.
    pub queue_peak: u64,
}

/// What one link did in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkSample {
    /// The end of the interval.
    pub at: SimTime,
    /// A place in [`Results::links`].
    pub link: u32,
    /// Bytes sent in the interval.
    pub bytes: u64,
    /// Bytes that it could have sent.
    pub capacity: u64,
    /// Bytes waiting at its end.
    pub queue: u64,
    /// The most bytes that waited in it.
    pub queue_peak: u64,
    /// Packets dropped in it.
    pub dropped: u64,
    /// Packets marked in it.
    pub marked: u64,
}

/// What one group did in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupSample {
    /// The end of the interval.
    pub at: SimTime,
    /// A place in [`Results::groups`].
    pub group: u32,
    /// Application bytes delivered in the interval.
    pub delivered: u64,
    /// Flows under way at its end.
    pub active: u32,
    /// Flows under way at any time in it: the n of Jain's index.
    pub flows: u32,
    /// The sum over these flows of the square of the bytes that each delivered in the interval; zero when
    /// nobody counted.
    pub squares: u128,
}

impl GroupSample {
    /// Jain's index over the flows' goodputs in the interval; `None` when nothing was delivered or counted.
    pub fn jain(&self) -> Option<f64> {
        (self.squares > 0 && self.flows > 0)
            .then(|| (self.delivered as f64).powi(2) / (f64::from(self.flows) * self.squares as f64))
    }
}

/// What a machine shaper did for one service in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterSample {
    /// The end of the interval.
    pub at: SimTime,
    /// The machine.
    pub host: MachineId,
    /// A place in [`Results::services`].
    pub service: u32,
    /// Bytes of frames sent in the interval.
    pub sent: u64,
    /// The rate of the root limiter at its end; `None` where there is none.
    pub limit: Option<Bandwidth>,
    /// Bytes of frames received in the interval.
    pub received: u64,
    /// C, what the service may receive, at its end; `None` where nothing limits it.
    pub capacity: Option<Bandwidth>,
    /// R, what the receive meter tells each sender of weight 1, at its end.
    pub rate: Option<Bandwidth>,
}

/// Everything that a run gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Results {
    /// The scenario's name.
    pub scenario: String,
    /// The seed of all that was drawn.
    pub seed: u64,
    /// Whether the run reached its end; `false` when it was interrupted.
    pub complete: bool,
    /// How far the simulation came.
    pub simulated: SimTime,
    /// What was changed in the scenario for this run: path to value, as they were written.
    pub parameters: BTreeMap<String, String>,
    /// Totals by name: events, packet-hops, drops by reason, whatever the simulator counts.
    pub counters: BTreeMap<String, u64>,
    /// The hosts' names, unique, in the order of [`MachineId`].
    pub hosts: Vec<String>,
    /// The traffic entries.
    pub groups: Vec<Group>,
    /// The flows, in the order of their ids.
    pub flows: Vec<FlowRecord>,
    /// The links.
    pub links: Vec<LinkRecord>,
    /// How long an interval of the samples is; `None` when none were taken. The last may be shorter.
    pub sample_interval: Option<SimTime>,
    /// Samples of links, ascending by time. Links that are not watched have none.
    pub link_samples: Vec<LinkSample>,
    /// Samples of groups, ascending by time.
    pub group_samples: Vec<GroupSample>,
    /// The paths of the services that machine shapers hold, unique; none where there are no shapers.
    pub services: Vec<String>,
    /// Samples of machine shapers, ascending by time. A machine's service has none for an interval in which it sent and received
    /// nothing and was told nothing new.
    pub meter_samples: Vec<MeterSample>,
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
