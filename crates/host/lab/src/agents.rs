//! One agent per machine.
//!
//! The agents are the real ones, started from the program that runs the lab, each in its machine's
//! namespace with the scenario's policy, a key made for this run, and a status file. The lab starts
//! traffic when every agent has received reports of all others of its rack. Under `enforcement:
//! shaper` they exchange no reports: each is configured with an unused port of the others, and
//! falls back to the static policy of its machine.

use crate::forwarders;
use crate::janitor::tie;
use crate::network::{NIC, Network, address, machine_name};
use crate::tenants::TenantControl;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weir_agent::{DEFAULT_PORT, key_file};
use weir_linux::netns::NetnsError;
use weir_scenario::{Enforcement, LabScenario};
use weir_units::MachineId;

/// The discard service's port, on which no machine of the lab listens.
const UNUSED_PORT: u16 = 9;

/// Why agents did not come up.
#[derive(Debug, thiserror::Error)]
pub enum AgentsError {
    /// A file or a process.
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
    /// The key for this run.
    #[error(transparent)]
    Key(#[from] key_file::KeyFileError),
    /// The certificates for this run.
    #[error("{0}")]
    Certificates(String),
    /// An agent ended by itself.
    #[error("the agent of {machine} ended: {log}")]
    Ended {
        /// The machine.
        machine: String,
        /// The end of its output.
        log: String,
    },
    /// A forwarder ended by itself.
    #[error("the forwarder of {switch} ended: {log}")]
    Forwarder {
        /// The switch.
        switch: String,
        /// The end of its output.
        log: String,
    },
    /// They do not receive each other's reports.
    #[error("the agent of {machine} received reports of {received} of {peers} others in time")]
    NotReceived {
        /// The machine.
        machine: String,
        /// The number of agents whose reports it received.
        received: u64,
        /// The number of others.
        peers: u64,
    },
}

pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> AgentsError {
    let what = what.into();
    move |error| AgentsError::Io { what, error }
}

/// The end of a process's output.
pub(crate) fn log_end(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

/// Running agents; ended in order when dropped.
pub struct Agents {
    agents: Vec<Agent>,
    key: PathBuf,
}

struct Agent {
    machine: String,
    command: Command,
    /// Absent after a fault.
    child: Option<Child>,
    peers: u64,
    log: PathBuf,
    status: PathBuf,
}

impl Agents {
    /// Starts an agent on every machine that has one. Their files go into `directory`.
    pub fn start(
        weir: &Path,
        network: &Network,
        scenario: LabScenario<'_>,
        directory: &Path,
        tenants: Option<&TenantControl>,
    ) -> Result<Self, AgentsError> {
        let policy = scenario.policy();
        let brokers = scenario.enforcement() == Enforcement::Parley;
        let key = directory.join("key");
        key_file::create(&key)?;
        let mut agents = Self { agents: Vec::new(), key: key.clone() };
        for rack in policy.network().racks() {
            for machine in rack.machines().iter().filter(|machine| scenario.has_agent(**machine)) {
                let name = machine_name(policy, *machine);
                let log = directory.join(format!("agent-{name}.log"));
                let status = directory.join(format!("agent-{name}.json"));
                let output = File::create(&log).map_err(io_error(format!("create {}", log.display())))?;
                let errors = output.try_clone().map_err(io_error("share a log file"))?;
                let mut command = network.machine(*machine).command(weir)?;
                command.arg("agent").arg(scenario.policy_path()).args(["--machine", name, "--interface", NIC]);
                command.args(["--listen", &listen(*machine).to_string()]).arg("--key").arg(&key);
                command.arg("--state").arg(directory.join("state")).arg("--status").arg(&status);
                let peers = rack.machines().iter().filter(|peer| *peer != machine);
                for peer in peers.clone() {
                    let at = SocketAddr::from((address(*peer), if brokers { DEFAULT_PORT } else { UNUSED_PORT }));
                    command.args(["--peer", &format!("{}={at}", machine_name(policy, *peer))]);
                }
                tenants.into_iter().for_each(|control| control.subscribe(&mut command, name));
                if forwarders::have_credits(scenario) {
                    command.args(["--credit-period", &forwarders::shortest_period()]);
                }
                // On a real host an agent does not share two processors with two hundred senders.
                tie(&mut command, -10);
                command.stdin(Stdio::null()).stdout(output).stderr(errors);
                let child = command.spawn().map_err(io_error(format!("start the agent of {name}")))?;
                let peers = peers.filter(|peer| brokers && scenario.has_agent(**peer)).count() as u64;
                let (machine, child) = (name.to_owned(), Some(child));
                agents.agents.push(Agent { machine, command, child, peers, log, status });
            }
        }
        Ok(agents)
    }

    /// The file of their key.
    pub fn key(&self) -> &Path {
        &self.key
    }

    /// The number of agents that have reports of all others of their rack now; an error if one
    /// ended.
    pub fn ready(&mut self) -> Result<usize, AgentsError> {
        let mut ready = 0;
        for agent in &mut self.agents {
            agent.check()?;
            ready += usize::from(agent.received() == Some(agent.peers));
        }
        Ok(ready)
    }

    /// The backends as the agents report them: `htb, attached by tcx`; each text once.
    pub fn backends(&self) -> String {
        let backends = self.agents.iter().filter_map(|agent| {
            let status = agent.status()?;
            Some(format!("{}, attached by {}", status["backend"].as_str()?, status["attachment"].as_str()?))
        });
        backends.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("; ")
    }

    /// The last status of each, by machine.
    pub fn statuses(&self) -> Vec<(String, Value)> {
        self.agents.iter().filter_map(|agent| Some((agent.machine.clone(), agent.status()?))).collect()
    }

    /// Kills the agent of a machine; returns whether there was one.
    pub fn kill(&mut self, machine: &str) -> bool {
        let own = self.agents.iter_mut().find(|agent| agent.machine == machine);
        let Some(mut child) = own.and_then(|agent| agent.child.take()) else { return false };
        let _ = child.kill();
        let _ = child.wait();
        true
    }

    /// Starts the agent of a machine again.
    pub fn restart(&mut self, machine: &str) -> Result<(), AgentsError> {
        for agent in self.agents.iter_mut().filter(|agent| agent.machine == machine && agent.child.is_none()) {
            agent.child = Some(agent.command.spawn().map_err(io_error(format!("start the agent of {machine}")))?);
        }
        Ok(())
    }

    /// The number of agents.
    pub fn count(&self) -> usize {
        self.agents.len()
    }

    /// The error for those that are not ready.
    pub fn not_ready(&self) -> Option<AgentsError> {
        let agent = self.agents.iter().find(|agent| agent.received() != Some(agent.peers))?;
        let received = agent.received().unwrap_or(0);
        Some(AgentsError::NotReceived { machine: agent.machine.clone(), received, peers: agent.peers })
    }

    /// Whether all still run.
    pub fn check(&mut self) -> Result<(), AgentsError> {
        self.agents.iter_mut().try_for_each(Agent::check)
    }
}

impl Agent {
    fn status(&self) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(&self.status).ok()?).ok()
    }

    fn received(&self) -> Option<u64> {
        self.status()?["peers_alive"].as_u64()
    }

    fn check(&mut self) -> Result<(), AgentsError> {
        let Some(child) = &mut self.child else { return Ok(()) };
        if child.try_wait().map_err(io_error("wait for an agent"))?.is_none() {
            return Ok(());
        }
        Err(AgentsError::Ended { machine: self.machine.clone(), log: log_end(&self.log) })
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for child in self.agents.iter().filter_map(|agent| agent.child.as_ref()) {
            // SAFETY: plain system call on a child that has not been waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        }
        for child in self.agents.iter_mut().filter_map(|agent| agent.child.as_mut()) {
            let _ = child.wait();
        }
    }
}

fn listen(machine: MachineId) -> SocketAddr {
    SocketAddr::from((address(machine), DEFAULT_PORT))
}
