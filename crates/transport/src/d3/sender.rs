//! D3's sending half: TCP's sequence space without a window, behind a pacer and requests.

use super::{MAX_HOPS, Parameters, RateHeader};
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
    /// What the flow may send at; zero until there is a grant.
    rate: Bandwidth,
    /// No data packet before; [`SimTime::NEVER`] when one may go.
    wait: SimTime,
    /// What the last answer granted, and what the last request asked for.
    granted: [Bandwidth; MAX_HOPS],
    desired: Bandwidth,
    requests: Requests,
    /// How many have been sent.
    number: u32,
    /// Round trips of requests.
    rto: Rto,
}

/// Where the flow is in its exchange with the switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requests {
    /// None has been sent.
    None,
    /// The next one is due.
    Due,
    /// One was sent at this time, and is not answered.
    Sent(SimTime),
    /// The last word has been sent.
    Over,
}

impl Pacer {
    /// How long `bytes` take at the rate, which is not zero.
    fn gap(&self, bytes: u32) -> SimTime {
        let picos = u128::from(bytes) * 8 * 1_000_000_000_000 / u128::from(self.rate.bps());
        SimTime::from_picos(u64::try_from(picos).unwrap_or(u64::MAX / 2))
    }

    /// When the unanswered request is taken for lost.
    fn retry(&self) -> SimTime {
        match self.requests {
            Requests::Sent(at) => at + self.rto.timeout(),
            _ => SimTime::NEVER,
        }
    }

    /// The rate that gets `remaining` bytes there in time, headers included and not above the host's own; 0 if there
    /// is no deadline or it has passed.
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

    /// The switches' answer.
    fn on_grant(&mut self, now: SimTime, grant: &RateHeader) {
        // The answer to an older request, or a second one, would start another exchange beside this one.
        let Requests::Sent(at) = self.requests else { return };
        if grant.number != self.number {
            return;
        }
        self.rto.sample(now - at);
        self.rto.restore();
        let ports = &grant.granted[..usize::from(grant.hops).min(MAX_HOPS)];
        // A path without ports has the host's own link alone.
        self.rate = ports.iter().copied().min().unwrap_or(self.line_rate).max(self.base_rate);
        self.granted = grant.granted;
        self.requests = Requests::Due;
        if self.rate > Bandwidth::ZERO && self.wait != SimTime::NEVER {
            // A packet that waits for a slower rate's turn may go sooner.
            self.wait = self.wait.min(now + self.gap(self.payload + self.headers));
        }
    }
}

impl Sender {
    /// A packet that carries a request and no data.
    fn bare(&self) -> Segment {
        Segment { sequence: self.tcp.acked(), length: 0, again: false, capable: false, rank: 0, request: true }
    }
}

impl Machine for Sender {
    type Parameters = Parameters;

    fn new(parameters: &Parameters, connection: &Connection) -> Self {
        let pacer = Pacer {
            payload: connection.payload,
            headers: connection.headers,
            line_rate: connection.line_rate,
            deadline: connection.deadline,
            base_rate: parameters.base_rate,
            rate: Bandwidth::ZERO,
            wait: SimTime::NEVER,
            granted: [Bandwidth::ZERO; MAX_HOPS],
            desired: Bandwidth::ZERO,
            requests: Requests::None,
            number: 0,
            rto: NoWindow::rto(parameters),
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
        if pacer.rate == Bandwidth::ZERO {
            return due.then(|| self.bare());
        }
        if pacer.wait != SimTime::NEVER {
            if now < pacer.wait {
                return None;
            }
            pacer.wait = SimTime::NEVER;
        }
        let segment = self.tcp.poll(now)?;
        pacer.wait = now + pacer.gap(segment.length + pacer.headers);
        Some(Segment { request: due, ..segment })
    }

    fn on_ack(&mut self, now: SimTime, ack: &Ack<'_>) {
        if let Some(grant) = ack.grant {
            self.pacer.on_grant(now, grant);
        }
        self.tcp.on_ack(now, ack);
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
        }
        self.tcp.on_timer(now, all_in_host)
    }

    fn request(&mut self, now: SimTime) -> RateHeader {
        let remaining = self.tcp.remaining();
        let last = self.tcp.is_done();
        let pacer = &mut *self.pacer;
        pacer.number = pacer.number.wrapping_add(1);
        let header = RateHeader {
            number: pacer.number,
            desired: if last { Bandwidth::ZERO } else { pacer.desired(now, remaining) },
            previous_desired: pacer.desired,
            previous: pacer.granted,
            first: pacer.requests == Requests::None,
            last,
            ..RateHeader::EMPTY
        };
        pacer.desired = header.desired;
        pacer.requests = if last { Requests::Over } else { Requests::Sent(now) };
        header
    }

    fn close(&mut self) {
        self.tcp.close();
    }
    /// Not before the last word has been said.
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
    /// What is sent in a round trip.
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
    fn rto(parameters: &Parameters) -> Rto {
        // The longest: RFC 6298 §2.5's least of the longest.
        let max = SimTime::from_secs(60).max(parameters.min_rto);
        Rto::new(parameters.min_rto, parameters.min_rto, max)
    }
    fn receive_window(_: &Parameters) -> u64 {
        tcp::UNLIMITED
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
    use super::super::Router;
    use super::*;
    use crate::api::Answer;

    const US: fn(u64) -> SimTime = SimTime::from_micros;

    fn sender(bytes: u64, deadline: Option<SimTime>) -> Sender {
        let connection = Connection {
            bytes,
            payload: 1000,
            headers: 0,
            start: SimTime::ZERO,
            deadline,
            line_rate: Bandwidth::from_gbps(1),
        };
        Sender::new(&Parameters::default(), &connection)
    }
    /// An acknowledgement, with what a router says to the request.
    fn answer(sender: &mut Sender, now: SimTime, next: u64, grant: Option<RateHeader>) {
        let answer = Answer { next, stamp: now.saturating_sub(US(100)), echo: false };
        sender.on_ack(now, &Ack { answer, sack: &[], grant: grant.as_ref() });
    }
    fn granted(mut header: RateHeader, mbps: &[u64]) -> RateHeader {
        for rate in mbps {
            header.granted[usize::from(header.hops)] = Bandwidth::from_mbps(*rate);
            header.hops += 1;
        }
        header
    }

    #[test]
    fn asks_first_then_sends_at_the_smallest_grant_and_says_goodbye() {
        let mut sender = sender(3_000, None);
        let first = sender.poll(SimTime::ZERO).unwrap();
        assert_eq!((first.length, first.request), (0, true));
        let header = sender.request(SimTime::ZERO);
        assert_eq!(header, RateHeader { first: true, number: 1, ..RateHeader::EMPTY });
        assert_eq!(sender.poll(SimTime::ZERO), None);
        answer(&mut sender, US(100), 0, Some(granted(header, &[500, 200, 800])));

        let data = sender.poll(US(100)).unwrap();
        assert_eq!((data.sequence, data.length, data.request), (0, 1000, true));
        let header = sender.request(US(100));
        assert_eq!(header.previous[..4], [500, 200, 800, 0].map(Bandwidth::from_mbps));
        assert!(!header.first && !header.last);
        // 1000 B at 200 Mb/s.
        assert_eq!(sender.poll(US(100)), None);
        assert_eq!(sender.timer(), US(140));
        assert_eq!(sender.on_timer(US(140), false), Timeout::Nothing);
        let data = sender.poll(US(140)).unwrap();
        assert_eq!((data.sequence, data.request), (1000, false));
        assert_eq!(sender.window(), 2_500);
        // A faster grant does not wait for the slower one's turn.
        answer(&mut sender, US(150), 1000, Some(granted(header, &[1000])));
        // The same answer once more changes nothing, and it is not the answer to what is asked next.
        answer(&mut sender, US(150), 1000, Some(granted(header, &[7])));
        assert_eq!(sender.timer(), US(158));
        let data = sender.poll(US(158)).unwrap();
        assert_eq!((data.sequence, data.request), (2000, true));
        let header = sender.request(US(158));
        answer(&mut sender, US(300), 3000, Some(granted(header, &[400])));
        assert!(!sender.is_done());
        let last = sender.poll(US(300)).unwrap();
        assert_eq!((last.length, last.request), (0, true));
        let header = sender.request(US(300));
        assert!(header.last);
        assert_eq!(header.previous[0], Bandwidth::from_mbps(400));
        assert!(sender.is_done());
        assert_eq!((sender.poll(US(300)), sender.timer()), (None, SimTime::NEVER));
    }

    #[test]
    fn asks_for_what_the_deadline_needs() {
        let mut flow = sender(1_000_000, Some(SimTime::from_millis(10)));
        flow.poll(SimTime::ZERO);
        assert_eq!(flow.request(SimTime::ZERO).desired, Bandwidth::from_mbps(800));
        // 562,500 B are there after 5 ms.
        assert_eq!(flow.pacer.desired(SimTime::from_millis(5), 437_500), Bandwidth::from_mbps(700));
        assert_eq!(flow.pacer.desired(SimTime::from_millis(9), 437_500), Bandwidth::from_gbps(1));
        assert_eq!(flow.pacer.desired(SimTime::from_millis(10), 437_500), Bandwidth::ZERO);
    }

    #[test]
    fn a_flow_that_is_granted_nothing_asks_once_per_round_trip() {
        let mut sender = sender(1_000, None);
        for round in 0..5 {
            let now = US(100 * round);
            let bare = sender.poll(now).unwrap();
            assert_eq!((bare.length, bare.request), (0, true));
            let header = sender.request(now);
            assert_eq!(header.first, round == 0);
            assert_eq!(sender.poll(now), None);
            answer(&mut sender, US(100 * round + 100), 0, Some(granted(header, &[0])));
        }
    }

    #[test]
    fn a_lost_request_is_repeated() {
        let mut sender = sender(1_000, None);
        sender.poll(SimTime::ZERO);
        sender.request(SimTime::ZERO);
        let due = sender.timer();
        assert_eq!(due, SimTime::from_millis(10));
        sender.on_timer(due, false);
        assert!(sender.poll(due).unwrap().request);
        sender.request(due);
        assert_eq!(sender.timer(), SimTime::from_millis(30));
    }

    /// Oracle: four settled flows of 250 Mb/s at 1 Gb/s; a newcomer waits a round trip, then all have 200.
    #[test]
    fn senders_and_a_router_settle() {
        let mut router = Router::new(Bandwidth::from_gbps(1));
        let mut flows: Vec<_> = (0..4).map(|_| sender(u64::MAX, None)).collect();
        let round = |flows: &mut [Sender], router: &mut Router, now: SimTime| {
            for flow in flows {
                let next = flow.highest();
                flow.on_timer(now, false);
                if flow.poll(now).is_some_and(|segment| segment.request) {
                    let mut header = flow.request(now);
                    router.on_request(now, &mut header);
                    answer(flow, now + US(90), next, Some(header));
                }
            }
        };
        for step in 0..10 {
            round(&mut flows, &mut router, US(100 * step));
        }
        let rates = |flows: &[Sender]| flows.iter().map(|flow| flow.pacer.rate.bps() / 1_000_000).collect::<Vec<_>>();
        assert_eq!(rates(&flows), [250; 4]);
        flows.insert(0, sender(u64::MAX, None));
        round(&mut flows, &mut router, US(1000));
        assert_eq!(rates(&flows), [0, 200, 200, 200, 200]);
        round(&mut flows, &mut router, US(1100));
        assert_eq!(rates(&flows), [200; 5]);
    }
}
