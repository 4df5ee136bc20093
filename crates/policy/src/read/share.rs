//! The shares of a service: `min`, `max` and `weight` at a level, with what differs in one direction.
//!
//! Worked example: `{ min: 3Gb/s, tx: { min: 5Gb/s } }` gives a minimum of 5 Gb/s for transmit and of
//! 3 Gb/s for receive.

use crate::model::Share;
use weir_document::{Field, Node, Problems, Span, scalar};
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection, Weight};

/// A share with the places it was written at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadShare {
    pub(crate) min: Field<Bandwidth>,
    pub(crate) max: Field<Bandwidth>,
    pub(crate) weight: Field<Weight>,
}

impl ReadShare {
    fn of(node: Option<&Node>) -> Self {
        let Some(node) = node else {
            return Self { min: Field::Absent, max: Field::Absent, weight: Field::Absent };
        };
        Self {
            min: node.field("min", |text| scalar::rate(text, false, false)),
            max: node.field("max", |text| scalar::rate(text, true, false)),
            weight: node.field("weight", scalar::weight),
        }
    }
    /// The share, with the defaults where nothing is written.
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
        let special = ReadShare::of(node.and_then(|node| node.get(direction.name())));
        ReadShare {
            min: special.min.or(both.min),
            max: special.max.or(both.max),
            weight: special.weight.or(both.weight),
        }
    };
    let shares = PerDirection { tx: one(Direction::Tx), rx: one(Direction::Rx) };
    let mut told: Option<(Span, Span)> = None;
    for direction in Direction::ALL {
        let share = shares[direction];
        let (Field::Value(min, min_span), Field::Value(max, max_span)) = (share.min, share.max) else { continue };
        // The same two values for both directions are one mistake.
        if min > max && told.replace((min_span, max_span)) != Some((min_span, max_span)) {
            problems.error_with(
                min_span,
                format!("service `{service}`: the minimum {min} at the {point} is above the maximum {max}"),
                "lower `min` or raise `max`",
                (max_span, "the maximum"),
            );
        }
    }
    shares
}
