//! Reading what the command line names; `-` is standard input.

use crate::error::CommandError;
use crate::output::Ui;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use weir_document::{Diagnostic, Diagnostics, Source};
use weir_policy::{Demands, Policy, language};

/// Reads a file or standard input as one text.
fn source(path: &Path, limit: u64) -> Result<Arc<Source>, CommandError> {
    if path != Path::new("-") {
        return Ok(Source::read(path, limit)?);
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| CommandError::failed(format!("cannot read standard input: {error}")))?;
    Ok(Source::from_bytes("<stdin>", bytes, limit)?)
}

/// Reads a policy without reporting on it: the outer error is about reading, the inner about the policy.
pub(crate) type ReadPolicy = Result<(Policy, Vec<Diagnostic>), Diagnostics>;

/// A policy with its notes.
pub(crate) fn policy(path: &Path) -> Result<ReadPolicy, CommandError> {
    if path != Path::new("-") {
        return Ok(Policy::read(path));
    }
    Ok(Policy::from_source(&source(path, language::MAX_FILE)?))
}

/// A sound policy; its notes go to standard error, in one line each.
pub(crate) fn sound_policy(path: &Path, ui: &mut Ui) -> Result<Arc<Policy>, CommandError> {
    let (policy, notes) = policy(path)??;
    tell_notes(&notes, ui)?;
    Ok(Arc::new(policy))
}

/// Writes notes to standard error, in one line each.
pub(crate) fn tell_notes(notes: &[Diagnostic], ui: &mut Ui) -> Result<(), CommandError> {
    for note in notes {
        let title = ui.on_err(crate::output::Style::Strong, "note:");
        let place = note.position();
        ui.tell(&format!("{title} {}:{}:{}: {}\n", note.file(), place.line, place.column, note.cause()))?;
    }
    Ok(())
}

/// Demands for a policy that came from `policy_path`.
pub(crate) fn demands(policy: &Policy, policy_path: &Path, path: &Path) -> Result<Demands, CommandError> {
    if path == Path::new("-") && policy_path == path {
        return Err(CommandError::refused("the policy and the demands cannot both be standard input")
            .hint("write one of them to a file"));
    }
    Ok(Demands::from_source(policy, &source(path, Demands::MAX_FILE)?)?)
}
