//! Tenants before anything runs: what their network leaves them, where they are, and what is still to be configured.
//!
//! Problem: `weir check`, `weir explain` and `weir place` show the same links, queues and routes. Approach: one
//! [`Plan`], the places of all tenants of a policy beside its services, from a file, from a placement that is made for
//! the occasion, or both.
//!
//! | module | does |
//! |---|---|
//! | `admit` | refuses tenants that no placement can have |
//! | `links` | the division of links among levels, services and tenants |
//! | `queues` | the queues of ports |
//! | `routes` | the routes that confine tenants to their trees |

pub(crate) mod admit;
pub(crate) mod links;
pub(crate) mod queues;
pub(crate) mod routes;

use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::output::Ui;
use crate::progress::{self, Watch};
use crate::text;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_document::{Diagnostic, Source};
use weir_network::Graph;
use weir_placement::file::FileEntry;
use weir_placement::{CableRoom, Fabric, Fit, Ledger, Placer, Shortage, Strategy, arrivals, file, rooms};
use weir_policy::{Policy, Tenant, TenantPaths};
use weir_units::Bandwidth;

/// The order in which new tenants arrive, so which of them finds what others leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Order {
    /// By their requests ([`arrivals`]), whatever their names are.
    #[default]
    Payment,
    /// By name.
    Names,
}

/// A tenant without a place, or without one for all of its virtual machines.
pub(crate) struct Rejection {
    pub(crate) name: String,
    pub(crate) shortage: Shortage,
    /// The link that lacks bandwidth.
    pub(crate) link: Option<String>,
    /// Its virtual machines that have a place from before.
    pub(crate) kept: u32,
}

impl Rejection {
    fn new(name: &str, shortage: Shortage, plan: &Plan) -> Self {
        let kept = plan.placer.placed().get(name).map_or(0, |placed| placed.hose.vms());
        Self { name: name.to_owned(), shortage, link: plan.link_of(shortage), kept }
    }

    /// The resource that it lacks, with the link.
    pub(crate) fn reason(&self) -> String {
        let lack = self.shortage.text(|_| self.link.clone().unwrap_or_default());
        match self.kept {
            0 => lack,
            1 => format!("1 virtual machine stays where it is, but for more {lack}"),
            kept => format!("{kept} virtual machines stay where they are, but for more {lack}"),
        }
    }
}

/// The places of a policy's tenants.
pub(crate) struct Plan {
    pub(crate) graph: Arc<Graph>,
    pub(crate) rooms: Vec<CableRoom>,
    pub(crate) placer: Placer,
    pub(crate) rejected: Vec<Rejection>,
    /// Tenants whose places come from a file.
    pub(crate) kept: BTreeMap<String, FileEntry>,
    /// Tenants that were placed now.
    arrived: usize,
    /// Tenants that were not placed since the user ended the command.
    pub(crate) untried: usize,
    file: Option<PathBuf>,
}

impl Plan {
    /// A policy's network without tenants.
    pub(crate) fn new(policy: &Policy, strategy: Strategy) -> Self {
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
    pub(crate) fn adopt(&mut self, path: &Path, policy: &Policy) -> Result<Vec<Diagnostic>, CommandError> {
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

    /// The tenants of this plan's file, and all others in another order or by another search.
    pub(crate) fn anew(&self, policy: &Policy, order: Order, strategy: Strategy) -> Self {
        let mut plan = Self::new(policy, strategy);
        plan.keep(self.kept.clone());
        plan.arrive(policy, order, |_, _| true);
        plan
    }

    /// Places the tenants that have no place yet, and the virtual machines that others have in addition, in this order.
    /// `go_on` gets the finished part, 0 to 1, and the tenants so far; the others are not placed after it has returned
    /// `false`.
    pub(crate) fn arrive(&mut self, policy: &Policy, order: Order, mut go_on: impl FnMut(f64, usize) -> bool) {
        let new = self.new_tenants(policy, order);
        for (at, tenant) in new.iter().enumerate() {
            if !go_on(at as f64 / new.len() as f64, at) {
                self.untried = new.len() - at;
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

    /// The same with the progress on the terminal. A request to stop ends it between two tenants.
    pub(crate) fn arrive_watched(&mut self, policy: &Policy, order: Order, interrupt: Option<&Interrupt>, ui: &mut Ui) {
        let mut watch = Watch::new(ui.err_is_terminal());
        let all = self.new_tenants(policy, order).len();
        self.arrive(policy, order, |done, count| {
            watch.show(done, ui, |elapsed| {
                let left = progress::left(done, elapsed)
                    .map_or(String::new(), |left| format!("{} left; ", progress::wall(left)));
                format!("{left}placed {} of {} tenants", text::whole(count as u64), text::whole(all as u64))
            });
            !interrupt.is_some_and(Interrupt::is_requested)
        });
        watch.finish();
    }

    /// The link that lacks bandwidth.
    pub(crate) fn link_of(&self, shortage: Shortage) -> Option<String> {
        match shortage {
            Shortage::Bandwidth { cable, .. } => Some(links::name(self, cable)),
            Shortage::Slots { .. } | Shortage::Groups => None,
        }
    }

    /// The origin of the places, for a heading.
    pub(crate) fn origin(&self) -> String {
        match (&self.file, self.arrived) {
            (Some(path), 0) => format!("places of `{}`", path.display()),
            (Some(path), more) => format!("places of `{}`, and {more} more as `weir place` finds them", path.display()),
            (None, _) => "places as `weir place` finds them for all tenants at once".to_owned(),
        }
    }

    /// The file of the places, for programs; `None` without one.
    pub(crate) fn file_name(&self) -> Option<String> {
        self.file.as_ref().map(|path| path.display().to_string())
    }
}

/// The value of `paths:`, or `unstated`.
pub(crate) fn paths_name(policy: &Policy) -> &'static str {
    match policy.tenant_queues().paths {
        TenantPaths::Unstated => "unstated",
        TenantPaths::Routed => "routed",
        TenantPaths::Spread => "spread",
    }
}

/// The cost of reservations on all equal paths, as a sentence.
pub(crate) fn spread_cost(plan: &Plan) -> String {
    let trees = Fabric::new(&plan.graph);
    let (mut spread, mut confined) = (0u128, 0u128);
    for placed in plan.placer.placed().values() {
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
