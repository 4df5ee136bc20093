//! The thread that sets destinations to the rates of their receivers, with the backend HTB.
//!
//! Problem: a receiver's feedback changes every interval of its meter, 200 µs at 10 Gb/s, and must
//! become a class's rate within the few intervals in which the control loop is stable; the daemon's
//! own loop computes shares for milliseconds at a time. Approach: a thread of its own that sleeps
//! until the kernel's ring buffer has events, takes all of them, and sets all classes in one
//! netlink batch. It runs as a real-time thread where that is permitted (CAP_SYS_NICE), else as an
//! ordinary one ([`DestinationLimits::is_prompt`]).
//!
//! With departure times the kernel itself enforces the rates. It then emits no events, and the
//! thread only sleeps.
//!
//! A permanent failure ends the thread, and the daemon with it: the daemon checks after each
//! period.
//!
//! Source: Parley section 3.2.1, Figure 10.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use weir_linux::destinations::{DestinationReading, Destinations};
use weir_linux::shaper::{DestinationRate, Shaper};
use weir_units::Duration;

use crate::host::HostError;

/// The shaper, which the daemon's loop and this thread set.
pub(crate) type SharedShaper = Arc<Mutex<Option<Box<dyn Shaper>>>>;

/// The longest sleep without events, and so the latest time at which a silent receiver is noticed.
const SLEEP_MS: i32 = 100;
/// Without feedback for this long a receiver's rate no longer applies (Parley: idle limiters go;
/// EyeQ's second).
const SILENCE: Duration = Duration::from_secs(1);
/// Destinations with feedback within this time are kept, however many there are: their sequence
/// numbers detect replays.
const MEMORY: Duration = Duration::from_secs(10);
/// How often room is made: it means reading the whole table, and an eighth of the table is left
/// when that begins to be needed.
const ROOM_EVERY: std::time::Duration = std::time::Duration::from_secs(1);
/// Above ordinary threads, below the kernel's own.
const PRIORITY: i32 = 10;

/// The thread; it is ended and joined when dropped.
pub(crate) struct DestinationLimits {
    thread: Option<JoinHandle<Result<(), HostError>>>,
    stop: Arc<AtomicBool>,
    destinations: Arc<Mutex<Destinations>>,
    /// Held while classes are set, which may wait for the kernel: `destinations` is locked for
    /// shorter, as the daemon's loop reads it.
    turn: Arc<Mutex<()>>,
    prompt: Arc<AtomicBool>,
}

impl DestinationLimits {
    /// Starts the thread.
    pub(crate) fn start(destinations: Destinations, shaper: SharedShaper) -> io::Result<Self> {
        let (stop, prompt) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (destinations, turn) = (Arc::new(Mutex::new(destinations)), Arc::new(Mutex::new(())));
        let (shared, ends, is_prompt) = (Arc::clone(&destinations), Arc::clone(&stop), Arc::clone(&prompt));
        let turns = Arc::clone(&turn);
        let run = move || {
            is_prompt.store(be_prompt(), Ordering::Relaxed);
            let mut checked = now();
            while !ends.load(Ordering::Relaxed) {
                wait(&shared)?;
                let _turn = lock(&turns);
                serve(&shared, &shaper)?;
                if checked.elapsed() >= ROOM_EVERY {
                    checked = now();
                    lock(&shared).make_room(MEMORY)?;
                }
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("destinations".into()).spawn(run)?;
        Ok(Self { thread: Some(thread), stop, destinations, turn, prompt })
    }

    /// An error if the thread ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), HostError> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(thread) = self.thread.take()
        {
            return thread.join().unwrap_or(Err(HostError::DestinationThread));
        }
        Ok(())
    }

    /// Whether it has not ended by itself.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Whether it runs as a real-time thread.
    pub(crate) fn is_prompt(&self) -> bool {
        self.prompt.load(Ordering::Relaxed)
    }

    /// Does `work` while the thread sets no classes. The shaper is locked inside, if at all: the
    /// thread takes its turn first too.
    pub(crate) fn pause<T>(&self, work: impl FnOnce(&mut Destinations) -> T) -> T {
        let _turn = lock(&self.turn);
        work(&mut lock(&self.destinations))
    }

    /// Feedback of all destinations, by the service's slot.
    pub(crate) fn reported(&self) -> Result<BTreeMap<u32, u64>, HostError> {
        Ok(lock(&self.destinations).feedback_received()?)
    }

    /// Destinations with feedback within [`SILENCE`].
    pub(crate) fn readings(&self) -> Result<Vec<DestinationReading>, HostError> {
        Ok(lock(&self.destinations).readings(SILENCE)?)
    }
}

impl Drop for DestinationLimits {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // `check` has reported its error, or the daemon ends and needs none.
            let _ = thread.join();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the driver's clock")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic while the lock is held leaves valid values.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until there are events, [`SLEEP_MS`] at most.
fn wait(destinations: &Mutex<Destinations>) -> Result<(), HostError> {
    let fd = lock(destinations).as_fd().as_raw_fd();
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, alive during the call.
    if unsafe { libc::poll(&raw mut poll, 1, SLEEP_MS) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(HostError::Wait(error));
        }
    }
    Ok(())
}

/// Takes all events and sets the classes accordingly.
fn serve(destinations: &Mutex<Destinations>, shaper: &SharedShaper) -> Result<(), HostError> {
    let rates = changes(&mut lock(destinations))?;
    if !rates.is_empty()
        && let Some(shaper) = lock(shaper).as_mut()
    {
        let classes = shaper.limit_destinations(&rates)?;
        let mut destinations = lock(destinations);
        for (destination, class) in classes {
            destinations.set_class(destination, class);
        }
    }
    Ok(())
}

/// The rates of destinations with feedback since the last call, and of those that are silent.
fn changes(destinations: &mut Destinations) -> Result<Vec<DestinationRate>, HostError> {
    let mut rates = destinations.events()?;
    // The list of destinations with a class is short.
    let silent: Vec<DestinationRate> = destinations.silent(SILENCE)?;
    for gone in &silent {
        // Packets stop using the class before it is deleted.
        destinations.set_class(gone.destination, 0);
    }
    rates.extend(silent);
    Ok(rates)
}

/// Makes the calling thread a real-time one with exact wake-ups; returns whether that is permitted.
pub(crate) fn be_prompt() -> bool {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: plain system calls on the calling thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0
    }
}
