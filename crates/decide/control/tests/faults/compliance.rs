//! Checks once the faults are over and reports have spread: equal shares everywhere, and traffic
//! that complies with the policy.
//!
//! Shares that still change in ever smaller steps ([`crate::steps`]) differ by a step between machines, and traffic
//! exceeds a bound by a step of each machine.
//!
//! The uplink and maxima bound the *sent* traffic: traffic received through a full queue would stay
//! below any cap above the queue's rate. Guarantees apply to received traffic. Bounds are wider for
//! throttled services, and only where a broker just reported a raised demand.

use crate::checkers::Checkers;
use crate::draw::MACHINES;
use crate::world::{LATE_STEP, World};
use weir_control::demand::BURST;
use weir_control::rack_broker::LOWEST_LIMIT;
use weir_control::{Mode, RackBroker};
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection, RackId};

/// Shares closer than this agree: a constant load is measured again each period, a byte or two off,
/// and is reported in steps of up to 1/2^17, of which 30 instances together take a part of the
/// uplink. Parley tracks demands to the same resolution (§6.2).
pub(crate) const SAME: Bandwidth = Bandwidth::from_mbps(1);

/// The error of a measurement: a meter counts whole bytes, and a period never has exactly the
/// length of the last one.
const MEASURED: Bandwidth = Bandwidth::from_bps(2_000);

impl Checkers {
    /// The faults are over: all machines have the same shares, and the traffic complies with the
    /// policy.
    pub(crate) fn agreement(&self, world: &World) -> Result<(), String> {
        self.agreement_but_for(world, PerDirection::both(Bandwidth::ZERO))
    }

    /// The machines do not agree yet: they differ by the last step, and steps do not grow.
    pub(crate) fn contraction(&self, world: &World) -> Result<(), String> {
        let mut last = PerDirection::both(Bandwidth::ZERO);
        for direction in Direction::ALL {
            let step = |from: u64, to: u64| self.steps.largest(direction, world.now - from, world.now - to);
            let (now, before) = (step(LATE_STEP, 0), step(2 * LATE_STEP, LATE_STEP));
            if !self.is_hidden(world, direction) && now > before.max(SAME) {
                return Err(format!("steps grow from {before} to {now} ({direction})"));
            }
            last[direction] = now;
        }
        self.agreement_but_for(world, last)
    }

    /// Whether a full queue is not visible in marks. It throttles all services in proportion, guaranteed or not, and
    /// differently with each limit that is set or lifted, so shares do not converge.
    fn is_hidden(&self, world: &World, direction: Direction) -> bool {
        let revealed = world.marks().reveal_overload(&world.policy, RackId(0));
        direction == Direction::Rx && !revealed && world.was_full_recently()
    }

    /// The receiving shares of a rack under the rule of this version may not settle: a demand close to the unmarked
    /// part of a share counts as backlogged or not by small changes of marks or of the interface's share, which depend
    /// on that judgement themselves (`docs/design/ceilings.md`). Sending shares agree all the same, and received
    /// traffic exceeds maxima by a tenth at most, as ceilings do together.
    pub(crate) fn receiving_cycles(&self, world: &World) -> Result<(), String> {
        self.direction_agrees(world, Direction::Tx, Bandwidth::ZERO)?;
        for (leaf, id) in self.leaves.iter().enumerate() {
            let all: Bandwidth = (0..MACHINES).map(|m| world.machines[m].usage(Direction::Rx, leaf)).sum();
            let service = world.policy.services().get(*id);
            let max = service.share(ContentionPoint::Rack, Direction::Rx).max;
            if all.bps() > max.bps().saturating_add(max.bps() / 10).saturating_add(self.tolerance(world, all)) {
                return Err(format!("{} receives {all}, a tenth more than its maximum", service.path()));
            }
        }
        Ok(())
    }

    /// The same where shares changed by `steps` last.
    fn agreement_but_for(&self, world: &World, steps: PerDirection<Bandwidth>) -> Result<(), String> {
        for direction in Direction::ALL {
            self.direction_agrees(world, direction, steps[direction])?;
        }
        Ok(())
    }

    fn direction_agrees(&self, world: &World, direction: Direction, step: Bandwidth) -> Result<(), String> {
        let brokers: Vec<&RackBroker> = world.machines.iter().filter_map(|machine| machine.broker.as_ref()).collect();
        if brokers.len() != MACHINES {
            return Err("a machine has no broker".to_owned());
        }
        if let Some(m) = brokers.iter().position(|broker| broker.mode() != Mode::Runtime) {
            return Err(format!("m{} is still in static mode", m + 1));
        }
        // The received traffic complies with the uplink and maxima all the same.
        if self.is_hidden(world, direction) {
            return self.maxima(world, direction, step, &|m, leaf| world.machines[m].usage(direction, leaf));
        }
        for (m, broker) in brokers.iter().enumerate() {
            for (i, instance) in broker.shares(direction).instances.iter().enumerate() {
                let other = brokers[0].shares(direction).instances[i];
                if instance.share.bps().abs_diff(other.share.bps()) > SAME.max(step).bps() {
                    return Err(format!("m{} has {instance:?}, m1 {other:?} for instance {i} {direction}", m + 1));
                }
            }
        }
        self.maxima(world, direction, step, &|m, leaf| world.machines[m].sent(direction, leaf))?;
        self.guarantees(world, direction)
    }

    /// Checks the uplink and maxima for these rates of each machine's services, which exceed them by a
    /// step of each machine at most.
    fn maxima(
        &self,
        world: &World,
        direction: Direction,
        step: Bandwidth,
        rate: &dyn Fn(usize, usize) -> Bandwidth,
    ) -> Result<(), String> {
        let of_service = |leaf: usize| -> Bandwidth { (0..MACHINES).map(|m| rate(m, leaf)).sum() };
        let all: Bandwidth = (0..self.leaves.len()).map(of_service).sum();
        let capacity = world.policy.rack_capacity(RackId(0), direction);
        let steps = step.bps() * MACHINES as u64;
        if all.bps() > capacity.bps() + self.tolerance(world, capacity) + steps {
            return Err(format!("{all} is sent through {capacity} ({direction})"));
        }
        for (leaf, id) in self.leaves.iter().enumerate() {
            let (all, service) = (of_service(leaf), world.policy.services().get(*id));
            let max = service.share(ContentionPoint::Rack, direction).max;
            if all.bps() > max.bps().saturating_add(self.tolerance(world, all) + steps) {
                return Err(format!("{} sends {all}, more than its maximum ({direction})", service.path()));
            }
        }
        Ok(())
    }

    /// Checks that the received traffic of each service meets its guarantee.
    fn guarantees(&self, world: &World, direction: Direction) -> Result<(), String> {
        // The part of a capacity that an instance may reserve, by its usage. One that uses nine
        // tenths of its limit counts as backlogged and keeps the limit: a ninth more than its
        // usage, of which a burst a second may be missing, up to half. One with a just raised
        // demand reserves half more. (One that is throttled at half of its limit may reserve twice
        // its usage. No world so far needs that much, so the bound does not include it.)
        let reservation = |m: usize, leaf: usize, rate: Bandwidth| {
            let overreports =
                direction == Direction::Rx && self.throttled.affects_limits(self.instance(m, leaf), world.now);
            let bps = rate.bps();
            Bandwidth::from_bps(if overreports { bps / 2 * 3 } else { ((bps + 8 * BURST.get()) / 9 * 10).min(2 * bps) })
        };
        for (leaf, service) in self.leaves.iter().enumerate() {
            let service = world.policy.services().get(*service);
            let demand = |m: usize, other: usize| match world.machines[m].offered[direction][other] {
                offered if other == leaf => offered,
                offered => reservation(m, other, offered),
            };
            let least: Bandwidth = (0..MACHINES).map(|m| self.least_load(world, direction, m, leaf, &demand)).sum();
            let guaranteed = service.share(ContentionPoint::Rack, direction).min.min(least);
            let used = |m: usize| world.machines[m].usage(direction, leaf);
            // Where remote queues mark packets, the law passes only a part of the limit that the brokers granted.
            let granted = |m: usize| world.granted(direction, m, leaf).unwrap_or_else(|| used(m));
            let limited: Bandwidth = (0..MACHINES).map(|m| reservation(m, leaf, granted(m))).sum();
            if limited.bps() + self.tolerance(world, limited) < guaranteed.bps() {
                let has: Bandwidth = (0..MACHINES).map(used).sum();
                return Err(format!("{} has {has}, is guaranteed {guaranteed} ({direction})", service.path()));
            }
        }
        Ok(())
    }

    /// The lowest limit may exceed a share of zero, and a fast clock measures a rate too low.
    fn tolerance(&self, world: &World, of: Bandwidth) -> u64 {
        let skew = of.bps() / 1_000 * world.skew_per_mille();
        (LOWEST_LIMIT + MEASURED).bps() * (MACHINES * self.leaves.len()) as u64 + skew + (of.bps() >> 17)
    }
}
