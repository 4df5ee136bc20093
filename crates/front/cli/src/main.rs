//! `weir`: the command line.
//!
//! Problem: one program for the author of a policy, for an operator who examines a service's share,
//! and for scripts. Approach: one file per command in [`commands`]; a command reads its input,
//! calls the crates that do the work, and writes through [`output::Ui`]; no other code uses the
//! terminal. Every failure is an [`error::CommandError`] with its cause and hints.
//!
//! Exit codes, the same for every command: 0 done; 1 failed while running; 2 the input or the
//! command line was refused; 130 interrupted, with finished work kept. `weir exec` ends with 126 or
//! 127, like a shell, if its program cannot be run or was not found.
//!
//! Worked example: `weir check policy.yaml` with a misspelt key prints the line, the column, the nearest
//! known key, and exits with 2.

mod cli;
mod commands;
mod credits;
mod error;
mod input;
mod interrupt;
mod levels;
mod mechanisms;
mod output;
mod plan;
mod progress;
mod report_files;
mod tenants;
mod text;
#[cfg(feature = "host")]
mod top;
mod umask;
mod values;
mod written;

use clap::FromArgMatches as _;
use error::{CommandError, Exit};
use output::{ColourChoice, Ui};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // Help and usage errors are printed while the command line is still being read.
    let command = cli::command().color(ColourChoice::among(&arguments).into());
    let cli = command.try_get_matches_from(&arguments).and_then(|matches| cli::Cli::from_arg_matches(&matches));
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => {
            // Printing fails only if the output is closed; the exit code remains.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    // The program that replaces this process has the umask that it would have without Weir.
    if !cli.command.replaces_the_process() {
        umask::exclude_write_by_others();
    }
    let mut ui = Ui::terminal(cli.color);
    let done = commands::run(&cli.command, &mut ui).and_then(|exit| {
        ui.flush()?;
        Ok(exit)
    });
    let exit = done.unwrap_or_else(|error: CommandError| {
        error.print(&mut ui);
        error.exit()
    });
    exit.code()
}

impl Exit {
    fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }
}
