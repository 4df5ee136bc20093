//! Whole scenarios: read from texts, and run to their ends.

use std::ops::ControlFlow;
use std::path::Path;
use weir_document::Source;
use weir_policy::Policy;
use weir_scenario::Scenario;
use weir_sim::{Options, RunOutcome, simulate};

/// A scenario under a policy; the scenario's `policy` may name any file.
pub(crate) fn read(policy: &str, scenario: impl Into<String>) -> Scenario {
    refusable(policy, scenario).unwrap_or_else(|errors| panic!("{errors}"))
}

/// As [`read`]; what is wrong with it, as text, where it is refused.
pub(crate) fn refusable(policy: &str, scenario: impl Into<String>) -> Result<Scenario, String> {
    let source = Source::from_text("scenario", scenario.into());
    let read = Scenario::from_source(&source, Path::new(""), |_: &Path| Policy::parse("p.yaml", policy));
    read.map(|(scenario, _)| scenario).map_err(|errors| errors.render(false))
}

/// Runs a scenario with a seed, with checkers or without.
pub(crate) fn run_with(scenario: &Scenario, seed: u64, check: bool) -> RunOutcome {
    let outcome = simulate(scenario, seed, &Options { check }, &mut |_| ControlFlow::Continue(()));
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// Reads a scenario and runs it with all checkers.
pub(crate) fn run(policy: &str, scenario: impl Into<String>) -> RunOutcome {
    run_with(&read(policy, scenario), 1, true)
}
