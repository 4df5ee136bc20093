//! A port of the world: the production machines of both parts, a FIFO queue, and the observers of what it has to keep.

use crate::plan::{Plan, Variant};
use crate::world::Nanos;
use std::collections::{BTreeMap, VecDeque};
use weir_credits::{Allocation, Forwarder, ForwarderSettings, MaxMinTree, Published, Return, WHOLE};
use weir_datapath::{CreditFlow, CreditPort, CreditPortSettings};
use weir_units::{Bytes, Duration, Instant};

/// Data of one packet at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) is_dropped: bool,
    /// Bytes without a live grant.
    pub(crate) late: u64,
    /// The same of a flow that has come from another path.
    pub(crate) rerouted: u64,
}

/// A flow at a port, and the time until which its state is kept.
#[derive(Debug, Default)]
struct State {
    credit: CreditFlow,
    kept_until: Nanos,
}

/// A port in the direction of data, and the reverse direction of its link.
pub(crate) struct Port {
    settings: ForwarderSettings,
    whole_frames: bool,
    periodic: bool,
    variant: Variant,
    published: Option<(Nanos, Published)>,
    forwarder: Forwarder,
    /// The demands again, for the variant that needs their sum.
    demands: MaxMinTree,
    credit: CreditPort,
    flows: BTreeMap<u32, State>,
    /// The ends of transmissions, the bytes of data, and those of no grant of this port; and their sums.
    queue: VecDeque<(Nanos, u64, u64)>,
    queued: u64,
    ungranted: u64,
    free: Nanos,
    reverse_free: Nanos,
    closed_until: Nanos,
    /// 2 · C_0 at the last grant: no later event may raise A + Q above it.
    bound: Option<u64>,
    /// The largest A + Q in thousandths of the present 2 · C_0, and the largest queue.
    pub(crate) fullest: u64,
    pub(crate) longest_queue: u64,
    pub(crate) late: u64,
    pub(crate) unaccounted: u64,
}

fn instant(now: Nanos) -> Instant {
    Instant::from_nanos(now)
}

impl Port {
    pub(crate) fn new(plan: &Plan) -> Self {
        let settings = ForwarderSettings { rule: plan.rule, memory: plan.memory };
        let whole_frames = plan.whole_frames;
        Self {
            settings,
            whole_frames,
            periodic: plan.periodic,
            variant: plan.variant,
            published: None,
            forwarder: Forwarder::new(Instant::ZERO, settings),
            demands: MaxMinTree::new(WHOLE),
            credit: Self::online(&settings, whole_frames, plan.variant),
            flows: BTreeMap::new(),
            queue: VecDeque::new(),
            queued: 0,
            ungranted: 0,
            free: 0,
            reverse_free: 0,
            closed_until: 0,
            bound: None,
            fullest: 0,
            longest_queue: 0,
            late: 0,
            unaccounted: 0,
        }
    }

    fn online(settings: &ForwarderSettings, whole_frames: bool, variant: Variant) -> CreditPort {
        let rule = &settings.rule;
        // What the short lifetimes have made late is to be counted, not dropped.
        let lossless = !variant.plain_lifetime;
        let port = CreditPort::new(&CreditPortSettings { rate: rule.rate, most: rule.most, lossless });
        if whole_frames { port.with_whole_frames(rule.frame) } else { port }
    }

    /// Both parts lose their state. The port is closed for the longest lifetime of a grant; returns its end.
    pub(crate) fn restart(&mut self, now: Nanos) -> Nanos {
        self.account();
        self.forwarder = Forwarder::new(instant(now), self.settings);
        self.credit = Self::online(&self.settings, self.whole_frames, self.variant);
        self.closed_until = now + self.longest_lifetime().nanos();
        self.credit.close_until(instant(self.closed_until));
        self.flows.clear();
        self.published = None;
        self.bound = None;
        self.closed_until
    }

    pub(crate) fn longest_lifetime(&self) -> Duration {
        self.credit.longest_lifetime()
    }

    /// The published values, as the port uses them: a variant has a trap of the specification in place of its
    /// correction.
    fn publish(&mut self, now: Nanos) -> Published {
        if let Some((at, published)) = self.published
            && self.periodic
            && now < at + published.period.duration().nanos()
        {
            return published;
        }
        let mut published = self.forwarder.publish(instant(now));
        if self.variant.own_period_only {
            published.longest = published.period;
        }
        // Rounded up, demands that use all of the port exceed it by some bytes.
        if self.variant.unlimited_shares && self.demands.demand() <= u128::from(WHOLE + WHOLE / 1_000) {
            published.per_weight = 1 << 48;
        }
        self.credit.publish(&published);
        self.published = Some((now, published));
        published
    }

    /// An allocation of a flow arrives, over the link of the port (`direct`) or over another one.
    pub(crate) fn allocate(&mut self, now: Nanos, flow: u32, allocation: &mut Allocation, direct: bool) {
        // A flow's grants outlive its record: data may be on its way.
        self.forwarder.expire(instant(now));
        self.drain(now);
        self.forget(now);
        if direct && self.credit.is_new(&self.flows.entry(flow).or_default().credit, allocation) {
            self.touch(now, flow);
            self.forwarder.record(instant(now), flow, allocation);
            let capacity = allocation.period.capacity(self.settings.rule.rate).get();
            self.demands.set(flow, 1, allocation.demand.get() * WHOLE / capacity);
        }
        let published = self.publish(now);
        let state = &mut self.flows.entry(flow).or_default().credit;
        let queued = if self.variant.queue_ignored { 0 } else { self.queued };
        self.credit.allocate(state, allocation, instant(now), Bytes::new(queued), direct);
        let budget = self.forwarder.budget(&published).get();
        if allocation.allocation > Bytes::ZERO && direct {
            self.bound = Some(budget);
        }
        let used = self.credit.outstanding().get() + self.queued;
        self.fullest = self.fullest.max(used * 1_000 / budget.max(1));
    }

    /// The sender requests credits.
    pub(crate) fn on_request(&mut self, now: Nanos, flow: u32, clock: u32) {
        self.touch(now, flow);
        let state = &mut self.flows.entry(flow).or_default().credit;
        self.credit.on_request(state, clock);
    }

    /// The state of a flow is kept for another lifetime.
    fn touch(&mut self, now: Nanos, flow: u32) {
        self.flows.entry(flow).or_default().kept_until = now + self.longest_lifetime().nanos();
    }

    /// Drops the states of flows that have been over or silent for a lifetime.
    fn forget(&mut self, now: Nanos) {
        self.flows.retain(|_, state| state.kept_until > now);
    }

    /// Values come back with data or alone.
    pub(crate) fn on_return(&mut self, now: Nanos, flow: u32, returned: &Return) {
        self.drain(now);
        if let Some(state) = self.flows.get_mut(&flow) {
            self.credit.on_return(&mut state.credit, returned, instant(now));
        }
    }

    /// A packet of data arrives.
    pub(crate) fn on_data(&mut self, now: Nanos, flow: u32, bytes: u64) -> Arrival {
        self.drain(now);
        self.touch(now, flow);
        let before = *self.credit.counters();
        let state = &mut self.flows.entry(flow).or_default().credit;
        let is_dropped = self.credit.on_data(state, Bytes::new(bytes), instant(now));
        let after = self.credit.counters();
        Arrival { is_dropped, late: after.late - before.late, rerouted: after.rerouted - before.rerouted }
    }

    /// The number of flows that have shares.
    pub(crate) fn recorded(&self) -> usize {
        self.forwarder.flows()
    }

    /// A flow is over.
    pub(crate) fn terminate(&mut self, now: Nanos, flow: u32) {
        self.forwarder.remove(flow);
        self.touch(now, flow);
        let state = &mut self.flows.entry(flow).or_default().credit;
        self.credit.terminate(state, instant(now));
    }

    /// Appends a packet to the queue; returns the end of its transmission. `ungranted` of the bytes have no grant.
    pub(crate) fn transmit(&mut self, now: Nanos, bytes: u64, ungranted: u64, is_data: bool) -> Nanos {
        self.free = self.free.max(now) + self.time(bytes);
        if is_data {
            self.queue.push_back((self.free, bytes, ungranted));
            self.queued += bytes;
            self.ungranted += ungranted;
            self.longest_queue = self.longest_queue.max(self.queued);
        }
        self.free
    }

    /// The same on the reverse direction, where only control messages are.
    pub(crate) fn transmit_back(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.reverse_free = self.reverse_free.max(now) + self.time(bytes);
        self.reverse_free
    }

    fn time(&self, bytes: u64) -> Nanos {
        (bytes * 8_000_000_000).div_ceil(self.settings.rule.rate.bps())
    }

    fn drain(&mut self, now: Nanos) {
        while let Some(&(end, bytes, ungranted)) = self.queue.front()
            && end <= now
        {
            self.queue.pop_front();
            self.queued -= bytes;
            self.ungranted -= ungranted;
        }
    }

    /// The observers, after each event of the port.
    pub(crate) fn check(&self, now: Nanos) -> Result<(), String> {
        let counters = self.credit.counters();
        let outstanding = self.credit.outstanding().get();
        let gone = counters.arrived + counters.expired + counters.released;
        if counters.granted.checked_sub(gone) != Some(outstanding) {
            return Err(format!("A is {outstanding} B, but {} B granted less {gone} B", counters.granted));
        }
        let frames = if self.whole_frames { self.flows.len() as u64 * self.settings.rule.frame.get() } else { 0 };
        let used = outstanding + self.queued;
        if now >= self.closed_until
            && let Some(bound) = self.bound
            && used > bound + frames + self.ungranted
        {
            let queued = self.queued;
            return Err(format!("A + Q = {outstanding} + {queued} B, above {bound} B and {frames} B of frames"));
        }
        Ok(())
    }

    /// Moves the counters of this part into those of the port.
    pub(crate) fn account(&mut self) {
        self.late += self.credit.counters().late;
        self.unaccounted += self.credit.counters().unaccounted;
    }
}
