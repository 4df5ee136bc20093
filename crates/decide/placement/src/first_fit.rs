//! First fit: the first tree that can have the tenant, its machines filled in order.

use crate::Shortage;
use crate::fabric::Fabric;
use crate::fill::{Fill, Fit};
use crate::hose::Hose;
use crate::ledger::Ledger;
use crate::search::first;

/// The place of a tenant.
///
/// # Errors
/// The resource that it lacks.
pub(crate) fn place(fill: &mut Fill, fabric: &Fabric, ledger: &Ledger, hose: &Hose) -> Result<Fit, Shortage> {
    let per_machine = fill.walk.per_machine;
    first(fabric, ledger, hose, per_machine, |root| fill.in_order(fabric, ledger, root, hose))
}
