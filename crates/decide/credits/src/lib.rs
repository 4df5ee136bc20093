//! PACE: credits that every port of a path grants each period.
//!
//! Problem: senders that find congestion by losses, marks or delays learn of it a round trip late, so queues fill and
//! short flows are not fair. Approach: a flow sends only what it has credits for. Its receiver issues an allocation
//! each period; every port on the path of the flow's data reduces it to the flow's weighted max-min share and to what
//! the port can still hold; the sender spends it in the period that follows.
//!
//! | module | contents |
//! |---|---|
//! | `message` | requests, allocations, returns, and the widths of their fields |
//! | `period` | [`Period`], and the rule by which a port selects its own |
//! | `receiver` | [`Receiver`]: the allocations of a flow |
//! | `sender` | [`Sender`]: credits of a flow, its pace, and what it returns |
//! | `tree` | [`MaxMinTree`]: weighted max-min shares of many flows, in one descent |
//! | [`host`] | [`host::Host`]: all aggregate flows of a host, as sender, receiver and first port |
//! | `forwarder` | [`Forwarder`]: demands and periods of a port's flows, and the shares that the port publishes |
//! | [`port_shares`] | the same for a port whose online part runs in a kernel |
//! | [`wire`] | the datagrams of the messages on Linux, with their tags |
//!
//! The part of a forwarder that runs per packet, which reduces allocations and counts data against grants, is
//! `datapath/credit.h`, for the kernel and for the simulator. All machines are without clock: a driver passes times.
//! `docs/design/credits.md` has the derivations and the deviations from the paper.
//!
//! Worked example: a port of 1 Gb/s and a period of 200 µs has C = 25,000 B in a period. Two flows of weights 1 and 2
//! demand all of it. The port publishes a share of a third for each unit of weight, so the flows get 8,334
//! and 16,667 B.
//!
//! Source: Carvalho, Kim, Neves, "PACE Your Network", 2013, with the corrections of `docs/design/credits.md`.

mod forwarder;
pub mod host;
mod message;
mod period;
pub mod port_shares;
mod receiver;
mod sender;
mod tree;
pub mod wire;

pub use forwarder::{Forwarder, ForwarderSettings, Published};
pub use message::{Allocation, Coding, Message, Request, Return};
pub use period::{Period, PeriodRule};
pub use receiver::{Receiver, ReceiverSettings};
pub use sender::{Sender, SenderSettings};
pub use tree::{Level, MaxMinTree};

/// The share of all of a port's capacity, in units of [`Published::per_weight`] and of demands: 2³².
pub const WHOLE: u64 = 1 << 32;
