//! The file of a placement: the tenants of a policy and the machines of their virtual machines.
//!
//! Problem: tenants arrive and depart over months, and those that stay must stay where they are. Approach: a file
//! has the places; what follows from them (reservations) is computed anew, so that a file and a policy cannot
//! disagree about it. A tenant that the policy does not have any more has departed. One whose virtual machines are
//! others now is refused: nothing moves by itself. One that has more of them has grown: [`read_to_continue`] gives
//! the places that the file has, [`read`] refuses it. Reservations and DSCP values in a file are for readers, but must
//! be those that follow (`compare`).
//!
//! Example: `{ "placement": 1, "tenants": [ { "tenant": "red", "tree": "leaf1", "vms": [ { "vm": "red-0", "machine":
//! "m1" } ] } ] }`. Other keys (`dscp`, `links`, `rejected`, `routes`) are for
//! readers.

mod compare;

use crate::fabric::{Fabric, Root, SwitchId};
use crate::fill::{Fit, Part};
use crate::hose::{Group, Hose};
use crate::ledger::Ledger;
use crate::placer::TenantPlace;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, List, Record, Shape};
use weir_document::{Diagnostic, Diagnostics, Node, Problems, Source, Span, check, tree};
use weir_network::graph::Graph;
use weir_policy::{Policy, Tenant};
use weir_units::MachineId;

/// Bytes of a file: a line for each of a million virtual machines.
pub const MAX_FILE: u64 = 100_000_000;

static NAME: Scalar = Scalar::Text { what: "a name" };
static VERSION: Scalar = Scalar::Words { what: "a version", words: &["1"] };
static VMS: List = List { what: "a list of virtual machines", item: Shape::Record(&VM), min: 0 };
static VM: Record = Record {
    id: "placed-vm",
    what: "a virtual machine",
    doc: "A virtual machine and its machine.",
    keys: &[
        Key::required("vm", Shape::Scalar(&NAME), "The virtual machine.", "vm: red-0"),
        Key::required("machine", Shape::Scalar(&NAME), "The machine that it is on.", "machine: m1"),
    ],
};
static TENANTS: List = List { what: "a list of tenants", item: Shape::Record(&TENANT), min: 0 };
static TENANT: Record = Record {
    id: "placed-tenant",
    what: "a tenant",
    doc: "A tenant and its place.",
    keys: &[
        Key::required("tenant", Shape::Scalar(&NAME), "The tenant.", "tenant: red"),
        Key::required(
            "tree",
            Shape::Scalar(&NAME),
            "The switch at the root of its tree, or its machine.",
            "tree: leaf1",
        ),
        Key::required("vms", Shape::List(&VMS), "Its virtual machines.", "vms: [ { vm: red-0, machine: m1 } ]"),
        Key::optional("dscp", Shape::Scalar(&DSCP), "Its DSCP value while it has queues.", "dscp: 10"),
        Key::optional(
            "links",
            Shape::List(&LINKS),
            "Its reservations.",
            "links: [ { link: m1->leaf1, reserved_bps: 100000000 } ]",
        ),
    ],
};
static DSCP: Scalar = Scalar::Integer { what: "a DSCP value", min: 0, max: 63 };
static BPS: Scalar = Scalar::Integer { what: "a number of bits per second", min: 0, max: i64::MAX as i128 };
static LINKS: List = List { what: "a list of links", item: Shape::Record(&LINK), min: 0 };
static LINK: Record = Record {
    id: "placed-link",
    what: "a link",
    doc: "A link with a reservation.",
    keys: &[
        Key::required("link", Shape::Scalar(&NAME), "The link.", "link: m1->leaf1"),
        Key::required("reserved_bps", Shape::Scalar(&BPS), "The reservation.", "reserved_bps: 100000000"),
    ],
};
static REJECTED: List = List { what: "a list of tenants", item: Shape::Record(&REFUSAL), min: 0 };
static REFUSAL: Record = Record {
    id: "rejected-tenant",
    what: "a tenant without a place",
    doc: "A tenant that found no place, and the resource that it lacks.",
    keys: &[
        Key::required("tenant", Shape::Scalar(&NAME), "The tenant.", "tenant: blue"),
        Key::required("reason", Shape::Scalar(&NAME), "The resource.", "reason: slots"),
        Key::optional("missing", Shape::Scalar(&BPS), "The lack: slots, or bit/s.", "missing: 3"),
        Key::optional("link", Shape::Scalar(&NAME), "The link.", "link: m1->leaf1"),
        Key::optional("left", Shape::Scalar(&BPS), "Virtual machines that found no place.", "left: 2"),
    ],
};
static NAMES: List = List { what: "a list of names", item: Shape::Scalar(&NAME), min: 0 };
static ROUTES: List = List { what: "a list of routes", item: Shape::Record(&ROUTE), min: 0 };
static ROUTE: Record = Record {
    id: "tenant-route",
    what: "a route",
    doc: "A route that a switch needs for a tenant's packets, so that they stay in the tenant's tree.",
    keys: &[
        Key::required("switch", Shape::Scalar(&NAME), "The switch.", "switch: leaf0"),
        Key::required("tenant", Shape::Scalar(&NAME), "The tenant.", "tenant: red"),
        Key::optional("packets", Shape::List(&NAMES), "The tenant's filters.", "packets: [ vni 5001 ]"),
        Key::required("to", Shape::List(&NAMES), "The machines of the destinations.", "to: [ m3 ]"),
        Key::required("by", Shape::Scalar(&NAME), "The next switch.", "by: spine0"),
        Key::optional(
            "instead_of",
            Shape::List(&NAMES),
            "The next switches of the shortest paths.",
            "instead_of: [ spine0, spine1 ]",
        ),
    ],
};
/// The whole file.
pub static PLACEMENT: Record = Record {
    id: "placement",
    what: "a placement",
    doc: "The machines of tenants' virtual machines.",
    keys: &[
        Key::required("placement", Shape::Scalar(&VERSION), "The version of this format.", "placement: 1"),
        Key::required("tenants", Shape::List(&TENANTS), "The tenants.", "tenants: []"),
        Key::optional("rejected", Shape::List(&REJECTED), "Tenants without a place.", "rejected: []"),
        Key::optional("routes", Shape::List(&ROUTES), "Routes that confine tenants to their trees.", "routes: []"),
    ],
};

/// The hose of a tenant of a policy.
pub fn hose(tenant: &Tenant) -> Hose {
    Hose::new(tenant.groups.iter().map(|group| Group { vms: group.vms, bandwidth: group.bandwidth }).collect())
}

/// A tenant of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// The tenant's name.
    pub tenant: String,
    /// The place of the virtual machines that the file has, with the groups of the policy.
    pub placed: TenantPlace,
    /// By group: the numbers of these virtual machines, ascending, with their machines.
    pub vms: Vec<Vec<(u32, MachineId)>>,
    /// The DSCP value in the file.
    pub dscp: Option<u8>,
}

/// The places of those tenants of a policy that a file has, in the file's order. `graph` and `fabric` are the policy's.
///
/// # Errors
/// Texts that are no placement; machines and trees that the network does not have; a tenant whose virtual machines are
/// not those of the policy; tenants that together need more slots or bandwidth than the policy leaves them;
/// reservations other than those of the places; DSCP values that tenants cannot have, or that two have on a common link
/// (with one map for each switch, at a common switch).
pub fn read(
    source: &Arc<Source>,
    policy: &Policy,
    graph: &Graph,
    fabric: &Fabric,
) -> Result<Vec<(String, TenantPlace)>, Diagnostics> {
    let (entries, _) = entries(source, policy, graph, fabric, Growth::Refused)?;
    Ok(entries.into_iter().map(|entry| (entry.tenant, entry.placed)).collect())
}

/// The same for another placement that begins with this one: a tenant may have more virtual machines in the policy
/// than in the file. Reservations and DSCP values that differ are remarks, since the placement that continues has new
/// ones.
///
/// # Errors
/// As [`read`], but for virtual machines that the file does not have and for what is remarked on.
pub fn read_to_continue(
    source: &Arc<Source>,
    policy: &Policy,
    graph: &Graph,
    fabric: &Fabric,
) -> Result<(Vec<FileEntry>, Vec<Diagnostic>), Diagnostics> {
    entries(source, policy, graph, fabric, Growth::Allowed)
}

/// Tenants with more virtual machines than the file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Refused,
    Allowed,
}

fn entries(
    source: &Arc<Source>,
    policy: &Policy,
    graph: &Graph,
    fabric: &Fabric,
    growth: Growth,
) -> Result<(Vec<FileEntry>, Vec<Diagnostic>), Diagnostics> {
    let mut problems = Problems::new(source);
    let root = tree::parse(source, &mut problems);
    let places = root.as_ref().map(|root| {
        check::check(root, &Shape::Record(&PLACEMENT), &mut problems);
        let mut reader = Reader::new(policy, graph, fabric, growth, &mut problems);
        let tenants = root.get("tenants").map_or(&[][..], Node::items);
        let places: Vec<_> = tenants.iter().filter_map(|node| Some((reader.tenant(node)?, node))).collect();
        reader.fits(&places, policy, graph);
        reader.compare(&places, policy, graph);
        places.into_iter().map(|(entry, _)| entry).collect::<Vec<_>>()
    });
    let (places, notes) = problems.finish(places)?;
    Ok((places.unwrap_or_default(), notes))
}

struct Reader<'a> {
    tenants: HashMap<&'a str, &'a Tenant>,
    machines: HashMap<&'a str, MachineId>,
    switches: HashMap<&'a str, SwitchId>,
    fabric: &'a Fabric,
    growth: Growth,
    seen: BTreeMap<String, Span>,
    problems: &'a mut Problems,
}

impl<'a> Reader<'a> {
    fn new(
        policy: &'a Policy,
        graph: &'a Graph,
        fabric: &'a Fabric,
        growth: Growth,
        problems: &'a mut Problems,
    ) -> Self {
        let machines = (0..).map(MachineId).zip(&graph.hosts).map(|(id, host)| (host.name.as_str(), id));
        let switches = (0..).map(SwitchId).zip(&graph.switches).map(|(id, name)| (name.as_str(), id));
        Self {
            tenants: policy.tenants().iter().map(|tenant| (tenant.name.as_str(), tenant)).collect(),
            machines: machines.collect(),
            switches: switches.collect(),
            fabric,
            growth,
            seen: BTreeMap::new(),
            problems,
        }
    }

    /// Reports tenants that do not fit beside those before them.
    fn fits(&mut self, places: &[(FileEntry, &Node)], policy: &Policy, graph: &Graph) {
        let mut ledger = Ledger::of_policy(policy, graph, self.fabric);
        for (FileEntry { tenant: name, placed, .. }, node) in places {
            match ledger.fits(&placed.fit) {
                Ok(()) => ledger.settle(self.fabric, &placed.fit),
                Err(shortage) => {
                    let lacking = shortage.text(|cable| graph.link_name(self.fabric.links(cable).0));
                    self.problems.error(
                        node.get("tenant").map_or(node.span, |name| name.span),
                        format!("tenant `{name}` does not fit any more: {lacking}"),
                        "the policy leaves tenants less than before: place all tenants anew (`weir place \
                         --rebalance`), or this one by removing it from the file",
                    );
                }
            }
        }
    }

    /// A tenant's place; `None` if the policy does not have the tenant, the file lists
    /// none of its virtual machines, or something was reported.
    fn tenant(&mut self, node: &Node) -> Option<FileEntry> {
        let name = node.get("tenant")?;
        let text = name.scalar()?;
        if let Some(first) = self.seen.insert(text.to_owned(), name.span) {
            let cause = format!("tenant `{text}` is listed twice");
            self.problems.error_with(name.span, cause, "keep one of them", (first, "first here"));
            return None;
        }
        let tenant = *self.tenants.get(text)?;
        let vms = self.vms(node, tenant)?;
        let parts = parts(&vms);
        if parts.is_empty() {
            return None;
        }
        let groups = tenant.groups.iter().zip(&vms);
        let hose =
            Hose::new(groups.map(|(of, vms)| Group { vms: vms.len() as u32, bandwidth: of.bandwidth }).collect());
        let tree = node.get("tree")?;
        let roots = match (self.machines.get(tree.scalar()?), self.switches.get(tree.scalar()?)) {
            (Some(machine), _) => vec![Root::Machine(*machine)],
            (None, Some(switch)) if self.fabric.is_spanning() => vec![Root::Switch(*switch), Root::Spanning(*switch)],
            (None, Some(switch)) => vec![Root::Switch(*switch)],
            (None, None) => Vec::new(),
        };
        let fits = roots.into_iter().find_map(|root| Fit::in_place(self.fabric, root, parts.clone(), &hose));
        if fits.is_none() {
            self.problems.error(
                tree.span,
                format!("the tree of `{text}` does not have all of its machines"),
                "name the switch above them all, or remove the tenant from the file to place it anew",
            );
        }
        let dscp = node.get("dscp").and_then(|dscp| dscp.scalar()?.parse().ok());
        Some(FileEntry { tenant: text.to_owned(), placed: TenantPlace { fit: fits?, hose }, vms, dscp })
    }

    /// By group, the numbers and machines of a tenant's virtual machines, which are those of the policy.
    fn vms(&mut self, node: &Node, tenant: &Tenant) -> Option<Vec<Vec<(u32, MachineId)>>> {
        let mut expected: HashMap<String, (usize, u32)> = HashMap::new();
        for (group, of) in tenant.groups.iter().enumerate() {
            expected.extend((0..of.vms).map(|number| (tenant.vm_name(group, number), (group, number))));
        }
        let mut vms = vec![Vec::new(); tenant.groups.len()];
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for item in node.get("vms").map_or(&[][..], Node::items) {
            let (vm, machine) = (item.get("vm")?, item.get("machine")?);
            if let Some(first) = seen.insert(vm.scalar()?, vm.span) {
                let cause = format!("virtual machine `{}` is listed twice", vm.scalar()?);
                self.problems.error_with(vm.span, cause, "keep one of them", (first, "first here"));
                return None;
            }
            let Some((group, number)) = expected.remove(vm.scalar()?) else {
                let cause = format!("`{}` is not a virtual machine of tenant `{}`", vm.scalar()?, tenant.name);
                let hint = "remove the lines of those that have ended, or the whole tenant to place it anew";
                self.problems.error(vm.span, cause, hint);
                return None;
            };
            let Some(id) = self.machines.get(machine.scalar()?) else {
                let cause = format!("the network has no machine `{}`", machine.scalar()?);
                self.problems.error(machine.span, cause, "remove the tenant from the file to place it anew");
                return None;
            };
            vms[group].push((number, *id));
        }
        if !expected.is_empty() && self.growth == Growth::Refused {
            let first = expected.keys().min()?;
            let cause = format!("tenant `{}` has virtual machines without a machine, such as `{first}`", tenant.name);
            let hint = "`weir place --placed` places them beside those that the file has; where it finds no room for \
                        them, give the tenant as many as the file has";
            self.problems.error(node.get("vms")?.span, cause, hint);
            return None;
        }
        vms.iter_mut().for_each(|group| group.sort_unstable());
        Some(vms)
    }
}

/// The machines of virtual machines, ascending.
fn parts(vms: &[Vec<(u32, MachineId)>]) -> Vec<Part> {
    let mut parts: BTreeMap<MachineId, Vec<u32>> = BTreeMap::new();
    for (group, of) in vms.iter().enumerate() {
        for (_, machine) in of {
            parts.entry(*machine).or_insert_with(|| vec![0; vms.len()])[group] += 1;
        }
    }
    parts.into_iter().map(|(machine, vms)| Part { machine, vms }).collect()
}
