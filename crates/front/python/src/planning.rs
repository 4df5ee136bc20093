//! The options of `Policy.plan`, which are those of `weir plan`.

use crate::arguments::{self, Quantity, refused};
use crate::interrupt::Signals;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use weir_answers::AnswerError;
use weir_answers::plan::{self, Method, PlanOptions, PlannedNetwork, TraceInput, cannot_read};
use weir_document::{Suggester, scalar};
use weir_latency::levels::Admitted;
use weir_policy::Policy;
use weir_runs::memory;
use weir_scenario::{ReadOptions, Scenario};
use weir_units::{Bandwidth, ContentionPoint, Load};

/// The options by their names.
const OPTIONS: [&str; 11] = [
    "by",
    "at",
    "capacity",
    "load",
    "iterations",
    "convergence",
    "senders",
    "min_rto",
    "scenario",
    "trace",
    "trace_at",
];
/// The most iterations and senders.
const MOST: u32 = 1_000_000;

/// The options as Python has them.
pub(crate) struct PlanArguments {
    by: Option<String>,
    at: Vec<String>,
    capacity: Option<Quantity>,
    load: Option<String>,
    iterations: Option<u32>,
    convergence: Option<String>,
    senders: Option<u32>,
    min_rto: Option<String>,
    scenario: Option<PathBuf>,
    trace: Option<PathBuf>,
    trace_at: Vec<Quantity>,
}

impl PlanArguments {
    /// Reads the keyword arguments.
    ///
    /// # Errors
    /// An unknown option, or a value of another type.
    pub(crate) fn new(options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let get = |name: &str| options.map_or(Ok(None), |options| options.get_item(name));
        let present = |name: &str| Ok::<_, PyErr>(get(name)?.filter(|value| !value.is_none()));
        for key in options.iter().flat_map(|options| options.keys()) {
            let key: String = key.extract()?;
            if !OPTIONS.contains(&key.as_str()) {
                let hint = Suggester::default().hint(&key, OPTIONS, "the options are those of `weir plan --help`");
                return Err(PyTypeError::new_err(format!("plan() has no option `{key}`\nhint: {hint}")));
            }
        }
        let text = |name: &str| present(name)?.map(|value| value.extract::<String>()).transpose();
        let count = |name: &str| present(name)?.map(|value| value.extract::<u32>()).transpose();
        let path = |name: &str| present(name)?.map(|value| value.extract::<PathBuf>()).transpose();
        Ok(Self {
            by: text("by")?,
            at: present("at")?.map(|value| value.extract()).transpose()?.unwrap_or_default(),
            capacity: present("capacity")?.map(|value| value.extract()).transpose()?,
            load: text("load")?,
            iterations: count("iterations")?,
            convergence: text("convergence")?,
            senders: count("senders")?,
            min_rto: text("min_rto")?,
            scenario: path("scenario")?,
            trace: path("trace")?,
            trace_at: present("trace_at")?.map(|value| value.extract()).transpose()?.unwrap_or_default(),
        })
    }

    /// The plan for programs.
    ///
    /// # Errors
    /// A refused option, an unusable scenario or trace, a policy without targets, and an interruption.
    pub(crate) fn plan(
        &self,
        policy: &Policy,
        admitted: Option<&Admitted>,
        name: &str,
        signals: &mut Signals,
    ) -> Result<Value, AnswerError> {
        let options = self.options()?;
        let percentiles = plan::targets(policy, admitted).map_err(|error| error.at(name, None))?;
        if let Some(admitted) = admitted.filter(|_| !percentiles) {
            return Ok(plan::levels_to_json(admitted));
        }
        let network = self.network(policy)?;
        let planned = match &self.trace {
            None => plan::plan(policy, &options, &network, None)?,
            Some(path) => {
                let name = path.display().to_string();
                let file = File::open(path).map_err(|error| cannot_read(&name, &error))?;
                let mut trace = TraceInput::read(name, BufReader::new(file), policy, signals)?;
                plan::plan(policy, &options, &network, Some(&mut trace))?
            }
        };
        Ok(plan::to_json(&planned, admitted, None))
    }

    fn network(&self, policy: &Policy) -> Result<PlannedNetwork, AnswerError> {
        let timer = self.min_rto.as_deref().map(|text| arguments::time("min_rto", text)).transpose()?;
        let Some(path) = &self.scenario else { return Ok(PlannedNetwork::of_policy(policy, timer)) };
        let options = ReadOptions { set: Vec::new(), memory: memory::available() };
        let (scenario, _) = Scenario::read_with(path, &options)?;
        PlannedNetwork::of_scenario(policy, timer, (&path.display().to_string(), scenario))
    }

    fn options(&self) -> Result<PlanOptions, AnswerError> {
        let default = PlanOptions::default();
        let methods = Method::ALL.map(|method| (method.name(), method));
        let by = self.by.as_deref().map(|text| arguments::word("by", text, "a method", &methods)).transpose()?;
        let by = by.unwrap_or(default.by);
        let no_trace =
            |option: &str| AnswerError::refused(format!("{option}: there is no trace")).hint("name one with `trace`");
        if self.trace.is_none() && by == Method::Trace {
            return Err(no_trace("by"));
        }
        if self.trace.is_none() && !self.trace_at.is_empty() {
            return Err(no_trace("trace_at"));
        }
        if self.iterations.is_some() && self.convergence.is_some() {
            return Err(AnswerError::refused("`iterations` and `convergence` are both given")
                .hint("`convergence` replaces iterations times the interval: leave one of them out"));
        }
        let points = ContentionPoint::ALL.map(|point| (point.name(), point));
        let point = |text: &String| arguments::word("at", text, "a contention point", &points);
        let convergence = self.convergence.as_deref();
        Ok(PlanOptions {
            at: self.at.iter().map(point).collect::<Result<_, _>>()?,
            capacity: self.capacity.as_ref().map(|rate| rate.rate("capacity")).transpose()?,
            load: self.load.as_deref().map(load).transpose()?,
            iterations: count("iterations", self.iterations, default.iterations)?,
            convergence: convergence.map(|text| arguments::time("convergence", text)).transpose()?,
            senders: count("senders", self.senders, default.senders)?,
            by,
            trace_at: self.trace_at.iter().map(|rate| rate.rate("trace_at")).collect::<Result<Vec<Bandwidth>, _>>()?,
            curve: false,
        })
    }
}

fn count(option: &str, given: Option<u32>, default: u32) -> Result<u32, AnswerError> {
    match given {
        None => Ok(default),
        Some(number) if (1..=MOST).contains(&number) => Ok(number),
        Some(number) => Err(AnswerError::refused(format!("{option}: {number} is out of range"))
            .hint(format!("it is a whole number from 1 to {MOST}"))),
    }
}

/// A load such as `70%`.
fn load(text: &str) -> Result<Load, AnswerError> {
    let percent = scalar::percent(text, "a load", "a queue that is always full never empties");
    let millionths = percent.map_err(|why| refused("load", why))?;
    let load = u32::try_from(millionths * 1_000).ok().and_then(|billionths| Load::from_billionths(billionths).ok());
    load.ok_or_else(|| AnswerError::refused(format!("load: `{text}` is too high")).hint("a load is below 100%"))
}
