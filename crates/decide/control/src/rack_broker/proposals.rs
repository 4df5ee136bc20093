//! Replies to limits that the fabric broker proposes.
//!
//! The fabric broker carries out the rounds of one allocation with the racks' leaders
//! (`fabric_broker/exchange.rs`). A leader replies to proposed limits with the rack's shares under
//! them. It computes with the demands of its last report, so that all rounds of an allocation have
//! the same demands. Proposed limits are not in force.
//!
//! A proposal may have several parts; the reply follows the last one. A part of another exchange
//! starts a new proposal.
//!
//! The rack's report shows shares without limits, so it does not show all changes of the shares under
//! the proposed ones. While these differ from the reply, another reply follows each report, until the
//! next proposal: any of these may be lost.
//!
//! Worked example: an uplink of 9, `a` uses 5 and `b` is backlogged. The report has 4.5 and 4.5. `b`
//! is limited to 3, and the reply has 5 and 3. Now `a` is backlogged: the report is the same, and a
//! reply of 6 and 3 follows it.

use super::leader::LeaderState;
use super::{Output, RackBroker};
use crate::fabric_broker::is_moved;
use crate::fabric_message::RackLimits;
use weir_alloc::{Constraint, FabricLimit, RackAllocator};
use weir_units::{Bandwidth, Direction, PerDirection};

/// Offers by leaf.
type Offers = PerDirection<Vec<Bandwidth>>;

/// The last proposal: the parts that have arrived, and the reply.
#[derive(Debug, Default)]
pub(super) struct Proposal {
    /// The fabric broker's epoch and the number of the exchange.
    id: (u64, u64),
    /// By leaf.
    arrived: Vec<bool>,
    limits: PerDirection<Vec<FabricLimit>>,
    /// The offers of the reply; `None` before it.
    replied: Option<Offers>,
    /// The offers that were sent last.
    sent: Offers,
}

impl RackBroker {
    pub(super) fn take_proposal(&mut self, proposed: &RackLimits) {
        // A machine that restarted since the report of its rack has no demands to reply with.
        if self.is_refused(proposed) || self.counters.rack_reports == 0 {
            return;
        }
        let leaves = self.allocator.leaves();
        let proposal = &mut self.leader.proposal;
        let id = (proposed.epoch, proposed.round);
        if proposal.id != id {
            proposal.id = id;
            proposal.arrived = vec![false; leaves.len()];
            proposal.limits = PerDirection::both(vec![FabricLimit::NONE; leaves.len()]);
            proposal.replied = None;
        }
        if proposal.arrived.is_empty() {
            // A repetition: the reply is sent.
            return;
        }
        let mut rows = proposed.rows.iter().peekable();
        for (leaf, service) in leaves.iter().enumerate() {
            if *service < proposed.first || *service > proposed.last {
                continue;
            }
            let row = rows.next_if(|row| row.service == *service);
            proposal.arrived[leaf] = true;
            for direction in Direction::ALL {
                let limit = row.map_or(Bandwidth::UNLIMITED, |row| row.rates[direction]);
                proposal.limits[direction][leaf] = FabricLimit { limit, decided_by: Constraint::Fabric };
            }
        }
        if !proposal.arrived.contains(&false) {
            self.reply(id);
        }
    }

    fn reply(&mut self, id: (u64, u64)) {
        let offers = self.leader.offers(&self.allocator, None);
        self.send_reply(id, &offers);
        let proposal = &mut self.leader.proposal;
        (proposal.replied, proposal.sent) = (Some(offers.clone()), offers);
        proposal.arrived.clear();
    }

    fn send_reply(&mut self, id: (u64, u64), offers: &Offers) {
        for reply in self.rack_reports(offers, id) {
            self.counters.replies += 1;
            self.outputs.push_back(Output::ReplyRack(reply));
        }
    }

    /// Replies once more, after a report, if the rack's offers have changed since the reply.
    pub(super) fn renew_reply(&mut self) {
        if self.leader.proposal.replied.is_none() {
            return;
        }
        let offers = self.leader.offers(&self.allocator, None);
        let Proposal { id, replied: Some(replied), .. } = &self.leader.proposal else { return };
        let moved = |(now, then): (&Bandwidth, &Bandwidth)| is_moved(*now, *then);
        let renews = Direction::ALL.iter().any(|way| offers[*way].iter().zip(&replied[*way]).any(moved));
        let id = *id;
        if renews {
            self.send_reply(id, &offers);
        }
        self.leader.proposal.sent = offers;
    }

    /// Whether an offer under the proposed limits has changed by so much that it is reported at once.
    pub(super) fn offers_changed(&mut self) -> bool {
        if self.leader.proposal.replied.is_none() {
            return false;
        }
        let offers = self.leader.offers(&self.allocator, Some(&self.demands));
        self.differs_much(&offers, &self.leader.proposal.sent)
    }
}

impl LeaderState {
    /// The rack's shares under the proposed limits, from these demands or those of the last report.
    fn offers(&mut self, allocator: &RackAllocator, demands: Option<&Offers>) -> Offers {
        let Self { proposal, shares, basis, .. } = self;
        let demands = demands.unwrap_or(basis);
        let mut of = |direction: Direction| {
            allocator.allocate(direction, &demands[direction], &proposal.limits[direction], shares);
            (0..allocator.leaves().len()).map(|leaf| shares.of_service(allocator, leaf)).collect()
        };
        PerDirection { tx: of(Direction::Tx), rx: of(Direction::Rx) }
    }
}
