//! The lock of the directory of a sweep.
//!
//! Problem: two programs in one directory would run every point twice, and each would remove the other's files.
//! Approach: an exclusive lock of flock(2) on the directory itself, which ends with its process. Forked processes share
//! such a lock, and a worker that Python forks while a sweep runs may outlive it. So the lock is released explicitly,
//! which releases the copies of all processes; and a copy that is dropped in a forked process releases nothing.
//!
//! Worked example: two sweeps run in one directory, one after the other, on one pool of forked workers. The workers
//! inherit the lock of the first sweep, whose end releases it for the second.

use super::SweepError;
use std::fs::{self, File, TryLockError};
use std::path::Path;
use weir_results::FileError;

/// A directory, locked by this process.
#[derive(Debug)]
pub(super) struct Lock {
    /// The directory as an open file.
    pub(super) directory: File,
    /// Whether the lock was acquired; false on file systems without locks.
    pub(super) locked: bool,
    /// The process that took the lock.
    owner: u32,
}

impl Lock {
    /// Locks the directory, which is made if it does not exist.
    ///
    /// # Errors
    /// A directory that another process has locked, or that cannot be made or read.
    pub(super) fn take(path: &Path) -> Result<Self, SweepError> {
        let io = |what| move |cause| FileError::Io { what, path: path.to_owned(), cause };
        if path.exists() && !path.is_dir() {
            return Err(FileError::NotADirectory(path.to_owned()).into());
        }
        fs::create_dir_all(path).map_err(io("make the directory"))?;
        let directory = File::open(path).map_err(io("read"))?;
        let locked = match directory.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => return Err(SweepError::Busy(path.to_owned())),
            // Some network file systems have no locks. A sweep is possible there, and callers report the risk.
            Err(TryLockError::Error(_)) => false,
        };
        Ok(Self { directory, locked, owner: std::process::id() })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.locked && self.owner == std::process::id() {
            // A failure leaves the lock to the last process that closes the file.
            let _ = self.directory.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_lock_is_free_whatever_copies_exist() {
        let directory = tempfile::tempdir().expect("a directory");
        let lock = Lock::take(directory.path()).expect("free");
        assert!(lock.locked);
        assert!(matches!(Lock::take(directory.path()), Err(SweepError::Busy(_))));
        // As a forked process has it.
        let copy = lock.directory.try_clone().expect("a copy");
        drop(lock);
        Lock::take(directory.path()).expect("free again");
        drop(copy);
    }

    #[test]
    fn a_forked_process_releases_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let lock = Lock::take(directory.path()).expect("free");
        let copy = lock.directory.try_clone().expect("a copy");
        drop(Lock { directory: copy, locked: true, owner: lock.owner + 1 });
        assert!(matches!(Lock::take(directory.path()), Err(SweepError::Busy(_))));
    }
}
