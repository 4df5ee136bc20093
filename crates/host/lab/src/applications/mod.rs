//! Real servers and their clients.
//!
//! Problem: measure a service, request by request and over time, beside other traffic. redis-benchmark and its like
//! report percentiles of a whole run, of clients that wait for each reply and so send less when replies are slow.
//! Approach: the servers are Debian's; the clients are the lab's own ([`values`]), or programs whose reports the lab
//! reads ([`ptp`]). Every measurement is recorded.
//!
//! The time of a request includes both directions of the network, both hosts' TCP, and the server's and the client's
//! turn on the processor. An idle run shows the part that is not the network's.

mod ptp;
mod values;

use crate::network::{Network, address, machine_name};
use crate::traffic::{TrafficError, free_port, is_classified};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use weir_datapath::{Classifier, ClassifierError};
use weir_linux::netns::NetnsError;
use weir_linux::requirements::Missing;
use weir_policy::{Policy, Protocol};
use weir_results::{FlowRecord, Group, Results};
use weir_scenario::{Application, LabScenario, Program, ValueServer, Values};
use weir_units::{Duration, MachineId, SimTime};

use ptp::Clocks;
use values::{Client, serve, set_value};

/// Clients and their server have a host of their own in reality, and must not wait for hundreds of
/// senders on two processors.
const NICE: i32 = -10;

/// Why the server or its clients cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ApplicationError {
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
    /// A clock found no master.
    #[error("the clock on {machine} of {name} reports no offset")]
    NoOffset {
        /// The application.
        name: String,
        /// The machine.
        machine: String,
    },
    /// PTP's ports are not the service's.
    #[error("{service} of {name} does not match PTP's ports; give it `match: [ {{ protocol: udp, port: 319-320 }} ]`")]
    NotPtp {
        /// The application.
        name: String,
        /// The service.
        service: String,
    },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> ApplicationError {
    let what = what.into();
    move |error| ApplicationError::Io { what, error }
}

/// The requirements for the scenario's servers that this host lacks.
pub fn missing(scenario: LabScenario<'_>) -> Vec<Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    let mut needed: Vec<(&str, &str)> = scenario
        .applications()
        .iter()
        .map(|own| match own.program {
            Program::Ptp => (ptp::PROGRAM, "a service of the scenario is PTP (apt-get install ptpd)"),
            Program::Values(Values { server: ValueServer::Redis, .. }) => {
                (values::program(ValueServer::Redis), "a service of the scenario is one (apt-get install redis-server)")
            }
            Program::Values(Values { server: ValueServer::Memcached, .. }) => (
                values::program(ValueServer::Memcached),
                "a service of the scenario is one (apt-get install memcached)",
            ),
        })
        .collect();
    needed.sort_unstable();
    needed.dedup();
    let missing = |(what, remedy)| Missing { what, found: "not found on the PATH".to_owned(), remedy };
    needed.into_iter().filter(|(program, _)| !is_there(program)).map(missing).collect()
}

/// The requests of all clients of an application.
type Records = Arc<Mutex<Vec<FlowRecord>>>;

/// A scenario's servers and clients; ended when dropped.
pub struct Applications {
    servers: Vec<Child>,
    /// With the index of their application.
    clocks: Vec<(usize, Clocks)>,
    /// Connected, until the traffic begins; with the index of their application.
    idle: Vec<(usize, Client)>,
    running: Vec<JoinHandle<Result<(), String>>>,
    records: Vec<Records>,
    names: Vec<String>,
    /// The ports on which the servers listen.
    ports: Vec<(MachineId, u16)>,
    stop: Arc<AtomicBool>,
}

/// The server's program.
pub(crate) fn program(own: &Application) -> &'static str {
    match own.program {
        Program::Values(values) => values::program(values.server),
        Program::Ptp => ptp::PROGRAM,
    }
}

/// A free port that makes the requests of all clients the service's: filters may select their addresses.
fn port(policy: &Policy, classifier: &Classifier, own: &Application, used: &[u16]) -> Result<u16, ApplicationError> {
    let mut ports =
        own.from.iter().map(|from| free_port(policy, classifier, own.service, false, (*from, own.to), used));
    let port = ports.next().expect("an application has a client")?;
    for other in ports {
        if other? != port {
            return Err(TrafficError::Ports {
                service: policy.services().get(own.service).path().to_owned(),
                machine: machine_name(policy, own.to).to_owned(),
                protocols: "tcp, the same from all clients",
            }
            .into());
        }
    }
    Ok(port)
}

impl Applications {
    /// Starts all servers, sets their values and connects all clients. Servers' files go into
    /// `directory`; `taken` returns the ports of a machine that are in use.
    pub fn prepare(
        network: &Network,
        scenario: LabScenario<'_>,
        taken: &dyn Fn(MachineId) -> Vec<u16>,
        directory: &Path,
    ) -> Result<Self, ApplicationError> {
        let policy = scenario.policy();
        let classifier = Classifier::of(policy, Some(crate::network::NIC))?;
        let mut all = Self {
            servers: Vec::new(),
            clocks: Vec::new(),
            idle: Vec::new(),
            running: Vec::new(),
            records: Vec::new(),
            names: Vec::new(),
            ports: Vec::new(),
            stop: Arc::new(AtomicBool::new(false)),
        };
        for (index, application) in scenario.applications().iter().enumerate() {
            match application.program {
                Program::Ptp => {
                    let is_own = |port, from: &MachineId| {
                        let ends = (*from, application.to);
                        is_classified(&classifier, application.service, ends, port, Protocol::UDP)
                    };
                    if !ptp::PORTS.iter().all(|port| application.from.iter().all(|from| is_own(*port, from))) {
                        let service = policy.services().get(application.service).path().to_owned();
                        return Err(ApplicationError::NotPtp { name: application.name.clone(), service });
                    }
                    all.clocks.push((index, Clocks::start(network, scenario, application, directory)?));
                }
                Program::Values(values) => {
                    let mut used = taken(application.to);
                    used.extend(all.taken(application.to));
                    let port = port(policy, &classifier, application, &used)?;
                    all.ports.push((application.to, port));
                    let at = SocketAddr::from((address(application.to), port));
                    all.servers.push(serve(network, application, values.server, at, directory)?);
                    set_value(network, application, values, at)?;
                    let clients =
                        application.from.iter().flat_map(|from| (0..values.connections).map(move |n| (n, from)));
                    for (client, from) in clients {
                        let seed = scenario.seed() ^ (index as u64) << 48 ^ u64::from(from.0) << 24 ^ u64::from(client);
                        all.idle.push((index, Client::connect(network, (application, values), *from, at, seed)?));
                    }
                }
            }
            all.records.push(Records::default());
            all.names.push(application.name.clone());
        }
        Ok(all)
    }

    /// The ports on which servers of this machine listen.
    pub fn taken(&self, machine: MachineId) -> impl Iterator<Item = u16> {
        self.ports.iter().filter(move |(own, _)| *own == machine).map(|(_, port)| *port)
    }

    /// The traffic began at `origin`: clients send requests from then on, each at its times.
    pub fn begin(&mut self, origin: Instant) -> Result<(), ApplicationError> {
        for (_, clocks) in &mut self.clocks {
            clocks.begin(origin);
        }
        for (index, client) in self.idle.drain(..) {
            let (records, stop) = (Arc::clone(&self.records[index]), Arc::clone(&self.stop));
            let thread = std::thread::Builder::new().name("client".to_owned());
            let work = move || client.send_requests(origin, &records, &stop).map_err(|error| error.to_string());
            self.running.push(thread.spawn(work).map_err(io_error("start a client"))?);
        }
        Ok(())
    }

    /// Ends all clients and returns the requests until `now`; requests under way count as not
    /// finished.
    pub fn end(&mut self, scenario: LabScenario<'_>, now: Duration) -> Result<Results, ApplicationError> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.running.drain(..) {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ended.map_err(|error| ApplicationError::Client { name: self.names.join(", "), error })?;
        }
        let mut flows = Vec::new();
        for (group, records) in (0u32..).zip(&self.records) {
            let records = records.lock().unwrap_or_else(PoisonError::into_inner);
            flows.extend(records.iter().map(|record| FlowRecord { group, ..*record }));
        }
        for (index, clocks) in &self.clocks {
            let group = *index as u32;
            flows.extend(clocks.records(now)?.into_iter().map(|record| FlowRecord { group, ..record }));
        }
        flows.sort_by_key(|flow| flow.start);
        for (id, flow) in (0..).zip(&mut flows) {
            flow.id = id;
        }
        let group = |own: &Application| Group { name: own.name.clone(), transport: program(own).to_owned() };
        let machines = scenario.policy().network().machines();
        Ok(Results {
            scenario: scenario.name().to_owned(),
            seed: scenario.seed(),
            complete: true,
            simulated: SimTime::from(now),
            hosts: machines.iter().map(|machine| machine.name().to_owned()).collect(),
            groups: scenario.applications().iter().map(group).collect(),
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
