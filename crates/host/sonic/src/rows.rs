//! Rows of CONFIG_DB: their names, the change of a step, and the difference of two contents.
//!
//! Rows of live objects change in place. A row that something refers to is never deleted: orchagent would keep a row of
//! the same name waiting, for ever if the row that refers to it is written again. [`unreferenced`] lists rows for a
//! later deletion.
//!
//! Source: sonic-swss, orchagent/qosorch.cpp, orchagent/orch.cpp (`resolveFieldRefValue`).

use std::collections::BTreeMap;
use weir_switch::{Change, DSCPS, DscpMap, Field, PortState, QUEUES_MAX, QueueConfig, Schedule, Step};
use weir_units::Bytes;

/// Fields with their values.
pub(crate) type Row = BTreeMap<String, String>;
/// Rows by key: `TABLE|name`.
pub(crate) type Rows = BTreeMap<String, Row>;

pub(crate) const SCHEDULER: &str = "SCHEDULER";
pub(crate) const WRED_PROFILE: &str = "WRED_PROFILE";
pub(crate) const DSCP_TO_TC_MAP: &str = "DSCP_TO_TC_MAP";
pub(crate) const TC_TO_QUEUE_MAP: &str = "TC_TO_QUEUE_MAP";
pub(crate) const PORT_QOS_MAP: &str = "PORT_QOS_MAP";
pub(crate) const QUEUE: &str = "QUEUE";
pub(crate) const PORT: &str = "PORT";

/// The tables that a write may change, in orchagent's order: rows that others refer to come first.
pub(crate) const TABLES: [&str; 6] = [SCHEDULER, WRED_PROFILE, DSCP_TO_TC_MAP, TC_TO_QUEUE_MAP, PORT_QOS_MAP, QUEUE];

/// The map of traffic class n to queue n, for all ports.
pub(crate) const CLASSES: &str = "WEIR";
const PROFILES: &str = "WEIR_ECN_";
const MAPS: &str = "WEIR_";
/// The field of a row without fields, which orchagent refuses beside others.
const PLACEHOLDER: &str = "NULL";

/// The key of a row.
pub(crate) fn key(table: &str, name: &str) -> String {
    format!("{table}|{name}")
}
/// The name of a queue's scheduler.
pub(crate) fn scheduler(port: &str, queue: u8) -> String {
    format!("weir.{port}.q{queue}")
}
/// The name of the profile with a threshold.
pub(crate) fn profile(mark: Bytes) -> String {
    format!("{PROFILES}{}", mark.get())
}
/// Whether a profile is Weir's.
pub(crate) fn is_profile(name: &str) -> bool {
    name.starts_with(PROFILES)
}
/// The name of a port's map.
pub(crate) fn map(port: &str) -> String {
    format!("{MAPS}{port}")
}
/// The key of a queue.
pub(crate) fn queue(port: &str, queue: u8) -> String {
    format!("{QUEUE}|{port}|{queue}")
}

/// The form of a reference to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// `weir.Ethernet0.q1`: releases since 2021.
    Name,
    /// `[SCHEDULER|weir.Ethernet0.q1]`: older ones.
    Bracketed,
}

/// The fields that refer to rows, with the table of these.
const REFERENCES: [(&str, &str); 4] = [
    ("scheduler", SCHEDULER),
    ("wred_profile", WRED_PROFILE),
    ("dscp_to_tc_map", DSCP_TO_TC_MAP),
    ("tc_to_queue_map", TC_TO_QUEUE_MAP),
];

impl Reference {
    /// The form of the references that there are; names where there are none.
    pub(crate) fn of(rows: &Rows) -> Self {
        let referring = rows.iter().filter(|(key, _)| key.starts_with("QUEUE|") || key.starts_with("PORT_QOS_MAP|"));
        let mut values = referring.flat_map(|(_, row)| REFERENCES.iter().filter_map(|(field, _)| row.get(*field)));
        match values.next() {
            Some(value) if value.starts_with('[') => Self::Bracketed,
            _ => Self::Name,
        }
    }

    fn to(self, table: &str, name: &str) -> String {
        match self {
            Self::Name => name.to_owned(),
            Self::Bracketed => format!("[{table}|{name}]"),
        }
    }
}

/// The name in a reference of either form.
pub(crate) fn referred<'a>(value: &'a str, table: &str) -> &'a str {
    let inner = value.strip_prefix('[').and_then(|value| value.strip_suffix(']'));
    inner.and_then(|inner| inner.strip_prefix(table)?.strip_prefix('|')).unwrap_or(value)
}

/// The row to which a field refers.
pub(crate) fn reference<'a>(row: &'a Row, field: &str) -> Option<&'a str> {
    let (_, table) = REFERENCES.iter().find(|(own, _)| *own == field)?;
    row.get(field).map(|value| referred(value, table))
}

fn set(rows: &mut Rows, key: String, fields: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) {
    let row = rows.entry(key).or_default();
    row.remove(PLACEHOLDER);
    row.extend(fields.into_iter().map(|(field, value)| (field.into(), value.into())));
}

fn unset(rows: &mut Rows, key: &str, fields: &[&str]) {
    let Some(row) = rows.get_mut(key) else { return };
    fields.iter().for_each(|field| drop(row.remove(*field)));
    if row.is_empty() {
        rows.remove(key);
    }
}

/// Changes rows as a step needs it. A field that has no row is returned: rates, buffers and re-marking.
pub(crate) fn write_step(rows: &mut Rows, form: Reference, step: &Step) -> Result<(), Field> {
    let port = &step.port;
    match step.change {
        Change::AddQueue { queue: number, config } => {
            set_schedule(rows, port, number, config.schedule);
            let reference = form.to(SCHEDULER, &scheduler(port, number));
            set(rows, queue(port, number), [("scheduler", reference)]);
            set_mark(rows, form, port, number, config.mark);
        }
        Change::RemoveQueue { queue: number, .. } => drop(rows.remove(&queue(port, number))),
        Change::Schedule { queue, to, .. } => set_schedule(rows, port, queue, to),
        Change::Mark { queue, to, .. } => set_mark(rows, form, port, queue, to),
        Change::Map { to, .. } => set_map(rows, form, port, to),
        Change::Rate { .. } | Change::Buffer { .. } | Change::Remark { .. } => return Err(step.change.field()),
    }
    Ok(())
}

fn set_schedule(rows: &mut Rows, port: &str, queue: u8, schedule: Schedule) {
    let key = key(SCHEDULER, &scheduler(port, queue));
    match schedule {
        Schedule::Weighted(weight) => set(rows, key, [("type", "DWRR".to_owned()), ("weight", weight.to_string())]),
        // SAI has weights of DWRR alone.
        Schedule::Strict => {
            unset(rows, &key, &["weight"]);
            set(rows, key, [("type", "STRICT")]);
        }
    }
}

fn set_mark(rows: &mut Rows, form: Reference, port: &str, number: u8, mark: Option<Bytes>) {
    let Some(mark) = mark else { return unset(rows, &queue(port, number), &["wred_profile"]) };
    let (name, bytes) = (profile(mark), mark.get().to_string());
    let fields = [
        ("ecn", "ecn_all"),
        ("wred_green_enable", "true"),
        ("green_min_threshold", &bytes),
        ("green_max_threshold", &bytes),
        ("green_drop_probability", "100"),
    ];
    set(rows, key(WRED_PROFILE, &name), fields);
    set(rows, queue(port, number), [("wred_profile", form.to(WRED_PROFILE, &name))]);
}

fn set_map(rows: &mut Rows, form: Reference, port: &str, to: Option<DscpMap>) {
    let bound = key(PORT_QOS_MAP, port);
    let Some(to) = to else { return unset(rows, &bound, &["dscp_to_tc_map", "tc_to_queue_map"]) };
    let numbered = |values: &mut dyn Iterator<Item = u8>| -> Vec<(String, String)> {
        values.enumerate().map(|(field, value)| (field.to_string(), value.to_string())).collect()
    };
    let name = map(port);
    set(rows, key(DSCP_TO_TC_MAP, &name), numbered(&mut to.queues().iter().copied()));
    set(rows, key(TC_TO_QUEUE_MAP, CLASSES), numbered(&mut (0..QUEUES_MAX as u8)));
    let references =
        [("dscp_to_tc_map", form.to(DSCP_TO_TC_MAP, &name)), ("tc_to_queue_map", form.to(TC_TO_QUEUE_MAP, CLASSES))];
    set(rows, bound, references);
}

/// Removes all of Weir's fields and rows of a port but those that other rows may refer to.
pub(crate) fn clear(rows: &mut Rows, port: &str) {
    for number in 0..QUEUES_MAX as u8 {
        rows.remove(&queue(port, number));
    }
    set_map(rows, Reference::Name, port, None);
}

/// The state of a port that Weir's rows describe, once they are in force.
pub(crate) fn configured(rows: &Rows, port: &str) -> PortState {
    let mut state = PortState { map: configured_map(rows, port), ..PortState::default() };
    for number in 0..QUEUES_MAX as u8 {
        let Some(row) = rows.get(&queue(port, number)) else { continue };
        let referred = |field, table: &str| rows.get(&key(table, reference(row, field)?));
        let Some(own) = referred("scheduler", SCHEDULER) else { continue };
        let schedule = match own.get("type").map(String::as_str) {
            Some("STRICT") => Some(Schedule::Strict),
            _ => own.get("weight").and_then(|weight| weight.parse().ok()).map(Schedule::Weighted),
        };
        let threshold = referred("wred_profile", WRED_PROFILE).and_then(|row| row.get("green_min_threshold"));
        let mark = threshold.and_then(|text| text.parse().ok()).map(Bytes::new);
        state.queues.extend(schedule.map(|schedule| (number, QueueConfig { schedule, mark, buffer: None })));
    }
    state
}

fn configured_map(rows: &Rows, port: &str) -> Option<DscpMap> {
    let bound = rows.get(&key(PORT_QOS_MAP, port))?;
    let of = |field, table| rows.get(&key(table, reference(bound, field)?));
    let (classes, queues) = (of("dscp_to_tc_map", DSCP_TO_TC_MAP)?, of("tc_to_queue_map", TC_TO_QUEUE_MAP)?);
    let queue = |dscp: u8| queues.get(classes.get(&dscp.to_string())?)?.parse().ok();
    let queues: Option<Vec<u8>> = (0..DSCPS as u8).map(queue).collect();
    queues?.try_into().ok().map(DscpMap::from_queues)
}

/// Weir's rows to which no row refers.
pub(crate) fn unreferenced(rows: &Rows) -> Vec<String> {
    let is_used = |table: &str, name: &str| {
        let fields: Vec<&str> = REFERENCES.iter().filter(|(_, own)| *own == table).map(|(field, _)| *field).collect();
        rows.values().any(|row| fields.iter().any(|field| reference(row, field) == Some(name)))
    };
    let is_own = |table: &str, name: &str| match table {
        SCHEDULER => name.starts_with("weir."),
        WRED_PROFILE => is_profile(name),
        DSCP_TO_TC_MAP => name.starts_with(MAPS),
        TC_TO_QUEUE_MAP => name == CLASSES,
        _ => false,
    };
    let parts = rows.keys().filter_map(|key| Some((key, key.split_once('|')?)));
    let left = parts.filter(|(_, (table, name))| is_own(table, name) && !is_used(table, name));
    left.map(|(key, _)| key.clone()).collect()
}

/// A change of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowChange {
    /// Fields get values; other fields stay.
    Set(String, Vec<(String, String)>),
    /// Fields go; other fields stay.
    Unset(String, Vec<String>),
    /// The row goes.
    Delete(String),
}

impl RowChange {
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Set(key, _) | Self::Unset(key, _) | Self::Delete(key) => key,
        }
    }
}

/// The changes that turn rows into others: only the fields that differ. Rows to which others refer come first, and go
/// last.
pub(crate) fn changes(from: &Rows, to: &Rows) -> Vec<RowChange> {
    let none = Row::new();
    let mut changes = Vec::new();
    for (key, row) in to {
        let old = from.get(key).unwrap_or(&none);
        let new = row.iter().filter(|(field, value)| old.get(*field) != Some(*value));
        let new: Vec<(String, String)> = new.map(|(field, value)| (field.clone(), value.clone())).collect();
        let gone: Vec<String> = old.keys().filter(|field| !row.contains_key(*field)).cloned().collect();
        changes.extend((!new.is_empty()).then(|| RowChange::Set(key.clone(), new)));
        changes.extend((!gone.is_empty()).then(|| RowChange::Unset(key.clone(), gone)));
    }
    let deleted = from.keys().filter(|key| !to.contains_key(*key));
    changes.extend(deleted.map(|key| RowChange::Delete(key.clone())));
    let table = |key: &str| TABLES.iter().position(|table| key.split('|').next() == Some(*table));
    changes.sort_by_key(|change| match change {
        RowChange::Set(key, _) | RowChange::Unset(key, _) => (0, table(key)),
        RowChange::Delete(key) => (1, table(key).map(|table| TABLES.len() - table)),
    });
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rows: &Rows, changes: &[Change]) -> Rows {
        let mut rows = rows.clone();
        for change in changes {
            let step = Step { port: "Ethernet0".to_owned(), change: *change };
            let form = Reference::of(&rows);
            write_step(&mut rows, form, &step).expect("a row");
        }
        rows
    }

    fn queue_3() -> Change {
        let config = QueueConfig { schedule: Schedule::Weighted(30), mark: Some(Bytes::new(80_000)), buffer: None };
        Change::AddQueue { queue: 3, config }
    }

    fn row(fields: &[(&str, &str)]) -> Row {
        fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_weight_changes_one_field_of_one_row() {
        let before = written(&Rows::new(), &[queue_3()]);
        let change = Change::Schedule { queue: 3, from: Schedule::Weighted(30), to: Schedule::Weighted(35) };
        let weight = vec![("weight".to_owned(), "35".to_owned())];
        let expected = RowChange::Set("SCHEDULER|weir.Ethernet0.q3".to_owned(), weight);
        assert_eq!(changes(&before, &written(&before, &[change])), [expected]);
        let strict = Change::Schedule { queue: 3, from: Schedule::Weighted(30), to: Schedule::Strict };
        let strict = written(&before, &[strict]);
        assert_eq!(strict["SCHEDULER|weir.Ethernet0.q3"], row(&[("type", "STRICT")]));
    }

    #[test]
    fn rows_describe_the_state_that_they_were_written_for() {
        let strict = QueueConfig { schedule: Schedule::Strict, mark: None, buffer: None };
        let all = [
            queue_3(),
            Change::AddQueue { queue: 4, config: strict },
            Change::Map { from: None, to: Some(DscpMap::all(4)) },
        ];
        let mut state = PortState::default();
        all.iter().for_each(|change| change.apply(&mut state));
        assert_eq!(configured(&written(&Rows::new(), &all), "Ethernet0"), state);
        assert!(configured(&Rows::new(), "Ethernet0").is_default());
    }

    #[test]
    fn references_have_the_form_of_those_that_there_are() {
        let fields = [("scheduler", "[SCHEDULER|scheduler.0]")];
        let old = Rows::from([("QUEUE|Ethernet4|0".to_owned(), row(&fields))]);
        let rows = written(&old, &[queue_3(), Change::Map { from: None, to: Some(DscpMap::all(3)) }]);
        let own = &rows["QUEUE|Ethernet0|3"];
        assert_eq!(own["scheduler"], "[SCHEDULER|weir.Ethernet0.q3]");
        assert_eq!(reference(own, "scheduler"), Some("weir.Ethernet0.q3"));
        assert_eq!(own["wred_profile"], "[WRED_PROFILE|WEIR_ECN_80000]");
        assert_eq!(rows["PORT_QOS_MAP|Ethernet0"]["tc_to_queue_map"], "[TC_TO_QUEUE_MAP|WEIR]");
        assert_eq!(unreferenced(&rows), <[String; 0]>::default());
    }

    #[test]
    fn rows_are_deleted_once_nothing_refers_to_them() {
        let pfc = row(&[("pfc_enable", "3,4")]);
        let rows = Rows::from([("PORT_QOS_MAP|Ethernet0".to_owned(), pfc.clone())]);
        let map = |to| Change::Map { from: None, to };
        let rows = written(&rows, &[queue_3(), map(Some(DscpMap::all(3)))]);
        assert_eq!((rows["DSCP_TO_TC_MAP|WEIR_Ethernet0"].len(), rows["TC_TO_QUEUE_MAP|WEIR"].len()), (64, 8));
        let other = Change::Mark { queue: 3, from: None, to: Some(Bytes::new(90_000)) };
        let rows = written(&rows, &[other]);
        assert_eq!(unreferenced(&rows), ["WRED_PROFILE|WEIR_ECN_80000"]);
        let Change::AddQueue { queue, config } = queue_3() else { unreachable!("as it is made") };
        let rows = written(&rows, &[map(None), Change::RemoveQueue { queue, config }]);
        assert_eq!(rows["PORT_QOS_MAP|Ethernet0"], pfc);
        assert!(!rows.contains_key("QUEUE|Ethernet0|3"));
        assert_eq!(unreferenced(&rows).len(), 5, "{:?}", unreferenced(&rows));
    }

    #[test]
    fn a_placeholder_goes_and_rows_of_references_come_first() {
        let empty = Rows::from([("QUEUE|Ethernet0|3".to_owned(), row(&[("NULL", "NULL")]))]);
        let full = written(&empty, &[queue_3()]);
        let tables = |changes: &[RowChange]| -> Vec<String> {
            changes
                .iter()
                .filter_map(|change| change.key().split_once('|'))
                .map(|(table, _)| table.to_owned())
                .collect()
        };
        let forth = changes(&empty, &full);
        assert_eq!(tables(&forth), ["SCHEDULER", "WRED_PROFILE", "QUEUE", "QUEUE"]);
        assert_eq!(forth[3], RowChange::Unset("QUEUE|Ethernet0|3".to_owned(), vec!["NULL".to_owned()]));
        assert_eq!(tables(&changes(&full, &Rows::new())), ["QUEUE", "WRED_PROFILE", "SCHEDULER"]);
    }
}
