//! `weir check`: whether a policy is valid, its guarantees fit, and agents and forwarders can enforce it.

use crate::error::{CommandError, Exit};
use crate::output::{Style, Table, Ui};
use crate::{credits, input, levels, mechanisms, tenants, text, values};
use std::path::PathBuf;
use weir_answers::check::{Check, CheckOptions, ValidPolicy, guarantees};
use weir_answers::tenants::spread_cost;
use weir_policy::TenantPaths;
use weir_report::json;
use weir_units::ContentionPoint;

/// The output of `--json` for a refused document.
pub(super) use weir_answers::check::refused_json;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir check policy.yaml
  weir check policy.yaml --placed /var/lib/weir/placement.json
  weir check policy.yaml --interface eth0
  weir check --json - < policy.yaml | jq '.diagnostics[] | \"\\(.line): \\(.cause)\"'

With --json: {\"valid\": true or false, \"errors\": how many, \"diagnostics\": [{\"severity\",
\"file\", \"line\", \"column\", \"cause\", \"hint\", \"fix\": only where the hint suggests one text,
{\"line\", \"column\", \"length\", \"text\"}}], and for a valid policy \"racks\", \"machines\",
\"services\" (how many) and \"guarantees\": [{\"point\", \"places\": [name], \"direction\",
\"capacity_bps\", \"guaranteed_bps\", \"left_bps\"}]}. Errors have the severity `error`, remarks `note`.

\"mechanisms\": [{\"service\", \"mechanism\": \"shares\", \"level\", \"tenant-queues\" or \"credits\", \"needs\"
(of switches), \"offered\": true, false or null where the policy states no queues}] has every
service and tenant.

A policy with latency levels has \"levels\" too: {\"packet_bytes\", \"framing_bytes\", \"load\",
\"reserved\" (the part of every port that guarantees are not of), \"epoch\", \"epoch_ns\", \"slowest_bps\",
\"segments\", \"chosen\", \"levels\": [{\"level\", \"senders\", \"factor\", \"burst_bytes\", \"rate_bps\", \"dscp\",
\"worst_ns\", \"backlog_bytes\", \"unbounded\": why}], \"ports\": [{\"port\", \"alike\", \"kind\", \"rate_bps\",
\"buffer_bytes\", \"levels\": [{\"delay_ns\", \"backlog_bytes\"}]}], \"services\": [{\"service\", \"level\",
\"message_bytes\", \"round_trip\", \"needed_bps\", \"wait_ns\", \"worst_ns\", \"target_ns\", \"verdict\"}],
\"unlimited\": [service]}.

A policy with credits has \"credits\" too: {\"lossless\", \"reasons\" (why not), \"forwarders\", \"share\"
(of what levels leave of every port), \"period_max_us\", \"queue\" of switches: null or {\"scheduler\",
\"weight\", \"others_weight\", \"dscp\", \"messages_dscp\"}, \"services\": [{\"service\", \"weight\"}],
\"ports\": [{\"port\", \"alike\", \"kind\", \"rate_bps\", \"granted_bps\", \"buffer_bytes\", \"needed_bytes\",
\"flows\"}]}.

A policy with tenants is checked with their places: those of --placed FILE, and for all others
those that `weir place` would find. One table shows the division of links: services first, tenants
reserve the rest; a second the queues of ports. Tenants that no tree of the network can have are
refused. The search for places is a heuristic: a tenant that it does not place is noted, with the
resource that ran out, and with another order or search that places all tenants, if there is one.
With --json it has \"tenants\" too: {\"places\": file or null, \"placed\", \"rejected\": [{\"tenant\",
\"reason\"}], \"paths\", \"switches_without_routes\", \"links\": [{\"link\", \"kind\", \"rate_bps\",
\"levels_bps\", \"credits_bps\", \"services_bps\", \"not_usable_bps\", \"for_tenants_bps\", \"reserved_bps\",
\"left_bps\", \"tenants\"}], \"queues\": [{\"at\", \"ports\", \"queues\", \"control\", \"levels\", \"strict_left\",
\"shared\", \"credits\", \"tenants\", \"most_tenants\", \"queues_left\", \"ports_with_more_tenants\"}]}.
Reservations are the same in both directions of a link.

A policy that agents or forwarders refuse is refused here too, by the same rules: at most 1024
services and tenants, 4096 filters of an interface, 256 that a packet is compared with, 64 globs
over control groups. Filters by interface are tried on the names that the policy states, or with
--interface on that one; then a remark lists the globs that hold there for packets of guests only.
--for-planning makes these refusals remarks.

Exit code 0: valid, perhaps with notes. 2: refused.")]
pub(crate) struct Args {
    /// The policy file; `-` is standard input
    policy: PathBuf,
    /// Check the tenants of this placement where they are
    #[arg(long, value_name = "FILE")]
    placed: Option<PathBuf>,
    /// Check for an agent on this interface
    #[arg(long, value_name = "NAME", value_parser = values::interface)]
    interface: Option<String>,
    /// Check for `weir plan`, `allocate` and `place` alone: what agents and forwarders refuse is a remark
    #[arg(long)]
    for_planning: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let read = input::admitted_policy(&args.policy)?;
    let options = CheckOptions {
        placed: args.placed.clone(),
        interface: args.interface.clone(),
        for_planning: args.for_planning,
    };
    let checked = tenants::watched(None, ui, |on_arrival| weir_answers::check(read, &options, on_arrival))?;
    let exit = if checked.is_valid() { Exit::Done } else { Exit::Refused };
    if args.json {
        json::write(ui.out(), &checked.to_json())?;
        return Ok(exit);
    }
    match checked {
        Check::Valid(valid) => print(args, &valid, ui)?,
        Check::Refused(refused) => return Err(refused.into()),
    }
    Ok(exit)
}

fn print(args: &Args, valid: &ValidPolicy, ui: &mut Ui) -> Result<(), CommandError> {
    print_policy(args, valid, ui)?;
    credits::print(valid.numbered(), ui)?;
    mechanisms::print(valid.numbered(), ui)?;
    if let Some(checked) = &valid.tenants {
        let places = &checked.places;
        let placed = places.placer.placed().len();
        ui.print(&format!(
            "\nlinks, each direction: levels and services first, tenants reserve the rest\n{placed} of {}, {}\n",
            text::count(valid.policy.tenants().len(), "tenant"),
            places.origin()
        ))?;
        tenants::links::print(places, ui)?;
        if valid.policy.tenant_queues().paths == TenantPaths::Spread {
            ui.print(&text::wrapped(&spread_cost(places), 2))?;
        }
        ui.print(
            "\nqueues of each port: levels and credits take strict queues, tenants weighted ones, one is shared\n",
        )?;
        tenants::queues::print(places, valid.numbered(), ui)?;
    }
    for note in &valid.notes {
        ui.print(&format!("\n{}", note.render(ui.out_is_coloured())))?;
    }
    Ok(())
}

fn print_policy(args: &Args, checked: &ValidPolicy, ui: &mut Ui) -> Result<(), CommandError> {
    let (policy, network) = (&checked.policy, checked.policy.network());
    let found = [
        text::count(network.racks().len(), "rack"),
        text::count(network.machines().len(), "machine"),
        text::count(checked.services(), "service"),
    ];
    let mut found = found.to_vec();
    if !policy.tenants().is_empty() {
        found.push(text::count(policy.tenants().len(), "tenant"));
    }
    let valid = ui.on_out(Style::Good, "valid");
    ui.print(&format!("{}: {valid}, {}\n\n", args.policy.display(), found.join(", ")))?;

    let mut table = Table::new(&["where", "places", "direction", ">capacity", ">guaranteed", ">left to share"]);
    let rows = guarantees(policy);
    let mut rows = rows.iter().peekable();
    while let Some(row) = rows.next() {
        // Most networks are the same in both directions: one line shows both.
        let same = rows.next_if(|next| next.same_but_direction(row)).is_some();
        let direction = if same { "tx, rx" } else { row.direction.name() };
        let places = text::list(&row.places, 3);
        table.row([
            row.point.name(),
            if row.point == ContentionPoint::Fabric { "" } else { &places },
            direction,
            &text::rate(row.capacity),
            &text::rate(row.guaranteed),
            &text::rate(row.left()),
        ]);
    }
    ui.print_table(&table, 2)?;
    if let Some(admitted) = &checked.levels {
        ui.print("\n")?;
        levels::print::print(admitted, ui)?;
    }
    Ok(())
}
