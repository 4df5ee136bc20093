//! Pins of the programs and maps of an interface, which outlive a process.
//!
//! Rates stay in force after a crash or during an upgrade, and the next agent finds programs and
//! maps: they are pinned in the BPF file system, in one directory per interface:
//!
//! ```text
//! /sys/fs/bpf/weir/v3a1d331d2e31c3dc-4026532281-7/   version of the maps, the namespace's inode, the interface's index
//!     weir_config, weir_services, ...      maps
//!     weir_egress, weir_ingress            links (tcx); clsact filters stay by themselves
//!     guest-12, guest-31, ...              links of interfaces of guests, by index
//! ```
//!
//! The version is [`VERSION`](weir_datapath::abi::VERSION), a hash of all definitions of the maps.
//! An agent of another version replaces the programs by their links and discards the maps. A
//! deleted interface leaves its directory behind, with links to no interface: [`sweep`] deletes
//! these, or without links (clsact) the directories of the own namespace whose interface is gone.
//! The pins of a forwarder's port are in a directory of their own, `credits-forwarder-4026532281-7`.
//! Agents of one host may start at the same moment, so directories are created and deleted under a
//! lock on the file system's root.
//!
//! Source: bpf(2), BPF_OBJ_PIN; Documentation/filesystems/bpf.

use crate::guests::marks;
use crate::interface::Interface;
use crate::netns;
use aya::programs::links::{FdLink, PinnedLink};
use std::ffi::CString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use weir_datapath::abi::VERSION;

const BPF_FS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
const ROOT: &str = "/sys/fs/bpf/weir";
/// The start of the name of a directory of a forwarder's port.
const FORWARDER: &str = "credits-forwarder-";
/// The links of an agent to its interface, where its programs are attached by tcx.
pub const AGENT_LINKS: [&str; 2] = ["weir_egress", "weir_ingress"];
/// The links of agents and of forwarders to their interface.
const LINKS: [&str; 4] = [AGENT_LINKS[0], AGENT_LINKS[1], "weir_forward_tx", "weir_forward_rx"];

/// Pins cannot be created or deleted.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The BPF file system is missing and cannot be mounted.
    #[error("{BPF_FS} is not mounted and cannot be ({0}); mount -t bpf -o mode=0700 bpf {BPF_FS}")]
    NotMounted(#[source] io::Error),
    /// A directory or file.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// The system's error.
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
    /// The pins of `interface` in the namespace of the calling thread. Mounts the file system if it is missing.
    pub(crate) fn of(interface: &Interface) -> Result<Self, PinError> {
        mount()?;
        let inode = own_namespace()?;
        Ok(Self { directory: Path::new(ROOT).join(format!("v{VERSION:016x}-{inode}-{}", interface.index())) })
    }

    /// The pins of a forwarder's port. The name keeps them apart from those of agents of any version.
    pub(crate) fn of_forwarder(interface: &Interface) -> Result<Self, PinError> {
        let Self { directory } = Self::of(interface)?;
        let own = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (_, which) = own.split_once('-').unwrap_or_default();
        Ok(Self { directory: Path::new(ROOT).join(format!("{FORWARDER}{which}")) })
    }

    /// A directory of pins in this one, empty, for those that replace the ones here ([`Pins::put_in`]).
    pub(crate) fn inside(&self, name: &str) -> Result<Self, PinError> {
        let inside = Self { directory: self.path(name) };
        inside.discard()?;
        fs::create_dir(&inside.directory).map_err(io_error(&inside.directory))?;
        Ok(inside)
    }

    /// Removes the directory with pins of maps, if it exists.
    pub(crate) fn discard(&self) -> Result<(), PinError> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&self.directory)(error)),
            _ => Ok(()),
        }
    }

    /// Moves a pin to another directory, in place of the one of this name there.
    pub(crate) fn put_in(&self, target: &Self, name: &str) -> Result<(), PinError> {
        fs::rename(self.path(name), target.path(name)).map_err(io_error(&target.path(name)))
    }

    /// Whether there are any pins.
    pub(crate) fn exist(&self) -> bool {
        fs::read_dir(&self.directory).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Removes all pins, but not the directory.
    pub(crate) fn clear(&self) -> Result<(), PinError> {
        let entries = fs::read_dir(&self.directory).map_err(io_error(&self.directory))?;
        for entry in entries.flatten() {
            fs::remove_file(entry.path()).map_err(io_error(&entry.path()))?;
        }
        Ok(())
    }

    /// Creates the directory, with access for its owner only, and locks it, as one agent at a time
    /// does; `None` while it is locked. The file releases the lock.
    pub(crate) fn hold(&self) -> Result<Option<File>, PinError> {
        let _locked = lock()?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.directory).map_err(io_error(&self.directory))?;
        let directory = File::open(&self.directory).map_err(io_error(&self.directory))?;
        match directory.try_lock() {
            Ok(()) => Ok(Some(directory)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(PinError::Io { path: self.directory.clone(), error }),
        }
    }

    /// The path of the map or link of this name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The pinned link of this name, if any.
    pub(crate) fn link(&self, name: &str) -> Option<FdLink> {
        let path = self.path(name);
        path.exists().then(|| PinnedLink::from_pin(&path).ok().map(FdLink::from)).flatten()
    }

    /// Whether the link of this name is pinned and attached to the interface of this index.
    pub(crate) fn leads_to(&self, name: &str, interface: u32) -> bool {
        interface_of(&self.path(name)).is_ok_and(|index| index == interface)
    }

    /// The names of pins that start like this.
    pub(crate) fn names(&self, start: &str) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(start))
            .collect()
    }

    /// Removes one pin, if it exists.
    pub(crate) fn unpin(&self, name: &str) -> Result<(), PinError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PinError::Io { path, error }),
            _ => Ok(()),
        }
    }

    /// Detaches all links and removes all pins of this interface; returns whether there were any. Programs and maps
    /// without another reference end.
    pub(crate) fn remove(&self) -> Result<bool, PinError> {
        let there = self.exist();
        let _locked = lock()?;
        remove(&self.directory)?;
        Ok(there)
    }

    /// The pins of all interfaces of agents, of any version, in the network namespace of this inode.
    pub(crate) fn of_namespace(inode: u64) -> Vec<Self> {
        let is_there = |name: &str| interface_in(name).is_some_and(|(namespace, _)| namespace == inode);
        let all = directories().unwrap_or_default().into_iter();
        all.filter(|(name, _)| is_there(name)).map(|(_, directory)| Self { directory }).collect()
    }

    /// The directories of the same interface under other versions of the maps.
    pub(crate) fn of_other_versions(&self) -> Vec<Self> {
        let own = self.directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((_, which)) = own.split_once('-') else { return Vec::new() };
        let same = |name: &str| name != own && name.split_once('-').is_some_and(|(_, other)| other == which);
        let all = directories().unwrap_or_default().into_iter();
        all.filter(|(name, _)| same(name)).map(|(_, directory)| Self { directory }).collect()
    }
}

/// A kind of daemon that pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// An agent of any version.
    Agent,
    /// A forwarder.
    Forwarder,
}

/// The names of the interfaces with pins of a daemon in the namespace of the calling thread, in the order of their
/// indexes.
///
/// # Errors
/// The namespace cannot be read.
pub fn interfaces(of: Daemon) -> Result<Vec<String>, PinError> {
    let inode = own_namespace()?;
    let index = |name: String| {
        let is_of = name.starts_with(FORWARDER) == (of == Daemon::Forwarder);
        interface_in(&name).filter(|(namespace, _)| is_of && *namespace == inode).map(|(_, index)| index)
    };
    let mut indexes: Vec<u32> =
        directories().unwrap_or_default().into_iter().filter_map(|(name, _)| index(name)).collect();
    indexes.sort_unstable();
    indexes.dedup();
    Ok(indexes.into_iter().filter_map(|index| name_of(index).ok()).collect())
}

/// The directories of pins of agents and forwarders in the namespace of the calling thread, each with the index of its
/// interface; none without the BPF file system.
///
/// # Errors
/// The namespace or the directory of all pins cannot be read.
pub fn of_interfaces() -> Result<Vec<(PathBuf, u32)>, PinError> {
    let own = own_namespace()?;
    let index = |name: &str| interface_in(name).filter(|(namespace, _)| *namespace == own).map(|(_, index)| index);
    let all = directories().map_err(io_error(Path::new(ROOT)))?;
    Ok(all.into_iter().filter_map(|(name, directory)| Some((directory, index(&name)?))).collect())
}

/// Deletes the pins of deleted interfaces: those with a link to no interface, and those without a
/// link of an interface that is missing in its namespace, if that is the calling thread's. Returns
/// how many.
pub fn sweep() -> usize {
    let own = netns::inode().ok();
    let dead = |name: &str, directory: &Path| {
        let link = |name: &str| interface_of(&directory.join(name)).ok();
        match LINKS.iter().find_map(|name| link(name)) {
            Some(interface) => interface == 0,
            None => interface_in(name).is_some_and(|(namespace, index)| Some(namespace) == own && is_gone(index)),
        }
    };
    let Ok(_locked) = lock() else { return 0 };
    let gone = directories().unwrap_or_default().into_iter().filter(|(name, directory)| dead(name, directory));
    // An agent that has locked a directory is about to pin there.
    let release = |(name, directory): (String, PathBuf)| {
        let is_here = interface_in(&name).is_some_and(|(namespace, _)| Some(namespace) == own);
        // Interfaces of guests outlive the one whose pins these are.
        let left = || if is_here { marks::remove_all(&Pins { directory: directory.clone() }) } else { Ok(()) };
        is_free(&directory) && left().is_ok() && remove(&directory).is_ok()
    };
    gone.map(release).filter(|is_removed| *is_removed).count()
}

/// The namespace's inode and the interface's index in a directory's name.
fn interface_in(name: &str) -> Option<(u64, u32)> {
    let mut parts = name.rsplitn(3, '-');
    let index = parts.next()?.parse().ok()?;
    Some((parts.next()?.parse().ok()?, index))
}

/// Whether the calling thread's namespace has no interface of this index.
pub fn is_gone(index: u32) -> bool {
    // Another error proves nothing.
    name_of(index).is_err_and(|error| error.raw_os_error() == Some(libc::ENXIO))
}

/// The inode of the calling thread's namespace.
fn own_namespace() -> Result<u64, PinError> {
    netns::inode().map_err(io_error(Path::new(netns::CURRENT)))
}

/// The name of the interface of this index in the calling thread's namespace.
fn name_of(index: u32) -> io::Result<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has room for the longest name.
    if unsafe { libc::if_indextoname(index, name.as_mut_ptr()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    let bytes: Vec<u8> = name.iter().map(|letter| *letter as u8).take_while(|letter| *letter != 0).collect();
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Whether no agent has locked a directory.
fn is_free(directory: &Path) -> bool {
    File::open(directory).is_ok_and(|directory| directory.try_lock().is_ok())
}

/// Deletes the pins of all interfaces of a namespace that is about to be deleted.
pub(crate) fn remove_of_namespace(inode: u64) {
    let which = format!("-{inode}-");
    // Without the file system there are no pins.
    let Ok(_locked) = lock() else { return };
    for (name, directory) in directories().unwrap_or_default() {
        if name.contains(&which) {
            // `sweep` deletes the rest after the interface is gone.
            let _ = remove(&directory);
        }
    }
}

/// The index of the interface of a pinned tcx link; 0 if the link is detached, as it is once the interface is deleted.
///
/// # Errors
/// [`NotFound`](io::ErrorKind::NotFound) without such a pin, [`Other`](io::ErrorKind::Other) for a pin of another kind,
/// such as a map; otherwise the pin cannot be opened, or its description in `/proc` cannot be read.
pub fn interface_of(pin: &Path) -> io::Result<u32> {
    let link = pinned(pin)?;
    let about = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", link.as_raw_fd()))?;
    let index = about.lines().find_map(|line| line.strip_prefix("ifindex:"));
    index.and_then(|index| index.trim().parse().ok()).ok_or_else(|| io::Error::other("not a link to an interface"))
}

/// Opens a pin.
fn pinned(path: &Path) -> io::Result<OwnedFd> {
    const BPF_OBJ_GET: libc::c_long = 7;
    #[repr(C)]
    struct Attributes {
        path: u64,
        fd: u32,
        flags: u32,
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = Attributes { path: path.as_ptr() as u64, fd: 0, flags: 0 };
    let (pointer, size) = (&raw const attributes, size_of::<Attributes>());
    // SAFETY: the attributes and the path are alive during the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_OBJ_GET, pointer, size) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: a new file descriptor, owned by no other value.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Detaches the program of a pinned link; returns once no packet that arrives later meets it. The deletion of the last
/// pin also detaches it, but at a later time, by a work queue of the kernel. A pin of another kind is left as it is.
fn detach(path: &Path) -> io::Result<()> {
    const BPF_LINK_DETACH: libc::c_long = 34;
    let link = pinned(path)?;
    let attributes = link.as_raw_fd() as u32;
    // SAFETY: the attributes, a file descriptor, are alive during the call.
    match unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_DETACH, &raw const attributes, size_of::<u32>()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// All directories of pins, with their names; none without the BPF file system.
fn directories() -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(ROOT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    Ok(entries.flatten().filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect())
}

fn remove(directory: &Path) -> Result<(), PinError> {
    for pin in fs::read_dir(directory).into_iter().flatten().flatten() {
        // Of maps, and of links to deleted interfaces, there is nothing to detach.
        if interface_of(&pin.path()).is_ok_and(|interface| interface != 0) {
            detach(&pin.path()).map_err(io_error(&pin.path()))?;
        }
    }
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PinError::Io { path: directory.to_owned(), error })
        }
        _ => {
            // Succeeds after the last interface's directory.
            let _ = fs::remove_dir(ROOT);
            Ok(())
        }
    }
}

/// Locks the creation and deletion of directories of pins, for microseconds; the file releases the lock.
fn lock() -> Result<File, PinError> {
    let path = Path::new(BPF_FS);
    let root = File::open(path).map_err(io_error(path))?;
    root.lock().map_err(io_error(path))?;
    Ok(root)
}

/// Mounts the BPF file system if it is missing; systemd mounts it at boot.
fn mount() -> Result<(), PinError> {
    if is_mounted() {
        return Ok(());
    }
    // One of several concurrent agents mounts; the lock is on the directory below the mount.
    let _locked = lock()?;
    if is_mounted() {
        return Ok(());
    }
    let path = CString::new(Path::new(BPF_FS).as_os_str().as_bytes()).expect("a path without zeros");
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: the strings are alive during the call; the data is a string of options.
    let mounted =
        unsafe { libc::mount(c"bpf".as_ptr(), path.as_ptr(), c"bpf".as_ptr(), flags, c"mode=0700".as_ptr().cast()) };
    if mounted == 0 { Ok(()) } else { Err(PinError::NotMounted(io::Error::last_os_error())) }
}

fn is_mounted() -> bool {
    let path = CString::new(Path::new(BPF_FS).as_os_str().as_bytes()).expect("a path without zeros");
    // SAFETY: an all-zero statfs is valid, and is filled by the call.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid during the call.
    let found = unsafe { libc::statfs(path.as_ptr(), &raw mut about) } == 0;
    found && about.f_type as i64 == BPF_FS_MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_name_has_namespace_and_interface() {
        assert_eq!(interface_in(&format!("v{VERSION:016x}-4026532281-7")), Some((4_026_532_281, 7)));
        for foreign in ["", "v1", "v1-7", "v1-x-7", "v1-4026532281-eth0"] {
            assert_eq!(interface_in(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn interface_exists_or_not() {
        assert!(!is_gone(1), "lo");
        assert!(is_gone(0x7fff_fff0));
    }

    #[test]
    fn pins_of_another_kind_lead_to_no_interface() {
        let missing = interface_of(&Path::new(ROOT).join("v0-1-7/no-such-pin")).expect_err("no such pin");
        // SAFETY: plain system call without arguments.
        if unsafe { libc::geteuid() } != 0 || mount().is_err() {
            return;
        }
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        // A directory of the file system is no pin.
        let directory = interface_of(Path::new(BPF_FS)).expect_err("no pin");
        assert_ne!(directory.kind(), io::ErrorKind::NotFound, "{directory}");
    }

    #[test]
    fn directories_are_created_and_swept_concurrently() {
        // SAFETY: plain system call without arguments.
        if unsafe { libc::geteuid() } != 0 || mount().is_err() {
            return;
        }
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let pins = Pins { directory: Path::new(ROOT).join(format!("v0-1-{thread}")) };
                    for round in 0..2000 {
                        let locked = pins.hold().unwrap_or_else(|error| panic!("round {round}: {error}"));
                        assert!(locked.is_some() && pins.directory.is_dir(), "round {round}");
                        sweep();
                        assert!(pins.directory.is_dir(), "round {round}: swept while it is locked");
                        pins.remove().expect("removed");
                    }
                });
            }
        });
    }
}
