//! Whole scenarios under shapers and brokers: limits of machines, racks and the fabric, and the
//! effects of stopped brokers.

use crate::support::scenarios::{read, run_with};
use weir_results::MeterSample;
use weir_scenario::Scenario;
use weir_sim::{RunOutcome, SimTime};

/// A rack of four and two of two machines at 100 Mb/s behind 200 Mb/s; brokers five times as fast
/// as usual.
fn scenario(services: &str, rest: &str, traffic: &str) -> Scenario {
    let rack = |(name, machines): (&str, u32)| {
        format!("    {name}: {{ uplink: 200Mb/s, machines: [\"{name}[1-{machines}]\"] }}\n")
    };
    let racks: String = [("a", 4), ("b", 2), ("c", 2)].map(rack).concat();
    let policy = format!("weir: 1\nsharing: fill\nnetwork:\n  nic: 100Mb/s\n  racks:\n{racks}services:\n{services}");
    let text = format!(
        "scenario: 1\nname: small\npolicy: p.yaml\nseed: 1\nduration: 10s\n{rest}\
         links: {{ delay: 10us, buffer: 100kB, mtu: 1500B, spines: 1 }}\n\
         traffic:\n{traffic}measure: {{ rack: a, direction: tx, every: 200ms }}\n"
    );
    read(&policy, text)
}

const BROKERS: &str = "brokers: { period: 200ms, timeout: 1s, fabric-period: 1s, fabric-timeout: 5s }\n";

/// The mean of `of` over time, summed over the hosts whose names begin with one of `hosts`, in
/// Mb/s.
fn mean(outcome: &RunOutcome, hosts: &[&str], (from, to): (f64, f64), of: fn(&MeterSample) -> u64) -> f64 {
    let results = &outcome.results;
    let at = |sample: &MeterSample| sample.at.picos() as f64 / 1e12;
    let chosen = |sample: &&MeterSample| {
        let name = &results.hosts[sample.host.index()];
        hosts.iter().any(|host| name.starts_with(host)) && at(sample) > from + 1e-9 && at(sample) < to + 1e-9
    };
    let bytes: u64 = results.meter_samples.iter().filter(chosen).map(of).sum();
    bytes as f64 * 8.0 / (to - from) / 1e6
}

fn sent(outcome: &RunOutcome, hosts: &[&str], window: (f64, f64)) -> f64 {
    mean(outcome, hosts, window, |sample| sample.sent)
}

fn received(outcome: &RunOutcome, hosts: &[&str], window: (f64, f64)) -> f64 {
    mean(outcome, hosts, window, |sample| sample.received)
}

fn near(what: &str, found: f64, expected: f64, percent: f64) {
    assert!((found - expected).abs() <= expected * percent / 100.0, "{what}: {found:.1} Mb/s, not {expected:.1}");
}

const TO_C: &str =
    "  - { service: s, from: [a1, a2, b1, b2], to: [c1, c2], pattern: full-mesh, flows: 2, start: 0s, stop: 10s }\n";

/// A policy's machine limits hold without any broker.
#[test]
fn a_machine_receives_up_to_its_limit() {
    let services = "  s: { match: [ { port: 80 } ], machine: { rx: { max: 50Mb/s } } }\n";
    for enforcement in ["shaper", "eyeq", "parley"] {
        let outcome = run_with(&scenario(services, &format!("enforcement: {enforcement}\n"), TO_C), 1, true);
        for host in ["c1", "c2"] {
            near(&format!("{enforcement}, {host}"), received(&outcome, &[host], (2.0, 10.0)), 50.0, 3.0);
        }
        assert_eq!(outcome.brokers.sent > 0, enforcement == "parley");
    }
    let none = run_with(&scenario(services, "enforcement: none\n", TO_C), 1, true);
    assert!(none.results.meter_samples.is_empty() && none.results.services.is_empty());
}

/// Shapers pace an interface to the machine's cap, and divide the cap, as on Linux; a link that is slower for a time
/// sends at its own rate.
#[test]
fn a_machine_sends_up_to_its_cap() {
    let services = "  s: { match: [ { port: 80 } ], machine: { tx: { min: 30Mb/s } } }\n  \
                    t: { match: [ { port: 81 } ] }\ncaps: { machine: { tx: 50Mb/s } }\n";
    let traffic = "  - { service: s, from: a1, to: c1, flows: 1 }\n  - { service: t, from: a1, to: c2, flows: 4 }\n";
    let events = "events:\n  - { at: 6s, do: rate, link: \"a1->a\", rate: 20Mb/s }\n  \
                  - { at: 8s, do: rate, link: \"a1->a\", rate: 100Mb/s }\n";
    let outcome = run_with(&scenario(services, &format!("enforcement: shaper\n{events}"), traffic), 1, true);
    let of = |service: u32, window: (f64, f64)| {
        let chosen = |sample: &MeterSample| if sample.service == service { sample.sent } else { 0 };
        let at = |sample: &MeterSample| sample.at.picos() as f64 / 1e12;
        let within =
            outcome.results.meter_samples.iter().filter(|sample| at(sample) > window.0 && at(sample) < window.1);
        within.map(chosen).sum::<u64>() as f64 * 8.0 / (window.1 - window.0) / 1e6
    };
    near("the guarantee", of(0, (2.1, 6.1)), 30.0, 5.0);
    near("the rest of the cap", of(1, (2.1, 6.1)), 20.0, 5.0);
    near("a slower link", sent(&outcome, &["a1"], (6.4, 8.0)), 20.0, 3.0);
    near("the cap again", sent(&outcome, &["a1"], (8.4, 10.0)), 50.0, 3.0);
}

/// A rack's receive limit reaches the receive meters.
#[test]
fn a_rack_receives_up_to_its_limit() {
    let services = "  s: { match: [ { port: 80 } ], rack: { rx: { max: 60Mb/s } } }\n";
    let outcome = run_with(&scenario(services, BROKERS, TO_C), 1, true);
    near("the rack", received(&outcome, &["c"], (3.0, 10.0)), 60.0, 5.0);
    let last = outcome.results.meter_samples.iter().rev();
    let capacities: Vec<_> = last.filter(|sample| sample.host.0 >= 6).take(2).map(|sample| sample.capacity).collect();
    assert!(capacities.iter().all(|capacity| capacity.is_some_and(|rate| rate.bps() < 40_000_000)), "{capacities:?}");
}

/// All machines of a rack lose their brokers: the last limits stay for the timeout, then the static
/// policy holds, until the brokers are back.
#[test]
fn without_brokers_limits_end_after_the_timeout() {
    let services = "  s: { match: [ { port: 80 } ], rack: { tx: { max: 20Mb/s } } }\n";
    let events = "events:\n  - { at: 4s, do: crash, broker: a }\n  - { at: 7s, do: restart, broker: a }\n";
    let outcome = run_with(&scenario(services, &format!("{BROKERS}{events}"), TO_C), 1, true);
    near("limited", sent(&outcome, &["a"], (2.0, 4.0)), 20.0, 10.0);
    near("still limited", sent(&outcome, &["a"], (4.0, 4.8)), 20.0, 10.0);
    // Two of the rack's four machines send: half of the maximum.
    near("the static policy", sent(&outcome, &["a"], (5.4, 7.0)), 10.0, 10.0);
    near("limited again", sent(&outcome, &["a"], (8.0, 10.0)), 20.0, 10.0);
    assert!(outcome.brokers.unreceived > 0 || outcome.brokers.received < outcome.brokers.sent, "{:?}", outcome.brokers);
}

/// Two of four brokers stop. Their last reports stay valid at the others, which keep their parts;
/// after the timeout, those take all of the maximum, while the two machines have their parts of it.
#[test]
fn reports_of_silent_machines_last_until_the_timeout() {
    let services = "  s: { match: [ { port: 80 } ], rack: { tx: { max: 60Mb/s } } }\n";
    let traffic = TO_C.replace("[a1, a2, b1, b2]", "a");
    let events = "events: [ { at: 4s, do: crash, broker: [a3, a4] } ]\n";
    for (stale, part) in [("keep", 15.0), ("forget", 30.0)] {
        let brokers = BROKERS.replace(" }", &format!(", stale: {stale} }}"));
        let outcome = run_with(&scenario(services, &format!("{brokers}{events}"), &traffic), 1, true);
        for host in ["a1", "a2", "a3", "a4"] {
            near(&format!("{stale}, {host} before"), sent(&outcome, &[host], (2.0, 4.0)), 15.0, 5.0);
        }
        near(&format!("{stale}, a3 at first"), sent(&outcome, &["a3"], (4.0, 4.8)), 15.0, 5.0);
        for host in ["a1", "a2"] {
            near(&format!("{stale}, {host} after"), sent(&outcome, &[host], (6.0, 10.0)), part, 5.0);
        }
        near(&format!("{stale}, a3 and a4 after"), sent(&outcome, &["a3", "a4"], (6.0, 10.0)), 30.0, 5.0);
    }
}

/// A limit over all racks, and another one later. The fabric broker crashes and returns before its
/// timeout without an effect.
#[test]
fn the_fabric_limit_holds_over_three_racks() {
    let services = "  s: { match: [ { port: 80 } ], fabric: { tx: { max: 60Mb/s } } }\n";
    let events = "events:\n  - { at: 5s, policy: \"services.s.fabric.tx.max=30Mb/s\" }\n  - { at: 8s, do: crash, \
                  broker: fabric }\n";
    let around: String = [("a", "b"), ("b", "c"), ("c", "a")]
        .map(|(from, to)| {
            format!(
                "  - {{ service: s, from: {from}, to: {to}, pattern: full-mesh, flows: 2, start: 0s, stop: 10s }}\n"
            )
        })
        .concat();
    let outcome = run_with(&scenario(services, &format!("{BROKERS}{events}"), &around), 1, true);
    near("60", sent(&outcome, &["a", "b", "c"], (4.0, 5.0)), 60.0, 5.0);
    near("30", sent(&outcome, &["a", "b", "c"], (8.0, 10.0)), 30.0, 5.0);
}

/// Repeated runs are equal, and observing a run changes nothing.
#[test]
fn runs_repeat_with_checkers_on_and_off() {
    let services =
        "  s: { match: [ { port: 80 } ], machine: { rx: { max: 70Mb/s } }, rack: { tx: { max: 90Mb/s } } }\n";
    for enforcement in ["shaper", "eyeq", "parley"] {
        let scenario = scenario(services, &format!("enforcement: {enforcement}\n{BROKERS}"), TO_C);
        let (one, other) = (run_with(&scenario, 1, false), run_with(&scenario, 1, true));
        assert!(one == other, "{enforcement}");
        assert!(one == run_with(&scenario, 1, false), "{enforcement}");
        assert!(one.results.simulated == SimTime::from_secs(10) && !one.results.meter_samples.is_empty());
    }
}
