//! [`Capabilities`]: what a driver's ports can do, and the check of a configuration against it.
//!
//! Nothing is rounded and nothing left out silently: a configuration that a port cannot have is refused before anything
//! changes. SONiC's daemons parse numbers without a check and drop a malformed row with a line in syslog, or abort, so
//! the check is the only validation that some drivers have.

use crate::change::{Field, Position};
use crate::port::{FieldError, PortConfig, Schedule};
use std::ops::RangeInclusive;
use weir_units::Bytes;

pub use weir_network::switches::Map;

/// How a value of queues can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Not at all.
    Fixed,
    /// To one value for all queues of a port.
    Uniform,
    /// For each queue.
    PerQueue,
}

/// Whether a port can be limited to a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateSetting {
    /// Its rate is the line's.
    Fixed,
    /// To any rate, or not at all.
    Optional,
    /// A rate is needed: the port has no queue without one.
    Required,
}

/// The abilities of a switch's ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The most queues of a port.
    pub queues: u8,
    /// Whether a port may have strict queues.
    pub strict: bool,
    /// Whether a port may have more than one weighted queue.
    pub weighted: bool,
    /// Whether strict and weighted queues may be at one port.
    pub mixed: bool,
    /// The weights that a queue may have.
    pub weights: RangeInclusive<u16>,
    /// ECN thresholds.
    pub marks: Setting,
    /// Buffers.
    pub buffers: Setting,
    /// The largest buffer of a queue.
    pub buffer_max: Bytes,
    /// Rates.
    pub rate: RateSetting,
    /// Whether a port re-marks arriving packets.
    pub remarks: bool,
    /// The place of DSCP maps.
    pub maps: Map,
}

/// A field that a driver cannot configure as wanted: position, cause and hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {cause}")]
pub struct Refusal {
    /// The field.
    pub position: Position,
    /// The cause.
    pub cause: String,
    /// The remedy.
    pub hint: String,
}

impl Refusal {
    /// An error of a field, at a port.
    pub fn at(switch: &str, port: &str, error: FieldError) -> Self {
        let position = Position { switch: switch.to_owned(), port: port.to_owned(), field: Some(error.field) };
        Self { position, cause: error.cause, hint: error.hint }
    }
}

impl Capabilities {
    /// Whether tenants' queues that are bound for this place of DSCP maps can be configured: a switch with a map at
    /// each port can give all of them the same map.
    pub fn supports(&self, map: Map) -> bool {
        self.maps == Map::PerPort || map == Map::PerSwitch
    }

    /// Everything in a configuration that the ports cannot do; empty if they can do it all.
    pub fn check(&self, config: &PortConfig) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !self.remarks && !config.remark().is_empty() {
            errors.push(FieldError::new(
                Field::Remark,
                format!("{}; these ports do not change packets", config.remark()),
                "connect only machines with an agent to it, on all levels",
            ));
        }
        // A port that only re-marks has the switch's own queues.
        if config.queues().len() == 0 {
            return errors;
        }
        match (self.rate, config.rate()) {
            (RateSetting::Fixed, Some(rate)) => errors.push(FieldError::new(
                Field::Rate,
                format!("{rate}; these ports cannot be limited"),
                "leave the rate out: the port sends at its line rate",
            )),
            (RateSetting::Required, None) => errors.push(FieldError::new(
                Field::Rate,
                "none; these ports queue only below a rate",
                "give the link's rate, or a little less",
            )),
            _ => {}
        }
        self.check_queues(config, &mut errors);
        let marks = || config.queues().map(|queue| queue.mark);
        uniform(self.marks, "thresholds", marks, Field::Mark, &mut errors);
        let buffers = || config.queues().map(|queue| queue.buffer);
        uniform(self.buffers, "buffers", buffers, Field::Buffer, &mut errors);
        for (number, buffer) in (0..).zip(buffers()) {
            if let Some(buffer) = buffer.filter(|buffer| self.buffers != Setting::Fixed && *buffer > self.buffer_max) {
                let cause = format!("{buffer}; at most {} here", self.buffer_max);
                errors.push(FieldError::new(Field::Buffer(number), cause, "choose a smaller buffer"));
            }
        }
        errors
    }

    /// The configuration without what the ports have by themselves and no driver can set: a rate, and buffers. Nothing
    /// else is left out.
    #[must_use]
    pub fn without_fixed(&self, config: &PortConfig) -> PortConfig {
        let rated = match self.rate {
            RateSetting::Fixed => config.clone().at_line_rate(),
            RateSetting::Optional | RateSetting::Required => config.clone(),
        };
        if self.buffers == Setting::Fixed { rated.with_default_buffers() } else { rated }
    }

    fn check_queues(&self, config: &PortConfig, errors: &mut Vec<FieldError>) {
        let (all, strict) = (config.queues().len(), config.queues().filter(|queue| queue.schedule.is_strict()).count());
        let mut refuse = |cause: String, hint: &str| errors.push(FieldError::new(Field::Queues, cause, hint));
        if all > usize::from(self.queues) {
            refuse(format!("{all} queues; at most {} here", self.queues), "use fewer levels or groups");
        }
        if strict > 0 && !self.strict {
            refuse(format!("{strict} strict; these ports have no strict queues"), "use no levels");
        }
        if all - strict > 1 && !self.weighted {
            refuse(format!("{} weighted; these ports have no weighted queues", all - strict), "use no groups");
        }
        if strict > 0 && all > strict && !self.mixed {
            let cause =
                format!("{strict} strict beside {} weighted; these ports have one kind at a time", all - strict);
            refuse(cause, "use either levels or groups");
        }
        for (number, queue) in (0..).zip(config.queues()) {
            if let Schedule::Weighted(weight) = queue.schedule
                && !self.weights.contains(&weight)
            {
                let (least, most) = (self.weights.start(), self.weights.end());
                let cause = format!("weight {weight}; {least} to {most} here");
                errors.push(FieldError::new(Field::Schedule(number), cause, "divide all weights by the same number"));
            }
        }
    }
}

/// Refuses values that cannot be set, or cannot differ.
fn uniform<T: Iterator<Item = Option<Bytes>>>(
    setting: Setting,
    noun: &str,
    values: impl Fn() -> T,
    field: impl Fn(u8) -> Field,
    errors: &mut Vec<FieldError>,
) {
    let first = values().next().flatten();
    let wrong = |value: &Option<Bytes>| match setting {
        Setting::Fixed => value.is_some(),
        Setting::Uniform => *value != first,
        Setting::PerQueue => false,
    };
    let Some((number, _)) = (0..).zip(values()).find(|(_, value)| wrong(value)) else { return };
    let (cause, hint) = match setting {
        Setting::Fixed => (format!("these ports' {noun} cannot be set"), "leave it out"),
        _ => (format!("another value than queue 0; these ports' {noun} are the same for all queues"), "use one value"),
    };
    errors.push(FieldError::new(field(number), cause, hint));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{DscpMap, QueueConfig};
    use weir_units::Bandwidth;

    const PLAIN: QueueConfig = QueueConfig { schedule: Schedule::Weighted(1), mark: None, buffer: None };

    fn all() -> Capabilities {
        Capabilities {
            queues: 8,
            strict: true,
            weighted: true,
            mixed: true,
            weights: 1..=100,
            marks: Setting::PerQueue,
            buffers: Setting::PerQueue,
            buffer_max: Bytes::new(1_000_000),
            rate: RateSetting::Optional,
            remarks: true,
            maps: Map::PerPort,
        }
    }

    fn config(rate: Option<Bandwidth>, queues: Vec<QueueConfig>) -> PortConfig {
        PortConfig::new(rate, queues, DscpMap::all(0)).expect("valid")
    }

    fn errors(capabilities: &Capabilities, config: &PortConfig) -> Vec<String> {
        capabilities.check(config).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn impossible_fields_are_refused_together() {
        let strict = QueueConfig { schedule: Schedule::Strict, ..PLAIN };
        let heavy = QueueConfig { schedule: Schedule::Weighted(300), mark: Some(Bytes::new(9)), ..PLAIN };
        let wanted = config(None, vec![PLAIN, heavy, strict]);
        assert!(Capabilities { weights: 1..=300, ..all() }.check(&wanted).is_empty());
        let least = Capabilities {
            queues: 2,
            mixed: false,
            strict: false,
            weighted: false,
            marks: Setting::Uniform,
            rate: RateSetting::Required,
            ..all()
        };
        assert_eq!(
            errors(&least, &wanted),
            [
                "rate: none; these ports queue only below a rate",
                "queues: 3 queues; at most 2 here",
                "queues: 1 strict; these ports have no strict queues",
                "queues: 2 weighted; these ports have no weighted queues",
                "queues: 1 strict beside 2 weighted; these ports have one kind at a time",
                "queue 1, scheduler: weight 300; 1 to 100 here",
                "queue 1, ECN threshold: another value than queue 0; these ports' thresholds are the same for all \
                 queues",
            ]
        );
    }

    #[test]
    fn a_map_at_each_port_may_be_the_same_at_all() {
        let supports = |maps, map| Capabilities { maps, ..all() }.supports(map);
        assert!(supports(Map::PerPort, Map::PerPort) && supports(Map::PerPort, Map::PerSwitch));
        assert!(supports(Map::PerSwitch, Map::PerSwitch) && !supports(Map::PerSwitch, Map::PerPort));
    }

    #[test]
    fn values_that_cannot_be_set_are_refused() {
        let buffer = QueueConfig { buffer: Some(Bytes::new(2_000_000)), ..PLAIN };
        let wanted = config(Some(Bandwidth::from_gbps(1)), vec![buffer]);
        assert_eq!(errors(&all(), &wanted), ["queue 0, buffer: 2 MB; at most 1 MB here"]);
        let fixed = Capabilities { buffers: Setting::Fixed, rate: RateSetting::Fixed, ..all() };
        assert_eq!(
            errors(&fixed, &wanted),
            ["rate: 1 Gb/s; these ports cannot be limited", "queue 0, buffer: these ports' buffers cannot be set"]
        );
    }
}
