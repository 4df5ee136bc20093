//! The shared keys on disk.
//!
//! A key file has a key in each line, of which the first signs and all verify
//! ([`weir_control::wire::Keys`]). [`create`] makes a new one with one key that only its owner can read; a
//! file that other users can read is refused ([`weir_fabric::state::secret`]). [`turn`] changes it by one
//! step of a rotation.
//!
//! Worked example: `old` becomes `old, new` by [`Step::Add`], `new, old` by [`Step::Turn`] and `new`
//! by [`Step::Drop`]; each step is on all hosts before the next one is made.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use weir_control::wire::{KeyError, Keys};
use weir_fabric::state::secret::{self, SecretError};

/// More than this is not a key file: four keys with a line of remarks each.
const LONGEST: u64 = 4096;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read or written, or other users can read it.
    #[error(transparent)]
    File(#[from] SecretError),
    /// It does not hold a key.
    #[error("{path}{}: {error}; make one with `weir key {path}`", position(*line))]
    Key {
        /// The file.
        path: String,
        /// The line, counted from 1.
        line: Option<usize>,
        /// The cause.
        #[source]
        error: KeyError,
    },
    /// Its keys do not allow the step.
    #[error("{path}: {reason}")]
    Step {
        /// The file.
        path: String,
        /// Why not.
        reason: &'static str,
    },
}

/// A step of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A new key comes last: it verifies.
    Add,
    /// The last key becomes the first: it signs.
    Turn,
    /// The last key goes.
    Drop,
}

/// Reads keys that only their owner can read.
pub fn read(path: &Path) -> Result<Keys, KeyFileError> {
    parse(path, &secret::read(path, LONGEST)?)
}

/// The line of an error behind the file's name: `:3`, or nothing.
fn position(line: Option<usize>) -> String {
    line.map(|line| format!(":{line}")).unwrap_or_default()
}

fn parse(path: &Path, text: &str) -> Result<Keys, KeyFileError> {
    Keys::from_text(text).map_err(|(line, error)| KeyFileError::Key { path: path.display().to_string(), line, error })
}

/// Writes a new random key to a file that does not exist yet.
pub fn create(path: &Path) -> Result<(), KeyFileError> {
    Ok(secret::create(path, &format!("{}\n", random()?))?)
}

/// Changes a file by one step, or leaves it unchanged. Returns the number of keys afterwards.
/// Remarks are lost.
pub fn turn(path: &Path, step: Step) -> Result<usize, KeyFileError> {
    let text = secret::read(path, LONGEST)?;
    parse(path, &text)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut keys: Vec<String> = lines.map(str::to_owned).collect();
    let refuse = |reason| KeyFileError::Step { path: path.display().to_string(), reason };
    match step {
        Step::Add => keys.push(random()?),
        Step::Turn | Step::Drop if keys.len() < 2 => return Err(refuse("it has one key only: add the next one first")),
        Step::Turn => keys.rotate_right(1),
        Step::Drop => drop(keys.pop()),
    }
    let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
    parse(path, &text)?;
    secret::replace(path, &text)?;
    Ok(keys.len())
}

/// 64 random hexadecimal digits.
fn random() -> Result<String, KeyFileError> {
    let mut bytes = [0u8; 32];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|error| SecretError::Io { path: "/dev/urandom".to_owned(), error })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_file_has_a_key() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        create(&path).expect("created");
        read(&path).expect("a key");
        assert!(matches!(create(&path), Err(KeyFileError::File(SecretError::Io { .. }))), "never overwritten");
    }

    #[test]
    fn rotation_has_three_steps() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        create(&path).expect("created");
        let lines =
            || -> Vec<String> { std::fs::read_to_string(&path).expect("there").lines().map(str::to_owned).collect() };
        let old = lines();
        assert!(matches!(turn(&path, Step::Turn), Err(KeyFileError::Step { .. })));
        assert!(matches!(turn(&path, Step::Drop), Err(KeyFileError::Step { .. })));
        assert_eq!(turn(&path, Step::Add).expect("added"), 2);
        let both = lines();
        assert_eq!(both[0], old[0]);
        assert_eq!(turn(&path, Step::Turn).expect("turned"), 2);
        assert_eq!(lines(), [both[1].clone(), old[0].clone()]);
        assert_eq!(turn(&path, Step::Drop).expect("dropped"), 1);
        assert_eq!(lines(), both[1..]);
        for _ in 0..3 {
            turn(&path, Step::Add).expect("up to four");
        }
        let four = lines();
        let refused = turn(&path, Step::Add).expect_err("a fifth").to_string();
        assert!(refused.contains("5 keys, but a machine has 4 at most"), "{refused}");
        assert_eq!(lines(), four);
        read(&path).expect("keys that only the owner reads");
    }

    #[test]
    fn file_without_a_key_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        secret::create(&path, "secret").expect("written");
        assert!(matches!(read(&path), Err(KeyFileError::Key { error: KeyError::NotHex, .. })));
    }
}
