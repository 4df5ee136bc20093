//! The agent's status for watchers: a file, and an HTTP address.
//!
//! Once a period the agent makes a [`weir_status::AgentStatus`]. It replaces its status file in one
//! step, so that a reader gets either the whole status or the previous one, and hands the status
//! over to the thread that serves `/status` and `/metrics`, which never makes the loop wait. No
//! decision depends on either.

use crate::daemon::{AgentConfig, DatagramCounters};
use crate::fabric_session::FabricSession;
use crate::host::{Host, KernelReadings, Traffic};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::{info, warn};
use weir_control::{MeterReading, RackBroker};
use weir_fabric::state::replace;
use weir_linux::attachment::Attachment;
use weir_linux::readings::Counts;
use weir_observe::Publisher;
use weir_status::{
    AgentStatus, EventCounters, HostCredits, KernelCounters, LevelCounters, Status, Strangers, TimerCounters,
};
use weir_units::{Bandwidth, Duration, PerDirection};

/// The facts of one period.
pub(crate) struct Period<'a> {
    /// Since the agent's start.
    pub(crate) uptime: Duration,
    pub(crate) broker: &'a RackBroker,
    /// By leaf.
    pub(crate) readings: &'a [MeterReading],
    /// Since the readings before, by leaf; empty in the first period.
    pub(crate) usage: &'a [PerDirection<Bandwidth>],
    pub(crate) datagrams: &'a DatagramCounters,
    pub(crate) session: &'a FabricSession,
    /// By leaf: limits of an earlier broker, if they are in force.
    pub(crate) left: Option<Vec<PerDirection<Bandwidth>>>,
    /// Whether no decision of the broker is in force.
    pub(crate) idle: bool,
    /// Whether the interface is absent.
    pub(crate) interface_absent: bool,
    /// Why limits are not enforced although the interface is there.
    pub(crate) not_enforced: Option<&'a str>,
    /// Absent if they cannot be read.
    pub(crate) kernel: Option<&'a KernelReadings>,
    /// The filters that match nothing on this host, by the last readings.
    pub(crate) filters_unmatched: &'a [String],
    /// Absent if no service has credits.
    pub(crate) credits: Option<HostCredits>,
}

/// Reports the agent's status.
pub(crate) struct StatusReporter {
    status: AgentStatus,
    file: Option<PathBuf>,
    publisher: Option<Publisher>,
    /// Whether the last write failed and a warning was logged.
    warned: bool,
    /// Datagrams that the kernel dropped before the agent could count them: foreign ones, and those
    /// of another version.
    dropped: [Total; 2],
    /// Late readings of this host and of earlier ones.
    late: Total,
    /// The traffic at the last report, by leaf, and the uptime then.
    traffic: (Duration, Vec<Traffic>),
    levels: LevelCounts,
}

/// How long a packet that breaks latency bounds is shown: several scrapes of metrics.
const RECENT: Duration = Duration::from_secs(60);

/// Counters of packets that break latency bounds, at the last report.
#[derive(Debug, Clone, Default)]
struct LevelCounts {
    long_buffers: u64,
    /// By level.
    oversize: Vec<u64>,
    /// The uptime at which each cause was last seen.
    recent: Vec<(Duration, String)>,
}

/// A count of the kernel or of a host, which may start anew or be unreadable: this total never
/// falls.
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

impl StatusReporter {
    /// Reports to a file, to a publisher, to both or to neither. `status` has the facts of the
    /// machine that do not change.
    pub(crate) fn new(status: AgentStatus, file: Option<PathBuf>, publisher: Option<Publisher>) -> Self {
        let traffic = (Duration::ZERO, Vec::new());
        let (dropped, late) = ([Total::default(); 2], Total::default());
        let levels = LevelCounts::default();
        Self { status, file, publisher, warned: false, dropped, late, traffic, levels }
    }

    /// Another policy is in force, or another broker runs; the reporter's own counters go on.
    pub(crate) fn renew(&mut self, status: AgentStatus) {
        let (unwritten, reloads) = (self.status.counters.statuses_unwritten, self.status.counters.reloads);
        let refused = self.status.policy_refused.take();
        self.status = AgentStatus { policy_refused: refused, ..status };
        self.traffic.1.clear();
        self.levels = LevelCounts::default();
        (self.status.counters.statuses_unwritten, self.status.counters.reloads) = (unwritten, reloads);
    }

    /// A reload was taken, or refused for a reason.
    pub(crate) fn reloaded(&mut self, refused: Option<String>) {
        self.status.policy_refused = refused;
        self.status.counters.reloads += 1;
    }

    /// Reports a period. A failed write ends nothing, since enforcement matters more than its
    /// status; it is logged once until a write succeeds.
    pub(crate) fn report(&mut self, period: &Period<'_>) {
        if self.file.is_none() && self.publisher.is_none() {
            return;
        }
        let status = &mut self.status;
        status.written_ms = now_ms();
        status.uptime_ms = period.uptime.nanos() / 1_000_000;
        status.measured(period.readings, period.usage);
        match period.idle {
            // The broker gets no time meanwhile, and none of its last decisions is in force.
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
        counters.rack_reports_unsent = period.session.unsent();
        status.fabric = period.session.status(period.broker);
        status.credits.clone_from(&period.credits);
        status.filters_unmatched = period.filters_unmatched.to_vec();
        status.interface_absent = period.interface_absent;
        status.not_enforced = period.not_enforced.map(str::to_owned);
        if let Some(kernel) = period.kernel {
            report_kernel(status, kernel);
            report_traffic(status, &mut self.traffic, &kernel.traffic, period.uptime);
            status.level_obstacles = level_obstacles(kernel, period.uptime, &mut self.levels);
            self.dropped[0].take(kernel.counts.foreign);
            self.dropped[1].take(kernel.counts.other_version);
            self.late.take(kernel.late_readings);
        }
        status.counters.readings_late = self.late.get();
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

    /// Removes the file: a status that outlives its agent would be wrong.
    pub(crate) fn end(&self) {
        if let Some(path) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The kernel's counters and rates.
fn report_kernel(status: &mut AgentStatus, kernel: &KernelReadings) {
    let period = Duration::from_millis(status.period_ms);
    for (service, meter) in status.services.iter_mut().zip(&kernel.meters) {
        let limited = |rate: Bandwidth| (!rate.is_unlimited()).then_some(rate);
        service.rx.meter_capacity = limited(meter.capacity);
        service.rx.sender_rate = limited(meter.rate);
        service.rx.packets_markable = Some(meter.packets);
        service.rx.packets_marked = Some(meter.marked);
        service.rx.feedback_sent = Some(meter.feedback_sent);
        let policed = meter.policed;
        let strangers = Strangers {
            bytes: policed.bytes,
            packets_marked: policed.marked_packets,
            bytes_dropped: policed.dropped_bytes,
            packets_dropped: policed.dropped_packets,
        };
        let was_remarked = service.rx.remark.is_some();
        service.rx.policed(strangers, period);
        if let (false, Some(remark)) = (was_remarked, &service.rx.remark) {
            info!("{}: {remark}", service.service);
        }
    }
    for ((service, queue), reported) in status.services.iter_mut().zip(&kernel.queues).zip(&kernel.reported) {
        service.tx.feedback_received = Some(*reported);
        service.tx.backlog_bytes = queue.map(|queue| queue.backlog.get());
        service.tx.drops = queue.map(|queue| queue.drops);
        service.tx.destinations_limited = queue.map(|queue| u64::from(queue.destinations));
    }
    for (level, reading) in status.levels.iter_mut().zip(&kernel.levels) {
        level.counters = Some(LevelCounters {
            bytes: reading.bytes.get(),
            packets: reading.packets,
            backlog_bytes: reading.backlog.get(),
            longest_wait_ns: reading.longest_wait.nanos(),
            oversize: reading.oversize,
            dropped: reading.dropped,
            remarked: reading.remarked,
        });
    }
    status.drops_unattributed = kernel.drops_unattributed;
    status.cgroups = kernel.cgroups.as_ref().map(|cgroups| cgroups.groups as u64);
    status.cgroups_missed = kernel.cgroups.as_ref().and_then(|cgroups| cgroups.missed.clone());
    status.guests = kernel.guests.as_ref().map(|guests| guests.guests as u64);
    status.guests_missed = kernel.guests.as_ref().and_then(|guests| guests.missed.clone());
    status.kernel = Some(KernelCounters {
        events: events(&kernel.counts),
        timer: TimerCounters { ticks_late: kernel.timer.late, fallbacks: kernel.timer.fallbacks },
    });
}

/// The kernel's counts of events. The compiler refuses a count without a counter, and the reverse.
fn events(counts: &Counts) -> EventCounters {
    let &Counts {
        feedback_failed,
        feedback_accepted,
        feedback_forged,
        feedback_replayed,
        feedback_unclassified,
        destinations_full,
        other_version,
        foreign,
        misdirected,
        unknown_peer,
        peer_rate_exceeded,
        spoofed,
        beyond_horizon,
        requests_limited,
        long_buffers,
        cgroups_unknown,
        tags_claimed,
        credit_gates_full,
    } = counts;
    EventCounters {
        feedback_failed,
        feedback_accepted,
        feedback_forged,
        feedback_replayed,
        feedback_unclassified,
        destinations_full,
        other_version,
        foreign,
        misdirected,
        unknown_peer,
        peer_rate_exceeded,
        spoofed,
        beyond_horizon,
        requests_limited,
        long_buffers,
        cgroups_unknown,
        tags_claimed,
        credit_gates_full,
    }
}

/// The causes for which latency bounds do not hold: of the interface, and of packets since [`RECENT`].
fn level_obstacles(kernel: &KernelReadings, uptime: Duration, before: &mut LevelCounts) -> Vec<String> {
    let mut recent = std::mem::take(&mut before.recent);
    recent.retain(|(at, _)| uptime.saturating_sub(*at) < RECENT);
    let now = LevelCounts {
        long_buffers: kernel.counts.long_buffers,
        oversize: kernel.levels.iter().map(|level| level.oversize).collect(),
        recent: Vec::new(),
    };
    let mut add = |text: &str| {
        recent.retain(|(_, known)| known != text);
        recent.push((uptime, text.to_owned()));
    };
    for (number, (level, now)) in (1..).zip(before.oversize.iter().zip(&now.oversize)) {
        if now > level {
            add(&format!("frames of level {number} were larger than `levels.packet`"));
        }
    }
    // A first period has nothing to compare with.
    if !before.oversize.is_empty() && now.long_buffers > before.long_buffers {
        add("buffers of other traffic had more segments than `levels.segments`");
    }
    let obstacles = kernel.level_obstacles.iter().chain(recent.iter().map(|(_, text)| text)).cloned().collect();
    *before = LevelCounts { recent, ..now };
    obstacles
}

/// Reports the traffic of services: in all, and its rates since the reading of a period ago.
fn report_traffic(
    status: &mut AgentStatus,
    (at, before): &mut (Duration, Vec<Traffic>),
    now: &[Traffic],
    uptime: Duration,
) {
    for (service, now) in status.services.iter_mut().zip(now) {
        service.tx.bytes = Some(now.sent.get());
        service.tx.offered_bytes = Some(now.offered.get());
        service.tx.dropped_bytes = Some(now.dropped.get());
    }
    let time = uptime.saturating_sub(*at);
    // A reload is reported within a period.
    if before.len() == now.len() && time.nanos() < status.period_ms * 900_000 {
        return;
    }
    if before.len() == now.len() {
        for ((service, now), before) in status.services.iter_mut().zip(now).zip(&*before) {
            let since = now.since(*before);
            service.tx.offered = Some(Bandwidth::from_transfer(since.offered, time));
            service.tx.dropped = Some(Bandwidth::from_transfer(since.dropped, time));
        }
    }
    (*at, *before) = (uptime, now.to_vec());
}

/// The facts of this machine from the policy and from the host, if its interface is there.
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
        keeps: config.keep,
        epoch,
        period_ms: config.broker.period.nanos() / 1_000_000,
        ..AgentStatus::outline(&config.runtime_config.policy, config.runtime_config.machine)
    }
}

#[expect(clippy::disallowed_methods, reason = "a status has its time; nothing is decided by it")]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_status::Counters;

    #[test]
    fn events_have_the_names_and_descriptions_of_the_header() {
        let mut described = Vec::new();
        events(&Counts::default()).each(&mut |name, help, _| described.push((name, help.trim())));
        let in_header: Vec<_> = Counts::default().each().iter().map(|(name, help, _)| (*name, *help)).collect();
        assert_eq!(described, in_header);
    }
}
