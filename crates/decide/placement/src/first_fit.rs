//! First fit: the first tree that can have the tenant, its machines filled in order.

use crate::Shortage;
use crate::fabric::Fabric;
use crate::fill::{Fill, Fit, Stuck};
use crate::hose::Hose;
use crate::ledger::Ledger;
use crate::search::on_one_machine;

/// The place of a tenant, or what it lacks.
pub(crate) fn place(fill: &mut Fill, fabric: &Fabric, ledger: &Ledger, hose: &Hose) -> Result<Fit, Shortage> {
    if let Some(fit) = on_one_machine(ledger, hose, fabric.machines()) {
        return Ok(fit);
    }
    let mut nearest: Option<Stuck> = None;
    for &root in fabric.layers().iter().flatten() {
        if ledger.free_in(fabric.set(root)) < u64::from(hose.vms()) {
            continue;
        }
        match fill.in_order(fabric, ledger, root, hose) {
            Ok(fit) => return Ok(fit),
            Err(stuck) if nearest.is_none_or(|nearest| stuck.left < nearest.left) => nearest = Some(stuck),
            Err(_) => {}
        }
    }
    Err(Shortage::of(ledger, hose, nearest))
}
