//! Other programs that keep processors busy, to prove that the tests do not need an idle machine.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// The argument that turns this program into one that computes for ever.
pub(crate) const ARGUMENT: &str = "--spin";

/// Ended when dropped.
pub(crate) struct Busy(Vec<Child>);

impl Busy {
    /// Starts programs that each compute for ever.
    pub(crate) fn start(count: u32) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let start = |_| {
            let mut command = Command::new(&program);
            command.arg(ARGUMENT).stdin(Stdio::null());
            // SAFETY: between fork and exec only prctl is called, a plain system call.
            unsafe { command.pre_exec(end_with_parent) };
            command.spawn()
        };
        (0..count).map(start).collect::<io::Result<_>>().map(Self)
    }
}

fn end_with_parent() -> io::Result<()> {
    // SAFETY: plain system call.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It has ended already, or ends now.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Computes until it is killed.
pub(crate) fn spin() -> ! {
    let mut value = 1u64;
    loop {
        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
