//! The published allocations of Parley, from policies as an operator writes them.

use std::sync::Arc;
use weir_alloc::{Allocation, NetworkShares, allocate};
use weir_policy::{Demands, Policy};
use weir_units::{Bandwidth, Direction};

fn policy(text: &str) -> Arc<Policy> {
    Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0)
}

fn shares(policy: &Arc<Policy>, demands: &str) -> NetworkShares {
    let demands = Demands::parse(policy, "demands.csv", demands).expect("the demands are valid");
    allocate(policy, |machine, service, direction| demands.get(machine, service, direction))
}

/// `m1,dfs,tx → 4 Gb/s, rack r1` for each instance, in order.
fn table(policy: &Arc<Policy>, demands: &str) -> Vec<String> {
    let line = |a: &Allocation| {
        let machine = policy.network().machine(a.machine).name();
        let service = policy.services().get(a.service).path();
        format!("{machine},{service},{} → {}, {}", a.direction, a.allocation, a.decided_by.display(policy))
    };
    shares(policy, demands).allocations.iter().map(line).collect()
}

const FIG_1: &str = r#"
weir: 1
network:
  nic: 10Gb/s
  racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } }
services:
  dfs:
    match: [ { protocol: tcp, port: 7000-7099 } ]
    machine: { min: 3Gb/s }
    rack:    { min: 6Gb/s, weight: 2 }
  vm:
    match: [ { interface: "tap*" } ]
    machine: { max: 1Gb/s }
    rack:    { max: 1Gb/s }
caps: { rack: 9Gb/s }
"#;

#[test]
fn fig_1_everything_active() {
    let demands = "m1,dfs,tx,unlimited\nm2,dfs,tx,unlimited\nm1,vm,tx,unlimited\nm2,vm,tx,unlimited\n";
    assert_eq!(
        table(&policy(FIG_1), demands),
        [
            "m1,dfs,tx → 4 Gb/s, rack r1",
            "m1,vm,tx → 500 Mb/s, max of vm at rack",
            "m2,dfs,tx → 4 Gb/s, rack r1",
            "m2,vm,tx → 500 Mb/s, max of vm at rack",
        ]
    );
}

#[test]
fn fig_1_an_idle_minimum_is_no_reservation() {
    // M2's DFS is idle, its machine minimum of 3 with it: M1's DFS gets 8.
    let demands = "m1,dfs,tx,unlimited\nm1,vm,tx,unlimited\nm2,vm,tx,unlimited\n";
    assert_eq!(table(&policy(FIG_1), demands)[0], "m1,dfs,tx → 8 Gb/s, rack r1");
}

#[test]
fn fig_1_no_virtual_machine_active() {
    let policy = policy(FIG_1);
    assert_eq!(table(&policy, "m1,dfs,tx,unlimited\n"), ["m1,dfs,tx → 9 Gb/s, rack r1"]);
    let both = table(&policy, "m1,dfs,rx,unlimited\nm2,dfs,rx,unlimited\n");
    assert_eq!(both, ["m1,dfs,rx → 4.5 Gb/s, rack r1", "m2,dfs,rx → 4.5 Gb/s, rack r1"]);
}

#[test]
fn fig_1_without_the_star() {
    let policy = policy(&FIG_1.replace("caps: { rack: 9Gb/s }", ""));
    let demands = "m1,dfs,tx,unlimited\nm2,dfs,tx,unlimited\nm1,vm,tx,unlimited\nm2,vm,tx,unlimited\n";
    let table = table(&policy, demands);
    assert_eq!(table[0], "m1,dfs,tx → 4.5 Gb/s, rack r1");
    assert_eq!(table[1], "m1,vm,tx → 500 Mb/s, max of vm at rack");
}

#[test]
fn fig_1_the_rules_agree_with_the_maximum_and_differ_without() {
    let demands = "m1,dfs,tx,unlimited\nm1,vm,tx,unlimited\n";
    // With the maximum of 1 for VM both rules give 8 and 1.
    for sharing in ["add", "fill"] {
        let with = policy(&format!("sharing: {sharing}\n{}", FIG_1.trim_start()));
        let table = table(&with, demands);
        assert_eq!(table[0], "m1,dfs,tx → 8 Gb/s, rack r1");
        assert!(table[1].starts_with("m1,vm,tx → 1 Gb/s, "), "{}", table[1]);
    }
    // Without it, and with nothing at the machine: the excess of 3 by 2:1 gives 8 and 1; a level by
    // 2:1 gives 6 and 3.
    let bare = FIG_1.replace("    machine: { max: 1Gb/s }\n    rack:    { max: 1Gb/s }\n", "");
    let bare = bare.replace("    machine: { min: 3Gb/s }\n", "");
    let spread = "m1,dfs,tx,unlimited\nm2,vm,tx,unlimited\n";
    let add = table(&policy(&bare), spread);
    assert_eq!(add, ["m1,dfs,tx → 8 Gb/s, rack r1", "m2,vm,tx → 1 Gb/s, rack r1"]);
    let fill = table(&policy(&format!("sharing: fill\n{}", bare.trim_start())), spread);
    assert_eq!(fill, ["m1,dfs,tx → 6 Gb/s, rack r1", "m2,vm,tx → 3 Gb/s, rack r1"]);
}

#[test]
fn ten_mapreduce_jobs() {
    // §3.1: each job at most 1 at its machine, all together at most 5 at the rack.
    let text = r#"
weir: 1
network: { nic: 10Gb/s, racks: { r1: { uplink: 40Gb/s, machines: ["m[1-10]"] } } }
services:
  mr: { match: [ { protocol: tcp, port: 9000 } ], machine: { max: 1Gb/s }, rack: { max: 5Gb/s } }
"#;
    let policy = policy(text);
    let active = |n: usize| (1..=n).map(|m| format!("m{m},mr,tx,unlimited\n")).collect::<String>();
    let ten = table(&policy, &active(10));
    assert_eq!((ten.len(), &ten[0][..]), (10, "m1,mr,tx → 500 Mb/s, max of mr at rack"));
    assert!(ten.iter().all(|line| line.contains("→ 500 Mb/s")));
    let three = table(&policy, &active(3));
    assert_eq!(three[2], "m3,mr,tx → 1 Gb/s, max of mr at machine");
    assert_eq!(table(&policy, &active(1)), ["m1,mr,tx → 1 Gb/s, max of mr at machine"]);
}

#[test]
fn fig_5_a_service_shares_its_guarantee_with_nested_services() {
    // DFS at least 30, in it VMs at most 10 and HBase at least 20; S2 at most 10; 50 in all.
    let text = r#"
weir: 1
network: { nic: 100Gb/s, racks: { r1: { uplink: 50Gb/s, machines: [m1, m2] } } }
services:
  dfs:
    rack: { min: 30Gb/s }
    services:
      vms: { match: [ { protocol: tcp, port: 1 } ], rack: { max: 10Gb/s } }
      hb: { match: [ { protocol: tcp, port: 2 } ], rack: { min: 20Gb/s } }
  s2: { match: [ { protocol: tcp, port: 3 } ], rack: { max: 10Gb/s } }
"#;
    let policy = policy(text);
    // All backlogged: S2 its maximum, DFS the other 40: in it VMs their maximum, HBase the rest.
    let all = "m1,dfs/vms,tx,unlimited\nm1,dfs/hb,tx,unlimited\nm2,s2,tx,unlimited\n";
    let expected = [
        "m1,dfs/hb,tx → 30 Gb/s, rack r1",
        "m1,dfs/vms,tx → 10 Gb/s, max of dfs/vms at rack",
        "m2,s2,tx → 10 Gb/s, max of s2 at rack",
    ];
    assert_eq!(table(&policy, all), expected);
    // HBase alone has all that S2 leaves; without HBase, VMs stay at their maximum and 30 are
    // unused.
    let without_vms = table(&policy, "m1,dfs/hb,tx,unlimited\nm2,s2,tx,unlimited\n");
    assert_eq!(without_vms[0], "m1,dfs/hb,tx → 40 Gb/s, rack r1");
    let without_hb = table(&policy, "m1,dfs/vms,tx,unlimited\nm2,s2,tx,unlimited\n");
    assert_eq!(without_hb[0], "m1,dfs/vms,tx → 10 Gb/s, max of dfs/vms at rack");
    // With less to share, DFS keeps its 30 and in it HBase its 20: the others divide the excess.
    let tight = Arc::new(Policy::parse("policy.yaml", &text.replace("50Gb/s", "32Gb/s")).expect("valid").0);
    let tight = table(&tight, all);
    assert_eq!(tight[0], "m1,dfs/hb,tx → 25.5 Gb/s, rack r1");
    assert_eq!(tight[1], "m1,dfs/vms,tx → 5.5 Gb/s, rack r1");
    assert_eq!(tight[2], "m2,s2,tx → 1 Gb/s, rack r1");
}

#[test]
fn a_tenth_of_the_uplink_stays_free_under_a_peak_load_cap() {
    let text = r#"
weir: 1
network: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } } }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], rack: { weight: 1 } }
  b: { match: [ { protocol: tcp, port: 2 } ], rack: { weight: 2 } }
  c: { match: [ { protocol: tcp, port: 3 } ], rack: { weight: 6 } }
caps: { rack: 9Gb/s }
"#;
    let policy = policy(text);
    let all = "m1,a,tx,unlimited\nm1,b,tx,unlimited\nm2,c,tx,unlimited\n";
    let weighted = ["m1,a,tx → 1 Gb/s, rack r1", "m1,b,tx → 2 Gb/s, rack r1", "m2,c,tx → 6 Gb/s, rack r1"];
    assert_eq!(table(&policy, all), weighted);
    // Below the cap no service is limited, and one alone gets no more than the cap.
    assert_eq!(table(&policy, "m1,a,tx,4Gb/s\nm2,c,tx,6Gb/s\n")[0], "m1,a,tx → 3 Gb/s, rack r1");
    assert_eq!(table(&policy, "m1,a,tx,4Gb/s\nm2,c,tx,4Gb/s\n")[0], "m1,a,tx → 4 Gb/s, demand");
    assert_eq!(table(&policy, "m2,c,tx,unlimited\n"), ["m2,c,tx → 9 Gb/s, rack r1"]);
}

const FIG_6: &str = r#"
weir: 1
network: { nic: 100Gb/s, racks: { r: { uplink: 50Gb/s, machines: [m1, m2] } } }
services:
  dfs: { match: [ { protocol: tcp, port: 7000 } ], rack: { min: 30Gb/s } }
  rest:
    rack: { max: 10Gb/s }
    services:
      vm: { match: [ { protocol: tcp, port: 8000 } ] }
      mr: { match: [ { protocol: tcp, port: 9000 } ] }
"#;

const FIG_6_DEMANDS: &str =
    "m1,dfs,tx,2Gb/s\nm2,dfs,tx,3Gb/s\nm1,rest/vm,tx,4Gb/s\nm2,rest/vm,tx,5Gb/s\nm2,rest/mr,tx,2Gb/s\n";

#[test]
fn fig_6() {
    assert_eq!(
        table(&policy(FIG_6), FIG_6_DEMANDS),
        [
            "m1,dfs,tx → 2 Gb/s, demand",
            "m1,rest/vm,tx → 4 Gb/s, max of rest at rack",
            "m2,dfs,tx → 3 Gb/s, demand",
            "m2,rest/mr,tx → 2 Gb/s, demand",
            "m2,rest/vm,tx → 4 Gb/s, max of rest at rack",
        ]
    );
}

#[test]
fn fig_6_headroom_equals_the_figure() {
    // DFS: min 30 against a demand of 5, split 15 and 15; VM 4 and 4, MR 2: their shares.
    let policy = policy(FIG_6);
    let shares = shares(&policy, FIG_6_DEMANDS);
    let headroom = |machine: &str, service: &str| {
        let machine = policy.network().machine_named(machine).expect("a machine");
        let service = policy.services().named(service).expect("a service");
        shares.headroom(&policy, machine, service, Direction::Tx).expect("a leaf")
    };
    let gbps = Bandwidth::from_gbps;
    assert_eq!([headroom("m1", "dfs"), headroom("m2", "dfs")], [gbps(15), gbps(15)]);
    assert_eq!([headroom("m1", "rest/vm"), headroom("m2", "rest/vm")], [gbps(4), gbps(4)]);
    assert_eq!(headroom("m2", "rest/mr"), gbps(2));
}

#[test]
fn capacity_that_a_rack_leaves_on_a_machine_is_used() {
    // Both demand all of m1's 10. The rack limits `a` to 1, so `b` has 9, not its first half.
    let text = r#"
weir: 1
network: { nic: 10Gb/s, racks: { r: { uplink: 40Gb/s, machines: [m1] } } }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], rack: { max: 1Gb/s } }
  b: { match: [ { protocol: tcp, port: 2 } ] }
"#;
    assert_eq!(
        table(&policy(text), "m1,a,tx,unlimited\nm1,b,tx,unlimited\n"),
        ["m1,a,tx → 1 Gb/s, max of a at rack", "m1,b,tx → 9 Gb/s, machine m1"]
    );
}

const FABRIC: &str = r#"
weir: 1
network: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] }, r2: { uplink: 10Gb/s, machines: [m2] } } }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 10Gb/s } }
  b: { match: [ { protocol: tcp, port: 2 } ] }
"#;

#[test]
fn the_fabric_limits_a_service_over_racks() {
    let all = "m1,a,tx,unlimited\nm2,a,tx,unlimited\n";
    let limited = ["m1,a,tx → 5 Gb/s, max of a at fabric", "m2,a,tx → 5 Gb/s, max of a at fabric"];
    assert_eq!(table(&policy(FABRIC), all), limited);
    // Capacity that one rack does not use goes to the other.
    let uneven = table(&policy(FABRIC), "m1,a,tx,2Gb/s\nm2,a,tx,unlimited\nm2,b,tx,1Gb/s\n");
    let expected = ["m1,a,tx → 2 Gb/s, demand", "m2,a,tx → 8 Gb/s, max of a at fabric", "m2,b,tx → 1 Gb/s, demand"];
    assert_eq!(uneven, expected);
}

#[test]
fn a_cap_on_the_fabric() {
    let policy = policy(&format!("{FABRIC}caps: {{ fabric: 12Gb/s }}\n"));
    let table = table(&policy, "m1,b,tx,unlimited\nm2,b,tx,unlimited\n");
    assert_eq!(table, ["m1,b,tx → 6 Gb/s, fabric", "m2,b,tx → 6 Gb/s, fabric"]);
}

/// The guarantee of `a` at a machine exceeds its part of the rack's maximum. On m1, where `b`
/// competes, the first pass gives `a` less than on m2; both are due the same part of 40.
#[test]
fn guarantees_above_a_maximum_shrink_alike_with_and_without_competition() {
    let text = r#"
weir: 1
network: { nic: 100Mb/s, racks: { r1: { uplink: 200Mb/s, machines: [m1, m2] } } }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], machine: { min: 50Mb/s }, rack: { max: 40Mb/s } }
  b: { match: [ { protocol: tcp, port: 2 } ] }
"#;
    assert_eq!(
        table(&policy(text), "m1,a,tx,unlimited\nm2,a,tx,unlimited\nm1,b,tx,unlimited\n"),
        ["m1,a,tx → 20 Mb/s, max of a at rack", "m1,b,tx → 80 Mb/s, machine m1", "m2,a,tx → 20 Mb/s, max of a at rack",]
    );
}

/// The example of the policy's documentation: ten machines of 3 Gb/s guaranteed in a rack that
/// leaves the service 8 Gb/s.
#[test]
fn peers_of_the_documented_policy_share_alike() {
    let text = r#"
weir: 1
network:
  nic: 10Gb/s
  racks: { r1: { uplink: 40Gb/s, machines: ["m[1-10]"] } }
  machines: { m1: { nic: 25Gb/s } }
services:
  dfs:
    match: [ { protocol: tcp, port: 7000-7099 } ]
    machine: { min: 3Gb/s }
    rack:    { min: 6Gb/s, weight: 2, tx: { max: 8Gb/s } }
  batch:
    sharing: fill
    rack: { min: 2Gb/s }
    services:
      mr:    { match: [ { port: 9000 } ], rack: { min: 2Gb/s } }
      spark: { match: [ { port: 9100 } ] }
caps: { rack: 30Gb/s }
"#;
    let policy = policy(text);
    let shares = allocate(
        &policy,
        |_, _, direction| {
            if direction == Direction::Tx { Bandwidth::UNLIMITED } else { Bandwidth::ZERO }
        },
    );
    let dfs = shares.allocations.iter().filter(|a| policy.services().get(a.service).path() == "dfs");
    let found: Vec<Bandwidth> = dfs.map(|a| a.allocation).collect();
    assert_eq!(found, [Bandwidth::from_mbps(800); 10]);
}

/// Guarantees of 8 Gb/s in racks of 10 Gb/s, each of a service in one rack only.
#[test]
fn services_have_guarantees_where_they_run() {
    let text = r#"
weir: 1
network:
  nic: 10Gb/s
  racks: { r1: { uplink: 10Gb/s, machines: [m1] }, r2: { uplink: 10Gb/s, machines: [m2] } }
services:
  a: { match: [ { port: 1 } ], machine: { min: 8Gb/s }, rack: { min: 8Gb/s }, machines: [m1] }
  b: { match: [ { port: 2 } ], machine: { min: 8Gb/s }, rack: { min: 8Gb/s }, machines: [m2] }
  c: { match: [ { port: 3 } ] }
"#;
    let backlogged = "m1,a,tx,unlimited\nm1,c,tx,unlimited\nm2,b,tx,unlimited\nm2,c,tx,unlimited\n";
    assert_eq!(
        table(&policy(text), backlogged),
        [
            "m1,a,tx → 9 Gb/s, machine m1",
            "m1,c,tx → 1 Gb/s, machine m1",
            "m2,b,tx → 9 Gb/s, machine m2",
            "m2,c,tx → 1 Gb/s, machine m2",
        ]
    );
    let refused = Demands::parse(&policy(text), "demands.csv", "m2,a,tx,1Gb/s\n").expect_err("it does not run there");
    assert_eq!(refused.all()[0].cause(), "service `a` does not run on machine `m2`");
}
