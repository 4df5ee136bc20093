//! [`Driver`]: a kind of switch, in two operations: read a port, write steps.
//!
//! Problem: netlink replies to each request; a gNMI `Set` is a transaction; SONiC's CONFIG_DB accepts any row without
//! a reply, daemons apply it within about a second, and a rejected row is only a line in syslog. Approach: no
//! driver's acknowledgement counts. [`apply`](crate::apply::apply) reads the ports back after each stage and
//! compares; a driver whose effects are late waits in [`Driver::wait`].
//!
//! The rules of a driver:
//!
//! - [`read`](Driver::read) returns what is in force, not what was written last: for SONiC what ASIC_DB has.
//! - [`write`](Driver::write) sets each field to its new value, whatever the field is now ([`Change::apply`]): rollback
//!   writes the inverse of steps of which it is unknown whether they were done.
//! - A weight, a scheduler, a threshold and a map change in place: no queue is removed and added again, which would
//!   drop its packets (SONiC: `HSET` of one field, never `DEL` and `HSET`; HTB: a class change).
//! - A map is written completely. The steps of one call may be one transaction; their order is a valid sequence too.
//! - Blocking is allowed; a driver belongs to one switch and one caller.
//!
//! A switch that assigns packets to queues where they arrive has one map for all its ports
//! ([`Map::PerSwitch`](crate::Map::PerSwitch)). [`apply`](crate::apply::apply) then refuses maps that differ, within
//! one call and from other ports that have a map ([`Driver::mapped`]).
//!
//! [`Change::apply`]: crate::change::Change::apply

use crate::capabilities::Capabilities;
use crate::change::Step;
use crate::port::PortState;
use std::collections::BTreeMap;
use std::error::Error;
use weir_units::Bytes;

/// A write that failed.
#[derive(Debug)]
pub struct WriteError<E> {
    /// The index of the first step that may not have been done.
    pub step: usize,
    /// The cause.
    pub error: E,
}

impl<E> WriteError<E> {
    /// The same with another error.
    pub fn map<F>(self, error: impl FnOnce(E) -> F) -> WriteError<F> {
        WriteError { step: self.step, error: error(self.error) }
    }
}

/// A switch that can be configured.
pub trait Driver {
    /// Why an operation failed.
    type Error: Error;

    /// The switch's name, for messages.
    fn switch(&self) -> &str;

    /// The abilities of its ports.
    fn capabilities(&self) -> Capabilities;

    /// The configuration of a port that is in force. A configuration that is not Weir's is an error: it would be lost.
    fn read(&mut self, port: &str) -> Result<PortState, Self::Error>;

    /// Writes steps. After an error any number of them may have been done.
    fn write(&mut self, steps: &[Step]) -> Result<(), WriteError<Self::Error>>;

    /// Waits for a write to take effect, after `reads` reads that did not show it; whether another read is worthwhile.
    /// A driver whose writes take effect before they return does not wait.
    fn wait(&mut self, reads: u32) -> bool {
        let _ = reads;
        false
    }

    /// The ports that have a map of Weir's, whether a caller names them or not. Only a switch with one map for all
    /// ports ([`Map::PerSwitch`](crate::Map::PerSwitch)) needs it.
    fn mapped(&mut self) -> Result<Vec<String>, Self::Error> {
        Ok(Vec::new())
    }

    /// The remedy for an error, if there is one.
    fn hint(&self, error: &Self::Error) -> Option<String> {
        let _ = error;
        None
    }
}

/// A switch whose queues' counters can be read.
pub trait ReadQueues: Driver {
    /// The counters of a port's queues, by number; none of a queue that does not exist.
    fn queues(&mut self, port: &str) -> Result<BTreeMap<u8, QueueReading>, Self::Error>;

    /// Whether readings have `sent` and `backlog` of the moment at which they are made. Where they do not, a queue's
    /// drain is bounded by time ([`crate::drain`]).
    fn are_live(&self) -> bool;
}

/// The counters of a queue; `None`: the switch has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueReading {
    /// Bytes that it has sent since it exists.
    pub sent: Option<Bytes>,
    /// Bytes in it.
    pub backlog: Option<Bytes>,
    /// Packets, or buffers of several, that found it full.
    pub dropped: Option<u64>,
    /// Packets that it has marked (ECN).
    pub marked: Option<u64>,
}
