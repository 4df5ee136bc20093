//! Several fabric brokers with one policy, of which one leads.
//!
//! Problem: a fabric broker that ends must have a successor soon, two must not lead at the same
//! time, and the successor must have the same policy and a higher epoch. Approach: keys in
//! etcd, which orders all writes.
//!
//! | key | value | written by |
//! |---|---|---|
//! | `PREFIX/leader` | address of the leading broker | a broker that finds it missing; bound to its lease |
//! | `PREFIX/epoch` | the leader's epoch | the leader, only while it leads |
//! | `PREFIX/policy` | fingerprint, line end, text | a broker that finds it missing; any broker at SIGHUP |
//! | `PREFIX/tenants/NAME` | state of a tenant's queues | the leader, only while it leads |
//! | `PREFIX/tenants_batch` | epoch of the last batch of these states | the leader, with each batch |
//!
//! - The lease is renewed every third of its time. A broker counts the lease from its request, etcd
//!   from its reply, so a broker that is cut off stops leading before etcd lets another one take
//!   over. A twentieth of the lease is reserved for clock drift. Should two brokers lead all the
//!   same, a rack that receives limits of both uses those of the higher epoch.
//! - Reports are not stored: rack leaders connect to the successor and send their newest report
//!   again (`session.rs`). The successor therefore has all reports in its first period, and sends
//!   its first limits at the end of that period.
//! - The policy in etcd is in force for all brokers. An order to replace it is applied at once, on
//!   the revision that was known when the order was given, or refused (`orders.rs`): an order that
//!   a broker took before it was cut off must not undo a newer policy.
//! - The states of tenants' queues are read by a broker that begins to lead, and by no other one. They
//!   are written in transactions on the condition that the writer still leads (`member/tenants.rs`), and that no other
//!   one was carried out since the one before it: a delayed transaction fails (`member/writes.rs`). So does that of an
//!   epoch.
//! - A broker whose policy file differs logs that and uses the policy of etcd. A broker that cannot
//!   read the policy of etcd (it is of another version of Weir) gives up its leadership and does
//!   not run for it.
//!
//! Worked example: with a lease of 5 s and a period of 10 s, a leader that is killed is succeeded
//! within 5 s (etcd checks leases every half second), and the racks have limits of the successor 10
//! s later. Limits of the killed leader are valid for 50 s.

mod member;
mod orders;

use crate::etcd::EtcdConfig;
use orders::Desk;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use weir_policy::Policy;
use weir_units::Duration;

/// Events that wait for the daemon; they are rare.
const QUEUE: usize = 16;
/// Batches of tenants that wait for the member: one, and one of an earlier leadership.
const BATCHES: usize = 2;
/// The largest policy that etcd takes: its requests have 1.5 MiB at most (`--max-request-bytes`,
/// etcd 3.4's limits), of which keys, comparison and headers need some hundred bytes.
const MOST_BYTES: usize = 1_572_864 - 4_096;

/// Configuration of a broker among several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Addresses and credentials of etcd.
    pub etcd: EtcdConfig,
    /// The prefix of these brokers' keys, without a `/` at the end.
    pub prefix: String,
    /// The address at which agents reach this broker.
    pub url: crate::url::BrokerUrl,
    /// How long the leadership of a failed broker lasts; in whole seconds, and etcd may make it
    /// longer.
    pub lease: Duration,
}

/// An event for the daemon.
pub(crate) enum ClusterEvent {
    /// This broker leads from now on, with this epoch; the states of tenants that etcd has.
    Leads(u64, KeptTenants),
    /// Another broker leads; `None` if no broker leads or the leader is unknown.
    Follows(Option<String>),
    /// The policy for all, and an epoch for a broker that has to begin anew if this one leads.
    Policy(Arc<Policy>, Option<u64>),
    /// etcd has taken a policy that was ordered here.
    Taken(u64),
    /// etcd has not taken it, as far as is known, and why.
    Refused(u64, String),
    /// The policy in etcd cannot be used here, and why.
    Unusable(String),
    /// Whether etcd has taken the states of tenants that this broker handed over in this epoch, or why not.
    Kept(u64, Result<(), String>),
}

/// Tenants by name, with the states of their queues.
pub(crate) type KeptTenants = Vec<(String, Vec<u8>)>;

/// States of tenants' queues that etcd takes together or not at all, [`crate::etcd::MOST_KEYS`] at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TenantBatch {
    /// The epoch of the leadership in which they arose.
    pub(crate) epoch: u64,
    /// By tenant; `None` removes the state.
    pub(crate) entries: Vec<(String, Option<Vec<u8>>)>,
}

/// A policy is too large to be kept in etcd.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy has {0} bytes, and etcd takes {MOST_BYTES} at most")]
pub struct TooLarge(usize);

impl TooLarge {
    /// Refuses a policy's text that etcd would refuse.
    pub(crate) fn check(text: &str) -> Result<(), Self> {
        // The bytes include the fingerprint and the line end.
        let bytes = written(0, text).len();
        if bytes > MOST_BYTES { Err(Self(bytes)) } else { Ok(()) }
    }

    /// How to solve the problem.
    pub fn hint(&self) -> &'static str {
        "comments and spaces count, too; or let one fabric broker run alone, without --etcd"
    }
}

/// The daemon's handle.
pub(crate) struct Cluster {
    orders: Desk,
    resign: mpsc::Sender<oneshot::Sender<()>>,
    tenants: mpsc::Sender<TenantBatch>,
    raised: mpsc::Sender<u64>,
    lease_end: watch::Receiver<Option<Instant>>,
    events: mpsc::Receiver<ClusterEvent>,
}

impl Cluster {
    /// Starts the task of the member. `policy` and `text` are this broker's; epochs are kept in
    /// `epoch_file` under `state`.
    pub(crate) fn start(
        config: ClusterConfig,
        policy: &Policy,
        text: String,
        state: PathBuf,
        epoch_file: &'static str,
    ) -> Self {
        let (orders, ordered) = orders::desk();
        let (resign, resigned) = mpsc::channel(1);
        let (tenants, of_tenants) = mpsc::channel(BATCHES);
        let (raised, of_epochs) = mpsc::channel(QUEUE);
        let (until, lease_end) = watch::channel(None);
        let (sender, events) = mpsc::channel(QUEUE);
        let epochs = (state, epoch_file);
        let from_daemon =
            member::FromDaemon { orders: ordered, resign: resigned, tenants: of_tenants, raised: of_epochs };
        let to_daemon = member::ToDaemon { events: sender, lease_end: until };
        let member = member::Member::new(config, policy.digest(), text, epochs, to_daemon, from_daemon);
        tokio::spawn(member.run());
        Self { orders, resign, tenants, raised, lease_end, events }
    }

    /// The next event; `None` if the task of the member has ended by a panic. Cancelling the future
    /// loses no event.
    pub(crate) async fn next_event(&mut self) -> Option<ClusterEvent> {
        self.events.recv().await
    }

    /// Orders a policy for all. A [`ClusterEvent`] reports the result, unless the order is refused
    /// at once.
    pub(crate) fn set_policy(&self, digest: u64, text: String) -> Result<(), String> {
        TooLarge::check(&text).map_err(|large| format!("{large}; {}", large.hint()))?;
        self.orders.order(digest, text).map_err(str::to_owned)
    }

    /// Hands over states of tenants. A [`ClusterEvent::Kept`] reports the result; returns `false` if no more can be
    /// handed over now.
    pub(crate) fn keep(&self, batch: TenantBatch) -> bool {
        self.tenants.try_send(batch).is_ok()
    }

    /// Hands over an epoch that is in force here, so that a successor has a higher one.
    pub(crate) fn raise_epoch(&self, epoch: u64) -> Result<(), String> {
        self.raised.try_send(epoch).map_err(|_| "etcd has not taken the epochs before it yet".to_owned())
    }

    /// Whether this broker has a lease now. A broker that was paused has none before it receives the event that another
    /// one leads.
    pub(crate) fn has_lease(&self) -> bool {
        self.lease_end.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Gives up the leadership, so that the next broker need not wait for the end of the lease.
    pub(crate) async fn resign(&self) {
        let (done, resigned) = oneshot::channel();
        if self.resign.try_send(done).is_ok() {
            let _ = tokio::time::timeout(crate::etcd::PATIENCE, resigned).await;
        }
    }

    /// A handle whose task has ended.
    #[cfg(test)]
    pub(crate) fn lost() -> Self {
        let ((orders, _), (resign, _), (_, events)) = (orders::desk(), mpsc::channel(1), mpsc::channel(1));
        let lease_end = watch::channel(None).1;
        Self { orders, resign, tenants: mpsc::channel(1).0, raised: mpsc::channel(1).0, lease_end, events }
    }

    /// The same with a lease until `until`.
    #[cfg(test)]
    pub(crate) fn leased(until: Instant) -> Self {
        Self { lease_end: watch::channel(Some(until)).1, ..Self::lost() }
    }
}

/// The value of a policy in etcd.
fn written(digest: u64, text: &str) -> Vec<u8> {
    format!("{digest:016x}\n{text}").into_bytes()
}

/// The policy of a value in etcd, with its text, or why it cannot be used.
fn read(key: &str, value: &[u8]) -> Result<(Policy, String), String> {
    let value = std::str::from_utf8(value).map_err(|_| format!("{key} in etcd is not text"))?;
    let (digest, text) = value.split_once('\n').ok_or_else(|| format!("{key} in etcd is not a policy"))?;
    let expected = u64::from_str_radix(digest, 16).map_err(|_| format!("{key} in etcd has no fingerprint"))?;
    let (policy, _) = Policy::parse(&format!("etcd:{key}"), text).map_err(|refused| refused.render(false))?;
    if policy.digest() != expected {
        let found = policy.digest();
        return Err(format!("{key} in etcd is {expected:016x} for its writer, {found:016x} here: another version"));
    }
    Ok((policy, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1] } } }\n\
                        services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";

    #[test]
    fn text_above_the_limit_of_etcd_is_refused() {
        let text = |bytes: usize| "#".repeat(bytes);
        // 17 bytes are the fingerprint and the line end.
        assert_eq!(TooLarge::check(&text(MOST_BYTES - 17)), Ok(()));
        let refused = TooLarge::check(&text(MOST_BYTES - 16)).expect_err("a byte too many");
        assert_eq!(refused.to_string(), "the policy has 1568769 bytes, and etcd takes 1568768 at most");
        let cluster = Cluster::lost();
        let refused = cluster.set_policy(1, text(MOST_BYTES)).expect_err("too large");
        assert!(refused.contains("at most; comments"), "{refused}");
        assert!(cluster.set_policy(1, text(9)).expect_err("no session").contains("etcd is not reached"));
    }

    #[test]
    fn policy_from_etcd_is_read_whole_or_refused() {
        let policy = Policy::parse("policy.yaml", TEXT).expect("valid").0;
        let value = written(policy.digest(), TEXT);
        let (again, text) = read("k", &value).expect("the same");
        assert_eq!((again.digest(), text.as_str()), (policy.digest(), TEXT));
        let refused = |value: &[u8]| read("k", value).map(|_| ()).expect_err("refused");
        assert_eq!(refused(b"\xff"), "k in etcd is not text");
        assert_eq!(refused(b"0123"), "k in etcd is not a policy");
        assert_eq!(refused(b"policy\nweir: 1\n"), "k in etcd has no fingerprint");
        let other = refused(&written(policy.digest() ^ 1, TEXT));
        assert!(other.ends_with("another version"), "{other}");
        let mistaken = refused(&written(policy.digest(), &TEXT.replace("match", "mach")));
        assert!(mistaken.contains("`mach` is not a key") && mistaken.contains("etcd:k:"), "{mistaken}");
    }
}
