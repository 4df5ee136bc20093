//! The table of an experiment, and its JSON.

use super::ExperimentResults;
use crate::error::CommandError;
use crate::output::{Style, Table, Ui};
use crate::text;
use serde_json::{Value as Json, json};
use weir_experiment::{Outcome, Setting, Value, Verdict};
use weir_runs::experiments::BackendRun;

/// From this difference on a note is shown although the value is not compared, as a fraction.
const NOTABLE: f64 = 0.1;

/// The text of a verdict; empty if the value is not compared.
pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Shown => "",
        Verdict::Agrees => "agrees",
        Verdict::Differs => "differs",
        Verdict::Unknown => "not known",
    }
}

/// The published value as printed, with its unit; a dash if there is none.
pub(super) fn published(value: &Value) -> String {
    let number = |published: weir_experiment::Published| {
        let text = format!("{:.*}", published.decimals, published.value / value.unit.factor);
        format!("{text} {}", value.unit).trim_end().to_owned()
    };
    value.published.map_or("–".to_owned(), number)
}

/// The measured value with its unit; a dash if there is none.
pub(super) fn measured(value: &Value, outcome: &Outcome) -> String {
    let text = |reading: weir_experiment::Reading| {
        format!("{}{}", if reading.is_lower_bound { "> " } else { "" }, value.unit.text(reading.value))
    };
    outcome.measured.map_or("–".to_owned(), text)
}

/// `+1.2 %`; a dash if the value is not compared.
pub(super) fn difference(outcome: &Outcome) -> String {
    let text = |part: f64| {
        let percent = part * 100.0;
        // A difference of zero has no sign.
        if percent.abs() < 0.05 { "0.0 %".to_owned() } else { format!("{percent:+.1} %") }
    };
    outcome.difference.map_or("–".to_owned(), text)
}

/// Whether the note of a value is useful for this outcome.
pub(super) fn is_notable(outcome: &Outcome) -> bool {
    outcome.verdict == Verdict::Differs || outcome.difference.is_some_and(|part| part.abs() > NOTABLE)
}

/// The notes of values that differ: metric and note, each note once.
pub(super) fn notes(reproduced: &ExperimentResults) -> Vec<(String, String)> {
    let mut notes: Vec<(String, String)> = Vec::new();
    for (index, value) in reproduced.experiment.values.iter().enumerate() {
        let differs = reproduced.runs.iter().any(|backend| backend.outcomes[index].as_ref().is_some_and(is_notable));
        let Some(note) = value.note.as_ref().filter(|_| differs) else { continue };
        match notes.iter_mut().find(|(_, known)| known == note) {
            Some((metrics, _)) => metrics.push_str(&format!("; {}", value.metric)),
            None => notes.push((value.metric.clone(), note.clone())),
        }
    }
    notes
}

pub(super) fn print(reproduced: &ExperimentResults, ui: &mut Ui) -> Result<(), CommandError> {
    let experiment = &reproduced.experiment;
    let title = format!("{}: {} ({})", experiment.id, experiment.title, experiment.source);
    ui.print(&format!("{}\n", ui.on_out(Style::Strong, &title)))?;
    let measured_anything =
        |backend: &BackendRun| backend.outcomes.iter().flatten().any(|outcome| outcome.measured.is_some());
    // A text is better than a table of dashes.
    if reproduced
        .runs
        .iter()
        .all(|backend| !backend.complete && backend.failures.is_empty() && !measured_anything(backend))
    {
        return Ok(ui.print("  nothing was measured\n\n")?);
    }
    let several = reproduced.runs.len() > 1;
    let columns: &[&str] = match several {
        true => &["metric", ">published", "backend", ">measured", ">difference", "expected", ""],
        false => &["metric", ">published", ">measured", ">difference", "expected", ""],
    };
    let mut table = Table::new(columns);
    for (index, value) in experiment.values.iter().enumerate() {
        for backend in &reproduced.runs {
            let Some(outcome) = &backend.outcomes[index] else { continue };
            let style = match outcome.verdict {
                Verdict::Agrees => Style::Good,
                Verdict::Shown => Style::Plain,
                Verdict::Differs | Verdict::Unknown => Style::Limited,
            };
            let plain = |cell: String| (cell, Style::Plain);
            let mut cells = vec![plain(value.metric.clone()), plain(published(value))];
            cells.extend(several.then(|| plain(backend.backend.to_owned())));
            cells.extend([measured(value, outcome), difference(outcome), outcome.expected.clone()].map(plain));
            cells.push((word(outcome.verdict).to_owned(), style));
            table.styled(cells);
        }
    }
    ui.print_table(&table, 2)?;
    for failure in reproduced.runs.iter().flat_map(|backend| &backend.failures) {
        let title = ui.on_out(Style::Error, "failed:");
        ui.print(&format!("\n  {title} {failure}\n"))?;
    }
    for (metric, note) in notes(reproduced) {
        ui.print(&format!("\n{}", text::wrapped(&format!("{metric}: {note}"), 2)))?;
    }
    for note in &experiment.notes {
        ui.print(&format!("\n{}", text::wrapped(note, 2)))?;
    }
    ui.print("\n")?;
    Ok(())
}

/// Six digits: more digits of a float have no meaning.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

pub(super) fn to_json(reproduced: &ExperimentResults, backend: &BackendRun, setting: Setting) -> Json {
    let experiment = &reproduced.experiment;
    let rows = experiment.values.iter().zip(&backend.outcomes).filter_map(|(value, outcome)| {
        let outcome = outcome.as_ref()?;
        let in_unit = |base: f64| rounded(base / value.unit.factor);
        let is_lower_bound = outcome.measured.is_some_and(|reading| reading.is_lower_bound);
        let mut row = json!({
            "metric": value.metric,
            "unit": if value.unit.name == "1" { "" } else { value.unit.name },
            "published": value.published.map(|published| in_unit(published.value)),
            "measured": outcome.measured.map(|reading| in_unit(reading.value)),
            "where": value.place,
            "expected": outcome.expected,
            "verdict": word(outcome.verdict),
            "note": value.note.as_ref().filter(|_| is_notable(outcome)).cloned().unwrap_or_default(),
        });
        if is_lower_bound {
            row["measured_is_at_least"] = json!(true);
        }
        Some(row)
    });
    let mut object = json!({
        "id": experiment.id,
        "backend": backend.backend,
        "setting": setting.name(),
        "seed": backend.seed,
        "complete": backend.complete,
        "rows": rows.collect::<Vec<_>>(),
        "wall_s": (backend.wall_s * 1e3).round() / 1e3,
    });
    if !backend.failures.is_empty() {
        object["failures"] = json!(backend.failures);
    }
    object
}
