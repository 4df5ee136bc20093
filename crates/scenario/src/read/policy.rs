//! References to a policy: its file, its links, services and racks.

use super::{Files, Reader};
use crate::language::{DIRECTION_KEYWORDS, MAX_MTU, MIN_MTU};
use crate::model::Measure;
use std::path::PathBuf;
use std::sync::Arc;
use weir_document::{Field, Node, Span, quote, scalar};
use weir_network::Network;
use weir_network::graph::Packets;
use weir_network::language::MAX_BUFFER;
use weir_network::read::{can_be_simulated, links_have};
use weir_network::topology::Links;
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Duration, RackId, ServiceId};

impl<F: Files> Reader<'_, F> {
    /// The policy and its file; `None` only if something was reported, here or about the policy.
    pub(super) fn policy(&mut self, root: &Node) -> Option<(Arc<Policy>, PathBuf)> {
        let path = root.get("policy").and_then(Node::scalar).filter(|path| !path.is_empty())?;
        let path = self.directory.join(path);
        match self.files.policy(&path) {
            Ok((policy, notes)) => {
                self.notes.extend(notes);
                Some((Arc::new(policy), path))
            }
            Err(errors) => {
                self.others.push(errors);
                None
            }
        }
    }

    pub(super) fn policy_links(&mut self, node: Option<&Node>) -> Links {
        let mut links = Links::default();
        let Some(node) = node else { return links };
        if let Field::Value(delay, _) = self.networks().delay(node) {
            links.delay = delay;
        }
        let (buffer, mtu) = (node.field("buffer", scalar::size), node.field("mtu", scalar::size));
        if let Field::Value(size, span) = mtu {
            if (MIN_MTU..=MAX_MTU).contains(&size) {
                links.mtu = size;
            } else {
                self.error(
                    span,
                    format!("the mtu {size} is not between {} B and {} B", MIN_MTU.get(), MAX_MTU.get()),
                    "write for example `1500B`",
                );
            }
        }
        if let Field::Value(size, span) = buffer {
            links.queue.buffer = size;
            if size > MAX_BUFFER {
                self.error(span, format!("the buffer {size} is larger than {MAX_BUFFER}"), "for example `256kB`");
            }
        }
        if let Some(queue) = node.get("queue") {
            if let Some(span) = buffer.span() {
                self.error(span, "there is a `buffer` beside a `queue`", "write it inside of `queue`");
            }
            // The size of headers does not matter here: the buffer is checked against the mtu.
            let packets = Packets { payload: links.mtu.get() as u32, headers: 0 };
            links.queue = self.networks().queue(Some(queue), links.queue, packets, true).unwrap_or(links.queue);
        } else if links.queue.buffer < links.mtu {
            let span = buffer.span().or(mtu.span()).unwrap_or(node.span);
            self.error(
                span,
                format!("the buffer {} holds no packet of {}", links.queue.buffer, links.mtu),
                "make it at least as large as the mtu",
            );
        }
        if let Some(spines) = node.field("spines", |text| scalar::integer(text, "", 1, 64)).value() {
            links.spines = spines as u32;
        }
        links
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

    /// Whether links of the policy's rates can be simulated; the first that cannot is reported at
    /// `at`.
    pub(super) fn rates(&mut self, network: &Network, links: &Links, at: Span) -> bool {
        let interface = network.machines().iter().find_map(|machine| {
            let rate = Direction::ALL.map(|direction| machine.nic()[direction]);
            let rate = rate.into_iter().find(|rate| !can_be_simulated(*rate))?;
            Some(format!("machine {} has an interface of {rate}", quote(machine.name())))
        });
        let uplink = || {
            network.racks().iter().find_map(|rack| {
                let whole = Direction::ALL.map(|direction| rack.uplink()[direction]);
                let link = |rate: &Bandwidth| Bandwidth::from_bps(rate.bps() / u64::from(links.spines));
                let whole = whole.into_iter().find(|rate| !can_be_simulated(link(rate)))?;
                let over = match links.spines {
                    1 => String::new(),
                    spines => format!(" over {spines} spines, links of {}", link(&whole)),
                };
                Some(format!("rack {} has an uplink of {whole}{over}", quote(rack.name())))
            })
        };
        let Some(cause) = interface.or_else(uplink) else { return true };
        let hint = format!("{}; change the policy, or divide an uplink over other `spines`", links_have());
        self.error(at, format!("{cause}, which cannot be simulated"), hint);
        false
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
