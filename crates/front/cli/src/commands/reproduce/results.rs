//! The table of all experiments: `docs/reference/results.md` for the simulator and `docs/reference/results-lab.md` for
//! Linux.
//!
//! The order is that of the program's list, and the file contains no time of the day or of a run,
//! so that it changes only where a result does. Values that are times of a computation differ
//! between computers and are marked as such.

use super::{Backend, ExperimentResults, print};
use crate::text;
use std::path::Path;
use weir_experiment::{Setting, Verdict};

/// Columns of a line of prose, as in all documents of the project.
const COLUMNS: usize = 120;

/// The text of the file at `path`; experiments of which the backend supports no run are left out.
pub(super) fn document(all: &[ExperimentResults], backend: Backend, path: &Path, setting: Setting) -> String {
    let (option, title, what) = match backend {
        Backend::Sim => ("", "Published results, reproduced", ""),
        #[cfg(feature = "host")]
        Backend::Lab => (
            " --backend lab",
            "Published results, reproduced on Linux",
            " Real hosts' kernels, agents and TCP in network namespaces of one machine: the runs that the lab \
             supports, and their expectations. Times and rates differ a little from one run to the next.",
        ),
        #[cfg(feature = "host")]
        Backend::Both => (" --backend both", "Published results, reproduced in the simulator and on Linux", ""),
    };
    let full = if setting == Setting::Full { " --full" } else { "" };
    let written = format!(
        "Written by `weir reproduce --all{option}{full} --write {}`, in the {} setting of each experiment; not by \
         hand. One of them alone: `weir reproduce ID{option}{full}`, with `--report DIR` for its figures. The runs \
         of an experiment are in `papers/ID.yaml`.{what}",
        path.display(),
        setting.name()
    );
    let verdicts = "A value agrees if it meets its expectation; a value without an expectation has no verdict. A dash \
                    under “published” means that the source prints no number.";
    let mut out = format!(
        "# {title}\n\n{}\n{}\n\
         | experiment | values | agree | differ | not known | only shown |\n|---|---:|---:|---:|---:|---:|\n",
        text::filled(&written, COLUMNS, "", ""),
        text::filled(verdicts, COLUMNS, "", "")
    );
    let has_rows = |of: &&ExperimentResults| !of.runs.is_empty() || of.no_lab.is_some();
    let all: Vec<&ExperimentResults> = all.iter().filter(has_rows).collect();
    for reproduced in &all {
        let verdicts: Vec<Verdict> = reproduced
            .runs
            .iter()
            .flat_map(|backend| backend.outcomes.iter().flatten().map(|outcome| outcome.verdict))
            .collect();
        let count = |verdict: Verdict| verdicts.iter().filter(|of| **of == verdict).count();
        out += &format!(
            "| [{id}](#{id}) | {} | {} | {} | {} | {} |\n",
            verdicts.len(),
            count(Verdict::Agrees),
            count(Verdict::Differs),
            count(Verdict::Unknown),
            count(Verdict::Shown),
            id = reproduced.experiment.id,
        );
    }
    for reproduced in all {
        out += &section(reproduced);
    }
    out
}

fn section(reproduced: &ExperimentResults) -> String {
    let experiment = &reproduced.experiment;
    let mut out = format!("\n## {}\n\n{}. {}.\n\n", experiment.id, experiment.title, experiment.source);
    out += "| metric | where | published | measured | difference | expected | |\n|---|---|---:|---:|---:|---|---|\n";
    for backend in &reproduced.runs {
        // With two backends each row names its own.
        let which = if reproduced.runs.len() > 1 { format!(" ({})", backend.backend) } else { String::new() };
        for (value, outcome) in experiment.values.iter().zip(&backend.outcomes) {
            let Some(outcome) = outcome else { continue };
            let cells = [
                format!("{}{which}", value.metric),
                value.place.clone(),
                print::published(value),
                print::measured(value, outcome),
                print::difference(outcome),
                outcome.expected.clone(),
                print::word(outcome.verdict).to_owned(),
            ];
            out += &format!("| {} |\n", cells.map(|cell| escaped(&cell)).join(" | "));
        }
    }
    let failures = reproduced.runs.iter().flat_map(|backend| &backend.failures);
    let failures = failures.map(ToString::to_string).chain(reproduced.no_lab.clone());
    let failures = failures.map(|failure| format!("Failed: {failure}"));
    let differing = print::notes(reproduced).into_iter().map(|(metric, note)| format!("**{metric}**: {note}"));
    let wall_clock = experiment.values.iter().any(|value| value.measure.is_wall_clock());
    let computer =
        wall_clock.then(|| "Times of a computation are this computer's, and change with every run.".to_owned());
    let notes: Vec<String> =
        failures.chain(differing).chain(experiment.notes.iter().cloned()).chain(computer).collect();
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        out += &text::filled(note.trim_end(), COLUMNS, "- ", "  ");
    }
    out
}

/// Escapes characters that end a cell of a table.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|")
}
