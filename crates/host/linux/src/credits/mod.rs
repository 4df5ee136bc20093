//! [`CreditPairs`]: the pairs of hosts of services with credits on an interface, and [`CreditGates`]: their gates.
//!
//! Problem: data of a service with credits waits in this host until credits for its pair of hosts arrive, whichever of
//! thousands of hosts it goes to. Approach: the programs (`bpf/credits.h`) give each new pair one of some closed gates
//! that are ready, and post an event; the agent drives the pair (`weir_credits::host`) and sets its gate. A pair's gate
//! stays while the pair is idle: its next packet waits there and posts another event.
//!
//! Order of calls: [`CreditPairs::open`] before the shaper is installed, which removes pairs of an earlier agent;
//! [`CreditGates::new`] and [`CreditGates::add`] after it; [`CreditPairs::offer`] for each gate that is added;
//! [`InterfaceDatapath::set_credits`] last. For a pair that is over, [`CreditPairs::remove`] before
//! [`CreditGates::remove`], so that no packet is sent to a class that does not exist.
//!
//! Worked example: the first packet of service `a` to 10.0.0.2 gets gate 0, class 7765:7000, and
//! [`CreditPairs::events`] returns the pair with gate 0.
//!
//! Source: PACE §III.D; `docs/design/credits-linux.md`.

mod gates;

pub use gates::{CreditGates, GateReading};

use crate::loader::{InterfaceDatapath, LoaderError};
use crate::maps::{CreditMaps, Entries};
use crate::settings::address;
use aya::maps::{MapData, MapError, Queue, RingBuf};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use weir_datapath::abi::{
    self, CREDIT_DATA_DSCP, CREDIT_GATES_MAX, CreditEvent, CreditPair, CreditQueue, TAG_SHIFT, TAGGED,
};
use weir_datapath::feedback::Address;
use weir_units::ServiceId;

/// The mark of a service with credits: its packets wait for them, and have the DSCP value of data with credits.
const MARK: u32 = abi::CREDITS | TAGGED | CREDIT_DATA_DSCP << TAG_SHIFT;

/// The most pairs of an interface.
pub const PAIRS_MAX: u32 = CREDIT_GATES_MAX;

/// The data of a service from one of this host's addresses to another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The service's slot.
    pub slot: u32,
    /// The address of this host.
    pub source: IpAddr,
    /// The other host's.
    pub destination: IpAddr,
}

impl Pair {
    fn raw(self) -> CreditPair {
        CreditPair {
            source: address(self.source),
            destination: address(self.destination),
            service: self.slot,
            reserved: 0,
        }
    }

    fn of(raw: &CreditPair) -> Self {
        Self { slot: raw.service, source: ip(raw.source), destination: ip(raw.destination) }
    }
}

fn ip(words: Address) -> IpAddr {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&words[0].to_ne_bytes());
    octets[8..].copy_from_slice(&words[1].to_ne_bytes());
    Ipv6Addr::from(octets).to_canonical()
}

/// The pairs of an interface.
pub struct CreditPairs {
    pairs: Entries<CreditPair, CreditQueue>,
    free: Queue<MapData, u32>,
    ring: RingBuf<MapData>,
}

impl CreditPairs {
    /// The pairs of an attached interface; those of an earlier agent are removed, with their gates.
    pub fn open(datapath: &InterfaceDatapath) -> Result<Self, LoaderError> {
        let CreditMaps { pairs, gates, events } = CreditMaps::open(&datapath.pins)?;
        let ring = RingBuf::try_from(aya::maps::Map::RingBuf(events))?;
        let mut new = Self { pairs, free: gates, ring };
        new.clear()?;
        Ok(new)
    }

    fn clear(&mut self) -> Result<(), LoaderError> {
        // Gates first: a pair that a packet adds meanwhile would have one that is no longer there.
        loop {
            match self.free.pop(0) {
                Ok(_) => {}
                Err(MapError::ElementNotFound) => break,
                Err(error) => return Err(error.into()),
            }
        }
        for pair in self.pairs.keys()? {
            self.remove_raw(pair)?;
        }
        while self.ring.next().is_some() {}
        Ok(())
    }

    /// The file of the ring buffer, readable while it has events.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Makes a closed gate ready for a new pair.
    pub fn offer(&mut self, gate: u32) -> Result<(), LoaderError> {
        Ok(self.free.push(gate, 0)?)
    }

    /// The pairs that are new or no longer idle since the last call, each with its gate.
    pub fn events(&mut self) -> Vec<(Pair, u32)> {
        let mut events = Vec::new();
        while let Some(item) = self.ring.next() {
            if let Ok(event) = bytemuck::try_pod_read_unaligned::<CreditEvent>(&item) {
                events.push((Pair::of(&event.pair), event.gate));
            }
        }
        events
    }

    /// The next packet of a pair with this gate posts an event.
    pub fn set_idle(&mut self, pair: Pair, gate: u32) -> Result<(), LoaderError> {
        Ok(self.pairs.insert(pair.raw(), CreditQueue { gate, idle: 1 })?)
    }

    /// The pair is over: its next packet gets another gate.
    pub fn remove(&mut self, pair: Pair) -> Result<(), LoaderError> {
        self.remove_raw(pair.raw())
    }

    fn remove_raw(&mut self, pair: CreditPair) -> Result<(), LoaderError> {
        match self.pairs.remove(pair) {
            Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl InterfaceDatapath {
    /// Packets of these services wait in gates from the next one on, if the classes are HTB's; `port` is that of the
    /// agent's credit messages. Without services, nothing waits. Call it after [`InterfaceDatapath::set_levels`].
    /// These packets and messages get the DSCP values of credits, and no others leave with one.
    ///
    /// # Errors
    /// Services without slots, and failures of the kernel.
    pub fn set_credits(&mut self, services: &[ServiceId], port: u16) -> Result<(), LoaderError> {
        let mut of_slot = vec![0; abi::REST as usize];
        for service in services {
            of_slot[self.slots.of(*service)? as usize] = MARK;
        }
        self.marks.credits = of_slot;
        self.config.class_credit = if services.is_empty() { 0 } else { gates::CREDIT_FIRST.into() };
        self.config.credit_port = if services.is_empty() { 0 } else { port.into() };
        self.write_config()?;
        self.write_marks()
    }

    /// Whether packets of the service of a slot wait in gates.
    pub fn has_credits(&self, slot: u32) -> bool {
        self.marks.credits.get(slot as usize).is_some_and(|mark| *mark != 0)
    }
}
