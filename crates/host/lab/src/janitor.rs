//! Takes the lab down when the lab itself was killed.
//!
//! Problem: a lab that is killed with SIGKILL cannot delete its namespaces. Approach: it starts a
//! second process, in a session of its own so that Ctrl-C does not reach it, and holds the writing
//! end of a pipe to it. However the lab ends, the kernel closes the pipe; the janitor then deletes
//! the leftovers. After an orderly end it finds none. Processes of the lab die with it by
//! themselves (PR_SET_PDEATHSIG).

use crate::PREFIX;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_linux::netns::{NetnsError, Prefix};

/// The argument of `weir lab` that makes it the janitor.
pub const ARGUMENT: &str = "--janitor";

/// A running janitor; it does its work when this is dropped or the process dies.
pub struct Janitor {
    child: Child,
}

impl Janitor {
    /// Starts one from the program `weir`.
    /// It deletes `directory`, which holds the run's key and logs, as well. It keeps the lab's `lock` too, so
    /// that no other lab begins before it is done.
    pub fn start(weir: &Path, directory: &Path, lock: &File) -> io::Result<Self> {
        let lock = lock.as_raw_fd();
        let mut command = Command::new(weir);
        command.args(["lab", ARGUMENT]).arg(directory).stdin(Stdio::piped()).stdout(Stdio::null());
        // SAFETY: between fork and exec only setsid and fcntl are called, plain system calls; the lock's file is
        // open in the parent, and so in the child, until `spawn` returns.
        unsafe {
            command.pre_exec(move || {
                let session = libc::setsid();
                let kept = libc::fcntl(lock, libc::F_SETFD, 0);
                if session < 0 || kept < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
            });
        }
        Ok(Self { child: command.spawn()? })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        // Closes the pipe; the janitor finishes before the lab reports its end.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The janitor's work: waits for the end of its standard input, then cleans up. Returns the
/// leftovers.
pub fn wait_and_clean(directory: &Path) -> Result<Vec<String>, NetnsError> {
    let mut end = [0; 64];
    let mut input = io::stdin().lock();
    while matches!(input.read(&mut end), Ok(n) if n > 0) {}
    let removed = clean();
    // After an orderly end the directory is gone already.
    let _ = std::fs::remove_dir_all(directory);
    removed
}

/// Deletes the namespaces that earlier labs left behind, with all processes in them. Returns their
/// names.
pub fn clean() -> Result<Vec<String>, NetnsError> {
    Prefix::new(PREFIX)?.cleanup()
}

/// Makes a child die with the thread that started it, and gives it a priority (`nice`, -20 to 19).
pub(crate) fn tie(command: &mut Command, nice: i32) {
    // SAFETY: between fork and exec only prctl and setpriority are called, plain system calls.
    unsafe {
        command.pre_exec(move || {
            let tied = libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let nice = libc::setpriority(libc::PRIO_PROCESS, 0, nice);
            if tied < 0 || nice < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    // Ctrl-C at the terminal is for the lab, which ends its children in order.
    command.process_group(0);
}
