//! Points on threads.
//!
//! Problem: points take from seconds to hours, and one may panic. Approach: each thread takes the
//! next point when it has finished one, so that a slow point does not delay the others; a panic is
//! caught and becomes the point's failure. Events go to the calling thread, which keeps the list and
//! reports the [`Status`].
//!
//! No result depends on which thread ran a point, or when: points share only files that are read once.
//!
//! Worked example: of three points on two threads, the first takes a minute and the others a second: the second thread
//! runs both of them, and the status is two points over and the fraction of the first.

use crate::Stop;
use crate::simulation::{self, Ran, catch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::{io, thread};
use weir_results::FileError;
use weir_scenario::Scenario;
use weir_sim::{Options, Progress, RunOutcome};

/// How a point ended.
#[derive(Debug)]
pub enum PointEnd {
    /// Its files are written.
    Complete,
    /// It cannot be run, with the reason.
    Failed(String),
    /// It ended early on request.
    Interrupted,
    /// Its files cannot be written.
    Disk(FileError),
}

/// Events of the threads; the number is the point's index in the plan.
#[derive(Debug)]
pub enum Event {
    /// A thread took a point.
    Started(usize),
    /// The progress of a point.
    Step(usize, Progress),
    /// A thread has finished a point.
    Ended(usize, PointEnd),
}

/// The state of a pool: the points under way and the number of finished ones.
#[derive(Debug, Default)]
pub struct Status {
    /// All points.
    pub all: usize,
    /// Points that have ended, in whichever way.
    pub over: usize,
    /// Points under way by index; `None` before their first progress.
    pub running: BTreeMap<usize, Option<Progress>>,
}

impl Status {
    pub(crate) fn new(all: usize) -> Self {
        Self { all, ..Self::default() }
    }

    /// Counts an event.
    pub(crate) fn on(&mut self, event: &Event) {
        match event {
            Event::Started(point) => drop(self.running.insert(*point, None)),
            Event::Step(point, progress) => drop(self.running.insert(*point, Some(*progress))),
            Event::Ended(point, _) => {
                self.running.remove(point);
                self.over += 1;
            }
        }
    }

    /// The finished part of all points, 0 to 1.
    pub fn fraction(&self) -> f64 {
        let running: f64 = self.running.values().flatten().map(fraction).sum();
        (self.over as f64 + running) / self.all.max(1) as f64
    }
}

/// The finished part of a simulated run, 0 to 1: a run ends with its time or with its flows,
/// whichever is sooner.
pub fn fraction(progress: &Progress) -> f64 {
    let of_time = progress.at.as_secs_f64() / progress.of.as_secs_f64();
    let of_flows = progress.expected.map_or(0.0, |expected| progress.over as f64 / expected.max(1) as f64);
    of_time.max(of_flows).min(1.0)
}

/// Simulates a point: its outcome, also if it ended early with results, or the way in which it ended without. `step` is
/// called as [`simulation::run`] does.
pub(crate) fn simulate(
    scenario: &Scenario,
    seed: u64,
    options: &Options,
    stop: &Stop,
    step: &mut dyn FnMut(Option<Progress>),
) -> Result<RunOutcome, PointEnd> {
    match simulation::run(scenario, seed, options, stop, step) {
        Ok(Ran::Outcome(outcome, _)) => Ok(*outcome),
        Ok(Ran::Nothing) => Err(PointEnd::Interrupted),
        Ok(Ran::Refused(error)) => Err(PointEnd::Failed(error.to_string())),
        Ok(Ran::SameName(error)) => Err(PointEnd::Failed(error.to_string())),
        Ok(Ran::Broken(panic)) => Err(PointEnd::Failed(panic)),
        Err(error) => Err(PointEnd::Failed(format!("cannot start a thread: {error}"))),
    }
}

/// Runs `work` for all points, `jobs` at a time, in their order; no new ones once `stop` is requested, or
/// after a point that was interrupted or whose files cannot be written. `on` is called on this
/// thread.
///
/// # Errors
/// If threads cannot be started; points under way are then finished.
pub fn run_all(
    points: &[usize],
    jobs: usize,
    stop: &Stop,
    work: &(impl Fn(usize, &mut dyn FnMut(Progress)) -> PointEnd + Sync),
    on: &mut dyn FnMut(Event),
) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, events) = mpsc::channel();
        let mut started = Ok(());
        for _ in 0..jobs.min(points.len()) {
            let (sender, next) = (sender.clone(), &next);
            let worker = move || {
                // Sending fails only if the receiver has panicked; this thread then ends with the
                // next point.
                let report = |event| drop(sender.send(event));
                while !stop.is_requested()
                    && let Some(&point) = points.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    report(Event::Started(point));
                    let mut step = |progress| report(Event::Step(point, progress));
                    let ended = catch(|| work(point, &mut step)).unwrap_or_else(PointEnd::Failed);
                    // Set here, since the receiver may be slower than the next point.
                    if matches!(ended, PointEnd::Disk(_) | PointEnd::Interrupted) {
                        stop.request();
                    }
                    report(Event::Ended(point, ended));
                }
            };
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, worker) {
                stop.request();
                started = Err(error);
                break;
            }
        }
        drop(sender);
        events.iter().for_each(on);
        started
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Duration;

    /// Runs points whose ends `work` returns, and returns the ends by index.
    fn ends(points: &[usize], jobs: usize, work: impl Fn(usize) -> PointEnd + Sync) -> BTreeMap<usize, String> {
        let mut ends = BTreeMap::new();
        let stop = Stop::new();
        let all = run_all(points, jobs, &stop, &|point, _| work(point), &mut |event| {
            if let Event::Ended(point, ended) = event {
                ends.insert(point, format!("{ended:?}"));
            }
        });
        all.expect("threads");
        ends
    }

    #[test]
    fn panic_is_the_failure_of_its_point() {
        let work = |point| if point == 1 { panic!("port 3 above\n its rate") } else { PointEnd::Complete };
        let ends = ends(&[0, 1, 2, 5], 2, work);
        assert_eq!(ends.len(), 4);
        assert!(ends.iter().all(|(point, end)| (*point == 1) != (end == "Complete")), "{ends:?}");
        assert!(ends[&1].contains("port 3 above its rate") && ends[&1].contains("pool.rs"), "{ends:?}");
    }

    #[test]
    fn slow_point_does_not_delay_the_others() {
        // The first point waits until all others are done.
        let others = AtomicUsize::new(0);
        let work = |point| {
            while point == 0 && others.load(Ordering::SeqCst) < 9 {
                thread::yield_now();
            }
            others.fetch_add(usize::from(point > 0), Ordering::SeqCst);
            PointEnd::Complete
        };
        assert_eq!(ends(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 2, work).len(), 10);
    }

    #[test]
    fn status_counts_finished_points_and_parts_of_running_ones() {
        let mut status = Status::new(2);
        let progress = |over| Progress {
            at: Duration::from_millis(10),
            of: Duration::from_millis(100),
            started: 900,
            over,
            expected: Some(1_000),
            counters: weir_sim::Counters::default(),
        };
        for event in [Event::Started(3), Event::Ended(3, PointEnd::Complete), Event::Started(7)] {
            status.on(&event);
        }
        assert_eq!((status.over, status.running.len(), status.fraction()), (1, 1, 0.5));
        // A tenth of the time, and half of the flows.
        status.on(&Event::Step(7, progress(500)));
        assert_eq!(status.fraction(), 0.75);
    }

    #[test]
    fn nothing_new_begins_after_a_stop() {
        let full = || PointEnd::Disk(FileError::NotEmpty("full".into()));
        let ends = ends(&[0, 1, 2, 3], 1, |point| if point == 1 { full() } else { PointEnd::Complete });
        assert_eq!(ends.into_keys().collect::<Vec<_>>(), [0, 1]);
    }
}
