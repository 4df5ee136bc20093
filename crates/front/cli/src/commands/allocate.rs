//! `weir allocate`: the shares of the whole network, once.

use crate::error::{CommandError, Exit};
use crate::output::{Style, Table, Ui};
use crate::{input, text};
use serde_json::{Value, json};
use std::path::PathBuf;
use weir_alloc::{Allocation, allocate};
use weir_policy::Policy;
use weir_report::json;
use weir_units::{Bandwidth, Direction, RackId};

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
    let shares = allocate(&policy, |machine, service, direction| demands.get(machine, service, direction));
    if args.json {
        let list: Value = shares.allocations.iter().map(|allocation| to_json(&policy, allocation)).collect();
        json::write(ui.out(), &json!({ "allocations": list }))?;
        return Ok(Exit::Done);
    }
    if shares.allocations.is_empty() {
        ui.print("no demand is above zero\n")?;
        return Ok(Exit::Done);
    }
    ui.print_table(&allocations(&policy, &shares.allocations), 0)?;
    ui.print("\n")?;
    ui.print_table(&totals(&policy, &shares.allocations), 0)?;
    Ok(Exit::Done)
}

fn to_json(policy: &Policy, allocation: &Allocation) -> Value {
    json!({
        "machine": policy.network().machine(allocation.machine).name(),
        "service": policy.services().get(allocation.service).path(),
        "direction": allocation.direction.name(),
        "demand_bps": text::bps(allocation.demand),
        "allocation_bps": text::bps(allocation.allocation),
        "limited": allocation.decided_by.is_limit(),
        "decided_by": allocation.decided_by.display(policy).to_string(),
    })
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
fn totals(policy: &Policy, allocations: &[Allocation]) -> Table {
    let network = policy.network();
    let mut sums = vec![[None::<Bandwidth>; 2]; network.racks().len()];
    for allocation in allocations {
        let rack = network.machine(allocation.machine).rack();
        let sum = &mut sums[rack.index()][usize::from(allocation.direction == Direction::Rx)];
        *sum = Some(sum.unwrap_or_default() + allocation.allocation);
    }
    let mut table = Table::new(&["rack", "dir", ">allocated", ">capacity", ">left"]);
    for (rack, sums) in (0..).map(RackId).zip(sums) {
        for (direction, sum) in Direction::ALL.into_iter().zip(sums) {
            // A rack without demands is left out.
            let Some(sum) = sum else { continue };
            let capacity = policy.rack_capacity(rack, direction);
            table.row([
                network.rack(rack).name(),
                direction.name(),
                &text::rate(sum),
                &text::rate(capacity),
                &text::rate(capacity.saturating_sub(sum)),
            ]);
        }
    }
    table
}
