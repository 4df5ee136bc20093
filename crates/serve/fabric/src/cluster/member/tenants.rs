//! The states of tenants' queues: read when this broker begins to lead, and written while it leads.

use super::Member;
use crate::cluster::{ClusterEvent, KeptTenants, TenantBatch};
use crate::etcd::{EtcdSession, Failed};
use tracing::warn;

/// Their keys, behind the prefix of all.
pub(super) const PREFIX: &str = "tenants/";
/// The key that every batch writes (`writes.rs`), with the epoch of its leadership. In etcd's order it follows the
/// states, so that the watch of the other keys does not report it.
const LAST_BATCH: &str = "tenants_batch";

impl Member {
    /// The states that etcd has. No other broker writes any from now on: its transactions find another leader. The
    /// lease is renewed meanwhile, since many states may take longer than that.
    pub(super) async fn kept_tenants(&mut self, session: &mut EtcdSession) -> Result<KeptTenants, Failed> {
        let prefix = self.key(PREFIX);
        let all = self.guarded(session.all_under(&prefix)).await?;
        let name = |key: &[u8]| String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
        Ok(all.into_iter().map(|entry| (name(&entry.key), entry.value)).collect())
    }

    /// Writes states while this broker leads; a batch of an earlier leadership is refused. A broker that finds another
    /// leader stops leading.
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
        let (prefix, order) = (self.key(PREFIX), self.key(LAST_BATCH));
        let entry = |(name, value): (String, Option<Vec<u8>>)| ([&prefix[..], name.as_bytes()].concat(), value);
        let last = (order.clone(), Some(epoch.to_string().into_bytes()));
        let entries = entries.into_iter().map(entry).chain([last]).collect();
        // Without a reply the revision is read again.
        let known = self.batch.take();
        let put = self.write_as_leader(session, created, (&order, known), entries).await;
        let (result, session) = match put {
            Ok(Some(revision)) => {
                self.batch = Some(revision);
                (Ok(()), Ok(()))
            }
            Ok(None) => {
                warn!("etcd has another leader: this fabric broker does not lead any more");
                (self.leads, self.leadership) = (false, None);
                (Err("etcd has another leader".to_owned()), Ok(()))
            }
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
