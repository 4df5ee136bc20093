//! A status as it comes from a real broker, as JSON and as metrics.

use std::sync::Arc;
use weir_control::{
    Demand, FabricBroker, FabricBrokerConfig, FabricInput, Input, LimitRule, MeterReading, NetworkReading, RackBroker,
    RackBrokerConfig, RackReport, RateRow, UsageReport, UsageRow,
};
use weir_policy::Policy;
use weir_status::{
    AgentStatus, CreditFlow, FabricLimit, FabricLink, FabricSession, FabricStatus, HostCredits, KernelCounters,
    LevelCounters, LevelStatus, Mode, PortCredits, ReadError, SessionCounters, SessionState, Status, SwitchPortStatus,
    SwitchQueueStatus, SwitchStatus, TenantPort, TenantQueuesStatus, TenantStatus, TenantTimes, TimerCounters, fill,
    metrics,
};
use weir_units::{Bandwidth, Bytes, Direction, Instant, MachineId, PerDirection, ServiceId};

const POLICY: &str = "\
weir: 1
network:
  nic: 1Gb/s
  racks: { r1: { uplink: 1Gb/s, machines: [m1, m2] }, r2: { uplink: 1Gb/s, machines: [m3] } }
services:
  bulk: { match: [ { port: 1 } ], machine: { max: 800Mb/s } }
  web:
    match: [ { port: 2 } ]
    machine: { min: 200Mb/s }
    rack: { min: 300Mb/s }
    fabric: { max: 500Mb/s }
    latency: { message: 200kB, p99: 100ms }
caps: { rack: 500Mb/s }
";

fn policy() -> Arc<Policy> {
    Arc::new(Policy::parse("policy.yaml", POLICY).expect("sound").0)
}

fn reading(service: u32, tx: u64, rx: u64) -> MeterReading {
    let bytes = PerDirection { tx: Bytes::new(tx), rx: Bytes::new(rx) };
    MeterReading { service: ServiceId(service), bytes, waits: false, network: NetworkReading::default() }
}

fn broker(policy: &Arc<Policy>, machine: MachineId) -> RackBroker {
    RackBroker::new(policy, machine, 7, RackBrokerConfig::published(), Instant::ZERO)
}

/// m1 after its second period: `bulk` sends 400 Mb/s there and 300 at m2, over a rack capped at 500.
fn agent() -> AgentStatus {
    let policy = policy();
    let machine = policy.network().machine_named("m1").expect("it is there");
    let mut broker = broker(&policy, machine);
    let mut status = AgentStatus::outline(&policy, machine);
    let demand = Demand { usage: Bandwidth::from_mbps(300), backlogged: true };
    let report = UsageReport {
        machine: MachineId(1),
        policy: policy.digest(),
        epoch: 1,
        round: 1,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![UsageRow { service: ServiceId(0), tx: demand, rx: Demand::default() }],
    };
    for second in 0..3_u64 {
        let now = Instant::from_nanos(second * 1_000_000_000);
        broker.handle_input(now, Input::Timeout);
        if second == 0 {
            broker.handle_input(now, Input::Report(&report));
            broker.handle_input(now, Input::Report(&report));
        }
        while broker.poll_output().is_some() {}
        let readings = [reading(0, second * 50_000_000, 0), reading(1, second * 1_250_000, second * 2_500_000)];
        broker.handle_input(now, Input::Meters(&readings));
        let usage = |tx, rx| PerDirection { tx: Bandwidth::from_mbps(tx), rx: Bandwidth::from_mbps(rx) };
        let usage = [usage(400, 0), usage(10, 20)];
        status.measured(&readings, if second > 0 { &usage } else { &[] });
        status.decided(&broker);
    }
    status.written_ms = 1_700_000_002_000;
    status.uptime_ms = 2_000;
    status.interface = "eth0".into();
    status.attachment = Some("tcx".into());
    status.backend = "htb".into();
    status.epoch = 7;
    status.counters.datagrams_forged = 2;
    status
}

#[test]
fn agent_reports_the_decisions_of_its_broker() {
    let status = agent();
    assert_eq!((status.mode, status.peers, status.peers_alive), (Some(Mode::Runtime), 1, 1));
    assert_eq!((status.counters.reports_accepted, status.counters.reports_replayed), (1, 1));
    let bulk = &status.services[0].tx;
    assert_eq!(bulk.decided_by.as_deref(), Some("rack r1"));
    assert!(bulk.is_limited() && bulk.limit < Bandwidth::from_mbps(300), "{bulk:?}");
    assert_eq!(bulk.share, Some(bulk.limit));
    assert_eq!((bulk.maximum, bulk.effective_limit()), (Bandwidth::from_mbps(800), bulk.limit));
    let web = &status.services[1];
    assert_eq!((web.tx.guarantee, web.tx.rack_guarantee), (Bandwidth::from_mbps(200), Bandwidth::from_mbps(300)));
    assert!(!web.tx.is_limited() && web.tx.limit.is_unlimited());
    assert_eq!((web.rx.usage, web.rx.bytes), (Some(Bandwidth::from_mbps(20)), Some(5_000_000)));
    // The planner's bound: its 500 Mb/s of 1 Gb/s, and 15 intervals.
    let latency = web.latency.expect("the policy has a target");
    assert!(latency.bound_ns.is_some_and(|bound| bound > 3_200_000), "{latency:?}");
    assert_eq!(status.services[0].latency, None);
}

/// A bound within its target does not show that the target is kept while a premise is missing: the
/// policy states no buffers, and `bulk` can overload its ports.
#[test]
fn metrics_show_unproven_bounds() {
    let mut status = agent();
    let latency = status.services[1].latency.as_mut().expect("the policy has a target");
    assert!(latency.unproven && latency.bound_ns.is_some_and(|bound| bound < latency.target_ns), "{latency:?}");
    latency.unproven = false;
    let proven = metrics::text(&Status::Agent(status));
    for (text, value) in [(metrics::text(&Status::Agent(agent())), 1), (proven, 0)] {
        assert!(text.contains(&format!("weir_service_latency_unproven{{service=\"web\"}} {value}.0\n")), "{text}");
    }
}

/// 900 Mb/s of `bulk` exceeds the rack's cap and its maximum here; but no report arrives, so no share is
/// in force.
#[test]
fn no_share_is_in_force_under_the_static_policy() {
    let policy = policy();
    let machine = policy.network().machine_named("m1").expect("it is there");
    let mut broker = broker(&policy, machine);
    // Earlier decisions of the rack's policy are not in force any more.
    let mut status = agent();
    for second in 0..2_u64 {
        let now = Instant::from_nanos(second * 1_000_000_000);
        broker.handle_input(now, Input::Timeout);
        while broker.poll_output().is_some() {}
        let readings = [reading(0, second * 112_500_000, 0), reading(1, 0, 0)];
        broker.handle_input(now, Input::Meters(&readings));
        status.decided(&broker);
    }
    assert_eq!((status.mode, status.peers_alive), (Some(Mode::Static), 0));
    let computed = broker.shares(Direction::Tx).instances[0];
    assert!(computed.decided_by.is_limit(), "the rack is shared all the same: {computed:?}");
    let bulk = &status.services[0].tx;
    assert_eq!((bulk.share, bulk.decided_by.as_deref(), bulk.is_limited()), (None, None, false));
    assert_eq!((bulk.limit, bulk.effective_limit()), (Bandwidth::UNLIMITED, Bandwidth::from_mbps(800)));
    assert!(bulk.demand.is_some_and(|demand| demand > Bandwidth::from_mbps(800)), "{:?}", bulk.demand);
    let text = metrics::text(&Status::Agent(status));
    assert!(!text.contains("weir_service_share") && !text.contains("weir_service_decided_by"), "{text}");
}

#[test]
fn limits_of_an_earlier_agent_are_reported_while_they_are_in_force() {
    let mut status = agent();
    let limits = PerDirection { tx: Bandwidth::from_mbps(40), rx: Bandwidth::UNLIMITED };
    status.left(&[limits, PerDirection::both(Bandwidth::UNLIMITED)]);
    let bulk = &status.services[0].tx;
    assert_eq!((status.mode, bulk.limit, bulk.effective_limit()), (None, limits.tx, limits.tx));
    assert_eq!((bulk.share, bulk.decided_by.as_deref()), (None, None));
    assert!(status.services[0].rx.limit.is_unlimited() && status.services[1].tx.limit.is_unlimited());
}

/// 2 racks, 3 machines, 2 services at 3 points.
#[test]
fn constraints_follow_from_the_policy() {
    let all: Vec<String> = fill::constraints(&policy()).collect();
    assert_eq!(all.len(), 2 + 3 + 2 + 2 * 3);
    for one in ["demand", "fabric", "machine m3", "rack r2", "max of bulk at machine", "max of web at fabric"] {
        assert_eq!(all.iter().filter(|by| *by == one).count(), 1, "{one}");
    }
    for service in agent().services {
        assert!(service.tx.decided_by.is_some_and(|by| all.contains(&by)));
    }
}

#[test]
fn json_keeps_absent_and_unlimited_rates() {
    let mut status = agent();
    let text = Status::Agent(status.clone()).to_json();
    insta::assert_snapshot!("agent", text);
    assert_eq!(Status::read(text.as_bytes()).expect("its own"), Status::Agent(status.clone()));
    status.services[0].tx.backlog_bytes = Some(0);
    status.services[0].rx.sender_rate = Some(Bandwidth::from_mbps(3));
    status.kernel =
        Some(KernelCounters { timer: TimerCounters { ticks_late: 4, fallbacks: 0 }, ..KernelCounters::default() });
    status.fabric = Some(FabricLink { leads: true, ..FabricLink::default() });
    let all = Status::Agent(status);
    assert_eq!(Status::read(all.to_json().as_bytes()).expect("its own"), all);
}

#[test]
fn another_version_is_refused_and_more_keys_are_not() {
    let text = Status::Agent(agent()).to_json();
    let newer = text.replace("\"version\": 1,", "\"version\": 2, \"machine\": 3,");
    let error = Status::read(newer.as_bytes()).expect_err("another version");
    assert!(matches!(error, ReadError::Version { found: 2 }));
    assert_eq!(error.to_string(), "a status of version 2, and this program reads version 1");
    let more =
        text.replace("\"mode\":", "\"of_tomorrow\": {}, \"mode\":").replace("\"fallbacks\": 0,", "\"unknown\": 1,");
    assert_eq!(Status::read(more.as_bytes()).expect("readable"), Status::Agent(agent()));
    for broken in ["", "{}", "[]", &text[..text.len() / 2], &text.replace("\"runtime\"", "\"walking\"")] {
        assert!(matches!(Status::read(broken.as_bytes()), Err(ReadError::Malformed(_))), "{broken}");
    }
}

fn fabric() -> FabricStatus {
    let policy = policy();
    let config = FabricBrokerConfig { rule: LimitRule::Backlogged, ..FabricBrokerConfig::default() };
    let mut broker = FabricBroker::new(&policy, 3, config, Instant::ZERO);
    let wanted = Bandwidth::from_mbps(400);
    for (machine, round) in [(0, 1), (2, 1), (2, 1)] {
        let report = RackReport {
            machine: MachineId(machine),
            policy: policy.digest(),
            epoch: 1,
            round,
            first: ServiceId(0),
            last: ServiceId(u32::MAX),
            rows: vec![RateRow { service: ServiceId(1), rates: PerDirection { tx: wanted, rx: Bandwidth::ZERO } }],
        };
        broker.handle_input(Instant::from_nanos(1_000_000_000), FabricInput::Report(&report));
    }
    // No rack replies to the proposed limits within a second.
    for second in [10, 11] {
        broker.handle_input(Instant::from_nanos(second * 1_000_000_000), FabricInput::Timeout);
    }
    let mut status = FabricStatus::outline(&policy, "f1", 3);
    status.decided(&policy, &broker);
    status.leads = true;
    status.leader = Some("f1".into());
    (status.streams, status.certificate_ends) = (2, Some(1_800_000_000));
    status.written_ms = 1_700_000_010_000;
    status.uptime_ms = 10_000;
    status.tenant_queues = Some(tenants());
    status
}

/// Red has queues of its own, blue moves to some.
fn tenants() -> TenantQueuesStatus {
    let m = Bandwidth::from_mbps;
    let port = TenantPort { port: "r1 spine0".into(), tenants: 9, queues: 7 };
    let red = TenantStatus {
        tenant: "red".into(),
        has_queues: true,
        since_ms: Some(1_700_000_000_000),
        dscp: 12,
        guarantee: m(300),
        used_tx: m(410),
        used_rx: m(20),
        score_bps: 300_000_000,
        competes: vec![port],
        competes_left_out: 2,
        ..TenantStatus::default()
    };
    let (tenant, moves) = ("blue".into(), Some("tag".into()));
    let blue = TenantStatus { tenant, moves, guarantee: m(100), ..TenantStatus::default() };
    TenantQueuesStatus {
        subscribers: 5,
        intervals: 4,
        moves_begun: 3,
        moves_ended: 2,
        moves_turned_back: 1,
        machines_gone: 1,
        unconfirmed: 1,
        move_times: TenantTimes { count: 2, sum_us: 1_500_000, longest_us: 900_000 },
        switch_times: TenantTimes { count: 4, sum_us: 160_000, longest_us: 50_000 },
        tenants: vec![blue, red],
        ..TenantQueuesStatus::default()
    }
}

/// 500 Mb/s of `web` in all, with the demand of two racks.
#[test]
fn fabric_broker_reports_its_limits() {
    let status = fabric();
    assert_eq!((status.racks, status.racks_reporting, status.round), (2, 2, 1));
    let shown: Vec<_> =
        status.limits.iter().map(|of| (of.rack.as_str(), of.service.as_str(), &*of.direction)).collect();
    assert_eq!(shown, [("r1", "web", "tx"), ("r2", "web", "tx")]);
    let sum: Bandwidth = status.limits.iter().map(|of| of.limit).sum();
    assert!(sum <= Bandwidth::from_mbps(500) && sum > Bandwidth::from_mbps(499), "{sum}");
    assert_eq!((status.counters.rack_reports_accepted, status.counters.rack_reports_replayed), (2, 1));
    let all = Status::Fabric(status);
    assert_eq!(Status::read(all.to_json().as_bytes()).expect("its own"), all);
}

/// Limits that a status has no room for are counted.
#[test]
fn limits_that_are_left_out_are_a_metric() {
    let mut status = fabric();
    (status.limits, status.limits_left_out) = (Vec::<FabricLimit>::new(), 7);
    let text = metrics::text(&Status::Fabric(status));
    assert!(text.contains("\nweir_fabric_limits_left_out 7.0\n"), "{text}");
    assert!(!text.contains("\nweir_fabric_limit_bytes_per_second"), "{text}");
}

/// The status of an agent with every fact.
fn complete() -> AgentStatus {
    let mut status = agent();
    let mut kernel = KernelCounters::default();
    kernel.events.feedback_forged = 5;
    status.kernel = Some(kernel);
    let counters = SessionCounters { streams: 2, ..SessionCounters::default() };
    let session = FabricSession {
        state: SessionState::Up,
        broker: Some("https://f:1".into()),
        silent_ms: Some(2_500),
        last_failure: None,
        certificate_ends: Some(1_900_000_000),
        counters,
    };
    status.drops_unattributed = Some(4);
    status.cgroups = Some(7);
    status.guests = Some(5);
    status.filters_unmatched = vec!["vm: no interface of a guest here is called tap*".into()];
    status.fabric = Some(FabricLink {
        leads: false,
        leader: Some("m2".to_owned()),
        shut_out: true,
        receives: true,
        session: Some(session),
    });
    let service = &mut status.services[0];
    service.tx.backlog_bytes = Some(3_000);
    service.tx.drops = Some(1);
    // 100 MB sent (`agent`), 3 kB waiting.
    service.tx.offered = Some(Bandwidth::from_mbps(3_400));
    service.tx.dropped = Some(Bandwidth::from_mbps(3_000));
    (service.tx.offered_bytes, service.tx.dropped_bytes) = (Some(850_003_000), Some(750_000_000));
    service.tx.destinations_limited = Some(2);
    service.tx.feedback_received = Some(6);
    service.rx.meter_capacity = Some(Bandwidth::from_mbps(800));
    service.rx.sender_rate = Some(Bandwidth::from_mbps(80));
    service.rx.packets_markable = Some(1_000);
    service.rx.packets_marked = Some(7);
    service.rx.feedback_sent = Some(9);
    service.rx.stranger_bytes = Some(250_000);
    service.rx.stranger_packets_marked = Some(11);
    service.rx.stranger_bytes_dropped = Some(900_000);
    service.rx.stranger_packets_dropped = Some(600);
    let counters = LevelCounters {
        bytes: 15_380,
        packets: 10,
        backlog_bytes: 1_538,
        longest_wait_ns: 2_000_000,
        oversize: 1,
        dropped: 2,
        remarked: 3,
    };
    status.levels = vec![LevelStatus {
        level: 1,
        dscp: 46,
        rate: Bandwidth::from_mbps(8),
        burst_bytes: 1_538,
        bound_ns: Some(4_853_000),
        counters: Some(counters),
    }];
    status.credits = Some(HostCredits {
        rate_bps: 600_000_000,
        period_us: 1_000,
        level_billionths: 500_000_000,
        outstanding_bytes: 9_000,
        granted_bytes: 90_000,
        flows_sent: 1,
        prompt: true,
        flows: vec![credit_flow("first port")],
        ..HostCredits::default()
    });
    status
}

fn credit_flow(held_by: &str) -> CreditFlow {
    CreditFlow {
        service: "bulk".into(),
        source: "10.0.0.1".into(),
        destination: "10.0.0.2".into(),
        weight_thousandths: 2_000,
        share_bps: 300_000_000,
        demand_bps: 400_000_000,
        held_by: held_by.into(),
    }
}

#[test]
fn a_status_holds_the_flows_with_the_largest_shares() {
    let flow = |share_bps| CreditFlow { share_bps, ..credit_flow("demand") };
    let flows = CreditFlow::largest((0..300).map(flow).collect());
    assert_eq!((flows.len(), flows[0].share_bps, flows[255].share_bps), (CreditFlow::MOST, 299, 44));
}

#[test]
fn metrics_of_flows_with_credits() {
    let text = metrics::text(&Status::Switch(switch()));
    let of = |name: &str, value: &str| {
        format!(
            "weir_credit_port_flow_{name}{{port=\"m1\",interface=\"m1\",service=\"bulk\",source=\"10.0.0.1\",\
             destination=\"10.0.0.2\"}} {value}\n"
        )
    };
    assert!(text.contains(&of("held", "1.0")) && text.contains(&of("share_bytes_per_second", "37500000.0")), "{text}");
}

#[test]
fn metrics_of_an_agent() {
    insta::assert_snapshot!("agent.metrics", metrics::text(&Status::Agent(complete())));
}

#[test]
fn metrics_of_a_fabric_broker() {
    insta::assert_snapshot!("fabric.metrics", metrics::text(&Status::Fabric(fabric())));
}

/// The metrics of a text in the OpenMetrics format: name, kind, unit, help, and the names of the samples.
fn families(text: &str) -> Vec<(String, String, String, String, Vec<String>)> {
    let mut families: Vec<(String, String, String, String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut parts = rest.splitn(3, ' ');
            let (what, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let value = parts.next().unwrap_or_default().to_owned();
            if families.last().is_none_or(|family| family.0 != name) && what != "EOF" {
                families.push((name.to_owned(), String::new(), String::new(), String::new(), Vec::new()));
            }
            let family = families.last_mut().expect("pushed");
            match what {
                "HELP" => family.3 = value,
                "TYPE" => family.1 = value,
                "UNIT" => family.2 = value,
                _ => assert_eq!(what, "EOF"),
            }
        } else {
            let name = line.split(['{', ' ']).next().expect("a name");
            families.last_mut().expect("a family comes first").4.push(name.to_owned());
        }
    }
    families
}

/// A queue with all counters.
fn queue(queue: u8) -> SwitchQueueStatus {
    let (dropped, marked) = (u64::from(queue), 2 * u64::from(queue));
    SwitchQueueStatus {
        queue,
        weight: Some(3),
        sent_bytes: Some(1_000),
        dropped_packets: Some(dropped),
        marked_packets: Some(marked),
        backlog_bytes: Some(0),
    }
}

/// A switch, of whose two ports one has lost its configuration.
fn switch() -> SwitchStatus {
    let port = |port: &str, differs: Vec<String>| SwitchPortStatus {
        port: port.into(),
        interface: port.into(),
        differs,
        queues: vec![queue(0), queue(1)],
        queues_unread: (port == "m2").then(|| "the socket is closed".to_owned()),
        credits: (port == "m1").then(|| PortCredits { rate_bps: 20_000_000, flows: 3, ..PortCredits::default() }),
        credit_flows: if port == "m1" { vec![credit_flow("this port")] } else { Vec::new() },
    };
    let ports = vec![port("m1", Vec::new()), port("m2", vec!["rate: 20 Mb/s -> line rate".into()])];
    SwitchStatus { ports, changes_found: 1, ..SwitchStatus::outline("r1".into(), "0123456789abcdef".into(), 10_000) }
}

#[test]
fn causes_of_broken_bounds_are_named() {
    let mut agent = complete();
    agent.not_enforced = None;
    agent.level_obstacles = vec!["gso_max_segs of eth0 is 64, and `levels.segments` is 8".into()];
    let machine = agent.machine.clone();
    assert_eq!(
        Status::Agent(agent.clone()).obstacles_to_bounds(),
        [format!("{machine}: {}", agent.level_obstacles[0])]
    );
    agent.levels.clear();
    assert!(Status::Agent(agent).obstacles_to_bounds().is_empty(), "the policy has no levels");
    let of = |levels: Option<Vec<u8>>| Status::Switch(SwitchStatus { levels, ..switch() }).obstacles_to_bounds();
    for levels in [None, Some(vec![46])] {
        assert_eq!(of(levels), ["switch r1, port m2: not as the policy needs it"]);
    }
    assert!(of(Some(Vec::new())).is_empty(), "the policy has no levels");
}

/// An agent and a switch of an earlier version report neither levels nor whether they stay.
#[test]
fn statuses_of_earlier_versions_are_read() {
    let without = |status: Status, keys: &[&str]| {
        let mut value: serde_json::Value = serde_json::from_str(&status.to_json()).expect("JSON");
        keys.iter().for_each(|key| drop(value.as_object_mut().expect("an object").remove(*key)));
        Status::read(value.to_string().as_bytes()).expect("read")
    };
    let switch = SwitchStatus { levels: Some(vec![46]), without_agent: vec!["m1".into()], ..switch() };
    assert_eq!(switch.kept_off_levels().collect::<Vec<_>>(), ["m1"]);
    let Status::Switch(read) = without(Status::Switch(switch), &["levels", "without_agent"]) else {
        panic!("a switch")
    };
    assert_eq!((read.levels, read.without_agent.len()), (None, 0));
    let Status::Agent(read) = without(Status::Agent(AgentStatus { keeps: true, ..agent() }), &["keeps"]) else {
        panic!("an agent")
    };
    assert!(!read.keeps);
}

/// The checks of `promtool check metrics`, and the rules of the format.
#[test]
fn names_follow_the_conventions() {
    let status = [Status::Agent(complete()), Status::Fabric(fabric()), Status::Switch(switch())];
    let mut reported = Vec::new();
    for text in status.iter().map(metrics::text) {
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
        for (name, kind, unit, help, samples) in families(&text) {
            assert!(name.starts_with("weir_") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert!(!name.ends_with("_total") && !name.contains("__"), "{name}");
            let base = ["", "seconds", "bytes", "bytes_per_second"];
            assert!(base.contains(&unit.as_str()) && name.ends_with(&unit), "{name} {unit}");
            for small in ["milliseconds", "_ms", "_ns", "bits", "bps", "kilo", "mega", "percent"] {
                assert!(!name.contains(small), "{name} is not in base units");
            }
            assert!(!name.contains(&format!("_{kind}")), "{name} repeats its kind");
            assert!(help.ends_with('.') && !help.ends_with("..") && help.len() > 10, "{name}: {help}");
            let sample = match kind.as_str() {
                "counter" => format!("{name}_total"),
                "info" => format!("{name}_info"),
                _ => name.clone(),
            };
            assert!(["counter", "gauge", "info"].contains(&kind.as_str()), "{name} {kind}");
            assert!(!samples.is_empty() && samples.iter().all(|found| *found == sample), "{name}: {samples:?}");
            assert!(!reported.contains(&sample), "{name} appears twice");
            reported.push(sample);
        }
    }
    // A complete status has every metric of the reference.
    let reference: Vec<String> = metrics::reference().into_iter().map(|(name, ..)| name).collect();
    assert!(reported.iter().all(|name| reference.contains(name)));
    assert_eq!(
        reported.len(),
        reference.len(),
        "{:?}",
        reference.iter().filter(|name| !reported.contains(name)).collect::<Vec<_>>()
    );
}

#[test]
fn absent_fact_has_no_series() {
    let text = metrics::text(&Status::Agent(agent()));
    for absent in [
        "weir_service_backlog",
        "weir_level",
        "weir_kernel_",
        "weir_fabric_li",
        "weir_service_sender_rate",
        "weir_service_markable",
    ] {
        assert!(!text.contains(absent), "{absent}");
    }
    assert!(text.contains("weir_service_limit_bytes_per_second{service=\"web\",direction=\"tx\"} inf"), "{text}");
    assert!(
        text.contains("weir_service_guarantee_bytes_per_second{service=\"web\",direction=\"tx\"} 25000000.0"),
        "{text}"
    );
}

/// Names come from a policy, but a path or an address in a label must not end it.
#[test]
fn labels_are_escaped() {
    let mut status = agent();
    status.interface = "a\"b\\c\nd".into();
    let text = metrics::text(&Status::Agent(status));
    assert!(text.contains(r#"interface="a\"b\\c\nd""#), "{text}");
}

/// Readings of receive meters include marks; a host without meters delivers none.
#[test]
fn readings_of_receive_meters_are_reported() {
    let mut status = agent();
    assert_eq!((status.services[0].rx.packets_markable, status.services[0].rx.sender_rate), (None, None));
    let network =
        NetworkReading { packets: 100, marked: 3, rate: Some(Bandwidth::from_mbps(40)), ..NetworkReading::default() };
    status.measured(&[MeterReading { network, ..reading(0, 1, 2) }, reading(1, 3, 4)], &[]);
    let rx = &status.services[0].rx;
    assert_eq!((rx.packets_markable, rx.packets_marked), (Some(100), Some(3)));
    assert_eq!((rx.sender_rate, rx.usage), (Some(Bandwidth::from_mbps(40)), None));
    assert_eq!(status.services[1].rx.packets_marked, None);
}

#[test]
fn directions_are_reached_by_name() {
    let status = agent();
    let service = &status.services[1];
    assert_eq!(service.direction(Direction::Rx), &service.rx);
    assert_eq!(status.capacity(Direction::Tx), Bandwidth::from_gbps(1));
}

/// The reference in the documents is the code's. `WEIR_UPDATE_METRICS=1` (`make metrics`) writes it anew.
#[test]
fn the_reference_is_complete() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/metrics.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let (before, after) = ("<!-- metrics: written by `make metrics` -->\n", "<!-- end of metrics -->");
    let (head, rest) = text.split_once(before).expect("where the reference begins");
    let (found, tail) = rest.split_once(after).expect("where it ends");
    let row = |(name, kind, labels, help): &(String, &str, String, String)| {
        format!("| `{name}` | {kind} | {labels} | {help} |\n")
    };
    let rows: String = metrics::reference().iter().map(row).collect();
    let reference = format!("\n| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n{rows}\n");
    if std::env::var_os("WEIR_UPDATE_METRICS").is_some() {
        std::fs::write(path, format!("{head}{before}{reference}{after}{tail}")).expect("written");
    } else {
        assert_eq!(found, reference, "`make metrics` writes the reference anew");
    }
    // Every metric in a query of the document exists.
    let reference: Vec<String> = metrics::reference().into_iter().map(|(name, ..)| name).collect();
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    for name in head.split(|c| !is_part(c)).filter(|name| name.starts_with("weir_") && !name.ends_with('_')) {
        assert!(reference.iter().any(|metric| metric == name), "{name} in {path} is no metric");
    }
}
