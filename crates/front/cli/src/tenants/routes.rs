//! The table of the routes that confine tenants to their trees, by switch.

use crate::output::{Table, Ui};
use crate::text;
use std::io;
use weir_answers::tenants::routes::TenantRoute;

/// Routes of the table; `--json` has all.
const SHOWN: usize = 40;

/// Prints a row for each route.
pub(crate) fn print(routes: &[TenantRoute], ui: &mut Ui) -> io::Result<()> {
    let mut table = Table::new(&["routes at", "tenant", "packets", "to", "by", "shortest paths"]);
    for route in routes.iter().take(SHOWN) {
        table.row([
            route.switch.clone(),
            route.tenant.clone(),
            text::list(&route.packets, 2),
            text::list(&route.towards, 4),
            route.next.clone(),
            text::list(&route.instead_of, 4),
        ]);
    }
    ui.print_table(&table, 0)?;
    if routes.len() > SHOWN {
        ui.print(&format!("… and {} more, which --json has\n", text::whole((routes.len() - SHOWN) as u64)))?;
    }
    Ok(())
}
