//! [`Renewal`]: the requests that renew a lease, and their replies.

use crate::etcd::{Failed, KeepAlive};
use std::collections::VecDeque;
use tokio::time::{Duration, Instant, Interval, MissedTickBehavior, interval};

/// The stream that renews a lease.
pub(super) struct Renewal {
    keep_alive: KeepAlive,
    tick: Interval,
    /// When those requests were sent that have no reply yet.
    requests: VecDeque<Instant>,
}

impl Renewal {
    /// A stream whose first request was sent at `requested`; one follows in every `period`.
    pub(super) fn new(keep_alive: KeepAlive, requested: Instant, period: Duration) -> Self {
        let mut tick = interval(period);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { keep_alive, tick, requests: VecDeque::from([requested]) }
    }
}

/// Sends the requests that are due until a reply: the time of its request, and the time of the lease from then on.
/// Never returns without a stream. Cancelling the future loses no reply.
pub(super) async fn next(renewal: &mut Option<Renewal>) -> Result<(Instant, Duration), Failed> {
    let Some(Renewal { keep_alive, tick, requests }) = renewal else { return std::future::pending().await };
    loop {
        tokio::select! {
            _ = tick.tick() => if keep_alive.request() { requests.push_back(Instant::now()) },
            granted = keep_alive.reply() => {
                let granted = granted?;
                return Ok((requests.pop_front().unwrap_or_else(Instant::now), granted));
            }
        }
    }
}
