//! `weir key`: a new key for the agents of a deployment.

use crate::error::{CommandError, Exit};
use crate::output::Ui;
use std::path::PathBuf;
use weir_agent::key_file;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weir key /etc/weir/key

Copy the file to every host of the deployment, readable by its owner only: whoever can read it can
speak for any machine. A file that exists is not overwritten.")]
pub(crate) struct Args {
    /// The file to write
    file: PathBuf,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    key_file::create(&args.file).map_err(|error| CommandError::failed(error.to_string()))?;
    ui.tell(&format!("a new key, readable by its owner only: {}\n", args.file.display()))?;
    Ok(Exit::Done)
}
