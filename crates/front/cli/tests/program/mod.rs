//! The program as people and scripts run it.
#![allow(dead_code, reason = "each test file uses a part of this")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// The program in the root of the tree, so that messages name the same paths everywhere.
pub(crate) fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
        .env("COLUMNS", "100")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null());
    command
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    weir(arguments).output().expect("the program starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The exit code and both outputs, as a snapshot shows them.
pub(crate) fn shown(arguments: &[&str]) -> String {
    let output = run(arguments);
    let code = output.status.code().expect("no signal");
    format!(
        "$ weir {}\nexit {code}\n-- stdout\n{}-- stderr\n{}",
        arguments.join(" "),
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// A file in a directory of this test's own.
pub(crate) fn file(directory: &Path, name: &str, content: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).expect("a temporary file");
    path.display().to_string()
}

pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Standard output as JSON.
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

/// Starts the program and waits for its first line on standard error.
pub(crate) fn started(arguments: &[&str]) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = weir(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("a line");
    (child, errors, line)
}

/// The exit code, standard output, and the rest of standard error.
pub(crate) fn ended(child: Child, mut errors: BufReader<ChildStderr>) -> (Option<i32>, Vec<u8>, String) {
    let output = child.wait_with_output().expect("ends");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("text");
    (output.status.code(), output.stdout, rest)
}

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, signal: i32) {
    // SAFETY: plain system call on a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// As if the disk were full for files of more than `bytes`.
pub(crate) fn with_file_limit(command: Command, bytes: u64) -> Command {
    with_limit(command, libc::RLIMIT_FSIZE, bytes)
}

/// With so many bytes of address space.
pub(crate) fn with_memory_limit(command: Command, bytes: u64) -> Command {
    with_limit(command, libc::RLIMIT_AS, bytes)
}

fn with_limit(mut command: Command, resource: libc::__rlimit_resource_t, bytes: u64) -> Command {
    let limit = move || {
        let most = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
        // SAFETY: both calls are safe between fork and exec. Ignored, the signal becomes an error of the write.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            match libc::setrlimit(resource, &most) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        }
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(limit) };
    command
}

/// All files below a directory, by their path in it.
pub(crate) fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).expect("below").display().to_string();
                files.insert(name, std::fs::read(path).expect("a file"));
            }
        }
    }
    files
}
