//! The table of links: latency levels, credits and services first, tenants from the rest.

use crate::output::{Table, Ui};
use crate::text;
use std::io;
use weir_answers::Places;
use weir_answers::tenants::links::{Links, kind_name, name};
use weir_placement::CableRoom;
use weir_units::Bandwidth;

/// Prints a row for each group of links.
pub(crate) fn print(places: &Places, ui: &mut Ui) -> io::Result<()> {
    let groups = Links::of(places);
    let has_caps = groups.iter().any(|group| group.room.capped > Bandwidth::ZERO);
    let has_credits = groups.iter().any(|group| group.room.credits > Bandwidth::ZERO);
    let mut columns = vec!["link", "between", ">links", ">rate", ">levels"];
    if has_credits {
        columns.push(">credits");
    }
    columns.push(">services");
    if has_caps {
        columns.push(">not usable");
    }
    columns.extend([">for tenants", ">most reserved", ">left", "fullest"]);
    let mut table = Table::new(&columns);
    for group in &groups {
        let names: Vec<String> = group.cables.iter().map(|cable| name(places, *cable)).collect();
        let CableRoom { rate, levels, credits, services, capped, tenants } = group.room;
        let mut row = vec![kind_name(group.kind).to_owned(), text::list(&names, 1), text::whole(names.len() as u64)];
        row.extend([rate, levels].map(text::rate));
        if has_credits {
            row.push(text::rate(credits));
        }
        row.push(text::rate(services));
        if has_caps {
            row.push(text::rate(capped));
        }
        row.extend([tenants, group.most, group.left()].map(text::rate));
        row.push(if group.most > Bandwidth::ZERO { name(places, group.fullest) } else { String::new() });
        table.row(row);
    }
    ui.print_table(&table, 2)
}
