//! How late sleeps of this machine end: the strict bounds of `--soak` hold where they end in time.
//!
//! Reason: an HTB class keeps tokens of 15 kB, 1.5 ms at 80 Mb/s. Where other programs or other
//! virtual machines delay the kernel's timer by more, the class loses the rest of its rate.
#![expect(clippy::disallowed_methods, reason = "a measurement of real time")]

use std::fmt;
use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(1);
const SLEEPS: u32 = 2_000;
/// Sleeps that end later than this after their time are counted.
const LATE: Duration = Duration::from_millis(1);

/// The result of a measurement of about two seconds.
#[derive(Debug)]
pub(crate) struct Lateness {
    late: u32,
    most: Duration,
}

impl Lateness {
    pub(crate) fn measure() -> Self {
        let once = |_| {
            let begun = Instant::now();
            std::thread::sleep(SLEEP);
            begun.elapsed().saturating_sub(SLEEP)
        };
        Self::of((0..SLEEPS).map(once))
    }

    fn of(delays: impl Iterator<Item = Duration>) -> Self {
        delays.fold(Self { late: 0, most: Duration::ZERO }, |sum, delay| Self {
            late: sum.late + u32::from(delay > LATE),
            most: sum.most.max(delay),
        })
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (late, most) = (self.late, self.most.as_secs_f64() * 1e3);
        write!(f, "{late} of {SLEEPS} sleeps of 1 ms ended more than 1 ms late, the latest {most:.1} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_beyond_a_millisecond_are_counted() {
        let delays = [50, 1_000, 1_001, 12_000].map(Duration::from_micros);
        let text = Lateness::of(delays.into_iter()).to_string();
        assert_eq!(text, "2 of 2000 sleeps of 1 ms ended more than 1 ms late, the latest 12.0 ms");
    }
}
