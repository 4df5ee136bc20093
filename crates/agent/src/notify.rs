//! What systemd is told, where it started the agent (`Type=notify`): that it is ready, and in a line how it is.

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

/// What `systemctl status` shows.
pub(crate) fn status(session: &str) {
    report(&[NotifyState::Status(session)]);
}

fn report(states: &[NotifyState<'_>]) {
    // Nobody listens where systemd did not start it, which is no error.
    if let Err(error) = sd_notify::notify(false, states) {
        debug!("tell systemd: {error}");
    }
}
