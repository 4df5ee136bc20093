//! `topology: links`: hosts, switches and links one by one.

use super::NetworkReader;
use super::topology::LinkDefaults;
use crate::graph::{LinkSpec, QueueSpec};
use crate::names::NameRange;
use crate::topology::{Explicit, ExplicitCable, ExplicitHost};
use std::collections::{HashMap, HashSet};
use weir_document::{Node, Span, quote};

/// Names that one list may stand for: ranges are short to write.
const MAX_NAMES: u64 = 1_000_000;

/// An end of a link: an index among the hosts or the switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Host(usize),
    Switch(usize),
}

impl NetworkReader<'_> {
    /// A network of links; `None` only if something was reported.
    pub(super) fn explicit(&mut self, node: &Node, inherited: &LinkDefaults) -> Option<Explicit> {
        let before = self.problems.count();
        let (mut ends, mut places) = (HashMap::new(), Vec::new());
        let hosts = self.names_of(node.get("hosts")?, &mut ends, &mut places, End::Host)?;
        if hosts.len() < 2 {
            let span = node.get("hosts").map_or(node.span, |list| list.span);
            self.error(span, "a network of one host carries nothing", "name another host");
            return None;
        }
        let switches = self.names_of(node.get("switches")?, &mut ends, &mut places, End::Switch)?;
        let mut found: Vec<Option<(ExplicitHost, Span)>> = vec![None; hosts.len()];
        let mut cables = Vec::new();
        // Links that cannot be read, which has been reported; their hosts have a link nevertheless.
        let mut spoilt = Vec::new();
        for item in node.get("links")?.items() {
            if self.cable(item, inherited, (&hosts, &ends), &mut found, &mut cables).is_none() {
                // Without two ends the owner of a link is unknown.
                spoilt.push(item.get("between").filter(|between| between.items().len() == 2)?);
            }
        }
        if self.problems.count() != before {
            return None;
        }
        let named: HashSet<&str> = spoilt.iter().flat_map(|between| between.items()).filter_map(Node::scalar).collect();
        for (place, name) in hosts.iter().enumerate() {
            if found[place].is_some() || named.contains(&**name) {
                continue;
            }
            let span = places[place];
            self.error(span, format!("host `{name}` has no link"), "add a link between it and a switch, or remove it");
        }
        let hosts = found.into_iter().map(|host| host.map(|(host, _)| host)).collect::<Option<Vec<_>>>()?;
        if !spoilt.is_empty() {
            return None;
        }
        self.in_one_piece(&switches, &places[hosts.len()..], &cables)?;
        let groups = self.groups(node.get("groups"), &ends)?;
        Some(Explicit { hosts, switches, cables, groups })
    }

    /// The names of a list, with the kind and position of each.
    fn names_of(
        &mut self,
        list: &Node,
        ends: &mut HashMap<String, End>,
        places: &mut Vec<Span>,
        end: fn(usize) -> End,
    ) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for item in list.items() {
            let Some(Ok(range)) = item.scalar().map(NameRange::parse) else { return None };
            if names.len() as u64 + range.count() > MAX_NAMES {
                self.error(item.span, format!("this list has more than {MAX_NAMES} names"), "name fewer");
                return None;
            }
            for name in range.names() {
                if ends.insert(name.clone(), end(names.len())).is_some() {
                    self.error(
                        item.span,
                        format!("{} is the name of two hosts or switches", quote(&name)),
                        "give each a name of its own",
                    );
                    return None;
                }
                names.push(name);
                places.push(item.span);
            }
        }
        Some(names)
    }

    fn cable(
        &mut self,
        item: &Node,
        inherited: &LinkDefaults,
        (hosts, ends): (&[String], &HashMap<String, End>),
        found: &mut [Option<(ExplicitHost, Span)>],
        cables: &mut Vec<ExplicitCable>,
    ) -> Option<()> {
        let between = item.get("between")?;
        if between.items().len() > 2 {
            self.error(
                between.span,
                format!("a link has two ends, not {}", between.items().len()),
                "write a link for each pair",
            );
            return None;
        }
        let [first, second] = between.items() else { return None };
        let (a, b) = (self.named_end(first, ends), self.named_end(second, ends));
        let there = self.link(item, None, inherited.queue, inherited.common.packets, inherited.own_buffer());
        let back = there.and_then(|there| self.back(item.get("back"), there, inherited));
        let (a, b, there, back) = (a?, b?, there?, back?);
        if a == b {
            self.error(
                second.span,
                format!("this link leads from {} to itself", quote(first.scalar()?)),
                "name another end",
            );
            return None;
        }
        let (host, switch, up, down) = match (a, b) {
            (End::Host(host), End::Switch(switch)) => (host, switch, there, back),
            (End::Switch(switch), End::Host(host)) => (host, switch, back, there),
            (End::Switch(a), End::Switch(b)) => {
                cables.push(ExplicitCable { a, b, a_to_b: there, b_to_a: back });
                return Some(());
            }
            (End::Host(_), End::Host(_)) => {
                self.error(
                    between.span,
                    "this link leads from one host to another",
                    "put a switch between them: hosts forward nothing",
                );
                return None;
            }
        };
        let name = &hosts[host];
        if let Some((_, other)) = found[host] {
            let cause = format!("host `{name}` has two links");
            self.problems.error_with(between.span, cause, "give each host exactly one link", (other, "the other one"));
            return None;
        }
        found[host] = Some((ExplicitHost { name: name.clone(), switch, up, down }, between.span));
        Some(())
    }

    fn named_end(&mut self, node: &Node, ends: &HashMap<String, End>) -> Option<End> {
        let name = node.scalar()?;
        let end = ends.get(name).copied();
        if end.is_none() {
            // In the order of names: that of a hash map changes from run to run.
            let mut known: Vec<&str> = ends.keys().map(|name| &**name).collect();
            known.sort_unstable();
            let hint = self.suggester.hint_of_name(name, known, "name one of `hosts` or `switches`");
            self.error(node.span, format!("there is no host and no switch {}", quote(name)), hint);
        }
        end
    }

    /// The reverse direction: equal to the forward one except for written keys.
    fn back(&mut self, node: Option<&Node>, there: LinkSpec, inherited: &LinkDefaults) -> Option<LinkSpec> {
        let Some(node) = node else { return Some(there) };
        let default: QueueSpec = there.queue;
        let mut back = self.link(node, Some(there.rate), default, inherited.common.packets, inherited.own_buffer())?;
        if node.get("delay").is_none() {
            back.delay = there.delay;
        }
        Some(back)
    }

    /// Refuses switches that cannot reach each other. Hosts have a switch each.
    fn in_one_piece(&mut self, switches: &[String], places: &[Span], cables: &[ExplicitCable]) -> Option<()> {
        let mut neighbours = vec![Vec::new(); switches.len()];
        for cable in cables {
            neighbours[cable.a].push(cable.b);
            neighbours[cable.b].push(cable.a);
        }
        let mut reached = vec![false; switches.len()];
        let mut next = vec![0];
        while let Some(switch) = next.pop() {
            if !std::mem::replace(&mut reached[switch], true) {
                next.extend(&neighbours[switch]);
            }
        }
        let Some(apart) = reached.iter().position(|reached| !reached) else { return Some(()) };
        self.error(
            places[apart],
            format!("the network is in pieces: no links lead from `{}` to `{}`", switches[0], switches[apart]),
            "add a link between the pieces, or remove the switch",
        );
        None
    }

    fn groups(&mut self, node: Option<&Node>, ends: &HashMap<String, End>) -> Option<Vec<(String, Vec<u32>)>> {
        let before = self.problems.count();
        let mut groups = Vec::new();
        for (key, value) in node.map_or(&[][..], Node::entries) {
            if ends.contains_key(&key.text) || key.text == "all" {
                let cause = format!("the name {} is taken", quote(&key.text));
                self.error(key.span, cause, "give the group another name; `all` is all hosts");
            }
            let items = if value.items().is_empty() { std::slice::from_ref(value) } else { value.items() };
            let mut members = Vec::new();
            for item in items {
                let Some(Ok(range)) = item.scalar().map(NameRange::parse) else { continue };
                if range.count() > MAX_NAMES {
                    self.error(item.span, format!("this range has more than {MAX_NAMES} names"), "name fewer");
                    continue;
                }
                for name in range.names() {
                    match ends.get(&name) {
                        Some(End::Host(host)) => members.push(*host as u32),
                        _ => {
                            let cause = format!("there is no host {}", quote(&name));
                            self.error(item.span, cause, "name one of `hosts`");
                            break;
                        }
                    }
                }
            }
            let named = members.len();
            members.sort_unstable();
            members.dedup();
            if members.len() != named {
                self.error(value.span, "a host is named twice in this group", "name each host once");
            }
            groups.push((key.text.clone(), members));
        }
        (self.problems.count() == before).then_some(groups)
    }
}
