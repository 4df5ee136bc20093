//! Several fabric brokers of which one answers, and which all have one policy.
//!
//! Problem: a fabric broker that ends must have a successor soon, two must not answer at a time, and whoever succeeds must
//! have the same policy and a higher epoch. Approach: three keys in etcd, which decides what is first.
//!
//! | key | value | who writes it |
//! |---|---|---|
//! | `PREFIX/leader` | where agents reach the broker that answers | who finds it missing; it hangs on his lease and goes with it |
//! | `PREFIX/epoch` | the epoch of its broker | who leads, and only while he does |
//! | `PREFIX/policy` | fingerprint, line end, text | who finds it missing, from his file; and any broker at SIGHUP |
//!
//! - The lease is prolonged every third of its time. A broker counts it from when it asked, etcd from when it granted, so
//!   a broker that is cut off stops answering before etcd gives its seat away. A twentieth of it is left for clocks that
//!   do not run alike. Should two answer all the same, the higher epoch counts with whoever hears both.
//! - What was reported is not kept: leaders call the successor and say their newest report again (`line.rs`), so it has all
//!   in its first period, and its first limits come at the end of that.
//! - The policy in etcd is everybody's. An order to make another one everybody's is carried out at once, on the one that
//!   was known when it was given, or refused (`orders.rs`): what a broker that was cut off had been told must not undo what
//!   the others were told meanwhile.
//! - A broker whose file says otherwise says so and obeys; one that cannot read it (it is
//!   of another version of Weir) gives up its seat and takes none.
//!
//! Worked example: with a lease of 5 s and a period of 10 s, a leader that is killed is succeeded within 5 s (etcd looks
//! every half second), and the racks have limits of the successor 10 s later. Those of the killed one hold 50 s.

mod member;
mod orders;

use crate::etcd::EtcdConfig;
use orders::Desk;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use weir_policy::Policy;
use weir_units::Duration;

/// News that wait; they are rare.
const QUEUE: usize = 16;
/// The largest policy that etcd takes: its requests have 1.5 MiB at most (`--max-request-bytes`, etcd 3.4's limits), and
/// keys, comparison and headers some hundred bytes of it.
const MOST_BYTES: usize = 1_572_864 - 4_096;

/// What a broker among several needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Where etcd is.
    pub etcd: EtcdConfig,
    /// Under which keys these brokers meet, without a `/` at the end.
    pub prefix: String,
    /// Where agents reach this broker.
    pub url: crate::url::BrokerUrl,
    /// How long a leader that is gone keeps its seat; in whole seconds, and etcd may make it longer.
    pub lease: Duration,
}

/// News for the daemon.
pub(crate) enum ClusterEvent {
    /// This broker answers from now on, with this epoch.
    Leads(u64),
    /// Another one does; `None` while nobody does or it is not known.
    Follows(Option<String>),
    /// The policy for all, and an epoch for a broker that has to begin anew if this one leads.
    Policy(Arc<Policy>, Option<u64>),
    /// etcd has a policy that was ordered here.
    Taken(u64),
    /// It does not have it, as far as is known, and why.
    Refused(u64, String),
    /// The policy that etcd has for all cannot be used here, and why.
    Unusable(String),
}

/// A policy is too large to be kept in etcd.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy has {0} bytes, and etcd takes {MOST_BYTES} at most")]
pub struct TooLarge(usize);

impl TooLarge {
    /// Refuses a policy's text that etcd would refuse.
    pub(crate) fn check(text: &str) -> Result<(), Self> {
        // With the fingerprint and the line end.
        let bytes = written(0, text).len();
        if bytes > MOST_BYTES { Err(Self(bytes)) } else { Ok(()) }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        "comments and spaces count, too; or let one fabric broker run alone, without --etcd"
    }
}

/// The daemon's end.
pub(crate) struct Cluster {
    orders: Desk,
    resign: mpsc::Sender<oneshot::Sender<()>>,
    cluster_event: mpsc::Receiver<ClusterEvent>,
}

impl Cluster {
    /// Begins to look for etcd. `policy` is what this broker has, with its text; epochs are kept in `epoch_file` under
    /// `state`.
    pub(crate) fn start(
        config: ClusterConfig,
        policy: &Policy,
        text: String,
        state: PathBuf,
        epoch_file: &'static str,
    ) -> Self {
        let (orders, ordered) = orders::desk();
        let (resign, resigned) = mpsc::channel(1);
        let (events, cluster_event) = mpsc::channel(QUEUE);
        let epochs = (state, epoch_file);
        let member = member::Member::new(config, policy.digest(), text, epochs, events, ordered, resigned);
        tokio::spawn(member.run());
        Self { orders, resign, cluster_event }
    }

    /// The next news; `None` when there will be none, for the task that brings them has ended by a panic. Nothing is lost
    /// when the future is dropped.
    pub(crate) async fn cluster_event(&mut self) -> Option<ClusterEvent> {
        self.cluster_event.recv().await
    }

    /// Makes a policy everybody's. [`News`] says what came of it, if it is not refused at once.
    pub(crate) fn set_policy(&self, digest: u64, text: String) -> Result<(), String> {
        TooLarge::check(&text).map_err(|large| format!("{large}; {}", large.hint()))?;
        self.orders.order(digest, text).map_err(str::to_owned)
    }

    /// Gives the seat up, so that the next broker need not wait for the lease's end.
    pub(crate) async fn resign(&self) {
        let (done, resigned) = oneshot::channel();
        if self.resign.try_send(done).is_ok() {
            let _ = tokio::time::timeout(crate::etcd::PATIENCE, resigned).await;
        }
    }

    /// One whose task has ended.
    #[cfg(test)]
    pub(crate) fn lost() -> Self {
        let ((orders, _), (resign, _), (_, cluster_event)) = (orders::desk(), mpsc::channel(1), mpsc::channel(1));
        Self { orders, resign, cluster_event }
    }
}

/// A policy as etcd keeps it.
fn written(digest: u64, text: &str) -> Vec<u8> {
    format!("{digest:016x}\n{text}").into_bytes()
}

/// The policy that etcd keeps, with its text, or why it cannot be used.
fn read(key: &str, value: &[u8]) -> Result<(Policy, String), String> {
    let value = std::str::from_utf8(value).map_err(|_| format!("{key} in etcd is not text"))?;
    let (digest, text) = value.split_once('\n').ok_or_else(|| format!("{key} in etcd is not a policy"))?;
    let expected = u64::from_str_radix(digest, 16).map_err(|_| format!("{key} in etcd has no fingerprint"))?;
    let (policy, _) = Policy::parse(&format!("etcd:{key}"), text).map_err(|refused| refused.render(false))?;
    if policy.digest() != expected {
        let found = policy.digest();
        return Err(format!("{key} in etcd is {expected:016x} for who wrote it, {found:016x} here: another version"));
    }
    Ok((policy, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1] } } }\n\
                        services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";

    #[test]
    fn what_etcd_would_refuse_is_refused_before() {
        let text = |bytes: usize| "#".repeat(bytes);
        // A fingerprint and a line end.
        assert_eq!(TooLarge::check(&text(MOST_BYTES - 17)), Ok(()));
        let refused = TooLarge::check(&text(MOST_BYTES - 16)).expect_err("a byte too many");
        assert_eq!(refused.to_string(), "the policy has 1568769 bytes, and etcd takes 1568768 at most");
        let cluster = Cluster::lost();
        let refused = cluster.set_policy(1, text(MOST_BYTES)).expect_err("too large");
        assert!(refused.contains("at most; comments"), "{refused}");
        assert!(cluster.set_policy(1, text(9)).expect_err("no session").contains("etcd is not reached"));
    }

    #[test]
    fn a_policy_comes_back_from_etcd_whole_or_not_at_all() {
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
