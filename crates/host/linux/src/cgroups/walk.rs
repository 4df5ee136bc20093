//! From globs to groups: a walk of the directories that may match, and inotify on each directory that has to be listed.
//!
//! Every walk starts at the root and visits all directories that may match: a lost event or an overflow of the queue
//! is made up for by the next walk, and there is no state that may be wrong. Watching a directory that is watched
//! already changes nothing. A directory is watched before it is listed, so a group that appears during the walk is
//! found by it or reported after it. The file system of control groups keeps the watch of a deleted directory, so a
//! walk removes the watches that it did not need.
//!
//! A walk ends at the groups that match: those below are included, and the programs look up the groups above that of
//! a socket (bpf/cgroup.h). So no user to whom a group is delegated can make walks longer by groups below it. A
//! directory that cannot be read or watched is skipped and reported; the others are not affected.
//!
//! Worked example: for `/a/*/c` the walk lists `/` and `/a` and all groups in `/a`, and finds `/a/b/c`, in which it
//! neither lists nor watches anything.

use super::CgroupError;
use super::hierarchy::{Hierarchy, id};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use weir_policy::CgroupGlob;

/// A group that a glob matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its path from the root.
    pub(crate) path: String,
    /// One bit for each glob that includes it, by the glob's index.
    pub(crate) globs: u64,
}

/// The result of a walk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The groups that globs match, by id.
    pub(crate) groups: BTreeMap<u64, Group>,
    /// Why directories were skipped, if any.
    pub(crate) missed: Option<String>,
}

/// The globs that match none of the groups that were found.
pub(crate) fn without_group(groups: &BTreeMap<u64, Group>, globs: &[CgroupGlob]) -> Vec<String> {
    // A glob that includes a group matches it or one above, which was found as well.
    let matched = groups.values().fold(0, |matched, group| matched | group.globs);
    let is_unmatched = |(at, _): &(usize, &CgroupGlob)| matched >> at & 1 == 0;
    globs.iter().enumerate().filter(is_unmatched).map(|(_, glob)| glob.as_str().to_owned()).collect()
}

/// The set of globs that include a group which at least one of them matches, one bit for each; otherwise 0, since the
/// set is that of a group above.
pub(crate) fn set_of(globs: &[CgroupGlob], path: &str) -> u64 {
    if !globs.iter().any(|glob| glob.matches(path)) {
        return 0;
    }
    globs.iter().enumerate().filter(|(_, glob)| glob.includes(path)).fold(0, |bits, (index, _)| bits | 1 << index)
}

/// Finds the groups that globs match. Watches all directories where one may appear or disappear, and no other ones.
///
/// # Errors
/// If the root cannot be listed.
pub(crate) fn walk(hierarchy: &Hierarchy, globs: &[CgroupGlob], inotify: &Inotify) -> Result<Found, CgroupError> {
    let mut groups = BTreeMap::new();
    let (mut watches, mut skipped) = (BTreeSet::new(), Skipped::default());
    let mut pending: Vec<(PathBuf, String)> = vec![(hierarchy.root().to_owned(), "/".to_owned())];
    while let Some((directory, path)) = pending.pop() {
        let set = set_of(globs, &path);
        if set != 0 {
            match id(&directory) {
                Ok(id) => drop(groups.insert(id, Group { path: path.clone(), globs: set })),
                Err(error) => skipped.add(CgroupError::Io { path: directory.clone(), error }),
            }
        }
        if !globs.iter().any(|glob| glob.leads_below(&path)) {
            continue;
        }
        let watched = inotify.watch(&directory);
        let below = match list(&directory) {
            Err(error) if path == "/" => return Err(CgroupError::Io { path: directory, error }),
            Err(error) => {
                skipped.add(CgroupError::Io { path: directory, error });
                continue;
            }
            Ok(below) => below,
        };
        match watched {
            Ok(watch) => drop(watches.insert(watch)),
            Err(error) => skipped.add(CgroupError::Watch(error)),
        }
        for name in below {
            let text = format!("{}/{}", path.trim_end_matches('/'), name.to_string_lossy());
            if globs.iter().any(|glob| glob.matches(&text) || glob.leads_below(&text)) {
                pending.push((directory.join(name), text));
            }
        }
    }
    inotify.keep(watches);
    Ok(Found { groups, missed: skipped.reason() })
}

/// Directories that a walk has skipped.
#[derive(Default)]
struct Skipped {
    first: Option<CgroupError>,
    count: usize,
}

impl Skipped {
    fn add(&mut self, error: CgroupError) {
        // Without an entry or a device the group was deleted meanwhile.
        if let CgroupError::Io { error, .. } | CgroupError::Watch(error) = &error
            && matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
        {
            return;
        }
        self.count += 1;
        self.first.get_or_insert(error);
    }

    fn reason(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(match self.count {
            1 => first.to_string(),
            count => format!("{first}; and {} more", count - 1),
        })
    }
}

/// The names of the groups in a group.
fn list(directory: &Path) -> io::Result<Vec<OsString>> {
    let mut below = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            below.push(entry.file_name());
        }
    }
    Ok(below)
}

/// Events of directories: others were created or deleted in them.
pub(crate) struct Inotify {
    file: OwnedFd,
    /// The watches of the last walk.
    watches: Mutex<BTreeSet<i32>>,
}

impl Inotify {
    pub(crate) fn new() -> Result<Self, CgroupError> {
        // SAFETY: plain system call; the result is checked before it is owned.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if fd < 0 {
            return Err(CgroupError::Watch(io::Error::last_os_error()));
        }
        // SAFETY: `fd` is a new descriptor that nothing else owns.
        Ok(Self { file: unsafe { OwnedFd::from_raw_fd(fd) }, watches: Mutex::default() })
    }

    /// Watches a directory, unless it is watched already, and returns the number of the watch.
    fn watch(&self, directory: &Path) -> io::Result<i32> {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        let events = libc::IN_CREATE | libc::IN_DELETE | libc::IN_ONLYDIR;
        // SAFETY: the path is alive during the call.
        let watch = unsafe { libc::inotify_add_watch(self.as_raw_fd(), path.as_ptr(), events) };
        if watch < 0 { Err(io::Error::last_os_error()) } else { Ok(watch) }
    }

    /// Removes all watches but these.
    fn keep(&self, watches: BTreeSet<i32>) {
        let mut before = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        for watch in before.difference(&watches) {
            // SAFETY: plain system call. It fails if the file system has removed the watch with the directory.
            unsafe { libc::inotify_rm_watch(self.as_raw_fd(), *watch) };
        }
        *before = watches;
    }

    /// Discards the events so far. Their content is not needed: a walk follows.
    pub(crate) fn clear(&self) {
        let mut buffer = [0u8; 4096];
        // SAFETY: the kernel writes at most the buffer's length.
        while unsafe { libc::read(self.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
    }
}

impl AsRawFd for Inotify {
    fn as_raw_fd(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
