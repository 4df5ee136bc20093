//! The points of a sweep that are not complete, on threads.
//!
//! Problem: a sweep of many short points would spend its time on writing its list, and one of few long points must not
//! lose what is done when it is killed. Approach: each point writes its own files when it ends; the list of states,
//! `sweep.json`, is written at most once a second and at the end. A disk that fails ends the sweep, since every further
//! point would fail as well; points under way end first. Results that are not sound fail their point alone.
//!
//! Worked example: of 12 points, 3 are complete from an earlier run: 9 are run, and after Ctrl-C in the fifth of them
//! the list has 7 complete points.

use super::directory::{PointPlace, write_point};
use super::{Job, Manifest, State, SweepDirectory, SweepError, command};
use crate::pool::{Event, PointEnd, Status, run_all};
use crate::{Stop, Stopwatch};
use weir_results::{FileError, Results};
use weir_sim::Progress;
use weir_units::Bytes;

/// The time between two writes of `sweep.json`, in wall-clock seconds: with many short points
/// writing would be most of the work.
const SAVE: f64 = 1.0;

/// The data for a thread that runs a point.
#[derive(Debug)]
pub struct Work<'a> {
    /// All points.
    pub job: &'a Job,
    /// The memory that the network of one point may take.
    pub memory: Option<Bytes>,
    /// The beginning of the command that repeats a point, before its values: `weir sim FILE`.
    pub start: &'a str,
    /// Ends the points under way early.
    pub stop: &'a Stop,
}

impl Work<'_> {
    /// Runs all points that are not complete, `jobs` at a time, and updates the list. `on` is called on this thread
    /// after each event, several times a second while points run.
    ///
    /// # Errors
    /// The disk, or threads that cannot be started.
    pub fn run(
        &self,
        sweep: &mut SweepDirectory,
        jobs: usize,
        on: &mut dyn FnMut(&Status, &Manifest),
    ) -> Result<(), SweepError> {
        let points = 0..self.job.plan().points.len();
        let todo: Vec<usize> = points.filter(|point| sweep.manifest.points[*point].state != State::Complete).collect();
        let (root, flows) = (sweep.path().to_owned(), sweep.contents.flows);
        let (no_more, clock) = (Stop::new(), Stopwatch::start());
        let mut disk: Option<FileError> = None;
        let mut saved = 0.0;
        let mut status = Status::new(todo.len());
        let work = |point: usize, step: &mut dyn FnMut(Progress)| match self.one(point, step) {
            Ok(results) => {
                let place = PointPlace { root: &root, of: self.job.part(point, results.seed), flows };
                end_of(write_point(&place, &results, &command(self.start, &self.job.plan().settings_of(point))))
            }
            Err(ended) => ended,
        };
        let threads = run_all(&todo, jobs, &no_more, &work, &mut |event| {
            status.on(&event);
            if let Event::Ended(point, ended) = event {
                match ended {
                    PointEnd::Complete => sweep.manifest.points[point].state = State::Complete,
                    PointEnd::Failed(cause) => sweep.manifest.points[point].state = State::Failed { cause },
                    PointEnd::Interrupted => {}
                    PointEnd::Disk(error) => drop(disk.get_or_insert(error)),
                }
                if clock.seconds() - saved >= SAVE {
                    saved = clock.seconds();
                    disk = disk.take().or(sweep.write_manifest().err());
                }
            }
            if disk.is_some() {
                no_more.request();
            }
            on(&status, &sweep.manifest);
        });
        threads.map_err(SweepError::Threads)?;
        let written = sweep.write_manifest();
        match disk {
            None => Ok(written?),
            Some(cause) => Err(SweepError::Disk { cause, complete: sweep.manifest.counts().0 }),
        }
    }

    fn one(&self, point: usize, step: &mut dyn FnMut(Progress)) -> Result<Results, PointEnd> {
        let mut on = |now: Option<Progress>| now.into_iter().for_each(&mut *step);
        self.job.simulate(point, self.memory, self.stop, &mut on)
    }
}

/// How a point ended whose run has reached its end.
fn end_of(written: Result<(), FileError>) -> PointEnd {
    match written {
        Ok(()) => PointEnd::Complete,
        // The disk is in order, so the other points can be run.
        Err(error @ FileError::Unsound { .. }) => PointEnd::Failed(error.to_string()),
        Err(error) => PointEnd::Disk(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use weir_results::dataset::PartOf;

    /// Two hosts of one name: all files of the point but its page and `point.json`, and the other points go on.
    #[test]
    fn unsound_results_fail_their_point_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let point = directory.path().join("points/point");
        let part = directory.path().join("dataset/statistics/point.parquet");
        let of = PartOf { sweep: "ab".to_owned(), point: "point".to_owned(), seed: 1, values: Vec::new() };
        let place = PointPlace { root: directory.path(), of, flows: false };
        let complete = |results: Results| Results { complete: true, ..results };
        let results = complete(Results { hosts: vec!["h1".to_owned(), "h1".to_owned()], ..Results::default() });
        let ended = end_of(write_point(&place, &results, "weir sim s.yaml"));
        let PointEnd::Failed(cause) = &ended else { panic!("{ended:?}") };
        assert!(cause.ends_with("are complete, but not sound: two hosts are called `h1`"), "{cause}");
        let names = |path: &Path| {
            let entries = std::fs::read_dir(path).expect("a directory");
            let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
            names.collect::<std::collections::BTreeSet<String>>()
        };
        let written = names(&point);
        for name in ["result.json", "flows.csv", "links.csv", "command.txt"] {
            assert!(written.contains(name), "{name} in {written:?}");
        }
        assert!(!written.contains("report.html") && !written.contains("point.json"), "{written:?}");
        assert!(!part.exists());

        // A sound run has both; a later unsound one in its place leaves no page of another run.
        let sound = complete(Results { hosts: vec!["h1".to_owned(), "h2".to_owned()], ..Results::default() });
        assert!(matches!(end_of(write_point(&place, &sound, "weir sim s.yaml")), PointEnd::Complete));
        assert!(names(&point).contains("report.html") && names(&point).contains("point.json"));
        assert!(place.of.is_at(&part));
        let again = crate::run_files::write(&point, &results, "weir sim s.yaml");
        assert!(matches!(again, Err(FileError::Unsound { .. })) && !names(&point).contains("report.html"));
        assert!(matches!(end_of(Err(FileError::NotEmpty(point))), PointEnd::Disk(_)));
    }
}
