//! A control group for a program: made, entered, and deleted when it is empty.
//!
//! Problem: a host without an orchestrator has no groups of services, and a program that has replaced the process that
//! made its group leaves the group behind. Approach: [`Hierarchy::enter`] marks each group that it made, and deletes
//! marked groups without processes beside its own. So there is at most one empty group for each program that ended
//! since the last start. Its own group and the groups above stay, with the limits that someone has set on them.
//!
//! Several starts at a time need no lock, which a process could keep from the others. The kernel deletes no group that
//! has a process, and a group is marked when it has one. A start whose group was there before, marked and empty, may
//! lose it to another one: it makes the group again.
//!
//! Worked example: `enter("/weir/web-12")` deletes `/weir/web-7`, whose program has ended, makes `web-12`, and moves
//! the process into it.
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst (no processes in groups that distribute resources; xattrs).

use super::{CgroupError, Hierarchy};
use std::ffi::{CString, OsStr};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The extended attribute of groups that were made here.
const MARK: &std::ffi::CStr = c"user.weir";
/// The file of a group that has its processes.
const PROCESSES: &str = "cgroup.procs";
/// Every user may enter and list a group, as those that systemd makes, whatever the umask is.
const MODE: u32 = 0o755;
/// A start loses its group only to another one that lists the directory in the same microseconds.
const TRIES: usize = 20;

/// A group that this process has entered.
#[must_use]
#[derive(Debug)]
pub struct Entered {
    /// The directory of the group before.
    former: Option<PathBuf>,
    /// The directories that were made, those below last.
    made: Vec<PathBuf>,
}

impl Entered {
    /// Moves the process back, and deletes the groups that were made. What is not permitted is left.
    pub fn leave(self) {
        if let Some(former) = &self.former {
            let _ = join(former);
        }
        remove(&self.made);
    }
}

impl Hierarchy {
    /// Moves this process into a group, by its path from the root, and makes the group if there is none.
    pub fn enter(&self, group: &str) -> Result<Entered, CgroupError> {
        let former = self.own().ok().map(|own| self.directory(&own));
        let mut made = Vec::new();
        let mut entered = self.make_and_join(group, &mut made);
        for _ in 1..TRIES {
            match &entered {
                Err(CgroupError::Io { error, .. }) if is_gone(error) => entered = self.make_and_join(group, &mut made),
                _ => break,
            }
        }
        match entered {
            Ok(()) => {
                made.iter().for_each(|directory| mark(directory));
                Ok(Entered { former, made })
            }
            Err(error) => {
                remove(&made);
                Err(error)
            }
        }
    }

    /// One try; adds the directories that it makes to `made`.
    fn make_and_join(&self, group: &str, made: &mut Vec<PathBuf>) -> Result<(), CgroupError> {
        let mut directory = self.root().to_owned();
        for name in group.split('/').filter(|name| !name.is_empty()) {
            remove_empty(&directory, Some(OsStr::new(name)));
            directory.push(name);
            let created = match fs::create_dir(&directory) {
                Ok(()) => {
                    if !made.contains(&directory) {
                        made.push(directory.clone());
                    }
                    fs::set_permissions(&directory, Permissions::from_mode(MODE))
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                Err(error) => Err(error),
            };
            created.map_err(|error| CgroupError::Io { path: directory.clone(), error })?;
        }
        join(&directory).map_err(|error| CgroupError::Io { path: directory.join(PROCESSES), error })
    }
}

/// Moves this process into the group of a directory.
fn join(directory: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(directory.join(PROCESSES))?.write_all(b"0")
}

/// Whether another start has deleted the group, or one above it.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

/// Deletes groups, those below first, which are the last ones.
fn remove(made: &[PathBuf]) {
    made.iter().rev().for_each(|directory| drop(fs::remove_dir(directory)));
}

/// Deletes the marked groups in a directory that have no process, except one. The kernel keeps those that have one.
fn remove_empty(directory: &Path, except: Option<&OsStr>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let below = entry.path();
        let is_other = except != Some(&entry.file_name());
        if is_other && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_marked(&below) {
            remove_empty(&below, None);
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
