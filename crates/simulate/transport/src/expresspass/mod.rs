//! ExpressPass: data leaves upon credits, which ports drop before data could queue.
//!
//! Problem: senders that probe for capacity overflow a buffer before they receive feedback. Approach: probe with
//! credits in the opposite direction, small packets whose loss costs little. A receiver sends each flow credits; one
//! credit permits one frame.
//!
//! - **Ports** ([`Port`]) pass credits at the rate credit / (credit + frame) of their link, about 5 %, so that the
//!   frames that they release fill the opposite direction and no more. At most eight credits wait; others are dropped.
//! - **Receivers** send credits from a flow's request to its stop, at a rate that each flow adapts once per round trip
//!   by the loss of its credits: towards the link's while the loss is small, else down to what returned.
//! - Intervals between credits vary at random by a tenth, at receivers and at ports, so that no flow's credits always
//!   arrive just after those of another have filled a queue.
//! - **Senders** request credits, return the number of each with the frame that it released, and stop the credits when
//!   everything is sent.
//!
//! Example, 1 Gb/s with the paper's sizes of 84 B and 1538 B on the wire: a port passes a credit every 1622 B, 12.976
//! µs, which is 77,065 credits/s; as many frames are 94.8 % of the link. Two flows whose receivers send 77,065
//! credits/s each lose half of them at a common port. Each then sends the half that returned, and the losses end.
//!
//! **Sizes.** The simulator's links carry frames without preamble, check sequence and gap (24 B): 84 B and 1538 B of
//! the paper are 60 B and 1514 B there. The defaults are the paper's, so 1514 B frames fill 93.3 % of a link;
//! `credit: 60B, frame: 1523B` has one frame per credit in the simulator's sizes, with an eighth of an
//! acknowledgement of 66 B.
//!
//! | file | concern |
//! |---|---|
//! | `feedback` | the rate of a flow's credits: Algorithm 1 of the paper |
//! | `limiter` | the credits that pass a port |
//! | `receiving` | the flows of a receiving host |
//! | `port` | the port agent: the limiter, and at hosts the receiving flows |
//! | `sender` | the sending half |
//!
//! **Limits.** A round trip of 150 µs at 1 Gb/s has 11 credits. Ten flows then measure losses of one or two, and more
//! have the floor of one credit per round trip each: links stay full, and shares are even only over many round trips.
//! Where the receivers' links are ten times faster than a common port, no law here makes two flows equal for long. A
//! flow loses credits at each of its congested ports, and has less than its max-min share with two of them: 20 of 91
//! Mb/s in `scenarios/pace-fig7.scenario.yaml`.
//!
//! **Needs.** Credits take the opposite path of the data: with several paths routing must be symmetric. Every port must
//! have an agent.
//!
//! **Deviates from the paper in:** a port passes credits one by one, without the burst of two of the authors'
//! simulator; credits and data share a queue, unless the network has classes; data is acknowledged, one
//! acknowledgement for eight segments, since the simulator's losses (links that fail) are repaired as in TCP, where
//! the authors' simulator has negative acknowledgements; credits have one size, and ports vary their intervals
//! instead (`limiter`).
//!
//! Source: Cho, Jang and Han, "Credit-Scheduled Delay-Bounded Congestion Control for Datacenters", SIGCOMM 2017;
//! github.com/kaist-ina/ns2-xpass (`xpass/xpass.cc`, `queue/xpass-drop-tail.cc`, `scripts/*.tcl`). The paper's text was
//! not available: Algorithm 1 (`simulator-law: off`, with `target-loss: 0.1`), an `alpha` of 1/16 and a `queue` of
//! eight credits are as cited by others, and not verified against it. From the authors' simulator are the default law,
//! the sizes, `w-init`, `w-min`, `w-max`, the jitter, the smoothing of round trips, the floor of one credit per round
//! trip, and the decrease by what returned; its scripts begin at 1/2 or 1/32 of the rate, with queues of two or four.

mod feedback;
mod limiter;
mod port;
mod receiving;
mod sender;

pub use port::Port;
pub(crate) use sender::Sender;

use crate::language::{PACKETS, Reader, SIZE, SWITCH, TIME};
use crate::receiver::Policy;
use crate::tcp;
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, Record, Shape};
use weir_document::{Node, Problems};
use weir_units::SimTime;

/// A credit: the permission to send one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// Its number among its flow's credits, from 0; wraps around.
    pub number: u32,
    /// When the receiver sent it.
    pub sent: SimTime,
    /// The last port that released it after a wait; [`Credit::NO_PORT`] before the first. That port lets it pass.
    pub(crate) released: u32,
}

impl Credit {
    /// The number of no port.
    const NO_PORT: u32 = u32::MAX;
}

/// The control field of ExpressPass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// A sender has data and requests credits.
    Request,
    /// A receiver's message to a sender.
    Credit(Credit),
    /// A segment that this credit released.
    Data(Credit),
    /// A sender needs no more credits.
    Stop,
}

/// Parameters of ExpressPass. All but `min_rto` and `dup_thresh` are for [`Port`]s.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Bytes of a credit's frame: 84, the least Ethernet frame with preamble and gap.
    pub credit: u32,
    /// Bytes of the frame that a credit releases: 1538, the largest Ethernet frame with preamble and gap.
    pub frame: u32,
    /// The most credits that wait at a port: 8.
    pub queue: u32,
    /// The initial rate of a flow's credits, as a part of the most that its receiver's link passes: 1/16.
    pub alpha: f64,
    /// The initial aggressiveness, the part of the way to the most that an increase covers: 1/16.
    pub w_init: f64,
    /// The least aggressiveness: 0.01.
    pub w_min: f64,
    /// The most aggressiveness: 0.5.
    pub w_max: f64,
    /// The part of its credits that a flow may lose before it sends fewer: 0.125, of which the law of the simulator
    /// takes the part that the flow's rate leaves of the most. The paper's 0.1 is for all rates.
    pub target_loss: f64,
    /// Whether rates follow the law of the authors' simulator, and not Algorithm 1 of the paper: yes.
    pub simulator_law: bool,
    /// The most by which the intervals between credits vary, at receivers and at ports, as a part of them: 0.1.
    pub jitter: f64,
    /// The shortest retransmission timeout, and the time without a credit after which a sender repeats its request:
    /// 10 ms. A receiver drops a flow after three of them without a packet.
    pub min_rto: SimTime,
    /// How many segments above a gap mean that it is lost: 3 (RFC 5681 §3.2).
    pub dup_thresh: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            credit: 84,
            frame: 1538,
            queue: 8,
            alpha: 0.0625,
            w_init: 0.0625,
            w_min: 0.01,
            w_max: 0.5,
            target_loss: 0.125,
            simulator_law: true,
            jitter: 0.1,
            min_rto: SimTime::from_millis(10),
            dup_thresh: tcp::DUP_THRESH,
        }
    }
}

/// A part of something, above zero.
const PART: Shape = Shape::Scalar(&Scalar::Decimal { what: "a part", min: 1, max: 1_000_000 });
/// A part of something, or nothing, or almost everything.
const PART_OR_NONE: Shape = Shape::Scalar(&Scalar::Decimal { what: "a part below 1", min: 0, max: 999_999 });

/// ExpressPass in a scenario.
pub static PARAMETERS: Record = Record {
    id: "expresspass",
    what: "ExpressPass",
    doc: "ExpressPass (SIGCOMM 2017): receivers send credits, which all ports limit. Paths must be symmetric.",
    keys: &[
        Key::optional("credit", SIZE, "The size of a credit; 84B, an Ethernet frame with its gap.", "credit: 84B"),
        Key::optional("frame", SIZE, "The size of the frame that a credit releases; 1538B.", "frame: 1538B"),
        Key::optional("queue", PACKETS, "The most credits that wait at a port; 8.", "queue: 8"),
        Key::optional(
            "alpha",
            PART,
            "The initial rate of a flow's credits, as a part of the most that a link passes; 0.0625.",
            "alpha: 0.0625",
        ),
        Key::optional(
            "w-init",
            PART,
            "The initial aggressiveness: the part of the way to the most that an increase covers; 0.0625.",
            "w-init: 0.0625",
        ),
        Key::optional("w-min", PART, "The least aggressiveness; 0.01.", "w-min: 0.01"),
        Key::optional("w-max", PART, "The most aggressiveness; 0.5.", "w-max: 0.5"),
        Key::optional(
            "target-loss",
            PART_OR_NONE,
            "The part of its credits that a slow flow may lose before it sends fewer; 0.125.",
            "target-loss: 0.125",
        ),
        Key::optional(
            "simulator-law",
            SWITCH,
            "Whether rates follow the authors' simulator, in which fast flows may lose fewer credits than slow ones; \
             `off`: Algorithm 1 of the paper, which has `target-loss: 0.1` for all rates. `on` where not written.",
            "simulator-law: on",
        ),
        Key::optional(
            "jitter",
            PART_OR_NONE,
            "The most by which the intervals between credits vary at random, as a part of them; 0.1.",
            "jitter: 0.1",
        ),
        Key::optional(
            "min-rto",
            TIME,
            "The shortest retransmission timeout, and the time after which a sender without credits repeats its \
             request; 10ms.",
            "min-rto: 10ms",
        ),
        tcp::DUP_THRESH_KEY,
    ],
};

/// The largest frame in bytes: an IPv4 packet (RFC 791) with Ethernet's header, preamble, check sequence and gap.
const LARGEST_FRAME: u64 = 65_535 + 14 + 24;

/// Reads the parameters; `None` only if something was reported.
pub fn read(node: &Node, problems: &mut Problems) -> Option<Parameters> {
    let mut reader = Reader::new(&PARAMETERS, node, problems);
    let mut read = Parameters::default();
    for (key, into) in [("credit", &mut read.credit), ("frame", &mut read.frame)] {
        let mut bytes = u64::from(*into);
        reader.size(key, LARGEST_FRAME, &mut bytes);
        *into = u32::try_from(bytes).unwrap_or_else(|_| unreachable!("{bytes} is at most {LARGEST_FRAME}"));
    }
    reader.number("queue", &mut read.queue);
    reader.decimal("alpha", &mut read.alpha);
    reader.decimal("w-init", &mut read.w_init);
    reader.decimal("w-min", &mut read.w_min);
    reader.decimal("w-max", &mut read.w_max);
    reader.decimal("target-loss", &mut read.target_loss);
    reader.switch("simulator-law", &mut read.simulator_law);
    reader.decimal("jitter", &mut read.jitter);
    reader.time("min-rto", &mut read.min_rto);
    reader.number("dup-thresh", &mut read.dup_thresh);
    let ordered = [("w-min", read.w_min), ("w-init", read.w_init), ("w-max", read.w_max)];
    for pair in ordered.windows(2) {
        let ((low, less), (high, more)) = (pair[0], pair[1]);
        if less > more {
            let span = reader.span(if reader.has(low) { low } else { high });
            reader.error(span, format!("the {low} {less} is above the {high} {more}"), format!("raise the {high}"));
        }
    }
    reader.finish(read)
}

/// An interval of so many picoseconds, varied by up to `jitter` of it at random: by SplitMix64's mixing function
/// (Steele, Lea and Flood, OOPSLA 2014) of a stream and the interval's number in it, so that the same run has the
/// same intervals.
fn varied(picos: f64, parameters: &Parameters, stream: u64, number: u32) -> SimTime {
    let mut bits = stream.wrapping_add((u64::from(number) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    let random = (bits >> 11) as f64 / (1u64 << 53) as f64;
    SimTime::from_picos((picos * (1.0 + parameters.jitter * (2.0 * random - 1.0))).max(1.0) as u64)
}

impl Parameters {
    /// When the receiver acknowledges: data is repeated only after losses, which credits avoid, so acknowledgements are
    /// few. 66 B for eight frames of 1514 B are half a percent of the opposite direction.
    pub(crate) fn policy(&self) -> Policy {
        Policy::Delayed { every: 8, delay: SimTime::from_micros(200), marks: false }
    }
}
