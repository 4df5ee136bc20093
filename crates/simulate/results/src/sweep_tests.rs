//! Points become curves, and JSON.

use super::*;
use crate::sample::sample;
use crate::{FlowRecord, Results, SizeBins};
use proptest::prelude::*;
use weir_units::SimTime;

/// The sample with every flow's time and ideal made longer or shorter, all finished unless stated
/// otherwise.
pub(crate) fn point(parameters: &[(&str, &str)], seed: u64, times: u64, finished: bool) -> PointSummary {
    let mut results = sample();
    for flow in &mut results.flows {
        let took = flow.completion_time().unwrap_or(SimTime::from_millis(10)).picos() * times;
        let end = (finished || flow.bytes < 10_000_000).then(|| flow.start + SimTime::from_picos(took));
        *flow = FlowRecord { finished: end, ..*flow };
    }
    let statistics = crate::Statistics::new(&Results { seed, ..results }, &SizeBins::qjump());
    let parameters = parameters.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    PointSummary { parameters, seed, outcome: Outcome::Statistics(Box::new(statistics)), page: None }
}

/// Two transports, three loads and three seeds; one run failed, one did not finish all flows.
pub(crate) fn sweep() -> Vec<PointSummary> {
    let mut points = Vec::new();
    for (i, transport) in ["dctcp", "cubic"].into_iter().enumerate() {
        for (j, load) in ["80 %", "20 %", "50 %"].into_iter().enumerate() {
            for seed in 1..=3 {
                let times = (i as u64 + 1) * [9, 2, 4][j] + seed;
                let parameters =
                    [("traffic.web.load", load), ("traffic.web.transport", transport), ("network.hosts", "16")];
                points.push(point(&parameters, seed, times, !(i == 1 && j == 0 && seed == 2)));
            }
        }
    }
    points[4].outcome = Outcome::Failure("a checker stopped the run: port s1->h3 was idle with work".to_owned());
    points
}

#[test]
fn points_become_curves() {
    let points = sweep();
    let curves = Curves::new(&points);
    assert_eq!(curves.same, [("network.hosts", "16")]);
    assert_eq!(curves.x, Some(("traffic.web.load", Unit::Plain("%".to_owned()))));
    assert_eq!(curves.others, ["traffic.web.transport"]);
    let shape: Vec<_> = curves
        .lines
        .iter()
        .map(|(name, places)| {
            (name.as_str(), places.iter().map(|place| (place.x, place.runs.len(), place.failed)).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(
        shape,
        [
            ("dctcp", vec![(20.0, 2, 1), (50.0, 3, 0), (80.0, 3, 0)]),
            ("cubic", vec![(20.0, 3, 0), (50.0, 3, 0), (80.0, 3, 0)]),
        ]
    );
    // 14 µs and 34 µs, five, six and seven times: 24 µs · 6 on average.
    let mean = |statistics: &Statistics| Some(statistics.all.bins[0].fct.mean?.picos() as f64 / 1e6);
    let interval = curves.lines[0].1[1].mean(mean).unwrap();
    assert!((interval.mean - 144.0).abs() < 1e-3 && interval.count == 3, "{interval:?}");
    // s = 24 µs, so ± 4.303 · 24 / √3.
    assert!((interval.half.unwrap() - 59.62).abs() < 0.01, "{interval:?}");
    // One seed of the last position did not finish its largest flow: its maximum is not known.
    let most = |statistics: &Statistics| Some(statistics.all.all.fct.max?.picos() as f64);
    assert_eq!(curves.lines[1].1[2].mean(most), None);
    assert!(curves.lines[1].1[1].mean(most).is_some());
    // Nor is the mean over all flows, of which that flow is one.
    let all = |statistics: &Statistics| Some(statistics.all.all.fct.mean?.picos() as f64);
    assert_eq!(curves.lines[1].1[2].mean(all), None);
    assert!(curves.lines[1].1[1].mean(all).is_some());
}

#[test]
fn the_axis_is_the_parameter_with_the_most_numbers() {
    let of = |parameters: &[&[(&str, &str)]]| {
        let points: Vec<_> = parameters.iter().map(|parameters| point(parameters, 1, 1, true)).collect();
        Curves::new(&points).x.map(|(path, unit)| (path.to_owned(), unit))
    };
    let rate = |rate| [("rate", rate), ("k", "1")];
    assert_eq!(of(&[&rate("1 Gb/s"), &rate("400 Mb/s")]), Some(("rate".to_owned(), Unit::Bandwidth)));
    assert_eq!(of(&[&[("a", "200us")], &[("a", "1 ms")]]), Some(("a".to_owned(), Unit::Time)));
    assert_eq!(of(&[&[("a", "1 ms")], &[("a", "2")]]), None);
    assert_eq!(of(&[&[("a", "1")], &[]]), None);
    assert_eq!(of(&[&[("b", "1"), ("a", "1")], &[("b", "2"), ("a", "2")]]).unwrap().0, "a");
    assert_eq!(of(&[]), None);
}

#[test]
fn a_number_that_goes_with_the_axis_names_no_line() {
    let points: Vec<PointSummary> = [("20 %", "1ms", "a"), ("40 %", "2ms", "b")]
        .iter()
        .map(|(load, every, queue)| point(&[("load", load), ("measure.every", every), ("queue", queue)], 1, 2, true))
        .collect();
    let curves = Curves::new(&points[..]);
    assert_eq!((curves.x.map(|(path, _)| path), curves.others), (Some("load"), vec!["queue"]));
    // Once the two are apart, both count.
    let apart =
        [&points[..], &[point(&[("load", "20 %"), ("measure.every", "2ms"), ("queue", "a")], 1, 2, true)]].concat();
    assert_eq!(Curves::new(&apart).others, ["measure.every", "queue"]);
}

#[test]
fn values_with_units_are_numbers() {
    let plain = |unit: &str| Unit::Plain(unit.to_owned());
    assert_eq!(number("0.6"), Some((0.6, plain(""))));
    assert_eq!(number(" 60 %"), Some((60.0, plain("%"))));
    assert_eq!(number("10 Gb/s"), Some((10e9, Unit::Bandwidth)));
    assert_eq!(number("80 kB"), Some((80_000.0, Unit::Size)));
    assert_eq!(number("200us"), Some((200e-6, Unit::Time)));
    assert_eq!((number("dctcp"), number("inf"), number("%")), (None, None, None));
}

#[test]
fn an_interrupted_run_is_not_a_point_of_a_curve() {
    let point = PointSummary::new(&sample(), &SizeBins::default());
    assert!(point.seed == 7 && point.parameters.len() == 1 && point.statistics().is_some());
    let broken = PointSummary::new(&Results { complete: false, ..sample() }, &SizeBins::default());
    assert_eq!(broken.outcome, Outcome::Failure("interrupted after 4 ms".to_owned()));
}

#[test]
fn points_as_json() {
    for point in sweep() {
        let text = point.to_json();
        assert!(!text.contains('\n'));
        assert_eq!(PointSummary::from_json(&text).unwrap(), point);
    }
    let failed = concat!(
        r#"{"parameters":{"network.hosts":"16","traffic.web.load":"20 %","traffic.web.transport":"dctcp"},"#,
        r#""seed":2,"failure":"a checker stopped the run: port s1->h3 was idle with work"}"#
    );
    assert_eq!(sweep()[4].to_json(), failed);
}

proptest! {
    /// Slowdowns have many digits; none is lost.
    #[test]
    fn statistics_survive_json(times in prop::collection::vec((1u64..1 << 50, 1u64..1 << 50), 1..20)) {
        let mut results = sample();
        let flow = results.flows[0];
        results.flows = times.iter().map(|(took, ideal)| FlowRecord {
            finished: Some(flow.start + SimTime::from_picos(*took)),
            ideal: SimTime::from_picos(*ideal),
            ..flow
        }).collect();
        let statistics = Box::new(crate::Statistics::new(&results, &SizeBins::default()));
        let outcome = Outcome::Statistics(statistics);
        let point = PointSummary { parameters: BTreeMap::new(), seed: 0, outcome, page: None };
        prop_assert_eq!(PointSummary::from_json(&point.to_json()).unwrap(), point);
    }
}
