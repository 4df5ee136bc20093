//! [`EdtShaper`]: services and destinations by departure times.
//!
//! HTB has one lock per interface, and an agent sets its classes, so feedback takes effect after a
//! system call. Here the programs set a departure time on each packet (`datapath/departure.h`,
//! `datapath/host/depart.h`), and fq delays the packet until then. All state is in the maps: this module
//! writes the services' limits and reads their counters. Arriving feedback sets destination
//! limiters without the agent.
//!
//! As in [`crate::htb_shaper`], a service has its share in the policy's tree on a full interface, is
//! limited to the brokers' limit or its own maximum, and shares excess capacity by weight;
//! unclassified traffic is guaranteed a hundredth; queues are 20 ms, and at least 128 frames.
//! Unlike there, the policy's own rule of sharing applies at the interface, destinations are rate-limited while no
//! agent runs, and a service's backlog is estimated from its last departure.
//!
//! Order of calls: attach the programs, [`EdtShaper::install`], set rules with
//! [`crate::settings::Classes::Edt`], then [`Shaper::set`] at any time. On removal the programs go
//! first, as departure times have no effect without fq.
//!
//! Packets of latency levels have no departure time but a class before fq ([`crate::fq`]); ticks charge their bytes to
//! the interface.
//!
//! Worked example: `dfs`, guaranteed 3 of 10 Gb/s, limited to 8 by the rack's broker: its entry in
//! `weir_sendings` has that limit, and within a tick its limiter runs at 8 Gb/s. Feedback of 1 Gb/s
//! from receiver b: packets to b leave by b's limiter, without the agent.
//!
//! Source: Saeed et al., Carousel, SIGCOMM 2017; net/sched/sch_fq.c.

use crate::class::{QUEUE_TIME, RATE_MIN, Sending, burst_bytes, queue_bytes};
use crate::dropped::Dropped;
use crate::fq::{Fq, FqError};
use crate::interface::Interface;
use crate::loader::{InterfaceDatapath, LoaderError};
use crate::maps::PacingMaps;
use crate::settings::kernel_time;
use crate::settings::possible_cpus;
use crate::shaper::{Backend, DestinationRate, ServiceQueue, ServiceRate, Shaper, ShaperError};
use crate::tc::Found;
use aya::maps::MapError;
use std::collections::BTreeMap;
use std::fmt;
use weir_datapath::PacingConfig;
use weir_datapath::abi::{Interface as Side, NANOBITS_PER_BYTE, REST, SIDE_SENDING, Sending as Limits, ServiceEgress};
use weir_policy::{Share, Sharing};
use weir_shaping::LevelLimits;
use weir_units::{Bandwidth, Bytes};

/// Rates by departure times.
pub struct EdtShaper {
    /// None in benches of the programs alone.
    fq: Option<Fq>,
    maps: PacingMaps,
    config: PacingConfig,
    /// The capacity that services share, beside latency levels.
    shared: Bandwidth,
    /// The slots of services on levels.
    levelled: Vec<u32>,
    sending: Sending,
    /// By slot, with the policy's guarantee.
    services: BTreeMap<u32, ServiceRate>,
    /// Drops of fq, which belong to no service that is known.
    fq_dropped: Dropped,
}

/// An interface to share by departure times.
#[derive(Debug, Clone, Copy)]
pub struct Egress<'a> {
    /// Its rate.
    pub nic: Bandwidth,
    /// The part of it that services share while all are backlogged: less than the rate beside latency levels.
    pub shared: Bandwidth,
    /// The rule by which they share.
    pub sharing: Sharing,
    /// By latency level, the most urgent first: its limits, if this host sends on it.
    pub levels: &'a [Option<LevelLimits>],
    /// The slots of services on these levels, which have no share.
    pub levelled: &'a [u32],
}

/// The sending side of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressReading {
    /// R: the committed rate of a service of the lightest weight, in addition to its guarantee or instead of it.
    pub rate: Bandwidth,
    /// Committed traffic in the last interval.
    pub usage: Bandwidth,
    /// Bytes sent.
    pub sent: Bytes,
    /// Bytes sent within committed rates.
    pub committed: Bytes,
}

impl EdtShaper {
    /// Installs fq and the bands of latency levels on the interface (see [`Fq::install`]) and writes the services'
    /// limits. The debts of an earlier agent's packets remain.
    pub fn install(
        interface: &Interface,
        datapath: &InterfaceDatapath,
        egress: &Egress<'_>,
        rates: &[ServiceRate],
        sending: Sending,
        force: bool,
    ) -> Result<Self, ShaperError> {
        let fq = Some(Fq::install(interface, egress.levels, sending, force)?);
        Self::begin(fq, datapath, egress, rates, sending)
    }

    /// Only writes the services' limits; departure times have no effect. For benches of the
    /// programs, also on kernels without fq.
    #[doc(hidden)]
    pub fn without_fq(
        datapath: &InterfaceDatapath,
        egress: &Egress<'_>,
        rates: &[ServiceRate],
        sending: Sending,
    ) -> Result<Self, ShaperError> {
        Self::begin(None, datapath, egress, rates, sending)
    }

    fn begin(
        fq: Option<Fq>,
        datapath: &InterfaceDatapath,
        egress: &Egress<'_>,
        rates: &[ServiceRate],
        sending: Sending,
    ) -> Result<Self, ShaperError> {
        let maps = PacingMaps::open(&datapath.pins)?;
        let config = PacingConfig {
            rate: egress.nic,
            sharing: egress.sharing,
            horizon: QUEUE_TIME,
            queue: queue_bytes(sending),
            burst: burst_bytes(sending),
            cpus: possible_cpus()?,
        };
        let services = rates.iter().map(|rate| (rate.slot, *rate)).collect();
        let (shared, levelled, fq_dropped) = (egress.shared, egress.levelled.to_vec(), Dropped::default());
        let mut shaper = Self { fq, maps, config, shared, levelled, sending, services, fq_dropped };
        shaper.write_pacing()?;
        shaper.write_side()?;
        shaper.write_services(rates)?;
        Ok(shaper)
    }

    /// The previous root qdisc.
    pub fn found(&self) -> Option<&Found> {
        self.fq.as_ref().map(Fq::found)
    }

    /// Rates and counters of the sending side.
    pub fn egress(&self) -> Result<EgressReading, ShaperError> {
        let meter = self.maps.states.get(0).map_err(LoaderError::from)?.sending;
        let machine = self.maps.interface_egresses.get(0).map_err(LoaderError::from)?.machine;
        let mut unpaid = 0;
        for slot in self.services.keys().chain([&REST]) {
            unpaid += self.unpaid(*slot).map_err(LoaderError::from)?;
        }
        Ok(EgressReading {
            rate: Bandwidth::from_bps(meter.rate),
            usage: Bandwidth::from_bps(meter.usage),
            sent: Bytes::new(machine.sent + unpaid),
            committed: Bytes::new(machine.committed + unpaid),
        })
    }

    /// Packets that fq dropped although their departure was within the horizon.
    pub fn fq_drops(&mut self) -> Result<u64, ShaperError> {
        Ok(self.fq.as_mut().map_or(Ok(0), Fq::drops)?)
    }

    fn share(rate: &ServiceRate) -> Share {
        Share { min: rate.min, max: rate.machine_max, weight: rate.weight }
    }

    fn write_pacing(&mut self) -> Result<(), LoaderError> {
        let wanted = self.config.raw();
        if self.maps.pacings.get(0)? != wanted {
            self.maps.pacings.set(0, wanted)?;
        }
        Ok(())
    }

    /// Writes capacity and shares of the sending side if they have changed, since a write resets R.
    fn write_side(&mut self) -> Result<(), LoaderError> {
        let sharing = self.services.values().filter(|rate| !self.levelled.contains(&rate.slot));
        let shares: Vec<Share> = sharing.map(Self::share).collect();
        let meter = self.config.interface_meter(&shares, self.sending.segment);
        // While all services are backlogged, levels send too.
        let saturated_rate = self.config.saturated_rate(self.shared, &shares).bps();
        let there = self.maps.interfaces.get(SIDE_SENDING)?;
        let wanted = Side { saturated_rate, ..meter.configuration(there.generation) };
        if wanted != there || there.generation == 0 {
            let generation = there.generation.wrapping_add(1).max(1);
            self.maps.interfaces.set(SIDE_SENDING, Side { generation, ..wanted })?;
        }
        Ok(())
    }

    fn write_services(&mut self, rates: &[ServiceRate]) -> Result<(), LoaderError> {
        for rate in rates {
            // The least rate is that of HTB's classes, one packet in some seconds.
            let least = |rate: Bandwidth| rate.max(RATE_MIN);
            let share = Share { max: least(rate.machine_max), ..Self::share(rate) };
            let sending = self.config.sending(&share, least(rate.max), least(rate.static_limit));
            self.write_sending(rate.slot, sending)?;
        }
        self.write_sending(REST, self.config.unclassified())
    }

    /// Writes a service's limits, with a new generation if its committed rate may change; a limit
    /// takes effect within a tick anyway.
    fn write_sending(&mut self, slot: u32, wanted: Limits) -> Result<(), LoaderError> {
        let there = self.maps.sendings.get(slot)?;
        let share = |limits: &Limits| (limits.min, limits.max, limits.weight);
        let generation = match share(&wanted) == share(&there) && there.generation != 0 {
            true => there.generation,
            false => there.generation.wrapping_add(1).max(1),
        };
        let wanted = Limits { generation, ..wanted };
        if wanted != there {
            self.maps.sendings.set(slot, wanted)?;
        }
        Ok(())
    }

    /// Bytes of a service that have left and are not charged yet.
    fn unpaid(&self, slot: u32) -> Result<u64, MapError> {
        let batches = self.maps.cpu_batches.get(slot)?;
        Ok(batches.iter().map(|batch| u64::from(batch.unpaid)).sum())
    }

    fn queue(&self, slot: u32, now: u64) -> Result<ServiceQueue, MapError> {
        let sender = self.maps.service_egresses.get(slot)?.sender;
        let rates = [sender.root.rate, sender.committed.rate, self.config.raw().rate];
        let rate = rates.into_iter().filter(|rate| *rate != 0).min().unwrap_or(0);
        let waits = u128::from(sender.latest.saturating_sub(now));
        let backlog = u64::try_from(u128::from(rate) * waits / u128::from(NANOBITS_PER_BYTE)).unwrap_or(u64::MAX);
        let sent = Bytes::new(sender.sent + sender.lease.uncounted() + self.unpaid(slot)?);
        let drops = self.maps.drops.sum(slot)?.packets;
        let slot = (slot != REST).then_some(slot);
        Ok(ServiceQueue { slot, sent, backlog: Bytes::new(backlog), drops, destinations: 0 })
    }

    /// Counts the drops of fq.
    fn read_fq(&mut self) -> Result<(), ShaperError> {
        const FQ: u16 = 0;
        let drops = u32::try_from(self.fq_drops()?).unwrap_or(u32::MAX);
        self.fq_dropped.read([(FQ, None, drops)].into_iter());
        Ok(())
    }
}

impl Shaper for EdtShaper {
    fn backend(&self) -> Backend {
        Backend::Edt
    }

    fn is_installed(&mut self) -> Result<bool, ShaperError> {
        Ok(self.fq.as_mut().map_or(Ok(false), Fq::is_installed)?)
    }

    fn set(&mut self, rates: &[ServiceRate]) -> Result<(), ShaperError> {
        let mut new = false;
        for rate in rates {
            let there = self.services.insert(rate.slot, *rate);
            new |= there.is_none_or(|there| Self::share(&there) != Self::share(rate));
        }
        if new {
            self.write_side()?;
        }
        let rates: Vec<ServiceRate> = rates.iter().filter_map(|rate| self.services.get(&rate.slot)).copied().collect();
        Ok(self.write_services(&rates)?)
    }

    fn forget(&mut self, slots: &[u32]) -> Result<(), ShaperError> {
        for slot in slots {
            self.services.remove(slot);
            self.write_sending(*slot, Limits { weight: 1000, ..Limits::default() })?;
            self.maps.service_egresses.set(*slot, ServiceEgress::default()).map_err(LoaderError::from)?;
            self.maps.cpu_batches.clear(*slot, possible_cpus()?).map_err(LoaderError::from)?;
        }
        Ok(self.write_side()?)
    }

    fn limit_destinations(&mut self, rates: &[DestinationRate]) -> Result<Vec<(u32, u16)>, ShaperError> {
        // Feedback sets their limiters in the kernel.
        Ok(rates.iter().map(|rate| (rate.destination, 0)).collect())
    }

    fn queues(&mut self) -> Result<Vec<ServiceQueue>, ShaperError> {
        let now = kernel_time();
        let queues = self.services.keys().chain([&REST]).map(|slot| self.queue(*slot, now));
        let mut queues = queues.collect::<Result<Vec<_>, MapError>>().map_err(LoaderError::from)?;
        self.read_fq()?;
        for queue in queues.iter_mut().filter(|queue| queue.slot.is_none()) {
            queue.drops += self.fq_dropped.of(None);
        }
        Ok(queues)
    }

    fn dropped(&mut self) -> Result<Dropped, ShaperError> {
        // The maps' totals continue by themselves.
        self.read_fq()?;
        Ok(self.fq_dropped.clone())
    }

    fn go_on_from(&mut self, dropped: Dropped) {
        self.fq_dropped = dropped;
    }

    fn remove(self: Box<Self>) -> Result<(), ShaperError> {
        Ok(self.fq.map_or(Ok(()), Fq::remove)?)
    }

    fn set_kept(&mut self, kept: bool) {
        if let Some(fq) = &mut self.fq {
            fq.set_kept(kept);
        }
    }
}

impl fmt::Debug for EdtShaper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EdtShaper {{ {:?}, {} services }}", self.config, self.services.len())
    }
}

impl From<FqError> for ShaperError {
    fn from(error: FqError) -> Self {
        match error {
            FqError::Foreign(foreign) => Self::Foreign(foreign),
            FqError::Netlink(error) => Self::Netlink(error),
            FqError::NotThere => Self::NotThere,
        }
    }
}
