//! What a switch port does with the requests that pass it.
//!
//! A port keeps three sums and no flow: how many flows there are, what they ask for and what they have been
//! granted. A request brings its flow's last request and grant back, so that the port can take both out of its sums
//! before it answers:
//!
//! - with more left than is asked for, the flow gets what it asks for and a fair share of what nobody asks for,
//!   (C − demand) / flows;
//! - else it gets what is left, first come first served. If that is nothing, the flow may only ask again in a round
//!   trip.
//!
//! A body that calls [`Router::observe`] before a request lets the capacity that is divided follow what the link
//! really carries, once per interval T: C' ← C' + α·(C − sent / T) − β·queue / T, kept between a tenth of C and C.
//! Without it C' is C.
//!
//! A request or answer that is lost leaves the sums too high, which could starve everybody for ever. So the port
//! also counts what it hears within a period: a flow that is alive asks at least once in its shortest
//! retransmission timeout, so that what all requests of a period asked for and got is at least what the living
//! have; the sums are cut to that. The rule is Weir's.
//!
//! Example, 1 Gb/s: four flows without deadlines have 250 Mb/s each; a fifth comes and finds nothing left
//! and gets 0. Then each of the four comes back with 250 and gets 1 Gb/s / 5 = 200; after the first of them there is
//! something left.
//!
//! Source: Wilson et al., "Better Never than Late: Meeting Deadlines in Datacenter Networks", SIGCOMM 2011,
//! Snippet 1; github.com/SymbioticLab/Aequitas (`ext/d3_queue.cpp`). The constants α and β are those of that
//! repository's PDQ and of RCP-like controllers; the paper's own were not available.

use super::{MAX_HOPS, Parameters, RateHeader};
use weir_units::{Bandwidth, SimTime};

/// What a port knows of its flows, all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    flows: u64,
    /// What the flows' last requests asked for, and what they were granted, in bit/s.
    demand: u64,
    allocated: u64,
}

/// The state of one port.
#[derive(Debug, Clone)]
pub struct Router {
    /// The link's rate in bit/s.
    capacity: u64,
    /// What of it is divided.
    target: u64,
    sums: Sums,
    alpha: f64,
    beta: f64,
    interval: SimTime,
    /// What the requests since `heard_since` say; the sums cannot be more at the end of `period`.
    heard: Sums,
    heard_since: SimTime,
    period: SimTime,
    /// When the capacity was last adapted, and how many bytes had been sent then.
    since: SimTime,
    sent: u64,
}

impl Router {
    /// A port of this capacity that knows no flow, with the default constants.
    pub fn new(capacity: Bandwidth) -> Self {
        Self::with_parameters(capacity, &Parameters::default())
    }

    /// A port of this capacity that knows no flow.
    pub fn with_parameters(capacity: Bandwidth, parameters: &Parameters) -> Self {
        Self {
            capacity: capacity.bps(),
            target: capacity.bps(),
            sums: Sums::default(),
            heard: Sums::default(),
            heard_since: SimTime::ZERO,
            period: parameters.min_rto,
            alpha: parameters.alpha,
            beta: parameters.beta,
            interval: parameters.interval,
            since: SimTime::ZERO,
            sent: 0,
        }
    }

    /// The link's rate has changed.
    pub fn set_capacity(&mut self, capacity: Bandwidth) {
        self.capacity = capacity.bps();
        self.target = self.capacity;
    }

    /// Adapts the capacity that is divided, if an interval has passed: `sent` is what the port has sent in all,
    /// `queue` what waits in it, both in bytes.
    pub fn observe(&mut self, now: SimTime, sent: u64, queue: u64) {
        let elapsed = now.saturating_sub(self.since);
        if elapsed < self.interval {
            return;
        }
        let seconds = elapsed.picos() as f64 / 1e12;
        let capacity = self.capacity as f64;
        let used = sent.saturating_sub(self.sent) as f64 * 8.0 / seconds;
        let waits = queue as f64 * 8.0 / seconds;
        let target = self.target as f64 + self.alpha * (capacity - used) - self.beta * waits;
        // Never more than there is; never so little that the port is closed by one burst.
        self.target = target.clamp(capacity / 10.0, capacity) as u64;
        (self.since, self.sent) = (now, sent);
    }

    /// A request passes: its header gets this port's grant. A port further than [`MAX_HOPS`] from the sender grants
    /// nothing and takes no note.
    pub fn on_request(&mut self, now: SimTime, header: &mut RateHeader) {
        let hop = usize::from(header.hops);
        if hop >= MAX_HOPS {
            return;
        }
        header.hops += 1;
        self.recount(now);
        let sums = &mut self.sums;
        if header.first {
            sums.flows += 1;
        }
        sums.allocated = sums.allocated.saturating_sub(header.previous[hop].bps());
        sums.demand = sums.demand.saturating_sub(header.previous_desired.bps());
        if header.last {
            sums.flows = sums.flows.saturating_sub(1);
            if sums.flows == 0 {
                // What lost requests have left behind goes with the last flow.
                *sums = Sums::default();
            }
            return;
        }
        let desired = header.desired.bps();
        sums.demand = sums.demand.saturating_add(desired);
        let left = self.target.saturating_sub(sums.allocated);
        let grant = if left > desired {
            let share = self.target.saturating_sub(sums.demand) / sums.flows.max(1);
            desired.saturating_add(share)
        } else {
            left
        };
        sums.allocated = sums.allocated.saturating_add(grant);
        header.granted[hop] = Bandwidth::from_bps(grant);
        self.heard.flows += 1;
        self.heard.demand = self.heard.demand.saturating_add(desired);
        self.heard.allocated = self.heard.allocated.saturating_add(grant);
    }

    /// Cuts the sums to what was heard, if a period has passed.
    fn recount(&mut self, now: SimTime) {
        if now.saturating_sub(self.heard_since) < self.period {
            return;
        }
        let heard = std::mem::take(&mut self.heard);
        self.sums.flows = self.sums.flows.min(heard.flows);
        self.sums.demand = self.sums.demand.min(heard.demand);
        self.sums.allocated = self.sums.allocated.min(heard.allocated);
        self.heard_since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: Bandwidth = Bandwidth::from_gbps(1);

    /// A flow of one hop, as its sender sees it.
    #[derive(Default)]
    struct Flow {
        desired: u64,
        granted: u64,
        known: bool,
    }
    impl Flow {
        fn ask(&mut self, router: &mut Router, desired: u64) -> u64 {
            let mut header = RateHeader {
                desired: Bandwidth::from_mbps(desired),
                previous_desired: Bandwidth::from_mbps(self.desired),
                first: !self.known,
                ..RateHeader::EMPTY
            };
            header.previous[0] = Bandwidth::from_mbps(self.granted);
            router.on_request(SimTime::ZERO, &mut header);
            assert_eq!(header.hops, 1);
            (self.known, self.desired) = (true, desired);
            self.granted = header.granted[0].bps() / 1_000_000;
            self.granted
        }
        fn leave(self, router: &mut Router) {
            let mut header = RateHeader { last: true, ..RateHeader::EMPTY };
            header.previous_desired = Bandwidth::from_mbps(self.desired);
            header.previous[0] = Bandwidth::from_mbps(self.granted);
            router.on_request(SimTime::ZERO, &mut header);
            assert_eq!(header.granted[0], Bandwidth::ZERO);
        }
    }

    #[test]
    fn a_newcomer_waits_a_round_trip() {
        let mut router = Router::new(GIGABIT);
        let mut flows: Vec<_> = (0..4).map(|_| Flow::default()).collect();
        for _ in 0..5 {
            for flow in &mut flows {
                flow.ask(&mut router, 0);
            }
        }
        assert!(flows.iter().all(|flow| flow.granted == 250));
        let mut newcomer = Flow::default();
        assert_eq!(newcomer.ask(&mut router, 0), 0);
        for flow in &mut flows {
            assert_eq!(flow.ask(&mut router, 0), 200);
        }
        assert_eq!(newcomer.ask(&mut router, 0), 200);
        // One leaves: the others get its part.
        flows.remove(0).leave(&mut router);
        for flow in flows.iter_mut().chain([&mut newcomer]) {
            assert_eq!(flow.ask(&mut router, 0), 250);
        }
    }

    #[test]
    fn deadlines_come_first_and_then_first_come_first_served() {
        let mut router = Router::new(GIGABIT);
        let (mut plain, mut urgent, mut late) = (Flow::default(), Flow::default(), Flow::default());
        assert_eq!(plain.ask(&mut router, 0), 1000);
        // Nothing is left yet.
        assert_eq!(urgent.ask(&mut router, 600), 0);
        assert_eq!(plain.ask(&mut router, 0), 200);
        // 600, and half of the 400 that nobody asks for.
        assert_eq!(urgent.ask(&mut router, 600), 800);
        assert_eq!(late.ask(&mut router, 600), 0);
        assert_eq!(plain.ask(&mut router, 0), 0);
        // Asks for 600 with 1000 left, and nothing to share beyond that.
        assert_eq!(urgent.ask(&mut router, 600), 600);
        assert_eq!(late.ask(&mut router, 600), 400);
    }

    #[test]
    fn an_idle_port_forgets() {
        let mut router = Router::new(GIGABIT);
        let mut flow = Flow::default();
        flow.ask(&mut router, 0);
        // The answer to this request is lost: the flow gives back less than the port has given.
        flow.granted = 0;
        flow.leave(&mut router);
        assert_eq!(router.sums, Sums::default());
    }

    #[test]
    fn lost_answers_starve_nobody() {
        let mut router = Router::new(GIGABIT);
        let request = RateHeader { first: true, ..RateHeader::EMPTY };
        router.on_request(SimTime::ZERO, &mut request.clone());
        // The answer, 1 Gb/s, is lost. The flow asks again and gives back nothing.
        let mut asks = |millis| {
            let mut header = RateHeader::EMPTY;
            router.on_request(SimTime::from_millis(millis), &mut header);
            header.granted[0].bps() / 1_000_000
        };
        assert_eq!([asks(5), asks(9), asks(10), asks(15), asks(20)], [0, 0, 0, 0, 1000]);
    }

    #[test]
    fn the_capacity_follows_the_link() {
        let mut router = Router::new(GIGABIT);
        let interval = Parameters::default().interval;
        // A full link with a queue of a tenth of an interval: β · 100 Mb/s less.
        let full = 1_000_000_000 / 8 * interval.picos() / 1_000_000_000_000;
        router.observe(interval, full, full / 10);
        assert!(router.target.abs_diff(900_000_000) < 100_000, "{}", router.target);
        // Too early for another step.
        router.observe(interval + SimTime::from_picos(1), full, full);
        assert!(router.target.abs_diff(900_000_000) < 100_000);
        // Half of it used, no queue: α · 500 Mb/s more, and never more than there is.
        router.observe(interval + interval, full + full / 2, 0);
        assert!(router.target.abs_diff(950_000_000) < 100_000);
        for step in 3..20 {
            router.observe(SimTime::from_picos(interval.picos() * step), full, 0);
        }
        assert_eq!(router.target, 1_000_000_000);
    }
}
