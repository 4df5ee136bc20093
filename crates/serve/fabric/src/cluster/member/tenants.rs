//! The states of tenants' queues: read when this broker begins to lead, and written while it leads.

use super::Member;
use crate::cluster::{ClusterEvent, KeptTenants, TenantBatch};
use crate::etcd::{EtcdSession, Failed};

/// Their keys, behind the prefix of all.
pub(super) const PREFIX: &str = "tenants/";

impl Member {
    /// The states that etcd has. No other broker writes any from now on: its transactions find another leader.
    pub(super) async fn kept_tenants(&mut self, session: &mut EtcdSession) -> Result<KeptTenants, Failed> {
        let prefix = self.key(PREFIX);
        let all = self.guarded(session.all_under(&prefix)).await?;
        let name = |key: &[u8]| String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
        Ok(all.into_iter().map(|entry| (name(&entry.key), entry.value)).collect())
    }

    /// Writes states while this broker leads; a batch of an earlier leadership is refused.
    pub(super) async fn keep_tenants(&mut self, session: &mut EtcdSession, batch: TenantBatch) -> Result<(), Failed> {
        let TenantBatch { epoch, entries } = batch;
        let created = self
            .leadership
            .as_ref()
            .filter(|_| self.leads && self.led == Some(epoch))
            .map(|leadership| leadership.created);
        let Some(created) = created else {
            self.kept(epoch, Err("this fabric broker does not lead any more".to_owned())).await;
            return Ok(());
        };
        let (leader, prefix) = (self.key("leader"), self.key(PREFIX));
        let entries = entries.into_iter().map(|(name, value)| ([&prefix[..], name.as_bytes()].concat(), value));
        let put = self.guarded(session.put_all_if((&leader, created), entries)).await;
        let (result, session) = match put {
            Ok(true) => (Ok(()), Ok(())),
            Ok(false) => (Err("etcd has another leader".to_owned()), Ok(())),
            // The session goes on, since etcd has replied.
            Err(Failed::Refused(why)) => (Err(format!("etcd refuses it: {why}")), Ok(())),
            Err(failed) => (Err(failed.to_string()), Err(failed)),
        };
        self.kept(epoch, result).await;
        session
    }

    /// A session has ended: its batches fail. The controller hands them over again, if this broker still leads then.
    pub(super) async fn refuse_tenants(&mut self, failed: &Failed) {
        while let Ok(batch) = self.tenants.try_recv() {
            self.kept(batch.epoch, Err(failed.to_string())).await;
        }
    }

    async fn kept(&self, epoch: u64, result: Result<(), String>) {
        let _ = self.events.send(ClusterEvent::Kept(epoch, result)).await;
    }
}
