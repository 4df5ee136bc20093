//! Transports: the packets that a flow sends and their times, without clock or socket.
//!
//! A transport is a pair of state machines. The backend (the simulator) owns time and packets:
//!
//! - at the start, and after every other call, it calls [`Sender::poll`] until it gives nothing or
//!   the host takes no more, then calls [`Sender::timer`] for the time of [`Sender::on_timer`];
//! - each data packet that arrives goes to [`Receiver::on_segment`], whose [`Reaction`] decides
//!   about an acknowledgement; [`Receiver::acknowledge`] gives its content;
//! - each acknowledgement that arrives goes to [`Sender::on_ack`];
//! - a protocol whose switches take part puts a control field into some segments
//!   ([`Sender::control`]). [`agents`] at the ports rewrite it, the receiver returns it with its next
//!   acknowledgement, and the sender gets it by [`Sender::on_control`].
//!
//! An example: 2.5 kB over a network with a delay of 10 µs in each direction.
//!
//! ```
//! use weir_transport::{Ack, Acknowledge, Arrival, Connection, Parameters, Receiver, Sender};
//! use weir_units::{Bandwidth, SimTime};
//!
//! let connection = Connection {
//!     bytes: 2_500,
//!     payload: 1_000,
//!     headers: 66,
//!     start: SimTime::ZERO,
//!     deadline: None,
//!     line_rate: Bandwidth::from_gbps(10),
//!     round_trip: None,
//!     sprayed: false,
//! };
//! let parameters = Parameters::default();
//! let (mut sender, mut receiver) = (Sender::new(&parameters, &connection), Receiver::new(&parameters));
//! let mut acks = Vec::new();
//! while let Some(segment) = sender.poll(SimTime::ZERO) {
//!     let (sequence, length, stamp) = (segment.sequence, segment.length, SimTime::ZERO);
//!     let arrival = Arrival { sequence, length, stamp, marked: false };
//!     let reaction = receiver.on_segment(SimTime::from_micros(10), &arrival);
//!     if reaction.acknowledge == Acknowledge::Now {
//!         acks.push(receiver.acknowledge());
//!     }
//! }
//! // The third packet waits for a fourth one, and is acknowledged when the delay is over.
//! assert_eq!((acks.len(), receiver.owes_ack(), receiver.next()), (1, true, 2_500));
//! acks.push(receiver.acknowledge());
//! for content in acks {
//!     sender.on_ack(SimTime::from_micros(20), &Ack { content, sack: &[] });
//! }
//! assert!(sender.is_done());
//! assert_eq!(sender.timer(), SimTime::NEVER);
//! ```
//!
//! Each transport is one file with its parameters, their keys in a scenario, and its machine:
//!
//! | file | transport |
//! |---|---|
//! | [`newreno`] | TCP NewReno with selective acknowledgements |
//! | [`cubic`] | TCP CUBIC |
//! | [`dctcp`] | Data Center TCP |
//! | [`d3`] | D3, with and without deadlines |
//! | [`expresspass`] | ExpressPass: credits that ports limit |
//! | [`pace`] | PACE |
//! | [`pfabric`] | pFabric |
//! | [`udp`] | UDP: constant rate, bursts, on and off |
//!
//! To add one, write its file and add a line to the list in `registry.rs`. Shared parts are beside
//! them: [`agents`] (the interface and the list of port agents), `tcp` (sequence space and loss
//! recovery), `rto`, `ranges`, `receiver`, and `language` for reading parameters.

pub mod agents;
mod api;
pub mod cubic;
pub mod d3;
pub mod dctcp;
pub mod expresspass;
mod language;
pub mod newreno;
pub mod pace;
pub mod pfabric;
mod ranges;
mod receiver;
mod registry;
mod rto;
pub mod tcp;
pub mod udp;

pub use api::{Ack, AckContent, Acknowledge, Arrival, Connection, Reaction, SackBlock, SackBlocks, Segment, Timeout};
pub use receiver::Receiver;
pub use registry::{Parameters, Sender, read, variants};
