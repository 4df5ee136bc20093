//! pFabric's queue: packets of the flow with the fewest remaining bytes go first, and those of the
//! flow with the most are dropped.
//!
//! Every packet carries a rank, the remaining bytes of its flow. The next packet to leave is the
//! *earliest* packet of the flow that owns the best rank (the lowest): a flow's ranks fall as it
//! proceeds, and taking its best packet itself would reorder the flow. A full queue drops the
//! packet with the worst rank, of several the latest; if that is the arriving packet, it is dropped
//! itself. Several smaller packets may have to go for one; if the packets worse than the arriving
//! one would not make enough room together, it is dropped and they stay.
//!
//! Approach: a list in order of arrival, searched from end to end. pFabric's buffers hold two dozen
//! packets, so the list is short and the search cheaper than any tree.
//!
//! Example: packets a(rank 9), b(5), a(8), c(20) leave as b, a(9), a(8), c: a's best rank is 8, and
//! its earliest packet goes first.
//!
//! Source: Alizadeh et al., "pFabric" (SIGCOMM 2013) §4.2; the authors' ns-2 queue as used for
//! QJump's figure 9.

use crate::ids::PacketId;
use crate::packet::{Arena, List};

/// Packets in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct PFabric {
    list: List,
}

impl PFabric {
    pub(crate) fn push(&mut self, packets: &mut Arena, id: PacketId) {
        self.list.push(packets, id);
    }

    pub(crate) fn pop(&mut self, packets: &mut Arena) -> Option<PacketId> {
        let best = self.list.iter(packets).min_by_key(|&id| packets.get(id).rank)?;
        let flow = packets.get(best).flow;
        // Acknowledgements of the flow go the other way, so all of its packets here are its data,
        // or all are not.
        let first = self.list.iter(packets).find(|&id| packets.get(id).flow == flow)?;
        self.list.take(packets, first);
        Some(first)
    }

    /// Whether the packets with ranks worse than `rank` have `missing` bytes together.
    pub(crate) fn can_give_up(&self, packets: &Arena, rank: u32, missing: u64) -> bool {
        let worse = self.list.iter(packets).map(|id| packets.get(id)).filter(|packet| packet.rank > rank);
        worse.map(|packet| u64::from(packet.size)).sum::<u64>() >= missing
    }

    /// Takes out the packet with the worst rank, the last of several; `None` if no rank is worse
    /// than `rank`.
    pub(crate) fn take_worst(&mut self, packets: &mut Arena, rank: u32) -> Option<PacketId> {
        // `max_by_key` returns the last of several maxima.
        let worst = self.list.iter(packets).max_by_key(|&id| packets.get(id).rank)?;
        if packets.get(worst).rank <= rank {
            return None;
        }
        self.list.take(packets, worst);
        Some(worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FlowId;
    use crate::queue::tests::packet;

    fn push(queue: &mut PFabric, packets: &mut Arena, flow: u32, rank: u32) -> PacketId {
        let id = packet(packets, 1500, 0);
        let packet = packets.get_mut(id);
        (packet.flow, packet.rank) = (FlowId(flow), rank);
        queue.push(packets, id);
        id
    }

    #[test]
    fn the_worked_example() {
        let (mut packets, mut queue) = (Arena::default(), PFabric::default());
        let ids: Vec<PacketId> = [(0, 9), (1, 5), (0, 8), (2, 20)]
            .into_iter()
            .map(|(flow, rank)| push(&mut queue, &mut packets, flow, rank))
            .collect();
        let order: Vec<PacketId> = std::iter::from_fn(|| queue.pop(&mut packets)).collect();
        assert_eq!(order, [ids[1], ids[0], ids[2], ids[3]]);
    }

    #[test]
    fn the_worst_packet_makes_room_unless_the_arriving_one_is_worse() {
        let (mut packets, mut queue) = (Arena::default(), PFabric::default());
        push(&mut queue, &mut packets, 0, 20);
        let late = push(&mut queue, &mut packets, 1, 20);
        push(&mut queue, &mut packets, 2, 3);
        assert_eq!(queue.take_worst(&mut packets, 20), None, "the one that comes is the last among equals");
        assert_eq!(queue.take_worst(&mut packets, 19), Some(late));
    }
}
