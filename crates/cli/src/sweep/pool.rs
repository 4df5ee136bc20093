//! Points on threads.
//!
//! Problem: points take from seconds to hours, and one may panic. Approach: each thread takes the
//! next point when it has finished one, so that a slow point does not delay the others; a panic is
//! caught and becomes the point's failure. Events go to the one thread that writes to the terminal
//! and keeps the list.
//!
//! No result depends on which thread ran a point, or when: points share only files that are read once.

use crate::simulation::catch;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::{io, thread};
use weir_results::FileError;
use weir_sim::Progress;

/// How a point ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Its files are written.
    Complete,
    /// It cannot be run, with the reason.
    Failed(String),
    /// The user interrupted it.
    Interrupted,
    /// Its files cannot be written.
    Disk(FileError),
}

/// Events of the threads; the number is the point's index in the plan.
#[derive(Debug)]
pub(crate) enum Event {
    /// A thread took a point.
    Started(usize),
    /// The progress of a point.
    Step(usize, Progress),
    /// A thread has finished a point.
    Ended(usize, Ended),
}

/// Runs `work` for all points, `jobs` at a time, in their order; no new ones once `stop` is set, or
/// after a point that was interrupted or whose files cannot be written. `on` is called on this
/// thread.
///
/// # Errors
/// If threads cannot be started; points under way are then finished.
pub(crate) fn run_all(
    points: &[usize],
    jobs: usize,
    stop: &AtomicBool,
    work: &(impl Fn(usize, &mut dyn FnMut(Progress)) -> Ended + Sync),
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
                while !stop.load(Ordering::Relaxed)
                    && let Some(&point) = points.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    report(Event::Started(point));
                    let mut step = |progress| report(Event::Step(point, progress));
                    let ended = catch(|| work(point, &mut step)).unwrap_or_else(Ended::Failed);
                    // Set here, since the receiver may be slower than the next point.
                    if matches!(ended, Ended::Disk(_) | Ended::Interrupted) {
                        stop.store(true, Ordering::Relaxed);
                    }
                    report(Event::Ended(point, ended));
                }
            };
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, worker) {
                stop.store(true, Ordering::Relaxed);
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
    use std::collections::BTreeMap;

    /// Runs points whose ends `work` returns, and returns the ends by index.
    fn ends(points: &[usize], jobs: usize, work: impl Fn(usize) -> Ended + Sync) -> BTreeMap<usize, String> {
        let mut ends = BTreeMap::new();
        let stop = AtomicBool::new(false);
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
        let work = |point| if point == 1 { panic!("port 3 above\n its rate") } else { Ended::Complete };
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
            Ended::Complete
        };
        assert_eq!(ends(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 2, work).len(), 10);
    }

    #[test]
    fn nothing_new_begins_after_a_stop() {
        let full = || Ended::Disk(FileError::NotEmpty("full".into()));
        let ends = ends(&[0, 1, 2, 3], 1, |point| if point == 1 { full() } else { Ended::Complete });
        assert_eq!(ends.into_keys().collect::<Vec<_>>(), [0, 1]);
    }
}
