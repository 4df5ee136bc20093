//! A tenant's move between queues: its steps and the settings in each of them (docs/design/binding.md).

use super::interface::{BinderOutput, QueueId, Version};
use crate::queues::QueueIndex;
use crate::site::{PortId, Site};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use weir_placement::SwitchId;
use weir_units::MachineId;

/// The queues of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The shared queue of every port.
    #[default]
    Shared,
    /// One queue of each of its ports, in the order of [`Site::ports`].
    Dedicated {
        /// The queues.
        queues: Vec<QueueIndex>,
        /// The DSCP value of its packets.
        dscp: u8,
    },
}

impl Place {
    /// The DSCP value of its packets.
    pub fn dscp(&self) -> u8 {
        match self {
            Self::Shared => 0,
            Self::Dedicated { dscp, .. } => *dscp,
        }
    }
    /// The queue of its port at this position; `None` for the shared one.
    pub fn queue(&self, at: usize) -> Option<QueueIndex> {
        match self {
            Self::Shared => None,
            Self::Dedicated { queues, .. } => Some(queues[at]),
        }
    }
}

/// A step of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Machines limit it to its reservations, and with it the tenants of the shared queues of its ports.
    Cap,
    /// Both queues' weights contain its reservations, and ports map both DSCP values.
    Raise,
    /// Its machines send the new DSCP value.
    Tag,
    /// Its packets leave the old queues.
    Drain,
    /// No port maps the old DSCP value any more. A machine that was off and returns with that value would otherwise be
    /// in queues whose weights are lower already, until maps are configured too.
    Unmap,
    /// The old queues' weights do not contain its reservations any more.
    Lower,
}

impl Step {
    /// The step behind this one; `None` behind the last.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Cap => Some(Self::Raise),
            Self::Raise => Some(Self::Tag),
            Self::Tag => Some(Self::Drain),
            Self::Drain => Some(Self::Unmap),
            Self::Unmap => Some(Self::Lower),
            Self::Lower => None,
        }
    }
}

/// A move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Motion {
    /// The queues to which it leads.
    pub to: Place,
    /// The step.
    pub step: Step,
}

/// The queues of a tenant, and its move to others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TenantState {
    /// Its queues, until the move is over.
    pub place: Place,
    /// Its move.
    pub motion: Option<Motion>,
    /// A DSCP value that it had, and that a machine without a connection may still send: no other tenant has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retained: Option<u8>,
}

impl TenantState {
    /// The place to which it moves, or in which it is.
    pub(super) fn last(&self) -> &Place {
        self.motion.as_ref().map_or(&self.place, |motion| &motion.to)
    }
    /// The DSCP value that no other tenant of its ports may have.
    pub fn value(&self) -> Option<u8> {
        let dedicated = [&self.place, self.last()].map(Place::dscp).into_iter().find(|dscp| *dscp > 0);
        dedicated.or(self.retained)
    }
    /// Whether it is in a queue of a port, or moves to or from it; `at` is the position of the port in its list.
    pub(super) fn takes(&self, at: usize, queue: QueueIndex) -> bool {
        [&self.place, self.last()].into_iter().any(|place| place.queue(at) == Some(queue))
    }
    /// The places whose weights contain its reservations.
    pub(super) fn counted(&self) -> impl Iterator<Item = &Place> {
        let (old, new) = match &self.motion {
            None => (Some(&self.place), None),
            Some(motion) => {
                ((motion.step < Step::Lower).then_some(&self.place), (motion.step >= Step::Raise).then_some(&motion.to))
            }
        };
        old.into_iter().chain(new)
    }
    /// Whether ports map the DSCP value of a place that is counted.
    pub(super) fn maps(&self, place: &Place) -> bool {
        self.motion.as_ref().is_none_or(|motion| motion.step != Step::Unmap || *place != self.place)
    }
    /// The DSCP value that its machines send.
    pub(super) fn dscp(&self) -> u8 {
        match &self.motion {
            Some(motion) if motion.step >= Step::Tag => motion.to.dscp(),
            _ => self.place.dscp(),
        }
    }
}

/// The answers for which a step waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Waiting {
    pub(super) machines: BTreeMap<MachineId, Version>,
    pub(super) switches: BTreeMap<SwitchId, Version>,
    /// Those of them whose answers are missing.
    pub(super) open_machines: BTreeSet<MachineId>,
    pub(super) open_switches: BTreeSet<SwitchId>,
    pub(super) drain: Option<Drain>,
}

impl Waiting {
    /// Whether all answers are there.
    pub(super) fn is_over(&self) -> bool {
        self.open_machines.is_empty() && self.open_switches.is_empty() && self.drain.as_ref().is_none_or(Drain::is_over)
    }
}

/// Rounds of readings of the old queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drain {
    /// Rounds that are to be completed.
    rounds: u32,
    /// The number of this round among all: readings of earlier rounds do not count.
    round: u64,
    /// The queues that are not through: the bytes that they had sent at the first reading of the round, and those that
    /// they will have sent then.
    open: BTreeMap<QueueId, Option<(u64, u64)>>,
    all: Vec<QueueId>,
}

impl Drain {
    /// The queues of a place.
    pub(super) fn new(site: &Site, place: &Place, hops: u32, round: u64) -> Self {
        let queue = |(at, (port, _)): (usize, &(PortId, _))| QueueId { port: *port, queue: place.queue(at) };
        let all: Vec<QueueId> = site.ports.iter().enumerate().map(queue).collect();
        let open = all.iter().map(|queue| (*queue, None)).collect();
        Self { rounds: hops.max(1), round, open, all }
    }
    /// The queues of which a reading is needed.
    pub(super) fn needed(&self) -> impl Iterator<Item = BinderOutput> + '_ {
        self.open.keys().map(|queue| BinderOutput::Read { queue: *queue, round: self.round })
    }
    /// Takes a reading; returns whether it completed a round, so that readings are needed at once. `next` is the number
    /// of the next round.
    pub(super) fn take(&mut self, (queue, round): (QueueId, u64), sent: u64, backlog: u64, next: u64) -> bool {
        if round != self.round {
            return false;
        }
        let Some(mark) = self.open.get_mut(&queue) else { return false };
        // A counter that went back belongs to a queue that was made anew.
        let known = mark.filter(|(from, _)| sent >= *from);
        if backlog > 0 && known.is_none_or(|(_, until)| sent < until) {
            *mark = known.or(Some((sent, sent.saturating_add(backlog))));
            return false;
        }
        self.open.remove(&queue);
        if !self.open.is_empty() {
            return false;
        }
        self.rounds -= 1;
        self.round = next;
        if self.rounds > 0 {
            self.open = self.all.iter().map(|queue| (*queue, None)).collect();
        }
        true
    }
    /// Whether all rounds are completed.
    pub(super) fn is_over(&self) -> bool {
        self.rounds == 0
    }
}
