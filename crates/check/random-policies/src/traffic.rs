//! Drawn traffic: backlogged TCP flows and constant UDP.

use crate::{FAR, FAR_MACHINES, NIC_KBPS};
use rand::Rng;
use rand::rngs::StdRng;
use weir_policy::Policy;
use weir_units::{Bandwidth, MachineId, ServiceId};

/// The traffic of a service at a drawn machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The drawn machine.
    pub machine: MachineId,
    /// A leaf service.
    pub service: ServiceId,
    /// The other end's name.
    pub far: String,
    /// How much it sends, or is sent.
    pub amount: Amount,
}

/// The amount of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// TCP flows that always have data.
    Backlogged {
        /// The number of flows, 1 to 3.
        flows: u32,
    },
    /// UDP at a constant rate, headers included.
    Constant(Bandwidth),
}

impl Amount {
    /// The demand; [`Bandwidth::UNLIMITED`] when backlogged.
    pub fn demand(self) -> Bandwidth {
        match self {
            Self::Backlogged { .. } => Bandwidth::UNLIMITED,
            Self::Constant(rate) => rate,
        }
    }
}

/// Loads for two thirds of the services at drawn machines; at least one.
pub(crate) fn draw(rng: &mut StdRng, policy: &Policy) -> Vec<Load> {
    let network = policy.network();
    let mut loads = Vec::new();
    while loads.is_empty() {
        for machine in (0..network.machines().len() as u32).map(MachineId) {
            if network.machine(machine).name().starts_with(FAR) {
                continue;
            }
            for (service, _) in policy.services().leaves() {
                if !rng.random_bool(2.0 / 3.0) {
                    continue;
                }
                let amount = if rng.random_bool(0.7) {
                    Amount::Backlogged { flows: rng.random_range(1..=3) }
                } else {
                    Amount::Constant(Bandwidth::from_bps(NIC_KBPS * 1000 * rng.random_range(2..=100) / 100))
                };
                let far = format!("{FAR}{}", rng.random_range(1..=FAR_MACHINES));
                loads.push(Load { machine, service, far, amount });
            }
        }
    }
    loads
}
