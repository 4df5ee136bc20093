//! The gate of whole frames against the sender's state machine, which computes in other units and forms.

use proptest::prelude::*;
use weir_credits::{Allocation, Period, Sender, SenderSettings};
use weir_datapath::CreditGate;
use weir_units::{Bytes, Duration, Instant, Weight};

const FRAME: u64 = 1_514;

fn allocation(clock: u32, bytes: u64, period: u32) -> Allocation {
    let (period, bytes) = (Period::from_micros(period), Bytes::new(bytes));
    Allocation {
        clock,
        period,
        longest: period,
        potential: bytes,
        demand: bytes,
        allocation: bytes,
        weight: Weight::ONE,
        queueing: Duration::from_micros(400),
    }
}

fn gate() -> CreditGate {
    CreditGate::new(Instant::ZERO, Bytes::new(FRAME))
}

/// The departures in ns of frames that are offered at once, up to the first that waits.
fn departures(gate: &mut CreditGate, now: u64) -> Vec<u64> {
    let next = || gate.departure(Instant::from_nanos(now), Bytes::new(FRAME)).map(Instant::nanos);
    std::iter::from_fn(next).collect()
}

/// The worked example of the header.
#[test]
fn remainders_below_a_frame_are_carried_over() {
    let mut gate = gate();
    assert!(departures(&mut gate, 0).is_empty());
    gate.on_allocation(Instant::ZERO, &allocation(1, 5_000, 200), Bytes::ZERO);
    assert_eq!(departures(&mut gate, 0), [0, 60_560, 121_120]);
    gate.on_allocation(Instant::from_nanos(200_000), &allocation(2, 5_000, 200), Bytes::ZERO);
    assert_eq!(gate.credit(Instant::from_nanos(200_000)), Bytes::new(5_458));
    assert_eq!(departures(&mut gate, 200_000), [200_000, 255_478, 310_956]);
}

#[test]
fn all_other_credits_end_with_the_next_allocation() {
    let mut gate = gate();
    gate.on_allocation(Instant::ZERO, &allocation(1, 25_000, 200), Bytes::ZERO);
    let at = Instant::from_nanos(200_000);
    assert!(gate.on_allocation(at, &allocation(2, 3_000, 200), Bytes::ZERO));
    assert_eq!(gate.credit(at), Bytes::new(3_000 + FRAME - 1));
    assert!(!gate.on_allocation(Instant::from_nanos(210_000), &allocation(2, 9_000, 200), Bytes::ZERO));
    assert!(!gate.on_allocation(Instant::from_nanos(220_000), &allocation(0, 9_000, 200), Bytes::ZERO));
    assert_eq!(gate.credit(at), Bytes::new(3_000 + FRAME - 1));
}

#[test]
fn credits_end_with_their_period() {
    let mut gate = gate();
    gate.on_allocation(Instant::ZERO, &allocation(1, 25_000, 200), Bytes::ZERO);
    let mut at = |nanos| gate.departure(Instant::from_nanos(nanos), Bytes::new(FRAME)).map(Instant::nanos);
    assert_eq!([at(150_000), at(200_000), at(200_001)], [Some(150_000), Some(200_000), None]);
}

/// Three frames are to leave within 121.12 µs when another allocation arrives, and a clock is behind.
#[test]
fn departures_keep_the_order_of_calls() {
    let mut gate = gate();
    gate.on_allocation(Instant::ZERO, &allocation(1, 5_000, 200), Bytes::ZERO);
    assert_eq!(departures(&mut gate, 0), [0, 60_560, 121_120]);
    gate.on_allocation(Instant::from_nanos(50_000), &allocation(2, 5_000, 200), Bytes::ZERO);
    assert_eq!(departures(&mut gate, 20_000), [121_120, 121_120, 160_956]);
}

#[test]
fn acknowledgements_need_no_credits() {
    let mut gate = gate();
    let mut of = |bytes| gate.departure(Instant::from_nanos(7), Bytes::new(bytes)).map(Instant::nanos);
    assert_eq!([of(66), of(128), of(129)], [Some(7), Some(7), None]);
}

/// One event at a sender.
#[derive(Debug, Clone)]
enum Event {
    /// After so many µs an allocation: its clock relative to the newest, bytes, period, backlog.
    Allocate(u64, u32, u64, u32, u64),
    Write(u64),
    /// After so many ns a frame.
    Depart(u64, u64),
    Return,
}

fn events() -> impl Strategy<Value = Event> {
    let later = prop_oneof![6 => Just(1u32), 1 => 0u32..20, 1 => any::<u32>()];
    let bytes = prop_oneof![8 => 0u64..40_000, 1 => 0u64..1 << 30];
    let period = prop_oneof![8 => 20u32..2_000, 1 => 1u32..1_000_000];
    prop_oneof![
        2 => (1u64..1_000, later, bytes, period, 0u64..100_000).prop_map(|(after, later, bytes, period, backlog)| {
            Event::Allocate(after, later, bytes, period, backlog)
        }),
        2 => (1u64..100_000).prop_map(Event::Write),
        8 => (prop_oneof![3 => Just(0u64), 1 => 0u64..200_000], 60u64..=FRAME).prop_map(|(gap, bytes)| {
            Event::Depart(gap, bytes)
        }),
        1 => Just(Event::Return),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// The same credits, returns and departures, which are at most 1 µs early.
    #[test]
    fn gates_are_senders_of_whole_frames(events in prop::collection::vec(events(), 1..200)) {
        let settings = SenderSettings {
            weight: Weight::ONE,
            frame: Bytes::new(FRAME),
            whole_frames: true,
            timeout: [Duration::from_millis(10), Duration::from_secs(1)],
        };
        let (mut gate, mut sender) = (gate(), Sender::new(Instant::ZERO, settings));
        let (mut now, mut clock, mut began, mut last) = (0u64, 0u32, 0u64, 0u64);
        for event in events {
            match event {
                Event::Allocate(after, later, bytes, period, backlog) => {
                    // What is expected is rounded to whole µs between allocations.
                    now = began + ((now - began) / 1000 + after) * 1000;
                    let of = allocation(clock.wrapping_add(later).max(1), bytes, period);
                    let at = Instant::from_nanos(now);
                    let counts = sender.on_allocation(at, &of, Bytes::new(backlog));
                    prop_assert_eq!(gate.on_allocation(at, &of, Bytes::new(backlog)), counts);
                    if counts {
                        (clock, began) = (of.clock, now);
                    }
                }
                Event::Write(bytes) => {
                    sender.on_write(Instant::from_nanos(now), Bytes::new(bytes));
                    gate.offer(Bytes::new(bytes));
                }
                Event::Depart(gap, bytes) => {
                    now += gap;
                    let departure = gate.departure(Instant::from_nanos(now), Bytes::new(bytes));
                    // Frames of the allocation before may still have to leave.
                    let exact = sender.departure().nanos().max(now).max(last);
                    let covered = Bytes::new(bytes) <= sender.credit(Instant::from_nanos(last.max(now)));
                    if bytes <= 128 {
                        prop_assert_eq!(departure, Some(Instant::from_nanos(now)));
                    } else if covered {
                        let departure = departure.expect("credits").nanos();
                        prop_assert!((now..=exact).contains(&departure) && exact - departure <= 1_000);
                        prop_assert!(departure >= last);
                        last = departure;
                        prop_assert!(sender.spend(Bytes::new(bytes)));
                    } else {
                        prop_assert_eq!(departure, None);
                    }
                }
                Event::Return => prop_assert_eq!(gate.take_return(), sender.take_return()),
            }
            let at = Instant::from_nanos(now);
            prop_assert_eq!(gate.credit(at), sender.credit(at));
        }
    }
}
