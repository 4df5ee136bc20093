//! Writes a page with charts of invented numbers:
//! `cargo run -p weir-report --example sample > sample.html`.

use weir_report::{Axis, Chart, Marker, Page, Panel, Phase, Reference, Series, Table, Unit, side_by_side};

/// A line that approaches the value of each part (from, until, value), with noise.
fn line(name: &str, parts: &[(f64, f64, f64)], noise: f64) -> Series {
    let mut state = 7u32;
    let mut points = Vec::new();
    let mut at = 0.0;
    for (from, until, value) in parts {
        for second in (*from as u32)..(*until as u32) {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            at += (value - at) * 0.6;
            points.push((f64::from(second) + 0.5, at * (1.0 + noise * (f64::from(state >> 16) / 65_536.0 - 0.5))));
        }
    }
    Series::new(name, points)
}

fn fig14(noise: f64) -> Chart {
    let mut chart = Chart::new(Axis::new("time", Unit::Time), Axis::new("bandwidth", Unit::Bandwidth));
    chart.series.push(line("a", &[(0.0, 40.0, 300e6), (40.0, 60.0, 0.0)], noise));
    chart.series.push(line("b", &[(0.0, 20.0, 0.0), (20.0, 40.0, 300e6), (40.0, 60.0, 600e6)], noise));
    chart.references.push(Reference::new("300 Mb/s", 300e6).between(0.0, 40.0).of(0));
    chart.references.push(Reference::new("300 Mb/s", 300e6).between(20.0, 40.0).of(1));
    chart.references.push(Reference::new("600 Mb/s", 600e6).between(40.0, 60.0).of(1));
    chart.phases = vec![Phase::new("a", 0.0, 20.0), Phase::new("a and b", 20.0, 40.0), Phase::new("b", 40.0, 60.0)];
    chart
}

fn crowded() -> Chart {
    let mut chart = Chart::new(Axis::new("time", Unit::Time), Axis::new("latency", Unit::Time));
    chart.title = "Nine services with long names, markers and a limit".to_owned();
    for i in 0..9 {
        let value = 20e-6 * f64::from(i + 1);
        chart.series.push(line(&format!("storage/replication-{i}"), &[(0.0, 60.0, value)], 0.1));
    }
    chart.references.push(Reference::new("bound 204 µs", 204e-6));
    chart.references.push(Reference::new("target 190 µs", 190e-6));
    chart.markers = vec![Marker::new("broker r1 stops", 22.0), Marker::new("broker r1 is back", 27.0)];
    chart.phases =
        (0..12).map(|i| Phase::new(format!("phase number {i}"), f64::from(i) * 5.0, f64::from(i + 1) * 5.0)).collect();
    chart
}

/// Pseudo-random numbers between 0 and 1.
fn random(seed: u32) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(seed), |state| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)))
        .map(|state| f64::from(state >> 8) / f64::from(1 << 24))
}

const TRANSPORTS: [&str; 4] = ["dctcp", "pfabric", "cubic", "newreno"];

fn distribution() -> Chart {
    let share = Axis { to: Some(1.0), ..Axis::new("share of flows", Unit::Plain(String::new())) };
    let mut chart = Chart::new(Axis::log("slowdown", Unit::Plain(String::new())), share);
    chart.title = "Slowdown of all flows".to_owned();
    for (i, name) in TRANSPORTS.into_iter().enumerate() {
        let values = random(i as u32 + 3).take(100_000).map(|x| 1.0 + (i as f64 + 0.3) * (1.0 / (1.0 - x) - 1.0));
        chart.series.push(Series::cdf(name, values.collect(), i as u64 * 2_000));
    }
    chart
}

fn by_load() -> Chart {
    let mut chart = Chart::new(Axis::new("load", Unit::Plain("%".into())), Axis::log("completion time", Unit::Time));
    chart.title = "Completion times of flows up to 10 kB".to_owned();
    for (i, name) in TRANSPORTS.into_iter().enumerate() {
        for (what, tail) in [("mean", 1.0), ("p99", 8.0)] {
            let value = |load: f64| 20e-6 * tail * (1.0 + i as f64) / (1.0 - load / 100.0);
            let points: Vec<_> = (1..10).map(|tenth| f64::from(tenth) * 10.0).map(|load| (load, value(load))).collect();
            let errors = points.iter().map(|(x, y)| (*x, y * 0.9, y * 1.1)).collect();
            chart.series.push(Series::marked(format!("{name} {what}"), points, errors).look(i, tail > 1.0));
        }
    }
    chart
}

fn by_size(log: bool, transports: usize) -> Chart {
    let axis = if log { Axis::log } else { Axis::new };
    let mut chart =
        Chart::new(Axis::new("flow size", Unit::Plain(String::new())), axis("slowdown", Unit::Plain(String::new())));
    chart.title = "Slowdown by size".to_owned();
    chart.categories =
        ["≤ 10 kB", "10 kB to 100 kB", "100 kB to 1 MB", "1 MB to 10 MB", "> 10 MB"].map(str::to_owned).to_vec();
    chart.y.from = log.then_some(1.0);
    for (i, name) in TRANSPORTS.into_iter().enumerate().take(transports) {
        for (what, tail) in [("p50", 1.0), ("p99", 9.0)] {
            let value = |bin: i32| (bin != 4).then(|| 1.0 + tail * f64::from(5 - bin) * (i as f64 + 0.2));
            chart.series.push(Series::bars(format!("{name} {what}"), (0..5).map(value)).look(i, tail == 1.0));
        }
    }
    chart
}

fn main() {
    let mut table = Table::new().text("service").text("from").number("published").number("measured");
    table.row(["a", "0 s to 20 s", "300 Mb/s", "299.4 Mb/s"]);
    table.row(["b", "40 s to 60 s", "600 Mb/s", "597.2 Mb/s"]);
    let (left, right) = (fig14(0.02), fig14(0.2));
    let page = Page::new("A sample page")
        .paragraph("Invented numbers, to show the appearance of charts.")
        .notice("Nothing here was measured.")
        .push(side_by_side(&[Panel::new("Simulator", &left), Panel::new("Linux", &right)]))
        .heading("Table")
        .table(&table)
        .code("weir sim scenarios/parley-fig14.scenario.yaml --seed 1")
        .chart(&crowded())
        .chart(&distribution())
        .chart(&by_load())
        .chart(&by_size(false, 1))
        .chart(&by_size(true, 4));
    print!("{}", page.to_html());
}
