//! Memory that is prefetched before its use.
//!
//! Problem: the state of ten thousand hosts is larger than the processor's near cache, and a hop
//! that waits for a port, a packet, a route and the next port, one after the other, spends most of
//! its time waiting. Approach: the events of a bucket are known before the first of them is
//! handled. Passes over the bucket prefetch the memory of their handlers, each pass with the
//! results of the one before: the arriving packets, then their flows or next ports; and for ports
//! that become free their queues, the packets at the heads and the flows that may send more. A
//! packet's next port is kept as a hint beside its event, so that it is looked up once. The fetches
//! of a pass overlap. They are hints and change nothing; a network that fits into the cache runs
//! without them ([`World::is_large`]), unless it has forwarders: the state of a flow at each of its
//! ports does not fit.
//!
//! Example: a bucket with the arrivals of 100 packets fetches 100 packets at once, then 100 ports,
//! instead of waiting 100 times for each (`benches/common_work.rs`, case `scale`, measures the cost
//! of a hop).

use crate::events::Event;
use crate::flow::{Flow, Receiving};
use crate::ids::{Node, PacketId, PortId};
use crate::observer::Observer;
use crate::packet::Kind;
use crate::world::World;
use std::mem::offset_of;
use std::ops::Range;

/// Ports beyond which a network does not fit into a near cache of 2 MB: a port, its counts, its
/// packets and its event take some hundred bytes.
pub(crate) const LARGE: usize = 2048;

/// The parts of a flow that an acknowledgement and a segment need.
const SENDING: Range<usize> = 0..offset_of!(Flow, receiving);
const RECEIVING: Range<usize> =
    offset_of!(Flow, receiving) - LINE..offset_of!(Flow, receiving) + size_of::<Receiving>();

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches the cache lines of an element.
#[inline]
pub(crate) fn fetch<T>(table: &[T], index: usize) {
    let Some(element) = table.get(index) else { return };
    let first = std::ptr::from_ref(element).cast::<i8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        fetch_line(first.wrapping_add(offset));
    }
}

/// Prefetches the cache lines of a part of an element, in bytes from its start.
#[inline]
fn fetch_part<T>(table: &[T], index: usize, part: Range<usize>) {
    let Some(element) = table.get(index) else { return };
    let first = std::ptr::from_ref(element).cast::<i8>();
    for offset in part.step_by(LINE) {
        fetch_line(first.wrapping_add(offset));
    }
}

/// Prefetches the first cache line of an element.
#[inline]
pub(crate) fn fetch_first<T>(table: &[T], index: usize) {
    if let Some(element) = table.get(index) {
        fetch_line(std::ptr::from_ref(element).cast());
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn fetch_line(address: *const i8) {
    // SAFETY: a prefetch has no visible effect and cannot fault, for any address.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn fetch_line(_address: *const i8) {}

impl<O: Observer> World<O> {
    /// Prefetches the memory that the events of the current bucket use.
    pub(crate) fn fetch_bucket(&mut self) {
        self.freeing.clear();
        self.agents.begin_fetching();
        for event in self.events.bucket() {
            // Most events are arrivals.
            if let Event::Arrive(packet) = event {
                self.packets.fetch(packet);
                continue;
            }
            match event {
                Event::Free(port) => {
                    fetch_first(&self.ports, port.index());
                    self.freeing.push(port);
                }
                Event::Start(flow) | Event::Timer(flow) => {
                    fetch(&self.flows, flow.index());
                    self.agents.fetch_sending(flow);
                }
                Event::DelayedAck(flow) => fetch(&self.flows, flow.index()),
                Event::Depart(packet) => self.packets.fetch(packet),
                Event::Destination(slot) => fetch(&self.shaping.slots, slot.index()),
                Event::Arrive(_)
                | Event::Release(..)
                | Event::Agent(_)
                | Event::Pair(_)
                | Event::Aggregate(_)
                | Event::Credits(_) => {}
            }
        }
        self.fetch_ends();
        self.fetch_senders();
        if self.has_forwarders() {
            self.fetch_credits();
        }
        self.events.fetch_next();
    }

    /// Prefetches the destinations of packets: the next port, which is kept as a hint, or the flow.
    fn fetch_ends(&mut self) {
        let (ports, packets, routes) = (&self.ports, &self.packets, &self.routes);
        let (flows, hosts, queues) = (&self.flows, &self.hosts, &self.queues);
        let (host_bytes, services) = (&self.host_bytes, self.service_count);
        let agents = &mut self.agents;
        // Their next ports are not those of the routes.
        let sprayed = self.spray.is_some() || self.tags.has_trees();
        self.events.give_hints(|id| {
            let packet = packets.get(id);
            match packet.towards.node() {
                Node::Host(host) => {
                    fetch_first(host_bytes, host.index() * services);
                    let Some(host) = hosts.get(host.index()) else { return 0 };
                    // Either makes the host send: an acknowledgement, which mostly finds the
                    // interface idle, or more data.
                    fetch_first(ports, host.interface.index());
                    if packet.kind() == Kind::Segment {
                        fetch_part(flows, packet.flow.index(), RECEIVING);
                    } else {
                        fetch_part(flows, packet.flow.index(), SENDING);
                        fetch_first(queues, host.queue as usize);
                    }
                    0
                }
                Node::Switch(_) if sprayed => 0,
                Node::Switch(switch) => {
                    let next = routes.route(switch, packet.leaf, packet.to, packet.hash);
                    next.map_or(0, |next| {
                        fetch_first(ports, next.index());
                        if packet.kind() == Kind::Segment {
                            agents.fetch_entering(next, packet.flow);
                        }
                        hint_of(next)
                    })
                }
            }
        });
    }

    /// Prefetches the memory of ports that become free: their queues, the packets at their heads,
    /// those packets' flows.
    fn fetch_senders(&self) {
        let queues = || self.freeing.iter().map(|port| self.ports[port.index()].queue as usize);
        for queue in queues() {
            fetch(&self.queues, queue);
        }
        for queue in queues() {
            self.packets.fetch(self.queues[queue].first());
        }
        for queue in queues() {
            let first = self.queues[queue].first();
            if first != PacketId::NONE {
                fetch_part(&self.flows, self.packets.get(first).flow.index(), SENDING);
            }
        }
    }
}

/// The hint of a packet's next port: one more than its number, so that 0 means none.
#[inline]
fn hint_of(port: PortId) -> u32 {
    if port.0 < (1 << 24) - 1 { port.0 + 1 } else { 0 }
}
