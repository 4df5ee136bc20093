//! Racks and machines, and properties of machines and switches in every form of a network.

use crate::names;
use std::net::IpAddr;
use weir_document::quote;
use weir_document::scalar::{Refusal, Scalar};
use weir_document::shape::{Key, List, Map, Record, Shape};
use weir_units::Bytes;

use super::{NAME, QUEUE_SHAPE, RATE, SIZE, TIME};

/// Machines of a network under a policy.
pub const MAX_MACHINES: usize = 100_000;
/// The smallest buffer of a switch's port: one full Ethernet frame without its check sequence.
pub const MIN_BUFFER: Bytes = Bytes::new(1_514);
/// The smallest packet size that IPv4 hosts must take (RFC 791).
pub const MIN_MTU: Bytes = Bytes::new(576);
/// Jumbo frames.
pub const MAX_MTU: Bytes = Bytes::new(9000);
/// Spine switches over which a rack's uplink is divided.
pub const MAX_SPINES_OF_RACKS: u32 = 64;

static MACHINE_RANGE: Scalar = Scalar::Checked {
    what: "a machine or a range of machines",
    check: names::check_range,
    pattern: names::RANGE_PATTERN,
    example: "m1",
};

/// Racks with their machines and uplinks.
pub(super) static RACKS_FORM: Record = Record {
    id: "racks",
    what: "a network of racks",
    doc: "Machines in racks, racks on a fabric.",
    keys: &[
        Key::optional(
            "nic",
            RATE_OR_RATES,
            "The speed of every machine's network interface, unless `machines` gives another.",
            "nic: 10Gb/s",
        ),
        Key::required(
            "racks",
            Shape::Map(&RACKS),
            "The racks, by name.",
            "racks: { r1: { uplink: 80Gb/s, machines: [\"m[1-10]\"] } }",
        ),
        Key::optional(
            "links",
            Shape::Record(&LINKS_OF_RACKS),
            "The properties of the links and ports between the racks, for simulations.",
            "links: { delay: 10us, buffer: 256kB, mtu: 1500B, spines: 1 }",
        ),
        Key::optional(
            "switches",
            Shape::Record(&SWITCHES),
            "The properties of the network's switches, for plans.",
            "switches: { buffer: 256kB }",
        ),
    ],
};

static SWITCHES: Record = Record {
    id: "switches",
    what: "the switches",
    doc: "The properties of the network's switches. Plans, levels and `weir switch` depend on them; shares do not.",
    keys: &[
        Key::optional(
            "buffer",
            Shape::OneOf(&[Shape::Scalar(&SIZE), Shape::Record(&PORT_BUFFERS)]),
            "The bytes that each port can queue, from 1514B: the part of a shared buffer that one full port gets.",
            "buffer: 256kB",
        ),
        QUEUES,
        SCHEDULER,
        DSCP_MAP,
        FORWARDERS,
    ],
};
/// The switches of a topology: their buffers are those of the links' queues.
pub(super) static SWITCHES_OF_TOPOLOGY: Record = Record {
    id: "switches-of-topology",
    what: "the switches",
    doc: "The queues of the switches' ports, and whether they grant credits. Levels, credits and `weir switch` depend \
          on them; shares do not.",
    keys: &[QUEUES, SCHEDULER, DSCP_MAP, FORWARDERS],
};
const QUEUES: Key = Key::optional(
    "queues",
    Shape::Scalar(&PORT_QUEUES),
    "The queues of a port; 8 where only a scheduler is written.",
    "queues: 8",
);
static PORT_QUEUES: Scalar = Scalar::Integer { what: "a number of queues", min: 1, max: MAX_PORT_QUEUES as i128 };
/// Queues of a port: the most of the switches that Weir configures.
pub const MAX_PORT_QUEUES: u8 = 16;
/// The schedulers of a port, in the order of their values in a file.
pub const SCHEDULER_KEYWORDS: &[&str] = &["plain", "strict", "weighted"];
static SCHEDULER_WORD: Scalar = Scalar::Words { what: "a scheduler", words: SCHEDULER_KEYWORDS };
const SCHEDULER_SHAPE: Shape = Shape::OneOf(&[Shape::Scalar(&SCHEDULER_WORD), Shape::Record(&MIXED)]);
const SCHEDULER: Key = Key::optional(
    "scheduler",
    SCHEDULER_SHAPE,
    "The order among a port's queues: `plain` has one queue, `strict` serves the most urgent queue first, `weighted` \
     serves queues in turn by weight; or so many strict queues before so many weighted ones.",
    "scheduler: strict",
);
/// The places of DSCP maps, in the order of their values in a file.
pub const DSCP_MAP_KEYWORDS: &[&str] = &["port", "switch"];
static DSCP_MAP_WORD: Scalar = Scalar::Words { what: "a place of DSCP maps", words: DSCP_MAP_KEYWORDS };
const DSCP_MAP: Key = Key::optional(
    "dscp-map",
    Shape::Scalar(&DSCP_MAP_WORD),
    "The place at which a packet's queue is chosen by its DSCP value: `port`, each port on its own, as Linux does; \
     `switch`, on arrival, by one map for all ports of a switch through eight traffic classes, as SONiC does. A tenant \
     then has the same queue at all of its ports of a switch; `port` where not written.",
    "dscp-map: switch",
);
/// Yes and no, in the order of their values.
pub const YES_NO: &[&str] = &["false", "true"];
static FORWARDERS_WORD: Scalar = Scalar::Words { what: "a yes or no", words: YES_NO };
const FORWARDERS: Key = Key::optional(
    "forwarders",
    Shape::Scalar(&FORWARDERS_WORD),
    "`true`: every port of the switches grants credits and counts data against them (PACE); `false` where not written.",
    "forwarders: true",
);
static MIXED: Record = Record {
    id: "mixed-scheduler",
    what: "a scheduler of strict and weighted queues",
    doc: "Strict queues before weighted ones.",
    keys: &[
        Key::required("strict", Shape::Scalar(&PORT_QUEUES), "Strict queues.", "strict: 2"),
        Key::required("weighted", Shape::Scalar(&PORT_QUEUES), "Weighted queues.", "weighted: 6"),
    ],
};
static PORT_BUFFERS: Record = Record {
    id: "port-buffers",
    what: "the buffers of ports",
    doc: "The bytes that a port can queue, by contention point; unknown where not written.",
    keys: &[
        Key::optional("machine", Shape::Scalar(&SIZE), "Each port towards a machine.", "machine: 256kB"),
        Key::optional("rack", Shape::Scalar(&SIZE), "Each port of a rack's uplink, at both ends.", "rack: 4MB"),
    ],
};

const RATE_OR_RATES: Shape = Shape::OneOf(&[Shape::Scalar(&RATE), Shape::Record(&RATES)]);
static RATES: Record = Record {
    id: "rates",
    what: "a pair of rates",
    doc: "A rate for each direction, seen from the machine or the rack.",
    keys: &[
        Key::required("tx", Shape::Scalar(&RATE), "Transmit.", "tx: 10Gb/s"),
        Key::required("rx", Shape::Scalar(&RATE), "Receive.", "rx: 10Gb/s"),
    ],
};

static RACKS: Map = Map { what: "a mapping of racks by name", name: &NAME, value: Shape::Record(&RACK), min: 1 };
static RACK: Record = Record {
    id: "rack",
    what: "a rack",
    doc: "Machines behind one uplink.",
    keys: &[
        Key::required(
            "uplink",
            RATE_OR_RATES,
            "The speed to and from the fabric; several uplinks count as one pipe.",
            "uplink: 80Gb/s",
        ),
        Key::required(
            "machines",
            Shape::List(&MACHINE_NAMES),
            "The machines in it: names, or ranges such as `m[1-10]`.",
            "machines: [m1, m2]",
        ),
    ],
};
static MACHINE_NAMES: List = List { what: "a list of machines", item: Shape::Scalar(&MACHINE_RANGE), min: 1 };

pub(super) static MACHINES: Map = Map {
    what: "a mapping of machines by name or range",
    name: &MACHINE_RANGE,
    value: Shape::Record(&MACHINE),
    min: 0,
};
static MACHINE: Record = Record {
    id: "machine",
    what: "a machine",
    doc: "Properties of a machine.",
    keys: &[
        Key::optional("nic", RATE_OR_RATES, "The speed of its network interface.", "nic: 25Gb/s"),
        Key::optional(
            "address",
            Shape::Scalar(&Scalar::Checked {
                what: "an IP address",
                check: check_ip,
                pattern: r"^[0-9A-Fa-f:.]+$",
                example: "10.0.0.1",
            }),
            "The address at which its agent receives reports of the rack's other machines.",
            "address: 10.0.0.1",
        ),
        Key::optional("slots", Shape::Scalar(&SLOTS), "The virtual machines that it has room for.", "slots: 10"),
    ],
};
/// Virtual machines of one machine.
pub const MAX_SLOTS: u32 = 100_000;
pub(super) static SLOTS: Scalar =
    Scalar::Integer { what: "a number of virtual machines", min: 0, max: MAX_SLOTS as i128 };

/// Links and ports between racks.
pub static LINKS_OF_RACKS: Record = Record {
    id: "policy-links",
    what: "the links",
    doc: "Properties of links and ports.",
    keys: &[
        Key::optional("delay", Shape::Scalar(&TIME), "One-way propagation delay of each link; 10us.", "delay: 10us"),
        Key::optional(
            "buffer",
            Shape::Scalar(&SIZE),
            "Buffer of each switch port; 256kB. Not beside `queue`, which has its own.",
            "buffer: 256kB",
        ),
        Key::optional(
            "queue",
            QUEUE_SHAPE,
            "The queue of each switch port; drop-tail where not written. The lab has drop-tail, with a `mark` or \
             without.",
            "queue: { discipline: ecn, buffer: 256kB, mark: 97500B }",
        ),
        Key::optional("mtu", Shape::Scalar(&SIZE), "The largest IP packet, 576B to 9000B; 1500B.", "mtu: 1500B"),
        Key::optional(
            "spines",
            Shape::Scalar(&Scalar::Integer {
                what: "a number of spine switches",
                min: 1,
                max: MAX_SPINES_OF_RACKS as i128,
            }),
            "Spine switches; a rack's uplink is divided evenly over them; 1.",
            "spines: 1",
        ),
    ],
};

/// Reads an address of one machine. An IPv4-mapped one (RFC 4291 §2.5.5.2) is the IPv4 address, since that is the
/// source address of the machine's packets.
pub(crate) fn ip(text: &str) -> Result<IpAddr, Refusal> {
    let refuse = |cause: &str| Refusal::new(format!("{} {cause}", quote(text)), "write for example `10.0.0.1`");
    let address: IpAddr = text.parse().map_err(|_| refuse("is not an IP address"))?;
    let address = address.to_canonical();
    match is_of_one_machine(address) {
        true => Ok(address),
        false => Err(refuse("is not the address of one machine")),
    }
}

/// Whether an address can be that of a single interface: not unspecified, multicast or broadcast.
pub fn is_of_one_machine(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || is_broadcast)
}

fn check_ip(text: &str) -> Result<(), Refusal> {
    ip(text).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_addresses_of_many_machines() {
        let refused = check_ip("224.0.0.1").map_err(|refusal| refusal.cause);
        assert_eq!(refused, Err("`224.0.0.1` is not the address of one machine".to_owned()));
        assert!(check_ip("10.0.0.1").is_ok() && check_ip("fd00::1").is_ok());
        assert!(check_ip("::ffff:224.0.0.1").is_err() && check_ip("::ffff:0.0.0.0").is_err());
        assert!(check_ip("255.255.255.255").is_err() && check_ip("::ffff:255.255.255.255").is_err());
    }

    #[test]
    fn an_ipv4_mapped_address_is_the_ipv4_one() {
        for (text, address) in
            [("::ffff:10.0.0.1", "10.0.0.1"), ("::ffff:a00:1", "10.0.0.1"), ("::10.0.0.1", "::a00:1")]
        {
            assert_eq!(ip(text).map(|ip| ip.to_string()).unwrap(), address, "{text}");
        }
    }
}
