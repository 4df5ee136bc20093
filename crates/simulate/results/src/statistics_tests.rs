//! Statistics of whole runs, by hand and by brute force.

use super::*;
use crate::record::Group;
use proptest::prelude::*;
use weir_units::MachineId;

fn flow(group: u32, bytes: u64, start: u64, finished: Option<u64>, ideal: u64) -> FlowRecord {
    FlowRecord {
        group,
        bytes,
        delivered: if finished.is_some() { bytes } else { bytes / 2 },
        start: SimTime::from_micros(start),
        finished: finished.map(SimTime::from_micros),
        ideal: SimTime::from_micros(ideal),
        ..FlowRecord::new(0, MachineId(0), MachineId(1))
    }
}

fn results(flows: Vec<FlowRecord>) -> Results {
    let group = |name: &str| Group { name: name.to_owned(), transport: "dctcp".to_owned() };
    Results {
        simulated: SimTime::from_millis(1),
        groups: vec![group("small"), group("large")],
        flows,
        ..Results::default()
    }
}

#[test]
fn by_hand() {
    let run = results(vec![
        flow(0, 10_000, 0, Some(30), 10),
        flow(0, 5_000, 100, Some(120), 10),
        flow(0, 5_000_000, 0, None, 4_000),
        flow(1, 125_000, 0, Some(500), 100),
    ]);
    let statistics = Statistics::new(&run, &SizeBins::qjump());
    let small = &statistics.groups[0];
    let [first, second, last] = small.bins.as_slice() else { panic!("three bins") };
    assert_eq!((first.flows, first.unfinished, second.flows, second.unfinished, last.flows), (2, 0, 1, 1, 0));
    assert_eq!((first.fct.mean, first.fct.p50), (Some(SimTime::from_micros(25)), Some(SimTime::from_micros(20))));
    assert_eq!((first.slowdown.mean, first.slowdown.max), (Some(2.5), Some(3.0)));
    assert_eq!((second.fct.p50, second.slowdown.count, second.slowdown.unknown), (None, 1, 1));
    assert_eq!((small.all.fct.p50, small.all.fct.p99), (Some(SimTime::from_micros(30)), None));
    assert_eq!((small.all.fct.mean, small.all.slowdown.mean), (None, None));
    assert_eq!((small.all.fct.finished_mean, small.all.slowdown.finished_mean), (first.fct.mean, Some(2.5)));
    assert_eq!(small.delivered, 2_515_000);
    // 125,000 bytes are 1 Mb, in 1 ms: 1 Gb/s.
    assert_eq!(statistics.groups[1].goodput, Bandwidth::from_gbps(1));
    assert_eq!(statistics.groups[1].jain, Some(1.0));
    // 2.667, 2 and 20 Gb/s.
    let (sum, squares) = (2.666_666_666 + 2.0 + 20.0, 2.666_666_666f64.powi(2) + 4.0 + 400.0);
    assert!((small.jain.unwrap() - sum * sum / (3.0 * squares)).abs() < 1e-9, "{:?}", small.jain);
    assert_eq!((statistics.all.all.flows, statistics.all.all.unfinished), (4, 1));
}

#[test]
fn deadlines_are_counted() {
    let with = |finished, deadline| FlowRecord {
        deadline: Some(SimTime::from_micros(deadline)),
        ..flow(0, 1, 0, finished, 1)
    };
    // In time, late, never and late, never but the run ended before; one without a deadline.
    let run = results(vec![
        with(Some(10), 10),
        with(Some(11), 10),
        with(None, 999),
        with(None, 2_000),
        flow(0, 1, 0, Some(1), 1),
    ]);
    let deadlines = Statistics::new(&run, &SizeBins::default()).all.deadlines;
    assert_eq!(deadlines, Deadlines { count: 4, met: 1, missed: 2 });
    assert_eq!(deadlines.share_met(), Some(1.0 / 3.0));
}

#[test]
fn a_hundred_percent_are_all() {
    let percent = |met, missed| Deadlines { count: 0, met, missed }.percent_met();
    let texts = [(1_999, 1), (2_000, 0), (0, 7), (1, 2), (999, 1)].map(|(met, missed)| percent(met, missed).unwrap());
    assert_eq!(texts, ["99.9 %", "100.0 %", "0.0 %", "33.3 %", "99.9 %"]);
    assert_eq!(percent(u64::MAX, u64::MAX).as_deref(), Some("50.0 %"));
    assert_eq!(percent(0, 0), None);
}

proptest! {
    #[test]
    fn every_flow_is_counted_once(
        flows in prop::collection::vec(
            (0u32..2, 0u64..20_000_000, 0u64..1_000, prop::option::of(0u64..1_000), 0u64..3),
            0..80,
        )
    ) {
        let run = results(flows.iter().map(|(group, bytes, start, took, ideal)| {
            flow(*group, *bytes, *start, took.map(|took| start + took), *ideal)
        }).collect());
        let statistics = Statistics::new(&run, &SizeBins::default());
        for (index, of) in statistics.groups.iter().enumerate() {
            for bin in &of.bins {
                let inside = |flow: &&FlowRecord| {
                    flow.group as usize == index
                        && (flow.bytes > bin.bin.over || bin.bin.over == 0)
                        && bin.bin.up_to.is_none_or(|up_to| flow.bytes <= up_to)
                };
                let flows: Vec<&FlowRecord> = run.flows.iter().filter(inside).collect();
                prop_assert_eq!(bin.flows, flows.len() as u64);
                prop_assert_eq!(bin.unfinished, flows.iter().filter(|flow| flow.finished.is_none()).count() as u64);
                let longest = flows.iter().map(|flow| flow.completion_time()).max().flatten();
                let all_finished = flows.iter().all(|flow| flow.finished.is_some());
                prop_assert_eq!(bin.fct.max, longest.filter(|_| all_finished));
                let known = flows.iter().filter(|flow| flow.ideal > SimTime::ZERO).count() as u64;
                prop_assert_eq!(bin.slowdown.count, known);
            }
            prop_assert_eq!(of.all.flows, of.bins.iter().map(|bin| bin.flows).sum::<u64>());
        }
        prop_assert_eq!(statistics.all.all.flows, run.flows.len() as u64);
    }
}
