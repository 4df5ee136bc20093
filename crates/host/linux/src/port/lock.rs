//! [`SwitchLock`]: one change of a switch's ports at a time.
//!
//! `weir switch apply` and `remove` write several stages and read them back. A `weir switch watch --repair` that found
//! a port in between would take the change back. Each therefore has the lock of the network namespace, to which the
//! ports belong, while it reads and writes. Its file stays: a process may wait for it.
//!
//! Worked example: in a namespace of inode 4026531840, `/run/weir/weir-switch-4026531840.lock`.

use crate::{locks, netns};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The lock cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("lock {}: {error}", .lock.display())]
pub struct LockError {
    /// Its file.
    pub lock: PathBuf,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

/// The lock of the ports of a namespace; dropping it releases it.
#[derive(Debug)]
pub struct SwitchLock(#[expect(dead_code, reason = "the open file is the lock")] File);

impl SwitchLock {
    /// Takes the lock of the calling thread's namespace, and waits while another process has it.
    pub fn take() -> Result<Self, LockError> {
        let namespace = netns::inode().map_err(|error| LockError { lock: netns::CURRENT.into(), error })?;
        Self::of(Path::new(locks::DIRECTORY), namespace)
    }

    fn of(directory: &Path, namespace: u64) -> Result<Self, LockError> {
        let lock = directory.join(format!("weir-switch-{namespace}.lock"));
        let failed = |error| LockError { lock: lock.clone(), error };
        let file = loop {
            fs::create_dir_all(directory).map_err(failed)?;
            // Only the owner may open it: a process that can open it can lock it, and so keep changes out.
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            match options.open(&lock) {
                // An agent that ended deleted the directory, which was empty.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                file => break file.map_err(failed)?,
            }
        };
        file.lock().map_err(failed)?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn one_process_has_the_lock_of_a_namespace_at_a_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path().join("locks");
        let (inside, entered) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let lock = SwitchLock::of(&directory, 7).expect("locked");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                        entered.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(entered.load(Ordering::SeqCst), 400);
        let file = fs::metadata(directory.join("weir-switch-7.lock")).expect("it stays");
        assert_eq!(file.mode() & 0o777, 0o600);
        let _first = SwitchLock::of(&directory, 7).expect("locked");
        SwitchLock::of(&directory, 8).expect("another namespace has its own");
    }
}
