//! First fit: the first tree that can have the tenant, its machines filled in order.

use crate::Shortage;
use crate::fabric::Fabric;
use crate::fill::{Fill, Fit};
use crate::hose::Hose;
use crate::ledger::Ledger;
use crate::search::first;

/// The place of a tenant, or what it lacks.
pub(crate) fn place(fill: &mut Fill, fabric: &Fabric, ledger: &Ledger, hose: &Hose) -> Result<Fit, Shortage> {
    first(fabric, ledger, hose, |root| fill.in_order(fabric, ledger, root, hose))
}
