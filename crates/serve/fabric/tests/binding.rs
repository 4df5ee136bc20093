//! Subscribers of tenants' queues over real mutual TLS: a tenant that uses its guarantee gets a queue, step by step.

#![allow(clippy::disallowed_methods, reason = "tests of real sockets wait in real time")]

mod common;
#[path = "support/two_tenants.rs"]
mod two_tenants;

use common::broker_thread;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use two_tenants::{SUBSCRIBERS, placement, policy};
use weir_fabric::binding::{FromController, Subscriber, SubscriberConfig, SubscriberState, ToController};
use weir_fabric::binding_proto::{MachineSettings, Reading, SwitchSettings, TenantUsage, Usage};
use weir_fabric::ca::{Ca, Holder};
use weir_fabric::{BrokerUrl, FabricConfig, IdentityFiles};
use weir_policy::Policy;

const SERVICES: &str = "services:\n  web: { match: [ { port: 80 } ], rack: { min: 100Mb/s } }\n";

struct Network {
    directory: tempfile::TempDir,
    ca: Ca,
    policy: Arc<Policy>,
}

impl Network {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let text = policy(3, SERVICES);
        std::fs::write(directory.path().join("policy.yaml"), &text).expect("written");
        std::fs::write(directory.path().join("placement.json"), placement("spine0")).expect("written");
        let (ca, _) = Ca::open(&directory.path().join("pki")).expect("made");
        for (name, _) in SUBSCRIBERS {
            ca.issue(&Holder::Machine(name.to_owned()), 2).expect("made");
        }
        ca.issue(&Holder::Fabric(vec!["127.0.0.1".to_owned()]), 2).expect("made");
        let policy = Arc::new(Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0);
        Self { directory, ca, policy }
    }

    fn config(&self) -> FabricConfig {
        let directory = self.directory.path();
        let placement = Some(directory.join("placement.json"));
        FabricConfig { placement, ..broker_thread::config(&self.policy, &self.ca, directory, "state") }
    }

    fn broker(&self) -> BrokerUrl {
        broker_thread::start(self.config())
    }

    fn identity(&self, name: &str) -> IdentityFiles {
        self.ca.files(&Holder::Machine(name.to_owned()))
    }

    /// All machines and switches.
    fn subscribers(&self, broker: &BrokerUrl) -> Subscribers {
        let all = SUBSCRIBERS.into_iter().map(|(name, is_switch)| self.subscriber(name, is_switch, broker)).collect();
        let (machines, switches) = (BTreeMap::new(), BTreeMap::new());
        Subscribers { all, silent: None, machines, switches, interval: None }
    }

    fn subscriber(&self, name: &str, is_switch: bool, broker: &BrokerUrl) -> Subscriber {
        let (name, brokers, identity) = (name.to_owned(), vec![broker.clone()], self.identity(name));
        let state = SubscriberState { policy: self.policy.digest(), fresh: false };
        let config = SubscriberConfig { name, is_switch, brokers, identity, sockets: None };
        Subscriber::start(config, state).expect("a subscriber")
    }
}

/// The next message within a time, if there is one.
fn message_within(subscriber: &mut Subscriber, wait: Duration) -> Option<FromController> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(wait, subscriber.message()).await.ok() })
}

/// Machines and switches that apply everything at once.
struct Subscribers {
    all: Vec<Subscriber>,
    /// The index of one that confirms nothing.
    silent: Option<usize>,
    machines: BTreeMap<usize, MachineSettings>,
    switches: BTreeMap<usize, SwitchSettings>,
    interval: Option<weir_units::Duration>,
}

impl Subscribers {
    /// Takes messages until the settings of both machines are so.
    fn until(&mut self, are: impl Fn(&MachineSettings) -> bool) {
        let begun = Instant::now();
        let there = |own: &Self| own.machines.len() == 2 && own.machines.values().all(&are);
        while !there(self) && begun.elapsed() < Duration::from_secs(30) {
            self.subscribe(Duration::from_millis(100));
        }
        assert!(there(self), "{:?}", self.machines);
    }

    /// Takes messages for a while; machines report that red has used its guarantee.
    fn subscribe(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            for (at, subscriber) in self.all.iter_mut().enumerate() {
                while let Some(message) = message_within(subscriber, Duration::from_millis(2)) {
                    match message {
                        FromController::Up { interval, .. } => self.interval = Some(interval),
                        FromController::Machine(settings) => {
                            subscriber.send(ToController::Applied(settings.version.expect("a version")));
                            self.machines.insert(at, settings);
                        }
                        FromController::Switch(settings) => {
                            if self.silent != Some(at) {
                                subscriber.send(ToController::Applied(settings.version.expect("a version")));
                            }
                            self.switches.insert(at, settings);
                        }
                        FromController::Read(queue) => {
                            let reading = Reading { queue: Some(queue), sent: 1_000, backlog: 0 };
                            subscriber.send(ToController::Reading(reading));
                        }
                    }
                }
                if at < 2 {
                    // Tenants are numbered by name: red is 1.
                    let used = TenantUsage { tenant: 1, tx_bps: 300_000_000, rx_bps: 0 };
                    subscriber.send(ToController::Usage(Usage { tenants: vec![used] }));
                }
            }
        }
    }
}

#[test]
fn tenant_that_uses_its_guarantee_gets_a_queue() {
    let network = Network::new();
    let broker = network.broker();
    let mut subscribers = network.subscribers(&broker);
    // Both tenants fit the two queues; red has used its guarantee, blue nothing.
    subscribers.until(|own| own.tenants[1].dscp > 0 && !own.tenants[1].limited);
    subscribers.subscribe(Duration::from_millis(600));
    assert_eq!(subscribers.interval, Some(weir_units::Duration::from_millis(200)));
    let of_red = &subscribers.machines[&0].tenants[1];
    assert_eq!(of_red.reserved_bps, 300_000_000);
    assert!(subscribers.machines[&0].values & 1 == 0 && subscribers.machines[&0].values >> of_red.dscp & 1 == 1);
    let ports: BTreeMap<&str, Vec<u32>> =
        subscribers.switches[&2].ports.iter().map(|port| (port.port.as_str(), port.weights.clone())).collect();
    // Red has a queue of three times blue's weight, or blue's is shared.
    assert_eq!(ports.keys().copied().collect::<Vec<_>>(), ["m1", "spine0"]);
    // The service's guarantee at the uplink is in the shared queue; red reserves three times as much.
    let uplink = &subscribers.switches[&2].ports[1];
    let queue_of_red = uplink.map[&of_red.dscp] as usize + 1;
    assert_eq!(uplink.weights[0] * 3, uplink.weights[queue_of_red], "{ports:?}");
    assert!(subscribers.switches[&2].ports.iter().all(|port| port.map.contains_key(&of_red.dscp)), "{ports:?}");
    let state = std::fs::read_to_string(network.directory.path().join("state/tenant-queues.jsonl")).expect("a state");
    assert!(state.contains("dedicated"), "{state}");
}

#[test]
fn subscribers_that_the_certificate_or_the_policy_does_not_name_are_refused() {
    let network = Network::new();
    let broker = network.broker();
    let identity = network.identity("m1");
    let (name, brokers) = ("m2".to_owned(), vec![broker.clone()]);
    let config = SubscriberConfig { name, is_switch: false, brokers, identity, sockets: None };
    let error = Subscriber::start(config, SubscriberState::default()).expect_err("refused");
    assert!(error.to_string().contains("m2"), "{error}");
    // A certificate of a switch that is none in this policy's network.
    network.ca.issue(&Holder::Machine("other".to_owned()), 2).expect("made");
    let mut other = network.subscriber("other", true, &broker);
    assert_eq!(message_within(&mut other, Duration::from_secs(1)), None);
    assert!(other.up().is_none() && Path::new(&network.directory.path().join("state")).exists());
}

#[test]
fn switch_that_lost_its_queues_has_its_tenants_limited_until_it_has_them_again() {
    let network = Network::new();
    let broker = network.broker();
    let mut subscribers = network.subscribers(&broker);
    let none_moves = |own: &MachineSettings| own.tenants.iter().all(|tenant| tenant.dscp > 0 && !tenant.limited);
    subscribers.until(none_moves);
    // `spine0`, which both tenants pass.
    subscribers.silent = Some(4);
    subscribers.switches.remove(&4);
    subscribers.all[4].send(ToController::Reset);
    subscribers.until(|own| own.tenants.iter().all(|tenant| tenant.dscp > 0 && tenant.limited));
    subscribers.subscribe(Duration::from_millis(300));
    assert!(subscribers.switches.contains_key(&4), "it has its settings again");
    subscribers.silent = None;
    subscribers.until(none_moves);
}

#[test]
fn machine_and_switch_of_one_name_are_refused() {
    let network = Network::new();
    let policy = policy(3, SERVICES).replace("r1: {", "m1: {");
    let policy = Arc::new(Policy::parse("policy.yaml", &policy).unwrap_or_else(|errors| panic!("{errors}")).0);
    let refused = weir_fabric::run(FabricConfig { policy, ..network.config() }).expect_err("refused");
    assert!(refused.to_string().contains("a machine and a switch are both called `m1`"), "{refused}");
}
