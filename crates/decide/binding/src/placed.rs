//! The ports and machines of placed tenants.

use crate::site::{Port, PortId, Site, Sites};
use weir_network::graph::{Graph, LinkRef};
use weir_placement::{Fabric, SwitchId, TenantPlace};
use weir_units::Bandwidth;

/// The ports of a network's switches: those towards machines, then both ends of every cable between switches.
#[derive(Debug, Clone)]
pub struct Ports {
    links: Vec<LinkRef>,
    /// The number of machines, each with the port towards it.
    machines: u32,
}

impl Ports {
    /// The ports of a graph; a [`PortId`] is the index of its link.
    pub fn new(graph: &Graph) -> Self {
        let links = graph.links().filter(|link| !matches!(link, LinkRef::Up(_))).collect();
        Self { links, machines: graph.hosts.len() as u32 }
    }
    /// The link behind a port.
    pub fn link(&self, port: PortId) -> LinkRef {
        self.links[port.index()]
    }
    /// The port in front of a link; `None` for a machine's own interface.
    pub fn port(&self, link: LinkRef) -> Option<PortId> {
        match link {
            LinkRef::Up(_) => None,
            LinkRef::Down(machine) => Some(PortId(machine.0)),
            LinkRef::Forward(cable) => Some(PortId(self.machines + 2 * cable as u32)),
            LinkRef::Backward(cable) => Some(PortId(self.machines + 2 * cable as u32 + 1)),
        }
    }
    /// All links, by port.
    pub fn links(&self) -> &[LinkRef] {
        &self.links
    }
}

impl Sites {
    /// The tenants of a placement, in the order of `placed`, on ports with `queues` queues beside the shared one. A
    /// tenant without a place has no ports. `others` has the guarantees of services by cable
    /// ([`weir_placement::of_services`]); none where it is empty.
    pub fn of_placement<'a>(
        placed: impl IntoIterator<Item = Option<&'a TenantPlace>>,
        fabric: &Fabric,
        graph: &Graph,
        queues: u8,
        others: &[Bandwidth],
    ) -> Self {
        let all = Ports::new(graph);
        let switch = |link: LinkRef| match link {
            LinkRef::Up(machine) | LinkRef::Down(machine) => graph.hosts[machine.index()].switch,
            LinkRef::Forward(cable) => graph.cables[cable].a,
            LinkRef::Backward(cable) => graph.cables[cable].b,
        };
        let port = |link: &LinkRef| Port {
            switch: SwitchId(switch(*link) as u32),
            rate: graph.link(*link).rate,
            queues,
            others: others.get(fabric.cable(*link).index()).copied().unwrap_or_default(),
        };
        let tenants =
            placed.into_iter().map(|placed| placed.map_or_else(Site::default, |placed| site(placed, fabric, &all)));
        Self { ports: all.links().iter().map(port).collect(), tenants: tenants.collect() }
    }
}

fn site(placed: &TenantPlace, fabric: &Fabric, all: &Ports) -> Site {
    let mut ports: Vec<(PortId, Bandwidth)> = Vec::new();
    for (cable, reserved) in &placed.fit.reservations {
        let (one, other) = fabric.links(*cable);
        ports.extend([one, other].into_iter().filter_map(|link| Some((all.port(link)?, *reserved))));
    }
    ports.sort_unstable();
    Site { payment: placed.hose.bandwidth(), ports, machines: placed.fit.machines() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::Policy;

    #[test]
    fn port_of_every_link_but_those_of_interfaces() {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1, m2, m3] }, \
                    r2: { uplink: 1Gb/s, machines: [m4] } } }\n\
                    services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";
        let graph = Policy::parse("policy.yaml", text).unwrap_or_else(|errors| panic!("{errors}")).0.graph();
        let ports = Ports::new(&graph);
        let of_links: Vec<Option<PortId>> = ports.links().iter().map(|link| ports.port(*link)).collect();
        let all: Vec<Option<PortId>> = (0..4 + 2 * graph.cables.len() as u32).map(|at| Some(PortId(at))).collect();
        assert!(graph.cables.len() > 1);
        assert_eq!(of_links, all);
        assert!(graph.links().filter(|link| matches!(link, LinkRef::Up(_))).all(|link| ports.port(link).is_none()));
    }
}
