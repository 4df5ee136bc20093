//! Files of placements: what follows from the places, and is not what follows, is refused with its position.

use std::sync::Arc;
use weir_document::Source;
use weir_placement::{Fabric, file};
use weir_policy::Policy;

/// Two machines on one switch.
const POLICY: &str = "weir: 1
network:
  slots: 8
  nic: 1Gb/s
  switches: { queues: 8, scheduler: weighted }
  racks: { r: { uplink: 1Gb/s, machines: [m1, m2] }, s: { uplink: 1Gb/s, machines: [m3, m4] } }
tenant-queues: { reserved-dscp: [7] }
tenants:
  red: { vms: 2, bandwidth: 100Mb/s, match: [ { vni: 1 } ] }
  blue: { vms: 2, bandwidth: 50Mb/s, match: [ { vni: 2 } ] }
";

/// `red` and `blue` in one rack each or both on `m1` and `m2`, on lines of their own.
fn placement([a, b]: [&str; 2], values: [u8; 2], links: &str) -> String {
    let blue_tree = if a == "m1" { "r" } else { "s" };
    format!(
        r#"{{ "placement": 1, "tenants": [
{{ "tenant": "red", "tree": "r", "vms": [ {{ "vm": "red-0", "machine": "m1" }}, {{ "vm": "red-1", "machine": "m2" }} ],
  "dscp": {},
  "links": [ {links} ] }},
{{ "tenant": "blue", "tree": "{blue_tree}", "vms": [
  {{ "vm": "blue-0", "machine": "{a}" }}, {{ "vm": "blue-1", "machine": "{b}" }} ],
  "dscp": {} }} ] }}
"#,
        values[0], values[1]
    )
}

/// The links of `red` with these reservations.
fn links(bps: [u64; 4]) -> String {
    let names = ["m1->r", "r->m1", "m2->r", "r->m2"].into_iter().zip(bps);
    let links: Vec<String> =
        names.map(|(link, bps)| format!(r#"{{ "link": "{link}", "reserved_bps": {bps} }}"#)).collect();
    links.join(", ")
}

/// The refusal of a file, and the remarks of a placement that continues it.
fn outcome(policy: &str, written: &str) -> (Option<String>, Vec<String>) {
    let (policy, _) = Policy::from_source(&Source::from_text("policy.yaml", policy)).expect("a policy");
    let graph = policy.graph();
    let fabric = Fabric::of_policy(&policy, &graph);
    let source: Arc<Source> = Source::from_text("placed.json", written);
    let refusal = file::read(&source, &policy, &graph, &fabric).err().map(|errors| errors.render(false));
    let (entries, notes) = file::read_to_continue(&source, &policy, &graph, &fabric).expect("continued");
    assert_eq!(entries.len(), 2);
    (refusal, notes.iter().map(|note| note.cause().to_owned()).collect())
}

#[test]
fn reservations_and_values_that_do_not_follow_are_refused() {
    const HUNDRED: [u64; 4] = [100_000_000; 4];
    let together = ["m1", "m2"];
    let apart = ["m3", "m4"];
    let per_switch = POLICY.replace("scheduler: weighted", "scheduler: weighted, dscp-map: switch");
    let good = [
        (POLICY, placement(together, [1, 2], &links(HUNDRED))),
        (POLICY, placement(apart, [1, 1], &links(HUNDRED))),
        (&per_switch, placement(apart, [1, 1], &links(HUNDRED))),
    ];
    for (policy, written) in &good {
        assert_eq!(outcome(policy, written), (None, Vec::new()), "{written}");
    }
    let more = format!(r#"{}, {{ "link": "r->core", "reserved_bps": 1 }}"#, links(HUNDRED));
    let fewer = r#"{ "link": "m1->r", "reserved_bps": 100000000 }"#;
    let cases = [
        (placement(together, [1, 1], ""), "7:11", "tenants `red` and `blue` pass one link m1->r with the DSCP value 1"),
        (placement(apart, [48, 1], &links(HUNDRED)), "3:11", "tenant `red` cannot have the DSCP value 48"),
        (placement(apart, [1, 7], &links(HUNDRED)), "7:11", "tenant `blue` cannot have the DSCP value 7"),
        (
            placement(apart, [1, 1], &links([100_000_000, 100_000_000, 99, 100_000_000])),
            "4:145",
            "tenant `red` reserves 100000000 bit/s of m2->r, not 99",
        ),
        (placement(apart, [1, 1], &more), "4:216", "tenant `red` has no reservation on `r->core`"),
        (placement(apart, [1, 1], fewer), "4:12", "tenant `red` reserves 100 Mb/s of m2->r, which is not listed"),
    ];
    for (written, position, cause) in cases {
        let (refusal, notes) = outcome(POLICY, &written);
        let refusal = refusal.expect("refused");
        assert!(refusal.contains(cause) && refusal.contains("`weir place --placed`"), "{refusal}");
        assert!(refusal.contains(&format!("placed.json:{position}\n")), "{refusal}");
        assert!(notes.iter().any(|note| note == cause), "{notes:?}");
    }
}

/// Tenants on different ports of one switch have different values where the switch has one map.
#[test]
fn one_map_of_a_switch_has_one_tenant_for_each_value() {
    let one_rack =
        POLICY.replace("machines: [m1, m2] }, s: { uplink: 1Gb/s, machines: [m3, m4] }", "machines: [\"m[1-4]\"] }");
    let written = placement(["m3", "m4"], [1, 1], "")
        .replace("\"s\"", "\"r\"")
        .replace("  \"links\": [  ] }", "  \"links\": [ ] }");
    let written = written.replace(",\n  \"links\": [ ] }", " }");
    assert_eq!(outcome(&one_rack, &written), (None, Vec::new()), "one map for each port");
    let per_switch = one_rack.replace("scheduler: weighted", "scheduler: weighted, dscp-map: switch");
    let (refusal, _) = outcome(&per_switch, &written);
    let cause = "tenants `red` and `blue` pass one switch with the DSCP value 1";
    assert!(refusal.expect("refused").contains(cause));
}
