//! [`Requests`]: tenants at random.
//!
//! Example: a mean of 49 virtual machines gives one tenant of 49 · ln 2 = 34 of them at the median, and one of eight
//! more than 100.
//!
//! Source: QShare §VII-C1: the number of virtual machines is exponential with mean 49, "each VM randomly samples its
//! required bandwidth from {10, 50, 100, 200, 300} Mbps". Its placement has one bandwidth for all virtual machines of a
//! tenant, so either reading is possible ([`DrawnPer`]).

use rand::Rng;
use weir_placement::{Group, Hose};
use weir_units::Bandwidth;

/// The subject of a random bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DrawnPer {
    /// All virtual machines of a tenant have the same.
    #[default]
    Tenant,
    /// Each virtual machine has its own.
    Vm,
}

/// The distribution of tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    /// The mean of the exponential number of virtual machines.
    pub mean_vms: u32,
    /// No tenant has fewer.
    pub least_vms: u32,
    /// A bandwidth is one of these, each as often as the others; at least one.
    pub bandwidths: Vec<Bandwidth>,
    /// Whether a tenant or each virtual machine draws one.
    pub drawn_per: DrawnPer,
}

impl Requests {
    /// The next tenant.
    ///
    /// # Panics
    /// If there are no bandwidths.
    pub fn draw(&self, random: &mut impl Rng) -> Hose {
        // From (0, 1]: the logarithm of 0 has no value.
        let exponential = -(1.0 - random.random::<f64>()).ln() * f64::from(self.mean_vms);
        let vms = (exponential.round() as u32).max(self.least_vms);
        match self.drawn_per {
            DrawnPer::Tenant => Hose::uniform(vms, self.bandwidths[random.random_range(0..self.bandwidths.len())]),
            DrawnPer::Vm => {
                let mut counts = vec![0; self.bandwidths.len()];
                for _ in 0..vms {
                    let drawn = random.random_range(0..counts.len());
                    counts[drawn] += 1;
                }
                let groups = counts.into_iter().zip(&self.bandwidths).filter(|(vms, _)| *vms > 0);
                Hose::new(groups.map(|(vms, bandwidth)| Group { vms, bandwidth: *bandwidth }).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    #[test]
    fn numbers_are_exponential_and_bandwidths_are_uniform() {
        for drawn_per in [DrawnPer::Tenant, DrawnPer::Vm] {
            let bandwidths = [10, 50, 300].map(Bandwidth::from_mbps).to_vec();
            let requests = Requests { mean_vms: 49, least_vms: 2, bandwidths, drawn_per };
            let mut random = StdRng::seed_from_u64(1);
            let drawn: Vec<Hose> = (0..20_000).map(|_| requests.draw(&mut random)).collect();
            let all: u64 = drawn.iter().map(|hose| u64::from(hose.vms())).sum();
            let mean = all as f64 / drawn.len() as f64;
            assert!((mean - 49.0).abs() < 1.0, "{mean}");
            let above = drawn.iter().filter(|hose| hose.vms() > 100).count() as f64 / drawn.len() as f64;
            assert!((above - (-100.5f64 / 49.0).exp()).abs() < 0.01, "{above}");
            assert!(drawn.iter().all(|hose| hose.vms() >= 2));
            // The mean of 10, 50 and 300 is 120.
            let bps: f64 = drawn.iter().map(|hose| hose.bandwidth().bps() as f64).sum();
            assert!((bps / all as f64 / 120e6 - 1.0).abs() < 0.03, "{}", bps / all as f64);
            let several = drawn.iter().any(|hose| hose.groups().len() > 1);
            assert_eq!(several, drawn_per == DrawnPer::Vm);
        }
    }
}
