//! `weir certificate` and `weir fabric` as an operator would run them, on loopback. No root is needed.

mod common;

use common::{signal, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use weir_control::rate::rounded;
use weir_control::{RackLimits, RackReport, RateRow};
use weir_fabric::{BrokerUrl, IdentityFiles, Line, LineConfig, LineState};
use weir_policy::Policy;
use weir_units::{Bandwidth, PerDirection, ServiceId};

const PERIOD: &str = "400ms";

fn policy(max: &str) -> String {
    format!(
        "weir: 1\nnetwork:\n  nic: 10Gb/s\n  racks:\n    r1: {{ uplink: 10Gb/s, machines: [m1, m2] }}\n    \
         r2: {{ uplink: 10Gb/s, machines: [m3, m4] }}\nservices:\n  \
         a: {{ match: [ {{ protocol: tcp, port: 1 }} ], fabric: {{ max: {max} }} }}\n"
    )
}

/// A directory with a policy and all certificates for it.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().expect("a directory") };
        place.write_policy(&policy("10Gb/s"));
        let made = place.certificates(&["--fabric", "127.0.0.1"]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write_policy(&self, text: &str) {
        fs::write(self.at("policy.yaml"), text).expect("written");
    }

    fn certificates(&self, arguments: &[&str]) -> Output {
        let mut command = weir(&["certificate"]);
        command.arg(self.at("pki")).arg("--policy").arg(self.at("policy.yaml")).args(arguments);
        command.output().expect("runs")
    }

    fn identity(&self, holder: &str) -> IdentityFiles {
        let pki = self.at("pki");
        IdentityFiles {
            certificate: pki.join(format!("{holder}.pem")),
            private_key: pki.join(format!("{holder}.key")),
            authority: pki.join("authority.pem"),
        }
    }

    fn fabric(&self, listen: &str) -> Command {
        let IdentityFiles { certificate, private_key, authority } = self.identity("fabric-127.0.0.1");
        let mut command = weir(&["fabric"]);
        command.arg(self.at("policy.yaml")).args(["--listen", listen, "--period", PERIOD]);
        command.arg("--certificate").arg(certificate).arg("--private-key").arg(private_key);
        command.arg("--authority").arg(authority).arg("--state").arg(self.at("state"));
        command.arg("--status").arg(self.at("fabric.json")).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn start(&self, listen: &str) -> Daemon {
        let child = self.fabric(listen).spawn().expect("starts");
        let daemon = Daemon { child: Some(child), status: self.at("fabric.json") };
        wait_for("the first status", 20, || daemon.status().is_some());
        daemon
    }

    fn line(&self, machine: &str, url: &str) -> Line {
        let period: weir_units::Duration = PERIOD.parse().expect("a period");
        let brokers: Vec<BrokerUrl> = vec![url.parse().expect("an address")];
        let identity = self.identity(&format!("machine-{machine}"));
        let config = LineConfig { machine: machine.to_owned(), brokers, identity, period, timeout: period * 5 };
        Line::start(config).expect("a line")
    }

    fn report(&self, machine: &str, round: u64, gbps: u64) -> RackReport {
        let policy = Policy::read(self.at("policy.yaml")).expect("valid").0;
        let machine = policy.network().machine_named(machine).expect("there");
        let rates = PerDirection { tx: rounded(Bandwidth::from_gbps(gbps)), rx: Bandwidth::ZERO };
        let rows = vec![RateRow { service: ServiceId(0), rates }];
        let (first, last) = (ServiceId(0), ServiceId(u32::MAX));
        RackReport { machine, policy: policy.digest(), epoch: 1, round, first, last, rows }
    }
}

/// A process that does not outlive its test.
struct Daemon {
    child: Option<Child>,
    status: PathBuf,
}

impl Daemon {
    fn status(&self) -> Option<Value> {
        read_status(&self.status)
    }

    fn url(&self) -> String {
        self.status().expect("a status")["name"].as_str().expect("an address").to_owned()
    }

    fn child(&self) -> &Child {
        self.child.as_ref().expect("it runs")
    }

    /// Ends it: the exit code, and what it said.
    fn end(mut self, with: i32) -> (Option<i32>, String) {
        let mut child = self.child.take().expect("it runs");
        signal(&child, with);
        let code = child.wait().expect("it ends").code();
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        (code, said)
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

fn read_status(path: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// The next limits, if they come within 10 s.
fn next(line: &mut Line) -> RackLimits {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let limits = async { tokio::time::timeout(Duration::from_secs(10), line.limits()).await };
    runtime.block_on(limits).expect("limits within 10 s")
}

fn of_a(limits: &RackLimits) -> Bandwidth {
    limits.rows.iter().find(|row| row.service == ServiceId(0)).map_or(Bandwidth::UNLIMITED, |row| row.rates.tx)
}

fn gbps(rate: u64) -> Bandwidth {
    rounded(Bandwidth::from_gbps(rate))
}

#[test]
fn limits_return_and_a_restart_goes_on_with_a_higher_epoch() {
    let place = Place::new();
    let broker = place.start("127.0.0.1:0");
    let url = broker.url();
    let (mut one, two) = (place.line("m1", &url), place.line("m3", &url));
    one.report(place.report("m1", 1, 8));
    two.report(place.report("m3", 1, 8));
    wait_for("the limit", 20, || of_a(&next(&mut one)) == gbps(5));
    let before = next(&mut one);
    // Killed without a word, and started again at the same place.
    let (code, _) = broker.end(libc::SIGKILL);
    assert_eq!(code, None);
    wait_for("the line to notice", 20, || !matches!(one.status().state, LineState::Up(_)));
    let listen = url.trim_start_matches("https://").to_owned();
    let broker = place.start(&listen);
    one.report(place.report("m1", 2, 8));
    two.report(place.report("m3", 2, 8));
    wait_for("the limit again", 20, || of_a(&next(&mut one)) == gbps(5));
    let after = next(&mut one);
    assert!(after.epoch > before.epoch, "{} after {}", after.epoch, before.epoch);
    let (code, said) = broker.end(libc::SIGTERM);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("fabric broker ready: 2 racks, listening on 127.0.0.1:"), "{said}");
    assert!(!place.at("fabric.json").exists(), "a status does not outlive its broker");
}

#[test]
fn sighup_takes_a_policy_whole_or_not_at_all() {
    let place = Place::new();
    let broker = place.start("127.0.0.1:0");
    let mut line = place.line("m1", &broker.url());
    line.report(place.report("m1", 1, 8));
    wait_for("an answer", 20, || next(&mut line).policy == place.report("m1", 1, 8).policy);
    let epoch = |status: &Value| status["epoch"].as_u64().expect("an epoch");
    let before = broker.status().expect("a status");
    // A policy with a mistake: refused, said, nothing changes.
    place.write_policy(&policy("10Gb/s").replace("fabric", "fabrik"));
    signal(broker.child(), libc::SIGHUP);
    wait_for("the refusal", 20, || broker.status().is_some_and(|status| status["policy_refused"].is_string()));
    let refused = broker.status().expect("a status");
    let reason = refused["policy_refused"].as_str().expect("a reason");
    assert!(reason.contains("fabrik") && reason.contains("policy.yaml:8:47"), "{reason}");
    assert_eq!((&refused["policy"], epoch(&refused)), (&before["policy"], epoch(&before)));
    // Another value: taken, what was reported stays known.
    place.write_policy(&policy("4Gb/s"));
    signal(broker.child(), libc::SIGHUP);
    wait_for("the policy", 20, || broker.status().is_some_and(|status| status["policy"] != before["policy"]));
    let taken = broker.status().expect("a status");
    assert!(taken["policy_refused"].is_null());
    assert_eq!(epoch(&taken), epoch(&before));
    let digest = place.report("m1", 2, 8).policy;
    line.report(place.report("m1", 2, 8));
    wait_for("its limit", 20, || {
        let limits = next(&mut line);
        limits.policy == digest && of_a(&limits) == gbps(4)
    });
    // Another rack: the broker begins anew with a higher epoch, and who is on the line stays there.
    let third = "    r2: { uplink: 10Gb/s, machines: [m3, m4] }\n    r0: { uplink: 10Gb/s, machines: [m5] }\n";
    let text = policy("4Gb/s").replace("    r2: { uplink: 10Gb/s, machines: [m3, m4] }\n", third);
    place.write_policy(&text);
    signal(broker.child(), libc::SIGHUP);
    wait_for("the third rack", 20, || broker.status().is_some_and(|status| status["racks"] == 3));
    assert!(epoch(&broker.status().expect("a status")) > epoch(&before));
    let report = place.report("m1", 3, 8);
    assert_ne!(report.machine.0, 0, "r0's machine is before it now");
    line.report(report);
    wait_for("its limit", 20, || of_a(&next(&mut line)) == gbps(4));
    assert_eq!(line.status().calls, 1, "one call all the time");
    let (_, said) = broker.end(libc::SIGINT);
    assert!(said.contains("the policy is not taken, the old one stays"), "{said}");
}

#[test]
fn what_cannot_work_is_refused_before_it_listens() {
    let place = Place::new();
    let refused = |change: &dyn Fn(&mut Command)| {
        let mut command = place.fabric("127.0.0.1:0");
        change(&mut command);
        let output = command.output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "refused");
        String::from_utf8(output.stderr).expect("text")
    };
    let said = refused(&|command| {
        command.args(["--timeout", "300ms"]);
    });
    assert!(said.contains("--timeout 300 ms is not longer than --period 400 ms"), "{said}");
    fs::rename(place.at("pki/fabric-127.0.0.1.key"), place.at("pki/away.key")).expect("renamed");
    let said = refused(&|_| {});
    assert!(said.contains("fabric-127.0.0.1.key: No such file") && said.contains("hint: `weir certificate"), "{said}");
    fs::copy(place.at("pki/machine-m1.key"), place.at("pki/fabric-127.0.0.1.key")).expect("copied");
    let said = refused(&|_| {});
    assert!(said.contains("fabric-127.0.0.1.pem cannot be used"), "{said}");
    place.write_policy("weir: 1\n");
    refused(&|_| {});
    assert!(!place.at("state").exists(), "nothing was kept");
}

#[test]
fn certificates_are_made_once() {
    let place = Place::new();
    let listed = |place: &Place| {
        let mut names: Vec<String> = fs::read_dir(place.at("pki"))
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        names.sort();
        names
    };
    let names = listed(&place);
    assert_eq!(names.len(), 2 + 2 * 5, "{names:?}");
    let key = fs::read(place.at("pki/machine-m1.key")).expect("there");
    let again = place.certificates(&["--machine", "m7"]);
    let said = String::from_utf8(again.stderr).expect("text");
    assert!(said.contains("machine-m7.pem") && said.contains("4 certificates there already"), "{said}");
    assert_eq!(fs::read(place.at("pki/machine-m1.key")).expect("there"), key);
    let refused = place.certificates(&["--fabric", "a/b"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(listed(&place).len(), names.len() + 2, "nothing more was made");
}
