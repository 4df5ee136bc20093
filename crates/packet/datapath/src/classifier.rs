//! [`Classifier`]: from a frame, or from the fields of a packet, to the service that it belongs to.
//!
//! A policy's filters, in their order, give the same verdict on a packet in the simulator (which
//! has fields and no bytes) and in the kernel (which has bytes): each filter becomes one [`Rule`], and
//! the same C code searches the rules in both, by the same index (`datapath/classify.h`). A classifier is for one
//! interface: a glob that matches its name holds for all of its packets, and any other glob for the packets of guests
//! whose interfaces it matches ([`Classifier::guests`]). A selector of pods holds for the packets of guests alone.
//!
//! Worked example: the filters `dfs: tcp 7000-7099` and `vm: interface tap*` on the interface `tap3` become two rules,
//! the second matching everything. On `eth0` the second rule matches the packets of guests with the glob 1, `tap*`.

use crate::abi::{
    self, HAS_CGROUP, HAS_GUEST, HAS_IP, HAS_PORTS, HAS_PRIORITY, HAS_VNI, Packet, RULE_ADDRESS, RULE_CGROUP,
    RULE_DSCP, RULE_INTERFACE, RULE_PORTS, RULE_PRIORITY, RULE_PROTOCOL, RULE_VNI, Rule, RuleIndex,
};
use crate::rule_index::{self, Unindexed};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use weir_policy::{CgroupGlob, Match, PodFacts, PodSelector, Policy, Protocol, TUNNEL_PORTS_MAX, Tunnels, glob};
use weir_units::ServiceId;

/// The most rules of one interface.
pub const RULES_MAX: usize = abi::RULES_MAX as usize;
/// The most globs over control groups of one interface.
pub const CGROUP_GLOBS_MAX: usize = abi::CGROUP_GLOBS_MAX as usize;
/// The most globs over interfaces of guests that one packet has.
pub const GUEST_GLOBS: usize = abi::GUEST_GLOBS as usize;
/// The most rules that one packet is compared with.
pub const COMPARISONS_MAX: usize = abi::COMPARISONS_MAX as usize;

/// A policy's filters cannot become a classifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClassifierError {
    /// More filters apply to the interface than [`RULES_MAX`].
    #[error("{count} filters apply to this interface, of at most {RULES_MAX}; the first beyond is `{filter}`")]
    TooManyRules {
        /// Number of filters that apply.
        count: usize,
        /// The service of the first beyond the limit.
        service: ServiceId,
        /// That filter, as [`Match::canonical_text`] writes it.
        filter: String,
    },
    /// A packet may have to be compared with more than [`COMPARISONS_MAX`] filters.
    #[error(
        "a packet may have to be compared with more than {COMPARISONS_MAX} filters: at least {listed} are tried for \
         {key}, of which the last is `{filter}`"
    )]
    TooManyComparisons {
        /// The value of the longest list: a port, an address, a VNI, a glob, or every packet.
        key: String,
        /// Number of filters in that list.
        listed: usize,
        /// The service of the last of them.
        service: ServiceId,
        /// That filter, as [`Match::canonical_text`] writes it.
        filter: String,
    },
    /// The index of the filters exceeds its space.
    #[error("the {count} filters of this interface need more space than a table of filters has")]
    TooLarge {
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

impl ClassifierError {
    /// A policy that would be taken, in general terms.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooManyRules { .. } => "use ranges of ports and address prefixes",
            Self::TooManyComparisons { .. } => {
                "use filters with different ports, addresses, VNIs, interfaces or control groups"
            }
            Self::TooLarge { .. } => "use fewer filters, or address prefixes of fewer different lengths",
            Self::TooManyCgroups { .. } => "use one glob for several groups",
        }
    }

    /// The service of the filter that the error is about, if it is about one.
    pub fn service(&self) -> Option<ServiceId> {
        match self {
            Self::TooManyRules { service, .. } | Self::TooManyComparisons { service, .. } => Some(*service),
            Self::TooLarge { .. } | Self::TooManyCgroups { .. } => None,
        }
    }
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
    /// The network of VXLAN or Geneve, for packets of tunnels.
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
#[derive(Clone, PartialEq, Eq)]
pub struct Classifier {
    index: Box<RuleIndex>,
    globs: Globs,
}

/// The globs of rules, by their numbers there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Globs {
    cgroups: Vec<CgroupGlob>,
    guests: Vec<GuestGlob>,
}

/// The guests that a filter selects: both parts hold, and one at least is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestGlob {
    /// A glob over the interface on the host.
    pub interface: Option<String>,
    /// The pods behind it.
    pub pod: Option<PodSelector>,
}

impl GuestGlob {
    /// Of a filter on the agent of an interface; `None` if it holds for packets without a guest too. A glob that
    /// matches the agent's own interface holds for all packets there.
    fn of(filter: &Match, interface: &str) -> Option<Self> {
        let other = filter.interface.as_ref().filter(|glob| !glob::matches(glob, interface));
        let selected = Self { interface: other.cloned(), pod: filter.pod.clone() };
        (selected.interface.is_some() || selected.pod.is_some()).then_some(selected)
    }

    /// Whether it selects the guest with an interface of this name, which may be a pod's.
    pub fn matches(&self, name: &str, pod: Option<&PodFacts>) -> bool {
        self.interface.as_ref().is_none_or(|glob| glob::matches(glob, name))
            && self.pod.as_ref().is_none_or(|selector| pod.is_some_and(|pod| selector.matches(pod)))
    }
}

impl fmt::Debug for Classifier {
    /// Without the index, which has a megabyte.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classifier").field("rules", &self.rules()).field("globs", &self.globs).finish()
    }
}

impl From<&Tunnels> for abi::Tunnels {
    fn from(tunnels: &Tunnels) -> Self {
        const { assert!(abi::TUNNEL_PORTS as usize == TUNNEL_PORTS_MAX, "a policy's ports fit") };
        let [vxlan, geneve] = [tunnels.vxlan(), tunnels.geneve()].map(|of| {
            let mut ports = [0; TUNNEL_PORTS_MAX];
            ports[..of.len()].copy_from_slice(of);
            ports
        });
        Self { vxlan, geneve }
    }
}

impl Classifier {
    /// The classifier for `interface` of a policy, with its filters and its ports of tunnels. Without an
    /// interface (a simulated host) filters that name one never match, as it has no guests.
    pub fn of(policy: &Policy, interface: Option<&str>) -> Result<Self, ClassifierError> {
        let classifier = Self::new(policy.services().classification_order(), interface)?;
        Ok(classifier.with_tunnels(policy.tunnels()))
    }

    /// The same from filters in the order in which they are tried, with the default ports of tunnels.
    pub fn new<'a>(
        order: impl IntoIterator<Item = (ServiceId, &'a Match)>,
        interface: Option<&str>,
    ) -> Result<Self, ClassifierError> {
        let (mut rules, mut filters, mut globs) = (Vec::new(), Vec::new(), Globs::default());
        for (service, filter) in order {
            let guests = match interface {
                Some(name) => GuestGlob::of(filter, name),
                None if filter.is_of_guests() => continue,
                None => None,
            };
            rules.push(rule(service, filter, guests, &mut globs));
            filters.push((service, filter));
        }
        if let Some((service, filter)) = filters.get(RULES_MAX) {
            let (count, filter) = (rules.len(), filter.canonical_text());
            return Err(ClassifierError::TooManyRules { count, service: *service, filter });
        }
        if globs.cgroups.len() > CGROUP_GLOBS_MAX {
            return Err(ClassifierError::TooManyCgroups { count: globs.cgroups.len() });
        }
        let index = rule_index::build(&rules).map_err(|error| match error {
            Unindexed::TooManyComparisons { key, listed, last } => {
                let (service, filter) = (filters[last].0, filters[last].1.canonical_text());
                ClassifierError::TooManyComparisons { key, listed, service, filter }
            }
            Unindexed::TooLarge => ClassifierError::TooLarge { count: rules.len() },
        })?;
        Ok(Self { index, globs }.with_tunnels(&Tunnels::default()))
    }

    /// The same filters with other ports of tunnels.
    #[must_use]
    pub fn with_tunnels(mut self, tunnels: &Tunnels) -> Self {
        self.index.tunnels = tunnels.into();
        self
    }

    /// The rules in the order of the policy.
    pub fn rules(&self) -> &[Rule] {
        &self.index.rules[..self.index.count as usize]
    }

    /// The rules with their index, as the kernel's program reads them.
    pub fn index(&self) -> &RuleIndex {
        &self.index
    }

    /// The globs over control groups, in the order of their bits in [`Packet::cgroups`].
    pub fn cgroups(&self) -> &[CgroupGlob] {
        &self.globs.cgroups
    }

    /// The globs over guests: the first has the number 1 in [`Packet::interfaces`].
    pub fn guests(&self) -> &[GuestGlob] {
        &self.globs.guests
    }

    /// The globs that match a guest, by its interface and its pod if it is one, as its packets have them: those whose
    /// rules are first in the order of the policy, without those of which no packet of the guest reaches a rule.
    /// `None` if there are more than a packet can have.
    pub fn globs_of_guest(&self, name: &str, pod: Option<&PodFacts>) -> Option<[u16; GUEST_GLOBS]> {
        let numbers: BTreeSet<u16> =
            (1..).zip(&self.globs.guests).filter(|(_, of)| of.matches(name, pod)).map(|(number, _)| number).collect();
        let mut globs = [0; GUEST_GLOBS];
        if numbers.is_empty() {
            return Some(globs);
        }
        let mut count = 0;
        for rule in self.rules() {
            if rule.fields & RULE_INTERFACE != 0
                && numbers.contains(&rule.interface)
                && !globs.contains(&rule.interface)
            {
                *globs.get_mut(count)? = rule.interface;
                count += 1;
            }
            let is_every = rule.fields & !RULE_INTERFACE == 0;
            if is_every && (rule.fields == 0 || numbers.contains(&rule.interface)) {
                // It matches all packets of the guest that reach it.
                break;
            }
        }
        Some(globs)
    }

    /// The service of an Ethernet frame; none when no rule matches or the frame is malformed.
    pub fn classify(&self, frame: &[u8]) -> Option<ServiceId> {
        self.classify_packet(&self.packet(frame)?)
    }

    /// The fields of an Ethernet frame that the filters need: those of [`parse`], and its VNI if a filter specifies
    /// one. `None` if the frame is malformed.
    pub fn packet(&self, frame: &[u8]) -> Option<Packet> {
        let mut packet = parse(frame)?;
        let bytes = abi::Bytes { data: frame.as_ptr(), size: u32::try_from(frame.len()).ok()? };
        // SAFETY: `bytes` names the frame, which is only read, as the index is; `packet` is writable.
        unsafe { abi::index_find_vni(&*self.index, &bytes, &mut packet) };
        Some(packet)
    }

    /// The service of a packet with these fields.
    pub fn classify_fields(&self, fields: &Fields) -> Option<ServiceId> {
        self.classify_packet(&fields.into())
    }

    /// The service of a parsed packet.
    pub fn classify_packet(&self, packet: &Packet) -> Option<ServiceId> {
        let service = abi::classify(&self.index, packet);
        (service != abi::UNCLASSIFIED).then_some(ServiceId(service))
    }
}

/// The fields of an Ethernet frame, without a VNI; `None` if it is malformed.
pub fn parse(frame: &[u8]) -> Option<Packet> {
    let mut packet = Packet::default();
    let bytes = abi::Bytes { data: frame.as_ptr(), size: u32::try_from(frame.len()).ok()? };
    // SAFETY: `bytes` names the frame, which is only read, and `packet` is writable; neither pointer is kept.
    let result = unsafe { abi::parse(&bytes, &mut packet) };
    (result != abi::MALFORMED as i32).then_some(packet)
}

/// The rule of a filter for the packets of guests whose interface a glob matches, or for all packets. A glob gets its
/// number or its bit by its index in `globs`.
fn rule(service: ServiceId, filter: &Match, guests: Option<GuestGlob>, globs: &mut Globs) -> Rule {
    // Destructured by name, so that a new field in the policy does not compile until it is handled here.
    let Match { protocol, ports, address, interface: _, pod: _, cgroup, dscp, vni, priority } = filter;
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
        debug_assert!(!is_mapped(*prefix), "policies have IPv4-mapped prefixes as those of IPv4");
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
        let index = index_of(&mut globs.cgroups, cgroup);
        // Too many globs are refused afterwards.
        rule.cgroups = 1u64.checked_shl(index as u32).unwrap_or(0);
        rule.fields |= RULE_CGROUP;
        rule.needs |= HAS_CGROUP;
    }
    if let Some(glob) = guests {
        // Too many rules, and so too many globs, are refused afterwards.
        rule.interface = u16::try_from(index_of(&mut globs.guests, &glob) + 1).unwrap_or(u16::MAX);
        rule.fields |= RULE_INTERFACE;
        rule.needs |= HAS_GUEST;
    }
    rule
}

/// The index of a value, which is added if it is new.
fn index_of<T: Clone + PartialEq>(known: &mut Vec<T>, value: &T) -> usize {
    known.iter().position(|known| known == value).unwrap_or_else(|| {
        known.push(value.clone());
        known.len() - 1
    })
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

/// Whether it is of IPv4-mapped addresses alone, which no packet of IPv6 has.
fn is_mapped(prefix: IpNet) -> bool {
    prefix.addr().is_ipv6() && prefix.addr().to_canonical().is_ipv4() && prefix.prefix_len() >= 96
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

    /// The second and later rules of a glob with a rule for every packet are not reached.
    #[test]
    fn guests_have_the_globs_that_decide() {
        let on = |glob: &str, port: Option<u16>| Match {
            interface: Some(glob.into()),
            ports: port.map(|port| (port, port)),
            ..Match::default()
        };
        let filters = [on("*3", Some(80)), on("tap*", None), on("t*", None), on("veth?", None), on("*", Some(1))];
        let classifier = Classifier::new((0..).map(ServiceId).zip(&filters), Some("eth0")).expect("a classifier");
        // The last matches the interface itself.
        let names: Vec<_> = classifier.guests().iter().filter_map(|glob| glob.interface.as_deref()).collect();
        assert_eq!(names, ["*3", "tap*", "t*", "veth?"]);
        for (name, expected) in
            [("tap3", [1, 2, 0]), ("tap4", [2, 0, 0]), ("t3", [1, 3, 0]), ("veth3", [1, 4, 0]), ("br0", [0; 3])]
        {
            assert_eq!(classifier.globs_of_guest(name, None), Some(expected), "{name}");
        }
        let many = ["a*", "*b", "?*", "a?*", "ab"].map(|glob| on(glob, Some(80)));
        let classifier = Classifier::new((0..).map(ServiceId).zip(&many), Some("")).expect("a classifier");
        assert_eq!(classifier.globs_of_guest("ab", None), None);
    }

    /// A pod's packets are of its labels, a packet without a pod of none, on every interface.
    #[test]
    fn pods_have_the_globs_that_select_them() {
        let of = |interface: Option<&str>, namespace, labels: Option<&str>| Match {
            interface: interface.map(str::to_owned),
            pod: Some(PodSelector::new(namespace, None, labels).expect("a selector")),
            ..Match::default()
        };
        let filters = [
            of(None, Some("shop"), Some("app=web")),
            of(Some("veth*"), Some("shop"), None),
            of(Some("eth*"), Some("bank"), None),
            of(None, Some("bank"), None),
        ];
        let classifier = Classifier::new((0..).map(ServiceId).zip(&filters), Some("eth0")).expect("a classifier");
        // The last two are the same on this interface.
        assert_eq!(classifier.guests().len(), 3);
        let pod = |namespace: &str, app: Option<&str>| PodFacts {
            namespace: namespace.into(),
            name: "x".into(),
            labels: app.map(|app| [("app".to_owned(), app.to_owned())].into()),
        };
        for (name, pod, expected) in [
            ("veth1", Some(pod("shop", Some("web"))), [1, 0, 0]),
            ("veth1", Some(pod("shop", Some("db"))), [2, 0, 0]),
            ("veth1", Some(pod("shop", None)), [2, 0, 0]),
            ("tap1", Some(pod("shop", Some("db"))), [0, 0, 0]),
            ("tap1", Some(pod("bank", None)), [3, 0, 0]),
            ("veth1", None, [0, 0, 0]),
        ] {
            assert_eq!(classifier.globs_of_guest(name, pod.as_ref()), Some(expected), "{name} {pod:?}");
        }
        assert!(Classifier::new((0..).map(ServiceId).zip(&filters), None).expect("a classifier").rules().is_empty());
    }

    #[test]
    fn interface_globs_are_resolved_and_order_is_kept() {
        let dfs = Match { protocol: Some(Protocol::TCP), ports: Some((7000, 7099)), ..Match::default() };
        let vm = Match { interface: Some("tap*".into()), ..Match::default() };
        let order = [(ServiceId(4), &vm), (ServiceId(2), &dfs)];
        let services = |interface| {
            let classifier = Classifier::new(order, interface).expect("a classifier");
            classifier.rules().iter().map(|rule| (rule.service, rule.interface)).collect::<Vec<_>>()
        };
        assert_eq!(services(Some("eth0")), [(4, 1), (2, 0)]);
        assert_eq!(services(Some("tap3")), [(4, 0), (2, 0)]);
        assert_eq!(services(None), [(2, 0)]);
    }

    #[test]
    fn excess_filters_are_refused() {
        let ports: Vec<Match> =
            (1..=4097).map(|port| Match { ports: Some((port, port)), ..Match::default() }).collect();
        let many = |count| Classifier::new((0..).map(ServiceId).zip(ports.iter().take(count)), None);
        assert_eq!(many(4096).expect("as many as can be").rules().len(), 4096);
        let (service, filter) = (ServiceId(4096), "port 4097".into());
        let refused = ClassifierError::TooManyRules { count: 4097, service, filter };
        assert_eq!(many(4097), Err(refused));
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
            classifier
                .classify_packet(&Packet { protocol, has: HAS_IP | has, cgroups, ..Packet::default() })
                .map(|id| id.0)
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

    /// The lists skip no rule that matches: the verdict is that of comparing all, for every set of
    /// globs, where rules of groups, of ports and of both follow each other in any order.
    #[test]
    fn lists_of_globs_skip_none_that_matches() {
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
                    assert_eq!(
                        classifier.classify_packet(&packet),
                        expected,
                        "{first} {step} {cgroups:b} {source_port}"
                    );
                }
            }
        }
    }
}
