//! The resolver beside a stand-in for the API server, over TLS with a token.

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use weir_pods::Directory;
use weir_resolver::client::{Api, ApiError};
use weir_resolver::follow::{follow, replace};
use weir_resolver::objects::PodList;

fn pod(name: &str, app: &str, version: u32) -> String {
    format!(
        r#"{{ "metadata": {{ "namespace": "shop", "name": "{name}", "uid": "{name}", "resourceVersion": "{version}",
            "labels": {{ "app": "{app}" }} }}, "spec": {{ "nodeName": "m 1" }} }}"#
    )
    .replace('\n', "")
}

/// The server: its listener with TLS, and the files of its clients.
struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    directory: tempfile::TempDir,
}

impl Server {
    async fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        let certificate = params.self_signed(&key).expect("a certificate");
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("ca.pem"), certificate.pem()).expect("written");
        fs::write(directory.path().join("token"), "first\n").expect("written");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![certificate.der().clone()];
        let config = config.expect("versions").with_no_client_auth().with_single_cert(chain, key).expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)), directory }
    }

    fn api(&self) -> Api {
        let url = format!("https://localhost:{}", self.listener.local_addr().expect("bound").port());
        let at = |name| self.directory.path().join(name);
        Api::new(&url, Some(&at("token")), Some(&at("ca.pem"))).expect("an API")
    }

    /// The next request, which is a list with this parameter beyond those of every list.
    async fn list_request(&self, more: &str) -> TlsStream<TcpStream> {
        let (target, _, stream) = self.request().await;
        assert_eq!(target, format!("{LIST}{more}"));
        stream
    }

    fn records(&self) -> Directory {
        Directory::new(self.directory.path().join("pods"))
    }

    /// The next request: its target and token, and the connection for its response.
    async fn request(&self) -> (String, String, TlsStream<TcpStream>) {
        let (stream, _) = self.listener.accept().await.expect("a connection");
        let mut stream = self.acceptor.accept(stream).await.expect("TLS");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a request"));
        }
        let head = String::from_utf8(head).expect("text");
        let target = head.split(' ').nth(1).expect("a target").to_owned();
        let token = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap_or_default();
        (target, token.to_owned(), stream)
    }

    /// Waits until the pods of the records have these labels.
    async fn wait(&self, expected: &[(&str, &str)]) {
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, app)| ((*name).to_owned(), (*app).to_owned())).collect();
        for _ in 0..1000 {
            let labels = self.records().read_all().expect("records").labels;
            let found: Vec<(String, String)> =
                labels.into_iter().map(|of| (of.name, of.labels["app"].clone())).collect();
            if found == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{expected:?} are not in {:?}", self.records().read_all());
    }
}

async fn respond(stream: &mut TlsStream<TcpStream>, body: &str) {
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.expect("sent");
}

async fn list(stream: &mut TlsStream<TcpStream>, version: u32, pods: &[String]) {
    let items = pods.join(",");
    let metadata = format!(r#"{{ "resourceVersion": "{version}" }}"#);
    respond(stream, &format!(r#"{{ "kind": "PodList", "metadata": {metadata}, "items": [{items}] }}"#)).await;
}

async fn fail(stream: &mut TlsStream<TcpStream>, status: &str, body: &str) {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.expect("sent");
}

/// The body of a 504 of the API server whose version is older than the request's.
const TOO_LARGE: &str = r#"{ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
    "message": "Too large resource version: 30, current: 20", "reason": "Timeout", "code": 504, "details": {
    "causes": [ { "reason": "ResourceVersionTooLarge", "message": "Too large resource version" } ],
    "retryAfterSeconds": 1 } }"#;

/// Begins a response without an end.
async fn watch(stream: &mut TlsStream<TcpStream>) {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.expect("sent");
}

async fn event(stream: &mut TlsStream<TcpStream>, kind: &str, object: &str) {
    let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
    // In two parts, as a network may deliver it.
    let (first, second) = line.split_at(line.len() / 2);
    for part in [first, second] {
        stream.write_all(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes()).await.expect("sent");
        stream.flush().await.expect("sent");
    }
}

const LIST: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3Dm%201";

#[tokio::test]
async fn records_follow_lists_and_watches() {
    let server = Server::new().await;
    let (api, records) = (server.api(), server.records());
    let script = async {
        let (target, token, mut stream) = server.request().await;
        assert_eq!((target, token.as_str()), (format!("{LIST}&resourceVersion=0"), "first"));
        list(&mut stream, 5, &[pod("a", "web", 3), pod("b", "web", 4)]).await;
        server.wait(&[("a", "web"), ("b", "web")]).await;
        fs::write(server.directory.path().join("token"), "second\n").expect("written");

        let (target, token, mut stream) = server.request().await;
        assert!(target.starts_with(LIST) && target.contains("&watch=true") && target.contains("&resourceVersion=5&"));
        assert_eq!(token, "second", "the file of the token is read again");
        watch(&mut stream).await;
        event(&mut stream, "MODIFIED", &pod("a", "db", 6)).await;
        event(&mut stream, "ADDED", &pod("c", "web", 7)).await;
        event(&mut stream, "DELETED", &pod("b", "web", 8)).await;
        server.wait(&[("a", "db"), ("c", "web")]).await;
        event(&mut stream, "BOOKMARK", r#"{ "metadata": { "resourceVersion": "20" } }"#).await;
        stream.write_all(b"0\r\n\r\n").await.expect("sent");
        drop(stream);

        // The watch goes on from the last version; once that is too old, the pods are listed again.
        let (target, _, mut stream) = server.request().await;
        assert!(target.contains("&resourceVersion=20&"), "{target}");
        watch(&mut stream).await;
        event(&mut stream, "ERROR", r#"{ "code": 410, "message": "too old" }"#).await;
        let mut stream = server.list_request("").await;
        list(&mut stream, 30, &[pod("c", "web", 7)]).await;
        server.wait(&[("c", "web")]).await;
        // A server that fails leaves the records as they are. The next list requires the same version or a later one.
        let (_, _, mut stream) = server.request().await;
        fail(&mut stream, "500 Internal Server Error", "").await;
        let mut stream = server.list_request("&resourceVersion=30").await;
        server.wait(&[("c", "web")]).await;
        // A server that is behind this version cannot serve it.
        fail(&mut stream, "504 Gateway Timeout", TOO_LARGE).await;
        server.list_request("").await;
    };
    tokio::select! {
        ended = follow(&api, "m 1", &records) => panic!("{ended:?}"),
        () = script => {}
    }
}

#[tokio::test]
async fn a_timeout_of_a_proxy_does_not_change_the_version_of_lists() {
    const PAGE: &str = "<html><head><title>504 Gateway Time-out</title></head></html>";
    let server = Server::new().await;
    let (api, records) = (server.api(), server.records());
    let script = async {
        let mut stream = server.list_request("&resourceVersion=0").await;
        fail(&mut stream, "504 Gateway Timeout", PAGE).await;
        let mut stream = server.list_request("&resourceVersion=0").await;
        list(&mut stream, 5, &[pod("a", "web", 3)]).await;
        let (_, _, mut stream) = server.request().await;
        fail(&mut stream, "504 Gateway Timeout", PAGE).await;
        server.list_request("&resourceVersion=5").await;
    };
    tokio::select! {
        ended = follow(&api, "m 1", &records) => panic!("{ended:?}"),
        () = script => {}
    }
}

#[tokio::test]
async fn the_first_list_is_not_older_than_records_and_replaces_damaged_ones() {
    let server = Server::new().await;
    let (api, records) = (server.api(), server.records());
    let [a, b]: [PodList; 2] = ["a", "b"].map(|name| {
        let text = format!(r#"{{ "kind": "PodList", "items": [{}] }}"#, pod(name, "web", 3));
        PodList::read(text.as_bytes()).expect("a list")
    });
    replace(&records, Some("m 1"), &[a.items, b.items].concat()).expect("written");
    for damaged in ["labels-shop:a.json", "labels-shop:gone.json", "labels-.json"] {
        fs::write(records.path().join(damaged), "{").expect("written");
    }
    // Those of the plugin are not of the API server.
    fs::write(records.path().join("attachment-c:eth0.json"), "{").expect("written");
    let script = async {
        // A list of any version could lack `b`.
        let mut stream = server.list_request("").await;
        list(&mut stream, 5, &[pod("a", "web", 3), pod("b", "web", 4)]).await;
        server.wait(&[("a", "web"), ("b", "web")]).await;
        let refused = records.read_all().expect("records").refused;
        assert!(matches!(&refused[..], [(name, _)] if name == "attachment-c:eth0.json"), "{refused:?}");
    };
    tokio::select! {
        ended = follow(&api, "m 1", &records) => panic!("{ended:?}"),
        () = script => {}
    }
}

#[tokio::test]
async fn a_list_that_stops_in_the_middle_is_requested_again() {
    let server = Server::new().await;
    let (api, records) = (server.api().with_patience(Duration::from_millis(500)), server.records());
    let script = async {
        let mut stream = server.list_request("&resourceVersion=0").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{ \"kind\": ").await.expect("sent");
        stream.flush().await.expect("sent");
        // The connection stays open.
        let mut second = server.list_request("&resourceVersion=0").await;
        list(&mut second, 5, &[pod("a", "web", 3)]).await;
        server.wait(&[("a", "web")]).await;
    };
    tokio::select! {
        ended = follow(&api, "m 1", &records) => panic!("{ended:?}"),
        () = script => {}
    }
}

#[tokio::test]
async fn servers_without_tls_get_no_token() {
    let server = Server::new().await;
    let token = server.directory.path().join("token");
    let ca = server.directory.path().join("ca.pem");
    let refused = |url: &str, token| match Api::new(url, token, Some(&*ca)) {
        Err(error @ ApiError::Url { .. }) => error.to_string(),
        _ => panic!("accepted: {url}"),
    };
    assert_eq!(refused("http://localhost:1", Some(&*token)), "http://localhost:1: a token is sent over https only");
    assert!(refused("localhost", None).ends_with("write https://HOST:PORT"));
    assert!(refused("https://localhost/api", None).contains("it has a path"));
    let missing = Api::new("https://localhost:1", Some(&*server.directory.path().join("none")), Some(&*ca));
    assert!(matches!(missing, Err(ApiError::File { .. })));
    let empty = Api::new("https://localhost:1", None, Some(&*token));
    assert!(matches!(empty, Err(ApiError::File { cause, .. }) if cause == "it has no certificate"));
}
