//! The running agent of an interface.
//!
//! Problem: a signal goes to a process number, and the kernel gives the number of a process that has ended to another
//! one. Approach: the number is in the file of the agent's lock, and the signal goes to a handle (`pidfd_open`), which
//! stays the handle of one process. After the handle was opened, the file must still be locked and have the number, and
//! the process must have the file open.
//!
//! Worked example: the file has 4711. The agent ends before the handle is opened, and a `sleep` gets 4711: it does not
//! have the file open, and gets no signal. An agent in a container with a PID namespace of its own writes 1: the host's
//! process 1 does not have the file open either, and the error names the namespace.

use super::HostError;
use super::lock::{Lock, holder, is_locked, lock_agent, pause};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::ptr;
use std::time::Duration;
use weir_linux::interface::Interface;
use weir_linux::locks;

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
        Ok(Self { _lock: lock_agent(Path::new(locks::DIRECTORY), &interface)? })
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
        Self::within(Path::new(locks::DIRECTORY), interface)
    }

    fn within(directory: &Path, interface: &str) -> Result<Option<Self>, HostError> {
        // A new agent has the lock for some microseconds before its number is in the file.
        const ATTEMPTS: u32 = 20;
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            let Some(found) = holder(directory, interface)? else { return Ok(None) };
            let process = found.process;
            let opened = open(process);
            match opened {
                _ if holder(directory, interface)? != Some(found) => continue,
                Ok(handle) if found.has_it_open() => return Ok(Some(Self { process, handle })),
                Ok(_) => refused = Some(HostError::Process { process, error: io::ErrorKind::NotFound.into() }),
                Err(error) => refused = Some(HostError::Process { process, error }),
            }
            pause(Duration::from_millis(5));
        }
        refused.map_or(Ok(None), Err)
    }

    /// Whether another process of Weir changes the interface, as an agent of a version without the agent's lock does.
    pub fn is_of_an_earlier_version(interface: &str) -> Result<bool, HostError> {
        match Interface::named(interface) {
            Ok(interface) => is_locked(Path::new(locks::DIRECTORY), &interface),
            Err(_) => Ok(false),
        }
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
        assert!(error.starts_with("process 4194305 of the agent's lock"), "{error}");
        // A process that lives, as of another PID namespace or after the agent's end.
        let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        std::fs::write(lock.path(), format!("{}\n", other.id())).expect("written");
        let refused = found().expect_err("another process").to_string();
        other.kill().and_then(|()| other.wait()).expect("still alive");
        assert!(refused.contains("another PID namespace"), "{refused}");
        drop(lock);
        assert!(found().expect("readable").is_none());
    }
}
