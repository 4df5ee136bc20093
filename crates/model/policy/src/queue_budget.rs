//! [`QueueBudget`]: the queues of a switch's port, by what they are for.
//!
//! Problem: latency levels take strict queues and tenants weighted ones of the same port, so a policy must fit the
//! queues that switches have, and an operator needs the number of unused ones. Approach: the division that the
//! configuration of ports makes, as numbers. Network control (CS6, CS7) beside levels and messages of credits have a
//! strict queue if one is left; data with credits has one of its own beside other services; one queue is of all other
//! traffic, that of tenants without queues of their own included.
//!
//! Example: `scheduler: { strict: 3, weighted: 5 }` and one level: 1 of network control, 1 level, 1 strict queue left,
//! 1 shared, 4 of single tenants.
//!
//! Source: QShare §IV (tenants' queues beside a shared one); RFC 4594 (CS6 for network control).

use crate::credits::CreditQueue;
use crate::model::Policy;
use weir_network::switches::{NETWORK_CONTROL, Offer, Scheduler};

/// The queues of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueBudget {
    /// All queues of the port.
    pub queues: usize,
    /// Strict queues of network control and messages of credits, 0 or 1.
    pub control: usize,
    /// Strict queues of latency levels.
    pub levels: usize,
    /// Strict queues that nothing uses.
    pub strict_left: usize,
    /// The queue of all other traffic, 1.
    pub shared: usize,
    /// Queues of data with credits, 0 or 1.
    pub credits: usize,
    /// Weighted queues that single tenants can have.
    pub tenants: usize,
    /// Weighted queues that nothing uses: a policy without tenants.
    pub weighted_left: usize,
}

impl Policy {
    /// The queues of each port of the network's switches. Switches that the policy does not state have eight strict
    /// queues for levels, and one queue without levels.
    pub fn queue_budget(&self) -> QueueBudget {
        let levels = self.levels().map_or(&[][..], |levels| levels.all());
        let offer = match (self.network().offer(), levels) {
            (Some(offer), _) => offer,
            (None, []) => Offer::PLAIN,
            (None, _) => Offer::STRICT,
        };
        let (strict, weighted) = offer.available();
        let is_level = |dscp: &u8| levels.iter().any(|level| level.dscp == *dscp);
        let has_control = !levels.is_empty() && !NETWORK_CONTROL.iter().all(is_level);
        let has_messages = self.credits().is_some() && self.network().forwarders();
        let queue = self.credit_queue().filter(|_| has_messages);
        let [by_weight, before] =
            [matches!(queue, Some(CreditQueue::Weighted { .. })), queue == Some(CreditQueue::Strict)].map(usize::from);
        let control = usize::from(levels.len() + before < strict && (has_control || has_messages));
        let (tenants, weighted_left) =
            if self.tenants().is_empty() { (0, weighted - by_weight) } else { (weighted, 0) };
        QueueBudget {
            queues: if offer.scheduler == Scheduler::Plain { 1 } else { offer.queues.into() },
            control,
            levels: levels.len(),
            strict_left: strict.saturating_sub(levels.len() + control + before),
            shared: 1,
            credits: by_weight + before,
            tenants,
            weighted_left,
        }
    }
}
