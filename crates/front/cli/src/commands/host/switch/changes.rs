//! Notifications that ports have changed, for the event loop of `weir switch bind`.

use crate::error::CommandError;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;
use weir_linux::port::PortEvents;

/// The time from a check to the next one that a notification causes. It doubles with each loss in a row, up to the
/// period of checks, so that two programs that restore different configurations do not do so in a loop.
const PAUSE: Duration = Duration::from_millis(100);

/// The changes of ports that this process has not made.
pub(super) struct Changes {
    /// None of a switch that does not notify.
    events: Option<AsyncFd<PortEvents>>,
    checked: Instant,
    pause: Duration,
}

impl Changes {
    /// Of these events; in the context of a runtime.
    pub(super) fn new(events: Option<PortEvents>) -> Result<Self, CommandError> {
        // SAFETY: the events own their socket, and nothing replaces either.
        let register = |events| unsafe { AsyncFd::register_with_interest(events, Interest::READABLE) };
        let events = events.map(register).transpose();
        let failed = |error| CommandError::failed(format!("wait for changes of ports: {error}"));
        Ok(Self {
            events: events.map_err(|error| failed(std::io::Error::from(error)))?,
            checked: Instant::now(),
            pause: PAUSE,
        })
    }

    /// Waits until one of these interfaces, by the name of their ports, has changed; returns the time after which
    /// a check is due. It never ends where the switch does not notify.
    ///
    /// # Errors
    ///
    /// The socket failed; from then on there are no notifications.
    pub(super) async fn next(&mut self, interfaces: &BTreeMap<String, String>) -> Result<Duration, String> {
        let Some(events) = &mut self.events else { return std::future::pending().await };
        let concerned = concern(events, interfaces).await;
        concerned.map(|()| self.pause.saturating_sub(self.checked.elapsed())).map_err(|error| {
            self.events = None;
            format!("changes of ports are found by the periodic check alone: {error}")
        })
    }

    /// Discards the notifications of this process's own changes, which the kernel sends before a change returns. One
    /// of another program at the same time is left to the periodic check.
    pub(super) fn discard(&mut self) {
        if let Some(events) = &mut self.events {
            // An error of the socket is returned by `next`.
            let _ = events.get_mut().take(std::iter::empty());
        }
    }

    /// Ports are checked now.
    pub(super) fn check(&mut self) {
        self.checked = Instant::now();
    }

    /// The result of a check: whether ports had lost their configuration; `period` is that of checks.
    pub(super) fn adapt(&mut self, has_lost: bool, period: Duration) {
        self.pause = if has_lost { (self.pause * 2).min(period) } else { PAUSE };
    }
}

/// Waits for an event that concerns these interfaces.
async fn concern(events: &mut AsyncFd<PortEvents>, interfaces: &BTreeMap<String, String>) -> Result<(), String> {
    loop {
        let mut ready = events.readable_mut().await.map_err(|error| error.to_string())?;
        let taken = ready.get_inner_mut().take(interfaces.values().map(String::as_str));
        ready.clear_ready();
        if taken.map_err(|error| error.to_string())? {
            return Ok(());
        }
    }
}
