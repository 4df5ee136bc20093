//! D3: rates granted by switches, so that flows meet deadlines.
//!
//! Once per round trip a flow asks every switch on its path for the rate that it needs to meet its deadline, what
//! remains divided by the time that remains; without one it asks for 0. Each port answers with what is asked for
//! and a fair share of the rest, or with what is left ([`Router`]). The flow sends at the smallest of the grants
//! until the next answer.
//!
//! - The first request travels alone, since nothing may be sent without a grant; later ones with the round trip's
//!   first data packet. Each carries what was asked and granted before, so that switches keep no state of flows.
//! - A flow that is granted nothing sends a request without data once per round trip (the base rate).
//! - The flow's last word, after everything is acknowledged, gives back what it has.
//! - Losses are found and repaired as TCP does ([`crate::tcp`]), without a window: the rate alone decides when a
//!   packet goes.
//! - A request or its answer may be lost. The flow then asks again after a retransmission timeout; what the
//!   switches noted meanwhile can be off by one grant until the port is idle. A network that drops payloads before
//!   requests, as D3's authors assume, has none of this.
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
//! Source: Wilson et al., "Better Never than Late: Meeting Deadlines in Datacenter Networks", SIGCOMM 2011;
//! github.com/SymbioticLab/Aequitas (`ext/d3_flow.cpp`, `ext/d3_queue.cpp`).

mod router;
mod sender;

pub use router::Router;
pub(crate) use sender::Sender;

use crate::language::{Reader, TIME};
use crate::receiver::Policy;
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, Record, Shape};
use weir_document::{Node, Problems};
use weir_units::{Bandwidth, SimTime};

/// The most hops that a request can collect grants from.
pub const MAX_HOPS: usize = 8;

/// What a request asks for and collects on its way, and what its acknowledgement brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateHeader {
    /// The rate that is asked for.
    pub desired: Bandwidth,
    /// The rate that the request before asked for.
    pub previous_desired: Bandwidth,
    /// What each hop granted the request before.
    pub previous: [Bandwidth; MAX_HOPS],
    /// What each hop grants.
    pub granted: [Bandwidth; MAX_HOPS],
    /// How many hops have answered.
    pub hops: u8,
    /// Which of the flow's requests it is, so that only the answer to the newest counts.
    pub number: u32,
    /// The first request of the flow.
    pub first: bool,
    /// The flow's last word: everything is returned.
    pub last: bool,
}

impl RateHeader {
    /// A header that asks for nothing and has passed no port.
    pub const EMPTY: Self = Self {
        desired: Bandwidth::ZERO,
        previous_desired: Bandwidth::ZERO,
        previous: [Bandwidth::ZERO; MAX_HOPS],
        granted: [Bandwidth::ZERO; MAX_HOPS],
        hops: 0,
        number: 0,
        first: false,
        last: false,
    };
}

/// Parameters of D3. `alpha`, `beta` and `interval` are for [`Router`]s.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// The rate of a flow that is granted nothing: 0, a request without data per round trip. It is not counted by
    /// the switches.
    pub base_rate: Bandwidth,
    /// The shortest retransmission timeout, and the one before the first round-trip time is known: 10 ms, usual in
    /// data-center studies (htsim's `sim/dctcp.cpp`).
    pub min_rto: SimTime,
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
    reader.decimal("alpha", &mut read.alpha);
    reader.decimal("beta", &mut read.beta);
    reader.time("interval", &mut read.interval);
    reader.finish(read)
}

impl Parameters {
    /// When the receiver acknowledges.
    pub(crate) fn policy(&self) -> Policy {
        Policy::Each
    }
}
