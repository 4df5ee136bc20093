//! The output of a run: a line for each ended test, failures with their output at the end, and the closing line.

use crate::inventory::{Counts, Job};
use crate::process::{Ended, Outcome};
use crate::{standstill, steal};
use std::fmt::Write as _;
use std::time::Duration;

/// At most so many lines of a failure's output are printed; the log has all of them.
const LINES: usize = 200;

/// The counts of the run, and its failures.
#[derive(Debug, Default)]
pub(crate) struct Report {
    total: Counts,
    failures: Vec<String>,
    /// Processes that have ended, of those that are known.
    ended: usize,
    known: usize,
}

/// How the tests of a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Passed,
    Failed,
    Skipped,
}

impl Report {
    /// Announces a process that is to run.
    pub(crate) fn expect_another(&mut self) {
        self.known += 1;
    }

    /// Counts a process that has ended and prints its line; `running` are the names of those that still run.
    pub(crate) fn ended(&mut self, job: &Job, ended: &Ended, rerun: &str, running: &[String]) {
        self.ended += 1;
        let output = ended.output();
        let mut counts = crate::inventory::counts(&output);
        let tests = counts.passed + counts.failed + counts.skipped;
        // It crashed, ran out of time, or is no test program; or the one test of this process did not run.
        if counts.failed == 0 && (!ended.succeeded() || matches!(job, Job::Realtime { .. }) && tests != 1) {
            counts.failed = 1;
        }
        let word = match counts {
            Counts { failed: 1.., .. } => Word::Failed,
            Counts { passed: 0, skipped: 1.., .. } => Word::Skipped,
            _ => Word::Passed,
        };
        println!("{}", line((self.ended, self.known), job, ended, counts, word, running));
        if word == Word::Failed {
            self.failures.push(failure(job, ended, rerun, &output));
        }
        self.total.passed += counts.passed;
        self.total.failed += counts.failed;
        self.total.skipped += counts.skipped;
    }

    /// Counts something that failed without a process of its own.
    pub(crate) fn fail(&mut self, what: &str) {
        println!("failed: {what}");
        self.total.failed += 1;
        self.failures.push(format!("{what}\n"));
    }

    /// Whether nothing has failed so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.total.failed == 0
    }

    /// Prints all failures, how long the run took, and the closing line. Returns whether there was no failure.
    pub(crate) fn close(&self, took: Duration, finished: bool) -> bool {
        for failure in &self.failures {
            println!("\n{failure}");
        }
        let Counts { passed, failed, skipped } = self.total;
        println!("{} after {} s", if finished { "done" } else { "interrupted" }, took.as_secs());
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        self.is_clean()
    }
}

fn line(
    (number, known): (usize, usize),
    job: &Job,
    ended: &Ended,
    counts: Counts,
    word: Word,
    running: &[String],
) -> String {
    let word = match word {
        Word::Passed => "passed",
        Word::Failed => "FAILED",
        Word::Skipped => "skipped",
    };
    let mut line = format!("[{number:>3}/{known}] {:>6.1} s {word:<7} {} (", ended.wall.as_secs_f64(), job.name());
    // Infallible for a String.
    let _ = match job {
        Job::Pure { .. } | Job::Doc => write!(line, "{} tests, ", counts.passed + counts.failed + counts.skipped),
        Job::Realtime { .. } | Job::Command(_) => Ok(()),
    };
    let _ = write!(line, "{})", conditions(ended));
    if let Some((first, others)) = running.split_first() {
        let _ = match others.len() {
            0 => write!(line, " | running: {first}"),
            more => write!(line, " | running: {first} and {more} more"),
        };
    }
    line
}

/// The processor time that a process had, and lacked.
fn conditions(Ended { wall, cpu, stolen, standstill, .. }: &Ended) -> String {
    let mut text = format!("load {:.2}", load(*wall, *cpu));
    // Infallible for a String.
    if *stolen >= steal::SHOWN {
        let _ = write!(text, ", {:.0} % stolen", stolen * 100.0);
    }
    if *standstill > standstill::SHOWN {
        let _ = write!(text, ", a processor stood still for {:.1} s", standstill.as_secs_f64());
    }
    text
}

/// The processors that a process used on average.
pub(crate) fn load(wall: Duration, cpu: Duration) -> f64 {
    cpu.as_secs_f64() / wall.as_secs_f64().max(0.001)
}

fn failure(job: &Job, ended: &Ended, rerun: &str, output: &str) -> String {
    let how = match ended.outcome {
        Outcome::Exited(code) => format!("exit status {code}"),
        Outcome::Signalled(signal) => format!("signal {signal}"),
        Outcome::TimedOut(limit) => format!("not done after {} s", limit.as_secs()),
    };
    let lines: Vec<&str> = output.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LINES)..];
    let dropped = match lines.len() - shown.len() {
        0 => String::new(),
        count => format!("({count} lines before these are in {})\n", ended.log.display()),
    };
    let shown = shown.join("\n");
    format!("---- {} failed: {how} ({})\n{dropped}{shown}\nrun it again: {rerun}", job.name(), conditions(ended))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn ended(outcome: Outcome) -> Ended {
        let (wall, cpu) = (Duration::from_secs(4), Duration::from_secs(1));
        Ended { outcome, wall, cpu, stolen: 0.0, standstill: Duration::ZERO, log: PathBuf::from("/nowhere/log") }
    }

    #[test]
    fn a_line_has_the_time_the_load_and_the_running_tests() {
        let job = Job::Command("make lint".into());
        let running = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let text = line((3, 20), &job, &ended(Outcome::Exited(0)), Counts::default(), Word::Passed, &running);
        assert_eq!(text, "[  3/20]    4.0 s passed  make lint (load 0.25) | running: a and 2 more");
        assert!((load(Duration::from_secs(4), Duration::from_secs(1)) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn a_failure_has_the_end_of_its_output_and_the_command() {
        let job = Job::Command("make lint".into());
        let output: String = (0..300).map(|number| format!("line {number}\n")).collect();
        let text = failure(&job, &ended(Outcome::Exited(2)), "make lint", &output);
        assert!(text.contains("exit status 2") && text.contains("(100 lines before these are in /nowhere/log)"));
        assert!(
            text.contains("line 100\n") && !text.contains("line 99\n") && text.ends_with("run it again: make lint")
        );
    }

    #[test]
    fn a_line_has_the_time_that_the_hypervisor_took_and_the_failure_counts() {
        let standstill = Duration::from_millis(4_300);
        let disturbed = Ended { stolen: 0.31, standstill, ..ended(Outcome::Exited(101)) };
        let job = Job::Command("make lint".into());
        let text = line((1, 1), &job, &disturbed, Counts::default(), Word::Failed, &[]);
        assert_eq!(
            text,
            "[  1/1]    4.0 s FAILED  make lint (load 0.25, 31 % stolen, a processor stood still for 4.3 s)"
        );
        let mut report = Report::default();
        report.ended(&job, &disturbed, "make lint", &[]);
        assert_eq!(report.total.failed, 1);
    }

    #[test]
    fn a_crash_without_a_result_counts_as_one_failure() {
        let mut report = Report::default();
        report.expect_another();
        report.ended(&Job::Command("false".into()), &ended(Outcome::Signalled(6)), "false", &[]);
        assert_eq!(report.total, Counts { failed: 1, ..Counts::default() });
        assert!(!report.close(Duration::ZERO, true));
    }
}
