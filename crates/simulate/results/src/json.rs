//! `result.json`: a run and its outcome, on one screen.
//!
//! Problem: the simulator and the lab run the same scenarios, and one program draws and compares both. Approach:
//! one format. `backend` names the origin; `policy` is there for a run under a policy; a run in the lab has no
//! flows and no links, so `groups` and `files` are empty and `statistics` is absent. Keys keep their order and
//! there is no wall-clock time, so that the same scenario and seed give the same bytes. Times are picoseconds,
//! rates bit/s, sizes bytes; a key's name shows which. `statistics` follows from the flows and is not read back.
//!
//! Worked example: an interrupted run has `"complete": false`, and `simulated_ps` is its simulated
//! time. Results that are not sound have `unsound`, the reason.

use crate::policy::{Backend, PolicyResults};
use crate::record::{Group, Results};
use crate::statistics::Statistics;
use crate::summary::Summary;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, SimTime};

/// The version of a run's files; an additional key does not raise it. 1 was a file of services'
/// bandwidths alone, 2 had no column for coflows, 3 had no runs under a policy and none of the lab, 4 had the same
/// number of flows for all coflows of a group.
pub(crate) const FORMAT: u32 = 5;

/// The whole file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ResultFile {
    pub(crate) format: u32,
    pub(crate) scenario: String,
    pub(crate) backend: Backend,
    pub(crate) seed: u64,
    pub(crate) complete: bool,
    /// Only if the results fail [`Results::check`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unsound: Option<String>,
    pub(crate) simulated_ps: u64,
    pub(crate) sample_interval_ps: Option<u64>,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) groups: Vec<GroupEntry>,
    /// Only with machine shapers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) services: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<PolicyResults>,
    pub(crate) counters: BTreeMap<String, u64>,
    /// Only with flows.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(crate) statistics: Option<Statistics>,
    pub(crate) files: BTreeMap<String, String>,
}

/// A flow group.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GroupEntry {
    name: String,
    transport: String,
}

impl GroupEntry {
    fn into_group(self) -> Group {
        Group { name: self.name, transport: self.transport }
    }
}

/// The one key that other versions must have, too.
#[derive(Debug, Deserialize)]
pub(crate) struct FormatOnly {
    pub(crate) format: u32,
}

impl ResultFile {
    pub(crate) fn new(results: &Results, statistics: Option<Statistics>, files: &[(&str, &str)]) -> Self {
        let entry = |group: &Group| GroupEntry { name: group.name.clone(), transport: group.transport.clone() };
        Self {
            format: FORMAT,
            scenario: results.scenario.clone(),
            backend: results.backend,
            seed: results.seed,
            complete: results.complete,
            unsound: results.check().err().map(|cause| cause.to_string()),
            simulated_ps: results.simulated.picos(),
            sample_interval_ps: results.sample_interval.map(SimTime::picos),
            parameters: results.parameters.clone(),
            groups: results.groups.iter().map(entry).collect(),
            services: results.services.clone(),
            policy: results.policy.clone(),
            counters: results.counters.clone(),
            statistics,
            files: files.iter().map(|(what, name)| ((*what).to_owned(), (*name).to_owned())).collect(),
        }
    }

    /// The part of results in this file: without hosts, flows, links and samples.
    pub(crate) fn into_results(self) -> Results {
        Results {
            scenario: self.scenario,
            backend: self.backend,
            seed: self.seed,
            complete: self.complete,
            simulated: SimTime::from_picos(self.simulated_ps),
            sample_interval: self.sample_interval_ps.map(SimTime::from_picos),
            parameters: self.parameters,
            counters: self.counters,
            groups: self.groups.into_iter().map(GroupEntry::into_group).collect(),
            services: self.services,
            policy: self.policy,
            ..Results::default()
        }
    }
}

/// Summaries of times as picoseconds.
pub(crate) mod picos {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(summary: &Summary<SimTime>, to: S) -> Result<S::Ok, S::Error> {
        summary.map(SimTime::picos).serialize(to)
    }
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Summary<SimTime>, D::Error> {
        Ok(Summary::<u64>::deserialize(from)?.map(SimTime::from_picos))
    }
}

/// Rates as bit/s.
pub(crate) mod bps {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(rate: &Bandwidth, to: S) -> Result<S::Ok, S::Error> {
        rate.bps().serialize(to)
    }
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bandwidth, D::Error> {
        Ok(Bandwidth::from_bps(u64::deserialize(from)?))
    }
}

/// Times as picoseconds.
pub(crate) mod time {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &SimTime, to: S) -> Result<S::Ok, S::Error> {
        time.picos().serialize(to)
    }
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SimTime, D::Error> {
        Ok(SimTime::from_picos(u64::deserialize(from)?))
    }
}

/// Times as picoseconds; null if not known.
pub(crate) mod known_time {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &Option<SimTime>, to: S) -> Result<S::Ok, S::Error> {
        time.map(SimTime::picos).serialize(to)
    }
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SimTime>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(SimTime::from_picos))
    }
}

/// Rates by name as bit/s.
pub(crate) mod rates {
    use super::*;

    type Rates = BTreeMap<String, Bandwidth>;

    pub(crate) fn serialize<S: Serializer>(rates: &Rates, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(rates.iter().map(|(name, rate)| (name, rate.bps())))
    }
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Rates, D::Error> {
        let rates = BTreeMap::<String, u64>::deserialize(from)?;
        Ok(rates.into_iter().map(|(name, bps)| (name, Bandwidth::from_bps(bps))).collect())
    }
}

/// Rates by name as bit/s; null if not known.
pub(crate) mod known_rates {
    use super::*;

    type Rates = BTreeMap<String, Option<Bandwidth>>;

    pub(crate) fn serialize<S: Serializer>(rates: &Rates, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(rates.iter().map(|(name, rate)| (name, rate.map(Bandwidth::bps))))
    }
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Rates, D::Error> {
        let rates = BTreeMap::<String, Option<u64>>::deserialize(from)?;
        Ok(rates.into_iter().map(|(name, bps)| (name, bps.map(Bandwidth::from_bps))).collect())
    }
}
