//! The weighted queues of tenants on a port: weights and DSCP values that change while the rest stays.
//!
//! Where switches have weighted queues and the policy has tenants, every port has a queue for each tenant that may have
//! one ([`crate::PolicyNeeds`]), of weight 1 and without DSCP values, from the beginning: a controller changes weights
//! and values in place, and no queue comes or goes.
//!
//! Worked example: 3 queues with weights 5, 1, 3 and DSCP 12 in the tenants' queue 1: queue 0 is shared and has weight
//! 5, queue 2 has weight 3 and DSCP 12.
//!
//! Source: QShare §V-D, §VI.

use crate::change::Field;
use crate::port::{DSCPS, FieldError, PortConfig, Schedule};
use std::collections::BTreeMap;

/// A port's configuration with these weights, of the shared queue and of the tenants' queues, and these queues of DSCP
/// values, from 0 on; all other values of tenants' queues are in the shared one.
///
/// # Errors
/// Weights for other queues than the weighted ones of the port, a weight outside 1 to 65,535, a value above 63 or of a
/// strict queue, and a queue that does not exist.
pub fn bound(base: &PortConfig, weights: &[u32], map: &BTreeMap<u8, u8>) -> Result<PortConfig, FieldError> {
    let mut queues: Vec<_> = base.queues().copied().collect();
    let weighted = queues.iter().filter(|queue| !queue.schedule.is_strict()).count();
    if weights.len() != weighted {
        let cause = format!("{} weights for {weighted} weighted queues", weights.len());
        return Err(FieldError::new(Field::Queues, cause, "the switch and the controller need the same policy"));
    }
    for ((number, queue), weight) in (0..).zip(&mut queues).zip(weights) {
        let Some(weight) = u16::try_from(*weight).ok().filter(|weight| *weight > 0) else {
            return Err(FieldError::new(Field::Schedule(number), format!("weight {weight}"), "weights are 1 to 65535"));
        };
        queue.schedule = Schedule::Weighted(weight);
    }
    let mut dscps = base.map();
    for dscp in 0..DSCPS as u8 {
        if usize::from(dscps.queue(dscp)) < weighted {
            dscps.assign(dscp, 0);
        }
    }
    for (dscp, queue) in map {
        let number = usize::from(*queue) + 1;
        if usize::from(*dscp) >= DSCPS || usize::from(dscps.queue(*dscp)) >= weighted || number >= weighted {
            let cause = format!("cannot be in the tenants' queue {queue}");
            return Err(FieldError::new(
                Field::Dscp(*dscp),
                cause,
                "the switch and the controller need the same policy",
            ));
        }
        dscps.assign(*dscp, number as u8);
    }
    Ok(PortConfig::new(base.rate(), queues, dscps)?.remarking(base.remark()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Group, Needs};
    use weir_network::switches::{Offer, Scheduler};

    #[test]
    fn weights_and_values_change_and_levels_stay() {
        let groups = vec![Group { dscps: Vec::new(), weight: 1 }; 2];
        let needs = Needs { mark: None, levels: vec![vec![46]], groups, credits: None, shared: 1 };
        let offer = Offer { queues: 5, scheduler: Scheduler::Mixed { strict: 2, weighted: 3 } };
        let base = needs.of_port(None, None).lower(offer).expect("valid");
        let of = |config: &PortConfig| {
            let schedules: Vec<String> = config.queues().map(|queue| queue.schedule.to_string()).collect();
            (schedules.join(", "), [0, 12, 13, 46, 48].map(|dscp| config.map().queue(dscp)))
        };
        let first = bound(&base, &[5, 1, 3], &BTreeMap::from([(12, 1)])).expect("valid");
        assert_eq!(of(&first), ("weight 5, weight 1, weight 3, strict, strict".to_owned(), [0, 2, 0, 4, 3]));
        let second = bound(&first, &[1, 2, 1], &BTreeMap::from([(13, 0)])).expect("valid");
        assert_eq!(of(&second), ("weight 1, weight 2, weight 1, strict, strict".to_owned(), [0, 0, 1, 4, 3]));
        let refused = |weights: &[u32], dscp, queue| {
            bound(&base, weights, &BTreeMap::from([(dscp, queue)])).expect_err("refused").to_string()
        };
        assert_eq!(refused(&[1, 1], 12, 0), "queues: 2 weights for 3 weighted queues");
        assert_eq!(refused(&[1, 0, 1], 12, 0), "queue 1, scheduler: weight 0");
        assert_eq!(refused(&[1, 1, 1], 12, 2), "DSCP 12: cannot be in the tenants' queue 2");
        assert_eq!(refused(&[1, 1, 1], 46, 0), "DSCP 46: cannot be in the tenants' queue 0");
    }
}
