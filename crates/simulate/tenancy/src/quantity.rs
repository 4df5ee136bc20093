//! [`Quantity`]: the numbers of a filled datacenter, by name.

use crate::fill::Filled;
use crate::gain::{Condition, Dividing};
use weir_binding::Map;

/// From this part of its capacity on a link is full: gains are sums of floats.
pub const FULL: f64 = 0.999;

/// A number of a filled datacenter. Shares are 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantity {
    /// The tenants that have a place.
    Tenants,
    /// The share of them with all virtual machines on one machine.
    OnOneMachine,
    /// The mean number of machines of a tenant.
    Machines,
    /// The share of slots that are taken.
    Slots,
    /// The share of all links' bandwidth that is reserved.
    Reserved,
    /// The share of switch ports with so many tenants.
    Ports {
        /// At least.
        least: u32,
        /// At most; `None` without bound.
        most: Option<u32>,
    },
    /// The most tenants of a port.
    MostTenants,
    /// The share of tenants that meet no more tenants than a port has queues.
    Uncontended(Map),
    /// The share of tenants that are alone in their queues in a control interval.
    Alone {
        /// Where switches map packets to queues.
        map: Map,
        /// The share of inactive tenants.
        inactive: f64,
        /// Intervals, of which this is the mean.
        intervals: u32,
    },
    /// DSCP values in use, with that of the shared queue.
    DscpValues(Map),
    /// Tenants with queues that find no DSCP value.
    WithoutDscp(Map),
    /// The mean gain of active tenants with links.
    Gain {
        /// The control interval.
        when: Condition,
        /// The division of links.
        dividing: Dividing,
    },
    /// The share of links, both directions as one, that are used by more than a part of their capacity.
    Links {
        /// The control interval.
        when: Condition,
        /// The division of links.
        dividing: Dividing,
        /// The part; `None` for full links.
        above: Option<f64>,
        /// Whether links without a reservation are left out.
        reserved_only: bool,
    },
}

impl Quantity {
    /// The number; `None` where there is nothing to count, such as the gain of no tenants.
    pub fn of(self, filled: &Filled) -> Option<f64> {
        Some(match self {
            Self::Tenants => filled.tenants.len() as f64,
            Self::OnOneMachine => filled.share_of_tenants(|tenant| filled.tenants[tenant].fit.parts.len() == 1),
            Self::Machines => {
                let machines: usize = filled.tenants.iter().map(|tenant| tenant.fit.parts.len()).sum();
                machines as f64 / filled.tenants.len().max(1) as f64
            }
            Self::Slots => filled.slots.0 as f64 / filled.slots.1.max(1) as f64,
            Self::Reserved => filled.reserved().iter().sum::<f64>() / filled.capacity.iter().sum::<f64>(),
            Self::Ports { least, most } => filled.ports_with(least, most),
            Self::MostTenants => filled.most_tenants_of_a_port() as f64,
            Self::Uncontended(map) => {
                let uncontended = filled.uncontended(map);
                filled.share_of_tenants(|tenant| uncontended[tenant])
            }
            Self::Alone { map, inactive, intervals } => filled.share_alone(map, inactive, intervals),
            Self::DscpValues(map) => filled.dscp_values(map).0 as f64,
            Self::WithoutDscp(map) => filled.dscp_values(map).1 as f64,
            Self::Gain { when, dividing } => {
                return filled.mean_gain(&filled.interval(when), dividing);
            }
            Self::Links { when, dividing, above, reserved_only } => {
                let used = filled.utilisation(&filled.interval(when), dividing);
                let counted = used.into_iter().zip(filled.reserved());
                let counted = counted.filter(|(_, reserved)| !reserved_only || *reserved > 0.0);
                let used: Vec<f64> = counted.map(|(used, _)| used).collect();
                let counts = |part: &&f64| above.map_or(**part >= FULL, |above| **part > above);
                used.iter().filter(counts).count() as f64 / used.len().max(1) as f64
            }
        })
    }
}
