//! Admission of latency levels: the policy with numbers for `level: auto`, and the refusals that need the bounds.
//!
//! Worked example: a message of 1 kB within 1 µs on 10 Gb/s is refused, with the least time that any level has.

use super::bounds::{Bounds, Premise, ServiceBound};
use super::choose::{Chosen, Shortfall, choose};
use super::traffic::{LevelNetwork, Sizes};
use crate::calculus::Cycle;
use weir_document::Problems;
use weir_policy::{Diagnostics, LevelChoice, Policy};
use weir_units::{Bandwidth, Bytes, Duration, ServiceId};

/// A policy whose levels hold.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The policy, with a number for every level.
    pub policy: Policy,
    /// Its network.
    pub network: LevelNetwork,
    /// The bounds on Linux hosts.
    pub bounds: Bounds,
    /// The planner's choice, if the policy left one to it.
    pub chosen: Option<Chosen>,
}

/// Admits the levels of a policy; `None` for a policy without levels.
///
/// # Errors
/// Targets that are not kept, queues larger than their buffers, and routes for which no bound is known, with
/// positions in the policy's file.
pub fn admit(policy: &Policy) -> Result<Option<Admitted>, Diagnostics> {
    if policy.levels().is_none() {
        return Ok(None);
    }
    let network = LevelNetwork::new(policy);
    let is_auto = policy.services().leaves().any(|(_, service)| service.level() == Some(LevelChoice::Auto));
    let chosen = match is_auto {
        true => Some(choose(policy, &network).map_err(|shortfall| refuse(policy, &network, shortfall))?),
        false => None,
    };
    let admitted = match &chosen {
        Some(chosen) => policy.with_all(settings(policy, chosen))?,
        None => policy.clone(),
    };
    let settings = admitted.levels().map(|levels| Sizes::of_linux(levels.settings()));
    let sizes = settings.unwrap_or(Sizes::Frames);
    let bounds =
        Bounds::of(&admitted, &network, sizes).map_err(|cycle| refuse(policy, &network, Shortfall::Cycle(cycle)))?;
    let mut problems = policy.problems();
    check(&admitted, &network, &bounds, &mut problems);
    match problems.into_diagnostics() {
        Some(errors) => Err(errors),
        None => Ok(Some(Admitted { policy: admitted, network, bounds, chosen })),
    }
}

/// A choice as paths and values in the policy's file.
pub fn settings(policy: &Policy, chosen: &Chosen) -> Vec<(String, String)> {
    let list = chosen.factors.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let mut settings = vec![("levels.factors".to_owned(), format!("[{list}]"))];
    if let Some(segments) = chosen.segments {
        settings.push(("levels.segments".to_owned(), segments.to_string()));
    }
    for (service, level) in &chosen.levels {
        let path = policy.services().get(*service).path().replace('/', ".services.");
        settings.push((format!("services.{path}.level"), level.to_string()));
    }
    settings
}

/// The position of a key of a service.
fn place(policy: &Policy, service: ServiceId, key: &str) -> weir_document::Span {
    let names = policy.services().get(service).path().split('/');
    let mut path: Vec<&str> = names.flat_map(|name| ["services", name]).collect();
    path.push(key);
    policy.span_of(&path)
}

/// The position of `levels:`, or of the first `level:` without it.
fn levels_place(policy: &Policy) -> weir_document::Span {
    let span = policy.span_of(&["levels"]);
    let first = policy.services().leaves().find(|(_, service)| service.level().is_some());
    match first.filter(|_| span == weir_document::Span::default()) {
        Some((service, _)) => place(policy, service, "level"),
        None => span,
    }
}

fn check(policy: &Policy, network: &LevelNetwork, bounds: &Bounds, problems: &mut Problems) {
    for service in bounds.services.iter().filter(|service| !service.is_kept()) {
        not_kept(policy, network, (bounds, service), problems);
    }
    let Ok(routes) = network.routes() else { return };
    for (number, level) in (1..).zip(&bounds.levels) {
        let Some(port) = level.overflows else { continue };
        let (class, bound) = (&routes.ports[port], bounds.network.ports[port][number - 1]);
        let (Some(buffer), Some(bound)) = (class.buffer, bound) else { continue };
        let cause =
            overflow(&format!("level {number}"), &network.graph().link_name(class.example), bound.backlog, buffer);
        problems.error(levels_place(policy), cause, OVERFLOW_HINT);
    }
}

const OVERFLOW_HINT: &str = "write the `machines` of its services, a smaller `packet` or `factors`, or the buffer of \
                             the switches if it is larger (`network.switches.buffer`)";

fn overflow(what: &str, port: &str, needed: Bytes, buffer: Bytes) -> String {
    format!("the queue of {what} may need {needed} at the port {port}, whose buffer is {buffer}")
}

fn not_kept(
    policy: &Policy,
    network: &LevelNetwork,
    (bounds, service): (&Bounds, &ServiceBound),
    problems: &mut Problems,
) {
    let (Some(target), Some(worst)) = (service.target, service.worst) else { return };
    let (path, level) = (policy.services().get(service.service).path(), service.level);
    let span = place(policy, service.service, "latency");
    match worst {
        Ok(worst) => {
            let cause = format!(
                "service `{path}`: a message of {} on level {level} may take {worst}, and its target is {}",
                target.message, target.worst
            );
            problems.error(span, cause, "write `level: auto` to have its level chosen, or a longer `worst`");
        }
        Err(Premise::Unbounded) => {
            let at = bounds.levels[level.index()].unbounded_at;
            let class = network.routes().ok().zip(at).map(|(routes, at)| routes.ports[at].example);
            let port = class.map_or_else(String::new, |example| format!(" {}", network.graph().link_name(example)));
            let cause =
                format!("service `{path}`: level {level} has no bound, since its senders can fill the port{port}");
            problems.error(span, cause, "lower the factors, or write a more urgent level");
        }
        Err(Premise::Frame) => {
            let cause = format!("service `{path}`: a frame of levels carries no payload");
            problems.error(policy.span_of(&["levels", "packet"]), cause, "write a larger `packet`");
        }
        Err(Premise::Unknown(other)) => {
            let other_path = policy.services().get(other).path();
            let cause = format!(
                "service `{path}` waits in its hosts for service `{other_path}`, which is on the same level and states \
                 no messages"
            );
            let hint =
                format!("write `latency: {{ message: …, worst: …, rate: … }}` on `{other_path}`, or another level");
            problems.error(place(policy, other, "level"), cause, hint);
        }
        Err(Premise::Rate { needed, most }) => {
            let (cause, hint) = too_much(path, needed, most);
            problems.error(span, cause, hint);
        }
    }
}

fn too_much(path: &str, needed: Bandwidth, most: Bandwidth) -> (String, &'static str) {
    let cause = format!("service `{path}`: messages of its level need {needed} of a host, and a host may send {most}");
    (cause, "lower `rate`, raise `load` under `levels`, or write the `machines` of the services on levels")
}

/// The reason why no choice keeps every target.
fn refuse(policy: &Policy, network: &LevelNetwork, shortfall: Shortfall) -> Diagnostics {
    let mut problems = policy.problems();
    let path = |service: ServiceId| policy.services().get(service).path();
    match shortfall {
        Shortfall::Time { service, least } => {
            let target = policy.services().get(service).worst_latency();
            let (message, target) =
                target.map_or((Bytes::ZERO, Duration::ZERO), |target| (target.message, target.worst));
            let cause = format!(
                "no level keeps the target of service `{}`: a message of {message} takes at most {least} with the best \
                 choice, and the target is {target}",
                path(service)
            );
            let hint = "write a longer `worst`, the `machines` of the services on levels if they are not on all, or a \
                        smaller `packet`";
            problems.error(place(policy, service, "latency"), cause, hint);
        }
        Shortfall::Rate { service, needed, most } => {
            let (cause, hint) = too_much(path(service), needed, most);
            problems.error(place(policy, service, "latency"), cause, hint);
        }
        Shortfall::Frame { service } => {
            let cause = format!("service `{}`: a frame of levels carries no payload", path(service));
            problems.error(policy.span_of(&["levels", "packet"]), cause, "write a larger `packet`");
        }
        Shortfall::Buffer { port } => {
            let class = network.routes().ok().map(|routes| &routes.ports[port]);
            let name = class.map_or_else(String::new, |class| network.graph().link_name(class.example));
            let buffer = class.and_then(|class| class.buffer).unwrap_or_default();
            let cause = format!("with any level the queue at the port {name} may exceed its buffer of {buffer}");
            problems.error(levels_place(policy), cause, OVERFLOW_HINT);
        }
        Shortfall::Cycle(Cycle { at }) => {
            let cause = format!(
                "no bound is known for latency levels on this network: traffic by the port {} can reach it again",
                network.graph().link_name(at)
            );
            let hint = "bounds are known where paths lead up and down again, as in a leaf-spine or a fat-tree";
            problems.error(policy.span_of(&["network"]), cause, hint);
        }
    }
    problems.into_diagnostics().expect("an error was reported")
}
