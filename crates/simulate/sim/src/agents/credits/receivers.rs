//! [`Receivers`]: the receiving ends of a host's flows, which issue allocations.
//!
//! A flow's receiver ends with its termination, and when nothing has returned for its timeout. Another request starts
//! a new one whose clocks follow those of the last: the sender and the ports take no clock that is not later. The last
//! clock of a flow is kept until another flow has its slot in the world, by when no packet of it is left.
//!
//! Example: a connection sends three messages with pauses between. The allocations of the first have the clocks 1 to 5;
//! those of the second start above 5.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_credits::{Allocation, Message, Receiver, ReceiverSettings, Request, Return};
use weir_transport::agents::FlowKey;
use weir_units::{Bandwidth, Instant};

/// The receiving end of a flow.
#[derive(Debug)]
struct Incoming {
    key: FlowKey,
    receiver: Receiver,
    /// The clock of the last allocation.
    clock: u32,
    ended: bool,
}

impl Incoming {
    fn new(now: Instant, key: FlowKey, settings: ReceiverSettings, request: &Request) -> Self {
        Self { key, receiver: Receiver::new(now, settings, request), clock: request.clock, ended: false }
    }

    fn timer(&self) -> Option<Instant> {
        if self.ended { None } else { self.receiver.timer() }
    }
}

/// The receiving ends of a host's flows.
#[derive(Debug)]
pub(super) struct Receivers {
    settings: ReceiverSettings,
    /// By the flow's slot in the world.
    flows: BTreeMap<u32, Incoming>,
    due: BTreeSet<(Instant, u32)>,
    out: VecDeque<(FlowKey, Allocation)>,
    /// Returns that arrived after the next allocation was due.
    slow: u64,
}

impl Receivers {
    pub(super) fn new(settings: ReceiverSettings) -> Self {
        Self { settings, flows: BTreeMap::new(), due: BTreeSet::new(), out: VecDeque::new(), slow: 0 }
    }

    /// A sender's message has arrived at the host.
    pub(super) fn on_message(&mut self, now: Instant, key: FlowKey, message: &Message) {
        self.unschedule(key.slot);
        match message {
            Message::Request(request) => {
                let flow =
                    self.flows.entry(key.slot).or_insert_with(|| Incoming::new(now, key, self.settings, request));
                if flow.key != key {
                    *flow = Incoming::new(now, key, self.settings, request);
                } else if flow.ended || flow.receiver.is_idle() {
                    // Ports may have seen clocks of which the sender has had none.
                    let clock = if request.clock == 0 { flow.clock } else { request.clock };
                    *flow = Incoming::new(now, key, self.settings, &Request { clock, ..*request });
                } else {
                    flow.receiver.on_request(now, request);
                }
            }
            Message::Return(returned) => self.on_return(now, key, returned),
            Message::Terminate => {
                if let Some(flow) = self.flows.get_mut(&key.slot).filter(|flow| flow.key == key) {
                    flow.ended = true;
                }
            }
            Message::Allocation(_) => {}
        }
        self.schedule(key.slot);
    }

    fn on_return(&mut self, now: Instant, key: FlowKey, returned: &Return) {
        let Some(flow) = self.flows.get_mut(&key.slot).filter(|flow| flow.key == key && !flow.ended) else { return };
        self.slow += u64::from(returned.clock != flow.clock);
        flow.receiver.on_return(now, returned);
    }

    fn unschedule(&mut self, slot: u32) {
        if let Some(due) = self.flows.get(&slot).and_then(Incoming::timer) {
            self.due.remove(&(due, slot));
        }
    }

    fn schedule(&mut self, slot: u32) {
        if let Some(due) = self.flows.get(&slot).and_then(Incoming::timer) {
            self.due.insert((due, slot));
        }
    }

    /// Issues the allocations that are due.
    pub(super) fn issue(&mut self, now: Instant) {
        while let Some(&(due, slot)) = self.due.first()
            && due <= now
        {
            self.due.remove(&(due, slot));
            if let Some(flow) = self.flows.get_mut(&slot)
                && let Some(allocation) = flow.receiver.poll(now)
            {
                flow.clock = allocation.clock;
                self.out.push_back((flow.key, allocation));
            }
            self.schedule(slot);
        }
    }

    /// The time of the next allocation.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.due.first().map(|&(due, _)| due)
    }

    /// The next allocation to send.
    pub(super) fn poll(&mut self) -> Option<(FlowKey, Allocation)> {
        self.out.pop_front()
    }

    /// R of the link that leads to the host has changed.
    pub(super) fn set_rate(&mut self, rate: Bandwidth) {
        self.settings.rate = rate;
        self.flows.values_mut().for_each(|flow| flow.receiver.set_rate(rate));
    }

    /// Returns that arrived after the next allocation was issued: round trips, with queues, longer than a period.
    pub(super) fn slow(&self) -> u64 {
        self.slow
    }
}
