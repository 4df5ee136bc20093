//! The flow file of HPCC's ns-3 simulator: the number of flows, then `src dst pg dport size start` for each.
//!
//! Sizes are bytes and starts are seconds, by the README of its traffic generator. The simulator does not read lines
//! behind that number of flows either. Priority groups and ports have no counterpart in a list of Weir.

use super::flows::{Flow, Reader, StartUnit};
use super::{Line, end_of, lines, number, size};
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_document::{Source, Span, quote};

pub(super) fn flows(source: &Arc<Source>, reader: &mut Reader<'_>) -> Vec<Flow> {
    if reader.options.start_unit.is_some_and(|unit| unit != StartUnit::Seconds) {
        reader.problems.error(
            Span::default(),
            "the format has starts in seconds",
            "leave out `--start-unit`, or convert the file to seconds",
        );
        return Vec::new();
    }
    let mut lines = lines(source);
    let Some((stated, place)) = count(lines.next(), source, reader) else { return Vec::new() };
    let mut groups = BTreeSet::new();
    let (mut flows, mut found) = (Vec::new(), 0_u64);
    for line in lines.by_ref() {
        if found == stated || reader.problems.is_full() {
            // The simulator reads as many flows as stated; its own example has text behind them.
            let hint = "only as many flows as the first line states are read, as in the simulator";
            reader.problems.note(line.span, "the lines from here on are not imported", hint);
            break;
        }
        found += 1;
        if let Some((flow, group)) = flow(&line, reader) {
            flows.push(flow);
            groups.insert(group);
        }
    }
    if found < stated && !reader.problems.is_full() {
        let cause = format!("the first line states {stated} flows, and the file has {found}");
        reader.problems.error(place, cause, "correct the number, or add the missing flows");
    }
    if groups.len() > 1 {
        let names: Vec<String> = groups.iter().take(8).map(u32::to_string).collect();
        let cause = format!("the flows have different priority groups: {}", names.join(", "));
        let hint = "a list has no priorities: split the file by group to give each flow group its `priority`";
        reader.problems.note(place, cause, hint);
    }
    flows
}

/// The number of flows in the first line, and its position.
fn count(line: Option<Line<'_>>, source: &Source, reader: &mut Reader<'_>) -> Option<(u64, Span)> {
    let hint = "the first line is the number of flows, alone";
    let Some(line) = line else {
        reader.problems.error(end_of(source), "the file is empty", hint);
        return None;
    };
    match &line.fields[..] {
        [field] => {
            let read = field
                .text
                .parse()
                .map_err(|_| (format!("{} is not a number of flows", quote(field.text)), hint.to_owned()));
            reader.value(field.span, read).map(|count| (count, field.span))
        }
        fields => {
            reader.problems.error(line.span, format!("the first line has {} fields, not 1", fields.len()), hint);
            None
        }
    }
}

/// A flow, and its priority group.
fn flow(line: &Line<'_>, reader: &mut Reader<'_>) -> Option<(Flow, u32)> {
    let [from, to, group, port, bytes, start] = line.fields[..] else {
        let cause = format!("the line has {} fields, not 6", line.fields.len());
        let hint = "write `src dst pg dport size start`, for example `0 5 3 100 4000 2.000008540`";
        reader.problems.error(line.span, cause, hint);
        return None;
    };
    let ends = reader.ends(from, to);
    let group = reader.value(group.span, number(group.text, "a priority group"));
    let port = reader.value(port.span, number(port.text, "a port"));
    let bytes = reader.value(bytes.span, size(bytes.text, 1));
    let at = reader.start(start, StartUnit::Seconds);
    port?;
    let (from, to) = ends?;
    Some((Flow { at: at?, from, to, bytes: bytes?, id: None }, group?))
}
