//! Files that only their owner can read.
//!
//! [`read`] rejects a file with permissions for group or others, as ssh does for its keys. It also
//! rejects a file of another user, who could read and change it; files of root are trusted.
//! [`create`] makes a new file and never replaces one. [`replace()`] replaces a file atomically.

use super::replace;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Why a secret cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Reading or writing failed.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Other users can read the file.
    #[error("{path} can be read by others (mode {mode:o}); chmod 600 {path}")]
    Open {
        /// The file.
        path: String,
        /// Its permissions.
        mode: u32,
    },
    /// The file belongs to another user.
    #[error("{path} belongs to user {owner}; chown {me} {path}")]
    Owner {
        /// The file.
        path: String,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        me: u32,
    },
    /// The file is larger than a secret can be.
    #[error("{path} has more than {longest} bytes: is it the right file?")]
    Long {
        /// The file.
        path: String,
        /// The maximum in bytes.
        longest: u64,
    },
}

impl SecretError {
    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a text of at most `longest` bytes from a file of this process's user or of root that no
/// other user can read.
pub fn read(path: &Path, longest: u64) -> Result<String, SecretError> {
    let name = || path.display().to_string();
    let io = |error| SecretError::Io { path: name(), error };
    let file = File::open(path).map_err(io)?;
    let about = file.metadata().map_err(io)?;
    let mode = about.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SecretError::Open { path: name(), mode });
    }
    // SAFETY: plain system call without arguments.
    let me = unsafe { libc::geteuid() };
    if !is_trusted(about.uid(), me) {
        return Err(SecretError::Owner { path: name(), owner: about.uid(), me });
    }
    let mut text = Vec::new();
    // Reads one byte more to detect a longer file. The length is checked before the encoding, since
    // a longer file may be cut within a character.
    file.take(longest + 1).read_to_end(&mut text).map_err(io)?;
    if text.len() as u64 > longest {
        return Err(SecretError::Long { path: name(), longest });
    }
    String::from_utf8(text).map_err(|_| io(io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text")))
}

/// Whether the user `me` trusts a file of `owner`.
fn is_trusted(owner: u32, me: u32) -> bool {
    owner == me || owner == 0
}

/// Writes a secret to a file that does not exist yet. On failure the file is removed. The secret
/// survives a crash of the host once this has returned.
pub fn create(path: &Path, text: &str) -> Result<(), SecretError> {
    create_by(path, |file| file.write_all(text.as_bytes()))
}

fn create_by(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), SecretError> {
    let io = |error| SecretError::Io { path: path.display().to_string(), error };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
    let written = write(&mut file).and_then(|()| file.sync_all()).and_then(|()| replace::sync_directory(path));
    written.map_err(|error| {
        // A partial secret would be rejected when it is read, and would block the next attempt.
        let _ = std::fs::remove_file(path);
        io(error)
    })
}

/// Replaces a secret atomically. Only the owner can read the new file.
pub fn replace(path: &Path, text: &str) -> Result<(), SecretError> {
    let io = |error| SecretError::Io { path: path.display().to_string(), error };
    replace::write_secretly(path, text.as_bytes()).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn created_secret_is_readable_and_not_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        create(&path, "word").expect("created");
        assert_eq!(read(&path, 100).expect("ours"), "word");
        assert!(matches!(create(&path, "other"), Err(SecretError::Io { .. })));
        assert_eq!(read(&path, 100).expect("ours"), "word");
        assert!(read(&directory.path().join("none"), 1).expect_err("none").is_missing());
    }

    #[test]
    fn replaced_secret_keeps_its_permissions() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        create(&path, "word").expect("created");
        replace(&path, "other").expect("replaced");
        assert_eq!(read(&path, 100).expect("ours"), "other");
        assert_eq!(std::fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
    }

    #[test]
    fn long_file_is_rejected_not_truncated() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        create(&path, "words").expect("created");
        assert_eq!(read(&path, 5).expect("as long as may be"), "words");
        let error = read(&path, 4).expect_err("one more").to_string();
        assert!(error.ends_with("has more than 4 bytes: is it the right file?"), "{error}");
    }

    #[test]
    fn file_of_another_user_is_rejected() {
        assert!(is_trusted(1000, 1000) && is_trusted(0, 1000) && is_trusted(0, 0));
        assert!(!is_trusted(1000, 0) && !is_trusted(1000, 1001));
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        create(&path, "word").expect("created");
        // Only root may give files away.
        if std::os::unix::fs::chown(&path, Some(4242), None).is_ok() {
            let error = read(&path, 100).expect_err("another user's").to_string();
            assert!(error.ends_with(&format!("belongs to user 4242; chown 0 {}", path.display())), "{error}");
        }
    }

    #[test]
    fn failed_write_leaves_no_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        let full = |file: &mut File| file.write_all(b"wo").and(Err(io::ErrorKind::StorageFull.into()));
        let error = create_by(&path, full).expect_err("no room").to_string();
        assert!(error.contains("no storage space") && !path.exists(), "{error}");
    }

    #[test]
    fn file_readable_by_others_is_rejected() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        create(&path, "word").expect("created");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("changed");
        let error = read(&path, 100).expect_err("open to the group").to_string();
        assert!(error.ends_with(&format!("can be read by others (mode 640); chmod 600 {}", path.display())), "{error}");
    }
}
