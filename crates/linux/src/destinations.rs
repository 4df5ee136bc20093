//! [`Destinations`]: what receivers said, from the kernel to whoever sets classes, and the class back.
//!
//! Problem: feedback comes tens of thousands of times a second, and of one destination only the last counts; the class that holds a
//! destination must be known to the next packet. Approach: a word for each direction in memory that kernel and agent share. The kernel
//! writes the rate and puts the destination's slot into a ring buffer, unless it is in there already; the agent takes slots out, says
//! that it has read, and reads: so each slot is in the ring at most once, and the last rate is never missed.
//!
//! The table of destinations also keeps the order of feedback, by which a replayed one is told from a new one. So a
//! destination stays after its limiter has gone, until room is needed; then the longest silent go first.
//!
//! Worked example: 400 feedbacks come while the agent sets classes. The ring holds one slot; the agent takes it and reads the 400th rate.
//!
//! Source: kernel Documentation/bpf/ringbuf.rst.

use crate::loader::{InterfaceDatapath, LoaderError};
use crate::maps::DestinationMaps;
use crate::settings::kernel_time;
use crate::shaper::DestinationRate;
use crate::tables::{DESTINATIONS_MAX, Held, Mail, Place};
use aya::maps::{MapData, RingBuf};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_units::{Bandwidth, Duration};

/// Room is made when fewer places than this are left.
const ROOM_MIN: usize = DESTINATIONS_MAX as usize / 8;

/// A destination that a service of this host sends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinationReading {
    /// The service's slot.
    pub slot: u32,
    /// The receiver's address.
    pub address: IpAddr,
    /// What it said last.
    pub rate: Bandwidth,
    /// How long ago that was.
    pub age: Duration,
    /// Bytes sent to it while it answered.
    pub sent: u64,
    /// Feedback that was believed.
    pub told: u64,
}

/// The destinations of an interface.
pub struct Destinations {
    maps: DestinationMaps,
    ring: RingBuf<MapData>,
    mails: Mails,
    /// Whose slot is whose, as far as was asked.
    places: HashMap<u32, Place>,
    /// Those that have a class.
    classed: BTreeSet<u32>,
    /// Feedback of each as it was when it was last looked at: when the destination was heard last, its service's slot, how much.
    told: HashMap<u32, (u64, u32, u64)>,
    /// By the service's slot: feedback of destinations that were forgotten.
    told_before: BTreeMap<u32, u64>,
    /// News that the ring does not have: of before an earlier agent was killed, or what an error kept from being told.
    unheard: Vec<u32>,
}

impl Destinations {
    /// Those of an interface that is attached.
    pub fn open(datapath: &InterfaceDatapath) -> Result<Self, LoaderError> {
        let mut maps = DestinationMaps::open(&datapath.pins)?;
        let news = maps.news.take().ok_or(LoaderError::Missing("weir_events"))?;
        let ring = RingBuf::try_from(aya::maps::Map::RingBuf(news))?;
        let mails = Mails::of(maps.mails.fd().as_fd())
            .map_err(|error| LoaderError::Io { what: "map weir_rate_mailboxes", error })?;
        // One word of a destination is under way at most: who took it from the ring and was killed has silenced it otherwise.
        let unheard = |slot: &u32| mails.get(*slot).is_some_and(|mail| mail.unread.load(Ordering::Acquire) != 0);
        let unheard = (0..DESTINATIONS_MAX).filter(unheard).collect();
        Ok(Self {
            unheard,
            maps,
            ring,
            mails,
            places: HashMap::new(),
            classed: BTreeSet::new(),
            told: HashMap::new(),
            told_before: BTreeMap::new(),
        })
    }

    /// What becomes readable when there is news.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring keeps its file open for as long as it lives, and it is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// The destinations whose rate is new since the last time, with that rate.
    pub fn news(&mut self) -> Result<Vec<DestinationRate>, LoaderError> {
        let mut slots = std::mem::take(&mut self.unheard);
        while let Some(item) = self.ring.next() {
            if let Ok(bytes) = <[u8; 4]>::try_from(&*item) {
                slots.push(u32::from_ne_bytes(bytes));
            }
        }
        let mut news = Vec::with_capacity(slots.len());
        while let Some(destination) = slots.pop() {
            let Some(mail) = self.mails.get(destination) else { continue };
            // Before the rate is read: what comes after is news again.
            mail.unread.swap(0, Ordering::AcqRel);
            let rate = Bandwidth::from_bps(mail.rate.load(Ordering::Acquire));
            if rate == Bandwidth::ZERO {
                // It was taken back with the class since it was told; the next feedback tells it again.
                continue;
            }
            let slot = match self.place(destination) {
                Ok(place) => place.service,
                Err(error) => {
                    slots.push(destination);
                    self.unheard = slots;
                    return Err(error);
                }
            };
            news.push(DestinationRate { destination, slot, rate: Some(rate) });
        }
        Ok(news)
    }

    /// Tells the kernel which class holds a destination; 0: its service's.
    pub fn set_class(&mut self, destination: u32, class: u16) {
        let Some(mail) = self.mails.get(destination) else { return };
        mail.class.store(u32::from(class), Ordering::Release);
        if class != 0 {
            self.classed.insert(destination);
        } else if self.classed.remove(&destination) {
            // The kernel tells a rate that differs from the last one: the next one is news, the same as before it or not.
            mail.rate.store(0, Ordering::Release);
        }
    }

    /// Destinations that have a class: those to take over from an earlier agent.
    pub fn held(&mut self) -> Result<Vec<DestinationRate>, LoaderError> {
        let class = |slot: &u32| self.mails.get(*slot).is_some_and(|mail| mail.class.load(Ordering::Acquire) != 0);
        self.classed = (0..DESTINATIONS_MAX).filter(class).collect();
        let rate = |mail: &SharedMail| Bandwidth::from_bps(mail.rate.load(Ordering::Acquire));
        let all: Vec<(u32, Option<Bandwidth>)> =
            self.classed.iter().map(|slot| (*slot, self.mails.get(*slot).map(rate))).collect();
        self.whose(&all)
    }

    /// Destinations that have a class but whose receiver was silent for `silence`: nobody is held any more.
    pub fn silent(&mut self, silence: Duration) -> Result<Vec<DestinationRate>, LoaderError> {
        let now = kernel_time();
        let age = |mail: &SharedMail| now.saturating_sub(mail.feedback_at.load(Ordering::Acquire));
        let silent = |slot: &&u32| self.mails.get(**slot).is_some_and(|mail| age(mail) >= silence.nanos());
        let all: Vec<_> = self.classed.iter().filter(silent).map(|slot| (*slot, None)).collect();
        self.whose(&all)
    }

    fn whose(&mut self, rates: &[(u32, Option<Bandwidth>)]) -> Result<Vec<DestinationRate>, LoaderError> {
        let one = |&(destination, rate): &(u32, Option<Bandwidth>)| {
            Ok(DestinationRate { destination, slot: self.place(destination)?.service, rate })
        };
        rates.iter().map(one).collect()
    }

    /// Forgets the longest silent destinations where little room is left, but none that was heard of within `memory`. Returns how many. They
    /// must not have a class.
    pub fn make_room(&mut self, memory: Duration) -> Result<usize, LoaderError> {
        let now = kernel_time();
        let heard = |slot| self.mails.get(slot).map_or(0, |mail| mail.feedback_at.load(Ordering::Acquire));
        let mut used: Vec<(u64, u32)> =
            (0..DESTINATIONS_MAX).map(|slot| (heard(slot), slot)).filter(|(heard, _)| *heard != 0).collect();
        let excess = (used.len() + ROOM_MIN).saturating_sub(DESTINATIONS_MAX as usize);
        if excess == 0 {
            return Ok(0);
        }
        used.sort_unstable();
        let old = |(heard, _): &&(u64, u32)| now.saturating_sub(*heard) >= memory.nanos();
        let mut forgotten = 0;
        for (_, slot) in used.iter().take(excess).filter(old) {
            let held: Held = self.maps.destinations.get(slot, 0)?;
            *self.told_before.entry(held.place.service).or_default() += held.told;
            self.told.remove(slot);
            self.maps.places.remove(&held.place)?;
            self.maps.destinations.set(*slot, Held::default(), 0)?;
            if let Some(mail) = self.mails.get(*slot) {
                mail.feedback_at.store(0, Ordering::Release);
                mail.rate.store(0, Ordering::Release);
                mail.unread.store(0, Ordering::Release);
            }
            self.places.remove(slot);
            self.maps.free.push(slot, 0)?;
            forgotten += 1;
        }
        Ok(forgotten)
    }

    /// Feedback that was believed, by the service's slot: of all destinations, silent and forgotten ones among them. Never falls.
    pub fn told(&mut self) -> Result<BTreeMap<u32, u64>, LoaderError> {
        for destination in 0..DESTINATIONS_MAX {
            let Some(mail) = self.mails.get(destination) else { break };
            let heard = mail.feedback_at.load(Ordering::Acquire);
            // Who was not heard since has told nothing since.
            if heard != 0 && self.told.get(&destination).is_none_or(|(looked, ..)| *looked != heard) {
                let held = self.maps.destinations.get(&destination, 0)?;
                self.told.insert(destination, (heard, held.place.service, held.told));
            }
        }
        let mut told = self.told_before.clone();
        for (_, slot, count) in self.told.values() {
            *told.entry(*slot).or_default() += count;
        }
        Ok(told)
    }

    /// All destinations heard of within `age`.
    pub fn readings(&self, age: Duration) -> Result<Vec<DestinationReading>, LoaderError> {
        let now = kernel_time();
        let mut readings = Vec::new();
        for destination in 0..DESTINATIONS_MAX {
            let Some(mail) = self.mails.get(destination) else { break };
            let heard = mail.feedback_at.load(Ordering::Acquire);
            let since = Duration::from_nanos(now.saturating_sub(heard));
            if heard == 0 || since > age {
                continue;
            }
            let held = self.maps.destinations.get(&destination, 0)?;
            readings.push(DestinationReading {
                slot: held.place.service,
                address: ip(held.place.address),
                rate: Bandwidth::from_bps(mail.rate.load(Ordering::Acquire)),
                age: since,
                sent: held.sent,
                told: held.told,
            });
        }
        Ok(readings)
    }

    fn place(&mut self, destination: u32) -> Result<Place, LoaderError> {
        if let Some(place) = self.places.get(&destination) {
            return Ok(*place);
        }
        let place = self.maps.destinations.get(&destination, 0)?.place;
        self.places.insert(destination, place);
        Ok(place)
    }
}

fn ip(address: [u64; 2]) -> IpAddr {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&address[0].to_ne_bytes());
    octets[8..].copy_from_slice(&address[1].to_ne_bytes());
    IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
}

/// `struct weir_rate_mailbox` as both sides write it at the same time.
#[repr(C)]
struct SharedMail {
    rate: AtomicU64,
    feedback_at: AtomicU64,
    unread: AtomicU32,
    class: AtomicU32,
}

const _: () = assert!(size_of::<SharedMail>() == size_of::<Mail>());

/// The map weir_rate_mailboxes in memory.
struct Mails {
    base: NonNull<SharedMail>,
    bytes: usize,
}

// SAFETY: the memory is shared with the kernel anyway, and every access is atomic.
unsafe impl Send for Mails {}

impl Mails {
    fn of(map: BorrowedFd<'_>) -> io::Result<Self> {
        let bytes = (DESTINATIONS_MAX as usize * size_of::<Mail>()).next_multiple_of(4096);
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of a file that is open.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, shared, map.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?, bytes })
    }

    fn get(&self, slot: u32) -> Option<&SharedMail> {
        // SAFETY: inside the mapping, which lives as long as self; all-atomic, so that the kernel may write too.
        (slot < DESTINATIONS_MAX).then(|| unsafe { self.base.add(slot as usize).as_ref() })
    }
}

impl Drop for Mails {
    fn drop(&mut self) {
        // SAFETY: what `of` mapped, and nothing borrows it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::address;

    #[test]
    fn addresses_go_to_the_kernel_and_back() {
        for text in ["10.77.0.1", "2001:db8::1", "::1"] {
            let of: IpAddr = text.parse().expect("an address");
            assert_eq!(ip(address(of)), of);
        }
    }
}
