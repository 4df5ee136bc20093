//! A graph as the network of a policy: its hosts are the policy's machines, its leaves the policy's racks.
//!
//! Problem: a policy that lists racks may run over any topology, where hosts and switches have names of their own.
//! Approach: every machine names one host; the switch of a rack's hosts is the rack. Hosts and leaves then have the
//! policy's names and its order, so that ids mean the same in both. Speeds that the policy states must be the graph's:
//! shares computed from others would not hold.
//!
//! Worked example: a leaf-spine `h0`, `h1` at `leaf0` and `h2`, `h3` at `leaf1`, and racks `a: [m1, m2]`, `b: [m3, m4]`
//! with m1 = h0 to m4 = h3: the leaves are `a` and `b`, the hosts `m1` to `m4`, `spine0` stays.

use crate::graph::{Graph, Host};
use crate::network::Network;
use std::collections::HashMap;
use std::fmt;
use weir_units::{Bandwidth, Direction, MachineId, RackId};

/// A difference between a graph and the network of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// A machine's host is not in the graph.
    NoHost {
        /// The machine.
        machine: String,
        /// The name of its host.
        host: String,
    },
    /// A host is no machine.
    NoMachine {
        /// The host.
        host: String,
    },
    /// A host is two machines.
    TwoMachines {
        /// The host.
        host: String,
        /// The machines.
        machines: [String; 2],
    },
    /// Machines of one rack have different switches.
    TwoSwitches {
        /// The rack.
        rack: String,
        /// The switches.
        switches: [String; 2],
    },
    /// Machines of two racks have one switch.
    TwoRacks {
        /// The switch.
        switch: String,
        /// The racks.
        racks: [String; 2],
    },
    /// A machine's interface has another speed than its host's link.
    Interface {
        /// The machine.
        machine: String,
        /// The direction, seen from it.
        direction: Direction,
        /// The speed in the policy, and that of the link.
        rates: [Bandwidth; 2],
    },
    /// A rack's uplink has another speed than the leaf's links together.
    Uplink {
        /// The rack.
        rack: String,
        /// The direction, seen from it.
        direction: Direction,
        /// The speed in the policy, and that of the links.
        rates: [Bandwidth; 2],
    },
    /// A rack has the name of a switch that is not its leaf.
    SwitchName {
        /// The name.
        name: String,
    },
}

impl fmt::Display for Mismatch {
    /// The cause, as one clause.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost { machine, host } if machine == host => {
                write!(f, "the network has no host `{machine}`, and the policy has a machine of this name")
            }
            Self::NoHost { machine, host } => write!(f, "the network has no host `{host}` for machine `{machine}`"),
            Self::NoMachine { host } => write!(f, "host `{host}` of the network is no machine of the policy"),
            Self::TwoMachines { host, machines: [a, b] } => {
                write!(f, "host `{host}` is both machine `{a}` and machine `{b}`")
            }
            Self::TwoSwitches { rack, switches: [a, b] } => {
                write!(f, "machines of rack `{rack}` are at two switches of the network, `{a}` and `{b}`")
            }
            Self::TwoRacks { switch, racks: [a, b] } => {
                write!(f, "switch `{switch}` of the network has machines of two racks, `{a}` and `{b}`")
            }
            Self::Interface { machine, direction, rates: [policy, link] } => write!(
                f,
                "machine `{machine}` has an interface of {policy} in the policy, and a link of {link} in the network \
                 ({direction})"
            ),
            Self::Uplink { rack, direction, rates: [policy, links] } => write!(
                f,
                "rack `{rack}` has an uplink of {policy} in the policy, and links of {links} together in the network \
                 ({direction})"
            ),
            Self::SwitchName { name } => write!(f, "`{name}` is a rack of the policy and another switch"),
        }
    }
}

impl Mismatch {
    /// A correction.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoHost { .. } | Self::NoMachine { .. } | Self::TwoMachines { .. } => {
                "name a host for every machine, each once, for example `machines: { \"m[1-4]\": \"h[0-3]\" }`"
            }
            Self::TwoSwitches { .. } | Self::TwoRacks { .. } => "map the machines of a rack to the hosts of one switch",
            Self::Interface { .. } => "write the same speed in both, `host-link: { rate: … }` in the network",
            Self::Uplink { .. } => "write the same speed in both; all links between a leaf and other switches count",
            Self::SwitchName { .. } => "rename the rack or the switch",
        }
    }
}

impl Graph {
    /// The graph as the network of a policy. `hosts` has the name of each machine's host.
    ///
    /// # Errors
    /// If the graph and the network differ, the first difference.
    pub fn mapped(mut self, network: &Network, hosts: &[String]) -> Result<Self, Mismatch> {
        let order = self.hosts_of_machines(network, hosts)?;
        let leaves = self.leaves_of_racks(network, &order)?;
        for (machine, host) in network.machines().iter().zip(&order) {
            let Host { up, down, .. } = &self.hosts[*host];
            for (direction, link) in [(Direction::Tx, up.rate), (Direction::Rx, down.rate)] {
                if machine.nic()[direction] != link {
                    let rates = [machine.nic()[direction], link];
                    return Err(Mismatch::Interface { machine: machine.name().to_owned(), direction, rates });
                }
            }
        }
        let uplinks = self.uplink_rates();
        for (rack, leaf) in network.racks().iter().zip(&leaves) {
            // Without a link to another switch nothing leaves the rack.
            let Some(links) = uplinks[*leaf] else { continue };
            for direction in Direction::ALL {
                if links[direction] != rack.uplink()[direction] {
                    let rates = [rack.uplink()[direction], links[direction]];
                    return Err(Mismatch::Uplink { rack: rack.name().to_owned(), direction, rates });
                }
            }
        }
        for (rack, leaf) in network.racks().iter().zip(&leaves) {
            if (self.switches.iter().enumerate()).any(|(at, name)| name == rack.name() && !leaves.contains(&at)) {
                return Err(Mismatch::SwitchName { name: rack.name().to_owned() });
            }
            self.groups.insert(rack.name().to_owned(), self.members(*leaf));
        }
        for (rack, leaf) in network.racks().iter().zip(leaves) {
            rack.name().clone_into(&mut self.switches[leaf]);
        }
        let mut graph = self.in_order(&order);
        for (host, machine) in graph.hosts.iter_mut().zip(network.machines()) {
            machine.name().clone_into(&mut host.name);
        }
        graph.mark_namesakes();
        Ok(graph)
    }

    /// The host of each machine; every host has one.
    fn hosts_of_machines(&self, network: &Network, hosts: &[String]) -> Result<Vec<usize>, Mismatch> {
        let named: HashMap<&str, usize> = self.hosts.iter().enumerate().map(|(at, host)| (&*host.name, at)).collect();
        let mut machine_of: Vec<Option<&str>> = vec![None; self.hosts.len()];
        let mut order = Vec::with_capacity(hosts.len());
        for (machine, host) in network.machines().iter().zip(hosts) {
            let machine = machine.name();
            let Some(&at) = named.get(host.as_str()) else {
                return Err(Mismatch::NoHost { machine: machine.to_owned(), host: host.clone() });
            };
            if let Some(first) = machine_of[at].replace(machine) {
                let machines = [first, machine].map(str::to_owned);
                return Err(Mismatch::TwoMachines { host: host.clone(), machines });
            }
            order.push(at);
        }
        match machine_of.iter().position(Option::is_none) {
            Some(at) => Err(Mismatch::NoMachine { host: self.hosts[at].name.clone() }),
            None => Ok(order),
        }
    }

    /// The switch of each rack.
    fn leaves_of_racks(&self, network: &Network, order: &[usize]) -> Result<Vec<usize>, Mismatch> {
        let mut rack_of: HashMap<usize, RackId> = HashMap::new();
        let mut leaves = Vec::with_capacity(network.racks().len());
        for (rack, id) in network.racks().iter().zip((0..).map(RackId)) {
            let mut switches = rack.machines().iter().map(|machine| self.hosts[order[machine.index()]].switch);
            let Some(leaf) = switches.next() else { continue };
            if let Some(other) = switches.find(|switch| *switch != leaf) {
                let switches = [leaf, other].map(|switch| self.switches[switch].clone());
                return Err(Mismatch::TwoSwitches { rack: rack.name().to_owned(), switches });
            }
            if let Some(first) = rack_of.insert(leaf, id) {
                let racks = [first, id].map(|id| network.rack(id).name().to_owned());
                return Err(Mismatch::TwoRacks { switch: self.switches[leaf].clone(), racks });
            }
            leaves.push(leaf);
        }
        Ok(leaves)
    }

    /// The hosts of a switch.
    fn members(&self, switch: usize) -> Vec<MachineId> {
        let hosts = self.hosts.iter().zip((0..).map(MachineId));
        hosts.filter(|(host, _)| host.switch == switch).map(|(_, id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{LinkSpec, Packets, QueueSpec, Routing};
    use crate::network::{Machine, PortBuffers, Rack};
    use crate::topology::{Common, LeafSpine};
    use weir_units::{Duration, PerDirection};

    /// Two leaves of two hosts of 10 Gb/s, two spines of 20 Gb/s.
    fn graph() -> Graph {
        let link = |gbps| LinkSpec {
            rate: Bandwidth::from_gbps(gbps),
            delay: Duration::from_micros(1),
            queue: QueueSpec::default(),
        };
        let packets = Packets { payload: 1448, headers: 66 };
        let common = Common { routing: Routing::Ecmp, packets, shared_buffer: None, jitter: Duration::ZERO };
        LeafSpine { racks: 2, hosts: 2, spines: 2, host_link: link(10), fabric_link: link(20) }.build(common)
    }

    /// Racks `a` and `b` of two machines each.
    fn racks(nic: u64, uplink: u64, members: [[u32; 2]; 2]) -> Network {
        let both = |gbps| PerDirection::both(Bandwidth::from_gbps(gbps));
        let rack = |(name, members): (&str, [u32; 2])| {
            Rack::new(name.to_owned(), both(uplink), members.map(MachineId).to_vec())
        };
        let of = |id: u32| RackId(u32::from(members[1].contains(&id)));
        let machine = |id: u32| Machine::new(format!("m{}", id + 1), of(id), both(nic), None);
        let racks = ["a", "b"].into_iter().zip(members).map(rack).collect();
        Network::new(racks, (0..4).map(machine).collect(), PortBuffers::default())
    }

    fn names(names: [&str; 4]) -> Vec<String> {
        names.map(str::to_owned).to_vec()
    }

    #[test]
    fn worked_example() {
        let network = racks(10, 40, [[0, 1], [2, 3]]);
        // The racks are crosswise: `a` is leaf1.
        let mapped = graph().mapped(&network, &names(["h3", "h2", "h0", "h1"])).expect("it fits");
        assert_eq!(
            mapped.hosts.iter().map(|host| (&*host.name, host.switch)).collect::<Vec<_>>(),
            [("m1", 1), ("m2", 1), ("m3", 0), ("m4", 0)]
        );
        assert_eq!(mapped.switches, ["b", "a", "spine0", "spine1"]);
        assert_eq!(mapped.groups["a"], [MachineId(0), MachineId(1)]);
        let of_graph = mapped.network();
        assert_eq!((of_graph.racks(), of_graph.machines()), (network.racks(), network.machines()));
    }

    #[test]
    fn differences_are_refused() {
        let (straight, order) = ([[0, 1], [2, 3]], ["h0", "h1", "h2", "h3"]);
        for (network, hosts, cause) in [
            (racks(10, 40, straight), ["h0", "h1", "h2", "h9"], "the network has no host `h9` for machine `m4`"),
            (racks(10, 40, straight), ["h0", "h1", "h2", "h2"], "host `h2` is both machine `m3` and machine `m4`"),
            (
                racks(10, 40, straight),
                ["h0", "h2", "h1", "h3"],
                "machines of rack `a` are at two switches of the network, `leaf0` and `leaf1`",
            ),
            (
                racks(1, 40, straight),
                order,
                "machine `m1` has an interface of 1 Gb/s in the policy, and a link of 10 Gb/s in the network (tx)",
            ),
            (
                racks(10, 80, straight),
                order,
                "rack `a` has an uplink of 80 Gb/s in the policy, and links of 40 Gb/s together in the network (tx)",
            ),
        ] {
            let refused = graph().mapped(&network, &names(hosts)).expect_err(cause);
            assert_eq!(refused.to_string(), cause);
        }
        let mut graph = graph();
        graph.switches[2] = "a".to_owned();
        let refused = graph.mapped(&racks(10, 40, straight), &names(order));
        assert_eq!(refused, Err(Mismatch::SwitchName { name: "a".to_owned() }));
    }

    #[test]
    fn a_machine_with_the_name_of_a_switch_has_links_of_its_own_name() {
        let mut graph = graph();
        graph.switches[2] = "m3".to_owned();
        let network = racks(10, 40, [[0, 1], [2, 3]]);
        let machines = network.machines().iter().map(|machine| {
            // A rack's leaf has the rack's name in the end, and a spine keeps its own.
            let own = if machine.name() == "m4" { "b" } else { machine.name() };
            Machine::new(own.to_owned(), machine.rack(), machine.nic(), None)
        });
        let network = Network::new(network.racks().to_vec(), machines.collect(), PortBuffers::default());
        let graph = graph.mapped(&network, &names(["h0", "h1", "h2", "h3"])).expect("it fits");
        let names: Vec<String> = graph.links().map(|link| graph.link_name(link)).collect();
        assert_eq!(names[2..8], ["m2->a", "a->m2", "m3#host->b", "b->m3#host", "b#host->b", "b->b#host"]);
        assert!(names.contains(&"b->m3".to_owned()), "{names:?}");
    }

    #[test]
    fn hosts_without_a_machine_are_refused() {
        let both = |gbps| PerDirection::both(Bandwidth::from_gbps(gbps));
        let machines = (0..2).map(|id| Machine::new(format!("h{id}"), RackId(0), both(10), None));
        let rack = Rack::new("a".to_owned(), both(40), vec![MachineId(0), MachineId(1)]);
        let network = Network::new(vec![rack], machines.collect(), PortBuffers::default());
        let refused = graph().mapped(&network, &["h0".to_owned(), "h1".to_owned()]);
        assert_eq!(refused, Err(Mismatch::NoMachine { host: "h2".to_owned() }));
    }
}
