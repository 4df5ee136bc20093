//! What is known of a source, and since when it is lost.
//!
//! A source is lost when it does not answer, and also when its status stands still: an agent that hangs still has its
//! last one served, and one that was killed leaves its file. What it said last stays known.

use crate::source::Source;
use std::sync::Arc;
use weir_status::Status;
use weir_units::{Duration, Instant};

/// For how many of its periods a status may stand still: after as many, machines go on without each other too (Parley
/// Table 1).
pub const PERIODS: u64 = 5;

/// A source that is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Since when: when it was last all right, or first asked.
    pub since: Instant,
    /// Why, in a clause.
    pub why: String,
}

/// What is known of one source.
#[derive(Debug, Clone)]
pub struct Sighting {
    /// The source.
    pub source: Source,
    /// The machine that it should be, if somebody said so.
    pub expected: Option<String>,
    /// Its last status.
    pub status: Option<Arc<Status>>,
    /// Set while it is lost.
    pub lost: Option<Lost>,
    /// When its status last changed.
    changed: Option<Instant>,
}

impl Sighting {
    /// A source that was not asked yet.
    pub fn new(source: Source, expected: Option<String>) -> Self {
        Self { source, expected, status: None, lost: None, changed: None }
    }

    /// The name of whatever it is: as expected, as it says, or where it is.
    pub fn name(&self) -> String {
        let said = || self.status.as_ref().map(|status| status.name().to_owned());
        self.expected.clone().or_else(said).unwrap_or_else(|| self.source.to_string())
    }

    /// Notes what it said at `now`, or why it said nothing.
    pub fn record(&mut self, now: Instant, said: Result<Status, String>) {
        let status = match said {
            Ok(status) => status,
            Err(why) => return self.lose(now, why),
        };
        if let Some(expected) = self.expected.as_ref().filter(|expected| *expected != status.name()) {
            return self.lose(now, format!("it says that it is {}, not {expected}", status.name()));
        }
        let moved = self.status.as_ref().is_none_or(|before| before.written_ms() != status.written_ms());
        self.status = Some(Arc::new(status));
        let changed = if moved { now } else { self.changed.unwrap_or(now) };
        self.changed = Some(changed);
        let patience = self.status.as_ref().map_or(0, |status| status.period_ms().saturating_mul(PERIODS));
        if now.saturating_since(changed) > Duration::from_millis(patience) {
            self.lose(changed, "its status stands still".to_owned());
        } else {
            self.lost = None;
        }
    }

    fn lose(&mut self, now: Instant, why: String) {
        let since = self.lost.as_ref().map_or_else(|| self.changed.unwrap_or(now), |lost| lost.since);
        self.lost = Some(Lost { since, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_status::FabricStatus;

    fn at(second: u64) -> Instant {
        Instant::from_nanos(second * 1_000_000_000)
    }

    fn status(written: u64) -> Status {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1] } } }\n\
                    services: { a: { match: [ { port: 1 } ] } }\n";
        let (policy, _) = weir_policy::Policy::parse("policy.yaml", text).expect("sound");
        let mut status = FabricStatus::outline(&policy, "f1", 1);
        (status.written_ms, status.period_ms) = (written, 1_000);
        Status::Fabric(status)
    }

    fn sighting() -> Sighting {
        Sighting::new("http://10.0.0.1:1".parse().expect("a source"), None)
    }

    #[test]
    fn who_does_not_answer_is_lost_since_it_last_did() {
        let mut seen = sighting();
        assert_eq!(seen.name(), "http://10.0.0.1:1/status");
        seen.record(at(0), Err("refused".into()));
        assert_eq!(seen.lost, Some(Lost { since: at(0), why: "refused".into() }));
        seen.record(at(1), Ok(status(1)));
        assert_eq!((seen.lost.clone(), seen.name()), (None, "f1".to_owned()));
        seen.record(at(2), Err("slow".into()));
        seen.record(at(9), Err("refused".into()));
        assert_eq!(seen.lost, Some(Lost { since: at(1), why: "refused".into() }));
        assert!(seen.status.is_some(), "what it said last stays known");
        seen.record(at(10), Ok(status(2)));
        assert_eq!(seen.lost, None);
    }

    #[test]
    fn a_status_that_stands_still_is_lost() {
        let mut seen = sighting();
        for second in 0..=5 {
            seen.record(at(second), Ok(status(1)));
            assert_eq!(seen.lost, None, "{second}");
        }
        seen.record(at(6), Ok(status(1)));
        assert_eq!(seen.lost, Some(Lost { since: at(0), why: "its status stands still".into() }));
        seen.record(at(7), Ok(status(2)));
        assert_eq!(seen.lost, None);
    }

    #[test]
    fn somebody_else_is_not_taken_for_the_machine() {
        let mut seen = Sighting { expected: Some("m1".into()), ..sighting() };
        seen.record(at(0), Ok(status(1)));
        assert_eq!(seen.lost.map(|lost| lost.why), Some("it says that it is f1, not m1".to_owned()));
        assert!(seen.status.is_none());
    }
}
