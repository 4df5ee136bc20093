//! Replies to limits that the fabric broker proposes.
//!
//! The fabric broker carries out the rounds of one allocation with the racks' leaders
//! (`fabric_broker/exchange.rs`). A leader replies to proposed limits with the rack's shares under
//! them. It computes with the demands of its last report, so that all rounds of an allocation have
//! the same demands. Proposed limits are not in force.
//!
//! A proposal may have several parts; the reply follows the last one. A part of another exchange
//! starts a new proposal.

use super::{Output, RackBroker};
use crate::fabric_message::RackLimits;
use weir_alloc::{Constraint, FabricLimit};
use weir_units::{Bandwidth, Direction, PerDirection};

/// The parts of a proposal that have arrived.
#[derive(Debug, Default)]
pub(super) struct Proposal {
    /// The fabric broker's epoch and the number of the exchange.
    id: (u64, u64),
    /// By leaf.
    arrived: Vec<bool>,
    limits: PerDirection<Vec<FabricLimit>>,
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
        let mut of = |direction: Direction| {
            let (leader, allocator) = (&mut self.leader, &self.allocator);
            let limits = &leader.proposal.limits[direction];
            allocator.allocate(direction, &leader.basis[direction], limits, &mut leader.shares);
            (0..allocator.leaves().len()).map(|leaf| leader.shares.of_service(allocator, leaf)).collect()
        };
        let offers = PerDirection { tx: of(Direction::Tx), rx: of(Direction::Rx) };
        for reply in self.rack_reports(&offers, id) {
            self.counters.replies += 1;
            self.outputs.push_back(Output::ReplyRack(reply));
        }
        self.leader.proposal.arrived.clear();
    }
}
