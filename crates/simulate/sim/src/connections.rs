//! Connections that stay open, and the messages that wait for them.
//!
//! Problem: services use a fixed number of TCP connections between two machines, and an application
//! waits for a message: its time counts from when it was handed over, including the time behind
//! other messages. Approach: the first messages of a pair of hosts open its connections, one each;
//! a later one goes to the connection with the fewest messages under way, in turn among equals.
//! That is an idle connection if there is one, and the shortest queue otherwise: the policy of
//! connection pools that count outstanding requests (Finagle's and Envoy's least-request
//! balancing). On a connection, messages are one stream of bytes, in order; each ends when its last
//! byte is delivered. The receiver then acknowledges at once, since its application sends a
//! response that carries the acknowledgement.
//!
//! Window, round-trip time and threshold of a connection persist from message to message;
//! [`weir_transport`] describes the effect of idle periods on them.
//!
//! Worked example: two connections, and three messages at once: the first and the second have one
//! each, the third waits behind the first. Its time counts from now on, and includes the wait.
//!
//! Source: Parley §6.3 (24 connections between each pair of a service).

use crate::ids::FlowId;
use crate::sources::Known;
use std::collections::{BTreeMap, VecDeque};
use weir_units::SimTime;

/// A connection and its messages.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) flow: FlowId,
    /// Messages that are not delivered, in order.
    pub(crate) messages: VecDeque<Message>,
    /// The end of the last message that was handed over.
    written: u64,
    /// The flow's counters at the end of the last message.
    pub(crate) retransmissions: u32,
    pub(crate) timeouts: u32,
}

/// A message on its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) known: Known,
    pub(crate) bytes: u64,
    /// The end of its last byte in the connection's stream.
    pub(crate) end: u64,
    pub(crate) deadline: Option<SimTime>,
}

impl Message {
    /// The delivered bytes of the message, if `delivered` bytes of its connection are delivered.
    pub(crate) fn delivered(&self, delivered: u64) -> u64 {
        delivered.saturating_sub(self.end - self.bytes).min(self.bytes)
    }
}

impl Connection {
    pub(crate) fn new(flow: FlowId) -> Self {
        Self { flow, messages: VecDeque::new(), written: 0, retransmissions: 0, timeouts: 0 }
    }

    /// Appends a message of `bytes`. Returns its end in the stream.
    pub(crate) fn push(&mut self, known: Known, bytes: u64, deadline: Option<SimTime>) -> u64 {
        self.written += bytes;
        self.messages.push_back(Message { known, bytes, end: self.written, deadline });
        self.written
    }
}

/// The connections of a source: a fixed number between each pair of hosts.
#[derive(Debug)]
pub(crate) struct Pool {
    per_pair: u32,
    pairs: BTreeMap<(u32, u32), Pair>,
}

#[derive(Debug, Default)]
struct Pair {
    /// Its connections, as indices into the table of all.
    open: Vec<u32>,
    /// The connection whose turn it is.
    turn: u32,
}

impl Pool {
    pub(crate) fn new(per_pair: u32) -> Self {
        Self { per_pair, pairs: BTreeMap::new() }
    }

    /// The connection for the next message from one host to another; `None` for a new one, whose
    /// index is the next of `all`.
    pub(crate) fn choose(&mut self, from: u32, to: u32, all: &[Connection]) -> Option<u32> {
        let pair = self.pairs.entry((from, to)).or_default();
        // Connections open in turn, so until all are open the next one is new.
        let open = pair.open.len() as u32;
        if open < self.per_pair {
            pair.open.push(all.len() as u32);
            pair.turn = (open + 1) % self.per_pair;
            return None;
        }
        let (mut best, mut fewest) = (pair.turn, usize::MAX);
        for index in (pair.turn..open).chain(0..pair.turn) {
            let waiting = all[pair.open[index as usize] as usize].messages.len();
            if waiting < fewest {
                (best, fewest) = (index, waiting);
            }
            if waiting == 0 {
                break;
            }
        }
        pair.turn = (best + 1) % open;
        Some(pair.open[best as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(id: u64) -> Known {
        Known { id, group: 0, tag: id, start: SimTime::ZERO, ideal: SimTime::ZERO, sampled: 0 }
    }

    #[test]
    fn the_shortest_queue_is_next_and_equal_queues_take_turns() {
        let (mut pool, mut all) = (Pool::new(3), Vec::new());
        let mut send = |all: &mut Vec<Connection>, from| {
            let index = pool.choose(from, 9, all).unwrap_or_else(|| {
                all.push(Connection::new(FlowId(all.len() as u32)));
                all.len() as u32 - 1
            });
            all[index as usize].push(known(0), 10, None);
            index
        };
        // The connections open in turn, and another pair has its own connections.
        assert_eq!([0, 0, 1, 0].map(|from| send(&mut all, from)), [0, 1, 2, 3]);
        // All have one message: again in turn.
        assert_eq!([0, 0].map(|from| send(&mut all, from)), [0, 1]);
        // The last has one, the others two.
        assert_eq!(send(&mut all, 0), 3);
        // An idle connection comes first, wherever it stands.
        all[1].messages.clear();
        assert_eq!([0, 0].map(|from| send(&mut all, from)), [1, 1]);
        // Equal queues: the turn continues after the last one.
        assert_eq!([0, 0, 0].map(|from| send(&mut all, from)), [3, 0, 1]);
    }

    #[test]
    fn a_stream_is_divided_among_its_messages() {
        let mut connection = Connection::new(FlowId(0));
        assert_eq!([10, 20, 5].map(|bytes| connection.push(known(0), bytes, None)), [10, 30, 35]);
        let delivered = |upto| connection.messages.iter().map(|message| message.delivered(upto)).collect::<Vec<_>>();
        assert_eq!(delivered(0), [0, 0, 0]);
        assert_eq!(delivered(12), [10, 2, 0]);
        assert_eq!(delivered(35), [10, 20, 5]);
    }
}
