//! Which tests a binary has, and how each is run.

use crate::cargo::{self, Binary};
use crate::loads::{Expected, Loads};
use crate::options::Options;
use crate::process::{BACKGROUND, Groups, REALTIME, with_priority};
use crate::sandbox;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// One process of the run.
#[derive(Debug, Clone)]
pub(crate) enum Job {
    /// A real-time test.
    Realtime { binary: Binary, test: String, expected: Expected },
    /// The other tests of a binary, `without` those that are real-time tests.
    Pure { binary: Binary, without: Vec<String> },
    /// A shell command that is to succeed.
    Command(String),
    /// The tests in the documentation.
    Doc,
}

/// Ten times the expected time and a minute: a test that hangs, not one that is slow today.
fn limit(expected: Expected) -> Duration {
    Duration::from_secs(60 + 10 * u64::from(expected.seconds))
}

/// All else takes at most five minutes (the lints on an empty cache beside real-time tests), in full
/// fifteen (the worlds of the fault simulator); four times that on slower machines.
fn longest(options: &Options) -> Duration {
    Duration::from_secs(if options.soak { 3600 } else { 1200 })
}

impl Job {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Realtime { binary, test, .. } => format!("{} {test}", binary.name),
            Self::Pure { binary, .. } => binary.name.clone(),
            Self::Command(text) => text.clone(),
            Self::Doc => "tests in the documentation".to_owned(),
        }
    }

    pub(crate) fn limit(&self, options: &Options) -> Duration {
        match self {
            Self::Realtime { expected, .. } => limit(*expected),
            _ => longest(options),
        }
    }

    pub(crate) fn priority(&self) -> i32 {
        match self {
            Self::Realtime { .. } => REALTIME,
            _ => BACKGROUND,
        }
    }

    pub(crate) fn command(&self, root: &Path, options: &Options, sandboxed: bool) -> Command {
        let mut command = match self {
            Self::Realtime { binary, test, .. } => {
                let program = &binary.executable;
                let mut command = if sandboxed { sandbox::command(program) } else { Command::new(program) };
                command.args(["--exact", test, "--nocapture"]);
                command
            }
            Self::Pure { binary, without } => {
                let mut command = Command::new(&binary.executable);
                let words: Vec<&String> = options.words.iter().filter(|_| !options.selects(&binary.name)).collect();
                // Whole names where possible: others begin alike.
                command.args((words.is_empty() && !without.is_empty()).then_some("--exact")).args(words);
                for test in without {
                    command.args(["--skip", test]);
                }
                command
            }
            Self::Command(text) => {
                let mut command = cargo::command("sh");
                command.args(["-c", text]);
                command
            }
            Self::Doc => {
                let mut command = cargo::command(cargo::cargo());
                command.args(["test", "--workspace", "--locked", "--doc"]);
                command
            }
        };
        match self {
            Self::Realtime { binary, .. } | Self::Pure { binary, .. } => {
                command.current_dir(&binary.directory).env("CARGO_MANIFEST_DIR", &binary.directory);
                // Else each test binary with snapshots starts cargo to find it.
                command.env("INSTA_WORKSPACE_ROOT", root);
            }
            Self::Command(_) | Self::Doc => {
                command.current_dir(root);
            }
        }
        if options.soak {
            command.env_remove("WEIR_QUICK");
        } else {
            command.env("WEIR_QUICK", "1");
        }
        command
    }

    /// The command that runs it again, in full or not.
    pub(crate) fn rerun(&self, options: &Options) -> String {
        let (quick, soak) = if options.soak { ("", " RUNNER_OPTIONS=--soak") } else { ("WEIR_QUICK=1 ", "") };
        match self {
            Self::Realtime { test, .. } => format!("make test-realtime TESTS={test}{soak}"),
            Self::Pure { binary, .. } => format!("{quick}{}", cargo_test(&binary.name)),
            Self::Command(text) => text.clone(),
            Self::Doc => "cargo test --workspace --doc".to_owned(),
        }
    }
}

fn cargo_test(name: &str) -> String {
    let (package, target) = name.split_once('/').unwrap_or((name, "lib"));
    match target {
        "lib" => format!("cargo test -p {package} --lib"),
        "bin" => format!("cargo test -p {package} --bins"),
        target => format!("cargo test -p {package} --test {target}"),
    }
}

/// The jobs of a binary under these options: one for each real-time test, and one for all others.
/// `listed` are the tests of a binary of the table.
pub(crate) fn jobs(binary: &Binary, listed: Option<&Vec<String>>, loads: &Loads, options: &Options) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut without = Vec::new();
    let mut others = listed.is_none();
    for test in listed.into_iter().flatten() {
        let Some(expected) = loads.of(&binary.name, test) else {
            others = true;
            continue;
        };
        if options.realtime && options.selects(&format!("{} {test}", binary.name)) {
            jobs.push(Job::Realtime { binary: binary.clone(), test: test.clone(), expected });
        }
        without.push(test.clone());
    }
    if others && options.pure {
        jobs.push(Job::Pure { binary: binary.clone(), without });
    }
    jobs
}

/// The names of a binary's tests.
pub(crate) fn list(binary: &Binary, groups: &Groups) -> io::Result<Vec<String>> {
    let mut command = Command::new(&binary.executable);
    command.args(["--list", "--format", "terse"]).current_dir(&binary.directory);
    // In a session of its own: Ctrl-C in the terminal is the runner's to handle.
    with_priority(&mut command, 0);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let _registered = groups.register(child.id());
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{} does not list its tests", binary.name)));
    }
    Ok(tests(&String::from_utf8_lossy(&output.stdout)))
}

fn tests(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// The numbers of tests in a test program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) skipped: u32,
}

/// Counts the tests of all results in an output. A test that prints a line `skipped: ...` passes for its program.
pub(crate) fn counts(output: &str) -> Counts {
    let mut counts = Counts::default();
    for line in output.lines() {
        if line.starts_with("skipped:") {
            counts.skipped += 1;
        }
        let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            continue;
        };
        for part in numbers.split("; ") {
            let (number, what) = part.split_once(' ').unwrap_or_default();
            let number: u32 = number.parse().unwrap_or(0);
            match what {
                "passed" => counts.passed += number,
                "failed" => counts.failed += number,
                _ => {}
            }
        }
    }
    counts.skipped = counts.skipped.min(counts.passed);
    counts.passed -= counts.skipped;
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_programs_in_an_output_are_counted() {
        let output = "running 3 tests\nskipped: needs root\n\
                      test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.1s\n\
                      test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(counts(output), Counts { passed: 3, failed: 2, skipped: 1 });
        assert_eq!(counts("nothing"), Counts::default());
    }

    #[test]
    fn tests_are_listed_without_benchmarks() {
        assert_eq!(tests("a::b: test\nc: bench\n\n2 tests\n"), ["a::b"]);
    }

    #[test]
    fn a_failed_test_is_run_again_by_cargo() {
        assert_eq!(cargo_test("weir/agent"), "cargo test -p weir --test agent");
        assert_eq!(cargo_test("weir-fabric/lib"), "cargo test -p weir-fabric --lib");
    }
}
