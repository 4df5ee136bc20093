//! Liveness of a source: its last status, and since when it is lost.
//!
//! A source is lost if fetching its status fails, and also if its status does not change for
//! [`PERIODS`] periods: a hanging agent's server still serves the last status, and a killed agent
//! leaves its file. The last status is kept. A single fetch cannot detect an unchanged status, so
//! the age of the status decides in that case ([`Liveness::date`]).
//!
//! Worked example: the status of an agent was written at 12:00:00, and the period is 1 s. If it is
//! unchanged at 12:00:06, the source is lost since 12:00:00.

use crate::source::Source;
use std::sync::Arc;
use weir_status::Status;
use weir_units::{Duration, Instant};

/// Number of periods for which a status may stay unchanged. After the same number, rack brokers
/// give up on a machine (Parley Table 1).
pub const PERIODS: u64 = 5;

/// Maximum length of a source's name and of the reason for its loss, in characters: one or two
/// lines. Both may come from an untrusted peer.
const MOST_CHARACTERS: usize = 200;

/// The kind of daemon that a source belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// An agent's.
    Agent,
    /// A fabric broker's.
    FabricBroker,
    /// A switch's.
    Switch,
}

impl Whose {
    fn of(status: &Status) -> Self {
        match status {
            Status::Agent(_) => Self::Agent,
            Status::Fabric(_) => Self::FabricBroker,
            Status::Switch(_) => Self::Switch,
        }
    }
    const fn words(self) -> &'static str {
        match self {
            Self::Agent => "an agent",
            Self::FabricBroker => "a fabric broker",
            Self::Switch => "a switch",
        }
    }
}

/// The first [`MOST_CHARACTERS`] characters of an untrusted text.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A source that is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The time of the last change of its status, or of the first fetch if there is no status.
    pub since: Instant,
    /// The reason, in one clause.
    pub why: String,
}

/// The liveness of one source.
#[derive(Debug, Clone)]
pub struct Liveness {
    /// The source.
    pub source: Source,
    /// The expected name of the machine, if any.
    pub expected: Option<String>,
    /// The expected kind of daemon, if any.
    whose: Option<Whose>,
    /// Its last status.
    pub status: Option<Arc<Status>>,
    /// Set while it is lost.
    pub lost: Option<Lost>,
    /// When its status last changed.
    changed: Option<Instant>,
}

impl Liveness {
    /// A source that has not been fetched yet.
    pub fn new(source: Source, expected: Option<String>) -> Self {
        Self { source, expected, whose: None, status: None, lost: None, changed: None }
    }

    /// The same source, which rejects the status of another kind of daemon.
    #[must_use]
    pub fn of(self, whose: Whose) -> Self {
        Self { whose: Some(whose), ..self }
    }

    /// Whether this is the source of a switch's status, as far as that is known.
    pub fn is_switch(&self) -> bool {
        self.whose == Some(Whose::Switch) || matches!(self.status.as_deref(), Some(Status::Switch(_)))
    }

    /// Whether this is the source of a fabric broker's status, as far as that is known.
    pub fn is_fabric_broker(&self) -> bool {
        self.whose == Some(Whose::FabricBroker) || matches!(self.status.as_deref(), Some(Status::Fabric(_)))
    }

    /// The expected name, else the name in the last status, else the source.
    pub fn name(&self) -> String {
        let reported = || self.status.as_ref().map(|status| clipped(status.name()));
        self.expected.clone().or_else(reported).unwrap_or_else(|| self.source.to_string())
    }

    /// The name, with the kind of a source that is no machine.
    pub fn title(&self) -> String {
        if self.is_switch() { format!("switch {}", self.name()) } else { self.name() }
    }

    /// Records the result of a fetch at `now`.
    pub fn record(&mut self, now: Instant, result: Result<Status, String>) {
        let status = match result {
            Ok(status) => status,
            Err(why) => return self.lose(now, why),
        };
        if let Some(whose) = self.whose.filter(|whose| *whose != Whose::of(&status)) {
            return self.lose(now, format!("its status is {}'s, not {}'s", Whose::of(&status).words(), whose.words()));
        }
        if let Some(expected) = self.expected.as_ref().filter(|expected| *expected != status.name()) {
            return self.lose(now, format!("its status is of {}, not of {expected}", clipped(status.name())));
        }
        let moved = self.status.as_ref().is_none_or(|before| before.written_ms() != status.written_ms());
        self.status = Some(Arc::new(status));
        let changed = if moved { now } else { self.changed.unwrap_or(now) };
        self.changed = Some(changed);
        if self.status.as_deref().is_some_and(|status| now.saturating_since(changed) > patience(status)) {
            self.lose(changed, "its status no longer changes".to_owned());
        } else {
            self.lost = None;
        }
    }

    /// Converts times since `start` to times since 1970, and declares a source lost if its status
    /// is older than it may stay unchanged. The age depends on the clocks of both hosts. For a URL
    /// these clocks may differ, which the reason mentions.
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

/// The time for which a status may stay unchanged.
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
    fn failed_fetches_lose_the_source_since_the_last_success() {
        let mut seen = liveness();
        assert_eq!(seen.name(), "http://10.0.0.1:1/status");
        seen.record(at(0), Err("refused".into()));
        assert_eq!(seen.lost, Some(Lost { since: at(0), why: "refused".into() }));
        seen.record(at(1), Ok(status(1)));
        assert_eq!((seen.lost.clone(), seen.name()), (None, "f1".to_owned()));
        seen.record(at(2), Err("slow".into()));
        seen.record(at(9), Err("refused".into()));
        assert_eq!(seen.lost, Some(Lost { since: at(1), why: "refused".into() }));
        assert!(seen.status.is_some(), "the last status is kept");
        seen.record(at(10), Ok(status(2)));
        assert_eq!(seen.lost, None);
    }

    #[test]
    fn unchanged_status_loses_the_source() {
        let mut seen = liveness();
        for second in 0..=5 {
            seen.record(at(second), Ok(status(1)));
            assert_eq!(seen.lost, None, "{second}");
        }
        seen.record(at(6), Ok(status(1)));
        assert_eq!(seen.lost, Some(Lost { since: at(0), why: "its status no longer changes".into() }));
        seen.record(at(7), Ok(status(2)));
        assert_eq!(seen.lost, None);
    }

    #[test]
    fn single_fetch_uses_the_age_of_the_status() {
        let since = |seen: &Liveness| seen.lost.clone().map(|lost| (lost.since, lost.why));
        let dated = |source: &str, written: u64, now: u64| {
            let mut seen = Liveness::new(source.parse().expect("a source"), None);
            seen.record(at(2), Ok(status(written * 1_000)));
            seen.date(Duration::from_secs(now - 2), at(now));
            since(&seen)
        };
        // Five periods of 1 s; the source's clock may also be ahead.
        for written in [1_000_000, 999_995, 1_000_007] {
            assert_eq!(dated("m1.json", written, 1_000_000), None, "{written}");
        }
        assert_eq!(dated("m1.json", 999_994, 1_000_000), Some((at(999_994), "its status is 6 s old".into())));
        let why = "its status is 3600 s old, if that host's clock and this one's agree";
        assert_eq!(dated("http://10.0.0.1:1", 996_400, 1_000_000), Some((at(996_400), why.into())));
        // A failed fetch has the time of that fetch.
        let mut seen = liveness();
        seen.record(at(2), Err("refused".into()));
        seen.date(Duration::from_secs(1_000_000), at(1_000_002));
        assert_eq!(since(&seen), Some((at(1_000_002), "refused".into())));
    }

    #[test]
    fn status_of_another_kind_is_rejected() {
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
    fn names_and_reasons_are_truncated() {
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
    fn status_of_another_machine_is_rejected() {
        let mut seen = Liveness { expected: Some("m1".into()), ..liveness() };
        seen.record(at(0), Ok(status(1)));
        assert_eq!(seen.lost.map(|lost| lost.why), Some("its status is of f1, not of m1".to_owned()));
        assert!(seen.status.is_none());
    }
}
