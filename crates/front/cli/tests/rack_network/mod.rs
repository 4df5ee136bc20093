//! A rack of machines with an agent each, and a host outside the policy to which they send:
//!
//! ```text
//! m1: eth0 == p1 ┐
//! m2: eth0 == p2 ┤ sw: br0 ┤ p250 == eth0 :out, with a meter
//! ...            ┘
//! ```
//!
//! Interfaces and uplink have 1 Gb/s by the policy; the cables are faster, so nothing but the agents
//! limits what arrives.
#![expect(clippy::disallowed_methods, reason = "tests of real processes measure and wait in real time")]

use crate::agent_pair::Flow;
use crate::common::{WEIR, signal, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_datapath::Classifier;
use weir_linux::interface::Interface;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::settings::Classes;
use weir_policy::Policy;

/// The first port of the service; machine n sends to the n-th.
const FIRST_PORT: u16 = 7001;
/// The most machines of a rack.
const MOST_MACHINES: usize = 40;
const OUT: &str = "10.96.0.250";

/// The policy of a rack whose one service, `bulk`, has a maximum in the rack.
fn policy(machines: usize, max: &str) -> String {
    let addresses: String = (1..=machines).map(|n| format!("    m{n}: {{ address: {} }}\n", address(n - 1))).collect();
    let ports = format!("port: {FIRST_PORT}-{}", FIRST_PORT + MOST_MACHINES as u16 - 1);
    format!(
        "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks: {{ r1: {{ uplink: 1Gb/s, machines: [\"m[1-{machines}]\"] }} }}\n  \
         machines:\n{addresses}services:\n  bulk:\n    match: [ {{ protocol: tcp, {ports} }}, {{ protocol: udp, \
         {ports} }} ]\n    rack: {{ max: {max} }}\n"
    )
}

fn address(machine: usize) -> String {
    format!("10.96.0.{}", machine + 1)
}

/// Gives every host the hardware address of every other. The kernel keeps about a thousand resolved
/// ones for all namespaces together, and forty machines need more; permanent ones do not count.
fn set_neighbours(machines: &[Netns], out: &Netns) {
    let machine = |m| (address(m), format!("02:00:00:00:00:{:02x}", m + 1));
    let mut all: Vec<(String, String)> = (0..machines.len()).map(machine).collect();
    all.push((OUT.to_owned(), "02:00:00:00:00:fa".to_owned()));
    for (host, (own, hardware)) in machines.iter().chain([out]).zip(&all) {
        let others = all
            .iter()
            .filter(|(address, _)| address != own)
            .map(|(address, hardware)| format!("neigh replace {address} lladdr {hardware} nud permanent dev eth0\n"));
        let lines: String = others.collect();
        host.ip_batch(&format!("link set dev eth0 address {hardware}\n{lines}")).expect("set");
    }
}

/// The rack, the host outside and their files.
pub(crate) struct Rack {
    pub(crate) machines: Vec<Netns>,
    out: Netns,
    _switch: Netns,
    directory: tempfile::TempDir,
    pub(crate) meter: Meter,
    /// By machine: its agent, while it runs.
    agents: Vec<Option<Child>>,
    offloads: bool,
}

impl Rack {
    /// Machines without agents.
    pub(crate) fn new(prefix: &str, machines: usize, max: &str) -> Self {
        assert!(machines <= MOST_MACHINES);
        let prefix = Prefix::new(prefix).expect("a prefix");
        prefix.cleanup().expect("leftovers of an earlier run go");
        let switch = prefix.create("sw").expect("made");
        let ip = |arguments: &[&str]| drop(switch.ip(arguments.iter().copied()).expect("ip"));
        ip(&["link", "add", "br0", "type", "bridge"]);
        ip(&["link", "set", "br0", "up"]);
        let host = |name: &str, address: &str, port: &str| {
            let host = prefix.create(name).expect("made");
            connect((&host, "eth0", Some(&format!("{address}/24"))), (&switch, port, None)).expect("connected");
            ip(&["link", "set", port, "master", "br0"]);
            host
        };
        let out = host("out", OUT, "p250");
        let hosts: Vec<Netns> =
            (1..=machines).map(|n| host(&format!("m{n}"), &address(n - 1), &format!("p{n}"))).collect();
        set_neighbours(&hosts, &out);
        let directory = tempfile::tempdir().expect("a directory");
        let meter = Meter::start(&out, &Policy::parse("p.yaml", &policy(machines, max)).expect("a policy").0);
        let agents = (0..machines).map(|_| None).collect();
        let rack = Self { machines: hosts, out, _switch: switch, directory, meter, agents, offloads: true };
        let mut key = weir(&["key"]);
        assert!(key.arg(rack.at("key")).stderr(Stdio::null()).status().expect("runs").success());
        rack.write(max);
        rack
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, max: &str) {
        fs::write(self.at("policy.yaml"), policy(self.machines.len(), max)).expect("written");
    }

    /// Whether the machines' interfaces segment what new connections send, or the connections do.
    pub(crate) fn set_offloads(&mut self, on: bool) {
        let set = || Interface::named("eth0").expect("the interface").set_offloads(on).expect("set");
        self.machines.iter().for_each(|machine| machine.run(set).expect("inside"));
        self.offloads = on;
    }

    pub(crate) fn has_offloads(&self) -> bool {
        self.offloads
    }

    /// Starts a machine's agent.
    pub(crate) fn start(&mut self, machine: usize) {
        let name = format!("m{}", machine + 1);
        let _ = fs::remove_file(self.at(&format!("{name}.json")));
        let mut command = self.machines[machine].command(WEIR).expect("a command");
        command.arg("agent").arg(self.at("policy.yaml")).args(["--machine", &name, "--interface", "eth0"]);
        command.arg("--key").arg(self.at("key")).arg("--state").arg(self.at(&format!("state-{name}")));
        command.arg("--status").arg(self.at(&format!("{name}.json"))).env("NO_COLOR", "1");
        let log = fs::File::create(self.at(&format!("{name}.log"))).expect("a log");
        self.agents[machine] = Some(command.stdout(Stdio::null()).stderr(log).spawn().expect("starts"));
    }

    /// Kills a machine's agent, which can do nothing about it.
    pub(crate) fn kill(&mut self, machine: usize) {
        let mut agent = self.agents[machine].take().expect("it runs");
        signal(&agent, libc::SIGKILL);
        agent.wait().expect("ends");
    }

    /// Removes all that a killed agent left in the kernel, as a reboot does.
    pub(crate) fn forget(&self, machine: usize) {
        let mut remove: Command = self.machines[machine].command(WEIR).expect("a command");
        remove.args(["agent", "--remove", "--interface", "eth0"]).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(remove.status().expect("runs").success());
    }

    pub(crate) fn status(&self, machine: usize) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(self.at(&format!("m{}.json", machine + 1))).ok()?).ok()
    }

    /// Waits for the first status of these agents: from it on they enforce the policy.
    pub(crate) fn wait_for_start(&self, machines: &[usize]) {
        // The kernel verifies an agent's programs: a second of a processor each. Beside other programs one took 23 s.
        let patience = 60 + 4 * machines.len() as u64;
        wait_for("the agents to start", patience, || machines.iter().all(|m| self.status(*m).is_some()));
    }

    /// Waits until every agent has the reports of all others.
    pub(crate) fn wait_for_reports(&self) {
        let peers = self.machines.len() as u64 - 1;
        let has_all = |machine| {
            self.status(machine).is_some_and(|status| {
                status["peers_alive"].as_u64() == Some(peers) && (peers == 0 || status["mode"] == "runtime")
            })
        };
        wait_for("the agents' reports", 60, || (0..self.machines.len()).all(has_all));
    }

    /// Gives all agents the policy with another maximum.
    pub(crate) fn set_maximum(&self, max: &str) {
        self.write(max);
        let policy = |machine| self.status(machine).map(|status| status["policy"].clone());
        let before = policy(0);
        self.agents.iter().flatten().for_each(|agent| signal(agent, libc::SIGHUP));
        let is_taken = || (0..self.machines.len()).all(|machine| policy(machine) != before);
        wait_for("the policy", 60, is_taken);
        self.wait_for_reports();
    }

    fn ends(&self, machine: usize) -> ((&Netns, String), (&Netns, &str), u16) {
        ((&self.machines[machine], address(machine)), (&self.out, OUT), FIRST_PORT + machine as u16)
    }

    /// One connection of TCP that always has more to send.
    pub(crate) fn connection(&self, machine: usize) -> Flow {
        let ((from, own), to, port) = self.ends(machine);
        Flow::tcp_between((from, &own), to, port)
    }

    /// UDP at so many Mb/s.
    pub(crate) fn datagrams(&self, machine: usize, mbps: u64) -> Flow {
        let ((from, own), to, port) = self.ends(machine);
        Flow::at_rate((from, &own), to, port, mbps)
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        for agent in self.agents.iter_mut().flatten() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        if !std::thread::panicking() {
            return;
        }
        for machine in 0..self.machines.len() {
            let log = fs::read_to_string(self.at(&format!("m{}.log", machine + 1))).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("-- m{}: {}", machine + 1, lines[lines.len().saturating_sub(3)..].join("\n   "));
        }
    }
}

/// What has arrived at the host outside, as limits count it, ten times a second.
pub(crate) struct Meter {
    totals: Arc<Mutex<Vec<(Instant, u64)>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The time between two readings.
const READING: Duration = Duration::from_millis(100);

impl Meter {
    fn start(out: &Netns, policy: &Policy) -> Self {
        let datapath = out.run(|| {
            let interface = Interface::named("eth0").expect("the interface");
            InterfaceDatapath::attach_without_edt(&interface, None).expect("attached")
        });
        let mut datapath = datapath.expect("inside");
        let services = policy.services();
        let classifier = Classifier::of(policy, Some("eth0")).expect("filters");
        datapath.set_slots(services.leaves().map(|(id, service)| (id, service.path()))).expect("slots");
        datapath.set_rules(&classifier, Classes::None).expect("rules");
        let service = services.leaves().next().expect("a service").0;
        let (totals, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (readings, ends) = (Arc::clone(&totals), Arc::clone(&stop));
        let (started, first) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut due = Instant::now();
            while !ends.load(Ordering::Relaxed) {
                let bytes = datapath.totals(Some(service)).expect("read").rx.bytes().get();
                readings.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), bytes));
                let _ = started.send(());
                due = (due + READING).max(Instant::now());
                std::thread::sleep(due - Instant::now());
            }
        });
        first.recv().expect("a reading");
        Self { totals, stop, thread: Some(thread) }
    }

    /// Readings since an instant, the last one before it included.
    fn since(&self, start: Instant) -> Vec<(Instant, u64)> {
        let totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let first = totals.iter().rposition(|(at, _)| *at <= start).unwrap_or(0);
        totals[first..].to_vec()
    }

    /// Mb/s from an instant until now.
    pub(crate) fn mean(&self, start: Instant) -> f64 {
        let readings = self.since(start);
        let (first, last) = (readings[0], readings[readings.len() - 1]);
        (last.1 - first.1) as f64 * 8e-6 / (last.0 - first.0).as_secs_f64()
    }

    /// Mb/s in every second since an instant: a second begins with each reading.
    pub(crate) fn seconds(&self, start: Instant) -> Vec<f64> {
        let readings = self.since(start);
        let rate = |(n, (at, bytes)): (usize, &(Instant, u64))| {
            let (end, sum) = readings[n..].iter().find(|(end, _)| *end >= *at + Duration::from_secs(1))?;
            Some((sum - bytes) as f64 * 8e-6 / (*end - *at).as_secs_f64())
        };
        readings.iter().enumerate().map_while(rate).collect()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
