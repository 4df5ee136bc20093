//! The tables of a run in the lab.

use crate::commands::sim::print::{UNKNOWN, heading, seconds, services_tables};
use crate::error::CommandError;
use crate::output::{Table, Ui};
use weir_results::Results;
use weir_results::policy::{Completion, PortRecord};

/// The results that only the lab has: requests to real servers, marks, and agents.
pub(super) fn print(results: &Results, ui: &mut Ui) -> Result<(), CommandError> {
    let Some(policy) = &results.policy else { return Ok(()) };
    services_tables(policy, ui)?;
    let times = |count: u64, of: Completion| {
        let known = [of.p50, of.p99, of.max].map(|time| time.map_or(UNKNOWN.to_owned(), seconds));
        [count.to_string(), of.unfinished.to_string()].into_iter().chain(known)
    };
    if !policy.messages.is_empty() {
        heading("Messages, from their due time to their last byte", ui)?;
        let mut table = Table::new(&["name", "service", ">messages", ">under way", ">median", ">99 %", ">slowest"]);
        for own in &policy.messages {
            table.row([own.name.clone(), own.service.clone()].into_iter().chain(times(own.messages, own.times)));
        }
        ui.print_table(&table, 2)?;
        ui.print("\n")?;
    }
    if !policy.requests.is_empty() {
        heading("Requests to real servers, from arrival to reply", ui)?;
        let mut table = Table::new(&["name", "service", ">requests", ">no reply", ">median", ">99 %", ">slowest"]);
        for own in &policy.requests {
            table.row([own.name.clone(), own.service.clone()].into_iter().chain(times(own.requests, own.times)));
        }
        ui.print_table(&table, 2)?;
        ui.print("\n")?;
    }
    if !policy.agents.is_empty() {
        heading("Agents", ui)?;
        let mut table =
            Table::new(&["machine", "enforces by", "mode", ">arrived marked", ">of", ">answers sent", ">received"]);
        for agent in &policy.agents {
            table.row([
                agent.machine.clone(),
                format!("{}, {}", agent.backend, agent.attachment),
                agent.mode.clone(),
                agent.packets_marked.to_string(),
                agent.packets_markable.to_string(),
                agent.feedback_sent.to_string(),
                agent.feedback_received.to_string(),
            ]);
        }
        ui.print_table(&table, 2)?;
        ui.print("\n")?;
    }
    let sum = |of: fn(&PortRecord) -> u64| policy.ports.iter().map(of).sum::<u64>();
    match policy.ports.len() {
        0 => ui.print("no port of a switch marked\n")?,
        ports => ui.print(&format!(
            "{ports} ports of switches marked {} of {} packets; {} found a queue above the threshold\n",
            sum(|port| port.marked),
            sum(|port| port.packets),
            sum(|port| port.above),
        ))?,
    }
    Ok(())
}
