//! The datacenters of an experiment: filled with tenants once for each seed, and read by the values that name them.
//!
//! Worked example: a datacenter of 1024 machines with 100 slots each and tenants of 49 virtual machines on average has
//! some 2,000 tenants; the share of its ports with more than eight of them is one value, the mean over its seeds.

use crate::figure::Line;
use crate::measure::Reading;
use crate::model::{Measure, PerSetting};
use std::sync::Arc;
use weir_policy::Policy;
use weir_tenancy::{Condition, Dividing, Filled, Filling};

/// The seed of a datacenter's arrivals where the command line gives none.
pub const FIRST_SEED: u64 = 1;

/// A datacenter and its tenants.
#[derive(Debug, Clone)]
pub struct Datacenter {
    /// Its name in the file.
    pub name: String,
    /// Its network, slots and queues.
    pub policy: Arc<Policy>,
    /// The slots of every machine, if not the policy's.
    pub slots: Option<u32>,
    /// Its tenants.
    pub filling: Filling,
    /// The number of seeds, from [`FIRST_SEED`] on; values are means over them.
    pub seeds: PerSetting<u32>,
}

impl Datacenter {
    /// The datacenter with its tenants.
    pub fn fill(&self, seed: u64) -> Filled {
        weir_tenancy::Datacenter::new(&self.policy, self.slots).fill(&self.filling, seed)
    }
}

/// The value of a measure in a filled datacenter; `None` for a measure of something else, or of nothing that is there.
pub fn reading(measure: &Measure, filled: &Filled) -> Option<Reading> {
    match measure {
        Measure::Datacenter { of, .. } => of.of(filled).map(Reading::exact),
        _ => None,
    }
}

/// The distributions of the use of links, one for each division of [`DIVISIONS`]: used part, and share of links not
/// above it.
pub(crate) fn use_of_links(filled: &Filled, when: Condition) -> Vec<Line> {
    let interval = filled.interval(when);
    let line = |(_, dividing): &(&str, Dividing)| {
        let mut used = filled.utilisation(&interval, *dividing);
        used.sort_unstable_by(f64::total_cmp);
        crate::figure::distribution(&used, 0)
    };
    DIVISIONS.iter().map(line).collect()
}

/// Divisions of links with their names, as a figure of the use of links shows them.
pub const DIVISIONS: [(&str, Dividing); 3] =
    [("reservations", Dividing::Static), ("queues", Dividing::Queues), ("max-min", Dividing::MaxMin)];
