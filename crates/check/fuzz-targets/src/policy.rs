//! Policy files.

use crate::{refusal, shares};
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_document::Source;
use weir_policy::{Match, Policy};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, RackId, ServiceId};

/// The limit for one file; larger ones are refused by length alone.
const LIMIT: u64 = 1 << 20;

/// Reads `data` as a policy file. A refusal has its positions in the text. A policy has canonical
/// ids, is the same when read again and when a comment is put before it, and can be allocated.
/// Returns whether it is accepted.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn policy(data: &[u8]) -> bool {
    let source = match Source::from_bytes("policy.yaml", data.to_vec(), LIMIT) {
        Ok(source) => source,
        Err(errors) => return refusal::check(&errors),
    };
    let (policy, notes) = match Policy::from_source(&source) {
        Ok(read) => read,
        Err(errors) => return refusal::check(&errors),
    };
    notes.iter().for_each(refusal::one);
    for text in [source.text().to_owned(), format!("# A comment.\n{}", source.text())] {
        match Policy::parse("again.yaml", &text) {
            Ok((again, _)) => {
                assert_eq!(again.digest(), policy.digest(), "another fingerprint when read again");
                assert!(again == policy, "another policy when read again");
            }
            Err(errors) => panic!("refused when read again:\n{errors}"),
        }
    }
    check_network(&policy);
    check_services(&policy);
    check_tenants(&policy);
    shares::check(&Arc::new(policy), |_, _, _| Bandwidth::UNLIMITED);
    true
}

/// Ids are indices into the tables, names lead back to them, and each machine is in one rack.
fn check_network(policy: &Policy) {
    let network = policy.network();
    let mut machines = 0;
    for (id, rack) in network.racks().iter().enumerate() {
        let id = RackId(id as u32);
        assert_eq!(network.rack_named(rack.name()), Some(id));
        assert!(!rack.machines().is_empty(), "a rack without machines");
        for machine in rack.machines() {
            assert_eq!(*machine, MachineId(machines), "machines of a rack stand together");
            assert_eq!(network.machine(*machine).rack(), id);
            assert_eq!(network.machine_named(network.machine(*machine).name()), Some(*machine));
            machines += 1;
        }
        for direction in Direction::ALL {
            let capacity = policy.rack_capacity(id, direction);
            assert!(capacity > Bandwidth::ZERO && capacity <= rack.uplink()[direction]);
            assert!(!rack.uplink()[direction].is_unlimited());
        }
    }
    assert_eq!(network.machines().len(), machines as usize);
}

/// The tree of services is one: parents before children, paths unique and built from names, filters
/// at the leaves, and every filter in the order of classification once.
fn check_services(policy: &Policy) {
    let services = policy.services();
    let tenants: BTreeSet<ServiceId> = policy.tenants().iter().map(|tenant| tenant.service).collect();
    let mut filters = 0;
    for (id, service) in services.iter() {
        assert_eq!(services.named(service.path()), Some(id));
        match service.parent() {
            Some(parent) => {
                assert!(parent < id, "a parent after its child");
                assert!(services.get(parent).children().contains(&id));
                let inside = service.path().strip_prefix(services.get(parent).path());
                assert!(inside.is_some_and(|rest| rest.starts_with('/')), "{} is not in its parent", service.path());
            }
            None => assert!(services.roots().contains(&id)),
        }
        assert!(service.children().is_sorted(), "children ascend");
        assert!(service.children().iter().all(|child| services.get(*child).parent() == Some(id)));
        let has_filters = !service.matches().is_empty();
        let may_have = service.is_leaf() || !has_filters;
        let must_have = service.is_leaf() && !tenants.contains(&id);
        assert!(may_have && (has_filters || !must_have), "{}: leaves have filters", service.path());
        filters += service.matches().len();
        for point in ContentionPoint::ALL {
            for direction in Direction::ALL {
                let share = service.share(point, direction);
                assert!(share.min <= share.max && !share.min.is_unlimited(), "{} {point} {direction}", service.path());
                check_children(policy, id, point, direction);
            }
        }
    }
    let order = services.classification_order();
    assert_eq!(order.len(), filters);
    let unique: BTreeSet<(ServiceId, *const Match)> = order.iter().map(|(id, filter)| (*id, *filter as _)).collect();
    assert_eq!(unique.len(), filters);
}

/// Every tenant is a top-level service of its name, and has virtual machines whose bandwidths can be summed.
fn check_tenants(policy: &Policy) {
    for tenant in policy.tenants() {
        let service = policy.services().get(tenant.service);
        assert_eq!((service.path(), service.parent()), (tenant.name.as_str(), None));
        assert!(service.is_leaf() && tenant.vms() > 0);
        assert!(tenant.groups.iter().all(|group| group.vms > 0 && group.bandwidth > Bandwidth::ZERO));
        assert!(tenant.bandwidth() <= Bandwidth::MAX);
    }
}

/// The children's guarantees are within the service's guarantee (Parley §3.1).
fn check_children(policy: &Policy, id: ServiceId, point: ContentionPoint, direction: Direction) {
    let service = policy.services().get(id);
    let sum: Bandwidth =
        service.children().iter().map(|child| policy.services().get(*child).share(point, direction).min).sum();
    let own = service.share(point, direction).min;
    assert!(sum <= own, "{} {point} {direction}: {own} for children with {sum}", service.path());
}
