//! Checkers: observers that keep books of their own and panic when the world contradicts them.
//!
//! | checker | holds that |
//! |---|---|
//! | [`Causality`] | time never goes back, and nothing arrives before it was sent |
//! | [`Conservation`] | every packet sent is delivered, dropped or still there, once |
//! | [`Transmitters`] | no port sends faster than its rate, or two frames at once, and none idles while frames wait |
//! | [`Buffers`] | no port's queue is above its buffer |
//! | [`Acknowledgements`] | no receiver acknowledges what its sender never sent, or takes back an acknowledgement |
//!
//! They know nothing of the engine's tables: they compute the same facts from what they see, which is what
//! makes them worth having. Run a world with [`Checkers`] as its observer and end with [`check`].

mod acknowledgements;
mod buffers;
mod causality;
mod conservation;
mod transmitters;

pub use acknowledgements::Acknowledgements;
pub use buffers::Buffers;
pub use causality::Causality;
pub use conservation::Conservation;
pub use transmitters::Transmitters;

use crate::ids::{FlowId, PacketId, PortId};
use crate::observer::Observer;
use crate::port::Transmission;
use crate::world::World;
use weir_units::{Bandwidth, SimTime};

/// All checkers at once.
#[derive(Debug, Default)]
pub struct Checkers {
    causality: Causality,
    conservation: Conservation,
    transmitters: Transmitters,
    buffers: Buffers,
    acknowledgements: Acknowledgements,
}

impl Observer for Checkers {
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
        }
    }
    fn rate_changed(&mut self, now: SimTime, port: PortId, before: Bandwidth, withdrawn: u64, free_at: SimTime) {
        self.transmitters.rate_changed(now, port, before, withdrawn, free_at);
        self.buffers.withdraw(port, withdrawn);
    }
    fn cut(&mut self, now: SimTime, port: PortId) {
        self.transmitters.cut(now, port);
        self.buffers.cut(port);
    }
    fn accepted(&mut self, now: SimTime, port: PortId, size: u32) {
        self.transmitters.accepted(now, port);
        self.buffers.accepted(now, port, size);
    }
    fn transmitted(&mut self, port: PortId, size: u32, transmission: Transmission) {
        self.transmitters.transmitted(port, size, transmission);
        self.buffers.transmitted(port, size, transmission);
    }
    fn restored(&mut self, now: SimTime, port: PortId) {
        self.transmitters.restored(now, port);
    }
    fn acknowledged(&mut self, _now: SimTime, flow: FlowId, next: u64, highest: u64) {
        self.acknowledgements.acknowledged(flow, next, highest);
    }
}

/// Checks what can be told only from the whole world: rates, the fullest buffers, what is still there.
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
    }
}

/// The entry of a table that grows as ids appear.
fn entry<T: Default>(table: &mut Vec<T>, index: usize) -> &mut T {
    if table.len() <= index {
        table.resize_with(index + 1, T::default);
    }
    &mut table[index]
}
