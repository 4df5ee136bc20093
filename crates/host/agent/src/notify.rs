//! Notifications for systemd, where it started the agent (`Type=notify`): readiness, and the state
//! in one line.

use sd_notify::NotifyState;
use tracing::debug;

/// The agent is ready.
pub(crate) fn ready() {
    report(&[NotifyState::Ready]);
}

/// The agent ends.
pub(crate) fn stopping() {
    report(&[NotifyState::Stopping]);
}

/// The line that `systemctl status` shows.
pub(crate) fn status(line: &str) {
    report(&[NotifyState::Status(line)]);
}

fn report(states: &[NotifyState<'_>]) {
    // Without systemd there is no socket to notify, which is no error.
    if let Err(error) = sd_notify::notify(false, states) {
        debug!("notify systemd: {error}");
    }
}
