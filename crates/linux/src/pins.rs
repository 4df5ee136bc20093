//! Where the programs and maps of an interface live while no process holds them.
//!
//! Problem: an agent that crashes or is replaced must leave rates in force, and the next one must find what it left.
//! Approach: maps and links are pinned in the BPF file system, in one directory for each interface:
//!
//! ```text
//! /sys/fs/bpf/weir/v1-4026532281-7/        version of the maps, the namespace's inode, the interface's index
//!     weir_config, weir_services, ...      maps
//!     weir_egress, weir_ingress            links (tcx); clsact filters stay by themselves
//! ```
//!
//! The same name in another namespace is another interface, hence the numbers. A directory of another version
//! hands over its links, not its maps. An interface that is gone leaves its directory behind, with links that lead
//! nowhere: [`sweep`] deletes such. Where there are no links (clsact) only the interfaces of the own namespace can be looked at.
//! Agents of one host begin at the same moment, so directories come and go under a lock on the file system's root.
//!
//! Source: bpf(2), BPF_OBJ_PIN; Documentation/filesystems/bpf.

use crate::interface::Interface;
use crate::netns;
use crate::tables::VERSION;
use aya::programs::links::{FdLink, PinnedLink};
use std::ffi::CString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

const BPF_FS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
const ROOT: &str = "/sys/fs/bpf/weir";

/// Why nothing can be pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The file system is not there and cannot be mounted.
    #[error("{BPF_FS} is not mounted and cannot be ({0}); mount -t bpf -o mode=0700 bpf {BPF_FS}")]
    NotMounted(#[source] io::Error),
    /// A directory or file.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> PinError {
    let path = path.to_owned();
    move |error| PinError::Io { path, error }
}

/// The directory of an interface's pins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pins {
    directory: PathBuf,
}

impl Pins {
    /// Of `interface`, in the namespace of the calling thread. Mounts the file system where it is missing.
    pub(crate) fn of(interface: &Interface) -> Result<Self, PinError> {
        mount()?;
        let namespace = netns::current().and_then(|file| file.metadata());
        let inode = namespace.map_err(io_error(Path::new("/proc/thread-self/ns/net")))?.ino();
        Ok(Self { directory: Path::new(ROOT).join(format!("v{VERSION}-{inode}-{}", interface.index())) })
    }

    /// Whether an agent left anything here.
    pub(crate) fn exist(&self) -> bool {
        fs::read_dir(&self.directory).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Removes everything in the directory, which stays.
    pub(crate) fn clear(&self) -> Result<(), PinError> {
        let entries = fs::read_dir(&self.directory).map_err(io_error(&self.directory))?;
        for entry in entries.flatten() {
            fs::remove_file(entry.path()).map_err(io_error(&entry.path()))?;
        }
        Ok(())
    }

    /// Makes the directory, which only its owner may enter, and holds it, as one agent at a time does; `None` while another holds
    /// it. Released with the file.
    pub(crate) fn hold(&self) -> Result<Option<File>, PinError> {
        let _alone = alone()?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.directory).map_err(io_error(&self.directory))?;
        let directory = File::open(&self.directory).map_err(io_error(&self.directory))?;
        match directory.try_lock() {
            Ok(()) => Ok(Some(directory)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(PinError::Io { path: self.directory.clone(), error }),
        }
    }

    /// Where the map or link of this name is pinned.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The pinned link of this name; `None` where there is none.
    pub(crate) fn link(&self, name: &str) -> Option<FdLink> {
        let path = self.path(name);
        path.exists().then(|| PinnedLink::from_pin(&path).ok().map(FdLink::from)).flatten()
    }

    /// Whether the link of this name is pinned and leads to the interface of this index.
    pub(crate) fn leads_to(&self, name: &str, interface: u32) -> bool {
        interface_of(&self.path(name)) == Some(interface)
    }

    /// Removes one pin; what is not there is removed.
    pub(crate) fn unpin(&self, name: &str) -> Result<(), PinError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PinError::Io { path, error }),
            _ => Ok(()),
        }
    }

    /// Removes all pins of this interface; whether there were any. What no process holds ends with them.
    pub(crate) fn remove(&self) -> Result<bool, PinError> {
        let there = self.exist();
        let _alone = alone()?;
        remove(&self.directory)?;
        Ok(there)
    }

    /// The directories of the same interface under other versions of the maps.
    pub(crate) fn of_other_versions(&self) -> Vec<Self> {
        let own = self.directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((_, which)) = own.split_once('-') else { return Vec::new() };
        let same = |name: &str| name != own && name.split_once('-').is_some_and(|(_, other)| other == which);
        directories().into_iter().filter(|(name, _)| same(name)).map(|(_, directory)| Self { directory }).collect()
    }
}

/// Deletes the pins of interfaces that are gone: those with a link that leads to no interface any more, and those without a link
/// whose interface is not in the namespace of the calling thread, which it was in. Returns how many.
pub fn sweep() -> usize {
    let own = netns::current().and_then(|file| file.metadata()).ok().map(|namespace| namespace.ino());
    let dead = |name: &str, directory: &Path| {
        let link = |name: &str| interface_of(&directory.join(name));
        match link("weir_egress").or_else(|| link("weir_ingress")) {
            Some(interface) => interface == 0,
            None => whose(name).is_some_and(|(namespace, index)| Some(namespace) == own && !is_there(index)),
        }
    };
    let Ok(_alone) = alone() else { return 0 };
    let gone = directories().into_iter().filter(|(name, directory)| dead(name, directory));
    // Who holds the directory is about to pin there.
    gone.filter(|(_, directory)| is_free(directory) && remove(directory).is_ok()).count()
}

/// The namespace's inode and the interface's index that a directory is named by.
fn whose(name: &str) -> Option<(u64, u32)> {
    let mut parts = name.rsplitn(3, '-');
    let index = parts.next()?.parse().ok()?;
    Some((parts.next()?.parse().ok()?, index))
}

/// Whether the calling thread's namespace has an interface of this index.
fn is_there(index: u32) -> bool {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: there is room for the longest name.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    // Anything but "no such interface" is no proof.
    !found.is_null() || io::Error::last_os_error().raw_os_error() != Some(libc::ENXIO)
}

/// Whether no agent holds a directory.
fn is_free(directory: &Path) -> bool {
    File::open(directory).is_ok_and(|directory| directory.try_lock().is_ok())
}

/// Deletes the pins of all interfaces of a namespace, which is about to go.
pub(crate) fn remove_of_namespace(inode: u64) {
    let which = format!("-{inode}-");
    // Where there is no such file system there are no pins.
    let Ok(_alone) = alone() else { return };
    for (name, directory) in directories() {
        if name.contains(&which) {
            // What cannot be deleted is found by `sweep` when the interface has gone.
            let _ = remove(&directory);
        }
    }
}

/// The index of the interface that a pinned tcx link leads to, 0 where that is gone; `None` where there is no such link.
fn interface_of(path: &Path) -> Option<u32> {
    const BPF_OBJ_GET: libc::c_long = 7;
    #[repr(C)]
    struct Attributes {
        path: u64,
        fd: u32,
        flags: u32,
    }
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let attributes = Attributes { path: path.as_ptr() as u64, fd: 0, flags: 0 };
    let (pointer, size) = (&raw const attributes, size_of::<Attributes>());
    // SAFETY: reads the attributes and the path that they point to, both alive.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_OBJ_GET, pointer, size) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: a file that was opened just now and belongs to nobody else.
    let link = unsafe { OwnedFd::from_raw_fd(fd) };
    let about = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", link.as_raw_fd())).ok()?;
    about.lines().find_map(|line| line.strip_prefix("ifindex:"))?.trim().parse().ok()
}

fn directories() -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(ROOT) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().into_string().ok()?, entry.path()))
        })
        .collect()
}

fn remove(directory: &Path) -> Result<(), PinError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PinError::Io { path: directory.to_owned(), error })
        }
        _ => {
            // The last interface's goes with it.
            let _ = fs::remove_dir(ROOT);
            Ok(())
        }
    }
}

/// Waits until nobody else on this host makes or deletes directories of pins; ends with the file. It takes microseconds.
fn alone() -> Result<File, PinError> {
    let path = Path::new(BPF_FS);
    let root = File::open(path).map_err(io_error(path))?;
    root.lock().map_err(io_error(path))?;
    Ok(root)
}

/// Mounts the BPF file system where it is not; systemd does so at boot.
fn mount() -> Result<(), PinError> {
    if is_mounted() {
        return Ok(());
    }
    // Of those who begin at the same moment one mounts: this directory is the one below.
    let _alone = alone()?;
    if is_mounted() {
        return Ok(());
    }
    let path = CString::new(Path::new(BPF_FS).as_os_str().as_bytes()).expect("a path without zeros");
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: the strings live during the call; the data is a string of options.
    let mounted =
        unsafe { libc::mount(c"bpf".as_ptr(), path.as_ptr(), c"bpf".as_ptr(), flags, c"mode=0700".as_ptr().cast()) };
    if mounted == 0 { Ok(()) } else { Err(PinError::NotMounted(io::Error::last_os_error())) }
}

fn is_mounted() -> bool {
    let path = CString::new(Path::new(BPF_FS).as_os_str().as_bytes()).expect("a path without zeros");
    // SAFETY: an all-zero statfs is valid, and is filled by the call.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: both point to what lives during the call.
    let told = unsafe { libc::statfs(path.as_ptr(), &raw mut about) } == 0;
    told && about.f_type as i64 == BPF_FS_MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_by_namespace_and_interface() {
        assert_eq!(whose(&format!("v{VERSION}-4026532281-7")), Some((4_026_532_281, 7)));
        for foreign in ["", "v1", "v1-7", "v1-x-7", "v1-4026532281-eth0"] {
            assert_eq!(whose(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn an_interface_is_there_or_not() {
        assert!(is_there(1), "lo");
        assert!(!is_there(0x7fff_fff0));
    }

    #[test]
    fn directories_come_and_go_beside_each_other() {
        // SAFETY: plain system call without arguments.
        if unsafe { libc::geteuid() } != 0 || mount().is_err() {
            return;
        }
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let pins = Pins { directory: Path::new(ROOT).join(format!("v0-1-{thread}")) };
                    for round in 0..2000 {
                        let held = pins.hold().unwrap_or_else(|error| panic!("round {round}: {error}"));
                        assert!(held.is_some() && pins.directory.is_dir(), "round {round}");
                        sweep();
                        assert!(pins.directory.is_dir(), "round {round}: swept while it is held");
                        pins.remove().expect("removed");
                    }
                });
            }
        });
    }
}
