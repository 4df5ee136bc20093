//! [`Hierarchy`]: the mount of cgroup2 that has the host's root group.
//!
//! The mount is read from the list of mounts, since hosts that still use version 1 have it at
//! `/sys/fs/cgroup/unified`. The root group has the number 1; in a cgroup namespace the mount's root is the
//! namespace's group, with another number, and a policy's paths would name other groups. Roots of other file systems,
//! which may be mounted over it, also have the number 1.
//!
//! Worked example: `30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw` is a mount at `/sys/fs/cgroup`.
//!
//! Source: proc_pid_mountinfo(5); kernel/cgroup/cgroup.c (cgroup_setup_root).

use super::CgroupError;
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const MOUNTS: &str = "/proc/self/mountinfo";
const OWN: &str = "/proc/self/cgroup";
/// The number of the root group.
const ROOT: u64 = 1;

/// The hierarchy of control groups of version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    mount: PathBuf,
}

impl Hierarchy {
    /// The hierarchy that this process has mounted.
    pub fn find() -> Result<Self, CgroupError> {
        let mounts = fs::read(MOUNTS).map_err(|error| CgroupError::Io { path: MOUNTS.into(), error })?;
        Self::among(cgroup2_mounts(&mounts), group)
    }

    /// Any directory in place of the root group.
    #[cfg(test)]
    pub(super) fn at(mount: PathBuf) -> Self {
        Self { mount }
    }

    /// The first of these directories that has the root group, by the id of the group of a directory.
    fn among(mounts: Vec<PathBuf>, group: impl Fn(&Path) -> Option<u64>) -> Result<Self, CgroupError> {
        let mut other = None;
        for mount in mounts {
            match group(&mount) {
                Some(ROOT) => return Ok(Self { mount }),
                Some(_) => other = other.or(Some(mount)),
                // Another mount hides this one.
                None => {}
            }
        }
        Err(other.map_or(CgroupError::NotMounted, CgroupError::Namespace))
    }

    /// The directory of a group, by its path from the root.
    pub fn directory(&self, group: &str) -> PathBuf {
        self.mount.join(group.trim_start_matches('/'))
    }

    /// The path of this process's group.
    pub fn own(&self) -> Result<String, CgroupError> {
        let groups = fs::read_to_string(OWN).map_err(|error| CgroupError::Io { path: OWN.into(), error })?;
        let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
        Ok(own.unwrap_or("/").to_owned())
    }

    /// The directory of the root group.
    pub fn root(&self) -> &Path {
        &self.mount
    }
}

/// The id of the group of a directory, which its processes' sockets have: on kernels of 64 bits the inode's number.
pub(crate) fn id(directory: &Path) -> io::Result<u64> {
    Ok(fs::metadata(directory)?.ino())
}

/// The id of the group of a directory; `None` if it is not in the file system of control groups.
fn group(directory: &Path) -> Option<u64> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    let mut system = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path is alive during the call, which fills the structure if it succeeds.
    let system = unsafe {
        if libc::statfs(path.as_ptr(), system.as_mut_ptr()) != 0 {
            return None;
        }
        system.assume_init()
    };
    if system.f_type == libc::CGROUP2_SUPER_MAGIC { id(directory).ok() } else { None }
}

/// The directories where a list of mounts has cgroup2.
fn cgroup2_mounts(mounts: &[u8]) -> Vec<PathBuf> {
    let one = |line: &[u8]| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        // Optional fields end with `-`.
        let end = fields.iter().position(|field| *field == b"-")?;
        let kind = fields.get(end + 1)?;
        (*kind == b"cgroup2").then(|| unescaped(fields.get(4).copied().unwrap_or_default()))
    };
    mounts.split(|byte| *byte == b'\n').filter_map(one).collect()
}

/// A path of a list of mounts, where blanks and backslashes are octal numbers (`\040`).
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d)));
        match octal {
            Some(digits) => {
                path.push(digits.iter().fold(0u8, |number, digit| number.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = &after[3..];
            }
            None => {
                path.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_version_2_are_found() {
        let list = b"24 1 0:22 / /sys rw - sysfs sysfs rw\n\
            25 24 0:23 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
            30 24 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw\n\
            31 24 0:26 /a\\040b /mnt/with\\040blank\\134 rw - cgroup2 none rw\n\
            truncated";
        let found = [PathBuf::from("/sys/fs/cgroup/unified"), PathBuf::from("/mnt/with blank\\")];
        assert_eq!(cgroup2_mounts(list), found);
        assert_eq!(cgroup2_mounts(b""), Vec::<PathBuf>::new());
    }

    #[test]
    fn hosts_without_the_root_group_are_refused_with_the_reason() {
        let group = |mount: &Path| match mount.to_str() {
            Some("/root") => Some(ROOT),
            Some("/namespace") => Some(4711),
            _ => None,
        };
        let among = |mounts: &[&str]| Hierarchy::among(mounts.iter().map(PathBuf::from).collect(), group);
        assert!(matches!(among(&[]), Err(CgroupError::NotMounted)));
        assert!(matches!(among(&["/hidden"]), Err(CgroupError::NotMounted)));
        let refused = among(&["/hidden", "/namespace"]);
        assert!(matches!(&refused, Err(CgroupError::Namespace(mount)) if mount == "/namespace"), "{refused:?}");
        assert_eq!(among(&["/namespace", "/root"]).expect("found").root(), "/root");
    }

    #[test]
    fn root_of_another_file_system_is_no_group() {
        let proc = Path::new("/proc");
        assert_eq!(id(proc).expect("mounted"), ROOT);
        assert_eq!(group(proc), None);
        assert_eq!(group(Path::new("/nowhere")), None);
    }

    #[test]
    fn paths_are_below_the_mount() {
        let hierarchy = Hierarchy::at("/sys/fs/cgroup".into());
        assert_eq!(hierarchy.directory("/a/b"), Path::new("/sys/fs/cgroup/a/b"));
    }
}
