//! [`Classifier`]: from a frame, or from the fields of a packet, to the service that it belongs to.
//!
//! A policy's filters, in their order, give the same verdict on a packet in the simulator (which
//! has fields and no bytes) and in the kernel (which has bytes): each filter becomes one [`Rule`]
//! in an array that the same C code scans in both (`datapath/classify.h`). Interface globs are
//! resolved when the array is built, so a classifier is for one interface.
//!
//! Worked example: the filters `dfs: tcp 7000-7099` and `vm: interface tap*` on the interface `eth0` become
//! one rule, since `tap*` is not `eth0`; on `tap3` they become two, the second matching everything.

use crate::abi::{
    self, HAS_CGROUP, HAS_IP, HAS_PORTS, HAS_PRIORITY, HAS_VNI, Packet, RULE_ADDRESS, RULE_CGROUP, RULE_DSCP,
    RULE_PORTS, RULE_PRIORITY, RULE_PROTOCOL, RULE_VNI, Rule,
};
use ipnet::IpNet;
use std::net::IpAddr;
use weir_policy::{CgroupGlob, Match, Protocol, glob};
use weir_units::ServiceId;

/// The most rules of one interface.
pub const RULES_MAX: usize = abi::RULES_MAX as usize;
/// The most globs over control groups of one interface.
pub const CGROUP_GLOBS_MAX: usize = abi::CGROUP_GLOBS_MAX as usize;
/// Entries of the table of first rules: by a port's last byte, by a glob over control groups, and for no glob.
pub const STARTS: usize = abi::STARTS as usize;

/// A policy's filters cannot become a classifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClassifierError {
    /// More filters apply to the interface than [`RULES_MAX`].
    #[error("{count} filters apply to this interface, and a packet is compared with at most {RULES_MAX}")]
    TooManyRules {
        /// Number of filters that apply.
        count: usize,
    },
    /// More different globs over control groups apply to the interface than [`CGROUP_GLOBS_MAX`].
    #[error("{count} different globs over control groups apply to this interface, and at most {CGROUP_GLOBS_MAX} can")]
    TooManyCgroups {
        /// Number of globs that apply.
        count: usize,
    },
}

/// The fields of a packet, where its bytes are not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fields {
    /// The source address.
    pub source: IpAddr,
    /// The destination address, of the same family.
    pub destination: IpAddr,
    /// The IP protocol.
    pub protocol: Protocol,
    /// Source and destination port; none for protocols without ports and for later fragments.
    pub ports: Option<(u16, u16)>,
    /// The differentiated-services code point.
    pub dscp: u8,
    /// The VXLAN network, for encapsulated packets.
    pub vni: Option<u32>,
}

impl From<&Fields> for Packet {
    fn from(fields: &Fields) -> Self {
        debug_assert_eq!(fields.source.is_ipv4(), fields.destination.is_ipv4(), "one family per packet");
        let mut packet = Self {
            source: on_the_wire(fields.source),
            destination: on_the_wire(fields.destination),
            family: family(fields.source),
            protocol: fields.protocol.0,
            dscp: fields.dscp,
            has: HAS_IP,
            ..Self::default()
        };
        if let Some((source, destination)) = fields.ports {
            (packet.source_port, packet.destination_port) = (source, destination);
            packet.has |= HAS_PORTS;
        }
        if let Some(vni) = fields.vni {
            packet.vni = vni;
            packet.has |= HAS_VNI;
        }
        packet
    }
}

/// The filters of a policy that apply to one interface, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classifier {
    rules: Vec<Rule>,
    starts: Box<[u16; STARTS]>,
    cgroups: Vec<CgroupGlob>,
}

impl Classifier {
    /// The classifier for `interface` from filters in the order in which they are tried. Without an
    /// interface (a simulated host) filters that name one never match.
    pub fn new<'a>(
        order: impl IntoIterator<Item = (ServiceId, &'a Match)>,
        interface: Option<&str>,
    ) -> Result<Self, ClassifierError> {
        let (mut rules, mut cgroups) = (Vec::new(), Vec::new());
        for (service, filter) in order {
            let applies = match (&filter.interface, interface) {
                (None, _) => true,
                (Some(glob), Some(name)) => glob::matches(glob, name),
                (Some(_), None) => false,
            };
            if applies {
                rules.push(rule(service, filter, &mut cgroups));
            }
        }
        if rules.len() > RULES_MAX {
            return Err(ClassifierError::TooManyRules { count: rules.len() });
        }
        if cgroups.len() > CGROUP_GLOBS_MAX {
            return Err(ClassifierError::TooManyCgroups { count: cgroups.len() });
        }
        Ok(Self { starts: Box::new(starts(&rules)), rules, cgroups })
    }

    /// The rules, as the kernel's program reads them.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The globs over control groups, in the order of their bits in [`Packet::cgroups`].
    pub fn cgroups(&self) -> &[CgroupGlob] {
        &self.cgroups
    }

    /// The service of an Ethernet frame; none when no rule matches or the frame is malformed.
    pub fn classify(&self, frame: &[u8]) -> Option<ServiceId> {
        self.verdict(&parse(frame)?)
    }

    /// The service of a packet with these fields.
    pub fn classify_fields(&self, fields: &Fields) -> Option<ServiceId> {
        self.verdict(&fields.into())
    }

    fn verdict(&self, packet: &Packet) -> Option<ServiceId> {
        // SAFETY: `rules` holds `rules.len()` rules (at most RULES_MAX) and `starts` STARTS values; all is only read.
        let service =
            unsafe { abi::classify(self.rules.as_ptr(), self.rules.len() as u32, self.starts.as_ptr(), packet) };
        (service != abi::UNCLASSIFIED).then_some(ServiceId(service))
    }
}

/// For each value of a port's last byte, for each glob and for no glob, the index of the first of `rules` (at most
/// [`RULES_MAX`]) that such a packet may match, or the number of rules if none may (`datapath/classify.h`).
pub fn starts(rules: &[Rule]) -> [u16; STARTS] {
    const PORTS: u16 = abi::START_PORTS as u16;
    let by_port = |rule: &Rule, byte: u16| {
        let ports = rule.port_last.wrapping_sub(rule.port_first);
        rule.fields & RULE_PORTS == 0 || byte.wrapping_sub(rule.port_first) % PORTS <= ports
    };
    let by_glob = |rule: &Rule, glob: u16| {
        let bit = 1u64.checked_shl(glob.into()).unwrap_or(0);
        rule.fields & RULE_CGROUP == 0 || rule.cgroups & bit != 0
    };
    let may_match = |rule: &Rule, entry: u16| match entry.checked_sub(PORTS) {
        None => by_port(rule, entry),
        Some(glob) => by_glob(rule, glob),
    };
    std::array::from_fn(|entry| {
        rules.iter().position(|rule| may_match(rule, entry as u16)).unwrap_or(rules.len()) as u16
    })
}

/// The fields of an Ethernet frame; `None` if it is malformed.
pub fn parse(frame: &[u8]) -> Option<Packet> {
    let mut packet = Packet::default();
    let bytes = abi::Bytes { data: frame.as_ptr(), size: u32::try_from(frame.len()).ok()? };
    // SAFETY: `bytes` names the frame, which is only read, and `packet` is writable; neither pointer is kept.
    let result = unsafe { abi::parse(&bytes, &mut packet) };
    (result != abi::MALFORMED as i32).then_some(packet)
}

/// The rule of a filter; a glob over control groups gets its bit by its index in `cgroups`.
fn rule(service: ServiceId, filter: &Match, cgroups: &mut Vec<CgroupGlob>) -> Rule {
    // Destructured by name, so that a new field in the policy does not compile until it is handled here.
    let Match { protocol, ports, address, interface: _, cgroup, dscp, vni, priority } = filter;
    let mut rule = Rule { service: service.0, ..Rule::default() };
    if let Some(Protocol(number)) = protocol {
        rule.protocol = *number;
        rule.fields |= RULE_PROTOCOL;
        rule.needs |= HAS_IP;
    }
    if let Some((first, last)) = ports {
        (rule.port_first, rule.port_last) = (*first, *last);
        rule.fields |= RULE_PORTS;
        rule.needs |= HAS_PORTS;
    }
    if let Some(prefix) = address {
        rule.mask = on_the_wire(mapped_mask(*prefix).into());
        let address = on_the_wire(prefix.addr());
        rule.address = [address[0] & rule.mask[0], address[1] & rule.mask[1]];
        rule.family = family(prefix.addr());
        rule.fields |= RULE_ADDRESS;
        rule.needs |= HAS_IP;
    }
    if let Some(dscp) = dscp {
        rule.dscp = *dscp;
        rule.fields |= RULE_DSCP;
        rule.needs |= HAS_IP;
    }
    if let Some(vni) = vni {
        rule.vni = *vni;
        rule.fields |= RULE_VNI;
        rule.needs |= HAS_VNI;
    }
    if let Some(priority) = priority {
        rule.priority = *priority;
        rule.fields |= RULE_PRIORITY;
        rule.needs |= HAS_PRIORITY;
    }
    if let Some(cgroup) = cgroup {
        let index = cgroups.iter().position(|known| known == cgroup).unwrap_or_else(|| {
            cgroups.push(cgroup.clone());
            cgroups.len() - 1
        });
        // Too many globs are refused afterwards.
        rule.cgroups = 1u64.checked_shl(index as u32).unwrap_or(0);
        rule.fields |= RULE_CGROUP;
        rule.needs |= HAS_CGROUP;
    }
    rule
}

/// 16 bytes in network order.
fn on_the_wire(address: IpAddr) -> [u64; 2] {
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
    .octets();
    let (high, low) = octets.split_at(8);
    [high, low].map(|half| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(half);
        u64::from_ne_bytes(bytes)
    })
}

/// The mask of a prefix of mapped addresses, where an IPv4 prefix is 96 bits longer.
fn mapped_mask(prefix: IpNet) -> std::net::Ipv6Addr {
    let length = u32::from(prefix.prefix_len()) + if prefix.addr().is_ipv4() { 96 } else { 0 };
    u128::MAX.checked_shl(128 - length).unwrap_or(0).into()
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { 4 } else { 6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks() {
        let mask = |text: &str| mapped_mask(text.parse().expect(text)).to_string();
        assert_eq!(mask("10.0.0.0/8"), "ffff:ffff:ffff:ffff:ffff:ffff:ff00:0");
        assert_eq!(mask("0.0.0.0/0"), "ffff:ffff:ffff:ffff:ffff:ffff::");
        assert_eq!(mask("::/0"), "::");
        assert_eq!(mask("::1/128"), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    }

    #[test]
    fn interface_globs_are_resolved_and_order_is_kept() {
        let dfs = Match { protocol: Some(Protocol::TCP), ports: Some((7000, 7099)), ..Match::default() };
        let vm = Match { interface: Some("tap*".into()), ..Match::default() };
        let order = [(ServiceId(4), &vm), (ServiceId(2), &dfs)];
        let services = |interface| {
            let classifier = Classifier::new(order, interface).expect("a classifier");
            classifier.rules().iter().map(|rule| rule.service).collect::<Vec<_>>()
        };
        assert_eq!(services(Some("eth0")), [2]);
        assert_eq!(services(Some("tap3")), [4, 2]);
        assert_eq!(services(None), [2]);
    }

    #[test]
    fn excess_filters_are_refused() {
        let any = Match::default();
        let many = |count| Classifier::new((0..count).map(|i| (ServiceId(i), &any)), None);
        assert!(many(256).is_ok());
        assert_eq!(many(257), Err(ClassifierError::TooManyRules { count: 257 }));
        let groups: Vec<Match> = (0..65).map(|i| in_cgroup(&format!("/{i}"))).collect();
        let many = |count| Classifier::new(groups.iter().take(count).map(|group| (ServiceId(0), group)), None);
        assert!(many(64).is_ok());
        assert_eq!(many(65), Err(ClassifierError::TooManyCgroups { count: 65 }));
    }

    fn in_cgroup(glob: &str) -> Match {
        Match { cgroup: Some(CgroupGlob::new(glob).expect("a glob")), ..Match::default() }
    }

    /// Two rules with one glob share its bit; a packet without a known socket matches neither.
    #[test]
    fn packets_match_by_the_globs_that_include_their_cgroup() {
        let (a, b) = (in_cgroup("/a"), in_cgroup("/b/*"));
        let udp_a = Match { protocol: Some(Protocol(17)), ..a.clone() };
        let order = [(ServiceId(4), &udp_a), (ServiceId(2), &b), (ServiceId(1), &a)];
        let classifier = Classifier::new(order, None).expect("a classifier");
        assert_eq!(classifier.cgroups().iter().map(CgroupGlob::as_str).collect::<Vec<_>>(), ["/a", "/b/*"]);
        let service = |protocol, has, cgroups| {
            classifier.verdict(&Packet { protocol, has: HAS_IP | has, cgroups, ..Packet::default() }).map(|id| id.0)
        };
        for (protocol, has, cgroups, expected) in [
            (17, HAS_CGROUP, 0b01, Some(4)),
            (6, HAS_CGROUP, 0b01, Some(1)),
            (17, HAS_CGROUP, 0b11, Some(4)),
            (6, HAS_CGROUP, 0b11, Some(2)),
            (6, HAS_CGROUP, 0, None),
            (6, 0, 0b11, None),
        ] {
            assert_eq!(service(protocol, has, cgroups), expected, "{protocol} {has} {cgroups:b}");
        }
    }

    /// The table of first rules skips no rule that matches: the verdict is that of comparing all, for every set of
    /// globs, where rules of groups, of ports and of both follow each other in any order.
    #[test]
    fn first_rules_of_globs_skip_none_that_matches() {
        let port = |filter: Match| Match { ports: Some((7000, 7000)), ..filter };
        let (a, b, c) = (in_cgroup("/a"), in_cgroup("/b"), in_cgroup("/c"));
        let filters = [a.clone(), port(b.clone()), port(Match::default()), c.clone(), b, port(a), c, Match::default()];
        for first in 0..filters.len() {
            for step in [1, 3, 5, 7] {
                let order = (0..filters.len()).map(|i| &filters[(first + i * step) % filters.len()]);
                let order = (0..).map(ServiceId).zip(order.take(5));
                let classifier = Classifier::new(order.clone(), None).expect("a classifier");
                for (cgroups, source_port) in (0..8).flat_map(|set| [(set, 7000), (set, 80)]) {
                    let has = HAS_IP | HAS_PORTS | HAS_CGROUP;
                    let packet = Packet { has, cgroups, source_port, family: 4, protocol: 6, ..Packet::default() };
                    let matches = |filter: &Match| {
                        let bit = |glob| classifier.cgroups().iter().position(|known| known == glob).expect("known");
                        filter.cgroup.as_ref().is_none_or(|glob| cgroups & 1 << bit(glob) != 0)
                            && (filter.ports.is_none() || source_port == 7000)
                    };
                    let expected = order.clone().find(|(_, filter)| matches(filter)).map(|(id, _)| id);
                    assert_eq!(classifier.verdict(&packet), expected, "{first} {step} {cgroups:b} {source_port}");
                }
            }
        }
    }
}
