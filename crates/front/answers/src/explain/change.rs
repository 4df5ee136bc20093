//! Possible changes of a share.

use super::Explained;
use crate::text::rate;
use weir_alloc::Constraint;
use weir_units::{Bandwidth, ContentionPoint};

/// A sentence or two for the operator who needs another share.
pub(super) fn advice(explained: &Explained<'_>) -> String {
    let policy = explained.policy;
    let service = policy.services().get(explained.service).path();
    let direction = explained.direction;
    let full = |point: ContentionPoint, place: &str, speed: Bandwidth, key: &str| {
        let cap = policy.caps()[point][direction];
        let (what, raise) = if cap < speed {
            (format!("the cap of {} at the {point}", rate(cap)), format!("`{point}` under `caps:`"))
        } else {
            (format!("the {} of {place}", rate(speed)), format!("`{key}`"))
        };
        format!(
            "Other services with unmet demand share {what} with it. To give it more: raise `min` or \
             `weight` of `{service}` (or of what it is nested in) under `{point}:`, lower those of others there, or \
             raise {raise}."
        )
    };
    match explained.explanation.decided_by {
        Constraint::Demand => match explained.headroom {
            Some(headroom) if !headroom.is_unlimited() && headroom > explained.explanation.share => {
                format!("Its whole demand is met; it could take up to {} at once.", rate(headroom))
            }
            _ => "Its whole demand is met.".to_owned(),
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
        Constraint::Max(service, point) => {
            let limiting_service = policy.services().get(service);
            let max = rate(limiting_service.share(point, direction).max);
            let path = limiting_service.path();
            let whose = if service == explained.service { "Its".to_owned() } else { format!("`{path}`'s") };
            format!(
                "{whose} maximum at the {point}, {max}, limits it. To give it more: raise `max` of `{path}` under \
                 `{point}:`."
            )
        }
    }
}
