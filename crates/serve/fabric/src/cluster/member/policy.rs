//! The policy for all: the one in etcd, and orders to replace it.

use super::Member;
use crate::cluster::orders::Order;
use crate::cluster::{ClusterEvent, read, written};
use crate::etcd::{EtcdSession, Failed, If, KeyValue};
use std::sync::Arc;
use tracing::info;

impl Member {
    /// Writes this broker's policy if etcd has none. The watch brings the policy that was written
    /// first.
    pub(super) async fn propose(&mut self, session: &mut EtcdSession) -> Result<(), Failed> {
        if self.policy_there {
            return Ok(());
        }
        let (key, value) = (self.key("policy"), written(self.digest, &self.text));
        if let Some(revision) = session.put_if(If::Created(&key, 0), (&key, value, 0)).await? {
            self.orders.take_on(revision);
        }
        self.policy_there = true;
        Ok(())
    }

    /// Handles the policy that etcd has now.
    pub(super) async fn take_policy(
        &mut self,
        session: &mut EtcdSession,
        name: &str,
        entry: &KeyValue,
    ) -> Result<(), Failed> {
        self.policy_there = true;
        self.orders.take_on(entry.mod_revision);
        let (policy, text) = match read(name, &entry.value) {
            Ok(read) => read,
            Err(reason) => {
                self.usable = false;
                let _ = self.events.send(ClusterEvent::Unusable(reason)).await;
                if std::mem::take(&mut self.leads)
                    && let Some(lease) = self.lease.take()
                {
                    // The next session has a lease of its own, and does not run for the leadership.
                    self.abandoned = Some(lease.id);
                    self.lease_end.send_replace(None);
                    return Err(Failed::GivenUp("the policy in etcd cannot be used".to_owned()));
                }
                return Ok(());
            }
        };
        if self.unconfirmed.take_if(|order| *order == policy.digest()).is_some() {
            let _ = self.events.send(ClusterEvent::Taken(policy.digest())).await;
        }
        let again = std::mem::replace(&mut self.usable, true);
        if policy.digest() == self.digest {
            if !again {
                let _ = self.events.send(ClusterEvent::Policy(Arc::new(policy), None)).await;
            }
            return Ok(());
        }
        info!("etcd has the policy {:016x} for all, this broker had {:016x}", policy.digest(), self.digest);
        // Noted only once the daemon has it: after an earlier failure the next session finds the
        // difference again.
        let epoch = if self.leads { self.next_epoch(session).await? } else { None };
        (self.digest, self.text) = (policy.digest(), text);
        let _ = self.events.send(ClusterEvent::Policy(Arc::new(policy), epoch)).await;
        Ok(())
    }

    /// Applies an order, unless the policy in etcd has changed since the order was given.
    pub(super) async fn apply_order(&mut self, session: &mut EtcdSession, order: Order) -> Result<(), Failed> {
        let (key, on) = (self.key("policy"), self.orders.on(&order));
        let put = session.put_if(If::Written(&key, on), (&key, written(order.digest, &order.text), 0)).await;
        let (event, result) = match put {
            Ok(Some(revision)) => {
                self.orders.done(on, revision);
                (ClusterEvent::Taken(order.digest), Ok(()))
            }
            Ok(None) => {
                let reason = "the policy for all was changed meanwhile; reload again if this one is to take its place";
                (ClusterEvent::Refused(order.digest, reason.to_owned()), Ok(()))
            }
            // The session goes on, since etcd has replied.
            Err(Failed::Refused(why)) => {
                let reason = format!("etcd refuses it: {why}; the old one stays for all");
                (ClusterEvent::Refused(order.digest, reason), Ok(()))
            }
            Err(no_reply) => {
                self.unconfirmed = Some(order.digest);
                let reason = format!("etcd did not confirm it ({no_reply}); reload again when it is reached");
                (ClusterEvent::Refused(order.digest, reason), Err(no_reply))
            }
        };
        let _ = self.events.send(event).await;
        result
    }

    /// A session has ended: its orders are refused, since the next session may begin much later.
    pub(super) async fn refuse_orders(&mut self) {
        for order in self.orders.close() {
            let reason = "etcd was lost before it had it; reload again when it is reached".to_owned();
            let _ = self.events.send(ClusterEvent::Refused(order.digest, reason)).await;
        }
    }
}
