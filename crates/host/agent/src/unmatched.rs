//! Filters that match nothing on this host now, since it has no such interface of a guest or no such control group.
//!
//! Problem: a glob with a mistake is silent, since no packet matches it. But a policy is for all hosts, and a host
//! without virtual machines is in order. Approach: the status and the log report the globs of the policy in force that
//! match no interface of a guest and no control group, by service, and there is no alarm.
//!
//! Worked example: `vm: { match: [ { interface: "tap*" }, { interface: "vnet*" } ] }` on a host whose guests are called
//! `veth1` and `veth2` gives `vm: no interface of a guest here is called tap* (and 1 more)`.

use std::collections::BTreeSet;
use weir_linux::cgroups::CgroupReading;
use weir_linux::guests::GuestReading;
use weir_policy::{CgroupGlob, Policy};

/// A line for each service and kind of glob that matches nothing, in the order of the policy's services.
pub(crate) fn unmatched(
    policy: &Policy,
    guests: Option<&GuestReading>,
    cgroups: Option<&CgroupReading>,
) -> Vec<String> {
    let interfaces: BTreeSet<&str> = guests.iter().flat_map(|reading| &reading.unmatched).map(String::as_str).collect();
    let groups: BTreeSet<&str> = cgroups.iter().flat_map(|reading| &reading.unmatched).map(String::as_str).collect();
    if interfaces.is_empty() && groups.is_empty() {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (_, service) in policy.services().leaves() {
        let matches = || service.matches().iter();
        let guests =
            matches().filter_map(|filter| filter.interface.as_deref()).filter(|glob| interfaces.contains(glob));
        let own = matches().filter_map(|filter| filter.cgroup.as_ref().map(CgroupGlob::as_str));
        let kinds = [
            ("interface of a guest", guests.collect::<BTreeSet<&str>>()),
            ("control group", own.filter(|glob| groups.contains(glob)).collect()),
        ];
        for (what, globs) in kinds {
            let Some(first) = globs.first() else { continue };
            let more = if globs.len() > 1 { format!(" (and {} more)", globs.len() - 1) } else { String::new() };
            lines.push(format!("{}: no {what} here is called {first}{more}", service.path()));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_without_a_match_are_reported_by_service() {
        let text = "weir: 1
network: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } } }
services:
  vm:
    match: [ { interface: tap* }, { interface: vnet*, protocol: tcp }, { interface: vnet* }, { interface: veth* } ]
  web: { match: [ { cgroup: /system.slice/web-* } ], order: 1 }
  other: { match: [ { port: 80 } ] }
";
        let policy = Policy::parse("policy.yaml", text).unwrap_or_else(|errors| panic!("{errors}")).0;
        let named = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>();
        let guests = |globs: &[&str]| GuestReading { unmatched: named(globs), ..GuestReading::default() };
        let cgroups = |globs: &[&str]| CgroupReading { unmatched: named(globs), ..CgroupReading::default() };
        let of = |globs: &[&str], groups: &[&str]| unmatched(&policy, Some(&guests(globs)), Some(&cgroups(groups)));
        let web = "web: no control group here is called /system.slice/web-*";
        assert_eq!(
            of(&["tap*", "vnet*"], &["/system.slice/web-*"]),
            ["vm: no interface of a guest here is called tap* (and 1 more)", web]
        );
        assert_eq!(of(&["vnet*"], &[]), ["vm: no interface of a guest here is called vnet*"]);
        assert_eq!(of(&[], &[]), [] as [&str; 0]);
        assert_eq!(unmatched(&policy, None, None), [] as [&str; 0]);
    }
}
