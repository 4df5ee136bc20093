//! [`Pacer`]: when the packets of services leave an interface that they share.
//!
//! The algorithm, its bounds and its source are in `datapath/departure.h`: a clock for each service's limit, one for what it is entitled to, one
//! for the interface. Call [`Pacer::departure`] for each packet and [`Pacer::tick`] by a timer, both in order of time.
//!
//! Worked example: 100 Mb/s, two services of weight 1. Each may send 49.2 Mb/s while both want everything, whoever hands over more;
//! a sixty-fourth is given out as spare.

use crate::layout::{
    BATCH_SPREAD, ENTITLED_PART, LEAVES_ENTITLED, LEAVES_NEVER, LEAVES_NEWCOMER, NOWHERE, RawBatch, RawGrant,
    RawInterfaceMeter, RawLimiter, RawMachine, RawPacing, RawSender, RawSending, SHARE_ADD, SHARE_FILL, native,
};
use crate::parameters::{Alpha, InterfaceParameters, Marks, ShaperParameters, limit};
use crate::{InterfaceMeter, Limiter};
use weir_policy::{Share, Sharing};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// What of the interface unclassified traffic is entitled to: a hundredth, as its HTB class is guaranteed.
const UNCLASSIFIED_PART: u64 = 100;
/// Bursts in an interval of the law, at least, as in a receive meter's window (`datapath/receive_tick.h`).
const BURSTS: u64 = 4;
/// Of the law: what is handed over tells of R an interval late.
const ALPHA: Alpha = Alpha::from_thousandths(250).expect("a quarter");

/// How an interface is paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacingConfig {
    /// The rate of the interface.
    pub rate: Bandwidth,
    /// How services share it.
    pub sharing: Sharing,
    /// How long a packet may wait.
    pub horizon: Duration,
    /// What may wait for longer.
    pub queue: Bytes,
    /// What may leave at once after a pause, at least.
    pub burst: Bytes,
    /// That may send.
    pub cpus: u32,
}

impl PacingConfig {
    /// As the kernel's programs take it.
    pub fn raw(&self) -> RawPacing {
        let narrow = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX);
        RawPacing {
            rate: limit(self.rate),
            horizon: self.horizon.nanos(),
            queue: narrow(self.queue),
            burst: narrow(self.burst),
            sharing: match self.sharing {
                Sharing::Fill => SHARE_FILL,
                Sharing::Add => SHARE_ADD,
            },
            spread: BATCH_SPREAD + self.cpus.max(1).next_power_of_two().trailing_zeros(),
        }
    }

    /// The level of services with these shares, before anything was sent; `segment` is the largest buffer that is handed over.
    pub fn level(&self, shares: &[Share], segment: Bytes) -> InterfaceMeter {
        let capacity = match self.rate {
            rate if rate.is_unlimited() => rate,
            rate => Bandwidth::from_bps(rate.bps() - rate.bps() / ENTITLED_PART),
        };
        let grain = (self.burst.max(segment).get() * BURSTS).max(self.queue.get());
        let least = Duration::from_nanos(grain.saturating_mul(8_000_000_000) / capacity.bps().max(1));
        let law = InterfaceParameters {
            interval: self.horizon.max(least).min(Duration::from_secs(1)),
            marks: Marks::Ignored,
            percent_of_link: 100,
            weighs_marks: true,
        };
        let parameters = ShaperParameters { interface: law, alpha: ALPHA, ..ShaperParameters::PARLEY };
        InterfaceMeter::new(Instant::ZERO, &parameters, capacity, self.sharing, shares)
    }

    /// What a service of this share may send, limited to `limit` by the brokers.
    pub fn sending(&self, share: &Share, limited: Bandwidth) -> RawSending {
        RawSending {
            min: share.min.bps(),
            max: limit(share.max),
            limit: limit(limited),
            ceiling: limit(share.max),
            weight: share.weight.thousandths(),
            generation: 1,
        }
    }

    /// What unclassified traffic may send: it is entitled to little, and not limited.
    pub fn unclassified(&self) -> RawSending {
        let part = if self.rate.is_unlimited() { 0 } else { (self.rate.bps() / UNCLASSIFIED_PART).max(1) };
        RawSending { min: part, max: part, limit: 0, ceiling: 0, weight: 1000, generation: 1 }
    }
}

/// When a packet leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// At this time, as what its service is entitled to.
    Entitled(Instant),
    /// At this time, since then there is room.
    Spare(Instant),
    /// It would wait for too long.
    Never,
}

impl Leaves {
    /// The time.
    pub fn at(self) -> Option<Instant> {
        match self {
            Self::Entitled(at) | Self::Spare(at) => Some(at),
            Self::Never => None,
        }
    }
}

/// What one CPU has let leave of a service, towards one destination or none, and not yet charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Batch(RawBatch);

impl Batch {
    /// Bytes to be charged.
    pub fn unpaid(&self) -> Bytes {
        Bytes::new(self.0.unpaid.into())
    }
}

/// Departures that are kept for packets of a service towards one destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Grant(RawGrant);

impl Grant {
    /// Bytes that were used and that nobody has counted yet.
    pub fn uncounted(&self) -> Bytes {
        Bytes::new(self.0.uncounted())
    }
}

/// Where a packet goes that a destination's limiter holds: its slot, the limiter, and what is kept for it.
pub type Towards<'a> = (u32, &'a mut Limiter, &'a mut Grant);

/// Paces the services of an interface, the unclassified traffic as the last of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pacer {
    pacing: RawPacing,
    level: RawInterfaceMeter,
    machine: RawMachine,
    services: Vec<(RawSending, RawSender)>,
    /// Bytes that the law has taken, and newcomers.
    taken: (u64, u64),
}

impl Pacer {
    /// Of services with these shares, which hand over buffers of `segment` at most.
    pub fn new(config: &PacingConfig, shares: &[Share], segment: Bytes) -> Self {
        let services = shares.iter().map(|share| config.sending(share, Bandwidth::UNLIMITED));
        let services = services.chain([config.unclassified()]);
        Self {
            pacing: config.raw(),
            level: *config.level(shares, segment).raw(),
            machine: RawMachine::default(),
            services: services.map(|rules| (rules, RawSender::default())).collect(),
            taken: (0, 0),
        }
    }

    /// From now on the brokers let a service send so much.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn set_limit(&mut self, service: usize, limited: Bandwidth) {
        self.services[service].0.limit = limit(limited);
    }

    /// When a packet of `bytes` leaves that is handed over at `now`. `destination` is the limiter towards its receiver, if there is one; `alone`:
    /// no agent is alive, so that brokers do not count.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn departure(
        &mut self,
        service: usize,
        destination: Option<&mut Limiter>,
        now: Instant,
        bytes: u32,
        alone: bool,
    ) -> Leaves {
        let mut departure = now.nanos();
        if let Some(limiter) = destination {
            let raw: &mut RawLimiter = limiter.raw_mut();
            if native::weir_native_pacing_pass(&self.pacing, raw, now.nanos(), bytes, &mut departure) != 0 {
                return Leaves::Never;
            }
        }
        let (rules, sender) = &mut self.services[service];
        let leaves = native::weir_native_departure(
            sender,
            rules,
            &self.pacing,
            &self.level,
            &mut self.machine,
            now.nanos(),
            bytes,
            alone.into(),
            &mut departure,
        );
        let at = Instant::from_nanos(departure);
        match leaves % LEAVES_NEWCOMER {
            LEAVES_ENTITLED => Leaves::Entitled(at),
            LEAVES_NEVER => Leaves::Never,
            _ => Leaves::Spare(at),
        }
    }

    /// The same on a CPU that lets packets leave in batches, as the kernel does. The next of ticks of `tick` is due at `due`. A batch's bytes
    /// are charged with a later packet on the CPU, and to `paid` where they went to another destination than it does.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn departure_on(
        &mut self,
        batch: &mut Batch,
        service: usize,
        (destination, paid): (Option<Towards<'_>>, Option<&mut Limiter>),
        (tick, due): (Duration, Instant),
        now: Instant,
        bytes: u32,
    ) -> Leaves {
        let (place, mut limiter, mut grant) = match destination {
            Some((place, limiter, grant)) => (place, Some(limiter.raw_mut()), Some(&mut grant.0)),
            None => (NOWHERE, None, None),
        };
        if native::weir_native_cpu_batch_pass(&mut batch.0, due.nanos(), place, bytes) != 0 {
            return Leaves::Entitled(now);
        }
        let (rules, sender) = &mut self.services[service];
        let mut departure = 0;
        let kept = grant.as_deref_mut().unwrap_or(&mut sender.grant);
        if native::weir_native_lease_take(kept, due.nanos(), bytes, &mut departure) != 0 {
            let departure = Instant::from_nanos(departure);
            let ended = native::weir_native_cpu_batch_end(&mut batch.0, due.nanos(), place) != 0;
            return Leaves::Entitled(if ended { departure.max(now) } else { departure });
        }
        let (unpaid, tick) = (batch.0.unpaid, tick.nanos());
        let lately = native::weir_native_departure_tick_time(
            sender,
            limiter.as_deref(),
            unpaid,
            grant.as_deref(),
            &self.pacing,
            tick,
            due.nanos(),
        );
        let seen = if lately == 0 { now.nanos() } else { lately };
        let leaves = native::weir_native_depart(
            &mut batch.0,
            paid.map(Limiter::raw_mut),
            limiter.take(),
            place,
            grant,
            sender,
            rules,
            &self.pacing,
            &self.level,
            &mut self.machine,
            seen,
            due.nanos(),
            bytes,
            &mut departure,
        );
        let at = Instant::from_nanos(departure).max(now);
        match leaves % LEAVES_NEWCOMER {
            LEAVES_ENTITLED => Leaves::Entitled(at),
            LEAVES_NEVER => Leaves::Never,
            _ => Leaves::Spare(at),
        }
    }

    /// Bytes of a service that left in grants, of what no destination's limiter holds, and that nobody has counted yet.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn uncounted(&self, service: usize) -> Bytes {
        Bytes::new(self.services[service].1.grant.uncounted())
    }

    /// Bytes of a service that were charged.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn sent(&self, service: usize) -> Bytes {
        Bytes::new(self.services[service].1.sent)
    }

    /// A tick of the timer, each `tick`.
    pub fn tick(&mut self, now: Instant, tick: Duration) {
        let (bytes, newcomers) = std::mem::replace(&mut self.taken, (self.machine.committed, self.machine.newcomers));
        let (bytes, newcomer) = (self.machine.committed - bytes, u32::from(self.machine.newcomers != newcomers));
        native::weir_native_sending_tick(&mut self.level, now.nanos(), bytes, newcomer, tick.nanos() / 2);
    }

    /// R: what a service of the lightest weight is entitled to beside its guarantee.
    pub fn rate(&self) -> Bandwidth {
        Bandwidth::from_bps(self.level.rate)
    }

    /// How often the law is run.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.level.law.interval)
    }

    /// Buffers of a service that were dropped.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn dropped(&self, service: usize) -> u64 {
        self.services[service].1.dropped
    }
}
