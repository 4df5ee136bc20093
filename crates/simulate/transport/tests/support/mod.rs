//! Two ends of a flow and a network between them that loses, doubles, delays and marks packets by a
//! seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_transport::agents::{Agent, ControlField, PacketKind, Passing, PortAgent, PortState};
use weir_transport::{
    Ack, AckContent, Acknowledge, Arrival, Connection, Parameters, Receiver, SackBlocks, Segment, Sender, Timeout,
};
use weir_units::{Bandwidth, SimTime};

/// The behaviour of the network. Shares are in thousandths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    pub(crate) seed: u64,
    /// The delay of one way, and the most that is added to it.
    pub(crate) delay: SimTime,
    pub(crate) jitter: SimTime,
    pub(crate) lost: u64,
    /// Every so many-th data packet is lost besides; 0 for none.
    pub(crate) every: u64,
    pub(crate) doubled: u64,
    pub(crate) marked: u64,
}

/// The events so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The times at which the receiver had half, and everything.
    pub(crate) half: SimTime,
    pub(crate) delivered: SimTime,
    /// Data packets sent, those of them that had been sent before, and timeouts.
    pub(crate) packets: u64,
    pub(crate) again: u64,
    pub(crate) timeouts: u64,
    pub(crate) acknowledgements: u64,
}

/// Events after which a flow is considered stuck.
const PATIENCE: u64 = 50_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Data(Arrival, Option<ControlField>),
    Ack(AckContent, SackBlocks, Option<ControlField>),
    /// A delayed acknowledgement is due.
    Due,
}

/// An event and when it happens; the number keeps those of one time in order.
struct Scheduled(SimTime, u64, Event);
impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub(crate) struct World {
    network: Network,
    random: u64,
    now: SimTime,
    count: u64,
    events: BinaryHeap<Reverse<Scheduled>>,
    total: u64,
    receive_window: u64,
    sender: Sender,
    receiver: Receiver,
    /// The agent of the network's port, for transports with agents.
    agent: Option<PortAgent>,
    /// The receiver's last acknowledgement.
    acknowledged: u64,
    outcome: Outcome,
}

impl World {
    pub(crate) fn new(parameters: &Parameters, bytes: u64, network: Network) -> Self {
        let line_rate = Bandwidth::from_gbps(10);
        let connection = Connection {
            bytes,
            payload: 1000,
            headers: 66,
            start: SimTime::ZERO,
            deadline: Some(SimTime::from_millis(5)),
            line_rate,
            round_trip: None,
            sprayed: false,
        };
        Self {
            network,
            random: network.seed,
            now: SimTime::ZERO,
            count: 0,
            events: BinaryHeap::new(),
            total: bytes,
            receive_window: match parameters {
                Parameters::NewReno(newreno) => newreno.tcp.receive_window,
                Parameters::Cubic(cubic) => cubic.tcp.receive_window,
                Parameters::Dctcp(dctcp) => dctcp.tcp.receive_window,
                _ => u64::MAX,
            },
            sender: Sender::new(parameters, &connection),
            receiver: Receiver::new(parameters),
            agent: parameters.has_agents().then(|| parameters.agent(0, line_rate)),
            acknowledged: 0,
            outcome: Outcome::default(),
        }
    }

    /// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn happens(&mut self, thousandths: u64) -> bool {
        self.random() % 1000 < thousandths
    }

    fn schedule(&mut self, at: SimTime, event: Event) {
        self.count += 1;
        self.events.push(Reverse(Scheduled(at, self.count, event)));
    }

    /// A packet enters the network.
    fn transmit(&mut self, event: Event) {
        let copies =
            if self.happens(self.network.lost) { 0 } else { 1 + u64::from(self.happens(self.network.doubled)) };
        for _ in 0..copies {
            let jitter = self.random() % (self.network.jitter.picos() + 1);
            self.schedule(self.now + self.network.delay + SimTime::from_picos(jitter), event.clone());
        }
    }

    /// Runs until the flow is done.
    pub(crate) fn run(mut self) -> Outcome {
        self.send();
        for _ in 0..PATIENCE {
            if self.sender.is_done() {
                assert_eq!(self.receiver.next(), self.total, "done, but not everything is there");
                return self.outcome;
            }
            let timer = self.sender.timer();
            match self.events.peek() {
                Some(Reverse(next)) if next.0 < timer => {
                    let Some(Reverse(Scheduled(now, _, event))) = self.events.pop() else { unreachable!() };
                    self.now = now;
                    self.happen(event);
                }
                _ => {
                    assert!(timer < SimTime::NEVER, "nothing will ever happen: {:?}", self.sender);
                    assert!(timer >= self.now, "the timer is in the past: {:?}", self.sender);
                    self.now = timer;
                    self.outcome.timeouts += u64::from(self.sender.on_timer(timer, false) == Timeout::Loss);
                }
            }
            let fired = self.now == timer;
            self.send();
            assert!(self.sender.timer() > self.now || !fired, "the timer is due again: {:?}", self.sender);
        }
        panic!("stuck: {:?}", self.sender);
    }

    /// Sends the allowed segments.
    fn send(&mut self) {
        loop {
            let (acked, highest, flight, window) =
                (self.sender.acked(), self.sender.highest(), self.sender.flight(), self.sender.window());
            let Some(segment) = self.sender.poll(self.now) else { return };
            self.check(&segment, acked, highest);
            if self.network.lost + self.network.every == 0
                && self.network.jitter == SimTime::ZERO
                && segment.length > 0
                && window > 0
            {
                // Without losses and reordering there is no recovery: the window bounds the data in
                // flight. A rate's window is the bytes of a round trip and bounds nothing.
                let paced = segment.control || self.sender.timer() <= self.now + self.network.delay;
                assert!(paced || flight + u64::from(segment.length) <= window, "{flight} in flight of {window}");
            }
            self.outcome.packets += 1;
            self.outcome.again += u64::from(segment.again);
            let field = segment.control.then(|| self.sender.control(self.now));
            let marked = segment.capable && self.happens(self.network.marked);
            let arrival = Arrival { sequence: segment.sequence, length: segment.length, stamp: self.now, marked };
            if self.network.every == 0 || !self.outcome.packets.is_multiple_of(self.network.every) {
                self.transmit(Event::Data(arrival, field));
            }
        }
    }

    fn check(&self, segment: &Segment, acked: u64, highest: u64) {
        let end = segment.sequence + u64::from(segment.length);
        assert!(segment.length <= 1000 && end <= self.total, "{segment:?}");
        assert!(segment.sequence >= acked, "{segment:?} is acknowledged up to {acked}");
        assert!(segment.sequence <= highest, "{segment:?} leaves a gap after {highest}");
        assert!(segment.again == (segment.sequence < highest) || segment.length == 0, "{segment:?}");
        assert_eq!(self.sender.highest(), highest.max(end));
        assert!(self.sender.highest() - acked <= self.receive_window, "more than the receiver takes");
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Data(arrival, mut field) => {
                if let (Some(agent), Some(field)) = (&mut self.agent, &mut field) {
                    let (size, port) = (arrival.length + 66, PortState { taken: 0, held: 0 });
                    let kind = PacketKind::Data;
                    agent.on_enter(
                        self.now,
                        &mut Passing {
                            kind,
                            size,
                            flow: None,
                            credits: false,
                            direct: true,
                            port,
                            control: Some(field),
                        },
                    );
                }
                let before = self.receiver.next();
                let reaction = self.receiver.on_segment(self.now, &arrival);
                assert!(self.receiver.next() >= before);
                if before < self.total / 2 && self.receiver.next() >= self.total / 2 {
                    self.outcome.half = self.now;
                }
                if before < self.total && self.receiver.next() == self.total {
                    self.outcome.delivered = self.now;
                }
                if let Some(content) = reaction.before {
                    assert_eq!(content.next, before, "what came before the packet");
                    let sack = self.receiver.sack();
                    self.acknowledge(content, sack, None);
                }
                match reaction.acknowledge {
                    Acknowledge::Now => self.send_ack(field),
                    Acknowledge::Later(at) => self.schedule(at, Event::Due),
                    Acknowledge::Never => {}
                }
            }
            Event::Due => {
                if self.receiver.owes_ack() {
                    self.send_ack(None);
                }
            }
            Event::Ack(content, sack, field) => {
                let sack = &sack.blocks[..usize::from(sack.count)];
                let before = self.sender.acked();
                if let Some(field) = &field {
                    self.sender.on_control(self.now, field);
                }
                self.sender.on_ack(self.now, &Ack { content, sack });
                assert_eq!(self.sender.acked(), before.max(content.next));
            }
        }
    }

    fn send_ack(&mut self, field: Option<ControlField>) {
        let content = self.receiver.acknowledge();
        let sack = self.receiver.sack();
        assert!(!self.receiver.owes_ack());
        self.acknowledge(content, sack, field);
    }

    fn acknowledge(&mut self, content: AckContent, sack: SackBlocks, field: Option<ControlField>) {
        let highest = self.sender.highest();
        assert!(content.next <= highest, "{content:?} acknowledges what was not sent");
        assert!(content.next >= self.acknowledged, "{content:?} takes back {}", self.acknowledged);
        assert!(content.stamp <= self.now);
        for block in &sack.blocks[..usize::from(sack.count)] {
            assert!(content.next < block.from && block.from < block.to && block.to <= highest, "{block:?}");
        }
        self.acknowledged = content.next;
        self.outcome.acknowledgements += 1;
        self.transmit(Event::Ack(content, sack, field));
    }
}
