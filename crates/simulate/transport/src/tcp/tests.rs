//! Worked examples of loss recovery and timers, by NewReno with segments of 1000 bytes.

use super::*;
use crate::api::{AckContent, SackBlock};
use crate::newreno;

const MS: SimTime = SimTime::from_millis(1);

fn sender(bytes: u64) -> newreno::Sender {
    let connection = Connection {
        bytes,
        payload: 1000,
        headers: 66,
        start: SimTime::ZERO,
        deadline: None,
        line_rate: weir_units::Bandwidth::from_gbps(10),
        round_trip: None,
        sprayed: false,
    };
    Machine::new(&newreno::Parameters::default(), &connection)
}
/// Sends the allowed segments; returns their numbers.
fn send_all(sender: &mut newreno::Sender, now: SimTime) -> Vec<u64> {
    std::iter::from_fn(|| sender.poll(now)).map(|segment| segment.sequence / 1000).collect()
}
/// Acknowledges all before segment `next`, and the segments in `sack`; returns the segments allowed
/// then.
fn ack(sender: &mut newreno::Sender, now: SimTime, next: u64, sack: &[(u64, u64)]) -> Vec<u64> {
    let sack: Vec<_> = sack.iter().map(|range| SackBlock { from: range.0 * 1000, to: range.1 * 1000 }).collect();
    let content = AckContent { next: next * 1000, stamp: now.saturating_sub(MS), echo: false };
    sender.on_ack(now, &Ack { content, sack: &sack });
    send_all(sender, now)
}
const NOTHING: [u64; 0] = [];

#[test]
fn several_losses_of_a_window_are_repaired_in_a_round_trip() {
    let mut sender = sender(u64::MAX);
    assert_eq!(send_all(&mut sender, SimTime::ZERO), (0..10).collect::<Vec<_>>());
    // 0, 3 and 4 are lost.
    assert_eq!(ack(&mut sender, MS, 0, &[(1, 2)]), [10]);
    assert_eq!(ack(&mut sender, MS, 0, &[(1, 3)]), [11]);
    assert_eq!(ack(&mut sender, MS, 0, &[(5, 6), (1, 3)]), [0]);
    assert_eq!((Machine::window(&sender), sender.congestion.ssthresh()), (5_000, 5_000));
    assert_eq!(ack(&mut sender, MS, 0, &[(5, 7), (1, 3)]), NOTHING);
    assert_eq!(ack(&mut sender, MS, 0, &[(5, 8), (1, 3)]), NOTHING);
    assert_eq!(ack(&mut sender, MS, 0, &[(5, 9), (1, 3)]), [3]);
    assert_eq!(ack(&mut sender, MS, 0, &[(5, 10), (1, 3)]), [4]);
    assert_eq!(ack(&mut sender, MS + MS, 0, &[(5, 11), (1, 3)]), [12]);
    assert_eq!(ack(&mut sender, MS + MS, 0, &[(5, 12), (1, 3)]), [13]);
    assert_eq!(ack(&mut sender, MS + MS, 3, &[(5, 12)]), [14]);
    assert_eq!(ack(&mut sender, MS + MS, 4, &[(5, 12)]), [15]);
    // The end of recovery: 12 to 15 are in flight, the window is half of what it was.
    assert_eq!(ack(&mut sender, MS + MS, 12, &[]), [16]);
    assert!(sender.board.is_none());
    assert_eq!(Machine::window(&sender), 5_000);
}

#[test]
fn a_jump_above_a_gap_starts_recovery_at_once() {
    let mut sender = sender(u64::MAX);
    send_all(&mut sender, SimTime::ZERO);
    // One acknowledgement reports three segments above the gap (the others were lost): IsLost is
    // true.
    assert_eq!(ack(&mut sender, MS, 0, &[(1, 4)])[0], 0);
}

#[test]
fn missing_segments_follow_new_data_and_the_tail_is_rescued() {
    let mut sender = sender(6_000);
    assert_eq!(send_all(&mut sender, SimTime::ZERO), [0, 1, 2, 3, 4, 5]);
    // 1 and 2 arrive, 4 and 5 do not; no new data remains.
    assert_eq!(ack(&mut sender, MS, 0, &[(1, 2)]), NOTHING);
    assert_eq!(ack(&mut sender, MS, 0, &[(1, 3)]), NOTHING);
    assert_eq!(ack(&mut sender, MS, 0, &[(1, 4)]), [0]);
    // The window is 3: 4, 5 and 0 fill it. 0 arrives; the rescue sends the last segment, and the
    // acknowledgement of 5 the one before.
    assert_eq!(ack(&mut sender, MS + MS, 4, &[]), [5]);
    assert_eq!(ack(&mut sender, MS + MS + MS, 4, &[(5, 6)]), [4]);
    assert_eq!(ack(&mut sender, SimTime::from_millis(4), 6, &[]), NOTHING);
    assert!(Machine::is_done(&sender));
    assert_eq!(Machine::timer(&sender), SimTime::NEVER);
}

#[test]
fn a_timeout_goes_back_skips_received_data_and_ignores_old_duplicates() {
    let mut sender = sender(u64::MAX);
    send_all(&mut sender, SimTime::ZERO);
    assert_eq!(ack(&mut sender, MS, 0, &[(1, 2)]), [10]);
    let due = Machine::timer(&sender);
    assert_eq!(due, SimTime::from_secs(1));
    assert_eq!(sender.on_timer(due.saturating_sub(SimTime::from_picos(1)), false), Timeout::Nothing);
    assert_eq!(sender.on_timer(due, true), Timeout::Nothing);
    let due = Machine::timer(&sender);
    assert_eq!(due, SimTime::from_secs(2));
    assert_eq!(sender.on_timer(due, false), Timeout::Loss);
    assert_eq!(send_all(&mut sender, due), [0]);
    assert_eq!(Machine::timer(&sender), due + SimTime::from_secs(2));
    // Acknowledgements of data sent before the timeout: no second reduction, and nothing more is in
    // flight.
    for end in 3..6 {
        assert_eq!(ack(&mut sender, due, 0, &[(1, end)]), NOTHING);
    }
    // The repetition arrives: 5 is the next that is missing. Slow start takes one segment for the
    // acknowledgement.
    assert_eq!(ack(&mut sender, due + MS, 5, &[]), [5, 6]);
    assert_eq!(ack(&mut sender, due + MS, 11, &[]), [11, 12, 13]);
}

#[test]
fn a_finite_flow_ends() {
    let mut sender = sender(2_500);
    let segments: Vec<_> = std::iter::from_fn(|| sender.poll(SimTime::ZERO)).collect();
    let last = segments.last().copied();
    assert_eq!(last.map(|last| (last.sequence, last.length, last.again)), Some((2_000, 500, false)));
    let content = AckContent { next: 2_500, stamp: SimTime::ZERO, echo: false };
    sender.on_ack(MS, &Ack { content, sack: &[] });
    assert!(Machine::is_done(&sender));
    assert_eq!(Machine::timer(&sender), SimTime::NEVER);
}

#[test]
fn a_closed_flow_ends_with_the_sent_data() {
    let mut sender = sender(u64::MAX);
    send_all(&mut sender, SimTime::ZERO);
    Machine::close(&mut sender);
    assert!(!Machine::is_done(&sender));
    assert_eq!(ack(&mut sender, MS, 10, &[]), NOTHING);
    assert!(Machine::is_done(&sender));
}

#[test]
fn an_idle_window_does_not_grow() {
    let mut sender = sender(u64::MAX);
    for round in 0..20u64 {
        sender.poll(SimTime::ZERO);
        let content = AckContent { next: (round + 1) * 1000, stamp: SimTime::ZERO, echo: false };
        sender.on_ack(MS, &Ack { content, sack: &[] });
    }
    assert_eq!(Machine::window(&sender), 10_000);
}

#[test]
fn a_host_takes_a_millisecond_or_two_segments() {
    let mut far = sender(u64::MAX);
    send_all(&mut far, SimTime::ZERO);
    let content = AckContent { next: 1_000, stamp: SimTime::ZERO, echo: false };
    let first = Ack { content, sack: &[] };
    far.on_ack(SimTime::from_millis(100), &first);
    assert_eq!(far.host_limit(1_066), 2_132);
    let mut near = sender(u64::MAX);
    send_all(&mut near, SimTime::ZERO);
    near.on_ack(SimTime::from_micros(100), &first);
    // Window 11,000 B in 100 µs, twice that in slow start, for 976.5625 µs.
    assert_eq!(near.host_limit(1_066), 214_843);
}

/// Messages of a connection are one stream: the end of one and the beginning of the next share a
/// segment if they wait.
#[test]
fn later_data_follows_in_order() {
    let mut sender = sender(10_500);
    assert_eq!(send_all(&mut sender, SimTime::ZERO).len(), 10);
    // The window of ten is full: half a segment waits, and more data follows.
    sender.write(MS, 1_000);
    assert_eq!(ack(&mut sender, MS, 2, &[]), [10, 11]);
    assert_eq!((sender.highest(), Machine::is_done(&sender)), (11_500, false));
    sender.on_ack(MS + MS, &Ack { content: AckContent { next: 11_500, stamp: MS, echo: false }, sack: &[] });
    assert!(Machine::is_done(&sender));
    assert_eq!(Machine::timer(&sender), SimTime::NEVER);
    // A short segment at the end of the data, and the next one begins at its end.
    sender.write(MS + MS, 2_300);
    let segments: Vec<_> =
        std::iter::from_fn(|| sender.poll(MS + MS)).map(|segment| (segment.sequence, segment.length)).collect();
    assert_eq!(segments, [(11_500, 1_000), (12_500, 1_000), (13_500, 300)]);
    assert_ne!(Machine::timer(&sender), SimTime::NEVER);
}

/// RFC 5681 §4.1 as Linux has it: the window is kept for one retransmission timeout (200 ms here),
/// and halves with each that follows, down to the initial window of ten.
#[test]
fn an_idle_connection_shrinks_its_window() {
    // Some round trips of slow start.
    let grown = |parameters: &newreno::Parameters| {
        let connection = Connection {
            bytes: 150_000,
            payload: 1000,
            headers: 66,
            start: SimTime::ZERO,
            deadline: None,
            line_rate: weir_units::Bandwidth::from_gbps(10),
            round_trip: None,
            sprayed: false,
        };
        let mut sender: newreno::Sender = Machine::new(parameters, &connection);
        let (mut now, mut next) = (SimTime::ZERO, 0);
        while !Machine::is_done(&sender) {
            send_all(&mut sender, now);
            now += MS;
            // One acknowledgement for every two segments.
            let sent = sender.highest() / 1000;
            while next < sent {
                next += 2;
                let content = AckContent { next: next * 1000, stamp: now.saturating_sub(MS), echo: false };
                sender.on_ack(now, &Ack { content, sack: &[] });
            }
        }
        // The last segment left a round trip ago.
        (sender, now.saturating_sub(MS))
    };
    let after = |idle: u64, parameters: &newreno::Parameters| {
        let (mut sender, last) = grown(parameters);
        let before = Machine::window(&sender);
        sender.write(last + SimTime::from_millis(idle), 1);
        (before, Machine::window(&sender))
    };
    let linux = newreno::Parameters::default();
    assert_eq!(after(200, &linux), (62_000, 62_000));
    assert_eq!(after(201, &linux), (62_000, 31_000));
    assert_eq!(after(400, &linux), (62_000, 31_000));
    assert_eq!(after(401, &linux), (62_000, 15_500));
    assert_eq!(after(10_000, &linux), (62_000, 10_000));
    let keeps = newreno::Parameters { tcp: Parameters { idle_restart: false, ..Parameters::default() } };
    assert_eq!(after(10_000, &keeps), (62_000, 62_000));
}
