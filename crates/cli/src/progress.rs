//! How far a run has come.
//!
//! On a terminal a bar; elsewhere a line now and then, so that a log stays short and still shows life.

use crate::output::Ui;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Instant;
use weir_units::Duration;

/// Between two lines where nobody watches, in wall-clock seconds.
const QUIET: f64 = 5.0;

/// Follows a run in wall-clock time.
pub(crate) struct Watch {
    of: Duration,
    /// `simulated`, or nothing where time is real.
    what: &'static str,
    started: Instant,
    /// When the last line was written, in seconds since the start.
    told: f64,
    bar: Option<ProgressBar>,
}

#[expect(clippy::disallowed_methods, reason = "progress is about wall-clock time; the run itself sees none")]
fn now() -> Instant {
    Instant::now()
}

impl Watch {
    /// Starts the clock.
    pub(crate) fn new(of: Duration, what: &'static str, is_terminal: bool) -> Self {
        let bar = is_terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(of.nanos()), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:20} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { of, what, started: now(), told: 0.0, bar }
    }

    /// A sample was taken.
    pub(crate) fn step(&mut self, at: Duration, ui: &mut Ui) {
        let elapsed = (now() - self.started).as_secs_f64();
        let text = describe(at, self.of, self.what, elapsed);
        if let Some(bar) = &self.bar {
            bar.set_message(text);
            bar.set_position(at.nanos());
        } else if elapsed - self.told >= QUIET {
            self.told = elapsed;
            // Progress that nobody reads is no reason to end a run.
            let _ = ui.tell(&format!("{text}\n"));
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `12 s of 60 s, 8.20 simulated s per second, 6 s left`.
fn describe(at: Duration, of: Duration, what: &str, elapsed: f64) -> String {
    // Samples end a little late where time is real; nobody wants to read nanoseconds.
    let at = Duration::from_millis(at.nanos() / 1_000_000);
    if what.is_empty() {
        let left = of.saturating_sub(at).as_secs_f64();
        return format!("{:.0} s of {of}, {left:.0} s left", at.as_secs_f64());
    }
    let speed = if elapsed > 0.0 { at.as_secs_f64() / elapsed } else { 0.0 };
    let mut text = format!("{at} of {of}");
    if speed > 0.0 {
        let left = of.saturating_sub(at).as_secs_f64() / speed;
        text.push_str(&format!(", {speed:.2} {what} s per second, {left:.0} s left"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_fast_and_how_long() {
        let text = describe(Duration::from_secs(12), Duration::from_secs(60), "simulated", 1.5);
        assert_eq!(text, "12 s of 60 s, 8.00 simulated s per second, 6 s left");
    }
}
