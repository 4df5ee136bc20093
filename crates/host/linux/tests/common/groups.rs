//! Control groups of tests, below `/weir-tests`, which are deleted at the end of a test, also when it fails.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use weir_linux::cgroups::{self, Hierarchy};

/// True, with a line of output with the reason, if this host has no control groups of version 2.
pub(crate) fn skipped() -> bool {
    let missing = match cgroups::check() {
        Err(error) => error.to_string(),
        Ok(()) => {
            let all = Hierarchy::find().expect("checked").directory("/weir-tests");
            match fs::create_dir_all(&all) {
                Ok(()) => return false,
                Err(error) => format!("{}: {error}", all.display()),
            }
        }
    };
    assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set: {missing}");
    std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {missing}\n").as_bytes()).expect("written");
    true
}

/// The groups of one test.
pub(crate) struct Groups {
    hierarchy: Hierarchy,
    path: String,
}

impl Groups {
    /// `test` makes the group unique among tests that run at the same time.
    pub(crate) fn new(test: &str) -> Self {
        let hierarchy = Hierarchy::find().expect("checked by skipped()");
        let groups = Self { hierarchy, path: format!("/weir-tests/{}-{test}", std::process::id()) };
        fs::create_dir_all(groups.directory("")).expect("a control group");
        groups
    }

    /// The path of a group from the root; `""` is the test's.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.path).trim_end_matches('/').to_owned()
    }

    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        self.hierarchy.directory(&self.path(name))
    }

    pub(crate) fn make(&self, name: &str) {
        fs::create_dir_all(self.directory(name)).expect("a control group");
    }

    pub(crate) fn delete(&self, name: &str) {
        // The kernel takes a process out of its group some time after its end.
        let deleted = || fs::remove_dir(self.directory(name));
        assert!((0..500).any(|_| super::later(deleted().is_ok())), "{:?}", deleted());
    }

    /// Runs work while this process is in a group: sockets that it creates belong to the group for good.
    pub(crate) fn within<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        static MOVES: Mutex<()> = Mutex::new(());
        let _moves = MOVES.lock().unwrap_or_else(PoisonError::into_inner);
        let own = fs::read_to_string("/proc/self/cgroup").expect("the process's groups");
        let own = own.lines().find_map(|line| line.strip_prefix("0::")).expect("a group of version 2").to_owned();
        let enter = |directory: &Path| fs::write(directory.join("cgroup.procs"), std::process::id().to_string());
        enter(&self.directory(name)).expect("the process moves");
        let result = work();
        enter(&self.hierarchy.directory(&own)).expect("the process moves back");
        result
    }

    /// Makes a command start in a group.
    pub(crate) fn start_in(&self, name: &str, command: &mut Command) {
        let processes = self.directory(name).join("cgroup.procs");
        // SAFETY: opens and writes a file between fork and exec; the path exists already.
        unsafe { command.pre_exec(move || fs::write(&processes, "0")) };
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        remove(&self.directory(""));
        // The last test of all processes.
        let _ = fs::remove_dir(self.hierarchy.directory("/weir-tests"));
    }
}

/// Removes a group and those below it; one that still has processes stays.
fn remove(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = (0..200).any(|_| super::later(fs::remove_dir(directory).is_ok()));
}
