//! The sending side: root limits, shares of the machine, departures.

use super::BURST_FRAMES;
use crate::abi;
use crate::departure::{PacingConfig, Path};
use crate::parameters::limit;
use std::sync::Arc;
use weir_policy::{Share, Sharing};
use weir_shaping::{MachinePlan, ShaperConfig};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// The longest delay of a packet and the bytes that may wait longer, in frames: those of Linux (fq's default limit for
/// one flow is in the same range).
const HORIZON: Duration = Duration::from_millis(20);
const QUEUE_FRAMES: u64 = 128;
/// The interval of ticks where no shaper has one.
const TICK: Duration = Duration::from_micros(100);

/// An interface.
#[derive(Debug, Clone)]
struct Egress {
    /// When its next tick is due.
    due: Instant,
    tick: Duration,
    pacing: abi::Pacing,
    machine: abi::MachineEgress,
    meter: abi::InterfaceMeter,
    /// The meter before any traffic.
    desired: abi::InterfaceMeter,
    /// Committed bytes and newcomers that the law has counted.
    taken: (u64, u64),
    /// Bytes on latency levels and of credits since the last tick.
    ahead: u64,
}

/// A service at an interface.
#[derive(Debug, Clone, Default)]
struct Service {
    batch: abi::CpuBatch,
    rules: abi::Sending,
    sender: abi::Sender,
}

/// The sending sides of all hosts.
#[derive(Debug)]
pub(super) struct Sending {
    services: usize,
    frame: u64,
    egress: Vec<Egress>,
    /// By host and service.
    by_service: Vec<Service>,
}

impl Sending {
    pub(super) fn new(services: usize, frame: Bytes) -> Self {
        Self { services, frame: frame.get(), egress: Vec::new(), by_service: Vec::new() }
    }

    fn pacing(&self, rate: Bandwidth, sharing: Sharing, burst_frames: u64) -> PacingConfig {
        PacingConfig {
            rate,
            sharing,
            horizon: HORIZON,
            queue: Bytes::new(QUEUE_FRAMES * self.frame),
            burst: Bytes::new(burst_frames * self.frame),
            cpus: 1,
        }
    }

    /// Makes the tables hold `hosts` hosts, new ones without limits.
    fn grow(&mut self, hosts: usize) {
        if self.egress.len() >= hosts {
            return;
        }
        let config = self.pacing(Bandwidth::UNLIMITED, Sharing::default(), 1);
        let meter = *config.interface_meter(&[], Bytes::new(self.frame)).raw();
        let egress = Egress {
            due: Instant::ZERO,
            tick: TICK,
            pacing: config.raw(),
            machine: abi::MachineEgress::default(),
            meter,
            desired: meter,
            taken: (0, 0),
            ahead: 0,
        };
        self.egress.resize(hosts, egress);
        let rules = abi::Sending { weight: 1000, generation: 1, ..abi::Sending::default() };
        self.by_service.resize(hosts * self.services, Service { rules, ..Service::default() });
    }

    pub(super) fn set_shapers(&mut self, now: Instant, config: &ShaperConfig) {
        self.grow(config.machines.len());
        let tick = super::receiving::tick(config);
        let mut last: Option<(&Arc<MachinePlan>, PacingConfig, abi::InterfaceMeter)> = None;
        for (host, plan) in config.machines.iter().enumerate() {
            // Many machines have the same plan.
            let known = last.filter(|(known, _, _)| Arc::ptr_eq(known, plan));
            // EyeQ shares an interface by root limits (its meter sets them), and the interface is the machine limiter.
            let rate = if config.transmit.is_some() { Bandwidth::UNLIMITED } else { plan.capacities.tx };
            let (_, pacing, desired) = known.unwrap_or_else(|| {
                let pacing = self.pacing(rate, config.sharing, BURST_FRAMES);
                (plan, pacing, meter(&pacing, plan, Bytes::new(self.frame)))
            });
            last = Some((plan, pacing, desired));
            let egress = &mut self.egress[host];
            (egress.pacing, egress.tick) = (pacing.raw(), tick);
            if egress.desired != desired {
                (egress.desired, egress.meter) = (desired, desired);
                egress.meter.window.opened_at = now.nanos();
            }
            let services = &mut self.by_service[host * self.services..][..plan.leaves.len()];
            for (service, leaf) in services.iter_mut().zip(&plan.leaves) {
                let share = share(leaf.shares.tx.enforced(), leaf.shares.tx.share.max, rate);
                let limited = service.rules.limit;
                let generation = service.rules.generation;
                let rules = abi::Sending {
                    limit: limited,
                    generation,
                    ..pacing.sending(&share, Bandwidth::UNLIMITED, leaf.shares.tx.share.max)
                };
                if rules != service.rules {
                    service.rules = abi::Sending { generation: generation.wrapping_add(1).max(1), ..rules };
                }
            }
        }
    }

    pub(super) fn set_limit(&mut self, host: usize, service: usize, limited: Bandwidth) -> Bytes {
        self.grow(host + 1);
        self.by_service[host * self.services + service].rules.limit = limit(limited);
        let least = u64::from(self.egress[host].pacing.burst);
        Bytes::new((limited.bps() / u64::from(abi::BURST_PART)).clamp(least, abi::CHARGE_MAX.into()))
    }

    #[inline]
    pub(super) fn send(&mut self, host: usize, service: usize, now: Instant, bytes: u32) -> Option<Instant> {
        let Some(egress) = self.egress.get_mut(host) else { return Some(now) };
        let Service { batch, rules, sender } = &mut self.by_service[host * self.services + service];
        if egress.pacing.rate | rules.limit | rules.static_limit == 0 {
            return Some(now);
        }
        if now >= egress.due {
            egress.tick(now);
        }
        let (tick, due) = (egress.tick, egress.due);
        let Egress { pacing, meter, machine, .. } = egress;
        let path = Path { pacing, meter, machine, rules, sender };
        path.departure(batch, (None, None), (tick, due), now, bytes).at()
    }

    pub(super) fn count_ahead(&mut self, host: usize, bytes: u64) {
        if let Some(egress) = self.egress.get_mut(host) {
            egress.ahead += bytes;
        }
    }

    pub(super) fn dropped(&self, host: usize, service: usize) -> u64 {
        self.by_service.get(host * self.services + service).map_or(0, |service| service.sender.dropped)
    }
}

impl Egress {
    /// Runs the tick that was due by `now`; those after it had no packets.
    #[inline(never)]
    fn tick(&mut self, now: Instant) {
        let at = self.due.nanos();
        if self.ahead > 0 {
            let bytes = std::mem::take(&mut self.ahead);
            abi::machine_egress_levels(&mut self.machine, &self.pacing, at, bytes);
        }
        let machine = &self.machine;
        let (bytes, newcomers) = std::mem::replace(&mut self.taken, (machine.committed, machine.newcomers));
        let (bytes, newcomer) = (machine.committed - bytes, u32::from(machine.newcomers != newcomers));
        abi::sending_tick(&mut self.meter, at, bytes, newcomer, self.tick.nanos() / 2);
        let tick = self.tick.nanos();
        self.due = Instant::from_nanos(at + ((now.nanos() - at) / tick + 1) * tick);
    }
}

/// The share of an interface of `rate` by which a service's departures are paced.
fn share(enforced: Share, max: Bandwidth, rate: Bandwidth) -> Share {
    let max = max.min(rate);
    Share { min: enforced.min.min(max), max, ..enforced }
}

/// The meter of the services of a plan that are not on a latency level.
fn meter(pacing: &PacingConfig, plan: &MachinePlan, frame: Bytes) -> abi::InterfaceMeter {
    if pacing.rate.is_unlimited() {
        return *pacing.interface_meter(&[], frame).raw();
    }
    let leaves = plan.leaves.iter().map(|leaf| &leaf.shares.tx).filter(|leaf| !leaf.on_level);
    let shares: Vec<Share> = leaves.map(|leaf| share(leaf.enforced(), leaf.share.max, pacing.rate)).collect();
    let levels: Bandwidth = plan.levels.iter().flatten().map(|limits| limits.rate).sum();
    // While all services are backlogged, levels send too.
    let saturated_rate = pacing.saturated_rate(pacing.rate.saturating_sub(levels), &shares).bps();
    abi::InterfaceMeter { saturated_rate, ..*pacing.interface_meter(&shares, frame).raw() }
}
