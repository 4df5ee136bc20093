//! An experiment's figures as charts.
//!
//! Problem: a measured figure is compared with a published one by eye. Approach: the kind of a figure decides its axes:
//! bandwidths over time with the published values as references, cumulative distributions, or bars of published beside
//! measured values. An axis becomes logarithmic where a value would be too small to be read beside the largest.
//!
//! Worked example: a figure of values 1 ms and 50 ms has a logarithmic axis, since their ratio is above 30.

use weir_experiment::datacenter::DIVISIONS;
use weir_experiment::figure::Line;
use weir_experiment::unit::Dimension;
use weir_experiment::{Counted, Experiment, FigureKind, Measure, Outcome, Setting, measure};
use weir_report::{Axis, Chart, Reference, Series, Style, Unit};
use weir_scenario::Scenario;

/// A figure, drawn.
#[derive(Debug)]
pub struct Drawing {
    /// The name of its file.
    pub id: String,
    /// `None` if there is nothing to show.
    pub chart: Option<Chart>,
}

impl Drawing {
    /// Draws a figure of an experiment. `lines` are those of its runs, by run.
    pub fn new(
        experiment: &Experiment,
        figure: usize,
        lines: &[(usize, Vec<Line>)],
        outcomes: &[Outcome],
        setting: Setting,
    ) -> Self {
        let figure = &experiment.figures[figure];
        let chart = match &figure.kind {
            FigureKind::OverTime { run, of } => over_time(experiment, *run, of, lines, setting),
            FigureKind::CompletionTimes { runs, .. } => {
                distributions(experiment, runs, lines, Axis::log("completion time", Unit::Time))
            }
            FigureKind::Queues { runs, .. } => {
                distributions(experiment, runs, lines, Axis::new("queue", Unit::Plain("packets".to_owned())))
            }
            FigureKind::Groups { axis, categories, series } => groups(experiment, (axis, categories), series, outcomes),
            FigureKind::UseOfLinks { .. } => use_of_links(lines),
            FigureKind::Values { values } => bars(experiment, values, outcomes),
        };
        let is_empty = chart.series.iter().all(|series| series.points.iter().all(|(_, y)| !y.is_finite()));
        Self { id: figure.id.clone(), chart: (!is_empty).then_some(chart) }
    }
}

fn over_time(
    experiment: &Experiment,
    run: usize,
    of: &[Counted],
    lines: &[(usize, Vec<Line>)],
    setting: Setting,
) -> Chart {
    let mut chart = Chart::new(Axis::new("time", Unit::Time), Axis::new("bandwidth", Unit::Bandwidth));
    let own = &experiment.runs[run];
    let scenario = own.scenario.get(setting);
    (chart.x.from, chart.x.to) = (Some(0.0), Some(scenario.duration().as_secs_f64()));
    // A sample is the mean of its interval, so its point is the middle.
    let half = scenario.measurement().every.as_secs_f64() / 2.0;
    for (_, lines) in lines.iter().filter(|(of, _)| *of == run) {
        for (of, line) in of.iter().zip(lines) {
            let points = line.points.iter().map(|(at, bps)| (at - half, *bps)).collect();
            chart.series.push(Series::new(name(of, scenario), points));
        }
    }
    for value in &experiment.values {
        let Measure::Bandwidth { run: of_run, of: counted, window } = &value.measure else { continue };
        let (Some(published), true) = (value.published, *of_run == run) else { continue };
        let window = window.get(setting);
        let reference = Reference::new(value.unit.text(published.value), measure::at_scale(published.value, own))
            .between(window.from.as_secs_f64(), window.to.as_secs_f64());
        chart.references.push(match of.iter().position(|of| of == counted) {
            Some(series) => reference.of(series),
            None => reference,
        });
    }
    // The first values may be so far above the later ones that only a logarithmic axis shows both.
    let highest =
        chart.series.iter().flat_map(|series| &series.points).fold(0.0, |highest: f64, point| highest.max(point.1));
    chart.y.log = chart.references.iter().any(|reference| reference.value > 0.0 && reference.value < highest / SPREAD);
    chart
}

/// The name of a line over time.
fn name(of: &Counted, scenario: &Scenario) -> String {
    match of {
        Counted::Service(None) => "all".to_owned(),
        Counted::Service(Some(service)) | Counted::Sent(service, _) | Counted::Received(service, _) => {
            scenario.governed().map_or_else(String::new, |of| of.policy.services().get(*service).path().to_owned())
        }
        Counted::FlowGroup(name) | Counted::Link(name) => name.clone(),
    }
}

fn distributions(experiment: &Experiment, runs: &[usize], lines: &[(usize, Vec<Line>)], x: Axis) -> Chart {
    let mut chart = Chart::new(x, Axis::new("share not above", Unit::Plain(String::new())));
    (chart.y.from, chart.y.to) = (Some(0.0), Some(1.0));
    for run in runs {
        for line in lines.iter().filter(|(of, _)| of == run).flat_map(|(_, lines)| lines) {
            let series = Series::new(experiment.runs[*run].name.clone(), line.points.clone());
            chart.series.push(Series { style: Style::Steps, ..series });
        }
    }
    chart
}

/// The use of links by each division.
fn use_of_links(lines: &[(usize, Vec<Line>)]) -> Chart {
    let unit = || Unit::Plain(String::new());
    let mut chart = Chart::new(Axis::new("used part", unit()), Axis::new("share of links not above", unit()));
    (chart.x.from, chart.x.to) = (Some(0.0), Some(1.0));
    (chart.y.from, chart.y.to) = (Some(0.0), Some(1.0));
    for ((name, _), line) in lines.iter().flat_map(|(_, lines)| DIVISIONS.iter().zip(lines)) {
        chart.series.push(Series { style: Style::Steps, ..Series::new(*name, line.points.clone()) });
    }
    chart
}

/// Measured values: a group of bars for each category, a colour for each series.
fn groups(
    experiment: &Experiment,
    (axis, categories): (&str, &[String]),
    series: &[(String, Vec<usize>)],
    outcomes: &[Outcome],
) -> Chart {
    let measured = |value: &usize| outcomes[*value].measured.map(|reading| reading.value);
    let values = series.iter().flat_map(|(_, values)| values);
    let all: Vec<f64> = values.clone().filter_map(measured).collect();
    let y = value_axis(experiment, values.copied().next(), &all);
    let mut chart = Chart::new(Axis::new(axis, Unit::Plain(String::new())), y);
    chart.categories = categories.to_vec();
    let bars = series.iter().map(|(name, values)| Series::bars(name, values.iter().map(measured)));
    chart.series.extend(bars);
    chart
}

/// The axis of values in the unit of `first`; logarithmic if `all` have several magnitudes, which only such an axis
/// distinguishes.
fn value_axis(experiment: &Experiment, first: Option<usize>, all: &[f64]) -> Axis {
    let dimension = first.map_or(Dimension::Number, |value| experiment.values[value].unit.dimension);
    let unit = match dimension {
        Dimension::Rate => Unit::Bandwidth,
        Dimension::Time => Unit::Time,
        Dimension::Size => Unit::Size,
        Dimension::Packets => Unit::Plain("packets".to_owned()),
        Dimension::Number => Unit::Plain(String::new()),
    };
    let largest = all.iter().copied().fold(0.0, f64::max);
    let wide = all.iter().any(|value| *value > 0.0 && *value < largest / SPREAD);
    if wide { Axis::log("value", unit) } else { Axis::new("value", unit) }
}

fn bars(experiment: &Experiment, values: &[usize], outcomes: &[Outcome]) -> Chart {
    let all: Vec<f64> = values
        .iter()
        .flat_map(|value| {
            let published = experiment.values[*value].published.map(|published| published.value);
            published.into_iter().chain(outcomes[*value].measured.map(|reading| reading.value))
        })
        .collect();
    let y = value_axis(experiment, values.first().copied(), &all);
    let mut chart = Chart::new(Axis::new("", Unit::Plain(String::new())), y);
    chart.categories = values.iter().map(|value| experiment.values[*value].metric.clone()).collect();
    let published = values.iter().map(|value| experiment.values[*value].published.map(|published| published.value));
    let measured = values.iter().map(|value| outcomes[*value].measured.map(|reading| reading.value));
    chart.series.push(Series::bars("published", published));
    chart.series.push(Series::bars("measured", measured));
    chart
}

/// From this factor on a value is too small to be read beside the largest.
const SPREAD: f64 = 30.0;
