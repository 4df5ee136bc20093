//! One agent for an interface at a time.
//!
//! Two locks ([`weir_linux::locks`]): that of an interface, by its index, is taken by each process that changes the
//! interface; that of an agent, by the interface's name, is held as long as the agent runs, also while the interface is
//! absent.

use super::HostError;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use weir_linux::interface::Interface;
use weir_linux::{locks, netns};

/// A lock, which one process has at a time. Dropping it releases it and deletes its file; a kill releases it and leaves
/// the file.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Its file.
    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Deleted before the release, so that no other process locks a file of this name that is
        // about to go.
        let _ = fs::remove_file(&self.path);
    }
}

/// The file of a lock, which has the inode of this thread's namespace in its name.
fn file(named: io::Result<PathBuf>) -> Result<PathBuf, HostError> {
    named.map_err(|error| HostError::Lock { lock: netns::CURRENT.into(), error })
}

/// Takes the lock of an interface.
pub(super) fn lock(directory: &Path, interface: &Interface) -> Result<Lock, HostError> {
    acquire(directory, &file(locks::of_interface(directory, interface.index()))?, interface.name())
}

/// Takes the lock that an agent has as long as it runs: [`holder`] finds the agent by it.
pub(super) fn lock_agent(directory: &Path, interface: &Interface) -> Result<Lock, HostError> {
    acquire(directory, &file(locks::of_agent(directory, interface.name()))?, interface.name())
}

/// The attempts to take a lock, and the time between two of them: [`holder`] and [`sweep`] have the lock of a killed
/// agent for some microseconds, which is no agent's.
const ATTEMPTS: u32 = 25;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(2);

fn acquire(directory: &Path, path: &Path, interface: &str) -> Result<Lock, HostError> {
    let failed = |error| HostError::Lock { lock: path.into(), error };
    let mut attempts = 1..ATTEMPTS;
    loop {
        fs::create_dir_all(directory).map_err(failed)?;
        // Not truncated before the lock is taken, since it contains the holder's process number.
        // Only the owner may open it: a process that can open it can lock it and so keep agents
        // out.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = match options.open(path) {
            // The directory was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file.map_err(failed)?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if attempts.next().is_some() => {
                pause(BETWEEN_ATTEMPTS);
                continue;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(HostError::Taken { interface: interface.into(), lock: path.into() });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // The previous holder deletes the file last: a lock on the deleted file is not the lock of
        // this name.
        if is_at(&file, path) {
            let mut lock = Lock { file, path: path.into() };
            // The lock alone decides; the number is for people, and for signals to an agent.
            let written = lock.file.set_len(0).and_then(|()| writeln!(lock.file, "{}", std::process::id()));
            written.map_err(failed)?;
            return Ok(lock);
        }
    }
}

/// Waits for another process to go on.
#[expect(clippy::disallowed_methods, reason = "locks of real processes are released in real time")]
pub(super) fn pause(time: Duration) {
    thread::sleep(time);
}

/// A locked file, and the process number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) process: u32,
    /// Device and inode.
    file: (u64, u64),
}

impl Holder {
    /// Whether the process has the file open, as the one with the lock has: its number in the file may be that of the
    /// agent before, or of a process in another PID namespace.
    pub(super) fn has_it_open(&self) -> bool {
        let Ok(open) = fs::read_dir(format!("/proc/{}/fd", self.process)) else { return false };
        open.flatten().filter_map(|entry| fs::metadata(entry.path()).ok()).any(|file| id(&file) == self.file)
    }
}

/// The agent of an interface of this name; `None` if no agent runs, or if it has not yet written its number.
pub(super) fn holder(directory: &Path, interface: &str) -> Result<Option<Holder>, HostError> {
    let path = file(locks::of_agent(directory, interface))?;
    let failed = |error| HostError::Lock { lock: path.clone(), error };
    loop {
        let Some(mut file) = locks::held(&path).map_err(failed)? else { return Ok(None) };
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        // A locked file that was deleted is the one of an agent that ends.
        if is_at(&file, &path) {
            // Without its line end the number is not complete.
            let Some(process) = text.strip_suffix('\n').and_then(|number| number.parse().ok()) else { return Ok(None) };
            let file = id(&file.metadata().map_err(failed)?);
            return Ok(Some(Holder { process, file }));
        }
    }
}

/// Whether a path still leads to an open file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(held), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
    id(&held) == id(&there)
}

/// The identity of a file: device and inode.
fn id(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Whether a process of this network namespace changes the interface.
pub(super) fn is_locked(directory: &Path, interface: &Interface) -> Result<bool, HostError> {
    let path = file(locks::of_interface(directory, interface.index()))?;
    let held = locks::held(&path).map_err(|error| HostError::Lock { lock: path, error })?;
    Ok(held.is_some())
}

/// Deletes unlocked files of killed agents, and the directory if it is empty then.
pub(super) fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if locks::is_name(name)
            && let Ok(file) = File::open(&path)
            && file.try_lock().is_ok()
            && is_at(&file, &path)
        {
            drop(Lock { file, path });
        }
    }
    let _ = fs::remove_dir(directory);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn only_one_agent_locks_an_interface_at_a_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let loopback = Interface::named("lo").expect("lo");
        let first = lock(directory.path(), &loopback).expect("free");
        let second = lock(directory.path(), &loopback).expect_err("taken");
        assert!(second.to_string().starts_with("another agent runs on lo ("), "{second}");
        let HostError::Taken { lock: path, .. } = second else { panic!("{second}") };
        let holder = fs::read_to_string(&path).expect("the lock file");
        assert_eq!(holder, format!("{}\n", std::process::id()));
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        sweep(directory.path());
        assert!(path.exists(), "it is locked");
        drop(first);
        assert!(!path.exists(), "nothing stays");
        drop(lock(directory.path(), &loopback).expect("free again"));
        // The file of a killed agent goes, and a foreign file stays.
        let other = directory.path().join("agent.json");
        fs::write(&path, "1\n").expect("written");
        fs::write(&other, "{}").expect("written");
        sweep(directory.path());
        assert!(!path.exists() && other.exists());
        fs::remove_file(&other).expect("removed");
        sweep(directory.path());
        assert!(!directory.path().exists(), "an empty directory goes too");
    }

    #[test]
    fn agent_is_found_as_long_as_it_has_its_lock() {
        let directory = tempfile::tempdir().expect("a directory");
        let locks = directory.path().join("locks");
        let found = |name: &str| holder(&locks, name).expect("readable").map(|found| found.process);
        assert_eq!(found("lo"), None, "no directory");
        let loopback = Interface::named("lo").expect("lo");
        let agent = lock_agent(&locks, &loopback).expect("free");
        assert_eq!((found("lo"), found("eth0")), (Some(std::process::id()), None));
        lock_agent(&locks, &loopback).expect_err("one agent at a time");
        // The lock of the interface alone is no agent's: a removal takes it too.
        let path = agent.path.clone();
        drop(agent);
        let removal = lock(&locks, &loopback).expect("free");
        assert_eq!(found("lo"), None);
        drop(removal);
        // The file of a killed agent: its number may be another process's by now.
        fs::write(&path, "1\n").expect("written");
        assert_eq!(found("lo"), None);
        drop(lock_agent(&locks, &loopback).expect("the search has not kept the lock"));
        // An agent that has just taken the lock has not yet written its whole number.
        for text in ["", "12", "12x\n", "0x12\n"] {
            fs::write(&path, text).expect("written");
            let file = File::open(&path).expect("there");
            file.try_lock().expect("free");
            assert_eq!(found("lo"), None, "{text:?}");
        }
    }

    /// A search for the agent of an interface, and a deletion of unlocked files, hold no lock against an agent.
    #[test]
    fn searches_do_not_stop_an_agent() {
        let directory = tempfile::tempdir().expect("a directory");
        let loopback = Interface::named("lo").expect("lo");
        let path = lock_agent(directory.path(), &loopback).expect("free").path.clone();
        let ends = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::SeqCst) {
                    holder(directory.path(), "lo").expect("readable");
                }
            });
            for _ in 0..200 {
                // The file of a killed agent.
                fs::write(&path, "1\n").expect("written");
                drop(lock_agent(directory.path(), &loopback).expect("no other agent"));
            }
            ends.store(true, Ordering::SeqCst);
        });
    }

    #[test]
    fn deleted_files_do_not_give_a_lock_twice() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path().join("locks");
        let loopback = Interface::named("lo").expect("lo");
        let (inside, entered) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        if let Ok(held) = lock(&directory, &loopback) {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                            entered.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(held);
                        }
                        sweep(&directory);
                    }
                });
            }
        });
        assert!(entered.load(Ordering::SeqCst) > 100);
    }
}
