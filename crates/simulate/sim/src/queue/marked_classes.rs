//! The queues of a port to which packets are mapped by their marks: DSCP values, and classes of latency levels.
//!
//! Problem: a switch maps packets to tenants' queues by DSCP values, and the map changes while packets wait. Approach:
//! a table by mark, read when a packet arrives; one that waits stays in the queue that it has joined.
//!
//! Example: a port with four queues and one level: class 0 of levels is class 4 here; DSCP 12 in queue 2 is class 2;
//! everything else is class 0.

use crate::packet::OTHERS;
use std::collections::BTreeMap;

/// Marks: the classes below [`OTHERS`], that class, and DSCP values 1 to 63 above it.
const MARKS: usize = OTHERS as usize + 64;

/// The classes of marks, and the bytes that each class has sent.
#[derive(Debug)]
pub(crate) struct MarkedClasses {
    classes: [u8; MARKS],
    /// By class: the weighted queues, then the levels.
    pub(crate) sent: Box<[u64]>,
}

impl MarkedClasses {
    /// Everything but the levels is in queue 0.
    pub(crate) fn new(queues: u8, levels: u8) -> Self {
        let mut classes = [0; MARKS];
        (0..levels).for_each(|level| classes[usize::from(level)] = queues + level);
        Self { classes, sent: vec![0; usize::from(queues + levels)].into() }
    }

    /// Assigns DSCP values above 0 to queues, and all others to queue 0.
    pub(crate) fn assign(&mut self, map: &BTreeMap<u8, u8>) {
        self.classes[OTHERS.into()..].fill(0);
        map.iter().for_each(|(dscp, queue)| self.classes[usize::from(OTHERS + dscp)] = *queue);
    }

    /// The class of a mark.
    #[inline]
    pub(crate) fn class(&self, mark: u8) -> usize {
        self.classes[usize::from(mark)].into()
    }
}
