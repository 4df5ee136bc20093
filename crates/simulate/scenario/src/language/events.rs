//! The keys of `events:` and of `measure:`.

use super::{HOSTS, LINK_NAME, RACK_NAME, RATE, TIME, TIME_OR_ZERO};
use weir_document::quote;
use weir_document::scalar::{Refusal, Scalar};
use weir_document::shape::{Choice, Key, List, Record, Shape};
use weir_network::language::WEIGHTS_SHAPE;

pub(crate) const DIRECTION_KEYWORDS: &[&str] = &["tx", "rx"];

const LINK_KEY: Key = Key::required(
    "link",
    Shape::Scalar(&LINK_NAME),
    "The link: `a->b` for one direction, `a<->b` for both.",
    "link: \"left<->right\"",
);
static DOWN: Record = Record {
    id: "down",
    what: "a link going down",
    doc: "The link loses the packets on it and accepts none; routes avoid it.",
    keys: &[LINK_KEY],
};
static UP: Record =
    Record { id: "up", what: "a link coming up", doc: "The link carries packets again.", keys: &[LINK_KEY] };
static NEW_RATE: Record = Record {
    id: "rate",
    what: "a change of rate",
    doc: "The link has another rate from then on.",
    keys: &[LINK_KEY, Key::required("rate", Shape::Scalar(&RATE), "The new rate.", "rate: 1Gb/s")],
};
static NEW_WEIGHTS: Record = Record {
    id: "weights",
    what: "a change of weights",
    doc: "The classes of a deficit-round-robin queue have other weights from then on.",
    keys: &[
        LINK_KEY,
        Key::required(
            "weights",
            WEIGHTS_SHAPE,
            "The new weight of each class, class 0 first.",
            "weights: [1, 1, 1, 1, 1, 1, 1, 1]",
        ),
    ],
};

static EVENTS_BY_KEYWORD: &[&Record] = &[&DOWN, &UP, &NEW_RATE, &NEW_WEIGHTS];
const NEEDS_POLICY: &str = "it needs a policy: remove it, or write `policy` in place of `network`";
/// An event in a network.
pub static EVENT: Choice = Choice {
    id: "event",
    what: "an event",
    doc: "An event of a link at a given time. A key with the name of its kind, such as `rate`, implies the kind.",
    tag: "do",
    tag_what: "a kind of event",
    tag_doc: "The kind of event.",
    default: None,
    common: &[Key::required("at", Shape::Scalar(&TIME_OR_ZERO), "The time since the start.", "at: 10ms")],
    elsewhere: &[("broker", NEEDS_POLICY), ("policy", NEEDS_POLICY), ("shaper-interval", NEEDS_POLICY)],
    variants: || EVENTS_BY_KEYWORD,
};
pub(super) static EVENTS: List = List { what: "a list of events", item: Shape::Choice(&EVENT), min: 0 };

static BROKER_LIST: List = List { what: "a list of brokers", item: Shape::Scalar(&HOSTS), min: 1 };
const BROKER_OR_LIST: Shape = Shape::OneOf(&[Shape::Scalar(&HOSTS), Shape::List(&BROKER_LIST)]);
const BROKER_KEY: Key = Key::required(
    "broker",
    BROKER_OR_LIST,
    "The brokers: machines, ranges of them, racks with all their machines, `fabric` for the fabric broker, or a list \
     of these.",
    "broker: [m1, m2]",
);
static CRASH: Record = Record {
    id: "crash",
    what: "a crash",
    doc: "Brokers crash and lose their state. Their last limits stay in force at their machine for the timeout; \
          then the static policy returns.",
    keys: &[BROKER_KEY],
};
static RESTART: Record = Record {
    id: "restart",
    what: "a restart",
    doc: "Brokers start anew with the limits in force, if those have not ended, whether they had crashed or not.",
    keys: &[BROKER_KEY],
};
static NEW_INTERVAL: Record = Record {
    id: "shaper-interval",
    what: "a change of the metering interval",
    doc: "All receive meters measure over another interval from then on.",
    keys: &[Key::required("shaper-interval", Shape::Scalar(&TIME), "The new interval.", "shaper-interval: 1ms")],
};
static SETTING: Scalar = Scalar::Checked {
    what: "a change of the policy",
    check: check_setting,
    pattern: "^[^=]+=.+$",
    example: "services.tenant.fabric.max=50Mb/s",
};
static NEW_POLICY: Record = Record {
    id: "policy",
    what: "a change of the policy",
    doc: "The policy is another one from then on, with the same network and the same services. Changes add up.",
    keys: &[Key::required(
        "policy",
        Shape::Scalar(&SETTING),
        "The replaced or added value in the policy's file: a path and a value.",
        "policy: \"services.tenant.fabric.max=50Mb/s\"",
    )],
};

static SERVICE_EVENTS_BY_KEYWORD: &[&Record] =
    &[&DOWN, &UP, &NEW_RATE, &NEW_WEIGHTS, &CRASH, &RESTART, &NEW_INTERVAL, &NEW_POLICY];
/// An event under a policy.
pub static SERVICE_EVENT: Choice = Choice {
    id: "service-event",
    what: "an event",
    doc: "An event of a link, of brokers, or of the policy at a given time.",
    elsewhere: &[],
    variants: || SERVICE_EVENTS_BY_KEYWORD,
    ..EVENT
};
pub(super) static SERVICE_EVENTS: List = List { what: "a list of events", item: Shape::Choice(&SERVICE_EVENT), min: 0 };

fn check_setting(text: &str) -> Result<(), Refusal> {
    match text.split_once('=') {
        Some((path, value)) if !path.trim().is_empty() && !value.trim().is_empty() => Ok(()),
        _ => Err(Refusal::new(
            format!("{} is not a change of the policy", quote(text)),
            "write a path in the policy's file, `=` and a value, for example `services.tenant.fabric.max=50Mb/s`",
        )),
    }
}

pub(super) static MEASURE_RACK: Record = Record {
    id: "measure",
    what: "the measurement",
    doc: "The point and interval of the bandwidth measurement.",
    keys: &[
        Key::required("rack", Shape::Scalar(&RACK_NAME), "The rack whose uplink is watched.", "rack: r1"),
        Key::required(
            "direction",
            Shape::Scalar(&Scalar::Words { what: "a direction", words: DIRECTION_KEYWORDS }),
            "`tx` or `rx`, seen from the rack.",
            "direction: tx",
        ),
        Key::required("every", Shape::Scalar(&TIME), "The length of one sample.", "every: 1s"),
    ],
};

static MEASURED_LINKS: List = List { what: "a list of links", item: Shape::Scalar(&LINK_NAME), min: 1 };
pub(super) static MEASURE_LINKS: Record = Record {
    id: "measure-links",
    what: "the measurement of links",
    doc: "The watched links and queues, and the interval.",
    keys: &[
        Key::optional(
            "every",
            Shape::Scalar(&TIME),
            "The length of one sample; a two-hundredth of the duration where not written.",
            "every: 1ms",
        ),
        Key::optional(
            "links",
            Shape::List(&MEASURED_LINKS),
            "The links; the first 64 between switches where not written, or to hosts where there are none.",
            "links: [\"left->right\"]",
        ),
    ],
};
