//! [`Pacer`]: departure times of packets of services that share an interface.
//!
//! The algorithm, its bounds and its source are in `datapath/departure.h`: one limiter for each
//! service's limit, one for its committed rate, one for the interface. Call [`Pacer::departure`]
//! for each packet and [`Pacer::tick`] from a timer, both in order of time.
//!
//! Worked example: 100 Mb/s, two services of weight 1. Each may send 49.2 Mb/s while both are
//! backlogged, whatever the other hands over; the remaining sixty-fourth is given out as excess.

use crate::interface_meter::{self, InterfaceMeter};
use crate::parameters::limit;
use crate::{Limiter, abi};
use std::ptr;
use weir_policy::{Share, Sharing};
use weir_shaping::{Alpha, InterfaceParameters, Marks, ShaperParameters};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// The committed rate of unclassified traffic, as a fraction of the interface: a hundredth, which
/// is also its HTB guarantee.
const UNCLASSIFIED_PART: u64 = 100;
/// Aggressiveness of the law: the load reflects a change of R one interval late.
const ALPHA: Alpha = Alpha::from_thousandths(250).expect("a quarter");

/// Pacing of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacingConfig {
    /// Rate of the interface.
    pub rate: Bandwidth,
    /// Rule by which services share it.
    pub sharing: Sharing,
    /// Longest delay of a packet.
    pub horizon: Duration,
    /// Bytes that may be delayed beyond the horizon.
    pub queue: Bytes,
    /// Least burst after a pause.
    pub burst: Bytes,
    /// CPUs that may send.
    pub cpus: u32,
}

impl PacingConfig {
    /// The values that the kernel's programs read.
    pub fn raw(&self) -> abi::Pacing {
        let narrow = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX);
        abi::Pacing {
            rate: limit(self.rate),
            horizon: self.horizon.nanos(),
            queue: narrow(self.queue),
            burst: narrow(self.burst),
            sharing: match self.sharing {
                Sharing::Fill => abi::SHARE_FILL,
                Sharing::Add => abi::SHARE_ADD,
            },
            spread: abi::CPU_BATCH_SPREAD + self.cpus.max(1).next_power_of_two().trailing_zeros(),
        }
    }

    /// The capacity that services share of an interface of this rate: a part of it is left, so that the queue of excess
    /// packets empties.
    pub fn shared(rate: Bandwidth) -> Bandwidth {
        match rate.is_unlimited() {
            true => rate,
            false => Bandwidth::from_bps(rate.bps() - rate.bps() / u64::from(abi::COMMITTED_PART)),
        }
    }

    /// The interface meter of services with these shares, before any traffic; `segment` is the
    /// largest buffer that is handed over.
    pub fn interface_meter(&self, shares: &[Share], segment: Bytes) -> InterfaceMeter {
        let capacity = Self::shared(self.rate);
        let grain = (self.burst.max(segment).get() * u64::from(abi::GRAIN_BURSTS)).max(self.queue.get());
        let least = Duration::from_nanos(grain.saturating_mul(abi::NANOBITS_PER_BYTE) / capacity.bps().max(1));
        let law = InterfaceParameters {
            interval: self.horizon.max(least).min(Duration::from_secs(1)),
            marks: Marks::Ignored,
            percent_of_link: 100,
            weighs_marks: true,
        };
        let parameters = ShaperParameters { interface: law, alpha: ALPHA, ..ShaperParameters::PARLEY };
        InterfaceMeter::new(Instant::ZERO, &parameters, capacity, self.sharing, shares)
    }

    /// The fair rate of services with these shares of `capacity` while all are backlogged.
    pub fn saturated_rate(&self, capacity: Bandwidth, shares: &[Share]) -> Bandwidth {
        interface_meter::saturated_rate(capacity.min(Self::shared(self.rate)), self.sharing, shares)
    }

    /// The limits of a service with this share, which is `limited` while an agent runs, and has
    /// `static_limit` while none does.
    pub fn sending(&self, share: &Share, limited: Bandwidth, static_limit: Bandwidth) -> abi::Sending {
        abi::Sending {
            min: share.min.bps(),
            max: limit(share.max),
            limit: limit(limited),
            static_limit: limit(static_limit),
            weight: share.weight.thousandths(),
            generation: 1,
        }
    }

    /// The limits of unclassified traffic: a small committed rate and no maximum.
    pub fn unclassified(&self) -> abi::Sending {
        let part = if self.rate.is_unlimited() { 0 } else { (self.rate.bps() / UNCLASSIFIED_PART).max(1) };
        abi::Sending { min: part, max: part, limit: 0, static_limit: 0, weight: 1000, generation: 1 }
    }
}

/// The departure of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// At this time, within the service's committed rate.
    Committed(Instant),
    /// At this time, from capacity in excess of all committed rates.
    Excess(Instant),
    /// Dropped: its departure lies beyond the horizon.
    Never,
}

impl Leaves {
    /// From `WEIR_LEAVES_*`, with or without `WEIR_LEAVES_NEWCOMER`.
    fn new(leaves: u32, at: Instant) -> Self {
        match leaves % abi::LEAVES_NEWCOMER {
            abi::LEAVES_COMMITTED => Self::Committed(at),
            abi::LEAVES_NEVER => Self::Never,
            _ => Self::Excess(at),
        }
    }

    /// The departure time.
    pub fn at(self) -> Option<Instant> {
        match self {
            Self::Committed(at) | Self::Excess(at) => Some(at),
            Self::Never => None,
        }
    }
}

/// Bytes of a service that one CPU has sent to at most one destination before they are charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuBatch(abi::CpuBatch);

impl CpuBatch {
    /// Bytes to be charged.
    pub fn unpaid(&self) -> Bytes {
        Bytes::new(self.0.unpaid.into())
    }
}

/// Departures reserved for packets of a service to one destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lease(abi::Lease);

impl Lease {
    /// Bytes sent under the lease that are in no counter yet.
    pub fn uncounted(&self) -> Bytes {
        Bytes::new(self.0.uncounted())
    }
}

/// A rate-limited destination: its slot, its limiter and its lease.
pub type Towards<'a> = (u32, &'a mut Limiter, &'a mut Lease);

/// The limiters that a packet of one service passes behind its destination's.
pub(crate) struct Path<'a> {
    pub(crate) pacing: &'a abi::Pacing,
    pub(crate) meter: &'a abi::InterfaceMeter,
    pub(crate) machine: &'a mut abi::MachineEgress,
    pub(crate) rules: &'a abi::Sending,
    pub(crate) sender: &'a mut abi::Sender,
}

impl Path<'_> {
    /// As [`Pacer::departure_on`].
    #[inline]
    pub(crate) fn departure(
        self,
        batch: &mut abi::CpuBatch,
        (destination, paid): (Option<Towards<'_>>, Option<&mut Limiter>),
        (tick, due): (Duration, Instant),
        now: Instant,
        bytes: u32,
    ) -> Leaves {
        let (slot, limiter, mut lease) = match destination {
            Some((slot, limiter, lease)) => (slot, Some(limiter.raw_mut()), Some(&mut lease.0)),
            None => (abi::NO_DESTINATION, None, None),
        };
        let due = due.nanos();
        if abi::cpu_batch_pass(batch, due, slot, bytes) != 0 {
            return Leaves::Committed(now);
        }
        let Self { pacing, meter, machine, rules, sender } = self;
        let mut departure = 0;
        if abi::lease_take(lease.as_deref_mut().unwrap_or(&mut sender.lease), due, bytes, &mut departure) != 0 {
            let departure = Instant::from_nanos(departure);
            let same_slot = abi::cpu_batch_end(batch, due, slot) != 0;
            return Leaves::Committed(if same_slot { departure.max(now) } else { departure });
        }
        let destination = limiter.map_or(ptr::null_mut(), ptr::from_mut);
        let paid = if batch.slot == slot { destination } else { paid.map_or(ptr::null_mut(), |paid| paid.raw_mut()) };
        let sender = ptr::from_mut(sender);
        // SAFETY: `sender` was made from a reference that is not used below.
        let lease = lease.map_or(unsafe { &raw mut (*sender).lease }, ptr::from_mut);
        let (pacing, meter) = (ptr::from_ref(pacing), ptr::from_ref(meter));
        // SAFETY: all pointers come from live references; the lease is in `sender` or distinct from
        // it, the limiter may be null.
        let tick_time =
            unsafe { abi::departure_tick_time(sender, destination, batch.unpaid, lease, pacing, tick.nanos(), due) };
        let seen = if tick_time == 0 { now.nanos() } else { tick_time };
        let machine = ptr::from_mut(machine);
        // SAFETY: as above; `paid` may equal `destination`, and C reads and writes both through
        // pointers that may alias.
        let leaves = unsafe {
            abi::depart(
                batch,
                paid,
                destination,
                slot,
                lease,
                sender,
                rules,
                pacing,
                meter,
                machine,
                seen,
                due,
                bytes,
                0,
                &mut departure,
            )
        };
        Leaves::new(leaves, Instant::from_nanos(departure).max(now))
    }
}

/// Paces the services of an interface; the last service is unclassified traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pacer {
    pacing: abi::Pacing,
    meter: abi::InterfaceMeter,
    machine: abi::MachineEgress,
    services: Vec<(abi::Sending, abi::Sender)>,
    /// Committed bytes and newcomers that the law has counted.
    taken: (u64, u64),
}

impl Pacer {
    /// Paces services with these shares, which hand over buffers of at most `segment`.
    pub fn new(config: &PacingConfig, shares: &[Share], segment: Bytes) -> Self {
        let services = shares.iter().map(|share| config.sending(share, Bandwidth::UNLIMITED, share.max));
        let services = services.chain([config.unclassified()]);
        Self {
            pacing: config.raw(),
            meter: *config.interface_meter(shares, segment).raw(),
            machine: abi::MachineEgress::default(),
            services: services.map(|rules| (rules, abi::Sender::default())).collect(),
            taken: (0, 0),
        }
    }

    /// Sets the brokers' limit of a service.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn set_limit(&mut self, service: usize, limited: Bandwidth) {
        self.services[service].0.limit = limit(limited);
    }

    /// The departure of a packet of `bytes` that is handed over at `now`. `destination` is the
    /// limiter of its receiver, if any; `static_only` ignores the brokers' limit, as while no agent
    /// runs.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn departure(
        &mut self,
        service: usize,
        destination: Option<&mut Limiter>,
        now: Instant,
        bytes: u32,
        static_only: bool,
    ) -> Leaves {
        let (now, mut departure) = (now.nanos(), now.nanos());
        if let Some(limiter) = destination
            && abi::pacing_pass(&self.pacing, limiter.raw_mut(), now, bytes, &mut departure) != 0
        {
            return Leaves::Never;
        }
        let Self { pacing, meter, machine, services, .. } = self;
        let (rules, sender) = &mut services[service];
        let static_only = static_only.into();
        let leaves =
            abi::sender_departure(sender, rules, pacing, meter, machine, now, bytes, static_only, &mut departure);
        if leaves != abi::LEAVES_NEVER {
            abi::machine_egress_departure(machine, pacing, now, bytes, leaves, &mut departure);
        }
        Leaves::new(leaves, Instant::from_nanos(departure))
    }

    /// Like [`Pacer::departure`], on a CPU that sends in batches as the kernel does. The next tick
    /// (one each `tick`) is due at `due`. A batch is charged with a later packet on the same CPU,
    /// to `paid` if the batch went to another destination than that packet.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn departure_on(
        &mut self,
        batch: &mut CpuBatch,
        service: usize,
        (destination, paid): (Option<Towards<'_>>, Option<&mut Limiter>),
        (tick, due): (Duration, Instant),
        now: Instant,
        bytes: u32,
    ) -> Leaves {
        let Self { pacing, meter, machine, services, .. } = self;
        let (rules, sender) = &mut services[service];
        let path = Path { pacing, meter, machine, rules, sender };
        path.departure(&mut batch.0, (destination, paid), (tick, due), now, bytes)
    }

    /// Bytes of a service that left under leases without a destination's limiter and are in no counter yet.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn uncounted(&self, service: usize) -> Bytes {
        Bytes::new(self.services[service].1.lease.uncounted())
    }

    /// Bytes of a service that were charged.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn sent(&self, service: usize) -> Bytes {
        Bytes::new(self.services[service].1.sent)
    }

    /// Runs the law, once each `tick`.
    pub fn tick(&mut self, now: Instant, tick: Duration) {
        let (bytes, newcomers) = std::mem::replace(&mut self.taken, (self.machine.committed, self.machine.newcomers));
        let (bytes, newcomer) = (self.machine.committed - bytes, u32::from(self.machine.newcomers != newcomers));
        abi::sending_tick(&mut self.meter, now.nanos(), bytes, newcomer, tick.nanos() / 2);
    }

    /// R: the committed rate of a service of the lightest weight in addition to its guarantee.
    pub fn rate(&self) -> Bandwidth {
        Bandwidth::from_bps(self.meter.rate)
    }

    /// Interval of the law.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.meter.law.interval)
    }

    /// Buffers of a service that were dropped.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn dropped(&self, service: usize) -> u64 {
        self.services[service].1.dropped
    }
}
