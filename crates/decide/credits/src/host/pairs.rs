//! [`PairWeights`]: the weight of a flow at a port.
//!
//! A policy gives a weight to a service, and a port has a flow for each pair of hosts between which the service sends
//! through it. So that a service does not gain by many pairs, the weight of a flow at a port is its service's weight
//! over the number of the service's pairs at that port, at least a thousandth. Messages carry the service's weight,
//! since the number differs from port to port.
//!
//! Worked example: services of weight 1 and 2 send from a host to three and to one other hosts. The weights of the four
//! flows at the host's interface are 0.333, 0.333, 0.333 and 2.
//!
//! Source: `docs/design/credits-linux.md`.

use std::collections::BTreeMap;
use weir_units::{ServiceId, Weight};

/// The numbers of active pairs at one port, by service.
#[derive(Debug, Clone, Default)]
pub struct PairWeights {
    pairs: BTreeMap<ServiceId, u32>,
}

impl PairWeights {
    /// A flow of a service becomes active.
    pub fn add(&mut self, service: ServiceId) {
        *self.pairs.entry(service).or_default() += 1;
    }

    /// A flow of a service is over.
    pub fn remove(&mut self, service: ServiceId) {
        if let Some(pairs) = self.pairs.get_mut(&service) {
            *pairs -= 1;
            if *pairs == 0 {
                self.pairs.remove(&service);
            }
        }
    }

    /// The number of a service's active flows.
    pub fn count(&self, service: ServiceId) -> u32 {
        self.pairs.get(&service).copied().unwrap_or_default()
    }

    /// The weight of one of the service's flows, whose service has `weight`; rounded down to thousandths.
    pub fn weight(&self, service: ServiceId, weight: Weight) -> Weight {
        let pairs = self.pairs.get(&service).copied().unwrap_or(1);
        Weight::from_thousandths((weight.thousandths() / pairs).max(1)).unwrap_or(weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_a_service_divide_its_weight() {
        let (mut pairs, weight) =
            (PairWeights::default(), |thousandths| Weight::from_thousandths(thousandths).expect("in range"));
        assert_eq!(pairs.weight(ServiceId(1), weight(2_000)), weight(2_000));
        (0..3).for_each(|_| pairs.add(ServiceId(1)));
        pairs.add(ServiceId(2));
        assert_eq!(pairs.weight(ServiceId(1), weight(1_000)), weight(333));
        assert_eq!(pairs.weight(ServiceId(2), weight(2_000)), weight(2_000));
        assert_eq!(pairs.weight(ServiceId(1), weight(1)), weight(1));
        (0..4).for_each(|_| pairs.remove(ServiceId(1)));
        assert_eq!(pairs.weight(ServiceId(1), weight(1_000)), weight(1_000));
    }
}
