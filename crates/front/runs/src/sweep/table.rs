//! `points.csv`: a row for each complete point, group and size bin, for statistics programs.
//!
//! Columns: the point's name, its seed, a column for each swept value other than the seed, the
//! group (`all` for all flows together), the bin's bounds in bytes (empty: without), flows, flows
//! that did not finish, and mean, p50, p95, p99, p99.9 and maximum of completion times
//! (picoseconds) and slowdowns; and, of the group as a whole in its row of all sizes, goodput
//! (bit/s), Jain's index, retransmissions, timeouts, flows with a deadline and those that met it;
//! last the means of the flows that finished. Unknown values are empty; so is a mean over a flow that
//! did not finish.

use super::{Manifest, State};
use std::io;
use std::path::Path;
use weir_results::files::replace;
use weir_results::statistics::{BinStatistics, GroupStatistics};
use weir_results::summary::Summary;
use weir_results::{FileError, PointSummary};

/// Writes the table of the finished points.
pub(super) fn write(path: &Path, manifest: &Manifest, summaries: &[PointSummary]) -> Result<(), FileError> {
    let over = manifest.points.iter().filter(|point| point.state != State::Pending);
    let axes = manifest.identity.parameters.iter().map(|axis| axis.path.as_str()).filter(|path| *path != "seed");
    let axes: Vec<&str> = axes.collect();
    replace(path, |out| {
        let mut csv = csv::Writer::from_writer(out);
        let mut written = csv.write_record(header(&axes));
        for (point, summary) in over.zip(summaries) {
            let Some(statistics) = summary.statistics() else { continue };
            let values = axes.iter().map(|axis| point.parameters.get(*axis).cloned().unwrap_or_default());
            let start: Vec<String> = [point.name.clone(), summary.seed.to_string()].into_iter().chain(values).collect();
            for group in std::iter::once(&statistics.all).chain(&statistics.groups) {
                for bin in std::iter::once(&group.all).chain(&group.bins) {
                    written = written.and_then(|()| csv.write_record(start.iter().cloned().chain(row(group, bin))));
                }
            }
        }
        written.map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => error,
            other => io::Error::other(format!("{other:?}")),
        })?;
        csv.flush()
    })
}

fn header(axes: &[&str]) -> Vec<String> {
    let mut header: Vec<String> = ["point", "seed"].iter().chain(axes).map(|name| (*name).to_owned()).collect();
    header.extend(["group", "over_bytes", "up_to_bytes", "flows", "unfinished"].map(str::to_owned));
    for (what, unit) in [("fct", "_ps"), ("slowdown", "")] {
        header.extend(["mean", "p50", "p95", "p99", "p999", "max"].map(|of| format!("{what}_{of}{unit}")));
    }
    header.extend(
        ["goodput_bps", "jain", "retransmissions", "timeouts", "deadlines", "deadlines_met"].map(str::to_owned),
    );
    header.extend(["fct_finished_mean_ps", "slowdown_finished_mean"].map(str::to_owned));
    header
}

fn row(group: &GroupStatistics, bin: &BinStatistics) -> Vec<String> {
    let name = if group.name.is_empty() { "all" } else { &group.name };
    let up_to = bin.bin.up_to.map_or(String::new(), |bytes| bytes.to_string());
    let mut row =
        vec![name.to_owned(), bin.bin.over.to_string(), up_to, bin.flows.to_string(), bin.unfinished.to_string()];
    row.extend(values(&bin.fct, |time| time.picos().to_string()));
    row.extend(values(&bin.slowdown, |value| value.to_string()));
    let jain = group.jain.map_or(String::new(), |jain| jain.to_string());
    let numbers = [group.retransmissions, group.timeouts, group.deadlines.count, group.deadlines.met];
    let whole = [group.goodput.bps().to_string(), jain].into_iter().chain(numbers.map(|number| number.to_string()));
    // The row of all sizes is the only one with a bin that has no bounds.
    let is_whole = bin.bin.over == 0 && bin.bin.up_to.is_none();
    row.extend(whole.map(|value| if is_whole { value } else { String::new() }));
    row.push(bin.fct.finished_mean.map_or(String::new(), |time| time.picos().to_string()));
    row.push(bin.slowdown.finished_mean.map_or(String::new(), |value| value.to_string()));
    row
}

fn values<T: Copy>(of: &Summary<T>, text: impl Fn(T) -> String) -> [String; 6] {
    [of.mean, of.p50, of.p95, of.p99, of.p999, of.max].map(|value| value.map_or(String::new(), &text))
}
