//! The language of files under `papers/`, as one static description.
//!
//! The check, `schemas/paper.schema.json` and the reference in `docs/reference/papers.md` come from
//! [`PAPER`]; names that refer to each other, to scenarios or to policies are checked by `read`.

mod datacenters;
mod measures;

use datacenters::{DATACENTER_KEY, DATACENTERS, INACTIVE_KEY, INACTIVE_USE_KEY, MAP_KEY};
pub(crate) use datacenters::{
    DIVIDING_KEYWORDS, DRAWN_KEYWORDS, DSCP_KEYWORDS, LINKS_KEYWORDS, MAP_KEYWORDS, QUEUED_KEYWORDS, STRATEGIES,
    TENANT_KEYWORDS,
};
pub use measures::MEASURE;
pub(crate) use measures::{
    BOUND_KEYWORDS, DIRECTION_KEYWORDS, EPOCH_KEYWORDS, LEVEL_KEYWORDS, POINT_KEYWORDS, SHARE_KEYWORDS,
};

use crate::unit;
use weir_document::quote;
use weir_document::scalar::{self, Refusal, Scalar};
use weir_document::shape::{Choice, Key, List, Map, Record, Shape};
use weir_units::Duration;

/// Bytes of a file.
pub const MAX_FILE: u64 = 1 << 20;
/// Seeds of a run: more runs than is practical.
pub const MAX_SEEDS: i128 = 100;
/// Messages of a simulated queue: some ten seconds.
pub const MAX_MESSAGES: i128 = 1_000_000_000;
/// Services that brokers share among or report.
pub const MAX_SERVICES: i128 = 1_000_000;
/// Racks of a fabric.
pub const MAX_RACKS: i128 = 1_000_000;
/// Machines of a rack.
pub const MAX_MACHINES: i128 = 10_000;

static VERSION: Scalar = Scalar::Words { what: "a format version that this program reads", words: &["2"] };
static ID: Scalar = Scalar::Checked {
    what: "the name of an experiment",
    check: check_id,
    pattern: r"^[a-z0-9][a-z0-9-]{0,39}$",
    example: "parley-fig14",
};
static NAME: Scalar =
    Scalar::Checked { what: "a name", check: check_id, pattern: r"^[a-z0-9][a-z0-9-]{0,39}$", example: "alone" };
static TEXT: Scalar = Scalar::Text { what: "a text" };
static PATH: Scalar = Scalar::Text { what: "the path of a file" };
static TIME: Scalar = Scalar::Duration { zero: false };
static RATE: Scalar = Scalar::Rate { unlimited: false, zero: false };
static SIZE: Scalar = Scalar::Bytes;
static UNIT: Scalar = Scalar::Words { what: "a unit", words: unit::WORDS };
static NUMBER: Scalar = Scalar::Decimal { what: "a number", min: 0, max: 999_999_999_999_000_000 };
static SEEDS: Scalar = Scalar::Integer { what: "a number of seeds", min: 1, max: MAX_SEEDS };
static SCALE: Scalar = Scalar::Integer { what: "a scale", min: 1, max: 1_000_000 };
static LOAD: Scalar = Scalar::Percent { what: "a load", too_much: "a queue then grows without end" };
static PERCENTILE: Scalar = Scalar::Percent { what: "a percentile", too_much: "that is not a percentile" };
static TOLERANCE: Scalar = Scalar::Percent { what: "a tolerance", too_much: "everything would be within it" };
static MESSAGES: Scalar = Scalar::Integer { what: "a number of messages", min: 1_000, max: MAX_MESSAGES };
static SERVICES: Scalar = Scalar::Integer { what: "a number of services", min: 1, max: MAX_SERVICES };
static MACHINES: Scalar = Scalar::Integer { what: "a number of machines", min: 2, max: MAX_MACHINES };
static RACKS: Scalar = Scalar::Integer { what: "a number of racks", min: 1, max: MAX_RACKS };
static SETTING: Scalar =
    Scalar::Checked { what: "a change", check: check_change, pattern: r"^[^=]+=.*$", example: "traffic[0].load=50%" };
static WINDOW: Scalar = Scalar::Checked {
    what: "a window of a run",
    check: |text| window(text).map(drop),
    pattern: r"^[^-]+-[^-]+$",
    example: "10s-20s",
};

static SET: List = List { what: "a list of changes", item: Shape::Scalar(&SETTING), min: 1 };
static NOTES: List = List { what: "a list of notes", item: Shape::Scalar(&TEXT), min: 0 };
static NAMES: List = List { what: "a list of names", item: Shape::Scalar(&TEXT), min: 1 };
static VALUES: List = List { what: "a list of values", item: Shape::Record(&VALUE), min: 1 };
static FIGURES: List = List { what: "a list of figures", item: Shape::Choice(&FIGURE), min: 0 };
static RUNS: Map = Map { what: "runs by name", name: &NAME, value: Shape::Record(&RUN), min: 1 };
static WINDOWS: Map = Map {
    what: "windows by name",
    name: &NAME,
    value: Shape::OneOf(&[Shape::Scalar(&WINDOW), Shape::Record(&WINDOW_BY_SETTING)]),
    min: 1,
};
const MESSAGES_OR_BOTH: Shape = Shape::OneOf(&[Shape::Scalar(&MESSAGES), Shape::Record(&MESSAGES_BY_SETTING)]);

static WINDOW_BY_SETTING: Record = Record {
    id: "window",
    what: "a window for each setting",
    doc: "A window that differs between the settings, as runs do.",
    keys: &[
        Key::required("quick", Shape::Scalar(&WINDOW), "In the quick setting.", "quick: 4s-8s"),
        Key::required("full", Shape::Scalar(&WINDOW), "In the full one.", "full: 60s-300s"),
    ],
};
static MESSAGES_BY_SETTING: Record = Record {
    id: "messages",
    what: "numbers of messages for each setting",
    doc: "A number that differs between the settings.",
    keys: &[
        Key::required("quick", Shape::Scalar(&MESSAGES), "In the quick setting.", "quick: 1000000"),
        Key::required("full", Shape::Scalar(&MESSAGES), "In the full one.", "full: 100000000"),
    ],
};
static TAKES: Record = Record {
    id: "takes",
    what: "times",
    doc: "The approximate duration of the experiment on two cores.",
    keys: &[
        Key::required("quick", Shape::Scalar(&TIME), "In the quick setting.", "quick: 20s"),
        Key::required("full", Shape::Scalar(&TIME), "In the full one.", "full: 10min"),
    ],
};
static IN_SETTING: Record = Record {
    id: "setting",
    what: "a setting of a run",
    doc: "Values for one setting only.",
    keys: &[
        Key::optional("set", Shape::List(&SET), "Further changes of the scenario.", "set: [ \"duration=10s\" ]"),
        Key::optional("seeds", Shape::Scalar(&SEEDS), "The number of seeds; 1.", "seeds: 3"),
    ],
};
static RUN: Record = Record {
    id: "run",
    what: "a run",
    doc: "A scenario with some values changed.",
    keys: &[
        Key::optional(
            "scenario",
            Shape::Scalar(&PATH),
            "The scenario file, relative to this file; that of the experiment where not written.",
            "scenario: ../scenarios/parley-fig14.scenario.yaml",
        ),
        Key::optional(
            "set",
            Shape::List(&SET),
            "Changes of the scenario, as for `weir sim --set`.",
            "set: [ \"enforcement=none\" ]",
        ),
        Key::optional(
            "quick",
            Shape::Record(&IN_SETTING),
            "The quick setting.",
            "quick: { set: [ \"duration=10s\" ] }",
        ),
        Key::optional("full", Shape::Record(&IN_SETTING), "The full setting.", "full: { seeds: 3 }"),
        Key::optional(
            "scale",
            Shape::Scalar(&SCALE),
            "Published rates are this many times the scenario's; 1.",
            "scale: 100",
        ),
    ],
};

const RUN_KEY: Key = Key::required("run", Shape::Scalar(&TEXT), "The run.", "run: parley");
const WINDOW_KEY: Key = Key::required(
    "window",
    Shape::Scalar(&TEXT),
    "The measurement window: a name of `windows`, or from and to.",
    "window: 10s-20s",
);
const SERVICE_KEY: Key =
    Key::optional("service", Shape::Scalar(&TEXT), "A service at the measured uplink, or `all`.", "service: a");
const GROUP_KEY: Key = Key::optional(
    "group",
    Shape::Scalar(&TEXT),
    "In its place a flow group: the bytes at its receivers, counted in full frames.",
    "group: many",
);
const LINK_KEY: Key =
    Key::optional("link", Shape::Scalar(&TEXT), "In its place a watched link.", "link: \"switch->h0\"");
const SENT_KEY: Key = Key::optional(
    "sent",
    Shape::Scalar(&TEXT),
    "In its place a service: its frames that machine shapers sent.",
    "sent: tenant",
);
const RECEIVED_KEY: Key = Key::optional(
    "received",
    Shape::Scalar(&TEXT),
    "In its place a service: its frames that machine shapers received.",
    "received: vm",
);
const MACHINE_KEY: Key = Key::optional(
    "machine",
    Shape::Scalar(&TEXT),
    "Of `sent` and `received`: one machine; all of them where not written.",
    "machine: m4",
);
const PERCENTILE_KEY: Key =
    Key::required("percentile", Shape::Scalar(&PERCENTILE), "The percentile.", "percentile: 99%");
const ABOVE_KEY: Key = Key::optional("above", Shape::Scalar(&SIZE), "Only flows of more bytes.", "above: 10MB");
const CAPACITY_KEY: Key = Key::required("capacity", Shape::Scalar(&RATE), "The queue's speed.", "capacity: 10Gb/s");
const LOAD_KEY: Key = Key::required("load", Shape::Scalar(&LOAD), "The load on it.", "load: 80%");
const POLICY_KEY: Key = Key::required(
    "policy",
    Shape::Scalar(&PATH),
    "The policy file, relative to this file.",
    "policy: ../scenarios/parley-fig1.policy.yaml",
);
const DIRECTION_KEY: Key = Key::optional(
    "direction",
    Shape::Scalar(&Scalar::Words { what: "a direction", words: DIRECTION_KEYWORDS }),
    "`tx` or `rx`; tx where not written.",
    "direction: tx",
);

pub(crate) const EXPECT_KEYWORDS: &[&str] = &["as-printed", "at-most", "at-least"];
static EXPECT_KEYWORD: Scalar = Scalar::Words { what: "an expectation", words: EXPECT_KEYWORDS };
static EXPECT: Record = Record {
    id: "expect",
    what: "a comparison",
    doc: "The criterion by which a measured value agrees with the published one, or with the source's method: exactly \
          one of `within`, `at-most` and `at-least`.",
    keys: &[
        Key::optional(
            "within",
            Shape::Scalar(&TOLERANCE),
            "At most this far from the published value, or from that of `times` or `of`.",
            "within: 5%",
        ),
        Key::optional(
            "of",
            Shape::Scalar(&NUMBER),
            "In place of the published value for `within`, in the value's unit: a number that follows from the source \
             and that it does not print, such as a fair share.",
            "of: 600",
        ),
        Key::optional("at-most", Shape::Scalar(&NUMBER), "At most this, in the value's unit.", "at-most: 38.3"),
        Key::optional("at-least", Shape::Scalar(&NUMBER), "At least this, in the value's unit.", "at-least: 0.99"),
        Key::optional(
            "times",
            Shape::Scalar(&TEXT),
            "The metric of another value, of which `at-most` and `at-least` are then multiples.",
            "times: \"A under Parley, above 100 %\"",
        ),
        Key::optional(
            "plus",
            Shape::Scalar(&NUMBER),
            "So much more than the multiple for `at-most`, in the value's unit.",
            "plus: 0.5",
        ),
    ],
};
static VALUE: Record = Record {
    id: "value",
    what: "a value",
    doc: "A value that a paper prints, or that belongs beside one.",
    keys: &[
        Key::required("metric", Shape::Scalar(&TEXT), "The name of the value, unique in the file.", "metric: A alone"),
        Key::required("unit", Shape::Scalar(&UNIT), "The unit of the value; `1` for none.", "unit: Gb/s"),
        Key::optional(
            "published",
            Shape::Scalar(&NUMBER),
            "The value as printed in the source; omitted if it prints no number.",
            "published: 30",
        ),
        Key::required("where", Shape::Scalar(&TEXT), "The place in the source.", "where: figure 14"),
        Key::required(
            "measure",
            Shape::Choice(&MEASURE),
            "The measure of its counterpart.",
            "measure: { kind: bandwidth, run: parley, service: a, window: 10s-20s }",
        ),
        Key::optional(
            "expect",
            Shape::OneOf(&[Shape::Scalar(&EXPECT_KEYWORD), Shape::Record(&EXPECT)]),
            "The condition of agreement: `as-printed` (equal once rounded), `at-most` or `at-least` the published \
             value, or as below; only shown where not written.",
            "expect: { within: 3% }",
        ),
        Key::optional(
            "note",
            Shape::Scalar(&TEXT),
            "The reason for a difference.",
            "note: \"Hosts have no processing time here.\"",
        ),
    ],
};

const TITLE_KEY: Key = Key::required("title", Shape::Scalar(&TEXT), "Its title.", "title: Utilisation at the rack");
const FIGURE_ID_KEY: Key = Key::required("id", Shape::Scalar(&NAME), "The name of its file.", "id: utilisation");
static OVER_TIME: Record = Record {
    id: "bandwidth",
    what: "bandwidth over time",
    doc: "Bandwidth over time of services, flow groups or links; published values of the same run are drawn as \
          dashed lines.",
    keys: &[
        RUN_KEY,
        Key::optional("services", Shape::List(&NAMES), "Services at the measured uplink.", "services: [a, b]"),
        Key::optional("groups", Shape::List(&NAMES), "Flow groups.", "groups: [many, one]"),
        Key::optional("links", Shape::List(&NAMES), "Watched links.", "links: [\"switch->h0\"]"),
        Key::optional(
            "sent",
            Shape::List(&NAMES),
            "Services, by the frames that machine shapers sent.",
            "sent: [tenant]",
        ),
    ],
};
static COMPLETION_TIMES: Record = Record {
    id: "completion-times",
    what: "distributions of completion times",
    doc: "The cumulative distribution of a flow group's completion times, one line for each run.",
    keys: &[
        Key::required("runs", Shape::List(&NAMES), "The runs.", "runs: [none, parley]"),
        Key::required("group", Shape::Scalar(&TEXT), "The flow group.", "group: messages"),
        ABOVE_KEY,
        WINDOW_KEY,
    ],
};
static QUEUES: Record = Record {
    id: "queues",
    what: "distributions of a queue",
    doc: "The cumulative distribution of a link's backlog, one line for each run.",
    keys: &[
        Key::required("runs", Shape::List(&NAMES), "The runs.", "runs: [load-50, load-90]"),
        Key::required("link", Shape::Scalar(&TEXT), "The link.", "link: \"switch->h0\""),
        Key::required("packet", Shape::Scalar(&SIZE), "The size of a packet.", "packet: 1500B"),
        WINDOW_KEY,
    ],
};
static BARS: Record = Record {
    id: "values",
    what: "bars of values",
    doc: "Published beside measured, for values of one unit.",
    keys: &[Key::required("values", Shape::List(&NAMES), "Their metrics.", "values: [A alone, B alone]")],
};
static SERIES: Map = Map { what: "series by name", name: &TEXT, value: Shape::List(&NAMES), min: 1 };
static GROUPED_BARS: Record = Record {
    id: "grouped-bars",
    what: "groups of bars",
    doc: "Measured values of one unit: a group of bars for each category, and in it a bar for each series.",
    keys: &[
        Key::required("axis", Shape::Scalar(&TEXT), "The quantity whose values are the categories.", "axis: load"),
        Key::required("categories", Shape::List(&NAMES), "The names of the groups.", "categories: [20 %, 80 %]"),
        Key::required(
            "series",
            Shape::Map(&SERIES),
            "By the name of a series its metrics, one for each category.",
            "series: { TCP: [TCP at 20 %, TCP at 80 %] }",
        ),
    ],
};
static USE_OF_LINKS: Record = Record {
    id: "use-of-links",
    what: "distributions of the use of links",
    doc: "The cumulative distribution of the used part of links in a datacenter with tenants: by reservations alone, \
          by weighted queues, and max-min fair.",
    keys: &[DATACENTER_KEY, INACTIVE_KEY, INACTIVE_USE_KEY, MAP_KEY],
};
static FIGURE_KINDS: &[&Record] = &[&OVER_TIME, &COMPLETION_TIMES, &QUEUES, &GROUPED_BARS, &USE_OF_LINKS, &BARS];
/// A drawing.
pub static FIGURE: Choice = Choice {
    id: "figure",
    what: "a figure",
    doc: "A drawing beside the table.",
    tag: "kind",
    tag_what: "a kind of figure",
    tag_doc: "The kind of drawing.",
    default: None,
    common: &[FIGURE_ID_KEY, TITLE_KEY],
    elsewhere: &[],
    variants: || FIGURE_KINDS,
};

/// The content of a file under `papers/`.
pub static PAPER: Record = Record {
    id: "paper",
    what: "a published experiment",
    doc: "The runs, the published values, and the criteria of agreement.",
    keys: &[
        Key::required("paper", Shape::Scalar(&VERSION), "The version of this format.", "paper: 2"),
        Key::required("id", Shape::Scalar(&ID), "The name on the command line, and of the file.", "id: parley-fig14"),
        Key::required("title", Shape::Scalar(&TEXT), "The subject.", "title: Two services share an uplink"),
        Key::required("source", Shape::Scalar(&TEXT), "The place of publication.", "source: Parley, figure 14"),
        Key::required(
            "takes",
            Shape::Record(&TAKES),
            "The approximate time on two cores.",
            "takes: { quick: 20s, full: 10min }",
        ),
        Key::optional(
            "scenario",
            Shape::Scalar(&PATH),
            "The scenario of runs that name none, relative to this file.",
            "scenario: ../scenarios/parley-fig14.scenario.yaml",
        ),
        Key::optional("runs", Shape::Map(&RUNS), "The runs.", "runs: { parley: { set: [ \"enforcement=parley\" ] } }"),
        Key::optional(
            "datacenters",
            Shape::Map(&DATACENTERS),
            "Datacenters filled with tenants, by name.",
            "datacenters: { full: { policy: p.policy.yaml, mean-vms: 49, bandwidths: [100Mb/s] } }",
        ),
        Key::optional(
            "windows",
            Shape::Map(&WINDOWS),
            "Parts of runs, by name; a name without dash and digits alone is no window itself.",
            "windows: { alone: { quick: 4s-8s, full: 60s-300s } }",
        ),
        Key::required("values", Shape::List(&VALUES), "The values.", "values: [ { metric: A alone } ]"),
        Key::optional("figures", Shape::List(&FIGURES), "The figures.", "figures: [ { kind: bandwidth } ]"),
        Key::optional("notes", Shape::List(&NOTES), "Remarks for the reader.", "notes: [ \"...\" ]"),
    ],
};

/// Names go into files and onto command lines.
fn check_id(text: &str) -> Result<(), Refusal> {
    let allowed = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if text.is_empty() || text.len() > 40 || text.starts_with('-') || !allowed {
        let hint = "write up to 40 small letters, digits and dashes, for example `parley-fig14`";
        return Err(Refusal::new(format!("{} is not a name here", quote(text)), hint));
    }
    Ok(())
}

fn check_change(text: &str) -> Result<(), Refusal> {
    change(text).map(drop)
}

/// Path and value of a change.
pub(crate) fn change(text: &str) -> Result<(&str, &str), Refusal> {
    match text.split_once('=') {
        Some((path, value)) if !path.trim().is_empty() => Ok((path.trim(), value.trim())),
        _ => {
            let hint = "write PATH=VALUE in quotes, for example `\"traffic[0].load=50%\"`";
            Err(Refusal::new(format!("{} is not a change", quote(text)), hint))
        }
    }
}

/// The ends of a window: `FROM-TO`.
pub(crate) fn window(text: &str) -> Result<(Duration, Duration), Refusal> {
    let refusal = |cause: String| Refusal::new(cause, "write FROM-TO, for example `10s-20s`");
    let Some((from, to)) = text.split_once('-') else {
        return Err(refusal(format!("{} is not a window", quote(text))));
    };
    let (from, to) = (scalar::time(from.trim(), true)?, scalar::time(to.trim(), false)?);
    if from >= to {
        return Err(refusal(format!("the window {} does not end after it starts", quote(text))));
    }
    Ok((from, to))
}
