//! The output of a sweep: a row for each combination of values, the mean over seeds.

use super::print::{UNKNOWN, factor};
use crate::error::CommandError;
use crate::output::{Style, Table, Ui};
use crate::text;
use serde_json::{Value, json};
use weir_report::Unit;
use weir_report::json;
use weir_results::statistics::{GroupStatistics, Statistics};
use weir_results::sweep::LEVEL;
use weir_results::{PointSummary, confidence};
use weir_runs::sweep::{Manifest, State, short_names};
use weir_units::SimTime;

/// The most rows; the others are in `points.csv`.
const ROWS: usize = 40;

/// Points that differ in the seed alone.
struct Combination<'a> {
    values: Vec<&'a str>,
    runs: Vec<&'a Statistics>,
    failed: usize,
}

pub(super) fn print(manifest: &Manifest, summaries: &[PointSummary], ui: &mut Ui) -> Result<(), CommandError> {
    if summaries.is_empty() {
        return Ok(());
    }
    let swept = manifest.identity.parameters.iter().zip(short_names(&manifest.identity.parameters));
    let (axes, names): (Vec<&str>, Vec<&str>) =
        swept.map(|(axis, name)| (axis.path.as_str(), name)).filter(|(path, _)| *path != "seed").unzip();
    let combinations = combine(manifest, summaries, &axes);
    let title = "All flows: means over seeds, ± half the interval that holds the true mean with 95 % confidence";
    let title = ui.on_out(Style::Strong, title);
    ui.print(&format!("{title}\n"))?;
    // The headings of other columns are fixed, so the values are `key value` in one column.
    let failures = combinations.iter().any(|of| of.failed > 0);
    let measures = measures(&combinations);
    let mut columns = vec!["point", ">seeds", ">unfinished"];
    columns.extend(failures.then_some(">failed"));
    columns.extend(measures.iter().map(|(name, _)| *name));
    let mut table = Table::new(&columns);
    for of in combinations.iter().take(ROWS) {
        let name: Vec<String> = names.iter().zip(&of.values).map(|(axis, value)| format!("{axis} {value}")).collect();
        let mut row = vec![
            if name.is_empty() { manifest.scenario.clone() } else { name.join(", ") },
            of.runs.len().to_string(),
            text::whole(of.runs.iter().map(|run| run.all.all.unfinished).sum()),
        ];
        row.extend(failures.then(|| of.failed.to_string()));
        row.extend(measures.iter().map(|(_, measure)| measure(of)));
        table.row(row);
    }
    ui.print_table(&table, 2)?;
    if combinations.len() > ROWS {
        ui.print(&format!("  and {} more rows, in points.csv\n", combinations.len() - ROWS))?;
    }
    Ok(())
}

/// A column: its heading, and the text of a cell.
type Measure = (&'static str, fn(&Combination<'_>) -> String);

/// Completion times if flows end; otherwise their goodput.
fn measures(combinations: &[Combination<'_>]) -> &'static [Measure] {
    let finished = |run: &&Statistics| run.all.all.flows > run.all.all.unfinished;
    if combinations.iter().flat_map(|of| &of.runs).any(finished) {
        &[
            (">mean FCT", |of| mean(of, |all| all.all.fct.mean.map(seconds), text::time)),
            (">p99 FCT", |of| mean(of, |all| all.all.fct.p99.map(seconds), text::time)),
            (">mean slowdown", |of| mean(of, |all| all.all.slowdown.mean, factor)),
            (">p99 slowdown", |of| mean(of, |all| all.all.slowdown.p99, factor)),
        ]
    } else {
        &[
            (">goodput", |of| mean(of, |all| Some(all.goodput.bps() as f64), |bps| Unit::Bandwidth.format_short(bps))),
            (">fairness", |of| mean(of, |all| all.jain, |jain| format!("{jain:.3}"))),
        ]
    }
}

fn seconds(time: SimTime) -> f64 {
    time.picos() as f64 / 1e12
}

fn combine<'a>(manifest: &'a Manifest, summaries: &'a [PointSummary], axes: &[&str]) -> Vec<Combination<'a>> {
    let over = manifest.points.iter().filter(|point| point.state != State::Pending);
    let mut combinations: Vec<Combination<'a>> = Vec::new();
    for (point, summary) in over.zip(summaries) {
        let values: Vec<&str> =
            axes.iter().filter_map(|axis| point.parameters.get(*axis)).map(String::as_str).collect();
        let at = combinations.iter().position(|known| known.values == values).unwrap_or_else(|| {
            combinations.push(Combination { values, runs: Vec::new(), failed: 0 });
            combinations.len() - 1
        });
        match summary.statistics() {
            Some(statistics) => combinations[at].runs.push(statistics),
            None => combinations[at].failed += 1,
        }
    }
    combinations
}

/// The mean over seeds; unknown if the value of a seed is unknown.
fn mean(of: &Combination<'_>, value: impl Fn(&GroupStatistics) -> Option<f64>, text: impl Fn(f64) -> String) -> String {
    let values: Option<Vec<f64>> = of.runs.iter().map(|run| value(&run.all)).collect();
    match values.and_then(|values| confidence(&values, LEVEL)) {
        None => UNKNOWN.to_owned(),
        Some(interval) => {
            let half = interval.half.map_or(String::new(), |half| format!(" ± {}", text(half)));
            format!("{}{half}", text(interval.mean))
        }
    }
}

/// `sweep.json`, with the statistics of complete points.
pub(super) fn print_json(manifest: &Manifest, summaries: &[PointSummary], ui: &mut Ui) -> Result<(), CommandError> {
    // Strings, numbers and maps with string keys always have a JSON form.
    let mut value = serde_json::to_value(manifest).unwrap_or_default();
    let points = value.get_mut("points").and_then(Value::as_array_mut);
    let over = manifest.points.iter().zip(points.into_iter().flatten());
    let over = over.filter(|(point, _)| point.state != State::Pending);
    for ((_, point), summary) in over.zip(summaries) {
        point["seed"] = json!(summary.seed);
        point["statistics"] = json!(summary.statistics());
    }
    Ok(json::write(ui.out(), &value)?)
}
