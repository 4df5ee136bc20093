//! The tables of services with credits: what each port needs, and whether the services lose nothing.

use crate::output::{Table, Ui};
use crate::text;
use std::io;
use weir_answers::credits::{port_name, reasons};
use weir_network::Graph;
use weir_network::switches::{CREDIT_DATA, CREDIT_MESSAGES};
use weir_policy::{CreditPlan, CreditQueue, Policy};

/// The queues of ports of switches that grant credits, as `weir switch` configures them.
fn queues(policy: &Policy) -> Option<String> {
    if !policy.network().forwarders() {
        return None;
    }
    let own = match policy.credit_queue()? {
        CreditQueue::Weighted { own, others } => {
            format!("a queue of weight {own} beside weight {others} of all other traffic")
        }
        CreditQueue::Strict => "a strict queue before that of all other traffic".to_owned(),
    };
    let messages = if policy.queue_budget().control > 0 { "in a strict queue above it" } else { "in the same queue" };
    Some(format!(
        "queues of switches: data with credits (DSCP {CREDIT_DATA}) has {own}, messages of credits (DSCP \
         {CREDIT_MESSAGES}) are {messages}. `weir switch` configures them"
    ))
}

/// Prints services and ports, if services have credits.
pub(crate) fn print(policy: &Policy, ui: &mut Ui) -> io::Result<()> {
    let (Some(plan), Some(credits)) = (policy.credit_plan(), policy.credits()) else { return Ok(()) };
    let graph = policy.graph();
    let share = credits.share().map_or_else(|| "all".to_owned(), |share| share.to_string());
    let period = match (plan.period_max, credits.period_max()) {
        (Some(period), Some(_)) => format!("a period of at most {}", text::time(period.as_secs_f64())),
        (Some(period), None) => {
            format!("a period of at most {}, the longest that the buffers allow", text::time(period.as_secs_f64()))
        }
        (None, _) => "an unknown longest period".to_owned(),
    };
    let left = if policy.levels().is_some() { "what levels leave of every port" } else { "every port" };
    ui.print(&format!("\ncredits: {share} of {left}, {period}\n"))?;

    let mut table = Table::new(&["service", ">weight", "no loss", ""]);
    let lossless = if plan.obstacles.is_empty() { "yes" } else { "no" };
    let scope = if policy.network().forwarders() { "granted by every port" } else { "end to end" };
    for (_, service) in policy.services().leaves() {
        let Some(weight) = service.credits() else { continue };
        table.row([service.path(), &weight.to_string(), lossless, scope]);
    }
    ui.print_table(&table, 2)?;
    ui.print("\n")?;
    ui.print_table(&ports(&plan, &graph), 2)?;
    let mut lines = reasons(&plan, &graph);
    if lines.is_empty() {
        lines.push(
            "no packet of these services is lost while links are up: every switch grants credits, packets take the \
             same links in both directions, and each port holds 2 \u{b7} R \u{b7} p, and an eighth of it for packets \
             without credits, such as acknowledgements."
                .to_owned(),
        );
    }
    lines.extend(queues(policy));
    for line in lines {
        ui.print(&format!("\n{}", text::filled(&line, 100, "  ", "  ")))?;
    }
    Ok(())
}

fn ports(plan: &CreditPlan, graph: &Graph) -> Table {
    let mut table = Table::new(&["port", ">rate", ">R", ">buffer", ">needed", ">flows of two frames"]);
    let unknown = || "unknown".to_owned();
    for port in &plan.ports {
        let buffer = match (port.is_of_switch, port.buffer) {
            (false, _) => "in the host".to_owned(),
            (true, Some(buffer)) => text::size(buffer.get()),
            (true, None) => "not stated".to_owned(),
        };
        table.row([
            &port_name(port, graph),
            &text::rate(port.rate),
            &text::rate(port.granted),
            &buffer,
            &plan.period_max.map_or_else(unknown, |period| text::size(port.needed(period).get())),
            &plan.period_max.map_or_else(unknown, |period| text::whole(port.flows(period, plan.frame))),
        ]);
    }
    table
}
