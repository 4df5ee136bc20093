//! `weir manual`: one manual page for each command, for packages.
//!
//! Problem: the help is the only complete description of the options, and `man weir-sim` must not differ from it.
//! Approach: [`clap_mangen`] renders the options from the same definitions; the text after the options is divided
//! into paragraphs, where those with indented lines keep their lines and others are filled. Pages contain no date, so
//! that two builds of one version are equal.
//!
//! Worked example: the command `weir switch apply` has the page `weir-switch-apply.1`.

use crate::cli::{Cli, EXIT_CODES};
use crate::error::{CommandError, Exit};
use crate::output::Ui;
use clap::CommandFactory as _;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::path::{Path, PathBuf};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weir manual target/man")]
pub(crate) struct Args {
    /// The directory, which is created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Files of the package and of the units, by command.
const FILES: &[(&str, &[(&str, &str)])] = &[
    (
        "weir",
        &[
            ("/usr/share/doc/weir/html/index.html", "tutorials, guides and reference (Debian package)"),
            ("/usr/share/doc/weir/examples/scenarios", "policies and scenarios of these pages (Debian package)"),
        ],
    ),
    (
        "weir-agent",
        &[
            ("/etc/weir/policy.yaml", "the policy"),
            ("/etc/weir/key", "the key that all agents share"),
            ("/etc/weir/agent.conf", "options of weir-agent.service"),
            ("/var/lib/weir", "state that survives a restart of the host"),
            ("/run/weir/agent.json", "the status, written once a second"),
            ("/run/weir/pods", "the records of pods"),
            ("/sys/fs/bpf/weir", "programs and maps that survive a restart of the agent"),
        ],
    ),
    (
        "weir-fabric",
        &[
            ("/etc/weir/policy.yaml", "the policy"),
            ("/etc/weir/fabric.conf", "options of weir-fabric.service"),
            ("/var/lib/weir-fabric", "epochs and bindings that survive a restart"),
            ("/run/weir-fabric/fabric.json", "the status, written once a second"),
        ],
    ),
    (
        "weir-forwarder",
        &[
            ("/etc/weir/policy.yaml", "the policy"),
            ("/etc/weir/key", "the key that all agents share"),
            ("/etc/weir/forwarder.conf", "options of weir-forwarder.service"),
            ("/run/weir/forwarder.json", "the status, written once a second"),
            ("/sys/fs/bpf/weir", "programs and maps that survive a restart of the forwarder"),
        ],
    ),
    (
        "weir-pods",
        &[
            ("/etc/weir/pods.conf", "options of weir-pods.service"),
            ("/run/weir/pods", "the records of pods, which the agent reads"),
        ],
    ),
];

pub(crate) fn run(args: &Args, _: &mut Ui) -> Result<Exit, CommandError> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory).map_err(|error| CommandError::cannot_write(directory, error))?;
    // The help's own list of commands is for terminals; a page lists them in a section.
    let mut command = Cli::command();
    command.build();
    write_pages(&command, None, directory)?;
    Ok(Exit::Done)
}

/// Writes the pages of a command and of the commands below it.
fn write_pages(command: &clap::Command, above: Option<&str>, directory: &Path) -> Result<(), CommandError> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = directory.join(format!("{name}.1"));
    let page = page(command, name, above);
    page.and_then(|page| std::fs::write(&path, page)).map_err(|error| CommandError::cannot_write(&path, error))?;
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .try_for_each(|below| write_pages(below, Some(name), directory))
}

/// The page of one command.
fn page(command: &clap::Command, name: &str, above: Option<&str>) -> std::io::Result<String> {
    let source = format!("Weir {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source).manual("Weir");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes): (Vec<_>, Vec<_>) =
        after.split("\n\n").filter(|part| !part.trim().is_empty()).partition(|part| part.starts_with("Example"));
    section(&mut rest, "NOTES", &notes);
    if let Some((_, files)) = FILES.iter().find(|(of, _)| *of == name) {
        rest.control("SH", ["FILES"]);
        definitions(&mut rest, files);
    }
    rest.control("SH", ["EXIT STATUS"]);
    definitions(&mut rest, EXIT_CODES);
    // The heading of the section replaces the first line, `Examples:`.
    let examples: Vec<&str> =
        examples.iter().map(|part| part.split_once('\n').map_or(*part, |(_, lines)| lines)).collect();
    section(&mut rest, "EXAMPLES", &examples);
    if let Some(above) = above {
        rest.control("SH", ["SEE ALSO"]).text([bold(above), roman("(1)")]);
    }
    rest.to_writer(&mut page)?;
    let page = String::from_utf8(page).map_err(std::io::Error::other)?;
    Ok(page.chars().map(escaped).collect())
}

/// A character as troff reads it in any locale: as an escape unless it is ASCII.
fn escaped(letter: char) -> String {
    if letter.is_ascii() { letter.to_string() } else { format!("\\[u{:04X}]", u32::from(letter)) }
}

/// Adds a section of paragraphs; nothing if there are none.
fn section(roff: &mut Roff, heading: &str, paragraphs: &[&str]) {
    if paragraphs.is_empty() {
        return;
    }
    roff.control("SH", [heading]);
    for paragraph in paragraphs {
        roff.control("PP", []);
        let keeps_lines = paragraph.lines().any(|line| line.starts_with("  "));
        if keeps_lines {
            roff.control("nf", []);
        }
        for line in paragraph.lines() {
            roff.text([roman(line)]);
        }
        if keeps_lines {
            roff.control("fi", []);
        }
    }
}

/// Adds terms and what they mean.
fn definitions(roff: &mut Roff, terms: &[(&str, &str)]) {
    for (term, meaning) in terms {
        roff.control("TP", []).text([bold(*term)]).text([roman(*meaning)]);
    }
}
