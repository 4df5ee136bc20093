//! UDP: packets by the clock, regardless of their delivery.
//!
//! A flow sends at a rate, which counts headers as links do; `burst` packets leave at once, each
//! burst after the time that its bytes take at the rate; and with `on` and `off` it sends for one
//! time and pauses for another, repeatedly. The clock of the rate stands still during a pause, so
//! an average is exact over any number of rounds. Packets that the host cannot take are delayed and
//! not made up for: a socket blocks.
//!
//! Nothing is acknowledged: a flow is done when it has sent everything.
//!
//! Example: 1250 B packets at 1 Gb/s leave every 10 µs. On for 1 ms and off for 4 ms: 100 packets
//! from 0, 100 from 5 ms.
//!
//! Source: RFC 768 (which defines no rates); on-off as ns-2's and ns-3's `OnOffApplication`.

use crate::api::{Ack, Connection, Segment, Timeout};
use crate::language::{PACKETS, Reader, SIZE, TIME};
use crate::receiver::Policy;
use crate::registry::Machine;
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, Record, Shape};
use weir_document::{Node, Problems};
use weir_units::{Bandwidth, SimTime};

/// Parameters of UDP. The default sends full packets as fast as the host's link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// The rate, headers included; `None` for that of the host's link.
    pub rate: Option<Bandwidth>,
    /// Payload bytes of a packet, at most the largest payload; `None` for that.
    pub packet: Option<u32>,
    /// How many packets leave at once: 1.
    pub burst: u32,
    /// The time of sending, and of the pause that follows; `None` to send always.
    pub on_off: Option<(SimTime, SimTime)>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { rate: None, packet: None, burst: 1, on_off: None }
    }
}

/// UDP in a scenario.
pub static PARAMETERS: Record = Record {
    id: "udp",
    what: "UDP",
    doc: "Packets at a constant rate, in bursts, or on and off, regardless of losses.",
    keys: &[
        Key::optional(
            "rate",
            Shape::Scalar(&Scalar::Rate { unlimited: false, zero: false }),
            "The rate, headers included; that of the host's link.",
            "rate: 1Gb/s",
        ),
        Key::optional("packet", SIZE, "Payload of a packet; as much as one holds.", "packet: 1000B"),
        Key::optional("burst", PACKETS, "The number of packets that leave at once; 1.", "burst: 1"),
        Key::optional("on", TIME, "The time for which it sends before a pause; always. Needs `off`.", "on: 5s"),
        Key::optional("off", TIME, "The pause before it sends again. Needs `on`.", "off: 2s"),
    ],
};

/// Payload bytes of the largest IPv4 datagram (RFC 768, RFC 791).
const LARGEST_PACKET: u64 = 65_507;

/// Reads the parameters; `None` only if something was reported.
pub fn read(node: &Node, problems: &mut Problems) -> Option<Parameters> {
    let mut reader = Reader::new(&PARAMETERS, node, problems);
    let mut read = Parameters::default();
    let mut rate = Bandwidth::ZERO;
    reader.rate("rate", &mut rate);
    read.rate = (rate > Bandwidth::ZERO).then_some(rate);
    let mut packet = 0;
    reader.size("packet", LARGEST_PACKET, &mut packet);
    read.packet = u32::try_from(packet).ok().filter(|packet| *packet > 0);
    reader.number("burst", &mut read.burst);
    let (mut on, mut off) = (SimTime::ZERO, SimTime::ZERO);
    reader.time("on", &mut on);
    reader.time("off", &mut off);
    for (key, other) in [("on", "off"), ("off", "on")] {
        if reader.has(key) && !reader.has(other) {
            let span = reader.span(key);
            reader.error(
                span,
                format!("`{key}` is written, but `{other}` is not"),
                "write both, or neither to send always",
            );
        }
    }
    read.on_off = reader.has("on").then_some((on, off));
    reader.finish(read)
}

impl Parameters {
    /// When the receiver acknowledges.
    pub(crate) fn policy(&self) -> Policy {
        Policy::Never
    }
}

/// The sending half.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    total: u64,
    sent: u64,
    start: SimTime,
    /// The time of the next burst.
    next: SimTime,
    /// Picoseconds of sending time before it, and the remainder of rounding, in units of 1 ps /
    /// rate.
    clock: u64,
    carry: u64,
    /// Picoseconds on and off; on is 0 to send always.
    on: u64,
    off: u64,
    bits_per_second: u64,
    payload: u32,
    headers: u32,
    burst: u32,
    /// Packets of the burst that the host has not taken.
    left: u32,
}

/// Picoseconds in a second.
const SECOND: u128 = 1_000_000_000_000;

impl Sender {
    /// The time at which the clock of the rate shows `clock`.
    fn time(&self, clock: u64) -> SimTime {
        let silent = clock.checked_div(self.on).map_or(0, |rounds| rounds.saturating_mul(self.off));
        SimTime::from_picos(self.start.picos().saturating_add(clock).saturating_add(silent))
    }

    /// The clock of the rate at a time.
    fn clock_at(&self, now: SimTime) -> u64 {
        let elapsed = now.saturating_sub(self.start).picos();
        if self.on == 0 {
            return elapsed;
        }
        let round = self.on + self.off;
        elapsed / round * self.on + (elapsed % round).min(self.on)
    }

    /// Starts a burst if one is due and none is under way.
    fn start_burst(&mut self, now: SimTime) {
        if self.left > 0 || now < self.next || self.sent >= self.total {
            return;
        }
        if now > self.next {
            // The host throttled the flow.
            (self.clock, self.carry) = (self.clock_at(now), 0);
            self.next = self.time(self.clock);
            if now < self.next {
                return;
            }
        }
        self.left = self.burst;
        let bits = u128::from(self.payload + self.headers) * 8 * u128::from(self.burst);
        let scaled = bits * SECOND + u128::from(self.carry);
        let gap = scaled / u128::from(self.bits_per_second);
        self.carry = (scaled % u128::from(self.bits_per_second)) as u64;
        self.clock = self.clock.saturating_add(u64::try_from(gap).unwrap_or(u64::MAX));
        self.next = self.time(self.clock);
    }
}

impl Machine for Sender {
    type Parameters = Parameters;

    fn new(parameters: &Parameters, connection: &Connection) -> Self {
        let (on, off) = parameters.on_off.map_or((0, 0), |(on, off)| (on.picos(), off.picos()));
        Self {
            total: connection.bytes,
            sent: 0,
            start: connection.start,
            next: connection.start,
            clock: 0,
            carry: 0,
            on,
            off,
            bits_per_second: parameters.rate.unwrap_or(connection.line_rate).bps().max(1),
            payload: parameters.packet.unwrap_or(u32::MAX).min(connection.payload),
            headers: connection.headers,
            burst: parameters.burst,
            left: 0,
        }
    }

    #[inline]
    fn poll(&mut self, now: SimTime) -> Option<Segment> {
        self.start_burst(now);
        self.left = self.left.checked_sub(1)?;
        let sequence = self.sent;
        let length = (self.total - sequence).min(u64::from(self.payload)) as u32;
        self.sent += u64::from(length);
        if self.sent >= self.total {
            self.left = 0;
        }
        Some(Segment { sequence, length, again: false, capable: false, rank: 0, control: false })
    }

    fn on_ack(&mut self, _now: SimTime, _ack: &Ack<'_>) {}
    #[inline]
    fn timer(&self) -> SimTime {
        // While the host takes no more, it is the host that polls again.
        if self.left > 0 || self.sent >= self.total { SimTime::NEVER } else { self.next }
    }
    fn on_timer(&mut self, now: SimTime, _all_in_host: bool) -> Timeout {
        self.start_burst(now);
        Timeout::Nothing
    }
    fn close(&mut self) {
        self.total = self.sent;
        self.left = 0;
    }
    #[inline]
    fn is_done(&self) -> bool {
        self.sent >= self.total
    }
    #[inline]
    fn acked(&self) -> u64 {
        self.sent
    }
    #[inline]
    fn highest(&self) -> u64 {
        self.sent
    }
    #[inline]
    fn flight(&self) -> u64 {
        0
    }
    #[inline]
    fn window(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(parameters: Parameters, bytes: u64) -> Sender {
        let connection = Connection {
            bytes,
            payload: 1208,
            headers: 42,
            start: SimTime::from_micros(7),
            deadline: None,
            line_rate: Bandwidth::from_gbps(10),
            round_trip: None,
            sprayed: false,
        };
        Sender::new(&parameters, &connection)
    }
    /// When packets leave, in nanoseconds after the start, until `end`; the host takes everything.
    fn run(sender: &mut Sender, end: SimTime) -> Vec<u64> {
        let mut now = sender.start;
        let mut sent = Vec::new();
        loop {
            while sender.poll(now).is_some() {
                sent.push((now - sender.start).picos() / 1000);
            }
            if sender.timer() >= sender.start + end {
                return sent;
            }
            now = sender.timer();
            sender.on_timer(now, false);
        }
    }
    fn gigabit() -> Parameters {
        Parameters { rate: Some(Bandwidth::from_gbps(1)), ..Parameters::default() }
    }

    #[test]
    fn the_worked_example() {
        let on_off = Some((SimTime::from_millis(1), SimTime::from_millis(4)));
        let mut sender = sender(Parameters { on_off, ..gigabit() }, u64::MAX);
        let sent = run(&mut sender, SimTime::from_millis(10));
        assert_eq!(sent[..3], [0, 10_000, 20_000]);
        assert_eq!(sent[98..102], [980_000, 990_000, 5_000_000, 5_010_000]);
        assert_eq!((sent.len(), sender.highest()), (200, 200 * 1208));
    }

    #[test]
    fn rounding_does_not_add_up() {
        // 10,000 bits at 3 Gb/s take 3,333,333 and a third picoseconds.
        let rate = Some(Bandwidth::from_gbps(3));
        let mut sender = sender(Parameters { rate, ..Parameters::default() }, u64::MAX);
        let sent = run(&mut sender, SimTime::from_millis(1));
        assert_eq!(sent.len(), 300);
        assert_eq!(sender.next, sender.start + SimTime::from_millis(1));
    }

    #[test]
    fn on_and_off_keep_the_average_when_packets_do_not_fit() {
        // 10 µs a packet, 25 µs on: 5 packets in every two rounds.
        let on_off = Some((SimTime::from_micros(25), SimTime::from_micros(75)));
        let mut sender = sender(Parameters { on_off, ..gigabit() }, u64::MAX);
        let sent = run(&mut sender, SimTime::from_micros(200));
        assert_eq!(sent, [0, 10_000, 20_000, 105_000, 115_000]);
        run(&mut sender, SimTime::from_millis(100));
        assert_eq!(sender.highest(), 2_500 * 1208);
    }

    #[test]
    fn bursts_leave_at_once_at_the_same_rate() {
        let mut sender = sender(Parameters { burst: 4, ..gigabit() }, 10 * 1208);
        let sent = run(&mut sender, SimTime::from_secs(1));
        assert_eq!(sent, [0, 0, 0, 0, 40_000, 40_000, 40_000, 40_000, 80_000, 80_000]);
        assert!(sender.is_done());
        assert_eq!(sender.timer(), SimTime::NEVER);
    }

    #[test]
    fn packets_may_be_small_and_the_link_is_the_default_rate() {
        let mut sender = sender(Parameters { packet: Some(83), ..Parameters::default() }, 200);
        let lengths: Vec<_> = std::iter::from_fn(|| {
            let now = sender.next;
            sender.poll(now).map(|segment| (now - sender.start, segment.length))
        })
        .collect();
        let expected = [(0, 83), (100_000, 83), (200_000, 34)].map(|(at, length)| (SimTime::from_picos(at), length));
        assert_eq!(lengths, expected);
    }

    #[test]
    fn packets_that_the_host_does_not_take_are_delayed() {
        let mut sender = sender(gigabit(), u64::MAX);
        let start = sender.start;
        let at = |micros| start + SimTime::from_micros(micros);
        assert!(sender.poll(start).is_some());
        sender.on_timer(at(10), false);
        assert_eq!(sender.timer(), SimTime::NEVER);
        // The host polls again only now: one packet, and the next 10 µs after the one that is due.
        assert!(sender.poll(at(35)).is_some());
        assert!(sender.poll(at(35)).is_some());
        assert!(sender.poll(at(35)).is_none());
        assert_eq!(sender.timer(), at(45));
    }

    #[test]
    fn a_closed_flow_sends_nothing_more() {
        let mut sender = sender(Parameters { burst: 3, ..gigabit() }, u64::MAX);
        let start = sender.start;
        assert!(sender.poll(start).is_some());
        Machine::close(&mut sender);
        assert!(sender.is_done());
        assert!(sender.poll(start).is_none());
        assert_eq!((sender.timer(), sender.acked()), (SimTime::NEVER, 1208));
    }
}
