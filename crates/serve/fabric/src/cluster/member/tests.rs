//! Orders with a real etcd; the tests are skipped with a line where it is not installed.

use super::*;
use crate::cluster::orders::{Desk, desk};
use crate::cluster::{Policy, written};
use crate::etcd::EtcdConfig;
use std::io::Write as _;
use std::net::TcpListener;
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
    let config = ClusterConfig {
        etcd: etcd.1.clone(),
        prefix: "/test".to_owned(),
        url: "https://127.0.0.1:1".parse().expect("an address"),
        lease: weir_units::Duration::from_secs(2),
    };
    let ((desk, orders), (sender, events)) = (desk(), mpsc::channel(16));
    let (digest, text) = policy(1);
    let epochs = (etcd.2.path().join("epochs"), "epoch");
    let from_daemon = FromDaemon { orders, resign: mpsc::channel(1).1, tenants: mpsc::channel(1).1 };
    (Member::new(config, digest, text, epochs, sender, from_daemon), desk, events)
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
async fn states_of_tenants_are_written_by_the_leader_only() {
    let Some(etcd) = etcd("states_of_tenants_are_written_by_the_leader_only") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, _desk, mut events) = member(&etcd);
    let batch = |names: &[&str], value: Option<&[u8]>| TenantBatch {
        epoch: 3,
        entries: names.iter().map(|name| ((*name).to_owned(), value.map(<[u8]>::to_vec))).collect(),
    };
    member.keep_tenants(&mut session, batch(&["red"], Some(b"1"))).await.expect("a reply");
    assert_eq!(received(&mut events), ["kept 3: Err(\"this fabric broker does not lead any more\")"]);
    // It leads: the key of the leader was created at this revision.
    let leader: &[u8] = b"/test/leader";
    let put = session.put_if(If::Created(leader, 0), (leader, b"one".to_vec(), 0)).await.expect("a reply");
    let created = put.expect("there was none");
    member.leadership = Some(Leadership { url: "one".to_owned(), lease: 0, created });
    (member.leads, member.led) = (true, Some(3));
    member.keep_tenants(&mut session, batch(&["blue", "green", "red"], Some(b"1"))).await.expect("a reply");
    member.keep_tenants(&mut session, batch(&["green"], None)).await.expect("a reply");
    member.keep_tenants(&mut session, batch(&["red"], Some(b"2"))).await.expect("a reply");
    assert_eq!(received(&mut events), ["kept 3: Ok(())"; 3]);
    let kept = member.kept_tenants(&mut session).await.expect("a reply");
    let expected = [("blue", "1"), ("red", "2")].map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    assert_eq!(kept, expected);
    // Too large for this etcd: refused, and the session goes on.
    let large = "x".repeat(2 * MOST);
    member.keep_tenants(&mut session, batch(&["red"], Some(large.as_bytes()))).await.expect("a reply");
    assert!(received(&mut events)[0].starts_with("kept 3: Err(\"etcd refuses it: "), "refused");
    // Another broker leads meanwhile, which this one has not noticed.
    session.put_all_if((leader, created), [(leader.to_vec(), None)]).await.expect("a reply");
    session
        .put_if(If::Created(leader, 0), (leader, b"two".to_vec(), 0))
        .await
        .expect("a reply")
        .expect("there was none");
    member.keep_tenants(&mut session, batch(&["red"], Some(b"3"))).await.expect("a reply");
    assert_eq!(received(&mut events), ["kept 3: Err(\"etcd has another leader\")"]);
    assert_eq!(member.kept_tenants(&mut session).await.expect("a reply"), expected);
}

#[tokio::test]
async fn many_states_are_read_in_pieces() {
    let Some(etcd) = etcd("many_states_are_read_in_pieces") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, _desk, mut events) = member(&etcd);
    let leader: &[u8] = b"/test/leader";
    let created = session.put_if(If::Created(leader, 0), (leader, b"one".to_vec(), 0)).await.expect("a reply");
    member.leadership = Some(Leadership { url: "one".to_owned(), lease: 0, created: created.expect("there was none") });
    (member.leads, member.led) = (true, Some(1));
    // More than a reply has.
    for first in (0..4_100).step_by(100) {
        let entries = (first..first + 100).map(|number| (format!("t{number:05}"), Some(b"1".to_vec()))).collect();
        member.keep_tenants(&mut session, TenantBatch { epoch: 1, entries }).await.expect("a reply");
        assert_eq!(received(&mut events), ["kept 1: Ok(())"]);
    }
    let kept = member.kept_tenants(&mut session).await.expect("a reply");
    assert_eq!((kept.len(), kept[4_099].0.as_str()), (4_100, "t04099"));
}
