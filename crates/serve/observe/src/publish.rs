//! `/status` and `/metrics` of a publisher.
//!
//! Publishing swaps a pointer and does not wait. A request gets the last complete status.

use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use tokio::sync::watch;
use weir_status::{Status, metrics};

/// Publishes a daemon's status.
#[derive(Debug)]
pub struct Publisher(watch::Sender<Option<Arc<Status>>>);

impl Publisher {
    /// A publisher without a status.
    pub fn new() -> Self {
        Self(watch::Sender::new(None))
    }
    /// Replaces the status. Does not wait for readers.
    pub fn publish(&self, status: Status) {
        self.0.send_replace(Some(Arc::new(status)));
    }
    /// A reader of the published status.
    pub fn reader(&self) -> Reader {
        Reader(self.0.subscribe())
    }
}

impl Default for Publisher {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads the status that was published last.
#[derive(Debug, Clone)]
pub struct Reader(watch::Receiver<Option<Arc<Status>>>);

impl Reader {
    /// The last status; `None` before the first one.
    pub fn latest(&self) -> Option<Arc<Status>> {
        self.0.borrow().clone()
    }
    /// `/status` and `/metrics`.
    pub fn router(self) -> Router {
        Router::new().route("/status", get(status)).route("/metrics", get(scrape)).with_state(self)
    }
}

/// Header fields of every response: it must not be cached, and its content type must not be
/// guessed.
pub const HEADERS: [(HeaderName, HeaderValue); 2] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
];

async fn status(State(reader): State<Reader>) -> Response {
    respond(&reader, "application/json", Status::to_json)
}

async fn scrape(State(reader): State<Reader>) -> Response {
    respond(&reader, metrics::CONTENT_TYPE, metrics::text)
}

fn respond(reader: &Reader, content_type: &'static str, write: fn(&Status) -> String) -> Response {
    match reader.latest() {
        Some(status) => (HEADERS, [(CONTENT_TYPE, content_type)], write(&status)).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, HEADERS, "no period has ended yet\n").into_response(),
    }
}
