//! A policy over topologies other than racks on one spine: machine shapers with rack brokers, and DCTCP.

use crate::support::scenarios::{read, run_with};
use weir_network::graph::LinkRef;
use weir_scenario::{RunResult, Scenario};
use weir_sim::RunOutcome;
use weir_units::{Bandwidth, Direction, Duration, MachineId, RackId};

/// Service `bulk` fills the uplinks of two racks; `web` has a guarantee there, and fewer flows.
const SERVICES: &str = "services:
  web: { match: [ { port: 1 } ], rack: { min: GUARANTEE } }
  bulk: { match: [ { port: 2 } ] }
";

/// Nine racks of 16 hosts of 100 Mb/s, each with 100 Mb/s to each of four spines.
const LEAF_SPINE: &str = "network: { topology: leaf-spine, racks: 9, hosts: 16, spines: 4, \
    host-link: { rate: 100Mb/s, delay: 5us }, oversubscription: 4, queue: { discipline: ecn, mark: 97500B } }\n";

/// 32 racks of four hosts of 100 Mb/s, each with 50 Mb/s to each of four aggregation switches.
const FAT_TREE: &str = "network: { topology: fat-tree, k: 8, host-link: { rate: 100Mb/s, delay: 5us }, \
    oversubscription: 2, queue: { discipline: ecn, mark: 97500B } }\n";

fn policy(network: &str, guarantee: &str) -> String {
    format!("weir: 1\n{network}{}", SERVICES.replace("GUARANTEE", guarantee))
}

/// `web` from one rack to another; `bulk` from that rack to the other one and to a third; with so many flows for each
/// pair of machines.
fn scenario(policy: &str, own: &str, rack: &str, (web, bulk): (u32, u32)) -> Scenario {
    let text = format!(
        "scenario: 1\nname: guarantee\npolicy: p.yaml\nduration: 5s\ntransport: dctcp\n{own}\
         brokers: {{ period: 200ms, timeout: 1s, fabric-period: 1s, fabric-timeout: 5s }}\n\
         traffic:\n  - {{ service: web, from: {rack}0, to: {rack}1, pattern: pairs, flows: {web} }}\n  \
         - {{ service: bulk, from: {rack}0, to: [{rack}1, {rack}2], flows: {bulk} }}\n\
         measure: {{ rack: {rack}0, direction: tx, every: 500ms }}\n"
    );
    read(policy, text)
}

fn run(scenario: &Scenario) -> RunOutcome {
    run_with(scenario, 1, false)
}

/// Asserts that `web` has its guarantee in every sample once brokers have set limits, and that the uplink is used.
fn has_its_guarantee(result: &RunResult, guarantee: Bandwidth, uplink: Bandwidth) {
    let rates = |index: usize| result.samples.iter().map(move |sample| sample.bandwidth[index].1);
    let mbps = |rate: Bandwidth| rate.bps() as f64 / 1e6;
    let all: Vec<[f64; 2]> = rates(1).zip(rates(0)).map(|(web, bulk)| [mbps(web), mbps(bulk)]).collect();
    let holds = |[web, bulk]: &[f64; 2]| *web >= 0.95 * mbps(guarantee) && web + bulk >= 0.85 * mbps(uplink);
    assert!(all.iter().skip(3).all(holds), "{all:.0?}");
}

#[test]
fn a_guarantee_holds_on_a_leaf_spine() {
    let scenario = scenario(&policy(LEAF_SPINE, "240Mb/s"), "", "leaf", (2, 1));
    assert_eq!(scenario.graph().hosts.len(), 144);
    let outcome = run(&scenario);
    has_its_guarantee(&outcome.uplink, Bandwidth::from_mbps(240), Bandwidth::from_mbps(400));
}

/// With few flows some share a link of 50 Mb/s by their hashes while others are empty: the uplinks of a rack count as
/// one pipe only if flows fill all of them.
#[test]
fn a_guarantee_holds_on_a_fat_tree() {
    let scenario = scenario(&policy(FAT_TREE, "120Mb/s"), "", "edge", (16, 16));
    assert_eq!(scenario.graph().hosts.len(), 128);
    let outcome = run(&scenario);
    has_its_guarantee(&outcome.uplink, Bandwidth::from_mbps(120), Bandwidth::from_mbps(200));
}

/// A policy that lists racks gives the same shares over a leaf-spine of other names.
#[test]
fn a_policy_of_racks_runs_over_a_network_of_other_names() {
    let racks = "network:\n  nic: 100Mb/s\n  racks:\n    \
        r0: { uplink: 200Mb/s, machines: [\"a[0-3]\"] }\n    r1: { uplink: 200Mb/s, machines: [\"b[0-3]\"] }\n    \
        r2: { uplink: 200Mb/s, machines: [\"c[0-3]\"] }\n";
    let own = "network: { topology: leaf-spine, racks: 3, hosts: 4, spines: 2, host-link: { rate: 100Mb/s }, \
        oversubscription: 2, queue: { discipline: ecn, mark: 97500B } }\n\
        machines: { \"a[0-3]\": \"h[8-11]\", \"b[0-3]\": \"h[4-7]\", \"c[0-3]\": \"h[0-3]\" }\n";
    let scenario = scenario(&policy(racks, "120Mb/s"), own, "r", (2, 4));
    let graph = scenario.graph();
    assert_eq!(graph.host_named("a0"), Some(MachineId(0)));
    let names = |link: LinkRef| graph.link_name(link);
    let uplinks = graph.rack_uplinks(RackId(0), Direction::Tx).into_iter().map(names);
    assert_eq!(uplinks.collect::<Vec<_>>(), ["r0->spine0", "r0->spine1"]);
    let outcome = run(&scenario);
    assert_eq!(outcome.uplink.samples.len() as u64, Duration::from_secs(5).nanos() / 500_000_000);
    has_its_guarantee(&outcome.uplink, Bandwidth::from_mbps(120), Bandwidth::from_mbps(200));
}
