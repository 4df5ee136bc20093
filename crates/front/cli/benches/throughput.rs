//! The throughput of a saturated cable with and without agents on both hosts: one service without
//! limits, TCP in buffers of 64 KB between two namespaces, as fast as the processors are.
//!
//! Both ends run on one processor. On two, packets overtake each other between the processors'
//! queues of a veth, which TCP takes for loss, with and without agents. So the ratio is that of the
//! work of both hosts; hosts with processors of their own share it.
//!
//! `cargo bench -p weir --bench throughput`, as root and on an idle machine. The cases take turns:
//! without agents, by hand with one HTB class without a limit, with an agent on one of the hosts,
//! and with agents on both. A row is the best of [`ROUNDS`], since other load of the machine only
//! takes throughput away (a shared machine halves its speed for seconds), and the least processor
//! time of the machine for a gigabyte, each with its ratio to the row without agents. Below
//! [`PART`] with agents on both hosts the bench ends with an error. `WEIR_ROUNDS` sets another
//! number of rounds.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{WEIR, signal, skipped, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use weir_linux::netns::{Netns, Prefix, connect};

const ROUNDS: usize = 7;
/// The required part of the throughput without agents.
const PART: f64 = 0.95;
const SECONDS: &str = "4";
/// iperf3's `--affinity`, of the client and the server.
const ONE_PROCESSOR: &str = "0,0";
const POLICY: &str = "weir: 1\nnetwork:\n  nic: 100Gb/s\n  racks: { r: { uplink: 100Gb/s, machines: [m1, m2] } }\n  \
                      machines: { m1: { address: 10.78.0.1 }, m2: { address: 10.78.0.2 } }\nservices:\n  \
                      a: { match: [ { protocol: tcp, port: 5001 } ] }\n";

#[derive(Clone, Copy, PartialEq)]
enum Enforcement {
    None,
    Hand,
    Sender,
    Receiver,
    Agents,
}

const KINDS: [(&str, Enforcement); 5] = [
    ("no agent", Enforcement::None),
    ("one HTB class by hand", Enforcement::Hand),
    ("an agent on the sender", Enforcement::Sender),
    ("an agent on the receiver", Enforcement::Receiver),
    ("agents on both", Enforcement::Agents),
];

struct Run {
    gbps: f64,
    /// The time of all processors for a gigabyte.
    seconds_per_gigabyte: f64,
}

struct Hosts {
    sender: Netns,
    receiver: Netns,
    directory: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Self {
        let prefix = Prefix::new("wtt").expect("a prefix");
        prefix.cleanup().expect("leftovers of an earlier run go");
        let (sender, receiver) = (prefix.create("m1").expect("made"), prefix.create("m2").expect("made"));
        connect((&sender, "eth0", Some("10.78.0.1/24")), (&receiver, "eth0", Some("10.78.0.2/24"))).expect("connected");
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("policy.yaml"), POLICY).expect("written");
        assert!(weir(&["key"]).arg(directory.path().join("key")).output().expect("runs").status.success());
        Self { sender, receiver, directory }
    }

    fn agent(&self, netns: &Netns, machine: &str) -> Child {
        let path = |name: &str| self.directory.path().join(name);
        let status = path(&format!("status-{machine}"));
        // The status of the previous round is obsolete.
        let _ = fs::remove_file(&status);
        let mut command = netns.command(WEIR).expect("a command");
        command.arg("agent").arg(path("policy.yaml")).args(["--machine", machine, "--interface", "eth0"]);
        command.arg("--key").arg(path("key")).arg("--state").arg(self.directory.path()).arg("--status").arg(&status);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        wait_for("the agent's first status", 20, || status.exists());
        child
    }

    fn by_hand(&self, on: bool) {
        let tc = |arguments: &str| {
            let mut command = self.sender.command("tc").expect("tc");
            assert!(command.args(arguments.split(' ')).status().expect("runs").success(), "tc {arguments}");
        };
        if on {
            tc("qdisc add dev eth0 root handle 1: htb default 1");
            tc("class add dev eth0 parent 1: classid 1:1 htb rate 100gbit burst 12500000 cburst 12500000 \
                 quantum 200000");
        } else {
            tc("qdisc del dev eth0 root");
        }
    }

    fn run(&self, enforcement: Enforcement) -> Run {
        let mut agents = Vec::new();
        if enforcement == Enforcement::Hand {
            self.by_hand(true);
        }
        if matches!(enforcement, Enforcement::Sender | Enforcement::Agents) {
            agents.push(self.agent(&self.sender, "m1"));
        }
        if matches!(enforcement, Enforcement::Receiver | Enforcement::Agents) {
            agents.push(self.agent(&self.receiver, "m2"));
        }
        let before = busy();
        let mut client = self.sender.command("iperf3").expect("iperf3");
        client.args([
            "-c",
            "10.78.0.2",
            "-p",
            "5001",
            "-t",
            SECONDS,
            "-O",
            "1",
            "-C",
            "reno",
            "-J",
            "-A",
            ONE_PROCESSOR,
        ]);
        let output = client.output().expect("iperf3");
        let spent = busy() - before;
        let result: Value = serde_json::from_slice(&output.stdout).expect("JSON from iperf3");
        let received = |what: &str| result["end"]["sum_received"][what].as_f64().unwrap_or_else(|| panic!("{result}"));
        let run = Run {
            gbps: received("bits_per_second") / 1e9,
            // The first second is omitted from the bytes, and in the time.
            seconds_per_gigabyte: spent
                / (received("bits_per_second") * (SECONDS.parse::<f64>().expect("a number") + 1.0) / 8e9),
        };
        for mut agent in agents {
            signal(&agent, libc::SIGTERM);
            agent.wait().expect("ends");
        }
        if enforcement == Enforcement::Hand {
            self.by_hand(false);
        }
        run
    }
}

/// Seconds that all processors have worked.
fn busy() -> f64 {
    let stat = fs::read_to_string(Path::new("/proc/stat")).expect("/proc is there");
    let fields: Vec<f64> = stat
        .lines()
        .next()
        .expect("a line")
        .split_whitespace()
        .skip(1)
        .map(|field| field.parse().expect("a number"))
        .collect();
    // user, nice, system, irq, softirq; in hundredths
    [0, 1, 2, 5, 6].iter().map(|at| fields[*at]).sum::<f64>() / 100.0
}

fn main() -> ExitCode {
    if skipped("the throughput of agents") {
        return ExitCode::SUCCESS;
    }
    let rounds = std::env::var("WEIR_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let hosts = Hosts::new();
    let mut server: Command = hosts.receiver.command("iperf3").expect("iperf3");
    let mut server = server.args(["-s", "-p", "5001"]).stdout(Stdio::null()).spawn().expect("an iperf3 server");
    let listening = || {
        let output = hosts.receiver.command("ss").expect("ss").arg("-Hltn").output().expect("runs");
        String::from_utf8_lossy(&output.stdout).contains(":5001")
    };
    wait_for("iperf3's server", 10, listening);
    let mut runs: [Vec<Run>; KINDS.len()] = Default::default();
    hosts.run(Enforcement::None);
    for round in 0..rounds {
        for (of, (_, enforcement)) in runs.iter_mut().zip(KINDS) {
            of.push(hosts.run(enforcement));
        }
        let last: Vec<String> = runs.iter().map(|of| format!("{:.1}", of[round].gbps)).collect();
        println!("round {} of {rounds}: {} Gb/s", round + 1, last.join(", "));
    }
    server.kill().expect("kill");
    server.wait().expect("ends");
    println!("{:<26} {:>10} {:>8} {:>14} {:>8}", "", "Gb/s", "", "CPU s per GB", "");
    let best = runs.map(|of| {
        let gbps = of.iter().map(|run| run.gbps).fold(0.0, f64::max);
        (gbps, of.iter().map(|run| run.seconds_per_gigabyte).fold(f64::INFINITY, f64::min))
    });
    let [none, .., agents] = best;
    for ((name, _), (gbps, cpu)) in KINDS.iter().zip(best) {
        println!("{name:<26} {gbps:>10.2} {:>8.3} {cpu:>14.3} {:>8.2}", gbps / none.0, cpu / none.1);
    }
    if agents.0 >= PART * none.0 {
        return ExitCode::SUCCESS;
    }
    eprintln!("below the required part: {:.3} of {PART}", agents.0 / none.0);
    ExitCode::FAILURE
}
