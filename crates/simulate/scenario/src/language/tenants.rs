//! The keys of `tenants:`.

use super::{HOSTS, TIME_OR_ZERO};
use crate::tenancy::MAX_QUEUES;
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, List, Map, Record, Shape};

pub(crate) const STRATEGY_KEYWORDS: &[&str] = &["load", "queues", "bandwidth", "first-fit", "oktopus"];
static STRATEGY: Scalar = Scalar::Words { what: "a strategy of placement", words: STRATEGY_KEYWORDS };
static QUEUES: Scalar = Scalar::Integer { what: "a number of queues", min: 1, max: MAX_QUEUES as i128 };
static TENANT_NAME: Scalar = Scalar::Text { what: "the name of a tenant" };
static MACHINES: List = List { what: "a list of machines", item: Shape::Scalar(&HOSTS), min: 1 };
static PLACES: Map =
    Map { what: "a mapping of machines by tenant", name: &TENANT_NAME, value: Shape::List(&MACHINES), min: 1 };

static TENANTS: Record = Record {
    id: "tenants-of-run",
    what: "the tenants of a run",
    doc: "The places of the policy's tenants, and the control of their queues.",
    keys: &[
        Key::optional(
            "places",
            Shape::Map(&PLACES),
            "The machine of each virtual machine of a tenant, in the order of their names; ranges name several. Other \
             tenants are placed as `weir place` does.",
            "places: { red: [m1, m1, m2] }",
        ),
        Key::optional(
            "strategy",
            Shape::Scalar(&STRATEGY),
            "The search for places; `load` (the default), `queues` and `bandwidth` are QShare's with these weights.",
            "strategy: oktopus",
        ),
        Key::optional(
            "queues",
            Shape::Scalar(&QUEUES),
            "Weighted queues of each port, the shared one included; those of the policy's switches where not written.",
            "queues: 8",
        ),
        Key::optional(
            "delay",
            Shape::Scalar(&TIME_OR_ZERO),
            "The time of a message between the controller and a machine or a switch; 1ms.",
            "delay: 1ms",
        ),
    ],
};
pub(super) const TENANTS_KEY: Key = Key::optional(
    "tenants",
    Shape::Record(&TENANTS),
    "The places of tenants, and the control of their queues.",
    "tenants: { places: { red: [m1, m2] } }",
);
