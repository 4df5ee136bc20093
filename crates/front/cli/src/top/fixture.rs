//! Made-up machines for tests: m1 is well, m2 was lost 12 s ago, m3 never had a status; a fabric
//! broker.

use std::sync::Arc;
use weir_observe::watcher::View;
use weir_observe::{Liveness, Lost, Source};
use weir_policy::Policy;
use weir_status::{
    AgentStatus, CreditFlow, FabricStatus, HostCredits, Mode, PortCredits, Status, SwitchPortStatus, SwitchStatus,
    TenantPort, TenantQueuesStatus, TenantStatus,
};
use weir_units::{Bandwidth, Instant};

const POLICY: &str = "\
weir: 1
network: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1, m2] }, r2: { uplink: 1Gb/s, machines: [m3] } } }
services:
  bulk: { match: [ { port: 1 } ], machine: { max: 800Mb/s } }
  web: { match: [ { port: 2 } ], machine: { min: 200Mb/s }, latency: { message: 200kB, p99: 100ms } }
caps: { rack: 500Mb/s }
";

pub(crate) fn view() -> View {
    let (policy, _) = Policy::parse("policy.yaml", POLICY).expect("sound");
    let m = Bandwidth::from_mbps;
    let agent = |name: &str, bulk: u64, limit: u64| {
        let mut status = AgentStatus::outline(&policy, policy.network().machine_named(name).expect("there"));
        (status.mode, status.peers_alive, status.backend) = (Some(Mode::Runtime), 1, "htb".to_owned());
        status.written_ms = 1_700_000_000_000;
        for service in &mut status.services {
            for status in [&mut service.tx, &mut service.rx] {
                (status.usage, status.share) = (Some(m(0)), Some(m(0)));
                status.decided_by = Some("demand".to_owned());
            }
        }
        let tx = &mut status.services[0].tx;
        (tx.usage, tx.demand, tx.limit) = (Some(m(bulk)), Some(Bandwidth::UNLIMITED), m(limit));
        (tx.share, tx.decided_by) = (Some(m(limit)), Some("rack r1".to_owned()));
        status.services[1].tx.usage = Some(m(10));
        status
    };
    let mut m1 = agent("m1", 400, 420);
    (m1.services[0].tx.offered, m1.services[0].tx.dropped) = (Some(m(3_400)), Some(m(3_000)));
    m1.services[1].rx.usage = Some(m(100));
    let mut fabric = FabricStatus::outline(&policy, "f1", 1);
    (fabric.leads, fabric.racks_reporting) = (true, 2);
    let at = |second: u64| Instant::from_nanos(second * 1_000_000_000);
    let seen = |name: &str, status: Option<Status>, lost: Option<u64>| {
        let mut liveness = Liveness::new(Source::File(format!("{name}.json").into()), Some(name.to_owned()));
        liveness.status = status.map(Arc::new);
        liveness.lost =
            lost.map(|since| Lost { since: at(since), why: "Connection refused (os error 111)".to_owned() });
        liveness
    };
    let livenesses = vec![
        seen("m1", Some(Status::Agent(m1)), None),
        seen("m2", Some(Status::Agent(agent("m2", 80, 90))), Some(88)),
        seen("m3", None, Some(0)),
        seen("f1", Some(Status::Fabric(fabric)), None),
    ];
    View { at: at(100), livenesses }
}

/// The same with two tenants at the fabric broker: red has queues of its own, blue moves to some.
pub(crate) fn with_tenants() -> View {
    let mut view = view();
    let m = Bandwidth::from_mbps;
    let broker = view.livenesses.last_mut().expect("the broker");
    let Some(Status::Fabric(fabric)) = broker.status.as_deref() else { panic!("a fabric broker") };
    let mut fabric = fabric.clone();
    fabric.written_ms = 1_700_000_000_000;
    let port = TenantPort { port: "r1 spine0".to_owned(), tenants: 9, queues: 7 };
    let red = TenantStatus {
        tenant: "red".to_owned(),
        has_queues: true,
        since_ms: Some(fabric.written_ms - 62_000),
        dscp: 12,
        guarantee: m(300),
        used_tx: m(410),
        used_rx: m(20),
        score_bps: 300_000_000,
        competes: vec![port],
        competes_left_out: 2,
        ..TenantStatus::default()
    };
    let blue = TenantStatus {
        tenant: "blue".to_owned(),
        moves: Some("tag".to_owned()),
        guarantee: m(100),
        used_tx: m(90),
        score_bps: 90_000_000,
        ..TenantStatus::default()
    };
    fabric.tenant_queues = Some(TenantQueuesStatus { tenants: vec![blue, red], ..TenantQueuesStatus::default() });
    broker.status = Some(Arc::new(Status::Fabric(fabric)));
    view
}

/// The same with credits at m1, whose lost peer has some too, and a switch in place of the fabric broker.
pub(crate) fn with_credits() -> View {
    let mut view = view();
    let flow = |service: &str, share_bps: u64, held_by: &str| CreditFlow {
        service: service.to_owned(),
        source: "10.0.0.1".to_owned(),
        destination: "10.0.0.2".to_owned(),
        weight_thousandths: 1_500,
        share_bps,
        demand_bps: 900_000_000,
        held_by: held_by.to_owned(),
    };
    let credits = HostCredits {
        rate_bps: 600_000_000,
        flows_sent: 2,
        period_us: 1_000,
        level_billionths: 500_000_000,
        outstanding_bytes: 37_500,
        flows: vec![flow("bulk", 300_000_000, "network"), flow("web", 1_000_000, "demand")],
        ..HostCredits::default()
    };
    for liveness in &mut view.livenesses[..2] {
        let Some(Status::Agent(agent)) = liveness.status.as_deref() else { panic!("an agent") };
        let agent = AgentStatus { credits: Some(credits.clone()), ..agent.clone() };
        liveness.status = Some(Arc::new(Status::Agent(agent)));
    }
    let port = SwitchPortStatus {
        port: "m2".to_owned(),
        interface: "swp2".to_owned(),
        credits: Some(PortCredits { rate_bps: 600_000_000, flows: 1, period_us: 2_000, ..PortCredits::default() }),
        credit_flows: vec![flow("bulk", 300_000_000, "this port")],
        ..SwitchPortStatus::default()
    };
    let switch = SwitchStatus { ports: vec![port], ..SwitchStatus::outline("r1".into(), String::new(), 1_000) };
    view.livenesses[3].status = Some(Arc::new(Status::Switch(switch)));
    view
}
