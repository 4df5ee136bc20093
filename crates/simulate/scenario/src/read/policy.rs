//! References to a policy: its file, the network that it runs over, services and racks.
//!
//! A policy over a network of the scenario's own needs a host for each machine, and speeds that are
//! the same in both ([`weir_network::Mismatch`]).

use super::{Base, Files, Reader};
use crate::language::DIRECTION_KEYWORDS;
use crate::model::Measure;
use std::path::PathBuf;
use std::sync::Arc;
use weir_document::{Field, Key, Node, Span, quote, scalar};
use weir_latency::levels::admit;
use weir_network::names::NameRange;
use weir_network::topology::{Links, Size, racks_size};
use weir_network::{Graph, Network, Wiring};
use weir_policy::Policy;
use weir_units::{Direction, Duration, MachineId, RackId, ServiceId};

/// The network that a policy runs over; `None` where it was refused.
type PolicyNetwork = (Option<Arc<Graph>>, Option<Base>);

impl<F: Files> Reader<'_, F> {
    /// The policy and its file; `None` only if something was reported, here or about the policy.
    pub(super) fn policy(&mut self, root: &Node) -> Option<(Arc<Policy>, PathBuf)> {
        let path = root.get("policy").and_then(Node::scalar).filter(|path| !path.is_empty())?;
        let path = self.directory.join(path);
        match self.files.policy(&path) {
            Ok((policy, notes)) => {
                self.notes.extend(notes);
                let mut settings = root.get("policy-set").map_or(&[][..], Node::items).iter().filter_map(Node::scalar);
                let set = settings.try_fold(policy, |policy, setting| policy.with(setting));
                let admitted = set.and_then(|policy| admit(&policy).map(|admitted| (policy, admitted)));
                match admitted.map(|(policy, admitted)| admitted.map_or(policy, |admitted| admitted.policy)) {
                    Ok(policy) => Some((Arc::new(policy), path)),
                    Err(errors) => {
                        self.others.push(errors);
                        None
                    }
                }
            }
            Err(errors) => {
                self.others.push(errors);
                None
            }
        }
    }

    /// The network of a scenario under a policy; `None` only if the policy was refused.
    pub(super) fn policy_network(&mut self, root: &Node) -> Option<PolicyNetwork> {
        let policy = self.policy(root);
        let own = root.get("network").map(|node| (node, self.networks().graph(node)));
        let written = root.get("links");
        let mapping = root.get("machines");
        if let (Some(node), None) = (mapping, &own) {
            let cause = "machines are mapped to hosts, but the scenario has no network of its own";
            self.error(node.span, cause, "add `network`, or remove `machines`");
        }
        let read_links = written.map(|node| self.networks().links_of_racks(Some(node)));
        let (policy, path) = policy?;
        let racks = match policy.wiring() {
            Wiring::Racks(links) if own.is_none() => Some(read_links.unwrap_or(*links)),
            _ => None,
        };
        if let (Some(node), None) = (written, racks) {
            let whose = if own.is_some() { "the scenario's network" } else { "the policy's topology" };
            let cause = format!("{whose} has links of its own, and `links` are those between racks");
            self.error(node.span, cause, "remove `links`, and write their properties in the network");
            return Some((None, None));
        }
        let graph = match (own, racks) {
            (Some((node, graph)), _) => graph.and_then(|graph| self.mapped(graph, (node, mapping), &policy)),
            (None, Some(links)) => self.graph_of_racks(root, policy.network(), &links),
            (None, None) => {
                let at = root.get("policy").map_or(root.span, |node| node.span);
                let graph = policy.graph();
                self.networks().fits(Size::of(&graph), at, "the policy's network").then_some(graph)
            }
        };
        Some((graph, Some(Base { policy, path, links: racks })))
    }

    /// The graph of a policy's racks.
    fn graph_of_racks(&mut self, root: &Node, network: &Network, links: &Links) -> Option<Arc<Graph>> {
        self.stated_buffers(root, network, links);
        let at = root.get("policy").map_or(root.span, |node| node.span);
        let mut networks = self.networks();
        let sound = networks.fits(racks_size(network, links), at, "the policy's network")
            && networks.can_simulate_racks(network, links, at);
        sound.then(|| Wiring::Racks(*links).graph(network))
    }

    /// A graph whose hosts are the policy's machines.
    fn mapped(&mut self, graph: Graph, (at, mapping): (&Node, Option<&Node>), policy: &Policy) -> Option<Arc<Graph>> {
        let network = policy.network();
        let mut hosts: Vec<String> = network.machines().iter().map(|machine| machine.name().to_owned()).collect();
        let mut places: Vec<Option<Span>> = vec![None; hosts.len()];
        for (key, node) in mapping.map_or(&[][..], Node::entries) {
            self.add_hosts_of(key, node, network, &mut hosts, &mut places)?;
        }
        match graph.mapped(network, &hosts) {
            Ok(graph) => Some(Arc::new(graph)),
            Err(mismatch) => {
                self.error(mapping.unwrap_or(at).span, mismatch.to_string(), mismatch.hint());
                None
            }
        }
    }

    /// Reads an item of `machines`: the hosts of a machine or of a range of them.
    fn add_hosts_of(
        &mut self,
        key: &Key,
        node: &Node,
        network: &Network,
        hosts: &mut [String],
        places: &mut [Option<Span>],
    ) -> Option<()> {
        let (machines, names) = (NameRange::parse(&key.text).ok()?, NameRange::parse(node.scalar()?).ok()?);
        if machines.count() != names.count() {
            let cause = format!("{} machines are mapped to {} hosts", machines.count(), names.count());
            self.error(node.span, cause, "name as many hosts as machines");
            return None;
        }
        for (machine, host) in machines.names().zip(names.names()) {
            let Some(MachineId(id)) = network.machine_named(&machine) else {
                let known = network.machines().iter().map(|machine| machine.name());
                let hint = self.suggester.hint_of_name(&machine, known, "name machines of the policy");
                self.error(key.span, format!("there is no machine {} in the policy", quote(&machine)), hint);
                return None;
            };
            if let Some(first) = places[id as usize].replace(key.span) {
                let cause = format!("machine `{machine}` is mapped twice");
                self.problems.error_with(key.span, cause, "keep one of them", (first, "first here"));
                return None;
            }
            hosts[id as usize] = host;
        }
        Some(())
    }

    /// A remark if the ports of a run have other buffers than the policy states: the run then differs
    /// from the plan of the policy.
    pub(super) fn stated_buffers(&mut self, root: &Node, network: &Network, links: &Links) {
        let (stated, buffer) = (network.port_buffers(), links.queue.buffer);
        let Some(other) = [stated.machine, stated.rack].into_iter().flatten().find(|stated| *stated != buffer) else {
            return;
        };
        let at = root.get("links").or(root.get("policy")).map_or(root.span, |node| node.span);
        self.problems.note(
            at,
            format!("ports have buffers of {buffer}, while the policy's `switches` state {other}"),
            "write the stated size as `links: { buffer: … }`, or plan with `weir plan --scenario`",
        );
    }

    pub(super) fn service(&mut self, node: &Node, policy: &Policy) -> Option<ServiceId> {
        let path = node.scalar()?;
        let services = policy.services();
        let Some(id) = services.named(path) else {
            let known = services.leaves().map(|(_, service)| service.path());
            let hint = self.suggester.hint(path, known, "name a service of the policy, nested ones as `parent/child`");
            self.error(node.span, format!("there is no service {} in the policy", quote(path)), hint);
            return None;
        };
        let service = services.get(id);
        if let Some(child) = service.children().first() {
            self.error(
                node.span,
                format!("service `{path}` has no traffic of its own: its children have"),
                format!("name one of its children, for example `{}`", services.get(*child).path()),
            );
            return None;
        }
        Some(id)
    }

    fn rack(&mut self, node: &Node, policy: &Policy) -> Option<RackId> {
        let name = node.scalar()?;
        let network = policy.network();
        let found = network.rack_named(name);
        if found.is_none() {
            let known = network.racks().iter().map(|rack| rack.name());
            let hint = self.suggester.hint(name, known, "name a rack of the policy");
            self.error(node.span, format!("there is no rack {} in the policy", quote(name)), hint);
        }
        found
    }

    pub(super) fn measure_rack(&mut self, node: &Node, policy: &Policy, duration: Field<Duration>) -> Option<Measure> {
        let rack = node.get("rack").and_then(|node| self.rack(node, policy));
        let direction = node.field("direction", |text| scalar::word(text, "", DIRECTION_KEYWORDS)).value();
        let every = node.field("every", |text| scalar::time(text, false));
        self.samples(every, duration);
        Some(Measure { rack: rack?, direction: Direction::ALL[direction?], every: every.value()? })
    }
}
