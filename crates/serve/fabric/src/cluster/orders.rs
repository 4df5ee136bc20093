//! Orders to put a policy in force for all brokers.
//!
//! Problem: an order that waits while etcd cannot be reached is obsolete afterwards, and would undo
//! an order that another broker took meanwhile. Approach: an order is accepted while there is a
//! session with etcd, or refused at once. It carries the revision of the policy in etcd when the
//! order was given, and is applied on that revision only. Orders that a session leaves behind are
//! refused, too.
//!
//! Orders of this broker follow each other: an order that was given before its predecessor was
//! applied is on the predecessor's revision ([`Orders::on`]).
//!
//! Worked example: etcd has the policy of revision 5. Two brokers are given one order each at the
//! same time, both on 5; the first becomes revision 6, and the other one is refused.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Orders that wait; operators give them.
const QUEUE: usize = 16;

/// A policy for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    /// Its fingerprint.
    pub(crate) digest: u64,
    pub(crate) text: String,
    /// The revision that the policy in etcd had; 0 if there was none.
    revision: i64,
}

/// The revision of the policy in etcd; `None` without a session.
type SharedRevision = Arc<Mutex<Option<i64>>>;

/// The daemon's end.
pub(crate) struct Desk {
    send: mpsc::Sender<Order>,
    revision: SharedRevision,
}

/// The end of the member's task.
pub(super) struct Orders {
    receive: mpsc::Receiver<Order>,
    revision: SharedRevision,
    /// Revisions of the policy that consecutive orders of this broker made: the first and the last
    /// one.
    own: (i64, i64),
}

/// Both ends; orders are refused until a session begins.
pub(super) fn desk() -> (Desk, Orders) {
    let (send, receive) = mpsc::channel(QUEUE);
    let revision = SharedRevision::default();
    (Desk { send, revision: revision.clone() }, Orders { receive, revision, own: (0, 0) })
}

impl Desk {
    /// Gives an order.
    pub(crate) fn order(&self, digest: u64, text: String) -> Result<(), &'static str> {
        // The lock lasts until the order is in the queue, so that the end of a session finds the
        // order there.
        let revision = self.revision.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(revision) = *revision else { return Err("etcd is not reached; reload again when it is") };
        let order = Order { digest, text, revision };
        self.send.try_send(order).map_err(|_| "etcd has not taken the orders before it yet; reload again later")
    }
}

impl Orders {
    /// A session has begun, or the policy in etcd has changed: orders are on this revision.
    pub(super) fn take_on(&self, revision: i64) {
        *self.revision.lock().unwrap_or_else(PoisonError::into_inner) = Some(revision);
    }

    /// The session has ended: returns the orders that wait.
    pub(super) fn close(&mut self) -> Vec<Order> {
        let mut revision = self.revision.lock().unwrap_or_else(PoisonError::into_inner);
        *revision = None;
        std::iter::from_fn(|| self.receive.try_recv().ok()).collect()
    }

    /// The next order; `None` when the daemon has ended. Cancelling the future loses none.
    pub(super) async fn next(&mut self) -> Option<Order> {
        self.receive.recv().await
    }

    /// The revision on which an order is applied.
    pub(super) fn on(&self, order: &Order) -> i64 {
        let (from, to) = self.own;
        if (from..=to).contains(&order.revision) { to } else { order.revision }
    }

    /// An order was applied.
    pub(super) fn done(&mut self, on: i64, revision: i64) {
        self.own = (if self.own.1 == on { self.own.0 } else { on }, revision);
        self.take_on(revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(desk: &Desk, digest: u64) -> Result<(), &'static str> {
        desk.order(digest, format!("policy {digest}"))
    }

    #[tokio::test]
    async fn order_without_a_session_is_refused_at_once() {
        let (desk, mut orders) = desk();
        assert_eq!(order(&desk, 1), Err("etcd is not reached; reload again when it is"));
        orders.take_on(5);
        assert_eq!(order(&desk, 2), Ok(()));
        assert_eq!(order(&desk, 3), Ok(()));
        let first = orders.next().await.expect("an order");
        assert_eq!((first.digest, orders.on(&first)), (2, 5));
        // The session ends before the other one.
        let left: Vec<u64> = orders.close().iter().map(|order| order.digest).collect();
        assert_eq!(left, [3]);
        assert!(order(&desk, 4).is_err());
        // The next session finds no order, and new orders are on its revision.
        orders.take_on(9);
        assert_eq!(order(&desk, 5), Ok(()));
        let next = orders.next().await.expect("an order");
        assert_eq!((next.digest, orders.on(&next)), (5, 9));
        for digest in 0..QUEUE as u64 {
            assert_eq!(order(&desk, digest), Ok(()));
        }
        assert!(order(&desk, 99).is_err_and(|why| why.contains("reload again later")));
        drop(desk);
        assert_eq!(orders.close().len(), QUEUE);
        assert_eq!(orders.next().await, None);
    }

    #[tokio::test]
    async fn own_orders_follow_each_other_and_not_those_of_another_broker() {
        let (desk, mut orders) = desk();
        orders.take_on(5);
        for digest in 1..=3 {
            assert_eq!(order(&desk, digest), Ok(()));
        }
        // Three orders on revision 5: the first two are applied one after the other.
        for revision in [6, 7] {
            let next = orders.next().await.expect("an order");
            assert_eq!(orders.on(&next), revision - 1);
            orders.done(revision - 1, revision);
        }
        // An order of another broker comes between, so the third one is not on its revision.
        orders.take_on(8);
        let third = orders.next().await.expect("an order");
        assert_eq!(orders.on(&third), 7);
        assert_eq!(order(&desk, 4), Ok(()));
        let fourth = orders.next().await.expect("an order");
        assert_eq!(orders.on(&fourth), 8);
        orders.done(8, 9);
        assert_eq!(orders.own, (8, 9), "revisions before another broker's do not count");
    }
}
