//! The shared key on disk.
//!
//! A key that others can read is no secret, so a file with permissions for group or others is refused, as
//! ssh refuses its keys. [`create`] makes a new one that only its owner can read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use weir_wire::{Key, KeyError};

/// More than this is not a key file.
const LONGEST: u64 = 256;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
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
    /// It does not hold a key.
    #[error("{path}: {error}; make one with `weir key {path}`")]
    Key {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        error: KeyError,
    },
}

/// Reads a key that only its owner can read.
pub fn read(path: &Path) -> Result<Key, KeyFileError> {
    let name = || path.display().to_string();
    let io = |error| KeyFileError::Io { path: name(), error };
    let file = File::open(path).map_err(io)?;
    let mode = file.metadata().map_err(io)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Open { path: name(), mode });
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(io)?;
    Key::from_hex(&text).map_err(|error| KeyFileError::Key { path: name(), error })
}

/// Writes a new random key to a file that does not exist yet.
pub fn create(path: &Path) -> Result<(), KeyFileError> {
    let io = |error| KeyFileError::Io { path: path.display().to_string(), error };
    let mut bytes = [0u8; 32];
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).map_err(io)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
    writeln!(file, "{hex}").and_then(|()| file.sync_all()).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_created_is_read_and_not_overwritten() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        create(&path).expect("created");
        read(&path).expect("a key");
        assert!(matches!(create(&path), Err(KeyFileError::Io { .. })));
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        create(&path).expect("created");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("changed");
        let error = read(&path).expect_err("open to the group").to_string();
        assert!(error.ends_with(&format!("can be read by others (mode 640); chmod 600 {}", path.display())), "{error}");
    }

    #[test]
    fn a_file_without_a_key_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        std::fs::write(&path, "secret").expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("changed");
        assert!(matches!(read(&path), Err(KeyFileError::Key { error: KeyError::NotHex, .. })));
    }
}
