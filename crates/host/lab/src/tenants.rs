//! The controller of tenants' queues in the lab: a fabric broker, and a subscriber on every switch.
//!
//! Machines and switches reach it over a network of management, which carries none of the scenario's traffic. All are
//! the real programs, with certificates of a CA made for this run and the places of the scenario's tenants.
//!
//! Worked example: rack `left` with machines `a1` and `a2`: `weir switch bind POLICY --switch left --port
//! uplink=spine0 --port m0=a1 --port m1=a2 --fabric https://10.78.0.1:30567 …`.

use crate::agents::{AgentsError, io_error, log_end};
use crate::janitor::tie;
use crate::network::{CONTROLLER, Network, UPLINK, machine_name};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weir_fabric::ca::{Ca, Holder};
use weir_fabric::{DEFAULT_PORT, IdentityFiles};
use weir_linux::netns::Netns;
use weir_policy::Policy;
use weir_scenario::{LabScenario, Tenancy};
use weir_units::MachineId;

/// The name of the spine in the policy's network of racks.
pub(crate) const SPINE: &str = "spine0";

/// The controller and its subscribers; ended when dropped.
pub struct TenantControl {
    processes: Vec<Process>,
    /// By switch, its ports.
    ports: Vec<(String, Vec<String>)>,
    ca: Ca,
    status: PathBuf,
    /// Machines and switches that shall subscribe.
    subscribers: u64,
}

/// Numbers of a controller's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    subscriptions: u64,
    resets: u64,
}

impl Events {
    fn of(status: &Value) -> Self {
        let of = |key: &str| status[key].as_u64().unwrap_or(0);
        Self { subscriptions: of("subscriptions"), resets: of("switch_resets") }
    }
}

struct Process {
    name: String,
    command: Command,
    /// Absent after a fault.
    child: Option<Child>,
    log: PathBuf,
}

/// The name of the fabric broker's process.
const FABRIC: &str = "fabric";

impl TenantControl {
    /// Starts the controller and the switches' subscribers, if the scenario has tenants in queues.
    pub fn start(
        weir: &Path,
        network: &Network,
        scenario: LabScenario<'_>,
        directory: &Path,
    ) -> Result<Option<Self>, AgentsError> {
        let (Some(tenancy), Some(management)) = (&scenario.governed().tenants, network.management()) else {
            return Ok(None);
        };
        let policy = scenario.policy();
        let ca = certificates(policy, &directory.join("pki"))?;
        let placement = directory.join("placement.json");
        let places = places(policy, tenancy).to_string();
        fs::write(&placement, places).map_err(io_error(format!("write {}", placement.display())))?;
        let status = directory.join("fabric.json");
        let machines = policy.network().machines().len() as u64;
        let (processes, ports) = (Vec::new(), Vec::new());
        let mut control = Self { processes, ports, ca, status: status.clone(), subscribers: machines };
        let mut command = management.command(weir)?;
        command.arg("fabric").arg(scenario.policy_path()).args(["--listen", &format!("{CONTROLLER}:{DEFAULT_PORT}")]);
        command.arg("--placement").arg(&placement).arg("--status").arg(&status);
        command.arg("--state").arg(directory.join("state-of-fabric"));
        arguments(&mut command, &control.ca.files(&holder_of_broker()));
        control.spawn(FABRIC, command, directory)?;
        for (switch, name, ports) in switches(network, policy) {
            let mut command = switch.command(weir)?;
            command.args(["switch", "bind"]).arg(scenario.policy_path()).args(["--switch", &name, "--fabric", &url()]);
            ports.iter().for_each(|(interface, port)| {
                command.args(["--port", &format!("{interface}={port}")]);
            });
            arguments(&mut command, &control.ca.files(&Holder::Machine(name.clone())));
            control.spawn(&format!("switch-{name}"), command, directory)?;
            control.subscribers += 1;
            control.ports.push((name, ports.into_iter().map(|(interface, _)| interface).collect()));
        }
        Ok(Some(control))
    }

    /// Adds the options by which the agent of a machine subscribes to the controller.
    pub fn subscribe(&self, command: &mut Command, machine: &str) {
        command.args(["--fabric", &url()]);
        arguments(command, &self.ca.files(&Holder::Machine(machine.to_owned())));
    }

    /// Whether all machines and switches have subscribed; an error if a process ended.
    pub fn is_ready(&mut self) -> Result<bool, AgentsError> {
        Ok(self.status()?["subscribers"].as_u64() == Some(self.subscribers))
    }

    /// Whether, besides, all have confirmed their settings, after a subscription or a loss of queues that `before` does
    /// not contain.
    pub fn is_settled(&mut self, before: Events) -> Result<bool, AgentsError> {
        let status = self.status()?;
        let all = status["subscribers"].as_u64() == Some(self.subscribers);
        Ok(all && status["unconfirmed"].as_u64() == Some(0) && Events::of(&status) != before)
    }

    /// The subscriptions and losses of queues up to now.
    pub fn events(&mut self) -> Result<Events, AgentsError> {
        Ok(Events::of(&self.status()?))
    }

    /// The status of tenants' queues now, for the report.
    pub fn report(&mut self) -> Value {
        self.status().unwrap_or(Value::Null)
    }

    /// Kills the fabric broker, or the subscriber of a switch; returns whether there was one.
    pub fn kill(&mut self, switch: Option<&str>) -> bool {
        let name = name_of(switch);
        let own = self.processes.iter_mut().find(|process| process.name == name);
        let Some(mut child) = own.and_then(|process| process.child.take()) else { return false };
        let _ = child.kill();
        let _ = child.wait();
        if switch.is_none() {
            // It cannot remove its status any more, which would be taken for its successor's.
            let _ = fs::remove_file(&self.status);
        }
        true
    }

    /// Starts it again.
    pub fn restart(&mut self, switch: Option<&str>) -> Result<(), AgentsError> {
        let name = name_of(switch);
        for process in self.processes.iter_mut().filter(|process| process.name == name && process.child.is_none()) {
            process.child = Some(process.command.spawn().map_err(io_error(format!("start {name}")))?);
        }
        Ok(())
    }

    /// Removes the queues of all ports of a switch; returns whether the lab has it.
    pub fn reset(&self, network: &Network, policy: &Policy, switch: &str) -> Result<bool, AgentsError> {
        let found = switches(network, policy).into_iter().find(|(_, name, _)| name == switch);
        let Some((netns, name, _)) = found else { return Ok(false) };
        let ports = self.ports.iter().filter(|(known, _)| *known == name).flat_map(|(_, ports)| ports);
        for port in ports {
            let mut command = netns.command(Path::new("tc"))?;
            command.args(["qdisc", "del", "dev", port, "root"]).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().map_err(io_error("run tc"))?;
        }
        Ok(true)
    }

    /// The control intervals that have ended: traffic begins with one, as in the simulator.
    pub fn intervals(&mut self) -> Result<u64, AgentsError> {
        Ok(self.status()?["intervals"].as_u64().unwrap_or(0))
    }

    /// The state of tenants' queues as the controller last wrote it.
    fn status(&mut self) -> Result<Value, AgentsError> {
        self.check()?;
        let status: Option<Value> = fs::read(&self.status).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Ok(status.map_or(Value::Null, |status| status["tenant_queues"].clone()))
    }

    /// Whether all processes still run.
    pub fn check(&mut self) -> Result<(), AgentsError> {
        for Process { name, child, log, .. } in &mut self.processes {
            let Some(child) = child else { continue };
            if child.try_wait().map_err(io_error("wait for a process"))?.is_some() {
                return Err(AgentsError::Ended { machine: name.clone(), log: log_end(log) });
            }
        }
        Ok(())
    }

    fn spawn(&mut self, name: &str, mut command: Command, directory: &Path) -> Result<(), AgentsError> {
        let log = directory.join(format!("{name}.log"));
        let output = File::create(&log).map_err(io_error(format!("create {}", log.display())))?;
        let errors = output.try_clone().map_err(io_error("share a log file"))?;
        tie(&mut command, -10);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().map_err(io_error(format!("start {name}")))?;
        self.processes.push(Process { name: name.to_owned(), command, child: Some(child), log });
        Ok(())
    }
}

impl Drop for TenantControl {
    fn drop(&mut self) {
        for child in self.processes.iter().filter_map(|process| process.child.as_ref()) {
            // SAFETY: plain system call on a child that has not been waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        }
        for child in self.processes.iter_mut().filter_map(|process| process.child.as_mut()) {
            let _ = child.wait();
        }
    }
}

fn name_of(switch: Option<&str>) -> String {
    switch.map_or(FABRIC.to_owned(), |switch| format!("switch-{switch}"))
}

fn url() -> String {
    format!("https://{CONTROLLER}:{DEFAULT_PORT}")
}

fn holder_of_broker() -> Holder {
    Holder::Fabric(vec![CONTROLLER.to_string()])
}

fn arguments(command: &mut Command, files: &IdentityFiles) {
    command.arg("--certificate").arg(&files.certificate).arg("--private-key").arg(&files.private_key);
    command.arg("--ca").arg(&files.ca);
}

/// A switch: its namespace, its name in the policy's network, and its ports by interface.
pub(crate) type Switch<'a> = (&'a Netns, String, Vec<(String, String)>);

/// The switches of the lab: their names in the policy's network, and the ports by interface.
pub(crate) fn switches<'a>(network: &'a Network, policy: &Policy) -> Vec<Switch<'a>> {
    let mut all = Vec::new();
    for (rack, id) in policy.network().racks().iter().zip(0..) {
        let machines = rack.machines().iter();
        let machines = machines.map(|machine| (format!("m{}", machine.0), machine_name(policy, *machine).to_owned()));
        let ports = std::iter::once((UPLINK.to_owned(), SPINE.to_owned())).chain(machines).collect();
        all.push((network.rack(weir_units::RackId(id)), rack.name().to_owned(), ports));
    }
    if let Some(spine) = network.spine() {
        let racks = policy.network().racks().iter().zip(0..);
        let ports = racks.map(|(rack, id): (_, u32)| (format!("r{id}"), rack.name().to_owned())).collect();
        all.push((spine, SPINE.to_owned(), ports));
    }
    all
}

/// A CA with certificates for the broker, all machines and all switches. They are valid for the run.
fn certificates(policy: &Policy, directory: &Path) -> Result<Ca, AgentsError> {
    const DAYS: u64 = 2;
    let failed = |error: &dyn std::fmt::Display| AgentsError::Certificates(error.to_string());
    let (ca, _) = Ca::open(directory).map_err(|error| failed(&error))?;
    let racks = policy.network().racks().iter().map(|rack| rack.name());
    let machines = policy.network().machines().iter().map(|machine| machine.name());
    let names = racks.chain(machines).chain([SPINE]).map(|name| Holder::Machine(name.to_owned()));
    for holder in names.chain([holder_of_broker()]) {
        ca.issue(&holder, DAYS).map_err(|error| failed(&error))?;
    }
    Ok(ca)
}

/// The scenario's places as a file of `weir place`.
fn places(policy: &Policy, tenancy: &Tenancy) -> Value {
    let graph = policy.graph();
    let tenants = policy.tenants().iter().zip(&tenancy.placed).map(|(tenant, placed)| {
        let mut numbers = vec![0; tenant.groups.len()];
        let mut vms = Vec::new();
        for part in &placed.fit.parts {
            let MachineId(id) = part.machine;
            for (group, count) in part.vms.iter().enumerate() {
                for _ in 0..*count {
                    let vm = tenant.vm_name(group, numbers[group]);
                    vms.push(json!({ "vm": vm, "machine": graph.hosts[id as usize].name }));
                    numbers[group] += 1;
                }
            }
        }
        json!({ "tenant": tenant.name, "tree": placed.fit.root.name(&graph), "vms": vms })
    });
    json!({ "placement": 1, "tenants": tenants.collect::<Value>() })
}
