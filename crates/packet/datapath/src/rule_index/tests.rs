use super::dimensions::{Dimension, choose};
use super::{build, cover, hash};
use crate::abi::{
    INDEX_END, INDEX_LAST, INDEX_SLOTS, INDEX_VNI_KEY, IndexSlot, RULE_ADDRESS, RULE_DSCP, RULE_PORTS, RULE_PRIORITY,
    RULE_PROTOCOL, Rule, RuleIndex,
};

fn port(first: u16, last: u16) -> Rule {
    Rule { fields: RULE_PORTS, port_first: first, port_last: last, ..Rule::default() }
}

fn tcp(rule: Rule) -> Rule {
    Rule { fields: rule.fields | RULE_PROTOCOL, protocol: 6, ..rule }
}

fn dscp(rule: Rule, dscp: u8) -> Rule {
    Rule { fields: rule.fields | RULE_DSCP, dscp, ..rule }
}

/// Of 10.0.x.y/32 by number.
fn guest(rule: Rule, number: u32) -> Rule {
    let words = [0, 0xffff << 32 | u64::from(0x0a00_0000 + number)].map(u64::to_be);
    Rule { fields: rule.fields | RULE_ADDRESS, address: words, mask: [u64::MAX; 2], family: 4, ..rule }
}

#[test]
fn the_worked_example_of_covers() {
    let rules = [tcp(port(443, 443)), dscp(tcp(port(400, 500)), 46), port(443, 443), port(1, 1000)];
    assert_eq!(cover::uncovered(&rules, 0..4, RULE_PORTS), (vec![0], Some(2)));
    assert_eq!(cover::uncovered(&rules, 0..2, RULE_PORTS | RULE_PROTOCOL), (vec![], Some(0)));
    // As no port is given, the second rule has packets that the first does not match.
    assert_eq!(cover::uncovered(&rules, 0..4, 0), (vec![0, 1, 2, 3], None));
}

#[test]
fn the_worked_example_of_dimensions() {
    let mut rules: Vec<Rule> = (0..4000).map(|number| guest(port(443, 443), number)).collect();
    rules.extend([tcp(port(8000, 8099)), port(9000, 9000)]);
    let chosen = choose(&rules);
    assert!(chosen[..4000].iter().all(|of| *of == Dimension::Addresses));
    assert_eq!(chosen[4000..], [Dimension::Ports; 2]);
    // One rule is compared faster than two ports are looked up.
    assert_eq!(choose(&rules[..4001])[4000], Dimension::None);
}

#[test]
fn lists_end_with_the_rule_that_matches_all_their_packets() {
    let priority = Rule { fields: RULE_PRIORITY, ..Rule::default() };
    let rules = [tcp(port(80, 80)), dscp(port(80, 90), 46), port(80, 80), port(90, 90), priority];
    let index = build(&rules).expect("an index");
    let list = |reference: u16| -> Vec<u16> {
        let list = &index.lists[usize::from(reference)..];
        let end = list.iter().position(|number| u32::from(*number) & INDEX_LAST != 0).expect("an end");
        list[..=end].to_vec()
    };
    let last = |number: u16| INDEX_LAST as u16 | number;
    let [of_tcp, of_udp, of_other] = index.ports.each_ref();
    assert_eq!(of_tcp[80], last(0), "no list, as the first rule matches all");
    assert_eq!(list(of_udp[80]), [1, last(2)]);
    assert_eq!(of_other[80], of_udp[80], "equal lists are one");
    assert_eq!(list(of_tcp[85]), [1, INDEX_END as u16]);
    assert_eq!(list(of_tcp[90]), [1, last(3)]);
    assert_eq!((of_tcp[79], of_tcp[91], of_udp[0], of_other[65_535]), (0, 0, 0, 0));
    assert_eq!(list(index.linear as u16), [4, INDEX_END as u16]);
}

#[test]
fn no_packet_reaches_a_rule_after_one_that_matches_all() {
    let mut rules = vec![port(80, 80), Rule::default()];
    rules.extend((0..300).map(|i| Rule { fields: RULE_PRIORITY, priority: i, ..Rule::default() }));
    let index = build(&rules).expect("the priorities are not reached");
    assert_eq!((index.count, index.dimensions), (302, 0));
}

/// A table of three quarters of its slots has a place for every key, and more keys are refused.
#[test]
fn full_tables_have_no_collision() {
    let entry = |vni: u64| IndexSlot { key: [vni, 0], kind: INDEX_VNI_KEY, found: vni as u32 };
    let most = u64::from(INDEX_SLOTS) / 4 * 3;
    let entries: Vec<IndexSlot> = (0..most).map(entry).collect();
    let mut index = bytemuck::zeroed_box::<RuleIndex>();
    hash::place(&mut index, &entries).expect("a place for each");
    let mut placed: Vec<u64> = index.slots.iter().filter(|slot| slot.kind != 0).map(|slot| slot.key[0]).collect();
    placed.sort_unstable();
    assert_eq!(placed, (0..most).collect::<Vec<_>>());
    assert!(hash::place(&mut index, &(0..=most).map(entry).collect::<Vec<_>>()).is_none());
}
