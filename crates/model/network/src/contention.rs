//! The contention points of a graph: its racks and machines.
//!
//! Problem: policies divide bandwidth at machines, racks and the fabric, whatever the topology is. Approach: a switch
//! that has hosts is a rack; its uplink is the sum of its links to other switches, each direction on its own. A rack
//! that has no link to another switch (a star) has an uplink that all its machines together can fill: nothing leaves
//! it, so the uplink limits nothing.
//!
//! A [`Network`] is in canonical order, racks and machines by name. [`Graph::by_rack`] puts the hosts of a graph into
//! this order, so that a [`MachineId`] means the same in both.
//!
//! Worked example: a leaf-spine of 9 racks of 16 hosts of 10 Gb/s and 4 spines of 40 Gb/s: 9 racks `leaf0` to `leaf8`
//! with uplinks of 160 Gb/s.
//!
//! Source: Parley §3.1 (contention points), §3.2.2 (several uplinks count as one pipe).

use crate::graph::{Graph, LinkRef, QueueSpec};
use crate::names::natural_order;
use crate::network::{Machine, Network, PortBuffers, Rack};
use weir_units::{Bandwidth, Bytes, Direction, MachineId, PerDirection, RackId};

impl Graph {
    /// The switches that have hosts, by name: a [`RackId`] is the index into this list.
    pub fn rack_switches(&self) -> Vec<usize> {
        let mut has_hosts = vec![false; self.switches.len()];
        self.hosts.iter().for_each(|host| has_hosts[host.switch] = true);
        let mut racks: Vec<usize> = (0..self.switches.len()).filter(|switch| has_hosts[*switch]).collect();
        racks.sort_by(|a, b| natural_order(&self.switches[*a], &self.switches[*b]));
        racks
    }

    /// The links between a switch and other switches: from it for [`Direction::Tx`], to it for [`Direction::Rx`].
    fn uplinks(&self, switch: usize, direction: Direction) -> Vec<LinkRef> {
        let towards = |cable: usize| match direction {
            Direction::Tx => LinkRef::Forward(cable),
            Direction::Rx => LinkRef::Backward(cable),
        };
        let back = |cable: usize| match direction {
            Direction::Tx => LinkRef::Backward(cable),
            Direction::Rx => LinkRef::Forward(cable),
        };
        let of = |(index, cable): (usize, &crate::graph::Cable)| match (cable.a == switch, cable.b == switch) {
            (true, false) => Some(towards(index)),
            (false, true) => Some(back(index)),
            _ => None,
        };
        self.cables.iter().enumerate().filter_map(of).collect()
    }

    /// The links of a rack's uplink, seen from the rack.
    ///
    /// # Panics
    /// If the graph has no such rack.
    pub fn rack_uplinks(&self, rack: RackId, direction: Direction) -> Vec<LinkRef> {
        self.uplinks(self.rack_switches()[rack.index()], direction)
    }

    /// The same graph with its hosts in the order of [`Graph::network`]: by rack and name.
    pub fn by_rack(self) -> Self {
        let mut rank = vec![0; self.switches.len()];
        self.rack_switches().into_iter().enumerate().for_each(|(place, switch)| rank[switch] = place);
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        order.sort_by(|a, b| {
            let (a, b) = (&self.hosts[*a], &self.hosts[*b]);
            rank[a.switch].cmp(&rank[b.switch]).then_with(|| natural_order(&a.name, &b.name))
        });
        self.in_order(&order)
    }

    /// The same graph with its hosts in this order.
    pub(crate) fn in_order(mut self, order: &[usize]) -> Self {
        let mut now = vec![MachineId(0); order.len()];
        order.iter().enumerate().for_each(|(place, host)| now[*host] = MachineId(place as u32));
        for members in self.groups.values_mut() {
            members.iter_mut().for_each(|member| *member = now[member.index()]);
            members.sort_unstable();
        }
        self.hosts = order.iter().map(|host| self.hosts[*host].clone()).collect();
        self
    }

    /// The contention points of a graph whose hosts are [in order](Graph::by_rack).
    ///
    /// # Panics
    /// If the hosts are in another order.
    pub fn network(&self) -> Network {
        let (switches, uplinks) = (self.rack_switches(), self.uplink_rates());
        let mut members = vec![Vec::new(); self.switches.len()];
        for (host, id) in self.hosts.iter().zip((0..).map(MachineId)) {
            members[host.switch].push(id);
        }
        let mut machines = Vec::with_capacity(self.hosts.len());
        let mut racks = Vec::with_capacity(switches.len());
        for (rack, switch) in (0..).map(RackId).zip(switches) {
            let members = std::mem::take(&mut members[switch]);
            for id in &members {
                assert_eq!(id.index(), machines.len(), "the hosts are in the order of racks");
                let host = &self.hosts[id.index()];
                let nic = PerDirection { tx: host.up.rate, rx: host.down.rate };
                machines.push(Machine::new(host.name.clone(), rack, nic, None));
            }
            let uplink = uplinks[switch].unwrap_or_else(|| self.interface_rates(&members));
            racks.push(Rack::new(self.switches[switch].clone(), uplink, members));
        }
        Network::new(racks, machines, self.port_buffers())
    }

    /// The buffer of a port. Where a network of racks states buffers, `stated`, it is the stated one, `None` if there
    /// is none for such a port; else that of the link's queue, or the part of a shared buffer that one port can hold.
    ///
    /// # Panics
    /// If the link is of another graph, and nothing is stated.
    pub fn port_buffer(&self, link: LinkRef, stated: Option<PortBuffers>) -> Option<Bytes> {
        match (stated, link) {
            (Some(stated), LinkRef::Up(_) | LinkRef::Down(_)) => stated.machine,
            (Some(stated), LinkRef::Forward(_) | LinkRef::Backward(_)) => stated.rack,
            (None, _) => Some(self.queue_buffer(&self.link(link).queue)),
        }
    }

    fn queue_buffer(&self, queue: &QueueSpec) -> Bytes {
        self.shared_buffer.map_or(queue.buffer, |shared| shared.of_one_port())
    }

    /// The smallest buffers of ports towards machines, and of ports between switches.
    pub fn port_buffers(&self) -> PortBuffers {
        let of = |queue: &QueueSpec| self.queue_buffer(queue);
        let fabric = self.cables.iter().flat_map(|cable| [&cable.a_to_b.queue, &cable.b_to_a.queue]);
        PortBuffers { machine: self.hosts.iter().map(|host| of(&host.down.queue)).min(), rack: fabric.map(of).min() }
    }

    /// By switch: the sum of its links to other switches; `None` without one.
    pub(crate) fn uplink_rates(&self) -> Vec<Option<PerDirection<Bandwidth>>> {
        let mut rates: Vec<Option<PerDirection<Bandwidth>>> = vec![None; self.switches.len()];
        for cable in &self.cables {
            let (ab, ba) = (cable.a_to_b.rate, cable.b_to_a.rate);
            for (switch, out, back) in [(cable.a, ab, ba), (cable.b, ba, ab)] {
                let sum = rates[switch].get_or_insert_default();
                sum.tx += out;
                sum.rx += back;
            }
        }
        rates
    }

    /// The sum of machines' interfaces: what leaves a rack without a link to another switch, seen from the rack.
    fn interface_rates(&self, machines: &[MachineId]) -> PerDirection<Bandwidth> {
        let hosts = || machines.iter().map(|id| &self.hosts[id.index()]);
        PerDirection { tx: hosts().map(|host| host.up.rate).sum(), rx: hosts().map(|host| host.down.rate).sum() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{LinkSpec, Packets, Routing};
    use crate::topology::{
        Common, Dumbbell, Explicit, ExplicitCable, ExplicitHost, FatTree, LeafSpine, Links, Star, from_racks,
    };
    use weir_units::Duration;

    const COMMON: Common = Common {
        routing: Routing::Ecmp,
        packets: Packets { payload: 1448, headers: 66 },
        shared_buffer: None,
        jitter: Duration::ZERO,
    };

    fn link(gbps: u64) -> LinkSpec {
        LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::from_micros(1), queue: QueueSpec::default() }
    }

    /// Racks with their machines and uplinks in Gb/s.
    fn shape(graph: &Graph) -> Vec<(String, usize, [u64; 2])> {
        let network = graph.network();
        let gbps = |rate: Bandwidth| rate.bps() / 1_000_000_000;
        let of = |rack: &Rack| {
            (rack.name().to_owned(), rack.machines().len(), [gbps(rack.uplink().tx), gbps(rack.uplink().rx)])
        };
        network.racks().iter().map(of).collect()
    }

    #[test]
    fn leaves_of_a_leaf_spine_are_racks() {
        let topology = LeafSpine { racks: 9, hosts: 16, spines: 4, host_link: link(10), fabric_link: link(40) };
        let graph = topology.build(COMMON).by_rack();
        let racks: Vec<_> = (0..9).map(|rack| (format!("leaf{rack}"), 16, [160, 160])).collect();
        assert_eq!(shape(&graph), racks);
        assert_eq!(graph, topology.build(COMMON), "its hosts are in order");
    }

    #[test]
    fn edge_switches_of_a_fat_tree_are_racks() {
        let graph = FatTree { k: 8, cores: 16, aggregations: 4, host_link: link(10), fabric_link: link(10) }
            .build(COMMON)
            .by_rack();
        let racks: Vec<_> = (0..32).map(|rack| (format!("edge{rack}"), 4, [40, 40])).collect();
        assert_eq!(shape(&graph), racks);
        assert_eq!(graph.network().machines()[127].name(), "h127");
    }

    #[test]
    fn dumbbell_is_two_racks_and_a_star_is_one_without_a_limit() {
        let graph = Dumbbell { pairs: 3, host_link: link(10), fabric_link: link(20) }.build(COMMON).by_rack();
        assert_eq!(shape(&graph), [("left".to_owned(), 3, [20, 20]), ("right".to_owned(), 3, [20, 20])]);
        let graph = Star { hosts: 4, host_link: link(10) }.build(COMMON).by_rack();
        assert_eq!(shape(&graph), [("switch".to_owned(), 4, [40, 40])]);
    }

    /// Hosts and switches in any order, links that differ by direction, a switch without hosts.
    #[test]
    fn hosts_move_into_the_order_of_racks() {
        let host = |name: &str, switch| ExplicitHost { name: name.to_owned(), switch, up: link(1), down: link(2) };
        let explicit = Explicit {
            hosts: vec![host("h10", 2), host("h9", 2), host("h3", 0)],
            switches: ["s2", "core", "s1"].map(str::to_owned).to_vec(),
            cables: vec![
                ExplicitCable { a: 0, b: 1, a_to_b: link(3), b_to_a: link(4) },
                ExplicitCable { a: 1, b: 2, a_to_b: link(5), b_to_a: link(6) },
                ExplicitCable { a: 0, b: 2, a_to_b: link(7), b_to_a: link(8) },
            ],
            groups: vec![("some".to_owned(), vec![0, 2])],
        };
        let graph = explicit.build(COMMON).by_rack();
        assert_eq!(graph.hosts.iter().map(|host| &*host.name).collect::<Vec<_>>(), ["h9", "h10", "h3"]);
        assert_eq!(graph.groups["some"], [MachineId(1), MachineId(2)]);
        assert_eq!(shape(&graph), [("s1".to_owned(), 2, [14, 12]), ("s2".to_owned(), 1, [10, 12])]);
        let network = graph.network();
        assert_eq!(
            network.machine(MachineId(2)).nic(),
            PerDirection { tx: Bandwidth::from_gbps(1), rx: Bandwidth::from_gbps(2) }
        );
        let names = |direction| graph.uplinks(2, direction).into_iter().map(|link| graph.link_name(link));
        assert_eq!(names(Direction::Tx).collect::<Vec<_>>(), ["s1->core", "s1->s2"]);
        assert_eq!(names(Direction::Rx).collect::<Vec<_>>(), ["core->s1", "s2->s1"]);
    }

    #[test]
    fn racks_survive_the_way_through_a_graph() {
        let topology = LeafSpine { racks: 12, hosts: 3, spines: 1, host_link: link(10), fabric_link: link(25) };
        let network = topology.build(COMMON).by_rack().network();
        let links = Links { spines: 3, queue: link(1).queue, ..Links::default() };
        assert_eq!(from_racks(&network, &links, Routing::Ecmp).network(), network);
    }
}
