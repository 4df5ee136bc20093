//! [`Hosts`]: the datapath of many hosts in one process, as the programs of each of their kernels run it.
//!
//! ```text
//! send      destination queue ─► root limiter ─► committed share │ machine limiter ─► departure time
//! receive   policer ─► counters ─► tick, if one is due ─► sampler ─► R for the packet's source
//! ```
//!
//! Problem: a simulator of thousands of hosts needs what a kernel has once: limiters, meters and their counters, with
//! ticks but without timers. Approach: tables by host and by service, and two calls, [`Hosts::send`] for a packet that
//! leaves the queue of its destination and [`Hosts::receive`] for one that arrives. Ticks have no events of their own:
//! the first packet after a tick was due runs it. A tick without packets does nothing, so the rates at any packet are
//! those that a timer would have led to.
//!
//! The algorithms are in `datapath/departure.h` and `datapath/receive_tick.h`, the order of the steps in `bpf/tick.h`
//! and `bpf/receive.h`. Each host has one CPU.
//!
//! Worked example: a service with a root limit of 12.112 Mb/s and no machine limit sends four frames of 1,514 B at 0:
//! the departures are 0, 0, 1 and 2 ms.

mod receiving;
mod sending;

pub use receiving::{Arrival, Peer, Reception};

use crate::ReceiveMeter;
use receiving::Receiving;
use sending::Sending;
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// The least burst of a limiter in frames, where an agent paces an interface.
const BURST_FRAMES: u64 = 10;

/// The datapath of hosts, which are numbered from 0, as their services are.
#[derive(Debug)]
pub struct Hosts {
    sending: Sending,
    receiving: Receiving,
}

impl Hosts {
    /// Hosts with `services` services each, which have no limits; `frame` is the largest of their frames.
    pub fn new(services: usize, frame: Bytes) -> Self {
        Self { sending: Sending::new(services, frame), receiving: Receiving::new(services, frame) }
    }

    /// Puts shapers in force on the first hosts, one for each machine of the configuration. Limits and debts of
    /// existing shapers stay. Services beyond those of the configuration have no meter and no share.
    pub fn set_shapers(&mut self, now: Instant, config: &ShaperConfig) {
        self.sending.set_shapers(now, config);
        self.receiving.set_shapers(now, config);
    }

    /// Makes all receive meters measure over intervals of this length, from their next window on.
    pub fn set_interval(&mut self, interval: Duration) {
        self.receiving.set_interval(interval);
    }

    /// Sets the root limit of a service at a host, from its next packet on. Returns the burst of its limiter after a
    /// pause. Departures of earlier packets stay.
    pub fn set_limit(&mut self, host: usize, service: usize, limit: Bandwidth) -> Bytes {
        self.sending.set_limit(host, service, limit)
    }

    /// Sets the limit on what a service receives at a host, in addition to that of its machine's plan.
    pub fn set_receive_limit(&mut self, host: usize, service: usize, limit: Bandwidth) {
        self.receiving.set_limit(host, service, limit);
    }

    /// The lower of that limit and the plan's.
    pub fn receive_limit(&self, host: usize, service: usize) -> Bandwidth {
        self.receiving.limit(host, service)
    }

    /// The departure of a packet of `bytes` that has left the queue of its destination at `now`, at `now` or later;
    /// `None` if it lies beyond the horizon: the packet is dropped.
    #[inline]
    pub fn send(&mut self, host: usize, service: usize, now: Instant, bytes: u32) -> Option<Instant> {
        self.sending.send(host, service, now, bytes)
    }

    /// Charges to the machine limiter `bytes` that leave a host without a departure of [`Hosts::send`]: on a latency
    /// level, or by credits. They precede all other packets.
    pub fn count_ahead(&mut self, host: usize, bytes: u64) {
        self.sending.count_ahead(host, bytes);
    }

    /// Packets of a service at a host that were dropped because their departure was beyond the horizon.
    pub fn dropped(&self, host: usize, service: usize) -> u64 {
        self.sending.dropped(host, service)
    }

    /// Counts a packet that has arrived at a host. Only after [`Hosts::set_shapers`], for a service of its
    /// configuration.
    #[inline]
    pub fn receive(&mut self, host: usize, service: usize, now: Instant, arrival: Arrival) -> Reception {
        self.receiving.receive(host, service, now, arrival)
    }

    /// The capacity for what a service receives at a host, by its present share of the interface and its limits; `None`
    /// without shapers. The meter of a service without packets has that of its last tick.
    pub fn receive_capacity(&self, host: usize, service: usize) -> Option<Bandwidth> {
        self.receiving.capacity(host, service)
    }

    /// The receive meter of a service at a host; `None` without shapers.
    pub fn meter(&self, host: usize, service: usize) -> Option<&ReceiveMeter> {
        self.receiving.meter(host, service)
    }
}
