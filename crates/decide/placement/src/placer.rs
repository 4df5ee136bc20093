//! [`Placer`]: tenants that arrive and depart.

use crate::fabric::{CableId, Fabric, Root};
use crate::fill::{Fill, Fit, Part, Stuck};
use crate::hose::Hose;
use crate::ledger::Ledger;
use crate::search::{Surveyed, Weighing};
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
    /// Its virtual machines have different bandwidths, which the strategy does not know.
    Groups,
}

impl Shortage {
    pub(crate) fn of(ledger: &Ledger, hose: &Hose, nearest: Option<Stuck>) -> Self {
        let missing = u64::from(hose.vms()).saturating_sub(ledger.slots().0);
        match nearest {
            _ if missing > 0 => Self::Slots { missing },
            Some(Stuck { left, cable: Some((cable, missing)) }) => Self::Bandwidth { cable, missing, left },
            Some(Stuck { left, cable: None }) => Self::Slots { missing: left.into() },
            // No tree has enough slots, though all machines together do.
            None => Self::Slots { missing: hose.vms().into() },
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots { missing } => write!(f, "{missing} slots are missing"),
            Self::Bandwidth { missing, left, .. } => {
                write!(f, "{left} virtual machines find no place; the nearest link lacks {missing} for the next one")
            }
            Self::Groups => f.write_str("its virtual machines have different bandwidths"),
        }
    }
}

impl std::error::Error for Shortage {}

/// A tenant and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
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
    placed: BTreeMap<String, Placed>,
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
    pub fn placed(&self) -> &BTreeMap<String, Placed> {
        &self.placed
    }

    /// Places a tenant.
    ///
    /// # Errors
    /// The resource that it lacks; nothing has changed then.
    ///
    /// # Panics
    /// If a tenant of this name is placed already.
    pub fn arrive(&mut self, name: &str, hose: Hose) -> Result<&Placed, Shortage> {
        self.place(name, hose, None)
    }

    /// Places a tenant with at most `per_machine` virtual machines on one machine.
    ///
    /// # Errors
    /// The resource that it lacks; nothing has changed then.
    ///
    /// # Panics
    /// If a tenant of this name is placed already.
    pub fn arrive_spread(&mut self, name: &str, hose: Hose, per_machine: u32) -> Result<&Placed, Shortage> {
        self.place(name, hose, Some(per_machine))
    }

    fn place(&mut self, name: &str, hose: Hose, per_machine: Option<u32>) -> Result<&Placed, Shortage> {
        self.fill.walk.per_machine = per_machine;
        let (fill, fabric, ledger) = (&mut self.fill, &self.fabric, &self.ledger);
        let fit = match self.strategy {
            Strategy::QShare(weighing) => search::place(fill, fabric, ledger, &hose, (weighing, self.queues)),
            Strategy::FirstFit => first_fit::place(fill, fabric, ledger, &hose),
            Strategy::Oktopus => oktopus::place(fill, fabric, ledger, &hose),
        }?;
        Ok(self.settle(name, Placed { hose, fit }))
    }

    /// The trees that QShare's search finds for a tenant that does not fit on one machine, by layer: what a strategy
    /// of QShare would choose from now.
    pub fn survey(&mut self, hose: &Hose) -> Vec<Surveyed> {
        let weighing = match self.strategy {
            Strategy::QShare(weighing) => weighing,
            Strategy::FirstFit | Strategy::Oktopus => Weighing::default(),
        };
        self.fill.walk.per_machine = None;
        search::survey(&mut self.fill, &self.fabric, &self.ledger, hose, (weighing, self.queues))
    }

    /// Takes over a tenant that was placed earlier.
    ///
    /// # Errors
    /// The cable whose reservations would exceed its capacity, or the slots that a machine lacks; nothing has changed
    /// then.
    ///
    /// # Panics
    /// If a tenant of this name is placed already.
    pub fn adopt(&mut self, name: &str, placed: Placed) -> Result<&Placed, Shortage> {
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
    pub fn arrive_at(&mut self, name: &str, hose: Hose, parts: &[Part]) -> Result<&Placed, Shortage> {
        let alone = match parts {
            [part] => Some(Root::Machine(part.machine)),
            _ => None,
        };
        let layers = self.fabric.layers().iter().flatten().copied();
        let mut shortage = Shortage::Slots { missing: hose.vms().into() };
        for root in alone.into_iter().chain(layers) {
            let Some(fit) = Fit::in_place(&self.fabric, root, parts.to_vec(), &hose) else { continue };
            match self.ledger.fits(&fit) {
                Ok(()) => return Ok(self.settle(name, Placed { hose, fit })),
                Err(lacking) => shortage = lacking,
            }
        }
        Err(shortage)
    }

    fn settle(&mut self, name: &str, placed: Placed) -> &Placed {
        self.ledger.settle(&self.fabric, &placed.fit);
        let before = self.placed.insert(name.to_owned(), placed);
        assert!(before.is_none(), "the tenant {name} is placed twice");
        &self.placed[name]
    }

    /// Frees the place of a tenant; `None` if there is none of this name.
    pub fn depart(&mut self, name: &str) -> Option<Placed> {
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
