//! Rates, times and demands from Python's values, by the rules of documents.
//!
//! Worked example: the demand `("m1", "dfs", "tx", None)` is the row `m1,dfs,tx,unlimited` of a table, and a mistake in
//! it has the number of the row as its line.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::path::PathBuf;
use std::sync::Arc;
use weir_answers::AnswerError;
use weir_document::scalar::Refusal;
use weir_document::{Diagnostics, Source};
use weir_policy::{Demands, Policy};
use weir_units::{Bandwidth, Direction, Duration};

/// The name of demands that are no file, in messages.
const DEMANDS: &str = "<demands>";
/// The columns of demands.
const COLUMNS: [&str; 4] = ["machine", "service", "direction", "demand"];

/// Demands as Python has them.
pub(crate) enum DemandsInput {
    /// A file.
    File(PathBuf),
    /// The text of a table.
    Text(String),
}

impl DemandsInput {
    /// A `str` is the text of a table, another path-like object a file, and anything else a list of rows.
    ///
    /// # Errors
    /// A row of another type.
    pub(crate) fn new(demands: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = demands.cast::<PyString>() {
            return Ok(Self::Text(text.extract()?));
        }
        if demands.hasattr("__fspath__")? {
            return Ok(Self::File(demands.extract()?));
        }
        let mut text = String::new();
        for (number, row) in (1_usize..).zip(demands.try_iter()?) {
            let fields = fields(number, &row?)?;
            text.push_str(&fields.join(","));
            text.push('\n');
        }
        Ok(Self::Text(text))
    }

    /// Reads the demands for a policy.
    ///
    /// # Errors
    /// An unreadable file, and all mistakes in the rows.
    pub(crate) fn read(self, policy: &Policy) -> Result<Demands, Diagnostics> {
        match self {
            Self::File(path) => Demands::read(policy, path),
            Self::Text(text) => Demands::parse(policy, DEMANDS, &text),
        }
    }
}

/// The texts of a row.
fn fields(number: usize, row: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let values: Vec<Bound<'_, PyAny>> = if let Ok(row) = row.cast::<PyDict>() {
        if let Some(key) = row.keys().iter().find(|key| !COLUMNS.iter().any(|name| key.eq(name).unwrap_or(false))) {
            return Err(wrong_row(number, &format!("it has the key {}", key.repr()?)));
        }
        let value =
            |name: &&str| row.get_item(*name)?.ok_or_else(|| wrong_row(number, &format!("`{name}` is missing")));
        COLUMNS.iter().map(value).collect::<PyResult<_>>()?
    } else if row.is_instance_of::<PyString>() {
        return Err(wrong_row(number, "it is a text"));
    } else {
        row.try_iter()?.collect::<PyResult<_>>()?
    };
    let field = |value: &Bound<'_, PyAny>| field(number, value);
    values.iter().map(field).collect()
}

/// The text of a field: a text as it is, `None` for `unlimited`, and whole bit/s.
fn field(number: usize, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_none() {
        return Ok("unlimited".to_owned());
    }
    if let Ok(text) = value.cast::<PyString>() {
        let text: String = text.extract()?;
        // Both would end the field.
        return match text.contains([',', '\n', '\r']) {
            true => Err(wrong_row(number, &format!("{} has a comma or a line break", value.repr()?))),
            false => Ok(text),
        };
    }
    match value.extract::<u64>() {
        Ok(bps) => Ok(format!("{bps}b/s")),
        Err(_) => Err(wrong_row(number, &format!("it has the value {}", value.repr()?))),
    }
}

fn wrong_row(number: usize, why: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "row {number} of the demands: {why}\nhint: a row is a tuple (machine, service, direction, demand), or a dict \
         with these keys; a demand is a text such as \"10Gb/s\", whole bit/s, or None for `unlimited`"
    ))
}

/// A text, or a whole number in the smallest unit.
#[derive(FromPyObject)]
pub(crate) enum Quantity {
    Whole(u64),
    Text(String),
}

impl Quantity {
    /// A rate above zero; whole numbers are bit/s.
    pub(crate) fn rate(&self, option: &str) -> Result<Bandwidth, AnswerError> {
        match self {
            Self::Whole(0) => Err(AnswerError::refused(format!("{option}: 0 is zero")).hint("write a rate above zero")),
            Self::Whole(bps) => Ok(Bandwidth::from_bps(*bps)),
            Self::Text(text) => weir_document::scalar::rate(text, false, false).map_err(|why| refused(option, why)),
        }
    }
}

/// A time above zero.
pub(crate) fn time(option: &str, text: &str) -> Result<Duration, AnswerError> {
    weir_document::scalar::time(text, false).map_err(|why| refused(option, why))
}

/// One of some words.
pub(crate) fn word<T: Copy>(option: &str, text: &str, what: &str, words: &[(&str, T)]) -> Result<T, AnswerError> {
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    let index = weir_document::scalar::word(text, what, &names).map_err(|why| refused(option, why))?;
    Ok(words[index].1)
}

/// A refused value of an option.
pub(crate) fn refused(option: &str, Refusal { cause, hint, .. }: Refusal) -> AnswerError {
    AnswerError::refused(format!("{option}: {cause}")).hint(hint)
}

/// `tx`, `rx`, or both.
pub(crate) fn direction(text: Option<&str>) -> Result<Option<Direction>, AnswerError> {
    let words = Direction::ALL.map(|direction| (direction.name(), direction));
    text.map(|text| word("direction", text, "a direction", &words)).transpose()
}

/// A text with a name as a source.
///
/// # Errors
/// A text above the limit.
pub(crate) fn source(name: &str, text: String, limit: u64) -> Result<Arc<Source>, Diagnostics> {
    Source::from_bytes(name, text.into_bytes(), limit)
}
