//! The thread that waits for the kernel's RTNL lock.
//!
//! Problem: a request that concerns a qdisc, a class or an attached program needs the kernel's RTNL
//! lock, which the creation and the removal of interfaces hold for up to seconds on a busy host. An
//! agent that waits for it sends no reports, and its rack goes back to the static policy. Approach:
//! the daemon's loop reads and writes maps only, and posts the rest to this thread: rates, and
//! requests for a reading. Newer rates replace those that are not set yet; a newer request replaces
//! an older one. The loop waits for a reading for [`READ_WAIT`] and then goes on with the last one
//! (`weir_linux::sent::Left::go_on`).
//!
//! Order of locks: the shaper's, then that of requests. A new shaper discards what is posted for the
//! old one while it has the shaper's lock.
//!
//! Worked example: rates of 80 and then 60 Mb/s are posted while a namespace with many interfaces
//! ends; when the thread has the lock, it sets 60 Mb/s.
//!
//! Source: net/core/rtnetlink.c, rtnetlink_rcv_msg(); kernel/bpf/tcx.c, tcx_link_fill_info().

use crate::destination_limits::SharedShaper;
use crate::host::levels::LevelCheck;
use crate::host::{HostError, Missing};
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tracing::debug;
use weir_linux::loader::LoaderError;
use weir_linux::sent::{Left, Offered, Sent};
use weir_linux::shaper::{ServiceQueue, ServiceRate, ShaperError};
use weir_units::Bandwidth;

/// The longest wait of the loop for a reading: a tenth of the broker's shortest interval.
const READ_WAIT: Duration = Duration::from_millis(10);

/// The counters of an interface's qdisc.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    /// The number of its request.
    number: u64,
    /// The time of its request.
    at: Option<Instant>,
    /// By slot.
    pub(crate) left: HashMap<u32, Left>,
    /// By slot: the rate at which it has left since the reading before.
    rates: HashMap<u32, Bandwidth>,
    /// Backlog and drops at the last request for them; empty while there is no shaper.
    pub(crate) queues: Vec<ServiceQueue>,
    /// The result of the last check, until it is [taken](ShaperThread::take_check).
    check: Option<Option<Missing>>,
    /// The premises of latency bounds that did not hold at the last check.
    pub(crate) level_obstacles: Vec<String>,
}

impl Reading {
    /// The time since its request.
    pub(crate) fn age(&self) -> weir_units::Duration {
        let nanos = self.at.map_or(0, |at| now().saturating_duration_since(at).as_nanos());
        weir_units::Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The rate of a service since the reading before; zero for a service that is not in both.
    pub(crate) fn rate(&self, slot: u32) -> Bandwidth {
        self.rates.get(&slot).copied().unwrap_or(Bandwidth::ZERO)
    }

    /// Replaces the counters by newer ones.
    fn take(&mut self, request: &Request, left: HashMap<u32, Left>) {
        let time = self.at.map_or(Duration::ZERO, |at| request.at.saturating_duration_since(at));
        let time = weir_units::Duration::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let rate = |(slot, now): (&u32, &Left)| {
            let sent = now.sent.saturating_sub(self.left.get(slot)?.sent);
            Some((*slot, Bandwidth::from_transfer(sent, time)))
        };
        self.rates = left.iter().filter_map(rate).collect();
        (self.number, self.at, self.left) = (request.number, Some(request.at), left);
    }
}

/// The check that the programs are attached.
pub(crate) type ProgramCheck = Box<dyn Fn() -> Result<bool, LoaderError> + Send + Sync>;

/// A request for a reading.
#[derive(Debug, Clone)]
struct Request {
    number: u64,
    at: Instant,
    offered: Vec<Offered>,
    /// With backlog and drops.
    queues: bool,
    /// With a check of qdisc and programs.
    check: bool,
}

#[derive(Debug, Default)]
struct Requests {
    ends: bool,
    rates: Option<Vec<ServiceRate>>,
    reading: Option<Request>,
}

struct Shared {
    shaper: SharedShaper,
    programs: ProgramCheck,
    levels: Arc<LevelCheck>,
    sent: Mutex<Sent>,
    requests: Mutex<Requests>,
    posted: Condvar,
    readings: watch::Sender<Reading>,
    /// The first failure since the last [`ShaperThread::check`].
    failed: Mutex<Option<HostError>>,
}

/// The thread; it is ended and joined when dropped.
pub(crate) struct ShaperThread {
    shared: Arc<Shared>,
    readings: watch::Receiver<Reading>,
    thread: Option<JoinHandle<()>>,
    /// The number of the last request.
    number: u64,
    /// Requests whose reading was late.
    late: u64,
}

impl ShaperThread {
    /// Starts the thread, with a first reading.
    pub(crate) fn start(
        shaper: SharedShaper,
        programs: ProgramCheck,
        levels: Arc<LevelCheck>,
        sent: Sent,
        offered: Vec<Offered>,
    ) -> Result<Self, HostError> {
        let (sender, readings) = watch::channel(Reading::default());
        let shared = Arc::new(Shared {
            shaper,
            programs,
            levels,
            sent: Mutex::new(sent),
            requests: Mutex::default(),
            posted: Condvar::new(),
            readings: sender,
            failed: Mutex::default(),
        });
        let mut thread = Self { shared: Arc::clone(&shared), readings, thread: None, number: 0, late: 0 };
        thread.read(offered)?;
        let run = move || shared.run();
        let handle = std::thread::Builder::new().name("shaper".into()).spawn(run).map_err(HostError::Wait)?;
        thread.thread = Some(handle);
        Ok(thread)
    }

    /// The first failure since the last call, or that the thread has panicked.
    pub(crate) fn check(&mut self) -> Result<(), HostError> {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(HostError::ShaperThread);
        }
        lock(&self.shared.failed).take().map_or(Ok(()), Err)
    }

    /// Posts rates, instead of those that are not set yet.
    pub(crate) fn set(&self, rates: Vec<ServiceRate>) {
        lock(&self.shared.requests).rates = Some(rates);
        self.shared.posted.notify_one();
    }

    /// Discards the rates and failures of a shaper that is replaced. Call it with the shaper's lock.
    pub(crate) fn discard(&self) {
        lock(&self.shared.requests).rates = None;
        *lock(&self.shared.failed) = None;
    }

    /// Requests a reading, and waits for it for [`READ_WAIT`]; the last one is then [`Self::last`].
    pub(crate) async fn request(&mut self, offered: Vec<Offered>, queues: bool, check: bool) {
        let request = self.next(offered, queues, check);
        let number = request.number;
        {
            let mut requests = lock(&self.shared.requests);
            let before = requests.reading.take();
            requests.reading = Some(Request {
                queues: queues || before.as_ref().is_some_and(|before| before.queues),
                check: check || before.as_ref().is_some_and(|before| before.check),
                ..request
            });
        }
        self.shared.posted.notify_one();
        let is_there = self.readings.wait_for(|reading| reading.number >= number);
        if tokio::time::timeout(READ_WAIT, is_there).await.is_err() {
            self.late += 1;
        }
    }

    /// Reads on the thread of the caller.
    pub(crate) fn read(&mut self, offered: Vec<Offered>) -> Result<Reading, HostError> {
        let request = self.next(offered, false, false);
        self.shared.read(&request)?;
        Ok(self.last())
    }

    /// The last reading.
    pub(crate) fn last(&self) -> Reading {
        self.readings.borrow().clone()
    }

    /// Requests whose reading was late.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// The result of a check since the last call.
    pub(crate) fn take_check(&self) -> Option<Option<Missing>> {
        // Without a look at the value first, each call would count as a change.
        self.readings.borrow().check?;
        let mut check = None;
        self.shared.readings.send_if_modified(|reading| {
            check = reading.check.take();
            false
        });
        check
    }

    /// The part that another program removed from the interface, if any, by a check now.
    pub(crate) fn missing(&self) -> Result<Option<Missing>, HostError> {
        self.shared.missing()
    }

    fn next(&mut self, offered: Vec<Offered>, queues: bool, check: bool) -> Request {
        self.number += 1;
        Request { number: self.number, at: now(), offered, queues, check }
    }
}

impl Drop for ShaperThread {
    fn drop(&mut self) {
        lock(&self.shared.requests).ends = true;
        self.shared.posted.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic was reported by `check`, or the daemon ends and needs no report.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        while let Some(reading) = self.wait() {
            // A failure is there before the reading after it is published.
            self.keep_failure(self.set());
            self.keep_failure(reading.map_or(Ok(()), |request| self.read(&request)));
        }
    }

    fn keep_failure(&self, result: Result<(), HostError>) {
        if let Err(error) = result {
            lock(&self.failed).get_or_insert(error);
        }
    }

    /// Waits until there is work; returns the request for a reading, if any, and `None` at the end.
    fn wait(&self) -> Option<Option<Request>> {
        let idle = |requests: &mut Requests| !requests.ends && requests.rates.is_none() && requests.reading.is_none();
        let requests = lock(&self.requests);
        let mut requests = self.posted.wait_while(requests, idle).unwrap_or_else(PoisonError::into_inner);
        (!requests.ends).then(|| requests.reading.take())
    }

    fn set(&self) -> Result<(), HostError> {
        let mut shaper = lock(&self.shaper);
        let rates = lock(&self.requests).rates.take();
        if let (Some(shaper), Some(rates)) = (shaper.as_mut(), rates) {
            shaper.set(&rates)?;
        }
        Ok(())
    }

    /// Publishes a reading.
    fn read(&self, request: &Request) -> Result<(), HostError> {
        // In this order, so that no packet in transit counts as dropped (`weir_linux::sent`).
        let queues = if request.queues { Some(self.queues()?) } else { None };
        let left = {
            let mut sent = lock(&self.sent);
            let left = sent.read(&request.offered).map_err(ShaperError::from)?;
            let slots = request.offered.iter().map(|offered| offered.slot);
            let mut left: HashMap<u32, Left> = slots.zip(left).collect();
            for queue in queues.iter().flatten() {
                if let Some((slot, left)) = queue.slot.and_then(|slot| Some((slot, left.get_mut(&slot)?))) {
                    left.dropped = sent.count_drops(slot, queue.backlog);
                }
            }
            left
        };
        let check = match request.check.then(|| self.missing()) {
            Some(Ok(missing)) => Some(missing),
            // Only a reply of the kernel proves that a part is missing.
            Some(Err(error)) => {
                debug!("{error}");
                None
            }
            None => None,
        };
        let level_obstacles = request.check.then(|| self.levels.obstacles());
        self.readings.send_modify(|reading| {
            reading.take(request, left);
            reading.level_obstacles = level_obstacles.unwrap_or_else(|| std::mem::take(&mut reading.level_obstacles));
            reading.queues = queues.unwrap_or_else(|| std::mem::take(&mut reading.queues));
            reading.check = check.or(reading.check);
        });
        Ok(())
    }

    fn queues(&self) -> Result<Vec<ServiceQueue>, HostError> {
        Ok(lock(&self.shaper).as_mut().map_or(Ok(Vec::new()), |shaper| shaper.queues())?)
    }

    fn missing(&self) -> Result<Option<Missing>, HostError> {
        let there = match lock(&self.shaper).as_mut() {
            Some(shaper) => shaper.is_installed()?,
            None => false,
        };
        if !(self.programs)()? {
            // A process without free files finds nothing, whatever is there.
            File::open("/dev/null").map_err(HostError::Wait)?;
            return Ok(Some(Missing::Programs));
        }
        Ok((!there).then_some(Missing::Qdisc))
    }
}

#[expect(clippy::disallowed_methods, reason = "the driver's clock")]
fn now() -> Instant {
    Instant::now()
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves valid values.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use weir_linux::dropped::Dropped;
    use weir_linux::interface::Interface;
    use weir_linux::shaper::{Backend, DestinationRate, Shaper};
    use weir_units::{Bytes, ServiceId, Weight};

    /// A kernel that is busy as long as `busy` is locked.
    #[derive(Default)]
    struct Kernel {
        busy: Mutex<()>,
        limits: Mutex<Vec<Bandwidth>>,
        fails: AtomicBool,
    }

    struct FakeShaper(Arc<Kernel>);

    impl Shaper for FakeShaper {
        fn backend(&self) -> Backend {
            Backend::Edt
        }
        fn is_installed(&mut self) -> Result<bool, ShaperError> {
            drop(lock(&self.0.busy));
            Ok(!self.0.fails.load(Ordering::Relaxed))
        }
        fn set(&mut self, rates: &[ServiceRate]) -> Result<(), ShaperError> {
            drop(lock(&self.0.busy));
            if self.0.fails.load(Ordering::Relaxed) {
                return Err(ShaperError::NotThere);
            }
            lock(&self.0.limits).extend(rates.iter().map(|rate| rate.max));
            Ok(())
        }
        fn forget(&mut self, _: &[u32]) -> Result<(), ShaperError> {
            Ok(())
        }
        fn limit_destinations(&mut self, _: &[DestinationRate]) -> Result<Vec<(u32, u16)>, ShaperError> {
            Ok(Vec::new())
        }
        fn queues(&mut self) -> Result<Vec<ServiceQueue>, ShaperError> {
            Ok(Vec::new())
        }
        fn dropped(&mut self) -> Result<Dropped, ShaperError> {
            Ok(Dropped::default())
        }
        fn go_on_from(&mut self, _: Dropped) {}
        fn remove(self: Box<Self>) -> Result<(), ShaperError> {
            Ok(())
        }
        fn set_kept(&mut self, _: bool) {}
    }

    fn rates(mbps: u64) -> Vec<ServiceRate> {
        let max = Bandwidth::from_mbps(mbps);
        let (service, slot, min, weight) = (ServiceId(0), 1, Bandwidth::ZERO, Weight::ONE);
        vec![ServiceRate { service, slot, min, max, machine_max: max, static_limit: max, weight }]
    }

    fn offered(bytes: u64) -> Vec<Offered> {
        vec![Offered { slot: 1, bytes: Bytes::new(bytes), dropped: Bytes::ZERO, on_level: false }]
    }

    fn start() -> (Arc<Kernel>, ShaperThread, tokio::runtime::Runtime) {
        let kernel = Arc::new(Kernel::default());
        let shaper: SharedShaper = Arc::new(Mutex::new(Some(Box::new(FakeShaper(Arc::clone(&kernel))))));
        let interface = Interface::named("lo").expect("the loopback interface");
        let sent = Sent::over(&interface, Backend::Edt).expect("no socket");
        let levels = Arc::new(LevelCheck::without_levels());
        let thread = ShaperThread::start(shaper, Box::new(|| Ok(true)), levels, sent, offered(1_000)).expect("started");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        (kernel, thread, runtime)
    }

    /// The last reading, once its number is at least `number`.
    fn reading(thread: &mut ShaperThread, runtime: &tokio::runtime::Runtime, number: u64) -> Reading {
        runtime.block_on(thread.readings.wait_for(|reading| reading.number >= number)).expect("it reads").clone()
    }

    #[test]
    fn while_the_kernel_is_busy_the_newest_rates_wait_and_the_last_reading_counts() {
        let (kernel, mut thread, runtime) = start();
        assert_eq!(thread.last().left[&1].sent, Bytes::new(1_000));
        let busy = lock(&kernel.busy);
        // The thread takes the first rates, or the later ones replace them.
        for mbps in [80, 70, 60] {
            thread.set(rates(mbps));
        }
        runtime.block_on(thread.request(offered(5_000), false, false));
        runtime.block_on(thread.request(offered(9_000), false, true));
        assert_eq!((thread.late(), thread.last().number), (2, 1));
        assert!(thread.take_check().is_none());
        drop(busy);
        let last = reading(&mut thread, &runtime, 3);
        assert_eq!(last.left[&1].sent, Bytes::new(9_000));
        assert_eq!(thread.take_check(), Some(None));
        assert_eq!(thread.take_check(), None, "taken");
        let limits = lock(&kernel.limits).clone();
        assert_eq!(limits.last(), Some(&Bandwidth::from_mbps(60)));
        assert!(limits.len() <= 2, "{limits:?}");
        thread.check().expect("no failure");
    }

    #[test]
    fn failure_is_returned_once_and_a_new_shaper_discards_it() {
        let (kernel, mut thread, runtime) = start();
        kernel.fails.store(true, Ordering::Relaxed);
        thread.set(rates(80));
        runtime.block_on(thread.request(offered(2_000), false, true));
        reading(&mut thread, &runtime, 2);
        assert_eq!(thread.take_check(), Some(Some(Missing::Qdisc)));
        assert!(matches!(thread.check(), Err(HostError::Shaper(ShaperError::NotThere))));
        thread.check().expect("returned once");
        thread.set(rates(70));
        runtime.block_on(thread.request(offered(3_000), false, false));
        reading(&mut thread, &runtime, 3);
        thread.discard();
        thread.check().expect("discarded");
        assert!(lock(&kernel.limits).is_empty());
    }
}
