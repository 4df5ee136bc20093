//! Invalid results: marked when they are written, and refused after they are read. Names are checked before a run, too.

use crate::record::Results;
use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

/// The reason why results are not sound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResults {
    /// Files refer to objects by name, so a name has one meaning.
    #[error("two {what} are called `{name}`")]
    SameName {
        /// `hosts`, `groups`, `links` or `services`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// An index beyond the end of a table.
    #[error("{of} refers to {what} {index}, but there are {count}")]
    NoSuch {
        /// Which record.
        of: String,
        /// `host`, `group`, `link` or `service`.
        what: &'static str,
        /// The index.
        index: u32,
        /// The length of the table.
        count: usize,
    },
    /// A coflow of more flows than it has.
    #[error("flow {id} is one too many in a coflow of group `{group}`")]
    Coflow {
        /// The first flow that is too many.
        id: u64,
        /// Its group's name.
        group: String,
    },
    /// Two flows of one coflow with different numbers of its flows.
    #[error("flow {id} has another number of flows of its coflow than a flow before, in group `{group}`")]
    CoflowSize {
        /// The second flow.
        id: u64,
        /// Its group's name.
        group: String,
    },
    /// A flow that ends before it begins.
    #[error("flow {id} finished before it started")]
    FinishedFirst {
        /// The flow.
        id: u64,
    },
}

impl Results {
    /// Checks that names are unique, indices exist, coflows have no more flows than they may and no
    /// flow ends before it begins.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), InvalidResults> {
        unique("hosts", self.hosts.iter().map(String::as_str))?;
        unique("groups", self.groups.iter().map(|group| group.name.as_str()))?;
        unique("links", self.links.iter().map(|link| link.name.as_str()))?;
        unique("services", self.services.iter().map(String::as_str))?;
        let mut coflows: BTreeMap<(u32, u64), (u64, u64)> = BTreeMap::new();
        for flow in &self.flows {
            let of = || format!("flow {}", flow.id);
            exists(of, "group", flow.group, self.groups.len())?;
            exists(of, "host", flow.from.0, self.hosts.len())?;
            exists(of, "host", flow.to.0, self.hosts.len())?;
            if let Some(coflow) = flow.coflow {
                let group = || self.groups[flow.group as usize].name.clone();
                let (all, flows) = coflows.entry((flow.group, coflow.id)).or_insert((coflow.flows, 0));
                *flows += 1;
                if *all != coflow.flows {
                    return Err(InvalidResults::CoflowSize { id: flow.id, group: group() });
                }
                if *flows > *all {
                    return Err(InvalidResults::Coflow { id: flow.id, group: group() });
                }
            }
            if flow.finished.is_some_and(|finished| finished < flow.start) {
                return Err(InvalidResults::FinishedFirst { id: flow.id });
            }
        }
        for sample in &self.link_samples {
            exists(|| format!("a sample at {}", sample.at), "link", sample.link, self.links.len())?;
        }
        for sample in &self.group_samples {
            exists(|| format!("a sample at {}", sample.at), "group", sample.group, self.groups.len())?;
        }
        for sample in &self.meter_samples {
            exists(|| format!("a sample at {}", sample.at), "host", sample.host.0, self.hosts.len())?;
            exists(|| format!("a sample at {}", sample.at), "service", sample.service, self.services.len())?;
        }
        Ok(())
    }
}

/// Checks that no two of `names` are equal; `what` is their kind in the plural, for the message. Before a run this is
/// the check of the names that its results will have.
///
/// # Errors
/// The first name that is there twice.
pub fn unique<N: AsRef<str> + Hash + Eq>(
    what: &'static str,
    names: impl IntoIterator<Item = N>,
) -> Result<(), InvalidResults> {
    let mut seen = HashSet::new();
    for name in names {
        if seen.contains(&name) {
            return Err(InvalidResults::SameName { what, name: name.as_ref().to_owned() });
        }
        seen.insert(name);
    }
    Ok(())
}

fn exists(of: impl Fn() -> String, what: &'static str, index: u32, count: usize) -> Result<(), InvalidResults> {
    if (index as usize) < count { Ok(()) } else { Err(InvalidResults::NoSuch { of: of(), what, index, count }) }
}
