//! SIGHUP: reads the policy and the certificates again, each whole or not at all.
//!
//! A refusal stays in the status until it is settled: by the next SIGHUP, or because the same
//! policy came into force another way. In a cluster, etcd settles an order by accepting or refusing
//! it; until then the status reports that the order waits.

use super::work::Daemon;
use super::{EPOCH_FILE, read_policy};
use crate::clock::now_s;
use crate::cluster::ClusterEvent;
use crate::identity::Identity;
use crate::state::epoch;
use std::sync::Arc;
use tracing::{info, warn};
use weir_control::FabricBroker;
use weir_policy::Policy;

/// Why policies are not in force.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// The policy that SIGHUP read last: its fingerprint, as far as it could be read, and the
    /// reason.
    ordered: Option<(Option<u64>, String)>,
    /// The reason for the policy in etcd.
    for_all: Option<String>,
}

impl Refusals {
    /// The reason for the status. The policy that was ordered here comes first.
    pub(super) fn reason(&self) -> Option<&str> {
        self.ordered.as_ref().map(|(_, reason)| reason).or(self.for_all.as_ref()).map(String::as_str)
    }

    /// A policy is in force, or etcd has it: its refusal is settled.
    fn settle(&mut self, digest: u64) {
        self.ordered.take_if(|(ordered, _)| *ordered == Some(digest));
    }

    /// Notes why a policy is refused, if it is the one that was ordered last.
    fn refuse(&mut self, digest: u64, why: &str) {
        if let Some((ordered, reason)) = &mut self.ordered
            && *ordered == Some(digest)
        {
            *reason = of(digest, why);
        }
    }
}

fn of(digest: u64, why: &str) -> String {
    format!("{digest:016x}: {why}")
}

impl Daemon {
    pub(super) fn reload(&mut self) {
        match Identity::of_broker(&self.config.identity, self.host.as_deref(), now_s()) {
            Ok(identity) => {
                self.certificate_ends = identity.expires();
                self.in_use.replace(identity.server());
                self.certificate_refused = None;
                info!("certificates are read again; open streams keep the old one");
            }
            Err(error) => {
                let refused = format!("{error}; {}", error.hint());
                warn!("certificates are not taken, the old ones stay: {refused}");
                self.certificate_refused = Some(refused);
            }
        }
        self.refusals.ordered = None;
        if let Err(refused) = self.reload_policy() {
            warn!("the policy is not taken, the old one stays: {}", refused.1);
            self.refusals.ordered = Some(refused);
        }
        self.status_due = Some(self.now());
    }

    /// Puts the file's policy in force, or returns the reason and changes nothing.
    fn reload_policy(&mut self) -> Result<(), (Option<u64>, String)> {
        let (policy, text) = read_policy(&self.config.policy_file).map_err(|reason| (None, reason))?;
        let digest = policy.digest();
        if let Some(cluster) = &self.cluster {
            // In a cluster the policy comes back as a ClusterEvent.
            cluster.set_policy(digest, text).map_err(|why| (Some(digest), of(digest, &why)))?;
            info!("the policy {digest:016x} is handed to etcd, for all");
            self.refusals.ordered = Some((Some(digest), of(digest, "handed to etcd, which has not taken it yet")));
            return Ok(());
        }
        let policy = Arc::new(policy);
        if self.broker.as_mut().is_some_and(|broker| broker.set_policy(&policy).is_err()) {
            let epoch = epoch::next(&self.config.state, EPOCH_FILE, self.epoch).map_err(|error| {
                (Some(digest), format!("keep the epoch in {}: {error}", self.config.state.display()))
            })?;
            self.begin_anew(&policy, Some(epoch));
        }
        self.now_in_force(policy);
        Ok(())
    }

    /// Handles an event about the policy for all.
    pub(super) fn receive_policy(&mut self, event: ClusterEvent) {
        match event {
            ClusterEvent::Policy(policy, epoch) => {
                let other_names = self.broker.as_mut().is_some_and(|broker| broker.set_policy(&policy).is_err());
                if other_names {
                    self.begin_anew(&policy, epoch);
                }
                self.refusals.settle(policy.digest());
                self.refusals.for_all = None;
                self.now_in_force(policy);
            }
            ClusterEvent::Taken(digest) => {
                info!("etcd has the policy {digest:016x} for all");
                self.refusals.settle(digest);
                // The policy may be the same and the places others.
                if digest == self.policy.digest() {
                    self.bind_again();
                }
            }
            ClusterEvent::Refused(digest, why) => {
                warn!("the policy {digest:016x} is not taken, the old one stays: {why}");
                self.refusals.refuse(digest, &why);
            }
            ClusterEvent::Unusable(reason) => {
                warn!("the policy for all cannot be used, the old one stays: {reason}");
                self.refusals.for_all = Some(reason);
            }
            ClusterEvent::Leads(..) | ClusterEvent::Follows(_) | ClusterEvent::Kept(..) => {}
        }
    }

    /// Starts a new broker, since with other names the ids of all reports are obsolete. Without an
    /// epoch no broker may start.
    fn begin_anew(&mut self, policy: &Arc<Policy>, epoch: Option<u64>) {
        self.epoch = epoch.unwrap_or(self.epoch);
        self.broker = epoch.map(|epoch| FabricBroker::new(policy, epoch, self.config.broker, self.now()));
        self.streams.renumber(policy);
        info!("the policy has other racks, machines or services: the first limits come in a period");
    }

    fn now_in_force(&mut self, policy: Arc<Policy>) {
        self.policy = policy;
        info!("the policy in force is {:016x}", self.policy.digest());
        self.bind_again();
    }

    fn bind_again(&mut self) {
        if let Err(unbound) = self.bind_tenants() {
            warn!("tenants keep the queues that they have: {unbound}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_stays_until_that_policy_is_settled() {
        let mut refusals = Refusals { ordered: Some((Some(7), "waits".to_owned())), for_all: None };
        refusals.settle(8);
        assert_eq!(refusals.reason(), Some("waits"), "another's policy settles nothing");
        refusals.refuse(6, "an older order");
        assert_eq!(refusals.reason(), Some("waits"));
        refusals.refuse(7, "changed meanwhile");
        assert_eq!(refusals.reason(), Some("0000000000000007: changed meanwhile"));
        refusals.for_all = Some("another version".to_owned());
        refusals.settle(7);
        assert_eq!(refusals.reason(), Some("another version"));
        refusals.ordered = Some((None, "not a policy".to_owned()));
        refusals.settle(7);
        assert_eq!(refusals.reason(), Some("not a policy"));
    }
}
