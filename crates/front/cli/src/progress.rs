//! The progress of a run.
//!
//! On a terminal a bar; elsewhere a line now and then, so that a log stays short and still shows
//! activity.

use crate::output::Ui;
use crate::text;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_runs::Stopwatch;
use weir_runs::pool::fraction;
use weir_sim::Progress;

/// The time between two lines of a log, in wall-clock seconds.
const QUIET: f64 = 5.0;
/// The time between two updates of a bar, in wall-clock seconds: readable, and cheap.
const LIVELY: f64 = 0.1;
/// Steps of a bar: finer than a terminal's columns.
const STEPS: f64 = 1000.0;

/// Measures a run in wall-clock time.
pub(crate) struct Watch {
    started: Stopwatch,
    /// When the progress was last shown, in seconds since the start.
    shown: f64,
    bar: Option<ProgressBar>,
}

impl Watch {
    /// Starts the clock.
    pub(crate) fn new(is_terminal: bool) -> Self {
        let bar = is_terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(STEPS as u64), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:10} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { started: Stopwatch::start(), shown: 0.0, bar }
    }

    /// Shows the finished part, 0 to 1, if an update is due; `text` gets the seconds since the
    /// start.
    pub(crate) fn show(&mut self, done: f64, ui: &mut Ui, text: impl FnOnce(f64) -> String) {
        let elapsed = self.elapsed();
        if elapsed - self.shown < if self.bar.is_some() { LIVELY } else { QUIET } {
            return;
        }
        self.shown = elapsed;
        let text = text(elapsed);
        if let Some(bar) = &self.bar {
            bar.set_message(text);
            bar.set_position((done * STEPS) as u64);
        } else {
            // A failure to print progress does not end a run.
            let _ = ui.notice(&format!("{text}\n"));
        }
    }

    /// Seconds since the start.
    pub(crate) fn elapsed(&self) -> f64 {
        self.started.seconds()
    }

    /// Starts the clock again, for the next part.
    pub(crate) fn restart(&mut self) {
        (self.started, self.shown) = (Stopwatch::start(), 0.0);
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `building the network of 250,000 hosts, 12 s so far`.
pub(crate) fn of_building(hosts: usize, elapsed: f64) -> String {
    format!("building the network of {} hosts, {} so far", text::whole(hosts as u64), wall(elapsed))
}

/// The remaining time in seconds, at the speed so far.
pub(crate) fn left(done: f64, elapsed: f64) -> Option<f64> {
    (done > 0.0).then(|| elapsed * (1.0 - done) / done)
}

/// `9 s left; simulated 1.2 ms of 10 ms at 10.2 M packet-hops/s, 1,200 of 20,000 flows`: ordered by
/// importance, since a narrow terminal cuts the end off.
pub(crate) fn of_run(progress: &Progress, elapsed: f64) -> String {
    let left = left(fraction(progress), elapsed).map_or(String::new(), |seconds| format!("{} left; ", wall(seconds)));
    let speed = speed(progress.counters.packet_hops, elapsed).map_or(String::new(), |speed| format!(" at {speed}"));
    let flows = match progress.expected {
        Some(expected) => format!(", {} of {} flows", text::whole(progress.over), text::whole(expected)),
        None => format!(", {} of {} started flows", text::whole(progress.over), text::whole(progress.started)),
    };
    format!("{left}simulated {}{speed}{flows}", of_simulated_time(progress))
}

/// `1.2 ms of 10 ms`.
pub(crate) fn of_simulated_time(progress: &Progress) -> String {
    let (at, of) = (progress.at.as_secs_f64(), progress.of.as_secs_f64());
    format!("{} of {}", text::time(at), text::time(of))
}

/// `10.2 M packet-hops/s`.
pub(crate) fn speed(packet_hops: u64, elapsed: f64) -> Option<String> {
    (elapsed > 0.0).then(|| format!("{:.1} M packet-hops/s", packet_hops as f64 / elapsed / 1e6))
}

/// `9 s`, `4 min`, `2 h 5 min`: a time for people.
pub(crate) fn wall(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        _ if seconds < 99.5 => format!("{seconds:.0} s"),
        0..120 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Duration;

    fn progress(expected: Option<u64>) -> Progress {
        let counters = weir_sim::Counters { packet_hops: 15_000_000, ..Default::default() };
        let (at, of) = (Duration::from_millis(10), Duration::from_millis(100));
        Progress { at, of, started: 900, over: 800, expected, counters }
    }

    #[test]
    fn reports_speed_and_remaining_time() {
        let text = of_run(&progress(Some(1_000)), 1.5);
        assert_eq!(text, "0 s left; simulated 10 ms of 100 ms at 10.0 M packet-hops/s, 800 of 1,000 flows");
        // Without a known number of flows only time counts: 1.5 s for a tenth.
        let text = of_run(&progress(None), 1.5);
        assert_eq!(text, "14 s left; simulated 10 ms of 100 ms at 10.0 M packet-hops/s, 800 of 900 started flows");
        assert_eq!(of_building(250_000, 12.0), "building the network of 250,000 hosts, 12 s so far");
    }

    #[test]
    fn wall_time_is_rough() {
        assert_eq!([0.4, 99.0, 125.0, 7_500.0].map(wall), ["0 s", "99 s", "2 min", "2 h 5 min"]);
    }
}
