//! `points.csv`: a row for each complete point, group and size bin, for statistics programs.
//!
//! Columns: the point's name, its seed, a column for each swept value other than the seed, the
//! group (`all` for all flows together), the bin's bounds in bytes (empty: without), flows, flows
//! that did not finish, and mean, p50, p95, p99, p99.9 and maximum of completion times
//! (picoseconds) and slowdowns; and, of the group as a whole in its row of all sizes, goodput
//! (bit/s), Jain's index, retransmissions, timeouts, flows with a deadline and those that met it;
//! last the means of the flows that finished. Unknown values are empty; so is a mean over a flow that
//! did not finish. [`weir_results::dataset`] has the columns.

use super::{Manifest, State};
use std::io;
use std::path::Path;
use weir_results::dataset::StatisticsTable;
use weir_results::files::replace;
use weir_results::{FileError, PointSummary};

/// Writes the table of the finished points.
pub(super) fn write(path: &Path, manifest: &Manifest, summaries: &[PointSummary]) -> Result<(), FileError> {
    let over = (0..manifest.points.len()).filter(|point| manifest.points[*point].state != State::Pending);
    let table = StatisticsTable::new(manifest.identity.swept().map(str::to_owned).collect());
    replace(path, |out| {
        let mut csv = csv::Writer::from_writer(out);
        let mut written = csv.write_record(table.header());
        for (point, summary) in over.zip(summaries) {
            let Some(statistics) = summary.statistics() else { continue };
            // The table does not name its sweep.
            for row in table.rows(&manifest.part("", point, summary.seed), statistics) {
                written = written.and_then(|()| csv.write_record(row));
            }
        }
        written.map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => error,
            other => io::Error::other(format!("{other:?}")),
        })?;
        csv.flush()
    })
}
