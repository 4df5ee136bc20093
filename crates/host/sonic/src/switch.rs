//! [`SonicSwitch`]: the driver of a SONiC switch.
//!
//! A write is one transaction of CONFIG_DB over rows that did not change since they were read, else it is tried again.
//! A row to which others referred is deleted in a second transaction, once ASIC_DB shows that they no longer do.
//!
//! A read is ASIC_DB's state. The first read of a port waits for rows that an earlier program wrote: their effect could
//! otherwise arrive after the read, and undo a configuration that was in force. While no write of this driver is
//! pending, objects at a port for which CONFIG_DB has no row of Weir's are the platform's: a switch that has restarted
//! without Weir's rows reads as one that was never configured, whatever ids its objects have.

use crate::asic::{AsicPort, Bound, Unreadable, queue_ids};
use crate::buffers;
use crate::check::{self, WEIGHTS, Wrong};
use crate::counters::{FIELDS, QueueCounters};
use crate::redis_server::{Access, Address, Database, RedisServer};
use crate::rows::{self, PORT, PORT_QOS_MAP, QUEUE, Reference, Row, RowChange, Rows, TABLES, changes, reference};
use redis::{Connection, RedisError, RedisResult, cmd, pipe};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_switch::{
    Capabilities, Change, Driver, Field, Map, PortState, QUEUES_MAX, QueueReading, RateSetting, ReadQueues, Setting,
    Step, WriteError,
};
use weir_units::{Bandwidth, Bytes};

/// Between two reads of ASIC_DB.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest time for a row to take effect. SONiC's own tests allow a second; a busy switch takes more.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest time for rows of an earlier program, which may be refused and never take effect.
const SETTLE: Duration = Duration::from_secs(1);
/// Attempts at a transaction whose rows another program changes meanwhile.
const ATTEMPTS: u32 = 10;

/// A request to a SONiC switch that failed.
#[derive(Debug, thiserror::Error)]
pub enum SonicError {
    /// The redis server.
    #[error("redis server {address}: {error}")]
    Server {
        /// Its address.
        address: Address,
        /// The error of the connection or of the server.
        error: RedisError,
    },
    /// CONFIG_DB has no such port, or its name cannot be a part of rows' names.
    #[error("CONFIG_DB has no port of this name that can be configured")]
    NoPort,
    /// The hardware has no such port yet.
    #[error("COUNTERS_DB has no object of the port")]
    NoObject,
    /// The hardware has no such queue.
    #[error("COUNTERS_DB has no object of queue {0}")]
    NoQueue(u8),
    /// A switch whose queues have other keys.
    #[error("a VOQ switch, whose queues have other rows")]
    Voq,
    /// Configuration that is not Weir's.
    #[error("{key} has {field}{value}, which is not Weir's")]
    Foreign {
        /// The row.
        key: String,
        /// The field with a `=`; empty where it is the whole row.
        field: String,
        /// The value.
        value: String,
    },
    /// A row that orchagent would refuse.
    #[error("{key} would have {field}{value}; {expected}")]
    Refused {
        /// The row.
        key: String,
        /// The field with a `=`; empty where it is the whole row.
        field: String,
        /// The value.
        value: String,
        /// The values that are possible.
        expected: String,
    },
    /// An attribute of ASIC_DB.
    #[error("ASIC_DB has {attribute}={value}")]
    Attribute {
        /// The attribute.
        attribute: &'static str,
        /// The value.
        value: String,
    },
    /// A field of a port that has no row.
    #[error("{0} cannot be configured on SONiC")]
    Unsupported(Field),
    /// Another program changed the same rows again and again.
    #[error("CONFIG_DB changed during each of {ATTEMPTS} attempts to write to it")]
    Busy,
}

impl From<Unreadable> for SonicError {
    fn from(Unreadable { attribute, value }: Unreadable) -> Self {
        Self::Attribute { attribute, value }
    }
}

impl SonicError {
    /// The remedy, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Server { error, .. } if error.is_io_error() => {
                Some("SONiC's own socket is /var/run/redis/redis.sock; the database container must run".to_owned())
            }
            Self::Server { .. } => Some("give the server's password by --redis-password-file".to_owned()),
            Self::NoPort => Some("`show interfaces status` lists the switch's ports".to_owned()),
            Self::NoObject | Self::NoQueue(_) => {
                Some("the port may not be up yet; `counterpoll queue enable` lists its queues".to_owned())
            }
            Self::Foreign { key, .. } => Some(format!(
                "`sonic-db-cli CONFIG_DB hgetall '{key}'` shows it; `config qos clear` removes all QoS configuration"
            )),
            Self::Refused { key, .. } => {
                Some(format!("another program changed the row; `sonic-db-cli CONFIG_DB del '{key}'` if it is unused"))
            }
            _ => None,
        }
    }
}

fn assigned(field: String) -> String {
    if field.is_empty() { field } else { format!("{field}=") }
}

/// The ports of a SONiC switch.
pub struct SonicSwitch {
    name: String,
    server: RedisServer,
    patience: Duration,
    /// By port that was read.
    records: BTreeMap<String, PortRecord>,
}

/// The knowledge of a port from earlier reads and writes.
#[derive(Debug, Clone, Default)]
struct PortRecord {
    /// The platform's objects where CONFIG_DB has no row of Weir's.
    platform: Bound,
    /// Whether rows were written that no read has shown in force yet.
    is_pending: bool,
}

#[expect(clippy::disallowed_methods, reason = "rows take effect in real time")]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// How many reads fit into a time.
fn reads_within(time: Duration) -> u32 {
    (time.as_millis() / PAUSE.as_millis()).try_into().unwrap_or(u32::MAX)
}

/// All rows of these keys and patterns. Each row is watched, if wanted: a transaction then fails if it changes.
fn load(connection: &mut Connection, patterns: &[String], watched: bool) -> RedisResult<Rows> {
    let mut keys: Vec<String> = Vec::new();
    for pattern in patterns {
        if pattern.ends_with('*') {
            keys.extend(cmd("KEYS").arg(pattern).query::<Vec<String>>(connection)?);
        } else {
            keys.push(pattern.clone());
        }
    }
    if keys.is_empty() {
        return Ok(Rows::new());
    }
    if watched {
        cmd("WATCH").arg(&keys).exec(connection)?;
    }
    let mut all = pipe();
    for key in &keys {
        all.hgetall(key);
    }
    let rows: Vec<Row> = all.query(connection)?;
    Ok(keys.into_iter().zip(rows).filter(|(_, row)| !row.is_empty()).collect())
}

/// Makes changes of rows in one transaction; whether no watched row has changed since it was read.
fn execute(connection: &mut Connection, rows: &Rows, changes: &[RowChange]) -> RedisResult<bool> {
    let new: Vec<&str> = changes.iter().map(RowChange::key).filter(|key| !rows.contains_key(*key)).collect();
    if !new.is_empty() {
        cmd("WATCH").arg(&new).exec(connection)?;
        if cmd("EXISTS").arg(&new).query::<u64>(connection)? > 0 {
            cmd("UNWATCH").exec(connection)?;
            return Ok(false);
        }
    }
    let mut all = pipe();
    all.atomic();
    for change in changes {
        match change {
            RowChange::Set(key, fields) => all.hset_multiple(key, fields).ignore(),
            RowChange::Unset(key, fields) => all.hdel(key, fields).ignore(),
            RowChange::Delete(key) => all.del(key).ignore(),
        };
    }
    Ok(all.query::<Option<()>>(connection)?.is_some())
}

fn patterns() -> Vec<String> {
    TABLES.iter().map(|table| format!("{table}|*")).collect()
}

impl SonicSwitch {
    /// Connects to a switch, under a name for messages.
    ///
    /// # Errors
    /// The server cannot be reached or refuses the request, or the switch is a chassis with virtual output queues.
    pub fn connect(name: impl Into<String>, access: Access) -> Result<Self, SonicError> {
        let server = RedisServer::new(access, PATIENCE);
        let mut switch = Self { name: name.into(), server, patience: PATIENCE, records: BTreeMap::new() };
        let kind: Option<String> = switch.query(Database::Config, |connection| {
            cmd("HGET").arg("DEVICE_METADATA|localhost").arg("switch_type").query(connection)
        })?;
        if kind.is_some_and(|kind| kind == "voq") { Err(SonicError::Voq) } else { Ok(switch) }
    }

    /// The same switch with another time for rows to take effect, and for the server to restart; 5 s else.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self.server.set_patience(patience);
        self
    }

    /// The speed that CONFIG_DB has for a port; `None` where it has none.
    ///
    /// # Errors
    /// There is no such port, or the server fails.
    pub fn speed(&mut self, port: &str) -> Result<Option<Bandwidth>, SonicError> {
        let row = self.port_row(port)?;
        let mbps = row.get("speed").and_then(|speed| speed.parse::<u32>().ok());
        Ok(mbps.map(|mbps| Bandwidth::from_mbps(mbps.into())))
    }

    /// The most that one of a port's first `queues` queues can hold; `None` where CONFIG_DB does not have it.
    ///
    /// # Errors
    /// The server fails.
    pub fn queue_buffer(&mut self, port: &str, queues: u8) -> Result<Option<Bytes>, SonicError> {
        let tables = buffers::TABLES.map(|table| format!("{table}|*"));
        let rows = self.query(Database::Config, |connection| load(connection, &tables, false))?;
        Ok(buffers::largest(&rows, port, queues))
    }

    /// The counters of a port's queues, by number.
    ///
    /// # Errors
    /// There is no such port, it has no objects of queues yet, or the server fails.
    pub fn counters(&mut self, port: &str) -> Result<BTreeMap<u8, QueueCounters>, SonicError> {
        let ids = queue_ids(&mut self.server, port);
        let (_, queues) = self.reply(ids)?.ok_or(SonicError::NoObject)?;
        if queues.is_empty() {
            return Ok(BTreeMap::new());
        }
        let values: Vec<Vec<Option<String>>> = self.query(Database::Counters, |connection| {
            let mut all = pipe();
            for id in queues.values() {
                all.cmd("HMGET").arg(format!("COUNTERS:{id}")).arg(&FIELDS);
            }
            all.query(connection)
        })?;
        Ok(queues.into_keys().zip(values.iter().map(|values| QueueCounters::of(values))).collect())
    }

    /// Removes Weir's rows of a port that has no configuration in force: rows that orchagent refused, and rows to which
    /// no row refers. Returns whether there were any; a port with a configuration stays.
    ///
    /// # Errors
    /// There is no such port, its rows are not Weir's or change all the time, or the server fails.
    pub fn sweep(&mut self, port: &str) -> Result<bool, SonicError> {
        if !self.read(port)?.is_default() {
            return Ok(false);
        }
        let name = port.to_owned();
        let cleared = self.transact(&[name], |rows| {
            rows::clear(rows, port);
            Ok(())
        })?;
        Ok(self.delete_unreferenced(&[])? | cleared)
    }

    fn reply<T>(&self, reply: RedisResult<T>) -> Result<T, SonicError> {
        reply.map_err(|error| SonicError::Server { address: self.server.address().clone(), error })
    }

    fn query<T>(
        &mut self,
        database: Database,
        request: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<T, SonicError> {
        let reply = self.server.query(database, request);
        self.reply(reply)
    }

    fn port_row(&mut self, port: &str) -> Result<Row, SonicError> {
        if !check::is_port_name(port) {
            return Err(SonicError::NoPort);
        }
        let key = rows::key(PORT, port);
        let row: Row = self.query(Database::Config, |connection| cmd("HGETALL").arg(key).query(connection))?;
        if row.is_empty() { Err(SonicError::NoPort) } else { Ok(row) }
    }

    fn asic(&mut self, port: &str) -> Result<AsicPort, SonicError> {
        let found = AsicPort::read(&mut self.server, port);
        self.reply(found)?.ok_or(SonicError::NoObject)
    }

    /// The state in force; `rows` has those of queues and ports' maps.
    fn state(&mut self, port: &str, rows: &Rows) -> Result<PortState, SonicError> {
        let Some(mut record) = self.records.get(port).cloned() else { return self.first_state(port) };
        let asic = self.asic(port)?;
        if !record.is_pending {
            record.platform = unconfigured(rows, port, asic.bound.clone()).or(record.platform.without(&asic.bound));
        }
        let state = asic.state(&record.platform)?;
        record.is_pending &= !is_complete(rows, port, &state);
        self.records.insert(port.to_owned(), record);
        Ok(state)
    }

    /// The state at the first read: the platform's objects are noted, and rows may still take effect.
    fn first_state(&mut self, port: &str) -> Result<PortState, SonicError> {
        let rows = self.query(Database::Config, |connection| load(connection, &patterns(), false))?;
        let platform = unconfigured(&rows, port, self.asic(port)?.bound);
        let written = rows::configured(&rows, port);
        let mut state = self.asic(port)?.state(&platform)?;
        for _ in 0..reads_within(SETTLE.min(self.patience)) {
            if state == written {
                break;
            }
            pause();
            state = self.asic(port)?.state(&platform)?;
        }
        let is_pending = state != written;
        self.records.insert(port.to_owned(), PortRecord { platform, is_pending });
        Ok(state)
    }

    /// The rows of queues and ports' maps.
    fn bindings(&mut self) -> Result<Rows, SonicError> {
        let own = [format!("{QUEUE}|*"), format!("{PORT_QOS_MAP}|*")];
        self.query(Database::Config, |connection| load(connection, &own, false))
    }

    /// Changes rows in one transaction, or none of them. Refuses rows of these ports that are not Weir's, and rows that
    /// orchagent would refuse. Returns whether anything differed.
    fn transact(
        &mut self,
        ports: &[String],
        change: impl Fn(&mut Rows) -> Result<(), SonicError>,
    ) -> Result<bool, SonicError> {
        for _ in 0..ATTEMPTS {
            match self.attempt(ports, &change) {
                Ok(Some(has_changed)) => return Ok(has_changed),
                Ok(None) => {}
                Err(error) => {
                    // Rows that stay watched would fail a later transaction of this connection.
                    if !matches!(&error, SonicError::Server { error, .. } if error.is_io_error()) {
                        self.query(Database::Config, |connection| cmd("UNWATCH").exec(connection))?;
                    }
                    return Err(error);
                }
            }
        }
        Err(SonicError::Busy)
    }

    /// One attempt of a transaction: whether anything differed, or `None` if a watched row has changed meanwhile. After
    /// an error rows may be watched.
    fn attempt(
        &mut self,
        ports: &[String],
        change: impl Fn(&mut Rows) -> Result<(), SonicError>,
    ) -> Result<Option<bool>, SonicError> {
        let rows = self.query(Database::Config, |connection| load(connection, &patterns(), true))?;
        if let Some(found) = ports.iter().find_map(|port| check::foreign(&rows, port)) {
            return Err(foreign(found));
        }
        let mut wanted = rows.clone();
        change(&mut wanted)?;
        let changes = changes(&rows, &wanted);
        if changes.is_empty() {
            self.query(Database::Config, |connection| cmd("UNWATCH").exec(connection))?;
            return Ok(Some(false));
        }
        let written = changes.iter().filter_map(|change| wanted.get_key_value(change.key()));
        if let Some(wrong) = written.into_iter().find_map(|(key, row)| check::refused(&wanted, key, row)) {
            let Wrong { key, field, value, expected } = wrong;
            return Err(SonicError::Refused { key, field: assigned(field), value, expected });
        }
        let is_done = self.query(Database::Config, |connection| execute(connection, &rows, &changes))?;
        Ok(is_done.then_some(true))
    }

    /// Deletes Weir's rows to which no row refers, once these steps are in force: until then, objects may.
    fn delete_unreferenced(&mut self, steps: &[Step]) -> Result<bool, SonicError> {
        let rows = self.query(Database::Config, |connection| load(connection, &patterns(), false))?;
        if rows::unreferenced(&rows).is_empty() || !self.are_in_force(steps) {
            return Ok(false);
        }
        self.transact(&[], |rows| {
            rows::unreferenced(rows).iter().for_each(|key| drop(rows.remove(key)));
            Ok(())
        })
    }

    /// Waits until steps are in force, as long as the driver waits.
    fn are_in_force(&mut self, steps: &[Step]) -> bool {
        let mut left = reads_within(self.patience);
        for step in steps {
            loop {
                let rows = self.bindings();
                let Ok(state) = rows.and_then(|rows| self.state(&step.port, &rows)) else { return false };
                let mut behind = state.clone();
                step.change.apply(&mut behind);
                if behind == state {
                    break;
                }
                if left == 0 {
                    return false;
                }
                left -= 1;
                pause();
            }
        }
        true
    }

    /// Refuses steps for queues that the hardware does not have.
    fn check_queues(&mut self, steps: &[Step]) -> Result<(), WriteError<SonicError>> {
        for (index, step) in steps.iter().enumerate() {
            let Change::AddQueue { queue, .. } = step.change else { continue };
            let failed = |error| WriteError { step: index, error };
            if !self.asic(&step.port).map_err(failed)?.queues.contains(&queue) {
                return Err(failed(SonicError::NoQueue(queue)));
            }
        }
        Ok(())
    }
}

fn has(rows: &Rows, key: String, field: &str) -> bool {
    rows.get(&key).is_some_and(|row| reference(row, field).is_some())
}

/// Whether the state of a port has the queues and the map for which there are rows, and no others.
fn is_complete(rows: &Rows, port: &str, state: &PortState) -> bool {
    let has_map =
        ["dscp_to_tc_map", "tc_to_queue_map"].iter().all(|field| has(rows, rows::key(PORT_QOS_MAP, port), field));
    let has_queue = |queue: &u8| has(rows, rows::queue(port, *queue), "scheduler");
    state.map.is_some() == has_map && (0..QUEUES_MAX as u8).filter(has_queue).eq(state.queues.keys().copied())
}

/// The objects of a port for which CONFIG_DB has no row of Weir's.
fn unconfigured(rows: &Rows, port: &str, mut bound: Bound) -> Bound {
    let has = |key: String, field: &str| has(rows, key, field);
    bound.schedulers.retain(|queue, _| !has(rows::queue(port, *queue), "scheduler"));
    bound.profiles.retain(|queue, _| !has(rows::queue(port, *queue), "wred_profile"));
    let of_port = |field: &str| has(rows::key(PORT_QOS_MAP, port), field);
    bound.dscp_map = bound.dscp_map.filter(|_| !of_port("dscp_to_tc_map"));
    bound.class_map = bound.class_map.filter(|_| !of_port("tc_to_queue_map"));
    bound
}

impl ReadQueues for SonicSwitch {
    fn queues(&mut self, port: &str) -> Result<BTreeMap<u8, QueueReading>, SonicError> {
        let counters = self.counters(port)?;
        Ok(counters.into_iter().map(|(queue, counters)| (queue, counters.into())).collect())
    }

    /// Counters are as old as the period of their reading from the hardware.
    fn are_live(&self) -> bool {
        false
    }
}

fn foreign(Wrong { key, field, value, .. }: Wrong) -> SonicError {
    SonicError::Foreign { key, field: assigned(field), value }
}

impl Driver for SonicSwitch {
    type Error = SonicError;

    fn switch(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queues: QUEUES_MAX as u8,
            strict: true,
            weighted: true,
            mixed: true,
            weights: WEIGHTS,
            marks: Setting::PerQueue,
            buffers: Setting::Fixed,
            buffer_max: Bytes::ZERO,
            rate: RateSetting::Fixed,
            remarks: false,
            maps: Map::PerSwitch,
        }
    }

    fn read(&mut self, port: &str) -> Result<PortState, SonicError> {
        self.port_row(port)?;
        let rows = self.bindings()?;
        match check::foreign(&rows, port) {
            Some(found) => Err(foreign(found)),
            None => self.state(port, &rows),
        }
    }

    fn write(&mut self, steps: &[Step]) -> Result<(), WriteError<SonicError>> {
        self.check_queues(steps)?;
        for (index, step) in steps.iter().enumerate() {
            let written = rows::write_step(&mut Rows::new(), Reference::Name, step);
            written.map_err(|field| WriteError { step: index, error: SonicError::Unsupported(field) })?;
        }
        let mut ports: Vec<String> = steps.iter().map(|step| step.port.clone()).collect();
        ports.sort_unstable();
        ports.dedup();
        let write = |rows: &mut Rows| {
            let form = Reference::of(rows);
            steps.iter().try_for_each(|step| rows::write_step(rows, form, step)).map_err(SonicError::Unsupported)
        };
        let failed = |error| WriteError { step: 0, error };
        for port in &ports {
            self.records.entry(port.clone()).and_modify(|record| record.is_pending = true);
        }
        self.transact(&ports, write).map_err(failed)?;
        // A row that stays without a reference has no effect; `sweep` deletes it.
        self.delete_unreferenced(steps).map_err(failed)?;
        Ok(())
    }

    fn wait(&mut self, reads: u32) -> bool {
        pause();
        reads < reads_within(self.patience)
    }

    fn mapped(&mut self) -> Result<Vec<String>, SonicError> {
        let own = [format!("{PORT_QOS_MAP}|*")];
        let rows = self.query(Database::Config, |connection| load(connection, &own, false))?;
        let port = |(key, row): (&String, &Row)| {
            let (_, port) = key.split_once('|')?;
            (reference(row, "dscp_to_tc_map")? == rows::map(port)).then(|| port.to_owned())
        };
        Ok(rows.iter().filter_map(port).collect())
    }

    fn hint(&self, error: &SonicError) -> Option<String> {
        error.hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_under_rows_of_weir_are_not_the_platforms() {
        let reference = |field: &str, name: &str| Row::from([(field.to_owned(), name.to_owned())]);
        let rows = Rows::from([
            ("QUEUE|Ethernet0|1".to_owned(), reference("scheduler", "weir.Ethernet0.q1")),
            (rows::key(PORT_QOS_MAP, "Ethernet0"), reference("dscp_to_tc_map", "WEIR_Ethernet0")),
            (rows::key(rows::DSCP_TO_TC_MAP, "WEIR_Ethernet0"), reference("0", "0")),
        ]);
        let id = |number: u8| format!("oid:{number:#x}");
        let bound = Bound {
            schedulers: BTreeMap::from([(0, id(1)), (1, id(2))]),
            profiles: BTreeMap::from([(1, id(3))]),
            dscp_map: Some(id(4)),
            class_map: Some(id(5)),
        };
        let expected = Bound { schedulers: BTreeMap::from([(0, id(1))]), dscp_map: None, ..bound.clone() };
        assert_eq!(unconfigured(&rows, "Ethernet0", bound), expected);
    }
}
