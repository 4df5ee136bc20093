//! Port agents in a world: the packets that they inspect, and the messages that they originate.
//!
//! Problem: the forwarders of some protocols inspect every packet of their ports, while most networks
//! have no agent and must not pay for one. Approach: a port states in its own cache line whether it
//! has agents. A first-in first-out port with an agent has a service of its own
//! ([`Service::Watched`]), so that other ports check nothing more than their service. An agent that
//! needs the departures of packets ([`Watch::leaving`]) makes its port a scheduled one, because a
//! first-in first-out port decides about a departure when the packet arrives.
//!
//! The decisions are in [`weir_transport::agents`], which states the order of calls. The first flow
//! of a transport with agents installs one at each port; [`World::add_agent`] installs any other.
//!
//! Most packets of a network with forwarders are acknowledgements, which no agent reads, and data without a message,
//! which one call of the port's forwarder counts. Both take a short way ([`World::show`]) that loads no more than that
//! needs: a table of the ports' forwarders and one of the flows' keys (`shortcut`).
//!
//! Example: port 3 has two agents, numbers 0 and 5 of the table. Its record names agent 0, which
//! names agent 5 as the next one.

mod credits;
#[cfg(test)]
mod scripted;
mod shortcut;
#[cfg(test)]
mod tests;

pub(crate) use credits::EXEMPT;
use credits::{CreditAgent, CreditLosses, PortOf};
use shortcut::{Entering, Shortcuts};

use crate::events::Event;
use crate::flow::Life;
use crate::ids::{AgentId, FlowId, HostId, Node, PacketId, PortId, SwitchId};
use crate::observer::Observer;
use crate::packet::{Extension, Extensions, Kind, Packet};
use crate::port::{NONE, Service};
use crate::queue::Queue;
use crate::timer::{Fired, Timer};
use crate::world::World;
use weir_network::graph::Discipline;
use weir_transport::Parameters;
use weir_transport::agents::{
    Agent, ControlField, FlowEnd, FlowKey, Message, PacketKind, Passing, PortAgent, PortState, Verdict, Watch,
};
use weir_units::Bandwidth;

/// An agent of a protocol, or of a test.
#[derive(Debug)]
pub(crate) enum AnyAgent {
    Protocol(PortAgent),
    /// PACE's, which runs the per-packet code.
    Credits(Box<CreditAgent>),
    #[cfg(test)]
    Scripted(scripted::Scripted),
}

/// Calls a method of the agent that it is.
macro_rules! each {
    ($agent:expr, $one:ident => $call:expr) => {
        match $agent {
            AnyAgent::Protocol($one) => $call,
            AnyAgent::Credits($one) => $call,
            #[cfg(test)]
            AnyAgent::Scripted($one) => $call,
        }
    };
}

/// An agent at its port.
#[derive(Debug)]
struct Installed {
    agent: AnyAgent,
    watch: Watch,
    port: PortId,
    /// The next agent of the port, or [`NONE`].
    next: u32,
    timer: Timer,
}

/// The agents of a world.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    installed: Vec<Installed>,
    /// The transports whose agents are at all ports.
    protocols: Vec<&'static str>,
    /// Losses of data with credits, and switches without forwarders.
    losses: CreditLosses,
    /// The priority class of control messages of credits, if they have one of their own.
    control_priority: Option<u8>,
    /// The seed of what agents draw.
    seed: u64,
    /// There are forwarders of credits.
    has_forwarders: bool,
    shortcuts: Shortcuts,
    entering: Entering,
}

/// How a packet passes an agent's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The port takes it.
    Enters,
    /// Its transmission begins.
    Leaves,
    /// It has arrived over the opposite direction of the link.
    Returns,
}

impl<O: Observer> World<O> {
    /// Installs an agent at a port, behind those that the port has. All links must exist.
    pub fn add_agent(&mut self, port: PortId, agent: PortAgent) {
        self.install(port, AnyAgent::Protocol(agent));
    }

    /// The seed of random losses of control messages. Before the first flow.
    pub fn set_agent_seed(&mut self, seed: u64) {
        self.agents.seed = seed;
    }

    /// Leaves the ports of some switches without forwarders of credits. Before the first flow.
    pub fn set_switches_without_forwarders(&mut self, switches: &[SwitchId]) {
        self.agents.losses.without = vec![false; self.switches.len()];
        for switch in switches {
            self.agents.losses.without[switch.index()] = true;
        }
    }

    /// Installs the agents of a transport at all ports, once.
    #[cold]
    pub(crate) fn install_agents(&mut self, parameters: &Parameters) {
        if self.agents.protocols.contains(&parameters.protocol()) {
            return;
        }
        self.agents.protocols.push(parameters.protocol());
        for port in (0..self.ports.len() as u32).map(PortId) {
            let rate = self.rate(port);
            let agent = match parameters {
                Parameters::Pace(pace) => {
                    self.agents.control_priority = pace.control_priority;
                    if let Some(switch) = self.records[port.index()].at.node().switch()
                        && self.agents.losses.without.get(switch.index()) == Some(&true)
                    {
                        continue;
                    }
                    self.agents.has_forwarders = true;
                    AnyAgent::Credits(Box::new(CreditAgent::new(pace, self.credit_port(port))))
                }
                parameters => AnyAgent::Protocol(parameters.agent(port.0, rate)),
            };
            self.install(port, agent);
        }
    }

    /// The properties of a port that its forwarder needs.
    fn credit_port(&self, port: PortId) -> PortOf {
        let record = &self.records[port.index()];
        PortOf {
            rate: self.rate(port),
            ingress: self.rate(record.opposite),
            // The receivers of aggregates are those of their hosts.
            is_host: matches!(record.at.node(), Node::Host(_)) && !self.aggregates.is_on(),
            whole_frames: self.aggregates.is_on(),
            scheduled: record.usual == Service::Scheduled,
            frame: self.sizes.payload + self.sizes.headers,
            headers: if self.aggregates.is_on() { EXEMPT } else { self.sizes.headers },
            claims: !self.agents.losses.without.contains(&true),
            // Odd multiples of one number: the draws of ports begin at different states.
            seed: self.agents.seed ^ (2 * u64::from(port.0) + 1).wrapping_mul(0xD129_0E55_3F5A_2C35),
        }
    }

    fn install(&mut self, port: PortId, mut agent: AnyAgent) {
        if self.ports[port.index()].owner().is_some() {
            each!(&mut agent, agent => agent.at_host());
        }
        // The agent's timer needs the sized event queue.
        self.start();
        let watch = each!(&agent, agent => agent.watch());
        let id = AgentId(self.agents.installed.len() as u32);
        let mut last = None;
        let mut at = self.records[port.index()].agent;
        while let Some(installed) = self.agents.installed.get(at as usize) {
            last = Some(at as usize);
            at = installed.next;
        }
        match last {
            None => self.records[port.index()].agent = id.0,
            Some(last) => self.agents.installed[last].next = id.0,
        }
        let alone = last.is_none() && matches!(agent, AnyAgent::Credits(_)) && !self.aggregates.is_on();
        self.agents.shortcuts.installed(port, alone.then_some(id));
        self.agents.shortcuts.all |= watch.all && !matches!(agent, AnyAgent::Credits(_));
        self.agents.installed.push(Installed { agent, watch, port, next: NONE, timer: Timer::default() });
        let down = !self.ports[port.index()].is_up();
        if watch.leaving && self.records[port.index()].usual != Service::Scheduled {
            self.schedule(port, Queue::of(Discipline::Fifo));
        }
        let (out, record) = (&mut self.ports[port.index()], &mut self.records[port.index()]);
        if record.usual == Service::Fifo {
            record.usual = Service::Watched;
        }
        out.watched = true;
        out.service = if down { Service::Down } else { record.usual };
        if watch.returning {
            let opposite = record.opposite;
            self.inspects = true;
            // Forwarders read only messages of the packets that return.
            self.inspects_all |= watch.all && !matches!(self.agents.installed[id.index()].agent, AnyAgent::Credits(_));
            self.ports[opposite.index()].inspected = true;
        }
        self.set_agent_timer(id);
    }

    /// Sets the timer of an agent as the agent states it.
    fn set_agent_timer(&mut self, id: AgentId) {
        let installed = &mut self.agents.installed[id.index()];
        let due = each!(&installed.agent, agent => agent.timer());
        if let Some(at) = installed.timer.set(due.max(self.now)) {
            self.events.push(at, Event::Agent(id));
        }
    }

    /// The rate of a port's link has changed.
    pub(crate) fn set_agents_rate(&mut self, port: PortId, rate: Bandwidth) {
        let mut id = AgentId(self.records[port.index()].agent);
        while let Some(installed) = self.agents.installed.get_mut(id.index()) {
            let next = installed.next;
            match &mut installed.agent {
                AnyAgent::Credits(agent) => agent.on_rate(self.now, rate),
                agent => each!(agent, agent => agent.set_rate(rate)),
            }
            self.set_agent_timer(id);
            id = AgentId(next);
        }
        let opposite = self.records[port.index()].opposite;
        self.for_credits(opposite, |agent| agent.on_ingress_rate(rate));
    }

    /// Calls the forwarder of a port, if it has one.
    fn for_credits(&mut self, port: PortId, call: impl FnOnce(&mut CreditAgent)) {
        let mut at = self.records[port.index()].agent;
        while let Some(installed) = self.agents.installed.get_mut(at as usize) {
            if let AnyAgent::Credits(agent) = &mut installed.agent {
                return call(agent);
            }
            at = installed.next;
        }
    }

    /// A port drops a packet: one that waited there (`held`) or not.
    pub(crate) fn count_dropped_credits(&mut self, port: PortId, id: PacketId, held: bool) {
        if !self.is_credit_data(id) {
            return;
        }
        let (size, now) = (self.packets.get(id).size, self.now.instant());
        let mut excluded = self.ports[port.index()].service == Service::Down;
        self.for_credits(port, |agent| {
            excluded |= agent.is_excluded(now);
            if held {
                agent.on_given_up(size);
            }
        });
        self.agents.losses.dropped += 1;
        self.agents.losses.excluded += u64::from(excluded);
    }

    /// A switch has no route for a packet: all links to its host have failed.
    pub(crate) fn count_unroutable_credits(&mut self, id: PacketId) {
        if self.is_credit_data(id) {
            self.agents.losses.dropped += 1;
            self.agents.losses.excluded += 1;
        }
    }

    /// Whether a packet has data of a flow with credits.
    pub(crate) fn is_credit_data(&self, id: PacketId) -> bool {
        let packet = self.packets.get(id);
        let is_data = packet.kind() == Kind::Segment && packet.size > self.sizes.headers;
        let needs_credits = || match self.aggregates.is_on() {
            true => packet.size > EXEMPT && self.aggregates.has(packet.service),
            false => self.flows[packet.flow.index()].sender.needs_credits(),
        };
        is_data && !self.agents.installed.is_empty() && needs_credits()
    }

    /// A port's link goes down.
    pub(crate) fn take_agents_down(&mut self, port: PortId) {
        self.for_credits(port, CreditAgent::on_down);
    }

    /// The network has other routes.
    pub(crate) fn reroute_agents(&mut self) {
        let now = self.now.instant();
        for installed in &mut self.agents.installed {
            if let AnyAgent::Credits(agent) = &mut installed.agent {
                agent.on_routes(now);
            }
        }
    }

    /// Whether every packet of data needs the state of its flow at each port.
    #[inline]
    pub(crate) fn has_forwarders(&self) -> bool {
        self.agents.has_forwarders
    }

    /// The priority class of a message of credits: that of `data`, or its own.
    pub(crate) fn control_priority(&self, data: u8) -> u8 {
        self.agents.control_priority.unwrap_or(data)
    }

    /// Passes a packet to each agent of a port. Returns whether one consumed it: it is gone then.
    #[inline(never)]
    fn show_each(&mut self, port: PortId, id: PacketId, moment: Moment) -> bool {
        let mut agent = AgentId(self.records[port.index()].agent);
        while let Some(installed) = self.agents.installed.get(agent.index()) {
            let (watch, next) = (installed.watch, AgentId(installed.next));
            let is_credits = matches!(installed.agent, AnyAgent::Credits(_));
            // Forwarders read only data and messages, and only messages of the packets that return.
            let all = watch.all && (!is_credits || self.packets.get(id).kind() == Kind::Segment);
            let (wanted, all) = match moment {
                Moment::Enters => (true, all),
                Moment::Leaves => (watch.leaving, all),
                Moment::Returns => (watch.returning, all && !is_credits),
            };
            // Selective acknowledgements and datagrams have extensions too.
            if wanted && (all || self.packets.get(id).extension != Extensions::NONE) {
                let state = self.port_state(port, !is_credits);
                match self.show_to(agent, id, moment, state) {
                    Verdict::Pass => {}
                    Verdict::PassWithout => self.remove_control(id),
                    Verdict::Consume => {
                        self.consume(port, id, moment);
                        return true;
                    }
                }
            }
            agent = next;
        }
        false
    }

    /// Whether the data of a message's flow leaves by the port of an agent.
    fn is_direct(&self, agent: AgentId, message: &Packet) -> bool {
        let port = self.agents.installed[agent.index()].port;
        let Node::Switch(switch) = self.records[port.index()].at.node() else { return true };
        let address = match message.kind() {
            Kind::Credits => self.aggregates.address(message.flow.0),
            _ => self.flows[message.flow.index()].address,
        };
        let leaf = self.hosts[address.to.index()].leaf;
        self.routes.route(switch, leaf, address.to, address.hash) == Some(port)
    }

    fn show_to(&mut self, agent: AgentId, id: PacketId, moment: Moment, port: PortState) -> Verdict {
        let packet = self.packets.get(id);
        let (kind, size) = (packet.kind(), packet.size);
        let aggregate = if self.aggregates.is_on() { self.aggregate_of(packet) } else { None };
        let credits = match kind {
            Kind::Segment => aggregate.is_some() || self.flows[packet.flow.index()].sender.needs_credits(),
            kind => kind == Kind::Credits,
        };
        // Only messages to senders are compared with the way of their data.
        let compared = moment == Moment::Returns && matches!(kind, Kind::Message | Kind::Credits);
        let direct = !compared || self.is_direct(agent, packet);
        let flow = packet.is_of_flow().then(|| {
            let address = &self.flows[packet.flow.index()].address;
            FlowKey { slot: packet.flow.0, from: address.from.0, to: address.to.0, hash: address.hash }
        });
        let flow = if self.aggregates.is_on() { aggregate } else { flow };
        let control = self.extensions.control_mut(packet.extension);
        let installed = &mut self.agents.installed[agent.index()];
        if control.is_none() && !installed.watch.all {
            return Verdict::Pass;
        }
        let kind = match kind {
            Kind::Segment => PacketKind::Data,
            Kind::Ack => PacketKind::Acknowledgement,
            Kind::Message => PacketKind::Message,
            Kind::Handshake => PacketKind::Handshake,
            Kind::Credits => match control.as_deref().and_then(ControlField::get::<Box<weir_credits::Message>>) {
                Some(message) if matches!(**message, weir_credits::Message::Allocation(_)) => PacketKind::Message,
                _ => PacketKind::Data,
            },
            Kind::Datagram | Kind::Feedback | Kind::Report => PacketKind::Other,
        };
        let mut passing = Passing { kind, size, flow, credits, direct, port, control };
        // What enters or leaves a forwarder's port does not change its timer.
        let keeps_timer = moment != Moment::Returns && matches!(installed.agent, AnyAgent::Credits(_));
        let verdict = each!(&mut installed.agent, agent => match moment {
            Moment::Enters => agent.on_enter(self.now, &mut passing),
            Moment::Leaves => {
                agent.on_leave(self.now, &mut passing);
                Verdict::Pass
            }
            Moment::Returns => agent.on_return(self.now, &mut passing),
        });
        if !keeps_timer {
            self.set_agent_timer(agent);
        }
        verdict
    }

    /// A packet continues without its control field.
    fn remove_control(&mut self, id: PacketId) {
        let extension = std::mem::replace(&mut self.packets.get_mut(id).extension, Extensions::NONE);
        self.extensions.remove(extension);
    }

    /// The state of a port for its agents; forwarders need no `counted` bytes that it has taken.
    fn port_state(&self, port: PortId, counted: bool) -> PortState {
        let taken = if counted { self.counts(port).taken.iter().map(|count| count.bytes).sum() } else { 0 };
        PortState { taken, held: self.held(port) }
    }

    /// An agent takes a packet out.
    fn consume(&mut self, port: PortId, id: PacketId, moment: Moment) {
        let packet = *self.packets.get(id);
        self.counters.consumed += 1;
        self.observer.consumed(self.now, port, id, packet.size);
        if moment == Moment::Enters && self.ports[port.index()].owner().is_some() {
            self.leave_host(id);
        }
        self.lose(id);
    }

    /// A packet has arrived over a link where a meter counts it, or agents of the opposite port
    /// inspect it. Returns whether one consumed it.
    #[inline(never)]
    pub(crate) fn inspect(&mut self, port: PortId, id: PacketId) -> bool {
        let record = &self.records[port.index()];
        let (meter, opposite) = (record.meter, record.opposite);
        if let Some(bytes) = self.meters.get_mut(meter.index()) {
            let packet = self.packets.get(id);
            bytes[packet.service.index()] += u64::from(packet.size);
        }
        !self.agents.installed.is_empty() && self.show(opposite, id, Moment::Returns)
    }

    /// The event of an agent's timer: the agent's messages are sent.
    pub(crate) fn agent_due(&mut self, id: AgentId) {
        match self.agents.installed[id.index()].timer.fire(self.now) {
            Fired::Stale => return,
            Fired::Again(at) => return self.events.push(at, Event::Agent(id)),
            Fired::Due => {}
        }
        let port = self.agents.installed[id.index()].port;
        let state = self.port_state(port, true);
        each!(&mut self.agents.installed[id.index()].agent, agent => agent.on_timer(self.now, state));
        while let Some(message) = each!(&mut self.agents.installed[id.index()].agent, agent => agent.poll()) {
            self.originate(port, message);
        }
        self.set_agent_timer(id);
    }

    /// Sends an agent's message from the node that owns its port, unless the flow has ended.
    fn originate(&mut self, port: PortId, message: Message) {
        let Some((host, packet)) = self.packet_of(message) else { return };
        let size = packet.size;
        let id = self.packets.insert(packet);
        self.counters.sent += 1;
        self.counters.originated += 1;
        self.observer.sent(self.now, id, size);
        match self.records[port.index()].at.node() {
            Node::Host(own) if own == host => self.deliver(own, id),
            Node::Host(own) => {
                self.enter_interface(own, id);
            }
            Node::Switch(switch) => self.forward(switch, port, id),
        }
    }

    /// The packet of a message, and the host that it goes to; `None` if its flow has ended.
    fn packet_of(&mut self, message: Message) -> Option<(HostId, Packet)> {
        let FlowKey { slot, from, to, hash } = message.flow;
        let flow = self.flows.get_mut(slot as usize)?;
        let address = flow.address;
        if flow.life == Life::Gone || (address.from.0, address.to.0, address.hash) != (from, to, hash) {
            return None;
        }
        flow.packets += 1;
        let (host, hash) = match message.to {
            FlowEnd::Sender => (address.from, address.reverse_hash()),
            FlowEnd::Receiver => (address.to, address.hash),
        };
        let mut packet = Packet::new(Kind::Message, message.size, host, address.service);
        packet.flow = FlowId(slot);
        packet.hash = hash;
        packet.leaf = self.hosts[host.index()].leaf;
        packet.priority = match message.control {
            ControlField::Credits(_) => self.control_priority(address.priority),
            _ => address.priority,
        };
        packet.stamp = self.now;
        packet.extension = self.extensions.insert(Extension::Control(message.control));
        Some((host, packet))
    }
}
