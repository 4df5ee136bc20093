//! Transports: what a flow sends when, without clock or socket.
//!
//! A transport is a pair of state machines. The body (the simulator) owns time and packets:
//!
//! - at the start, and after every other call, it calls [`Sender::poll`] until it gives nothing or the host
//!   takes no more, then asks [`Sender::timer`] when to call [`Sender::on_timer`];
//! - each data packet that arrives goes to [`Receiver::on_segment`], whose [`Reaction`] says whether to
//!   acknowledge; [`Receiver::acknowledge`] gives what an acknowledgement says;
//! - each acknowledgement that arrives goes to [`Sender::on_ack`].
//!
//! Each transport is one file with its parameters, their keys in a scenario, and its machine:
//!
//! | file | transport |
//! |---|---|
//! | [`newreno`] | TCP NewReno with selective acknowledgements |
//! | [`cubic`] | TCP CUBIC |
//! | [`dctcp`] | Data Center TCP |
//! | [`d3`] | D3, with and without deadlines |
//! | [`pfabric`] | pFabric |
//! | [`udp`] | UDP: constant rate, bursts, on and off |
//!
//! To add one, write its file and add a line to the list in `registry.rs`. What several share stands beside them:
//! `tcp` (sequence space and loss recovery), `rto`, `ranges`, `receiver`, and `language` for reading parameters.

mod api;
pub mod cubic;
pub mod d3;
pub mod dctcp;
mod language;
pub mod newreno;
pub mod pfabric;
mod ranges;
mod receiver;
mod registry;
mod rto;
pub mod tcp;
pub mod udp;

pub use api::{Ack, Acknowledge, Answer, Arrival, Connection, Reaction, SackBlock, SackBlocks, Segment, Timeout};
pub use receiver::Receiver;
pub use registry::{Parameters, Sender, read, variants};
