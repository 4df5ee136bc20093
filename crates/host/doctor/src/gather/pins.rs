//! Pins of agents in the BPF file system, without a change of them ([`weir_linux::pins`]).
//!
//! A directory `VERSION-NAMESPACE-INDEX` has the pins of an interface. Links to it are there where programs are
//! attached by tcx; with clsact there is none, and the agent's status has its own check.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/bpf/weir";
const NAMESPACE: &str = "/proc/thread-self/ns/net";
/// The links of an agent.
const LINKS: [&str; 2] = ["weir_egress", "weir_ingress"];

/// The inode of the network namespace of the calling thread.
pub(super) fn namespace() -> io::Result<u64> {
    Ok(fs::metadata(NAMESPACE)?.ino())
}

/// The directories of this namespace, with the indexes of their interfaces.
fn directories() -> Result<Vec<(PathBuf, u32)>, String> {
    let own = namespace().map_err(|error| format!("{NAMESPACE}: {error}"))?;
    let entries = match fs::read_dir(ROOT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| format!("{ROOT}: {error}"))?,
    };
    let index = |path: &Path| {
        let mut parts = path.file_name()?.to_str()?.rsplitn(3, '-');
        let index = parts.next()?.parse().ok()?;
        (parts.next()?.parse() == Ok(own)).then_some(index)
    };
    Ok(entries.flatten().filter_map(|entry| Some((entry.path(), index(&entry.path())?))).collect())
}

/// The indexes of interfaces that are gone and have pins.
pub(super) fn of_gone() -> Result<Vec<u32>, String> {
    let mut gone: Vec<u32> =
        directories()?.into_iter().map(|(_, index)| index).filter(|index| is_gone(*index)).collect();
    gone.sort_unstable();
    gone.dedup();
    Ok(gone)
}

/// Whether the kernel has no interface of this index in the namespace of the calling thread.
fn is_gone(index: u32) -> bool {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has room for the longest name.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    found.is_null() && io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO)
}

/// The pinned links of an interface's agents that do not lead to it; none if programs are not attached by links.
pub(super) fn detached(interface: u32) -> Result<Vec<String>, String> {
    let mut detached = Vec::new();
    for (directory, _) in directories()?.into_iter().filter(|(_, index)| *index == interface) {
        let links: Vec<PathBuf> = LINKS.iter().map(|name| directory.join(name)).collect();
        if !links.iter().any(|link| link.exists()) {
            continue;
        }
        for link in links {
            let leads_to = match interface_of(&link) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                leads_to => Some(leads_to.map_err(|error| format!("{}: {error}", link.display()))?),
            };
            if leads_to != Some(interface) {
                detached.push(link.file_name().unwrap_or_default().to_string_lossy().into_owned());
            }
        }
    }
    Ok(detached)
}

/// The index of the interface of a pinned link, 0 if it is detached.
fn interface_of(path: &Path) -> io::Result<u32> {
    const BPF_OBJ_GET: libc::c_long = 7;
    #[repr(C)]
    struct Attributes {
        path: u64,
        fd: u32,
        flags: u32,
    }
    let text = CString::new(path.as_os_str().as_bytes())?;
    let attributes = Attributes { path: text.as_ptr() as u64, fd: 0, flags: 0 };
    // SAFETY: the attributes and the path are alive during the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_OBJ_GET, &raw const attributes, size_of::<Attributes>()) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: a new file descriptor, owned by no other value.
    let link = unsafe { OwnedFd::from_raw_fd(fd) };
    let about = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", link.as_raw_fd()))?;
    let index = about.lines().find_map(|line| line.strip_prefix("ifindex:"));
    index.and_then(|index| index.trim().parse().ok()).ok_or_else(|| io::Error::other("not a link to an interface"))
}
