//! The tables and JSON of `weir switch`.

use super::select::{Port, Selected, outside_name};
use crate::output::{Style, Table, Ui};
use crate::text;
use serde_json::{Value, json};
use std::io;
use weir_report::json;
use weir_switch::{DSCPS, QueueConfig, QueueReading, Schedule, Step};
use weir_units::Bytes;

/// Ports with the configuration that they shall have.
pub(super) fn ports(ports: &[Port], as_json: bool, ui: &mut Ui) -> io::Result<()> {
    if as_json {
        let list: Value = ports.iter().map(port_json).collect();
        return json::write(ui.out(), &json!({ "ports": list }));
    }
    let remarks = ports.iter().any(|port| !port.config.remark().is_empty());
    let mut columns = vec!["switch", "port", ">rate", ">queue", "scheduler", "DSCP", ">ECN above", ">buffer"];
    columns.extend(remarks.then_some("re-marked"));
    let counters = ports.iter().any(|port| !port.counters.is_empty());
    columns.extend(counters.then_some([">sent", ">dropped", ">marked", ">waiting"]).into_iter().flatten());
    columns.push("in force");
    let mut table = Table::new(&columns);
    for alike in ports.chunk_by(is_alike) {
        for row in rows(alike, remarks, counters) {
            table.styled(row);
        }
    }
    ui.print_table(&table, 0)
}

/// A row for each queue of ports with the same configuration; with a column of re-marked DSCP values if `remarks`, and
/// with those of counters if `counters`.
fn rows(alike: &[Port], remarks: bool, counters: bool) -> Vec<Vec<(String, Style)>> {
    let port = &alike[0];
    let plain = |text: String| (text, Style::Plain);
    let names: Vec<String> = alike.iter().map(shown_name).collect();
    let rate = match port.config.queues().len() {
        0 => String::new(),
        _ => port.config.rate().map_or("line rate".to_owned(), text::rate),
    };
    let queue = |(number, queue): (u8, &QueueConfig)| {
        [
            number.to_string(),
            queue.schedule.to_string(),
            port.config.map().values(number),
            queue.mark.map_or("never".to_owned(), |mark| text::size(mark.get())),
            queue.buffer.map_or("default".to_owned(), |buffer| text::size(buffer.get())),
        ]
    };
    let mut queues: Vec<[String; 5]> = (0u8..).zip(port.config.queues()).map(queue).collect();
    if queues.is_empty() {
        // Its queues are the switch's own.
        queues.push(Default::default());
    }
    let state = match port.in_force {
        None => plain(String::new()),
        Some(true) => ("yes".to_owned(), Style::Good),
        Some(false) => ("no".to_owned(), Style::Limited),
    };
    let row = |(index, queue): (usize, [String; 5])| {
        let first = |cell: (String, Style)| if index == 0 { cell } else { plain(String::new()) };
        let mut row: Vec<(String, Style)> =
            [port.switch.clone(), text::list(&names, 3), rate.clone()].map(|cell| first(plain(cell))).into();
        row.extend(queue.map(plain));
        row.extend(remarks.then(|| first(plain(port.config.remark().to_string()))));
        row.extend(counters.then(|| counter_cells(port, index)).into_iter().flatten().map(plain));
        row.push(first(state.clone()));
        row
    };
    queues.into_iter().enumerate().map(row).collect()
}

/// Whether two ports are shown as one row.
fn is_alike(a: &Port, b: &Port) -> bool {
    let has_counters = !a.counters.is_empty() || !b.counters.is_empty();
    !has_counters && (&a.switch, &a.config, a.in_force) == (&b.switch, &b.config, b.in_force)
}

/// The counters of a queue; empty where the switch has none.
fn counter_cells(port: &Port, queue: usize) -> [String; 4] {
    let QueueReading { sent, backlog, dropped, marked } = reading(port, queue);
    let size = |bytes: Option<Bytes>| bytes.map_or(String::new(), |bytes| text::size(bytes.get()));
    let count = |packets: Option<u64>| packets.map_or(String::new(), |packets| packets.to_string());
    [size(sent), count(dropped), count(marked), size(backlog)]
}

fn reading(port: &Port, queue: usize) -> QueueReading {
    let number = u8::try_from(queue).ok();
    number.and_then(|number| port.counters.get(&number).copied()).unwrap_or_default()
}

/// The port with its interface.
fn shown_name(port: &Port) -> String {
    match &port.interface {
        Some(interface) if *interface != port.name && port.name != outside_name(interface) => {
            format!("{} ({interface})", port.name)
        }
        _ => port.name.clone(),
    }
}

fn port_json(port: &Port) -> Value {
    let queues: Value =
        (0u8..).zip(port.config.queues()).map(|(number, queue)| queue_json(port, number, queue)).collect();
    json!({
        "switch": port.switch,
        "port": port.name,
        "interface": port.interface,
        "rate_bps": port.config.rate().map(|rate| rate.bps()),
        "remarked_dscp": port.config.remark().values().collect::<Vec<u8>>(),
        "in_force": port.in_force,
        "queues": queues,
    })
}

fn queue_json(port: &Port, number: u8, queue: &QueueConfig) -> Value {
    let (scheduler, weight) = match queue.schedule {
        Schedule::Strict => ("strict", None),
        Schedule::Weighted(weight) => ("weighted", Some(weight)),
    };
    let dscp: Vec<u8> = (0..DSCPS as u8).filter(|dscp| port.config.map().queue(*dscp) == number).collect();
    let QueueReading { sent, backlog, dropped, marked } = reading(port, number.into());
    json!({
        "queue": number,
        "scheduler": scheduler,
        "weight": weight,
        "dscp": dscp,
        "mark_bytes": queue.mark.map(|mark| mark.get()),
        "buffer_bytes": queue.buffer.map(|buffer| buffer.get()),
        "sent_bytes": sent.map(Bytes::get),
        "dropped_packets": dropped,
        "marked_packets": marked,
        "backlog_bytes": backlog.map(Bytes::get),
    })
}

/// Steps, by port.
pub(super) fn steps(selected: &Selected, steps: &[Step], as_json: bool, ui: &mut Ui) -> io::Result<()> {
    let neighbour = |interface: &str| {
        let port = selected.ports.iter().find(|port| port.interface.as_deref() == Some(interface));
        port.map_or("", |port| port.name.as_str())
    };
    if as_json {
        let list: Value = steps
            .iter()
            .map(|step| {
                json!({
                    "switch": selected.switch,
                    "port": neighbour(&step.port),
                    "interface": step.port,
                    "field": step.change.field().to_string(),
                    "change": step.change.to_string(),
                })
            })
            .collect();
        return json::write(ui.out(), &json!({ "steps": list }));
    }
    if steps.is_empty() {
        return ui.print(&format!("nothing to change on {}\n", text::count(selected.ports.len(), "port")));
    }
    for port in &selected.ports {
        let own: Vec<&Step> = steps.iter().filter(|step| Some(&step.port) == port.interface.as_ref()).collect();
        if !own.is_empty() {
            ui.print(&format!("{}, {}\n", port.switch, shown_name(port)))?;
        }
        for step in own {
            ui.print(&format!("  {}\n", step.change))?;
        }
    }
    Ok(())
}
