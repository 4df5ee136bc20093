//! [`Destinations`]: rates in feedback, from the kernel to the agent, and HTB classes, from the agent to the kernel.
//!
//! Feedback arrives tens of thousands of times a second and only the last of a destination matters,
//! while the next packet must find the destination's class. Kernel and agent share a mailbox per
//! destination, in mapped memory: the kernel writes the rate and, unless the mailbox is unread
//! already, submits the destination's slot to a ring buffer; the agent takes the slot, marks the
//! mailbox read, and then reads the rate. Each slot is in the ring at most once, and the last rate
//! is never missed.
//!
//! An entry also stores the order of feedback, which identifies replays. It therefore outlives its
//! limiter until the table is nearly full; entries without feedback for the longest time are
//! removed first.
//!
//! Worked example: 400 feedback packets arrive while the agent sets classes. The ring contains one
//! slot, and the agent reads the 400th rate.
//!
//! Source: kernel Documentation/bpf/ringbuf.rst.

use crate::loader::{InterfaceDatapath, LoaderError};
use crate::maps::{DestinationMaps, Entries, Values};
use crate::settings::kernel_time;
use crate::shaper::DestinationRate;
use aya::maps::{MapData, Queue, RingBuf};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_datapath::abi::{DESTINATIONS_MAX, DestinationEntry, DestinationKey, RateMailbox};
use weir_units::{Bandwidth, Duration};

/// Entries are removed when fewer than this are free.
const FREE_MIN: usize = DESTINATIONS_MAX as usize / 8;

/// A destination of a service of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinationReading {
    /// The service's slot.
    pub slot: u32,
    /// The receiver's address.
    pub address: IpAddr,
    /// The rate in its last feedback.
    pub rate: Bandwidth,
    /// Time since that feedback.
    pub age: Duration,
    /// Bytes sent to it while it had a limiter.
    pub sent: u64,
    /// Feedback packets applied.
    pub feedback_received: u64,
}

/// The destinations of an interface.
pub struct Destinations {
    slots: Entries<DestinationKey, u32>,
    entries: Values<DestinationEntry>,
    free: Queue<MapData, u32>,
    ring: RingBuf<MapData>,
    mailboxes: Mailboxes,
    /// Cached keys by slot.
    keys: HashMap<u32, DestinationKey>,
    /// Slots of destinations with a class.
    classed: BTreeSet<u32>,
    /// Cached counts by slot: time of the last feedback, the service's slot, feedback packets.
    received: HashMap<u32, (u64, u32, u64)>,
    /// Feedback packets of removed entries by the service's slot.
    received_before: BTreeMap<u32, u64>,
    /// Slots of unread mailboxes that are not in the ring: taken from it by an agent that was
    /// killed, or kept back by an error.
    pending: Vec<u32>,
}

impl Destinations {
    /// The destinations of an attached interface.
    pub fn open(datapath: &InterfaceDatapath) -> Result<Self, LoaderError> {
        let DestinationMaps { slots, destinations, mailboxes, free, events } = DestinationMaps::open(&datapath.pins)?;
        let ring = RingBuf::try_from(aya::maps::Map::RingBuf(events))?;
        let mailboxes = Mailboxes::of(mailboxes.fd().as_fd());
        let mailboxes = mailboxes.map_err(|error| LoaderError::Io { what: "map weir_rate_mailboxes", error })?;
        // The kernel submits no slot whose mailbox is unread, so a slot taken by an agent that was
        // then killed is in no ring.
        let unread =
            |slot: &u32| mailboxes.get(*slot).is_some_and(|mailbox| mailbox.unread().load(Ordering::Acquire) != 0);
        Ok(Self {
            pending: (0..DESTINATIONS_MAX).filter(unread).collect(),
            slots,
            entries: destinations,
            free,
            ring,
            mailboxes,
            keys: HashMap::new(),
            classed: BTreeSet::new(),
            received: HashMap::new(),
            received_before: BTreeMap::new(),
        })
    }

    /// The file of the ring buffer, readable while it has events.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// The destinations whose rate has changed since the last call, with the rate.
    pub fn events(&mut self) -> Result<Vec<DestinationRate>, LoaderError> {
        let mut slots = std::mem::take(&mut self.pending);
        while let Some(item) = self.ring.next() {
            if let Ok(bytes) = <[u8; 4]>::try_from(&*item) {
                slots.push(u32::from_ne_bytes(bytes));
            }
        }
        let mut events = Vec::with_capacity(slots.len());
        while let Some(destination) = slots.pop() {
            let Some(mailbox) = self.mailboxes.get(destination) else { continue };
            // Before the rate is read, so that a later rate is another event.
            mailbox.unread().swap(0, Ordering::AcqRel);
            let rate = Bandwidth::from_bps(mailbox.rate().load(Ordering::Acquire));
            if rate == Bandwidth::ZERO {
                // `set_class` has reset the rate since; the next feedback is another event.
                continue;
            }
            let slot = match self.key(destination) {
                Ok(key) => key.service,
                Err(error) => {
                    slots.push(destination);
                    self.pending = slots;
                    return Err(error);
                }
            };
            events.push(DestinationRate { destination, slot, rate: Some(rate) });
        }
        Ok(events)
    }

    /// Sets the class of a destination; 0 is its service's class.
    pub fn set_class(&mut self, destination: u32, class: u16) {
        let Some(mailbox) = self.mailboxes.get(destination) else { return };
        mailbox.class().store(u32::from(class), Ordering::Release);
        if class != 0 {
            self.classed.insert(destination);
        } else if self.classed.remove(&destination) {
            // The kernel submits an event if the rate differs from the last; from 0 any rate does.
            mailbox.rate().store(0, Ordering::Release);
        }
    }

    /// Destinations with a class, which an earlier agent may have set.
    pub fn classed(&mut self) -> Result<Vec<DestinationRate>, LoaderError> {
        let class =
            |slot: &u32| self.mailboxes.get(*slot).is_some_and(|mailbox| mailbox.class().load(Ordering::Acquire) != 0);
        self.classed = (0..DESTINATIONS_MAX).filter(class).collect();
        let rate = |mailbox: Mailbox<'_>| Bandwidth::from_bps(mailbox.rate().load(Ordering::Acquire));
        let all: Vec<(u32, Option<Bandwidth>)> =
            self.classed.iter().map(|slot| (*slot, self.mailboxes.get(*slot).map(rate))).collect();
        self.with_services(&all)
    }

    /// Destinations with a class and without feedback for `silence`, which are no longer rate-limited.
    pub fn silent(&mut self, silence: Duration) -> Result<Vec<DestinationRate>, LoaderError> {
        let now = kernel_time();
        let age = |mailbox: Mailbox<'_>| now.saturating_sub(mailbox.feedback_at().load(Ordering::Acquire));
        let silent = |slot: &&u32| self.mailboxes.get(**slot).is_some_and(|mailbox| age(mailbox) >= silence.nanos());
        let all: Vec<_> = self.classed.iter().filter(silent).map(|slot| (*slot, None)).collect();
        self.with_services(&all)
    }

    fn with_services(&mut self, rates: &[(u32, Option<Bandwidth>)]) -> Result<Vec<DestinationRate>, LoaderError> {
        let one = |&(destination, rate): &(u32, Option<Bandwidth>)| {
            Ok(DestinationRate { destination, slot: self.key(destination)?.service, rate })
        };
        rates.iter().map(one).collect()
    }

    /// If the table is nearly full, removes the entries without feedback for the longest time, at
    /// least `memory`. Returns how many. They must not have a class.
    pub fn make_room(&mut self, memory: Duration) -> Result<usize, LoaderError> {
        let now = kernel_time();
        let feedback_at =
            |slot| self.mailboxes.get(slot).map_or(0, |mailbox| mailbox.feedback_at().load(Ordering::Acquire));
        let mut used: Vec<(u64, u32)> =
            (0..DESTINATIONS_MAX).map(|slot| (feedback_at(slot), slot)).filter(|(at, _)| *at != 0).collect();
        let excess = (used.len() + FREE_MIN).saturating_sub(DESTINATIONS_MAX as usize);
        if excess == 0 {
            return Ok(0);
        }
        used.sort_unstable();
        let old = |(at, _): &&(u64, u32)| now.saturating_sub(*at) >= memory.nanos();
        let mut removed = 0;
        for (_, slot) in used.iter().take(excess).filter(old) {
            let entry = self.entries.get(*slot)?;
            *self.received_before.entry(entry.key.service).or_default() += entry.feedback_count;
            self.received.remove(slot);
            self.slots.remove(entry.key)?;
            self.entries.set(*slot, DestinationEntry::default())?;
            if let Some(mailbox) = self.mailboxes.get(*slot) {
                mailbox.feedback_at().store(0, Ordering::Release);
                mailbox.rate().store(0, Ordering::Release);
                mailbox.unread().store(0, Ordering::Release);
            }
            self.keys.remove(slot);
            self.free.push(slot, 0)?;
            removed += 1;
        }
        Ok(removed)
    }

    /// Feedback packets applied by the service's slot, including those of silent and removed destinations. Monotonic.
    pub fn feedback_received(&mut self) -> Result<BTreeMap<u32, u64>, LoaderError> {
        for destination in 0..DESTINATIONS_MAX {
            let Some(mailbox) = self.mailboxes.get(destination) else { break };
            let feedback_at = mailbox.feedback_at().load(Ordering::Acquire);
            // A count is unchanged while the time of the last feedback is.
            if feedback_at != 0 && self.received.get(&destination).is_none_or(|(at, ..)| *at != feedback_at) {
                let entry = self.entries.get(destination)?;
                self.received.insert(destination, (feedback_at, entry.key.service, entry.feedback_count));
            }
        }
        let mut received = self.received_before.clone();
        for (_, slot, count) in self.received.values() {
            *received.entry(*slot).or_default() += count;
        }
        Ok(received)
    }

    /// All destinations with feedback within `age`.
    pub fn readings(&self, age: Duration) -> Result<Vec<DestinationReading>, LoaderError> {
        let now = kernel_time();
        let mut readings = Vec::new();
        for destination in 0..DESTINATIONS_MAX {
            let Some(mailbox) = self.mailboxes.get(destination) else { break };
            let feedback_at = mailbox.feedback_at().load(Ordering::Acquire);
            let since = Duration::from_nanos(now.saturating_sub(feedback_at));
            if feedback_at == 0 || since > age {
                continue;
            }
            let entry = self.entries.get(destination)?;
            readings.push(DestinationReading {
                slot: entry.key.service,
                address: ip(entry.key.address),
                rate: Bandwidth::from_bps(mailbox.rate().load(Ordering::Acquire)),
                age: since,
                sent: entry.sent,
                feedback_received: entry.feedback_count,
            });
        }
        Ok(readings)
    }

    fn key(&mut self, destination: u32) -> Result<DestinationKey, LoaderError> {
        if let Some(key) = self.keys.get(&destination) {
            return Ok(*key);
        }
        let key = self.entries.get(destination)?.key;
        self.keys.insert(destination, key);
        Ok(key)
    }
}

fn ip(address: [u64; 2]) -> IpAddr {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&address[0].to_ne_bytes());
    octets[8..].copy_from_slice(&address[1].to_ne_bytes());
    IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
}

/// A mailbox in shared memory, with atomic access, since kernel and agent write it concurrently.
#[derive(Clone, Copy)]
struct Mailbox<'a> {
    at: NonNull<RateMailbox>,
    mapping: PhantomData<&'a Mailboxes>,
}

impl<'a> Mailbox<'a> {
    fn rate(self) -> &'a AtomicU64 {
        // SAFETY: aligned and inside the mapping, which outlives 'a; nothing reads or writes the
        // field but this and the kernel, which writes whole words.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.at.as_ptr()).rate) }
    }

    fn feedback_at(self) -> &'a AtomicU64 {
        // SAFETY: as for `rate`.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.at.as_ptr()).feedback_at) }
    }

    fn unread(self) -> &'a AtomicU32 {
        // SAFETY: as for `rate`.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.at.as_ptr()).unread) }
    }

    fn class(self) -> &'a AtomicU32 {
        // SAFETY: as for `rate`.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.at.as_ptr()).class) }
    }
}

/// The map weir_rate_mailboxes in memory.
struct Mailboxes {
    base: NonNull<RateMailbox>,
    bytes: usize,
}

// SAFETY: the memory is shared with the kernel anyway, and every access is atomic.
unsafe impl Send for Mailboxes {}

impl Mailboxes {
    fn of(map: BorrowedFd<'_>) -> io::Result<Self> {
        let bytes = (DESTINATIONS_MAX as usize * size_of::<RateMailbox>()).next_multiple_of(4096);
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of an open file.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, shared, map.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?, bytes })
    }

    fn get(&self, slot: u32) -> Option<Mailbox<'_>> {
        (slot < DESTINATIONS_MAX).then(|| {
            // SAFETY: inside the mapping, which has room for so many mailboxes.
            let at = unsafe { self.base.add(slot as usize) };
            Mailbox { at, mapping: PhantomData }
        })
    }
}

impl Drop for Mailboxes {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and no longer borrowed.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::address;

    #[test]
    fn addresses_survive_the_conversion() {
        for text in ["10.77.0.1", "2001:db8::1", "::1"] {
            let of: IpAddr = text.parse().expect("an address");
            assert_eq!(ip(address(of)), of);
        }
    }
}
