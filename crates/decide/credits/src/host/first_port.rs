//! [`FirstPort`]: both parts of a port, and the flows that they have.
//!
//! Problem: the offline part of a port ([`Forwarder`]) numbers flows, the online part keeps a state for each, and both
//! must agree on when a flow begins and ends. Approach: one machine that has both. The online part is C
//! (`datapath/credit.h`), which this crate does not call: [`OnlinePort`] hides it, which `weir_datapath` implements.
//!
//! - A flow that ends keeps its state for the longest lifetime of a grant. An allocation that crosses its termination
//!   gets no credits and does not count among the port's demands, until a request renews the flow.
//! - A flow whose allocations stop leaves the shares after four periods, and its state goes when its last grant has
//!   expired.
//! - Q is the queue that the data which has passed the gates would have if it drained at R: what is below the gates
//!   cannot be read.
//!
//! Worked example: see [`OnlinePort`]'s implementation in `weir_datapath`, and the tests of this crate's hosts.
//!
//! Source: PACE §III.E; `docs/design/credits.md`.

use super::pairs::PairWeights;
use crate::forwarder::{Forwarder, ForwarderSettings, Published};
use crate::message::{Allocation, Return};
use std::collections::{BTreeMap, BTreeSet};
use weir_units::{Bandwidth, Bytes, Duration, Instant, ServiceId};

/// The part of a port that runs per packet (`datapath/credit.h`). Times never go back.
pub trait OnlinePort {
    /// The state of one flow at the port.
    type Flow: Default + std::fmt::Debug;
    /// The values for allocations from now on.
    fn publish(&mut self, published: &Published);
    /// R has changed.
    fn set_rate(&mut self, rate: Bandwidth);
    /// The sender requests credits; `clock` is that of its newest allocation, or 0.
    fn on_request(&mut self, flow: &mut Self::Flow, clock: u32);
    /// Whether an allocation is later than the flow's newest, and the flow is not over. Others do not change shares.
    fn is_new(&self, flow: &Self::Flow, allocation: &Allocation) -> bool;
    /// An allocation is reduced, while `queued` bytes wait in the port.
    fn allocate(&mut self, flow: &mut Self::Flow, allocation: &mut Allocation, now: Instant, queued: Bytes);
    /// The values of an allocation come back.
    fn on_return(&mut self, flow: &mut Self::Flow, returned: &Return, now: Instant);
    /// Data arrives. Returns whether it is late and the port drops late data.
    fn on_data(&mut self, flow: &mut Self::Flow, bytes: Bytes, now: Instant) -> bool;
    /// The flow is over: its grants are released.
    fn terminate(&mut self, flow: &mut Self::Flow, now: Instant);
    /// The longest lifetime of a grant.
    fn longest_lifetime(&self) -> Duration;
    /// A: bytes granted that have not arrived.
    fn outstanding(&self) -> Bytes;
}

/// No port: for a host whose first port is another part of the driver.
#[derive(Debug, Clone, Copy)]
pub enum NoPort {}

impl OnlinePort for NoPort {
    type Flow = ();
    fn publish(&mut self, _: &Published) {
        match *self {}
    }
    fn set_rate(&mut self, _: Bandwidth) {
        match *self {}
    }
    fn on_request(&mut self, (): &mut (), _: u32) {
        match *self {}
    }
    fn is_new(&self, (): &(), _: &Allocation) -> bool {
        match *self {}
    }
    fn allocate(&mut self, (): &mut (), _: &mut Allocation, _: Instant, _: Bytes) {
        match *self {}
    }
    fn on_return(&mut self, (): &mut (), _: &Return, _: Instant) {
        match *self {}
    }
    fn on_data(&mut self, (): &mut (), _: Bytes, _: Instant) -> bool {
        match *self {}
    }
    fn terminate(&mut self, (): &mut (), _: Instant) {
        match *self {}
    }
    fn longest_lifetime(&self) -> Duration {
        match *self {}
    }
    fn outstanding(&self) -> Bytes {
        match *self {}
    }
}

/// A key of a flow that has a service.
pub trait OfService {
    /// The service of the flow.
    fn service(&self) -> ServiceId;
}

impl<A> OfService for super::Aggregate<A> {
    fn service(&self) -> ServiceId {
        self.service
    }
}

/// A flow of the port.
#[derive(Debug)]
struct Flow<F> {
    number: u32,
    state: F,
    /// Whether the forwarder has it, and so the shares.
    is_recorded: bool,
    /// When its state goes, unless it is recorded then.
    until: Option<Instant>,
}

/// A data queue that drains at R. What a reading adds has arrived since the reading before.
#[derive(Debug, Clone, Copy)]
struct DrainedQueue {
    rate: Bandwidth,
    bytes: u64,
    /// Until when it has drained, and the time of the last reading.
    at: Instant,
    read: Instant,
}

impl DrainedQueue {
    fn add(&mut self, now: Instant, bytes: Bytes) {
        if now > self.read {
            self.bytes(self.read.max(self.at));
            self.read = now;
        }
        self.bytes += bytes.get();
    }

    fn bytes(&mut self, now: Instant) -> Bytes {
        let drained = self.rate.bytes_in(now.saturating_since(self.at)).get();
        if drained >= self.bytes {
            (self.bytes, self.at) = (0, now);
        } else {
            // The time of whole bytes, so that the rest of one is not lost with each reading.
            let nanos = u128::from(drained) * 8_000_000_000 / u128::from(self.rate.bps().max(1));
            self.bytes -= drained;
            self.at = self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        }
        Bytes::new(self.bytes)
    }
}

/// A port of a host. See the module's documentation.
#[derive(Debug)]
pub struct FirstPort<K, O: OnlinePort> {
    forwarder: Forwarder,
    online: O,
    flows: BTreeMap<K, Flow<O::Flow>>,
    keys: BTreeMap<u32, K>,
    next: u32,
    /// Flows whose states go, by time.
    ending: BTreeSet<(Instant, K)>,
    pairs: PairWeights,
    queue: DrainedQueue,
}

impl<K: Copy + Ord + OfService, O: OnlinePort> FirstPort<K, O> {
    /// A port without flows; `online` has the same R and p-max.
    pub fn new(now: Instant, settings: ForwarderSettings, online: O) -> Self {
        Self {
            forwarder: Forwarder::new(now, settings),
            online,
            flows: BTreeMap::new(),
            keys: BTreeMap::new(),
            next: 0,
            ending: BTreeSet::new(),
            pairs: PairWeights::default(),
            queue: DrainedQueue { rate: settings.rule.rate, bytes: 0, at: now, read: now },
        }
    }

    /// The same port with this much data of before in its queue.
    #[must_use]
    pub fn with_queued(mut self, bytes: Bytes) -> Self {
        self.queue.bytes = bytes.get();
        self
    }

    /// R has changed.
    pub fn set_rate(&mut self, rate: Bandwidth) {
        self.forwarder.set_rate(rate);
        self.online.set_rate(rate);
        self.queue.rate = rate;
    }

    /// An allocation passes on its way to the sender. Returns it as it leaves.
    pub fn allocate(&mut self, now: Instant, key: K, allocation: &Allocation) -> Allocation {
        self.expire(now);
        let mut reduced = *allocation;
        self.add(now, key);
        let Some(flow) = self.flows.get_mut(&key) else { return reduced };
        let is_new = self.online.is_new(&flow.state, allocation);
        if is_new && !std::mem::replace(&mut flow.is_recorded, true) {
            self.pairs.add(key.service());
        }
        reduced.weight = self.pairs.weight(key.service(), allocation.weight);
        if is_new {
            if let Some(until) = flow.until.take() {
                self.ending.remove(&(until, key));
            }
            self.forwarder.record(now, flow.number, &reduced);
        }
        let published = self.forwarder.publish(now);
        self.online.publish(&published);
        let queued = self.queue.bytes(now);
        self.online.allocate(&mut flow.state, &mut reduced, now, queued);
        reduced.weight = allocation.weight;
        reduced
    }

    /// The sender requests, with the clock of its newest allocation: a flow that was over is renewed.
    pub fn on_request(&mut self, now: Instant, key: K, clock: u32) {
        self.add(now, key);
        if let Some(flow) = self.flows.get_mut(&key) {
            self.online.on_request(&mut flow.state, clock);
        }
    }

    /// A flow has a state, for a lifetime unless it is recorded until then.
    fn add(&mut self, now: Instant, key: K) {
        let (next, keys) = (&mut self.next, &mut self.keys);
        let flow = self.flows.entry(key).or_insert_with(|| {
            let number = *next;
            *next = next.wrapping_add(1);
            keys.insert(number, key);
            Flow { number, state: O::Flow::default(), is_recorded: false, until: None }
        });
        if !flow.is_recorded {
            self.leave(key, now + self.online.longest_lifetime());
        }
    }

    /// The sender returns the values of an allocation.
    pub fn on_return(&mut self, now: Instant, key: K, returned: &Return) {
        if let Some(flow) = self.flows.get_mut(&key) {
            self.online.on_return(&mut flow.state, returned, now);
        }
    }

    /// Data has passed the gate of its flow. It has left already, so it is never dropped here.
    pub fn on_data(&mut self, now: Instant, key: K, bytes: Bytes) {
        self.queue.add(now, bytes);
        if let Some(flow) = self.flows.get_mut(&key) {
            self.online.on_data(&mut flow.state, bytes, now);
        }
    }

    /// The sender ends the flow.
    pub fn terminate(&mut self, now: Instant, key: K) {
        let until = now + self.online.longest_lifetime();
        let Some(flow) = self.flows.get_mut(&key) else { return };
        self.online.terminate(&mut flow.state, now);
        self.forwarder.remove(flow.number);
        self.leave(key, until);
    }

    /// A flow has left the shares; its state is kept until `until`.
    fn leave(&mut self, key: K, until: Instant) {
        let Some(flow) = self.flows.get_mut(&key) else { return };
        if std::mem::take(&mut flow.is_recorded) {
            self.pairs.remove(key.service());
        }
        if let Some(before) = flow.until.replace(until) {
            self.ending.remove(&(before, key));
        }
        self.ending.insert((until, key));
    }

    /// Drops flows whose allocations have stopped, and the states of flows that ended a lifetime ago.
    fn expire(&mut self, now: Instant) {
        let until = now + self.online.longest_lifetime();
        for number in self.forwarder.expire(now) {
            if let Some(&key) = self.keys.get(&number) {
                self.leave(key, until);
            }
        }
        while let Some(&(until, key)) = self.ending.first()
            && until <= now
        {
            self.ending.pop_first();
            if let Some(flow) = self.flows.remove(&key) {
                self.keys.remove(&flow.number);
            }
        }
    }

    /// The values that the port has published for allocations at `now`.
    pub fn published(&mut self, now: Instant) -> Published {
        self.forwarder.publish(now)
    }

    /// The online part.
    pub fn online(&self) -> &O {
        &self.online
    }

    /// The offline part.
    pub fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }

    /// Q at `now`: bytes that have passed the gates and have not drained.
    pub fn queued(&self, now: Instant) -> Bytes {
        let mut queue = self.queue;
        queue.bytes(now)
    }

    /// Flows that share the port.
    pub fn flows(&self) -> usize {
        self.forwarder.flows()
    }

    /// Flows of which the port has a state.
    pub fn states(&self) -> usize {
        self.flows.len()
    }

    /// 2 · C_0 at `now`.
    pub fn budget(&mut self, now: Instant) -> Bytes {
        let published = self.forwarder.publish(now);
        self.forwarder.budget(&published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_drains_from_the_reading_before() {
        let at = |micros: u64| Instant::from_nanos(micros * 1_000);
        let mut queue = DrainedQueue { rate: Bandwidth::from_mbps(8), bytes: 0, at: at(0), read: at(0) };
        // 1 B in 1 µs. A period's bytes have left evenly, those of two flows together.
        queue.add(at(1_000), Bytes::new(600));
        queue.add(at(1_000), Bytes::new(700));
        assert_eq!(queue.bytes(at(1_000)).get(), 300);
        assert_eq!([at(1_100), at(1_400)].map(|now| queue.bytes(now).get()), [200, 0]);
        // A burst after an idle time does not use that time.
        queue.add(at(90_000), Bytes::ZERO);
        queue.add(at(90_500), Bytes::new(2_000));
        assert_eq!(queue.bytes(at(90_500)).get(), 1_500);
    }
}
