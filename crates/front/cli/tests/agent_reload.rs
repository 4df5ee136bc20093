//! Agents whose policy and keys change while traffic runs.
#![expect(clippy::disallowed_methods, reason = "tests of real processes measure and wait in real time")]

mod agent_pair;
mod common;

use agent_pair::{Flow, POLICY, Pair, end};
use common::{hold, one_at_a_time, quick, signal, skipped, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Stdio};
use weir_control::UsageReport;
use weir_control::wire::Key;
use weir_units::{MachineId, ServiceId};

/// Service `a` is UDP on port 5001 with this machine maximum.
fn limited(text: &str) -> String {
    POLICY.replace("protocol: tcp", "protocol: udp").replace("rack: { max: 20Mb/s }", &format!("machine: {text}"))
}

fn report(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("standard error takes a line");
}

/// All within `part` of `expected`, where the processors are not shared.
fn all_near(rates: &[f64], expected: f64, part: f64) {
    assert!(hold(rates, expected, part), "{rates:.1?} are not {expected} Mb/s ± {part}");
}

/// Neither a gap nor a burst between these rates; on shared processors, where a short time may lack packets, no burst.
fn is_smooth(rates: &[f64], from: f64, to: f64) -> bool {
    rates.iter().all(|rate| *rate < to && (quick() || *rate >= from))
}

/// The state of m1's interface: the picture without the sockets, whose queues change.
fn shaping(pair: &Pair) -> String {
    pair.picture().split("State ").next().expect("the first part").to_owned()
}

fn reload(agent: &Child) {
    signal(agent, libc::SIGHUP);
}

/// A reload as the unit does it: the exit code, and its output.
fn reload_as_unit(pair: &Pair) -> (Option<i32>, String) {
    let mut command = pair.agent(&pair.m1, "m1");
    end(command.arg("--reload").spawn().expect("starts"))
}

/// A reload of the agent with this process number.
fn reload_of(pair: &Pair, process: u32) -> (Option<i32>, String) {
    let mut command = pair.agent(&pair.m1, "m1");
    end(command.args(["--reload", &process.to_string()]).spawn().expect("starts"))
}

fn is_refused(pair: &Pair, words: &str) -> bool {
    let status = pair.status("m1").unwrap_or_default();
    status["policy_refused"].as_str().is_some_and(|reason| reason.contains(words))
}

#[test]
#[expect(clippy::too_many_lines, reason = "the reloads share one agent and follow one timeline")]
fn a_flow_goes_from_one_limit_to_the_next_without_a_gap_or_a_burst() {
    if skipped("a reload under traffic") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wra");
    fs::write(&pair.policy, limited("{ max: 20Mb/s }")).expect("written");
    let agent = pair.running(&pair.m1, "m1");
    let flow = Flow::start(&pair, 5001);
    flow.rate();
    flow.is_at(20.0, 0.06);

    // Refused: nothing but the reports changes.
    let before = shaping(&pair);
    let policy = pair.status("m1").expect("a status")["policy"].clone();
    fs::write(&pair.policy, limited("{ mux: 40Mb/s }")).expect("written");
    reload(&agent);
    all_near(&flow.rates(4, 500), 20.0, 0.2);
    wait_for("the refusal", 5, || is_refused(&pair, "mux") && is_refused(&pair, "did you mean `max`?"));
    let reason = pair.status("m1").expect("a status")["policy_refused"].as_str().expect("a reason").to_owned();
    assert!(reason.contains("policy.yaml:9:"), "the place: {reason}");
    assert_eq!((shaping(&pair), &pair.status("m1").expect("a status")["policy"]), (before, &policy));
    fs::write(&pair.policy, limited("{ max: 40Mb/s }").replace("10.78.0.1", "10.78.0.9")).expect("written");
    let (code, output) = reload_of(&pair, agent.id());
    assert!(code == Some(2) && output.contains("is to listen on 10.78.0.9:30565"), "{code:?} {output}");
    assert!(is_refused(&pair, "is to listen on 10.78.0.9:30565"));
    // A process that is not the agent gets no signal: this one would end.
    let (code, output) = reload_of(&pair, std::process::id());
    let reason = format!("process {} is not the agent of eth0; that is {}", std::process::id(), agent.id());
    assert!(code == Some(2) && output.contains(&reason), "{code:?} {output}");
    // Mistakes that need no agent to be found never reach it.
    fs::write(&pair.policy, limited("{ max: 40Mb/s }").replace("m1", "m7")).expect("written");
    let (code, output) = reload_as_unit(&pair);
    assert!(code == Some(2) && output.contains("the policy has no machine `m1`"), "{code:?} {output}");
    assert!(is_refused(&pair, "is to listen on 10.78.0.9:30565"), "no other refusal");
    fs::write(&pair.policy, limited("{ max: 40Mb/s }")).expect("written");
    let key = fs::read_to_string(&pair.key).expect("readable");
    fs::write(&pair.key, format!("{key}none\n")).expect("written");
    reload(&agent);
    wait_for("the refusal", 5, || is_refused(&pair, "key:2: a key is 64 hexadecimal digits"));
    assert_eq!(pair.status("m1").expect("a status")["policy"], policy, "whole or not at all");
    fs::write(&pair.key, key).expect("written");

    // Taken.
    flow.is_at(20.0, 0.1);
    let rates = std::thread::scope(|scope| {
        let rates = scope.spawn(|| flow.rates(16, 250));
        std::thread::sleep(std::time::Duration::from_millis(1000));
        let (code, output) = reload_as_unit(&pair);
        assert_eq!(code, Some(0), "{output}");
        rates.join().expect("measured")
    });
    report(&format!("a reload from 20 to 40 Mb/s, each 250 ms: {rates:.1?}"));
    assert!(is_smooth(&rates, 16.0, 46.0), "a gap or a burst: {rates:.1?}");
    all_near(&rates[..3], 20.0, 0.2);
    all_near(&[rates[8..].iter().sum::<f64>() / 8.0], 40.0, 0.06);
    let status = pair.status("m1").expect("a status");
    assert!(status["policy_refused"].is_null() && status["policy"] != policy, "{status:#}");

    // Other services: the one that stays keeps its class, its meter and its limit; the epoch shows
    // that the broker restarted.
    let (epoch, bytes) = (status["epoch"].as_u64(), sent(&status, "a"));
    let other =
        limited("{ max: 40Mb/s }") + "  A0: { match: [ { protocol: udp, port: 5002 } ], machine: { max: 10Mb/s } }\n";
    fs::write(&pair.policy, other).expect("written");
    reload(&agent);
    let rates = flow.rates(8, 250);
    assert!(is_smooth(&rates, 32.0, 46.0), "a gap or a burst: {rates:.1?}");
    // The new broker's first status follows its first period.
    let services = || pair.status("m1").and_then(|status| status["services"].as_array().map(Vec::len));
    wait_for("a status with both services", 5, || services() == Some(2));
    let status = pair.status("m1").expect("a status");
    assert!(status["epoch"].as_u64() > epoch && sent(&status, "a") < bytes, "{status:#}");
    let second = Flow::start(&pair, 5002);
    second.rate();
    second.is_at(10.0, 0.06);
    flow.is_at(40.0, 0.1);
    // And removed again: its class is deleted.
    drop(second);
    fs::write(&pair.policy, limited("{ max: 40Mb/s }")).expect("written");
    reload(&agent);
    let one = |pair: &Pair| pair.status("m1").is_some_and(|s| s["services"].as_array().map(Vec::len) == Some(1));
    wait_for("one service", 5, || one(&pair));
    flow.is_at(40.0, 0.1);
    drop(flow);
    signal(&agent, libc::SIGTERM);
    let (code, output) = end(agent);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("are not taken, the old ones stay") && output.contains("did you mean `max`?"), "{output}");
}

/// Bytes that a service sent by the agent's count.
fn sent(status: &Value, service: &str) -> Option<u64> {
    let services = status["services"].as_array()?;
    services.iter().find(|entry| entry["service"] == service)?["tx"]["bytes"].as_u64()
}

fn step(key: &Path, step: &str) {
    let status = weir(&["key"]).arg(key).arg(step).stderr(Stdio::null()).status().expect("runs");
    assert!(status.success(), "{step}");
}

#[test]
fn keys_change_under_traffic_and_nothing_is_refused() {
    if skipped("a rotation of keys") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wrb");
    // m2 may receive 20 Mb/s, which its feedback advertises to m1.
    fs::write(&pair.policy, limited("{ rx: { max: 20Mb/s } }")).expect("written");
    let other_key = pair.directory.path().join("key-m2");
    fs::copy(&pair.key, &other_key).expect("copied");
    let one = pair.running(&pair.m1, "m1");
    let two = pair.agent_of(&pair.policy, &other_key, &pair.m2, "m2").spawn().expect("starts");
    let flow = Flow::start(&pair, 5001);
    let feedback = || pair.status("m1").unwrap_or_default()["services"][0]["tx"]["feedback_received"].as_u64();
    let reports = |machine: &str| pair.status(machine).unwrap_or_default()["counters"]["reports_accepted"].as_u64();
    wait_for("feedback and reports", 20, || {
        feedback().is_some_and(|count| count > 0)
            && ["m1", "m2"].iter().all(|machine| reports(machine).is_some_and(|n| n > 1))
    });
    let old = Key::from_hex(&fs::read_to_string(&pair.key).expect("readable")).expect("a key");
    for what in ["--add", "--turn", "--drop"] {
        // First one host, then the other: what is between is the hard part.
        step(&pair.key, what);
        for (agent, copied) in [(&one, false), (&two, true)] {
            if copied {
                fs::copy(&pair.key, &other_key).expect("copied");
            }
            reload(agent);
            let before = (feedback(), reports("m1"), reports("m2"));
            wait_for("feedback and reports to go on", 10, || {
                feedback() > before.0
                    && reports("m1") > before.1.map(|n| n + 1)
                    && reports("m2") > before.2.map(|n| n + 1)
            });
            flow.is_at(20.0, 0.2);
        }
    }
    for machine in ["m1", "m2"] {
        let status = pair.status(machine).expect("a status");
        for (of, name) in [("counters", "datagrams_forged"), ("kernel", "feedback_forged"), ("counters", "fallbacks")] {
            assert_eq!(status[of][name], 0, "{name} in {status:#}");
        }
        assert!(status["policy_refused"].is_null(), "{status:#}");
    }
    drop(flow);
    // Counters of silent destinations keep their values.
    let before = feedback();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(before > Some(0) && feedback() >= before, "{:?} after {before:?}", feedback());
    // The old key is invalid now. (While m2's agent runs, no other process can send control traffic from there.)
    signal(&two, libc::SIGTERM);
    assert_eq!(end(two).0, Some(0));
    let report = UsageReport {
        machine: MachineId(1),
        policy: 1,
        epoch: 1,
        round: 1,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![],
    };
    let datagram = weir_control::wire::encode(&report.into(), &old);
    let send = || UdpSocket::bind("10.78.0.2:0").and_then(|socket| socket.send_to(&datagram, "10.78.0.1:30565"));
    // The kernel detaches the programs of the agent that has ended after some time: until then it drops these.
    wait_for("what the old key signed to be refused", 10, || {
        pair.m2.run(send).expect("inside").expect("sent");
        pair.status("m1").is_some_and(|status| status["counters"]["datagrams_forged"].as_u64() > Some(0))
    });
    signal(&one, libc::SIGTERM);
    let (code, output) = end(one);
    assert_eq!(code, Some(0), "{output}");
}
