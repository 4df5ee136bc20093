//! A directory with a policy and certificates, where fabric brokers run as an operator would run them.
#![allow(dead_code, reason = "each test file uses a part of this")]

use crate::common::{signal, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use weir_control::rate::rounded;
use weir_control::{RackLimits, RackReport, RateRow};
use weir_fabric::ca::{Ca, Holder};
use weir_fabric::{BrokerUrl, FromFabric, IdentityFiles, Session, SessionConfig};
use weir_policy::Policy;
use weir_units::{Bandwidth, MachineId, PerDirection, ServiceId};

pub(crate) const PERIOD: &str = "400ms";

pub(crate) fn policy(max: &str) -> String {
    format!(
        "weir: 1\nnetwork:\n  nic: 10Gb/s\n  racks:\n    r1: {{ uplink: 10Gb/s, machines: [m1, m2] }}\n    \
         r2: {{ uplink: 10Gb/s, machines: [m3, m4] }}\nservices:\n  \
         a: {{ match: [ {{ protocol: tcp, port: 1 }} ], fabric: {{ max: {max} }} }}\n"
    )
}

/// A directory with a policy and all certificates for it.
pub(crate) struct Setup {
    pub(crate) directory: tempfile::TempDir,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let setup = Self { directory: tempfile::tempdir().expect("a directory") };
        setup.write_policy(&policy("10Gb/s"));
        let made = setup.certificates(&["--fabric", "127.0.0.1"]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        setup
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write_policy(&self, text: &str) {
        fs::write(self.at("policy.yaml"), text).expect("written");
    }

    pub(crate) fn certificates(&self, arguments: &[&str]) -> Output {
        let mut command = weir(&["certificate"]);
        command.arg(self.at("pki")).arg("--policy").arg(self.at("policy.yaml")).args(arguments);
        command.output().expect("runs")
    }

    pub(crate) fn identity(&self, holder: &str) -> IdentityFiles {
        let pki = self.at("pki");
        IdentityFiles {
            certificate: pki.join(format!("{holder}.pem")),
            private_key: pki.join(format!("{holder}.key")),
            ca: pki.join("ca.pem"),
        }
    }

    pub(crate) fn fabric(&self, listen: &str) -> Command {
        self.fabric_named("fabric", listen, "policy.yaml")
    }

    /// Replaces a fabric broker's certificate by another one.
    pub(crate) fn certificate_of(&self, broker: &str, names: &[&str], days: u64) {
        let pki = self.at("pki");
        let (ca, _) = Ca::open(&pki).expect("the one that is there");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = Holder::Fabric(names);
        let (made_files, files) = (ca.files(&made), self.identity(&format!("fabric-{broker}")));
        for path in [made_files.certificate.as_path(), &made_files.private_key, &files.certificate, &files.private_key]
        {
            let _ = fs::remove_file(path);
        }
        ca.issue(&made, days).expect("made");
        if made_files != files {
            fs::rename(made_files.certificate, files.certificate).expect("renamed");
            fs::rename(made_files.private_key, files.private_key).expect("renamed");
        }
    }

    /// One of several: with a state and a status of its own.
    pub(crate) fn fabric_named(&self, name: &str, listen: &str, policy: &str) -> Command {
        self.fabric_timed(name, listen, policy, PERIOD)
    }

    pub(crate) fn fabric_timed(&self, name: &str, listen: &str, policy: &str, period: &str) -> Command {
        let IdentityFiles { certificate, private_key, ca } = self.identity("fabric-127.0.0.1");
        let mut command = weir(&["fabric"]);
        command.arg(self.at(policy)).args(["--listen", listen, "--period", period]);
        command.arg("--certificate").arg(certificate).arg("--private-key").arg(private_key);
        command.arg("--ca").arg(ca).arg("--state").arg(self.at(&format!("{name}-state")));
        command.arg("--status").arg(self.at(&format!("{name}.json"))).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, listen: &str) -> Daemon {
        self.start_as("fabric", self.fabric(listen))
    }

    pub(crate) fn start_as(&self, name: &str, mut command: Command) -> Daemon {
        let child = command.spawn().expect("starts");
        let daemon = Daemon { child: Some(child), status: self.at(&format!("{name}.json")) };
        wait_for("the first status", 20, || daemon.status().is_some());
        daemon
    }

    pub(crate) fn session(&self, machine: &str, urls: &[&str]) -> Session {
        self.session_timed(machine, urls, PERIOD)
    }

    pub(crate) fn session_timed(&self, machine: &str, urls: &[&str], period: &str) -> Session {
        let period: weir_units::Duration = period.parse().expect("a period");
        let brokers: Vec<BrokerUrl> = urls.iter().map(|url| url.parse().expect("an address")).collect();
        let identity = self.identity(&format!("machine-{machine}"));
        let (machine, timeout) = (machine.to_owned(), period * 5);
        let config = SessionConfig { machine, brokers, identity, period, timeout, sockets: None };
        Session::start(config).expect("a session")
    }

    pub(crate) fn report(&self, machine: &str, round: u64, gbps: u64) -> RackReport {
        let policy = Policy::read(self.at("policy.yaml")).expect("valid").0;
        let machine = policy.network().machine_named(machine).expect("there");
        let rates = PerDirection { tx: rounded(Bandwidth::from_gbps(gbps)), rx: Bandwidth::ZERO };
        let rows = vec![RateRow { service: ServiceId(0), rates }];
        let (first, last) = (ServiceId(0), ServiceId(u32::MAX));
        RackReport { machine, policy: policy.digest(), epoch: 1, round, first, last, rows }
    }
}

/// A process that does not outlive its test.
pub(crate) struct Daemon {
    child: Option<Child>,
    status: PathBuf,
}

impl Daemon {
    pub(crate) fn status(&self) -> Option<Value> {
        read_status(&self.status)
    }

    pub(crate) fn url(&self) -> String {
        self.status().expect("a status")["name"].as_str().expect("an address").to_owned()
    }

    pub(crate) fn child(&self) -> &Child {
        self.child.as_ref().expect("it runs")
    }

    /// Ends it: the exit code, and its output.
    pub(crate) fn end(mut self, with: i32) -> (Option<i32>, String) {
        let mut child = self.child.take().expect("it runs");
        signal(&child, with);
        let code = child.wait().expect("it ends").code();
        let mut output = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut output).expect("text");
        (code, output)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn read_status(path: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// The next limits, if they come within 10 s.
pub(crate) fn next(session: &mut Session) -> RackLimits {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let limits = async { tokio::time::timeout(Duration::from_secs(10), limits(session)).await };
    runtime.block_on(limits).expect("limits within 10 s")
}

/// The next limits. To proposals it replies that the rack uses all that they allow.
pub(crate) async fn limits(session: &mut Session) -> RackLimits {
    loop {
        let proposed = match session.message().await {
            FromFabric::Limits(limits) => return limits,
            FromFabric::Proposal(limits) => limits,
            FromFabric::Reach(_) | FromFabric::Notice(_) => continue,
        };
        let RackLimits { policy, epoch, round, first, last, .. } = proposed;
        let offered = |rate: Bandwidth| if rate.is_unlimited() { Bandwidth::ZERO } else { rate };
        let offer = |row: &RateRow| {
            let rates = PerDirection { tx: offered(row.rates.tx), rx: offered(row.rates.rx) };
            RateRow { service: row.service, rates }
        };
        let rows = proposed.rows.iter().map(offer).collect();
        session.reply(RackReport { machine: MachineId(0), policy, epoch, round, first, last, rows });
    }
}

pub(crate) fn of_a(limits: &RackLimits) -> Bandwidth {
    limits.rows.iter().find(|row| row.service == ServiceId(0)).map_or(Bandwidth::UNLIMITED, |row| row.rates.tx)
}

pub(crate) fn gbps(rate: u64) -> Bandwidth {
    rounded(Bandwidth::from_gbps(rate))
}
