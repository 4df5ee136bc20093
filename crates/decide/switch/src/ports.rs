//! The ports of a switch in a network, and the interfaces that are these ports.
//!
//! A port is named by its neighbour: the machine or switch at the other end of its link. What leaves by the port
//! crosses the link in the direction of the neighbour, at that direction's rate. Of several links to one neighbour
//! the first is `spine0`, the next `spine0#2`.
//!
//! Worked example: rack `r1` with machines `m1` and `m2` has the ports `m1`, `m2` and `spine0`. With `--port swp1=m1`
//! the interface `swp1` is limited to the rate at which `m1` receives.

use crate::capabilities::Refusal;
use crate::port::{DscpSet, PortConfig};
use crate::request::Needs;
use weir_network::Graph;
use weir_network::graph::LinkRef;
use weir_network::switches::Offer;
use weir_units::{Bytes, MachineId};

/// A port of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchPort {
    /// The machine or switch at the other end.
    pub neighbour: String,
    /// Counts the ports to this neighbour, from 1 on.
    pub number: usize,
    /// The link from the switch to the neighbour.
    pub link: LinkRef,
}

impl SwitchPort {
    /// The neighbour, with the number of the port if it is not the first.
    pub fn name(&self) -> String {
        if self.number == 1 { self.neighbour.clone() } else { format!("{}#{}", self.neighbour, self.number) }
    }
}

/// The index of a switch in [`Graph::switches`].
pub fn switch_named(graph: &Graph, name: &str) -> Option<usize> {
    graph.switches.iter().position(|switch| switch == name)
}

/// The ports of a switch: those to machines, then those to switches, in the graph's order.
pub fn ports_of(graph: &Graph, switch: usize) -> Vec<SwitchPort> {
    let hosts = (0u32..).zip(&graph.hosts).filter(|(_, host)| host.switch == switch);
    let hosts = hosts.map(|(id, host)| (host.name.clone(), LinkRef::Down(MachineId(id))));
    let cables = graph.cables.iter().enumerate().filter_map(|(index, cable)| match (cable.a, cable.b) {
        (a, b) if a == switch => Some((graph.switches[b].clone(), LinkRef::Forward(index))),
        (a, b) if b == switch => Some((graph.switches[a].clone(), LinkRef::Backward(index))),
        _ => None,
    });
    let mut ports: Vec<SwitchPort> = Vec::new();
    for (neighbour, link) in hosts.chain(cables) {
        let number = 1 + ports.iter().filter(|port| port.neighbour == neighbour).count();
        ports.push(SwitchPort { neighbour, number, link });
    }
    ports
}

/// Whether a machine is behind a port: packets between machines may cross it. The network of a single rack has a switch
/// above it, behind which is none.
pub fn leads_to_machines(graph: &Graph, switch: usize, port: &SwitchPort) -> bool {
    let first = match port.link {
        LinkRef::Up(_) | LinkRef::Down(_) => return true,
        LinkRef::Forward(cable) => graph.cables[cable].b,
        LinkRef::Backward(cable) => graph.cables[cable].a,
    };
    let mut reached = vec![first];
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        next += 1;
        for cable in &graph.cables {
            let other = [(cable.a, cable.b), (cable.b, cable.a)].into_iter().find(|(from, _)| *from == at);
            if let Some((_, to)) = other
                && to != switch
                && !reached.contains(&to)
            {
                reached.push(to);
            }
        }
    }
    graph.hosts.iter().any(|host| reached.contains(&host.switch))
}

/// The needs of one port beside those of all ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnNeeds {
    /// The buffer of each queue; `None`: the switch's default.
    pub buffer: Option<Bytes>,
    /// The buffer of the queue of data with credits where `buffer` is `None`; `None`: the switch's default.
    pub credit_buffer: Option<Bytes>,
    /// The DSCP values that the neighbour may not claim: re-marked to 0 where its packets arrive.
    pub remark: DscpSet,
}

/// The configuration that each port of a switch shall have: limited to the rate of its link, with the threshold that
/// the link states, or else the one that is needed, and with what `own` gives for the link to its neighbour. A refusal
/// names the port by its neighbour.
pub fn desired(
    graph: &Graph,
    switch: usize,
    (needs, offer): (&Needs, Offer),
    own: impl Fn(LinkRef) -> OwnNeeds,
) -> Result<Vec<(SwitchPort, PortConfig)>, Refusal> {
    let lower = |port: SwitchPort| {
        let link = graph.link(port.link);
        let OwnNeeds { buffer, credit_buffer, remark } = own(port.link);
        let needs = Needs { mark: link.queue.mark.or(needs.mark), ..needs.clone() };
        let request = needs.of_port(Some(link.rate), buffer).with_credit_buffer(buffer.or(credit_buffer));
        let config = request.lower(offer);
        let config = config.map_err(|error| Refusal::at(&graph.switches[switch], &port.name(), error))?;
        Ok((port, config.remarking(remark)))
    };
    ports_of(graph, switch).into_iter().map(lower).collect()
}

/// An interface that is no port of the switch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// The network has no such neighbour at this switch.
    #[error("{interface}: the switch has no port to `{neighbour}`")]
    Unknown {
        /// The interface.
        interface: String,
        /// The name.
        neighbour: String,
    },
    /// More interfaces than links.
    #[error("{interface}: `{other}` is the port to `{neighbour}` already")]
    Taken {
        /// The interface.
        interface: String,
        /// The interface that has the port.
        other: String,
        /// The neighbour.
        neighbour: String,
    },
    /// An interface twice.
    #[error("{0}: is named twice")]
    Twice(String),
}

impl AssignError {
    /// The interface that is no port.
    pub fn interface(&self) -> &str {
        match self {
            Self::Unknown { interface, .. } | Self::Taken { interface, .. } | Self::Twice(interface) => interface,
        }
    }

    /// The name of its neighbour, as far as that is known.
    pub fn neighbour(&self) -> &str {
        match self {
            Self::Unknown { neighbour, .. } | Self::Taken { neighbour, .. } => neighbour,
            Self::Twice(interface) => interface,
        }
    }
}

/// The port of each interface, given the name of its neighbour, and the interfaces that are no port. A neighbour's name
/// without a number is its first port that no interface has.
pub fn assign_each(ports: &[SwitchPort], wanted: &[(String, String)]) -> (Vec<(String, SwitchPort)>, Vec<AssignError>) {
    let mut assigned: Vec<(String, SwitchPort)> = Vec::new();
    let mut errors = Vec::new();
    for (interface, neighbour) in wanted {
        if assigned.iter().any(|(other, _)| other == interface) {
            errors.push(AssignError::Twice(interface.clone()));
            continue;
        }
        let fits = |port: &&SwitchPort| port.neighbour == *neighbour || port.name() == *neighbour;
        let owner = |port: &SwitchPort| assigned.iter().find(|(_, taken)| taken == port).map(|(other, _)| other);
        let port = ports.iter().filter(fits).find(|port| owner(port).is_none());
        let Some(port) = port else {
            let other = ports.iter().find(fits).and_then(owner).cloned();
            let (interface, neighbour) = (interface.clone(), neighbour.clone());
            errors.push(match other {
                Some(other) => AssignError::Taken { interface, other, neighbour },
                None => AssignError::Unknown { interface, neighbour },
            });
            continue;
        };
        assigned.push((interface.clone(), port.clone()));
    }
    (assigned, errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_network::graph::{LinkSpec, Packets, QueueSpec, Routing};
    use weir_network::topology::{Common, Explicit, ExplicitCable, ExplicitHost};
    use weir_units::{Bandwidth, Duration};

    fn link(gbps: u64) -> LinkSpec {
        LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::from_micros(1), queue: QueueSpec::default() }
    }

    /// Switch `r1` with two machines and two links to `core`.
    fn graph() -> Graph {
        let host = |name: &str, switch, down| ExplicitHost { name: name.into(), switch, up: link(1), down: link(down) };
        let cable = |out, back| ExplicitCable { a: 0, b: 1, a_to_b: link(out), b_to_a: link(back) };
        let explicit = Explicit {
            hosts: vec![host("m1", 0, 10), host("m2", 0, 20), host("m3", 1, 30)],
            switches: vec!["r1".into(), "core".into()],
            cables: vec![cable(40, 50), cable(60, 70)],
            groups: Vec::new(),
        };
        let packets = Packets { payload: 1448, headers: 66 };
        explicit.build(Common { routing: Routing::Ecmp, packets, shared_buffer: None, jitter: Duration::ZERO })
    }

    fn shown(graph: &Graph, switch: &str) -> Vec<(String, u64)> {
        let ports = ports_of(graph, switch_named(graph, switch).expect("there"));
        ports.iter().map(|port| (port.name(), graph.link(port.link).rate.bps() / 1_000_000_000)).collect()
    }

    #[test]
    fn ports_send_towards_their_neighbours() {
        let graph = graph();
        let own = |list: &[(&str, u64)]| list.iter().map(|(n, r)| ((*n).to_owned(), *r)).collect::<Vec<_>>();
        assert_eq!(shown(&graph, "r1"), own(&[("m1", 10), ("m2", 20), ("core", 40), ("core#2", 60)]));
        assert_eq!(shown(&graph, "core"), own(&[("m3", 30), ("r1", 50), ("r1#2", 70)]));
        assert_eq!(switch_named(&graph, "r2"), None);
    }

    #[test]
    fn ports_behind_which_no_machine_is_are_known() {
        let mut graph = graph();
        let leads = |graph: &Graph, switch: usize| {
            ports_of(graph, switch).iter().map(|port| leads_to_machines(graph, switch, port)).collect::<Vec<_>>()
        };
        assert_eq!((leads(&graph, 0), leads(&graph, 1)), (vec![true; 4], vec![true; 3]));
        // m3 moves to r1: nothing is behind the links to `core` that is not at r1.
        graph.hosts[2].switch = 0;
        assert_eq!((leads(&graph, 0), leads(&graph, 1)), (vec![true, true, true, false, false], vec![true; 2]));
    }

    #[test]
    fn each_port_has_the_rate_of_its_link_and_a_refusal_names_it() {
        let graph = graph();
        let needs = Needs::marks(Bytes::new(80_000));
        let own = |link| OwnNeeds {
            buffer: matches!(link, LinkRef::Down(_)).then_some(Bytes::new(100_000)),
            ..OwnNeeds::default()
        };
        let all = desired(&graph, 0, (&needs, Offer::PLAIN), own).expect("valid");
        let of = |(port, config): &(SwitchPort, PortConfig)| {
            let rate = config.rate().expect("a rate").bps() / 1_000_000_000;
            (port.name(), rate, config.queues().next().and_then(|queue| queue.buffer))
        };
        let buffer_of_machines = Some(Bytes::new(100_000));
        let expected =
            [("m1", 10, buffer_of_machines), ("m2", 20, buffer_of_machines), ("core", 40, None), ("core#2", 60, None)];
        assert_eq!(
            all.iter().map(of).collect::<Vec<_>>(),
            expected.map(|(name, rate, own)| (name.to_owned(), rate, own))
        );
        let levels = Needs { levels: vec![vec![46]], ..needs };
        let refused =
            desired(&graph, 0, (&levels, Offer::PLAIN), |_| OwnNeeds::default()).expect_err("no strict queue");
        assert_eq!(
            refused.to_string(),
            "switch r1, port m1, queues: 1 needed for levels, 0 available beside the shared one"
        );
    }

    #[test]
    fn each_interface_is_one_port() {
        let graph = graph();
        let ports = ports_of(&graph, 0);
        let assign = |wanted: &[(&str, &str)]| {
            let wanted: Vec<_> = wanted.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            let (assigned, errors) = assign_each(&ports, &wanted);
            let names: Vec<_> = assigned.iter().map(|(_, port)| port.name()).collect();
            errors.first().map_or(Ok(names), |error| Err(error.to_string()))
        };
        let all = [("e1", "m1"), ("e2", "core"), ("e3", "core"), ("e4", "m2")];
        assert_eq!(assign(&all), Ok(["m1", "core", "core#2", "m2"].map(str::to_owned).to_vec()));
        assert_eq!(assign(&[("e1", "core#2"), ("e2", "core")]), Ok(["core#2", "core"].map(str::to_owned).to_vec()));
        let refused = |wanted: &[(&str, &str)]| assign(wanted).expect_err("refused");
        assert_eq!(refused(&[("e1", "m3")]), "e1: the switch has no port to `m3`");
        assert_eq!(refused(&[("e1", "m1"), ("e2", "m1")]), "e2: `e1` is the port to `m1` already");
        assert_eq!(refused(&[("e1", "m1"), ("e1", "m2")]), "e1: is named twice");
        let wanted = [("e1", "m3"), ("e2", "m1"), ("e3", "m1")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let (assigned, errors) = assign_each(&ports, &wanted);
        assert_eq!(assigned.iter().map(|(interface, _)| interface.as_str()).collect::<Vec<_>>(), ["e2"]);
        assert_eq!(errors.iter().map(AssignError::interface).collect::<Vec<_>>(), ["e1", "e3"]);
    }
}
