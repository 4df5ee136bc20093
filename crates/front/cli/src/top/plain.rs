//! A view once: tables for people, the model for programs.

use super::credit_rows::{credit_flows, credit_ports};
use super::rows::{Filter, Order, machines, services, tenants};
use crate::output::{Style, Table, Ui};
use crate::text;
use serde_json::{Value, json};
use std::io;
use weir_observe::watcher::View;
use weir_status::{CreditFlow, LevelCounters};
use weir_units::{Bandwidth, Direction};

/// Removes control characters, since names come from other hosts.
fn clean(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// The columns of services.
const SERVICES: [&str; 11] = [
    "machine",
    "service",
    "dir",
    ">usage",
    ">dropped",
    ">demand",
    ">guarantee",
    ">share",
    ">limit",
    "decided by",
    "latency bound",
];

/// The columns of latency levels.
const LEVELS: [&str; 10] = [
    "machine",
    ">level",
    ">rate",
    ">worst delay",
    ">longest wait",
    ">waiting",
    ">sent",
    ">oversize",
    ">dropped",
    ">re-marked",
];

/// The columns of tenants.
const TENANTS: [&str; 8] =
    ["tenant", "queues", ">dscp", ">guarantee", ">sends", ">receives", ">score", "competes for queues at"];

/// The columns of ports with credits.
const CREDIT_PORTS: [&str; 8] =
    ["credits of", ">rate", ">flows", ">period", ">level", ">outstanding", ">queued", ">expired"];

/// The columns of flows with credits.
const CREDIT_FLOWS: [&str; 7] = ["flow at", "service", "from", "to", ">weight", ">share", "held by"];

/// Tables of machines, of services, of latency levels, of credits, and of tenants.
pub(crate) fn print(view: &View, filter: &Filter, order: Order, ui: &mut Ui) -> io::Result<()> {
    let mut table = Table::new(&["machine", "rack", "state", ">sends", ">receives"]);
    let mut lost = Vec::new();
    for machine in machines(view) {
        let rack = machine.agent.map(|agent| clean(&agent.rack)).unwrap_or_default();
        // The present usage of a lost machine is unknown.
        let agent = machine.agent.filter(|_| machine.lost.is_none());
        let rate = |direction| agent.map(|_| text::rate(machine.usage(direction))).unwrap_or_default();
        let (state, style) = match machine.lost {
            Some((time, why)) => {
                lost.push(clean(&format!("{}: {why}", machine.name)));
                (format!("lost for {}", text::about(time.nanos() as f64 / 1e9)), Style::Error)
            }
            None => (machine.state(), Style::Plain),
        };
        let plain = |text: String| (text, Style::Plain);
        let cells = [rate(Direction::Tx), rate(Direction::Rx)].map(plain);
        let [sends, receives] = cells;
        table.styled([(clean(&machine.name), Style::Strong), plain(rack), (state, style), sends, receives]);
    }
    ui.print_table(&table, 0)?;
    for line in lost {
        ui.print(&format!("  {line}\n"))?;
    }
    print_services(view, filter, order, ui)?;
    print_levels(view, ui)?;
    print_credits(view, filter, ui)?;
    print_tenants(view, filter, ui)
}

/// The ports that grant credits and their flows, if there are any.
fn print_credits(view: &View, filter: &Filter, ui: &mut Ui) -> io::Result<()> {
    let machines = machines(view);
    let ports = credit_ports(&machines);
    if ports.is_empty() {
        return Ok(());
    }
    let plain = |text: String| (text, Style::Plain);
    let bits = |bps: u64| plain(text::rate(Bandwidth::from_bps(bps)));
    let mut table = Table::new(&CREDIT_PORTS);
    for port in &ports {
        table.styled([
            (clean(&port.name), Style::Strong),
            bits(port.rate_bps),
            plain(port.flows.to_string()),
            plain(text::time(port.period_us as f64 / 1e6)),
            plain(format!("{:.1} %", port.level_billionths as f64 / 1e7)),
            plain(text::size(port.outstanding_bytes)),
            plain(text::size(port.queued_bytes)),
            plain(text::size(port.expired_bytes)),
        ]);
    }
    ui.print("\n")?;
    ui.print_table(&table, 0)?;
    let mut table = Table::new(&CREDIT_FLOWS);
    let rows: Vec<(&str, &CreditFlow)> = credit_flows(&ports, filter);
    for (port, flow) in &rows {
        let weight = flow.weight_thousandths as f64 / 1e3;
        let style = if flow.held_by == "demand" { Style::Plain } else { Style::Limited };
        table.styled([
            plain(clean(port)),
            (clean(&flow.service), Style::Strong),
            plain(clean(&flow.source)),
            plain(clean(&flow.destination)),
            plain(format!("{weight}")),
            bits(flow.share_bps),
            (clean(&flow.held_by), style),
        ]);
    }
    if !rows.is_empty() {
        ui.print("\n")?;
        ui.print_table(&table, 0)?;
    }
    Ok(())
}

/// The tenants with their queues, if a fabric broker binds any.
fn print_tenants(view: &View, filter: &Filter, ui: &mut Ui) -> io::Result<()> {
    let machines = machines(view);
    let rows = tenants(&machines, filter);
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&TENANTS);
    for row in rows {
        let plain = |text: String| (text, Style::Plain);
        let style = if row.status.moves.is_some() { Style::Limited } else { Style::Plain };
        table.styled([
            (clean(&row.status.tenant), Style::Strong),
            (clean(&row.queues()), style),
            plain(row.status.dscp.to_string()),
            plain(text::rate(row.status.guarantee)),
            plain(text::rate(row.status.used_tx)),
            plain(text::rate(row.status.used_rx)),
            plain(text::rate(Bandwidth::from_bps(row.status.score_bps))),
            plain(clean(&row.competes())),
        ]);
    }
    ui.print("\n")?;
    ui.print_table(&table, 0)
}

/// The latency levels of each machine, if there are any.
fn print_levels(view: &View, ui: &mut Ui) -> io::Result<()> {
    let mut table = Table::new(&LEVELS);
    let mut any = false;
    let obstacles = view.obstacles_to_bounds();
    for machine in machines(view) {
        for level in machine.agent.map_or(&[][..], |agent| &agent.levels) {
            any = true;
            let plain = |text: String| (text, Style::Plain);
            let seconds = |ns: u64| text::time(ns as f64 / 1e9);
            let of = |cell: fn(&LevelCounters) -> String| level.counters.as_ref().map_or("-".to_owned(), cell);
            let oversize = level.counters.is_some_and(|counters| counters.oversize > 0);
            let bound = match (level.bound_ns.map(seconds), obstacles.is_empty()) {
                (None, _) => plain("unbounded".to_owned()),
                (Some(bound), true) => plain(bound),
                (Some(bound), false) => (format!("{bound} (not in force)"), Style::Error),
            };
            table.styled([
                (clean(&machine.name), Style::Strong),
                plain(level.level.to_string()),
                plain(if level.rate > Bandwidth::ZERO { text::rate(level.rate) } else { "sends none".to_owned() }),
                bound,
                plain(of(|counters| text::time(counters.longest_wait_ns as f64 / 1e9))),
                plain(of(|counters| text::size(counters.backlog_bytes))),
                plain(of(|counters| text::size(counters.bytes))),
                (of(|counters| counters.oversize.to_string()), if oversize { Style::Limited } else { Style::Plain }),
                plain(of(|counters| counters.dropped.to_string())),
                plain(of(|counters| counters.remarked.to_string())),
            ]);
        }
    }
    if any {
        ui.print("\n")?;
        ui.print_table(&table, 0)?;
    }
    for obstacle in obstacles {
        ui.print(&format!("  bounds not in force: {}\n", clean(&obstacle)))?;
    }
    Ok(())
}

fn print_services(view: &View, filter: &Filter, order: Order, ui: &mut Ui) -> io::Result<()> {
    let rows = services(view, filter, order);
    if rows.is_empty() {
        return Ok(());
    }
    ui.print("\n")?;
    let mut table = Table::new(&SERVICES);
    let mut remarks = Vec::new();
    for row in rows {
        let status = row.status;
        let known = |rate: Option<Bandwidth>| rate.map_or("-".to_owned(), text::rate);
        let limit = status.effective_limit();
        let latency =
            row.agent.services.iter().find(|service| service.service == row.service).and_then(|of| of.latency);
        let bound = latency.map_or(String::new(), latency_bound);
        let place = format!("{} {} {}", row.agent.machine, row.service, row.direction.name());
        remarks.extend(status.remark.iter().map(|remark| clean(&format!("{place}: {remark}"))));
        let style = if status.is_limited() { Style::Limited } else { Style::Plain };
        let plain = |text: String| (text, Style::Plain);
        // The last status is shown all the same.
        let machine = match row.lost {
            true => (format!("{} (lost)", clean(&row.agent.machine)), Style::Error),
            false => plain(clean(&row.agent.machine)),
        };
        table.styled([
            machine,
            (clean(row.service), Style::Strong),
            plain(row.direction.name().to_owned()),
            plain(known(status.usage)),
            plain(known(row.dropped())),
            plain(status.demand.map_or("-".into(), text::rate)),
            plain(known(Some(status.guarantee).filter(|rate| *rate > Bandwidth::ZERO))),
            plain(known(status.share)),
            plain(known(Some(limit).filter(|rate| !rate.is_unlimited()))),
            (clean(row.decided_by()), style),
            plain(bound),
        ]);
    }
    ui.print_table(&table, 0)?;
    for line in remarks {
        ui.print(&format!("  {line}\n"))?;
    }
    Ok(())
}

/// A service's bound, with a remark if a premise of it is not known to hold.
fn latency_bound(of: weir_status::Latency) -> String {
    match of.bound_ns.map(|bound| text::time(bound as f64 / 1e9)) {
        None => "none".to_owned(),
        Some(bound) if of.unproven => format!("{bound} (unproven)"),
        Some(bound) => bound,
    }
}

/// Every source with its status as it arrived.
pub(crate) fn to_json(view: &View) -> Value {
    let one = |liveness: &weir_observe::Liveness| {
        let lost = liveness.lost.as_ref().map(|lost| {
            let seconds = view.at.saturating_since(lost.since).nanos() as f64 / 1e9;
            json!({ "for_s": seconds, "why": lost.why })
        });
        json!({
            "name": liveness.name(),
            "source": liveness.source.to_string(),
            "lost": lost,
            "status": liveness.status.as_deref(),
        })
    };
    Value::from(view.livenesses.iter().map(one).collect::<Vec<_>>())
}
