//! `weir allocate`: the shares of the whole network, once.

use crate::error::{CommandError, Exit};
use crate::output::{Style, Table, Ui};
use crate::{input, text};
use std::path::PathBuf;
use weir_alloc::Allocation;
use weir_answers::allocate::Allocated;
use weir_policy::Policy;
use weir_report::json;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir allocate policy.yaml --demands demands.csv
  printf 'm1,dfs,tx,10Gb/s\\nm1,vm,tx,unlimited\\n' | weir allocate policy.yaml --demands - --json

Demands are rows of machine,service,direction,demand; a demand is a rate or `unlimited`; a service
without a row has no demand and is not listed.

With --json: {\"allocations\": [{\"machine\", \"service\", \"direction\", \"demand_bps\",
\"allocation_bps\", \"limited\", \"decided_by\"}]}. Rates are whole bit/s; the demand_bps of an
unlimited demand is null. A share is limited when anything but its own demand decided it.")]
pub(crate) struct Args {
    /// The policy file; `-` is standard input
    policy: PathBuf,
    /// The demand of every service, as CSV; `-` is standard input
    #[arg(long, value_name = "FILE")]
    demands: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let (policy, demands) = input::policy_and_demands(&args.policy, &args.demands, ui)?;
    let allocated = weir_answers::allocate(&policy, &demands);
    if args.json {
        json::write(ui.out(), &allocated.to_json())?;
        return Ok(Exit::Done);
    }
    if allocated.allocations().is_empty() {
        ui.print("no demand is above zero\n")?;
        return Ok(Exit::Done);
    }
    ui.print_table(&allocations(&policy, allocated.allocations()), 0)?;
    ui.print("\n")?;
    ui.print_table(&totals(&policy, &allocated), 0)?;
    Ok(Exit::Done)
}

fn allocations(policy: &Policy, allocations: &[Allocation]) -> Table {
    let mut table = Table::new(&["machine", "service", "dir", ">demand", ">allocation", "limited", "decided by"]);
    for allocation in allocations {
        let limited = allocation.decided_by.is_limit();
        let style = if limited { Style::Limited } else { Style::Plain };
        table.styled([
            (policy.network().machine(allocation.machine).name().to_owned(), Style::Plain),
            (policy.services().get(allocation.service).path().to_owned(), Style::Plain),
            (allocation.direction.name().to_owned(), Style::Plain),
            (text::rate(allocation.demand), Style::Plain),
            (text::rate(allocation.allocation), Style::Strong),
            (if limited { "yes" } else { "no" }.to_owned(), style),
            (allocation.decided_by.display(policy).to_string(), style),
        ]);
    }
    table
}

/// The sum of each rack's machines, beside its uplink's capacity.
fn totals(policy: &Policy, allocated: &Allocated<'_>) -> Table {
    let mut table = Table::new(&["rack", "dir", ">allocated", ">capacity", ">left"]);
    for total in allocated.totals() {
        table.row([
            policy.network().rack(total.rack).name(),
            total.direction.name(),
            &text::rate(total.allocated),
            &text::rate(total.capacity),
            &text::rate(total.left()),
        ]);
    }
    table
}
