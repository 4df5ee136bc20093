//! A file that only its owner reads.
//!
//! A key that others can read is no secret, so a file with permissions for group or others is refused, as ssh refuses
//! its keys. [`create`] makes a new one that only its owner can read, and never replaces one; [`replace`] does, in one step.

use crate::replace;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
    /// Others could read it.
    #[error("{path} can be read by others (mode {mode:o}); chmod 600 {path}")]
    Open {
        /// The file.
        path: String,
        /// Its permissions.
        mode: u32,
    },
}

impl SecretError {
    /// Whether the file is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a text of at most `longest` bytes that only its owner can read; a longer one is cut off.
pub fn read(path: &Path, longest: u64) -> Result<String, SecretError> {
    let name = || path.display().to_string();
    let io = |error| SecretError::Io { path: name(), error };
    let file = File::open(path).map_err(io)?;
    let mode = file.metadata().map_err(io)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SecretError::Open { path: name(), mode });
    }
    let mut text = String::new();
    file.take(longest).read_to_string(&mut text).map_err(io)?;
    Ok(text)
}

/// Writes a secret to a file that does not exist yet.
pub fn create(path: &Path, text: &str) -> Result<(), SecretError> {
    let io = |error| SecretError::Io { path: path.display().to_string(), error };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io)
}

/// Replaces a secret in one step; the new one only its owner can read.
pub fn replace(path: &Path, text: &str) -> Result<(), SecretError> {
    let io = |error| SecretError::Io { path: path.display().to_string(), error };
    replace::write_secretly(path, text.as_bytes()).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_created_is_read_and_not_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        create(&path, "word").expect("created");
        assert_eq!(read(&path, 100).expect("ours"), "word");
        assert!(matches!(create(&path, "other"), Err(SecretError::Io { .. })));
        assert_eq!(read(&path, 100).expect("ours"), "word");
        assert!(read(&directory.path().join("none"), 1).expect_err("none").is_missing());
    }

    #[test]
    fn what_is_replaced_stays_secret() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        create(&path, "word").expect("created");
        replace(&path, "other").expect("replaced");
        assert_eq!(read(&path, 100).expect("ours"), "other");
        assert_eq!(std::fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
    }

    #[test]
    fn what_others_can_read_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        create(&path, "word").expect("created");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("changed");
        let error = read(&path, 100).expect_err("open to the group").to_string();
        assert!(error.ends_with(&format!("can be read by others (mode 640); chmod 600 {}", path.display())), "{error}");
    }
}
