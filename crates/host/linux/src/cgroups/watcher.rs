//! [`Watcher`]: the thread that keeps the groups of a classifier up to date.
//!
//! Order of calls: [`Watcher::new`] walks and writes the groups beside those of the classifier in use, whose own thread
//! goes on; the classifiers change over; the earlier watcher is dropped; [`Watcher::start`] starts the thread, whose
//! first walk removes the groups of the earlier classifier. Events meanwhile wait in inotify's queue.
//!
//! After a walk the thread pauses for some times as long as it took, so that a storm of new groups takes a part of a
//! processor at most. A walk that left groups out is repeated after a second.

use super::walk::{Found, Inotify, walk, without_group};
use super::{CgroupError, CgroupReading, Hierarchy, Table};
use crate::wait::has_to_end;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_policy::CgroupGlob;

/// The pause after a walk, in times of the walk: it takes a fifth of a processor at most.
const PAUSE: u32 = 4;
/// The time after which a walk that left groups out is repeated.
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
    /// By the last walk.
    reading: Mutex<CgroupReading>,
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
            reading: Mutex::default(),
        };
        match shared.update()? {
            Update { count, without: 1.. } => Err(CgroupError::TooMany { count }),
            Update { .. } => Ok(Self { shared: Arc::new(shared), thread: None }),
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
        Ok(lock(&self.shared.reading).clone())
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

/// The result of a walk.
struct Update {
    /// The groups that were found.
    count: usize,
    /// Those of them that have no entry.
    without: usize,
}

impl Shared {
    /// Walks and writes the groups.
    fn update(&self) -> Result<Update, CgroupError> {
        self.inotify.clear();
        let Found { groups, missed } = walk(&self.hierarchy, &self.globs, &self.inotify)?;
        let without = lock(&self.table).set(&groups, &self.globs, self.index, now())?;
        let count = groups.len();
        let too_many = (without > 0).then(|| CgroupError::TooMany { count }.to_string());
        let reasons: Vec<String> = [too_many, missed].into_iter().flatten().collect();
        let missed = (!reasons.is_empty()).then(|| reasons.join("; "));
        let unmatched = without_group(&groups, &self.globs);
        *lock(&self.reading) = CgroupReading { groups: count - without, missed, unmatched };
        Ok(Update { count, without })
    }

    fn run(&self) {
        loop {
            let begin = now();
            if let Err(error) = self.update() {
                lock(&self.reading).missed = Some(error.to_string());
            }
            let again = lock(&self.reading).missed.as_ref().map(|_| AGAIN);
            let took = now().saturating_duration_since(begin);
            if has_to_end(&self.end, &[], Some(took * PAUSE))
                || has_to_end(&self.end, &[self.inotify.as_raw_fd()], again)
            {
                return;
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroups::table::tests::table;
    use std::fs;

    /// Voluntary changes of context of the threads of this process that watch control groups.
    fn waits() -> u64 {
        let tasks = fs::read_dir("/proc/self/task").expect("threads").flatten().map(|task| task.path());
        let own = tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "cgroups\n"));
        let status = own.filter_map(|task| fs::read_to_string(task.join("status")).ok());
        let count = |status: String| {
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).map(str::trim);
            line.and_then(|count| count.parse::<u64>().ok()).expect("a number")
        };
        status.map(count).sum()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "waits for a thread")]
    fn walks_that_fail_are_repeated_each_second() {
        let root = std::env::temp_dir().join(format!("weir-watcher-{}", std::process::id()));
        fs::create_dir_all(root.join("a/x")).expect("a directory");
        let globs = [CgroupGlob::new("/a/*").expect("a glob")];
        let table = Arc::new(Mutex::new(table(10).1));
        let mut watcher = Watcher::new(Hierarchy::at(root.clone()), &globs, 0, table).expect("it walks");
        watcher.start().expect("a thread");
        assert_eq!(watcher.reading().expect("it runs"), CgroupReading { groups: 1, ..CgroupReading::default() });
        fs::remove_dir_all(&root).expect("removed");
        let begin = now();
        while watcher.reading().expect("it runs").missed.is_none() {
            assert!(now() - begin < Duration::from_secs(10), "the failure is reported");
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = waits();
        std::thread::sleep(Duration::from_millis(500));
        assert!(waits() - before < 10, "{}", waits() - before);
    }
}
