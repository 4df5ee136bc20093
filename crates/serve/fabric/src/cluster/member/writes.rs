//! Writes of the leader, in their order.
//!
//! Problem: etcd may carry out a transaction long after the writer has given it up: the request, or only its reply, was
//! delayed. The leader has written newer values meanwhile, which the old ones must not replace. Approach: each
//! transaction of a kind writes the same key, on the condition that nothing else has written it since the revision that
//! the writer read, or made itself. So of two transactions on one revision etcd carries out one, and one that is
//! overtaken can only fail.
//!
//! Worked example: the key has revision 5. Batch 1 is sent on 5, and there is no reply. The leader reads 5 and sends
//! batch 2 on 5. Either etcd carries batch 2 out first, as revision 6, and batch 1 fails; or batch 1 first, and batch 2
//! fails: the leader reads 6 and sends batch 2 again, on 6.

use super::Member;
use crate::etcd::{EtcdSession, Failed, If};

/// Attempts at a write. Each but the first follows an own write that was delayed; more than one is rare.
const ATTEMPTS: u32 = 4;

/// A key with its value; `None` deletes it.
pub(super) type KeyEntry = (Vec<u8>, Option<Vec<u8>>);

impl Member {
    /// Writes entries, among them the key `order`, behind all that this leadership, which etcd has since the revision
    /// `created`, wrote in this order before. `last` is the revision of that key, if it is known. Returns the revision
    /// of the write, or `None` if etcd has another leader.
    pub(super) async fn write_as_leader(
        &mut self,
        session: &mut EtcdSession,
        created: i64,
        (order, mut last): (&[u8], Option<i64>),
        entries: Vec<KeyEntry>,
    ) -> Result<Option<i64>, Failed> {
        let leader = self.key("leader");
        for _ in 0..ATTEMPTS {
            let written = match last {
                Some(written) => written,
                None => self.guarded(session.revisions(order)).await?.1,
            };
            let guards = [If::Created(&leader, created), If::Written(order, written)];
            let put = self.guarded(session.put_all_if(&guards, entries.iter().cloned())).await?;
            if put.is_some() {
                return Ok(put);
            }
            if self.guarded(session.revisions(&leader)).await?.0 != created {
                return Ok(None);
            }
            last = None;
        }
        Err(Failed::Refused(format!("it carried out earlier writes during each of {ATTEMPTS} attempts")))
    }
}
