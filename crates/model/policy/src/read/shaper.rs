//! The keys of a service for machine shapers: `shaper:` and the weights of senders.
//!
//! Worked example: `senders: { m1: 2, "m[3-4]": 0.5 }` gives `m1` twice and `m3` and `m4` half the
//! rate that a receiver feeds back to every sender. A weight of 1 is left out of the result: it is
//! the default.
//!
//! Source: Parley §3.2.1 (weighted senders) and §7 (interval and burst for each service).

use crate::language::{MAX_BURST, MAX_INTERVAL, MAX_SENDERS, MIN_BURST, MIN_INTERVAL};
use crate::model::Shaper;
use std::collections::BTreeMap;
use weir_document::{Field, Node, Problems, Span, Suggester, quote, scalar};
use weir_network::Network;
use weir_network::names::NameRange;
use weir_network::read::ReadNetwork;
use weir_units::{MachineId, Weight};

/// Reads `shaper:`.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Shaper {
    let interval = node.field("interval", |text| scalar::time(text, false));
    if let Field::Value(value, span) = interval
        && !(MIN_INTERVAL..=MAX_INTERVAL).contains(&value)
    {
        let cause = format!("the interval {value} of a receive meter is not between {MIN_INTERVAL} and {MAX_INTERVAL}");
        problems.error(span, cause, "write a few round-trip times of the network, for example `200us`");
    }
    let burst = node.field("burst", scalar::size);
    if let Field::Value(value, span) = burst {
        if value < MIN_BURST {
            let cause = format!("the burst {value} of a limiter is below one frame of {} bytes", MIN_BURST.get());
            problems.error(span, cause, "write at least `1514B`, or the size of the messages whose latency matters");
        } else if value > MAX_BURST {
            let cause = format!("the burst {} is above 256 MiB", quote(&value.to_string()));
            problems.error(span, cause, "a limiter that lets this much through at once limits nothing; write less");
        }
    }
    Shaper { interval: interval.value(), burst: burst.value() }
}

/// Reads `senders:` of one service after the other.
pub(super) struct Senders<'a> {
    network: &'a Network,
    complete: bool,
    suggester: Suggester,
    /// The number of names that may still be written out, in all services together.
    left: u64,
}

impl<'a> Senders<'a> {
    pub(super) fn new(network: &'a ReadNetwork) -> Self {
        Self {
            network: &network.network,
            complete: network.complete,
            suggester: Suggester::default(),
            left: MAX_SENDERS as u64,
        }
    }

    /// The weights that are not 1, by ascending machine.
    pub(super) fn read(&mut self, node: &Node, problems: &mut Problems) -> Vec<(MachineId, Weight)> {
        let mut weights: BTreeMap<MachineId, (Weight, Span)> = BTreeMap::new();
        for (key, value) in node.entries() {
            let Ok(range) = NameRange::parse(&key.text) else { continue };
            if range.count() > self.left {
                let cause = format!("the policy has more than {MAX_SENDERS} weights of senders");
                problems.error(key.span, cause, "check the ends of this range, and leave out machines of weight 1");
                break;
            }
            self.left -= range.count();
            let weight = value.read(scalar::weight).value();
            for name in range.names() {
                let Some(machine) = self.network.machine_named(&name) else {
                    if self.complete {
                        let known = self.network.machines().iter().map(|machine| machine.name());
                        let hint = self.suggester.hint_of_name(&name, known, "name machines of a rack");
                        problems.error(key.span, format!("there is no machine `{name}` in any rack"), hint);
                    }
                    break;
                };
                // A wrong weight has been reported; its machine is known nevertheless.
                let weight = weight.unwrap_or(Weight::ONE);
                if let Some((_, first)) = weights.insert(machine, (weight, key.span)) {
                    let cause = format!("the weight of sender `{name}` is written twice");
                    problems.error_with(key.span, cause, "keep one of them", (first, "first here"));
                    break;
                }
            }
        }
        weights.into_iter().map(|(machine, (weight, _))| (machine, weight)).filter(|(_, w)| *w != Weight::ONE).collect()
    }
}
