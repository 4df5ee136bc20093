//! The keys of `events:` and of `measure:`.

use super::network::WEIGHTS_SHAPE;
use super::{LINK_NAME, RACK_NAME, RATE, TIME, TIME_OR_ZERO};
use weir_document::scalar::Scalar;
use weir_document::shape::{Choice, Key, List, Record, Shape};

pub(crate) const DIRECTION_WORDS: &[&str] = &["tx", "rx"];

static DOWN: Record = Record {
    id: "down",
    what: "a link going down",
    doc: "The link loses what is on it and takes nothing more; routes go around it.",
    keys: &[],
};
static UP: Record = Record { id: "up", what: "a link coming up", doc: "The link carries packets again.", keys: &[] };
static NEW_RATE: Record = Record {
    id: "rate",
    what: "a change of rate",
    doc: "The link has another rate from then on.",
    keys: &[Key::required("rate", Shape::Scalar(&RATE), "The new rate.", "rate: 1Gb/s")],
};
static NEW_WEIGHTS: Record = Record {
    id: "weights",
    what: "a change of weights",
    doc: "The classes of a deficit-round-robin queue have other weights from then on.",
    keys: &[Key::required(
        "weights",
        WEIGHTS_SHAPE,
        "The new weight of each class, class 0 first.",
        "weights: [1, 1, 1, 1, 1, 1, 1, 1]",
    )],
};

static EVENTS_BY_WORD: &[&Record] = &[&DOWN, &UP, &NEW_RATE, &NEW_WEIGHTS];
/// An event in the network.
pub static EVENT: Choice = Choice {
    id: "event",
    what: "an event",
    doc: "Something that happens to a link at a given time.",
    tag: "do",
    tag_what: "a kind of event",
    tag_doc: "What happens.",
    default: None,
    common: &[
        Key::required("at", Shape::Scalar(&TIME_OR_ZERO), "When, since the start.", "at: 10ms"),
        Key::required(
            "link",
            Shape::Scalar(&LINK_NAME),
            "The link: `a->b` for one direction, `a<->b` for both.",
            "link: \"left<->right\"",
        ),
    ],
    elsewhere: &[],
    variants: || EVENTS_BY_WORD,
};
pub(super) static EVENTS: List = List { what: "a list of events", item: Shape::Choice(&EVENT), min: 0 };

pub(super) static MEASURE_RACK: Record = Record {
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

static MEASURED_LINKS: List = List { what: "a list of links", item: Shape::Scalar(&LINK_NAME), min: 1 };
pub(super) static MEASURE_LINKS: Record = Record {
    id: "measure-links",
    what: "the measurement of links",
    doc: "Which links and queues are watched, and how often.",
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
