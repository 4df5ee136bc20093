//! The inputs of a reader beside the scenario: the source of files, values set from outside, the
//! memory limit.

use crate::language::MAX_DATA_FILE;
use std::path::Path;
use std::sync::Arc;
use weir_document::{Diagnostic, Diagnostics, Source};
use weir_policy::Policy;
use weir_units::Bytes;

/// A policy with its notes, or its errors.
pub type PolicyOutcome = Result<(Policy, Vec<Diagnostic>), Diagnostics>;

/// The source of the files that a scenario names.
pub trait Files {
    /// Reads a policy.
    fn policy(&mut self, path: &Path) -> PolicyOutcome;
    /// Reads a table: sizes, flows.
    fn table(&mut self, path: &Path) -> Result<Arc<Source>, Diagnostics>;
}

/// The machine's own files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Files for Disk {
    fn policy(&mut self, path: &Path) -> PolicyOutcome {
        Policy::read(path)
    }
    fn table(&mut self, path: &Path) -> Result<Arc<Source>, Diagnostics> {
        Source::read(path, MAX_DATA_FILE)
    }
}

/// One policy, and no other files.
pub(super) struct PolicyOnly<L>(Option<L>);

impl<L> PolicyOnly<L> {
    pub(super) fn new(load: L) -> Self {
        Self(Some(load))
    }
}

fn not_here(path: &Path) -> Diagnostics {
    let source = Source::from_text(path.display().to_string(), "");
    let hint = "only scenarios that are read from files may name files";
    Diagnostics::one(Diagnostic::error(&source, Default::default(), "there are no files here", hint))
}

impl<L: FnOnce(&Path) -> PolicyOutcome> Files for PolicyOnly<L> {
    fn policy(&mut self, path: &Path) -> PolicyOutcome {
        match self.0.take() {
            Some(load) => load(path),
            None => Err(not_here(path)),
        }
    }
    fn table(&mut self, path: &Path) -> Result<Arc<Source>, Diagnostics> {
        Err(not_here(path))
    }
}

/// The inputs of a reader beside the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadOptions {
    /// Values that replace or add to those of the file, in this order: paths such as `seed`,
    /// `network.host-link.rate` or `traffic[0].load`, and the text of a scalar.
    pub set: Vec<(String, String)>,
    /// The most memory that the network may take, by [`crate::topology::Size::memory`]; `None`: no
    /// bound.
    pub memory: Option<Bytes>,
}
