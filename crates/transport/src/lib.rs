//! Transports: what a flow sends when, without clock or socket.
//!
//! A transport is a pair of state machines. The body (the simulator) owns time and packets:
//!
//! - at the start, and after every other call, it calls [`Sender::poll`] until it gives nothing or the host
//!   takes no more, then asks [`Sender::timer`] when to call [`Sender::on_timer`];
//! - each data packet that arrives goes to [`Receiver::on_segment`], whose [`Reaction`] says whether to
//!   acknowledge; [`Receiver::acknowledge`] gives what an acknowledgement says;
//! - each acknowledgement that arrives goes to [`Sender::on_ack`].

mod api;
pub mod d3;

pub use api::{Ack, Acknowledge, Answer, Arrival, Connection, Reaction, SackBlock, SackBlocks, Segment, Timeout};
