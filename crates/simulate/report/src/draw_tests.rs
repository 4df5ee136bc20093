//! Tests of complete charts.

use super::series::thin;
use super::*;
use crate::chart::{Axis, Marker, Phase, Reference, Series};
use crate::page::tests::assert_balanced;
use crate::scale::Unit;

fn chart() -> Chart {
    let mut chart = Chart::new(Axis::new("time", Unit::Time), Axis::new("bandwidth", Unit::Bandwidth));
    chart.title = "Two <services>".to_owned();
    chart.series.push(Series::new("a & b", (0..60).map(|i| (f64::from(i), 300e6)).collect()));
    chart.series.push(Series::new("c", vec![(0.0, 1e6), (1.0, f64::NAN), (2.0, 2e6)]));
    chart.references.push(Reference::new("300 Mb/s", 300e6).between(0.0, 40.0).of(0));
    chart.phases = vec![Phase::new("first", 0.0, 20.0), Phase::new("second", 20.0, 60.0)];
    chart.markers.push(Marker::new("broker stops", 30.0));
    chart
}

#[test]
fn all_texts_are_drawn_and_escaped() {
    let svg = chart().to_svg();
    assert_balanced(&svg);
    for text in ["Two &lt;services&gt;", "a &amp; b", "300 Mb/s", "first", "broker stops", "bandwidth, Mb/s", "time, s"]
    {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("<services>"));
}

#[test]
fn empty_chart_has_axes() {
    let svg = Chart::new(Axis::new("time", Unit::Time), Axis::new("bandwidth", Unit::Bandwidth)).to_svg();
    assert_balanced(&svg);
    assert!(svg.contains("bandwidth, b/s"));
}

#[test]
fn line_of_a_million_points_has_a_bounded_size() {
    let mut chart = chart();
    chart.series[0].points = (0..1_000_000).map(|i| (f64::from(i) * 6e-5, f64::from(i % 997) * 1e6)).collect();
    let svg = chart.to_svg();
    assert!(svg.len() < 200_000, "{} bytes", svg.len());
}

#[test]
fn thinning_keeps_extremes() {
    let points: Vec<(f64, f64)> =
        (0..10_000).map(|i| (f64::from(i), if i == 5_003 { 99.0 } else { f64::from(i % 7) })).collect();
    let kept = thin(&points, 100, |point| point.0 / 100.0);
    assert!(kept.len() <= 400 && kept.contains(&(5_003.0, 99.0)) && kept.is_sorted_by_key(|point| point.0));
}

#[test]
fn more_series_than_colours_are_distinct() {
    let looks: Vec<_> = (0..12).map(|i| look(&chart(), i)).collect();
    assert!((0..12).all(|i| (0..i).all(|j| looks[i] != looks[j])));
    let mut pair = chart();
    pair.series[1] = pair.series[1].clone().look(0, true);
    assert_eq!(look(&pair, 0).0, look(&pair, 1).0);
    assert_ne!(look(&pair, 0).1, look(&pair, 1).1);
}

fn counted(log: bool) -> Axis {
    let axis = if log { Axis::log } else { Axis::new };
    axis("slowdown", Unit::Plain(String::new()))
}

#[test]
fn distribution_of_100_000_values_has_a_bounded_size() {
    let mut chart = Chart::new(counted(true), Axis::new("share of flows", Unit::Plain(String::new())));
    let value = |i: u32| 1.0 + f64::from(i.wrapping_mul(2_654_435_761) >> 8) / 1e4;
    chart.series.push(Series::cdf("a", (0..100_000).map(value).collect(), 0));
    chart.series.push(Series::cdf("nothing", Vec::new(), 5));
    let svg = chart.to_svg();
    assert_balanced(&svg);
    assert!(svg.len() < 100_000 && !svg.contains("NaN") && !svg.contains("inf"), "{} bytes", svg.len());
}

#[test]
fn bars_are_in_their_categories_and_unknown_values_are_dashes() {
    let mut chart = Chart::new(Axis::new("flow size", Unit::Plain(String::new())), counted(false));
    chart.categories = ["≤ 10 kB", "≤ 10 MB", "larger"].map(str::to_owned).to_vec();
    chart.series.push(Series::bars("p50", [Some(1.5), Some(3.0), None]));
    chart.series.push(Series::bars("p99", [Some(4.0), Some(12.0), None]));
    let svg = chart.to_svg();
    assert_balanced(&svg);
    for text in ["≤ 10 kB", "larger", ">\n1.5\n<", ">\n12\n<", "flow size"] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
    assert_eq!(svg.matches(">\n–\n<").count(), 2);
    // The background, two bars in the legend, four in the plot.
    assert_eq!(svg.matches("<rect").count(), 7);
}

#[test]
fn bars_on_a_logarithmic_axis_have_units_and_long_names_are_wrapped() {
    let mut chart = Chart::new(Axis::new("", Unit::Plain(String::new())), Axis::log("time", Unit::Time));
    chart.categories = ["a at 50 %", "a above 100 % of what the uplink carries, in the run without guarantees"]
        .map(str::to_owned)
        .to_vec();
    chart.series.push(Series::bars("measured", [Some(3.5e-3), Some(0.94)]));
    let svg = chart.to_svg();
    assert_balanced(&svg);
    for text in [">\n3.5 ms\n<", ">\n940 ms\n<", ">\na at 50 %\n<", ">\nwithout guarantees\n<"] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
}

#[test]
fn bars_are_centred_in_their_category_with_missing_values() {
    // Three categories of about 200 px: both series in the first, one in each of the others.
    let mut chart = Chart::new(Axis::new("flow size", Unit::Plain(String::new())), counted(false));
    chart.categories = ["a", "b", "c"].map(str::to_owned).to_vec();
    chart.series.push(Series::bars("p", [Some(1.0), Some(1.0)]));
    chart.series.push(Series::bars("q", [Some(1.0)]));
    chart.series[1].points.push((2.0, 1.0));
    let svg = chart.to_svg();
    let number = |rect: &str, name: &str| -> f64 {
        rect.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once('"')).unwrap().0.parse().unwrap()
    };
    // After the background and two rectangles of the legend: the bars of p and q.
    let bars: Vec<(f64, f64)> =
        svg.split("<rect").skip(4).map(|rect| (number(rect, "x"), number(rect, "width"))).collect();
    let [p0, p1, q0, q2] = bars[..] else { panic!("{bars:?}") };
    assert!(bars.iter().all(|bar| (bar.1 - p0.1).abs() <= 1.0), "equal widths: {bars:?}");
    let middle = |bar: (f64, f64)| bar.0 + bar.1 / 2.0;
    let first = (middle(p0) + middle(q0)) / 2.0;
    let steps = [middle(p1) - first, middle(q2) - middle(p1)];
    assert!((steps[0] - steps[1]).abs() < 12.0, "the distance of the categories: {steps:?}");
}

#[test]
fn clipped_error_bar_has_no_end_stroke() {
    let mut chart = Chart::new(Axis::new("load", Unit::Plain("%".into())), counted(false));
    chart.y.from = Some(0.0);
    let lines = |chart: &Chart| chart.to_svg().matches("<polyline").count();
    chart.series.push(Series::marked("a", vec![(20.0, 3.0)], vec![(20.0, 1.0, 5.0)]));
    let whole = lines(&chart);
    chart.series[0].errors = vec![(20.0, -1.0, 5.0)];
    assert_eq!(chart.y_range(), (0.0, 5.0));
    assert_eq!(lines(&chart), whole - 1);
}

#[test]
fn error_bars_extend_the_range_of_the_axis() {
    let mut chart = Chart::new(Axis::new("load", Unit::Plain("%".into())), Axis::log("time", Unit::Time));
    let points = vec![(20.0, 20e-6), (40.0, 50e-6), (60.0, 2e-3)];
    let errors = points.iter().map(|(x, y)| (*x, y * 0.5, y * 3.0)).collect();
    chart.series.push(Series::marked("dctcp", points, errors));
    assert_eq!(chart.y_range(), (10e-6, 6e-3));
    let svg = chart.to_svg();
    assert_balanced(&svg);
    assert!(svg.contains("100 µs") && svg.contains("1 ms") && svg.contains("load, %"), "{svg}");
    // Three marks in the plot, one in the legend.
    assert_eq!(svg.matches("<circle").count(), 4);
}

#[test]
fn cdf_chart_matches_its_snapshot() {
    let mut cdf = Chart::new(counted(true), Axis::new("share of flows", Unit::Plain(String::new())));
    cdf.series.push(Series::cdf("a", vec![1.0, 1.0, 2.0, 30.0], 1));
    insta::assert_snapshot!("cdf", cdf.to_svg());
}
