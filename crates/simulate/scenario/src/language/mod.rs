//! The scenario language: the content of a scenario file, as one static description.
//!
//! A scenario has a policy, a network of its own, or both: [`SCENARIO`] is one of two records, with a
//! policy or without. The check and `schemas/scenario.schema.json` come from it;
//! names and times that refer to each other, to the network or to the policy are checked by `read`.

mod enforcement;
mod events;
mod hosts;
mod tenants;
mod traffic;

pub use events::{EVENT, SERVICE_EVENT};
pub use hosts::HOST_QUEUES;
pub use traffic::{SERVICE_TRAFFIC, TRAFFIC, TRANSPORT};

pub(crate) use enforcement::{ENFORCEMENT_KEYWORDS, MIN_PERIOD, RULE_KEYWORDS, STALE_KEYWORDS, SYSTEMS_FROM};
pub(crate) use events::DIRECTION_KEYWORDS;
pub(crate) use tenants::STRATEGY_KEYWORDS;
pub(crate) use traffic::{
    ARRIVALS_KEYWORDS, BARRIER_KEYWORDS, LOAD_TOO_MUCH, MAX_CONNECTIONS, MAX_PARALLEL, MAX_VALUE, MEMCACHED,
    ORDER_KEYWORDS, PATTERN_KEYWORDS, PTP, SWITCH_KEYWORDS, Sizes, THINKING_KEYWORDS, is_real, sizes_of,
};

use std::ops::Range;
use weir_document::quote;
use weir_document::scalar::{Refusal, Scalar};
use weir_document::shape::{Alternatives, Key, List, Map, Record, Shape};
use weir_network::language::{LINKS_OF_RACKS, NETWORK};
use weir_network::names::{self, NameRange};
use weir_units::{Duration, digits};

/// Bytes of a scenario file.
pub const MAX_FILE: u64 = 1 << 20;
/// Bytes of a file that a scenario names: a list of a million flows is some 40 MB.
pub const MAX_DATA_FILE: u64 = 1 << 28;
/// Connections of a scenario, all traffic together: the simulator keeps some hundred bytes for
/// each.
pub const MAX_FLOWS: u64 = 1_000_000;
/// Flows of random traffic, which exist one after the other.
pub const MAX_MANY_FLOWS: u64 = 100_000_000;
/// Flows of a shuffle or of one round: their order takes 4 to 16 bytes each.
pub const MAX_FLOWS_OF_ROUND: u64 = 10_000_000;
/// Samples of a run.
pub const MAX_SAMPLES: u64 = 1_000_000;
/// The longest run: the simulator counts picoseconds in 64 bits, 213 days ([`weir_units::SimTime`]), and timers that
/// are set near the end of a run need some of them.
pub const MAX_DURATION: Duration = Duration::from_secs(200 * 24 * 3600);
/// The largest number of a link among several between two switches: as many digits as its pattern has.
const MAX_LINK_NUMBER: u32 = 999_999_999;
/// Links that one name stands for, by ranges.
pub const MAX_LINKS_NAMED: u64 = 100_000;

static VERSION: Scalar = Scalar::Words { what: "a format version that this program reads", words: &["1"] };
static NAME: Scalar = Scalar::Checked {
    what: "the name of a scenario",
    check: check_name,
    pattern: r"^[A-Za-z0-9][A-Za-z0-9-]{0,39}$",
    example: "parley-fig14",
};
static PATH: Scalar = Scalar::Text { what: "the path of a policy file" };
static SEED: Scalar = Scalar::Integer { what: "a seed", min: 0, max: u64::MAX as i128 };
static TIME: Scalar = Scalar::Duration { zero: false };
static TIME_OR_ZERO: Scalar = Scalar::Duration { zero: true };
static SIZE: Scalar = Scalar::Bytes;
static RATE: Scalar = Scalar::Rate { unlimited: false, zero: false };
static SERVICE_NAME: Scalar = Scalar::Text { what: "the name of a service" };
static RACK_NAME: Scalar = Scalar::Text { what: "the name of a rack" };
static HOSTS: Scalar = Scalar::Checked {
    what: "the name of a rack, of a machine or a range of machines",
    check: check_hosts,
    pattern: names::RANGE_PATTERN,
    example: "r1",
};
static POLICY_SETTING: Scalar = Scalar::Text { what: "a path and a value" };
static POLICY_SETTINGS: List =
    List { what: "a list of changes of the policy", item: Shape::Scalar(&POLICY_SETTING), min: 1 };
static HOST_LIST: List = List { what: "a list of racks and machines", item: Shape::Scalar(&HOSTS), min: 1 };
const HOST_OR_LIST: Shape = Shape::OneOf(&[Shape::Scalar(&HOSTS), Shape::List(&HOST_LIST)]);
static SWITCH_NAME: Scalar =
    Scalar::Checked { what: "a name", check: names::check_name, pattern: names::NAME_PATTERN, example: "h1" };
static SWITCH_LIST: List = List { what: "a list of switches", item: Shape::Scalar(&SWITCH_RANGE), min: 1 };
static SWITCH_RANGE: Scalar = Scalar::Checked {
    what: "the name of a switch or a range of switches",
    check: check_hosts,
    pattern: names::RANGE_PATTERN,
    example: "spine0",
};
static LINK_NAME: Scalar = Scalar::Checked {
    what: "the name of a link",
    check: check_link,
    pattern: r"^[^<>#]+(#host)?<?->[^<>#]+(#(host|[1-9][0-9]{0,8}))?$",
    example: "left->right",
};

const VERSION_KEY: Key =
    Key::required("scenario", Shape::Scalar(&VERSION), "The version of this format.", "scenario: 1");
const NAME_KEY: Key =
    Key::required("name", Shape::Scalar(&NAME), "Names results and namespaces.", "name: parley-fig14");
const SEED_KEY: Key =
    Key::optional("seed", Shape::Scalar(&SEED), "The seed of all randomness; 1 where not written.", "seed: 1");
const TRANSPORT_KEY: Key = Key::optional(
    "transport",
    Shape::Choice(&TRANSPORT),
    "The transport of flow groups without their own; `newreno` where not written.",
    "transport: newreno",
);
const WITHOUT_FORWARDER_KEY: Key = Key::optional(
    "without-forwarder",
    Shape::List(&SWITCH_LIST),
    "Switches whose ports have no forwarder of credits; all have one where not written. For the simulator.",
    "without-forwarder: [ \"spine[0-1]\" ]",
);
const EVENTS_KEY: Key = Key::optional(
    "events",
    Shape::List(&events::EVENTS),
    "Events of links during the run.",
    "events: [ { at: 10ms, do: down, link: \"leaf0<->spine1\" } ]",
);

/// The whole file.
pub static SCENARIO: Alternatives = Alternatives {
    id: "scenario",
    what: "a scenario",
    doc: "The traffic over a network, its duration, and the measurement.",
    records: &[("policy", &UNDER_POLICY), ("network", &WITH_NETWORK)],
};

static HOSTS_OF_MACHINES: Map =
    Map { what: "a mapping of machines to hosts", name: &MACHINES_NAME, value: Shape::Scalar(&HOSTS_NAME), min: 1 };
static MACHINES_NAME: Scalar = Scalar::Checked {
    what: "a machine or a range of machines",
    check: check_hosts,
    pattern: names::RANGE_PATTERN,
    example: "m1",
};
static HOSTS_NAME: Scalar = Scalar::Checked {
    what: "a host or a range of hosts",
    check: check_hosts,
    pattern: names::RANGE_PATTERN,
    example: "h0",
};

/// A scenario under a policy.
pub static UNDER_POLICY: Record = Record {
    id: "policy-scenario",
    what: "a scenario under a policy",
    doc: "The traffic over the network of a policy, its duration, and the measurement.",
    keys: &[
        VERSION_KEY,
        NAME_KEY,
        Key::required(
            "policy",
            Shape::Scalar(&PATH),
            "The policy file, relative to this file.",
            "policy: parley-fig14.policy.yaml",
        ),
        Key::optional(
            "policy-set",
            Shape::List(&POLICY_SETTINGS),
            "Changes of the policy's values before the run: paths and values, as in events.",
            "policy-set: [ \"levels.factors=[2]\" ]",
        ),
        SEED_KEY,
        Key::required("duration", Shape::Scalar(&TIME), "The duration of the traffic.", "duration: 60s"),
        Key::optional(
            "network",
            Shape::Choice(&NETWORK),
            "A network whose hosts are the policy's machines, in place of the policy's own. For the simulator.",
            "network: { topology: star, hosts: 8, host-link: { rate: 10Gb/s } }",
        ),
        Key::optional(
            "machines",
            Shape::Map(&HOSTS_OF_MACHINES),
            "The host of each machine in that network, by names or ranges; the host of the same name where not \
             written.",
            "machines: { \"m[1-8]\": \"h[0-7]\" }",
        ),
        enforcement::ENFORCEMENT_KEY,
        enforcement::LEVELS_KEY,
        tenants::TENANTS_KEY,
        enforcement::SHAPER_KEY,
        enforcement::BROKERS_KEY,
        Key::optional(
            "links",
            Shape::Record(&LINKS_OF_RACKS),
            "The properties of links and ports between the policy's racks.",
            "links: { delay: 10us, buffer: 256kB, mtu: 1500B, spines: 1 }",
        ),
        hosts::HOSTS_KEY,
        WITHOUT_FORWARDER_KEY,
        Key::optional(
            "aggregates",
            Shape::Record(&weir_transport::pace::PARAMETERS),
            "The settings of services with credits, whose data waits in its host for them: the keys of `pace` but \
             `dup-thresh` and those that the policy has. For the simulator.",
            "aggregates: { period: 1ms }",
        ),
        TRANSPORT_KEY,
        Key::required(
            "traffic",
            Shape::List(&traffic::SERVICE_TRAFFIC_LIST),
            "The flow groups.",
            "traffic: [ { service: a, from: r1, to: r2 } ]",
        ),
        Key::optional(
            "events",
            Shape::List(&events::SERVICE_EVENTS),
            "Events of links, brokers and the policy during the run.",
            "events: [ { at: 10s, do: crash, broker: m1 } ]",
        ),
        Key::required(
            "measure",
            Shape::Record(&events::MEASURE_RACK),
            "The point and interval of the bandwidth measurement.",
            "measure: { rack: r1, direction: tx, every: 1s }",
        ),
    ],
};

/// A scenario with a network of its own.
pub static WITH_NETWORK: Record = Record {
    id: "network-scenario",
    what: "a scenario with a network",
    doc: "The traffic over a network that is described here, its duration, and the measurement. For the simulator.",
    keys: &[
        VERSION_KEY,
        NAME_KEY,
        SEED_KEY,
        Key::required(
            "duration",
            Shape::Scalar(&TIME),
            "The longest simulated time; where all traffic is finite the run ends with the last flow.",
            "duration: 10s",
        ),
        Key::required(
            "network",
            Shape::Choice(&NETWORK),
            "Hosts, switches and links.",
            "network: { topology: star, hosts: 8, host-link: { rate: 10Gb/s } }",
        ),
        hosts::HOSTS_KEY,
        WITHOUT_FORWARDER_KEY,
        Key::optional(
            "aggregates",
            Shape::Record(&weir_transport::pace::PARAMETERS),
            "The data of all flows from one host to another is one flow with credits, which waits in its host for \
             them; the keys of `pace` but `dup-thresh`. Flows send as they do where not written.",
            "aggregates: { period: 200us }",
        ),
        TRANSPORT_KEY,
        Key::required(
            "traffic",
            Shape::List(&traffic::TRAFFIC_LIST),
            "The flow groups.",
            "traffic: [ { from: h0, to: h1 } ]",
        ),
        EVENTS_KEY,
        Key::optional(
            "measure",
            Shape::Record(&events::MEASURE_LINKS),
            "The watched links, and the interval.",
            "measure: { every: 1ms, links: [\"left->right\"] }",
        ),
    ],
};

/// Names go into files and network namespaces: letters, digits and dashes, at most 40.
fn check_name(text: &str) -> Result<(), Refusal> {
    let allowed = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if text.is_empty() || text.len() > 40 || text.starts_with('-') || !allowed {
        return Err(Refusal::new(
            format!("{} is not the name of a scenario", quote(text)),
            "write up to 40 letters, digits and dashes, for example `parley-fig14`",
        ));
    }
    Ok(())
}

fn check_hosts(text: &str) -> Result<(), Refusal> {
    NameRange::parse(text).map(drop)
}

fn check_link(text: &str) -> Result<(), Refusal> {
    link_name(text).map(drop)
}

/// The name of one link or of several.
#[derive(Debug, Clone)]
pub(crate) struct LinkName<'a> {
    pub(crate) from: LinkEnd<'a>,
    pub(crate) to: LinkEnd<'a>,
    /// Whether it means both directions.
    pub(crate) both: bool,
    /// The number of one of several cables between two switches, from 1; `None` stands for all of them.
    pub(crate) number: Option<u32>,
}

/// An end of a link's name.
#[derive(Debug, Clone)]
pub(crate) struct LinkEnd<'a> {
    pub(crate) names: NameRange<'a>,
    /// Whether it is `name#host`: a host, although a switch may have the same name.
    pub(crate) is_host: bool,
}

/// Reads a link's name: `a->b`, `a<->b`, `a->b#2`, `r1#host->r1`.
pub(crate) fn link_name(text: &str) -> Result<LinkName<'_>, Refusal> {
    let (ends, both) = match text.split_once("<->") {
        Some(ends) => (Some(ends), true),
        None => (text.split_once("->"), false),
    };
    let Some((from, behind)) = ends else {
        return Err(Refusal::new(
            format!("{} is not the name of a link", quote(text)),
            "write `a->b` for one direction or `a<->b` for both, in quotes",
        ));
    };
    let (to, number) = match behind.split_once('#') {
        Some((to, tail)) if tail.trim_end() != "host" => (to, Some(number_of_link(text, tail)?)),
        _ => (behind, None),
    };
    let start = text.len() - behind.len();
    let (from, to) = (link_end(text, 0..from.len())?, link_end(text, start..start + to.len())?);
    if number.is_some() && from.names.count().saturating_mul(to.names.count()) > 1 {
        let cause = format!("{} has the number of one link and a range of names", quote(text));
        return Err(Refusal::new(cause, "remove the number, or name one switch at each end"));
    }
    Ok(LinkName { from, to, both, number })
}

/// Reads the end of a link at these bytes of its name. A refused range is suggested within the whole name.
fn link_end(text: &str, at: Range<usize>) -> Result<LinkEnd<'_>, Refusal> {
    let end = text[at.clone()].trim_start();
    let (before, end) = (&text[..at.end - end.len()], end.trim_end());
    let name = end.strip_suffix("#host").unwrap_or(end);
    let behind = &text[before.len() + name.len()..];
    let names = NameRange::parse(name).map_err(|refusal| refusal.within(before, behind))?;
    Ok(LinkEnd { names, is_host: name.len() < end.len() })
}

/// The number behind `#` in the name of a link.
fn number_of_link(text: &str, number: &str) -> Result<u32, Refusal> {
    let read = digits::whole(number.trim_end()).ok().and_then(|number| u32::try_from(number).ok());
    read.filter(|number| (1..=MAX_LINK_NUMBER).contains(number)).ok_or_else(|| {
        Refusal::new(
            format!("{} has no number of a link behind `#`", quote(text)),
            "write `a->b#2` for the second of several links, or `a->b` for all of them",
        )
    })
}
