//! [`Fabric`]: the routing trees of a network, as far as placement needs them.
//!
//! Problem: a tenant is confined to one tree of the network, so that the bandwidth that it needs of every link is
//! known; networks with several paths have many such trees, most of which share most of their links. Approach: every
//! switch is the root of one tree, which holds what is reached from it over downward links. Links are downward from a
//! switch to one that is nearer to hosts, so trees are not stored: they are walked along the links that all of them
//! share. A node that several downward paths reach is in the tree by the first of them.
//!
//! A root's layer is one more than the layer of its farthest child; machines are layer 0. Where no tree reaches all
//! machines (switches beside each other, as in a dumbbell or a chain), the last layer has the trees of shortest paths
//! from each switch.
//!
//! Example: a fat-tree with k = 16 has 1024 machines of layer 0, 128 edge switches of layer 1 with 8 machines each,
//! 128 aggregation switches of layer 2 with 64 each, and 64 core switches of layer 3 with all.
//!
//! Where switches spread packets over equal paths, a root stands for all switches with the same machines below
//! ([`Fabric::spread`]).
//!
//! Source: QShare §IV-A (a TR option of layer i is a tree rooted there; its leaves are all servers reachable over
//! downward paths).

use crate::spread::Spread;
use std::collections::{BTreeMap, HashSet, VecDeque};
use weir_network::graph::{Graph, LinkRef};
use weir_policy::{Policy, TenantPaths};
use weir_units::{Bandwidth, MachineId};

/// A cable, in both directions: a host's, then those between switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CableId(pub u32);

impl CableId {
    /// The position in lists of cables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The place of a cable in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CableKind {
    /// Between a machine and its switch.
    Machine,
    /// Between switches, of which one has machines: an uplink of a rack.
    Uplink,
    /// Between switches without machines.
    Core,
}

/// A switch, the index into [`Graph::switches`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub u32);

impl SwitchId {
    /// The position in lists of switches.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The root of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Root {
    /// One machine: nothing is reserved.
    Machine(MachineId),
    /// The tree below a switch.
    Switch(SwitchId),
    /// The shortest paths from a switch to all others.
    Spanning(SwitchId),
}

impl Root {
    /// Its name in a placement's file: the machine's, or the switch's.
    pub fn name(self, graph: &Graph) -> &str {
        match self {
            Self::Machine(machine) => &graph.hosts[machine.index()].name,
            Self::Switch(switch) | Self::Spanning(switch) => &graph.switches[switch.index()],
        }
    }
}

/// The far end of a downward link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Node {
    Machine(MachineId),
    Switch(SwitchId),
}

/// A link away from the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Down {
    pub(crate) cable: CableId,
    pub(crate) to: Node,
}

/// The trees of a network.
#[derive(Debug, Clone)]
pub struct Fabric {
    machines: usize,
    cables: Vec<(LinkRef, LinkRef)>,
    /// By switch: its machines, then the switches below it.
    down: Vec<Vec<Down>>,
    /// By switch: all its neighbours.
    around: Vec<Vec<Down>>,
    /// The roots above machines, by layer.
    layers: Vec<Vec<Root>>,
    /// By switch: the set of machines that its tree has, an index into `sets`.
    set_of: Vec<usize>,
    /// Machines of each set, and by machine the sets that it is in.
    sets: Vec<usize>,
    sets_of_machine: Vec<Vec<u32>>,
    /// By switch: switches with equal lists of children share a number.
    twins: Vec<u32>,
    /// The bundles of sets, where switches spread packets over equal paths.
    spread: Option<Spread>,
}

impl Fabric {
    /// The trees of a graph.
    pub fn new(graph: &Graph) -> Self {
        let machines = graph.hosts.len();
        let mut around = vec![Vec::new(); graph.switches.len()];
        for (at, host) in graph.hosts.iter().enumerate() {
            let to = Node::Machine(MachineId(at as u32));
            around[host.switch].push(Down { cable: CableId(at as u32), to });
        }
        for (at, cable) in graph.cables.iter().enumerate() {
            let id = CableId((machines + at) as u32);
            around[cable.a].push(Down { cable: id, to: Node::Switch(SwitchId(cable.b as u32)) });
            around[cable.b].push(Down { cable: id, to: Node::Switch(SwitchId(cable.a as u32)) });
        }
        let down = downward(&around);
        let hosts = (0..machines as u32).map(MachineId).map(|host| (LinkRef::Up(host), LinkRef::Down(host)));
        let between = (0..graph.cables.len()).map(|at| (LinkRef::Forward(at), LinkRef::Backward(at)));
        let mut fabric = Self {
            machines,
            cables: hosts.chain(between).collect(),
            twins: twins(&down),
            layers: Vec::new(),
            set_of: vec![0; down.len()],
            sets: Vec::new(),
            sets_of_machine: vec![Vec::new(); machines],
            down,
            around,
            spread: None,
        };
        fabric.find_sets();
        fabric.find_layers();
        fabric
    }

    /// The network of a policy: trees, or bundles with `tenant-queues: { paths: spread }`.
    pub fn of_policy(policy: &Policy, graph: &Graph) -> Self {
        match policy.tenant_queues().paths {
            TenantPaths::Spread => Self::spread(graph),
            TenantPaths::Unstated | TenantPaths::Routed => Self::new(graph),
        }
    }

    /// A network whose switches spread packets over equal paths: a tenant reserves in full on every cable that they
    /// may use. Networks without equal paths have trees.
    ///
    /// # Panics
    /// If the graph is not layered ([`weir_network::layers::is_layered`]).
    pub fn spread(graph: &Graph) -> Self {
        let mut fabric = Self::new(graph);
        if weir_network::layers::has_one_path(graph) {
            return fabric;
        }
        assert!(weir_network::layers::is_layered(graph), "packets are spread over a network without layers");
        let spread = Spread::new(&fabric.down, &fabric.set_of, &fabric.sets_of_machine, &fabric.sets);
        fabric.spread = Some(spread);
        // One root for each set, in the lowest layer that has it.
        let mut seen = HashSet::new();
        let set_of = &fabric.set_of;
        for roots in &mut fabric.layers {
            roots.retain(|root| !matches!(root, Root::Switch(switch) if !seen.insert(set_of[switch.index()])));
        }
        fabric
    }

    /// Whether tenants reserve on all equal paths.
    pub fn is_spread(&self) -> bool {
        self.spread.is_some()
    }
    /// The bundles, where tenants reserve on all equal paths.
    pub(crate) fn bundles(&self) -> Option<&Spread> {
        self.spread.as_ref()
    }
    /// The switches that a root stands for: itself, or where packets are spread all with its machines, in its layer.
    pub fn roots(&self, root: Root) -> Vec<SwitchId> {
        match root {
            Root::Machine(_) => Vec::new(),
            Root::Switch(switch) if self.is_spread() => {
                let alike = |other: &SwitchId| self.set_of(*other) == self.set_of(switch);
                (0..self.down.len() as u32).map(SwitchId).filter(alike).collect()
            }
            Root::Switch(switch) | Root::Spanning(switch) => vec![switch],
        }
    }
    /// The place of a cable; `graph` is the fabric's.
    pub fn kind(&self, graph: &Graph, cable: CableId) -> CableKind {
        let (LinkRef::Forward(at) | LinkRef::Backward(at)) = self.links(cable).0 else { return CableKind::Machine };
        let ends = [graph.cables[at].a, graph.cables[at].b];
        match ends.iter().any(|end| self.has_machines(SwitchId(*end as u32))) {
            true => CableKind::Uplink,
            false => CableKind::Core,
        }
    }
    /// How many machines there are.
    pub fn machines(&self) -> usize {
        self.machines
    }
    /// How many cables there are.
    pub fn cables(&self) -> usize {
        self.cables.len()
    }
    /// The links of a cable, from a machine or from the end `a` of a [`weir_network::graph::Cable`] first.
    pub fn links(&self, cable: CableId) -> (LinkRef, LinkRef) {
        self.cables[cable.index()]
    }
    /// The most ports of switches that a packet passes in one tree.
    pub fn longest_path(&self) -> u32 {
        match self.is_spanning() {
            true => self.down.len() as u32,
            // Up to the root, which is in the last layer, and down again.
            false => (2 * self.layers.len() as u32).saturating_sub(1),
        }
    }
    /// Whether no switch has all machines below it, so that the last layer has the trees of shortest paths.
    pub(crate) fn is_spanning(&self) -> bool {
        self.layers.iter().flatten().any(|root| matches!(root, Root::Spanning(_)))
    }
    /// The cable of a link.
    pub fn cable(&self, link: LinkRef) -> CableId {
        CableId(match link {
            LinkRef::Up(machine) | LinkRef::Down(machine) => machine.0,
            LinkRef::Forward(at) | LinkRef::Backward(at) => (self.machines + at) as u32,
        })
    }
    /// The smaller rate of both directions of every cable: reservations are the same both ways.
    pub fn rates(&self, graph: &Graph) -> Vec<Bandwidth> {
        self.cables.iter().map(|(one, other)| graph.link(*one).rate.min(graph.link(*other).rate)).collect()
    }
    /// The layers above machines, the lowest first, each with its roots.
    pub(crate) fn layers(&self) -> &[Vec<Root>] {
        &self.layers
    }
    /// The links of a tree at a switch, away from its root.
    pub(crate) fn below(&self, root: Root, switch: SwitchId) -> &[Down] {
        match root {
            Root::Spanning(_) => &self.around[switch.index()],
            _ => &self.down[switch.index()],
        }
    }
    /// How many switches there are.
    pub(crate) fn switches(&self) -> usize {
        self.down.len()
    }
    /// The set of machines below a root that is a switch; `None` where it has all of them.
    pub(crate) fn set(&self, root: Root) -> Option<usize> {
        match root {
            Root::Switch(switch) => Some(self.set_of[switch.index()]),
            _ => None,
        }
    }
    /// The set of machines below a switch.
    pub(crate) fn set_of(&self, switch: SwitchId) -> usize {
        self.set_of[switch.index()]
    }
    /// Whether a switch has machines of its own.
    pub(crate) fn has_machines(&self, switch: SwitchId) -> bool {
        self.down[switch.index()].iter().any(|down| matches!(down.to, Node::Machine(_)))
    }
    /// The sets that a machine is in.
    pub(crate) fn sets_of(&self, machine: MachineId) -> &[u32] {
        &self.sets_of_machine[machine.index()]
    }
    /// How many sets of machines there are.
    pub(crate) fn sets(&self) -> usize {
        self.sets.len()
    }
    /// A number that switches with equal lists of children share.
    pub(crate) fn twins(&self, switch: SwitchId) -> u32 {
        self.twins[switch.index()]
    }

    /// The machines below every switch, each set once.
    fn find_sets(&mut self) {
        let mut known: BTreeMap<Vec<MachineId>, usize> = BTreeMap::new();
        let mut by_twin: BTreeMap<u32, usize> = BTreeMap::new();
        for switch in (0..self.down.len() as u32).map(SwitchId) {
            let set = match by_twin.get(&self.twins(switch)) {
                Some(set) => *set,
                None => {
                    let machines = self.machines_below(switch);
                    let next = known.len();
                    let set = *known.entry(machines).or_insert(next);
                    by_twin.insert(self.twins(switch), set);
                    set
                }
            };
            self.set_of[switch.index()] = set;
        }
        self.sets = vec![0; known.len()];
        for (machines, set) in known {
            self.sets[set] = machines.len();
            for machine in machines {
                self.sets_of_machine[machine.index()].push(set as u32);
            }
        }
    }

    /// The machines below a switch, ascending.
    fn machines_below(&self, switch: SwitchId) -> Vec<MachineId> {
        let mut seen = vec![false; self.down.len()];
        let (mut found, mut open) = (Vec::new(), vec![switch]);
        while let Some(switch) = open.pop() {
            for down in &self.down[switch.index()] {
                match down.to {
                    Node::Machine(machine) => found.push(machine),
                    Node::Switch(below) if !std::mem::replace(&mut seen[below.index()], true) => open.push(below),
                    Node::Switch(_) => {}
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// The layer of every switch that has machines below it.
    fn find_layers(&mut self) {
        let mut layer = vec![0; self.down.len()];
        let mut order: Vec<usize> = (0..self.down.len()).collect();
        let distance = distances(&self.around);
        order.sort_by_key(|at| distance[*at]);
        let mut layers: BTreeMap<usize, Vec<Root>> = BTreeMap::new();
        for at in order {
            let below = self.down[at].iter().map(|down| match down.to {
                Node::Machine(_) => 1,
                Node::Switch(switch) => layer[switch.index()] + 1,
            });
            layer[at] = below.max().unwrap_or(0);
            if self.sets[self.set_of[at]] > 0 {
                layers.entry(layer[at]).or_default().push(Root::Switch(SwitchId(at as u32)));
            }
        }
        self.layers = layers.into_values().collect();
        self.layers.iter_mut().for_each(|roots| roots.sort());
        if !self.sets.contains(&self.machines) {
            self.layers.push((0..self.down.len() as u32).map(|at| Root::Spanning(SwitchId(at))).collect());
        }
    }
}

/// By switch, the links to its nearest machine; a switch with machines of its own is at distance 1.
fn distances(around: &[Vec<Down>]) -> Vec<u32> {
    let has_machine = |links: &Vec<Down>| links.iter().any(|down| matches!(down.to, Node::Machine(_)));
    let mut distance = vec![u32::MAX; around.len()];
    let mut open: VecDeque<usize> = (0..around.len()).filter(|at| has_machine(&around[*at])).collect();
    open.iter().for_each(|at| distance[*at] = 1);
    while let Some(at) = open.pop_front() {
        for down in &around[at] {
            if let Node::Switch(next) = down.to
                && distance[next.index()] == u32::MAX
            {
                distance[next.index()] = distance[at] + 1;
                open.push_back(next.index());
            }
        }
    }
    distance
}

/// By switch, the links to machines and to switches that are nearer to machines, by the number of the far end.
fn downward(around: &[Vec<Down>]) -> Vec<Vec<Down>> {
    let distance = distances(around);
    let nearer = |at: usize, down: &Down| match down.to {
        Node::Machine(_) => true,
        Node::Switch(switch) => distance[switch.index()] < distance[at],
    };
    let kept = |at: usize| around[at].iter().copied().filter(move |down| nearer(at, down));
    (0..around.len())
        .map(|at| {
            let mut links: Vec<Down> = kept(at).collect();
            links.sort_by_key(|down| match down.to {
                Node::Machine(machine) => (0, machine.0, down.cable),
                Node::Switch(switch) => (1, switch.0, down.cable),
            });
            links
        })
        .collect()
}

/// Numbers of lists of children, equal lists alike.
fn twins(down: &[Vec<Down>]) -> Vec<u32> {
    let mut known = BTreeMap::new();
    down.iter()
        .map(|links| {
            let children: Vec<(u8, u32)> = links
                .iter()
                .map(|down| match down.to {
                    Node::Machine(machine) => (0, machine.0),
                    Node::Switch(switch) => (1, switch.0),
                })
                .collect();
            let next = known.len() as u32;
            *known.entry(children).or_insert(next)
        })
        .collect()
}
