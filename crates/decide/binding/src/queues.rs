//! [`Queues`]: the queues of ports and their tenants, and the choice of the tenants that have one.
//!
//! Problem: a port has queues for few of the tenants that pass it. A tenant gains from a queue of its own only if it
//! has one at each of its ports, and taking queues away from others moves their packets. Approach, once in each
//! control interval: tenants by falling score; one with queues keeps them; another takes free queues, and where there
//! are none those of the tenant with the least score, if that is below its own. It takes all or nothing, and a tenant
//! that loses one queue loses all. Tenants of equal scores take nothing from each other.
//!
//! Two kinds of switches: where each port maps packets to queues by itself ([`Map::PerPort`]: Linux), a tenant needs
//! any queue of each port; where a switch maps packets on arrival ([`Map::PerSwitch`]: most hardware), it has the same
//! queue at all of its ports of a switch, and takes it from all tenants that it meets there.
//!
//! Example: one port with two queues and tenants of scores 3, 2, 1. The first two have queues. If the last one's score
//! rises to 4, it takes the queue of the one with 2; if it rises to 2, it takes none.
//!
//! Source: QShare §V-C, Algorithm 2. There the effects of a tenant that finds queues at some of its ports only are
//! open; here it changes nothing. One that lost its queues may take others later in the same interval.

use crate::score::Score;
use crate::site::{PortId, Sites};
use std::cmp::Reverse;
use weir_units::TenantId;

pub use weir_network::switches::Map;

/// The queue of a port, 0 to one less than [`crate::Port::queues`]; the shared queue is beside them.
pub type QueueIndex = u8;

/// The tenants of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queues {
    map: Map,
    /// By port and queue.
    owners: Vec<Vec<Option<TenantId>>>,
    /// By tenant with queues, its queue at each of its ports, in the order of [`crate::Site::ports`].
    dedicated: Vec<Option<Vec<QueueIndex>>>,
}

impl Queues {
    /// Free queues at all ports.
    pub fn new(sites: &Sites, map: Map) -> Self {
        let owners = sites.ports.iter().map(|port| vec![None; port.queues.into()]).collect();
        Self { map, owners, dedicated: vec![None; sites.tenants.len()] }
    }

    /// A tenant's queue at each of its ports, in the order of [`crate::Site::ports`]; `None` in the shared queue.
    pub fn of(&self, tenant: TenantId) -> Option<&[QueueIndex]> {
        self.dedicated.get(tenant.index())?.as_deref()
    }
    /// The tenants with queues, ascending, each with its queue at each of its ports.
    pub fn dedicated(&self) -> impl Iterator<Item = (TenantId, &[QueueIndex])> {
        (0..).map(TenantId).zip(&self.dedicated).filter_map(|(tenant, queues)| Some((tenant, queues.as_deref()?)))
    }
    /// The tenants of a port's queues.
    pub fn owners(&self, port: PortId) -> &[Option<TenantId>] {
        &self.owners[port.index()]
    }

    /// Gives queues to tenants for the next interval, by the score of each tenant.
    ///
    /// # Panics
    /// If there are not as many scores as tenants.
    pub fn allocate(&mut self, sites: &Sites, scores: &[Score]) {
        assert_eq!(scores.len(), sites.tenants.len(), "a score for each tenant");
        let mut order: Vec<TenantId> = sites.all().map(|(tenant, _)| tenant).collect();
        order.sort_unstable_by_key(|tenant| (Reverse(scores[tenant.index()]), *tenant));
        let mut found = Found::default();
        for tenant in order {
            if self.dedicated[tenant.index()].is_some() || sites.site(tenant).ports.is_empty() {
                continue;
            }
            if self.find(sites, tenant, scores, &mut found) {
                found.victims.iter().for_each(|victim| self.release(sites, *victim));
                self.bind(sites, tenant, found.queues.clone());
            }
        }
    }

    /// Whether there is a queue for each of a tenant's ports; which, and the tenants that have them now.
    fn find(&self, sites: &Sites, tenant: TenantId, scores: &[Score], found: &mut Found) -> bool {
        found.start(sites, tenant, self.map);
        let ports = &sites.site(tenant).ports;
        for group in found.groups.chunk_by(|one, other| one.0 == other.0) {
            let Some(queues) = group.iter().map(|(_, at)| sites.ports[ports[*at].0.index()].queues).min() else {
                continue;
            };
            let owners = |queue: QueueIndex| {
                group.iter().filter_map(move |(_, at)| self.owners[ports[*at].0.index()][usize::from(queue)])
            };
            // The highest of those that would lose the queue; none is below any.
            let highest =
                |queue: &QueueIndex| owners(*queue).map(|owner| (scores[owner.index()], Reverse(owner))).max();
            let Some(queue) = (0..queues).min_by_key(highest) else { return false };
            if highest(&queue).is_some_and(|(highest, _)| highest >= scores[tenant.index()]) {
                return false;
            }
            found.victims.extend(owners(queue));
            group.iter().for_each(|(_, at)| found.queues[*at] = queue);
        }
        true
    }

    fn bind(&mut self, sites: &Sites, tenant: TenantId, queues: Vec<QueueIndex>) {
        for ((port, _), queue) in sites.site(tenant).ports.iter().zip(&queues) {
            let owner = &mut self.owners[port.index()][usize::from(*queue)];
            debug_assert!(owner.is_none(), "a queue has two tenants");
            *owner = Some(tenant);
        }
        self.dedicated[tenant.index()] = Some(queues);
    }

    /// Takes over the queues of a tenant from an earlier choice: one for each of its ports, in the order of
    /// [`crate::Site::ports`].
    ///
    /// # Panics
    /// If a port has no queue of that number, or another tenant has one of the queues.
    pub fn adopt(&mut self, sites: &Sites, tenant: TenantId, queues: Vec<QueueIndex>) {
        for ((port, _), queue) in sites.site(tenant).ports.iter().zip(&queues) {
            assert!(self.owners[port.index()][usize::from(*queue)].is_none(), "a queue has two tenants");
        }
        self.bind(sites, tenant, queues);
    }

    /// Takes a tenant's queues, if it has any.
    pub fn release(&mut self, sites: &Sites, tenant: TenantId) {
        let Some(queues) = self.dedicated[tenant.index()].take() else { return };
        for ((port, _), queue) in sites.site(tenant).ports.iter().zip(queues) {
            self.owners[port.index()][usize::from(queue)] = None;
        }
    }
}

/// Queues for a tenant; keeps its memory.
#[derive(Debug, Default)]
struct Found {
    /// The positions in the tenant's list of ports; those that have one queue index share a number.
    groups: Vec<(u32, usize)>,
    queues: Vec<QueueIndex>,
    victims: Vec<TenantId>,
}

impl Found {
    fn start(&mut self, sites: &Sites, tenant: TenantId, map: Map) {
        let ports = &sites.site(tenant).ports;
        self.victims.clear();
        self.queues.clear();
        self.queues.resize(ports.len(), 0);
        self.groups.clear();
        self.groups.extend(ports.iter().enumerate().map(|(at, (port, _))| (sites.map_of(map, *port), at)));
        if map == Map::PerSwitch {
            self.groups.sort_unstable();
        }
    }
}
