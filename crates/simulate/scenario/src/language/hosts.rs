//! The keys of `hosts:`.

use super::SIZE;
use weir_document::shape::{Choice, Key, Record, Shape};

static FAIR: Record = Record {
    id: "fair",
    what: "fair interfaces",
    doc: "Interfaces take services in turn, and a flow waits in its sender while its `flow-limit` is in the host: \
          Linux's TCP small queues below a fair qdisc. Hosts drop and mark nothing.",
    keys: &[],
};
static FIFO: Record = Record {
    id: "fifo",
    what: "fifo interfaces",
    doc: "One queue for all packets of a host, first in, first out, as published simulations have it (ns-2, ns-3, \
          htsim): a flow sends as much as its window allows, and others wait behind it. Under a policy, machines' \
          shares of sending do not apply.",
    keys: &[
        Key::optional(
            "buffer",
            Shape::Scalar(&SIZE),
            "Bytes that the interface holds at most, others are dropped; unlimited where not written.",
            "buffer: 1MB",
        ),
        Key::optional(
            "mark",
            Shape::Scalar(&SIZE),
            "The interface marks packets that can be marked while it holds more than this; never where not written.",
            "mark: 97500B",
        ),
    ],
};
static QUEUES: &[&Record] = &[&FAIR, &FIFO];

/// The interfaces of hosts.
pub static HOST_QUEUES: Choice = Choice {
    id: "host-queues",
    what: "the hosts' interfaces",
    doc: "The order in which packets leave a host, and how much of a flow waits there. For the simulator.",
    tag: "queue",
    tag_what: "a kind of interface",
    tag_doc: "The order of departures; `fair` where not written.",
    default: Some("fair"),
    common: &[Key::optional(
        "flow-limit",
        Shape::Scalar(&SIZE),
        "Bytes of a flow that its host holds at most, at least two packets. Where not written: none in a fifo; in \
         fair interfaces two packets, or under a policy as much as Linux allows, about a millisecond's worth.",
        "flow-limit: 128kB",
    )],
    elsewhere: &[],
    variants: || QUEUES,
};

pub(super) const HOSTS_KEY: Key = Key::optional(
    "hosts",
    Shape::Choice(&HOST_QUEUES),
    "The interfaces of hosts; `fair` where not written.",
    "hosts: { queue: fifo, mark: 97500B }",
);
