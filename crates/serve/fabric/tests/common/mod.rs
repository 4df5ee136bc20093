//! A fabric broker on loopback with real certificates.

#![allow(dead_code, reason = "each test file uses a part of this")]
#![allow(clippy::disallowed_methods, reason = "tests of real sockets wait in real time")]

#[path = "../support/broker_thread.rs"]
pub(crate) mod broker_thread;

pub(crate) use broker_thread::PERIOD;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_control::rate::rounded;
use weir_control::{RackReport, RateRow};
use weir_fabric::ca::{Ca, Holder};
use weir_fabric::{BrokerUrl, FabricConfig, IdentityFiles, Session, SessionConfig};
use weir_policy::Policy;
use weir_units::{Bandwidth, MachineId, PerDirection, ServiceId};

/// Two racks of two; `a` at most 10 Gb/s in all.
pub(crate) const POLICY: &str = "weir: 1\nnetwork:\n  nic: 10Gb/s\n  racks:\n    \
    r1: { uplink: 10Gb/s, machines: [m1, m2] }\n    \
    r2: { uplink: 10Gb/s, machines: [m3, m4] }\nservices:\n  \
    a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 10Gb/s } }\n";

pub(crate) struct World {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) policy: Arc<Policy>,
    pub(crate) ca: Ca,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("policy.yaml"), POLICY).expect("written");
        let policy = Policy::parse("policy.yaml", POLICY).expect("valid").0;
        let ca = ca(&directory.path().join("pki"));
        Self { directory, policy: Arc::new(policy), ca }
    }

    pub(crate) fn files(&self, machine: &str) -> IdentityFiles {
        self.ca.files(&Holder::Machine(machine.to_owned()))
    }

    pub(crate) fn config(&self, name: &str) -> FabricConfig {
        broker_thread::config(&self.policy, &self.ca, self.directory.path(), name)
    }

    /// A broker in a thread of this process, which ends with it.
    pub(crate) fn broker(&self, name: &str) -> Broker {
        let config = self.config(name);
        let status_file = config.status.clone().expect("a file of the status");
        let url = broker_thread::start(config).to_string();
        Broker { listen: url.trim_start_matches("https://").parse().expect("an address"), status_file }
    }

    pub(crate) fn session_config(&self, machine: &str, brokers: &[BrokerUrl]) -> SessionConfig {
        SessionConfig {
            machine: machine.to_owned(),
            brokers: brokers.to_vec(),
            identity: self.files(machine),
            period: PERIOD,
            timeout: PERIOD * 5,
            sockets: None,
        }
    }

    pub(crate) fn session(&self, machine: &str, broker: &Broker) -> Session {
        Session::start(self.session_config(machine, &[broker.url()])).expect("a session")
    }

    /// A report of the demand of `a` in a machine's rack.
    pub(crate) fn report(&self, machine: &str, round: u64, gbps: u64) -> RackReport {
        let machine = self.policy.network().machine_named(machine).expect("a machine");
        let rates = PerDirection { tx: rounded(Bandwidth::from_gbps(gbps)), rx: Bandwidth::ZERO };
        report(machine, self.policy.digest(), round, rates)
    }
}

pub(crate) fn report(machine: MachineId, policy: u64, round: u64, rates: PerDirection<Bandwidth>) -> RackReport {
    let rows = vec![RateRow { service: ServiceId(0), rates }];
    RackReport { machine, policy, epoch: 1, round, first: ServiceId(0), last: ServiceId(u32::MAX), rows }
}

/// A CA with certificates for all machines and the broker.
pub(crate) fn ca(directory: &std::path::Path) -> Ca {
    let (ca, _) = Ca::open(directory).expect("made");
    for machine in ["m1", "m2", "m3", "m4", "m9"] {
        ca.issue(&Holder::Machine(machine.to_owned()), 2).expect("made");
    }
    ca.issue(&Holder::Fabric(vec!["127.0.0.1".to_owned()]), 2).expect("made");
    ca
}

pub(crate) struct Broker {
    pub(crate) listen: SocketAddr,
    status_file: PathBuf,
}

impl Broker {
    pub(crate) fn url(&self) -> BrokerUrl {
        format!("https://{}", self.listen).parse().expect("an address")
    }
    pub(crate) fn status(&self) -> Value {
        status(&self.status_file)
    }
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.status()["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
    }
    pub(crate) fn wait_for_counter(&self, name: &str, at_least: u64) {
        wait_for(name, || self.counter(name) >= at_least);
    }
}

pub(crate) fn status(file: &std::path::Path) -> Value {
    std::fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Polls a condition; panics after 20 s with its description.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "waited 20 s for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
