//! TCP NewReno with selective acknowledgements: halve on loss, grow by a segment per round trip.
//!
//! The sequence space, loss recovery and timers are [`crate::tcp`]'s; the window is Reno's. With
//! selective acknowledgements loss recovery is that of RFC 6675, which repairs any number of losses
//! of a window in about one round trip where the original NewReno (RFC 6582) needs one for each.
//!
//! Example, in segments: window 16, one loss: ssthresh and window 8; 8 round trips later the window
//! is 16 again.
//!
//! Source: RFC 5681 (congestion control), RFC 6582 (the name), RFC 6675 (recovery).

use crate::language::Reader;
use crate::receiver::Policy;
use crate::tcp::{self, Congestion, Progress, reno::Reno};
use weir_document::shape::Record;
use weir_document::{Node, Problems};
use weir_units::SimTime;

/// Parameters of NewReno: the common ones of TCP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parameters {
    /// The common parameters of TCP.
    pub tcp: tcp::Parameters,
}

/// NewReno in a scenario.
pub static PARAMETERS: Record = Record {
    id: "newreno",
    what: "NewReno",
    doc: "TCP NewReno with selective acknowledgements (RFC 5681, 6675).",
    keys: &[
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
    let tcp = tcp::Parameters::read(&mut reader);
    reader.finish(Parameters { tcp })
}

impl Parameters {
    /// When the receiver acknowledges.
    pub(crate) fn policy(&self) -> Policy {
        self.tcp.policy(false)
    }
}

/// The sending half.
pub(crate) type Sender = tcp::Sender<Window>;

/// NewReno's congestion window.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    reno: Reno,
}

impl Congestion for Window {
    type Parameters = Parameters;
    const CAPABLE: bool = false;

    fn new(parameters: &Parameters, mss: u32) -> Self {
        Self { reno: Reno::new(mss, parameters.tcp.initial_window) }
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
        if progress.may_grow {
            self.reno.on_ack(progress.newly, progress.repeated);
        }
    }
    fn on_loss(&mut self, _now: SimTime, flight: u64, _sent: u64) {
        self.reno.on_loss(flight);
    }
    fn on_timeout(&mut self, _now: SimTime, flight: u64, first: bool) {
        self.reno.on_timeout(flight, first);
    }
    fn on_resume(&mut self, _now: SimTime, timeouts: u32, restart_window: u64) {
        self.reno.on_resume(timeouts, restart_window);
    }
}
