//! The files that a scenario names, each read once.
//!
//! Problem: a sweep runs for hours, and a file may be edited meanwhile; and a continued sweep must
//! be the one that was started. Approach: every file is kept as it was first read, so all points
//! have the same content; the digest over all of them (SHA-256) identifies the sweep.
//!
//! Worked example: the policy of a scenario is edited while the third of ten points runs: the other points still have
//! the old policy, and the same command is refused in that directory afterwards, since the digest differs.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_document::{Diagnostic, Diagnostics, Source, Span};
use weir_policy::Policy;
use weir_scenario::{Files, Outcome, PolicyOutcome, ReadOptions, Scenario, language};

/// A scenario with all files that it names.
#[derive(Debug)]
pub struct Shelf {
    scenario: Arc<Source>,
    directory: PathBuf,
    /// By path; filled while points are read.
    sources: Mutex<BTreeMap<PathBuf, Arc<Source>>>,
    /// Whether a file that is not here may be read from the disk.
    open: bool,
}

/// Paths as they are read, with the files' texts.
pub(super) type Texts = BTreeMap<PathBuf, String>;

impl Shelf {
    /// A scenario's text, which names files relative to `directory`.
    pub fn new(scenario: Arc<Source>, directory: &Path) -> Self {
        Self { scenario, directory: directory.to_owned(), sources: Mutex::default(), open: true }
    }

    /// The files of another process: one that is not among them is refused.
    pub(super) fn closed(scenario: Arc<Source>, directory: PathBuf, files: BTreeMap<PathBuf, Arc<Source>>) -> Self {
        Self { scenario, directory, sources: Mutex::new(files), open: false }
    }

    /// The scenario, the directory of its files, and the texts of the files so far.
    pub(super) fn content(&self) -> (&Source, PathBuf, Texts) {
        let texts = self.sources().iter().map(|(path, source)| (path.clone(), source.text().to_owned())).collect();
        (&self.scenario, self.directory.clone(), texts)
    }

    /// The scenario with values set.
    ///
    /// # Errors
    /// Mistakes in the scenario or in a file that it names, with their positions.
    pub fn read(&self, options: &ReadOptions) -> Outcome {
        Scenario::from_files(&self.scenario, &self.directory, &mut Reader(self), options)
    }

    /// A digest of all files so far, by name and content.
    pub fn digest(&self) -> String {
        let mut all = Sha256::new();
        let mut add = |name: &str, text: &str| {
            // Lengths separate the end of one text from the beginning of the next.
            for part in [name, text] {
                all.update((part.len() as u64).to_be_bytes());
                all.update(part);
            }
        };
        add("", self.scenario.text());
        for (path, source) in self.sources().iter() {
            let name = path.strip_prefix(&self.directory).unwrap_or(path);
            add(&name.display().to_string(), source.text());
        }
        all.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn sources(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Arc<Source>>> {
        // A reader that panicked has added nothing.
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn source(&self, path: &Path, limit: u64) -> Result<Arc<Source>, Diagnostics> {
        if let Some(source) = self.sources().get(path) {
            return Ok(Arc::clone(source));
        }
        if !self.open {
            let empty = Source::from_text(path.display().to_string(), "");
            let cause = "the file is not among those that were read when the sweep began";
            return Err(Diagnostics::one(Diagnostic::error(&empty, Span::default(), cause, "start the sweep again")));
        }
        let source = Source::read(path, limit)?;
        self.sources().insert(path.to_owned(), Arc::clone(&source));
        Ok(source)
    }
}

/// Reads from a shelf.
struct Reader<'a>(&'a Shelf);

impl Files for Reader<'_> {
    fn policy(&mut self, path: &Path) -> PolicyOutcome {
        Policy::from_source(&self.0.source(path, weir_policy::language::MAX_FILE)?)
    }
    fn table(&mut self, path: &Path) -> Result<Arc<Source>, Diagnostics> {
        self.0.source(path, language::MAX_DATA_FILE)
    }
}
