//! `credits:` of the file and of services.
//!
//! Rules: a service with credits has neither a guarantee, its own or one that it is nested in, nor a latency level, nor
//! weights of senders: ports divide what they have by the weights of credits alone. Where switches are forwarders, both
//! directions of a flow take the same links, since a port grants only what its own data needs. No port sends more in
//! two of the longest periods than the 32 bits of a grant hold. Hosts give data and messages of credits DSCP values of
//! their own, so that no filter of such a service is by DSCP, and nothing else has these values.
//!
//! Worked example: `x: { match: […], rack: { min: 1Gb/s }, credits: {} }` is refused at `min`.

use super::ReadService;
use crate::credits::Credits;
use crate::dscp::dscp;
use crate::language::{MAX_CREDIT_PERIOD, MAX_CREDIT_WEIGHT, MIN_CREDIT_PERIOD};
use weir_document::{Field, Node, Problems, Span, scalar};
use weir_network::graph::Routing;
use weir_network::read::ReadNetwork;
use weir_network::switches::CREDITS;
use weir_network::{Wiring, layers};
use weir_units::{Bandwidth, ContentionPoint, Direction, Duration, Load, ServiceId, Weight};

/// Reads `credits:` of a service.
pub(super) fn weight(node: &Node) -> Weight {
    node.field("weight", |text| scalar::weight_up_to(text, MAX_CREDIT_WEIGHT)).value().unwrap_or_default()
}

/// Reads `credits:` of the file; `None` if no service has credits.
pub(super) fn read(
    root: &Node,
    network: &ReadNetwork,
    services: &[ReadService],
    problems: &mut Problems,
) -> Option<Credits> {
    let written = root.get("credits");
    let forwarders = root.get("network").and_then(|node| node.get("switches")).and_then(|node| node.get("forwarders"));
    let mut first = None;
    for read in services {
        let Some(span) = read.credits_span else { continue };
        first = first.or(Some((span, read.service.path())));
        beside(read, span, services, problems);
    }
    if first.is_some() {
        dscps(root, services, problems);
    }
    let Some((span, path)) = first else {
        let unused = written.map(|node| (node.span, "no service has credits"));
        let forwarders = forwarders.filter(|_| network.network.forwarders());
        let granting = forwarders.map(|node| (node.span, "switches grant credits, and no service has any"));
        for (span, cause) in unused.into_iter().chain(granting) {
            problems.note(span, cause, "write `credits: {}` on a service whose traffic should wait for credits");
        }
        return None;
    };
    if network.complete && !network.network.forwarders() {
        let cause = format!(
            "service `{path}` has credits, and no switch grants any: they are end to end, and switches may drop its \
             packets"
        );
        let hint = "where every switch grants credits, write `switches: { forwarders: true }` under `network`";
        problems.note(span, cause, hint);
    }
    let too_much = "other traffic needs a part of every port";
    let share = written.map_or(Field::Absent, |node| {
        node.field("share", |text| scalar::percent(text, "a share of credits", too_much))
    });
    let period = written.map_or(Field::Absent, |node| node.field("period-max", |text| scalar::time(text, false)));
    period_in_range(period, network, problems);
    if let (Some(node), true) = (forwarders, network.network.forwarders()) {
        same_links(node.span, network, problems);
    }
    let is_other =
        |read: &&ReadService| read.service.is_leaf() && read.service.credits.is_none() && read.service.level.is_none();
    let has_others = services.iter().any(|read| is_other(&read));
    let share = share.value().and_then(|millionths| Load::from_billionths(u32::try_from(millionths * 1000).ok()?).ok());
    let share = share.or_else(|| has_others.then(Credits::half));
    Some(Credits { share, has_others, period_max: period.value() })
}

/// Keys that have no meaning beside credits.
fn beside(read: &ReadService, span: Span, services: &[ReadService], problems: &mut Problems) {
    let path = read.service.path();
    if let Some(level) = read.level_span {
        let cause = format!("service `{path}` has credits and a latency level");
        let hint = "keep `level` for a bound on its delay, or `credits` for shares without loss";
        problems.error_with(level, cause, hint, (span, "its credits"));
    }
    if let Some(senders) = read.senders_span {
        let cause = format!("service `{path}` has credits and weights of senders");
        let hint = "remove `senders`: ports divide credits by the weight of the service alone";
        problems.error_with(senders, cause, hint, (span, "its credits"));
    }
    let mut at = Some(read);
    while let Some(above) = at {
        if let Some((min, point)) = guarantee(above) {
            let cause = match above.service.path() {
                own if own == path => format!("service `{path}` has credits and a guarantee at the {point}"),
                other => format!("service `{path}` has credits, and `{other}`, in which it is nested, has a guarantee"),
            };
            let hint = "ports divide credits by weight: write a larger `weight` under `credits`, or remove `credits`";
            problems.error_with(min, cause, hint, (span, "its credits"));
            return;
        }
        at = above.service.parent().map(|ServiceId(id)| &services[id as usize]);
    }
}

/// Values that switches take for those of credits, and filters of services with credits whose value hosts replace.
fn dscps(root: &Node, services: &[ReadService], problems: &mut Problems) {
    let [data, messages] = CREDITS;
    for read in services {
        let (path, has_credits) = (read.service.path(), read.credits_span.is_some());
        for (filter, span) in read.service.matches.iter().zip(&read.match_spans) {
            let Some(dscp) = filter.dscp.filter(|dscp| has_credits || CREDITS.contains(dscp)) else { continue };
            let cause = match has_credits {
                true => format!("service `{path}` has credits and matches DSCP {dscp}, and hosts set DSCP {data}"),
                false => format!("service `{path}` matches DSCP {dscp}, which hosts set for credits"),
            };
            problems.error(*span, cause, "match other fields: ports, addresses or a protocol");
        }
    }
    let of_levels = root.get("levels").and_then(|node| node.get("dscp"));
    for item in of_levels.map_or(&[][..], Node::items) {
        if let Some(dscp) = item.read(dscp).value().filter(|dscp| CREDITS.contains(dscp)) {
            let cause = format!("DSCP {dscp} cannot be the value of a level beside services with credits");
            problems.error(
                item.span,
                cause,
                format!("hosts set {data} for data with credits, {messages} for messages"),
            );
        }
    }
}

/// The position of a service's first guarantee.
fn guarantee(read: &ReadService) -> Option<(Span, ContentionPoint)> {
    ContentionPoint::ALL.into_iter().find_map(|point| {
        Direction::ALL.into_iter().find_map(|direction| Some((read.shares[point][direction].min.span()?, point)))
    })
}

fn period_in_range(period: Field<Duration>, network: &ReadNetwork, problems: &mut Problems) {
    let Field::Value(time, span) = period else { return };
    if !(MIN_CREDIT_PERIOD..=MAX_CREDIT_PERIOD).contains(&time) {
        let cause = format!("the period {time} is not between {MIN_CREDIT_PERIOD} and {MAX_CREDIT_PERIOD}");
        return problems.error(span, cause, "write for example `5ms`: longer periods need larger buffers");
    }
    if !network.complete || problems.count() > 0 {
        return;
    }
    let graph = network.wiring.graph(&network.network);
    let fastest = graph.links().map(|link| graph.link(link).rate).max().unwrap_or(Bandwidth::ZERO);
    let bytes = u128::from(fastest.bps()) * u128::from(time.nanos()) / 4_000_000_000;
    if bytes > u128::from(u32::MAX) {
        let cause = format!("a port of {fastest} sends more in two periods of {time} than a grant of 32 bits holds");
        let most = u128::from(u32::MAX) * 4_000_000_000 / u128::from(fastest.bps());
        let step = u128::from(MIN_CREDIT_PERIOD.nanos());
        let most = Duration::from_nanos(u64::try_from(most / step * step).unwrap_or(u64::MAX));
        problems.error(span, cause, format!("write at most {most}"));
    }
}

/// Allocations pass the ports of their flow's data.
fn same_links(span: Span, network: &ReadNetwork, problems: &mut Problems) {
    if !network.complete || problems.count() > 0 {
        return;
    }
    let graph = network.wiring.graph(&network.network);
    if graph.routing == Routing::Symmetric || layers::has_one_path(&graph) {
        return;
    }
    let hint = match network.wiring {
        Wiring::Racks(_) => "write `links: { spines: 1 }` under `network`, or a topology with `routing: symmetric`",
        Wiring::Stated(_) => "write `routing: symmetric` under `network`",
    };
    problems.error(
        span,
        "switches grant credits, and the network has several paths: allocations pass other ports than the data that \
         they are for, and those grant nothing",
        hint,
    );
}
