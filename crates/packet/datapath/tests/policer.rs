//! The policer's virtual queue and the strangers' rate, step by step.

use weir_datapath::{PoliceVerdict, Policer, abi};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(10);

fn millis(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A tick without followers, after `passed` bytes of strangers. Returns the bytes that have left the virtual queue.
fn tick(policer: &mut Policer, now: Instant, limit: Bandwidth, passed: u64) -> u64 {
    policer.tick(now, limit, INTERVAL, Bytes::ZERO, Bytes::new(passed)).get()
}

/// Polices packets of 1,500 B at `now` until one is dropped. Returns the bytes that passed.
fn fill(policer: &mut Policer, now: Instant) -> u64 {
    let passed = |_: &()| policer.police(now, Bytes::new(1500), 1, false) != PoliceVerdict::Drop;
    std::iter::repeat(()).take_while(passed).count() as u64 * 1500
}

/// The part of the limit at which the virtual queue drains.
fn drain(policer: &Policer) -> f64 {
    policer.raw().drain as f64 / f64::from(1 << abi::POLICER_SHIFT)
}

/// A tick takes its time, then a packet on another CPU is policed, then the tick sets the strangers' rate.
#[test]
fn tick_that_is_earlier_than_a_packet_drains_no_time_twice() {
    let limit = Bandwidth::from_mbps(20);
    let mut policer = Policer::default();
    tick(&mut policer, millis(1000), limit, 0);
    policer.police(millis(1000), Bytes::new(100_000), 1, false);
    policer.police(millis(1010), Bytes::new(1500), 1, false);
    let (before, length) = (policer.raw().at, policer.raw().length);
    tick(&mut policer, millis(1005), limit, 101_500);
    assert_eq!((policer.raw().at, policer.raw().length), (before, length));
}

/// Between two counts of a packet: the policer has counted a stranger's packet, and no other counter has its bytes.
#[test]
fn packet_that_a_tick_interrupts_counts_once() {
    let limit = Bandwidth::from_mbps(1);
    let mut policer = Policer::default();
    let (mut arrivals, mut policed) = (abi::Arrivals::default(), abi::Policed::default());
    let counted = |policer: &mut Policer, now, arrivals: &mut abi::Arrivals, policed: &mut abi::Policed| {
        let mut taken = abi::Taken::default();
        arrivals.take(&mut taken);
        policed.take(&mut taken);
        policer.tick_taken(now, limit, INTERVAL, &taken).get()
    };
    counted(&mut policer, millis(1000), &mut arrivals, &mut policed);
    policer.police(millis(1000), Bytes::new(1500), 1, false);
    policed.bytes += 1500;
    // 1 Mb/s and a 32nd of it for 1 ms.
    let first = counted(&mut policer, millis(1001), &mut arrivals, &mut policed);
    assert!((128..=129).contains(&first), "{first}");
    arrivals.bytes += 700;
    policed.followed_bytes += 700;
    let second = counted(&mut policer, millis(1002), &mut arrivals, &mut policed);
    assert!((828..=829).contains(&second), "{second}");
}

#[test]
fn policer_without_a_limit_starts_anew_with_the_next_one() {
    let limit = Bandwidth::from_mbps(20);
    let mut policer = Policer::default();
    tick(&mut policer, millis(1000), limit, 0);
    let passed = fill(&mut policer, millis(1000));
    // F and at most a quarter of 20 Mb/s.
    assert!((625_000..=782_000).contains(&passed), "{passed}");
    tick(&mut policer, millis(1001), Bandwidth::UNLIMITED, passed);
    assert_eq!(verdict(&mut policer, millis(1500)), PoliceVerdict::Pass);
    // An hour later the whole of F is free.
    tick(&mut policer, millis(3_601_000), limit, 1500);
    assert_eq!(fill(&mut policer, millis(3_601_000)), passed);
}

/// The verdict on one packet.
fn verdict(policer: &mut Policer, now: Instant) -> PoliceVerdict {
    policer.police(now, Bytes::new(1500), 1, false)
}

/// At 20 kb/s a 4,096th is 4 bit/s.
#[test]
fn usage_of_followers_that_have_left_becomes_0_at_the_lowest_limits() {
    let limit = Bandwidth::from_bps(20_000);
    let (second, mut policer) = (Duration::from_secs(1), Policer::default());
    for at in 1..=40 {
        policer.tick(millis(at * 1000), limit, second, Bytes::new(1250), Bytes::ZERO);
    }
    for at in 41..=140 {
        fill(&mut policer, millis(at * 1000));
        policer.tick(millis(at * 1000), limit, second, Bytes::ZERO, Bytes::ZERO);
        if at == 41 {
            assert!(drain(&policer) < 0.6, "beside followers: {}", drain(&policer));
        }
    }
    assert_eq!(policer.raw().followed, 0);
    assert_eq!(drain(&policer), 1.0);
}

/// A merged packet of 64 KiB takes 52 s at 10 kb/s.
#[test]
fn large_packet_leaves_at_the_lowest_limit() {
    let limit = Bandwidth::from_bps(10_000);
    let mut policer = Policer::default();
    tick(&mut policer, millis(1000), limit, 0);
    policer.police(millis(1000), Bytes::new(65_536), 44, false);
    let mut left = tick(&mut policer, millis(1000), limit, 65_536);
    for second in 2..=21 {
        left += tick(&mut policer, millis(second * 1000), limit, 0);
    }
    // 20 s of 10 kb/s.
    assert!((24_900..=26_000).contains(&left), "{left} B in 20 s");
    left += tick(&mut policer, millis(100_000), limit, 0);
    assert!((65_530..=65_536).contains(&left), "{left} B in all");
}

/// Below 484 kb/s F is longer than 250 ms: at 10 kb/s a full virtual queue is 15 s long.
#[test]
fn raised_limit_lets_strangers_pass_within_its_own_ramp() {
    let mut policer = Policer::default();
    tick(&mut policer, millis(1000), Bandwidth::from_bps(10_000), 0);
    let passed = fill(&mut policer, millis(1000));
    let limit = Bandwidth::from_mbps(20);
    tick(&mut policer, millis(1001), limit, passed);
    assert_eq!(verdict(&mut policer, millis(1002)), PoliceVerdict::Drop);
    // The ramp is 62.5 ms.
    tick(&mut policer, millis(1070), limit, 0);
    assert_eq!(verdict(&mut policer, millis(1070)), PoliceVerdict::Pass);
}
