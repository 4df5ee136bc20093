//! The order in which the tenants of a policy arrive where all are placed at once.
//!
//! Problem: a search places tenants one by one, so a tenant's place depends on those before it; the order must follow
//! from what tenants request, or a new name would move them. Approach: the largest payment first, since small tenants
//! fit into the room that large ones leave; then the most virtual machines, then the groups. Tenants that are equal in
//! all of these request the same, so exchanging them exchanges their names only.
//!
//! Source: QShare §IV (placement on arrival; an order of many is not stated there); bin packing's first fit decreasing.

use crate::hose::Hose;
use std::cmp::Reverse;

/// The indices of these requests in the order of arrival; equal ones stay in the given order.
///
/// ```
/// use weir_placement::{Hose, arrivals};
/// use weir_units::Bandwidth;
///
/// let hoses = [(2, 100), (9, 100), (1, 200)].map(|(vms, mbps)| Hose::uniform(vms, Bandwidth::from_mbps(mbps)));
/// assert_eq!(arrivals(&hoses), [1, 0, 2]);
/// ```
pub fn arrivals(hoses: &[Hose]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..hoses.len()).collect();
    order.sort_by_cached_key(|at| {
        let hose = &hoses[*at];
        let groups: Vec<_> = hose.groups().iter().map(|group| (group.bandwidth, group.vms)).collect();
        let mut sorted = groups.clone();
        sorted.sort_unstable_by_key(|group| Reverse(*group));
        // The last part divides tenants whose groups have other names: their parts are numbered differently.
        Reverse((hose.bandwidth(), hose.vms(), sorted, groups))
    });
    order
}
