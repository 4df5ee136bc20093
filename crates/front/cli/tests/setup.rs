//! Completions of shells and manual pages, as packages contain them.

mod program;

use program::{directory, run, text};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The names of the commands in the reference of commands, which another test compares with the help.
fn commands() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/commands.md");
    let page = std::fs::read_to_string(page).expect("docs/reference/commands.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
    headings.map(str::to_owned).collect()
}

#[test]
fn each_command_has_a_manual_page_that_groff_renders_without_warnings() {
    let directory = directory();
    let path = directory.path().join("man");
    let written = run(&["manual", &path.display().to_string()]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let files = std::fs::read_dir(&path).expect("the directory");
    let pages: BTreeSet<String> =
        files.map(|file| file.expect("a file").file_name().into_string().expect("ASCII")).collect();
    let expected: BTreeSet<String> = commands().iter().map(|name| format!("{}.1", name.replace(' ', "-"))).collect();
    assert!(expected.len() > 20, "{expected:?}");
    assert_eq!(pages, expected);
    let page = std::fs::read_to_string(path.join("weir-sim.1")).expect("weir-sim.1");
    assert!(page.contains(".SH EXAMPLES\n.PP\n.nf\n"), "examples keep their lines:\n{page}");
    assert!(page.contains(&format!("Weir {}", env!("CARGO_PKG_VERSION"))));
    let shown = |page: &str| {
        let groff = ["-man", "-Tutf8", "-ww", "-z"];
        Command::new("groff").args(groff).arg(path.join(page)).output()
    };
    for page in &pages {
        match shown(page) {
            Ok(output) => {
                let warnings = text(&output.stderr);
                assert!(output.status.success() && warnings.is_empty(), "{page}: {warnings}");
            }
            Err(error) => {
                let may = std::env::var_os("WEIR_NO_SKIP").is_none();
                assert!(may, "WEIR_NO_SKIP is set, and groff cannot run: {error}");
                eprintln!("skipped: the pages' syntax needs groff ({error})");
                return;
            }
        }
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let output = run(&["manual", "/proc/weir-manual"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write `/proc/weir-manual`"), "{}", text(&output.stderr));
}

#[test]
fn bash_completes_commands_options_and_values() {
    let script = run(&["completions", "bash"]);
    assert!(script.status.success());
    let directory = directory();
    let file = program::file(directory.path(), "weir.bash", &text(&script.stdout));
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let last = words.len() - 1;
        let array = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let program = format!(
            "source {file}; COMP_WORDS=({array}); COMP_CWORD={last}; _weir weir '{}' '{}'
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words[last],
            words[last - 1],
        );
        let output = Command::new("bash").args(["--norc", "-c", &program]).output().expect("bash starts");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("weir allo"), ["allocate"]);
    assert_eq!(complete("weir switch ap"), ["apply"]);
    assert_eq!(complete("weir allocate --dem"), ["--demands"]);
    assert_eq!(complete("weir --color al"), ["always"]);
    assert_eq!(complete("weir schema pol"), ["policy"]);
}

#[test]
fn completions_of_other_shells_contain_every_command() {
    for shell in ["zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = text(&output.stdout);
        for command in commands() {
            let last = command.rsplit(' ').next().expect("a name");
            assert!(script.contains(last), "{shell} lacks {command}");
        }
    }
    let output = run(&["completions", "tcsh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("possible values: bash, zsh, fish"), "{}", text(&output.stderr));
}
