//! The rounds of an allocation: limits are proposed to the racks until they hold.
//!
//! Problem: a rack's limits change what its other services can send. Limits computed from one report
//! are therefore not those of `allocate`, and repeating them once a fabric period finds its result
//! slowly, or cycles. Approach: the broker and the racks' leaders carry out the rounds of
//! [`weir_alloc::allocate`] on the reported demands, and nothing is in force before they end.
//!
//! 1. Each rack's offers are the shares that it reported: those without limits of the fabric.
//! 2. The broker shares the fabric by the offers. A rack with less than it offers has a limit from
//!    then on; it is proposed to the rack's leader.
//! 3. The leader replies with its offers under the proposed limits, computed with the demands of its
//!    report. Steps 2 and 3 repeat until no rack offers more than its limit, [`ROUNDS`] times at
//!    most.
//!
//! The broker waits for replies for [`PATIENCE`] of a period. A rack without a reply, or without a
//! leader, keeps its offers, lowered to the proposed limits. Of two leaders in a partition the larger
//! offer counts.
//!
//! While no demand and no offer differs by more than [`STEADY_PART`] of itself from those of the last
//! allocation, its limits are sent again, and nothing is proposed. A reported demand is a share
//! without limits, which does not show all changes: where `a` and `b` fill an uplink and `b` has a
//! limit, `a` may grow by what `b` leaves. So a leader whose offers under the last proposed limits
//! change sends a reply to them once more.
//!
//! An exchange is identified by the broker's epoch and a number, which proposals and replies carry:
//! a late or a recorded reply belongs to no current exchange.
//!
//! Worked example: an uplink of 9 in each of three racks, `a` and `b` backlogged, limited to 14 and
//! 10 in the whole fabric. The offers are 4.5 and 4.5. `b` may have 3.3 in each rack, so the racks
//! offer 5.7 of `a`; three times that exceeds 14, so `a` is limited to 4.7. Now the racks offer 4.7
//! and 3.3, and these limits are in force.
//!
//! Source: Parley §3.2.3 for the step; the repetition is a fill. See `docs/design/fabric-broker.md`.

use super::FabricBroker;
use super::racks::{LeafSet, Rack, is_changed};
use crate::fabric_message::RackReport;
use crate::rack_broker::LimitRule;
use crate::rate::QuantisedRate;
use weir_alloc::fabric::ROUNDS;
use weir_alloc::rack::WORTH_A_ROUND;
use weir_alloc::{FabricAllocator, RackRows};
use weir_units::{Bandwidth, Direction, Duration, Instant, MachineId, PerDirection, RackId, ServiceId};

/// The broker waits this part of a period for replies: longer than any leader needs to compute, and
/// all rounds together end before the next period does.
const PATIENCE: (u64, u64) = (1, 10);

/// Demands that changed by less than this part change no limit by more: within the variation of a
/// steady load.
const STEADY_PART: u64 = 64;

/// The rounds of one allocation.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The number of the current exchange; it increases with each one, over all allocations.
    pub(super) number: u64,
    /// The rounds of this allocation so far.
    rounds: u32,
    /// Whether a rack's offers had to be assumed in any of them.
    pub(super) assumed: bool,
    /// The end of the wait for replies; `None` while there is none.
    pub(super) deadline: Option<Instant>,
    /// By leaf, then by rack: the demands from which the limits in force were computed.
    basis: PerDirection<Vec<QuantisedRate>>,
    /// The racks' offers.
    offers: PerDirection<Vec<QuantisedRate>>,
    /// The proposed limits.
    pub(super) limits: PerDirection<Vec<QuantisedRate>>,
    /// By rack: the replies that are awaited; `None` if none is.
    awaited: Vec<Option<Awaited>>,
    /// The number of racks of which a reply is awaited.
    awaited_racks: usize,
    /// By rack: the number of its last proposal in this allocation; zero without one.
    proposed: Vec<u64>,
    /// By rack: whether no machine replied to a proposal of this allocation. It has no more of them:
    /// each would take the whole wait, and all racks' limits would be late.
    silent: Vec<bool>,
}

/// The awaited replies of a rack.
#[derive(Debug, Clone)]
struct Awaited {
    /// The machines that have not replied, each with the leaves in its reply so far.
    machines: Vec<(MachineId, LeafSet)>,
    /// The leaves in any reply.
    covered: LeafSet,
    /// Whether a machine has replied for all leaves.
    replied: bool,
}

impl Exchange {
    pub(super) fn new(leaves: usize, racks: usize) -> Self {
        Self {
            number: 0,
            rounds: 0,
            assumed: false,
            deadline: None,
            basis: PerDirection::both(vec![QuantisedRate::ZERO; leaves * racks]),
            offers: PerDirection::both(vec![QuantisedRate::ZERO; leaves * racks]),
            limits: PerDirection::both(vec![QuantisedRate::UNLIMITED; leaves * racks]),
            awaited: vec![None; racks],
            awaited_racks: 0,
            proposed: vec![0; racks],
            silent: vec![false; racks],
        }
    }

    /// Shares the fabric by the offers and lowers the proposed limits. Returns by rack whether it
    /// offers more than its limit.
    fn share(&mut self, allocator: &mut FabricAllocator) -> Vec<bool> {
        let racks = allocator.racks();
        let mut exceeded = vec![false; racks];
        for direction in Direction::ALL {
            let (offers, limits) = (&self.offers[direction], &mut self.limits[direction]);
            allocator.allocate(
                direction,
                offers,
                |rate| rate.bandwidth(),
                |leaf, rows| {
                    let RackRows::Limits(rates) = rows else { return };
                    let range = leaf * racks..(leaf + 1) * racks;
                    for (rack, ((rate, offer), limit)) in
                        rates.iter().zip(&offers[range.clone()]).zip(&mut limits[range]).enumerate()
                    {
                        if !rate.is_unlimited() {
                            *limit = QuantisedRate::of(*rate);
                            exceeded[rack] |= is_exceeded(*rate, offer.bandwidth());
                        }
                    }
                },
            );
        }
        exceeded
    }

    /// Lowers a rack's offers to its proposed limits, without a reply.
    fn lower_offers(&mut self, rack: usize) {
        self.assumed = true;
        let racks = self.awaited.len();
        for direction in Direction::ALL {
            let limits = self.limits[direction].iter().skip(rack).step_by(racks);
            for (offer, limit) in self.offers[direction].iter_mut().skip(rack).step_by(racks).zip(limits) {
                *offer = (*offer).min(*limit);
            }
        }
    }

    pub(super) fn offer(&self, index: usize, direction: Direction) -> Bandwidth {
        self.offers[direction][index].bandwidth()
    }

    /// Whether limits were proposed to a rack in the last allocation, and are not any more.
    pub(super) fn has_proposed(&self, rack: usize) -> bool {
        self.proposed[rack] > 0 && self.deadline.is_none()
    }

    /// Ends the wait for replies without a result.
    pub(super) fn cancel(&mut self) {
        self.deadline = None;
        self.awaited.fill(None);
        self.awaited_racks = 0;
    }

    /// Whether the limits in force still fit the demands.
    pub(super) fn fits(&self, demands: &PerDirection<Vec<QuantisedRate>>) -> bool {
        let close = |(now, then): (&QuantisedRate, &QuantisedRate)| !is_moved(now.bandwidth(), then.bandwidth());
        let all = |direction| demands[direction].iter().zip(&self.basis[direction]).all(close);
        self.deadline.is_none() && Direction::ALL.into_iter().all(all)
    }

    /// Takes a part of an awaited reply. Returns whether it completes the reply of its machine.
    fn take_offers(&mut self, rack: usize, from: MachineId, offers: Vec<(usize, PerDirection<QuantisedRate>)>) -> bool {
        let racks = self.awaited.len();
        let Some(awaited) = &mut self.awaited[rack] else { return false };
        let Some(index) = awaited.machines.iter().position(|(machine, _)| *machine == from) else { return false };
        for (leaf, rates) in offers {
            awaited.machines[index].1.add(leaf);
            // Of two leaders in a partition the larger offer counts.
            let first = awaited.covered.add(leaf);
            for direction in Direction::ALL {
                let (rate, offer) = (rates[direction], &mut self.offers[direction][leaf * racks + rack]);
                *offer = if first { rate } else { rate.max(*offer) };
            }
        }
        let complete = awaited.machines[index].1.count() * racks == self.limits.tx.len();
        if complete {
            awaited.machines.swap_remove(index);
            awaited.replied = true;
            if awaited.machines.is_empty() {
                self.awaited[rack] = None;
                self.awaited_racks -= 1;
            }
        }
        complete
    }

    /// Awaits replies of these machines of a rack.
    fn await_replies(&mut self, rack: usize, machines: &[MachineId], leaves: usize) {
        let covered = LeafSet::new(leaves);
        let machines = machines.iter().map(|machine| (*machine, covered.clone())).collect();
        self.awaited[rack] = Some(Awaited { machines, covered, replied: false });
        self.awaited_racks += 1;
        self.proposed[rack] = self.number;
    }
}

/// By leaf of a reply's range: the offers.
fn offers_of(reply: &RackReport, leaves: &[ServiceId]) -> Vec<(usize, PerDirection<QuantisedRate>)> {
    let mut rows = reply.rows.iter().peekable();
    let range = leaves.iter().enumerate().filter(|(_, service)| (reply.first..=reply.last).contains(service));
    let of = |(leaf, service): (usize, &ServiceId)| {
        let row = rows.next_if(|row| row.service == *service);
        let rate = |direction| QuantisedRate::of(row.map_or(Bandwidth::ZERO, |row| row.rates[direction]));
        (leaf, PerDirection { tx: rate(Direction::Tx), rx: rate(Direction::Rx) })
    };
    range.map(of).collect()
}

/// Whether a rate differs by more than [`STEADY_PART`].
pub(crate) fn is_moved(now: Bandwidth, then: Bandwidth) -> bool {
    now.bps().abs_diff(then.bps()) > then.bps() / STEADY_PART
}

/// Whether an offer exceeds a limit by more than rounding does.
fn is_exceeded(limit: Bandwidth, offer: Bandwidth) -> bool {
    let rounding = Bandwidth::from_bps(offer.bps() >> 16);
    offer.saturating_sub(limit) > WORTH_A_ROUND.max(rounding)
}

impl FabricBroker {
    /// Starts the rounds of an allocation with the reported demands.
    pub(super) fn start_exchange(&mut self) {
        (self.exchange.rounds, self.exchange.assumed) = (0, false);
        self.exchange.proposed.fill(0);
        self.exchange.silent.fill(false);
        self.racks.iter_mut().for_each(Rack::start_exchange);
        for direction in Direction::ALL {
            self.exchange.basis[direction].clone_from(&self.demands[direction]);
            self.exchange.offers[direction].clone_from(&self.demands[direction]);
            self.exchange.limits[direction].fill(QuantisedRate::UNLIMITED);
        }
        self.run_round();
    }

    /// Runs rounds until replies are awaited, or the limits hold.
    fn run_round(&mut self) {
        loop {
            self.exchange.cancel();
            self.exchange.rounds += 1;
            let exceeded = self.exchange.share(&mut self.allocator);
            if !exceeded.contains(&true) || self.exchange.rounds >= ROUNDS {
                self.end_allocation();
                return;
            }
            self.exchange.number += 1;
            for rack in (0..exceeded.len()).filter(|rack| exceeded[*rack]) {
                let machines = self.racks[rack].recipients(self.now, self.config.timeout);
                if machines.is_empty() || self.exchange.silent[rack] {
                    self.exchange.lower_offers(rack);
                } else {
                    self.exchange.await_replies(rack, &machines, self.allocator.leaves().len());
                    self.pending_limits.propose(RackId(rack as u32), machines);
                }
            }
            if self.exchange.awaited_racks > 0 {
                let patience = self.config.period.nanos() * PATIENCE.0 / PATIENCE.1;
                self.exchange.deadline = Some(self.now + Duration::from_nanos(patience));
                return;
            }
        }
    }

    /// Goes on without the replies that are missing.
    pub(super) fn end_wait(&mut self) {
        for rack in 0..self.racks.len() {
            if let Some(awaited) = &self.exchange.awaited[rack] {
                self.counters.replies_missed += awaited.machines.len() as u64;
                if !awaited.replied {
                    self.exchange.silent[rack] = true;
                    self.exchange.lower_offers(rack);
                }
            }
        }
        self.run_round();
    }

    /// Handles a reply: a report whose epoch and round are those of the exchange.
    pub(super) fn take_reply(&mut self, reply: &RackReport) {
        let Some(rack) = self.check(reply) else { return };
        let current = reply.epoch == self.epoch && reply.round == self.exchange.proposed[rack];
        let awaits = match &self.exchange.awaited[rack] {
            Some(awaited) => awaited.machines.iter().any(|(machine, _)| *machine == reply.machine),
            // A reply that is not awaited any more may show that offers changed.
            None => true,
        };
        if !current || !awaits {
            self.counters.replayed += 1;
            return;
        }
        self.counters.replies += 1;
        let offers = offers_of(reply, self.allocator.leaves());
        if self.exchange.awaited[rack].is_none() {
            self.compare_offers(rack, offers);
        } else if self.exchange.take_offers(rack, reply.machine, offers) {
            self.racks[rack].replied(reply.machine);
            if self.exchange.awaited_racks == 0 {
                self.run_round();
            }
        }
    }

    /// Compares a rack's offers with those of the last allocation.
    fn compare_offers(&mut self, rack: usize, offers: Vec<(usize, PerDirection<QuantisedRate>)>) {
        let racks = self.racks.len();
        for (leaf, rates) in offers {
            for direction in Direction::ALL {
                let (now, then) = (rates[direction], self.exchange.offers[direction][leaf * racks + rack]);
                self.outdated |= is_moved(now.bandwidth(), then.bandwidth());
                self.changed |= is_changed(now, then);
            }
        }
    }

    /// The limits in force from now on: the proposed ones, and ceilings where these are the rule.
    pub(super) fn put_in_force(&mut self) {
        let racks = self.racks.len();
        for direction in Direction::ALL {
            let offers = &self.exchange.offers[direction];
            let (proposed, limits) = (&self.exchange.limits[direction], &mut self.limits[direction]);
            limits.clone_from(proposed);
            let mut lower = |leaf: usize, rack: usize, rate: Bandwidth| {
                let limit = &mut limits[leaf * racks + rack];
                *limit = (*limit).min(QuantisedRate::of(rate));
            };
            let take = |leaf: usize, rows: RackRows<'_>| {
                if let RackRows::Limits(rates) = rows {
                    rates.iter().enumerate().for_each(|(rack, rate)| lower(leaf, rack, *rate));
                }
            };
            match self.config.rule {
                LimitRule::Ceilings => self.allocator.ceilings(direction, offers, |rate| rate.bandwidth(), take),
                LimitRule::Backlogged => self.allocator.allocate(direction, offers, |rate| rate.bandwidth(), take),
            }
        }
    }
}
