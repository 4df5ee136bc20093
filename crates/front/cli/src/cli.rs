//! The command line as a whole: its global options and the groups of commands in `weir --help`.

use crate::commands::Command;
use crate::output::ColourChoice;
use clap::{CommandFactory, Parser};

/// Shares a datacenter network among services by one policy.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub(crate) color: ColourChoice,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The groups of `weir --help`, in this order. A command without a group is listed at the end.
const GROUPS: &[(&str, &[&str])] = &[
    ("Policies", &["check", "allocate", "explain", "plan", "place", "schema", "export"]),
    ("Experiments", &["import", "sim", "report", "lab", "reproduce"]),
    (
        "Running",
        &[
            "agent",
            "exec",
            "fabric",
            "switch",
            "forwarder",
            "key",
            "certificate",
            "doctor",
            "pods",
            "capture",
            "top",
            "dashboard",
        ],
    ),
    ("Setup", &["completions"]),
];

/// The exit codes of all commands, in the order of their numbers.
pub(crate) const EXIT_CODES: &[(&str, &str)] =
    &[("0", "done"), ("1", "failed while running"), ("2", "refused input or usage"), ("130", "interrupted")];

/// The end of the help.
fn after_help() -> String {
    let codes: Vec<String> = EXIT_CODES.iter().map(|(code, meaning)| format!("{code} {meaning}")).collect();
    format!(
        "Every command has --help with an example. Tables have --json for programs. `-` as a file is standard\n\
         input. Exit codes: {}.",
        codes.join(", ")
    )
}

/// The command line with its commands in groups.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let styles = command.get_styles().clone();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let abouts: Vec<(String, String)> = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|command| {
            (command.get_name().to_owned(), command.get_about().map(ToString::to_string).unwrap_or_default())
        })
        .collect();
    let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let rest: Vec<&str> = abouts.iter().map(|(name, _)| name.as_str()).filter(|name| !grouped(name)).collect();
    let mut list = String::new();
    for (title, names) in GROUPS.iter().copied().chain([("Other", rest.as_slice())]) {
        let known = names.iter().filter_map(|name| abouts.iter().find(|(known, _)| known == name));
        let lines: String = known.map(|(name, about)| format!("  {literal}{name:<11}{literal:#} {about}\n")).collect();
        if !lines.is_empty() {
            list.push_str(&format!("{header}{title}:{header:#}\n{lines}\n"));
        }
    }
    let after = after_help();
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n{{options}}\n\n{after}\n"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_and_is_listed() {
        let help = command().render_long_help().to_string();
        for command in command().get_subcommands_mut() {
            let name = command.get_name().to_owned();
            let listed = help.contains(&format!("\n  {name} "));
            assert_eq!(listed, !command.is_hide_set(), "{name} in\n{help}");
            let long = command.render_long_help().to_string();
            assert!(long.contains("Example"), "{name} has no example");
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let wide = after.lines().find(|line| line.chars().count() > 99);
            assert!(wide.is_none(), "{name}: this line would be wrapped: {wide:?}");
        }
        assert!(!help.contains("Other:"), "put the new command in a group");
    }
}
