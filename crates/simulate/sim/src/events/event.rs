//! Events as small values, packed into one word.

use crate::ids::{AgentId, FlowId, HostId, PacketId, PortId, ServiceIndex, SlotId};

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The packet reaches the far end of the link that it is on.
    Arrive(PacketId),
    /// The port has sent a packet and other packets wait.
    Free(PortId),
    /// The packet leaves its host's shaper for the interface.
    Depart(PacketId),
    /// The first packet of a latency level may leave its host.
    Release(HostId, ServiceIndex),
    /// The first packet of a destination's queue may go on to its departure.
    Destination(SlotId),
    /// The flow begins.
    Start(FlowId),
    /// The timer of the flow's sender.
    Timer(FlowId),
    /// The flow's delayed-acknowledgement timer.
    DelayedAck(FlowId),
    /// The timer of a port agent.
    Agent(AgentId),
    /// The first packet of a pair of machines may leave its queue.
    Pair(SlotId),
    /// The first packet of an aggregate may leave through its gate.
    Aggregate(SlotId),
    /// The timer of a host's aggregates.
    Credits(HostId),
}

/// The bits of a hint.
const HINT: u32 = (1 << 24) - 1;

impl Event {
    /// The event as one word: kind in the low byte, service above it, id in the high half. It is
    /// written and read at once; a compiler's layout would be written in parts, and a combined read
    /// of parts stalls.
    #[inline]
    pub(super) fn pack(self) -> u64 {
        let word = |kind: u64, id: u32| kind | u64::from(id) << 32;
        match self {
            Self::Arrive(packet) => word(0, packet.0),
            Self::Free(port) => word(1, port.0),
            Self::Release(host, service) => word(2, host.0) | u64::from(service.0) << 8,
            Self::Start(flow) => word(3, flow.0),
            Self::Timer(flow) => word(4, flow.0),
            Self::DelayedAck(flow) => word(5, flow.0),
            Self::Destination(slot) => word(6, slot.0),
            Self::Agent(agent) => word(7, agent.0),
            Self::Pair(slot) => word(8, slot.0),
            Self::Aggregate(slot) => word(9, slot.0),
            Self::Credits(host) => word(10, host.0),
            Self::Depart(packet) => word(11, packet.0),
        }
    }

    /// The packet of a packed arrival; `None` of another event. Shorter than [`Event::unpack`].
    #[inline]
    pub(super) fn arriving(word: u64) -> Option<PacketId> {
        (word as u8 == 0).then_some(PacketId((word >> 32) as u32))
    }

    /// The hint of an arrival: 0, or a number below 2^24.
    #[inline]
    pub(super) fn hint(word: u64) -> u32 {
        if word as u8 == 0 { (word >> 8) as u32 & HINT } else { 0 }
    }

    /// The packed arrival with a hint; the lowest 24 bits of `hint` count.
    #[inline]
    pub(super) fn with_hint(word: u64, hint: u32) -> u64 {
        (word & !(u64::from(HINT) << 8)) | u64::from(hint & HINT) << 8
    }

    /// The event of a word made by [`Event::pack`].
    #[inline]
    pub(super) fn unpack(word: u64) -> Self {
        let id = (word >> 32) as u32;
        match word as u8 {
            0 => Self::Arrive(PacketId(id)),
            1 => Self::Free(PortId(id)),
            2 => Self::Release(HostId(id), ServiceIndex((word >> 8) as u16)),
            3 => Self::Start(FlowId(id)),
            4 => Self::Timer(FlowId(id)),
            5 => Self::DelayedAck(FlowId(id)),
            6 => Self::Destination(SlotId(id)),
            7 => Self::Agent(AgentId(id)),
            8 => Self::Pair(SlotId(id)),
            9 => Self::Aggregate(SlotId(id)),
            10 => Self::Credits(HostId(id)),
            _ => Self::Depart(PacketId(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_packing() {
        let (id, service) = (u32::MAX - 1, ServiceIndex(u16::MAX - 1));
        for event in [
            Event::Arrive(PacketId(id)),
            Event::Free(PortId(id)),
            Event::Release(HostId(id), service),
            Event::Start(FlowId(id)),
            Event::Timer(FlowId(id)),
            Event::DelayedAck(FlowId(id)),
            Event::Destination(SlotId(id)),
            Event::Agent(AgentId(id)),
            Event::Pair(SlotId(id)),
            Event::Aggregate(SlotId(id)),
            Event::Credits(HostId(id)),
            Event::Depart(PacketId(id)),
        ] {
            assert_eq!(Event::unpack(event.pack()), event);
            let arriving = matches!(event, Event::Arrive(_)).then_some(PacketId(id));
            assert_eq!(Event::arriving(event.pack()), arriving);
            assert_eq!(Event::hint(event.pack()), 0);
        }
        let word = Event::with_hint(Event::Arrive(PacketId(id)).pack(), 0xAB_CDEF);
        assert_eq!((Event::unpack(word), Event::hint(word)), (Event::Arrive(PacketId(id)), 0xAB_CDEF));
        assert_eq!(Event::hint(Event::with_hint(word, 0)), 0);
    }
}
