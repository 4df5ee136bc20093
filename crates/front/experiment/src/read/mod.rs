//! From a file under `papers/` to an [`Experiment`]: scenarios and policies read, names resolved,
//! units in agreement.
//!
//! Each run's scenario is read twice, with the changes of each setting, so that every name and
//! window exists in both. Errors of a scenario or a policy are reported under its own name.
//!
//! | module | reads |
//! |---|---|
//! | `runs` | `runs:`, `windows:` |
//! | `datacenters` | `datacenters:`, and `measure:` of a value of one |
//! | `values` | `values:` |
//! | `measures` | `measure:` of a value |
//! | `figures` | `figures:` |

mod datacenters;
mod figures;
mod measures;
mod runs;
mod values;

use crate::datacenter::Datacenter;
use crate::language::{MAX_FILE, PAPER};
use crate::model::{Experiment, PerSetting, Run, Setting, Window};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_document::nearest::nearest;
use weir_document::shape::Shape;
use weir_document::{Diagnostic, Diagnostics, Field, Node, Problems, Source, Span, check, quote, scalar, tree};
use weir_policy::{Demands, Policy};
use weir_units::Duration;

impl Experiment {
    /// Reads a file under `papers/` and all files that it names; the notes are those of all files.
    ///
    /// # Errors
    /// The errors of any of the files, each under its own name.
    pub fn read(path: impl AsRef<Path>) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let path = path.as_ref();
        let source = Source::read(path, MAX_FILE)?;
        Self::from_source(&source, path.parent().unwrap_or(Path::new("")))
    }

    /// The same for a file that was read already; `directory` contains the files that it names.
    ///
    /// # Errors
    /// Those of [`Experiment::read`].
    pub fn from_source(source: &Arc<Source>, directory: &Path) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let mut problems = Problems::new(source);
        let root = tree::parse(source, &mut problems);
        if let Some(root) = &root {
            check::check(root, &Shape::Record(&PAPER), &mut problems);
        }
        let mut reader = Reader {
            problems,
            directory,
            notes: Vec::new(),
            others: Vec::new(),
            runs: Vec::new(),
            datacenters: Vec::new(),
            windows: BTreeMap::new(),
            policies: BTreeMap::new(),
            demands: BTreeMap::new(),
        };
        let experiment = root.as_ref().and_then(|root| reader.experiment(root));
        let Reader { problems, notes, others, .. } = reader;
        problems.finish_with(experiment, notes, others)
    }
}

/// The shared state of the reader's parts.
struct Reader<'a> {
    problems: Problems,
    directory: &'a Path,
    /// Remarks on other files.
    notes: Vec<Diagnostic>,
    /// Errors of other files.
    others: Vec<Diagnostics>,
    /// The runs; all of them once the first value is read.
    runs: Vec<Run>,
    /// The datacenters, likewise.
    datacenters: Vec<Datacenter>,
    windows: BTreeMap<String, PerSetting<Window>>,
    /// Policies and demands by path, `None` if they cannot be read: several values share one.
    policies: BTreeMap<PathBuf, Option<Arc<Policy>>>,
    demands: BTreeMap<(PathBuf, PathBuf), Option<Arc<Demands>>>,
}

impl Reader<'_> {
    fn error(&mut self, span: Span, cause: impl Into<String>, hint: impl Into<String>) {
        self.problems.error(span, cause, hint);
    }

    /// Reports that `what` has no `name`, with the nearest existing one.
    fn unknown(&mut self, node: &Node, what: &str, known: &[&str]) {
        let name = node.scalar().unwrap_or_default();
        let near = nearest(name, known.iter().copied());
        let list = known.iter().take(12).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "there is none".to_owned(),
            None if known.len() == 1 => format!("there is only {list}"),
            None => format!("there are {list}"),
        };
        self.error(node.span, format!("there is no {what} {}", quote(name)), hint);
    }

    /// `None` only if something was reported.
    fn experiment(&mut self, root: &Node) -> Option<Experiment> {
        let windows_are_valid = self.read_windows(root);
        let runs_are_good = self.read_runs(root);
        let datacenters_are_good = self.read_datacenters(root);
        // Missing names of runs would be reported a second time.
        if !(windows_are_valid && runs_are_good && datacenters_are_good) {
            return None;
        }
        let values = self.values(root);
        let metrics: Vec<_> = values.iter().map(|value| (value.metric.clone(), value.unit)).collect();
        // Figures may name any of the values.
        if values.len() < root.get("values").map_or(&[][..], Node::items).len() {
            return None;
        }
        let figures = self.figures(root, &metrics);
        let notes = root.get("notes").map_or(&[][..], Node::items);
        Some(Experiment {
            id: text(root, "id")?,
            title: text(root, "title")?,
            source: text(root, "source")?,
            takes: self.takes(root)?,
            runs: std::mem::take(&mut self.runs),
            datacenters: std::mem::take(&mut self.datacenters),
            values,
            figures,
            notes: notes.iter().filter_map(|note| note.scalar().map(str::to_owned)).collect(),
        })
    }

    fn takes(&self, root: &Node) -> Option<PerSetting<Duration>> {
        let takes = root.get("takes")?;
        let time = |key| takes.field(key, |text| scalar::time(text, false)).value();
        Some(PerSetting { quick: time("quick")?, full: time("full")? })
    }
}

/// The text of a key.
fn text(node: &Node, key: &str) -> Option<String> {
    Some(node.get(key)?.scalar()?.to_owned())
}

/// A whole number; the check has seen its range.
fn integer(node: &Node) -> Option<u64> {
    let field: Field<i128> = node.read(|text| scalar::integer(text, "", 0, i128::from(u64::MAX)));
    field.value().and_then(|number| u64::try_from(number).ok())
}

/// Something for both settings, by `read` for each.
fn both<T>(mut read: impl FnMut(Setting) -> Option<T>) -> Option<PerSetting<T>> {
    let (quick, full) = (read(Setting::Quick), read(Setting::Full));
    Some(PerSetting { quick: quick?, full: full? })
}
