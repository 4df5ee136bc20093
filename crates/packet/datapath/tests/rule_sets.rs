//! Sets of filters against a plain model that compares a packet with each filter, in their order.
//!
//! The values of filters and packets are from small pools, so that prefixes and ranges contain each other, several
//! filters match most packets, and either end of a packet matches.

use crate::frames::{Random, SETS, frame_of};
use ipnet::IpNet;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_datapath::abi::{HAS_CGROUP, HAS_GUEST, HAS_PRIORITY, Packet};
use weir_datapath::{COMPARISONS_MAX, Classifier, ClassifierError, Fields};
use weir_policy::{CgroupGlob, Match, Protocol};
use weir_units::ServiceId;

/// A packet with all fields that a filter can specify, or without some.
#[derive(Debug, Clone)]
struct Model {
    addresses: Option<(IpAddr, IpAddr)>,
    protocol: u8,
    dscp: u8,
    ports: Option<(u16, u16)>,
    vni: Option<u32>,
    priority: Option<u32>,
    /// The globs that include its socket's group; `None` if no filter names one.
    globs: Option<Vec<usize>>,
    /// The interface of its guest.
    guest: Option<&'static str>,
}

const GLOBS: [&str; 4] = ["/a", "/b/*", "/c", "/*/d"];
/// Of these one matches no guest, and at most three match one.
const INTERFACES: [&str; 5] = ["tap*", "*3", "tap3", "veth?", "none"];
const GUESTS: [&str; 4] = ["tap1", "tap3", "veth3", "eth1"];

fn glob(i: usize) -> CgroupGlob {
    CgroupGlob::new(GLOBS[i]).expect("a glob")
}

fn matches(filter: &Match, packet: &Model) -> bool {
    let ip = packet.addresses.is_some();
    filter.protocol.is_none_or(|Protocol(number)| ip && packet.protocol == number)
        && filter.dscp.is_none_or(|dscp| ip && packet.dscp == dscp)
        && filter.ports.is_none_or(|(first, last)| {
            packet.ports.is_some_and(|(a, b)| (first..=last).contains(&a) || (first..=last).contains(&b))
        })
        && filter
            .address
            .is_none_or(|prefix| packet.addresses.is_some_and(|(a, b)| prefix.contains(&a) || prefix.contains(&b)))
        && filter.vni.is_none_or(|vni| packet.vni == Some(vni))
        && filter.priority.is_none_or(|priority| packet.priority == Some(priority))
        && filter
            .cgroup
            .as_ref()
            .is_none_or(|wanted| packet.globs.as_ref().is_some_and(|globs| globs.iter().any(|i| glob(*i) == *wanted)))
        && filter
            .interface
            .as_ref()
            .is_none_or(|wanted| packet.guest.is_some_and(|name| weir_policy::glob::matches(wanted, name)))
}

fn first(filters: &[Match], packet: &Model) -> Option<ServiceId> {
    filters.iter().position(|filter| matches(filter, packet)).map(|number| ServiceId(number as u32))
}

fn classifier(filters: &[Match]) -> Result<Classifier, ClassifierError> {
    Classifier::new((0..).map(ServiceId).zip(filters), Some("eth0"))
}

/// The packet as the datapath has it.
fn packet(model: &Model, classifier: &Classifier) -> Packet {
    let (source, destination) = model.addresses.unwrap_or(([0, 0, 0, 0].into(), [0, 0, 0, 0].into()));
    let fields = Fields {
        source,
        destination,
        protocol: Protocol(model.protocol),
        ports: model.ports,
        dscp: model.dscp,
        vni: model.vni,
    };
    let mut packet = Packet::from(&fields);
    if model.addresses.is_none() {
        packet = Packet { has: 0, ..Packet::default() };
    }
    if let Some(priority) = model.priority {
        packet.priority = priority;
        packet.has |= HAS_PRIORITY;
    }
    if let Some(globs) = &model.globs {
        let bit = |i: &usize| classifier.cgroups().iter().position(|known| *known == glob(*i));
        packet.cgroups = globs.iter().filter_map(bit).map(|bit| 1 << bit).sum();
        packet.has |= HAS_CGROUP;
    }
    if let Some(name) = model.guest {
        packet.interfaces = classifier.globs_of_guest(name, None).expect("three at most");
        packet.has |= HAS_GUEST;
    }
    packet
}

fn ipv4() -> impl Strategy<Value = Ipv4Addr> {
    let octet = || prop::sample::select(vec![0u8, 1, 7, 128, 129, 255]);
    (prop::sample::select(vec![10u8, 11]), octet(), octet(), octet()).prop_map(|(a, b, c, d)| [a, b, c, d].into())
}

fn ipv6() -> impl Strategy<Value = Ipv6Addr> {
    let word = || prop::sample::select(vec![0u16, 1, 0x8000, 0xffff]);
    let global =
        (word(), word(), word(), word()).prop_map(|(a, b, c, d)| Ipv6Addr::new(0x2001, 0xdb8, a, b, c, 0, 0, d));
    // Not valid on a wire: an IPv6 packet that pretends to be from IPv4.
    prop_oneof![7 => global, 1 => ipv4().prop_map(|address| address.to_ipv6_mapped())]
}

fn prefix() -> impl Strategy<Value = IpNet> {
    let of_ipv4 = (ipv4(), prop_oneof![Just(32u8), Just(24), Just(16), 0..=32u8])
        .prop_map(|(address, length)| IpNet::new(address.into(), length).expect("a length of IPv4"));
    let of_ipv6 = (ipv6(), prop_oneof![Just(128u8), Just(64), Just(48), 0..=128u8]).prop_map(|(address, length)| {
        // A policy has a prefix of IPv4-mapped addresses as one of IPv4.
        let most = if address.to_ipv4_mapped().is_some() { 95 } else { 128 };
        IpNet::new(address.into(), length.min(most)).expect("a length of IPv6")
    });
    prop_oneof![of_ipv4, of_ipv6]
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![3 => prop::sample::select(vec![0u16, 1, 80, 443, 7000, 7001, 7050, 65_535]), 1 => any::<u16>()]
}

fn filter() -> impl Strategy<Value = Match> {
    let of = prop::option::weighted::<BoxedStrategy<u8>>;
    (
        of(0.3, prop::sample::select(vec![6u8, 17, 132]).boxed()),
        prop::option::weighted(0.4, (port(), prop_oneof![Just(0u16), 0..100u16, any::<u16>()])),
        prop::option::weighted(0.5, prefix()),
        of(0.1, (0..3u8).boxed()),
        of(0.2, (0..4u8).boxed()),
        of(0.1, (0..3u8).boxed()),
        of(0.2, (0..4u8).boxed()),
        of(0.2, (0..5u8).boxed()),
    )
        .prop_map(|(protocol, ports, address, dscp, vni, priority, cgroup, interface)| Match {
            protocol: protocol.map(Protocol),
            ports: ports.map(|(first, more)| (first, first.saturating_add(more))),
            address,
            pod: None,
            interface: interface.map(|i| INTERFACES[usize::from(i)].to_owned()),
            cgroup: cgroup.map(|i| glob(i.into())),
            dscp,
            vni: vni.map(u32::from),
            priority: priority.map(u32::from),
        })
}

fn model() -> impl Strategy<Value = Model> {
    let addresses = prop_oneof![
        4 => (ipv4(), ipv4()).prop_map(|(a, b)| Some((a.into(), b.into()))),
        3 => (ipv6(), ipv6()).prop_map(|(a, b)| Some((a.into(), b.into()))),
        1 => Just(None),
    ];
    let globs = prop::collection::vec(0..4usize, 0..3).prop_map(|mut globs| {
        globs.sort_unstable();
        globs.dedup();
        globs
    });
    (
        addresses,
        prop::sample::select(vec![6u8, 17, 132, 1]),
        0..3u8,
        prop::option::weighted(0.8, (port(), port())),
        prop::option::weighted(0.5, 0..4u32),
        prop::option::weighted(0.5, 0..3u32),
        prop::option::weighted(0.7, globs),
        prop::option::weighted(0.6, prop::sample::select(GUESTS.to_vec())),
    )
        .prop_map(|(addresses, protocol, dscp, ports, vni, priority, globs, guest)| Model {
            ports: ports.filter(|_| addresses.is_some()),
            vni: vni.filter(|_| addresses.is_some()),
            addresses,
            protocol,
            dscp,
            priority,
            globs,
            guest,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The number of the first filter that matches, for any filters and packets. No set of at most as many filters as a
    /// packet may be compared with is refused.
    #[test]
    fn first_match_in_the_order_of_the_policy(
        filters in prop_oneof![
            prop::collection::vec(filter(), 0..12),
            prop::collection::vec(filter(), 0..120),
            prop::collection::vec(filter(), 0..600),
        ],
        packets in prop::collection::vec(model(), 60),
    ) {
        match classifier(&filters) {
            Ok(classifier) => for model in &packets {
                let packet = packet(model, &classifier);
                prop_assert_eq!(classifier.classify_packet(&packet), first(&filters, model), "{:?}", model);
            },
            Err(error) => prop_assert!(filters.len() > COMPARISONS_MAX, "{}", error),
        }
    }
}

/// Thousands of filters of guests, also in the reverse order, with packets that have a filter's fields at either end
/// or at both, or are beside all filters.
#[test]
fn large_sets_give_the_first_match() {
    let mut random = Random(0x5eed_0007);
    for (name, filter) in SETS {
        for reversed in [false, true] {
            let mut filters: Vec<Match> = (0..4096).map(filter).collect();
            if reversed {
                filters.reverse();
            }
            let classifier = classifier(&filters).expect("supported");
            let mut classified = 0;
            for _ in 0..1500 {
                let mut end = || {
                    let filter = &filters[random.below(4096) as usize];
                    let by_one = random.below(3) as i32 - 1;
                    let address = filter.address.map_or(IpAddr::from([192, 168, 0, 1]), |prefix| match prefix.addr() {
                        IpAddr::V4(address) => Ipv4Addr::from(u32::from(address).wrapping_add_signed(by_one)).into(),
                        IpAddr::V6(address) => {
                            Ipv6Addr::from(u128::from(address).wrapping_add_signed(by_one.into())).into()
                        }
                    });
                    let port = filter.ports.map_or(80, |(first, last)| if by_one < 0 { first } else { last });
                    (address, port.wrapping_add_signed(by_one as i16), filter.vni)
                };
                let (mut source, mut destination) = (end(), end());
                if source.0.is_ipv4() != destination.0.is_ipv4() {
                    destination.0 = source.0;
                }
                if random.one_in(2) {
                    std::mem::swap(&mut source, &mut destination);
                }
                let model = Model {
                    addresses: Some((source.0, destination.0)),
                    protocol: random.pick(&[6, 17]),
                    dscp: 0,
                    ports: Some((source.1, destination.1)),
                    vni: destination.2.filter(|_| random.one_in(2)),
                    priority: None,
                    globs: None,
                    guest: None,
                };
                let expected = first(&filters, &model);
                assert_eq!(classifier.classify_packet(&packet(&model, &classifier)), expected, "{name}: {model:?}");
                classified += u32::from(expected.is_some());
            }
            println!("{name}: {classified} of 1500 classified");
            assert!(classified > 400, "{name}");
            // Each filter's own frame, as bytes.
            for number in (0..4096).step_by(37) {
                let found = classifier.classify(&frame_of(&filters[number])).expect("it matches at least its own");
                assert!(found.0 as usize <= number, "{name}: {found:?} of {number}");
            }
        }
    }
}

/// Prefixes of every length, each within the one before: the deepest search, at every depth of the result.
#[test]
fn prefixes_of_all_lengths_are_found() {
    let address: Ipv6Addr = "2001:db8:5555:aaaa:1234:5678:9abc:def0".parse().expect("an address");
    let host = IpAddr::from([10, 99, 170, 85]);
    let net = |address, length| IpNet::new(address, length).expect("a length");
    let all =
        (1..=128).map(|length| net(IpAddr::from(address), length)).chain((1..=32).map(|length| net(host, length)));
    // From the longest on, so that each is the first match of the addresses that have as many bits in common.
    let filters: Vec<Match> = all.rev().map(|prefix| Match { address: Some(prefix), ..Match::default() }).collect();
    let classifier = classifier(&filters).expect("supported");
    for other in
        (0..128).map(|bit| IpAddr::from(Ipv6Addr::from(u128::from(address) ^ 1 << bit))).chain([address.into()])
    {
        let model = Model {
            addresses: Some((other, "fe80::1".parse().expect("an address"))),
            protocol: 6,
            dscp: 0,
            ports: None,
            vni: None,
            priority: None,
            globs: None,
            guest: None,
        };
        assert_eq!(classifier.classify_packet(&packet(&model, &classifier)), first(&filters, &model), "{other}");
    }
    for bit in 0..32 {
        let other = Ipv4Addr::from(0x0a63_aa55 ^ 1 << bit);
        let model = Model {
            addresses: Some((Ipv4Addr::from(0xc0a8_0001).into(), other.into())),
            protocol: 6,
            dscp: 0,
            ports: None,
            vni: None,
            priority: None,
            globs: None,
            guest: None,
        };
        assert_eq!(classifier.classify_packet(&packet(&model, &classifier)), first(&filters, &model), "{other}");
    }
}

/// Filters that no field separates are refused beyond the most comparisons, with the last and the reason.
#[test]
fn filters_that_a_packet_would_all_be_compared_with_are_refused() {
    let priorities: Vec<Match> = (0..257).map(|i| Match { priority: Some(i), ..Match::default() }).collect();
    assert!(classifier(&priorities[..256]).is_ok());
    let error = classifier(&priorities).expect_err("too many");
    assert_eq!(
        error.to_string(),
        "a packet may have to be compared with more than 256 filters: at least 257 are tried for every packet, of \
         which the last is `priority 256`"
    );
    assert_eq!(error.service(), Some(ServiceId(256)));
    let one_port: Vec<Match> =
        priorities.iter().map(|filter| Match { ports: Some((443, 443)), ..filter.clone() }).collect();
    let error = classifier(&one_port).expect_err("too many").to_string();
    assert!(
        error.contains("at least 257 are tried for TCP port 443, of which the last is `port 443 priority 256`"),
        "{error}"
    );
    // With different fields beside the port they have lists of their own.
    let guests: Vec<Match> = (0..4096).map(|i| Match { ports: Some((443, 443)), ..SETS[0].1(i) }).collect();
    assert!(classifier(&guests).is_ok());
    // An earlier filter covers what would be too many.
    let covered: Vec<Match> = std::iter::once(Match { ports: Some((443, 443)), ..Match::default() })
        .chain(one_port.iter().cycle().take(4000).cloned())
        .collect();
    assert!(classifier(&covered).is_ok());
}

/// A filter for each of 4,096 guests, by name or by name and port, of which each is the first match of its guest.
#[test]
fn filters_of_thousands_of_guests_are_indexed_by_interface() {
    for port in [None, Some((443, 443))] {
        let filter = |i: u32| Match { interface: Some(format!("tap{i}")), ports: port, ..Match::default() };
        let filters: Vec<Match> = (0..4096).map(filter).collect();
        let classifier = classifier(&filters).expect("supported");
        for i in (0..4096).step_by(97) {
            let fields = Fields {
                source: [10, 0, 0, 1].into(),
                destination: [10, 0, 0, 2].into(),
                protocol: Protocol::TCP,
                ports: Some((40_000, 443)),
                dscp: 0,
                vni: None,
            };
            let interfaces = classifier.globs_of_guest(&format!("tap{i}"), None).expect("one glob");
            let packet = Packet { interfaces, has: Packet::from(&fields).has | HAS_GUEST, ..Packet::from(&fields) };
            assert_eq!(classifier.classify_packet(&packet), Some(ServiceId(i)));
            assert_eq!(classifier.classify_fields(&fields), None);
        }
    }
}
