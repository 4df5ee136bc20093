//! D3: rates granted by switches, so that flows meet deadlines.
//!
//! Once per round trip a flow requests from every switch on its path the rate that it needs to meet
//! its deadline: the remaining bytes divided by the remaining time; without a deadline it requests
//! 0. Each port grants the requested rate and a fair share of the rest, or its remaining capacity
//! ([`Router`]). The flow sends at the smallest of the grants until the next one.
//!
//! - The first request travels alone, since a flow may not send without a grant; later ones with
//!   the round trip's first data packet. Each returns the ports' notes about the flow ([`Note`]),
//!   so that switches keep no state of flows.
//! - A flow with a grant of zero, or one so small that its packets are rare, sends a request
//!   without data once per round trip (the base rate).
//! - The flow's final request, after everything is acknowledged, returns its rate.
//! - Losses are detected and repaired as in TCP ([`crate::tcp`]), without a window: the rate alone
//!   decides when a packet leaves. Where switches spray packets, a late packet looks lost after
//!   three later ones: raise `dup-thresh`.
//! - A request or its grant may be lost. The flow then stops after a retransmission timeout, since
//!   a grant is for one round trip, and sends the request again. A network that drops payloads
//!   before requests, as D3's authors assume, loses none.
//!
//! **Paths change**: a link fails or is repaired, and the ports of the next request are not those
//! of the last grant. A port that subtracted another port's grant would overestimate its remaining
//! capacity, and the other port would never remove the flow. So a note belongs to its port: a port
//! subtracts only its own note, at any position, and a flow without one is new to it. A port that a
//! flow has left forgets it, because the flow's requests no longer arrive. The rule is Weir's; D3's
//! authors have flows that stay on their paths.
//!
//! Where switches **spray** packets, one port carries only a part of a flow. The flow keeps the
//! notes of all recent ports; a port that finds k different ones for its position on the path, its
//! own included, counts a k-th of a flow and a k-th of its rate.
//!
//! A request is the control field of a segment, with the layout [`RateHeader`]. The [`Router`] of a
//! port is its agent ([`crate::agents`]); the grant returns with the acknowledgement of the segment.
//! A backend lets requests pass full queues if it can: the authors drop the payload and keep the
//! header.
//!
//! **Faults of D3 as others measured it.** Two settings reproduce them; with their defaults D3 has neither. With
//! `granularity: 8Mb/s` grants are multiples of D3's unit on the wire, 1 byte per microsecond, rounded down: a link of
//! 1 Gb/s has at most 125 flows, and the remainders are lost to all. With `capacity-max: 4` a port whose flows are
//! limited elsewhere may assign up to four times its link's rate, to use what these flows leave; when others arrive,
//! the grants exceed the link and a queue grows (PACE, sections IV.A and IV.B).
//!
//! A flow whose deadline has passed continues as one without a deadline. The paper may also stop it
//! (§6.1.3); Weir does not, since an undelivered flow has no completion time.
//!
//! Example: 1 MB with a deadline in 10 ms requests about 800 Mb/s. After 5 ms at 900 Mb/s 437.5 kB
//! remain: it requests 700.
//!
//! Example of a failure: ports A and B have 1 Gb/s and two flows each, at 500 Mb/s. A's link fails.
//! A's flows send their requests to B next; it finds no note of its own, counts four flows, has no
//! capacity left and grants 0. Its own two return with 500 and get 1 Gb/s / 4 = 250; when A's two
//! repeat their requests a round trip later, they get 250 too.
//!
//! Source: Wilson et al., "Better Never than Late: Meeting Deadlines in Datacenter Networks",
//! SIGCOMM 2011; github.com/SymbioticLab/Aequitas (`ext/d3_flow.cpp`, `ext/d3_queue.cpp`); the unit of grants and the
//! capacity above the link's: Carvalho, Kim and Neves, "PACE Your Network: Fair and Controllable Multi-Tenant Data
//! Center Networks".

mod router;
mod sender;

pub use router::{Note, Router};
pub(crate) use sender::Sender;

use crate::language::{Reader, TIME};
use crate::receiver::Policy;
use crate::tcp;
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, Record, Shape};
use weir_document::{Node, Problems};
use weir_units::{Bandwidth, SimTime};

/// The content of a request, the data that it collects on its path, and the data that its
/// acknowledgement returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateHeader {
    /// The requested rate.
    pub desired: Bandwidth,
    /// The smallest grant so far; before the first port, the rate of the sending host.
    pub rate: Bandwidth,
    /// The notes of ports on the flow's earlier requests, at most one note of each port.
    pub before: Vec<Note>,
    /// The notes of the ports that this request passed, in order.
    pub noted: Vec<Note>,
    /// The number of the request, so that only the grant of the newest counts.
    pub number: u32,
    /// The flow sends another request within this time, unless something is lost. Ports keep it for
    /// so long.
    pub within: SimTime,
    /// The flow's packets take all paths at once.
    pub sprayed: bool,
    /// The flow's final request: everything is returned.
    pub last: bool,
}

impl RateHeader {
    /// A header without a request that has passed no port.
    pub const EMPTY: Self = Self {
        desired: Bandwidth::ZERO,
        rate: Bandwidth::UNLIMITED,
        before: Vec::new(),
        noted: Vec::new(),
        number: 0,
        within: SimTime::ZERO,
        sprayed: false,
        last: false,
    };
}

/// Parameters of D3. `alpha`, `beta`, `interval`, `granularity` and `capacity_max` are for [`Router`]s.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// The rate of a flow with a grant of zero: 0, a request without data per round trip. It is not
    /// counted by the switches.
    pub base_rate: Bandwidth,
    /// The shortest retransmission timeout: 10 ms, usual in data-center studies (htsim's
    /// `sim/dctcp.cpp`). A flow sends requests at least so often, if two round trips are not
    /// longer.
    pub min_rto: SimTime,
    /// How many segments above a gap mean that it is lost: 3 (RFC 5681 §3.2). D3's authors give no
    /// value, and their flows keep to one path.
    pub dup_thresh: u32,
    /// How fast a port assigns unused capacity, per interval, 0 to 1: 0.1.
    pub alpha: f64,
    /// How much capacity it withholds for its queue, 0 to 10: 1, all of it within one interval.
    pub beta: f64,
    /// The interval of adaptation: 300 µs, which Aequitas' simulator uses for the round trip of the
    /// paper's network.
    pub interval: SimTime,
    /// The unit of grants, which ports round down to multiples of it: zero, none. In D3's header it is 1 byte per
    /// microsecond, 8 Mb/s.
    pub granularity: Bandwidth,
    /// The most of the capacity that a port divides, as a factor of its link's rate, 1 to 100: 1.
    pub capacity_max: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            base_rate: Bandwidth::ZERO,
            min_rto: SimTime::from_millis(10),
            dup_thresh: tcp::DUP_THRESH,
            alpha: 0.1,
            beta: 1.0,
            interval: SimTime::from_micros(300),
            granularity: Bandwidth::ZERO,
            capacity_max: 1.0,
        }
    }
}

/// D3 in a scenario.
pub static PARAMETERS: Record = Record {
    id: "d3",
    what: "D3",
    doc: "D3 (SIGCOMM 2011): switches grant rates, for deadlines first. All ports must take requests.",
    keys: &[
        Key::optional(
            "base-rate",
            Shape::Scalar(&Scalar::Rate { unlimited: false, zero: true }),
            "The rate of a flow that is granted nothing; 0b/s, which is a request without data per round trip.",
            "base-rate: 0b/s",
        ),
        Key::optional("min-rto", TIME, "The shortest retransmission timeout; 10ms.", "min-rto: 10ms"),
        tcp::DUP_THRESH_KEY,
        Key::optional(
            "alpha",
            Shape::Scalar(&Scalar::Decimal { what: "a gain", min: 0, max: 1_000_000 }),
            "The gain by which ports assign unused capacity; 0.1.",
            "alpha: 0.1",
        ),
        Key::optional(
            "beta",
            Shape::Scalar(&Scalar::Decimal { what: "a gain", min: 0, max: 10_000_000 }),
            "The gain by which ports withhold capacity for their queue; 1.",
            "beta: 1",
        ),
        Key::optional("interval", TIME, "The interval at which ports adapt their capacity; 300us.", "interval: 300us"),
        Key::optional(
            "granularity",
            Shape::Scalar(&Scalar::Rate { unlimited: false, zero: true }),
            "The unit of grants, which ports round down to its multiples; 0b/s, none. D3's header has 1 B/us, 8Mb/s.",
            "granularity: 0b/s",
        ),
        Key::optional(
            "capacity-max",
            Shape::Scalar(&Scalar::Decimal { what: "a factor", min: 1_000_000, max: 100_000_000 }),
            "The most capacity that a port divides, as a factor of its link's rate; 1.",
            "capacity-max: 1",
        ),
    ],
};

/// Reads the parameters; `None` only if something was reported.
pub fn read(node: &Node, problems: &mut Problems) -> Option<Parameters> {
    let mut reader = Reader::new(&PARAMETERS, node, problems);
    let mut read = Parameters::default();
    reader.rate("base-rate", &mut read.base_rate);
    reader.time("min-rto", &mut read.min_rto);
    reader.number("dup-thresh", &mut read.dup_thresh);
    reader.decimal("alpha", &mut read.alpha);
    reader.decimal("beta", &mut read.beta);
    reader.time("interval", &mut read.interval);
    reader.rate("granularity", &mut read.granularity);
    reader.decimal("capacity-max", &mut read.capacity_max);
    reader.finish(read)
}

impl Parameters {
    /// When the receiver acknowledges.
    pub(crate) fn policy(&self) -> Policy {
        Policy::Each
    }
}
