//! Checks of the files that an agent needs.

use super::{Verdict, doubtful, fine, quoted, skipped, wrong};
use crate::facts::{Facts, FileProblem};
use std::path::Path;

/// The fewest days that a certificate shall last.
const DAYS_LEFT: i64 = 30;

fn judged(problem: &FileProblem, why: &'static str, examine: String) -> Verdict {
    let name = |path: &Path| quoted(&path.display().to_string());
    match problem {
        FileProblem::Mode(path, text) => wrong(text, why).mend(format!("chmod 600 {}", name(path))),
        FileProblem::Owner(path, me, text) => wrong(text, why).mend(format!("chown {me} {}", name(path))),
        FileProblem::Other(text) => wrong(text, why).mend(examine),
    }
}

pub(super) fn key(facts: &Facts) -> Verdict {
    let Some((path, read)) = &facts.key else { return skipped("no --key") };
    let name = path.display().to_string();
    match read {
        Ok(()) => fine(name),
        Err(problem) => judged(problem, "the agent does not start", format!("ls -l {}", quoted(&name))),
    }
}

pub(super) fn certificate(facts: &Facts) -> Verdict {
    let Some((path, ends)) = &facts.certificate else { return skipped("no --certificate") };
    let name = path.display().to_string();
    let show = format!("openssl x509 -noout -subject -issuer -dates -in {}", quoted(&name));
    let now = i64::try_from(facts.now_ms / 1_000).unwrap_or(i64::MAX);
    match ends {
        Err(problem) => judged(problem, "the fabric broker refuses this machine, or the agent does not start", show),
        Ok(ends) => match (ends - now).div_euclid(86_400) {
            days if days < DAYS_LEFT => {
                doubtful(format!("{name} ends in {days} days"), "the fabric broker then refuses this machine")
                    .mend(show)
            }
            days => fine(format!("{name}, {days} days left")),
        },
    }
}
