//! Rules that no packet reaches, since an earlier rule of the list matches all of their packets.
//!
//! In the list of a field's value all packets match by this field, so it is not compared here. Of ports and addresses
//! either end of a packet may match: a packet that is within a range or prefix at one end is within a larger one too.
//!
//! Worked example: in the list of port 443, `port 443 protocol tcp` covers `port 400-500 protocol tcp dscp 46`, and
//! not `port 443`.

use super::addresses::Prefix;
use crate::abi::{
    COMPARISONS_MAX, RULE_ADDRESS, RULE_CGROUP, RULE_DSCP, RULE_INTERFACE, RULE_PORTS, RULE_PRIORITY, RULE_PROTOCOL,
    RULE_VNI, Rule,
};

/// Of rules in the order of the policy, those to compare in a list by the field `given` (0: none), and the first rule
/// that matches all packets of the list, if any: then no packet reaches one after it. Rules that an earlier one covers
/// are left out. Ends when there are more than a packet may be compared with.
pub(super) fn uncovered(rules: &[Rule], numbers: impl IntoIterator<Item = u16>, given: u8) -> (Vec<u16>, Option<u16>) {
    let mut compared: Vec<u16> = Vec::new();
    for number in numbers {
        let rule = &rules[usize::from(number)];
        if rule.fields & !given == 0 {
            return (compared, Some(number));
        }
        if !compared.iter().any(|earlier| covers(&rules[usize::from(*earlier)], rule, given)) {
            compared.push(number);
        }
        if compared.len() > COMPARISONS_MAX as usize {
            break;
        }
    }
    (compared, None)
}

/// Whether `wide` matches every packet that `narrow` does, among packets that both match by the field `given`.
fn covers(wide: &Rule, narrow: &Rule, given: u8) -> bool {
    let fields = wide.fields & !given;
    if fields & !narrow.fields != 0 {
        return false;
    }
    let equal = |field, equal: bool| fields & field == 0 || equal;
    let wider_ports = || wide.port_first <= narrow.port_first && narrow.port_last <= wide.port_last;
    equal(RULE_PROTOCOL, wide.protocol == narrow.protocol)
        && equal(RULE_DSCP, wide.dscp == narrow.dscp)
        && equal(RULE_VNI, wide.vni == narrow.vni)
        && equal(RULE_PRIORITY, wide.priority == narrow.priority)
        && equal(RULE_CGROUP, wide.cgroups == narrow.cgroups)
        && equal(RULE_INTERFACE, wide.interface == narrow.interface)
        && (fields & RULE_PORTS == 0 || wider_ports())
        && (fields & RULE_ADDRESS == 0 || Prefix::of(wide).contains(&Prefix::of(narrow)))
}
