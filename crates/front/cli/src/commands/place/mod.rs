//! `weir place`: tenants' virtual machines onto machines.

mod compare;
mod page;
mod print;

use crate::error::{CommandError, Exit};
use crate::input;
use crate::interrupt::Interrupt;
use crate::output::Ui;
use crate::report_files::ReportArgs;
use crate::tenants::watched;
use crate::text;
use std::fs::{File, Permissions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use weir_answers::Places;
use weir_answers::place::{Placement, STRATEGIES, can_place, order, place, strategy};
use weir_answers::tenants::Order;
use weir_placement::Strategy;
use weir_report::json;
use weir_results::files::replace;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir place policy.yaml
  weir place policy.yaml --placed /var/lib/weir/placement.json --report out/place
  weir place policy.yaml --compare

Each tenant goes into one tree of the network: onto one machine if it has room, otherwise below the
lowest switch whose links have the bandwidth, and there where it costs least: few tenants on a link
while the network is empty, little bandwidth when it is full. The services' guarantees and the
bounded latency levels come first; tenants reserve the remaining bandwidth.

--placed FILE continues from an earlier placement and replaces the file: tenants that are no longer
in the policy depart, new ones arrive, the others stay. Virtual machines that have a place keep it,
with their names; those that a tenant has in addition are placed beside them. Without a file of
that name all arrive. --rebalance places all tenants anew.

--order: new tenants arrive by `payment`, those with the largest sum of bandwidths first, equal
ones by their virtual machines and groups, so that names have no part in it; or by `names`.

--strategy: `load` (QShare, the default), `queues` (always few tenants on a link), `bandwidth`
(always little bandwidth), `first-fit`, `oktopus`.

With --json, and in FILE: {\"placement\": 1, \"tenants\": [{\"tenant\", \"tree\", \"vms\": [{\"vm\",
\"machine\"}], \"dscp\" (absent: all values are in use on its links, or it uses no link), \"links\":
[{\"link\", \"reserved_bps\"}]}], \"rejected\": [{\"tenant\", \"reason\": \"slots\", \"bandwidth\" or
\"groups\", \"missing\": slots or bit/s, \"link\", \"left\": virtual machines without a place}], \"routes\":
[{\"switch\", \"tenant\", \"packets\": [filter], \"to\": [machine], \"by\": the next switch, \"instead_of\":
[those of the shortest paths]}]}. A link is one-way; reservations are the same both ways.

On a network with several paths, `routes` are those that each switch needs so that a tenant's
packets stay on the links where it has reservations. Weir does not configure them. With
`tenant-queues: { paths: spread }` in the policy each tenant reserves in full on all equal paths,
and needs none.

--compare places the policy's tenants from nothing by every strategy, and prints how many have a
place and what they cost: mean c_b, the bandwidth that a tenant reserves on all links, and mean
c_q, the most tenants of any of its links when it arrives. With --json: {\"strategies\":
[{\"strategy\", \"tenants\", \"accepted\", \"vms\", \"accepted_vms\", \"paid_bps\", \"accepted_bps\",
\"mean_cb_bps\", \"mean_cq\", \"most_tenants\", \"reserved_bps\", \"capacity_bps\", \"milliseconds\"}]}.

--report DIR draws the load of links, the tenants of ports and maps of the fullest racks.

Ctrl-C ends it between two tenants; with --placed, those that have a place are kept, and the same
command continues.

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
    /// Compare the strategies on this policy
    #[arg(long, conflicts_with_all = ["placed", "strategy", "order", "report"])]
    compare: bool,
    /// The search for places
    #[arg(long, value_name = "NAME", value_parser = strategy, default_value = "load")]
    strategy: Strategy,
    /// The order in which new tenants arrive
    #[arg(long, value_name = "payment|names", value_parser = order, default_value = "payment")]
    order: Order,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let interrupt = Interrupt::listen()?;
    let (policy, notes) = input::policy(&args.policy)??;
    can_place(&policy)?;
    // After the refusals, which have the cause of some of them.
    input::print_notes(&notes, ui)?;
    if args.compare {
        return compare::run(&policy, args.json, &interrupt, ui);
    }
    let report = args.report.prepare()?;
    // Until the file is written: another run that had read it too would undo this one.
    let _lock = args.placed.as_deref().map(lock).transpose()?;
    let mut places = Places::new(&policy, args.strategy);
    if let Some(path) = args.placed.as_deref().filter(|path| path.exists() && !args.rebalance) {
        input::print_notes(&places.adopt(path, &policy)?, ui)?;
    }
    let placement = watched(Some(&interrupt), ui, |on_arrival| place(&policy, places, args.order, on_arrival));
    let untried = placement.places.untried;
    if untried > 0 && args.rebalance {
        let cause = "interrupted: no tenant was moved";
        return Err(CommandError::interrupted(cause).hint("a placement anew is kept only whole"));
    }
    if let Some(path) = &args.placed {
        write(path, &placement)?;
    }
    if let Some(report) = &report {
        let name = args.policy.display().to_string();
        let path = page::write(&policy, &placement, (&name, &args.command()), report)?;
        ui.notice(&format!("report: {}\n", path.display()))?;
    }
    if args.json {
        json::write(ui.out(), &placement.to_json())?;
    } else {
        print::print(&policy, &placement, ui)?;
    }
    if untried > 0 {
        let error = CommandError::interrupted(format!("interrupted: {untried} tenants were not placed"));
        return Err(match args.placed {
            Some(_) => error.hint("all others are kept: the same command continues"),
            None => error,
        });
    }
    Ok(if placement.places.rejected.is_empty() { Exit::Done } else { Exit::Failed })
}

impl Args {
    /// The command line that makes the same report.
    fn command(&self) -> String {
        let mut parts = vec!["weir".to_owned(), "place".to_owned(), self.policy.display().to_string()];
        if let Some(path) = &self.placed {
            parts.extend(["--placed".to_owned(), path.display().to_string()]);
        }
        let named = STRATEGIES.iter().find(|(_, strategy)| *strategy == self.strategy);
        if let Some((name, _)) = named.filter(|_| self.strategy != Strategy::default()) {
            parts.extend(["--strategy".to_owned(), (*name).to_owned()]);
        }
        if self.order == Order::Names {
            parts.extend(["--order", "names"].map(str::to_owned));
        }
        if let Some(directory) = self.report.directory() {
            parts.extend(["--report".to_owned(), directory.display().to_string()]);
        }
        parts.iter().map(|part| text::shell_word(part)).collect::<Vec<_>>().join(" ")
    }
}

/// Replaces the file, which a fabric broker reads as another user.
fn write(path: &Path, placement: &Placement) -> Result<(), CommandError> {
    let mut bytes = Vec::new();
    json::write(&mut bytes, &placement.to_json())?;
    replace(path, |out| {
        out.write_all(&bytes)?;
        out.flush()?;
        out.get_ref().set_permissions(Permissions::from_mode(0o644))?;
        out.get_ref().sync_all()
    })?;
    // The file's name survives a crash of the host as well.
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| CommandError::cannot_write(path, error))
}

/// Keeps other runs from the placement in this file while the value exists. The lock is a file beside it, since the
/// file itself is replaced; it stays, as a lock on a deleted one would exclude nothing.
fn lock(path: &Path) -> Result<File, CommandError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let beside = PathBuf::from(name);
    let cannot = |error: std::io::Error| CommandError::cannot_write(&beside, error);
    let file = File::options().write(true).create(true).truncate(false).open(&beside).map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let cause = format!("another `weir place` continues the placement `{}`", path.display());
            Err(CommandError::refused(cause).hint("run this command again when that one has ended"))
        }
        Err(TryLockError::Error(error)) => Err(cannot(error)),
    }
}

/// A share as a percentage; `–` of nothing.
fn percent(part: u128, whole: u128) -> String {
    let Some(thousandths) = (1_000 * part + whole / 2).checked_div(whole) else { return "–".to_owned() };
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}
