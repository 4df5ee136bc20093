//! The running agent of an interface.
//!
//! Problem: a signal goes to a process number, and the kernel gives the number of a process that has ended to another
//! one. Approach: the number is that of the process that has the agent's lock, and the signal goes to a handle
//! (`pidfd_open`), which stays the handle of one process. The lock is read again after the handle was opened: a process
//! that still has the lock is the one that the handle was opened for.
//!
//! Worked example: the lock has 4711. The agent ends before the handle is opened, and a `sleep` gets 4711. The second
//! reading finds no agent, and the `sleep` gets no signal.

use super::HostError;
use super::lock::{LOCKS, Lock, holder, lock_agent};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::ptr;
use weir_linux::interface::Interface;

/// The lock of an agent, by which [`RunningAgent::of`] finds its process. Dropping it releases it.
#[derive(Debug)]
pub struct AgentLock {
    _lock: Lock,
}

impl AgentLock {
    /// Takes the lock of the agent of an interface, which must exist. A process must not have it before it handles
    /// SIGHUP, which ends other processes.
    pub fn take(interface: &str) -> Result<Self, HostError> {
        let interface = Interface::named(interface)?;
        Ok(Self { _lock: lock_agent(Path::new(LOCKS), &interface)? })
    }
}

/// The process of an agent.
#[derive(Debug)]
pub struct RunningAgent {
    process: u32,
    handle: OwnedFd,
}

impl RunningAgent {
    /// The agent of the interface of this name in the network namespace of this thread; `None` if none runs. The
    /// interface may be absent.
    pub fn of(interface: &str) -> Result<Option<Self>, HostError> {
        Self::within(Path::new(LOCKS), interface)
    }

    fn within(directory: &Path, interface: &str) -> Result<Option<Self>, HostError> {
        let mut found = holder(directory, interface)?;
        while let Some(process) = found {
            let opened = open(process);
            found = holder(directory, interface)?;
            if found != Some(process) {
                continue;
            }
            let handle = opened.map_err(|error| HostError::Process { process, error })?;
            return Ok(Some(Self { process, handle }));
        }
        Ok(None)
    }

    /// The number of the process.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Sends SIGHUP, at which the agent reads its files again. It is an error if the agent has ended.
    pub fn hang_up(&self) -> io::Result<()> {
        let (handle, no_info) = (self.handle.as_raw_fd(), ptr::null::<libc::siginfo_t>());
        // SAFETY: the descriptor is open, and without a siginfo_t the kernel reads no memory.
        match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle, libc::SIGHUP, no_info, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A handle of a process.
fn open(process: u32) -> io::Result<OwnedFd> {
    let process = libc::pid_t::try_from(process).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: plain system call.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    let handle = i32::try_from(handle).ok().filter(|handle| *handle >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just opened the descriptor for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(handle) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_with_the_lock_is_found_and_no_other_process() {
        let directory = tempfile::tempdir().expect("a directory");
        let found = || RunningAgent::within(directory.path(), "lo");
        assert!(found().expect("readable").is_none());
        let lock = lock_agent(directory.path(), &Interface::named("lo").expect("lo")).expect("free");
        assert_eq!(found().expect("readable").map(|agent| agent.process()), Some(std::process::id()));
        // A number that no process has: Linux has at most 2^22 of them.
        std::fs::write(lock.path(), "4194305\n").expect("written");
        let error = found().expect_err("no such process").to_string();
        assert!(error.starts_with("process 4194305, which has the agent's lock: No such process"), "{error}");
        drop(lock);
        assert!(found().expect("readable").is_none());
    }
}
