//! The files of a reproduction: results, drawings, and one page with the bodies side by side.

use crate::commands::reproduce::{BodyRun, verdict};
use crate::error::CommandError;
use crate::output::Ui;
use crate::report_files::ReportFiles;
use crate::{run_page, text};
use weir_report::{Chart, Page, Panel, Reference, Table, side_by_side};
use weir_scenario::Experiment;

/// Writes `result-BODY.json` and `BODY.svg` for each body and `report.html`.
pub(crate) fn write(
    files: &ReportFiles,
    experiment: &Experiment,
    runs: &[BodyRun],
    missing: Option<&str>,
    ui: &mut Ui,
) -> Result<(), CommandError> {
    let charts: Vec<Chart> = runs.iter().map(|run| chart(experiment, run)).collect();
    for (run, chart) in runs.iter().zip(&charts) {
        files.replace(&format!("result-{}.json", run.body), &run.file.to_text())?;
        files.replace(&format!("{}.svg", run.body), &chart.to_svg())?;
    }
    let panels: Vec<Panel<'_>> = runs.iter().zip(&charts).map(|(run, chart)| Panel::new(name(run), chart)).collect();
    let mut page = Page::new(format!("{}: {}", experiment.id, experiment.title))
        .paragraph(&format!("{}. Dashed: published, divided by {}.", experiment.source, experiment.scale));
    if let Some(missing) = missing {
        page = page.notice(&format!("Simulated only: {missing}"));
    }
    for run in runs.iter().filter(|run| !run.file.complete) {
        page = page.notice(&format!("{}: interrupted, this is its beginning.", name(run)));
    }
    page = page.push(side_by_side(&panels)).heading("Published beside measured").table(&table(experiment, runs));
    for note in &experiment.notes {
        page = page.paragraph(note);
    }
    let page = page.heading("Again").code(&format!("weir reproduce {} --body both --report DIR", experiment.id));
    let path = files.replace("report.html", &page.to_html())?;
    ui.tell(&format!("report: {}\n", path.display()))?;
    Ok(())
}

/// What a body is called on a page.
fn name(run: &BodyRun) -> &'static str {
    if run.body == "lab" { "Linux: real hosts, real TCP" } else { "Simulator: the same brokers" }
}

fn chart(experiment: &Experiment, run: &BodyRun) -> Chart {
    let mut chart = run_page::chart(&run.file);
    // The panel has the name; a drawing that stands alone has it from its file.
    chart.title = String::new();
    chart.references_are = "published".to_owned();
    chart.references.clear();
    let path = |id| experiment.scenario.policy().services().get(id).path();
    for value in &experiment.values {
        let bps = value.published.bps() as f64 / experiment.scale as f64;
        let series = run.file.services.iter().position(|service| service == path(value.service));
        let reference =
            Reference::new(text::rate(value.published), bps).between(value.from.as_secs_f64(), value.to.as_secs_f64());
        chart.references.push(match series {
            Some(series) => reference.of(series),
            None => reference,
        });
    }
    chart
}

fn table(experiment: &Experiment, runs: &[BodyRun]) -> Table {
    let mut table = Table::new().text("metric").number("published");
    for run in runs {
        table = table.number(format!("measured ({})", run.body)).text("difference");
    }
    for (i, value) in experiment.values.iter().enumerate() {
        let mut cells = vec![value.metric.clone(), text::rate(value.published)];
        for run in runs {
            cells.push(run.measured[i].map_or("–".to_owned(), text::rate));
            cells.push(verdict(experiment, i, run.measured[i]).0);
        }
        table.row(cells);
    }
    table
}
