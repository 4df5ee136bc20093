//! `weir.Policy`: a valid policy, and the questions about it.

use crate::arguments::{self, DemandsInput};
use crate::error::{Subject, plain, remarks};
use crate::interrupt::Signals;
use crate::planning::PlanArguments;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;
use weir_answers::check::{Check, CheckOptions, interface_name};
use weir_answers::explain::tenant::named;
use weir_answers::place::{STRATEGIES, can_place};
use weir_answers::tenants::{Order, admit};
use weir_answers::{AnswerError, Places, ReadPolicy};
use weir_document::{Diagnostics, Source, quote};
use weir_placement::Strategy;
use weir_policy::language;

/// A valid policy. Objects are immutable, and may be shared between threads.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Policy {
    /// `check` reads the policy again from it, since a refusal of agents is an answer there.
    source: Arc<Source>,
    read: ReadPolicy,
    /// The policy with numbered levels, as the allocator takes it.
    numbered: Arc<weir_policy::Policy>,
}

/// An answer, or the reason why there is none.
type Answer<T> = Result<T, AnswerError>;

impl Policy {
    fn of_source(source: Arc<Source>) -> Result<Self, Diagnostics> {
        let read = ReadPolicy::from_source(&source)?;
        let numbered = Arc::new(read.numbered().clone());
        Ok(Self { source, read, numbered })
    }

    /// Answers a question without the GIL. The exception of a signal's handler goes before its error.
    fn answer<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Signals) -> Answer<T> + Send) -> PyResult<T> {
        let (answer, signals) = py.detach(|| {
            let mut signals = Signals::new();
            (work(&mut signals), signals)
        });
        signals.finish(())?;
        answer.map_err(|error| Subject::Policy.error(py, &error))
    }

    fn checked(&self, py: Python<'_>, options: CheckArguments) -> PyResult<Check> {
        let CheckArguments { placed, interface, for_planning } = options;
        self.answer(py, |signals| {
            if let Some(name) = &interface {
                let why = |why: String| AnswerError::refused(format!("interface: {}: {why}", quote(name)));
                interface_name(name).map_err(|refusal| why(refusal.cause).hint(refusal.hint))?;
            }
            let options = CheckOptions { placed, interface, for_planning };
            weir_answers::check(ReadPolicy::from_source(&self.source), &options, &mut |_| signals.poll())
        })
    }
}

/// The options of a check.
struct CheckArguments {
    placed: Option<PathBuf>,
    interface: Option<String>,
    for_planning: bool,
}

#[pymethods]
impl Policy {
    /// Reads a policy's file. Raises PolicyError with all mistakes in it.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = py.detach(|| Source::read(&path, language::MAX_FILE).and_then(Self::of_source));
        read.map_err(|refused| Subject::Policy.refused(py, &refused))
    }

    /// Reads a policy from a text; `name` is its file in messages.
    #[staticmethod]
    #[pyo3(signature = (text, *, name = "<policy>".to_owned()), text_signature = "(text, *, name='<policy>')")]
    fn parse(py: Python<'_>, text: String, name: String) -> PyResult<Self> {
        let read = py.detach(|| arguments::source(&name, text, language::MAX_FILE).and_then(Self::of_source));
        read.map_err(|refused| Subject::Policy.refused(py, &refused))
    }

    /// The name of the policy's file.
    #[getter]
    fn name(&self) -> &str {
        self.source.name()
    }

    /// The names of the machines.
    #[getter]
    fn machines(&self) -> Vec<&str> {
        self.read.policy.network().machines().iter().map(|machine| machine.name()).collect()
    }

    /// The paths of the services with traffic of their own, those of tenants included.
    #[getter]
    fn services(&self) -> Vec<&str> {
        self.read.policy.services().leaves().map(|(_, service)| service.path()).collect()
    }

    /// The names of the tenants.
    #[getter]
    fn tenants(&self) -> Vec<&str> {
        self.read.policy.tenants().iter().map(|tenant| tenant.name.as_str()).collect()
    }

    /// Checks that agents and forwarders can enforce the policy, and returns remarks. Raises PolicyError otherwise.
    #[pyo3(signature = (*, placed = None, interface = None, for_planning = false))]
    fn check<'py>(
        &self,
        py: Python<'py>,
        placed: Option<PathBuf>,
        interface: Option<String>,
        for_planning: bool,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match self.checked(py, CheckArguments { placed, interface, for_planning })? {
            Check::Valid(valid) => remarks(py, &valid.notes),
            Check::Refused(refused) => Err(Subject::Policy.refused(py, &refused)),
        }
    }

    /// The output of `weir check --json`; a policy that agents refuse has `"valid": False`.
    #[pyo3(signature = (*, placed = None, interface = None, for_planning = false))]
    fn check_json<'py>(
        &self,
        py: Python<'py>,
        placed: Option<PathBuf>,
        interface: Option<String>,
        for_planning: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let checked = self.checked(py, CheckArguments { placed, interface, for_planning })?;
        plain(py, &py.detach(|| checked.to_json()))
    }

    /// The share of every service with a demand: the output of `weir allocate --json`.
    fn allocate<'py>(&self, py: Python<'py>, demands: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let demands = DemandsInput::new(demands)?;
        let json = self.answer(py, |_| {
            let demands = demands.read(&self.numbered)?;
            Ok(weir_answers::allocate(&self.numbered, &demands).to_json())
        })?;
        plain(py, &json)
    }

    /// Why a service on a machine, such as `m1/dfs`, has its share: the output of `weir explain --json`.
    #[pyo3(signature = (demands, instance, *, direction = None))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        demands: &Bound<'py, PyAny>,
        instance: String,
        direction: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let demands = DemandsInput::new(demands)?;
        let json = self.answer(py, |_| {
            let direction = arguments::direction(direction.as_deref())?;
            let demands = demands.read(&self.numbered)?;
            let explained = weir_answers::explain(&self.numbered, &demands, &instance, direction)?;
            if explained.is_empty() && direction.is_none() {
                let cause = format!("{} has no demand, so its share is zero", quote(&instance));
                return Err(AnswerError::refused(cause).hint("add a demand for it, or name a direction"));
            }
            Ok(weir_answers::explain::to_json(&explained))
        })?;
        plain(py, &json)
    }

    /// Why a tenant has its place: the output of `weir explain POLICY TENANT --json`.
    #[pyo3(signature = (tenant, *, placed = None))]
    fn explain_tenant<'py>(
        &self,
        py: Python<'py>,
        tenant: String,
        placed: Option<PathBuf>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let json = self.answer(py, |signals| {
            let policy = &*self.numbered;
            let found = named(policy, &tenant).ok_or_else(|| {
                AnswerError::refused(format!("the policy has no tenant {}", quote(&tenant)))
                    .hint("name a tenant of the policy")
            })?;
            admit::network(policy)?;
            let mut places = Places::new(policy, Strategy::default());
            if let Some(path) = &placed {
                places.adopt(path, policy)?;
            }
            let explained = weir_answers::explain_tenant(policy, found, places, &mut |_| signals.poll())?;
            Ok(explained.to_json())
        })?;
        plain(py, &json)
    }

    /// Which capacities and caps keep the latency targets: the output of `weir plan --json`. Its options are those of
    /// the command, with `_` for `-`.
    #[pyo3(signature = (**options), text_signature = "($self, *, by=None, at=None, capacity=None, load=None, \
        iterations=None, convergence=None, senders=None, min_rto=None, scenario=None, trace=None, trace_at=None)")]
    fn plan<'py>(&self, py: Python<'py>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        let options = PlanArguments::new(options)?;
        let json = self.answer(py, |signals| {
            options.plan(&self.read.policy, self.read.admitted.as_ref(), self.source.name(), signals)
        })?;
        plain(py, &json)
    }

    /// Where the tenants' virtual machines go: the output of `weir place --json`. `placed` is the file of an earlier
    /// placement, which is continued and not changed.
    #[pyo3(
        signature = (*, placed = None, strategy = "load".to_owned(), order = "payment".to_owned()),
        text_signature = "($self, *, placed=None, strategy='load', order='payment')"
    )]
    fn place<'py>(
        &self,
        py: Python<'py>,
        placed: Option<PathBuf>,
        strategy: String,
        order: String,
    ) -> PyResult<Bound<'py, PyAny>> {
        let json = self.answer(py, |signals| {
            let policy = &*self.numbered;
            let strategy = arguments::word("strategy", &strategy, "a strategy", &STRATEGIES)?;
            let orders = [("payment", Order::Payment), ("names", Order::Names)];
            let order = arguments::word("order", &order, "an order", &orders)?;
            can_place(policy)?;
            let mut places = Places::new(policy, strategy);
            if let Some(path) = &placed {
                places.adopt(path, policy)?;
            }
            Ok(weir_answers::place(policy, places, order, &mut |_| signals.poll()).to_json())
        })?;
        plain(py, &json)
    }

    fn __repr__(&self) -> String {
        let policy = &self.read.policy;
        let (machines, services) = (policy.network().machines().len(), policy.services().leaves().count());
        format!("<weir.Policy {}: {machines} machines, {services} services>", quote(self.source.name()))
    }
}
