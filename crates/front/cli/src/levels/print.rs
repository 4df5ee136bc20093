//! The tables of latency levels.

use super::{port_name, reserved, time};
use crate::output::{Table, Ui};
use crate::text;
use std::io;
use weir_answers::levels::{numbered, ports, unbounded, unlimited_services, verdict};
use weir_latency::calculus::PortKind;
use weir_latency::levels::Admitted;

/// Prints levels, ports and services.
pub(crate) fn print(admitted: &Admitted, ui: &mut Ui) -> io::Result<()> {
    let Some(levels) = admitted.policy.levels() else { return Ok(()) };
    let settings = levels.settings();
    ui.print(&format!(
        "latency levels: frames of at most {}, an epoch of {}, the slowest link {}\n",
        text::size(settings.packet.get()),
        text::time(levels.epoch().as_secs_f64()),
        text::rate(settings.slowest)
    ))?;
    let mut table = Table::new(&[
        "level",
        ">senders",
        ">factor",
        ">burst",
        ">rate per host",
        ">DSCP",
        ">worst delay",
        ">backlog",
        "",
    ]);
    for (number, level) in numbered(admitted) {
        let bound = &admitted.bounds.levels[number - 1];
        table.row([
            &number.to_string(),
            &level.sender_count.to_string(),
            &level.factor.to_string(),
            &text::size(level.burst.get()),
            &text::rate(level.rate),
            &level.dscp.to_string(),
            &time(bound.path),
            &bound.backlog.map_or_else(|| "none".to_owned(), |(bytes, _)| text::size(bytes.get())),
            &unbounded(admitted, number).unwrap_or_default(),
        ]);
    }
    ui.print_table(&table, 2)?;
    ui.print("\n")?;
    print_ports(admitted, ui)?;
    ui.print("\n")?;
    print_services(admitted, ui)?;
    let mut lines: Vec<String> = reserved(&admitted.policy).into_iter().collect();
    if !unlimited_services(admitted).is_empty() {
        let names = text::list(&unlimited_services(admitted), 5);
        lines.push(format!("no guarantee holds against {names}: an unbounded level needs `machine: {{ max: … }}`"));
    }
    if admitted.policy.network().offer().is_none() {
        lines
            .push("switches need strict priorities: `network: { switches: { scheduler: strict } }` states them".into());
    }
    for line in lines {
        ui.print(&format!("\n{}", text::filled(&line, 100, "  ", "  ")))?;
    }
    Ok(())
}

fn print_ports(admitted: &Admitted, ui: &mut Ui) -> io::Result<()> {
    let mut table = Table::new(&["port", ">rate", ">buffer", ">level", ">delay", ">backlog"]);
    for (port, bounds) in ports(admitted) {
        let buffer = match port.kind {
            PortKind::Interface => String::new(),
            _ => port.buffer.map_or_else(|| "not stated".to_owned(), |buffer| text::size(buffer.get())),
        };
        let mut first = [port_name(admitted, port), text::rate(port.rate), buffer];
        for (number, bound) in (1..).zip(bounds) {
            let [name, rate, buffer] = std::mem::take(&mut first);
            let bounded = admitted.bounds.levels[number - 1].path.is_some();
            // A level without senders that reach the port.
            let none = |bounded: bool| if bounded { "\u{2013}" } else { "unbounded" }.to_owned();
            let delay = bound.map_or_else(|| none(bounded), |bound| time(Some(bound.delay)));
            let backlog = bound.map_or_else(|| none(true), |bound| text::size(bound.backlog.get()));
            table.row([name, rate, buffer, number.to_string(), delay, backlog]);
        }
    }
    ui.print_table(&table, 2)
}

fn print_services(admitted: &Admitted, ui: &mut Ui) -> io::Result<()> {
    let mut table = Table::new(&["service", ">level", ">message", ">wait in the host", ">worst", ">target", ""]);
    for service in &admitted.bounds.services {
        let target = service.target;
        let trip = if target.is_some_and(|target| target.round_trip) { " and back" } else { "" };
        table.row([
            admitted.policy.services().get(service.service).path(),
            &service.level.to_string(),
            &target.map_or_else(String::new, |target| format!("{}{trip}", text::size(target.message.get()))),
            &text::time(service.wait.as_secs_f64()),
            // Without a target there is no message to bound.
            &service.worst.map_or_else(|| "-".to_owned(), |worst| time(worst.ok())),
            &target.map_or_else(String::new, |target| text::time(target.worst.as_secs_f64())),
            &verdict(service),
        ]);
    }
    ui.print_table(&table, 2)
}
