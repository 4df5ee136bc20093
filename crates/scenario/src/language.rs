//! The scenario language: what a scenario file may contain, as one static description.
//!
//! The check and `schemas/scenario.schema.json` come from [`SCENARIO`]; names and times that refer to each
//! other or to the policy are checked by `read`.

use weir_document::quote;
use weir_document::scalar::{Refusal, Scalar};
use weir_document::shape::{Key, List, Record, Shape};
use weir_policy::names::NameRange;
use weir_units::{Bytes, Duration};

/// Bytes of a scenario file.
pub const MAX_FILE: u64 = 1 << 20;
/// Connections of a scenario, all traffic together: the simulator keeps some hundred bytes for each.
pub const MAX_FLOWS: u64 = 1_000_000;
/// Samples of a run.
pub const MAX_SAMPLES: u64 = 1_000_000;
/// The longest run.
pub const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);
/// The longest link: more than once around the earth in glass.
pub const MAX_DELAY: Duration = Duration::from_secs(1);
/// The largest buffer of a port; the deepest switches have a few gigabytes for all ports.
pub const MAX_BUFFER: Bytes = Bytes::new(10_000_000_000);
/// The smallest packet size that IPv4 hosts must take (RFC 791).
pub const MIN_MTU: Bytes = Bytes::new(576);
/// Jumbo frames.
pub const MAX_MTU: Bytes = Bytes::new(9000);

pub(crate) const PATTERN_WORDS: &[&str] = &["full-mesh", "pairs"];
pub(crate) const ENFORCEMENT_WORDS: &[&str] = &["rack-broker", "none"];
pub(crate) const DIRECTION_WORDS: &[&str] = &["tx", "rx"];

static VERSION: Scalar = Scalar::Words { what: "a format version that this program reads", words: &["1"] };
static NAME: Scalar = Scalar::Checked {
    what: "the name of a scenario",
    check: check_name,
    pattern: r"^[A-Za-z0-9][A-Za-z0-9-]{0,39}$",
    example: "parley-fig14",
};
static PATH: Scalar = Scalar::Text { what: "the path of a policy file" };
static TIME: Scalar = Scalar::Duration { zero: false };
static TIME_OR_ZERO: Scalar = Scalar::Duration { zero: true };
static SIZE: Scalar = Scalar::Bytes;
static SERVICE_NAME: Scalar = Scalar::Text { what: "the name of a service" };
static RACK_NAME: Scalar = Scalar::Text { what: "the name of a rack" };
static HOSTS: Scalar = Scalar::Checked {
    what: "the name of a rack, of a machine or a range of machines",
    check: check_hosts,
    pattern: r"^[A-Za-z0-9_.-]{0,63}(\[[0-9]{1,9}-[0-9]{1,9}\])?[A-Za-z0-9_.-]{0,63}$",
    example: "r1",
};
static HOST_LIST: List = List { what: "a list of racks and machines", item: Shape::Scalar(&HOSTS), min: 1 };
const HOST_OR_LIST: Shape = Shape::OneOf(&[Shape::Scalar(&HOSTS), Shape::List(&HOST_LIST)]);

/// The whole file.
pub static SCENARIO: Record = Record {
    id: "scenario",
    what: "a scenario",
    doc: "What traffic runs over a policy's network, for how long, and what is measured.",
    keys: &[
        Key::required("scenario", Shape::Scalar(&VERSION), "The version of this format.", "scenario: 1"),
        Key::required("name", Shape::Scalar(&NAME), "Names results and namespaces.", "name: parley-fig14"),
        Key::required(
            "policy",
            Shape::Scalar(&PATH),
            "The policy file, relative to this file.",
            "policy: parley-fig14.policy.yaml",
        ),
        Key::optional(
            "seed",
            Shape::Scalar(&Scalar::Integer { what: "a seed", min: 0, max: u64::MAX as i128 }),
            "The seed of all randomness; 1 where not written.",
            "seed: 1",
        ),
        Key::required("duration", Shape::Scalar(&TIME), "How long traffic runs.", "duration: 60s"),
        Key::optional(
            "enforcement",
            Shape::Scalar(&Scalar::Words { what: "a kind of enforcement", words: ENFORCEMENT_WORDS }),
            "What enforces the policy: `rack-broker` (the default), or `none` to see the transport alone.",
            "enforcement: rack-broker",
        ),
        Key::optional(
            "links",
            Shape::Record(&LINKS),
            "What the policy does not say about links and ports.",
            "links: { delay: 10us, buffer: 256kB, mtu: 1500B, spines: 1 }",
        ),
        Key::required(
            "traffic",
            Shape::List(&TRAFFIC_LIST),
            "Who sends what to whom.",
            "traffic: [ { service: a, from: r1, to: r2 } ]",
        ),
        Key::required(
            "measure",
            Shape::Record(&MEASURE),
            "Where and how often bandwidth is measured.",
            "measure: { rack: r1, direction: tx, every: 1s }",
        ),
    ],
};

static LINKS: Record = Record {
    id: "links",
    what: "the links",
    doc: "Properties of links and ports.",
    keys: &[
        Key::optional("delay", Shape::Scalar(&TIME), "One-way propagation delay of each link; 10us.", "delay: 10us"),
        Key::optional("buffer", Shape::Scalar(&SIZE), "Buffer of each switch port; 256kB.", "buffer: 256kB"),
        Key::optional("mtu", Shape::Scalar(&SIZE), "The largest IP packet, 576B to 9000B; 1500B.", "mtu: 1500B"),
        Key::optional(
            "spines",
            Shape::Scalar(&Scalar::Integer { what: "a number of spine switches", min: 1, max: 64 }),
            "Spine switches; a rack's uplink is divided evenly over them; 1.",
            "spines: 1",
        ),
    ],
};

static TRAFFIC_LIST: List = List { what: "a list of traffic", item: Shape::Record(&TRAFFIC), min: 1 };
static TRAFFIC: Record = Record {
    id: "traffic",
    what: "traffic",
    doc: "Long-lived TCP transfers of one service.",
    keys: &[
        Key::required("service", Shape::Scalar(&SERVICE_NAME), "The leaf service that sends.", "service: dfs"),
        Key::required("from", HOST_OR_LIST, "The senders: racks, machines, or a list of them.", "from: r1"),
        Key::required("to", HOST_OR_LIST, "The receivers: racks, machines, or a list of them.", "to: r2"),
        Key::optional(
            "pattern",
            Shape::Scalar(&Scalar::Words { what: "a pattern", words: PATTERN_WORDS }),
            "`full-mesh`: every sender to every receiver (the default); `pairs`: the i-th sender to the i-th \
             receiver, both in canonical order.",
            "pattern: full-mesh",
        ),
        Key::optional(
            "flows",
            Shape::Scalar(&Scalar::Integer { what: "a number of flows", min: 1, max: MAX_FLOWS as i128 }),
            "TCP connections for each pair of machines; 1.",
            "flows: 1",
        ),
        Key::optional("start", Shape::Scalar(&TIME_OR_ZERO), "When they start; 0s.", "start: 0s"),
        Key::optional("stop", Shape::Scalar(&TIME), "When they stop; the duration.", "stop: 40s"),
    ],
};

static MEASURE: Record = Record {
    id: "measure",
    what: "the measurement",
    doc: "Where and how often bandwidth is measured.",
    keys: &[
        Key::required("rack", Shape::Scalar(&RACK_NAME), "The rack whose uplink is watched.", "rack: r1"),
        Key::required(
            "direction",
            Shape::Scalar(&Scalar::Words { what: "a direction", words: DIRECTION_WORDS }),
            "`tx` or `rx`, seen from the rack.",
            "direction: tx",
        ),
        Key::required("every", Shape::Scalar(&TIME), "The length of one sample.", "every: 1s"),
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
