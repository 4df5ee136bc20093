//! The choice of the dimension that indexes a rule.
//!
//! Problem: a rule of several fields can be in the lists of one of them; a list should be short. Approach: the crowd of
//! a rule in a dimension is the most rules that one value of the rule's shares there, if all rules that specify the
//! field were in it. The smallest crowd is chosen; among equal ones, the field that most rules specify, so that few
//! dimensions are in use. A dimension of few rules costs a lookup for each packet, more than to compare them:
//! these rules are linear.
//!
//! Worked example: of 4,000 rules `address 10.0.x.y port 443`, each has a crowd of 1 in addresses and one of 4,000 in
//! ports. A rule `port 8000-8099 protocol tcp` beside them has a crowd of 1 in ports.

use super::addresses::{Prefix, crowds};
use crate::abi::{RULE_ADDRESS, RULE_CGROUP, RULE_INTERFACE, RULE_PORTS, RULE_VNI, Rule};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// The lists that a rule is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dimension {
    Ports,
    Vnis,
    Globs,
    Interfaces,
    Addresses,
    /// The list that all packets are compared with.
    None,
}

use Dimension::{Addresses, Globs, Interfaces, Ports, Vnis};

/// Dimensions, and the most rules that are compared faster than looked up there. A comparison takes 2 to 6 ns, a
/// lookup of two ports, of a VNI or of a glob about as much, of two addresses from 8 ns on.
const FEW: [(Dimension, usize); 5] = [(Ports, 1), (Vnis, 1), (Globs, 1), (Interfaces, 1), (Addresses, 3)];

/// The dimension of each rule.
pub(super) fn choose(rules: &[Rule]) -> Vec<Dimension> {
    let crowds = Crowds::new(rules);
    let mut chosen: Vec<Dimension> = rules.iter().map(|rule| crowds.smallest(rule)).collect();
    for (dimension, few) in FEW {
        let count = chosen.iter().filter(|of| **of == dimension).count();
        if count <= few {
            chosen.iter_mut().filter(|of| **of == dimension).for_each(|of| *of = Dimension::None);
        }
    }
    chosen
}

struct Crowds {
    ports: PortCrowds,
    vnis: HashMap<u32, usize>,
    globs: HashMap<u64, usize>,
    interfaces: HashMap<u16, usize>,
    addresses: HashMap<Prefix, usize>,
    /// By dimension in the order of [`FEW`]: the rules that specify its field.
    totals: [usize; 5],
}

impl Crowds {
    fn new(rules: &[Rule]) -> Self {
        let with = |field| rules.iter().filter(move |rule| specifies(rule, field));
        let (mut vnis, mut globs, mut interfaces) = (HashMap::new(), HashMap::new(), HashMap::new());
        with(RULE_VNI).for_each(|rule| *vnis.entry(rule.vni).or_default() += 1);
        with(RULE_CGROUP).for_each(|rule| *globs.entry(rule.cgroups).or_default() += 1);
        with(RULE_INTERFACE).for_each(|rule| *interfaces.entry(rule.interface).or_default() += 1);
        let fields = [RULE_PORTS, RULE_VNI, RULE_CGROUP, RULE_INTERFACE, RULE_ADDRESS];
        Self {
            ports: PortCrowds::new(with(RULE_PORTS).map(|rule| (rule.port_first, rule.port_last))),
            vnis,
            globs,
            interfaces,
            addresses: crowds(with(RULE_ADDRESS).map(Prefix::of)),
            totals: fields.map(|field| with(field).count()),
        }
    }

    /// The dimension of a rule with the smallest crowd.
    fn smallest(&self, rule: &Rule) -> Dimension {
        let crowds = [
            (RULE_PORTS, Ports),
            (RULE_VNI, Vnis),
            (RULE_CGROUP, Globs),
            (RULE_INTERFACE, Interfaces),
            (RULE_ADDRESS, Addresses),
        ];
        let crowd = |dimension| match dimension {
            Ports => self.ports.of(rule.port_first, rule.port_last),
            Vnis => self.vnis[&rule.vni],
            Globs => self.globs[&rule.cgroups],
            Interfaces => self.interfaces[&rule.interface],
            Addresses => self.addresses[&Prefix::of(rule)],
            Dimension::None => usize::MAX,
        };
        let possible = crowds.into_iter().zip(self.totals).filter(|((field, _), _)| specifies(rule, *field));
        let best = possible.min_by_key(|((_, dimension), total)| (crowd(*dimension), Reverse(*total)));
        best.map_or(Dimension::None, |((_, dimension), _)| dimension)
    }
}

/// Whether a rule specifies a field in a way that separates packets: all addresses of a family do not.
fn specifies(rule: &Rule, field: u8) -> bool {
    rule.fields & field != 0 && (field != RULE_ADDRESS || !Prefix::of(rule).is_any())
}

/// The number of ranges that contain each port at which one begins: no port is in more than the one before it at
/// which a range begins.
struct PortCrowds(BTreeMap<u16, usize>);

impl PortCrowds {
    fn new(ranges: impl Iterator<Item = (u16, u16)>) -> Self {
        // By port: ranges that begin, and ranges that end before it.
        let mut changes = BTreeMap::<u32, (usize, usize)>::new();
        for (first, last) in ranges {
            changes.entry(first.into()).or_default().0 += 1;
            changes.entry(u32::from(last) + 1).or_default().1 += 1;
        }
        let mut containing = 0;
        let crowd = |(port, (begins, ends)): (u32, (usize, usize))| {
            containing = containing + begins - ends;
            (begins > 0).then_some((port as u16, containing))
        };
        Self(changes.into_iter().filter_map(crowd).collect())
    }

    /// The most ranges that contain one of these ports; one of the ranges is this.
    fn of(&self, first: u16, last: u16) -> usize {
        self.0.range(first..=last).map(|(_, crowd)| *crowd).max().unwrap_or(0)
    }
}
