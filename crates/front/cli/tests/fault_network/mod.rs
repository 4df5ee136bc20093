//! Two racks with fabric brokers, for faults: m1, m2 and m5 behind one switch, m3 and the brokers'
//! host behind another, one cable between the two. Under [`POLICY`] a machine may send 30 Mb/s of
//! `a`, a rack 24 and the fabric 16; so each of two machines of a rack has 8 while all works, 6
//! without a fabric broker (three of four machines are in the rack), 4 without an agent (one of four
//! machines). `b` limits m3's receiving.
#![allow(dead_code, reason = "each test file uses a part of this")]

use crate::agent_pair::Flow;
use crate::common::{WEIR, quick, signal, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use weir_linux::netns::{Netns, Prefix, connect};

pub(crate) const POLICY: &str = "weir: 1\nnetwork:\n  nic: 100Mb/s\n  racks:\n    r1: { uplink: 100Mb/s, machines: \
    [m1, m2, m5] }\n    \
                      r2: { uplink: 100Mb/s, machines: [m3] }\n  machines:\n    m1: { address: 10.81.0.1 }\n    \
                      m2: { address: 10.81.0.2 }\n    m3: { address: 10.81.0.3 }\n    \
                      m5: { address: 10.81.0.5 }\nservices:\n  \
                      a:\n    match: [ { protocol: udp, port: 5001-5002 } ]\n    machine: { tx: { max: 30Mb/s } }\n    \
                      rack: { tx: { max: 24Mb/s } }\n    fabric: { tx: { max: 16Mb/s } }\n  \
                      b:\n    match: [ { protocol: udp, port: 5003 } ]\n    machine: { rx: { max: 5Mb/s } }\n";
/// The hosts' addresses. The fabric brokers are on the fourth.
pub(crate) const HOSTS: [&str; 5] = ["10.81.0.1", "10.81.0.2", "10.81.0.3", "10.81.0.4", "10.81.0.5"];
/// The machines.
pub(crate) const MACHINES: [usize; 4] = [0, 1, 2, 4];
/// The first rack's end of the cable between the switches.
pub(crate) const UPLINK: &str = "up1";

pub(crate) fn report(line: &str) {
    io::stderr().write_all(format!("{line}\n").as_bytes()).expect("standard error takes a line");
}

/// Ends with its test.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn kill(self) {
        signal(&self.0, libc::SIGKILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Network {
    pub(crate) switch: Netns,
    pub(crate) hosts: Vec<Netns>,
    directory: tempfile::TempDir,
    /// The ports of the fabric brokers on the fourth host.
    ports: Vec<u16>,
    /// Period of the fabric brokers, in seconds; racks keep their limits for five.
    period: u32,
}

impl Network {
    /// With fabric brokers at these ports, under [`POLICY`].
    pub(crate) fn new(prefix: &str, ports: &[u16]) -> Self {
        Self::under(POLICY, prefix, ports)
    }

    /// The same under another policy with the same machines.
    pub(crate) fn under(policy: &str, prefix: &str, ports: &[u16]) -> Self {
        let prefix = Prefix::new(prefix).expect("a prefix");
        prefix.cleanup().expect("leftovers of an earlier run go");
        let switch = prefix.create("sw").expect("made");
        run(&switch, &["ip", "link", "add", UPLINK, "type", "veth", "peer", "name", "up2"]);
        for (bridge, end) in [("br1", UPLINK), ("br2", "up2")] {
            run(&switch, &["ip", "link", "add", bridge, "type", "bridge"]);
            run(&switch, &["ip", "link", "set", bridge, "up"]);
            run(&switch, &["ip", "link", "set", end, "master", bridge, "up"]);
        }
        let hosts = ["m1", "m2", "m3", "fb", "m5"].into_iter().zip(HOSTS).zip(1..).map(|((name, address), port)| {
            let host = prefix.create(name).expect("made");
            let port = format!("p{port}");
            connect((&host, "eth0", Some(&format!("{address}/24"))), (&switch, &port, None)).expect("connected");
            let bridge = if ["m3", "fb"].contains(&name) { "br2" } else { "br1" };
            run(&switch, &["ip", "link", "set", &port, "master", bridge, "up"]);
            host
        });
        let hosts = hosts.collect();
        let network = Self {
            switch,
            hosts,
            directory: tempfile::tempdir().expect("a directory"),
            ports: ports.to_vec(),
            period: 1,
        };
        fs::write(network.at("policy.yaml"), policy).expect("written");
        let quiet = |mut command: Command| assert!(command.stderr(Stdio::null()).status().expect("runs").success());
        let mut key = weir(&["key"]);
        key.arg(network.at("key"));
        quiet(key);
        let mut certificates = weir(&["certificate"]);
        certificates.arg(network.at("pki")).arg("--policy").arg(network.at("policy.yaml"));
        certificates.args(["--fabric", HOSTS[3]]);
        quiet(certificates);
        network
    }

    /// With another period of the fabric brokers, in seconds.
    pub(crate) fn with_period(mut self, period: u32) -> Self {
        self.period = period;
        self
    }

    fn period(&self) -> String {
        format!("{}s", self.period)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn weir(&self, host: usize, command: &str, holder: &str) -> Command {
        let mut process = self.hosts[host].command(WEIR).expect("a command");
        process.arg(command).arg(self.at("policy.yaml")).env("NO_COLOR", "1");
        for (option, file) in [("--certificate", format!("{holder}.pem")), ("--private-key", format!("{holder}.key"))] {
            process.arg(option).arg(self.at("pki").join(file));
        }
        process.arg("--ca").arg(self.at("pki/ca.pem"));
        process
    }

    fn start(&self, mut process: Command, log: &str) -> Process {
        let log = fs::File::options().create(true).append(true).open(self.at(&format!("{log}.log")));
        process.stdout(Stdio::null()).stderr(log.expect("a log"));
        Process(process.spawn().expect("starts"))
    }

    /// Where the fabric brokers are reached.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("https://{}:{port}", HOSTS[3])).collect()
    }

    /// The fabric broker at one of the ports; `with` are further arguments.
    pub(crate) fn broker(&self, which: usize, with: &[&str]) -> Process {
        let (port, name) = (self.ports[which], self.broker_name(which));
        let mut process = self.weir(3, "fabric", &format!("fabric-{}", HOSTS[3]));
        process.args(["--listen", &format!("{}:{port}", HOSTS[3]), "--period", &self.period()]).args(with);
        process.arg("--state").arg(self.at(&format!("state-{name}")));
        process.arg("--status").arg(self.at(&format!("{name}.json")));
        self.start(process, &name)
    }

    fn broker_name(&self, which: usize) -> String {
        format!("fabric-{}", self.ports[which])
    }

    /// The status of a fabric broker.
    pub(crate) fn broker_status(&self, which: usize) -> Value {
        read(&self.at(&format!("{}.json", self.broker_name(which))))
    }

    pub(crate) fn agent(&self, host: usize) -> Process {
        let machine = format!("m{}", host + 1);
        let _ = fs::remove_file(self.at(&format!("{machine}.json")));
        let mut process = self.weir(host, "agent", &format!("machine-{machine}"));
        process.args(["--machine", &machine, "--interface", "eth0", "--fabric-period", &self.period()]);
        process.args(["--fabric", &self.urls().join(",")]).arg("--key").arg(self.at("key"));
        process.arg("--state").arg(self.at("state")).arg("--status").arg(self.at(&format!("{machine}.json")));
        self.start(process, &machine)
    }

    pub(crate) fn flow(&self, from: usize, to: usize, port: u16) -> Flow {
        Flow::between((&self.hosts[from], HOSTS[from]), (&self.hosts[to], HOSTS[to]), port)
    }

    /// One connection of TCP that always has more to send.
    pub(crate) fn connection(&self, from: usize, to: usize, port: u16) -> Flow {
        Flow::tcp_between((&self.hosts[from], HOSTS[from]), (&self.hosts[to], HOSTS[to]), port)
    }

    pub(crate) fn status(&self, host: usize) -> Value {
        read(&self.at(&format!("m{}.json", host + 1)))
    }

    pub(crate) fn counter(&self, host: usize, of: &str, name: &str) -> u64 {
        self.status(host)[of][name].as_u64().unwrap_or(0)
    }

    pub(crate) fn leads(&self, host: usize) -> bool {
        self.status(host)["fabric"]["leads"] == true
    }

    /// Whether the last limits of this host's session arrived within the last period.
    pub(crate) fn receives_limits(&self, host: usize) -> bool {
        let status = self.status(host);
        // On shared processors the next one may be late, by half of the five periods that the last ones hold.
        let most = u64::from(self.period) * if quick() { 2500 } else { 1000 } + 100;
        status["fabric"]["session"]["silent_ms"].as_u64().is_some_and(|ms| ms < most)
    }

    /// Mb/s that the broker lets a machine send of `a`.
    pub(crate) fn limit(&self, host: usize) -> Option<f64> {
        self.status(host)["services"][0]["tx"]["limit_bps"].as_f64().map(|bps| bps / 1e6)
    }
}

impl Drop for Network {
    /// After a failure: an outline of each machine's status, and the ends of the logs. Reports of a
    /// run keep a part only.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut paths: Vec<PathBuf> =
            fs::read_dir(self.directory.path()).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        paths.sort_unstable();
        for path in paths {
            let name = path.file_stem().unwrap_or_default().display().to_string();
            match path.extension().and_then(|kind| kind.to_str()) {
                Some("json") => report(&format!("-- {name}: {}", outline(&read(&path)))),
                Some("log") => {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    let lines: Vec<&str> = text.lines().collect();
                    report(&format!("-- {name} logged: {}", lines[lines.len().saturating_sub(5)..].join("\n   ")));
                }
                _ => {}
            }
        }
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap_or_default()).unwrap_or_default()
}

/// A status in some lines: the mode, what each service uses and may use, the receive meter, and the
/// counters that are not zero.
fn outline(status: &Value) -> String {
    const RATES: [&str; 6] =
        ["usage_bps", "limit_bps", "meter_capacity_bps", "sender_rate_bps", "destinations_limited", "backlog_bytes"];
    let whole = ["mode", "fabric", "leads", "leader"].into_iter().filter(|name| !status[name].is_null());
    let mut lines = vec![whole.map(|name| format!("{name} {}", status[name])).collect::<Vec<_>>().join(", ")];
    for service in status["services"].as_array().into_iter().flatten() {
        for direction in ["tx", "rx"] {
            let there = RATES.iter().filter(|rate| !service[direction][rate].is_null());
            let rates: Vec<String> = there.map(|rate| format!("{rate} {}", service[direction][rate])).collect();
            lines.push(format!("{} {direction}: {}", service["service"], rates.join(", ")));
        }
    }
    for of in ["counters", "kernel"] {
        let counted = status[of].as_object().into_iter().flatten().filter(|(_, value)| value.as_u64() != Some(0));
        let counted: Vec<String> = counted.map(|(name, value)| format!("{name} {value}")).collect();
        lines.push(format!("{of}: {}", counted.join(", ")));
    }
    lines.join("\n   ")
}

pub(crate) fn run(host: &Netns, command: &[&str]) {
    let mut process = host.command(command[0]).expect("a command");
    assert!(process.args(&command[1..]).status().expect("runs").success(), "{command:?}");
}

pub(crate) fn is_near(rate: f64, expected: f64) -> bool {
    (rate / expected - 1.0).abs() < 0.12
}

/// Seconds from `since` on until it is so.
pub(crate) fn seconds(since: Instant, what: &str, most: u64, condition: impl FnMut() -> bool) -> f64 {
    wait_for(what, most, condition);
    since.elapsed().as_secs_f64()
}
