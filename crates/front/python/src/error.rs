//! Mistakes as Python exceptions, with position, cause and hint as values.
//!
//! The classes are written in Python (`weir/_errors.py`): the stable ABI of old versions cannot derive exceptions with
//! attributes.

use pyo3::prelude::*;
use pythonize::pythonize;
use serde_json::Value;
use weir_answers::AnswerError;
use weir_document::{Diagnostic, Diagnostics};

/// The Python module of the exceptions.
const ERRORS: &str = "weir._errors";

/// The subject of a mistake, which decides the class of its exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A policy, or a question about one: `PolicyError`.
    Policy,
    /// A scenario, or its run: `ScenarioError`.
    Scenario,
}

impl Subject {
    fn class(self) -> &'static str {
        match self {
            Self::Policy => "PolicyError",
            Self::Scenario => "ScenarioError",
        }
    }

    /// The exception for a refused document.
    pub(crate) fn refused(self, py: Python<'_>, refused: &Diagnostics) -> PyErr {
        self.exception(py, refused.render(false).trim_end(), &refused.to_json())
    }

    /// The exception for a question without an answer. The caller has raised what ended the computation, if it was
    /// ended.
    pub(crate) fn error(self, py: Python<'_>, error: &AnswerError) -> PyErr {
        self.exception(py, &error.to_string(), &error.to_json())
    }

    fn exception(self, py: Python<'_>, message: &str, diagnostics: &Value) -> PyErr {
        let make = || -> PyResult<PyErr> {
            let class = py.import(ERRORS)?.getattr(self.class())?;
            Ok(PyErr::from_value(class.call1((message, pythonize(py, diagnostics)?))?))
        };
        make().unwrap_or_else(|error| error)
    }
}

/// Remarks as objects of `weir.Diagnostic`.
pub(crate) fn remarks<'py>(py: Python<'py>, notes: &[Diagnostic]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let make = py.import(ERRORS)?.getattr("Diagnostic")?.getattr("_from_json")?;
    notes.iter().map(|note| make.call1((pythonize(py, &note.to_json())?,))).collect()
}

/// A JSON value as dictionaries, lists, texts, numbers, booleans and `None`.
pub(crate) fn plain<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize(py, value)?)
}
