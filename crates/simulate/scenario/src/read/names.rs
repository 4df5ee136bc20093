//! Hosts, groups and links by name.
//!
//! A name in `from` and `to` is a group or a host; ranges stand for several names. A link's name is
//! its ends: `a->b` for one direction, `a<->b` for both. Several cables between the same switches
//! are meant all together, and `a->b#2` is the second of them in the order of the file.

use super::{Files, Reader};
use crate::language::{LinkEnd, LinkName, MAX_FLOWS, MAX_LINKS_NAMED, link_name};
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use weir_document::{Node, Span, quote};
use weir_network::Network;
use weir_network::graph::{Graph, LinkRef};
use weir_network::names::NameRange;
use weir_units::MachineId;

/// Hosts that all traffic together may name. Sound traffic of [`MAX_FLOWS`] names at most half of
/// it; the bound keeps a file of refused flow groups from taking minutes.
const MAX_NAMED: u64 = 4 * MAX_FLOWS;

/// The names of a graph.
pub(super) struct Names<'g> {
    pub(super) graph: &'g Graph,
    hosts: HashMap<&'g str, MachineId>,
    switches: HashMap<&'g str, usize>,
    words: Words,
    /// Cables by their ends, the lower one first; made at the first lookup of a link.
    cables: OnceCell<BTreeMap<(usize, usize), Vec<usize>>>,
    /// Hosts named so far, with repetitions.
    named: Cell<u64>,
}

/// The names of groups, hosts and the whole.
struct Words {
    group: &'static str,
    host: &'static str,
    whole: &'static str,
}

/// An end of a link.
#[derive(Clone, Copy)]
enum End {
    Host(MachineId),
    Switch(usize),
}

impl<'g> Names<'g> {
    /// The names of `graph`, which a policy's `network` may be the source of.
    pub(super) fn new(graph: &'g Graph, network: Option<&Network>) -> Self {
        let hosts = graph.hosts.iter().zip(0..).map(|(host, id)| (&*host.name, MachineId(id))).collect();
        let switches = graph.switches.iter().enumerate().map(|(i, name)| (&**name, i)).collect();
        let words = match network {
            Some(_) => Words { group: "rack", host: "machine", whole: "policy" },
            None => Words { group: "group", host: "host", whole: "network" },
        };
        Self { graph, hosts, switches, words, cables: OnceCell::new(), named: Cell::new(0) }
    }

    /// The noun for a host: `host` or `machine`.
    pub(super) fn host_line(&self) -> &'static str {
        self.words.host
    }
    /// The name of a host.
    pub(super) fn name_of(&self, host: MachineId) -> &'g str {
        &self.graph.hosts[host.index()].name
    }
    /// The host with this name.
    pub(super) fn host(&self, name: &str) -> Option<MachineId> {
        self.hosts.get(name).copied()
    }
    /// Whether the named hosts exceed the bound, so that no more flow groups are read; it has been
    /// reported.
    pub(super) fn are_used_up(&self) -> bool {
        self.named.get() > MAX_NAMED
    }

    /// The end with a name. In names of links a host with the name of a switch is `name#host`.
    fn end(&self, name: &str, is_host: bool) -> Option<End> {
        let switch = self.switches.get(name).filter(|_| !is_host).map(|switch| End::Switch(*switch));
        switch.or_else(|| self.host(name).map(End::Host))
    }
    fn cables(&self) -> &BTreeMap<(usize, usize), Vec<usize>> {
        self.cables.get_or_init(|| {
            let mut cables: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for (i, cable) in self.graph.cables.iter().enumerate() {
                cables.entry((cable.a.min(cable.b), cable.a.max(cable.b))).or_default().push(i);
            }
            cables
        })
    }
    /// The links from one end to the other; of several cables between two switches all, or the one with a number.
    fn between(&self, from: End, to: End, number: Option<u32>, links: &mut Vec<LinkRef>) {
        match (from, to) {
            (End::Host(host), End::Switch(switch)) if self.graph.hosts[host.index()].switch == switch => {
                links.extend(number.is_none().then_some(LinkRef::Up(host)));
            }
            (End::Switch(switch), End::Host(host)) if self.graph.hosts[host.index()].switch == switch => {
                links.extend(number.is_none().then_some(LinkRef::Down(host)));
            }
            (End::Switch(from), End::Switch(to)) => {
                let cables = self.cables().get(&(from.min(to), from.max(to))).into_iter().flatten();
                let meant = |cable: &&usize| number.is_none_or(|number| self.graph.cables[**cable].number == number);
                links.extend(cables.filter(meant).map(|&cable| match self.graph.cables[cable].a == from {
                    true => LinkRef::Forward(cable),
                    false => LinkRef::Backward(cable),
                }));
            }
            _ => {}
        }
    }
    /// The names of some neighbours, for messages.
    fn neighbours(&self, end: End) -> Vec<&'g str> {
        const SHOWN: usize = 4;
        match end {
            End::Host(host) => vec![&self.graph.switches[self.graph.hosts[host.index()].switch]],
            End::Switch(switch) => {
                let cables = self.graph.cables.iter().filter_map(|cable| match (cable.a, cable.b) {
                    (a, b) if a == switch => Some(&*self.graph.switches[b]),
                    (a, b) if b == switch => Some(&*self.graph.switches[a]),
                    _ => None,
                });
                let hosts = self.graph.hosts.iter().filter(|host| host.switch == switch).map(|host| &*host.name);
                cables.chain(hosts).take(SHOWN).collect()
            }
        }
    }
}

impl<F: Files> Reader<'_, F> {
    /// The hosts that a name, a range or a list of them stands for, ascending.
    pub(super) fn hosts(&mut self, node: &Node, names: &Names<'_>) -> Option<Vec<MachineId>> {
        let items = if node.items().is_empty() { std::slice::from_ref(node) } else { node.items() };
        self.hosts_in(&items.iter().collect::<Vec<_>>(), names)
    }

    /// The hosts that some names and ranges stand for, ascending.
    pub(super) fn hosts_in(&mut self, items: &[&Node], names: &Names<'_>) -> Option<Vec<MachineId>> {
        let before = self.problems.count();
        let mut all = BTreeSet::new();
        for &item in items {
            self.add_hosts(item, names, &mut all);
        }
        (self.problems.count() == before && !all.is_empty()).then(|| all.into_iter().collect())
    }

    fn add_hosts(&mut self, item: &Node, names: &Names<'_>, all: &mut BTreeSet<MachineId>) {
        let Some(Ok(range)) = item.scalar().map(NameRange::parse) else { return };
        let Words { group, host, whole } = names.words;
        let count = names.graph.hosts.len();
        if range.count() > count as u64 {
            self.error(
                item.span,
                format!("the range names {} {host}s, the {whole} has {count}", range.count()),
                "check the ends of this range",
            );
            return;
        }
        for name in range.names() {
            let single;
            let hosts: &[MachineId] = match (names.graph.groups.get(&name), names.host(&name)) {
                (Some(_), Some(_)) => {
                    self.error(
                        item.span,
                        format!("{} is both a {group} and a {host}", quote(&name)),
                        format!("rename one of them in the {whole}"),
                    );
                    return;
                }
                (Some(group), None) => group,
                (None, Some(host)) => {
                    single = [host];
                    &single
                }
                (None, None) => {
                    let known = names.graph.groups.keys().map(|name| &**name);
                    let known = known.chain(names.graph.hosts.iter().map(|host| &*host.name));
                    let hint =
                        self.suggester.hint_of_name(&name, known, &format!("name {group}s and {host}s of the {whole}"));
                    let cause = format!("there is no {group} and no {host} {} in the {whole}", quote(&name));
                    self.error(item.span, cause, hint);
                    return;
                }
            };
            names.named.set(names.named.get() + hosts.len() as u64);
            if names.are_used_up() {
                self.error(
                    item.span,
                    format!("the traffic names {host}s more than {MAX_NAMED} times"),
                    format!("name fewer {host}s"),
                );
                return;
            }
            for &id in hosts {
                if !all.insert(id) {
                    self.error(
                        item.span,
                        format!("{host} `{}` is named twice", names.name_of(id)),
                        format!("name each {host} once; a {group} names all of its {host}s"),
                    );
                    return;
                }
            }
        }
    }

    /// The links that a name stands for, each once; `None` only if something was reported.
    pub(super) fn links(&mut self, node: &Node, names: &Names<'_>) -> Option<Vec<LinkRef>> {
        let Ok(LinkName { from, to, both, number }) = link_name(node.scalar()?) else { return None };
        let count = from.names.count().saturating_mul(to.names.count());
        if count > MAX_LINKS_NAMED {
            self.error(
                node.span,
                format!("this name stands for {count} links, more than {MAX_LINKS_NAMED}"),
                "name fewer links at once",
            );
            return None;
        }
        let mut links = Vec::new();
        let end = |end: &LinkEnd<'_>, name: String| (name, end.is_host);
        for first in from.names.names().map(|name| end(&from, name)) {
            for second in to.names.names().map(|name| end(&to, name)) {
                let ends = (self.end(&first, node.span, names)?, self.end(&second, node.span, names)?);
                let before = links.len();
                names.between(ends.0, ends.1, number, &mut links);
                if links.len() == before {
                    self.no_link(node.span, (&first.0, &second.0), ends, names);
                    return None;
                }
                if both {
                    names.between(ends.1, ends.0, number, &mut links);
                }
            }
        }
        links.sort_unstable();
        links.dedup();
        Some(links)
    }

    /// Reports that there is no link between two ends, or none with the written number.
    fn no_link(&mut self, at: Span, (from, to): (&str, &str), ends: (End, End), names: &Names<'_>) {
        let mut all = Vec::new();
        names.between(ends.0, ends.1, None, &mut all);
        if all.is_empty() {
            let near: Vec<_> = names.neighbours(ends.0).into_iter().map(|name| format!("`{name}`")).collect();
            let cause = format!("there is no link between {} and {}", quote(from), quote(to));
            self.error(at, cause, format!("links of {} lead to {}", quote(from), near.join(", ")));
            return;
        }
        let (cause, hint) = match all.len() {
            1 => (format!("there is one link between {} and {}", quote(from), quote(to)), "remove its number".into()),
            count => (
                format!("there are {count} links between {} and {}", quote(from), quote(to)),
                format!("write a number from 1 to {count}, or none for all of them"),
            ),
        };
        self.error(at, cause, hint);
    }

    fn end(&mut self, (name, is_host): &(String, bool), at: Span, names: &Names<'_>) -> Option<End> {
        let end = names.end(name, *is_host);
        if end.is_none() {
            let Words { host, whole, .. } = names.words;
            let known = names.graph.switches.iter().map(|name| &**name);
            let known = known.chain(names.graph.hosts.iter().map(|host| &*host.name));
            let hint = self.suggester.hint_of_name(name, known, &format!("name switches and {host}s of the {whole}"));
            self.error(at, format!("there is no switch and no {host} {} in the {whole}", quote(name)), hint);
        }
        end
    }
}
