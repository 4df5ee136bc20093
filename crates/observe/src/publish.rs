//! `/status` and `/metrics` of whoever publishes.
//!
//! The publisher swaps a pointer and goes on; whoever asks gets the last status, whole.

use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use tokio::sync::watch;
use weir_status::{Status, metrics};

/// Hands statuses over.
#[derive(Debug)]
pub struct Publisher(watch::Sender<Option<Arc<Status>>>);

impl Publisher {
    /// A publisher with nothing to tell yet.
    pub fn new() -> Self {
        Self(watch::Sender::new(None))
    }
    /// Replaces the status. Never waits for a reader.
    pub fn publish(&self, status: Status) {
        self.0.send_replace(Some(Arc::new(status)));
    }
    /// Somebody who reads.
    pub fn reader(&self) -> Reader {
        Reader(self.0.subscribe())
    }
}

impl Default for Publisher {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads what was published last.
#[derive(Debug, Clone)]
pub struct Reader(watch::Receiver<Option<Arc<Status>>>);

impl Reader {
    /// The last status; none before the first.
    pub fn latest(&self) -> Option<Arc<Status>> {
        self.0.borrow().clone()
    }
    /// `/status` and `/metrics`.
    pub fn router(self) -> Router {
        Router::new().route("/status", get(status)).route("/metrics", get(scrape)).with_state(self)
    }
}

/// What every answer says of itself: it is of now, and it is what it says it is.
pub const HEADERS: [(HeaderName, HeaderValue); 2] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
];

async fn status(State(reader): State<Reader>) -> Response {
    answer(&reader, "application/json", Status::to_json)
}

async fn scrape(State(reader): State<Reader>) -> Response {
    answer(&reader, metrics::CONTENT_TYPE, metrics::text)
}

fn answer(reader: &Reader, kind: &'static str, write: fn(&Status) -> String) -> Response {
    match reader.latest() {
        Some(status) => (HEADERS, [(CONTENT_TYPE, kind)], write(&status)).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, HEADERS, "no period has ended yet\n").into_response(),
    }
}
