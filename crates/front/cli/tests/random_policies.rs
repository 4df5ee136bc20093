//! What services get on Linux under random policies, beside their shares in `weir allocate`: the
//! policies of the simulator's harness, with real agents and real TCP and UDP, by `weir lab`.
//!
//! The lab has no fabric broker, so nothing is drawn for the fabric. It measures the uplink of one
//! rack: the one with most loads.
//!
//! Environment: `WEIR_POLICIES` is the number of policies (10), `WEIR_FIRST_POLICY` the first seed
//! (1). Each policy's seed is printed; with `WEIR_SECONDS` also the policy and every second.

mod common;

use common::{one_at_a_time, skipped, weir};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use weir_random_policies::{Amount, RandomPolicy, draw_without_fabric};
use weir_units::{Bandwidth, ContentionPoint, RackId, ServiceId};

/// The length of a run in seconds: brokers and TCP settle within some.
const SECONDS: u64 = 40;
/// The seconds after which maxima must hold in every second.
const SETTLED: usize = 2;
/// On processors that all hosts share, a rate within a tenth counts as met.
const TOLERANCE: f64 = 0.1;
/// Rates below are those of a few dozen packets a second.
const LEAST: u64 = 500_000;

/// The rack with most loads.
fn busiest(drawn: &RandomPolicy) -> RackId {
    let mut loads: BTreeMap<RackId, usize> = BTreeMap::new();
    for load in &drawn.loads {
        *loads.entry(drawn.policy.network().machine(load.machine).rack()).or_default() += 1;
    }
    let most = loads.iter().max_by_key(|(_, loads)| **loads);
    *most.expect("a policy has traffic").0
}

/// What a leaf service is due at the rack, and the traffic that demands it.
#[derive(Default)]
struct Due {
    bps: u64,
    flows: u32,
    udp: Vec<Bandwidth>,
}

fn due(drawn: &RandomPolicy, rack: RackId) -> BTreeMap<ServiceId, Due> {
    let mut due: BTreeMap<ServiceId, Due> = BTreeMap::new();
    for (load, rate) in drawn.loads.iter().zip(drawn.due(|_, _| Bandwidth::ZERO)) {
        if drawn.policy.network().machine(load.machine).rack() == rack {
            let entry = due.entry(load.service).or_default();
            entry.bps += rate.bps();
            match load.amount {
                Amount::Backlogged { flows } => entry.flows += flows,
                Amount::Constant(rate) => entry.udp.push(rate),
            }
        }
    }
    due
}

/// The result of the lab's run.
fn measured(drawn: &RandomPolicy, rack: RackId) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("policy.yaml"), &drawn.text).expect("written");
    let path = directory.path().join("drawn.scenario.yaml");
    let text = format!(
        "scenario: 1\nname: drawn\npolicy: policy.yaml\nduration: {SECONDS}s\n\
         links: {{ buffer: 256kB, mtu: 1500B }}\ntraffic:\n{}measure: {{ rack: {}, direction: {}, every: 1s }}\n",
        drawn.traffic(),
        drawn.policy.network().rack(rack).name(),
        drawn.direction
    );
    fs::write(&path, text).expect("written");
    let output = weir(&["lab", "--json"]).arg(&path).output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "seed {}: {errors}\n{}", drawn.seed, drawn.text);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The verdict on one policy.
struct Verdict {
    services: usize,
    /// Services within [`TOLERANCE`] of the due rate in the second half.
    met: usize,
    /// The largest ratio of a second to a maximum at the rack, with its place.
    above: (f64, String),
}

fn judge(drawn: &RandomPolicy) -> Verdict {
    let rack = busiest(drawn);
    let result = measured(drawn, rack);
    let services = drawn.policy.services();
    let mut verdict = Verdict { services: 0, met: 0, above: (0.0, String::new()) };
    for (id, Due { bps, flows, udp }) in due(drawn, rack) {
        let path = services.get(id).path();
        let rate = result["policy"]["phases"][0]["settled_bps"][path].as_u64().unwrap_or(0);
        let is_met = rate.abs_diff(bps) as f64 <= TOLERANCE * bps as f64 || (bps < LEAST && rate < LEAST);
        (verdict.services, verdict.met) = (verdict.services + 1, verdict.met + usize::from(is_met));
        let mark = if is_met { "" } else { "  <--" };
        println!("  {path:6} {flows:2} flows, udp {udp:?}: due {} got {} kb/s{mark}", bps / 1000, rate / 1000);
    }
    let seconds = result["policy"]["samples"].as_array().expect("samples");
    let sum = |id: ServiceId, second: &Value| -> u64 {
        let within =
            |leaf: ServiceId| std::iter::successors(Some(leaf), |at| services.get(*at).parent()).any(|at| at == id);
        let leaves = services.leaves().filter(|(leaf, _)| within(*leaf));
        leaves.filter_map(|(_, leaf)| second["bandwidth_bps"][leaf.path()].as_u64()).sum()
    };
    for (id, service) in services.iter() {
        let max = service.share(ContentionPoint::Rack, drawn.direction).max;
        let rates: Vec<u64> = seconds.iter().map(|second| sum(id, second)).collect();
        if std::env::var_os("WEIR_SECONDS").is_some() {
            let kbps: Vec<u64> = rates.iter().map(|rate| rate / 1000).collect();
            println!("  {}: {kbps:?} kb/s", service.path());
        }
        for (second, rate) in rates.iter().enumerate().skip(SETTLED).filter(|_| !max.is_unlimited()) {
            let ratio = *rate as f64 / max.bps() as f64;
            if ratio > verdict.above.0 {
                verdict.above = (ratio, format!("{} ({max}), second {second}", service.path()));
            }
        }
    }
    verdict
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
#[ignore = "takes a quarter of an hour on an idle machine: make policies-lab"]
fn random_policies_give_due_rates_on_linux() {
    if skipped("random policies on Linux") {
        return;
    }
    let _turn = one_at_a_time();
    let first = number("WEIR_FIRST_POLICY", 1);
    let (mut services, mut met) = (0, 0);
    let (mut deviating, mut exceeding) = (Vec::new(), Vec::new());
    for seed in first..first + number("WEIR_POLICIES", 10) {
        let drawn = draw_without_fabric(seed);
        let racks = drawn.policy.network().racks().len() - 1;
        let machines = drawn.policy.network().machines().len() - weir_random_policies::FAR_MACHINES;
        println!("seed {seed}: {machines} machines in {racks} racks, {}", drawn.direction);
        if std::env::var_os("WEIR_SECONDS").is_some() {
            println!("{}{}", drawn.text, drawn.traffic());
        }
        let verdict = judge(&drawn);
        (services, met) = (services + verdict.services, met + verdict.met);
        if verdict.met < verdict.services {
            deviating.push(seed);
        }
        let (ratio, place) = verdict.above;
        if ratio > 0.0 {
            println!("  at most {ratio:.2} times the maximum of {place}");
        }
        if ratio > 1.1 {
            exceeding.push(seed);
        }
    }
    println!("{met} of {services} services within a tenth; others: {deviating:?}; maxima exceeded: {exceeding:?}");
    assert!(met * 100 >= services * 90, "{met} of {services} services are within a tenth: seeds {deviating:?}");
    assert!(exceeding.is_empty(), "a maximum is exceeded in a second: seeds {exceeding:?}");
}
