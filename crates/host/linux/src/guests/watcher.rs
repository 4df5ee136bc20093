//! [`Watcher`]: the thread that keeps the guests of an interface up to date.
//!
//! A change of a link is followed by a list of all links and forwarding databases, since bridges and VLANs may have
//! changed too. A change of a forwarding database is applied by itself, at once, and so is the end of an interface: the
//! next one may have its index. The next list is some times as long after a list as that took, so that a storm of new
//! interfaces takes a part of a processor at most. Lost messages are a reason for a list, and a list that failed is
//! repeated after a second.
//!
//! A change of the records of pods is a reason for a list too, while a classifier selects pods.
//!
//! Messages wait in the socket's queue while a list is read, so that none is older than the list and applied before it.

use super::links::{Kind, departed, links, untagged_vlans};
use super::marks::Marks;
use super::neighbours::{Change, neighbours};
use super::pods::{self, PodRecords};
use super::state::State;
use super::topology::Topology;
use super::{GuestError, GuestReading};
use crate::netlink::{Notifications, Socket};
use crate::netns;
use crate::wait::{has_to_end, is_readable};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_pods::Directory;

/// The time from a list to the next one, in times of the list: lists take a fifth of a processor at most.
const PAUSE: u32 = 4;
/// The time after which a list that failed is repeated.
const AGAIN: Duration = Duration::from_secs(1);
/// rtnetlink.h: links and neighbours, those of bridges included.
const GROUPS: u32 = 0x1 | 0x4;

/// The sockets, locked while what they return is applied.
struct Kernel {
    socket: Socket,
    notifications: Notifications,
    marks: Marks,
    /// Or why they cannot be followed, which matters only if a classifier selects pods.
    pods: Result<PodRecords, String>,
    /// The duration of the last list, without that of attaching programs, once to each interface.
    took: Duration,
}

/// Failures of the last list.
#[derive(Default)]
struct Problems {
    /// Why there is no list.
    failed: Option<String>,
    /// Why an interface has no program.
    unmarked: Option<String>,
    /// Why pods are not known, or not their labels.
    pods: Vec<String>,
}

/// State of the thread and of its owner.
struct Shared {
    namespace: File,
    uplink: u32,
    kernel: Mutex<Kernel>,
    notifications: i32,
    /// Readable when the records of pods change.
    records: Option<i32>,
    /// Beside `kernel`, whose lock is held while the kernel's RTNL lock is waited for.
    problems: Mutex<Problems>,
    /// Locked after `kernel`.
    state: Arc<Mutex<State>>,
    /// Readable when the thread has to end.
    end: OwnedFd,
}

/// The guests of one interface. The thread ends when this is dropped.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// For the interface of this index in a namespace.
    pub(super) fn new(
        namespace: &File,
        uplink: u32,
        state: Arc<Mutex<State>>,
        marks: Marks,
        pods: Directory,
    ) -> Result<Self, GuestError> {
        let open = || Ok::<_, GuestError>((Socket::open()?, Notifications::subscribe(GROUPS)?));
        let (socket, notifications) = netns::inside(namespace, open).map_err(GuestError::Wait)??;
        // SAFETY: plain system call; the result is checked before it is owned.
        let end = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if end < 0 {
            return Err(GuestError::Wait(std::io::Error::last_os_error()));
        }
        // SAFETY: a new descriptor that nothing else owns.
        let end = unsafe { OwnedFd::from_raw_fd(end) };
        let fd = notifications.as_raw_fd();
        let pods = PodRecords::open(pods).map_err(|error| format!("follow the records of pods: {error}"));
        let records = pods.as_ref().ok().map(PodRecords::as_raw_fd);
        let kernel = Mutex::new(Kernel { socket, notifications, marks, pods, took: Duration::ZERO });
        let namespace = namespace.try_clone().map_err(GuestError::Wait)?;
        let problems = Mutex::default();
        let shared = Shared { namespace, uplink, kernel, notifications: fd, records, problems, state, end };
        Ok(Self { shared: Arc::new(shared), thread: None })
    }

    /// Removes the programs from all interfaces of guests.
    pub(super) fn unmark(&self) -> Result<(), GuestError> {
        let marks = &mut lock(&self.shared.kernel).marks;
        let set = netns::inside(&self.shared.namespace, || marks.set(&BTreeMap::new())).map_err(GuestError::Wait)?;
        set.map(drop).map_err(|error| GuestError::Program(Box::new(error)))
    }

    /// Keeps the thread from reading messages and lists.
    #[cfg(test)]
    pub(super) fn hold(&self) -> impl Drop + '_ {
        lock(&self.shared.kernel)
    }

    /// Lists links and forwarding databases now.
    pub(super) fn update(&self) -> Result<(), GuestError> {
        self.shared.update(&mut lock(&self.shared.kernel))
    }

    /// Starts the thread, if it does not run.
    pub(super) fn start(&mut self) -> Result<(), GuestError> {
        if self.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let named = std::thread::Builder::new().name("guests".into());
            self.thread = Some(named.spawn(move || shared.run()).map_err(GuestError::Wait)?);
        }
        Ok(())
    }

    /// An error if the thread has ended.
    pub(super) fn check(&self) -> Result<(), GuestError> {
        match self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            true => Err(GuestError::Thread),
            false => Ok(()),
        }
    }

    /// The guests of the classifier of a table.
    pub(super) fn reading(&self, table: u32) -> Result<GuestReading, GuestError> {
        self.check()?;
        let (problem, pods) = {
            let problems = lock(&self.shared.problems);
            (problems.failed.clone().or_else(|| problems.unmarked.clone()), several(&problems.pods))
        };
        let state = lock(&self.shared.state);
        let (guests, unmatched) = (state.count(table), state.unmatched(table));
        let reasons: Vec<String> = problem.or_else(|| state.missed()).into_iter().chain(pods).collect();
        Ok(GuestReading { guests, missed: (!reasons.is_empty()).then(|| reasons.join("; ")), unmatched })
    }
}

/// The first of some reasons, and the number of the others.
fn several(reasons: &[String]) -> Option<String> {
    let first = reasons.first()?;
    Some(if reasons.len() == 1 { first.clone() } else { format!("{first} (and {} more)", reasons.len() - 1) })
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
    }
}

impl Watcher {
    /// Ends the thread. Programs are removed from guests after it, since it would attach them again.
    pub(super) fn end(&mut self) {
        let one = 1u64;
        // SAFETY: the kernel reads eight bytes.
        unsafe { libc::write(self.shared.end.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
        if let Some(thread) = self.thread.take() {
            // A panic was reported by `check`, or the agent ends.
            let _ = thread.join();
        }
    }
}

impl Kernel {
    /// Gives guests their pods; returns the reasons why some have none. Without records no guest is a pod.
    fn pods(&mut self, topology: &mut Topology) -> Vec<String> {
        let records = self.pods.as_mut().map_err(|error| error.clone()).and_then(PodRecords::read);
        match records {
            Ok(records) => pods::join(topology, &records),
            Err(error) => vec![error],
        }
    }
}

impl Shared {
    /// Lists links and forwarding databases, and replaces the entries of the maps.
    fn update(&self, kernel: &mut Kernel) -> Result<(), GuestError> {
        let listed = self.list(kernel);
        lock(&self.problems).failed = listed.as_ref().err().map(ToString::to_string);
        listed
    }

    fn list(&self, kernel: &mut Kernel) -> Result<(), GuestError> {
        let begin = now();
        let links = links(&mut kernel.socket)?;
        let untagged = match links.iter().any(|link| link.kind == (Kind::Bridge { vlans: true })) {
            true => untagged_vlans(&mut kernel.socket)?,
            false => BTreeMap::new(),
        };
        let has_bridges = links.iter().any(|link| matches!(link.kind, Kind::Bridge { .. }));
        let entries = if has_bridges { neighbours(&mut kernel.socket)? } else { Vec::new() };
        let mut topology = Topology::new(self.uplink, &links, &untagged);
        let selects_pods = lock(&self.state).selects_pods();
        let mut reasons = if selects_pods { kernel.pods(&mut topology) } else { Vec::new() };
        let numbered = {
            let mut state = lock(&self.state);
            state.replace(topology, &entries)?;
            reasons.extend(state.without_pod());
            state.numbered().clone()
        };
        lock(&self.problems).pods = reasons;
        kernel.took = now().saturating_duration_since(begin);
        let marks = &mut kernel.marks;
        let set = netns::inside(&self.namespace, || marks.set(&numbered)).map_err(GuestError::Wait)?;
        lock(&self.problems).unmarked = set.map_err(|error| GuestError::Program(Box::new(error)))?;
        Ok(())
    }

    /// Applies the messages that wait; returns whether a list is due.
    fn follow(&self, kernel: &mut Kernel) -> Result<bool, GuestError> {
        let (messages, are_lost) = kernel.notifications.read()?;
        let of_link = |kind| matches!(kind, libc::RTM_NEWLINK | libc::RTM_DELLINK);
        let gone: Vec<u32> = messages.iter().filter_map(departed).collect();
        if are_lost || !gone.is_empty() {
            let marks = &mut kernel.marks;
            let forget = || match are_lost {
                true => marks.forget_all(),
                false => gone.iter().try_for_each(|index| marks.forget(*index)),
            };
            let forgotten = netns::inside(&self.namespace, forget).map_err(GuestError::Wait)?;
            forgotten.map_err(|error| GuestError::Program(Box::new(error)))?;
        }
        let mut state = lock(&self.state);
        for message in &messages {
            departed(message).map_or(Ok(()), |index| state.forget(index))?;
            Change::read(message).map_or(Ok(()), |change| state.follow(&change))?;
        }
        Ok(are_lost || messages.iter().any(|message| of_link(message.kind)))
    }

    fn run(&self) {
        // Spares a thread for each list; without it, a list enters the namespace itself.
        let _ = netns::enter(&self.namespace);
        // Whether a list is due, and the earliest time of it.
        let (mut is_due, mut next) = (false, now());
        loop {
            // After a failure messages wait, too: a read that fails would be repeated at once.
            let has_failed = lock(&self.problems).failed.is_some();
            if has_failed && !is_due {
                // That of the owner's list.
                (is_due, next) = (true, now() + AGAIN);
            }
            let time = is_due.then(|| next.saturating_duration_since(now()));
            // Events of records remain until the list that is due reads them.
            let records = self.records.filter(|_| !is_due && lock(&self.state).selects_pods());
            let files: Vec<i32> =
                if has_failed { None } else { Some(self.notifications) }.into_iter().chain(records).collect();
            if has_to_end(&self.end, &files, time) {
                return;
            }
            is_due |= records.is_some_and(is_readable);
            let mut kernel = lock(&self.kernel);
            let followed = self.follow(&mut kernel);
            if let Err(error) = &followed {
                lock(&self.problems).failed = Some(error.to_string());
                (is_due, next) = (true, now() + AGAIN);
                continue;
            }
            is_due |= matches!(followed, Ok(true));
            if !is_due || now() < next {
                continue;
            }
            is_due = self.update(&mut kernel).is_err();
            next = now() + if is_due { AGAIN } else { kernel.took * PAUSE };
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the driver's clock")]
fn now() -> Instant {
    Instant::now()
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves entries that the next list corrects.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
