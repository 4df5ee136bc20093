//! From the keys of a network to its contention points and its [`Graph`]: names resolved, sizes bounded.
//!
//! The size of a network is computed before anything is built. A scenario needs the graph
//! ([`NetworkReader::graph`]); a policy needs racks and machines with the positions of their speeds, for admission
//! control ([`NetworkReader::contention_points`]).
//!
//! | module | reads |
//! |---|---|
//! | `racks` | racks and machines; `machines:` of every form |
//! | `topology` | `topology:` with its parameters |
//! | `explicit` | hosts, switches and links one by one |
//! | `queue` | queues and links |

mod explicit;
mod queue;
mod racks;
mod topology;

pub use queue::{can_be_simulated, links_have};

use crate::graph::{Graph, Routing};
use crate::language::{MAX_DELAY, MAX_HOSTS, MAX_MACHINES, NETWORK};
use crate::network::{Network, PortBuffers, Wiring};
use crate::topology::{Links, Size, from_racks, racks_size};
use racks::{MachineDraft, Properties};
use std::sync::Arc;
use weir_document::{Field, Node, Problems, Span, Suggester, scalar};
use weir_units::{Bandwidth, Bytes, Direction, Duration, PerDirection};

/// The contention points of a network, with the positions of their speeds.
pub struct ReadNetwork {
    /// Racks and machines.
    pub network: Network,
    /// The links between them.
    pub wiring: Wiring,
    /// The speed of each machine; [`Field::Bad`] where it was reported.
    pub nics: Vec<PerDirection<Field<Bandwidth>>>,
    /// The speed of each rack's uplink.
    pub uplinks: Vec<PerDirection<Field<Bandwidth>>>,
    /// Whether every machine that the file names was read: only then is a missing one a mistake
    /// elsewhere.
    pub complete: bool,
}

/// Reads a rate, or a mapping with a rate for `tx`, `rx` or both.
pub fn rates(node: Option<&Node>) -> PerDirection<Field<Bandwidth>> {
    let Some(node) = node else { return PerDirection::both(Field::Absent) };
    let rate = |text: &str| scalar::rate(text, false, false);
    if node.entries().is_empty() {
        return PerDirection::both(node.read(rate));
    }
    PerDirection { tx: node.field("tx", rate), rx: node.field("rx", rate) }
}

/// Reads networks and their parts. What cannot be read is reported to `problems`.
pub struct NetworkReader<'a> {
    problems: &'a mut Problems,
    suggester: Suggester,
    memory: Option<Bytes>,
    /// The most hosts of a topology.
    most: u64,
}

impl<'a> NetworkReader<'a> {
    /// A reader that refuses networks of which a run would need more than `memory`.
    pub fn new(problems: &'a mut Problems, memory: Option<Bytes>) -> Self {
        Self { problems, suggester: Suggester::default(), memory, most: MAX_HOSTS }
    }

    /// Racks and machines of a policy's network, in canonical order; their sound part if something is missing or
    /// wrong.
    pub fn contention_points(&mut self, node: Option<&Node>) -> ReadNetwork {
        let nothing = ReadNetwork {
            network: Network::new(Vec::new(), Vec::new(), PortBuffers::default()),
            wiring: Wiring::Racks(Links::default()),
            nics: Vec::new(),
            uplinks: Vec::new(),
            complete: false,
        };
        self.most = MAX_MACHINES as u64;
        let Some((node, form)) = node.and_then(|node| Some((node, NETWORK.chosen(node)?))) else { return nothing };
        if form.id == "racks" {
            return self.racks(node);
        }
        self.topology(node).and_then(|graph| self.stated(node, graph.by_rack())).unwrap_or(nothing)
    }

    /// The graph of a network, its hosts in the order of the file; `None` only if something was reported.
    pub fn graph(&mut self, node: &Node) -> Option<Graph> {
        if NETWORK.chosen(node)?.id != "racks" {
            let mut graph = self.topology(node)?;
            self.properties(node, &mut graph)?;
            return Some(graph);
        }
        let before = self.problems.count();
        let ReadNetwork { network, wiring, .. } = self.racks(node);
        let Wiring::Racks(links) = wiring else { return None };
        let size = racks_size(&network, &links);
        let at = node.get("racks").map_or(node.span, |node| node.span);
        let sound = self.problems.count() == before && self.fits(size, at, "the network");
        (sound && self.can_simulate_racks(&network, &links, at)).then(|| from_racks(&network, &links, Routing::Ecmp))
    }

    /// The contention points of a topology whose hosts are in order.
    fn stated(&mut self, node: &Node, mut graph: Graph) -> Option<ReadNetwork> {
        let properties = self.properties(node, &mut graph)?;
        let slots = properties.slots(node);
        let Properties { nics, addresses, .. } = properties;
        let written = |key: &str| node.get(key).map(|link| link.get("rate").map_or(link.span, |rate| rate.span));
        let topology = node.get("topology").or(node.get("links")).map_or(node.span, |node| node.span);
        let [host, fabric] = ["host-link", "fabric-link"].map(|key| written(key).unwrap_or(topology));
        let switches = match NETWORK.chosen(node)?.id {
            // There `switches` counts or names them.
            "parking-lot" | "links" => None,
            _ => node.get("switches"),
        };
        let (offer, map) = racks::queues(switches, self.problems);
        let network = graph.network().with_addresses(addresses).with_offer(offer, map).with_slots(&slots);
        let network = network.with_forwarders(racks::forwarders(switches));
        let nics = network.machines().iter().zip(nics).map(|(machine, nic)| {
            let field = |direction: Direction| nic[direction].or(Field::Value(machine.nic()[direction], host));
            PerDirection { tx: field(Direction::Tx), rx: field(Direction::Rx) }
        });
        let nics = nics.collect();
        let uplink = |rate| Field::Value(rate, fabric);
        let uplinks = network.racks().iter().map(|rack| rack.uplink());
        let uplinks = uplinks.map(|rates| PerDirection { tx: uplink(rates.tx), rx: uplink(rates.rx) }).collect();
        Some(ReadNetwork { network, wiring: Wiring::Stated(Arc::new(graph)), nics, uplinks, complete: true })
    }

    /// Reads `machines:` of a topology, and sets the hosts' links to the speeds in it.
    fn properties(&mut self, node: &Node, graph: &mut Graph) -> Option<Properties> {
        let before = self.problems.count();
        let special = node.get("machines");
        let found: Vec<MachineDraft> = match special {
            Some(node) => {
                graph.hosts.iter().map(|host| MachineDraft::new(&host.name, host.switch, node.span)).collect()
            }
            None => Vec::new(),
        };
        let mut properties = racks::properties(special, &found, self.problems);
        properties.nics.resize(graph.hosts.len(), PerDirection::both(Field::Absent));
        properties.addresses.resize(graph.hosts.len(), None);
        properties.slots.resize(graph.hosts.len(), None);
        for (host, nic) in graph.hosts.iter_mut().zip(&properties.nics) {
            for (link, written) in [(&mut host.up, nic.tx), (&mut host.down, nic.rx)] {
                let Field::Value(rate, span) = written else { continue };
                if !can_be_simulated(rate) {
                    self.error(span, format!("a link of {rate} cannot be simulated"), links_have());
                    return None;
                }
                link.rate = rate;
            }
        }
        (self.problems.count() == before).then_some(properties)
    }

    fn error(&mut self, span: Span, cause: impl Into<String>, hint: impl Into<String>) {
        self.problems.error(span, cause, hint);
    }

    /// A time above zero and at most `most`.
    pub fn time(&mut self, node: &Node, key: &str, most: Duration) -> Field<Duration> {
        let field = node.field(key, |text| scalar::time(text, false));
        if let Field::Value(time, span) = field
            && time > most
        {
            self.error(span, format!("the {key} {time} is longer than {most}"), format!("write at most {most}"));
            return Field::Bad;
        }
        field
    }

    /// A link's delay.
    pub fn delay(&mut self, node: &Node) -> Field<Duration> {
        self.time(node, "delay", MAX_DELAY)
    }

    /// Whether a network of this size may be built; `what` names it in messages.
    pub fn fits(&mut self, size: Size, at: Span, what: &str) -> bool {
        let Size { hosts, switches, links, .. } = size;
        let parts = format!("{what} has {hosts} hosts, {links} links and {switches} switches");
        if hosts > self.most {
            self.error(at, format!("{parts}: more than {} hosts", self.most), "make it smaller");
            return false;
        }
        let needed = size.memory();
        if let Some(memory) = self.memory.filter(|memory| needed > *memory) {
            // Megabytes are exact enough for an estimate.
            let megabytes = |bytes: Bytes| Bytes::new(bytes.get().div_ceil(1_000_000) * 1_000_000);
            self.error(
                at,
                format!(
                    "{parts}, about {} of memory: more than the {} that may be used",
                    megabytes(needed),
                    megabytes(memory)
                ),
                "make it smaller, or run it on a machine with more memory",
            );
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests;
