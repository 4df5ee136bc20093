//! pFabric: switches order packets by the remaining bytes of their flow, and hosts hardly control
//! their rate.
//!
//! A flow starts with a window of about its path's capacity, and every packet carries the number of
//! its bytes that are still to be acknowledged ([`crate::Segment::rank`]). Switches send the
//! smallest first and drop the largest, so losses are common and mean little:
//!
//! - every packet is acknowledged, with the ranges received out of order, and only a fixed, short
//!   timeout detects losses;
//! - a timeout halves the threshold, sets the window to one packet and returns to the first missing
//!   byte; slow start and additive increase follow, up to the maximum;
//! - after five timeouts without an acknowledgement the flow only probes: a packet without data at
//!   each timeout, until one is acknowledged. So starved flows add no load.
//!
//! A probe is a packet of headers alone; the paper's has a byte of data, which would shift all
//! following data by one byte.
//!
//! Example: 100 kB in packets of 1460 B: 12 leave with rank 100,000. The first is acknowledged:
//! window 13, and the next two have rank 98,540.
//!
//! Source: Alizadeh et al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013
//! (rate control). Constants from the authors' ns-2 code as used for QJump
//! (github.com/camsas/qjump-ns2: initial window 12, `maxcwnd_` one less than the queue's 24
//! packets, `prob_cap_` 5) and from YAPS (github.com/NetSys/simulator: growth and timeouts).

use crate::api::{Ack, Connection, Segment, Timeout};
use crate::language::{PACKETS, Reader, TIME};
use crate::receiver::Policy;
use crate::registry::Machine;
use crate::rto::Rto;
use crate::tcp::{self, Congestion, Progress, reno::Reno};
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, Record, Shape};
use weir_document::{Node, Problems};
use weir_units::SimTime;

/// Parameters of pFabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// The window at the start, in packets: 12, about the bandwidth-delay product of the paper's
    /// network.
    pub initial_window: u32,
    /// The largest window, in packets: 23, one less than the queue's capacity (qjump-ns2). YAPS has
    /// 15.
    pub max_window: u32,
    /// The fixed retransmission timeout: 45 µs, about three round trips.
    pub rto: SimTime,
    /// Timeouts without an acknowledgement before the flow only probes: 5 (`prob_cap_`).
    pub probe_after: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { initial_window: 12, max_window: 23, rto: SimTime::from_micros(45), probe_after: 5 }
    }
}

/// pFabric in a scenario.
pub static PARAMETERS: Record = Record {
    id: "pfabric",
    what: "pFabric",
    doc: "pFabric (SIGCOMM 2013): packets carry the remaining bytes of their flow. Queues must order by them.",
    keys: &[
        Key::optional("initial-window", PACKETS, "The window at the start in packets; 12.", "initial-window: 12"),
        Key::optional("max-window", PACKETS, "The largest window in packets; 23.", "max-window: 23"),
        Key::optional(
            "rto",
            TIME,
            "The fixed retransmission timeout; 45us. About three round trips of an idle network.",
            "rto: 45us",
        ),
        Key::optional(
            "probe-after",
            Shape::Scalar(&Scalar::Integer { what: "a number of timeouts", min: 1, max: u32::MAX as i128 }),
            "Timeouts without an acknowledgement before the flow only probes; 5.",
            "probe-after: 5",
        ),
    ],
};

/// Reads the parameters; `None` only if something was reported.
pub fn read(node: &Node, problems: &mut Problems) -> Option<Parameters> {
    let mut reader = Reader::new(&PARAMETERS, node, problems);
    let mut read = Parameters::default();
    reader.number("initial-window", &mut read.initial_window);
    reader.number("max-window", &mut read.max_window);
    reader.time("rto", &mut read.rto);
    reader.number("probe-after", &mut read.probe_after);
    if read.initial_window > read.max_window {
        let span = reader.span(if reader.has("initial-window") { "initial-window" } else { "max-window" });
        reader.error(
            span,
            format!("the initial-window {} is above the max-window {}", read.initial_window, read.max_window),
            "make the max-window the larger of the two",
        );
    }
    reader.finish(read)
}

impl Parameters {
    /// When the receiver acknowledges.
    pub(crate) fn policy(&self) -> Policy {
        Policy::Each
    }
}

/// The sending half: TCP's sequence space, with ranks and probes.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    tcp: tcp::Sender<Window>,
    probe_after: u32,
    /// Timeouts since the last acknowledgement.
    timeouts: u32,
    /// A probe is due.
    probe: bool,
}

impl Sender {
    /// The remaining bytes of the flow, as its packets carry them.
    #[inline]
    fn rank(&self) -> u32 {
        u32::try_from(self.tcp.remaining()).unwrap_or(u32::MAX)
    }
}

impl Machine for Sender {
    type Parameters = Parameters;

    fn shortest_timeout(parameters: &Parameters) -> Option<SimTime> {
        Some(parameters.rto)
    }

    fn new(parameters: &Parameters, connection: &Connection) -> Self {
        let tcp = tcp::Sender::new(parameters, connection);
        Self { tcp, probe_after: parameters.probe_after, timeouts: 0, probe: false }
    }

    #[inline]
    fn poll(&mut self, now: SimTime) -> Option<Segment> {
        if self.timeouts < self.probe_after {
            let rank = self.rank();
            return self.tcp.poll(now).map(|segment| Segment { rank, ..segment });
        }
        std::mem::take(&mut self.probe).then(|| Segment {
            sequence: self.tcp.acked(),
            length: 0,
            again: true,
            capable: false,
            rank: self.rank(),
            control: false,
        })
    }

    #[inline]
    fn on_ack(&mut self, now: SimTime, ack: &Ack<'_>) {
        self.timeouts = 0;
        self.tcp.on_ack(now, ack);
    }
    #[inline]
    fn timer(&self) -> SimTime {
        self.tcp.timer()
    }
    fn on_timer(&mut self, now: SimTime, all_in_host: bool) -> Timeout {
        let timeout = self.tcp.on_timer(now, all_in_host);
        if timeout == Timeout::Loss {
            self.timeouts = self.timeouts.saturating_add(1);
            self.probe = true;
        }
        timeout
    }
    fn close(&mut self) {
        self.tcp.close();
    }
    #[inline]
    fn is_done(&self) -> bool {
        self.tcp.is_done()
    }
    #[inline]
    fn acked(&self) -> u64 {
        self.tcp.acked()
    }
    #[inline]
    fn highest(&self) -> u64 {
        self.tcp.highest()
    }
    #[inline]
    fn flight(&self) -> u64 {
        self.tcp.flight()
    }
    #[inline]
    fn window(&self) -> u64 {
        self.tcp.window()
    }
}

/// pFabric's window.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    reno: Reno,
    max: u64,
}

impl Congestion for Window {
    type Parameters = Parameters;
    const CAPABLE: bool = false;

    fn new(parameters: &Parameters, mss: u32) -> Self {
        let max = u64::from(parameters.max_window) * u64::from(mss);
        Self { reno: Reno::new(mss, parameters.initial_window), max }
    }
    fn common(parameters: &Parameters) -> tcp::Common {
        // The least timeout is the most: it is fixed.
        let rto = Rto::new(parameters.rto, parameters.rto, parameters.rto);
        tcp::Common {
            rto,
            dup_thresh: tcp::NO_FAST_RETRANSMIT,
            receive_window: tcp::UNLIMITED,
            restart_segments: 0,
            handshake: None,
        }
    }
    #[inline]
    fn window(&self) -> u64 {
        self.reno.window
    }
    #[inline]
    fn ssthresh(&self) -> u64 {
        self.reno.ssthresh
    }
    #[inline]
    fn on_ack(&mut self, progress: &Progress) {
        if progress.newly > 0 {
            // A packet for each acknowledgement, regardless of the bytes that it covers (YAPS).
            self.reno.on_ack(progress.newly.min(self.reno.mss), false);
            self.reno.window = self.reno.window.min(self.max);
        }
    }
    fn on_loss(&mut self, _now: SimTime, _flight: u64, _sent: u64) {
        unreachable!("only the timer finds losses")
    }
    fn on_timeout(&mut self, _now: SimTime, _flight: u64, _first: bool) {
        self.reno.reduce(self.reno.window / 2);
        self.reno.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{AckContent, SackBlock};

    fn sender(bytes: u64) -> Sender {
        let connection = Connection {
            bytes,
            payload: 1460,
            headers: 40,
            start: SimTime::ZERO,
            deadline: None,
            line_rate: weir_units::Bandwidth::from_gbps(10),
            round_trip: None,
            sprayed: false,
        };
        Sender::new(&Parameters::default(), &connection)
    }
    fn send_all(sender: &mut Sender, now: SimTime) -> Vec<Segment> {
        std::iter::from_fn(|| sender.poll(now)).collect()
    }
    fn ack(sender: &mut Sender, now: SimTime, next: u64, sack: &[SackBlock]) {
        let content = AckContent { next, stamp: SimTime::ZERO, echo: false };
        sender.on_ack(now, &Ack { content, sack });
    }
    const RTO: SimTime = SimTime::from_micros(45);

    #[test]
    fn the_worked_example() {
        let mut sender = sender(100_000);
        let first = send_all(&mut sender, SimTime::ZERO);
        assert_eq!(first.len(), 12);
        assert!(first.iter().all(|segment| segment.rank == 100_000));
        ack(&mut sender, SimTime::from_micros(10), 1460, &[]);
        assert_eq!(
            send_all(&mut sender, SimTime::from_micros(10)).iter().map(|s| s.rank).collect::<Vec<_>>(),
            [98_540; 2]
        );
    }

    #[test]
    fn the_window_stays_within_its_maximum() {
        let mut sender = sender(u64::MAX);
        for packet in 0..40 {
            assert!(send_all(&mut sender, SimTime::ZERO).iter().all(|segment| segment.rank == u32::MAX));
            ack(&mut sender, SimTime::ZERO, 1460 * (packet + 1), &[]);
        }
        assert_eq!(sender.window(), 23 * 1460);
    }

    #[test]
    fn only_a_fixed_timeout_detects_losses_and_received_data_is_not_repeated() {
        let mut sender = sender(10 * 1460);
        send_all(&mut sender, SimTime::ZERO);
        // All but the first and the last arrive.
        let all = [SackBlock { from: 1460, to: 9 * 1460 }];
        ack(&mut sender, SimTime::from_micros(10), 0, &all);
        assert!(send_all(&mut sender, SimTime::from_micros(10)).is_empty());
        assert_eq!(sender.timer(), RTO);
        assert_eq!(sender.on_timer(RTO, false), Timeout::Loss);
        let again = send_all(&mut sender, RTO);
        assert_eq!(again.iter().map(|s| (s.sequence, s.rank)).collect::<Vec<_>>(), [(0, 2 * 1460)]);
        assert_eq!(sender.timer(), RTO + RTO);
        ack(&mut sender, RTO, 9 * 1460, &[]);
        assert_eq!(
            send_all(&mut sender, RTO).iter().map(|s| (s.sequence, s.rank)).collect::<Vec<_>>(),
            [(9 * 1460, 1460)]
        );
    }

    #[test]
    fn probes_after_five_timeouts_until_an_acknowledgement() {
        let mut sender = sender(100_000);
        send_all(&mut sender, SimTime::ZERO);
        let mut now = SimTime::ZERO;
        for timeout in 1..8 {
            now += RTO;
            assert_eq!(sender.timer(), now);
            assert_eq!(sender.on_timer(now, false), Timeout::Loss);
            let sent: Vec<_> = send_all(&mut sender, now).iter().map(|s| (s.sequence, s.length, s.rank)).collect();
            assert_eq!(sent, [(0, if timeout < 5 { 1460 } else { 0 }, 100_000)]);
        }
        // The probe is acknowledged without new data: slow start from one packet.
        ack(&mut sender, now, 0, &[]);
        let sent = send_all(&mut sender, now);
        assert_eq!(sent.iter().map(|s| (s.sequence, s.length)).collect::<Vec<_>>(), [(0, 1460)]);
        assert_eq!((sender.window(), sender.tcp.timer()), (1460, now + RTO));
    }
}
