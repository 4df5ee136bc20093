//! The keys of `enforcement:`, `shaper:` and `brokers:`: what acts on a policy, and how fast.

use super::{SIZE, SWITCH_NAME, TIME};
use weir_document::scalar::{self, Refusal, Scalar};
use weir_document::shape::{Key, Record, Shape};
use weir_units::Duration;

pub(crate) const ENFORCEMENT_KEYWORDS: &[&str] = &["none", "shaper", "eyeq", "parley"];
pub(crate) const STALE_KEYWORDS: &[&str] = &["keep", "forget"];
/// The shortest period of brokers: a datagram's round trip through a rack is shorter.
pub(crate) const MIN_PERIOD: Duration = Duration::from_millis(1);

static ENFORCEMENT: Scalar = Scalar::Checked {
    what: "a kind of enforcement",
    check: check_enforcement,
    pattern: "^(none|shaper|eyeq|parley)$",
    example: "parley",
};

fn check_enforcement(text: &str) -> Result<(), Refusal> {
    if text == "rack-broker" {
        return Err(Refusal::new(
            "rack brokers are no enforcement of their own: they set what machine shapers enforce",
            "write `parley`: machine shapers with rack brokers, and the fabric broker where the policy speaks of the fabric",
        ));
    }
    scalar::word(text, "a kind of enforcement", ENFORCEMENT_KEYWORDS).map(drop)
}

pub(super) const ENFORCEMENT_KEY: Key = Key::optional(
    "enforcement",
    Shape::Scalar(&ENFORCEMENT),
    "What enforces the policy. `none`: nothing, to see the transport alone. `shaper`: machine shapers, which enforce what the \
     policy says about machines. `eyeq`: machine shapers as EyeQ has them, with its constants. `parley` (the default): \
     machine shapers with rack brokers, and with the fabric broker where the policy speaks of the fabric.",
    "enforcement: parley",
);

static SHAPER: Record = Record {
    id: "shaper-settings",
    what: "the machine shapers",
    doc: "What machine shapers do where a service's own `shaper` in the policy does not say otherwise.",
    keys: &[
        Key::optional(
            "interval",
            Shape::Scalar(&TIME),
            "The interval over which receive meters measure, 10us to 1s; 200us at interfaces of 10Gb/s and above, longer in proportion where the slowest is slower.",
            "interval: 200us",
        ),
        Key::optional(
            "burst",
            Shape::Scalar(&SIZE),
            "What a limiter lets through at once after a pause; what the enforcement's own limiters have where not written.",
            "burst: 64kB",
        ),
    ],
};
pub(super) const SHAPER_KEY: Key = Key::optional(
    "shaper",
    Shape::Record(&SHAPER),
    "How machine shapers work, for services that do not say.",
    "shaper: { interval: 200us }",
);

static BROKERS: Record = Record {
    id: "brokers",
    what: "the brokers",
    doc: "How often rack brokers and the fabric broker work, for `enforcement: parley`.",
    keys: &[
        Key::optional(
            "period",
            Shape::Scalar(&TIME),
            "How often a rack measures, tells and shares; 1s. At least 1ms.",
            "period: 1s",
        ),
        Key::optional(
            "timeout",
            Shape::Scalar(&TIME),
            "How long without a word from anyone before a machine returns to the static policy; five periods.",
            "timeout: 5s",
        ),
        Key::optional(
            "fabric-period",
            Shape::Scalar(&TIME),
            "How often racks and the fabric broker talk; ten periods.",
            "fabric-period: 10s",
        ),
        Key::optional(
            "fabric-timeout",
            Shape::Scalar(&TIME),
            "How long without a word from the fabric broker before a rack forgets its limits; five fabric periods.",
            "fabric-timeout: 50s",
        ),
        Key::optional(
            "stale",
            Shape::Scalar(&Scalar::Words { what: "what becomes of a word", words: STALE_KEYWORDS }),
            "What becomes of the last word of a machine that fell silent: `keep` it (the default), or `forget` it after the \
             timeout.",
            "stale: keep",
        ),
        Key::optional(
            "fabric",
            Shape::Scalar(&SWITCH_NAME),
            "The machine that the fabric broker runs on; the first of the policy where not written.",
            "fabric: m1",
        ),
    ],
};
pub(super) const BROKERS_KEY: Key = Key::optional(
    "brokers",
    Shape::Record(&BROKERS),
    "How often brokers work, and where the fabric broker runs.",
    "brokers: { period: 1s, fabric-period: 10s }",
);
