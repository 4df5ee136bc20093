//! `network:`: from its keys to a topology, and from there to a graph.

use super::NetworkReader;
use super::queue::{can_be_simulated, links_have};
use crate::graph::{Graph, LinkSpec, Packets, QueueSpec, Routing, SharedBuffer};
use crate::language::{
    FACTOR_RANGE, MAX_BUFFER, MAX_DELAY, MAX_HEADERS, MAX_HOSTS_OF_ONE, MAX_K, MAX_PAYLOAD, MAX_RACKS, MAX_RATE,
    MAX_SPINES, NETWORK, ROUTING_KEYWORDS,
};
use crate::topology::{Common, Dumbbell, FatTree, LeafSpine, ParkingLot, Star, Topology};
use weir_document::scalar::MILLION;
use weir_document::{Field, Node, scalar};
use weir_units::{Bandwidth, Bytes, Duration};

/// The defaults of a network's links.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkDefaults {
    pub(super) queue: QueueSpec,
    pub(super) common: Common,
}

impl LinkDefaults {
    /// Whether ports have buffers of their own.
    pub(super) fn own_buffer(&self) -> bool {
        self.common.shared_buffer.is_none()
    }
}

impl NetworkReader<'_> {
    /// The graph of a topology; `None` only if something was reported.
    pub(super) fn topology(&mut self, node: &Node) -> Option<Graph> {
        let before = self.problems.count();
        let (inherited, sound) = self.inherited(node);
        let kind = NETWORK.chosen(node)?.id;
        // The key that makes the network large, for messages about its size.
        let (topology, large) = match kind {
            "dumbbell" => (self.dumbbell(node, &inherited), "hosts"),
            "parking-lot" => (self.parking_lot(node, &inherited), "switches"),
            "star" => (self.star(node, &inherited), "hosts"),
            "leaf-spine" => (self.leaf_spine(node, &inherited), "racks"),
            "fat-tree" => (self.fat_tree(node, &inherited), "k"),
            _ => (self.explicit(node, &inherited).map(Topology::Explicit), "hosts"),
        };
        let topology = topology?;
        let key = node.get(large);
        let what = match key.and_then(Node::scalar) {
            Some(value) => format!("a {kind} with `{large}: {value}`"),
            None => "the network".to_owned(),
        };
        if !self.fits(topology.size(), key.map_or(node.span, |key| key.span), &what) {
            return None;
        }
        // A network with a mistake is not built, since its numbers may be unintended.
        (sound && self.problems.count() == before).then(|| topology.build(inherited.common))
    }

    /// The defaults of links, and whether all of them are sound.
    fn inherited(&mut self, node: &Node) -> (LinkDefaults, bool) {
        let packets = self.packets(node.get("packets"));
        let shared_buffer = node.get("shared-buffer").and_then(|node| self.shared_buffer(node, packets));
        let own_buffer = node.get("shared-buffer").is_none();
        let routing = match node.field("routing", |text| scalar::word(text, "", ROUTING_KEYWORDS)).value() {
            Some(1) => Routing::Spray,
            Some(2) => Routing::Symmetric,
            _ => Routing::Ecmp,
        };
        let default = QueueSpec::default();
        let default = QueueSpec { buffer: default.buffer.max(Bytes::new(packets.frame())), ..default };
        let queue = self.queue(node.get("queue"), default, packets, own_buffer);
        let jitter = self.time(node, "jitter", MAX_DELAY).value().unwrap_or(Duration::ZERO);
        let common = Common { routing, packets, shared_buffer, jitter };
        (LinkDefaults { queue: queue.unwrap_or(default), common }, queue.is_some())
    }

    fn packets(&mut self, node: Option<&Node>) -> Packets {
        let mut packets = Packets::default();
        let Some(node) = node else { return packets };
        if let Field::Value(size, _) = self.bounded_size(node, "payload", MAX_PAYLOAD) {
            packets.payload = size.get() as u32;
        }
        if let Field::Value(size, _) = self.bounded_size(node, "headers", MAX_HEADERS) {
            packets.headers = size.get() as u32;
        }
        packets
    }

    fn shared_buffer(&mut self, node: &Node, packets: Packets) -> Option<SharedBuffer> {
        let size = self.bounded_size(node, "size", MAX_BUFFER.get());
        if let Field::Value(size, span) = size
            && size.get() < packets.frame()
        {
            self.error(
                span,
                format!("the buffer {size} holds no packet of {}", Bytes::new(packets.frame())),
                "make it at least as large as a packet with its headers",
            );
        }
        let alpha = node.field("alpha", |text| scalar::decimal(text, "", FACTOR_RANGE.0, FACTOR_RANGE.1));
        let alpha_thousandths = alpha.value().unwrap_or(MILLION) / 1000;
        Some(SharedBuffer { bytes: size.value()?, alpha_thousandths: alpha_thousandths as u32 })
    }

    /// A whole number of the check's range.
    fn number(&self, node: &Node, key: &str, min: u32, max: u32) -> Option<u32> {
        let field = node.field(key, |text| scalar::integer(text, "", min.into(), max.into()));
        field.value().and_then(|number| u32::try_from(number).ok())
    }

    /// A number of a fat-tree's switches, all of them where it is not written.
    fn at_most(&mut self, node: &Node, key: &str, what: &str, all: u32) -> Option<u32> {
        let Some(written) = node.get(key) else { return Some(all) };
        let number = self.number(node, key, 1, u32::MAX)?;
        if number > all {
            let cause = format!("a fat-tree of this size has at most {all} {what}, not {number}");
            self.error(written.span, cause, format!("write 1 to {all}, or leave the key out for all"));
            return None;
        }
        Some(number)
    }

    fn host_link(&mut self, node: &Node, inherited: &LinkDefaults) -> Option<LinkSpec> {
        let link = node.get("host-link")?;
        self.link(link, None, inherited.queue, inherited.common.packets, inherited.own_buffer())
    }

    fn required_fabric_link(&mut self, node: &Node, inherited: &LinkDefaults) -> Option<LinkSpec> {
        let link = node.get("fabric-link")?;
        self.link(link, None, inherited.queue, inherited.common.packets, inherited.own_buffer())
    }

    /// The fabric's links where `hosts` of a switch share `uplinks`: their rate is written or comes
    /// from the oversubscription; `otherwise` is the link where neither is written.
    fn fabric_link(
        &mut self,
        node: &Node,
        inherited: &LinkDefaults,
        (hosts, uplinks): (Option<u32>, Option<u32>),
        host_link: Option<LinkSpec>,
        otherwise: Option<LinkSpec>,
    ) -> Option<LinkSpec> {
        let link = node.get("fabric-link");
        let factor = node.field("oversubscription", |text| scalar::decimal(text, "", FACTOR_RANGE.0, FACTOR_RANGE.1));
        let written = link.and_then(|link| link.get("rate"));
        if let (Some(rate), Field::Value(..)) = (written, factor) {
            self.error(
                rate.span,
                "the fabric's links have a rate, and `oversubscription` gives them one, too",
                "write one of them",
            );
            return None;
        }
        let rate = match factor {
            Field::Bad => return None,
            Field::Absent => None,
            Field::Value(factor, span) => {
                // hosts · rate / (uplinks · factor), rounded down; the factor is in millionths.
                let all = u128::from(hosts?) * u128::from(host_link?.rate.bps()) * u128::from(MILLION);
                let rate = all / (u128::from(uplinks?) * u128::from(factor));
                let rate = Bandwidth::from_bps(u64::try_from(rate).unwrap_or(u64::MAX));
                if !can_be_simulated(rate) {
                    let rate = if rate.is_unlimited() { format!("more than {MAX_RATE}") } else { rate.to_string() };
                    self.error(
                        span,
                        format!("this oversubscription gives the fabric's links a rate of {rate}"),
                        format!("{}; write another factor, or the rate of `fabric-link` instead", links_have()),
                    );
                    return None;
                }
                Some(rate)
            }
        };
        match (link, rate, otherwise) {
            (None, None, Some(otherwise)) => Some(otherwise),
            (Some(link), None, otherwise) if written.is_none() && otherwise.is_none() => {
                self.error(
                    link.span,
                    "the rate of the fabric's links is not known",
                    "write their `rate`, or `oversubscription` beside `fabric-link`",
                );
                None
            }
            (None, None, None) => {
                self.error(
                    node.get("topology").map_or(node.span, |node| node.span),
                    "the rate of the fabric's links is not known",
                    "write `fabric-link: { rate: 40Gb/s }`, or `oversubscription`",
                );
                None
            }
            (Some(link), rate, otherwise) => {
                let rate = rate.or(otherwise.map(|link| link.rate));
                self.link(link, rate, inherited.queue, inherited.common.packets, inherited.own_buffer())
            }
            (None, Some(rate), _) => host_link.map(|host_link| LinkSpec { rate, queue: inherited.queue, ..host_link }),
        }
    }

    fn dumbbell(&mut self, node: &Node, inherited: &LinkDefaults) -> Option<Topology> {
        let pairs = self.number(node, "hosts", 1, MAX_HOSTS_OF_ONE);
        let host_link = self.host_link(node, inherited);
        let fabric_link = self.required_fabric_link(node, inherited);
        Some(Topology::Dumbbell(Dumbbell { pairs: pairs?, host_link: host_link?, fabric_link: fabric_link? }))
    }

    fn parking_lot(&mut self, node: &Node, inherited: &LinkDefaults) -> Option<Topology> {
        let switches = self.number(node, "switches", 2, MAX_RACKS);
        let hosts = self.number(node, "hosts", 1, MAX_HOSTS_OF_ONE);
        let host_link = self.host_link(node, inherited);
        let fabric_link = self.required_fabric_link(node, inherited);
        let (switches, hosts, host_link, fabric_link) = (switches?, hosts?, host_link?, fabric_link?);
        Some(Topology::ParkingLot(ParkingLot { switches, hosts, host_link, fabric_link }))
    }

    fn star(&mut self, node: &Node, inherited: &LinkDefaults) -> Option<Topology> {
        let hosts = self.number(node, "hosts", 2, MAX_HOSTS_OF_ONE);
        let host_link = self.host_link(node, inherited);
        Some(Topology::Star(Star { hosts: hosts?, host_link: host_link? }))
    }

    fn leaf_spine(&mut self, node: &Node, inherited: &LinkDefaults) -> Option<Topology> {
        let racks = self.number(node, "racks", 1, MAX_RACKS);
        let hosts = self.number(node, "hosts", 1, MAX_HOSTS_OF_ONE);
        let spines = self.number(node, "spines", 1, MAX_SPINES);
        let host_link = self.host_link(node, inherited);
        let fabric_link = self.fabric_link(node, inherited, (hosts, spines), host_link, None);
        let (racks, hosts, spines) = (racks?, hosts?, spines?);
        Some(Topology::LeafSpine(LeafSpine { racks, hosts, spines, host_link: host_link?, fabric_link: fabric_link? }))
    }

    fn fat_tree(&mut self, node: &Node, inherited: &LinkDefaults) -> Option<Topology> {
        let k = self.number(node, "k", 2, MAX_K);
        if let (Some(k), Some(place)) = (k, node.get("k"))
            && k % 2 == 1
        {
            self.error(
                place.span,
                format!("a fat-tree's switches have an even number of ports, not {k}"),
                format!("half of them go up and half down: write {} or {}", k - 1, k + 1),
            );
            return None;
        }
        let host_link = self.host_link(node, inherited);
        let half = k.map(|k| k / 2);
        let cores = self.at_most(node, "cores", "core switches", FatTree::all_cores(k?))?;
        let aggregations = self.at_most(node, "aggregations", "aggregation switches in a pod", k? / 2)?;
        let otherwise = host_link.map(|link| LinkSpec { queue: inherited.queue, ..link });
        let fabric_link = self.fabric_link(node, inherited, (half, Some(aggregations)), host_link, otherwise);
        Some(Topology::FatTree(FatTree {
            k: k?,
            cores,
            aggregations,
            host_link: host_link?,
            fabric_link: fabric_link?,
        }))
    }
}
