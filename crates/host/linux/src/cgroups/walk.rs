//! From globs to groups: a walk of the directories that may match, and inotify on each of them.
//!
//! Every walk starts at the root and visits all directories that may match: a lost event or an overflow of the queue
//! is made up for by the next walk, and there is no state that may be wrong. Watching a directory that is watched
//! already changes nothing. A directory is watched before it is listed, so a group that appears during the walk is
//! found by it or reported after it.
//!
//! Worked example: for `/a/*/c` the walk lists `/` and visits `/a`; it lists `/a` and visits all groups there; of
//! those it visits `c` and everything below. The group `/a/b/c/d` has the glob's bit.

use super::CgroupError;
use super::hierarchy::{Hierarchy, id};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use weir_policy::CgroupGlob;

/// A group that a glob includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its path from the root.
    pub(crate) path: String,
    /// One bit for each glob that includes it, by the glob's index.
    pub(crate) globs: u64,
}

/// The set of globs that include a group, one bit for each.
pub(crate) fn including(globs: &[CgroupGlob], path: &str) -> u64 {
    globs.iter().enumerate().filter(|(_, glob)| glob.includes(path)).fold(0, |bits, (index, _)| bits | 1 << index)
}

/// The groups that globs include, by id. Watches all directories where one may appear or disappear.
pub(crate) fn walk(
    hierarchy: &Hierarchy,
    globs: &[CgroupGlob],
    inotify: &Inotify,
) -> Result<BTreeMap<u64, Group>, CgroupError> {
    let mut groups = BTreeMap::new();
    let mut pending: Vec<(PathBuf, String)> = vec![(hierarchy.root().to_owned(), "/".to_owned())];
    while let Some((directory, path)) = pending.pop() {
        match visit(&directory, inotify) {
            Ok((id, below)) => {
                let bits = including(globs, &path);
                if bits != 0 {
                    groups.insert(id, Group { path: path.clone(), globs: bits });
                }
                for name in below {
                    let text = format!("{}/{}", path.trim_end_matches('/'), name.to_string_lossy());
                    if globs.iter().any(|glob| glob.leads_below(&text)) {
                        pending.push((directory.join(name), text));
                    }
                }
            }
            // The group was deleted meanwhile.
            Err(CgroupError::Io { error, .. } | CgroupError::Watch(error)) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(groups)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

/// The id of a group, and the names of the groups in it.
fn visit(directory: &Path, inotify: &Inotify) -> Result<(u64, Vec<std::ffi::OsString>), CgroupError> {
    let io_error = |error| CgroupError::Io { path: directory.to_owned(), error };
    inotify.watch(directory)?;
    let mut below = Vec::new();
    for entry in fs::read_dir(directory).map_err(io_error)? {
        let entry = entry.map_err(io_error)?;
        if entry.file_type().map_err(io_error)?.is_dir() {
            below.push(entry.file_name());
        }
    }
    Ok((id(directory).map_err(io_error)?, below))
}

/// Events of directories: others were created or deleted in them.
pub(crate) struct Inotify(OwnedFd);

impl Inotify {
    pub(crate) fn new() -> Result<Self, CgroupError> {
        // SAFETY: plain system call; the result is checked before it is owned.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if fd < 0 {
            return Err(CgroupError::Watch(io::Error::last_os_error()));
        }
        // SAFETY: `fd` is a new descriptor that nothing else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches a directory, unless it is watched already.
    fn watch(&self, directory: &Path) -> Result<(), CgroupError> {
        let path = CString::new(directory.as_os_str().as_bytes()).map_err(|error| CgroupError::Watch(error.into()))?;
        let events = libc::IN_CREATE | libc::IN_DELETE | libc::IN_ONLYDIR;
        // SAFETY: the path is alive during the call.
        let watch = unsafe { libc::inotify_add_watch(self.0.as_raw_fd(), path.as_ptr(), events) };
        if watch < 0 { Err(CgroupError::Watch(io::Error::last_os_error())) } else { Ok(()) }
    }

    /// Discards the events so far. Their content is not needed: a walk follows.
    pub(crate) fn clear(&self) {
        let mut buffer = [0u8; 4096];
        // SAFETY: the kernel writes at most the buffer's length.
        while unsafe { libc::read(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
    }
}

impl AsRawFd for Inotify {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories that stand for groups, removed at the end.
    struct Tree(PathBuf);

    impl Tree {
        fn new() -> Self {
            let root = std::env::temp_dir().join(format!("weir-walk-{}", std::process::id()));
            fs::create_dir_all(&root).expect("a directory");
            Self(root)
        }
        fn make(&self, path: &str) -> u64 {
            let directory = self.0.join(path);
            fs::create_dir_all(&directory).expect("a directory");
            id(&directory).expect("it exists")
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Whether events have arrived; takes them.
    fn events(inotify: &Inotify) -> bool {
        let mut file = libc::pollfd { fd: inotify.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one file, which is valid during the call.
        let ready = unsafe { libc::poll(&raw mut file, 1, 0) } == 1;
        inotify.clear();
        ready
    }

    #[test]
    fn walk_finds_groups_and_reports_those_that_come_and_go() {
        let tree = Tree::new();
        let hierarchy = Hierarchy::at(tree.0.clone());
        let globs = ["/a/web-*", "/a/web-1/x", "/*/db"].map(|text| CgroupGlob::new(text).expect("a glob"));
        let inotify = Inotify::new().expect("inotify");
        let mut expected = BTreeMap::new();
        let mut expect = |id, path: &str, globs| drop(expected.insert(id, Group { path: path.to_owned(), globs }));
        tree.make("a");
        fs::write(tree.0.join("a/web-file"), "no group").expect("a file");
        expect(tree.make("a/web-1"), "/a/web-1", 0b001);
        expect(tree.make("a/web-1/x"), "/a/web-1/x", 0b011);
        expect(tree.make("b/db"), "/b/db", 0b100);
        tree.make("b/other/below");
        let walk = || walk(&hierarchy, &globs, &inotify).expect("it reads");
        assert_eq!(walk(), expected);
        assert!(!events(&inotify));
        let new = tree.make("c/db");
        assert!(events(&inotify), "in the root");
        expected.insert(new, Group { path: "/c/db".to_owned(), globs: 0b100 });
        assert_eq!(walk(), expected);
        tree.make("b/other/below/db");
        assert!(!events(&inotify), "no glob leads there");
        fs::remove_dir(tree.0.join("a/web-1/x")).expect("removed");
        assert!(events(&inotify), "in a group");
        expected.retain(|_, group| group.path != "/a/web-1/x");
        assert_eq!(walk(), expected);
    }
}
