//! Reads the files of the command line; `-` is standard input.

use crate::error::CommandError;
use crate::output::Ui;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use weir_answers::ReadPolicy;
use weir_document::{Diagnostic, Diagnostics, Source};
use weir_policy::{Demands, Policy, language};
use weir_scenario::{Disk, Outcome, ReadOptions, Scenario};

/// Reads a file or standard input as one text.
pub(crate) fn source(path: &Path, limit: u64) -> Result<Arc<Source>, CommandError> {
    if path != Path::new("-") {
        return Ok(Source::read(path, limit)?);
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| CommandError::failed(format!("cannot read standard input: {error}")))?;
    Ok(Source::from_bytes("<stdin>", bytes, limit)?)
}

/// A policy with its notes, or its errors.
pub(crate) type NotedPolicy = Result<(Policy, Vec<Diagnostic>), Diagnostics>;

/// Reads a policy without reporting on it; its latency levels hold, and have numbers. The outer error is a failure of
/// standard input.
pub(crate) fn policy(path: &Path) -> Result<NotedPolicy, CommandError> {
    Ok(admitted_policy(path)?.map(ReadPolicy::into_numbered))
}

/// Reads a policy, and computes the bounds of its latency levels.
pub(crate) fn admitted_policy(path: &Path) -> Result<Result<ReadPolicy, Diagnostics>, CommandError> {
    match path == Path::new("-") {
        false => Ok(ReadPolicy::read(path)),
        true => Ok(ReadPolicy::from_source(&source(path, language::MAX_FILE)?)),
    }
}

/// A scenario with its notes, or its errors. One from standard input names files relative to the
/// working directory. The outer error is a failure of standard input.
pub(crate) fn scenario(path: &Path, options: &ReadOptions) -> Result<Outcome, CommandError> {
    if path != Path::new("-") {
        return Ok(Scenario::read_with(path, options));
    }
    let source = source(path, weir_scenario::language::MAX_FILE)?;
    Ok(Scenario::from_files(&source, Path::new(""), &mut Disk, options))
}

/// Refuses scenarios that only the lab can run.
pub(crate) fn for_the_simulator(scenario: &Scenario) -> Result<(), CommandError> {
    match scenario.lab_only() {
        None => Ok(()),
        Some(reason) => Err(Diagnostics::one(reason.clone()).into()),
    }
}

/// Writes notes to standard error, in one line each.
pub(crate) fn print_notes(notes: &[Diagnostic], ui: &mut Ui) -> Result<(), CommandError> {
    for note in notes {
        let title = ui.on_err(crate::output::Style::Strong, "note:");
        let place = note.position();
        ui.notice(&format!("{title} {}:{}:{}: {}\n", note.file(), place.line, place.column, note.cause()))?;
    }
    Ok(())
}

/// A valid policy and demands for it; only one of them may be standard input.
pub(crate) fn policy_and_demands(
    policy_path: &Path,
    demands_path: &Path,
    ui: &mut Ui,
) -> Result<(Arc<Policy>, Demands), CommandError> {
    if policy_path == Path::new("-") && demands_path == policy_path {
        return Err(CommandError::refused("the policy and the demands cannot both be standard input")
            .hint("write one of them to a file"));
    }
    let (policy, notes) = policy(policy_path)??;
    print_notes(&notes, ui)?;
    let demands = Demands::from_source(&policy, &source(demands_path, Demands::MAX_FILE)?)?;
    Ok((Arc::new(policy), demands))
}
