//! `weir place`: tenants' virtual machines onto machines.

mod print;
mod tenants;

use crate::error::{CommandError, Exit};
use crate::input;
use crate::output::Ui;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenants::Placement;
use weir_document::Source;
use weir_placement::{Fabric, Ledger, Placer, Strategy, Weighing, file};
use weir_policy::Policy;
use weir_report::json;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir place policy.yaml
  weir place policy.yaml --placed /var/lib/weir/placement.json

Each tenant goes into one tree of the network: onto one machine if it has room, otherwise below the
lowest switch whose links have the bandwidth, and there where it costs least: few tenants on a link
while the network is empty, little bandwidth when it is full. The services' guarantees and the
bounded latency levels come first; tenants reserve the remaining bandwidth.

--placed FILE continues from an earlier placement and replaces the file: tenants that are no longer
in the policy depart, new ones arrive in the order of their names, the others stay. Without a file
of that name all arrive. --rebalance places all tenants anew.

--strategy: `load` (QShare, the default), `queues` (always few tenants on a link), `bandwidth`
(always little bandwidth), `first-fit`, `oktopus`.

With --json, and in FILE: {\"placement\": 1, \"tenants\": [{\"tenant\", \"tree\", \"vms\": [{\"vm\",
\"machine\"}], \"dscp\" (absent: all values are in use on its links, or it uses no link), \"links\":
[{\"link\", \"reserved_bps\"}]}], \"rejected\": [{\"tenant\", \"reason\": \"slots\", \"bandwidth\" or
\"groups\", \"missing\": slots or bit/s, \"link\", \"left\": virtual machines without a place}]}. A link
is one-way; reservations are the same both ways.

Exit code 0: all tenants have a place. 1: some do not. 2: refused.")]
pub(crate) struct Args {
    /// The policy file; `-` is standard input
    policy: PathBuf,
    /// Continue from this placement, and write the new one there
    #[arg(long, value_name = "FILE")]
    placed: Option<PathBuf>,
    /// Place all tenants anew
    #[arg(long, requires = "placed")]
    rebalance: bool,
    /// The search for places
    #[arg(long, value_name = "NAME", value_parser = strategy, default_value = "load")]
    strategy: Strategy,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn strategy(text: &str) -> Result<Strategy, String> {
    Ok(match text {
        "load" => Strategy::QShare(Weighing::Load),
        "queues" => Strategy::QShare(Weighing::Queues),
        "bandwidth" => Strategy::QShare(Weighing::Bandwidth),
        "first-fit" => Strategy::FirstFit,
        "oktopus" => Strategy::Oktopus,
        _ => return Err("a strategy is `load`, `queues`, `bandwidth`, `first-fit` or `oktopus`".to_owned()),
    })
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let (policy, notes) = input::policy(&args.policy)??;
    input::print_notes(&notes, ui)?;
    if policy.tenants().is_empty() {
        return Err(CommandError::refused("the policy has no tenants")
            .hint("write them under `tenants`, for example `tenants: { red: { vms: 10, bandwidth: 100Mb/s } }`"));
    }
    if policy.network().machines().iter().all(|machine| machine.slots() == 0) {
        return Err(CommandError::refused("no machine has room for virtual machines")
            .hint("write `slots: 10` under `network`, or under machines in `network.machines`"));
    }
    let graph = policy.graph();
    let fabric = Arc::new(Fabric::new(&graph));
    let ledger = Ledger::of_policy(&policy, &graph, &fabric);
    let queues = policy.network().offer().map_or(8, |offer| offer.queues);
    let mut placer = Placer::new(Arc::clone(&fabric), ledger, args.strategy, queues.into());
    if let Some(path) = args.placed.as_deref().filter(|path| path.exists() && !args.rebalance) {
        adopt(&mut placer, path, &policy, &graph)?;
    }
    let kept = placer.placed().len();
    let placement = Placement::arrive(&policy, &graph, &mut placer, kept);
    if let Some(path) = &args.placed {
        write(path, &placement)?;
    }
    if args.json {
        json::write(ui.out(), &placement.to_json())?;
    } else {
        print::print(&policy, &graph, &placer, &placement, ui)?;
    }
    Ok(if placement.rejected.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Takes over the tenants of an earlier placement.
fn adopt(placer: &mut Placer, path: &Path, policy: &Policy, graph: &weir_network::Graph) -> Result<(), CommandError> {
    let source = Source::read(path, file::MAX_FILE)?;
    for (name, placed) in file::read(&source, policy, graph, placer.fabric())? {
        if let Err(shortage) = placer.adopt(&name, placed) {
            let cause = format!("`{}`: tenant `{name}` does not fit any more: {shortage}", path.display());
            let hint = "the policy leaves tenants less than before: place all tenants anew with --rebalance, or one by \
                        removing it from the file";
            return Err(CommandError::refused(cause).hint(hint));
        }
    }
    Ok(())
}

/// Writes the file beside the old one and renames it.
fn write(path: &Path, placement: &Placement) -> Result<(), CommandError> {
    let mut bytes = Vec::new();
    json::write(&mut bytes, &placement.to_json())?;
    let cannot = |error: std::io::Error| CommandError::cannot_write(path, error);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = tempfile::NamedTempFile::new_in(directory).map_err(cannot)?;
    std::io::Write::write_all(&mut beside, &bytes).map_err(cannot)?;
    beside.as_file().sync_all().map_err(cannot)?;
    beside.persist(path).map_err(|error| cannot(error.error))?;
    Ok(())
}

/// A share as a percentage; `–` of nothing.
fn percent(part: u128, whole: u128) -> String {
    let Some(thousandths) = (1_000 * part + whole / 2).checked_div(whole) else { return "–".to_owned() };
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}
