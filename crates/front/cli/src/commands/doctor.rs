//! `weir doctor`: what prevents a policy from being enforced on this host.

use crate::error::{CommandError, Exit};
use crate::output::{Style, Table, Ui};
use crate::{input, watched};
use std::path::PathBuf;
use weir_doctor::{Finding, Request, State, gather, judge};
use weir_report::json;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir doctor
  weir doctor policy.yaml --interface eth0 --status /run/weir/agent.json
  weir doctor policy.yaml --status /run/weir/agent.json --status http://10.0.0.2:30566 --json

Checks the kernel, the clocks, the interface and the agent's status, and changes nothing. Each
finding that is wrong or doubtful has its consequence and, where there is one, a command that
corrects or examines it.

With --json: [{\"id\", \"state\": fine, doubtful, wrong or skipped, \"found\", \"why\", \"mend\"}].
Exit code 1: a check is wrong.")]
pub(crate) struct Args {
    /// The policy file, to compare with the agent's
    policy: Option<PathBuf>,
    /// The network interface of the policy
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// A status URL or file, this host's first; may be given again
    #[arg(long, value_name = "URL")]
    status: Vec<String>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let policy = match &args.policy {
        Some(path) => {
            let (policy, notes) = input::policy(path)??;
            input::print_notes(&notes, ui)?;
            Some((path.display().to_string(), policy))
        }
        None => None,
    };
    let statuses = args.status.iter().map(|text| watched::source(text)).collect::<Result<Vec<_>, _>>()?;
    let facts = gather(&Request {
        policy: policy.as_ref().map(|(file, policy)| (file.as_str(), policy)),
        interface: args.interface.as_deref(),
        statuses: &statuses,
    });
    let findings = judge(&facts);
    if args.json {
        let value = serde_json::to_value(&findings).expect("findings are JSON");
        json::write(ui.out(), &value)?;
    } else {
        print(&findings, ui)?;
    }
    let is_wrong = findings.iter().any(|finding| finding.state == State::Wrong);
    Ok(if is_wrong { Exit::Failed } else { Exit::Done })
}

fn print(findings: &[Finding], ui: &mut Ui) -> Result<(), CommandError> {
    let mut table = Table::new(&["check", "state", "found"]);
    for finding in findings {
        let style = match finding.state {
            State::Fine => Style::Good,
            State::Doubtful => Style::Limited,
            State::Wrong => Style::Error,
            State::Skipped => Style::Faint,
        };
        let plain = |text: &str| (text.to_owned(), Style::Plain);
        table.styled([plain(finding.id), (finding.state.name().to_owned(), style), plain(&finding.found)]);
    }
    ui.print_table(&table, 0)?;
    for finding in findings.iter().filter(|finding| !finding.why.is_empty()) {
        let id = ui.on_out(Style::Strong, finding.id);
        ui.print(&format!("\n{id}: {}\n", finding.why))?;
        if let Some(mend) = &finding.mend {
            ui.print(&format!("  {mend}\n"))?;
        }
    }
    Ok(())
}
