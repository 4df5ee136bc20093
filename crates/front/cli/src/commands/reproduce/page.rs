//! The files of a reproduction: JSON, drawings, and a page for each experiment.

use super::{ExperimentResults, print};
use crate::error::CommandError;
use crate::output::Ui;
use crate::report_files::ReportFiles;
use crate::text;
use std::path::PathBuf;
use weir_experiment::{Setting, Verdict};
use weir_report::json;
use weir_report::{Cell, Page, Panel, Table, side_by_side};
use weir_results::FileError;
use weir_runs::experiments::BackendRun;

/// The page.
const PAGE: &str = "report.html";

/// The written part of a report.
pub(super) struct Written {
    /// The path of its page.
    pub(super) page: Option<PathBuf>,
    /// The experiments whose files cannot be written, with the reasons.
    pub(super) unwritten: Vec<(String, FileError)>,
}

/// Writes `report.html`, `reproduce-BACKEND.json` and `FIGURE-BACKEND.svg`; with several
/// experiments in a directory for each, below a page that links to them.
pub(super) fn write(
    files: &ReportFiles,
    all: &[ExperimentResults],
    setting: Setting,
    ui: &mut Ui,
) -> Result<Written, CommandError> {
    let mut unwritten = Vec::new();
    let mut failed = |id: &str, error| unwritten.push((id.to_owned(), error));
    if let [one] = all {
        let page = write_one(files, one, setting).map_err(|error| failed(&one.experiment.id, error)).ok();
        return Ok(Written { page, unwritten });
    }
    let mut table = Table::new().text("experiment").text("source").number("agree").number("differ").number("not known");
    for reproduced in all {
        let id = &reproduced.experiment.id;
        let written = files.below(id).and_then(|below| write_one(&below, reproduced, setting));
        let title = format!("{id}: {}", reproduced.experiment.title);
        let title = match written {
            Ok(_) => Cell::link(title, &format!("{id}/{PAGE}")),
            Err(error) => {
                failed(id, error);
                format!("{title} (its files are not written)").into()
            }
        };
        let outcomes = reproduced.runs.iter().flat_map(|backend| backend.outcomes.iter().flatten());
        let verdicts: Vec<Verdict> = outcomes.map(|outcome| outcome.verdict).collect();
        let count = |verdict: Verdict| verdicts.iter().filter(|of| **of == verdict).count().to_string();
        table.row([
            title,
            reproduced.experiment.source.clone().into(),
            count(Verdict::Agrees).into(),
            count(Verdict::Differs).into(),
            count(Verdict::Unknown).into(),
        ]);
    }
    let ids: Vec<&str> = all.iter().map(|reproduced| reproduced.experiment.id.as_str()).collect();
    let page = Page::new("Published results, reproduced")
        .paragraph(&format!("The {} setting of each experiment.", setting.name()))
        .table(&table)
        .heading("Again")
        .code(&format!("weir reproduce {}{} --report DIR", ids.join(" "), option(setting)));
    let page = files.replace(PAGE, &page.to_html()).map_err(|error| failed("the page of all experiments", error)).ok();
    if let Some(page) = &page {
        ui.notice(&format!("{} below {}\n", text::count(all.len() - unwritten.len(), "page"), page.display()))?;
    }
    Ok(Written { page, unwritten })
}

fn option(setting: Setting) -> &'static str {
    if setting == Setting::Full { " --full" } else { "" }
}

fn write_one(files: &ReportFiles, reproduced: &ExperimentResults, setting: Setting) -> Result<PathBuf, FileError> {
    let experiment = &reproduced.experiment;
    for backend in &reproduced.runs {
        files.replace(
            &format!("reproduce-{}.json", backend.backend),
            &json::to_text(&print::to_json(reproduced, backend, setting)),
        )?;
        for figure in &backend.figures {
            if let Some(chart) = &figure.chart {
                files.replace(&format!("{}-{}.svg", figure.id, backend.backend), &chart.to_svg())?;
            }
        }
    }
    let mut page = Page::new(format!("{}: {}", experiment.id, experiment.title)).paragraph(&format!(
        "{}. {} setting.",
        experiment.source,
        setting.name()
    ));
    if let Some(missing) = &reproduced.no_lab {
        page = page.notice(&format!("Simulated only: {missing}"));
    }
    for backend in reproduced.runs.iter().filter(|backend| !backend.complete) {
        page = page.notice(&format!("{}: some runs are missing.", name(backend)));
    }
    for failure in reproduced.runs.iter().flat_map(|backend| &backend.failures) {
        page = page.notice(&format!("Failed: {failure}"));
    }
    for (run, error) in reproduced.runs.iter().flat_map(|backend| &backend.unwritten) {
        page = page.notice(&format!("{run} has no files: {error}"));
    }
    for (index, figure) in experiment.figures.iter().enumerate() {
        let charts =
            reproduced.runs.iter().filter_map(|backend| Some((backend, backend.figures[index].chart.as_ref()?)));
        let charts: Vec<_> = charts.collect();
        page = match charts.as_slice() {
            [] => page,
            [(_, chart)] => page.heading(&figure.title).chart(chart),
            several => {
                let panels: Vec<Panel<'_>> =
                    several.iter().map(|(backend, chart)| Panel::new(name(backend), chart)).collect();
                page.heading(&figure.title).push(side_by_side(&panels))
            }
        };
    }
    page = page.heading("Published beside measured").table(&table(reproduced));
    for (metric, note) in print::notes(reproduced) {
        page = page.paragraph(&format!("{metric}: {note}"));
    }
    for note in &experiment.notes {
        page = page.paragraph(note);
    }
    let page = page.heading("Again").code(&format!("weir reproduce {}{} --report DIR", experiment.id, option(setting)));
    files.replace(PAGE, &page.to_html())
}

/// The name of a backend on a page.
fn name(run: &BackendRun) -> &'static str {
    if run.backend == "lab" { "Linux: real hosts, real TCP" } else { "Simulator: the same brokers" }
}

fn table(reproduced: &ExperimentResults) -> Table {
    let mut table = Table::new()
        .text("metric")
        .text("where")
        .number("published")
        .text("backend")
        .number("measured")
        .number("difference")
        .text("expected")
        .text("");
    for (index, value) in reproduced.experiment.values.iter().enumerate() {
        for backend in &reproduced.runs {
            let Some(outcome) = &backend.outcomes[index] else { continue };
            table.row([
                value.metric.clone(),
                value.place.clone(),
                print::published(value),
                backend.backend.to_owned(),
                print::measured(value, outcome),
                print::difference(outcome),
                outcome.expected.clone(),
                print::word(outcome.verdict).to_owned(),
            ]);
        }
    }
    table
}
