//! Rates of pairs of machines: how ElasticSwitch, Trinity, Seawall and static reservations enforce tenants.
//!
//! Problem: QShare is compared with systems that limit what each machine of a tenant sends to each other one, and adapt
//! these limits to feedback of the receivers. Approach: a system is a [`Law`]: a state machine of one pair, without
//! clock, whose inputs are the pair's part of the tenant's guarantee and the receiver's reports of marked bytes, and
//! whose output is one or two rates. [`Partition`] divides the guarantee of one end among its pairs.
//!
//! | module | contents |
//! |---|---|
//! | `law` | [`Law`], its inputs and outputs |
//! | `partition` | a machine's guarantee or weight divided among its active peers |
//! | `cubic` | growth by a cubic function of time, in integers |
//! | `static_reservation` | the guarantee and nothing beyond |
//! | `elastic_switch` | ElasticSwitch's rate allocation, aggressive and cautious |
//! | `trinity` | two token buckets for two priorities |
//! | `seawall` | shares by weight, without guarantees |
//! | `registry` | the list of systems: [`PairSystem`], [`PairLaw`] |
//!
//! Order of calls for a pair: [`Partition::add`] at both ends when it begins; [`PairLaw::new`]; then
//! [`PairLaw::set_guarantee`] and [`PairLaw::report`] in order of time; [`PairLaw::rates`] after each.
//!
//! A pair is of machines, not of virtual machines: virtual machines of one tenant on one machine share its pairs.
//! `docs/design/pair-rates.md` has the derivations and what of the sources is open.
//!
//! Worked example: a machine with a guarantee of 100 Mb/s sends to two others without end. Each pair has a guarantee of
//! 50 Mb/s; under ElasticSwitch, without marks, its rate is 141 Mb/s after one report and 960 Mb/s in the end.

mod cubic;
mod elastic_switch;
mod law;
mod partition;
mod registry;
mod seawall;
mod static_reservation;
mod trinity;

pub use cubic::Cubic;
pub use elastic_switch::{Aggressive, AggressiveParameters, Cautious, CautiousParameters};
pub use law::{Division, Law, Pair, Rates};
pub use partition::{BACKLOGGED_PERCENT, Partition, SLACK_PERCENT};
pub use registry::{PairLaw, PairSystem};
pub use seawall::{Seawall, SeawallParameters};
pub use static_reservation::StaticReservation;
pub use trinity::{Trinity, TrinityParameters};
