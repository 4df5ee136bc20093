//! Memory fetched before it is needed.
//!
//! Problem: the state of ten thousand hosts is larger than the processor's near cache, and a hop that waits for a
//! port, a packet, a route and the next port, one after the other, spends four fifths of its time waiting.
//! Approach: the events of a bucket are known before the first of them is handled. Four passes over the bucket fetch
//! what they will touch, each pass what the one before made known: ports; the packets at their heads; the flows that
//! these belong to, or how the switch reaches their leaf; and the ports there. The fetches of a pass run beside each other. They are hints
//! and change nothing; a network that fits into the cache goes without them ([`World::is_large`]).
//!
//! Example: in a fat-tree of 11,664 hosts a hop costs a third of what it costs without (`benches/common_work.rs`, case `scale`).

use crate::events::Event;
use crate::ids::{Node, PacketId};
use crate::observer::Observer;
use crate::world::World;

/// Ports beyond which a network does not fit into a near cache of 2 MB: a port, its counts, its packets and its
/// event take about half a kilobyte.
pub(crate) const LARGE: usize = 2048;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the cache lines of an element.
#[inline]
fn fetch<T>(table: &[T], index: usize) {
    let Some(element) = table.get(index) else { return };
    let first = std::ptr::from_ref(element).cast::<i8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        fetch_line(first.wrapping_add(offset));
    }
}

/// Asks for the first cache line of an element.
#[inline]
pub(crate) fn fetch_first<T>(table: &[T], index: usize) {
    if let Some(element) = table.get(index) {
        fetch_line(std::ptr::from_ref(element).cast());
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch_line(address: *const i8) {
    // SAFETY: a prefetch reads nothing that the program could see and cannot fault, whatever the address.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fetch_line(_address: *const i8) {}

impl<O: Observer> World<O> {
    /// Fetches what the events of the bucket at hand will touch.
    pub(crate) fn fetch_bucket(&self) {
        for event in self.events.bucket() {
            match event {
                Event::Arrive(port) | Event::Free(port) => fetch_first(&self.ports, port.index()),
                Event::Start(flow) | Event::Timer(flow) | Event::DelayedAck(flow) => fetch(&self.flows, flow.index()),
                Event::Release(host, _) => fetch(&self.hosts, host.index()),
            }
        }
        for event in self.events.bucket() {
            match event {
                Event::Arrive(port) => self.packets.fetch(self.ports[port.index()].flight.head),
                Event::Free(port) => fetch(&self.queues, self.ports[port.index()].queue as usize),
                _ => {}
            }
        }
        for event in self.events.bucket() {
            match event {
                Event::Arrive(port) => {
                    let from = &self.ports[port.index()];
                    if from.flight.head == PacketId::NONE {
                        continue;
                    }
                    let packet = self.packets.get(from.flight.head);
                    self.packets.fetch(packet.next);
                    match from.to() {
                        Node::Host(host) => {
                            fetch(&self.flows, packet.flow.index());
                            fetch_first(&self.host_bytes, host.index() * self.classes);
                        }
                        Node::Switch(switch) => self.routes.fetch(switch.index(), packet.leaf),
                    }
                }
                Event::Free(port) => self.packets.fetch(self.queues[self.ports[port.index()].queue as usize].first()),
                _ => {}
            }
        }
        for event in self.events.bucket() {
            match event {
                Event::Arrive(port) if self.spray.is_none() => {
                    let from = &self.ports[port.index()];
                    let Node::Switch(switch) = from.to() else { continue };
                    if from.flight.head == PacketId::NONE {
                        continue;
                    }
                    let packet = self.packets.get(from.flight.head);
                    let (number, leaf, hash) = (switch.index(), packet.leaf, packet.hash);
                    let next = self.routes.route(number, &self.switches[number], leaf, packet.to, hash);
                    if let Some(next) = next {
                        fetch_first(&self.ports, next.index());
                    }
                }
                Event::Free(port) => {
                    let first = self.queues[self.ports[port.index()].queue as usize].first();
                    if first != PacketId::NONE {
                        fetch(&self.flows, self.packets.get(first).flow.index());
                    }
                }
                _ => {}
            }
        }
    }
}
