//! Services with credits before anything runs: what each port needs, and whether the services lose nothing.

use crate::text;
use serde_json::{Value, json};
use weir_network::Graph;
use weir_network::switches::{CREDIT_DATA, CREDIT_MESSAGES};
use weir_policy::{CreditPlan, CreditPort, CreditQueue, Obstacle, Policy};

/// For programs; the keys are those of `weir check --help`. `None` without services with credits.
pub fn to_json(policy: &Policy) -> Option<Value> {
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

/// A port of a class, and the number of those alike.
pub fn port_name(port: &CreditPort, graph: &Graph) -> String {
    let name = graph.link_name(port.example);
    match port.count {
        1 => name,
        count => format!("{name} and {} alike", count - 1),
    }
}

/// The reasons why these services may lose packets, with what removes them.
pub fn reasons(plan: &CreditPlan, graph: &Graph) -> Vec<String> {
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
            port_name(&plan.ports[at], graph)
        ),
        Obstacle::SmallBuffer(at) => {
            let port = &plan.ports[at];
            let fits = port.longest().map_or_else(String::new, |longest| {
                format!(": a `period-max` of {} fits it", text::time(longest.as_secs_f64()))
            });
            format!("the buffer of {} is smaller than 2 \u{b7} R \u{b7} p and an eighth{fits}", port_name(port, graph))
        }
        Obstacle::NoQueue => "other traffic uses the ports too, and the switches have no queue for credits: write \
                              `scheduler: weighted` under `network.switches`, or beside tenants and levels strict and \
                              weighted queues with a strict one more than levels and network control need, if they \
                              have them"
            .to_owned(),
    };
    plan.obstacles.iter().map(reason).collect()
}
