use super::*;
use crate::filter_syntax as syntax;
use proptest::prelude::*;

/// A selector as `shop/web-*/app=web`.
fn pod(text: &str) -> PodSelector {
    let mut keys = text.splitn(3, '/').map(|key| (!key.is_empty()).then_some(key));
    let [namespace, name, labels] = std::array::from_fn(|_| keys.next().flatten());
    PodSelector::new(namespace, name, labels).expect("a selector")
}

fn filter(text: &str) -> Match {
    let mut filter = Match::default();
    for field in text.split_whitespace() {
        let (key, value) = field.split_once('=').expect("key=value");
        match key {
            "protocol" => filter.protocol = Some(crate::language::protocol(value).unwrap()),
            "port" => filter.ports = syntax::ports(value).unwrap().pop(),
            "address" => filter.address = Some(syntax::prefix(value).unwrap()),
            "interface" => filter.interface = Some(value.to_owned()),
            "pod" => filter.pod = Some(pod(value)),
            "cgroup" => filter.cgroup = Some(syntax::cgroup(value).unwrap()),
            "dscp" => filter.dscp = value.parse().ok(),
            "vni" => filter.vni = value.parse().ok(),
            _ => panic!("{key}"),
        }
    }
    filter
}

#[test]
fn fields() {
    for (a, b, expected) in [
        ("protocol=tcp port=7000-7099", "port=7050", true),
        ("protocol=udp port=7050", "protocol=tcp port=7050", false),
        ("port=80", "port=443", false),
        ("port=80", "protocol=icmp", false),
        ("port=80", "protocol=sctp", true),
        ("protocol=icmp", "dscp=46", true),
        ("address=10.0.0.0/8", "address=10.1.0.0/16", true),
        ("address=10.0.0.0/8", "address=11.0.0.0/8", false),
        ("address=0.0.0.0/0", "address=::/0", false),
        ("interface=tap*", "interface=eth0", false),
        ("interface=tap*", "interface=*1", true),
        ("interface=tap*", "cgroup=/a", true),
        ("pod=shop", "pod=bank", false),
        ("pod=shop", "pod=//app=web", true),
        ("pod=//app=web", "pod=//app!=web", false),
        ("pod=//app=web", "pod=//tier=db", true),
        ("pod=shop/web-*", "pod=sh*/db-?", false),
        ("pod=shop port=80", "pod=shop port=81", false),
        ("pod=shop", "interface=tap*", true),
        ("cgroup=/a", "cgroup=/a/b", true),
        ("cgroup=/a", "cgroup=/ab", false),
        ("cgroup=/a/*", "cgroup=/a/b", true),
        ("cgroup=/*/b", "cgroup=/a", true),
        ("cgroup=/*/b", "cgroup=/a/c", false),
        ("vni=1", "vni=2", false),
        ("vni=1 port=1", "vni=1 port=2", false),
        ("dscp=1 port=1", "dscp=1", true),
    ] {
        assert_eq!(overlaps(&filter(a), &filter(b)), expected, "{a} / {b}");
        assert_eq!(overlaps(&filter(b), &filter(a)), expected, "{b} / {a}");
    }
}

#[test]
fn covering_filters_match_all_packets_of_others() {
    for (wide, narrow, expected) in [
        ("protocol=tcp", "protocol=tcp port=80", true),
        ("protocol=tcp", "port=80", false),
        ("port=80-90", "protocol=udp port=85", true),
        ("port=80-90", "port=80-91", false),
        ("address=10.0.0.0/8", "address=10.1.0.0/16 dscp=3", true),
        ("address=::/0", "address=10.1.0.0/16", false),
        ("interface=tap*", "interface=tap3 port=1", true),
        ("interface=tap3", "interface=tap*", false),
        ("pod=shop", "pod=shop//app=web port=80", true),
        ("pod=//app", "pod=//app=web", true),
        ("pod=//app=web", "pod=shop", false),
        ("cgroup=/a", "cgroup=/a/b", true),
        ("cgroup=/a/*", "cgroup=/a/b*/c", true),
        ("cgroup=/a/b", "cgroup=/a", false),
        ("vni=1", "vni=1 dscp=1", true),
        ("vni=1", "vni=2", false),
    ] {
        assert_eq!(covers(&filter(wide), &filter(narrow)), expected, "{wide} / {narrow}");
        assert!(!expected || overlaps(&filter(wide), &filter(narrow)), "{wide} / {narrow}");
    }
}

#[test]
fn common_parts_of_filters() {
    let common = |a: &str, b: &str| common(&filter(a), &filter(b));
    assert_eq!(common("protocol=tcp port=7000-7099", "port=7050-8000"), "`protocol tcp port 7050-7099`");
    assert_eq!(common("address=10.0.0.0/8", "address=10.1.0.0/16 dscp=3"), "`address 10.1.0.0/16 dscp 3`");
    assert_eq!(common("pod=shop", "pod=//app=web,!x"), "`pod namespace=shop labels=app=web,!x`");
    assert_eq!(common("cgroup=/a", "cgroup=/a/b"), "`cgroup /a/b`");
}

fn any_filter() -> impl Strategy<Value = Match> {
    let maybe = |values: &'static [&'static str]| prop::sample::select(values);
    (
        maybe(&["", "protocol=tcp", "protocol=icmp"]),
        maybe(&["", "port=1-3", "port=2", "port=4"]),
        maybe(&["", "address=10.0.0.0/8", "address=10.1.0.0/16", "address=fd00::/8"]),
        maybe(&["", "interface=tap*", "interface=tap1", "interface=*1", "interface=eth0"]),
        maybe(&["", "cgroup=/a", "cgroup=/a/b", "cgroup=/ab", "cgroup=/a*b*", "cgroup=/a*c*", "cgroup=/*/b"]),
        maybe(&["", "dscp=1", "dscp=2"]),
        maybe(&["", "vni=1", "vni=2"]),
    )
        .prop_map(|(a, b, c, d, e, f, g)| {
            // ICMP has no ports; such filters are refused earlier.
            let b = if a == "protocol=icmp" { "" } else { b };
            filter(&[a, b, c, d, e, f, g].join(" "))
        })
}

/// Filters that differ in two fields together cost two sorts and no comparison; the sweep of
/// inseparable ones ends.
#[test]
fn work_is_bounded() {
    let filters: Vec<_> = (0..10_000).map(|i| filter(&format!("port={} dscp={}", i / 60 + 1, i % 60))).collect();
    let same = vec![filter("interface=?a?"); 2_000];
    let run = |filters: &[Match], budget: u64| {
        let entries: Vec<_> = filters
            .iter()
            .enumerate()
            .map(|(service, filter)| Entry { service, index: 0, filter, span: Span::default() })
            .collect();
        Sweep::new(&entries, budget, |_: &Entry<'_>, _: &Entry<'_>| true).run()
    };
    assert_eq!(run(&filters, 2 * SORT_COST * 10_000), Ok(()));
    assert_eq!(run(&same, 1_000_000), Err(Stop::Budget));
    assert_eq!(run(&same, 2_100_000), Ok(()));
}

proptest! {
    /// Covering is transitive with matching: what overlaps the narrow filter overlaps the wide one.
    #[test]
    fn whatever_overlaps_a_covered_filter_overlaps_the_cover(
        wide in any_filter(), narrow in any_filter(), other in any_filter(),
    ) {
        if covers(&wide, &narrow) && overlaps(&narrow, &other) {
            prop_assert!(overlaps(&wide, &other));
        }
    }

    /// The sweep visits every pair that overlaps, for any field that it sorts along.
    #[test]
    fn the_sweep_misses_nothing(filters in proptest::collection::vec(any_filter(), 0..12)) {
        let entries: Vec<_> = filters
            .iter()
            .enumerate()
            .map(|(service, filter)| Entry { service, index: 0, filter, span: Span::default() })
            .collect();
        let mut found = HashSet::new();
        let mut sweep = Sweep::new(&entries, MAX_WORK, |a: &Entry<'_>, b: &Entry<'_>| {
            if overlaps(a.filter, b.filter) {
                found.insert((a.service.min(b.service), a.service.max(b.service)));
            }
            true
        });
        prop_assert_eq!(sweep.run(), Ok(()));
        let mut expected = HashSet::new();
        for a in 0..filters.len() {
            for b in a + 1..filters.len() {
                if overlaps(&filters[a], &filters[b]) {
                    expected.insert((a, b));
                }
            }
        }
        prop_assert_eq!(found, expected);
    }
}
