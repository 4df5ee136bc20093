//! The lists of ports: each port of a protocol has the list of all ranges that contain it.
//!
//! Worked example: `tcp 7000-7099` and `port 7050` give TCP's ports 7000 to 7099 a list that the first rule ends, and
//! port 7050 of UDP and of other protocols one that the second ends.

use super::{Builder, Longest, Unindexed};
use crate::abi::{
    INDEX_OTHER, INDEX_PORT_COUNT, INDEX_TCP, INDEX_UDP, PROTOCOL_TCP, PROTOCOL_UDP, RULE_PORTS, RULE_PROTOCOL, Rule,
};
use std::collections::{BTreeMap, BTreeSet};

/// The tables of ports, with their protocol and its name.
const TABLES: [(u32, Option<u32>, &str); 3] = [
    (INDEX_TCP, Some(PROTOCOL_TCP), "TCP port"),
    (INDEX_UDP, Some(PROTOCOL_UDP), "UDP port"),
    (INDEX_OTHER, None, "port"),
];

/// Whether a rule for ports is in the table of a protocol, or of all without a table.
fn is_in(rule: &Rule, protocol: Option<u32>) -> bool {
    let own = TABLES.iter().filter_map(|(_, protocol, _)| *protocol).find(|of| *of == u32::from(rule.protocol));
    rule.fields & RULE_PROTOCOL == 0 || own == protocol
}

impl Builder<'_> {
    /// Writes the lists of the rules that are indexed by their ports.
    pub(super) fn ports(&mut self, numbers: &[u16]) -> Result<Longest, Unindexed> {
        let mut longest = Longest::default();
        for (table, protocol, name) in TABLES {
            let given = if protocol.is_some() { RULE_PORTS | RULE_PROTOCOL } else { RULE_PORTS };
            let changes = self.changes(numbers, protocol);
            let ends = changes.keys().copied().skip(1).chain([INDEX_PORT_COUNT]).collect::<Vec<_>>();
            let mut containing = BTreeSet::new();
            for ((first, changed), end) in changes.into_iter().zip(ends) {
                for number in changed {
                    if !containing.remove(&number) {
                        containing.insert(number);
                    }
                }
                // The last change may be behind the last port.
                if first < end {
                    let key = || format!("{name} {first}");
                    let list = self.list(containing.iter().copied(), given, &mut longest, key)?;
                    self.index.ports[table as usize][first as usize..end as usize].fill(list);
                }
            }
        }
        Ok(longest)
    }

    /// At a port, the rules of a protocol whose range begins or is over.
    fn changes(&self, numbers: &[u16], protocol: Option<u32>) -> BTreeMap<u32, Vec<u16>> {
        let mut changes = BTreeMap::<u32, Vec<u16>>::new();
        for &number in numbers {
            let rule = &self.rules[usize::from(number)];
            if is_in(rule, protocol) {
                changes.entry(rule.port_first.into()).or_default().push(number);
                changes.entry(u32::from(rule.port_last) + 1).or_default().push(number);
            }
        }
        changes
    }
}
