//! `weir completions`: the script that completes command lines of `weir` in a shell.

use crate::cli::Cli;
use crate::error::{CommandError, Exit};
use crate::output::Ui;
use clap::CommandFactory as _;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir completions bash > /etc/bash_completion.d/weir
  weir completions zsh > /usr/local/share/zsh/site-functions/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish
  source <(weir completions bash)

The script completes the names of commands and options, their fixed values, and file names.")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    // The generator panics if it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut script);
    ui.out().write_all(&script)?;
    Ok(Exit::Done)
}
