//! Remarks on filters that match no packet of their service on any host.
//!
//! Problem: such a filter is no contradiction, and its service just has no traffic: a limit that was meant for a tunnel
//! then limits nothing. Rules, each for one filter of a service; there is one remark for each service:
//!
//! | filter | reason |
//! |---|---|
//! | `vni` beside a `protocol` other than UDP | filters apply to the outer headers of a tunnel |
//! | `vni` beside a `port` that is none of `tunnels` | the same; a source port may match by chance |
//! | `protocol: icmp` beside a prefix of IPv6, `icmpv6` beside one of IPv4 | each is of one version of IP |
//! | `interface` or `pod` beside `cgroup` or `priority` | packets of guests have no socket on their host |
//! | any | a filter of another service is tried first and matches all of its packets |
//!
//! Worked example: `{ vni: 7, protocol: tcp }` matches nothing; `{ vni: 7, protocol: udp }` is `{ vni: 7 }`.

use super::ReadService;
use crate::model::{Match, Protocol};
use crate::overlap;
use crate::tunnels::Tunnels;
use ipnet::IpNet;
use weir_document::{Problems, Span};

/// Remarks on the filters of all services.
pub(super) fn note(services: &[ReadService], tunnels: &Tunnels, problems: &mut Problems) {
    let covered = overlap::covered(services);
    for (service, read) in services.iter().enumerate() {
        let filters = read.service.matches.iter().zip(&read.match_spans).enumerate();
        let remark = |(index, (filter, span)): (usize, (&Match, &Span))| {
            let by = || covered.get(&(service, index)).map(|(other, of)| (&services[*other], *of));
            let (cause, hint) = impossible(filter, &owner(read), tunnels)
                .or_else(|| by().map(|(other, of)| unreached(filter, read, (&other.service.matches[of], other))))?;
            Some((*span, cause, hint))
        };
        let remarks: Vec<_> = filters.filter_map(remark).collect();
        let Some((span, cause, hint)) = remarks.iter().min_by_key(|(span, ..)| *span) else { continue };
        let more = match remarks.len() - 1 {
            0 => String::new(),
            1 => "; another of its filters is of this kind".to_owned(),
            more => format!("; {more} more of its filters are of this kind"),
        };
        problems.note(*span, format!("{cause}{more}"), hint);
    }
}

fn owner(read: &ReadService) -> String {
    format!("{} `{}`", if read.is_tenant { "tenant" } else { "service" }, read.service.path())
}

/// The reason why a filter matches no packet, and a hint; `None` if it may match one.
fn impossible(filter: &Match, owner: &str, tunnels: &Tunnels) -> Option<(String, String)> {
    let text = filter.canonical_text();
    let nothing =
        |reason: &str, hint: &str| Some((format!("`{text}` of {owner} matches no packet: {reason}"), hint.into()));
    if let (Some(_), Some(protocol)) = (filter.vni, filter.protocol)
        && protocol != Protocol::UDP
    {
        let reason = "packets of a tunnel are UDP outside, and filters apply to their outer headers";
        return nothing(reason, "leave `protocol` out");
    }
    if let (Some(_), Some((first, last))) = (filter.vni, filter.ports)
        && !tunnels.vxlan().iter().chain(tunnels.geneve()).any(|port| (first..=last).contains(port))
    {
        let cause = format!(
            "`{text}` of {owner} matches packets only by the chance of their source port: filters apply to the outer \
             headers of a tunnel, and none of its ports is in the filter"
        );
        return Some((cause, "leave `port` out, or write the ports of the network's tunnels under `tunnels`".into()));
    }
    match (filter.protocol, filter.address) {
        (Some(Protocol::ICMP), Some(IpNet::V6(_))) => {
            return nothing("ICMP is of IPv4, and the prefix is of IPv6", "write `protocol: icmpv6`");
        }
        (Some(Protocol::ICMPV6), Some(IpNet::V4(_))) => {
            return nothing("ICMPv6 is of IPv6, and the prefix is of IPv4", "write `protocol: icmp`");
        }
        _ => {}
    }
    if filter.is_of_guests() && (filter.cgroup.is_some() || filter.priority.is_some()) {
        let cause = format!("a filter of {owner} needs a socket, and packets of guests have none here");
        return Some((cause, "match guests by `interface` or `pod` without `cgroup` and `priority`".into()));
    }
    None
}

/// The remark on a filter that another one covers.
fn unreached(filter: &Match, read: &ReadService, (cover, by): (&Match, &ReadService)) -> (String, String) {
    let cause = format!(
        "no packet reaches `{}` of {}: `{}` of {} is tried first and matches all of its packets",
        filter.canonical_text(),
        owner(read),
        cover.canonical_text(),
        owner(by)
    );
    let hint = format!(
        "write an `order` below {} on `{}` if its filter is the exception, or leave the filter out",
        by.service.order(),
        read.service.path()
    );
    (cause, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, filter_syntax, language};

    fn filter(text: &str) -> Match {
        let mut filter = Match::default();
        for field in text.split_whitespace() {
            let (key, value) = field.split_once('=').expect("key=value");
            match key {
                "protocol" => filter.protocol = language::protocol(value).ok(),
                "port" => filter.ports = filter_syntax::ports(value).unwrap().pop(),
                "address" => filter.address = filter_syntax::prefix(value).ok(),
                "interface" => filter.interface = Some(value.to_owned()),
                "cgroup" => filter.cgroup = filter_syntax::cgroup(value).ok(),
                "vni" => filter.vni = value.parse().ok(),
                "priority" => filter.priority = value.parse().ok(),
                _ => panic!("{key}"),
            }
        }
        filter
    }

    #[test]
    fn filters_that_match_nothing() {
        let tunnels = Tunnels::new(vec![4789, 9000], vec![6081]).expect("tunnels");
        for (text, expected) in [
            ("vni=7", false),
            ("vni=7 protocol=udp", false),
            ("vni=7 protocol=tcp", true),
            ("vni=7 port=80", true),
            ("vni=7 port=9000", false),
            ("vni=7 port=8472", true),
            ("vni=7 port=4000-5000", false),
            ("vni=7 port=6081", false),
            ("protocol=icmp address=fd00::/8", true),
            ("protocol=icmp address=10.0.0.0/8", false),
            ("protocol=icmp address=::ffff:10.0.0.0/104", false),
            ("protocol=icmpv6 address=10.0.0.0/8", true),
            ("protocol=icmpv6 address=fd00::/8", false),
            ("interface=tap* cgroup=/a", true),
            ("interface=tap* priority=1", true),
            ("interface=tap* port=80", false),
            ("cgroup=/a", false),
        ] {
            assert_eq!(impossible(&filter(text), "service `a`", &tunnels).is_some(), expected, "{text}");
        }
    }

    /// The causes of the notes on a policy with these services.
    fn causes(services: &str) -> Vec<String> {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [m1] }} }} }}\n\
             services:\n{services}"
        );
        let (_, notes) = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        notes.iter().map(|note| note.cause().to_owned()).collect()
    }

    #[test]
    fn filters_that_no_packet_reaches_are_noted() {
        let all = "  all: { match: [ { address: 0.0.0.0/0 } ], order: ORDER }\n  web: { match: [ { address: \
            10.0.0.0/8, port: [80, 443] }, { port: 22 } ] }\n";
        let cause = "no packet reaches `port 443 address 10.0.0.0/8` of service `web`: `address 0.0.0.0/0` of service \
                     `all` is tried first and matches all of its packets; another of its filters is of this kind";
        assert_eq!(causes(&all.replace("ORDER", "-1")), [cause]);
        assert_eq!(causes(&all.replace("ORDER", "1")), [""; 0]);
        // Filters of endpoints are tried before all others.
        let endpoint = "  all: { match: [ { address: 0.0.0.0/0 } ], order: -1 }\n  vm: { match: [ { interface: \
            \"tap*\", address: 10.0.0.0/8 } ] }\n";
        assert_eq!(causes(endpoint), [""; 0]);
        // The first of two covers.
        let three = "  a: { match: [ { port: 80-90 } ], order: 1 }\n  b: { match: [ { port: 80-99 } ], order: 2 }\n  \
            c: { match: [ { port: 85 } ], order: 3 }\n";
        assert!(causes(three)[0].contains("`port 80-90` of service `a`"), "{:?}", causes(three));
    }

    #[test]
    fn a_service_has_one_remark() {
        let causes =
            causes("  a: { match: [ { vni: 1, protocol: tcp }, { vni: 2, protocol: tcp }, { vni: 3, port: 80 } ] }\n");
        let cause = "`protocol tcp vni 1` of service `a` matches no packet: packets of a tunnel are UDP outside, and \
                     filters apply to their outer headers; 2 more of its filters are of this kind";
        assert_eq!(causes, [cause]);
    }
}
