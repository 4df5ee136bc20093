//! Why a question has no answer, with position, cause and hint as values.
//!
//! Problem: the command line prints an error, and another program shows its parts at the places where they belong.
//! Approach: mistakes in documents stay [`Diagnostics`]; other refusals have a cause, the file and line if there are
//! any, and hints. Exit codes and layout belong to the caller.
//!
//! Worked example: a row of a trace without a size is refused at `messages.csv`, line 7; [`AnswerError::to_json`] has
//! the same keys for it as for a mistake in a policy, with a null column.

use serde_json::{Value, json};
use std::fmt;
use weir_document::{Diagnostics, Severity};

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerError {
    cause: Cause,
    hints: Vec<String>,
}

/// The cause of an [`AnswerError`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Mistakes in documents, each with its position, cause and hint.
    Document(Diagnostics),
    /// Another input is refused: a name, an option, or a row of a table.
    Refused {
        /// The file of the input, if it is in one.
        at: Option<Location>,
        /// The cause, as a clause.
        text: String,
    },
    /// The caller ended the computation before it had a result.
    Stopped,
}

/// A file, or a line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file's name, as the caller gave it.
    pub file: String,
    /// The line, from 1 on.
    pub line: Option<u64>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

impl AnswerError {
    /// An input without a position is refused.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { cause: Cause::Refused { at: None, text: text.into() }, hints: Vec::new() }
    }
    /// The caller ended the computation.
    pub fn stopped() -> Self {
        Self { cause: Cause::Stopped, hints: Vec::new() }
    }
    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
    /// Adds the file, and perhaps the line, to a refusal that has none. Mistakes in documents keep their positions.
    #[must_use]
    pub fn at(mut self, file: impl Into<String>, line: Option<u64>) -> Self {
        if let Cause::Refused { at: at @ None, .. } = &mut self.cause {
            *at = Some(Location { file: file.into(), line });
        }
        self
    }
    /// The cause.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }
    /// The hints beside those of mistakes in documents.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
    /// The cause and the hints.
    pub fn into_parts(self) -> (Cause, Vec<String>) {
        (self.cause, self.hints)
    }
    /// Whether the caller ended the computation.
    pub fn is_stopped(&self) -> bool {
        self.cause == Cause::Stopped
    }
    /// For programs: a list of `{"severity", "file", "line", "column", "cause", "hint"}`, as of documents. A refusal
    /// has no column, and its file and line are null where it has none.
    pub fn to_json(&self) -> Value {
        let hint = self.hints.join("; ");
        match &self.cause {
            Cause::Document(diagnostics) => diagnostics.to_json(),
            Cause::Refused { at, text } => json!([{
                "severity": Severity::Error.name(),
                "file": at.as_ref().map(|at| at.file.as_str()),
                "line": at.as_ref().and_then(|at| at.line),
                "column": null,
                "cause": text,
                "hint": hint,
            }]),
            Cause::Stopped => json!([]),
        }
    }
}

impl From<Diagnostics> for AnswerError {
    fn from(diagnostics: Diagnostics) -> Self {
        Self { cause: Cause::Document(diagnostics), hints: Vec::new() }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document(diagnostics) => f.write_str(diagnostics.render(false).trim_end()),
            Self::Refused { at: Some(at), text } => write!(f, "{at}: {text}"),
            Self::Refused { at: None, text } => f.write_str(text),
            Self::Stopped => f.write_str("interrupted"),
        }
    }
}

/// The cause, and a line for each hint.
impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)?;
        self.hints.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for AnswerError {}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::Policy;

    #[test]
    fn position_cause_and_hint_are_values() {
        let row = AnswerError::refused("a size is missing").hint("write it").at("t.csv", Some(7));
        assert_eq!(row.to_string(), "t.csv:7: a size is missing\nhint: write it");
        let json = row.to_json();
        assert_eq!((&json[0]["file"], &json[0]["line"]), (&json!("t.csv"), &json!(7)));
        assert_eq!((&json[0]["cause"], &json[0]["hint"]), (&json!("a size is missing"), &json!("write it")));
        // The first position is the one where the mistake is.
        assert_eq!(row.clone().at("policy.yaml", None), row);
    }

    #[test]
    fn mistakes_in_documents_keep_their_positions() {
        let refused = Policy::parse("policy.yaml", "weir: 1\nnetwrk: {}\n").expect_err("a misspelt key");
        let error = AnswerError::from(refused.clone()).hint("read the guide").at("other.yaml", None);
        assert_eq!(error.to_json(), refused.to_json());
        assert_eq!((&error.to_json()[0]["file"], &error.to_json()[0]["line"]), (&json!("policy.yaml"), &json!(2)));
        assert_eq!(error.hints(), ["read the guide"]);
        assert!(!error.is_stopped() && AnswerError::stopped().is_stopped());
    }
}
