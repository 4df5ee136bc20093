//! Lists of flows: what the formats have in common.

use super::{Field, decimal_text, end_of, htsim, ns3, number};
use crate::decimal;
use std::collections::HashMap;
use std::sync::Arc;
use weir_document::{Diagnostic, Diagnostics, Problems, Source, Span, quote};
use weir_units::{Duration, SimTime};

/// Decimals of a second that count: picoseconds.
const DECIMALS: i32 = 12;

/// A format of lists of flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowFormat {
    /// The flow file of HPCC's ns-3 simulator.
    Ns3Hpcc,
    /// A connection matrix of htsim.
    HtsimCm,
}

impl FlowFormat {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ns3Hpcc => "ns3-hpcc",
            Self::HtsimCm => "htsim-cm",
        }
    }
}

/// The unit of starts in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartUnit {
    /// Seconds.
    Seconds,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
    /// Picoseconds.
    Picos,
}

impl StartUnit {
    /// Its name: `s`, `us`, `ns` or `ps`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Micros => "us",
            Self::Nanos => "ns",
            Self::Picos => "ps",
        }
    }

    /// The unit in seconds, as a power of ten.
    const fn power(self) -> i32 {
        match self {
            Self::Seconds => 0,
            Self::Micros => -6,
            Self::Nanos => -9,
            Self::Picos => -12,
        }
    }
}

/// Facts that a file does not state about its flows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowOptions {
    /// The unit of starts, for formats whose files have two.
    pub start_unit: Option<StartUnit>,
    /// The time of the file that becomes 0.
    pub origin: Duration,
    /// The number of the first host among the nodes of the file.
    pub first_node: u32,
    /// The names of the hosts, from the first node on; empty: a host is written as its number from 0.
    pub hosts: Vec<String>,
}

/// A flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) at: SimTime,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) bytes: u64,
    /// Its number in the file, and the position of that.
    pub(super) id: Option<(u64, Span)>,
}

/// A list of flows that was read from a file of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowTable {
    title: String,
    flows: Vec<Flow>,
    hosts: Vec<String>,
    /// Whether flows keep the numbers of the file.
    keeps_ids: bool,
}

impl FlowTable {
    /// Reads a list, in the order of its file.
    ///
    /// # Errors
    /// A missing or wrong unit, and all mistakes of lines with their positions.
    pub fn read(
        source: &Arc<Source>,
        format: FlowFormat,
        options: &FlowOptions,
    ) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let mut reader = Reader { options, problems: Problems::new(source), nodes: None };
        let (flows, unit) = match format {
            FlowFormat::Ns3Hpcc => (ns3::flows(source, &mut reader), StartUnit::Seconds),
            FlowFormat::HtsimCm => (htsim::flows(source, &mut reader), options.start_unit.unwrap_or(StartUnit::Picos)),
        };
        let mut problems = reader.problems;
        if flows.is_empty() && problems.count() == 0 {
            problems.error(end_of(source), "the file has no flows", "write a line for each flow");
        }
        let keeps_ids = flows.iter().all(|flow| flow.id.is_some());
        if keeps_ids {
            refuse_repeated_ids(&flows, &mut problems);
        }
        let title = format!(
            "weir import flows: {}, format {}, sizes in bytes, starts in {}",
            source.name(),
            format.name(),
            unit.name()
        );
        problems.finish(Self { title, flows, hosts: options.hosts.clone(), keeps_ids })
    }

    /// The list in Weir's format, with a comment about its origin.
    pub fn to_csv(&self) -> String {
        let mut text = format!("# {}\nid,start_s,src,dst,bytes\n", self.title);
        for (flow, index) in self.flows.iter().zip(0_u64..) {
            let id = flow.id.filter(|_| self.keeps_ids).map_or(index, |(id, _)| id);
            let start = decimal_text(u128::from(flow.at.picos()), DECIMALS as usize);
            let (from, to) = (self.name(flow.from), self.name(flow.to));
            text.push_str(&format!("{id},{start},{from},{to},{}\n", flow.bytes));
        }
        text
    }

    fn name(&self, host: u32) -> String {
        self.hosts.get(host as usize).cloned().unwrap_or_else(|| host.to_string())
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there are none, which no table that was read is.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// All flows' bytes together (saturating).
    pub fn bytes(&self) -> u64 {
        self.flows.iter().fold(0, |sum, flow| sum.saturating_add(flow.bytes))
    }

    /// The first and the last start.
    pub fn starts(&self) -> (SimTime, SimTime) {
        let starts = || self.flows.iter().map(|flow| flow.at);
        (starts().min().unwrap_or(SimTime::ZERO), starts().max().unwrap_or(SimTime::ZERO))
    }
}

/// Reads the fields that all formats have.
pub(super) struct Reader<'a> {
    pub(super) options: &'a FlowOptions,
    pub(super) problems: Problems,
    /// The number of nodes that the file states.
    pub(super) nodes: Option<u32>,
}

impl Reader<'_> {
    /// The value, or a report.
    pub(super) fn value<T>(&mut self, span: Span, read: Result<T, (String, String)>) -> Option<T> {
        read.map_err(|(cause, hint)| self.problems.error(span, cause, hint)).ok()
    }

    /// The index of a host from its node's number.
    pub(super) fn host(&mut self, field: Field<'_>) -> Option<u32> {
        let node = self.value(field.span, number(field.text, "a node"))?;
        if let Some(nodes) = self.nodes.filter(|nodes| node >= *nodes) {
            let cause = format!("the node {node} is not one of the {nodes} nodes of the file");
            self.problems.error(field.span, cause, "nodes count from 0; correct the node, or the number of nodes");
            return None;
        }
        let FlowOptions { first_node, hosts, .. } = self.options;
        let Some(index) = node.checked_sub(*first_node) else {
            let cause = format!("the node {node} is before the first host, {first_node}");
            self.problems.error(field.span, cause, "state the smallest node of a host with `--first-node`");
            return None;
        };
        if !hosts.is_empty() && index as usize >= hosts.len() {
            let cause = format!("the node {node} has no name: there are {} from node {first_node} on", hosts.len());
            self.problems.error(field.span, cause, "state more names with `--hosts`, for example `h[0-143]`");
            return None;
        }
        Some(index)
    }

    /// The two ends of a flow.
    pub(super) fn ends(&mut self, from: Field<'_>, to: Field<'_>) -> Option<(u32, u32)> {
        let (source, destination) = (self.host(from), self.host(to));
        let (source, destination) = (source?, destination?);
        if source == destination {
            let cause = format!("the flow goes from {} to itself", quote(from.text));
            self.problems.error(Span::new(from.span.start, to.span.end), cause, "a flow goes from one host to another");
            return None;
        }
        Some((source, destination))
    }

    /// A start in a unit, counted from the origin.
    pub(super) fn start(&mut self, field: Field<'_>, unit: StartUnit) -> Option<SimTime> {
        let name = unit.name();
        let picos = decimal::parse(field.text, DECIMALS + unit.power());
        let picos = picos.ok_or_else(|| {
            let hint = "write zero or more, for example `2.000008540`";
            (format!("{} is not a time in {name}", quote(field.text)), hint.to_owned())
        });
        let picos = self.value(field.span, picos)?;
        let origin = SimTime::from(self.options.origin).picos();
        let Some(picos) = picos.checked_sub(u128::from(origin)) else {
            let cause = format!("a start at {} {name} is before the origin, {}", field.text, self.options.origin);
            self.problems.error(field.span, cause, "state the earliest start of the file, or less, with `--origin`");
            return None;
        };
        // The last value stands for "never".
        let picos = u64::try_from(picos).ok().filter(|picos| *picos < u64::MAX);
        let picos = picos.ok_or_else(|| {
            (format!("a start at {} {name} is too late", quote(field.text)), "a simulation has 213 days".to_owned())
        });
        self.value(field.span, picos).map(SimTime::from_picos)
    }
}

fn refuse_repeated_ids(flows: &[Flow], problems: &mut Problems) {
    let mut seen: HashMap<u64, Span> = HashMap::new();
    for (id, span) in flows.iter().filter_map(|flow| flow.id) {
        if let Some(first) = seen.insert(id, span) {
            let line = problems.source().position(first.start).line;
            let cause = format!("the id {id} is also that of line {line}");
            problems.error(span, cause, "give every flow its own id");
        }
    }
}
