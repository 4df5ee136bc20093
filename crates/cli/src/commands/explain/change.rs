//! What one could change about a share.

use super::Case;
use crate::text::rate;
use weir_alloc::Constraint;
use weir_units::{Bandwidth, ContentionPoint};

/// A sentence or two for the person who wants another share.
pub(super) fn advice(case: &Case<'_>) -> String {
    let policy = case.policy;
    let service = policy.services().get(case.service).path();
    let direction = case.direction;
    let full = |point: ContentionPoint, place: &str, speed: Bandwidth, key: &str| {
        let cap = policy.caps()[point][direction];
        let (what, raise) = if cap < speed {
            (format!("the cap of {} at the {point}", rate(cap)), format!("`{point}` under `caps:`"))
        } else {
            (format!("the {} of {place}", rate(speed)), format!("`{key}`"))
        };
        format!(
            "Others wait with it for {what}. To give it more: raise `min` or `weight` of `{service}` (or of what it is \
             nested in) under `{point}:`, lower those of others there, or raise {raise}."
        )
    };
    match case.explanation.decided_by {
        Constraint::Demand => match case.headroom {
            Some(headroom) if !headroom.is_unlimited() && headroom > case.explanation.share => format!(
                "It gets all that it asks for and is not limited; it could take up to {} at once.",
                rate(headroom)
            ),
            _ => "It gets all that it asks for and is not limited.".to_owned(),
        },
        Constraint::Machine(machine) => {
            let machine = policy.network().machine(machine);
            full(ContentionPoint::Machine, &format!("machine {}", machine.name()), machine.nic()[direction], "nic")
        }
        Constraint::Rack(rack) => {
            let rack = policy.network().rack(rack);
            full(ContentionPoint::Rack, &format!("rack {}", rack.name()), rack.uplink()[direction], "uplink")
        }
        Constraint::Fabric => {
            let speed = policy.network().racks().iter().map(|rack| rack.uplink()[direction]).sum();
            full(ContentionPoint::Fabric, "all uplinks", speed, "uplink")
        }
        Constraint::Max(held, point) => {
            let held_service = policy.services().get(held);
            let max = rate(held_service.share(point, direction).max);
            let path = held_service.path();
            let whose = if held == case.service { "Its".to_owned() } else { format!("`{path}`'s") };
            format!(
                "{whose} maximum at the {point}, {max}, holds it. To give it more: raise `max` of `{path}` under `{point}:`."
            )
        }
    }
}
