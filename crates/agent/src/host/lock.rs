//! One agent for an interface at a time.

use super::HostError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use weir_linux::interface::Interface;

/// Where locks are; a directory of ours that a restart of the host empties.
pub(super) const LOCKS: &str = "/run/weir";

/// Takes the lock of an interface, which one agent or removal holds at a time; released when the file is closed, also
/// by a kill. The file itself stays: deleting it would let two processes lock two files of the same name.
///
/// Its name has the namespace's inode and the interface's index, since the same name or index is another interface elsewhere.
pub(super) fn lock(directory: &Path, interface: &Interface) -> Result<File, HostError> {
    const NAMESPACE: &str = "/proc/thread-self/ns/net";
    let namespace = std::fs::metadata(NAMESPACE);
    let namespace = namespace.map_err(|error| HostError::Lock { lock: NAMESPACE.into(), error })?;
    let path = directory.join(format!("weir-agent-{}-{}.lock", namespace.ino(), interface.index()));
    let failed = |error| HostError::Lock { lock: path.clone(), error };
    std::fs::create_dir_all(directory).map_err(failed)?;
    // Not cut off before it is ours: the holder's process number is in it.
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(HostError::Taken { interface: interface.name().into(), lock: path });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    // For people only; the lock is what counts.
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_an_interface_at_a_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let loopback = Interface::named("lo").expect("lo");
        let first = lock(directory.path(), &loopback).expect("free");
        let second = lock(directory.path(), &loopback).expect_err("taken");
        assert!(second.to_string().starts_with("another agent runs on lo ("), "{second}");
        let HostError::Taken { lock: path, .. } = second else { panic!("{second}") };
        let holder = std::fs::read_to_string(&path).expect("the lock file");
        assert_eq!(holder, format!("{}\n", std::process::id()));
        drop(first);
        drop(lock(directory.path(), &loopback).expect("free again"));
        assert!(path.exists(), "the file stays");
    }
}
