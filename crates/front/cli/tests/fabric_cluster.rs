//! Several `weir fabric` with a real etcd that requires certificates, on loopback: one leads, and
//! another replaces it when it is killed.

mod common;
mod etcd_server;
mod fabric_setup;

use common::{signal, wait_for};
use etcd_server::{ETCD_LOOKS, Etcd, LEASE, SLACK, free_port};
use fabric_setup::{Daemon, Setup, gbps, limits, of_a, policy};
use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};
use weir_control::RackLimits;
use weir_fabric::{IdentityFiles, Session};
use weir_units::Bandwidth;

/// So long that the sessions of both racks are up again before a successor's first limits, on a busy machine too.
const PERIOD: &str = "1s";

/// An etcd that requires certificates.
fn etcd(setup: &Setup, test: &str) -> Option<Etcd<'static>> {
    Etcd::start(setup.at("etcd"), Some(setup.identity("fabric-127.0.0.1")), test, || Command::new("etcd"))
}

/// One of the fabric brokers.
struct Broker {
    name: String,
    url: String,
    daemon: Option<Daemon>,
}

impl Broker {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), url: format!("https://127.0.0.1:{}", free_port()), daemon: None }
    }

    fn start(&mut self, setup: &Setup, etcd: &Etcd<'_>, policy: &str) {
        let mut command = setup.fabric_timed(&self.name, self.url.trim_start_matches("https://"), policy, PERIOD);
        command.args(["--etcd", etcd.url(), "--advertise", &self.url, "--lease", "2s"]);
        // Any client certificate will do for etcd.
        let IdentityFiles { certificate, private_key, ca } = setup.identity("machine-m4");
        command.arg("--etcd-certificate").arg(certificate).arg("--etcd-private-key").arg(private_key);
        command.arg("--etcd-ca").arg(ca);
        self.daemon = Some(setup.start_as(&self.name, command));
    }

    fn has(&self, key: &str, value: &str) -> bool {
        let status = self.daemon.as_ref().and_then(Daemon::status).unwrap_or_default();
        status[key].as_str() == Some(value)
    }

    fn refused(&self) -> Option<String> {
        let status = self.daemon.as_ref().and_then(Daemon::status).expect("a status");
        status["policy_refused"].as_str().map(str::to_owned)
    }

    fn reload(&self) {
        signal(self.daemon.as_ref().expect("it runs").child(), libc::SIGHUP);
    }

    fn leads(&self) -> bool {
        let status = self.daemon.as_ref().and_then(Daemon::status).unwrap_or_default();
        status["leads"] == true
    }
}

/// Leaders of both racks, which report as real ones do: twice in a period.
struct Racks {
    sessions: [Session; 2],
    round: u64,
}

impl Racks {
    /// Reports until both racks have limits as wanted: the first such of each.
    fn until(&mut self, setup: &Setup, what: &str, wanted: impl Fn(&RackLimits) -> bool) -> [RackLimits; 2] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut received = [None, None];
        for _ in 0..100 {
            self.round += 1;
            for (session, machine) in self.sessions.iter_mut().zip(["m1", "m3"]) {
                session.report(setup.report(machine, self.round, 8));
            }
            runtime.block_on(async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                for (session, received) in self.sessions.iter_mut().zip(&mut received) {
                    while let Ok(limits) = tokio::time::timeout(Duration::from_millis(1), limits(session)).await {
                        if received.is_none() && wanted(&limits) {
                            *received = Some(limits);
                        }
                    }
                }
            });
            if let [Some(one), Some(two)] = &received {
                return [one.clone(), two.clone()];
            }
        }
        panic!("waited 20 s for {what}; sessions: {:?}", self.sessions.each_ref().map(Session::status));
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of real processes waits in real time")]
fn a_policy_that_a_leader_cannot_take_at_once_is_taken_later() {
    let setup = Setup::new();
    let test = "a_policy_that_a_leader_cannot_take_at_once_is_taken_later";
    let Some(etcd) = etcd(&setup, test) else { return };
    let mut broker = Broker::new("one");
    broker.start(&setup, &etcd, "policy.yaml");
    wait_for("a leader", 30, || broker.leads());
    // No epoch can be written down: its file is a directory.
    let epoch = setup.at("one-state").join("epoch-of-fabric-broker");
    let kept = fs::read(&epoch).expect("an epoch");
    fs::remove_file(&epoch).expect("removed");
    fs::create_dir(&epoch).expect("made");
    setup.write_policy(&policy("4Gb/s"));
    signal(broker.daemon.as_ref().expect("it runs").child(), libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(1000));
    fs::remove_dir(&epoch).expect("removed");
    fs::write(&epoch, kept).expect("written");
    let digest = format!("{:016x}", setup.report("m1", 1, 1).policy);
    wait_for("the policy", 20, || broker.has("policy", &digest) && broker.leads());
}

#[test]
fn orders_without_etcd_are_not_carried_out_later() {
    let setup = Setup::new();
    let test = "orders_without_etcd_are_not_carried_out_later";
    let Some(mut etcd) = etcd(&setup, test) else { return };
    let mut brokers = ["one", "two"].map(Broker::new);
    // The second one has a file of its own, so that each can reload another policy.
    fs::write(setup.at("second.yaml"), policy("10Gb/s")).expect("written");
    for (broker, file) in brokers.iter_mut().zip(["policy.yaml", "second.yaml"]) {
        broker.start(&setup, &etcd, file);
    }
    let [one, two] = &brokers;
    let one_leads = || one.leads() != two.leads();
    let digest = |max: &str| {
        setup.write_policy(&policy(max));
        format!("{:016x}", setup.report("m1", 1, 1).policy)
    };
    wait_for("a leader", 30, one_leads);
    etcd.stop();
    wait_for("no broker to lead", 20, || !one.leads() && !two.leads());
    // Ordered of the first while it is cut off: refused at once, and not carried out later.
    let old = digest("4Gb/s");
    one.reload();
    let away = |broker: &Broker, digest: &str| {
        broker.refused().is_some_and(|why| why == format!("{digest}: etcd is not reached; reload again when it is"))
    };
    wait_for("the refusal", 20, || away(one, &old));
    etcd.restart();
    wait_for("another leader", 30, one_leads);
    let first = digest("10Gb/s");
    assert!(one.has("policy", &first) && two.has("policy", &first), "the old order is not carried out");
    // A newer one of the other broker is valid for all.
    fs::write(setup.at("second.yaml"), policy("6Gb/s")).expect("written");
    let newest = digest("6Gb/s");
    two.reload();
    wait_for("the newest policy", 20, || one.has("policy", &newest) && two.has("policy", &newest));
    assert!(away(one, &old), "what was refused there is not in force");
    wait_for("the second to report that it is taken", 20, || two.refused().is_none());
    // Ordered again it is taken, also if it is the one in force.
    one.reload();
    wait_for("the first to receive the new policy", 20, || one.refused().is_none());
    let again = digest("4Gb/s");
    assert_eq!(again, old);
    one.reload();
    wait_for("the policy", 20, || one.has("policy", &old) && two.has("policy", &old));
    wait_for("nothing to be refused", 20, || one.refused().is_none() && two.refused().is_none());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of real processes measures real time")]
fn a_leader_that_is_killed_costs_a_period() {
    let setup = Setup::new();
    let Some(mut etcd) = etcd(&setup, "a_leader_that_is_killed_costs_a_period") else { return };
    let mut brokers = ["one", "two", "three"].map(Broker::new);
    for broker in &mut brokers {
        broker.start(&setup, &etcd, "policy.yaml");
    }
    wait_for("a leader", 30, || brokers.iter().filter(|broker| broker.leads()).count() == 1);
    let leader = brokers.iter().position(Broker::leads).expect("one leads");
    let url = brokers[leader].url.clone();
    wait_for("all to report it", 20, || brokers.iter().all(|broker| broker.has("leader", &url)));

    // The racks' leaders begin with brokers that do not lead, and are sent to the one that does.
    let others: Vec<&str> = (1..=3).map(|step| brokers[(leader + step) % 3].url.as_str()).collect();
    let sessions = [setup.session_timed("m1", &others, PERIOD), setup.session_timed("m3", &others, PERIOD)];
    let mut racks = Racks { sessions, round: 0 };
    let limited_to = |rate: Bandwidth| move |limits: &RackLimits| of_a(limits) == rate;
    let before = racks.until(&setup, "the limits", limited_to(gbps(5)));
    assert_eq!(racks.sessions[0].status().redirected, 1, "sent to {url}");

    // Killed. The first limits of its successor equal its last ones.
    let killed = Instant::now();
    let (code, _) = brokers[leader].daemon.take().expect("it runs").end(libc::SIGKILL);
    assert_eq!(code, None);
    let after = racks.until(&setup, "a successor", |limits| limits.epoch > before[0].epoch);
    let recovered = killed.elapsed();
    let period = Duration::from_secs(1);
    let line = format!("the next fabric broker leads {:.1} s after the kill\n", recovered.as_secs_f64());
    std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
    assert!(recovered <= LEASE + ETCD_LOOKS + period + SLACK, "{line}");
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(
            (of_a(after), after.rack, after.round),
            (gbps(5), before.rack, 1),
            "the first limits, as the last were"
        );
    }
    let successor = brokers.iter().position(Broker::leads).expect("one leads");
    let url = brokers[successor].url.clone();

    // A policy that one of them is given is valid for all, also for the restarted one, whatever its file contains.
    setup.write_policy(&policy("4Gb/s"));
    fs::write(setup.at("old.yaml"), policy("10Gb/s")).expect("written");
    let follower = (0..3).find(|index| ![leader, successor].contains(index)).expect("three");
    signal(brokers[follower].daemon.as_ref().expect("it runs").child(), libc::SIGHUP);
    racks.until(&setup, "the policy", limited_to(gbps(2)));
    brokers[leader].start(&setup, &etcd, "old.yaml");
    let digest = format!("{:016x}", setup.report("m1", 1, 1).policy);
    wait_for("the policy of all", 20, || brokers.iter().all(|broker| broker.has("policy", &digest)));
    wait_for("the one that is back to follow", 20, || brokers[leader].has("leader", &url) && !brokers[leader].leads());

    // Without etcd no broker is certain of the leadership: the leader stops serving before the lease ends.
    etcd.stop();
    let stopped = Instant::now();
    wait_for("the leader to stop", 20, || !brokers.iter().any(Broker::leads));
    assert!(stopped.elapsed() < LEASE + SLACK, "{:?}", stopped.elapsed());
    etcd.restart();
    let again = racks.until(&setup, "another leader", |limits| limits.epoch > after[0].epoch);
    assert_eq!(of_a(&again[0]), gbps(2));

    // A leader that ends in good order gives up its leadership at once.
    let leader = brokers.iter().position(Broker::leads).expect("one leads");
    let ended = Instant::now();
    let (code, output) = brokers[leader].daemon.take().expect("it runs").end(libc::SIGTERM);
    assert_eq!(code, Some(0), "{output}");
    racks.until(&setup, "the next", |limits| limits.epoch > again[0].epoch);
    let line = format!("the next fabric broker leads {:.1} s after SIGTERM\n", ended.elapsed().as_secs_f64());
    std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
}
