//! Where the backends `htb` and `edt` differ, and by how much: the same packets and changes through both.
//!
//! `htb` runs in the kernel. `edt` is computed by the native host, and packets leave at their departures: exact values,
//! also on kernels without fq. Where fq exists (`make test-edt TESTS=backends`), one test compares them with packets
//! that fq releases. Each test asserts the difference by the rules of both. Bounds of `htb` hold also where processors
//! are late: a class sends no more than its burst and its rate. The tests print the table of docs/reference/agent.md:
//! `cargo test -p weir-linux --test backends -- --nocapture --test-threads 1`.

mod common;

#[path = "backends/kernel.rs"]
mod kernel;
#[path = "backends/native.rs"]
mod native;
#[path = "backends/scenario.rs"]
mod scenario;

use common::skipped;
use scenario::{BURST, Change, FRAME, HORIZON, Offer, QUEUE, Run, Scenario, bytes_in, time_of};
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_linux::shaper::{Backend, choose, probe};
use weir_shaping::ShaperConfig;
use weir_units::Bandwidth;

/// When the limit of a scenario changes.
const CHANGE: Duration = Duration::from_millis(500);
/// When its packets end.
const END: Duration = Duration::from_secs(1);
/// The part of a rate that arrives at least where processors are shared: `SHARED_LEAST` in
/// crates/front/cli/tests/common derives it.
const SHARED_LEAST: f64 = 0.6;

/// Measurements share the processors: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The runs of a scenario by both backends.
struct Both {
    htb: Run,
    edt: Run,
}

impl Both {
    fn run(name: &str, scenario: &Scenario) -> Self {
        let both = Self { htb: kernel::run(name, scenario, Backend::Htb), edt: native::run(scenario) };
        println!("{name}: {} and {} packets left", both.htb.arrivals.len(), both.edt.arrivals.len());
        both
    }

    /// Prints a line of the table.
    fn row<T: Display>(&self, property: &str, value: impl Fn(&Run) -> T) {
        println!("| {property} | {} | {} |", value(&self.htb), value(&self.edt));
    }
}

fn ms(time: Option<Duration>) -> String {
    time.map_or("not in time".into(), |time| format!("{:.0} ms", time.as_secs_f64() * 1e3))
}

fn kilobytes(bytes: i64) -> String {
    format!("{:.1} kB", bytes as f64 / 1e3)
}

fn mbps(rate: u64) -> Bandwidth {
    Bandwidth::from_mbps(rate)
}

/// The bytes that wait where a service is offered more than its limit.
fn waiting(limit: Bandwidth) -> u64 {
    QUEUE.max(bytes_in(HORIZON, limit))
}

/// The bytes that leave at once after a pause.
fn burst(limit: Bandwidth) -> u64 {
    BURST.max(bytes_in(Duration::from_millis(1), limit))
}

/// The time from a stamp to the departure, where a service is offered more than its limit (edt).
fn lead(limit: Bandwidth) -> Duration {
    time_of(waiting(limit), limit)
}

/// A service that is offered more than its limit, which changes.
fn change_of_limit(at: Duration, old: Bandwidth, new: Bandwidth) -> Scenario {
    Scenario::of_one().change(Duration::ZERO, Change::Limit(0, old)).change(at, Change::Limit(0, new)).offer(
        0,
        Bandwidth::from_bps(old.max(new).bps() * 5 / 4),
        1,
        END,
    )
}

/// The bytes above `limit` that left in a time after the last change.
fn above(run: &Run, time: Duration, limit: Bandwidth) -> i64 {
    run.bytes(run.change(), time) as i64 - bytes_in(time, limit) as i64
}

/// A class under a new limit carries the bytes of the limit, and its burst, and not much less.
#[track_caller]
fn assert_applied_at_once(htb: &Run, limit: Bandwidth, time: Duration) {
    let most = (BURST + FRAME) as i64;
    assert!(above(htb, time, limit) <= most, "{} B in {time:?} above {limit}", above(htb, time, limit));
    let rest = htb.end() - htb.change();
    let (bytes, limited) = (htb.bytes(htb.change(), rest), bytes_in(rest, limit));
    // A sender without a processor for longer than its queue lasts leaves a part unused.
    assert!(bytes >= limited / 4, "{bytes} B of {limited} B at {limit}");
}

fn lower(name: &str, old: Bandwidth, new: Bandwidth) {
    let both = Both::run(name, &change_of_limit(CHANGE, old, new));
    let time = lead(old);
    let what = format!("limit of {old}, then {new}");
    both.row(&format!("{what}: bytes above the new limit in {time:.1?}"), |run| kilobytes(above(run, time, new)));
    let is_there = |bytes, time| bytes as f64 <= bytes_in(time, new) as f64 / 0.9 + FRAME as f64;
    both.row(&format!("{what}: time until 90 %"), |run| ms(run.time_until(is_there)));
    let gap = |run: &Run| run.longest_gap(run.change(), CHANGE);
    both.row(&format!("{what}: longest time without a packet"), |run| ms(Some(gap(run))));
    both.row(&format!("{what}: longest wait"), |run| ms(Some(run.longest_wait(run.change()))));

    assert_eq!([both.htb.overtakers(), both.edt.overtakers()], [0, 0]);
    assert_applied_at_once(&both.htb, new, time);
    // Stamped packets keep their times, and the debt is repaid at the new rate before the next one leaves.
    let expected = bytes_in(time, old) as i64 - bytes_in(time, new) as i64;
    assert!(above(&both.edt, time, new).abs_diff(expected) <= 2 * FRAME, "{expected}");
    let pause = time_of(waiting(old) + burst(old) - burst(new), new) - time;
    assert!(gap(&both.edt).abs_diff(pause) <= time_of(2 * FRAME, new), "{:?}, not {pause:?}", gap(&both.edt));
    assert!(gap(&both.htb) < pause, "{:?} without a packet", gap(&both.htb));
    // The packet that is accepted last at the new limit waits longest.
    let wait = lead(old).max(lead(new));
    let waited = both.edt.longest_wait(both.edt.change());
    assert!(waited.abs_diff(wait) <= time_of(2 * FRAME, new), "{waited:?}, not {wait:?}");
}

#[test]
fn lower_limit_applies_at_once_or_after_stamped_packets() {
    if skipped() {
        return;
    }
    let _alone = alone();
    lower("k1", mbps(20), mbps(5));
}

/// The queue of the old limit is larger than that of the new one.
#[test]
fn lower_limit_at_a_high_rate() {
    if skipped() {
        return;
    }
    let _alone = alone();
    lower("k2", mbps(160), mbps(20));
}

/// The rule of edt after a rise of the limit: later packets leave at the new rate from the next departure at the old
/// one on, and after those with stamps, where that is at most the horizon ahead. Stamps more than two horizons ahead
/// delay nothing: the debt is repaid at the new rate, and later packets overtake.
struct Rise {
    /// The time at the old rate.
    applies: Duration,
    overtakes: bool,
}

impl Rise {
    /// `stamped` is the time from the change to the last departure that was stamped before it.
    fn new(old: Bandwidth, new: Bandwidth, stamped: Duration) -> Self {
        assert!(stamped <= HORIZON || stamped > HORIZON * 2, "no test has stamps between");
        match stamped <= HORIZON {
            true => Self { applies: stamped, overtakes: false },
            false => Self { applies: time_of(bytes_in(stamped, old), new), overtakes: true },
        }
    }
}

/// The computed departures are those of a kernel with fq, at rates that emulation reaches.
#[test]
fn fq_releases_packets_as_computed() {
    if skipped() {
        return;
    }
    if let Err(error) = choose(&probe(), Some(Backend::Edt)) {
        let line = format!("skipped: {error}\n");
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("standard error takes a line");
        return;
    }
    let _alone = alone();
    let (old, new) = (mbps(4), mbps(1));
    let mut scenario = change_of_limit(CHANGE * 3, old, new);
    scenario.offers.clear();
    let scenario = scenario.offer(0, mbps(5), 1, CHANGE * 6);
    let (fq, computed) = (kernel::run("k14", &scenario, Backend::Edt), native::run(&scenario));
    // A processor that is late hands over less before the change.
    let part = |name: &str, value: fn(&Run) -> f64| {
        let (fq, computed) = (value(&fq), value(&computed));
        println!("{name}: {fq:.1} by fq, {computed:.1} computed");
        assert!((SHARED_LEAST..=2.0 - SHARED_LEAST).contains(&(fq / computed)), "{name}: {fq}, computed {computed}");
    };
    part("packets that left", |run| run.arrivals.len() as f64);
    part("bytes above the new limit", |run| above(run, lead(mbps(4)), mbps(1)) as f64);
    part("longest time without a packet", |run| run.longest_gap(run.change(), CHANGE * 6).as_secs_f64());
}

fn higher(name: &str, at: Duration, old: Bandwidth, new: Bandwidth) -> Both {
    let both = Both::run(name, &change_of_limit(at, old, new));
    let edt = &both.edt;
    let stamped = edt.last_of(|offered| offered < edt.change()) - edt.change();
    let what = format!("limit of {old}, then {new}, stamps {stamped:.0?} ahead");
    let is_there = |bytes, time| bytes as f64 + FRAME as f64 >= bytes_in(time, new) as f64 * 0.9;
    both.row(&format!("{what}: time until 90 %"), |run| ms(run.time_until(is_there)));
    both.row(&format!("{what}: packets out of order"), Run::overtakers);

    assert_eq!(both.htb.overtakers(), 0);
    let rise = Rise::new(old, new, stamped);
    let before = edt.bytes(edt.change(), rise.applies);
    assert!(before.abs_diff(bytes_in(rise.applies, old)) <= 3 * FRAME, "{before} B in {:?} at {old}", rise.applies);
    let time = CHANGE / 10;
    let after = edt.bytes(edt.change() + rise.applies, time);
    assert!(after + 2 * FRAME >= bytes_in(time, new), "{after} B in {time:?} at {new}");
    if !rise.overtakes {
        // As a limiter without changes.
        let most = bytes_in(time, new) + burst(new) + 2 * FRAME;
        assert!(after <= most, "{after} B in {time:?} at {new}, after {:?}", rise.applies);
    }
    assert_eq!(edt.overtakers() > 0, rise.overtakes, "{} packets out of order", edt.overtakers());
    both
}

#[test]
fn higher_limit_applies_at_once_or_to_later_packets() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let (old, new) = (mbps(5), mbps(20));
    let htb = higher("k3", CHANGE, old, new).htb;
    // All packets that wait at the old limit leave at the new one.
    let (bytes, most) = (htb.bytes(htb.change(), lead(old)), bytes_in(lead(old), new));
    assert!(bytes as f64 >= most as f64 * SHARED_LEAST, "{bytes} B of {most} B");
}

/// Stamps are half of the horizon ahead.
#[test]
fn higher_limit_holds_from_the_next_departure() {
    if skipped() {
        return;
    }
    let _alone = alone();
    higher("k4", HORIZON * 2 / 5, mbps(80), mbps(160));
}

/// Stamps are as far ahead as the horizon, as those of any service that is offered more than a limit of 78 Mb/s.
#[test]
fn higher_limit_holds_from_the_next_departure_at_the_horizon() {
    if skipped() {
        return;
    }
    let _alone = alone();
    higher("k13", CHANGE, mbps(80), mbps(160));
}

/// The part of service 0 in the bytes that left in a time after another.
fn part(run: &Run, scenario: &Scenario, since: Duration, time: Duration) -> f64 {
    let own = run.bytes_of(scenario, 0, since, time) as f64;
    own / run.bytes(since, time) as f64
}

#[test]
fn excess_is_shared_by_weight_or_in_order_of_arrival() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let mut scenario = Scenario::of_one();
    scenario.nic = mbps(50);
    // The last one is idle: half of the interface is in excess of the shares of the others.
    scenario.services = vec!["", ", machine: { weight: 3 }", ", machine: { weight: 4 }"];
    let time = Duration::from_secs(3);
    let scenario = scenario.offer(0, mbps(60), 1, time).offer(1, mbps(45), 1, time);
    let both = Both::run("k5", &scenario);
    // After the bursts with which both begin.
    let first = |run: &Run| part(run, &scenario, CHANGE / 10, CHANGE * 3 / 10);
    let last = |run: &Run| part(run, &scenario, Duration::from_secs(2), Duration::from_secs(1));
    both.row("part of weight 1 beside 3: 0.05 s to 0.2 s", |run| format!("{:.2}", first(run)));
    both.row("part of weight 1 beside 3: third second", |run| format!("{:.2}", last(run)));
    let weight = 0.25;
    for (name, part) in [("first", first(&both.htb)), ("last", last(&both.htb))] {
        assert!((part - weight).abs() < 0.06, "{name}: {part}");
    }
    // Shares of 1/8 and 3/8, and the other half in the proportion of what is offered.
    assert!(first(&both.edt) > weight + 0.1, "{}", first(&both.edt));
}

/// By edt, which needs no kernel for it: an interval of the fair rate is longest at slow interfaces.
#[test]
fn fair_rate_shares_excess_by_weight_at_fast_interfaces() {
    for nic in [20, 50, 100, 200] {
        let mut scenario = Scenario::of_one();
        scenario.nic = mbps(nic);
        scenario.services = vec!["", ", machine: { weight: 3 }", ", machine: { weight: 4 }"];
        let time = Duration::from_secs(4);
        let scenario = scenario.offer(0, mbps(nic * 2), 1, time).offer(1, mbps(nic * 23 / 20), 1, time);
        let run = native::run(&scenario);
        let second = |second| part(&run, &scenario, Duration::from_secs(second), Duration::from_secs(1));
        let parts = [second(1), second(2), second(3)];
        println!("| part of weight 1 beside 3 at {nic} Mb/s, by second | | {parts:.2?} |");
        if nic >= 100 {
            assert!(parts.iter().all(|part| (part - 0.25).abs() < 0.03), "{parts:?} at {nic} Mb/s");
        }
    }
}

#[test]
fn burst_finds_room_by_destination_or_by_service() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let limit = mbps(5);
    let mut scenario = Scenario::of_one().change(Duration::ZERO, Change::Limit(0, limit));
    let offer = |i: u32| Offer { at: CHANGE, service: 0, destination: (i % 3) as u8 };
    scenario.offers = (0..600).map(offer).collect();
    scenario.tail = Duration::from_secs(2);
    let room = (BURST + FRAME + QUEUE) / FRAME;
    let count = |run: &Run| run.arrivals.len() as u64;
    // While the packets are handed over, some leave.
    let leave = |run: &Run| bytes_in(run.end() - run.offered[0], limit) / FRAME + 2;
    let both = Both::run("k6", &scenario);
    both.row("accepted of a burst to three destinations", count);
    assert_eq!(count(&both.edt), room);
    assert!((room..=room + leave(&both.htb)).contains(&count(&both.htb)), "{}, not {room}", count(&both.htb));

    for destination in 0..3 {
        scenario = scenario.change(CHANGE, Change::Feedback(destination, 0, mbps(2)));
    }
    let both = Both::run("k7", &scenario);
    both.row("accepted of a burst to three limited destinations", count);
    assert_eq!(count(&both.edt), room);
    let rooms = 3 * QUEUE / FRAME..=3 * room + leave(&both.htb);
    assert!(rooms.contains(&count(&both.htb)), "{}, not {rooms:?}", count(&both.htb));
}

/// A destination's first feedback, and feedback of half of its rate.
#[test]
fn destination_limit_applies_at_once_or_after_stamped_packets() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let (limit, first, second) = (mbps(20), mbps(5), Bandwidth::from_bps(2_500_000));
    let scenario = Scenario::of_one()
        .change(Duration::ZERO, Change::Limit(0, limit))
        .change(CHANGE, Change::Feedback(0, 0, first));
    let new = scenario.clone().offer(0, mbps(40), 1, END);
    let both = Both::run("k8", &new);
    let time = 2 * lead(limit);
    both.row(&format!("first feedback, {first} below {limit}: bytes above it in {time:.1?}"), |run| {
        kilobytes(above(run, time, first))
    });
    // With both, the packets that wait leave at the service's limit, and the destination's burst beside them.
    let burst = ShaperConfig::parley(&new.policy(), None, None).parameters.destination.burst.get();
    for run in [&both.htb, &both.edt] {
        let (least, most) = (QUEUE / 2, QUEUE + BURST.max(burst) + 2 * FRAME);
        assert!((least as i64..=most as i64).contains(&above(run, time, first)), "{}", above(run, time, first));
    }

    let known = scenario.change(END, Change::Feedback(0, 0, second)).offer(0, mbps(40), 1, END * 2);
    let both = Both::run("k9", &known);
    let time = lead(first);
    both.row(&format!("later feedback, {second} after {first}: bytes above it in {time:.1?}"), |run| {
        kilobytes(above(run, time, second))
    });
    assert_applied_at_once(&both.htb, second, time);
    let expected = bytes_in(time, first) as i64 - bytes_in(time, second) as i64;
    assert!(above(&both.edt, time, second).abs_diff(expected) <= 3 * FRAME, "{expected}");
}

#[test]
fn destination_is_limited_without_an_agent_by_edt_alone() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let mut scenario = Scenario::of_one();
    scenario.agent = false;
    scenario.services = vec![", machine: { max: 20Mb/s }"];
    let (limit, rate) = (mbps(20), mbps(5));
    let scenario = scenario.change(CHANGE / 5, Change::Feedback(0, 0, rate)).offer(0, mbps(25), 1, END);
    let both = Both::run("k10", &scenario);
    let bytes = |run: &Run| run.bytes(CHANGE, CHANGE);
    let what = format!("no agent, service at {limit}, feedback of {rate}");
    both.row(&what, |run| format!("{:.1} Mb/s", bytes(run) as f64 * 8.0 / CHANGE.as_secs_f64() / 1e6));
    assert!(bytes(&both.htb) as f64 >= bytes_in(CHANGE, limit) as f64 * SHARED_LEAST, "{}", bytes(&both.htb));
    assert!(bytes(&both.edt).abs_diff(bytes_in(CHANGE, rate)) <= 2 * FRAME, "{}", bytes(&both.edt));
}

/// Leaves of a service share its weight by quanta of at least a segment, an eighth of the weight.
#[test]
fn service_with_many_limited_destinations_exceeds_its_weight_by_htb_alone() {
    if skipped() {
        return;
    }
    let _alone = alone();
    const SEGMENTS: u8 = 8;
    for (name, count) in [("k11", SEGMENTS), ("k12", 4 * SEGMENTS)] {
        let mut scenario = Scenario::of_one();
        scenario.nic = mbps(50);
        // The last one is idle: a third of the interface is in excess of the shares of the others.
        scenario.services = vec!["", "", ""];
        scenario.tail = Duration::from_millis(50);
        // Less than a second without feedback.
        for (i, destination) in (0..6).flat_map(|i| (0..count).map(move |destination| (i, destination))) {
            scenario = scenario.change(CHANGE * i, Change::Feedback(destination, 0, mbps(25)));
        }
        let time = Duration::from_secs(3);
        let scenario = scenario.offer(0, mbps(45), count, time).offer(1, mbps(40), 1, time);
        let both = Both::run(name, &scenario);
        let last = |run: &Run| part(run, &scenario, Duration::from_secs(2), Duration::from_secs(1));
        both.row(&format!("part of a service with {count} limited destinations, of equal weights"), |run| {
            format!("{:.2}", last(run))
        });
        let more = f64::from(count) / f64::from(count + SEGMENTS) - 0.5;
        let expected = 0.5 + more / 3.0;
        assert!((last(&both.edt) - 0.5).abs() < 0.04, "{}", last(&both.edt));
        assert!((last(&both.htb) - expected).abs() < 0.05, "{}, not {expected}", last(&both.htb));
    }
}
