//! Reading a list of flows.

use super::{FlowList, Listed, Member};
use crate::{Coflow, decimal};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use weir_document::quote;
use weir_document::table::{FieldError, Table, TableError, TimeColumn};
use weir_units::{MachineId, SimTime};

/// Decimals of a second that count: picoseconds.
const DECIMALS: i32 = 12;
/// A head line, for messages.
const EXAMPLE: &str = "id,start_s,src,dst,packets";

/// The positions of the columns.
struct Columns {
    id: Option<usize>,
    coflow: Option<usize>,
    start: TimeColumn,
    from: usize,
    to: usize,
    size: usize,
    /// Bytes of a unit of `size`.
    factor: u64,
}

impl FlowList {
    /// Reads a table with the columns
    ///
    /// | column | meaning |
    /// |---|---|
    /// | `start_s`, `start_ms`, `start_us`, `start_ns` or `start_ps` | the start, decimal; cut to picoseconds |
    /// | `src`, `dst` | the hosts, by names that `resolve` accepts |
    /// | `packets` or `bytes` | the size; a packet is `payload` bytes |
    /// | `id` | optional: the flow's number, unique, which becomes its tag; without it flows are numbered from 0 |
    /// | `coflow` | optional: a number that all flows have which are awaited together, or nothing |
    ///
    /// in any order; other columns are not read. `resolve` finds a host, or gives a hint (`hosts
    /// are h0 to h143`).
    ///
    /// # Errors
    /// Lines, causes and hints: an unknown host, a flow from a host to itself, a size of 0, a value
    /// that is not a number or beyond 213 days, a repeated id, a missing column, no flow at all.
    pub fn read(
        input: impl Read,
        payload: u32,
        mut resolve: impl FnMut(&str) -> Result<MachineId, String>,
    ) -> Result<Self, TableError> {
        let mut table = Table::open(input)?;
        let columns = columns(&table, payload)?;
        let mut problems = TableError::default();
        let mut flows: Vec<Listed> = Vec::new();
        let mut lines: Vec<u64> = Vec::new();
        let mut members: Vec<(u64, u64)> = Vec::new();
        while table.advance(&mut problems) {
            match read_flow(&table, &columns, flows.len() as u64, &mut resolve) {
                // Flows after a mistake are only checked, not kept.
                Ok((flow, coflow)) if problems.rows.is_empty() => {
                    flows.push(flow);
                    members.extend(coflow.map(|coflow| (flow.id, coflow)));
                    // Only mistakes about ids are found after the line.
                    if columns.id.is_some() {
                        lines.push(table.line());
                    }
                }
                Ok(_) => {}
                Err((cause, hint)) => problems.add(Some(table.line()), cause, hint),
            }
        }
        if flows.is_empty() && problems.rows.is_empty() {
            problems.add(None, "the table has no flows", "give a line for each flow");
        }
        find_repeated_ids(&flows, &lines, &mut problems);
        problems.finish(())?;
        drop(lines);
        // Stable: flows that start together stay in the order of the file.
        flows.sort_by_key(|flow| flow.at);
        Ok(Self { flows: Arc::new(flows), members: Arc::new(members_of(members)) })
    }

    /// A resolver for hosts that are written as numbers from 0 to `hosts` − 1.
    pub fn numbered(hosts: u32) -> impl Fn(&str) -> Result<MachineId, String> {
        move |text| match text.parse() {
            Ok(number) if number < hosts => Ok(MachineId(number)),
            _ => Err(format!("hosts are numbers from 0 to {}", hosts.saturating_sub(1))),
        }
    }
}

fn columns<R: Read>(table: &Table<R>, payload: u32) -> Result<Columns, TableError> {
    let mut problems = TableError::default();
    let start = table.time_column(&["start"], None, &mut problems);
    let from = table.need("src", EXAMPLE, &mut problems);
    let to = table.need("dst", EXAMPLE, &mut problems);
    let (size, factor) = match (table.find("bytes"), table.find("packets")) {
        (Some(bytes), None) => (bytes, 1),
        (Some(_), Some(_)) => {
            problems.add(Some(1), "there are both `bytes` and `packets`", "keep one of the columns");
            (0, 1)
        }
        (None, _) => (table.need("packets", EXAMPLE, &mut problems), u64::from(payload)),
    };
    let (id, coflow) = (table.find("id"), table.find("coflow"));
    problems.finish(Columns { id, coflow, start, from, to, size, factor })
}

/// A flow, and the number of its coflow.
fn read_flow<R: Read>(
    table: &Table<R>,
    columns: &Columns,
    index: u64,
    resolve: &mut impl FnMut(&str) -> Result<MachineId, String>,
) -> Result<(Listed, Option<u64>), FieldError> {
    let id = columns.id.map_or(Ok(index), |column| table.whole(column, "17"))?;
    let at = start_of(table.field(columns.start.index), &columns.start)?;
    let mut host = |column| {
        let name = table.field(column);
        resolve(name).map_err(|hint| (format!("there is no host {}", quote(name)), hint))
    };
    let (from, to) = (host(columns.from)?, host(columns.to)?);
    if from == to {
        let cause = format!("the flow goes from {} to itself", quote(table.field(columns.from)));
        return Err((cause, "a flow goes from one host to another".to_owned()));
    }
    let size = table.whole(columns.size, "17")?;
    if size == 0 {
        return Err(("the flow has no bytes".to_owned(), "write a size of 1 or more".to_owned()));
    }
    let bytes = size
        .checked_mul(columns.factor)
        .filter(|&bytes| bytes < u64::MAX)
        .ok_or_else(|| (format!("a size of {size} is too large"), "a flow is below 2^64 − 1 bytes".to_owned()))?;
    let coflow = columns.coflow.filter(|column| !table.field(*column).is_empty());
    let coflow = coflow.map(|column| table.whole(column, "3")).transpose()?;
    Ok((Listed { at, bytes, id, from, to }, coflow))
}

/// The flows of coflows by their ids, each with the number of flows of its coflow.
fn members_of(mut coflows: Vec<(u64, u64)>) -> Vec<Member> {
    let mut flows: BTreeMap<u64, u64> = BTreeMap::new();
    coflows.iter().for_each(|(_, coflow)| *flows.entry(*coflow).or_default() += 1);
    coflows.sort_unstable();
    coflows
        .into_iter()
        .map(|(id, coflow)| Member { id, coflow: Coflow { id: coflow, flows: flows[&coflow] } })
        .collect()
}

/// A start that is written as `text` in a column of times.
fn start_of(text: &str, column: &TimeColumn) -> Result<SimTime, FieldError> {
    let unit = column.unit;
    let picos = decimal::parse(text, DECIMALS + column.power).ok_or_else(|| {
        let (unit, example) = if unit == "s" { ("seconds", "0.000008540") } else { (unit, "8.54") };
        (format!("{} is not a time in {unit}", quote(text)), format!("zero or more, for example `{example}`"))
    })?;
    // The last value stands for "never".
    let picos = u64::try_from(picos).ok().filter(|&picos| picos < u64::MAX).ok_or_else(|| {
        (format!("a start at {} {unit} is too late", quote(text)), "a simulation has 213 days".to_owned())
    })?;
    Ok(SimTime::from_picos(picos))
}

fn find_repeated_ids(flows: &[Listed], lines: &[u64], problems: &mut TableError) {
    if flows.windows(2).all(|pair| pair[0].id < pair[1].id) {
        return;
    }
    let mut ids: Vec<(u64, u64)> = flows.iter().map(|flow| flow.id).zip(lines.iter().copied()).collect();
    ids.sort_unstable();
    let mut repeated: Vec<_> =
        ids.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| (pair[1].1, pair[0])).collect();
    repeated.sort_unstable();
    for (line, (id, first)) in repeated {
        problems.add(Some(line), format!("the id {id} is also that of line {first}"), "give every flow its own id");
    }
}
