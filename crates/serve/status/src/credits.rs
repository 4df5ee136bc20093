//! The status of credits: of a switch's port that grants them, of a host that sends with them, and of flows.

use serde::{Deserialize, Serialize};

/// The credits of a port (PACE), while `weir forwarder` runs. Counters are since its programs' maps exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PortCredits {
    /// R: what is granted of the port.
    pub rate_bps: u64,
    /// Whether data without credits is dropped, so that credited data never is.
    pub lossless: bool,
    /// Whether the port grants nothing yet after a start without its state.
    pub closed: bool,
    /// Flows with shares.
    pub flows: u64,
    /// Flows that ended without a termination.
    pub flows_expired: u64,
    /// p of the port, in microseconds.
    pub period_us: u64,
    /// The longest p of the port and its flows, in microseconds.
    pub longest_us: u64,
    /// The level: the part of the port for a service of weight 1, all of its pairs together, in billionths.
    pub level_billionths: u64,
    /// The part of the port that no flow demands, in billionths.
    pub rest_billionths: u64,
    /// The most that the port grants and queues.
    pub budget_bytes: u64,
    /// Granted bytes that have not arrived.
    pub outstanding_bytes: u64,
    /// Bytes of data with credits in the queue, by a model of it.
    pub queued_bytes: u64,
    /// Bytes granted.
    pub granted_bytes: u64,
    /// Bytes of data with credits.
    pub arrived_bytes: u64,
    /// Bytes of grants that expired.
    pub expired_bytes: u64,
    /// Bytes of grants that later ports cut, or flows did not use.
    pub released_bytes: u64,
    /// Bytes of data without credits.
    pub late_bytes: u64,
    /// Packets with such bytes.
    pub late_packets: u64,
    /// Bytes of data without credits while the port was closed.
    pub unaccounted_bytes: u64,
    /// Bytes of data without credits of flows that had newly come from another path, which are not dropped.
    pub rerouted_bytes: u64,
    /// Allocations that arrived.
    pub allocations: u64,
    /// Of these, those that came again.
    pub allocations_duplicate: u64,
    /// Those older than the newest.
    pub allocations_stale: u64,
    /// Those whose data leaves by another port.
    pub allocations_astray: u64,
    /// Those whose lifetime is longer than the port can keep.
    pub allocations_too_long: u64,
    /// Those of flows that had ended.
    pub allocations_ended: u64,
    /// Authentic messages.
    pub messages: u64,
    /// Messages whose tag no key verifies.
    pub messages_forged: u64,
    /// Messages not newer than the last of their flow.
    pub messages_replayed: u64,
    /// Messages of another version.
    pub messages_other_version: u64,
    /// Datagrams to the port of messages that are none.
    pub messages_foreign: u64,
    /// Messages with impossible values.
    pub messages_malformed: u64,
    /// Messages of services without credits.
    pub messages_unknown_service: u64,
    /// Flows that got no entry because the table was full.
    pub flows_refused: u64,
    /// Packets of data without credits that were dropped.
    pub dropped_packets: u64,
    /// Allocations that could not be rewritten.
    pub rewrites_failed: u64,
}

/// The credits of a host (PACE). Counters are since its services or its interface last changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostCredits {
    /// R: what the host's own port grants, in the direction in which it sends.
    pub rate_bps: u64,
    /// p of that port, in microseconds.
    pub period_us: u64,
    /// The longest p of the port and its flows, in microseconds.
    pub longest_us: u64,
    /// The level: the part of the port for a service of weight 1, all of its pairs together, in billionths.
    pub level_billionths: u64,
    /// The part of the port that no flow demands, in billionths.
    pub rest_billionths: u64,
    /// The most that the port grants and queues.
    pub budget_bytes: u64,
    /// Granted bytes that have not left.
    pub outstanding_bytes: u64,
    /// Bytes that have left their gates and not the interface, by a model.
    pub queued_bytes: u64,
    /// Bytes granted.
    pub granted_bytes: u64,
    /// Bytes that have left with credits.
    pub sent_bytes: u64,
    /// Bytes of grants that expired.
    pub expired_bytes: u64,
    /// Bytes of grants that flows did not use.
    pub released_bytes: u64,
    /// Bytes that left beyond the credits of their flow.
    pub overspent_bytes: u64,
    /// Flows that the host sends.
    pub flows_sent: u64,
    /// Flows that it receives.
    pub flows_received: u64,
    /// Whether the thread of credits is a real-time one; others may be late by more than a period.
    pub prompt: bool,
    /// Allocations that opened a gate.
    pub allocations: u64,
    /// Allocations of flows that the host does not send.
    pub allocations_unwanted: u64,
    /// Allocations not later than the newest of their flow.
    pub allocations_stale: u64,
    /// Returns of flows that the host does not receive.
    pub returns_astray: u64,
    /// Returns that arrived after the next allocation was issued: round trips longer than a period.
    pub returns_slow: u64,
    /// Messages of new flows beyond the most that the host has a state for.
    pub flows_refused: u64,
    /// Packets dropped since the queue of their gate was full, no allocation came, or their service lost its credits.
    pub dropped_packets: u64,
    /// Messages whose tag no key verifies.
    pub messages_forged: u64,
    /// Messages not newer than the last of their flow.
    pub messages_replayed: u64,
    /// Messages of another version.
    pub messages_other_version: u64,
    /// Datagrams to the port of messages that are none.
    pub messages_foreign: u64,
    /// Messages with impossible values.
    pub messages_malformed: u64,
    /// Messages of services without credits.
    pub messages_unknown_service: u64,
    /// Messages that could not be sent.
    pub messages_unsent: u64,
    /// The flows that the host sends, by falling share; at most [`CreditFlow::MOST`].
    pub flows: Vec<CreditFlow>,
}

/// A flow with credits: the data of a service from one host to another.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CreditFlow {
    /// The service's path.
    pub service: String,
    /// The address of the host that sends.
    pub source: String,
    /// The address of the host that receives.
    pub destination: String,
    /// Its weight in thousandths: the product of the receiver's and the sender's.
    pub weight_thousandths: u64,
    /// The rate that it may send: the newest allocation over its period, as it left the port of the status.
    pub share_bps: u64,
    /// The rate that it could use, as its newest allocation arrived at this port: the ports between the receiver and
    /// this one have reduced it.
    pub demand_bps: u64,
    /// The constraint that holds it. At a host: `demand`, `first port`, `network`, `receiver` or `no allocation`. At a
    /// switch: `this port` or `elsewhere`. Empty before the first allocation.
    pub held_by: String,
}

impl CreditFlow {
    /// The most flows that a status holds of a host or of a port: some hundred bytes each.
    pub const MOST: usize = 256;

    /// The flows that a status holds: those with the largest shares.
    pub fn largest(mut flows: Vec<Self>) -> Vec<Self> {
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.share_bps));
        flows.truncate(Self::MOST);
        flows
    }
}
