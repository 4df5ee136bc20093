//! An agent whose number of the last start is lost after its clock was ahead.
#![expect(clippy::disallowed_methods, reason = "tests of real processes measure and wait in real time")]

mod agent_pair;
mod common;

use agent_pair::{Flow, POLICY, Pair, end};
use common::{one_at_a_time, signal, skipped, wait_for};
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

#[test]
fn a_lost_epoch_rises_above_the_one_that_the_rack_has() {
    if skipped("an agent whose epoch goes down") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wep");
    // m2 limits what it receives by feedback to m1's kernel, which has the epoch too.
    let policy = POLICY.replace("protocol: tcp", "protocol: udp").replace("rack: { max", "machine: { max");
    fs::write(&pair.policy, policy).expect("written");
    let file = pair.directory.path().join("epoch-m2");
    let stored = || fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let ahead = u64::try_from(now.as_nanos()).expect("before 2554") + 365 * 86_400_000_000_000;
    fs::write(&file, ahead.to_string()).expect("written");
    let counter = |machine: &str, name: &str| {
        let status = pair.status(machine).unwrap_or_default();
        status["counters"][name].as_u64().or(status["kernel"][name].as_u64()).unwrap_or(0)
    };
    // A file that a full disk left empty ends no agent.
    fs::write(pair.directory.path().join("epoch-m1"), "").expect("written");
    let m1 = pair.running(&pair.m1, "m1");
    let m2 = pair.running(&pair.m2, "m2");
    let flow = Flow::start(&pair, 5001);
    wait_for("reports and feedback of m2", 20, || {
        counter("m1", "reports_accepted") > 0 && counter("m1", "feedback_accepted") > 0
    });
    assert_eq!(stored(), Some(ahead + 1));

    signal(&m2, libc::SIGTERM);
    assert_eq!(end(m2).0, Some(0));
    fs::remove_file(&file).expect("removed");
    let (accepted, feedback) = (counter("m1", "reports_accepted"), counter("m1", "feedback_accepted"));
    let m2 = pair.running(&pair.m2, "m2");
    // A report within a period of 1 s, the notice and the next report at once, and a status.
    wait_for("m2 to continue above its epoch", 5, || counter("m2", "epochs_raised") == 1);
    wait_for("m1 to accept reports of m2", 5, || counter("m1", "reports_accepted") > accepted + 1);
    wait_for("m1's kernel to accept feedback of m2", 5, || counter("m1", "feedback_accepted") > feedback + 1);
    let raised = pair.status("m2").expect("a status")["epoch"].as_u64();
    assert_eq!((raised, stored()), (Some(ahead + 2), Some(ahead + 2)));
    assert!(counter("m1", "reports_older_epoch") >= 1 && counter("m1", "epoch_notices_sent") >= 1);
    let status = pair.status("m1").expect("a status");
    assert!(status["unheard"].is_null() && status["peers_alive"] == 1, "{status:#}");
    flow.is_at(20.0, 0.1);
    for agent in [m1, m2] {
        signal(&agent, libc::SIGTERM);
        assert_eq!(end(agent).0, Some(0));
    }
}
