//! [`CreditPairs`]: the pairs of hosts of services with credits on an interface, and [`CreditGates`]: their gates.
//!
//! Problem: data of a service with credits waits in this host until credits for its pair of hosts arrive, whichever of
//! thousands of hosts it goes to. Approach: the programs (`bpf/credits.h`) give each new pair one of some closed gates
//! that are ready, and post an event; the agent drives the pair (`weir_credits::host`) and sets its gate. A pair's gate
//! stays while the pair is idle: its next packet waits there and posts another event.
//!
//! Pairs and gates outlive the thread that drives them, and an agent: the next one takes them over, with the packets in
//! them. A pair whose class is gone would send to the default class, without credits; it is removed first.
//!
//! Order of calls: [`CreditPairs::keep_those_with_gates`] before the shaper is installed; [`CreditGates::new`] after
//! it; [`CreditPairs::open`], and [`CreditPairs::take_over`] with the gates that [`CreditGates::read`] has returned;
//! [`CreditGates::add`], [`CreditPairs::offer`] for each gate that is added; [`InterfaceDatapath::set_credits`] last.
//! For a pair that is over, [`CreditPairs::remove`] before [`CreditGates::remove`], so that no packet is sent to a
//! class that does not exist; between them [`CreditGates::read_some`], and [`CreditPairs::put_back`] if a packet came
//! meanwhile. An event is void unless [`CreditPairs::gate`] has its gate.
//!
//! Worked example: the first packet of service `a` to 10.0.0.2 gets gate 0, class 7765:7000, and
//! [`CreditPairs::events`] returns the pair with gate 0.
//!
//! Source: PACE §III.D; `docs/design/credits-linux.md`.

mod gates;

pub(crate) use gates::is_gate;
pub use gates::{CreditGates, GateReading};

use crate::interface::Interface;
use crate::loader::{InterfaceDatapath, LoaderError};
use crate::maps::{CreditMaps, Entries};
use crate::settings::address;
use crate::shaper::ShaperError;
use aya::maps::{MapData, MapError, Queue, RingBuf};
use std::collections::BTreeSet;
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

/// The pairs and gates that an earlier thread has left, as far as both exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftovers {
    /// Pairs with their gates.
    pub pairs: Vec<(Pair, u32)>,
    /// Gates that are ready for new pairs.
    pub ready: Vec<u32>,
}

/// The pairs of an interface.
pub struct CreditPairs {
    pairs: Entries<CreditPair, CreditQueue>,
    free: Queue<MapData, u32>,
    ring: RingBuf<MapData>,
}

impl CreditPairs {
    /// The pairs of an attached interface, as they are.
    pub fn open(datapath: &InterfaceDatapath) -> Result<Self, LoaderError> {
        let CreditMaps { pairs, gates, events } = CreditMaps::open(&datapath.pins)?;
        let ring = RingBuf::try_from(aya::maps::Map::RingBuf(events))?;
        Ok(Self { pairs, free: gates, ring })
    }

    /// Removes the pairs of which the interface has no gate: their packets get another one, or are dropped until there
    /// is one. Without Weir's tree, that is all of them.
    pub fn keep_those_with_gates(datapath: &InterfaceDatapath, interface: &Interface) -> Result<(), ShaperError> {
        let gates = gates::on(interface)?;
        Self::open(datapath)?.take_over(&gates)?;
        Ok(())
    }

    /// Pairs and ready gates of an earlier thread, of which `gates` exist; the others are removed. Events of before are
    /// void: the pairs are listed.
    pub fn take_over(&mut self, gates: &BTreeSet<u32>) -> Result<Leftovers, LoaderError> {
        while self.ring.next().is_some() {}
        let mut left = Leftovers::default();
        loop {
            match self.free.pop(0) {
                Ok(gate) if gates.contains(&gate) => left.ready.push(gate),
                Ok(_) => {}
                Err(MapError::ElementNotFound) => break,
                Err(error) => return Err(error.into()),
            }
        }
        // At once, since packets of new pairs are dropped meanwhile. A gate that is taken now has an event.
        for gate in &left.ready {
            self.offer(*gate)?;
        }
        for raw in self.pairs.keys()? {
            match self.pairs.get(raw) {
                Ok(queue) if left.ready.contains(&queue.gate) => {}
                Ok(queue) if gates.contains(&queue.gate) => left.pairs.push((Pair::of(&raw), queue.gate)),
                Ok(_) => self.remove_raw(raw)?,
                Err(MapError::KeyNotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(left)
    }

    /// Removes all pairs and ready gates, for a policy without credits.
    pub fn clear(&mut self) -> Result<(), LoaderError> {
        self.take_over(&BTreeSet::new()).map(drop)
    }

    /// The file of the ring buffer, readable while it has events.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Makes a closed gate ready for a new pair.
    pub fn offer(&mut self, gate: u32) -> Result<(), LoaderError> {
        Ok(self.free.push(gate, 0)?)
    }

    /// The pairs that are new or no longer idle since the last call, each with its gate: at most `most`, so that
    /// packets that come at the same time do not hold the caller.
    pub fn events(&mut self, most: usize) -> Vec<(Pair, u32)> {
        let mut events = Vec::new();
        while events.len() < most
            && let Some(item) = self.ring.next()
        {
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

    /// Whether no packet has come since [`CreditPairs::set_idle`]: otherwise an event is on its way.
    pub fn is_idle(&self, pair: Pair) -> Result<bool, LoaderError> {
        match self.pairs.get(pair.raw()) {
            Ok(queue) => Ok(queue.idle != 0),
            Err(MapError::KeyNotFound) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The gate of a pair.
    pub fn gate(&self, pair: Pair) -> Result<Option<u32>, LoaderError> {
        match self.pairs.get(pair.raw()) {
            Ok(queue) => Ok(Some(queue.gate)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A removed pair has its gate again. Returns false if its next packet has got another one before.
    pub fn put_back(&mut self, pair: Pair, gate: u32) -> Result<bool, LoaderError> {
        Ok(self.pairs.add(pair.raw(), CreditQueue { gate, idle: 0 })?)
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
    /// Packets of these services wait in gates from the next one on, if the classes are HTB's; `port` is that of credit
    /// messages, which only the socket with this cookie sends. Without services, nothing waits. Call it after
    /// [`InterfaceDatapath::set_levels`]. These packets and messages get the DSCP values of credits, and no others have
    /// one.
    ///
    /// # Errors
    /// Services without slots, and failures of the kernel.
    pub fn set_credits(&mut self, services: &[ServiceId], port: u16, cookie: u64) -> Result<(), LoaderError> {
        let mut of_slot = vec![0; abi::REST as usize];
        for service in services {
            of_slot[self.slots.of(*service)? as usize] = MARK;
        }
        self.marks.credits = of_slot;
        self.config.class_credit = if services.is_empty() { 0 } else { gates::CREDIT_FIRST.into() };
        self.config.credit_port = if services.is_empty() { 0 } else { port.into() };
        self.config.credit_cookie = cookie;
        self.write_config()?;
        self.write_marks()
    }

    /// Whether packets of the service of a slot wait in gates.
    pub fn has_credits(&self, slot: u32) -> bool {
        self.marks.credits.get(slot as usize).is_some_and(|mark| *mark != 0)
    }
}
