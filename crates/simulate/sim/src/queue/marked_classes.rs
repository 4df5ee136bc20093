//! The queues of a port to which packets are mapped by their marks: DSCP values, and classes of latency levels.
//!
//! Problem: a switch maps packets to tenants' queues by DSCP values, and the map changes while packets wait. Approach:
//! a table by mark, read when a packet arrives; one that waits stays in the queue that it has joined.
//!
//! Credits have classes that no map changes: messages a strict one below the levels, or that of the data; data a
//! weighted or a strict one, with room of its own.
//!
//! Example: a port with four queues and one level: class 0 of levels is class 4 here; DSCP 12 in queue 2 is class 2;
//! everything else is class 0.

use crate::packet::OTHERS;
use std::collections::BTreeMap;
use weir_network::switches::{CREDIT_DATA, CREDIT_MESSAGES};

/// Marks: the classes below [`OTHERS`], that class, and DSCP values 1 to 63 above it.
const MARKS: usize = OTHERS as usize + 64;

/// The queues of credits at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CreditClasses {
    /// The weights of the queue of data and of that of all other traffic; `None` for a strict queue of data.
    pub(crate) weights: Option<(u16, u16)>,
    /// Whether messages have a strict queue; else they are with the data.
    pub(crate) has_messages: bool,
    /// The bytes that the queue of data holds; `None` for a part of the switch's shared buffer.
    pub(crate) buffer: Option<u64>,
}

/// The class of data with credits, and the bytes that it holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CreditRoom {
    pub(crate) class: usize,
    /// `None` for a part of the switch's shared buffer.
    pub(crate) buffer: Option<u64>,
}

/// The classes of marks, and the bytes that each class has sent.
#[derive(Debug)]
pub(crate) struct MarkedClasses {
    classes: [u8; MARKS],
    /// The number of weighted queues.
    queues: u8,
    /// The classes of DSCP values that no map changes.
    fixed: Vec<(u8, u8)>,
    pub(crate) credits: Option<CreditRoom>,
    /// By class: the weighted queues, then the strict ones.
    pub(crate) sent: Box<[u64]>,
}

impl MarkedClasses {
    /// Everything but the levels is in queue 0.
    pub(crate) fn new(queues: u8, levels: u8) -> Self {
        let mut classes = [0; MARKS];
        (0..levels).for_each(|level| classes[usize::from(level)] = queues + level);
        let sent = vec![0; usize::from(queues + levels)].into();
        Self { classes, queues, fixed: Vec::new(), credits: None, sent }
    }

    /// Adds the classes of credits, strict ones below those that the port has. Returns the number of all classes. A
    /// weighted queue of data is the last of the weighted ones.
    pub(crate) fn add_credits(&mut self, own: CreditClasses) -> usize {
        let mut count = self.sent.len();
        let mut strict = || {
            count += 1;
            count - 1
        };
        let of_messages = own.has_messages.then(&mut strict);
        let class = if own.weights.is_some() { usize::from(self.queues) - 1 } else { strict() };
        self.sent = vec![0; count].into();
        self.credits = Some(CreditRoom { class, buffer: own.buffer });
        self.fixed = vec![(CREDIT_DATA, class as u8), (CREDIT_MESSAGES, of_messages.unwrap_or(class) as u8)];
        self.fix();
        count
    }

    fn fix(&mut self) {
        self.fixed.iter().for_each(|(dscp, class)| self.classes[usize::from(OTHERS + dscp)] = *class);
    }

    /// Assigns DSCP values above 0 to queues, and all others to queue 0.
    pub(crate) fn assign(&mut self, map: &BTreeMap<u8, u8>) {
        self.classes[OTHERS.into()..].fill(0);
        map.iter().for_each(|(dscp, queue)| self.classes[usize::from(OTHERS + dscp)] = *queue);
        self.fix();
    }

    /// The place of a class among strict ones, 0 the first served; `None` for that of a weighted queue.
    #[inline]
    pub(crate) fn strict(&self, class: usize) -> Option<usize> {
        class.checked_sub(self.queues.into())
    }

    /// The class of a mark.
    #[inline]
    pub(crate) fn class(&self, mark: u8) -> usize {
        self.classes[usize::from(mark)].into()
    }
}
