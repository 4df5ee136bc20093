//! Checkers: observers that keep their own state and panic when the world contradicts it.
//!
//! | checker | invariant |
//! |---|---|
//! | [`Causality`] | time never goes back, and nothing arrives before it was sent |
//! | [`Conservation`] | every packet sent is delivered, dropped, consumed or still in the network, once |
//! | [`Transmitters`] | no port sends faster than its rate, or two frames at once, and none idles while frames wait |
//! | [`Buffers`] | no port's queue is above its buffer |
//! | [`SharedBuffers`] | shared buffers equal the sum of their ports; sizes and thresholds hold |
//! | [`Destinations`] | each packet that waits for a destination's limiter continues once, in order |
//! | [`Limits`] | services stay within limit and burst, receivers advertise rates within bounds |
//! | `levels` | no frame of a bounded latency level is later than its bound, no queue above its bound |
//! | `agents/credits/bound` | no port of forwarders has granted and queued more than its bound |
//! | [`Acknowledgements`] | receivers acknowledge sent bytes only, and withdraw nothing |
//!
//! Checkers do not read the engine's tables: they compute the same facts from the observed events,
//! so an error of the engine shows as a difference. Run a world with [`Checkers`] as its observer
//! and end with [`check`].

mod acknowledgements;
mod buffers;
mod causality;
mod conservation;
mod destinations;
mod limits;
mod shared_buffers;
mod transmitters;

pub use acknowledgements::Acknowledgements;
pub use buffers::Buffers;
pub use causality::Causality;
pub use conservation::Conservation;
pub use destinations::Destinations;
pub use limits::Limits;
pub use shared_buffers::SharedBuffers;
pub use transmitters::Transmitters;

use crate::ids::{FlowId, HostId, PacketId, PortId, ServiceIndex};
use crate::observer::Observer;
use crate::port::Transmission;
use crate::world::World;
use weir_units::{Bandwidth, Bytes, SimTime};

/// All checkers at once.
#[derive(Debug, Default)]
pub struct Checkers {
    causality: Causality,
    conservation: Conservation,
    transmitters: Transmitters,
    buffers: Buffers,
    shared_buffers: SharedBuffers,
    acknowledgements: Acknowledgements,
    destinations: Destinations,
    limits: Limits,
}

impl Observer for Checkers {
    fn shares(&mut self, port: PortId, buffer: u32, size: u64, alpha_thousandths: u32) {
        self.shared_buffers.shares(port, buffer, size, alpha_thousandths);
    }
    fn began(&mut self, flow: FlowId) {
        self.acknowledgements.began(flow);
    }
    fn sent(&mut self, now: SimTime, packet: PacketId, _size: u32) {
        self.causality.sent(now, packet);
        self.conservation.sent(packet);
    }
    fn delivered(&mut self, now: SimTime, packet: PacketId, _size: u32) {
        self.causality.gone(now, packet);
        self.conservation.gone(packet);
    }
    fn dropped(&mut self, now: SimTime, port: PortId, packet: PacketId, size: u32, held: bool) {
        self.causality.gone(now, packet);
        self.conservation.gone(packet);
        if held {
            self.transmitters.gave_up(port);
            self.buffers.gave_up(port, size);
            self.shared_buffers.gave_up(port, size);
        }
    }
    fn consumed(&mut self, now: SimTime, _port: PortId, packet: PacketId, _size: u32) {
        self.causality.gone(now, packet);
        self.conservation.gone(packet);
    }
    fn rate_changed(&mut self, now: SimTime, port: PortId, before: Bandwidth, withdrawn: u64, free_at: SimTime) {
        self.transmitters.rate_changed(now, port, before, withdrawn, free_at);
        self.buffers.withdraw(port, withdrawn);
    }
    fn cut(&mut self, now: SimTime, port: PortId) {
        self.transmitters.cut(now, port);
        self.buffers.cut(port);
        self.shared_buffers.cut(now, port);
    }
    fn accepted(&mut self, now: SimTime, port: PortId, size: u32) {
        self.transmitters.accepted(now, port);
        self.buffers.accepted(now, port, size);
        self.shared_buffers.accepted(now, port, size);
    }
    fn transmitted(&mut self, port: PortId, size: u32, transmission: Transmission) {
        self.transmitters.transmitted(port, size, transmission);
        self.buffers.transmitted(port, size, transmission);
        self.shared_buffers.transmitted(port, size, transmission);
    }
    fn restored(&mut self, now: SimTime, port: PortId) {
        self.transmitters.restored(now, port);
    }
    fn limit_set(&mut self, _now: SimTime, host: HostId, service: ServiceIndex, limit: Bandwidth, burst: Bytes) {
        self.limits.limit_set(host, service, limit, burst);
    }
    fn stamped(
        &mut self,
        now: SimTime,
        host: HostId,
        service: ServiceIndex,
        packet: PacketId,
        size: u32,
        departure: SimTime,
    ) {
        self.limits.stamped(now, (host, service), (packet, size), departure);
    }
    fn released(&mut self, now: SimTime, packet: PacketId) {
        self.limits.released(now, packet);
    }
    fn waits(&mut self, _now: SimTime, host: HostId, service: ServiceIndex, to: HostId, packet: PacketId) {
        self.destinations.waits(host, service, to, packet);
    }
    fn destination_released(
        &mut self,
        _now: SimTime,
        host: HostId,
        service: ServiceIndex,
        to: HostId,
        packet: PacketId,
    ) {
        self.destinations.released(host, service, to, packet);
    }
    fn advertised(&mut self, _now: SimTime, host: HostId, service: ServiceIndex, rate: Bandwidth, capacity: Bandwidth) {
        self.limits.advertised(host, service, rate, capacity);
    }
    fn acknowledged(&mut self, _now: SimTime, flow: FlowId, next: u64, highest: u64) {
        self.acknowledgements.acknowledged(flow, next, highest);
    }
}

/// Checks the invariants of the whole world: rates, the fullest buffers, remaining packets.
///
/// # Panics
/// If an invariant does not hold.
pub fn check(world: &World<Checkers>) {
    let checkers = world.observer();
    checkers.conservation.check(world.packets(), &world.counters());
    for id in (0..world.ports().len()).map(|index| PortId(index as u32)) {
        checkers.transmitters.check(id, world.rate(id));
        if let Some(buffer) = world.buffer(id) {
            checkers.buffers.check(id, buffer);
        }
        if let Some(queue) = world.queues.get(world.port(id).queue as usize) {
            checkers.shared_buffers.check_port(id, queue.bytes());
        }
    }
    checkers.destinations.check(world.waiting_for_destinations());
    world.levels.check();
    let overfull = world.credit_counters().get("credits_overfull").copied().unwrap_or(0);
    assert!(overfull == 0, "ports of forwarders exceeded their bounds {overfull} times");
    for (id, buffer) in (0..).zip(&world.shared) {
        checkers.shared_buffers.check(id, buffer.used());
    }
}

/// The element of a table that grows as ids appear.
fn entry<T: Default>(table: &mut Vec<T>, index: usize) -> &mut T {
    if table.len() <= index {
        table.resize_with(index + 1, T::default);
    }
    &mut table[index]
}
