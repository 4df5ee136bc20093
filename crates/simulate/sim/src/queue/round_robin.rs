//! Round robin: a FIFO for each service, one frame from each service that has any, in turn.
//!
//! This is a host's network interface above its services' limiters: it prevents a service without a
//! limit from delaying the others. Frames of senders with much to send are full, so turns by frame
//! are turns by byte to within the acknowledgements.
//!
//! Approach: the services that have frames form a ring. Taking a frame moves its service to the end
//! of the ring, or out of it when the service is empty; both are O(1) in the number of services.

use crate::ids::{PacketId, ServiceIndex};
use crate::packet::{Arena, List};
use std::collections::VecDeque;

/// The frames of each service and whose turn it is.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    services: Vec<List>,
    turns: VecDeque<ServiceIndex>,
}

impl RoundRobin {
    /// Empty queues for `services` services.
    pub(crate) fn new(services: usize) -> Self {
        Self { services: vec![List::default(); services], turns: VecDeque::new() }
    }

    /// Puts a frame at the end of its service's list.
    #[inline]
    pub(crate) fn push(&mut self, packets: &mut Arena, service: ServiceIndex, id: PacketId) {
        let list = &mut self.services[service.index()];
        if list.is_empty() {
            self.turns.push_back(service);
        }
        list.push(packets, id);
    }

    /// Takes the frame whose service's turn it is.
    #[inline]
    pub(crate) fn pop(&mut self, packets: &mut Arena) -> Option<PacketId> {
        let service = self.turns.pop_front()?;
        let list = &mut self.services[service.index()];
        let id = list.pop(packets);
        if !list.is_empty() {
            self.turns.push_back(service);
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::packet;

    #[test]
    fn services_take_turns() {
        let (mut packets, mut queue) = (Arena::default(), RoundRobin::new(2));
        for service in [0, 0, 0, 1, 1] {
            let id = packet(&mut packets, 1, service);
            queue.push(&mut packets, ServiceIndex(service.into()), id);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(&mut packets)).map(|id| id.0).collect();
        assert_eq!(order, [0, 3, 1, 4, 2]);
    }
}
