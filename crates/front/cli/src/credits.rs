//! Services with credits before anything runs: what each port needs, and whether the services lose nothing.

use crate::output::{Table, Ui};
use crate::text;
use serde_json::{Value, json};
use std::io;
use weir_network::Graph;
use weir_network::switches::{CREDIT_DATA, CREDIT_MESSAGES};
use weir_policy::{CreditPlan, CreditPort, CreditQueue, Obstacle, Policy};

/// For `--json`; `None` without services with credits.
pub(crate) fn to_json(policy: &Policy) -> Option<Value> {
    let (plan, credits) = (policy.credit_plan()?, policy.credits()?);
    let graph = policy.graph();
    let services = policy.services().leaves().filter_map(|(_, service)| {
        let weight = service.credits()?;
        Some(json!({ "service": service.path(), "weight": f64::from(weight.thousandths()) / 1000.0 }))
    });
    let ports = plan.ports.iter().map(|port| {
        json!({
            "port": graph.link_name(port.example),
            "alike": port.count,
            "kind": if port.is_of_switch { "switch" } else { "host" },
            "rate_bps": text::bps(port.rate),
            "granted_bps": text::bps(port.granted),
            "buffer_bytes": port.buffer.map(|buffer| buffer.get()),
            "needed_bytes": plan.period_max.map(|period| port.needed(period).get()),
            "flows": plan.period_max.map(|period| port.flows(period, plan.frame)),
        })
    });
    Some(json!({
        "lossless": plan.obstacles.is_empty(),
        "reasons": reasons(&plan, &graph),
        "forwarders": policy.network().forwarders(),
        "share": credits.share().map_or(1.0, |share| f64::from(share.billionths()) / 1e9),
        "period_max_us": plan.period_max.map(|period| period.nanos() / 1000),
        "queue": policy.credit_queue().filter(|_| policy.network().forwarders()).map(queue_json),
        "services": services.collect::<Value>(),
        "ports": ports.collect::<Value>(),
    }))
}

fn queue_json(queue: CreditQueue) -> Value {
    let (scheduler, own, others) = match queue {
        CreditQueue::Weighted { own, others } => ("weighted", Some(own), Some(others)),
        CreditQueue::Strict => ("strict", None, None),
    };
    let (dscp, messages) = (CREDIT_DATA, CREDIT_MESSAGES);
    json!({ "scheduler": scheduler, "weight": own, "others_weight": others, "dscp": dscp, "messages_dscp": messages })
}

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
            &name(port, graph),
            &text::rate(port.rate),
            &text::rate(port.granted),
            &buffer,
            &plan.period_max.map_or_else(unknown, |period| text::size(port.needed(period).get())),
            &plan.period_max.map_or_else(unknown, |period| text::whole(port.flows(period, plan.frame))),
        ]);
    }
    table
}

/// A port of a class, and the number of those alike.
fn name(port: &CreditPort, graph: &Graph) -> String {
    let name = graph.link_name(port.example);
    match port.count {
        1 => name,
        count => format!("{name} and {} alike", count - 1),
    }
}

/// The reasons why these services may lose packets, with what removes them.
fn reasons(plan: &CreditPlan, graph: &Graph) -> Vec<String> {
    let reason = |obstacle: &Obstacle| match *obstacle {
        Obstacle::NoForwarders => "credits are end to end: the interfaces of sending hosts and the receivers grant \
                                   them, and switches queue and drop. `network: { switches: { forwarders: true } }` \
                                   states switches that grant credits"
            .to_owned(),
        Obstacle::Paths => "not all shortest paths of the network go up and then down, so a flow's two directions \
                            may take different links, and a port grants nothing to a flow of which only one direction \
                            passes it"
            .to_owned(),
        Obstacle::UnknownBuffer(at) => format!(
            "the buffer of {} is not stated: write it as `buffer` under `network.switches`",
            name(&plan.ports[at], graph)
        ),
        Obstacle::SmallBuffer(at) => {
            let port = &plan.ports[at];
            let fits = port.longest().map_or_else(String::new, |longest| {
                format!(": a `period-max` of {} fits it", text::time(longest.as_secs_f64()))
            });
            format!("the buffer of {} is smaller than 2 \u{b7} R \u{b7} p and an eighth{fits}", name(port, graph))
        }
        Obstacle::NoQueue => "other traffic uses the ports too, and the switches have no queue for credits: write \
                              `scheduler: weighted` under `network.switches`, or beside tenants and levels strict and \
                              weighted queues with a strict one more than levels and network control need, if they \
                              have them"
            .to_owned(),
    };
    plan.obstacles.iter().map(reason).collect()
}
