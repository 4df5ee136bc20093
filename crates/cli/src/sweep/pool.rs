//! Points on threads.
//!
//! Problem: points take from seconds to hours, and one may panic. Approach: each thread takes the next point when it has
//! done one, so that a slow point holds up nobody; a panic is caught and becomes the point's failure. What happens is
//! handed to the one thread that speaks to people and keeps the list.
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
    /// It cannot be run, and why.
    Failed(String),
    /// Somebody interrupted it.
    Interrupted,
    /// Its files cannot be written.
    Disk(FileError),
}

/// What the threads tell; the number is the point's place in the plan.
#[derive(Debug)]
pub(crate) enum Event {
    /// A thread took a point.
    Started(usize),
    /// How far a point has come.
    Step(usize, Progress),
    /// A thread is done with a point.
    Ended(usize, Ended),
}

/// Runs `work` for all points, `jobs` at a time, in their order; no new ones once `stop` is set, or after one that was
/// interrupted or whose files cannot be written. `on` is called on this thread.
///
/// # Errors
/// If threads cannot be started; what was begun is then done.
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
                // Nobody listens only when the other side has panicked; this thread then ends with the next point.
                let tell = |event| drop(sender.send(event));
                while !stop.load(Ordering::Relaxed)
                    && let Some(&point) = points.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    tell(Event::Started(point));
                    let mut step = |progress| tell(Event::Step(point, progress));
                    let ended = catch(|| work(point, &mut step)).unwrap_or_else(Ended::Failed);
                    // At once: whoever listens may be slower than the next point.
                    if matches!(ended, Ended::Disk(_) | Ended::Interrupted) {
                        stop.store(true, Ordering::Relaxed);
                    }
                    tell(Event::Ended(point, ended));
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

    /// Runs points that end as `work` says, and gives their ends by place.
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
    fn a_panic_is_the_points_own() {
        let work = |point| if point == 1 { panic!("port 3 above\n its rate") } else { Ended::Complete };
        let ends = ends(&[0, 1, 2, 5], 2, work);
        assert_eq!(ends.len(), 4);
        assert!(ends.iter().all(|(point, end)| (*point == 1) != (end == "Complete")), "{ends:?}");
        assert!(ends[&1].contains("port 3 above its rate") && ends[&1].contains("pool.rs"), "{ends:?}");
    }

    #[test]
    fn a_slow_point_does_not_hold_up_the_others() {
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
