//! The table of the queues of ports: levels take strict ones, tenants weighted ones, one of which all others share.

use crate::output::{Table, Ui};
use crate::text;
use std::io;
use weir_answers::Places;
use weir_answers::tenants::queues::Ports;
use weir_placement::CableKind;
use weir_policy::Policy;

/// The ports' name by the links behind them.
fn port_name(kind: CableKind) -> &'static str {
    match kind {
        CableKind::Machine => "to a machine",
        CableKind::Uplink => "of an uplink, both ends",
        CableKind::Core => "between switches",
    }
}

/// Prints a row for each kind of ports.
pub(crate) fn print(places: &Places, policy: &Policy, ui: &mut Ui) -> io::Result<()> {
    let budget = policy.queue_budget();
    let mut table = Table::new(&[
        "port",
        ">ports",
        ">queues",
        ">control",
        ">levels",
        ">strict left",
        ">shared",
        ">credits",
        ">tenants",
        ">most tenants of a port",
        ">queues left",
        ">ports with more tenants",
    ]);
    for row in Ports::of(places, &budget) {
        table.row([
            port_name(row.kind).to_owned(),
            text::whole(row.ports as u64),
            budget.queues.to_string(),
            budget.control.to_string(),
            budget.levels.to_string(),
            budget.strict_left.to_string(),
            budget.shared.to_string(),
            budget.credits.to_string(),
            budget.tenants.to_string(),
            row.most.to_string(),
            row.queues_left(&budget).to_string(),
            text::whole(row.contended as u64),
        ]);
    }
    ui.print_table(&table, 2)
}
