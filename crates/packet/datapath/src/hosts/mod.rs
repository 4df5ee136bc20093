//! [`Hosts`]: the datapath of many hosts in one process, as the programs of each of their kernels run it.
//!
//! ```text
//! send      destination queue ─► root limiter ─► committed share │ machine limiter ─► departure time
//! receive   tick, if one is due ─► policer ─► counters ─► sampler ─► R for the packet's source
//! ```
//!
//! Problem: a simulator of thousands of hosts needs what a kernel has once: limiters, meters and their counters, with
//! ticks but without timers. Approach: the tables of `datapath/host/host.h` for all hosts in a row, and two calls,
//! [`Hosts::send`] for a packet that leaves the queue of its destination and [`Hosts::receive`] for one that arrives.
//! Each passes the C state machine pointers to the host's part of the tables. Timers have no events of their own: the
//! first packet after a timer was due runs it, as of the time at which it was due. Expiries without packets between
//! them do nothing, so they are skipped, and the rates at any packet are those that a timer would have led to.
//!
//! Each host has one CPU. Destination limiters are the caller's: packets wait in its queues.
//!
//! Worked example: a service with a root limit of 12.112 Mb/s and no machine limit sends four frames of 1,514 B at 0:
//! the departures are 0, 0, 1 and 2 ms.

mod settings;

use crate::parameters::{from_limit, limit};
use crate::policer::PoliceVerdict;
use crate::{HostTables, ReceiveMeter, abi};
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// The sender of a packet, for the policer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// It applies feedback, or nothing is policed here.
    Follower,
    /// It does not.
    Stranger,
}

/// A packet that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes of its frame.
    pub bytes: u32,
    /// Switches may mark it.
    pub capable: bool,
    /// A switch marked it.
    pub marked: bool,
    /// Its sender requests feedback.
    pub requests_feedback: bool,
    /// Its sender's transport reacts to marks.
    pub reacts: bool,
    /// Its sender.
    pub peer: Peer,
}

/// The decision about a packet that has arrived, and the feedback to its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reception {
    /// The policer's decision.
    pub verdict: PoliceVerdict,
    /// The rate to advertise.
    pub feedback: Option<Bandwidth>,
}

/// The timer of a host.
#[derive(Debug, Clone, Copy, Default)]
struct Timer {
    /// ns: when it is due.
    due: u64,
    /// Bytes on latency levels and of credits since it ran.
    ahead: u64,
}

/// The datapath of hosts, which are numbered from 0, as their services are.
#[derive(Debug)]
pub struct Hosts {
    services: usize,
    /// Bytes of the largest frame.
    frame: u64,
    /// The tables of all hosts, by host and then as in [`HostTables`]; the configuration is common to all.
    tables: HostTables,
    /// By host.
    timers: Vec<Timer>,
    /// By host: what the C functions take, with pointers into the tables. What changes the length of a table clears it,
    /// and the next packet points the hosts again. To point them for each packet took 9 % of the instructions of
    /// Parley's testbed (`common_work -- once-shaped`).
    pointers: Vec<abi::Host>,
}

/// A host's part of a table whose hosts have `each` entries; null without the table.
fn part<T>(table: &mut Vec<T>, host: usize, each: usize) -> (*mut T, u32) {
    if (host + 1) * each > table.len() {
        return (std::ptr::null_mut(), 0);
    }
    // The vector's own pointer and not that of a slice, so that later borrows of elements do not invalidate it.
    (table.as_mut_ptr().wrapping_add(host * each), each as u32)
}

impl Hosts {
    /// The most services of a host.
    pub const SERVICES_MAX: usize = abi::SERVICES_MAX as usize;

    /// Hosts with `services` services each, which have no limits; `frame` is the largest of their frames.
    ///
    /// # Panics
    /// With more than [`Hosts::SERVICES_MAX`] services and one index for control traffic.
    pub fn new(services: usize, frame: Bytes) -> Self {
        assert!(services <= Self::SERVICES_MAX + 1, "a host has at most {} services", Self::SERVICES_MAX);
        let mut hosts = Self {
            services,
            frame: frame.get(),
            tables: HostTables::default(),
            timers: Vec::new(),
            pointers: Vec::new(),
        };
        hosts.configure();
        hosts
    }

    /// A host as the C functions take it, at `now`.
    #[inline]
    fn raw(&mut self, host: usize, now: u64) -> &mut abi::Host {
        if self.pointers.is_empty() {
            self.point();
        }
        let present =
            (part(&mut self.tables.states, host, 1).0, part(&mut self.tables.receivers, host, self.services).0);
        let raw = &mut self.pointers[host];
        debug_assert_eq!((raw.states, raw.receivers), present, "the pointers lead into the present tables");
        raw.now = now;
        raw
    }

    /// Points each host at its part of the tables.
    #[cold]
    fn point(&mut self) {
        self.pointers = (0..self.timers.len()).map(|host| self.pointers_of(host)).collect();
    }

    /// A host whose pointers lead to its part of the tables, until their next change of length.
    fn pointers_of(&mut self, host: usize) -> abi::Host {
        let (services, tables) = (self.services, &mut self.tables);
        let (config, config_count) = part(&mut tables.config, 0, 1);
        let (settings, services_count) = part(&mut tables.services, host, services);
        let (interfaces, interfaces_count) = part(&mut tables.interfaces, host, abi::SIDES as usize);
        let (sendings, sendings_count) = part(&mut tables.sendings, host, services);
        let (pacings, pacings_count) = part(&mut tables.pacings, host, 1);
        let (counting, counting_count) = part(&mut tables.counting, host, services);
        let (active, active_count) = part(&mut tables.active, host, 1);
        let (counts, counts_count) = part(&mut tables.counts, 0, 1);
        let (cpu_batches, cpu_batches_count) = part(&mut tables.cpu_batches, host, services);
        let (receivers, receivers_count) = part(&mut tables.receivers, host, services);
        let (states, states_count) = part(&mut tables.states, host, 1);
        let (service_egresses, service_egresses_count) = part(&mut tables.service_egresses, host, services);
        let (interface_egresses, interface_egresses_count) = part(&mut tables.interface_egresses, host, 1);
        abi::Host {
            words: services.div_ceil(64) as u32,
            config,
            config_count,
            services: settings,
            services_count,
            interfaces,
            interfaces_count,
            sendings,
            sendings_count,
            pacings,
            pacings_count,
            counting,
            counting_count,
            active,
            active_count,
            counts,
            counts_count,
            cpu_batches,
            cpu_batches_count,
            receivers,
            receivers_count,
            states,
            states_count,
            service_egresses,
            service_egresses_count,
            interface_egresses,
            interface_egresses_count,
            ..abi::Host::default()
        }
    }

    /// Runs the timer that was due by `now`, as of its time.
    #[inline(never)]
    fn run_timer(&mut self, host: usize, now: u64) {
        let Timer { due, ahead } = std::mem::take(&mut self.timers[host]);
        if ahead > 0 {
            let egress = &mut self.tables.interface_egresses[host];
            abi::machine_egress_levels(&mut egress.machine, &self.tables.pacings[host], due, ahead);
        }
        // SAFETY: the host points into tables of the stated lengths, since a change of a length clears `pointers`, and
        // `self` is borrowed during the call. C does not write to the host itself.
        let next = unsafe { abi::host_timer(self.raw(host, due), due) };
        let due = due + ((now - due) / next + 1) * next;
        self.timers[host].due = due;
        // The expiries between had no packets. Batches and leases are valid until the next.
        self.tables.states[host].due = due;
    }

    /// The departure of a packet of `bytes` that has left the queue of its destination at `now`, at `now` or later;
    /// `None` if it lies beyond the horizon: the packet is dropped.
    #[inline]
    pub fn send(&mut self, host: usize, service: usize, now: Instant, bytes: u32) -> Option<Instant> {
        let Some(timer) = self.timers.get(host) else { return Some(now) };
        let index = host * self.services + service;
        let rules = &self.tables.sendings[index];
        let unlimited = self.tables.pacings[host].rate | rules.limit | rules.static_limit == 0;
        let sender = &self.tables.service_egresses[index].sender;
        // Packets can wait for a limit that has been lifted.
        if unlimited && sender.latest.max(sender.lease.end) <= now.nanos() {
            return Some(now);
        }
        if now.nanos() >= timer.due {
            self.run_timer(host, now.nanos());
        }
        let offered = abi::Offered {
            service: service as u32,
            bytes,
            segments: 1,
            destination: abi::NO_DESTINATION,
            ..abi::Offered::default()
        };
        let mut sent = abi::Sent::default();
        // SAFETY: as in `run_timer`.
        unsafe { abi::host_send(self.raw(host, now.nanos()), &offered, &mut sent) };
        match sent.departs {
            abi::DEPARTS_NOW => Some(now),
            abi::DEPARTS_LATER => Some(Instant::from_nanos(sent.departure).max(now)),
            _ => None,
        }
    }

    /// Charges to the machine limiter `bytes` that leave a host without a departure of [`Hosts::send`]: on a latency
    /// level, or by credits, at `now`. They precede all other packets.
    pub fn count_ahead(&mut self, host: usize, now: Instant, bytes: u64) {
        let Some(timer) = self.timers.get(host) else { return };
        if now.nanos() >= timer.due {
            self.run_timer(host, now.nanos());
        }
        self.timers[host].ahead += bytes;
    }

    /// Counts a packet that has arrived at a host. Only after [`Hosts::set_shapers`], for a service of its
    /// configuration.
    #[inline]
    pub fn receive(&mut self, host: usize, service: usize, now: Instant, arrival: Arrival) -> Reception {
        if now.nanos() >= self.timers[host].due {
            self.run_timer(host, now.nanos());
        }
        let arrived = abi::Arrived {
            ecn: abi::Ecn {
                capable: arrival.capable.into(),
                marked: arrival.marked.into(),
                requests_feedback: arrival.requests_feedback.into(),
                encapsulated: 0,
            },
            service: service as u32,
            bytes: arrival.bytes,
            segments: 1,
            follows: (arrival.peer == Peer::Follower).into(),
            ect: arrival.reacts.into(),
            ..abi::Arrived::default()
        };
        let mut received = abi::Received::default();
        // SAFETY: as in `run_timer`.
        unsafe { abi::host_receive(self.raw(host, now.nanos()), &arrived, &mut received) };
        let rate = received.feedback.rate;
        let feedback = (rate != 0).then(|| Bandwidth::from_bps(rate));
        Reception { verdict: PoliceVerdict::of(received.verdict as i32), feedback }
    }

    /// The lower of the brokers' limit on what a service receives at a host, and that of its machine's plan.
    pub fn receive_limit(&self, host: usize, service: usize) -> Bandwidth {
        let settings = &self.tables.services[host * self.services + service];
        from_limit(settings.rx_limit).min(from_limit(settings.rx_max))
    }

    /// The capacity for what a service receives at a host, by its present share of the interface and its limits; `None`
    /// without shapers. The meter of a service without packets has that of its last tick.
    pub fn receive_capacity(&self, host: usize, service: usize) -> Option<Bandwidth> {
        let settings = self.tables.services.get(host * self.services + service)?;
        let (min, max, weight) = (settings.rx_min, settings.rx_max, settings.rx_weight);
        let sharing = self.tables.config[0].sharing;
        let share = abi::interface_meter_share(&self.tables.states[host].receiving, sharing, min, max, weight);
        Some(from_limit(share).min(self.receive_limit(host, service)))
    }

    /// The receive meter of a service at a host; `None` without shapers.
    pub fn meter(&self, host: usize, service: usize) -> Option<ReceiveMeter> {
        let receiver = self.tables.receivers.get(host * self.services + service)?;
        Some(ReceiveMeter::of(receiver.meter))
    }

    /// Sets the limit on what a service receives at a host, in addition to that of its machine's plan, from the next
    /// tick on.
    pub fn set_receive_limit(&mut self, host: usize, service: usize, limited: Bandwidth) {
        self.tables.services[host * self.services + service].rx_limit = limit(limited);
    }

    /// Sets the root limit of a service at a host, from its next packet on. Returns the burst of its limiter after a
    /// pause. Departures of earlier packets stay.
    pub fn set_limit(&mut self, host: usize, service: usize, limited: Bandwidth) -> Bytes {
        self.grow(host + 1);
        self.tables.sendings[host * self.services + service].limit = limit(limited);
        let least = u64::from(self.tables.pacings[host].burst);
        Bytes::new((limited.bps() / u64::from(abi::BURST_PART)).clamp(least, abi::CHARGE_MAX.into()))
    }

    /// Puts shapers in force on the first hosts, one for each machine of the configuration. Limits and debts of
    /// existing shapers stay. Services beyond those of the configuration have no meter and no share.
    ///
    /// # Panics
    /// With more services than [`Hosts::SERVICES_MAX`].
    pub fn set_shapers(&mut self, now: Instant, config: &ShaperConfig) {
        assert!(config.services.len() <= Self::SERVICES_MAX, "a host has at most {} services", Self::SERVICES_MAX);
        self.grow(config.machines.len());
        self.set_ticks(config);
        self.set_sending(now, config);
        self.set_receiving(now, config);
    }

    /// Makes all receive meters measure over intervals of this length, from their next window on.
    pub fn set_interval(&mut self, config: &ShaperConfig, interval: Duration) {
        self.set_ticks(config);
        for settings in &mut self.tables.services {
            settings.law.interval = interval.nanos();
            settings.generation = settings.generation.wrapping_add(1).max(1);
        }
    }
}
