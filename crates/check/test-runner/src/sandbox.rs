//! The namespaces of a real-time test.
//!
//! Problem: tests name network namespaces, pin maps and lock files at fixed paths, so two that run
//! at the same time would collide. Approach: each test has a network, mount and process namespace
//! of its own. `/run` (named namespaces, the lab's lock, agents' locks) is a new tmpfs,
//! `/sys/fs/bpf` a new BPF file system. With the first process of the process namespace all others
//! end, so that nothing outlives its test. Without root there are no namespaces; tests that need
//! them print `skipped:` then.
//!
//! Source: unshare(1), pid_namespaces(7), mount_namespaces(7).

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Run by the shell that is the first process in the namespaces. It does not become the test: to
/// process 1 the kernel delivers no signal that it does not handle, and a test may send itself one.
const ENTER: &str = r#"
set -e
mount -t tmpfs -o mode=755 tmpfs /run
# The host's is unmounted first, so that a test that unmounts its own finds nothing below.
while umount -l /sys/fs/bpf 2>/dev/null; do :; done
if [ -d /sys/fs/bpf ]; then mount -t bpf -o mode=0700 bpf /sys/fs/bpf; fi
ip link set lo up
set +e
"$@"
exit $?
"#;

/// A command that runs `program` in namespaces of its own.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
        "sh",
        "-c",
        ENTER,
        "sh",
    ]);
    command.arg(program);
    command
}

/// Whether this process may make such namespaces, by trying: root in a container may not.
pub(crate) fn is_possible() -> bool {
    let tried = command("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}
