//! Packets that would belong to two services: filters that overlap without an order.
//!
//! Problem: where two leaf services match the same packet, a rule must decide which one it is
//! charged to, and it must not be the order of the file. Rule: filters of endpoints are tried
//! before filters of headers, so one of each never conflict; within each group services with
//! different `order` do not conflict; any other two filters of different services must have no
//! packet in common.
//!
//! Two filters have a packet in common if each field has a value in common. Ports and addresses
//! match either end of a packet, so strictly a packet from port 80 to port 443 is matched by both
//! `port: 80` and `port: 443`. That is not counted: ports and addresses are compared as those of
//! the service's own end, since otherwise ports could not distinguish services. (The filter tried
//! first takes such a packet, the same on every host.)
//!
//! Approach: each field of a filter is an interval, so filters are boxes. Sort each group along the
//! field in which the fewest pairs overlap, cut it where there are gaps, repeat for each part, and
//! compare only pairs that no field separates: ten thousand services with ports of their own cost
//! no comparison at all.
//!
//! Worked example: `{ protocol: tcp, port: 7000-7099 }` and `{ port: 7050 }` overlap in "tcp port
//! 7050"; `{ protocol: udp, port: 7050 }` does not overlap the first.

use crate::cgroup::CgroupGlob;
use crate::glob;
use crate::model::{Match, Protocol};
use crate::pod::PodSelector;
use crate::read::ReadService;
use ipnet::IpNet;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use weir_document::{Problems, Span};

/// Pairs of services that are reported; fixing the first few often resolves the rest.
const MAX_REPORTED: usize = 100;

/// Work for one policy, in comparisons of two filters; some seconds. Real policies need a few dozen
/// for each filter; the bound keeps a hostile file from taking hours.
const MAX_WORK: u64 = 200_000_000;
/// Work for remarks on covered filters, which are left out beyond it.
const REMARK_WORK: u64 = MAX_WORK / 4;
/// To sort a filter along all fields takes as long as so many comparisons.
const SORT_COST: u64 = 20;

/// An interval in one field, both ends included. The first number keeps IPv4 and IPv6 apart.
type Interval = ((u8, u128), (u8, u128));
/// The whole range of a field: the interval of a filter without the field.
const ANY: Interval = ((0, 0), (u8::MAX, u128::MAX));

/// A filter, its service, and its position.
struct Entry<'a> {
    service: usize,
    /// Its index among the service's filters.
    index: usize,
    filter: &'a Match,
    span: Span,
}

/// Reports every two services with overlapping filters and no order between them.
pub(crate) fn check(services: &[ReadService], problems: &mut Problems) {
    let mut groups: BTreeMap<(bool, i32), Vec<Entry<'_>>> = BTreeMap::new();
    for (service, read) in services.iter().enumerate().filter(|(_, read)| read.service.is_leaf()) {
        for entry in entries(service, read) {
            groups.entry((entry.filter.is_endpoint(), read.service.order)).or_default().push(entry);
        }
    }
    let mut reported: HashSet<(usize, usize)> = HashSet::new();
    let mut budget = MAX_WORK;
    for entries in groups.values() {
        let mut sweep = Sweep::new(entries, budget, |a: &Entry<'_>, b: &Entry<'_>| {
            if a.service == b.service || !overlaps(a.filter, b.filter) {
                return true;
            }
            // The one further down in the file is reported, the other one explains it.
            let (first, second) = if a.span < b.span { (a, b) } else { (b, a) };
            if reported.insert((first.service, second.service)) {
                report(services, first, second, problems);
            }
            reported.len() < MAX_REPORTED
        });
        let result = sweep.run();
        budget = sweep.budget;
        match result {
            Ok(()) => {}
            Err(Stop::Visitor) => return,
            Err(Stop::Budget) => {
                let span = entries.iter().map(|entry| entry.span).min().unwrap_or_default();
                problems.error(
                    span,
                    "the filters are too entangled to be compared with each other",
                    "give services different `order`, or distinguish them by one field: port, address, interface, \
                     pod, cgroup or vni",
                );
                return;
            }
        }
    }
}

/// The filters of a service.
fn entries(service: usize, read: &ReadService) -> impl Iterator<Item = Entry<'_>> {
    let filters = read.service.matches.iter().zip(&read.match_spans).enumerate();
    filters.map(move |(index, (filter, span))| Entry { service, index, filter, span: *span })
}

/// Filters that no packet reaches, each with the first filter that is tried before it and matches all of its packets:
/// indices of services, and of filters in them. Only filters of endpoints cover such ones, as a filter that covers
/// another has no field that the other lacks. What several filters cover together is not found.
pub(crate) fn covered(services: &[ReadService]) -> BTreeMap<(usize, usize), (usize, usize)> {
    let mut groups: BTreeMap<bool, Vec<Entry<'_>>> = BTreeMap::new();
    for (service, read) in services.iter().enumerate().filter(|(_, read)| read.service.is_leaf()) {
        for entry in entries(service, read) {
            groups.entry(entry.filter.is_endpoint()).or_default().push(entry);
        }
    }
    let order = |entry: &Entry<'_>| services[entry.service].service.order;
    let mut found = BTreeMap::new();
    let mut budget = REMARK_WORK;
    for entries in groups.values() {
        // With one order no filter of another service is tried first.
        if entries.iter().all(|entry| order(entry) == order(&entries[0])) {
            continue;
        }
        let mut sweep = Sweep::new(entries, budget, |a: &Entry<'_>, b: &Entry<'_>| {
            let (wide, narrow) = if order(a) <= order(b) { (a, b) } else { (b, a) };
            if order(wide) < order(narrow) && covers(wide.filter, narrow.filter) {
                let rank = |(service, index): (usize, usize)| (services[service].service.order, service, index);
                let wide = (wide.service, wide.index);
                let first = found.entry((narrow.service, narrow.index)).or_insert(wide);
                if rank(wide) < rank(*first) {
                    *first = wide;
                }
            }
            true
        });
        if sweep.run().is_err() {
            break;
        }
        budget = sweep.budget;
    }
    found
}

fn report(services: &[ReadService], first: &Entry<'_>, second: &Entry<'_>, problems: &mut Problems) {
    let [one, other] = [first, second].map(|entry| &services[entry.service]);
    let (a, b) = (one.service.path(), other.service.path());
    let kinds = match (one.is_tenant, other.is_tenant) {
        (false, false) => format!("services `{a}` and `{b}`"),
        (true, true) => format!("tenants `{a}` and `{b}`"),
        (false, true) => format!("service `{a}` and tenant `{b}`"),
        (true, false) => format!("tenant `{a}` and service `{b}`"),
    };
    problems.error_with(
        second.span,
        format!("{kinds} both match {} and have no order", common(first.filter, second.filter)),
        format!("narrow one of the filters, or write different `order` on `{a}` and `{b}`: the lowest is tried first"),
        (first.span, format!("`{a}`")),
    );
}

/// Compares pairs of entries of one group.
struct Sweep<'a, V> {
    entries: &'a [Entry<'a>],
    /// How many bytes all paths of control groups have in common before their first wildcards.
    common: usize,
    /// Work that may still be done, in comparisons.
    budget: u64,
    /// Receives every pair that may overlap, until it returns `false`.
    visit: V,
}

/// The reason why a sweep ended early.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// `visit` returned `false`.
    Visitor,
    /// The budget is spent.
    Budget,
}

impl<'a, V: FnMut(&'a Entry<'a>, &'a Entry<'a>) -> bool> Sweep<'a, V> {
    fn new(entries: &'a [Entry<'a>], budget: u64, visit: V) -> Self {
        Self { entries, common: common_cgroup(entries), budget, visit }
    }

    /// Visits the pairs among all entries. They are sorted along the best field; where that leaves
    /// gaps, each part between two gaps is sorted again, so fields that separate little alone do so
    /// together.
    fn run(&mut self) -> Result<(), Stop> {
        // A stack of its own: parts can be peeled off one entry at a time, as deep as there are
        // entries.
        let mut groups = vec![(0..self.entries.len()).collect::<Vec<usize>>()];
        while let Some(members) = groups.pop() {
            self.spend(SORT_COST * members.len() as u64)?;
            let sorted = |field: &fn(&Match, usize) -> Interval| {
                let interval = |i: &usize| (field(self.entries[*i].filter, self.common), *i);
                let mut all: Vec<_> = members.iter().map(interval).collect();
                all.sort_unstable();
                all
            };
            let Some(best) = FIELDS.iter().map(sorted).min_by_key(|sorted| pairs(sorted)) else { return Ok(()) };
            let parts = parts(&best);
            if parts.len() == 1 {
                self.compare(&best)?;
                continue;
            }
            // Each part is smaller than the whole, so this ends.
            let several = parts.into_iter().filter(|part| part.len() > 1);
            groups.extend(several.map(|part| part.iter().map(|(_, i)| *i).collect()));
        }
        Ok(())
    }

    fn spend(&mut self, work: u64) -> Result<(), Stop> {
        self.budget = self.budget.checked_sub(work).ok_or(Stop::Budget)?;
        Ok(())
    }

    fn compare(&mut self, sorted: &[(Interval, usize)]) -> Result<(), Stop> {
        for (i, (interval, a)) in sorted.iter().enumerate() {
            for (other, b) in &sorted[i + 1..] {
                if other.0 > interval.1 {
                    break;
                }
                self.spend(1)?;
                if !(self.visit)(&self.entries[*a], &self.entries[*b]) {
                    return Err(Stop::Visitor);
                }
            }
        }
        Ok(())
    }
}

/// Cuts sorted intervals where one ends before the next begins.
fn parts(sorted: &[(Interval, usize)]) -> Vec<&[(Interval, usize)]> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut end = (0, 0);
    for (i, (interval, _)) in sorted.iter().enumerate() {
        if i > start && interval.0 > end {
            parts.push(&sorted[start..i]);
            start = i;
        }
        end = if i == start { interval.1 } else { end.max(interval.1) };
    }
    parts.push(&sorted[start..]);
    parts
}

/// How many pairs of sorted intervals overlap.
fn pairs(sorted: &[(Interval, usize)]) -> u64 {
    let later = |i: usize| sorted[i + 1..].partition_point(|(other, _)| other.0 <= sorted[i].0.1) as u64;
    (0..sorted.len()).map(later).sum()
}

/// The fields to sort along. The number is the length of the common literal prefix of all paths of
/// control groups.
const FIELDS: [fn(&Match, usize) -> Interval; 10] = [
    |filter, _| filter.ports.map_or(ANY, |(first, last)| ((0, first.into()), (0, last.into()))),
    |filter, _| filter.address.map_or(ANY, |net| address_interval(&net)),
    |filter, _| filter.vni.map_or(ANY, |vni| ((0, vni.into()), (0, vni.into()))),
    |filter, _| filter.priority.map_or(ANY, |priority| ((0, priority.into()), (0, priority.into()))),
    |filter, _| filter.dscp.map_or(ANY, |dscp| ((0, dscp.into()), (0, dscp.into()))),
    |filter, _| filter.interface.as_deref().map_or(ANY, glob_interval),
    |filter, _| filter.pod.as_ref().and_then(PodSelector::namespace).map_or(ANY, glob_interval),
    |filter, _| filter.pod.as_ref().and_then(PodSelector::name).map_or(ANY, glob_interval),
    |filter, _| {
        // The same from the back: `*0` and `*1` differ there only.
        filter.interface.as_ref().map_or(ANY, |glob| {
            let literal: String = glob.chars().rev().take_while(|c| !matches!(c, '*' | '?')).collect();
            text_interval(&literal, literal.len() < glob.len())
        })
    },
    |filter, common| {
        let rest = |glob: &CgroupGlob| text_interval(glob.literal_start().get(common..).unwrap_or(""), true);
        filter.cgroup.as_ref().map_or(ANY, rest)
    },
];

fn address_interval(net: &IpNet) -> Interval {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => (4, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (6, v6.to_bits()),
    };
    (bits(net.network()), bits(net.broadcast()))
}

/// The texts that a glob matches, by their first letters.
fn glob_interval(glob: &str) -> Interval {
    let literal = glob.find(['*', '?']).unwrap_or(glob.len());
    text_interval(&glob[..literal], literal < glob.len())
}

/// All texts that are `start`, or with `open` that start with it, by their first 16 bytes.
fn text_interval(start: &str, open: bool) -> Interval {
    let mut low = [0; 16];
    let length = start.len().min(16);
    low[..length].copy_from_slice(&start.as_bytes()[..length]);
    let mut high = low;
    if open {
        high[length..].fill(0xff);
    }
    ((0, u128::from_be_bytes(low)), (0, u128::from_be_bytes(high)))
}

/// How many bytes all paths of control groups have in common before their first wildcards.
fn common_cgroup(entries: &[Entry<'_>]) -> usize {
    let mut paths = entries.iter().filter_map(|entry| entry.filter.cgroup.as_ref().map(CgroupGlob::literal_start));
    let Some(first) = paths.next() else { return 0 };
    let common = paths.fold(first.len(), |common, path| {
        first.bytes().zip(path.bytes()).take(common).take_while(|(a, b)| a == b).count()
    });
    (0..=common).rev().find(|end| first.is_char_boundary(*end)).unwrap_or(0)
}

/// Whether some packet matches both filters.
pub(crate) fn overlaps(a: &Match, b: &Match) -> bool {
    protocols_overlap(a, b)
        && both(a.ports, b.ports, |x, y| x.0 <= y.1 && y.0 <= x.1)
        && both(a.address, b.address, |x, y| x.contains(&y) || y.contains(&x))
        && both(a.dscp, b.dscp, |x, y| x == y)
        && both(a.vni, b.vni, |x, y| x == y)
        && both(a.priority, b.priority, |x, y| x == y)
        && both(a.interface.as_deref(), b.interface.as_deref(), glob::overlap)
        && both(a.pod.as_ref(), b.pod.as_ref(), PodSelector::overlaps)
        && both(a.cgroup.as_ref(), b.cgroup.as_ref(), CgroupGlob::overlaps)
}

/// Whether every packet that matches `narrow` matches `wide`. A packet with one end in a range or prefix has it in a
/// wider one too.
fn covers(wide: &Match, narrow: &Match) -> bool {
    within(&wide.protocol, &narrow.protocol, |x, y| x == y)
        && within(&wide.ports, &narrow.ports, |x, y| x.0 <= y.0 && y.1 <= x.1)
        && within(&wide.address, &narrow.address, |x, y| x.contains(y))
        && within(&wide.dscp, &narrow.dscp, |x, y| x == y)
        && within(&wide.vni, &narrow.vni, |x, y| x == y)
        && within(&wide.priority, &narrow.priority, |x, y| x == y)
        && within(&wide.interface, &narrow.interface, |x, y| glob::covers(x, y))
        && within(&wide.pod, &narrow.pod, PodSelector::covers)
        && within(&wide.cgroup, &narrow.cgroup, CgroupGlob::covers)
}

/// A field that the wide one lacks has every value of the narrow one.
fn within<T>(wide: &Option<T>, narrow: &Option<T>, covers: impl FnOnce(&T, &T) -> bool) -> bool {
    match (wide, narrow) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wide), Some(narrow)) => covers(wide, narrow),
    }
}

/// A field that one of them lacks has every value in common.
fn both<T>(a: Option<T>, b: Option<T>, overlap: impl FnOnce(T, T) -> bool) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => overlap(a, b),
        _ => true,
    }
}

/// Without a protocol a filter with ports matches the protocols that have them, one without matches
/// all.
fn protocols_overlap(a: &Match, b: &Match) -> bool {
    let accepts = |filter: &Match, protocol: Protocol| filter.ports.is_none() || protocol.has_ports();
    match (a.protocol, b.protocol) {
        (Some(a), Some(b)) => a == b,
        (Some(protocol), None) => accepts(b, protocol),
        (None, Some(protocol)) => accepts(a, protocol),
        (None, None) => true,
    }
}

/// The common part of two overlapping filters, for a message.
fn common(a: &Match, b: &Match) -> String {
    let narrower = |x: &str, y: &str| if x.len() >= y.len() { x.to_owned() } else { y.to_owned() };
    let text = |x: &Option<String>, y: &Option<String>| match (x, y) {
        (Some(x), Some(y)) => Some(narrower(x, y)),
        (x, y) => x.clone().or_else(|| y.clone()),
    };
    let meet = Match {
        protocol: a.protocol.or(b.protocol),
        ports: match (a.ports, b.ports) {
            (Some(x), Some(y)) => Some((x.0.max(y.0), x.1.min(y.1))),
            (x, y) => x.or(y),
        },
        address: match (a.address, b.address) {
            (Some(x), Some(y)) => Some(if x.contains(&y) { y } else { x }),
            (x, y) => x.or(y),
        },
        dscp: a.dscp.or(b.dscp),
        vni: a.vni.or(b.vni),
        priority: a.priority.or(b.priority),
        // Two globs have no shortest name in common that would be worth computing: name one of
        // them.
        interface: text(&a.interface, &b.interface),
        pod: match (&a.pod, &b.pod) {
            (Some(x), Some(y)) => Some(x.common(y)),
            (x, y) => x.clone().or_else(|| y.clone()),
        },
        cgroup: match (&a.cgroup, &b.cgroup) {
            (Some(x), Some(y)) => Some(x.common(y)),
            (x, y) => x.clone().or_else(|| y.clone()),
        },
    };
    format!("`{}`", meet.canonical_text())
}

#[cfg(test)]
#[path = "overlap_tests.rs"]
mod tests;
