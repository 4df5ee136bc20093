//! [`Budget`]: the processor time of the thread, a half of one processor.
//!
//! Problem: a real-time thread that always has work stops all other programs of its processor, and any host can send
//! it datagrams. Approach: each nanosecond of a turn is paid by one of sleep, with a burst; a thread that is further
//! behind sleeps although there is work.
//!
//! Worked example: after 6 ms of turns without sleep the thread sleeps for 2 ms, and then for as long as each turn
//! takes.

use weir_units::{Duration, Instant};

/// The time of turns without a pause: what a change of all gates takes, with several turns in a row.
const BURST: Duration = Duration::from_millis(4);

/// The balance of turns and sleep.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Budget {
    /// The time of turns that sleep has not paid.
    owed: Duration,
    /// The end of the last turn.
    ended: Instant,
}

impl Budget {
    /// A turn took from `began` to `ended`; returns for how long the thread must sleep now.
    pub(super) fn spend(&mut self, began: Instant, ended: Instant) -> Duration {
        let slept = began.saturating_since(self.ended);
        self.owed = self.owed.saturating_sub(slept) + ended.saturating_since(began);
        self.ended = ended;
        self.owed.saturating_sub(BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Busy time of a second whose turns take `turn` each and begin `sleep` after the last one, or after the pause.
    fn busy(turn: Duration, sleep: Duration) -> Duration {
        let (mut budget, mut now, mut busy) = (Budget::default(), Instant::ZERO, Duration::ZERO);
        while now < Instant::from_nanos(1_000_000_000) {
            let began = now;
            now = now + turn;
            busy += turn;
            now = now + budget.spend(began, now).max(sleep);
        }
        busy
    }

    #[test]
    fn a_flood_leaves_a_half_of_a_processor() {
        let half = Duration::from_millis(500);
        for micros in [1, 20, 300, 5_000] {
            let turn = Duration::from_micros(micros);
            // Also one that leaves a moment between turns.
            for sleep in [Duration::ZERO, Duration::from_nanos(turn.nanos() / 10)] {
                let busy = busy(turn, sleep);
                assert!(busy >= half && busy <= half + BURST + turn, "{busy} with turns of {turn}");
            }
        }
    }

    #[test]
    fn turns_of_less_than_a_half_have_no_pause() {
        let (turn, sleep) = (Duration::from_micros(400), Duration::from_micros(600));
        assert_eq!(busy(turn, sleep), Duration::from_millis(400));
    }
}
