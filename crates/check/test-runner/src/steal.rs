//! The processors' time that the hypervisor takes from this machine: no test runs in it, whatever
//! its priority.
//!
//! Problem: a real-time test may fail since the processors of a virtual machine stood still.
//! Approach: the kernel counts that time (`steal` in proc(5)), and the line of each process shows
//! the part that was taken while it ran. A failure counts all the same: nothing shows that it
//! would not have occurred otherwise.
//!
//! Worked example: two processors for 10 s are 20 s of time; with 0.4 s taken, 2 % are stolen.

use std::fs;

/// The least part that a line shows: less would be printed as 0 %.
pub(crate) const SHOWN: f64 = 0.005;

/// The processors' time since the machine's start, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ticks {
    stolen: u64,
    all: u64,
}

impl Ticks {
    /// The current counts; zero where `/proc/stat` has none.
    pub(crate) fn now() -> Self {
        fs::read_to_string("/proc/stat").ok().and_then(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // User, nice, system, idle, iowait, irq, softirq, steal. Guests' time, which follows, is
        // part of user's.
        let fields: Vec<u64> = line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { stolen: *fields.get(7)?, all: fields.iter().sum() })
    }

    /// The part that the hypervisor took from `start` to these counts, 0 to 1.
    pub(crate) fn stolen_since(self, start: Self) -> f64 {
        let all = self.all.saturating_sub(start.all);
        let stolen = self.stolen.saturating_sub(start.stolen);
        if all == 0 { 0.0 } else { stolen as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let ticks = |text| Ticks::parse(text).expect("a line of all processors");
        let start = ticks("cpu  100 50 30 1000 5 0 10 20 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
        assert_eq!(start, Ticks { stolen: 20, all: 1215 });
        let end = Ticks { stolen: start.stolen + 40, all: start.all + 2_000 };
        assert!((end.stolen_since(start) - 0.02).abs() < 1e-9);
        assert_eq!(start.stolen_since(start), 0.0);
    }

    #[test]
    fn other_texts_have_no_counts() {
        assert_eq!(Ticks::parse("cpu0 1 2 3 4 5 6 7 8\n"), None);
        assert_eq!(Ticks::parse("cpu  1 2 3 4 5 6 7\n"), None);
        assert_eq!(Ticks::parse("cpu  1 2 3 4 5 6 7 x\n"), None);
    }
}
