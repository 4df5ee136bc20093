//! A fabric broker, rack leaders and impostors, over real TLS on loopback.

mod common;

use common::{Broker, PERIOD, World, ca, wait_for};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::Sender;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Code, Status, Streaming};
use weir_control::rate::rounded;
use weir_control::{EpochNotice, RackLimits, RackReport, RateRow, Reach};
use weir_fabric::proto::fabric_client::FabricClient;
use weir_fabric::proto::{self, from_broker, from_leader};
use weir_fabric::{FromFabric, IdentityFiles, Session, SessionError, SessionState, convert};
use weir_units::{Bandwidth, MachineId, PerDirection, RackId, ServiceId};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// The next limits, if they come within five periods. To proposals it replies that nothing else in the
/// rack grows.
fn next(session: &mut Session) -> RackLimits {
    let wait = std::time::Duration::from_nanos((PERIOD * 5).nanos());
    let limits = async {
        loop {
            match session.message().await {
                FromFabric::Limits(limits) => return limits,
                FromFabric::Proposal(limits) => session.reply(reply(&limits)),
                FromFabric::Reach(_) | FromFabric::Notice(_) => {}
            }
        }
    };
    runtime().block_on(async { tokio::time::timeout(wait, limits).await }).expect("limits within five periods")
}

/// A reply of the rack's first machine with all that a proposal allows.
fn reply(limits: &RackLimits) -> RackReport {
    let RackLimits { policy, epoch, round, first, last, .. } = *limits;
    let finite = |rate: Bandwidth| if rate.is_unlimited() { Bandwidth::ZERO } else { rate };
    let rows = limits
        .rows
        .iter()
        .map(|row| RateRow {
            service: row.service,
            rates: PerDirection { tx: finite(row.rates.tx), rx: finite(row.rates.rx) },
        })
        .collect();
    RackReport { machine: MachineId(0), policy, epoch, round, first, last, rows }
}

fn of_a(limits: &RackLimits) -> Bandwidth {
    limits.rows.iter().find(|row| row.service == ServiceId(0)).map_or(Bandwidth::UNLIMITED, |row| row.rates.tx)
}

fn gbps(rate: u64) -> Bandwidth {
    rounded(Bandwidth::from_gbps(rate))
}

#[test]
fn rack_leaders_report_and_get_the_limits_of_their_own_rack() {
    let world = World::new();
    let broker = world.broker("broker");
    let (mut one, mut two) = (world.session("m1", &broker), world.session("m3", &broker));
    assert_eq!(one.status().state, SessionState::Idle, "no stream without a report");
    assert_eq!(one.status().silent, None);
    one.report(world.report("m1", 1, 8));
    two.report(world.report("m3", 1, 8));
    broker.wait_for_counter("rack_reports_accepted", 2);
    // The first limits may be of a period before both reports arrived.
    wait_for("both racks to be limited", || of_a(&next(&mut one)) == gbps(5));
    let (first, second) = (next(&mut one), next(&mut two));
    assert!(one.status().silent.is_some_and(|silent| silent.as_nanos() < u128::from(PERIOD.nanos() * 2)));
    assert_eq!((first.rack, second.rack), (RackId(0), RackId(1)));
    assert_eq!((of_a(&first), first.policy), (gbps(5), world.policy.digest()));
    let again = next(&mut one);
    assert!((again.epoch, again.round) > (first.epoch, first.round), "new limits in each period");
    assert_eq!(again.epoch, broker.status()["epoch"].as_u64().expect("an epoch"));
    let status = broker.status();
    assert_eq!(
        (&status["streams"], &status["racks_reporting"], &status["leads"]),
        (&2.into(), &2.into(), &true.into())
    );
    let limits = status["limits"].as_array().expect("a list");
    let racks: Vec<_> = limits
        .iter()
        .filter(|limit| limit["direction"] == "tx")
        .map(|limit| (&limit["rack"], &limit["limit_bps"]))
        .collect();
    assert_eq!(racks, [(&"r1".into(), &gbps(5).bps().into()), (&"r2".into(), &gbps(5).bps().into())]);
    // Old and repeated reports are counted, and the newest stays in force.
    one.report(world.report("m1", 1, 1));
    broker.wait_for_counter("rack_reports_replayed", 1);
    // The session of a machine that does not lead its rack any more closes its stream.
    wait_for("the stream to close", || one.status().state == SessionState::Idle);
    wait_for("the streams to end", || broker.status()["streams"] == 0);
    // A new report opens a stream again.
    one.report(world.report("m1", 2, 3));
    wait_for("another stream", || one.status().streams == 2);
    broker.wait_for_counter("rack_reports_accepted", 3);
}

#[test]
fn epochs_that_go_down_are_noticed_on_both_sides() {
    let world = World::new();
    let broker = world.broker("broker");
    let mut session = world.session("m1", &broker);
    let report = world.report("m1", 1, 8);
    session.report(RackReport { epoch: 900, ..report.clone() });
    broker.wait_for_counter("rack_reports_accepted", 1);
    session.report(RackReport { epoch: 5, ..report.clone() });
    let notice = async {
        loop {
            if let FromFabric::Notice(notice) = session.message().await {
                return notice;
            }
        }
    };
    let wait = std::time::Duration::from_nanos((PERIOD * 5).nanos());
    let notice = runtime().block_on(async { tokio::time::timeout(wait, notice).await }).expect("a notice");
    let known = EpochNotice { from: None, policy: world.policy.digest(), to: None, epoch: 900, round: 1 };
    assert_eq!(notice, known);
    broker.wait_for_counter("rack_reports_older_epoch", 1);
    broker.wait_for_counter("epoch_notices_sent", 1);
    // The other direction: limits of an epoch above the one that the machine has received.
    let ahead = broker.status()["epoch"].as_u64().expect("an epoch") + 1_000_000_000_000_000;
    session.notify(&EpochNotice { epoch: ahead, ..known });
    broker.wait_for_counter("epochs_raised", 1);
    assert_eq!(broker.status()["epoch"].as_u64(), Some(ahead + 1));
    session.report(RackReport { epoch: 901, round: 2, ..report });
    wait_for("limits of the new epoch", || next(&mut session).epoch == ahead + 1);
}

#[test]
fn certificates_of_another_ca_are_refused_on_both_sides() {
    let world = World::new();
    let broker = world.broker("broker");
    let other = ca(&world.directory.path().join("other"));
    let foreign = other.files(&weir_fabric::ca::Holder::Machine("m1".to_owned()));
    // A client with a foreign certificate that trusts the broker.
    let mut config = world.session_config("m1", &[broker.url()]);
    config.identity = IdentityFiles { ca: world.ca.certificate(), ..foreign.clone() };
    let session = Session::start(config).expect("a session");
    session.report(world.report("m1", 1, 8));
    wait_for("the failure", || session.status().failures > 0);
    broker.wait_for_counter("handshakes_failed", 1);
    // A client that trusts another CA than the broker's.
    let mut config = world.session_config("m1", &[broker.url()]);
    config.identity.ca = other.certificate();
    let session = Session::start(config).expect("a session");
    session.report(world.report("m1", 1, 8));
    wait_for("the failure", || {
        session.status().last_failure.is_some_and(|why| why.contains("invalid peer certificate"))
    });
    // A client without TLS, and one with a fabric broker's certificate, which is not for clients.
    let failed = broker.counter("handshakes_failed");
    let mut plain = TcpStream::connect(broker.listen).expect("it listens");
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("sent");
    broker.wait_for_counter("handshakes_failed", failed + 1);
    drop(session);
    let failed = broker.counter("handshakes_failed");
    let fabric = weir_fabric::ca::Holder::Fabric(vec!["127.0.0.1".to_owned()]);
    let refused = runtime().block_on(stream(&broker, &world.ca.files(&fabric), "127.0.0.1", vec![]));
    refused.expect_err("not a client's certificate");
    broker.wait_for_counter("handshakes_failed", failed + 1);
    assert_eq!(broker.counter("rack_reports_accepted"), 0);
}

/// The session's next change of reach, if it comes within five seconds.
fn next_reach(session: &mut Session) -> Reach {
    let reach = async {
        loop {
            if let FromFabric::Reach(reach) = session.message().await {
                return reach;
            }
        }
    };
    runtime()
        .block_on(async { tokio::time::timeout(std::time::Duration::from_secs(5), reach).await })
        .expect("a change")
}

#[test]
fn session_reports_whether_it_reaches_a_broker() {
    let world = World::new();
    let broker = world.broker("broker");
    let other = ca(&world.directory.path().join("other"));
    let mut config = world.session_config("m1", &[broker.url()]);
    let session = Session::start(config.clone()).expect("a session");
    assert_eq!(session.reach(), Reach::Able, "no stream is needed");
    session.report(world.report("m1", 1, 8));
    wait_for("the stream", || session.status().streams == 1);
    assert_eq!(session.reach(), Reach::Able);
    drop(session);
    // A machine with a certificate of another CA, which the operator replaces.
    let good = config.identity.clone();
    let foreign = other.files(&weir_fabric::ca::Holder::Machine("m1".to_owned()));
    config.identity.certificate = world.directory.path().join("certificate.pem");
    config.identity.private_key = world.directory.path().join("key.pem");
    let install = |files: &IdentityFiles| {
        for (from, to) in
            [(&files.private_key, &config.identity.private_key), (&files.certificate, &config.identity.certificate)]
        {
            let _ = std::fs::remove_file(to);
            std::fs::copy(from, to).expect("copied");
        }
    };
    install(&foreign);
    let mut session = Session::start(config.clone()).expect("a session");
    session.report(world.report("m1", 2, 8));
    assert_eq!(next_reach(&mut session), Reach::Trying);
    wait_for("the failure", || session.status().failures > 0);
    assert_eq!(session.reach(), Reach::Trying);
    // The report is obsolete after a period. That is no success.
    wait_for("the end of the attempts", || session.status().state == SessionState::Idle);
    assert_eq!(session.reach(), Reach::Trying);
    install(&good);
    // The leader repeats its report.
    session.report(world.report("m1", 3, 8));
    assert_eq!(next_reach(&mut session), Reach::Able);
    wait_for("the stream", || session.status().streams == 1);
}

/// A connection that sends nothing, from an address of the loopback network.
async fn idle_from(address: &str, broker: &Broker) -> tokio::net::TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(format!("{address}:0").parse().expect("an address")).expect("bound");
    socket.connect(broker.listen).await.expect("it listens")
}

/// Keeps 200 idle connections to the broker open, each opened anew when the broker ends it.
async fn idle_for_ever(address: &str, broker: &Broker) {
    let one = async || {
        loop {
            let mut idle = idle_from(address, broker).await;
            let _ = idle.read(&mut [0]).await;
        }
    };
    let many = std::iter::repeat_with(one).take(200).map(Box::pin);
    let mut many: Vec<_> = many.collect();
    std::future::poll_fn(|context| {
        for one in &mut many {
            let _: std::task::Poll<()> = one.as_mut().poll(context);
        }
        std::task::Poll::Pending
    })
    .await
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of real sockets measures real time")]
fn idle_connections_keep_no_machine_out() {
    let world = World::new();
    let broker = world.broker("broker");
    for (round, address) in [(1, "127.0.0.2"), (2, "127.0.0.1")] {
        let streams = runtime().block_on(async {
            let connects = async {
                // The idle connections are there first.
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                let begun = std::time::Instant::now();
                let session = Session::start(world.session_config("m1", &[broker.url()])).expect("a session");
                session.report(world.report("m1", round, 8));
                while session.status().streams == 0 && begun.elapsed() < std::time::Duration::from_secs(2) {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
                (session.status().streams, session.status().failures)
            };
            tokio::select! {
                streams = connects => streams,
                () = idle_for_ever(address, &broker) => unreachable!("it goes on for ever"),
            }
        });
        assert_eq!(streams, (1, 0), "beside idle connections from {address}");
    }
    assert_eq!(broker.counter("handshakes_replaced"), 0, "there is room for all");
}

/// A client that only sends the preface of HTTP/2.
async fn connect(broker: &Broker, files: &IdentityFiles) -> TlsStream<tokio::net::TcpStream> {
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(&files.ca).expect("a certificate")).expect("a CA");
    let own = CertificateDer::from_pem_file(&files.certificate).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(&files.private_key).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let mut config = config.with_root_certificates(trusted).with_client_auth_cert(vec![own], key).expect("an identity");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(broker.listen).await.expect("it listens");
    let host = ServerName::try_from("127.0.0.1").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(host, stream).await.expect("let in");
    // The preface and empty settings (RFC 9113, 3.4).
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(preface).await.expect("sent");
    // The broker's settings: with TLS 1.3 the client's handshake ends first, so that connections opened
    // one after the other may be admitted in another order.
    stream.read_exact(&mut [0; 9]).await.expect("admitted");
    stream
}

/// Reads until the broker ends the connection.
async fn ended(mut stream: TlsStream<tokio::net::TcpStream>) {
    let mut some = [0; 256];
    while stream.read(&mut some).await.is_ok_and(|read| read > 0) {}
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of real sockets measures real time")]
fn certificate_has_few_connections_and_none_without_a_stream() {
    let world = World::new();
    let broker = world.broker("broker");
    let files = world.files("m1");
    let leader = world.files("m3");
    let crowd = async {
        let first = connect(&broker, &files).await;
        let mut others = Vec::new();
        for _ in 0..4 {
            others.push(connect(&broker, &files).await);
        }
        let opened = std::time::Instant::now();
        ended(first).await;
        assert!(opened.elapsed() < std::time::Duration::from_secs(5), "a fifth takes the first one's place");
        // No hello arrives on the others. Without replies to pings they would end after 20 s.
        for other in others {
            ended(other).await;
            let after = opened.elapsed().as_secs_f64();
            assert!((8.0..16.0).contains(&after), "after {after} s");
        }
    };
    runtime().block_on(async {
        let (_send, mut messages) = open(&broker, &leader, "m3", Vec::new()).await.expect("welcome");
        // The crowd lasts longer than a connection without a hello may.
        let received = async { while messages.message().await.is_ok_and(|message| message.is_some()) {} };
        tokio::select! {
            () = crowd => {}
            () = received => panic!("the connection with a stream ended"),
        }
    });
    assert_eq!(broker.status()["streams"], 1);
}

#[test]
fn machine_reports_for_itself_only() {
    let world = World::new();
    let broker = world.broker("broker");
    // The session does not even start.
    let mut config = world.session_config("m2", &[broker.url()]);
    config.identity = world.files("m1");
    let refused = Session::start(config).expect_err("m1's certificate");
    assert!(matches!(refused, SessionError::Identity(_)), "{refused}");
    // A client other than Weir's agent is refused by the broker.
    let reports = vec![convert::from_report(&world.report("m3", 1, 8))];
    let refused = runtime().block_on(stream(&broker, &world.files("m1"), "m3", reports)).expect_err("m1's certificate");
    assert_eq!((refused.code(), refused.message()), (Code::PermissionDenied, "the certificate does not name `m3`"));
    broker.wait_for_counter("streams_other_machine", 1);
    let refused = runtime().block_on(stream(&broker, &world.files("m9"), "m9", vec![])).expect_err("not in the policy");
    assert_eq!(refused.code(), Code::NotFound);
    broker.wait_for_counter("streams_unknown_machine", 1);
    // Limits are for the rack of the machine in the certificate, whatever the report names.
    let reports = vec![convert::from_report(&world.report("m2", 1, 8))];
    let messages = runtime().block_on(stream(&broker, &world.files("m2"), "m2", reports)).expect("welcome");
    let limits = messages.iter().find_map(|message| match &message.message {
        Some(from_broker::Message::Limits(limits)) => Some(convert::limits(limits).expect("limits")),
        _ => None,
    });
    assert_eq!(limits.expect("limits").rack, RackId(0));
    assert_eq!(broker.counter("rack_reports_accepted"), 1);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of real certificates waits until one ends")]
fn machine_with_an_ended_certificate_starts_and_reports_why_it_has_no_stream() {
    let world = World::new();
    let broker = world.broker("broker");
    let other = ca(&world.directory.path().join("other"));
    // The certificate ends in the second in which it is made.
    let short = weir_fabric::ca::Holder::Machine("m7".to_owned());
    world.ca.issue(&short, 0).expect("made");
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let mut config = world.session_config("m7", &[broker.url()]);
    let files = config.identity.clone();
    let session = Session::start(config.clone()).expect("a session");
    let ended = session.status().certificate_ends.expect("known at the start");
    session.report(world.report("m1", 1, 8));
    let why = |session: &Session| session.status().last_failure.unwrap_or_default();
    wait_for("the reason", || why(&session).contains("machine-m7.pem ended on "));
    assert!(why(&session).contains("; get a new one"), "{}", why(&session));
    assert_eq!(broker.counter("handshakes_failed"), 0, "no connection was made");
    // A renewed certificate is used without a restart.
    for path in [&files.certificate, &files.private_key] {
        std::fs::remove_file(path).expect("removed");
    }
    world.ca.issue(&short, 2).expect("made");
    session.report(world.report("m1", 2, 8));
    wait_for("the new end", || session.status().certificate_ends.is_some_and(|ends| ends > ended + 86_400));
    broker.wait_for_counter("streams_unknown_machine", 1);
    // A certificate that is not for clients prevents the start.
    let fabric = weir_fabric::ca::Holder::Fabric(vec!["127.0.0.1".to_owned()]);
    config.machine = "127.0.0.1".to_owned();
    config.identity = other.files(&fabric);
    let refused = Session::start(config).expect_err("a fabric broker's").to_string();
    assert!(refused.contains("is not for client authentication"), "{refused}");
}

#[test]
fn message_that_no_rack_leader_sends_is_counted_and_changes_nothing() {
    let world = World::new();
    let broker = world.broker("broker");
    let good = world.report("m1", 5, 8);
    let altered = |change: fn(&mut RackReport)| {
        let mut altered = world.report("m1", 9, 1);
        change(&mut altered);
        convert::from_report(&altered)
    };
    let messages = vec![
        convert::from_report(&good),
        altered(|report| report.rows[0].rates.tx = Bandwidth::from_bps(10_000_000_001)),
        altered(|report| report.rows[0].service = ServiceId(7)),
        altered(|report| report.first = ServiceId(u32::MAX)),
        altered(|report| report.rows[0].rates.rx = Bandwidth::UNLIMITED),
        proto::FromLeader { message: None },
        altered(|report| report.policy ^= 1),
        altered(|report| report.round = 4),
        convert::from_report(&good),
    ];
    runtime().block_on(stream(&broker, &world.files("m1"), "m1", messages)).expect("welcome");
    broker.wait_for_counter("rack_reports_replayed", 2);
    assert_eq!(broker.counter("rack_reports_accepted"), 1);
    assert_eq!(broker.counter("rack_reports_malformed"), 5);
    assert_eq!(broker.counter("rack_reports_other_policy"), 1);
    // A stream must begin with a name.
    let refused = runtime().block_on(stream(&broker, &world.files("m1"), "", vec![])).expect_err("no name");
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[test]
fn session_finds_another_broker_and_sends_it_the_newest_report() {
    let world = World::new();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let unreachable = format!("https://{}", gone.local_addr().expect("an address")).parse().expect("an address");
    drop(gone);
    let broker = world.broker("broker");
    // The first address does not respond: the second one is tried.
    let mut session = Session::start(world.session_config("m1", &[unreachable, broker.url()])).expect("a session");
    session.report(world.report("m1", 1, 8));
    assert_eq!(next(&mut session).rack, RackId(0));
    let status = session.status();
    assert_eq!((status.state, status.failures), (SessionState::Up(broker.url().to_string()), 1));
    // Another stream of the same machine ends the first. The session reconnects and does not repeat
    // the report.
    let messages = runtime().block_on(stream(&broker, &world.files("m1"), "m1", vec![])).expect("welcome");
    assert!(!messages.is_empty());
    // A leader reports each period: on a busy machine a report may be obsolete before the session is up.
    let (mut polls, mut round) = (0, 1);
    wait_for("the session to be back", || {
        if polls % 50 == 0 {
            round += 1;
            session.report(world.report("m1", round, 8));
        }
        polls += 1;
        session.status().streams >= 2
    });
    broker.wait_for_counter("rack_reports_accepted", 2);
    assert_eq!(broker.counter("rack_reports_replayed"), 0);
}

/// A rack leader other than Weir's agent, which has no timeouts: a stream with the first messages
/// sent, and the channel for more.
async fn open(
    broker: &Broker,
    files: &IdentityFiles,
    machine: &str,
    to_broker: Vec<proto::FromLeader>,
) -> Result<(Sender<proto::FromLeader>, Streaming<proto::FromBroker>), Status> {
    let read = |path| std::fs::read_to_string(path).expect("a file");
    let own = tonic::transport::Identity::from_pem(read(&files.certificate), read(&files.private_key));
    let trusted = Certificate::from_pem(read(&files.ca));
    let tls = ClientTlsConfig::new().ca_certificate(trusted).identity(own);
    let endpoint = Endpoint::from_shared(broker.url().to_string()).and_then(|endpoint| endpoint.tls_config(tls));
    let channel = endpoint.expect("an address").connect().await.map_err(|error| Status::unknown(error.to_string()))?;
    let (send, receive) = tokio::sync::mpsc::channel(to_broker.len() + 1);
    let hello = from_leader::Message::Hello(proto::Hello { machine: machine.to_owned() });
    for message in [proto::FromLeader { message: Some(hello) }].into_iter().chain(to_broker) {
        send.send(message).await.expect("room");
    }
    Ok((send, FabricClient::new(channel).lead(ReceiverStream::new(receive)).await?.into_inner()))
}

/// The messages that such a leader receives within three periods.
async fn stream(
    broker: &Broker,
    files: &IdentityFiles,
    machine: &str,
    to_broker: Vec<proto::FromLeader>,
) -> Result<Vec<proto::FromBroker>, Status> {
    let (send, mut messages) = open(broker, files, machine, to_broker).await?;
    let end = tokio::time::Instant::now() + std::time::Duration::from_nanos((PERIOD * 3).nanos());
    let mut received = Vec::new();
    while let Ok(Ok(Some(message))) = tokio::time::timeout_at(end, messages.message()).await {
        received.push(message);
    }
    drop(send);
    Ok(received)
}

#[test]
fn report_without_a_machine_counts_as_the_clients() {
    let world = World::new();
    let message = convert::from_report(&world.report("m3", 1, 8));
    let Some(from_leader::Message::Report(report)) = message.message else { panic!("a report") };
    let taken = convert::report(MachineId(1), &report).expect("a report");
    assert_eq!(taken.machine, MachineId(1));
    assert_eq!(taken.rows[0].rates, PerDirection { tx: gbps(8), rx: Bandwidth::ZERO });
}
