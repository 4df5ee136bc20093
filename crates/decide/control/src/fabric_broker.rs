//! The fabric broker: one computation that shares all racks' uplinks, every 10 s.
//!
//! A service can be limited over all racks together, which no rack can enforce by itself. The
//! leader of each rack reports the rack's demand for each service. Every T_fabric the broker shares
//! each service among the racks by the node rule that racks use, and proposes limits to the racks
//! that offer more, until no rack does (`exchange.rs`). Then it sends each rack its limits. A service
//! below its share has a ceiling under a maximum of the fabric and where its capacity is contended.
//!
//! - Of several reports within one period the larger counts, service by service: a report may be
//!   duplicated, and two machines of a partitioned rack may both lead it.
//! - A silent rack's demands are kept ([`Stale::Keep`]) or count as zero after the timeout of 50 s
//!   ([`Stale::Forget`]). After the timeout the rack has returned to its own policy, and the broker
//!   sends it nothing.
//! - Leaders time their reports by the broker's limits: reports arrive from a half to three
//!   quarters of a period after them, and repeatedly while limits are missing
//!   (`rack_broker/leader.rs`). Within two periods of the last fault all racks hold limits from
//!   current reports.
//! - Reports older than a machine's last report are replays and are counted. A restarted broker has
//!   no demands: it shares the fabric when every rack has reported again, or one period after the
//!   start.
//! - Limits are ordered by `(epoch, round)`, so a restarted broker needs a higher epoch. Where machines have a higher
//!   one of it, it continues above that (`epochs.rs`), and they above what it has of them.
//!
//! Order of calls: as all brokers (crate documentation). Messages with limits are built while the
//! driver fetches them, so that 60,000 datagrams are not in memory at once. Messages that are not
//! fetched before the next period are dropped and counted.
//!
//! Size: demands, offers and limits are [quantised](crate::rate) and take 40 bytes for each rack and
//! service: 400 MB for 10,000 racks and 1,000 services.
//!
//! Worked example: `a` may use 10 Gb/s in all. Two racks report 8 Gb/s each: both are limited to 5
//! Gb/s. Then the first reports 3 Gb/s: it has a ceiling above that, and the second may use 7 Gb/s.
//!
//! Source: Parley §3.2.3, §5.3, Table 1. Deviates from the paper in: the maximum of the reports in
//! a period; reports timed by the limits; proposals; ceilings; the option to forget silent racks. See
//! `docs/design/fabric-broker.md`.

mod epochs;
mod exchange;
mod interface;
mod limits_queue;
mod racks;

pub(crate) use exchange::is_moved;
pub use interface::{FabricBrokerConfig, FabricBrokerCounters, FabricInput, FabricOutput};

use crate::epoch::Raises;
use crate::policy_update::{self, IncompatiblePolicy};
use crate::rack_broker::Stale;
use crate::rate::QuantisedRate;
use exchange::Exchange;
use limits_queue::LimitsQueue;
use racks::Rack;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_alloc::FabricAllocator;
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Instant, PerDirection, RackId};

/// The state machine. The module documentation gives its order of calls.
#[derive(Debug)]
pub struct FabricBroker {
    config: FabricBrokerConfig,
    allocator: FabricAllocator,
    epoch: u64,
    raises: Raises,
    round: u64,
    now: Instant,
    next_period: Instant,
    /// The start of the last allocation.
    last_start: Instant,
    /// Whether a demand changed by more than a tenth since then.
    changed: bool,
    /// Whether the limits in force are not those of the policy and the last allocation's demands.
    outdated: bool,
    exchange: Exchange,
    racks: Vec<Rack>,
    /// The number of racks without a complete report since the start.
    incomplete_racks: usize,
    /// By leaf, then by rack.
    demands: PerDirection<Vec<QuantisedRate>>,
    limits: PerDirection<Vec<QuantisedRate>>,
    pending_limits: LimitsQueue,
    /// Notices of epochs, and epochs to store.
    notices: VecDeque<FabricOutput>,
    counters: FabricBrokerCounters,
}

impl FabricBroker {
    /// A broker for all racks of `policy`. `epoch` must be higher than at any earlier start. The
    /// first period ends one period from `now`.
    pub fn new(policy: &Arc<Policy>, epoch: u64, config: FabricBrokerConfig, now: Instant) -> Self {
        let allocator = FabricAllocator::new(policy);
        let entries = allocator.leaves().len() * allocator.racks();
        Self {
            config,
            epoch,
            raises: Raises::default(),
            round: 0,
            now,
            next_period: now + config.period,
            last_start: now,
            changed: false,
            outdated: false,
            exchange: Exchange::new(allocator.leaves().len(), allocator.racks()),
            racks: vec![Rack::new(allocator.leaves().len()); allocator.racks()],
            incomplete_racks: allocator.racks(),
            demands: PerDirection::both(vec![QuantisedRate::ZERO; entries]),
            limits: PerDirection::both(vec![QuantisedRate::UNLIMITED; entries]),
            pending_limits: LimitsQueue::default(),
            notices: VecDeque::new(),
            counters: FabricBrokerCounters::default(),
            allocator,
        }
    }

    /// Replaces the policy by another one for the same racks, machines and services, from the next
    /// period on. Reported demands are kept. Reports made under the old policy are rejected.
    pub fn set_policy(&mut self, policy: &Arc<Policy>) -> Result<(), IncompatiblePolicy> {
        policy_update::check_compatible(self.allocator.policy(), policy)?;
        self.allocator = FabricAllocator::new(policy);
        self.outdated = true;
        self.exchange.cancel();
        // Limits that are not fetched yet were computed under the old policy.
        self.counters.dropped_outputs += self.pending_limits.clear();
        Ok(())
    }

    /// Handles an input at `now`. Time that goes back counts as standing still.
    pub fn handle_input(&mut self, now: Instant, input: FabricInput<'_>) {
        self.now = self.now.max(now);
        match input {
            FabricInput::Timeout => self.end_interval(),
            FabricInput::Report(report) => self.take_report(report),
            FabricInput::Reply(reply) => self.take_reply(reply),
            FabricInput::EpochNotice(notice) => self.take_epoch_notice(notice),
        }
    }

    /// When the next period ends, the wait for replies does, or changed demands may be shared.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let next = self.exchange.deadline.or_else(|| self.next_at_once());
        Some(next.map_or(self.next_period, |next| next.min(self.next_period)).max(self.now))
    }

    /// The counters since the start.
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
    /// The number of racks that reported within the timeout.
    pub fn racks_reporting(&self) -> usize {
        self.racks.iter().filter(|rack| rack.is_alive(self.now, self.config.timeout)).count()
    }
    /// The demand of a rack for the `leaf`-th leaf service.
    pub fn demand(&self, rack: RackId, leaf: usize, direction: Direction) -> Bandwidth {
        self.demands[direction][self.index(leaf, rack)].bandwidth()
    }
    /// The bandwidth that a rack offered to send of the `leaf`-th leaf service in the last round.
    pub fn offer(&self, rack: RackId, leaf: usize, direction: Direction) -> Bandwidth {
        self.exchange.offer(self.index(leaf, rack), direction)
    }
    /// The limit of a rack on the `leaf`-th leaf service in the last allocation;
    /// [`Bandwidth::UNLIMITED`] without one.
    pub fn limit(&self, rack: RackId, leaf: usize, direction: Direction) -> Bandwidth {
        self.limits[direction][self.index(leaf, rack)].bandwidth()
    }

    fn index(&self, leaf: usize, rack: RackId) -> usize {
        leaf * self.racks.len() + rack.index()
    }

    /// When changed demands may be shared; `None` if there are none. A broker without an allocation
    /// waits until all racks have reported, or for its first period's end: limits from the demands of
    /// a part of the racks would be too high.
    fn next_at_once(&self) -> Option<Instant> {
        let ready = self.round > 0 || self.incomplete_racks == 0;
        (self.changed && ready).then_some(self.last_start + self.config.interval)
    }

    fn end_interval(&mut self) {
        let ends = |at: Option<Instant>| at.is_some_and(|at| self.now >= at);
        if self.now >= self.next_period {
            self.next_period = self.now + self.config.period;
            self.start_allocation();
        } else if ends(self.exchange.deadline) {
            self.end_wait();
        } else if self.exchange.deadline.is_none() && ends(self.next_at_once()) {
            self.start_allocation();
        }
    }

    fn start_allocation(&mut self) {
        (self.last_start, self.changed) = (self.now, false);
        self.counters.dropped_outputs += self.pending_limits.clear();
        self.notices.retain(|output| matches!(output, FabricOutput::StoreEpoch(_)));
        if self.config.stale == Stale::Forget {
            self.forget_stale();
        }
        if self.round > 0 && !self.outdated && self.exchange.fits(&self.demands) {
            self.send_limits();
        } else {
            self.outdated = false;
            self.start_exchange();
        }
    }

    /// Puts the limits in force and sends them.
    fn end_allocation(&mut self) {
        self.put_in_force();
        self.outdated |= self.exchange.assumed;
        self.send_limits();
    }

    fn send_limits(&mut self) {
        self.round += 1;
        self.counters.dropped_outputs += self.pending_limits.clear();
        self.pending_limits.fill(&mut self.racks, self.now, self.config.timeout);
    }
}

#[cfg(test)]
mod epochs_tests;
#[cfg(test)]
mod exchange_tests;
#[cfg(test)]
mod tests;
