//! Bandwidth of tenants over their guarantees, and the use of links.
//!
//! Problem: a tenant with queues of its own takes what others leave on each of its links, and its slowest link decides.
//! Approach, by QShare's definition: at each of its links, the share of its queue by weighted fair queueing over its
//! reservation; the tenant's gain is the smallest of these, and it uses so many times its reservation of every link.
//! A tenant in the shared queue is limited to its guarantee and has gain 1. Inactive tenants use a part of their
//! reservations, or nothing.
//!
//! The smallest share of a tenant is not all that it can have: where another tenant is bound by a narrower link, it
//! leaves a part of its share. [`crate::max_min`] divides that, too.
//!
//! Example: links of 10 Gb/s. Tenant 1 reserves 1 Gb/s of both, tenant 2 has 4 of the first, tenant 3 has 1 of the
//! second. Shares are twice and five times the reservations, so the gains are 2, 2 and 5; of the second link 3 Gb/s are
//! not used. Max-min gives tenant 3 a gain of 8.
//!
//! Source: QShare §VII-C2, Figure 6.

use crate::fill::Filled;
use crate::share::{Queue, fair};
use rand::SeedableRng;
use rand::rngs::StdRng;
use weir_binding::{Map, Queues};

/// Apart from the seeds of arrivals.
const ACTIVITY: u64 = 0x71_5f_ac_71;

/// The tenants that have more to send than their guarantees in a control interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// By tenant.
    pub active: Vec<bool>,
}

impl Activity {
    /// All tenants are active.
    pub fn all(filled: &Filled) -> Self {
        Self { active: vec![true; filled.tenants.len()] }
    }
    /// A part of the tenants with links, chosen at random, is inactive; other tenants are active, and use no links.
    pub fn draw(filled: &Filled, inactive: f64, interval: u32) -> Self {
        let mut random = StdRng::seed_from_u64(filled.seed ^ ACTIVITY ^ u64::from(interval) << 32);
        let mut all = Self::all(filled);
        let crossing: Vec<usize> = (0..filled.tenants.len()).filter(|tenant| filled.crosses_links(*tenant)).collect();
        let count = (crossing.len() as f64 * inactive.clamp(0.0, 1.0)).round() as usize;
        for at in rand::seq::index::sample(&mut random, crossing.len(), count) {
            all.active[crossing[at]] = false;
        }
        all
    }
}

/// A control interval, as an experiment states it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// Where switches map packets to queues.
    pub map: Map,
    /// The share of inactive tenants, 0 to 1.
    pub inactive: f64,
    /// The part of their reservations that these use, 0 to 1.
    pub inactive_use: f64,
}

/// The division of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dividing {
    /// Every active tenant has its reservation.
    Static,
    /// By the weights of queues, each link by itself, and the smallest share decides (QShare's definition).
    Queues,
    /// By the weights of queues, with what slower links leave.
    MaxMin,
}

/// A control interval: active tenants and their queues.
#[derive(Debug, Clone)]
pub struct Interval {
    /// The active tenants.
    pub activity: Activity,
    /// By tenant, whether it has queues of its own; alone in the shared queue of every port is as good.
    pub dedicated: Vec<bool>,
    /// The part of their reservations that inactive tenants use, 0 to 1.
    pub inactive_use: f64,
}

impl Filled {
    /// The first control interval after tenants became active: tenants have the queues that Algorithm 2 gives them by
    /// their scores.
    pub fn interval(&self, when: Condition) -> Interval {
        let activity = Activity::draw(self, when.inactive, 0);
        let mut queues = Queues::new(&self.sites, when.map);
        self.bind(&mut queues, &activity);
        Interval { dedicated: self.alone(&queues), activity, inactive_use: when.inactive_use }
    }

    /// By tenant, its bandwidth over its reservation, the same at each of its links; `None` for tenants that are
    /// inactive or have no links.
    pub fn gains(&self, interval: &Interval, dividing: Dividing) -> Vec<Option<f64>> {
        let gain = match dividing {
            Dividing::Static => vec![1.0; self.tenants.len()],
            Dividing::Queues => self.smallest_shares(interval),
            Dividing::MaxMin => self.max_min(interval),
        };
        let counts = |tenant: usize| interval.activity.active[tenant] && self.crosses_links(tenant);
        gain.into_iter().enumerate().map(|(tenant, gain)| counts(tenant).then_some(gain)).collect()
    }

    /// By tenant, the smallest share of its queue over its reservation; 1 in the shared queue.
    fn smallest_shares(&self, interval: &Interval) -> Vec<f64> {
        let mut gains: Vec<f64> = vec![f64::INFINITY; self.tenants.len()];
        for (capacity, tenants) in self.capacity.iter().zip(self.tenants_of_cables()) {
            let own = tenants.iter().filter(|(tenant, _)| interval.dedicated[*tenant]);
            let own: Vec<(usize, f64)> = own.copied().collect();
            let shared = tenants.iter().filter(|(tenant, _)| !interval.dedicated[*tenant]);
            let (mut weight, mut demand) = (0.0, 0.0);
            for (tenant, reserved) in shared {
                weight += reserved;
                demand += if interval.activity.active[*tenant] { *reserved } else { interval.inactive_use * reserved };
            }
            let queue = |(tenant, reserved): &(usize, f64)| Queue {
                weight: *reserved,
                demand: match interval.activity.active[*tenant] {
                    true => f64::INFINITY,
                    false => interval.inactive_use * reserved,
                },
            };
            let queues: Vec<Queue> = own.iter().map(queue).chain([Queue { weight, demand }]).collect();
            for ((tenant, reserved), share) in own.iter().zip(fair(*capacity, &queues)) {
                gains[*tenant] = gains[*tenant].min(share / reserved);
            }
        }
        let bound = |(gain, dedicated): (f64, &bool)| if *dedicated { gain } else { 1.0 };
        gains.into_iter().zip(&interval.dedicated).map(bound).collect()
    }

    /// By cable, the tenants that reserve a part of it, and how much, bit/s.
    pub(crate) fn tenants_of_cables(&self) -> Vec<Vec<(usize, f64)>> {
        let mut all = vec![Vec::new(); self.capacity.len()];
        for (tenant, placed) in self.tenants.iter().enumerate() {
            for (cable, bandwidth) in &placed.fit.reservations {
                all[cable.index()].push((tenant, bandwidth.bps() as f64));
            }
        }
        all
    }

    /// The mean gain of tenants that have one; `None` of none.
    pub fn mean_gain(&self, interval: &Interval, dividing: Dividing) -> Option<f64> {
        let gains: Vec<f64> = self.gains(interval, dividing).into_iter().flatten().collect();
        (!gains.is_empty()).then(|| gains.iter().sum::<f64>() / gains.len() as f64)
    }

    /// By cable, the used part of what tenants can reserve, 0 to 1. Every active tenant uses its gain times its
    /// reservation.
    pub fn utilisation(&self, interval: &Interval, dividing: Dividing) -> Vec<f64> {
        let gains = self.gains(interval, dividing);
        let used = |(capacity, tenants): (&f64, Vec<(usize, f64)>)| {
            let part = |tenant: usize| gains[tenant].unwrap_or(interval.inactive_use);
            let bps: f64 = tenants.iter().map(|(tenant, reserved)| part(*tenant) * reserved).sum();
            if *capacity > 0.0 { bps / capacity } else { 0.0 }
        };
        self.capacity.iter().zip(self.tenants_of_cables()).map(used).collect()
    }
}
