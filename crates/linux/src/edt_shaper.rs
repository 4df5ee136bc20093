//! [`EdtShaper`]: services and destinations by departure times.
//!
//! Problem: HTB's classes are set by an agent, and have one lock for a whole interface; a receiver's word takes a system call to be obeyed.
//! Approach: the programs write on each packet when it may leave (`datapath/departure.h`, `bpf/transmit.h`) and fq lets it wait until then.
//! All state is in the maps: this module writes what services may send, and reads what they did. Destinations need nobody: their
//! limiters are set by the feedback as it arrives.
//!
//! What is the same as with [`crate::htb_shaper`]: a service is guaranteed its machine minimum at a full interface, limited to the
//! brokers' limit or its own maximum, has its weight in what is left over; unclassified traffic is guaranteed a hundredth; queues are of
//! 20 ms, and of 128 frames at least. What differs: the policy's own rule for sharing holds at the interface (HTB has `add` alone); a destination is held while no agent
//! lives; what a service has waiting is reckoned from its last departure.
//!
//! Life: programs attached, [`EdtShaper::install`], then rules with [`crate::settings::Classes::Edt`]; [`Shaper::set`] as often as wanted. Programs go
//! first: times that nobody obeys hold nobody.
//!
//! Worked example: `dfs`, guaranteed 3 of 10 Gb/s, limited to 8 by the rack's broker: its entry in `weir_sendings` says so, and within a tick its
//! clock runs at 8 Gb/s. Receiver b says 1 Gb/s: packets to b leave by b's clock, without a word from here.
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
use crate::tables::{BatchValue, InterfaceEntry, Outlet, PacingValue, SERVICES_MAX, SIDE_SENDING, SendingValue};
use crate::tc::Found;
use aya::maps::{MapError, PerCpuValues};
use std::collections::BTreeMap;
use std::fmt;
use weir_datapath::{PacingConfig, RawSending};
use weir_policy::{Share, Sharing};
use weir_units::{Bandwidth, Bytes, ServiceId};

/// The place of unclassified traffic.
const REST: u32 = SERVICES_MAX;

/// Rates by departure times.
pub struct EdtShaper {
    /// None where only the programs' work is measured.
    fq: Option<Fq>,
    maps: PacingMaps,
    config: PacingConfig,
    sending: Sending,
    /// By slot, with the guarantee that the policy gives.
    services: BTreeMap<u32, ServiceRate>,
}

/// How services share an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelReading {
    /// R: what a service of the lightest weight is entitled to, beside its guarantee or instead of it.
    pub rate: Bandwidth,
    /// What left as entitled in the last interval.
    pub usage: Bandwidth,
    /// All that left.
    pub sent: Bytes,
    /// Of it, what left as entitled.
    pub committed: Bytes,
}

impl EdtShaper {
    /// Puts fq on the interface and says to its programs what services may send: see [`Fq::install`]. What an earlier agent's packets still owe stays.
    pub fn install(
        interface: &Interface,
        datapath: &InterfaceDatapath,
        nic: Bandwidth,
        sharing: Sharing,
        rates: &[ServiceRate],
        sending: Sending,
        force: bool,
    ) -> Result<Self, ShaperError> {
        let fq = Some(Fq::install(interface, force)?);
        Self::begin(fq, datapath, nic, sharing, rates, sending)
    }

    /// Only says to the programs what services may send: nobody obeys their times. For benches of the programs, on kernels without fq too.
    #[doc(hidden)]
    pub fn without_fq(
        datapath: &InterfaceDatapath,
        nic: Bandwidth,
        sharing: Sharing,
        rates: &[ServiceRate],
        sending: Sending,
    ) -> Result<Self, ShaperError> {
        Self::begin(None, datapath, nic, sharing, rates, sending)
    }

    fn begin(
        fq: Option<Fq>,
        datapath: &InterfaceDatapath,
        nic: Bandwidth,
        sharing: Sharing,
        rates: &[ServiceRate],
        sending: Sending,
    ) -> Result<Self, ShaperError> {
        let maps = PacingMaps::open(&datapath.pins)?;
        let config = PacingConfig {
            rate: nic,
            sharing,
            horizon: QUEUE_TIME,
            queue: queue_bytes(sending),
            burst: burst_bytes(sending),
            cpus: possible_cpus()?,
        };
        let services = rates.iter().map(|rate| (rate.slot, *rate)).collect();
        let mut shaper = Self { fq, maps, config, sending, services };
        shaper.write_pacing()?;
        shaper.write_level()?;
        shaper.write_services(rates)?;
        Ok(shaper)
    }

    /// What was at the root before.
    pub fn found(&self) -> Option<&Found> {
        self.fq.as_ref().map(Fq::found)
    }

    /// How the services share the interface now.
    pub fn level(&self) -> Result<LevelReading, ShaperError> {
        let level = self.maps.states.get(&0, 0).map_err(LoaderError::from)?.level;
        let machine = self.maps.exits.get(&0, 0).map_err(LoaderError::from)?.machine;
        let mut unpaid = 0;
        for slot in self.services.keys().chain([&REST]) {
            unpaid += self.unpaid(*slot).map_err(LoaderError::from)?;
        }
        Ok(LevelReading {
            rate: Bandwidth::from_bps(level.rate),
            usage: Bandwidth::from_bps(level.usage),
            sent: Bytes::new(machine.sent + unpaid),
            committed: Bytes::new(machine.committed + unpaid),
        })
    }

    /// Packets that fq dropped although the programs had let them wait.
    pub fn fq_drops(&mut self) -> Result<u64, ShaperError> {
        Ok(self.fq.as_mut().map_or(Ok(0), Fq::drops)?)
    }

    fn share(rate: &ServiceRate) -> Share {
        Share { min: rate.min, max: rate.ceiling, weight: rate.weight }
    }

    fn write_pacing(&mut self) -> Result<(), LoaderError> {
        let wanted = PacingValue(self.config.raw());
        if self.maps.pacings.get(&0, 0)? != wanted {
            self.maps.pacings.set(0, wanted, 0)?;
        }
        Ok(())
    }

    /// How much there is to be shared, and among whom. Only where that is new, so that the level stays that was found.
    fn write_level(&mut self) -> Result<(), LoaderError> {
        let shares: Vec<Share> = self.services.values().map(Self::share).collect();
        let raw = *self.config.level(&shares, self.sending.segment).raw();
        let there = self.maps.interfaces.get(&SIDE_SENDING, 0)?;
        let wanted = InterfaceEntry {
            law: raw.law,
            capacity: raw.capacity,
            total: raw.total,
            minima: raw.minima,
            level: raw.level,
            lightest: raw.lightest,
            weighs: raw.weighs,
            generation: there.generation,
            reserved: 0,
        };
        if wanted != there || there.generation == 0 {
            let generation = there.generation.wrapping_add(1).max(1);
            self.maps.interfaces.set(SIDE_SENDING, InterfaceEntry { generation, ..wanted }, 0)?;
        }
        Ok(())
    }

    fn write_services(&mut self, rates: &[ServiceRate]) -> Result<(), LoaderError> {
        for rate in rates {
            // Nobody is given less than a packet in seconds, which is what HTB's classes have.
            let least = |rate: Bandwidth| rate.max(RATE_MIN);
            let share = Share { max: least(rate.ceiling), ..Self::share(rate) };
            let sending = self.config.sending(&share, least(rate.max));
            self.write_sending(rate.slot, sending)?;
        }
        self.write_sending(REST, self.config.unclassified())
    }

    /// Another generation where what a service is entitled to is new; a limit is seen within a tick anyway.
    fn write_sending(&mut self, slot: u32, wanted: RawSending) -> Result<(), LoaderError> {
        let SendingValue(there) = self.maps.sendings.get(&slot, 0)?;
        let entitles = |sending: &RawSending| (sending.min, sending.max, sending.weight);
        let generation = match entitles(&wanted) == entitles(&there) && there.generation != 0 {
            true => there.generation,
            false => there.generation.wrapping_add(1).max(1),
        };
        let wanted = RawSending { generation, ..wanted };
        if wanted != there {
            self.maps.sendings.set(slot, SendingValue(wanted), 0)?;
        }
        Ok(())
    }

    /// What has left of a service and is not charged yet.
    fn unpaid(&self, slot: u32) -> Result<u64, MapError> {
        let batches = self.maps.batches.get(&slot, 0)?;
        Ok(batches.iter().map(|BatchValue(batch)| u64::from(batch.unpaid)).sum())
    }

    fn queue(&self, slot: u32, service: Option<ServiceId>, now: u64) -> Result<ServiceQueue, MapError> {
        let sender = self.maps.outlets.get(&slot, 0)?.sender;
        let rates = [sender.root.rate, sender.committed.rate, self.config.raw().rate];
        let rate = rates.into_iter().filter(|rate| *rate != 0).min().unwrap_or(0);
        let waits = u128::from(sender.latest.saturating_sub(now));
        let backlog = u64::try_from(u128::from(rate) * waits / 8_000_000_000).unwrap_or(u64::MAX);
        let sent = Bytes::new(sender.sent + sender.grant.uncounted() + self.unpaid(slot)?);
        Ok(ServiceQueue { service, sent, backlog: Bytes::new(backlog), drops: sender.dropped, destinations: 0 })
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
            let shares = |rate: &ServiceRate| (rate.ceiling, rate.weight);
            match self.services.get_mut(&rate.slot) {
                // A guarantee above the limit comes capped by it: that is not another guarantee.
                Some(there) if rate.min == there.min.min(rate.max) && shares(rate) == shares(there) => {
                    *there = ServiceRate { min: there.min, ..*rate };
                }
                _ => {
                    self.services.insert(rate.slot, *rate);
                    new = true;
                }
            }
        }
        if new {
            self.write_level()?;
        }
        let rates: Vec<ServiceRate> = rates.iter().filter_map(|rate| self.services.get(&rate.slot)).copied().collect();
        Ok(self.write_services(&rates)?)
    }

    fn forget(&mut self, slots: &[u32]) -> Result<(), ShaperError> {
        for slot in slots {
            self.services.remove(slot);
            self.write_sending(*slot, RawSending { weight: 1000, ..RawSending::default() })?;
            self.maps.outlets.set(*slot, Outlet::default(), 0).map_err(LoaderError::from)?;
            let none = PerCpuValues::try_from(vec![BatchValue::default(); possible_cpus()? as usize]);
            let none = none.map_err(|error| LoaderError::from(MapError::from(error)))?;
            self.maps.batches.set(*slot, none, 0).map_err(LoaderError::from)?;
        }
        Ok(self.write_level()?)
    }

    fn hold(&mut self, rates: &[DestinationRate]) -> Result<Vec<(u32, u16)>, ShaperError> {
        // The kernel does.
        Ok(rates.iter().map(|rate| (rate.destination, 0)).collect())
    }

    fn queues(&mut self) -> Result<Vec<ServiceQueue>, ShaperError> {
        let now = kernel_time();
        let services = self.services.values().map(|rate| (rate.slot, Some(rate.service)));
        let queues = services.chain([(REST, None)]).map(|(slot, service)| self.queue(slot, service, now));
        Ok(queues.collect::<Result<_, MapError>>().map_err(LoaderError::from)?)
    }

    fn dropped(&mut self) -> Result<Dropped, ShaperError> {
        // The kernel's own totals stay.
        Ok(Dropped::default())
    }

    fn go_on_from(&mut self, _: Dropped) {}

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
