//! [`diff`]: the steps from the configuration that a switch has to the one that it shall have.
//!
//! Problem: while a port is changed, it forwards; a packet must never be assigned to a queue that does not exist.
//! Approach: steps have three stages, each for all ports of the switch, and the next one begins when the previous one
//! is in force:
//!
//! 1. [`Stage::Provide`]: rates, new queues, the settings of existing queues (weights in place), and DSCP values that
//!    are re-marked from now on: before a queue of them exists;
//! 2. [`Stage::Map`]: the complete DSCP map of each port, old to new;
//! 3. [`Stage::Retire`]: queues without a DSCP value are removed, and rates; DSCP values are no longer re-marked.
//!
//! The steps are minimal: only what differs. Each step has the value that it replaces, so the inverse steps in reverse
//! order lead back, in the same safe order: queues return before the map that refers to them.
//!
//! Steps of one stage are independent of each other but for a rate, which precedes the queues of its port, so a driver
//! may write a whole stage as one transaction. A scheduler is changed in place too: orchagent sets the attributes of a
//! live SAI scheduler, and HTB those of a live class.
//!
//! Worked example: from 2 to 3 queues with DSCP 46 in the new one: add queue 2, then the map. Back: the map, then
//! remove queue 2.

use crate::port::{DscpMap, DscpSet, PortState, QueueConfig, Schedule, SwitchState};
use std::fmt;
use weir_units::{Bandwidth, Bytes};

/// A part of a port's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// The port's rate.
    Rate,
    /// The number of queues, or their combination.
    Queues,
    /// A queue's existence.
    Queue(u8),
    /// A queue's scheduler or weight.
    Schedule(u8),
    /// A queue's ECN threshold.
    Mark(u8),
    /// A queue's buffer.
    Buffer(u8),
    /// The DSCP map.
    Map,
    /// One value of the DSCP map.
    Dscp(u8),
    /// The DSCP values that are re-marked on arrival.
    Remark,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate => f.write_str("rate"),
            Self::Queues => f.write_str("queues"),
            Self::Queue(queue) => write!(f, "queue {queue}"),
            Self::Schedule(queue) => write!(f, "queue {queue}, scheduler"),
            Self::Mark(queue) => write!(f, "queue {queue}, ECN threshold"),
            Self::Buffer(queue) => write!(f, "queue {queue}, buffer"),
            Self::Map => f.write_str("DSCP map"),
            Self::Dscp(dscp) => write!(f, "DSCP {dscp}"),
            Self::Remark => f.write_str("re-marked DSCP"),
        }
    }
}

/// A field of a port of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The switch's name.
    pub switch: String,
    /// The port's name.
    pub port: String,
    /// The field; `None`: the port as a whole.
    pub field: Option<Field>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "switch {}, port {}", self.switch, self.port)?;
        self.field.map_or(Ok(()), |field| write!(f, ", {field}"))
    }
}

/// A change of one field, with the value that it replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named alike: the queue, the value before, the value after")]
pub enum Change {
    /// The port's rate; `None` is the line rate.
    Rate { from: Option<Bandwidth>, to: Option<Bandwidth> },
    /// A new queue.
    AddQueue { queue: u8, config: QueueConfig },
    /// A queue's scheduler or weight.
    Schedule { queue: u8, from: Schedule, to: Schedule },
    /// A queue's ECN threshold.
    Mark { queue: u8, from: Option<Bytes>, to: Option<Bytes> },
    /// A queue's buffer.
    Buffer { queue: u8, from: Option<Bytes>, to: Option<Bytes> },
    /// The whole DSCP map; `None`: the port does not classify.
    Map { from: Option<DscpMap>, to: Option<DscpMap> },
    /// A queue that goes.
    RemoveQueue { queue: u8, config: QueueConfig },
    /// The DSCP values that are re-marked on arrival.
    Remark { from: DscpSet, to: DscpSet },
}

/// The part of a change in which a step is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Rates and queues that the new map needs.
    Provide,
    /// DSCP maps.
    Map,
    /// Queues and rates that only the old map needed.
    Retire,
}

/// A change of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The port's name.
    pub port: String,
    /// The change.
    pub change: Change,
}

impl Change {
    /// The changed field.
    pub fn field(&self) -> Field {
        match self {
            Self::Rate { .. } => Field::Rate,
            Self::AddQueue { queue, .. } | Self::RemoveQueue { queue, .. } => Field::Queue(*queue),
            Self::Schedule { queue, .. } => Field::Schedule(*queue),
            Self::Mark { queue, .. } => Field::Mark(*queue),
            Self::Buffer { queue, .. } => Field::Buffer(*queue),
            Self::Map { .. } => Field::Map,
            Self::Remark { .. } => Field::Remark,
        }
    }

    /// The stage in which it is written.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Map { .. } => Stage::Map,
            Self::RemoveQueue { .. } | Self::Rate { to: None, .. } => Stage::Retire,
            Self::Remark { from, to } if from.includes(*to) => Stage::Retire,
            _ => Stage::Provide,
        }
    }

    /// The change back.
    #[must_use]
    pub fn inverse(&self) -> Self {
        match *self {
            Self::Rate { from, to } => Self::Rate { from: to, to: from },
            Self::AddQueue { queue, config } => Self::RemoveQueue { queue, config },
            Self::RemoveQueue { queue, config } => Self::AddQueue { queue, config },
            Self::Schedule { queue, from, to } => Self::Schedule { queue, from: to, to: from },
            Self::Mark { queue, from, to } => Self::Mark { queue, from: to, to: from },
            Self::Buffer { queue, from, to } => Self::Buffer { queue, from: to, to: from },
            Self::Map { from, to } => Self::Map { from: to, to: from },
            Self::Remark { from, to } => Self::Remark { from: to, to: from },
        }
    }

    /// Sets the field to its new value, whatever it is now. Drivers keep to this too: a step that is written twice, or
    /// an inverse of a step that was never done, is no error.
    pub fn apply(&self, state: &mut PortState) {
        match *self {
            Self::Rate { to, .. } => state.rate = to,
            Self::AddQueue { queue, config } => drop(state.queues.insert(queue, config)),
            Self::RemoveQueue { queue, .. } => drop(state.queues.remove(&queue)),
            Self::Map { to, .. } => state.map = to,
            Self::Remark { to, .. } => state.remark = to,
            Self::Schedule { queue, to, .. } => set(state, queue, |config| config.schedule = to),
            Self::Mark { queue, to, .. } => set(state, queue, |config| config.mark = to),
            Self::Buffer { queue, to, .. } => set(state, queue, |config| config.buffer = to),
        }
    }
}

fn set(state: &mut PortState, queue: u8, change: impl FnOnce(&mut QueueConfig)) {
    if let Some(config) = state.queues.get_mut(&queue) {
        change(config);
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |value: Option<Bytes>| value.map_or("none".to_owned(), |bytes| bytes.to_string());
        let rate = |value: Option<Bandwidth>| value.map_or("line rate".to_owned(), |rate| rate.to_string());
        write!(f, "{}: ", self.field())?;
        match self {
            Self::Rate { from, to } => write!(f, "{} -> {}", rate(*from), rate(*to)),
            Self::AddQueue { config, .. } => write!(f, "add, {}", describe(config)),
            Self::RemoveQueue { config, .. } => write!(f, "remove ({})", describe(config)),
            Self::Schedule { from, to, .. } => write!(f, "{from} -> {to}"),
            Self::Mark { from, to, .. } | Self::Buffer { from, to, .. } => {
                write!(f, "{} -> {}", bytes(*from), bytes(*to))
            }
            Self::Map { to: None, .. } => f.write_str("remove"),
            Self::Map { to: Some(to), .. } => write!(f, "{to}"),
            Self::Remark { from, to } => write!(f, "{from} -> {to}"),
        }
    }
}

fn describe(config: &QueueConfig) -> String {
    let mark = config.mark.map(|mark| format!(", ECN above {mark}")).unwrap_or_default();
    let buffer = config.buffer.map(|buffer| format!(", buffer {buffer}")).unwrap_or_default();
    format!("{}{mark}{buffer}", config.schedule)
}

impl Step {
    /// The step back.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self { port: self.port.clone(), change: self.change.inverse() }
    }
    /// Changes the port's state; a port that is not listed is without configuration.
    pub fn apply(&self, state: &mut SwitchState) {
        self.change.apply(state.entry(self.port.clone()).or_default());
    }
}

/// The steps that turn `from` into `to`, in order of [`Stage`]. Ports that `to` does not list stay.
pub fn diff(from: &SwitchState, to: &SwitchState) -> Vec<Step> {
    let none = PortState::default();
    let mut steps: Vec<Step> = Vec::new();
    for (port, to) in to {
        let changes = port_changes(from.get(port).unwrap_or(&none), to);
        steps.extend(changes.into_iter().map(|change| Step { port: port.clone(), change }));
    }
    // Stable: within a stage a port's steps keep their order.
    steps.sort_by_key(|step| step.change.stage());
    steps
}

/// The changes of one port. Within a stage, a rate precedes queues that are added and follows queues that go.
pub fn port_changes(from: &PortState, to: &PortState) -> Vec<Change> {
    let mut changes = Vec::new();
    let rate = (from.rate != to.rate).then_some(Change::Rate { from: from.rate, to: to.rate });
    changes.extend(rate.filter(|_| to.rate.is_some()));
    for (&queue, &config) in &to.queues {
        match from.queues.get(&queue) {
            None => changes.push(Change::AddQueue { queue, config }),
            Some(old) => changes.extend(queue_changes(queue, old, &config)),
        }
    }
    changes.extend((from.remark != to.remark).then_some(Change::Remark { from: from.remark, to: to.remark }));
    changes.extend((from.map != to.map).then_some(Change::Map { from: from.map, to: to.map }));
    let gone = from.queues.iter().filter(|(queue, _)| !to.queues.contains_key(queue));
    changes.extend(gone.map(|(&queue, &config)| Change::RemoveQueue { queue, config }));
    changes.extend(rate.filter(|_| to.rate.is_none()));
    changes
}

fn queue_changes(queue: u8, from: &QueueConfig, to: &QueueConfig) -> impl Iterator<Item = Change> {
    let schedule = Change::Schedule { queue, from: from.schedule, to: to.schedule };
    let mark = Change::Mark { queue, from: from.mark, to: to.mark };
    let buffer = Change::Buffer { queue, from: from.buffer, to: to.buffer };
    let changed = [from.schedule != to.schedule, from.mark != to.mark, from.buffer != to.buffer];
    [schedule, mark, buffer].into_iter().zip(changed).filter_map(|(change, is)| is.then_some(change))
}

/// The first field in which two states of a port differ, with both values.
pub fn first_difference(expected: &PortState, found: &PortState) -> Option<Change> {
    port_changes(found, expected).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::PortConfig;

    #[test]
    fn a_new_queue_precedes_its_map_and_a_removed_one_follows_it() {
        let plain = QueueConfig { schedule: Schedule::Weighted(1), mark: None, buffer: None };
        let strict = QueueConfig { schedule: Schedule::Strict, ..plain };
        let mut map = DscpMap::all(0);
        let two = PortConfig::new(None, vec![plain; 2], map).expect("valid").state().clone();
        map.assign(46, 2);
        let three = PortConfig::new(None, vec![plain, plain, strict], map).expect("valid").state().clone();
        let fields = |from, to| port_changes(from, to).iter().map(Change::field).collect::<Vec<_>>();
        assert_eq!(fields(&two, &three), [Field::Queue(2), Field::Map]);
        assert_eq!(fields(&three, &two), [Field::Map, Field::Queue(2)]);
    }

    #[test]
    fn changes_are_read_by_people() {
        let plain = QueueConfig { schedule: Schedule::Weighted(1), mark: Some(Bytes::new(80_000)), buffer: None };
        let texts = [
            Change::Rate { from: None, to: Some(Bandwidth::from_gbps(10)) },
            Change::AddQueue { queue: 3, config: plain },
            Change::Schedule { queue: 1, from: Schedule::Weighted(2), to: Schedule::Strict },
            Change::Mark { queue: 0, from: None, to: Some(Bytes::new(30_000)) },
            Change::Map { from: None, to: Some(DscpMap::all(0)) },
            Change::RemoveQueue { queue: 3, config: plain },
        ]
        .map(|change| change.to_string());
        assert_eq!(
            texts,
            [
                "rate: line rate -> 10 Gb/s",
                "queue 3: add, weight 1, ECN above 80 kB",
                "queue 1, scheduler: weight 2 -> strict",
                "queue 0, ECN threshold: none -> 30 kB",
                "DSCP map: 0-63 in queue 0",
                "queue 3: remove (weight 1, ECN above 80 kB)",
            ]
        );
    }
}
