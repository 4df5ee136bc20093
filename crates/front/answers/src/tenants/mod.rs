//! Tenants before anything runs: what their network leaves them, where they are, and what is still to be configured.
//!
//! Problem: `check`, `explain` and `place` have the same links, queues and routes. Approach: one [`Places`], the places
//! of all tenants of a policy beside its services, from a file, from a placement that is made for the occasion, or
//! both.
//!
//! | module | does |
//! |---|---|
//! | `admit` | refuses tenants that no placement can have |
//! | `links` | the division of links among levels, services and tenants |
//! | `queues` | the queues of ports |
//! | `routes` | the routes that confine tenants to their trees |

pub mod admit;
pub mod links;
pub mod queues;
pub mod routes;

use crate::text;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_document::{Diagnostic, Diagnostics, Source};
use weir_network::Graph;
use weir_placement::file::FileEntry;
use weir_placement::{CableRoom, Fabric, Fit, Ledger, Placer, Shortage, Strategy, arrivals, file, rooms};
use weir_policy::{Policy, Tenant, TenantPaths};
use weir_units::Bandwidth;

/// The order in which new tenants arrive, so which of them finds what others leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By their requests ([`arrivals`]), whatever their names are.
    #[default]
    Payment,
    /// By name.
    Names,
}

/// A tenant without a place, or without one for all of its virtual machines.
pub struct Rejection {
    /// The tenant.
    pub name: String,
    /// The resource that it lacks.
    pub shortage: Shortage,
    /// The link that lacks bandwidth.
    pub link: Option<String>,
    /// Its virtual machines that have a place from before.
    pub kept: u32,
}

impl Rejection {
    fn new(name: &str, shortage: Shortage, places: &Places) -> Self {
        let kept = places.placer.placed().get(name).map_or(0, |placed| placed.hose.vms());
        Self { name: name.to_owned(), shortage, link: places.link_of(shortage), kept }
    }

    /// The resource that it lacks, with the link.
    pub fn reason(&self) -> String {
        let lack = self.shortage.text(|_| self.link.clone().unwrap_or_default());
        match self.kept {
            0 => lack,
            1 => format!("1 virtual machine stays where it is, but for more {lack}"),
            kept => format!("{kept} virtual machines stay where they are, but for more {lack}"),
        }
    }
}

/// The progress of a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrivals {
    /// New tenants that were placed or rejected.
    pub tried: usize,
    /// All new tenants.
    pub all: usize,
}

impl Arrivals {
    /// The finished part, 0 to 1.
    pub fn done(self) -> f64 {
        if self.all == 0 { 1.0 } else { self.tried as f64 / self.all as f64 }
    }
}

/// Called before each tenant is placed; `Break` ends the placement there.
pub type OnArrival<'a> = &'a mut dyn FnMut(Arrivals) -> ControlFlow<()>;

/// The places of a policy's tenants.
pub struct Places {
    /// The network.
    pub graph: Arc<Graph>,
    /// The division of each cable among levels, credits, services and tenants.
    pub rooms: Vec<CableRoom>,
    /// The tenants that have a place, and what is reserved for them.
    pub placer: Placer,
    /// The tenants that have none, or not for all of their virtual machines.
    pub rejected: Vec<Rejection>,
    /// Tenants whose places come from a file.
    pub kept: BTreeMap<String, FileEntry>,
    /// Tenants that were placed now.
    arrived: usize,
    /// Tenants that were not tried since the caller ended the placement.
    pub untried: usize,
    file: Option<PathBuf>,
}

impl Places {
    /// A policy's network without tenants.
    pub fn new(policy: &Policy, strategy: Strategy) -> Self {
        let graph = policy.graph();
        let fabric = Arc::new(Fabric::of_policy(policy, &graph));
        let ledger = Ledger::of_policy(policy, &graph, &fabric);
        let queues = policy.network().offer().map_or(8, |offer| offer.queues);
        let rooms = rooms(policy, &graph, &fabric);
        let placer = Placer::new(fabric, ledger, strategy, queues.into());
        Self { graph, rooms, placer, rejected: Vec::new(), kept: BTreeMap::new(), arrived: 0, untried: 0, file: None }
    }

    /// Takes over the tenants of an earlier placement; returns remarks on what the next one changes in its file.
    ///
    /// # Errors
    /// A file that does not match the policy, or whose tenants do not fit any more.
    pub fn adopt(&mut self, path: &Path, policy: &Policy) -> Result<Vec<Diagnostic>, Diagnostics> {
        let source = Source::read(path, file::MAX_FILE)?;
        let (entries, notes) = file::read_to_continue(&source, policy, &self.graph, self.placer.fabric())?;
        self.keep(entries.into_iter().map(|entry| (entry.tenant.clone(), entry)).collect());
        self.file = Some(path.to_owned());
        Ok(notes)
    }

    fn keep(&mut self, entries: BTreeMap<String, FileEntry>) {
        for (name, entry) in &entries {
            self.placer.adopt(name, entry.placed.clone()).expect("a file that was read fits its policy");
        }
        self.kept = entries;
    }

    /// The tenants of this placement's file, and all others in another order or by another search.
    pub fn anew(&self, policy: &Policy, order: Order, strategy: Strategy) -> Self {
        let mut places = Self::new(policy, strategy);
        places.keep(self.kept.clone());
        places.arrive(policy, order, &mut |_| ControlFlow::Continue(()));
        places
    }

    /// Places the tenants that have no place yet, and the virtual machines that others have in addition, in this order.
    pub fn arrive(&mut self, policy: &Policy, order: Order, on_arrival: OnArrival<'_>) {
        let new = self.new_tenants(policy, order);
        for (tried, tenant) in new.iter().enumerate() {
            if on_arrival(Arrivals { tried, all: new.len() }).is_break() {
                self.untried = new.len() - tried;
                return;
            }
            let hose = file::hose(tenant);
            let arrived = match self.placer.placed().contains_key(&tenant.name) {
                true => self.placer.grow(&tenant.name, hose).map(drop),
                false => self.placer.arrive(&tenant.name, hose).map(drop),
            };
            match arrived {
                Ok(()) => self.arrived += 1,
                Err(shortage) => {
                    let rejected = Rejection::new(&tenant.name, shortage, self);
                    self.rejected.push(rejected);
                }
            }
        }
    }

    /// The tenants that have no place for all of their virtual machines.
    fn new_tenants<'a>(&self, policy: &'a Policy, order: Order) -> Vec<&'a Tenant> {
        let placed = |tenant: &Tenant| self.placer.placed().get(&tenant.name).map_or(0, |placed| placed.hose.vms());
        let mut new: Vec<_> = policy.tenants().iter().filter(|tenant| placed(tenant) < tenant.vms()).collect();
        if order == Order::Names {
            return new;
        }
        // Tenants with equal requests differ only by the places of those virtual machines that have one.
        let parts = |tenant: &Tenant| {
            let parts = self.placer.placed().get(&tenant.name).map_or(&[][..], |placed| &placed.fit.parts);
            parts.iter().map(|part| (part.machine, part.vms.clone())).collect::<Vec<_>>()
        };
        new.sort_by_cached_key(|tenant| parts(tenant));
        let hoses: Vec<_> = new.iter().map(|tenant| file::hose(tenant)).collect();
        arrivals(&hoses).into_iter().map(|at| new[at]).collect()
    }

    /// The link that lacks bandwidth.
    fn link_of(&self, shortage: Shortage) -> Option<String> {
        match shortage {
            Shortage::Bandwidth { cable, .. } => Some(links::name(self, cable)),
            Shortage::Slots { .. } | Shortage::Groups => None,
        }
    }

    /// The origin of the places, for a heading.
    pub fn origin(&self) -> String {
        match (&self.file, self.arrived) {
            (Some(path), 0) => format!("places of `{}`", path.display()),
            (Some(path), more) => format!("places of `{}`, and {more} more as `weir place` finds them", path.display()),
            (None, _) => "places as `weir place` finds them for all tenants at once".to_owned(),
        }
    }

    /// The file of the places, for programs; `None` without one.
    pub fn file_name(&self) -> Option<String> {
        self.file.as_ref().map(|path| path.display().to_string())
    }
}

/// The value of `paths:`, or `unstated`.
pub fn paths_name(policy: &Policy) -> &'static str {
    match policy.tenant_queues().paths {
        TenantPaths::Unstated => "unstated",
        TenantPaths::Routed => "routed",
        TenantPaths::Spread => "spread",
    }
}

/// The cost of reservations on all equal paths, as a sentence.
pub fn spread_cost(places: &Places) -> String {
    let trees = Fabric::new(&places.graph);
    let (mut spread, mut confined) = (0u128, 0u128);
    for placed in places.placer.placed().values() {
        let tree = Fit::in_place(&trees, placed.fit.root, placed.fit.parts.clone(), &placed.hose);
        spread += placed.fit.bandwidth();
        confined += tree.map_or(0, |tree| tree.bandwidth());
    }
    let rate = |bps: u128| text::rate(Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)));
    format!(
        "Packets are spread over equal paths, so each tenant reserves in full on all of them: {} on all links, where \
         the same places in one tree for each tenant would need {}.",
        rate(spread),
        rate(confined)
    )
}
