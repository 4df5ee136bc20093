//! A policy with the bounds of its latency levels, as all questions take it.

use std::path::Path;
use std::sync::Arc;
use weir_document::{Diagnostic, Diagnostics, Source};
use weir_latency::levels::{Admitted, admit};
use weir_policy::Policy;
use weir_runs::shaper_remarks;

/// A valid policy whose latency levels hold.
pub struct ReadPolicy {
    /// The policy as it is written.
    pub policy: Policy,
    /// Remarks of the reader.
    pub notes: Vec<Diagnostic>,
    /// The policy with a number for each level and the levels' bounds, if it has latency levels.
    pub admitted: Option<Admitted>,
}

impl ReadPolicy {
    /// Reads a policy's file.
    ///
    /// # Errors
    /// An unreadable file, and all mistakes in it.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        Policy::read(path).and_then(Self::bounded)
    }

    /// Reads a policy from a text that has a name.
    ///
    /// # Errors
    /// All mistakes in it.
    pub fn from_source(source: &Arc<Source>) -> Result<Self, Diagnostics> {
        Policy::from_source(source).and_then(Self::bounded)
    }

    fn bounded((policy, notes): (Policy, Vec<Diagnostic>)) -> Result<Self, Diagnostics> {
        let admitted = admit(&policy)?;
        Ok(Self { policy, notes, admitted })
    }

    /// Adds remarks on guarantees that leave machines' shapers no capacity to divide.
    #[must_use]
    pub fn with_shaper_remarks(mut self) -> Self {
        self.notes.extend(shaper_remarks::of_policy(&self.policy));
        self
    }

    /// The policy with numbered levels.
    pub fn numbered(&self) -> &Policy {
        self.admitted.as_ref().map_or(&self.policy, |admitted| &admitted.policy)
    }

    /// The same with its remarks.
    pub fn into_numbered(self) -> (Policy, Vec<Diagnostic>) {
        (self.admitted.map_or(self.policy, |admitted| admitted.policy), self.notes)
    }
}
