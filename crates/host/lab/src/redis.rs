//! A real redis server and its clients.
//!
//! Problem: measure the requests of a service, one by one and over time, beside other traffic.
//! redis-benchmark reports percentiles of a whole run, of clients that wait for each reply and so
//! send less when replies are slow. Approach: the server is Debian's redis-server; the clients are
//! threads of the lab, each with one connection from its machine's namespace. A client reads one
//! value at exponential intervals, independent of earlier requests: a request that is due while
//! another one is under way waits, and its time counts from its due time. Every request is
//! recorded.
//!
//! The time of a request includes both directions of the network, both hosts' TCP, and the server's
//! and the client's turn on the processor. An idle run shows the part that is not the network's.
//!
//! Worked example: `GET k` of 10 kB at 100 Mb/s: seven frames, 0.85 ms on the slowest link, and the
//! time of the hosts.

use crate::janitor::tie;
use crate::network::{Network, address, machine_name};
use crate::real_time::{LOOK, PATIENCE, since, time};
use crate::traffic::{TrafficError, free_port};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use weir_datapath::{Classifier, ClassifierError};
use weir_linux::netns::NetnsError;
use weir_linux::requirements::Missing;
use weir_results::{FlowRecord, Group, Results};
use weir_scenario::{Application, LabScenario};
use weir_units::{Duration, SimTime};

const SERVER: &str = "redis-server";
const REQUEST: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
/// Clients and their server have a host of their own in reality, and must not wait for hundreds of
/// senders on two processors.
const NICE: i32 = -10;

/// Why the server or its clients cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// A process, a socket or a thread.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Entering a namespace.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The policy's filters.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// A port.
    #[error(transparent)]
    Ports(#[from] TrafficError),
    /// A client ended by itself.
    #[error("a client of {name}: {error}")]
    Client {
        /// The application.
        name: String,
        /// Why.
        error: String,
    },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> RedisError {
    let what = what.into();
    move |error| RedisError::Io { what, error }
}

/// The requirement for the scenario's servers that this host lacks, if any.
pub fn missing(scenario: LabScenario<'_>) -> Option<Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|directory| directory.join(SERVER).is_file());
    (!scenario.applications().is_empty() && !there).then(|| Missing {
        what: SERVER,
        found: "not found on the PATH".to_owned(),
        remedy: "a service of the scenario is one (apt-get install redis-server)",
    })
}

/// The requests of all clients of an application.
type Records = Arc<Mutex<Vec<FlowRecord>>>;

/// A scenario's servers and clients; ended when dropped.
pub struct Applications {
    servers: Vec<Child>,
    /// Connected, until the traffic begins.
    idle: Vec<Client>,
    running: Vec<JoinHandle<Result<(), String>>>,
    records: Vec<Records>,
    names: Vec<String>,
    /// The ports on which the servers listen.
    ports: Vec<(weir_units::MachineId, u16)>,
    stop: Arc<AtomicBool>,
}

/// A connection and the requests to be sent by it.
struct Client {
    index: usize,
    stream: TcpStream,
    application: Application,
    from: weir_units::MachineId,
    seed: u64,
}

impl Applications {
    /// Starts all servers, sets their values and connects all clients. Servers' files go into
    /// `directory`; `taken` returns the ports of a machine that are in use.
    pub fn prepare(
        network: &Network,
        scenario: LabScenario<'_>,
        taken: &dyn Fn(weir_units::MachineId) -> Vec<u16>,
        directory: &Path,
    ) -> Result<Self, RedisError> {
        let policy = scenario.policy();
        let classifier = Classifier::new(policy.services().classification_order(), Some(crate::network::NIC))?;
        let mut all = Self {
            servers: Vec::new(),
            idle: Vec::new(),
            running: Vec::new(),
            records: Vec::new(),
            names: Vec::new(),
            ports: Vec::new(),
            stop: Arc::new(AtomicBool::new(false)),
        };
        for (index, application) in scenario.applications().iter().enumerate() {
            let to = application.to;
            let mut used = taken(to);
            used.extend(all.taken(to));
            // Filters may select the clients' addresses: the port must fit all clients.
            let mut ports = application
                .from
                .iter()
                .map(|from| free_port(policy, &classifier, application.service, false, (*from, to), &used));
            let port = ports.next().expect("an application has a client")?;
            for other in ports {
                if other? != port {
                    return Err(TrafficError::Ports {
                        service: policy.services().get(application.service).path().to_owned(),
                        machine: machine_name(policy, to).to_owned(),
                        protocols: "tcp, the same from all clients",
                    }
                    .into());
                }
            }
            all.ports.push((to, port));
            let at = SocketAddr::from((address(to), port));
            all.servers.push(serve(network, application, at, directory)?);
            set_value(network, application, at)?;
            for (client, from) in
                application.from.iter().flat_map(|from| (0..application.connections).map(move |n| (n, from)))
            {
                let stream = network.machine(*from).run(|| TcpStream::connect_timeout(&at, PATIENCE))?;
                let stream = stream.map_err(io_error(format!("connect to redis at {at}")))?;
                let seed = scenario.seed() ^ (index as u64) << 48 ^ u64::from(from.0) << 24 ^ u64::from(client);
                let application = application.clone();
                all.idle.push(Client { index, stream, application, from: *from, seed });
            }
            all.records.push(Records::default());
            all.names.push(application.name.clone());
        }
        Ok(all)
    }

    /// The ports on which servers of this machine listen.
    pub fn taken(&self, machine: weir_units::MachineId) -> impl Iterator<Item = u16> {
        self.ports.iter().filter(move |(own, _)| *own == machine).map(|(_, port)| *port)
    }

    /// The traffic began at `origin`: clients send requests from then on, each at its times.
    pub fn begin(&mut self, origin: Instant) -> Result<(), RedisError> {
        for client in self.idle.drain(..) {
            let (records, stop) = (Arc::clone(&self.records[client.index]), Arc::clone(&self.stop));
            let thread = std::thread::Builder::new().name("redis client".to_owned());
            let work = move || client.send_requests(origin, &records, &stop).map_err(|error| error.to_string());
            self.running.push(thread.spawn(work).map_err(io_error("start a client of redis"))?);
        }
        Ok(())
    }

    /// Ends all clients and returns the requests until `now`; requests under way count as not
    /// finished.
    pub fn end(&mut self, scenario: LabScenario<'_>, now: Duration) -> Result<Results, RedisError> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.running.drain(..) {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ended.map_err(|error| RedisError::Client { name: self.names.join(", "), error })?;
        }
        let mut flows = Vec::new();
        for (group, records) in (0u32..).zip(&self.records) {
            let records = records.lock().unwrap_or_else(PoisonError::into_inner);
            flows.extend(records.iter().map(|record| FlowRecord { group, ..*record }));
        }
        flows.sort_by_key(|flow| flow.start);
        for (id, flow) in (0..).zip(&mut flows) {
            flow.id = id;
        }
        let group = |name: &String| Group { name: name.clone(), transport: "redis".to_owned(), flows_per_coflow: None };
        let machines = scenario.policy().network().machines();
        Ok(Results {
            scenario: scenario.name().to_owned(),
            seed: scenario.seed(),
            complete: true,
            simulated: SimTime::from(now),
            hosts: machines.iter().map(|machine| machine.name().to_owned()).collect(),
            groups: self.names.iter().map(group).collect(),
            flows,
            ..Results::default()
        })
    }
}

impl Drop for Applications {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.running.drain(..) {
            let _ = thread.join();
        }
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Client {
    /// Sends requests at exponential intervals until `stop` or the end of its time.
    fn send_requests(mut self, origin: Instant, records: &Records, stop: &AtomicBool) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_read_timeout(Some(LOOK))?;
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mean = self.application.gap.as_secs_f64();
        let mut gap = || -mean * (1.0 - rng.random::<f64>()).ln();
        let mut arrival = self.application.start.as_secs_f64() + gap();
        let end = self.application.stop.as_secs_f64();
        let expected = reply_length(self.application.value.get());
        while arrival < end {
            if !wait(origin, arrival, stop) {
                break;
            }
            self.stream.write_all(REQUEST)?;
            let finished = read(&mut self.stream, expected, stop)?.then(|| since(origin));
            let record = FlowRecord {
                bytes: self.application.value.get(),
                start: time(arrival),
                finished: finished.map(time),
                delivered: if finished.is_some() { self.application.value.get() } else { 0 },
                ..FlowRecord::new(0, self.application.to, self.from)
            };
            records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
            if finished.is_none() {
                break;
            }
            arrival += gap();
        }
        Ok(())
    }
}

/// Starts a server that keeps nothing on disk.
fn serve(network: &Network, own: &Application, at: SocketAddr, directory: &Path) -> Result<Child, RedisError> {
    let mut command = network.machine(own.to).command(SERVER)?;
    let (address, port) = (at.ip().to_string(), at.port().to_string());
    command.args(["--bind", &address, "--port", &port, "--save", "", "--appendonly", "no", "--protected-mode", "no"]);
    command.args(["--daemonize", "no"]).arg("--dir").arg(directory);
    tie(&mut command, NICE);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(io_error(format!("start {SERVER}")))
}

/// Waits until the server replies and sets its value, on its own machine.
#[expect(clippy::disallowed_methods, reason = "the lab runs in real time")]
fn set_value(network: &Network, own: &Application, at: SocketAddr) -> Result<(), RedisError> {
    let give = || -> io::Result<()> {
        let begun = Instant::now();
        let mut stream = loop {
            match TcpStream::connect_timeout(&at, PATIENCE) {
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(20)),
                Ok(stream) => break stream,
            }
        };
        let value = vec![b'v'; own.value.get() as usize];
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()).as_bytes())?;
        stream.write_all(&value)?;
        stream.write_all(b"\r\n")?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply)?;
        if &reply == b"+OK\r\n" { Ok(()) } else { Err(io::Error::other("redis refused the value")) }
    };
    network.machine(own.to).run(give)?.map_err(io_error(format!("set the value of redis at {at}")))
}

/// The bytes of a reply: `$10\r\n`, ten bytes, `\r\n`.
fn reply_length(value: u64) -> usize {
    format!("${value}\r\n").len() + value as usize + 2
}

/// Reads a whole reply; `false` if `stop` came first.
fn read(stream: &mut TcpStream, expected: usize, stop: &AtomicBool) -> io::Result<bool> {
    let mut buffer = [0; 65_536];
    let mut left = expected;
    while left > 0 {
        let most = left.min(buffer.len());
        match stream.read(&mut buffer[..most]) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "redis closed the connection")),
            Ok(_) if left == expected && buffer[0] != b'$' => {
                return Err(io::Error::other("redis replies with an error"));
            }
            Ok(read) => left -= read,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Waits until `at` seconds after the origin; `false` if `stop` came first.
#[expect(clippy::disallowed_methods, reason = "the lab runs in real time")]
fn wait(origin: Instant, at: f64, stop: &AtomicBool) -> bool {
    loop {
        let left = at - since(origin);
        if left <= 0.0 {
            return true;
        }
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_secs_f64(left).min(LOOK));
    }
}
