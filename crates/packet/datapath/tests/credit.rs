//! The credit port against a model with a list of grants, and the rules of the header one by one.

mod model;

use model::Model;
use proptest::prelude::*;
use weir_credits::{Allocation, Period, Published, Return, WHOLE};
use weir_datapath::{CreditFlow, CreditGate, CreditPort, CreditPortSettings};
use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};

const FRAME: Bytes = Bytes::new(1_514);
/// The whole port for a weight of 1, and more than that for heavier flows.
const ALL: u64 = (WHOLE << 16) / 1000 + 1;

fn micros(at: u64) -> Instant {
    Instant::from_nanos(at * 1000)
}

fn period(micros: u32) -> Period {
    Period::from_micros(micros)
}

fn published(per_weight: u64, own: u32, longest: u32) -> Published {
    Published { per_weight, rest: 0, period: period(own), longest: period(longest) }
}

/// A lossless port of 1 Gb/s with p = 200 µs and this a_w.
fn port(per_weight: u64) -> CreditPort {
    let settings = CreditPortSettings { rate: Bandwidth::from_gbps(1), most: period(5_100), lossless: true };
    let mut port = CreditPort::new(&settings);
    port.publish(&published(per_weight, 200, 200));
    port
}

/// A flow whose request has passed.
fn flow() -> CreditFlow {
    let mut flow = CreditFlow::default();
    port(ALL).on_request(&mut flow, 0);
    flow
}

fn allocation(clock: u32, bytes: u64) -> Allocation {
    let bytes = Bytes::new(bytes);
    Allocation {
        clock,
        period: period(200),
        longest: period(200),
        potential: bytes,
        demand: bytes,
        allocation: bytes,
        weight: Weight::ONE,
        queueing: Duration::ZERO,
    }
}

/// The values of an allocation as it left a port, with `more` µs of queueing in the ports between it and the sender.
fn returned(of: &Allocation, more: u64) -> Return {
    let &Allocation { clock, period, longest, potential, allocation, queueing, .. } = of;
    Return { clock, period, longest, potential, allocation, queueing: queueing + Duration::from_micros(more) }
}

/// Passes an allocation at a port without a queue.
fn allocate(port: &mut CreditPort, flow: &mut CreditFlow, mut of: Allocation, now: u64) -> Allocation {
    port.allocate(flow, &mut of, micros(now), Bytes::ZERO, true);
    of
}

/// Bytes that live grants of these flows have left.
fn left(port: &CreditPort, flows: &[CreditFlow]) -> u64 {
    let grants = flows.iter().flat_map(|flow| &flow.raw().grants);
    grants.filter(|grant| grant.over > port.raw().slot).map(|grant| u64::from(grant.left)).sum()
}

/// The worked example of the header.
#[test]
fn grants_shrink_by_data_and_by_cuts_of_later_ports() {
    let (mut port, mut flow) = (port(ALL / 2), flow());
    let granted = allocate(&mut port, &mut flow, allocation(1, 25_000), 0);
    assert_eq!((granted.allocation.get(), granted.demand.get(), port.outstanding().get()), (12_500, 12_500, 12_500));
    // 2 · C_0 at 1 Gb/s.
    assert_eq!(granted.queueing, Duration::from_micros(400));
    assert!(!port.on_data(&mut flow, Bytes::new(1_500), micros(50)));
    assert_eq!(port.outstanding().get(), 11_000);
    let cut = Return { allocation: Bytes::new(10_000), ..returned(&granted, 0) };
    port.on_return(&mut flow, &cut, micros(60));
    assert_eq!((port.outstanding().get(), port.counters().released), (8_500, 2_500));
    port.on_return(&mut flow, &cut, micros(70));
    assert_eq!(port.outstanding().get(), 8_500, "a duplicate of a return releases nothing");
}

#[test]
fn grants_and_queue_stay_within_the_budget() {
    let (mut port, mut flows) = (port(ALL), [(); 3].map(|()| flow()));
    let mut granted = Vec::new();
    for flow in &mut flows {
        let mut of = allocation(1, 25_000);
        port.allocate(flow, &mut of, micros(0), Bytes::new(10_000), true);
        granted.push(of.allocation.get());
    }
    // The drain of the queue takes 937 B of the first.
    assert_eq!((granted, port.outstanding().get()), (vec![24_063, 15_937, 0], 40_000));
    // Bytes above the budget wait longer than 2 · C_0 / R: 60,000 B are 480 µs.
    let mut of = allocation(2, 25_000);
    port.allocate(&mut flows[0], &mut of, micros(0), Bytes::new(20_000), true);
    assert_eq!((of.allocation.get(), of.queueing), (0, Duration::from_micros(480)));
}

/// 2 · C_0 is 50,000 B, so 6,250 B wait by chance. Of 10,250 B a quarter of the rest, 1,000 B, is taken from grants.
#[test]
fn a_long_queue_is_drained_by_a_quarter_in_a_period() {
    for (queued, granted) in [(0, 12_500), (6_253, 12_500), (10_250, 12_000), (30_250, 9_500)] {
        let (mut port, mut flow) = (port(ALL / 2), flow());
        let mut of = allocation(1, 25_000);
        port.allocate(&mut flow, &mut of, micros(0), Bytes::new(queued), true);
        // The demand is the share: other ports are to plan with it.
        assert_eq!((of.allocation.get(), of.demand.get()), (granted, 12_500), "{queued} B");
    }
}

/// The longest period of the port's flows counts, not the port's own.
#[test]
fn the_budget_has_the_longest_period() {
    let (mut port, mut flow) = (port(ALL), flow());
    port.publish(&published(ALL, 200, 400));
    let of = Allocation { period: period(400), ..allocation(1, 90_000) };
    assert_eq!(allocate(&mut port, &mut flow, of, 0).allocation.get(), 50_000);
    let second = Allocation { period: period(400), ..allocation(2, 90_000) };
    assert_eq!(allocate(&mut port, &mut flow, second, 0).allocation.get(), 50_000);
}

#[test]
fn a_longer_period_scales_demands_and_not_credits() {
    let (mut port, mut flow) = (port(ALL / 4), flow());
    port.publish(&Published { rest: 1 << 30, ..published(ALL / 4, 500, 500) });
    let of = allocate(&mut port, &mut flow, allocation(1, 25_000), 0);
    let bytes = [of.allocation, of.demand, of.potential].map(Bytes::get);
    assert_eq!((bytes, of.period.micros(), of.longest.micros()), ([6_250, 15_625, 31_250], 500, 500));
}

#[test]
fn repeated_and_old_allocations_get_nothing_new() {
    let (mut port, mut flow) = (port(ALL / 2), flow());
    assert_eq!(allocate(&mut port, &mut flow, allocation(7, 10_000), 0).allocation.get(), 10_000);
    assert_eq!(allocate(&mut port, &mut flow, allocation(7, 90_000), 1).allocation.get(), 10_000);
    assert_eq!(allocate(&mut port, &mut flow, allocation(6, 10_000), 1).allocation.get(), 0);
    assert_eq!(allocate(&mut port, &mut flow, allocation(0, 10_000), 1).allocation.get(), 0);
    assert_eq!((port.counters().duplicates, port.counters().stale, port.outstanding().get()), (1, 2, 10_000));
    // Once data has used the grant, or it has expired, a replay gets what is left: nothing.
    port.on_data(&mut flow, Bytes::new(9_000), micros(2));
    assert_eq!(allocate(&mut port, &mut flow, allocation(7, 10_000), 3).allocation.get(), 1_000);
    assert_eq!(allocate(&mut port, &mut flow, allocation(7, 10_000), 90_000).allocation.get(), 0);
}

#[test]
fn astray_allocations_go_on_without_credits() {
    let (mut port, mut flow) = (port(ALL), flow());
    let mut of = allocation(1, 10_000);
    port.allocate(&mut flow, &mut of, micros(0), Bytes::ZERO, false);
    assert_eq!(of, Allocation { allocation: Bytes::ZERO, ..allocation(1, 10_000) });
    assert_eq!((port.counters().astray, flow), (1, self::flow()));
}

/// But for the one before, whose data the return may have overtaken.
#[test]
fn returns_release_earlier_grants() {
    let (mut port, mut flow) = (port(ALL), flow());
    for clock in 1..=3 {
        let granted = allocate(&mut port, &mut flow, allocation(clock, 10_000), 0);
        port.on_return(&mut flow, &returned(&granted, 0), micros(0));
        port.on_data(&mut flow, Bytes::new(4_000), micros(0));
    }
    assert_eq!((port.outstanding().get(), port.counters().released), (12_000, 6_000));
    // 6,000 B of the newest grant are left, then as many of the one before.
    assert!(!port.on_data(&mut flow, Bytes::new(12_000), micros(1)));
    assert!(port.on_data(&mut flow, Bytes::new(1), micros(1)));
}

/// A port nearer to the sender writes 1,540 µs into an allocation that this port granted for 200 µs.
#[test]
fn returns_correct_the_lifetime_of_a_grant() {
    for (longer, late) in [(1_540, false), (200, true)] {
        let (mut port, mut flow) = (port(ALL), flow());
        let first = allocate(&mut port, &mut flow, allocation(1, 10_000), 0);
        port.on_return(&mut flow, &returned(&first, 0), micros(100));
        port.on_data(&mut flow, Bytes::new(10_000), micros(100));
        let second = allocate(&mut port, &mut flow, allocation(2, 10_000), 200);
        let returned = Return { period: period(longer), ..returned(&second, 0) };
        port.on_return(&mut flow, &returned, micros(300));
        assert_eq!(port.on_data(&mut flow, Bytes::new(1_500), micros(1_800)), late, "p = {longer} us");
    }
}

/// Before the first return data is assumed to wait for twelve periods: 2,800 µs and a slot in all.
#[test]
fn the_first_return_ends_the_assumed_wait() {
    let last = |ahead: Option<u64>| {
        let (mut port, mut flow) = (port(ALL), flow());
        let first = allocate(&mut port, &mut flow, allocation(1, 10_000), 0);
        if let Some(ahead) = ahead {
            port.on_return(&mut flow, &returned(&first, ahead), micros(100));
        }
        (1..5_000).find(|at| port.on_data(&mut flow, Bytes::new(1), micros(*at))).expect("it expires")
    };
    // Slots have 2^17 ns.
    assert_eq!([None, Some(0), Some(800)].map(last), [2_884, 525, 1_311]);
}

#[test]
fn a_restarted_port_is_closed_for_a_lifetime() {
    let mut port = port(ALL);
    let (mut flow, until) = (flow(), micros(1_000) + port.longest_lifetime());
    port.close_until(until);
    let last = until.nanos() / 1000 - 1;
    assert_eq!(allocate(&mut port, &mut flow, allocation(1, 9_000), last).allocation.get(), 0);
    assert!(!port.on_data(&mut flow, Bytes::new(1_500), micros(last)));
    assert!(!port.on_unknown_data(Bytes::new(1_500), micros(last)));
    assert_eq!((port.counters().unaccounted, port.counters().late), (3_000, 0));
    assert!(port.on_unknown_data(Bytes::new(1_500), micros(last + 2)));
    assert_eq!(allocate(&mut port, &mut flow, allocation(2, 9_000), last + 2).allocation.get(), 9_000);
}

#[test]
fn a_flow_that_is_over_leaves_no_grants() {
    let (mut port, mut flow) = (port(ALL), flow());
    for clock in 1..=5 {
        allocate(&mut port, &mut flow, allocation(clock, 9_000), u64::from(clock) * 10);
    }
    let granted = Allocation { allocation: Bytes::new(9_000), ..allocation(5, 9_000) };
    port.on_return(&mut flow, &returned(&granted, 0), micros(55));
    port.terminate(&mut flow, micros(60));
    assert_eq!((port.outstanding(), port.counters().released), (Bytes::ZERO, 45_000));
    // One more was on its way. A request of before, which was late, changes nothing.
    for clock in [None, Some(0)] {
        clock.into_iter().for_each(|clock| port.on_request(&mut flow, clock));
        for clock in 4..=6 {
            assert!(!port.is_new(&flow, &allocation(clock, 9_000)));
            assert_eq!(allocate(&mut port, &mut flow, allocation(clock, 9_000), 70).allocation, Bytes::ZERO);
        }
    }
    assert_eq!((port.counters().ended, port.counters().allocations), (6, 11));
    port.on_request(&mut flow, 5);
    assert!(port.is_new(&flow, &allocation(6, 9_000)));
    assert_eq!(allocate(&mut port, &mut flow, allocation(6, 9_000), 80).allocation, Bytes::new(9_000));
}

/// Sender and receiver have lost their clocks, and the port has not.
#[test]
fn ends_without_clocks_get_credits_after_a_lifetime() {
    let (mut port, mut flow) = (port(ALL), flow());
    let lifetime = port.longest_lifetime().nanos() / 1000;
    let granted = allocate(&mut port, &mut flow, allocation(900, 9_000), 0);
    port.on_return(&mut flow, &returned(&granted, 0), micros(10));
    let mut first = None;
    for at in (100..2 * lifetime).step_by(100) {
        port.on_request(&mut flow, 0);
        let left = allocate(&mut port, &mut flow, allocation(1, 1_000), at);
        if left.allocation > Bytes::ZERO {
            first.get_or_insert(at);
        }
    }
    // The grant lives for two periods of 200 µs, rounded up to a slot of 131 µs: 524 µs.
    let first = first.expect("credits");
    assert!((524..=800).contains(&first), "{first} µs");
    assert!(port.counters().stale > 0, "{:?}", port.counters());
}

/// The port has seen no request of the flow: its data was granted on another path for up to a lifetime.
#[test]
fn a_flow_of_another_path_is_late_after_a_lifetime() {
    let until = port(ALL).longest_lifetime().nanos() / 1000;
    for first_is_data in [true, false] {
        let (mut port, mut flow) = (port(ALL), CreditFlow::default());
        if first_is_data {
            assert!(!port.on_data(&mut flow, Bytes::new(1_500), micros(0)));
        } else {
            assert_eq!(allocate(&mut port, &mut flow, allocation(7, 1_500), 0).allocation.get(), 1_500);
            // Data of before uses the first grant.
            assert!(!port.on_data(&mut flow, Bytes::new(3_000), micros(10)));
        }
        port.on_request(&mut flow, 9);
        assert!(!port.on_data(&mut flow, Bytes::new(1_500), micros(until)));
        assert!(port.on_data(&mut flow, Bytes::new(1_500), micros(until + 1)));
        assert_eq!((port.counters().rerouted, port.counters().late), (3_000, 1_500));
    }
}

/// The C code multiplies in 64 bits.
#[test]
fn the_largest_values_do_not_overflow() {
    let rate = Bandwidth::from_bps(1 << 44);
    let mut port = CreditPort::new(&CreditPortSettings { rate, most: period(1 << 20), lossless: true });
    let whole = Bytes::new(u32::MAX.into());
    let of = Allocation {
        period: period(1 << 20),
        potential: whole,
        demand: whole,
        allocation: whole,
        weight: Weight::MAX,
        ..allocation(u32::MAX, 0)
    };
    for (per_weight, rest) in [(1 << 48, u32::MAX), ((1 << 48) / 1_000_000_000 + 1, 0)] {
        port.publish(&Published { rest, ..published(per_weight, 1 << 20, 1 << 20) });
        let mut flow = flow();
        let of = allocate(&mut port, &mut flow, of, 0);
        assert_eq!([of.demand, of.potential, of.allocation], [whole; 3]);
        assert!(!port.on_data(&mut flow, whole, micros(1_000_000)));
        assert_eq!(port.outstanding(), Bytes::ZERO);
    }
    // Slow ports and long periods are exact, too: 1 Mb/s for 8 s.
    let rate = Bandwidth::from_mbps(1);
    let mut port = CreditPort::new(&CreditPortSettings { rate, most: period(8_000_000), lossless: true });
    port.publish(&published(1 << 48, 8_000_000, 8_000_000));
    let of = Allocation { period: period(8_000_000), ..of };
    assert_eq!(allocate(&mut port, &mut flow(), of, 0).demand.get(), 1_000_000);
}

/// A sender of whole frames at its first port: allocations arrive up to a quarter of a period early or late.
fn whole_frames(carries: bool, allocations: &[(u64, u64)]) -> u64 {
    let (mut port, mut flow) = (port(ALL), flow());
    if carries {
        port = port.with_whole_frames(FRAME);
    }
    let mut gate = CreditGate::new(Instant::ZERO, FRAME);
    for (index, &(bytes, jitter)) in allocations.iter().enumerate() {
        let now = micros(200 * (index as u64 + 1) + jitter);
        let end = allocations.get(index + 1).map_or(u64::MAX / 1000, |(_, jitter)| 200 * (index as u64 + 2) + jitter);
        let granted = allocate(&mut port, &mut flow, allocation(index as u32 + 1, bytes), now.nanos() / 1000);
        assert_eq!(granted.allocation.get(), bytes);
        assert!(gate.on_allocation(now, &granted, Bytes::new(1_000_000)));
        port.on_return(&mut flow, &gate.take_return().expect("of a new allocation"), now);
        // The frame that waits at the next allocation leaves then.
        let mut at = now;
        while let Some(departure) = gate.departure(at, FRAME).filter(|departure| *departure < micros(end)) {
            assert!(departure >= at, "{departure:?} at {at:?}");
            at = departure;
            port.on_data(&mut flow, FRAME, at);
        }
    }
    port.counters().late
}

/// The lifetime of grants alone is too short for them.
#[test]
fn carried_frames_use_a_live_grant() {
    let allocations: Vec<(u64, u64)> = (0..200).map(|i| (20_000 + i * 379 % 2_000, i * 37 % 50)).collect();
    assert_eq!(whole_frames(true, &allocations), 0);
    assert!(whole_frames(false, &allocations) > 0);
}

proptest! {
    /// No frame of a sender that keeps to its credits is late, whatever it is given.
    #[test]
    fn frames_within_credits_are_never_late(
        allocations in prop::collection::vec((0u64..25_000, 0u64..50), 1..100),
    ) {
        prop_assert_eq!(whole_frames(true, &allocations), 0);
    }
}

/// One event at a port.
#[derive(Debug, Clone)]
enum Event {
    /// A flow, its clock relative to the newest, bytes of d_p, d and a, its period, weight, and queue.
    Allocate(usize, i64, [u64; 3], u32, u32, u64, bool),
    /// A flow, its clock relative to the newest, the part of a that is cut, the period and the wait ahead.
    Return(usize, i64, u64, u32, u64),
    Data(usize, u64),
    Unknown(u64),
    Terminate(usize),
    /// A flow, and the clock of its sender relative to the newest.
    Request(usize, i64),
    /// The port loses the state of a flow.
    Forget(usize),
    Publish(Published),
    Rate(u64),
    Close(u64),
}

const FLOWS: usize = 4;

fn events() -> impl Strategy<Value = Event> {
    let clock = || prop_oneof![12 => Just(1i64), 2 => -20i64..=20, 1 => any::<i32>().prop_map(i64::from)];
    let bytes = || prop_oneof![8 => 0u64..60_000, 1 => 0u64..=u64::from(u32::MAX)];
    let micros = || prop_oneof![8 => 0u32..2_000, 1 => 0u32..20_000, 1 => any::<u32>()];
    let share = prop_oneof![0..=1u64 << 40, 0..=1u64 << 48];
    let rest = prop_oneof![Just(0u32), any::<u32>()];
    let direct = prop::bool::weighted(0.95);
    let weight = prop_oneof![Just(1_000u32), 1u32..10_000, 1u32..=1_000_000_000];
    prop_oneof![
        8 => (0..FLOWS, clock(), [bytes(), bytes(), bytes()], micros(), weight, 0u64..60_000, direct)
            .prop_map(|(flow, clock, bytes, period, weight, queued, direct)| {
                Event::Allocate(flow, clock, bytes, period, weight, queued, direct)
            }),
        6 => (0..FLOWS, prop_oneof![4 => Just(0i64), 1 => -20i64..=3], 0u64..4, micros(), 0u64..4_000)
            .prop_map(|(flow, clock, cut, period, ahead)| Event::Return(flow, clock, cut, period, ahead)),
        12 => (0..FLOWS, prop_oneof![4 => 1u64..10_000, 1 => bytes()])
            .prop_map(|(flow, bytes)| Event::Data(flow, bytes)),
        1 => bytes().prop_map(Event::Unknown),
        1 => (0..FLOWS).prop_map(Event::Terminate),
        1 => (0..FLOWS, clock()).prop_map(|(flow, clock)| Event::Request(flow, clock)),
        1 => (0..FLOWS).prop_map(Event::Forget),
        2 => (share, rest, micros(), micros()).prop_map(|(per_weight, rest, own, longest)| {
            Event::Publish(Published { per_weight, rest, period: period(own), longest: period(longest) })
        }),
        1 => (1u64..=1 << 44).prop_map(Event::Rate),
        1 => (0u64..5_000_000).prop_map(Event::Close),
    ]
}

/// The port and the model in step.
struct Pair {
    port: CreditPort,
    model: Model,
    /// The flows, in the end those that the port has lost; their numbers in the model; their newest clocks and last
    /// allocations.
    flows: Vec<CreditFlow>,
    numbers: [usize; FLOWS],
    clocks: [u32; FLOWS],
    last: [Option<Allocation>; FLOWS],
}

impl Pair {
    fn new(rate: u64, most: u32, whole_frames: bool, clock: u32) -> Self {
        let settings =
            CreditPortSettings { rate: Bandwidth::from_bps(rate), most: period(most), lossless: !whole_frames };
        let (mut port, first) = (CreditPort::new(&settings), published(ALL / 3, most / 4, most / 2));
        port.publish(&first);
        let mut model = Model::new(rate, 1 << port.rules().slot_bits, !whole_frames, first);
        if whole_frames {
            port = port.with_whole_frames(FRAME);
            (model.carry, model.exempt) = (u128::from(FRAME.get()) - 1, 128);
        }
        let flows = vec![CreditFlow::default(); FLOWS];
        Self { port, model, flows, numbers: [0, 1, 2, 3], clocks: [clock; FLOWS], last: [None; FLOWS] }
    }

    fn allocate(&mut self, event: &Event, now: u64) -> Result<(), TestCaseError> {
        let &Event::Allocate(flow, later, [potential, demand, bytes], micros, weight, queued, direct) = event else {
            return Ok(());
        };
        let clock = self.clocks[flow].wrapping_add(later as u32);
        let weight = Weight::from_thousandths(weight).expect("in range");
        let mut of = Allocation { period: period(micros), weight, ..allocation(clock, bytes) };
        (of.potential, of.demand) = (Bytes::new(potential), Bytes::new(demand));
        let (mut same, before) = (of, self.port.outstanding());
        self.port.allocate(&mut self.flows[flow], &mut of, Instant::from_nanos(now), Bytes::new(queued), direct);
        self.model.allocate(self.numbers[flow], &mut same, now.into(), queued.into(), direct);
        prop_assert_eq!(of, same);
        if self.port.outstanding() > before {
            prop_assert!(u128::from(self.port.outstanding().get() + queued) <= self.model.budget());
        }
        if direct && clock.wrapping_sub(self.clocks[flow]) < 1 << 31 {
            self.clocks[flow] = clock;
        }
        self.last[flow] = Some(of);
        Ok(())
    }

    fn on_return(&mut self, event: &Event, now: u64) {
        let &Event::Return(flow, later, cut, micros, ahead) = event else { return };
        let Some(last) = self.last[flow] else { return };
        let clock = self.clocks[flow].wrapping_add(later as u32);
        let allocation = Bytes::new(last.allocation.get() / 3 * (3 - cut.min(3)));
        let of = Return { clock, period: period(micros), allocation, ..returned(&last, ahead) };
        self.port.on_return(&mut self.flows[flow], &of, Instant::from_nanos(now));
        self.model.on_return(self.numbers[flow], &of, now.into());
    }

    fn step(&mut self, event: &Event, now: u64) -> Result<(), TestCaseError> {
        let at = Instant::from_nanos(now);
        match *event {
            Event::Allocate(..) => self.allocate(event, now)?,
            Event::Return(..) => self.on_return(event, now),
            Event::Data(flow, bytes) => {
                let dropped = self.port.on_data(&mut self.flows[flow], Bytes::new(bytes), at);
                prop_assert_eq!(dropped, self.model.on_data(Some(self.numbers[flow]), bytes.into(), now.into()));
            }
            Event::Unknown(bytes) => {
                let dropped = self.port.on_unknown_data(Bytes::new(bytes), at);
                prop_assert_eq!(dropped, self.model.on_data(None, bytes.into(), now.into()));
            }
            Event::Terminate(flow) => {
                self.port.terminate(&mut self.flows[flow], at);
                self.model.terminate(self.numbers[flow], now.into());
            }
            Event::Request(flow, later) => {
                let clock = self.clocks[flow].wrapping_add(later as u32);
                self.port.on_request(&mut self.flows[flow], clock);
                self.model.on_request(self.numbers[flow], clock);
            }
            Event::Forget(flow) => {
                self.flows.push(CreditFlow::default());
                let lost = self.flows.swap_remove(flow);
                self.flows.push(lost);
                self.numbers[flow] = self.flows.len() + FLOWS;
            }
            Event::Publish(published) => {
                self.port.publish(&published);
                self.model.published = published;
            }
            Event::Rate(rate) => {
                self.port.set_rate(Bandwidth::from_bps(rate));
                self.model.rate = rate.into();
            }
            Event::Close(until) => {
                self.port.close_until(Instant::from_nanos(until));
                self.model.closed_until = until.into();
            }
        }
        self.check()
    }

    /// A is the sum of what live grants have left, and of the wheel; all bytes granted are accounted for.
    fn check(&self) -> Result<(), TestCaseError> {
        let (a, counters) = (self.port.outstanding().get(), self.port.counters());
        prop_assert_eq!(u128::from(a), self.model.outstanding());
        prop_assert_eq!(a, left(&self.port, &self.flows));
        prop_assert_eq!(a, self.port.raw().expiring.iter().map(|bytes| u64::from(*bytes)).sum::<u64>());
        prop_assert_eq!(counters, &self.model.counters);
        prop_assert_eq!(counters.granted, a + counters.arrived + counters.expired + counters.released);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Any events, at times that mostly go on and sometimes back by up to a slot, from a clock near its end or not.
    #[test]
    fn ports_and_models_agree(
        rate in prop_oneof![1_000_000_000u64..=100_000_000_000, 1u64..=1 << 44],
        most in prop_oneof![Just(5_100u32), 20u32..20_000, 1u32..10_000_000],
        whole_frames in any::<bool>(),
        clock in prop_oneof![Just(0u32), Just(u32::MAX - 10), any::<u32>()],
        events in prop::collection::vec((events(), prop_oneof![8 => 0i64..300_000, 1 => -100_000i64..0,
            1 => 0i64..100_000_000]), 1..150),
    ) {
        let (mut pair, mut now) = (Pair::new(rate, most, whole_frames, clock), 0i64);
        for (event, gap) in events {
            now = (now + gap).max(0);
            pair.step(&event, now as u64)?;
        }
    }
}
