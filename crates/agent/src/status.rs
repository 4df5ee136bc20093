//! What the agent is doing, for whoever watches: a file, and an address to ask.
//!
//! Once a period the agent makes a [`weir_status::AgentStatus`]. It replaces its status file in one step, so that a reader
//! sees a whole status or the one before, and hands the status over to the thread that serves `/status` and `/metrics`,
//! which never makes the loop wait. Nothing reads either to decide.

use crate::daemon::{AgentConfig, DatagramCounters};
use crate::fabric_line::FabricLine;
use crate::host::{Host, KernelReadings};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::{info, warn};
use weir_control::{MeterReading, RackBroker};
use weir_linux::attachment::Attachment;
use weir_observe::Publisher;
use weir_state::replace;
use weir_status::{AgentStatus, KernelCounters, Status, TimerCounters};
use weir_units::{Bandwidth, Duration, PerDirection};

/// What is known of one period.
pub(crate) struct Period<'a> {
    /// Since the agent's start.
    pub(crate) uptime: Duration,
    pub(crate) broker: &'a RackBroker,
    /// By leaf.
    pub(crate) readings: &'a [MeterReading],
    /// Since the readings before, by leaf; empty in the first period.
    pub(crate) usage: &'a [PerDirection<Bandwidth>],
    pub(crate) datagrams: &'a DatagramCounters,
    pub(crate) line: &'a FabricLine,
    /// By leaf: limits that are in force instead of the broker's, if some are.
    pub(crate) left: Option<Vec<PerDirection<Bandwidth>>>,
    /// Whether nothing is in force that the broker decided.
    pub(crate) idle: bool,
    /// Whether the interface is gone.
    pub(crate) interface_absent: bool,
    /// Why services are not held although it is there.
    pub(crate) not_enforced: Option<&'a str>,
    /// Absent when it cannot be read.
    pub(crate) kernel: Option<&'a KernelReadings>,
}

/// Tells what the agent is doing.
pub(crate) struct Teller {
    status: AgentStatus,
    file: Option<PathBuf>,
    publisher: Option<Publisher>,
    /// Whether the last write failed, and a warning was given.
    warned: bool,
    /// Datagrams that the kernel dropped before the agent could count them: not of this protocol, of another version.
    dropped: [Total; 2],
}

/// A count by somebody who may start anew, or be asked in vain: it never falls here.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    before: u64,
    last: u64,
}

impl Total {
    fn take(&mut self, count: u64) {
        if count < self.last {
            self.before += self.last;
        }
        self.last = count;
    }
    fn get(self) -> u64 {
        self.before + self.last
    }
}

impl Teller {
    /// Tells into a file, to a publisher, to both or to nobody. `status` is the machine's, as far as it does not change.
    pub(crate) fn new(status: AgentStatus, file: Option<PathBuf>, publisher: Option<Publisher>) -> Self {
        Self { status, file, publisher, warned: false, dropped: [Total::default(); 2] }
    }

    /// From now on another policy is in force, or another broker runs; what this counts goes on.
    pub(crate) fn renew(&mut self, status: AgentStatus) {
        let (unwritten, reloads) = (self.status.counters.statuses_unwritten, self.status.counters.reloads);
        let refused = self.status.policy_refused.take();
        self.status = AgentStatus { policy_refused: refused, ..status };
        (self.status.counters.statuses_unwritten, self.status.counters.reloads) = (unwritten, reloads);
    }

    /// A reload was taken, or refused for a reason.
    pub(crate) fn reloaded(&mut self, refused: Option<String>) {
        self.status.policy_refused = refused;
        self.status.counters.reloads += 1;
    }

    /// Tells a period. A status that cannot be written ends nothing: limits matter more than who reads about them. It is
    /// told once until it works again.
    pub(crate) fn tell(&mut self, period: &Period<'_>) {
        if self.file.is_none() && self.publisher.is_none() {
            return;
        }
        let status = &mut self.status;
        status.written_ms = now_ms();
        status.uptime_ms = period.uptime.nanos() / 1_000_000;
        status.measured(period.readings, period.usage);
        match period.idle {
            // The broker gets no time meanwhile, and nothing of what it decided last is in force.
            true => status.counted(period.broker),
            false => status.decided(period.broker),
        }
        if let Some(limits) = &period.left {
            status.left(limits);
        }
        let (counters, datagrams) = (&mut status.counters, period.datagrams);
        counters.reports_malformed += datagrams.malformed;
        counters.datagrams_truncated = datagrams.truncated;
        counters.datagrams_forged = datagrams.forged;
        counters.datagrams_misdirected = datagrams.misdirected;
        counters.datagrams_unsent = datagrams.unsent;
        counters.rack_reports_unsent = period.line.unsent();
        status.fabric = period.line.status(period.broker);
        status.interface_absent = period.interface_absent;
        status.not_enforced = period.not_enforced.map(str::to_owned);
        if let Some(kernel) = period.kernel {
            tell_kernel(status, kernel);
            self.dropped[0].take(kernel.counts.foreign);
            self.dropped[1].take(kernel.counts.other_version);
        }
        status.counters.datagrams_foreign = datagrams.foreign + self.dropped[0].get();
        status.counters.datagrams_other_version = datagrams.version + self.dropped[1].get();
        let status = Status::Agent(status.clone());
        self.write(&status);
        if let Some(publisher) = &self.publisher {
            publisher.publish(status);
        }
    }

    fn write(&mut self, status: &Status) {
        let Some(path) = &self.file else { return };
        match replace::write(path, status.to_json().as_bytes()) {
            Ok(()) if std::mem::take(&mut self.warned) => info!("{} is written again", path.display()),
            Ok(()) => {}
            Err(error) => {
                self.status.counters.statuses_unwritten += 1;
                if !std::mem::replace(&mut self.warned, true) {
                    warn!("write {}: {error}; limits stay in force", path.display());
                }
            }
        }
    }

    /// A status that outlives its agent would lie.
    pub(crate) fn end(&self) {
        if let Some(path) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What the kernel counted and computed.
fn tell_kernel(status: &mut AgentStatus, kernel: &KernelReadings) {
    for (service, meter) in status.services.iter_mut().zip(&kernel.meters) {
        let held = |rate: Bandwidth| (!rate.is_unlimited()).then_some(rate);
        service.rx.meter_capacity = held(meter.capacity);
        service.rx.sender_rate = held(meter.rate);
        service.rx.packets_markable = Some(meter.packets);
        service.rx.packets_marked = Some(meter.marked);
        service.rx.feedback_sent = Some(meter.feedback_sent);
    }
    for ((service, queue), told) in status.services.iter_mut().zip(&kernel.queues).zip(&kernel.told) {
        service.tx.feedback_received = Some(*told);
        service.tx.backlog_bytes = queue.map(|queue| queue.backlog.get());
        service.tx.drops = queue.map(|queue| queue.drops);
        service.tx.destinations_held = queue.map(|queue| u64::from(queue.destinations));
    }
    status.kernel = Some(KernelCounters {
        events: kernel.counts,
        timer: TimerCounters { ticks_late: kernel.timer.late, fallbacks: kernel.timer.fallbacks },
    });
}

/// What the policy and the host, if its interface is there, say of this machine.
pub(crate) fn outline(config: &AgentConfig, host: Option<&Host>, epoch: u64) -> AgentStatus {
    let attachment = |host: &Host| match host.attachment() {
        Attachment::Tcx => "tcx".to_owned(),
        Attachment::Clsact => "clsact".to_owned(),
    };
    AgentStatus {
        interface: config.interface.clone(),
        attachment: host.map(attachment),
        backend: host.map(|host| host.backend().to_string()).unwrap_or_default(),
        backend_obstacles: host
            .map_or(&[][..], Host::obstacles)
            .iter()
            .map(|other| format!("{}: {}", other.backend, other.obstacle.as_deref().unwrap_or_default()))
            .collect(),
        epoch,
        period_ms: config.broker.period.nanos() / 1_000_000,
        ..AgentStatus::outline(&config.terms.policy, config.terms.machine)
    }
}

#[expect(clippy::disallowed_methods, reason = "a status says when it was made; nothing is decided by it")]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
