//! The rates and the shaper of an interface, from a policy's plan and the limits in force.
//!
//! Worked example: `vm` with a machine maximum of 1 Gb/s and a runtime limit of 500 Mb/s has a send limit of 500 Mb/s.

use super::{HostContext, HostError, Plan};
use weir_linux::edt_shaper::{EdtShaper, Egress};
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::interface::Interface;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::shaper::{Backend, DestinationRate, ServiceRate, Shaper, ShaperError};
use weir_shaping::LeafPlan;
use weir_units::{Bandwidth, PerDirection, ServiceId};

/// The send rates of services: by the policy, and the brokers' limits in force.
pub(super) fn rates(
    datapath: &InterfaceDatapath,
    host_context: &HostContext<'_>,
    plan: &Plan,
) -> Result<Vec<ServiceRate>, HostError> {
    let in_force = datapath.limits()?;
    let backend = plan.backend;
    let rate = |((leaf, limits), of): ((ServiceId, PerDirection<Bandwidth>), &LeafPlan)| {
        let share = of.shares.tx.share;
        let machine_max = share.max.min(plan.nic);
        let static_limit = limits.tx.min(machine_max);
        let slot = datapath.slot(leaf)?;
        let in_force = in_force.iter().find(|(service, _)| *service == leaf);
        let limit = in_force.map_or(Bandwidth::UNLIMITED, |(_, limits)| limits.tx);
        Ok(ServiceRate {
            service: leaf,
            slot,
            min: backend.guarantee(&of.shares.tx).min(machine_max),
            max: send_limit(limit, machine_max, static_limit),
            machine_max,
            static_limit,
            weight: share.weight,
        })
    };
    host_context.static_limits().zip(&plan.machine_plan.leaves).map(rate).collect()
}

/// The send limit of a service under a runtime limit: without one, that of the static policy.
pub(super) fn send_limit(limit: Bandwidth, machine_max: Bandwidth, static_limit: Bandwidth) -> Bandwidth {
    if limit.is_unlimited() { static_limit } else { limit.min(machine_max) }
}

/// By leaf: the runtime limits in force.
pub(super) fn limits_in_force(
    datapath: &InterfaceDatapath,
    leaves: &[ServiceId],
) -> Result<Vec<PerDirection<Bandwidth>>, HostError> {
    let in_force = datapath.limits()?;
    let unlimited = PerDirection { tx: Bandwidth::UNLIMITED, rx: Bandwidth::UNLIMITED };
    let limit = |leaf: &ServiceId| {
        let limit = in_force.iter().find(|(service, _)| service == leaf);
        limit.map_or(unlimited, |(_, limits)| *limits)
    };
    Ok(leaves.iter().map(limit).collect())
}

pub(super) fn shaper_of(
    backend: Backend,
    interface: &Interface,
    datapath: &InterfaceDatapath,
    plan: &Plan,
    rates: &[ServiceRate],
    limited: &[DestinationRate],
    force: bool,
) -> Result<Box<dyn Shaper>, HostError> {
    let &Plan { nic, shared, sharing, sending, .. } = plan;
    let levels = &plan.levels.limits();
    Ok(match backend {
        Backend::Htb => {
            let htb = HtbShaper::install(interface, nic, rates, limited, levels, sending, force);
            Box::new(htb.map_err(ShaperError::from)?)
        }
        Backend::Edt => {
            let levelled = plan.machine_plan.leaves.iter().filter(|leaf| leaf.level.is_some());
            let levelled = levelled.map(|leaf| datapath.slot(leaf.service)).collect::<Result<Vec<u32>, _>>()?;
            let egress = Egress { nic, shared, sharing, levels, levelled: &levelled };
            Box::new(EdtShaper::install(interface, datapath, &egress, rates, sending, force)?)
        }
    })
}
