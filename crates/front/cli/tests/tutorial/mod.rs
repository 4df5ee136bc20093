//! Tutorials as a reader follows them: the commands of a page run in one shell, and each prints what the page shows.
//!
//! Every block of `sh` runs. A block of `text` behind it is its output; `...` stands for any number of lines. With
//! `text,within=20%` or `text,within=12` numbers may differ by that part or by so much; other words are exact.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that a tutorial may take.
const LONGEST: Duration = Duration::from_secs(300);

/// The permitted difference of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tolerance {
    Exact,
    /// A part of the number.
    Part(f64),
    By(f64),
}

impl Tolerance {
    fn times(self, slack: f64) -> Self {
        match self {
            Self::Exact => Self::Exact,
            Self::Part(part) => Self::Part(part * slack),
            Self::By(difference) => Self::By(difference * slack),
        }
    }
}

/// Commands of a page, and their output if the page shows it.
#[derive(Debug)]
struct Step {
    line: usize,
    commands: String,
    output: Option<(Tolerance, String)>,
}

/// Runs the tutorial of this name with `weir` on the PATH, in a directory of its own. Tolerances of the page are
/// multiplied by `slack`.
pub(crate) fn follow(name: &str, slack: f64) {
    follow_page(&format!("docs/tutorials/{name}.md"), slack);
}

/// The same for a page of the tree.
pub(crate) fn follow_page(page: &str, slack: f64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(page);
    let steps = steps(&fs::read_to_string(path).expect("the page"));
    assert!(steps.iter().any(|step| step.output.is_some()), "{page} shows no output");
    let directory = tempfile::tempdir().expect("a directory");
    let (work, outputs) = (directory.path().join("work"), directory.path().join("outputs"));
    fs::create_dir(&work).expect("a directory");
    fs::create_dir(&outputs).expect("a directory");
    let output = |index: usize| outputs.join(index.to_string());
    let mut script = "set -e -o pipefail\n".to_owned();
    for (step, index) in steps.iter().zip(0..) {
        script += &format!("{{\n{}}} > {} 2>&1\n", step.commands, output(index).display());
    }
    let status = run(&script, &work, &outputs);
    for (step, index) in steps.iter().zip(0..) {
        let at = format!("{page}:{}", step.line);
        let found = fs::read_to_string(output(index)).unwrap_or_default();
        let has_next = output(index + 1).exists();
        assert!(has_next || index + 1 == steps.len(), "{at}: ended with {status}:\n{found}");
        assert!(has_next || status == "0", "{at}: ended with {status}:\n{found}");
        if let Some((tolerance, expected)) = &step.output
            && let Err(message) = compare(expected, &found, tolerance.times(slack))
        {
            panic!("{at}: {message}\nThe page:\n{expected}\nThe program:\n{found}");
        }
    }
}

/// Runs the script, and returns its exit code or the reason of its end. Its processes end with it.
#[expect(clippy::disallowed_methods, reason = "commands run in real time")]
fn run(script: &str, work: &Path, outputs: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a PATH"));
    let log = File::create(outputs.join("log")).expect("a file");
    let mut shell = Command::new("bash")
        .args(["-c", script])
        .current_dir(work)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file"))
        .stderr(log)
        .process_group(0)
        .spawn()
        .expect("bash starts");
    let end = Instant::now() + LONGEST;
    let status = loop {
        if let Some(status) = shell.try_wait().expect("a child") {
            break status.code().map_or_else(|| status.to_string(), |code| code.to_string());
        }
        if Instant::now() > end {
            break format!("no end within {} s", LONGEST.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    // SAFETY: plain system call on the group of a child; an error means that the group has no process any more.
    unsafe { libc::kill(-(shell.id() as i32), libc::SIGKILL) };
    shell.wait().expect("a child");
    status
}

/// The steps of a page.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((fence, line)) = lines.next() {
        let Some(language) = fence.strip_prefix("```") else { continue };
        let block: String = lines.by_ref().map(|(line, _)| line).take_while(|line| *line != "```").fold(
            String::new(),
            |mut block, line| {
                block.push_str(line);
                block.push('\n');
                block
            },
        );
        let (language, within) = language.split_once(",within=").map_or((language, None), |(a, b)| (a, Some(b)));
        match language {
            "sh" => steps.push(Step { line, commands: block, output: None }),
            "text" => {
                let number = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("line {line}: {fence}"));
                let tolerance = match within {
                    None => Tolerance::Exact,
                    Some(part) if part.ends_with('%') => Tolerance::Part(number(part.trim_end_matches('%')) / 100.0),
                    Some(difference) => Tolerance::By(number(difference)),
                };
                let step = steps.last_mut().unwrap_or_else(|| panic!("line {line}: output without commands"));
                assert!(step.output.is_none(), "line {line}: a second output of the commands of line {}", step.line);
                step.output = Some((tolerance, block));
            }
            _ => panic!("line {line}: a tutorial has blocks of sh and text, not of `{language}`"),
        }
    }
    steps
}

/// Compares an output with the page's, line by line.
pub(crate) fn compare(expected: &str, found: &str, tolerance: Tolerance) -> Result<(), String> {
    let mut rest: Vec<&str> = found.lines().map(str::trim_end).collect();
    let mut skips = false;
    for line in expected.lines().map(str::trim_end) {
        if line == "..." {
            skips = true;
            continue;
        }
        let searched = if skips { rest.len() } else { rest.len().min(1) };
        let at = rest[..searched].iter().position(|other| same(line, other, tolerance));
        let at = at.ok_or_else(|| format!("`{line}` is not {}", if skips { "below" } else { "the next line" }))?;
        rest.drain(..=at);
        skips = false;
    }
    if skips || rest.is_empty() { Ok(()) } else { Err(format!("the page lacks `{}`", rest[0])) }
}

/// Whether two lines are the same, numbers within the tolerance.
fn same(expected: &str, found: &str, tolerance: Tolerance) -> bool {
    if tolerance == Tolerance::Exact {
        return expected == found;
    }
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (expected, found) = (words(expected), words(found));
    expected.len() == found.len()
        && expected.iter().zip(&found).all(|(expected, found)| {
            let numbers = expected.parse::<f64>().ok().zip(found.parse::<f64>().ok());
            numbers.map_or(expected == found, |(expected, found)| match tolerance {
                Tolerance::Exact => expected == found,
                Tolerance::Part(part) => (found - expected).abs() <= part * expected,
                Tolerance::By(difference) => (found - expected).abs() <= difference,
            })
        })
}
