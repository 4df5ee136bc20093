//! Orders at a real etcd, which is skipped with a line where there is none.

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

/// Ends with its test.
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
        let session = format!("skipped: {test} needs etcd (Debian's package etcd-server)\n");
        std::io::stderr().write_all(session.as_bytes()).expect("standard error takes a line");
        return None;
    };
    let config = EtcdConfig { members: vec![client], ca: None, certificate: None };
    Some(Etcd(child, config, directory))
}

fn policy(max: u32) -> (u64, String) {
    let text = TEXT.replace("port: 1 } ]", &format!("port: 1 }} ], fabric: {{ max: {max}Mb/s }}"));
    (Policy::parse("policy.yaml", &text).expect("valid").0.digest(), text)
}

/// A member that has nobody to run it, with both ends of its queues.
fn member(etcd: &Etcd) -> (Member, Desk, mpsc::Receiver<ClusterEvent>) {
    let config = ClusterConfig {
        etcd: etcd.1.clone(),
        prefix: "/test".to_owned(),
        url: "https://127.0.0.1:1".parse().expect("an address"),
        lease: weir_units::Duration::from_secs(2),
    };
    let ((desk, orders), (events, cluster_event)) = (desk(), mpsc::channel(16));
    let (digest, text) = policy(1);
    let epochs = (etcd.2.path().join("epochs"), "epoch");
    let (_, resign) = mpsc::channel(1);
    (Member::new(config, digest, text, epochs, events, orders, resign), desk, cluster_event)
}

/// What was said of policies since it was asked last.
fn said(cluster_event: &mut mpsc::Receiver<ClusterEvent>) -> Vec<String> {
    let message = |cluster_event| match cluster_event {
        ClusterEvent::Taken(digest) => format!("taken {digest:016x}"),
        ClusterEvent::Refused(digest, why) => format!("refused {digest:016x}: {why}"),
        ClusterEvent::Policy(policy, _) => format!("policy {:016x}", policy.digest()),
        ClusterEvent::Unusable(why) => format!("unusable: {why}"),
        ClusterEvent::Leads(_) | ClusterEvent::Follows(_) => "who leads".to_owned(),
    };
    std::iter::from_fn(|| cluster_event.try_recv().ok()).map(message).collect()
}

/// The policy in etcd, to a member that is in a session.
async fn look(member: &mut Member, session: &mut EtcdSession) -> i64 {
    let (kept, _) = session.under(b"/test/policy").await.expect("answered");
    let entry = kept.into_iter().next().expect("there is one");
    let revision = entry.mod_revision;
    member.learn(session, b"/test/policy".to_vec(), Some(entry)).await.expect("learned");
    revision
}

/// Waits until it is there.
async fn connect(config: &EtcdConfig) -> EtcdSession {
    for _ in 0..100 {
        if let Ok(mut session) = EtcdSession::connect(config, &config.members[0]).await
            && session.under(b"/").await.is_ok()
        {
            return session;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("waited 10 s for etcd");
}

#[tokio::test]
async fn an_order_is_carried_out_on_the_policy_that_was_known_or_not_at_all() {
    let Some(etcd) = etcd("an_order_is_carried_out_on_the_policy_that_was_known_or_not_at_all") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, desk, mut cluster_event) = member(&etcd);
    let order = |(digest, text): (u64, String)| desk.order(digest, text).map(|()| digest);
    assert!(order(policy(2)).is_err(), "no session yet");
    member.propose(&mut session).await.expect("written");
    let first = look(&mut member, &mut session).await;
    assert_eq!(said(&mut cluster_event), [""; 0], "its own");

    // Two orders, the second on the first.
    let two = order(policy(2)).expect("taken");
    let three = order(policy(3)).expect("taken");
    for _ in 0..2 {
        let next = member.orders.next().await.expect("an order");
        member.carry_out(&mut session, next).await.expect("answered");
    }
    assert_eq!(said(&mut cluster_event), [format!("taken {two:016x}"), format!("taken {three:016x}")]);
    assert_eq!(look(&mut member, &mut session).await, first + 2);
    assert_eq!(said(&mut cluster_event), [format!("policy {three:016x}")]);

    // Another broker's comes between an order and its turn.
    let four = order(policy(4)).expect("taken");
    let (other, text) = policy(5);
    let put = session.put_if(If::Written(b"/test/policy", first + 2), (b"/test/policy", written(other, &text), 0));
    assert_eq!(put.await, Ok(Some(first + 3)));
    let next = member.orders.next().await.expect("an order");
    member.carry_out(&mut session, next).await.expect("answered");
    let refused = said(&mut cluster_event);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with(&format!("refused {four:016x}: the policy for all was changed meanwhile")));
    assert_eq!(look(&mut member, &mut session).await, first + 3, "the other's stays");
    assert_eq!(said(&mut cluster_event), [format!("policy {other:016x}")]);

    // What etcd refuses is an answer: the session goes on.
    let large = format!("{}# {}\n", policy(6).1, "x".repeat(MOST));
    desk.order(6, large).expect("taken");
    let next = member.orders.next().await.expect("an order");
    member.carry_out(&mut session, next).await.expect("answered");
    let refused = said(&mut cluster_event);
    assert!(refused[0].contains("etcd refuses it: etcdserver: request is too large"), "{refused:?}");

    // What waits when the session ends is refused, and none is taken after it.
    let seven = order(policy(7)).expect("taken");
    member.refuse_orders().await;
    let refused = said(&mut cluster_event);
    assert!(refused[0].starts_with(&format!("refused {seven:016x}: etcd was lost")), "{refused:?}");
    assert!(order(policy(8)).is_err());
}

#[tokio::test]
async fn an_order_without_an_answer_is_in_doubt_until_etcd_has_it() {
    let Some(etcd) = etcd("an_order_without_an_answer_is_in_doubt_until_etcd_has_it") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, desk, mut cluster_event) = member(&etcd);
    member.propose(&mut session).await.expect("written");
    look(&mut member, &mut session).await;
    let stop = |signal: &str| {
        let done = Command::new("kill").args([signal, &etcd.0.id().to_string()]).status().expect("runs");
        assert!(done.success());
    };
    // The very policy that is in force, so that nothing else will be said of it.
    let (digest, text) = policy(1);
    desk.order(digest, text).expect("taken");
    let next = member.orders.next().await.expect("an order");
    stop("-STOP");
    let no_reply = member.carry_out(&mut session, next).await;
    stop("-CONT");
    assert!(matches!(no_reply, Err(Failed::NoReply(_))), "{no_reply:?}");
    member.refuse_orders().await;
    let refused = said(&mut cluster_event);
    assert!(refused[0].starts_with(&format!("refused {digest:016x}: etcd did not say whether")), "{refused:?}");
    let mut session = connect(&etcd.1).await;
    look(&mut member, &mut session).await;
    assert_eq!(said(&mut cluster_event), [format!("taken {digest:016x}")]);
    look(&mut member, &mut session).await;
    assert_eq!(said(&mut cluster_event), [""; 0], "once");
}

#[tokio::test]
async fn a_policy_that_can_be_used_again_is_told_even_if_it_is_the_old_one() {
    let Some(etcd) = etcd("a_policy_that_can_be_used_again_is_told_even_if_it_is_the_old_one") else { return };
    let mut session = connect(&etcd.1).await;
    let (mut member, _desk, mut cluster_event) = member(&etcd);
    member.propose(&mut session).await.expect("written");
    let revision = look(&mut member, &mut session).await;
    let key: &[u8] = b"/test/policy";
    let put = session.put_if(If::Written(key, revision), (key, b"nonsense".to_vec(), 0)).await;
    assert_eq!(put, Ok(Some(revision + 1)));
    look(&mut member, &mut session).await;
    assert_eq!(said(&mut cluster_event), ["unusable: /test/policy in etcd is not a policy"]);
    let (digest, text) = policy(1);
    let put = session.put_if(If::Written(key, revision + 1), (key, written(digest, &text), 0)).await;
    assert_eq!(put, Ok(Some(revision + 2)));
    look(&mut member, &mut session).await;
    assert_eq!(said(&mut cluster_event), [format!("policy {digest:016x}")]);
}
