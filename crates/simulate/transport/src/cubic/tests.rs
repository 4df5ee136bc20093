//! CUBIC's window against its formula.

use super::*;

const RTT: SimTime = SimTime::from_millis(200);

fn window(segments: u64) -> Window {
    let mut window = Window::new(&Parameters::default(), 1000);
    window.reno.window = segments * 1000;
    window.reno.ssthresh = segments * 1000;
    window
}
fn ack(window: &mut Window, now: SimTime, rtt: SimTime, may_grow: bool) {
    ack_late(window, now, (rtt, rtt), may_grow);
}
/// An acknowledgement whose round trip was not the smoothed one.
fn ack_late(window: &mut Window, now: SimTime, (rtt, srtt): (SimTime, SimTime), may_grow: bool) {
    window.on_ack(&Progress {
        now,
        newly: 1000,
        delivered: 1000,
        acked: 1,
        sent: 1,
        rtt,
        srtt,
        echo: false,
        may_grow,
        repeated: false,
    });
}
/// Acknowledges every segment of each round trip, spread over it, until `end`; the windows at each
/// round trip's end.
fn run(window: &mut Window, from: SimTime, end: SimTime, rtt: SimTime) -> Vec<(SimTime, f64)> {
    let mut now = from;
    let mut windows = Vec::new();
    while now < end {
        let segments = window.window() / 1000;
        for segment in 0..segments {
            ack(window, now + SimTime::from_picos(rtt.picos() * segment / segments), rtt, true);
        }
        now += rtt;
        windows.push((now, window.window() as f64 / 1000.0));
    }
    windows
}

#[test]
fn cube_roots_are_right() {
    for x in [1e-9, 0.001, 0.4, 1.0, 2.0, 8.0, 75.0, 1e6, 1e12] {
        let root = cbrt(x);
        assert!((root * root * root / x - 1.0).abs() < 1e-14, "{x}: {root}");
    }
    assert_eq!(cbrt(27.0), 3.0);
    assert_eq!(cbrt(0.0), 0.0);
}

/// The worked example: W(t) = 0.4·(t − 4.217)³ + 100.
#[test]
fn the_window_follows_the_formula() {
    let mut window = window(100);
    window.on_loss(SimTime::ZERO, 100_000, 0);
    assert_eq!((window.window(), window.ssthresh()), (70_000, 70_000));
    let k = 4.217_163_326_508_746_f64;
    for (now, segments) in run(&mut window, SimTime::ZERO, SimTime::from_secs(8), RTT) {
        // An acknowledgement at t aims at W(t + RTT), so at the end of a round trip the window is
        // between W(t), W(t + RTT).
        let formula = |t: f64| 0.4 * (t - k).powi(3) + 100.0;
        let (low, high) = (formula(seconds(now)), formula(seconds(now + RTT)));
        assert!(segments > low - 1.0 && segments < high + 1.0, "{now}: {segments} not in {low} to {high}");
    }
    assert!((window.k - k).abs() < 1e-12);
}

/// §4.3: with short round trips it grows as Reno would, at 3·0.3/1.7 segments per round trip.
#[test]
fn short_round_trips_follow_reno() {
    let mut window = window(100);
    window.on_loss(SimTime::ZERO, 100_000, 0);
    let rtt = SimTime::from_micros(100);
    let windows = run(&mut window, SimTime::ZERO, SimTime::from_millis(4), rtt);
    let grown = windows[windows.len() - 1].1 - 70.0;
    let reno = windows.len() as f64 * 9.0 / 17.0;
    assert!((grown - reno).abs() < 0.05 * reno, "{grown} instead of {reno}");
}

/// §4.2: not more than half of the window in a round trip.
#[test]
fn growth_is_bounded() {
    let mut window = window(10);
    window.reno.ssthresh = 10_000;
    let rtt = SimTime::from_secs(10);
    let windows = run(&mut window, SimTime::ZERO, SimTime::from_secs(50), rtt);
    let mut before = 10.0;
    for (_, segments) in windows {
        // Each acknowledgement adds at most half a segment.
        assert!(segments <= 1.5 * before + 0.01, "{before} to {segments}");
        before = segments;
    }
}

/// §4.2: the next value is one smoothed round trip ahead, however long an acknowledgement was
/// delayed.
#[test]
fn one_late_acknowledgement_is_not_a_longer_round_trip() {
    let grown = |rtt| {
        let mut window = window(100);
        window.on_loss(SimTime::ZERO, 100_000, 0);
        for segment in 0..70 {
            ack_late(&mut window, SimTime::from_millis(segment), (rtt, RTT), true);
        }
        window.window()
    };
    assert_eq!(grown(SimTime::from_secs(2)), grown(RTT));
}

/// §4.7: a loss below the old maximum keeps (1 + 0.7) / 2 of the window.
#[test]
fn fast_convergence_gives_up_some() {
    let mut window = window(100);
    window.on_loss(SimTime::ZERO, 100_000, 0);
    assert_eq!(window.w_max, 100.0);
    window.on_loss(SimTime::ZERO, 70_000, 0);
    assert_eq!((window.w_max, window.window()), (59.5, 49_000));
}

#[test]
fn time_without_need_does_not_count() {
    let mut window = window(100);
    window.on_loss(SimTime::ZERO, 100_000, 0);
    run(&mut window, SimTime::ZERO, SimTime::from_secs(1), RTT);
    let (before, epoch, last) = (window.window(), window.epoch, window.last);
    ack(&mut window, SimTime::from_secs(11), RTT, false);
    assert_eq!(window.window(), before);
    assert_eq!(window.epoch, epoch + (SimTime::from_secs(11) - last));
}

#[test]
fn after_a_timeout_there_is_no_old_maximum() {
    let mut window = window(100);
    window.on_timeout(SimTime::ZERO, 100_000, true);
    assert_eq!((window.window(), window.ssthresh()), (1_000, 70_000));
    window.reno.window = 70_000;
    ack(&mut window, SimTime::from_secs(1), RTT, true);
    assert_eq!((window.k, window.w_max), (0.0, 70.0));
}

/// A pause shorter than a timeout moves the curve on by its length; a longer one starts from a
/// smaller window, and the old maximum remains the target.
#[test]
fn silence_does_not_count() {
    let mut window = window(100);
    window.on_loss(SimTime::ZERO, 100_000, 0);
    run(&mut window, SimTime::ZERO, SimTime::from_secs(1), RTT);
    let (before, epoch, last) = (window.window(), window.epoch, window.last);
    let now = last + SimTime::from_secs(3);
    window.on_resume(now, 0, 10_000);
    assert_eq!((window.window(), window.epoch, window.last), (before, epoch + SimTime::from_secs(3), now));
    window.on_resume(now, 1, 10_000);
    assert_eq!(window.window(), before / 2);
    assert!(window.reno.in_slow_start());
    window.reno.window = window.ssthresh();
    ack(&mut window, now, RTT, true);
    assert_eq!((window.epoch, window.w_max), (now, 100.0));
    assert!(window.window() < before);
}
