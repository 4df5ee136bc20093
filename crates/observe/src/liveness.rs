//! What is known of a source, and since when it is lost.
//!
//! A source is lost when it does not answer, and also when its status stands still: an agent that hangs still has its
//! last one served, and one that was killed leaves its file. What it said last stays known. One look cannot see that a status
//! stands still; then its age tells ([`Liveness::date`]).
//!
//! Worked example: an agent's status of 12:00:00, with a period of 1 s, that is still the same at 12:00:06 is lost since 12:00:00.

use crate::source::Source;
use std::sync::Arc;
use weir_status::Status;
use weir_units::{Duration, Instant};

/// For how many of its periods a status may stand still: after as many, machines go on without each other too (Parley
/// Table 1).
pub const PERIODS: u64 = 5;

/// Characters of what a source says of itself, or of why it is lost: as many as fit on a line or two. Whoever answers may say anything.
const MOST_CHARACTERS: usize = 200;

/// Whose status a source is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// An agent's.
    Agent,
    /// A fabric broker's.
    FabricBroker,
}

impl Whose {
    fn of(status: &Status) -> Self {
        match status {
            Status::Agent(_) => Self::Agent,
            Status::Fabric(_) => Self::FabricBroker,
        }
    }
    const fn words(self) -> &'static str {
        match self {
            Self::Agent => "an agent",
            Self::FabricBroker => "a fabric broker",
        }
    }
}

/// The beginning of a text from elsewhere.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

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
pub struct Liveness {
    /// The source.
    pub source: Source,
    /// The machine that it should be, if somebody said so.
    pub expected: Option<String>,
    /// Whose status it is to be, if somebody said so.
    whose: Option<Whose>,
    /// Its last status.
    pub status: Option<Arc<Status>>,
    /// Set while it is lost.
    pub lost: Option<Lost>,
    /// When its status last changed.
    changed: Option<Instant>,
}

impl Liveness {
    /// A source that was not asked yet.
    pub fn new(source: Source, expected: Option<String>) -> Self {
        Self { source, expected, whose: None, status: None, lost: None, changed: None }
    }

    /// The same, of which another's status is not taken.
    #[must_use]
    pub fn of(self, whose: Whose) -> Self {
        Self { whose: Some(whose), ..self }
    }

    /// The name of whatever it is: as expected, as it says, or where it is.
    pub fn name(&self) -> String {
        let said = || self.status.as_ref().map(|status| clipped(status.name()));
        self.expected.clone().or_else(said).unwrap_or_else(|| self.source.to_string())
    }

    /// Notes what it said at `now`, or why it said nothing.
    pub fn record(&mut self, now: Instant, said: Result<Status, String>) {
        let status = match said {
            Ok(status) => status,
            Err(why) => return self.lose(now, why),
        };
        if let Some(whose) = self.whose.filter(|whose| *whose != Whose::of(&status)) {
            return self.lose(now, format!("its status is {}'s, not {}'s", Whose::of(&status).words(), whose.words()));
        }
        if let Some(expected) = self.expected.as_ref().filter(|expected| *expected != status.name()) {
            return self.lose(now, format!("it says that it is {}, not {expected}", clipped(status.name())));
        }
        let moved = self.status.as_ref().is_none_or(|before| before.written_ms() != status.written_ms());
        self.status = Some(Arc::new(status));
        let changed = if moved { now } else { self.changed.unwrap_or(now) };
        self.changed = Some(changed);
        if self.status.as_deref().is_some_and(|status| now.saturating_since(changed) > patience(status)) {
            self.lose(changed, "its status stands still".to_owned());
        } else {
            self.lost = None;
        }
    }

    /// Counts from 1970 what was counted from `start`, and takes a status for lost that is older than it may stand still. Both hosts'
    /// clocks decide that: a file's are one, and of a URL the reason says so, because clocks may differ.
    pub fn date(&mut self, start: Duration, now: Instant) {
        self.changed = self.changed.map(|changed| changed + start);
        if let Some(lost) = &mut self.lost {
            lost.since = lost.since + start;
            return;
        }
        let Some(status) = &self.status else { return };
        let written = Instant::from_nanos(status.written_ms().saturating_mul(1_000_000));
        let age = now.saturating_since(written);
        if age > patience(status) {
            let clocks = match self.source {
                Source::File(_) => "",
                Source::Url(_) => ", if that host's clock and this one's agree",
            };
            let why = format!("its status is {} s old{clocks}", age.nanos() / 1_000_000_000);
            self.lost = Some(Lost { since: written, why });
        }
    }

    fn lose(&mut self, now: Instant, why: String) {
        let since = self.lost.as_ref().map_or_else(|| self.changed.unwrap_or(now), |lost| lost.since);
        self.lost = Some(Lost { since, why: clipped(&why) });
    }
}

/// For how long a status may stand still.
fn patience(status: &Status) -> Duration {
    Duration::from_millis(status.period_ms().saturating_mul(PERIODS))
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

    fn liveness() -> Liveness {
        Liveness::new("http://10.0.0.1:1".parse().expect("a source"), None)
    }

    #[test]
    fn who_does_not_answer_is_lost_since_it_last_did() {
        let mut seen = liveness();
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
        let mut seen = liveness();
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
    fn a_single_look_tells_by_the_age() {
        let since = |seen: &Liveness| seen.lost.clone().map(|lost| (lost.since, lost.why));
        let dated = |source: &str, written: u64, now: u64| {
            let mut seen = Liveness::new(source.parse().expect("a source"), None);
            seen.record(at(2), Ok(status(written * 1_000)));
            seen.date(Duration::from_secs(now - 2), at(now));
            since(&seen)
        };
        // Five periods of a second, and the clock may be a bit behind.
        for written in [1_000_000, 999_995, 1_000_007] {
            assert_eq!(dated("m1.json", written, 1_000_000), None, "{written}");
        }
        assert_eq!(dated("m1.json", 999_994, 1_000_000), Some((at(999_994), "its status is 6 s old".into())));
        let why = "its status is 3600 s old, if that host's clock and this one's agree";
        assert_eq!(dated("http://10.0.0.1:1", 996_400, 1_000_000), Some((at(996_400), why.into())));
        // Who did not answer did so within the look.
        let mut seen = liveness();
        seen.record(at(2), Err("refused".into()));
        seen.date(Duration::from_secs(1_000_000), at(1_000_002));
        assert_eq!(since(&seen), Some((at(1_000_002), "refused".into())));
    }

    #[test]
    fn another_kind_of_status_is_not_taken() {
        let mut seen = liveness().of(Whose::Agent);
        seen.record(at(0), Ok(status(1)));
        assert_eq!(
            seen.lost.clone().map(|lost| lost.why),
            Some("its status is a fabric broker's, not an agent's".to_owned())
        );
        assert!(seen.status.is_none());
        let mut seen = liveness().of(Whose::FabricBroker);
        seen.record(at(0), Ok(status(1)));
        assert_eq!(seen.lost, None);
    }

    #[test]
    fn what_a_source_says_of_itself_has_an_end() {
        let long = "ä".repeat(100_000);
        let Status::Fabric(mut of) = status(1) else { unreachable!("a fabric broker's") };
        of.name.clone_from(&long);
        let mut seen = liveness();
        seen.record(at(0), Ok(Status::Fabric(of.clone())));
        assert_eq!(seen.name(), "ä".repeat(MOST_CHARACTERS) + "…");
        let mut named = Liveness { expected: Some("m1".into()), ..liveness() };
        named.record(at(0), Ok(Status::Fabric(of)));
        named.record(at(1), Err(long));
        assert!(named.lost.is_some_and(|lost| lost.why.chars().count() == MOST_CHARACTERS + 1));
    }

    #[test]
    fn somebody_else_is_not_taken_for_the_machine() {
        let mut seen = Liveness { expected: Some("m1".into()), ..liveness() };
        seen.record(at(0), Ok(status(1)));
        assert_eq!(seen.lost.map(|lost| lost.why), Some("it says that it is f1, not m1".to_owned()));
        assert!(seen.status.is_none());
    }
}
