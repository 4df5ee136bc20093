//! Fetches all sources once a second.
//!
//! Sources are fetched concurrently (at most [`AT_ONCE`]), each with its own timeout, so that a
//! hanging source does not delay the others.

use crate::bounds::obstacles_to_bounds;
use crate::client;
use crate::liveness::Liveness;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use weir_units::Instant;

/// Time between two fetches of a source: agents publish a new status as often.
pub const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of concurrent fetches.
pub const AT_ONCE: usize = 256;

/// The state of all sources at one time.
#[derive(Debug, Clone)]
pub struct View {
    /// Time since the watcher's start.
    pub at: Instant,
    /// Every source, in the order given.
    pub livenesses: Vec<Liveness>,
}

impl View {
    /// The same view in wall-clock time, with `now` since 1970. For a single fetch: an old status
    /// counts as one that no longer changes.
    #[must_use]
    pub fn dated(mut self, now: Instant) -> Self {
        let start = now.saturating_since(self.at);
        self.livenesses.iter_mut().for_each(|liveness| liveness.date(start, now));
        Self { at: now, ..self }
    }

    /// The causes for which the bounds of latency levels are not in force; see [`obstacles_to_bounds`].
    pub fn obstacles_to_bounds(&self) -> Vec<String> {
        obstacles_to_bounds(&self.livenesses)
    }
}

/// Fetches every source once.
pub async fn poll_all(livenesses: &mut [Liveness], now: Instant) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut fetches = JoinSet::new();
    for (index, liveness) in livenesses.iter().enumerate() {
        let (source, slots) = (liveness.source.clone(), Arc::clone(&slots));
        fetches.spawn(async move {
            let _slot = slots.acquire().await;
            (index, client::fetch(&source).await)
        });
    }
    while let Some(joined) = fetches.join_next().await {
        // A task that panicked has no result. Its source keeps the last status, which no longer
        // changes.
        let Ok((index, result)) = joined else { continue };
        livenesses[index].record(now, result.map_err(|error| error.to_string()));
    }
}

/// Fetches all sources once per period, and passes each view to `report`. Does not return.
pub async fn watch(mut livenesses: Vec<Liveness>, mut report: impl FnMut(&View)) {
    let started = tokio::time::Instant::now();
    let mut ticks = tokio::time::interval(PERIOD);
    // After a suspension of the host sources are fetched once, not once for each missed period.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let at = Instant::from_nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        poll_all(&mut livenesses, at).await;
        let view = View { at, livenesses };
        report(&view);
        livenesses = view.livenesses;
    }
}

/// A watcher on its own thread. It stops when this is dropped.
#[derive(Debug)]
pub struct Watcher {
    views: watch::Receiver<Option<Arc<View>>>,
    thread: Option<std::thread::JoinHandle<()>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

impl Watcher {
    /// Starts watching.
    pub fn start(livenesses: Vec<Liveness>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, views) = watch::channel(None);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = watch(livenesses, |view| drop(sender.send_replace(Some(Arc::new(view.clone()))))) => {}
                    _ = stopped => {}
                }
            });
            // A read from a hanging file system must not block the exit of the process.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("weir-watcher".to_owned()).spawn(work)?;
        Ok(Self { views, thread: Some(thread), stop: Some(stop) })
    }
    /// The last view; `None` before all sources have been fetched once.
    pub fn latest(&self) -> Option<Arc<View>> {
        self.views.borrow().clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its panic, if any.
            let _ = thread.join();
        }
    }
}
