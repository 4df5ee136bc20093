//! The policy language: the content of a policy file, as one static description.
//!
//! The check, the reader's hints and `schemas/policy.schema.json` all come from [`POLICY`]. Rules
//! that span several positions (a machine in two racks, minima that do not fit) are checked by
//! `read`, `admission` and `overlap`.

use crate::dscp::DSCP;
use crate::filter_syntax as syntax;
use crate::model::Protocol;
use crate::pod;
use weir_document::scalar::{MAX_WEIGHT, Refusal, Scalar, named};
use weir_document::shape::{Key, List, Map, Record, Shape};
use weir_network::language::NETWORK;
pub(crate) use weir_network::language::YES_NO;
use weir_network::names;
use weir_units::{Bytes, Duration};

/// Bytes of a policy file. A policy of 100,000 services takes about 10 MB.
pub const MAX_FILE: u64 = 16 << 20;
/// Services of a policy, leaves and inner ones.
pub const MAX_SERVICES: usize = 100_000;
/// Tenants of a policy.
pub const MAX_TENANTS: usize = 100_000;
/// Virtual machines of a tenant.
pub const MAX_TENANT_VMS: u32 = 1_000_000;
/// Filters of one service: as many as one interface can have.
pub const MAX_FILTERS: usize = 4_096;
/// Filters of a policy.
pub const MAX_ALL_FILTERS: usize = 200_000;
/// Weights of senders in a policy, ranges written out: as many as ten for every service of the
/// largest policy.
pub const MAX_SENDERS: usize = 1_000_000;
/// Machines that all services' `machines` name together, ranges written out: as many as a hundred for every service of
/// the largest policy.
pub const MAX_SERVICE_MACHINES: usize = 10_000_000;
/// The shortest interval of a receive meter: a few round trips of a datacenter. Shorter ones
/// measure single packets.
pub const MIN_INTERVAL: Duration = Duration::from_micros(10);
/// The longest interval of a receive meter: the rack brokers' period, below which the shapers have
/// to react.
pub const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// The smallest burst of a limiter: one full Ethernet frame without its check sequence. With less
/// it never sends.
pub const MIN_BURST: Bytes = Bytes::new(1_514);
/// The largest burst of a limiter: 20 ms at 100 Gb/s. A longer one is a load.
pub const MAX_BURST: Bytes = Bytes::new(256 << 20);

static NAME: Scalar =
    Scalar::Checked { what: "a name", check: names::check_name, pattern: names::NAME_PATTERN, example: "m1" };
static RATE: Scalar = Scalar::Rate { unlimited: false, zero: false };
static LIMIT: Scalar = Scalar::Rate { unlimited: true, zero: false };
static WEIGHT: Scalar = Scalar::Weight { most: MAX_WEIGHT };
static SIZE: Scalar = Scalar::Bytes;
static TIME: Scalar = Scalar::Duration { zero: false };
static VERSION: Scalar = Scalar::Words { what: "a format version that this program reads", words: &["1"] };

pub(crate) const SHARING_KEYWORDS: &[&str] = &["add", "fill"];
static SHARING: Scalar = Scalar::Words { what: "a sharing rule", words: SHARING_KEYWORDS };
/// Latency levels of a policy: a port has eight queues (IEEE 802.1Q), of which network control and all other traffic
/// have one each.
pub const MAX_LEVELS: usize = 6;
/// The largest factor of a level: with frames of 9 kB its burst then is 9 GB.
pub const MAX_FACTOR: u32 = 1_000_000;
/// The most segments of a super-packet (Linux, `GSO_MAX_SEGS`).
pub const MAX_SEGMENTS: u32 = 65_535;
/// The largest socket priority that a filter can name (`SO_PRIORITY`): larger values are handles of classes in Linux.
pub const MAX_PRIORITY: u32 = 65_535;
/// The largest network identifier: it has 24 bits (RFC 7348 section 5, RFC 8926 section 3.4).
pub const MAX_VNI: u32 = (1 << 24) - 1;
pub(crate) const LEVEL_KEYWORDS: &[&str] = &["auto", "guaranteed", "1", "2", "3", "4", "5", "6"];
static LEVEL: Scalar = Scalar::Words { what: "a level", words: LEVEL_KEYWORDS };
pub(crate) const EPOCH_KEYWORDS: &[&str] = &["regulated", "windowed"];
static EPOCH: Scalar = Scalar::Words { what: "a form of epochs", words: EPOCH_KEYWORDS };
static LOAD: Scalar =
    Scalar::Percent { what: "the load of bounded levels", too_much: "all other traffic needs a part of every port" };
static FACTOR: Scalar = Scalar::Integer { what: "a factor", min: 1, max: MAX_FACTOR as i128 };
static SEGMENTS: Scalar = Scalar::Integer { what: "a number of segments", min: 1, max: MAX_SEGMENTS as i128 };
static BOOLEAN: Scalar = Scalar::Words { what: "a yes or no", words: YES_NO };
static ORDER: Scalar = Scalar::Integer { what: "an order", min: i32::MIN as i128, max: i32::MAX as i128 };
static VMS: Scalar = Scalar::Integer { what: "a number of virtual machines", min: 1, max: MAX_TENANT_VMS as i128 };

/// The whole file.
pub static POLICY: Record = Record {
    id: "policy",
    what: "a policy",
    doc: "The shares of services in a datacenter network.",
    keys: &[
        Key::required("weir", Shape::Scalar(&VERSION), "The version of this format.", "weir: 1"),
        Key::optional(
            "sharing",
            Shape::Scalar(&SHARING),
            "The division of the capacity among services: `add` gives guarantees first and the excess by weight (the \
             default), `fill` clips one fair share between min and max. A service may choose for its own children.",
            "sharing: add",
        ),
        Key::required(
            "network",
            Shape::Choice(&NETWORK),
            "The network: racks and machines, or a topology.",
            "network: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } } }",
        ),
        Key::optional(
            "services",
            Shape::Map(&SERVICES),
            "The services that share the network, by name.",
            "services: { web: { match: [ { protocol: tcp, port: 80 } ] } }",
        ),
        Key::optional(
            "tunnels",
            Shape::Record(&TUNNELS),
            "The UDP ports of tunnels whose networks filters specify (`vni`).",
            "tunnels: { vxlan: [4789, 8472] }",
        ),
        Key::optional(
            "caps",
            Shape::Record(&CAPS),
            "Caps on the sum of all traffic at a point (the papers' star service).",
            "caps: { rack: 9Gb/s }",
        ),
        Key::optional(
            "levels",
            Shape::Record(&LEVELS),
            "The latency levels that services are on (QJump).",
            "levels: { factors: [1, 10] }",
        ),
        Key::optional(
            "credits",
            Shape::Record(&CREDITS),
            "The part of ports that services with credits have, and the period of credits (PACE).",
            "credits: { share: 80% }",
        ),
        Key::optional(
            "tenants",
            Shape::Map(&TENANTS),
            "The tenants, by name: virtual machines with a guaranteed bandwidth each (hose model).",
            "tenants: { red: { vms: 10, bandwidth: 100Mb/s, match: [ { vni: 5001 } ] } }",
        ),
        Key::optional(
            "tenant-queues",
            Shape::Record(&TENANT_QUEUES),
            "The binding of switches' weighted queues to tenants (QShare).",
            "tenant-queues: { interval: 4s }",
        ),
    ],
};

static MACHINE_RANGE: Scalar = Scalar::Checked {
    what: "a machine or a range of machines",
    check: names::check_range,
    pattern: names::RANGE_PATTERN,
    example: "m1",
};
static MACHINE_NAMES: List = List { what: "a list of machines", item: Shape::Scalar(&MACHINE_RANGE), min: 1 };
static SERVICES: Map =
    Map { what: "a mapping of services by name", name: &NAME, value: Shape::Record(&SERVICE), min: 1 };
static SERVICE: Record = Record {
    id: "service",
    what: "a service",
    doc: "A bundle of traffic. A leaf has `match`; one with `services` contains the traffic of its children.",
    keys: &[
        Key::optional(
            "match",
            Shape::List(&FILTERS),
            "The packets that belong to it: any of these filters.",
            "match: [ { protocol: tcp, port: 80 } ]",
        ),
        Key::optional(
            "machines",
            Shape::List(&MACHINE_NAMES),
            "The machines on which it runs: names, or ranges such as `m[1-10]`; where not written, those of the \
             service that it is nested in, or every machine. It has guarantees there only.",
            "machines: [\"m[1-10]\"]",
        ),
        Key::optional("machine", Shape::Record(&LEVEL_SHARE), "Its share of each machine.", "machine: { min: 3Gb/s }"),
        Key::optional(
            "rack",
            Shape::Record(&LEVEL_SHARE),
            "Its share of each rack's uplink.",
            "rack: { min: 6Gb/s, weight: 2 }",
        ),
        Key::optional("fabric", Shape::Record(&LEVEL_SHARE), "Its share of the fabric.", "fabric: { max: 1Tb/s }"),
        Key::optional(
            "sharing",
            Shape::Scalar(&SHARING),
            "The rule by which its children divide its bandwidth.",
            "sharing: fill",
        ),
        Key::optional(
            "services",
            Shape::Map(&SERVICES),
            "The services nested in it.",
            "services: { hbase: { match: [ { port: 60000 } ] } }",
        ),
        Key::optional(
            "order",
            Shape::Scalar(&ORDER),
            "The rank among services whose filters overlap: the lowest order is tried first; 0 where not written.",
            "order: 1",
        ),
        Key::optional(
            "latency",
            Shape::Record(&LATENCY),
            "A completion time to keep: `p99` by capacity and load, `worst` by a latency level.",
            "latency: { message: 1MB, p99: 20ms }",
        ),
        Key::optional(
            "level",
            Shape::Scalar(&LEVEL),
            "Its latency level: a number, 1 the most urgent; `guaranteed`, which is 1; or `auto`, chosen by `weir \
             plan` for its `latency`.",
            "level: 1",
        ),
        Key::optional(
            "credits",
            Shape::Record(&CREDITS_OF_SERVICE),
            "It sends only what ports on its path have granted; not beside a guarantee or a latency level.",
            "credits: { weight: 2 }",
        ),
        Key::optional(
            "shaper",
            Shape::Record(&SHAPER),
            "The parameters of machine shapers for its traffic.",
            "shaper: { interval: 200us, burst: 64kB }",
        ),
        Key::optional(
            "senders",
            Shape::Map(&SENDERS),
            "The weights of sending machines at its receivers, by machine or range; 1 where not written.",
            "senders: { m1: 2, \"m[3-4]\": 0.5 }",
        ),
    ],
};

static SHAPER: Record = Record {
    id: "shaper",
    what: "the settings of a shaper",
    doc: "The parameters of machine shapers for the traffic of a service.",
    keys: &[
        Key::optional(
            "interval",
            Shape::Scalar(&TIME),
            "The interval at which a receive meter computes its rate, from 10us to 1s.",
            "interval: 200us",
        ),
        Key::optional(
            "burst",
            Shape::Scalar(&SIZE),
            "The burst of its destination limiters, from 1514B to 256MiB: at least one message whose latency matters.",
            "burst: 64kB",
        ),
    ],
};
static SENDERS: Map = Map {
    what: "a mapping of weights by machine or range",
    name: &MACHINE_RANGE,
    value: Shape::Scalar(&WEIGHT),
    min: 0,
};

macro_rules! share_keys {
    ($($more:expr),*) => {
        &[
            Key::optional("min", Shape::Scalar(&RATE), "The guarantee; none where not written.", "min: 3Gb/s"),
            Key::optional("max", Shape::Scalar(&LIMIT), "The limit; unlimited where not written.", "max: 1Gb/s"),
            Key::optional(
                "weight",
                Shape::Scalar(&WEIGHT),
                "The weight in the excess; 1 where not written.",
                "weight: 2",
            ),
            $($more),*
        ]
    };
}
static LEVEL_SHARE: Record = Record {
    id: "share",
    what: "a share",
    doc: "The share of a service at one level: both directions, and the differences of one of them.",
    keys: share_keys![
        Key::optional("tx", Shape::Record(&ONE_SHARE), "Values for transmit alone.", "tx: { max: 1Gb/s }"),
        Key::optional("rx", Shape::Record(&ONE_SHARE), "Values for receive alone.", "rx: { max: 1Gb/s }")
    ],
};
static ONE_SHARE: Record = Record {
    id: "direction-share",
    what: "a share in one direction",
    doc: "The share of a service at one level in one direction.",
    keys: share_keys![],
};

static PROTOCOL: Scalar = Scalar::Named { what: "a protocol", min: 0, max: u8::MAX as i128, names: Protocol::NAMES };
static PORTS: Scalar = Scalar::Checked {
    what: "a port or a range of ports",
    check: syntax::check_ports,
    pattern: r"^[1-9][0-9]{0,4}( *- *[1-9][0-9]{0,4})?( *, *[1-9][0-9]{0,4}( *- *[1-9][0-9]{0,4})?)*$",
    example: "7000-7099",
};
static PORT_LIST: List = List { what: "a list of ports", item: Shape::Scalar(&PORTS), min: 1 };
static PRIORITY: Scalar = Scalar::Integer { what: "a socket priority", min: 0, max: MAX_PRIORITY as i128 };
static FILTERS: List = List { what: "a list of filters", item: Shape::Record(&FILTER), min: 1 };
static FILTER: Record = Record {
    id: "filter",
    what: "a filter",
    doc: "A packet matches when every field that is written does. Ports and addresses are the service's own end.",
    keys: &[
        Key::optional(
            "protocol",
            Shape::Scalar(&PROTOCOL),
            "`tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, or a protocol number.",
            "protocol: tcp",
        ),
        Key::optional(
            "port",
            Shape::OneOf(&[Shape::Scalar(&PORTS), Shape::List(&PORT_LIST)]),
            "A port, a range of ports, or several of them, at either end of the packet.",
            "port: [80, 443, 7000-7099]",
        ),
        Key::optional(
            "address",
            Shape::Scalar(&Scalar::Checked {
                what: "an address prefix",
                check: syntax::check_prefix,
                pattern: r"^[0-9A-Fa-f:.]+(/(0|[1-9][0-9]{0,2}))?$",
                example: "10.0.0.0/8",
            }),
            "A prefix that the source or the destination address is in.",
            "address: 10.0.0.0/8",
        ),
        Key::optional(
            "interface",
            Shape::Scalar(&Scalar::Checked {
                what: "an interface glob",
                check: syntax::check_interface,
                pattern: r"^[^ /\t]{1,64}$",
                example: "tap*",
            }),
            "A glob (`*`, `?`) over the name of the agent's interface, or of that of a guest (tap, veth) on its host.",
            "interface: \"tap*\"",
        ),
        Key::optional(
            "pod",
            Shape::Record(&POD),
            "The pods that send or receive, of those on the agent's host.",
            "pod: { namespace: shop, labels: \"app=web\" }",
        ),
        Key::optional(
            "cgroup",
            Shape::Scalar(&Scalar::Checked {
                what: "a glob over the paths of control groups",
                check: syntax::check_cgroup,
                pattern: r"^/?[^/]+(/[^/]+)*$",
                example: "/system.slice/web.service",
            }),
            "A glob (`*`, `?` within a part of the path) over the path of the control group that the packet's socket \
             is in, or of one above it.",
            "cgroup: /system.slice/web.service",
        ),
        Key::optional(
            "dscp",
            Shape::OneOf(&[Shape::Scalar(&DSCP), Shape::List(&DSCPS)]),
            "The differentiated-services code point, a number or a name (`EF`, `AF31`, `CS5`), or a list of them.",
            "dscp: [AF31, 28]",
        ),
        Key::optional(
            "priority",
            Shape::Scalar(&PRIORITY),
            "The priority of the sending socket (`SO_PRIORITY`), by which an application chooses its service; unknown \
             of received packets.",
            "priority: 5",
        ),
        Key::optional(
            "vni",
            Shape::Scalar(&Scalar::Integer { what: "a network identifier", min: 0, max: MAX_VNI as i128 }),
            "The network identifier of a VXLAN or Geneve packet, to one of the ports of `tunnels`.",
            "vni: 4711",
        ),
    ],
};

static POD: Record = Record {
    id: "pod",
    what: "a selector of pods",
    doc: "A pod is selected when every key that is written holds; one at least is.",
    keys: &[
        Key::optional(
            "namespace",
            Shape::Scalar(&Scalar::Checked {
                what: "a glob over namespaces",
                check: pod::check_namespace,
                pattern: r"^[-a-z0-9*?]+$",
                example: "shop",
            }),
            "A glob (`*`, `?`) over the pod's namespace.",
            "namespace: shop",
        ),
        Key::optional(
            "name",
            Shape::Scalar(&Scalar::Checked {
                what: "a glob over names of pods",
                check: pod::check_name,
                pattern: r"^[-a-z0-9.*?]+$",
                example: "web-*",
            }),
            "A glob (`*`, `?`) over the pod's name.",
            "name: \"web-*\"",
        ),
        Key::optional(
            "labels",
            Shape::Scalar(&Scalar::Checked {
                what: "a selector over labels",
                check: pod::check_labels,
                pattern: r"^[-A-Za-z0-9_./!=,() ]+$",
                example: "app=web,tier in (a,b),!canary",
            }),
            "A selector over the pod's labels as of `kubectl get --selector`: `=`, `!=`, `in`, `notin`, `key`, `!key`.",
            "labels: \"app=web,tier in (a,b),!canary\"",
        ),
    ],
};

static TUNNELS: Record = Record {
    id: "tunnels",
    what: "the ports of tunnels",
    doc: "The UDP ports of each kind of tunnel, four at most. A kind that is not written has its usual ones.",
    keys: &[
        Key::optional("vxlan", TUNNEL_PORTS, "The ports of VXLAN; 4789 and 8472 where not written.", "vxlan: 8472"),
        Key::optional("geneve", TUNNEL_PORTS, "The ports of Geneve; 6081 where not written.", "geneve: [6081, 6082]"),
    ],
};
const TUNNEL_PORTS: Shape = Shape::OneOf(&[Shape::Scalar(&TUNNEL_PORT), Shape::List(&TUNNEL_PORT_LIST)]);
static TUNNEL_PORT: Scalar = Scalar::Integer { what: "a port", min: 1, max: u16::MAX as i128 };
static TUNNEL_PORT_LIST: List = List { what: "a list of ports", item: Shape::Scalar(&TUNNEL_PORT), min: 1 };

static LATENCY: Record = Record {
    id: "latency",
    what: "a latency target",
    doc: "The time within which 99 of 100 messages of a size must finish, or all of them.",
    keys: &[
        Key::required("message", Shape::Scalar(&SIZE), "The size of a message.", "message: 1MB"),
        Key::optional("p99", Shape::Scalar(&TIME), "The completion time of 99 of 100 messages.", "p99: 20ms"),
        Key::optional(
            "worst",
            Shape::Scalar(&TIME),
            "The time within which every message arrives, which needs a latency level.",
            "worst: 200us",
        ),
        Key::optional(
            "rate",
            Shape::Scalar(&RATE),
            "The rate of messages that each machine sends, beside `worst`.",
            "rate: 50Mb/s",
        ),
        Key::optional(
            "round-trip",
            Shape::Scalar(&BOOLEAN),
            "`true`: `worst` is the time of a message and its reply, which is on the same level and of the same size.",
            "round-trip: true",
        ),
    ],
};

static FACTORS: List = List { what: "a list of factors", item: Shape::Scalar(&FACTOR), min: 1 };
static DSCPS: List = List { what: "a list of DSCP values", item: Shape::Scalar(&DSCP), min: 1 };
static LEVELS: Record = Record {
    id: "levels",
    what: "the latency levels",
    doc: "Levels of traffic that hosts limit so strictly that its delay is bounded (QJump, NSDI 2015).",
    keys: &[
        Key::optional(
            "packet",
            Shape::Scalar(&SIZE),
            "The largest frame of levelled traffic on the wire, with `framing`; the network's largest frame where not \
             written.",
            "packet: 9kB",
        ),
        Key::optional(
            "framing",
            Shape::Scalar(&FRAMING),
            "Bytes that a link needs for each frame beside its headers; 24B where not written, which is Ethernet's \
             preamble, check sequence and gap.",
            "framing: 24B",
        ),
        Key::optional(
            "load",
            Shape::Scalar(&LOAD),
            "The part of every port that bounded levels may fill together; guarantees of other services are of the \
             rest; 50% where not written.",
            "load: 50%",
        ),
        Key::optional(
            "epoch",
            Shape::Scalar(&EPOCH),
            "The limiter at a host: `regulated` is a token bucket (the default), `windowed` the authors' window, which \
             begins with its first packet.",
            "epoch: regulated",
        ),
        Key::optional(
            "factors",
            Shape::List(&FACTORS),
            "The throughput factor of each level, most urgent first, ascending: frames that a host may send at once, \
             and in an epoch. Not with `level: auto`, whose factors `weir plan` chooses.",
            "factors: [1, 10, 100]",
        ),
        Key::optional(
            "dscp",
            Shape::List(&DSCPS),
            "The DSCP value of each level, most urgent first; 46, 34, 26, 36, 28, 38 where not written.",
            "dscp: [EF, AF41, 26]",
        ),
        Key::optional(
            "processing",
            Shape::Scalar(&PROCESSING),
            "The time that the switches of a path need for a packet, together; none where not written.",
            "processing: 2us",
        ),
        Key::optional(
            "segments",
            Shape::Scalar(&SEGMENTS),
            "The most segments of a super-packet of other traffic at hosts with levels (`gso_max_segs`); Linux's 64 kB \
             where not written.",
            "segments: 8",
        ),
    ],
};
static FRAMING: Scalar =
    Scalar::Checked { what: "a size", check: check_size_or_zero, pattern: r"^[0-9.]+ ?[kMG]?B$", example: "24B" };
static PROCESSING: Scalar = Scalar::Duration { zero: true };

const CAP: Shape = Shape::OneOf(&[Shape::Scalar(&RATE), Shape::Record(&CAP_RATES)]);
static CAP_RATES: Record = Record {
    id: "cap-rates",
    what: "a cap for each direction",
    doc: "A cap for one direction or for both; no cap in a direction that is not written.",
    keys: &[
        Key::optional("tx", Shape::Scalar(&RATE), "Transmit.", "tx: 9Gb/s"),
        Key::optional("rx", Shape::Scalar(&RATE), "Receive.", "rx: 9Gb/s"),
    ],
};
static CAPS: Record = Record {
    id: "caps",
    what: "the caps",
    doc: "Caps on the sum of all traffic, per level.",
    keys: &[
        Key::optional("machine", CAP, "At each machine.", "machine: 9Gb/s"),
        Key::optional("rack", CAP, "At each rack's uplink.", "rack: 9Gb/s"),
        Key::optional("fabric", CAP, "At the fabric.", "fabric: 90Gb/s"),
    ],
};

static TENANTS: Map = Map { what: "a mapping of tenants by name", name: &NAME, value: Shape::Record(&TENANT), min: 0 };
static TENANT: Record = Record {
    id: "tenant",
    what: "a tenant",
    doc: "Virtual machines with a bandwidth for each, whatever they send to each other.",
    keys: &[
        Key::required(
            "vms",
            Shape::OneOf(&[Shape::Scalar(&VMS), Shape::Map(&VM_GROUPS)]),
            "The number of virtual machines, or the number in each group.",
            "vms: 10",
        ),
        Key::required(
            "bandwidth",
            Shape::OneOf(&[Shape::Scalar(&RATE), Shape::Map(&GROUP_RATES)]),
            "The bandwidth of each one's hose, or that of each group.",
            "bandwidth: 100Mb/s",
        ),
        Key::optional(
            "match",
            Shape::List(&FILTERS),
            "The packets that belong to it: any of these filters. Without it, hosts do not know its packets.",
            "match: [ { vni: 5001 } ]",
        ),
        Key::optional(
            "order",
            Shape::Scalar(&ORDER),
            "The rank among services and tenants whose filters overlap: the lowest order is tried first.",
            "order: 1",
        ),
    ],
};
static TENANT_QUEUES: Record = Record {
    id: "tenant-queues",
    what: "the binding of queues to tenants",
    doc: "The binding of switches' weighted queues to tenants: those that use their guarantees most have queues of \
          their own, all others share one.",
    keys: &[
        Key::optional(
            "interval",
            Shape::Scalar(&TIME),
            "The time between two choices of the tenants with queues of their own, 10ms to 1h; 4s.",
            "interval: 4s",
        ),
        Key::optional(
            "shared",
            Shape::Scalar(&SHARED),
            "The tenants without queues of their own: `elastic` (the default), each may send more than its guarantee \
             while others leave bandwidth; `cap`, hosts limit each to its guarantee.",
            "shared: cap",
        ),
        Key::optional(
            "reserved-dscp",
            Shape::List(&DSCPS),
            "DSCP values that the network uses for other purposes: no tenant has one of them. 0, CS6, CS7 and those of \
             latency levels need not be written.",
            "reserved-dscp: [CS1, 10]",
        ),
        Key::optional(
            "paths",
            Shape::Scalar(&PATHS),
            "The paths of tenants' packets where the network has several: `routed`, switches route each tenant along \
             its tree (`weir place` lists the routes); `spread`, switches spread packets over equal paths, and each \
             tenant reserves in full on all of them. Not written: trees whose routes are not there yet.",
            "paths: spread",
        ),
    ],
};
pub(crate) const PATHS_KEYWORDS: &[&str] = &["routed", "spread"];
static PATHS: Scalar = Scalar::Words { what: "the paths of tenants", words: PATHS_KEYWORDS };
pub(crate) const SHARED_KEYWORDS: &[&str] = &["elastic", "cap"];
static SHARED: Scalar = Scalar::Words { what: "a treatment of the shared queue", words: SHARED_KEYWORDS };
/// The shortest control interval: a change of queues takes a few round trips through the control network.
pub const MIN_CONTROL_INTERVAL: Duration = Duration::from_millis(10);
/// The longest control interval.
pub const MAX_CONTROL_INTERVAL: Duration = Duration::from_secs(3_600);
static VM_GROUPS: Map = Map { what: "a mapping of numbers by group", name: &NAME, value: Shape::Scalar(&VMS), min: 1 };
static GROUP_RATES: Map = Map { what: "a mapping of rates by group", name: &NAME, value: Shape::Scalar(&RATE), min: 1 };

static CREDITS: Record = Record {
    id: "credits",
    what: "the credits",
    doc: "The part of every port that services with credits have, and the longest period of their grants (PACE).",
    keys: &[
        Key::optional(
            "share",
            Shape::Scalar(&CREDIT_SHARE),
            "The part of what latency levels leave of every port that the queue of these services has; all of it where \
             all services have credits, else 50% where not written.",
            "share: 80%",
        ),
        Key::optional(
            "period-max",
            Shape::Scalar(&TIME),
            "The longest period for which a port grants credits, 20us to 10s: it queues up to twice what it sends in \
             this time. The longest that fits all buffers where not written.",
            "period-max: 5ms",
        ),
    ],
};
static CREDIT_SHARE: Scalar =
    Scalar::Percent { what: "a share of credits", too_much: "other traffic needs a part of every port" };
/// The shortest period of credits: the unit of the protocol's fields (PACE §III.B).
pub const MIN_CREDIT_PERIOD: Duration = Duration::from_micros(20);
/// The longest period of credits that a policy may state: a thousand times those of a slow network.
pub const MAX_CREDIT_PERIOD: Duration = Duration::from_secs(10);
/// The largest weight of credits: ports divide weights among pairs of hosts, in millionths below 2^32.
pub const MAX_CREDIT_WEIGHT: u32 = 1_000;
static CREDIT_WEIGHT: Scalar = Scalar::Weight { most: MAX_CREDIT_WEIGHT };
static CREDITS_OF_SERVICE: Record = Record {
    id: "service-credits",
    what: "the credits of a service",
    doc: "Its traffic waits for credits that every port of its path grants by weight (PACE).",
    keys: &[Key::optional(
        "weight",
        Shape::Scalar(&CREDIT_WEIGHT),
        "The weight of its flows at every port, up to 1000; 1 where not written.",
        "weight: 2",
    )],
};

/// Reads a protocol by name or number.
pub(crate) fn protocol(text: &str) -> Result<Protocol, Refusal> {
    named(text, PROTOCOL.what(), 0, u8::MAX.into(), Protocol::NAMES).map(|number| Protocol(number as u8))
}

/// Reads a size, zero included.
pub(crate) fn size_or_zero(text: &str) -> Result<Bytes, Refusal> {
    text.parse().map_err(Refusal::from)
}

fn check_size_or_zero(text: &str) -> Result<(), Refusal> {
    size_or_zero(text).map(drop)
}
