//! The page of a sweep: curves of completion times and slowdowns, one pair of charts for each size
//! bin, and the numbers behind them.

use crate::page_charts::PANEL;
use crate::statistics::{BinStatistics, GroupStatistics, Statistics};
use crate::student::Interval;
use crate::sweep::{Curves, Outcome, Place, PointSummary};
use crate::sweep_runs;
use crate::text::{self, UNKNOWN};
use weir_report::{Axis, Chart, Page, Panel, Series, Table, Unit, side_by_side};

/// The most lines of one measure in a chart: as many as there are colours.
const LINES: usize = 6;
/// The most groups that have charts for each size bin; beyond, each has them over all sizes.
const BINNED: usize = 3;
/// From this factor between the largest and the smallest value on, an axis is logarithmic.
const WIDE: f64 = 20.0;

/// Room beside the first and the last position of a line, as a part of the axis, so that marks are
/// not on its ends.
const BESIDE: f64 = 0.04;

/// The page of a sweep. `title` is the scenario's name, `command` reproduces the result.
pub fn sweep_page(title: &str, points: &[PointSummary], command: &str) -> Page {
    let curves = Curves::new(points);
    let failed = points.iter().filter(|point| point.statistics().is_none()).count();
    let mut page = Page::new(title).paragraph(&outline(points, &curves));
    if failed > 0 {
        let all = runs(points.len());
        page = page.notice(&format!("{} of {all} failed; see the list below.", text::whole(failed as u64)));
    }
    if unfinished(points) {
        page = page.notice(
            "Some runs have flows that did not finish. A mean over one of them, and a percentile that falls on one, is \
             not known (–, a gap in a line); points.csv also has the means of the flows that finished.",
        );
    }
    if let Some(first) = points.iter().find_map(PointSummary::statistics) {
        page = page.paragraph(
            "Each value is the mean over seeds; the bars around it contain the true mean with 95 % confidence \
             (Student's t). A value is known only where it is known for every seed.",
        );
        if curves.lines.len() > LINES {
            let left_out = curves.lines.len() - LINES;
            page = page.notice(&format!("The charts show the first {LINES} lines; {left_out} more are in the table."));
        }
        page = charts(page, &curves, first);
        page = page.heading("All flows").table(&table(&curves));
        page = page.heading("Runs").paragraph(&sweep_runs::are(points)).table(&sweep_runs::table(points, &curves));
    }
    if failed > 0 {
        page = page.heading("Failures").table(&failures(points));
    }
    page.heading("Again").code(command)
}

fn runs(count: usize) -> String {
    text::count(count as u64, "run")
}

fn unfinished(points: &[PointSummary]) -> bool {
    points.iter().filter_map(PointSummary::statistics).any(|statistics| statistics.all.all.unfinished > 0)
}

fn outline(points: &[PointSummary], curves: &Curves<'_>) -> String {
    let varied = curves.x.iter().map(|(path, _)| *path).chain(curves.others.iter().copied());
    let varied: Vec<&str> = varied.collect();
    let over = if varied.is_empty() { String::new() } else { format!(" over {} and seeds", varied.join(", ")) };
    let same: Vec<String> = curves.same.iter().map(|(path, value)| format!("{path} = {value}")).collect();
    let same = if same.is_empty() { String::new() } else { format!(" In all of them {}.", same.join(", ")) };
    format!("{}{over}.{same}", runs(points.len()))
}

/// The group, and its bin; `None` for all sizes.
#[derive(Clone, Copy)]
struct Which {
    group: Option<usize>,
    bin: Option<usize>,
}

impl Which {
    fn group<'s>(&self, statistics: &'s Statistics) -> Option<&'s GroupStatistics> {
        self.group.map_or(Some(&statistics.all), |group| statistics.groups.get(group))
    }
    fn of<'s>(&self, statistics: &'s Statistics) -> Option<&'s BinStatistics> {
        let group = self.group(statistics)?;
        self.bin.map_or(Some(&group.all), |bin| group.bins.get(bin))
    }
}

fn charts(mut page: Page, curves: &Curves<'_>, first: &Statistics) -> Page {
    let places = || curves.lines.iter().flat_map(|(_, places)| places);
    let any =
        |which: Which| places().flat_map(|place| &place.runs).any(|run| which.of(run).is_some_and(|of| of.flows > 0));
    let binned = first.groups.len() <= BINNED;
    // With one group, all flows are its flows.
    let groups = std::iter::once(None).chain((0..first.groups.len()).map(Some).filter(|_| first.groups.len() > 1));
    for group in groups {
        let Some(of) = (Which { group, bin: None }).group(first) else { continue };
        // Of one size, all sizes are that size.
        let several = (0..of.bins.len()).filter(|bin| any(Which { group, bin: Some(*bin) })).count() > 1;
        let bins = (0..of.bins.len()).map(Some).filter(|_| several && (group.is_none() || binned));
        let which = std::iter::once(None).chain(bins).map(|bin| Which { group, bin }).filter(|which| any(*which));
        let which: Vec<Which> = which.collect();
        if which.is_empty() {
            continue;
        }
        page = page.heading(&if of.name.is_empty() {
            "Completion times".to_owned()
        } else {
            format!("Group {}", of.name)
        });
        for which in which {
            let Some(bin) = which.of(first) else { continue };
            let size = text::bin(bin.bin);
            let times = chart(
                curves,
                Axis::new("completion time", Unit::Time),
                &[
                    ("mean", &|run| which.of(run)?.fct.mean.map(crate::series::seconds)),
                    ("p99", &|run| which.of(run)?.fct.p99.map(crate::series::seconds)),
                ],
            );
            let slowdowns = chart(
                curves,
                Axis::new("slowdown", Unit::Plain(String::new())),
                &[("mean", &|run| which.of(run)?.slowdown.mean), ("p99", &|run| which.of(run)?.slowdown.p99)],
            );
            let names = [format!("Completion time, {size}"), format!("Slowdown, {size}")];
            let panels = [times, slowdowns];
            let drawn = panels.iter().zip(&names).filter(|(chart, _)| has_values(chart));
            let panels: Vec<Panel<'_>> = drawn.map(|(chart, name)| Panel::new(name, chart)).collect();
            page = page.push(side_by_side(&panels));
        }
    }
    let goodput =
        chart(curves, Axis::new("goodput", Unit::Bandwidth), &[("", &|run| Some(run.all.goodput.bps() as f64))]);
    let panels = [Panel::new("Goodput of all flows", &goodput)];
    page.heading("Goodput").push(side_by_side(&panels))
}

fn has_values(chart: &Chart) -> bool {
    chart.series.iter().flat_map(|series| &series.points).any(|point| point.1.is_finite())
}

/// A measure's name, and its value in a run.
type Measure<'m> = (&'m str, &'m dyn Fn(&Statistics) -> Option<f64>);

/// The measures by the swept parameter; the first solid, the second dashed, in the colour of their
/// line.
fn chart(curves: &Curves<'_>, y: Axis, measures: &[Measure<'_>]) -> Chart {
    // No measured value is below zero; an interval below zero shows only its width.
    let y = Axis { from: Some(0.0), ..y };
    let mut chart = match &curves.x {
        Some((path, unit)) => Chart::new(Axis::new(*path, unit.clone()), y),
        // Without a horizontal axis: bars, a category for each line.
        None => Chart::new(Axis::new(curves.others.join(", "), Unit::Plain(String::new())), y),
    };
    chart.size = PANEL;
    if curves.x.is_none() {
        chart.categories = curves.lines.iter().take(LINES).map(|(name, _)| name.clone()).collect();
        for (place, (measure, value)) in measures.iter().enumerate() {
            let bar = |places: &Vec<Place<'_>>| places.first()?.mean(value).map(|interval| interval.mean);
            let name = if measure.is_empty() { "mean over seeds" } else { measure };
            let bars = curves.lines.iter().take(LINES).map(|(_, places)| bar(places));
            chart.series.push(Series::bars(name, bars).look(0, place == 0 && measures.len() > 1));
        }
        return logarithmic(chart);
    }
    for (colour, (line, places)) in curves.lines.iter().take(LINES).enumerate() {
        for (place, (measure, value)) in measures.iter().enumerate() {
            let intervals: Vec<(f64, Option<Interval>)> =
                places.iter().map(|place| (place.x, place.mean(value))).collect();
            let points = intervals.iter().map(|(x, of)| (*x, of.map_or(f64::NAN, |of| of.mean))).collect();
            let error = |(x, of): &(f64, Option<Interval>)| {
                let (mean, half) = of.and_then(|of| Some((of.mean, of.half?)))?;
                Some((*x, mean - half, mean + half))
            };
            let errors = intervals.iter().filter_map(error).collect();
            let name: Vec<&str> = [line.as_str(), measure].into_iter().filter(|part| !part.is_empty()).collect();
            let name = if name.is_empty() { "all runs".to_owned() } else { name.join(", ") };
            chart.series.push(Series::marked(name, points, errors).look(colour, place == 1));
        }
    }
    logarithmic(chart)
}

/// The same with logarithmic axes where values differ widely.
fn logarithmic(mut chart: Chart) -> Chart {
    let wide = |values: &mut dyn Iterator<Item = f64>| {
        let (least, most) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
        least > 0.0 && most / least > WIDE
    };
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let (x, y) = (wide(&mut points().map(|point| point.0)), wide(&mut points().map(|point| point.1)));
    let least = points().map(|point| point.1).filter(|value| value.is_finite()).fold(f64::INFINITY, f64::min);
    chart.x.log = x && chart.categories.is_empty();
    if !chart.x.log && chart.categories.is_empty() {
        let (from, to) = chart.x_range();
        let beside = (to - from) * BESIDE;
        (chart.x.from, chart.x.to) = (Some(from - beside), Some(to + beside));
    }
    chart.y.log = y;
    if y {
        // From the smallest mean on: an error bar that reaches to zero would take the axis with it.
        // A slowdown is at least 1.
        let floor = if chart.y.unit == Unit::Plain(String::new()) && least >= 1.0 { 1.0 } else { 0.0 };
        chart.y.from = Some((least / 2.0).max(floor));
    }
    chart
}

/// The numbers of all flows, a row for each position of each line.
fn table(curves: &Curves<'_>) -> Table {
    let mut table = Table::new();
    if !curves.others.is_empty() {
        table = table.text(curves.others.join(", "));
    }
    if let Some((path, _)) = curves.x {
        table = table.number(path);
    }
    for column in ["runs", "flows", "unfinished", "time mean", "time p99", "slowdown mean", "slowdown p99", "goodput"] {
        table = table.number(column);
    }
    let slowdown = Unit::Plain(String::new());
    for (name, places) in &curves.lines {
        for place in places {
            let mut row = Vec::from_iter((!curves.others.is_empty()).then(|| name.clone()));
            row.extend(curves.x.as_ref().map(|_| place.written.to_owned()));
            let sum = |of: fn(&BinStatistics) -> u64| place.runs.iter().map(|run| of(&run.all.all)).sum::<u64>();
            row.extend([place.runs.len() as u64, sum(|of| of.flows), sum(|of| of.unfinished)].map(text::whole));
            row.push(interval(place.mean(|run| run.all.all.fct.mean.map(crate::series::seconds)), &Unit::Time));
            row.push(interval(place.mean(|run| run.all.all.fct.p99.map(crate::series::seconds)), &Unit::Time));
            row.push(interval(place.mean(|run| run.all.all.slowdown.mean), &slowdown));
            row.push(interval(place.mean(|run| run.all.all.slowdown.p99), &slowdown));
            row.push(interval(place.mean(|run| Some(run.all.goodput.bps() as f64)), &Unit::Bandwidth));
            table.row(row);
        }
    }
    table
}

/// `144 µs ± 59.6 µs`; without the second for one seed.
fn interval(interval: Option<Interval>, unit: &Unit) -> String {
    match interval {
        None => UNKNOWN.to_owned(),
        Some(Interval { mean, half: None, .. }) => unit.format_short(mean),
        Some(Interval { mean, half: Some(0.0), .. }) => {
            format!("{} ± 0", unit.format_short(mean))
        }
        Some(Interval { mean, half: Some(half), .. }) => {
            format!("{} ± {}", unit.format_short(mean), unit.format_short(half))
        }
    }
}

fn failures(points: &[PointSummary]) -> Table {
    let mut table = Table::new().text("parameters").number("seed").text("why");
    for point in points {
        if let Outcome::Failure(why) = &point.outcome {
            let parameters: Vec<String> =
                point.parameters.iter().map(|(path, value)| format!("{path} = {value}")).collect();
            table.row([parameters.join(", "), point.seed.to_string(), why.clone()]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::words;
    use crate::sweep::tests::{point, sweep};

    #[test]
    fn the_page_of_a_sweep() {
        let html = sweep_page("two-groups", &sweep(), "weir sim two-groups.yaml --sweep sweep.yaml").to_html();
        insta::assert_snapshot!("sweep", words(&html));
        assert!(html.contains("dctcp, p99") && html.contains("traffic.web.load, %"));
    }

    #[test]
    fn without_a_number_there_are_bars() {
        let points: Vec<PointSummary> =
            ["dctcp", "cubic"].iter().map(|name| point(&[("transport", name)], 1, 2, true)).collect();
        let html = sweep_page("two", &points, "weir sim").to_html();
        assert!(html.contains("dctcp") && html.contains("<rect") && !html.contains("±"));
        // One seed gives no interval.
        insta::assert_snapshot!("categories", words(&html));
    }

    #[test]
    fn nothing_but_failures_is_a_page_too() {
        let failed = |seed| PointSummary {
            parameters: Default::default(),
            seed,
            outcome: Outcome::Failure("out of memory".to_owned()),
            page: None,
        };
        insta::assert_snapshot!("failures", words(&sweep_page("x", &[failed(1), failed(2)], "weir sim x").to_html()));
    }
}
