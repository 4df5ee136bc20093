//! Small runs for tests, with one of everything: with a network of its own, under a policy, and in the lab.

use crate::policy::{
    AgentRecord, Backend, Completion, LabRecords, MeasuringPoint, MessagesRecord, Phase, PolicyResults, PortRecord,
    RequestsRecord, ServiceSample, TransferRecord,
};
use crate::record::{ClassCount, Coflow, FlowRecord, Group, GroupSample, LinkRecord, LinkSample, MeterSample, Results};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, MachineId, SimTime};

fn link(name: &str, gbps: u64, bytes: u64, dropped: u64) -> LinkRecord {
    let mut classes = [ClassCount::default(); 8];
    classes[0] = ClassCount { bytes, packets: bytes / 1_500, dropped, marked: 2 };
    LinkRecord {
        name: name.to_owned(),
        rate: Bandwidth::from_gbps(gbps),
        bytes,
        packets: bytes / 1_500,
        dropped,
        marked: 2,
        classes,
        queue_peak: 97_500,
    }
}

/// Seven flows of two groups: one does not finish, one has no ideal, one has a deadline.
fn flows() -> Vec<FlowRecord> {
    let flow = |id: u64, group, bytes, start, took: Option<u64>, ideal| FlowRecord {
        group,
        bytes,
        delivered: if took.is_some() { bytes } else { bytes / 4 },
        start: SimTime::from_micros(start),
        finished: took.map(|took| SimTime::from_micros(start + took) + SimTime::from_picos(id)),
        ideal: SimTime::from_micros(ideal),
        retransmissions: u32::from(took.is_none()) * 3,
        timeouts: u32::from(took.is_none()),
        ..FlowRecord::new(id, MachineId(id as u32 % 2), MachineId(2))
    };
    let mut flows = vec![
        flow(0, 0, 5_000, 0, Some(14), 14),
        flow(1, 0, 9_000, 10, Some(34), 17),
        flow(2, 0, 60_000, 20, Some(180), 60),
        flow(3, 0, 800_000, 30, Some(1_400), 650),
        flow(4, 1, 2_000_000, 100, Some(3_300), 1_610),
        flow(5, 1, 12_000_000, 200, None, 9_610),
        flow(6, 1, 40_000, 300, Some(90), 0),
    ];
    // Two pairs of flows of the second group, of which one has not started its second flow.
    let pair = |id| Some(Coflow { id, flows: 2 });
    (flows[4].coflow, flows[6].coflow, flows[5].coflow) = (pair(0), pair(0), pair(1));
    flows[1].deadline = Some(SimTime::from_micros(50));
    flows
}

/// Two of the links, each millisecond.
fn link_samples() -> Vec<LinkSample> {
    let of = |ms: u64| {
        [(0, 300_000 * ms), (2, 1_200_000)].map(|(link, bytes)| LinkSample {
            at: SimTime::from_millis(ms),
            link,
            bytes,
            capacity: if link == 0 { 1_250_000 } else { 5_000_000 },
            queue: 10_000 * ms,
            queue_peak: 20_000 * ms,
            dropped: ms - 1,
            marked: 0,
        })
    };
    (1..=4).flat_map(of).collect()
}

/// Both groups, each millisecond.
fn group_samples() -> Vec<GroupSample> {
    let of = |ms: u64| {
        let at = SimTime::from_millis(ms);
        let (few, many) = ((500_000 / ms, 1, 1 << 40), (900_000, 2, 450_000 * 900_000));
        [(0, few), (1, many)].map(|(group, (delivered, active, squares))| GroupSample {
            at,
            group,
            delivered,
            active,
            flows: 2,
            squares,
        })
    };
    (1..=4).flat_map(of).collect()
}

/// Two services at one host, and one at another from 3 ms on.
fn meter_samples() -> Vec<MeterSample> {
    let of = |ms: u64| {
        let meter = move |host, service, received| MeterSample {
            at: SimTime::from_millis(ms),
            host: MachineId(host),
            service,
            sent: 8_250 * ms,
            limit: (service == 1).then(|| Bandwidth::from_gbps(2)),
            received,
            capacity: Some(Bandwidth::from_gbps(9)),
            rate: (host == 2).then(|| Bandwidth::from_mbps(1_000 * ms)),
        };
        let late = (ms > 2).then(|| meter(0, 0, 0));
        [meter(2, 0, 500_000), meter(2, 1, 100_000 * ms)].into_iter().chain(late)
    };
    (1..=4).flat_map(of).collect()
}

/// Two groups on three links in 4 ms.
pub(crate) fn sample() -> Results {
    let group = |name: &str, transport: &str| Group { name: name.to_owned(), transport: transport.to_owned() };
    Results {
        scenario: "two-groups".to_owned(),
        seed: 7,
        complete: true,
        simulated: SimTime::from_millis(4),
        parameters: [("traffic.web.load".to_owned(), "60 %".to_owned())].into(),
        counters: [("events", 12_345), ("packet_hops", 6_789), ("packets_unroutable", 5)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        hosts: vec!["h1".to_owned(), "h2".to_owned(), "server, \"left\"".to_owned()],
        groups: vec![group("web", "dctcp"), group("bulk", "cubic")],
        flows: flows(),
        links: vec![link("h1->s1", 10, 3_000_000, 6), link("h2->s1", 10, 600_000, 0), link("s1->h3", 10, 4_800_000, 0)],
        sample_interval: Some(SimTime::from_millis(1)),
        link_samples: link_samples(),
        group_samples: group_samples(),
        services: vec!["web".to_owned(), "bulk/copy".to_owned()],
        meter_samples: meter_samples(),
        ..Results::default()
    }
}

/// Services `a` and `b/c` in 4 s, of which the second begins at 2 s; it has no settled mean.
fn policy() -> PolicyResults {
    let (second, mbps) = (SimTime::from_secs, Bandwidth::from_mbps);
    let phase = |from: u64, to: u64, sending: &[&str], settled: Option<Bandwidth>| Phase {
        from: second(from),
        to: second(to),
        sending: sending.iter().map(|name| (*name).to_owned()).collect(),
        mean: [("a".to_owned(), Some(mbps(300))), ("b/c".to_owned(), Some(Bandwidth::ZERO))].into(),
        settled: [("a".to_owned(), Some(mbps(310))), ("b/c".to_owned(), settled)].into(),
    };
    let sample = |at: u64| ServiceSample {
        at: second(at),
        bandwidth: [("a".to_owned(), mbps(290 + at)), ("b/c".to_owned(), mbps(at / 3 * 100))].into(),
    };
    let transfer = |service: &str, timeouts| TransferRecord {
        service: service.to_owned(),
        flows: 2,
        delivered_bytes: 1_500_000,
        retransmissions: 7,
        timeouts,
    };
    PolicyResults {
        enforcement: "parley".to_owned(),
        duration: second(4),
        measure: MeasuringPoint {
            rack: "senders".to_owned(),
            direction: "tx".to_owned(),
            every: second(1),
            capacity: Bandwidth::from_gbps(1),
        },
        services: vec!["a".to_owned(), "b/c".to_owned()],
        phases: vec![phase(0, 2, &["a"], None), phase(2, 4, &["a", "b/c"], Some(mbps(90)))],
        samples: (1..=4).map(sample).collect(),
        transfers: vec![transfer("a", Some(1)), transfer("b/c", None)],
        ..PolicyResults::default()
    }
}

/// The sample under a policy.
pub(crate) fn sample_under_policy() -> Results {
    Results { policy: Some(policy()), ..sample() }
}

/// A run in the lab, interrupted after three of its four samples.
pub(crate) fn sample_of_lab() -> Results {
    let times = |times: &[u64], unfinished| {
        Completion::new(times.iter().map(|time| SimTime::from_millis(*time)).collect(), unfinished)
    };
    let (name, service) = ("cache".to_owned(), "a".to_owned());
    let records = LabRecords {
        transfers: policy().transfers,
        requests: vec![RequestsRecord {
            name: name.clone(),
            service: service.clone(),
            requests: 4,
            times: times(&[3, 1, 2], 1),
        }],
        messages: vec![MessagesRecord { name, service, messages: 2, times: times(&[20, 10], 0) }],
        ports: vec![PortRecord { port: "r1.s1".to_owned(), packets: 90, above: 8, marked: 7 }],
        agents: vec![AgentRecord { machine: "s1".to_owned(), mode: "runtime".to_owned(), ..AgentRecord::default() }],
        counters: BTreeMap::new(),
    };
    let mut policy = policy().with_lab(records);
    policy.samples.pop();
    Results {
        scenario: "small".to_owned(),
        backend: Backend::Lab,
        seed: 7,
        simulated: SimTime::from_secs(3),
        counters: [("transfers_without_report".to_owned(), 0)].into(),
        policy: Some(policy),
        ..Results::default()
    }
}
