//! What an agent reports of a service that offers more than its interface, or its limit, lets leave.
//!
//! A socket with Linux's default buffer waits for its own packets in the qdisc and so loses none;
//! the flood's socket has room for many times the longest queue.

#![expect(clippy::disallowed_methods, reason = "a real flood lasts and is measured in real time")]

mod agent_pair;
mod common;

use agent_pair::{Pair, backend, end};
use common::{SHARED_MOST, at_least, one_at_a_time, quick, signal, skipped, wait_for};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_linux::netns::Netns;

/// Mb/s of the interface. The tests of `edt` run in an emulated machine, whose floods are slower.
fn nic() -> u64 {
    if backend().0 == "edt" { 10 } else { 90 }
}

/// A service `a` of UDP to port 5001, with this share, and one whose filter matches the agent's datagrams.
fn policy(share: &str) -> String {
    format!(
        "weir: 1\nnetwork:\n  nic: {0}Mb/s\n  racks: {{ r: {{ uplink: {0}Mb/s, machines: [m1, m2] }} }}\n  \
         machines: {{ m1: {{ address: 10.78.0.1 }}, m2: {{ address: 10.78.0.2 }} }}\nservices:\n  a:\n    \
         match: [ {{ protocol: udp, port: 5001 }} ]\n    {share}\n  \
         rest: {{ match: [ {{ protocol: udp, port: 30000-31000 }} ] }}\n",
        nic()
    )
}

/// UDP from m1 to m2 at four times the rate of the interface.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(pair: &Pair) -> Self {
        const FRAME: u64 = 1_442;
        const PAUSE: Duration = Duration::from_millis(1);
        // What it makes up for at most, on a busy processor.
        const LATE: Duration = Duration::from_millis(100);
        let interval = Duration::from_nanos(FRAME * 8_000 / (4 * nic()));
        let socket = pair.m1.run(|| UdpSocket::bind("10.78.0.1:0")).expect("inside").expect("bound");
        let room: libc::c_int = 16_000_000;
        let (at, size) = ((&raw const room).cast(), size_of_val(&room) as libc::socklen_t);
        // SAFETY: the option is an int and its size is given.
        let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, at, size) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let run = move || {
            let mut due = Instant::now();
            while !ends.load(Ordering::Relaxed) {
                // It fails with ENOBUFS after a drop, and without a listening socket.
                let _ = socket.send_to(&[0; 1_400], "10.78.0.2:5001");
                due = (due + interval).max(Instant::now() - LATE);
                if due > Instant::now() + PAUSE {
                    std::thread::sleep(PAUSE);
                }
            }
        };
        Self { stop, thread: Some(std::thread::spawn(run)) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// An agent with its first status. An emulated machine verifies the programs for up to half a minute.
fn started(pair: &Pair, netns: &Netns, machine: &str) -> Child {
    let child = pair.agent(netns, machine).spawn().expect("starts");
    wait_for("the agent's first status", 60, || pair.status(machine).is_some());
    child
}

/// Bytes that m2's interface has received.
fn arrived(pair: &Pair) -> u64 {
    let mut command = pair.m2.command("ip").expect("a command");
    let output = command.args(["-s", "-j", "link", "show", "dev", "eth0"]).output().expect("runs");
    let links: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    links[0]["stats64"]["rx"]["bytes"].as_u64().expect("a counter")
}

/// A number of what the service sends, if the status has it.
fn sent(status: &Value, key: &str) -> Option<u64> {
    status["services"][0]["tx"][key].as_u64()
}

/// The statuses of the next periods.
fn statuses(pair: &Pair, periods: usize) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    while all.len() < periods {
        let last = all.last().map(|status| status["written_ms"].clone());
        wait_for("another status", 10, || {
            pair.status("m1").is_some_and(|now| Some(&now["written_ms"]) != last.as_ref())
        });
        all.extend(pair.status("m1"));
    }
    all
}

/// Asserts that usage is at most 1.05 of a rate in Mb/s. On shared processors a reading may be late, and the mean is.
/// In the emulated machine of `edt` it may be late by up to a period: readings of n periods have the bytes of at most
/// n + 1.
fn assert_at_most(all: &[Value], rate: f64) {
    let usages: Vec<f64> = all.iter().map(|status| sent(status, "usage_bps").expect("a usage") as f64 / 1e6).collect();
    let (mean, limit) = (usages.iter().sum::<f64>() / usages.len() as f64, 1.05 * rate);
    let are_within = match (backend().0.as_str(), quick()) {
        ("edt", _) => (1..usages.len()).all(|periods| {
            usages.windows(periods).all(|some| some.iter().sum::<f64>() <= limit * (periods + 1) as f64)
        }),
        (_, true) => usages.iter().all(|usage| *usage <= SHARED_MOST * rate),
        (_, false) => usages.iter().all(|usage| *usage <= limit),
    };
    assert!(mean <= limit && are_within, "{usages:.1?} of {rate} Mb/s");
}

#[test]
fn usage_of_a_flood_is_the_rate_of_the_interface() {
    if skipped("the usage of a flood") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wua");
    fs::write(&pair.policy, policy("machine: { weight: 1 }")).expect("written");
    let agent = started(&pair, &pair.m1, "m1");
    wait_for("nothing to be used", 20, || {
        pair.status("m1").is_some_and(|status| sent(&status, "usage_bps") == Some(0))
    });
    let (before, start) = (arrived(&pair), pair.status("m1").expect("a status"));
    let flood = Flood::start(&pair);
    let rate = (nic() * 1_000_000) as f64;
    let all = statuses(&pair, if quick() { 5 } else { 10 });
    drop(flood);
    for status in &all {
        let [usage, offered, dropped] = ["usage_bps", "offered_bps", "dropped_bps"].map(|key| sent(status, key));
        println!("usage {usage:?}, offered {offered:?}, dropped {dropped:?} of {rate}");
    }
    assert_at_most(&all, 1e-6 * rate);
    // The period in which the flood had the most of a processor.
    let most = |key: &str| all.iter().filter_map(|status| sent(status, key)).max().unwrap_or(0) as f64;
    let [usage, offered, dropped] = ["usage_bps", "offered_bps", "dropped_bps"].map(most);
    assert!(usage >= at_least(0.95 * rate) && offered > 1.5 * usage && dropped > 0.3 * offered, "{all:#?}");
    // At rest it adds up, and what has left has arrived.
    wait_for("the rest to have left", 20, || {
        let status = pair.status("m1").expect("a status");
        sent(&status, "backlog_bytes") == Some(0) && sent(&status, "offered_bps") == Some(0)
    });
    let (end_of_it, after) = (pair.status("m1").expect("a status"), arrived(&pair));
    let total = |key: &str| sent(&end_of_it, key).expect("a count") - sent(&start, key).expect("a count");
    let [offered, left, dropped] = ["offered_bytes", "bytes", "dropped_bytes"].map(total);
    assert_eq!(offered, left + dropped, "{end_of_it:#}");
    assert!(sent(&end_of_it, "drops") > sent(&start, "drops"), "{end_of_it:#}");
    // The agent's own datagrams are in no service's queue, whatever its filter is.
    assert_eq!(end_of_it["services"][1]["tx"]["offered_bytes"], 0, "{end_of_it:#}");
    // Besides the service's packets, ARP and the agent's reports arrive; and a late reading may have
    // counted dropped packets of some milliseconds as sent.
    assert!((after - before).abs_diff(left) < left / 100, "{left} of {before} to {after}");
    signal(&agent, libc::SIGTERM);
    assert_eq!(end(agent).0, Some(0));
}

/// Its usage does not exceed its limit any more, whatever it offers.
#[test]
fn a_flood_under_a_limit_is_backlogged() {
    if skipped("the demand of a flood") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wub");
    let limit = nic() / 3;
    fs::write(&pair.policy, policy(&format!("rack: {{ max: {limit}Mb/s }}"))).expect("written");
    let (one, two) = (started(&pair, &pair.m1, "m1"), started(&pair, &pair.m2, "m2"));
    wait_for("both agents to receive each other's reports", 30, || {
        ["m1", "m2"].iter().all(|machine| pair.status(machine).is_some_and(|status| status["peers_alive"] == 1))
    });
    let flood = Flood::start(&pair);
    let is_backlogged = |status: &Value| {
        let tx = &status["services"][0]["tx"];
        // Unlimited: the key is there, and null.
        tx.get("demand_bps").is_some_and(Value::is_null) && tx["limit_bps"].as_u64().is_some()
    };
    wait_for("the flood to be backlogged", 20, || pair.status("m1").is_some_and(|status| is_backlogged(&status)));
    let all = statuses(&pair, if quick() { 5 } else { 10 });
    drop(flood);
    let rates: Vec<_> = all.iter().map(|status| (sent(status, "usage_bps"), sent(status, "offered_bps"))).collect();
    println!("usage and offered: {rates:?}, {limit} Mb/s");
    let backlogged = all.iter().filter(|status| is_backlogged(status)).count();
    // A flood without a processor for a period has no demand in it.
    let least = if quick() { all.len() / 2 } else { all.len() };
    assert!(backlogged >= least, "{all:#?}");
    assert_at_most(&all, limit as f64);
    for agent in [one, two] {
        signal(&agent, libc::SIGTERM);
        assert_eq!(end(agent).0, Some(0));
    }
}
