//! A control group for a program: made, entered, and deleted when it is empty.
//!
//! Problem: a host without an orchestrator has no groups of services, and a program that has replaced the process that
//! made its group leaves the group behind. Approach: [`Hierarchy::enter`] marks each group that it makes, and deletes
//! marked groups without processes beside its own. So there is at most one empty group for each program that ended
//! since the last start.
//!
//! Worked example: `enter("/weir/web-12")` deletes `/weir/web-7`, whose program has ended, makes `web-12`, and moves
//! the process into it.
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst (no processes in groups that distribute resources; xattrs).

use super::{CgroupError, Hierarchy};
use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The extended attribute of groups that were made here.
const MARK: &std::ffi::CStr = c"user.weir";

impl Hierarchy {
    /// Moves this process into a group, by its path from the root, and makes the group if there is none.
    pub fn enter(&self, group: &str) -> Result<(), CgroupError> {
        let io_error = |path: &Path| {
            let path = path.to_owned();
            move |error| CgroupError::Io { path, error }
        };
        // Another start would delete this group before it has a process.
        let lock = File::open(self.root()).map_err(io_error(self.root()))?;
        lock.lock().map_err(io_error(self.root()))?;
        let mut directory = self.root().to_owned();
        let mut made = Vec::new();
        let mut entered = Ok(());
        for name in group.split('/').filter(|name| !name.is_empty()) {
            remove_empty(&directory);
            directory.push(name);
            match DirBuilder::new().mode(0o755).create(&directory) {
                Ok(()) => {
                    mark(&directory);
                    made.push(directory.clone());
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    entered = Err(io_error(&directory)(error));
                    break;
                }
            }
        }
        let processes = directory.join("cgroup.procs");
        let entered = entered.and_then(|()| fs::write(&processes, "0").map_err(io_error(&processes)));
        if entered.is_err() {
            made.iter().rev().for_each(|directory| drop(fs::remove_dir(directory)));
        }
        entered
    }
}

/// Deletes the marked groups in a directory that have no process. The kernel keeps those that have one.
fn remove_empty(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let below = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_marked(&below) {
            remove_empty(&below);
            let _ = fs::remove_dir(&below);
        }
    }
}

/// Marks a group. One that cannot be marked stays when its program has ended, as those of other programs do.
fn mark(directory: &Path) {
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return };
    // SAFETY: all pointers are alive during the call, which reads one byte of the value.
    unsafe { libc::setxattr(path.as_ptr(), MARK.as_ptr(), c"1".as_ptr().cast(), 1, 0) };
}

fn is_marked(directory: &Path) -> bool {
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return false };
    // SAFETY: the strings are alive during the call; with size 0 nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), MARK.as_ptr(), std::ptr::null_mut(), 0) >= 0 }
}
