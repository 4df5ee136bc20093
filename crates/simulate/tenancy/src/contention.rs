//! Tenants per port, tenants with queues, and DSCP values.
//!
//! Problem: QShare's Table I has the ports with more tenants than queues, the tenants that never meet one, and those
//! with queues in a control interval. Approach: the first two are counted; for the third, Algorithm 2 runs with scores
//! of tenants that are active or not.
//!
//! Of eight queues one is shared. Where no more than eight tenants pass a port, at most one is in the shared queue,
//! alone: it has a queue of its own all the same. So a tenant is *uncontended* if at most as many tenants as queues
//! meet at each of its ports, and has a queue in an interval if it is alone in that of each port.
//!
//! Switches that map packets to queues on arrival give a tenant one queue for all ports of a switch
//! ([`Map::PerSwitch`]). There, all tenants that pass a common port with it count together.
//!
//! Example: eight queues, nine tenants at one port, of which one passes a second port with one other tenant. The nine
//! are contended, the tenth is not; in an interval with all active, seven of the nine have queues and two share one.
//!
//! Source: QShare §VII-C1, Table I; §V-D.

use crate::fill::Filled;
use crate::gain::Activity;
use std::collections::{BTreeMap, BTreeSet};
use weir_binding::{Map, Queues, Score, SwitchId, Values};
use weir_network::switches::pool;
use weir_units::TenantId;

impl Filled {
    /// The share of switch ports that `least` to `most` tenants pass.
    pub fn ports_with(&self, least: u32, most: Option<u32>) -> f64 {
        let of_ports = self.sites.tenants_of_ports();
        let within = |tenants: &&Vec<TenantId>| {
            let count = tenants.len() as u32;
            count >= least && most.is_none_or(|most| count <= most)
        };
        of_ports.iter().filter(within).count() as f64 / of_ports.len().max(1) as f64
    }

    /// The most tenants of a port.
    pub fn most_tenants_of_a_port(&self) -> usize {
        self.sites.tenants_of_ports().iter().map(Vec::len).max().unwrap_or(0)
    }

    /// By tenant, whether each of its ports has a queue for every tenant that it meets there.
    pub fn uncontended(&self, map: Map) -> Vec<bool> {
        let of_ports = self.sites.tenants_of_ports();
        let queues = usize::from(self.queues);
        let of_tenant = |site: &weir_binding::Site| match map {
            Map::PerPort => site.ports.iter().all(|(port, _)| of_ports[port.index()].len() <= queues),
            Map::PerSwitch => {
                let mut met: BTreeMap<SwitchId, BTreeSet<TenantId>> = BTreeMap::new();
                for (port, _) in &site.ports {
                    met.entry(self.sites.ports[port.index()].switch).or_default().extend(&of_ports[port.index()]);
                }
                met.values().all(|tenants| tenants.len() <= queues)
            }
        };
        self.sites.tenants.iter().map(of_tenant).collect()
    }

    /// The queues after a control interval in which these tenants were active: an active tenant's score is its payment,
    /// another's is 0.
    pub fn bind(&self, queues: &mut Queues, activity: &Activity) {
        let score = |(active, site): (&bool, &weir_binding::Site)| Score(if *active { site.payment.bps() } else { 0 });
        let scores: Vec<Score> = activity.active.iter().zip(&self.sites.tenants).map(score).collect();
        queues.allocate(&self.sites, &scores);
    }

    /// By tenant, whether it is alone in its queue at each of its ports, dedicated or shared.
    pub fn alone(&self, queues: &Queues) -> Vec<bool> {
        let of_ports = self.sites.tenants_of_ports();
        let sharing = |tenants: &Vec<TenantId>| tenants.iter().filter(|id| queues.of(**id).is_none()).count();
        let sharing: Vec<usize> = of_ports.iter().map(sharing).collect();
        let alone = |(id, site): (TenantId, &weir_binding::Site)| {
            queues.of(id).is_some() || site.ports.iter().all(|(port, _)| sharing[port.index()] <= 1)
        };
        self.sites.all().map(alone).collect()
    }

    /// The mean share of tenants that are alone in their queues over control intervals, in each of which other tenants
    /// are inactive.
    pub fn share_alone(&self, map: Map, inactive: f64, intervals: u32) -> f64 {
        let mut queues = Queues::new(&self.sites, map);
        let shares = (0..intervals.max(1)).map(|interval| {
            self.bind(&mut queues, &Activity::draw(self, inactive, interval));
            let alone = self.alone(&queues);
            self.share_of_tenants(|tenant| alone[tenant])
        });
        shares.sum::<f64>() / f64::from(intervals.max(1))
    }

    /// How many DSCP values distinguish the tenants with queues while all are active, with that of the shared queue;
    /// and how many of these tenants find none.
    pub fn dscp_values(&self, map: Map) -> (usize, usize) {
        let mut queues = Queues::new(&self.sites, map);
        self.bind(&mut queues, &Activity::all(self));
        let pool = pool(&BTreeSet::new());
        let mut values = Values::new(map);
        let with_queues: Vec<TenantId> = queues.dedicated().map(|(tenant, _)| tenant).collect();
        let found = with_queues.iter().filter(|tenant| values.take(&self.sites, **tenant, &pool).is_some()).count();
        let used: BTreeSet<u8> = values.all().values().copied().collect();
        (used.len() + 1, with_queues.len() - found)
    }
}
