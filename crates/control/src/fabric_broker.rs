//! The fabric broker: one sharing of all racks' uplinks, computed at one place every 10 s.
//!
//! Problem: a service may be held over all racks together, which no rack can do by itself (Parley §3.2.3, §5.3).
//! Approach: the leader of each rack says what each service would take; every T_fabric the broker shares each service
//! among the racks by the rule that racks use too, and answers each rack with the limits of those of its services
//! that reach their share. A service below its share is not limited.
//!
//! - Of reports within one period the larger counts, service by service: a rack may report twice, and two of its
//!   machines may believe that they lead while they see different entries of it.
//! - A rack that fell silent keeps its last word ([`Stale::Keep`]) or counts as idle after the timeout, 50 s
//!   ([`Stale::Forget`]); a rack that hears nothing for as long goes back to its own policy. Nobody answers a rack
//!   after the timeout: there is nobody to hear it.
//! - Leaders time their reports by its words (`rack_broker/leader.rs`): they come from a half to three quarters of a
//!   period after one, and again when none comes. Within two periods of the last loss all racks agree.
//! - Reports older than what their machine said before are replays and are counted. What was said before the
//!   broker's own start it does not know: the first allocation comes a period after the start, when every leader has
//!   reported again.
//! - LimitsQueue are ordered by `(epoch, round)`, so a broker that starts anew needs a higher epoch, as a rack's.
//!
//! Size: rates are kept as [coded](crate::rate), 16 bytes for each rack and service (its demands and limits in both
//! directions): 160 MB for 10,000 racks and 1,000 services.
//!
//! Order of calls: as all brokers. LimitsQueue are made one by one while the driver fetches them, so that 60,000 datagrams
//! need not be held at once; what is not fetched before the next period is dropped and counted.
//!
//! Worked example: `a` at most 10 Gb/s in all. Two racks report 8 each: both are limited to 5. Then the first reports
//! 3: it is not limited, and the second may have 7.

mod interface;
mod limits_queue;
mod racks;

pub use interface::{FabricBrokerConfig, FabricBrokerCounters, FabricInput, FabricOutput};

use crate::policy_update::{self, IncompatiblePolicy};
use crate::rack_broker::Stale;
use crate::rate::QuantisedRate;
use limits_queue::LimitsQueue;
use racks::Rack;
use std::sync::Arc;
use weir_alloc::{FabricAllocator, RackRows};
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Instant, PerDirection, RackId};

/// The state machine. See the module's doc for its order of calls.
#[derive(Debug)]
pub struct FabricBroker {
    config: FabricBrokerConfig,
    allocator: FabricAllocator,
    epoch: u64,
    round: u64,
    now: Instant,
    next_period: Instant,
    racks: Vec<Rack>,
    /// By leaf, then by rack.
    demands: PerDirection<Vec<QuantisedRate>>,
    limits: PerDirection<Vec<QuantisedRate>>,
    pending_limits: LimitsQueue,
    counters: FabricBrokerCounters,
}

impl FabricBroker {
    /// A broker for all racks of `policy`. `epoch` must be higher than at any earlier start. The first period ends
    /// one period from `now`.
    pub fn new(policy: &Arc<Policy>, epoch: u64, config: FabricBrokerConfig, now: Instant) -> Self {
        let allocator = FabricAllocator::new(policy);
        let entries = allocator.leaves().len() * allocator.racks();
        Self {
            config,
            epoch,
            round: 0,
            now,
            next_period: now + config.period,
            racks: vec![Rack::new(allocator.leaves().len()); allocator.racks()],
            demands: PerDirection::both(vec![QuantisedRate::ZERO; entries]),
            limits: PerDirection::both(vec![QuantisedRate::UNLIMITED; entries]),
            pending_limits: LimitsQueue::default(),
            counters: FabricBrokerCounters::default(),
            allocator,
        }
    }

    /// Puts another policy for the same racks, machines and services in place, from the next period on. What was
    /// reported stays known; racks whose machines still have the old policy are not listened to.
    pub fn set_policy(&mut self, policy: &Arc<Policy>) -> Result<(), IncompatiblePolicy> {
        policy_update::check_compatible(self.allocator.policy(), policy)?;
        self.allocator = FabricAllocator::new(policy);
        // LimitsQueue that are not fetched yet were computed from the old one.
        self.counters.dropped_outputs += self.pending_limits.clear();
        Ok(())
    }

    /// Tells the broker what happened at `now`. Time that goes back is taken as standing still.
    pub fn handle_input(&mut self, now: Instant, input: FabricInput<'_>) {
        self.now = self.now.max(now);
        match input {
            FabricInput::Timeout => self.end_period(),
            FabricInput::Report(report) => self.take_report(report),
        }
    }

    /// When the next period ends.
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next_period)
    }

    /// What was counted.
    pub fn counters(&self) -> &FabricBrokerCounters {
        &self.counters
    }
    /// The allocator, for the order of leaf services.
    pub fn allocator(&self) -> &FabricAllocator {
        &self.allocator
    }
    /// How many periods have ended since the start.
    pub fn round(&self) -> u64 {
        self.round
    }
    /// How many racks reported within the timeout.
    pub fn racks_reporting(&self) -> usize {
        self.racks.iter().filter(|rack| rack.is_alive(self.now, self.config.timeout)).count()
    }
    /// What a rack asks for of the `leaf`-th leaf service.
    pub fn demand(&self, rack: RackId, leaf: usize, direction: Direction) -> Bandwidth {
        self.demands[direction][self.index(leaf, rack)].bandwidth()
    }
    /// The limit of a rack on the `leaf`-th leaf service, as computed last; [`Bandwidth::UNLIMITED`] when none.
    pub fn limit(&self, rack: RackId, leaf: usize, direction: Direction) -> Bandwidth {
        self.limits[direction][self.index(leaf, rack)].bandwidth()
    }

    fn index(&self, leaf: usize, rack: RackId) -> usize {
        leaf * self.racks.len() + rack.index()
    }

    fn end_period(&mut self) {
        if self.now < self.next_period {
            return;
        }
        self.next_period = self.now + self.config.period;
        self.round += 1;
        self.counters.dropped_outputs += self.pending_limits.clear();
        if self.config.stale == Stale::Forget {
            self.forget_stale();
        }
        let racks = self.racks.len();
        for direction in Direction::ALL {
            let limits = &mut self.limits[direction];
            self.allocator.allocate(
                direction,
                &self.demands[direction],
                |rate| rate.bandwidth(),
                |leaf, rows| {
                    let limits = &mut limits[leaf * racks..(leaf + 1) * racks];
                    match rows {
                        RackRows::Demands => limits.fill(QuantisedRate::UNLIMITED),
                        RackRows::Limits(rates) => {
                            limits.iter_mut().zip(rates).for_each(|(limit, rate)| *limit = QuantisedRate::of(*rate));
                        }
                    }
                },
            );
        }
        self.pending_limits.fill(&mut self.racks, self.now, self.config.timeout);
    }
}

#[cfg(test)]
mod tests;
