//! The kinds of measures: the counterparts of published values.

use super::datacenters::{DSCP_VALUES, GAIN, LINKS, PORTS, QUEUED, RESERVATION, TENANTS};
use super::*;
use weir_policy::language::MAX_LEVELS;

pub(crate) const DIRECTION_KEYWORDS: &[&str] = &["tx", "rx"];
pub(crate) const POINT_KEYWORDS: &[&str] = &["machine", "rack", "fabric"];
pub(crate) const SHARE_KEYWORDS: &[&str] = &["demand", "allocation", "headroom"];
pub(crate) const BOUND_KEYWORDS: &[&str] = &["min", "max"];

static BANDWIDTH: Record = Record {
    id: "bandwidth",
    what: "a mean bandwidth",
    doc: "The mean bandwidth over a window: of a service at the measured uplink, of a flow group's receivers, or of \
          a link.",
    keys: &[RUN_KEY, SERVICE_KEY, GROUP_KEY, LINK_KEY, SENT_KEY, RECEIVED_KEY, MACHINE_KEY, WINDOW_KEY],
};
static COUNTER: Record = Record {
    id: "counter",
    what: "a counter of a run",
    doc: "A counter of the simulator at the end of a run, as in the `counters` of its results, or the ratio of two.",
    keys: &[
        RUN_KEY,
        Key::required("name", Shape::Scalar(&TEXT), "The counter.", "name: tenant_queue_moves_begun"),
        Key::optional(
            "per",
            Shape::Scalar(&TEXT),
            "The counter by which it is divided; nothing is measured where that is zero.",
            "per: tenant_queue_moves_begun",
        ),
    ],
};
static METER_RATE: Record = Record {
    id: "meter-rate",
    what: "a rate of a receive meter",
    doc: "The mean over a window of R, the rate that a receive meter advertises to each of its senders.",
    keys: &[
        RUN_KEY,
        Key::required("service", Shape::Scalar(&TEXT), "The service.", "service: vm"),
        Key::required("machine", Shape::Scalar(&TEXT), "The receiving machine.", "machine: m4"),
        WINDOW_KEY,
    ],
};
static COMPLETION_TIME: Record = Record {
    id: "completion-time",
    what: "completion times",
    doc: "Of a flow group's flows that start in the window, the mean or a percentile. An unfinished flow counts with \
          its age at the end of the run, and the value is then a lower bound.",
    keys: &[
        RUN_KEY,
        Key::required("group", Shape::Scalar(&TEXT), "The flow group.", "group: messages"),
        Key::optional(
            "percentile",
            Shape::Scalar(&PERCENTILE),
            "The percentile; the mean where not written.",
            "percentile: 99%",
        ),
        ABOVE_KEY,
        WINDOW_KEY,
    ],
};
static SLOWDOWN: Record = Record {
    id: "slowdown",
    what: "a slowdown",
    doc: "Completion times over those on an idle network, of a flow group's flows in a range of sizes: their mean, or \
          a percentile. An unfinished flow counts with its age at the end of the run, and the value is then a lower \
          bound.",
    keys: &[
        RUN_KEY,
        Key::required("group", Shape::Scalar(&TEXT), "The flow group.", "group: search"),
        Key::optional(
            "percentile",
            Shape::Scalar(&PERCENTILE),
            "The percentile; the mean where not written.",
            "percentile: 99%",
        ),
        ABOVE_KEY,
        Key::optional("up-to", Shape::Scalar(&SIZE), "Only flows of at most so many bytes.", "up-to: 10kB"),
        Key::optional(
            "acknowledgement",
            Shape::Scalar(&TIME),
            "The time of an acknowledgement on an idle network, which is added to both times: for sources whose flows \
             end when the sender has the last acknowledgement.",
            "acknowledgement: 5880ns",
        ),
    ],
};
static FAIRNESS: Record = Record {
    id: "fairness",
    what: "a fairness index",
    doc: "Jain's index of the mean bandwidths over a window, or their largest deviation.",
    keys: &[
        RUN_KEY,
        Key::optional("services", Shape::List(&NAMES), "Services at the measured uplink.", "services: [a, b]"),
        Key::optional("groups", Shape::List(&NAMES), "In their place flow groups.", "groups: [many, one]"),
        Key::optional(
            "each",
            Shape::Scalar(&EACH),
            "`sample`: the mean of the samples' indices, each over the active flows of all groups.",
            "each: sample",
        ),
        Key::optional(
            "of",
            Shape::Scalar(&FAIRNESS_OF),
            "`deviation`: the largest distance of a mean from the mean of all, as a part of it.",
            "of: deviation",
        ),
        WINDOW_KEY,
    ],
};
static FAIRNESS_OF: Scalar = Scalar::Words { what: "a number for fairness", words: &["deviation"] };
static EACH: Scalar = Scalar::Words { what: "a unit of time", words: &["sample"] };
static QUEUE: Record = Record {
    id: "queue",
    what: "a percentile of a queue",
    doc: "The backlog of a watched link, over the samples of a window.",
    keys: &[
        RUN_KEY,
        Key::required("link", Shape::Scalar(&TEXT), "The link.", "link: \"switch->h0\""),
        PERCENTILE_KEY,
        Key::required("packet", Shape::Scalar(&SIZE), "The size of a packet.", "packet: 1500B"),
        WINDOW_KEY,
    ],
};
static SETTLING: Record = Record {
    id: "settling",
    what: "a time of settling",
    doc: "The time from the start of a window until the bandwidth stays at or below `at-most`.",
    keys: &[
        RUN_KEY,
        SERVICE_KEY,
        GROUP_KEY,
        LINK_KEY,
        SENT_KEY,
        RECEIVED_KEY,
        MACHINE_KEY,
        Key::required("at-most", Shape::Scalar(&RATE), "The limit.", "at-most: 20Mb/s"),
        WINDOW_KEY,
    ],
};
static ALLOCATION: Record = Record {
    id: "allocation",
    what: "an allocation",
    doc: "The allocation of a service for given demands, as `weir allocate` computes it.",
    keys: &[
        POLICY_KEY,
        Key::required(
            "demands",
            Shape::Scalar(&PATH),
            "The demands file, relative to this file.",
            "demands: ../scenarios/parley-fig1.demands.csv",
        ),
        Key::required("service", Shape::Scalar(&TEXT), "The service; of one with children the sum.", "service: dfs"),
        Key::optional("machine", Shape::Scalar(&TEXT), "The machine; the sum of all where not written.", "machine: m1"),
        DIRECTION_KEY,
        Key::optional(
            "of",
            Shape::Scalar(&Scalar::Words { what: "a number of an allocation", words: SHARE_KEYWORDS }),
            "`demand`, `allocation` (where not written) or `headroom`, the bandwidth that it could take at once.",
            "of: headroom",
        ),
    ],
};
static POLICY_SHARE: Record = Record {
    id: "policy-share",
    what: "a share of a policy",
    doc: "A share of a service in a policy, after it was read and admitted.",
    keys: &[
        POLICY_KEY,
        Key::required("service", Shape::Scalar(&TEXT), "The service.", "service: dfs"),
        Key::required(
            "point",
            Shape::Scalar(&Scalar::Words { what: "a contention point", words: POINT_KEYWORDS }),
            "`machine`, `rack` or `fabric`.",
            "point: rack",
        ),
        DIRECTION_KEY,
        Key::required(
            "of",
            Shape::Scalar(&Scalar::Words { what: "a part of a share", words: BOUND_KEYWORDS }),
            "`min` or `max`.",
            "of: min",
        ),
    ],
};
static POLICY_CAPACITY: Record = Record {
    id: "policy-capacity",
    what: "a capacity of a policy",
    doc: "The capacity of a rack's uplink under a policy.",
    keys: &[POLICY_KEY, Key::required("rack", Shape::Scalar(&TEXT), "The rack.", "rack: r1"), DIRECTION_KEY],
};
static BOUND: Record = Record {
    id: "bound",
    what: "a bound of completion times",
    doc: "The completion time of a message behind a burst, whatever happens (Parley equation 2).",
    keys: &[
        CAPACITY_KEY,
        LOAD_KEY,
        Key::required("message", Shape::Scalar(&SIZE), "The message.", "message: 200kB"),
        Key::required(
            "convergence",
            Shape::Scalar(&TIME),
            "The time of congestion control: the burst is the data that the queue passes in this time.",
            "convergence: 7500us",
        ),
    ],
};
static BURST: Record = Record {
    id: "burst",
    what: "a burst",
    doc: "The data that arrives beyond the load until congestion control has converged (Parley section 4).",
    keys: &[
        CAPACITY_KEY,
        Key::required("convergence", Shape::Scalar(&TIME), "The time of convergence.", "convergence: 10ms"),
        Key::required("packet", Shape::Scalar(&SIZE), "The size of a packet.", "packet: 1500B"),
    ],
};
static MM1: Record = Record {
    id: "mm1",
    what: "an M/M/1 queue by formula",
    doc: "A percentile of the completion time: Poisson arrivals, exponential sizes, first in, first out.",
    keys: &[
        CAPACITY_KEY,
        LOAD_KEY,
        Key::required("message", Shape::Scalar(&SIZE), "The mean message.", "message: 1MB"),
        PERCENTILE_KEY,
    ],
};
static MM1_QUEUE: Record = Record {
    id: "mm1-queue",
    what: "a simulated M/M/1 queue",
    doc: "The same, of the given number of messages, drawn with seed 1.",
    keys: &[
        CAPACITY_KEY,
        LOAD_KEY,
        Key::required("message", Shape::Scalar(&SIZE), "The mean message.", "message: 1MB"),
        PERCENTILE_KEY,
        Key::required(
            "messages",
            MESSAGES_OR_BOTH,
            "The number of messages.",
            "messages: { quick: 1000000, full: 100000000 }",
        ),
    ],
};
static SHARING_TIME: Record = Record {
    id: "sharing-time",
    what: "a time of sharing",
    doc: "The wall-clock time of sharing one level among services of random demands, at a load close to the \
          capacity; of many times the one that a quarter of them do not exceed.",
    keys: &[Key::required("services", Shape::Scalar(&SERVICES), "The number of services.", "services: 1000")],
};
static REPORT_SIZE: Record = Record {
    id: "report-size",
    what: "a size of a report",
    doc: "The size of a rack broker's report of services that all send and receive, without the headers and tags of \
          its datagrams.",
    keys: &[Key::required("services", Shape::Scalar(&SERVICES), "The number of services.", "services: 1000")],
};
static RACK_REPORTS: Record = Record {
    id: "rack-reports",
    what: "a rate of rack reports",
    doc: "The traffic of a machine's reports of its services' usage to all others of its rack: datagrams as brokers \
          encode them, \
          with all headers.",
    keys: &[
        Key::required("services", Shape::Scalar(&SERVICES), "The number of services.", "services: 1000"),
        Key::required("machines", Shape::Scalar(&MACHINES), "Machines of the rack.", "machines: 40"),
        Key::required("period", Shape::Scalar(&TIME), "The period.", "period: 1s"),
    ],
};

static FABRIC_REPORTS: Record = Record {
    id: "fabric-reports",
    what: "a rate of reports to the fabric broker",
    doc: "The traffic of rack leaders to the fabric broker: datagrams as brokers encode them, with all headers.",
    keys: &[
        Key::required("services", Shape::Scalar(&SERVICES), "The number of services.", "services: 1000"),
        Key::required("racks", Shape::Scalar(&RACKS), "Racks.", "racks: 10000"),
        Key::required("period", Shape::Scalar(&TIME), "The period.", "period: 10s"),
    ],
};

pub(crate) const LEVEL_KEYWORDS: &[&str] =
    &["worst", "bound", "tightness", "late", "overfull", "median", "p99", "queue"];
static LEVEL: Record = Record {
    id: "level",
    what: "a measurement of a latency level",
    doc: "The frames of a latency level in a run: the longest time from a host's regulator to the receiver, its bound, \
          the first as a part of the second, the number of frames that were late or found a queue above its bound, a \
          percentile of the times, or the largest queue at the ports of a class as a part of its bound.",
    keys: &[
        RUN_KEY,
        Key::required(
            "level",
            Shape::Scalar(&Scalar::Integer { what: "a level", min: 1, max: MAX_LEVELS as i128 }),
            "The level, 1 the most urgent.",
            "level: 1",
        ),
        Key::required(
            "of",
            Shape::Scalar(&Scalar::Words { what: "a measurement of a level", words: LEVEL_KEYWORDS }),
            "`worst`, `bound`, `tightness`, `late`, `overfull`, `median`, `p99` or `queue`.",
            "of: worst",
        ),
        Key::optional(
            "link",
            Shape::Scalar(&TEXT),
            "Of `queue`: the first link of the class of switches' ports.",
            "link: \"leaf0->spine0\"",
        ),
    ],
};
pub(crate) const EPOCH_KEYWORDS: &[&str] = &["epoch", "rate"];
static NETWORK_EPOCH: Record = Record {
    id: "network-epoch",
    what: "an epoch of a latency level",
    doc: "The time in which each of some hosts sends so many frames over the slowest link, divided by a level's \
          factor: its time for a frame; or the rate of a host on the level.",
    keys: &[
        Key::required(
            "hosts",
            Shape::Scalar(&Scalar::Integer { what: "a number of hosts", min: 1, max: 1_000_000 }),
            "The number of hosts.",
            "hosts: 144",
        ),
        Key::required("packet", Shape::Scalar(&SIZE), "The size of a frame.", "packet: 9kB"),
        CAPACITY_KEY,
        Key::required(
            "factor",
            Shape::Scalar(&Scalar::Integer { what: "a factor", min: 1, max: 1_000_000 }),
            "The throughput factor of the level.",
            "factor: 1",
        ),
        Key::required(
            "frames",
            Shape::Scalar(&Scalar::Integer { what: "a number of frames", min: 1, max: 2 }),
            "Frames of each host in an epoch: 2 in the slides, 1 in the authors' settings.",
            "frames: 2",
        ),
        Key::required(
            "of",
            Shape::Scalar(&Scalar::Words { what: "`epoch` or `rate`", words: EPOCH_KEYWORDS }),
            "`epoch` or `rate`.",
            "of: rate",
        ),
    ],
};

static MEASURES: &[&Record] = &[
    &BANDWIDTH,
    &METER_RATE,
    &COUNTER,
    &COMPLETION_TIME,
    &SLOWDOWN,
    &FAIRNESS,
    &QUEUE,
    &SETTLING,
    &ALLOCATION,
    &POLICY_SHARE,
    &POLICY_CAPACITY,
    &BOUND,
    &BURST,
    &MM1,
    &MM1_QUEUE,
    &SHARING_TIME,
    &REPORT_SIZE,
    &RACK_REPORTS,
    &FABRIC_REPORTS,
    &LEVEL,
    &NETWORK_EPOCH,
    &RESERVATION,
    &TENANTS,
    &PORTS,
    &QUEUED,
    &DSCP_VALUES,
    &GAIN,
    &LINKS,
];
/// The measure of a value.
pub static MEASURE: Choice = Choice {
    id: "measure",
    what: "a measure",
    doc: "The counterpart of a published value.",
    tag: "kind",
    tag_what: "a kind of measure",
    tag_doc: "The kind of measurement or computation.",
    default: None,
    common: &[],
    elsewhere: &[],
    variants: || MEASURES,
};
