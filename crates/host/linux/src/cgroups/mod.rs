//! Control groups: their hierarchy, the groups that a policy's globs include, and their ids in the programs' map.
//!
//! Problem: filters name control groups by globs over paths, and the kernel's program has the id of a packet's group.
//! Groups come and go while the agent runs. Approach: a [`Watcher`] walks the directories of the hierarchy that may
//! match, writes the id of each group that a glob matches into `weir_cgroups`, with one bit for each glob that includes
//! it, and walks again when inotify reports a new or a deleted directory. Groups below are not written: the programs
//! look up the groups above that of a packet's socket (bpf/cgroup.h).
//!
//! A deleted group stays in the map while there is room: its sockets may still send. Ids are not reused.
//!
//! | module | does |
//! |---|---|
//! | [`hierarchy`] | the mount of cgroup2, and paths in it |
//! | `enter` | a group for a program |
//! | [`walk`] | globs to groups; inotify |
//! | [`table`] | groups to entries of the map, without a packet of another service in between |
//! | [`watcher`] | the thread that repeats both |
//!
//! Worked example: `web: { match: [ { cgroup: /system.slice/web-* } ] }`. The watcher watches `/` and
//! `/system.slice`. `systemctl start web-2` creates a directory; a millisecond later the map has its id.
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst; inotify(7); fs/kernfs/dir.c (ids).

mod enter;
pub mod hierarchy;
pub(crate) mod table;
pub(crate) mod walk;
pub(crate) mod watcher;

use crate::loader::{InterfaceDatapath, LoaderError};
use crate::maps::CgroupMaps;
use aya::maps::MapError;
pub use enter::Entered;
pub use hierarchy::Hierarchy;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use table::Table;
use watcher::Watcher;
use weir_datapath::Classifier;
use weir_datapath::abi::CGROUPS_MAX;
use weir_policy::CgroupGlob;

/// Why control groups cannot be matched.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A host without control groups of version 2.
    #[error(
        "services by control group need version 2, and no cgroup2 file system is mounted or visible (mount -t cgroup2 \
         none /sys/fs/cgroup/unified, beside version 1)"
    )]
    NotMounted,
    /// The process is in a container.
    #[error(
        "{} is not the root of the control groups: this process is in a cgroup namespace, where paths are others; \
         run it in the host's (docker run --cgroupns=host)", .0.display()
    )]
    Namespace(PathBuf),
    /// A kernel whose structures programs cannot read.
    #[error(
        "services by control group need the sockets of received packets, and {0} (CONFIG_DEBUG_INFO_BTF, and no \
         lockdown for confidentiality)"
    )]
    Kernel(&'static str),
    /// The list of mounts, a directory or a file of a control group.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The user's watches are used up, or inotify is not available.
    #[error("watch control groups: {0} (ENOSPC: raise fs.inotify.max_user_watches)")]
    Watch(#[source] io::Error),
    /// More groups than the map has room for.
    #[error("filters by cgroup match {count} control groups, and at most {CGROUPS_MAX} can be followed")]
    TooMany {
        /// Number of groups.
        count: usize,
    },
    /// The map.
    #[error("BPF map: {0}")]
    Map(#[from] MapError),
    /// A fault of the agent.
    #[error("the thread that watches control groups panicked")]
    Thread,
}

/// Whether programs can read the control groups of sockets: the kernel describes its structures, and does not keep its
/// memory secret.
pub(crate) fn sockets_are_readable() -> Result<(), CgroupError> {
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(CgroupError::Kernel("the kernel has no BTF"));
    }
    // Without the file the kernel has no lockdown.
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    match lockdown.contains("[confidentiality]") {
        true => Err(CgroupError::Kernel("the kernel is locked down")),
        false => Ok(()),
    }
}

/// Whether this host can match control groups; otherwise the reason.
pub fn check() -> Result<(), CgroupError> {
    sockets_are_readable()?;
    Hierarchy::find().map(drop)
}

/// The control groups in force on an interface.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CgroupReading {
    /// Groups that a glob matches.
    pub groups: usize,
    /// Why sockets of other groups are not matched, if there are such groups.
    pub missed: Option<String>,
    /// Globs that match no group of this host.
    pub unmatched: Vec<String>,
}

/// The groups of an interface's classifier: the map's entries and the thread that keeps them up to date.
pub(crate) struct CgroupFilters {
    table: Arc<Mutex<Table>>,
    watcher: Option<Watcher>,
    next: Option<Prepared>,
}

/// The groups of a classifier that is about to be put in force.
struct Prepared {
    globs: Vec<CgroupGlob>,
    index: u32,
    /// `None` without globs.
    watcher: Option<Watcher>,
}

impl CgroupFilters {
    /// From the map as an earlier agent left it.
    pub(crate) fn new(maps: CgroupMaps) -> Result<Self, LoaderError> {
        Ok(Self { table: Arc::new(Mutex::new(Table::open(maps.cgroups)?)), watcher: None, next: None })
    }
}

impl InterfaceDatapath {
    /// Resolves the globs of a classifier that [`InterfaceDatapath::set_rules`] is about to put in force, beside those
    /// of the classifier in use, which stays in force and is followed as before, also after an error.
    pub fn prepare_cgroups(&mut self, classifier: &Classifier) -> Result<(), CgroupError> {
        let (globs, index) = (classifier.cgroups(), 1 - self.config.table);
        self.cgroups.next = None;
        let watcher = match globs {
            [] => None,
            _ => {
                sockets_are_readable()?;
                let (hierarchy, table) = (Hierarchy::find()?, &self.cgroups.table);
                watcher::lock(table).begin_change();
                let prepared = Watcher::new(hierarchy, globs, index, Arc::clone(table));
                if prepared.is_err() {
                    watcher::lock(table).abandon_change(index)?;
                }
                Some(prepared?)
            }
        };
        self.cgroups.next = Some(Prepared { globs: globs.to_vec(), index, watcher });
        Ok(())
    }

    /// Whether the globs of this classifier were resolved.
    pub(crate) fn has_prepared(&self, classifier: &Classifier) -> bool {
        let next = self.cgroups.next.as_ref();
        next.is_some_and(|next| next.index == 1 - self.config.table && next.globs == classifier.cgroups())
    }

    /// Follows the groups of the table in use from now on, and removes those of the other one.
    pub(crate) fn follow_cgroups(&mut self) -> Result<(), CgroupError> {
        // The earlier thread would remove the new groups.
        self.cgroups.watcher = None;
        let mut table = watcher::lock(&self.cgroups.table);
        table.end_change();
        match self.cgroups.next.take().and_then(|next| next.watcher) {
            Some(watcher) => self.cgroups.watcher.insert(watcher).start(),
            None => Ok(table.clear()?),
        }
    }

    /// The control groups in force; `None` without filters by cgroup.
    pub fn cgroup_reading(&self) -> Result<Option<CgroupReading>, CgroupError> {
        self.cgroups.watcher.as_ref().map(Watcher::reading).transpose()
    }

    /// An error if the thread that follows control groups has ended.
    pub fn check_cgroups(&self) -> Result<(), CgroupError> {
        self.cgroups.watcher.as_ref().map_or(Ok(()), Watcher::check)
    }
}
