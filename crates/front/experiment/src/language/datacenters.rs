//! Datacenters filled with tenants, and the measures of them.

use super::*;

/// Virtual machines of a tenant, a machine, or a mean.
const MAX_VMS: i128 = 1_000_000;
/// Refusals in a row.
const MAX_REFUSALS: i128 = 1_000_000;
/// Control intervals of which a value is the mean.
const MAX_INTERVALS: i128 = 1_000;
/// Tenants of a port.
const MAX_TENANTS: i128 = 1_000_000;

pub(crate) const DRAWN_KEYWORDS: &[&str] = &["tenant", "vm"];
pub(crate) const STRATEGIES: &[&str] = &["load", "queues", "bandwidth", "first-fit", "oktopus"];
pub(crate) const MAP_KEYWORDS: &[&str] = &["port", "switch"];
pub(crate) const DIVIDING_KEYWORDS: &[&str] = &["reservations", "queues", "max-min"];
pub(crate) const TENANT_KEYWORDS: &[&str] =
    &["placed", "on-one-machine", "machines", "slots", "bandwidth", "most-of-a-port"];
pub(crate) const QUEUED_KEYWORDS: &[&str] = &["always", "interval"];
pub(crate) const DSCP_KEYWORDS: &[&str] = &["used", "missing"];
pub(crate) const LINKS_KEYWORDS: &[&str] = &["all", "reserved"];

static VMS: Scalar = Scalar::Integer { what: "a number of virtual machines", min: 1, max: MAX_VMS };
static SLOTS: Scalar = Scalar::Integer { what: "a number of slots", min: 1, max: MAX_VMS };
static MACHINES_OF_ONE: Scalar = Scalar::Integer { what: "a number of machines", min: 1, max: MAX_MACHINES };
static REFUSALS: Scalar = Scalar::Integer { what: "a number of refusals", min: 1, max: MAX_REFUSALS };
static INTERVALS: Scalar = Scalar::Integer { what: "a number of intervals", min: 1, max: MAX_INTERVALS };
static TENANTS_OF_A_PORT: Scalar = Scalar::Integer { what: "a number of tenants", min: 0, max: MAX_TENANTS };
static INACTIVE: Scalar = Scalar::Percent { what: "a share of tenants", too_much: "none would be active" };
static INACTIVE_USE: Scalar =
    Scalar::Percent { what: "a part of a reservation", too_much: "they would not be inactive" };
static USED: Scalar = Scalar::Percent { what: "a part of a link", too_much: "no link has more than that" };
static BANDWIDTHS: List = List { what: "a list of bandwidths", item: Shape::Scalar(&RATE), min: 1 };
static VMS_OF_MACHINES: List = List { what: "a list of machines", item: Shape::List(&VMS_OF_A_MACHINE), min: 2 };
static VMS_OF_A_MACHINE: List =
    List { what: "the bandwidths of a machine's virtual machines", item: Shape::Scalar(&RATE), min: 0 };

static SEEDS_BY_SETTING: Record = Record {
    id: "seeds",
    what: "numbers of seeds for each setting",
    doc: "A number of seeds that differs between the settings.",
    keys: &[
        Key::required("quick", Shape::Scalar(&SEEDS), "In the quick setting.", "quick: 1"),
        Key::required("full", Shape::Scalar(&SEEDS), "In the full one.", "full: 10"),
    ],
};

static DATACENTER: Record = Record {
    id: "datacenter",
    what: "a datacenter",
    doc: "A datacenter in which random tenants are placed, as by `weir place`, until it is full. The number of a \
          tenant's virtual machines is exponential.",
    keys: &[
        Key::optional(
            "like",
            Shape::Scalar(&NAME),
            "A datacenter further up, whose keys hold where they are not written here.",
            "like: paper",
        ),
        Key::optional(
            "policy",
            Shape::Scalar(&PATH),
            "The policy file with the network, its slots and its queues, relative to this file.",
            "policy: ../scenarios/qshare-16-to-1.policy.yaml",
        ),
        Key::optional("slots", Shape::Scalar(&SLOTS), "The slots of every machine, if not the policy's.", "slots: 100"),
        Key::optional("mean-vms", Shape::Scalar(&VMS), "The mean number of virtual machines.", "mean-vms: 49"),
        Key::optional("least-vms", Shape::Scalar(&VMS), "The least number of virtual machines; 1.", "least-vms: 2"),
        Key::optional(
            "bandwidths",
            Shape::List(&BANDWIDTHS),
            "The bandwidths of virtual machines, equally frequent.",
            "bandwidths: [10Mb/s, 50Mb/s, 100Mb/s, 200Mb/s, 300Mb/s]",
        ),
        Key::optional(
            "drawn-per",
            Shape::Scalar(&Scalar::Words { what: "a subject of a random bandwidth", words: DRAWN_KEYWORDS }),
            "Whether a `tenant` (where not written) or each `vm` draws a bandwidth.",
            "drawn-per: vm",
        ),
        Key::optional(
            "strategy",
            Shape::Scalar(&Scalar::Words { what: "a strategy", words: STRATEGIES }),
            "The search for places, as of `weir place`: `load` (where not written), `queues`, `bandwidth`, `first-fit` \
             or `oktopus`.",
            "strategy: queues",
        ),
        Key::optional(
            "per-machine",
            Shape::Scalar(&VMS),
            "The most virtual machines of a tenant on one machine; as many as it has slots where not written.",
            "per-machine: 25",
        ),
        Key::optional(
            "machines",
            Shape::Scalar(&MACHINES_OF_ONE),
            "The least number of machines of a tenant with at least as many virtual machines; 1.",
            "machines: 2",
        ),
        Key::optional(
            "refusals",
            Shape::Scalar(&REFUSALS),
            "Tenants in a row without a place that make the datacenter full; 1.",
            "refusals: 100",
        ),
        Key::optional(
            "seeds",
            Shape::OneOf(&[Shape::Scalar(&SEEDS), Shape::Record(&SEEDS_BY_SETTING)]),
            "The number of seeds, of which values are means; 1.",
            "seeds: { quick: 1, full: 10 }",
        ),
    ],
};
pub(super) static DATACENTERS: Map =
    Map { what: "datacenters by name", name: &NAME, value: Shape::Record(&DATACENTER), min: 1 };

pub(super) const DATACENTER_KEY: Key =
    Key::required("datacenter", Shape::Scalar(&TEXT), "The datacenter.", "datacenter: full");
pub(super) const MAP_KEY: Key = Key::optional(
    "map",
    Shape::Scalar(&Scalar::Words { what: "a place of the map to queues", words: MAP_KEYWORDS }),
    "The place where packets get their queue: every `port` by itself (where not written), or the `switch` on \
     arrival, so that a tenant has one queue for all of its ports.",
    "map: switch",
);
pub(super) const INACTIVE_KEY: Key = Key::optional(
    "inactive",
    Shape::Scalar(&INACTIVE),
    "The share of inactive tenants, of those with links; none where not written.",
    "inactive: 50%",
);
pub(super) const INACTIVE_USE_KEY: Key = Key::optional(
    "inactive-use",
    Shape::Scalar(&INACTIVE_USE),
    "The part of their reservations that inactive tenants use; nothing where not written.",
    "inactive-use: 50%",
);
const DIVIDE_KEY: Key = Key::optional(
    "divide",
    Shape::Scalar(&Scalar::Words { what: "a division of links", words: DIVIDING_KEYWORDS }),
    "The division of links: by `reservations` alone, by the weights of `queues` on each link by itself (where not \
     written), or `max-min` fair.",
    "divide: max-min",
);

pub(super) static TENANTS: Record = Record {
    id: "tenants",
    what: "a number of a datacenter's tenants",
    doc: "The tenants with a place, the share of them on one machine, their mean number of machines, the share of \
          slots or of all links' bandwidth that they take, or the most tenants of a switch port.",
    keys: &[
        DATACENTER_KEY,
        Key::required(
            "of",
            Shape::Scalar(&Scalar::Words { what: "a number of tenants", words: TENANT_KEYWORDS }),
            "`placed`, `on-one-machine`, `machines`, `slots`, `bandwidth` or `most-of-a-port`.",
            "of: placed",
        ),
    ],
};
pub(super) static PORTS: Record = Record {
    id: "ports",
    what: "a share of ports",
    doc: "The share of switch ports that so many tenants pass.",
    keys: &[
        DATACENTER_KEY,
        Key::optional("least", Shape::Scalar(&TENANTS_OF_A_PORT), "The least number; 0.", "least: 9"),
        Key::optional("most", Shape::Scalar(&TENANTS_OF_A_PORT), "The largest number; any.", "most: 12"),
    ],
};
pub(super) static QUEUED: Record = Record {
    id: "queued",
    what: "a share of tenants with queues",
    doc: "The share of tenants with a queue of their own at each port: those that never meet more tenants than a port \
          has queues, or those that have them in a control interval. A tenant that is alone in the shared queue \
          counts, and so does one that uses no links.",
    keys: &[
        DATACENTER_KEY,
        Key::required(
            "of",
            Shape::Scalar(&Scalar::Words { what: "`always` or `interval`", words: QUEUED_KEYWORDS }),
            "`always`, or `interval`: the mean over control intervals.",
            "of: always",
        ),
        MAP_KEY,
        INACTIVE_KEY,
        Key::optional("intervals", Shape::Scalar(&INTERVALS), "The number of intervals; 1.", "intervals: 10"),
    ],
};
pub(super) static DSCP_VALUES: Record = Record {
    id: "dscp-values",
    what: "a number of DSCP values",
    doc: "The DSCP values that distinguish tenants with queues while all tenants are active, with that of the shared \
          queue; or the tenants with queues that find none.",
    keys: &[
        DATACENTER_KEY,
        Key::required(
            "of",
            Shape::Scalar(&Scalar::Words { what: "`used` or `missing`", words: DSCP_KEYWORDS }),
            "`used` or `missing`.",
            "of: used",
        ),
        MAP_KEY,
    ],
};
pub(super) static GAIN: Record = Record {
    id: "gain",
    what: "a gain of tenants",
    doc: "The mean over active tenants with links of their bandwidth over their reservation. Tenants in the shared \
          queue have their reservation.",
    keys: &[DATACENTER_KEY, INACTIVE_KEY, INACTIVE_USE_KEY, DIVIDE_KEY, MAP_KEY],
};
pub(super) static LINKS: Record = Record {
    id: "links",
    what: "a share of links",
    doc: "The share of links that are used by more than a part of their capacity, both directions as one.",
    keys: &[
        DATACENTER_KEY,
        Key::optional("above", Shape::Scalar(&USED), "The part; full links where not written.", "above: 60%"),
        INACTIVE_KEY,
        INACTIVE_USE_KEY,
        DIVIDE_KEY,
        MAP_KEY,
        Key::optional(
            "of",
            Shape::Scalar(&Scalar::Words { what: "`all` or `reserved`", words: LINKS_KEYWORDS }),
            "`all` links (where not written), or those with a reservation, `reserved`.",
            "of: reserved",
        ),
    ],
};
pub(super) static RESERVATION: Record = Record {
    id: "reservation",
    what: "a reservation",
    doc: "The bandwidth that a tenant reserves of a machine's link by the hose model. All machines are at one switch.",
    keys: &[
        Key::required(
            "machines",
            Shape::List(&VMS_OF_MACHINES),
            "By machine, the bandwidths of the tenant's virtual machines.",
            "machines: [ [40Mb/s, 30Mb/s], [50Mb/s] ]",
        ),
        Key::required(
            "machine",
            Shape::Scalar(&MACHINES_OF_ONE),
            "The machine whose link it is, from 1 on.",
            "machine: 1",
        ),
    ],
};
