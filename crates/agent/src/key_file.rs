//! The shared key on disk.
//!
//! [`create`] makes a new one that only its owner can read; one that others can read is refused
//! ([`weir_state::secret`]).

use std::fs::File;
use std::io::Read;
use std::path::Path;
use weir_state::secret::{self, SecretError};
use weir_wire::{Key, KeyError};

/// More than this is not a key file.
const LONGEST: u64 = 256;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read or written, or others could read it.
    #[error(transparent)]
    File(#[from] SecretError),
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
    let text = secret::read(path, LONGEST)?;
    Key::from_hex(&text).map_err(|error| KeyFileError::Key { path: path.display().to_string(), error })
}

/// Writes a new random key to a file that does not exist yet.
pub fn create(path: &Path) -> Result<(), KeyFileError> {
    let mut bytes = [0u8; 32];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|error| SecretError::Io { path: "/dev/urandom".to_owned(), error })?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(secret::create(path, &format!("{hex}\n"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_created_is_a_key() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        create(&path).expect("created");
        read(&path).expect("a key");
        assert!(matches!(create(&path), Err(KeyFileError::File(SecretError::Io { .. }))), "never overwritten");
    }

    #[test]
    fn a_file_without_a_key_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        secret::create(&path, "secret").expect("written");
        assert!(matches!(read(&path), Err(KeyFileError::Key { error: KeyError::NotHex, .. })));
    }
}
