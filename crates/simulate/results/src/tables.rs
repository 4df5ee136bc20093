//! The tables of a run as CSV: hosts, flows, links and samples.
//!
//! Times are whole picoseconds and rates bit/s, so that reading returns exactly the written values;
//! each column has its unit in its name unless it counts. Objects are named, not numbered. Columns
//! that follow from others (transport, completion time, slowdown, utilisation) are there for
//! people, and not read.
//!
//! Worked example: `7,web,,,dctcp,h1,h9,14600,1000000,13680000,12680000,12680000,1,14600,0,0,` is
//! flow 7 of the group `web`, of no coflow: 14,600 bytes from h1 to h9, begun after 1 µs, done in
//! 12.68 µs as on an idle network, without a deadline.

use crate::record::{ClassCount, Coflow, FlowRecord, GroupSample, LinkRecord, LinkSample, MeterSample, Results};
use crate::series::mean_utilisation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use weir_units::{Bandwidth, MachineId, SimTime};

/// The reason why a table cannot be read.
#[derive(Debug)]
pub(crate) struct TableError {
    /// Counted from 1; none for the file as a whole.
    pub(crate) line: Option<u64>,
    pub(crate) cause: String,
}

impl From<csv::Error> for TableError {
    fn from(error: csv::Error) -> Self {
        let line = error.position().map(csv::Position::line);
        let cause = match error.kind() {
            // Without the position, which is beside it.
            csv::ErrorKind::Deserialize { err, .. } => err.kind().to_string(),
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("{len} values, but {expected_len} columns")
            }
            _ => error.to_string(),
        };
        Self { line, cause }
    }
}

/// The columns of `flows.csv` and of `flows.parquet`.
pub(crate) const FLOW_COLUMNS: [&str; 17] = [
    "id",
    "group",
    "coflow",
    "coflow_flows",
    "transport",
    "from",
    "to",
    "bytes",
    "start_ps",
    "finished_ps",
    "fct_ps",
    "ideal_ps",
    "slowdown",
    "delivered_bytes",
    "retransmissions",
    "timeouts",
    "deadline_ps",
];

/// One row of the flows' table, in the order of [`FLOW_COLUMNS`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FlowRow<'a> {
    pub(crate) id: u64,
    pub(crate) group: &'a str,
    pub(crate) coflow: Option<u64>,
    pub(crate) coflow_flows: Option<u64>,
    pub(crate) transport: &'a str,
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) bytes: u64,
    pub(crate) start: u64,
    pub(crate) finished: Option<u64>,
    pub(crate) fct: Option<u64>,
    pub(crate) ideal: u64,
    pub(crate) slowdown: Option<f64>,
    pub(crate) delivered: u64,
    pub(crate) retransmissions: u32,
    pub(crate) timeouts: u32,
    pub(crate) deadline: Option<u64>,
}

/// The name of an index that no table has, in results that are not sound.
const NO_NAME: &str = "?";

/// The name of a host or a service.
fn name_of(names: &[String], index: usize) -> &str {
    names.get(index).map_or(NO_NAME, String::as_str)
}

impl<'a> FlowRow<'a> {
    pub(crate) fn new(results: &'a Results, flow: &FlowRecord) -> Self {
        let group = results.groups.get(flow.group as usize);
        Self {
            id: flow.id,
            group: group.map_or(NO_NAME, |group| &group.name),
            coflow: flow.coflow.map(|coflow| coflow.id),
            coflow_flows: flow.coflow.map(|coflow| coflow.flows),
            transport: group.map_or(NO_NAME, |group| &group.transport),
            from: name_of(&results.hosts, flow.from.index()),
            to: name_of(&results.hosts, flow.to.index()),
            bytes: flow.bytes,
            start: flow.start.picos(),
            finished: flow.finished.map(SimTime::picos),
            fct: flow.completion_time().map(SimTime::picos),
            ideal: flow.ideal.picos(),
            slowdown: flow.slowdown(),
            delivered: flow.delivered,
            retransmissions: flow.retransmissions,
            timeouts: flow.timeouts,
            deadline: flow.deadline.map(SimTime::picos),
        }
    }
}

/// Names to indices.
pub(crate) struct Names(&'static str, BTreeMap<String, u32>);

impl Names {
    pub(crate) fn new<'a>(what: &'static str, names: impl Iterator<Item = &'a String>) -> Self {
        Self(what, names.cloned().zip(0..).collect())
    }
    fn index(&self, name: &str) -> Result<u32, String> {
        self.1.get(name).copied().ok_or_else(|| format!("there is no {} `{name}`", self.0))
    }
}

/// Writes a table: the columns' names, then the rows.
fn write<R: Serialize>(out: impl Write, columns: &[&str], rows: impl Iterator<Item = R>) -> csv::Result<()> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    writer.write_record(columns)?;
    for row in rows {
        writer.serialize(row)?;
    }
    Ok(writer.flush()?)
}

/// Reads a table with exactly these columns; `each` takes a row.
fn read(
    input: impl Read,
    columns: &[&str],
    mut each: impl FnMut(&csv::StringRecord) -> Result<Result<(), String>, csv::Error>,
) -> Result<(), TableError> {
    let mut reader = csv::ReaderBuilder::new().from_reader(input);
    let found = reader.headers()?;
    if found != columns {
        let found: Vec<&str> = found.iter().collect();
        let cause = format!("its columns are `{}`, not `{}`", found.join(","), columns.join(","));
        return Err(TableError { line: Some(1), cause });
    }
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record)? {
        let line = record.position().map(csv::Position::line);
        match each(&record) {
            Ok(Ok(())) => {}
            Ok(Err(cause)) => return Err(TableError { line, cause }),
            Err(error) => {
                let value = wrong_value(&error, &record, columns);
                let TableError { cause, .. } = error.into();
                return Err(TableError { line, cause: value + &cause });
            }
        }
    }
    Ok(())
}

/// The value of a row that its column does not allow, for the beginning of a message.
fn wrong_value(error: &csv::Error, record: &csv::StringRecord, columns: &[&str]) -> String {
    let csv::ErrorKind::Deserialize { err, .. } = error.kind() else { return String::new() };
    let Some(field) = err.field().and_then(|field| usize::try_from(field).ok()) else { return String::new() };
    match (record.get(field), columns.get(field)) {
        (Some(value), Some(column)) => format!("`{value}` as {column}: "),
        _ => String::new(),
    }
}

pub(crate) fn write_hosts(results: &Results, out: impl Write) -> csv::Result<()> {
    write(out, &["host"], results.hosts.iter().map(|host| [host]))
}

pub(crate) fn read_hosts(input: impl Read) -> Result<Vec<String>, TableError> {
    let mut hosts = Vec::new();
    read(input, &["host"], |row| {
        hosts.push(row[0].to_owned());
        Ok(Ok(()))
    })?;
    Ok(hosts)
}

pub(crate) fn write_flows(results: &Results, out: impl Write) -> csv::Result<()> {
    write(out, &FLOW_COLUMNS, results.flows.iter().map(|flow| FlowRow::new(results, flow)))
}

pub(crate) fn read_flows(input: impl Read, hosts: &Names, groups: &Names) -> Result<Vec<FlowRecord>, TableError> {
    let mut flows = Vec::new();
    read(input, &FLOW_COLUMNS, |row| {
        let row: FlowRow<'_> = row.deserialize(None)?;
        let record = || -> Result<FlowRecord, String> {
            Ok(FlowRecord {
                id: row.id,
                group: groups.index(row.group)?,
                coflow: coflow(row.coflow, row.coflow_flows)?,
                from: MachineId(hosts.index(row.from)?),
                to: MachineId(hosts.index(row.to)?),
                bytes: row.bytes,
                start: SimTime::from_picos(row.start),
                finished: row.finished.map(SimTime::from_picos),
                ideal: SimTime::from_picos(row.ideal),
                delivered: row.delivered,
                retransmissions: row.retransmissions,
                timeouts: row.timeouts,
                deadline: row.deadline.map(SimTime::from_picos),
            })
        };
        Ok(record().map(|flow| flows.push(flow)))
    })?;
    Ok(flows)
}

fn coflow(id: Option<u64>, flows: Option<u64>) -> Result<Option<Coflow>, String> {
    match (id, flows) {
        (Some(id), Some(flows)) => Ok(Some(Coflow { id, flows })),
        (None, None) => Ok(None),
        _ => Err("a coflow without its number of flows, or the reverse".to_owned()),
    }
}

/// The counts of every class of a link, in the order of the columns.
const CLASS_COUNTS: [&str; 4] = ["bytes", "packets", "dropped", "marked"];

type LinkRow<'a> = (&'a str, u64, [u64; 5], f64, [[u64; 4]; 8]);

fn link_columns() -> Vec<String> {
    let own = ["link", "rate_bps", "bytes", "packets", "dropped", "marked", "queue_peak_bytes", "utilisation"];
    let classes = (0..8).flat_map(|class| CLASS_COUNTS.iter().map(move |count| format!("class{class}_{count}")));
    own.into_iter().map(str::to_owned).chain(classes).collect()
}

fn link_row<'a>(results: &Results, link: &'a LinkRecord) -> LinkRow<'a> {
    let counts = [link.bytes, link.packets, link.dropped, link.marked, link.queue_peak];
    let classes = link.classes.map(|class| [class.bytes, class.packets, class.dropped, class.marked]);
    (&link.name, link.rate.bps(), counts, mean_utilisation(results, link), classes)
}

pub(crate) fn write_links(results: &Results, out: impl Write) -> csv::Result<()> {
    let columns = link_columns();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    write(out, &columns, results.links.iter().map(|link| link_row(results, link)))
}

pub(crate) fn read_links(input: impl Read) -> Result<Vec<LinkRecord>, TableError> {
    let columns = link_columns();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut links = Vec::new();
    read(input, &columns, |row| {
        let (name, rate, [bytes, packets, dropped, marked, queue_peak], _, classes): LinkRow<'_> =
            row.deserialize(None)?;
        let class = |[bytes, packets, dropped, marked]: [u64; 4]| ClassCount { bytes, packets, dropped, marked };
        let (name, rate, classes) = (name.to_owned(), Bandwidth::from_bps(rate), classes.map(class));
        links.push(LinkRecord { name, rate, bytes, packets, dropped, marked, classes, queue_peak });
        Ok(Ok(()))
    })?;
    Ok(links)
}

const LINK_SAMPLE_COLUMNS: [&str; 8] =
    ["at_ps", "link", "bytes", "capacity_bytes", "queue_bytes", "queue_peak_bytes", "dropped", "marked"];

pub(crate) fn write_link_samples(results: &Results, out: impl Write) -> csv::Result<()> {
    let row = |sample: &LinkSample| {
        let name = results.links.get(sample.link as usize).map_or(NO_NAME, |link| &link.name);
        (
            sample.at.picos(),
            name,
            [sample.bytes, sample.capacity, sample.queue, sample.queue_peak, sample.dropped, sample.marked],
        )
    };
    write(out, &LINK_SAMPLE_COLUMNS, results.link_samples.iter().map(row))
}

pub(crate) fn read_link_samples(input: impl Read, links: &Names) -> Result<Vec<LinkSample>, TableError> {
    let mut samples = Vec::new();
    read(input, &LINK_SAMPLE_COLUMNS, |row| {
        let (at, name, [bytes, capacity, queue, queue_peak, dropped, marked]): (u64, &str, [u64; 6]) =
            row.deserialize(None)?;
        let at = SimTime::from_picos(at);
        let sample = |link| LinkSample { at, link, bytes, capacity, queue, queue_peak, dropped, marked };
        Ok(links.index(name).map(|link| samples.push(sample(link))))
    })?;
    Ok(samples)
}

const GROUP_SAMPLE_COLUMNS: [&str; 6] = ["at_ps", "group", "delivered_bytes", "active", "flows", "squares"];

pub(crate) fn write_group_samples(results: &Results, out: impl Write) -> csv::Result<()> {
    let row = |sample: &GroupSample| {
        let name = results.groups.get(sample.group as usize).map_or(NO_NAME, |group| &group.name);
        (sample.at.picos(), name, sample.delivered, sample.active, sample.flows, sample.squares)
    };
    write(out, &GROUP_SAMPLE_COLUMNS, results.group_samples.iter().map(row))
}

pub(crate) fn read_group_samples(input: impl Read, groups: &Names) -> Result<Vec<GroupSample>, TableError> {
    let mut samples = Vec::new();
    read(input, &GROUP_SAMPLE_COLUMNS, |row| {
        let (at, name, delivered, active, flows, squares): (u64, &str, u64, u32, u32, u128) = row.deserialize(None)?;
        let at = SimTime::from_picos(at);
        let sample = |group| GroupSample { at, group, delivered, active, flows, squares };
        Ok(groups.index(name).map(|group| samples.push(sample(group))))
    })?;
    Ok(samples)
}

const METER_SAMPLE_COLUMNS: [&str; 8] =
    ["at_ps", "host", "service", "tx_bytes", "tx_limit_bps", "rx_bytes", "rx_capacity_bps", "rx_rate_bps"];

type MeterRow<'a> = (u64, &'a str, &'a str, u64, Option<u64>, u64, Option<u64>, Option<u64>);

pub(crate) fn write_meter_samples(results: &Results, out: impl Write) -> csv::Result<()> {
    let row = |sample: &MeterSample| -> MeterRow<'_> {
        let host = name_of(&results.hosts, sample.host.index());
        let service = name_of(&results.services, sample.service as usize);
        let [limit, capacity, rate] = [sample.limit, sample.capacity, sample.rate].map(|rate| rate.map(Bandwidth::bps));
        (sample.at.picos(), host, service, sample.sent, limit, sample.received, capacity, rate)
    };
    write(out, &METER_SAMPLE_COLUMNS, results.meter_samples.iter().map(row))
}

pub(crate) fn read_meter_samples(
    input: impl Read,
    hosts: &Names,
    services: &Names,
) -> Result<Vec<MeterSample>, TableError> {
    let mut samples = Vec::new();
    read(input, &METER_SAMPLE_COLUMNS, |row| {
        let (at, host, service, sent, limit, received, capacity, rate): MeterRow<'_> = row.deserialize(None)?;
        let [limit, capacity, rate] = [limit, capacity, rate].map(|rate| rate.map(Bandwidth::from_bps));
        let at = SimTime::from_picos(at);
        let mut sample = || -> Result<(), String> {
            let (host, service) = (MachineId(hosts.index(host)?), services.index(service)?);
            samples.push(MeterSample { at, host, service, sent, limit, received, capacity, rate });
            Ok(())
        };
        Ok(sample())
    })?;
    Ok(samples)
}
