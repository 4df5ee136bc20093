//! The tenants' places, and the ports that they pass, by the names of switches and ports.

use super::Unbound;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use weir_binding::{PortId, Ports, Site, Sites};
use weir_document::Source;
use weir_network::graph::LinkRef;
use weir_placement::{Fabric, SwitchId, TenantPlace, file, of_services};
use weir_policy::Policy;
use weir_switch::ports::ports_of;

/// The network of a binder.
#[derive(Debug)]
pub(crate) struct Places {
    pub(super) sites: Arc<Sites>,
    /// The most ports of a path.
    pub(super) hops: u32,
    /// By switch its name.
    pub(super) switches: Vec<String>,
    /// By port its name at its switch.
    pub(super) ports: Vec<String>,
    /// By port, how many tenants pass it.
    pub(super) tenants: Vec<u32>,
    by_name: BTreeMap<(u32, String), PortId>,
}

impl Places {
    /// The places in a file; tenants that it does not have stay without queues.
    pub(crate) fn read(path: &Path, policy: &Policy) -> Result<Self, Unbound> {
        let offer = policy.network().offer().ok_or(Unbound::Unweighted)?;
        let queues = match offer.available().1 {
            0 => return Err(Unbound::Unweighted),
            queues => u8::try_from(queues).unwrap_or(u8::MAX),
        };
        let graph = policy.graph();
        // A certificate names its holder, not the kind of it.
        if let Some(name) = graph.switches.iter().find(|name| policy.network().machine_named(name).is_some()) {
            return Err(Unbound::OneName(name.clone()));
        }
        let fabric = Fabric::of_policy(policy, &graph);
        let refused = |errors: weir_document::Diagnostics| Unbound::Placement(errors.render(false));
        let source = Source::read(path, file::MAX_FILE).map_err(refused)?;
        let placed: BTreeMap<String, TenantPlace> =
            file::read(&source, policy, &graph, &fabric).map_err(refused)?.into_iter().collect();
        let of_tenants = policy.tenants().iter().map(|tenant| placed.get(&tenant.name));
        let sites = Sites::of_placement(of_tenants, &fabric, &graph, queues, &of_services(policy, &graph, &fabric));
        let names: BTreeMap<LinkRef, String> = (0..graph.switches.len())
            .flat_map(|switch| ports_of(&graph, switch))
            .map(|port| (port.link, port.name()))
            .collect();
        let ports: Vec<String> = Ports::new(&graph).links().iter().map(|link| names[link].clone()).collect();
        let of_port =
            |(at, port): (usize, &weir_binding::Port)| ((port.switch.0, ports[at].clone()), PortId(at as u32));
        let by_name = sites.ports.iter().enumerate().map(of_port).collect();
        let tenants = sites.tenants_of_ports().iter().map(|tenants| tenants.len() as u32).collect();
        Ok(Self {
            tenants,
            sites: Arc::new(sites),
            hops: fabric.longest_path(),
            switches: graph.switches.clone(),
            ports,
            by_name,
        })
    }

    /// The ports of a tenant, by the names of switch and neighbour.
    pub(super) fn ports_of(&self, site: &Site) -> Vec<String> {
        site.ports.iter().map(|(port, _)| self.port_name(*port)).collect()
    }
    /// The names of a port's switch and neighbour.
    pub(super) fn port_name(&self, port: PortId) -> String {
        let switch = self.sites.ports[port.index()].switch;
        format!("{} {}", self.switches[switch.index()], self.ports[port.index()])
    }
    /// The switch with this name.
    pub(super) fn switch(&self, name: &str) -> Option<SwitchId> {
        self.switches.iter().position(|known| known == name).map(|at| SwitchId(at as u32))
    }
    /// The port of a switch with this name.
    pub(super) fn port(&self, switch: SwitchId, name: &str) -> Option<PortId> {
        self.by_name.get(&(switch.0, name.to_owned())).copied()
    }
}
