//! [`SharedQueueLimit`]: the rate at which a machine may receive packets of an elastic tenant in the shared queue.
//!
//! Problem: tenants of the shared queue may send more than their reservations while others leave bandwidth, and the
//! queue divides what it carries by packets: a tenant with one connection has 2 of its 15 Mb/s beside one with 32.
//! Approach: the rate allocation that limits pairs of machines in the simulator ([`SHARED_QUEUE`]) limits what each
//! machine receives of the tenant. The reservation at the machine is the guarantee; each interval of the tenant's
//! receive meter is a report of marked packets. The meter has the limit as its capacity, and divides it among the
//! senders. So marks of the shared queue lower each tenant to its reservation, and no further; without marks it grows
//! until the queue does.
//!
//! Per machine and tenant, not per pair: a receiver keeps no state per sender. The reservations of a tenant's receivers
//! behind a link sum to what the link reserves unless its senders there reserve less: then the tenant may exceed its
//! reservation of the link by the difference (`docs/design/pair-rates.md`, "On Linux").
//!
//! Order of calls: [`SharedQueueLimit::new`] when the tenant joins the shared queue, [`SharedQueueLimit::report`] once
//! each [`SharedQueueLimit::interval`].
//!
//! Worked example: a reservation of 100 Mb/s at an interface of 1 Gb/s. The limit is 100 Mb/s at first, and 418 Mb/s
//! after 0.5 s without marks. A report with all packets marked makes it 293 Mb/s, two more 143 Mb/s, the next 100 Mb/s.
//!
//! Source: ElasticSwitch §3.2, as the elastic treatment of the shared queue that QShare permits.
//! Deviates from the paper in: receivers in place of pairs.

use weir_pair_rates::{Pair, PairLaw, PairSystem, Rates};
use weir_policy::{Policy, SharedQueue};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// The rate allocation of elastic tenants in the shared queue.
pub const SHARED_QUEUE: PairSystem = PairSystem::CautiousElasticSwitch;

/// Intervals without a received byte after which a tenant counts as idle, and begins again with its reservation. Ours:
/// a sender that lost its last packets repeats them within 0.2 s, ten intervals at 100 Mb/s.
const IDLE: u32 = 10;

/// The rate allocation of a policy's tenants in the shared queue; `None` where hosts cap them at their reservations.
pub fn shared_queue_system(policy: &Policy) -> Option<PairSystem> {
    (policy.tenant_queues().shared == SharedQueue::Elastic).then_some(SHARED_QUEUE)
}

/// Counters of what a machine has received of a tenant, from any start on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// All bytes.
    pub bytes: Bytes,
    /// Packets that switches could mark.
    pub packets: u64,
    /// Of them, those marked.
    pub marked: u64,
}

/// The limit of what a machine receives of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedQueueLimit {
    pair: Pair,
    law: PairLaw,
    /// The counters of the last report; `None` before the first.
    counted: Option<Received>,
    /// Reports without a received byte.
    idle: u32,
}

impl SharedQueueLimit {
    /// A tenant that joins the shared queue at `now` with this `reservation` at an interface of rate `line`.
    pub fn new(now: Instant, reservation: Bandwidth, line: Bandwidth) -> Self {
        let pair = Pair { guarantee: reservation, line };
        Self { pair, law: PairLaw::new(SHARED_QUEUE, now, &pair), counted: None, idle: 0 }
    }

    /// The time between two reports, for a receive meter of this interval: that of the rate allocation, or the meter's,
    /// which counts marks once in its own.
    pub fn interval(meter: Duration) -> Duration {
        SHARED_QUEUE.report_interval().max(meter)
    }

    /// Takes the counters at `now`: marks since the report before count, in the first report none. An interval without
    /// packets that could be marked changes nothing, so senders that are never marked keep the reservation.
    pub fn report(&mut self, now: Instant, counted: Received) -> Bandwidth {
        let Some(before) = self.counted.replace(counted) else { return self.limit() };
        let packets = counted.packets.saturating_sub(before.packets);
        let marked = counted.marked.saturating_sub(before.marked).min(packets);
        self.idle = if counted.bytes == before.bytes { self.idle.saturating_add(1) } else { 0 };
        if self.idle == IDLE {
            self.law = PairLaw::new(SHARED_QUEUE, now, &self.pair);
        } else if packets > 0 {
            // Rounded down, as in reports about pairs.
            self.law.report(now, (u128::from(marked) * 100 / u128::from(packets)) as u8);
        }
        self.limit()
    }

    /// The limit in force: at least the reservation.
    pub fn limit(&self) -> Bandwidth {
        match self.law.rates() {
            Rates::One(rate) => rate,
            Rates::Two { committed, excess } => committed + excess,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 20;

    fn mbps(rate: u64) -> Bandwidth {
        Bandwidth::from_mbps(rate)
    }

    fn at(step: u64) -> Instant {
        Instant::from_nanos(step * STEP * 1_000_000)
    }

    /// A limit with the steps of its reports.
    struct Run(SharedQueueLimit, u64);

    impl Run {
        fn new(reservation: u64) -> Self {
            let mut limit = SharedQueueLimit::new(at(0), mbps(reservation), mbps(1000));
            // Marks from before do not count.
            limit.report(at(0), Received { bytes: Bytes::new(9), packets: 9, marked: 9 });
            Self(limit, 0)
        }

        /// The limit after `steps` reports, of which each has 100 packets, `marked` of them marked.
        fn after(&mut self, steps: u64, marked: u64) -> Bandwidth {
            for _ in 0..steps {
                self.1 += 1;
                let Received { bytes, packets, marked: before } = self.0.counted.expect("a report");
                let counted =
                    Received { bytes: bytes + Bytes::new(1), packets: packets + 100, marked: before + marked };
                self.0.report(at(self.1), counted);
            }
            self.0.limit()
        }
    }

    #[test]
    fn worked_example() {
        let mut run = Run::new(100);
        assert_eq!(run.0.limit(), mbps(100));
        let megabits = |limit: Bandwidth| limit.bps() / 1_000_000;
        assert_eq!(megabits(run.after(25, 0)), 418);
        assert_eq!([1, 2, 1].map(|steps| megabits(run.after(steps, 100))), [293, 143, 100]);
    }

    #[test]
    fn marks_never_lower_the_limit_below_the_reservation() {
        let mut run = Run::new(100);
        run.after(30, 0);
        assert_eq!(run.after(50, 100), mbps(100));
        assert!(run.after(100, 0) > mbps(100));
    }

    #[test]
    fn traffic_that_cannot_be_marked_keeps_the_reservation() {
        let mut limit = SharedQueueLimit::new(at(0), mbps(100), mbps(1000));
        for step in 1..200 {
            let counted = Received { bytes: Bytes::new(step * 1000), ..Received::default() };
            assert_eq!(limit.report(at(step), counted), mbps(100));
        }
    }

    #[test]
    fn idle_tenant_begins_with_its_reservation() {
        let mut run = Run::new(100);
        let high = run.after(60, 0);
        let counted = run.0.counted.expect("a report");
        let idle: Vec<Bandwidth> = (1..=u64::from(IDLE)).map(|step| run.0.report(at(60 + step), counted)).collect();
        assert!(idle[..idle.len() - 1].iter().all(|limit| *limit == high), "{idle:?}");
        assert_eq!(idle.last(), Some(&mbps(100)));
    }

    #[test]
    fn capped_tenants_have_no_rate_allocation() {
        let of = |shared: &str| {
            let text = format!(
                "weir: 1\nnetwork: {{ nic: 1Gb/s, slots: 4, racks: {{ r: {{ uplink: 1Gb/s, machines: [m1, m2] }} }} \
                 }}\ntenants: {{ a: {{ vms: 2, bandwidth: 1Mb/s, match: [ {{ port: 1 }} ] }} }}\n{shared}"
            );
            shared_queue_system(&Policy::parse("p.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0)
        };
        assert_eq!(of("tenant-queues: { shared: cap }"), None);
        assert_eq!(of(""), Some(SHARED_QUEUE));
    }
}
