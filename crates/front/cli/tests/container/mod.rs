//! A container with the files of this host and a real systemd as its first process.
//!
//! Problem: the maintainer scripts of a package change files of the whole host, and start and stop units by the
//! system's manager. Approach: an overlay of this host's root file system whose changes are in memory; namespaces of
//! its own for mounts, processes, control groups and the host's name; the network namespace of a lab's host; an own
//! file system of BPF. All of it ends with the container's first process.

use crate::common::wait_for;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weir_linux::netns::Netns;

/// Makes the file systems, and becomes systemd. `$1` is an empty directory, `$2` the name of the control group.
///
/// systemd finds its processes below a control group of the container alone. Its targets here want nothing, so that no
/// unit of this host is started, and `/proc/sys` is read-only, since most of it is the host's own. `policy-rc.d`, by
/// which images of containers forbid packages to start units, is absent.
const BEGIN: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$1"
cd "$1"
mkdir upper work root groups
mount -t cgroup2 groups groups
mkdir -p "groups/$2"
echo 0 > "groups/$2/cgroup.procs"
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root
exec unshare --mount --cgroup --uts --pid --fork --kill-child sh -c '
set -e
umount groups
cd root
mount -t proc proc proc
mount --bind -o ro proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf -o mode=700 bpf sys/fs/bpf
for directory in run dev; do mount -t tmpfs -o mode=755 tmpfs $directory; done
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir dev/shm dev/pts run/systemd
ln -s pts/ptmx dev/ptmx
for device in null zero full random urandom tty; do touch dev/$device; mount --bind /dev/$device dev/$device; done
rm -rf etc/systemd/system/* usr/lib/systemd/system/*.target.wants usr/sbin/policy-rc.d
rm -rf var/log/journal etc/weir var/lib/weir
for target in sysinit basic network-online; do echo "[Unit]" > etc/systemd/system/$target.target; done
journal="systemd-journald.socket systemd-journald-dev-log.socket systemd-journald.service"
printf "[Unit]\nWants=$journal\n" > etc/systemd/system/container.target
pivot_root . .
umount -l .
cd /
exec env -i container=weir PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=container.target --log-target=journal
'
"#;

/// The container; ended, with all that runs in it, when dropped.
pub(crate) struct Container {
    process: Child,
    group: String,
    directory: PathBuf,
    /// The first process, by its number on this host.
    systemd: u32,
}

impl Container {
    /// Starts one in `netns`. `directory` must be new: the log is there, and the container's files while it runs.
    pub(crate) fn start(netns: &Netns, directory: &Path) -> Self {
        let root = directory.join("container");
        fs::create_dir_all(&root).expect("made");
        let group = format!("weir-package-{}", std::process::id());
        let log = fs::File::create(directory.join("container.log")).expect("made");
        let mut command = netns.command("unshare").expect("a command");
        command.args(["--mount", "sh", "-c", BEGIN, "sh"]).arg(&root).arg(&group);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("copied")).stderr(log);
        let process = command.spawn().expect("starts");
        let mut container = Self { process, group, directory: directory.to_owned(), systemd: 0 };
        wait_for("systemd", 30, || container.is_up());
        container
    }

    fn is_up(&mut self) -> bool {
        if let Ok(Some(status)) = self.process.try_wait() {
            panic!("the container ended with {status}: {}", self.log());
        }
        let children = format!("/proc/{0}/task/{0}/children", self.process.id());
        let child = fs::read_to_string(children).ok().and_then(|list| list.split_whitespace().next()?.parse().ok());
        self.systemd = child.unwrap_or(0);
        self.systemd != 0 && self.run(&["systemctl", "is-active", "--quiet", "container.target"]).0
    }

    /// What was written before systemd.
    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("container.log")).unwrap_or_default()
    }

    /// A program in the container.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.systemd.to_string(), "--all", "--root", "--wd", "--", program]);
        command.env_clear().envs([("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("LC_ALL", "C.UTF-8"), ("HOME", "/root")]);
        command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command
    }

    /// Whether a command in the container succeeds, and its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.command(arguments[0]).args(&arguments[1..]).output().expect("runs");
        let printed = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
    }

    /// The output of a command in the container, which must succeed.
    pub(crate) fn must(&self, arguments: &[&str]) -> String {
        let (done, output) = self.run(arguments);
        let journal = self.run(&["journalctl", "--no-pager", "-n", "50"]).1;
        assert!(done, "{arguments:?}: {output}\n{journal}\n{}", self.log());
        output
    }

    /// The path by which this host reaches a file of the container.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.systemd))
    }

    /// The paths that differ from this host's: other kinds, owners, permissions or contents, new and deleted ones.
    pub(crate) fn changes(&self) -> BTreeSet<String> {
        // The directory of the process above the first one, in whose mounts the layers are.
        let upper = PathBuf::from(format!("/proc/{}/cwd/upper", self.process.id()));
        let mut changed = BTreeSet::new();
        let mut pending = vec![PathBuf::new()];
        while let Some(below) = pending.pop() {
            for entry in fs::read_dir(upper.join(&below)).expect("a directory of the upper layer") {
                let entry = entry.expect("an entry");
                let path = below.join(entry.file_name());
                if differs(&entry.path(), &Path::new("/").join(&path)) {
                    changed.insert(format!("/{}", path.display()));
                }
                if entry.file_type().expect("a type").is_dir() {
                    pending.push(path);
                }
            }
        }
        changed
    }
}

/// Whether a file of the upper layer differs from the one of the lower layer.
fn differs(upper: &Path, lower: &Path) -> bool {
    let (new, Ok(old)) = (fs::symlink_metadata(upper).expect("in the upper layer"), fs::symlink_metadata(lower)) else {
        return true;
    };
    if (new.mode(), new.uid(), new.gid()) != (old.mode(), old.uid(), old.gid()) {
        return true;
    }
    new.is_file() && fs::read(upper).ok() != fs::read(lower).ok()
        || new.is_symlink() && fs::read_link(upper).ok() != fs::read_link(lower).ok()
}

impl Drop for Container {
    fn drop(&mut self) {
        // With its first process the container ends, and with the process above it the file systems.
        if self.systemd != 0 {
            // SAFETY: plain system call on a descendant, whose parent runs and waits for it.
            unsafe { libc::kill(self.systemd as i32, libc::SIGKILL) };
        } else {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        let script = r#"mount -t cgroup2 groups "$1" && find "$1/$2" -depth -type d -exec rmdir {} +"#;
        let mut remove = Command::new("unshare");
        remove.args(["--mount", "sh", "-c", script, "sh"]).arg(self.directory.join("container")).arg(&self.group);
        let removed = remove.stderr(Stdio::null()).status();
        if !std::thread::panicking() {
            assert!(removed.is_ok_and(|status| status.success()), "the control group {} stays", self.group);
        }
    }
}
