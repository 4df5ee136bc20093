//! [`CreditThread`]: the credits of a host's services.
//!
//! Problem: allocations are sent and gates set each period, from 1 ms on, while the daemon's own loop computes for
//! milliseconds at a time. Approach: a thread of its own with its socket, its netlink socket and its maps, which sleeps
//! until a datagram, an event of the programs, or a deadline of `weir_credits::host::Host`; all decisions are there. It
//! runs as a real-time thread where that is permitted (CAP_SYS_NICE): others are late by more than a period.
//!
//! | module | does |
//! |---|---|
//! | `assignment` | the gates of flows, and those that are free |
//! | `budget` | the processor time of the thread |
//! | `driver` | inputs and outputs of the host's machine: readings, gates, pairs |
//! | `messages` | datagrams ↔ messages, verified and in order |
//! | `report` | the status of credits |
//! | `socket` | datagrams with both of their addresses |
//!
//! A change of the policy starts another thread: flows begin anew, with the pairs, the gates and the waiting data of
//! the thread before. A failure ends the thread, and the daemon with it, unless the qdisc is gone, which the daemon
//! restores.
//!
//! Source: PACE §III; `docs/design/credits-linux.md`.

mod assignment;
mod budget;
mod driver;
mod messages;
pub(crate) mod report;
mod socket;

use crate::destination_limits::be_prompt;
use crate::host::{HostContext, HostError};
use budget::Budget;
use driver::Driver;
pub use messages::MessageCounters;
use messages::{Messages, Newest};
use socket::CreditSocket;
use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use weir_credits::host::{Aggregate, FirstPort, Held, Host, HostCounters, HostSettings};
use weir_credits::wire::PORT;
use weir_credits::{Coding, ForwarderSettings, Period, PeriodRule};
use weir_datapath::{CreditCounters, CreditPort, CreditPortSettings};
use weir_linux::class::Sending;
use weir_linux::credits::{CreditGates, CreditPairs};
use weir_linux::interface::Interface;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::service_number;
use weir_linux::settings::kernel_time;
use weir_linux::shaper::ShaperError;
use weir_policy::{Levels, beside_levels};
use weir_units::{Bandwidth, Direction, Duration, Instant, ServiceId, Weight};

/// p-min where none is configured. Real-time threads are late by 33 µs, and a round trip includes two.
pub const PERIOD: Duration = Duration::from_millis(1);
/// p-max where the policy has none: 2 · R · p of every port must be buffered there, which such a policy does not claim.
const PERIOD_MAX: Duration = Duration::from_millis(100);
/// Periods without an allocation that end a flow at the first port: three allocations in a row may be lost.
const MEMORY: u64 = 4;
/// Timeouts of requests, of the longest, without an allocation after which waiting data is dropped: 30 s with the
/// shortest periods. The other host has no agent then, since one that is restarted is back within seconds.
const ABANDON: u64 = 30;
/// The longest sleep: how late the thread ends.
const SLEEP: Duration = Duration::from_millis(100);
/// How often the list of flows is made: each turn may have another allocation.
const LIST: Duration = Duration::from_millis(100);

/// Events and state of a host's credits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreditReading {
    /// Of the flows.
    pub host: HostCounters,
    /// Of the interface as the first port.
    pub port: CreditCounters,
    /// Of datagrams.
    pub messages: MessageCounters,
    /// Flows that the host sends, and those that it receives.
    pub flows: [usize; 2],
    /// A: bytes granted that have not left.
    pub outstanding: u64,
    /// Packets dropped since the queue of their gate was full, no allocation came, or their service lost its credits.
    pub dropped: u64,
    /// Whether the thread is a real-time one.
    pub is_prompt: bool,
    /// The interface as the first port now.
    pub first: FirstPortReading,
    /// The flows that the host sends.
    pub sending: Vec<SendingFlow>,
}

/// The values that the first port has published, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FirstPortReading {
    /// R.
    pub rate_bps: u64,
    /// p, in microseconds.
    pub period_us: u32,
    /// The longest p of the port and its flows, in microseconds.
    pub longest_us: u32,
    /// The share of a thousandth of weight, in 2⁻⁴⁸ of the port.
    pub per_weight: u64,
    /// The part that no flow demands, in 2⁻³².
    pub rest: u32,
    /// 2 · C_0 in bytes.
    pub budget: u64,
    /// Q in bytes.
    pub queued: u64,
}

/// A flow that the host sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendingFlow {
    /// The flow.
    pub flow: Aggregate<IpAddr>,
    /// The product of both weights; `None` before the first allocation.
    pub weight: Option<Weight>,
    /// The rate that it may send.
    pub share: Bandwidth,
    /// The rate that it could use, as its allocation arrived.
    pub demand: Bandwidth,
    /// The constraint that holds it; `None` before the first allocation.
    pub held: Option<Held>,
}

/// The parts that outlive a thread: the socket, whose port another program could take, and the order of messages.
#[derive(Debug, Default)]
pub(crate) struct CreditOrder {
    /// While a service has credits.
    socket: Option<CreditSocket>,
    /// The highest epoch of own messages: other hosts ignore lower ones, also after a return to an old policy.
    epoch: u64,
    /// Of messages of other hosts.
    newest: Arc<Mutex<Newest>>,
}

impl CreditOrder {
    /// The socket for the next thread. Allocations that came between two threads are of gates that are closed.
    fn socket(&mut self, interface: &Interface) -> io::Result<CreditSocket> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => CreditSocket::open(interface, PORT)?,
        };
        socket.discard();
        self.socket.insert(socket).try_clone()
    }
}

/// The thread; it is ended and joined when dropped. Pairs and their gates stay, closed.
pub(crate) struct CreditThread {
    thread: Option<JoinHandle<Result<(), HostError>>>,
    stop: Arc<AtomicBool>,
    reading: Arc<Mutex<CreditReading>>,
}

impl CreditThread {
    /// Starts the thread on an interface with an HTB tree; `None` if no service has credits. Packets of services with
    /// credits wait from now on. `order` is that of earlier threads of this agent.
    pub(crate) fn start(
        context: &HostContext<'_>,
        interface: &Interface,
        datapath: &mut InterfaceDatapath,
        order: &mut CreditOrder,
    ) -> Result<Option<Self>, HostError> {
        order.epoch = order.epoch.max(context.control.epoch);
        let leaves = context.policy.services().leaves();
        let own: Vec<(ServiceId, u32, Weight)> =
            leaves.filter_map(|(id, service)| Some((id, service_number(service.path()), service.credits()?))).collect();
        if own.is_empty() {
            datapath.set_credits(&[], PORT, 0)?;
            CreditPairs::open(datapath)?.clear()?;
            CreditGates::remove_all(interface).map_err(ShaperError::from)?;
            order.socket = None;
            return Ok(None);
        }
        let mut driver = driver(context, interface, datapath, &own, order)?;
        let services: Vec<ServiceId> = own.iter().map(|(service, ..)| *service).collect();
        datapath.set_credits(&services, PORT, driver.cookie()?)?;
        driver.remove_others()?;
        let (stop, reading) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let (ends, shared, newest) = (Arc::clone(&stop), Arc::clone(&reading), Arc::clone(&order.newest));
        let run = move || {
            let result = run(&mut driver, &ends, &shared);
            *newest.lock().unwrap_or_else(PoisonError::into_inner) = driver.into_newest();
            result
        };
        let thread = std::thread::Builder::new().name("credits".into()).spawn(run).map_err(HostError::Wait)?;
        Ok(Some(Self { thread: Some(thread), stop, reading }))
    }

    /// No data waits for credits until the next thread starts: another program's qdisc has neither gates nor limits.
    pub(crate) fn suspend(datapath: &mut InterfaceDatapath) -> Result<(), HostError> {
        Ok(datapath.set_credits(&[], PORT, 0)?)
    }

    /// An error if the thread ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), HostError> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(thread) = self.thread.take()
        {
            return thread.join().unwrap_or(Err(HostError::CreditThread));
        }
        Ok(())
    }

    /// Events since the thread began.
    pub(crate) fn reading(&self) -> CreditReading {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for CreditThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // `check` has reported its error, or the daemon ends and needs none.
            let _ = thread.join();
        }
    }
}

/// The driver of a policy's services.
fn driver(
    context: &HostContext<'_>,
    interface: &Interface,
    datapath: &InterfaceDatapath,
    own: &[(ServiceId, u32, Weight)],
    order: &mut CreditOrder,
) -> Result<Driver, HostError> {
    let policy = context.policy;
    let rate = |direction| {
        let capacity = policy.machine_capacity(context.machine, direction);
        let left = beside_levels(capacity, policy.levels().and_then(Levels::reserved));
        policy.credits().map_or(left, |credits| credits.rate(left))
    };
    let sending = Sending::over(interface).map_err(HostError::Interface)?;
    let least = period(context.credit_period);
    let most = policy.credit_plan().and_then(|plan| plan.period_max).unwrap_or(PERIOD_MAX);
    let most = period(most).max(least);
    let (receiving, leaving) = (rate(Direction::Rx), rate(Direction::Tx));
    let online = CreditPort::new(&CreditPortSettings { rate: leaving, most, lossless: false });
    let rule = PeriodRule { rate: leaving, least, most, frame: sending.frame };
    let settings = ForwarderSettings { rule, memory: MEMORY };
    // Data of an earlier thread's last period may still be below the gates.
    let first = FirstPort::new(Instant::ZERO, settings, online.with_whole_frames(sending.frame))
        .with_queued(leaving.bytes_in(least.duration() * 2));
    let mut host = Host::new(host_settings(receiving, least, sending), Some(first)).with_hidden_backlog();
    host.set_services(Instant::ZERO, own.iter().map(|&(service, _, weight)| (service, weight)).collect());
    let numbers: Vec<(ServiceId, u32)> = own.iter().map(|&(service, number, _)| (service, number)).collect();
    let slot = |&(service, ..): &(ServiceId, u32, Weight)| Ok((datapath.slot(service)?, service));
    let slots = own.iter().map(slot).collect::<Result<_, HostError>>()?;
    let keys = context.keys.all().iter().map(weir_control::wire::Key::credits).collect();
    let levels = policy.levels().map_or(0, |levels| levels.all().len());
    let gates = CreditGates::new(interface, leaving, sending, levels).map_err(ShaperError::from)?;
    let socket = order.socket(interface).map_err(HostError::CreditSocket)?;
    let newest = order.newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let messages = Messages::new(keys, &numbers, order.epoch, Instant::from_nanos(kernel_time()), newest);
    Driver::new(host, CreditPairs::open(datapath)?, gates, messages, socket, slots)
}

fn period(length: Duration) -> Period {
    Period::from_micros(u32::try_from(length.nanos() / 1_000).unwrap_or(u32::MAX))
}

fn host_settings(rate: Bandwidth, least: Period, sending: Sending) -> HostSettings {
    let length = least.duration();
    let longest = Duration::from_secs(1).max(length * 10);
    HostSettings {
        rate,
        least,
        frame: sending.frame,
        whole_frames: true,
        timeout: [length * 10, longest],
        silence: (length * 20).max(Duration::from_millis(100)),
        linger: (length * 20).max(Duration::from_millis(100)),
        abandon_after: Some(longest * ABANDON),
        memory: Duration::from_secs(10),
        coding: Coding::Wide,
    }
}

fn run(driver: &mut Driver, stop: &AtomicBool, reading: &Mutex<CreditReading>) -> Result<(), HostError> {
    driver.is_prompt = be_prompt();
    let began = now();
    let time = || Instant::from_nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let (mut list_at, mut budget) = (Instant::ZERO, Budget::default());
    while !stop.load(Ordering::Relaxed) {
        let left = driver.timer().map_or(SLEEP, |due| due.saturating_since(time()).min(SLEEP));
        wait(&driver.files(), left)?;
        let now = time();
        driver.work(now)?;
        let new = (now >= list_at).then(|| driver.sending(now));
        let mut shared = reading.lock().unwrap_or_else(PoisonError::into_inner);
        let sending = match new {
            Some(sending) => {
                list_at = now + LIST;
                sending
            }
            None => std::mem::take(&mut shared.sending),
        };
        *shared = CreditReading { sending, ..driver.reading(now) };
        drop(shared);
        let pause = budget.spend(now, time());
        if pause > Duration::ZERO {
            wait(&[], pause)?;
        }
    }
    driver.close_all()
}

/// Sleeps until a file is readable, or for this long.
fn wait(files: &[RawFd], time: Duration) -> Result<(), HostError> {
    let entry = |&fd: &RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut files: Vec<libc::pollfd> = files.iter().map(entry).collect();
    let (seconds, nanos) = (time.nanos() / 1_000_000_000, time.nanos() % 1_000_000_000);
    let timeout = libc::timespec { tv_sec: seconds as libc::time_t, tv_nsec: nanos as libc::c_long };
    // SAFETY: the entries and the time live during the call.
    if unsafe { libc::ppoll(files.as_mut_ptr(), files.len() as libc::nfds_t, &raw const timeout, std::ptr::null()) } < 0
    {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(HostError::CreditSocket(error));
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the driver's clock")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
