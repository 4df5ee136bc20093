//! The disposition of SIGPIPE that this process was started with, for a program that replaces it.
//!
//! Problem: a program may be started with SIGPIPE ignored, as systemd starts all of a unit (`IgnoreSIGPIPE=`), and has
//! to find it so. Rust's runtime ignores the signal before `main`, and [`Command::exec`](CommandExt::exec) sets it to
//! the default. Approach: a function that the C library calls before the runtime starts (`.init_array`) reads the
//! disposition, and [`restore`] sets it between that reset and the call of exec.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the process was started with SIGPIPE ignored.
static IGNORED: AtomicBool = AtomicBool::new(false);

// SAFETY: the section is an array of functions of this type; ignoring the arguments of each is allowed by all ABIs of
// Linux.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

/// Calls one function of the system and no other code, since nothing of Rust's runtime is there yet.
extern "C" fn record() {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with no new action the call writes the present one, if it succeeds.
    let is_ignored = unsafe {
        libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    };
    IGNORED.store(is_ignored, Ordering::Relaxed);
}

/// Makes a command start with the disposition of SIGPIPE that this process was started with.
pub(crate) fn restore(command: &mut Command) -> &mut Command {
    if !IGNORED.load(Ordering::Relaxed) {
        return command;
    }
    let ignore = || {
        // SAFETY: plain system call.
        match unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) } {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: the closure calls one function, which is safe in a signal handler and so after fork.
    unsafe { command.pre_exec(ignore) }
}
