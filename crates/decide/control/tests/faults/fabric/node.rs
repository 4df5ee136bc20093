//! Machines and the fabric broker's host: clocks, traffic, and the state that survives a broker's
//! crash.

use crate::network::{Arrival, Marks};
use std::sync::Arc;
use weir_control::{FabricBroker, NetworkReading, RackBroker};
use weir_units::{Bandwidth, Bytes, Direction, Instant, PerDirection};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// A clock with an offset that runs a little fast or slow.
pub(crate) struct Clock {
    pub(crate) offset: u64,
    /// In millionths.
    pub(crate) speed: u64,
}

impl Clock {
    /// The time on this clock at a true time.
    pub(crate) fn local(&self, time: u64) -> Instant {
        Instant::from_nanos(self.offset + (u128::from(time) * u128::from(self.speed) / 1_000_000) as u64)
    }
    /// The first true time at which the clock shows `local`.
    pub(crate) fn global(&self, local: Instant) -> u64 {
        let ticks = u128::from(local.nanos().saturating_sub(self.offset));
        (ticks * 1_000_000).div_ceil(u128::from(self.speed)) as u64
    }
}

pub(crate) enum Broker {
    Rack(Box<RackBroker>),
    Fabric(Box<FabricBroker>),
}

/// A host: its broker may be absent; its clock and its number of starts stay.
pub(crate) struct Node {
    pub(crate) broker: Option<Broker>,
    pub(crate) clock: Clock,
    /// Starts so far, which identify stale timers.
    pub(crate) incarnation: u64,
    /// Kept on disk.
    pub(crate) epoch: u64,
    pub(crate) partition: u8,
    /// The time of the crash while its broker is absent.
    pub(crate) crashed: Option<u64>,
    /// The limits that its broker inherited at its start.
    pub(crate) inherited: PerDirection<Vec<Bandwidth>>,
    pub(crate) started: u64,
}

impl Node {
    pub(crate) fn rack(&self) -> Option<&RackBroker> {
        match &self.broker {
            Some(Broker::Rack(broker)) => Some(broker),
            _ => None,
        }
    }
}

/// The traffic of a machine: a fluid that continues with or without a broker.
pub(crate) struct Traffic {
    pub(crate) offered: PerDirection<Vec<Bandwidth>>,
    pub(crate) limits: PerDirection<Vec<Bandwidth>>,
    /// Bits × 10^9 sent and received so far, without rounding errors.
    counted: PerDirection<Vec<u128>>,
    /// The received part in marked packets.
    marked: Vec<u128>,
    until: u64,
    marks: Marks,
    arrival: Arrival,
}

impl Traffic {
    pub(crate) fn new(leaves: usize, marks: Marks) -> Self {
        Self {
            offered: PerDirection::both(vec![Bandwidth::ZERO; leaves]),
            limits: PerDirection::both(vec![Bandwidth::UNLIMITED; leaves]),
            counted: PerDirection::both(vec![0; leaves]),
            marked: vec![0; leaves],
            until: 0,
            marks,
            arrival: Arrival::nothing(leaves),
        }
    }
    /// The rate at which a service would send or receive under its limit.
    pub(crate) fn wanted(&self, direction: Direction, leaf: usize) -> Bandwidth {
        self.offered[direction][leaf].min(self.limits[direction][leaf])
    }
    /// The rate at which a service sends, or is sent traffic: within its limits and its interface.
    pub(crate) fn sent(&self, direction: Direction, leaf: usize) -> Bandwidth {
        match direction {
            Direction::Tx => self.wanted(direction, leaf),
            Direction::Rx => self.arrival.sent[leaf],
        }
    }
    /// The rate at which a service sends, or receives: the delivered part.
    pub(crate) fn usage(&self, direction: Direction, leaf: usize) -> Bandwidth {
        match direction {
            Direction::Tx => self.wanted(direction, leaf),
            Direction::Rx => self.arrival.rates[leaf],
        }
    }
    /// Whether a queue throttles some of the traffic sent to it.
    pub(crate) fn is_throttled(&self) -> bool {
        self.arrival.rates != self.arrival.sent
    }
    /// Replaces the arriving traffic from now on.
    pub(crate) fn receive(&mut self, now: u64, arrival: Arrival) {
        self.count(now);
        self.arrival = arrival;
    }
    /// Bits × 10^9 received so far, in all and in marked packets.
    pub(crate) fn received(&self, leaf: usize) -> (u128, u128) {
        (self.counted.rx[leaf], self.marked[leaf])
    }
    pub(crate) fn network(&self, leaf: usize) -> NetworkReading {
        self.marks.reading((self.counted.rx[leaf], self.marked[leaf]), self.usage(Direction::Rx, leaf), None)
    }
    pub(crate) fn count(&mut self, now: u64) {
        let time = u128::from(now - self.until);
        self.until = now;
        for direction in Direction::ALL {
            for leaf in 0..self.counted[direction].len() {
                let bits = u128::from(self.usage(direction, leaf).bps()) * time;
                self.counted[direction][leaf] += bits;
                if direction == Direction::Rx {
                    self.marked[leaf] += self.arrival.marked(leaf, bits);
                }
            }
        }
    }
    pub(crate) fn bytes(&self, leaf: usize) -> PerDirection<Bytes> {
        let bytes = |bits: u128| Bytes::new((bits / (8 * u128::from(SECOND))) as u64);
        PerDirection { tx: bytes(self.counted.tx[leaf]), rx: bytes(self.counted.rx[leaf]) }
    }
}

/// A datagram in flight.
pub(crate) struct Flight {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) bytes: Arc<[u8]>,
}
