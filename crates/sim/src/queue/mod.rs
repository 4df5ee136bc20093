//! Queue disciplines: which frame a port sends next, and which it drops.
//!
//! There are two kinds, because they cost differently:
//! - **FIFO** disciplines decide about a frame when it comes, from the bytes that wait. Its departure is known
//!   at once, so it goes straight to the transmitter ([`crate::link`]) and costs one event. [`DropTail`] is
//!   one; marking above a threshold belongs here too.
//! - **Scheduling** disciplines choose when the transmitter is free, so they keep the frames themselves and
//!   cost an event for each frame that waits. [`RoundRobin`] is one; strict priorities and deficit round
//!   robin belong here too.
//!
//! Disciplines are an enum, not trait objects: the set is known, and a switch port's decision inlines.

mod drop_tail;
mod round_robin;

pub use drop_tail::DropTail;
pub use round_robin::RoundRobin;

/// A port's discipline.
#[derive(Debug)]
pub enum Queue {
    /// First in, first out, with a limited buffer.
    DropTail(DropTail),
    /// A FIFO for each class, served in turn; never drops.
    RoundRobin(RoundRobin),
}
