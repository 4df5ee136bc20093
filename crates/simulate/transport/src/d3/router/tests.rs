//! Worked examples of one port, and of two between which flows change.

use super::*;

const GIGABIT: Bandwidth = Bandwidth::from_gbps(1);
const WITHIN: SimTime = SimTime::from_millis(10);

/// A flow, from its sender's side.
#[derive(Default)]
struct Flow {
    notes: Vec<Note>,
    sprayed: bool,
    /// The last grant in Mb/s.
    granted: u64,
}

impl Flow {
    fn header(&self, desired: u64) -> RateHeader {
        RateHeader {
            desired: Bandwidth::from_mbps(desired),
            before: self.notes.clone(),
            within: WITHIN,
            sprayed: self.sprayed,
            ..RateHeader::EMPTY
        }
    }
    fn ask_at(&mut self, now: SimTime, router: &mut Router, desired: u64) -> u64 {
        let mut header = self.header(desired);
        router.on_request(now, &mut header);
        assert_eq!(header.noted.len(), 1);
        self.notes.retain(|note| note.port != router.port);
        self.notes.extend(&header.noted);
        self.granted = header.rate.bps() / 1_000_000;
        self.granted
    }
    fn ask(&mut self, router: &mut Router, desired: u64) -> u64 {
        self.ask_at(SimTime::ZERO, router, desired)
    }
    fn leave(self, router: &mut Router) {
        let mut header = RateHeader { last: true, ..self.header(0) };
        router.on_request(SimTime::ZERO, &mut header);
        assert_eq!((header.rate, header.noted), (Bandwidth::UNLIMITED, vec![]));
    }
}
fn flows(count: usize) -> Vec<Flow> {
    std::iter::repeat_with(Flow::default).take(count).collect()
}
/// All send a request once.
fn round(now: SimTime, flows: &mut [Flow], router: &mut Router) -> Vec<u64> {
    flows.iter_mut().map(|flow| flow.ask_at(now, router, 0)).collect()
}

#[test]
fn a_newcomer_waits_a_round_trip() {
    let mut router = Router::new(1, GIGABIT);
    let mut flows = flows(4);
    for _ in 0..5 {
        round(SimTime::ZERO, &mut flows, &mut router);
    }
    assert!(flows.iter().all(|flow| flow.granted == 250));
    let mut newcomer = Flow::default();
    assert_eq!(newcomer.ask(&mut router, 0), 0);
    assert_eq!(round(SimTime::ZERO, &mut flows, &mut router), [200; 4]);
    assert_eq!(newcomer.ask(&mut router, 0), 200);
    // One leaves: the others get its part.
    flows.remove(0).leave(&mut router);
    flows.push(newcomer);
    assert_eq!(round(SimTime::ZERO, &mut flows, &mut router), [250; 4]);
}

#[test]
fn deadlines_come_first_and_then_first_come_first_served() {
    let mut router = Router::new(1, GIGABIT);
    let (mut plain, mut urgent, mut late) = (Flow::default(), Flow::default(), Flow::default());
    assert_eq!(plain.ask(&mut router, 0), 1000);
    // No capacity remains yet.
    assert_eq!(urgent.ask(&mut router, 600), 0);
    assert_eq!(plain.ask(&mut router, 0), 200);
    // 600, and half of the 400 that no flow requests.
    assert_eq!(urgent.ask(&mut router, 600), 800);
    assert_eq!(late.ask(&mut router, 600), 0);
    assert_eq!(plain.ask(&mut router, 0), 0);
    // Requests 600 with 1000 remaining, and nothing to share beyond that.
    assert_eq!(urgent.ask(&mut router, 600), 600);
    assert_eq!(late.ask(&mut router, 600), 400);
}

#[test]
fn an_idle_port_drops_its_flows() {
    let mut router = Router::new(1, GIGABIT);
    // This flow's final request is lost.
    Flow::default().ask(&mut router, 0);
    let mut other = Flow::default();
    assert_eq!(other.ask_at(WITHIN, &mut router, 0), 0);
    // No flow has sent a request for longer than its interval.
    assert_eq!(other.ask_at(WITHIN + WITHIN + SimTime::from_picos(1), &mut router, 0), 1000);
}

#[test]
fn the_last_flow_takes_the_rest_with_it() {
    let mut router = Router::new(1, GIGABIT);
    let mut flow = Flow::default();
    flow.ask(&mut router, 0);
    let notes = flow.notes.clone();
    // The grant of this one is lost.
    flow.ask(&mut router, 300);
    flow.notes = notes;
    flow.leave(&mut router);
    assert_eq!(router.current.sums, Sums::default());
}

#[test]
fn lost_grants_starve_no_flow() {
    let mut router = Router::new(1, GIGABIT);
    let mut flow = Flow::default();
    flow.ask(&mut router, 0);
    // The grant, 1 Gb/s, is lost. The flow sends another request without a note.
    flow.notes.clear();
    let mut asks = |millis| flow.ask_at(SimTime::from_millis(millis), &mut router, 0);
    // The first period ends after 10 ms, the second, which has only live flows, 10 ms later.
    assert_eq!([5, 9, 11, 15, 20, 21].map(&mut asks), [0; 6]);
    assert_eq!([22, 30].map(&mut asks), [1000; 2]);
}

/// The module's example: a flow on another path is new there, and its remainder is dropped.
#[test]
fn a_flow_that_changes_its_path_is_new_there_and_dropped_here() {
    let (mut a, mut b) = (Router::new(1, GIGABIT), Router::new(2, GIGABIT));
    let mut flows = flows(4);
    for _ in 0..3 {
        round(SimTime::ZERO, &mut flows[..2], &mut a);
        round(SimTime::ZERO, &mut flows[2..], &mut b);
    }
    assert!(flows.iter().all(|flow| flow.granted == 500));
    // The second of a's flows moves to b, which subtracts nothing for it.
    let ms = SimTime::from_millis;
    assert_eq!(flows[1].ask_at(ms(1), &mut b, 0), 0);
    assert_eq!(round(ms(1), &mut flows[2..], &mut b), [333; 2]);
    assert_eq!(flows[1].ask_at(ms(2), &mut b, 0), 333);
    // a keeps its part for two periods at most.
    let rates: Vec<u64> = (1..=25).map(|millis| flows[0].ask_at(ms(millis), &mut a, 0)).collect();
    assert!(rates[..10].iter().all(|rate| *rate == 500), "{rates:?}");
    assert!(rates[22..].iter().all(|rate| *rate == 1000), "{rates:?}");
    // Back again within a period, b's note is still valid, a's is dropped.
    assert_eq!(flows[1].ask_at(ms(26), &mut a, 0), 0);
    assert_eq!(flows[0].ask_at(ms(26), &mut a, 0), 500);
    assert_eq!(flows[1].ask_at(ms(27), &mut a, 0), 500);
    assert_eq!(a.current.sums.flows + a.before.sums.flows, 2 * FLOW);
}

/// Sprayed, four flows use both ports: each counts as half a flow at either.
#[test]
fn sprayed_flows_count_in_parts() {
    let mut ports = [Router::new(1, GIGABIT), Router::new(2, GIGABIT)];
    let mut flows = flows(4);
    for (number, flow) in flows.iter_mut().enumerate() {
        flow.sprayed = true;
        for step in 0..6 {
            flow.ask(&mut ports[(number + step) % 2], 0);
        }
    }
    for step in 0..6 {
        for flow in &mut flows {
            flow.ask(&mut ports[step % 2], 0);
        }
    }
    assert_eq!(flows.iter().map(|flow| flow.granted).collect::<Vec<_>>(), [500; 4]);
    assert_eq!(ports[0].current.sums, Sums { flows: 2 * FLOW, demand: 0, allocated: 1_000_000_000 });
}

/// A flow whose round trips are longer than every flow's shortest timeout is kept for as long as it
/// needs.
#[test]
fn flows_with_long_round_trips_are_kept() {
    let mut router = Router::new(1, GIGABIT);
    let (mut near, mut far) = (Flow::default(), Flow::default());
    let ms = SimTime::from_millis;
    let far_asks = |flow: &mut Flow, now, router: &mut Router| {
        let mut header = RateHeader { within: ms(100), ..flow.header(0) };
        router.on_request(now, &mut header);
        flow.notes = header.noted;
        header.rate.bps() / 1_000_000
    };
    far_asks(&mut far, SimTime::ZERO, &mut router);
    for millis in 1..500 {
        near.ask_at(ms(millis), &mut router, 0);
        if millis % 90 == 0 {
            assert_eq!(far_asks(&mut far, ms(millis), &mut router), 500);
        }
        assert!(millis < 100 || near.granted == 500, "{} at {millis} ms", near.granted);
    }
}

#[test]
fn the_capacity_follows_the_link() {
    let mut router = Router::new(1, GIGABIT);
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

/// The module's example: grants are multiples of 1 B/us, so that a gigabit has at most 125 flows.
#[test]
fn grants_in_units_limit_the_number_of_flows() {
    let parameters = Parameters { granularity: Bandwidth::from_mbps(8), ..Parameters::default() };
    let mut router = Router::with_parameters(1, GIGABIT, &parameters);
    let mut flows = flows(64);
    let settled = |flows: &mut [Flow], router: &mut Router| {
        for _ in 0..3 {
            round(SimTime::ZERO, flows, router);
        }
        round(SimTime::ZERO, flows, router)
    };
    assert_eq!(settled(&mut flows, &mut router), [8; 64]);
    assert_eq!(router.current.sums.allocated, 64 * 8_000_000);
    flows.extend(self::flows(61));
    assert_eq!(settled(&mut flows, &mut router), [8; 125]);
    assert_eq!(router.current.sums.allocated, 1_000_000_000);
    flows.extend(self::flows(1));
    assert_eq!(settled(&mut flows, &mut router), [0; 126]);
    // A request that is granted in full is rounded down, too.
    let mut urgent = Flow::default();
    assert_eq!(urgent.ask(&mut router, 500), 496);
}

/// Two ports carry a sprayed flow: its grant is a multiple of the unit, and each port counts half of it.
#[test]
fn grants_of_sprayed_flows_are_rounded_as_a_whole() {
    let parameters = Parameters { granularity: Bandwidth::from_mbps(300), ..Parameters::default() };
    let mut ports = [1, 2].map(|port| Router::with_parameters(port, GIGABIT, &parameters));
    let mut flow = Flow { sprayed: true, ..Flow::default() };
    for step in 0..6 {
        flow.ask(&mut ports[step % 2], 0);
    }
    // Each port divides its 1000 by half a flow: 2000, of which 1800 are whole units.
    assert_eq!((flow.granted, ports[0].current.sums.allocated), (1800, 900_000_000));
}

/// Figure 7 of PACE: four of a port's five flows are limited to 100 Mb/s elsewhere. The divided capacity grows until
/// the fifth uses what they leave: three times the link's rate. When six more arrive, the grants exceed the link.
#[test]
fn the_divided_capacity_may_exceed_the_link() {
    let parameters = Parameters { capacity_max: 4.0, ..Parameters::default() };
    let mut router = Router::with_parameters(1, GIGABIT, &parameters);
    let mut flows = flows(5);
    let interval = parameters.interval.picos();
    let mut sent = 0.0;
    let mut used = 0;
    for step in 1..=400 {
        let rates = round(SimTime::ZERO, &mut flows, &mut router);
        used = rates[..4].iter().map(|rate| 100.min(*rate)).sum::<u64>() + rates[4];
        sent += used as f64 * 1e6 / 8.0 * interval as f64 / 1e12;
        router.observe(SimTime::from_picos(interval * step), sent as u64, 0);
    }
    assert!((995..=1000).contains(&used), "{used}");
    assert!(router.target.abs_diff(3_000_000_000) < 30_000_000, "{}", router.target);
    flows.extend(self::flows(6));
    for _ in 0..3 {
        round(SimTime::ZERO, &mut flows, &mut router);
    }
    let granted: u64 = flows[4..].iter().map(|flow| flow.granted).sum();
    assert!(granted > 1800, "{granted}");
    // An idle link: the capacity stops at the setting.
    for step in 401..=600 {
        router.observe(SimTime::from_picos(interval * step), sent as u64, 0);
    }
    assert_eq!(router.target, 4_000_000_000);
}
