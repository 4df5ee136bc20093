//! Three racks of three machines under one fabric broker, in a world where everything goes wrong.
//!
//! The same kind of world as the rack's, with what a fabric adds: leaders that die, a fabric broker that crashes (for
//! longer than its timeout, sometimes) and comes back, partitions through racks and between racks and the broker.
//! What must hold is in [`checkers`].

mod checkers;
mod compliance;
mod draw;
mod node;
mod world;

pub(crate) use draw::Drawn;
pub(crate) use world::run;
