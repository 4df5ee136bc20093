//! Fetches one status from a source.

use crate::source::Source;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::io;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use weir_status::{ReadError, Status};

/// The maximum size of a status in bytes. A service takes 700 bytes, a limit of the fabric broker
/// 150.
pub const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Timeout of a fetch: less than a [period](crate::watcher::PERIOD), so that a slow source does not
/// delay the others.
pub const PATIENCE: Duration = Duration::from_millis(800);

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The connection failed, or the file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It took longer than [`PATIENCE`].
    #[error("no response within {} ms", PATIENCE.as_millis())]
    Slow,
    /// The response is not valid HTTP.
    #[error("invalid HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// The response has a code other than 200.
    #[error("HTTP status {0}")]
    Refused(StatusCode),
    /// The response is larger than [`MOST_BYTES`] or incomplete.
    #[error("the response is larger than {} MB or incomplete", MOST_BYTES / 1_048_576)]
    Body,
    /// The response is not a status of this version.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Fetches the status of a source once.
pub async fn fetch(source: &Source) -> Result<Status, FetchError> {
    let work = async {
        match source {
            Source::Url(uri) => get(uri).await,
            Source::File(path) => {
                let mut text = Vec::new();
                let file = tokio::fs::File::open(path).await?;
                file.take(MOST_BYTES as u64 + 1).read_to_end(&mut text).await?;
                if text.len() > MOST_BYTES { Err(FetchError::Body) } else { Ok(Bytes::from(text)) }
            }
        }
    };
    let text = tokio::time::timeout(PATIENCE, work).await.map_err(|_| FetchError::Slow)??;
    Ok(Status::read(&text)?)
}

async fn get(uri: &Uri) -> Result<Bytes, FetchError> {
    // A URL source always has a host (`Source::from_str`).
    let host = uri.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((bare, uri.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let authority = uri.authority().map_or(host, |authority| authority.as_str());
    let path = uri.path_and_query().map_or("/status", |path| path.as_str());
    let request = Request::get(path).header(HOST, authority).header(ACCEPT, "application/json");
    // The parts of a parsed URI are valid in a request.
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let response = sender.send_request(request).await;
    let result = async {
        let response = response?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Refused(response.status()));
        }
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        body.map(|body| body.to_bytes()).map_err(|_| FetchError::Body)
    };
    let result = result.await;
    driver.abort();
    result
}
