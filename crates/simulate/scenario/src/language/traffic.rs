//! The keys of `traffic:` and of `transport:`.

use super::{
    HOST_OR_LIST, HOSTS, MAX_FLOWS, MAX_MANY_FLOWS, RATE, SERVICE_NAME, SIZE, SWITCH_NAME, TIME, TIME_OR_ZERO,
};
use weir_document::quote;
use weir_document::scalar::{self, Refusal, Scalar};
use weir_document::shape::{Choice, Key, List, Record, Shape};
use weir_network::graph::PRIORITIES;
use weir_units::Bytes;
use weir_workload::Builtin;

pub(crate) const PATTERN_KEYWORDS: &[&str] = &["full-mesh", "pairs"];
pub(crate) const ARRIVALS_KEYWORDS: &[&str] = &["poisson", "constant", "uniform"];
pub(crate) const ORDER_KEYWORDS: &[&str] = &["random", "staggered"];
pub(crate) const BARRIER_KEYWORDS: &[&str] = &["all-to-all", "ring", "to-one"];
pub(crate) const THINKING_KEYWORDS: &[&str] = &["constant", "exponential", "dormant"];
pub(crate) const SWITCH_KEYWORDS: &[&str] = &["on", "off"];
/// Flows that a host may have under way by one flow group.
pub(crate) const MAX_PARALLEL: u32 = 10_000;
/// Connections between two hosts: a message without an idle connection scans all of them.
pub(crate) const MAX_CONNECTIONS: u32 = 1_000;
pub(crate) const LOAD_TOO_MUCH: &str = "the senders' links do not carry it, and queues would grow without end";

static FLOWS: Scalar = Scalar::Integer { what: "a number of flows", min: 1, max: MAX_FLOWS as i128 };
static MANY_FLOWS: Scalar = Scalar::Integer { what: "a number of flows", min: 1, max: MAX_MANY_FLOWS as i128 };
static ROUNDS: Scalar = Scalar::Integer { what: "a number of rounds", min: 1, max: MAX_MANY_FLOWS as i128 };
static PARALLEL: Scalar = Scalar::Integer { what: "a number of flows at once", min: 1, max: MAX_PARALLEL as i128 };
static PRIORITY: Scalar = Scalar::Integer { what: "a priority", min: 0, max: PRIORITIES as i128 - 1 };
static LOAD: Scalar = Scalar::Percent { what: "a load", too_much: LOAD_TOO_MUCH };
static LOAD_OF_RECEIVERS: Scalar = Scalar::Percent {
    what: "a load",
    too_much: "the receivers' links do not carry it, and queues would grow without end",
};
static DATA_PATH: Scalar = Scalar::Text { what: "the path of a CSV file" };
static SIZES: Scalar = Scalar::Checked {
    what: "sizes of flows",
    check: check_sizes,
    pattern: r"^(websearch|datamining|enterprise|.+\.csv|[0-9.]+ *[kMGT]?i?B( *- *[0-9.]+ *[kMGT]?i?B)?)$",
    example: "websearch",
};

/// The value of `sizes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sizes<'a> {
    Builtin(Builtin),
    File(&'a str),
    Range(Bytes, Bytes),
}

/// Reads `sizes`: a published distribution, a file, one size, or a range of equally likely ones.
pub(crate) fn sizes_of(text: &str) -> Result<Sizes<'_>, Refusal> {
    if let Some(builtin) = Builtin::named(text) {
        return Ok(Sizes::Builtin(builtin));
    }
    if text.ends_with(".csv") {
        return Ok(Sizes::File(text));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        let words = Builtin::ALL.map(Builtin::name);
        let mut refusal = Refusal::new("", "write the name of a distribution, a size such as `64kB`, or a `.csv` file");
        if let Err(word) = scalar::word(text, "a distribution of sizes", &words) {
            refusal.cause = word.cause;
            refusal.hint = format!("{}; or a size such as `64kB`, a range `1kB-2kB`, or a `.csv` file", word.hint);
        }
        return Err(refusal);
    }
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (scalar::size(least.trim())?, scalar::size(most.trim())?);
    if least > most {
        return Err(Refusal::new(format!("the range {} is reversed", quote(text)), format!("write `{most}-{least}`")));
    }
    Ok(Sizes::Range(least, most))
}

fn check_sizes(text: &str) -> Result<(), Refusal> {
    sizes_of(text).map(drop)
}

const FROM: Key =
    Key::required("from", HOST_OR_LIST, "The senders: groups, hosts, ranges, or a list of them.", "from: r1");
const TO: Key = Key::required("to", HOST_OR_LIST, "The receivers: groups, hosts, ranges, or a list of them.", "to: r2");
const START: Key = Key::optional("start", Shape::Scalar(&TIME_OR_ZERO), "The start time; 0s.", "start: 0s");

static TRANSFERS: Record = Record {
    id: "transfers",
    what: "transfers",
    doc: "Flows between given pairs, all with the same start: long-lived ones, or of one size.",
    keys: &[
        FROM,
        TO,
        Key::optional(
            "pattern",
            Shape::Scalar(&Scalar::Words { what: "a pattern", words: PATTERN_KEYWORDS }),
            "`full-mesh`: every sender to every receiver (the default); `pairs`: the i-th sender to the i-th \
             receiver, both in canonical order.",
            "pattern: full-mesh",
        ),
        Key::optional("flows", Shape::Scalar(&FLOWS), "Flows for each pair of hosts; 1.", "flows: 1"),
        Key::optional(
            "size",
            Shape::Scalar(&SIZE),
            "The size of each flow; where not written, flows go on until they stop.",
            "size: 1MB",
        ),
        START,
        Key::optional(
            "spread",
            Shape::Scalar(&TIME),
            "Each flow starts at a random time from `start` on, within this; all at once where not written.",
            "spread: 10ms",
        ),
        Key::optional("stop", Shape::Scalar(&TIME), "The stop time; the duration.", "stop: 40s"),
    ],
};

static EXPONENTIAL_DEADLINE: Record = Record {
    id: "deadlines",
    what: "random deadlines",
    doc: "Exponentially distributed deadlines (D3, SIGCOMM 2011, §6).",
    keys: &[
        Key::required("mean", Shape::Scalar(&TIME), "Their mean.", "mean: 20ms"),
        Key::optional("floor", Shape::Scalar(&TIME), "The shortest; shorter ones are raised to it.", "floor: 3ms"),
    ],
};
const DEADLINES: Shape = Shape::OneOf(&[Shape::Scalar(&TIME), Shape::Record(&EXPONENTIAL_DEADLINE)]);
const DEADLINE: Key = Key::optional(
    "deadline",
    DEADLINES,
    "The deadline of the last byte, counted from the flow's start. Not with `udp`, which does not finish flows.",
    "deadline: 20ms",
);

const ARRIVALS_KEY: Key = Key::optional(
    "arrivals",
    Shape::Scalar(&Scalar::Words { what: "a kind of arrivals", words: ARRIVALS_KEYWORDS }),
    "The distribution of gaps: `poisson` (the default), `constant`, `uniform` (0 to twice the mean).",
    "arrivals: poisson",
);

static CONNECTIONS: Scalar = Scalar::Integer { what: "a number of connections", min: 1, max: MAX_CONNECTIONS as i128 };
const CONNECTIONS_KEY: Key = Key::optional(
    "connections",
    Shape::Scalar(&CONNECTIONS),
    "Flows are messages on so many connections between each sender and receiver, which stay open: a message goes to \
     the one \
     with the fewest before it and waits there, and its time counts from its arrival. A connection of its own for \
     each flow \
     where not written. For TCP.",
    "connections: 24",
);

static SIZE_CLASS: Record = Record {
    id: "size-class",
    what: "a service of flows up to a size",
    doc: "The service of flows that are not larger than a size.",
    keys: &[
        Key::required("up-to", Shape::Scalar(&SIZE), "The largest flow.", "up-to: 10kB"),
        Key::required("service", Shape::Scalar(&SERVICE_NAME), "The leaf service of these flows.", "service: urgent"),
    ],
};
static SIZE_CLASSES: List = List { what: "a list of sizes", item: Shape::Record(&SIZE_CLASS), min: 1 };
const BY_SIZE: Key = Key::optional(
    "by-size",
    Shape::List(&SIZE_CLASSES),
    "Under a policy: small flows belong to other services, the first of the list that holds the flow's size. Sizes \
     ascend; larger flows belong to `service`.",
    "by-size: [ { up-to: 10kB, service: urgent } ]",
);

static QUOTA_SIZES: List = List { what: "a list of quotas", item: Shape::Scalar(&SIZE), min: 1 };
static QUOTAS: Record = Record {
    id: "quotas",
    what: "quotas of flows",
    doc: "The limiter of QJump's published simulation: a flow has the smallest quota that holds all of its frames, \
          or the largest, and the class of that quota in queues that have classes, 0 for the first. Its host drops \
          what it sends beyond the quota in an epoch. Acknowledgements are not limited and have class 0.",
    keys: &[
        Key::required(
            "epoch",
            Shape::Scalar(&TIME),
            "The time after which a flow has its whole quota again, counted from its start.",
            "epoch: 1050us",
        ),
        Key::required(
            "sizes",
            Shape::List(&QUOTA_SIZES),
            "Bytes of frames in an epoch, headers included, ascending; at most eight.",
            "sizes: [9kB, 19500B, 1312500B]",
        ),
    ],
};
const QUOTAS_KEY: Key = Key::optional(
    "quotas",
    Shape::Record(&QUOTAS),
    "Quotas of flows by their size, which also give them their class in place of `priority`. Not with `connections`; \
     for the simulator.",
    "quotas: { epoch: 1050us, sizes: [9kB, 1312500B] }",
);

static RANDOM: Record = Record {
    id: "random",
    what: "random traffic",
    doc: "Flows that arrive by themselves, each from a random sender to another random receiver.",
    keys: &[
        FROM,
        TO,
        Key::required(
            "sizes",
            Shape::Scalar(&SIZES),
            "`websearch`, `datamining`, `enterprise`, a size, a range of sizes, or a CSV file with `size_bytes,cdf`.",
            "sizes: websearch",
        ),
        Key::optional(
            "load",
            Shape::Scalar(&LOAD),
            "The load of all flows on the senders' links, headers included, below 100%. Either this, `rate` \
             or `gap`.",
            "load: 60%",
        ),
        Key::optional(
            "rate",
            Shape::Scalar(&RATE),
            "The same as a rate of all senders together, headers included; it may be more than links carry.",
            "rate: 11.2Gb/s",
        ),
        Key::optional("gap", Shape::Scalar(&TIME), "The mean time between two flows, of all senders.", "gap: 100us"),
        ARRIVALS_KEY,
        Key::optional(
            "per-sender",
            Shape::Scalar(&Scalar::Words { what: "a switch", words: SWITCH_KEYWORDS }),
            "Whether each sender has arrivals of its own, with a mean gap as many times as long as there are \
             senders, as when every \
             machine runs a generator; `off`: one process of all.",
            "per-sender: on",
        ),
        Key::optional("flows", Shape::Scalar(&MANY_FLOWS), "Ends after so many flows.", "flows: 20000"),
        BY_SIZE,
        QUOTAS_KEY,
        CONNECTIONS_KEY,
        START,
        Key::optional("stop", Shape::Scalar(&TIME), "No flow starts from then on; the duration.", "stop: 1s"),
        DEADLINE,
    ],
};

static BURSTS: Record = Record {
    id: "bursts",
    what: "bursts",
    doc: "Each sender sends to one random receiver for a time, is silent for a time, and goes on to another \
          (Parley, Fig 13). \
          The transport determines the rate, for example `{ protocol: udp, rate: 100Mb/s }`.",
    keys: &[
        FROM,
        TO,
        Key::required("on", Shape::Scalar(&TIME), "The length of a burst.", "on: 5s"),
        Key::optional("off", Shape::Scalar(&TIME_OR_ZERO), "The pause of a sender after a burst; 0s.", "off: 2s"),
        START,
        Key::optional(
            "spread",
            Shape::Scalar(&TIME),
            "Each sender begins at a random time from `start` on, within this; all at once where not written.",
            "spread: 7s",
        ),
        Key::optional("stop", Shape::Scalar(&TIME), "The stop time; the duration.", "stop: 300s"),
    ],
};

static LIST: Record = Record {
    id: "list",
    what: "a list of flows",
    doc: "Every flow given in a CSV file: `start_s` (or `start_ms`, `start_us`, `start_ns`, `start_ps`), `src`, `dst` \
          and `packets` or `bytes`; `id` and `coflow` are optional. Hosts are names, or numbers from 0. Flows with the \
          same number in `coflow` are awaited together.",
    keys: &[
        Key::required("file", Shape::Scalar(&DATA_PATH), "The file, relative to this file.", "file: flows.csv"),
        CONNECTIONS_KEY,
    ],
};

const SIZE_KEY: Key = Key::required("size", Shape::Scalar(&SIZE), "The size of each flow.", "size: 64kB");
const JITTER: Key = Key::optional(
    "jitter",
    Shape::Scalar(&TIME),
    "Each flow starts at a random time within this after its round began; all at once where not written.",
    "jitter: 10us",
);
const ROUNDS_KEY: Key =
    Key::optional("rounds", Shape::Scalar(&ROUNDS), "The number of rounds; unlimited where not written.", "rounds: 10");
const AMONG: Key =
    Key::required("among", HOST_OR_LIST, "The participating hosts: groups, hosts, ranges, or a list.", "among: all");

static FAN_IN: Scalar = Scalar::Integer { what: "a number of senders", min: 1, max: MAX_FLOWS as i128 };
static INCAST: Record = Record {
    id: "incast",
    what: "incast",
    doc: "Senders send to one receiver at once: all of them in rounds (DCTCP, SIGCOMM 2010, §4.2.1), or some of them \
          to a random receiver in incasts that arrive by themselves (HPCC, SIGCOMM 2019, §5).",
    keys: &[
        FROM,
        Key::required(
            "to",
            HOST_OR_LIST,
            "The receiver of all rounds, one host; or, with arrivals, the receivers: each incast has a random one.",
            "to: h0",
        ),
        SIZE_KEY,
        Key::optional(
            "every",
            Shape::Scalar(&TIME),
            "The time from the start of a round to the next round.",
            "every: 10ms",
        ),
        Key::optional(
            "pause",
            Shape::Scalar(&TIME_OR_ZERO),
            "The time from the end of the last flow of a round to the next round. Either this, `every`, or arrivals \
             (`gap`, `load` or `rate`).",
            "pause: 1ms",
        ),
        Key::optional(
            "gap",
            Shape::Scalar(&TIME),
            "The mean time between two incasts that arrive by themselves; they may overlap.",
            "gap: 1ms",
        ),
        Key::optional(
            "load",
            Shape::Scalar(&LOAD_OF_RECEIVERS),
            "The load of all incasts on the receivers' links, headers included, below 100%. In place of `gap`.",
            "load: 5%",
        ),
        Key::optional(
            "rate",
            Shape::Scalar(&RATE),
            "The same as a rate of all incasts together, headers included. In place of `gap`.",
            "rate: 10Gb/s",
        ),
        ARRIVALS_KEY,
        Key::optional(
            "fan-in",
            Shape::Scalar(&FAN_IN),
            "With arrivals: the number of senders of an incast, random ones; all but the receiver where not written.",
            "fan-in: 30",
        ),
        Key::optional(
            "rounds",
            Shape::Scalar(&ROUNDS),
            "The number of rounds or incasts; unlimited where not written.",
            "rounds: 10",
        ),
        JITTER,
        CONNECTIONS_KEY,
        START,
        Key::optional(
            "stop",
            Shape::Scalar(&TIME),
            "With arrivals: no incast begins from then on; the duration.",
            "stop: 1s",
        ),
    ],
};
static SHUFFLE: Record = Record {
    id: "shuffle",
    what: "a shuffle",
    doc: "Every host sends to every other one, once, a few at a time (VL2, SIGCOMM 2009, §5.1).",
    keys: &[
        AMONG,
        SIZE_KEY,
        Key::optional(
            "parallel",
            Shape::Scalar(&PARALLEL),
            "Flows that a sender has under way at once; 1.",
            "parallel: 4",
        ),
        Key::optional(
            "order",
            Shape::Scalar(&Scalar::Words { what: "an order", words: ORDER_KEYWORDS }),
            "The order of receivers: `random`, another for each sender (the default), or `staggered`, the hosts \
             after it.",
            "order: random",
        ),
        START,
    ],
};
static BARRIER: Record = Record {
    id: "barrier",
    what: "a barrier",
    doc: "Rounds of flows, each of which begins when all flows of the one before are done.",
    keys: &[
        AMONG,
        SIZE_KEY,
        Key::optional(
            "pattern",
            Shape::Scalar(&Scalar::Words { what: "a pattern", words: BARRIER_KEYWORDS }),
            "`all-to-all` (the default), `ring` (to the next host), or `to-one`.",
            "pattern: ring",
        ),
        Key::optional(
            "root",
            Shape::Scalar(&HOSTS),
            "The receiver of all flows; with `pattern: to-one` only.",
            "root: h0",
        ),
        Key::optional("think", Shape::Scalar(&TIME_OR_ZERO), "The time between two rounds; 0s.", "think: 1ms"),
        ROUNDS_KEY,
        JITTER,
        START,
    ],
};
static REQUESTS: Record = Record {
    id: "requests",
    what: "requests",
    doc: "Requests of clients and responses of servers: two flows for each request.",
    keys: &[
        Key::required("from", HOST_OR_LIST, "The clients.", "from: clients"),
        Key::required("to", HOST_OR_LIST, "The servers; each request goes to a random one.", "to: servers"),
        Key::required("request", Shape::Scalar(&SIZE), "The size of a request.", "request: 200B"),
        Key::required(
            "response",
            Shape::Scalar(&SIZES),
            "The sizes of responses, as `sizes` of random traffic.",
            "response: 64kB",
        ),
        Key::optional(
            "outstanding",
            Shape::Scalar(&PARALLEL),
            "Requests that each client has under way: the next one follows a response. Either this or `gap`.",
            "outstanding: 1",
        ),
        Key::optional(
            "think",
            Shape::Scalar(&TIME_OR_ZERO),
            "The time between a response and the next request; 0s.",
            "think: 1ms",
        ),
        Key::optional(
            "thinking",
            Shape::Scalar(&Scalar::Words { what: "a kind of thinking", words: THINKING_KEYWORDS }),
            "Whether `think` is `constant` (the default), the mean of an `exponential` time, or the longest time for \
             which a client is `dormant`: it is so after half of the responses, for a uniform time from zero on.",
            "thinking: exponential",
        ),
        Key::optional(
            "gap",
            Shape::Scalar(&TIME),
            "The mean time between two requests, of all clients, independent of responses.",
            "gap: 100us",
        ),
        ARRIVALS_KEY,
        CONNECTIONS_KEY,
        Key::optional("requests", Shape::Scalar(&MANY_FLOWS), "Ends after so many requests.", "requests: 1000"),
        START,
        Key::optional("stop", Shape::Scalar(&TIME), "No request starts from then on; the duration.", "stop: 1s"),
    ],
};

/// The kinds of real servers and their clients.
pub(crate) const REDIS: &str = "redis";
pub(crate) const MEMCACHED: &str = "memcached";
pub(crate) const PTP: &str = "ptp";
/// Whether a kind is of real programs.
pub(crate) fn is_real(kind: &str) -> bool {
    [REDIS, MEMCACHED, PTP].contains(&kind)
}

/// The largest value: some seconds at 100 Mb/s.
pub(crate) const MAX_VALUE: Bytes = Bytes::new(100_000_000);
const CLIENTS: Key = Key::required("from", HOST_OR_LIST, "The clients' machines.", "from: clients");
const SERVER: Key = Key::required("to", Shape::Scalar(&HOSTS), "The server's machine.", "to: m1");
const REAL_STOP: Key =
    Key::optional("stop", Shape::Scalar(&TIME), "The end of measurements; the duration.", "stop: 20s");
const VALUE_KEYS: &[Key] = &[
    CLIENTS,
    SERVER,
    Key::required("value", Shape::Scalar(&SIZE), "The size of the value.", "value: 10kB"),
    Key::required(
        "gap",
        Shape::Scalar(&TIME),
        "The mean time between two requests of a connection, exponential. A request that arrives before the response \
         to the previous one waits for it, and its time counts from its arrival.",
        "gap: 20ms",
    ),
    Key::optional("connections", Shape::Scalar(&CONNECTIONS), "Connections of each client; 1.", "connections: 4"),
    START,
    REAL_STOP,
];
static REDIS_REQUESTS: Record = Record {
    id: REDIS,
    what: "requests to a redis server",
    doc: "A real redis server, and clients that read one value again and again. For the lab alone.",
    keys: VALUE_KEYS,
};
static MEMCACHED_REQUESTS: Record = Record {
    id: MEMCACHED,
    what: "requests to a memcached server",
    doc: "A real memcached server, and clients that read one value again and again. For the lab alone.",
    keys: VALUE_KEYS,
};
static PTP_CLOCKS: Record = Record {
    id: PTP,
    what: "clocks that are compared by PTP",
    doc: "A PTP master, and slaves that report the offset of their clock from the master's 32 times a second and do \
          not adjust it (ptpd). All clocks are the host's own, so each offset is the error of the measurement: half \
          of the difference of the delays in both directions. For the lab alone.",
    keys: &[CLIENTS, SERVER, START, REAL_STOP],
};

static SERVICE_KINDS: &[&Record] = &[
    &TRANSFERS,
    &RANDOM,
    &BURSTS,
    &LIST,
    &INCAST,
    &SHUFFLE,
    &BARRIER,
    &REQUESTS,
    &REDIS_REQUESTS,
    &MEMCACHED_REQUESTS,
    &PTP_CLOCKS,
];
static KINDS: &[&Record] = &[&TRANSFERS, &RANDOM, &BURSTS, &LIST, &INCAST, &SHUFFLE, &BARRIER, &REQUESTS];

const NAME: Key = Key::optional(
    "name",
    Shape::Scalar(&SWITCH_NAME),
    "Its name in results; its kind and index, such as `random0`, where not written.",
    "name: search",
);
const TRANSPORT_KEY: Key = Key::optional(
    "transport",
    Shape::Choice(&TRANSPORT),
    "The transport of its flows; the scenario's `transport` where not written.",
    "transport: newreno",
);
const PRIORITY_KEY: Key = Key::optional(
    "priority",
    Shape::Scalar(&PRIORITY),
    "The class of its packets in queues that have classes, 0 to 7: 0 is the most urgent; 0.",
    "priority: 1",
);

/// A flow group over a network.
pub static TRAFFIC: Choice = Choice {
    id: "traffic",
    what: "traffic",
    doc: "The traffic over a network of its own.",
    tag: "kind",
    tag_what: "a kind of traffic",
    tag_doc: "The kind of traffic; `transfers` where not written.",
    default: Some("transfers"),
    common: &[NAME, TRANSPORT_KEY, PRIORITY_KEY],
    elsewhere: &[("service", "services belong to a policy: remove it, or write `policy` in place of `network`")],
    variants: || KINDS,
};
pub(super) static TRAFFIC_LIST: List = List { what: "a list of traffic", item: Shape::Choice(&TRAFFIC), min: 1 };

/// A flow group under a policy.
pub static SERVICE_TRAFFIC: Choice = Choice {
    id: "service-traffic",
    what: "traffic of a service",
    doc: "The traffic under a policy.",
    common: &[
        Key::required("service", Shape::Scalar(&SERVICE_NAME), "The leaf service that sends.", "service: dfs"),
        NAME,
        TRANSPORT_KEY,
        PRIORITY_KEY,
    ],
    elsewhere: &[],
    variants: || SERVICE_KINDS,
    ..TRAFFIC
};
pub(super) static SERVICE_TRAFFIC_LIST: List =
    List { what: "a list of traffic", item: Shape::Choice(&SERVICE_TRAFFIC), min: 1 };

/// A transport and its parameters.
pub static TRANSPORT: Choice = Choice {
    id: "transport",
    what: "a transport",
    doc: "The transport of flows.",
    tag: "protocol",
    tag_what: "a transport",
    tag_doc: "The protocol.",
    default: None,
    common: &[],
    elsewhere: &[],
    variants: weir_transport::variants,
};
