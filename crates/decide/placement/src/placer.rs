//! [`Placer`]: tenants that arrive and depart.

use crate::fabric::{CableId, Fabric, Root};
use crate::fill::{Fill, Fit, Part, Stuck};
use crate::hose::Hose;
use crate::ledger::Ledger;
use crate::search::{SurveyLayer, Weighing};
use crate::{first_fit, oktopus, search};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use weir_units::Bandwidth;

/// A search for the place of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The cheapest tree of the lowest layer (QShare §IV).
    QShare(Weighing),
    /// The first tree that can have it, its machines filled in order.
    FirstFit,
    /// The first subtree that can have it, filled child by child (Oktopus).
    Oktopus,
}

impl Default for Strategy {
    fn default() -> Self {
        Self::QShare(Weighing::default())
    }
}

/// The resource that a tenant lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// So many slots are missing.
    Slots {
        /// How many.
        missing: u64,
    },
    /// The tree with room for most of it lacks bandwidth of a cable.
    Bandwidth {
        /// The cable that lacks the least.
        cable: CableId,
        /// Its missing bandwidth for one more virtual machine.
        missing: Bandwidth,
        /// Virtual machines that found no place in that tree.
        left: u32,
    },
    /// Its virtual machines have different bandwidths, for which the strategy is not defined.
    Groups,
}

impl Shortage {
    pub(crate) fn of(fabric: &Fabric, ledger: &Ledger, hose: &Hose, nearest: Option<Stuck>) -> Self {
        let missing = u64::from(hose.vms()).saturating_sub(ledger.slots().0);
        match nearest {
            _ if missing > 0 => Self::Slots { missing },
            Some(Stuck { left, cable: Some((cable, missing)) }) => Self::Bandwidth { cable, missing, left },
            Some(Stuck { left, cable: None }) => Self::Slots { missing: left.into() },
            // No tree has enough slots, though all machines together do.
            None => {
                let most = fabric.layers().iter().flatten().map(|root| ledger.free_in(fabric.set(*root))).max();
                Self::Slots { missing: u64::from(hose.vms()).saturating_sub(most.unwrap_or(0)).max(1) }
            }
        }
    }

    /// The resource and its lack in words, with the name of the link.
    pub fn text(&self, link: impl Fn(CableId) -> String) -> String {
        match self {
            Self::Slots { missing: 1 } => "1 slot is missing".to_owned(),
            Self::Slots { missing } => format!("{missing} slots are missing"),
            Self::Bandwidth { cable, missing, left: 0 } => format!("{} lacks {missing}", link(*cable)),
            Self::Bandwidth { cable, missing, left } => {
                let machines =
                    if *left == 1 { "1 virtual machine finds" } else { &format!("{left} virtual machines find") };
                format!("{machines} no place; the nearest link, {}, lacks {missing} for the next one", link(*cable))
            }
            Self::Groups => "its virtual machines have different bandwidths".to_owned(),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(|cable| format!("number {}", cable.0)))
    }
}

impl std::error::Error for Shortage {}

/// A tenant and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantPlace {
    /// Its request.
    pub hose: Hose,
    /// Its place.
    pub fit: Fit,
}

/// Tenants in a network.
#[derive(Debug)]
pub struct Placer {
    fabric: Arc<Fabric>,
    ledger: Ledger,
    strategy: Strategy,
    /// Queues of a port, for [`Weighing::Load`].
    queues: u32,
    fill: Fill,
    placed: BTreeMap<String, TenantPlace>,
}

impl Placer {
    /// A network without tenants, whose ports have `queues` queues.
    pub fn new(fabric: Arc<Fabric>, ledger: Ledger, strategy: Strategy, queues: u32) -> Self {
        Self { fabric, ledger, strategy, queues, fill: Fill::default(), placed: BTreeMap::new() }
    }

    /// The trees.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }
    /// Free bandwidth and slots.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
    /// The tenants by name.
    pub fn placed(&self) -> &BTreeMap<String, TenantPlace> {
        &self.placed
    }

    /// Places a tenant.
    ///
    /// # Errors
    /// The resource that it lacks; nothing has changed then.
    ///
    /// # Panics
    /// If a tenant of this name is placed already.
    pub fn arrive(&mut self, name: &str, hose: Hose) -> Result<&TenantPlace, Shortage> {
        self.place(name, hose, None)
    }

    /// Places a tenant with at most `per_machine` virtual machines on one machine.
    ///
    /// # Errors
    /// The resource that it lacks; nothing has changed then.
    ///
    /// # Panics
    /// If a tenant of this name is placed already.
    pub fn arrive_spread(&mut self, name: &str, hose: Hose, per_machine: u32) -> Result<&TenantPlace, Shortage> {
        self.place(name, hose, Some(per_machine))
    }

    fn place(&mut self, name: &str, hose: Hose, per_machine: Option<u32>) -> Result<&TenantPlace, Shortage> {
        self.fill.walk.per_machine = per_machine;
        let (fill, fabric, ledger) = (&mut self.fill, &self.fabric, &self.ledger);
        let fit = match self.strategy {
            Strategy::QShare(weighing) => search::place(fill, fabric, ledger, &hose, (weighing, self.queues)),
            Strategy::FirstFit => first_fit::place(fill, fabric, ledger, &hose),
            Strategy::Oktopus => oktopus::place(fill, fabric, ledger, &hose),
        }?;
        Ok(self.settle(name, TenantPlace { hose, fit }))
    }

    /// Places the virtual machines that a tenant has in addition to those with a place, which stay where they are.
    /// `hose` is the whole tenant, with the groups that it had. The tenant stays in its tree if that has room, or is in
    /// the cheapest tree of the lowest layer otherwise, by QShare's search under any strategy.
    ///
    /// # Errors
    /// The resource that it lacks; nothing has changed then.
    ///
    /// # Panics
    /// If no tenant of this name is placed, or it has more virtual machines of a group than `hose`.
    pub fn grow(&mut self, name: &str, hose: Hose) -> Result<&TenantPlace, Shortage> {
        let before = self.depart(name).unwrap_or_else(|| panic!("the tenant {name} has no place"));
        self.fill.walk.per_machine = None;
        let weighing = (self.weighing(), self.queues);
        match search::grow(&mut self.fill, &self.fabric, &self.ledger, &hose, &before.fit, weighing) {
            Ok(fit) => Ok(self.settle(name, TenantPlace { hose, fit })),
            Err(shortage) => {
                self.settle(name, before);
                Err(shortage)
            }
        }
    }

    fn weighing(&self) -> Weighing {
        match self.strategy {
            Strategy::QShare(weighing) => weighing,
            Strategy::FirstFit | Strategy::Oktopus => Weighing::default(),
        }
    }

    /// Whether no tree has room for a tenant beside those that are placed, by whatever search. For a tenant of one
    /// bandwidth and at most [`EXAMINED_MAX`](crate::EXAMINED_MAX) virtual machines `false` means that there is a
    /// place; for others a place may exist or not.
    pub fn rules_out(&mut self, hose: &Hose) -> bool {
        self.fill.walk.per_machine = None;
        search::rules_out(&mut self.fill, &self.fabric, &self.ledger, hose)
    }

    /// The trees that QShare's search finds for a tenant that does not fit on one machine, by layer: what a strategy
    /// of QShare would choose from now.
    pub fn survey(&mut self, hose: &Hose) -> Vec<SurveyLayer> {
        let weighing = (self.weighing(), self.queues);
        self.fill.walk.per_machine = None;
        search::survey(&mut self.fill, &self.fabric, &self.ledger, hose, weighing)
    }

    /// Takes over a tenant that was placed earlier.
    ///
    /// # Errors
    /// The cable whose reservations would exceed its capacity, or the slots that a machine lacks; nothing has changed
    /// then.
    ///
    /// # Panics
    /// If a tenant of this name is placed already.
    pub fn adopt(&mut self, name: &str, placed: TenantPlace) -> Result<&TenantPlace, Shortage> {
        self.ledger.fits(&placed.fit)?;
        Ok(self.settle(name, placed))
    }

    /// Places a tenant whose virtual machines are on given machines, ascending: in the first tree of the lowest layer
    /// that has them all and the bandwidth.
    ///
    /// # Errors
    /// The resource that it lacks; nothing has changed then.
    ///
    /// # Panics
    /// If a tenant of this name is placed already.
    pub fn arrive_at(&mut self, name: &str, hose: Hose, parts: &[Part]) -> Result<&TenantPlace, Shortage> {
        let alone = match parts {
            [part] => Some(Root::Machine(part.machine)),
            _ => None,
        };
        let layers = self.fabric.layers().iter().flatten().copied();
        let mut shortage = Shortage::Slots { missing: hose.vms().into() };
        for root in alone.into_iter().chain(layers) {
            let Some(fit) = Fit::in_place(&self.fabric, root, parts.to_vec(), &hose) else { continue };
            match self.ledger.fits(&fit) {
                Ok(()) => return Ok(self.settle(name, TenantPlace { hose, fit })),
                Err(lacking) => shortage = lacking,
            }
        }
        Err(shortage)
    }

    fn settle(&mut self, name: &str, placed: TenantPlace) -> &TenantPlace {
        self.ledger.settle(&self.fabric, &placed.fit);
        let before = self.placed.insert(name.to_owned(), placed);
        assert!(before.is_none(), "the tenant {name} is placed twice");
        &self.placed[name]
    }

    /// Frees the place of a tenant; `None` if there is none of this name.
    pub fn depart(&mut self, name: &str) -> Option<TenantPlace> {
        let placed = self.placed.remove(name)?;
        for part in &placed.fit.parts {
            self.ledger.return_slots(&self.fabric, part.machine, part.vms.iter().sum());
        }
        for (cable, bandwidth) in &placed.fit.reservations {
            self.ledger.release(*cable, *bandwidth);
        }
        Some(placed)
    }
}
