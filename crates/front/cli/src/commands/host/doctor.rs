//! `weir doctor`: what prevents a policy from being enforced on this host.

use super::switch::Mapping;
use super::watched;
use crate::error::{CommandError, Exit};
use crate::input;
use crate::output::{Style, Table, Ui};
use std::path::PathBuf;
use weir_doctor::{Finding, Request, State, gather, judge};
use weir_fabric::IdentityFiles;
use weir_report::json;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir doctor
  weir doctor policy.yaml --interface eth0 --status /run/weir/agent.json
  weir doctor policy.yaml --status /run/weir/agent.json --status http://10.0.0.2:30566 --json
  weir doctor policy.yaml --key /etc/weir/key --certificate m1.pem --private-key m1.key --ca ca.pem
  weir doctor policy.yaml --switch r1 --bridge br0

Checks the kernel, the clocks, the services, the interface, the agent's status, the reachability of
the rack, files of keys, and ports of a switch, and changes nothing. docs/reference/checks.md lists
all checks. Each
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
    /// The key file of the agent
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// This machine's certificate for the fabric broker
    #[arg(long, value_name = "FILE", requires = "private_key", requires = "ca")]
    certificate: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,
    /// The certificate of the CA
    #[arg(long, value_name = "FILE", requires = "certificate")]
    ca: Option<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Ports of the switch that this host is")]
    mapping: Mapping,
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
    let identity = match (&args.certificate, &args.private_key, &args.ca) {
        (Some(certificate), Some(private_key), Some(ca)) => {
            Some(IdentityFiles { certificate: certificate.clone(), private_key: private_key.clone(), ca: ca.clone() })
        }
        _ => None,
    };
    if policy.is_none() && args.mapping.names_ports() {
        return Err(CommandError::refused("ports are named, and no policy").hint("weir doctor POLICY --bridge br0"));
    }
    let switch = policy.as_ref().and_then(|(file, policy)| args.mapping.facts(policy, file));
    let facts = gather(&Request {
        policy: policy.as_ref().map(|(file, policy)| (file.as_str(), policy)),
        interface: args.interface.as_deref(),
        statuses: &statuses,
        key: args.key.as_deref(),
        identity: identity.as_ref(),
        switch,
    })
    .map_err(|error| CommandError::failed(format!("cannot examine this host: {error}")))?;
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
