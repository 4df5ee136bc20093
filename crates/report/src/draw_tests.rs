//! The drawing of whole charts.

use super::*;
use crate::chart::{Axis, Marker, Phase, Series};
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
fn everything_is_named_and_escaped() {
    let svg = chart().to_svg();
    assert_balanced(&svg);
    for text in ["Two &lt;services&gt;", "a &amp; b", "300 Mb/s", "first", "broker stops", "bandwidth, Mb/s", "time, s"]
    {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("<services>"));
}

#[test]
fn an_empty_chart_has_axes() {
    let svg = Chart::new(Axis::new("time", Unit::Time), Axis::new("bandwidth", Unit::Bandwidth)).to_svg();
    assert_balanced(&svg);
    assert!(svg.contains("bandwidth, b/s"));
}

#[test]
fn a_million_points_become_a_picture_of_bounded_size() {
    let mut chart = chart();
    chart.series[0].points = (0..1_000_000).map(|i| (f64::from(i) * 6e-5, f64::from(i % 997) * 1e6)).collect();
    let svg = chart.to_svg();
    assert!(svg.len() < 200_000, "{} bytes", svg.len());
}

#[test]
fn thinning_keeps_the_extremes() {
    let points: Vec<(f64, f64)> =
        (0..10_000).map(|i| (f64::from(i), if i == 5_003 { 99.0 } else { f64::from(i % 7) })).collect();
    let kept = thin(&points, 100, |point| point.0 / 100.0);
    assert!(kept.len() <= 400 && kept.contains(&(5_003.0, 99.0)) && kept.is_sorted_by_key(|point| point.0));
}

#[test]
fn more_series_than_colours_stay_distinct() {
    let looks: Vec<_> = (0..12).map(|i| (colour(i), dash(i).is_some())).collect();
    assert!((0..12).all(|i| (0..i).all(|j| looks[i] != looks[j])));
}
