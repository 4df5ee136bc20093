//! Two hosts on a cable, for agents, with a policy of one service.
#![expect(clippy::disallowed_methods, reason = "tests of real processes measure and wait in real time")]
#![allow(dead_code, reason = "each test file uses a part of this")]

use crate::common::{WEIR, quick, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::shaper::{self, Backend};

/// Service `a`: TCP port 5001, 20 Mb/s in the rack.
pub(crate) const POLICY: &str = "weir: 1\nnetwork:\n  nic: 100Mb/s\n  racks: { r: { uplink: 100Mb/s, machines: [m1, \
    m2] } }\n  \
                      machines: { m1: { address: 10.78.0.1 }, m2: { address: 10.78.0.2 } }\nservices:\n  a:\n    \
                      match: [ { protocol: tcp, port: 5001 } ]\n    rack: { max: 20Mb/s }\n";

/// The hosts and their files.
pub(crate) struct Pair {
    pub(crate) m1: Netns,
    pub(crate) m2: Netns,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) policy: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pair {
    pub(crate) fn new(prefix: &str) -> Self {
        let prefix = Prefix::new(prefix).expect("a prefix");
        prefix.cleanup().expect("leftovers of an earlier run go");
        let (m1, m2) = (prefix.create("m1").expect("made"), prefix.create("m2").expect("made"));
        connect((&m1, "eth0", Some("10.78.0.1/24")), (&m2, "eth0", Some("10.78.0.2/24"))).expect("connected");
        // The kernel gives a new namespace the number of one that went, and an agent that was
        // killed there left its lock.
        for netns in [&m1, &m2] {
            let mut remove = netns.command(WEIR).expect("a command");
            remove.args(["agent", "--remove", "--interface", "eth0"]).stdout(Stdio::null()).stderr(Stdio::null());
            assert!(remove.status().expect("runs").success());
        }
        let directory = tempfile::tempdir().expect("a directory");
        let (policy, key) = (directory.path().join("policy.yaml"), directory.path().join("key"));
        fs::write(&policy, POLICY).expect("written");
        assert!(weir(&["key"]).arg(&key).status().expect("runs").success());
        Self { m1, m2, directory, policy, key }
    }

    pub(crate) fn agent(&self, netns: &Netns, machine: &str) -> Command {
        self.agent_with(&self.policy, netns, machine)
    }

    pub(crate) fn agent_with(&self, policy: &Path, netns: &Netns, machine: &str) -> Command {
        self.agent_of(policy, &self.key, netns, machine)
    }

    pub(crate) fn agent_of(&self, policy: &Path, key: &Path, netns: &Netns, machine: &str) -> Command {
        let mut command = netns.command(WEIR).expect("a command");
        command.arg("agent").arg(policy).args(["--machine", machine, "--interface", "eth0"]);
        command.arg("--key").arg(key).arg("--state").arg(self.directory.path());
        command.arg("--status").arg(self.status_path(machine)).env("NO_COLOR", "1");
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn status_path(&self, machine: &str) -> PathBuf {
        self.directory.path().join(format!("status-{machine}.json"))
    }

    pub(crate) fn status(&self, machine: &str) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(self.status_path(machine)).ok()?).ok()
    }

    pub(crate) fn running(&self, netns: &Netns, machine: &str) -> Child {
        let mut child = self.agent(netns, machine).spawn().expect("starts");
        let mut ended = false;
        wait_for("the agent's first status", 60, || {
            ended = child.try_wait().expect("a child").is_some();
            ended || self.status(machine).is_some()
        });
        if ended {
            panic!("the agent ended: {:?}", end(child));
        }
        child
    }

    /// The state of m1: the output of `tc` and `ip` for its interface, pins and locks. It must be
    /// restored.
    pub(crate) fn picture(&self) -> String {
        let run = |arguments: &[&str]| {
            let output =
                self.m1.command(arguments[0]).expect("a command").args(&arguments[1..]).output().expect("runs");
            String::from_utf8(output.stdout).expect("text")
        };
        let tc = ["qdisc", "class", "filter"].map(|what| run(&["tc", what, "show", "dev", "eth0"])).concat();
        let files = self.files().join("\n");
        tc + &files + &run(&["ip", "-d", "link", "show", "dev", "eth0"]) + &run(&["ss", "-lun"])
    }

    /// The directories of pins and the locks of m1's interfaces.
    pub(crate) fn files(&self) -> Vec<String> {
        let namespace = fs::metadata(Path::new("/run/netns").join(self.m1.name())).expect("a namespace").ino();
        let which = format!("-{namespace}-");
        let below = ["/sys/fs/bpf/weir", "/run/weir"].into_iter().flat_map(fs::read_dir).flatten().flatten();
        let mut files: Vec<String> = below.map(|entry| entry.path().display().to_string()).collect();
        files.retain(|path| path.contains(&which));
        files.sort_unstable();
        files
    }
}

/// The backend of this host's agents, and its qdisc.
pub(crate) fn backend() -> (String, &'static str) {
    let backend = shaper::choose(&shaper::probe(), None).expect("a backend");
    let qdisc = if backend == Backend::Edt { "qdisc fq 7765:" } else { "qdisc htb 7765:" };
    (backend.to_string(), qdisc)
}

/// Its exit code and its output.
pub(crate) fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A flow with unlimited demand, of UDP or one connection of TCP, as it arrives.
pub(crate) struct Flow {
    stop: Arc<AtomicBool>,
    arrived: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

/// Bytes of an Ethernet frame of this flow, as limits count them, and of its payload.
const FRAME: u64 = 1442;
const PAYLOAD: usize = 1400;
/// The demand of a flow in Mb/s: four times the fastest interface that one of them floods. Without
/// a bound two flows used 1.9 of two processors, and in a minute of it none of four agents was up.
const DEMAND: u64 = 400;
/// A flow pauses so long when it is ahead, and makes up for at most so much.
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes of a full frame of TCP, and of its payload.
const SEGMENT: (u64, u64) = (1514, 1448);

impl Flow {
    /// UDP from m1 to m2's `port`.
    pub(crate) fn start(pair: &Pair, port: u16) -> Self {
        Self::between((&pair.m1, "10.78.0.1"), (&pair.m2, "10.78.0.2"), port)
    }

    /// From one host to the other, with their addresses. No two to the same host have the same port.
    pub(crate) fn between(from: (&Netns, &str), to: (&Netns, &str), port: u16) -> Self {
        Self::at_rate(from, to, port, DEMAND)
    }

    /// The same with a demand of so many Mb/s.
    pub(crate) fn at_rate(from: (&Netns, &str), to: (&Netns, &str), port: u16, demand: u64) -> Self {
        let receiver = to.0.run(|| UdpSocket::bind((to.1, port))).expect("inside").expect("bound");
        let sender = from.0.run(|| UdpSocket::bind((from.1, 0))).expect("inside").expect("bound");
        let to = receiver.local_addr().expect("an address");
        receiver.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
        let (stop, arrived) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts) = (Arc::clone(&stop), Arc::clone(&arrived));
        let receive = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while !ends.load(Ordering::Relaxed) {
                if receiver.recv(&mut buffer).is_ok() {
                    counts.fetch_add(FRAME, Ordering::Relaxed);
                }
            }
        });
        let ends = Arc::clone(&stop);
        let send = std::thread::spawn(move || {
            let mut due = Instant::now();
            while !ends.load(Ordering::Relaxed) {
                // It blocks while the socket's packets fill a queue. Without a route it would spin.
                if sender.send_to(&[0; PAYLOAD], to).is_err() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                due = (due + Duration::from_nanos(FRAME * 8_000 / demand)).max(Instant::now() - PAUSE);
                if due > Instant::now() + PAUSE {
                    std::thread::sleep(PAUSE);
                }
            }
        });
        Self { stop, arrived, threads: vec![receive, send] }
    }

    /// One connection of TCP from one host to the other's `port`.
    pub(crate) fn tcp_between(from: (&Netns, &str), to: (&Netns, &str), port: u16) -> Self {
        let listener = to.0.run(|| TcpListener::bind((to.1, port))).expect("inside").expect("bound");
        let mut sender = from.0.run(|| TcpStream::connect((to.1, port))).expect("inside").expect("connected");
        let mut receiver = listener.accept().expect("accepted").0;
        let patience = Some(Duration::from_millis(100));
        receiver.set_read_timeout(patience).expect("set");
        sender.set_write_timeout(patience).expect("set");
        let (stop, arrived) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts) = (Arc::clone(&stop), Arc::clone(&arrived));
        let receive = std::thread::spawn(move || {
            let (mut buffer, mut payload) = (vec![0; 65_536], 0);
            while !ends.load(Ordering::Relaxed) {
                if let Ok(length) = receiver.read(&mut buffer) {
                    payload += length as u64;
                    counts.store(payload * SEGMENT.0 / SEGMENT.1, Ordering::Relaxed);
                }
            }
        });
        let ends = Arc::clone(&stop);
        let send = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                // A write that times out is tried again; a broken connection shows as no traffic.
                if sender.write(&[0; 65_536]).is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Self { stop, arrived, threads: vec![receive, send] }
    }

    /// Sends no more. Dropping it also waits for its threads.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Mb/s that arrive in each of `windows` windows of `ms` milliseconds from now on.
    pub(crate) fn rates(&self, windows: usize, ms: u64) -> Vec<f64> {
        let mut last = (Instant::now(), self.arrived.load(Ordering::Relaxed));
        let mut rates = Vec::with_capacity(windows);
        for _ in 0..windows {
            std::thread::sleep(Duration::from_millis(ms));
            let now = (Instant::now(), self.arrived.load(Ordering::Relaxed));
            rates.push((now.1 - last.1) as f64 * 8e-6 / (now.0 - last.0).as_secs_f64());
            last = now;
        }
        rates
    }

    /// Mb/s over the next second.
    pub(crate) fn rate(&self) -> f64 {
        self.rates(1, 1000)[0]
    }

    /// Asserts that this second's rate is within `part` of the expected one. On shared processors,
    /// where others may have used a part of a second, one of ten is.
    pub(crate) fn is_at(&self, expected: f64, part: f64) {
        let mut rates = Vec::new();
        for _ in 0..if quick() { 10 } else { 1 } {
            let rate = self.rate();
            rates.push(rate);
            if (rate / expected - 1.0).abs() < part {
                return;
            }
        }
        panic!("{rates:.1?} are not {expected} Mb/s ± {part}");
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
