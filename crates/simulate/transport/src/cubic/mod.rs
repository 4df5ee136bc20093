//! TCP CUBIC: the window is a cubic function of the time since the last loss.
//!
//! After a loss at a window of W_max segments the window is β·W_max, and then, t seconds into
//! congestion avoidance,
//!
//! W(t) = C·(t − K)³ + W_max, with K = ∛((W_max − window at t = 0) / C):
//!
//! steep at first, flat around the old maximum, then steep again. Each acknowledgement moves the
//! window toward its value one round trip later, by not more than half of itself in a round trip.
//! Where Reno would be faster (short round trips, small windows) the window follows an estimate of
//! Reno's instead. A flow that loses before it is back at its old maximum gives up some more of it
//! (fast convergence). Time in which the window did not limit the sender does not count. The first
//! slow start ends when round trips grow (HyStart++).
//!
//! Only +, −, ×, ÷ of binary64 are used, cube root included, so that every machine gets the same
//! bits.
//!
//! Example: loss at 100 segments: the window is 70 and K = ∛(30 / 0.4) = 4.217 s. With round trips
//! of 200 ms it is about 86.7 after 1 s, 100 after K, and 100.4 a second later.
//!
//! Source: RFC 9438 §4 (sections in the comments).

mod hystart;

use crate::language::{Reader, SWITCH};
use crate::receiver::Policy;
use crate::tcp::{self, Congestion, Progress, reno::Reno};
use hystart::{HyStart, Phase};
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, Record, Shape};
use weir_document::{Node, Problems};
use weir_units::SimTime;

/// Parameters of CUBIC.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// The common parameters of TCP.
    pub tcp: tcp::Parameters,
    /// How steep the window is, in segments per second cubed, above 0: 0.4 (RFC 9438 §5).
    pub c: f64,
    /// The fraction of the window after a loss, above 0 and below 1: 0.7 (RFC 9438 §4.6).
    pub beta: f64,
    /// Whether a flow that does not get back to its old maximum gives up more: yes (RFC 9438 §4.7).
    pub fast_convergence: bool,
    /// Whether growing round trips end the first slow start: yes (RFC 9406).
    pub hystart: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { tcp: tcp::Parameters::default(), c: 0.4, beta: 0.7, fast_convergence: true, hystart: true }
    }
}

/// CUBIC in a scenario.
pub static PARAMETERS: Record = Record {
    id: "cubic",
    what: "CUBIC",
    doc: "TCP CUBIC with selective acknowledgements, fast convergence and HyStart++ (RFC 9438, 9406).",
    keys: &[
        Key::optional(
            "c",
            Shape::Scalar(&Scalar::Decimal { what: "a constant of CUBIC", min: 1, max: 1_000_000_000 }),
            "The steepness of the window, in packets per second cubed; 0.4 (RFC 9438).",
            "c: 0.4",
        ),
        Key::optional(
            "beta",
            Shape::Scalar(&Scalar::Decimal { what: "a fraction below 1", min: 1, max: 999_999 }),
            "The fraction of the window after a loss; 0.7 (RFC 9438).",
            "beta: 0.7",
        ),
        Key::optional(
            "fast-convergence",
            SWITCH,
            "Whether a flow that does not get back to its old window gives up more of it; on.",
            "fast-convergence: on",
        ),
        Key::optional("hystart", SWITCH, "Whether growing round trips end the first slow start; on.", "hystart: on"),
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
    reader.decimal("c", &mut read.c);
    reader.decimal("beta", &mut read.beta);
    reader.switch("fast-convergence", &mut read.fast_convergence);
    reader.switch("hystart", &mut read.hystart);
    reader.finish(read)
}

impl Parameters {
    /// When the receiver acknowledges.
    pub(crate) fn policy(&self) -> Policy {
        self.tcp.policy(false)
    }
}

/// The sending half.
pub(crate) type Sender = tcp::Sender<Window>;

/// CUBIC's congestion window. Sizes in floating point are segments, times seconds.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// Slow start, threshold, and the window in bytes.
    reno: Reno,
    c: f64,
    beta: f64,
    fast_convergence: bool,
    /// The window in congestion avoidance; `reno.window` is the same in whole bytes.
    window: f64,
    /// The window before the last reduction, less the part of fast convergence; 0 for none.
    w_max: f64,
    /// The window before the last reduction.
    prior: f64,
    /// Reno's window by its model.
    estimate: f64,
    /// The time at which W is W_max again, from the start of congestion avoidance.
    k: f64,
    /// When congestion avoidance started, moved on by the time that does not count;
    /// [`SimTime::NEVER`] outside of it.
    epoch: SimTime,
    /// The acknowledgement before.
    last: SimTime,
    /// The state of the first slow start; gone after it.
    hystart: Option<Box<HyStart>>,
}

impl Window {
    /// Whole bytes as segments.
    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.reno.mss as f64
    }

    /// W(t) (§4.2).
    fn cubic(&self, t: f64) -> f64 {
        let d = t - self.k;
        self.c * d * d * d + self.w_max
    }

    /// Congestion avoidance starts.
    fn start(&mut self, now: SimTime) {
        self.epoch = now;
        self.window = self.segments(self.reno.window);
        self.estimate = self.window;
        if self.window < self.w_max {
            self.k = cbrt((self.w_max - self.window) / self.c);
        } else {
            // After slow start or a timeout there is no maximum to return to (§4.8, §4.10).
            (self.k, self.w_max) = (0.0, self.window);
        }
    }

    /// An acknowledgement in congestion avoidance.
    fn avoid(&mut self, progress: &Progress) {
        if self.epoch == SimTime::NEVER {
            self.start(progress.now);
        } else if !progress.may_grow {
            self.epoch += progress.now - self.last;
        }
        self.last = progress.now;
        if !progress.may_grow {
            return;
        }
        let t = seconds(progress.now - self.epoch);
        let segments = self.segments(progress.newly);
        // §4.3: Reno's model; as fast as Reno itself once the window has its old size.
        let alpha = if self.estimate < self.prior { 3.0 * (1.0 - self.beta) / (1.0 + self.beta) } else { 1.0 };
        self.estimate += alpha * segments / self.window;
        if self.cubic(t) < self.estimate {
            self.window = self.window.max(self.estimate);
        } else {
            let target = self.cubic(t + seconds(progress.srtt)).clamp(self.window, 1.5 * self.window);
            self.window += (target - self.window) / self.window * segments;
        }
        self.reno.window = (self.window * self.reno.mss as f64) as u64;
    }

    /// The window before a reduction is the maximum to return to (§4.7).
    fn remember(&mut self) {
        self.prior = self.segments(self.reno.window);
        let gives_up = self.fast_convergence && self.prior < self.w_max;
        self.w_max = if gives_up { self.prior * (1.0 + self.beta) / 2.0 } else { self.prior };
        self.epoch = SimTime::NEVER;
        self.hystart = None;
    }
}

impl Congestion for Window {
    type Parameters = Parameters;
    const CAPABLE: bool = false;

    fn new(parameters: &Parameters, mss: u32) -> Self {
        Self {
            reno: Reno::new(mss, parameters.tcp.initial_window),
            c: parameters.c,
            beta: parameters.beta,
            fast_convergence: parameters.fast_convergence,
            window: 0.0,
            w_max: 0.0,
            prior: 0.0,
            estimate: 0.0,
            k: 0.0,
            epoch: SimTime::NEVER,
            last: SimTime::ZERO,
            hystart: parameters.hystart.then(Box::default),
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
        if progress.newly == 0 {
            return;
        }
        if !self.reno.in_slow_start() {
            return self.avoid(progress);
        }
        let phase = match &mut self.hystart {
            None => Phase::SlowStart,
            Some(hystart) => hystart.on_ack(progress.acked, progress.sent, progress.rtt),
        };
        if progress.may_grow {
            let part = if phase == Phase::SlowStart { 1 } else { hystart::CSS_GROWTH_DIVISOR };
            self.reno.slow_start(progress.newly / part, progress.repeated);
        }
        if phase == Phase::Over {
            self.reno.ssthresh = self.reno.window;
            self.hystart = None;
        }
    }
    fn on_loss(&mut self, _now: SimTime, flight: u64, _sent: u64) {
        self.remember();
        // §4.6.
        self.reno.reduce((flight as f64 * self.beta) as u64);
    }
    fn on_timeout(&mut self, _now: SimTime, flight: u64, first: bool) {
        if first {
            self.remember();
            self.reno.reduce((flight as f64 * self.beta) as u64);
        }
        // The next congestion avoidance starts with K = 0 (§4.8).
        self.w_max = 0.0;
        self.epoch = SimTime::NEVER;
        self.reno.restart();
    }
    fn on_resume(&mut self, now: SimTime, timeouts: u32, restart_window: u64) {
        self.reno.on_resume(timeouts, restart_window);
        if timeouts > 0 {
            self.epoch = SimTime::NEVER;
        } else if self.epoch != SimTime::NEVER {
            // The window did not grow meanwhile, and should not compensate for it (§4.2; Linux's
            // `cubictcp_cwnd_event`).
            self.epoch += now - self.last;
            self.last = now;
        }
    }
}

/// Seconds of a length of time.
fn seconds(time: SimTime) -> f64 {
    time.picos() as f64 / 1e12
}

/// The cube root of a number above zero, by Newton's method.
fn cbrt(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent, within a third of the root; each step doubles the number of correct
    // digits, so that six are more than 52 bits need. The constant is two thirds of the exponent's
    // bias.
    let mut root = f64::from_bits(x.to_bits() / 3 + (0x3ff0_0000_0000_0000 / 3 * 2));
    for _ in 0..6 {
        root = (2.0 * root + x / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests;
