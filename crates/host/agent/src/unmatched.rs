//! Filters that match nothing on this host now, since it has no such interface of a guest, pod or control group.
//!
//! Problem: a glob with a mistake is silent, since no packet matches it. But a policy is for all hosts, and a host
//! without virtual machines is in order. Approach: the status and the log report the globs of the policy in force that
//! match no interface of a guest, no pod and no control group, by service, and there is no alarm.
//!
//! Worked example: `vm: { match: [ { interface: "tap*" }, { interface: "vnet*" } ] }` on a host whose guests are called
//! `veth1` and `veth2` gives `vm: no interface of a guest here is called tap* (and 1 more)`.

use std::collections::BTreeSet;
use weir_datapath::GuestGlob;
use weir_linux::cgroups::CgroupReading;
use weir_linux::guests::GuestReading;
use weir_policy::{Match, Policy};
use weir_status::NO_POD;

/// A line for each service and kind of glob that matches nothing, in the order of the policy's services.
pub(crate) fn unmatched(
    policy: &Policy,
    guests: Option<&GuestReading>,
    cgroups: Option<&CgroupReading>,
) -> Vec<String> {
    let globs: Vec<&GuestGlob> = guests.iter().flat_map(|reading| &reading.unmatched).collect();
    let groups: BTreeSet<&str> = cgroups.iter().flat_map(|reading| &reading.unmatched).map(String::as_str).collect();
    if globs.is_empty() && groups.is_empty() {
        return Vec::new();
    }
    // A glob over names that matches the agent's own interface is no part of what is matched with guests.
    let is_of = |filter: &Match, glob: &GuestGlob| {
        glob.pod == filter.pod && (glob.interface == filter.interface || glob.interface.is_none())
    };
    let is_unmatched = |filter: &&Match| filter.is_of_guests() && globs.iter().any(|glob| is_of(filter, glob));
    let mut lines = Vec::new();
    for (_, service) in policy.services().leaves() {
        let of_guests = || service.matches().iter().filter(is_unmatched);
        let interfaces =
            of_guests().filter(|filter| filter.pod.is_none()).filter_map(|filter| filter.interface.clone());
        let pods = of_guests().filter_map(|filter| filter.pod.as_ref().map(ToString::to_string));
        let own = service.matches().iter().filter_map(|filter| filter.cgroup.as_ref());
        let own = own.filter(|glob| groups.contains(glob.as_str())).map(ToString::to_string);
        let kinds: [(&str, BTreeSet<String>); 3] = [
            ("no interface of a guest here is called", interfaces.collect()),
            (NO_POD, pods.collect()),
            ("no control group here is called", own.collect()),
        ];
        for (what, globs) in kinds {
            let Some(first) = globs.first() else { continue };
            let more = if globs.len() > 1 { format!(" (and {} more)", globs.len() - 1) } else { String::new() };
            lines.push(format!("{}: {what} {first}{more}", service.path()));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::PodSelector;

    #[test]
    fn globs_without_a_match_are_reported_by_service() {
        let text = "weir: 1
network: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } } }
services:
  vm:
    match: [ { interface: tap* }, { interface: vnet*, protocol: tcp }, { interface: vnet* }, { interface: veth* } ]
  web: { match: [ { cgroup: /system.slice/web-* } ], order: 1 }
  other: { match: [ { port: 80 } ] }
  shop: { match: [ { interface: eth0, pod: { namespace: shop, labels: app=web } } ], order: 2 }
";
        let policy = Policy::parse("policy.yaml", text).unwrap_or_else(|errors| panic!("{errors}")).0;
        let named = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>();
        let interface = |glob: &&str| GuestGlob { interface: Some((*glob).to_owned()), pod: None };
        let guests =
            |globs: &[&str]| GuestReading { unmatched: globs.iter().map(interface).collect(), ..Default::default() };
        let cgroups = |globs: &[&str]| CgroupReading { unmatched: named(globs), ..CgroupReading::default() };
        let of = |globs: &[&str], groups: &[&str]| unmatched(&policy, Some(&guests(globs)), Some(&cgroups(groups)));
        let web = "web: no control group here is called /system.slice/web-*";
        assert_eq!(
            of(&["tap*", "vnet*"], &["/system.slice/web-*"]),
            ["vm: no interface of a guest here is called tap* (and 1 more)", web]
        );
        assert_eq!(of(&["vnet*"], &[]), ["vm: no interface of a guest here is called vnet*"]);
        assert_eq!(of(&[], &[]), [] as [&str; 0]);
        let pod = PodSelector::new(Some("shop"), None, Some("app=web")).expect("a selector");
        let pods = GuestReading { unmatched: vec![GuestGlob { interface: None, pod: Some(pod) }], ..guests(&[]) };
        assert_eq!(unmatched(&policy, Some(&pods), None), ["shop: no pod here has namespace=shop labels=app=web"]);
        assert_eq!(unmatched(&policy, None, None), [] as [&str; 0]);
    }
}
