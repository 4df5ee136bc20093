//! The keys of `enforcement:`, `shaper:` and `brokers:`.

use super::{HOST_OR_LIST, SIZE, SWITCH_KEYWORDS, SWITCH_NAME, TIME};
use weir_document::scalar::{self, Refusal, Scalar};
use weir_document::shape::{Key, Record, Shape};
use weir_units::Duration;

pub(crate) const ENFORCEMENT_KEYWORDS: &[&str] = &[
    "none",
    "shaper",
    "eyeq",
    "parley",
    "levels",
    "qshare",
    "static",
    "elasticswitch",
    "cautious-elasticswitch",
    "trinity",
    "one-queue-trinity",
    "seawall",
];
/// The index of the first system that limits pairs; they are in the order of [`weir_pair_rates::PairSystem::ALL`].
pub(crate) const SYSTEMS_FROM: usize = 6;
pub(crate) const STALE_KEYWORDS: &[&str] = &["keep", "forget"];
pub(crate) const RULE_KEYWORDS: &[&str] = &["ceilings", "published"];
/// The shortest period of brokers: a datagram's round trip through a rack is shorter.
pub(crate) const MIN_PERIOD: Duration = Duration::from_millis(1);

static ENFORCEMENT: Scalar = Scalar::Checked {
    what: "a kind of enforcement",
    check: check_enforcement,
    pattern: "^(none|shaper|eyeq|parley|levels|qshare|static|elasticswitch|cautious-elasticswitch|trinity|one-queue-trinity|\
              seawall)$",
    example: "parley",
};

fn check_enforcement(text: &str) -> Result<(), Refusal> {
    if text == "rack-broker" {
        return Err(Refusal::new(
            "rack brokers are no enforcement of their own: they set what machine shapers enforce",
            "write `parley`: machine shapers with rack brokers, and the fabric broker where the policy limits the \
             fabric",
        ));
    }
    scalar::word(text, "a kind of enforcement", ENFORCEMENT_KEYWORDS).map(drop)
}

pub(super) const ENFORCEMENT_KEY: Key = Key::optional(
    "enforcement",
    Shape::Scalar(&ENFORCEMENT),
    "The enforcement of the policy. `none`: none, to see the transport alone. `shaper`: machine shapers, which \
     enforce the policy's limits for machines. `eyeq`: machine shapers with EyeQ's constants. `parley` (the default): \
     machine shapers with rack brokers, and with the fabric broker if the policy limits the fabric. `levels`: the \
     policy's latency levels alone, which `shaper`, `parley` and `qshare` have, too. `qshare`: machine shapers, and \
     the policy's tenants bound to queues of the switches. `static`, `elasticswitch`, `cautious-elasticswitch`, \
     `trinity`, `one-queue-trinity` and `seawall`: hosts limit pairs of machines of the policy's tenants, as the \
     systems do that QShare was compared with.",
    "enforcement: parley",
);

static SWITCH: Scalar = Scalar::Words { what: "a switch", words: SWITCH_KEYWORDS };
static LEVELS: Record = Record {
    id: "level-parts",
    what: "the parts of latency levels",
    doc: "The parts of the enforcement of latency levels, for comparisons.",
    keys: &[
        Key::optional("regulators", Shape::Scalar(&SWITCH), "Hosts limit levels; `on`.", "regulators: off"),
        Key::optional("priorities", Shape::Scalar(&SWITCH), "Ports serve levels first; `on`.", "priorities: off"),
        Key::optional(
            "without-agent",
            HOST_OR_LIST,
            "Hosts without an agent: nothing limits what they send, and its class is the `priority` of the traffic.",
            "without-agent: [m3]",
        ),
    ],
};
pub(super) const LEVELS_KEY: Key = Key::optional(
    "levels",
    Shape::Record(&LEVELS),
    "The parts of the enforcement of the policy's latency levels.",
    "levels: { regulators: off }",
);

static SHAPER: Record = Record {
    id: "shaper-settings",
    what: "the machine shapers",
    doc: "The parameters of machine shapers, unless a service's own `shaper` in the policy sets others.",
    keys: &[
        Key::optional(
            "interval",
            Shape::Scalar(&TIME),
            "The interval over which receive meters measure, 10us to 1s; 200us at interfaces of 10Gb/s and above, \
             longer in proportion where the slowest is slower.",
            "interval: 200us",
        ),
        Key::optional(
            "burst",
            Shape::Scalar(&SIZE),
            "The burst of a destination limiter after a pause; that of the enforcement where not written.",
            "burst: 64kB",
        ),
    ],
};
pub(super) const SHAPER_KEY: Key = Key::optional(
    "shaper",
    Shape::Record(&SHAPER),
    "The parameters of machine shapers, for services without their own.",
    "shaper: { interval: 200us }",
);

static BROKERS: Record = Record {
    id: "brokers",
    what: "the brokers",
    doc: "The periods of rack brokers and the fabric broker, for `enforcement: parley`.",
    keys: &[
        Key::optional(
            "period",
            Shape::Scalar(&TIME),
            "The period of measurements, reports and shares of a rack; 1s. At least 1ms.",
            "period: 1s",
        ),
        Key::optional(
            "timeout",
            Shape::Scalar(&TIME),
            "The time without any message after which a machine returns to the static policy; five periods.",
            "timeout: 5s",
        ),
        Key::optional(
            "fabric-period",
            Shape::Scalar(&TIME),
            "The period of messages between racks and the fabric broker; ten periods.",
            "fabric-period: 10s",
        ),
        Key::optional(
            "fabric-timeout",
            Shape::Scalar(&TIME),
            "The time without a message from the fabric broker after which a rack drops its limits; five fabric \
             periods.",
            "fabric-timeout: 50s",
        ),
        Key::optional(
            "stale",
            Shape::Scalar(&Scalar::Words { what: "a treatment of stale reports", words: STALE_KEYWORDS }),
            "The treatment of the last report of a silent machine: `keep` it (the default), or `forget` it after \
             the timeout.",
            "stale: keep",
        ),
        Key::optional(
            "rule",
            Shape::Scalar(&Scalar::Words { what: "a rule of limits", words: RULE_KEYWORDS }),
            "`ceilings` (the default): all services have limits under a maximum and at a contended uplink, and changes \
             are reported within a tenth of the period. `published`: the rule and the timing of the paper.",
            "rule: published",
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
    "The periods of brokers, and the machine of the fabric broker.",
    "brokers: { period: 1s, fabric-period: 10s }",
);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_pair_rates::PairSystem;

    #[test]
    fn every_system_of_pairs_is_a_keyword() {
        let words: Vec<&str> = PairSystem::ALL.iter().map(|system| system.word()).collect();
        assert_eq!(ENFORCEMENT_KEYWORDS[SYSTEMS_FROM..], words);
        let Scalar::Checked { pattern, .. } = ENFORCEMENT else { unreachable!("a checked scalar") };
        assert_eq!(pattern, format!("^({})$", ENFORCEMENT_KEYWORDS.join("|")));
    }
}
