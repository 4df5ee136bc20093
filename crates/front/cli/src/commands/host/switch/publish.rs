//! The status of a switch, in a file and over HTTP, while `weir switch watch` or `bind` runs.

use crate::error::CommandError;
use crate::output::Ui;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_fabric::state::replace;
use weir_observe::{Publisher, Server, server};
use weir_status::{Status, SwitchStatus};

/// The places where a status is published.
pub(in crate::commands::host) struct Publication {
    file: Option<StatusFile>,
    publisher: Option<Publisher>,
    _server: Option<Server>,
    start: Instant,
}

impl Publication {
    /// A file, and an address that serves `/status` and `/metrics`.
    pub(in crate::commands::host) fn new(
        file: Option<PathBuf>,
        metrics: Option<SocketAddr>,
    ) -> Result<Self, CommandError> {
        let publisher = metrics.is_some().then(Publisher::new);
        let server = metrics.zip(publisher.as_ref()).map(|(at, publisher)| serve(at, publisher)).transpose()?;
        Ok(Self { file: file.map(StatusFile), publisher, _server: server, start: now() })
    }

    /// Whether there is no place.
    pub(in crate::commands::host) fn is_empty(&self) -> bool {
        self.file.is_none() && self.publisher.is_none()
    }

    /// Publishes a status, with its times. `Err` if the file cannot be written, with the cause.
    pub(in crate::commands::host) fn publish(&self, status: &mut SwitchStatus) -> Result<(), String> {
        status.uptime_ms = millis_of(self.start.elapsed());
        status.written_ms = since_1970();
        let status = Status::Switch(status.clone());
        let written = self.file.as_ref().map_or(Ok(()), |file| replace::write(&file.0, status.to_json().as_bytes()));
        if let Some(publisher) = &self.publisher {
            publisher.publish(status);
        }
        written.map_err(|error| format!("the status is not written: {error}"))
    }
}

/// A lasting trouble, which is printed once.
#[derive(Default)]
pub(in crate::commands::host) struct Trouble(Option<String>);

impl Trouble {
    pub(in crate::commands::host) fn report(&mut self, now: Option<String>, ui: &mut Ui) -> Result<(), CommandError> {
        if let Some(text) = now.as_ref().filter(|_| now != self.0) {
            ui.notice(&format!("{text}\n"))?;
        }
        self.0 = now;
        Ok(())
    }
}

/// The status file, which goes with the program: a status that outlives its writer would be wrong.
struct StatusFile(PathBuf);

impl Drop for StatusFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn serve(at: SocketAddr, publisher: &Publisher) -> Result<Server, CommandError> {
    let failed = |error: std::io::Error| CommandError::failed(format!("listen on {at}: {error}"));
    let (listener, reader) = (server::listen(at).map_err(failed)?, publisher.reader());
    server::start("status", listener, server::Limits::default(), move || reader.router()).map_err(failed)
}

/// In milliseconds.
#[expect(clippy::disallowed_methods, reason = "the date of a status; no decision depends on it")]
fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis_of)
}

fn millis_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "the age of a status; no decision depends on it")]
fn now() -> Instant {
    Instant::now()
}
