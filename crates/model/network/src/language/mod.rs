//! The language of networks: topologies, links and queues, as one static description.
//!
//! The check of a file and its JSON Schema come from it; names that refer to each other are checked by `read`.

mod racks;

pub use racks::{
    DSCP_MAP_KEYWORDS, LINKS_OF_RACKS, MAX_MACHINES, MAX_MTU, MAX_PORT_QUEUES, MAX_SLOTS, MAX_SPINES_OF_RACKS,
    MIN_BUFFER, MIN_MTU, SCHEDULER_KEYWORDS, YES_NO, is_of_one_machine,
};

pub(crate) use racks::ip;

use crate::names::{self, NameRange};
use weir_document::scalar::Refusal;
use weir_document::scalar::{MILLION, Scalar};
use weir_document::shape::{Choice, Key, List, Map, Record, Shape};
use weir_units::{Bandwidth, Bytes, Duration};

/// The longest link: more than once around the earth in glass.
pub const MAX_DELAY: Duration = Duration::from_secs(1);
/// The slowest link: the largest buffer then takes three months to send, which a run's clock of
/// picoseconds still counts.
pub const MIN_RATE: Bandwidth = Bandwidth::from_bps(10_000);
/// The fastest link: a byte takes a picosecond, which is what the clock counts.
pub const MAX_RATE: Bandwidth = Bandwidth::from_bps(8_000_000_000_000);
/// The largest buffer of a port; the deepest switches have a few gigabytes for all ports.
pub const MAX_BUFFER: Bytes = Bytes::new(10_000_000_000);
/// Hosts of one rack, switch or star.
pub const MAX_HOSTS_OF_ONE: u32 = 1_000_000;
/// Hosts of a network, for any memory: a fat-tree of 256-port switches has fewer.
pub const MAX_HOSTS: u64 = 5_000_000;
/// Weights of a class: switches offer a few bits, simulations need round ratios.
pub const MAX_WEIGHT: u32 = 10_000;
/// The largest payload of a packet: with headers it is the largest IPv4 packet (RFC 791), as
/// offload makes them.
pub const MAX_PAYLOAD: u64 = 65_000;
/// The most header bytes: the longest IPv4 and TCP headers are 120, tunnels add some.
pub const MAX_HEADERS: u64 = 500;
/// The largest quantum of deficit round robin per weight.
pub const MAX_QUANTUM: u64 = 10_000_000;
/// Racks or switches of a chain.
pub const MAX_RACKS: u32 = 100_000;
/// Spine switches of a leaf-spine.
pub const MAX_SPINES: u32 = 1_000;
/// Ports of a fat-tree's switch: 256 is 4.2 million hosts.
pub const MAX_K: u32 = 256;

const fn count(what: &'static str, min: u32, max: u32) -> Scalar {
    Scalar::Integer { what, min: min as i128, max: max as i128 }
}

static TIME: Scalar = Scalar::Duration { zero: false };
static SIZE: Scalar = Scalar::Bytes;
static RATE: Scalar = Scalar::Rate { unlimited: false, zero: false };
static RANGE: Scalar = Scalar::Checked {
    what: "a name or a range of names",
    check: check_range,
    pattern: names::RANGE_PATTERN,
    example: "h1",
};
static NAME: Scalar =
    Scalar::Checked { what: "a name", check: names::check_name, pattern: names::NAME_PATTERN, example: "h1" };
static HOSTS: Scalar = count("a number of hosts", 1, MAX_HOSTS_OF_ONE);
static STAR_HOSTS: Scalar = count("a number of hosts", 2, MAX_HOSTS_OF_ONE);
static RACKS: Scalar = count("a number of racks", 1, MAX_RACKS);
static CHAIN: Scalar = count("a number of switches", 2, MAX_RACKS);
static CORES: Scalar = count("a number of core switches", 1, (MAX_K / 2) * (MAX_K / 2));
static AGGREGATIONS: Scalar = count("a number of aggregation switches", 1, MAX_K / 2);
static SPINES: Scalar = count("a number of spine switches", 1, MAX_SPINES);
static PORTS: Scalar = count("a number of ports", 2, MAX_K);
static WEIGHT: Scalar = count("the weight of a class", 1, MAX_WEIGHT);
/// Thousandths: the resolution of a graph.
static ALPHA: Scalar = Scalar::Decimal { what: "a factor", min: MILLION / 1000, max: 1_000 * MILLION };
/// The range of an oversubscription, in millionths.
pub const FACTOR_RANGE: (u64, u64) = (MILLION / 1000, 1_000 * MILLION);
static FACTOR: Scalar = Scalar::Decimal { what: "an oversubscription", min: FACTOR_RANGE.0, max: FACTOR_RANGE.1 };

/// The kinds of routing, in the order of their values in a file.
pub const ROUTING_KEYWORDS: &[&str] = &["ecmp", "spray", "symmetric"];
static ROUTING: Scalar = Scalar::Words { what: "a kind of routing", words: ROUTING_KEYWORDS };

static WEIGHTS: List = List { what: "a list of 8 weights, one for each class", item: Shape::Scalar(&WEIGHT), min: 1 };
/// A weight for each class.
pub const WEIGHTS_SHAPE: Shape = Shape::List(&WEIGHTS);

const MARK_DOC: &str = "A packet that can be marked is, when the queue that it joins holds more than this; never where \
    not written.";
const MARK: Key = Key::optional("mark", Shape::Scalar(&SIZE), MARK_DOC, "mark: 97500B");

static FIFO: Record = Record {
    id: "fifo",
    what: "a fifo queue",
    doc: "First in, first out; packets that do not fit are dropped, and packets are marked above a threshold if one \
          is given.",
    keys: &[MARK],
};
static DROP_TAIL: Record = Record {
    id: "drop-tail",
    what: "a drop-tail queue",
    doc: "First in, first out; packets that do not fit are dropped, none is marked.",
    keys: &[],
};
static ECN: Record = Record {
    id: "ecn",
    what: "an ecn queue",
    doc: "First in, first out, with a threshold of marking on the instantaneous queue (DCTCP, SIGCOMM 2010, §3.1).",
    keys: &[Key::required("mark", Shape::Scalar(&SIZE), MARK_DOC, "mark: 97500B")],
};
static STRICT_PRIORITY: Record = Record {
    id: "strict-priority",
    what: "a strict-priority queue",
    doc: "The first packet of the most urgent of 8 classes; class 0 is the most urgent.",
    keys: &[MARK],
};
static DEFICIT_ROUND_ROBIN: Record = Record {
    id: "deficit-round-robin",
    what: "a deficit-round-robin queue",
    doc: "8 classes in turn, in bytes, by weight (Shreedhar and Varghese, SIGCOMM 1995).",
    keys: &[
        Key::optional(
            "weights",
            WEIGHTS_SHAPE,
            "The weight of each class, class 0 first; equal where not written.",
            "weights: [4, 2, 1, 1, 1, 1, 1, 1]",
        ),
        Key::optional(
            "quantum",
            Shape::Scalar(&SIZE),
            "Bytes for each weight and round; a full packet where not written, which makes every round send.",
            "quantum: 1514B",
        ),
        MARK,
    ],
};
static PFABRIC: Record = Record {
    id: "pfabric",
    what: "a pfabric queue",
    doc: "The earliest packet of the flow with the least left to send; a full queue drops the packet with the most \
          left \
          (pFabric, SIGCOMM 2013, §4). For the transport `pfabric`.",
    keys: &[],
};

static DISCIPLINES: &[&Record] = &[&FIFO, &DROP_TAIL, &ECN, &STRICT_PRIORITY, &DEFICIT_ROUND_ROBIN, &PFABRIC];
/// A queue.
pub static QUEUE: Choice = Choice {
    id: "queue",
    what: "a queue",
    doc: "The order in which packets leave a port, and the rule for drops and marks.",
    tag: "discipline",
    tag_what: "a discipline",
    tag_doc: "The order of departures; `fifo` where not written.",
    default: Some("fifo"),
    common: &[Key::optional(
        "buffer",
        Shape::Scalar(&SIZE),
        "Bytes that the port holds at most; 256kB where not written, 36kB for `pfabric`.",
        "buffer: 256kB",
    )],
    elsewhere: &[],
    variants: || DISCIPLINES,
};
const QUEUE_SHAPE: Shape = Shape::Choice(&QUEUE);

const LINK_RATE: Key = Key::required("rate", Shape::Scalar(&RATE), "Its rate, each way.", "rate: 10Gb/s");
const DELAY: Key = Key::optional(
    "delay",
    Shape::Scalar(&TIME),
    "Its propagation delay, one way; 1us where not written.",
    "delay: 1us",
);
const LINK_QUEUE: Key = Key::optional(
    "queue",
    QUEUE_SHAPE,
    "The queue in front of it; the network's `queue` where not written.",
    "queue: { discipline: ecn, mark: 97500B }",
);
static LINK: Record = Record {
    id: "link",
    what: "a link",
    doc: "A link, the same in both directions.",
    keys: &[LINK_RATE, DELAY, LINK_QUEUE],
};
static FABRIC: Record = Record {
    id: "fabric-link",
    what: "a fabric link",
    doc: "A link between switches, the same in both directions.",
    keys: &[
        Key::optional(
            "rate",
            Shape::Scalar(&RATE),
            "Its rate, each way; needed unless `oversubscription` is written.",
            "rate: 40Gb/s",
        ),
        DELAY,
        LINK_QUEUE,
    ],
};

const HOST_LINK: Key =
    Key::required("host-link", Shape::Record(&LINK), "The hosts' links.", "host-link: { rate: 10Gb/s, delay: 1us }");
const FABRIC_LINK: Key = Key::required(
    "fabric-link",
    Shape::Record(&LINK),
    "The links between switches.",
    "fabric-link: { rate: 10Gb/s, delay: 1us }",
);
const OVERSUBSCRIPTION: Key = Key::optional(
    "oversubscription",
    Shape::Scalar(&FACTOR),
    "The sending rate of a switch's hosts, divided by the rate of its uplinks; it sets the rate of the fabric's links.",
    "oversubscription: 4",
);

static DUMBBELL: Record = Record {
    id: "dumbbell",
    what: "a dumbbell",
    doc: "Hosts on two switches, `left` and `right`, with one link between them.",
    keys: &[
        Key::required("hosts", Shape::Scalar(&HOSTS), "Pairs of hosts: so many on each side.", "hosts: 2"),
        HOST_LINK,
        FABRIC_LINK,
        ROUTING_KEY,
        NETWORK_QUEUE,
        SHARED_BUFFER_KEY,
        JITTER_KEY,
        PACKETS_KEY,
        SWITCHES_KEY,
    ],
};
static PARKING_LOT: Record = Record {
    id: "parking-lot",
    what: "a parking lot",
    doc: "Switches `sw0`, `sw1`, … in a chain, each with hosts.",
    keys: &[
        Key::required("switches", Shape::Scalar(&CHAIN), "Switches of the chain.", "switches: 3"),
        Key::required("hosts", Shape::Scalar(&HOSTS), "Hosts of each switch.", "hosts: 2"),
        HOST_LINK,
        FABRIC_LINK,
        ROUTING_KEY,
        NETWORK_QUEUE,
        SHARED_BUFFER_KEY,
        JITTER_KEY,
        PACKETS_KEY,
    ],
};
static STAR: Record = Record {
    id: "star",
    what: "a star",
    doc: "Hosts around one switch.",
    keys: &[
        Key::required("hosts", Shape::Scalar(&STAR_HOSTS), "All hosts.", "hosts: 8"),
        HOST_LINK,
        ROUTING_KEY,
        NETWORK_QUEUE,
        SHARED_BUFFER_KEY,
        JITTER_KEY,
        PACKETS_KEY,
        SWITCHES_KEY,
    ],
};
static LEAF_SPINE: Record = Record {
    id: "leaf-spine",
    what: "a leaf-spine",
    doc: "A leaf switch for each rack, with a link to every spine switch.",
    keys: &[
        Key::required("racks", Shape::Scalar(&RACKS), "Racks.", "racks: 9"),
        Key::required("hosts", Shape::Scalar(&HOSTS), "Hosts of each rack.", "hosts: 16"),
        Key::required("spines", Shape::Scalar(&SPINES), "Spine switches.", "spines: 4"),
        HOST_LINK,
        Key::optional(
            "fabric-link",
            Shape::Record(&FABRIC),
            "The links between leaves and spines.",
            "fabric-link: { rate: 40Gb/s, delay: 1us }",
        ),
        OVERSUBSCRIPTION,
        ROUTING_KEY,
        NETWORK_QUEUE,
        SHARED_BUFFER_KEY,
        JITTER_KEY,
        PACKETS_KEY,
        SWITCHES_KEY,
    ],
};
static FAT_TREE: Record = Record {
    id: "fat-tree",
    what: "a fat-tree",
    doc: "Three layers of switches with k ports each, and k³/4 hosts.",
    keys: &[
        Key::required("k", Shape::Scalar(&PORTS), "Ports of a switch: an even number.", "k: 4"),
        HOST_LINK,
        Key::optional(
            "fabric-link",
            Shape::Record(&FABRIC),
            "The links between switches; like the hosts' where not written.",
            "fabric-link: { rate: 10Gb/s, delay: 1us }",
        ),
        Key::optional(
            "cores",
            Shape::Scalar(&CORES),
            "Core switches, each with a link to every pod; (k/2)² where not written.",
            "cores: 2",
        ),
        Key::optional(
            "aggregations",
            Shape::Scalar(&AGGREGATIONS),
            "Aggregation switches of a pod, with links to all its edge switches; k/2 where not written.",
            "aggregations: 1",
        ),
        OVERSUBSCRIPTION,
        ROUTING_KEY,
        NETWORK_QUEUE,
        SHARED_BUFFER_KEY,
        JITTER_KEY,
        PACKETS_KEY,
        SWITCHES_KEY,
    ],
};

static HOST_NAMES: List = List { what: "a list of hosts", item: Shape::Scalar(&RANGE), min: 1 };
static SWITCH_NAMES: List = List { what: "a list of switches", item: Shape::Scalar(&RANGE), min: 1 };
static ENDS: List = List { what: "a pair of ends", item: Shape::Scalar(&NAME), min: 2 };
static CABLES: List = List { what: "a list of links", item: Shape::Record(&CABLE), min: 1 };
static GROUP_MEMBERS: List = List { what: "a list of hosts", item: Shape::Scalar(&RANGE), min: 1 };
static GROUPS: Map = Map {
    what: "a mapping of groups by name",
    name: &NAME,
    value: Shape::OneOf(&[Shape::Scalar(&RANGE), Shape::List(&GROUP_MEMBERS)]),
    min: 0,
};
static BACK: Record = Record {
    id: "back",
    what: "the way back",
    doc: "The properties of the direction from the second end to the first.",
    keys: &[
        Key::optional("rate", Shape::Scalar(&RATE), "Its rate.", "rate: 1Gb/s"),
        Key::optional("delay", Shape::Scalar(&TIME), "Its propagation delay.", "delay: 1us"),
        Key::optional("queue", QUEUE_SHAPE, "The queue in front of it.", "queue: { buffer: 64kB }"),
    ],
};
static CABLE: Record = Record {
    id: "cable",
    what: "a link",
    doc: "A link between two ends, at least one of them a switch.",
    keys: &[
        Key::required("between", Shape::List(&ENDS), "Its ends.", "between: [h1, a]"),
        LINK_RATE,
        DELAY,
        LINK_QUEUE,
        Key::optional(
            "back",
            Shape::Record(&BACK),
            "The properties of the direction from the second end to the first.",
            "back: { rate: 1Gb/s }",
        ),
    ],
};
static LINKS: Record = Record {
    id: "links",
    what: "a network of links",
    doc: "Hosts, switches and the links between them, one by one.",
    keys: &[
        Key::required("hosts", Shape::List(&HOST_NAMES), "The hosts: names or ranges.", "hosts: [\"h[1-4]\"]"),
        Key::required("switches", Shape::List(&SWITCH_NAMES), "The switches: names or ranges.", "switches: [a, b]"),
        Key::required(
            "links",
            Shape::List(&CABLES),
            "The links. Every host has exactly one.",
            "links: [ { between: [h1, a], rate: 10Gb/s } ]",
        ),
        Key::optional("groups", Shape::Map(&GROUPS), "Names for several hosts.", "groups: { clients: \"h[1-2]\" }"),
        ROUTING_KEY,
        NETWORK_QUEUE,
        SHARED_BUFFER_KEY,
        JITTER_KEY,
        PACKETS_KEY,
    ],
};

static SHARED_BUFFER: Record = Record {
    id: "shared-buffer",
    what: "a shared buffer",
    doc: "A buffer that all ports of a switch share (dynamic thresholds, Choudhury and Hahne 1998).",
    keys: &[
        Key::required("size", Shape::Scalar(&SIZE), "Bytes of each switch, for all its ports.", "size: 9MB"),
        Key::optional(
            "alpha",
            Shape::Scalar(&ALPHA),
            "A port may hold this many times the free space; 1 where not written.",
            "alpha: 1",
        ),
    ],
};
static PACKETS: Record = Record {
    id: "packets",
    what: "the packets",
    doc: "Sizes of packets; an mtu of 1500 bytes with TCP's time stamps where not written.",
    keys: &[
        Key::optional("payload", Shape::Scalar(&SIZE), "The most payload bytes of a packet; 1448B.", "payload: 1460B"),
        Key::optional(
            "headers",
            Shape::Scalar(&SIZE),
            "Header bytes of every packet, and all of an acknowledgement; 66B.",
            "headers: 40B",
        ),
    ],
};

// The defaults of all links of a topology.
const ROUTING_KEY: Key = Key::optional(
    "routing",
    Shape::Scalar(&ROUTING),
    "The choice among shortest paths: `ecmp` by a hash of the flow (the default), `symmetric` by one that takes both \
     directions of a flow over the same links, `spray` for every packet anew.",
    "routing: ecmp",
);
const NETWORK_QUEUE: Key = Key::optional(
    "queue",
    QUEUE_SHAPE,
    "The queue of links without their own; fifo with 256kB where not written.",
    "queue: { discipline: drop-tail, buffer: 256kB }",
);
const SHARED_BUFFER_KEY: Key = Key::optional(
    "shared-buffer",
    Shape::Record(&SHARED_BUFFER),
    "A buffer that all ports of a switch share, in place of one for each port.",
    "shared-buffer: { size: 9MB, alpha: 1 }",
);
const JITTER_KEY: Key = Key::optional(
    "jitter",
    Shape::Scalar(&TIME),
    "Hosts take up to this much longer, at random, for a packet that finds their interface idle; none where \
         not \
         written. With drop-tail queues, write the time of a frame at the bottleneck: without noise, flows fall \
         into step, and one gets several times the other's bandwidth.",
    "jitter: 12us",
);
const PACKETS_KEY: Key =
    Key::optional("packets", Shape::Record(&PACKETS), "Sizes of packets.", "packets: { payload: 1448B, headers: 66B }");

const SWITCHES_KEY: Key = Key::optional(
    "switches",
    Shape::Record(&racks::SWITCHES_OF_TOPOLOGY),
    "The queues of the switches' ports.",
    "switches: { queues: 8, scheduler: strict }",
);

static FORMS: &[&Record] = &[&racks::RACKS_FORM, &DUMBBELL, &PARKING_LOT, &STAR, &LEAF_SPINE, &FAT_TREE, &LINKS];
/// A network, of a policy or of a scenario.
pub static NETWORK: Choice = Choice {
    id: "network",
    what: "a network",
    doc: "Racks with their machines, or hosts, switches and links by a topology.",
    tag: "topology",
    tag_what: "a topology",
    tag_doc: "The connections between switches.",
    default: None,
    common: &[
        Key::optional(
            "machines",
            Shape::Map(&racks::MACHINES),
            "Properties of single machines or ranges of them.",
            "machines: { m1: { nic: 25Gb/s, address: 10.0.0.1 } }",
        ),
        Key::optional(
            "slots",
            Shape::Scalar(&racks::SLOTS),
            "The virtual machines of tenants that each machine has room for, unless `machines` gives another number; \
             none where not written.",
            "slots: 10",
        ),
    ],
    elsewhere: &[],
    variants: || FORMS,
};

fn check_range(text: &str) -> Result<(), Refusal> {
    NameRange::parse(text).map(drop)
}
