//! [`Routes`]: the routes that confine a tenant to its tree.
//!
//! Problem: a tenant's reservations are on the links of one tree, and switches spread packets over all shortest paths
//! or take another one. Approach: at every switch of the tree and for each of its racks, the link of the tree is
//! compared with the links that begin a shortest path. Where these are not the same one, the switch needs a route for
//! the tenant's packets. Where the only shortest path is the tree's, it needs none.
//!
//! Example: two leaves below two spines, a tenant in the tree of `spine0` with virtual machines at both leaves. Each
//! leaf has two shortest paths to the other: each needs a route to `spine0`. At `spine0` one path leads to each leaf:
//! no route.
//!
//! Source: QShare §IV-A confines tenants to trees and leaves the routes open.

use crate::fabric::{Fabric, SwitchId};
use crate::fill::Fit;
use std::collections::{BTreeMap, HashMap, VecDeque};
use weir_network::graph::{Graph, LinkRef};
use weir_units::MachineId;

/// A route that a switch needs for one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The switch.
    pub switch: SwitchId,
    /// The tenant's machines that these packets go to, ascending.
    pub towards: Vec<MachineId>,
    /// The link of the tree.
    pub link: LinkRef,
    /// The links that begin a shortest path, ascending.
    pub instead_of: Vec<LinkRef>,
}

/// The shortest paths of a network, and the routes of tenants.
#[derive(Debug)]
pub struct Routes<'a> {
    graph: &'a Graph,
    fabric: &'a Fabric,
    /// By switch: its links to other switches, and those.
    around: Vec<Vec<(LinkRef, usize)>>,
    /// By switch that was a destination: the links from every switch to it.
    distances: HashMap<usize, Vec<u32>>,
}

impl<'a> Routes<'a> {
    /// Those of a network; `fabric` is the graph's.
    pub fn new(graph: &'a Graph, fabric: &'a Fabric) -> Self {
        let mut around = vec![Vec::new(); graph.switches.len()];
        for (at, cable) in graph.cables.iter().enumerate() {
            around[cable.a].push((LinkRef::Forward(at), cable.b));
            around[cable.b].push((LinkRef::Backward(at), cable.a));
        }
        Self { graph, fabric, around, distances: HashMap::new() }
    }

    /// The routes that a tenant needs, by switch; none where switches spread packets and reservations cover it.
    pub fn of(&mut self, fit: &Fit) -> Vec<Route> {
        if self.fabric.is_spread() {
            return Vec::new();
        }
        let mut leaves: BTreeMap<usize, Vec<MachineId>> = BTreeMap::new();
        for part in &fit.parts {
            leaves.entry(self.graph.hosts[part.machine.index()].switch).or_default().push(part.machine);
        }
        let tree = self.tree(fit);
        let mut found: BTreeMap<(usize, LinkRef, Vec<LinkRef>), Vec<MachineId>> = BTreeMap::new();
        for (leaf, machines) in &leaves {
            for (switch, link) in towards(&tree, *leaf) {
                let shortest = self.shortest(switch, *leaf);
                if shortest != [link] {
                    found.entry((switch, link, shortest)).or_default().extend(machines);
                }
            }
        }
        let route = |((switch, link, instead_of), mut towards): ((usize, LinkRef, Vec<LinkRef>), Vec<MachineId>)| {
            towards.sort_unstable();
            Route { switch: SwitchId(switch as u32), towards, link, instead_of }
        };
        found.into_iter().map(route).collect()
    }

    /// By switch of the tree: its links there.
    fn tree(&self, fit: &Fit) -> BTreeMap<usize, Vec<(LinkRef, usize)>> {
        let mut tree: BTreeMap<usize, Vec<(LinkRef, usize)>> = BTreeMap::new();
        for (cable, _) in &fit.reservations {
            let LinkRef::Forward(at) = self.fabric.links(*cable).0 else { continue };
            let cable = &self.graph.cables[at];
            tree.entry(cable.a).or_default().push((LinkRef::Forward(at), cable.b));
            tree.entry(cable.b).or_default().push((LinkRef::Backward(at), cable.a));
        }
        tree
    }

    /// The links of a switch that begin a shortest path to another one.
    fn shortest(&mut self, from: usize, to: usize) -> Vec<LinkRef> {
        let around = &self.around;
        let distance = self.distances.entry(to).or_insert_with(|| distances(around, to));
        let nearer = |(_, next): &&(LinkRef, usize)| distance[*next] < distance[from];
        let mut links: Vec<LinkRef> = around[from].iter().filter(nearer).map(|(link, _)| *link).collect();
        links.sort_unstable();
        links
    }
}

/// The links from every switch to one.
fn distances(around: &[Vec<(LinkRef, usize)>], to: usize) -> Vec<u32> {
    let mut distance = vec![u32::MAX; around.len()];
    distance[to] = 0;
    let mut open = VecDeque::from([to]);
    while let Some(at) = open.pop_front() {
        for (_, next) in &around[at] {
            if distance[*next] == u32::MAX {
                distance[*next] = distance[at] + 1;
                open.push_back(*next);
            }
        }
    }
    distance
}

/// By switch of a tree other than `leaf`: its link towards it.
fn towards(tree: &BTreeMap<usize, Vec<(LinkRef, usize)>>, leaf: usize) -> Vec<(usize, LinkRef)> {
    let mut found: BTreeMap<usize, LinkRef> = BTreeMap::new();
    let mut open = vec![leaf];
    while let Some(at) = open.pop() {
        for (link, next) in tree.get(&at).into_iter().flatten() {
            if *next != leaf && !found.contains_key(next) {
                found.insert(*next, opposite(*link));
                open.push(*next);
            }
        }
    }
    found.into_iter().collect()
}

/// The other direction of a link between switches.
fn opposite(link: LinkRef) -> LinkRef {
    match link {
        LinkRef::Forward(at) => LinkRef::Backward(at),
        LinkRef::Backward(at) => LinkRef::Forward(at),
        LinkRef::Up(machine) => LinkRef::Down(machine),
        LinkRef::Down(machine) => LinkRef::Up(machine),
    }
}
