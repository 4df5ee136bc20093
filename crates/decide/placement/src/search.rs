//! QShare's search: the cheapest tree of the lowest layer that has one.
//!
//! Approach: layer by layer, from single machines to the trees that reach all of them; a layer with a feasible tree
//! ends the search, and its tree of the least cost is chosen. Trees whose roots have the same children, and equally
//! much room on the links to them, are equal: only the first of them is evaluated.
//!
//! Cost. c_b is what the tenant reserves on all links together, c_q the most tenants of any of its links. QShare weighs
//! c_q more in an empty datacenter and c_b more in a full one, without a formula. Here with λ, the reserved part of all
//! links: λ · c_b / Σ capacity + (1 − λ) · c_q / queues of a port ([`Weighing::Load`]); its evaluation weighs c_q
//! more ([`Weighing::Queues`]). Equal costs: the lowest root.
//!
//! Source: QShare §IV, Algorithm 1, §VII-C1.

use crate::Shortage;
use crate::fabric::{Fabric, Root};
use crate::fill::{Fill, Fit, Part, Stuck};
use crate::hose::Hose;
use crate::ledger::Ledger;
use crate::possible;
use std::collections::HashSet;
use weir_units::MachineId;

/// The cost of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weighing {
    /// Tenants per link in an empty datacenter, reserved bandwidth in a full one.
    #[default]
    Load,
    /// Tenants per link, then bandwidth.
    Queues,
    /// Bandwidth, then tenants per link.
    Bandwidth,
}

/// Parts of λ.
const WHOLE: u128 = 1_000_000_000;

impl Weighing {
    fn cost(self, fit: &Fit, ledger: &Ledger, queues: u32) -> (u128, u128) {
        let (bandwidth, tenants) = (fit.bandwidth(), u128::from(fit.tenants(ledger)));
        match self {
            Self::Queues => (tenants, bandwidth),
            Self::Bandwidth => (bandwidth, tenants),
            Self::Load => {
                let (reserved, capacity) = ledger.reserved_of_all();
                let load = (reserved * WHOLE).checked_div(capacity).unwrap_or(WHOLE);
                (load * bandwidth * u128::from(queues) + (WHOLE - load) * tenants * capacity, 0)
            }
        }
    }
}

/// The place of a tenant.
///
/// # Errors
/// The resource that it lacks.
pub(crate) fn place(
    fill: &mut Fill,
    fabric: &Fabric,
    ledger: &Ledger,
    hose: &Hose,
    (weighing, queues): (Weighing, u32),
) -> Result<Fit, Shortage> {
    let per_machine = fill.walk.per_machine;
    if let Some(fit) = on_one_machine(ledger, hose, fabric.machines(), per_machine) {
        return Ok(fit);
    }
    let layers = fabric.layers().iter().map(Vec::as_slice);
    cheapest((fabric, ledger, hose), layers, (weighing, queues), |root| Some(fill.in_tree(fabric, ledger, root, hose)))
}

/// The cheapest tree of the first of these layers that has one. An attempt has no result for a tree that cannot be
/// tried.
///
/// # Errors
/// The resource that the tenant lacks in the tree with room for most of it.
fn cheapest<'a>(
    (fabric, ledger, hose): (&Fabric, &Ledger, &Hose),
    layers: impl IntoIterator<Item = &'a [Root]>,
    (weighing, queues): (Weighing, u32),
    mut attempt: impl FnMut(Root) -> Option<Result<Fit, Stuck>>,
) -> Result<Fit, Shortage> {
    let mut nearest = Nearest::default();
    for roots in layers {
        let mut evaluated = HashSet::new();
        let mut best: Option<((u128, u128), Fit)> = None;
        for &root in roots {
            if ledger.free_in(fabric.set(root)) < u64::from(hose.vms()) || !is_new(&mut evaluated, fabric, ledger, root)
            {
                continue;
            }
            match attempt(root) {
                Some(Ok(fit)) => {
                    let cost = weighing.cost(&fit, ledger, queues);
                    if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                        best = Some((cost, fit));
                    }
                }
                Some(Err(stuck)) => nearest.add(stuck),
                None => {}
            }
        }
        if let Some((_, fit)) = best {
            return Ok(fit);
        }
    }
    Err(Shortage::of(fabric, ledger, hose, nearest.0))
}

/// Of the trees that cannot have a tenant, the first of those with room for most of it.
#[derive(Debug, Default)]
struct Nearest(Option<Stuck>);

impl Nearest {
    fn add(&mut self, stuck: Stuck) {
        if self.0.is_none_or(|nearest| stuck.left < nearest.left) {
            self.0 = Some(stuck);
        }
    }
}

/// The place of a tenant of which `kept` has a part, whose virtual machines stay where they are; the ledger is that
/// without the tenant.
///
/// # Errors
/// The resource that it lacks.
pub(crate) fn grow(
    fill: &mut Fill,
    fabric: &Fabric,
    ledger: &Ledger,
    hose: &Hose,
    kept: &Fit,
    (weighing, queues): (Weighing, u32),
) -> Result<Fit, Shortage> {
    if let [part] = kept.parts.as_slice()
        && ledger.free(part.machine) >= hose.vms()
    {
        return Ok(whole_on(part.machine, hose));
    }
    // In its own tree its packets need no other routes.
    let own = [kept.root];
    let own = if matches!(kept.root, Root::Machine(_)) { &[][..] } else { &own };
    let layers = [own].into_iter().chain(fabric.layers().iter().map(Vec::as_slice));
    cheapest((fabric, ledger, hose), layers, (weighing, queues), |root| {
        fill.in_tree_beside(fabric, ledger, root, hose, &kept.parts)
    })
}

/// Whether no tree has room for a tenant, whatever the search.
pub(crate) fn rules_out(fill: &mut Fill, fabric: &Fabric, ledger: &Ledger, hose: &Hose) -> bool {
    // The largest trees first: they contain the smaller ones.
    for roots in fabric.layers().iter().rev() {
        let mut evaluated = HashSet::new();
        for &root in roots {
            if ledger.free_in(fabric.set(root)) < u64::from(hose.vms()) || !is_new(&mut evaluated, fabric, ledger, root)
            {
                continue;
            }
            fill.walk.start(fabric, Some(ledger), root);
            if possible::may_have(&fill.walk, hose) {
                return false;
            }
        }
    }
    true
}

/// The trees of a layer, as a search finds them for one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyLayer {
    /// Trees of the layer.
    pub trees: usize,
    /// Of these, trees with fewer free slots than the tenant has virtual machines.
    pub without_slots: usize,
    /// Trees with slots that lack bandwidth, or whose slots are at machines with full links.
    pub without_bandwidth: usize,
    /// The lack of the tree that has room for most of the tenant.
    pub nearest: Option<Shortage>,
    /// The trees that can have the tenant, the cheapest first; equal trees once.
    pub feasible: Vec<Fit>,
}

/// The layers from the lowest up to the first with a tree that can have the tenant.
pub(crate) fn survey(
    fill: &mut Fill,
    fabric: &Fabric,
    ledger: &Ledger,
    hose: &Hose,
    (weighing, queues): (Weighing, u32),
) -> Vec<SurveyLayer> {
    let mut surveyed = Vec::new();
    for roots in fabric.layers() {
        let mut evaluated = HashSet::new();
        let mut nearest = Nearest::default();
        let mut layer = SurveyLayer {
            trees: roots.len(),
            without_slots: 0,
            without_bandwidth: 0,
            nearest: None,
            feasible: Vec::new(),
        };
        for &root in roots {
            if ledger.free_in(fabric.set(root)) < u64::from(hose.vms()) {
                layer.without_slots += 1;
                continue;
            }
            if !is_new(&mut evaluated, fabric, ledger, root) {
                continue;
            }
            match fill.in_tree(fabric, ledger, root, hose) {
                Ok(fit) => layer.feasible.push(fit),
                Err(stuck) => {
                    layer.without_bandwidth += 1;
                    nearest.add(stuck);
                }
            }
        }
        layer.nearest = nearest.0.map(|stuck| Shortage::of(fabric, ledger, hose, Some(stuck)));
        // A stable sort: of equal ones the lowest root is first, as in the search.
        layer.feasible.sort_by_key(|fit| weighing.cost(fit, ledger, queues));
        let is_last = !layer.feasible.is_empty();
        surveyed.push(layer);
        if is_last {
            break;
        }
    }
    surveyed
}

/// The first tree that takes a tenant, from single machines upward.
///
/// # Errors
/// The resource that it lacks.
pub(crate) fn first(
    fabric: &Fabric,
    ledger: &Ledger,
    hose: &Hose,
    per_machine: Option<u32>,
    mut attempt: impl FnMut(Root) -> Result<Fit, Stuck>,
) -> Result<Fit, Shortage> {
    if let Some(fit) = on_one_machine(ledger, hose, fabric.machines(), per_machine) {
        return Ok(fit);
    }
    let mut nearest = Nearest::default();
    for &root in fabric.layers().iter().flatten() {
        if ledger.free_in(fabric.set(root)) < u64::from(hose.vms()) {
            continue;
        }
        match attempt(root) {
            Ok(fit) => return Ok(fit),
            Err(stuck) => nearest.add(stuck),
        }
    }
    Err(Shortage::of(fabric, ledger, hose, nearest.0))
}

/// The first machine that has slots for all: nothing crosses a link.
fn on_one_machine(ledger: &Ledger, hose: &Hose, machines: usize, per_machine: Option<u32>) -> Option<Fit> {
    if per_machine.is_some_and(|most| hose.vms() > most) {
        return None;
    }
    let mut ids = (0..machines as u32).map(MachineId);
    let machine = ids.find(|machine| ledger.free(*machine) >= hose.vms())?;
    Some(whole_on(machine, hose))
}

/// All of a tenant on one machine.
fn whole_on(machine: MachineId, hose: &Hose) -> Fit {
    let vms = hose.groups().iter().map(|group| group.vms).collect();
    Fit { root: Root::Machine(machine), parts: vec![Part { machine, vms }], reservations: Vec::new() }
}

/// Whether no equal tree has been evaluated.
fn is_new(evaluated: &mut HashSet<(u32, Vec<(u64, u32)>)>, fabric: &Fabric, ledger: &Ledger, root: Root) -> bool {
    let Root::Switch(switch) = root else { return true };
    let links = fabric.below(root, switch).iter();
    let room = links.map(|down| (ledger.available(down.cable), ledger.tenants(down.cable))).collect();
    evaluated.insert((fabric.twins(switch), room))
}
