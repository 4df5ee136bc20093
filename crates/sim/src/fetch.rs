//! Memory fetched before it is needed.
//!
//! Problem: the state of ten thousand hosts is larger than the processor's near cache, and a hop that waits for a
//! port, a packet, a route and the next port, one after the other, spends most of its time waiting.
//! Approach: the events of a bucket are known before the first of them is handled. Four passes over the bucket fetch
//! what they will touch, each pass what the one before made known: ports; the packets at their heads; the flows that
//! these belong to, or how the switch reaches their leaf; and the ports there. Where a packet goes
//! is left as a hint beside its event, so that it is not looked up twice. The fetches of a pass run beside each other. They are hints
//! and change nothing; a network that fits into the cache goes without them ([`World::is_large`]).
//!
//! Example: a bucket with the arrivals of 128 packets fetches 128 ports at once, then 128 packets, and so on, instead of waiting
//! 128 times for each (`benches/common_work.rs`, case `scale`, has what a hop costs).

use crate::events::Event;
use crate::flow::{Flow, FlowSpec};
use crate::ids::{Node, PacketId, PortId};
use crate::observer::Observer;
use crate::packet::Kind;
use crate::world::World;
use std::mem::offset_of;
use std::ops::Range;

/// Ports beyond which a network does not fit into a near cache of 2 MB: a port, its counts, its packets and its
/// event take some hundred bytes.
pub(crate) const LARGE: usize = 2048;

/// The parts of a flow that a segment and an acknowledgement need.
const FROM_SPEC: Range<usize> = offset_of!(Flow, spec) / LINE * LINE..size_of::<Flow>();
const UP_TO_SPEC: Range<usize> = 0..offset_of!(Flow, spec) + size_of::<FlowSpec>();

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

/// Asks for the cache lines of a part of an element, in bytes from its start.
#[inline]
fn fetch_part<T>(table: &[T], index: usize, part: Range<usize>) {
    let Some(element) = table.get(index) else { return };
    let first = std::ptr::from_ref(element).cast::<i8>();
    for offset in part.step_by(LINE) {
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
    pub(crate) fn fetch_bucket(&mut self) {
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
                            // Data is the receiver's half, an acknowledgement the sender's.
                            let half = if packet.kind() == Kind::Segment { FROM_SPEC } else { UP_TO_SPEC };
                            fetch_part(&self.flows, packet.flow.index(), half);
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
            if let Event::Free(port) = event {
                let first = self.queues[self.ports[port.index()].queue as usize].first();
                if first != PacketId::NONE {
                    fetch_part(&self.flows, self.packets.get(first).flow.index(), UP_TO_SPEC);
                }
            }
        }
        if self.spray.is_some() {
            return;
        }
        let (ports, packets, switches, routes) = (&self.ports, &self.packets, &self.switches, &self.routes);
        self.events.give_hints(|port| {
            let from = &ports[port.index()];
            let Node::Switch(switch) = from.to() else { return 0 };
            if from.flight.head == PacketId::NONE {
                return 0;
            }
            let packet = packets.get(from.flight.head);
            let number = switch.index();
            let next = routes.route(number, &switches[number], packet.leaf, packet.to, packet.hash);
            next.map_or(0, |next| {
                fetch_first(ports, next.index());
                hint_of(next)
            })
        });
    }
}

/// The hint that says which port a packet goes to: one more than its number, so that 0 says nothing.
#[inline]
fn hint_of(port: PortId) -> u32 {
    if port.0 < (1 << 24) - 1 { port.0 + 1 } else { 0 }
}
