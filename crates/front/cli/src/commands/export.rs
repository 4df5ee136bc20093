//! `weir export`: a policy as JSON, for programs.

use crate::error::{CommandError, Exit};
use crate::output::Ui;
use crate::{input, written};
use std::path::PathBuf;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir export policy.yaml -o policy.json
  weir export policy.yaml | jq '.services | keys'
  weir export policy.yaml | weir check -

The keys, their order and their values are those of the file, and `weir schema policy` describes
both. Comments are left out; ranges such as `m[1-40]` stay ranges. Every command reads the JSON as
the same policy, with the same fingerprint.")]
pub(crate) struct Args {
    /// The policy file; `-` is standard input
    policy: PathBuf,
    #[command(flatten)]
    output: written::Output,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let (policy, notes) = input::policy(&args.policy)??;
    input::print_notes(&notes, ui)?;
    args.output.write(&policy.to_json_text()?, ui)?;
    Ok(Exit::Done)
}
