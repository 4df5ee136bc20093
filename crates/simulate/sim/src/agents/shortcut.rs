//! [`Shortcuts`]: the short way of packets without a message through ports with forwarders.
//!
//! Problem: every packet passes two agents at each hop, that of the opposite direction of its link and that of its next
//! port. To find and call both costs more than the rest of the hop, in instructions and in cache lines: records of
//! ports, the table of agents, and two lines of the flow. But a forwarder reads nothing of an acknowledgement, and of
//! data without a message only its size and its flow. Approach: a table with the forwarder of each port that has no
//! other agent, and one with the keys of flows, four in a cache line.
//!
//! A port with another agent, aggregates, and packets with an extension take the way through all agents of the port.

use super::credits::CreditAgent;
use super::{Agents, AnyAgent, Moment};
use crate::fetch::fetch_first;
use crate::ids::{AgentId, FlowId, PacketId, PortId};
use crate::observer::Observer;
use crate::packet::{Extensions, Kind, Packet};
use crate::port::NONE;
use crate::world::World;
use weir_transport::agents::{FlowKey, Verdict};

/// The ends of a flow.
#[derive(Debug, Clone, Copy)]
struct Ends {
    from: u32,
    to: u32,
    hash: u32,
    /// Its data needs credits.
    credits: bool,
}

/// The forwarders that data of the current bucket of events enters, while the states of its flows are prefetched.
#[derive(Debug, Default)]
pub(super) struct Entering {
    /// Flows that may send.
    sending: Vec<FlowId>,
    /// Forwarders with the slots of flows, and later their numbers.
    data: Vec<(AgentId, u32)>,
}

/// The tables of the short way.
#[derive(Debug, Default)]
pub(super) struct Shortcuts {
    /// By port: its forwarder, if that is its only agent, or [`NONE`].
    forwarders: Vec<u32>,
    /// By flow slot.
    ends: Vec<Ends>,
    /// An agent other than a forwarder reads packets without a control field.
    pub(super) all: bool,
}

impl Shortcuts {
    /// A port gets an agent; `alone` is its number if it is a forwarder and the only one.
    pub(super) fn installed(&mut self, port: PortId, alone: Option<AgentId>) {
        if self.forwarders.len() <= port.index() {
            self.forwarders.resize(port.index() + 1, NONE);
        }
        self.forwarders[port.index()] = alone.map_or(NONE, |agent| agent.0);
    }

    /// The forwarder of a port, if that is its only agent.
    #[inline]
    pub(super) fn forwarder(&self, port: PortId) -> Option<AgentId> {
        self.forwarders.get(port.index()).filter(|agent| **agent != NONE).map(|agent| AgentId(*agent))
    }

    /// Prefetches the key of a flow.
    #[inline]
    pub(super) fn fetch_key(&self, flow: FlowId) {
        fetch_first(&self.ends, flow.index());
    }
}

impl Agents {
    /// The forwarder of a number.
    #[inline]
    fn forwarder(&self, agent: AgentId) -> Option<&CreditAgent> {
        match self.installed.get(agent.index()).map(|installed| &installed.agent) {
            Some(AnyAgent::Credits(forwarder)) => Some(forwarder),
            _ => None,
        }
    }

    /// Prefetching begins for another bucket of events.
    #[inline]
    pub(crate) fn begin_fetching(&mut self) {
        self.entering.data.clear();
        self.entering.sending.clear();
    }

    /// A flow may send at an event of the bucket.
    #[inline]
    pub(crate) fn fetch_sending(&mut self, flow: FlowId) {
        if self.has_forwarders {
            self.entering.sending.push(flow);
        }
    }

    /// Prefetches what data of a flow that enters a port with a forwarder needs first.
    #[inline]
    pub(crate) fn fetch_entering(&mut self, port: PortId, flow: FlowId) {
        if let Some(agent) = self.shortcuts.forwarder(port)
            && let Some(forwarder) = self.forwarder(agent)
        {
            self.shortcuts.fetch_key(flow);
            forwarder.fetch_number(flow.0);
            self.entering.data.push((agent, flow.0));
        }
    }
}

impl<O: Observer> World<O> {
    /// Prefetches the states of the flows whose data the events of the current bucket bring to forwarders: first what
    /// the ports have ([`Agents::fetch_entering`]), then the flows' numbers, states and grants, each by the one before.
    pub(crate) fn fetch_credits(&mut self) {
        for at in 0..self.agents.entering.sending.len() {
            let flow = self.agents.entering.sending[at];
            let from = self.flows[flow.index()].address.from;
            self.agents.fetch_entering(self.hosts[from.index()].interface, flow);
        }
        let mut data = std::mem::take(&mut self.agents.entering.data);
        let agents = &self.agents;
        data.retain_mut(|(agent, slot)| {
            let number = agents.forwarder(*agent).and_then(|forwarder| forwarder.fetch_state(*slot));
            number.map(|number| *slot = number).is_some()
        });
        for &(agent, number) in &data {
            if let Some(forwarder) = agents.forwarder(agent) {
                forwarder.fetch_grants(number);
            }
        }
        self.agents.entering.data = data;
    }

    /// A flow has begun in a slot.
    pub(crate) fn note_key(&mut self, id: FlowId) {
        let flow = &self.flows[id.index()];
        let address = &flow.address;
        let (from, to, hash) = (address.from.0, address.to.0, address.hash);
        let ends = Ends { from, to, hash, credits: flow.sender.needs_credits() };
        let table = &mut self.agents.shortcuts.ends;
        match table.get_mut(id.index()) {
            Some(slot) => *slot = ends,
            None => table.resize(id.index() + 1, ends),
        }
    }

    /// Whether an agent may read a packet that enters its port.
    #[inline]
    pub(crate) fn is_shown(&self, packet: &Packet) -> bool {
        let is_data = packet.kind() == Kind::Segment && self.agents.has_forwarders;
        is_data || packet.extension != Extensions::NONE || self.agents.shortcuts.all
    }

    /// Passes a packet to the agents of a port. Returns whether one consumed it: it is gone then.
    #[inline]
    pub(crate) fn show(&mut self, port: PortId, id: PacketId, moment: Moment) -> bool {
        let packet = self.packets.get(id);
        if !self.is_shown(packet) {
            return false;
        }
        if packet.extension == Extensions::NONE
            && moment != Moment::Returns
            && let Some(agent) = self.agents.shortcuts.forwarder(port)
        {
            return self.show_data(agent, port, id, moment);
        }
        self.show_each(port, id, moment)
    }

    /// Passes a packet without a message to a forwarder, which is the only agent of the port.
    fn show_data(&mut self, agent: AgentId, port: PortId, id: PacketId, moment: Moment) -> bool {
        let packet = self.packets.get(id);
        if packet.kind() != Kind::Segment {
            return false;
        }
        let (slot, size) = (packet.flow.0, packet.size);
        let Ends { from, to, hash, credits } = self.agents.shortcuts.ends[slot as usize];
        let AnyAgent::Credits(forwarder) = &self.agents.installed[agent.index()].agent else { return false };
        if !credits || !forwarder.is_frame_with_data(size) {
            return false;
        }
        // A port that chooses among frames has an account of its own.
        let held = if forwarder.is_scheduled() { 0 } else { self.held(port) };
        let AnyAgent::Credits(forwarder) = &mut self.agents.installed[agent.index()].agent else { return false };
        if moment == Moment::Leaves {
            if forwarder.is_scheduled() {
                forwarder.on_data_leaves(self.now, size);
            }
            return false;
        }
        let consumed = forwarder.on_data(self.now, FlowKey { slot, from, to, hash }, size, held) == Verdict::Consume;
        if consumed {
            self.consume(port, id, moment);
        }
        consumed
    }
}
