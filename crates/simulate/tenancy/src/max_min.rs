//! Max-min fair gains: no tenant can gain without one with a smaller gain losing.
//!
//! Approach, progressive filling: the gain of all active tenants with queues of their own rises from 0 until a link is
//! full; its tenants keep their gain, and the others rise on. A tenant in the shared queue has gain 1 from the start.
//! Since no link is reserved beyond its capacity, no gain is below 1.
//!
//! Example: links of 10 Gb/s, tenants 1 on both with 1 Gb/s, 2 on the first with 4, 3 on the second with 1. At gain 2
//! the first link is full: tenants 1 and 2 keep it. Tenant 3 rises to 8, where the second link is full.
//!
//! Source: Bertsekas and Gallager, "Data Networks", §6.5.2.

use crate::fill::Filled;
use crate::gain::Interval;

/// The error of sums of floats, relative to a link.
const TINY: f64 = 1e-9;

/// A link while gains rise.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// The capacity beside tenants that keep their gain, bit/s.
    left: f64,
    /// The reservations of tenants that still rise, bit/s.
    rising: f64,
    /// How many still rise.
    count: usize,
}

impl Link {
    /// The gain at which the link is full.
    fn full_at(&self) -> f64 {
        if self.count == 0 { f64::INFINITY } else { (self.left / self.rising).max(0.0) }
    }
}

impl Filled {
    /// By tenant, its gain; of an inactive one the used part of its reservation. Tenants without links have 1.
    pub(crate) fn max_min(&self, interval: &Interval) -> Vec<f64> {
        let of_cables = self.tenants_of_cables();
        let active = &interval.activity.active;
        let mut gains: Vec<Option<f64>> = (active.iter().zip(&interval.dedicated).enumerate())
            .map(|(tenant, (active, dedicated))| match (active, dedicated) {
                _ if !self.crosses_links(tenant) => Some(1.0),
                (false, _) => Some(interval.inactive_use),
                (true, false) => Some(1.0),
                (true, true) => None,
            })
            .collect();
        let link = |(capacity, tenants): (&f64, &Vec<(usize, f64)>)| {
            let fixed: f64 = tenants.iter().filter_map(|(tenant, reserved)| Some(gains[*tenant]? * reserved)).sum();
            let rising = tenants.iter().filter(|(tenant, _)| gains[*tenant].is_none());
            let (sum, count) = rising.fold((0.0, 0), |(sum, count), (_, reserved)| (sum + reserved, count + 1));
            Link { left: capacity - fixed, rising: sum, count }
        };
        let mut links: Vec<Link> = self.capacity.iter().zip(&of_cables).map(link).collect();
        loop {
            let level = links.iter().map(Link::full_at).fold(f64::INFINITY, f64::min);
            if level == f64::INFINITY {
                break;
            }
            let full = (0..links.len()).filter(|at| links[*at].full_at() <= level * (1.0 + TINY));
            let full: Vec<usize> = full.collect();
            for (tenant, _) in full.into_iter().flat_map(|at| &of_cables[at]) {
                if gains[*tenant].is_some() {
                    continue;
                }
                gains[*tenant] = Some(level);
                for (cable, bandwidth) in &self.tenants[*tenant].fit.reservations {
                    let (link, reserved) = (&mut links[cable.index()], bandwidth.bps() as f64);
                    link.left -= level * reserved;
                    link.rising -= reserved;
                    link.count -= 1;
                }
            }
        }
        gains.into_iter().map(|gain| gain.unwrap_or(1.0)).collect()
    }
}
