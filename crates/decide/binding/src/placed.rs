//! The ports and machines of placed tenants.

use crate::site::{Port, PortId, Site, Sites};
use weir_network::graph::{Graph, LinkRef};
use weir_placement::{Fabric, SwitchId, TenantPlace};
use weir_units::Bandwidth;

/// The ports of a network's switches: those towards machines, then both ends of every cable between switches.
#[derive(Debug, Clone)]
pub struct Ports {
    links: Vec<LinkRef>,
}

impl Ports {
    /// The ports of a graph; a [`PortId`] is the index of its link.
    pub fn new(graph: &Graph) -> Self {
        Self { links: graph.links().filter(|link| !matches!(link, LinkRef::Up(_))).collect() }
    }
    /// The link behind a port.
    pub fn link(&self, port: PortId) -> LinkRef {
        self.links[port.index()]
    }
    /// The port in front of a link; `None` for a machine's own interface.
    pub fn port(&self, link: LinkRef) -> Option<PortId> {
        let machines = self.links.iter().take_while(|link| matches!(link, LinkRef::Down(_))).count() as u32;
        match link {
            LinkRef::Up(_) => None,
            LinkRef::Down(machine) => Some(PortId(machine.0)),
            LinkRef::Forward(cable) => Some(PortId(machines + 2 * cable as u32)),
            LinkRef::Backward(cable) => Some(PortId(machines + 2 * cable as u32 + 1)),
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
