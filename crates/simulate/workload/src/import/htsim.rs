//! A connection matrix of htsim: `Nodes N`, `Connections M`, then `src->dst id X start T size S` for each.
//!
//! Sizes are bytes. The current reader takes starts as picoseconds, but its writer and earlier readers have
//! microseconds, so a file with starts other than 0 needs its unit stated. Starts by trigger and failures depend on the
//! run and have no counterpart in a list.

use super::flows::{Flow, Reader, StartUnit};
use super::{Field, Line, end_of, lines, size};
use std::sync::Arc;
use weir_document::{Source, Span, quote};
use weir_units::SimTime;

/// The statements of the head, and observations of the lines.
#[derive(Default)]
struct Head {
    connections: Option<(u64, Span)>,
    /// Whether connections follow, behind which no head line is read.
    is_over: bool,
    found: u64,
    has_priorities: Option<Span>,
    asks_unit: bool,
}

pub(super) fn flows(source: &Arc<Source>, reader: &mut Reader<'_>) -> Vec<Flow> {
    let (mut head, mut flows) = (Head::default(), Vec::new());
    for line in lines(source) {
        if reader.problems.is_full() {
            break;
        }
        match line.fields[0].text {
            comment if comment.starts_with('#') => {}
            field if field.contains("->") => {
                if !std::mem::replace(&mut head.is_over, true) {
                    check_head(&head, line.span, reader);
                }
                head.found += 1;
                flows.extend(connection(&line, &mut head, reader));
            }
            _ => other(&line, &mut head, reader),
        }
    }
    if !head.is_over {
        check_head(&head, end_of(source), reader);
    }
    if let Some((stated, span)) = head.connections.filter(|(stated, _)| *stated != head.found)
        && !reader.problems.is_full()
    {
        let cause = format!("the head states {stated} connections, and the file has {}", head.found);
        reader.problems.error(span, cause, "correct the number, or add the missing connections");
    }
    if let Some(span) = head.has_priorities {
        let hint = "a list has no priorities: split the file to give each flow group its `priority`";
        reader.problems.note(span, "priorities of connections are not imported", hint);
    }
    flows
}

fn check_head(head: &Head, place: Span, reader: &mut Reader<'_>) {
    for (name, is_missing) in [("Nodes", reader.nodes.is_none()), ("Connections", head.connections.is_none())] {
        if is_missing {
            let hint = "the file begins with `Nodes N` and `Connections M`";
            reader.problems.error(place, format!("the head has no `{name}`"), hint);
        }
    }
}

/// A line that is no connection.
fn other(line: &Line<'_>, head: &mut Head, reader: &mut Reader<'_>) {
    let field = line.fields[0];
    match (field.text, &line.fields[1..]) {
        ("Nodes" | "Connections" | "Triggers" | "Failures", [number]) if !head.is_over => {
            let read = number.text.parse::<u64>().map_err(|_| {
                (format!("{} is not a whole number", quote(number.text)), "for example `Nodes 16`".to_owned())
            });
            let Some(value) = reader.value(number.span, read) else { return };
            match field.text {
                "Nodes" => reader.nodes = Some(u32::try_from(value).unwrap_or(u32::MAX)),
                "Connections" => head.connections = Some((value, number.span)),
                _ if value == 0 => {}
                "Triggers" => refuse_trigger(number.span, reader),
                _ => refuse_failure(number.span, reader),
            }
        }
        ("trigger", _) => refuse_trigger(line.span, reader),
        ("failure", _) => refuse_failure(line.span, reader),
        _ => {
            let hint = "write a connection, for example `0->13 id 1 start 0 size 2000000`";
            reader.problems.error(line.span, format!("{} is not a connection", quote(field.text)), hint);
        }
    }
}

fn refuse_trigger(span: Span, reader: &mut Reader<'_>) {
    reader.problems.error(
        span,
        "connections that start by a trigger have no start of their own",
        "write `start` for each connection, or write rounds of flows (`kind: incast`, `barrier`, `shuffle`)",
    );
}

fn refuse_failure(span: Span, reader: &mut Reader<'_>) {
    reader.problems.error(span, "failures are not flows", "leave them out, and write them as `events` of the scenario");
}

/// The values of a connection.
#[derive(Default)]
struct Values {
    start: Option<SimTime>,
    bytes: Option<u64>,
    id: Option<(u64, Span)>,
    /// Keys that were written, right or wrong.
    has_start: bool,
    has_size: bool,
}

fn connection(line: &Line<'_>, head: &mut Head, reader: &mut Reader<'_>) -> Option<Flow> {
    let before = reader.problems.count();
    let ends = line.fields[0];
    let (from, to) = ends.text.split_once("->")?;
    let at = |offset: usize, text: &str| {
        let start = ends.span.start + offset as u32;
        Span::new(start, start + text.len() as u32)
    };
    let from_field = Field { text: from, span: at(0, from) };
    let to_field = Field { text: to, span: at(from.len() + "->".len(), to) };
    let ends = reader.ends(from_field, to_field);
    let mut values = Values::default();
    let mut fields = line.fields[1..].iter();
    while let Some(key) = fields.next() {
        read_key(*key, fields.next().copied(), &mut values, head, reader);
    }
    for (name, is_written) in [("start", values.has_start), ("size", values.has_size)] {
        if !is_written && reader.problems.count() == before {
            let hint = "write it, for example `0->13 id 1 start 0 size 2000000`";
            reader.problems.error(line.span, format!("the connection has no `{name}`"), hint);
        }
    }
    let (from, to) = ends?;
    Some(Flow { at: values.start?, from, to, bytes: values.bytes?, id: values.id })
}

fn read_key(key: Field<'_>, value: Option<Field<'_>>, values: &mut Values, head: &mut Head, reader: &mut Reader<'_>) {
    if !["start", "size", "id", "prio", "trigger", "send_done_trigger", "recv_done_trigger", "addon"]
        .contains(&key.text)
    {
        let hint = "a connection has `id`, `start`, `size` and `prio`";
        return reader.problems.error(key.span, format!("{} is not a key of a connection", quote(key.text)), hint);
    }
    if key.text == "addon" || key.text.contains("trigger") {
        return refuse_trigger(key.span, reader);
    }
    let Some(value) = value else {
        let cause = format!("`{}` has no value", key.text);
        return reader.problems.error(key.span, cause, "write a number behind it");
    };
    match key.text {
        "start" => {
            values.has_start = true;
            values.start = start(value, head, reader);
        }
        "size" => {
            values.has_size = true;
            let read = size(value.text, 1).map_err(|(cause, hint)| match value.text.trim_start_matches(['0', '.']) {
                "" => (
                    "a connection of 0 bytes sends without end".to_owned(),
                    "write a size, or write long-lived flows in the scenario (`kind: transfers`)".to_owned(),
                ),
                _ => (cause, hint),
            });
            values.bytes = reader.value(value.span, read);
        }
        "id" => {
            let read = value.text.parse().map_err(|_| {
                (format!("{} is not an id", quote(value.text)), "write a whole number, for example `17`".to_owned())
            });
            values.id = reader.value(value.span, read).map(|id| (id, value.span));
        }
        _ => head.has_priorities = head.has_priorities.or(Some(key.span)),
    }
}

/// A start, which needs its unit unless it is 0 in any.
fn start(field: Field<'_>, head: &mut Head, reader: &mut Reader<'_>) -> Option<SimTime> {
    if let Some(unit) = reader.options.start_unit {
        return reader.start(field, unit);
    }
    let start = reader.start(field, StartUnit::Picos)?;
    let is_zero = !field.text.split(['e', 'E']).next().unwrap_or_default().contains(|c: char| ('1'..='9').contains(&c));
    if is_zero {
        return Some(start);
    }
    if !std::mem::replace(&mut head.asks_unit, true) {
        reader.problems.error(
            field.span,
            "connection matrices have starts in picoseconds or in microseconds, and the file does not state which",
            "state `--start-unit ps` if htsim reads the file today, or `--start-unit us` for files that it wrote",
        );
    }
    None
}
