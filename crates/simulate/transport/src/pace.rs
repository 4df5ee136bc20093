//! PACE: credits that the receiver issues each period and every port on the path reduces.
//!
//! The protocol's machines are in [`weir_credits`]; this module fits the sender to the backend. The receivers and the
//! ports are the backend's, since ports run the per-packet code in C.
//!
//! - A flow requests credits at its start, sends what it has credits for at an even pace, its last packet of a period
//!   cut to the credit, and terminates when all data is acknowledged.
//! - The first packet after an allocation returns its values; without credits for a packet, or without data, they
//!   return alone.
//! - Losses are repaired as in TCP, without a window: a network of forwarders loses packets only where paths change.
//!
//! Example: 25 kB over links of 1 Gb/s. The request takes half a round trip, the allocation of 25,000 B the other half,
//! and 16 frames of 1,514 B and one of 776 B leave within 200 µs.
//!
//! Source: Carvalho, Kim, Neves, "PACE Your Network", 2013; `docs/design/credits.md`.

use crate::agents::ControlField;
use crate::api::{Ack, Connection, Segment, Timeout};
use crate::language::{Reader, SWITCH, TIME};
use crate::receiver::Policy;
use crate::registry::Machine;
use crate::rto::Rto;
use crate::tcp::{self, Congestion, Progress};
pub use weir_credits::Period;
use weir_credits::{Coding, Message, SenderSettings};
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, Record, Shape};
use weir_document::{Node, Problems};
use weir_units::{Bytes, SimTime, Weight};

/// Bytes of an allocation's frame: the smallest frame on the wire, with its check, preamble and gap (IEEE 802.3), of
/// which messages of the paper's widths fill a part.
pub const ALLOCATION: u32 = 84;

/// Parameters of PACE. All but `weight`, `min_rto` and `dup_thresh` are those of ports and receivers.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// The sender's weight, 0.001 to 1,000,000; the receivers' is 1.
    pub weight: Weight,
    /// p-min, the first period: 200 µs (paper §IV). It must not be shorter than a round trip with queues.
    pub period: Period,
    /// p-max: 5.1 ms, the longest period of the paper's field (§III.B). Ports need a buffer of 2 · R · p-max.
    pub max_period: Period,
    /// The part of each link that flows with credits have, 0 to 1: 1.
    pub share: f64,
    /// The widths of fields: 32 bits.
    pub coding: Coding,
    /// Whether ports drop data beyond their grants: yes.
    pub lossless: bool,
    /// The part of control messages that each link loses, 0 to 1: 0.
    pub control_loss: f64,
    /// The priority class of control messages, 0 the most urgent; `None`: that of the flow's data.
    pub control_priority: Option<u8>,
    /// The shortest retransmission timeout: 10 ms, usual in data-center studies.
    pub min_rto: SimTime,
    /// How many segments above a gap mean that it is lost: 3 (RFC 5681 §3.2).
    pub dup_thresh: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            weight: Weight::ONE,
            period: Period::from_micros(200),
            max_period: Period::from_micros(5_100),
            share: 1.0,
            coding: Coding::Wide,
            lossless: true,
            control_loss: 0.0,
            control_priority: None,
            min_rto: SimTime::from_millis(10),
            dup_thresh: tcp::DUP_THRESH,
        }
    }
}

const CODINGS: &[&str] = &["wide", "paper"];
/// The class of the data, and those of their own.
const PRIORITIES: &[&str] = &["data", "0", "1", "2", "3", "4", "5", "6", "7"];

/// PACE in a scenario.
pub static PARAMETERS: Record = Record {
    id: "pace",
    what: "PACE",
    doc: "PACE (2013): receivers issue credits each period, and all ports reduce them. All ports must take credits.",
    keys: &[
        Key::optional(
            "weight",
            Shape::Scalar(&Scalar::Decimal { what: "a weight", min: 1_000, max: 1_000_000_000_000 }),
            "The weight of the senders; 1.",
            "weight: 1",
        ),
        Key::optional("period", TIME, "The first and shortest period of allocation; 200us.", "period: 200us"),
        Key::optional("max-period", TIME, "The longest period that ports select; 5100us.", "max-period: 5100us"),
        Key::optional(
            "share",
            Shape::Scalar(&Scalar::Decimal { what: "a part", min: 1_000, max: 1_000_000 }),
            "The part of each link that flows with credits have; 1.",
            "share: 1",
        ),
        Key::optional(
            "coding",
            Shape::Scalar(&Scalar::Words { what: "a coding", words: CODINGS }),
            "The widths of fields: `wide`, 32 bits (the default), or `paper`, credits of 8 B in 16 bits.",
            "coding: wide",
        ),
        Key::optional("lossless", SWITCH, "Whether ports drop data beyond their grants; on.", "lossless: on"),
        Key::optional(
            "control-loss",
            Shape::Scalar(&Scalar::Decimal { what: "a part", min: 0, max: 1_000_000 }),
            "The part of the control messages (requests, allocations, returns without data, terminations) that each \
             link loses, at random; 0.",
            "control-loss: 0",
        ),
        Key::optional(
            "control-priority",
            Shape::Scalar(&Scalar::Words { what: "a priority class, or `data`", words: PRIORITIES }),
            "The priority class of control messages at ports that distinguish classes, 0 to 7; `data` for that of \
             the flow.",
            "control-priority: data",
        ),
        Key::optional("min-rto", TIME, "The shortest retransmission timeout; 10ms.", "min-rto: 10ms"),
        tcp::DUP_THRESH_KEY,
    ],
};

/// Reads the parameters; `None` only if something was reported.
pub fn read(node: &Node, problems: &mut Problems) -> Option<Parameters> {
    read_beside(node, Parameters::default(), problems)
}

/// Reads parameters in place of `given` ones; `None` only if something was reported.
pub fn read_beside(node: &Node, given: Parameters, problems: &mut Problems) -> Option<Parameters> {
    let mut reader = Reader::new(&PARAMETERS, node, problems);
    let mut read = given;
    let mut weight = f64::from(read.weight.thousandths()) / 1_000.0;
    reader.decimal("weight", &mut weight);
    // Three decimals, like all weights; the range of the key is that of weights.
    read.weight = Weight::from_thousandths((weight * 1_000.0).round() as u32).unwrap_or_default();
    reader.period("period", &mut read.period);
    reader.period("max-period", &mut read.max_period);
    reader.decimal("share", &mut read.share);
    reader.word("coding", &mut read.coding, |word| if word == 0 { Coding::Wide } else { Coding::Paper });
    reader.switch("lossless", &mut read.lossless);
    reader.decimal("control-loss", &mut read.control_loss);
    reader.word("control-priority", &mut read.control_priority, |word| u8::try_from(word).ok()?.checked_sub(1));
    reader.time("min-rto", &mut read.min_rto);
    reader.number("dup-thresh", &mut read.dup_thresh);
    if read.max_period < read.period {
        let (key, hint) = match reader.has("max-period") {
            true => ("max-period", "write a longer `max-period`".to_owned()),
            false => ("period", format!("write at most `period: {}us`", read.max_period.micros())),
        };
        let span = reader.span(key);
        reader.error(span, "the max-period is shorter than the period", hint);
    }
    if read.coding == Coding::Paper {
        for (key, period) in [("period", read.period), ("max-period", read.max_period)] {
            if period.micros() % 20 != 0 || period > Coding::Paper.longest() {
                let longest = Coding::Paper.longest().duration();
                let span = reader.span(if reader.has(key) { key } else { "coding" });
                let cause = format!(
                    "the paper's field has multiples of 20 us up to {longest}, and the {key} is {}",
                    period.duration()
                );
                reader.error(span, cause, format!("write such a `{key}`, or `coding: wide`"));
            }
        }
    }
    reader.finish(read)
}

impl Parameters {
    /// When the receiver acknowledges: every second packet, as TCP does.
    pub(crate) fn policy(&self) -> Policy {
        // RFC 1122 §4.2.3.2; the delay is far below the least retransmission timeout.
        Policy::Delayed { every: 2, delay: SimTime::from_micros(500), marks: false }
    }
}

/// The sending half.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    tcp: tcp::Sender<NoWindow>,
    paced: Box<Paced>,
}

/// Credits, and the message of the segment that was polled last.
#[derive(Debug, Clone)]
struct Paced {
    credits: weir_credits::Sender,
    payload: u32,
    headers: u32,
    /// Whether the flow has ever requested credits, and whether it has terminated.
    requested: bool,
    terminated: bool,
    message: Option<Message>,
    /// The time of the next packet has come, and TCP has nothing to send, or the credits are over.
    blocked: bool,
}

impl Sender {
    /// Bytes on the wire that are still to be sent, headers included.
    fn backlog(&self) -> Bytes {
        let bytes = self.tcp.unsent();
        let packets = bytes.div_ceil(self.paced.payload.into());
        Bytes::new(bytes.saturating_add(packets.saturating_mul(self.paced.headers.into())))
    }

    /// A packet that carries a message and no data.
    fn bare(&mut self, message: Message) -> Option<Segment> {
        self.paced.message = Some(message);
        let sequence = self.tcp.acked();
        Some(Segment { sequence, length: 0, again: false, capable: false, rank: 0, control: true })
    }

    /// The next packet with data, if there are credits for it now.
    fn data(&mut self, now: SimTime) -> Option<Segment> {
        let paced = &mut *self.paced;
        let payload =
            paced.credits.credit(now.instant()).get().saturating_sub(paced.headers.into()).min(paced.payload.into());
        if now < SimTime::from(paced.credits.departure()) {
            return None;
        }
        // Credits that the host could not use in time are over.
        paced.blocked = payload == 0;
        if payload == 0 {
            return None;
        }
        let segment = self.tcp.poll_within(now, payload as u32);
        paced.blocked = segment.is_none();
        let segment = segment?;
        paced.credits.spend(Bytes::new((segment.length + paced.headers).into()));
        paced.message = paced.credits.take_return().map(Message::Return);
        Some(Segment { control: paced.message.is_some(), ..segment })
    }
}

impl Machine for Sender {
    type Parameters = Parameters;
    const STREAM: bool = true;
    const AGENTS: bool = true;
    const CREDITS: bool = true;

    fn shortest_timeout(parameters: &Parameters) -> Option<SimTime> {
        Some(parameters.min_rto)
    }
    fn agent_parameters(parameters: &Parameters) -> Vec<(&'static str, String)> {
        let coding = CODINGS[usize::from(parameters.coding == Coding::Paper)];
        vec![
            ("period", parameters.period.duration().to_string()),
            ("max-period", parameters.max_period.duration().to_string()),
            ("share", parameters.share.to_string()),
            ("coding", coding.to_owned()),
            ("lossless", if parameters.lossless { "on" } else { "off" }.to_owned()),
            ("control-loss", parameters.control_loss.to_string()),
            ("control-priority", parameters.control_priority.map_or("that of data".to_owned(), |own| own.to_string())),
        ]
    }

    fn new(parameters: &Parameters, connection: &Connection) -> Self {
        let longest = SimTime::from_secs(1).max(parameters.min_rto);
        let settings = SenderSettings {
            weight: parameters.weight,
            frame: Bytes::new((connection.payload + connection.headers).into()),
            whole_frames: false,
            // The receiver issues at once and in each period, which is at least a round trip: after two of them a
            // request, or the allocation that followed it, is lost or late. Data's timeout is 50 periods.
            timeout: [parameters.period.duration() * 2, longest.duration()],
        };
        let paced = Paced {
            credits: weir_credits::Sender::new(connection.start.instant(), settings),
            payload: connection.payload,
            headers: connection.headers,
            requested: false,
            terminated: false,
            message: None,
            blocked: false,
        };
        Self { tcp: tcp::Sender::new(parameters, connection), paced: Box::new(paced) }
    }

    fn poll(&mut self, now: SimTime) -> Option<Segment> {
        if self.tcp.is_done() {
            let over = self.paced.requested && !self.paced.terminated;
            self.paced.terminated |= over;
            if over {
                self.paced.credits.terminate();
                return self.bare(Message::Terminate);
            }
        } else if let Some(request) = self.paced.credits.request(now.instant()) {
            self.paced.requested = true;
            return self.bare(Message::Request(request));
        }
        // The first packet of an allocation may leave at once: where none does, its values return alone.
        self.data(now).or_else(|| {
            let returned = self.paced.credits.take_return()?;
            self.bare(Message::Return(returned))
        })
    }

    fn on_ack(&mut self, now: SimTime, ack: &Ack<'_>) {
        self.paced.blocked = false;
        self.tcp.on_ack(now, ack);
    }

    fn on_control(&mut self, now: SimTime, field: &ControlField) {
        if let Some(message) = field.get::<Box<Message>>()
            && let Message::Allocation(allocation) = **message
        {
            let backlog = self.backlog();
            self.paced.blocked = false;
            self.paced.credits.on_allocation(now.instant(), &allocation, backlog);
        }
    }

    fn timer(&self) -> SimTime {
        if self.tcp.is_done() {
            return SimTime::NEVER;
        }
        let credits = &self.paced.credits;
        let departure = credits.departure();
        let has_credit = credits.credit(departure).get() > self.paced.headers.into();
        let departure =
            if has_credit && !self.paced.blocked && self.tcp.unsent() > 0 { departure.into() } else { SimTime::NEVER };
        let request = credits.timer().map_or(SimTime::NEVER, SimTime::from);
        self.tcp.timer().min(departure).min(request)
    }

    fn on_timer(&mut self, now: SimTime, all_in_host: bool) -> Timeout {
        self.paced.blocked = false;
        let timeout = self.tcp.on_timer(now, all_in_host);
        if timeout == Timeout::Loss {
            // There is something to send again, and the receiver may have given the flow up.
            self.paced.credits.on_write(now.instant(), Bytes::ZERO);
        }
        timeout
    }

    fn write(&mut self, now: SimTime, bytes: u64) {
        let packets = bytes.div_ceil(self.paced.payload.into());
        let wire = bytes + packets * u64::from(self.paced.headers);
        self.tcp.write(now, bytes);
        (self.paced.blocked, self.paced.terminated) = (false, false);
        self.paced.credits.on_write(now.instant(), Bytes::new(wire));
    }

    fn control(&mut self, _now: SimTime) -> ControlField {
        let message = self.paced.message.take();
        Box::new(message.unwrap_or_else(|| unreachable!("the segment that was polled last carries a message"))).into()
    }

    fn close(&mut self) {
        self.tcp.close();
    }
    /// Not before the termination has been sent.
    fn is_done(&self) -> bool {
        self.tcp.is_done() && (!self.paced.requested || self.paced.terminated)
    }
    fn acked(&self) -> u64 {
        self.tcp.acked()
    }
    fn highest(&self) -> u64 {
        self.tcp.highest()
    }
    fn flight(&self) -> u64 {
        self.tcp.flight()
    }
    /// The bytes of the allocation in use.
    fn window(&self) -> u64 {
        self.paced.credits.allotted().get()
    }
}

/// The congestion control of a sender whose bytes are granted: none.
#[derive(Debug, Clone)]
struct NoWindow;

impl Congestion for NoWindow {
    type Parameters = Parameters;
    const CAPABLE: bool = false;

    fn new(_: &Parameters, _: u32) -> Self {
        Self
    }
    fn common(parameters: &Parameters) -> tcp::Common {
        // The first without a handshake, and the longest: RFC 6298 §2.1, and §2.5's least of the longest.
        let longest = SimTime::from_secs(60).max(parameters.min_rto);
        tcp::Common {
            rto: Rto::new(parameters.min_rto, SimTime::from_secs(1), longest),
            dup_thresh: parameters.dup_thresh,
            receive_window: tcp::UNLIMITED,
            restart_segments: 0,
            handshake: None,
        }
    }
    fn window(&self) -> u64 {
        tcp::UNLIMITED
    }
    fn ssthresh(&self) -> u64 {
        tcp::UNLIMITED
    }
    fn on_ack(&mut self, _: &Progress) {}
    fn on_loss(&mut self, _: SimTime, _: u64, _: u64) {}
    fn on_timeout(&mut self, _: SimTime, _: u64, _: bool) {}
    fn on_resume(&mut self, _: SimTime, _: u32, _: u64) {}
}
