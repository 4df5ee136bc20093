//! D3's sending half: TCP's sequence space without a window, behind a pacer and requests.

use super::{Note, Parameters, RateHeader, Router};
use crate::agents::{ControlField, PortAgent};
use crate::api::{Ack, Connection, Segment, Timeout};
use crate::registry::Machine;
use crate::rto::Rto;
use crate::tcp::{self, Congestion, Progress};
use weir_units::{Bandwidth, SimTime};

/// The sending half. See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    tcp: tcp::Sender<NoWindow>,
    pacer: Box<Pacer>,
}

/// Rate and requests.
#[derive(Debug, Clone)]
struct Pacer {
    /// Bytes of a full packet, and of its headers.
    payload: u32,
    headers: u32,
    line_rate: Bandwidth,
    deadline: Option<SimTime>,
    base_rate: Bandwidth,
    /// The rate of the flow; zero until there is a grant.
    rate: Bandwidth,
    /// No data packet leaves before; [`SimTime::NEVER`] without a grant.
    wait: SimTime,
    /// The recent notes of ports, at most one of each.
    notes: Vec<Note>,
    /// The flow's packets take all paths at once.
    sprayed: bool,
    /// The shortest retransmission timeout.
    min_rto: SimTime,
    /// The round trip of the handshake.
    handshake: SimTime,
    requests: Requests,
    /// The number of requests sent.
    number: u32,
    /// Round trips of requests.
    rto: Rto,
}

/// The flow's state in its exchange with the switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requests {
    /// None has been sent.
    None,
    /// The next one is due.
    Due,
    /// One was sent at this time, and its grant has not arrived.
    Sent(SimTime),
    /// The final request has been sent.
    Over,
}

impl Pacer {
    /// The time of `bytes` at the rate, which is not zero.
    fn gap(&self, bytes: u32) -> SimTime {
        let picos = u128::from(bytes) * 8 * 1_000_000_000_000 / u128::from(self.rate.bps());
        SimTime::from_picos(u64::try_from(picos).unwrap_or(u64::MAX / 2))
    }

    /// Whether the flow sends requests without data, because packets with data are rare or absent.
    fn requests_alone(&self) -> bool {
        // Half of the bound `within`; a round trip, the other half, passes between a request and
        // its grant.
        let seldom = SimTime::from_picos(self.min_rto.picos() / 2);
        self.rate == Bandwidth::ZERO || self.gap(self.payload + self.headers) > seldom
    }

    /// The time within which the flow sends another request, unless something is lost.
    fn within(&self) -> SimTime {
        let rtt = self.rto.srtt().unwrap_or(self.handshake);
        self.min_rto.max(rtt + rtt)
    }

    /// The time at which the pending request is considered lost.
    fn retry(&self) -> SimTime {
        match self.requests {
            Requests::Sent(at) => at + self.rto.timeout(),
            _ => SimTime::NEVER,
        }
    }

    /// The rate that delivers `remaining` bytes in time, headers included and not above the host's
    /// own; 0 if there is no deadline or it has passed.
    fn desired(&self, now: SimTime, remaining: u64) -> Bandwidth {
        let time = self.deadline.unwrap_or(SimTime::ZERO).saturating_sub(now).picos();
        if time == 0 {
            return Bandwidth::ZERO;
        }
        let packets = remaining.div_ceil(u64::from(self.payload));
        let bytes = u128::from(remaining) + u128::from(packets) * u128::from(self.headers);
        let rate = bytes * 8 * 1_000_000_000_000 / u128::from(time);
        Bandwidth::from_bps(u64::try_from(rate).unwrap_or(u64::MAX).min(self.line_rate.bps()))
    }

    /// The switches' grant arrived.
    fn on_grant(&mut self, now: SimTime, grant: &RateHeader) {
        // The grant of an older request, or a second one, would start another exchange beside this
        // one.
        let Requests::Sent(at) = self.requests else { return };
        if grant.number != self.number {
            return;
        }
        self.rto.sample(now - at);
        self.rto.restore();
        self.rate = grant.rate.max(self.base_rate);
        self.notes.retain(|note| grant.noted.iter().all(|new| new.port != note.port));
        self.notes.extend(&grant.noted);
        self.requests = Requests::Due;
        if self.rate > Bandwidth::ZERO && self.wait != SimTime::NEVER {
            // A packet that waits for a slower rate's turn may leave sooner.
            self.wait = self.wait.min(now + self.gap(self.payload + self.headers));
        }
    }
}

impl Sender {
    /// The request of the segment just polled.
    fn request(&mut self, now: SimTime) -> RateHeader {
        let remaining = self.tcp.remaining();
        let last = self.tcp.is_done();
        let pacer = &mut *self.pacer;
        pacer.number = pacer.number.wrapping_add(1);
        let within = pacer.within();
        // A port without a request for two periods has dropped its note.
        pacer.notes.retain(|note| now.saturating_sub(note.at) <= within + within);
        let header = RateHeader {
            desired: if last { Bandwidth::ZERO } else { pacer.desired(now, remaining) },
            rate: pacer.line_rate,
            before: pacer.notes.clone(),
            noted: Vec::with_capacity(pacer.notes.len()),
            number: pacer.number,
            within,
            sprayed: pacer.sprayed,
            last,
        };
        pacer.requests = if last { Requests::Over } else { Requests::Sent(now) };
        header
    }

    /// A packet that carries a request and no data.
    fn bare(&self) -> Segment {
        Segment { sequence: self.tcp.acked(), length: 0, again: false, capable: false, rank: 0, control: true }
    }
}

impl Machine for Sender {
    type Parameters = Parameters;
    const AGENTS: bool = true;

    fn shortest_timeout(parameters: &Parameters) -> Option<SimTime> {
        Some(parameters.min_rto)
    }
    fn agent(parameters: &Parameters, port: u32, rate: Bandwidth) -> PortAgent {
        PortAgent::D3(Router::with_parameters(port, rate, parameters))
    }
    fn agent_parameters(parameters: &Parameters) -> Vec<(&'static str, String)> {
        let (alpha, beta) = (parameters.alpha.to_string(), parameters.beta.to_string());
        vec![
            ("alpha", alpha),
            ("beta", beta),
            ("interval", parameters.interval.duration().to_string()),
            ("granularity", parameters.granularity.to_string()),
            ("capacity-max", parameters.capacity_max.to_string()),
        ]
    }

    fn new(parameters: &Parameters, connection: &Connection) -> Self {
        let pacer = Pacer {
            payload: connection.payload,
            headers: connection.headers,
            line_rate: connection.line_rate,
            deadline: connection.deadline,
            base_rate: parameters.base_rate,
            rate: Bandwidth::ZERO,
            wait: SimTime::NEVER,
            notes: Vec::new(),
            sprayed: connection.sprayed,
            min_rto: parameters.min_rto,
            handshake: connection.round_trip.unwrap_or_default(),
            requests: Requests::None,
            number: 0,
            rto: NoWindow::common(parameters).rto.after_handshake(connection.round_trip),
        };
        Self { tcp: tcp::Sender::new(parameters, connection), pacer: Box::new(pacer) }
    }

    fn poll(&mut self, now: SimTime) -> Option<Segment> {
        let pacer = &mut *self.pacer;
        if self.tcp.is_done() {
            let owes = matches!(pacer.requests, Requests::Due | Requests::Sent(_));
            return owes.then(|| self.bare());
        }
        let due = matches!(pacer.requests, Requests::None | Requests::Due);
        if due && pacer.requests_alone() {
            return Some(self.bare());
        }
        if pacer.rate == Bandwidth::ZERO {
            return None;
        }
        if pacer.wait != SimTime::NEVER {
            if now < pacer.wait {
                return None;
            }
            pacer.wait = SimTime::NEVER;
        }
        let segment = self.tcp.poll(now)?;
        pacer.wait = now + pacer.gap(segment.length + pacer.headers);
        Some(Segment { control: due, ..segment })
    }

    fn on_ack(&mut self, now: SimTime, ack: &Ack<'_>) {
        self.tcp.on_ack(now, ack);
    }

    fn on_control(&mut self, now: SimTime, field: &ControlField) {
        if let Some(grant) = field.get::<Box<RateHeader>>() {
            self.pacer.on_grant(now, grant);
        }
    }

    fn timer(&self) -> SimTime {
        let pacer = &*self.pacer;
        if self.tcp.is_done() {
            return SimTime::NEVER;
        }
        self.tcp.timer().min(pacer.wait).min(pacer.retry())
    }

    fn on_timer(&mut self, now: SimTime, all_in_host: bool) -> Timeout {
        let pacer = &mut *self.pacer;
        if pacer.wait <= now {
            pacer.wait = SimTime::NEVER;
        }
        if pacer.retry() <= now {
            pacer.rto.back_off();
            pacer.requests = Requests::Due;
            // The path may have changed, to ports without a grant.
            pacer.rate = pacer.base_rate;
        }
        self.tcp.on_timer(now, all_in_host)
    }

    fn control(&mut self, now: SimTime) -> ControlField {
        Box::new(self.request(now)).into()
    }

    fn close(&mut self) {
        self.tcp.close();
    }
    /// Not before the final request has been sent.
    fn is_done(&self) -> bool {
        self.tcp.is_done() && matches!(self.pacer.requests, Requests::None | Requests::Over)
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
    /// The bytes sent in a round trip.
    fn window(&self) -> u64 {
        let rtt = self.pacer.rto.srtt().unwrap_or(SimTime::ZERO);
        let bytes = u128::from(self.pacer.rate.bps()) * u128::from(rtt.picos()) / 8_000_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// The congestion control of a sender whose rate is granted: none.
#[derive(Debug, Clone)]
struct NoWindow;

impl Congestion for NoWindow {
    type Parameters = Parameters;
    const CAPABLE: bool = false;

    fn new(_: &Parameters, _: u32) -> Self {
        Self
    }
    fn common(parameters: &Parameters) -> tcp::Common {
        // The first without a handshake, and the longest: RFC 6298 §2.1, and §2.5's least of the
        // longest.
        let max = SimTime::from_secs(60).max(parameters.min_rto);
        let rto = Rto::new(parameters.min_rto, SimTime::from_secs(1), max);
        tcp::Common {
            rto,
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
}

#[cfg(test)]
mod paths;
#[cfg(test)]
mod tests;
