//! ExpressPass's sending half: TCP's sequence space without a window, in which each credit releases a segment.

use super::{Credit, Header, Parameters, Port};
use crate::agents::{ControlField, PortAgent};
use crate::api::{Ack, Connection, Segment, Timeout};
use crate::registry::Machine;
use crate::rto::Rto;
use crate::tcp::{self, Congestion, Progress};
use std::collections::VecDeque;
use weir_units::{Bandwidth, SimTime};

/// The most credits that wait for room in the sending host. More mean that the host is busy with other traffic: the
/// oldest are lost then, and the receiver sends fewer.
const MOST_CREDITS: usize = 8;

/// The sending half. See the parent module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    tcp: tcp::Sender<NoWindow>,
    session: Box<Session>,
}

/// The exchange with the receiver's host.
#[derive(Debug, Clone)]
struct Session {
    state: State,
    /// The credits that released nothing yet.
    credits: VecDeque<Credit>,
    /// The control field of the segment just polled.
    header: Header,
    /// The time from a request to the first credit; zero before.
    round_trip: SimTime,
    min_rto: SimTime,
}

/// The state of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has been requested, or the request is lost.
    Closed,
    /// A request was sent at this time.
    Requested(SimTime),
    /// Credits arrive, the last at this time.
    Open(SimTime),
    /// A stop was sent at this time.
    Stopped(SimTime),
}

impl Session {
    /// The time at which credits are considered lost.
    fn retry(&self) -> SimTime {
        match self.state {
            State::Requested(at) | State::Open(at) => at + self.min_rto.max(self.round_trips(4)),
            State::Closed | State::Stopped(_) => SimTime::NEVER,
        }
    }

    fn round_trips(&self, count: u64) -> SimTime {
        SimTime::from_picos(self.round_trip.picos().saturating_mul(count))
    }

    /// A credit arrives, while the flow has data to send or not.
    fn on_credit(&mut self, now: SimTime, credit: Credit, has_data: bool) {
        match self.state {
            State::Requested(at) => self.round_trip = now.saturating_sub(at),
            // It was on its way when the stop was sent. Later ones mean that the stop is lost.
            State::Stopped(at) if !has_data && now.saturating_sub(at) <= self.round_trips(2) => return,
            State::Closed | State::Open(_) | State::Stopped(_) => {}
        }
        self.state = State::Open(now);
        if self.credits.len() == MOST_CREDITS {
            self.credits.pop_front();
        }
        self.credits.push_back(credit);
    }
}

impl Sender {
    /// Whether it has something to send, or will after the next acknowledgements.
    fn has_data(&self) -> bool {
        let unsent = self.tcp.remaining() > self.tcp.flight();
        !self.tcp.is_done() && (unsent || self.tcp.is_recovering())
    }

    /// A packet that carries a request or a stop.
    fn bare(&mut self, header: Header) -> Segment {
        self.session.header = header;
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
        PortAgent::ExpressPass(Port::new(port, rate, parameters))
    }
    fn agent_parameters(parameters: &Parameters) -> Vec<(&'static str, String)> {
        vec![
            ("credit", parameters.credit.to_string()),
            ("frame", parameters.frame.to_string()),
            ("queue", parameters.queue.to_string()),
            ("alpha", parameters.alpha.to_string()),
            ("w-init", parameters.w_init.to_string()),
            ("w-min", parameters.w_min.to_string()),
            ("w-max", parameters.w_max.to_string()),
            ("target-loss", parameters.target_loss.to_string()),
            ("simulator-law", if parameters.simulator_law { "on" } else { "off" }.to_owned()),
            ("jitter", parameters.jitter.to_string()),
            ("min-rto", parameters.min_rto.duration().to_string()),
        ]
    }

    fn new(parameters: &Parameters, connection: &Connection) -> Self {
        let session = Session {
            state: State::Closed,
            credits: VecDeque::new(),
            header: Header::Request,
            round_trip: SimTime::ZERO,
            min_rto: parameters.min_rto,
        };
        Self { tcp: tcp::Sender::new(parameters, connection), session: Box::new(session) }
    }

    fn poll(&mut self, now: SimTime) -> Option<Segment> {
        if let Some(&credit) = self.session.credits.front()
            && let Some(segment) = self.tcp.poll(now)
        {
            self.session.credits.pop_front();
            self.session.header = Header::Data(credit);
            return Some(Segment { control: true, ..segment });
        }
        match (self.session.state, self.has_data()) {
            (State::Closed | State::Stopped(_), true) => {
                self.session.state = State::Requested(now);
                Some(self.bare(Header::Request))
            }
            (State::Requested(_) | State::Open(_), false) => {
                self.session.state = State::Stopped(now);
                self.session.credits.clear();
                Some(self.bare(Header::Stop))
            }
            _ => None,
        }
    }

    fn on_ack(&mut self, now: SimTime, ack: &Ack<'_>) {
        self.tcp.on_ack(now, ack);
    }

    fn on_control(&mut self, now: SimTime, field: &ControlField) {
        if let Some(Header::Credit(credit)) = field.get::<Header>() {
            let has_data = self.has_data();
            self.session.on_credit(now, *credit, has_data);
        }
    }

    fn timer(&self) -> SimTime {
        if self.tcp.is_done() {
            return SimTime::NEVER;
        }
        self.tcp.timer().min(self.session.retry())
    }

    fn on_timer(&mut self, now: SimTime, all_in_host: bool) -> Timeout {
        if self.session.retry() <= now {
            self.session.state = State::Closed;
        }
        self.tcp.on_timer(now, all_in_host)
    }

    fn control(&mut self, _now: SimTime) -> ControlField {
        self.session.header.into()
    }

    fn close(&mut self) {
        self.tcp.close();
    }
    /// Not before the stop has been sent.
    fn is_done(&self) -> bool {
        self.tcp.is_done() && matches!(self.session.state, State::Closed | State::Stopped(_))
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
    /// Unknown: the receiver has the rate.
    fn window(&self) -> u64 {
        0
    }
}

/// The congestion control of a sender whose segments need credits: none.
#[derive(Debug, Clone)]
struct NoWindow;

impl Congestion for NoWindow {
    type Parameters = Parameters;
    const CAPABLE: bool = false;

    fn new(_: &Parameters, _: u32) -> Self {
        Self
    }
    fn common(parameters: &Parameters) -> tcp::Common {
        // The first without a sample, and the longest: RFC 6298 §2.1 and §2.5.
        let max = SimTime::from_secs(60).max(parameters.min_rto);
        tcp::Common {
            rto: Rto::new(parameters.min_rto, SimTime::from_secs(1), max),
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
mod tests {
    use super::*;
    use crate::api::AckContent;

    const US: fn(u64) -> SimTime = SimTime::from_micros;

    fn sender(bytes: u64) -> Sender {
        let connection = Connection {
            bytes,
            payload: 1000,
            headers: 66,
            start: SimTime::ZERO,
            deadline: None,
            line_rate: Bandwidth::from_gbps(1),
            round_trip: None,
            sprayed: false,
        };
        Machine::new(&Parameters::default(), &connection)
    }
    fn credit(sender: &mut Sender, now: SimTime, number: u32) {
        let credit = Credit { number, sent: SimTime::ZERO, released: 3 };
        sender.on_control(now, &Header::Credit(credit).into());
    }
    /// The segments that leave now: their lengths and fields.
    fn polled(sender: &mut Sender, now: SimTime) -> Vec<(u32, Header)> {
        let mut segments = Vec::new();
        while let Some(segment) = sender.poll(now) {
            assert!(segment.control);
            let field = sender.control(now);
            segments.push((segment.length, *field.get::<Header>().expect("ExpressPass's field")));
        }
        assert!(sender.timer() > now);
        segments
    }
    fn numbers(segments: &[(u32, Header)]) -> Vec<(u32, u32)> {
        let number = |(length, header): &(u32, Header)| match header {
            Header::Data(credit) => Some((*length, credit.number)),
            _ => None,
        };
        segments.iter().filter_map(number).collect()
    }
    fn ack(sender: &mut Sender, now: SimTime, next: u64) {
        let content = AckContent { next, stamp: now, echo: false };
        sender.on_ack(now, &Ack { content, sack: &[] });
    }

    #[test]
    fn each_credit_releases_a_segment_and_the_last_a_stop() {
        let mut sender = sender(2_500);
        assert_eq!(polled(&mut sender, US(0)), [(0, Header::Request)]);
        credit(&mut sender, US(100), 0);
        assert_eq!(numbers(&polled(&mut sender, US(100))), [(1000, 0)]);
        credit(&mut sender, US(110), 1);
        credit(&mut sender, US(110), 2);
        let last = polled(&mut sender, US(110));
        assert_eq!((numbers(&last), last.len()), (vec![(1000, 1), (500, 2)], 3));
        assert_eq!(last[2], (0, Header::Stop));
        assert!(!sender.is_done());
        // Credits that were on their way have no effect; one that comes later means that the stop is lost.
        credit(&mut sender, US(300), 3);
        assert_eq!(polled(&mut sender, US(300)), []);
        credit(&mut sender, US(400), 9);
        assert_eq!(polled(&mut sender, US(400)), [(0, Header::Stop)]);
        ack(&mut sender, US(500), 2_500);
        assert!(sender.is_done());
        assert_eq!((polled(&mut sender, US(500)), sender.timer()), (vec![], SimTime::NEVER));
    }

    #[test]
    fn a_request_is_repeated_without_credits() {
        let mut sender = sender(u64::MAX);
        let request = [(0, Header::Request)];
        assert_eq!(polled(&mut sender, US(0)), request);
        assert_eq!(sender.timer(), US(10_000));
        assert_eq!(sender.on_timer(US(10_000), false), Timeout::Nothing);
        assert_eq!(polled(&mut sender, US(10_000)), request);
        credit(&mut sender, US(10_100), 0);
        assert_eq!(polled(&mut sender, US(10_100)).len(), 1);
        ack(&mut sender, US(10_200), 1000);
        assert_eq!(sender.timer(), US(20_100));
        sender.on_timer(US(20_100), false);
        assert_eq!(polled(&mut sender, US(20_100)), request);
    }

    /// A loss that a timeout finds after the stop.
    #[test]
    fn lost_data_requests_credits_again() {
        let mut sender = sender(1_000);
        polled(&mut sender, US(0));
        credit(&mut sender, US(100), 0);
        assert_eq!(polled(&mut sender, US(100)).len(), 2);
        let timeout = sender.timer();
        assert_eq!(timeout, US(1_000_100));
        assert_eq!(sender.on_timer(timeout, false), Timeout::Loss);
        assert_eq!(polled(&mut sender, timeout), [(0, Header::Request)]);
        credit(&mut sender, timeout + US(100), 0);
        assert_eq!(numbers(&polled(&mut sender, timeout + US(100))), [(1000, 0)]);
    }

    #[test]
    fn a_busy_host_loses_the_oldest_credits() {
        let mut sender = sender(u64::MAX);
        polled(&mut sender, US(0));
        for number in 0..20 {
            credit(&mut sender, US(100), number);
        }
        let sent = numbers(&polled(&mut sender, US(100)));
        assert_eq!(sent, (12..20).map(|number| (1000, number)).collect::<Vec<_>>());
    }

    #[test]
    fn a_closed_flow_stops_its_credits() {
        let mut sender = sender(u64::MAX);
        polled(&mut sender, US(0));
        credit(&mut sender, US(100), 0);
        polled(&mut sender, US(100));
        sender.close();
        assert_eq!(polled(&mut sender, US(100)), [(0, Header::Stop)]);
        ack(&mut sender, US(200), 1000);
        assert!(sender.is_done());
        // A flow without data sends nothing at all.
        let mut empty = self::sender(0);
        assert_eq!((polled(&mut empty, US(0)), empty.is_done()), (vec![], true));
    }
}
