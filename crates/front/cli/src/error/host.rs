//! Errors of the commands of the feature `host`: programs that are not started, and texts for logs.

use super::{Cause, CommandError, Exit, printable};
use std::io;

impl CommandError {
    /// A program that this process was to run cannot be run, for this reason.
    pub(crate) fn program(message: impl Into<String>, reason: &io::Error) -> Self {
        let exit = Exit::NotStarted { is_found: reason.kind() != io::ErrorKind::NotFound };
        Self { cause: Cause::Failed(printable(message.into()), exit), hints: Vec::new() }
    }
    /// The error for a log: without colours.
    pub(crate) fn text(&self) -> String {
        let message = match &self.cause {
            Cause::Failed(message, _) | Cause::Refused(message) | Cause::Interrupted(message) => message.clone(),
            Cause::Document(diagnostics) => diagnostics.render(false).trim_end().to_owned(),
            Cause::OutputClosed => String::new(),
        };
        self.hints.iter().fold(message, |text, hint| format!("{text}\nhint: {hint}"))
    }
}
