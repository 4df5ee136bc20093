//! D3: rates granted by switches, so that flows meet deadlines.
//!
//! Once per round trip a flow asks every switch on its path for the rate that it needs to meet its deadline, what
//! remains divided by the time that remains; without one it asks for 0. Each port answers with what is asked for
//! and a fair share of the rest, or with what is left ([`Router`]). The flow sends at the smallest of the grants
//! until the next answer.
//!
//! - The first request travels alone, since nothing may be sent without a grant; later ones with the round trip's
//!   first data packet. Each brings back what the ports noted of the flow ([`Note`]), so that switches keep no state
//!   of flows.
//! - A flow that is granted nothing, or so little that its packets are rare, sends a request without data once per
//!   round trip (the base rate).
//! - The flow's last word, after everything is acknowledged, gives back what it has.
//! - Losses are found and repaired as TCP does ([`crate::tcp`]), without a window: the rate alone decides when a
//!   packet goes. Where switches spray packets, one that is late looks lost to three later ones: raise `dup-thresh`.
//! - A request or its answer may be lost. The flow then stops after a retransmission timeout, since a grant is for
//!   one round trip, and asks again. A network that drops payloads before requests, as D3's authors assume, has none of
//!   this.
//!
//! **Paths change**: a link fails or is repaired, and the ports that are asked now are not those that granted before.
//! A port that took out what another one granted would think that it has more left than there is, and the other one
//! would never hear that the flow is gone. So a note belongs to its port: a port takes out its own note only, wherever
//! it stands, and a flow without one is new to it. A port that a flow has left forgets it, because it does not hear of
//! it any more. The rule is Weir's; D3's authors have flows that stay on their paths.
//!
//! Where switches **spray** packets, one port carries only a part of a flow. The flow keeps the notes of all ports
//! that it has met lately; a port that sees k different ones for its place on the path, its own included, counts a
//! k-th of a flow and reckons with a k-th of its rate.
//!
//! A body takes [`crate::Sender::request`] for each segment that says so, calls [`Router::on_request`] at each port
//! that the packet passes, in order, and hands the header back with the acknowledgement of that packet
//! ([`crate::Ack::grant`]). It lets requests pass full queues if it can: the authors drop the payload and keep the
//! header.
//!
//! A flow whose deadline has passed goes on as one without a deadline. The paper may also stop it (§6.1.3); Weir
//! does not, since a flow that is not delivered has no completion time.
//!
//! Example: 1 MB with a deadline in 10 ms asks for about 800 Mb/s. After 5 ms at 900 Mb/s 437.5 kB remain: it asks
//! for 700.
//!
//! Example of a failure: ports A and B have 1 Gb/s and two flows each, at 500 Mb/s. A's link fails. A's flows ask B
//! next; it finds no note of its own, counts four flows, has nothing left and grants 0. Its own two come back with 500
//! and get 1 Gb/s / 4 = 250; when A's two ask again a round trip later, they get 250 too.
//!
//! Source: Wilson et al., "Better Never than Late: Meeting Deadlines in Datacenter Networks", SIGCOMM 2011;
//! github.com/SymbioticLab/Aequitas (`ext/d3_flow.cpp`, `ext/d3_queue.cpp`).

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

/// What a request asks for and collects on its way, and what its acknowledgement brings back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateHeader {
    /// The rate that is asked for.
    pub desired: Bandwidth,
    /// The smallest rate that was granted so far; before the first port, what the sending host can send.
    pub rate: Bandwidth,
    /// What ports noted of the flow's requests before, at most one note of each port.
    pub before: Vec<Note>,
    /// What the ports that this request passed have noted, in order.
    pub noted: Vec<Note>,
    /// Which of the flow's requests it is, so that only the answer to the newest counts.
    pub number: u32,
    /// The flow asks again within this time, unless something is lost. Ports remember it for so long.
    pub within: SimTime,
    /// The flow's packets go by all ways at once.
    pub sprayed: bool,
    /// The flow's last word: everything is returned.
    pub last: bool,
}

impl RateHeader {
    /// A header that asks for nothing and has passed no port.
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

/// Parameters of D3. `alpha`, `beta` and `interval` are for [`Router`]s.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// The rate of a flow that is granted nothing: 0, a request without data per round trip. It is not counted by
    /// the switches.
    pub base_rate: Bandwidth,
    /// The shortest retransmission timeout: 10 ms, usual in data-center studies (htsim's `sim/dctcp.cpp`). A flow asks
    /// at least so often, if two round trips are not longer.
    pub min_rto: SimTime,
    /// How many segments above a gap mean that it is lost: 3 (RFC 5681 §3.2). D3's authors say nothing of it, and their
    /// flows keep to one path.
    pub dup_thresh: u32,
    /// How fast a port gives out capacity that is not used, per interval, 0 to 1: 0.1.
    pub alpha: f64,
    /// How much capacity it withholds for what waits in its queue, 0 to 10: 1, all of it within one interval.
    pub beta: f64,
    /// How often it looks: 300 µs, which Aequitas' simulator takes for the
    /// round trip of the paper's network.
    pub interval: SimTime,
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
            "How fast ports give out capacity that is not used; 0.1.",
            "alpha: 0.1",
        ),
        Key::optional(
            "beta",
            Shape::Scalar(&Scalar::Decimal { what: "a gain", min: 0, max: 10_000_000 }),
            "How much capacity ports withhold for what waits in their queue; 1.",
            "beta: 1",
        ),
        Key::optional("interval", TIME, "How often ports adapt their capacity; 300us.", "interval: 300us"),
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
    reader.finish(read)
}

impl Parameters {
    /// What is the ports' own, and so the same for all flows of a network: each key with its value as it would be written.
    pub fn of_ports(&self) -> [(&'static str, String); 3] {
        let (alpha, beta) = (self.alpha.to_string(), self.beta.to_string());
        [("alpha", alpha), ("beta", beta), ("interval", self.interval.duration().to_string())]
    }
    /// When the receiver acknowledges.
    pub(crate) fn policy(&self) -> Policy {
        Policy::Each
    }
}
