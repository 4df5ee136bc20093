//! `weir report`: the page of a run or a sweep, from its files alone.

use crate::error::{CommandError, Exit};
use crate::output::Ui;
use std::path::PathBuf;
use weir_results::files::RESULT;
use weir_runs::{run_files, sweep};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir report out/incast
  weir report out/sweep

Replaces DIR/report.html. A run is drawn from result.json and the tables beside it, a sweep from
sweep.json and points/*/point.json; nothing is simulated. The page shows the present content of the
files, also after a change or with a newer version of Weir that reads their format.")]
pub(crate) struct Args {
    /// The directory that `--report` named
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let directory = &args.directory;
    let page = match sweep::draw(directory)? {
        Some(page) => page,
        None if directory.join(RESULT).exists() => run_files::draw(directory)?,
        None => {
            let cause = format!("`{}` has neither {RESULT} nor {}", directory.display(), sweep::MANIFEST);
            return Err(CommandError::refused(cause).hint("name the directory of a report that `--report` wrote"));
        }
    };
    ui.notice(&format!("report: {}\n", page.display()))?;
    Ok(Exit::Done)
}
