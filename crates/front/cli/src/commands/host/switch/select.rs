//! The ports that a policy's network has, and the interfaces of this host that are these ports.

use super::Mapping;
use crate::error::CommandError;
use crate::text;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_linux::port::BridgePort;
use weir_network::{Graph, PortBuffers};
use weir_policy::Policy;
use weir_scenario::MARK;
use weir_switch::ports::{
    AssignError, OwnNeeds, SwitchPort, assign_each, desired, leads_to_machines, ports_of, switch_named,
};
use weir_switch::{DrainLimits, PolicyNeeds, PortConfig, QueueReading, SwitchState};
use weir_units::Bytes;

/// The name of a port whose machine is not in the policy: no switch has a neighbour of a name with a space, and each
/// of several has its own.
pub(super) fn outside_name(interface: &str) -> String {
    format!("outside {interface}")
}

/// The needs of a policy at its network's ports.
pub(super) struct Needed {
    graph: Arc<Graph>,
    needs: PolicyNeeds,
    /// The buffers that a network of racks states; `None`: each link of a topology has its own.
    buffers: Option<PortBuffers>,
}

/// A port with the configuration that it shall have.
#[derive(Clone)]
pub(super) struct Port {
    pub(super) switch: String,
    /// The port's name: its neighbour.
    pub(super) name: String,
    /// This host's interface.
    pub(super) interface: Option<String>,
    pub(super) config: PortConfig,
    /// Whether the interface is configured so.
    pub(super) in_force: Option<bool>,
    /// The counters of its queues, where they are shown.
    pub(super) counters: BTreeMap<u8, QueueReading>,
}

impl Port {
    pub(super) fn with_state(mut self, states: &SwitchState) -> Self {
        let state = self.interface.as_ref().and_then(|interface| states.get(interface));
        self.in_force = state.map(|state| state == self.config.state());
        self
    }
}

/// The ports of this host.
pub(super) struct Selected {
    pub(super) switch: String,
    /// Those that are interfaces.
    pub(super) ports: Vec<Port>,
    /// The names of ports towards machines that no interface is.
    pub(super) absent: Vec<String>,
    /// Ports of the bridge that the policy does not have.
    pub(super) strays: Vec<AssignError>,
}

impl Needed {
    /// All that the policy needs of ports. The receive meters' law needs marks. Packets of the machines
    /// `without_agent` are on no level.
    pub(super) fn of(policy: &Policy, without_agent: &[String]) -> Result<Self, CommandError> {
        let machine = |name: &String| {
            policy.network().machine_named(name).ok_or_else(|| {
                CommandError::refused(format!("--without-agent {name}: the policy has no such machine"))
                    .hint("an interface to a machine outside the policy is named by --outside INTERFACE")
            })
        };
        let without_agent = without_agent.iter().map(machine).collect::<Result<_, _>>()?;
        Ok(Self {
            graph: policy.graph(),
            needs: PolicyNeeds::of(policy, Some(MARK), without_agent),
            buffers: policy.stated_buffers(),
        })
    }

    fn ports_of(&self, switch: usize) -> Result<Vec<(SwitchPort, PortConfig)>, CommandError> {
        let own = |link| OwnNeeds {
            buffer: self.graph.port_buffer(link, self.buffers),
            credit_buffer: self.needs.credit_buffer(self.graph.link(link).rate),
            remark: self.needs.remark(link),
        };
        desired(&self.graph, switch, (&self.needs.needs, self.needs.offer), own)
            .map_err(|refusal| CommandError::refused(refusal.to_string()).hint(refusal.hint))
    }

    fn switch(&self, name: &str, is_host: bool) -> Result<usize, CommandError> {
        switch_named(&self.graph, name).ok_or_else(|| {
            let named = if is_host { format!("this host's name, `{name}`,") } else { format!("`{name}`") };
            CommandError::refused(format!("{named} is no switch of the policy's network"))
                .hint(format!("its switches are {}; choose one with --switch", text::list(&self.graph.switches, 8)))
        })
    }

    /// The service of a port's weighted queues, each of which holds at most `buffer`, or else what the policy states.
    pub(super) fn drain_limits(&self, port: &Port, buffer: Option<Bytes>) -> Result<DrainLimits, CommandError> {
        let place = format!("switch {}, port {}", port.switch, port.name);
        let buffer = buffer.or_else(|| port.config.queues().filter_map(|queue| queue.buffer).max());
        let (Some(rate), Some(buffer)) = (port.config.rate(), buffer) else {
            let cause =
                format!("{place}: it is not known how much a queue holds, so when it has emptied is not either");
            return Err(CommandError::refused(cause).hint("state it by --queue-buffer, for example 16MB"));
        };
        self.needs.drain_limits(rate, buffer).ok_or_else(|| {
            let (credits, bounded) = match self.needs.needs.credits {
                Some(_) => (" or credits", "; credits with a known `period-max` are, too"),
                None => ("", ""),
            };
            let cause = format!("{place}: the policy's levels{credits} may keep the queues of tenants from sending");
            let hint = format!("levels with token buckets are bounded: remove `epoch: windowed`{bounded}");
            CommandError::refused(cause).hint(hint)
        })
    }

    /// The ports of one switch, or of all.
    pub(super) fn all_ports(&self, switch: Option<&str>) -> Result<Vec<Port>, CommandError> {
        let switches = match switch {
            Some(name) => vec![self.switch(name, false)?],
            None => (0..self.graph.switches.len()).collect(),
        };
        let mut ports = Vec::new();
        for switch in switches {
            let name = &self.graph.switches[switch];
            let port = |(port, config): (SwitchPort, PortConfig)| Port {
                switch: name.clone(),
                name: port.name(),
                interface: None,
                config,
                in_force: None,
                counters: BTreeMap::new(),
            };
            ports.extend(self.ports_of(switch)?.into_iter().map(port));
        }
        Ok(ports)
    }

    /// By level, the most urgent first: its DSCP value.
    pub(super) fn levels(&self) -> Vec<u8> {
        self.needs.needs.levels.concat()
    }

    /// The ports that are interfaces of this host. Ports of the switch that are none are reported, and interfaces of
    /// the bridge that are no port are refused.
    pub(super) fn select(&self, mapping: &Mapping, notes: &mut Vec<String>) -> Result<Selected, CommandError> {
        mapping.chosen.check(mapping.bridge.as_deref())?;
        let bridge = mapping.bridge.as_deref().map(bridge_ports).transpose()?;
        let selected = self.select_of(mapping, bridge.unwrap_or_default())?;
        if let Some(stray) = selected.strays.first() {
            return Err(self.unassigned(stray, &selected.switch));
        }
        if mapping.bridge.is_some() && !selected.absent.is_empty() {
            notes.push(format!("no port of the bridge is the port to {}", text::list(&selected.absent, 8)));
        }
        Ok(selected)
    }

    /// The same with these ports of the bridge, and no report.
    pub(super) fn select_of(&self, mapping: &Mapping, mut bridge: Vec<BridgePort>) -> Result<Selected, CommandError> {
        let name = match &mapping.switch {
            Some(name) => name.clone(),
            None => host_name()?,
        };
        let switch = self.switch(&name, mapping.switch.is_none())?;
        let ports = self.ports_of(switch)?;
        let links: Vec<SwitchPort> = ports.iter().map(|(port, _)| port.clone()).collect();
        let named = neighbours(&mapping.port, Vec::new())?;
        if let Some(both) = mapping.outside.iter().find(|own| named.iter().any(|(interface, _)| interface == *own)) {
            let hint = format!("keep --port {both} if the machine behind it is in the policy, else --outside {both}");
            return Err(CommandError::refused(format!("{both} is named by --port and by --outside")).hint(hint));
        }
        if mapping.bridge.is_none() && named.is_empty() && mapping.outside.is_empty() {
            let hint = "name them with --port INTERFACE=NEIGHBOUR, or their bridge with --bridge";
            return Err(CommandError::refused("no interface is named as a port").hint(hint));
        }
        bridge.retain(|port| !mapping.outside.contains(&port.interface));
        let (assigned, strays) = assign_each(&links, &neighbours(&mapping.port, bridge)?);
        let is_named = |stray: &&AssignError| named.iter().any(|(interface, _)| interface == stray.interface());
        if let Some(stray) = strays.iter().find(is_named) {
            return Err(self.unassigned(stray, &name));
        }
        let absent = links.iter().filter(|port| {
            !assigned.iter().any(|(_, own)| own == *port) && leads_to_machines(&self.graph, switch, port)
        });
        let absent = absent.map(SwitchPort::name).collect();
        let config = |own: &SwitchPort| ports.iter().find(|(port, _)| port == own).map(|(_, config)| config.clone());
        let port = |(interface, own): (String, SwitchPort)| {
            let config = config(&own).expect("a port is assigned from this list");
            let (switch, name) = (name.clone(), own.name());
            Port { switch, name, interface: Some(interface), config, in_force: None, counters: BTreeMap::new() }
        };
        let outside = |interface: &String| Port {
            switch: name.clone(),
            name: outside_name(interface),
            interface: Some(interface.clone()),
            config: PortConfig::remark_only(self.needs.claimable()),
            in_force: None,
            counters: BTreeMap::new(),
        };
        let outside = mapping.outside.iter().map(outside);
        let ports = assigned.into_iter().map(port).chain(outside).collect();
        Ok(Selected { switch: name, ports, absent, strays })
    }

    /// The refusal of an interface that is no port of a switch.
    fn unassigned(&self, error: &AssignError, switch: &str) -> CommandError {
        let ports = switch_named(&self.graph, switch).map_or_else(Vec::new, |switch| ports_of(&self.graph, switch));
        let names: Vec<String> = ports.iter().map(SwitchPort::name).collect();
        let hint = match error {
            AssignError::Unknown { interface, .. } => format!(
                "its ports are those to {}; write --port {interface}=NEIGHBOUR, or set the interface's alias; if the \
                 machine behind it is not in the policy, --outside {interface}",
                text::list(&names, 8)
            ),
            AssignError::Taken { .. } => "the policy's network has no further link to it".to_owned(),
            AssignError::Twice(_) => "name each interface once".to_owned(),
        };
        CommandError::refused(error.to_string()).hint(hint)
    }
}

/// The interfaces with the names of their neighbours, those of --port first.
fn neighbours(named: &[String], bridge: Vec<BridgePort>) -> Result<Vec<(String, String)>, CommandError> {
    let mut wanted = Vec::new();
    for text in named {
        let (interface, neighbour) = text.split_once('=').unwrap_or((text, text));
        if interface.is_empty() || neighbour.is_empty() {
            return Err(CommandError::refused(format!("--port {text}: a name is missing"))
                .hint("write --port INTERFACE=NEIGHBOUR, for example --port swp1=m1"));
        }
        wanted.push((interface.to_owned(), neighbour.to_owned()));
    }
    for port in bridge {
        if !wanted.iter().any(|(interface, _)| *interface == port.interface) {
            let neighbour = port.alias.unwrap_or_else(|| port.interface.clone());
            wanted.push((port.interface, neighbour));
        }
    }
    Ok(wanted)
}

/// The ports of a Linux bridge of this host.
pub(super) fn bridge_ports(bridge: &str) -> Result<Vec<BridgePort>, CommandError> {
    let ports = weir_linux::port::bridge_ports(bridge).map_err(|error| {
        CommandError::failed(error.to_string()).hint("`ip link show type bridge` lists this host's bridges")
    })?;
    if ports.is_empty() {
        let hint = "`ip link set swp1 master br0` adds an interface to a bridge";
        return Err(CommandError::refused(format!("{bridge} has no ports, or is no bridge")).hint(hint));
    }
    Ok(ports)
}

fn host_name() -> Result<String, CommandError> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_err(|error| CommandError::failed(format!("cannot read this host's name: {error}")))?;
    Ok(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_named_by_option_alias_or_interface() {
        let port = |interface: &str, alias: Option<&str>| BridgePort {
            interface: interface.to_owned(),
            alias: alias.map(str::to_owned),
        };
        let bridge = vec![port("swp1", Some("m1")), port("swp2", Some("m2")), port("m3", None)];
        let wanted = neighbours(&["swp2=m9".to_owned(), "m4".to_owned()], bridge).expect("valid");
        let texts: Vec<String> = wanted.iter().map(|(interface, name)| format!("{interface}={name}")).collect();
        assert_eq!(texts, ["swp2=m9", "m4=m4", "swp1=m1", "m3=m3"]);
        assert!(neighbours(&["=m1".to_owned()], Vec::new()).is_err());
    }
}
