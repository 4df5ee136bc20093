//! Checks of a host: what prevents a policy from being enforced here, and the command that corrects it.
//!
//! Problem: a service is slow, and the cause may be the kernel, a qdisc, a clock, an agent or another policy. Approach:
//! [`gather`] reads facts and changes nothing; [`judge`] is pure and makes one [`Finding`] of each check of [`CHECKS`].
//!
//! Worked example: the interface has the root qdisc `pfifo 8001:`. The finding `interface.qdisc` is wrong, and its mend
//! is `tc qdisc del dev eth0 root`.

mod facts;
mod gather;
mod judge;

pub use facts::{
    Facts, FileProblem, InterfaceFacts, PeerFacts, PolicyFacts, Reply, StatusFacts, SwitchFacts, UnitFacts,
};
pub use gather::{Request, gather};
pub use judge::{CHECKS, Check, Finding, State, judge, quoted};
