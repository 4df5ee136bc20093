//! A stand-in for orchagent, in a thread of the test.
//!
//! | Orchagent | The stand-in |
//! |---|---|
//! | receives keyspace events, and reads the row as it is then; only `del` deletes | the same, with real events |
//! | processes rows later, without a reply | after a delay that a test sets |
//! | sets the fields of an existing row's object in place | the same |
//! | drops a row with an unknown field, `priority` and `NULL` too; parses numbers without a check | the same |
//! | keeps a referenced row's deletion, and a SET after it, until no row refers to it | the same |
//! | a row with an unresolved reference waits | the same |
//! | unsets references that a row lacks; switches PFC off without `pfc_enable` | the same |
//! | maps and profiles first, then `PORT_QOS_MAP`, then `QUEUE` | the same |
//!
//! Source: sonic-swss, orchagent/qosorch.cpp, orchagent/orch.cpp; sonic-swss-common, common/subscriberstatetable.cpp.

use super::objects::{Objects, attributes, kind};
use super::{CONFIG, Row, connect, pause};
use redis::{Connection, RedisResult, cmd};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The fields that refer to rows.
const REFERENCES: [(&str, &str); 4] = [
    ("scheduler", "SCHEDULER"),
    ("wred_profile", "WRED_PROFILE"),
    ("dscp_to_tc_map", "DSCP_TO_TC_MAP"),
    ("tc_to_queue_map", "TC_TO_QUEUE_MAP"),
];
const ORDER: [&str; 6] = ["SCHEDULER", "WRED_PROFILE", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "PORT_QOS_MAP", "QUEUE"];

/// The key of no row, which marks a point in the order of events.
const MARK: &str = "MARK|";

/// The state that a test shares with the thread.
#[derive(Default)]
pub(crate) struct Shared {
    /// The time from an event to its effect.
    pub(crate) delay: Duration,
    /// Rows whose values the hardware refuses: these parts of keys.
    pub(crate) refused: Vec<String>,
    /// Whether nothing takes effect.
    pub(crate) is_stalled: bool,
    /// Errors, as in syslog.
    pub(crate) log: Vec<String>,
    /// The cause of its end.
    pub(crate) crash: Option<String>,
    /// Events with their keys.
    pub(crate) events: Vec<(String, String)>,
    /// By port.
    pub(crate) pfc: BTreeMap<String, String>,
    /// Whether every event has had its effect.
    is_idle: bool,
    /// The last mark among the events.
    mark: String,
    ended: bool,
}

/// The thread; it ends with this.
pub(crate) struct Orchagent {
    socket: PathBuf,
    marks: AtomicU32,
    shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<()>>,
}

impl Orchagent {
    #[expect(clippy::disallowed_methods, reason = "a daemon of the test")]
    pub(crate) fn start(socket: PathBuf, ports: &[&str], groups: bool, first_id: u64) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let mut server = connect(&socket, CONFIG).expect("a connection");
        let objects = Objects::new(&mut server, ports, groups, first_id).expect("objects");
        let daemon = Daemon {
            shared: shared.clone(),
            socket: socket.clone(),
            objects,
            made: BTreeMap::new(),
            references: BTreeMap::new(),
            tasks: BTreeMap::new(),
            since: None,
        };
        let (ready, is_ready) = channel();
        let thread = std::thread::spawn(move || daemon.run(ready));
        is_ready.recv().expect("it runs");
        Self { socket, marks: AtomicU32::new(0), shared, thread: Some(thread) }
    }

    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every event before this call has had its effect.
    pub(crate) fn settle(&self) {
        let mut server = connect(&self.socket, CONFIG).expect("a connection");
        let mark = format!("{MARK}{}", self.marks.fetch_add(1, Ordering::Relaxed));
        let channel = format!("__keyspace@{CONFIG}__:{mark}");
        for _ in 0..400 {
            // Again and again: the thread may be connecting.
            cmd("PUBLISH").arg(&channel).arg("mark").exec(&mut server).expect("published");
            let is_done = |shared: &Shared| shared.is_idle && shared.mark == mark;
            if is_done(&self.shared()) {
                return;
            }
            pause(25);
        }
        panic!("events without an effect; log: {:?}", self.shared().log);
    }
}

impl Orchagent {
    /// Ends the thread.
    pub(crate) fn end(&mut self) {
        self.shared().ended = true;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Orchagent {
    fn drop(&mut self) {
        self.end();
    }
}

enum Task {
    Set(Row),
    Delete,
}

enum Done {
    Yes,
    /// Again in the next pass.
    Later,
}

struct Object {
    id: String,
    /// It goes once no row refers to it.
    is_leaving: bool,
}

struct Daemon {
    shared: Arc<Mutex<Shared>>,
    socket: PathBuf,
    objects: Objects,
    /// By the key of their row.
    made: BTreeMap<String, Object>,
    /// By row: the keys of the rows to which it refers, by field.
    references: BTreeMap<String, BTreeMap<&'static str, String>>,
    tasks: BTreeMap<String, VecDeque<Task>>,
    /// When the oldest task arrived.
    since: Option<Instant>,
}

#[expect(clippy::disallowed_methods, reason = "the delay of a daemon")]
fn now() -> Instant {
    Instant::now()
}

impl Daemon {
    fn run(mut self, ready: Sender<()>) {
        while !self.lock().ended {
            // The server may be restarting.
            let both = connect(&self.socket, CONFIG).and_then(|one| Ok((one, connect(&self.socket, CONFIG)?)));
            if let Ok((events, server)) = both {
                let _ = self.serve(events, server, &ready);
            }
            pause(20);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all rows, then events until the server is lost.
    fn serve(&mut self, mut events: Connection, mut server: Connection, ready: &Sender<()>) -> RedisResult<()> {
        let mut events = events.as_pubsub();
        events.psubscribe(format!("__keyspace@{CONFIG}__:*"))?;
        events.set_read_timeout(Some(Duration::from_millis(10)))?;
        for table in ORDER {
            cmd("SELECT").arg(CONFIG).exec(&mut server)?;
            let keys: Vec<String> = cmd("KEYS").arg(format!("{table}|*")).query(&mut server)?;
            keys.into_iter().try_for_each(|key| self.take(&mut server, "hset", key))?;
        }
        self.pass(&mut server)?;
        let _ = ready.send(());
        while !self.lock().ended {
            match events.get_message() {
                Ok(message) => {
                    let key = message.get_channel_name().split_once(':').map_or("", |(_, key)| key).to_owned();
                    let event: String = message.get_payload()?;
                    if key.starts_with(MARK) {
                        self.lock().mark = key;
                    } else {
                        self.lock().events.push((event.clone(), key.clone()));
                        self.take(&mut server, &event, key)?;
                    }
                }
                Err(error) if error.is_timeout() => {}
                Err(error) => return Err(error),
            }
            self.pass(&mut server)?;
        }
        Ok(())
    }

    /// Takes an event: a task replaces those of the row that wait, but for a deletion before it.
    fn take(&mut self, server: &mut Connection, event: &str, key: String) -> RedisResult<()> {
        if !ORDER.iter().any(|table| key.split('|').next() == Some(*table)) {
            return Ok(());
        }
        self.lock().is_idle = false;
        self.since.get_or_insert_with(now);
        let task = if event == "del" {
            Task::Delete
        } else {
            cmd("SELECT").arg(CONFIG).exec(server)?;
            let row: Row = cmd("HGETALL").arg(&key).query(server)?;
            if row.is_empty() {
                return Ok(());
            }
            Task::Set(row)
        };
        let tasks = self.tasks.entry(key).or_default();
        tasks.retain(|waiting| matches!((waiting, &task), (Task::Delete, Task::Set(_))));
        tasks.push_back(task);
        Ok(())
    }

    fn pass(&mut self, server: &mut Connection) -> RedisResult<()> {
        let elapsed = self.since.map(|since| since.elapsed());
        let is_early = |shared: &Shared| shared.is_stalled || elapsed.is_some_and(|elapsed| elapsed < shared.delay);
        if is_early(&self.lock()) {
            return Ok(());
        }
        for table in ORDER {
            let keys: Vec<String> =
                self.tasks.keys().filter(|key| key.split('|').next() == Some(table)).cloned().collect();
            for key in keys {
                while let Some(task) = self.tasks.get_mut(&key).and_then(VecDeque::pop_front) {
                    if let Done::Later = self.process(server, table, &key, &task)? {
                        self.tasks.entry(key.clone()).or_default().push_front(task);
                        break;
                    }
                }
                self.tasks.retain(|_, tasks| !tasks.is_empty());
            }
        }
        if self.tasks.is_empty() {
            self.since = None;
            self.lock().is_idle = true;
        }
        Ok(())
    }

    fn process(&mut self, server: &mut Connection, table: &str, key: &str, task: &Task) -> RedisResult<Done> {
        let is_refused = self.lock().refused.iter().any(|part| key.contains(part));
        if is_refused && matches!(task, Task::Set(_)) {
            return Ok(self.drop_task(key, "refused by the hardware"));
        }
        match (table, task) {
            ("QUEUE", _) => self.queue(server, key, task),
            ("PORT_QOS_MAP", _) => self.port(server, key, task),
            (_, Task::Set(row)) => self.make(server, table, key, row),
            (_, Task::Delete) => self.unmake(server, table, key),
        }
    }

    fn drop_task(&self, key: &str, why: &str) -> Done {
        self.lock().log.push(format!("ERR orchagent: {key}: {why}, drop it"));
        Done::Yes
    }

    /// A row with an object.
    fn make(&mut self, server: &mut Connection, table: &str, key: &str, row: &Row) -> RedisResult<Done> {
        let attributes = match attributes(table, row) {
            Ok(Some(attributes)) => attributes,
            Ok(None) => return Ok(self.drop_task(key, "Unknown field")),
            Err(cause) => {
                let mut shared = self.lock();
                (shared.crash, shared.ended) = (Some(format!("{key}: {cause}")), true);
                return Ok(Done::Yes);
            }
        };
        if self.made.get(key).is_some_and(|object| object.is_leaving) {
            return Ok(Done::Later);
        }
        let id = match self.made.get(key) {
            Some(object) => object.id.clone(),
            None => self.objects.create(),
        };
        for (attribute, value) in &attributes {
            self.objects.set(server, (kind(table), &id), (attribute, value))?;
        }
        self.made.entry(key.to_owned()).or_insert(Object { id, is_leaving: false });
        Ok(Done::Yes)
    }

    fn unmake(&mut self, server: &mut Connection, table: &str, key: &str) -> RedisResult<Done> {
        let is_used = self.references.values().any(|own| own.values().any(|used| used == key));
        let Some(object) = self.made.get_mut(key) else { return Ok(self.drop_task(key, "not found")) };
        if is_used {
            object.is_leaving = true;
            return Ok(Done::Later);
        }
        let id = object.id.clone();
        self.made.remove(key);
        self.objects.delete(server, (kind(table), &id))?;
        Ok(Done::Yes)
    }

    /// The objects of a row's references by field, absent ones too. `None`: one does not exist yet, or leaves.
    fn resolve(&self, row: &Row, fields: &[&str]) -> Option<BTreeMap<&'static str, (String, String)>> {
        let mut found = BTreeMap::new();
        for (field, table) in REFERENCES.into_iter().filter(|(field, _)| fields.contains(field)) {
            let Some(value) = row.get(field) else { continue };
            let inner = value.strip_prefix('[').and_then(|value| value.strip_suffix(']'));
            let key = inner.map_or_else(|| format!("{table}|{value}"), str::to_owned);
            let object = self.made.get(&key).filter(|object| !object.is_leaving)?;
            found.insert(field, (key, object.id.clone()));
        }
        Some(found)
    }

    fn refer(&mut self, key: &str, found: &BTreeMap<&'static str, (String, String)>) {
        let keys = found.iter().map(|(field, (key, _))| (*field, key.clone())).collect();
        self.references.insert(key.to_owned(), keys);
    }

    fn queue(&mut self, server: &mut Connection, key: &str, task: &Task) -> RedisResult<Done> {
        let none = Row::new();
        let row = if let Task::Set(row) = task { row } else { &none };
        let Some(found) = self.resolve(row, &["scheduler", "wred_profile"]) else { return Ok(Done::Later) };
        let mut parts = key.split('|').skip(1);
        let (port, range) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<u8>(), last.parse::<u8>()) else {
            return Ok(self.drop_task(key, "invalid range"));
        };
        let had = self.references.remove(key).unwrap_or_default();
        for queue in first..=last {
            let id = |field: &str| found.get(field).map(|(_, id)| id.as_str());
            if id("scheduler").is_some() || had.contains_key("scheduler") {
                self.objects.set_scheduler(server, (port, queue), id("scheduler"))?;
            }
            if id("wred_profile").is_some() || had.contains_key("wred_profile") {
                self.objects.set_profile(server, (port, queue), id("wred_profile"))?;
            }
        }
        self.refer(key, &found);
        Ok(Done::Yes)
    }

    fn port(&mut self, server: &mut Connection, key: &str, task: &Task) -> RedisResult<Done> {
        let none = Row::new();
        let row = if let Task::Set(row) = task { row } else { &none };
        let port = key.split('|').nth(1).unwrap_or_default().to_owned();
        if !self.objects.ports.contains_key(&port) {
            return Ok(self.drop_task(key, "no such port"));
        }
        let fields = ["dscp_to_tc_map", "tc_to_queue_map"];
        let Some(found) = self.resolve(row, &fields) else { return Ok(Done::Later) };
        let had = self.references.remove(key).unwrap_or_default();
        for field in fields {
            let id = found.get(field).map(|(_, id)| id.as_str());
            if id.is_some() || had.contains_key(field) {
                self.objects.set_map(server, &port, (field, id))?;
            }
        }
        self.refer(key, &found);
        match row.get("pfc_enable") {
            Some(priorities) => drop(self.lock().pfc.insert(port, priorities.clone())),
            None => drop(self.lock().pfc.remove(&port)),
        }
        Ok(Done::Yes)
    }
}
