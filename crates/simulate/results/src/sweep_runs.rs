//! The runs of a sweep one by one, each with a link to its own page.
//!
//! A curve shows an outlier; the run behind it is found here, by its parameters and seed. The code
//! that writes the files sets their paths ([`PointSummary::page`]).

use crate::statistics::Statistics;
use crate::sweep::{Curves, PointSummary};
use crate::text::{factor, known, time, whole};
use weir_report::{Cell, Table};

/// The most rows: a page of some hundred kilobytes.
const RUNS: usize = 1_000;

/// The shown and the omitted part of the table.
pub(crate) fn are(points: &[PointSummary]) -> String {
    let page = if points.iter().any(|point| point.page.is_some()) { " Each has a page of its own." } else { "" };
    match complete(points).count().saturating_sub(RUNS) {
        0 => format!("All flows of each run.{page}"),
        more => format!(
            "All flows of each of the first {} runs; {} more are in points.csv.{page}",
            whole(RUNS as u64),
            whole(more as u64)
        ),
    }
}

fn complete(points: &[PointSummary]) -> impl Iterator<Item = (&PointSummary, &Statistics)> {
    points.iter().filter_map(|point| Some((point, point.statistics()?)))
}

/// A row for each run that reached its end.
pub(crate) fn table(points: &[PointSummary], curves: &Curves<'_>) -> Table {
    let pages = points.iter().any(|point| point.page.is_some());
    let unfinished = complete(points).any(|(_, run)| run.all.all.unfinished > 0);
    let x = curves.x.as_ref().map(|(path, _)| *path);
    let mut table = curves.others.iter().fold(Table::new(), |table, path| table.text(*path));
    table = x.iter().fold(table, |table, path| table.number(*path)).number("seed").number("flows");
    if unfinished {
        table = table.number("unfinished");
    }
    for column in ["time mean", "time p99", "slowdown mean", "slowdown p99"] {
        table = table.number(column);
    }
    if pages {
        table = table.text("page");
    }
    for (point, run) in complete(points).take(RUNS) {
        let all = &run.all.all;
        let value = |path: &&str| point.parameters.get(*path).map_or("as in the file", String::as_str).into();
        let mut row: Vec<Cell> = curves.others.iter().chain(&x).map(value).collect();
        row.extend([point.seed.to_string(), whole(all.flows)].map(Cell::from));
        row.extend(unfinished.then(|| whole(all.unfinished).into()));
        row.extend([all.fct.mean, all.fct.p99].map(|value| known(value, time).into()));
        row.extend([all.slowdown.mean, all.slowdown.p99].map(|value| known(value, factor).into()));
        if pages {
            row.push(point.page.as_deref().map_or_else(|| "".into(), |path| Cell::link("open", path)));
        }
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::tests::{point, sweep};

    #[test]
    fn every_complete_run_leads_to_its_page() {
        let mut points = sweep();
        for (place, point) in points.iter_mut().enumerate() {
            point.page = Some(format!("points/{place}/report.html"));
        }
        let html = weir_report::Page::new("").table(&table(&points, &Curves::new(&points))).to_html();
        // The fifth failed.
        for place in 0..points.len() {
            let link = format!("<a href=\"./points/{place}/report.html\">open</a>");
            assert_eq!(html.matches(&link).count(), usize::from(place != 4), "{link}");
        }
        assert!(are(&points).ends_with("Each has a page of its own."));
    }

    #[test]
    fn without_pages_nothing_leads_anywhere_and_many_runs_are_cut() {
        let points: Vec<PointSummary> = (0..1_003).map(|seed| point(&[], seed, 2, true)).collect();
        let html = weir_report::Page::new("").table(&table(&points, &Curves::new(&points))).to_html();
        assert!(!html.contains("<a ") && !html.contains("unfinished"));
        assert_eq!(html.matches("<tr>").count(), 1 + RUNS);
        assert_eq!(are(&points), "All flows of each of the first 1,000 runs; 3 more are in points.csv.");
    }
}
