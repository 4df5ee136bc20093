//! The shares of a service: `min`, `max` and `weight` at a level, with the differences of one
//! direction.
//!
//! Worked example: `{ min: 3Gb/s, tx: { min: 5Gb/s } }` gives a minimum of 5 Gb/s for transmit and
//! of 3 Gb/s for receive.

use crate::model::Share;
use std::collections::BTreeMap;
use weir_document::{Field, Node, Problems, scalar};
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection, Weight};

/// A share with its positions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadShare {
    pub(crate) min: Field<Bandwidth>,
    pub(crate) max: Field<Bandwidth>,
    pub(crate) weight: Field<Weight>,
    pub(crate) keys: Keys,
}

/// The keys of a share that a service has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Keys {
    /// That of the contention point.
    pub(crate) share: bool,
    /// In it, that of the direction.
    pub(crate) direction: bool,
}

impl ReadShare {
    /// A share of which nothing is written.
    pub(crate) fn none() -> Self {
        Self { min: Field::Absent, max: Field::Absent, weight: Field::Absent, keys: Keys::default() }
    }
    fn of(node: Option<&Node>) -> Self {
        let Some(node) = node else { return Self::none() };
        Self {
            min: node.field("min", |text| scalar::rate(text, false, false)),
            max: node.field("max", |text| scalar::rate(text, true, false)),
            weight: node.field("weight", scalar::weight),
            keys: Keys::default(),
        }
    }
    /// The share, with the defaults for missing values.
    pub(crate) fn share(&self) -> Share {
        let default = Share::default();
        Share {
            min: self.min.value().unwrap_or(default.min),
            max: self.max.value().unwrap_or(default.max),
            weight: self.weight.value().unwrap_or(default.weight),
        }
    }
}

/// Reads the shares of `service` at one level and refuses a minimum above its maximum.
pub(crate) fn read(
    service: &str,
    point: ContentionPoint,
    node: Option<&Node>,
    problems: &mut Problems,
) -> PerDirection<ReadShare> {
    let both = ReadShare::of(node);
    let one = |direction: Direction| {
        let of_direction = node.and_then(|node| node.get(direction.name()));
        let special = ReadShare::of(of_direction);
        ReadShare {
            min: special.min.or(both.min),
            max: special.max.or(both.max),
            weight: special.weight.or(both.weight),
            keys: Keys { share: node.is_some(), direction: of_direction.is_some() },
        }
    };
    let shares = PerDirection { tx: one(Direction::Tx), rx: one(Direction::Rx) };
    let conflict = |direction: Direction| match (shares[direction].min, shares[direction].max) {
        (Field::Value(min, min_span), Field::Value(max, max_span)) if min > max => Some((min, min_span, max, max_span)),
        _ => None,
    };
    for ((min, min_span, max, max_span), list) in same_in_directions(conflict) {
        problems.error_with(
            min_span,
            format!(
                "service `{service}`: the minimum {min} at the {point} ({}) is above the maximum {max}",
                direction_names(&list)
            ),
            "lower `min` or raise `max`",
            (max_span, "the maximum"),
        );
    }
    shares
}

/// Groups the directions with the same `value`, so that a mistake in both is reported once.
pub(crate) fn same_in_directions<T: Ord>(value: impl Fn(Direction) -> Option<T>) -> Vec<(T, Vec<Direction>)> {
    let mut groups: BTreeMap<T, Vec<Direction>> = BTreeMap::new();
    for direction in Direction::ALL {
        if let Some(value) = value(direction) {
            groups.entry(value).or_default().push(direction);
        }
    }
    groups.into_iter().collect()
}

/// `tx`, `rx` or both, for messages.
pub(crate) fn direction_names(list: &[Direction]) -> &'static str {
    match list {
        [Direction::Tx] => "tx",
        [Direction::Rx] => "rx",
        _ => "tx and rx",
    }
}
