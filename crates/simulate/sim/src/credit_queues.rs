//! Queues of ports for credits beside other traffic, as switches have them under the policy ([`PolicyNeeds`]).
//!
//! Problem: ports lose no data with credits only if no other traffic takes its buffer or its share of the port.
//! Approach: where the policy's switches have a queue for the data, so have the simulated ports: below latency levels
//! and a strict queue of messages, if one is left, and weighted or strict. Packets are mapped to it by the DSCP values
//! that hosts give to data and messages as they leave. Its room is its own: the buffer that the policy states, or else
//! 2 R p and an eighth; other traffic has the port's. It marks nothing, as on switches.
//!
//! - Where the ports of a switch share a buffer, data has a part of it, and gives up no frame for other traffic.
//! - A port whose queue has another discipline than first in, first out keeps it.
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
use weir_network::Wiring;
use weir_network::graph::{Discipline, LinkRef};
use weir_network::switches::{CREDIT_DATA, CREDIT_MESSAGES};
use weir_pair_rates::PairSystem;
use weir_policy::Policy;
use weir_scenario::{Enforcement, Governed, Scenario};
use weir_switch::{PolicyNeeds, Schedule};
use weir_transport::Parameters;
use weir_units::Bytes;

/// Gives the ports of switches the queues of credits that the policy's switches have, if any data needs credits. Call
/// it before the first event, after tenants have their queues.
pub(crate) fn set_credit_queues<O: Observer>(scenario: &Scenario, governed: &Governed, world: &mut World<O>) {
    let is_paced = || scenario.flow_groups().iter().any(|group| matches!(group.transport, Parameters::Pace(_)));
    let enforced = governed.enforcement != Enforcement::None
        && !governed.enforcement.pairs().is_some_and(PairSystem::has_priorities);
    if !enforced || !(scenario.aggregates().is_some() || is_paced()) {
        return;
    }
    let (policy, graph) = (&governed.policy, scenario.graph());
    let needs = PolicyNeeds::of(policy, None, Vec::new());
    let Some(classes) = classes(&needs) else { return };
    let levels = match has_levels(governed) && governed.levels.priorities {
        true => policy.levels().map_or(0, |levels| levels.all().len() as u8),
        false => 0,
    };
    for link in graph.links().filter(|link| !matches!(link, LinkRef::Up(_))) {
        let (port, spec) = (world.port_of(link), graph.link(link));
        if !world.has_tag_queues(port) {
            if spec.queue.discipline != Discipline::Fifo {
                continue;
            }
            world.set_tag_queues(port, if classes.weights.is_some() { 2 } else { 1 }, levels);
        }
        let buffer = || stated(policy, link).or(needs.credit_buffer(spec.rate)).unwrap_or(spec.queue.buffer);
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

/// The buffer of a port of racks that the policy states.
fn stated(policy: &Policy, link: LinkRef) -> Option<Bytes> {
    let stated = matches!(policy.wiring(), Wiring::Racks(_)).then(|| policy.network().port_buffers())?;
    match link {
        LinkRef::Up(_) | LinkRef::Down(_) => stated.machine,
        LinkRef::Forward(_) | LinkRef::Backward(_) => stated.rack,
    }
}

impl<O: Observer> World<O> {
    /// Gives data and messages of credits that leave their host the DSCP values of their queues.
    pub(crate) fn mark_credits(&mut self, id: PacketId) {
        let packet = self.packets.get(id);
        let has_message = match packet.kind() {
            Kind::Credits => true,
            Kind::Segment | Kind::Message => self.flows[packet.flow.index()].sender.needs_credits(),
            _ => false,
        };
        let dscp = if self.is_credit_data(id) {
            CREDIT_DATA
        } else if has_message {
            CREDIT_MESSAGES
        } else {
            return;
        };
        self.packets.get_mut(id).priority = OTHERS + dscp;
    }
}
