//! Measured values of a run and their verdicts, computed by hand.

use std::path::Path;
use weir_experiment::{Experiment, Outcome, Reading, RunData, Setting, Verdict, outcomes};
use weir_results::{FlowRecord, Group, GroupSample, LinkRecord, LinkSample, Results};
use weir_scenario::{RunResult, Sample};
use weir_units::{Bandwidth, Duration, MachineId, SimTime};

const SCENARIO: &str = "scenario: 1
name: star
duration: 10s
network: { topology: star, hosts: 3, host-link: { rate: 1Gb/s } }
traffic:
  - { kind: random, name: many, from: [h1, h2], to: h0, sizes: 10kB, load: 10% }
  - { name: one, from: h1, to: h0 }
measure: { every: 1s, links: [\"switch->h0\"] }
";

fn paper(values: &str) -> Experiment {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("s.yaml"), SCENARIO).expect("written");
    let text = format!(
        "paper: 2\nid: test\ntitle: A test\nsource: a paper\ntakes: {{ quick: 1s, full: 1s }}\nscenario: s.yaml\n\
         runs: {{ r: {{ scale: 10 }} }}\nvalues:\n{values}"
    );
    let path = directory.path().join("p.yaml");
    std::fs::write(&path, text).expect("written");
    Experiment::read(&path).unwrap_or_else(|refused| panic!("{}", refused.render(false))).0
}

/// Two samples each second of two flow groups and a link; four flows of `many` that start at 1, 2,
/// 3 and 4 s.
fn results() -> Results {
    let second = SimTime::from_secs;
    let group = |name: &str| Group { name: name.into(), transport: "newreno".into() };
    let flow = |id: u64, start: u64, took: Option<u64>| FlowRecord {
        bytes: 10_000 + id,
        ideal: SimTime::from_millis(10),
        start: second(start),
        finished: took.map(|millis| second(start) + SimTime::from_millis(millis)),
        ..FlowRecord::new(id, MachineId(1), MachineId(0))
    };
    let sample = |at: u64, group: u32, delivered: u64| GroupSample {
        at: second(at),
        group,
        delivered,
        ..GroupSample::default()
    };
    let link =
        |at: u64, bytes: u64, queue: u64| LinkSample { at: second(at), link: 0, bytes, queue, ..LinkSample::default() };
    Results {
        simulated: second(10),
        groups: vec![group("many"), group("one")],
        flows: vec![flow(0, 1, Some(30)), flow(1, 2, Some(10)), flow(2, 3, Some(20)), flow(3, 4, None)],
        links: vec![LinkRecord {
            name: "switch->h0".into(),
            rate: Bandwidth::from_gbps(1),
            bytes: 0,
            packets: 0,
            dropped: 0,
            marked: 0,
            classes: Default::default(),
            queue_peak: 0,
        }],
        link_samples: vec![link(1, 1_000_000, 15_000), link(2, 2_000_000, 3_000), link(3, 500_000, 0)],
        counters: [("overtaken", 6), ("moves", 4), ("rounds", 0)].map(|(name, count)| (name.into(), count)).into(),
        group_samples: vec![sample(1, 0, 300), sample(1, 1, 100), sample(2, 0, 100), sample(2, 1, 300)],
        ..Results::default()
    }
}

fn readings(experiment: &Experiment, until: Duration) -> Vec<Option<Reading>> {
    let run = &experiment.runs[0];
    let results = results();
    let services = RunResult::default();
    let data = RunData { scenario: &run.scenario.quick, services: &services, results: Some(&results), until };
    experiment.values.iter().map(|value| data.reading(run, &value.measure, Setting::Quick)).collect()
}

const END: Duration = Duration::from_secs(10);

#[test]
fn bandwidths_are_means_of_the_samples_inside_at_the_published_scale() {
    let experiment = paper(
        "  - { metric: e, unit: kb/s, where: x, measure: { kind: bandwidth, run: r, group: many, window: 0s-2s } }\n  \
         - { metric: l, unit: Mb/s, where: x, measure: { kind: bandwidth, run: r, link: \"switch->h0\", window: \
         1s-3s } }\n  \
         - { metric: late, unit: Mb/s, where: x, measure: { kind: bandwidth, run: r, group: one, window: 5s-6s } }\n",
    );
    // (300 + 100) B in 2 s are 1.6 kb/s, times 10, in frames of which 1448 of 1514 B are data; (2 +
    // 0.5) MB in 2 s are 10 Mb/s, times 10.
    let packets = experiment.runs[0].scenario.quick.graph().packets;
    assert_eq!((packets.payload, packets.headers), (1448, 66));
    let group = 1_600.0 * 10.0 * 1514.0 / 1448.0;
    close(&readings(&experiment, END), &[Some(group), Some(100e6), None]);
    // A run that was interrupted at 2.5 s has the first alone.
    close(&readings(&experiment, Duration::from_millis(2_500)), &[Some(group), None, None]);
}

/// The same values within the error of floats.
fn close(measured: &[Option<Reading>], expected: &[Option<f64>]) {
    let near = |(reading, value): (&Option<Reading>, &Option<f64>)| match (reading, value) {
        (Some(reading), Some(value)) => !reading.is_lower_bound && (reading.value - value).abs() <= 1e-9 * value.abs(),
        (reading, value) => reading.is_none() && value.is_none(),
    };
    assert!(
        measured.len() == expected.len() && measured.iter().zip(expected).all(near),
        "{measured:?} is not {expected:?}"
    );
}

#[test]
fn counters_may_be_divided_by_others() {
    let counter = |metric: &str, keys: &str| {
        format!("  - {{ metric: {metric}, unit: \"1\", where: x, measure: {{ kind: counter, run: r, {keys} }} }}\n")
    };
    let experiment = paper(
        &[
            counter("a", "name: overtaken"),
            counter("b", "name: overtaken, per: moves"),
            counter("c", "name: overtaken, per: rounds"),
            counter("d", "name: rounds, per: moves"),
            counter("e", "name: overtaken, per: unknown"),
        ]
        .concat(),
    );
    close(&readings(&experiment, END), &[Some(6.0), Some(1.5), None, Some(0.0), None]);
}

/// Of four flows with 10,000 to 10,003 B, which take 30, 10 and 20 ms; the last one does not end.
#[test]
fn figures_of_completion_times_have_the_flows_above_a_size() {
    let lines = |above: &str| {
        let experiment = paper(&format!(
            "  - {{ metric: a, unit: ms, where: x, measure: {{ kind: completion-time, run: r, group: many, window: \
             0s-9s }} }}\nfigures:\n  - {{ kind: completion-times, id: f, title: F, runs: [r], group: many, \
             window: 0s-9s{above} }}\n"
        ));
        let (results, services) = (results(), RunResult::default());
        let scenario = &experiment.runs[0].scenario.quick;
        let data = RunData { scenario, services: &services, results: Some(&results), until: END };
        experiment.figures[0].kind.lines(0, &data, Setting::Quick).remove(0).points
    };
    assert_eq!(lines(""), [(0.01, 0.0), (0.01, 0.25), (0.02, 0.5), (0.03, 0.75)]);
    assert_eq!(lines(", above: 10001B"), [(0.02, 0.0), (0.02, 0.5)]);
}

#[test]
fn a_flow_that_does_not_finish_is_slower_than_all_others() {
    let time = |name: &str, percentile: &str, window: &str| {
        format!(
            "  - {{ metric: {name}, unit: ms, where: x, measure: {{ kind: completion-time, run: r, group: many, \
             percentile: {percentile}, window: {window} }} }}\n"
        )
    };
    let experiment = paper(&[time("a", "50%", "0s-9s"), time("b", "99%", "0s-9s"), time("c", "99%", "1s-4s")].concat());
    let measured = readings(&experiment, END);
    // 10, 20, 30 ms and one of age 6 s: the second of four; the fourth; the third of three that
    // start before 4 s.
    assert_eq!(measured[0], Some(Reading::exact(0.02)));
    assert_eq!(measured[1], Some(Reading { value: 6.0, is_lower_bound: true }));
    assert_eq!(measured[2], Some(Reading::exact(0.03)));
}

#[test]
fn slowdowns_of_a_range_of_sizes() {
    let slowdown = |name: &str, keys: &str| {
        format!(
            "  - {{ metric: {name}, unit: 1, where: x, measure: {{ kind: slowdown, run: r, group: many{keys} }} }}\n"
        )
    };
    let experiment = paper(
        &[
            slowdown("mean", ", up-to: 10002B"),
            slowdown("half", ", percentile: 50%"),
            slowdown("end", ", percentile: 99%, above: 10000B"),
            slowdown("all", ", above: 10001B"),
            slowdown("sent", ", up-to: 10000B, acknowledgement: 10ms"),
            slowdown("none", ", above: 20kB"),
        ]
        .concat(),
    );
    let measured = readings(&experiment, END);
    // 30, 10 and 20 ms over 10 ms; a flow of age 6 s is the slowest of all.
    assert_eq!(measured[0], Some(Reading::exact(2.0)));
    assert_eq!(measured[1], Some(Reading::exact(2.0)));
    assert_eq!(measured[2], Some(Reading { value: 600.0, is_lower_bound: true }));
    assert_eq!(measured[3], Some(Reading { value: 301.0, is_lower_bound: true }));
    // 30 + 10 over 10 + 10 ms.
    assert_eq!(measured[4], Some(Reading::exact(2.0)));
    assert_eq!(measured[5], None);
}

#[test]
fn fairness_queues_and_settling() {
    let experiment = paper(
        "  - { metric: j, unit: 1, where: x, measure: { kind: fairness, run: r, groups: [many, one], window: 0s-1s \
         } }\n  \
         - { metric: k, unit: 1, where: x, measure: { kind: fairness, run: r, groups: [many, one], window: 0s-2s } \
         }\n  \
         - { metric: q, unit: packets, where: x, measure: { kind: queue, run: r, link: \"switch->h0\", percentile: \
         50%, packet: 1500B, window: 0s-3s } }\n  \
         - { metric: s, unit: s, where: x, measure: { kind: settling, run: r, link: \"switch->h0\", at-most: \
         50Mb/s, window: 1s-3s } }\n  \
         - { metric: t, unit: s, where: x, measure: { kind: settling, run: r, link: \"switch->h0\", at-most: \
         50Mb/s, window: 0s-2s } }\n",
    );
    // 300 and 100: 400² / (2 · 100000); both 400 over two seconds; queues 0, 2, 10 packets. At 1/10
    // of the scale the limit is 5 Mb/s: 16 until 2 s, 4 until 3 s. Over the first two seconds it is
    // never kept.
    close(&readings(&experiment, END), &[Some(0.8), Some(1.0), Some(2.0), Some(1.0), None]);
}

fn verdicts(values: &str, measured: &[Option<Reading>]) -> Vec<(Verdict, String)> {
    let experiment = paper(values);
    outcomes(&experiment, measured).into_iter().map(|Outcome { verdict, expected, .. }| (verdict, expected)).collect()
}

fn value(name: &str, published: &str, expect: &str) -> String {
    format!(
        "  - {{ metric: {name}, unit: ms, {published}where: x, measure: {{ kind: mm1, capacity: 1Gb/s, load: 50%, \
         message: 1kB, percentile: 99% }}{expect} }}\n"
    )
}

/// At most a multiple of another value and a fixed time more: 1.2 × 10 ms + 3 ms = 15 ms.
#[test]
fn multiples_with_an_addition_have_verdicts() {
    let values = [value("a", "", ""), value("b", "", ", expect: { at-most: 1.2, times: a, plus: 3 }")].concat();
    let all = |b: f64| verdicts(&values, &[10.0, b].map(|ms| Some(Reading::exact(ms * 1e-3)))).remove(1);
    assert_eq!(all(15.0), (Verdict::Agrees, "at most 1.2 × “a” + 3 ms".to_owned()));
    assert_eq!(all(15.1).0, Verdict::Differs);
}

/// Near a number that the source does not print: 5 % of 10 ms is 0.5 ms.
#[test]
fn numbers_that_are_not_printed_have_verdicts() {
    let values = value("a", "", ", expect: { within: 5%, of: 10 }");
    let all = |ms: f64| verdicts(&values, &[Some(Reading::exact(ms * 1e-3))]).remove(0);
    assert_eq!(all(10.5), (Verdict::Agrees, "within 5 % of 10 ms".to_owned()));
    assert_eq!([9.5, 9.49, 10.51].map(|ms| all(ms).0), [Verdict::Agrees, Verdict::Differs, Verdict::Differs]);
}

#[test]
fn expectations_have_verdicts() {
    let values = [
        value("a", "published: 9.01, ", ", expect: as-printed"),
        value("b", "published: 10, ", ", expect: { within: 3% }"),
        value("c", "published: 10, ", ", expect: at-most"),
        value("d", "", ", expect: { at-least: 2, times: c }"),
        value("e", "", ""),
    ]
    .concat();
    let exact = |ms: f64| Some(Reading::exact(ms * 1e-3));
    let more = |ms: f64| Some(Reading { value: ms * 1e-3, is_lower_bound: true });
    let all =
        |measured: &[Option<Reading>]| verdicts(&values, measured).into_iter().map(|(v, _)| v).collect::<Vec<_>>();
    use Verdict::{Agrees, Differs, Shown, Unknown};
    // 9.0149 prints as 9.01; 10.3 is within 3 % of 10; 20 is twice 10.
    assert_eq!(
        all(&[exact(9.0149), exact(10.3), exact(10.0), exact(20.0), None]),
        [Agrees, Agrees, Agrees, Agrees, Shown]
    );
    assert_eq!(
        all(&[exact(9.016), exact(10.31), exact(10.1), exact(20.0), None]),
        [Differs, Differs, Differs, Differs, Shown]
    );
    // 9.0045 is 9.01 by way of 9.005.
    assert_eq!(all(&[exact(9.0045), None, None, None, None])[0], Agrees);
    assert_eq!(all(&[exact(9.0044), None, None, None, None])[0], Differs);
    // At least 21 is at least 20; at least 9 does not decide about at most 10 or about 10, but at
    // least 11 decides about the first.
    assert_eq!(
        all(&[more(9.01), more(10.0), exact(10.0), more(21.0), None]),
        [Unknown, Unknown, Agrees, Agrees, Shown]
    );
    assert_eq!(all(&[None, None, more(9.0), more(30.0), None])[2..4], [Unknown, Unknown]);
    assert_eq!(all(&[None, None, more(11.0), exact(30.0), None])[2..4], [Differs, Unknown]);
    let words = verdicts(&values, &[None; 5]).into_iter().map(|(_, words)| words);
    assert_eq!(words.collect::<Vec<_>>(), ["as printed", "within 3 %", "at most 10 ms", "at least 2 × “c”", ""]);
}

/// Parley figure 14 in the tree: at 1/100 of the speeds, service A's mean of 295 Mb/s counts as
/// 29.5 Gb/s.
#[test]
fn services_of_a_policy() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../papers/parley-fig14.yaml");
    let (experiment, _) = Experiment::read(path).expect("reads");
    let place = experiment.run_named("small").expect("a run");
    let run = &experiment.runs[place];
    let scenario = &run.scenario.quick;
    let governed = scenario.governed().expect("a policy");
    let service = governed.policy.services().named("a").expect("a service");
    let sample = |at: u64, mbps: u64| Sample {
        at: Duration::from_secs(at),
        bandwidth: vec![(service, Bandwidth::from_mbps(mbps))],
    };
    // Only what ends within (10 s, 20 s] counts.
    let services = RunResult { samples: vec![sample(10, 900), sample(11, 290), sample(20, 300), sample(21, 900)] };
    let data = RunData { scenario, services: &services, results: None, until: Duration::from_secs(60) };
    let value = experiment.values.iter().find(|value| value.measure.run() == Some(place)).expect("a value");
    assert_eq!(data.reading(run, &value.measure, Setting::Quick), Some(Reading::exact(29.5e9)));
}
