//! Three racks of three machines under one fabric broker, in a world with faults.
//!
//! The same kind of world as the rack's, with the faults of a fabric: leaders that crash, a fabric
//! broker that crashes (sometimes for longer than its timeout) and restarts, partitions through
//! racks and between racks and the broker. [`checkers`] defines the invariants.

mod checkers;
mod compliance;
mod draw;
mod node;
mod world;

pub(crate) use draw::Drawn;
pub(crate) use world::run;
