//! [`Watcher`]: the thread that keeps the groups of a classifier up to date.
//!
//! Order of calls: [`Watcher::new`] walks and writes the groups beside those of the classifier in use; the classifiers
//! change over; [`Watcher::start`] starts the thread, whose first walk removes the groups of the earlier classifier.
//! Events meanwhile wait in inotify's queue.
//!
//! After a walk the thread pauses for some times as long as it took, so that a storm of new groups takes a part of a
//! processor at most.

use super::walk::{Inotify, walk};
use super::{CgroupError, CgroupReading, Hierarchy, Table};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_policy::CgroupGlob;

/// The pause after a walk, in times of the walk: it takes a fifth of a processor at most.
const PAUSE: u32 = 4;
/// The time after which a walk that failed is repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// State of the thread and of its owner.
struct Shared {
    hierarchy: Hierarchy,
    globs: Vec<CgroupGlob>,
    /// The classifier.
    index: u32,
    table: Arc<Mutex<Table>>,
    inotify: Inotify,
    /// Readable when the thread has to end.
    end: OwnedFd,
    /// The reason why the last walk left groups out, if any.
    missed: Mutex<Option<String>>,
}

/// The groups of one classifier. The thread ends when this is dropped.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Finds the groups of globs and writes them for the classifier `index`, beside those of the other one.
    pub(crate) fn new(
        hierarchy: Hierarchy,
        globs: &[CgroupGlob],
        index: u32,
        table: Arc<Mutex<Table>>,
    ) -> Result<Self, CgroupError> {
        // SAFETY: plain system call; the result is checked before it is owned.
        let end = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if end < 0 {
            return Err(CgroupError::Watch(io::Error::last_os_error()));
        }
        let shared = Shared {
            hierarchy,
            globs: globs.to_vec(),
            index,
            table,
            inotify: Inotify::new()?,
            // SAFETY: a new descriptor that nothing else owns.
            end: unsafe { OwnedFd::from_raw_fd(end) },
            missed: Mutex::default(),
        };
        match shared.update(true)? {
            0 => Ok(Self { shared: Arc::new(shared), thread: None }),
            without => Err(CgroupError::TooMany { count: lock(&shared.table).groups() + without }),
        }
    }

    /// Starts the thread.
    pub(crate) fn start(&mut self) -> Result<(), CgroupError> {
        let shared = Arc::clone(&self.shared);
        let named = std::thread::Builder::new().name("cgroups".into());
        self.thread = Some(named.spawn(move || shared.run()).map_err(CgroupError::Watch)?);
        Ok(())
    }

    /// An error if the thread has ended.
    pub(crate) fn check(&self) -> Result<(), CgroupError> {
        match self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            true => Err(CgroupError::Thread),
            false => Ok(()),
        }
    }

    /// The groups that exist, and the reason why others are left out.
    pub(crate) fn reading(&self) -> Result<CgroupReading, CgroupError> {
        self.check()?;
        let missed = lock(&self.shared.missed).clone();
        Ok(CgroupReading { groups: lock(&self.shared.table).groups(), missed })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let one = 1u64;
        // SAFETY: the kernel reads eight bytes.
        unsafe { libc::write(self.shared.end.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
        if let Some(thread) = self.thread.take() {
            // A panic was reported by `reading`, or the agent ends.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Walks and writes the groups; returns how many have no entry.
    fn update(&self, beside: bool) -> Result<usize, CgroupError> {
        self.inotify.clear();
        let found = walk(&self.hierarchy, &self.globs, &self.inotify)?;
        Ok(lock(&self.table).set(&found, &self.globs, self.index, beside, now())?)
    }

    fn run(&self) {
        loop {
            let begin = now();
            let missed = match self.update(false) {
                Ok(0) => None,
                Ok(without) => {
                    let count = lock(&self.table).groups() + without;
                    Some(CgroupError::TooMany { count }.to_string())
                }
                Err(error) => Some(error.to_string()),
            };
            let again = missed.as_ref().map(|_| AGAIN);
            *lock(&self.missed) = missed;
            let took = now().saturating_duration_since(begin);
            // Deleted groups leave the map without an event.
            let due = lock(&self.table).due().map(|due| due.saturating_duration_since(now()));
            let wait = [again, due].into_iter().flatten().min();
            if self.has_to_end(&[], Some(took * PAUSE)) || self.has_to_end(&[self.inotify.as_raw_fd()], wait) {
                return;
            }
        }
    }

    /// Waits for a file to be readable, or for a time. Returns whether the thread has to end.
    fn has_to_end(&self, files: &[i32], time: Option<Duration>) -> bool {
        let poll = |fd: &i32| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
        let mut files: Vec<libc::pollfd> = [self.end.as_raw_fd()].iter().chain(files).map(poll).collect();
        let time = time.map(|time| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
        });
        let timeout = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: both pointers are valid during the call.
        unsafe { libc::ppoll(files.as_mut_ptr(), files.len() as libc::nfds_t, timeout, std::ptr::null()) };
        // An interrupted wait is another walk.
        files[0].revents != 0
    }
}

#[expect(clippy::disallowed_methods, reason = "the driver's clock")]
fn now() -> Instant {
    Instant::now()
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves entries that the next walk corrects.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
