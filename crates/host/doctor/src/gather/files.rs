//! The files that an agent needs: its keys, and its certificate for the fabric broker.

use crate::facts::FileProblem;
use std::path::Path;
use weir_control::wire::Keys;
use weir_fabric::identity::Use;
use weir_fabric::state::secret::{self, SecretError};
use weir_fabric::{Identity, IdentityError, IdentityFiles};

/// More than this is not a key file.
const LONGEST: u64 = 4_096;

/// Whether the agent can use a key file.
pub(super) fn key(path: &Path) -> Result<(), FileProblem> {
    let text = secret::read(path, LONGEST).map_err(problem)?;
    let keys = Keys::from_text(&text).map_err(|(line, error)| {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        FileProblem::Other(format!("{}{line}: {error}", path.display()))
    });
    keys.map(drop)
}

/// The end of a machine's certificate, if the fabric broker takes it now.
pub(super) fn certificate(files: &IdentityFiles, now_ms: u64) -> Result<i64, FileProblem> {
    let now = i64::try_from(now_ms / 1_000).unwrap_or(i64::MAX);
    let checked = Identity::read(files).and_then(|identity| {
        identity.check_use(Use::Connect, files)?;
        identity.check_dates(now, files)?;
        identity.check_ca(now, files)?;
        Ok(identity.expires())
    });
    checked.map_err(|error| match error {
        IdentityError::Secret(error) => problem(error),
        error => FileProblem::Other(format!("{error}; {}", error.hint())),
    })
}

fn problem(error: SecretError) -> FileProblem {
    match &error {
        SecretError::Open { path, .. } => FileProblem::Mode(path.into(), error.to_string()),
        SecretError::Owner { path, me, .. } => FileProblem::Owner(path.into(), *me, error.to_string()),
        _ => FileProblem::Other(error.to_string()),
    }
}
