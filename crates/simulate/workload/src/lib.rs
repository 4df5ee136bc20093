//! Workloads: the starts, pairs and sizes of flows.
//!
//! Problem: an experiment is a network under some traffic, and the traffic must be the same for
//! every transport, queue and backend, and the same again when the experiment is repeated.
//! Approach: a workload is a state machine without clock, network or randomness of its own: it
//! receives a seed and times, and returns flows.
//!
//! | kind | flows | loop |
//! |---|---|---|
//! | [`Transfers`] | between given pairs, long-lived or of one size | open |
//! | [`Random`] | between random pairs, with independent arrivals at a load | open |
//! | [`Bursts`] | from each sender to one random receiver after the other | open |
//! | [`FlowList`] | one by one from a table | open |
//! | [`Incasts`] | many senders to one random receiver at once, with independent arrivals | open |
//! | [`Rounds::incast`] | many senders to one receiver at once, in rounds | open or closed |
//! | [`Shuffle`] | all to all, a few at a time | closed |
//! | [`Rounds::barrier`] | rounds that must end before the next begins | closed |
//! | [`Requests`] | a request and its response | open or closed |
//!
//! Open loops send regardless of the network; closed ones wait for it. Constant rates, on-off and
//! bursts of UDP between the same two hosts are a matter of the transport: their workload is
//! [`Transfers`].
//!
//! A [`Spec`] is valid by construction: the function that would build an invalid one refuses it
//! with cause and hint. Sizes are drawn from a [`SizeDistribution`]. [`import`] reads sizes and lists of flows in the
//! file formats of other programs.
//!
//! **How to drive one.** At [`Workload::next`], call [`Workload::poll`] until it returns none. When
//! the last byte of a flow has reached its receiver, call [`Workload::on_finished`], and read
//! `next` again: closed loops start their flows because of it, perhaps at once. Time never goes
//! back. Polling too early is harmless.
//!
//! Every kind draws from streams of its own seed ([`Rng`]), in integers and in the four exact
//! operations on floats: the same seed gives the same flows on every platform. Give every workload
//! of a run a seed of its own, or their draws are equal; neighbouring seeds are as unrelated as
//! any.
//!
//! Worked example, three flows at 60 % of four senders' links:
//!
//! ```
//! use weir_units::Load;
//! use weir_units::{Bandwidth, MachineId, SimTime};
//! use weir_workload::{Arrivals, Builtin, Framing, Hosts, Random, Spec, Workload, mean_gap};
//!
//! let (hosts, sizes) = (Hosts::first(4)?, Builtin::WebSearch.sizes());
//! let wire = sizes.mean_wire_bytes(Framing::new(1460, 40)?);
//! let gap = mean_gap(Load::from_fraction(0.6)?, Bandwidth::from_gbps(4 * 10), wire)?;
//! let random = Random::new(hosts.clone(), hosts, Arrivals::Poisson, gap, sizes)?.at_most(3)?;
//! let mut workload = Workload::new(&Spec::Random(random), 42);
//! let mut started = 0;
//! while let Some(at) = workload.next() {
//!     while let Some(flow) = workload.poll(at) {
//!         assert!(flow.from != flow.to && flow.bytes >= 8_760);
//!         started += 1;
//!     }
//! }
//! assert_eq!(started, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The sources are in the modules.

mod arrivals;
mod bursts;
mod decimal;
mod error;
mod flow;
mod hosts;
pub mod import;
mod incasts;
mod list;
mod ln;
mod random;
mod requests;
mod rng;
mod rounds;
mod shuffle;
mod size;
#[cfg(test)]
mod test_support;
mod transfers;
mod workload;

pub use arrivals::{Arrivals, MeanGap, mean_gap, mean_gap_of_rate};
pub use bursts::Bursts;
pub use error::SpecError;
pub use flow::{FlowStart, UNTIL_STOPPED};
pub use hosts::Hosts;
pub use incasts::Incasts;
pub use list::FlowList;
pub use random::{Deadlines, Random};
pub use requests::{RequestLoop, Requests, Think};
pub use rng::Rng;
pub use rounds::{NextRound, Pattern, Rounds};
pub use shuffle::{Order, Shuffle};
pub use size::{Builtin, Framing, SizeDistribution, wire_bytes};
pub use transfers::Transfers;
pub use weir_document::table::{RowError, TableError};
pub use workload::{Coflow, Spec, Workload};
