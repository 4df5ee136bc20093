//! The tenants of a policy placed by each strategy, from nothing.
//!
//! Source: QShare §IV and §VII-C (c_b and c_q); Oktopus (accepted tenants).

use super::STRATEGIES;
use crate::error::AnswerError;
use crate::tenants::Places;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use weir_placement::{CableId, Strategy, arrivals, file};
use weir_policy::Policy;
use weir_runs::Stopwatch;
use weir_units::Bandwidth;

/// The results of all strategies.
pub struct Comparison {
    /// The policy's tenants.
    pub tenants: usize,
    /// All of their virtual machines.
    pub vms: u64,
    /// The sum of the bandwidths that they pay for, bit/s.
    pub paid_bps: u64,
    /// The strategies, in the order of [`STRATEGIES`].
    pub outcomes: Vec<Outcome>,
}

/// The result of one strategy.
pub struct Outcome {
    /// The strategy.
    pub name: &'static str,
    /// The tenants with a place.
    pub accepted: usize,
    /// Their virtual machines.
    pub vms: u64,
    /// The sum of the bandwidths that they pay for.
    pub paid: Bandwidth,
    /// Sums of the accepted tenants' costs.
    bandwidth: u128,
    tenants: u64,
    /// The most tenants of any link at the end.
    pub most: u32,
    /// The reserved bandwidth of all links and what tenants can reserve there, bit/s.
    pub reserved: (u128, u128),
    seconds: f64,
}

/// The progress of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// The strategy at work.
    pub strategy: &'static str,
    /// Tenants that it has tried.
    pub tried: usize,
    /// The finished part of the whole, 0 to 1.
    pub done: f64,
}

/// Places all tenants by each strategy; `on_tenant` is called before each of them, and `Break` ends the comparison.
///
/// # Errors
/// A caller that ends it.
pub fn compare(
    policy: &Policy,
    on_tenant: &mut dyn FnMut(Compared) -> ControlFlow<()>,
) -> Result<Comparison, AnswerError> {
    let hoses: Vec<_> = policy.tenants().iter().map(file::hose).collect();
    let order = arrivals(&hoses);
    let mut outcomes = Vec::new();
    for (at, (name, strategy)) in STRATEGIES.into_iter().enumerate() {
        let mut on_tenant = |tried: usize| {
            let done = (at as f64 + tried as f64 / policy.tenants().len() as f64) / STRATEGIES.len() as f64;
            on_tenant(Compared { strategy: name, tried, done })
        };
        outcomes.push(Outcome::of(policy, (name, strategy), &order, &mut on_tenant)?);
    }
    Ok(Comparison {
        tenants: policy.tenants().len(),
        vms: policy.tenants().iter().map(|tenant| u64::from(tenant.vms())).sum(),
        paid_bps: policy.tenants().iter().map(|tenant| tenant.bandwidth().bps()).fold(0, u64::saturating_add),
        outcomes,
    })
}

impl Comparison {
    /// For programs; the keys are those of `weir place --help`.
    pub fn to_json(&self) -> Value {
        let outcome = |outcome: &Outcome| {
            json!({
                "strategy": outcome.name,
                "tenants": self.tenants,
                "accepted": outcome.accepted,
                "vms": self.vms,
                "accepted_vms": outcome.vms,
                "paid_bps": self.paid_bps,
                "accepted_bps": outcome.paid.bps(),
                "mean_cb_bps": outcome.mean_bandwidth(),
                "mean_cq": outcome.mean_tenants(),
                "most_tenants": outcome.most,
                "reserved_bps": u64::try_from(outcome.reserved.0).unwrap_or(u64::MAX),
                "capacity_bps": u64::try_from(outcome.reserved.1).unwrap_or(u64::MAX),
                "milliseconds": outcome.seconds * 1e3,
            })
        };
        json!({ "strategies": self.outcomes.iter().map(outcome).collect::<Value>() })
    }
}

impl Outcome {
    /// The result of a strategy on tenants in an order of arrival.
    fn of(
        policy: &Policy,
        (name, strategy): (&'static str, Strategy),
        order: &[usize],
        on_tenant: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Self, AnswerError> {
        let mut places = Places::new(policy, strategy);
        let watch = Stopwatch::start();
        let mut outcome = Self::new(name);
        for (tried, &index) in order.iter().enumerate() {
            let tenant = &policy.tenants()[index];
            if on_tenant(tried).is_break() {
                return Err(AnswerError::stopped());
            }
            // The most tenants of its links with itself, as at its arrival.
            let Ok(placed) = places.placer.arrive(&tenant.name, file::hose(tenant)) else { continue };
            let fit = placed.fit.clone();
            let ledger = places.placer.ledger();
            outcome.accepted += 1;
            outcome.vms += u64::from(tenant.vms());
            outcome.paid = Bandwidth::from_bps(outcome.paid.bps() + tenant.bandwidth().bps());
            outcome.bandwidth += fit.bandwidth();
            let of_links = fit.reservations.iter().map(|(cable, _)| u64::from(ledger.tenants(*cable)));
            outcome.tenants += of_links.max().unwrap_or(0);
        }
        outcome.seconds = watch.seconds();
        let (fabric, ledger) = (places.placer.fabric(), places.placer.ledger());
        outcome.most = (0..fabric.cables() as u32).map(|at| ledger.tenants(CableId(at))).max().unwrap_or(0);
        outcome.reserved = ledger.reserved_of_all();
        Ok(outcome)
    }

    fn new(name: &'static str) -> Self {
        Self {
            name,
            accepted: 0,
            vms: 0,
            paid: Bandwidth::ZERO,
            bandwidth: 0,
            tenants: 0,
            most: 0,
            reserved: (0, 0),
            seconds: 0.0,
        }
    }

    /// Mean c_b, bit/s.
    pub fn mean_bandwidth(&self) -> u64 {
        self.bandwidth.checked_div(self.accepted as u128).map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Mean c_q.
    pub fn mean_tenants(&self) -> f64 {
        if self.accepted == 0 { 0.0 } else { self.tenants as f64 / self.accepted as f64 }
    }
}
