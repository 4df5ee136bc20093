//! All sources, once a second.
//!
//! All are asked at once (at most [`AT_ONCE`]), each with its own patience, so that one that hangs delays nobody.

use crate::client;
use crate::liveness::Liveness;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use weir_units::Instant;

/// How often each source is asked: agents have a new status as often.
pub const PERIOD: Duration = Duration::from_secs(1);
/// Sources that are asked at the same time.
pub const AT_ONCE: usize = 256;

/// What was seen, and when.
#[derive(Debug, Clone)]
pub struct View {
    /// When, since the watcher's start.
    pub at: Instant,
    /// Every source, in the order given.
    pub livenesses: Vec<Liveness>,
}

impl View {
    /// The same by the clock, `now` since 1970: who looks once takes a status that is old for one that stands still.
    #[must_use]
    pub fn dated(mut self, now: Instant) -> Self {
        let start = now.saturating_since(self.at);
        self.livenesses.iter_mut().for_each(|liveness| liveness.date(start, now));
        Self { at: now, ..self }
    }
}

/// Asks every source once.
pub async fn ask_all(livenesses: &mut [Liveness], now: Instant) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut asked = JoinSet::new();
    for (place, liveness) in livenesses.iter().enumerate() {
        let (source, room) = (liveness.source.clone(), Arc::clone(&room));
        asked.spawn(async move {
            let _place = room.acquire().await;
            (place, client::fetch(&source).await)
        });
    }
    while let Some(answer) = asked.join_next().await {
        // A task that panicked says nothing; its source keeps what it said before, and stands still.
        let Ok((place, said)) = answer else { continue };
        livenesses[place].record(now, said.map_err(|error| error.to_string()));
    }
}

/// Asks for ever, and tells after each time.
pub async fn watch(mut livenesses: Vec<Liveness>, mut report: impl FnMut(&View)) {
    let started = tokio::time::Instant::now();
    let mut ticks = tokio::time::interval(PERIOD);
    // After a suspension sources are asked once, not as often as was missed.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let at = Instant::from_nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        ask_all(&mut livenesses, at).await;
        let view = View { at, livenesses };
        report(&view);
        livenesses = view.livenesses;
    }
}

/// A watcher on a thread of its own; it ends when this is dropped.
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
            // A file on a file system that hangs must not keep the program.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("weir-watcher".to_owned()).spawn(work)?;
        Ok(Self { views, thread: Some(thread), stop: Some(stop) })
    }
    /// What was seen last; none before all sources were asked once.
    pub fn latest(&self) -> Option<Arc<View>> {
        self.views.borrow().clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was printed there.
            let _ = thread.join();
        }
    }
}
