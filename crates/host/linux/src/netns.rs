//! Network namespaces for the lab and the tests: make, enter, run inside, clean up.
//!
//! Problem: a lab is many hosts on one kernel; when it crashes, namespaces and processes stay behind; and code
//! in one process must act inside one namespace without moving the rest of the process. Approach: every name
//! starts with the lab's [`Prefix`], and nothing without it is ever touched; a closure runs on a thread of
//! its own that enters the namespace and ends there; a child enters between fork and exec.
//!
//! Worked example: with the prefix `wl7`, `prefix.create("m1")` makes `/run/netns/wl7-m1`;
//! `netns.run(|| Interface::named("lo"))` looks in there; `prefix.cleanup()` kills whatever still runs in any
//! `wl7-*` and deletes it.
//!
//! Source: namespaces(7), setns(2), ip-netns(8).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file of the namespace of the calling thread.
pub const CURRENT: &str = "/proc/thread-self/ns/net";
/// Where `ip netns` keeps names.
const NAMES: &str = "/run/netns";

/// Why a namespace cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// Not a name that only a lab would use.
    #[error("`{0}` is not a prefix for namespaces: 2 to 8 lower-case letters and digits, a letter first")]
    Prefix(String),
    /// Not a name that stays inside the directory of names.
    #[error("`{0}` is not a name for a namespace: letters, digits, `-`, `_` and `.`, a letter or digit first")]
    Name(String),
    /// A system call failed.
    #[error("{what} {name}: {error}")]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// On what.
        name: String,
        /// The kernel's error.
        #[source]
        error: io::Error,
    },
    /// `ip` failed.
    #[error("ip {arguments}: {message}")]
    Ip {
        /// Its arguments.
        arguments: String,
        /// Its output.
        message: String,
    },
}

fn io_error(what: &'static str, name: impl Into<String>) -> impl FnOnce(io::Error) -> NetnsError {
    let name = name.into();
    move |error| NetnsError::Io { what, name, error }
}

/// The prefix of the names of one lab's namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// A prefix of 2 to 8 lower-case letters and digits that starts with a letter.
    pub fn new(text: &str) -> Result<Self, NetnsError> {
        let fits = (2..=8).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && text.starts_with(|c: char| c.is_ascii_lowercase());
        if fits { Ok(Self(text.into())) } else { Err(NetnsError::Prefix(text.into())) }
    }

    /// Makes the namespace `prefix-name` with its loopback interface up; deleted when dropped.
    pub fn create(&self, name: &str) -> Result<Netns, NetnsError> {
        let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(known) {
            return Err(NetnsError::Name(name.into()));
        }
        let full = format!("{}-{name}", self.0);
        ip(["netns", "add", &full])?;
        let netns = Netns { name: full };
        netns.ip(["link", "set", "lo", "up"])?;
        Ok(netns)
    }

    /// The namespaces with this prefix that exist now, by name.
    pub fn existing(&self) -> Result<Vec<String>, NetnsError> {
        let entries = match fs::read_dir(NAMES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io_error("list", NAMES))?,
        };
        let start = format!("{}-", self.0);
        let names: BTreeSet<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with(&start))
            .collect();
        Ok(names.into_iter().collect())
    }

    /// Kills what runs in namespaces with this prefix and deletes them: what a crash left behind. Returns the
    /// names that were deleted, or the first error after all have been tried.
    pub fn cleanup(&self) -> Result<Vec<String>, NetnsError> {
        let names = self.existing()?;
        let mut failure = None;
        for name in &names {
            // Dropping deletes again, which finds nothing.
            if let Err(error) = (Netns { name: name.clone() }).delete() {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(names), Err)
    }
}

/// A network namespace with a name; deleted, and what runs in it killed, when dropped.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// The name in `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> PathBuf {
        Path::new(NAMES).join(&self.name)
    }

    /// Runs `work` on a thread inside the namespace, returns its result and propagates its panic.
    ///
    /// Sockets opened there stay in the namespace wherever they are used later.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        let file = File::open(self.path()).map_err(io_error("open namespace", &self.name))?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                enter(&file).map_err(io_error("enter namespace", &self.name))?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A command that will run inside the namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, NetnsError> {
        let file = File::open(self.path()).map_err(io_error("open namespace", &self.name))?;
        let mut command = Command::new(resolve(program.as_ref()));
        // SAFETY: between fork and exec only setns is called, which is a plain system call; the file was
        // opened before and is closed with the command.
        unsafe { command.pre_exec(move || enter(&file)) };
        Ok(command)
    }

    /// Runs `ip` inside the namespace and returns what it prints.
    pub fn ip<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<String, NetnsError> {
        let mut all = vec!["-n", self.name.as_str()];
        for argument in arguments {
            all.push(argument);
        }
        ip(all)
    }

    /// Runs many `ip` commands inside the namespace, one a line, in one process; stops at the first that fails.
    pub fn ip_batch(&self, lines: &str) -> Result<(), NetnsError> {
        let mut child = ip_command()
            .args(["-n", &self.name, "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(io_error("start", "ip"))?;
        let mut input = child.stdin.take().expect("its standard input is a pipe");
        // A broken pipe means that a line failed; the exit status reports that with its reason.
        let written = input.write_all(lines.as_bytes());
        drop(input);
        let output = child.wait_with_output().map_err(io_error("wait for", "ip"))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(NetnsError::Ip { arguments: format!("-n {} -batch -", self.name), message });
        }
        written.map_err(io_error("write to", "ip"))
    }

    /// The processes inside the namespace, without the caller's own.
    pub fn processes(&self) -> Result<Vec<i32>, NetnsError> {
        let id = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
        let own = id(&self.path()).map_err(io_error("read namespace", &self.name))?;
        let entries = fs::read_dir("/proc").map_err(io_error("list", "/proc"))?;
        let myself = std::process::id() as i32;
        Ok(entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| *pid != myself)
            // A process that ends meanwhile is no longer inside.
            .filter(|pid| id(Path::new(&format!("/proc/{pid}/ns/net"))).is_ok_and(|found| found == own))
            .collect())
    }

    /// Kills what runs inside and deletes the namespace with all that is in it.
    pub fn delete(&self) -> Result<(), NetnsError> {
        if !self.path().exists() {
            return Ok(());
        }
        for pid in self.processes()? {
            // SAFETY: plain system call on a process that is inside our namespace.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        // Programs and timers that agents left in force would outlive the interfaces.
        if let Ok(about) = fs::metadata(self.path()) {
            crate::pins::remove_of_namespace(about.ino());
        }
        ip(["netns", "del", &self.name]).map(|_| ())
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // Drop cannot return an error; Prefix::cleanup finds remaining namespaces.
        let _ = self.delete();
    }
}

/// Joins two namespaces by a veth pair; each end is up, with its address (such as `10.0.0.1/24`) if it has one.
pub fn connect(a: (&Netns, &str, Option<&str>), b: (&Netns, &str, Option<&str>)) -> Result<(), NetnsError> {
    let ((left, left_name, _), (right, right_name, _)) = (a, b);
    left.ip(["link", "add", left_name, "type", "veth", "peer", "name", right_name, "netns", right.name()])?;
    for (netns, name, address) in [a, b] {
        if let Some(address) = address {
            netns.ip(["address", "add", address, "dev", name])?;
        }
        netns.ip(["link", "set", "dev", name, "up"])?;
    }
    Ok(())
}

/// Runs `work` on a thread in a namespace without a name, which holds a loopback interface that is down and
/// ends with the thread: a place to try things in.
pub fn scratch<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: plain system call; it moves only the calling thread.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The namespace of the calling thread, held open.
pub(crate) fn current() -> io::Result<File> {
    File::open(CURRENT)
}

/// The inode of the namespace of the calling thread. No two namespaces have the same one at a time.
///
/// # Errors
/// [`CURRENT`] cannot be read.
pub fn inode() -> io::Result<u64> {
    Ok(fs::metadata(CURRENT)?.ino())
}

/// Runs `work` inside the namespace: here where the calling thread is in it, otherwise on a thread that enters it
/// and ends there. An error means that `work` did not run.
pub fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let id = |file: &File| file.metadata().map(|meta| (meta.dev(), meta.ino()));
    if id(namespace)? == id(&current()?)? {
        return Ok(work());
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(namespace)?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves the calling thread into the namespace.
pub(crate) fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: plain system call; it moves only the calling thread.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// `ip` in a process group of its own: a terminal sends Ctrl-C to the whole group in front, and the caller, which
/// cleans up after it, must not lose the `ip` that it does so with.
fn ip_command() -> Command {
    let mut command = Command::new(resolve(OsStr::new("ip")));
    command.process_group(0);
    command
}

/// Where administrators' tools are, which not every PATH includes.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The file of a program that is on the PATH, or else in one of the system's directories.
pub(crate) fn find(program: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).chain(SYSTEM.map(PathBuf::from)).map(|entry| entry.join(program));
    files.find(|file| file.is_file())
}

/// The path or name to execute: a path as it is, a bare name where it is found, an unknown name as it is, so that
/// starting it fails with its name.
fn resolve(program: &OsStr) -> PathBuf {
    if program.as_encoded_bytes().contains(&b'/') {
        return program.into();
    }
    find(program).unwrap_or_else(|| program.into())
}

fn ip<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<String, NetnsError> {
    let arguments: Vec<&str> = arguments.into_iter().collect();
    let output = ip_command().args(&arguments).output().map_err(io_error("start", "ip"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(NetnsError::Ip {
        arguments: arguments.join(" "),
        message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name() {
        assert!(find(OsStr::new("sh")).is_some_and(|file| file.is_absolute()));
        assert_eq!(find(OsStr::new("no-such-tool")), None);
        assert_eq!(resolve(OsStr::new("no-such-tool")), Path::new("no-such-tool"));
        assert_eq!(resolve(OsStr::new("./sh")), Path::new("./sh"));
    }

    #[test]
    fn ambiguous_prefixes_are_refused() {
        for text in ["", "a", "A1", "we-", "1a", "ninechars", "../x", "we ir"] {
            assert!(Prefix::new(text).is_err(), "{text}");
        }
        let prefix = Prefix::new("wt1").expect("a prefix");
        for name in ["", "../x", "-x", "a b", "a/b"] {
            assert!(matches!(prefix.create(name), Err(NetnsError::Name(_))), "{name}");
        }
    }
}
