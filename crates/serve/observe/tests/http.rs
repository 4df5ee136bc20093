//! The server over real connections, and the watcher over real sources.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_observe::server::{self, Limits};
use weir_observe::{Liveness, Publisher, Server, Source, Watcher};
use weir_policy::Policy;
use weir_status::{AgentStatus, Status};

fn agent(written: u64) -> AgentStatus {
    let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1] } } }\n\
                services: { a: { match: [ { port: 1 } ] } }\n";
    let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
    let mut status = AgentStatus::outline(&policy, policy.network().machine_named("m1").expect("there"));
    status.written_ms = written;
    status
}

fn serve(publisher: &Publisher, limits: Limits) -> Server {
    let listener = server::listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
    let reader = publisher.reader();
    server::start("test", listener, limits, move || reader.router()).expect("starts")
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    stream
}

/// Sends `request` and returns all bytes until the server closes the connection.
fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut response = Vec::new();
    // A server that refuses a head may reset the connection. The bytes before the reset count.
    let _ = stream.read_to_end(&mut response);
    String::from_utf8(response).expect("text")
}

fn request(address: SocketAddr, method: &str, path: &str) -> (String, String) {
    let response = raw(address, &format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"));
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    (head.to_ascii_lowercase(), body.to_owned())
}

#[expect(clippy::disallowed_methods, reason = "a test waits for threads and sockets of the real world")]
fn soon(what: &str, mut is: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

#[test]
fn status_and_metrics_are_served_read_only() {
    let publisher = Publisher::new();
    let server = serve(&publisher, Limits::default());
    let address = server.address();
    assert!(request(address, "GET", "/status").0.starts_with("http/1.1 503"));
    publisher.publish(Status::Agent(agent(5)));
    let (head, body) = request(address, "GET", "/status");
    assert!(head.starts_with("http/1.1 200") && head.contains("content-type: application/json\r\n"), "{head}");
    assert!(head.contains("cache-control: no-store") && head.contains("x-content-type-options: nosniff"), "{head}");
    assert_eq!(Status::read(body.as_bytes()).expect("a status"), Status::Agent(agent(5)));
    let (head, body) = request(address, "GET", "/metrics");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    assert!(body.contains("weir_agent_info{machine=\"m1\"") && body.ends_with("# EOF\n"), "{body}");
    // The same head, without a body.
    let (head, body) = request(address, "HEAD", "/metrics");
    assert!(head.starts_with("http/1.1 200") && head.contains("content-length: ") && body.is_empty(), "{head} {body}");
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        let (head, _) = request(address, method, "/status");
        assert!(head.starts_with("http/1.1 405") && head.contains("allow: get,head"), "{method}: {head}");
    }
    for path in ["/", "/stat", "/status/", "/../etc/passwd", "//status"] {
        assert!(request(address, "GET", path).0.starts_with("http/1.1 404"), "{path}");
    }
    publisher.publish(Status::Agent(agent(6)));
    assert!(request(address, "GET", "/status").1.contains("\"written_ms\": 6"));
}

/// After DNS rebinding, a page's requests carry the page's host name.
#[test]
fn requests_for_another_host_name_are_refused() {
    let publisher = Publisher::new();
    publisher.publish(Status::Agent(agent(1)));
    let server = serve(&publisher, Limits::default());
    let send = |target: &str, host: &str| {
        raw(server.address(), &format!("GET {target} HTTP/1.1\r\n{host}connection: close\r\n\r\n"))
    };
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim().to_owned();
    let address = server.address();
    for host in
        [format!("host: {address}\r\n"), "host: localhost\r\n".to_owned(), format!("host: {own}\r\n"), String::new()]
    {
        assert!(send("/status", &host).starts_with("HTTP/1.1 200"), "{host}");
    }
    assert!(raw(address, "GET /status HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200"));
    for (target, host) in [
        ("/status", "host: page.example\r\n"),
        ("/metrics", "host: page.example:30566\r\n"),
        ("/nowhere", "host: localhost.page.example\r\n"),
        ("/status", "host: localhost\r\nhost: page.example\r\n"),
        ("/status", "host: \r\n"),
        ("http://page.example/status", "host: localhost\r\n"),
    ] {
        let response = send(target, host);
        assert!(
            response.starts_with("HTTP/1.1 421") && response.contains("hint: use its address"),
            "{target} {host}: {response}"
        );
        assert!(!response.contains("page.example") && !response.contains("weir_"), "{response}");
    }
}

#[test]
fn large_heads_are_refused() {
    let publisher = Publisher::new();
    publisher.publish(Status::Agent(agent(1)));
    let server = serve(&publisher, Limits::default());
    let fields = |count: usize, length: usize| -> String {
        let field = |i| format!("x-{i}: {}\r\n", "y".repeat(length));
        format!(
            "GET /status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{}\r\n",
            (0..count).map(field).collect::<String>()
        )
    };
    assert!(raw(server.address(), &fields(60, 10)).starts_with("HTTP/1.1 200"));
    for (count, length) in [(100, 10), (1, 20_000)] {
        let response = raw(server.address(), &fields(count, length));
        assert!(response.starts_with("HTTP/1.1 431"), "{count} × {length}: {response}");
    }
    assert!(raw(server.address(), "\x16\x03\x01 not HTTP\r\n\r\n").starts_with("HTTP/1.1 400"));
}

#[test]
fn slow_and_idle_connections_are_closed() {
    let publisher = Publisher::new();
    publisher.publish(Status::Agent(agent(1)));
    let limits = Limits { head: Duration::from_millis(300), life: Duration::from_millis(900), ..Limits::default() };
    let server = serve(&publisher, limits);
    // An incomplete head.
    let mut slow = connect(server.address());
    slow.write_all(b"GET /status HTTP/1.1\r\nhost:").expect("sent");
    let mut rest = Vec::new();
    let closed = soon("the end of half a head", || matches!(slow.read(&mut [0; 512]), Ok(0) | Err(_)));
    assert!(closed < Duration::from_secs(5), "{closed:?}");
    // A head that arrives byte by byte.
    let mut dripping = connect(server.address());
    soon("the end of a head that drips", || dripping.write_all(b"G").is_err());
    // An idle connection after a response.
    let mut idle = connect(server.address());
    idle.write_all(b"GET /status HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    idle.read_to_end(&mut rest).expect("a response, then EOF");
    assert!(rest.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn connections_in_use_stay_before_idle_ones() {
    let publisher = Publisher::new();
    publisher.publish(Status::Agent(agent(1)));
    let limits = Limits { connections: 2, head: Duration::from_secs(60), ..Limits::default() };
    let server = serve(&publisher, limits);
    let get = |stream: &mut TcpStream| {
        stream.write_all(b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
        stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0)
    };
    let (mut used, mut idle) = (connect(server.address()), connect(server.address()));
    assert!(get(&mut used) && get(&mut idle) && get(&mut used));
    let mut third = connect(server.address());
    assert!(get(&mut third), "a new connection is served at once");
    assert!(matches!(idle.read(&mut [0; 1]), Ok(0) | Err(_)), "the one without a request for longest makes room");
    assert!(get(&mut used) && get(&mut third));
}

/// Idle connections from `address`, which may be any of the loopback network.
fn idle_from(address: &str, server: SocketAddr, count: usize) -> Vec<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let open = async || {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::new(address.parse().expect("an address"), 0)).expect("bound");
        socket.connect(server).await.expect("connected").into_std().expect("a socket")
    };
    (0..count).map(|_| runtime.block_on(open())).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of real sockets measures real time")]
fn idle_connections_keep_no_client_out() {
    let publisher = Publisher::new();
    publisher.publish(Status::Agent(agent(1)));
    let server = serve(&publisher, Limits { head: Duration::from_secs(60), ..Limits::default() });
    for idle in ["127.0.0.2", "127.0.0.1"] {
        let _held = idle_from(idle, server.address(), 300);
        let begun = Instant::now();
        assert!(request(server.address(), "GET", "/metrics").0.starts_with("http/1.1 200"), "beside {idle}");
        assert!(begun.elapsed() < Duration::from_secs(1), "beside {idle}: {:?}", begun.elapsed());
    }
}

#[test]
fn dropped_server_releases_its_port() {
    let publisher = Publisher::new();
    let server = serve(&publisher, Limits::default());
    let address = server.address();
    let taken = server::listen(address).expect_err("taken");
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn watcher_distinguishes_live_and_lost_sources() {
    let publisher = Publisher::new();
    publisher.publish(Status::Agent(agent(1)));
    let server = serve(&publisher, Limits::default());
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("m2.json");
    // Accepts connections and sends nothing.
    let mute = TcpListener::bind("127.0.0.1:0").expect("listens");
    let silent = Source::at(mute.local_addr().expect("an address"));
    let livenesses = vec![
        Liveness::new(Source::at(server.address()), Some("m1".into())),
        Liveness::new(Source::File(file.clone()), None),
        Liveness::new(silent, Some("m3".into())),
    ];
    let watcher = Watcher::start(livenesses).expect("starts");
    let lost = |index: usize| watcher.latest().map(|view| view.livenesses[index].lost.clone());
    let first = soon("a first view", || watcher.latest().is_some());
    assert!(first < Duration::from_secs(5), "a hanging source delays the others: {first:?}");
    assert_eq!(lost(0), Some(None));
    let why = |place| lost(place).flatten().map(|lost| lost.why).unwrap_or_default();
    assert!(why(1).contains("No such file"), "{}", why(1));
    assert_eq!(why(2), "no response within 800 ms");
    std::fs::write(&file, Status::Agent(agent(1)).to_json()).expect("written");
    soon("a file that comes later", || lost(1) == Some(None));
    drop(server);
    soon("a server that goes", || why(0).contains("refused"));
    let view = watcher.latest().expect("a view");
    assert_eq!(view.livenesses[0].status.as_ref().map(|status| status.name().to_owned()), Some("m1".to_owned()));
    std::fs::write(&file, "{}").expect("written");
    soon("a file that is broken", || why(1).starts_with("not a status"));
}
