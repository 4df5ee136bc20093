//! `weir.Results`: the results of a run, as tables and as the object of `weir sim --json`.
//!
//! Columns have the names and the units of the files of `weir sim --report`: times are picoseconds, rates bit/s.

use crate::error::plain;
use crate::table::{Columns, Table};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use weir_results::series::mean_utilisation;
use weir_results::{BinStatistics, SizeBins, Statistics, Summary};
use weir_units::{Bandwidth, SimTime};

/// The results of a run. Objects are immutable, and may be shared between threads.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Results(weir_results::Results);

/// The name of an index that no table has, in results that are not sound.
const NO_NAME: &str = "?";

impl Results {
    pub(crate) fn new(results: weir_results::Results) -> Self {
        Self(results)
    }

    fn host(&self, index: usize) -> &str {
        self.0.hosts.get(index).map_or(NO_NAME, String::as_str)
    }

    fn group(&self, index: u32) -> &str {
        self.0.groups.get(index as usize).map_or(NO_NAME, |group| &group.name)
    }

    fn transport(&self, index: u32) -> &str {
        self.0.groups.get(index as usize).map_or(NO_NAME, |group| &group.transport)
    }
}

#[pymethods]
impl Results {
    /// The scenario's name.
    #[getter]
    fn scenario(&self) -> &str {
        &self.0.scenario
    }

    /// The seed of the run.
    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    /// Whether the run reached its end.
    #[getter]
    fn complete(&self) -> bool {
        self.0.complete
    }

    /// The simulated time in picoseconds.
    #[getter]
    fn simulated_ps(&self) -> u64 {
        self.0.simulated.picos()
    }

    /// The changed values of the scenario, by path.
    #[getter]
    fn parameters(&self) -> BTreeMap<String, String> {
        self.0.parameters.clone()
    }

    /// The counters of the simulator, by name.
    #[getter]
    fn counters(&self) -> BTreeMap<String, u64> {
        self.0.counters.clone()
    }

    /// The names of the hosts.
    #[getter]
    fn hosts(&self) -> Vec<String> {
        self.0.hosts.clone()
    }

    /// The output of `weir sim --json`.
    fn to_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = py.detach(|| serde_json::from_str(&self.0.to_json(&SizeBins::default())));
        plain(py, &value.map_err(|error| PyRuntimeError::new_err(format!("broken invariant: {error}")))?)
    }

    /// A row for each flow: the columns of `flows.csv`.
    #[getter]
    fn flows(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| self.flow_table())
    }

    /// A row for each link.
    #[getter]
    fn links(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let links = || self.0.links.iter();
            Columns::default()
                .text("link", links().map(|link| link.name.as_str()))
                .whole("rate_bps", links().map(|link| link.rate.bps()))
                .whole("bytes", links().map(|link| link.bytes))
                .whole("packets", links().map(|link| link.packets))
                .whole("dropped", links().map(|link| link.dropped))
                .whole("marked", links().map(|link| link.marked))
                .whole("queue_peak_bytes", links().map(|link| link.queue_peak))
                .maybe_real("utilisation", links().map(|link| Some(mean_utilisation(&self.0, link))))
                .finish()
        })
    }

    /// A row for each watched link and interval.
    #[getter]
    fn link_samples(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let samples = || self.0.link_samples.iter();
            let name = |link: u32| self.0.links.get(link as usize).map_or(NO_NAME, |link| link.name.as_str());
            Columns::default()
                .whole("at_ps", samples().map(|sample| sample.at.picos()))
                .text("link", samples().map(|sample| name(sample.link)))
                .whole("bytes", samples().map(|sample| sample.bytes))
                .whole("capacity_bytes", samples().map(|sample| sample.capacity))
                .whole("queue_bytes", samples().map(|sample| sample.queue))
                .whole("queue_peak_bytes", samples().map(|sample| sample.queue_peak))
                .whole("dropped", samples().map(|sample| sample.dropped))
                .whole("marked", samples().map(|sample| sample.marked))
                .finish()
        })
    }

    /// A row for each flow group and interval; `jain` is Jain's index of the flows' goodputs.
    #[getter]
    fn group_samples(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let samples = || self.0.group_samples.iter();
            Columns::default()
                .whole("at_ps", samples().map(|sample| sample.at.picos()))
                .text("group", samples().map(|sample| self.group(sample.group)))
                .whole("delivered_bytes", samples().map(|sample| sample.delivered))
                .whole("active", samples().map(|sample| sample.active.into()))
                .whole("flows", samples().map(|sample| sample.flows.into()))
                .maybe_real("jain", samples().map(|sample| sample.jain()))
                .finish()
        })
    }

    /// A row for each machine shaper, service and interval; empty without shapers.
    #[getter]
    fn meters(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let samples = || self.0.meter_samples.iter();
            let service = |index: u32| self.0.services.get(index as usize).map_or(NO_NAME, String::as_str);
            let rate = |rate: Option<Bandwidth>| rate.map(Bandwidth::bps);
            Columns::default()
                .whole("at_ps", samples().map(|sample| sample.at.picos()))
                .text("host", samples().map(|sample| self.host(sample.host.index())))
                .text("service", samples().map(|sample| service(sample.service)))
                .whole("tx_bytes", samples().map(|sample| sample.sent))
                .maybe_whole("tx_limit_bps", samples().map(|sample| rate(sample.limit)))
                .whole("rx_bytes", samples().map(|sample| sample.received))
                .maybe_whole("rx_capacity_bps", samples().map(|sample| rate(sample.capacity)))
                .maybe_whole("rx_rate_bps", samples().map(|sample| rate(sample.rate)))
                .finish()
        })
    }

    /// A row for each flow group and size bin. The group without a name has all flows; a bin from 0 without an upper
    /// end has all sizes.
    #[getter]
    fn statistics(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let statistics = Statistics::new(&self.0, &SizeBins::default());
            let groups = std::iter::once(&statistics.all).chain(&statistics.groups);
            let rows: Vec<(&str, &BinStatistics)> = groups
                .flat_map(|group| std::iter::once(&group.all).chain(&group.bins).map(|bin| (group.name.as_str(), bin)))
                .collect();
            let rows = || rows.iter();
            let columns = Columns::default()
                .text("group", rows().map(|(group, _)| *group))
                .whole("over_bytes", rows().map(|(_, row)| row.bin.over))
                .maybe_whole("up_to_bytes", rows().map(|(_, row)| row.bin.up_to))
                .whole("flows", rows().map(|(_, row)| row.flows))
                .whole("unfinished", rows().map(|(_, row)| row.unfinished));
            let fct: Vec<_> = rows().map(|(_, row)| row.fct).collect();
            let slowdown: Vec<_> = rows().map(|(_, row)| row.slowdown).collect();
            let columns = of_summaries(
                ("fct_", "_ps"),
                &fct,
                |columns, name, values| {
                    columns.maybe_whole(name, values.into_iter().map(|value| value.map(SimTime::picos)))
                },
                columns,
            );
            of_summaries(
                ("slowdown_", ""),
                &slowdown,
                |columns, name, values| columns.maybe_real(name, values.into_iter()),
                columns,
            )
            .finish()
        })
    }

    /// A row for each flow group with coflows.
    #[getter]
    fn coflows(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let statistics = Statistics::new(&self.0, &SizeBins::default());
            let groups = statistics.groups.iter();
            let rows: Vec<_> = groups.filter_map(|group| Some((group.name.as_str(), group.coflows?))).collect();
            let rows = || rows.iter();
            let columns = Columns::default()
                .text("group", rows().map(|(group, _)| *group))
                .whole("coflows", rows().map(|(_, row)| row.coflows))
                .whole("unfinished", rows().map(|(_, row)| row.unfinished))
                .whole("fewest_flows", rows().map(|(_, row)| row.fewest_flows))
                .whole("most_flows", rows().map(|(_, row)| row.most_flows));
            let cct: Vec<_> = rows().map(|(_, row)| row.cct).collect();
            of_summaries(
                ("cct_", "_ps"),
                &cct,
                |columns, name, values| {
                    columns.maybe_whole(name, values.into_iter().map(|value| value.map(SimTime::picos)))
                },
                columns,
            )
            .finish()
        })
    }

    /// A row for each service and interval: its bandwidth at the measured uplink. Empty without a policy.
    #[getter]
    fn services(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let samples = self.0.policy.iter().flat_map(|policy| &policy.samples);
            let rows: Vec<(u64, &str, u64)> = samples
                .flat_map(|sample| {
                    let at = sample.at.picos();
                    sample.bandwidth.iter().map(move |(name, bandwidth)| (at, name.as_str(), bandwidth.bps()))
                })
                .collect();
            Columns::default()
                .whole("at_ps", rows.iter().map(|(at, _, _)| *at))
                .text("service", rows.iter().map(|(_, name, _)| *name))
                .whole("bandwidth_bps", rows.iter().map(|(_, _, bps)| *bps))
                .finish()
        })
    }

    /// A row for each phase and service: `sending` in it, and its mean bandwidths. Empty without a policy.
    #[getter]
    fn phases(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let phases = self.0.policy.iter().flat_map(|policy| &policy.phases);
            let rows: Vec<_> =
                phases.flat_map(|phase| phase.mean.iter().map(move |(name, mean)| (phase, name, mean))).collect();
            let rows = || rows.iter();
            let settled = |phase: &weir_results::policy::Phase, name: &str| phase.settled.get(name).copied().flatten();
            Columns::default()
                .whole("from_ps", rows().map(|(phase, _, _)| phase.from.picos()))
                .whole("to_ps", rows().map(|(phase, _, _)| phase.to.picos()))
                .text("service", rows().map(|(_, name, _)| name.as_str()))
                .flag("sending", rows().map(|(phase, name, _)| phase.sending.contains(name)))
                .maybe_whole("mean_bps", rows().map(|(_, _, mean)| mean.map(Bandwidth::bps)))
                .maybe_whole("settled_bps", rows().map(|(phase, name, _)| settled(phase, name).map(Bandwidth::bps)))
                .finish()
        })
    }

    fn __repr__(&self) -> String {
        let end = if self.0.complete { "complete" } else { "ended early" };
        format!("<weir.Results of {}, seed {}: {} flows, {end}>", self.0.scenario, self.0.seed, self.0.flows.len())
    }
}

impl Results {
    fn flow_table(&self) -> PyResult<Table> {
        let flows = || self.0.flows.iter();
        Columns::default()
            .whole("id", flows().map(|flow| flow.id))
            .text("group", flows().map(|flow| self.group(flow.group)))
            .maybe_whole("coflow", flows().map(|flow| flow.coflow.map(|coflow| coflow.id)))
            .maybe_whole("coflow_flows", flows().map(|flow| flow.coflow.map(|coflow| coflow.flows)))
            .text("transport", flows().map(|flow| self.transport(flow.group)))
            .text("from", flows().map(|flow| self.host(flow.from.index())))
            .text("to", flows().map(|flow| self.host(flow.to.index())))
            .whole("bytes", flows().map(|flow| flow.bytes))
            .whole("start_ps", flows().map(|flow| flow.start.picos()))
            .maybe_whole("finished_ps", flows().map(|flow| flow.finished.map(SimTime::picos)))
            .maybe_whole("fct_ps", flows().map(|flow| flow.completion_time().map(SimTime::picos)))
            .whole("ideal_ps", flows().map(|flow| flow.ideal.picos()))
            .maybe_real("slowdown", flows().map(|flow| flow.slowdown()))
            .whole("delivered_bytes", flows().map(|flow| flow.delivered))
            .whole("retransmissions", flows().map(|flow| flow.retransmissions.into()))
            .whole("timeouts", flows().map(|flow| flow.timeouts.into()))
            .maybe_whole("deadline_ps", flows().map(|flow| flow.deadline.map(SimTime::picos)))
            .finish()
    }
}

/// Adds the mean, the percentiles and the maximum of summaries, by `add`.
fn of_summaries<T: Copy>(
    (before, behind): (&str, &str),
    rows: &[Summary<T>],
    add: impl Fn(Columns, &str, Vec<Option<T>>) -> Columns,
    columns: Columns,
) -> Columns {
    type Part<T> = fn(&Summary<T>) -> Option<T>;
    let parts: [(&str, Part<T>); 6] = [
        ("mean", |row| row.mean),
        ("p50", |row| row.p50),
        ("p95", |row| row.p95),
        ("p99", |row| row.p99),
        ("p999", |row| row.p999),
        ("max", |row| row.max),
    ];
    parts.into_iter().fold(columns, |columns, (part, of)| {
        add(columns, &format!("{before}{part}{behind}"), rows.iter().map(of).collect())
    })
}
