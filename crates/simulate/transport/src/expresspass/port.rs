//! The agent of a port: its limiter of credits and, at a host, the receiving flows.
//!
//! A credit that has to wait is taken out and originated again from the port's node when it may leave; it then meets
//! the same port once more, which lets it pass ([`Credit::released`]). At a host's interface requests, stops and the
//! numbers of returned credits end here: the host's transport receives the data alone.

use super::limiter::{Decision, Limiter};
use super::receiving::Receiving;
use super::{Credit, Header, Parameters};
use crate::agents::{Agent, FlowEnd, FlowKey, Message, PacketKind, Passing, PortState, Verdict, Watch};
use std::collections::VecDeque;
use weir_units::{Bandwidth, SimTime};

/// The agent of a port. [`Agent::at_host`] makes it that of a host's interface.
#[derive(Debug, Clone)]
pub struct Port {
    /// The port's number.
    number: u32,
    rate: Bandwidth,
    parameters: Box<Parameters>,
    limiter: Limiter,
    /// The flows of the host whose interface it is.
    receiving: Option<Box<Receiving>>,
    /// Credits that leave now.
    leaving: VecDeque<(FlowKey, Credit)>,
}

impl Port {
    /// The port of a switch whose link has this rate. No other port that a flow can meet may have the same number.
    pub fn new(number: u32, rate: Bandwidth, parameters: &Parameters) -> Self {
        Self {
            number,
            rate,
            parameters: Box::new(parameters.clone()),
            limiter: Limiter::new(number, rate, parameters),
            receiving: None,
            leaving: VecDeque::new(),
        }
    }
}

impl Agent for Port {
    fn at_host(&mut self) {
        self.receiving = Some(Box::new(Receiving::new(self.rate, &self.parameters)));
    }

    fn watch(&self) -> Watch {
        Watch { all: false, leaving: false, returning: self.receiving.is_some() }
    }

    fn on_enter(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        let (kind, flow) = (packet.kind, packet.flow);
        let (PacketKind::Message, Some(flow)) = (kind, flow) else { return Verdict::Pass };
        let Some(&mut Header::Credit(credit)) = packet.control::<Header>() else { return Verdict::Pass };
        if credit.released == self.number {
            return Verdict::Pass;
        }
        match self.limiter.offer(now, flow, credit, &self.parameters) {
            Decision::Pass => Verdict::Pass,
            Decision::Wait | Decision::Drop => Verdict::Consume,
        }
    }

    fn on_return(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        let (kind, flow) = (packet.kind, packet.flow);
        let (Some(receiving), PacketKind::Data, Some(flow)) = (&mut self.receiving, kind, flow) else {
            return Verdict::Pass;
        };
        match packet.control::<Header>() {
            Some(Header::Data(credit)) => {
                receiving.on_data(now, flow, credit);
                Verdict::PassWithout
            }
            Some(Header::Request) => {
                receiving.on_request(now, flow, &self.parameters);
                Verdict::Consume
            }
            Some(Header::Stop) => {
                receiving.on_stop(flow);
                Verdict::Consume
            }
            Some(Header::Credit(_)) | None => Verdict::Pass,
        }
    }

    fn timer(&self) -> SimTime {
        let receiving = self.receiving.as_ref().map_or(SimTime::NEVER, |receiving| receiving.due());
        self.limiter.due().min(receiving)
    }

    fn on_timer(&mut self, now: SimTime, _port: PortState) {
        self.leaving.extend(self.limiter.release(now, &self.parameters));
        let Some(receiving) = &mut self.receiving else { return };
        while let Some((flow, credit)) = receiving.next(now, &self.parameters) {
            if self.limiter.offer(now, flow, credit, &self.parameters) == Decision::Pass {
                self.leaving.push_back((flow, credit));
            }
        }
    }

    fn poll(&mut self) -> Option<Message> {
        let (flow, credit) = self.leaving.pop_front()?;
        let control = Header::Credit(Credit { released: self.number, ..credit }).into();
        Some(Message { flow, to: FlowEnd::Sender, size: self.parameters.credit, control })
    }

    fn set_rate(&mut self, rate: Bandwidth) {
        self.rate = rate;
        self.limiter.set_rate(rate, &self.parameters);
        if let Some(receiving) = &mut self.receiving {
            receiving.set_rate(rate, &self.parameters);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::ControlField;

    const GIGABIT: Bandwidth = Bandwidth::from_gbps(1);
    const FLOW: FlowKey = FlowKey { slot: 0, from: 1, to: 2, hash: 3 };
    const CREDIT: Credit = Credit { number: 7, sent: SimTime::ZERO, released: Credit::NO_PORT };

    /// Parameters without variation.
    fn exact() -> Parameters {
        Parameters { jitter: 0.0, ..Parameters::default() }
    }

    /// Passes a packet with this field, in the direction of the port or the opposite one.
    fn pass(agent: &mut Port, now: SimTime, kind: PacketKind, header: Header, returns: bool) -> Verdict {
        let mut field = ControlField::from(header);
        let port = PortState { taken: 0, held: 0 };
        let mut packet =
            Passing { kind, size: 84, flow: Some(FLOW), credits: false, direct: true, port, control: Some(&mut field) };
        if returns { agent.on_return(now, &mut packet) } else { agent.on_enter(now, &mut packet) }
    }

    fn messages(agent: &mut Port) -> Vec<Credit> {
        let due = agent.timer();
        agent.on_timer(due, PortState { taken: 0, held: 0 });
        assert!(agent.timer() > due);
        let credit = |message: Message| match message.control.get::<Header>() {
            Some(Header::Credit(credit)) => {
                assert_eq!((message.flow, message.to, message.size), (FLOW, FlowEnd::Sender, 84));
                *credit
            }
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(|| agent.poll()).map(credit).collect()
    }

    #[test]
    fn a_credit_that_waits_is_originated_again_and_passes() {
        let mut agent = Port::new(5, GIGABIT, &exact());
        let (message, header) = (PacketKind::Message, Header::Credit(CREDIT));
        assert_eq!(pass(&mut agent, SimTime::ZERO, message, header, false), Verdict::Pass);
        assert_eq!(agent.timer(), SimTime::NEVER);
        assert_eq!(pass(&mut agent, SimTime::ZERO, message, header, false), Verdict::Consume);
        assert_eq!(agent.timer(), SimTime::from_nanos(12_976));
        let released = Credit { released: 5, ..CREDIT };
        assert_eq!(messages(&mut agent), [released]);
        assert_eq!(
            pass(&mut agent, SimTime::from_nanos(12_976), message, Header::Credit(released), false),
            Verdict::Pass
        );
        // Another port's mark means nothing here.
        let other = Header::Credit(Credit { released: 6, ..CREDIT });
        assert_eq!(pass(&mut agent, SimTime::from_nanos(12_976), message, other, false), Verdict::Consume);
    }

    #[test]
    fn other_packets_pass() {
        let mut agent = Port::new(5, GIGABIT, &Parameters::default());
        for (kind, header) in [
            (PacketKind::Data, Header::Request),
            (PacketKind::Data, Header::Data(CREDIT)),
            (PacketKind::Data, Header::Stop),
            (PacketKind::Acknowledgement, Header::Data(CREDIT)),
        ] {
            assert_eq!(pass(&mut agent, SimTime::ZERO, kind, header, false), Verdict::Pass);
            assert_eq!(pass(&mut agent, SimTime::ZERO, kind, header, true), Verdict::Pass);
        }
        assert!(!agent.watch().returning);
        assert_eq!(agent.timer(), SimTime::NEVER);
    }

    #[test]
    fn a_host_sends_credits_from_a_request_to_a_stop() {
        let mut agent = Port::new(5, GIGABIT, &Parameters::default());
        agent.at_host();
        assert!(agent.watch().returning);
        let data = PacketKind::Data;
        assert_eq!(pass(&mut agent, SimTime::ZERO, data, Header::Request, true), Verdict::Consume);
        assert_eq!(agent.timer(), SimTime::ZERO);
        let first = messages(&mut agent);
        assert_eq!((first.len(), first[0].number, first[0].released), (1, 0, 5));
        let second = messages(&mut agent);
        assert_eq!(second[0].number, 1);
        let now = SimTime::from_micros(300);
        assert_eq!(pass(&mut agent, now, data, Header::Data(first[0]), true), Verdict::PassWithout);
        assert_eq!(pass(&mut agent, now, data, Header::Stop, true), Verdict::Consume);
        assert!(messages(&mut agent).is_empty());
        assert_eq!(agent.timer(), SimTime::NEVER);
    }

    /// The number of messages from now until so many milliseconds.
    fn until(agent: &mut Port, millis: u64) -> usize {
        let mut left = 0;
        while agent.timer() <= SimTime::from_millis(millis) {
            let now = agent.timer();
            agent.on_timer(now, PortState { taken: 0, held: 0 });
            left += std::iter::from_fn(|| agent.poll()).count();
        }
        left
    }

    /// The credits of many flows of a host leave at its link's rate: one every 12.976 µs.
    #[test]
    fn a_host_limits_its_own_credits() {
        let mut agent = Port::new(5, GIGABIT, &Parameters::default());
        agent.at_host();
        for slot in 0..100 {
            let key = FlowKey { slot, hash: slot, ..FLOW };
            agent.receiving.as_mut().expect("a host").on_request(SimTime::ZERO, key, &Parameters::default());
        }
        // All flows begin at once, so there is a pause between their first and second credits.
        assert!((750..771).contains(&until(&mut agent, 10)));
        assert!((380..=391).contains(&until(&mut agent, 15)));
        agent.set_rate(Bandwidth::from_mbps(100));
        assert!((38..=39).contains(&until(&mut agent, 20)));
    }
}
