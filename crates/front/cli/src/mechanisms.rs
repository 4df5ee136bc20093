//! The table of mechanisms: what serves each service and tenant, beside what it needs of the network.

use crate::output::{Table, Ui};
use crate::text;
use std::io;
use weir_policy::{LevelChoice, Mechanism, Need, Policy, Service};
use weir_units::{Bandwidth, ContentionPoint, Direction, ServiceId};

/// Prints a row for each service and tenant, if the policy uses more than shares.
pub(crate) fn print(policy: &Policy, ui: &mut Ui) -> io::Result<()> {
    let leaves: Vec<_> = policy.services().leaves().map(|(id, own)| (policy.mechanism(id), id, own)).collect();
    if leaves.iter().all(|(mechanism, ..)| *mechanism == Mechanism::Shares) {
        return Ok(());
    }
    ui.print("\nmechanisms: what serves each service and tenant\n")?;
    let mut table = Table::new(&["service", "mechanism", "has", "needs", "the network has it"]);
    for (mechanism, id, service) in leaves {
        let offered = match (mechanism.need(), policy.offers(mechanism.need())) {
            (Need::Nothing, _) => "",
            (_, Some(true)) => "yes",
            (_, Some(false)) => "no",
            (_, None) => "not stated",
        };
        let has = match mechanism {
            Mechanism::Shares => shares(service),
            Mechanism::Level(LevelChoice::Numbered(level)) => format!("level {level}"),
            Mechanism::Level(LevelChoice::Auto) => "a level to be chosen".to_owned(),
            Mechanism::Tenant => vms(policy, id),
            Mechanism::Credits(weight) => format!("weight {weight}"),
        };
        table.row([service.path(), mechanism.name(), &has, mechanism.need().name(), offered]);
    }
    ui.print_table(&table, 2)
}

/// The guarantees and limits of a service in the direction that has more, and its own ones only.
fn shares(service: &Service) -> String {
    let mut parts = Vec::new();
    for point in ContentionPoint::ALL {
        let of = |direction| service.share(point, direction);
        let shares = Direction::ALL.map(of);
        let min = shares.iter().map(|share| share.min).max().unwrap_or(Bandwidth::ZERO);
        if min > Bandwidth::ZERO {
            parts.push(format!("at least {} of a {}", text::rate(min), point.name()));
        }
        let max = shares.iter().map(|share| share.max).min().unwrap_or(Bandwidth::UNLIMITED);
        if !max.is_unlimited() {
            parts.push(format!("at most {} of a {}", text::rate(max), point.name()));
        }
    }
    if parts.is_empty() { "a part by weight".to_owned() } else { parts.join(", ") }
}

fn vms(policy: &Policy, service: ServiceId) -> String {
    let tenant = policy.tenants().iter().find(|tenant| tenant.service == service);
    let groups = tenant.into_iter().flat_map(|tenant| &tenant.groups);
    groups.map(|group| format!("{} VMs of {}", group.vms, text::rate(group.bandwidth))).collect::<Vec<_>>().join(", ")
}
