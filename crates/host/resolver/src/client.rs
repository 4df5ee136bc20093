//! [`Api`]: requests to the API server of Kubernetes, with TLS and a token.
//!
//! The token's file is read for each request, since the kubelet replaces it every hour. A token is sent over TLS only.

use crate::objects::Status;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The most bytes of a list, or of an event: a pod is smaller than 1.5 MB (etcd), and a node has some hundred.
const BYTES_MAX: usize = 256 << 20;
/// The most bytes of a `Status`, the body of a refusal: it has no objects of a cluster.
const STATUS_MAX: usize = 1 << 20;
/// The longest time to connect and to get the head of a response, and to get each next part of a list.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The network.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A file of the configuration.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// The URL of the server.
    #[error("{url}: {cause}")]
    Url {
        /// The URL.
        url: String,
        /// The cause.
        cause: &'static str,
    },
    /// The response is no HTTP.
    #[error("HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// A code other than 200.
    #[error("HTTP status {0}{hint}", hint = hint(*.0))]
    Refused(StatusCode),
    /// The version of the request is too old for the API server (410), or newer than the server's (504).
    #[error("the server cannot serve this version (HTTP status {0})")]
    Expired(u16),
    /// No response, or no further part of a list, in time.
    #[error("no response within {0:?}")]
    Slow(Duration),
    /// The response is too large, or no JSON.
    #[error("the response is not the API's: {0}")]
    Content(String),
}

fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => ": the token is not accepted",
        StatusCode::FORBIDDEN => ": the account may not list and watch pods; see packaging/kubernetes/rbac.yaml",
        _ => "",
    }
}

impl ApiError {
    /// Whether a list without a version is needed, since the server cannot go on from the version of the request.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Expired(_))
    }
}

/// The API server.
pub struct Api {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    token: Option<PathBuf>,
    patience: Duration,
}

impl Api {
    /// From `https://HOST[:PORT]`, the file of a token and that of the CA's certificate.
    ///
    /// # Errors
    /// A URL of another kind, a file that cannot be read, or a token without TLS.
    pub fn new(url: &str, token: Option<&Path>, ca: Option<&Path>) -> Result<Self, ApiError> {
        let refuse = |cause| ApiError::Url { url: url.to_owned(), cause };
        let uri: Uri = url.parse().map_err(|_| refuse("it is no URL"))?;
        let host = uri.host().ok_or_else(|| refuse("it has no host"))?;
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match uri.scheme_str() {
            Some("https") => {
                let ca = ca.ok_or_else(|| refuse("https needs the certificate of its CA (--ca)"))?;
                let name = ServerName::try_from(bare.clone()).map_err(|_| refuse("it has no name of a server"))?;
                Some((TlsConnector::from(Arc::new(config(ca)?)), name))
            }
            Some("http") if token.is_none() => None,
            Some("http") => return Err(refuse("a token is sent over https only")),
            _ => return Err(refuse("write https://HOST:PORT")),
        };
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err(refuse("it has a path; write https://HOST:PORT"));
        }
        let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
        let api = Self { host: bare, port, tls, token: token.map(Path::to_owned), patience: PATIENCE };
        api.authorization()?;
        Ok(api)
    }

    /// With another time to wait for a response, and for each next part of a list.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The header with the token, which is read again.
    fn authorization(&self) -> Result<Option<HeaderValue>, ApiError> {
        let Some(path) = &self.token else { return Ok(None) };
        let error = |cause: String| ApiError::File { path: path.clone(), cause };
        let token = std::fs::read_to_string(path).map_err(|cause| error(cause.to_string()))?;
        let mut value =
            HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| error("it is no token".into()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Sends a request, and returns the body of its response.
    async fn request(&self, path: &str) -> Result<(Incoming, Connection), ApiError> {
        let work = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            match &self.tls {
                Some((connector, name)) => self.send(connector.connect(name.clone(), stream).await?, path).await,
                None => self.send(stream, path).await,
            }
        };
        tokio::time::timeout(self.patience, work).await.map_err(|_| ApiError::Slow(self.patience))?
    }

    async fn send(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        path: &str,
    ) -> Result<(Incoming, Connection), ApiError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let driver = Connection(tokio::spawn(async move { drop(connection.await) }));
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let mut request = Request::get(path).header(HOST, format!("{host}:{}", self.port));
        request = request.header(ACCEPT, "application/json");
        if let Some(value) = self.authorization()? {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| ApiError::Content(error.to_string()))?;
        let response = sender.send_request(request).await?;
        match response.status() {
            StatusCode::OK => Ok((response.into_body(), driver)),
            status => Err(refusal(status, response.into_body()).await),
        }
    }

    /// The whole response to a request.
    pub(crate) async fn get(&self, path: &str) -> Result<Vec<u8>, ApiError> {
        let mut lines = Lines { buffer: Vec::new(), source: self.request(path).await? };
        // A server that crashed closes no connection, and nothing else ends the wait for the next part.
        let mut more = async || match tokio::time::timeout(self.patience, lines.more()).await {
            Ok(more) => more,
            Err(_) => Err(ApiError::Slow(self.patience)),
        };
        while more().await? {}
        Ok(lines.buffer)
    }

    /// The response to a request, line by line.
    pub(crate) async fn lines(&self, path: &str) -> Result<Lines, ApiError> {
        Ok(Lines { buffer: Vec::new(), source: self.request(path).await? })
    }
}

/// The error of a response other than 200. Proxies in front of the API server respond with 504 as well while the server
/// is down, so only the body of the API's own 504 means a version.
async fn refusal(code: StatusCode, body: Incoming) -> ApiError {
    match code {
        StatusCode::GONE => return ApiError::Expired(code.as_u16()),
        StatusCode::GATEWAY_TIMEOUT => {}
        _ => return ApiError::Refused(code),
    }
    let body = Limited::new(body, STATUS_MAX).collect().await;
    let status = body.ok().and_then(|body| serde_json::from_slice::<Status>(&body.to_bytes()).ok());
    match status.filter(Status::is_expired) {
        Some(_) => ApiError::Expired(code.as_u16()),
        None => ApiError::Refused(code),
    }
}

/// The task of a connection, which ends with it.
struct Connection(tokio::task::JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A response as it arrives.
pub(crate) struct Lines {
    buffer: Vec<u8>,
    source: (Incoming, Connection),
}

impl Lines {
    /// Waits for a part of the response; `false` at its end.
    async fn more(&mut self) -> Result<bool, ApiError> {
        let Some(frame) = self.source.0.frame().await else { return Ok(false) };
        if let Ok(data) = frame?.into_data() {
            self.buffer.extend_from_slice(&data);
        }
        if self.buffer.len() > BYTES_MAX {
            return Err(ApiError::Content(format!("it is larger than {} MB", BYTES_MAX >> 20)));
        }
        Ok(true)
    }

    /// The next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                return Ok(Some(line));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }
}

/// TLS with the certificates of a CA alone.
fn config(ca: &Path) -> Result<ClientConfig, ApiError> {
    let error = |cause: String| ApiError::File { path: ca.to_owned(), cause };
    let mut roots = RootCertStore::empty();
    let text = std::fs::read(ca).map_err(|cause| error(cause.to_string()))?;
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|cause| error(cause.to_string()))?;
        roots.add(certificate).map_err(|cause| error(cause.to_string()))?;
    }
    if roots.is_empty() {
        return Err(error("it has no certificate".into()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|cause| error(cause.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
