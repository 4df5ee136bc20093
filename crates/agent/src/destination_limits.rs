//! The thread that holds destinations to what their receivers say, where HTB does it.
//!
//! Problem: a receiver's word changes every interval of its meter, 200 µs at 10 Gb/s, and must become a class's rate in less than the few
//! intervals in which the loop stays steady; the daemon's own loop computes shares for milliseconds at a time. Approach: a thread of its own
//! that sleeps until the kernel has news, takes all of it, and sets all classes in one netlink batch. It runs as a real-time
//! thread where it may (CAP_SYS_NICE), else as any other, which whoever started it can ask for ([`DestinationLimits::is_prompt`]).
//!
//! Where packets are given departure times the kernel does it by itself, has no news, and the thread only sleeps.
//!
//! What fails for good ends the thread, and the daemon with it: it asks after each period.
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

/// How long the thread sleeps without news at most: so late a silent receiver is noticed.
const SLEEP_MS: i32 = 100;
/// Without a word for so long a receiver holds nobody (Parley: idle limiters go; EyeQ's second).
const SILENCE: Duration = Duration::from_secs(1);
/// Destinations that were heard of within so long are remembered, however many there are: their order tells replays.
const MEMORY: Duration = Duration::from_secs(10);
/// How often room is looked for: it means reading the whole table, and an eighth of it is left when that begins
/// to be needed.
const ROOM_EVERY: std::time::Duration = std::time::Duration::from_secs(1);
/// Above ordinary threads, below what the kernel itself runs.
const PRIORITY: i32 = 10;

/// The thread, ended and joined when dropped.
pub(crate) struct DestinationLimits {
    thread: Option<JoinHandle<Result<(), HostError>>>,
    stop: Arc<AtomicBool>,
    destinations: Arc<Mutex<Destinations>>,
    prompt: Arc<AtomicBool>,
}

impl DestinationLimits {
    /// Starts it.
    pub(crate) fn start(destinations: Destinations, shaper: SharedShaper) -> io::Result<Self> {
        let (stop, prompt) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let destinations = Arc::new(Mutex::new(destinations));
        let (held, ends, is_prompt) = (Arc::clone(&destinations), Arc::clone(&stop), Arc::clone(&prompt));
        let run = move || {
            is_prompt.store(be_prompt(), Ordering::Relaxed);
            let mut looked = now();
            while !ends.load(Ordering::Relaxed) {
                wait(&held)?;
                serve(&held, &shaper)?;
                if looked.elapsed() >= ROOM_EVERY {
                    looked = now();
                    lock(&held).make_room(MEMORY)?;
                }
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("destinations".into()).spawn(run)?;
        Ok(Self { thread: Some(thread), stop, destinations, prompt })
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

    /// Does `work` while nobody sets classes. The shaper is locked inside, if at all: the thread takes both in this order.
    pub(crate) fn pause<T>(&self, work: impl FnOnce(&mut Destinations) -> T) -> T {
        work(&mut lock(&self.destinations))
    }

    /// Feedback of all destinations, by the service's slot.
    pub(crate) fn told(&self) -> Result<BTreeMap<u32, u64>, HostError> {
        Ok(lock(&self.destinations).feedback_received()?)
    }

    /// Destinations heard of lately.
    pub(crate) fn readings(&self) -> Result<Vec<DestinationReading>, HostError> {
        Ok(lock(&self.destinations).readings(SILENCE)?)
    }
}

impl Drop for DestinationLimits {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its error was told by `check`, or nobody is left to tell.
            let _ = thread.join();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the driver's clock")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Whoever panicked while holding it left values that stand for themselves.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until there is news, [`SLEEP_MS`] at most.
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

/// Takes all news and sets the classes by it.
fn serve(destinations: &Mutex<Destinations>, shaper: &SharedShaper) -> Result<(), HostError> {
    let mut destinations = lock(destinations);
    let mut rates = destinations.events()?;
    // Rarely anything; the list of those with a class is short.
    let silent: Vec<DestinationRate> = destinations.silent(SILENCE)?;
    for gone in &silent {
        // From the next packet on; then the class may go.
        destinations.set_class(gone.destination, 0);
    }
    rates.extend(silent);
    if !rates.is_empty()
        && let Some(shaper) = lock(shaper).as_mut()
    {
        for (destination, class) in shaper.limit_destinations(&rates)? {
            destinations.set_class(destination, class);
        }
    }
    Ok(())
}

/// Makes the calling thread one that wakes at once; whether that is permitted.
fn be_prompt() -> bool {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: plain system calls on the calling thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0
    }
}
