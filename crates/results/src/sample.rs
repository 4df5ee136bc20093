//! A small run for tests, with one of everything.

use crate::record::{ClassCount, FlowRecord, Group, GroupSample, LinkRecord, LinkSample, MeterSample, Results};
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

/// Two groups on three links in 4 ms; one flow does not finish, one has no ideal, one has a deadline.
pub(crate) fn sample() -> Results {
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
    (flows[4].coflow, flows[6].coflow, flows[5].coflow) = (Some(0), Some(0), Some(1));
    flows[1].deadline = Some(SimTime::from_micros(50));
    let mut link_samples = Vec::new();
    let mut group_samples = Vec::new();
    for ms in 1..=4 {
        let at = SimTime::from_millis(ms);
        for (link, bytes) in [(0, 300_000 * ms), (2, 1_200_000)] {
            let (capacity, queue, queue_peak) =
                (if link == 0 { 1_250_000 } else { 5_000_000 }, 10_000 * ms, 20_000 * ms);
            link_samples.push(LinkSample { at, link, bytes, capacity, queue, queue_peak, dropped: ms - 1, marked: 0 });
        }
        group_samples.push(GroupSample {
            at,
            group: 0,
            delivered: 500_000 / ms,
            active: 1,
            flows: 2,
            squares: 1 << 40,
        });
        group_samples.push(GroupSample {
            at,
            group: 1,
            delivered: 900_000,
            active: 2,
            flows: 2,
            squares: 450_000 * 900_000,
        });
    }
    let mut meter_samples = Vec::new();
    for ms in 1..=4 {
        let meter = |host, service, received| MeterSample {
            at: SimTime::from_millis(ms),
            host: MachineId(host),
            service,
            sent: 8_250 * ms,
            limit: (service == 1).then(|| Bandwidth::from_gbps(2)),
            received,
            capacity: Some(Bandwidth::from_gbps(9)),
            rate: (host == 2).then(|| Bandwidth::from_mbps(1_000 * ms)),
        };
        meter_samples.extend([meter(2, 0, 500_000), meter(2, 1, 100_000 * ms)]);
        if ms > 2 {
            meter_samples.push(meter(0, 0, 0));
        }
    }
    let group = |name: &str, transport: &str| Group {
        name: name.to_owned(),
        transport: transport.to_owned(),
        flows_per_coflow: (name == "bulk").then_some(2),
    };
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
        flows,
        links: vec![link("h1->s1", 10, 3_000_000, 6), link("h2->s1", 10, 600_000, 0), link("s1->h3", 10, 4_800_000, 0)],
        sample_interval: Some(SimTime::from_millis(1)),
        link_samples,
        group_samples,
        services: vec!["web".to_owned(), "bulk/copy".to_owned()],
        meter_samples,
    }
}
