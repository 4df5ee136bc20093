//! Tenants' queues with several `weir fabric` and a real etcd: a successor continues with the queues, and with the
//! moves, of a leader that is killed.

#![expect(clippy::disallowed_methods, reason = "a test of real processes measures real time")]

mod common;
mod etcd_server;
mod fabric_setup;
#[path = "../../../serve/fabric/tests/support/two_tenants.rs"]
mod two_tenants;

use common::wait_for;
use etcd_server::{ETCD_LOOKS, Etcd, LEASE, SLACK, free_port};
use fabric_setup::{Daemon, Setup};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};
use two_tenants::{SUBSCRIBERS, placement};
use weir_fabric::binding::{FromController, Subscriber, SubscriberConfig, SubscriberState, ToController};
use weir_fabric::binding_proto::{PortSettings, Reading, TenantSettings, TenantUsage, Usage, Version};
use weir_fabric::ca::{Ca, Holder};
use weir_fabric::{BrokerUrl, IdentityFiles};
use weir_policy::Policy;

/// Each port has one queue for a single tenant.
fn policy() -> String {
    two_tenants::policy(2, "")
}

const BLUE: usize = 0;
const RED: usize = 1;

/// The settings of a machine or of a switch.
#[derive(Debug, Clone, PartialEq)]
enum Settings {
    Machine(Vec<TenantSettings>),
    Switch(Vec<PortSettings>),
}

/// Machines and switches that apply everything at once.
struct Network {
    runtime: tokio::runtime::Runtime,
    subscribers: Vec<(&'static str, Subscriber)>,
    /// By name, the last settings and their version.
    last: BTreeMap<&'static str, (Version, Settings)>,
    /// Everything received since it was cleared.
    received: Vec<(&'static str, Version, Settings)>,
    /// Confirms nothing.
    silent: Option<&'static str>,
    /// The tenant that uses its guarantee.
    busy: usize,
}

impl Network {
    fn new(setup: &Setup, urls: &[String]) -> Self {
        let policy = Policy::parse("policy.yaml", &policy()).unwrap_or_else(|errors| panic!("{errors}")).0;
        let (ca, _) = Ca::open(&setup.at("pki")).expect("the one that is there");
        let brokers: Vec<BrokerUrl> = urls.iter().map(|url| url.parse().expect("an address")).collect();
        let one = |(name, is_switch): (&'static str, bool)| {
            if is_switch {
                ca.issue(&Holder::Machine(name.to_owned()), 2).expect("made");
            }
            let identity = setup.identity(&format!("machine-{name}"));
            let (brokers, sockets) = (brokers.clone(), None);
            let config = SubscriberConfig { name: name.to_owned(), is_switch, brokers, identity, sockets };
            let state = SubscriberState { policy: policy.digest(), fresh: false };
            (name, Subscriber::start(config, state).expect("a subscriber"))
        };
        Self {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"),
            subscribers: SUBSCRIBERS.map(one).into(),
            last: BTreeMap::new(),
            received: Vec::new(),
            silent: None,
            busy: RED,
        }
    }

    fn turn(&mut self) {
        for (name, subscriber) in &mut self.subscribers {
            let next = async { tokio::time::timeout(Duration::from_millis(2), subscriber.message()).await };
            let Ok(message) = self.runtime.block_on(next) else { continue };
            let (version, settings) = match message {
                FromController::Machine(own) => (own.version, Settings::Machine(own.tenants)),
                FromController::Switch(own) => (own.version, Settings::Switch(own.ports)),
                FromController::Read(queue) => {
                    let reading = Reading { queue: Some(queue), sent: 1_000, backlog: 0 };
                    subscriber.send(ToController::Reading(reading));
                    continue;
                }
                FromController::Up { .. } => continue,
            };
            let version = version.expect("a version");
            if self.silent != Some(*name) {
                subscriber.send(ToController::Applied(version));
            }
            self.received.push((*name, version, settings.clone()));
            self.last.insert(*name, (version, settings));
        }
        for (_, subscriber) in self.subscribers.iter().take(2) {
            let bps = if self.busy == RED { 300_000_000 } else { 100_000_000 };
            let used = TenantUsage { tenant: self.busy as u32, tx_bps: bps, rx_bps: 0 };
            subscriber.send(ToController::Usage(Usage { tenants: vec![used] }));
        }
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Duration {
        let begun = Instant::now();
        while !done(self) {
            assert!(begun.elapsed() < Duration::from_secs(30), "waited 30 s for {what}: {:#?}", self.last);
            self.turn();
        }
        begun.elapsed()
    }

    fn for_a_while(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.turn();
        }
    }

    fn tenant(&self, machine: &str, tenant: usize) -> Option<&TenantSettings> {
        match self.last.get(machine) {
            Some((_, Settings::Machine(tenants))) => tenants.get(tenant),
            _ => None,
        }
    }

    /// Whether a tenant has a queue of its own, and is not limited any more.
    fn has_queue(&self, tenant: usize) -> bool {
        ["m1", "m2"].iter().all(|at| self.tenant(at, tenant).is_some_and(|own| own.dscp > 0 && !own.limited))
    }

    fn settings(&self) -> BTreeMap<&'static str, Settings> {
        self.last.iter().map(|(name, (_, settings))| (*name, settings.clone())).collect()
    }

    /// Settings of a later controller have arrived everywhere. All that arrived since the leader ended equals `before`.
    fn succeeded(&mut self, before: &BTreeMap<&'static str, Settings>, epoch: u64) -> Duration {
        let of_successor = |network: &Self| network.last.values().all(|(version, _)| version.epoch > epoch);
        let time = self.until("settings of a successor", of_successor);
        for (name, version, settings) in &self.received {
            assert_eq!(settings, &before[name], "{name} in version {version:?}");
        }
        time
    }

    fn epoch(&self) -> u64 {
        self.last.values().map(|(version, _)| version.epoch).max().expect("settings")
    }
}

fn brokers(setup: &Setup, etcd: &Etcd<'_>, urls: &[String]) -> Vec<Option<Daemon>> {
    let start = |(number, url): (usize, &String)| {
        let name = format!("fabric{number}");
        let mut command = setup.fabric_timed(&name, url.trim_start_matches("https://"), "policy.yaml", "1s");
        command.args(["--etcd", etcd.url(), "--advertise", url, "--lease", "2s", "--placement"]);
        let IdentityFiles { certificate, private_key, ca } = setup.identity("machine-m4");
        command.arg(setup.at("placement.json"));
        command.arg("--etcd-certificate").arg(certificate).arg("--etcd-private-key").arg(private_key);
        command.arg("--etcd-ca").arg(ca);
        Some(setup.start_as(&name, command))
    };
    urls.iter().enumerate().map(start).collect()
}

fn leader(brokers: &[Option<Daemon>]) -> Option<usize> {
    let leads =
        |daemon: &Option<Daemon>| daemon.as_ref().and_then(Daemon::status).is_some_and(|own| own["leads"] == true);
    brokers.iter().position(leads)
}

#[test]
fn successor_keeps_the_queues_and_continues_the_moves_of_a_killed_leader() {
    let setup = Setup::new();
    let etcd = Etcd::start(setup.at("etcd"), Some(setup.identity("fabric-127.0.0.1")), "tenants of a cluster", || {
        Command::new("etcd")
    });
    let Some(etcd) = etcd else { return };
    setup.write_policy(&policy());
    fs::write(setup.at("placement.json"), placement("spine0")).expect("written");
    let urls: Vec<String> = (0..3).map(|_| format!("https://127.0.0.1:{}", free_port())).collect();
    let mut brokers = brokers(&setup, &etcd, &urls);
    wait_for("a leader", 30, || leader(&brokers).is_some());
    let mut network = Network::new(&setup, &urls);
    network.until("red to have the queue", |network| network.has_queue(RED));
    network.for_a_while(Duration::from_millis(600));

    // At rest: the successor sends the same settings, and its first choices change nothing.
    let kill = |brokers: &mut Vec<Option<Daemon>>| {
        let at = leader(brokers).expect("one leads");
        let (code, _) = brokers[at].take().expect("it runs").end(libc::SIGKILL);
        assert_eq!(code, None);
    };
    let (before, epoch) = (network.settings(), network.epoch());
    network.received.clear();
    kill(&mut brokers);
    let recovered = network.succeeded(&before, epoch);
    network.for_a_while(Duration::from_secs(2));
    for (name, version, settings) in &network.received {
        assert_eq!(settings, &before[name], "{name} in version {version:?}, after the first choices");
    }
    let line = format!("settings of the successor are everywhere {:.1} s after the kill\n", recovered.as_secs_f64());
    std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
    assert!(recovered <= LEASE + ETCD_LOOKS + Duration::from_secs(5) + SLACK, "{line}");

    // In the middle of a move: blue is to have the queue, and r2 does not confirm that red leaves it.
    (network.silent, network.busy) = (Some("r2"), BLUE);
    let is_raised = |network: &Network| match network.last.get("r2") {
        // The shared queue's weight contains both tenants.
        Some((_, Settings::Switch(ports))) => ports.iter().all(|port| port.weights[0] > port.weights[1]),
        _ => false,
    };
    network.until("the step `raise`", is_raised);
    network.for_a_while(Duration::from_millis(600));
    let (before, epoch) = (network.settings(), network.epoch());
    assert!(
        network.tenant("m1", RED).expect("settings").limited && network.tenant("m1", BLUE).expect("settings").limited
    );
    network.received.clear();
    kill(&mut brokers);
    let recovered = network.succeeded(&before, epoch);
    let line = format!("the move is continued {:.1} s after the kill\n", recovered.as_secs_f64());
    std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
    network.silent = None;
    network.until("blue to have the queue", |network| network.has_queue(BLUE) && !network.has_queue(RED));
}
