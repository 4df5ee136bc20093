//! The tables of `weir place`.

use super::percent;
use crate::error::CommandError;
use crate::output::{Style, Table, Ui};
use crate::tenants;
use crate::text;
use std::collections::BTreeMap;
use weir_answers::place::Placement;
use weir_answers::tenants::spread_cost;
use weir_network::Graph;
use weir_placement::{CableId, Placer, Shortage};
use weir_policy::Policy;
use weir_units::Bandwidth;

/// Links of the table of the fullest ones.
const LINKS: usize = 10;

pub(super) fn print(policy: &Policy, placement: &Placement, ui: &mut Ui) -> Result<(), CommandError> {
    let places = &placement.places;
    ui.print_table(&table(policy, placement), 0)?;
    for rejected in &places.rejected {
        let title = ui.on_out(Style::Error, if rejected.kept == 0 { "no place:" } else { "no place for all:" });
        ui.print(&format!("{title} {}: {}\n", rejected.name, rejected.reason()))?;
    }
    if places.rejected.iter().any(|rejected| rejected.shortage == Shortage::Groups) {
        ui.print("  Oktopus has one bandwidth for all virtual machines of a tenant; use another strategy\n")?;
    } else if !places.rejected.is_empty() {
        ui.print(
            "  the search is a heuristic: `weir check` shows whether another order or search places all tenants\n",
        )?;
    }
    let (free, slots) = places.placer.ledger().slots();
    let (reserved, capacity) = places.placer.ledger().reserved_of_all();
    ui.print(&format!(
        "\n{} of {} placed, {} before; {} of {slots} slots used ({}), {} of all links reserved\n",
        placement.whole(),
        policy.tenants().len(),
        places.kept.len(),
        slots - free,
        percent((slots - free).into(), slots.into()),
        percent(reserved, capacity),
    ))?;
    if places.placer.fabric().is_spread() && reserved > 0 {
        ui.print(&text::wrapped(&spread_cost(places), 0))?;
    }
    if reserved > 0 {
        ui.print("\n")?;
        ui.print_table(&links(&places.graph, &places.placer), 0)?;
    }
    if !placement.routes.is_empty() {
        ui.print("\n")?;
        tenants::routes::print(&placement.routes, ui)?;
        let remark = "The network has several paths: packets that take other links than their tenant's have no \
                      reservation there. Weir configures no routes; see `tenant-queues: { paths: … }` in the policy.";
        ui.print(&text::wrapped(remark, 0))?;
    }
    Ok(())
}

fn table(policy: &Policy, placement: &Placement) -> Table {
    let mut table = Table::new(&["tenant", ">VMs", ">bandwidth", "tree", "machines", ">links", ">DSCP", ""]);
    let known: BTreeMap<&str, Bandwidth> =
        policy.tenants().iter().map(|tenant| (tenant.name.as_str(), tenant.bandwidth())).collect();
    for tenant in &placement.placed {
        let mut machines: Vec<(&str, u32)> = Vec::new();
        for (_, machine) in &tenant.vms {
            match machines.iter_mut().find(|(name, _)| name == machine) {
                Some((_, count)) => *count += 1,
                None => machines.push((machine, 1)),
            }
        }
        let shown: Vec<String> = machines.iter().map(|(name, count)| format!("{name} ({count})")).collect();
        table.row([
            tenant.name.clone(),
            tenant.vms.len().to_string(),
            text::rate(known[tenant.name.as_str()]),
            match tenant.roots {
                0 | 1 => tenant.tree.clone(),
                alike => format!("{} and {} more", tenant.tree, alike - 1),
            },
            text::list(&shown, 3),
            tenant.links.len().to_string(),
            tenant.dscp.map_or("–".to_owned(), |dscp| dscp.to_string()),
            match tenant.vms.len() as u32 - tenant.kept {
                0 => String::new(),
                _ if tenant.kept == 0 => "new".to_owned(),
                more => format!("{more} more VMs"),
            },
        ]);
    }
    table
}

/// The links with the most tenants, then with the largest part reserved.
fn links(graph: &Graph, placer: &Placer) -> Table {
    let ledger = placer.ledger();
    let part = |cable: CableId| {
        let (reserved, capacity) = (ledger.reserved(cable).bps(), ledger.capacity(cable).bps());
        if capacity == 0 { 0 } else { u128::from(reserved) * 1_000_000 / u128::from(capacity) }
    };
    let mut cables: Vec<CableId> = (0..placer.fabric().cables() as u32).map(CableId).collect();
    cables.retain(|cable| ledger.tenants(*cable) > 0);
    cables.sort_by_key(|cable| std::cmp::Reverse((ledger.tenants(*cable), part(*cable), std::cmp::Reverse(*cable))));
    let mut table = Table::new(&["fullest links", ">tenants", ">reserved", ">for tenants", ">part"]);
    for cable in cables.into_iter().take(LINKS) {
        table.row([
            graph.link_name(placer.fabric().links(cable).0),
            ledger.tenants(cable).to_string(),
            text::rate(ledger.reserved(cable)),
            text::rate(ledger.capacity(cable)),
            percent(part(cable), 1_000_000),
        ]);
    }
    table
}
