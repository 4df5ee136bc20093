//! A simulation on a thread of its own, so that the program responds while its network is built.
//!
//! Problem: the simulator reports progress and accepts Ctrl-C between two samples. The network of a
//! hundred thousand hosts takes many seconds to build before the first of them, and a user who
//! started a run that is too large would have to kill the program. Approach: the simulation runs on
//! a thread; this one receives its progress, reports that the network is being built as long as there
//! is none, and abandons the thread if an end is requested in that time: there are no results
//! yet. The abandoned thread ends with the process.
//!
//! Worked example: Ctrl-C while a fat-tree of 250,000 hosts is built ends the program within a second.

use crate::results::names_are_unique;
use crate::{Stop, Stopwatch};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Once, mpsc};
use std::time::Duration;
use std::{io, thread};
use weir_results::InvalidResults;
use weir_scenario::Scenario;
use weir_sim::{Options, Progress, RunError, RunOutcome, simulate};

/// The time between two updates of the progress.
const STEP: Duration = Duration::from_millis(100);
/// How long the building of a network may still take after an interruption, in wall-clock seconds:
/// a network that is nearly built reaches its first sample, and the run ends as any other.
const GRACE: f64 = 0.5;

/// Wall-clock seconds of a simulation, by its own thread's clock: the progress may arrive late.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// Until its network was built.
    pub building: f64,
    /// From then until the end.
    pub running: f64,
}

/// How a simulation ended.
#[derive(Debug)]
pub enum Ran {
    /// It came to an end, or was interrupted with results.
    Outcome(Box<RunOutcome>, Spent),
    /// It cannot be run.
    Refused(RunError),
    /// Two of its hosts, groups, links or services have one name, so it was not run.
    SameName(InvalidResults),
    /// Interrupted while its network was built: there is nothing.
    Nothing,
    /// It panicked: message and position.
    Broken(String),
}

/// Runs a scenario. `on` is called on this thread, about ten times a second: `None` while the network is built.
///
/// # Errors
/// If the thread cannot be started.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    options: &Options,
    stop: &Stop,
    on: &mut dyn FnMut(Option<Progress>),
) -> io::Result<Ran> {
    let (sender, progress) = mpsc::channel();
    // The network and lists of flows are shared, so this is cheap.
    let (scenario, options, requested) = (scenario.clone(), *options, stop.clone());
    let work = move || {
        // Here, since the names of a large network take a while.
        names_are_unique(&scenario).map_err(Ran::SameName)?;
        let mut reported: Option<Stopwatch> = None;
        let (begun, mut building) = (Stopwatch::start(), 0.0);
        let outcome = simulate(&scenario, seed, &options, &mut |now| {
            let first = reported.is_none();
            if first {
                building = begun.seconds();
            }
            if reported.is_none_or(|reported| reported.seconds() >= STEP.as_secs_f64()) {
                reported = Some(Stopwatch::start());
                // Sending fails only if this thread was abandoned.
                let _ = sender.send(now);
            }
            if requested.is_requested() && !first { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let outcome = outcome.map_err(Ran::Refused)?;
        Ok((outcome, Spent { building, running: begun.seconds() - building }))
    };
    let thread = thread::Builder::new().name("simulation".to_owned()).spawn(move || catch(work))?;
    let mut built = false;
    let mut stopping: Option<Stopwatch> = None;
    loop {
        match progress.recv_timeout(STEP) {
            Ok(now) => {
                built = true;
                on(Some(now));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) if built => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                on(None);
                if stop.is_requested() && stopping.get_or_insert_with(Stopwatch::start).seconds() >= GRACE {
                    return Ok(Ran::Nothing);
                }
            }
        }
    }
    Ok(match thread.join() {
        Ok(Ok(Ok((outcome, spent)))) => Ran::Outcome(Box::new(outcome), spent),
        Ok(Ok(Err(ran))) => ran,
        Ok(Err(panic)) => Ran::Broken(panic),
        // Panics are caught on the thread itself.
        Err(panic) => panic::resume_unwind(panic),
    })
}

thread_local! {
    /// The panic of this thread, if its panics are caught.
    static PANIC: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// Runs `work`.
///
/// # Errors
/// The message and the position of a panic, which is not printed.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let caught = PANIC.with_borrow_mut(|panic| panic.as_mut().map(|text| *text = Some(info.to_string())));
            if caught.is_none() {
                before(info);
            }
        }));
    });
    PANIC.set(Some(None));
    // The state of the work is dropped, so an inconsistency has no effect.
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    let text = PANIC.take().flatten();
    done.map_err(|_| {
        let text = text.unwrap_or_else(|| "panicked".to_owned());
        format!("broken invariant: {}", text.split_whitespace().collect::<Vec<_>>().join(" "))
    })
}
