//! `weir sim --check`: whether a scenario is valid, and its size.

use super::Args;
use crate::error::{CommandError, Exit};
use crate::output::{Style, Ui};
use crate::{input, text};
use serde_json::{Value, json};
use weir_document::Diagnostic;
use weir_report::json;
use weir_scenario::{Outcome, Scenario};

/// Reports whether the scenario is valid; `points` are those of the sweep, 1 without.
pub(super) fn check(args: &Args, read: Outcome, points: usize, ui: &mut Ui) -> Result<Exit, CommandError> {
    match (read, args.json) {
        (Ok((_, notes)), true) => {
            let notes: Value = notes.iter().map(Diagnostic::to_json).collect();
            json::write(ui.out(), &json!({"valid": true, "errors": 0, "diagnostics": notes}))?;
            Ok(Exit::Done)
        }
        (Ok((scenario, notes)), false) => {
            input::print_notes(&notes, ui)?;
            let valid = ui.on_out(Style::Good, "valid");
            let points = if points > 1 { format!(", {points} points") } else { String::new() };
            ui.print(&format!("{}: {valid}, {}{points}\n", args.scenario.display(), describe(&scenario)))?;
            Ok(Exit::Done)
        }
        (Err(refused), true) => {
            json::write(ui.out(), &crate::commands::check::refused_json(&refused))?;
            Ok(Exit::Refused)
        }
        (Err(refused), false) => Err(refused.into()),
    }
}

/// The scenario in one line.
pub(super) fn describe(scenario: &Scenario) -> String {
    let graph = scenario.graph();
    let flow_groups = scenario.names().len();
    let switches = graph.switches.len();
    let switches = if switches == 1 { "1 switch".to_owned() } else { format!("{switches} switches") };
    let mut parts = vec![text::count(graph.hosts.len(), "host"), switches];
    if let Some(governed) = scenario.governed() {
        parts = vec![
            text::count(governed.policy.network().racks().len(), "rack"),
            text::count(governed.policy.network().machines().len(), "machine"),
        ];
    }
    match scenario.simulator_only() {
        None => {
            let transfers = scenario.transfers().iter();
            let flows: usize = transfers.map(|traffic| traffic.pairs().len() * traffic.flows as usize).sum();
            parts.push(text::count(flows, "flow"));
            if !scenario.applications().is_empty() {
                parts.push(format!("{} for the lab", text::count(scenario.applications().len(), "real server")));
            }
            parts.push(format!("{} of traffic", scenario.duration()));
        }
        Some(_) => {
            let flow_groups = text::count(flow_groups, "flow group");
            parts.push(format!("{flow_groups}, at most {}", scenario.duration()));
        }
    }
    parts.join(", ")
}
