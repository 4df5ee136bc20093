//! `weir key`: a new key for the agents of a deployment, and the steps of its rotation.

use crate::error::{CommandError, Exit};
use crate::output::Ui;
use std::path::PathBuf;
use weir_agent::key_file::{self, KeyFileError, Step};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir key /etc/weir/key
  weir key /etc/weir/key --add       # 1. a new key, which verifies; copy to all hosts, reload all
  weir key /etc/weir/key --turn      # 2. the new key signs; copy to all hosts, reload all
  weir key /etc/weir/key --drop      # 3. the old key goes; copy to all hosts, reload all

Copy the file to every host of the deployment, readable by its owner only: a reader of the file can
send reports for any machine. A file that exists is not overwritten.

It has a key in each line, four at most: the first signs, all verify. An agent reads it again when
it is reloaded (systemctl reload weir-agent, or SIGHUP). Each step must be on all hosts before the
next.")]
pub(crate) struct Args {
    /// The file to write
    file: PathBuf,
    /// Add a new key to the file, as the last
    #[arg(long, group = "step")]
    add: bool,
    /// Make the last key the first: it signs
    #[arg(long, group = "step")]
    turn: bool,
    /// Drop the last key
    #[arg(long, group = "step")]
    drop: bool,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let file = args.file.display();
    let (step, what, next) = match args {
        Args { add: true, .. } => (Step::Add, "a new key verifies", "--turn"),
        Args { turn: true, .. } => (Step::Turn, "the key that was last signs", "--drop"),
        Args { drop: true, .. } => (Step::Drop, "the last key is dropped", ""),
        _ => {
            key_file::create(&args.file).map_err(|error| CommandError::failed(error.to_string()))?;
            ui.notice(&format!("a new key, readable by its owner only: {file}\n"))?;
            return Ok(Exit::Done);
        }
    };
    let keys = key_file::turn(&args.file, step).map_err(|error| match error {
        KeyFileError::Step { .. } => CommandError::refused(error.to_string()).hint(format!("weir key {file} --add")),
        _ => CommandError::failed(error.to_string()),
    })?;
    let then = if next.is_empty() { String::new() } else { format!(", then `weir key {file} {next}`") };
    ui.notice(&format!("{what}, of {keys} in all: copy {file} to all hosts and reload their agents{then}\n"))?;
    Ok(Exit::Done)
}
