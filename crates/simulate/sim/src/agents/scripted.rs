//! An agent for tests: it records the packets that pass, and its fields control its actions.

use super::Moment;
use weir_transport::agents::{Agent, FlowEnd, FlowKey, Message, PacketKind, Passing, PortState, Verdict, Watch};
use weir_transport::d3::RateHeader;
use weir_units::{Bandwidth, SimTime};

/// The frame of a message.
pub(super) const SIZE: u32 = 64;

/// A packet that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) moment: Moment,
    pub(super) at: SimTime,
    pub(super) kind: PacketKind,
    pub(super) size: u32,
    pub(super) port: PortState,
    /// The number in its control field.
    pub(super) number: Option<u32>,
}

/// The agent.
#[derive(Debug)]
pub(crate) struct Scripted {
    pub(super) watch: Watch,
    /// It consumes every n-th packet of this kind that enters or returns.
    pub(super) consumes: Option<(PacketKind, u32)>,
    pub(super) counted: u32,
    /// The rate that it writes into the fields of data packets.
    pub(super) writes: Option<Bandwidth>,
    /// It sends a numbered message to this end of the last packet's flow every so often.
    pub(super) sends: Option<(FlowEnd, SimTime)>,
    pub(super) due: SimTime,
    pub(super) number: u32,
    pub(super) waiting: Option<Message>,
    pub(super) flow: Option<FlowKey>,
    pub(super) passages: Vec<Passage>,
    /// The rates that its port has been given.
    pub(super) rates: Vec<Bandwidth>,
}

impl Scripted {
    /// An agent that only watches.
    pub(super) fn watching(watch: Watch) -> Self {
        Self {
            watch,
            consumes: None,
            counted: 0,
            writes: None,
            sends: None,
            due: SimTime::NEVER,
            number: 0,
            waiting: None,
            flow: None,
            passages: Vec::new(),
            rates: Vec::new(),
        }
    }

    /// An agent that consumes every `every`-th packet of a kind.
    pub(super) fn consuming(kind: PacketKind, every: u32, watch: Watch) -> Self {
        Self { consumes: Some((kind, every)), ..Self::watching(watch) }
    }

    /// An agent that sends a message every `every`.
    pub(super) fn sending(to: FlowEnd, every: SimTime) -> Self {
        Self { sends: Some((to, every)), due: every, ..Self::watching(Watch { all: true, ..Watch::default() }) }
    }

    fn record(&mut self, moment: Moment, now: SimTime, packet: &mut Passing<'_>) {
        let (kind, size, port) = (packet.kind, packet.size, packet.port);
        let number = packet.control::<Box<RateHeader>>().map(|header| header.number);
        self.passages.push(Passage { moment, at: now, kind, size, port, number });
        self.flow = packet.flow.or(self.flow);
    }

    fn decide(&mut self, packet: &mut Passing<'_>) -> Verdict {
        let Some((kind, every)) = self.consumes else { return Verdict::Pass };
        self.counted += u32::from(packet.kind == kind);
        if packet.kind == kind && self.counted.is_multiple_of(every) { Verdict::Consume } else { Verdict::Pass }
    }
}

impl Agent for Scripted {
    fn watch(&self) -> Watch {
        self.watch
    }
    fn on_enter(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        self.record(Moment::Enters, now, packet);
        if let (PacketKind::Data, Some(rate)) = (packet.kind, self.writes)
            && let Some(header) = packet.control::<Box<RateHeader>>()
        {
            header.rate = rate;
        }
        self.decide(packet)
    }
    fn on_leave(&mut self, now: SimTime, packet: &mut Passing<'_>) {
        self.record(Moment::Leaves, now, packet);
    }
    fn on_return(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        self.record(Moment::Returns, now, packet);
        self.decide(packet)
    }
    fn timer(&self) -> SimTime {
        self.due
    }
    fn on_timer(&mut self, now: SimTime, _port: PortState) {
        let Some((to, every)) = self.sends else { return };
        self.due = now + every;
        let Some(flow) = self.flow else { return };
        self.number += 1;
        let header = RateHeader { number: self.number, ..RateHeader::EMPTY };
        self.waiting = Some(Message { flow, to, size: SIZE, control: Box::new(header).into() });
    }
    fn poll(&mut self) -> Option<Message> {
        self.waiting.take()
    }
    fn set_rate(&mut self, rate: Bandwidth) {
        self.rates.push(rate);
    }
}
