//! Queues of ports for credits beside other traffic, as switches have them under the policy ([`PolicyNeeds`]).
//!
//! Problem: ports lose no data with credits only if no other traffic takes its buffer or its share of the port.
//! Approach: where the policy's switches have a queue for the data, so have the simulated ports: below latency levels
//! and a strict queue of messages, if one is left, and weighted or strict. Packets are mapped to it by the DSCP values
//! that hosts give to data and messages as they leave. Its room is its own: the buffer that the policy states, or else
//! 2 R p and an eighth; other traffic has the port's. It marks nothing, as on switches.
//!
//! - Hosts mark all packets of a service with credits, acknowledgements too, as on Linux. Flows with credits of their
//!   own, which Linux does not have, have marks of data and messages only.
//! - Where the ports of a switch share a buffer, data has a part of it, and gives up no frame for other traffic.
//! - Where a port's queue is not first in, first out, all ports keep theirs ([`Governed::credit_queues`]).
//! - Pairs of machines with priorities keep these: their switches serve guaranteed traffic first.
//!
//! Worked example: `credits: { share: 60% }` beside a web service on weighted queues: data has a queue of weight 3
//! beside one of weight 2.

use crate::enforcement::has_levels;
use crate::ids::PacketId;
use crate::observer::Observer;
use crate::packet::{Kind, OTHERS};
use crate::queue::CreditClasses;
use crate::world::World;
use weir_network::graph::LinkRef;
use weir_network::switches::{CREDIT_DATA, CREDIT_MESSAGES};
use weir_scenario::{CreditQueues, Governed, Scenario};
use weir_switch::{PolicyNeeds, Schedule};
use weir_transport::Parameters;

/// Gives the ports of switches the queues of credits that the policy's switches have, if any data needs credits. Call
/// it before the first event, after tenants have their queues.
pub(crate) fn set_credit_queues<O: Observer>(scenario: &Scenario, governed: &Governed, world: &mut World<O>) {
    let is_paced = || scenario.flow_groups().iter().any(|group| matches!(group.transport, Parameters::Pace(_)));
    let (policy, graph) = (&governed.policy, scenario.graph());
    let has_queues = governed.credit_queues(graph) == CreditQueues::OfPolicy;
    if !has_queues || !(scenario.aggregates().is_some() || is_paced()) {
        return;
    }
    let needs = PolicyNeeds::of(policy, None, Vec::new());
    let Some(classes) = classes(&needs) else { return };
    let levels = match has_levels(governed) && governed.levels.priorities {
        true => policy.levels().map_or(0, |levels| levels.all().len() as u8),
        false => 0,
    };
    for link in graph.links().filter(|link| !matches!(link, LinkRef::Up(_))) {
        let (port, spec) = (world.port_of(link), graph.link(link));
        if !world.has_tag_queues(port) {
            world.set_tag_queues(port, if classes.weights.is_some() { 2 } else { 1 }, levels);
        }
        let stated = || graph.port_buffer(link, policy.stated_buffers());
        // Without a longest period either, nothing states how much data there may be.
        let buffer = || stated().or(needs.credit_buffer(spec.rate)).unwrap_or(spec.queue.buffer);
        let buffer = graph.shared_buffer.is_none().then(|| buffer().get());
        world.queue_of(port).add_credits(CreditClasses { buffer, ..classes });
    }
    world.has_credit_queues = true;
}

/// The queues of credits at every port; `None` where data has none of its own.
fn classes(needs: &PolicyNeeds) -> Option<CreditClasses> {
    let (_, schedule) = needs.needs.credits?.data?;
    let map = needs.needs.of_port(None, None).lower(needs.offer).ok()?.map();
    let weights = match schedule {
        Schedule::Weighted(own) => Some((own, needs.needs.shared)),
        Schedule::Strict => None,
    };
    let has_messages = map.queue(CREDIT_MESSAGES) != map.queue(CREDIT_DATA);
    Some(CreditClasses { weights, has_messages, buffer: None })
}

impl<O: Observer> World<O> {
    /// Gives a packet that leaves its host the DSCP value of its queue of credits, if it has one.
    pub(crate) fn mark_credits(&mut self, id: PacketId) {
        let packet = self.packets.get(id);
        let needs_credits = || self.flows[packet.flow.index()].sender.needs_credits();
        let dscp = match (packet.kind(), self.aggregates.is_on()) {
            (Kind::Credits, _) => CREDIT_MESSAGES,
            (_, true) if self.aggregates.has(packet.service) => CREDIT_DATA,
            (_, true) => return,
            (Kind::Segment, _) if self.is_credit_data(id) => CREDIT_DATA,
            (Kind::Segment | Kind::Message, _) if needs_credits() => CREDIT_MESSAGES,
            _ => return,
        };
        self.packets.get_mut(id).priority = OTHERS + dscp;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::Checkers;
    use crate::ids::{HostId, ServiceIndex};
    use crate::packet::Packet;
    use weir_network::graph::{Discipline, LinkSpec, Packets, QueueSpec};
    use weir_transport::pace;
    use weir_units::{Bandwidth, Bytes, Duration, Weight};

    /// All packets of a service with credits are in the queue of data, whatever their sizes and kinds, but messages.
    #[test]
    fn marks_of_a_service_with_aggregates() {
        let link = LinkSpec {
            rate: Bandwidth::from_gbps(1),
            delay: Duration::from_micros(10),
            queue: QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(100_000), mark: None },
        };
        let mut world = World::new(2, Packets { payload: 1448, headers: 66 }, Checkers::default());
        let switch = world.add_switch();
        let hosts = [0, 1].map(|_| world.add_host(switch, link, link));
        world.compute_routes();
        world.set_aggregates_of(&pace::Parameters::default(), [(ServiceIndex(0), Weight::ONE)]);
        let mut mark = |kind, size, service, host: HostId| {
            let id = world.packets.insert(Packet::new(kind, size, host, ServiceIndex(service)));
            world.mark_credits(id);
            world.packets.get(id).priority
        };
        let mut of = |service| {
            let kinds = [
                (Kind::Segment, 1_514),
                (Kind::Segment, 76),
                (Kind::Ack, 66),
                (Kind::Handshake, 66),
                (Kind::Credits, 134),
            ];
            kinds.map(|(kind, size)| mark(kind, size, service, hosts[1]))
        };
        let (data, messages) = (OTHERS + CREDIT_DATA, OTHERS + CREDIT_MESSAGES);
        assert_eq!(of(0), [data, data, data, data, messages]);
        assert_eq!(of(1)[..4], [0; 4]);
    }
}
