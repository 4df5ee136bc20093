//! Orders with a real etcd; the tests are skipped with a line where it is not installed.

mod proxy;

use super::*;
use crate::cluster::orders::{Desk, desk};
use crate::cluster::{Policy, written};
use crate::etcd::EtcdConfig;
use proxy::Proxy;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const TEXT: &str = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1] } } }\n\
                    services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";
/// The largest request that this etcd takes.
const MOST: usize = 10_000;

/// Ends when dropped.
struct Etcd(Child, EtcdConfig, tempfile::TempDir);

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn etcd(test: &str) -> Option<Etcd> {
    let directory = tempfile::tempdir().expect("a directory");
    let url = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        format!("http://{}", listener.local_addr().expect("an address"))
    };
    let (client, peer) = (url(), url());
    let arguments = [
        format!("--data-dir={}", directory.path().display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        format!("--max-request-bytes={MOST}"),
    ];
    let child = Command::new("etcd").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(child) = child else {
        assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and there is no etcd for {test}");
        let skipped = format!("skipped: {test} needs etcd (Debian's package etcd-server)\n");
        std::io::stderr().write_all(skipped.as_bytes()).expect("standard error takes a line");
        return None;
    };
    let config = EtcdConfig { members: vec![client], ca: None, certificate: None };
    Some(Etcd(child, config, directory))
}

fn policy(max: u32) -> (u64, String) {
    let text = TEXT.replace("port: 1 } ]", &format!("port: 1 }} ], fabric: {{ max: {max}Mb/s }}"));
    (Policy::parse("policy.yaml", &text).expect("valid").0.digest(), text)
}

/// A member that no task runs, with both ends of its queues.
fn member(etcd: &Etcd) -> (Member, Desk, mpsc::Receiver<ClusterEvent>) {
    member_by(etcd.2.path(), etcd.1.clone())
}

/// The same, with a directory and a way to an etcd.
fn member_by(directory: &Path, way: EtcdConfig) -> (Member, Desk, mpsc::Receiver<ClusterEvent>) {
    let config = ClusterConfig {
        etcd: way,
        prefix: "/test".to_owned(),
        url: "https://127.0.0.1:1".parse().expect("an address"),
        lease: weir_units::Duration::from_secs(2),
    };
    let ((desk, orders), (sender, events)) = (desk(), mpsc::channel(16));
    let (digest, text) = policy(1);
    let epochs = (directory.join("epochs"), "epoch");
    let (resign, tenants, raised) = (mpsc::channel(1).1, mpsc::channel(1).1, mpsc::channel(1).1);
    let from_daemon = FromDaemon { orders, resign, tenants, raised };
    let to_daemon = ToDaemon { events: sender, lease_end: watch::channel(None).0 };
    (Member::new(config, digest, text, epochs, to_daemon, from_daemon), desk, events)
}

/// The events about policies since the last call.
fn received(events: &mut mpsc::Receiver<ClusterEvent>) -> Vec<String> {
    let message = |event| match event {
        ClusterEvent::Taken(digest) => format!("taken {digest:016x}"),
        ClusterEvent::Refused(digest, why) => format!("refused {digest:016x}: {why}"),
        ClusterEvent::Policy(policy, _) => format!("policy {:016x}", policy.digest()),
        ClusterEvent::Unusable(why) => format!("unusable: {why}"),
        ClusterEvent::Kept(epoch, result) => format!("kept {epoch}: {result:?}"),
        ClusterEvent::Leads(..) | ClusterEvent::Follows(_) => "leadership".to_owned(),
    };
    std::iter::from_fn(|| events.try_recv().ok()).map(message).collect()
}

/// Hands the policy in etcd to a member that is in a session.
async fn look(member: &mut Member, session: &mut EtcdSession) -> i64 {
    let (kept, _) = session.between((b"/test/policy", b"/test/policz"), 0).await.expect("a reply");
    let entry = kept.into_iter().next().expect("there is one");
    let revision = entry.mod_revision;
    member.apply_key(session, b"/test/policy".to_vec(), Some(entry)).await.expect("applied");
    revision
}

/// Waits until etcd is up.
async fn connect(config: &EtcdConfig) -> EtcdSession {
    for _ in 0..100 {
        if let Ok(mut session) = EtcdSession::connect(config, &config.members[0]).await
            && session.between((b"/", b"0"), 1).await.is_ok()
        {
            return session;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("waited 10 s for etcd");
}

#[tokio::test]
async fn order_is_applied_on_the_known_policy_or_refused() {
    let Some(etcd) = etcd("order_is_applied_on_the_known_policy_or_refused") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, desk, mut events) = member(&etcd);
    let order = |(digest, text): (u64, String)| desk.order(digest, text).map(|()| digest);
    assert!(order(policy(2)).is_err(), "no session yet");
    member.propose(&mut session).await.expect("written");
    let first = look(&mut member, &mut session).await;
    assert_eq!(received(&mut events), [""; 0], "the member's own policy");

    // Two orders, the second one on the result of the first.
    let two = order(policy(2)).expect("taken");
    let three = order(policy(3)).expect("taken");
    for _ in 0..2 {
        let next = member.orders.next().await.expect("an order");
        member.apply_order(&mut session, next).await.expect("a reply");
    }
    assert_eq!(received(&mut events), [format!("taken {two:016x}"), format!("taken {three:016x}")]);
    assert_eq!(look(&mut member, &mut session).await, first + 2);
    assert_eq!(received(&mut events), [format!("policy {three:016x}")]);

    // An order of another broker comes between an order and its application.
    let four = order(policy(4)).expect("taken");
    let (other, text) = policy(5);
    let put = session.put_if(If::Written(b"/test/policy", first + 2), (b"/test/policy", written(other, &text), 0));
    assert_eq!(put.await, Ok(Some(first + 3)));
    let next = member.orders.next().await.expect("an order");
    member.apply_order(&mut session, next).await.expect("a reply");
    let refused = received(&mut events);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with(&format!("refused {four:016x}: the policy for all was changed meanwhile")));
    assert_eq!(look(&mut member, &mut session).await, first + 3, "the other broker's policy stays");
    assert_eq!(received(&mut events), [format!("policy {other:016x}")]);

    // A refusal of etcd is a reply: the session goes on.
    let large = format!("{}# {}\n", policy(6).1, "x".repeat(MOST));
    desk.order(6, large).expect("taken");
    let next = member.orders.next().await.expect("an order");
    member.apply_order(&mut session, next).await.expect("a reply");
    let refused = received(&mut events);
    assert!(refused[0].contains("etcd refuses it: etcdserver: request is too large"), "{refused:?}");

    // Orders that wait at the end of the session are refused, and so are later ones.
    let seven = order(policy(7)).expect("taken");
    member.refuse_orders().await;
    let refused = received(&mut events);
    assert!(refused[0].starts_with(&format!("refused {seven:016x}: etcd was lost")), "{refused:?}");
    assert!(order(policy(8)).is_err());
}

#[tokio::test]
async fn unconfirmed_order_is_taken_once_etcd_has_it() {
    let Some(etcd) = etcd("unconfirmed_order_is_taken_once_etcd_has_it") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, desk, mut events) = member(&etcd);
    member.propose(&mut session).await.expect("written");
    look(&mut member, &mut session).await;
    let stop = |signal: &str| {
        let done = Command::new("kill").args([signal, &etcd.0.id().to_string()]).status().expect("runs");
        assert!(done.success());
    };
    // The order has the policy in force, so that it causes no other event.
    let (digest, text) = policy(1);
    desk.order(digest, text).expect("taken");
    let next = member.orders.next().await.expect("an order");
    stop("-STOP");
    while !is_stopped(etcd.0.id()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let no_reply = member.apply_order(&mut session, next).await;
    stop("-CONT");
    assert!(matches!(no_reply, Err(Failed::NoReply(_))), "{no_reply:?}");
    member.refuse_orders().await;
    let refused = received(&mut events);
    assert!(refused[0].starts_with(&format!("refused {digest:016x}: etcd did not confirm it")), "{refused:?}");
    let mut session = connect(&etcd.1).await;
    look(&mut member, &mut session).await;
    assert_eq!(received(&mut events), [format!("taken {digest:016x}")]);
    look(&mut member, &mut session).await;
    assert_eq!(received(&mut events), [""; 0], "once");
}

/// Whether all threads of a process have stopped: those on another processor do so after the signal was sent.
fn is_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let mut stats = threads.map(|thread| std::fs::read_to_string(thread.expect("listed").path().join("stat")));
    stats.all(|stat| stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))))
}

#[tokio::test]
async fn policy_is_reported_again_once_it_is_usable() {
    let Some(etcd) = etcd("policy_is_reported_again_once_it_is_usable") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, _desk, mut events) = member(&etcd);
    member.propose(&mut session).await.expect("written");
    let revision = look(&mut member, &mut session).await;
    let key: &[u8] = b"/test/policy";
    let put = session.put_if(If::Written(key, revision), (key, b"nonsense".to_vec(), 0)).await;
    assert_eq!(put, Ok(Some(revision + 1)));
    look(&mut member, &mut session).await;
    assert_eq!(received(&mut events), ["unusable: /test/policy in etcd is not a policy"]);
    let (digest, text) = policy(1);
    let put = session.put_if(If::Written(key, revision + 1), (key, written(digest, &text), 0)).await;
    assert_eq!(put, Ok(Some(revision + 2)));
    look(&mut member, &mut session).await;
    assert_eq!(received(&mut events), [format!("policy {digest:016x}")]);
}

#[tokio::test]
async fn the_daemon_has_the_end_of_the_lease() {
    let directory = tempfile::tempdir().expect("a directory");
    let etcd = EtcdConfig { members: Vec::new(), ca: None, certificate: None };
    let (mut member, _desk, _events) = member_by(directory.path(), etcd);
    let lease_end = member.lease_end.subscribe();
    let (now, time) = (Instant::now(), Duration::from_secs(20));
    member.lease = Some(Lease { id: 1, time, until: now });
    member.extend_lease((now, time)).await;
    assert_eq!(*lease_end.borrow(), Some(now + Duration::from_secs(19)));
    member.extend_lease((now, Duration::ZERO)).await;
    assert_eq!(*lease_end.borrow(), None);
}

const LEADER: &[u8] = b"/test/leader";

/// Has a member lead in an epoch: the key of the leader is its own.
async fn lead(member: &mut Member, session: &mut EtcdSession, epoch: u64) {
    let put = session.put_if(If::Created(LEADER, 0), (LEADER, b"one".to_vec(), 0)).await.expect("a reply");
    let created = put.expect("there was none");
    member.leadership = Some(Leadership { url: "one".to_owned(), lease: 0, created });
    (member.leads, member.led) = (true, Some(epoch));
}

/// The same value for tenants; none removes them.
fn batch(epoch: u64, names: &[&str], value: Option<&str>) -> TenantBatch {
    let value = value.map(|value| value.as_bytes().to_vec());
    TenantBatch { epoch, entries: names.iter().map(|name| ((*name).to_owned(), value.clone())).collect() }
}

/// The states in etcd.
async fn kept(member: &mut Member, session: &mut EtcdSession) -> Vec<String> {
    let kept = member.kept_tenants(session).await.expect("a reply");
    kept.into_iter().map(|(name, value)| format!("{name} {}", String::from_utf8_lossy(&value))).collect()
}

#[tokio::test]
async fn states_of_tenants_are_written_by_the_leader_only() {
    let Some(etcd) = etcd("states_of_tenants_are_written_by_the_leader_only") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, _desk, mut events) = member(&etcd);
    member.keep_tenants(&mut session, batch(3, &["red"], Some("1"))).await.expect("a reply");
    assert_eq!(received(&mut events), ["kept 3: Err(\"this fabric broker does not lead any more\")"]);
    lead(&mut member, &mut session, 3).await;
    member.keep_tenants(&mut session, batch(3, &["blue", "green", "red"], Some("1"))).await.expect("a reply");
    member.keep_tenants(&mut session, batch(3, &["green"], None)).await.expect("a reply");
    member.keep_tenants(&mut session, batch(3, &["red"], Some("2"))).await.expect("a reply");
    assert_eq!(received(&mut events), ["kept 3: Ok(())"; 3]);
    let expected = ["blue 1", "red 2"];
    assert_eq!(kept(&mut member, &mut session).await, expected);
    // Too large for this etcd: refused, and the session goes on.
    let large = "x".repeat(2 * MOST);
    member.keep_tenants(&mut session, batch(3, &["red"], Some(&large))).await.expect("a reply");
    assert!(received(&mut events)[0].starts_with("kept 3: Err(\"etcd refuses it: "), "refused");
    // Another broker leads meanwhile, which this one has not noticed.
    session.put_all_if(&[], [(LEADER.to_vec(), None)]).await.expect("a reply");
    session
        .put_if(If::Created(LEADER, 0), (LEADER, b"two".to_vec(), 0))
        .await
        .expect("a reply")
        .expect("there was none");
    member.keep_tenants(&mut session, batch(3, &["red"], Some("3"))).await.expect("a reply");
    assert_eq!(received(&mut events), ["kept 3: Err(\"etcd has another leader\")"]);
    assert_eq!(kept(&mut member, &mut session).await, expected);
    assert!(!member.leads, "it has noticed");
}

/// A member that leads, with a session of its own, and one behind a proxy on which a batch waits that has no reply.
async fn with_delayed_batch(
    etcd: &Etcd,
    values: (&str, &str),
) -> (Member, EtcdSession, Proxy, mpsc::Receiver<ClusterEvent>) {
    let mut session = connect(&etcd.1).await;
    let (mut member, _desk, mut events) = member(etcd);
    lead(&mut member, &mut session, 1).await;
    let proxy = Proxy::new(&etcd.1.members[0]);
    let mut slow = connect(&proxy.way()).await;
    member.keep_tenants(&mut slow, batch(1, &["red"], Some(values.0))).await.expect("a reply");
    proxy.hold();
    let lost = member.keep_tenants(&mut slow, batch(1, &["blue", "red"], Some(values.1))).await;
    assert!(matches!(lost, Err(Failed::NoReply(_))), "{lost:?}");
    assert_eq!(received(&mut events), ["kept 1: Ok(())", "kept 1: Err(\"no reply within 1 s\")"]);
    (member, session, proxy, events)
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_batch_does_not_replace_newer_states() {
    let Some(etcd) = etcd("delayed_batch_does_not_replace_newer_states") else { return };
    let (mut member, mut session, proxy, mut events) = with_delayed_batch(&etcd, ("1", "2")).await;
    member.keep_tenants(&mut session, batch(1, &["blue", "red"], Some("3"))).await.expect("a reply");
    member.keep_tenants(&mut session, batch(1, &["blue"], None)).await.expect("a reply");
    assert_eq!(received(&mut events), ["kept 1: Ok(())"; 2]);
    proxy.release();
    assert_eq!(kept(&mut member, &mut session).await, ["red 3"]);
    member.keep_tenants(&mut session, batch(1, &["red"], Some("4"))).await.expect("a reply");
    assert_eq!(received(&mut events), ["kept 1: Ok(())"]);
    assert_eq!(kept(&mut member, &mut session).await, ["red 4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_follows_a_delayed_one_that_overtakes_it() {
    let Some(etcd) = etcd("batch_follows_a_delayed_one_that_overtakes_it") else { return };
    let (mut member, mut session, proxy, mut events) = with_delayed_batch(&etcd, ("1", "2")).await;
    // The delayed batch arrives after the revision was read, and before the next batch.
    let (_, read) = session.revisions(b"/test/tenants_batch").await.expect("a reply");
    member.batch = Some(read);
    proxy.release();
    assert_eq!(kept(&mut member, &mut session).await, ["blue 2", "red 2"]);
    member.keep_tenants(&mut session, batch(1, &["red"], Some("3"))).await.expect("a reply");
    assert_eq!(received(&mut events), ["kept 1: Ok(())"]);
    assert_eq!(kept(&mut member, &mut session).await, ["blue 2", "red 3"]);
    assert!(member.leads);
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_epoch_does_not_replace_a_later_one() {
    let Some(etcd) = etcd("delayed_epoch_does_not_replace_a_later_one") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, _desk, _events) = member(&etcd);
    lead(&mut member, &mut session, 1).await;
    let proxy = Proxy::new(&etcd.1.members[0]);
    let mut slow = connect(&proxy.way()).await;
    member.next_epoch(&mut slow).await.expect("a reply").expect("it leads");
    proxy.hold();
    let lost = member.next_epoch(&mut slow).await;
    assert!(matches!(lost, Err(Failed::NoReply(_))), "{lost:?}");
    let last = member.next_epoch(&mut session).await.expect("a reply").expect("it leads");
    proxy.release();
    let (entries, _) = session.between((b"/test/epoch", b"/test/epoch0"), 1).await.expect("a reply");
    assert_eq!(entries[0].value, last.to_string().into_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raised_epoch_is_in_etcd_while_its_broker_leads() {
    let Some(etcd) = etcd("a_raised_epoch_is_in_etcd_while_its_broker_leads") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, _desk, _events) = member(&etcd);
    lead(&mut member, &mut session, 1).await;
    let ahead = member.next_epoch(&mut session).await.expect("a reply").expect("it leads") + (1 << 60);
    member.keep_epoch(&mut session, ahead).await.expect("a reply");
    let (entries, _) = session.between((b"/test/epoch", b"/test/epoch0"), 1).await.expect("a reply");
    assert_eq!(entries[0].value, ahead.to_string().into_bytes());
    // Also the next start of this broker is above it, and of another one, which reads etcd.
    let next = member.next_epoch(&mut session).await.expect("a reply").expect("it leads");
    assert_eq!(next, ahead + 1);
    member.leads = false;
    member.keep_epoch(&mut session, ahead + 9).await.expect("a reply");
    let (entries, _) = session.between((b"/test/epoch", b"/test/epoch0"), 1).await.expect("a reply");
    assert_eq!(entries[0].value, next.to_string().into_bytes(), "it is the leader's");
}

#[tokio::test(flavor = "multi_thread")]
async fn states_that_take_longer_than_the_lease_are_read() {
    let Some(etcd) = etcd("states_that_take_longer_than_the_lease_are_read") else { return };
    let mut session = connect(&etcd.1).await;
    let entry = |number: u32| (format!("/test/tenants/t{number:05}").into_bytes(), Some(b"1".to_vec()));
    for first in (0..10_000).step_by(100) {
        session.put_all_if(&[], (first..first + 100).map(entry)).await.expect("a reply");
    }
    let proxy = Proxy::new(&etcd.1.members[0]);
    let (member, _desk, mut events) = member_by(etcd.2.path(), proxy.way());
    // Six replies of 350 ms, and others before: more than the lease of 2 s. Requests have replies within their second.
    proxy.set_latency(Duration::from_millis(350));
    let lease_end = member.lease_end.subscribe();
    let leads = async {
        loop {
            match events.recv().await.expect("the member runs") {
                ClusterEvent::Leads(_, kept) => return (kept.len(), lease_end.borrow().is_some()),
                ClusterEvent::Follows(_) | ClusterEvent::Policy(..) => {}
                _ => panic!("another event"),
            }
        }
    };
    tokio::select! {
        () = member.run() => panic!("the member ended"),
        count = tokio::time::timeout(Duration::from_secs(60), leads) => assert_eq!(count, Ok((10_000, true))),
    }
}
