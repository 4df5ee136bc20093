//! Each check with facts that fail it, beside facts of a healthy host.

use super::*;
use crate::facts::{FileProblem, InterfaceFacts, PeerFacts, PolicyFacts, Reply, StatusFacts, SwitchFacts, UnitFacts};
use weir_linux::interface::Offloads;
use weir_linux::requirements::Missing;
use weir_linux::tc::{Found, Qdisc};
use weir_policy::Policy;
use weir_status::{AgentStatus, FabricLink, FabricSession, NO_POD, SessionState, Status};

const NOW_MS: u64 = 1_800_000_000_000;
const DAY: i64 = 86_400;

fn status() -> AgentStatus {
    let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1, m2, m3] } } }\nservices: { \
                a: { match: [ { port: 1 } ] } }\n";
    let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
    let mut agent = AgentStatus::outline(&policy, policy.network().machine_named("m1").expect("there"));
    (agent.written_ms, agent.peers_alive, agent.interface) = (NOW_MS - 500, agent.peers, "eth0".into());
    let ends = NOW_MS as i64 / 1_000 + 90 * DAY;
    let session = FabricSession { state: SessionState::Up, certificate_ends: Some(ends), ..FabricSession::default() };
    agent.fabric = Some(FabricLink { leads: true, session: Some(session), ..FabricLink::default() });
    agent
}

fn of(agent: AgentStatus) -> StatusFacts {
    StatusFacts { source: "agent.json".into(), status: Ok(Status::Agent(agent)) }
}

fn healthy() -> Facts {
    let interface = InterfaceFacts {
        ethernet: true,
        loopback: false,
        segments: Ok(65_535),
        qdisc: Ok(Found::Leftover),
        offloads: Ok(Offloads { tso: true, gso: true, gro: true, lro: false }),
        agent: Ok(Some(712)),
        detached: Ok(Vec::new()),
    };
    let peer = |machine: &str, last: u8| PeerFacts {
        machine: machine.into(),
        address: [10, 0, 0, last].into(),
        route: Ok(()),
        reply: Reply::Refused,
    };
    let unit = UnitFacts {
        name: "weir-agent".into(),
        active: "active".into(),
        result: "success".into(),
        enabled: "enabled".into(),
        ..UnitFacts::default()
    };
    Facts {
        missing: Vec::new(),
        clock_source: Ok("tsc".into()),
        clock_synchronised: Ok(true),
        interface: Some(("eth0".into(), Ok(interface))),
        policy: Some(PolicyFacts { file: "policy.yaml".into(), fingerprint: status().policy, segments: None }),
        gone: Ok(Vec::new()),
        peers: Ok(vec![peer("m2", 2), peer("m3", 3)]),
        key: Some(("/etc/weir/key".into(), Ok(()))),
        certificate: Some(("m1.pem".into(), Ok(NOW_MS as i64 / 1_000 + 90 * DAY))),
        switch: Some(SwitchFacts { steps: Ok(Vec::new()), apply: "weir switch apply".into() }),
        units: Ok(vec![unit]),
        statuses: vec![of(status()), of(status())],
        now_ms: NOW_MS,
    }
}

fn with_agent(change: impl FnOnce(&mut AgentStatus)) -> Facts {
    let mut agent = status();
    change(&mut agent);
    Facts { statuses: vec![of(agent), of(status())], ..healthy() }
}

fn with_interface(change: impl FnOnce(&mut InterfaceFacts)) -> Facts {
    let mut facts = healthy();
    if let Some((_, Ok(interface))) = &mut facts.interface {
        change(interface);
    }
    facts
}

fn with_unit(change: impl FnOnce(&mut UnitFacts)) -> Facts {
    let mut facts = healthy();
    change(&mut facts.units.as_mut().expect("there")[0]);
    facts
}

fn with_peer(change: impl FnOnce(&mut PeerFacts)) -> Facts {
    let mut facts = healthy();
    change(&mut facts.peers.as_mut().expect("there")[1]);
    facts
}

fn with_offloads(change: impl FnOnce(&mut Offloads)) -> Facts {
    with_interface(|interface| change(interface.offloads.as_mut().expect("there")))
}

fn with_certificate(read: Result<i64, FileProblem>) -> Facts {
    Facts { certificate: Some(("m1.pem".into(), read)), ..healthy() }
}

fn with_session(change: impl FnOnce(&mut FabricSession)) -> Facts {
    with_agent(|agent| change(agent.fabric.as_mut().and_then(|link| link.session.as_mut()).expect("configured")))
}

fn foreign() -> Found {
    Found::Foreign(Qdisc { kind: "pfifo".into(), handle: 0x8001_0000, parent: u32::MAX })
}

/// Checks with their failing state, and facts that fail them alone.
type Failing = Vec<(&'static str, State, Facts)>;

fn failing() -> Failing {
    [failing_host(), failing_agent(), failing_network()].concat()
}

fn failing_host() -> Failing {
    use State::{Doubtful, Wrong};
    let btf = Missing { what: "kernel BTF", found: "not there".into(), remedy: "another kernel" };
    vec![
        ("kernel.requirements", Wrong, Facts { missing: vec![btf], ..healthy() }),
        ("clock.source", Doubtful, Facts { clock_source: Ok("hpet".into()), ..healthy() }),
        ("clock.synchronised", Doubtful, Facts { clock_synchronised: Ok(false), ..healthy() }),
        ("interface.there", Wrong, Facts { interface: Some(("eth9".into(), Err("no device".into()))), ..healthy() }),
        ("interface.there", Wrong, with_interface(|interface| interface.ethernet = false)),
        ("interface.there", Wrong, with_interface(|interface| interface.loopback = true)),
        ("interface.segments", Doubtful, with_interface(|interface| interface.segments = Ok(1))),
        ("service.units", Wrong, with_unit(|unit| (unit.active, unit.result) = ("failed".into(), "exit-code".into()))),
        ("service.units", Wrong, with_unit(|unit| unit.active = "inactive".into())),
        ("service.units", Wrong, with_unit(|unit| (unit.active, unit.result) = ("activating".into(), "signal".into()))),
        ("service.units", Wrong, with_unit(|unit| (unit.active, unit.restarts) = ("activating".into(), 2))),
        ("service.units", Doubtful, with_unit(|unit| unit.restarts = 4_000)),
        ("service.units", Doubtful, with_unit(|unit| unit.enabled = "disabled".into())),
        ("service.units", Doubtful, with_unit(|unit| unit.needs_reload = true)),
        ("service.program", Wrong, with_unit(|unit| unit.program_missing = Some("/usr/bin/weir".into()))),
        ("service.program", Doubtful, with_unit(|unit| unit.outdated = true)),
        ("host.leftovers", Doubtful, Facts { gone: Ok(vec![7, 9]), ..healthy() }),
        ("interface.segments", Wrong, {
            let mut facts = healthy();
            facts.policy.as_mut().expect("there").segments = Some(4);
            facts
        }),
        ("interface.offloads", Doubtful, with_offloads(|offloads| offloads.lro = true)),
        ("interface.offloads", Doubtful, with_offloads(|offloads| offloads.gro = false)),
        ("interface.offloads", Doubtful, with_offloads(|offloads| (offloads.gso, offloads.tso) = (false, false))),
        ("interface.programs", Wrong, with_interface(|interface| interface.detached = Ok(vec!["weir_egress".into()]))),
        ("interface.agent", Doubtful, with_interface(|interface| interface.agent = Ok(None))),
        ("interface.qdisc", Wrong, with_interface(|interface| interface.qdisc = Ok(foreign()))),
        ("interface.qdisc", Wrong, with_interface(|interface| interface.qdisc = Ok(Found::Default("mq".into())))),
        ("interface.qdisc", Doubtful, with_agent(|agent| agent.interface = "eth1".into())),
    ]
}

fn failing_agent() -> Failing {
    use State::{Doubtful, Wrong};
    let other = || "0000000000000000".to_owned();
    vec![
        ("agent.enforces", Wrong, with_agent(|agent| agent.not_enforced = Some("the qdisc was removed".into()))),
        ("agent.enforces", Wrong, with_agent(|agent| agent.interface_absent = true)),
        ("agent.policy", Wrong, with_agent(|agent| agent.policy_refused = Some("another address".into()))),
        ("agent.peers", Wrong, with_agent(|agent| agent.peers_alive = 0)),
        ("agent.peers", Doubtful, with_agent(|agent| agent.peers_alive = 1)),
        ("agent.keys", Doubtful, with_agent(|agent| agent.counters.datagrams_forged = 3)),
        ("agent.versions", Doubtful, with_agent(|agent| agent.counters.datagrams_other_version = 1)),
        ("agent.filters", Doubtful, with_agent(|agent| agent.filters_unmatched = vec!["a: no group".into()])),
        ("agent.filters", Doubtful, with_agent(|agent| agent.guests_missed = Some("veth3 has two records".into()))),
        ("agent.levels", Doubtful, with_agent(|agent| agent.level_obstacles = vec!["gso_max_segs is 64".into()])),
        ("agent.fabric", Wrong, with_session(|session| session.state = SessionState::Waiting)),
        ("agent.fabric", Wrong, with_session(|session| session.certificate_ends = Some(1))),
        ("agent.fabric", Doubtful, with_session(|session| *session.certificate_ends.as_mut().expect("90") -= 80 * DAY)),
        ("rack.policies", Wrong, {
            let mut facts = healthy();
            facts.statuses[1] = of(AgentStatus { policy: other(), ..status() });
            facts
        }),
        ("rack.policies", Doubtful, {
            let mut facts = healthy();
            facts.statuses[1].status = Err("Connection refused".into());
            facts
        }),
        ("agent.policy", Wrong, {
            let policy = Some(PolicyFacts { file: "policy.yaml".into(), fingerprint: other(), segments: None });
            Facts { policy, ..healthy() }
        }),
        ("agent.status", Wrong, {
            let mut facts = with_agent(|agent| agent.written_ms -= 60_000);
            facts.interface = None;
            facts
        }),
        ("agent.status", Wrong, {
            let mut facts = with_agent(|agent| agent.written_ms = NOW_MS + 60_000);
            facts.interface = None;
            facts
        }),
        ("agent.status", Wrong, {
            let mut facts = healthy();
            (facts.interface, facts.statuses[0].status) = (None, Err("No such file".into()));
            facts
        }),
    ]
}

fn failing_network() -> Failing {
    use State::{Doubtful, Wrong};
    vec![
        ("peers.route", Wrong, with_peer(|peer| peer.route = Err("Network is unreachable".into()))),
        ("peers.reply", Doubtful, with_peer(|peer| peer.reply = Reply::None("nothing within 1 s".into()))),
        ("key.file", Wrong, {
            let open = FileProblem::Mode("/etc/weir/key".into(), "/etc/weir/key can be read by others".into());
            Facts { key: Some(("/etc/weir/key".into(), Err(open))), ..healthy() }
        }),
        ("fabric.certificate", Wrong, with_certificate(Err(FileProblem::Other("m1.pem is not of the CA".into())))),
        ("fabric.certificate", Wrong, with_certificate(Err(FileProblem::Owner("m1.key".into(), 0, "of 7".into())))),
        ("fabric.certificate", Doubtful, with_certificate(Ok(NOW_MS as i64 / 1_000 + 29 * DAY))),
        ("switch.ports", Wrong, {
            let (steps, apply) = (Ok(vec!["swp1: rate".into(), "swp2: rate".into()]), "weir switch apply p".into());
            Facts { switch: Some(SwitchFacts { steps, apply }), ..healthy() }
        }),
    ]
}

#[test]
fn all_checks_are_fine_on_a_healthy_host() {
    for finding in judge(&healthy()) {
        assert_eq!((finding.state, finding.why.as_str(), &finding.mend), (State::Fine, "", &None), "{finding:?}");
    }
}

#[test]
fn each_fault_fails_its_check_alone() {
    for (id, state, facts) in failing() {
        let failed: Vec<Finding> =
            judge(&facts).into_iter().filter(|one| matches!(one.state, State::Wrong | State::Doubtful)).collect();
        let [finding] = &failed[..] else { panic!("{id}: {failed:?}") };
        assert_eq!((finding.id, finding.state), (id, state), "{finding:?}");
        assert!(!finding.found.is_empty() && !finding.why.is_empty(), "{finding:?}");
    }
}

#[test]
fn every_check_has_a_failing_case() {
    let failing = failing();
    for check in CHECKS {
        assert!(failing.iter().any(|(id, ..)| *id == check.id), "{} has no failing case", check.id);
    }
}

#[test]
fn mends_name_the_interface() {
    let findings = judge(&with_interface(|interface| interface.qdisc = Ok(foreign())));
    let qdisc = findings.iter().find(|finding| finding.id == "interface.qdisc").expect("there");
    assert_eq!(qdisc.mend.as_deref(), Some("tc qdisc del dev eth0 root"));
    assert_eq!(qdisc.found, "pfifo 8001:, of another program");
}

#[test]
fn mends_name_the_policy_and_the_statuses() {
    let mend = |facts: &Facts| {
        let peers = judge(facts).into_iter().find(|finding| finding.id == "agent.peers").expect("there");
        peers.mend.expect("a command")
    };
    let mut facts = with_agent(|agent| agent.peers_alive = 0);
    facts.policy.as_mut().expect("there").file = "/srv/my policy's.yaml".into();
    assert_eq!(mend(&facts), r"weir top --once --policy '/srv/my policy'\''s.yaml'");
    facts.policy = None;
    assert_eq!(mend(&facts), "weir top --once agent.json agent.json");
}

#[test]
fn selectors_without_a_pod_on_this_host_are_fine() {
    let no_pod = |service: &str| format!("{service}: {NO_POD} namespace={service}");
    let of = |facts: &Facts| {
        let filters = judge(facts).into_iter().find(|finding| finding.id == "agent.filters").expect("there");
        (filters.state, filters.found)
    };
    let mut facts = with_agent(|agent| agent.filters_unmatched = vec![no_pod("a"), no_pod("b")]);
    assert_eq!(of(&facts), (State::Fine, "a: no pod here has namespace=a (and 1 more)".to_owned()));
    if let Ok(Status::Agent(agent)) = &mut facts.statuses[0].status {
        agent.filters_unmatched.push("c: no interface of a guest here is called tap*".into());
    }
    assert_eq!(of(&facts), (State::Doubtful, "c: no interface of a guest here is called tap*".to_owned()));
}

#[test]
fn first_start_of_a_unit_is_fine() {
    let facts = with_unit(|unit| unit.active = "activating".into());
    assert!(judge(&facts).iter().all(|finding| finding.state == State::Fine), "{:?}", judge(&facts));
}

#[test]
fn different_policies_are_reported_beside_a_status_that_cannot_be_read() {
    let mut facts = healthy();
    let other = of(AgentStatus { policy: "0000000000000000".into(), ..status() });
    let unread = StatusFacts { source: "http://m3:30566".into(), status: Err("Connection refused".into()) };
    for (statuses, expected) in [
        (vec![of(status()), unread.clone(), other], State::Wrong),
        (vec![of(status()), of(status()), unread], State::Doubtful),
    ] {
        facts.statuses = statuses;
        let finding = judge(&facts).into_iter().find(|finding| finding.id == "rack.policies").expect("there");
        assert_eq!(finding.state, expected, "{finding:?}");
    }
}

#[test]
fn checks_without_facts_are_skipped() {
    let root = Missing { what: "CAP_BPF", found: "not there".into(), remedy: "run as root" };
    let none = || Err("no such file".to_owned());
    let facts = Facts {
        missing: vec![root],
        clock_source: none(),
        clock_synchronised: Err("not permitted".into()),
        interface: None,
        gone: Err("not permitted".into()),
        policy: None,
        peers: Err("no policy".into()),
        key: None,
        certificate: None,
        switch: None,
        units: Err("not booted with systemd".into()),
        statuses: Vec::new(),
        now_ms: NOW_MS,
    };
    assert!(judge(&facts).iter().all(|finding| finding.state == State::Skipped), "{:?}", judge(&facts));
}

#[test]
fn reference_lists_all_checks() {
    const START: &str = "| Check | Condition | Needs |\n|---|---|---|\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/checks.md");
    let page = std::fs::read_to_string(path).expect("docs/reference/checks.md");
    let row = |check: &Check| format!("| `{}` | {} | {} |\n", check.id, check.what, check.needs);
    let expected: String = CHECKS.iter().map(row).collect();
    let (head, table) = page.split_once(START).expect("the table");
    if std::env::var_os("WEIR_UPDATE_CHECKS").is_some() {
        std::fs::write(path, format!("{head}{START}{expected}")).expect("written");
        return;
    }
    assert_eq!(table, expected, "run `WEIR_UPDATE_CHECKS=1 cargo test -p weir-doctor`");
}
