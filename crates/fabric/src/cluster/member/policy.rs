//! The policy for all: what etcd has, and what is ordered here.

use super::Member;
use crate::cluster::orders::Order;
use crate::cluster::{ClusterEvent, read, written};
use crate::etcd::{EtcdSession, Failed, If, KeyValue};
use std::sync::Arc;
use tracing::info;

impl Member {
    /// Writes the own policy where there is none. Whoever was first, the watch brings it.
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

    /// The policy for all, as etcd has it now.
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
                    // The next session has a lease of its own, and takes no seat with it.
                    self.abandoned = Some(lease.id);
                    return Err(Failed::GivenUp("the policy in etcd cannot be used".to_owned()));
                }
                return Ok(());
            }
        };
        if self.in_doubt.take_if(|order| *order == policy.digest()).is_some() {
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
        // Noted only once the daemon has it: what fails before is tried again by the next session, which finds another policy here.
        let epoch = if self.leads { self.next_epoch(session).await? } else { None };
        (self.digest, self.text) = (policy.digest(), text);
        let _ = self.events.send(ClusterEvent::Policy(Arc::new(policy), epoch)).await;
        Ok(())
    }

    /// Makes a policy everybody's, unless that is another one than whoever ordered it knew.
    pub(super) async fn carry_out(&mut self, session: &mut EtcdSession, order: Order) -> Result<(), Failed> {
        let (key, on) = (self.key("policy"), self.orders.on(&order));
        let put = session.put_if(If::Written(&key, on), (&key, written(order.digest, &order.text), 0)).await;
        let (cluster_event, result) = match put {
            Ok(Some(revision)) => {
                self.orders.done(on, revision);
                (ClusterEvent::Taken(order.digest), Ok(()))
            }
            Ok(None) => {
                let reason = "the policy for all was changed meanwhile; reload again if this one is to take its place";
                (ClusterEvent::Refused(order.digest, reason.to_owned()), Ok(()))
            }
            // The session goes on: etcd answers.
            Err(Failed::Refused(why)) => {
                let reason = format!("etcd refuses it: {why}; the old one stays for all");
                (ClusterEvent::Refused(order.digest, reason), Ok(()))
            }
            Err(no_reply) => {
                self.in_doubt = Some(order.digest);
                let reason =
                    format!("etcd did not say whether it took it ({no_reply}); reload again when it is reached");
                (ClusterEvent::Refused(order.digest, reason), Err(no_reply))
            }
        };
        let _ = self.events.send(cluster_event).await;
        result
    }

    /// A session is over: what was ordered of it is not left to the next one, which may begin much later.
    pub(super) async fn refuse_orders(&mut self) {
        for order in self.orders.close() {
            let reason = "etcd was lost before it had it; reload again when it is reached".to_owned();
            let _ = self.events.send(ClusterEvent::Refused(order.digest, reason)).await;
        }
    }
}
