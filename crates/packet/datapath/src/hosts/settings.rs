//! The configuration that an agent writes into the tables of its host, for all hosts.

use super::{Hosts, Timer};
use crate::departure::PacingConfig;
use crate::interface_meter::configuration;
use crate::parameters::{destination_rules, limit, receive_law};
use crate::{FeedbackSampler, InterfaceMeter, ReceiveMeter, abi};
use std::sync::Arc;
use weir_policy::{Share, Sharing};
use weir_shaping::{LeafShare, MachinePlan, ShaperConfig};
use weir_units::{Bandwidth, Bytes, Direction, Duration, Instant, MachineId};

/// The least burst of a limiter in frames, where an agent paces an interface.
const BURST_FRAMES: u64 = 10;
/// The longest delay of a packet and the bytes that may wait longer, in frames: those of Linux (fq's default limit for
/// one flow is in the same range).
const HORIZON: Duration = Duration::from_millis(20);
const QUEUE_FRAMES: u64 = 128;
/// The interval of ticks where no shaper has one.
const TICK: Duration = Duration::from_micros(100);

/// The interval of ticks: half of the shortest interval of a meter. With ticks as long as the interval T, which packets
/// run, a window would last from T to two T; with halves it closes at most half a tick, a quarter of T, early or late.
///
/// EyeQ runs its law at least T apart, each service by itself. Ticks run the laws of all services at once, in step with
/// EyeQ's meter of sending, which has the same T: services then raise R together, and the marks that follow cost the
/// lighter one a fifth of its share. Two ticks of 3/5 T are 6/5 T, which is not in step with it.
fn tick(config: &ShaperConfig) -> Duration {
    let intervals = config.services.iter().map(|service| service.interval);
    let shortest = intervals.fold(config.parameters.interface.interval, Duration::min);
    let (part, whole) = if config.transmit.is_some() { (3, 5) } else { (1, 2) };
    Duration::from_nanos((shortest.nanos() * part / whole).max(1))
}

fn rule(sharing: Sharing) -> u32 {
    match sharing {
        Sharing::Fill => abi::SHARE_FILL,
        Sharing::Add => abi::SHARE_ADD,
    }
}

/// The generation that follows another; 0 is that of an empty entry.
fn next(generation: u32) -> u32 {
    generation.wrapping_add(1).max(1)
}

impl Hosts {
    /// The configuration of hosts with departure times, before any shaper.
    pub(super) fn configure(&mut self) {
        // As an agent without segmentation offload: four of the least bursts of root limiters.
        let grain = self.frame * BURST_FRAMES * u64::from(abi::GRAIN_BURSTS);
        self.tables.config = vec![abi::Config {
            enforces: 1,
            paces: 1,
            cpus: 1,
            grain: u32::try_from(grain).unwrap_or(u32::MAX),
            tick: TICK.nanos(),
            ..abi::Config::default()
        }];
        self.tables.counts = vec![abi::Counts::default()];
        self.pointers.clear();
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
    pub(super) fn grow(&mut self, hosts: usize) {
        if self.timers.len() >= hosts {
            return;
        }
        let pacing = self.pacing(Bandwidth::UNLIMITED, Sharing::default(), 1);
        let meter = *pacing.interface_meter(&[], Bytes::new(self.frame)).raw();
        let state = abi::State { sending: meter, sending_generation: 1, ..abi::State::default() };
        let rules = abi::Sending { weight: 1000, generation: 1, ..abi::Sending::default() };
        self.pointers.clear();
        let tables = &mut self.tables;
        self.timers.resize(hosts, Timer::default());
        tables.pacings.resize(hosts, pacing.raw());
        tables.interfaces.resize(hosts * abi::SIDES as usize, configuration(&meter, 1));
        tables.states.resize(hosts, state);
        tables.interface_egresses.resize(hosts, abi::InterfaceEgress::default());
        tables.sendings.resize(hosts * self.services, rules);
        tables.service_egresses.resize(hosts * self.services, abi::ServiceEgress::default());
        tables.cpu_batches.resize(hosts * self.services, abi::CpuBatch::default());
    }

    /// Sets the interval of ticks, which expire from now on at a multiple of it.
    pub(super) fn set_ticks(&mut self, config: &ShaperConfig) {
        self.tables.config[0].tick = tick(config).nanos();
        self.tables.config[0].sharing = rule(config.sharing);
    }

    /// Puts the meter of a side of a host in force, unless it is.
    fn set_side(&mut self, host: usize, side_of: u32, now: Instant, meter: abi::InterfaceMeter) {
        let there = &mut self.tables.interfaces[host * abi::SIDES as usize + side_of as usize];
        let state = &mut self.tables.states[host];
        if *there == configuration(&meter, there.generation) && (side_of == abi::SIDE_SENDING || state.generation != 0)
        {
            return;
        }
        *there = configuration(&meter, next(there.generation));
        let mut meter = meter;
        meter.window.opened_at = now.nanos();
        match side_of {
            abi::SIDE_SENDING => (state.sending, state.sending_generation) = (meter, there.generation),
            _ => (state.receiving, state.generation) = (meter, there.generation),
        }
    }

    /// The shares by which services send.
    pub(super) fn set_sending(&mut self, now: Instant, config: &ShaperConfig) {
        let mut last: Option<(&Arc<MachinePlan>, PacingConfig, abi::InterfaceMeter)> = None;
        for (host, plan) in config.machines.iter().enumerate() {
            // Many machines have the same plan.
            let known = last.filter(|(known, _, _)| Arc::ptr_eq(known, plan));
            // EyeQ shares an interface by root limits (its meter sets them), and the interface is the machine limiter.
            let rate = if config.transmit.is_some() { Bandwidth::UNLIMITED } else { plan.capacities.tx };
            let (_, pacing, meter) = known.unwrap_or_else(|| {
                let pacing = self.pacing(rate, config.sharing, BURST_FRAMES);
                (plan, pacing, sending_meter(&pacing, plan, Bytes::new(self.frame)))
            });
            last = Some((plan, pacing, meter));
            self.tables.pacings[host] = pacing.raw();
            self.set_side(host, abi::SIDE_SENDING, now, meter);
            let rules = &mut self.tables.sendings[host * self.services..][..plan.leaves.len()];
            for (there, leaf) in rules.iter_mut().zip(&plan.leaves) {
                let leaf = &leaf.shares.tx;
                let share = sending_share(leaf.enforced(), leaf.share.max, rate);
                let wanted = pacing.sending(&share, Bandwidth::UNLIMITED, leaf.share.max);
                let wanted = abi::Sending { limit: there.limit, generation: there.generation, ..wanted };
                if wanted != *there {
                    *there = abi::Sending { generation: next(there.generation), ..wanted };
                }
            }
        }
    }

    /// The meters of what services receive.
    pub(super) fn set_receiving(&mut self, now: Instant, config: &ShaperConfig) {
        let hosts = config.machines.len();
        let before = self.tables.receivers.len();
        self.pointers.clear();
        self.tables.services.resize(hosts * self.services, abi::Service::default());
        self.tables.counting.resize(hosts * self.services, abi::Counting::default());
        self.tables.receivers.resize(hosts * self.services, abi::Receiver::default());
        self.tables.active.resize(hosts, abi::Active::default());
        for host in 0..hosts {
            let machine = MachineId(host as u32);
            let meter = InterfaceMeter::of_machine(config, machine, Direction::Rx, now)
                .expect("every shaper has an interface meter for receiving");
            self.set_side(host, abi::SIDE_RECEIVING, now, *meter.raw());
            let settings = &mut self.tables.services[host * self.services..][..config.services.len()];
            for (service, (there, leaf)) in settings.iter_mut().zip(config.shares(machine, Direction::Rx)).enumerate() {
                let wanted = receiving_service(config, service, leaf);
                let wanted = abi::Service { rx_limit: there.rx_limit, generation: there.generation, ..wanted };
                if wanted != *there {
                    *there = abi::Service { generation: next(there.generation), ..wanted };
                }
            }
        }
        for index in before..hosts * self.services {
            let (host, service) = (index / self.services, index % self.services);
            if service < config.services.len() {
                self.begin_meter(now, config, host, service);
            }
        }
    }

    /// Starts the receive meter of a service at its present capacity.
    fn begin_meter(&mut self, now: Instant, config: &ShaperConfig, host: usize, service: usize) {
        let index = host * self.services + service;
        let parameters = config.of(&config.services[service]);
        let mut meter = ReceiveMeter::new(now, &parameters, Bandwidth::UNLIMITED);
        meter.set_share(self.receive_capacity(host, service).unwrap_or(Bandwidth::UNLIMITED));
        let settings = &self.tables.services[index];
        let receiver = &mut self.tables.receivers[index];
        (receiver.meter, receiver.generation, receiver.name) = (*meter.raw(), settings.generation, settings.name);
        self.tables.counting[index].sampler = FeedbackSampler::new(now, &parameters, index as u32).0;
    }
}

/// The configuration of a service of which an interface has this share.
fn receiving_service(config: &ShaperConfig, service: usize, leaf: &LeafShare) -> abi::Service {
    let parameters = config.of(&config.services[service]);
    let share = leaf.enforced();
    abi::Service {
        law: receive_law(&parameters),
        rules: destination_rules(&parameters.destination),
        rx_min: share.min.bps(),
        rx_max: limit(leaf.share.max),
        committed: leaf.committed.bps(),
        feedback_interval: parameters.feedback_interval.nanos(),
        feedback_bytes: u32::try_from(parameters.feedback_bytes.get()).unwrap_or(u32::MAX),
        rx_weight: share.weight.thousandths(),
        known: 1,
        name: [service as u32 + 1, 0, 0, 0],
        ..abi::Service::default()
    }
}

/// The share of an interface of `rate` by which a service's departures are paced.
fn sending_share(enforced: Share, max: Bandwidth, rate: Bandwidth) -> Share {
    let max = max.min(rate);
    Share { min: enforced.min.min(max), max, ..enforced }
}

/// The meter of the services of a plan that are not on a latency level.
fn sending_meter(pacing: &PacingConfig, plan: &MachinePlan, frame: Bytes) -> abi::InterfaceMeter {
    if pacing.rate.is_unlimited() {
        return *pacing.interface_meter(&[], frame).raw();
    }
    let leaves = plan.leaves.iter().map(|leaf| &leaf.shares.tx).filter(|leaf| !leaf.on_level);
    let shares: Vec<Share> = leaves.map(|leaf| sending_share(leaf.enforced(), leaf.share.max, pacing.rate)).collect();
    let levels: Bandwidth = plan.levels.iter().flatten().map(|limits| limits.rate).sum();
    // While all services are backlogged, levels send too.
    let saturated_rate = pacing.saturated_rate(pacing.rate.saturating_sub(levels), &shares).bps();
    abi::InterfaceMeter { saturated_rate, ..*pacing.interface_meter(&shares, frame).raw() }
}
