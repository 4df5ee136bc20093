//! A switch as SONiC's: rows in CONFIG_DB without a reply, a daemon that applies them later, and ASIC_DB to read back.
//!
//! The daemon keeps to what orchagent does: it processes rows some time after they were written and as they are then;
//! an existing scheduler changes in place; a queue waits for a scheduler that is missing; a scheduler in use is not
//! removed; a row with an invalid value is dropped with a line in the log; a reference missing from a `QUEUE` or
//! `PORT_QOS_MAP` row is unset; a map is replaced as a whole.

use std::collections::{BTreeMap, BTreeSet};
use weir_switch::{
    Capabilities, Change, DSCPS, Driver, DscpMap, PortState, QueueConfig, RateSetting, Schedule, Setting, Step,
    WriteError,
};
use weir_units::Bytes;

type Row = BTreeMap<String, String>;

/// The switch.
#[derive(Default)]
pub(crate) struct ConfigDb {
    /// CONFIG_DB.
    pub(crate) rows: BTreeMap<String, Row>,
    /// Rows that the daemon has not processed since they changed.
    dirty: BTreeSet<String>,
    /// ASIC_DB: rows as they are in force.
    asic: BTreeMap<String, Row>,
    /// The daemon's log.
    pub(crate) syslog: Vec<String>,
    /// Rows that were deleted, by their key.
    pub(crate) deleted: Vec<String>,
    /// Reads without effect before the daemon processes rows.
    pub(crate) delay: u32,
    /// The hardware refuses values of this row from now on.
    pub(crate) refuses: Option<String>,
    pub(crate) reads: usize,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigDbError {
    #[error("ASIC_DB has the value {0:?}")]
    Value(String),
}

/// Longer than the daemon ever takes.
const PATIENCE: u32 = 10;

fn map_name(port: &str) -> String {
    format!("weir_{port}")
}

fn scheduler(port: &str, queue: u8) -> String {
    format!("weir.{port}.q{queue}")
}

impl ConfigDb {
    fn set(&mut self, key: String, fields: &[(&str, String)]) {
        let row = self.rows.entry(key.clone()).or_default();
        row.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        self.dirty.insert(key);
    }
    fn unset(&mut self, key: String, field: &str) {
        if let Some(row) = self.rows.get_mut(&key) {
            row.remove(field);
            self.dirty.insert(key);
        }
    }
    fn delete(&mut self, key: String) {
        if self.rows.remove(&key).is_some() {
            self.deleted.push(key.clone());
            self.dirty.insert(key);
        }
    }

    fn set_schedule(&mut self, port: &str, queue: u8, schedule: Schedule) {
        // A field that is left out keeps its value, so both are always written.
        let (kind, weight) = match schedule {
            Schedule::Strict => ("STRICT", 1),
            Schedule::Weighted(weight) => ("DWRR", weight),
        };
        let fields = [("type", kind.to_owned()), ("weight", weight.to_string())];
        self.set(format!("SCHEDULER|{}", scheduler(port, queue)), &fields);
    }

    fn set_mark(&mut self, port: &str, queue: u8, mark: Option<Bytes>) {
        let (profile, row) = (scheduler(port, queue), format!("QUEUE|{port}|{queue}"));
        match mark {
            Some(mark) => {
                let bytes = mark.get().to_string();
                let fields = [
                    ("ecn", "ecn_all".to_owned()),
                    ("wred_green_enable", "true".to_owned()),
                    ("green_min_threshold", bytes.clone()),
                    ("green_max_threshold", bytes),
                    ("green_drop_probability", "100".to_owned()),
                ];
                self.set(format!("WRED_PROFILE|{profile}"), &fields);
                self.set(row, &[("wred_profile", profile)]);
            }
            None => {
                self.unset(row, "wred_profile");
                self.delete(format!("WRED_PROFILE|{profile}"));
            }
        }
    }

    fn set_map(&mut self, port: &str, map: Option<DscpMap>) {
        let (name, bound) = (map_name(port), format!("PORT_QOS_MAP|{port}"));
        let Some(map) = map else {
            self.unset(bound.clone(), "dscp_to_tc_map");
            self.unset(bound, "tc_to_queue_map");
            self.delete(format!("DSCP_TO_TC_MAP|{name}"));
            self.delete(format!("TC_TO_QUEUE_MAP|{name}"));
            return;
        };
        let fields = |values: Vec<u8>| -> Vec<(String, String)> {
            values.iter().enumerate().map(|(field, value)| (field.to_string(), value.to_string())).collect()
        };
        for (table, values) in [("DSCP_TO_TC_MAP", map.queues().to_vec()), ("TC_TO_QUEUE_MAP", (0..8).collect())] {
            let fields = fields(values);
            let fields: Vec<(&str, String)> =
                fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            self.set(format!("{table}|{name}"), &fields);
        }
        self.set(bound, &[("dscp_to_tc_map", name.clone()), ("tc_to_queue_map", name)]);
    }

    fn write_change(&mut self, port: &str, change: &Change) {
        match *change {
            Change::AddQueue { queue, config } => {
                self.set_schedule(port, queue, config.schedule);
                self.set(format!("QUEUE|{port}|{queue}"), &[("scheduler", scheduler(port, queue))]);
                self.set_mark(port, queue, config.mark);
            }
            Change::RemoveQueue { queue, .. } => {
                self.delete(format!("QUEUE|{port}|{queue}"));
                self.delete(format!("SCHEDULER|{}", scheduler(port, queue)));
                self.delete(format!("WRED_PROFILE|{}", scheduler(port, queue)));
            }
            Change::Schedule { queue, to, .. } => self.set_schedule(port, queue, to),
            Change::Mark { queue, to, .. } => self.set_mark(port, queue, to),
            Change::Map { to, .. } => self.set_map(port, to),
            Change::Rate { .. } | Change::Buffer { .. } | Change::Remark { .. } => {
                unreachable!("refused by the capabilities")
            }
        }
    }

    /// The daemon's pass over the changed rows: maps and profiles, then PORT_QOS_MAP, then QUEUE.
    fn process(&mut self) {
        let order = |key: &String| match key {
            key if key.starts_with("QUEUE|") => 2,
            key if key.starts_with("PORT_QOS_MAP|") => 1,
            _ => 0,
        };
        let mut keys: Vec<String> = std::mem::take(&mut self.dirty).into_iter().collect();
        keys.sort_by_key(order);
        for key in keys {
            match self.rows.get(&key) {
                None if self.is_used(&key) => drop(self.dirty.insert(key)),
                None => drop(self.asic.remove(&key)),
                Some(row) if !Self::is_valid(row) || self.refuses.as_ref() == Some(&key) => {
                    self.syslog.push(format!("ERR orchagent: {key}: invalid value, drop it"));
                }
                Some(row) if row.get("scheduler").is_some_and(|name| !self.has("SCHEDULER", name)) => {
                    self.dirty.insert(key);
                }
                Some(row) if key.starts_with("QUEUE|") || key.starts_with("PORT_QOS_MAP|") || key.contains("_MAP|") => {
                    drop(self.asic.insert(key, row.clone()))
                }
                // A live object: fields that are present are set, others stay.
                Some(row) => self.asic.entry(key).or_default().extend(row.clone()),
            }
        }
    }

    fn has(&self, table: &str, name: &str) -> bool {
        self.asic.contains_key(&format!("{table}|{name}"))
    }

    /// Whether a row of ASIC_DB refers to this one.
    fn is_used(&self, key: &str) -> bool {
        let Some((table, name)) = key.split_once('|') else { return false };
        let field = match table {
            "SCHEDULER" => "scheduler",
            "WRED_PROFILE" => "wred_profile",
            "DSCP_TO_TC_MAP" => "dscp_to_tc_map",
            "TC_TO_QUEUE_MAP" => "tc_to_queue_map",
            _ => return false,
        };
        self.asic.values().any(|row| row.get(field).is_some_and(|used| used == name))
    }

    /// The parser of the daemon: weights of 1 to 100, queues of 0 to 7.
    fn is_valid(row: &Row) -> bool {
        row.iter().all(|(field, value)| match field.as_str() {
            "weight" => value.parse::<u32>().is_ok_and(|weight| (1..=100).contains(&weight)),
            _ => true,
        })
    }

    fn number<T: std::str::FromStr>(row: &Row, field: &str) -> Result<T, ConfigDbError> {
        let text = row.get(field).cloned().unwrap_or_default();
        text.parse().map_err(|_| ConfigDbError::Value(format!("{field}={text}")))
    }

    fn read_queue(&self, row: &Row) -> Result<Option<QueueConfig>, ConfigDbError> {
        let referred =
            |table: &str, field: &str| row.get(field).and_then(|name| self.asic.get(&format!("{table}|{name}")));
        let Some(scheduler) = referred("SCHEDULER", "scheduler") else { return Ok(None) };
        let schedule = match scheduler.get("type").map(String::as_str) {
            Some("STRICT") => Schedule::Strict,
            _ => Schedule::Weighted(Self::number(scheduler, "weight")?),
        };
        let profile = referred("WRED_PROFILE", "wred_profile");
        let mark = profile.map(|profile| Self::number(profile, "green_min_threshold")).transpose()?;
        Ok(Some(QueueConfig { schedule, mark: mark.map(Bytes::new), buffer: None }))
    }

    fn read_map(&self, port: &str) -> Result<Option<DscpMap>, ConfigDbError> {
        let bound = self.asic.get(&format!("PORT_QOS_MAP|{port}"));
        let table = |field: &str, table: &str| {
            bound.and_then(|row| row.get(field)).and_then(|name| self.asic.get(&format!("{table}|{name}")))
        };
        let tables = (table("dscp_to_tc_map", "DSCP_TO_TC_MAP"), table("tc_to_queue_map", "TC_TO_QUEUE_MAP"));
        let (Some(classes), Some(queues)) = tables else { return Ok(None) };
        let mut map = DscpMap::all(0);
        for dscp in 0..DSCPS as u8 {
            let class: u8 = Self::number(classes, &dscp.to_string())?;
            map.assign(dscp, Self::number(queues, &class.to_string())?);
        }
        Ok(Some(map))
    }
}

impl Driver for ConfigDb {
    type Error = ConfigDbError;

    fn switch(&self) -> &str {
        "leaf1"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queues: 8,
            strict: true,
            weighted: true,
            mixed: true,
            weights: 1..=100,
            marks: Setting::PerQueue,
            buffers: Setting::Fixed,
            buffer_max: Bytes::ZERO,
            rate: RateSetting::Fixed,
            remarks: false,
        }
    }

    fn read(&mut self, port: &str) -> Result<PortState, ConfigDbError> {
        self.reads += 1;
        let mut state = PortState { map: self.read_map(port)?, ..PortState::default() };
        for (key, row) in &self.asic {
            let Some(number) = key.strip_prefix(&format!("QUEUE|{port}|")) else { continue };
            let number = number.parse().map_err(|_| ConfigDbError::Value(key.clone()))?;
            state.queues.extend(self.read_queue(row)?.map(|queue| (number, queue)));
        }
        Ok(state)
    }

    fn write(&mut self, steps: &[Step]) -> Result<(), WriteError<ConfigDbError>> {
        steps.iter().for_each(|step| self.write_change(&step.port, &step.change));
        Ok(())
    }

    fn wait(&mut self, reads: u32) -> bool {
        if reads >= self.delay {
            self.process();
        }
        reads < PATIENCE
    }
}
