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
//! - The policy in etcd is everybody's. A broker whose file says otherwise says so and obeys; one that cannot read it (it is
//!   of another version of Weir) gives up its seat and takes none.
//!
//! Worked example: with a lease of 5 s and a period of 10 s, a leader that is killed is succeeded within 5 s (etcd looks
//! every half second), and the racks have limits of the successor 10 s later. Those of the killed one hold 50 s.

mod session;

use crate::etcd::EtcdConfig;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use weir_policy::Policy;
use weir_units::Duration;

/// Orders and news that wait; both are rare.
const QUEUE: usize = 16;

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
pub(crate) enum News {
    /// This broker answers from now on, with this epoch.
    Leads(u64),
    /// Another one does; `None` while nobody does or it is not known.
    Follows(Option<String>),
    /// The policy for all, and an epoch for a broker that has to begin anew if this one leads.
    Policy(Arc<Policy>, Option<u64>),
    /// A policy that was to be everybody's is not, and why.
    Refused(String),
}

/// What the daemon wants.
enum Order {
    /// This policy for all.
    Policy(String),
    /// Give up the seat, and say when that is done.
    Resign(oneshot::Sender<()>),
}

/// The daemon's end.
pub(crate) struct Cluster {
    orders: mpsc::Sender<Order>,
    news: mpsc::Receiver<News>,
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
        let (orders, ordered) = mpsc::channel(QUEUE);
        let (tell, news) = mpsc::channel(QUEUE);
        let member = session::Member::new(config, policy.digest(), text, (state, epoch_file), tell, ordered);
        tokio::spawn(member.run());
        Self { orders, news }
    }

    /// The next news. Nothing is lost when the future is dropped.
    pub(crate) async fn news(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            // The task ends only by a panic, which ends the daemon's hope for news, too.
            None => std::future::pending().await,
        }
    }

    /// Makes a policy everybody's; [`News`] says what came of it.
    pub(crate) fn set_policy(&self, text: String) -> Result<(), &'static str> {
        self.orders.try_send(Order::Policy(text)).map_err(|_| "etcd has not answered for some time")
    }

    /// Gives the seat up, so that the next broker need not wait for the lease's end.
    pub(crate) async fn resign(&self) {
        let (done, resigned) = oneshot::channel();
        if self.orders.try_send(Order::Resign(done)).is_ok() {
            let _ = tokio::time::timeout(crate::etcd::PATIENCE, resigned).await;
        }
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
