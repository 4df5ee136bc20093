//! Receive limits of elastic tenants in the shared queue, on this machine.
//!
//! The controller's settings say which tenants are there: those without a tag and without a limit. Each has a
//! [`SharedQueueLimit`], which the receive meter enforces at the senders, and which ends when the tenant gets queues of
//! its own or a limit of the controller. Counters are read and limits set in maps of the kernel, which takes
//! microseconds for each tenant, so the daemon's loop does it between other work.

use super::{AgentError, Daemon};
use crate::host::{HostError, shaper_config};
use crate::runtime_config::RuntimeConfig;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_policy::Policy;
use weir_shaping::{Received, SharedQueueLimit, shared_queue_system};
use weir_units::{Bandwidth, Direction, Duration, Instant, MachineId, ServiceId};

/// The limits of this machine's tenants in the shared queue.
#[derive(Debug)]
pub(super) struct SharedQueueLimits {
    /// By service of a tenant in the shared queue.
    limits: BTreeMap<ServiceId, (Bandwidth, SharedQueueLimit)>,
    /// Whether no tenants were taken yet, so that limits in force are of an earlier policy.
    is_new: bool,
    interval: Duration,
    next: Instant,
}

impl SharedQueueLimits {
    /// Without tenants: for another policy, whose services have other numbers.
    pub(super) fn new() -> Self {
        Self { limits: BTreeMap::new(), is_new: true, interval: Duration::ZERO, next: Instant::from_nanos(u64::MAX) }
    }

    /// The limit of a service; `None` for one that is no elastic tenant in the shared queue.
    pub(super) fn limit(&self, service: ServiceId) -> Option<Bandwidth> {
        self.limits.get(&service).map(|(_, limit)| limit.limit())
    }

    /// The time of the next report.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.next
    }

    /// Takes the tenants that are in the shared queue under `policy`, with their reservations; returns those that are
    /// not any more, the first time all others. Those that were there keep their limits.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        (policy, machine): (&Policy, MachineId),
        own: &[(ServiceId, Bandwidth)],
    ) -> Vec<ServiceId> {
        let own = if shared_queue_system(policy).is_some() { own } else { &[] };
        let stays = |service: &ServiceId, reserved: Bandwidth| own.contains(&(*service, reserved));
        let ended = self.limits.extract_if(.., |service, (reserved, _)| !stays(service, *reserved));
        let mut ended: Vec<ServiceId> = ended.map(|(service, _)| service).collect();
        if std::mem::take(&mut self.is_new) {
            let others = policy.tenants().iter().map(|tenant| tenant.service);
            ended = others.filter(|service| !own.iter().any(|(own, _)| own == service)).collect();
        }
        let line = policy.machine_capacity(machine, Direction::Rx);
        for (service, reserved) in own {
            let new = || (*reserved, SharedQueueLimit::new(now, *reserved, line));
            self.limits.entry(*service).or_insert_with(new);
        }
        let config = shaper_config(policy);
        let leaves = policy.services().leaves().zip(&config.services);
        let meters = leaves.filter(|((id, _), _)| self.limits.contains_key(id));
        let longest = meters.map(|(_, own)| config.of(own).interval).max().unwrap_or(Duration::ZERO);
        self.interval = SharedQueueLimit::interval(longest);
        self.next = if own.is_empty() { Instant::from_nanos(u64::MAX) } else { now };
        ended
    }

    /// Takes the counters of the tenants, if they are due; returns whether they were.
    fn report(
        &mut self,
        now: Instant,
        mut received: impl FnMut(ServiceId) -> Result<Received, HostError>,
    ) -> Result<bool, HostError> {
        if now < self.next {
            return Ok(false);
        }
        self.next = now + self.interval;
        for (service, (_, limit)) in &mut self.limits {
            limit.report(now, received(*service)?);
        }
        Ok(true)
    }

    /// Skips the reports that are due.
    fn postpone(&mut self, now: Instant) {
        if self.next <= now {
            self.next = now + self.interval;
        }
    }

    fn in_force(&self) -> Vec<(ServiceId, Bandwidth)> {
        self.limits.iter().map(|(service, (_, limit))| (*service, limit.limit())).collect()
    }
}

impl Daemon {
    /// Sets the limits of tenants in the shared queue by the marks since the last time, if that is due.
    pub(super) fn limit_shared_queue(&mut self) -> Result<(), AgentError> {
        let (now, tenants) = (self.now(), &mut self.tenants);
        let RuntimeConfig { policy, machine, .. } = &self.config.runtime_config;
        let mut changes: Vec<(ServiceId, Bandwidth)> = Vec::new();
        if std::mem::take(&mut tenants.has_changed) {
            let own = tenants.in_shared_queue();
            let in_force = Arc::clone(tenants.policy().unwrap_or(policy));
            let ended = tenants.shared.follow(now, (&in_force, *machine), &own);
            changes.extend(ended.into_iter().map(|service| (service, Bandwidth::UNLIMITED)));
        }
        let Some(host) = &mut self.host else {
            tenants.shared.postpone(now);
            return Ok(());
        };
        if tenants.shared.report(now, |service| host.received(service))? {
            changes.extend(tenants.shared.in_force());
        }
        Ok(host.set_receive_limits(&changes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Bytes;

    const RESERVED: Bandwidth = Bandwidth::from_mbps(100);

    fn policy(shared: &str) -> Policy {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, slots: 4, racks: {{ r: {{ uplink: 1Gb/s, machines: [m1, m2] }} }} }}\n\
             tenants:\n  a: {{ vms: 2, bandwidth: 100Mb/s, match: [ {{ port: 1 }} ] }}\n  b: {{ vms: 2, bandwidth: \
             100Mb/s, match: [ {{ port: 2 }} ] }}\ntenant-queues: {{ shared: {shared} }}\n"
        );
        Policy::parse("p.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Reports of traffic without marks until `until`, from `from` on.
    fn unmarked(limits: &mut SharedQueueLimits, from: u64, until: u64) {
        for millis in from..until {
            let counted = Received { bytes: Bytes::new(millis), packets: millis, marked: 0 };
            limits.report(at(millis), |_| Ok(counted)).expect("counters");
        }
    }

    #[test]
    fn tenants_keep_their_limits_until_they_leave_the_shared_queue() {
        let policy = policy("elastic");
        let [a, b] = [0, 1].map(|tenant: usize| policy.tenants()[tenant].service);
        let mut limits = SharedQueueLimits::new();
        // The limit of an earlier policy may be in force.
        assert_eq!(limits.follow(at(0), (&policy, MachineId(0)), &[(a, RESERVED)]), [b]);
        assert_eq!((limits.limit(a), limits.limit(b)), (Some(RESERVED), None));
        unmarked(&mut limits, 0, 500);
        let grown = limits.limit(a).expect("a limit");
        assert!(grown > Bandwidth::from_mbps(200), "{grown}");
        assert_eq!(limits.follow(at(500), (&policy, MachineId(0)), &[(a, RESERVED), (b, RESERVED)]), []);
        assert_eq!((limits.limit(a), limits.limit(b)), (Some(grown), Some(RESERVED)));
        assert_eq!(limits.follow(at(501), (&policy, MachineId(0)), &[(b, RESERVED)]), [a]);
        assert_eq!((limits.limit(a), limits.limit(b)), (None, Some(RESERVED)));
    }

    #[test]
    fn reports_are_due_once_in_an_interval_of_the_rate_allocation() {
        let policy = policy("elastic");
        let own = [(policy.tenants()[0].service, RESERVED)];
        let mut limits = SharedQueueLimits::new();
        limits.follow(at(0), (&policy, MachineId(0)), &own);
        let due: Vec<u64> = (0..50)
            .filter(|millis| limits.report(at(*millis), |_| Ok(Received::default())).expect("counters"))
            .collect();
        assert_eq!(due, [0, 15, 30, 45]);
        limits.postpone(at(60));
        assert_eq!(limits.poll_timeout(), at(75));
    }

    #[test]
    fn capped_tenants_have_no_limits_here() {
        let policy = policy("cap");
        let mut limits = SharedQueueLimits::new();
        let service = policy.tenants()[0].service;
        let all = [0, 1].map(|tenant: usize| policy.tenants()[tenant].service);
        assert_eq!(limits.follow(at(0), (&policy, MachineId(0)), &[(service, RESERVED)]), all);
        assert_eq!((limits.limit(service), limits.poll_timeout()), (None, Instant::from_nanos(u64::MAX)));
    }
}
