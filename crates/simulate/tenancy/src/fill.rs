//! [`Datacenter::fill`]: tenants placed as they arrive, until the datacenter is full.
//!
//! Approach: the network, its slots and its queues are those of a policy. Tenants arrive one by one, and the placement
//! of `weir place` finds their machines; a tenant without a place is refused, and does not come again. After so many
//! refusals in a row the datacenter is full.
//!
//! Tenants that fit on one machine are put on one, where nothing crosses a link. [`Filling::per_machine`] and
//! [`Filling::machines`] bound that, as a placement that spreads tenants over machines does.
//!
//! Example: two machines with 100 slots each and tenants of 60 virtual machines: two are placed, each on a machine of
//! its own, a third is divided over both, and a fourth is refused.
//!
//! Source: QShare §VII-C1.

use crate::requests::Requests;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::sync::Arc;
use weir_binding::Sites;
use weir_network::Graph;
use weir_placement::{CableId, Fabric, Ledger, Placer, Strategy, TenantPlace};
use weir_policy::Policy;
use weir_units::Bandwidth;

/// The queues of a port where a policy does not state them: IEEE 802.1Q has eight traffic classes.
const COMMON_QUEUES: u8 = 8;

/// An empty datacenter.
#[derive(Debug, Clone)]
pub struct Datacenter {
    graph: Arc<Graph>,
    fabric: Arc<Fabric>,
    ledger: Ledger,
    queues: u8,
}

impl Datacenter {
    /// The network of a policy, with what its services and levels leave to tenants. With `slots`, every machine has so
    /// many, whatever the policy states.
    pub fn new(policy: &Policy, slots: Option<u32>) -> Self {
        let graph = policy.graph();
        let fabric = Arc::new(Fabric::of_policy(policy, &graph));
        let ledger = Ledger::of_policy(policy, &graph, &fabric);
        let ledger = match slots {
            Some(slots) => {
                let cables = (0..fabric.cables() as u32).map(CableId);
                let capacity: Vec<Bandwidth> = cables.map(|cable| ledger.capacity(cable)).collect();
                Ledger::new(&fabric, &capacity, vec![slots; fabric.machines()])
            }
            None => ledger,
        };
        let queues = policy.network().offer().map_or(COMMON_QUEUES, |offer| offer.queues);
        Self { graph, fabric, ledger, queues }
    }

    /// All slots.
    pub fn slots(&self) -> u64 {
        self.ledger.slots().1
    }

    /// The datacenter with tenants, the same for the same seed.
    pub fn fill(&self, filling: &Filling, seed: u64) -> Filled {
        let mut random = StdRng::seed_from_u64(seed);
        let fabric = Arc::clone(&self.fabric);
        let mut placer = Placer::new(fabric, self.ledger.clone(), filling.strategy, self.queues.into());
        let (mut arrivals, mut refused) = (0, 0);
        while refused < filling.refusals.max(1) {
            let hose = filling.requests.draw(&mut random);
            let spread = hose.vms().div_ceil(filling.machines.max(1));
            let per_machine = filling.per_machine.map_or(spread, |most| most.min(spread));
            // Names sort as their tenants arrived.
            let placed = placer.arrive_spread(&format!("{arrivals:010}"), hose, per_machine).is_ok();
            refused = if placed { 0 } else { refused + 1 };
            arrivals += 1;
        }
        Filled::new(self, &placer, arrivals, seed)
    }
}

/// The tenants of a datacenter, their placement, and the end of their arrivals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filling {
    /// The tenants.
    pub requests: Requests,
    /// The search for their places.
    pub strategy: Strategy,
    /// The most virtual machines of a tenant on one machine; `None` for as many as it has slots.
    pub per_machine: Option<u32>,
    /// A tenant with so many virtual machines has at least so many machines; 1 for any number.
    pub machines: u32,
    /// Refusals in a row that end the arrivals, at least 1.
    pub refusals: u32,
}

/// A datacenter with tenants.
#[derive(Debug, Clone)]
pub struct Filled {
    /// The tenants in the order of their arrival.
    pub tenants: Vec<TenantPlace>,
    /// The ports of switches and the tenants that pass them, with one queue less than a port has: that is shared.
    pub sites: Sites,
    /// The capacity of each cable for tenants, bit/s.
    pub capacity: Vec<f64>,
    /// The queues of a port.
    pub queues: u8,
    /// Tenants that came, placed or not.
    pub arrivals: u32,
    /// Slots that are taken, and all slots.
    pub slots: (u64, u64),
    /// The seed of the arrivals.
    pub seed: u64,
}

impl Filled {
    fn new(datacenter: &Datacenter, placer: &Placer, arrivals: u32, seed: u64) -> Self {
        let (fabric, ledger) = (&datacenter.fabric, placer.ledger());
        let tenants: Vec<TenantPlace> = placer.placed().values().cloned().collect();
        let dedicated = datacenter.queues.saturating_sub(1);
        let (free, slots) = ledger.slots();
        Self {
            sites: Sites::of_placement(tenants.iter().map(Some), fabric, &datacenter.graph, dedicated, &[]),
            capacity: (0..fabric.cables() as u32).map(|cable| ledger.capacity(CableId(cable)).bps() as f64).collect(),
            tenants,
            queues: datacenter.queues,
            arrivals,
            slots: (slots - free, slots),
            seed,
        }
    }

    /// By cable, what tenants reserve, bit/s.
    pub fn reserved(&self) -> Vec<f64> {
        let mut reserved = vec![0.0; self.capacity.len()];
        for tenant in &self.tenants {
            for (cable, bandwidth) in &tenant.fit.reservations {
                reserved[cable.index()] += bandwidth.bps() as f64;
            }
        }
        reserved
    }
    /// The share of tenants for which a condition holds; 0 without any.
    pub(crate) fn share_of_tenants(&self, holds: impl Fn(usize) -> bool) -> f64 {
        let count = (0..self.tenants.len()).filter(|tenant| holds(*tenant)).count();
        count as f64 / self.tenants.len().max(1) as f64
    }
    /// Whether a tenant reserves bandwidth of links.
    pub fn crosses_links(&self, tenant: usize) -> bool {
        !self.tenants[tenant].fit.reservations.is_empty()
    }
}
