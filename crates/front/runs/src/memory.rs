//! The available memory.
//!
//! Problem: a network that is too large must be refused before it is built, and the program's own
//! bounds may be tighter than the machine's: a container or a batch system kills a process that
//! grows beyond them. Approach: the minimum of three values. The machine's available memory is
//! `MemAvailable` of proc_meminfo(5). The control groups' is the difference of `memory.max` and
//! `memory.current` of Linux's cgroup-v2 documentation (`memory.limit_in_bytes` and
//! `memory.usage_in_bytes` of version 1), without the group's cached files, which the kernel
//! releases on demand. The limit on the address space is that of getrlimit(2), as
//! proc_pid_limits(5) and proc_pid_statm(5) show it.
//!
//! Worked example: a machine with 22 GB available, in a container that may take 4 GB and has 1 GB, of which 0.4 GB are
//! files: 3.4 GB.

use std::path::{Path, PathBuf};
use weir_units::Bytes;

/// The memory that this program can take without swapping or kills; None if the system does not
/// report it.
pub fn available() -> Option<Bytes> {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = available_of(&text("/proc/meminfo"));
    let group = left_of_groups(Path::new("/sys/fs/cgroup"), &text("/proc/self/cgroup"));
    let own = left_of_limit(&text("/proc/self/limits"), &text("/proc/self/statm"));
    [machine, group, own].into_iter().flatten().min().map(Bytes::new)
}

/// `MemAvailable` of `/proc/meminfo`, which counts in kibibytes.
fn available_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The remainder of the limit on the address space. `statm` begins with the pages in use.
fn left_of_limit(limits: &str, statm: &str) -> Option<u64> {
    // The page size of all supported processors; a larger one makes the estimate too high by the
    // memory in use at the start.
    const PAGE: u64 = 4096;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let pages: u64 = statm.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(pages.saturating_mul(PAGE)))
}

/// The smallest remainder of the control groups above this process; `membership` is
/// `/proc/self/cgroup`.
fn left_of_groups(root: &Path, membership: &str) -> Option<u64> {
    let mut least = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mount, files) = match controllers {
            "" => (root.to_owned(), ["memory.max", "memory.current"]),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), ["memory.limit_in_bytes", "memory.usage_in_bytes"])
            }
            _ => continue,
        };
        // Inside a container the path may be the host's: then only the mount itself exists, which
        // is the container's group.
        let mut group: PathBuf = mount.join(path.trim_start_matches('/'));
        loop {
            least = least.into_iter().chain(left_of_group(&group, files)).min();
            if group == mount || !group.pop() {
                break;
            }
        }
    }
    least
}

/// The remainder of one group; None if it has no limit.
fn left_of_group(group: &Path, [limit, used]: [&str; 2]) -> Option<u64> {
    let text = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let stat = text("memory.stat").unwrap_or_default();
    let files = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")).and_then(|n| n.parse().ok());
    let used = number(used)?.saturating_sub(files.unwrap_or(0));
    Some(number(limit)?.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn available_memory_of_the_machine_is_read() {
        let text = "MemTotal:       24637316 kB\nMemFree:        15728640 kB\nMemAvailable:   23068672 kB\n";
        assert_eq!(available_of(text), Some(23_068_672 * 1024));
        assert_eq!(available_of("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn limit_on_the_address_space_is_read() {
        let limits = |soft: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max address space         {soft:<20} unlimited            bytes     \n"
            )
        };
        assert_eq!(left_of_limit(&limits("2048000000"), "1000 10 7 1 0 3 0\n"), Some(2_048_000_000 - 4_096_000));
        assert_eq!(left_of_limit(&limits("4096"), "1000 10\n"), Some(0));
        assert_eq!(left_of_limit(&limits("unlimited"), "1000 10\n"), None);
        assert_eq!(left_of_limit("", ""), None);
    }

    #[test]
    fn tightest_group_counts() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let group = |path: &str, files: &[(&str, &str)]| {
            fs::create_dir_all(root.join(path)).expect("made");
            files.iter().for_each(|(name, text)| fs::write(root.join(path).join(name), text).expect("written"));
        };
        assert_eq!(left_of_groups(root, "0::/a/b\n"), None);
        group("a/b", &[("memory.max", "max\n"), ("memory.current", "1000\n")]);
        assert_eq!(left_of_groups(root, "0::/a/b\n"), None);
        group("a", &[("memory.max", "5000\n"), ("memory.current", "2000\n")]);
        assert_eq!(left_of_groups(root, "0::/a/b\n"), Some(3000));
        group("a", &[("memory.stat", "anon 900\ninactive_file 600\nactive_file 500\n")]);
        assert_eq!(left_of_groups(root, "0::/a/b\n"), Some(3600));
        // A container's own group, mounted as the root.
        assert_eq!(left_of_groups(&root.join("a"), "0::/somewhere/else\n"), Some(3600));
        group("memory/c", &[("memory.limit_in_bytes", "900\n"), ("memory.usage_in_bytes", "1000\n")]);
        let both = "3:cpu,cpuacct:/\n4:memory:/c\n0::/a/b\n";
        assert_eq!(left_of_groups(root, both), Some(0));
        assert_eq!(left_of_groups(root, "nonsense\n9:pids:/x\n"), None);
    }
}
