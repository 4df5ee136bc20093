//! Demands: the rates that services demand, by machine and direction.
//!
//! The file is CSV with the columns `machine,service,direction,demand`, for example
//! `m1,dfs,tx,10Gb/s`. The first row may name the columns, in this order. A demand is a rate,
//! `0b/s` included, or `unlimited`; a demand without a row is zero. Blanks around a field do not
//! count; empty lines and lines that start with `#` are skipped. A field may be in quotes, as programs write
//! them; none needs them, since no name has a comma or a quote in it.
//!
//! Worked example: in the policy of Parley's Fig 1, `m1,dfs,tx,unlimited` alone means that only
//! machine `m1` sends, only for `dfs`, as much as it gets.

use crate::model::{Place, Policy};
use std::collections::BTreeMap;
use std::ops::Index;
use std::path::Path;
use std::sync::Arc;
use weir_document::{Diagnostics, Problems, Source, Span, Suggester, quote, scalar};
use weir_units::{Bandwidth, Direction, MachineId, ServiceId};

/// Demands by (machine, leaf service, direction). An absent one is zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demands {
    rows: BTreeMap<(MachineId, ServiceId, Direction), Bandwidth>,
}

impl Demands {
    /// Bytes of a demands file: some two million rows.
    pub const MAX_FILE: u64 = 64 << 20;

    /// No demands.
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets the demand of a leaf service at a machine; [`Bandwidth::UNLIMITED`] for a backlogged
    /// one.
    pub fn set(&mut self, machine: MachineId, service: ServiceId, direction: Direction, demand: Bandwidth) {
        self.rows.insert((machine, service, direction), demand);
    }
    /// The demand; zero where none was set.
    pub fn get(&self, machine: MachineId, service: ServiceId, direction: Direction) -> Bandwidth {
        self[(machine, service, direction)]
    }
    /// All demands that were set, by machine, then service, then direction.
    pub fn iter(&self) -> impl Iterator<Item = (MachineId, ServiceId, Direction, Bandwidth)> {
        self.rows.iter().map(|((machine, service, direction), demand)| (*machine, *service, *direction, *demand))
    }
    /// How many demands were set.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// Whether no demand was set.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// Reads a file of at most [`Demands::MAX_FILE`] bytes.
    pub fn read(policy: &Policy, path: impl AsRef<Path>) -> Result<Self, Diagnostics> {
        Self::from_source(policy, &Source::read(path.as_ref(), Self::MAX_FILE)?)
    }
    /// Reads demands from a text; `name` stands in messages.
    pub fn parse(policy: &Policy, name: &str, text: &str) -> Result<Self, Diagnostics> {
        Self::from_source(policy, &Source::from_bytes(name, text.as_bytes().to_vec(), Self::MAX_FILE)?)
    }
    /// Reads demands from a source.
    pub fn from_source(policy: &Policy, source: &Arc<Source>) -> Result<Self, Diagnostics> {
        let mut reader =
            Reader { policy, problems: Problems::new(source), suggester: Suggester::default(), rows: BTreeMap::new() };
        let mut start = 0;
        let mut first = true;
        for line in source.text().split_inclusive('\n') {
            let content = line.trim();
            if !content.is_empty() && !content.starts_with('#') {
                let header = std::mem::take(&mut first) && is_header(content);
                if !header {
                    reader.row(start, line.trim_end());
                }
            }
            start += line.len();
        }
        let rows = reader.rows.into_iter().map(|(key, (demand, _))| (key, demand)).collect();
        reader.problems.finish(Self { rows }).map(|(demands, _)| demands)
    }
}

impl Index<(MachineId, ServiceId, Direction)> for Demands {
    type Output = Bandwidth;
    fn index(&self, key: (MachineId, ServiceId, Direction)) -> &Bandwidth {
        static NONE: Bandwidth = Bandwidth::ZERO;
        self.rows.get(&key).unwrap_or(&NONE)
    }
}

const COLUMNS: [&str; 4] = ["machine", "service", "direction", "demand"];

fn is_header(line: &str) -> bool {
    line.split(',').map(|field| unquoted(field.trim())).eq(COLUMNS)
}

/// A field without the quotes around it.
fn unquoted(field: &str) -> &str {
    field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).map_or(field, str::trim)
}

type Rows = BTreeMap<(MachineId, ServiceId, Direction), (Bandwidth, Span)>;

struct Reader<'a> {
    policy: &'a Policy,
    problems: Problems,
    suggester: Suggester,
    rows: Rows,
}

impl Reader<'_> {
    /// Reads one row that starts at byte `start`.
    fn row(&mut self, start: usize, line: &str) {
        let mut fields = Vec::new();
        let mut at = start;
        for field in line.split(',').take(COLUMNS.len() + 1) {
            let text = unquoted(field.trim());
            let from = at + (text.as_ptr() as usize - field.as_ptr() as usize);
            fields.push((text, Span::new(from as u32, (from + text.len()) as u32)));
            at += field.len() + 1;
        }
        let row = Span::new(start as u32, (start + line.len()) as u32);
        let Ok([machine, service, direction, demand]) = <[(&str, Span); 4]>::try_from(fields) else {
            self.problems.error(
                row,
                format!("a row has 4 fields, this one has {}", line.split(',').count()),
                "write `machine,service,direction,demand`, for example `m1,dfs,tx,10Gb/s`",
            );
            return;
        };
        if let Some((text, span)) =
            [machine, service, direction, demand].into_iter().find(|(text, _)| text.contains('"'))
        {
            self.problems.error(span, format!("{} has a quote in it", quote(text)), "write it without quotes");
            return;
        }
        // Every field is read before giving up: a row may have several mistakes.
        let (machine, service) = (self.machine(machine), self.service(service));
        let direction = self.direction(direction);
        let demand = match scalar::rate(demand.0, true, true) {
            Ok(rate) => Some(rate),
            Err(refusal) => {
                self.problems.error(demand.1, refusal.cause, refusal.hint);
                None
            }
        };
        let (Some(machine), Some(service), Some(direction), Some(demand)) = (machine, service, direction, demand)
        else {
            return;
        };
        if !self.policy.runs_at(service, Place::Machine(machine)) && demand > Bandwidth::ZERO {
            let (service, machine) =
                (self.policy.services().get(service).path(), self.policy.network().machine(machine).name());
            let cause = format!("service `{service}` does not run on machine `{machine}`");
            self.problems.error(row, cause, "remove the row, or add the machine to the service's `machines`");
            return;
        }
        if let Some((_, first)) = self.rows.get(&(machine, service, direction)) {
            let line = self.problems.source().position(first.start).line;
            let label = (*first, "first here");
            self.problems.error_with(
                row,
                format!(
                    "a second demand of `{}` at `{}` ({direction}): the first is on line {line}",
                    self.policy.services().get(service).path(),
                    self.policy.network().machine(machine).name(),
                ),
                "keep one of them",
                label,
            );
            return;
        }
        self.rows.insert((machine, service, direction), (demand, row));
    }

    fn machine(&mut self, (name, span): (&str, Span)) -> Option<MachineId> {
        let network = self.policy.network();
        let found = network.machine_named(name);
        if found.is_none() {
            let known = network.machines().iter().map(|machine| machine.name());
            let hint = self.suggester.hint_of_name(name, known, "name a machine of the policy");
            self.problems.error(span, format!("there is no machine {} in the policy", quote(name)), hint);
        }
        found
    }

    fn service(&mut self, (path, span): (&str, Span)) -> Option<ServiceId> {
        let services = self.policy.services();
        let Some(id) = services.named(path) else {
            let known = services.leaves().map(|(_, service)| service.path());
            let hint = self.suggester.hint(path, known, "name a service of the policy, nested ones as `parent/child`");
            self.problems.error(span, format!("there is no service {} in the policy", quote(path)), hint);
            return None;
        };
        let service = services.get(id);
        if !service.is_leaf() {
            let children = service.children().iter().map(|child| services.get(*child).path());
            self.problems.error(
                span,
                format!("service `{path}` has no traffic of its own: its children have"),
                format!("write demands of {}", weir_network::names::list_names(children)),
            );
            return None;
        }
        Some(id)
    }

    fn direction(&mut self, (text, span): (&str, Span)) -> Option<Direction> {
        let found = Direction::ALL.into_iter().find(|direction| direction.name() == text);
        if found.is_none() {
            self.problems.error(span, format!("{} is not a direction", quote(text)), "write `tx` or `rx`");
        }
        found
    }
}
