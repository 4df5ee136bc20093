//! Results under a policy keep every number in JSON.

use super::*;
use proptest::prelude::*;

fn time() -> impl Strategy<Value = SimTime> {
    any::<u64>().prop_map(SimTime::from_picos)
}

fn rate() -> impl Strategy<Value = Bandwidth> {
    any::<u64>().prop_map(Bandwidth::from_bps)
}

fn phase() -> impl Strategy<Value = Phase> {
    let rates = || prop::collection::btree_map(".*", prop::option::of(rate()), 0..3);
    (time(), time(), prop::collection::vec(".*", 0..3), rates(), rates())
        .prop_map(|(from, to, sending, mean, settled)| Phase { from, to, sending, mean, settled })
}

fn sample() -> impl Strategy<Value = ServiceSample> {
    (time(), prop::collection::btree_map(".*", rate(), 0..3))
        .prop_map(|(at, bandwidth)| ServiceSample { at, bandwidth })
}

fn records() -> impl Strategy<Value = LabRecords> {
    let transfer = (".*", any::<[u64; 3]>(), prop::option::of(any::<u64>())).prop_map(|(service, counts, timeouts)| {
        let [flows, delivered_bytes, retransmissions] = counts;
        TransferRecord { service, flows, delivered_bytes, retransmissions, timeouts }
    });
    let times =
        || (prop::collection::vec(time(), 0..4), 0..3u64).prop_map(|(times, more)| Completion::new(times, more));
    let request = (".*", ".*", any::<u64>(), times()).prop_map(|(name, service, requests, times)| RequestsRecord {
        name,
        service,
        requests,
        times,
    });
    let message = (".*", ".*", any::<u64>(), times()).prop_map(|(name, service, messages, times)| MessagesRecord {
        name,
        service,
        messages,
        times,
    });
    let port = (".*", any::<[u64; 3]>()).prop_map(|(port, [packets, above, marked])| PortRecord {
        port,
        packets,
        above,
        marked,
    });
    let agent = (".*", ".*", any::<[u64; 2]>()).prop_map(|(machine, mode, [packets_marked, feedback_sent])| {
        AgentRecord { machine, mode, packets_marked, feedback_sent, ..AgentRecord::default() }
    });
    let some = 0..3usize;
    (
        prop::collection::vec(transfer, some.clone()),
        prop::collection::vec(request, some.clone()),
        prop::collection::vec(message, some.clone()),
        prop::collection::vec(port, some.clone()),
        prop::collection::vec(agent, some),
    )
        .prop_map(|(transfers, requests, messages, ports, agents)| LabRecords {
            transfers,
            requests,
            messages,
            ports,
            agents,
            counters: BTreeMap::new(),
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn json_reads_back(
        numbers in (time(), time(), rate()),
        names in (".*", ".*", prop::collection::vec(".*", 0..3)),
        phases in prop::collection::vec(phase(), 0..3),
        samples in prop::collection::vec(sample(), 0..3),
        records in records(),
    ) {
        let ((duration, every, capacity), (rack, direction, services)) = (numbers, names);
        let measure = MeasuringPoint { rack, direction, every, capacity };
        let bare = PolicyResults { duration, measure, services, phases, samples, ..PolicyResults::default() };
        let all = bare.with_lab(records);
        let text = serde_json::to_string(&all).unwrap();
        prop_assert_eq!(serde_json::from_str::<PolicyResults>(&text).unwrap(), all);
    }
}

#[test]
fn percentiles_on_unfinished_ones_are_not_known() {
    let times = Completion::new([1, 2, 3].map(SimTime::from_millis).into(), 1);
    // Ranks 2 and 4 of 4, and the longest.
    assert_eq!(times, Completion { unfinished: 1, p50: Some(SimTime::from_millis(2)), p99: None, max: None });
}
