//! A credit port with a list of grants in place of a wheel and sums, in exact arithmetic.

use std::collections::BTreeMap;
use weir_credits::{Allocation, Period, Published, Return};
use weir_datapath::CreditCounters;
use weir_units::{Bytes, Duration};

const MAX: u128 = u32::MAX as u128;
/// Grants that a flow's records have room for, by clock.
const RECORDS: u32 = 16;
/// Slots that the wheel of the C code has; a longer lifetime gets nothing.
const SLOTS: u128 = 1024;
/// Periods that data is assumed to wait before a return.
const WAIT_PERIODS: u128 = 12;

/// A grant.
#[derive(Debug, Clone)]
struct Grant {
    flow: usize,
    clock: u32,
    made: u128,
    /// The time in ns at which it expires, a multiple of a slot.
    end: u128,
    granted: u128,
    left: u128,
    passed: u128,
}

/// The clocks of a flow, whether it is over, and the end of its data from another path once it has been seen.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    is_over: bool,
    rerouted_until: Option<u128>,
    newest: u32,
    current: u32,
    ahead: u128,
}

/// A port. All grants are listed, expired ones too, unless the flow has another with the same place in its records.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) rate: u128,
    pub(super) slot: u128,
    pub(super) lossless: bool,
    pub(super) carry: u128,
    pub(super) exempt: u128,
    pub(super) published: Published,
    pub(super) closed_until: u128,
    /// The latest begin of a slot, in ns.
    at: u128,
    grants: Vec<Grant>,
    flows: BTreeMap<usize, Flow>,
    pub(super) counters: CreditCounters,
}

fn is_later(clock: u32, than: u32) -> bool {
    (1..1 << 31).contains(&clock.wrapping_sub(than))
}

impl Model {
    pub(super) fn new(rate: u64, slot: u128, lossless: bool, published: Published) -> Self {
        Self {
            rate: rate.into(),
            slot,
            lossless,
            carry: 0,
            exempt: 0,
            published,
            closed_until: 0,
            at: 0,
            grants: Vec::new(),
            flows: BTreeMap::new(),
            counters: CreditCounters::default(),
        }
    }

    /// A: what live grants have left.
    pub(super) fn outstanding(&self) -> u128 {
        self.grants.iter().filter(|grant| grant.end > self.at).map(|grant| grant.left).sum()
    }

    pub(super) fn budget(&self) -> u128 {
        (2 * self.capacity(self.longest())).min(MAX)
    }

    fn longest(&self) -> u128 {
        self.published.longest.max(self.published.period).micros().into()
    }

    fn capacity(&self, micros: u128) -> u128 {
        (self.rate * micros / 8_000_000).min(MAX)
    }

    fn advance(&mut self, now: u128) {
        self.at = self.at.max(now / self.slot * self.slot);
        for grant in &mut self.grants {
            if grant.end <= self.at {
                self.counters.expired += std::mem::take(&mut grant.left) as u64;
            }
        }
    }

    /// The end of a grant's lifetime, rounded up to a slot.
    fn end(&self, made: u128, period: u128, wait: u128) -> u128 {
        let periods = if self.carry > 0 { 3 } else { 2 };
        ((made + (periods * period + wait) * 1000) / self.slot + 1) * self.slot
    }

    fn record(&mut self, flow: usize, clock: u32) -> Option<&mut Grant> {
        let same = move |grant: &&mut Grant| grant.flow == flow && grant.clock % RECORDS == clock % RECORDS;
        self.grants.iter_mut().find(same)
    }

    pub(super) fn allocate(&mut self, flow: usize, allocation: &mut Allocation, now: u128, queued: u128, direct: bool) {
        self.counters.allocations += 1;
        if !direct {
            self.counters.astray += 1;
            allocation.allocation = Bytes::ZERO;
            return;
        }
        self.advance(now);
        let (at, used, budget) = (self.at, self.outstanding() + queued, self.budget());
        let wait = if used > budget { (used * 8_000_000).div_ceil(self.rate) } else { 2 * self.longest() };
        let queueing = u128::from(allocation.queueing.nanos()).div_ceil(1000) + wait;
        allocation.queueing = Duration::from_micros(queueing.min(MAX) as u64);
        self.reduce(allocation);
        let clock = allocation.clock;
        self.meet(flow, now);
        let Flow { newest, is_over, .. } = self.flows[&flow];
        let recorded = self.record(flow, clock).filter(|grant| grant.clock == clock).cloned();
        if is_over {
            self.counters.ended += 1;
            allocation.allocation = Bytes::ZERO;
        } else if clock == 0 || (recorded.is_none() && newest != 0 && !is_later(clock, newest)) {
            self.counters.stale += 1;
            allocation.allocation = Bytes::ZERO;
        } else if let Some(grant) = recorded {
            self.counters.duplicates += 1;
            let left = if grant.end > at { grant.left.min(grant.granted) } else { 0 };
            allocation.allocation = allocation.allocation.min(Bytes::new(left as u64));
        } else {
            let free = if now < self.closed_until { 0 } else { self.room(allocation, used, queued) };
            let most = allocation.allocation.min(allocation.demand).min(Bytes::new(free as u64));
            allocation.allocation = most;
            self.grant(flow, allocation, now);
        }
        self.lengthen(allocation);
    }

    /// A flow that is seen for the first time without a request has had another path.
    fn meet(&mut self, flow: usize, now: u128) {
        let until = now + SLOTS * self.slot;
        self.flows.entry(flow).or_default().rerouted_until.get_or_insert(until);
    }

    pub(super) fn on_request(&mut self, flow: usize, clock: u32) {
        let has_live = self.grants.iter().any(|grant| grant.flow == flow && grant.end > self.at);
        let flow = self.flows.entry(flow).or_default();
        let is_before = |of: u32| of != 0 && is_later(of, clock);
        if has_live && is_before(flow.current) {
            return;
        }
        if !has_live {
            flow.current = if is_before(flow.current) { 0 } else { flow.current };
            flow.newest = if is_before(flow.newest) { clock } else { flow.newest };
        }
        flow.is_over = false;
        flow.rerouted_until.get_or_insert(0);
    }

    /// Lists the allocated bytes as a grant, unless another one is in its place or it lives too long.
    fn grant(&mut self, flow: usize, allocation: &mut Allocation, now: u128) {
        let Flow { current, ahead, .. } = self.flows[&flow];
        self.flows.entry(flow).or_default().newest = allocation.clock;
        let (at, own) = (self.at, u128::from(self.published.period.micros()));
        let period = u128::from(allocation.period.micros());
        let wait = if current != 0 { ahead } else { WAIT_PERIODS * period.max(self.longest()) };
        let mut end = self.end(now, period.max(own), wait);
        if self.record(flow, allocation.clock).is_some_and(|grant| grant.left > 0 && grant.end > at) {
            self.counters.stale += 1;
            allocation.allocation = Bytes::ZERO;
            return;
        }
        if end <= at || end > at + SLOTS * self.slot {
            self.counters.too_long += 1;
            allocation.allocation = Bytes::ZERO;
            end = 0;
        }
        let granted = u128::from(allocation.allocation.get());
        self.counters.granted += granted as u64;
        self.grants.retain(|grant| grant.flow != flow || grant.clock % RECORDS != allocation.clock % RECORDS);
        let passed = u128::from(allocation.queueing.nanos() / 1000);
        self.grants.push(Grant { flow, clock: allocation.clock, made: now, end, granted, left: granted, passed });
    }

    fn share(&self, allocation: &Allocation) -> u128 {
        let weight = u128::from(allocation.weight.thousandths());
        (u128::from(self.published.per_weight) * weight).div_ceil(1 << 16).min(MAX)
    }

    /// What the budget leaves, and the flow's share of a period that drains a quarter of a long queue.
    fn room(&self, allocation: &Allocation, used: u128, queued: u128) -> u128 {
        let (budget, capacity) = (self.budget(), self.capacity(allocation.period.micros().into()));
        let room = budget.saturating_sub(used);
        match queued.checked_sub(budget / 8) {
            None | Some(0) => room,
            Some(excess) => {
                let capacity = capacity.saturating_sub(excess / 4);
                room.min((capacity * self.share(allocation)).div_ceil(1 << 32))
            }
        }
    }

    fn reduce(&self, allocation: &mut Allocation) {
        let capacity = self.capacity(allocation.period.micros().into());
        let share = self.share(allocation);
        let part = |share: u128| Bytes::new((capacity * share.min(MAX)).div_ceil(1 << 32) as u64);
        allocation.demand = allocation.demand.min(part(share));
        allocation.potential = allocation.potential.min(part(share + u128::from(self.published.rest)));
    }

    fn lengthen(&self, allocation: &mut Allocation) {
        let (from, own) = (allocation.period, self.published.period);
        allocation.longest = allocation.longest.max(own);
        if from >= own {
            return;
        }
        let scaled = |bytes: Bytes| {
            let whole = u128::from(bytes.get()) * u128::from(own.micros()) / u128::from(from.micros());
            Bytes::new(whole.min(MAX) as u64)
        };
        if from > Period::default() {
            allocation.potential = scaled(allocation.potential);
            allocation.demand = scaled(allocation.demand);
        }
        allocation.period = own;
    }

    pub(super) fn on_return(&mut self, flow: usize, returned: &Return, now: u128) {
        self.advance(now);
        let (at, slot, carry) = (self.at, self.slot, self.carry);
        let Flow { current, .. } = *self.flows.entry(flow).or_default();
        let queueing = u128::from(returned.queueing.nanos()).div_ceil(1000).min(MAX);
        let period = returned.period.micros().into();
        let clock = returned.clock;
        let Some(grant) = self.record(flow, clock).filter(|grant| clock != 0 && grant.clock == clock) else { return };
        let (made, ahead, is_live) = (grant.made, queueing.saturating_sub(grant.passed), grant.end > at);
        let allocation = u128::from(returned.allocation.get());
        let mut cut = grant.granted.saturating_sub(allocation);
        grant.granted -= cut;
        cut = if is_live { cut.min(grant.left) } else { 0 };
        grant.left -= cut;
        self.counters.released += cut as u64;
        let end = self.end(made, period, ahead).clamp(at + slot, at + SLOTS * slot);
        if is_live && let Some(grant) = self.record(flow, clock) {
            grant.end = end;
        }
        if current != 0 && !is_later(clock, current) {
            return;
        }
        let (mut carried, mut released) = (0, 0);
        for earlier in (1..RECORDS).map(|back| clock.wrapping_sub(back)).filter(|_| is_live) {
            let is_earlier = |grant: &&mut Grant| grant.clock == earlier && grant.end > at;
            if let Some(before) = self.record(flow, earlier).filter(is_earlier) {
                let more = before.left.min(carry - carried);
                before.left -= more;
                carried += more;
                // The second return after that of a grant releases what was not used.
                if earlier != clock.wrapping_sub(1) {
                    released += before.left;
                    before.left = 0;
                }
            }
        }
        self.counters.released += released as u64;
        if let Some(grant) = self.record(flow, clock) {
            grant.left += carried;
        }
        let flow = self.flows.entry(flow).or_default();
        (flow.current, flow.ahead) = (clock, ahead);
    }

    pub(super) fn on_data(&mut self, flow: Option<usize>, bytes: u128, now: u128) -> bool {
        self.advance(now);
        if bytes <= self.exempt {
            return false;
        }
        let mut left = bytes;
        if let Some(flow) = flow {
            self.meet(flow, now);
            let (at, Flow { current, newest, .. }) = (self.at, *self.flows.entry(flow).or_default());
            // Newer grants than that of the newest return are of lost returns, and are used in their order.
            let newer = (1..RECORDS - 1).map(|ahead| current.wrapping_add(ahead));
            let order: Vec<u32> = match current {
                0 => (1..=RECORDS).map(|ahead| newest.wrapping_add(ahead)).collect(),
                _ => [current, current.wrapping_sub(1)].into_iter().chain(newer).collect(),
            };
            for clock in order {
                if let Some(grant) = self.record(flow, clock).filter(|grant| grant.end > at) {
                    let taken = left.min(grant.left);
                    grant.left -= taken;
                    left -= taken;
                }
            }
            self.counters.arrived += (bytes - left) as u64;
        }
        if left == 0 {
            return false;
        }
        if now < self.closed_until {
            self.counters.unaccounted += left as u64;
            return false;
        }
        if flow.and_then(|flow| self.flows[&flow].rerouted_until).is_some_and(|until| now < until) {
            self.counters.rerouted += left as u64;
            return false;
        }
        self.counters.late += left as u64;
        self.counters.late_packets += 1;
        self.lossless
    }

    pub(super) fn terminate(&mut self, flow: usize, now: u128) {
        self.advance(now);
        for grant in self.grants.iter_mut().filter(|grant| grant.flow == flow) {
            self.counters.released += std::mem::take(&mut grant.left) as u64;
        }
        let flow = self.flows.entry(flow).or_default();
        flow.is_over = true;
        flow.rerouted_until.get_or_insert(0);
    }
}
