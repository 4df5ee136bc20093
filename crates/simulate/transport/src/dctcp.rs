//! DCTCP: cut the window in proportion to the marked fraction.
//!
//! Switches mark packets while their queue is above a threshold; the receiver reports exactly which
//! packets were marked ([`crate::Receiver`]). The sender estimates the marked fraction of its bytes
//! once per window,
//!
//! α ← (1 − g)·α + g·F,
//!
//! and on a mark, at most once per window, window ← window·(1 − α/2). Everything else is Reno: slow
//! start, a segment per round trip, half on loss. An acknowledgement with a mark does not grow the
//! window (ns-2's `tcp-full.cc`; RFC 3168 §6.1.2). After a timeout, until all data sent before it
//! is acknowledged, marks count in α and change nothing else, as in Linux's loss state: the timeout
//! has already reduced the window for them. A cut leaves two segments at least (Linux's
//! `dctcp_ssthresh`).
//!
//! Example: α = 1 and a window without marks gives 0.9375 with g = 1/16. α = 0.5 and a mark cuts a
//! window of 20 to 15.
//!
//! Source: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, §3.1, equations 1 and 2; RFC
//! 8257 §3.3 to §3.5.

use crate::language::Reader;
use crate::receiver::Policy;
use crate::tcp::{self, Congestion, Progress, reno::Reno};
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, Record, Shape};
use weir_document::{Node, Problems};
use weir_units::SimTime;

/// Parameters of DCTCP.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// The common parameters of TCP.
    pub tcp: tcp::Parameters,
    /// The weight g of the last window in α, above 0, at most 1: 1/16 (SIGCOMM 2010 §4; RFC 8257
    /// §4.2).
    pub gain: f64,
    /// α before the first acknowledgement, 0 to 1: 1, to be careful (RFC 8257 §3.3; ns-3).
    pub initial_alpha: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { tcp: tcp::Parameters::default(), gain: 0.0625, initial_alpha: 1.0 }
    }
}

/// DCTCP in a scenario.
pub static PARAMETERS: Record = Record {
    id: "dctcp",
    what: "DCTCP",
    doc: "Data Center TCP: the window is cut in proportion to the marked fraction (RFC 8257). Queues must mark.",
    keys: &[
        Key::optional(
            "gain",
            Shape::Scalar(&Scalar::Decimal { what: "a gain", min: 1, max: 1_000_000 }),
            "The weight of the last window in the estimate of the marked fraction; 0.0625 (1/16).",
            "gain: 0.0625",
        ),
        Key::optional(
            "initial-alpha",
            Shape::Scalar(&Scalar::Decimal { what: "a fraction", min: 0, max: 1_000_000 }),
            "The estimate of the marked fraction at the start; 1.",
            "initial-alpha: 1",
        ),
        tcp::INITIAL_WINDOW,
        tcp::MIN_RTO,
        tcp::INITIAL_RTO,
        tcp::MAX_RTO,
        tcp::RECEIVE_WINDOW,
        tcp::DUP_THRESH_KEY,
        tcp::DELAYED_ACK,
        tcp::ACK_DELAY,
        tcp::IDLE_RESTART,
        tcp::HANDSHAKE,
    ],
};

/// Reads the parameters; `None` only if something was reported.
pub fn read(node: &Node, problems: &mut Problems) -> Option<Parameters> {
    let mut reader = Reader::new(&PARAMETERS, node, problems);
    let mut read = Parameters { tcp: tcp::Parameters::read(&mut reader), ..Parameters::default() };
    reader.decimal("gain", &mut read.gain);
    reader.decimal("initial-alpha", &mut read.initial_alpha);
    reader.finish(read)
}

impl Parameters {
    /// The receiver's acknowledgement policy, with marks.
    pub(crate) fn policy(&self) -> Policy {
        self.tcp.policy(true)
    }
}

/// The sending half.
pub(crate) type Sender = tcp::Sender<Window>;

/// DCTCP's congestion window.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    reno: Reno,
    gain: f64,
    /// The estimate of the marked fraction. Only sums and products of it are taken, so every
    /// machine gets the same bits.
    alpha: f64,
    /// Bytes acknowledged in this observation window, and those of them that were marked.
    acked: u64,
    marked: u64,
    /// The observation window ends when something beyond this byte is acknowledged.
    end: u64,
    /// Marks of data before this byte have caused a cut.
    cut_until: u64,
}

impl Window {
    /// The end of an observation window.
    fn estimate(&mut self, sent: u64) {
        let fraction = self.marked as f64 / self.acked.max(1) as f64;
        self.alpha = (1.0 - self.gain) * self.alpha + self.gain * fraction;
        (self.acked, self.marked, self.end) = (0, 0, sent);
    }

    /// A mark that has not caused a cut.
    fn cut(&mut self, sent: u64) {
        self.reno.reduce((self.reno.window as f64 * (1.0 - self.alpha / 2.0)) as u64);
        self.cut_until = sent;
    }
}

impl Congestion for Window {
    type Parameters = Parameters;
    const CAPABLE: bool = true;

    fn new(parameters: &Parameters, mss: u32) -> Self {
        Self {
            reno: Reno::new(mss, parameters.tcp.initial_window),
            gain: parameters.gain,
            alpha: parameters.initial_alpha,
            acked: 0,
            marked: 0,
            end: 0,
            cut_until: 0,
        }
    }
    fn common(parameters: &Parameters) -> tcp::Common {
        parameters.tcp.common()
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
        self.acked += progress.delivered;
        if progress.echo {
            self.marked += progress.delivered;
        }
        if progress.acked > self.end {
            self.estimate(progress.sent);
        }
        // A timeout has reduced the window for the marks of the data before it.
        if progress.echo && !progress.repeated {
            if progress.acked > self.cut_until {
                self.cut(progress.sent);
            }
        } else if progress.may_grow {
            self.reno.on_ack(progress.newly, progress.repeated);
        }
    }
    fn on_loss(&mut self, _now: SimTime, flight: u64, sent: u64) {
        self.reno.on_loss(flight);
        // The window has been cut for this window of data: its other marks cause no further cut.
        self.cut_until = sent;
    }
    fn on_timeout(&mut self, _now: SimTime, flight: u64, first: bool) {
        self.reno.on_timeout(flight, first);
    }
    fn on_resume(&mut self, _now: SimTime, timeouts: u32, restart_window: u64) {
        self.reno.on_resume(timeouts, restart_window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(alpha: f64, segments: u64) -> Window {
        let parameters = Parameters { initial_alpha: alpha, ..Parameters::default() };
        let mut window = Window::new(&parameters, 1000);
        window.reno.reduce(segments * 1000);
        // The observation window under way ends above 20,000.
        window.end = 20_000;
        window
    }
    fn ack(window: &mut Window, acked: u64, newly: u64, echo: bool) {
        window.on_ack(&Progress {
            now: SimTime::ZERO,
            newly,
            delivered: newly,
            acked,
            sent: acked + 20_000,
            rtt: SimTime::ZERO,
            srtt: SimTime::ZERO,
            echo,
            may_grow: true,
            repeated: false,
        });
    }

    #[test]
    fn alpha_decays_by_the_gain() {
        let mut window = window(1.0, 20);
        ack(&mut window, 20_000, 20_000, false);
        assert_eq!(window.alpha, 1.0);
        ack(&mut window, 21_000, 1_000, false);
        assert_eq!(window.alpha, 0.9375);
    }

    #[test]
    fn alpha_follows_the_marked_fraction_of_a_window() {
        let mut window = window(0.0, 20);
        ack(&mut window, 15_000, 15_000, false);
        ack(&mut window, 20_000, 5_000, true);
        ack(&mut window, 40_000, 20_000, false);
        // 5 of 40 segments were marked.
        assert_eq!(window.alpha, 0.0625 * 5.0 / 40.0);
    }

    #[test]
    fn a_mark_cuts_by_half_of_alpha_once_per_window() {
        let mut window = window(0.5, 20);
        ack(&mut window, 1_000, 1_000, true);
        assert_eq!(window.window(), 15_000);
        // The following data was sent before the cut.
        ack(&mut window, 10_000, 9_000, true);
        assert_eq!(window.window(), 15_000);
        // Beyond it, the next window's first mark cuts again, by an alpha that has risen.
        window.alpha = 0.5;
        window.end = u64::MAX;
        ack(&mut window, 21_001, 1_000, true);
        assert_eq!(window.window(), 11_250);
    }

    #[test]
    fn marks_stop_growth_and_losses_halve() {
        let mut window = window(0.0, 20);
        ack(&mut window, 20_000, 20_000, true);
        assert_eq!(window.window(), 20_000);
        window.on_loss(SimTime::ZERO, 20_000, 60_000);
        assert_eq!(window.window(), 10_000);
        window.alpha = 1.0;
        ack(&mut window, 60_000, 1_000, true);
        assert_eq!(window.window(), 10_000);
        for _ in 0..9 {
            window.cut_until = 0;
            ack(&mut window, 61_000, 1_000, true);
        }
        assert_eq!(window.window(), 2_000);
    }

    /// Marks from before a timeout belong to the window of data for which the timeout reduced the
    /// window: the threshold stays.
    #[test]
    fn marks_from_before_a_timeout_cut_nothing() {
        let mut window = window(1.0, 20);
        window.on_timeout(SimTime::ZERO, 20_000, true);
        assert_eq!((window.window(), window.ssthresh()), (1_000, 10_000));
        let old = Progress {
            now: SimTime::ZERO,
            newly: 1_000,
            delivered: 1_000,
            acked: 1_000,
            sent: 20_000,
            rtt: SimTime::ZERO,
            srtt: SimTime::ZERO,
            echo: true,
            may_grow: true,
            repeated: true,
        };
        window.on_ack(&old);
        // Slow start from one segment, toward the same threshold.
        assert_eq!((window.window(), window.ssthresh()), (2_000, 10_000));
        // A mark of data sent since then counts.
        window.reno.window = 8_000;
        window.on_ack(&Progress { acked: 20_001, sent: 28_000, repeated: false, ..old });
        assert_eq!((window.window(), window.ssthresh()), (4_000, 4_000));
    }
}
