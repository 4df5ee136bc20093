//! The event queue: what happens next, ordered by (time, sequence).
//!
//! Problem: the queue is touched for every packet on every link, so it decides the simulator's speed; and
//! two events at the same picosecond must come out in the same order in every run.
//!
//! Approach: a 4-ary min-heap of 24-byte entries. Three things keep it small and quick:
//! - a link has one pending event however many packets fly on it, because they arrive in order
//!   ([`crate::link`]), and a timer has one ([`crate::timer`]); the heap grows with links and flows, not with packets;
//! - four children share one and a half cache lines, so the tree is half as deep as a binary one;
//! - taking the first entry leaves a hole at the root that the next insertion fills. Handling an event
//!   mostly schedules another, so most insertions are one sift down instead of a removal and a sift up.
//!
//! Each insertion gets the next sequence number, which breaks ties: first scheduled, first handled.
//! Nothing is ever searched for or removed; a timer that moved ignores the event that it no longer expects.
//!
//! Example: insertions at 5 ns (a), 3 ns (b), 5 ns (c) come out as b, a, c.
//!
//! Source: the one-event-per-pipe trick is htsim's (`sim/pipe.cpp`, `sim/queue.cpp`).

use crate::ids::{Class, FlowId, HostId, PortId};
use crate::time::SimTime;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The first packet on this port's link reaches the far end.
    Arrive(PortId),
    /// The port has sent a packet and others wait.
    Free(PortId),
    /// The first packet of a limited service may leave the host's service queue.
    Release(HostId, Class),
    /// The flow begins.
    Start(FlowId),
    /// The flow's retransmission timer.
    Retransmit(FlowId),
    /// The flow's delayed-acknowledgement timer.
    DelayedAck(FlowId),
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    time: SimTime,
    sequence: u64,
    event: Event,
}

impl Entry {
    /// Time and sequence as one number, which compares without a branch.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.time.picos()) << 64 | u128::from(self.sequence)
    }
    #[inline]
    fn before(&self, other: &Self) -> bool {
        self.key() < other.key()
    }
}

/// Children of a node of the heap.
const ARITY: usize = 4;

/// Pending events. See the module's documentation.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: Vec<Entry>,
    /// The root has been taken and waits for an insertion to fill it.
    hole: bool,
    sequence: u64,
}

impl EventQueue {
    /// No events.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events are pending.
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.hole)
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Schedules `event` at `time`, after everything scheduled earlier for the same time.
    #[inline]
    pub fn push(&mut self, time: SimTime, event: Event) {
        let entry = Entry { time, sequence: self.sequence, event };
        self.sequence += 1;
        if self.hole {
            self.hole = false;
            self.sift_down(entry);
        } else {
            self.heap.push(entry);
            self.sift_up(entry);
        }
    }

    /// Takes the first event if it is due at or before `limit`.
    #[inline]
    pub fn pop_until(&mut self, limit: SimTime) -> Option<(SimTime, Event)> {
        self.fill_hole();
        let first = *self.heap.first()?;
        if first.time > limit {
            return None;
        }
        self.hole = true;
        Some((first.time, first.event))
    }

    #[inline]
    fn fill_hole(&mut self) {
        if self.hole {
            self.hole = false;
            if let Some(last) = self.heap.pop()
                && !self.heap.is_empty()
            {
                self.sift_down(last);
            }
        }
    }

    /// Moves the hole at the end up to where `entry` belongs.
    #[inline]
    fn sift_up(&mut self, entry: Entry) {
        let mut at = self.heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }

    /// Moves the hole at the root down to where `entry` belongs.
    #[inline]
    fn sift_down(&mut self, entry: Entry) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let best = match heap.get(first..first + ARITY) {
                Some(children) => first + least_of_four(children),
                None => {
                    let Some(last) = heap.len().checked_sub(first + 1) else { break };
                    let mut best = first;
                    for child in first + 1..=first + last {
                        if heap[child].before(&heap[best]) {
                            best = child;
                        }
                    }
                    best
                }
            };
            let least = heap[best];
            if entry.before(&least) {
                break;
            }
            heap[at] = least;
            at = best;
        }
        heap[at] = entry;
    }
}

/// Which of four entries is first. Comparisons become numbers instead of branches: which child wins is as
/// good as random, and a mispredicted branch costs more than all of this.
#[inline]
fn least_of_four(children: &[Entry]) -> usize {
    let first = usize::from(children[1].before(&children[0]));
    let second = 2 + usize::from(children[3].before(&children[2]));
    let later = usize::from(children[second].before(&children[first]));
    first + later * (second - first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(queue: &mut EventQueue) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| queue.pop_until(SimTime::NEVER))
            .map(|(time, event)| match event {
                Event::Arrive(port) => (time.picos(), port.0),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn ties_keep_the_order_of_scheduling() {
        let mut queue = EventQueue::new();
        for (id, time) in [5, 3, 5, 3, 5].into_iter().enumerate() {
            queue.push(SimTime::from_picos(time), Event::Arrive(PortId(id as u32)));
        }
        assert_eq!(drain(&mut queue), [(3, 1), (3, 3), (5, 0), (5, 2), (5, 4)]);
    }

    #[test]
    fn nothing_comes_out_before_its_time() {
        let mut queue = EventQueue::new();
        queue.push(SimTime::from_picos(7), Event::Arrive(PortId(0)));
        assert_eq!(queue.pop_until(SimTime::from_picos(6)), None);
        assert_eq!(queue.len(), 1);
        assert!(queue.pop_until(SimTime::from_picos(7)).is_some());
        assert!(queue.is_empty());
        assert_eq!(queue.pop_until(SimTime::NEVER), None);
    }

    #[test]
    fn entries_are_small() {
        assert_eq!(size_of::<Entry>(), 24);
    }

    proptest! {
        /// Insertions and removals in any order give what a stable sort by time gives.
        #[test]
        fn agrees_with_a_stable_sort(steps in proptest::collection::vec(proptest::option::of(0u64..50), 0..300)) {
            let mut queue = EventQueue::new();
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (id, step) in steps.into_iter().enumerate() {
                if let Some(time) = step {
                    queue.push(SimTime::from_picos(time), Event::Arrive(PortId(id as u32)));
                    model.push((time, id as u32));
                } else {
                    model.sort_by_key(|&(time, _)| time);
                    let expected = (!model.is_empty()).then(|| model.remove(0));
                    let got = queue.pop_until(SimTime::NEVER).map(|(time, event)| match event {
                        Event::Arrive(port) => (time.picos(), port.0),
                        other => panic!("{other:?}"),
                    });
                    prop_assert_eq!(got, expected);
                }
            }
            model.sort_by_key(|&(time, _)| time);
            prop_assert_eq!(drain(&mut queue), model);
        }
    }
}
