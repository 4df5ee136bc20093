//! `weir schema`: the JSON Schema of a file format.

use crate::error::{CommandError, Exit};
use crate::output::Ui;
use weir_document::schema;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir schema policy > policy.schema.json
  Then, on the first line of a policy, for editors with a YAML language server:
  # yaml-language-server: $schema=policy.schema.json")]
pub(crate) struct Args {
    /// The format
    #[arg(value_enum)]
    format: Format,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    Policy,
    Scenario,
    Paper,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let schema = match args.format {
        Format::Policy => schema::schema("Weir policy", &weir_policy::language::POLICY),
        Format::Scenario => schema::schema("Weir scenario", &weir_scenario::language::SCENARIO),
        Format::Paper => schema::schema("Weir paper", &weir_experiment::language::PAPER),
    };
    ui.print(&schema::to_file(&schema))?;
    Ok(Exit::Done)
}
