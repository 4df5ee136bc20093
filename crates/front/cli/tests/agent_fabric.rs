//! Two machines with real agents and traffic, in a rack each or in one, and a fabric broker that limits a service over
//! both.

mod common;

use common::{WEIR, one_at_a_time, signal, skipped, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_linux::netns::{Netns, Prefix, connect};

/// `a` has 20 Mb/s in the whole fabric, which two backlogged racks share.
const POLICY: &str = "weir: 1\nnetwork:\n  nic: 100Mb/s\n  racks:\n    r1: { uplink: 100Mb/s, machines: [m1] }\n    \
                      r2: { uplink: 100Mb/s, machines: [m2] }\n  machines: { m1: { address: 10.79.0.1 }, m2: { \
                      address: 10.79.0.2 } }\n\
                      services:\n  a: { match: [ { protocol: udp, port: 5001 } ], fabric: { max: 20Mb/s } }\n";

/// The same with both machines in one rack.
const ONE_RACK: &str = "weir: 1\nnetwork:\n  nic: 100Mb/s\n  racks:\n    r1: { uplink: 200Mb/s, machines: [m1, m2] }\n\
                        \x20 machines: { m1: { address: 10.79.0.1 }, m2: { address: 10.79.0.2 } }\n\
                        services:\n  a: { match: [ { protocol: udp, port: 5001 } ], fabric: { max: 20Mb/s } }\n";

/// Ends with its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Racks {
    machines: [Netns; 2],
    directory: tempfile::TempDir,
}

impl Racks {
    fn new(policy: &str) -> Self {
        let prefix = Prefix::new("wtf").expect("a prefix");
        prefix.cleanup().expect("leftovers of an earlier run go");
        let (m1, m2) = (prefix.create("m1").expect("made"), prefix.create("m2").expect("made"));
        connect((&m1, "eth0", Some("10.79.0.1/24")), (&m2, "eth0", Some("10.79.0.2/24"))).expect("connected");
        let racks = Self { machines: [m1, m2], directory: tempfile::tempdir().expect("a directory") };
        fs::write(racks.at("policy.yaml"), policy).expect("written");
        assert!(weir(&["key"]).arg(racks.at("key")).stderr(Stdio::null()).status().expect("runs").success());
        racks.certificates("pki");
        racks
    }

    /// A CA in a directory of this name, and certificates for all.
    fn certificates(&self, name: &str) {
        let mut certificates = weir(&["certificate"]);
        certificates.arg(self.at(name)).arg("--policy").arg(self.at("policy.yaml")).args(["--fabric", "10.79.0.2"]);
        assert!(certificates.stderr(Stdio::null()).status().expect("runs").success());
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `weir` on a machine, with the options of both daemons and the certificate from a directory.
    fn weir(&self, index: usize, command: &str, (pki, holder): (&str, &str)) -> Command {
        let mut process = self.machines[index].command(WEIR).expect("a command");
        process.arg(command).arg(self.at("policy.yaml")).env("NO_COLOR", "1");
        for (option, file) in [("--certificate", format!("{holder}.pem")), ("--private-key", format!("{holder}.key"))] {
            process.arg(option).arg(self.at(pki).join(file));
        }
        process.arg("--ca").arg(self.at("pki/ca.pem")).arg("--state").arg(self.at("state"));
        process.stdout(Stdio::null()).stderr(Stdio::null());
        process
    }

    fn broker(&self) -> Process {
        let mut process = self.weir(1, "fabric", ("pki", "fabric-10.79.0.2"));
        process.args(["--listen", "10.79.0.2:30567", "--period", "1s"]);
        Process(process.spawn().expect("starts"))
    }

    fn agent(&self, index: usize) -> Process {
        self.agent_of(index, "pki")
    }

    /// An agent with a certificate of the CA in this directory.
    fn agent_of(&self, index: usize, pki: &str) -> Process {
        let machine = format!("m{}", index + 1);
        let mut process = self.weir(index, "agent", (pki, &format!("machine-{machine}")));
        process.args(["--machine", &machine, "--interface", "eth0", "--fabric", "https://10.79.0.2:30567"]);
        process.args(["--fabric-period", "1s"]).arg("--key").arg(self.at("key"));
        process.arg("--status").arg(self.at(&format!("{machine}.json")));
        Process(process.spawn().expect("starts"))
    }

    /// Bulk traffic of `a` from a machine to the other: more than it may have, all the time. (TCP
    /// both ways in one service delays its own acknowledgements, and its demand varies between more
    /// and less than half.)
    fn traffic(&self, index: usize) -> [Process; 2] {
        let run = |index: usize, arguments: &[&str]| {
            let mut process = self.machines[index].command("iperf3").expect("a command");
            Process(process.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts"))
        };
        let server = run(1 - index, &["-s", "-p", "5001"]);
        let listens = || {
            let mut ss = self.machines[1 - index].command("ss").expect("a command");
            let listening = ss.args(["-Hltn", "sport", "=", ":5001"]).output().expect("runs");
            !listening.stdout.is_empty()
        };
        wait_for("iperf3 to listen", 10, listens);
        let to = ["10.79.0.1", "10.79.0.2"][1 - index];
        [server, run(index, &["-c", to, "-p", "5001", "-t", "120", "-u", "-b", "50M", "-l", "1400"])]
    }

    fn status(&self, index: usize) -> Value {
        let text = fs::read_to_string(self.at(&format!("m{}.json", index + 1))).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Whether a program without a part in Weir reaches the fabric broker's port from a machine.
    fn tenant_connects(&self, index: usize) -> bool {
        let connect = || TcpStream::connect_timeout(&([10, 79, 0, 2], 30_567).into(), Duration::from_secs(1));
        self.machines[index].run(connect).expect("inside").is_ok()
    }

    fn limit(&self, index: usize) -> Option<u64> {
        self.status(index)["services"][0]["tx"]["limit_bps"].as_u64()
    }
}

#[test]
fn service_is_limited_over_two_racks_until_the_fabric_broker_ends() {
    if skipped("agents and a fabric broker") {
        return;
    }
    let _turn = one_at_a_time();
    let racks = Racks::new(POLICY);
    let broker = racks.broker();
    wait_for("the broker to listen", 20, || racks.tenant_connects(0));
    let _agents = [racks.agent(0), racks.agent(1)];
    let _traffic = [racks.traffic(0), racks.traffic(1)];
    // Each has the half that the fabric broker assigns, once each leader has waited the 5 s in which it only receives.
    let half = |limit: Option<u64>| limit.is_some_and(|limit| (9_900_000..=10_100_000).contains(&limit));
    let by_fabric = |index: usize| racks.status(index)["fabric"]["receives"] == true;
    let have_half = || (0..2).all(|index| by_fabric(index) && half(racks.limit(index)));
    wait_for("both racks to have half", 60, have_half);
    let status = racks.status(0);
    assert_eq!(status["services"][0]["tx"]["decided_by"], "fabric", "{status:#}");
    assert_eq!((&status["fabric"]["leads"], &status["fabric"]["receives"]), (&true.into(), &true.into()));
    assert_eq!(status["fabric"]["session"]["state"], "up");
    assert_eq!(status["fabric"]["session"]["broker"], "https://10.79.0.2:30567");
    assert!(!racks.tenant_connects(0), "only the agent's own sockets reach the broker from this host");
    wait_for("the refused packets to be counted", 5, || racks.status(0)["kernel"]["spoofed"].as_u64() > Some(0));
    assert_eq!(
        racks.status(0)["fabric"]["session"]["counters"]["failures"],
        status["fabric"]["session"]["counters"]["failures"]
    );
    wait_for("the traffic to follow", 20, || {
        let usage = racks.status(0)["services"][0]["tx"]["usage_bps"].as_u64();
        usage.is_some_and(|usage| (8_000_000..=11_000_000).contains(&usage))
    });
    // Killed: the limits hold for five periods, then each rack has its part of the maximum, half too.
    signal(&broker.0, libc::SIGKILL);
    wait_for("the session to end", 10, || racks.status(0)["fabric"]["session"]["state"] != "up");
    assert!(half(racks.limit(0)), "the limit stays meanwhile");
    wait_for("the limits to end", 30, || racks.status(0)["fabric"]["receives"] == false && half(racks.limit(0)));
    let status = racks.status(0);
    assert!(
        status["fabric"]["session"]["last_failure"].as_str().is_some_and(|why| why.contains("refused")),
        "{status:#}"
    );
    assert_eq!(status["counters"]["fabric_fallbacks"], 1);
    // Back: limits again.
    let _broker = racks.broker();
    wait_for("both racks to have half again", 60, have_half);
}

#[test]
fn the_next_machine_leads_where_the_first_cannot_reach_the_fabric_broker() {
    if skipped("agents and a fabric broker") {
        return;
    }
    let _turn = one_at_a_time();
    let racks = Racks::new(ONE_RACK);
    racks.certificates("foreign");
    let _broker = racks.broker();
    let _agents = [racks.agent_of(0, "foreign"), racks.agent(1)];
    let _traffic = [racks.traffic(0), racks.traffic(1)];
    let link = |index: usize| racks.status(index)["fabric"].clone();
    let all = || (0..2).all(|index| link(index)["receives"] == true && link(index)["leader"] == "m2");
    wait_for("limits by way of the second machine", 40, all);
    let (first, second) = (link(0), link(1));
    assert_eq!((&first["shut_out"], &first["leads"]), (&true.into(), &true.into()), "{first:#}");
    assert_eq!((&second["shut_out"], &second["leads"]), (&false.into(), &true.into()), "{second:#}");
    assert!(first["session"]["last_failure"].is_string(), "{first:#}");
    assert!(!racks.tenant_connects(0), "also where the agent's own connections fail");
    let half = |limit: Option<u64>| limit.is_some_and(|limit| (9_900_000..=10_100_000).contains(&limit));
    wait_for("the maximum to be shared", 20, || (0..2).all(|index| half(racks.limit(index))));
}
