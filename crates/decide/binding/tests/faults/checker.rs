//! The invariant: at every port, every queue gets the reservations of its tenants.
//!
//! A tenant's packets are in the queues of the values that its machines send, or have sent until packets with them have
//! left. If all of its machines limit it, it offers its reservation, to one of these queues or the other; otherwise any
//! amount, and its packets must be in one queue. The port divides its link by weight among queues that offer more than
//! their part.

use std::collections::{BTreeMap, BTreeSet};
use weir_binding::binder::PortSettings;

/// A tenant at a port.
#[derive(Debug, Clone)]
pub(crate) struct Present {
    pub(crate) tenant: u32,
    pub(crate) reserved: u64,
    pub(crate) limited: bool,
    /// The values of its packets.
    pub(crate) values: BTreeSet<u8>,
}

/// Checks a port of this rate.
pub(crate) fn check(settings: &PortSettings, rate: u64, tenants: &[Present]) -> Result<(), String> {
    let queue = |value: &u8| settings.map.get(value).map_or(0, |queue| usize::from(*queue) + 1);
    let queues: Vec<Vec<usize>> = tenants
        .iter()
        .map(|tenant| tenant.values.iter().map(queue).collect::<BTreeSet<_>>().into_iter().collect())
        .collect();
    for (tenant, queues) in tenants.iter().zip(&queues) {
        if queues.len() > 1 && !tenant.limited {
            return Err(format!("tenant {} is in queues {queues:?} without a limit", tenant.tenant));
        }
    }
    let choices: usize = queues.iter().map(Vec::len).product();
    for choice in 0..choices {
        let mut rest = choice;
        let chosen: Vec<usize> = queues
            .iter()
            .map(|queues| {
                let at = rest % queues.len();
                rest /= queues.len();
                queues[at]
            })
            .collect();
        check_choice(settings, rate, tenants, &chosen)?;
    }
    Ok(())
}

fn check_choice(settings: &PortSettings, rate: u64, tenants: &[Present], chosen: &[usize]) -> Result<(), String> {
    // Demand and reservation by queue.
    let mut queues: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (tenant, queue) in tenants.iter().zip(chosen) {
        let entry = queues.entry(*queue).or_default();
        entry.0 += if tenant.limited { tenant.reserved as f64 } else { f64::INFINITY };
        entry.1 += tenant.reserved as f64;
    }
    let mut open: BTreeMap<usize, f64> = queues.iter().map(|(queue, (demand, _))| (*queue, *demand)).collect();
    let mut service: BTreeMap<usize, f64> = BTreeMap::new();
    let mut left = rate as f64;
    while !open.is_empty() {
        let sum: f64 = open.keys().map(|queue| f64::from(settings.weights[*queue])).sum();
        let part = |queue: &usize| left * f64::from(settings.weights[*queue]) / sum;
        let served: Vec<usize> =
            open.iter().filter(|(queue, demand)| **demand <= part(queue)).map(|(q, _)| *q).collect();
        if served.is_empty() {
            let parts: Vec<(usize, f64)> = open.keys().map(|queue| (*queue, part(queue))).collect();
            service.extend(parts);
            break;
        }
        for queue in served {
            let demand = open.remove(&queue).unwrap_or(0.0);
            left -= demand;
            service.insert(queue, demand);
        }
    }
    for (queue, (_, reserved)) in queues {
        // Weights are exact in these networks; the arithmetic here is not.
        if service[&queue] < reserved * (1.0 - 1e-9) {
            return Err(format!("queue {queue} has {} of {reserved}: {settings:?}, {tenants:?}", service[&queue]));
        }
    }
    Ok(())
}
