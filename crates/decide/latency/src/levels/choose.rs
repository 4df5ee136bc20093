//! Levels and factors for services that name only a worst latency.
//!
//! Problem: the slides of QJump leave the levels to applications and name no way to find their rates. Approach: the
//! bounds are known for every choice, so choose:
//!
//! 1. the fewest levels with which every target holds;
//! 2. of these the choice in which the least generous level is most generous: the largest minimum over levels of ρ over
//!    the rate that a host needs there.
//!
//! Services are sorted by their targets and cut into levels in this order: of two services the one with the longer time
//! is never on the more urgent level. Factors are whole numbers up to 16 and then 25 % apart. A factor raises the delay
//! of its own level and of those below, by its bursts, so each list of candidates ends at the first that is too slow.
//! Where the policy has factors, a service gets the least urgent level that keeps its target.
//!
//! Last the largest super-packets of bulk traffic with which every target still holds.
//!
//! Worked example: `docs/how-to/levels.md`.

use super::bounds::{Bounds, Premise, senders_of};
use super::traffic::{LevelNetwork, Levelled, Sizes, segments_at_most};
use crate::calculus::{Cycle, LevelTraffic, SenderMask};
use std::cmp::Ordering;
use weir_policy::language::{MAX_FACTOR, MAX_LEVELS};
use weir_policy::{Level, LevelSettings, Levels, Policy, WorstLatency};
use weir_units::{Bandwidth, Duration, ServiceId};

/// The choice of the planner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The factor of each level.
    pub factors: Vec<u32>,
    /// The level of each service on a level, in id order.
    pub levels: Vec<(ServiceId, Level)>,
    /// The most segments of super-packets of other traffic; `None` where Linux's own limit keeps every target.
    pub segments: Option<u32>,
    /// The level that is least generous: ρ, and the rate that a host needs there.
    pub least: (Level, Bandwidth, Bandwidth),
}

/// No level keeps the target of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortfall {
    /// The shortest time of the service's messages with any choice.
    Time {
        /// The service.
        service: ServiceId,
        /// Its time.
        least: Duration,
    },
    /// The messages of a service's host need more than the rates of levels.
    Rate {
        /// The service.
        service: ServiceId,
        /// The rate that its host needs on the wire.
        needed: Bandwidth,
        /// The largest rate of a host.
        most: Bandwidth,
    },
    /// A frame of P carries no payload.
    Frame {
        /// The service.
        service: ServiceId,
    },
    /// A port's buffer is smaller than the backlog of a level with any choice.
    Buffer {
        /// A class of ports, as an index.
        port: usize,
    },
    /// Ports of the network depend on each other.
    Cycle(Cycle),
}

/// Chooses the levels of a policy with `level: auto`.
///
/// # Errors
/// [`Shortfall`] if no choice keeps every target.
///
/// # Panics
/// If the policy has no levels.
pub fn choose(policy: &Policy, network: &LevelNetwork) -> Result<Chosen, Shortfall> {
    let levels = policy.levels().expect("a policy with levels");
    let settings = levels.settings();
    // The smallest super-packets first: whether any choice holds does not depend on larger ones.
    let sizes = Sizes::Segments(settings.segments.unwrap_or(1));
    let mut search = Search { network, settings, sizes, best: None, shortfall: None };
    match levels.all().is_empty() {
        true => search.factors()?,
        false => search.assign(policy, levels)?,
    }
    let Some(best) = search.best else {
        return Err(search.shortfall.unwrap_or(Shortfall::Frame { service: network.services[0].id }));
    };
    let segments = match settings.segments {
        Some(segments) => Some(segments),
        None => best.largest_segments(network, settings).map_err(Shortfall::Cycle)?,
    };
    let services = network.services.iter().zip(&best.level_of);
    Ok(Chosen {
        levels: services.map(|(service, level)| (service.id, Level::from_index(*level))).collect(),
        segments,
        least: best.least,
        factors: best.factors,
    })
}

/// A choice that keeps every target.
struct Choice {
    factors: Vec<u32>,
    /// By service.
    level_of: Vec<usize>,
    traffic: Vec<LevelTraffic>,
    least: (Level, Bandwidth, Bandwidth),
}

impl Choice {
    /// The most segments with which it holds; `None` where all of Linux's do.
    fn largest_segments(&self, network: &LevelNetwork, settings: &LevelSettings) -> Result<Option<u32>, Cycle> {
        let holds = |segments: u32| {
            let level_of = |service: &Levelled| Level::from_index(self.level_of[service.index]);
            let sizes = Sizes::Segments(segments);
            Ok::<bool, Cycle>(Bounds::new(network, settings, sizes, &self.traffic, level_of)?.is_kept())
        };
        let most = segments_at_most(network.graph().packets);
        if holds(most)? {
            return Ok(None);
        }
        // Holds at the low end, not at the high end.
        let (mut low, mut high) = (1, most);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if holds(middle)? { low = middle } else { high = middle }
        }
        Ok(Some(low))
    }
}

struct Search<'a> {
    network: &'a LevelNetwork,
    settings: &'a LevelSettings,
    sizes: Sizes,
    best: Option<Choice>,
    /// The nearest miss.
    shortfall: Option<Shortfall>,
}

/// A fraction of two rates.
fn compare((a, b): (Bandwidth, Bandwidth), (c, d): (Bandwidth, Bandwidth)) -> Ordering {
    let product = |a: Bandwidth, b: Bandwidth| u128::from(a.bps()) * u128::from(b.bps().max(1));
    product(a, d).cmp(&product(c, b))
}

impl Search<'_> {
    /// Factors and levels, the fewest levels first.
    fn factors(&mut self) -> Result<(), Shortfall> {
        let mut order: Vec<usize> = (0..self.network.services.len()).collect();
        let target = |service: &usize| self.network.services[*service].target.map(|target| self.one_way(&target));
        order.sort_by_key(target);
        // Services with equal targets stay together.
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for service in order {
            match groups.last_mut() {
                Some(last) if target(&last[0]) == target(&service) => last.push(service),
                _ => groups.push(vec![service]),
            }
        }
        for levels in 1..=groups.len().min(MAX_LEVELS) {
            for cuts in cuts(groups.len(), levels) {
                let mut level_of = vec![0; self.network.services.len()];
                for (group, services) in groups.iter().enumerate() {
                    let level = cuts.iter().filter(|cut| **cut <= group).count();
                    services.iter().for_each(|service| level_of[*service] = level);
                }
                self.vectors(&level_of, levels, &mut Vec::new()).map_err(Shortfall::Cycle)?;
            }
            if self.best.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The time that a target leaves to one way.
    fn one_way(&self, target: &WorstLatency) -> Duration {
        Duration::from_nanos(target.worst.nanos() / if target.round_trip { 2 } else { 1 })
    }

    /// Every ascending vector of candidates that begins with `factors`.
    fn vectors(&mut self, level_of: &[usize], levels: usize, factors: &mut Vec<u32>) -> Result<(), Cycle> {
        if factors.len() == levels {
            return self.consider(level_of, factors);
        }
        let mut factor = factors.last().map_or(1, |last| last + 1);
        loop {
            factors.push(factor);
            // The first candidate is always tried, so that a shortfall has a value.
            let tried = self.is_fast_enough(level_of, factors)?;
            if tried || factors.iter().all(|factor| *factor <= levels as u32) {
                self.vectors(level_of, levels, factors)?;
            }
            factors.pop();
            factor = next_candidate(factor);
            if !tried || factor > MAX_FACTOR {
                return Ok(());
            }
        }
    }

    fn senders(&self, level_of: &[usize], level: usize) -> SenderMask {
        let on = self.network.services.iter().zip(level_of).filter(|(_, of)| **of == level);
        senders_of(on.map(|(service, _)| service))
    }

    /// The traffic of levels of these factors; with `epoch` none, of their bursts alone.
    fn traffic(&self, level_of: &[usize], factors: &[u32], epoch: Option<Duration>) -> Vec<LevelTraffic> {
        let level = |(level, factor): (usize, &u32)| LevelTraffic {
            senders: self.senders(level_of, level),
            burst: self.settings.burst(*factor),
            rate: epoch.map_or(Bandwidth::ZERO, |epoch| self.settings.rate(*factor, epoch)),
        };
        factors.iter().enumerate().map(level).collect()
    }

    /// Whether the last of these levels could keep its targets by its bursts and those above alone: larger factors only
    /// raise its delay.
    fn is_fast_enough(&self, level_of: &[usize], factors: &[u32]) -> Result<bool, Cycle> {
        let traffic = self.traffic(level_of, factors, None);
        let bound = self.network.bounds(self.settings, self.sizes, &traffic)?;
        let level = factors.len() - 1;
        let on = self.network.services.iter().zip(level_of).filter(|(_, of)| **of == level);
        let target = on.filter_map(|(service, _)| service.target).map(|target| self.one_way(&target)).min();
        Ok(match (bound.paths[level], target) {
            (Some(path), Some(target)) => path <= target,
            _ => true,
        })
    }

    /// The bounds of a choice, and its traffic.
    fn bounds(&self, level_of: &[usize], factors: &[u32]) -> Result<(Bounds, Vec<LevelTraffic>), Cycle> {
        let counts = (0..factors.len()).map(|level| self.network.sender_count(self.senders(level_of, level)));
        let epoch = self.settings.epoch_time(factors.iter().copied().zip(counts));
        let traffic = self.traffic(level_of, factors, Some(epoch));
        let index = |service: &Levelled| Level::from_index(level_of[service.index]);
        Ok((Bounds::new(self.network, self.settings, self.sizes, &traffic, index)?, traffic))
    }

    /// Keeps a choice if it holds and is the best.
    fn consider(&mut self, level_of: &[usize], factors: &[u32]) -> Result<(), Cycle> {
        let (bounds, traffic) = self.bounds(level_of, factors)?;
        if !bounds.is_kept() {
            self.missed(&bounds);
            return Ok(());
        }
        let of =
            bounds.services.iter().map(|service| (service.level, traffic[service.level.index()].rate, service.needed));
        let Some(least) = of.min_by(|a, b| compare((a.1, a.2), (b.1, b.2))) else { return Ok(()) };
        let better = |best: &Choice| compare((least.1, least.2), (best.least.1, best.least.2)) == Ordering::Greater;
        if self.best.as_ref().is_none_or(better) {
            self.best = Some(Choice { factors: factors.to_vec(), level_of: level_of.to_vec(), traffic, least });
        }
        Ok(())
    }

    /// Stores the nearest miss: a service that no choice so far serves, with its shortest time.
    fn missed(&mut self, bounds: &Bounds) {
        let shortfall = bounds.services.iter().filter(|service| !service.is_kept()).find_map(|service| {
            Some(match service.worst? {
                Ok(least) => Shortfall::Time { service: service.service, least },
                Err(Premise::Rate { needed, most }) => Shortfall::Rate { service: service.service, needed, most },
                Err(Premise::Frame) => Shortfall::Frame { service: service.service },
                Err(Premise::Unbounded | Premise::Unknown(_)) => return None,
            })
        });
        let overflow = bounds.levels.iter().find_map(|level| level.overflows).map(|port| Shortfall::Buffer { port });
        let new = shortfall.or(overflow);
        let nearer = match (&self.shortfall, &new) {
            (None, _) => true,
            (Some(Shortfall::Time { service, least }), Some(Shortfall::Time { service: other, least: time })) => {
                service == other && time < least
            }
            (Some(Shortfall::Rate { service, most, .. }), Some(Shortfall::Rate { service: other, most: more, .. })) => {
                service == other && more > most
            }
            // A time was found, so the rate suffices with other factors.
            (Some(Shortfall::Rate { .. }), Some(Shortfall::Time { .. })) => true,
            _ => false,
        };
        if nearer && new.is_some() {
            self.shortfall = new;
        }
    }

    /// The least urgent level of the policy's factors for each service that has none.
    fn assign(&mut self, policy: &Policy, levels: &Levels) -> Result<(), Shortfall> {
        let factors: Vec<u32> = levels.all().iter().map(|level| level.factor).collect();
        let last = factors.len() - 1;
        let fixed: Vec<Option<usize>> =
            self.network.services.iter().map(|service| policy.level_of(service.id).map(Level::index)).collect();
        let mut level_of: Vec<usize> = fixed.iter().map(|level| level.unwrap_or(last)).collect();
        loop {
            self.consider(&level_of, &factors).map_err(Shortfall::Cycle)?;
            if self.best.is_some() {
                return Ok(());
            }
            let (bounds, _) = self.bounds(&level_of, &factors).map_err(Shortfall::Cycle)?;
            // Those that are too slow move up a level, all at once; each moves at most as often as there are levels.
            let mut moved = false;
            for (service, bound) in bounds.services.iter().enumerate() {
                if !bound.is_kept() && fixed[service].is_none() && level_of[service] > 0 {
                    level_of[service] -= 1;
                    moved = true;
                }
            }
            if !moved {
                return Ok(());
            }
        }
    }
}

/// The next factor that is tried: every number up to 16, then 25 % more.
fn next_candidate(factor: u32) -> u32 {
    if factor < 16 { factor + 1 } else { factor.saturating_add(factor / 4) }
}

/// All ways to cut a row of `groups` into `levels` parts: the index of the first group of each part but the first.
fn cuts(groups: usize, levels: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for cut in 1..levels {
        let longer = |cuts: &Vec<usize>| {
            let first = cuts.last().map_or(1, |last| last + 1);
            let left = levels - 1 - cut;
            (first..groups - left).map(|at| [cuts.as_slice(), &[at]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_in_every_way() {
        assert_eq!(cuts(4, 1), [Vec::<usize>::new()]);
        assert_eq!(cuts(4, 2), [[1], [2], [3]]);
        assert_eq!(cuts(4, 3), [[1, 2], [1, 3], [2, 3]]);
        assert_eq!(cuts(3, 3), [[1, 2]]);
    }

    #[test]
    fn candidates_reach_every_magnitude() {
        let all =
            std::iter::successors(Some(1), |factor| Some(next_candidate(*factor)).filter(|next| *next <= 1_000_000));
        assert_eq!(all.count(), 16 + 49);
    }
}
