//! Locks of agents: the names of their files, and whether a process has one.
//!
//! Two locks of a network namespace, since the same name or index is another interface in another one:
//!
//! | file in [`DIRECTORY`] | locked |
//! |---|---|
//! | `weir-agent-4026532281-7.lock` | by each process that changes the interface of index 7 |
//! | `weir-agent-4026532281-of-eth0.lock` | by the agent of eth0, as long as it runs, also while eth0 is absent |
//!
//! Both contain the number of the process, which the process writes after it has the lock. A killed process leaves the
//! file behind, without a lock.

use crate::netns;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The directory of locks, which is Weir's and which a restart of the host empties.
pub const DIRECTORY: &str = "/run/weir";
const PREFIX: &str = "weir-agent-";
const SUFFIX: &str = ".lock";

/// The file of the lock of the processes that change an interface of the calling thread's namespace.
///
/// # Errors
/// [`netns::CURRENT`] cannot be read.
pub fn of_interface(directory: &Path, index: u32) -> io::Result<PathBuf> {
    Ok(directory.join(format!("{PREFIX}{}-{index}{SUFFIX}", netns::inode()?)))
}

/// The file of the lock of the agent of an interface of the calling thread's namespace, also while there is no
/// interface of this name.
///
/// # Errors
/// [`netns::CURRENT`] cannot be read.
pub fn of_agent(directory: &Path, name: &str) -> io::Result<PathBuf> {
    Ok(directory.join(format!("{PREFIX}{}-of-{name}{SUFFIX}", netns::inode()?)))
}

/// Whether a file of this name is one of these locks, of any namespace.
pub fn is_name(file: &str) -> bool {
    file.starts_with(PREFIX) && file.ends_with(SUFFIX)
}

/// The file of a lock that a process has; `None` without the file, and if no process has the lock. For the duration of
/// the attempt the caller shares a free lock.
///
/// # Errors
/// The file cannot be opened or locked.
pub fn held(path: &Path) -> io::Result<Option<File>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock_shared() {
        // Left by a killed process. The lock is released with the file.
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(file)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_of_a_process_is_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = of_agent(directory.path(), "lo").expect("a namespace");
        assert!(held(&path).expect("readable").is_none(), "no file");
        let file = File::create(&path).expect("made");
        assert!(held(&path).expect("readable").is_none(), "no lock");
        file.lock().expect("free");
        assert!(held(&path).expect("readable").is_some());
        drop(file);
        assert!(held(&path).expect("readable").is_none(), "released");
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(is_name(name) && !is_name("agent.json") && !is_name("weir-switch-7.lock"), "{name}");
    }
}
