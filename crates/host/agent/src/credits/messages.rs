//! [`Messages`]: datagrams of credits ↔ messages of flows.
//!
//! Each datagram is verified, must be of a service with credits of the policy, and must be newer than the last one of
//! its flow and direction, so that neither a forged nor a repeated one opens a gate. What is ignored is counted by its
//! reason. Another thread of the same agent has the same epoch, so sequences begin with the time since the machine's
//! start: in nanoseconds it is later than all that the threads before have numbered.
//!
//! The order of a flow must not be forgotten, or old messages would count again. A host numbers all its messages in one
//! sequence, so when there are too many flows, and in the next thread, the newest order of each sender stands for all
//! of its flows.
//!
//! Worked example: a datagram from 10.0.0.2 to this host's 10.0.0.1 with an allocation of service `a` is of the flow
//! from 10.0.0.1 to 10.0.0.2; one with a request is of the flow from 10.0.0.2 to 10.0.0.1.

use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_credits::Message;
use weir_credits::host::Aggregate;
use weir_credits::wire::{self, CreditKey, Datagram, DecodeError};
use weir_units::{Instant, ServiceId};

/// The most flows and directions whose order is kept: some megabytes, whatever a faulty holder of a key sends.
const ORDERS: usize = 32_768;
/// The most senders whose newest order is kept when their flows' are not. Messages of more are refused.
const SENDERS: usize = 32_768;

/// A flow between addresses.
pub(super) type Flow = Aggregate<IpAddr>;

/// The newest epoch and sequence of senders.
pub(super) type Newest = BTreeMap<IpAddr, (u64, u64)>;

/// Datagrams that were ignored, and those that were not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageCounters {
    /// Of another protocol.
    pub foreign: u64,
    /// Of another version.
    pub other_version: u64,
    /// No key verifies the tag.
    pub forged: u64,
    /// Verified, with an impossible value.
    pub malformed: u64,
    /// Not newer than the last of its flow: replayed, duplicated or reordered.
    pub replayed: u64,
    /// Of a service that has no credits in this host's policy.
    pub unknown_service: u64,
    /// Of a sender beyond the most whose order is kept.
    pub refused: u64,
    /// Could not be sent.
    pub unsent: u64,
}

/// The services, keys and sequences of a host.
#[derive(Debug)]
pub(super) struct Messages {
    keys: Vec<CreditKey>,
    /// Numbers on the wire.
    numbers: BTreeMap<ServiceId, u32>,
    services: BTreeMap<u32, ServiceId>,
    epoch: u64,
    sequence: u64,
    /// By flow and direction: that of allocations, or the other one.
    last: BTreeMap<(Flow, bool), (u64, u64)>,
    /// Of senders of flows that are not in `last`.
    newest: Newest,
    pub(super) counters: MessageCounters,
}

impl Messages {
    /// `keys` has the one that signs first; `services` has the numbers on the wire; `epoch` is higher than at any
    /// earlier start of the agent, and `now` is the time since the machine's start. `newest` is that of the thread
    /// before.
    pub(super) fn new(
        keys: Vec<CreditKey>,
        services: &[(ServiceId, u32)],
        epoch: u64,
        now: Instant,
        newest: Newest,
    ) -> Self {
        Self {
            keys,
            numbers: services.iter().copied().collect(),
            services: services.iter().map(|&(service, number)| (number, service)).collect(),
            epoch,
            sequence: now.nanos(),
            last: BTreeMap::new(),
            newest,
            counters: MessageCounters::default(),
        }
    }

    /// The flow and the message of a datagram, or `None` for one that is ignored.
    pub(super) fn decode(&mut self, body: &[u8], from: IpAddr, to: IpAddr) -> Option<(Flow, Message)> {
        let counters = &mut self.counters;
        let datagram = match wire::decode(body, from, to, &self.keys) {
            Ok(datagram) => datagram,
            Err(error) => {
                *match error {
                    DecodeError::Foreign => &mut counters.foreign,
                    DecodeError::Version(_) => &mut counters.other_version,
                    DecodeError::Forged => &mut counters.forged,
                    DecodeError::Malformed(_) => &mut counters.malformed,
                } += 1;
                return None;
            }
        };
        let Some(&service) = self.services.get(&datagram.service) else {
            counters.unknown_service += 1;
            return None;
        };
        let is_allocation = matches!(datagram.message, Message::Allocation(_));
        let (source, destination) = if is_allocation { (to, from) } else { (from, to) };
        let flow = Flow { service, source, destination };
        let Some(last) = self.order(flow, is_allocation, from) else {
            self.counters.refused += 1;
            return None;
        };
        if !datagram.is_newer(*last) {
            self.counters.replayed += 1;
            return None;
        }
        *last = (datagram.epoch, datagram.sequence);
        Some((flow, datagram.message))
    }

    /// The newest order of a flow and direction, or of all flows of its sender if there are too many.
    fn order(&mut self, flow: Flow, is_allocation: bool, from: IpAddr) -> Option<&mut (u64, u64)> {
        if self.last.len() >= ORDERS && !self.last.contains_key(&(flow, is_allocation)) {
            self.forget_flows();
        }
        if self.last.len() >= ORDERS && !self.last.contains_key(&(flow, is_allocation)) {
            return self.newest.get_mut(&from);
        }
        let before = self.newest.get(&from).copied().unwrap_or_default();
        Some(self.last.entry((flow, is_allocation)).or_insert(before))
    }

    /// The newest order of each sender, for the next thread: what this one has received counts no more.
    pub(super) fn into_newest(mut self) -> Newest {
        self.forget_flows();
        self.newest
    }

    /// The order of senders replaces those of their flows, as far as there is room.
    fn forget_flows(&mut self) {
        let newest = &mut self.newest;
        self.last.retain(|(flow, is_allocation), order| {
            let sender = if *is_allocation { flow.destination } else { flow.source };
            let has_room = newest.len() < SENDERS || newest.contains_key(&sender);
            if has_room {
                let kept = newest.entry(sender).or_default();
                *kept = (*kept).max(*order);
            }
            !has_room
        });
    }

    /// The datagram of a message with its source and destination; `None` for a service without credits.
    pub(super) fn encode(&mut self, flow: Flow, message: Message) -> Option<([u8; wire::BYTES], IpAddr, IpAddr)> {
        let is_allocation = matches!(message, Message::Allocation(_));
        let (from, to) = if is_allocation { (flow.destination, flow.source) } else { (flow.source, flow.destination) };
        self.sequence += 1;
        let service = *self.numbers.get(&flow.service)?;
        let datagram = Datagram { service, epoch: self.epoch, sequence: self.sequence, message };
        Some((wire::encode(&datagram, from, to, self.keys.first()?), from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_credits::Request;
    use weir_units::Weight;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const FLOW: Flow = Flow { service: ServiceId(3), source: A, destination: B };
    const REQUEST: Message = Message::Request(Request { weight: Weight::ONE, clock: 0 });

    fn messages(epoch: u64, number: u32) -> Messages {
        let key = CreditKey { number: 7, bytes: [7; 16] };
        Messages::new(vec![key], &[(ServiceId(3), number)], epoch, Instant::ZERO, Newest::new())
    }

    /// The daemon starts another thread with each change of the policy.
    #[test]
    fn another_thread_of_an_agent_is_newer() {
        let thread = |now| {
            let key = CreditKey { number: 7, bytes: [7; 16] };
            Messages::new(vec![key], &[(ServiceId(3), 77)], 5, Instant::from_nanos(now), Newest::new())
        };
        let (mut first, mut second, mut b) = (thread(1_000), thread(2_000), messages(1, 77));
        let (last, ..) = (0..9).filter_map(|_| first.encode(FLOW, REQUEST)).last().expect("encoded");
        let (next, ..) = second.encode(FLOW, REQUEST).expect("encoded");
        assert!(b.decode(&last, A, B).is_some() && b.decode(&next, A, B).is_some());
        assert_eq!((b.decode(&last, A, B), b.counters.replayed), (None, 1));
    }

    #[test]
    fn the_next_thread_takes_no_message_again() {
        let (mut a, mut first) = (messages(5, 77), messages(1, 77));
        let [old, other] = [REQUEST, REQUEST].map(|message| a.encode(FLOW, message).expect("encoded").0);
        assert!(first.decode(&old, A, B).is_some() && first.decode(&other, A, B).is_some());
        let mut second = Messages { newest: first.into_newest(), ..messages(1, 77) };
        assert_eq!([old, other].map(|body| second.decode(&body, A, B)), [None, None]);
        let (new, ..) = a.encode(FLOW, REQUEST).expect("encoded");
        assert_eq!((second.decode(&new, A, B), second.counters.replayed), (Some((FLOW, REQUEST)), 2));
    }

    #[test]
    fn a_datagram_counts_once_between_its_addresses() {
        let (mut a, mut b) = (messages(5, 77), messages(1, 77));
        let (first, from, to) = a.encode(FLOW, REQUEST).expect("a service with credits");
        let (second, ..) = a.encode(FLOW, Message::Terminate).expect("a service with credits");
        assert_eq!((from, to), (A, B));
        assert_eq!(b.decode(&first, A, B), Some((FLOW, REQUEST)));
        assert_eq!(b.decode(&second, A, B), Some((FLOW, Message::Terminate)));
        assert_eq!([&first, &second].map(|body| b.decode(body, A, B)), [None, None]);
        assert_eq!([b.decode(&first, B, A), b.decode(&first[1..], A, B)], [None, None]);
        let expected = MessageCounters { replayed: 2, forged: 1, foreign: 1, ..MessageCounters::default() };
        assert_eq!(b.counters, expected);
    }

    /// A message of the flow with this number, of a sender for each `flows` of them.
    fn numbered(a: &mut Messages, number: u32, flows: u32) -> ([u8; wire::BYTES], IpAddr, IpAddr) {
        let source = IpAddr::from(std::net::Ipv4Addr::from_bits(0x0a01_0000 + number / flows));
        let destination = IpAddr::from(std::net::Ipv4Addr::from_bits(0x0b00_0000 + number % flows));
        a.encode(Flow { source, destination, ..FLOW }, REQUEST).expect("encoded")
    }

    #[test]
    fn the_order_of_a_sender_outlives_that_of_its_flows() {
        let (mut a, mut b) = (messages(5, 77), messages(1, 77));
        let sent: Vec<_> = (0..ORDERS as u32 + 9).map(|number| numbered(&mut a, number, 4)).collect();
        assert!(sent.iter().all(|(body, from, to)| b.decode(body, *from, *to).is_some()));
        assert!(b.last.len() < 16 && b.newest.len() == ORDERS / 4, "{} and {}", b.last.len(), b.newest.len());
        assert!(sent.iter().all(|(body, from, to)| b.decode(body, *from, *to).is_none()), "none counts again");
        assert_eq!(b.counters, MessageCounters { replayed: sent.len() as u64, ..MessageCounters::default() });
        assert!((0..9).all(|number| {
            let (body, from, to) = numbered(&mut a, number, 4);
            b.decode(&body, from, to).is_some()
        }));
    }

    #[test]
    fn senders_beyond_the_most_are_refused() {
        let (mut a, mut b) = (messages(5, 77), messages(1, 77));
        let mut send = |number: u32| {
            let (body, from, to) = numbered(&mut a, number, 1);
            b.decode(&body, from, to).is_some()
        };
        let most = (SENDERS + ORDERS) as u32;
        assert!((0..most).all(&mut send));
        assert_eq!([most, 7, most - 1].map(&mut send), [false, true, true]);
        assert_eq!(b.counters, MessageCounters { refused: 1, ..MessageCounters::default() });
    }

    #[test]
    fn a_restarted_agent_is_newer_and_an_unknown_service_is_ignored() {
        let (mut old, mut new, mut b) = (messages(5, 77), messages(6, 77), messages(1, 77));
        let (last, ..) = (0..9).filter_map(|_| old.encode(FLOW, REQUEST)).last().expect("encoded");
        let (first, ..) = new.encode(FLOW, REQUEST).expect("encoded");
        assert!(b.decode(&last, A, B).is_some() && b.decode(&first, A, B).is_some());
        let (other, ..) = messages(9, 78).encode(FLOW, REQUEST).expect("encoded");
        assert_eq!((b.decode(&other, A, B), b.counters.unknown_service), (None, 1));
    }
}
