//! The interface in the tests of both meters: 95 % of a link, in numbers of bit/s, and its ticks.

use weir_datapath::{InterfaceMeter, ReceiveMeter};
use weir_policy::{Share, Sharing};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

pub(crate) const CAPACITY: f64 = 9.5e9;
/// One interval of the interface meter, ns.
pub(crate) const T: u64 = 1_000_000;

pub(crate) fn rate(bps: f64) -> Bandwidth {
    Bandwidth::from_bps(bps as u64)
}

/// The bytes that arrive in one interval of the interface meter.
pub(crate) fn bytes(bps: f64) -> Bytes {
    Bytes::new((bps * T as f64 * 1e-9 / 8.0) as u64)
}

/// What a service received since the last tick.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) bytes: u64,
    pub(crate) packets: u32,
    pub(crate) marked: u32,
}

/// A service at a receiver.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) meter: ReceiveMeter,
    pub(crate) committed: Bandwidth,
    /// Its share and the brokers' limit, if the interface meter is to record the highest R that affects it.
    pub(crate) reach: Option<(Share, Bandwidth)>,
    /// `None` if no packet has arrived since the last tick.
    pub(crate) counted: Option<Counted>,
}

impl Service {
    pub(crate) fn new(meter: ReceiveMeter, committed: Bandwidth) -> Self {
        Self { meter, committed, reach: None, counted: None }
    }
}

/// The receiving side of a host whose packets run its ticks: a packet that finds a tick due runs it first, and counts
/// in the next window. The kernel counts the packet first (`datapath/host/arrive.h`). Capacities of receive meters stay
/// as they are.
#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    pub(crate) interface: InterfaceMeter,
    pub(crate) services: Vec<Service>,
    pub(crate) sharing: Sharing,
    /// The least time between two ticks. A window may close half of it early.
    pub(crate) interval: Duration,
    /// The time of the last tick.
    pub(crate) ticked: Instant,
}

impl Receiver {
    /// With a tick before each packet, so that windows close as soon as their interval is over.
    pub(crate) fn new(interface: InterfaceMeter, services: Vec<Service>) -> Self {
        let (interval, ticked) = (Duration::ZERO, Instant::ZERO);
        Self { interface, services, sharing: Sharing::Fill, interval, ticked }
    }

    /// One service at an interface without a capacity.
    pub(crate) fn alone(meter: ReceiveMeter) -> Self {
        let parameters = ShaperParameters::PARLEY;
        let interface = InterfaceMeter::new(Instant::ZERO, &parameters, Bandwidth::UNLIMITED, Sharing::Fill, &[]);
        Self::new(interface, vec![Service::new(meter, Bandwidth::ZERO)])
    }

    /// Counts `packets` ECN-capable packets of a service, `marked` of them marked, after the tick if one is due.
    pub(crate) fn packets(&mut self, service: usize, now: Instant, bytes: Bytes, packets: u32, marked: u32) {
        if now > self.ticked && now >= self.ticked + self.interval {
            self.tick(now);
        }
        let counted = self.services[service].counted.get_or_insert_default();
        counted.bytes = counted.bytes.saturating_add(bytes.get());
        counted.packets = counted.packets.saturating_add(packets);
        counted.marked = counted.marked.saturating_add(marked);
    }

    /// A tick, in the order of `datapath/receive_tick.h`. Returns whether the interface's R was recomputed.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        self.ticked = now;
        let slack = Duration::from_nanos(self.interval.nanos() / 2);
        let mut all = 0u64;
        for Service { meter, committed, reach, counted } in &self.services {
            let Some(counted) = counted else { continue };
            all = all.saturating_add(counted.bytes);
            if let Some((share, limit)) = reach {
                self.interface.reach(meter, now, Bytes::new(counted.bytes), share, *limit, self.sharing);
            }
            self.interface.tick_marks(meter, counted.packets, counted.marked, *committed);
        }
        let stepped = all > 0 && self.interface.tick(now, Bytes::new(all), slack);
        for Service { meter, counted, .. } in &mut self.services {
            let Some(Counted { bytes, packets, marked }) = counted.take() else { continue };
            self.interface.tick_meter(meter, now, Bytes::new(bytes), packets, marked, slack);
        }
        stepped
    }
}
