//! A switch of tests: a real redis server on a unix socket, and orchagent's stand-in beside it.
#![allow(dead_code, reason = "each test file uses a part of this")]

mod objects;
pub(crate) mod orchagent;
pub(crate) mod yang;

use orchagent::Orchagent;
use redis::{Client, Connection, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) type Row = BTreeMap<String, String>;
pub(crate) type Rows = BTreeMap<String, Row>;

/// The databases, by their numbers in SONiC.
pub(crate) const ASIC: i64 = 1;
pub(crate) const COUNTERS: i64 = 2;
pub(crate) const CONFIG: i64 = 4;

pub(crate) const PORTS: [&str; 2] = ["Ethernet0", "Ethernet4"];
/// The first id of the hardware's objects.
pub(crate) const FIRST_ID: u64 = 0x100;
pub(crate) const PASSWORD: &str = "secret of the test";

#[expect(clippy::disallowed_methods, reason = "a test of real processes waits in real time")]
pub(crate) fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Whether this host lacks a program, which is printed; if WEIR_NO_SKIP is set, as in CI, that is a failure.
pub(crate) fn is_missing(program: &str) -> bool {
    let run = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if run.is_ok() {
        return false;
    }
    assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and there is no {program}");
    print_skipped(&format!("a SONiC switch needs {program}; `make setup` installs it"));
    true
}

/// Prints a line about a test that does not run. Not by println!, which a passing test swallows.
pub(crate) fn print_skipped(why: &str) {
    std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes()).expect("standard error takes a line");
}

pub(crate) fn row(fields: &[(&str, &str)]) -> Row {
    fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect()
}

/// A redis server. Its content survives a restart.
pub(crate) struct Redis {
    child: Option<Child>,
    directory: tempfile::TempDir,
    password: bool,
}

impl Redis {
    fn start(password: bool) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut redis = Self { child: None, directory, password };
        redis.run();
        redis
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// Starts the server, after it was killed too.
    pub(crate) fn run(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
        command.args(["--notify-keyspace-events", "AKE", "--unixsocket"]).arg(self.socket());
        command.arg("--dir").arg(self.directory.path()).stdout(Stdio::null());
        if self.password {
            command.args(["--requirepass", PASSWORD]);
        }
        self.child = Some(command.spawn().expect("redis-server starts; `make setup` installs it"));
        for _ in 0..200 {
            if connect(&self.socket(), CONFIG).is_ok() {
                return;
            }
            pause(25);
        }
        panic!("redis-server does not reply");
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a running child");
            child.wait().expect("ends");
        }
        // A socket that remains would be refused by the next server.
        let _ = std::fs::remove_file(self.socket());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn connect(socket: &Path, database: i64) -> redis::RedisResult<Connection> {
    let settings = RedisConnectionInfo::default().set_db(database);
    let connect = |settings| {
        let address = ConnectionAddr::Unix(socket.to_owned()).into_connection_info()?;
        let mut connection = Client::open(address.set_redis_settings(settings))?.get_connection()?;
        redis::cmd("PING").exec(&mut connection)?;
        Ok(connection)
    };
    connect(settings.clone()).or_else(|_: redis::RedisError| connect(settings.set_password(PASSWORD)))
}

/// Writes the rows of a switch that Weir has not configured.
fn begin(redis: &Redis) {
    let mut config = connect(&redis.socket(), CONFIG).expect("a connection");
    let metadata = [
        ("hostname", "leaf1"),
        ("hwsku", "example-sku"),
        ("platform", "x86_64-example-r0"),
        ("mac", "02:00:00:00:00:01"),
        ("switch_type", "npu"),
    ];
    let set = |config: &mut Connection, key: &str, fields: &[(&str, &str)]| {
        redis::cmd("HSET").arg(key).arg(fields).exec(config).expect("a row");
    };
    set(&mut config, "DEVICE_METADATA|localhost", &metadata);
    for (index, port) in PORTS.into_iter().enumerate() {
        let lanes: Vec<String> = (4 * index..4 * index + 4).map(|lane| lane.to_string()).collect();
        let (lanes, alias, index) = (lanes.join(","), format!("Eth{}", index + 1), (index + 1).to_string());
        let fields = [
            ("lanes", lanes.as_str()),
            ("speed", "100000"),
            ("alias", &alias),
            ("index", &index),
            ("mtu", "9100"),
            ("admin_status", "up"),
        ];
        set(&mut config, &format!("PORT|{port}"), &fields);
    }
    set(&mut config, "PORT_QOS_MAP|Ethernet0", &[("pfc_enable", "3,4")]);
}

/// A switch with ports in use, and the operator's PFC on the first.
pub(crate) struct Switch {
    pub(crate) orchagent: Orchagent,
    pub(crate) redis: Redis,
    groups: bool,
}

impl Switch {
    /// `None` where this host has no redis-server.
    pub(crate) fn start() -> Option<Self> {
        Self::with(false, false)
    }

    /// A switch whose schedulers are attributes of `groups`, and one whose server has a `password`.
    pub(crate) fn with(groups: bool, password: bool) -> Option<Self> {
        if is_missing("redis-server") {
            return None;
        }
        let redis = Redis::start(password);
        begin(&redis);
        let orchagent = Orchagent::start(redis.socket(), &PORTS, groups, FIRST_ID);
        Some(Self { orchagent, redis, groups })
    }

    /// Restarts the switch without a saved configuration: all rows and objects are new. The hardware's objects have ids
    /// from `first` on.
    pub(crate) fn restart(&mut self, first: u64) {
        self.orchagent.end();
        let mut server = connect(&self.redis.socket(), CONFIG).expect("a connection");
        redis::cmd("FLUSHALL").exec(&mut server).expect("emptied");
        begin(&self.redis);
        self.orchagent = Orchagent::start(self.redis.socket(), &PORTS, self.groups, first);
    }

    pub(crate) fn query<T: redis::FromRedisValue>(&self, database: i64, command: &[&str]) -> T {
        let mut connection = connect(&self.redis.socket(), database).expect("a connection");
        let (name, arguments) = command.split_first().expect("a command");
        redis::cmd(name).arg(arguments).query(&mut connection).expect("a reply")
    }

    pub(crate) fn set(&self, key: &str, field: &str, value: &str) {
        self.query::<()>(CONFIG, &["HSET", key, field, value]);
    }

    /// All rows of a database.
    pub(crate) fn rows(&self, database: i64) -> Rows {
        let keys: Vec<String> = self.query(database, &["KEYS", "*"]);
        keys.into_iter().map(|key| (key.clone(), self.query(database, &["HGETALL", &key]))).collect()
    }

    /// The commands that the server gets meanwhile, as MONITOR prints them.
    pub(crate) fn commands_of(&self, act: impl FnOnce()) -> Vec<String> {
        let mut stream = UnixStream::connect(self.redis.socket()).expect("a connection");
        stream.write_all(b"MONITOR\r\n").expect("sent");
        let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
        assert_eq!(lines.next().expect("a reply").expect("text"), "+OK");
        act();
        self.query::<()>(CONFIG, &["ECHO", "the end"]);
        let lines = lines.map(|line| line.expect("text"));
        lines.take_while(|line| !line.contains("the end")).collect()
    }
}
