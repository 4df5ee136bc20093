//! The report of `weir place`: the load of links, the tenants of ports, and maps of the fullest racks.

use super::percent;
use crate::error::CommandError;
use crate::report_files::ReportFiles;
use crate::text;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_answers::Places;
use weir_answers::place::Placement;
use weir_answers::tenants::links::{kind_name, name};
use weir_answers::tenants::{routes, spread_cost};
use weir_placement::{CableId, CableKind};
use weir_policy::Policy;
use weir_report::{Axis, Chart, MapRow, Page, Series, SlotMap, Style, Table, Unit, json};
use weir_units::MachineId;

/// Racks with a map: those with the most slots in use.
const MAPS: usize = 6;
/// Rows of the table of links.
const LINKS: usize = 20;
/// Numbers of tenants with bars of their own.
const BARS: u32 = 24;

/// Writes the page, each picture, and the placement for programs. Returns the page's path.
pub(super) fn write(
    policy: &Policy,
    placement: &Placement,
    (name, command): (&str, &str),
    report: &ReportFiles,
) -> Result<PathBuf, CommandError> {
    let places = &placement.places;
    let (load, tenants) = (load(places), tenants_of_ports(places, policy.queue_budget().tenants));
    let maps = maps(policy, places);
    report.replace("load.svg", &load.to_svg())?;
    report.replace("tenants.svg", &tenants.to_svg())?;
    for (rack, map) in &maps {
        report.replace(&format!("rack-{rack}.svg"), &map.to_svg())?;
    }
    report.replace("placement.json", &json::to_text(&placement.to_json()))?;
    let mut page = summary(Page::new(format!("Placement of the tenants of {name}")), policy, placement)
        .heading("Load per link")
        .paragraph("The part that is reserved of what levels and services leave to tenants, the fullest link first.")
        .chart(&load)
        .table(&links(places))
        .heading("Tenants per port")
        .chart(&tenants)
        .heading("Racks")
        .paragraph("Each row is a machine with its slots; the racks with the most slots in use.");
    for (_, map) in &maps {
        page = page.map(map);
    }
    if !placement.routes.is_empty() {
        let switches = routes::switches_text(&placement.routes);
        let routes = text::count(placement.routes.len(), "route");
        page = page
            .heading("Routes")
            .paragraph(&format!("{routes} at {switches} confine tenants to their trees; placement.json lists them."));
    }
    Ok(report.replace("report.html", &page.heading("Again").code(command).to_html())?)
}

/// The figures of the placement, and tenants without a place.
fn summary(mut page: Page, policy: &Policy, placement: &Placement) -> Page {
    let places = &placement.places;
    let ledger = places.placer.ledger();
    let (free, slots) = ledger.slots();
    let (reserved, capacity) = ledger.reserved_of_all();
    page = page.paragraph(&format!(
        "{} of {} tenants have a place. {} of {} slots are in use ({}), {} of what tenants can reserve on all links is \
         reserved.",
        placement.whole(),
        policy.tenants().len(),
        text::whole(slots - free),
        text::whole(slots),
        percent((slots - free).into(), slots.into()),
        percent(reserved, capacity),
    ));
    if places.placer.fabric().is_spread() {
        page = page.paragraph(&spread_cost(places));
    }
    for rejected in &places.rejected {
        page = page.notice(&format!("No place: {}: {}", rejected.name, rejected.reason()));
    }
    page
}

const KINDS: [CableKind; 3] = [CableKind::Machine, CableKind::Uplink, CableKind::Core];

/// The cables of a kind.
fn of_kind(places: &Places, kind: CableKind) -> Vec<CableId> {
    let fabric = places.placer.fabric();
    (0..fabric.cables() as u32).map(CableId).filter(|cable| fabric.kind(&places.graph, *cable) == kind).collect()
}

/// The reserved part of a cable, 0 to 100; 0 where tenants can reserve nothing.
fn part(places: &Places, cable: CableId) -> f64 {
    let ledger = places.placer.ledger();
    let capacity = ledger.capacity(cable).bps();
    if capacity == 0 { 0.0 } else { 100.0 * ledger.reserved(cable).bps() as f64 / capacity as f64 }
}

/// The reserved part of links, by rank.
fn load(places: &Places) -> Chart {
    let percent = || Unit::Plain("%".to_owned());
    let mut chart = Chart::new(Axis::new("links, the fullest first", percent()), Axis::new("reserved", percent()));
    chart.title = "Reserved part of links".to_owned();
    (chart.x.from, chart.x.to, chart.y.to) = (Some(0.0), Some(100.0), Some(100.0));
    for kind in KINDS {
        let mut parts: Vec<f64> = of_kind(places, kind).into_iter().map(|cable| part(places, cable)).collect();
        parts.sort_by(|one, other| other.total_cmp(one));
        let (count, last) = (parts.len() as f64, parts.last().copied());
        let mut points: Vec<(f64, f64)> =
            parts.into_iter().enumerate().map(|(at, part)| (100.0 * at as f64 / count, part)).collect();
        points.extend(last.map(|last| (100.0, last)));
        if !points.is_empty() {
            chart.series.push(Series { style: Style::Steps, ..Series::new(kind_name(kind), points) });
        }
    }
    chart
}

/// How many ports have how many tenants.
fn tenants_of_ports(places: &Places, queues: usize) -> Chart {
    let ledger = places.placer.ledger();
    let most = (0..places.placer.fabric().cables() as u32).map(|at| ledger.tenants(CableId(at))).max().unwrap_or(0);
    let most = most.min(BARS);
    let unit = || Unit::Plain(String::new());
    let mut chart = Chart::new(Axis::new("tenants of a port", unit()), Axis::new("ports", unit()));
    chart.title = format!("Tenants per port, with {} for single tenants", text::count(queues, "queue"));
    chart.categories = (0..=most).map(|at| if at == BARS { format!("{at}+") } else { at.to_string() }).collect();
    for kind in KINDS {
        let cables = of_kind(places, kind);
        // The other end of a machine's cable is the machine's own interface.
        let ends = if kind == CableKind::Machine { 1.0 } else { 2.0 };
        let count = |tenants: u32| cables.iter().filter(|cable| ledger.tenants(**cable).min(BARS) == tenants).count();
        if !cables.is_empty() {
            chart.series.push(Series::bars(kind_name(kind), (0..=most).map(|at| Some(ends * count(at) as f64))));
        }
    }
    chart
}

/// The fullest links.
fn links(places: &Places) -> Table {
    let ledger = places.placer.ledger();
    let mut cables: Vec<CableId> = (0..places.placer.fabric().cables() as u32).map(CableId).collect();
    cables.retain(|cable| ledger.tenants(*cable) > 0);
    cables.sort_by(|one, other| part(places, *other).total_cmp(&part(places, *one)).then(one.cmp(other)));
    let mut table = Table::new()
        .text("fullest links")
        .number("tenants")
        .number("reserved")
        .number("for tenants")
        .number("services")
        .number("levels")
        .number("rate");
    for cable in cables.into_iter().take(LINKS) {
        let room = places.rooms[cable.index()];
        let rates = [ledger.reserved(cable), room.tenants, room.services, room.levels, room.rate].map(text::rate);
        let first = [name(places, cable), ledger.tenants(cable).to_string()];
        table.row(first.into_iter().chain(rates));
    }
    table
}

/// The racks with the most slots in use, by name.
fn maps(policy: &Policy, places: &Places) -> Vec<(String, SlotMap)> {
    let mut occupied: BTreeMap<MachineId, Vec<(String, u32)>> = BTreeMap::new();
    for (name, placed) in places.placer.placed() {
        for part in &placed.fit.parts {
            occupied.entry(part.machine).or_default().push((name.clone(), part.vms.iter().sum()));
        }
    }
    let network = policy.network();
    let used = |machine: &MachineId| occupied.get(machine).into_iter().flatten().map(|(_, vms)| *vms).sum::<u32>();
    let mut racks: Vec<_> = network.racks().iter().collect();
    racks.sort_by_key(|rack| Reverse(rack.machines().iter().map(used).sum::<u32>()));
    let row = |machine: &MachineId| MapRow {
        name: network.machine(*machine).name().to_owned(),
        occupied: occupied.get(machine).cloned().unwrap_or_default(),
        slots: network.machine(*machine).slots(),
        remark: format!("{:.0} % of its link", part(places, CableId(machine.0))),
    };
    let map = |rack: &weir_network::Rack| {
        let title = format!("Rack {}", rack.name());
        (rack.name().to_owned(), SlotMap { title, rows: rack.machines().iter().map(row).collect() })
    };
    racks.into_iter().take(MAPS).map(map).collect()
}
