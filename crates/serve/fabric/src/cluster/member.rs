//! A broker among several, as a client of etcd.
//!
//! One task uses one member of etcd until that fails, then the next. State that outlives a session
//! (the lease, whether this broker leads) is in [`Member`]; the task watches the end of the lease
//! during every wait. The policy for all is in `member/policy.rs`, the states of tenants are in
//! `member/tenants.rs`.

mod policy;
mod renewal;
mod tenants;
#[cfg(test)]
mod tests;
mod writes;

use super::orders::Orders;
use super::{ClusterConfig, ClusterEvent, TenantBatch};
use crate::etcd::{EtcdSession, Failed, If, KeyValue, PATIENCE};
use crate::state::epoch;
use renewal::Renewal;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tracing::{debug, info, warn};

/// The pause after all members of etcd were tried.
const PAUSE: Duration = Duration::from_millis(500);
/// The part of a lease that is reserved for clock drift.
const MARGIN: u32 = 20;

/// A lease as this broker counts it.
struct Lease {
    id: i64,
    time: Duration,
    until: Instant,
}

/// The leading broker, as etcd has it.
struct Leadership {
    url: String,
    lease: i64,
    created: i64,
}

/// The daemon's ends of queues.
pub(super) struct FromDaemon {
    pub(super) orders: Orders,
    /// Requests to give up the leadership, each with a sender to confirm it.
    pub(super) resign: mpsc::Receiver<oneshot::Sender<()>>,
    /// States of tenants to be kept.
    pub(super) tenants: mpsc::Receiver<TenantBatch>,
    /// Epochs that the broker has raised.
    pub(super) raised: mpsc::Receiver<u64>,
}

/// The member's ends of queues.
pub(super) struct ToDaemon {
    pub(super) events: mpsc::Sender<ClusterEvent>,
    /// The end of the lease; `None` without one.
    pub(super) lease_end: watch::Sender<Option<Instant>>,
}

pub(super) struct Member {
    config: ClusterConfig,
    epochs: (PathBuf, &'static str),
    events: mpsc::Sender<ClusterEvent>,
    orders: Orders,
    resign: mpsc::Receiver<oneshot::Sender<()>>,
    tenants: mpsc::Receiver<TenantBatch>,
    raised: mpsc::Receiver<u64>,
    /// The policy in force here, and its text.
    digest: u64,
    text: String,
    /// A policy whose order etcd did not confirm.
    unconfirmed: Option<u64>,
    /// Whether etcd has a policy, and whether this broker can use it.
    policy_there: bool,
    usable: bool,
    /// The highest epoch in etcd.
    epoch: u64,
    leadership: Option<Leadership>,
    lease: Option<Lease>,
    lease_end: watch::Sender<Option<Instant>>,
    /// Renews the lease; `None` without a session.
    renewal: Option<Renewal>,
    /// A lease that this broker gave up and has not revoked yet.
    abandoned: Option<i64>,
    leads: bool,
    /// The epoch of the last leadership, which batches of tenants' states have; policies may have later ones.
    led: Option<u64>,
    /// The revisions of the epoch and of the last batch of tenants' states in etcd; `None` if they must be read.
    epoch_written: Option<i64>,
    batch: Option<i64>,
    /// The leader that the daemon was notified of last.
    reported: Option<Option<String>>,
    /// Whether the warning that etcd cannot be reached was logged.
    warned: bool,
}

impl Member {
    pub(super) fn new(
        config: ClusterConfig,
        digest: u64,
        text: String,
        epochs: (PathBuf, &'static str),
        ToDaemon { events, lease_end }: ToDaemon,
        FromDaemon { orders, resign, tenants, raised }: FromDaemon,
    ) -> Self {
        Self {
            config,
            epochs,
            events,
            orders,
            resign,
            tenants,
            raised,
            digest,
            text,
            unconfirmed: None,
            policy_there: false,
            usable: true,
            epoch: 0,
            leadership: None,
            lease: None,
            lease_end,
            renewal: None,
            abandoned: None,
            leads: false,
            led: None,
            epoch_written: None,
            batch: None,
            reported: None,
            warned: false,
        }
    }

    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}", self.config.prefix).into_bytes()
    }

    pub(super) async fn run(mut self) {
        for turn in 0.. {
            let members = &self.config.etcd.members;
            let member = members[turn % members.len()].clone();
            let failed = self.session(&member).await;
            let Err(failed) = failed else { return };
            (self.renewal, self.epoch_written, self.batch) = (None, None, None);
            debug!("etcd at {member}: {failed}");
            self.refuse_orders().await;
            self.refuse_tenants(&failed).await;
            // A broker that gave its leadership up stops leading, whether etcd can be reached or
            // not.
            self.report_leadership().await;
            if (turn + 1) % self.config.etcd.members.len() == 0 {
                self.warn(&failed);
                self.guarded(sleep(PAUSE)).await;
            }
        }
    }

    /// Warns once that etcd cannot be used. Where this broker gave up itself, it has logged the
    /// reason.
    fn warn(&mut self, failed: &Failed) {
        let does = match failed {
            Failed::GivenUp(_) => return,
            Failed::NoReply(_) => "does not reply",
            Failed::Refused(_) => "refuses requests",
        };
        if !std::mem::replace(&mut self.warned, true) {
            warn!("etcd {does}; no broker can succeed another one: {failed}");
        }
    }

    /// Awaits `work`, and renews the lease meanwhile; gives the leadership up if the lease runs out.
    async fn guarded<F: Future>(&mut self, work: F) -> F::Output {
        let (mut work, mut is_renewed) = (pin!(work), true);
        loop {
            let until = self.lease.as_ref().map(|lease| lease.until);
            tokio::select! {
                done = &mut work => return done,
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => self.lose_lease().await,
                granted = renewal::next(&mut self.renewal), if is_renewed => match granted {
                    Ok(granted) => self.extend_lease(granted).await,
                    // The stream reports its end to the next wait of the session, too.
                    Err(_) => is_renewed = false,
                },
            }
        }
    }

    /// The lease lasts so long from this time on; it has expired if that is zero.
    async fn extend_lease(&mut self, (since, granted): (Instant, Duration)) {
        if granted.is_zero() {
            self.lose_lease().await;
            self.abandoned = None;
        } else if let Some(lease) = &mut self.lease {
            lease.until = since + granted - granted / MARGIN;
            self.lease_end.send_replace(Some(lease.until));
        }
    }

    /// The lease has run out or counts as such.
    async fn lose_lease(&mut self) {
        self.abandoned = self.lease.take().map(|lease| lease.id);
        self.lease_end.send_replace(None);
        if std::mem::take(&mut self.leads) {
            warn!("the lease ran out: this fabric broker does not lead any more");
        }
        self.leadership = None;
        self.report_leadership().await;
    }

    /// Uses one member of etcd; ends only by a failure, or when the daemon has ended.
    async fn session(&mut self, member: &str) -> Result<(), Failed> {
        let etcd = self.config.etcd.clone();
        let mut session = self.guarded(EtcdSession::connect(&etcd, member)).await?;
        if let Some(old) = self.abandoned {
            self.guarded(session.revoke(old)).await?;
            self.abandoned = None;
        }
        if self.lease.is_none() {
            let requested = Instant::now();
            let (id, time) = session.grant((self.config.lease.nanos() / 1_000_000_000) as i64).await?;
            let until = requested + time - time / MARGIN;
            self.lease = Some(Lease { id, time, until });
            self.lease_end.send_replace(Some(until));
        }
        let Some((id, time)) = self.lease.as_ref().map(|lease| (lease.id, lease.time)) else {
            return Err(Failed::GivenUp("the lease ran out".to_owned()));
        };
        let requested = Instant::now();
        let keep_alive = self.guarded(session.keep_alive(id)).await?;
        self.renewal = Some(Renewal::new(keep_alive, requested, time / 3));
        // In etcd's order the states of tenants, which change often, follow all other keys.
        let (first, end) = (self.key(""), self.key(tenants::PREFIX));
        let (kept, revision) = self.guarded(session.between((&first, &end), 0)).await?;
        let mut watch = self.guarded(session.watch((&first, &end), revision + 1)).await?;
        // Keys that were deleted between two sessions are missing in the reply.
        (self.leadership, self.policy_there) = (None, false);
        for entry in kept {
            self.apply_key(&mut session, entry.key.clone(), Some(entry)).await?;
        }
        self.check_leadership();
        if std::mem::take(&mut self.warned) {
            info!("etcd at {member} replies again");
        }
        loop {
            self.act(&mut session).await?;
            self.report_leadership().await;
            let until = self.lease.as_ref().map(|lease| lease.until);
            let Some(until) = until else { return Err(Failed::GivenUp("the lease ran out".to_owned())) };
            tokio::select! {
                granted = renewal::next(&mut self.renewal) => self.extend_lease(granted?).await,
                changes = watch.next() => {
                    for (key, entry) in changes? {
                        self.apply_key(&mut session, key, entry).await?;
                    }
                    self.check_leadership();
                }
                order = self.orders.next() => match order {
                    Some(order) => self.apply_order(&mut session, order).await?,
                    None => return Ok(()),
                },
                Some(batch) = self.tenants.recv() => self.keep_tenants(&mut session, batch).await?,
                Some(epoch) = self.raised.recv() => self.keep_epoch(&mut session, epoch).await?,
                Some(done) = self.resign.recv() => {
                    // The event of the watch is not needed, since this task ends.
                    let resigned = session.revoke(id).await;
                    let _ = done.send(());
                    return resigned;
                }
                () = sleep_until(until) => self.lose_lease().await,
            }
        }
    }

    /// Applies the value of a key.
    async fn apply_key(
        &mut self,
        session: &mut EtcdSession,
        key: Vec<u8>,
        entry: Option<KeyValue>,
    ) -> Result<(), Failed> {
        let name = String::from_utf8_lossy(&key).into_owned();
        let text = |entry: &KeyValue| String::from_utf8_lossy(&entry.value).into_owned();
        match (name.strip_prefix(&self.config.prefix).unwrap_or(&name), entry) {
            ("/leader", Some(entry)) => {
                self.leadership =
                    Some(Leadership { url: text(&entry), lease: entry.lease, created: entry.create_revision });
            }
            ("/leader", None) => self.leadership = None,
            ("/epoch", Some(entry)) => self.epoch = text(&entry).parse().unwrap_or(self.epoch).max(self.epoch),
            ("/policy", None) => {
                self.policy_there = false;
                self.orders.take_on(0);
            }
            ("/policy", Some(entry)) => self.take_policy(session, &name, &entry).await?,
            _ => debug!("etcd has a key that is not ours: {name}"),
        }
        Ok(())
    }

    /// Stops leading if etcd does not have this broker as the leader.
    fn check_leadership(&mut self) {
        let lease = self.lease.as_ref().map(|lease| lease.id);
        let ours = self.leadership.as_ref().is_some_and(|leadership| Some(leadership.lease) == lease);
        if !ours && std::mem::take(&mut self.leads) {
            warn!("the leadership was lost: this fabric broker does not lead any more");
        }
    }

    /// Proposes the policy if there is none, runs for the leadership, and begins to lead.
    async fn act(&mut self, session: &mut EtcdSession) -> Result<(), Failed> {
        let Some(lease) = self.lease.as_ref().map(|lease| lease.id) else { return Ok(()) };
        self.propose(session).await?;
        match &self.leadership {
            None if self.usable => {
                let (key, value) = (self.key("leader"), self.config.url.to_string().into_bytes());
                let won = session.put_if(If::Created(&key, 0), (&key, value, lease)).await?;
                debug!("the leadership is {}", if won.is_some() { "this broker's" } else { "another broker's" });
                // No second attempt before the watch brings the leader.
                let url = String::new();
                self.leadership = Some(Leadership { url, lease: 0, created: 0 });
            }
            Some(leadership) if leadership.lease == lease && !self.leads => {
                if let Some(epoch) = self.next_epoch(session).await? {
                    let kept = self.kept_tenants(session).await?;
                    // The lease may have run out meanwhile: without one nothing would end the leadership.
                    if self.lease.as_ref().map(|own| own.id) != Some(lease) {
                        return Ok(());
                    }
                    (self.leads, self.led, self.batch) = (true, Some(epoch), None);
                    let _ = self.events.send(ClusterEvent::Leads(epoch, kept)).await;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An epoch that no broker had, written to etcd while this broker leads; `None` if it does not.
    async fn next_epoch(&mut self, session: &mut EtcdSession) -> Result<Option<u64>, Failed> {
        let Some(created) = self.leadership.as_ref().map(|leadership| leadership.created) else { return Ok(None) };
        let (state, file) = &self.epochs;
        let epoch = match epoch::next(state, file, self.epoch) {
            Ok(epoch) => epoch,
            Err(error) => {
                warn!("keep the epoch in {}: {error}; this fabric broker cannot lead", state.display());
                return Err(Failed::GivenUp(error.to_string()));
            }
        };
        let key = self.key("epoch");
        let entry = (key.clone(), Some(epoch.to_string().into_bytes()));
        let known = self.epoch_written.take();
        self.epoch_written = self.write_as_leader(session, created, (&key, known), vec![entry]).await?;
        self.epoch = self.epoch.max(epoch);
        Ok(self.epoch_written.map(|_| epoch))
    }

    /// Stores an epoch that this broker has raised, while it leads also in etcd. A successor that begins before that
    /// has a lower one, and raises it in the same way.
    async fn keep_epoch(&mut self, session: &mut EtcdSession, epoch: u64) -> Result<(), Failed> {
        self.epoch = self.epoch.max(epoch);
        let (state, file) = &self.epochs;
        if let Err(error) = epoch::raise(state, file, epoch) {
            warn!("keep the epoch in {}: {error}", state.display());
        }
        let created = self.leadership.as_ref().filter(|_| self.leads).map(|leadership| leadership.created);
        if let Some(created) = created {
            let key = self.key("epoch");
            let entry = (key.clone(), Some(self.epoch.to_string().into_bytes()));
            let known = self.epoch_written.take();
            self.epoch_written = self.write_as_leader(session, created, (&key, known), vec![entry]).await?;
        }
        Ok(())
    }

    /// Notifies the daemon of the leader if it has changed. A leading broker has sent its own
    /// event.
    async fn report_leadership(&mut self) {
        if self.leads {
            self.reported = None;
            return;
        }
        let own = self.config.url.as_str();
        let leader = self
            .leadership
            .as_ref()
            .map(|leadership| &leadership.url)
            .filter(|url| !url.is_empty() && *url != own)
            .cloned();
        if self.reported.as_ref() != Some(&leader) {
            self.reported = Some(leader.clone());
            let _ = self.events.send(ClusterEvent::Follows(leader)).await;
        }
    }
}

// A request to etcd must not outlast the lease that it is sent under.
const _: () = assert!(PATIENCE.as_secs() < 2);
